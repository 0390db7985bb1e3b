"""Rank by one route on a server: the same chunks, in the same order and unit, as from the embedded library.

"dense" gives cosines, "lexical" BM25 rounded as the embedded library rounds it, "keyword" the number of the
question's critical terms that a chunk carries. Ties go by chunk id: rows are asked until none that was not can tie
with the last. Before a ranking, the words and terms of the question are counted, in the languages of the texts; and
where no view is named, the best whole documents are asked for, whose BM25 is added to that of their chunks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import numpy as np
from annotated_types import Ge, Le, Lt

from catena import Degraded, Hit, Provenance, Ranking, Scale
from catena.effects import Search, SearchFused, Step, ask
from catena.model import DEFAULT, DEFAULT_VIEW, NO_DOCUMENTS, Checked, ParameterError, ServerError
from catena.store import DOCUMENTS, WHOLE
from catena.text import TermMatcher, asked_words, is_border, known_words, normalise_query, normalise_term, stop_words
from catena_server.calls import Call, quoted, search_call, searched, side_by_side
from catena_server.encoding import indexed_word
from catena_server.filters import any_of, filter_query
from catena_server.index_layout import REPEAT, IndexLayout, language_mark
from catena_server.queries import (
    DENSE,
    ELASTICSEARCH,
    KEYWORD,
    LEXICAL,
    MOST,
    MOST_TERMS,
    AskedWord,
    Dialect,
    Nearest,
    Query,
    count_query,
    explained,
    rows_of,
    words_query,
)
from catena_server.restoring import SOURCE_FIELDS, chunk_of, embedded_of, rows_found, sources

if TYPE_CHECKING:
    from numpy.typing import NDArray


ROUTES = (DENSE, LEXICAL, KEYWORD)
TERMS_VIEW = "terms"  # by which the keyword route finds, in provenance
DECIMALS = 4  # of a BM25: equal views get equal scores whatever order their words were summed in
MOST_WORDS = 950  # forms of one question; of more, the rarest are asked: a request takes at most 1,024 clauses
_BESIDE = 10  # rows that are asked beyond k, to see whether they tie with the k-th
_MOST_COUNTS = 50_000  # kept, about 200 bytes each; the best documents of a question, 5 kB

CountKey: TypeAlias = tuple[str, str, str]
"""("views" | "word" | "term" | "language" | "field" | "fields" | "values" | "documents", of which index, of what)"""
T = TypeVar("T")


class CountCache:
    """Counts, and the best documents of questions, that were asked a moment ago; safe to be shared by threads.

    Args:
        seconds: how long a count is taken for true; 0 keeps none.
        clock: seconds that never go back.
    """

    def __init__(self, *, seconds: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._kept: dict[CountKey, tuple[float, Any]] = {}  # until when, and the count
        self._guard = threading.Lock()
        self._writings = 0

    def known(self, keys: Iterable[CountKey]) -> dict[CountKey, Any]:
        """Return those of the counts that are known."""
        now = self._clock()
        with self._guard:
            kept = {key: self._kept.get(key, (now, 0)) for key in keys}
        return {key: count for key, (until, count) in kept.items() if until > now}

    @property
    def writings(self) -> int:
        """The number of times that all was cleared: counts asked before the last time are not kept."""
        return self._writings

    def keep(self, counts: Mapping[CountKey, Any], *, writings: int) -> None:
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


def lately(key: CountKey, cache: CountCache, asked: Callable[[], Step[T]]) -> Step[T]:
    """Return what is known of a key, or else what a step finds, which is kept."""
    writings, known = cache.writings, cache.known([key])
    if key not in known:
        known = {key: (yield from asked())}
        cache.keep(known, writings=writings)
    return known[key]  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions(Checked):
    """Options of the searches of an index set.

    Attributes:
        counts: counts of words and terms; cleared by who writes to the set.
        candidates: vectors looked at per shard for the nearest: more find them more surely, and take longer.
        oversample: so many times as many as asked are compared by their full floats, where vectors lie in fewer bits.
    """

    dialect: Dialect = ELASTICSEARCH
    counts: CountCache = field(default_factory=CountCache, compare=False, repr=False)
    candidates: Annotated[int, Ge(1), Le(MOST)] = 1_000
    oversample: Annotated[float, Ge(1), Lt(inf)] = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that ranks: `body(rows)`, and what a row's score is in the route's own unit."""

    body: Callable[[int], Mapping[str, Any]]
    unit: Callable[[float], float]
    view: str | None  # by which chunks are found; None for that of which each one's default vectors were made
    params: Mapping[str, str | int | bool] = field(default_factory=dict)
    is_coarse: bool = True  # whether scores that the server tells apart may be equal in our unit


