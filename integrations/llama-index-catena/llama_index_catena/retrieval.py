"""Multi-route retrieval as a LlamaIndex retriever: it drops into query engines, routers and agents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Literal

from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from catena.effects import Embed, Search, Services, Step, arun, ask, run
from catena.errors import ParameterError
from catena.library import Library
from catena.model import Ranking, Where
from catena.retrieval.multi_route import DEFAULT_ROUTES, Fusion, OnRouteError, retrieve
from catena.retrieval.routes import ROUTES, Route, dense, stored
from llama_index_catena.convert import section_node, to_node

dispatcher = get_dispatcher(__name__)
_log = logging.getLogger(__name__)


class RouteDegradedEvent(BaseEvent):
    """A part of a retrieval failed while the rest went on: `what` names it, `why` says what happened."""

    what: str
    why: str

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return "RouteDegradedEvent"


class CatenaRetriever(BaseRetriever):
    """Finds the best chunks of a library, or of any services, over several routes.

    Of a query bundle, the dense route takes `custom_embedding_strs` (HyDE), as LlamaIndex's own retrievers do:
    the mean of their vectors. A vector in the bundle is not used: nothing says which model made it.

    Args:
        source: an open library, or services that answer `Search` (and `Embed`, for the dense route).
        similarity_top_k: how many chunks, >= 0.
        routes, where, fusion, depth, on_route_error: as `catena.retrieval.multi_route.retrieve` takes them.
        expand_to: "section" returns the whole section of each of those chunks, each section once, with the
            score of its best chunk; needs a library.
        callback_manager: told of each retrieval, as by every LlamaIndex retriever.
        verbose: as LlamaIndex has it.

    Raises:
        ParameterError: sections are asked for of something that is no library.
    """

    def __init__(
        self,
        source: Library | Services,
        *,
        similarity_top_k: int = 10,
        routes: Sequence[str] | Mapping[str, Route] = DEFAULT_ROUTES,
        where: Where | None = None,
        fusion: Fusion | None = None,
        depth: int | None = None,
        on_route_error: OnRouteError = "degrade",
        expand_to: Literal["section"] | None = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        if expand_to not in (None, "section"):
            raise ParameterError("expand_to", expand_to, "'section' or None")
        if expand_to and not isinstance(source, Library):
            raise ParameterError("expand_to", expand_to, "None where the source is no Library")
        self.similarity_top_k = similarity_top_k
        self.routes, self.where, self.fusion = routes, where, fusion
        self.depth, self.on_route_error, self.expand_to = depth, on_route_error, expand_to
        self._library = source if isinstance(source, Library) else None
        self._services = source.services if isinstance(source, Library) else source

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(run(self._step(query_bundle), self._services))

    @dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        ranking = await arun(self._step(query_bundle), self._services)
        return await asyncio.to_thread(self._nodes, ranking)  # reads sections from disk

    def _step(self, query_bundle: QueryBundle) -> Step[Ranking]:
        return retrieve(
            query_bundle.query_str,
            k=self.similarity_top_k,
            routes=self._routes(query_bundle),
            where=self.where,
            fusion=self.fusion,
            depth=self.depth,
            on_route_error=self.on_route_error,
        )

    def _routes(self, query_bundle: QueryBundle) -> Sequence[str] | Mapping[str, Route]:
        if not query_bundle.custom_embedding_strs or isinstance(self.routes, str):
            return self.routes
        named = self.routes if isinstance(self.routes, Mapping) else {name: _route(name) for name in self.routes}
        instead = _dense_of(query_bundle.custom_embedding_strs)
        return {name: instead if route is dense else route for name, route in named.items()}

    def _nodes(self, ranking: Ranking) -> list[NodeWithScore]:
        for part in ranking.degraded:
            _log.warning("%s failed, ranked without it: %s", part.what, part.why)
            dispatcher.event(RouteDegradedEvent(what=part.what, why=part.why))
        if self.expand_to is None or self._library is None:
            return [to_node(hit, ranking) for hit in ranking.hits]
        return [section_node(segment, hit, ranking) for segment, hit in self._library.sections(ranking)]


def _route(name: str) -> Route:
    return ROUTES.get(name) or stored(name)


def _dense_of(texts: Sequence[str]) -> Route:
    """Return the dense route with the mean of these texts' vectors in place of the query's."""

    def route(query: str) -> Step[Search]:
        import numpy as np

        (rows,) = yield from ask([Embed(texts=tuple(texts), kind="query", purpose="query embedding")])
        mean = np.asarray(rows, dtype=np.float32).mean(axis=0)
        length = float(np.linalg.norm(mean))
        return Search(route="dense", query=query, vector=mean / length if length else mean, k=0)

    return route
