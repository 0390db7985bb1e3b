"""Number the lines of a text, so that a model can point at places; the lines tile the text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from catena.model import Document
from catena.model.errors import ParameterError
from catena.structure.blocks import Block, blocks_of, split_lines
from catena.structure.division import units
from catena.text.words import sentence_ends

_WORD_START = re.compile(r"(?<=\s)\S")
_ABRIDGED = " … "


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedLines:
    """Lines of a text: slices with their line ends that tile it.

    Attributes:
        starts: offset of each line's first character, and last the length of the text.
        base: number of the first line as shown; all other indexes here are 0-based.
    """

    text: str = field(repr=False)
    starts: tuple[int, ...]
    base: int = 0

    def __len__(self) -> int:
        return len(self.starts) - 1

    def line(self, index: int) -> str:
        """Return one line, its line end included."""
        return self.text[self.starts[index] : self.starts[index + 1]]

    def size(self, first: int, last: int) -> int:
        """Return the characters of the lines first to last, both included."""
        return self.starts[last + 1] - self.starts[first]

    def at(self, offset: int) -> int:
        """Return the line that holds the character at `offset`."""
        return bisect_right(self.starts, offset, hi=len(self)) - 1

    def shown(self, first: int, last: int, *, longest: int | None = None) -> str:
        r"""Return the lines first to last, both included, each as "[number] text".

        The text is the exact slice; only where it does not end with "\n" is one put after it. Of a line longer
        than `longest` characters (a table, say) its beginning and end are shown.
        """
        return "".join(
            f"[{index + self.base}] {_abridged(line, longest)}" + ("" if line.endswith("\n") else "\n")
            for index in range(first, last + 1)
            for line in (self.line(index),)
        )


def number_lines(
    document: Document,
    *,
    wrap: int = 200,
    base: int = 0,
    blocks: Sequence[Block] | None = None,
    borders: Iterable[int] = (),
) -> NumberedLines:
    r"""Return the numbered lines of a document; joined again, they are its text, byte for byte.

    Lines end at \n, \r\n and \r; blank ones count. A line of more than `wrap` characters is cut, at the last
    sentence end in the second half of that room, else at the last white space, else (no space, as in Chinese)
    between characters. A table is one line with all its rows, and so is a figure with its caption.

    Args:
        document: its text.
        wrap: most characters of a piece, its line end not counted, >= 1.
        base: number of the first line.
        blocks: what `blocks_of` gave for this document; else it is asked.
        borders: offsets at which a line must begin.

    Raises:
        ParameterError: `wrap` is below 1.
    """
    if wrap < 1:
        raise ParameterError("wrap", wrap, "a number of characters >= 1")
    text = document.text
    lines, starts = split_lines(text)
    cuts: set[int] = {*starts, 0, len(text)}
    for line, start in zip(lines, starts, strict=False):
        if len(line) > wrap:
            cuts.update(_wrapped(text, start, start + len(line), wrap))
    ordered = sorted(cuts)
    inside: set[int] = set()
    for begin, end in _whole(text, blocks_of(document) if blocks is None else blocks):
        inside.update(ordered[bisect_right(ordered, begin) : bisect_left(ordered, end)])
    forced = {border for border in borders if 0 <= border <= len(text)}
    return NumberedLines(text=text, starts=tuple(sorted((cuts - inside) | forced)), base=base)


def _wrapped(text: str, start: int, end: int, wrap: int) -> Iterator[int]:
    """Yield where the line [start, end) is cut."""
    sentences = list(sentence_ends(text, start, end))
    at = start
    while end - at > wrap:
        limit = at + wrap
        found = bisect_right(sentences, limit) - 1
        if found >= 0 and sentences[found] > at + wrap // 2:
            at = sentences[found]
        else:
            words = [match.start() for match in _WORD_START.finditer(text, at + 1, limit + 1)]
            at = words[-1] if words else limit
        yield at


def _whole(text: str, blocks: Sequence[Block]) -> Iterator[tuple[int, int]]:
    """Yield the spans that stay whole: tables, and figures with their captions."""
    for unit in units(text, 0, len(text), blocks):
        if unit.kind in {"table", "figure"}:
            yield unit.core, unit.core + len(text[unit.core : unit.end].rstrip())


def _abridged(line: str, longest: int | None) -> str:
    if longest is None or len(line) <= longest:
        return line
    tail = longest // 4
    return line[: longest - tail] + _ABRIDGED + line[len(line) - tail :]
