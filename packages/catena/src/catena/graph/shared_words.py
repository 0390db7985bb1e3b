"""What two nodes share, in words: for people who look at an edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from catena.graph.joins import term_number
from catena.graph.mentions import words_of
from catena.graph.words import title_number
from catena.model.neighbourhood import MENTION, MENTIONED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catena.graph.joins import Terms
    from catena.graph.node import Node
    from catena.graph.options import GraphOptions
    from catena.graph.state import GraphState


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedBy:
    """By what a node may be joined to others: two nodes share in words what is in both of theirs.

    Attributes:
        terms: by kind of edge, its terms that at least one other node holds and not too many do, in order.
        titles: its titles that others say, as (number, as printed), the first of each number.
        says: numbers of the titles of others that its text says.
    """

    terms: Mapping[str, tuple[str, ...]]
    titles: tuple[tuple[int, str], ...]
    says: tuple[int, ...]


def joined_by(state: GraphState, options: GraphOptions, place: int, node: Node) -> JoinedBy:
    """Return by what a node may be joined to others, so that its edges can be explained without the graph."""
    terms = {}
    for kind in options.term_kinds:
        own = kind.terms(node)
        holding = _holding(state.terms[kind.name], [term_number(term) for term in own])
        limit = kind.limit(state.size)
        terms[kind.name] = tuple(term for term, nodes in zip(own, holding, strict=True) if 1 < nodes <= limit)
    titles: dict[int, str] = {}
    for printed in node.titles:
        titles.setdefault(title_number(words_of(printed)), printed)
    said = state.sayers.terms[state.sayers.starts[place] : state.sayers.starts[place + 1]].tolist()
    joining = _joining(state, options, [*titles, *said])
    return JoinedBy(
        terms={kind: each for kind, each in terms.items() if each},
        titles=tuple((number, printed) for number, printed in titles.items() if number in joining),
        says=tuple(number for number in said if number in joining),
    )


def _joining(state: GraphState, options: GraphOptions, titles: Sequence[int]) -> set[int]:
    """Return which titles make edges: somebody says them, somebody bears them, and neither do too many."""
    said, borne = _holding(state.sayers, titles), _holding(state.bearers, titles)
    counts = zip(titles, said, borne, strict=True)
    return {title for title, *nodes in counts if min(nodes) > 0 and max(nodes) <= options.cap}


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
