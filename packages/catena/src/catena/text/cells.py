"""The cells of the Markdown tables in a text, as far as names and values need them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_RULE = re.compile(r"\|?\s*+:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)*+\|?\s*+$")
_CELL_BORDER = re.compile(r"(?<!\\)\|")


def table_rows(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row of the tables in a text, header rows and rules left out, in order."""
    lines = [line.strip() for line in text.split("\n")]
    for index, line in enumerate(lines):
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if not line.startswith("|") or is_rule(line) or (following.startswith("|") and is_rule(following)):
            continue
        yield cells_of(line)


def cells_of(line: str) -> tuple[str, ...]:
    """Return the cells of one row, without the marks around what they say."""
    return tuple(cell.replace("\\|", "|").strip(" *_`") for cell in _CELL_BORDER.split(line.strip().strip("|")))


def is_rule(line: str) -> bool:
    """Return whether a line is the rule between a table's header and its rows."""
    return _RULE.match(line.strip()) is not None


def table_cells(text: str) -> tuple[str, ...]:
    """Return the cells of the tables in a text that are not empty, header rows left out, in order."""
    return tuple(cell for row in table_rows(text) for cell in row if cell)


def table_values(text: str) -> tuple[str, ...]:
    """Return the cells of the tables in a text but for those of the first column, which name what a row is about."""
    return tuple(cell for row in table_rows(text) for cell in row[1:] if cell)
