"""Find evidence chains: a retriever over a library or any index, and a postprocessor after any retriever."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr, field_serializer
from llama_index.core.callbacks import CallbackManager
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.llms import LLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, QueryType
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import MetadataFilters

from catena import CatenaError, Degraded, FilterError, Hit, ParameterError, Ranking, Services, run
from catena.answering import (
    ChainFormat,
    ChainReading,
    IntegratedContext,
    LeftOut,
    Passage,
    chain_context,
    chain_places,
    chains_of_places,
)
from catena.effects import Embed, Embedder, Graph, Retry, Step, answered_by, ask, calling
from catena.graph import GraphResult, GraphSearch, widen, widen_without
from catena.library import BaseLibrary, boxed, check_graph_step, graph_step
from catena.model import Chain, MissingServiceError, Provenance, Where, mean_direction
from llama_index_catena.components import CoreRetriever, bundle_of, check_pickles, checked_arguments
from llama_index_catena.convert import notice_node, provenance, scores_of, to_node, with_told
from llama_index_catena.documents import text_of
from llama_index_catena.filters import Filters, own_filters, where_of
from llama_index_catena.graph.building import index_model
from llama_index_catena.reranking import CorePostprocessor
from llama_index_catena.retrieval import tell
from llama_index_catena.segment_nodes import apart, carried_node, linked_chunk, unknown_in
from llama_index_catena.services import LlamaIndexLLM, core_embedder, language_model
from llama_index_catena.stores import copied, is_blank, retrieved
from llama_index_catena.view_index import Parents, fetched

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
    places = chain_places(result.chains)
    found = []
    for hit in result.ranking.hits:
        known = own.get(hit.chunk.id)
        taken = hit if known is None else replace(hit, chunk=linked_chunk(known).chunk)
        found.append(with_told(to_node(taken, result.ranking), **{CHAINS: places.get(hit.chunk.id, [])}))
    return found


def chains_of(nodes: Iterable[NodeWithScore]) -> tuple[Chain, ...]:
    """Return the chains that nodes say they stand in, hop by hop.

    For what the core does with chains: `catena_view.plots.graph_strip.chain_strip`, `catena.answering.short_answers`.

    Args:
        nodes: in any order, and whatever is left of them after another stage; a chain keeps the hops that are there.
            One that stands in no chain is a chain of itself alone, behind the others. Notices are left out.
    """
    passages = (found.node for found in apart(nodes)[0])
    return chains_of_places((linked_chunk(node).chunk, provenance(node).get(CHAINS)) for node in passages)


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
    """

    services: Services
    how: GraphSearch
    where: Where | None
    own: Nodes | None

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
        return cls(services=services, how=how, where=where_of(where), own=nodes)

    def services_for(self, asked: QueryBundle) -> Services:
        """Return the services, which embed this question once."""
        services, embedder = self.services, cast("Embedder", self.services.embedder)
        due = getattr(services.graph, "dim", None) or None
        model = Services(embedder=embedder, journal=services.journal, retry=Retry(attempts=1))  # who asks tries again
        handler = answered_by(embedder.identity, _question_vector(asked, due, embedder.identity), model)
        return replace(services, handlers={**services.handlers, Embed: handler})

    def widened(self, asked: QueryBundle, found: Sequence[NodeWithScore], k: int, route: str) -> Step[WidenedNodes]:
        """Widen what a retriever found, best first; nodes given stay as they are."""
        yield from check_graph_step()
        first = first_ranking(found, route)
        walked = yield from boxed(widen(asked.query_str, first, self.how, k=k, where=self.where))
        return (yield from self.with_own(walked))

    def without_first(self, asked: QueryBundle, k: int, failed: Degraded) -> Step[WidenedNodes]:
        """Walk from where the question's keywords stand in the graph, in the place of a retriever that failed."""
        found = yield from boxed(widen_without(asked.query_str, failed, self.how, k=k, where=self.where))
        return (yield from self.with_own(found))

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


