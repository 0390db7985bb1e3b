"""Lines with what is asked of them again and again, and the measures of a whole file's type."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from catena.model.layout import Layout, Line, Page

PITCH = 1.2  # line distance / type size where nothing can be measured
_ENOUGH = 8  # lines that show where the edges of their column are


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the file with its page and its style, computed once."""

    page: int  # from 1
    line: Line
    size: float
    bold: bool
    heavy: bool  # most of it is bold: a heading with one word in another font
    italic: bool
    mono: bool
    wide: bool  # in the first column, but as wide as several: a title or an abstract over two columns

    @property
    def text(self) -> str:
        return self.line.text

    @property
    def block(self) -> tuple[int, int]:
        """The page and the column it is printed in."""
        return self.page, self.line.column


@dataclass(frozen=True, slots=True)
class Style:
    """How a run of lines is set; lines of one style play one role."""

    size: float
    bold: bool
    italic: bool
    mono: bool
    caps: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The type of a file.

    Attributes:
        body: the size most characters are set in, in points.
        bold_body: most of the body is bold, so that weight says nothing.
        mono_body: most of the body is in a fixed-width font, so that the font says nothing.
        pitch: distance of lines within a paragraph, as a multiple of the size.
        edges: left and right edge of the text of each (page, column, wide), in points.
    """

    body: float
    bold_body: bool
    mono_body: bool
    pitch: float
    edges: dict[tuple[int, int, bool], tuple[float, float]]

    def edges_at(self, row: Row) -> tuple[float, float]:
        """Return the left and the right edge of the column that a line is printed in."""
        return self.edges[(*row.block, row.wide)]

    def code(self, row: Row) -> bool:
        """Whether a line is code: set in a fixed-width font that stands out from the body."""
        return row.mono and not self.mono_body

    def emphatic(self, row: Row) -> bool:
        """Whether a line is in bold that stands out from the body."""
        return row.bold and not self.bold_body

    def gap(self, above: Row, below: Row) -> float:
        """Return the distance of two successive lines of one column, in multiples of the usual one."""
        usual = self.pitch * max(1.0, min(above.size, below.size))
        drop = (below.line.top + below.line.bottom - above.line.top - above.line.bottom) / 2
        extra = abs(above.size - below.size) / 2 * self.pitch  # half the larger line belongs to the distance
        return (drop - extra) / usual


def rows_of(layout: Layout) -> list[Row]:
    """Return every line that shows something, in reading order."""
    return [row for page in layout.pages for row in _page_rows(page)]


def _page_rows(page: Page) -> list[Row]:
    second = min((line.x0 for line in page.lines if line.column == 1), default=float("inf"))
    return [_row(page.number, line, second) for line in page.lines if line.text.strip()]


def _row(page: int, line: Line, second: float) -> Row:
    inked = [(span, len(span.text.strip())) for span in line.spans if span.text.strip()]
    total = sum(count for _, count in inked)
    bold = sum(count for span, count in inked if span.bold)
    fixed = sum(count for span, count in inked if span.mono and not span.bold)
    return Row(
        page=page,
        line=line,
        size=line.size,
        # names of functions inside a bold heading are often in a fixed-width font of no weight
        bold=bold > 0 and bold + fixed == total and 2 * bold >= total,
        heavy=2 * bold > total,
        italic=total > 0 and all(span.italic for span, _ in inked),
        mono=line.mono,
        wide=line.column == 0 and line.x1 > second,
    )


def style_of(row: Row) -> Style:
    """Return the style of a line, its size in half points."""
    letters = [c for c in row.text if c.isalpha()]
    caps = len(letters) > 3 and all(c.isupper() for c in letters)  # shorter ones are initials
    return Style(round(row.size * 2) / 2, row.heavy, row.italic, row.mono, caps)


def measure(rows: Sequence[Row]) -> Measures:
    """Measure the type of a file: body size by character weight, line distance, edges of the columns."""
    sizes: Counter[float] = Counter()
    bold = mono = total = 0
    for row in rows:
        count = len(row.text)
        total += count
        bold += count * row.bold
        mono += count * row.mono
        if not row.mono:
            sizes[round(row.size, 1)] += count
    mono_body = 2 * mono > total
    if mono_body or not sizes:
        sizes = Counter()
        for row in rows:
            sizes[round(row.size, 1)] += len(row.text)
    body = max(sizes, key=lambda size: (sizes[size], -size), default=10.0) or 10.0
    return Measures(
        body=body, bold_body=2 * bold > total, mono_body=mono_body, pitch=_pitch(rows, body), edges=_edges(rows, body)
    )


def _pitch(rows: Sequence[Row], body: float) -> float:
    """Return the commonest distance of body lines that follow each other in one column, per point of size."""
    seen: Counter[float] = Counter()
    for above, below in pairwise(rows):
        drop = below.line.bottom - above.line.bottom
        if above.block == below.block and abs(above.size - body) + abs(below.size - body) < 1 and drop > 0:
            seen[round(drop / body, 2)] += 1
    near = {pitch: seen[pitch] + seen[round(pitch - 0.01, 2)] + seen[round(pitch + 0.01, 2)] for pitch in seen}
    usual = max(near, key=lambda pitch: (near[pitch], -pitch), default=PITCH)
    return min(max(usual, 1.0), 2.5)


def _edges(rows: Sequence[Row], body: float) -> dict[tuple[int, int, bool], tuple[float, float]]:
    """Return the edges of every column; one with few lines takes those of the same column elsewhere."""
    blocks: dict[tuple[int, int, bool], list[Line]] = defaultdict(list)
    columns: dict[tuple[int, bool], list[Line]] = defaultdict(list)
    every: dict[tuple[int, int, bool], list[Line]] = defaultdict(list)
    for row in rows:
        every[(*row.block, row.wide)].append(row.line)
        if abs(row.size - body) <= 0.1 * body:
            blocks[(*row.block, row.wide)].append(row.line)
            columns[row.line.column, row.wide].append(row.line)
    edges = {}
    for block, lines in every.items():
        chosen = blocks[block] if len(blocks[block]) >= _ENOUGH else columns[block[1:]] or lines
        edges[block] = (_leftmost(line.x0 for line in chosen), _high(line.x1 for line in chosen))
    return edges


def _leftmost(values: Iterable[float]) -> float:
    """Return the smallest position that a tenth of the lines begin at: most may be indented, as in a list."""
    seen = Counter(round(value) for value in values)
    enough = max(min(2, seen.total()), seen.total() / 10)
    usual = [value for value in seen if seen[value - 1] + seen[value] + seen[value + 1] >= enough]
    return float(min(usual or seen))


def _high(values: Iterable[float]) -> float:
    """Return the 95th percentile: a line that sticks out does not make the column wider."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) * 95 // 100]
