"""Whether what a server holds is whole: every document's chunks and pieces are there, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from catena.effects.steps import Step, ask
from catena.server.call import Call, Flavour
from catena.server.indices import refresh
from catena.server.layout import IndexLayout, Part, quoted
from catena.server.pages import WHOLE, Cursor, page_of
from catena.server.records import record_id

_PAGE = 500  # documents compared at once
_BELONGING = {"terms": {"record": ["text", "figure"]}}


def verify(
    layout: IndexLayout, flavour: Flavour, tell: Callable[[int], None] = lambda done: None
) -> Step[tuple[str, ...]]:
    """Return what is not as it should be, each as one sentence; () when all is well.

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
    cursor: Cursor | None = None
    done = 0
    while True:
        body = {"query": {"term": {"record": "document"}}, "_source": {"excludes": ["rest"]}}
        page = yield from page_of(layout.alias("documents"), flavour, cursor, body, sort=("document",), size=_PAGE)
        records = [hit["_source"] for hit in page.items]
        problems += yield from _record_problems(records, layout)
        done += len(records)
        tell(done)
        cursor = page.cursor
        if cursor is None:
            break
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
    chunks, pieces = yield from ask(
        [
            _search("chunks", of_them, {"by": _by_document(len(ids), places)}, layout),
            _search("documents", belonging, {"by": _by_document(len(ids), kinds)}, layout),
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
    held = chunks["doc_count"] if chunks else 0
    if held != record["chunks"]:
        yield f"{held} chunks are there, it has {record['chunks']}"
    elif chunks and (chunks["first"]["value"], chunks["last"]["value"]) != (0, held - 1):
        yield f"its {held} chunks do not stand at 0 to {held - 1}"
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
        call = Call(
            method="POST",
            path=f"/{quoted(layout.alias('documents'))}/_mget",
            params={"_source": False},
            body={"ids": [record_id(document_id) for document_id in counts]},
            purpose="verify",
        )
        (records,) = yield from ask([call])
        for (document_id, count), answer in zip(counts.items(), records["docs"], strict=True):
            if not answer.get("found"):
                problems.append(f"{count} {what} of document {document_id!r} are there, which has no record")
        after = {"after": found["aggregations"]["by"]["after_key"]}


def _by_document(most: int, inside: Mapping[str, Any]) -> dict[str, Any]:
    return {"terms": {"field": "document", "size": most}, "aggs": inside}


def _search(part: Part, query: Mapping[str, Any], aggregations: Mapping[str, Any], layout: IndexLayout) -> Call:
    body = {"query": query, "size": 0, "track_total_hits": False, "aggs": aggregations}
    path = f"/{quoted(layout.alias(part))}/_search"
    return Call(method="POST", path=path, params=WHOLE, body=body, purpose="verify")
