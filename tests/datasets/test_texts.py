from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
from itertools import chain

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer

from lrml.datasets import (
    DatasetFormatError,
    TextDataset,
    guess_roles,
    iter_texts,
    make_tagged_texts,
    read_texts,
    write_texts,
)

TEXTS = ("a small red ball", "", "a train, made of wood\nwith wheels", "ein Bär für Kinder")
TAGS = (("red", "round"), (), ("made of wood", "wheels"), ("soft",))


@pytest.fixture(autouse=True)
def _usual_limit_of_cells():
    """Reading texts raises the limit for the whole process."""
    before = csv.field_size_limit(131_072)
    yield
    csv.field_size_limit(before)


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="toys.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def _joined(lists):
    return tuple(chain.from_iterable(lists))


def _csv(delimiter=",", separator="; "):
    stream = io.StringIO(newline="")
    rows = csv.writer(stream, delimiter=delimiter)
    rows.writerow(["id", "text", "tags"])
    for number, (text, tags) in enumerate(zip(TEXTS, TAGS, strict=True)):
        rows.writerow([number, text, separator.join(tags)])
    return stream.getvalue().encode()


def _jsonl():
    rows = zip(TEXTS, TAGS, strict=True)
    return "".join(json.dumps({"text": text or None, "tags": tags}) + "\n" for text, tags in rows).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("toys.csv", _csv()),
        ("toys.csv", b"\xef\xbb\xbf" + _csv(separator="|")),
        ("toys.csv.gz", gzip.compress(_csv(separator="\n"), mtime=0)),
        ("toys.tsv", _csv("\t", separator=" ,")),
        ("toys.jsonl", _jsonl()),
        ("toys.ndjson", _jsonl().replace(b"\n", b"\r\n\r\n")),
        ("toys.jsonl.gz", gzip.compress(_jsonl(), mtime=0)),
    ],
)
def test_all_formats_give_the_same(write, name, content):
    toys = read_texts(write(content, name))
    assert isinstance(toys, TextDataset)
    assert (toys.texts, toys.tags) == (TEXTS, TAGS)
    assert (toys.name, toys.provenance, toys.n_empty, len(toys)) == ("toys", name, 1, 4)
    assert toys.tag_names == ("made of wood", "red", "round", "soft", "wheels")
    assert repr(toys) == "<TextDataset toys: 4 texts, 1 empty, 5 tags>"


@pytest.mark.parametrize("tags", [list(map(list, TAGS)), list(map(", ".join, TAGS))])
def test_parquet(tmp_path, tags):
    path = tmp_path / "toys.parquet"
    frame = pd.DataFrame({"id": range(4), "text": [text or None for text in TEXTS], "tags": tags})
    frame.set_index("id").to_parquet(path)
    toys = read_texts(path)
    assert (toys.texts, toys.tags, toys.roles.ignored) == (TEXTS, TAGS, ())


def test_plain_text(write):
    path = write("one\r\n\n three \n", "some.txt")
    assert read_texts(path).texts == ("one", "", " three ")
    assert read_texts(path).tags is None
    assert read_texts(path).roles.explain() == ["text: each line of the file", "tags: none"]
    assert list(iter_texts(path, rows=2)) == [(["one", ""], None), ([" three "], None)]


def test_streams_stay_open():
    stream = io.BytesIO(_csv())
    blocks = list(iter_texts(stream, format="csv", rows=3))
    assert [len(texts) for texts, _ in blocks] == [3, 1]
    assert _joined(texts for texts, _ in blocks) == TEXTS
    assert _joined(tags for _, tags in blocks) == TAGS
    assert not stream.closed
    assert list(iter_texts(io.BytesIO(b"a\nb"))) == [(["a", "b"], None)]


def test_plain_text_is_answered_line_by_line():
    """A person who types, or a program that waits for the answer, is not asked for a thousand lines first."""
    reader, writer = os.pipe()
    with open(reader, "rb") as stream, open(writer, "wb", buffering=0) as out:
        out.write(b"one\n")
        blocks = iter_texts(stream, rows=1)
        assert next(blocks) == (["one"], None)
        out.write(b"two\n")
        assert next(blocks) == (["two"], None)


