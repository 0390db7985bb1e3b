"""A search server of a few lines, in memory: what `searching` and `fused` ask, by the meaning of the query language.

BM25 is not reckoned: a word that stands in a view counts a tenth of its length. Vectors are those of the sources.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from catena.effects import Failed
from catena.model import ServerError
from catena_server import Call

T = TypeVar("T")
LONGEST = 10_000


def bm25_of(words: Sequence[str], said: Mapping[str, int]) -> float:
    """Return the score of a view here."""
    return sum(count * len(word) / 10 for word, count in said.items() if word in words)


class SearchServer:
    """Documents by id, each as the source that is written of a chunk; calls are recorded."""

    def __init__(self, sources: Mapping[str, Mapping[str, Any]]) -> None:
        self.sources = dict(sources)
        self.calls: list[Call] = []

    def drive(self, step: Generator[Any, Any, T]) -> T:
        """Run a step whose requests are calls."""
        replies: Any = None
        try:
            while True:
                calls = step.send(replies)
                self.calls.extend(calls)
                replies = [self._reply(call) for call in calls]
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    @property
    def bodies(self) -> list[Any]:
        return [call.body for call in self.calls if call.body is not None]

    def _reply(self, call: Call) -> Any:
        if call.path.endswith("_field_caps"):
            held = any(_values(source, str(call.params["fields"])) for source in self.sources.values())
            return {"fields": {call.params["fields"]: {}} if held else {}}
        body: Any = call.body
        if "aggs" in body:
            return {"aggregations": {name: self._counted(asked) for name, asked in body["aggs"].items()}}
        try:
            return self._rows(body)
        except ServerError as error:
            return Failed(error)

    def _counted(self, asked: Mapping[str, Any]) -> Any:
        if "nested" in asked:
            group, hidden = asked["nested"]["path"], asked["aggs"]["of"]
            inner = [{group: one} for source in self.sources.values() for one in source.get(group, ())]
            return {"of": {"buckets": [_count(one, inner) for one in hidden["filters"]["filters"]]}}
        return {"buckets": [_count(one, list(self.sources.values())) for one in asked["filters"]["filters"]]}

    def _rows(self, body: Mapping[str, Any]) -> Any:
        if body["size"] > LONGEST:
            raise ServerError("fake", "too many rows", status=400)
        named: dict[str, dict[str, float]] = {chunk_id: {} for chunk_id in self.sources}
        scores: dict[str, float] = {}
        for chunk_id, source in self.sources.items():
            score = _score(body["query"], source, chunk_id, named[chunk_id]) if "query" in body else None
            if score is not None:
                scores[chunk_id] = score
        for chunk_id, part in self._nearest(body.get("knn")):
            scores[chunk_id] = scores.get(chunk_id, 0.0) + part
            if "_name" in body["knn"] and "several" not in body["knn"]["field"]:
                named[chunk_id][body["knn"]["_name"]] = part
        best = sorted(((-score, one) for one, score in scores.items() if score >= body.get("min_score", -1)))
        rows = []
        for minus, chunk_id in best[: body["size"]]:
            row: dict[str, Any] = {"_id": chunk_id, "_score": float(np.float32(-minus))}
            if named[chunk_id]:
                row["matched_queries"] = {name: float(np.float32(part)) for name, part in named[chunk_id].items()}
            if body.get("_source"):
                row["_source"] = {name: v for name, v in self.sources[chunk_id].items() if name in body["_source"]}
            rows.append(row)
        return {"hits": {"hits": rows}} if rows else {}

    def _nearest(self, knn: Mapping[str, Any] | None) -> list[tuple[str, float]]:
        if knn is None:
            return []
        assert knn["k"] <= knn["num_candidates"] <= LONGEST
        found = []
        for chunk_id, source in self.sources.items():
            rows = _values(source, knn["field"])
            if rows and all(_score(one, source, chunk_id, {}) is not None for one in knn.get("filter", ())):
                best = max(float(np.dot(np.asarray(row), knn["query_vector"])) for row in rows)
                found.append((chunk_id, (1 + best) / 2))
        found.sort(key=lambda item: (-item[1], item[0]))
        return [(one, part * knn.get("boost", 1.0)) for one, part in found[: knn["k"]]]


def _count(clause: Mapping[str, Any], sources: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {"doc_count": sum(_score(clause, source, "", {}) is not None for source in sources)}


def _score(
    clause: Mapping[str, Any], source: Mapping[str, Any], chunk_id: str, named: dict[str, float]
) -> float | None:
    """Return what a clause adds to a score, None where it does not match."""
    ((kind, inner),) = clause.items()
    found = _MEANING[kind](inner, source, chunk_id, named)
    if found is not None and isinstance(inner, dict):
        found *= inner.get("boost", 1.0) if kind in ("bool", "nested") else 1.0
        if "_name" in inner:
            named[inner["_name"]] = found
    return found


def _bool(
    inner: Mapping[str, Any], source: Mapping[str, Any], chunk_id: str, named: dict[str, float]
) -> float | None:
    if any(_score(one, source, chunk_id, {}) is None for one in inner.get("filter", ())):
        return None
    parts = [part for one in inner.get("should", ()) if (part := _score(one, source, chunk_id, named)) is not None]
    least = inner.get("minimum_should_match", 0 if "filter" in inner else 1)
    return sum(parts) if len(parts) >= least else None


def _term(
    inner: Mapping[str, Any], source: Mapping[str, Any], chunk_id: str, named: dict[str, float]
) -> float | None:
    ((field, asked),) = inner.items()
    boost, value = (asked.get("boost", 1.0), asked["value"]) if isinstance(asked, dict) else (1.0, asked)
    words = [word for held in _values(source, field) for word in (held.split() if "words" in field else [held])]
    return boost * len(value) / 10 if value in words else None


def _nested(
    inner: Mapping[str, Any], source: Mapping[str, Any], chunk_id: str, named: dict[str, float]
) -> float | None:
    views = [{inner["path"]: one} for one in source.get(inner["path"], ())]
    scores = [score for view in views if (score := _score(inner["query"], view, chunk_id, {})) is not None]
    return max(scores, default=None)


def _values(source: Mapping[str, Any], path: str) -> list[Any]:
    """Return the values at a path, whatever lies on the way."""
    name, _, rest = path.partition(".")
    if name not in source:
        return []
    held = source[name]
    if rest:
        return [value for one in (held if isinstance(held, list) else [held]) for value in _values(one, rest)]
    return held if isinstance(held, list) and "vector" not in name and not _is_vector(held) else [held]


def _is_vector(held: list[Any]) -> bool:
    return bool(held) and isinstance(held[0], float)


def _constant(inner: Mapping[str, Any], source: Mapping[str, Any], chunk_id: str, named: Any) -> float | None:
    return None if _score(inner["filter"], source, chunk_id, {}) is None else float(inner.get("boost", 1.0))


_MEANING: dict[str, Any] = {
    "bool": _bool,
    "term": _term,
    "nested": _nested,
    "constant_score": _constant,
    "match_all": lambda inner, source, chunk_id, named: 1.0,
    "ids": lambda inner, source, chunk_id, named: 1.0 if chunk_id in inner["values"] else None,
    "exists": lambda inner, source, chunk_id, named: 1.0 if _values(source, inner["field"]) else None,
    "terms": lambda inner, source, chunk_id, named: next(
        (1.0 for field, asked in inner.items() if set(asked) & set(_values(source, field))), None
    ),
}
