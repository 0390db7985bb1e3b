"""Read printed lines as cells: labels, names of columns, and figures with their signs of money and brackets."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from catena.formatting.styled_lines import Measures, Rows, StyledLine
from catena.text import RAISED

MOST_COLUMNS = 24
ROW_GAP = 2.6  # usual line distances between two rows, or between header and rows
LONGEST_NAME = 120  # characters of a name over columns
_LONGEST_VALUE, _LONGEST_WORDS = 48, 40  # characters: of a figure, and of words in the place of one
_WORD_GAP = 0.15  # of the size: narrower than any space
_CELL_GAP = 1.0  # of the size: white between two cells; words of justified text are closer
_VALUE_GAP, _FIGURE_GAP = 0.7, 0.5  # of the size: behind a figure, and between two
_WINDOW, _AGREEING = 20, 2  # lines above and below that are looked at; of them agree where narrow white parts cells
_EDGE = 1.0  # points between edges of the cells of one column
_NEAR = 2.0  # points between two places that are meant to be one
_SIGN_GAP = 4  # widths of a digit, from a figure to the ")" or "%" in a cell of its own that belongs to it

_MONEY = r"(?:[A-Z]{0,3}[$€£¥₹])"
_NUMBER = r"\d(?:[\d.,'’]*\d)?(?: \d{3})*"
_AMOUNT = rf"[-+–—−~<>≈±(\[ ]*+{_MONEY}?[-+–—−( ]*+{_NUMBER} ?(?:%|‰|¢|x|bps|pts?|pp)?[)\] ]*+%?[)\] ]*+[$€£¥₹]?"
_NO_VALUE = rf"{_MONEY}? ?[-–—−]{{1,3}} ?%?|(?i:n/[am]|n\.[am]\.|nm)"
_SCALED = rf"{_AMOUNT}(?:(?<=\d )(?:thousand|[mb]illion|trillion))?"
_VALUE = re.compile(
    rf"(?:(?:approximately|about|up to) )?{_SCALED}(?: ?(?:[-–—]|to) ?{_SCALED})?"
    rf"(?:\(\w{{1,2}}\)|[*†‡{RAISED}])*+|{_NO_VALUE}"
)
_SIGN = re.compile(rf"\(?{_MONEY}\(?")
_AFTER = re.compile(r"[)\]%]{1,3}|pts?|bps")
_MARK = re.compile(r"(?:\(\w{1,2}\)|[*†‡§]{1,3}|\d{1,2})(?:[, ]+(?:\(\w{1,2}\)|\d{1,2})|\(\w{1,2}\))*")
_LEADER = re.compile(r"(?<![.·…_])(?<![.·…_]\s)\s?[.·…_](?:\s?[.·…_]){3,}+\s*+$")
_DATE = re.compile(r"[A-Z][a-z]{2,8}\.? \d{1,2}, (?:19|20)\d\d")
_TAIL = re.compile(
    rf"(?:^|(?<=[\s\d)%])){_MONEY}(?=\s|$|[\d(])"
    rf"|(?<![\w.,(−-])[−-]?\(?{_NUMBER}(?: ?%)?(?: ?\))?%?[{RAISED}]*+(?![\w.,])"
)
_EMPTY = re.compile(r"—(?: ?%)?|\b(?:[nN]/[aA]|nm|NM)\b")  # not the dash of a range
_FIGURES = re.compile(rf"(?:{_EMPTY.pattern})|{_TAIL.pattern}")
_ENDS = re.compile(rf"[\d)%$€£¥₹{RAISED}]\Z")  # as a figure or a sign of money does
_UNIT = re.compile(r"\b(?:thousand|million|billion|share|dollar|percent|except)s?\b|[$€£¥]", re.IGNORECASE)
_YEAR = re.compile(rf"(?:19|20)\d\d(?:\s?(?:\(\w\)|[AEF*{RAISED}]))?|\d{{1,2}}[/.-]\d{{1,2}}[/.-](?:19|20)?\d\d")
_PERIOD = re.compile(
    r"\b(?:(?:year|month|week|quarter)s?|fiscal|ended|as of|at|december|june|march|september)\b", re.I
)
_GOES_ON = re.compile(r"(?:[,(–—/&-]|\b(?:and|or|of|to|for|the|in|from|by|with|at|on|as|a|an|due))$")
_IN_BRACKETS = re.compile(r"[(\[].*[)\]]")


_Piece: TypeAlias = tuple[float, float]  # left and right edge, in points


class LineCell(NamedTuple):
    """Text between two edges, in points; `left` is the edge of its number, behind a sign of money."""

    x0: float
    x1: float
    text: str
    left: float
    is_value: bool

    @property
    def centre(self) -> float:
        """The middle between its edges."""
        return (self.x0 + self.x1) / 2


LineCells: TypeAlias = Sequence[tuple[LineCell, ...]]
"""The cells of each line of a file."""


@dataclass(frozen=True, slots=True)
class VisualRow:
    """The cells of what is printed side by side, and the lines (indexes) that print it.

    Attributes:
        lines: the main one first.
        cells: from left to right, without those set aside.
        remarks: words in a column of their own behind the figures, line by line.
    """

    lines: tuple[int, ...]
    cells: tuple[LineCell, ...]
    remarks: tuple[LineCell, ...] = ()

    @property
    def text(self) -> str:
        """All that it says."""
        return " ".join(cell.text for cell in self.cells)

    @property
    def labels(self) -> tuple[LineCell, ...]:
        """The cells before the first value."""
        return self.cells[: next((i for i, cell in enumerate(self.cells) if cell.is_value), len(self.cells))]

    @property
    def values(self) -> tuple[LineCell, ...]:
        """The cells from the first value on."""
        return self.cells[len(self.labels) :]

    @property
    def is_data(self) -> bool:
        """True for a label and values, or values alone."""
        values = self.values
        if not 0 < len(values) <= MOST_COLUMNS or any(
            len(cell.text) > _LONGEST_WORDS and not is_figure(cell.text) for cell in values
        ):
            return False
        return 2 * sum(cell.is_value for cell in values) > len(values)

    @property
    def is_header(self) -> bool:
        """True where all its values are years or dates, and its words few, so that it may name columns."""
        return len(self.cells) <= 2 * MOST_COLUMNS and all(
            bool(_YEAR.fullmatch(cell.text)) if cell.is_value else len(cell.text) <= LONGEST_NAME
            for cell in self.cells
        )

    @property
    def is_marks(self) -> bool:
        """True for marks of footnotes alone, which may be raised from their line."""
        return all(_MARK.fullmatch(cell.text) for cell in self.cells)

    @property
    def is_unit(self) -> bool:
        """True for nothing but the unit of a table in brackets."""
        text = self.text
        short = len(self.cells) == 1 and len(text) <= LONGEST_NAME
        return short and is_in_brackets(text) and _UNIT.search(text) is not None

    @property
    def names_data(self) -> bool:
        """True where it begins with the label of a row of data, not with what stands beside names of columns."""
        return bool(self.labels) and not (is_in_brackets(self.labels[0].text) or _PERIOD.search(self.labels[0].text))

    def labelled(self) -> VisualRow:
        """Return it with its first cell as its label, though that is a figure."""
        first, *others = self.cells
        return replace(self, cells=(first._replace(is_value=False), *others))

    def filled(self, columns: Sequence[tuple[float, float]]) -> VisualRow:
        """Return it with the words that stand in columns of figures, behind its label, as values."""
        in_columns = (place for place, cell in enumerate(self.labels) if place and cell.x1 > columns[0][0])
        first = next(in_columns, len(self.cells))
        values = (cell._replace(is_value=True) for cell in self.cells[first:])
        return replace(self, cells=(*self.cells[:first], *values))

    @property
    def behind(self) -> tuple[LineCell, ...]:
        """The words behind its last value, if that follows something."""
        last = max((place for place, cell in enumerate(self.cells) if cell.is_value), default=0)
        return self.cells[last + 1 : last + 2] if last else ()

    @property
    def whole(self) -> VisualRow:
        """It with its remarks as its last cell."""
        if not self.remarks:
            return self
        x0, x1 = min(cell.x0 for cell in self.remarks), max(cell.x1 for cell in self.remarks)
        said = LineCell(x0, x1, " ".join(cell.text for cell in self.remarks), x0, False)
        return VisualRow(self.lines, (*self.cells, said))

    def begins_at(self, x: float) -> bool:
        """Tell if a cell begins there."""
        return any(abs(cell.x0 - x) < _NEAR for cell in self.cells)

    def is_open_at(self, x: float) -> bool:
        """Tell if no cell reaches over it, and no value stands right of it."""
        over = any(cell.x0 < x - _NEAR < cell.x1 for cell in self.cells)
        return not over and not any(cell.is_value and cell.x0 > x + _NEAR for cell in self.cells)

    def with_remarks(self, rows: Sequence[VisualRow]) -> VisualRow:
        """Return it with the lines and remarks of these rows, itself among them."""
        lines = dict.fromkeys((*self.lines, *(line for row in rows for line in row.lines)))
        return VisualRow(tuple(lines), self.cells, tuple(cell for row in rows for cell in row.remarks))

    def parted(self, x: float) -> VisualRow:
        """Return it with what begins at `x`, or right of it, as remarks."""
        left = [cell for cell in self.cells if cell.x0 < x - _NEAR]
        return VisualRow(self.lines, tuple(left), self.cells[len(left) :])

    def is_beside(self, other: VisualRow, *, level: bool) -> bool:
        """Tell if two rows that are level, or nearly so, are printed side by side, as the one beside marks is."""
        if not (self.cells and other.cells):
            return True
        apart = all(x.x1 <= y.x0 + 1 or y.x1 <= x.x0 + 1 for x in self.cells for y in other.cells)
        of_one = self.is_data and other.is_data and not (self.labels and other.labels)
        return apart and (self.is_marks or other.is_marks or of_one or (level and self.is_data != other.is_data))

    def with_signs(self, other: VisualRow) -> tuple[VisualRow, VisualRow]:
        """Return it with the ")", "%" and marks of another row behind its cells, and what the other keeps."""
        cells, kept = list(self.cells), list[LineCell]()
        for sign in other.cells:
            takes = _takes_sign if _AFTER.fullmatch(sign.text) else _takes_mark
            at = next((k for k, cell in enumerate(cells) if takes(cell, sign)), None)
            if at is not None:
                cells[at] = cells[at]._replace(x1=max(cells[at].x1, sign.x1), text=f"{cells[at].text} {sign.text}")
            else:
                kept.append(sign)
        return VisualRow(self.lines, tuple(cells)), VisualRow(other.lines, tuple(kept))

    def beside(self, other: VisualRow) -> VisualRow:
        """Return both as one row; a mark goes with the text that it follows."""
        made: list[LineCell] = []
        for cell in sorted((*self.cells, *other.cells)):
            if made and _MARK.fullmatch(cell.text) and cell.x0 - made[-1].x1 < 0.6 * (cell.x1 - cell.x0):
                made[-1] = made[-1]._replace(x1=cell.x1, text=f"{made[-1].text} {cell.text}")
            else:
                made.append(cell)
        return VisualRow((*self.lines, *other.lines), tuple(made))


def cells_of_lines(rows: Rows, measures: Measures) -> list[tuple[LineCell, ...]]:
    """Return the cells of each line; white that words may have between them parts cells where other lines agree.

    Such a line is near, and what stands behind its white is aligned with that of the line, as in one column; so is
    what stands before it, where its own white might be that of words, too.
    """
    runs = [0]  # which run of lines each is in: lines of one block, as near as rows of a table
    for above, below in pairwise(rows):
        is_near = above.block == below.block and -0.5 < measures.gap(above, below) <= ROW_GAP
        runs.append(runs[-1] + (not is_near))
    pieces = [_pieces(row) for row in rows]
    found = []
    for index, row in enumerate(rows):
        beside = range(max(0, index - _WINDOW), min(len(rows), index + _WINDOW + 1))
        cuts = set[float]()
        for one, two in pairwise(pieces[index]):
            if two[0] - one[1] < _CELL_GAP * row.size:
                others = (k for k in beside if k != index and runs[k] == runs[index])
                agreeing = sum(any(_agree(one, two, *pair, row.size) for pair in pairwise(pieces[k])) for k in others)
                cuts |= {two[0]} if agreeing >= _AGREEING else set()
        found.append(cells_of(row, cuts=cuts))
    return found


def _pieces(row: StyledLine) -> list[_Piece]:
    """Return the edges of what has enough white on both sides to be a cell."""
    pieces: list[_Piece] = []
    for span in row.line.spans:
        if not span.text.strip():
            continue
        if pieces and span.x0 - pieces[-1][1] < _VALUE_GAP * row.size:
            pieces[-1] = (pieces[-1][0], max(pieces[-1][1], span.x1))
        else:
            pieces.append((span.x0, span.x1))
    return pieces


def _agree(one: _Piece, two: _Piece, other: _Piece, following: _Piece, size: float) -> bool:
    """Tell if two pieces beside each other stand in the columns of two of another line."""
    white = min(two[0], following[0]) - max(one[1], other[1])
    is_wide = following[0] - other[1] >= _CELL_GAP * size
    return white > _FIGURE_GAP * size and _aligned(two, following) and (is_wide or _aligned(one, other))


def _aligned(one: _Piece, two: _Piece) -> bool:
    """Tell if two pieces have their left edges, their right ones or their middles in common."""
    left, right = two[0] - one[0], two[1] - one[1]
    return min(abs(left), abs(right), abs(left + right) / 2) < _EDGE


def cells_of(
    row: StyledLine, *, apart: float = _CELL_GAP, cuts: Container[float] = frozenset()
) -> tuple[LineCell, ...]:
    """Return the cells of a line: spans that are close are one, "$" and ")" go with their number.

    Args:
        row: the line.
        apart: white between two cells of words, as a part of the size.
        cuts: where a cell begins in any case, in points.
    """
    parts: list[tuple[float, float, str]] = []
    for span in row.line.spans:
        said = span.text.strip()
        text = _LEADER.sub("", said) if said[-1:] in ".·…_" else said
        if not text:
            continue
        end = span.x0 + (span.x1 - span.x0) * len(text) / len(said)
        x0, x1, before = parts[-1] if parts else (0.0, float("-inf"), "")
        is_behind = is_figure(before) or bool(_SIGN.fullmatch(before) or _DATE.fullmatch(before))
        least = apart if not is_behind else _FIGURE_GAP if is_figure(text) else _VALUE_GAP
        gap = span.x0 - x1
        if (
            gap < least * row.size
            and span.x0 not in cuts
            and (gap < _WORD_GAP * row.size or not _SIGN.fullmatch(text))
        ):
            parts[-1] = (x0, max(x1, end), before + (" " if gap > _WORD_GAP * row.size else "") + text)
        else:
            parts += _apart(span.x0, end, text)
    cells: list[LineCell] = []
    for x0, x1, text in parts:
        is_value = is_figure(text)
        left = x0 + (x1 - x0) * (len(text) - len(text.lstrip("$€£¥₹ "))) / len(text) if is_value else x0
        last = cells[-1] if cells else None
        if last is not None and is_value and _SIGN.fullmatch(last.text):
            cells[-1] = LineCell(last.x0, x1, f"{last.text} {text}", left, True)
        elif last is not None and _AFTER.fullmatch(text) and _takes_sign(last, LineCell(x0, x1, text, x0, False)):
            cells[-1] = last._replace(x1=x1, text=f"{last.text}{' ' * text.startswith('%')}{text}")
        else:
            cells.append(LineCell(x0, x1, text, left, is_value))
    return tuple(cells)


def _takes_sign(cell: LineCell, sign: LineCell) -> bool:
    """Tell if a ")" or "%" belongs to a figure before it; behind a year it is the name of a column."""
    return cell.is_value and -2 < _digits_between(cell, sign) < _SIGN_GAP and not _YEAR.fullmatch(cell.text)


def _takes_mark(cell: LineCell, mark: LineCell) -> bool:
    """Tell if a mark of a footnote stands where a text ends."""
    return not cell.is_value and abs(_digits_between(cell, mark)) < 1 and bool(_MARK.fullmatch(mark.text))


def _digits_between(one: LineCell, two: LineCell) -> float:
    """Return the white between two cells, in widths of a character of the first."""
    return (two.x0 - one.x1) * len(one.text) / (one.x1 - one.x0 or 1.0)


def is_figure(text: str) -> bool:
    """Tell if a cell is a value, or a dash for none; a year is one, too."""
    return len(text) <= _LONGEST_VALUE and bool(_VALUE.fullmatch(text))


def is_dash(text: str) -> bool:
    """Tell if a cell says that there is no value."""
    return not any(map(str.isalnum, text))


def figures_in(text: str) -> int:
    """Return how many values one cell holds; 0 for words."""
    return sum(is_figure(part) for _, _, part in _apart(0.0, 1.0, " ".join(text.split())))


def is_date(text: str) -> bool:
    """Tell if a text is a year or a date in figures."""
    return bool(_YEAR.fullmatch(text))


def names_period(text: str) -> bool:
    """Tell if a name says a year, a date or a span of time."""
    return bool(_YEAR.search(text) or _PERIOD.search(text))


def goes_on(text: str) -> bool:
    """Tell if a line of a label or name ends where more of it must follow."""
    return bool(_GOES_ON.search(text))


def is_in_brackets(text: str) -> bool:
    """Tell if a text stands in brackets."""
    return bool(_IN_BRACKETS.fullmatch(text))


def _apart(x0: float, x1: float, text: str) -> list[tuple[float, float, str]]:
    """Return the values, or dates, at the end of a text each by itself, and what is before them.

    A text with one value at its end stays as it is, but a sign of money goes: it belongs to what follows.
    """
    may_hold = " " in text and len(text) <= LONGEST_NAME and _ENDS.search(text) and not _YEAR.fullmatch(text)
    tokens = (list(_DATE.finditer(text)) or list(_TAIL.finditer(text))) if may_hold else []
    if " " in text and len(text) <= LONGEST_NAME and _EMPTY.search(text) and not _FIGURES.sub("", text).strip():
        tokens = list(_FIGURES.finditer(text))
    first, kept = len(text), list[tuple[int, int]]()
    while tokens and not text[tokens[-1].end() : first].strip():
        kept.insert(0, tokens.pop().span())
        first = kept[0][0]
    label = text[:first].strip()
    values = sum(not (_SIGN.fullmatch(text[a:b]) or (label and _MARK.fullmatch(text[a:b]))) for a, b in kept)
    ends_in_sign = text[-1:] in {"$", "£"} or (text[-1:] in {"€", "¥"} and not values)  # not "12 €"
    if len(kept) + bool(label) < 2 or (values < 2 and not ends_in_sign):
        return [(x0, x1, text)]
    width = (x1 - x0) / len(text)
    spans = [(0, first), *kept] if label else kept
    return [(x0 + width * a, x0 + width * b, text[a:b].strip()) for a, b in spans]
