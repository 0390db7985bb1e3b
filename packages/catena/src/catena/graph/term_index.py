"""Index the words and the terms of nodes, as numbers, both ways round; find the titles that texts mention.

Edges are made of them when they are asked for: so a term that becomes common, or rare again, as documents come and
go, makes and unmakes its edges by itself.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from catena.graph.options import LONGEST, Node, Title, words_of
from catena.text.words import tokenise, word_key, word_keys

V = TypeVar("V", bound=np.generic)
TermPairs: TypeAlias = tuple[NDArray[np.integer], NDArray[np.uint64]]
"""Pairs (place of a node, number of a term) as two arrays."""

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
        starts, ends = starts_of(np.bincount(places, minlength=nodes)), np.append(firsts, len(terms))
        return cls(starts, terms, terms[order[firsts]], ends, places[order].astype(np.int32))

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


_AT_ONCE = 1 << 20  # words looked at together
_FEW_WORDS = 32  # words
_LOW_BITS = np.uint32((1 << 14) - 1)  # of the number of a word: they tell most words apart
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd: no multiple of it loses a bit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeWords:
    """The words of the nodes of some slots, in order: those of the text, then those of the titles.

    Of a text in a script without spaces, the pairs of characters come after all single ones.

    Attributes:
        words: as `word_number` gives them, those of slot i from `starts[i]` on.
        starts: shape (slots,), int64.
        plain: how many of them are the text's, each place once (`words_of`), shape (slots,), int32.
        text: how many are the text's, pairs of characters included.
        all: how many there are.
    """

    words: GrowingRows
    starts: NDArray[np.int64]
    plain: NDArray[np.int32]
    text: NDArray[np.int32]
    all: NDArray[np.int32]

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> NodeWords:
        """Return the words of some nodes, one slot each."""
        numbers, title_words = _Numbers(), lru_cache(maxsize=None)(word_keys)
        words: array[int] = array("I")
        lengths = np.zeros((3, len(nodes)), np.int32)
        for slot, node in enumerate(nodes):
            before = len(words)
            plain, rest = _text_words(node.chunk.text)
            words.extend(map(numbers.__getitem__, plain))
            words.extend(map(numbers.__getitem__, rest))
            for title in node.titles:
                words.extend(map(numbers.__getitem__, title_words(title)))
            lengths[:, slot] = len(plain), len(plain) + len(rest), len(words) - before
        held = GrowingRows.of(np.array(words, np.uint32))
        return cls(words=held, starts=starts_of(lengths[2])[:-1], plain=lengths[0], text=lengths[1], all=lengths[2])

    def with_slots(self, others: NodeWords) -> NodeWords:
        """Return these slots and some more."""
        return NodeWords(
            words=self.words.with_rows(others.words.base),
            starts=np.concatenate([self.starts, others.starts + len(self.words)]),
            plain=np.concatenate([self.plain, others.plain]),
            text=np.concatenate([self.text, others.text]),
            all=np.concatenate([self.all, others.all]),
        )

    def take(self, slots: NDArray[np.integer]) -> NodeWords:
        """Return a copy of some slots, in this order."""
        lengths = self.all[slots]
        words = GrowingRows.of(self.words.take(ranges(self.starts[slots], lengths)))
        plain, text = self.plain[slots], self.text[slots]
        return NodeWords(words=words, starts=starts_of(lengths)[:-1], plain=plain, text=text, all=lengths)

    def counts(self, slots: NDArray[np.integer], words: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return how often each word is in each slot, and whether it is in a title, both of shape (slots, words)."""
        shape = (len(slots), len(words))
        if not words or not len(slots):
            return np.zeros(shape, np.int32), np.zeros(shape, bool)
        asked, column, likely = _columns(tuple(words))
        lengths = self.all[slots]
        ends = lengths.cumsum()
        found = self.words.take(ranges(self.starts[slots], lengths))
        hit = np.flatnonzero(likely[found & _LOW_BITS])  # most words are of no question
        found = found[hit]
        at = asked.searchsorted(found)
        at[at == len(asked)] = 0
        same = asked[at] == found
        hit, at = hit[same], at[same]
        row = ends.searchsorted(hit, side="right")
        cell = row * len(asked) + at
        size = len(slots) * len(asked)
        titled = hit >= (ends - lengths + self.text[slots])[row]
        counts = np.bincount(cell, minlength=size).reshape(len(slots), -1)
        in_title = np.bincount(cell[titled], minlength=size).reshape(len(slots), -1) > 0
        return counts[:, column].astype(np.int32), in_title[:, column]

    def slots_with(self, word: str) -> NDArray[np.bool_]:
        """Mark the slots that hold a word, in their text or in a title; reads all words."""
        held = np.zeros(len(self.starts), dtype=np.bool_)
        for before, part in self.words.parts():
            at = np.flatnonzero(part == np.uint32(word_number(word))) + before
            held[np.searchsorted(self.starts, at, side="right") - 1] = True
        return held


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vocabulary:
    """The number of nodes that hold each word.

    Attributes:
        words: distinct, ascending, uint32.
        holding: nodes that hold each, >= 1, int32.
        length: words of all nodes together, repetitions included.
    """

    words: NDArray[np.uint32]
    holding: NDArray[np.int32]
    length: int

    @classmethod
    def of(cls, words: NodeWords) -> Vocabulary:
        """Return the vocabulary of all slots."""
        found, counts = [np.empty(0, np.uint32)], [np.empty(0, np.int64)]
        ends = np.cumsum(words.all, dtype=np.int64)
        borders = np.unique(np.searchsorted(ends, np.arange(0, max(int(words.all.sum()), 1), _AT_ONCE), side="right"))
        for first, last in zip(borders, [*borders[1:], len(ends)], strict=True):
            lengths = words.all[first:last]
            numbers = words.words.take(ranges(words.starts[first:last], lengths)).astype(np.uint64)
            held = np.sort(numbers << np.uint64(32) | np.repeat(np.arange(last - first, dtype=np.uint64), lengths))
            each = (held[distinct(held)] >> np.uint64(32)).astype(np.uint32)
            firsts = np.flatnonzero(distinct(each))
            found.append(each[firsts])
            counts.append(np.diff(firsts, append=len(each)))
        return cls._sum(np.concatenate(found), np.concatenate(counts), int(words.all.sum()))

    def changed(self, *, added: Vocabulary, removed: Vocabulary) -> Vocabulary:
        """Return the vocabulary with the nodes of one more, and without those of another."""
        words = np.concatenate([self.words, added.words, removed.words])
        holding = np.concatenate([self.holding, added.holding, -removed.holding])
        return self._sum(words, holding, self.length + added.length - removed.length)

    @classmethod
    def _sum(cls, words: NDArray[np.uint32], counts: NDArray[np.integer], length: int) -> Vocabulary:
        order = np.argsort(words, kind="stable")
        firsts = np.flatnonzero(distinct(words[order]))
        holding = np.add.reduceat(counts[order], firsts) if len(firsts) else np.empty(0, np.int64)
        held = holding > 0
        return cls(words=words[order[firsts[held]]], holding=holding[held].astype(np.int32), length=length)

    def holding_of(self, words: Sequence[str]) -> tuple[int, ...]:
        """Return in how many nodes each of some words is."""
        asked = np.array([word_number(word) for word in words], np.uint32)
        at = np.minimum(np.searchsorted(self.words, asked), max(len(self.words) - 1, 0))
        if not len(self.words):
            return (0,) * len(words)
        return tuple(np.where(self.words[at] == asked, self.holding[at], 0).tolist())


