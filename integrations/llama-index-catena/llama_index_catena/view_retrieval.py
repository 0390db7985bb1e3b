"""Find nodes under several views, as one LlamaIndex retriever: in any index, or by any retriever per view."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Literal, TypeAlias

from llama_index.core import VectorStoreIndex
from llama_index.core.callbacks import CallbackManager
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle, QueryType, TextNode
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import FilterCondition, MetadataFilter, MetadataFilters

from catena import Chunk, Degraded, ParameterError, Ranking, Scale, Services, arun, run
from catena.effects import Handler, Retry, Search, Step
from catena.enrichment import KEYWORDS, SUMMARY
from catena.model import digest
from catena.retrieval import (
    FoundViews,
    OnViewError,
    PaperQuota,
    Route,
    ViewRule,
    dense_by_texts,
    found_by,
    rank_parents,
    retrieve_views,
    search_kind,
    stored,
)
from catena.structure import PASSAGE
from llama_index_catena.components import CoreRetriever, checked_arguments
from llama_index_catena.convert import PROVENANCE, provenance, to_node
from llama_index_catena.retrieval import tell
from llama_index_catena.segment_nodes import carried_node, linked_chunk
from llama_index_catena.services import LlamaIndexEmbedder
from llama_index_catena.stores import called, calling, copied, retrieved
from llama_index_catena.views import VIEW, parent_of

VIEWS = (PASSAGE, KEYWORDS, SUMMARY)
"""The kinds that `CatenaViewExtractor` makes by default."""

Parents: TypeAlias = BaseDocumentStore | Mapping[str, BaseNode]
"""Where the nodes are that views lead to: a docstore, or id -> node as of LlamaIndex's `RecursiveRetriever`."""

Filtering: TypeAlias = Literal["filter", "over-fetch"]
"""How an index is searched for views of one kind: by its vector store's filter on metadata, or by more hits than
needed, of which those of the kind are kept."""

Find: TypeAlias = Callable[[Search], Step[FoundViews[BaseNode]]]
"""From a request to about `k` views of its kind."""

_SHOWN = 3  # ids in a message


class CatenaMultiViewRetriever(CoreRetriever[Ranking]):
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
            `ViewRankFusion()`, `ViewScoreFusion()`.
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
        return self._found(query)

    async def aranking(self, query: QueryType) -> Ranking:
        """As `ranking`, without blocking the event loop."""
        return await self._afound(query)

    def _question(self, asked: QueryBundle) -> tuple[Step[Ranking], Services]:
        source = _ParentSource(
            find=self._in_retriever(asked) if self._index is None else self._in_index,
            route=lambda kind: type(self._index or self._retrievers[kind]).__name__,
            parents=self.parents,
            k=self.similarity_top_k,
            by_place=self._index is None,
        )
        return self._step(asked), replace(self._outside, handlers={Search: source.handler})

    def _nodes(self, asked: QueryBundle, found: Ranking) -> list[NodeWithScore]:
        return view_results(found)

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

    def _in_retriever(self, asked: QueryBundle) -> Find:
        """Return the search for views by one retriever per kind, which decides itself how many it gives."""

        def find(request: Search) -> Step[FoundViews[BaseNode]]:
            retriever = self._retrievers[str(request.view)]
            return _views((yield from retrieved(retriever, copied(asked), f"view {request.view}")), all=True)

        return find

    def _in_index(self, request: Search) -> Step[FoundViews[BaseNode]]:
        """Find views in an index that holds all kinds, told apart by `metadata["view"]`."""
        index, kind = self._index, str(request.view)
        assert index is not None
        of_kind = None if self.filtering == "over-fetch" else _filters(kind, self.filters)

        def search(size: int, filtered: bool) -> Step[list[NodeWithScore]]:
            retriever = _ViewRetriever(
                index,
                similarity_top_k=size,
                filters=of_kind if filtered else self.filters,
                node_ids=list(index.index_struct.nodes_dict.values()),
            )
            vector = None if request.vector is None else [float(value) for value in request.vector]
            return retrieved(retriever, QueryBundle(request.query, embedding=vector), f"view {kind}")

        views, is_all, degraded = yield from search_kind(
            request,
            len(self.views),
            search,
            lambda found: found.node.metadata.get(VIEW) == kind,
            filters=of_kind is not None,
            store=type(index.vector_store).__name__,
            key=VIEW,
            instead="searched without",
        )
        return _views(views, all=is_all, degraded=degraded)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParentSource:
    """The parents of views as answers to the core's `Search`.

    Attributes:
        find: finds views.
        route: from a kind to the name of what finds its views.
        parents: where parents are; None where views carry them, or where what is found are the parents.
        k: how many parents each view should lead to.
        by_place: parents come from several stores, which may know one under several ids.
    """

    find: Find
    route: Callable[[str], str]
    parents: Parents | None
    k: float
    by_place: bool = False

    @property
    def handler(self) -> Handler:
        """The handler of `Search`."""
        services = Services(handlers=calling("llama-index"), retry=Retry(attempts=1))  # who asks tries again
        return Handler(
            identity="llama-index:views",
            call=lambda request: run(self._ranked(request), services),
            acall=lambda request: arun(self._ranked(request), services),
        )

    def _ranked(self, request: Search) -> Step[Ranking]:
        route = self.route(str(request.view))
        return rank_parents(request, self.find, self._parents_of, route=route, k=self.k)

    def _parents_of(self, found: Sequence[BaseNode]) -> Step[tuple[list[Chunk | None], tuple[Degraded, ...]]]:
        carried = {node.node_id: node.obj for node in found if isinstance(node, IndexNode)}
        carried = {name: parent for name, parent in carried.items() if isinstance(parent, BaseNode)}
        ids = [None if node.node_id in carried else parent_of(node) for node in found]
        wanted = list(dict.fromkeys(name for name in ids if name is not None))
        held = yield from fetched(self.parents, wanted)
        parents = [
            self._chunk(carried.get(node.node_id, node) if name is None else held.get(name))
            for name, node in zip(ids, found, strict=True)
        ]
        lacking = [name for name in wanted if name not in held]
        shown = ", ".join(lacking[:_SHOWN]) + (", …" if len(lacking) > _SHOWN else "")
        told = (Degraded("parents", f"{len(lacking)} are missing that views lead to ({shown})"),)
        return parents, told if lacking else ()

    def _chunk(self, parent: BaseNode | None) -> Chunk | None:
        if parent is None:
            return None
        chunk = linked_chunk(parent).chunk
        return replace(chunk, id=(_place(parent) if self.by_place else None) or chunk.id)


