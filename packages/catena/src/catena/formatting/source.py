"""Write the lines of a file as they are printed, for a model to read, and cut them into overlapping windows."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from catena.formatting.aligned_text import atoms_of
from catena.formatting.blocks import Compounds, glue
from catena.formatting.styled_lines import (
    UNSPACED,
    Measures,
    Rows,
    StyledLine,
    is_cjk,
    measure,
    rows_of,
    running_rows,
)
from catena.model.layout import Layout, Parsed

_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
_CELL_GAP = 1.0  # of the size: white that parts two cells of a table
_CHARACTER = 0.5  # of the size: the mean width of a character
_WIDEST = 160  # columns: the farthest that a cell is moved to the right
_PARAGRAPH_GAP = 1.35  # usual line distances: from there on an empty line is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """The text of a file, line by line, and three ways to count in it.

    Attributes:
        text: lines as printed; cells of a table are below each other.
        words: [start, end) of each word in `text`; a character of a script without spaces is a word.
        atoms: [start, end) of each run of letters and digits: what alignment compares.
        page_atoms: per page, the index of its first atom, then the number of all atoms.
    """

    text: str
    words: tuple[tuple[int, int], ...]
    atoms: tuple[tuple[int, int], ...]
    page_atoms: tuple[int, ...]

    @property
    def pages(self) -> int:
        """The number of pages; 1 for a source without pages."""
        return len(self.page_atoms) - 1

    def atom_at(self, offset: int) -> int:
        """Return the index of the first atom that begins at or after an offset in the text."""
        return bisect_left(self.atoms, (offset, offset))

    def slice(self, first: int, last: int) -> str:
        """Return the text of the atoms [first, last), with the text between them."""
        return self.text[self.atoms[first][0] : self.atoms[last - 1][1]] if first < last else ""


def source_of(parsed: Parsed, *, running_heads: bool = False) -> SourceText:
    """Return the text of a file that a model is shown.

    A word that is divided at the end of a line is made whole, on the line and the page where it begins. A file
    without a layout is shown as its document has it.
    """
    if parsed.layout is None:
        text, starts = parsed.document.text, parsed.document.page_starts or (0,)
    else:
        text, starts = _printed(parsed.layout, running_heads=running_heads)
    atoms = tuple(atoms_of(text))
    firsts = [bisect_left(atoms, (start, start)) for start in starts]
    return SourceText(
        text=text,
        words=tuple(match.span() for match in _WORD.finditer(text)),
        atoms=atoms,
        page_atoms=(*firsts, len(atoms)),
    )


def _printed(layout: Layout, *, running_heads: bool) -> tuple[str, tuple[int, ...]]:
    """Return the lines of all pages, and the offset where each page begins."""
    rows = rows_of(layout)
    if not running_heads:
        running = running_rows(layout.pages, rows)
        rows = [row for index, row in enumerate(rows) if index not in running]
    measures = measure(rows)
    lines = _whole_words(rows, [_line(row, measures) for row in rows])
    parts: list[str] = []
    starts: list[int] = []
    length = 0
    above: StyledLine | None = None
    for row, line in zip(rows, lines, strict=True):
        if above is not None and line:
            apart = above.block == row.block and measures.gap(above, row) > _PARAGRAPH_GAP
            parts.append("\n\n" if apart else "\n")
            length += len(parts[-1])
        starts += [length] * (row.page - len(starts))
        parts.append(line)
        length += len(line)
        above = row if line else above
    starts += [length] * (len(layout.pages) - len(starts))
    return "".join(parts), (0, *starts[1:])


def _line(row: StyledLine, measures: Measures) -> str:
    """Return a line; where white parts it into cells, each is put in the column where it is printed."""
    inked = [span for span in row.line.spans if span.text.strip()]
    if not any(below.x0 - above.x1 >= _CELL_GAP * row.size for above, below in pairwise(inked)):
        return " ".join(row.text.split())
    left, width = measures.edges_at(row)[0], _CHARACTER * max(1.0, row.size)
    text, end = "", inked[0].x0
    for span in inked:
        if span.x0 - end >= _CELL_GAP * row.size:
            text = text.ljust(min(_WIDEST, round((span.x0 - left) / width)))
            text += "   "[len(text) - len(text.rstrip()) :]
        elif text and span.x0 - end > 0.15 * row.size:  # narrower than any space
            text += " "
        text, end = text + " ".join(span.text.split()), span.x1
    return text


def _whole_words(rows: Rows, lines: Sequence[str]) -> list[str]:
    """Move the rest of a word that a line's end divides to the line where it begins."""
    compounds = Compounds(row.text for row in rows)
    whole = list(lines)
    last = -1  # the line that a rest would be moved to
    for index, line in enumerate(lines):
        if last >= 0 and line:
            above, joint = glue(whole[last], line, compounds)
            if not joint and not is_cjk(line[0]) and not line[0].isspace():
                first, _, rest = line.partition(" ")
                whole[last], whole[index] = above + first, rest.lstrip()
        last = index if whole[index] else last
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceWindow:
    """One window; all bounds count atoms of the source, from 0, half-open.

    Attributes:
        text: the words of the window with its padding, lines and white space as in the source.
        start, end: what the text covers, padding included.
        core_start, core_end: what this window alone answers for; the cores tile the source.
    """

    text: str
    start: int
    end: int
    core_start: int
    core_end: int


def windows_of(source: SourceText, *, window: int, padding: int) -> tuple[SourceWindow, ...]:
    """Cut a source of N words into `T = ceil(N / W)` windows; window t covers words `[tW - K, (t + 1)W + K)`.

    Args:
        source: the text to cut.
        window: W, the words by which a window advances and which it answers for, >= 1.
        padding: K, the words shown before and after them, >= 1.

    Source: HiQA (arXiv:2402.01767), Algorithm 1.
    """
    words = source.words
    cores = [source.atom_at(words[first][0]) for first in range(0, len(words), window)] + [len(source.atoms)]
    found = []
    for position, first in enumerate(range(0, len(words), window)):
        begin = words[max(0, first - padding)][0]
        finish = words[min(len(words), first + window + padding) - 1][1]
        found.append(
            SourceWindow(
                text=source.text[begin:finish],
                start=source.atom_at(begin),
                end=source.atom_at(finish),
                core_start=cores[position] if position else 0,
                core_end=cores[position + 1],
            )
        )
    return tuple(found)
