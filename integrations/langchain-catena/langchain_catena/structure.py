"""Cut documents into content-aware chunks: exact slices with heading paths, or texts with their titles."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseLanguageModel

from catena import Chunk, Entry, ParameterError, Services
from catena.effects import Complete, Step, all_together
from catena.enrichment import ContextOptions
from catena.library import FixedLength, Ingested, Preparation, ingest_document
from catena.model import BOXES, NO_METADATA, SEPARATOR, TITLE
from catena.structure import (
    DEFAULT_OPTIONS,
    PASSAGE,
    ChunkOptions,
    EmbeddingOptions,
    SectionChunkOptions,
    SegmentOptions,
    chunk_header,
    context_search_views,
)
from catena.text import media_type_of, page_of
from langchain_catena.base import CatenaBaseTransformer
from langchain_catena.convert import (
    CHUNK_ID,
    HEADER,
    NEXT,
    PAGE_LABELS,
    PAGE_OFFSETS,
    PREVIOUS,
    RAW_TEXT,
    chunk_metadata,
    to_core_document,
)
from langchain_catena.places import write_places
from langchain_catena.services import services_with

OF_THE_PARENT_ALONE = (PAGE_OFFSETS, PAGE_LABELS, PREVIOUS, NEXT, RAW_TEXT, CHUNK_ID, BOXES)
"""Metadata keys that what is cut from a document does not inherit."""


def to_cut(document: Document) -> Document:
    """Return a chunk with its exact slice, whatever its content was; any other document as it is."""
    raw = document.metadata.get(RAW_TEXT)
    whole = document.model_copy(update={"page_content": raw}) if isinstance(raw, str) else document
    return whole if _is_part(whole) else document


def in_whole(chunk: Chunk, document: Document) -> Chunk:
    """Return a chunk of a part with its place in the whole document; that of a single page with the page's number.

    Its offsets, from 0, and lines, from 1, are counted in the whole document; the headings above the part are above
    it, too. The id stays: it says of which part it was cut, and where in it.
    """
    if not _is_part(document):
        page = page_of(document.metadata)
        return chunk if page is None or chunk.pages else replace(chunk, pages=(page + 1, page + 1))
    metadata = document.metadata
    start, first, lines = metadata["start_index"], metadata.get("first_line"), chunk.lines
    return replace(
        chunk,
        document_id=metadata["document_id"],
        start=start + chunk.start,
        end=start + chunk.end,
        lines=(first - 1 + lines[0], first - 1 + lines[1]) if lines and isinstance(first, int) else None,
        path=_path(str(metadata.get("heading_path") or ""), chunk.path),
    )


def linked(cut: Iterable[tuple[Document, Sequence[Document]]]) -> list[Document]:
    """Return fresh chunks, each with its place in its document and with who stands beside it.

    Args:
        cut: documents with their chunks; parts of one document in reading order.
    """
    given = list(cut)
    documents: dict[tuple[object, int], list[Document]] = defaultdict(list)
    seen = Counter[object]()
    for number, (document, chunks) in enumerate(given):
        at = (document.metadata["document_id"], document.metadata["start_index"]) if _is_part(document) else number
        whole = at[0] if isinstance(at, tuple) else at
        documents[whole, seen[at]] += chunks  # what comes twice does not follow itself
        seen[at] += 1
    for beside in documents.values():
        write_places(beside)
    return [chunk for _, chunks in given for chunk in chunks]


def _is_part(document: Document) -> bool:
    """Return True for an exact slice of another document that says of which, as chunks of Catena do."""
    start, end = (document.metadata.get(key) for key in ("start_index", "end_index"))
    whole = document.metadata.get("document_id")
    if not isinstance(whole, str) or not isinstance(start, int) or not isinstance(end, int):
        return False
    return whole not in ("", document.id) and end - start == len(document.page_content)


def _path(above: str, own: tuple[str, ...]) -> tuple[str, ...]:
    """Return the headings of the part and below them the chunk's; the part's last one is often the chunk's first."""
    path = tuple(above.split(SEPARATOR)) if above else ()
    return path + own[1:] if path[-1:] == own[:1] else path + own


Content = Literal["raw", "headed", "definition", "context"]

_log = logging.getLogger(__name__)


def whole_chunk(document: Document) -> Document:
    """Return a chunk of any `content` with its exact slice as `page_content`: what a reader should see."""
    metadata = {key: value for key, value in document.metadata.items() if key != RAW_TEXT}
    content = document.metadata.get(RAW_TEXT, document.page_content)
    return Document(id=document.id, page_content=content, metadata=metadata)