def search(request: Search, layout: IndexLayout, how: QueryOptions) -> Step[Ranking]:
    """Return the k best chunks of one route, best first, with raw scores.

    Args:
        request: its `where`, `among` and `documents` limit what is ranked, not what is found of it.
        layout: of the set.
        how: options.

    Raises:
        ParameterError: the request has an unknown route, a k that is no number of rows, or a vector of another shape.
        FilterError: the filter is malformed.
        ServerError: the server refused, cannot be reached, or has no vectors.
    """
    _check(request)
    if request.k == 0 or request.among == () or request.documents == ():
        return Ranking((), Scale.SIMILARITY)
    asked = yield from _ASKERS[request.route](request, layout, how)
    if asked is None:
        return Ranking((), Scale.SIMILARITY)
    try:
        best = yield from _best(asked, request.k, layout)
    except ServerError as error:
        raise explained(error) from error
    ranked = request.among is None
    hits = []
    for rank, (chunk_id, score, source) in enumerate(best, start=1):
        view = asked.view or embedded_of(source)
        way = Provenance(route=request.route, rank=rank if ranked else None, score=score, view=view)
        hits.append(Hit(chunk_of(source, chunk_id), score, (way,)))
    if not hits:
        return Ranking((), Scale.SIMILARITY, (yield from emptiness(layout)))
    return Ranking(tuple(hits), Scale.SIMILARITY)


def emptiness(layout: IndexLayout) -> Step[tuple[Degraded, ...]]:
    """Return that a set holds no documents, where it holds none."""
    body = {"size": 0, "track_total_hits": 1, "query": {"match_all": {}}}
    (reply,) = yield from ask([search_call(layout.alias("chunks"), body, purpose="whether there is anything")])
    total = (reply.get("hits") or {}).get("total") or {}
    return () if total.get("value", 1) else (Degraded(f"library {layout.name!r}", NO_DOCUMENTS),)


def filters_of(request: Search | SearchFused) -> tuple[Query, ...]:
    """Return what a request limits its ranking to, as clauses that must all hold."""
    clauses: list[Query] = []
    if request.where is not None:
        clauses.append(filter_query(request.where))
    if request.documents is not None:
        within: list[dict[str, Any]] = [
            {"terms": {"document": part}} for part in _parts(request.documents, MOST_TERMS)
        ]
        within += [{"ids": {"values": part}} for part in _parts(request.besides, MOST) if part]
        clauses.append(any_of(within))
    if isinstance(request, Search) and request.among is not None:
        clauses.append(any_of({"ids": {"values": part}} for part in _parts(request.among, MOST)))
    return tuple(clauses)


def _parts(ids: Sequence[str], most: int) -> list[list[str]]:
    """Return ids in lists that are short enough for one clause; one list, which is empty, of none."""
    return [list(ids[at : at + most]) for at in range(0, max(len(ids), 1), most)]


