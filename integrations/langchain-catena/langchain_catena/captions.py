"""Captions of the pictures that LangChain documents name, by any model that sees, written into their metadata."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel

from catena.effects import Services, Step, arun, run
from catena.enrichment import CaptionedFigures, FigureContext, caption_figures
from catena.model import CAPTION, Degraded, Figure, ParameterError
from langchain_catena.base import CatenaBaseTransformer
from langchain_catena.services import LangChainCaptioner

Picture: TypeAlias = str | Callable[[Document], bytes | None]
"""Metadata key of a picture's file, or a function that returns a document's picture (PNG or JPEG), None for none."""

_log = logging.getLogger(__name__)


class CatenaCaptionTransformer(CatenaBaseTransformer):
    """Writes what a model sees in the picture of each document into `metadata["caption"]`.

        CatenaCaptionTransformer(llm=model).transform_documents(CatenaFigureRetriever(library=library).invoke("pump"))

    The model is told the headings, the title and the text that stand with the picture (`heading_path`,
    `figure_title`, `page_content`). Documents without a picture stay as they are; so does one whose picture cannot be
    read or gets no caption, and the log says so.

    Args:
        llm: any chat model that sees.
        picture: where the pictures are.
        services: journal, budget and limits of the model's calls, and the captioner where `llm` is not given.

    Raises:
        ParameterError: there is no model.
    """

    def __init__(
        self,
        *,
        llm: BaseChatModel | None = None,
        picture: Picture = "figure_file",
        services: Services | None = None,
    ) -> None:
        self.llm, self.picture, self.services = llm, picture, services
        if self._services().captioner is None:
            raise ParameterError("llm", None, "a chat model that sees")

    def transform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        figures = self._figures(documents)
        return _captioned(documents, figures, run(_step(documents, figures), self._services()))

    async def atransform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        figures = await asyncio.to_thread(self._figures, documents)  # reads files
        found = await arun(_step(documents, figures), self._services(), computes=True)
        return _captioned(documents, figures, found)

    def _services(self) -> Services:
        services = self.services or Services()
        return services if self.llm is None else replace(services, captioner=LangChainCaptioner(self.llm))

    def _figures(self, documents: Sequence[Document]) -> dict[int, Figure]:
        """Return the pictures by the place of their document."""
        found = {}
        for place, document in enumerate(documents):
            if picture := self._picture(document, place):
                found[place] = Figure(
                    name=_name(document, place),
                    page=1,
                    box=(0.0, 0.0, 0.0, 0.0),
                    kind="bitmap",
                    width=0,
                    height=0,
                    title=str(document.metadata.get("figure_title", "")),
                    png=picture,
                )
        return found

    def _picture(self, document: Document, place: int) -> bytes | None:
        if callable(self.picture):
            return self.picture(document)
        file = document.metadata.get(self.picture)
        if not file:
            return None
        try:
            return Path(str(file)).read_bytes()
        except (OSError, ValueError) as error:
            _tell(Degraded(f"picture of {_name(document, place)}", str(error)))
            return None


def _name(document: Document, place: int) -> str:
    return document.id or f"document {place + 1}"


def _tell(part: Degraded) -> None:
    _log.warning("%s: %s", part.what, part.why)


def _step(documents: Sequence[Document], figures: Mapping[int, Figure]) -> Step[CaptionedFigures]:
    contexts = [
        FigureContext(
            path=str(documents[place].metadata.get("heading_path", "")), before=documents[place].page_content
        )
        for place in figures
    ]
    return caption_figures(list(figures.values()), contexts)


def _captioned(
    documents: Sequence[Document], figures: Mapping[int, Figure], found: CaptionedFigures
) -> list[Document]:
    for part in found.failures:
        _tell(part)
    captions = {place: figure.caption for place, figure in zip(figures, found.figures, strict=True) if figure.caption}
    return [
        document.model_copy(update={"metadata": {**document.metadata, CAPTION: captions[place]}})
        if place in captions
        else document.model_copy(update={"metadata": dict(document.metadata)})
        for place, document in enumerate(documents)
    ]
