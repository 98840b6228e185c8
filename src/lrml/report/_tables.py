"""The tables of a summary as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

# What Markdown, or GitHub's version of it, would read as markup. An underscore within a word is a letter.
_MARKUP = re.compile(r"[\\|`*<\[\]~$]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])")
_BLOCK_START = re.compile(r"^(?:(\d+)(?=[.)])|(?=[#+\-=>]))")


def render_tables(summary: Mapping[str, Any]) -> dict[str, bytes]:
    """Write every table of a summary in three formats.

    Parameters
    ----------
    summary : mapping
        The summary of a reproduction; only ``summary["tables"]`` is read.

    Returns
    -------
    dict of str to bytes
        For every table ``{id}.csv`` (columns by key, ten significant digits), ``{id}.md`` (a pipe table) and
        ``{id}.tex`` (UTF-8; needs the package booktabs, and longtable if there are more than 40 rows).
    """
    files: dict[str, bytes] = {}
    for table in summary["tables"]:
        files[f"{table['id']}.csv"] = _to_csv(table).encode()
        files[f"{table['id']}.md"] = _to_markdown(table).encode()
        files[f"{table['id']}.tex"] = _to_latex(table).encode()
    return files


def _to_csv(table: Mapping[str, Any]) -> str:
    keys = [column["key"] for column in table["columns"] if not column["key"].startswith("_")]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=keys, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _csv_value(row[key]) for key in keys} for row in table["rows"])
    return stream.getvalue()


def _csv_value(value: Any) -> Any:
    """Round a float to ten digits: beyond that, machines differ in the order of their sums.

    A carriage return in a text becomes a line feed, because readers of CSV take a bare one for the row's end.
    """
    if isinstance(value, str):
        return value.replace("\r\n", "\n").replace("\r", "\n")
    return float(f"{value:.10g}") if isinstance(value, float) else value


def _shown_rows(table: Mapping[str, Any]) -> list[list[str]]:
    """Return the cells as a reader sees them, before any format escapes them."""
    return [[_shown(row[column["key"]], column) for column in table["columns"]] for row in table["rows"]]


def _shown(value: Any, column: Mapping[str, Any]) -> str:
    """Write one value; a missing number is a dash, a missing text (such as a mark) is nothing."""
    if value is None:
        return "" if column["kind"] == "text" else "–"
    if column["kind"] in ("text", "integer"):
        return str(value)
    text = f"{value:.{column['digits']}f}"
    return text if float(text) else text.removeprefix("-")


def _to_markdown(table: Mapping[str, Any]) -> str:
    header = [_markdown_cell(column["title"]) for column in table["columns"]]
    body = [[_markdown_cell(cell) for cell in row] for row in _shown_rows(table)]
    widths = [max(4, *map(len, cells)) for cells in zip(header, *body, strict=True)]
    texts = [column["kind"] == "text" for column in table["columns"]]
    rule = [
        ":".ljust(width, "-") if text else ":".rjust(width, "-")
        for width, text in zip(widths, texts, strict=True)
    ]
    lines = [_markdown_row(cells, widths, texts) for cells in (header, rule, *body)]
    parts = [f"# {_markdown(table['title'])}", _paragraph(table["caption"]), "\n".join(lines)]
    parts += ["\n".join(f"- {_paragraph(note)}" for note in table["notes"])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_row(cells: list[str], widths: list[int], texts: list[bool]) -> str:
    padded = (
        cell.ljust(width) if text else cell.rjust(width)
        for cell, width, text in zip(cells, widths, texts, strict=True)
    )
    return f"| {' | '.join(padded)} |"


def _markdown_cell(text: str) -> str:
    return "<br>".join(_markdown(line) for line in text.splitlines())


def _paragraph(text: str) -> str:
    """Escape a text that begins a line, where a hash or a number would begin a heading or a list."""
    return _BLOCK_START.sub(r"\1\\", _markdown(text))


def _markdown(text: str) -> str:
    """Escape a text so that it is shown as it is, on one line."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


