"""Judge how well a reader keeps the cells of a table: each value alone, in the row of its label, under its column.

One judge for the output of all readers: the pipe tables and HTML tables of a text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import unescape
from itertools import groupby
from typing import Literal, TypeAlias

from catena.text import cells_of, is_rule, read_table

Verdict: TypeAlias = Literal["full", "header_missing", "merged", "lost"]
VERDICTS: tuple[Verdict, ...] = ("full", "header_missing", "merged", "lost")

Grid: TypeAlias = list[tuple[str, ...]]
"""A table as written, its header rows first; a cell over several columns or rows stands in all of them."""

_NUMBER = re.compile(r"(?:[(\-\u2212]\s*+)?(?:\$\s*+)?(?<![\w.,])\d[\d,]*(?:\.\d+)?")
_MARKUP = re.compile(r"<[^<>]*>|[*_`#]")
_ALONE = re.compile(r"[\s$€£¥%().,\-\u2212\u2013\u2014]*")
_WORD = re.compile(r"[^\W_]+")
_YEAR = re.compile(r"\(?\d{4}\)?(?: ?\(\w\))?")  # with a footnote mark or without
_YEARS = range(1900, 2100)
_OWN_WORDS = frozenset({"total", "subtotal"})  # that a reader may call an unlabelled row
_HTML = re.compile(r"<table\b(?:(?!<table\b).)*?</table>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PickedCell:
    """A cell as the page shows it: where its value must stand.

    Attributes:
        row: the label in front; "" of a subtotal without one.
        column: what stands above, from the top.
        value: as printed.
        group: the row above that names a part of the table, if any.
    """

    row: str
    column: tuple[str, ...]
    value: str
    group: str = ""


def grids_in(text: str) -> list[Grid]:
    """Return the tables of a text, pipe tables first, then HTML."""
    found: list[Grid] = []
    for piped, lines in groupby(text.splitlines(), lambda line: "|" in line.strip()[:-1]):
        if piped:
            found.append([tuple(map(_bare, cells_of(line))) for line in lines if not is_rule(line)])
    for html in _HTML.finditer(text):
        found += [[grid.header, *grid.rows] for grid in read_table(text, *html.span())]
    return found


def judge(cell: PickedCell, grids: Sequence[Grid]) -> Verdict:
    """Return the best that any place of the value among the tables deserves.

    - full: it is alone in its cell, the label is in its row (or begins in the line above), and all words of its
      column are in the header above it, which no other value of the row has;
    - header_missing: the same, but words of its column are not above it;
    - merged: it shares its cell, or the label is elsewhere;
    - lost: it stands in no row of a table.
    """
    value = _numbers(cell.value)
    best: Verdict = "lost"
    for grid in grids:
        for at, row in enumerate(grid):
            for place, written in enumerate(row):
                if value[0] not in _numbers(written):
                    continue
                alone = _numbers(written) == value and not _WORD.search(_NUMBER.sub(" ", written))
                if not (alone and _labelled(cell, grid, at)):
                    best = "merged" if best == "lost" else best
                elif set(_words(" ".join(cell.column))) <= set(_above(grid, at, place)) and _apart(grid, at, place):
                    return "full"
                else:
                    best = "header_missing"
    return best


def begins_with_data(grid: Grid) -> bool:
    """Tell if the first row of a table, which stands as its header, is a row of values."""
    return bool(grid) and any(map(_is_amount, grid[0]))


def _bare(cell: str) -> str:
    return " ".join(unescape(_MARKUP.sub(" ", re.sub(r"\*\*|<br ?/?>\Z", "", cell))).split())


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


@lru_cache(100_000)
def _numbers(cell: str) -> list[str]:
    """Return the numbers of a cell, as digits with a minus where they are negative."""
    found = (match[0] for match in _NUMBER.finditer(cell))
    return [("-" if number[0] not in "$0123456789" else "") + re.sub(r"[^\d.]", "", number) for number in found]


@lru_cache(100_000)
def _is_amount(cell: str) -> bool:
    """Tell if a cell is a value, not a label or a year; a dash stands for one."""
    if not cell or not _ALONE.fullmatch(_NUMBER.sub(" ", cell)):
        return False
    numbers = _numbers(cell)
    year = _YEAR.fullmatch(cell) and int(numbers[0].strip("-")) in _YEARS
    return (bool(numbers) and not year) or cell in {"-", "\u2013", "\u2014"}


def _label(row: Sequence[str]) -> list[str]:
    """Return the words of a row that are not values; notes and footnote marks are among them."""
    return [word for cell in row if not _is_amount(cell) for word in _words(cell)]


def _labelled(cell: PickedCell, grid: Grid, at: int) -> bool:
    label, own = _words(cell.row), _label(grid[at])
    if not label:
        return set(own) <= {*_words(cell.group), *_OWN_WORDS}
    if set(label) <= set(own):
        return True
    above = grid[at - 1] if at else ()
    begun = not any(map(_is_amount, above)) and set(own) <= set(label)
    return begun and set(label) <= {*own, *_label(above)}


def _apart(grid: Grid, at: int, place: int) -> bool:
    """Tell if no other value of a row stands under the same words: an amount and its percentage may."""
    here, row = _above(grid, at, place), grid[at]
    alike = [other for other, cell in enumerate(row) if _numbers(cell) and ("%" in cell) == ("%" in row[place])]
    return not any(other != place and _above(grid, at, other) == here for other in alike)


def _above(grid: Grid, at: int, place: int) -> list[str]:
    """Return the words of the nearest header above a cell: rows without values that say something in its column.

    A name with blanks beside it stands for all of these, as Markdown has no merged cells; not in the lowest row.
    """
    words: list[str] = []
    for row in reversed(grid[:at]):
        values = any(map(_is_amount, row))
        if words and values:
            break
        if not values and place < len(row):
            reach = range(place, 0, -1) if words else range(place, place - 1, -1)
            words += _words(next((row[left] for left in reach if row[left]), ""))
    return words
