"""What an index says of the words and terms of a question: how often they are there, in one small request.

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

from catena.effects.steps import Step, ask
from catena.model.vectors import DEFAULT_VIEW
from catena.server.call import Call
from catena.server.hits import search_call
from catena.server.layout import REPEAT, IndexLayout, quoted
from catena.text.terms import TermMatcher
from catena.text.words import is_border, normalise_query, normalise_term

Fact: TypeAlias = tuple[str, str, str]  # ("views" | "word" | "term" | "field", of which index and field, of what)

LONGEST_SPAN = 120  # characters of a question in which a term is looked for
MOST_SPANS = 2_000  # that are looked up of one question, the first ones: a log that is pasted in has many
MOST_WEIGHT = 8  # of a term in a chunk: higher ones count as this
_FREQUENT = 0.5  # a word in more than this part of the views tells little and costs most
_FEW = 2_000  # views up to which no word is left out
_FILTERS = 4_000  # of one request: answers stay small
_MOST_FACTS = 50_000  # kept, about 200 bytes each


class FactsCache:
    """Counts that were asked a moment ago; safe to be shared by threads.

    Args:
        seconds: how long a count is taken for true; 0 keeps none.
        clock: seconds that never go back.
    """

    def __init__(self, *, seconds: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._held: dict[Fact, tuple[float, int]] = {}  # until when, and the count
        self._guard = threading.Lock()
        self._writings = 0

    def known(self, facts: Iterable[Fact]) -> dict[Fact, int]:
        """Return those of the counts that are known."""
        now = self._clock()
        with self._guard:
            held = {fact: self._held.get(fact, (now, 0)) for fact in facts}
        return {fact: count for fact, (until, count) in held.items() if until > now}

    @property
    def writings(self) -> int:
        """How often all was forgotten: what was asked before the last time is not kept."""
        return self._writings

    def keep(self, counts: Mapping[Fact, int], *, writings: int) -> None:
        """Remember counts that were just asked, `writings` being what it was before: not where that has changed."""
        if self._seconds <= 0:
            return
        until = self._clock() + self._seconds
        with self._guard:
            if writings != self._writings:
                return
            if len(self._held) + len(counts) > _MOST_FACTS:
                self._held.clear()
            self._held.update((fact, (until, count)) for fact, count in counts.items())

    def clear(self) -> None:
        """Forget all: something was written."""
        with self._guard:
            self._held.clear()
            self._writings += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was asked of one question.

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


def find_facts(
    layout: IndexLayout,
    cache: FactsCache,
    *,
    words: Iterable[str] = (),
    spans: Sequence[str] = (),
    view: str = DEFAULT_VIEW,
) -> Step[Facts]:
    """Return what the index says of words and of possible terms: no request where all of it is known already.

    Args:
        layout: of the set that is asked.
        cache: of that set.
        words: as they are indexed.
        spans: possible terms, normalised.
        view: kind of the views in which the words are counted.
    """
    at, field = layout.name, layout.words(view)
    views: Fact = ("views", at, field)
    of_words = {word: ("word", f"{at} {field}", word) for word in dict.fromkeys(words)}
    of_terms = {span: ("term", at, span) for span in dict.fromkeys(spans)}
    wanted = [*([views] if of_words else []), *of_words.values(), *of_terms.values()]
    counts = yield from _counted(wanted, layout, cache, field, layout.nested(view))
    return Facts(
        views=counts.get(views, 0),
        words={word: counts[fact] for word, fact in of_words.items() if counts[fact]},
        terms=tuple(span for span, fact in of_terms.items() if counts[fact]),
    )


def find_values(terms: Sequence[str], layout: IndexLayout, cache: FactsCache) -> Step[tuple[str, ...]]:
    """Return the values under which terms that exist are indexed: each as often as a chunk may carry it.

    A term of weight w in a chunk stands there with all numbers up to w, see `repeated`.
    """
    numbers = range(2, MOST_WEIGHT + 1)
    values = {f"{term}{REPEAT}{n}": ("term", layout.name, f"{term}{REPEAT}{n}") for term in terms for n in numbers}
    counts = yield from _counted(list(values.values()), layout, cache, "", None)
    return tuple(sorted([*terms, *(value for value, fact in values.items() if counts[fact])]))


def is_mapped(field: str, layout: IndexLayout, cache: FactsCache) -> Step[bool]:
    """Return whether the index has a field: a search for the vectors of an unknown one is an error, not empty."""
    fact: Fact = ("field", layout.name, field)
    writings, known = cache.writings, cache.known([fact])
    if fact not in known:
        path = f"/{quoted(layout.alias('chunks'))}/_field_caps"
        (reply,) = yield from ask([Call(method="GET", path=path, params={"fields": field}, purpose="search")])
        known = {fact: int(field in reply["fields"])}
        cache.keep(known, writings=writings)
    return bool(known[fact])


def _counted(
    wanted: Sequence[Fact], layout: IndexLayout, cache: FactsCache, field: str, nested: str | None
) -> Step[dict[Fact, int]]:
    """Return the counts of facts, asked together where they are not known."""
    writings, counts = cache.writings, cache.known(wanted)
    missing = [fact for fact in wanted if fact not in counts]
    groups = [missing[at : at + _FILTERS] for at in range(0, len(missing), _FILTERS)]
    params = {"filter_path": "aggregations"}
    calls = [search_call(layout, _body(group, field, nested), params=params, purpose="search") for group in groups]
    replies = (yield from ask(calls)) if calls else []
    for group, reply in zip(groups, replies, strict=True):
        asked = dict(zip(group, _read(group, reply), strict=True))
        cache.keep(asked, writings=writings)
        counts |= asked
    return counts


def _body(facts: Sequence[Fact], field: str, nested: str | None) -> dict[str, Any]:
    """Return the request that counts documents: each filter alone, so that the server reads a count, no postings.

    Words of nested views are counted among the nested documents.
    """
    terms = [_filter(fact, field) for fact in facts if fact[0] == "term"]
    words = [_filter(fact, field) for fact in facts if fact[0] != "term"]
    of_words: dict[str, Any] = {"filters": {"filters": words}}
    if nested is not None:
        of_words = {"nested": {"path": nested}, "aggs": {"of": of_words}}
    asked = {"terms": {"filters": {"filters": terms}}} if terms else {}
    return {"size": 0, "track_total_hits": False, "aggs": {**asked, **({"words": of_words} if words else {})}}


def _filter(fact: Fact, field: str) -> dict[str, Any]:
    kind, _, what = fact
    if kind == "views":
        return {"exists": {"field": field}}
    return {"term": {"terms" if kind == "term" else field: what}}


def _read(facts: Sequence[Fact], reply: Any) -> list[int]:
    """Return the counts in the order of the facts."""
    groups = {}
    for name in ("terms", "words"):
        group = reply["aggregations"].get(name, {}) if reply else {}
        groups[name] = iter([bucket["doc_count"] for bucket in group.get("of", group).get("buckets", ())])
    return [next(groups["terms" if fact[0] == "term" else "words"], 0) for fact in facts]
