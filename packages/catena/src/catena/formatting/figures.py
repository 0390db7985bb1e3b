"""Place figures in the text: before their caption, or between the lines above and below them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from catena.formatting.blocks import MarkdownBlock, PagedText
from catena.formatting.styled_lines import Rows, StyledLine
from catena.model import Document, Figure
from catena.model.figures import Link, figure_link, figure_links, figure_name, is_figure_caption
from catena.model.layout import FigureCrop, Line, Page, Parsed, Span

_WORD = re.compile(r"\w+")
_ENOUGH = 6  # words by which a caption is known again
_CAPTION_GAP = 72.0  # points between a figure and its caption, at most; with no other line between
_MARKS = 12  # characters of a line that may be there all the same, such as "(a)   (b)"
_BESIDE = 24.0  # points between a figure and a caption at its side
_PANELS = 120.0  # points between two figures that share a caption, at most
_PITCH = 1.7  # of the size: lines of one caption are no farther apart
_LONGEST = 160  # characters of a title; the whole caption is below the figure
_JUST = 2.0  # points by which a line may reach into a figure without being a label of it


@dataclass(frozen=True, slots=True)
class PlacedFigure:
    """A figure on its way into the text.

    Attributes:
        before: index of the line that follows it; the number of lines for "at the end".
        captioned: that line begins its caption.
        labels: the text printed inside it, which is nowhere else in the document.
    """

    name: str
    page: int
    before: int
    captioned: bool
    labels: str


def place_figures(pages: Sequence[Page], rows: Rows, document_id: str) -> tuple[list[StyledLine], list[PlacedFigure]]:
    """Return the lines without those inside figures, and the place of each figure among them.

    Args:
        pages: with their figures.
        rows: every line of the file, in reading order.
        document_id: what the figures are named after.
    """
    labels: dict[tuple[int, int], list[str]] = {}
    kept: list[StyledLine] = []
    figures = {page.number: page.figures for page in pages if page.figures}
    for row in _parted(rows, figures):
        number = _number(figures.get(row.page, ()), row.line, row.line)  # of the figure that it is printed in
        if number is None or is_figure_caption(row.text):
            kept.append(row)
        else:
            labels.setdefault((row.page, number), []).append(row.text.strip())
    first: dict[int, int] = {}
    for index, row in enumerate(kept):
        first.setdefault(row.page, index)
    placed: list[PlacedFigure] = []
    for page, found in figures.items():
        start = first.get(page, next((i for i, row in enumerate(kept) if row.page > page), len(kept)))
        here = [row for row in kept[start:] if row.page == page] if page in first else []
        captions = _captions(found, here)
        for number, figure in enumerate(found):
            before = captions.get(number)
            placed.append(PlacedFigure(
                name=figure_name(document_id, page, number + 1), page=page,
                before=start + (_position(figure, here) if before is None else before),
                captioned=before is not None, labels=" ".join(labels.get((page, number), ())),
            ))  # fmt: skip
    return kept, sorted(placed, key=lambda figure: figure.before)


def _parted(rows: Rows, figures: Mapping[int, Sequence[FigureCrop]]) -> Iterator[StyledLine]:
    """Yield lines, each that runs through figures side by side, or through their captions, in parts.

    Captions side by side come one after the other, each with the lines that go on below it.
    """
    columns: list[list[StyledLine]] = []
    for row in rows:
        parts = [row]
        if row.page in figures:
            goes_on = bool(columns) and _goes_on(columns[0][-1], row)
            starts = [column[0].line.x0 for column in columns[1:]] if goes_on else []
            parts = _parts(row, figures[row.page], starts)
        captions = [part for part in parts if is_figure_caption(part.text)]
        if len(captions) < 2 and columns and len(parts) == len(columns) and goes_on:
            for column, part in zip(columns, parts, strict=True):
                column.append(part)
            continue
        yield from chain.from_iterable(columns)
        columns = [[part] for part in parts] if len(captions) > 1 else []
        if not columns:
            yield from parts
    yield from chain.from_iterable(columns)


def _parts(row: StyledLine, figures: Sequence[FigureCrop], starts: Sequence[float]) -> list[StyledLine]:
    """Return a line cut where another figure's inside, a caption after white, or the column of one, begins."""
    inside = [_number(figures, span, row.line) for span in row.line.spans]
    parts: list[list[Span]] = []
    for place, span in enumerate(row.line.spans):
        white = place > 0 and span.x0 - row.line.spans[place - 1].x1 >= row.size
        begins = is_figure_caption(span.text) or any(abs(span.x0 - start) <= row.size for start in starts)
        if not place or inside[place] != inside[place - 1] or (white and begins):
            parts.append([])
        parts[-1].append(span)
    return [row] if len(parts) < 2 else [replace(row, line=_line(row.line, spans)) for spans in parts]


