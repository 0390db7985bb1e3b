"""Load files and blobs as documents of Markdown, by their layout or by any chat model with no word lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from langchain_core.document_loaders import BaseBlobParser, BaseLoader
from langchain_core.documents import Document
from langchain_core.documents.base import Blob
from langchain_core.language_models import BaseLanguageModel

from catena import CatenaError, LibraryError, ParameterError, ParseError, Services, arun, run
from catena.effects import Failed, Plan, Step, Tariff, plan, together
from catena.formatting import PLANNED_ANSWERS, FidelityReport, FormatOptions, Formatted, figures_of, format_markdown
from catena.library import Preparation, discover_readable, read
from catena.model import Parsed
from catena.store import write_file
from langchain_catena.convert import loaded_document
from langchain_catena.services import services_with

_log = logging.getLogger(__name__)


class CatenaLoader(BaseLoader):
    """Reads PDF, HTML, Markdown and text: one document of Markdown per file, its pages mapped.

    Cut it with `CatenaDocumentTransformer`, whose chunks know their pages. The metadata is flat:

    - `source`, `title`, `state` ("parsed", or "partial" where `unread_pages` gave no text), `total_pages`, and
      `page_offsets`, see `langchain_catena.convert.PAGE_OFFSETS`;
    - where a model wrote the Markdown: `pages_by_model`, `pages_asked_again`, `pages_from_layout` (how many pages
      have whose text; `layout_pages` names the last), and `fidelity_recall`, `fidelity_precision` and
      `fidelity_order` of the least faithful answer, taken or not. `fidelity` holds the reports by page.

    With a model:

        loader = CatenaLoader("manuals", llm=ChatAnything(...), services=Services(journal=journal))
        print(loader.plan())  # calls and tokens; nothing is asked yet
        documents = loader.load()

    Args:
        paths: files, or folders that are searched for files of the types Catena reads; or one of them.
        llm: writes the Markdown, window by window; what is not faithful is taken from the layout. Give it room for
            answers of 4,096 tokens. Without a model the layout decides alone.
        options: how the model is shown a file.
        services: journal, budget, limits and progress of the model's calls.
        preparation: how files are read.
        password: opens encrypted PDFs.
        on_error: a file that gives no document raises; or it is left out, logged and named in `failures`.
        side_by_side: files that the model is asked about at once.
        figure_folder: the pictures of figures are written below it, where the links in the Markdown lead
            ("figures/….png"); PDFs are then read with pypdfium2 (extra `fast-pdf`). Not together with a model, which
            is shown words alone.

    Attributes:
        failures: of the last load, by source, why a file gave no document.
        fidelity: of the last load, by source, how faithful each page is that a model wrote.

    Raises:
        ParameterError: an option is out of range.
    """

    def __init__(
        self,
        paths: str | Path | Iterable[str | Path],
        *,
        llm: BaseLanguageModel[Any] | None = None,
        options: FormatOptions | None = None,
        services: Services | None = None,
        preparation: Preparation | None = None,
        password: str | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        side_by_side: int = 4,
        figure_folder: str | Path | None = None,
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise ParameterError("on_error", on_error, "'raise' or 'skip'")
        if side_by_side < 1:
            raise ParameterError("side_by_side", side_by_side, "at least 1")
        self.paths = (paths,) if isinstance(paths, str | Path) else tuple(paths)
        self.options = options or FormatOptions()
        self.llm, self.services = llm, services
        self.preparation = preparation or Preparation()
        self.figure_folder = None if figure_folder is None else Path(figure_folder)
        if self.figure_folder is not None:
            self.preparation = replace(self.preparation, engine="pypdfium2", figures=True)
        self.password = password
        self.on_error = on_error
        self.side_by_side = side_by_side
        self.failures: dict[str, CatenaError] = {}
        self.fidelity: dict[str, FidelityReport] = {}
        if figure_folder is not None and self._services().llm is not None:
            raise ParameterError("figure_folder", figure_folder, "None where a model writes the Markdown")

    def lazy_load(self) -> Iterator[Document]:
        """Yield the documents in the order of the paths; of folders, by name.

        Raises:
            ParseError: a file gave no document, and `on_error` is "raise".
            BudgetExceededError: the next call would pass the budget; the replies so far are in the journal.
        """
        self._begin()
        for files in self._batches():
            parsed = self._read(files)
            yield from self._documents(parsed, run(self._written(parsed), self._services()))

    async def alazy_load(self) -> AsyncIterator[Document]:
        """As `lazy_load`; files are read in a thread, and the model is awaited."""
        self._begin()
        for files in await asyncio.to_thread(self._batches):
            parsed = await asyncio.to_thread(self._read, files)
            for document in self._documents(parsed, await arun(self._written(parsed), self._services())):
                yield document

    def plan(self, *, tariff: Tariff | None = None) -> Plan:
        """Count the calls, tokens and money that loading would cost, without calling the model.

        Args:
            tariff: prices; those of the services' budget where not given, else free.
        """
        parsed = self._read(list(chain.from_iterable(self._batches())))
        return plan(self._written(parsed), self._services(), tariff=tariff, stand_ins=PLANNED_ANSWERS)

    def _services(self) -> Services:
        return services_with(self.services, llm=self.llm)

    def _begin(self) -> None:
        self.failures, self.fidelity = {}, {}

    def _batches(self) -> list[list[tuple[Path, str]]]:
        """Return the files with their names; in folders only those of types that are read."""
        files = list(discover_readable(self.paths))
        size = 1 if self._services().llm is None else self.side_by_side
        return [files[at : at + size] for at in range(0, len(files), size)]

    def _read(self, files: Sequence[tuple[Path, str]]) -> list[Parsed]:
        parsed: list[Parsed] = []
        for path, source in files:
            try:
                found = read(path, self.preparation, source=source, password=self.password)
                if not found.document.text.strip():
                    raise ParseError(source, "empty", "there is no text in it")
                self._write_figures(found)
                parsed.append(found)
            except ParseError as error:
                self._failed(source, error)
        return parsed

    def _write_figures(self, parsed: Parsed) -> None:
        if self.figure_folder is None:
            return
        for figure in figures_of(parsed):
            try:
                write_file(self.figure_folder, figure)
            except LibraryError as error:
                found = f"{self.figure_folder} ({error.what})"
                raise ParameterError("figure_folder", found, "a folder that can be written") from None

    def _written(self, parsed: Sequence[Parsed]) -> Step[list[Formatted | Failed]]:
        """Return each file as the model writes it; without a model, as the layout formatter wrote it."""
        if self._services().llm is None:
            return [Formatted.of(each.document) for each in parsed]
        return (yield from together([format_markdown(each, self.options) for each in parsed]))

    def _documents(self, parsed: Sequence[Parsed], written: Sequence[Formatted | Failed]) -> Iterator[Document]:
        for each, result in zip(parsed, written, strict=True):
            if isinstance(result, Formatted):
                if result.fidelity.pages:
                    self.fidelity[each.document.source] = result.fidelity
                yield loaded_document(each, result)
            else:
                self._failed(each.document.source, result.error)

    def _failed(self, source: str, error: Exception) -> None:
        """Keep why a file gave no document, where that is to be tolerated."""
        if self.on_error == "raise" or not isinstance(error, CatenaError):
            raise error
        _log.warning("left out: %s", error)
        self.failures[source] = error


class CatenaBlobParser(BaseBlobParser):
    """Reads blobs of PDF, HTML, Markdown, LaTeX and text: one document of Markdown per blob, its pages mapped.

        GenericLoader(FileSystemBlobLoader("manuals", glob="**/*.pdf"), CatenaBlobParser())

    Metadata are those of `CatenaLoader`, and what the blob says of itself.

    Args:
        preparation: how files are read.
        password: opens encrypted PDFs.
    """

    def __init__(self, *, preparation: Preparation | None = None, password: str | None = None) -> None:
        self.preparation, self.password = preparation or Preparation(), password

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        """Yield the blob's document.

        Raises:
            ParseError: the blob gave none.
        """
        name = str(blob.source or blob.path or "blob")
        parsed = read(Path(name), self.preparation, source=name, password=self.password, content=blob.as_bytes())
        if not parsed.document.text.strip():
            raise ParseError(name, "empty", "there is no text in it")
        document = loaded_document(parsed, Formatted.of(parsed.document))
        yield document.model_copy(update={"metadata": {**blob.metadata, **document.metadata}})
