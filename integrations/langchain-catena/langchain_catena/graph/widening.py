"""Documents of any retriever as a ranking over a graph, and what a walk found from there as documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel

from catena.effects import Embedder, FetchById, Graph, Services, Step, ask
from catena.graph import GraphResult, GraphSearch, widen
from catena.model import (
    CatenaError,
    Chunk,
    Degraded,
    FilterError,
    Hit,
    MissingServiceError,
    ParameterError,
    Provenance,
    Ranking,
    Where,
    compiled,
    fields_of,
)
from langchain_catena.convert import PROVENANCE, to_chunk, to_document
from langchain_catena.graph.chains import CHAINS, NODE, chain_places
from langchain_catena.graph.nodes import NodeKeys, from_graph_chunk, node_id, node_ids, to_graph_chunk
from langchain_catena.libraries import AnyLibrary
from langchain_catena.places import passages_in, ranked
from langchain_catena.services import LangChainLLM, to_embedder


@dataclass(frozen=True, slots=True)
class Given:
    """What a retriever found.

    Attributes:
        ranking: by the ids of the graph, in its order.
        documents: by these ids, as the retriever gave them.
    """

    ranking: Ranking
    documents: Mapping[str, Document]


@dataclass(frozen=True, slots=True)
class Widened:
    """What a search over the graph found, and the documents among it that a retriever gave."""

    result: GraphResult
    given: Mapping[str, Document]

    def documents(self) -> list[Document]:
        """Return the hits as documents; those of the retriever are copies of what it gave."""
        places = chain_places(self.result.chains)
        return [self._document(hit, places.get(hit.chunk.id, [])) for hit in self.result.ranking.hits]

    def _document(self, hit: Hit, places: list[dict[str, Any]]) -> Document:
        original = self.given.get(hit.chunk.id) or from_graph_chunk(hit.chunk)
        shown = hit if original is None else replace(hit, chunk=to_chunk(original))
        document = to_document(shown, self.result.ranking)
        before = {} if original is None else original.metadata.get(PROVENANCE)
        told = {
            **(before if isinstance(before, Mapping) else {}),
            **document.metadata[PROVENANCE],
            NODE: hit.chunk.id,
            CHAINS: places,
        }
        return document.model_copy(update={"metadata": {**document.metadata, PROVENANCE: told}})


def widened(
    query: str,
    documents: Sequence[Document],
    keys: NodeKeys,
    how: GraphSearch,
    *,
    route: str,
    k: int,
    where: Where | None,
) -> Step[Widened]:
    """Widen what a retriever found by a walk over the graph; where that fails and may, it stays as it was found.

    Args:
        query: as typed.
        documents: best first.
        keys: by which documents say which node they are.
        how: walk and scorer.
        route: what found those that do not say it themselves.
        k: length of the ranking, >= 0.
        where: what does not fulfil it is left out.

    Raises:
        FilterError: the filter is none.
        CatenaError: the graph failed, and that is not tolerated.
    """
    try:
        known = yield from _known_nodes(documents, keys)
    except (ParameterError, FilterError, MissingServiceError):
        raise
    except CatenaError as error:
        if how.on_graph_error == "raise":
            raise
        given = given_ranking(documents, {}, keys, route=route, where=where)
        told = (*given.ranking.degraded, Degraded("graph", str(error)))
        return Widened(GraphResult(replace(given.ranking.top(k), degraded=told), (), given.ranking), given.documents)
    given = given_ranking(documents, known, keys, route=route, where=where)
    return Widened((yield from widen(query, given.ranking, how, k=k, where=where)), given.documents)


def _known_nodes(documents: Sequence[Document], keys: NodeKeys) -> Step[Mapping[str, Chunk]]:
    """Return the chunks of all nodes that documents may be, by id, asked of the graph at once."""
    names = (name for document in passages_in(documents) for name in node_ids(document, keys))
    if not (ids := tuple(dict.fromkeys(names))):
        return {}
    (found,) = yield from ask([FetchById(chunk_ids=ids)])
    return {name: chunk for name, chunk in zip(ids, found, strict=True) if chunk is not None}


def given_ranking(
    documents: Sequence[Document], known: Mapping[str, Chunk], keys: NodeKeys, *, route: str, where: Where | None
) -> Given:
    """Return documents as a ranking of nodes; those that the graph does not have keep their place among them.

    Args:
        documents: best first.
        known: the chunks of those that the graph has, by id.
        keys: by which documents say which node they are.
        route: what found those that do not say it themselves.
        where: what does not fulfil it is left out.

    Raises:
        FilterError: the filter is none.
    """
    found: dict[str, Document] = {}
    names = {}
    for document in passages_in(documents):
        names[id(document)] = node_id(document, keys, known)
        found.setdefault(names[id(document)], document)

    def chunk_of(document: Document) -> Chunk:
        name = names[id(document)]
        return known.get(name) or to_graph_chunk(document, name, keys)

    ranking = ranked(documents, chunk_of)
    hits: Iterable[Hit] = ranking.hits
    if where is not None:
        fulfils = compiled(where)
        hits = (hit for hit in hits if fulfils(fields_of(hit.chunk)))
    named = (
        hit if hit.provenance else replace(hit, provenance=(Provenance(route=route, rank=rank, score=hit.score),))
        for rank, hit in enumerate(hits, start=1)
    )
    return Given(replace(ranking, hits=tuple(named)), found)


def walking_services(
    source: AnyLibrary | Graph,
    embeddings: Embeddings | Embedder | None,
    *,
    llm: BaseLanguageModel[Any] | None = None,
    services: Services | None = None,
) -> Services:
    """Return who answers a walk: a library by itself; a graph by itself, and embeddings beside it."""
    if isinstance(source, AnyLibrary):
        found = source.services
    else:
        embedder = None if embeddings is None else to_embedder(embeddings)
        found = replace(services or Services(), graph=source, embedder=embedder)
    return found if llm is None else replace(found, llm=LangChainLLM(llm))


def check_source(
    library: AnyLibrary | None, graph: Graph | None, embeddings: object, services: Services | None
) -> None:
    """Raise `ValueError` unless there is one graph, with what it needs to be walked."""
    if (library is None) == (graph is None):
        raise ValueError("give either library=… or graph=…")
    if library is not None and (embeddings is not None or services is not None):
        raise ValueError("embeddings=… and services=… are for graph=…: a library has its own")
    if embeddings is not None:
        try:
            to_embedder(embeddings)  # type: ignore[arg-type]
        except ParameterError as error:
            raise ValueError(str(error)) from error


def one_source(library: AnyLibrary | None, graph: Graph | None) -> AnyLibrary | Graph:
    """Return the one that `check_source` has found."""
    found = graph if library is None else library  # not `or`: an empty graph is a graph
    if found is None:
        raise ParameterError("graph", None, "given, or library in its place")
    return found
