"""Count the words and terms of a question in an index, in one small request.

Rankings need it before they are asked: words that stand in most views are left out, and of the critical terms that a
question may name only those are asked that exist. Counts are kept for seconds, so that the parts of one question, and
the questions that follow it, ask nothing again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from catena.effects import Step, ask
from catena.model import DEFAULT_VIEW
from catena.text import TermMatcher, is_border, normalise_query, normalise_term
from catena_server.calls import Call, quoted, search_call
from catena_server.index_layout import REPEAT, IndexLayout

CountKey: TypeAlias = tuple[str, str, str]  # ("views" | "word" | "term" | "field", of which index and field, of what)

LONGEST_SPAN = 120  # characters of a question in which a term is looked for
MOST_SPANS = 2_000  # that are looked up of one question, the first ones: a log that is pasted in has many
MOST_WEIGHT = 8  # of a term in a chunk: higher ones count as this
_FREQUENT = 0.5  # a word in more than this part of the views tells little and costs most
_FEW = 2_000  # views up to which no word is left out
_FILTERS = 4_000  # of one request: answers stay small
_MOST_COUNTS = 50_000  # kept, about 200 bytes each


class CountCache:
    """Counts that were asked a moment ago; safe to be shared by threads.

    Args:
        seconds: how long a count is taken for true; 0 keeps none.
        clock: seconds that never go back.
    """

    def __init__(self, *, seconds: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._kept: dict[CountKey, tuple[float, int]] = {}  # until when, and the count
        self._guard = threading.Lock()
        self._writings = 0

    def known(self, keys: Iterable[CountKey]) -> dict[CountKey, int]:
        """Return those of the counts that are known."""
        now = self._clock()
        with self._guard:
            kept = {key: self._kept.get(key, (now, 0)) for key in keys}
        return {key: count for key, (until, count) in kept.items() if until > now}

    @property
    def writings(self) -> int:
        """The number of times that all was cleared: counts asked before the last time are not kept."""
        return self._writings

    def keep(self, counts: Mapping[CountKey, int], *, writings: int) -> None:
        """Remember counts that were just asked, `writings` being what it was before: not where that has changed."""
        if self._seconds <= 0:
            return
        until = self._clock() + self._seconds
        with self._guard:
            if writings != self._writings:
                return
            if len(self._kept) + len(counts) > _MOST_COUNTS:
                self._kept.clear()
            self._kept.update((key, (until, count)) for key, count in counts.items())

    def clear(self) -> None:
        """Forget all: something was written."""
        with self._guard:
            self._kept.clear()
            self._writings += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TermCounts:
    """The counts of one question.

    Attributes:
        views: of the kind that is searched.
        words: word -> views that hold it, of those that any view holds.
        terms: that any chunk carries, normalised.
    """

    views: int
    words: Mapping[str, int]
    terms: tuple[str, ...]

    def telling(self) -> tuple[str, ...]:
        """Return the words that are worth asking: all known ones, but those that stand in most of many views."""
        most = max(_FEW, _FREQUENT * self.views)
        return tuple(sorted(word for word, count in self.words.items() if count <= most) or sorted(self.words))

    def named_in(self, query: str) -> tuple[str, ...]:
        """Return the distinct terms that a question names, in order: the longest at each place."""
        return TermMatcher(self.terms).longest_in(query)


def spans_of(query: str) -> tuple[str, ...]:
    """Return every part of a question that may be a critical term: from border to border, normalised, each once."""
    normal = normalise_query(query)
    borders = [place for place in range(len(normal) + 1) if is_border(normal, place)]
    found: dict[str, None] = {}
    for at, start in enumerate(borders):
        for end in borders[at + 1 :]:
            if end - start > LONGEST_SPAN or len(found) >= MOST_SPANS:
                break
            span = normal[start:end]
            if span[0] != " " and span[-1] != " " and span == normalise_term(span):
                found[span] = None
    return tuple(found)


def find_counts(
    layout: IndexLayout,
    cache: CountCache,
    *,
    words: Iterable[str] = (),
    spans: Sequence[str] = (),
    view: str = DEFAULT_VIEW,
) -> Step[TermCounts]:
    """Return what the index says of words and of possible terms: no request where all of it is known already.

    Args:
        layout: of the set that is asked.
        cache: of that set.
        words: as they are indexed.
        spans: possible terms, normalised.
        view: kind of the views in which the words are counted.
    """
    at, field = layout.name, layout.words(view)
    views: CountKey = ("views", at, field)
    of_words = {word: ("word", f"{at} {field}", word) for word in dict.fromkeys(words)}
    of_terms = {span: ("term", at, span) for span in dict.fromkeys(spans)}
    wanted = [*([views] if of_words else []), *of_words.values(), *of_terms.values()]
    counts = yield from _counted(wanted, layout, cache, field, layout.nested(view))
    return TermCounts(
        views=counts.get(views, 0),
        words={word: counts[key] for word, key in of_words.items() if counts[key]},
        terms=tuple(span for span, key in of_terms.items() if counts[key]),
    )


def find_values(terms: Sequence[str], layout: IndexLayout, cache: CountCache) -> Step[tuple[str, ...]]:
    """Return the values under which terms that exist are indexed: each as often as a chunk may carry it.

    A term of weight w in a chunk stands there with all numbers up to w, see `repeated`.
    """
    numbers = range(2, MOST_WEIGHT + 1)
    values = {f"{term}{REPEAT}{n}": ("term", layout.name, f"{term}{REPEAT}{n}") for term in terms for n in numbers}
    counts = yield from _counted(list(values.values()), layout, cache, "", None)
    return tuple(sorted([*terms, *(value for value, key in values.items() if counts[key])]))


def is_mapped(field: str, layout: IndexLayout, cache: CountCache) -> Step[bool]:
    """Return whether the index has a field: a search for the vectors of an unknown one is an error, not empty."""
    key: CountKey = ("field", layout.name, field)
    writings, known = cache.writings, cache.known([key])
    if key not in known:
        path = f"/{quoted(layout.alias('chunks'))}/_field_caps"
        (reply,) = yield from ask([Call(method="GET", path=path, params={"fields": field}, purpose="search")])
        known = {key: int(field in reply["fields"])}
        cache.keep(known, writings=writings)
    return bool(known[key])


def _counted(
    wanted: Sequence[CountKey], layout: IndexLayout, cache: CountCache, field: str, nested: str | None
) -> Step[dict[CountKey, int]]:
    """Return the counts of keys, asked together where they are not known."""
    writings, counts = cache.writings, cache.known(wanted)
    missing = [key for key in wanted if key not in counts]
    groups = [missing[at : at + _FILTERS] for at in range(0, len(missing), _FILTERS)]
    params = {"filter_path": "aggregations"}
    calls = [
        search_call(layout.alias("chunks"), _body(group, field, nested), params=params, purpose="search")
        for group in groups
    ]
    replies = (yield from ask(calls)) if calls else []
    for group, reply in zip(groups, replies, strict=True):
        asked = dict(zip(group, _read(group, reply), strict=True))
        cache.keep(asked, writings=writings)
        counts |= asked
    return counts


def _body(keys: Sequence[CountKey], field: str, nested: str | None) -> dict[str, Any]:
    """Return the request that counts documents: each filter alone, so that the server reads a count, no postings.

    Words of nested views are counted among the nested documents.
    """
    terms = [_filter(key, field) for key in keys if key[0] == "term"]
    words = [_filter(key, field) for key in keys if key[0] != "term"]
    of_words: dict[str, Any] = {"filters": {"filters": words}}
    if nested is not None:
        of_words = {"nested": {"path": nested}, "aggs": {"of": of_words}}
    asked = {"terms": {"filters": {"filters": terms}}} if terms else {}
    return {"size": 0, "track_total_hits": False, "aggs": {**asked, **({"words": of_words} if words else {})}}


def _filter(key: CountKey, field: str) -> dict[str, Any]:
    kind, _, what = key
    if kind == "views":
        return {"exists": {"field": field}}
    return {"term": {"terms" if kind == "term" else field: what}}


def _read(keys: Sequence[CountKey], reply: Any) -> list[int]:
    """Return the counts in the order of the keys."""
    groups = {}
    for name in ("terms", "words"):
        group = reply["aggregations"].get(name, {}) if reply else {}
        groups[name] = iter([bucket["doc_count"] for bucket in group.get("of", group).get("buckets", ())])
    return [next(groups["terms" if key[0] == "term" else "words"], 0) for key in keys]
