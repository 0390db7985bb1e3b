"""The library, or any mix of retrievers, as one LangChain retriever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, Self

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import set_config_context
from pydantic import ConfigDict, Field, InstanceOf, model_validator

from catena.effects import Services, Step, arun, run
from catena.library import Library
from catena.model import Ranking
from catena.retrieval.fusion import RankFusion, ScoreFusion
from catena.retrieval.multi_route import DEFAULT_ROUTES, retrieve
from langchain_catena.convert import section_document, to_document
from langchain_catena.services import RetrieverStore

DEGRADED = "catena_degraded"
"""Name of the custom event that tells of a route that failed while the others went on."""

_log = logging.getLogger(__name__)


class CatenaRetriever(BaseRetriever):
    """Ranks the chunks of a library over several routes, each hit scored, cited and explained.

    Give either `library`, or `services` that answer the routes; `CatenaRetriever.over({...})` fuses LangChain
    retrievers. `invoke` takes `k` and `where` too.

    Attributes:
        k: documents returned.
        routes: names of the routes asked side by side.
        where: a filter that every route obeys, e.g. `{"document_id": "manuals/hx210.pdf"}`.
        fusion: by score (`ScoreFusion`, the default) or by rank (`RankFusion`).
        depth: hits asked of each route; the core's default where None.
        on_route_error: "degrade" ranks by the other routes, says so in each document's metadata, in the log
            and in a custom event; "raise" raises.
        whole_sections: return the section that each hit was cut from, each section once (library only).
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    library: InstanceOf[Library] | None = Field(default=None, exclude=True)
    services: InstanceOf[Services] | None = Field(default=None, exclude=True)
    k: int = 4
    routes: tuple[str, ...] = DEFAULT_ROUTES
    where: dict[str, Any] | None = None
    fusion: InstanceOf[ScoreFusion] | InstanceOf[RankFusion] | None = None
    depth: int | None = None
    on_route_error: Literal["raise", "degrade"] = "degrade"
    whole_sections: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.library is None) == (self.services is None):
            raise ValueError("give either library=… or services=…")
        if self.whole_sections and self.library is None:
            raise ValueError("whole_sections=True needs library=…: only a library knows the sections")
        return self

    @classmethod
    def over(
        cls,
        retrievers: Mapping[str, Runnable[str, list[Document]]],
        *,
        weights: Mapping[str, float] | None = None,
        **options: Any,
    ) -> Self:
        """Return a retriever that fuses LangChain retrievers by rank, weights obeyed, equal texts kept apart."""
        services = Services(store=RetrieverStore(retrievers))
        return cls(services=services, routes=tuple(retrievers), fusion=RankFusion(weights=weights), **options)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        where: dict[str, Any] | None = None,
    ) -> list[Document]:
        # children of retrievers used as routes are found through the context, in threads too
        with set_config_context({"callbacks": run_manager.get_child()}) as context:
            ranking = context.run(run, self._step(query, k, where), self._services())
        for part in ranking.degraded:
            _log.warning("%s: %s", part.what, part.why)
            dispatch_custom_event(DEGRADED, asdict(part), config={"callbacks": run_manager.get_child()})
        return self._documents(ranking)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        where: dict[str, Any] | None = None,
    ) -> list[Document]:
        with set_config_context({"callbacks": run_manager.get_child()}) as context:
            work = arun(self._step(query, k, where), self._services())
            ranking = await asyncio.get_running_loop().create_task(work, context=context)
        for part in ranking.degraded:
            _log.warning("%s: %s", part.what, part.why)
            await adispatch_custom_event(DEGRADED, asdict(part), config={"callbacks": run_manager.get_child()})
        if self.whole_sections:
            return await asyncio.to_thread(self._documents, ranking)
        return self._documents(ranking)

    def _services(self) -> Services:
        return self.library.services if self.library is not None else self.services or Services()

    def _step(self, query: str, k: int | None, where: dict[str, Any] | None) -> Step[Ranking]:
        return retrieve(
            query,
            k=self.k if k is None else k,
            routes=self.routes,
            where=self.where if where is None else where,
            fusion=self.fusion,
            depth=self.depth,
            on_route_error=self.on_route_error,
        )

    def _documents(self, ranking: Ranking) -> list[Document]:
        if not self.whole_sections or self.library is None:
            return [to_document(hit, ranking) for hit in ranking.hits]
        return [section_document(segment, hit, ranking) for segment, hit in self.library.sections(ranking)]

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        return LangSmithRetrieverParams(ls_retriever_name="catena", ls_vector_store_provider="catena")
