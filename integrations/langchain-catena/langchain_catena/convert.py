"""LangChain documents to core values at entry, and back at exit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any, Literal, cast

from langchain_core.documents import Document

from catena import model
from catena.answering import readable
from catena.formatting import Formatted
from catena.model import SOURCE, TITLE, Parsed, citation, digest, place_metadata
from catena.retrieval import found_by
from catena.segments import Extraction, SegmentHit
from catena.structure import HeaderTemplate, reader_text, segment_header
from catena.text import MEDIA_TYPE, PAGE_LABEL, joined_pages, media_type_of, starts_of_page

PROVENANCE = "catena"
"""Metadata key of the one dict that says how a document was found: `routes`, `scale`, `degraded`, `unknown`."""

SCORE = "relevance_score"
"""Metadata key of the score, as every LangChain reranker names it."""

PAGE_OFFSETS = "page_offsets"
"""Metadata key of a whole file: where its pages begin in `page_content`, and last where that ends, "0 812 1630".

A string, because vector stores take no lists. Chunks cut by `CatenaDocumentTransformer` have page numbers instead.
"""

PAGE_LABELS = "page_labels"
"""Metadata key of a whole file: what is printed on each page, as a JSON list; only with `PAGE_OFFSETS`."""

DOCUMENT_KEYS = frozenset({TITLE, SOURCE, MEDIA_TYPE, PAGE_OFFSETS, PAGE_LABELS})
"""Metadata keys that are fields of a core document."""

RAW_TEXT = "raw_text"
"""Metadata key of the exact slice, where the content is another view of it."""

CHUNK_ID = "chunk_id"
"""Metadata key by which a definition leads to its whole chunk."""

HEADER = "header"
"""Metadata key of the words before a chunk or a segment: of what document and section it is."""

POSITION = "position"
"""Metadata key of a chunk's place among the chunks of its document, from 0."""

PREVIOUS, NEXT = "previous_id", "next_id"
"""Metadata keys of the ids of the chunks before and after a chunk; the first and the last lack one."""

NO_OFFSETS = "no_offsets"
"""Metadata key, in the core alone, of a chunk that does not say where in its document it begins."""

NOTE = "note"
"""Title and citation of a document that is no passage."""

VALUE = "value"
"""Metadata key of what a segment is worth: the sum of its chunks' values."""

_UNKNOWN = "unknown"  # kind of a document that is no passage
_ORIGINAL = "langchain_document"  # metadata key under which a retrieved document travels through the core


def to_document(hit: model.Hit, ranking: model.Ranking) -> Document:
    """Return a hit as a document with score and provenance; all its metadata is flat but for one key.

    A chunk of Catena's gives its id and its exact slice; what came from a LangChain retriever is that very
    document, copied.
    """
    told: dict[str, Any] = {"scale": ranking.scale.value, "routes": [asdict(way) for way in hit.provenance]}
    told["degraded"] = [f"{part.what}: {part.why}" for part in ranking.degraded]
    found = {SCORE: hit.score, PROVENANCE: {**told, "unknown": _unknown(ranking)}}
    original = original_of(hit.chunk)
    if original is not None:
        return original.model_copy(update={"metadata": {**original.metadata, **found}})
    metadata = {**chunk_metadata(hit.chunk), **found}
    return Document(id=hit.chunk.id, page_content=hit.chunk.text, metadata=metadata)


def told_of(document: Document) -> Mapping[str, Any]:
    """Return the provenance in a document's metadata, an empty mapping where there is none."""
    found = document.metadata.get(PROVENANCE)
    return found if isinstance(found, Mapping) else {}


def original_of(chunk: model.Chunk) -> Document | None:
    """Return the LangChain document that a chunk was made from by `to_chunk`."""
    original = chunk.metadata.get(_ORIGINAL)
    return original if isinstance(original, Document) else None


def with_original(chunk: model.Chunk, document: Document) -> model.Chunk:
    """Return a chunk that `to_document` gives back as this very document, copied."""
    return replace(chunk, metadata=cast("model.Metadata", {**chunk.metadata, _ORIGINAL: document}))


def unknown_document(ranking: model.Ranking | Extraction) -> Document:
    """Return a document that says which names of the question stand nowhere, and what is like them.

    It has the keys that prompts ask of every passage, of no passage's value.
    """
    neutral = {"citation": NOTE, TITLE: NOTE, SOURCE: "", SCORE: 0.0}
    return Document(
        page_content=model.nowhere_in_words(ranking.unknown),
        metadata={**neutral, "kind": _UNKNOWN, PROVENANCE: {"unknown": _unknown(ranking)}},
    )


def is_unknown(document: Document) -> bool:
    """Return True for a document that `unknown_document` made."""
    return document.metadata.get("kind") == _UNKNOWN