def _question_vector(asked: QueryBundle, due: int | None, identity: str) -> Callable[[Embed], Step[Any]]:
    """Return what embeds one question once, and texts that its bundle has in its place (HyDE) as their mean.

    Args:
        asked: the question; a vector in it is not used: nothing says which model made it.
        due: length of the vectors with which it is compared, where that is known.
        identity: of the model.
    """
    texts = tuple(asked.custom_embedding_strs or (asked.query_str,))
    known: list[Any] = []

    def embedded(request: Embed) -> Step[Any]:
        is_question = request.kind == "query" and request.texts == (asked.query_str,)
        if is_question and known:
            return known[0]
        (rows,) = yield from ask([replace(request, texts=texts) if is_question else request])
        if request.kind == "query" and due not in (None, rows.shape[1]):
            allowed = f"the model of the graph's nodes, whose vectors have {due} numbers"
            raise ParameterError("embed_model", f"{identity} with {rows.shape[1]}", allowed)
        if is_question:
            known.append(mean_direction(rows)[None] if len(texts) > 1 else rows)
        return known[0] if is_question else rows

    return embedded


_USUAL = repr(GraphSearch())

_GIVEN = "given"  # the route of nodes that do not say by which they were found


class CatenaGraphRetriever(CoreRetriever[WidenedNodes]):
    """Finds nodes that answer a question together: a first ranking, then a walk over the chunk-interaction graph.

        CatenaGraphRetriever(library=library)  # after library.build_graph()
        CatenaGraphRetriever(retriever=index, graph=build_graph(index))
        CatenaGraphRetriever(retriever=bm25, graph=graph, embed_model=embed_model, nodes=docstore)

    A node's `score` is 1 / its place, from 1 down: scores of the walk and of the first ranking do not compare. Where
    the walk failed, nodes and scores are those of the first ranking, and the provenance says why.
    `llama_index_catena.convert.provenance(node)["chains"]` says where a node stands in which chain, how its hop
    scored (in the unit of the scorer), from which node and by which kinds of edges it was reached, and what the two
    share; `format_chains(nodes)` writes the chains out for a reader.

    Nodes keep their ids and are copies; those that the graph does not know stay, in their order, behind what was
    walked to. Of nodes that the graph brings, the text is that of `nodes`, else that from which the graph was made.
    What failed is told in the provenance, in the log and as a `RouteDegradedEvent`.

    Args:
        library: an open library that has a graph; with a `retriever` over its chunks, only graph and models are its.
        retriever: who finds the first ranking; of an index, `how.depth` nodes.
        graph: of the retriever's nodes, under their ids, as `build_graph` makes it.
        embed_model: of the graph's nodes; by default that of the index, or the library.
        nodes: the docstore, or id -> node, of what the graph brings; by default that of the index.
        similarity_top_k: nodes returned, >= 0.
        how: walk and scorer, and for a library the first ranking, too.
        where, filters: Catena's filter, or LlamaIndex's, that all obey; a retriever of your own obeys what is set
            there, and the graph this one. What is set on a `VectorIndexRetriever` the graph obeys without being told.
        on_retriever_error: "degrade" walks from where the question's keywords stand in the graph when the retriever
            fails, and tells it; "raise" raises. What the walk itself fails with is treated as `how.on_graph_error`
            says, and raised where both fail.
        llm: finds the question's keywords, where `how` asks for one.
        notice: False leaves out the first node, which says where a name in the question stands nowhere.
        callback_manager: told of each retrieval, as by every LlamaIndex retriever.
        verbose: as LlamaIndex has it.

    Raises:
        ParameterError: there is nothing to search or to walk over, a model is missing, or options contradict.
        FilterError: the filter is malformed.
    """

    @checked_arguments
    def __init__(
        self,
        library: BaseLibrary | None = None,
        *,
        retriever: BaseRetriever | VectorStoreIndex | None = None,
        graph: Graph | None = None,
        embed_model: BaseEmbedding | Embedder | None = None,
        nodes: Nodes | None = None,
        similarity_top_k: int = 10,
        how: GraphSearch | None = None,
        where: Filters | None = None,
        filters: Filters | None = None,
        on_retriever_error: Literal["raise", "degrade"] = "degrade",
        llm: LLM | LlamaIndexLLM | None = None,
        notice: bool = True,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        if (library is None) == (graph is None):
            raise ParameterError("graph", type(graph).__name__, "given, or a library; one of the two")
        if library is None and retriever is None:
            raise ParameterError("retriever", None, "given with a graph: a retriever, or an index")
        if not isinstance(retriever, BaseRetriever | VectorStoreIndex | None):
            raise ParameterError("retriever", type(retriever).__name__, "a LlamaIndex retriever or VectorStoreIndex")
        if not isinstance(similarity_top_k, int) or isinstance(similarity_top_k, bool) or similarity_top_k < 0:
            raise ParameterError("similarity_top_k", similarity_top_k, "an integer >= 0")
        if on_retriever_error not in ("raise", "degrade"):
            raise ParameterError("on_retriever_error", on_retriever_error, "'raise' or 'degrade'")
        self.on_retriever_error = on_retriever_error
        self._index = retriever if isinstance(retriever, VectorStoreIndex) else None
        self._retriever = retriever if isinstance(retriever, BaseRetriever) else None
        given = {"where": where, "filters": filters}
        given = {name: each for name, each in given.items() if each is not None}
        own = [each for each in map(own_filters, given.values()) if each is not None]
        if self._index is not None and len(own) < len(given):
            name, value = next((name, each) for name, each in given.items() if own_filters(each) is None)
            raise ParameterError(name, value, "MetadataFilters where the retriever is an index, which obeys no other")
        searched: Any = self._index or _index_of(self._retriever)
        self._same_model = embed_model is None and library is None and searched is not None
        if self._same_model:
            embed_model = index_model(searched)
        if nodes is None and searched is not None:
            nodes = searched.docstore
        self._filters = own[0] if len(own) == 1 else MetadataFilters(filters=[*own]) if own else None
        obeyed = where_of(*given.values()) if given else getattr(self._retriever, "_filters", None)
        self.similarity_top_k, self.notice = similarity_top_k, notice
        self._widener = Widener.of(
            library if graph is None else graph,  # type: ignore[arg-type]
            embed_model=embed_model,
            how=how,
            where=obeyed,
            nodes=nodes,
            llm=llm,
        )

    @property
    def how(self) -> GraphSearch:
        """Walk, scorer and first ranking."""
        return self._widener.how

    def result(self, query: QueryType) -> GraphResult:
        """Return the core's result: the ranking, the chains hop by hop, and the first ranking."""
        return self._found(query).result

    async def aresult(self, query: QueryType) -> GraphResult:
        """As `result`, without blocking the event loop."""
        return (await self._afound(query)).result

    def _question(self, asked: QueryBundle) -> tuple[Step[WidenedNodes], Services]:
        return self._step(asked), self._widener.services_for(asked)

    def _found(self, query: QueryType) -> WidenedNodes:
        step, services = self._question(bundle_of(query))
        return run(step, replace(services, max_concurrency=1))

    def _step(self, asked: QueryBundle) -> Step[WidenedNodes]:
        widener, k = self._widener, self.similarity_top_k
        if self._retriever is None and self._index is None:
            result = yield from boxed(graph_step(asked.query_str, widener.how, k=k, where=widener.where))
            return (yield from widener.with_own(result))
        yield from check_graph_step()
        retriever, bundle = yield from self._first(asked)
        try:
            found = yield from retrieved(retriever, bundle, "first ranking")
        except (ParameterError, FilterError, MissingServiceError):  # the caller's mistakes are never tolerated
            raise
        except CatenaError as error:
            if self.on_retriever_error == "raise":
                raise
            return (yield from widener.without_first(asked, k, Degraded("retriever", str(error))))
        return (yield from widener.widened(asked, found, k, type(retriever).__name__))

    def _first(self, asked: QueryBundle) -> Step[tuple[BaseRetriever, QueryBundle]]:
        """Return the retriever of the first ranking and its question: of an index, with the vector of the walk."""
        if self._index is None:
            return self._retriever, copied(asked)  # type: ignore[return-value]
        depth = max(self.similarity_top_k, self.how.depth)
        retriever = self._index.as_retriever(similarity_top_k=depth, filters=self._filters)
        embeds = self._same_model and self._index.vector_store.is_embedding_query
        if not embeds or asked.embedding is not None or is_blank(asked):
            return retriever, copied(asked)
        (rows,) = yield from ask([Embed(texts=(asked.query_str,), kind="query", purpose="query embedding")])
        return retriever, QueryBundle(asked.query_str, asked.image_path, embedding=[float(each) for each in rows[0]])

    def _nodes(self, asked: QueryBundle, found: WidenedNodes) -> list[NodeWithScore]:
        ranking = found.result.ranking
        nodes = found.nodes(told=self._retriever is not None or self._index is not None)
        if not (ranking.unknown and self.notice):
            return nodes
        passages, _ = apart(nodes)  # the retriever inside may have said it, too
        return [notice_node(asked.query_str, ranking), *passages]


def _index_of(retriever: BaseRetriever | None) -> VectorStoreIndex | None:
    """Return the index that a retriever searches, for which LlamaIndex has no public name."""
    index = getattr(retriever, "_index", None) if isinstance(retriever, VectorIndexRetriever) else None
    return index if isinstance(index, VectorStoreIndex) else None


class CatenaChainPostprocessor(CorePostprocessor):
    """Widens what any retriever found by a walk over the chunk-interaction graph: a stage like a reranker.

        index.as_query_engine(similarity_top_k=20, node_postprocessors=[
            CatenaChainPostprocessor(build_graph(index), embed_model=embed_model, nodes=index.docstore)])

    It returns nodes as `CatenaGraphRetriever` does: those walked to, then the rest of those given, with their places
    in the chains; a `score` is 1 / the node's place. Nodes given stay as they are; those that the graph does not know
    are kept behind. Notices stay last. Told like a reranker: as `ReRankStartEvent` and `ReRankEndEvent`.

    Args:
        graph: of the nodes, under their ids, as `build_graph` makes it; or a library that has one, after a retriever
            over its chunks.
        embed_model: of the graph's nodes; by default that of the library.
        nodes: the docstore, or id -> node, of what the graph brings; without it nodes are made of the graph's texts.
        how: walk and scorer; the first ranking is the one given.
        top_n: nodes returned, at most.
        where: Catena's filter, or LlamaIndex's, that the graph obeys: the one that the retriever has.
        llm: finds the question's keywords, where `how` asks for one.
        fields: those of every LlamaIndex postprocessor. With `from_dict`, graph and models are given again, and
            a `how` of one's own.

    Raises:
        ParameterError: there is no graph, a model is missing, or an option is of the wrong kind.
        FilterError: the filter is malformed.
    """

    how: Any = Field(default=None, description="Walk and scorer.")
    top_n: int = Field(default=10, ge=0, description="Nodes returned, at most.")
    where: Any = Field(default=None, description="A filter that the graph obeys.")

    _widener: Widener = PrivateAttr()
    _given: dict[str, Any] = PrivateAttr()

    @checked_arguments
    def __init__(
        self,
        graph: Graph | BaseLibrary,
        *,
        embed_model: BaseEmbedding | Embedder | None = None,
        nodes: Nodes | None = None,
        how: GraphSearch | None = None,
        top_n: int = 10,
        where: Filters | None = None,
        llm: LLM | LlamaIndexLLM | None = None,
        **fields: Any,
    ) -> None:
        widener = Widener.of(graph, embed_model=embed_model, nodes=nodes, how=how, where=where, llm=llm)
        super().__init__(**{**fields, "how": widener.how, "top_n": top_n, "where": widener.where})
        self._widener = widener
        models = {"embed_model": embed_model, "nodes": nodes, "llm": llm}
        self._given = {"graph": graph, **models, "how": how, "where": where}

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """Return it as it was written, with what cannot be written given again.

        Raises:
            ParameterError: `graph`, or a `how` of one's own, is not given again.
        """
        written = {key: value for key, value in data.items() if key not in ("how", "class_name")}
        if "graph" not in kwargs:
            raise ParameterError("graph", None, "given again: from_dict(data, graph=..., embed_model=...)")
        if "how" not in kwargs and data.get("how", _USUAL) != _USUAL:
            raise ParameterError("how", data["how"], "given again: from_dict(data, graph=..., how=GraphSearch(...))")
        return cls(**{**written, **kwargs})

    def __reduce__(self) -> tuple[Any, ...]:
        """Have a copy in another process made of what this one was made of: a graph's services do not travel.

        Raises:
            ParameterError: something of it does not pickle, e.g. a library.
        """
        given = {**self._given, "top_n": self.top_n}
        check_pickles(self.class_name(), given)
        return partial(type(self), **given), ()

    @field_serializer("how")
    def _written(self, value: Any) -> str:
        return repr(value)

    _who: ClassVar[str] = "a walk over the graph"

    def _question(self, passages: Sequence[NodeWithScore], asked: QueryBundle) -> tuple[Step[WidenedNodes], Services]:
        return self._widener.widened(asked, passages, self.top_n, _GIVEN), self._widener.services_for(asked)

    def _nodes(self, passages: Sequence[NodeWithScore], found: WidenedNodes) -> list[NodeWithScore]:
        return found.nodes(told=True)

    def _named(self, count: int) -> tuple[str, int]:
        scorer = getattr(self._widener.how.scorer, "identity", "default")
        return f"catena-graph/{scorer}", self.top_n
