"""Chunks of chunks: what is cut from a part of a document stands in the whole document."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from langchain_core.documents import Document

from catena.model import SEPARATOR, Chunk
from catena.text import page_of
from langchain_catena.convert import CHUNK_ID, NEXT, PAGE_LABELS, PAGE_OFFSETS, POSITION, PREVIOUS, RAW_TEXT

OF_THE_PARENT_ALONE = (PAGE_OFFSETS, PAGE_LABELS, PREVIOUS, NEXT, RAW_TEXT, CHUNK_ID)
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
        documents[at[0] if isinstance(at, tuple) else at, seen[at]] += (
            chunks  # what comes twice does not follow itself
        )
        seen[at] += 1
    for beside in documents.values():
        for position, chunk in enumerate(beside):
            chunk.metadata[POSITION] = position
        for before, after in pairwise(beside):
            before.metadata[NEXT], after.metadata[PREVIOUS] = after.id, before.id
    return [chunk for _, chunks in given for chunk in chunks]


def _is_part(document: Document) -> bool:
    """Return whether a document is an exact slice of another and says of which, as chunks of Catena do."""
    start, end = (document.metadata.get(key) for key in ("start_index", "end_index"))
    whole = document.metadata.get("document_id")
    if not isinstance(whole, str) or not isinstance(start, int) or not isinstance(end, int):
        return False
    return whole not in ("", document.id) and end - start == len(document.page_content)


def _path(above: str, own: tuple[str, ...]) -> tuple[str, ...]:
    """Return the headings of the part and below them the chunk's; the part's last one is often the chunk's first."""
    path = tuple(above.split(SEPARATOR)) if above else ()
    return path + own[1:] if path[-1:] == own[:1] else path + own