def test_blocks_are_the_whole(write):
    rng = random.Random(0)
    rows = [
        (f"text {k} of many", [f"tag{rng.randrange(9)}" for _ in range(rng.randrange(4))])
        for k in range(3000)
    ]
    path = write("text,tags\n" + "".join(f"{text},{'|'.join(tags)}\n" for text, tags in rows))
    whole = read_texts(path)
    blocks = list(iter_texts(path, rows=700))
    assert [len(texts) for texts, _ in blocks] == [700] * 4 + [200]
    assert _joined(texts for texts, _ in blocks) == whole.texts == tuple(text for text, _ in rows)
    assert whole.tags == tuple(tuple(dict.fromkeys(tags)) for _, tags in rows)


# Roles.


def _roles(path, **options):
    roles = guess_roles(path, **options)
    return roles.text, roles.tags, roles.tag_separator


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
    assert _roles(write(f"{header}\n{row}\n{row}\n")) == ((text,), tags, ";")


def test_roles_by_values(write):
    rng = random.Random(1)
    lines = ["n,what,author,marks"]
    for k in range(50):
        words = " ".join(f"word{rng.randrange(1000)}" for _ in range(12))
        marks = "|".join(rng.sample(["red", "round", "made of wood", "sweet"], 2))
        lines.append(f"{k},{words},Ann Lee Smith the {k}th,{marks}")
    roles = guess_roles(write("\n".join(lines)))
    assert (roles.kind, roles.text, roles.tags, roles.tag_separator) == ("text", ("what",), "marks", "|")
    assert roles.ignored == ("n", "author")
    assert roles.explain() == [
        'text: column "what" (longest text)',
        "tags: column \"marks\", separated by '|' (its values)",
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
    path = write("\n".join(rows), "toys.jsonl")
    assert guess_roles(path).tag_separator == separator
    if separator == "json":
        assert read_texts(path).tags[0] in {("a", "b"), ("a, b", "c")}


def test_blanks_between_tags(write):
    """Words that come again in other company are tags; otherwise the reader is told what it might pass."""
    rng = random.Random(0)
    words = [f"w{k}" for k in range(400)]
    tags = [rng.sample(words, rng.randrange(1, 4)) for _ in range(520)]
    path = write("text,tags\n" + "".join(f"some text {k},{' '.join(t)}\n" for k, t in enumerate(tags)))
    toys = read_texts(path)
    assert toys.tags == tuple(map(tuple, tags))
    assert toys.roles.explain()[1] == (
        'tags: column "tags", separated by blanks (by its name). If each value is one tag, pass '
        'tag_separator=";" (on the command line: --tag-separator ";")'
    )
    assert read_texts(path, tag_separator=";").tags[0] == (" ".join(tags[0]),)

    fields = ["machine learning", "deep learning", "art", "modern history", "graph theory", "number theory"]
    path = write("text,tags\n" + "".join(f"some text {k},{fields[k % 6]}\n" for k in range(60)))
    toys = read_texts(path)
    assert toys.tag_names == tuple(sorted(fields))
    assert toys.roles.explain()[1] == (
        'tags: column "tags", one tag each (by its name). If blanks separate tags, pass tag_separator=" " '
        '(on the command line: --tag-separator " ")'
    )
    assert "learning" in read_texts(path, tag_separator=" ").tag_names


def test_a_column_for_each_tag(write):
    path = write("comment,toxic,rude,id\nyou are nice,0,no,12\nyou are not,1,yes,13\n")
    comments = read_texts(path)
    assert comments.tags == ((), ("toxic", "rude"))
    assert comments.roles.labels == ("toxic", "rude")
    assert comments.roles.explain()[1] == 'tags: columns "toxic", "rude", 0 or 1 each (their values)'
    assert read_texts(path, tags=["rude"]).tags == ((), ("rude",))
    assert read_texts(path, tags=False).tags is None
    with pytest.raises(DatasetFormatError, match=r"line 2: column 'id' must hold 0 or 1.*got '12'"):
        read_texts(path, tags=["toxic", "id"])


@pytest.mark.parametrize("mark", [";", "\t"])
def test_the_delimiter_of_csv_is_seen(write, mark):
    path = write(_csv(mark, separator=" ,"))  # commas are in the cells
    toys = read_texts(path)
    assert (toys.texts, toys.tags, toys.roles.delimiter) == (TEXTS, TAGS, mark)
    spelled = {";": "';'", "\t": "tabulators"}[mark]
    assert toys.roles.explain()[0] == f"cells: separated by {spelled} (by the first rows)"
    assert guess_roles(path) == toys.roles
    with open(path, "rb") as stream:
        assert next(iter_texts(stream, format="csv"))[1] == list(TAGS)
    typed = {";": ";", "\t": r"\t"}[mark]  # as in a shell
    assert read_texts(path, delimiter=typed).tags == TAGS
    assert not any(line.startswith("cells") for line in guess_roles(path, delimiter=typed).explain())


def test_commas_are_the_delimiter_in_doubt(write):
    for text in ("a;text,b;tags\n1;one two three,2;x\n", "text\none; two\nthree; four\n"):
        assert guess_roles(write(text), text=text.splitlines()[0].split(",")[0]).delimiter == ","


def test_said_roles_win(write):
    path = write("text,tags,a,b,c\nx y z,1,first part,second,k/l\nx,2,,third,\n")
    found = read_texts(path, text=["a", "b"], tags="c", tag_separator="/")
    assert found.texts == ("first part\nsecond", "third")
    assert found.tags == (("k", "l"), ())
    assert found.roles.ignored == ("text", "tags")


def test_tags_are_trimmed_and_count_once(write):
    toys = read_texts(write('text,tags\nsome words," red,,round , red"\nmore,\n'))
    assert toys.tags == (("red", "round"), ())
    tags = [[" red ", "", 7, "red"], "x, y", 4]
    rows = "\n".join(json.dumps({"text": text, "tags": some}) for text, some in zip("ab3", tags, strict=True))
    assert read_texts(write(rows, "toys.jsonl")).tags == (("red", "7"), ("x", "y"), ("4",))


def test_numbers(write):
    with pytest.raises(
        DatasetFormatError, match=r"which columns are labels, got 4 columns.*labels=-n.*last 2 col"
    ):
        guess_roles(write("a,b,c,d\n1.5,2,1,0\n2,3,0,1\n"))
    with pytest.raises(DatasetFormatError, match="must say which columns are labels"):
        guess_roles(write("a,b,label\n1.5,2,1\n2,3,0\n"))
    roles = guess_roles(write("id,a,b,tags\nx1,1.5,2,r;s\nx2,2,3,r\n"))
    assert (roles.kind, roles.features, roles.tags, roles.ignored) == ("numbers", ("a", "b"), "tags", ("id",))
    assert roles.explain()[-2:] == ['features: columns "a", "b"', 'ignored: column "id"']
    for name, content in {"a.txt": "2 5 3\n0 1:2\n1 2:3\n", "a.svm": "0 1:1\n", "a.arff.gz": b""}.items():
        assert guess_roles(write(content, name)).kind == "numbers"
    assert guess_roles(write("0 1:1\n", "a.svm")).explain() == ["numbers: a file of svmlight"]
    assert guess_roles(write("2 5 3 4\nsome\n", "a.txt")).kind == "text"


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        (
            "body,abstract,x",
            "some text here,other text here,1",
            r'text must be clear, got 2.*"body".*text=\["',
        ),
        (
            "text,tags,labels",
            "some text,a;b,c;d",
            r'tags must be clear, got 2.*"tags", "labels".*tags="\.\.\."',
        ),
        ("a,b", "x,y", r'must hold texts.*among "a", "b"\. Pass the column, as text='),
    ],
)
def test_unclear_roles(write, header, row, message):
    path = write(f"{header}\n{row}\n{row}\n")
    for read in (read_texts, guess_roles, iter_texts):
        with pytest.raises(DatasetFormatError, match=message):
            read(path)


