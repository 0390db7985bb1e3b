"""Cut documents into atomic units, one fact each, as a model divides them: exact slices all the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseLanguageModel

from catena import ParameterError, Services
from catena.effects import Step, all_together
from catena.model import needs
from catena.structure import outline
from langchain_catena.base import CatenaBaseTransformer, warn
from langchain_catena.convert import chunk_metadata, scalars, to_core_document
from langchain_catena.services import services_with
from langchain_catena.structure import OF_THE_PARENT_ALONE, in_whole, linked, to_cut

with needs("catena-bench"):
    from catena_bench.baselines import AtomicChunks, AtomicOptions, cut_atomic


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

    def _read(self, documents: Sequence[Document]) -> list[Document]:
        return [to_cut(document) for document in documents]

    def _services(self) -> Services:
        return services_with(self.services, llm=self.llm)

    def _step(self, given: Sequence[Document]) -> Step[list[AtomicChunks]]:
        whole = [to_core_document(each) for each in given]
        sections = [outline(each) if self.inside_sections else None for each in whole]
        cut = (cut_atomic(each, self.options, sections=of) for each, of in zip(whole, sections, strict=True))
        return all_together(list(cut))

    def _transformed(self, given: Sequence[Document], found: Sequence[AtomicChunks]) -> list[Document]:
        warn([part for done in found for part in done.degraded])
        return linked((document, _units(document, done)) for document, done in zip(given, found, strict=True))


def _units(document: Document, done: AtomicChunks) -> list[Document]:
    parent = {key: value for key, value in document.metadata.items() if key not in OF_THE_PARENT_ALONE}
    units = []
    for unit in done.chunks:
        known = {**scalars(parent), **unit.metadata}  # for its citation
        metadata = {**parent, **chunk_metadata(replace(in_whole(unit, document), metadata=known))}
        units.append(Document(id=unit.id, page_content=unit.text, metadata=metadata))
    return units
