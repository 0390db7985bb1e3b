"""Read evidence chains from the metadata of documents, and write them out for prompts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableLambda

from catena import Chunk
from catena.answering import ChainReading, chain_context
from catena.model import Chain, Edge, Hop
from langchain_catena.convert import is_unknown, told_of
from langchain_catena.ids import source_name
from langchain_catena.places import PlaceKeys, passages_in, to_linked

CHAINS = "chains"
"""Key in `metadata["catena"]` of a document's places in chains; `CatenaGraphRetriever` states what they say."""

NODE = "chunk_id"
"""Key in `metadata["catena"]` of the id that the graph has a document under, as `came_from` of others names it."""


def chain_places(chains: Sequence[Chain]) -> dict[str, list[dict[str, Any]]]:
    """Return by chunk id its places in chains, as values that JSON can write."""
    places: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number, chain in enumerate(chains, start=1):
        for place, hop in enumerate(chain.hops, start=1):
            edge = hop.edge or Edge(weights={})
            places[hop.chunk.id].append(
                {
                    "chain": number,
                    "hop": place,
                    "score": float(hop.score),
                    "came_from": hop.came_from,
                    "edges": {kind: float(weight) for kind, weight in edge.weights.items()},
                    "shared": {kind: list(words) for kind, words in edge.words.items()},
                    "words": list(hop.words),
                }
            )
    return dict(places)


def chains_of(documents: Sequence[Document]) -> tuple[Chain, ...]:
    """Return the chains that documents of `CatenaGraphRetriever` or `CatenaChainCompressor` stand in.

    For what the core does with chains: `catena_view.plots.graph_strip.chain_strip`, `catena.answering.short_answers`.

    Args:
        documents: in any order, and whatever is left of them after another stage; a chain keeps the hops that are
            there. One that stands in no chain is a chain of itself alone, behind the others.
    """
    chains: dict[int, dict[int, Hop]] = defaultdict(dict)
    alone: list[Chain] = []
    for document in passages_in(documents):
        chunk, places = _chunk(document), list(_told_places(document))
        for place in places:
            edge = Edge(weights=place["edges"], words={kind: tuple(words) for kind, words in place["shared"].items()})
            came_from = str(place["came_from"])
            hop = Hop(
                chunk=chunk,
                score=float(place["score"]),
                came_from=came_from,
                edge=edge if came_from else None,
                words=tuple(place["words"]),
            )
            chains[place["chain"]].setdefault(place["hop"], hop)
        if not places:
            alone.append(Chain((Hop(chunk=chunk, score=0.0),)))
    walked = (Chain(tuple(hops[place] for place in sorted(hops))) for _, hops in sorted(chains.items()))
    return (*walked, *alone)


def format_chains(documents: Sequence[Document], reading: ChainReading | None = None) -> str:
    """Return documents as one text for a prompt: numbered passages in the order of their chains, with the reasons.

        chain = {"context": retriever | format_chains, "question": RunnablePassthrough()} | prompt | model

    Args:
        documents: as of `chains_of`. What tells of names that stand nowhere comes first, beside the budget.
        reading: order ("chain", "iterative", "shuffled"), budget and header; see `ChainReading`.

    Raises:
        ParameterError: `reading` is out of range.
    """
    told = [document.page_content for document in documents if is_unknown(document)]
    text = chain_context(chains_of(documents), reading).text
    return "\n\n".join(filter(None, (*told, text)))


def chain_formatter(reading: ChainReading | None = None) -> Runnable[Sequence[Document], str]:
    """Return `format_chains` with its options as a runnable.

    retriever | chain_formatter(ChainReading(format="iterative", budget_tokens=1_500))
    """

    def formatted(documents: Sequence[Document]) -> str:
        return format_chains(documents, reading)

    return RunnableLambda(formatted, name="format_chains")


def _chunk(document: Document) -> Chunk:
    found = to_linked(document, PlaceKeys(), name=source_name(document)).chunk
    name = told_of(document).get(NODE)
    return replace(found, id=name) if isinstance(name, str) and name else found


def _told_places(document: Document) -> Iterator[Mapping[str, Any]]:
    """Yield what a document says of its places in chains, without what is no such thing."""
    places = told_of(document).get(CHAINS)
    for place in places if isinstance(places, Sequence) and not isinstance(places, str) else ():
        if isinstance(place, Mapping) and _is_place(place):
            yield place


def _is_place(place: Mapping[str, Any]) -> bool:
    edges, shared = place.get("edges"), place.get("shared")
    return (
        all(isinstance(place.get(key), int) for key in ("chain", "hop"))
        and isinstance(place.get("score"), Real)
        and isinstance(place.get("came_from"), str)
        and isinstance(place.get("words"), Sequence)
        and isinstance(edges, Mapping)
        and all(isinstance(weight, Real) for weight in edges.values())
        and isinstance(shared, Mapping)
        and all(isinstance(words, Sequence) for words in shared.values())
    )