@lru_cache(maxsize=1 << 16)
def word_number(word: str) -> int:
    """Return a word as 32 bits, equal in every process; two words of a collection rarely share one."""
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big")


@lru_cache(maxsize=256)  # a walk asks for the words of its question at each hop
def _columns(words: tuple[str, ...]) -> tuple[NDArray[np.uint32], NDArray[np.intp], NDArray[np.bool_]]:
    """Return the distinct numbers of some words, ascending, the place of each word among them, and their low bits."""
    numbers, places = np.unique(np.array([word_number(word) for word in words], np.uint32), return_inverse=True)
    likely = np.zeros(int(_LOW_BITS) + 1, bool)
    likely[numbers & _LOW_BITS] = True
    return numbers, places, likely


def title_number(title: Title) -> int:
    """Return a title as 64 bits: `h(w1 ... wm) = h(w1 ... wm-1) * factor + w + 1`, modulo 2^64."""
    number = 0
    for word in title:
        number = (number * int(_FACTOR) + word_number(word) + 1) & 0xFFFF_FFFF_FFFF_FFFF
    return number


def titles_said(words: NodeWords, titles: Iterable[Title]) -> TermPairs:
    """Find titles in texts; return pairs (slot, number of title), each once, ordered by slot, then number."""
    titles = set(titles)
    firsts = np.array(sorted({word_number(title[0]) for title in titles}), np.uint32)
    numbers = np.array(sorted(map(title_number, titles)), np.uint64)
    found = [_said_at(words, np.empty(0, np.int64), numbers)]
    for start, part in words.words.parts():
        for a in range(0, len(part), _AT_ONCE):
            places = _places_of(np.asarray(part[a : a + _AT_ONCE]), firsts) + start + a
            found.append(_said_at(words, places, numbers))
    return _distinct_pairs(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def numbers_said(words: NodeWords, numbers: NDArray[np.uint64]) -> TermPairs:
    """Find titles of which only the numbers are known, ascending, as `titles_said` does: for few texts."""
    return _distinct_pairs(*_said_at(words, np.arange(len(words.words)), numbers))


def _said_at(words: NodeWords, places: NDArray[np.int64], numbers: NDArray[np.uint64]) -> TermPairs:
    """Return the titles that begin at some places of the words."""
    slots = np.searchsorted(words.starts, places, side="right") - 1
    left = words.starts[slots] + words.plain[slots] - places  # words of the text from here on
    said = np.zeros(len(places), np.uint64)
    found_slots, found_titles = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for length in range(1, LONGEST + 1):
        whole = left >= length
        places, slots, left, said = places[whole], slots[whole], left[whole], said[whole]
        said = said * _FACTOR + words.words.take(places + (length - 1)).astype(np.uint64) + np.uint64(1)
        hit = _is_in(said, numbers)
        found_slots.append(slots[hit])
        found_titles.append(said[hit])
    return np.concatenate(found_slots), np.concatenate(found_titles)


def _distinct_pairs(slots: NDArray[np.integer], titles: NDArray[np.uint64]) -> TermPairs:
    order = np.lexsort((titles, slots))
    slots, titles = slots[order], titles[order]
    new = distinct(slots) | distinct(titles)
    return slots[new], titles[new]


def _places_of(words: NDArray[np.uint32], wanted: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return the places of some words, ascending."""
    if len(wanted) <= _FEW_WORDS:  # a comparison with each is faster than any table
        return np.sort(np.concatenate([np.empty(0, np.int64), *(np.flatnonzero(words == each) for each in wanted)]))
    return np.flatnonzero(_is_in(words, wanted))


def _is_in(values: NDArray[np.unsignedinteger], wanted: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
    """Mark the values that are among `wanted`, ascending; both look random, so low bits tell most apart."""
    found = np.zeros(len(values), bool)
    if len(wanted) and len(values):
        bits = values.dtype.type((1 << 20) - 1)
        table = np.zeros(1 << 20, bool)
        table[wanted & bits] = True
        likely = np.flatnonzero(table[values & bits])
        at = np.searchsorted(wanted, values[likely])
        at[at == len(wanted)] = 0
        found[likely] = wanted[at] == values[likely]
    return found


class _Numbers(dict[str, int]):
    """Number of each word, whole or cut as `word_keys` cuts them; filled as it is read."""

    def __missing__(self, word: str) -> int:
        number = self[word] = word_number(word_key(word))
        return number


def _text_words(text: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the words of a text, whole or cut, each place once, and the pairs of characters counted beside them."""
    if text.isascii():
        return tokenise(text), ()
    words, plain = word_keys(text), words_of(text)
    if len(plain) == len(words):
        return plain, ()
    single = set(plain)
    return plain, [word for word in words if word not in single]
