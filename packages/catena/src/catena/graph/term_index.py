"""Index the terms of nodes both ways round, and find the edges that shared terms make when they are asked for.

So a term that becomes common, or rare again, as documents come and go, makes and unmakes its edges by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from catena.graph.options import TermEdges, rarity

V = TypeVar("V", bound=np.generic)
TermPairs: TypeAlias = tuple[NDArray[np.integer], NDArray[np.uint64]]
"""Pairs (place of a node, number of a term) as two arrays."""

_PAIRS = 1 << 22  # pairs of nodes looked at together
_FEW = 4_096  # values inserted one by one


@dataclass(frozen=True, slots=True, eq=False)
class GrowingRows:
    """The rows of a large base, which is never copied (it may be a file's), and of a small tail that came later."""

    base: NDArray[Any]
    tail: NDArray[Any]

    @classmethod
    def of(cls, base: NDArray[Any]) -> GrowingRows:
        """Return an array as a base without a tail."""
        return cls(base, base[:0])

    def __len__(self) -> int:
        return len(self.base) + len(self.tail)

    def parts(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the arrays that have rows, each with the number of rows before it."""
        for start, part in ((0, self.base), (len(self.base), self.tail)):
            if len(part):
                yield start, part

    def take(self, rows: NDArray[np.integer]) -> NDArray[Any]:
        """Return a copy of some rows."""
        if not len(self.tail):
            return np.asarray(self.base[rows])
        taken = np.empty((len(rows), *self.base.shape[1:]), dtype=self.base.dtype)
        late = rows >= len(self.base)
        taken[~late] = self.base[rows[~late]]
        taken[late] = self.tail[rows[late] - len(self.base)]
        return taken

    def with_rows(self, rows: NDArray[Any]) -> GrowingRows:
        """Return these rows and some more, which cost a copy of the tail alone."""
        return GrowingRows(self.base, np.concatenate([self.tail, rows]))


def ranges(starts: NDArray[np.integer], counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the numbers of some ranges [start, start + count), one range after the other."""
    ends = counts.cumsum(dtype=np.int64)
    numbers: NDArray[np.int64] = (starts - (ends - counts)).repeat(counts)
    numbers += np.arange(len(numbers))
    return numbers


def distinct(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the values, ascending, that are the first of their kind."""
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def starts_of(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the start of each run of these lengths, and the end of the last: one number more."""
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


@dataclass(frozen=True, slots=True, eq=False)
class EdgeRows:
    """Edges from the i-th of the nodes asked for to a place, with a weight above 0; ordered, each once."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: NDArray[np.float32]

    @classmethod
    def nothing(cls) -> EdgeRows:
        """Return no edges."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class TermIndex:
    """The terms of n nodes, and the nodes of each term.

    Attributes:
        starts: shape (n + 1,); the terms of node i are `terms[starts[i]:starts[i + 1]]`, ascending.
        terms: numbers of terms, uint64.
        keys: distinct terms, ascending.
        key_starts: shape (keys + 1,); the nodes that hold key i are `places[key_starts[i]:key_starts[i + 1]]`,
            ascending.
        places: int32.
    """

    starts: NDArray[np.int64]
    terms: NDArray[np.uint64]
    keys: NDArray[np.uint64]
    key_starts: NDArray[np.int64]
    places: NDArray[np.int32]

    @classmethod
    def of_pairs(cls, places: NDArray[np.integer], terms: NDArray[np.uint64], nodes: int) -> TermIndex:
        """Return the index of pairs (place, term), each once, ordered by place, then term."""
        order = np.argsort(terms, kind="stable")
        firsts = np.flatnonzero(distinct(terms[order]))
        return cls(
            starts_of(np.bincount(places, minlength=nodes)),
            terms,
            terms[order[firsts]],
            np.append(firsts, len(terms)),
            places[order].astype(np.int32),
        )

    @property
    def nodes(self) -> int:
        """Return n."""
        return len(self.starts) - 1

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return all pairs (place, term), ordered by place, then term."""
        return np.repeat(np.arange(self.nodes), np.diff(self.starts)), self.terms

    def find(self, terms: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the start of the nodes of each term in `places`, and their number."""
        if not len(self.keys):
            return np.zeros(len(terms), np.int64), np.zeros(len(terms), np.int64)
        at = self.keys.searchsorted(terms)
        at[at == len(self.keys)] = 0
        starts = self.key_starts[at]
        return starts, np.where(self.keys[at] == terms, self.key_starts[at + 1] - starts, 0)

    def only(self, terms: NDArray[np.uint64]) -> TermIndex:
        """Return the index of these terms, ascending, and no others; mostly that is this index itself."""
        at = np.minimum(terms.searchsorted(self.keys), len(terms) - 1)
        if not len(self.keys) or (len(terms) and (terms[at] == self.keys).all()):
            return self
        places, held = self.pairs()
        kept = np.isin(held, terms, kind="sort")  # numpy 2.0 fails at great unsigned numbers otherwise
        return TermIndex.of_pairs(places[kept], held[kept], self.nodes)

    def changed(
        self, moved: NDArray[np.integer], places: NDArray[np.integer], terms: NDArray[np.uint64], nodes: int
    ) -> TermIndex:
        """Return the index after nodes moved, went and came.

        Args:
            moved: the new place of each node, -1 of one that is gone; the others keep their order.
            places: of pairs of new nodes, and of new ones of old nodes, ordered by place, then term.
            terms: of these pairs.
            nodes: how many there are now.
        """
        gone = np.flatnonzero(moved < 0)
        lost = ranges(self.starts[gone], self.starts[gone + 1] - self.starts[gone])
        counts = np.zeros(nodes, np.int64)
        counts[np.delete(moved, gone)] = np.delete(np.diff(self.starts), gone)
        held = np.delete(self.terms, lost) if len(lost) else self.terms
        held = _with(held, starts_of(counts), places, terms)
        counts += np.bincount(places, minlength=nodes)
        keys, key_counts = self.keys, np.diff(self.key_starts)
        if len(lost):
            key_counts -= np.bincount(keys.searchsorted(self.terms[lost]), minlength=len(keys))
            keys, key_counts = keys[key_counts > 0], key_counts[key_counts > 0]
        holders = moved.astype(np.int32)[self.places]
        holders = holders[holders >= 0] if len(lost) else holders
        order = np.argsort(terms, kind="stable")
        by_term, by_term_places = terms[order], np.asarray(places)[order]
        keys, key_counts = _with_keys(keys, key_counts, by_term)
        at = keys.searchsorted(by_term)
        holders = _with(holders, starts_of(key_counts), at, by_term_places)
        key_counts += np.bincount(at, minlength=len(keys))
        return TermIndex(starts_of(counts), held, keys, starts_of(key_counts), holders)


def terms_of(lists: Iterable[Iterable[str]]) -> TermPairs:
    """Return the terms of nodes 0, 1, ... as pairs (place, number of term), each once, ordered."""
    known: dict[str, int] = {}
    places: list[int] = []
    numbers: list[int] = []
    for place, terms in enumerate(lists):
        mine = set()
        for term in terms:
            if term not in known:
                known[term] = term_number(term)
            mine.add(known[term])
        places.extend([place] * len(mine))
        numbers.extend(sorted(mine))
    return np.array(places, np.int64), np.array(numbers, np.uint64)


def term_number(term: str) -> int:
    """Return a term as 64 bits, equal in every process."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def all_joined(index: TermIndex, kind: TermEdges) -> EdgeRows:
    """Return the edges of all nodes by shared terms, `source` being a place.

    Two nodes that share s of a kind's terms share comb(s, m) sets of m of them. So where edges need more than one
    shared term, nodes are not compared for each common term but for each set of up to three, which few hold; how many
    sets two nodes share then says how many terms.
    """
    nodes = index.nodes
    place, terms = index.pairs()
    _, holding = index.find(terms)
    fit = (holding > 1) & (holding <= kind.limit(nodes))
    place, terms, holding = place[fit], terms[fit], holding[fit]
    most = int(np.bincount(place, minlength=1).max(initial=0))
    sizes = () if kind.weight == "rarity" else (3, 2)
    size = next((s for s in sizes if s <= kind.more_than + 1 and comb(most, s) <= 256), 1)
    if size > 1:
        sharing = _sharing_sets(place, terms, size, nodes)
        values = None
    else:
        sharing, values = (place, terms), rarity(holding, nodes) if kind.weight == "rarity" else None
    terms_shared = {comb(s, size): s for s in range(size, most + 1)}
    found = [EdgeRows.nothing()]
    for source, target, weight, sets in _pairs(*sharing, values, nodes):
        shared = np.array([terms_shared.get(int(each), 0) for each in range(int(sets.max(initial=0)) + 1)])[sets]
        kept = shared > kind.more_than
        weights = shared if values is None else weight
        found.append(EdgeRows(source[kept], target[kept], weights[kept].astype(np.float32)))
    return _both_ways(found, nodes)


def _sharing_sets(
    place: NDArray[np.integer], terms: NDArray[np.uint64], size: int, nodes: int
) -> tuple[NDArray[np.integer], NDArray[np.uint64]]:
    """Return the sets of `size` terms that nodes hold, as pairs (place, number of the set)."""
    counts = np.bincount(place, minlength=nodes)
    starts = starts_of(counts)
    places, sets = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for count in np.unique(counts[counts >= size]):
        alike = np.flatnonzero(counts == count)
        held = terms[starts[alike][:, None] + np.arange(count)]  # ascending in each row
        for chosen in combinations(range(int(count)), size):
            number = held[:, chosen[0]]
            for other in chosen[1:]:
                number = _mixed(number) + held[:, other]
            places.append(alike)
            sets.append(number)
    place, terms = np.concatenate(places), np.concatenate(sets)
    order = np.argsort(place, kind="stable")
    return place[order], terms[order]


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers with their bits mixed, so that sums of several of them do not collide (splitmix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _pairs(
    place: NDArray[np.integer], terms: NDArray[np.uint64], values: NDArray[np.float64] | None, nodes: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]]:
    """Yield the pairs of nodes, lower place first, that share terms: both, the sum of values (or ones), how many.

    Args:
        place: of each pair (place, term), ascending.
        terms: of each pair.
        values: of each pair; None where sums are not needed.
        nodes: how many there are.
    """
    by_term = np.argsort(terms, kind="stable")  # and, of each term, by place
    ordered = terms[by_term]
    ends = np.searchsorted(ordered, ordered, side="right")
    later = np.empty(len(terms), np.int64)  # nodes of the same term after this one
    at = np.empty(len(terms), np.int64)
    at[by_term] = np.arange(len(terms))
    later[by_term] = ends - np.arange(len(terms)) - 1
    held = place[by_term]
    for a, b in _cuts(place, later):
        counts = later[a:b]
        keys = np.repeat(place[a:b] * np.int64(nodes), counts) + held[ranges(at[a:b] + 1, counts)]
        sums: NDArray[np.float64]
        if values is None:
            keys, shared = np.unique(keys, return_counts=True)
            sums = shared.astype(np.float64)
        else:
            keys, back, shared = np.unique(keys, return_inverse=True, return_counts=True)
            sums = np.asarray(np.bincount(back, weights=np.repeat(values[a:b], counts)), np.float64)
        source, target = np.divmod(keys, nodes)
        yield source, target, sums, shared


def _cuts(place: NDArray[np.integer], work: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of the pairs (place, term) of bounded work, each with all terms of its nodes."""
    done = np.cumsum(work)
    start = 0
    while start < len(place):
        before = done[start - 1] if start else 0
        last = max(int(np.searchsorted(done, before + _PAIRS, side="right")), start + 1)
        end = int(np.searchsorted(place, place[last - 1], side="left")) if last < len(place) else len(place)
        if end <= start:  # one node alone is more work than that
            end = int(np.searchsorted(place, place[start], side="right"))
        yield start, end
        start = end


def _both_ways(parts: Sequence[EdgeRows], nodes: int) -> EdgeRows:
    """Return the edges of all parts, each also the other way round, ordered."""
    source = np.concatenate([part.source for part in parts])
    target = np.concatenate([part.target for part in parts])
    weight = np.concatenate([part.weight for part in parts])
    keys = np.concatenate([source * nodes + target, target * nodes + source])
    order = np.argsort(keys, kind="stable")
    source, target = np.divmod(keys[order], max(nodes, 1))
    return EdgeRows(source, target, np.concatenate([weight, weight])[order])


def _with(
    values: NDArray[V], starts: NDArray[np.int64], runs: NDArray[np.integer], new: NDArray[np.generic]
) -> NDArray[V]:
    """Return values that lie in runs, ascending in each, with some more.

    Args:
        values: those of run i are `values[starts[i]:starts[i + 1]]`.
        starts: see there.
        runs: into which each new value is to come, ascending.
        new: values, ascending in each run, none of them there yet.
    """
    at = starts[runs]
    for i in np.flatnonzero(starts[np.asarray(runs) + 1] > at).tolist():
        at[i] += values[at[i] : starts[runs[i] + 1]].searchsorted(new[i])
    return _inserted(values, at, new)


def _with_keys(
    keys: NDArray[np.uint64], counts: NDArray[np.int64], terms: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return keys and how many nodes hold each, with the new ones of some terms, ascending, held by none yet."""
    terms = terms[distinct(terms)]
    at = keys.searchsorted(terms)
    fresh = np.append(keys, np.uint64(0))[at] != terms
    fresh |= at == len(keys)
    return _inserted(keys, at[fresh], terms[fresh]), _inserted(counts, at[fresh], np.zeros(fresh.sum(), np.int64))


def _inserted(values: NDArray[V], at: NDArray[np.integer], new: NDArray[np.generic]) -> NDArray[V]:
    """Insert values before some places, ascending; where these are few, the runs between them are copied whole."""
    if len(at) > _FEW:
        return np.insert(values, at, new)
    new, before, parts = new.astype(values.dtype), 0, []
    for i, place in enumerate(at.tolist()):
        parts += [values[before:place], new[i : i + 1]]
        before = place
    return np.concatenate([*parts, values[before:]])
