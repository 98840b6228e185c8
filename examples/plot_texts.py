"""
Texts and their tags, end to end
================================

From a file of texts and tags to a model that says which words spoke for a tag.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import lrml
from lrml import TextTagger
from lrml.datasets import make_tagged_texts, read_dataset, write_dataset
from lrml.metrics import evaluate

# %%
# A file with a column of texts and a column of tags is all that is needed. This one is made up.

folder = Path(tempfile.mkdtemp())
write_dataset(make_tagged_texts(1000, random_state=0), folder / "articles.csv")
articles = read_dataset(folder / "articles.csv")
print(articles.texts[0], articles.tags[0])

# %%
# Learn from the first 800, and judge by the others. The tagger chooses its strength, and the score from which
# a tag is assigned, on texts that it holds back.

tagger = TextTagger().fit(articles.texts[:800], articles.tags[:800])
print(evaluate(tagger, articles.texts[800:], articles.tags[800:]))

# %%
# Tags for a new text, and the words that spoke for the best of them.

text = "Is there a good telescope for a comet?"
best = tagger.predict_top_k([text], k=3).labels[0]
words = tagger.explain(text, best[0])
print(tagger.predict([text]))

names, shares = zip(*reversed(words), strict=True)
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.barh(names, shares, color=["#0072B2" if share > 0 else "#D55E00" for share in shares])
ax.set(xlabel="contribution to the score", title=f"Why “{best[0]}”?")

# %%
# A model file holds numbers and names, nothing that could run.

lrml.save(tagger, folder / "articles.lrml")
print(lrml.load(folder / "articles.lrml").predict([text]))