def _line(whole: Line, spans: Sequence[Span]) -> Line:
    text = " ".join(" ".join(span.text for span in spans).split())
    return replace(whole, text=text, x0=spans[0].x0, x1=spans[-1].x1, spans=tuple(spans))


def _number(figures: Sequence[FigureCrop], part: Line | Span, line: Line) -> int | None:
    """Return the 0-based number of the figure in which the centre of a line, or of a part of it, lies."""
    across, down = (part.x0 + part.x1) / 2, (line.top + line.bottom) / 2
    for number, figure in enumerate(figures):
        if figure.x0 - _JUST <= across <= figure.x1 + _JUST and figure.top - _JUST <= down <= figure.bottom + _JUST:
            return number
    return None


def _captions(figures: Sequence[FigureCrop], rows: Rows) -> dict[int, int]:
    """Return figure number -> index of the line where its caption begins: the nearest pairs first, each once.

    A figure that is left without one shares that of a figure beside it: "Figure 3: left …, right …".
    """
    starts = [index for index, row in enumerate(rows) if is_figure_caption(row.text)]
    every = ((number, index) for number in range(len(figures)) for index in starts)
    gaps = ((_distance(figures[number], rows, index), number, index) for number, index in every)
    pairs = sorted((gap, number, index) for gap, number, index in gaps if gap is not None)
    taken: dict[int, int] = {}
    for _, number, index in pairs:
        if number not in taken and index not in taken.values():
            taken[number] = index
    own = dict(taken)
    for number, figure in enumerate(figures):
        beside = [at for other, at in own.items() if _side_by_side(figure, figures[other])]
        below = [at for at in beside if rows[at].line.top >= figure.bottom - _JUST]
        if number not in own and below:
            taken[number] = below[0]
    return taken


def _distance(figure: FigureCrop, rows: Rows, index: int) -> float | None:
    """Return the distance of a figure from the caption that begins at a line, in points; None where it is too far."""
    end = index + 1
    while end < len(rows) and _goes_on(rows[end - 1], rows[end]):
        end += 1
    lines = [row.line for row in rows[index:end]]
    x0, x1 = min(line.x0 for line in lines), max(line.x1 for line in lines)
    top, bottom = lines[0].top, lines[-1].bottom
    if x0 <= figure.x1 and figure.x0 <= x1:
        gap = max(top - figure.bottom, figure.top - bottom)
        between = sorted((figure.bottom, top) if top > figure.bottom else (bottom, figure.top))
        others = (row.line for row in (*rows[:index], *rows[end:]) if len(row.text.strip()) > _MARKS)
        parted = any(
            between[0] < (line.top + line.bottom) / 2 < between[1] and figure.x0 <= line.x1 and line.x0 <= figure.x1
            for line in others
        )
        return max(0.0, gap) if gap <= _CAPTION_GAP and not parted else None
    beside = max(x0 - figure.x1, figure.x0 - x1)
    return beside if beside <= _BESIDE and figure.top <= (top + bottom) / 2 <= figure.bottom else None


def _goes_on(above: StyledLine, below: StyledLine) -> bool:
    pitch = below.line.bottom - above.line.bottom
    alike = abs(above.size - below.size) < 0.1 * above.size and above.block == below.block
    return alike and 0 < pitch <= _PITCH * max(1.0, above.size) and not is_figure_caption(below.text)


def _side_by_side(one: FigureCrop, two: FigureCrop) -> bool:
    shared = min(one.bottom, two.bottom) - max(one.top, two.top)
    apart = max(one.x0, two.x0) - min(one.x1, two.x1)
    return apart <= _PANELS and shared >= 0.5 * min(one.bottom - one.top, two.bottom - two.top)


