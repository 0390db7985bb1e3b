"""Image search: the figures of a library as LangChain documents, each with its file."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any, ClassVar, TypedDict

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from pydantic import Field, InstanceOf

from catena.model import Ranking
from catena.retrieval import RankFusion, ScoreFusion, Tuned
from langchain_catena.base import CatenaBaseRetriever
from langchain_catena.convert import figure_document
from langchain_catena.libraries import LibraryField, figure_file
from langchain_catena.retrieval import told


class AskedFigures(TypedDict, total=False):
    """What `invoke` takes besides the question; each goes before the retriever's own."""

    k: int | None
    where: dict[str, Any] | None


class CatenaFigureRetriever(CatenaBaseRetriever):
    """Ranks the figures of a library by their titles, the text around them, the words inside and their captions.

    `page_content` is the figure as its document shows it (link, title, words inside), with the caption that a model
    gave it, so that a reader of text can answer from it and refer to it. The metadata is that of any chunk, and
    `figure` (its name), `caption` (where a model gave one), `figure_file` (the picture, PNG; absent where no file
    can be written), `figure_page` (from 1), `figure_title`, `figure_kind` ("bitmap" or "drawing"), `figure_width`
    and `figure_height` (pixels).

        figures = Preparation(engine="pypdfium2", figures=True)
        library = Library.open("manuals.catena", preparation=figures, captioner=LangChainCaptioner(model))
        library.index(["manuals"])
        (found, *_) = CatenaFigureRetriever(library=library).invoke("exploded view of the pump")

    Attributes:
        library: indexed with `Preparation(figures=True)`.
        k: figures returned; `invoke` takes it, too.
        fusion: as of `CatenaRetriever`.
        where: a filter; `invoke` takes it, too.
    """

    asked: ClassVar[type] = AskedFigures
    provider: ClassVar[str] = "catena-figures"

    library: LibraryField = Field(exclude=True)
    k: int | None = 4
    where: dict[str, Any] | None = None
    fusion: InstanceOf[ScoreFusion] | InstanceOf[RankFusion] | InstanceOf[Tuned] | None = None

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        where: dict[str, Any] | None = None,
    ) -> list[Document]:
        ranking = self.library.search_figures(query, **self._options(k, where))
        for name, part in told(ranking):
            dispatch_custom_event(name, asdict(part), config={"callbacks": run_manager.get_child()})
        return self._documents(ranking)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        where: dict[str, Any] | None = None,
    ) -> list[Document]:
        ranking = await self.library.asearch_figures(query, **self._options(k, where))
        for name, part in told(ranking):
            await adispatch_custom_event(name, asdict(part), config={"callbacks": run_manager.get_child()})
        return await asyncio.to_thread(self._documents, ranking)

    def _options(self, k: int | None, where: dict[str, Any] | None) -> dict[str, Any]:
        where = self.where if where is None else where
        return {"k": self.k if k is None else k, "where": where, "fusion": self.fusion}

    def _documents(self, ranking: Ranking) -> list[Document]:
        found = self.library.figures(ranking)
        return [figure_document(figure, figure_file(self.library, hit), hit, ranking) for figure, hit in found]
