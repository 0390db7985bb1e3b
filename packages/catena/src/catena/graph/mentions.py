"""Which titles stand in which texts: one chunk mentions another when its text holds a title of the other."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from catena.graph.node import Node
from catena.text import UNSPACED, word_keys

Title: TypeAlias = tuple[str, ...]
"""A title as the sequence of its words, in the form of `words_of`."""

LONGEST = 12
"""Words of a title that is looked for; a longer one is a sentence, and nobody repeats it word for word."""

MENTION_CAP = 30
"""Texts that may hold a title which still makes edges; more say a common word, or a heading like "Introduction"."""

_UNSPACED_PAIR = re.compile(f"[{UNSPACED}]{{2}}")


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text in order, as titles are compared with it.

    They are those of `catena.text.word_keys`, each place once: of a script without spaces the single characters,
    without their pairs. So they are among the words by which a graph counts.
    """
    return tuple(key for key in word_keys(text) if not (len(key) == 2 and _UNSPACED_PAIR.match(key)))


def titles_of(node: Node) -> tuple[Title, ...]:
    """Return the titles under which a node is mentioned, distinct, longest first.

    Left out are titles of more than 12 words, and those that say nothing: numbers, single characters.
    """
    return _ordered({title for each in node.titles if _is_said(title := words_of(each))})


def holds(words: Sequence[str], title: Title) -> bool:
    """Return whether a title's words stand in a text's words, next to each other and in order."""
    return bool(title) and any(
        word == title[0] and tuple(words[place : place + len(title)]) == title for place, word in enumerate(words)
    )


class TitleTable:
    """Known titles, and which of them stand in a text, in time linear in the text.

    Every title that stands there is found, one inside another as well ("New York" in "New York City"): whether a text
    holds a title depends on these two alone, so that a new title changes no old edge.

    Args:
        titles: as `titles_of` gives them.
    """

    __slots__ = ("_lengths", "_titles")

    def __init__(self, titles: Iterable[Title] = ()) -> None:
        self._titles: frozenset[Title] = frozenset(titles)
        self._lengths: dict[str, tuple[int, ...]] = {}  # by first word, of the titles that begin with it
        self._note(self._titles)

    def __len__(self) -> int:
        return len(self._titles)

    def __contains__(self, title: object) -> bool:
        return title in self._titles

    def found_in(self, words: Sequence[str], *, but: Collection[Title] = ()) -> tuple[Title, ...]:
        """Return the titles that stand in a text, distinct, longest first, of equal lengths in the order of words.

        Args:
            words: of the text, from `words_of`.
            but: titles that are the text's own: nobody mentions himself.
        """
        found: set[Title] = set()
        for place, word in enumerate(words):
            for length in self._lengths.get(word, ()):
                title = tuple(words[place : place + length])
                if title in self._titles:
                    found.add(title)
        return _ordered(found.difference(but))

    def changed(self, *, added: Iterable[Title] = (), removed: Iterable[Title] = ()) -> TitleTable:
        """Return the table with titles more, and others less: equal to a new one of what is left."""
        table = TitleTable.__new__(TitleTable)
        fresh = frozenset(added)
        table._titles = self._titles.difference(removed) | fresh
        table._lengths = dict(self._lengths)
        table._note(fresh)
        return table

    def _note(self, titles: Iterable[Title]) -> None:
        fresh: dict[str, set[int]] = {}
        for title in titles:
            if title:
                fresh.setdefault(title[0], set()).add(len(title))
        for first, lengths in fresh.items():
            self._lengths[first] = tuple(sorted(lengths.union(self._lengths.get(first, ())), reverse=True))


def mentions_of(node: Node, table: TitleTable) -> tuple[Title, ...]:
    """Return the titles of others that stand in the text of a node, longest first; never one of its own."""
    return table.found_in(words_of(node.chunk.text), but=titles_of(node))


def _is_said(title: Title) -> bool:
    text = "".join(title)
    return len(title) <= LONGEST and len(text) > 1 and any(map(str.isalpha, text))


def _ordered(titles: Iterable[Title]) -> tuple[Title, ...]:
    return tuple(sorted(titles, key=lambda title: (-len(title), title)))