# Wrong files.


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("toys.csv", "", "a table must have a header, got an empty file"),
        ("toys.csv", "text,tags\n", "must have a row, got none"),
        ("toys.csv", "text,tags\na,b\nc\n", "line 3: a row must have 2 cells.*got 1 cell"),
        (
            "toys.csv",
            "text;tags\na b;c\nd\n",  # not clear
            r"line 1: .*separated by ',', got 'text;tags'\. Pass delimiter=\";\" \(on the command",
        ),
        ("toys.csv", "text,text\na,b\n", "line 1: the names of columns must be unique, got 'text'"),
        ("toys.csv", b"text,tags\na,b\nc\xffd,e\n", r"line 3: text must be in UTF-8, got 'c\\xffd"),
        ("toys.csv", 'text,tags\n"a,b\n', "line 2: rows must be in CSV form"),
        ("toys.csv", "text,tags\n ,b\n,c\n", "some text must not be empty|must hold texts"),
        ("toys.jsonl", "", "must have a row"),
        ("toys.jsonl", '{"text": "a"}\n{"text": \n', "line 2: a line must be JSON, got"),
        ("toys.jsonl", '[{"text": "a"}]\n', "line 1: a line must be a JSON object"),
        ("toys.jsonl", '{"text": "a b c"}\n{"text": {"b": 1}}\n', "line 2: column 'text' must hold text"),
        ("toys.jsonl", '{"text": "a", "tags": [["b"]]}\n', "line 1: a list in column 'tags' must hold texts"),
        ("toys.jsonl", '{"text": "a", "tags": "b"}\n{"tags": {}}\n', "line 2: column 'tags' must hold tags"),
        ("toys.jsonl", '{"text": "\\ud800 b"}\n', "line 1: text must not have half of a surrogate"),
        ("toys.jsonl", "[" * 100_000, "line 1: a line must be JSON"),
        ("toys.txt", b"ok\n\xff\n", "line 2: text must be in UTF-8"),
        ("toys.txt", "\n\n", "some text must not be empty, got 2 empty texts"),
        ("toys.parquet", b"PAR1", "whole and in Parquet format"),
        ("toys.csv", gzip.compress(b"text\n", mtime=0), "line 1: the file must hold text, got gzip data"),
    ],
)
def test_wrong_files(write, name, content, message):
    options = {"text": "text", "tags": None} if name in {"toys.jsonl", "toys.csv"} and content else {}
    with pytest.raises(DatasetFormatError, match=rf"{name}.*(?:{message})"):
        read_texts(write(content, name), **options)


