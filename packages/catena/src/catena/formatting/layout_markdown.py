"""Write a laid-out file as a Markdown document: headings, paragraphs, lists, code and tables, without a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median

from catena.formatting.blocks import (
    Compounds,
    MarkdownBlock,
    PagedText,
    code_block,
    continues,
    escape,
    escape_heading,
    join,
    joined_text,
    table_block,
    write,
)
from catena.formatting.figures import PlacedFigure, figure_block, place_figures, with_titles
from catena.formatting.headings import LayoutHeading, find_headings, first_line
from catena.formatting.styled_lines import (
    Measures,
    Ordinal,
    Rows,
    StyledLine,
    bullet,
    first_word_width,
    has_leader,
    is_table_caption,
    key,
    measure,
    ordinals,
    parted_unit,
    rows_of,
    running_rows,
    short_leader,
)
from catena.formatting.tables import PrintedTable, find_tables
from catena.model import Checked, Document, Parsed
from catena.text import is_title, read_cover, stem_text

_WIDEST = 400  # characters before a span of code: broken files place text miles away
_PLAIN_ORDINALS = frozenset({"#.1", "#)1"})  # those that Markdown knows: "1." and "1)"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions(Checked):
    """The parts of a layout that the formatter uses."""

    outline: bool = True  # the file's own outline, where most of its titles are found in the text
    running_heads: bool = False  # keep running heads, feet and page numbers in the text
    unruled_tables: bool = True  # make tables of lines that line up in columns without drawn borders


def format_layout(parsed: Parsed, options: LayoutOptions = LayoutOptions()) -> Document:
    """Write a laid-out file as Markdown.

    Headings come from the file's outline first, then from size, weight and numbering. The title on the first
    page is the only heading of level 1 and chapters are of level 2; without a title, chapters are of level 1.

    The document's title is the first that reads like one of: company, form and period of its cover, the title that
    is printed, the outline's only root, the metadata's, a first line in larger type, the file's name.

    Apart from running heads, hyphens at line ends, repeated headers of a table and merged cells (which may be
    repeated), every letter and digit of the layout is in the text, in the order of its lines (inside a table, of
    its cells). A figure is an image whose alternative text begins its caption and whose title is the text inside
    it, see `catena.model.figures`.

    Args:
        parsed: a file as a parser read it; without a layout its document is returned as it is.
        options: what to make use of.

    Returns:
        The document with the same id, source and labels, and with what its cover says (company, form, period, date)
        added to its metadata; `page_starts` point to the first character of each page in the new text.
    """
    layout, document = parsed.layout, parsed.document
    if layout is None:
        return document
    rows, figures = place_figures(layout.pages, rows_of(layout), document.id)
    if not options.running_heads:
        running = running_rows(layout.pages, rows)
        figures = [replace(one, before=one.before - sum(i < one.before for i in running)) for one in figures]
        rows = [row for index, row in enumerate(rows) if index not in running]
    measures = measure(rows)
    tables = find_tables(layout.pages, rows, measures, unruled=options.unruled_tables)
    taken = frozenset(index for table in tables for index in table.indexes)
    outline = layout.outline if options.outline else ()
    first_page = [index for index, row in enumerate(rows) if row.page == rows[0].page]
    cover = read_cover([rows[index].text for index in first_page])
    if cover.numbered and cover.company:  # a page of fields: none of them heads what follows
        taken |= frozenset(first_page)
    headings = find_headings(rows, measures, taken=taken, outline=outline, title=layout.title)
    named, roots = layout.title.strip(), [item.title for item in layout.outline if item.level == 1]
    titles = (
        cover.title, _printed_title(headings, named, len(first_page)), roots[0] if len(roots) == 1 else "",
        named, first_line(rows[: len(first_page)], measures), stem_text(document.source.replace("\\", "/")),
    )  # fmt: skip
    text, starts = write(blocks_of(rows, measures, headings, tables, figures), len(layout.pages))
    labels = document.page_labels if len(document.page_labels) == len(starts) else ()
    return replace(
        document, text=text, title=next(filter(is_title, titles), titles[-1] or document.title),
        media_type="text/markdown", page_starts=starts, page_labels=labels,
        metadata={**document.metadata, **cover.metadata},
    )  # fmt: skip


def _printed_title(headings: Sequence[LayoutHeading], named: str, end: int) -> str:
    """Return the only heading of level 1 if it is the first and among rows[:end], spelt as the metadata spells it."""
    highest = [heading for heading in headings if heading.level == 1]
    if len(highest) != 1 or highest[0] is not headings[0] or highest[0].start >= end:
        return ""
    return named if key(named) == key(highest[0].text) else highest[0].text


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

    rows: Rows
    measures: Measures
    compounds: Compounds
    blocks: list[MarkdownBlock] = field(default_factory=list)
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
            block = MarkdownBlock(kind="item", pieces=self._joined(texts), prefix=prefix, indent=item.indent)
        elif has_leader(texts[-1][1]):
            pieces = self._joined([(page, short_leader(text)) for page, text in texts])
            block = MarkdownBlock(kind="item", pieces=pieces, prefix="- ")
        else:
            indent = item.indent + item.width if item is not None else 0
            block = MarkdownBlock(kind="paragraph", pieces=self._joined(texts), indent=indent)
        self.blocks.append(block)
        self.open, self.is_item = [], False

    def _joined(self, texts: Sequence[tuple[int, str]]) -> tuple[PagedText, ...]:
        first, *rest = join(texts, self.compounds)
        return (PagedText(first.page, escape(first.text)), *rest)

    def end_lists(self) -> None:
        """Forget the open items, e.g. at a heading."""
        self.close()
        self.items = []

    def show(self, figure: PlacedFigure) -> bool:
        """Add a figure after the blocks so far, or return False where it must wait for the end of a paragraph.

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

    def _left(self, row: StyledLine) -> float:
        return row.line.x0 - self.measures.edges_at(row)[0]

    def _item(self, row: StyledLine, *, goes_on: bool) -> _Item | None:
        """Return the item that a line begins, or None for a line of prose."""
        text, left = row.text.strip(), self._left(row)
        if cut := bullet(text):
            if text[0] in "-–—*+" and goes_on and abs(row.line.x0 - self.rows[self.open[-1]].line.x0) < 3:
                first = self.is_item and len(self.open) == 1  # a line just below the first one of an item
                if not first or (self.items and abs(left - self.items[-1].left) > 3):
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

    def _width(self, row: StyledLine, count: int) -> float:
        """Return the distance from a mark of `count` characters to the text after it, in points."""
        inked = [span for span in row.line.spans if span.text.strip()]
        if len(inked) > 1 and len(inked[0].text.strip()) < count:
            return inked[1].x0 - inked[0].x0
        return (row.line.x1 - row.line.x0) * count / max(1, len(row.text))


