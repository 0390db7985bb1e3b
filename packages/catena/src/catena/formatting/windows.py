"""Windows that slide over the words of a file, each with padding on both sides."""

from __future__ import annotations

from dataclasses import dataclass

from catena.formatting.source import SourceText
from catena.model.errors import ParameterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One window; all bounds count atoms of the source, from 0, half-open.

    Attributes:
        position: from 0.
        text: the words of the window with its padding, lines and white space as in the source.
        start, end: what the text covers, padding included.
        core_start, core_end: what this window alone answers for; the cores tile the source.
    """

    position: int
    text: str
    start: int
    end: int
    core_start: int
    core_end: int


def windows_of(source: SourceText, *, window: int, padding: int) -> tuple[Window, ...]:
    """Cut a source of N words into `T = ceil(N / W)` windows; window t covers words `[tW - K, (t + 1)W + K)`.

    Args:
        source: the text to cut.
        window: W, the words by which a window advances and which it answers for, >= 1.
        padding: K, the words shown before and after them, >= 1.

    Raises:
        ParameterError: `window` or `padding` is too small.

    Source: HiQA (arXiv:2402.01767), Algorithm 1.
    """
    if window < 1:
        raise ParameterError("window", window, "at least 1 word")
    if padding < 1:
        raise ParameterError("padding", padding, "at least 1 word")
    words = source.words
    cores = [source.atom_at(words[first][0]) for first in range(0, len(words), window)] + [len(source.atoms)]
    found = []
    for position, first in enumerate(range(0, len(words), window)):
        begin = words[max(0, first - padding)][0]
        finish = words[min(len(words), first + window + padding) - 1][1]
        found.append(
            Window(
                position=position,
                text=source.text[begin:finish],
                start=source.atom_at(begin),
                end=source.atom_at(finish),
                core_start=cores[position] if position else 0,
                core_end=cores[position + 1],
            )
        )
    return tuple(found)
