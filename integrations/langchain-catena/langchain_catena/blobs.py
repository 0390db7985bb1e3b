"""Files that others load, as Markdown: LangChain's slot for parsers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from langchain_core.document_loaders import BaseBlobParser
from langchain_core.documents import Document
from langchain_core.documents.base import Blob

from catena.formatting import FidelityReport, Formatted
from catena.library import Preparation, read
from catena.model import ParseError
from langchain_catena.convert import loaded_document


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
        fidelity = FidelityReport(document_id=parsed.document.id, source=name, pages=())
        document = loaded_document(parsed, Formatted(document=parsed.document, fidelity=fidelity))
        yield document.model_copy(update={"metadata": {**blob.metadata, **document.metadata}})
