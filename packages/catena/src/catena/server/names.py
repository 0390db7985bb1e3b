"""What a question names, asked of a server: the same as the embedded library says, without all titles in memory.

The server is asked only for the documents that bear a name, or a name of a pattern, that stands in the question. From
their titles the same index of names is made as from all of them, and it says the same of this question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from catena.effects.steps import Failed, FindNames, NamesFound, Step, ask, together
from catena.model import Name
from catena.server.call import Call
from catena.server.layout import IndexLayout, Part, quoted
from catena.server.wire import restored, sendable
from catena.store.question_names import (
    LOOKED_AT,
    is_value_in,
    names_besides,
    names_found,
    possible_names,
    possible_patterns,
)
from catena.text.names import NameIndex, other_forms, unspaced
from catena.text.words import normalise_term

_PAGE: Final = 1_000  # titles of one answer
_PASSAGES: Final = 100  # of one answer
_AT_ONCE: Final = 200  # look-ups in one request
_LONGEST_PART: Final = 256  # characters that are looked for inside of terms; see `filters.CONTAINED`
_MOST_TERMS: Final = 65_536  # in one clause, the default of servers


def find_names(request: FindNames, layout: IndexLayout) -> Step[NamesFound]:
    """Return what a question names, as `catena.store.question_names` decides it: two rounds of requests, in general.

    Names of more than `question_names.LONGEST_NAME` characters are not looked for. The passages that decide whether
    a name is a property are taken by document id; the embedded library takes those that were indexed first.

    Raises:
        ServerError: the server cannot be reached, or refuses.
    """
    index = NameIndex((yield from _titles(request.query, layout)))
    known, near = index.known_in(request.query), index.nearly_in(request.query)
    looked_for = [unknown.text for _, unknown in near]
    looked_for += [form for name in names_besides(request) for form in other_forms(name)]
    terms, begun, properties = yield from _all_of(
        [
            _terms_among(dict.fromkeys(map(normalise_term, looked_for)), layout),
            _beginnings_among(dict.fromkeys(said for said, _ in near), layout),
            _properties_among(known, layout),
        ]
    )
    return names_found(
        request,
        known=known,
        near=(unknown for said, unknown in near if said not in begun),
        is_term=lambda name: normalise_term(name) in terms,
        is_property=lambda name: name.text in properties,
    )


def _titles(query: str, layout: IndexLayout) -> Step[dict[str, str]]:
    """Return the titles of the documents whose names, or patterns of names, stand in a question, by document id."""
    names, patterns = sendable(possible_names(query)), sendable(possible_patterns(query))
    if not names:
        return {}
    bearing = [{"terms": {"names": names}}, *([{"terms": {"name_patterns": patterns}}] if patterns else [])]
    wanted = [{"term": {"record": "document"}}, {"bool": {"should": bearing, "minimum_should_match": 1}}]
    titles: dict[str, str] = {}
    after: Sequence[Any] = ()
    while True:
        body = {
            "size": _PAGE,
            "track_total_hits": False,
            "_source": ["document", "title"],
            "query": {"bool": {"filter": wanted}},
            "sort": [{"document": "asc"}],
            **({"search_after": after} if after else {}),
        }
        rows = (yield from _search("documents", body, layout))["hits"]["hits"]
        titles |= {row["_source"]["document"]: restored(row["_source"]["title"]) for row in rows}
        if len(rows) < _PAGE:
            return titles
        after = rows[-1]["sort"]


def _terms_among(names: Iterable[str], layout: IndexLayout) -> Step[frozenset[str]]:
    """Return those of the normalised names that are a critical term, part of one, or one but for its spaces."""
    filters = {name: _part_of_a_term(name) for name in names if name}
    found = yield from _holding("chunks", filters, layout)
    return found | {""}


def _part_of_a_term(name: str) -> dict[str, Any]:
    ways: list[dict[str, Any]] = [{"term": {"terms_unspaced": unspaced(name)}}]
    if name.isdigit():  # of a term that is repeated, what stands before the number of its repetition
        ways.append({"regexp": {"terms": {"value": f"[^\x1f]*{name}.*"}}})
    elif len(name) <= _LONGEST_PART:
        escaped = "".join(f"\\{sign}" if sign in "*?\\" else sign for sign in name)
        ways.append({"wildcard": {"terms": {"value": f"*{escaped}*"}}})
    return {"bool": {"should": ways, "minimum_should_match": 1}}


def _beginnings_among(said: Iterable[str], layout: IndexLayout) -> Step[frozenset[str]]:
    """Return what begins the name of any document."""
    filters = {name: {"prefix": {"names": {"value": sendable(name)}}} for name in said}
    return (yield from _holding("documents", filters, layout))


def _properties_among(known: Sequence[Name], layout: IndexLayout) -> Step[frozenset[str]]:
    """Return those of the names that are values in the tables of as many other documents as bear them, or of more."""
    found = yield from _all_of([_is_property(name, layout) for name in known])
    return frozenset(name.text for name, holds in zip(known, found, strict=True) if holds)


def _is_property(name: Name, layout: IndexLayout) -> Step[bool]:
    bearers = [
        {"terms": {"document": name.documents[at : at + _MOST_TERMS]}}
        for at in range(0, len(name.documents), _MOST_TERMS)
    ]
    query = {"bool": {"filter": [{"term": {"terms": name.text}}, {"term": {"kind": "table"}}], "must_not": bearers}}
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
        rows = (yield from _search("chunks", body, layout))["hits"]["hits"]
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
    for at in range(0, len(names), _AT_ONCE):
        asked = names[at : at + _AT_ONCE]
        aggregation = {"filters": {"filters": [filters[name] for name in asked]}}
        body = {"size": 0, "track_total_hits": False, "aggs": {"names": aggregation}}
        buckets = (yield from _search(part, body, layout))["aggregations"]["names"]["buckets"]
        found.update(name for name, bucket in zip(asked, buckets, strict=True) if bucket["doc_count"])
    return frozenset(found)


def _search(part: Part, body: Mapping[str, Any], layout: IndexLayout) -> Step[Mapping[str, Any]]:
    path = f"/{quoted(layout.alias(part))}/_search"
    whole = {"allow_partial_search_results": False}  # a shard that fails is an error
    (reply,) = yield from ask([Call(method="POST", path=path, params=whole, body=body, purpose="names")])
    answer: Mapping[str, Any] = reply
    return answer


def _all_of(steps: Sequence[Step[Any]]) -> Step[list[Any]]:
    """Return the results of steps that go side by side; the first failure is raised."""
    results = yield from together(steps)
    for result in results:
        if isinstance(result, Failed):
            raise result.error
    return results
