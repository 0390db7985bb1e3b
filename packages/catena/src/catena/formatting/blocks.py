"""Join printed lines to blocks of Markdown that know their pages, and write the blocks out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from catena.formatting.styled_lines import (
    SOFT_HYPHEN,
    Measures,
    Rows,
    StyledLine,
    first_word_width,
    has_leader,
    is_caption,
    is_cjk,
)
from catena.text.tables import table_row

_MARK = re.compile(  # at a line's start
    r"#{1,6}(?=\s|$)|[-+*](?=\s|$)|[>|<]|~~~|```|\[[^\]]+\]:|[-*_](?:\s*[-*_]){2,}\s*$|=+\s*$"
)
_ORDERED = re.compile(r"(\d{1,9})([.)])(?=\s|$)")
_SAME_LINE = 0.3  # usual line distances: closer lines are parts of one printed line
PARAGRAPH_GAP = 1.35  # usual line distances between two lines of one paragraph, at most
_CLOSE_GAP = 1.12  # the same between two sentences
_SENTENCE_END = re.compile(r"[.!?:。！？：][\"'”’»)\]]*$")
_HYPHENATED = re.compile(r"\b\w+(?:[-‐]\w+)+\b")
_BROKEN = re.compile(r"(?<![-‐\w])(?P<stem>[^\W\d_]+)[-‐]$")  # not "state-of-"
_LOWER_WORD = re.compile(r"(?=[^\W\d_A-Z])[^\W\d_]++(?![-‐][^\W\d_])")  # not "the-art"
_WORD = re.compile(r"[^\W\d_]+")
_CLOSE = re.compile(r"\w[-‐]$")  # a hyphen that stays: what follows belongs to the same word
_URL = re.compile(r"https?://|www\.")
_URL_ENDS = tuple("/_?&=.-")


@dataclass(frozen=True, slots=True)
class PagedText:
    """Text of one page inside a block; `glue` joins it to the piece before it."""

    page: int  # from 1
    text: str
    glue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownBlock:
    """A heading, a paragraph, an item of a list, code, a table or a figure.

    Attributes:
        prefix: what Markdown wants before the first piece ("## ", "- ", a fence).
        suffix: what it wants after the last one (a fence).
        indent: spaces before the prefix, for items inside items.
    """

    kind: Literal["heading", "paragraph", "item", "code", "table", "figure"]
    pieces: tuple[PagedText, ...]
    prefix: str = ""
    suffix: str = ""
    indent: int = 0


def write(blocks: Sequence[MarkdownBlock], n_pages: int) -> tuple[str, tuple[int, ...]]:
    """Write blocks as Markdown.

    Returns:
        The text, and the offset where each page begins: at its first character, marks of Markdown included,
        in the middle of a paragraph or even of a word that goes over the page. A page that shows nothing
        begins where the next one does.
    """
    out: list[str] = []
    starts: list[int] = []
    length = 0

    def put(text: str) -> None:
        nonlocal length
        out.append(text)
        length += len(text)

    for last, block in zip([None, *blocks], blocks, strict=False):
        if last is not None:
            put("\n" if last.kind == block.kind == "item" else "\n\n")
        for position, piece in enumerate(block.pieces):
            if position:
                put(piece.glue)
            while len(starts) < piece.page:
                starts.append(length)
            if not position:
                put(" " * block.indent + block.prefix)
            put(piece.text)
        put(block.suffix)
    if blocks:
        put("\n")
    starts += [length] * (n_pages - len(starts))
    return "".join(out), (0, *starts[1:]) if starts else ()


def escape(text: str) -> str:
    """Keep the first characters of a paragraph from being read as a mark of Markdown."""
    if _MARK.match(text):
        return "\\" + text
    return _ORDERED.sub(r"\1\\\2", text, count=1) if _ORDERED.match(text) else text


def escape_heading(text: str) -> str:
    """Keep trailing number signs, which Markdown would take for the end of the heading."""
    return re.sub(r"(\s)(#+)$", r"\1\\\2", text)


def table_block(rows: Sequence[tuple[int, Sequence[str]]]) -> MarkdownBlock:
    """Write a table whose first row is the header; each row comes with its page."""
    header, *rest = rows
    rule = "\n| " + " | ".join("---" for _ in header[1]) + " |\n"
    pieces = [PagedText(header[0], table_row(header[1]))]
    for position, (page, cells) in enumerate(rest):
        pieces.append(PagedText(page, table_row(cells), "\n" if position else rule))
    return MarkdownBlock(kind="table", pieces=tuple(pieces), suffix="" if rest else rule.rstrip("\n"))


def code_block(lines: Sequence[tuple[int, str]]) -> MarkdownBlock:
    """Write lines verbatim between fences that are longer than any run of backticks in them."""
    longest = max((len(run) for _, line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    pieces = tuple(PagedText(page, line, "\n") for page, line in lines)
    return MarkdownBlock(kind="code", pieces=pieces, prefix=fence + "\n", suffix="\n" + fence)


class Compounds:
    """Counts of the words of a file with and without a hyphen inside its lines."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._compounds: Counter[str] = Counter()
        self._words: Counter[str] = Counter()
        for line in lines:
            low = line.casefold()
            self._compounds.update(word.replace("‐", "-") for word in _HYPHENATED.findall(low))
            self._words.update(_WORD.findall(low))

    def keeps_hyphen(self, stem: str, rest: str) -> bool:
        """Tell if "stem-" at a line's end and "rest" on the next are a compound rather than one divided word."""
        compound, word = f"{stem}-{rest}".casefold(), f"{stem}{rest}".casefold()
        if self._compounds[compound] != self._words[word]:
            return self._compounds[compound] > self._words[word]
        return len(stem) == 1 or not stem[1:].islower()


