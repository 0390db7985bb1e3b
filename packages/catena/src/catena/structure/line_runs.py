"""Runs of lines that were divided window by window: put together again, or divided without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from catena.model import Degraded
from catena.structure.segment_repair import LineSection, Repair


class Run(NamedTuple):
    """The lines first to last, both included, 0-based."""

    first: int
    last: int


class Answered(NamedTuple):
    """The sections that tile a run, what was put right for it, and what failed."""

    run: Run
    sections: tuple[LineSection, ...]
    repairs: tuple[Repair, ...] = ()
    degraded: tuple[Degraded, ...] = ()


def joined(parts: Sequence[Answered], size: Callable[[int, int], int]) -> list[LineSection]:
    """Return the sections of overlapping windows as one list that tiles all their lines.

    A window that sees the lines on both sides of a border says what the border cuts through: the window before it,
    which sees the beginning of the next one too. The next window knows nothing of what is before it. So:

    - If the window before has sections that begin in the overlap, the first of those beginnings stands, and the
      next window's sections begin there.
    - If it has none, its last section goes on beyond all that it saw: it is one with the next window's first section,
      under the title of the part that has more characters before or after the border; of equal parts, the former's.

    Args:
        parts: in order; each begins inside the one before it or right behind it.
        size: (first line, last line) -> characters.
    """
    result: list[LineSection] = []
    for part in parts:
        border, sections = part.run.first, part.sections
        if not result:
            result.extend(sections)
            continue
        seen = [section.first for section in result if section.first >= border]
        if seen:
            kept = [section for section in result if section.first < border]
            result = [*kept[:-1], kept[-1]._replace(last=seen[0] - 1)]
            after = [section for section in sections if section.last >= seen[0]]
            result += [after[0]._replace(first=seen[0]), *after[1:]]
        elif result[-1].last < border:  # nothing of the next window was seen
            result += sections
        else:
            before, head = result.pop(), sections[0]
            longer = before if size(before.first, border - 1) >= size(border, head.last) else head
            result += [LineSection(longer.title, before.first, head.last), *sections[1:]]
    return result


def by_paragraphs(
    run: Run,
    *,
    sizes: Sequence[int],
    headings: Set[int],
    paragraphs: Set[int],
    about: int,
    title: Callable[[int, int], str],
) -> tuple[LineSection, ...]:
    """Divide a run without a model: at its headings, and where that leaves too much, between paragraphs.

    Args:
        run: the lines.
        sizes: characters of each of them, in order.
        headings: the lines that begin with a heading; each begins a section.
        paragraphs: the lines that begin a paragraph or another block; one begins a section once the section
            before it has `about` characters, and any line does once it has twice as many.
        about: characters of a section, about.
        title: (first line, last line) -> its title.
    """
    starts = [run.first]
    held = 0
    for line, characters in zip(range(run.first, run.last + 1), sizes, strict=True):
        due = held >= 2 * about or (line in paragraphs and held >= about)
        if line > run.first and (due or line in headings):
            starts.append(line)
            held = 0
        held += characters
    ends = [*(start - 1 for start in starts[1:]), run.last]
    return tuple(LineSection(title(first, last), first, last) for first, last in zip(starts, ends, strict=True))
