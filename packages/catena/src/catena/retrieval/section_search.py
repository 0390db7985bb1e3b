"""Search whole sections and other long chunks: by their best passage, and by several views.

Each part works without the others; this module composes them as most readers want; it is meant to be read and copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from catena.effects import Step
from catena.model import Ranking, Where
from catena.model.errors import ParameterError
from catena.model.options import as_tuples, check_options
from catena.model.vectors import DEFAULT
from catena.retrieval.fusion import Fusion, ScoreFusion
from catena.retrieval.routes import ROUTES, Route, of_view, stored
from catena.retrieval.view_search import OnViewError, PaperQuota, ViewRule, retrieve_views
from catena.structure import PASSAGE

SECTION_ROUTES = ("lexical", "dense", "keyword", "passages")
"""The routes of long chunks: all their words, those of their best passage, its meaning, and names."""

SECTION_FUSION = replace(ScoreFusion.hiqa(), alpha=None, passages=0.75)
"""Of the words mostly those of the best passage; meaning counts as each question decides. See docs/decisions/0028."""


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
    fusion: Fusion = field(default_factory=ScoreFusion)
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
    under = partial(retrieve_views, query, views=how.views, rule=how.rule, search=routes, fusion=how.fusion)
    return (yield from under(k=k, depth=depth, where=where, on_view_error=how.on_view_error))


def _routes_of(names: Sequence[str], kind: str) -> Mapping[str, Route]:
    """Return the routes over one kind of view."""
    # what is embedded of a chunk's own text, or of its passages, are its default vectors
    dense = DEFAULT if kind in ("headed", PASSAGE) else kind
    return {name: of_view(ROUTES.get(name) or stored(name), dense if name == "dense" else kind) for name in names}
