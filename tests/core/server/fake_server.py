"""A search server in memory, by the meaning of what it is asked: indices, documents, listings, rankings, counts.

Indices lie behind aliases; documents are read by id as last written, and searched as last refreshed. A word that
stands in a view counts a tenth of its length, instead of BM25; vectors are those of the sources. What it does not
know it refuses, as a server does.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Self, TypeAlias, TypeVar
from urllib.parse import unquote

import numpy as np

from catena.effects import Failed, Step
from catena.model import ServerError
from catena_server import Call, Flavour, Pause
from catena_server.actions import Action

T = TypeVar("T")
Source: TypeAlias = dict[str, Any]
MOST = 10_000  # rows, neighbours and candidates of one request


class Killed(BaseException):
    """The process was killed here: no step sees it coming."""


@dataclass(slots=True)
class Index:
    mappings: Source
    settings: Source
    aliases: Source
    docs: dict[str, Source] = field(default_factory=dict)  # as last written
    seen: dict[str, Source] = field(default_factory=dict)  # as last refreshed


class FakeServer:
    """Answers calls; implements `catena_server.Transport`.

    Attributes:
        calls: all that were made, in order.
        kill_after: calls after which every further one ends in `Killed`; None for never. The one before has been
            done, as by a process that was killed before it could read the answer.
        fails: called before each call is answered; may raise.
        refuse: (action's name, index, id) -> status and kind of an error with which one writing of a bulk call is
            refused, None for none; asked for each.
        indices: by name.
        moments: points in time that are kept.
    """

    identity = "fake server"

    def __init__(self, flavour: Flavour = "elasticsearch") -> None:
        self.flavour: Flavour = flavour
        self.calls: list[Call] = []
        self.pauses: list[float] = []
        self.kill_after: int | None = None
        self.fails: Callable[[Call], object] = lambda call: None
        self.refuse: Callable[[str, str, str], tuple[int, str] | None] = lambda op, index, doc_id: None
        self.indices: dict[str, Index] = {}
        self.moments: dict[str, list[tuple[str, Source]]] = {}

    @classmethod
    def holding(cls, name: str, held: Mapping[str, Source] | Sequence[Action]) -> Self:
        """Return a server of one set that holds chunks by id, or what actions write; all of it is seen at once."""
        server = cls()
        for part in ("chunks", "documents"):
            index = server.indices[f"{name}-{part}-1"] = Index({}, {}, {f"{name}-{part}": {}})
            index.seen = index.docs
        written = [("chunks", *item) for item in held.items()] if isinstance(held, Mapping) else [
            (action.part, action.id, action.source) for action in held
        ]  # fmt: skip
        for part, doc_id, source in written:
            server.indices[f"{name}-{part}-1"].docs[doc_id] = json.loads(json.dumps(source))
        return server

    @property
    def paths(self) -> list[str]:
        return [call.path for call in self.calls]

    @property
    def bodies(self) -> list[Any]:
        return [call.body for call in self.calls if call.body is not None]

    def perform(self, call: Call) -> Any:
        """Answer one call."""
        if self.kill_after is not None and len(self.calls) >= self.kill_after:
            raise Killed
        self.calls.append(call)
        self.fails(call)
        sent = json.loads(json.dumps([call.body, call.lines], allow_nan=False))
        try:
            return copy.deepcopy(self._answer(call, *sent))
        except ServerError as error:
            if call.missing_ok and error.status == 404:
                return None
            raise

    @contextmanager
    def killed_after(self, calls: int) -> Iterator[None]:
        """Kill what is done inside before its next call after so many."""
        self.kill_after = len(self.calls) + calls
        with suppress(Killed):
            yield
        self.kill_after = None

    def run(self, step: Step[T]) -> T:
        """Drive a step to its end; pauses are noted, not made."""
        try:
            requests = next(step)
            while True:
                requests = step.send([self.reply(request) for request in requests])
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    def reply(self, request: Any) -> Any:
        """Answer a request of a step."""
        if isinstance(request, Pause):
            self.pauses.append(request.seconds)
            return None
        try:
            return self.perform(request)
        except ServerError as error:
            return Failed(error)

    def documents(self, alias: str) -> dict[str, Source]:
        """Return all documents behind an alias by id, as last written."""
        return {doc_id: source for index in self._behind(alias) for doc_id, source in index.docs.items()}

    def aliases(self) -> dict[str, set[str]]:
        """Return the aliases of each index."""
        return {name: set(index.aliases) for name, index in self.indices.items()}

    def _answer(self, call: Call, body: Any, lines: Any) -> Any:
        *before, last = [unquote(part) for part in call.path.strip("/").split("/")]
        target = before[0] if before else ""
        if not last.startswith("_") and not (before and before[-1].startswith("_")):
            return self._on_index(call.method, last, body)
        if last == "_search":
            found = self.search(target, body)
            return {} if "filter_path" in call.params and "aggs" not in body and not found["hits"]["hits"] else found
        if last == "_bulk":
            assert call.params["require_alias"]
            return {"errors": True, "items": [self._write(*pair) for pair in _pairs(lines)]}
        if before[-1:] == ["_doc"]:
            return self._got(target, last)
        if last == "_field_caps":
            name = str(call.params["fields"])
            return {"fields": {name: {}} if any(_values(source, name) for _, source in self._seen(target)) else {}}
        name = {"_pit": "point", "point_in_time": "point"}.get(last, last)
        answer: Callable[..., Any] | None = getattr(self, f"_on_{name.lstrip('_')}", None)
        if answer is None:
            raise ServerError(self.identity, f"it knows no {call.method} {call.path}", status=400)
        return answer(call.method, target, body)

    # Indices and aliases.

    def _on_index(self, method: str, name: str, body: Source) -> Source:
        if method == "PUT":
            return self.create(name, body)
        found = self._named(name, patterns=True)
        if method == "DELETE":
            self.indices.pop(name)
        return {each: {key: getattr(i, key) for key in ("mappings", "settings", "aliases")} for each, i in found}

    def create(self, name: str, body: Source) -> Source:
        """Make an index, as others may do, too."""
        if name in self.indices:
            raise self._error("resource_already_exists_exception", f"index [{name}] already exists", 400)
        kept = (copy.deepcopy(body.get(key, {})) for key in ("mappings", "settings", "aliases"))
        self.indices[name] = Index(*kept)
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
        return {name: {"aliases": index.aliases} for name, index in self._named(target, patterns=True)}

    def _on_aliases(self, method: str, target: str, body: Source) -> Source:
        for action in body["actions"]:
            ((what, about),) = action.items()
            if what == "remove_index":
                del self.indices[about["index"]]
            elif what == "add":
                self.indices[about["index"]].aliases[about["alias"]] = {}
            else:
                del self.indices[about["index"]].aliases[about["alias"]]
        return {"acknowledged": True}

    def _on_refresh(self, method: str, target: str, body: Source) -> Source:
        for index in self._behind(target):
            index.seen = dict(index.docs)
        return {}

    def _on_store(self, method: str, target: str, body: Source) -> Source:
        size = sum(len(json.dumps(source)) for index in self._behind(target) for source in index.docs.values())
        return {"_all": {"total": {"store": {"size_in_bytes": size}}}}

    def _named(self, target: str, *, patterns: bool = False) -> list[tuple[str, Index]]:
        found = [
            (name, index)
            for part in target.split(",")
            for name, index in sorted(self.indices.items())
            if part in (name, *index.aliases) or (patterns and fnmatchcase(name, part))
        ]
        if not found and "*" not in target:
            raise self._error("index_not_found_exception", f"no such index [{target}]", 404)
        return found

    def _behind(self, target: str) -> list[Index]:
        return [index for _, index in self._named(target)]

    # Documents by id.

    def _write(self, operation: Source, source: Source | None) -> Source:
        ((op, about),) = operation.items()
        alias, doc_id = about["_index"], about["_id"]
        behind = [index for index in self.indices.values() if alias in index.aliases]
        refusal = (404, "index_not_found_exception") if len(behind) != 1 else self.refuse(op, alias, doc_id)
        if refusal is not None:
            status, kind = refusal
            return {op: {"status": status, "error": {"type": kind, "reason": f"{kind} of [{doc_id}]"}}}
        assert not behind[0].settings.get("index.blocks.write")
        if op == "delete":
            return {op: {"status": 404 if behind[0].docs.pop(doc_id, None) is None else 200}}
        behind[0].docs[doc_id] = source or {}
        return {op: {"status": 201}}

    def _got(self, target: str, doc_id: str) -> Source:
        docs = self.documents(target)
        if doc_id not in docs:
            raise ServerError(self.identity, f"[{doc_id}] is not there", status=404)
        return {"_id": doc_id, "found": True, "_source": docs[doc_id]}

    def _on_mget(self, method: str, target: str, body: Source) -> Source:
        try:
            docs = self.documents(target)
        except ServerError as error:
            answer: Source = {"error": {"type": error.kind, "reason": error.what}}
            return {"docs": [{"_id": key, **answer} for key in body["ids"]]}
        there = {key: {"_source": docs[key]} if key in docs else {} for key in body["ids"]}
        return {"docs": [{"_id": key, "found": bool(got), **got} for key, got in there.items()]}

    # Searches.

    def _on_point(self, method: str, target: str, body: Source) -> Source:
        if method == "DELETE":
            for pit in [body["id"]] if "id" in body else body["pit_id"]:
                del self.moments[pit]
            return {}
        pit = f"moment {len(self.calls)}"
        self.moments[pit] = self._seen(target)
        return {"id" if self.flavour == "elasticsearch" else "pit_id": pit}

    def _seen(self, target: str) -> list[tuple[str, Source]]:
        return [item for index in self._behind(target) for item in sorted(index.seen.items())]

    def search(self, target: str, body: Source) -> Source:
        """Answer a search: rows in order, their number, and what is counted."""
        if body["size"] > MOST:
            raise self._error("illegal_argument_exception", "too many rows", 400)
        if "pit" in body and body["pit"]["id"] not in self.moments:
            raise self._error("search_context_missing_exception", "No search context found", 404)
        rows = self.moments[body["pit"]["id"]] if "pit" in body else self._seen(target)
        scores, named = self._scored(rows, body)
        order = [next(iter(each.items())) for each in body.get("sort", ())]
        assert all(way == ("desc" if name == "_score" else "asc") for name, way in order)
        by = [name for name, _ in order]
        found = []
        for doc_id, source in rows:
            if doc_id in scores and scores[doc_id] >= body.get("min_score", -1.0):
                told = {"_score": float(np.float32(scores[doc_id])), "id": doc_id, **source}
                row = {"_id": doc_id, "_score": told["_score"], "sort": [told[name] for name in by]}
                kept = _only(source, body.get("_source", True))
                row |= {"_source": kept} if kept is not None else {}
                row |= {"matched_queries": named[doc_id]} if named[doc_id] else {}
                found.append((_order(by, row["sort"]), row))
        found.sort(key=lambda one: one[0])
        after = _order(by, body["search_after"]) if body.get("search_after") else None
        hits = [row for place, row in found if after is None or place > after][: body["size"]]
        matching = [source for doc_id, source in rows if doc_id in scores]
        counts = {name: _aggregated(asked, matching) for name, asked in body.get("aggs", {}).items()}
        return {"hits": {"total": {"value": len(found)}, "hits": hits}, "aggregations": counts}

    def _scored(self, rows: list[tuple[str, Source]], body: Source) -> tuple[dict[str, float], dict[str, Source]]:
        """Return the scores of what matches, and their named parts."""
        query, knn = body.get("query", None if "knn" in body else {"match_all": {}}), body.get("knn")
        named: dict[str, Source] = {doc_id: {} for doc_id, _ in rows}
        scores: dict[str, float] = {}
        for doc_id, source in rows:
            score = None if query is None else score_of(query, source, doc_id, named[doc_id])
            if score is not None:
                scores[doc_id] = score
        for doc_id, part in [] if knn is None else _nearest(rows, knn):
            scores[doc_id] = scores.get(doc_id, 0.0) + part
            if "_name" in knn and "several" not in knn["field"]:
                named[doc_id][knn["_name"]] = part
        rounded = {key: {name: float(np.float32(part)) for name, part in of.items()} for key, of in named.items()}
        return scores, rounded

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


def _only(source: Source, wanted: Any) -> Source | None:
    """Return what of a source is asked for, None for nothing."""
    if isinstance(wanted, list):
        tops = {each.split(".")[0] for each in wanted}
        return {name: value for name, value in source.items() if name in tops}
    return source if wanted else None


def _order(by: Sequence[str], values: Sequence[Any]) -> list[Any]:
    """Return by what rows are ordered: scores downwards, all else upwards."""
    return [-value if name == "_score" else value for name, value in zip(by, values, strict=True)]


def _nearest(rows: list[tuple[str, Source]], knn: Source) -> list[tuple[str, float]]:
    assert knn["k"] <= knn["num_candidates"] <= MOST
    found = []
    for doc_id, source in rows:
        vectors = _values(source, knn["field"], vectors=True)
        if vectors and all(score_of(one, source, doc_id, {}) is not None for one in knn.get("filter", ())):
            best = max(float(np.dot(np.asarray(row), knn["query_vector"])) for row in vectors)
            found.append((doc_id, (1 + best) / 2 * knn.get("boost", 1.0)))
    return sorted(found, key=lambda item: (-item[1], item[0]))[: knn["k"]]


def _values(source: Mapping[str, Any], path: str, *, vectors: bool = False) -> list[Any]:
    """Return the values at a path, whatever lies on the way; of vectors a list of numbers is one value."""
    name, _, rest = path.partition(".")
    held = source.get(name)
    if rest:
        inner = held if isinstance(held, list) else [held]
        return [v for one in inner if isinstance(one, Mapping) for v in _values(one, rest, vectors=vectors)]
    if isinstance(held, list) and not (vectors and held and isinstance(held[0], float)):
        return held
    return [] if held is None else [held]


# The query language.


def bm25_of(words: Sequence[str], said: Mapping[str, int]) -> float:
    """Return the score of a view here."""
    return sum(count * len(word) / 10 for word, count in said.items() if word in words)


def holds(clause: Mapping[str, Any], source: Mapping[str, Any]) -> bool:
    """Return whether a clause holds for a document."""
    return score_of(clause, source, "", {}) is not None


def score_of(
    clause: Mapping[str, Any], source: Mapping[str, Any], doc_id: str, named: dict[str, float]
) -> float | None:
    """Return what a clause adds to a score, None where it does not match."""
    ((kind, inner),) = clause.items()
    if kind not in _MEANINGS:
        ((path, asked),) = inner.items()
        return _leaf(kind, path, asked, source)
    found = _MEANINGS[kind](inner, source, doc_id, named)
    if found is not None:
        found *= inner.get("boost", 1.0)
        if "_name" in inner:
            named[inner["_name"]] = found
    return found


def _leaf(kind: str, path: str, asked: Any, source: Mapping[str, Any]) -> float | None:
    held, boost = _values(source, path), 1.0
    if kind == "term":
        if "words" in path.split("."):
            held = [word for each in held for word in each.split()]
        if isinstance(asked, dict):
            asked, boost = asked["value"], asked.get("boost", 1.0)
        boost *= len(asked) / 10 if isinstance(asked, str) else 1.0
    return boost if any(_LEAVES[kind](one, asked) for one in held) else None


def _nested(inner: Source, source: Mapping[str, Any], doc_id: str, named: dict[str, float]) -> float | None:
    views = [{inner["path"]: one} for one in source.get(inner["path"], ())]
    scores = [score for view in views if (score := score_of(inner["query"], view, doc_id, {})) is not None]
    return max(scores, default=None)


def _constant(inner: Source, source: Mapping[str, Any], doc_id: str, named: dict[str, float]) -> float | None:
    return None if score_of(inner["filter"], source, doc_id, {}) is None else 1.0


def _bool(inner: Source, source: Mapping[str, Any], doc_id: str, named: dict[str, float]) -> float | None:
    assert set(inner) <= {"must", "filter", "should", "must_not", "minimum_should_match", "boost", "_name"}
    if any(score_of(one, source, doc_id, {}) is None for one in inner.get("filter", ())):
        return None
    if any(score_of(one, source, doc_id, {}) is not None for one in inner.get("must_not", ())):
        return None
    musts = [score_of(one, source, doc_id, named) for one in inner.get("must", ())]
    if None in musts:
        return None
    parts = [part for one in inner.get("should", ()) if (part := score_of(one, source, doc_id, named)) is not None]
    least = inner.get("minimum_should_match", 0 if {"filter", "must"} & inner.keys() else int("should" in inner))
    return float(sum(parts) + sum(musts)) if len(parts) >= least else None  # type: ignore[arg-type]


def _best(inner: Source, source: Mapping[str, Any], doc_id: str, named: dict[str, float]) -> float | None:
    scores = (score_of(one, source, doc_id, named) for one in inner["queries"])
    return max((score for score in scores if score is not None), default=None)


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


_LEAVES: dict[str, Callable[[Any, Any], bool]] = {
    "term": lambda one, asked: one == asked,
    "terms": lambda one, asked: one in asked,
    "range": _in_range,
    "wildcard": _like,
    "prefix": lambda one, asked: one.startswith(asked["value"]),
    "regexp": lambda one, asked: re.fullmatch(asked["value"], one, re.DOTALL) is not None,
}


_MEANINGS: dict[str, Callable[..., float | None]] = {
    "bool": _bool,
    "dis_max": _best,
    "nested": _nested,
    "constant_score": _constant,
    "match_all": lambda *_: 1.0,
    "match_none": lambda *_: None,
    "ids": lambda inner, source, doc_id, named: 1.0 if doc_id in inner["values"] else None,
    "exists": lambda inner, source, doc_id, named: 1.0 if _values(source, inner["field"]) else None,
}


# Counts.


def _aggregated(asked: Mapping[str, Any], sources: Sequence[Source]) -> Source:
    inside = asked.get("aggs", {})
    ((kind, about),) = ((key, value) for key, value in asked.items() if key != "aggs")
    if kind in ("min", "max", "sum"):
        values = [value for source in sources for value in _values(source, about["field"])]
        how: Callable[[list[Any]], Any] = {"min": min, "max": max, "sum": sum}[kind]
        return {"value": float(how(values)) if values or kind == "sum" else None}
    if kind == "filters":
        by_name = about["filters"]
        if isinstance(by_name, list):
            return {"buckets": [{"doc_count": sum(holds(one, source) for source in sources)} for one in by_name]}
        counts = {key: sum(holds(one, source) for source in sources) for key, one in by_name.items()}
        return {"buckets": {key: {"doc_count": count} for key, count in counts.items()}}
    if kind == "nested":
        hidden = [{about["path"]: one} for source in sources for one in source.get(about["path"], ())]
        return {name: _aggregated(sub, hidden) for name, sub in inside.items()}
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
            {"key": key, "doc_count": len(groups[key])}
            | {name: _aggregated(sub, groups[key]) for name, sub in inside.items()}
            for key in shown
        ],
        "sum_other_doc_count": sum(len(group) for key, group in groups.items() if key not in shown),
    }
