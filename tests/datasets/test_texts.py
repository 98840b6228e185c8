"""Texts with tags: what is read, and which column is taken for what."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer

from lrml.datasets import (
    DatasetFormatError,
    Roles,
    TextDataset,
    make_tagged_texts,
    open_source,
    read_dataset,
    write_dataset,
)

TEXTS = ("a small red ball", "", "a train, made of wood\nwith wheels", "ein Bär für Kinder")
TAGS = (("red", "round"), (), ("made of wood", "wheels"), ("soft",))


def guess(path, **options):
    return open_source(path, **options).roles


def table(delimiter=",", separator="; "):
    stream = io.StringIO(newline="")
    rows = csv.writer(stream, delimiter=delimiter)
    rows.writerow(["id", "text", "tags"])
    rows.writerows((number, text, separator.join(TAGS[number])) for number, text in enumerate(TEXTS))
    return stream.getvalue().encode()


def objects():
    rows = zip(TEXTS, TAGS, strict=True)
    lines = [
        json.dumps({"text": text or None, "tags": ["", *(f" {t} " for t in tags), *tags]})
        for text, tags in rows
    ]
    return "\r\n\r\n".join(lines).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("toys.csv", b"\xef\xbb\xbf" + table(separator=" |")),
        ("toys.csv.gz", gzip.compress(table(separator="\n"), mtime=0)),
        ("toys.tsv", table("\t", separator=" ,,")),
        ("toys.jsonl", objects()),
    ],
)
def test_all_formats_give_the_same(write, name, content):
    toys = read_dataset(write(content, name))
    assert isinstance(toys, TextDataset)
    assert (toys.texts, toys.tags) == (TEXTS, TAGS)  # tags are trimmed, and each counts once
    assert (toys.name, toys.provenance, toys.n_empty, len(toys)) == ("toys", name, 1, 4)


# Roles.


@pytest.mark.parametrize(
    ("header", "text", "tags"),
    [
        ("id,title,description,tags", "description", "tags"),
        ("Title,Body,Keywords,Year", "Body", "Keywords"),
        ("docText,docTags,title,x", "docText", "docTags"),
        ("category,headline,year,x", "headline", "category"),
        ("post_id,post_body,topic_list,author", "post_body", "topic_list"),
    ],
)
def test_roles_by_name(write, header, text, tags):
    cells = {text: "some words, more words and a few", tags: "red;blue"}
    row = ",".join(f'"{cells.get(name, 7)}"' for name in header.split(","))
    roles = guess(write(f"{header}\n{row}\n{row}\n"))
    assert (roles.kind, roles.text, roles.tags, roles.tag_separator) == ("text", (text,), tags, ";")


def test_roles_by_values(write):
    rng = random.Random(1)
    lines = ["n,what,author,marks"]
    for k in range(50):
        words = " ".join(f"word{rng.randrange(1000)}" for _ in range(12))
        marks = "|".join(rng.sample(["red", "round", "made of wood", "sweet"], 2))
        lines.append(f"{k},{words},Ann Lee Smith the {k}th,{marks}")
    roles = guess(write("\n".join(lines)))
    assert (roles.kind, roles.text, roles.tags, roles.tag_separator) == ("text", ("what",), "marks", "|")
    assert roles.explain() == [
        'text: column "what"',
        "tags: column \"marks\", separated by '|'",
        'ignored: columns "n", "author"',
    ]


@pytest.mark.parametrize(
    ("values", "separator"),
    [
        (["a; b", "c, d; a"], ";"),  # commas may be inside
        (["a,b", "c"], ","),
        (["machine learning", "deep learning", "art"], None),
        ([f"w{k % 3} w{k % 4} w{k % 5}" for k in range(60)], " "),
        (['["a", "b"]', "[]"], "json"),
        (["['a, b', 'c']", "['d']"], "json"),
        (["a\nb", "c"], "\n"),
    ],
)
def test_separators(write, values, separator):
    rows = [json.dumps({"text": f"text number {k}", "tags": value}) for k, value in enumerate(values)]
    source = open_source(write("\n".join(rows), "toys.jsonl"))
    assert source.roles.tag_separator == separator
    if separator == "json":
        assert source.read().tags[0] in {("a", "b"), ("a, b", "c")}


def test_a_column_for_each_tag(write):
    path = write("comment,toxic,rude,id\nyou are nice,0,no,12\nyou are not,1,yes,13\n")
    comments = read_dataset(path)
    assert comments.tags == ((), ("toxic", "rude"))
    assert guess(path).labels == ("toxic", "rude")
    assert read_dataset(path, tags=["rude"]).tags == ((), ("rude",))
    assert read_dataset(path, tags=False).tags is None
    with pytest.raises(DatasetFormatError, match=r"line 2: '12'.*'id'"):
        read_dataset(path, tags=["toxic", "id"])


@pytest.mark.parametrize("mark", [";", "\t"])
def test_the_delimiter_of_csv_is_seen(write, mark):
    path = write(table(mark, separator=" ,"))  # commas are in the cells
    toys = read_dataset(path)
    assert (toys.texts, toys.tags, guess(path).delimiter) == (TEXTS, TAGS, mark)
    assert guess(path).explain()[0].startswith("cells: ")
    typed = {";": ";", "\t": r"\t"}[mark]  # as in a shell
    assert read_dataset(path, delimiter=typed).tags == TAGS
    for text in ("a;text,b;tags\n1;one two three,2;x\n", "text\none; two\nthree; four\n"):  # not clear
        assert guess(write(text), text=text.splitlines()[0].split(",")[0]).delimiter == ","


def test_said_roles_win_and_are_kept(write):
    path = write("text,tags,a,b,c\nx y z,1,first part,second,k/l\nx,2,,third,\n")
    asked = Roles(text=["a", "b"], tags="c", tag_separator="/")
    for source in (
        open_source(path, roles=asked),
        open_source(path, text=["a", "b"], tags="c", tag_separator="/"),
    ):
        found = source.read()
        assert found.texts == ("first part\nsecond", "third")
        assert found.tags == (("k", "l"), ())
        assert source.roles.ignore == ("text", "tags")
    kept = json.loads(json.dumps(source.roles.kept()))
    assert open_source(path, roles=Roles.of(kept)).roles == source.roles


def test_tables_of_numbers_are_told_from_texts(write):
    for text, hint in (
        ("a,b,c,d\n1.5,2,1,0\n2,3,0,1\n", "last 2"),
        ("a,b,label\n1.5,2,1\n2,3,0\n", "labels"),
    ):
        with pytest.raises(DatasetFormatError, match=hint):
            guess(write(text))
    roles = guess(write("id,a,b,tags\nx1,1.5,2,r;s\nx2,2,3,r\n"))
    assert (roles.kind, roles.features, roles.tags, roles.ignore) == ("numbers", ("a", "b"), "tags", ("id",))
    assert roles.explain()[-2:] == ['features: columns "a", "b"', 'ignored: column "id"']
    for name, content in {"a.txt": "2 5 3\n0 1:2\n1 2:3\n", "a.svm": "0 1:1\n"}.items():
        assert guess(write(content, name)).kind == "numbers"
    assert guess(write("2 5 3 4\nsome\n", "a.txt")).kind == "text"


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        ("body,abstract,x", "some text here,other text here,1", r'"abstract", "body".*text=\["'),
        ("text,tags,labels", "some text,a;b,c;d", r'"tags", "labels".*tags="\.\.\."'),
        ("a,b", "x,y", r'"a", "b".*text='),
        ("a,b", ",", r'"a", "b".*empty'),
    ],
)
def test_unclear_roles(write, header, row, message):
    with pytest.raises(DatasetFormatError, match=message):
        open_source(write(f"{header}\n{row}\n{row}\n"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("toys.csv", "", "no header"),
        ("toys.csv", "text,tags\n", "no rows"),
        ("toys.csv", "text,tags\na,b\nc\n", "line 3: .* 1 cells"),
        ("toys.csv", "text,text\na,b\n", "'text' is there twice"),
        ("toys.csv", b"text,tags\na,b\nc\xffd,e\n", "line 3: "),
        ("toys.csv", "text,tags\n ,b\n,c\n", "empty"),
        ("toys.csv", 'text,tags\na,"[1, 2]"\nb,"[f(x)]"\n', r"line 3: .*'\[f\(x\)\]'"),
        ("toys.jsonl", "", "no row"),
        ("toys.jsonl", '{"text": "a"}\n{"text": \n', "line 2: "),
        ("toys.jsonl", '[{"text": "a"}]\n', "line 1: "),
        ("toys.jsonl", '{"text": "a b c"}\n{"text": {"b": 1}}\n', "line 2: .*'text'"),
        ("toys.jsonl", '{"text": "a", "tags": [["b"]]}\n', "line 1: .*'tags'"),
        ("toys.jsonl", "[" * 100_000, "line 1: "),
        ("toys.txt", b"ok\n\xff\n", "line 2: "),
        ("toys.txt", "\n\n", "2 texts are empty"),
    ],
)
def test_wrong_files(write, name, content, message):
    options = {"text": "text"} if name in {"toys.jsonl", "toys.csv"} and content else {}
    with pytest.raises(DatasetFormatError, match=rf"{name}.*(?:{message})"):
        read_dataset(write(content, name), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": 3}, "text is 3"),
        ({"text": ["a", "a"]}, "each once"),
        ({"tag_separator": ""}, "tag_separator"),
        ({"delimiter": ",,"}, "delimiter"),
        ({"text": "txt"}, "'txt'.*mean text"),
        ({"text": "tags", "tags": "tags"}, "'tags' is in"),
        ({"tags": "text"}, '"tags".*text='),
    ],
)
def test_wrong_options(write, options, message):
    with pytest.raises(ValueError, match=message):
        open_source(write("text,tags\na,b\n"), **options)


# Texts that are made up, and written.


_WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
_NAMES = st.text(st.characters(categories=["L", "N", "P"], exclude_characters=";"), min_size=1, max_size=5)


@given(rows=st.lists(st.tuples(_WORDS, st.lists(_NAMES, max_size=3, unique=True)), min_size=1, max_size=8))
@pytest.mark.parametrize("suffix", ["csv", "tsv.gz", "jsonl", "ndjson.xz"])
def test_any_texts_come_back(rows, suffix, tmp_path_factory):
    texts, tags = ["some text", *(text for text, _ in rows)], [("a",), *(tuple(some) for _, some in rows)]
    path = tmp_path_factory.mktemp("any") / f"any.{suffix}"
    write_dataset(TextDataset("any", texts, tags), path)
    again = read_dataset(path, text="text", tags="tags", tag_separator=";")
    assert (again.texts, again.tags) == (tuple(texts), tuple(tags))
    write_dataset(TextDataset("any", texts), path)
    assert read_dataset(path, text="text").tags is None


def test_made_texts_can_be_learnt():
    made = make_tagged_texts(600)
    assert (made.texts, len(made.label_names)) == (make_tagged_texts(600).texts, 15)
    assert made.texts != make_tagged_texts(600, random_state=1).texts
    Y = MultiLabelBinarizer().fit_transform(made.tags)
    model = make_pipeline(TfidfVectorizer(), RidgeClassifier()).fit(made.texts[:400], Y[:400])
    assert 0.6 < f1_score(Y[400:], model.predict(made.texts[400:]), average="micro") < 0.99
    with pytest.raises(ValueError, match="n_texts"):
        make_tagged_texts(0)


# Corpora of Annif.

URIS = (("http://a.org/1", "http://a.org/2"), ("http://a.org/2",), ())


def check_annif(source):
    found = source.read()
    assert found.texts == ('a "quick fox', "dogs, lazy", "nothing here")
    assert found.tags == URIS
    assert [block.tags for block in source.blocks(2)] == [URIS[:2], URIS[2:]]
    assert [block.tags for block in source.blocks(2, 1)] == [URIS[2:]]
    assert source.identity()


def test_annif_tsv_without_a_header(write):
    listed = [" ".join(f"<{uri}>" for uri in some) for some in URIS]
    texts = ('a "quick fox', "dogs, lazy", "nothing here")
    lines = [f"{text}\t{uris}\n" for text, uris in zip(texts, listed, strict=True)]
    source = open_source(write("".join(lines), "annif.tsv"))
    check_annif(source)
    copy = write("", "copy.tsv")
    source.write(source.records(), copy)  # as lrml split does
    assert copy.read_text() == "".join(lines)
    check_annif(open_source(write(gzip.compress("".join(lines).encode()), "annif.tsv.gz")))
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(["text", "subject_uris", "subject_labels"])
    rows.writerows(zip(texts, listed, ["fox", "dog", ""], strict=True))
    check_annif(open_source(write(out.getvalue(), "annif.csv")))
    subjects = [[{"uri": uri, "label": "x"} for uri in some] for some in URIS]
    lines = [json.dumps({"text": t, "subjects": s}) + "\n" for t, s in zip(texts, subjects, strict=True)]
    check_annif(open_source(write("".join(lines), "annif.jsonl")))


def test_annif_folders(tmp_path):
    for name, text, uris in zip("abc", ('a "quick fox', "dogs, lazy", "nothing here"), URIS, strict=True):
        (tmp_path / f"{name}.txt").write_text(text)
        if name == "a":
            (tmp_path / "a.tsv").write_text("".join(f"<{uri}>\tlabel\n" for uri in uris))
        elif uris:
            (tmp_path / f"{name}.key").write_text("".join(f"{uri}\n" for uri in uris))
    check_annif(open_source(tmp_path))
    for path in (*tmp_path.glob("*.key"), *tmp_path.glob("*.tsv")):
        path.unlink()
    assert open_source(tmp_path).read().tags is None
