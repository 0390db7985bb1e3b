"""Content-aware chunks of LangChain documents: exact slices with heading paths, or texts with their titles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from langchain_core.documents import BaseDocumentTransformer, Document

from catena.errors import ParameterError
from catena.pipeline import Preparation, prepare
from catena.structure.chunking import ChunkOptions
from langchain_catena.convert import PAGE_OFFSETS, chunk_metadata, to_core_document

RAW_TEXT = "raw_text"
"""Metadata key of the exact slice, where the content is another view of it."""

CHUNK_ID = "chunk_id"
"""Metadata key by which a definition leads to its whole chunk."""


def whole_chunk(document: Document) -> Document:
    """Return a chunk of any `content` with its exact slice as `page_content`: what a reader should see."""
    metadata = {key: value for key, value in document.metadata.items() if key != RAW_TEXT}
    return Document(
        id=document.id,
        page_content=document.metadata.get(RAW_TEXT, document.page_content),
        metadata=metadata,
    )


class CatenaDocumentTransformer(BaseDocumentTransformer):
    """Cuts documents at their headings into chunks that are exact slices of the input.

    Each chunk has a derived id, `start_index` and `end_index` such that
    `parent.page_content[start_index:end_index]` is its text, heading path, lines and kind in its metadata, and
    all the parent's metadata (the chunk's own keys win). Chunks of a file that `CatenaLoader` read know their pages.

    Args:
        max_tokens: a hard cap on the length of a chunk.
        min_tokens: shorter text joins a neighbour in its section.
        content: "raw" keeps the exact slice as `page_content`; "headed" puts the titles above it in front,
            which is what finds the right one among look-alike documents in a plain vector store; the slice
            is then in `metadata["raw_text"]`. "definition" does the same, but gives a table as its titles,
            description, column names and row labels, without its data: for a vector store whose hits lead to
            the whole chunks in another store, as LangChain's MultiVectorRetriever has it:

                chunks = CatenaDocumentTransformer(content="definition").split_documents(documents)
                retriever = MultiVectorRetriever(vectorstore=store, docstore=InMemoryStore(), id_key="chunk_id")
                retriever.vectorstore.add_documents(chunks)
                retriever.docstore.mset([(chunk.metadata["chunk_id"], whole_chunk(chunk)) for chunk in chunks])
    """

    def __init__(
        self,
        *,
        max_tokens: int = 320,
        min_tokens: int = 24,
        content: Literal["raw", "headed", "definition"] = "raw",
    ) -> None:
        if content not in ("raw", "headed", "definition"):
            raise ParameterError("content", content, "'raw', 'headed' or 'definition'")
        self.content = content
        self.preparation = Preparation(
            chunks=ChunkOptions(max_tokens=max_tokens, min_tokens=min_tokens),
            embed_tables="definition" if content == "definition" else "whole",
        )

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
        shown = {view.chunk_id: view.text for view in entry.views}  # a table view comes after the headed one
        parents = {key: value for key, value in document.metadata.items() if key != PAGE_OFFSETS}
        made = []
        for chunk in entry.chunks:
            metadata = {**parents, **chunk_metadata(chunk)}
            text = chunk.text
            if self.content != "raw":
                text, metadata[RAW_TEXT] = shown[chunk.id], chunk.text
            if self.content == "definition":
                metadata[CHUNK_ID] = chunk.id
            made.append(Document(id=chunk.id, page_content=text, metadata=metadata))
        return made
