from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lrml.report import render_tables
from rendering.sample_summary import sample_summary

NASTY = r"a|b \ {c} $d$ & #e _f_ %g ~h ^i `j` *k* <l> [m] \| -- '' ?` !` •∘√‖Σσᵀ−– é ß"


def make_table(rows: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    columns = [
        {"key": "name", "title": "name | method", "kind": "text", "digits": None, "help": None},
        {"key": "n", "title": "n", "kind": "integer", "digits": None, "help": None},
        {"key": "score", "title": "score", "kind": "number", "digits": 3, "help": "its help"},
        {"key": "time", "title": "time (s)", "kind": "seconds", "digits": 1, "help": None},
    ]
    table = {"id": "t", "title": "Table 2: a title", "caption": "A caption.", "columns": columns}
    return {**table, "rows": rows, "filters": [], "notes": ["a note"], **changes}


def make_row(name: Any = "x", n: Any = 1, score: Any = 0.5, time: Any = 2.0) -> dict[str, Any]:
    return {"name": name, "n": n, "score": score, "time": time, "_class": "better"}


def render(table: dict[str, Any], suffix: str) -> str:
    return render_tables({"tables": [table]})[f"{table['id']}.{suffix}"].decode()


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def read_markdown(text: str) -> tuple[list[str], list[str], list[list[str]]]:
    """Read the one pipe table of a text as GitHub does: cells end at pipes that no backslash precedes."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    header, rule, *body = [
        [cell.strip() for cell in re.findall(r"((?:\\.|[^|\\])*)\|", line[1:])] for line in lines
    ]
    return [plain(cell) for cell in header], rule, [[plain(cell) for cell in row] for row in body]


def plain(markdown: str) -> str:
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", markdown.replace("<br>", "\n"))


def test_three_files_per_table():
    summary = sample_summary()
    files = render_tables(summary)
    assert set(files) == {f"{t['id']}.{s}" for t in summary["tables"] for s in ("csv", "md", "tex")}
    assert files == render_tables(sample_summary())


@pytest.mark.parametrize("table", sample_summary()["tables"], ids=lambda table: table["id"])
def test_csv_holds_the_values(table: dict[str, Any]):
    text = render(table, "csv")
    keys = [column["key"] for column in table["columns"]]
    assert next(csv.reader(io.StringIO(text))) == keys
    for read, row in zip(read_csv(text), table["rows"], strict=True):
        for key in keys:
            if row[key] is None:
                assert read[key] == ""
            elif isinstance(row[key], float):
                assert float(read[key]) == pytest.approx(row[key], rel=1e-9)
            else:
                assert read[key] == str(row[key])


def test_csv_has_ten_digits_and_no_hidden_keys():
    table = make_table([make_row(score=1 / 3, name="two\nlines, and a comma")])
    table["columns"].append(
        {"key": "_class", "title": "hidden", "kind": "text", "digits": None, "help": None}
    )
    assert read_csv(render(table, "csv")) == [
        {"name": "two\nlines, and a comma", "n": "1", "score": "0.3333333333", "time": "2.0"}
    ]


@pytest.mark.parametrize("table", sample_summary()["tables"], ids=lambda table: table["id"])
def test_markdown_reads_back(table: dict[str, Any]):
    header, rule, body = read_markdown(render(table, "md"))
    assert header == [column["title"] for column in table["columns"]]
    assert [cell.endswith(":") for cell in rule] == [column["kind"] != "text" for column in table["columns"]]
    for cells, row in zip(body, table["rows"], strict=True):
        for cell, column in zip(cells, table["columns"], strict=True):
            value = row[column["key"]]
            if value is None:
                assert cell in {"", "–"}
            elif column["kind"] in {"number", "seconds"}:
                assert cell == f"{value:.{column['digits']}f}"
            else:
                assert cell == str(value)


def test_markdown_has_title_caption_and_notes():
    text = render(make_table([make_row()], title="A *title*", caption="# of rows", notes=["1. first"]), "md")
    assert text.startswith("# A \\*title\\*\n\n\\# of rows\n\n| ")
    assert text.endswith("|\n\n- 1\\. first\n")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (-0.00001, "0.000"), (-0.5, "-0.500"), (0, "0.000"), (12345.6789, "12345.679")],
)
def test_numbers_have_the_digits_of_their_column(value: float | None, shown: str):
    _, _, [cells] = read_markdown(render(make_table([make_row(score=value)]), "md"))
    assert cells[2] == shown


def test_a_missing_text_is_nothing():
    _, _, [cells] = read_markdown(render(make_table([make_row(name=None)]), "md"))
    assert cells[0] == ""


@given(st.lists(st.text(), min_size=1, max_size=4))
@example(["a\rb", "\r\n", "c\nd", "\x00"])
def test_any_text_survives_csv_and_markdown(names: list[str]):
    table = make_table([make_row(name=name) for name in names])
    unix = [name.replace("\r\n", "\n").replace("\r", "\n") for name in names]
    assert [row["name"] for row in read_csv(render(table, "csv"))] == unix
    _, _, body = read_markdown(render(table, "md"))
    for cells, name in zip(body, names, strict=True):
        assert len(cells) == 4
        assert cells[0].split() == name.split()


def latex_of(text: str) -> str:
    """Return the note of a table that is this text, as LaTeX."""
    whole = render(make_table([make_row()], notes=[text]), "tex")
    return whole.partition(r"\par\smallskip {\footnotesize ")[2].removesuffix("\\par}\n\\end{table}\n")


def read_latex(text: str) -> None:
    """Take LaTeX apart as TeX would: every special sign must be part of a command, a group or maths."""
    depth, position, maths = 0, 0, False
    for match in re.finditer(r"\\[a-zA-Z]+|\\.|.", text):
        assert match.start() == position
        position, token = match.end(), match[0]
        assert token not in {"&", "%", "#", "~"}
        assert token not in {"^", "_"} or maths
        depth += {"{": 1, "}": -1}.get(token, 0)
        assert depth >= 0
        maths ^= token == "$"
    assert (position, depth, maths) == (len(text), 0, False)


@given(st.text(alphabet=st.one_of(st.characters(codec="ascii"), st.sampled_from(NASTY))))
def test_escaped_latex_is_balanced(text: str):
    written = latex_of(text)
    read_latex(written)
    assert not re.search(r"(?<!\{)[\[*]", written)  # an argument of a row's end


@given(st.text(alphabet=st.characters(categories=("L", "N"), exclude_characters="ΣσᵀΣ")))
def test_letters_and_digits_stay_as_they_are(text: str):
    assert latex_of(text) == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("•", r"$\bullet$"),
        ("∘", r"$\circ$"),
        ("Σ_{j>theta} σ_j/√n", r"$\Sigma$\_\{j$>$theta\} $\sigma$\_j/$\surd$n"),
        ("a_b^c", r"a\_b\textasciicircum{}c"),
        ("50 %", r"50 \%"),
        ("well-known, isn't it?", "well-known, isn't it?"),
        ("two\nlines", "two lines"),
        ("é ß –", "é ß –"),
    ],
)
def test_latex_commands(text: str, written: str):
    assert latex_of(text) == written


def test_latex_table():
    text = render(make_table([make_row(score=-0.25), make_row(score=None)]), "tex")
    lines = text.splitlines()
    assert r"\caption{a title. A caption.}\label{tab:t}" in lines
    assert r"\begin{tabular}{@{}lrrr@{}}" in lines
    assert r"x & 1 & $-0.250$ & 2.0 \\" in lines
    assert r"x & 1 & – & 2.0 \\" in lines
    assert [line for line in lines if "rule" in line] == [r"\toprule", r"\midrule", r"\bottomrule"]


@pytest.mark.parametrize(("n_rows", "environment"), [(40, "tabular"), (41, "longtable")])
def test_long_tables_break_across_pages(n_rows: int, environment: str):
    text = render(make_table([make_row()] * n_rows), "tex")
    assert rf"\begin{{{environment}}}" in text
    assert text.count(r"x & 1 & 0.500 & 2.0 \\") == n_rows


def test_wide_tables_are_set_in_smaller_type():
    sizes = [render(make_table([make_row(name="x" * n)]), "tex") for n in (20, 55, 90)]
    for text, size in zip(sizes, ("small", "footnotesize", "scriptsize"), strict=True):
        assert rf"\centering\{size}" in text.splitlines()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_pdflatex_sets_all_tables(tmp_path: Path):
    tables = [*sample_summary()["tables"], make_table([])]
    words = [NASTY, *NASTY, "[", "*", "--", "[x] first in a row"]
    tables.append(
        make_table([make_row(name=word) for word in words], id="nasty", caption=NASTY, notes=[NASTY])
    )
    inputs = []
    for name, content in render_tables({"tables": tables}).items():
        if name.endswith(".tex"):
            (tmp_path / name).write_bytes(content)
            inputs.append(rf"\input{{{name}}}")
    document = [r"\documentclass{article}", r"\usepackage{booktabs,longtable}", r"\begin{document}"]
    (tmp_path / "all.tex").write_text("\n".join([*document, *inputs, r"\end{document}"]))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert run.returncode == 0, run.stdout.decode(errors="replace")[-3000:]
    log = (tmp_path / "all.log").read_text(errors="replace")
    assert "Missing character" not in log