def words_asked(
    query: str, layout: IndexLayout, cache: CountCache, *, view: str = DEFAULT_VIEW, spans: Sequence[str] = ()
) -> Step[tuple[list[AskedWord], TermCounts]]:
    """Return the words of a question that are worth asking, in the forms in which texts of a kind hold them.

    Args:
        query: as typed.
        layout: of the set that is asked.
        cache: of that set.
        view: kind of the views; or `WHOLE`, for documents.
        spans: possible terms, which are counted in the same request.

    Returns:
        The words, and all that was counted.
    """
    keys: dict[str, CountKey] = {each: ("language", layout.name, language_mark(each, view)) for each in stop_words()}
    counted = (yield from _counted(list(keys.values()), layout, cache, view)) if query else {}
    words = asked_words(query, tuple(language for language, key in keys.items() if counted.get(key)))
    forms = [tuple(map(indexed_word, each)) for each in words]
    counts = yield from find_counts(layout, cache, words=chain(*forms), spans=spans, view=view)
    return counts.asked(forms), counts


def best_documents(query: str, layout: IndexLayout, how: QueryOptions) -> Step[tuple[tuple[str, float], ...]]:
    """Return the 50 best documents of a question, with all that score as the last: id, BM25 in the server's unit."""
    return (
        yield from lately(("documents", layout.name, query), how.counts, lambda: _best_documents(query, layout, how))
    )


def _best_documents(query: str, layout: IndexLayout, how: QueryOptions) -> Step[tuple[tuple[str, float], ...]]:
    words, _ = yield from words_asked(query, layout, how.counts, view=WHOLE)
    unit, size = how.dialect.bm25_unit, DOCUMENTS + _BESIDE
    found: tuple[tuple[str, float], ...] = ()
    while words:
        asked = {"query": words_query(words, layout, WHOLE), "size": size, "track_total_hits": False}
        body = {**asked, "_source": ["document"], "sort": [{"_score": "desc"}, {"document": "asc"}]}
        rows = (yield from searched(layout.alias("documents"), body, purpose="search"))["hits"]["hits"]
        scores = [round(row["_score"] * unit, DECIMALS) for row in rows]
        least = scores[DOCUMENTS - 1] if len(rows) > DOCUMENTS else 0.0
        scored = zip(rows, scores, strict=True)
        found = tuple((row["_source"]["document"], score / unit) for row, score in scored if score >= least)
        if len(rows) < size or size == MOST or scores[-1] < least:
            break
        size = min(size * 4, MOST)
    return found


def cosine_of(score: float) -> float:
    """Return the cosine of a server's score `(1 + cos) / 2`."""
    return 2.0 * score - 1.0


def nearest_to(
    vector: NDArray[np.float32],
    k: int,
    layout: IndexLayout,
    how: QueryOptions,
    *,
    view: str = DEFAULT,
    filters: Sequence[Query] = (),
) -> Nearest:
    """Return the k nearest vectors of a kind as they are asked."""
    k = min(k, MOST)
    return Nearest(
        field=layout.vector(view),
        vector=vector.tolist(),
        k=k,
        candidates=max(k, how.candidates),
        oversample=how.oversample,
        nested=layout.nested(view),
        filters=filters,
    )


def checked_vector(vector: Any, dim: int) -> NDArray[np.float32]:
    """Return the question's vector, shape (dim,).

    Raises:
        ParameterError: it has another shape, or holds NaN or infinity.
    """
    allowed = f"{dim} finite numbers, the query's embedding, for the dense route"
    try:
        array = np.asarray(vector, np.float32)
    except (TypeError, ValueError):
        raise ParameterError("vector", vector, allowed) from None
    if array.shape != (dim,):
        raise ParameterError("vector", f"the shape {array.shape}", allowed)
    if not np.isfinite(array).all():
        raise ParameterError("vector", "NaN or infinity", allowed)
    return array


def over_all_shards(layout: IndexLayout) -> dict[str, str | int | bool]:
    """Return the parameter by which words count the same on every shard.

    A search with neighbours beside the query does so by itself, and refuses it.
    """
    return {"search_type": "dfs_query_then_fetch"} if layout.shards > 1 else {}


def check_k(k: object) -> None:
    """Raise `ParameterError` for what is no number of hits that a server gives at once."""
    if not isinstance(k, int) or isinstance(k, bool) or not 0 <= k <= MOST:
        raise ParameterError("k", k, f"a whole number in [0, {MOST}], as many as a server gives at once")


