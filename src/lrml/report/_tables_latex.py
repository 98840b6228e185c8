r"""Tables in LaTeX that plain pdflatex with booktabs (and longtable) can set.

Every character of a text is either ASCII without a meaning in TeX, or a command. A character that has no
known command is shown by its number, ``[U+1F600]``, because one unknown character would stop the document.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

_LONGEST_ON_A_PAGE = 40

# How many characters of each size fit side by side on a page of the class article.
_SIZES = ((72, r"\small"), (84, r"\footnotesize"))
_SMALLEST = r"\scriptsize"
_SPACING = r"\setlength{\tabcolsep}{4pt}\setlength{\belowcaptionskip}{6pt}"

_COMMANDS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\`{}",
    '"': r"\textquotedblright{}",
    # After a row's end a bracket or a star would be read as its argument.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    # Two of these in a row would be set as one other sign.
    "-": "-{}",
    "'": "'{}",
    ",": ",{}",
    "?": "?{}",
    "!": "!{}",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "‘": r"\textquoteleft{}",
    "’": r"\textquoteright{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "…": r"\ldots{}",
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "ı": r"\i{}",
    "§": r"\S{}",
    "¶": r"\P{}",
    "©": r"\copyright{}",
}

_MATHS = {
    **{sign: sign for sign in "<>|"},
    "•": r"\bullet",
    "●": r"\bullet",
    "∘": r"\circ",
    "◦": r"\circ",
    "○": r"\circ",
    "°": r"^\circ",
    "−": "-",
    "±": r"\pm",
    "×": r"\times",
    "÷": r"\div",
    "·": r"\cdot",
    "⋅": r"\cdot",
    "√": r"\surd",
    "∞": r"\infty",
    "≤": r"\le",
    "≥": r"\ge",
    "≠": r"\ne",
    "≈": r"\approx",
    "≡": r"\equiv",
    "∼": r"\sim",
    "≪": r"\ll",
    "≫": r"\gg",
    "∝": r"\propto",
    "∈": r"\in",
    "∑": r"\sum",
    "∏": r"\prod",
    "∫": r"\int",
    "∂": r"\partial",
    "∇": r"\nabla",
    "‖": r"\Vert",
    "→": r"\to",
    "←": r"\leftarrow",
    "↑": r"\uparrow",
    "↓": r"\downarrow",
    "⇒": r"\Rightarrow",
    "⊤": r"\top",
    "†": r"\dagger",
    "‡": r"\ddagger",
    "★": r"\star",
    "⋆": r"\star",
    "′": r"^\prime",
    "¬": r"\neg",
    "ℓ": r"\ell",
}

_GREEK = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"),
    *(
        "nu",
        "xi",
        "omicron",
        "pi",
        "rho",
        "varsigma",
        "sigma",
        "tau",
        "upsilon",
        "phi",
        "chi",
        "psi",
        "omega",
    ),
)
# The capitals that have a command, and those that look like another Latin letter than their name's first.
_CAPITALS = {"gamma", "delta", "theta", "lambda", "xi", "pi", "sigma", "upsilon", "phi", "psi", "omega"}
_LATIN_CAPITALS = {"chi": "X", "rho": "P", "eta": "H"}

# TeX's accents by the combining character into which Unicode takes a letter apart.
_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
}  # fmt: skip


def to_latex(table: Mapping[str, Any], rows: Sequence[Sequence[str]]) -> str:
    r"""Write a table as a ``table`` with a ``tabular``, or as a ``longtable`` if it does not fit on a page.

    Parameters
    ----------
    table : mapping
        One table of a summary.
    rows : sequence of sequences of str
        Its cells as a reader sees them.

    Returns
    -------
    str
        The label is ``tab:{id}``. "Table 2:" at the beginning of the title is left out: LaTeX counts itself.
    """
    numeric = [column["kind"] != "text" for column in table["columns"]]
    layout = "@{}" + "".join("r" if number else "l" for number in numeric) + "@{}"
    header = _row([escape_latex(column["title"]) for column in table["columns"]])
    body = [_row([_cell(*pair) for pair in zip(row, numeric, strict=True)]) for row in rows]
    title = re.sub(r"^Table\s+\S+?[.:]\s*", "", table["title"]).rstrip(".")
    caption = escape_latex(f"{title}. {table['caption']}".strip())
    caption = rf"\caption{{{caption}}}\label{{tab:{table['id']}}}"
    write = _longtable if len(rows) > _LONGEST_ON_A_PAGE else _table
    return "\n".join(write(_size(table, rows), layout, caption, header, body, _notes(table))) + "\n"


def _size(table: Mapping[str, Any], rows: Sequence[Sequence[str]]) -> str:
    titles = [column["title"] for column in table["columns"]]
    width = sum(max(map(len, cells)) + 2 for cells in zip(titles, *rows, strict=True))
    return next((size for limit, size in _SIZES if width <= limit), _SMALLEST)


def _table(size: str, layout: str, caption: str, header: str, body: list[str], notes: list[str]) -> list[str]:
    return [
        r"% \usepackage{booktabs}",
        *(r"\begin{table}[htbp]", rf"\centering{size}", _SPACING, caption),
        rf"\begin{{tabular}}{{{layout}}}",
        *(r"\toprule", header, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"),
        *(rf"\par\smallskip {{\footnotesize {note}\par}}" for note in notes),
        r"\end{table}",
    ]


def _longtable(
    size: str, layout: str, caption: str, header: str, body: list[str], notes: list[str]
) -> list[str]:
    head = [r"\toprule", header, r"\midrule"]
    return [
        r"% \usepackage{booktabs,longtable}",
        *(rf"\begingroup{size}", _SPACING, rf"\begin{{longtable}}{{{layout}}}"),
        *(caption + r"\\", *head, r"\endfirsthead", *head, r"\endhead", r"\bottomrule", r"\endfoot"),
        *(*body, r"\end{longtable}"),
        *(rf"\noindent {{\footnotesize {note}\par}}" for note in notes),
        r"\endgroup",
    ]


def _notes(table: Mapping[str, Any]) -> list[str]:
    return [escape_latex(note) for note in table["notes"]]


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(text: str, numeric: bool) -> str:
    """Escape a cell; the hyphen of a negative number becomes a minus."""
    return f"${text}$" if numeric and re.fullmatch(r"-[\d.]+", text) else escape_latex(text)


def escape_latex(text: str) -> str:
    r"""Return a text as LaTeX that sets it as it is, on one line.

    Examples
    --------
    >>> print(escape_latex("50 % of σ₁ ≥ 1"))
    50 \% of $\sigma$$_{1}$ $\ge$ 1
    """
    written = "".join(map(_written, " ".join(unicodedata.normalize("NFC", text).split())))
    # The empty group is needed only between two signs that TeX would join.
    return re.sub(r"([-',?!])\{\}(?![-',?!`\\])", r"\1", written)


def _written(character: str) -> str:
    if character in _COMMANDS:
        return _COMMANDS[character]
    if character in _MATHS:
        return f"${_MATHS[character]}$"
    if character.isascii():
        return character if character.isprintable() else " "
    return _letter(character) or f"{{[}}U+{ord(character):04X}{{]}}"


def _letter(character: str) -> str:
    """Return a Greek, accented, raised or lowered character as a command, or nothing."""
    if greek := _greek(character):
        return greek
    kind, _, parts = unicodedata.decomposition(character).rpartition("> ")
    plain = "".join(chr(int(code, 16)) for code in parts.split())
    if kind in {"<sub", "<super"} and len(plain) == 1:
        plain = plain if plain.isascii() and plain.isalnum() else {"−": "-", "+": "+"}.get(plain, "")
        return f"${'_' if kind == '<sub' else '^'}{{{plain}}}$" if plain else ""
    if not kind and len(plain) == 2 and plain[0].isascii() and plain[0].isalpha() and plain[1] in _ACCENTS:
        return rf"\{_ACCENTS[plain[1]]}{{{plain[0]}}}"
    return " " if character.isspace() else ""


def _greek(character: str) -> str:
    small = ord(character.lower()) - ord("α") if len(character.lower()) == 1 else -1
    if not 0 <= small < len(_GREEK):
        return ""
    name = _GREEK[small]
    if character.islower():
        return "$o$" if name == "omicron" else rf"$\{name}$"
    if name in _CAPITALS:
        return rf"$\{name.capitalize()}$"
    return rf"$\mathrm{{{_LATIN_CAPITALS.get(name, name[0].upper())}}}$"