def glue(above: str, below: str, compounds: Compounds) -> tuple[str, str]:
    """Return the first text without its hyphen, if it divides a word, and the text between the two.

    A hyphen is undone before a lower-case letter only: "HX-" and "200" are a product, "e-" and "mail" a word.
    """
    if above.endswith(SOFT_HYPHEN):
        return above.rstrip(SOFT_HYPHEN), ""
    broken, word = _BROKEN.search(above), _LOWER_WORD.match(below)
    if broken and word and not compounds.keeps_hyphen(broken.group("stem"), word.group()):
        return above[:-1], ""
    unspaced = is_cjk(above[-1:] or " ") and is_cjk(below[:1] or " ")
    return above, "" if unspaced or _CLOSE.search(above) or _ends_in_url(above) else " "


def join(texts: Sequence[tuple[int, str]], compounds: Compounds) -> tuple[PagedText, ...]:
    """Join the lines of one paragraph, hyphens at their ends undone."""
    pieces: list[PagedText] = []
    for page, text in texts:
        between = ""
        if pieces:
            kept, between = glue(pieces[-1].text, text, compounds)
            pieces[-1] = PagedText(pieces[-1].page, kept, pieces[-1].glue)
        pieces.append(PagedText(page, text, between))
    return tuple(pieces)


def joined_text(texts: Sequence[tuple[int, str]], compounds: Compounds) -> str:
    """Return the lines of one paragraph as one text."""
    return "".join(piece.glue + piece.text for piece in join(texts, compounds))


def _ends_in_url(text: str) -> bool:
    """Return whether a line breaks off inside an address: "see https://example.org/manuals/"."""
    return text.endswith(_URL_ENDS) and _URL.search(text.rsplit(maxsplit=1)[-1][:-1]) is not None


def continues(rows: Rows, block: Sequence[int], index: int, measures: Measures, hang: float | None) -> bool:
    """Tell if a line goes on with a paragraph or an item.

    Args:
        rows: all lines.
        block: indexes of the lines that the paragraph has so far, the last one nearest.
        index: of the line in question.
        measures: the type of the file.
        hang: where the text of an item begins, from the left edge of its column in points; None in a paragraph.
    """
    above, below = rows[block[-1]], rows[index]
    if has_leader(above.text) or abs(above.size - below.size) > 0.08 * max(above.size, below.size):
        return False
    gap = measures.gap(above, below)
    if above.block != below.block or gap <= -_SAME_LINE:
        return _continues_elsewhere(above, below, measures, hang)
    if gap < _SAME_LINE:
        return True  # parts of one printed line, such as an exponent
    ends = _SENTENCE_END.search(above.text) and not below.text[:1].islower()
    apart = ends or measures.emphatic(above) != measures.emphatic(below) or is_caption(below.text)
    if gap > (_CLOSE_GAP if apart else PARAGRAPH_GAP):
        return False
    if _divided(above.text) and below.text[:1].islower():
        return True
    filled = _filled(above, below, _right(rows, block, index, measures))
    return filled and _same_left(above, below, measures, hang, first=len(block) == 1)


def _same_left(above: StyledLine, below: StyledLine, measures: Measures, hang: float | None, *, first: bool) -> bool:
    """Tell if a line begins where the next line of the paragraph must: only after the first may that change."""
    shift = (below.line.x0 - above.line.x0) / max(1.0, above.size)
    if shift > 0.5:
        hangs = hang is not None and abs(below.line.x0 - measures.edges_at(below)[0] - hang) < above.size
        return first and (hangs or not _SENTENCE_END.search(above.text))
    return shift >= -0.5 or (first and hang is None)


def _continues_elsewhere(above: StyledLine, below: StyledLine, measures: Measures, hang: float | None) -> bool:
    """Tell if a paragraph goes on in the next column or on the next page."""
    if below.page - above.page > 1 or is_caption(below.text) or measures.emphatic(above) != measures.emphatic(below):
        return False
    low = below.text[:1].islower()
    if _divided(above.text) and low:
        return True
    left, right = measures.edges_at(above)
    start = below.line.x0 - measures.edges_at(below)[0]
    place = hang if hang is not None else min(above.line.x0 - left, 0.5 * above.size)
    if abs(start - place) > 0.8 * below.size or not _filled(above, below, right):
        return False
    return low or not _SENTENCE_END.search(above.text)


def _divided(text: str) -> bool:
    return text.endswith(SOFT_HYPHEN) or bool(_BROKEN.search(text))


def _filled(above: StyledLine, below: StyledLine, right: float) -> bool:
    """Tell if the first word of a line would not have fitted on the line before it."""
    space = 0.2 * above.size
    # words are wider or narrower than the mean
    return above.line.x1 + space + first_word_width(below.line) >= right - 0.6 * above.size


def _right(rows: Rows, block: Sequence[int], index: int, measures: Measures) -> float:
    """Return the right edge of the lines around: an indented quotation or an item may be narrower than its column."""
    above = rows[block[-1]]
    column = measures.edges_at(above)[1]
    near = [rows[i] for i in block[-4:]]
    for position in range(index, min(index + 3, len(rows))):
        row = rows[position]
        gap = measures.gap(near[-1], row)
        if row.block != above.block or not -0.3 < gap <= PARAGRAPH_GAP or abs(row.size - above.size) > 1:
            break
        near.append(row)
    widest = max(row.line.x1 for row in near)
    return min(column, widest) if len(near) > 2 else column
