"""Read back what a set holds: documents, entries, chunks with vectors, the ledger and sizes; check that it is whole.

What is asked by id (`get`, `fingerprint`) is as it was last written; what is listed or counted is as the last refresh
let searches see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from catena import Entry, Outcome, View
from catena.effects import Step, ask
from catena.model import MOST_VALUES, Figure, IngestState, LibraryError, UnknownDocumentError, distinct
from catena.store import DocumentInfo
from catena_server.actions import figure_id, piece_id, record_id
from catena_server.calls import (
    Call,
    Cursor,
    Flavour,
    ResultPage,
    Row,
    kept_by_id,
    page_by_page,
    page_of,
    quoted,
    search_call,
    searched,
)
from catena_server.encoding import restored
from catena_server.filters import facet_value, facets_of, field_of
from catena_server.index_layout import PARTS, IndexLayout, Part, refresh
from catena_server.restoring import StoredChunk, entry_of, figure_of, of_our_form, outcome_of, stored_chunk
from catena_server.writing import fingerprints

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


PAGE = 500  # items; a chunk with its vectors has some 20 kB
_FIELDS = 1_000  # names of fields that are told; with more, a misspelled one is not noticed
_FOUND_BY = "words,languages,vectors,facets,several_*"  # of a chunk, that no entry is made from


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStats:
    """The size of a set.

    Attributes:
        views: chunks that have words of a kind of view, by kind.
        outcomes: lines in the ledger.
        bytes: on disk, by part, replicas included.
    """

    documents: int
    chunks: int
    views: Mapping[str, int]
    outcomes: int
    bytes: Mapping[Part, int]


def fingerprint(document_id: str, layout: IndexLayout) -> Step[str | None]:
    """Return the fingerprint of a document, "" of one that is not whole, None when it is not there."""
    record = yield from _record(document_id, layout, ("state", "fingerprint"))
    if record is None:
        return None
    return str(record["fingerprint"]) if record["state"] == "whole" else ""


def fingerprints_read(document_ids: Sequence[str], layout: IndexLayout) -> Step[dict[str, str]]:
    """Return the fingerprints of those of the documents that are whole, and whose latest reading did not fail."""
    stored = yield from fingerprints(document_ids, layout)
    states = yield from _states(sorted(stored), layout)
    return {document_id: print_ for document_id, print_ in stored.items() if states.get(document_id) != "failed"}


def get(document_id: str, layout: IndexLayout, *, pictures: bool = True) -> Step[Entry]:
    """Return all that was put of a document, its vectors aside; its figures only where `pictures` is true.

    Raises:
        UnknownDocumentError: it is not there.
        LibraryError: its writing did not end, or something of it is gone.
    """
    record = yield from _known(document_id, layout)
    if record["state"] != "whole":
        what = f"document {document_id!r} is being written, or its writing did not end; nothing else is concerned"
        raise LibraryError(layout.name, what, "put it again")
    with of_our_form(f"document {document_id!r}"):
        ids = list(record["rest"]["chunk_ids"])
        pieces = [piece_id(document_id, piece) for piece in range(record["pieces"])]
        figures = [figure_id(document_id, number) for number in range(record["figures"] if pictures else 0)]
    belongings = yield from _sources("documents", [*pieces, *figures], layout)
    chunks = yield from _sources("chunks", ids, layout)
    if missing := [kept for kept in (*pieces, *figures) if kept not in belongings]:
        raise _gone(document_id, f"{len(missing)} of its pieces and figures", layout)
    if missing := [chunk_id for chunk_id in ids if chunk_id not in chunks]:
        raise _gone(document_id, f"{len(missing)} of its {len(ids)} chunks, as {missing[0]!r},", layout)
    return entry_of(
        record,
        [belongings[piece] for piece in pieces],
        [belongings[figure] for figure in figures],
        [(chunk_id, chunks[chunk_id]) for chunk_id in ids],
    )


def figure(document_id: str, name: str, layout: IndexLayout) -> Step[Figure]:
    """Return a figure of a document by its file name.

    Raises:
        UnknownDocumentError: the document is not there.
        LibraryError: it has no such figure.
    """
    record = yield from _known(document_id, layout, ("figures",))
    ids = [figure_id(document_id, number) for number in range(record["figures"])]
    kept = yield from _sources("documents", ids, layout)
    with of_our_form(f"document {document_id!r}"):
        shown = next((each for each in map(kept.get, ids) if each and restored(each["figure"]["name"]) == name), None)
        found = None if shown is None else figure_of(shown["figure"])
    if found is None:
        raise LibraryError(layout.name, f"document {document_id!r} has no figure {name!r}")
    return found


def documents(
    layout: IndexLayout, flavour: Flavour, cursor: Cursor | None = None, *, size: int = PAGE
) -> Step[ResultPage[DocumentInfo]]:
    """Return a page of what is known of each document, by id; see `pages` for the next."""
    page = yield from _records(layout, flavour, cursor, size)
    sources = [hit["_source"] for hit in page.items]
    states = yield from _states([source["document"] for source in sources], layout)
    with of_our_form("a document's record"):
        infos = tuple(_info(source, states.get(source["document"], "indexed")) for source in sources)
    return ResultPage(infos, page.cursor)


def _records(layout: IndexLayout, flavour: Flavour, cursor: Cursor | None, size: int) -> Step[ResultPage[Row]]:
    body = {"query": {"term": {"record": "document"}}, "_source": {"excludes": ["rest"]}}
    return (yield from page_of(layout.alias("documents"), flavour, cursor, body, sort=("document",), size=size))


def ledger(
    layout: IndexLayout, flavour: Flavour, cursor: Cursor | None = None, *, size: int = PAGE
) -> Step[ResultPage[Outcome]]:
    """Return a page of the latest outcome of every source."""
    body = {"query": {"match_all": {}}, "_source": ["outcome"]}
    page = yield from page_of(layout.alias("ledger"), flavour, cursor, body, sort=("source", "key"), size=size)
    return ResultPage(tuple(outcome_of(hit["_source"]) for hit in page.items), page.cursor)


def export(
    layout: IndexLayout,
    flavour: Flavour,
    cursor: Cursor | None = None,
    *,
    document_id: str | None = None,
    size: int = PAGE,
) -> Step[ResultPage[StoredChunk]]:
    """Return a page of all chunks with their views and vectors, by document and position.

    A server keeps vectors as floats of 32 bits; Elasticsearch may change the last of these bits.

    Args:
        layout: of the set.
        flavour: of the server.
        cursor: of the page before.
        document_id: whose chunks; None for all.
        size: chunks in a page.
    """
    query = {"match_all": {}} if document_id is None else {"term": {"document": document_id}}
    body: dict[str, Any] = {"query": query, "_source": {"excludes": ["words", "languages", "facets"]}}
    if flavour == "elasticsearch":  # which leaves vectors out of the source
        body["fields"] = ["vectors.*", "several_*.vector"]
    sort = ("document", "position", "id")
    page = yield from page_of(layout.alias("chunks"), flavour, cursor, body, sort=sort, size=size)
    return ResultPage(tuple(stored_chunk(hit, layout) for hit in page.items), page.cursor)


def field_names(layout: IndexLayout) -> Step[frozenset[str]]:
    """Return the fields by which chunks can be filtered; none where they are too many, or too long, to be told."""
    body = {"size": 0, "track_total_hits": False, "aggs": {"by": {"terms": {"field": "facets.has", "size": _FIELDS}}}}
    found = yield from searched(layout.alias("chunks"), body, purpose="fields")
    known = found["aggregations"]["by"]
    fields = [field_of(bucket["key"]) for bucket in known["buckets"]]
    if known.get("sum_other_doc_count") or None in fields:
        return frozenset()
    return frozenset(field for field in fields if field is not None)


def field_values(names: Sequence[str], layout: IndexLayout) -> Step[dict[str, tuple[Any, ...] | None]]:
    """Return the values of fields, sorted as text; None of a field with more than can be told, or too long ones."""
    aggregations = {
        f"{group}{place}": {"terms": {"field": field, "size": MOST_VALUES}}
        for place, name in enumerate(names)
        for group, field in facets_of(name).items()
    }
    body = {"size": 0, "track_total_hits": False, "aggs": aggregations}
    found = (yield from searched(layout.alias("chunks"), body, purpose="values"))["aggregations"]

    def told(place: int) -> tuple[Any, ...] | None:
        groups = {group: found[f"{group}{place}"] for group in facets_of("")}
        if any(one.get("sum_other_doc_count") for one in groups.values()):
            return None
        keys = [(group, bucket["key"]) for group, one in groups.items() for bucket in one["buckets"]]
        values = [facet_value(group, key) for group, key in keys]
        return None if None in values or len(values) > MOST_VALUES else distinct(values)

    return {name: told(place) for place, name in enumerate(names)}


def stats(layout: IndexLayout) -> Step[ServerStats]:
    """Return the size of a set."""
    at = {part: layout.alias(part) for part in PARTS}
    path = f"/{quoted(at['chunks'])}/_mapping"
    (mapping,) = yield from ask([Call(method="GET", path=path, purpose="size")])
    kinds = _kinds(mapping)
    counted = {"size": 0, "track_total_hits": True}
    by_kind = {**counted, **({"aggs": _views(kinds, layout)} if kinds else {})}
    records = counted | {"query": {"term": {"record": "document"}}}
    searches = (("chunks", by_kind), ("documents", records), ("ledger", counted))
    found, n_documents, n_outcomes, *sizes = yield from ask(
        [
            *(search_call(f"{layout.name}-{part}", body, purpose="size") for part, body in searches),
            *(Call(method="GET", path=f"/{quoted(at[part])}/_stats/store", purpose="size") for part in PARTS),
        ]
    )
    buckets = found["aggregations"]["views"]["buckets"] if kinds else {}
    return ServerStats(
        documents=n_documents["hits"]["total"]["value"],
        chunks=found["hits"]["total"]["value"],
        views={kind: buckets[str(at)]["doc_count"] for at, kind in enumerate(kinds)},
        outcomes=n_outcomes["hits"]["total"]["value"],
        bytes={
            part: reply["_all"]["total"]["store"]["size_in_bytes"] for part, reply in zip(PARTS, sizes, strict=True)
        },
    )


def _record(document_id: str, layout: IndexLayout, fields: Sequence[str] = ()) -> Step[Mapping[str, Any] | None]:
    path = f"/{quoted(layout.alias('documents'))}/_doc/{record_id(document_id)}"
    params = {"_source_includes": ",".join(fields)} if fields else {}
    (found,) = yield from ask([Call(method="GET", path=path, params=params, missing_ok=True, purpose="record")])
    return found["_source"] if found and found.get("found") else None


def _known(document_id: str, layout: IndexLayout, fields: Sequence[str] = ()) -> Step[Mapping[str, Any]]:
    record = yield from _record(document_id, layout, fields)
    if record is None:
        raise UnknownDocumentError(layout.name, f"it holds no document {document_id!r}")
    return record


def _sources(part: Part, ids: Sequence[str], layout: IndexLayout) -> Step[dict[str, Mapping[str, Any]]]:
    """Return what is kept under ids, as last written, less what no entry is made from."""
    return (yield from kept_by_id(layout.alias(part), ids, {"_source_excludes": _FOUND_BY}, purpose="contents"))


def _states(document_ids: Sequence[str], layout: IndexLayout) -> Step[dict[str, IngestState]]:
    """Return the states of documents in the ledger; of one with several sources, that of the last by name."""
    if not document_ids:
        return {}
    body = {
        "query": {"terms": {"document": list(document_ids)}},
        "size": 10_000,
        "sort": [{"source": "asc"}],
        "_source": ["document", "state"],
    }
    found = yield from searched(layout.alias("ledger"), body, purpose="ledger")
    return {hit["_source"]["document"]: hit["_source"]["state"] for hit in found["hits"]["hits"]}


def _info(source: Mapping[str, Any], state: IngestState) -> DocumentInfo:
    return DocumentInfo(
        id=source["document"],
        title=restored(source.get("title", "")),
        source=restored(source.get("source", "")),
        state=state,
        chunks=source["chunks"],
        pages=source.get("pages", 0),
        fingerprint=source["fingerprint"],
        whole=source["state"] == "whole",
    )


def _kinds(mapping: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of view that have fields of words, sorted."""
    properties = next(iter(mapping.values()))["mappings"].get("properties", {})
    single = properties.get("words", {}).get("properties", {})
    several = (
        name.removeprefix("several_")
        for name, field in properties.items()
        if name.startswith("several_") and "words" in field["properties"]
    )
    return tuple(sorted(unquote(name.removeprefix("of_"), errors="surrogatepass") for name in (*single, *several)))


