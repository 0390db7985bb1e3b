"""Write evidence chains into the metadata of nodes, read them out again, and format them for a reader."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.schema import BaseNode, NodeWithScore

from catena import Chunk
from catena.answering import ChainFormat, ChainReading, IntegratedContext, LeftOut, Passage, chain_context
from catena.graph import GraphResult
from catena.model import Chain, Edge, Hop
from llama_index_catena.convert import PROVENANCE, provenance, to_node
from llama_index_catena.documents import text_of
from llama_index_catena.segment_nodes import apart, linked_chunk

CHAINS = "chains"
"""Key of `provenance(node)` under which the places of a node in chains are."""


def chained_nodes(result: GraphResult, nodes: Mapping[str, BaseNode] | None = None) -> list[NodeWithScore]:
    """Return what a walk found as nodes, best first, each with its places in the chains.

    `provenance(node)["chains"]` lists per place: `chain` (its number, from 1) and `hop` (the place in it, from 1, the
    seed first), `score` of the hop (in the unit of the scorer), `came_from` (the id of the node before it, "" for a
    seed and for what the first ranking offered), `edges` (weight by kind), `shared` (what the two share, by kind) and
    `words` (of the question that it is the first in the chain to say).

    Args:
        result: of `search_graph` or `widen`.
        nodes: id -> the user's own node of a chunk that the graph brought; others are made of the chunk.
    """
    own = nodes or {}
    places: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number, chain in enumerate(result.chains, start=1):
        for place, hop in enumerate(chain.hops, start=1):
            places[hop.chunk.id].append(_written(hop, number, place))
    found = []
    for hit in result.ranking.hits:
        known = own.get(hit.chunk.id)
        taken = hit if known is None else replace(hit, chunk=linked_chunk(known).chunk)
        scored = to_node(taken, result.ranking)
        told = {**provenance(scored.node), CHAINS: places.get(hit.chunk.id, [])}
        scored.node.metadata[PROVENANCE] = json.dumps(told, ensure_ascii=False)
        found.append(scored)
    return found


def chains_of(nodes: Iterable[NodeWithScore]) -> tuple[Chain, ...]:
    """Return the chains that nodes say they stand in, hop by hop.

    For what the core does with chains: `catena_view.plots.graph_strip.chain_strip`, `catena.answering.short_answers`.

    Args:
        nodes: in any order, and whatever is left of them after another stage; a chain keeps the hops that are there.
            One that stands in no chain is a chain of itself alone, behind the others. Notices are left out.
    """
    hops: dict[int, dict[int, Hop]] = defaultdict(dict)
    alone: list[Chain] = []
    for found in apart(list(nodes))[0]:
        chunk, places = linked_chunk(found.node).chunk, provenance(found.node).get(CHAINS, ())
        for told in places:
            hops[told["chain"]][told["hop"]] = _hop(told, chunk)
        if not places:
            alone.append(Chain((Hop(chunk=chunk, score=0.0),)))
    walked = (Chain(tuple(hops[chain][place] for place in sorted(hops[chain]))) for chain in sorted(hops))
    return (*walked, *alone)


class ChainText(str):
    """A text for a reader, and where each part of it stands: `context` has all of it.

    It is a string, as LangChain's adapter returns one, and reads as a context of the core (`text`, `passages`).

    Attributes:
        context: of the passages.
        notices: what stands before it, and is no passage: names that stand nowhere.
    """

    context: IntegratedContext
    notices: tuple[str, ...]

    def __new__(cls, context: IntegratedContext, notices: tuple[str, ...] = ()) -> ChainText:
        """Make the text of a context, behind what is to be told first."""
        made = super().__new__(cls, "\n\n".join(filter(None, (*notices, context.text))))
        made.context, made.notices = context, notices
        return made

    def __getnewargs__(self) -> tuple[IntegratedContext, tuple[str, ...]]:  # type: ignore[override]
        """Have a pickle made again of the parts."""
        return self.context, self.notices

    @property
    def text(self) -> str:
        """The text, as a plain string."""
        return str.__str__(self)

    @property
    def passages(self) -> tuple[Passage, ...]:
        """The passages in it, in its order."""
        return self.context.passages

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The chunks that did not fit, or show nothing."""
        return self.context.left_out


def format_chains(
    nodes: Sequence[NodeWithScore], format: ChainFormat = "chain", *, reading: ChainReading | None = None
) -> ChainText:
    """Return nodes that a graph found as one text for a reader: chains first, then what stands in none.

    Args:
        nodes: of `CatenaGraphRetriever` or `CatenaChainPostprocessor`, in any order. Notices, which tell of names
            that stand nowhere, come first, beside the budget.
        format: "chain", "iterative" or "shuffled", as `catena.answering.chains.arrange` has them.
        reading: budget, headers and more; its own `format` gives way to the one given here.

    Returns:
        The text, which knows the passages in it by their numbers there.

    Raises:
        ParameterError: the format is none of the three.
    """
    notices = tuple(text_of(found.node) for found in apart(nodes)[1])
    return ChainText(chain_context(chains_of(nodes), replace(reading or ChainReading(), format=format)), notices)


def _written(hop: Hop, chain: int, place: int) -> dict[str, Any]:
    edge = hop.edge or Edge(weights={})
    return {
        "chain": chain,
        "hop": place,
        "score": hop.score,
        "came_from": hop.came_from,
        "edges": dict(edge.weights),
        "shared": {kind: list(words) for kind, words in edge.words.items()},
        "words": list(hop.words),
    }


def _hop(told: Mapping[str, Any], chunk: Chunk) -> Hop:
    shared = {kind: tuple(words) for kind, words in told["shared"].items()}
    return Hop(
        chunk=chunk,
        score=told["score"],
        came_from=told["came_from"],
        edge=Edge(weights=told["edges"], words=shared) if told["came_from"] else None,
        words=tuple(told["words"]),
    )
