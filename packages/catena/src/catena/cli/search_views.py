"""`catena search --views`: chunks found under several views, and which view found each at which rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from catena.cli.console import out
from catena.cli.failures import ProblemError
from catena.cli.view_options import listed
from catena.cli.weights import FusionName, Weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from catena.library import Library
    from catena.model import Hit, Ranking, Where
    from catena.retrieval.multi_route import Fusion
    from catena.retrieval.view_search import ViewRule

ALL = "all"
OWN = "headed"
"""The view that is a chunk's own text under its titles."""

_FIRST = (OWN, "keywords", "summary", "questions")  # the order in which views take turns
# parts or forms of the chunk's own text, and what is made to join chunks, not to find them
_NO_TURN = frozenset({"raw", "passage", "context", "caption", "table", "graph_keywords"})
_ROUTES = ("dense", "lexical")  # those that search one kind of view


class RuleName(StrEnum):
    """How the rankings of several views become one."""

    PAPER = "paper"
    EXACT = "exact"
    RANK = "rank"
    SCORE = "score"
    ADAPTIVE = "adaptive"


ViewsSearched: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--views", metavar="KIND,…|all", help="Search these views: headed, keywords, summary, questions."),
]
RuleOption: TypeAlias = Annotated[
    RuleName | None,
    typer.Option(
        "--rule",
        help="How views become one: 2k/3 of each (paper), k in turns (exact), fused by rank or by score, or most "
        "from the view whose best stand out (adaptive) [paper].",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewsWanted:
    """What the options say of views.

    Attributes:
        kinds: as given; none where views are not searched.
        rule: how their rankings become one; None is the paper's.
    """

    kinds: tuple[str, ...] = ()
    rule: RuleName | None = None

    @classmethod
    def of(cls, given: Sequence[str] | None, rule: RuleName | None) -> ViewsWanted:
        """Return what the options say.

        Raises:
            ProblemError: no kind is named.
        """
        kinds = listed(given)
        if given and not kinds:
            raise ProblemError("--views names no kind of view", "--views all, or --views headed,keywords")
        return cls(kinds=kinds, rule=rule)

    def check(self, k: float | None, weights: Weights, *, about_names: bool) -> None:
        """Refuse options that could do nothing here.

        Args:
            k: how many chunks.
            weights: of routes.
            about_names: whether an option is about names in the question.

        Raises:
            ProblemError: there is one.
        """
        if self.rule is not None and not self.kinds:
            raise ProblemError("--rule says how several views become one", "--views all with it")
        by_paper = self.rule in (None, RuleName.PAPER)
        if k is not None and not k.is_integer() and not (self.kinds and by_paper):
            problem = f"-k {k:g}: only the paper's rule takes parts"
            raise ProblemError(problem, "--views all --rule paper, or a whole number")
        if not self.kinds:
            return
        if no_view := [name for name in weights.routes if name not in _ROUTES]:
            what = f"--route {no_view[0]} searches no single view"
            raise ProblemError(what, " or ".join(f"--route {name}" for name in _ROUTES))
        unused = {
            "--beta": weights.beta is not None, "--tuned": weights.tuned is not None, "--adapted": weights.adapted,
            "--entity, --keep-neighbours and --no-names": about_names,
        }  # fmt: skip
        for option in (name for name, given in unused.items() if given):
            raise ProblemError(f"--views obeys no {option}", "--alpha, --route, --where and --rule with it")


def found_by_views(
    opened: Library, question: str, wanted: ViewsWanted, weights: Weights, *, k: float, where: Where | None
) -> tuple[Ranking, tuple[str, ...]]:
    """Search a library under several views.

    Args:
        opened: the library.
        question: as typed.
        wanted: which views, and by which rule.
        weights: of the routes within a view.
        k: how many chunks.
        where: a filter.

    Returns:
        The ranking, and the views that were searched, in the order in which they take turns.

    Raises:
        ProblemError: the library has no such views.
    """
    from catena.retrieval.section_search import ViewSearch

    kinds = _held(opened.store.view_kinds(), wanted.kinds)
    how = ViewSearch(
        views=kinds,
        rule=_rule(wanted.rule),
        routes=weights.routes or _ROUTES,
        fusion=_fusion(weights, ViewSearch().fusion),
    )
    return opened.search_views(question, how, k=k, where=where), kinds


def _fusion(weights: Weights, usual: Fusion) -> Fusion:
    from catena.retrieval.fusion import RankFusion, ScoreFusion

    if weights.fusion is FusionName.RANK:
        return RankFusion()
    if weights.alpha is None or not isinstance(usual, ScoreFusion):
        return usual
    return replace(usual, alpha=weights.alpha)


def _held(held: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds that are searched, of those that a library holds."""
    more = "catena index --views keywords,summary makes some"
    if ALL in wanted:
        own = [kind for kind in held if kind not in _NO_TURN]
        kinds = tuple(sorted(own, key=lambda kind: (_FIRST.index(kind) if kind in _FIRST else len(_FIRST), kind)))
        if held and len(kinds) < 2:
            raise ProblemError("this library holds no views besides the text itself", more)
        return kinds or (OWN,)
    if held and (missing := [kind for kind in wanted if kind not in held]):
        what = f"this library holds no views of the kind {missing[0]!r}, only {', '.join(held)}"
        raise ProblemError(what, more)
    return tuple(wanted)


def _rule(name: RuleName | None) -> ViewRule:
    from catena.retrieval import view_search as multi_view

    rules: Mapping[RuleName, Callable[[], ViewRule]] = {
        RuleName.PAPER: multi_view.PaperQuota,
        RuleName.EXACT: multi_view.ExactUnion,
        RuleName.RANK: multi_view.ViewRankFusion,
        RuleName.SCORE: multi_view.ViewScoreFusion,
        RuleName.ADAPTIVE: multi_view.AdaptiveQuota,
    }
    return rules[name or RuleName.PAPER]()


def with_views(told: dict[str, Any], ranking: Ranking, kinds: Sequence[str], wanted: ViewsWanted) -> dict[str, Any]:
    """Return a ranking as JSON with the rank (from 1) of each hit in each view that found it."""
    from catena.retrieval.view_search import found_by

    hits = [{**shown, "views": found_by(hit)} for shown, hit in zip(told["hits"], ranking.hits, strict=True)]
    return {**told, "views": kinds, "rule": wanted.rule or RuleName.PAPER, "hits": hits}


def show_by_views(
    question: str, found: Sequence[Hit], kinds: Sequence[str], bodies: Sequence[str] | None = None
) -> None:
    """Write hits with a column per view: the rank, from 1, at which it found each; none where it did not.

    Args:
        question: decides which part of each chunk is shown.
        found: best first.
        kinds: of the views.
        bodies: what to show of each hit instead of its best part.
    """
    from rich.text import Text

    from catena.cli.terminal import printable
    from catena.cli.views import cited_as, excerpt, source_of, table
    from catena.retrieval.view_search import found_by

    made = table("#", *(f"{printable(kind, one_line=True)}#" for kind in kinds), "Found")
    shown = bodies or [excerpt(hit.chunk, question) for hit in found]
    for place, (hit, body) in enumerate(zip(found, shown, strict=True), start=1):
        ranks = found_by(hit)
        text = Text.assemble(
            (cited_as(hit.chunk), "bold"), (f"\n{source_of(hit.chunk)}", "cyan"), f"\n{printable(body)}\n"
        )
        made.add_row(str(place), *(str(ranks.get(kind) or "") for kind in kinds), text)
    out().print(made)