def _views(kinds: Sequence[str], layout: IndexLayout) -> dict[str, Any]:
    """Return the aggregation that counts the chunks with words of each kind."""

    def has(kind: str) -> dict[str, Any]:
        exists: dict[str, Any] = {"exists": {"field": layout.words(kind)}}
        path = layout.nested(kind)
        return exists if path is None else {"nested": {"path": path, "query": exists}}

    return {"views": {"filters": {"filters": {str(at): has(kind) for at, kind in enumerate(kinds)}}}}


def _gone(document_id: str, what: str, layout: IndexLayout) -> LibraryError:
    problem = f"of document {document_id!r} {what} are not on the server"
    return LibraryError(layout.name, problem, "put it again, with an empty fingerprint")


def stored_chunks(document_id: str, layout: IndexLayout, flavour: Flavour) -> Step[list[StoredChunk]]:
    """Return the chunks of a document with their views and vectors, as searches see them."""
    chunks: list[StoredChunk] = []
    cursor: Cursor | None = None
    while True:
        page = yield from export(layout, flavour, cursor, document_id=document_id)
        chunks.extend(page.items)
        cursor = page.cursor
        if cursor is None:
            return chunks


def known_vectors(
    document_id: str, layout: IndexLayout, flavour: Flavour
) -> Step[dict[tuple[str, str], NDArray[np.float32]]]:
    """Return the vectors of a document whose text is known, shape (dim,), by (kind of view, `text_digest`).

    They are those that searches see. Of an unknown document there are none.
    """
    found: dict[tuple[str, str], NDArray[np.float32]] = {}
    for chunk in (yield from stored_chunks(document_id, layout, flavour)):
        named = zip(chunk.kinds, chunk.digests, chunk.rows, strict=True)
        found.update({(kind, name): row for kind, name, row in named if name and row.any()})
    return found


