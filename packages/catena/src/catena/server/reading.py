"""Chunks by their place and slices of documents, read back from a server as they were written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from catena.effects.steps import FetchChunks, FetchText, Step, ask
from catena.model import Chunk, Place
from catena.model.errors import ServerError
from catena.server.call import Call
from catena.server.hits import SOURCE_FIELDS, chunk_of
from catena.server.layout import IndexLayout, quoted
from catena.server.records import PIECE, piece_id, record_id
from catena.server.wire import restored

_PAGE: Final = 1_000  # chunks of one answer
_AT_ONCE: Final = 500  # documents in one request
_INTEGERS: Final = 2**31 - 1  # the largest position that a server compares

Span = tuple[str, int, int]


def chunks(request: FetchChunks, layout: IndexLayout) -> Step[tuple[tuple[Chunk, ...], ...]]:
    """Return the chunks of each span of positions, in reading order; one that is not there is missing.

    All spans of one batch are asked for together; a document is read once where its spans overlap.

    Raises:
        ServerError: the server cannot be reached, or refuses.
    """
    found: dict[str, dict[int, Chunk]] = {}
    wanted = sorted({span for span in request.spans if max(span[1], 0) < span[2]})
    for at in range(0, len(wanted), _AT_ONCE):
        for chunk in (yield from _between(wanted[at : at + _AT_ONCE], layout)):
            found.setdefault(chunk.document_id, {})[chunk.position] = chunk
    return tuple(_in_order(found.get(document_id, {}), first, end) for document_id, first, end in request.spans)


def _in_order(found: Mapping[int, Chunk], first: int, end: int) -> tuple[Chunk, ...]:
    return tuple(found[position] for position in sorted(found) if first <= position < end)


def _between(spans: Sequence[Span], layout: IndexLayout) -> Step[list[Chunk]]:
    query = {"bool": {"should": [_place(span) for span in spans], "minimum_should_match": 1}}
    path = f"/{quoted(layout.alias('chunks'))}/_search"
    found: list[Chunk] = []
    after: Sequence[Any] = ()
    while True:
        body = {
            "size": _PAGE,
            "track_total_hits": False,
            "_source": list(SOURCE_FIELDS),
            "query": {"constant_score": {"filter": query}},
            "sort": [{"document": "asc"}, {"position": "asc"}],
            **({"search_after": after} if after else {}),
        }
        params = {"allow_partial_search_results": False}  # a shard that fails is an error
        (reply,) = yield from ask([Call(method="POST", path=path, params=params, body=body, purpose="neighbours")])
        rows = reply["hits"]["hits"]
        found += [chunk_of(row["_source"], row["_id"]) for row in rows]
        if len(rows) < _PAGE:
            return found
        after = rows[-1]["sort"]


def _place(span: Span) -> dict[str, Any]:
    document_id, first, end = span
    positions = {"gte": min(max(first, 0), _INTEGERS), "lt": min(end, _INTEGERS)}
    return {"bool": {"filter": [{"term": {"document": document_id}}, {"range": {"position": positions}}]}}


def texts(request: FetchText, layout: IndexLayout) -> Step[tuple[str | None, ...]]:
    """Return each slice of a document's text, None where the document, all of it, or the span is not there.

    First the records and the pieces in which spans end are read, which say whether the spans are there; then, of
    spans of several pieces, the others.

    Raises:
        ServerError: the server cannot be reached, or refuses.
    """
    spans = dict.fromkeys(span for span in request.spans if 0 <= span[1] <= span[2])
    ends = [piece_id(span[0], _last(span)) for span in spans]
    read = yield from _read([*(record_id(span[0]) for span in spans), *ends], layout)
    there = [span for span in spans if _is_there(span, read)]
    inside = [piece_id(span[0], piece) for span in there for piece in range(span[1] // PIECE, _last(span))]
    read = read | (yield from _read(inside, layout))
    slices = {span: _slice(span, read) for span in there}
    return tuple(slices.get(span) for span in request.spans)


def places(spans: Sequence[Span], layout: IndexLayout) -> Step[tuple[Place, ...]]:
    """Return on which pages slices of documents are, and the labels of these pages; no lines.

    A place without pages where the document has none, or is not there as a whole.

    Raises:
        ServerError: the server cannot be reached, or refuses.
    """
    ids = dict.fromkeys(record_id(document_id) for document_id, _, _ in spans)
    read = yield from _read(ids, layout, fields=("rest.page_starts", "rest.page_labels"))
    kept = {key: source.get("rest", {}) for key, source in read.items()}
    return tuple(
        Place.on_pages(own.get("page_starts", ()), restored(own.get("page_labels", [])), start, end)
        for own, start, end in ((kept.get(record_id(name), {}), start, end) for name, start, end in spans)
    )


def _last(span: Span) -> int:
    """Return the piece in which the span's last code point lies."""
    return max(span[2] - 1, 0) // PIECE


def _is_there(span: Span, read: Mapping[str, Mapping[str, Any]]) -> bool:
    record = read.get(record_id(span[0]), {})
    last = read.get(piece_id(span[0], _last(span)), {"text": ""})
    return record.get("state") == "whole" and span[2] <= _last(span) * PIECE + len(restored(last["text"]))


def _slice(span: Span, read: Mapping[str, Mapping[str, Any]]) -> str | None:
    document_id, start, end = span
    first = start // PIECE
    pieces = [read.get(piece_id(document_id, piece)) for piece in range(first, _last(span) + 1)]
    if end > start and None in pieces:
        return None  # it was replaced meanwhile
    text = "".join(restored(piece["text"]) for piece in pieces if piece is not None)
    return text[start - first * PIECE : end - first * PIECE]


def _read(
    ids: Iterable[str], layout: IndexLayout, *, fields: Sequence[str] = ("state", "text")
) -> Step[dict[str, Mapping[str, Any]]]:
    """Return some fields of what is kept under ids of the documents' index; what is not there is left out."""
    wanted = list(dict.fromkeys(ids))
    path = f"/{quoted(layout.alias('documents'))}/_mget"
    read: dict[str, Mapping[str, Any]] = {}
    for at in range(0, len(wanted), _AT_ONCE):
        docs = [{"_id": each, "_source": list(fields)} for each in wanted[at : at + _AT_ONCE]]
        (reply,) = yield from ask([Call(method="POST", path=path, body={"docs": docs}, purpose="text")])
        for doc in reply["docs"]:
            if error := doc.get("error"):
                raise ServerError(layout.alias("documents"), str(error.get("reason", error)))
            if doc["found"]:
                read[doc["_id"]] = doc["_source"]
    return read
