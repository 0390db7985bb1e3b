"""Nodes found under several views, as one LlamaIndex retriever: any index, or any retriever per view."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import MetadataFilters

from catena.effects import Search, Services, Step, arun, run
from catena.enrichment import KEYWORDS, SUMMARY
from catena.model import ParameterError, Ranking
from catena.retrieval import (
    OnViewError,
    PaperQuota,
    Route,
    ViewRule,
    dense_by_texts,
    found_by,
    retrieve_views,
    stored,
)
from catena.structure import PASSAGE
from llama_index_catena.arguments import Remade, checked_arguments
from llama_index_catena.convert import PROVENANCE, provenance, to_node
from llama_index_catena.retrieval import tell
from llama_index_catena.services import LlamaIndexEmbedder
from llama_index_catena.view_search import Filtering, Parents, ViewSource, in_index, in_retrievers, named

VIEWS = (PASSAGE, KEYWORDS, SUMMARY)
"""The kinds that `CatenaViewExtractor` makes by default."""

dispatcher = get_dispatcher(__name__)


class CatenaMultiViewRetriever(Remade, BaseRetriever):
    """Finds nodes under several views, as MC-indexing does, and returns each once, in raw text.

        CatenaMultiViewRetriever(VectorStoreIndex(nodes), views=("passage", "keywords", "summary"), parents=docstore)
        CatenaMultiViewRetriever({"headed": BM25Retriever.from_defaults(nodes=sections), "summary": dense},
                                 parents={node.node_id: node for node in sections}, rule=ViewRankFusion())

    Views are `IndexNode`s that lead to a parent by `index_id`, or carry it as `obj`, as `CatenaViewExtractor` or any
    recipe for recursive retrieval makes them; of several views of a parent the best counts. A node that leads to no
    other is a parent itself; where retrievers know one that tells its place in its document under several ids, it is
    one.

    `llama_index_catena.convert.provenance(node)` says by which `views` a node was found (kind -> rank there, from 1),
    and by which `routes` (with raw scores; distances, which rise down a list, as negative numbers).

    A view that fails, and one whose parent is missing, is told in that provenance, in the log and as a
    `RouteDegradedEvent`. A question is embedded once for all views of an index.

    Args:
        source: an index of views of all kinds, told apart by `metadata["view"]`, or kind -> any retriever of views
            (or of parents) of this kind.
        views: kinds in the order in which they take turns; by default those that `CatenaViewExtractor` makes, or all
            retrievers.
        rule: how the views' rankings become one: `PaperQuota()`, whose number of nodes varies, `ExactUnion()`,
            `ViewRankFusion()`, `ViewScoreFusion()`, `AdaptiveQuota()`.
        similarity_top_k: nodes returned; the paper's rule takes 1.5, too.
        parents: the docstore, or id -> node; by default the docstore of the index. Not needed where views carry their
            parents or retrievers return these.
        depth: views looked at per kind, at least; by default max(3 k, 30). More of an index, where these lead to
            fewer than k.
        filters: on the views' metadata, in an index.
        filtering: how an index finds views of one kind; "over-fetch" where its store cannot filter.
        on_view_error: "degrade" goes on with the other views; "raise" raises.
        callback_manager: told of each retrieval, as by every LlamaIndex retriever.
        verbose: as LlamaIndex has it.

    Raises:
        ParameterError: there is no source, views without a retriever are named, or filters without an index.
    """

    @checked_arguments
    def __init__(
        self,
        source: VectorStoreIndex | Mapping[str, BaseRetriever],
        *,
        views: Sequence[str] | None = None,
        rule: ViewRule | None = None,
        similarity_top_k: float = 3,
        parents: Parents | None = None,
        depth: int | None = None,
        filters: MetadataFilters | None = None,
        filtering: Filtering = "filter",
        on_view_error: OnViewError = "degrade",
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        self._index = source if isinstance(source, VectorStoreIndex) else None
        self._retrievers = dict(source) if isinstance(source, Mapping) else {}
        if self._index is None and not self._retrievers:
            raise ParameterError("source", type(source).__name__, "a VectorStoreIndex, or kind of view -> retriever")
        self.views = tuple(views if views is not None else self._retrievers or VIEWS)
        if self._index is None and (unknown := sorted(set(self.views) - set(self._retrievers))):
            raise ParameterError("views", unknown, f"of those with a retriever {sorted(self._retrievers)}")
        if self._index is None and filters is not None:
            raise ParameterError("filters", filters, "set on the retrievers, where there are some")
        if filtering not in ("filter", "over-fetch"):
            raise ParameterError("filtering", filtering, "'filter' or 'over-fetch'")
        if parents is not None and not isinstance(parents, BaseDocumentStore | Mapping):
            raise ParameterError("parents", type(parents).__name__, "a docstore, id -> node, or None")
        self.parents = self._index.docstore if parents is None and self._index is not None else parents
        self.rule, self.similarity_top_k, self.depth = rule or PaperQuota(), similarity_top_k, depth
        self.filters, self.filtering, self.on_view_error = filters, filtering, on_view_error
        embed_model: Any = getattr(self._index, "_embed_model", None)  # LlamaIndex has no public name for it
        embedder = None if embed_model is None else LlamaIndexEmbedder(embed_model)
        self._outside = Services(embedder=embedder)  # one, so that a dead view is remembered

    def ranking(self, query: QueryType) -> Ranking:
        """Return the core's ranking: parents with the views that found them, and what failed."""
        asked = _bundle(query)
        return run(self._step(asked), self._services(asked))

    async def aranking(self, query: QueryType) -> Ranking:
        """As `ranking`, without blocking the event loop."""
        asked = _bundle(query)
        return await arun(self._step(asked), self._services(asked))

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return view_results(self.ranking(query_bundle))

    @dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return view_results(await self.aranking(query_bundle))

    def _step(self, asked: QueryBundle) -> Step[Ranking]:
        route = self._route(asked)
        ranking = yield from retrieve_views(
            asked.query_str,
            views=self.views,
            k=self.similarity_top_k,
            rule=self.rule,
            search=lambda kind: route,
            depth=self.depth,
            on_view_error=self.on_view_error,
        )
        return ranking if self._index is not None else named(ranking)

    def _route(self, asked: QueryBundle) -> Route:
        """Return how a view is asked for: with the question's vector where an index compares vectors."""
        if self._index is None or not self._index.vector_store.is_embedding_query:
            return stored("views")
        return dense_by_texts(asked.embedding_strs) if asked.embedding is None else _by_vector(asked.embedding)

    def _services(self, asked: QueryBundle) -> Services:
        index, retrievers = self._index, self._retrievers
        find = (
            in_retrievers(retrievers, asked)
            if index is None
            else in_index(index, self.views, self.filters, self.filtering)
        )
        source = ViewSource(
            find=find,
            route=lambda kind: type(index or retrievers[kind]).__name__,
            parents=self.parents,
            k=self.similarity_top_k,
            by_place=index is None,
        )
        return replace(self._outside, handlers={Search: source.handler})


def _by_vector(vector: Sequence[float]) -> Route:
    """Return the dense route with this vector in place of the query's."""

    def route(query: str) -> Step[Search]:
        yield from ()  # a step, though it has nothing to ask
        return Search(route="dense", query=query, vector=vector, k=0)

    return route


def view_results(ranking: Ranking) -> list[NodeWithScore]:
    """Return hits as nodes whose `provenance(node)["views"]` says by which views, and tell what failed."""
    tell(ranking)
    found = []
    for hit in ranking.hits:
        scored = to_node(hit, ranking)
        told = {**provenance(scored.node), "views": found_by(hit)}
        scored.node.metadata[PROVENANCE] = json.dumps(told, ensure_ascii=False)
        found.append(scored)
    return found


def _bundle(query: QueryType) -> QueryBundle:
    return QueryBundle(query) if isinstance(query, str) else query
