"""Match words of an answer with those of its source: in order, joined, divided, moved; find where they are printed.

Everything here is linear in the words but for logarithms: gaps between two anchors are compared cell by cell only
when they are small, the search for anchors stops at a fixed depth, and a moved run is looked for at few places.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, takewhile
from math import inf
from typing import TypeAlias

from catena.formatting.styled_lines import UNSPACED
from catena.model import Document, PrintedText, figure_links, pack_boxes
from catena.model.figures import figure_name
from catena.model.layout import Layout, Line, Page
from catena.text.words import runs_of

_ATOM = re.compile(rf"(?=[{UNSPACED}])[^\W_]|(?:(?![{UNSPACED}])[^\W_])+")
_SHINGLES = (8, 4, 2, 1)  # words; lengths of the anchors, the surest first
_DEPTH = 12  # gaps within gaps; a hostile text could nest them one word at a time
_SMALL = 4_096  # words of one side times words of the other that are compared cell by cell in one gap
_PLACES = 16  # at which a moved run may begin
_REACH = 16  # words that a missing run is moved to begin a line
_JOINED = 4  # words that may have become one
_NEAR = 80  # words; how far a single word may have moved and still be the same one


Ranges: TypeAlias = tuple[int, int, int, int]
"""First word and end in the source, first word and end in the answer; both half open."""


@dataclass(slots=True)
class Alignment:
    """Word indexes of one side on the other; -1 where there is none.

    Attributes:
        here: per word of the answer, the word of the source; of several that were joined, the first.
        there: per word of the source, the word of the answer.
        moved: per word of the answer, whether it is matched out of order.
    """

    here: list[int]
    there: list[int]
    moved: list[bool]

    def match(self, one: int, other: int, *, moved: bool = False) -> None:
        """Note that the source's word `one` is the answer's word `other`."""
        self.there[one] = other
        if self.here[other] < 0:
            self.here[other] = one
        self.moved[other] = moved


def atoms_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield [start, end) of every atom of a text: of each run of letters and digits, in some scripts of each sign."""
    return (match.span() for match in _ATOM.finditer(text))


def atom_keys(text: str, spans: Iterable[tuple[int, int]]) -> list[str]:
    """Return the keys by which atoms are compared."""
    atoms = (text[start:end] for start, end in spans)
    return [(atom if atom.isascii() else unicodedata.normalize("NFKC", atom)).casefold() for atom in atoms]


def align(source: Sequence[str], answer: Sequence[str], starts: Collection[int] = frozenset()) -> Alignment:
    """Match the words of an answer with those of its source.

    Args:
        source: its words.
        answer: its words, equal to those of the source when they say the same.
        starts: words of the source that begin a line; where a missing run may lie at two places, it begins there.
    """
    aligned = Alignment([-1] * len(answer), [-1] * len(source), [False] * len(answer))
    for one, other in _in_order(source, answer):
        aligned.match(one, other)
    _slide(aligned, source, starts)
    for there, here in list(gaps(aligned)):
        _join(aligned, source, answer, there, here)
    weak = _isolated(aligned)
    for one, other in weak:
        aligned.there[one] = aligned.here[other] = -1
    _find_moved(aligned, source, answer)
    for one, other in weak:
        if aligned.there[one] < 0 and aligned.here[other] < 0:
            aligned.match(one, other)
    _find_moved_singles(aligned, source, answer)
    return aligned


def _isolated(aligned: Alignment) -> list[tuple[int, int]]:
    """Return the matches of one or two words with nothing matched on either side: mere chance if the rest moved."""
    here, there = [0, *aligned.here, 0], [0, *aligned.there, 0]  # beyond the ends, nothing moved
    found = []
    matched = ((one, other) for other, one in enumerate(aligned.here) if one >= 0)
    for run in runs_of(matched, lambda pair, after: after == (pair[0] + 1, pair[1] + 1)):
        (one, other), (last_one, last_other) = run[0], run[-1]
        beside = (there[one], there[last_one + 2], here[other], here[last_other + 2])
        if len(run) <= 2 and max(beside) < 0:
            found += run
    return found


def gaps(aligned: Alignment) -> Iterator[tuple[range, range]]:
    """Give (words of the source, words of the answer) between neighbouring matches in order, if not both empty."""
    there, moved = aligned.there, aligned.moved
    one = other = 0
    for index, place in enumerate(aligned.here):
        if place < 0 or moved[index]:
            continue
        if place > one or index > other:
            yield range(one, place), range(other, index)
        one, other = place + 1, index + 1
        while one < len(there) and there[one] == index:
            one += 1  # several words became this one
    if len(there) > one or len(aligned.here) > other:
        yield range(one, len(there)), range(other, len(aligned.here))