def _unknown(ranking: model.Ranking | Extraction) -> list[dict[str, Any]]:
    return [{"text": name.text, "near": list(name.near)} for name in ranking.unknown]


def section_document(segment: model.Segment, hit: model.Hit, ranking: model.Ranking) -> Document:
    """Return the whole section of a hit as a document, with the hit's score and provenance."""
    found = to_document(hit, ranking)
    title = str(hit.chunk.metadata.get(TITLE, ""))
    place = _place(segment, citation(segment, title=title))
    metadata = {**found.metadata, **place, "chunk_id": hit.chunk.id}
    return Document(id=segment.id, page_content=segment.text, metadata=metadata)


def segment_documents(
    extraction: Extraction, *, content: Literal["raw", "headed"], header: HeaderTemplate | None
) -> list[Document]:
    """Return segments as documents, in their order, with the metadata that `CatenaSegmentExtractor` states."""
    about = model.Ranking((), model.Scale.VALUE, extraction.degraded, extraction.unknown)
    ranks = {hit.chunk.id: rank for rank, hit in enumerate(extraction.ranking().hits, start=1)}
    return [_segment_document(each, ranks[each.segment.id], about, content, header) for each in extraction.segments]


def _segment_document(
    found: SegmentHit,
    rank: int,
    about: model.Ranking,
    content: Literal["raw", "headed"],
    header: HeaderTemplate | None,
) -> Document:
    segment = found.segment
    way = model.Provenance(route="segments", rank=rank, score=found.value)
    document = to_document(model.Hit(segment.as_chunk(), found.value, (way,)), about)
    said = "" if header is None else segment_header(segment, template=header)
    placed = NO_OFFSETS not in segment.metadata
    hidden = {POSITION, NO_OFFSETS, *(() if placed else ("start_index", "end_index"))}
    metadata = {key: value for key, value in document.metadata.items() if key not in hidden}
    metadata[PROVENANCE] |= {"chunk_ids": list(segment.chunk_ids), "queries": list(found.queries)}
    metadata[VALUE] = found.value
    if segment.positions is not None:
        metadata["first_position"], metadata["last_position"] = segment.positions
    if said:
        metadata[HEADER] = said
    if content == "headed":
        metadata[RAW_TEXT] = segment.text
    text = reader_text(segment, template=header) if content == "headed" and header is not None else segment.text
    return Document(id=segment.id, page_content=text, metadata=metadata)


def view_documents(ranking: model.Ranking) -> list[Document]:
    """Return hits as documents whose `metadata["catena"]["views"]` says which views found them, at which rank."""
    return [with_told(to_document(hit, ranking), views=found_by(hit)) for hit in ranking.hits]


def with_told(document: Document, **more: Any) -> Document:
    """Return a document with more in its provenance."""
    return document.model_copy(update={"metadata": {**document.metadata, PROVENANCE: {**told_of(document), **more}}})


def figure_document(figure: model.Figure, file: Path | None, hit: model.Hit, ranking: model.Ranking) -> Document:
    """Return a figure as a document; what its metadata says is stated at `CatenaFigureRetriever`."""
    found = to_document(hit, ranking)
    about = {f"figure_{name}": getattr(figure, name) for name in ("page", "title", "kind", "width", "height")}
    shown = {} if file is None else {"figure_file": str(file)}
    metadata = {**found.metadata, **about, **shown}
    return found.model_copy(update={"page_content": readable(hit), "metadata": metadata})


def chunk_metadata(chunk: model.Chunk) -> dict[str, Any]:
    """Return all that is known of a chunk under flat keys, and under LangChain's name where it has one.

    `start_index` is LangChain's; pages and lines are counted from 1, first and last.
    """
    known = {**chunk.metadata, POSITION: chunk.position, **_place(chunk, citation(chunk)), "kind": chunk.kind}
    return {**known, SOURCE: chunk.metadata.get(SOURCE) or chunk.document_id}


def _place(found: model.Chunk | model.Segment, cited: str) -> dict[str, Any]:
    offsets = {"start_index": found.start, "end_index": found.end}
    place: dict[str, Any] = {"document_id": found.document_id, **offsets, "citation": cited}
    if found.path:
        place["heading_path"] = " › ".join(found.path)
    return place | place_metadata(found.place)


