"""The standard ways to whole sections and other long chunks: by their best passage, by several views, by a budget.

Each part works without the others; this module composes them as most readers want; it is meant to be read and copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from catena.effects import Failed, FetchPlaces, Step
from catena.model import Place
from catena.model.errors import MissingServiceError, ParameterError
from catena.model.filters import fields_of, surely
from catena.model.options import as_tuples, check_options
from catena.model.vectors import DEFAULT
from catena.retrieval.fusion import ScoreFusion
from catena.retrieval.multi_route import Fusion
from catena.retrieval.reading import ReadingOptions, check_budget, rank_passages, within_tokens
from catena.retrieval.routes import ROUTES, Route, stored
from catena.retrieval.view_routes import of_view
from catena.retrieval.view_search import OnViewError, PaperQuota, ViewRule, retrieve_views
from catena.structure.cascade import searchable
from catena.structure.passages import PASSAGE, PASSAGE_TOKENS, passages_of
from catena.structure.tokens import count_tokens

if TYPE_CHECKING:
    from catena.model import Chunk, Ranking, Where

SECTION_ROUTES = ("lexical", "dense", "keyword", "passages")
"""How `retrieve` searches long chunks: by all their words, by those of their best passage, and by its meaning."""

SECTION_FUSION = ScoreFusion(alpha=0.5, passages=0.5)
"""Meaning and words count alike, and of the words the whole and its best passage; see docs/decisions/0028."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSearch:
    """How chunks are searched under several views.

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
