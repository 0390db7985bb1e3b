"""Which words of a Markdown text are which words of its source, and where both can be cut at the same place.

Words are compared as *atoms*, runs of letters and digits in NFKC with case folded; a character of a script
without spaces is an atom. So marks, punctuation and white space may differ.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from catena.formatting.words import UNSPACED

_ATOM = re.compile(rf"(?=[{UNSPACED}])[^\W_]|(?:(?![{UNSPACED}])[^\W_])+")
_GRAM = 3  # atoms that make an anchor
_SMALL = 60_000  # pairs of atoms that are compared without anchors
_REACH = 300  # atoms: how far a word may have been moved, as from column to column of a table


def atoms_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield [start, end) of every atom of a text."""
    return (match.span() for match in _ATOM.finditer(text))


def atom_keys(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Return what atoms are compared by."""
    return [unicodedata.normalize("NFKC", text[start:end]).casefold() for start, end in spans]


def align(source: Sequence[str], target: Sequence[str]) -> list[int]:
    """Return for each atom of `target` the index of its counterpart in `source`, or -1.

    Equal ends are paired first, then triples that are unique on both sides (patience), what is left between
    them by longest common blocks; at last lone atoms that were moved by no more than 300 places.
    """
    places = [-1] * len(target)
    todo = [(0, len(source), 0, len(target))]
    while todo:
        low, high, first, last = todo.pop()
        while low < high and first < last and source[low] == target[first]:
            places[first] = low
            low, first = low + 1, first + 1
        while low < high and first < last and source[high - 1] == target[last - 1]:
            high, last = high - 1, last - 1
            places[last] = high
        if low == high or first == last:
            continue
        anchors = _anchors(source, target, (low, high, first, last))
        if anchors:
            for one, other in anchors:
                todo.append((low, one, first, other))
                low, first = one, other
            todo.append((low, high, first, last))
        elif (high - low) * (last - first) <= _SMALL:
            matcher = SequenceMatcher(None, source[low:high], target[first:last], autojunk=False)
            for block in matcher.get_matching_blocks():
                for step in range(block.size):
                    places[first + block.b + step] = low + block.a + step
    _place_moved(source, target, places)
    return places


def _anchors(source: Sequence[str], target: Sequence[str], box: tuple[int, int, int, int]) -> list[tuple[int, int]]:
    """Return starts of triples that are unique in both parts and stand in the same order, beyond the box's corner."""
    low, high, first, last = box
    here = _unique(source, low, high)
    there = _unique(target, first, last)
    pairs = sorted((there[gram], here[gram]) for gram in here.keys() & there.keys())
    tails: list[int] = []
    ends: list[int] = []  # index of the pair at the end of each run
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(tails, place)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [place]
        ends[length : length + 1] = [index]
    chosen: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chosen.append((pairs[index][1], pairs[index][0]))
        index = before[index]
    return chosen[::-1]


def _unique(atoms: Sequence[str], low: int, high: int) -> dict[tuple[str, ...], int]:
    grams = [tuple(atoms[at : at + _GRAM]) for at in range(low, high - _GRAM + 1)]
    counts = Counter(grams)
    return {gram: low + at for at, gram in enumerate(grams) if counts[gram] == 1}


def _place_moved(source: Sequence[str], target: Sequence[str], places: list[int]) -> None:
    """Pair atoms that stand alone on both sides with the nearest equal one."""
    taken = set(places)
    free: dict[str, list[int]] = defaultdict(list)
    for place, atom in enumerate(source):
        if place not in taken:
            free[atom].append(place)
    near = 0
    for index, place in enumerate(places):
        if place >= 0:
            near = place
        elif candidates := free.get(target[index]):
            nearest = min(candidates, key=lambda candidate: (abs(candidate - near), candidate))
            if abs(nearest - near) <= _REACH:
                places[index] = nearest
                candidates.remove(nearest)


@dataclass(frozen=True, slots=True)
class Piece:
    """Markdown with the place of its words in the source.

    Attributes:
        text: the Markdown.
        start, end: the atoms of the source that it was made of, half-open.
        atoms: [start, end) of each of its own atoms in `text`.
        places: per own atom, its counterpart in the source, or -1.
        cuts: per place of the source from `start` to `end`, the own atom before which the text can be cut there:
            all before it comes from before that place, all from it on from there on; -1 where that is not so.
    """

    text: str
    start: int
    end: int
    atoms: tuple[tuple[int, int], ...]
    places: tuple[int, ...]
    cuts: tuple[int, ...]

    def cut_at(self, place: int) -> int:
        """Return the own atom before which to cut so as to part the source at `place`; -1 if nowhere."""
        return self.cuts[place - self.start] if self.start <= place <= self.end else -1

    def gap(self, atom: int) -> str:
        """Return what stands between an own atom and the one before it, or the ends of the text."""
        begin = self.atoms[atom - 1][1] if atom else 0
        return self.text[begin : self.atoms[atom][0] if atom < len(self.atoms) else len(self.text)]

    def excerpt(self, start: int, end: int) -> str:
        """Return the text from the first to the last of its words that have a place in [start, end) of the source."""
        inside = [atom for atom, place in enumerate(self.places) if start <= place < end]
        return self.text[self.atoms[inside[0]][0] : self.atoms[inside[-1]][1]] if inside else ""


def piece_of(text: str, keys: Sequence[str], start: int, end: int) -> Piece:
    """Align a Markdown text with the atoms [start, end) of its source.

    Args:
        text: the Markdown.
        keys: what all atoms of the source are compared by.
        start: the first atom of the source that the text was made of.
        end: the atom after the last one.
    """
    spans = tuple(atoms_of(text))
    places = [place + start if place >= 0 else -1 for place in align(keys[start:end], atom_keys(text, spans))]
    return placed(text, spans, places, start, end)


def placed(text: str, spans: Sequence[tuple[int, int]], places: Sequence[int], start: int, end: int) -> Piece:
    """Return a piece whose alignment is known."""
    return Piece(text, start, end, tuple(spans), tuple(places), tuple(_cuts(places, start, end)))


def _cuts(places: Sequence[int], start: int, end: int) -> list[int]:
    """Return for each place of the source the own atom to cut before, or -1 where words of both sides mix."""
    lowest_after = [end] * (len(places) + 1)
    for atom in range(len(places) - 1, -1, -1):
        lowest_after[atom] = min(lowest_after[atom + 1], places[atom] if places[atom] >= 0 else end)
    cuts = [-1] * (end - start + 1)
    highest_before, run = start - 1, 0  # `run`: own atoms without a counterpart, just before
    for atom in range(len(places) + 1):
        if highest_before < lowest_after[atom]:
            # of words that replace others, each is taken for the one in its place
            for place in range(max(start, highest_before + 1 + run), lowest_after[atom] + 1):
                cuts[place - start] = atom
        if atom < len(places):
            run = 0 if places[atom] >= 0 else run + 1
            highest_before = max(highest_before, places[atom])
    return cuts
