"""Look up on a server the names in a question, chunks by position, and slices of documents.

For names, the server is asked only for the documents that bear a name, or a name of a pattern, of the question. The
index of names that is made from their titles says the same of this question as one of all titles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from catena import Chunk
from catena.effects import FetchChunks, FetchText, FindNames, NamesFound, Step
from catena.model import Name, Place, placed_in
from catena.store import LOOKED_AT, is_value_in, names_besides, names_found, possible_names, possible_patterns
from catena.text import NameIndex, TermMatcher, normalise_term, other_forms, unspaced
from catena_server.actions import PIECE, piece_id, record_id
from catena_server.calls import kept_by_id, searched, side_by_side, sorted_rows
from catena_server.encoding import restored, sendable
from catena_server.index_layout import IndexLayout, Part
from catena_server.restoring import SOURCE_FIELDS, chunk_of, printed_of

_TITLES_AT_ONCE: Final = 1_000  # titles of one answer
_PASSAGES: Final = 100  # of one answer
_FILTERS_AT_ONCE: Final = 200  # look-ups in one request
_LONGEST_PART: Final = 256  # characters that are looked for inside of terms; see `filters.CONTAINED`
_MOST_TERMS: Final = 65_536  # in one clause, the default of servers


def find_names(request: FindNames, layout: IndexLayout) -> Step[NamesFound]:
    """Return what a question names, as `catena.store.names` decides it: three rounds of requests, in general.

    Names of more than `question_names.LONGEST_NAME` characters are not looked for. The passages that decide whether
    a name is a property are taken by document id; the embedded library takes those that were indexed first.

    Raises:
        ServerError: the server cannot be reached, or refuses.
    """
    index = NameIndex((yield from _titles(request.query, layout)))
    known, near = index.known_in(request.query), index.nearly_in(request.query)
    looked_for = [unknown.text for _, unknown in near]
    looked_for += [form for name in names_besides(request) for form in other_forms(name)]
    terms, begun, properties = yield from side_by_side(
        _terms_among(dict.fromkeys(map(normalise_term, looked_for)), layout),
        _beginnings_among(dict.fromkeys(begun_by for begun_by, _ in near), layout),
        _properties_among(known, layout),
    )
    found = names_found(
        request,
        known=known,
        near=(unknown for begun_by, unknown in near if begun_by not in begun),
        is_term=lambda name: normalise_term(name) in terms,
        is_property=lambda name: name.text in properties,
    )
    headed = yield from side_by_side(*(_headed(name, layout) for name in found.known))
    known = tuple(replace(name, headed=ids) for name, ids in zip(found.known, headed, strict=True))
    return replace(found, known=known)


def _headed(name: Name, layout: IndexLayout) -> Step[tuple[str, ...]]:
    """Return the ids of chunks of other documents under a heading with a name, among the first that print it."""
    body = {
        "size": _CHUNKS_AT_ONCE,  # one request at each question, however often a name is printed
        "track_total_hits": False,
        "_source": ["path"],
        "query": {"bool": {"filter": [{"term": {"terms": name.text}}], "must_not": _bearers(name)}},
        "sort": [{"document": "asc"}, {"position": "asc"}],
    }
    rows = (yield from searched(layout.alias("chunks"), body, purpose="names"))["hits"]["hits"]
    matcher = TermMatcher([name.text])
    return tuple(
        sorted(row["_id"] for row in rows if matcher.all_in("\n".join(restored(row["_source"].get("path", [])))))
    )


def _bearers(name: Name) -> list[dict[str, Any]]:
    parts = range(0, len(name.documents), _MOST_TERMS)
    return [{"terms": {"document": name.documents[at : at + _MOST_TERMS]}} for at in parts]


def _titles(query: str, layout: IndexLayout) -> Step[dict[str, str]]:
    """Return the titles of the documents whose names, or patterns of names, stand in a question, by document id."""
    names, patterns = sendable(possible_names(query)), sendable(possible_patterns(query))
    if not names:
        return {}
    bearing = [{"terms": {"names": names}}, *([{"terms": {"name_patterns": patterns}}] if patterns else [])]
    wanted = [{"term": {"record": "document"}}, {"bool": {"should": bearing, "minimum_should_match": 1}}]
    body = {"_source": ["document", "title"], "query": {"bool": {"filter": wanted}}, "sort": [{"document": "asc"}]}
    rows = yield from sorted_rows(layout.alias("documents"), body, size=_TITLES_AT_ONCE, purpose="names")
    return {row["_source"]["document"]: restored(row["_source"]["title"]) for row in rows}


def _terms_among(names: Iterable[str], layout: IndexLayout) -> Step[frozenset[str]]:
    """Return those of the normalised names that are a critical term, part of one, or one but for its spaces."""
    filters = {name: _part_of_a_term(name) for name in names if name}
    return (yield from _holding("chunks", filters, layout)) | {""}


def _part_of_a_term(name: str) -> dict[str, Any]:
    ways: list[dict[str, Any]] = [{"term": {"terms_unspaced": unspaced(name)}}]
    if name.isdigit():  # of a term that is repeated, what stands before the number of its repetition
        ways.append({"regexp": {"terms": {"value": f"[^\x1f]*{name}.*"}}})
    elif len(name) <= _LONGEST_PART:
        escaped = "".join(f"\\{sign}" if sign in "*?\\" else sign for sign in name)
        ways.append({"wildcard": {"terms": {"value": f"*{escaped}*"}}})
    return {"bool": {"should": ways, "minimum_should_match": 1}}


def _beginnings_among(begun_by: Iterable[str], layout: IndexLayout) -> Step[frozenset[str]]:
    """Return what begins the name of any document."""
    filters = {name: {"prefix": {"names": {"value": sendable(name)}}} for name in begun_by}
    return (yield from _holding("documents", filters, layout))


def _properties_among(known: Sequence[Name], layout: IndexLayout) -> Step[frozenset[str]]:
    """Return those of the names that are values in the tables of as many other documents as bear them, or of more."""
    found = yield from side_by_side(*(_is_property(name, layout) for name in known))
    return frozenset(name.text for name, holds in zip(known, found, strict=True) if holds)


def _is_property(name: Name, layout: IndexLayout) -> Step[bool]:
    of_tables = [{"term": {"terms": name.text}}, {"term": {"kind": "table"}}]
    query = {"bool": {"filter": of_tables, "must_not": _bearers(name)}}
    wanted, left = len(name.documents), LOOKED_AT + len(name.documents)
    documents: set[str] = set()
    after: Sequence[Any] = ()
    while left > 0:
        size = min(left, _PASSAGES)
        body = {
            "size": size,
            "track_total_hits": False,
            "_source": ["document", "text"],
            "query": query,
            "sort": [{"document": "asc"}, {"position": "asc"}],
            **({"search_after": after} if after else {}),
        }
        rows = (yield from searched(layout.alias("chunks"), body, purpose="names"))["hits"]["hits"]
        sources = [row["_source"] for row in rows]
        documents |= {each["document"] for each in sources if is_value_in(name.text, restored(each["text"]))}
        if len(documents) >= wanted or len(rows) < size:
            break
        left, after = left - len(rows), rows[-1]["sort"]
    return len(documents) >= wanted


def _holding(part: Part, filters: Mapping[str, Mapping[str, Any]], layout: IndexLayout) -> Step[frozenset[str]]:
    """Return the names of the filters that hold for any document of an index."""
    names = sorted(filters)
    found: set[str] = set()
    for at in range(0, len(names), _FILTERS_AT_ONCE):
        asked = names[at : at + _FILTERS_AT_ONCE]
        aggregation = {"filters": {"filters": [filters[name] for name in asked]}}
        body = {"size": 0, "track_total_hits": False, "aggs": {"names": aggregation}}
        buckets = (yield from searched(layout.alias(part), body, purpose="names"))["aggregations"]["names"]["buckets"]
        found.update(name for name, bucket in zip(asked, buckets, strict=True) if bucket["doc_count"])
    return frozenset(found)


_CHUNKS_AT_ONCE: Final = 1_000  # chunks of one answer
_SPANS_AT_ONCE: Final = 500  # in one request
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
    for at in range(0, len(wanted), _SPANS_AT_ONCE):
        for chunk in (yield from _between(wanted[at : at + _SPANS_AT_ONCE], layout)):
            found.setdefault(chunk.document_id, {})[chunk.position] = chunk
    return tuple(
        tuple(chunk for position, chunk in sorted(found.get(document_id, {}).items()) if first <= position < end)
        for document_id, first, end in request.spans
    )


def _between(spans: Sequence[Span], layout: IndexLayout) -> Step[list[Chunk]]:
    places = [
        ({"document": document_id}, {"position": {"gte": min(max(first, 0), _INTEGERS), "lt": min(end, _INTEGERS)}})
        for document_id, first, end in spans
    ]
    within = [{"bool": {"filter": [{"term": whose}, {"range": where}]}} for whose, where in places]
    body = {
        "_source": list(SOURCE_FIELDS),
        "query": {"constant_score": {"filter": {"bool": {"should": within, "minimum_should_match": 1}}}},
        "sort": [{"document": "asc"}, {"position": "asc"}],
    }
    rows = yield from sorted_rows(layout.alias("chunks"), body, size=_CHUNKS_AT_ONCE, purpose="neighbours")
    return [chunk_of(row["_source"], row["_id"]) for row in rows]


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
    """Return on which pages slices of documents are, the labels of these pages, and their boxes; no lines.

    A place without pages where the document has none, or is not there as a whole.

    Raises:
        ServerError: the server cannot be reached, or refuses.
    """
    ids = dict.fromkeys(record_id(document_id) for document_id, _, _ in spans)
    read = yield from _read(ids, layout, fields=("rest.page_starts", "rest.page_labels", "rest.printed"))
    kept = {key: source.get("rest", {}) for key, source in read.items()}
    return tuple(
        placed_in(own.get("page_starts", ()), restored(own.get("page_labels", [])), printed_of(own), start, end)
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
    params = {"_source_includes": ",".join(fields)}
    return (yield from kept_by_id(layout.alias("documents"), ids, params, purpose="text"))
