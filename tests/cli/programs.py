"""The program as users run it, and small data for it."""

from __future__ import annotations

import csv
import random

from forking import run_program as program

__all__ = ["TOPICS", "program", "sentence", "tagged_texts", "write_csv"]

TOPICS = {
    "music": "guitar piano melody concert rhythm singer chord opera",
    "sport": "football goal match team racket tennis score runner",
    "cooking": "recipe oven butter flavour kitchen soup bread spice",
    "space": "planet orbit rocket telescope galaxy astronaut comet moon",
}


def sentence(drawn, topics):
    words = [word for topic in topics for word in drawn.sample(TOPICS[topic].split(), 4)]
    drawn.shuffle(words)
    return "the " + " ".join(words)


def tagged_texts(n=120, seed=0):
    """Return texts about one or two topics, and their tags."""
    drawn = random.Random(seed)
    tags = [sorted(drawn.sample(sorted(TOPICS), drawn.choice([1, 2]))) for _ in range(n)]
    return [sentence(drawn, topics) for topics in tags], tags


def write_csv(path, texts, tags, header=("id", "description", "tags")):
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(header)
        rows.writerows(
            (f"a{row}", text, "; ".join(some))
            for row, (text, some) in enumerate(zip(texts, tags, strict=True))
        )
    return path