def _position(figure: FigureCrop, rows: Rows) -> int:
    """Return the index of the first line below a figure's middle, among those of its column where there are any."""
    middle = (figure.top + figure.bottom) / 2
    in_column = [i for i, row in enumerate(rows) if row.line.x0 <= figure.x1 and figure.x0 <= row.line.x1]
    for index in in_column or range(len(rows)):
        if (rows[index].line.top + rows[index].line.bottom) / 2 >= middle:
            return index
    return in_column[-1] + 1 if in_column else len(rows)


def figure_block(figure: PlacedFigure) -> MarkdownBlock:
    """Return a figure as a block of its own; its title comes when its caption is written."""
    return MarkdownBlock(kind="figure", pieces=(PagedText(figure.page, figure_link(figure.name, "", figure.labels)),))


def with_titles(blocks: Sequence[MarkdownBlock], figures: Iterable[PlacedFigure]) -> list[MarkdownBlock]:
    """Return the blocks with each captioned figure named by the paragraph that follows it."""
    captioned = {figure_block(figure): figure for figure in figures if figure.captioned}
    out = list(blocks)
    title = ""
    for index in range(len(out) - 1, -1, -1):
        figure = captioned.get(out[index])
        if figure is not None:
            link = figure_link(figure.name, title, figure.labels)
            out[index] = MarkdownBlock(kind="figure", pieces=(PagedText(figure.page, link),))
        elif out[index].kind != "figure":
            title = _shortened("".join(piece.glue + piece.text for piece in out[index].pieces))
    return out


def figures_of(parsed: Parsed) -> tuple[Figure, ...]:
    """Return the figures that a formatted document shows, with what its text says of them, in the text's order.

    Args:
        parsed: a file as a parser read it, its document as a formatter wrote it.
    """
    pages = parsed.layout.pages if parsed.layout is not None else ()
    counted = ((page.number, *each) for page in pages for each in enumerate(page.figures, start=1))
    crops = {figure_name(parsed.document.id, page, number): (page, crop) for page, number, crop in counted}
    links = {link.name: link for link in figure_links(parsed.document.text) if link.name in crops}
    return tuple(_figure(link, *crops[name]) for name, link in links.items())


def _figure(link: Link, page: int, crop: FigureCrop) -> Figure:
    return Figure(
        name=link.name, page=page, box=(crop.x0, crop.top, crop.x1, crop.bottom), kind=crop.kind,
        width=crop.width, height=crop.height, title=link.title, labels=link.labels, png=crop.png, svg=crop.svg,
    )  # fmt: skip


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    if len(words) <= _LONGEST:
        return words
    return words[: words.rindex(" ", 0, _LONGEST)] + " …" if " " in words[:_LONGEST] else words[:_LONGEST]


def with_figures(document: Document, printed: Document) -> Document:
    """Return the document with the figures that only `printed` shows, each on its page.

    A figure goes before the line that begins its caption; without one, at the end of its page, or before the
    paragraph that goes on to the next.

    Args:
        document: a file as a model wrote it.
        printed: the same file as the layout formatter wrote it, with the same pages.
    """
    there = {link.name for link in figure_links(document.text)}
    text, starts = document.text, list(document.page_starts)
    for link in figure_links(printed.text):
        page = printed.page_at(link.start)
        if link.name in there or page is None or page > len(starts):
            continue
        at = _place(text, starts[page - 1], starts[page] if page < len(starts) else len(text), link)
        markup = _apart(text[:at], printed.text[link.start : link.end], text[at:])
        text = f"{text[:at]}{markup}{text[at:]}"
        starts = [start + len(markup) if number > page else start for number, start in enumerate(starts, start=1)]
    return replace(document, text=text, page_starts=tuple(starts))


def _place(text: str, start: int, end: int, link: Link) -> int:
    """Return the offset within a page, [start, end), for a figure."""
    wanted = _words(link.title)[:_ENOUGH]
    at = start
    for line in text[start:end].splitlines(keepends=True) if wanted else ():
        if _words(line)[: len(wanted)] == wanted:
            return at
        at += len(line)
    if end == len(text) or text[:end].endswith("\n"):
        return end
    return max(text.rfind("\n\n", start, end) + 2, start)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _apart(before: str, markup: str, after: str) -> str:
    """Return an image as a paragraph of its own."""
    opening = "" if not before or before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
    return f"{opening}{markup}\n\n" if after else f"{opening}{markup}\n"
