"""Find tables of figures, such as statements of account, by the edges of their numbers, and the header above them.

A grid is read over its whole run of lines: rows of a label and values, whose values stand in the columns that the
values of all other rows make, with the lines between them that have no value (names of groups, parts of labels).
Above stand the lines of the header, whose names are centred or aligned over the columns that they name.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, pairwise
from operator import and_
from statistics import median

from catena.formatting.figure_cells import (
    MOST_COLUMNS,
    ROW_GAP,
    LineCell,
    LineCells,
    VisualRow,
    cells_of,
    goes_on,
    is_dash,
    is_date,
    is_figure,
    is_in_brackets,
)
from catena.formatting.styled_lines import Measures, Rows
from catena.formatting.table_headers import HeaderReader

INDENT = "\u2003"  # an em space for each step that a label is indented
_NARROW = 0.5  # of the size: white between two names of narrow columns
_TIGHT = 0.8  # of the usual distance of rows: closer lines are parts of one row
_LEVEL = 0.45  # of the size: lines that are nearer stand side by side
_WRAPPED = 0.75  # of the size: so far are the lines of a cell of two lines from those of the cells beside it
_SPACED = 1.2  # usual line distances: wider between rows that are set apart
_MOST_BETWEEN = 6  # lines without values between two rows
_MOST_APART = 5  # lines between two parts of one table, such as its title, repeated on the next page
_MOST_ABOVE = 14  # lines of a header, and of names of groups below it
_LONGEST_REST = 6  # characters: "31:", "2027"
_ENOUGH = 2  # rows whose figures are followed by words that begin at one place
_MOST_TABLES, _HEADER = 8, 4  # with remarks on a page; lines of a header above the first remark, or its name
_STEP = 2.0  # points between the left edges of labels that are indented differently
_MOST_STEPS = 6

_Edges = tuple[float, float]  # left and right, in points


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of figures.

    Attributes:
        lines: indexes, ascending.
        header: the unit and what else stands over the labels, then the names of the columns of values.
        rows: label and values of each, with its first line.
        edges: of the columns of values.
    """

    lines: tuple[int, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    edges: tuple[_Edges, ...]


def find_grids(rows: Rows, cells: LineCells, measures: Measures, closed: frozenset[int]) -> list[Grid]:
    """Return the tables of figures among the lines, in order; those of `closed` are left alone."""
    return list(_Finder(rows, cells, measures, closed).grids())


@dataclass(slots=True)
class _Draft:
    """A grid on its way: visual rows of data, and those without values before each."""

    data: list[int] = field(default_factory=list)
    between: dict[int, list[int]] = field(default_factory=dict)
    columns: list[_Edges] = field(default_factory=list)  # of the numbers
    left: float = float("inf")  # where the labels begin
    texts: float = float("inf")  # where words between labels and values begin, if they are a column
    said: set[tuple[int, str]] = field(default_factory=set)  # labels and words, with their places
    below: list[int] = field(default_factory=list)  # lines without values after the last row; first all, then its own

    def names(self, cells: Sequence[LineCell]) -> list[str]:
        """Return the label that cells are a part of, and the words of their own column, if there is one."""
        both = [[cell.text for cell in cells if (cell.x0 < self.texts) == is_left] for is_left in (True, False)]
        return [" ".join(words) for words in both[: 1 + self.has_texts]]

    @property
    def has_texts(self) -> bool:
        """True where the first column holds words."""
        return self.texts < float("inf")

    @property
    def start(self) -> int:
        """Its first visual row, below the header."""
        return self.data[0] - len(self.between[self.data[0]])

    @property
    def end(self) -> int:
        """The first visual row after it."""
        return self.data[-1] + len(self.below) + 1

    def over(self, cell: LineCell) -> list[int]:
        """Return the columns over which a value stands; a dash stands over the nearest one."""
        hit = [k for k, (x0, x1) in enumerate(self.columns) if cell.left < x1 and x0 < cell.x1]
        if hit or not self.columns or not is_dash(cell.text):
            return hit
        apart = [max(x0 - cell.x1, cell.left - x1) for x0, x1 in self.columns]
        nearest = min(range(len(apart)), key=apart.__getitem__)
        return [nearest] if apart[nearest] < 3 * (cell.x1 - cell.left) else []

    def is_label(self, cell: LineCell) -> bool:
        """Tell if a figure stands where labels begin, and far from the columns."""
        apart, size = self.columns[0][0] - cell.x1, cell.x1 - cell.x0
        return apart > size and abs(cell.x0 - self.left) < 2 * size

    def holds(self, row: VisualRow) -> bool:
        """Tell if each cell of a row but its label stands in one column, and none beside another."""
        over = [self.over(cell) for cell in row.cells[1:]]
        return all(len(hit) == 1 for hit in over) and len({hit[0] for hit in over}) == len(over)

    def fits(self, row: VisualRow) -> bool:
        """Tell if each value of a row stands in a column of its own, most of them in known ones."""
        over = [(self.over(cell), is_dash(cell.text)) for cell in row.values]
        hits = [each[0] for k, each in enumerate(over) if not (k and each[1] and each == over[k - 1])]
        places = [hit[0] for hit in hits if len(hit) == 1]
        new, known = hits.count([]), len(self.columns)
        if len(set(places)) + new < len(hits) or known + new > MOST_COLUMNS:
            return False
        is_begun = len(self.data) > 1 or known > 1 or self.left < float("inf")  # not by one figure alone
        return new <= len(places) or 0 < known <= 2 * len(places) or not is_begun

    def take(self, index: int, row: VisualRow, between: list[int]) -> None:
        """Add a row of data, and those between it and the one before; its values widen the columns."""
        self.between[index] = between
        self.data.append(index)
        self.said |= _signs(row)
        self.left = min([self.left, *(cell.x0 for cell in row.labels[:1])])
        for cell in row.values:
            hit = self.over(cell)
            if len(hit) == 1:
                x0, x1 = self.columns[hit[0]]
                self.columns[hit[0]] = (min(x0, cell.left), max(x1, cell.x1))
            elif not hit:
                self.columns.append((cell.left, cell.x1))
        self.columns.sort()


@dataclass(slots=True)
class _Header:
    """The header and the names of groups above the first row of data, as visual rows, and texts over the labels."""

    reader: HeaderReader
    values: float  # where the first column of figures begins
    lines: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    stubs: list[str] = field(default_factory=list)
    unit: str = ""


class _Finder:
    """Goes through the lines of a file as visual rows: what is printed side by side."""

    def __init__(self, rows: Rows, cells: LineCells, measures: Measures, closed: frozenset[int]) -> None:
        self._rows, self._measures = rows, measures
        self._visual: list[VisualRow] = []
        for index, own in enumerate(cells):
            made = VisualRow((index,), () if index in closed else own)
            if self._visual and (drop := self._drop(self._visual[-1], made)) <= _WRAPPED:
                made, self._visual[-1] = made.with_signs(self._visual[-1])
                self._visual[-1], made = self._visual[-1].with_signs(made)
                if self._visual[-1].is_beside(made, level=drop <= _LEVEL):
                    one, two = sorted((self._visual.pop(), made), key=lambda row: (row.is_marks, -len(row.cells)))
                    made = one.beside(two)
            self._visual.append(made)
        bounds = [0, *(k + 1 for k in range(len(self._visual) - 1) if not self._adjoins(k)), len(self._visual)]
        self._visual = [row for start, end in pairwise(bounds) for row in self._without_remarks(start, end)]

    def _without_remarks(self, start: int, end: int) -> list[VisualRow]:
        """Return adjoining rows; where words begin at one place behind the figures of several, they are remarks."""
        rows = self._visual[start:end]
        begins = Counter(round(cell.x0) for row in rows for cell in row.behind)
        for x, found in begins.most_common(_MOST_TABLES):
            made: list[VisualRow] = []
            for is_open, group in groupby(rows, partial(VisualRow.is_open_at, x=x)):
                run = list(group)
                at = [k for k, row in enumerate(run) if row.begins_at(x)]
                if is_open and found >= _ENOUGH and any(run[k].behind for k in at):
                    first, last = max(0, at[0] - _HEADER), at[-1] + 1
                    run[first:last] = self._joined([row.parted(x) for row in run[first:last]])
                made += run
            rows = made
        return rows

    def _joined(self, rows: Sequence[VisualRow]) -> Iterator[VisualRow]:
        """Yield rows, below the header with all remarks at the nearer of the rows of data beside them."""
        tops = [self._rows[row.lines[0]].line.top for row in rows]
        first = next((index for index, row in enumerate(rows) if row.is_data), len(rows))
        kept = [index for index, row in enumerate(rows) if row.cells and (index < first or row.is_data)] or [0]
        parts: dict[int, list[VisualRow]] = {index: [] for index in kept}
        for index, row in enumerate(rows):
            at = bisect_right(kept, index)
            near = min(kept[max(0, at - 1) : at + 1], key=lambda one: abs(tops[one] - tops[index]))
            parts[near].append(replace(row, lines=() if row.cells else row.lines))
        for index, row in enumerate(rows):
            if index in parts:
                yield row.with_remarks(parts[index])
            elif row.cells:
                yield replace(row, remarks=())

    def _drop(self, one: VisualRow, two: VisualRow) -> float:
        """Return how far apart two rows are, as a part of the size; endless between two blocks."""
        a, b = self._rows[one.lines[0]], self._rows[two.lines[0]]
        if not (one.cells and two.cells) or a.block != b.block:
            return float("inf")
        tops, bottoms = b.line.top - a.line.top, b.line.bottom - a.line.bottom
        of_marks = one.is_marks or two.is_marks  # that stand in a line of text change its top, or its bottom
        drop = abs(tops + bottoms) / 2 if of_marks else min(abs(tops), abs(bottoms))
        return drop / max(a.size, b.size)

    def _gap(self, above: int) -> float:
        """Return the distance of a visual row and the next in usual line distances; endless between two blocks."""
        if above + 1 == len(self._visual):
            return float("inf")
        one, two = (self._rows[row.lines[0]] for row in self._visual[above : above + 2])
        return self._measures.gap(one, two) if one.block == two.block else float("inf")

    def _adjoins(self, above: int) -> bool:
        return bool(self._visual[above].cells) and -0.5 < self._gap(above) <= ROW_GAP

    def grids(self) -> Iterator[Grid]:
        """Yield the grids from the top of the file to its end."""
        free = index = 0  # the first visual row that no grid has, and the next one to look at
        last: Grid | None = None
        while index < len(self._visual):
            if not self._visual[index].is_data or self._visual[index].is_header:
                index += 1
                continue
            if index and self._is_labelled_above(index):
                self._visual[index] = self._visual[index].labelled()
            draft = self._with_texts(self._draft(index))
            grid, index = self._read(draft, free, last), draft.end
            if grid is not None:
                free, last = index, grid
                yield grid

    def _is_labelled_above(self, index: int) -> bool:
        """Tell if the first figure of a row is the rest of a label: it begins where the words above it do."""
        above, row = self._visual[index - 1], self._visual[index]
        if not self._adjoins(index - 1) or above.values or row.labels or len(row.cells) < 2:
            return False
        return abs(above.cells[0].x0 - row.cells[0].x0) < self._rows[row.lines[0]].size

    def _draft(self, start: int) -> _Draft:
        """Return the rows that go on from a row of data: those whose values stand in its columns."""
        draft, waiting = _Draft(), list[int]()
        draft.take(start, self._visual[start], [])
        above = self._visual[start - 1].cells if start and self._adjoins(start - 1) else ()
        size = self._rows[self._visual[start].lines[0]].size
        if above[1:] and above[-1].x1 < draft.columns[0][0] and abs(above[1].x0 - draft.left) < size:
            draft.left = above[0].x0  # of a label; the row has a further line of the words behind it
        for index in range(start + 1, len(self._visual)):
            row = self._visual[index]
            if len(waiting) > _MOST_BETWEEN or not row.cells or not self._adjoins(index - 1):
                break
            if row.values == row.cells and len(row.cells) > 1 and draft.is_label(row.cells[0]):
                row = self._visual[index] = row.labelled()  # by a year
            if row.is_data and not (len(row.cells) == 1 and row.cells[0].x1 < draft.columns[0][0]):
                if (row.is_header and not row.names_data) or not draft.fits(row):
                    break
                draft.take(index, row, waiting)
                waiting = []
            elif self._is_row_of(draft, index):
                row = self._visual[index] = row if row.labels else row.labelled()
                draft.take(index, row, waiting)
                waiting = []
            elif self._is_label_line(draft, row):
                waiting.append(index)
            else:
                break
        draft.below = waiting
        return draft

    def _is_row_of(self, draft: _Draft, index: int) -> bool:
        """Tell if a row without figures goes on with a draft: it looks like its last row, and something says so."""
        if not self._looks_like(index, draft.data[-1]):
            return False
        first = draft.data[0]
        over = range(first - 1, max(-1, first - _MOST_ABOVE), -1)
        names = next((above for above in over if not self._looks_like(above, first)), index)
        is_apart = len(draft.data) > 1 and self._is_apart(index - 2, index - 1)
        return is_apart or self._heads_off(names, index) or bool(draft.said & _signs(self._visual[index]))

    def _heads_off(self, above: int, index: int) -> bool:
        """Tell if a line above a row may name all its columns, and is set off from it by its weight."""
        return self._may_name(above, index) and self._is_heavy(above) > self._is_heavy(index)

    def _may_name(self, above: int, index: int) -> bool:
        return len(self._visual[above].whole.cells) >= len(self._visual[index].whole.cells) - 1

    def _with_texts(self, draft: _Draft) -> _Draft:
        """Return a draft with columns of text, too, where most rows have texts between label and values."""
        several = [index for index in draft.data if len(self._visual[index].labels) > 1]
        if 2 * len(several) < len(draft.data):
            return draft
        span = slice(draft.data[0], draft.data[-1] + 1)
        before = self._visual[span]
        for index in several:
            label, *texts = self._visual[index].labels
            cells = (label, *(cell._replace(is_value=True) for cell in texts), *self._visual[index].values)
            self._visual[index] = replace(self._visual[index], cells=cells)
        made = self._draft(draft.data[0])
        if len(made.data) >= len(draft.data):
            return made
        self._visual[span] = before
        return draft

    def _label_edges(self, draft: _Draft) -> tuple[float, float]:
        """Return where labels begin, and where those end that do not reach over the values of other rows."""
        first = draft.columns[0][0]
        labels = [row.labels[0] for index in draft.data if (row := self._visual[index]).labels]
        left = min((cell.x0 for cell in labels), default=first)
        return left, max((cell.x1 for cell in labels if cell.x1 < first), default=left)

    def _is_label_line(self, draft: _Draft, row: VisualRow) -> bool:
        """Tell if a line without values names a group or is a part of a label: it stands left of the values."""
        first, size = draft.columns[0][0], self._rows[row.lines[0]].size
        begin, end = row.cells[0].x0, row.cells[-1].x1
        left = min(draft.left, first) if draft.left < first else min(begin, first)
        if not left - 3 * size <= begin <= first:
            return False
        short = end - left < 0.75 * (draft.columns[-1][1] - left) and begin < left + 3 * size
        return end <= first or (len(row.cells) == 1 and short)

    def _read(self, draft: _Draft, free: int, last: Grid | None) -> Grid | None:
        """Return a draft as a grid with its header; None where too little speaks for a table."""
        self._label_by_values(draft)
        is_wide = len(draft.columns) > 1
        if remarks := [cell for index in draft.data for cell in self._visual[index].remarks]:
            draft.columns.append((min(cell.x0 for cell in remarks), max(cell.x1 for cell in remarks)))
        self._part_texts(draft, free)
        head, columns, is_next = self._headed(draft, free, last)
        if rows := self._rows_above(draft, head):
            is_short = len(rows) < len(draft.data) or rows[0] == free
            if is_short and all(draft.holds(self._visual[index].whole) for index in rows):
                places = pairwise([rows[0] - 1, *rows, draft.data[0]])
                draft.between |= {index: [*range(above + 1, index)] for above, index in places}
                draft.data[:0] = rows
            else:
                free, last = rows[-1] + 1, None  # a table of words, which begins above
            head, columns, is_next = self._headed(draft, free, last)
        if draft.has_texts and not (is_next or any(columns[:1])):
            draft.texts, draft.columns = float("inf"), draft.columns[1:]  # a column without a name
            draft.between[draft.data[0]] = []
            head, columns, is_next = self._headed(draft, free, last)
        names = (" ".join(filter(None, (head.unit, *head.stubs))), *columns)
        if last is not None and is_next:
            names = last.header
        elif not columns:
            unit = [index for index in head.lines if self._visual[index].is_unit][:1]
            below = [index for index in head.groups if unit and index > unit[0]]
            head = _Header(head.reader, head.values, unit, below)
            names = (" ".join(self._visual[index].text for index in unit), *[""] * len(draft.columns))
        enough = 3 - is_wide - any(names)
        several = not is_wide or any(len(self._visual[index].values) > 1 for index in draft.data)
        body = tuple(self._body(draft, head.groups))
        if len(draft.data) < enough or not several or not (any(names) or any(cells[0] for _, cells in body)):
            return None
        taken = [*head.lines, *head.groups, *range(draft.start, draft.end)]
        lines = sorted({line for index in taken for line in self._visual[index].lines})
        return Grid(tuple(lines), names, body, tuple(draft.columns))

    def _label_by_values(self, draft: _Draft) -> None:
        """Take the first column for the labels where no row has both, as in a table by years."""
        right = draft.columns[0][1]
        named = [bool(self._visual[index].labels) for index in draft.data]
        filled = [any(cell.left < right for cell in self._visual[index].values) for index in draft.data]
        above = sum(map(bool, draft.between.values()))  # lines that may be the labels
        if (
            len(draft.columns) < 2
            or 2 * max(above, len(filled) - sum(filled)) >= len(filled)
            or any(map(and_, named, filled))
        ):
            return
        for index, is_filled in zip(draft.data, filled, strict=True):
            if is_filled:
                self._visual[index] = self._visual[index].labelled()
        del draft.columns[0]

    def _part_texts(self, draft: _Draft, free: int) -> None:
        """Add a column for the words between labels and values where those of most rows begin at one place."""
        labels = [self._visual[index].labels for index in draft.data]
        words = [each[1] for each in labels if len(each) > 1 and not is_figure(each[0].text)]
        for x, found in Counter(round(cell.x0) for cell in words).most_common(1):
            start = x - _STEP  # further lines of a text may be indented
            if found > _ENOUGH and 2 * sum(each[-1].x0 > start for each in labels if each) > len(labels):
                draft.texts = start
                draft.columns.insert(0, (x, max(cell.x1 for cell in words)))
                draft.between[draft.data[0]] = self._first_lines(draft, free)

    def _first_lines(self, draft: _Draft, free: int) -> list[int]:
        """Return the lines above the first row that its label and words begin in, where it has no label itself."""
        top, cells = draft.data[0], self._visual[draft.data[0]].cells
        while cells[0].x0 > draft.texts and top > free and self._adjoins(top - 1):
            cells = self._visual[top - 1].cells
            if cells[-1].x1 > draft.columns[1][0]:
                break
            top -= 1
        return [*range(top, draft.data[0])] if cells[0].x0 < draft.texts else []

    def _goes_on(self, last: Grid, draft: _Draft, free: int) -> bool:
        """Tell if rows go on with the grid before them, and give them its columns: a few lines or a page below."""
        above, below = self._rows[last.lines[-1]], self._rows[self._visual[draft.data[0]].lines[0]]
        if not 0 <= below.page - above.page <= 1 or draft.data[0] - free > _MOST_APART:
            return False
        hits = [[k for k, (x0, x1) in enumerate(last.edges) if a < x1 and x0 < b] for a, b in draft.columns]
        if any(len(hit) != 1 for hit in hits) or len({hit[0] for hit in hits}) < len(hits):
            return False
        columns = list(last.edges)
        for (k,), (a, b) in zip(hits, draft.columns, strict=True):
            columns[k] = (min(columns[k][0], a), max(columns[k][1], b))
        draft.columns = columns
        return True

    def _headed(self, draft: _Draft, free: int, last: Grid | None) -> tuple[_Header, tuple[str, ...], bool]:
        """Return the header, the names of the columns, and whether rows without any go on with the grid before."""
        head = self._header(draft, free)
        columns = head.reader.names()
        return head, columns, not columns and last is not None and self._goes_on(last, draft, free)

    def _header(self, draft: _Draft, free: int) -> _Header:
        """Return what stands above the first row, and belongs to the table."""
        columns = [
            min([x0, *(cell.x0 for index in draft.data for cell in self._visual[index].values if x0 < cell.x1 <= x1)])
            for x0, x1 in draft.columns
        ]  # a sign of money belongs to the column
        edges = [(left, x1) for left, (_, x1) in zip(columns, draft.columns, strict=True)]
        top = draft.start
        head = _Header(HeaderReader(edges, self._rows[self._visual[top].lines[0]].size), columns[draft.has_texts])
        labels = self._label_edges(draft)
        for index in range(top - 1, max(free, top - _MOST_ABOVE) - 1, -1):
            row = self._visual[index].whole
            fine = cells_of(self._rows[row.lines[0]], apart=_NARROW)
            if " ".join(cell.text for cell in fine) != row.text:
                fine = row.cells  # of several lines, or of a part of one
            words = [part for cell in fine for part in head.reader.parted(cell)]
            finest = words if len(words) > 2 else fine  # not a title that two columns part
            cells = dict.fromkeys(map(tuple, (finest, fine, row.cells) if row.cells else ()))
            names = [replace(row, cells=each) for each in cells]
            one, two = (self._rows[row.lines[0]] for row in self._visual[index : index + 2])
            near = self._adjoins(index) or (self._visual[index].cells and two.page == one.page + 1)
            if not near or not any(self._heads(head, index, each, *labels) for each in names):
                break
        level = [index for index in head.groups if head.lines and self._level_with(index, max(head.lines))]
        beside = [index for index in head.groups if index in level or is_in_brackets(self._visual[index].text)]
        head.stubs += [self._visual[index].text for index in beside]
        head.lines += beside
        head.groups = [index for index in head.groups if index not in beside]
        return head

    def _rows_above(self, draft: _Draft, head: _Header) -> list[int]:
        """Return the lines of a header that are rows without figures, from the first such line on.

        They look like the rows below, and names above them are heavier, or the rows are set apart; or one of their
        labels or words is that of another row. Of the lines that look like them the first may hold the names.
        """
        lines = sorted(head.lines)
        alike = [index for index in lines if self._looks_like(index, draft.data[0])]
        said = Counter(sign for index in alike for sign in _signs(self._visual[index])) + Counter(draft.said)
        for index in alike:
            start = lines.index(index)
            above = lines[max(0, start - 1)]
            is_apart = above == index - 1 and self._may_name(above, index) and self._is_apart(above, index)
            if (
                is_apart
                or self._heads_off(above, index)
                or any(said[sign] > 1 for sign in _signs(self._visual[index]))
            ):
                near = _TIGHT * self._gap(index)  # lines that are closer are parts of one row
                while start > 1 and lines[start - 1] in alike and self._gap(lines[start - 1]) > near:
                    start -= 1
                return lines[start:]
        return []

    def _is_apart(self, one: int, two: int) -> bool:
        """Tell if two gaps below rows are alike, and wider than between the lines of one name."""
        gaps = (self._gap(one), self._gap(two))
        return min(gaps) > _SPACED and max(gaps) < _SPACED * min(gaps)

    def _looks_like(self, index: int, other: int) -> bool:
        """Tell if a visual row fills the columns of another in the same style, but without a figure."""
        one, two = (self._visual[each].whole.cells for each in (index, other))
        sizes = {round(self._rows[self._visual[each].lines[0]].size, 1) for each in (index, other)}
        has_words = not any(is_figure(cell.text) for cell in one[1:]) and not all(is_in_brackets(c.text) for c in one)
        across = 2 < len(one) == len(two) and all(a.x0 < b.x1 and b.x0 < a.x1 for a, b in zip(one, two, strict=True))
        return has_words and across and len(sizes) == 1 and self._is_heavy(index) == self._is_heavy(other)

    def _is_heavy(self, index: int) -> bool:
        return self._rows[self._visual[index].lines[0]].heavy

    def _heads(self, head: _Header, index: int, row: VisualRow, left: float, right: float) -> bool:
        """Add a visual row to a header, or tell that it is none of it: a title, prose, another table."""
        reader = head.reader
        over = [cell for cell in row.cells if cell.x0 > right or cell.x1 > head.values]
        if row.is_unit:
            head.unit = f"{row.text} {head.unit}".strip()
            head.lines.append(index)
            return not reader.has_names
        behind = [cell for cell in over if cell.x0 > reader.right]  # these name a column without values
        if behind and (reader.has_names or len(behind) < len(over)):
            over = over[: -len(behind)]
        if over:
            begins_left = over[0].x0 < left + 2 * self._rows[row.lines[0]].size  # where labels do
            if not row.is_header or begins_left or self._is_title(row, reader):
                return False
            first = over[0].x1 < reader.columns[0][0] and len(over) > 1  # may name a column without values
            if not reader.takes(over) and not (first and reader.takes(over := over[1:])):
                return False
        elif not reader.has_names:
            head.groups.insert(0, index)
            return len(head.groups) <= _MOST_BETWEEN
        elif not (behind or self._level_with(index, head.lines[-1]) or is_in_brackets(row.text)):
            return False
        head.lines.append(index)
        head.stubs[:0] = [cell.text for cell in row.cells if cell not in over]
        return True

    def _is_title(self, row: VisualRow, reader: HeaderReader) -> bool:
        """Tell if a line above the header is the title of the table: alone, and nearer to the middle of the page."""
        left, right = self._measures.edges_at(self._rows[row.lines[0]])
        return len(row.cells) == 1 and abs(row.cells[0].centre - (left + right) / 2) < reader.off(row.cells)

    def _level_with(self, index: int, other: int) -> bool:
        one, two = (self._rows[self._visual[each].lines[0]].line for each in (index, other))
        return min(one.bottom, two.bottom) - max(one.top, two.top) > 0.3 * (one.bottom - one.top)

    def _body(self, draft: _Draft, groups: Sequence[int]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the rows, labels joined from the lines between them and indented, with the first line of each."""
        usual = median([self._gap(a) for a, b in pairwise(draft.data) if b == a + 1] or [1.0])
        right = self._label_edges(draft)[1]
        values = draft.columns[draft.has_texts :]
        made: list[tuple[int, list[str], list[str]]] = []  # first line, names, values
        for index in draft.data:
            before = [*(() if made else groups), *draft.between[index]]
            row = self._visual[index].with_remarks([self._visual[each] for each in (*before, index)])
            row = row.filled(values)
            names, line = draft.names(row.labels), row.lines[0]
            while before and index != draft.data[0]:
                following = self._visual[before[1]].text if len(before) > 1 else _joined(names)
                if not self._ends(before[0], _joined(made[-1][1]), following, usual):
                    break
                made[-1][1][:] = _stacked(made[-1][1], draft.names(self._visual[before.pop(0)].cells))
            while before and self._begins(before[-1], _joined(names), usual, self._holds(before[-1], index, right)):
                part = self._visual[before.pop()]
                above = draft.names(part.cells)
                names, line = _stacked(above, names), part.lines[0] if above[0] else line
            made += (
                (first, [name, *[""] * draft.has_texts], [""] * len(values))
                for first, name in self._group_names(before)
            )
            made.append((line, names, _placed(row.whole, values)))
        said = _joined(made[-1][1])
        rest = next((k for k, index in enumerate(draft.below) if not self._ends(index, said, "", usual)), None)
        draft.below = draft.below[:rest]
        for index in draft.below:
            made[-1][1][:] = _stacked(made[-1][1], draft.names(self._visual[index].cells))
        lefts = sorted({self._rows[line].line.x0 for line, names, _ in made if names[0]})
        steps = [x for before_it, x in pairwise([-_STEP, *lefts]) if x - before_it >= _STEP]
        for line, (label, *words), figures in made:
            level = bisect_right(steps, self._rows[line].line.x0) - 1 if label and len(steps) <= _MOST_STEPS else 0
            yield line, (INDENT * level + label, *words, *figures)

    def _ends(self, index: int, label: str, following: str, usual: float) -> bool:
        """Tell if a line goes on with the label of the row above it."""
        up, down, text = self._gap(index - 1), self._gap(index), self._visual[index].text
        if up < _TIGHT * min(usual, down) or not label:
            return bool(label)
        if down < _TIGHT * min(usual, up) or text.endswith(":"):
            return False
        return _is_rest(text) or (goes_on(label) and not following[:1].islower())

    def _begins(self, index: int, label: str, usual: float, holds: bool) -> bool:
        """Tell if a line is the first part of the label of the row below it; nearness says little of a group."""
        up, down, text = self._gap(index - 1), self._gap(index), self._visual[index].text
        if text.endswith(":") or not label:
            return not text.endswith(":") and down < 1.2 * usual
        return (down < _TIGHT * min(usual, up) and not holds) or _is_rest(label) or goes_on(text)

    def _holds(self, index: int, row: int, right: float) -> bool:
        """Tell if a line looks like the name of a group, not like a part of a label that ends at `right`.

        The next line and the one after the row are indented, and its own would have had room for one more word.
        """
        above, below = self._visual[index].cells, self._visual[index + 1].cells[0]
        word = (below.x1 - below.x0) * (len(below.text.split()[0]) + 1) / len(below.text)
        after = [cells[0].x0 for each in self._visual[row + 1 : row + 2] if (cells := each.cells)]
        is_deep = above[0].x0 + _STEP <= below.x0 < above[0].x1 and below.x0 - _STEP < max(after, default=0.0)
        return is_deep and above[-1].x1 + word < right

    def _group_names(self, indexes: Sequence[int]) -> list[tuple[int, str]]:
        """Return the first line and the name of each group; a name over several lines is one."""
        found: list[tuple[int, str]] = []
        for row in (self._visual[index] for index in indexes):
            if found and (_is_rest(row.text) or goes_on(found[-1][1])) and not found[-1][1].endswith(":"):
                found[-1] = (found[-1][0], f"{found[-1][1]} {row.text}")
            else:
                found.append((row.lines[0], row.text))
        return found


def _signs(row: VisualRow) -> set[tuple[int, str]]:
    """Return the label and the words of a row with their places; a digit is as good as another."""
    texts = [(place, cell.text) for place, cell in enumerate(row.whole.cells) if not (place and is_figure(cell.text))]
    return {(place, "".join("#" if sign.isdigit() else sign for sign in text)) for place, text in texts}


def _joined(parts: Sequence[str]) -> str:
    return " ".join(filter(None, parts))


def _stacked(above: Sequence[str], below: Sequence[str]) -> list[str]:
    """Return the names of one row from those of two lines."""
    return list(map(_joined, zip(above, below, strict=True)))


def _is_rest(text: str) -> bool:
    """Tell if a line begins as no label does: in lower case, or with the end of a date, but a year names a group."""
    return text[0].islower() or (text[0].isdigit() and len(text) < _LONGEST_REST and not is_date(text))


def _placed(row: VisualRow, columns: Sequence[_Edges]) -> list[str]:
    """Return the text of each column of values."""
    made = [""] * len(columns)
    for cell in row.values:
        over = [min(x1, cell.x1) - max(x0, cell.left) for x0, x1 in columns]
        place = over.index(max(over))
        if not (is_dash(cell.text) and cell.text == made[place]):  # a second dash says no more than the first
            made[place] = f"{made[place]} {cell.text}".strip()
    return made