def _check(request: Search) -> None:
    if request.route not in _ASKERS:
        raise ParameterError("route", request.route, f"one of {', '.join(ROUTES)}")
    check_k(request.k)
    if not isinstance(request.query, str):
        raise ParameterError("query", request.query, "a string")


def _dense(request: Search, layout: IndexLayout, how: QueryOptions) -> Step[Asked | None]:
    vector = checked_vector(request.vector, layout.dim)
    view = request.view or DEFAULT
    if not vector.any() or not (view == DEFAULT or (yield from is_mapped(layout.vector(view), layout, how.counts))):
        return None
    filters = filters_of(request)

    def body(rows: int) -> dict[str, Any]:
        nearest = nearest_to(vector, rows, layout, how, view=view, filters=filters)
        return {**how.dialect.body(nearest=nearest, filters=filters), **rows_of(rows)}

    return Asked(body=body, unit=cosine_of, view=request.view or None)


def _lexical(request: Search, layout: IndexLayout, how: QueryOptions) -> Step[Asked | None]:
    view = request.view or DEFAULT_VIEW
    of_documents = [best_documents(request.query, layout, how)] if request.view is None else []
    (words, _), *documents = yield from side_by_side(
        words_asked(request.query, layout, how.counts, view=view), *of_documents
    )
    if not words:
        return None
    asked = words_query(words, layout, view, *documents)
    query = how.dialect.body(should=[asked], filters=filters_of(request))

    def unit(score: float) -> float:
        return round(score * how.dialect.bm25_unit, DECIMALS)

    return Asked(body=lambda rows: {**query, **rows_of(rows)}, unit=unit, view=view, params=over_all_shards(layout))


def _keyword(request: Search, layout: IndexLayout, how: QueryOptions) -> Step[Asked | None]:
    spans = spans_of(request.query)
    if not spans:
        return None
    counts = yield from find_counts(layout, how.counts, spans=spans)
    named = counts.named_in(request.query)
    if not named:
        return None
    values = yield from find_values(named, layout, how.counts)
    query = how.dialect.body(should=[count_query(values)], filters=filters_of(request))
    return Asked(body=lambda rows: {**query, **rows_of(rows)}, unit=float, view=TERMS_VIEW, is_coarse=False)


_ASKERS: Mapping[str, Callable[[Search, IndexLayout, QueryOptions], Step[Asked | None]]] = {
    DENSE: _dense,
    LEXICAL: _lexical,
    KEYWORD: _keyword,
}


def _best(asked: Asked, k: int, layout: IndexLayout) -> Step[list[tuple[str, float, Mapping[str, Any]]]]:
    """Return (chunk id, score, source) of the k best chunks, ties by id, without those deleted meanwhile."""
    size = min(k + (_BESIDE if asked.is_coarse else 0), MOST)
    sources_by_id: dict[str, Mapping[str, Any]] = {}
    while True:
        body = dict(asked.body(size)) | ({} if sources_by_id else {"_source": list(SOURCE_FIELDS)})
        rows = yield from rows_found(layout, body, asked.params)
        sources_by_id |= {row["_id"]: row["_source"] for row in rows if "_source" in row}
        scored = sorted((-asked.unit(row["_score"]), row["_id"]) for row in rows)
        if not asked.is_coarse or len(rows) < size or size == MOST or scored[-1][0] > scored[k - 1][0]:
            break
        size = min(size * 4, MOST)
    best = scored[:k]
    sources_by_id |= yield from sources((chunk_id for _, chunk_id in best if chunk_id not in sources_by_id), layout)
    return [(chunk_id, -minus, sources_by_id[chunk_id]) for minus, chunk_id in best if chunk_id in sources_by_id]


LONGEST_SPAN = 120  # characters of a question in which a term is looked for
MOST_SPANS = 2_000  # that are looked up of one question, the first ones: a log that is pasted in has many
MOST_WEIGHT = 8  # of a term in a chunk: higher ones count as this
_FILTERS = 4_000  # of one request: answers stay small
_OF_CHUNKS: Mapping[str, str] = {"term": "terms", "language": "languages"}  # fields by key: not of nested views