class CatenaDocumentTransformer(CatenaBaseTransformer):
    """Cuts documents at their headings, or by meaning, into chunks that are exact slices of the input.

    Each chunk has a derived id, `start_index` and `end_index` such that
    `parent.page_content[start_index:end_index]` is its text, and in its metadata heading path, lines and kind, its
    `position` in the document and the ids of its neighbours (`previous_id`, `next_id`), and all the parent's metadata
    (the chunk's own keys win). Chunks of a file that `CatenaLoader` read know their pages. All metadata that the
    transformer writes is flat: any vector store takes it.

    Chunks of Catena are cut again in their document: what is cut from one stands in the whole document by offsets,
    lines, headings and neighbours.

        transformer = CatenaDocumentTransformer(
            segmentation=SegmentOptions(), context=ContextOptions(), llm=model, content="context"
        )

    What a model fails at costs what it would have added, never the document, and is told in the log.

    Args:
        max_tokens: a hard cap on the length of a chunk.
        min_tokens: shorter text joins a neighbour in its section.
        chunks: what a chunk is, in place of these two: a short piece (`ChunkOptions`), a whole smallest division as
            MC-indexing has it (`SectionChunkOptions`), or whole sentences up to a number of tokens (`FixedLength`).
            What is longer than an encoder's window is found by its views: see `CatenaViewTransformer`.
        content: "raw" keeps the exact slice as `page_content`; "headed" puts the titles above it in front,
            which is what finds the right one among look-alike documents in a plain vector store; the slice
            is then in `metadata["raw_text"]`. "context" does the same with whole sentences on document and section,
            as TextRAG has it. "definition" does so, too, but gives a table as its titles,
            description, column names and row labels, without its data: for a vector store whose hits lead to
            the whole chunks in another store, as LangChain's MultiVectorRetriever has it:

                chunks = CatenaDocumentTransformer(content="definition").split_documents(documents)
                retriever = MultiVectorRetriever(vectorstore=store, docstore=InMemoryStore(), id_key="chunk_id")
                retriever.vectorstore.add_documents(chunks)
                retriever.docstore.mset([(chunk.metadata["chunk_id"], whole_chunk(chunk)) for chunk in chunks])
        segmentation: divide documents into sections by meaning: `SegmentOptions` lets the model read numbered lines,
            `EmbeddingOptions` compares embeddings; None takes the printed headings.
        context: make titles and summaries, by the model or offline: `title`, `document_summary` and
            `section_summary` in the metadata, and `header`, the words that they make before a chunk.
            `embed` is said by `content="context"`.
        llm: any chat model or LLM, for segmentation and context.
        embeddings: for `EmbeddingOptions` and for offline context; by default the shipped ones.
        services: journal, budget and limits of the models' calls; what is given above goes before its models.
        media_type: "text/markdown" or "text/plain", how to read the texts; None goes by the metadata, see
            `catena.text.loaded.media_type_of`: what a loader made of a PDF, a web page or a text file is plain.

    Raises:
        ParameterError: an option is out of range, or no model is given where one is asked.
    """

    def __init__(
        self,
        *,
        max_tokens: int = DEFAULT_OPTIONS.max_tokens,
        min_tokens: int = DEFAULT_OPTIONS.min_tokens,
        chunks: ChunkOptions | SectionChunkOptions | FixedLength | None = None,
        content: Content = "raw",
        segmentation: SegmentOptions | EmbeddingOptions | None = None,
        context: ContextOptions | None = None,
        llm: BaseLanguageModel[Any] | None = None,
        embeddings: Embeddings | None = None,
        services: Services | None = None,
        media_type: Literal["text/markdown", "text/plain"] | None = None,
    ) -> None:
        media_type_of({}, given=media_type)  # refuses another one now, not at the first document
        if content not in ("raw", "headed", "definition", "context"):
            raise ParameterError("content", content, "'raw', 'headed', 'definition' or 'context'")
        if context is not None and context.embed and content != "context":
            raise ParameterError("content", content, "'context' where the context's embed is True")
        self.content, self.media_type = content, media_type
        self.llm, self.embeddings, self.services = llm, embeddings, services
        self.preparation = Preparation(
            chunks=ChunkOptions(max_tokens=max_tokens, min_tokens=min_tokens) if chunks is None else chunks,
            embed_tables="definition" if content == "definition" else "whole",
            segmentation=segmentation,
            context=context,
        )
        if Complete in self.preparation.asks and self._services().llm is None:
            raise ParameterError("llm", None, "a chat model or LLM: segmentation or context asks it")

    def _read(self, documents: Sequence[Document]) -> list[Document]:
        return [to_cut(document) for document in documents]

    def _asks(self) -> bool:
        return self.preparation.segmentation is not None or self.preparation.context is not None

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

    def _services(self) -> Services:
        how = self.preparation
        offline = how.context is not None and how.context.by == "offline"
        static = offline or isinstance(how.segmentation, EmbeddingOptions)
        return services_with(self.services, llm=self.llm, embeddings=self.embeddings, or_static=static)

    def _step(self, given: Sequence[Document]) -> Step[list[Ingested]]:
        """Prepare the documents side by side, without their metadata, which `_chunks` puts back."""
        core = [to_core_document(document, media_type=self.media_type) for document in given]
        return all_together([ingest_document(replace(each, metadata=NO_METADATA), self.preparation) for each in core])

    def _transformed(self, given: Sequence[Document], found: Sequence[Ingested]) -> list[Document]:
        cut = []
        for document, done in zip(given, found, strict=True):
            for note in done.notes:
                _log.warning("%s: %s", done.entry.document.id, note)
            cut.append((document, self._chunks(document, done.entry)))
        return linked(cut)

    def _chunks(self, document: Document, entry: Entry) -> list[Document]:
        views = context_search_views(entry.chunks) if self.content == "context" else entry.views
        # a table view comes after the headed one; passages are for vectors, and show a part
        shown = {view.chunk_id: view.text for view in views if view.kind != PASSAGE}
        parents = {key: value for key, value in document.metadata.items() if key not in OF_THE_PARENT_ALONE}
        made = []
        for chunk in entry.chunks:
            metadata = {**parents, **chunk_metadata(in_whole(chunk, document))}
            text, below = chunk.text, shown[chunk.id]
            if not document.id and metadata[TITLE] == entry.document.id:  # a derived id says nothing to anybody
                del metadata[TITLE]
                below = below.removeprefix(entry.document.title).lstrip("\n") or text
            if self.preparation.context is not None and (header := chunk_header(chunk)):
                metadata[HEADER] = header
            if self.content != "raw":
                text, metadata[RAW_TEXT] = below, chunk.text
            if self.content == "definition":
                metadata[CHUNK_ID] = chunk.id
            made.append(Document(id=chunk.id, page_content=text, metadata=metadata))
        return made