def to_core_document(document: Document, *, media_type: str | None = None) -> model.Document:
    """Return a LangChain document as a core document.

    Its id is its own, else derived from source, page and text, so that the same input gives the same ids. Of the
    metadata, what is a field of the core's document becomes one; a store keeps the others as
    `catena.model.plain_metadata` says, and hits give them back.

    Args:
        document: of any loader.
        media_type: "text/markdown" or "text/plain"; None takes what the metadata say, see
            `catena.text.loaded.media_type_of`.

    Raises:
        ParameterError: the media type is another.
    """
    metadata = document.metadata
    source = str(metadata.get(SOURCE) or "")
    starts = _page_starts(metadata, document.page_content)
    labels = _page_labels(metadata, len(starts))
    if not starts and (starts := starts_of_page(metadata)):
        labels = (*("",) * (len(starts) - 1), str(metadata.get(PAGE_LABEL) or ""))
    return model.Document(
        id=document.id or digest("langchain", source, str(metadata.get("page", "")), document.page_content),
        text=document.page_content,
        title=str(metadata.get(TITLE) or ""),
        source=source,
        media_type=media_type_of(metadata, given=media_type),
        page_starts=starts,
        page_labels=labels,
        metadata={key: value for key, value in metadata.items() if key not in DOCUMENT_KEYS},
    )


def loaded_document(parsed: Parsed, formatted: Formatted) -> Document:
    """Return a whole file as a document; what its metadata says is stated at `CatenaLoader`."""
    document = formatted.document
    metadata: dict[str, Any] = {**document.metadata, SOURCE: document.source, TITLE: document.title}
    metadata |= {MEDIA_TYPE: document.media_type, "state": parsed.state}
    if unread := [str(note.page) for note in parsed.notes if note.lost]:
        metadata["unread_pages"] = ", ".join(unread)
    metadata |= _pages(document.text, document.page_starts, document.page_labels)
    return Document(id=document.id, page_content=document.text, metadata=metadata | formatted.fidelity.as_metadata())


def join_pages(documents: Sequence[Document]) -> list[Document]:
    """Return one document per file where a loader gave one per page, as `PyPDFLoader` does.

    Chunks then reach over pages, and say on which pages they stand. The id is derived from the file's name; the
    metadata is what all pages share, and where the pages begin. Other documents are returned as they are.

    Raises:
        ParameterError: a page comes twice, as after a splitter.
    """
    texts, metadata = [each.page_content for each in documents], [each.metadata for each in documents]
    return [
        documents[each]
        if isinstance(each, int)
        else Document(
            id=each.id,
            page_content=each.text,
            metadata={**each.metadata, **_pages(each.text, each.starts, each.labels)},
        )
        for each in joined_pages(texts, metadata)
    ]


def _pages(text: str, starts: Sequence[int], labels: Sequence[str]) -> dict[str, Any]:
    if not starts:
        return {}
    said = {"total_pages": len(starts), PAGE_OFFSETS: " ".join(map(str, (*starts, len(text))))}
    return {**said, PAGE_LABELS: json.dumps(labels)} if labels else said


def _page_starts(metadata: Mapping[str, Any], text: str) -> tuple[int, ...]:
    """Return where the pages begin; nothing where they were counted in another text than this one."""
    found = str(metadata.get(PAGE_OFFSETS, "")).split()
    offsets = [int(offset) for offset in found if offset.isascii() and offset.isdecimal()]
    fits = len(offsets) == len(found) > 1 and offsets[0] == 0 and offsets[-1] == len(text)
    return tuple(offsets[:-1]) if fits and offsets == sorted(offsets) else ()


def _page_labels(metadata: Mapping[str, Any], pages: int) -> tuple[str, ...]:
    try:
        labels = json.loads(metadata.get(PAGE_LABELS, "[]"))
    except (TypeError, ValueError):  # somebody else's key of that name
        return ()
    return tuple(map(str, labels)) if isinstance(labels, list) and len(labels) == pages else ()


def to_chunk(document: Document) -> model.Chunk:
    """Return a retrieved document as a chunk that holds it whole, so that `to_document` gives it back.

    Its id is the document's own, else the `chunk_id` of its metadata, else one derived from source, offset and
    text: equal texts of two sources stay two.
    """
    metadata = document.metadata
    source = str(metadata.get("document_id") or metadata.get(SOURCE) or "")
    start = metadata.get("start_index")
    start = start if isinstance(start, int) and start >= 0 else 0
    text = document.page_content
    return model.Chunk(
        id=document.id
        or str(metadata.get(CHUNK_ID) or "")
        or digest("langchain", source, str(metadata.get("page", "")), str(start), text),
        document_id=source,
        position=0,
        start=start,
        end=start + len(text),
        text=text,
        metadata=cast("model.Metadata", {_ORIGINAL: document}),
    )


def as_score(value: object) -> float | None:
    """Return the score that a retriever or a reranker wrote, NumPy's too; None where it is no finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value):
        return None
    return float(value)


def scalars(metadata: Mapping[str, Any]) -> dict[str, model.Scalar]:
    """Return the metadata that a core value can hold: text, numbers, True and False."""
    return {key: value for key, value in metadata.items() if isinstance(value, str | int | float | bool)}