@dataclass(frozen=True, slots=True, kw_only=True)
class TermCounts:
    """The counts of one question.

    Attributes:
        views: of the kind that is searched; or documents.
        words: word -> views that hold it, of those that any view holds.
        terms: that any chunk carries, normalised.
    """

    views: int
    words: Mapping[str, int]
    terms: tuple[str, ...]

    def asked(self, words: Collection[tuple[str, ...]]) -> list[AskedWord]:
        """Return the words of a question that are worth asking, sorted: of very many, the rarest."""
        known = known_words(words, self.words, self.views)
        rarest = sorted(known, key=lambda forms: (max(self.words[form] for form in forms), forms))
        forms_so_far = accumulate(map(len, rarest))
        kept = [forms for forms, so_far in zip(rarest, forms_so_far, strict=True) if so_far <= MOST_WORDS]
        return [(forms, known[forms]) for forms in sorted(kept)]

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
        view: kind of the views in which the words are counted; or `WHOLE`, for documents.
    """
    at, field = layout.name, layout.words(view)
    views: CountKey = ("views", at, field)
    of_words = {word: ("word", f"{at} {field}", word) for word in dict.fromkeys(words)}
    of_terms = {span: ("term", at, span) for span in dict.fromkeys(spans)}
    wanted = [*([views] if of_words else []), *of_words.values(), *of_terms.values()]
    counts = yield from _counted(wanted, layout, cache, view)
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
    counts = yield from _counted(list(values.values()), layout, cache)
    return tuple(sorted([*terms, *(value for value, key in values.items() if counts[key])]))


def is_mapped(field: str, layout: IndexLayout, cache: CountCache) -> Step[bool]:
    """Return whether the index has a field: a search for the vectors of an unknown one is an error, not empty."""
    path = f"/{quoted(layout.alias('chunks'))}/_field_caps"

    def asked() -> Step[bool]:
        (reply,) = yield from ask([Call(method="GET", path=path, params={"fields": field}, purpose="search")])
        return field in reply["fields"]

    return (yield from lately(("field", layout.name, field), cache, asked))


def _counted(
    wanted: Sequence[CountKey], layout: IndexLayout, cache: CountCache, view: str = DEFAULT_VIEW
) -> Step[dict[CountKey, int]]:
    """Return the counts of keys, asked together where they are not known."""
    writings, counts = cache.writings, cache.known(wanted)
    missing = [key for key in wanted if key not in counts]
    groups = [missing[at : at + _FILTERS] for at in range(0, len(missing), _FILTERS)]
    params, field, nested = {"filter_path": "aggregations"}, layout.words(view), layout.nested(view)
    alias = layout.alias("documents" if view == WHOLE else "chunks")
    calls = [search_call(alias, _body(group, field, nested), params=params, purpose="search") for group in groups]
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
    terms = [_filter(key, field) for key in keys if key[0] in _OF_CHUNKS]
    words = [_filter(key, field) for key in keys if key[0] not in _OF_CHUNKS]
    of_words: dict[str, Any] = {"filters": {"filters": words}}
    if nested is not None:
        of_words = {"nested": {"path": nested}, "aggs": {"of": of_words}}
    asked = {"terms": {"filters": {"filters": terms}}} if terms else {}
    return {"size": 0, "track_total_hits": False, "aggs": {**asked, **({"words": of_words} if words else {})}}


def _filter(key: CountKey, field: str) -> dict[str, Any]:
    kind, _, what = key
    if kind == "views":
        return {"exists": {"field": field}}
    return {"term": {_OF_CHUNKS.get(kind, field): what}}


def _read(keys: Sequence[CountKey], reply: Any) -> list[int]:
    """Return the counts in the order of the keys."""
    groups = {}
    for name in ("terms", "words"):
        group = reply["aggregations"].get(name, {}) if reply else {}
        groups[name] = iter([bucket["doc_count"] for bucket in group.get("of", group).get("buckets", ())])
    return [next(groups["terms" if key[0] in _OF_CHUNKS else "words"], 0) for key in keys]
