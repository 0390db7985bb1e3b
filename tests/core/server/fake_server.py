"""A search server in memory, as far as documents are written, read by id, listed and counted: for tests of writing.

It knows indices behind aliases, bulk calls, look-ups by id (as last written), searches (as last refreshed) by
`term`, `terms`, `exists` and `bool.filter` with sort, `search_after` and points in time, and the few aggregations
that `verify` and `stats` ask for. It ranks nothing. What it does not know it refuses, as a server does.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote

from catena.effects.steps import Failed, Step
from catena.model.errors import ServerError
from catena_server.calls import Call, Flavour, Pause

T = TypeVar("T")
Source: TypeAlias = dict[str, Any]


class Killed(BaseException):
    """The process was killed here: no step sees it coming."""


@dataclass(slots=True)
class _Index:
    mappings: Source
    settings: Source
    aliases: set[str]
    docs: dict[str, Source] = field(default_factory=dict)  # as last written
    seen: dict[str, Source] = field(default_factory=dict)  # as last refreshed


class FakeServer:
    """Answers calls; implements `catena_server.calls.Transport`.

    Attributes:
        calls: all that were made, in order.
        kill_after: calls after which every further one ends in `Killed`; None for never. The one before has been
            done, as by a process that was killed before it could read the answer.
        refuse: (action's name, index, id) -> status and kind of an error with which one writing of a bulk call is
            refused, None for none; asked for each.
    """

    identity = "fake server"

    def __init__(self, flavour: Flavour = "elasticsearch") -> None:
        self.flavour: Flavour = flavour
        self.calls: list[Call] = []
        self.pauses: list[float] = []
        self.kill_after: int | None = None
        self.refuse: Callable[[str, str, str], tuple[int, str] | None] = lambda op, index, doc_id: None
        self._indices: dict[str, _Index] = {}
        self._moments: dict[str, list[tuple[str, Source]]] = {}

    def perform(self, call: Call) -> Any:
        """Answer one call."""
        if self.kill_after is not None and len(self.calls) >= self.kill_after:
            raise Killed
        self.calls.append(call)
        sent = json.loads(json.dumps([call.body, call.lines], allow_nan=False))
        try:
            return copy.deepcopy(self._answer(call, *sent))
        except ServerError as error:
            if call.missing_ok and error.status == 404:
                return None
            raise

    def run(self, step: Step[T]) -> T:
        """Drive a step to its end; pauses are noted, not made."""
        try:
            requests = next(step)
            while True:
                requests = step.send([self._reply(request) for request in requests])
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    def documents(self, alias: str) -> dict[str, Source]:
        """Return all documents behind an alias by id, as last written."""
        return {doc_id: source for index in self._behind(alias) for doc_id, source in index.docs.items()}

    def indices(self) -> dict[str, set[str]]:
        """Return the aliases of each index."""
        return {name: set(index.aliases) for name, index in self._indices.items()}

    def _reply(self, request: object) -> Any:
        if isinstance(request, Pause):
            self.pauses.append(request.seconds)
            return None
        if not isinstance(request, Call):
            raise TypeError(f"a server answers no {type(request).__name__}")
        try:
            return self.perform(request)
        except ServerError as error:
            return Failed(error)

    def _answer(self, call: Call, body: Any, lines: Any) -> Any:
        *before, last = [unquote(part) for part in call.path.strip("/").split("/")]
        target = before[0] if before else ""
        if not last.startswith("_") and not (before and before[-1].startswith("_")):
            return self._on_index(call.method, last, body)
        if last == "_search":
            return self._search(target, body)
        if last == "_bulk":
            return {"errors": True, "items": [self._write(*pair) for pair in _pairs(lines)]}
        if before[-1:] == ["_doc"]:
            return self._got(target, last, call.params)
        name = {"_pit": "point", "point_in_time": "point"}.get(last, last)
        answer: Callable[..., Any] | None = getattr(self, f"_on_{name.lstrip('_')}", None)
        if answer is None:
            raise ServerError(self.identity, f"it knows no {call.method} {call.path}", status=400)
        return answer(call.method, target, body)

    # Indices and aliases.

    def _on_index(self, method: str, name: str, body: Source) -> Source:
        if method == "GET":
            found = self._named(name)
            return {name: {"mappings": each.mappings, "settings": each.settings} for name, each in found}
        return self._create(name, body) if method == "PUT" else self._delete(name)

    def _create(self, name: str, body: Source) -> Source:
        if name in self._indices:
            raise self._error("resource_already_exists_exception", f"index [{name}] already exists", 400)
        self._indices[name] = _Index(body["mappings"], body["settings"], set(body["aliases"]))
        return {"acknowledged": True}

    def _delete(self, name: str) -> Source:
        if name not in self._indices:
            raise self._missing(name)
        del self._indices[name]
        return {"acknowledged": True}

    def _on_mapping(self, method: str, target: str, body: Source) -> Source:
        for index in self._behind(target):
            if method == "PUT":
                _merge(index.mappings, body)
        return {name: {"mappings": index.mappings} for name, index in self._named(target)}

    def _on_settings(self, method: str, target: str, body: Source) -> Source:
        for index in self._behind(target):
            if method == "PUT":
                index.settings.update({f"index.{key}": value for key, value in body["index"].items()})
        return {name: {"settings": index.settings} for name, index in self._named(target)}

    def _on_alias(self, method: str, target: str, body: Source) -> Source:
        patterns = target.split(",")
        return {
            name: {"aliases": {alias: {} for alias in sorted(index.aliases)}}
            for name, index in self._indices.items()
            if any(fnmatchcase(name, pattern) for pattern in patterns)
        }

    def _on_aliases(self, method: str, target: str, body: Source) -> Source:
        for action in body["actions"]:
            ((what, about),) = action.items()
            aliases = self._indices[about["index"]].aliases
            (aliases.add if what == "add" else aliases.remove)(about["alias"])
        return {"acknowledged": True}

    def _on_refresh(self, method: str, target: str, body: Source) -> Source:
        for index in self._behind(target):
            index.seen = dict(index.docs)
        return {}

    def _on_store(self, method: str, target: str, body: Source) -> Source:
        size = sum(len(json.dumps(source)) for index in self._behind(target) for source in index.docs.values())
        return {"_all": {"total": {"store": {"size_in_bytes": size}}}}

    def _named(self, target: str) -> list[tuple[str, _Index]]:
        found = [
            (name, index)
            for part in target.split(",")
            for name, index in sorted(self._indices.items())
            if name == part or part in index.aliases
        ]
        if not found:
            raise self._missing(target)
        return found

    def _behind(self, target: str) -> list[_Index]:
        return [index for _, index in self._named(target)]

    # Documents by id.

    def _write(self, operation: Source, source: Source | None) -> Source:
        ((op, about),) = operation.items()
        alias, doc_id = about["_index"], about["_id"]
        behind = [index for index in self._indices.values() if alias in index.aliases]
        refusal = (404, "index_not_found_exception") if len(behind) != 1 else self.refuse(op, alias, doc_id)
        if refusal is not None:
            status, kind = refusal
            return {op: {"status": status, "error": {"type": kind, "reason": f"{kind} of [{doc_id}]"}}}
        if op == "delete":
            return {op: {"status": 404 if behind[0].docs.pop(doc_id, None) is None else 200}}
        behind[0].docs[doc_id] = source or {}
        return {op: {"status": 201}}

    def _got(self, target: str, doc_id: str, params: Mapping[str, Any]) -> Source:
        found = self._by_id(target, doc_id)
        if not found["found"]:
            raise ServerError(self.identity, f"[{doc_id}] is not there", status=404)
        return found

    def _on_mget(self, method: str, target: str, body: Source) -> Source:
        ids = body["ids"] if "ids" in body else [doc["_id"] for doc in body["docs"]]
        return {"docs": [self._by_id(target, doc_id) for doc_id in ids]}

    def _by_id(self, target: str, doc_id: str) -> Source:
        docs = self.documents(target)
        return {"_id": doc_id, "found": doc_id in docs, **({"_source": docs[doc_id]} if doc_id in docs else {})}

    # Searches.

    def _on_count(self, method: str, target: str, body: Source) -> Source:
        return {"count": len([1 for _, source in self._seen(target) if _matches(body["query"], source)])}

    def _on_point(self, method: str, target: str, body: Source) -> Source:
        if method == "DELETE":
            for pit in [body["id"]] if "id" in body else body["pit_id"]:
                del self._moments[pit]
            return {}
        pit = f"moment {len(self.calls)}"
        self._moments[pit] = self._seen(target)
        return {"id" if self.flavour == "elasticsearch" else "pit_id": pit}

    def _seen(self, target: str) -> list[tuple[str, Source]]:
        return [item for index in self._behind(target) for item in sorted(index.seen.items())]

    def _search(self, target: str, body: Source) -> Source:
        if "pit" in body and body["pit"]["id"] not in self._moments:
            raise self._error("search_context_missing_exception", "No search context found", 404)
        rows = self._moments[body["pit"]["id"]] if "pit" in body else self._seen(target)
        fields = [next(iter(each)) for each in body.get("sort", ())]
        found = [
            ([source[name] for name in fields], doc_id, source)
            for doc_id, source in rows
            if _matches(body.get("query", {"match_all": {}}), source)
        ]
        found.sort(key=lambda row: row[0])
        hits = [row for row in found if not body.get("search_after") or row[0] > body["search_after"]]
        return {
            "hits": {
                "total": {"value": len(found)},
                "hits": [{"_id": i, "_source": s, "sort": by} for by, i, s in hits[: body["size"]]],
            },
            "aggregations": {
                name: _aggregated(asked, [source for *_, source in found])
                for name, asked in body.get("aggs", {}).items()
            },
        }

    def _missing(self, name: str) -> ServerError:
        return self._error("index_not_found_exception", f"no such index [{name}]", 404)

    def _error(self, kind: str, reason: str, status: int) -> ServerError:
        return ServerError(self.identity, reason, status=status, kind=kind)


def _pairs(lines: list[Source]) -> Iterator[tuple[Source, Source | None]]:
    rest = iter(lines)
    for operation in rest:
        yield operation, None if "delete" in operation else next(rest)


def _merge(into: Source, more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _values(source: Mapping[str, Any], path: str) -> list[Any]:
    value: Any = source
    for part in path.split("."):
        if isinstance(value, list):
            value = [each[part] for each in value if part in each]
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, list) else [] if value is None else [value]


def _matches(query: Mapping[str, Any], source: Mapping[str, Any]) -> bool:
    ((kind, about),) = query.items()
    if kind == "match_all":
        return True
    if kind == "exists":
        return bool(_values(source, about["field"]))
    if kind == "nested":
        return _matches(about["query"], source)
    if kind == "bool":
        return all(_matches(part, source) for part in about["filter"])
    ((path, asked),) = about.items()
    return any(value in (asked if kind == "terms" else [asked]) for value in _values(source, path))


def _aggregated(asked: Mapping[str, Any], sources: list[Source]) -> Source:
    inside = asked.get("aggs", {})
    ((kind, about),) = ((key, value) for key, value in asked.items() if key != "aggs")
    if kind in ("min", "max"):
        values = [value for source in sources for value in _values(source, about["field"])]
        return {"value": float((min if kind == "min" else max)(values)) if values else None}
    if kind == "filters":
        counts = {key: [s for s in sources if _matches(query, s)] for key, query in about["filters"].items()}
        return {"buckets": {key: {"doc_count": len(found)} for key, found in counts.items()}}
    if kind == "composite":
        ((name, by),) = about["sources"][0].items()
        keys = Counter(value for source in sources for value in _values(source, by["terms"]["field"]))
        after = about.get("after", {}).get(name)
        taken = [key for key in sorted(keys) if after is None or key > after][: about["size"]]
        buckets = [{"key": {name: key}, "doc_count": keys[key]} for key in taken]
        return {"buckets": buckets, **({"after_key": buckets[-1]["key"]} if buckets else {})}
    groups: dict[Any, list[Source]] = {}
    for source in sources:
        for value in _values(source, about["field"]):
            groups.setdefault(value, []).append(source)
    shown = sorted(groups)[: about.get("size", len(groups))]
    return {
        "buckets": [
            {
                "key": key,
                "doc_count": len(groups[key]),
                **{name: _aggregated(sub, groups[key]) for name, sub in inside.items()},
            }
            for key in shown
        ],
        "sum_other_doc_count": sum(len(group) for key, group in groups.items() if key not in shown),
    }
