"""A table as it is printed: rows in blocks, the best of a block bold and the second best underlined, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from catena_bench.tables_measures import Cell

NOTHING = "–"
DELTA = "delta"  # key of a column of differences


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of a table.

    Attributes:
        key: of its figures in JSON.
        cells: one per column, None where there is no such figure.
        compared: whether it can be the best of its block.
    """

    key: str
    name: str
    cells: tuple[Cell | None, ...]
    compared: bool = True


Block: TypeAlias = tuple[str, str, tuple[Row, ...]]
"""Key and name of a block, and its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """A table in the form of the paper's.

    Attributes:
        key: of its figures in JSON: "table2".
        columns: their keys and names.
        blocks: a table without blocks has one, with an empty key.
        best: which cells of each column and block are marked as best; "" marks none.
        digits: behind the point.
        notes: what is to be known about the figures, a sentence each.
    """

    key: str
    title: str
    columns: tuple[tuple[str, str], ...]
    blocks: tuple[Block, ...]
    best: Literal["high", "low", ""] = ""
    digits: int = 1
    notes: tuple[str, ...] = ()


def figures_of(table: PaperTable) -> dict[str, float]:
    """Return `<table>.<block>.<column>.<row>` and, behind it, the names of further figures."""
    found: dict[str, float] = {}
    for block, _, rows in table.blocks:
        for row in rows:
            for (column, _), cell in zip(table.columns, row.cells, strict=True):
                if cell is not None:
                    key = ".".join(filter(None, (table.key, block, column, row.key)))
                    found[key] = cell.value
                    found |= {f"{key}.{name}": value for name, value in cell.more.items()}
    return found


def markdown_of(table: PaperTable) -> str:
    """Return the table in Markdown, under a heading; all cells that print as the best are bold."""
    blocked = len(table.blocks) > 1
    leads = [""] * (2 if blocked else 1)
    lines = [_line([*leads, *(name for _, name in table.columns)])]
    lines.append(_line(["---"] * len(leads) + ["--:"] * len(table.columns)))
    for _, name, rows in table.blocks:
        printed = [_column(table, rows, place) for place in range(len(table.columns))]
        for number, row in enumerate(rows):
            of_block = [name if number == 0 else ""] if blocked else []
            lines.append(_line([*of_block, row.name, *(column[number] for column in printed)]))
    notes = ["", " ".join(table.notes)] if table.notes else []
    return "\n".join([f"## {table.title}", "", *lines, *notes, ""])


def document_of(title: str, told: Sequence[str], tables: Sequence[PaperTable]) -> str:
    """Return all tables as one Markdown document.

    Args:
        title: its heading.
        told: how it was made, a line each.
        tables: in order.
    """
    opening = "\n".join([f"# {title}", "", *(f"- {line}" for line in told), ""])
    return "\n".join([opening, *map(markdown_of, tables)])


def _column(table: PaperTable, rows: Sequence[Row], place: int) -> list[str]:
    """Return the cells of one column of one block, marked."""
    sign = "+" if table.columns[place][0] == DELTA else ""
    cells = [row.cells[place] for row in rows]
    printed = [NOTHING if cell is None else f"{cell.value:{sign},.{table.digits}f}" for cell in cells]
    if not table.best:
        return printed
    rounded = {
        round(cell.value, table.digits)
        for cell, row in zip(cells, rows, strict=True)
        if cell is not None and row.compared
    }
    best, second = [*sorted(rounded, reverse=table.best == "high"), None, None][:2]
    found = []
    for cell, row, text in zip(cells, rows, printed, strict=True):
        value = None if cell is None or not row.compared else round(cell.value, table.digits)
        marks = ("**", "**") if value == best else ("<u>", "</u>") if value == second else ("", "")
        found.append(text if value is None else text.join(marks))
    return found


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
