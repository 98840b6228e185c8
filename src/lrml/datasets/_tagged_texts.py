"""Texts with tags that are made up on the spot, for examples and trials; and a writer of texts."""

from __future__ import annotations

import csv
import json
import os

import numpy as np
from sklearn.utils import check_random_state

from lrml._files import atomic_file
from lrml._shown import shown
from lrml.core.checks import is_integer
from lrml.datasets._formats import format_of
from lrml.datasets._lines import CsvText, compressor
from lrml.datasets._tables import check_delimiter
from lrml.datasets._texts import TextDataset

_TOPICS = {
    "astronomy": "telescope, comet, planet, galaxy, eclipse, orbit, observatory, meteor shower, moon",
    "baking": "sourdough, flour, oven, yeast, cinnamon rolls, pie crust, rye bread, dough, pastry",
    "chess": "opening, endgame, bishop, rook, checkmate, tournament, pawn, clock, castling, gambit",
    "cycling": "bicycle, gears, helmet, saddle, chain, mountain pass, tyres, brakes, bike lane, long ride",
    "gardening": "soil, tomatoes, compost, roses, greenhouse, weeds, seedlings, watering can, hedge, harvest",
    "hiking": "trail, boots, summit, backpack, tent, ridge, map, mountain hut, valley, long walk",
    "history": "empire, archive, treaty, castle, medieval town, revolution, old letters, museum, dynasty",
    "music": "violin, rehearsal, chord, concert, melody, drum kit, orchestra, song, recording, piano",
    "painting": "canvas, brush, watercolour, portrait, oil paint, landscape, sketch, easel, palette, varnish",
    "photography": "camera, lens, tripod, exposure, portrait, film roll, darkroom, flash, shutter, landscape",
    "programming": "compiler, loop, function, bug, unit test, library, database, script, keyboard, release",
    "sailing": "mast, harbour, anchor, rudder, wind, life jacket, tide, lighthouse, deck, knots",
}
_SENTENCES = {
    "question": (
        "Does anybody know how the {} and the {} go together?",
        "What should I buy first, the {} or the {}?",
        "Is there a good book on the {}?",
    ),
    "how-to": (
        "First look after the {}, then turn to the {}.",
        "It takes three steps to get from the {} to the {}.",
        "With a little patience the {} will do what you want.",
    ),
    "report": (
        "Last weekend we spent hours on the {} and the {}.",
        "The {} was better than the {}, and everybody agreed.",
        "In the end the {} made the day.",
    ),
}
_FORMATS = ("csv", "jsonl")
_SUFFIXES = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def make_tagged_texts(
    n_texts: int = 1000, *, random_state: int | np.random.RandomState | None = 0
) -> TextDataset:
    """Make short texts about one to three of twelve topics, each also a question, a how-to or a report.

    Parameters
    ----------
    n_texts : int, default=1000
        How many texts.
    random_state : int, RandomState or None, default=0
        The same number gives the same texts.

    Returns
    -------
    TextDataset
        Texts of two to five sentences. The tags are the topics of a text and its kind, 15 in all. Some topics
        share words, and some sentences come from another topic, so that no model is perfect.

    Examples
    --------
    >>> from lrml.datasets import make_tagged_texts
    >>> texts = make_tagged_texts(200)
    >>> texts
    <TextDataset tagged texts: 200 texts, 15 tags>
    >>> texts.tags[0]
    ('history', 'sailing', 'question')
    """
    if not is_integer(n_texts) or n_texts < 1:
        raise ValueError(
            f"n_texts must be an integer of at least 1, got {shown(n_texts)}. Pass n_texts=1000."
        )
    rng = check_random_state(random_state)
    words = {topic: listed.split(", ") for topic, listed in _TOPICS.items()}
    names, kinds = list(words), list(_SENTENCES)
    texts, tags = [], []
    for _ in range(n_texts):
        topics = [names[place] for place in rng.choice(len(names), 1 + rng.binomial(2, 0.3), replace=False)]
        kind = kinds[rng.randint(len(kinds))]
        sentences = []
        for number in range(rng.randint(2, 6)):
            topic = (
                topics[number % len(topics)] if rng.random_sample() < 0.9 else names[rng.randint(len(names))]
            )
            pattern = _SENTENCES[kind][rng.randint(len(_SENTENCES[kind]))]
            chosen = rng.choice(words[topic], 2, replace=False)
            sentences.append(pattern.format(*chosen))
        texts.append(" ".join(sentences))
        tags.append((*topics, kind))
    return TextDataset("tagged texts", texts, tags, provenance="made by lrml.datasets.make_tagged_texts")


def write_texts(dataset: TextDataset, path: str | os.PathLike[str], *, tag_separator: str = ";") -> None:
    """Write texts and tags to a file, from which `read_texts` gets them back.

    Parameters
    ----------
    dataset : TextDataset
        What to write.
    path : path-like
        The file: ``.csv`` or ``.tsv`` with the columns ``text`` and ``tags``, or ``.jsonl`` or ``.ndjson``
        with an object a line, whose tags are a list. ``.gz``, ``.bz2`` or ``.xz`` at the end compresses it.
        It appears whole or not at all.
    tag_separator : str, default=";"
        What stands between two tags in CSV.

    Raises
    ------
    ValueError
        If a tag contains the separator.
    OutputError
        If the file cannot be written.
    """
    kind = format_of(path, None, _FORMATS, _SUFFIXES, nameable=False)
    rows = zip(dataset.texts, dataset.tags or [()] * len(dataset), strict=True)
    if kind == "jsonl":
        tagged = dataset.tags is not None
        lines = [
            json.dumps({"text": text} | ({"tags": tags} if tagged else {}), ensure_ascii=False)
            for text, tags in rows
        ]
        content = "".join(f"{line}\n" for line in lines).encode()
    else:
        wrong = next((tag for tag in dataset.tag_names if tag_separator in tag), None)
        if wrong is not None:
            raise ValueError(
                f"a tag must not contain the separator {tag_separator!r}, got {shown(wrong)}. Pass another "
                "tag_separator, or write JSON lines."
            )
        stream = CsvText()
        table = csv.writer(stream, delimiter=check_delimiter(path, None))
        table.writerow(["text"] if dataset.tags is None else ["text", "tags"])
        for text, tags in rows:
            table.writerow([text] if dataset.tags is None else [text, tag_separator.join(tags)])
        content = stream.encoded()
    with atomic_file(path) as file, compressor(path, file) as out:
        out.write(content)
