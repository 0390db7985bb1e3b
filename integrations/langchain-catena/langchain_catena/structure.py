"""Content-aware chunks of LangChain documents: exact slices with heading paths, or texts with their titles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from langchain_core.documents import BaseDocumentTransformer, Document

from catena.errors import ParameterError
from catena.pipeline import Preparation, prepare
from catena.structure.chunking import ChunkOptions
from langchain_catena.convert import chunk_metadata, to_core_document


class CatenaDocumentTransformer(BaseDocumentTransformer):
    """Cuts documents at their headings into chunks that are exact slices of the input.

    Each chunk has a derived id, `start_index` and `end_index` such that
    `parent.page_content[start_index:end_index]` is its text, heading path, lines and kind in its metadata, and
    all the parent's metadata (the chunk's own keys win).

    Args:
        max_tokens: a hard cap on the length of a chunk.
        min_tokens: shorter text joins a neighbour in its section.
        content: "raw" keeps the exact slice as `page_content`; "headed" puts the titles above it in front,
            which is what finds the right one among look-alike documents in a plain vector store; the slice
            is then in `metadata["raw_text"]`.
    """

    def __init__(
        self, *, max_tokens: int = 320, min_tokens: int = 24, content: Literal["raw", "headed"] = "raw"
    ) -> None:
        if content not in ("raw", "headed"):
            raise ParameterError("content", content, "'raw' or 'headed'")
        self.content = content
        self.preparation = Preparation(chunks=ChunkOptions(max_tokens=max_tokens, min_tokens=min_tokens))

    def transform_documents(self, documents: Sequence[Document], **kwargs: Any) -> list[Document]:
        return [chunk for document in documents for chunk in self._chunks(document)]

    def split_documents(self, documents: Iterable[Document]) -> list[Document]:
        """Return the chunks of the documents, as LangChain's text splitters do."""
        return self.transform_documents(list(documents))

    def create_documents(
        self, texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None = None
    ) -> list[Document]:
        """Return the chunks of texts, each with the metadata at its place.

        Raises:
            ParameterError: there are not as many metadatas as texts.
        """
        about = [{}] * len(texts) if metadatas is None else metadatas
        if len(about) != len(texts):
            raise ParameterError("metadatas", len(about), f"as many as texts ({len(texts)})")
        documents = [Document(page_content=t, metadata=dict(m)) for t, m in zip(texts, about, strict=True)]
        return self.transform_documents(documents)

    def _chunks(self, document: Document) -> list[Document]:
        entry = prepare(to_core_document(document), self.preparation)
        headed = {view.chunk_id: view.text for view in entry.views}
        made = []
        for chunk in entry.chunks:
            metadata = {**document.metadata, **chunk_metadata(chunk)}
            text = chunk.text
            if self.content == "headed":
                text, metadata["raw_text"] = headed[chunk.id], chunk.text
            made.append(Document(id=chunk.id, page_content=text, metadata=metadata))
        return made
