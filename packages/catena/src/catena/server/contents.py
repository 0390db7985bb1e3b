"""What is on the server: documents, entries, chunks with their vectors, the ledger, and how much of all.

What is asked by id (`get`, `fingerprint`) is as it was last written; what is listed or counted is as the last refresh
let searches see it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from catena.effects.steps import Step, ask
from catena.model import Entry, Figure, IngestState, Outcome
from catena.model.errors import LibraryError, ServerError, UnknownDocumentError
from catena.server.call import Call, Flavour
from catena.server.filters import field_of
from catena.server.layout import IndexLayout, Part, quoted
from catena.server.mapping import PARTS
from catena.server.pages import WHOLE, Cursor, Page, page_of
from catena.server.records import figure_id, piece_id, record_id
from catena.server.restoring import StoredChunk, entry_of, figure_of, of_our_form, outcome_of, stored_chunk
from catena.server.wire import restored
from catena.server.writing import fingerprints

PAGE = 500  # items; a chunk with its vectors has some 20 kB
_AT_ONCE = 200  # documents fetched by id in one call
_IN_FLIGHT = 4  # such calls side by side
_FIELDS = 1_000  # names of fields that are told; with more, a misspelled one is not noticed
_FOUND_BY = "words,vectors,facets,several_*"  # of a chunk, that no entry is made from


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentInfo:
    """What a set says of one document.

    Attributes:
        state: as the ledger has it, "indexed" where it has nothing.
        pages: 0 for a source without pages.
        whole: False while it is written, and after a writing or deleting that did not end.
    """

    id: str
    title: str
    source: str
    state: IngestState
    chunks: int
    pages: int
    fingerprint: str
    whole: bool


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
    held = yield from fingerprints(document_ids, layout)
    states = yield from _states(sorted(held), layout)
    return {document_id: print_ for document_id, print_ in held.items() if states.get(document_id) != "failed"}


def get(document_id: str, layout: IndexLayout, *, pictures: bool = True) -> Step[Entry]:
    """Return all that was put of a document, its vectors aside; its figures only where `pictures` is true.

    Raises:
        UnknownDocumentError: it is not there.
        LibraryError: its writing did not end, or something of it is gone.
    """
    record = yield from _record(document_id, layout)
    if record is None:
        raise UnknownDocumentError(layout.name, f"it holds no document {document_id!r}")
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
    record = yield from _record(document_id, layout, ("figures",))
    if record is None:
        raise UnknownDocumentError(layout.name, f"it holds no document {document_id!r}")
    ids = [figure_id(document_id, number) for number in range(record["figures"])]
    kept = yield from _sources("documents", ids, layout)
    with of_our_form(f"document {document_id!r}"):
        shown = next((held for held in map(kept.get, ids) if held and restored(held["figure"]["name"]) == name), None)
        found = None if shown is None else figure_of(shown["figure"])
    if found is None:
        raise LibraryError(layout.name, f"document {document_id!r} has no figure {name!r}")
    return found


def documents(
    layout: IndexLayout, flavour: Flavour, cursor: Cursor | None = None, *, size: int = PAGE
) -> Step[Page[DocumentInfo]]:
    """Return a page of what is known of each document, by id; see `pages` for the next."""
    body = {"query": {"term": {"record": "document"}}, "_source": {"excludes": ["rest"]}}
    page = yield from page_of(layout.alias("documents"), flavour, cursor, body, sort=("document",), size=size)
    sources = [hit["_source"] for hit in page.items]
    states = yield from _states([source["document"] for source in sources], layout)
    with of_our_form("a document's record"):
        infos = tuple(_info(source, states.get(source["document"], "indexed")) for source in sources)
    return Page(infos, page.cursor)


def ledger(
    layout: IndexLayout, flavour: Flavour, cursor: Cursor | None = None, *, size: int = PAGE
) -> Step[Page[Outcome]]:
    """Return a page of the latest outcome of every source."""
    body = {"query": {"match_all": {}}, "_source": ["outcome"]}
    page = yield from page_of(layout.alias("ledger"), flavour, cursor, body, sort=("source", "key"), size=size)
    return Page(tuple(outcome_of(hit["_source"]) for hit in page.items), page.cursor)


def export(
    layout: IndexLayout,
    flavour: Flavour,
    cursor: Cursor | None = None,
    *,
    document_id: str | None = None,
    size: int = PAGE,
) -> Step[Page[StoredChunk]]:
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
    body: dict[str, Any] = {"query": query, "_source": {"excludes": ["words", "facets"]}}
    if flavour == "elasticsearch":  # which leaves vectors out of the source
        body["fields"] = ["vectors.*", "several_*.vector"]
    sort = ("document", "position", "id")
    page = yield from page_of(layout.alias("chunks"), flavour, cursor, body, sort=sort, size=size)
    return Page(tuple(stored_chunk(hit, layout) for hit in page.items), page.cursor)


def field_names(layout: IndexLayout) -> Step[frozenset[str]]:
    """Return the fields by which chunks can be filtered; none where they are too many, or too long, to be told."""
    body = {"size": 0, "track_total_hits": False, "aggs": {"by": {"terms": {"field": "facets.has", "size": _FIELDS}}}}
    path = f"/{quoted(layout.alias('chunks'))}/_search"
    (found,) = yield from ask([Call(method="POST", path=path, params=WHOLE, body=body, purpose="fields")])
    held = found["aggregations"]["by"]
    fields = [field_of(bucket["key"]) for bucket in held["buckets"]]
    if held.get("sum_other_doc_count") or None in fields:
        return frozenset()
    return frozenset(field for field in fields if field is not None)


def stats(layout: IndexLayout) -> Step[ServerStats]:
    """Return the size of a set."""
    chunks, documents, ledger = (f"/{quoted(layout.alias(part))}" for part in ("chunks", "documents", "ledger"))
    (mapping,) = yield from ask([Call(method="GET", path=f"{chunks}/_mapping", purpose="size")])
    kinds = _kinds(mapping)
    counted = {"size": 0, "track_total_hits": True}
    by_kind = {**counted, **({"aggs": _views(kinds, layout)} if kinds else {})}
    records = counted | {"query": {"term": {"record": "document"}}}
    found, n_documents, n_outcomes, *sizes = yield from ask(
        [
            Call(method="POST", path=f"{chunks}/_search", params=WHOLE, body=by_kind, purpose="size"),
            Call(method="POST", path=f"{documents}/_search", params=WHOLE, body=records, purpose="size"),
            Call(method="POST", path=f"{ledger}/_search", params=WHOLE, body=counted, purpose="size"),
            *(
                Call(method="GET", path=f"/{quoted(layout.alias(part))}/_stats/store", purpose="size")
                for part in PARTS
            ),
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


def _sources(part: Part, ids: Sequence[str], layout: IndexLayout) -> Step[dict[str, Mapping[str, Any]]]:
    """Return what is kept under ids, as last written; what is not there is left out."""
    path = f"/{quoted(layout.alias(part))}/_mget"
    batches = [list(ids[at : at + _AT_ONCE]) for at in range(0, len(ids), _AT_ONCE)]
    params = {"_source_excludes": _FOUND_BY}
    found: dict[str, Mapping[str, Any]] = {}
    for at in range(0, len(batches), _IN_FLIGHT):
        calls = [
            Call(method="POST", path=path, params=params, body={"ids": batch}, purpose="contents")
            for batch in batches[at : at + _IN_FLIGHT]
        ]
        replies = yield from ask(calls)
        for answer in (answer for reply in replies for answer in reply["docs"]):
            if "error" in answer:
                raise ServerError(layout.alias(part), str(answer["error"].get("reason", answer["error"])))
            if answer.get("found"):
                found[answer["_id"]] = answer["_source"]
    return found


def _states(document_ids: Sequence[str], layout: IndexLayout) -> Step[dict[str, IngestState]]:
    """Return what the ledger says of documents; of one with several sources, what it says of the last by name."""
    if not document_ids:
        return {}
    body = {
        "query": {"terms": {"document": list(document_ids)}},
        "size": 10_000,
        "sort": [{"source": "asc"}],
        "_source": ["document", "state"],
    }
    path = f"/{quoted(layout.alias('ledger'))}/_search"
    (found,) = yield from ask([Call(method="POST", path=path, params=WHOLE, body=body, purpose="ledger")])
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
    said = f"of document {document_id!r} {what} are not on the server"
    return LibraryError(layout.name, said, "put it again, with an empty fingerprint")
