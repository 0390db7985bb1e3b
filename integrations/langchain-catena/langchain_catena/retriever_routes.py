"""Make LangChain retrievers of any kind routes of the core, ranked beside a store's own and fused by rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig

from catena import Chunk, ParameterError, Ranking
from catena.effects import Search, Store
from catena.model import Where
from catena.retrieval import ForeignRoute, RoutedStore, ranked_chunks
from langchain_catena.convert import SCORE, as_score, to_chunk

Retriever: TypeAlias = Runnable[str, list[Document]]

Obey: TypeAlias = Callable[[Where], Mapping[str, Any]]
"""From a filter to what a retriever's `invoke` takes besides the question, e.g. `lambda where: {"filter": where}`."""


@dataclass(frozen=True, eq=False)
class _RetrieverRoute:
    retriever: Retriever
    obey: Obey | None
    id_key: str | None
    score_key: str
    name: str | None

    @property
    def filters(self) -> bool:
        return self.obey is not None

    async def arank(self, request: Search) -> Ranking:
        """Rank by the retriever, without blocking the event loop."""
        return self._ranking(await self.retriever.ainvoke(request.query, self._config(), **self._options(request)))

    def _config(self) -> RunnableConfig | None:
        return RunnableConfig(tags=[f"route:{self.name}"]) if self.name else None  # tells its run in a trace

    def _options(self, request: Search) -> dict[str, Any]:
        return dict(self.obey(request.where)) if self.obey is not None and request.where else {}

    def _ranking(self, documents: Sequence[Document]) -> Ranking:
        return ranked_chunks([(self._chunk(document), self._score(document)) for document in documents])

    def _chunk(self, document: Document) -> Chunk:
        chunk = to_chunk(document)
        named = document.id or (document.metadata.get(self.id_key) if self.id_key else None)
        return replace(chunk, id=str(named)) if named else chunk

    def _score(self, document: Document) -> float | None:
        return as_score(document.metadata.get(self.score_key))


class RetrieverRoute(_RetrieverRoute):
    """A LangChain retriever as a route; see `retriever_route`."""

    def rank(self, request: Search) -> Ranking:
        """Rank by the retriever."""
        return self._ranking(self.retriever.invoke(request.query, self._config(), **self._options(request)))


class AsyncRetrieverRoute(_RetrieverRoute):
    """A LangChain retriever that can only be awaited as a route."""


def retriever_route(
    retriever: Retriever,
    *,
    obey: Obey | None = None,
    id_key: str | None = None,
    score_key: str = SCORE,
    only_async: bool = False,
    name: str | None = None,
) -> ForeignRoute:
    """Return a retriever, or any runnable from a question to documents, as a route of the core.

        store = RoutedStore({"mine": retriever_route(mine)}, beside=library.store)
        services = Services(embedder=library.services.embedder, store=store)
        retriever = CatenaRetriever(services=services, routes=("dense", "lexical", "mine"), fusion=RankFusion())

    How many documents it finds is set on the retriever; the best `depth` of them count. It is called inside the
    callbacks of whoever asks, so that its run is a child of theirs.

    A document's chunk has its `id`, or else its metadata's `id_key`, or else an id that is made of its source, page,
    offset and text. Hits of several routes with one id are one hit; equal texts under two ids stay two.

    Args:
        retriever: as it stands; it is not changed.
        obey: from a filter of the core to arguments of `invoke`. Without it, searches with a filter are refused.
        id_key: metadata key of ids, for retrievers that leave `Document.id` out.
        score_key: metadata key of the retriever's own score, which is kept in the provenance.
        only_async: it can only be awaited.
        name: in traces, where its run has the tag "route:NAME".

    Raises:
        ParameterError: it is no retriever.
    """
    if not (hasattr(retriever, "invoke") and hasattr(retriever, "ainvoke")):
        raise ParameterError("retriever", type(retriever).__name__, "a LangChain retriever, or a runnable")
    made = AsyncRetrieverRoute if only_async else RetrieverRoute
    return made(retriever, obey, id_key, score_key, name)  # type: ignore[return-value]


class RetrieverStore(RoutedStore):
    """LangChain retrievers as routes of a store of the core, each under its name, made by `retriever_route`.

    Their rankings count by rank: fuse them by `RankFusion`. They cannot be filtered, and say so instead of ignoring
    it.

    Args:
        retrievers: route name -> retriever.
        beside: answers all other routes, e.g. `library.store`.
    """

    def __init__(self, retrievers: Mapping[str, Retriever], beside: Store | None = None) -> None:
        if not retrievers:
            raise ParameterError("retrievers", retrievers, "at least one retriever")
        self.retrievers = dict(retrievers)
        super().__init__({name: retriever_route(one, name=name) for name, one in retrievers.items()}, beside)