def test_a_list_that_is_none(write):
    with pytest.raises(DatasetFormatError, match=r"line 3: column 'tags' must hold lists such as"):
        read_texts(write('text,tags\na,"[1, 2]"\nb,"[f(x)]"\n'))


def test_missing_and_unreadable_files(tmp_path, write):
    with pytest.raises(FileNotFoundError, match=r"must be a file, got '.*none\.csv', which does not exist"):
        read_texts(tmp_path / "none.csv")
    with pytest.raises(ValueError, match=r"one of csv, jsonl, parquet, text, got the suffix '\.doc'"):
        read_texts(write("a", "toys.doc"))
    path = write("text,tags\na,b\n")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user reads every file")
    with pytest.raises(PermissionError):
        read_texts(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": 3}, "text must be a column, or a list of columns to be joined, each named once, got 3"),
        ({"text": ["a", "a"]}, "each named once"),
        ({"tags": []}, "tags must be a column that lists tags"),
        ({"tag_separator": ""}, "tag_separator must be a text of at least one character"),
        ({"rows": 0}, "rows must be an integer of at least 1, got 0"),
        ({"format": "xls"}, "one of csv, jsonl, parquet, text, got 'xls'"),
        ({"delimiter": ",,"}, "delimiter must be one character"),
        ({"text": "txt"}, r"text must name a column of the file, got 'txt'. Did you mean \"text\"\? The col"),
        ({"text": "tags", "tags": "tags"}, "a column must not be both text and tags"),
    ],
)
def test_wrong_options(write, options, message):
    with pytest.raises(ValueError, match=message):
        iter_texts(write("text,tags\na,b\n"), **options)


def test_wrong_streams():
    with pytest.raises(TypeError, match=r"got StringIO\. Pass sys\.stdin\.buffer"):
        iter_texts(io.StringIO("a\n"))
    with pytest.raises(ValueError, match=r"a stream must be csv, jsonl or text, got parquet\. Pass the path"):
        iter_texts(io.BytesIO(b"a\n"), format="parquet")
    with pytest.raises(DatasetFormatError, match=r"standard input, line 2: a line must be JSON"):
        list(iter_texts(io.BytesIO(b'{"text": "a"}\nb\n'), format="jsonl"))
    with pytest.raises(DatasetFormatError, match=r"text must be left out for plain text.*got 'a'"):
        iter_texts(io.BytesIO(b"a\n"), text="a")