def made_views(document_id: str, layout: IndexLayout) -> Step[Mapping[str, tuple[View, ...]]]:
    """Return the views of a document that say what they were made from, by that (`View.made`).

    The views of a hash that several chunks have are given once, with the id of the first of these chunks. Of a
    document that is unknown, or not whole, there are none.
    """
    try:
        entry = yield from get(document_id, layout)
    except (UnknownDocumentError, LibraryError):
        return {}
    places = {chunk.id: at for at, chunk in enumerate(entry.chunks)}
    found: dict[str, list[View]] = {}
    for view in sorted((view for view in entry.views if view.made), key=lambda view: places[view.chunk_id]):
        same = found.setdefault(view.made, [])
        if not same or same[0].chunk_id == view.chunk_id:
            same.append(view)
    return {made: tuple(views) for made, views in found.items()}


_PAGE = 500  # documents compared at once
_BELONGING = {"terms": {"record": ["text", "figure"]}}


def verify(
    layout: IndexLayout, flavour: Flavour, tell: Callable[[int], None] = lambda done: None
) -> Step[tuple[str, ...]]:
    """Check a set, and return each problem as one sentence; () when all is well.

    Checked, while no one writes: every document was written to its end; it has as many chunks, pieces of text and
    figures as its record says; its chunks stand at 0, 1, 2 …; no chunk and no piece is of a document without a
    record; the set was not left without refreshes by a loading that did not end. Nothing is changed.

    Args:
        layout: of the set.
        flavour: of the server.
        tell: told how many documents' records are compared, now and then.
    """
    yield from refresh(layout)
    problems = yield from _settings_problems(layout)
    done = 0

    def compare(page: tuple[Row, ...]) -> Step[None]:
        nonlocal done
        problems.extend((yield from _record_problems([hit["_source"] for hit in page], layout)))
        done += len(page)
        tell(done)

    yield from page_by_page(lambda cursor: _records(layout, flavour, cursor, _PAGE), compare)
    for part, what, query in (("chunks", "chunks", {"match_all": {}}), ("documents", "pieces", _BELONGING)):
        problems += yield from _strays(part, what, query, layout)  # type: ignore[arg-type]
    return tuple(problems)


