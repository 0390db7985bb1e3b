"""Tell which columns each name of a table's header stands over, by the middles and edges of both."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from itertools import groupby, pairwise
from statistics import median

from catena.formatting.figure_cells import LineCell, goes_on, is_in_brackets, names_period
from catena.model.places import SEPARATOR

_BARE = 0.15  # of the usual distance of columns: costs a column that a line, or all below it, leaves bare
_OVERHANG = 0.1  # of a point: costs each by which the name of one column is wider than that
_OFF_ONE, _OFF_SEVERAL = 0.5, 0.25  # of the usual distance: no name is further off its column, or their middle
_STRICT = 1.0  # points: as near are edges of names and of columns that are set to one edge
_ALIGNED = 0.6  # points: edges that are nearer are meant to be one

_WORD, _DIGIT = re.compile(r"\S+"), re.compile(r"\d")

_Span = tuple[int, int]  # first and last column


class HeaderReader:
    """Gives each name of a header to the columns that it stands over, line by line from the bottom up.

    Args:
        columns: left and right edge of each, in points.
        size: of the type, in points.
    """

    def __init__(self, columns: Sequence[tuple[float, float]], size: float) -> None:
        self.columns = list(columns)
        self._pitch = median([b - a for a, b in pairwise([(x0 + x1) / 2 for x0, x1 in columns])] or [4 * size])
        self._size, self._reach = size, max(size, 0.3 * self._pitch)
        self._lines: list[list[tuple[_Span, LineCell]]] = []  # from the bottom
        self._alone: dict[int, LineCell] = {}  # the highest name over a column alone
        self._borders: set[int] = set()  # columns at which a name above begins, or one before them ends

    @property
    def right(self) -> float:
        """The end of the last column, in points."""
        return self.columns[-1][1]

    @property
    def has_names(self) -> bool:
        """True after the first line taken."""
        return bool(self._lines)

    def parted(self, cell: LineCell) -> list[LineCell]:
        """Return names that stand so near each other that they look like one, each alone.

        Words go to the columns that they stand over; names must then end, or begin, where their columns do.
        """
        over = [(a, b) for a, b in self.columns if a < cell.x1 and cell.x0 < b]
        borders = [(one[1] + two[0]) / 2 for one, two in pairwise(over)]
        width = (cell.x1 - cell.x0) / len(cell.text)
        words = [
            (cell.x0 + width * word.start(), cell.x0 + width * word.end(), word[0])
            for word in _WORD.finditer(cell.text)
        ]
        groups = [list(group) for _, group in groupby(words, lambda word: bisect(borders, (word[0] + word[1]) / 2))]
        parts = [
            cell._replace(x0=group[0][0], x1=group[-1][1], text=" ".join(word for *_, word in group))
            for group in groups
        ]
        texts = {_DIGIT.sub("#", part.text) for part in parts}
        periods = len(parts) == len(texts) == 2 and names_period(cell.text)
        is_one = is_in_brackets(cell.text) and not all(is_in_brackets(part.text) for part in parts)
        if len(over) < 2 or len(parts) < len(over) or periods or is_one:
            return [cell]
        near = 0.5 * self._size
        ends = [abs(part.x1 - b) for part, (_, b) in zip(parts, over, strict=True)]
        begins = [abs(part.x0 - a) for part, (a, _) in zip(parts, over, strict=True)]
        alike = (ends[-1] < _STRICT and max(ends) < near) or (begins[0] < _STRICT and max(begins) < near)
        off = [part.centre - (a + b) / 2 for part, (a, b) in zip(parts, over, strict=True)]
        centred = len(texts) < len(parts) or len(parts) > 2
        return parts if alike or (centred and max(off) - min(off) < near and abs(off[0]) < self._reach) else [cell]

    def takes(self, cells: Sequence[LineCell]) -> bool:
        """Take a line above those taken before; False where a cell stands over no columns."""
        spans = self._spans(cells)
        if spans is None:
            return False
        (first, last), *others = spans
        wide = self.columns[last][1] - self.columns[first][0] + 2 * self._reach
        if first == last and not others and cells[0].x1 - cells[0].x0 > wide:
            return False  # a title that stands over one column by chance
        for (first, last), cell in zip(spans, cells, strict=True):
            if first == last:
                x0, x1 = self.columns[first]
                self._alone[first], self.columns[first] = cell, (min(x0, cell.x0), max(x1, cell.x1))
        self._lines.append(list(zip(spans, cells, strict=True)))
        return True

    def off(self, cells: Sequence[LineCell]) -> float:
        """Return how far the names of a line are from where they would stand over their columns, in points."""
        spans = self._spans(cells) or []
        return sum(self._cost(cell, *span) or 0.0 for cell, span in zip(cells, spans, strict=False))

    def names(self) -> tuple[str, ...]:
        """Return the name of each column, its levels from the top down; words of one level are joined."""
        self._nest()
        made = []
        for column in range(len(self.columns)) if self._lines else ():
            levels: list[tuple[_Span, str]] = []
            for span, cell in (each for line in reversed(self._lines) for each in line):
                if not span[0] <= column <= span[1]:
                    continue
                if levels and levels[-1][0] == span:
                    levels[-1] = (span, f"{levels[-1][1]} {cell.text}")
                else:
                    levels.append((span, cell.text))
            made.append(SEPARATOR.join(name for _, name in levels))
        return tuple(made)

    def _nest(self) -> None:
        """Give the names of each line columns that those of the lines above do not part, from the top down."""
        lines, self._lines = self._lines, []
        for number in reversed(range(len(lines))):
            self._lines, cells = lines[:number], [cell for _, cell in lines[number]]
            if spans := self._spans(cells):
                lines[number] = list(zip(spans, cells, strict=True))
            self._borders |= {border for (first, last), _ in lines[number] for border in (first, last + 1)}
        self._lines = lines

    def _spans(self, cells: Sequence[LineCell]) -> list[_Span] | None:
        """Return the columns of each cell, in order and apart, at the least cost; None where there are none."""
        if repeated := self._repeated(cells):
            return repeated
        n, bare = len(self.columns), _BARE * self._pitch
        # of the first k columns
        best: list[tuple[float, list[_Span]] | None] = [(k * bare, []) for k in range(n + 1)]
        for cell in cells:
            following: list[tuple[float, list[_Span]] | None] = [None]
            for last in range(n):
                before = following[last]
                options = [(before[0] + bare, before[1])] if before is not None else []
                for first in range(last + 1 if cell.x0 < self.columns[last][1] + self._reach else 0):
                    known, cost = best[first], self._cost(cell, first, last)
                    if known is not None and cost is not None:
                        options.append((known[0] + cost, [*known[1], (first, last)]))
                following.append(min(options, default=None))
            best = following
        found = best[n]
        return None if found is None else found[1]

    def _repeated(self, cells: Sequence[LineCell]) -> list[_Span] | None:
        """Return groups of columns whose periods repeat, "2022 2021 2022 2021", where one cell stands over each."""
        n, width = len(self.columns), len(self.columns) // len(cells)
        names = [cell.text for (first, last), cell in (self._lines[-1] if self._lines else ()) if first == last]
        if not all(map(names_period, names)):
            return None
        if len(cells) < 2 or width < 2 or names != names[:width] * len(cells) or len(set(names)) != width:
            return None
        spans = [(first, first + width - 1) for first in range(0, n, width)]
        edges = [(self.columns[first][0] - self._reach, self.columns[last][1] + self._reach) for first, last in spans]
        over = (x0 <= cell.x0 and cell.x1 <= x1 for cell, (x0, x1) in zip(cells, edges, strict=True))
        return spans if len(names) == n and all(over) else None

    def _cost(self, cell: LineCell, first: int, last: int) -> float | None:
        """Return how far a cell is from where the name of these columns would stand; None where it cannot be."""
        x0, x1 = self.columns[first][0], self.columns[last][1]
        if cell.x1 <= x0 - self._reach or cell.x0 >= x1 + self._reach:
            return None
        if any(first < border <= last for border in self._borders):
            return None
        others = (*self.columns[:first], *self.columns[last + 1 :])
        if any(cell.x0 < (a + b) / 2 < cell.x1 for a, b in others):
            return None
        off = abs(cell.centre - (x0 + x1) / 2)
        if first == last:
            off = min(off, abs(cell.x1 - x1), abs(cell.x0 - x0))
            overhang = max(0.0, x0 - cell.x0) + max(0.0, cell.x1 - x1)
            return off + _OVERHANG * overhang if off <= _OFF_ONE * self._pitch else None
        right_set = (self.columns[first][1] - self._pitch + x1) / 2  # the middle of columns set to the right
        off = min(off, abs(cell.centre - right_set))
        fits = x0 - self._reach <= cell.x0 and cell.x1 <= x1 + self._reach and off <= _OFF_SEVERAL * self._pitch
        if not fits or self._is_word(cell, first, last):
            return None
        named = {column for line in self._lines for (a, b), _ in line for column in range(a, b + 1)}
        bare = len(set(range(first, last + 1)) - named)  # of two, as an amount and a share, but not of many
        return off + _BARE * self._pitch * bare * max(1, bare - 1)

    def _is_word(self, cell: LineCell, first: int, last: int) -> bool:
        """Tell if a cell that might name several columns is as likely a word of the name of one of them."""
        width = cell.x1 - cell.x0
        inner = {k: self.columns[k] for k in range(first, last + 1)}
        within = [k for k, (a, b) in inner.items() if a <= cell.x0 and cell.x1 <= b]
        ends_alike = [
            k for k, (a, b) in inner.items()
            if k in self._alone and width <= b - a and abs(cell.x1 - self._alone[k].x1) < _ALIGNED
        ]  # fmt: skip
        if any(2 * k != first + last for k in (*within[:1], *ends_alike)):
            return True
        over = [b - a for a, b in inner.values() if abs(cell.centre - (a + b) / 2) < 0.1 * self._pitch]
        if not within and not (over and width <= over[0] + self._size):
            return False
        names = [each for line in self._lines for each in line]
        below = [(span, each.text) for span, each in names if first <= span[0] <= last >= span[1]]
        named = {column for (a, b), _ in below for column in range(a, b + 1)}
        last_line = self._lines[-1] if self._lines else ()
        just_below = [column for (a, b), _ in last_line for column in range(a, b + 1)]
        if last - first == len(self.columns) - 1 == len(just_below) - 1 and not goes_on(cell.text):
            return False  # over all columns, each of which has a name in the next line
        says_period = names_period(cell.text) or all(names_period(text) for _, text in below)
        return len(named) <= last - first or not says_period
