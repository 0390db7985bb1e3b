"""Join blocks to units (a heading and its text, a table or figure and its caption), and divide long text.

Text is divided at the mildest border that helps: blank lines, list items, sentences, lines, words, characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from catena.model import Chunk, Document, Segment, shown_text
from catena.structure.blocks import Block, blocks_of
from catena.text import Table, read_value
from catena.text.tables import TableGrid, read_table
from catena.text.words import sentence_ends

UnitKind: TypeAlias = Literal["text", "code", "table", "figure"]
_CAPTION = r"[*_]{0,3}(?:%s)[ \t]*[\dA-Z一二三四五六七八九十]"
_TABLE_CAPTION = re.compile(_CAPTION % r"Table|TABLE|Tab\.|Tabelle|Tableau|表格?")
_FIGURE_CAPTION = re.compile(_CAPTION % r"Figure|FIGURE|Fig\.?|FIG\.?|Abb\.|Abbildung|图表?|圖")
_BOLD_LINE = re.compile(r"(\*\*|__)[^\r\n]+\1")
_IMAGE = re.compile(r"[ \t]*!\[[^\r\n]*\][(\[]")
_LONGEST_CAPTION = 200  # characters
_TAGS = re.compile(r"<(/?)table\b", re.IGNORECASE)


class Unit(NamedTuple):
    """A block with what belongs to it; the units of a section tile it.

    Attributes:
        core: where the block itself begins, after the heading or caption that was put before it.
    """

    start: int
    end: int
    kind: UnitKind
    core: int


def units(text: str, start: int, end: int, blocks: Sequence[Block]) -> list[Unit]:
    """Return the units of the section [start, end), whose blocks are given in order.

    Args:
        text: the whole text.
        start: where the section begins; text before its first block belongs to the first unit.
        end: where it ends; text after a block, up to the next one, belongs to the block.
        blocks: those that begin inside the section (one cut by its start begins there).
    """
    found: list[Unit] = []
    begin = start
    blocks = whole_tables(text, blocks)
    for index, block in enumerate(blocks):
        following = blocks[index + 1] if index + 1 < len(blocks) else None
        border = following.start if following is not None else end
        if following is not None and _leads(text, block, following):
            continue
        kind = _kind(text, block)
        if found and kind == "text" and found[-1].kind == "figure" and _captions(text, block, found[-1]):
            found[-1] = found[-1]._replace(end=border)
        else:
            found.append(Unit(begin, border, kind, max(begin, block.start)))
        begin = border
    return found or [Unit(start, end, "text", start)]


def _kind(text: str, block: Block) -> UnitKind:
    if block.kind == "table":
        return "table"
    if block.kind == "code":
        return "code"
    return "figure" if block.kind == "paragraph" and _IMAGE.match(text, block.start) else "text"


def _leads(text: str, block: Block, following: Block) -> bool:
    """Return whether the block is the heading of the next one, or the caption of a table that follows."""
    if block.kind == "heading":
        return True
    if block.kind != "paragraph" or following.kind != "table" or block.end - block.start > _LONGEST_CAPTION:
        return False
    line = text[block.start : block.end]
    if "\n" in line or "\r" in line or _IMAGE.match(line):
        return False
    directly_above = text[block.end : following.start].strip(" \t") in {"\n", "\r\n", "\r"}
    return directly_above or bool(_TABLE_CAPTION.match(line) or _BOLD_LINE.fullmatch(line))


def _captions(text: str, block: Block, figure: Unit) -> bool:
    """Return whether the paragraph is the caption of the figure before it."""
    short = block.end - block.start <= _LONGEST_CAPTION
    return short and block.kind == "paragraph" and bool(_FIGURE_CAPTION.match(text, block.start))


def tables_in(text: str, blocks: Sequence[Block]) -> list[TableGrid]:
    """Return the tables of a text in order, given its blocks; tables inside lists and quotes are left alone."""
    found: list[TableGrid] = []
    for block in whole_tables(text, blocks):
        if block.kind == "table":
            found.extend(read_table(text, block.start, block.end))
    return found


def tables_of(found: Chunk | Segment) -> tuple[Table, ...]:
    """Return the tables that a chunk or a segment shows, as values; places of cells are those in its document.

    A slice that goes on with a table is read with the header that its metadata keep. The title of a table is its
    caption, else the innermost heading.
    """
    text = shown_text(found)
    blocks = blocks_of(Document(id="", text=text, media_type="text/markdown"))
    shift = found.end - len(text)
    title, before = (found.path[-1] if found.path else ""), 0
    tables: list[Table] = []
    for grid in tables_in(text, blocks):
        table = read_value(text, grid, title=title, before=before)
        before = grid.end
        placed = (replace(cell, start=cell.start + shift, end=cell.end + shift) for cell in table.cells)
        tables.append(replace(table, cells=tuple(placed)))
    return tuple(tables)


def whole_tables(text: str, blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks with every HTML block that holds a table as a block of kind "table".

    A blank line ends an HTML block, even inside a table: what follows, up to the end of the table, is joined
    to it again. A table that is not closed before the next heading is left as it is.
    """
    if not any(block.kind == "html" for block in blocks):
        return list(blocks)
    closed = _closed_tables(text, blocks)
    made: list[Block] = []
    index = 0
    while index < len(blocks):
        block, last = blocks[index], closed.get(index)
        if last is None or block.kind != "html":
            made.append(block)
            index += 1
        else:
            made.append(Block("table", block.start, blocks[last].end))
            index = last + 1
    return made