def test_a_long_cell(write):
    text = "long text " * 100_000
    assert read_texts(write(f"text,tags\n{text},b\n")).texts == (text,)


# Texts that are made up, and written.


@pytest.mark.parametrize("suffix", ["csv", "tsv.gz", "jsonl", "ndjson.xz"])
def test_written_texts_come_back(tmp_path, suffix):
    made = make_tagged_texts(300, random_state=3)
    write_texts(made, tmp_path / f"made.{suffix}")
    again = read_texts(tmp_path / f"made.{suffix}")
    assert (again.texts, again.tags) == (made.texts, made.tags)
    odd = TextDataset("odd", ['a "quoted"\nline', "", "ü,;"], None)
    write_texts(odd, tmp_path / f"odd.{suffix}")
    assert read_texts(tmp_path / f"odd.{suffix}", text="text").texts == odd.texts
    assert read_texts(tmp_path / f"odd.{suffix}", text="text").tags is None


_WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
_NAMES = st.text(st.characters(categories=["L", "N", "P"], exclude_characters=";"), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(_WORDS, st.lists(_NAMES, max_size=3, unique=True)), min_size=1, max_size=8))
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_any_texts_come_back(rows, suffix, tmp_path_factory):
    texts, tags = ["some text", *(text for text, _ in rows)], [("a",), *(tuple(some) for _, some in rows)]
    path = tmp_path_factory.mktemp("any") / f"any.{suffix}"
    write_texts(TextDataset("any", texts, tags), path)
    again = read_texts(path, text="text", tags="tags", tag_separator=";")
    assert (again.texts, again.tags) == (tuple(texts), tuple(tags))
    blocks = list(iter_texts(path, text="text", tags="tags", tag_separator=";", rows=2))
    assert _joined(some for some, _ in blocks) == again.texts


def test_made_texts_can_be_learnt():
    made = make_tagged_texts(600)
    assert made.texts == make_tagged_texts(600).texts
    assert made.texts != make_tagged_texts(600, random_state=1).texts
    assert len(made.tag_names) == 15
    assert {len(tags) for tags in made.tags} == {2, 3, 4}
    Y = MultiLabelBinarizer().fit_transform(made.tags)
    model = make_pipeline(TfidfVectorizer(), RidgeClassifier())
    model.fit(made.texts[:400], Y[:400])
    score = f1_score(Y[400:], model.predict(made.texts[400:]), average="micro")
    assert 0.6 < score < 0.99


def test_wrong_texts(tmp_path):
    with pytest.raises(ValueError, match="n_texts must be an integer of at least 1, got 0"):
        make_tagged_texts(0)
    with pytest.raises(ValueError, match=r"must not contain the separator ';', got 'a;b'\. Pass another"):
        write_texts(TextDataset("x", ["t"], [("a;b",)]), tmp_path / "x.csv")
    with pytest.raises(ValueError, match=r"one list for each of the 2 texts, got 1\. Pass an empty"):
        TextDataset("x", ["t", "u"], [("a",)])
    with pytest.raises(ValueError, match=r"one of csv, jsonl, got the suffix '\.parquet'"):
        write_texts(TextDataset("x", ["t"]), tmp_path / "x.parquet")
    assert not list(tmp_path.iterdir())


def test_a_column_that_is_called_a_text_is_no_list_of_tags(tmp_path):
    """Short texts of few words look like lists of tags."""
    made = make_tagged_texts(300)
    rows = [
        f"{text.replace(',', '')},{int('chess' in tags)},{int('music' in tags)}"
        for text, tags in zip(made.texts, made.tags, strict=True)
    ]
    (tmp_path / "short.csv").write_text("\n".join(["review,chess,music", *rows]) + "\n", encoding="utf-8")
    roles = guess_roles(tmp_path / "short.csv")
    assert (roles.kind, roles.text, roles.tags) == ("text", ("review",), None)
    assert roles.labels == ("chess", "music")
