"""Documents in atomic units: one fact each, as a model divides them, and exact slices all the same."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel

from catena.effects import Failed, Services, Step, arun, run, together
from catena.model import ParameterError
from catena.structure import AtomicChunks, AtomicOptions, cut_atomic, outline
from langchain_catena.base import CatenaBaseTransformer
from langchain_catena.convert import chunk_metadata, scalars, to_core_document
from langchain_catena.parts import OF_THE_PARENT_ALONE, in_whole, linked, to_cut
from langchain_catena.services import LangChainLLM

_log = logging.getLogger(__name__)


class CatenaAtomicTransformer(CatenaBaseTransformer):
    """Cuts documents into atomic units by a model, whose answers only say where to cut: no word is its own.

        units = CatenaAtomicTransformer(llm=model).transform_documents(CatenaLoader("manuals").load())

    Metadata are those of `CatenaDocumentTransformer`. A window of which no answer was of use is cut at sentences,
    and the log says so, or raises, as `options.on_error` has it.

    Args:
        llm: any chat model or LLM.
        options: windows, attempts, and what is done where the model fails.
        inside_sections: units end where sections do.
        services: journal, budget and limits of the model's calls, and the model where `llm` is not given.

    Raises:
        ParameterError: there is no model.
    """

    def __init__(
        self,
        *,
        llm: BaseLanguageModel[Any] | None = None,
        options: AtomicOptions | None = None,
        inside_sections: bool = True,
        services: Services | None = None,
    ) -> None:
        self.llm, self.services, self.inside_sections = llm, services, inside_sections
        self.options = options or AtomicOptions()
        if self._services().llm is None:
            raise ParameterError("llm", None, "a chat model or LLM: it divides the text")

    def transform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        documents = [to_cut(document) for document in documents]
        return _cut(documents, run(self._step(documents), self._services()))

    async def atransform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        documents = [to_cut(document) for document in documents]
        return _cut(documents, await arun(self._step(documents), self._services(), computes=True))

    def _services(self) -> Services:
        services = self.services or Services()
        return services if self.llm is None else replace(services, llm=LangChainLLM(self.llm))

    def _step(self, documents: Sequence[Document]) -> Step[list[AtomicChunks]]:
        whole = [to_core_document(each) for each in documents]
        sections = [outline(each) if self.inside_sections else None for each in whole]
        steps = [cut_atomic(each, self.options, sections=of) for each, of in zip(whole, sections, strict=True)]
        results = yield from together(steps)
        for result in results:
            if isinstance(result, Failed):
                raise result.error
        return [result for result in results if isinstance(result, AtomicChunks)]


def _cut(documents: Sequence[Document], made: Sequence[AtomicChunks]) -> list[Document]:
    cut = []
    for document, done in zip(documents, made, strict=True):
        for part in done.degraded:
            _log.warning("%s: %s", part.what, part.why)
        parent = {key: value for key, value in document.metadata.items() if key not in OF_THE_PARENT_ALONE}
        units = []
        for unit in done.chunks:
            known = {**scalars(parent), **unit.metadata}  # for its citation
            metadata = {**parent, **chunk_metadata(replace(in_whole(unit, document), metadata=known))}
            units.append(Document(id=unit.id, page_content=unit.text, metadata=metadata))
        cut.append((document, units))
    return linked(cut)