def _in_order(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Give pairs of equal words, increasing on both sides within each gap."""
    todo = [(0, len(a), 0, len(b), 0)]
    while todo:
        i, m, j, n, depth = todo.pop()
        while i < m and j < n and a[i] == b[j]:
            yield i, j
            i, j = i + 1, j + 1
        while i < m and j < n and a[m - 1] == b[n - 1]:
            m, n = m - 1, n - 1
            yield m, n
        if i == m or j == n:
            continue
        if (m - i) * (n - j) <= _SMALL:
            yield from _longest_common(a, b, (i, m, j, n))
        elif depth < _DEPTH:
            todo.extend((*ranges, depth + 1) for ranges in _divided(a, b, (i, m, j, n)))


def _divided(a: Sequence[str], b: Sequence[str], ranges: Ranges) -> list[Ranges]:
    """Return the ranges that begin at the anchors of two ranges, or nothing without an anchor."""
    i, m, j, n = ranges
    for size in _SHINGLES:
        there, here = _unique(a, i, m, size), _unique(b, j, n, size)
        pairs = sorted((place, here[shingle]) for shingle, place in there.items() if shingle in here)
        chain = _increasing(pairs)
        if chain:
            spans = [(a[0], b[0], a[1], b[1]) for a, b in pairwise([(i, j), *chain, (m, n)])]
            return [span for span in spans if span[0] < span[1] or span[2] < span[3]]
    return []


def _unique(words: Sequence[str], start: int, end: int, size: int) -> dict[Hashable, int]:
    seen: dict[Hashable, int] = {}
    twice: set[Hashable] = set()
    for index in range(start, end - size + 1):
        shingle = words[index] if size == 1 else tuple(words[index : index + size])
        if shingle in seen:
            twice.add(shingle)
        seen[shingle] = index
    return {shingle: place for shingle, place in seen.items() if shingle not in twice}


def _increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a longest chain of pairs, sorted by the first, that increases in the second."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        at = bisect_left(tails, place)
        tails[at : at + 1] = [place]
        ends[at : at + 1] = [index]
        before.append(ends[at - 1] if at else -1)
    chain = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


def _longest_common(a: Sequence[str], b: Sequence[str], ranges: Ranges) -> Iterator[tuple[int, int]]:
    """Give the pairs of a longest common subsequence of two small ranges, as early as possible."""
    i, m, j, n = ranges
    width = n - j + 1
    lengths = [[0] * width]
    for one in range(m - 1, i - 1, -1):
        below, row = lengths[-1], [0] * width
        word = a[one]
        for column in range(width - 2, -1, -1):
            if b[j + column] == word:
                row[column] = below[column + 1] + 1
            else:
                row[column] = below[column] if below[column] >= row[column + 1] else row[column + 1]
        lengths.append(row)
    lengths.reverse()
    one, column = 0, 0
    while one < m - i and column < n - j:
        if a[i + one] == b[j + column]:
            yield i + one, j + column
            one, column = one + 1, column + 1
        elif lengths[one + 1][column] >= lengths[one][column + 1]:
            one += 1
        else:
            column += 1


def _slide(aligned: Alignment, source: Sequence[str], starts: Collection[int]) -> None:
    """Move missing runs that begin and end alike to where they begin a line: "a [b a] c" is "[a b] a c"."""
    for there, here in list(gaps(aligned)):
        first, last = there.start, there.stop
        step = next((step for step in range(min(first, _REACH) + 1) if first - step in starts), 0)
        before = range(first - step, first)
        alike = source[first - step : first] == source[last - step : last]
        if there and not here and alike and all(aligned.there[one] >= 0 for one in before):
            for one in reversed(before):
                other = aligned.there[one]
                aligned.there[one] = aligned.here[other] = -1
                aligned.match(one + len(there), other)


def joinable(parts: Sequence[str]) -> bool:
    """Tell if words may be written as one: letters, or letters and their exponent; never two values."""
    if all(map(str.isalpha, parts)):
        return True
    return len(parts) == 2 and parts[0].isalpha() and len(parts[1]) == 1


def _join(aligned: Alignment, source: Sequence[str], answer: Sequence[str], there: range, here: range) -> None:
    """Match words of a gap that became one word, or one that became several: "inter" + "val" is "interval"."""
    for many, few, back in ((source, answer, False), (answer, source, True)):
        spans, places = (here, there) if back else (there, here)
        joined: dict[str, deque[tuple[int, int]]] = defaultdict(deque)
        for start in spans:
            for size in range(2, min(_JOINED, spans.stop - start) + 1):
                parts = many[start : start + size]
                if joinable(parts):
                    joined["".join(parts)].append((start, size))
        last = -1
        for place in places:
            starts = joined.get(few[place], deque())
            while starts:
                start, size = starts.popleft()
                pairs = [(place, part) if back else (part, place) for part in range(start, start + size)]
                free = all(aligned.there[one] < 0 and aligned.here[other] < 0 for one, other in pairs)
                if free and start > last:
                    for one, other in pairs:
                        aligned.match(one, other)
                    last = start + size - 1
                    break


def _find_moved(aligned: Alignment, source: Sequence[str], answer: Sequence[str]) -> None:
    """Match runs of two words and more that are left on both sides."""
    pairs: dict[tuple[str, str], deque[int]] = defaultdict(deque)
    for one, pair in enumerate(pairwise(source)):
        if aligned.there[one] < 0:
            pairs[pair].append(one)
    for other, pair in enumerate(pairwise(answer)):
        places = pairs.get(pair, deque()) if aligned.here[other] < 0 else deque()
        while places and aligned.there[places[0]] >= 0:
            places.popleft()
        run = max(
            (_left(aligned, source, answer, one, other) for one in islice(places, _PLACES)), key=len, default=[]
        )
        for place, index in run if len(run) > 1 else ():
            aligned.match(place, index, moved=True)


def _left(
    aligned: Alignment, source: Sequence[str], answer: Sequence[str], one: int, other: int
) -> list[tuple[int, int]]:
    """Return the equal words from two places on that are left on both sides."""
    both = zip(range(one, len(source)), range(other, len(answer)), strict=False)
    return list(
        takewhile(lambda p: aligned.there[p[0]] < 0 > aligned.here[p[1]] and source[p[0]] == answer[p[1]], both)
    )


def _find_moved_singles(aligned: Alignment, source: Sequence[str], answer: Sequence[str]) -> None:
    """Match single words that are left on both sides, each with the nearest place."""
    singles: dict[str, list[int]] = defaultdict(list)
    for one, place in enumerate(aligned.there):
        if place < 0:
            singles[source[one]].append(one)
    expected = 0
    for index, word in enumerate(answer):
        if aligned.here[index] >= 0:
            expected = aligned.here[index]
            continue
        places = singles.get(word, ())
        at = bisect_left(places, expected)
        beside = places[max(0, at - _PLACES) : at + _PLACES]
        near = [(abs(place - expected), place) for place in beside if aligned.there[place] < 0]
        distance, place = min(near, default=(inf, -1))
        if distance <= _NEAR:
            aligned.match(place, index, moved=True)


_Ink: TypeAlias = tuple[int, float, float, Line]
"""A printed word: the number of its span on the page, its left and right side, its line."""


def with_boxes(document: Document, layout: Layout) -> Document:
    """Return a document that knows where its words are printed.

    The words of each page are matched with those of its layout, in order, joined, or moved; a word that was divided
    at a line's end has two places, one that nobody printed has none. A figure is its box, and no words.

    Args:
        document: as any formatter wrote it, with its pages.
        layout: what it was written from.
    """
    found: list[PrintedText] = []
    ends = (*document.page_starts[1:], len(document.text))
    for page, start, end in zip(layout.pages, document.page_starts, ends, strict=False):
        crops = {figure_name(document.id, page.number, n): crop for n, crop in enumerate(page.figures, start=1)}
        text = document.text[start:end]
        for link in [link for link in figure_links(text) if link.name in crops]:
            text = text[: link.start] + " " * (link.end - link.start) + text[link.end :]
            crop = crops[link.name]
            sides = (crop.x0, crop.top, crop.x1, crop.bottom)
            found.append(PrintedText(start + link.start, start + link.end, page.number, *sides))
        found += _of_page(page, text, start)
    return replace(document, printed=pack_boxes(found))


def _of_page(page: Page, text: str, offset: int) -> Iterator[PrintedText]:
    words, (printed, inks) = [*atoms_of(text)], _inked(page)
    there = align(printed, atom_keys(text, words)).there
    parts = ((start, end, inks[source]) for start, end, source in sorted(_parts(there, printed, words)))
    for run in runs_of(parts, lambda one, two: one[2][0] == two[2][0] and one[2][1] <= two[2][1]):
        (start, _, (_, x0, _, line)), (_, end, (_, _, x1, _)) = run[0], run[-1]
        yield PrintedText(offset + start, offset + end, page.number, x0, line.top, x1, line.bottom)


def _parts(
    there: Sequence[int], keys: Sequence[str], words: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, int]]:
    """Yield start and end in the text, and the printed word: of several that became one, each has its part."""
    taken: dict[int, int] = {}
    for source, at in enumerate(there):
        if at < 0:
            continue
        start, end = words[at]
        start = taken.get(at, start)
        whole = len(keys[source]) >= end - start or source + 1 == len(there) or there[source + 1] != at
        taken[at] = end if whole else start + len(keys[source])
        if start < taken[at]:
            yield start, taken[at], source


def _inked(page: Page) -> tuple[list[str], list[_Ink]]:
    """Return the words of a page and where they are: inside a span all characters are taken to be of one width."""
    keys: list[str] = []
    inks: list[_Ink] = []
    spans = ((line, span) for line in page.lines for span in line.spans)
    for number, (line, span) in enumerate(spans):
        x0, wide = span.x0, (span.x1 - span.x0) / max(1, len(span.text))
        atoms = [*atoms_of(span.text)]
        keys += atom_keys(span.text, atoms)
        inks += [(number, x0 + start * wide, x0 + end * wide, line) for start, end in atoms]
    return keys, inks
