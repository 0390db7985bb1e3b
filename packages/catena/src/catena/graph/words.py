"""Keep the words of all nodes as numbers: count them by node, by the nodes that hold them, find titles in texts."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from catena.graph.node import LONGEST, Node, Title, words_of
from catena.graph.term_index import GrowingRows, TermPairs, distinct, ranges, starts_of
from catena.text.words import tokenise, word_key, word_keys

_AT_ONCE = 1 << 20  # words looked at together
_FEW = 32  # words
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
        hit = likely[found & _LOW_BITS].nonzero()[0]  # most words are of no question
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
    if len(wanted) <= _FEW:  # a comparison with each is faster than any table
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
