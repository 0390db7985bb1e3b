"""Read the words of a source and of a Markdown answer in one form, so that only their content can differ.

What a faithful formatter changes is no word here: marks of headings, emphasis and lists, pipes and rules, typographic
quotes and dashes, ligatures, capitals, HTML entities. What carries a value is one: numbers with their sign and
separators, comparison signs, per cent, currencies, ticks and arrows.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from catena.text.words import PRINTED_WORD, UNSPACED, negates

Kind: TypeAlias = Literal["word", "number", "unit", "symbol", "negation"]
LineKind: TypeAlias = Literal["text", "heading", "item", "row", "code"]

_TOKEN = re.compile(PRINTED_WORD + r"|(?P<symbol>[±≤≥<>=≈≠%‰°$€£¥×÷√∞→←↑↓⇒✓✔✗✘✕☐☑☒★☆⚠]|(?<=\d)-(?=\d)|~(?=\d))")
_SPELLING = (
    {ord(c): "-" for c in "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043"}
    | {ord(c): "'" for c in "\u2018\u2019\u02bc\u00b4`"}
    | dict.fromkeys((0x00BA, 0x02DA), "°")
    | dict.fromkeys((0x00AD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF), "")
)
_LATEX = {
    r"\times": "×", r"\pm": "±", r"\leq": "≤", r"\le": "≤", r"\geq": "≥", r"\ge": "≥", r"\approx": "≈", r"\neq": "≠",
    r"\mu": "μ", r"\Omega": "Ω", r"\degree": "°", r"\circ": "°", r"\cdot": " ", r"\rightarrow": "→", r"\to": "→",
    r"\alpha": "α", r"\beta": "β", r"\gamma": "γ", r"\Delta": "Δ", r"\lambda": "λ", r"\pi": "π", r"\infty": "∞",
}  # fmt: skip
_LATEX_MARK = re.compile("|".join(re.escape(mark) + r"(?![a-zA-Z])" for mark in sorted(_LATEX, key=len)[::-1]))
_LATEX_WRAP = re.compile(r"\\(?:mathrm|text|mathbf|textit|textbf|mathit|operatorname)\{([^{}]*)\}")
_MATH = re.compile(r"\$([^$\n]{0,200})\$")
_LIKE_LATEX = re.compile(r"\\[a-zA-Z]|[\^_{}]")
_TAG = re.compile(
    r"</?(?:br|sup|sub|b|i|em|strong|u|p|div|span|center|code|mark|small|td|tr|th|thead|tbody|table)\b[^<>]{0,200}>",
    re.IGNORECASE,
)
_SCRIPT_TAG = re.compile(r"</?(?:sup|sub)\b[^<>]{0,40}>", re.IGNORECASE)
_COMMENT = re.compile(r"<!--(?:(?!<!--).){0,2000}?-->", re.DOTALL)
_LINK = re.compile(
    r"!?\[([^\[\]\n]*+)\]\(\s*+<?([^()<>\s]*+(?:\([^()\s]*+\)[^()<>\s]*+)?)>?(?:\s++[\"'][^\n\"']*+[\"'])?\s*+\)"
)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)$")
_HEADING = re.compile(r"^ {0,3}(?P<marks>#{1,6})(?:\s+|$)(?P<text>.*)$")
_RULE = re.compile(r"^[\s|:+=*_-]+$")
_BULLET = re.compile(r"^[>\s]*(?:[•‣◦▪■●○∙·⁃➢✓*+>-]\s+|\[[ xX]\]\s+)*")
_ORDINAL = re.compile(r"^\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)](?=\s)")
_UNIT = re.compile(rf"[^\W\d_{UNSPACED}]{{1,5}}\d?$")


class Word(NamedTuple):
    """One word of either side."""

    key: str  # what is compared
    text: str  # as printed, in NFKC
    kind: Kind
    line: int  # 0-based, among the lines that have words
    marker: bool = False  # the ordinal that opens an item: "2." or "b)"


class ComparedLine(NamedTuple):
    """One line that has words: a half-open range of word indexes and what the line is."""

    start: int
    end: int
    kind: LineKind
    text: str
    level: int = 0  # of a heading, from 1
    cells: tuple[tuple[int, int], ...] = ()  # word ranges of the cells of a table's row, empty cells included
    table: int = -1  # 0-based number of the answer's table
    broken: bool = False  # whether the line ends in a hyphen


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """All words of one side, in order, and their lines."""

    words: tuple[Word, ...]
    lines: tuple[ComparedLine, ...]
    fenced: bool = False  # a Markdown answer that is one code block as a whole

    def phrase(self, start: int, end: int) -> str:
        """Return the words of a half-open range as one string."""
        return " ".join(word.text for word in self.words[start:end])


def source_words(text: str) -> Words:
    """Return the words of a source, lines as printed."""
    words: list[Word] = []
    lines: list[ComparedLine] = []
    for printed in _normal(text).splitlines():
        start = len(words)
        _add_line(words, printed, len(lines))
        if len(words) > start:
            broken = printed.rstrip().endswith("-")
            lines.append(ComparedLine(start, len(words), "text", printed.strip(), broken=broken))
    return Words(words=tuple(words), lines=tuple(lines))


def markdown_words(markdown: str, *, headings_only: bool = False) -> Words:
    """Return the words of a Markdown answer, or of its headings, without the words of its markup."""
    text, fenced = _unfenced(markdown)
    words: list[Word] = []
    lines: list[ComparedLine] = []
    table = -1
    rows_before = False
    for kind, printed, level in _blocks(text):
        if headings_only and kind != "heading":  # of all windows before, say: quicker by far
            continue
        row = kind == "row"
        table += row and not rows_before
        rows_before = row
        if kind == "blank":
            continue
        start = len(words)
        cells = tuple(_cells(words, printed, len(lines))) if row else ()
        if not row:
            _add_line(words, printed, len(lines), code=kind == "code")
        if len(words) > start:
            item = kind == "text" and (words[start].marker or bool(_BULLET.match(printed)[0].strip()))  # type: ignore[index]
            shown: LineKind = "item" if item else kind
            lines.append(ComparedLine(start, len(words), shown, printed.strip(), level, cells, table if row else -1))
    return Words(words=tuple(words), lines=tuple(lines), fenced=fenced)


def _normal(text: str) -> str:
    """Return the text in NFKC with one spelling of dashes and apostrophes; lone surrogates become question marks."""
    if text.isascii():
        return text.replace("`", "'").replace("^", "")
    return unicodedata.normalize("NFKC", text.translate(_SPELLING)).translate(_SPELLING).replace("^", "")


def _add_line(words: list[Word], text: str, line: int, *, code: bool = False) -> None:
    bare = text if code else text[_BULLET.match(text).end() :]  # type: ignore[union-attr]
    ordinal = not code and bool(_ORDINAL.match(bare))
    _add(words, bare, line, marker=ordinal)


def _add(words: list[Word], text: str, line: int, *, marker: bool = False) -> None:
    follows = False  # a number is directly before
    for match in _TOKEN.finditer(text):
        group = match.lastgroup
        shown = match.group()
        folded = shown.casefold()
        kind: Kind = "word"
        if group == "number":
            kind = "number"
        elif group == "symbol":
            kind = "symbol"
        elif negates(folded):
            kind = "negation"
        elif follows and _UNIT.match(shown):
            kind = "unit"
        elif not shown.isalpha() and any(map(str.isdigit, shown)):
            kind = "number"  # a code such as "STM32F103": as exact as a number
        words.append(Word(folded, shown, kind, line, marker))
        follows = group == "number" or shown == "°"
        marker = False


def _cells(words: list[Word], row: str, line: int) -> Iterator[tuple[int, int]]:
    for cell in re.split(r"(?<!\\)\|", row.strip().removeprefix("|").removesuffix("|")):
        start = len(words)
        _add(words, cell, line)
        yield start, len(words)


def _unfenced(markdown: str) -> tuple[str, bool]:
    """Return the text within the code fence that holds a whole answer, and whether there is one."""
    lines = markdown.strip().splitlines()
    first = _FENCE.match(lines[0]) if lines else None
    if first is None or first["info"].strip().casefold() not in ("", "markdown", "md", "text", "plaintext"):
        return markdown, False
    mark = first["mark"]
    inner = [index for index, line in enumerate(lines[1:], 1) if line.strip() == mark]
    if inner and inner[-1] != len(lines) - 1:
        return markdown, False
    body = lines[1 : inner[-1]] if inner else lines[1:]
    marked = any(_HEADING.match(line) or line.lstrip().startswith("|") for line in body)
    return ("\n".join(body), True) if marked else (markdown, False)


def _blocks(markdown: str) -> Iterator[tuple[LineKind | Literal["blank"], str, int]]:
    """Give (kind, text without its mark, level) of each line of an answer, in order."""
    fence = ""
    for line in _COMMENT.sub(" ", markdown).splitlines():
        if match := _FENCE.match(line):
            if not fence:
                fence = match["mark"]
                continue
            if match["mark"].startswith(fence) and not match["info"].strip():
                fence = ""
                continue
        if fence:
            yield "code", _normal(line), 0
        elif not line.strip():
            yield "blank", "", 0
        elif _RULE.match(line):
            continue
        elif match := _HEADING.match(line):
            yield "heading", _plain(match["text"].rstrip().rstrip("#")), len(match["marks"])
        elif line.lstrip().startswith("|"):
            yield "row", _plain(line), 0
        else:
            yield "text", _plain(line), 0


def _plain(text: str) -> str:
    """Return a line without links, tags, escapes, entities and formulas' commands."""
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if "$" in text:
        text = _MATH.sub(lambda match: match[1] if _LIKE_LATEX.search(match[1]) else match[0], text)
    if "\\" in text:
        text = _LATEX_WRAP.sub(r"\1", text)
        text = _LATEX_MARK.sub(lambda match: _LATEX[match[0]], text)
        text = _ESCAPE.sub(lambda match: match[0] if match[1] == "|" else match[1], text)
    if "^" in text or "_{" in text:
        text = re.sub(r"[_^]\{([^{}]*)\}", r"\1", text).replace("^", "")
    if "<" in text:
        text = _TAG.sub(" ", _SCRIPT_TAG.sub("", text))
    return _normal(html.unescape(text) if "&" in text else text)
