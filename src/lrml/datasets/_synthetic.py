"""Short texts with tags that are made up, to try things out."""

from __future__ import annotations

import tomllib
from importlib import resources

import numpy as np
from sklearn.utils import check_random_state

from lrml.core.checks import check_integer
from lrml.datasets._dataset import TextDataset


def make_tagged_texts(
    n_texts: int = 1000, *, random_state: int | np.random.RandomState | None = 0
) -> TextDataset:
    """Make short texts about one to three of twelve topics, each also a question, a how-to or a report.

    The tags are the topics of a text and its kind, 15 in all. Some topics share words, and some sentences
    come from another topic, so that no model is perfect. The same ``random_state`` gives the same texts.

    Examples
    --------
    >>> from lrml.datasets import make_tagged_texts
    >>> texts = make_tagged_texts(200)
    >>> texts
    <TextDataset tagged texts: 200 texts, 15 tags>
    >>> texts.tags[0]
    ('history', 'sailing', 'question')
    """
    check_integer("n_texts", n_texts)
    rng = check_random_state(random_state)
    made = tomllib.loads(resources.files("lrml.datasets").joinpath("texts.toml").read_text("utf-8"))
    words, patterns = (
        {topic: listed.split(", ") for topic, listed in made["topics"].items()},
        made["sentences"],
    )
    names, kinds = list(words), list(patterns)
    texts, tags = [], []
    for _ in range(n_texts):
        topics = [names[place] for place in rng.choice(len(names), 1 + rng.binomial(2, 0.3), replace=False)]
        kind = kinds[rng.randint(len(kinds))]
        sentences = []
        for number in range(rng.randint(2, 6)):
            topic = (
                topics[number % len(topics)] if rng.random_sample() < 0.9 else names[rng.randint(len(names))]
            )
            pattern = patterns[kind][rng.randint(len(patterns[kind]))]
            chosen = rng.choice(words[topic], 2, replace=False)
            sentences.append(pattern.format(*chosen))
        texts.append(" ".join(sentences))
        tags.append((*topics, kind))
    return TextDataset("tagged texts", texts, tags, provenance="made by lrml.datasets.make_tagged_texts")
