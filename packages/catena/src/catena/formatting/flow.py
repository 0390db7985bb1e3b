"""From lines to blocks: paragraphs re-joined, items of lists with their depth, code kept as printed."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from catena.formatting.blocks import Block, Piece, code_block, escape, escape_heading, table_block
from catena.formatting.figures import PlacedFigure, figure_block, with_titles
from catena.formatting.headings import Heading
from catena.formatting.joining import Compounds, continues, glue
from catena.formatting.rows import Measures, Row
from catena.formatting.tables import Table
from catena.formatting.words import (
    Ordinal,
    bullet,
    first_word_width,
    has_leader,
    is_table_caption,
    ordinals,
    short_leader,
)


@dataclass(frozen=True, slots=True)
class _Item:
    """An open item of a list, in points from the left edge of its column."""

    left: float  # where its mark begins
    hang: float  # where its text begins
    family: str  # kind of mark; "" for bullets
    value: int
    indent: int  # spaces before its mark in Markdown
    width: int  # characters of its mark in Markdown, with the space


@dataclass(slots=True)
class _Flow:
    """The blocks made so far, and the one that lines may still join."""

    rows: Sequence[Row]
    measures: Measures
    compounds: Compounds
    blocks: list[Block] = field(default_factory=list)
    open: list[int] = field(default_factory=list)  # rows of the paragraph or item being read
    items: list[_Item] = field(default_factory=list)  # the open items, outermost first
    last: dict[str, _Item] = field(default_factory=dict)  # the latest item of each family since the last heading
    is_item: bool = False

    def close(self) -> None:
        """End the paragraph or item being read."""
        if not self.open:
            return
        texts = [(self.rows[index].page, self.rows[index].text.strip()) for index in self.open]
        item = self.items[-1] if self.items else None
        if self.is_item and item is not None:
            cut = bullet(texts[0][1]) or (item.width if item.family in _PLAIN_ORDINALS else 0)
            mark, texts[0] = texts[0][1][:cut].strip(), (texts[0][0], texts[0][1][cut:].lstrip())
            prefix = f"{mark} " if item.family in _PLAIN_ORDINALS else "- "
            block = Block(kind="item", pieces=self._joined(texts), prefix=prefix, indent=item.indent)
        elif has_leader(texts[-1][1]):
            pieces = self._joined([(page, short_leader(text)) for page, text in texts])
            block = Block(kind="item", pieces=pieces, prefix="- ")
        else:
            indent = item.indent + item.width if item is not None else 0
            block = Block(kind="paragraph", pieces=self._joined(texts), indent=indent)
        self.blocks.append(block)
        self.open, self.is_item = [], False

    def _joined(self, texts: Sequence[tuple[int, str]]) -> tuple[Piece, ...]:
        pieces = join(texts, self.compounds)
        first = pieces[0]
        return (Piece(first.page, escape(first.text)), *pieces[1:])

    def end_lists(self) -> None:
        """Forget the open items, e.g. at a heading."""
        self.close()
        self.items = []

    def show(self, figure: PlacedFigure) -> bool:
        """Put a figure where the text stands, or say that it has to wait for the end of the open paragraph.

        A paragraph that goes on around a figure is never torn: it follows the figure where it begins on the
        same page, else the figure waits for its end.
        """
        if figure.captioned:
            self.close()
        elif self.open and self.rows[self.open[0]].page < figure.page:
            return False
        self.blocks.append(figure_block(figure))
        return True

    def take(self, index: int) -> None:
        """Add a line of text: to what is open, as an item, or as a new paragraph."""
        row = self.rows[index]
        goes_on = bool(self.open) and _goes_on(self, index)
        item = self._item(row, goes_on=goes_on)
        if item is not None:
            self.close()
            while self.items and self.items[-1].left > item.left - 3:
                self.items.pop()
            indent = self.items[-1].indent + self.items[-1].width if self.items else 0
            item = _Item(item.left, item.hang, item.family, item.value, indent, item.width)
            self.items.append(item)
            self.last[item.family] = item
            self.open, self.is_item = [index], True
        elif goes_on:
            self.open.append(index)
        else:
            self.close()
            left = self._left(row)
            while self.items and left < self.items[-1].hang - 3:
                self.items.pop()
            self.open = [index]

    def _left(self, row: Row) -> float:
        return row.line.x0 - self.measures.edges_at(row)[0]

    def _item(self, row: Row, *, goes_on: bool) -> _Item | None:
        """Return the item that a line begins, or None for a line of prose."""
        text, left = row.text.strip(), self._left(row)
        if cut := bullet(text):
            flush = goes_on and abs(row.line.x0 - self.rows[self.open[-1]].line.x0) < 3
            if text[0] in "-–—*+" and flush and not (self.is_item and len(self.open) == 1):
                return None
            if text[0] in "-–—*+" and flush and self.items and abs(left - self.items[-1].left) > 3:
                return None
            return _Item(left, left + self._width(row, cut), "", 0, 0, 2)
        for ordinal in ordinals(text):
            if self._in_sequence(ordinal, left, goes_on=goes_on):
                width = ordinal.end if ordinal.family in _PLAIN_ORDINALS else 2
                return _Item(left, left + self._width(row, ordinal.end), ordinal.family, ordinal.value, 0, width)
        return None

    def _in_sequence(self, ordinal: Ordinal, left: float, *, goes_on: bool) -> bool:
        before = self.last.get(ordinal.family)
        if before is not None and ordinal.value == before.value + 1 and abs(left - before.left) < 6:
            return True
        return ordinal.value == 1 and not goes_on and not ordinal.family.startswith("#.A")

    def _width(self, row: Row, count: int) -> float:
        """Return how far the text after a mark of `count` characters is from the mark, in points."""
        inked = [span for span in row.line.spans if span.text.strip()]
        if len(inked) > 1 and len(inked[0].text.strip()) < count:
            return inked[1].x0 - inked[0].x0
        return (row.line.x1 - row.line.x0) * count / max(1, len(row.text))


_WIDEST = 400  # characters before a span of code: broken files place text miles away
_PLAIN_ORDINALS = frozenset({"#.1", "#)1"})  # those that Markdown knows: "1." and "1)"


def blocks_of(
    rows: Sequence[Row],
    measures: Measures,
    headings: Sequence[Heading],
    tables: Sequence[Table],
    figures: Sequence[PlacedFigure] = (),
) -> list[Block]:
    """Return the blocks of a file in reading order.

    Every line is in exactly one block. The title of a table stands directly before it, also where it is
    printed below; a figure stands directly before its caption, also where that is printed above it.
    """
    flow = _Flow(rows, measures, Compounds(row.text for row in rows))
    heading_at = {heading.start: heading for heading in headings}
    table_at = {table.indexes[0]: table for table in tables}
    taken = {index for table in tables for index in table.indexes}
    blocked = heading_at.keys() | taken
    waiting = list(figures)
    index = 0
    while index < len(rows):
        while waiting and waiting[0].before <= index and (index not in taken or index in table_at):
            if flow.open and not _goes_on(flow, index):
                flow.close()
            if not flow.show(waiting[0]):
                break
            del waiting[0]
        if heading := heading_at.get(index):
            flow.end_lists()
            flow.last.clear()
            flow.blocks.append(_heading_block(rows, heading, flow.compounds))
            index = heading.end
            continue
        if table := table_at.get(index):
            flow.end_lists()
            _add_table(flow.blocks, table, flow.compounds)
        if index in taken:
            index += 1
            continue
        end = _code_end(rows, index, measures, blocked, before=flow.open)
        if end > index:
            flow.end_lists()
            flow.blocks.append(code_block(_code_lines(rows[index:end], measures)))
            index = end
            continue
        flow.take(index)
        index += 1
    flow.close()
    flow.blocks += map(figure_block, waiting)
    return with_titles(_titles_first(flow.blocks), figures)


def _goes_on(flow: _Flow, index: int) -> bool:
    """Whether a line goes on with the open paragraph or item."""
    hang = flow.items[-1].hang if flow.is_item and flow.items else None
    return continues(flow.rows, flow.open, index, flow.measures, hang)


def join(texts: Sequence[tuple[int, str]], compounds: Compounds) -> tuple[Piece, ...]:
    """Join the lines of one paragraph, hyphens at their ends undone."""
    pieces: list[Piece] = []
    for page, text in texts:
        between = ""
        if pieces:
            kept, between = glue(pieces[-1].text, text, compounds)
            pieces[-1] = Piece(pieces[-1].page, kept, pieces[-1].glue)
        pieces.append(Piece(page, text, between))
    return tuple(pieces)


def _heading_block(rows: Sequence[Row], heading: Heading, compounds: Compounds) -> Block:
    pieces = join([(row.page, row.text.strip()) for row in rows[heading.start : heading.end]], compounds)
    whole = escape_heading("".join(piece.glue + piece.text for piece in pieces))
    return Block(kind="heading", pieces=(Piece(pieces[0].page, whole),), prefix="#" * heading.level + " ")


def _add_table(blocks: list[Block], table: Table, compounds: Compounds) -> None:
    """Add a table, or go on with the one before it if that ends on the page before and has the same header."""
    made = table_block([(page, [_cell(cell, compounds) for cell in cells]) for page, cells in table.cells])
    last = blocks[-1] if blocks else None
    if (
        last is not None
        and last.kind == "table"
        and last.pieces[0].text == made.pieces[0].text
        and 0 <= made.pieces[0].page - last.pieces[-1].page <= 1
        and len(last.pieces) > 1
        and len(made.pieces) > 1
    ):
        first, *rest = made.pieces[1:]
        blocks[-1] = Block(
            kind="table", pieces=(*last.pieces, Piece(first.page, first.text, "\n"), *rest), suffix=last.suffix
        )
    else:
        blocks.append(made)


def _cell(text: str, compounds: Compounds) -> str:
    """Return the lines of a cell joined as those of a paragraph are."""
    pieces = join([(0, line.strip()) for line in text.splitlines() if line.strip()], compounds)
    return "".join(piece.glue + piece.text for piece in pieces)


def _titles_first(blocks: Sequence[Block]) -> list[Block]:
    """Put a table's title that is printed right below it before it, unless it has one above or the next has none."""
    out = list(blocks)
    for index in range(1, len(out)):
        table, below = out[index - 1], out[index]
        titled = index >= 2 and _is_title(out[index - 2])
        followed = index + 1 < len(out) and out[index + 1].kind == "table"
        same_page = table.pieces[0].page == below.pieces[-1].page
        if table.kind == "table" and _is_title(below) and same_page and not titled and not followed:
            out[index - 1], out[index] = below, table
    return out


