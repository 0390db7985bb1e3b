"""Widen the results of any retriever by a walk over the graph: convert models, filters and nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.storage.docstore.types import BaseDocumentStore

from catena import CatenaError, Degraded, Hit, ParameterError, Provenance, Ranking, Scale, Services
from catena.effects import Embedder, Graph, Step
from catena.graph import GraphResult, GraphSearch, widen
from catena.library import BaseLibrary, check_graph_step
from catena.model import MissingServiceError
from llama_index_catena.convert import provenance
from llama_index_catena.filters import Filters, where_of
from llama_index_catena.graph.chains import chained_nodes
from llama_index_catena.retrieval import tell
from llama_index_catena.segment_nodes import carried_node, linked_chunk, unknown_in
from llama_index_catena.services import LlamaIndexLLM, core_embedder, language_model
from llama_index_catena.stores import calling
from llama_index_catena.view_retrieval import Parents, fetched, scores_of

if TYPE_CHECKING:
    import numpy as np
    from llama_index.core.schema import BaseNode
    from numpy.typing import NDArray

    from catena.model import Where

Nodes: TypeAlias = Parents
"""Where the user's own nodes are: a docstore, or id -> node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WidenedNodes:
    """The result of a walk, and the user's own nodes of what the graph brought, by id."""

    result: GraphResult
    own: Mapping[str, BaseNode]

    def nodes(self, *, told: bool = False) -> list[NodeWithScore]:
        """Return all of it as nodes, best first, with their places in the chains, and tell what failed.

        Args:
            told: whether those who found the first ranking told of it already.
        """
        ranking, first = self.result.ranking, self.result.first
        new = tuple(part for part in ranking.degraded if part not in first.degraded)
        tell(replace(ranking, degraded=new, unknown=()) if told else ranking)
        return chained_nodes(self.result, self.own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Widener:
    """A graph, and what a walk over it needs.

    Attributes:
        services: the graph's, the embedder's, and those of a model, where there is one.
        how: walk and scorer.
        where: what the graph brings obeys it.
        own: where the user's own nodes are; None makes nodes of the graph's chunks.
        library: whose graph it is, if it is one's.
    """

    services: Services
    how: GraphSearch
    where: Where | None
    own: Nodes | None
    library: BaseLibrary | None

    @classmethod
    def of(
        cls,
        graph: Graph | BaseLibrary,
        *,
        embed_model: BaseEmbedding | Embedder | None = None,
        how: GraphSearch | None = None,
        where: Filters | None = None,
        nodes: Nodes | None = None,
        llm: LLM | LlamaIndexLLM | None = None,
    ) -> Widener:
        """Return what walks over a graph.

        Raises:
            ParameterError: it is no graph, there is no embedding model, or an option is of the wrong kind.
            FilterError: the filter is malformed.
        """
        if isinstance(graph, type) or not isinstance(graph, BaseLibrary | Graph):
            raise ParameterError("graph", type(graph).__name__, "a ChunkGraph, a Library, or another graph")
        if not isinstance(how, GraphSearch | None):
            raise ParameterError("how", how, "GraphSearch(walk=..., scorer=...) or None")
        if nodes is not None and not isinstance(nodes, BaseDocumentStore | Mapping):
            raise ParameterError("nodes", type(nodes).__name__, "a docstore, id -> node, or None")
        own = graph.services if isinstance(graph, BaseLibrary) else Services(graph=graph)
        embedder = own.embedder if embed_model is None else core_embedder(embed_model)
        if embedder is None:
            raise ParameterError("embed_model", None, "given: a walk compares the question with the graph's nodes")
        model = own.llm if llm is None else language_model(llm)
        how = how or GraphSearch()
        if model is None and how.keywords_by == "llm" and how.walk.needs_keywords:
            raise ParameterError("llm", None, "given: it finds the question's keywords")
        services = replace(own, embedder=embedder, llm=model, handlers={**own.handlers, **calling("llama-index")})
        library = graph if isinstance(graph, BaseLibrary) else None
        return cls(services=services, how=how, where=where_of(where), own=nodes, library=library)

    def services_for(self, asked: QueryBundle) -> Services:
        """Return the services with an embedder that embeds this question once."""
        return replace(self.services, embedder=QuestionEmbedder(self.services.embedder, asked, self.services.graph))

    def widened(self, asked: QueryBundle, found: Sequence[NodeWithScore], k: int, route: str) -> Step[WidenedNodes]:
        """Widen what a retriever found, best first; nodes given stay as they are."""
        yield from check_graph_step()
        return (yield from self.with_own((yield from self._walked(asked, found, k, route))))

    def without_first(self, asked: QueryBundle, k: int, failed: Degraded) -> Step[WidenedNodes]:
        """Walk from where the question's keywords stand in the graph, in the place of a retriever that failed."""
        how = replace(self.how, walk=replace(self.how.walk, seeds="keywords"), on_graph_error="raise")
        result = yield from widen(asked.query_str, Ranking((), Scale.RANK), how, k=k, where=self.where)
        told = replace(result.ranking, degraded=(failed, *result.ranking.degraded))
        return (yield from self.with_own(replace(result, ranking=told)))

    def with_own(self, result: GraphResult) -> Step[WidenedNodes]:
        """Look up the user's own nodes of what the graph brought; where that fails, the graph's texts do."""
        ids = [hit.chunk.id for hit in result.ranking.hits if carried_node(hit.chunk) is None]
        if self.own is None or not ids:
            return WidenedNodes(result=result, own={})
        try:
            return WidenedNodes(result=result, own=(yield from fetched(self.own, ids)))
        except MissingServiceError:
            raise
        except CatenaError as error:
            if self.how.on_graph_error == "raise":
                raise
            told = (*result.ranking.degraded, Degraded("nodes", str(error)))
            return WidenedNodes(result=replace(result, ranking=replace(result.ranking, degraded=told)), own={})

    def _walked(self, asked: QueryBundle, found: Sequence[NodeWithScore], k: int, route: str) -> Step[GraphResult]:
        first = first_ranking(found, route)
        return (yield from widen(asked.query_str, first, self.how, k=k, where=self.where))


def first_ranking(found: Sequence[NodeWithScore], route: str) -> Ranking:
    """Return what a retriever found in its own order, each node once, whatever its scores mean."""
    scores, scale = scores_of(found)
    hits: dict[str, Hit] = {}
    told: dict[Degraded, None] = {}
    for rank, (each, score) in enumerate(zip(found, scores, strict=True), start=1):
        said = provenance(each.node)
        told.update(dict.fromkeys(Degraded(**part) for part in said.get("degraded", ())))
        ways = tuple(Provenance(**way) for way in said.get("routes", ()))
        own = ways or (Provenance(route=route, rank=rank, score=score),)
        hits.setdefault(each.node.node_id, Hit(linked_chunk(each.node).chunk, score, own))
    return Ranking(tuple(hits.values()), scale, tuple(told), unknown_in(found))


class QuestionEmbedder:
    """Embeds one question, once, or the texts that its bundle has in its place (HyDE): the mean of their vectors.

    Args:
        embedder: of the graph's nodes.
        asked: the question; a vector in it is not used: nothing says which model made it.
        graph: with which vectors it is compared.
    """

    def __init__(self, embedder: Any, asked: QueryBundle, graph: object = None) -> None:
        self._embedder = embedder
        self._query, self._texts = asked.query_str, tuple(asked.custom_embedding_strs or (asked.query_str,))
        self._vector: NDArray[np.float32] | None = None
        self._due = getattr(graph, "dim", None) or None
        self.identity: str = embedder.identity

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self._embedder.dim)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the embedder does."""
        rows: NDArray[np.float32] = self._embedder.embed_documents(texts)
        return rows

    async def aembed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `embed_documents`, without blocking the event loop."""
        return await self._away("embed_documents", texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the unit vector of the question, or of another text."""
        if text != self._query:
            return self._checked([self._embedder.embed_query(text)])
        if self._vector is None:
            self._vector = self._checked([self._embedder.embed_query(each) for each in self._texts])
        return self._vector

    async def aembed_query(self, text: str) -> NDArray[np.float32]:
        """As `embed_query`, without blocking the event loop."""
        if text != self._query:
            return self._checked([await self._away("embed_query", text)])
        if self._vector is None:
            self._vector = self._checked([await self._away("embed_query", each) for each in self._texts])
        return self._vector

    async def _away(self, method: str, asked: Any) -> NDArray[np.float32]:
        own = getattr(self._embedder, f"a{method}", None)
        found: NDArray[np.float32] = await (
            asyncio.to_thread(getattr(self._embedder, method), asked) if own is None else own(asked)
        )
        return found

    def _checked(self, rows: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        import numpy as np

        mean: NDArray[np.float32] = np.mean(rows, axis=0, dtype=np.float32)
        if self._due not in (None, len(mean)):
            allowed = f"the model of the graph's nodes, whose vectors have {self._due} numbers"
            raise ParameterError("embed_model", f"{self.identity} with {len(mean)}", allowed)
        if len(rows) == 1:  # of unit length already: a second division would change its last bit on some processors
            return mean
        length = float(np.linalg.norm(mean))
        return mean / length if length else mean
