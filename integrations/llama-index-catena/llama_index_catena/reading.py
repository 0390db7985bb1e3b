"""Read files as LlamaIndex documents of Markdown: by their layout, or written by a model and checked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from llama_index.core.llms import LLM
from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import Document

from catena import ParameterError, ParseError, Services, arun, run
from catena.effects import Failed, Plan, Step, Tariff, plan, redact, together
from catena.formatting import (
    PLANNED_ANSWERS,
    FidelityReport,
    FormatOptions,
    Formatted,
    format_layout,
    format_markdown,
)
from catena.library import Preparation, read
from catena.model import Parsed
from llama_index_catena.components import ajournalled, checked_arguments, journalled
from llama_index_catena.convert import joined_keys
from llama_index_catena.documents import from_core_document
from llama_index_catena.services import LlamaIndexLLM, language_model

Files: TypeAlias = str | Path | Sequence[str | Path]

_log = logging.getLogger(__name__)


class CatenaReader(BaseReader):
    """Reads PDF, HTML, Markdown and plain text: one document of Markdown per file, its pages mapped.

    Without a model the layout gives headings, lists and tables. With one, the model writes the Markdown window by
    window; its words are checked against the file, and pages that it does not give faithfully come from the layout.

    Serves as a `file_extractor` of `SimpleDirectoryReader`, with `num_workers` too. Ids are derived from the paths.
    Of the metadata, models read the title and what the caller gives. Beside that stand what the file says of itself
    (author, dates), `unread_pages`, and where a model wrote: `pages_by_model`, `pages_asked_again`,
    `pages_from_layout` (how many pages have whose text; `layout_pages` names the last), and `fidelity_recall`,
    `fidelity_precision` and `fidelity_order` of the least faithful answer, taken or not, from 0 to 1.

    Args:
        llm: any LlamaIndex language model; None formats by the layout alone.
        options: how the model is shown a file, and what counts as faithful.
        preparation: limits, PDF engine, drawn tables, and the layout formatter where there is no model.
        journal: the file in which replies are kept, so that a run that was stopped goes on and nothing is paid for
            twice; opened for each call, hence fit for other processes.
        services: budget, limits of rate, retries, progress; their journal serves where `journal` is not given.
        on_report: called with the fidelity of each document, page by page.
        password: opens encrypted PDFs.

    Raises:
        ParameterError: figures are asked for: a document has no place for pictures, a library has.
    """

    @checked_arguments
    def __init__(
        self,
        *,
        llm: LLM | LlamaIndexLLM | None = None,
        options: FormatOptions | None = None,
        preparation: Preparation | None = None,
        journal: str | Path | None = None,
        services: Services | None = None,
        on_report: Callable[[FidelityReport], None] | None = None,
        password: str | None = None,
    ) -> None:
        self.llm = None if llm is None else language_model(llm)
        self.options = options or FormatOptions()
        self.preparation = preparation or Preparation()
        if self.preparation.figures:
            raise ParameterError("figures", True, "False in a reader; Library and CatenaFigureRetriever find figures")
        self.journal, self.services, self.on_report = journal, services, on_report
        self._password = password

    def load_data(self, file: Files, extra_info: Mapping[str, Any] | None = None, fs: Any = None) -> list[Document]:
        """Return one document per file, in order; a model formats the files side by side.

        Args:
            file: the path of a file, or several.
            extra_info: metadata for each document; it goes before what the file says, e.g. of its `title`.
            fs: an fsspec file system that holds the files, where they are not on disk.

        Raises:
            ParseError: a file gave no document; no model was asked yet.
            CatenaError: the budget would be passed, the run was cancelled, or the journal failed.
        """
        parsed = self._parsed(file, fs)
        with journalled(self._given(), self.journal) as services:
            return self._documents(parsed, run(self._step(parsed), services), extra_info)

    async def aload_data(
        self, file: Files, extra_info: Mapping[str, Any] | None = None, fs: Any = None
    ) -> list[Document]:
        """As `load_data`, without blocking the event loop."""
        if self.llm is None:
            return await asyncio.to_thread(self.load_data, file, extra_info, fs)
        parsed = await asyncio.to_thread(self._parsed, file, fs)
        async with ajournalled(self._given(), self.journal) as services:
            return self._documents(parsed, await arun(self._step(parsed), services), extra_info)

    def lazy_load_data(
        self, file: Files, extra_info: Mapping[str, Any] | None = None, fs: Any = None
    ) -> Iterator[Document]:
        """As `load_data`, but one file after the other, each when it is asked for."""
        for each in _each(file):
            yield from self.load_data(each, extra_info, fs)

    async def alazy_load_data(
        self, file: Files, extra_info: Mapping[str, Any] | None = None, fs: Any = None
    ) -> Iterable[Document]:
        """As `aload_data`: what LlamaIndex awaits here cannot be awaited document by document."""
        return await self.aload_data(file, extra_info, fs)

    def plan(self, file: Files, fs: Any = None, *, tariff: Tariff | None = None) -> Plan:
        """Return what `load_data` would ask of the model: calls, tokens and, with a tariff, money; nothing is asked.

        Replies that the journal holds are not counted, nor are answers that will be asked for once again.
        """
        step = self._step(self._parsed(file, fs))
        with journalled(self._given(), self.journal) as services:
            return plan(step, services, tariff=tariff, stand_ins=PLANNED_ANSWERS)

    def _given(self) -> Services:
        services = self.services or Services()
        return services if self.llm is None else replace(services, llm=self.llm)

    def _parsed(self, file: Files, fs: Any) -> list[Parsed]:
        how, password = self.preparation, self._password
        return [
            read(name, how, source=name, password=password, layout=False, content=_content(name, fs, how))
            for name in map(str, _each(file))
        ]

    def _step(self, parsed: Sequence[Parsed]) -> Step[list[Formatted | Failed]]:
        return together([self._formatted(each) for each in parsed])

    def _formatted(self, parsed: Parsed) -> Step[Formatted]:
        if self.llm is not None:
            return (yield from format_markdown(parsed, self.options))
        return Formatted.of(format_layout(parsed, self.preparation.layout))

    def _documents(
        self, parsed: Sequence[Parsed], results: Sequence[Formatted | Failed], extra_info: Mapping[str, Any] | None
    ) -> list[Document]:
        documents: list[Document] = []
        for each, result in zip(parsed, results, strict=True):
            if isinstance(result, Failed):
                raise result.error
            if self.on_report is not None and self.llm is not None:
                self.on_report(result.fidelity)
            documents.append(_document(each, result, extra_info or {}))
        return documents


def _each(file: Files) -> list[str | Path]:
    return [file] if isinstance(file, str | Path) else list(file)


def _content(name: str, fs: Any, preparation: Preparation) -> bytes | None:
    if fs is None:
        return None
    try:
        with fs.open(name, "rb") as stream:
            return bytes(stream.read(preparation.limits.bytes + 1))
    except Exception as error:  # each file system has exceptions of its own
        state = "missing" if isinstance(error, FileNotFoundError) else "malformed"
        what = f"it cannot be opened ({type(error).__name__}: {redact(str(error))})"
        raise ParseError(name, state, what, "checking its name and the file system") from error


def _document(parsed: Parsed, formatted: Formatted, extra_info: Mapping[str, Any]) -> Document:
    for note in parsed.notes:
        if note.state != "blank":
            _log.warning("%s, page %d: %s", parsed.document.source, note.page, note.why)
    document = from_core_document(formatted.document)
    unread = [str(note.page) for note in parsed.notes if note.lost]
    told = {**({"unread_pages": ", ".join(unread)} if unread else {}), **formatted.fidelity.as_metadata()}
    document.metadata = {**document.metadata, **extra_info, **told}
    hidden = [key for key in (*formatted.document.metadata, *told) if key not in extra_info]
    document.excluded_embed_metadata_keys = joined_keys(document.excluded_embed_metadata_keys, hidden)
    document.excluded_llm_metadata_keys = joined_keys(document.excluded_llm_metadata_keys, hidden)
    return document