def blocks_of(
    rows: Rows,
    measures: Measures,
    headings: Sequence[LayoutHeading],
    tables: Sequence[PrintedTable],
    figures: Sequence[PlacedFigure] = (),
) -> list[MarkdownBlock]:
    """Return the blocks of a file in reading order.

    Every line is in exactly one block. The title of a table is directly before it, also where it is
    printed below; a figure is directly before its caption, also where that is printed above it.
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
            flow.blocks += _heading_blocks(rows, heading, flow.compounds)
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
    """Tell if a line goes on with the open paragraph or item."""
    hang = flow.items[-1].hang if flow.is_item and flow.items else None
    return continues(flow.rows, flow.open, index, flow.measures, hang)


def _heading_blocks(rows: Rows, heading: LayoutHeading, compounds: Compounds) -> Iterator[MarkdownBlock]:
    """Yield the heading, and after it the unit of amounts that is printed with it: "(in thousands)"."""
    lines = rows[heading.start : heading.end]
    text = joined_text([(row.page, row.text.strip()) for row in lines], compounds)
    title, unit = parted_unit(text)
    piece = PagedText(lines[0].page, escape_heading(title))
    yield MarkdownBlock(kind="heading", pieces=(piece,), prefix="#" * heading.level + " ")
    if unit:
        yield MarkdownBlock(kind="paragraph", pieces=(PagedText(lines[-1].page, escape(unit)),))


def _add_table(blocks: list[MarkdownBlock], table: PrintedTable, compounds: Compounds) -> None:
    """Add a table, or go on with the one before it if that ends on the page before and has the same header."""
    made = table_block([(page, [_cell(cell, compounds) for cell in cells]) for page, cells in table.cells])
    last = blocks[-1] if blocks else None
    goes_on = (
        last is not None
        and last.kind == "table"
        and last.pieces[0].text == made.pieces[0].text
        and 0 <= made.pieces[0].page - last.pieces[-1].page <= 1
    )
    if last is not None and goes_on and min(len(last.pieces), len(made.pieces)) > 1:
        first, *rest = made.pieces[1:]
        pieces = (*last.pieces, PagedText(first.page, first.text, "\n"), *rest)
        blocks[-1] = MarkdownBlock(kind="table", pieces=pieces, suffix=last.suffix)
    else:
        blocks.append(made)


def _cell(text: str, compounds: Compounds) -> str:
    """Return the lines of a cell joined as those of a paragraph are, behind the em spaces that indent it."""
    indent = text[: len(text) - len(text.lstrip("\u2003"))]
    return indent + joined_text([(0, line.strip()) for line in text.splitlines() if line.strip()], compounds)


def _titles_first(blocks: Sequence[MarkdownBlock]) -> list[MarkdownBlock]:
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


def _is_title(block: MarkdownBlock) -> bool:
    return block.kind == "paragraph" and is_table_caption(block.pieces[0].text)


def _code_end(rows: Rows, index: int, measures: Measures, blocked: Set[int], *, before: Sequence[int]) -> int:
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


def _code_lines(rows: Rows, measures: Measures) -> list[tuple[int, str]]:
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


def _verbatim(row: StyledLine, left: float, width: float) -> str:
    """Return a line with each span in the column where it is printed."""
    text = ""
    for span in row.line.spans:
        column = min(_WIDEST, round((span.x0 - left) / width))
        if text and column <= len(text):
            end = max((other.x1 for other in row.line.spans if other.x0 < span.x0), default=span.x0)
            apart = span.x0 - end > 0.3 * width
            text += " " if apart and not text.endswith(" ") else ""
        text = text.ljust(column) + span.text.rstrip("\n")
    return text.rstrip()
