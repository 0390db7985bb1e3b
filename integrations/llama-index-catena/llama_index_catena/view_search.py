"""One ranking of parents per kind of view: out of an index that holds all of them, or of a retriever for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, isfinite
from typing import Literal, TypeAlias

from llama_index.core import VectorStoreIndex
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    MetadataFilter,
    MetadataFilters,
)

from catena.effects import Handler, Retry, Search, Services, Step, arun, run
from catena.model import Degraded, Hit, ParameterError, Provenance, Ranking, Scale, ServiceError, digest
from llama_index_catena.calls import called, calling, copied, retrieved
from llama_index_catena.segment_nodes import carried_node, linked_chunk
from llama_index_catena.view_nodes import VIEW, parent_of

Parents: TypeAlias = BaseDocumentStore | Mapping[str, BaseNode]
"""Where the nodes are that views lead to: a docstore, or id -> node as of LlamaIndex's `RecursiveRetriever`."""

Filtering: TypeAlias = Literal["filter", "over-fetch"]
"""How an index is searched for views of one kind: by its vector store's filter on metadata, or by more hits than
needed, of which those of the kind are kept."""

_GROWTH = 4  # times as many hits, where those so far lead to too few parents
_SHOWN = 3  # ids in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Views of one kind, best first; `all` says whether there are no more."""

    views: Sequence[NodeWithScore]
    all: bool
    degraded: tuple[Degraded, ...] = ()


Find: TypeAlias = Callable[[Search], Step[_Found]]
"""From a request to about `k` views of its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSource:
    """What answers the core's `Search` with parents.

    Attributes:
        find: who finds views.
        route: name of who finds them, by kind.
        parents: where parents are; None where views carry them, or where what is found are the parents.
        k: how many parents each view should lead to.
        by_place: whether parents come from several stores, which may know one under several ids.
    """

    find: Find
    route: Callable[[str], str]
    parents: Parents | None
    k: float
    by_place: bool = False

    @property
    def handler(self) -> Handler:
        """Who answers `Search`."""
        services = Services(handlers=calling("llama-index"), retry=Retry(attempts=1))  # who asks tries again
        return Handler(
            identity="llama-index:views",
            call=lambda request: run(self._ranked(request), services),
            acall=lambda request: arun(self._ranked(request), services),
        )

    def _ranked(self, request: Search) -> Step[Ranking]:
        kind, size = str(request.view), request.k
        while True:
            found = yield from self.find(replace(request, k=size))
            nodes, missing = yield from self._resolved([each.node for each in found.views])
            if found.all or len({node.node_id for node in nodes if node is not None}) >= ceil(self.k):
                break
            size *= _GROWTH
        scores, scale = scores_of(found.views)
        hits: dict[str, Hit] = {}
        for rank, (node, score) in enumerate(zip(nodes, scores, strict=True), start=1):
            if node is not None:  # of several views of a parent the best counts
                way = Provenance(route=self.route(kind), rank=rank, score=score, view=kind)
                chunk = linked_chunk(node).chunk
                chunk = replace(chunk, id=(_place(node) if self.by_place else None) or chunk.id)
                hits.setdefault(chunk.id, Hit(chunk, score, (way,)))
        return Ranking(tuple(hits.values()), scale, (*found.degraded, *missing)).top(request.k)

    def _resolved(self, found: Sequence[BaseNode]) -> Step[tuple[list[BaseNode | None], tuple[Degraded, ...]]]:
        """Return the parent of each node, None where it is missing, and what is missing."""
        carried = {node.node_id: node.obj for node in found if isinstance(node, IndexNode) and _carries(node)}
        ids = [None if node.node_id in carried else parent_of(node) for node in found]
        wanted = list(dict.fromkeys(name for name in ids if name is not None))
        held = yield from fetched(self.parents, wanted)
        nodes = [
            carried.get(node.node_id, node) if name is None else held.get(name)
            for name, node in zip(ids, found, strict=True)
        ]
        lacking = [name for name in wanted if name not in held]
        shown = ", ".join(lacking[:_SHOWN]) + (", …" if len(lacking) > _SHOWN else "")
        told = (Degraded("parents", f"{len(lacking)} are missing that views lead to ({shown})"),)
        return nodes, told if lacking else ()


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


def in_retrievers(retrievers: Mapping[str, BaseRetriever], asked: QueryBundle) -> Find:
    """Return who finds views by one retriever per kind; it gives as many as it gives."""

    def find(request: Search) -> Step[_Found]:
        retriever = retrievers[str(request.view)]
        return _Found(views=(yield from retrieved(retriever, copied(asked), f"view {request.view}")), all=True)

    return find


def in_index(
    index: VectorStoreIndex, kinds: Sequence[str], filters: MetadataFilters | None, filtering: Filtering
) -> Find:
    """Return who finds views in an index that holds all kinds, told apart by `metadata["view"]`.

    A filter that the vector store refuses or does not obey is told, and of more hits those of the kind are kept.
    """
    store = type(index.vector_store).__name__

    def searched(request: Search, size: int, kept: MetadataFilters | None) -> Step[list[NodeWithScore]]:
        retriever = _ViewRetriever(
            index,
            similarity_top_k=size,
            filters=kept,
            node_ids=list(index.index_struct.nodes_dict.values()),
        )
        vector = None if request.vector is None else [float(value) for value in request.vector]
        asked = QueryBundle(request.query, embedding=vector)
        return (yield from retrieved(retriever, asked, f"view {request.view}"))

    def grouped(request: Search, why: str = "") -> Step[_Found]:
        most = request.k * len(kinds)
        found = yield from searched(request, most, filters)
        told = Degraded("filter", f"{store} {why}; searched without, and grouped by {VIEW!r}")
        views = _of_kind(found, str(request.view))
        return _Found(views=views, all=len(found) < most, degraded=(told,) if why else ())

    def find(request: Search) -> Step[_Found]:
        of_kind = None if filtering == "over-fetch" else _filters(str(request.view), filters)
        if of_kind is None:
            return (yield from grouped(request))
        try:
            found = yield from searched(request, request.k, of_kind)
        except ServiceError as refused:
            return (yield from grouped(request, f"was not searched by {VIEW!r} ({refused.what})"))
        kept = _of_kind(found, str(request.view))
        if len(kept) < len(found):
            return (yield from grouped(request, f"does not obey the filter on {VIEW!r}"))
        return _Found(views=kept, all=len(found) < request.k)

    return find


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


def _of_kind(found: Sequence[NodeWithScore], kind: str) -> list[NodeWithScore]:
    return [each for each in found if each.node.metadata.get(VIEW) == kind]


def _carries(node: IndexNode) -> bool:
    return isinstance(node.obj, BaseNode)
