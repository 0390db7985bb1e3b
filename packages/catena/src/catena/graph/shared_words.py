"""What two nodes share, in words: for people who look at an edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from catena.graph.joins import term_number
from catena.graph.mentions import words_of
from catena.graph.words import title_number
from catena.neighbourhood import MENTION, MENTIONED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catena.graph.joins import Terms
    from catena.graph.node import Node
    from catena.graph.options import GraphOptions
    from catena.graph.state import GraphState


def shared_words(
    state: GraphState, options: GraphOptions, one: tuple[int, Node], other: tuple[int, Node], kind: str
) -> tuple[str, ...]:
    """Return what joins two nodes in a kind of edge: terms in the order of the first node, or titles as printed.

    Args:
        state: of the graph.
        options: of the graph.
        one: place and node from which the edge is seen.
        other: place and node to which it leads.
        kind: of edge.
    """
    if kind == MENTION:
        return _titles(state, options, one[0], other[1])
    if kind == MENTIONED:
        return _titles(state, options, other[0], one[1])
    for each in options.term_kinds:
        if each.name == kind:
            held = set(each.terms(other[1]))
            terms = [term for term in each.terms(one[1]) if term in held]
            holding = _holding(state.terms[kind], [term_number(term) for term in terms])
            limit = each.limit(state.size)
            return tuple(term for term, nodes in zip(terms, holding, strict=True) if nodes <= limit)
    return ()


def _titles(state: GraphState, options: GraphOptions, sayer: int, bearer: Node) -> tuple[str, ...]:
    """Return the titles of a node by which the text of another mentions it, as printed."""
    said = state.sayers.terms[state.sayers.starts[sayer] : state.sayers.starts[sayer + 1]].tolist()
    found: dict[int, str] = {}
    for printed in bearer.titles:
        if (number := title_number(words_of(printed))) in said:
            found.setdefault(number, printed)
    holding = zip(_holding(state.sayers, list(found)), _holding(state.bearers, list(found)), strict=True)
    return tuple(printed for printed, nodes in zip(found.values(), holding, strict=True) if max(nodes) <= options.cap)


def _holding(index: Terms, numbers: Sequence[int]) -> list[int]:
    found: list[int] = index.find(np.array(numbers, np.uint64))[1].tolist()
    return found
