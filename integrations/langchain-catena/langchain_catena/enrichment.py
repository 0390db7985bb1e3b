"""Critical entities of LangChain documents as their metadata: by rules, expert lists and any model, together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel

from catena import model
from catena.effects import Services, Step, arun, run
from catena.enrichment import CodeDetector, Detector, Entities, LLMDetector, RecognizerDetector, detect_entities
from catena.model import ParameterError
from langchain_catena.base import CatenaBaseTransformer
from langchain_catena.convert import to_chunk
from langchain_catena.services import LangChainLLM

ENTITIES = "entities"
"""Metadata key of a document's critical entities, normalised, in order of the alphabet."""

SEPARATOR = "; "
"""Between two entities: a string, because vector stores take no lists."""

_log = logging.getLogger(__name__)


class CatenaEntityTransformer(CatenaBaseTransformer):
    """Writes the critical entities of each document into `metadata["entities"]`: products, codes, parts, standards.

    Only names that `page_content` prints are taken; so give it chunks with their titles, as
    `CatenaDocumentTransformer(content="headed")` makes them. A document without any gets no such key; whatever it
    had there before is left out.

        chunks = CatenaEntityTransformer(llm=model).transform_documents(chunks)

    Args:
        detectors: those of `catena.enrichment.detectors`, or your own; by default the rule for code-like words,
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
        self.detectors = _usual(self._services()) if detectors is None else tuple(detectors)
        if not self.detectors or not all(isinstance(each, Detector) for each in self.detectors):
            raise ParameterError("detectors", detectors, "at least one detector")

    def transform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        documents = list(documents)  # read more than once
        return _named(documents, run(self._step(documents), self._services()))

    async def atransform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        documents = list(documents)  # read more than once
        if self.llm is None and self.services is None:
            return await asyncio.to_thread(self.transform_documents, documents)  # nobody is asked: all is computing
        return _named(documents, await arun(self._step(documents), self._services()))

    def _services(self) -> Services:
        services = self.services or Services()
        return services if self.llm is None else replace(services, llm=LangChainLLM(self.llm))

    def _step(self, documents: Sequence[Document]) -> Step[Entities]:
        whole = model.Document(id="the documents given", text="")
        return detect_entities(whole, [to_chunk(each) for each in documents], self.detectors, on_error=self.on_error)


def _usual(services: Services) -> tuple[Detector, ...]:
    asked: list[Detector] = [CodeDetector()]
    if services.llm is not None:
        asked.append(LLMDetector())
    if services.recognizer is not None:
        asked.append(RecognizerDetector())
    return tuple(asked)


def _named(documents: Sequence[Document], found: Entities) -> list[Document]:
    for part in found.degraded:
        _log.warning("%s: %s", part.what, part.why)
    return [_with(document, terms) for document, terms in zip(documents, found.terms, strict=True)]


def _with(document: Document, terms: Sequence[str]) -> Document:
    metadata = {key: value for key, value in document.metadata.items() if key != ENTITIES}
    if terms:
        metadata[ENTITIES] = SEPARATOR.join(sorted(set(terms)))
    return document.model_copy(update={"metadata": metadata})
