"""Search whole sections and other long chunks: by their best passage, by several views, and read within a budget.

Each part works without the others; this module composes them as most readers want; it is meant to be read and copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Le

from catena.effects import Embed, Failed, FetchPlaces, Step, ask
from catena.model import Chunk, Hit, Place, Provenance, Ranking, Scale, Where
from catena.model.errors import MissingServiceError, ParameterError
from catena.model.filters import fields_of, surely
from catena.model.options import as_tuples, check_options
from catena.model.places import SEPARATOR
from catena.model.vectors import DEFAULT
from catena.retrieval.fusion import Fusion, ScoreBounds, ScoreFusion, by_maximum, half_cosine
from catena.retrieval.in_memory import Bm25Scorer
from catena.retrieval.routes import ROUTES, Route, of_view, stored
from catena.retrieval.view_search import OnViewError, PaperQuota, ViewRule, retrieve_views
from catena.structure import PASSAGE, PASSAGE_TOKENS, passages_of, searchable
from catena.text.words import count_tokens

SECTION_ROUTES = ("lexical", "dense", "keyword", "passages")
"""The routes of long chunks: all their words, those of their best passage, its meaning, and names."""

SECTION_FUSION = ScoreFusion(alpha=0.5, passages=0.5)
"""Meaning and words count alike, and of the words the whole and its best passage; see docs/decisions/0028."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSearch:
    """The options of a search under several views.

    Attributes:
        views: kinds, in the order in which they take turns; "headed" is the chunk's own text under its titles.
        rule: how the views' rankings become one; the paper's by default.
        routes: of the store, asked of each view; several are fused within the view first.
        fusion: of these.
        on_view_error: "degrade" goes on with the other views and says so; "raise" raises.
    """

    views: tuple[str, ...] = ("headed", "keywords", "summary")
    rule: ViewRule = field(default_factory=PaperQuota)
    routes: tuple[str, ...] = ("dense", "lexical")
    fusion: Fusion = field(default_factory=partial(ScoreFusion, alpha=0.5))
    on_view_error: OnViewError = "degrade"

    def __post_init__(self) -> None:
        as_tuples(self, "views", "routes")
        check_options(self)
        for name, example in (("views", "('headed', 'summary')"), ("routes", "('dense', 'lexical')")):
            if not all(names := getattr(self, name)) or not names:
                raise ParameterError(name, names, f"a sequence of at least one name: {example}")
        if isinstance(self.rule, type):
            raise ParameterError("rule", self.rule, "PaperQuota(), ExactUnion(), another rule, or one of your own")


def search_views(
    query: str, how: ViewSearch | None = None, *, k: float = 3, depth: int | None = None, where: Where | None = None
) -> Step[Ranking]:
    """Return chunks found under several views, each with the views that found it and its rank in them.

    Args:
        query: as typed.
        how: which views, and by which rule they become one.
        k: how many; the paper's rule takes 1.5 too, and returns as many as its views differ, see `PaperQuota`.
        depth: hits per view; by default max(3 k, 30).
        where: a filter that every view obeys.

    Raises:
        ParameterError: an option is out of range.
        ViewError: a view failed and that is not tolerated, or all did.
    """
    how = how or ViewSearch()
    routes = partial(_routes_of, how.routes)
    return (
        yield from retrieve_views(
            query,
            views=how.views,
            k=k,
            rule=how.rule,
            search=routes,
            fusion=how.fusion,
            depth=depth,
            where=where,
            on_view_error=how.on_view_error,
        )
    )


