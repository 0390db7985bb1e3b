"""The library, or any mix of retrievers, as one LangChain retriever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, Self, TypedDict, Unpack

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from pydantic import Field, InstanceOf, model_validator

from catena.effects import Services, Step, arun, run
from catena.enrichment import Detector, LLMDetector
from catena.library import SearchOptions, search_step
from catena.model import Degraded, Ranking, Unknown
from catena.retrieval import Tuned, named, stored
from catena.segments import Extraction
from langchain_catena.base import CatenaBaseRetriever
from langchain_catena.convert import section_document, to_document, unknown_document
from langchain_catena.libraries import LibraryField
from langchain_catena.retriever_routes import RetrieverStore
from langchain_catena.running import arun_within, run_within
from langchain_catena.search_fields import SearchFields
from langchain_catena.services import LangChainLLM

DEGRADED = "catena_degraded"
"""Name of the custom event that tells of a route that failed while the others went on."""

UNKNOWN = "catena_unknown"
"""Name of the custom event that tells of a name in the question that stands nowhere in what was searched."""

_log = logging.getLogger(__name__)


class Asked(TypedDict, total=False):
    """What `invoke` takes besides the question; each goes before the retriever's own."""

    k: int | None
    where: dict[str, Any] | None
    entities: Sequence[str] | None
    embedded_texts: Sequence[str] | None


class CatenaRetriever(SearchFields, CatenaBaseRetriever):
    """Ranks the chunks of a library over several routes, each hit scored, cited and explained.

    Give either `library`, or `services` that answer the routes; `CatenaRetriever.over({...})` fuses LangChain
    retrievers. `invoke` takes `k`, `where`, `entities` and `embedded_texts` too. `ranking` and `aranking` return the
    core's `Ranking`. Fields that are not described here are those of `SearchFields`.

    A question about a name that stands nowhere ("HX999") returns no documents instead of another product's. Why is
    said by `ranking(question).unknown`, by the log and a custom event, by `metadata["catena"]["unknown"]` of what is
    returned, and, with `tell_unknown=True`, by a first document, for chains that see nothing else.

    Attributes:
        k: documents returned; None: as many as `Library.search` returns.
        depth: hits asked of each route; the core's default where None.
        llm: finds names in the question, one call each; those that the question does not print are refused.
        detectors: who else finds names in the question.
        whole_sections: return the section that each hit was cut from, each section once (library only).
    """

    asked: ClassVar[type] = Asked

    library: LibraryField | None = Field(default=None, exclude=True)
    services: InstanceOf[Services] | None = Field(default=None, exclude=True)
    k: int | None = 4
    depth: int | None = None
    llm: InstanceOf[BaseLanguageModel[Any]] | None = Field(default=None, exclude=True)
    detectors: tuple[InstanceOf[Detector], ...] = ()
    whole_sections: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.library is None) == (self.services is None):
            raise ValueError("give either library=… or services=…")
        if self.whole_sections and self.library is None:
            raise ValueError("whole_sections=True needs library=…: only a library knows the sections")
        if isinstance(self.fusion, Tuned) and (embedder := self._services().embedder) is not None:
            self.fusion.fusion_for(embedder.identity)  # said now, not at the first question
        return self

    @classmethod
    def over(
        cls,
        retrievers: Mapping[str, Runnable[str, list[Document]]] | Sequence[Runnable[str, list[Document]]],
        *,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        **options: Any,
    ) -> Self:
        """Return a retriever that fuses LangChain retrievers by rank, weights obeyed, equal texts kept apart.

        Retrievers and weights go by name, or are lists of the same order, as `EnsembleRetriever` takes them.
        """
        by_name, fusion = named(retrievers, weights)
        routes = {name: stored(name) for name in by_name}  # whatever its name: one called "dense" embeds itself
        return cls(services=Services(store=RetrieverStore(by_name)), routes=routes, fusion=fusion, **options)

    def ranking(self, query: str, **options: Unpack[Asked]) -> Ranking:
        """Return the core's ranking: chunks with provenance, what failed, and the names that stand nowhere."""
        return run(self._step(query, **options), self._services())

    async def aranking(self, query: str, **options: Unpack[Asked]) -> Ranking:
        """As `ranking`, without blocking the event loop."""
        return await arun(self._step(query, **options), self._services())

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Unpack[Asked]
    ) -> list[Document]:
        ranking = run_within(run_manager.get_child(), self._step(query, **options), self._services())
        for name, part in told(ranking):
            dispatch_custom_event(name, asdict(part), config={"callbacks": run_manager.get_child()})
        return self._documents(ranking)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Unpack[Asked]
    ) -> list[Document]:
        ranking = await arun_within(run_manager.get_child(), self._step(query, **options), self._services())
        for name, part in told(ranking):
            await adispatch_custom_event(name, asdict(part), config={"callbacks": run_manager.get_child()})
        if self.whole_sections:
            return await asyncio.to_thread(self._documents, ranking)
        return self._documents(ranking)

    def children(self) -> Iterator[object]:
        yield self.llm
        store = None if self.services is None else self.services.store
        if isinstance(store, RetrieverStore):
            yield from store.retrievers.values()

    def _services(self) -> Services:
        services = self.library.services if self.library is not None else self.services or Services()
        return services if self.llm is None else replace(services, llm=LangChainLLM(self.llm))

    def _step(self, query: str, **asked: Unpack[Asked]) -> Step[Ranking]:
        options: SearchOptions = {"k": self.k, "depth": self.depth, **self.search_options(asked)}
        detectors = self.detectors if self.llm is None else (*self.detectors, LLMDetector())
        return search_step(query, options, detectors=detectors)

    def _documents(self, ranking: Ranking) -> list[Document]:
        told = [unknown_document(ranking)] if self.tell_unknown and ranking.unknown else []
        if not self.whole_sections or self.library is None:
            return [*told, *(to_document(hit, ranking) for hit in ranking.hits)]
        sections = self.library.sections(ranking)
        return [*told, *(section_document(segment, hit, ranking) for segment, hit in sections)]


def told(found: Ranking | Extraction) -> Iterator[tuple[str, Degraded | Unknown]]:
    """Write to the log, and yield as events, what failed and what stands nowhere."""
    for part in found.degraded:
        _log.warning("%s: %s", part.what, part.why)
        yield DEGRADED, part
    for name in found.unknown:
        _log.warning("%s", name)
        yield UNKNOWN, name
