"""A search server of a few lines, in memory: the searches of `catena_server`'s filters, names and reading."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeVar

from catena_server import Call
from catena_server.actions import Action

T = TypeVar("T")


class SmallServer:
    """The documents of a set, by part and id, and the calls that were answered."""

    def __init__(self, actions: Sequence[Action]) -> None:
        self.parts: dict[str, dict[str, Any]] = {"chunks": {}, "documents": {}}
        for action in actions:
            self.parts[action.part][action.id] = json.loads(json.dumps(action.source))
        self.calls: list[Call] = []

    def drive(self, step: Generator[Sequence[Any], Sequence[Any], T]) -> T:
        """Return what a step returns when this server answers its calls."""
        replies: Any = None
        while True:
            try:
                calls = step.send(replies)
            except StopIteration as done:
                result: T = done.value
                return result
            replies = [self.perform(call) for call in calls]

    def perform(self, call: Call) -> Any:
        self.calls.append(call)
        _, alias, operation = call.path.split("/")
        documents = self.parts[alias.rpartition("-")[2]]
        body = json.loads(json.dumps(call.body))
        if operation == "_mget":
            fields = str(call.params["_source_includes"]).split(",")
            return {"docs": [self._got(documents, each, fields) for each in body["ids"]]}
        assert operation == "_search"
        if "aggs" in body:
            (filters,) = (each["filters"]["filters"] for each in body["aggs"].values())
            buckets = [{"doc_count": sum(holds(one, source) for source in documents.values())} for one in filters]
            return {"aggregations": {name: {"buckets": buckets} for name in body["aggs"]}}
        fields = [field for sort in body["sort"] for field in sort]
        rows = [
            {"_id": key, "_source": _only(source, body["_source"]), "sort": [source[field] for field in fields]}
            for key, source in documents.items()
            if holds(body["query"], source)
        ]
        rows = sorted(rows, key=lambda row: row["sort"])
        return {"hits": {"hits": [row for row in rows if row["sort"] > body.get("search_after", [])][: body["size"]]}}

    @staticmethod
    def _got(documents: Mapping[str, Any], key: str, fields: Sequence[str]) -> dict[str, Any]:
        if key not in documents:
            return {"_id": key, "found": False}
        return {"_id": key, "found": True, "_source": _only(documents[key], fields)}


def _only(source: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    return {field: source[field] for field in {each.split(".")[0]: None for each in fields} if field in source}


def holds(clause: Mapping[str, Any], source: Mapping[str, Any]) -> bool:
    """Return whether a clause in the server's query language holds for a document, as far as it is used here."""
    ((kind, body),) = clause.items()
    if kind in ("match_all", "match_none"):
        return kind == "match_all"
    if kind == "constant_score":
        return holds(body["filter"], source)
    if kind == "bool":
        assert set(body) <= {"filter", "should", "must_not", "minimum_should_match"}
        assert body.get("minimum_should_match", 1) == 1
        return (
            all(holds(part, source) for part in body.get("filter", ()))
            and not any(holds(part, source) for part in body.get("must_not", ()))
            and ("should" not in body or any(holds(part, source) for part in body["should"]))
        )
    ((field, asked),) = body.items()
    return any(_LEAVES[kind](one, asked) for one in _indexed(field, source))


def _indexed(field: str, source: Mapping[str, Any]) -> list[Any]:
    at: Any = source
    for step in field.split("."):
        if step not in at:
            return []
        at = at[step]
    return at if isinstance(at, list) else [at]


def _in_range(one: Any, bounds: Mapping[str, Any]) -> bool:
    tests = {"gt": _above, "gte": lambda a, b: a == b or _above(a, b)}
    tests |= {"lt": lambda a, b: _above(b, a), "lte": lambda a, b: a == b or _above(b, a)}
    return all(tests[name](one, bound) for name, bound in bounds.items())


def _above(one: Any, other: Any) -> bool:
    return one.encode() > other.encode() if isinstance(one, str) else one > other


def _like(one: str, asked: Mapping[str, str]) -> bool:
    signs = re.finditer(r"\\(.)|(\*)|(\?)|([^*?\\])", asked["value"], re.DOTALL)
    pattern = "".join(".*" if sign[2] else "." if sign[3] else re.escape(sign[1] or sign[4]) for sign in signs)
    return re.fullmatch(pattern, one, re.DOTALL) is not None


_LEAVES = {
    "term": lambda one, asked: one == asked,
    "terms": lambda one, asked: one in asked,
    "range": _in_range,
    "wildcard": _like,
    "prefix": lambda one, asked: one.startswith(asked["value"]),
    "regexp": lambda one, asked: re.fullmatch(asked["value"], one, re.DOTALL) is not None,
}