def read_passages(
    query: str,
    ranking: Ranking,
    *,
    budget_tokens: int,
    passage_tokens: int = PASSAGE_TOKENS,
    options: ReadingOptions | None = None,
    where: Where | None = None,
) -> Step[Ranking]:
    """Return the passages of the first hits that say most about the question, as many as fit into a budget.

    Args:
        query: as typed.
        ranking: of chunks of any length.
        budget_tokens: of all passages together, >= 0.
        passage_tokens: of one passage, at most.
        options: how passages are ranked.
        where: the filter that the chunks obey: a passage that does not, on its own pages, is left out.

    Returns:
        Exact slices of their documents with pages of their own, best first, in `Scale.NORMALIZED`.

    Raises:
        ParameterError: the budget is negative, or no whole number.
    """
    check_budget(budget_tokens)

    chunks = [hit.chunk for hit in ranking.hits[: (options or ReadingOptions()).hits]]
    passages = {chunk.id: searchable(passages_of(chunk, max_tokens=passage_tokens)) for chunk in chunks}
    passages = yield from _placed(chunks, passages)
    if where is not None:
        passages = {chunk.id: _allowed(where, chunk, passages[chunk.id]) for chunk in chunks}
    ranked = yield from rank_passages(query, ranking, lambda chunk: passages[chunk.id], options)
    return within_tokens(ranked, budget_tokens, count_tokens)


def _placed(chunks: Sequence[Chunk], passages: Mapping[str, Sequence[Chunk]]) -> Step[dict[str, tuple[Chunk, ...]]]:
    """Return passages with their own pages: a chunk alone says only on which pages it is itself."""
    several = [chunk for chunk in chunks if chunk.pages is not None and chunk.pages[0] < chunk.pages[1]]
    spans = [(each.document_id, each.start, each.end) for chunk in several for each in passages[chunk.id]]
    (found,) = (yield [FetchPlaces(spans=tuple(spans))]) if spans else ((),)
    if isinstance(found, Failed):
        if not isinstance(found.error, MissingServiceError):  # whoever answers searches without a store has no pages
            raise found.error
        found = (Place(),) * len(spans)
    places = dict(zip(spans, found, strict=True))

    def placed(each: Chunk) -> Chunk:
        place = places.get((each.document_id, each.start, each.end))
        if place is None or place.pages is None:
            return each
        return replace(each, pages=place.pages, page_labels=place.page_labels)

    return {chunk.id: tuple(map(placed, passages[chunk.id])) for chunk in chunks}