def _closed_tables(text: str, blocks: Sequence[Block]) -> dict[int, int]:
    """Return, by the block in which a <table> begins, the last block in which one of these ends: in one pass."""
    open_in: list[int] = []
    closed: dict[int, int] = {}
    for index, block in enumerate(blocks):
        if block.kind == "heading":
            open_in.clear()
        elif open_in or block.kind == "html":
            for tag in _TAGS.finditer(text, block.start, block.end):
                if not tag[1]:
                    open_in.append(index)
                elif open_in:
                    closed[open_in.pop()] = index
    return closed


Span: TypeAlias = tuple[int, int]
Counter: TypeAlias = Callable[[str], int]
Borders: TypeAlias = Callable[[str, int, int], Iterable[int]]


def _ends_of(pattern: str) -> Borders:
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda text, start, end: (match.end() for match in compiled.finditer(text, start, end))


def _starts_of(pattern: str) -> Borders:
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda text, start, end: (match.start() for match in compiled.finditer(text, start, end))


blank_lines = _ends_of(r"(?:\r\n?|\n)(?:[ \t]*(?:\r\n?|\n))+")
items = _starts_of(r"^[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t]")
lines = _ends_of(r"\r\n?|\n")
words = _ends_of(r"\s+")
html_rows = _starts_of(r"(?i:<tr\b)")
PROSE: tuple[Borders, ...] = (blank_lines, items, sentence_ends, lines, words)
CODE: tuple[Borders, ...] = (blank_lines, lines, words)
ROWS: tuple[Borders, ...] = (html_rows, lines, words)
LEVELS: Mapping[UnitKind, tuple[Borders, ...]] = {"text": PROSE, "code": CODE, "table": ROWS, "figure": PROSE}


def divide(text: str, span: Span, levels: Sequence[Borders], *, limit: int, count: Counter) -> Iterator[Span]:
    """Yield consecutive spans that tile `span`, none longer than `limit` tokens.

    The span is cut at the borders of the first level and its parts are joined again while they fit, to
    pieces of about equal length; a part that is too long by itself is cut at the next level, in the end
    between characters.

    Args:
        text: the whole text.
        span: [start, end) of what to cut.
        levels: kinds of borders, mildest first.
        limit: most tokens of a piece, >= 1; only a single character may pass it.
        count: tokens of a text.
    """
    total = count(text[span[0] : span[1]])
    if total <= limit:
        yield span
    elif not levels:
        yield from _halves(text, span, limit=limit, count=count)
    else:
        deeper = partial(divide, text, levels=levels[1:], limit=limit, count=count)
        share = even_share(total, limit)
        yield from pack(text, parts(text, span, levels[0]), deeper, limit=limit, share=share, count=count)


def parts(text: str, span: Span, borders: Borders) -> list[Span]:
    """Return the parts of a span between the borders inside it."""
    start, end = span
    inner = [border for border in borders(text, start, end) if start < border < end]
    return list(pairwise([start, *inner, end]))


def even_share(total: int, limit: int) -> int:
    """Return the tokens of each piece when `total` is spread evenly over the fewest pieces of `limit`."""
    return -(-total // -(-total // limit))


def pack(
    text: str,
    spans: Sequence[Span],
    deeper: Callable[[Span], Iterator[Span]],
    *,
    limit: int,
    share: int,
    count: Counter,
) -> Iterator[Span]:
    """Yield consecutive spans joined to pieces of at most `limit` tokens.

    A piece is closed once it has its `share` of tokens: `even_share` gives pieces of about equal length,
    the limit itself fills each piece as far as it goes. A span longer than `limit` is divided by
    `deeper`, together with the little that waits before it, so that no heading is left alone.
    """
    run: list[Span] = []
    held = 0
    for span in spans:
        tokens = count(text[span[0] : span[1]])
        if tokens > limit and held * 2 < share:
            yield from deeper((run[0][0] if run else span[0], span[1]))
            run, held = [], 0
            continue
        if run and (held + tokens > limit or held >= share):
            yield from _checked(text, run, limit=limit, count=count)
            run, held = [], 0
        if tokens > limit:
            yield from deeper(span)
        else:
            run.append(span)
            held += tokens
    if run:
        yield from _checked(text, run, limit=limit, count=count)


def _checked(text: str, run: Sequence[Span], *, limit: int, count: Counter) -> Iterator[Span]:
    """Yield the run as one span, or as two and so on where its tokens are more than the sum of its parts'."""
    span = (run[0][0], run[-1][1])
    if len(run) == 1 or count(text[span[0] : span[1]]) <= limit:
        yield span
    else:
        middle = len(run) // 2
        yield from _checked(text, run[:middle], limit=limit, count=count)
        yield from _checked(text, run[middle:], limit=limit, count=count)


def _halves(text: str, span: Span, *, limit: int, count: Counter) -> Iterator[Span]:
    start, end = span
    if end - start <= 1 or count(text[start:end]) <= limit:
        yield span
    else:
        middle = (start + end) // 2
        yield from _halves(text, (start, middle), limit=limit, count=count)
        yield from _halves(text, (middle, end), limit=limit, count=count)
