"""What two nodes share, in words: for people who look at an edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from catena.graph.joins import term_number
from catena.graph.mentions import holds, titles_of, words_of
from catena.graph.words import title_number
from catena.neighbourhood import MENTION, MENTIONED

if TYPE_CHECKING:
    from catena.graph.joins import Terms
    from catena.graph.node import Node
    from catena.graph.options import GraphOptions
    from catena.graph.state import GraphState


def shared_words(state: GraphState, options: GraphOptions, one: Node, other: Node, kind: str) -> tuple[str, ...]:
    """Return what joins two nodes in a kind of edge: terms in the order of the first node, or titles as printed."""
    if kind == MENTION:
        return _titles(state, options, one, other)
    if kind == MENTIONED:
        return _titles(state, options, other, one)
    for each in options.term_kinds:
        if each.name == kind:
            held = set(each.of(other))
            limit = each.limit(state.size)
            terms = (term for term in dict.fromkeys(each.of(one)) if term in held)
            return tuple(term for term in terms if _holding(state.terms[kind], term_number(term)) <= limit)
    return ()


def _titles(state: GraphState, options: GraphOptions, sayer: Node, bearer: Node) -> tuple[str, ...]:
    words, own, known = words_of(sayer.chunk.text), set(titles_of(sayer)), set(titles_of(bearer))
    found: dict[tuple[str, ...], str] = {}
    for printed in bearer.titles:
        title = words_of(printed)
        if title in known and title not in own and holds(words, title):
            number = title_number(title)
            if max(_holding(state.sayers, number), _holding(state.bearers, number)) <= options.cap:
                found.setdefault(title, printed)
    return tuple(found.values())


def _holding(index: Terms, number: int) -> int:
    return int(index.find(np.array([number], np.uint64))[1][0])