def _views(found: Sequence[NodeWithScore], *, all: bool, degraded: tuple[Degraded, ...] = ()) -> FoundViews[BaseNode]:
    scores, scale = scores_of(found)
    views = [(each.node, score) for each, score in zip(found, scores, strict=True)]
    return FoundViews(views=views, all=all, scale=scale, degraded=degraded)


def named(ranking: Ranking) -> Ranking:
    """Return hits under the ids of their nodes again."""
    hits = []
    for hit in ranking.hits:
        node = carried_node(hit.chunk)
        hits.append(hit if node is None else replace(hit, chunk=replace(hit.chunk, id=node.node_id)))
    return replace(ranking, hits=tuple(hits))


def _place(node: BaseNode) -> str | None:
    """Return what names a node whatever id a store or an index gave it; None where it tells no place."""
    if not isinstance(node, TextNode) or node.ref_doc_id is None:
        return None
    start, end = node.start_char_idx, node.end_char_idx
    return None if start is None or end is None else digest("place", node.ref_doc_id, str(start), str(end), length=32)


def scores_of(found: Sequence[NodeWithScore]) -> tuple[list[float], Scale]:
    """Return scores that rise with likeness: what rises down the list is a distance, and counts negative.

    Where one is missing only the order counts: 1 / rank.
    """
    told = [each.score for each in found]
    scores = [float(score) for score in told if score is not None and isfinite(score)]
    if len(scores) < len(told):
        return [1.0 / rank for rank in range(1, len(told) + 1)], Scale.RANK
    sign = -1.0 if scores and scores[-1] > scores[0] else 1.0
    return [sign * score for score in scores], Scale.SIMILARITY


class _ViewRetriever(VectorIndexRetriever):
    """Gives views as they stand in the index; as its base it would give some of their parents, without their rank."""

    def _handle_recursive_retrieval(
        self, query_bundle: QueryBundle, nodes: list[NodeWithScore]
    ) -> list[NodeWithScore]:
        return nodes

    async def _ahandle_recursive_retrieval(
        self, query_bundle: QueryBundle, nodes: list[NodeWithScore]
    ) -> list[NodeWithScore]:
        return nodes


def fetched(parents: Parents | None, ids: list[str]) -> Step[dict[str, BaseNode]]:
    """Return id -> parent of those that are there."""
    if not ids:
        return {}
    if parents is None:
        raise ParameterError("parents", None, "given: what is found leads to its parent by id")
    if isinstance(parents, Mapping):
        return {name: parents[name] for name in ids if name in parents}
    nodes = yield from called(
        lambda: parents.get_nodes(ids, raise_error=False),
        lambda: parents.aget_nodes(ids, raise_error=False),
        purpose="parents",
    )
    return {node.node_id: node for node in nodes}


def _filters(kind: str, filters: MetadataFilters | None) -> MetadataFilters | None:
    """Return the filter for a kind beside the user's own; None where both do not go into one flat filter."""
    of_kind = MetadataFilter(key=VIEW, value=kind)
    if filters is None or not filters.filters:
        return MetadataFilters(filters=[of_kind])
    if filters.condition not in (None, FilterCondition.AND) and len(filters.filters) > 1:
        return None  # few stores read filters within filters
    return MetadataFilters(filters=[of_kind, *filters.filters])
