"""Markdown written block by block, inside lists and quotations, so that no word is taken for a mark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MAX_INDENT = 8  # levels of lists and quotations that are shown; deeper text stays at this level

_MARK = re.compile(r"(#{1,6}(?=\s|\Z)|`{3}|~{3}|[-+*>](?=\s|\Z)|(?:=+|-+)\Z|<(?=[A-Za-z/!?])|\[(?=[^\]]*\]:))")
_NUMBER = re.compile(r"(\d{1,9})([.)])(?=\s|\Z)")
_MOST_COLUMNS = 64  # of a table; with more it is no table that anybody reads


class MarkdownBlocks:
    """The lines written so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.lists: list[int] = []  # next number of each open list; 0 for bullets
        self.quotes = 0
        self._item = ""  # the mark of a list item whose first block is still to come
        self._tight = False

    def open_list(self, *, numbered: bool) -> None:
        """Begin a list."""
        self.lists.append(int(numbered))

    def close_list(self) -> None:
        """End the innermost list."""
        self.lists.pop()
        self._item, self._tight = "", bool(self.lists)

    def item(self) -> None:
        """Let the next block be the first of a list item."""
        if self.lists and self.lists[-1]:
            self._item = f"{self.lists[-1]}. "
            self.lists[-1] += 1
        else:
            self._item = "- "

    def heading(self, level: int, title: str) -> None:
        """Write a heading, outside lists and quotations, where alone it divides the document."""
        self.lines += ["", f"{'#' * level} {title}"] if self.lines else [f"{'#' * level} {title}"]
        self._tight = False

    def paragraph(self, text: str) -> None:
        """Write a paragraph of one line."""
        text = _NUMBER.sub(r"\1\\\2", text, count=1) if _NUMBER.match(text) else text
        self.write([f"\\{text}" if _MARK.match(text) else text])

    def code(self, code: str, language: str = "") -> None:
        """Write a fenced block."""
        if code.strip():
            fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", code)), default=0))
            self.write([fence + language, *code.strip("\n").split("\n"), fence])

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Write a table whose first row is its header; one column, or very many, as paragraphs."""
        rows = [row for row in rows if any(row)]
        columns = max(map(len, rows), default=0)
        if columns < 2 or columns > _MOST_COLUMNS:
            for row in rows:
                self.paragraph(" ".join(cell for cell in row if cell))
            return
        header, *body = (_table_line([*row, *[""] * (columns - len(row))]) for row in rows)
        self.write([header, _table_line(["---"] * columns), *body])

    def write(self, lines: Sequence[str]) -> None:
        """Append a block, indented by its lists and quotations; items of one list follow each other closely."""
        depth = min(len(self.lists), MAX_INDENT)
        mark, self._item = self._item, ""
        outer = "> " * min(self.quotes, MAX_INDENT) + "   " * max(depth - 1, 0)
        rest = outer + ("   " if depth else "")
        first = outer + mark if mark else rest
        if self.lines and not (mark and self._tight):
            self.lines.append("")
        rest += " " * (len(mark) - 3 if mark else 0)
        self.lines += [(rest if number else first) + line for number, line in enumerate(lines)]
        self._tight = bool(mark)


def _table_line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in cells) + " |"