def _settings_problems(layout: IndexLayout) -> Step[list[str]]:
    path = f"/{quoted(layout.alias('chunks'))}/_settings"
    params = {"flat_settings": True}
    (found,) = yield from ask([Call(method="GET", path=path, params=params, purpose="verify")])
    stopped = any(each["settings"].get("index.refresh_interval") == "-1" for each in found.values())
    return ["searches see nothing new: a loading did not end, `settle` ends it"] if stopped else []


def _record_problems(records: Sequence[Mapping[str, Any]], layout: IndexLayout) -> Step[list[str]]:
    if not records:
        return []
    ids = [record["document"] for record in records]
    of_them = {"terms": {"document": ids}}
    places = {"first": {"min": {"field": "position"}}, "last": {"max": {"field": "position"}}}
    kinds = {"kinds": {"terms": {"field": "record"}}}
    belonging = {"bool": {"filter": [of_them, _BELONGING]}}
    by_document = {"terms": {"field": "document", "size": len(ids)}}
    chunks, pieces = yield from ask(
        [
            _search("chunks", of_them, {"by": {**by_document, "aggs": places}}, layout),
            _search("documents", belonging, {"by": {**by_document, "aggs": kinds}}, layout),
        ]
    )
    found = {bucket["key"]: bucket for bucket in chunks["aggregations"]["by"]["buckets"]}
    beside = {
        bucket["key"]: {kind["key"]: kind["doc_count"] for kind in bucket["kinds"]["buckets"]}
        for bucket in pieces["aggregations"]["by"]["buckets"]
    }
    return [
        f"document {record['document']!r}: {problem}"
        for record in records
        for problem in _problems(record, found.get(record["document"]), beside.get(record["document"], {}))
    ]


