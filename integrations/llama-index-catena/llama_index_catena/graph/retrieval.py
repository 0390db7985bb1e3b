"""Find evidence chains: a retriever over a library or any index, and a postprocessor after any retriever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr, field_serializer
from llama_index.core.callbacks import CallbackManager
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.llms import LLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, QueryType
from llama_index.core.vector_stores.types import MetadataFilters

from catena import CatenaError, Degraded, FilterError, ParameterError, Services, run
from catena.effects import Embed, Embedder, Graph, Step, ask
from catena.graph import GraphResult, GraphSearch
from catena.library import BaseLibrary, check_graph_step, graph_step
from catena.model import MissingServiceError
from llama_index_catena.components import CoreRetriever, bundle_of, check_pickles, checked_arguments
from llama_index_catena.convert import notice_node
from llama_index_catena.filters import Filters, own_filters, where_of
from llama_index_catena.graph.building import index_model
from llama_index_catena.graph.widening import Nodes, WidenedNodes, Widener
from llama_index_catena.reranking import CorePostprocessor
from llama_index_catena.segment_nodes import apart
from llama_index_catena.services import LlamaIndexLLM
from llama_index_catena.stores import copied, retrieved

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
            result = yield from graph_step(asked.query_str, widener.how, k=k, where=widener.where)
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
        if not self._same_model or asked.embedding is not None or not self._index.vector_store.is_embedding_query:
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
        return _made, (type(self), given)

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


def _made(kind: type[CatenaChainPostprocessor], given: dict[str, Any]) -> CatenaChainPostprocessor:
    return kind(**given)