def _allowed(where: Where, chunk: Chunk, passages: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """Return the passages of a chunk which a filter that the chunk obeys does not surely refuse."""
    return tuple(
        each for each in passages if not surely(where, {**fields_of(each), "chunk_id": chunk.id}, holds=False)
    )


def _routes_of(names: Sequence[str], kind: str) -> Mapping[str, Route]:
    """Return the routes over one kind of view."""
    return {name: _over(name, kind) for name in names}


def _over(name: str, kind: str) -> Route:
    # what is embedded of a chunk's own text, or of its passages, are its default vectors
    view = DEFAULT if name == "dense" and kind in ("headed", PASSAGE) else kind
    return of_view(ROUTES.get(name) or stored(name), view)


_DECIMALS = 9  # of a score: what differs by less differs by the order in which a machine sums


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions:
    """The options of ranking the passages of hits.

    Attributes:
        hits: how many of the first hits are looked into, >= 1; where embeddings cost money, fewer cost less.
        alpha: share of the cosine against BM25 in a passage's own score, in [0, 1]; at 0 nothing is embedded.
        whole: share of the hit's score in that of its passages, in [0, 1].
    """

    hits: Annotated[int, Ge(1)] = 20
    alpha: Annotated[float, Ge(0), Le(1)] = 0.5
    whole: Annotated[float, Ge(0), Le(1)] = 0.5

    def __post_init__(self) -> None:
        check_options(self)


def rank_passages(
    query: str, ranking: Ranking, passages: Callable[[Chunk], Sequence[Chunk]], options: ReadingOptions | None = None
) -> Step[Ranking]:
    """Rank the passages of the first hits: `whole * h + (1 - whole) * (alpha * v + (1 - alpha) * r)`.

    h is the score of the passage's hit over the best hit's, v the cosine of question and passage as `(1 + cos) / 2`,
    r its BM25 over the best BM25, with the statistics of these passages. Each passage is compared under the titles
    above it. Where only the order of the hits is known (`Scale.RANK`), h is `1 / rank`.

    Args:
        query: as typed.
        ranking: of long chunks, whole sections say; any scale.
        passages: the slices of a chunk, as `catena.structure.passages.passages_of` cuts them.
        options: how much each part counts, and how many hits are looked into.

    Returns:
        One hit per passage, in `Scale.NORMALIZED`, ties by id; its provenance is that of its chunk, and then what it
        is worth itself.
    """
    how = options or ReadingOptions()
    hits = ranking.hits[: how.hits]
    found = [(hit, passage) for hit in hits for passage in passages(hit.chunk)]
    if not found:
        return Ranking((), Scale.NORMALIZED, ranking.degraded, ranking.unknown)
    texts = [SEPARATOR.join(passage.path) + "\n" + passage.text for _, passage in found]
    words = [max(score, 0.0) for score in Bm25Scorer(texts).score(query).tolist()]  # -inf where no word is shared
    cosines = (yield from _cosines(query, texts)) if how.alpha else [0.0] * len(texts)
    bounds = ScoreBounds(low=0.0, high=max(words))
    worth = _worth(hits, ranking.scale)
    scored: list[Hit] = []
    for (hit, passage), cosine, word in zip(found, cosines, words, strict=True):
        own = how.alpha * half_cosine(cosine, bounds) + (1.0 - how.alpha) * by_maximum(word, bounds)
        score = round(how.whole * worth[hit.chunk.id] + (1.0 - how.whole) * own, _DECIMALS)
        itself = Provenance(route="reading", rank=None, score=own, view="passage")
        scored.append(Hit(passage, score, (*hit.provenance, itself)))
    ranked = Ranking.of(scored, Scale.NORMALIZED, ranking.degraded)
    return Ranking(ranked.hits, ranked.scale, ranked.degraded, ranking.unknown)


def check_budget(budget: object) -> None:
    """Raise `ParameterError` unless the budget is a number of tokens: before anything is searched or paid."""
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 0:
        raise ParameterError("budget", budget, "a whole number of tokens >= 0")


def within_tokens(ranking: Ranking, budget: int, count: Callable[[str], int]) -> Ranking:
    """Return the hits that fit into a budget, in order; one that does not fit is passed over for shorter ones.

    Args:
        ranking: best first.
        budget: tokens of all texts together, >= 0.
        count: tokens of a text.

    Raises:
        ParameterError: the budget is negative, or no whole number.
    """
    check_budget(budget)
    kept: list[Hit] = []
    for hit in ranking.hits:
        tokens = count(hit.chunk.text)
        if tokens <= budget:
            kept.append(hit)
            budget -= tokens
    return Ranking(tuple(kept), ranking.scale, ranking.degraded, ranking.unknown)


def _cosines(query: str, texts: Sequence[str]) -> Step[list[float]]:
    """Return the dot products of the query's vector with those of the texts."""
    asked = Embed(texts=(query,), kind="query", purpose="query embedding")
    replies: list[Any] = yield from ask([asked, Embed(texts=tuple(texts), purpose="passage embedding")])
    rows, vector = np.asarray(replies[1], dtype=np.float64), np.asarray(replies[0][0], dtype=np.float64)
    return [float(each) for each in rows @ vector]


def _worth(hits: Sequence[Hit], scale: Scale) -> dict[str, float]:
    """Return the worth of each hit beside the best one, in [0, 1]."""
    if scale is Scale.RANK:
        return {hit.chunk.id: 1.0 / rank for rank, hit in enumerate(hits, start=1)}
    bounds = ScoreBounds(low=0.0, high=max(hit.score for hit in hits))
    return {hit.chunk.id: by_maximum(hit.score, bounds) for hit in hits}
