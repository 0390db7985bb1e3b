"""A walk over the graph as a node postprocessor: after any retriever, it brings what belongs to what was found."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Self

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr, field_serializer
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from catena.effects import Embedder, Graph, arun, run
from catena.graph import GraphSearch
from catena.model import ParameterError
from llama_index_catena.arguments import checked_arguments
from llama_index_catena.components import Component, check_pickles
from llama_index_catena.filters import Filters
from llama_index_catena.graph.widening import Nodes, Widener
from llama_index_catena.libraries import AnyLibrary
from llama_index_catena.reranking import required, reranking_told
from llama_index_catena.segment_nodes import apart
from llama_index_catena.services import LlamaIndexLLM

dispatcher = get_dispatcher(__name__)

_USUAL = repr(GraphSearch())
_GIVEN = "given"  # the route of nodes that do not say by which they were found


class CatenaChainPostprocessor(Component, BaseNodePostprocessor):
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
        graph: Graph | AnyLibrary,
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
    def class_name(cls) -> str:
        """Return the name under which the postprocessor is serialised."""
        return "CatenaChainPostprocessor"

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

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        asked = _asked(query_bundle)
        with self._told(asked, nodes) as returned:
            passages, notices = apart(nodes)
            step = self._widener.widened(asked, passages, self.top_n, _GIVEN)
            returned += [*run(step, self._widener.services_for(asked)).nodes(told=True), *notices]
        return returned

    @dispatcher.span
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        asked = _asked(query_bundle)
        with self._told(asked, nodes) as returned:
            passages, notices = apart(nodes)
            step = self._widener.widened(asked, passages, self.top_n, _GIVEN)
            returned += [*(await arun(step, self._widener.services_for(asked))).nodes(told=True), *notices]
        return returned

    def _told(self, asked: QueryBundle, nodes: list[NodeWithScore]) -> AbstractContextManager[list[NodeWithScore]]:
        scorer = getattr(self._widener.how.scorer, "identity", "default")
        return reranking_told(self.callback_manager, f"catena-graph/{scorer}", asked.query_str, nodes, self.top_n)


def _made(kind: type[CatenaChainPostprocessor], given: dict[str, Any]) -> CatenaChainPostprocessor:
    return kind(**given)


def _asked(query_bundle: QueryBundle | None) -> QueryBundle:
    required(query_bundle, "a walk over the graph")
    return query_bundle  # type: ignore[return-value]