def _is_title(block: Block) -> bool:
    return block.kind == "paragraph" and is_table_caption(block.pieces[0].text)


def _code_end(
    rows: Sequence[Row], index: int, measures: Measures, blocked: Set[int], *, before: Sequence[int]
) -> int:
    """Return where the code that begins at a row ends; the row itself if it is no code.

    A single line in a fixed-width font, tight under a filled line and from the same edge, is a part of prose.
    """
    end = index
    while end < len(rows) and measures.code(rows[end]) and end not in blocked:
        if end > index and rows[end].block == rows[end - 1].block and measures.gap(rows[end - 1], rows[end]) > 4:
            break
        end += 1
    if end == index + 1 and before and before[-1] == index - 1 and rows[index].block == rows[index - 1].block:
        above, row = rows[index - 1], rows[index]
        tight = 0 < measures.gap(above, row) <= 1.15 and abs(above.line.x0 - row.line.x0) < 2
        if tight and above.line.x1 + first_word_width(row.line) >= measures.edges_at(above)[1] - above.size:
            return index
    return end


def _code_lines(rows: Sequence[Row], measures: Measures) -> list[tuple[int, str]]:
    """Return code with its indentation and its empty lines, both as wide as they are printed."""
    widths = [(span.x1 - span.x0) / len(span.text) for row in rows for span in row.line.spans if span.text.strip()]
    width = max(0.1, median(widths)) if widths else 1.0
    left: dict[tuple[int, int], float] = {}
    for row in rows:
        left[row.block] = min(left.get(row.block, row.line.x0), row.line.x0)
    pitches = [measures.gap(a, b) for a, b in pairwise(rows) if a.block == b.block]
    usual = min((pitch for pitch in pitches if pitch > 0.5), default=1.0)
    lines: list[tuple[int, str]] = []
    for position, row in enumerate(rows):
        if position and rows[position - 1].block == row.block:
            empty = round(measures.gap(rows[position - 1], row) / usual) - 1
            lines += [(row.page, "")] * min(2, max(0, empty))
        lines.append((row.page, _verbatim(row, left[row.block], width)))
    return lines


def _verbatim(row: Row, left: float, width: float) -> str:
    """Return a line with each span in the column where it is printed."""
    text = ""
    for span in row.line.spans:
        column = min(_WIDEST, round((span.x0 - left) / width))
        if text and column <= len(text):
            apart = span.x0 - _end_of(row, span.x0) > 0.3 * width
            text += " " if apart and not text.endswith(" ") else ""
        text = text.ljust(column) + span.text.rstrip("\n")
    return text.rstrip()


def _end_of(row: Row, x: float) -> float:
    """Return where the span before the one at x ends."""
    return max((span.x1 for span in row.line.spans if span.x0 < x), default=x)