# LaTeX

_LONGEST_ON_A_PAGE = 40  # rows
# How many characters of each size fit side by side on a page of the class article.
_SIZES = ((72, r"\small"), (84, r"\footnotesize"))
_SMALLEST = r"\scriptsize"
_SPACING = r"\setlength{\tabcolsep}{4pt}\setlength{\belowcaptionskip}{6pt}"

# Special characters of TeX, and the signs of our own texts that its standard fonts lack.
_ESCAPES = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "{}$&#_%"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "[": "{[}",  # after a row's end a bracket or a star would be read as its argument
        "*": "{*}",
        **{sign: f"${sign}$" for sign in "<>|"},
        "•": r"$\bullet$",
        "∘": r"$\circ$",
        "−": "$-$",
        "√": r"$\surd$",
        "‖": r"$\Vert$",
        "Σ": r"$\Sigma$",
        "σ": r"$\sigma$",
        "ᵀ": r"$^\top$",
    }
)


def _to_latex(table: Mapping[str, Any]) -> str:
    """Write a table as a ``table`` with a ``tabular``, or as a ``longtable`` if it does not fit on a page.

    The label is ``tab:{id}``. "Table 2:" at the beginning of the title is left out: LaTeX counts itself.
    """
    rows = _shown_rows(table)
    numeric = [column["kind"] != "text" for column in table["columns"]]
    layout = "@{}" + "".join("r" if number else "l" for number in numeric) + "@{}"
    header = _latex_row([_latex(column["title"]) for column in table["columns"]])
    body = [_latex_row([_latex_cell(*pair) for pair in zip(row, numeric, strict=True)]) for row in rows]
    title = re.sub(r"^Table\s+\S+?[.:]\s*", "", table["title"]).rstrip(".")
    caption = _latex(f"{title}. {table['caption']}")
    caption = rf"\caption{{{caption}}}\label{{tab:{table['id']}}}"
    notes = [_latex(note) for note in table["notes"]]
    size, head = _latex_size(table, rows), [r"\toprule", header, r"\midrule"]
    if len(rows) > _LONGEST_ON_A_PAGE:
        lines = [
            r"% \usepackage{booktabs,longtable}",
            *(rf"\begingroup{size}", _SPACING, rf"\begin{{longtable}}{{{layout}}}"),
            *(caption + r"\\", *head, r"\endfirsthead", *head, r"\endhead", r"\bottomrule", r"\endfoot"),
            *(*body, r"\end{longtable}"),
            *(rf"\noindent {{\footnotesize {note}\par}}" for note in notes),
            r"\endgroup",
        ]
    else:
        lines = [
            r"% \usepackage{booktabs}",
            *(r"\begin{table}[htbp]", rf"\centering{size}", _SPACING, caption),
            rf"\begin{{tabular}}{{{layout}}}",
            *(*head, *body, r"\bottomrule", r"\end{tabular}"),
            *(rf"\par\smallskip {{\footnotesize {note}\par}}" for note in notes),
            r"\end{table}",
        ]
    return "\n".join(lines) + "\n"


def _latex_size(table: Mapping[str, Any], rows: Sequence[Sequence[str]]) -> str:
    titles = [column["title"] for column in table["columns"]]
    width = sum(max(map(len, cells)) + 2 for cells in zip(titles, *rows, strict=True))
    return next((size for limit, size in _SIZES if width <= limit), _SMALLEST)


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(text: str, numeric: bool) -> str:
    """Escape a cell; the hyphen of a negative number becomes a minus."""
    return f"${text}$" if numeric and re.fullmatch(r"-[\d.]+", text) else _latex(text)


def _latex(text: str) -> str:
    """Escape a text so that LaTeX sets it as it is, on one line."""
    return " ".join(text.split()).translate(_ESCAPES)
