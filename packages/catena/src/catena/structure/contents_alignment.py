"""Which line of the text each entry of a table of contents names: the best assignment that keeps the order."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from catena.structure.blocks import Block
from catena.structure.contents_entries import Entry, Printed
from catena.structure.headings import Heading, next_line
from catena.structure.lines import split_lines
from catena.structure.title_numbers import Numbered, numbered
from catena.structure.titles import plain_title
from catena.text.loaded import PLAIN
from catena.text.words import folded

_LONGEST = 200  # characters of a title in the text
_BEFORE, _AFTER = 8, 24  # places looked at for an entry among those of equal words, around its own turn
_NO_LETTERS = re.compile(r"[\W_]+")
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


class Place(NamedTuple):
    """A heading, or a line that may be one (level 0), and what it says."""

    heading: Heading
    says: Numbered
    alone: bool  # a paragraph of one line


Aligned = Mapping[int, Place]  # by 0-based number of the entry


def align(
    text: str, blocks: Sequence[Block], headings: Sequence[Heading], printed: Printed, media_type: str
) -> Aligned:
    """Return the place of each entry that was found; places ascend as the entries do.

    An entry and a place fit when their words are the same, case and punctuation aside, and their numbers do not
    contradict each other; or when the entry's link names the heading. Of all assignments in order the one
    with the largest sum of weights is taken: a heading with the same number 8, a heading 6, another line with
    the same number 4, another line that is a paragraph of its own 2,
    a heading by its link 7. So an entry that is missing, or a title
    that is repeated in a page head, does not shift the others.

    Args:
        text: the whole text.
        blocks: its blocks.
        headings: those that are known.
        printed: the table of contents; places inside it do not count.
        media_type: of the document: in plain text any line may be a title.
    """
    wanted = {form.words for entry in printed.entries for title in entry.titles for form in _forms(title)}
    by_words: dict[tuple[str, ...], list[Place]] = defaultdict(list)
    by_anchor: dict[str, list[Place]] = defaultdict(list)
    known = {heading.start for heading in headings}
    places = [Place(heading, numbered(heading.title), True) for heading in headings]
    ends = {_end(title) for entry in printed.entries for title in entry.titles}
    places += [place for place in _lines(text, blocks, media_type, ends) if place.heading.start not in known]
    for place in sorted(places, key=lambda place: place.heading.start):
        if printed.start <= place.heading.start < printed.end:
            continue
        for form in _forms_of(place.says):
            if form.words in wanted and place not in by_words[form.words][-1:]:
                by_words[form.words].append(place)
        if place.heading.level:
            by_anchor[_anchor(place.heading.title)].append(place)
    turns: Counter[tuple[str, ...]] = Counter()
    rows: list[list[tuple[int, Place]]] = []
    for entry in printed.entries:
        fitting = _fitting(entry, by_words, by_anchor, turns)
        rows.append(sorted(fitting, key=lambda pair: -pair[1].heading.start))
    return _best(rows)


def _lines(text: str, blocks: Sequence[Block], media_type: str, ends: Set[str]) -> Iterator[Place]:
    """Yield the lines of paragraphs and list items that end as a title does, and whole paragraphs of a few lines."""
    for block in blocks:
        if block.kind not in {"paragraph", "item"}:
            continue
        lines, starts = split_lines(text[block.start : block.end])
        stops = [offset + len(line) for line, offset in zip(lines, starts, strict=False)]
        first_only = media_type != PLAIN
        for index in range(1 if first_only else len(lines)):
            for last in range(index, min(index + (3 if first_only else 2), len(lines))):
                start, end = block.start + starts[index], block.start + stops[last]
                whole = last - index + 1 == len(lines)
                if end - start > _LONGEST or _end(lines[last]) not in ends:
                    continue
                if whole or last == index or not first_only:
                    title = " ".join(lines[index : last + 1])
                    yield _place(text, start, end, title, alone=whole and block.kind == "paragraph")


def _end(title: str) -> str:
    """Return the last letters of a title: comparing them first spares reading most lines."""
    return _NO_LETTERS.sub("", folded(title[-40:]))[-3:]


def _place(text: str, start: int, end: int, line: str, *, alone: bool) -> Place:
    title = plain_title(line)
    return Place(Heading(start, next_line(text, end), 0, title), numbered(title), alone)


def _forms(title: str) -> Iterator[Numbered]:
    return _forms_of(numbered(title))


def _forms_of(says: Numbered) -> Iterator[Numbered]:
    """Yield a title as read, and with a leading single letter taken for its number ("A Tables")."""
    yield says
    if not says.number and len(says.words) > 1 and len(says.words[0]) == 1 and says.words[0].isalpha():
        yield Numbered((says.words[0].upper(),), 1, says.words[1:])


def _fitting(
    entry: Entry,
    by_words: Mapping[tuple[str, ...], Sequence[Place]],
    by_anchor: Mapping[str, Sequence[Place]],
    turns: Counter[tuple[str, ...]],
) -> list[tuple[int, Place]]:
    """Return the places that fit an entry with their weights, one per place.

    Of many with equal words only those around the entry's own turn among equal entries are looked at, so that
    a title repeated everywhere costs no square.
    """
    weights: dict[int, tuple[int, Place]] = {}
    forms = {form for title in entry.titles for form in _forms(title)}
    for form in sorted(forms):
        turn = turns[form.words]
        for place in by_words.get(form.words, ())[max(0, turn - _BEFORE) : turn + _AFTER]:
            _keep(weights, max((_weight(form, says, place) for says in _forms_of(place.says)), default=0), place)
    for place in by_anchor.get(entry.anchor.lower(), ())[:_AFTER] if entry.anchor else ():
        _keep(weights, 7, place)
    turns.update({form.words for form in forms})
    return list(weights.values())


def _keep(weights: dict[int, tuple[int, Place]], weight: int, place: Place) -> None:
    start = place.heading.start
    if weight and (start not in weights or weights[start][0] < weight):
        weights[start] = (weight, place)


def _weight(entry: Numbered, says: Numbered, place: Place) -> int:
    if entry.words != says.words or (entry.number and says.number and entry.number != says.number):
        return 0
    if not (entry.words or entry.number == says.number):
        return 0
    same_number = bool(entry.number) and entry.number == says.number
    if place.heading.level:
        return 8 if same_number else 6
    if same_number:
        return 4
    return 2 if place.alone else 0


def _anchor(title: str) -> str:
    """Return the anchor that code hosts give to a heading."""
    return _NOT_IN_ANCHORS.sub("", folded(title)).strip().replace(" ", "-")


class _Chosen(NamedTuple):
    """The last link of a chain of assignments."""

    total: int
    entry: int
    place: Place
    before: _Chosen | None


def _best(fitting: Sequence[Sequence[tuple[int, Place]]]) -> Aligned:
    """Return the heaviest ascending assignment; of equal ones the one that ends earliest in the text.

    A Fenwick tree over the places holds the best chain that ends at or before each, so that the whole takes
    time n log n for n pairs. The places of one entry come last first: none can follow another of its own.
    """
    order = {start: i for i, start in enumerate(sorted({p.heading.start for row in fitting for _, p in row}), 1)}
    tree: list[_Chosen | None] = [None] * (len(order) + 1)
    for entry, row in enumerate(fitting):
        for weight, place in row:
            index = order[place.heading.start]
            before = _upto(tree, index - 1)
            chain = _Chosen((before.total if before else 0) + weight, entry, place, before)
            while index < len(tree):
                there = tree[index]
                if there is None or chain.total > there.total:
                    tree[index] = chain
                index += index & -index
    found: dict[int, Place] = {}
    chain_end = _upto(tree, len(order))
    while chain_end is not None:
        found[chain_end.entry] = chain_end.place
        chain_end = chain_end.before
    return found


def _upto(tree: Sequence[_Chosen | None], index: int) -> _Chosen | None:
    best: _Chosen | None = None
    while index > 0:
        there = tree[index]
        if there is not None and (
            best is None or (there.total, -there.place.heading.start) > (best.total, -best.place.heading.start)
        ):
            best = there
        index -= index & -index
    return best
