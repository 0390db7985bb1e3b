"""Whole sections of a library, by their passages or by several views; or the passages in them that say most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Self, TypedDict, Unpack

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from pydantic import Field, InstanceOf, model_validator

from catena.effects import Step, arun, run
from catena.library import SearchOptions, passages_step, search_step, views_step
from catena.model import ParameterError, Ranking
from catena.retrieval import ReadingOptions, ViewSearch
from langchain_catena.base import CatenaBaseRetriever
from langchain_catena.convert import unknown_document
from langchain_catena.libraries import LibraryField
from langchain_catena.retrieval import told
from langchain_catena.running import arun_within, run_within
from langchain_catena.search_fields import SearchFields
from langchain_catena.view_retrieval import view_documents


class AskedSections(TypedDict, total=False):
    """What `invoke` takes besides the question; each goes before the retriever's own."""

    k: float | None
    budget_tokens: int | None
    where: dict[str, Any] | None
    entities: Sequence[str] | None
    embedded_texts: Sequence[str] | None


class CatenaSectionRetriever(SearchFields, CatenaBaseRetriever):
    """Returns whole sections of a library, or, within a budget of tokens, what in them says most about a question.

        sections = Preparation(chunks=SectionChunkOptions(), views=(Keywords(), Summaries()))
        library = Library.open("manuals.catena", preparation=sections, llm=LangChainLLM(model))
        CatenaSectionRetriever(library=library, k=3)                        # by the best passage of each section
        CatenaSectionRetriever(library=library, k=3, views=ViewSearch())    # own text, keywords and summary in turn
        CatenaSectionRetriever(library=library, budget_tokens=1_000)        # the best passages of the best sections

    Metadata are those of `CatenaRetriever`; `metadata["catena"]["views"]` says which views found a section, at which
    rank. `ranking` and `aranking` return the core's `Ranking`. Fields that are not described here are those of
    `SearchFields`; `views` goes with `where` and `tell_unknown` alone of them.

    Attributes:
        library: best one whose chunks are sections or fixed lengths; short pieces are found as well.
        k: sections returned; with `views` the paper's rule takes 1.5, and returns as many as its views differ. With
            `budget_tokens` the budget says how much is returned, and `reading` how many sections are looked into.
        views: search several views of the library, as `Library.search_views`; None ranks as `Library.search`.
        budget_tokens: of all passages together, in place of sections, as `Library.passages`.
        reading: with `budget_tokens`, how many sections are looked into, and how their passages are ranked.
    """

    asked: ClassVar[type] = AskedSections
    provider: ClassVar[str] = "catena-sections"

    library: LibraryField = Field(exclude=True)
    k: int | float = 3
    views: InstanceOf[ViewSearch] | None = None
    budget_tokens: int | None = Field(default=None, ge=1)
    reading: InstanceOf[ReadingOptions] | None = None

    @model_validator(mode="after")
    def _reads(self) -> Self:
        if self.reading is not None and self.budget_tokens is None:
            raise ValueError("reading=… says how passages are read: give budget_tokens=…, too")
        unheard = self.given_options(without="where")
        if self.views is not None and unheard:
            raise ValueError(f"{unheard[0]}=… does nothing with views=…: ViewSearch says how each is searched")
        return self

    def ranking(self, query: str, **asked: Unpack[AskedSections]) -> Ranking:
        """Return the core's ranking: chunks with provenance, what failed, and the names that stand nowhere."""
        return run(self._step(query, **asked), self.library.services)

    async def aranking(self, query: str, **asked: Unpack[AskedSections]) -> Ranking:
        """As `ranking`, without blocking the event loop."""
        return await arun(self._step(query, **asked), self.library.services)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **asked: Unpack[AskedSections]
    ) -> list[Document]:
        ranking = run_within(run_manager.get_child(), self._step(query, **asked), self.library.services)
        for name, part in told(ranking):
            dispatch_custom_event(name, asdict(part), config={"callbacks": run_manager.get_child()})
        return self._documents(ranking)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **asked: Unpack[AskedSections]
    ) -> list[Document]:
        ranking = await arun_within(run_manager.get_child(), self._step(query, **asked), self.library.services)
        for name, part in told(ranking):
            await adispatch_custom_event(name, asdict(part), config={"callbacks": run_manager.get_child()})
        return self._documents(ranking)

    def _step(
        self, query: str, *, k: float | None = None, budget_tokens: int | None = None, **search: Any
    ) -> Step[Ranking]:
        budget, how = self.budget_tokens if budget_tokens is None else budget_tokens, self.library.preparation
        options = self.search_options(search)
        if budget is not None:  # then k is the number of sections to look into, which `reading` says
            looked_into: SearchOptions = {**options, "k": None if k is None else _whole(k)}
            return passages_step(
                query, looked_into, budget_tokens=budget, reading=self.reading, views=self.views, preparation=how
            )
        k = self.k if k is None else k
        if self.views is not None:
            return views_step(query, self.views, k=k, where=options["where"], preparation=how)
        return search_step(query, {**options, "k": _whole(k)})

    def _documents(self, ranking: Ranking) -> list[Document]:
        first = [unknown_document(ranking)] if self.tell_unknown and ranking.unknown else []
        return [*first, *view_documents(ranking)]


def _whole(k: float) -> int:
    if k != int(k):
        raise ParameterError("k", k, "a whole number >= 0; only views take others")
    return int(k)
