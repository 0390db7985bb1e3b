"""Write into the metadata of documents the critical entities that they name, and captions of their pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, BaseLanguageModel

from catena import Degraded, ParameterError, Services, model
from catena.effects import Step
from catena.enrichment import (
    CaptionedFigures,
    Detector,
    Entities,
    FigureContext,
    caption_figures,
    detect_entities,
    usual_detectors,
)
from catena.model import CAPTION, Figure
from langchain_catena.base import CatenaBaseTransformer, warn
from langchain_catena.convert import to_chunk
from langchain_catena.services import services_with

ENTITIES = "entities"
"""Metadata key of a document's critical entities, normalised, in order of the alphabet."""

SEPARATOR = "; "
"""Between two entities: a string, because vector stores take no lists."""


class CatenaEntityTransformer(CatenaBaseTransformer):
    """Writes the critical entities of each document into `metadata["entities"]`: products, codes, parts, standards.

    Only names that `page_content` prints are taken; so give it chunks with their titles, as
    `CatenaDocumentTransformer(content="headed")` makes them. A document without any gets no such key; whatever it
    had there before is left out.

        chunks = CatenaEntityTransformer(llm=model).transform_documents(chunks)

    Args:
        detectors: those of `catena.enrichment.entities`, or your own; by default the rule for code-like words,
            and one for each model that is given.
        llm: any chat model or LLM, for `LLMDetector`.
        services: journal, budget and limits of the models' calls, and a `recognizer` (`SpacyRecognizer`,
            `GlinerRecognizer`) for `RecognizerDetector`.
        on_error: "degrade" gives a document fewer entities where a detector fails, and says so in the log; "raise"
            raises.

    Raises:
        ParameterError: there is no detector, or something that is none.
    """

    def __init__(
        self,
        detectors: Sequence[Detector] | None = None,
        *,
        llm: BaseLanguageModel[Any] | None = None,
        services: Services | None = None,
        on_error: Literal["raise", "degrade"] = "degrade",
    ) -> None:
        self.llm, self.services, self.on_error = llm, services, on_error
        asked = self._services()
        usual = usual_detectors(llm=asked.llm is not None, recognizer=asked.recognizer is not None)
        self.detectors = usual if detectors is None else tuple(detectors)
        if not self.detectors or not all(isinstance(each, Detector) for each in self.detectors):
            raise ParameterError("detectors", detectors, "at least one detector")

    def _asks(self) -> bool:
        return self.llm is not None or self.services is not None

    def _services(self) -> Services:
        return services_with(self.services, llm=self.llm)

    def _step(self, given: Sequence[Document]) -> Step[Entities]:
        whole = model.Document(id="the documents given", text="")
        return detect_entities(whole, [to_chunk(each) for each in given], self.detectors, on_error=self.on_error)

    def _transformed(self, given: Sequence[Document], found: Entities) -> list[Document]:
        warn(found.degraded)
        return [_with_entities(document, terms) for document, terms in zip(given, found.terms, strict=True)]


def _with_entities(document: Document, terms: Sequence[str]) -> Document:
    metadata = {key: value for key, value in document.metadata.items() if key != ENTITIES}
    if terms:
        metadata[ENTITIES] = SEPARATOR.join(sorted(set(terms)))
    return document.model_copy(update={"metadata": metadata})


Picture: TypeAlias = str | Callable[[Document], bytes | None]
"""Metadata key of a picture's file, or a function that returns a document's picture (PNG or JPEG), None for none."""


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
        self, *, llm: BaseChatModel | None = None, picture: Picture = "figure_file", services: Services | None = None
    ) -> None:
        self.llm, self.picture, self.services = llm, picture, services
        if self._services().captioner is None:
            raise ParameterError("llm", None, "a chat model that sees")

    def _services(self) -> Services:
        return services_with(self.services, captioner=self.llm)

    def _read(self, documents: Sequence[Document]) -> list[tuple[Document, Figure | None]]:
        """Return the documents with their pictures."""
        return [(document, self._figure(document, place)) for place, document in enumerate(documents, start=1)]

    def _figure(self, document: Document, place: int) -> Figure | None:
        name = document.id or f"document {place}"
        picture = self._picture(document, name)
        if not picture:
            return None
        title = str(document.metadata.get("figure_title", ""))
        box = (0.0, 0.0, 0.0, 0.0)
        return Figure(name=name, page=1, box=box, kind="bitmap", width=0, height=0, title=title, png=picture)

    def _picture(self, document: Document, name: str) -> bytes | None:
        if callable(self.picture):
            return self.picture(document)
        file = document.metadata.get(self.picture)
        if not file:
            return None
        try:
            return Path(str(file)).read_bytes()
        except (OSError, ValueError) as error:
            warn([Degraded(f"picture of {name}", str(error))])
            return None

    def _step(self, given: Sequence[tuple[Document, Figure | None]]) -> Step[CaptionedFigures]:
        seen = [(document, figure) for document, figure in given if figure is not None]
        contexts = [
            FigureContext(path=str(document.metadata.get("heading_path", "")), before=document.page_content)
            for document, _ in seen
        ]
        return caption_figures([figure for _, figure in seen], contexts)

    def _transformed(
        self, given: Sequence[tuple[Document, Figure | None]], found: CaptionedFigures
    ) -> list[Document]:
        warn(found.failures)
        captioned = iter(found.figures)
        captions = [None if figure is None else next(captioned).caption for _, figure in given]
        return [
            document.model_copy(update={"metadata": {**document.metadata, **({CAPTION: caption} if caption else {})}})
            for (document, _), caption in zip(given, captions, strict=True)
        ]
