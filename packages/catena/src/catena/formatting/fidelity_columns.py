"""Columns that a parser read across, line by line: put into the order in which an answer gives them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from catena.formatting.fidelity_words import Line, Word, Words

_LEAST = 3  # words of a line that is looked for
_TRIED = 16  # places at which a line is looked for
_BEFORE = 3  # lines after which a line may go on
_FALLS = 2  # times that the reading jumps back to the first column: a block that was moved jumps back once


def unread_across(source: Words, answer: Words) -> Words | None:
    """Return the source with the lines of two columns one column after the other, or None if it has no such lines.

    Where a page of two columns is read across, its lines come in turn, and an answer in the right order has first all
    lines of the one and then all of the other: two rising sequences, the second above the first, that alternate more
    than once. Swapped rows and moved paragraphs do not alternate.
    """
    places = _places(source, answer)
    order = list(range(len(source.lines)))
    changed = False
    for region in _regions(places):
        columns = _columns([place for _, place in region])
        if columns is not None:
            first, last = region[0][0], region[-1][0]
            known = {line: column for (line, _), column in zip(region, columns, strict=True)}
            order[first : last + 1] = _one_by_one(range(first, last + 1), known)
            changed = True
    return _reordered(source, order) if changed else None


def _places(source: Words, answer: Words) -> list[tuple[int, int]]:
    """Return (line, where the answer has it) of the lines that stand whole in both.

    A line that is there more than once, or too short to be looked for, stands where one of the lines before it ends,
    or ends where one of the lines after it begins.
    """
    said = [word.key for word in answer.words]
    starts: dict[tuple[str, ...], list[int]] = {}
    for index in range(len(said) - _LEAST + 1):
        starts.setdefault(tuple(said[index : index + _LEAST]), []).append(index)
    printed = [tuple(word.key for word in source.words[line.start : line.end]) for line in source.lines]
    counts = Counter(printed)
    found: dict[int, int] = {}
    ends: deque[int] = deque(maxlen=_BEFORE)
    for index, keys in enumerate(printed):
        places = [at for at in ends if tuple(said[at : at + len(keys)]) == keys]
        if not places and counts[keys] == 1:
            near = starts.get(keys[:_LEAST], ())[:_TRIED]
            places = [at for at in near if tuple(said[at : at + len(keys)]) == keys]
        if len(places) == 1:
            found[index] = places[0]
            ends.append(places[0] + len(keys))
    begins: deque[int] = deque(maxlen=_BEFORE)
    for index, keys in reversed(list(enumerate(printed))):
        places = [at - len(keys) for at in begins if tuple(said[max(0, at - len(keys)) : at]) == keys]
        if index not in found and len(places) == 1:
            found[index] = places[0]
        if index in found:
            begins.append(found[index])
    return sorted(found.items())


def _regions(places: Sequence[tuple[int, int]]) -> Iterator[Sequence[tuple[int, int]]]:
    """Give the shortest runs of lines that no line before or after them belongs into."""
    highest = list(accumulate((place for _, place in places), max))
    lowest = list(accumulate((place for _, place in reversed(places)), min))[::-1]
    start = 0
    for index in range(len(places)):
        if index + 1 == len(places) or highest[index] < lowest[index + 1]:
            if index > start:
                yield places[start : index + 1]
            start = index + 1


def _columns(places: Sequence[int]) -> list[int] | None:
    """Return 0 or 1 per line, its column, or None where the places are no two columns in turn."""
    if sum(one > other for one, other in pairwise(places)) < _FALLS:
        return None
    fall = next(index for index, (one, other) in enumerate(pairwise(places)) if one > other)
    second = min(place for place in places[: fall + 1] if place > places[fall + 1])  # where the second column begins
    columns = [int(place >= second) for place in places]
    parts = [[p for p, column in zip(places, columns, strict=True) if column == side] for side in (0, 1)]
    return columns if all(one < other for part in parts for one, other in pairwise(part)) else None


def _one_by_one(lines: range, known: dict[int, int]) -> list[int]:
    """Return lines, column after column; one that was not found is of the other column than the one before."""
    columns: list[list[int]] = [[], []]
    last = 1
    for line in lines:
        last = known.get(line, 1 - last)
        columns[last].append(line)
    return [*columns[0], *columns[1]]


def _reordered(source: Words, order: Sequence[int]) -> Words:
    words: list[Word] = []
    lines: list[Line] = []
    for index in order:
        line = source.lines[index]
        start = len(words)
        words += [word._replace(line=len(lines)) for word in source.words[line.start : line.end]]
        lines.append(line._replace(start=start, end=len(words)))
    return Words(words=tuple(words), lines=tuple(lines))
