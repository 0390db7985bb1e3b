"""Which titles stand in which texts: one chunk mentions another when its text holds a title of the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from catena.graph.node import Node
from catena.text.words import UNSPACED, word_keys

Title: TypeAlias = tuple[str, ...]
"""A title as the sequence of its words, in the form of `words_of`."""

LONGEST = 12
"""Words of a title that is looked for; a longer one is a sentence, and nobody repeats it word for word."""

MENTION_CAP = 60
"""Texts that may hold a title which still makes edges; more say a common word, or a heading like "Introduction"."""

_UNSPACED_PAIR = re.compile(f"[{UNSPACED}]{{2}}")


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text in order, as titles are compared with it.

    They are those of `text.words.word_keys`, each place once: of a script without spaces the single characters,
    without their pairs. So they are among the words by which a graph counts.
    """
    keys = word_keys(text)
    if text.isascii() or not _UNSPACED_PAIR.search(" ".join(keys)):
        return tuple(keys)
    return tuple(key for key in keys if not (len(key) == 2 and _UNSPACED_PAIR.match(key)))


def titles_of(node: Node) -> tuple[Title, ...]:
    """Return the titles under which a node is mentioned, distinct, longest first.

    Left out are titles of more than 12 words, and those that say nothing: numbers, single characters.
    """
    titles = {title for each in node.titles if _is_said(title := words_of(each))}
    return tuple(sorted(titles, key=lambda title: (-len(title), title)))


def holds(words: Sequence[str], title: Title) -> bool:
    """Return whether a title's words stand in a text's words, next to each other and in order.

    One title inside another counts as well ("New York" in "New York City"): whether a text holds a title depends on
    these two alone, so that a new title changes no old edge.
    """
    return bool(title) and any(
        word == title[0] and tuple(words[place : place + len(title)]) == title for place, word in enumerate(words)
    )


def _is_said(title: Title) -> bool:
    text = "".join(title)
    return len(title) <= LONGEST and len(text) > 1 and any(map(str.isalpha, text))