def _problems(
    record: Mapping[str, Any], chunks: Mapping[str, Any] | None, beside: Mapping[str, int]
) -> Iterator[str]:
    if record["state"] != "whole":
        yield "its writing or deleting did not end; put it again, or delete it"
        return
    count = chunks["doc_count"] if chunks else 0
    if count != record["chunks"]:
        yield f"{count} chunks are there, it has {record['chunks']}"
    elif chunks and (chunks["first"]["value"], chunks["last"]["value"]) != (0, count - 1):
        yield f"its {count} chunks do not stand at 0 to {count - 1}"
    for kind, name in (("text", "pieces"), ("figure", "figures")):
        if beside.get(kind, 0) != record[name]:
            yield f"{beside.get(kind, 0)} {name} are there, it has {record[name]}"


def _strays(part: Part, what: str, query: Mapping[str, Any], layout: IndexLayout) -> Step[list[str]]:
    """Return a sentence for each document that has chunks or pieces, and no record."""
    problems: list[str] = []
    after: Mapping[str, Any] = {}
    while True:
        sources = {"sources": [{"document": {"terms": {"field": "document"}}}], "size": _PAGE, **after}
        (found,) = yield from ask([_search(part, query, {"by": {"composite": sources}}, layout)])
        buckets = found["aggregations"]["by"]["buckets"]
        if not buckets:
            return problems
        counts = {bucket["key"]["document"]: bucket["doc_count"] for bucket in buckets}
        keys = {document_id: record_id(document_id) for document_id in counts}
        there = yield from kept_by_id(layout.alias("documents"), keys.values(), {"_source": False}, purpose="verify")
        problems += [
            f"{count} {what} of document {document_id!r} are there, which has no record"
            for document_id, count in counts.items()
            if keys[document_id] not in there
        ]
        after = {"after": found["aggregations"]["by"]["after_key"]}


def _search(part: Part, query: Mapping[str, Any], aggregations: Mapping[str, Any], layout: IndexLayout) -> Call:
    body = {"query": query, "size": 0, "track_total_hits": False, "aggs": aggregations}
    return search_call(layout.alias(part), body, purpose="verify")
