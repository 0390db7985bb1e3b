"""Run `catena search`: rank passages for a question, or what several views find, or segments, or chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from catena.cli.console import out, picked, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, check_question, refuse, stands_nowhere, tell_found
from catena.cli.figures import as_data, places, shown_figures
from catena.cli.graph_search import GraphChoices, chains_as_json, chains_of, check_graph, show_chains
from catena.cli.options import (
    AsJson,
    Given,
    LibraryPath,
    NameOptions,
    QuestionText,
    WhereOption,
    fields_of,
    filter_of,
    flag,
    given_options,
    grouped,
    listed,
    option,
)
from catena.cli.segment_search import SegmentSettings, check_kind, segments_of, tell_segments
from catena.cli.weights import FusionOption, RouteOption, Weights, route_names
from catena.retrieval.fusion import ScoreFusion

if TYPE_CHECKING:
    from collections.abc import Callable

    from catena.library import Library, SegmentSearchOptions
    from catena.model import Figure, Hit, Ranking, Segment, Where
    from catena.retrieval.fusion import Fusion
    from catena.retrieval.view_search import ViewRule


PASSAGE_BUDGET = 1_000  # tokens
ALL = "all"
OWN = "headed"
"""The view that is a chunk's own text under its titles."""

_FIRST = (OWN, "keywords", "summary", "questions")  # the order in which views take turns
# parts or forms of the chunk's own text, and what is made to join chunks, not to find them
_NO_TURN = frozenset({"raw", "passage", "context", "caption", "table", "graph_keywords"})
_ROUTES = ("dense", "lexical")  # those that search one kind of view


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewsWanted:
    """The options about views that are searched."""

    views: Annotated[
        list[str] | None, option("KIND,…|all", "Search these views: headed, keywords, summary, questions.")
    ] = None
    rule: Annotated[
        Literal["paper", "exact", "rank", "score"] | None,
        typer.Option(
            help="With --views: take 2k/3 of each (paper) or k in turns (exact), or fuse by rank or by score [paper]."
        ),
    ] = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The views that are named; none where views are not searched."""
        return listed(self.views)

    def check(self, k: float | None, weights: Weights, *, about_names: bool) -> None:
        """Refuse options that could do nothing here.

        Args:
            k: how many chunks.
            weights: of routes.
            about_names: whether an option is about names in the question.

        Raises:
            ProblemError: there is one.
        """
        if self.views and not self.kinds:
            raise ProblemError("--views names no kind of view", "--views all, or --views headed,keywords")
        if self.rule is not None and not self.kinds:
            raise ProblemError("--rule says how several views become one", "--views all with it")
        by_paper = self.rule in (None, "paper")
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
        refuse(unused, "--views obeys no {}", "--alpha, --route, --where and --rule with it")


@grouped
def search(
    question: QuestionText,
    *,
    library: LibraryPath,
    k: Annotated[float | None, option("N", "How many [10; of views 3, or 1.5].", "--k", "-k", min=1)] = None,
    route: RouteOption = None,
    where: WhereOption = None,
    fusion: FusionOption = "score",
    by_hand: Annotated[Given, fields_of(ScoreFusion, says_default=False, alpha="--alpha", beta="--beta")],
    tuned: Annotated[Path | None, option("FILE", "The weights that `catena tune --out` wrote.")] = None,
    adapted: Annotated[
        bool, flag("--adapted", "Weights by the shape of the library: its headings, documents and pages.")
    ] = False,
    names: NameOptions,
    figures: Annotated[bool, flag("--figures", "Search figures only, and show their files.")] = False,
    section: Annotated[bool, flag("--section", "Show the whole sections of the passages.")] = False,
    by_views: ViewsWanted,
    passages: Annotated[
        bool, flag("--passages", "Read the best passages of what is found, within --budget-tokens.")
    ] = False,
    budget_tokens: Annotated[
        int | None, option("N", "Most tokens of all passages [1000], of all segments [2000], or with --graph.", min=1)
    ] = None,
    segments: Annotated[
        bool, flag("--segments", "Find segments, which are runs of adjacent chunks; the next options are about them.")
    ] = False,
    about: SegmentSettings,
    chains: GraphChoices,
    as_json: AsJson = False,
) -> None:
    """Rank the passages of a library for a question, each with its citation and the routes that found it.

    Documents that the question names get a share each. A name that is not in the library is reported, with names
    like it. A library of sections (`catena index --chunks sections`) is searched by their best passages, too.

    With --views, chunks are found under several views of them, and each view's rank is shown. With --passages, the
    first twenty hits are looked into, and the passages that say most are shown, as many as the budget holds.

    With --segments, runs of adjacent chunks are found instead of single ones, each worth what its chunks are worth.
    Without a reranker only the order of the hits is believed, and the settings follow from the budget; the presets
    are made for a reranker's probabilities. What `catena calibrate` fitted needs --no-names.
    The keys of models are read from the environment: CATENA_API_KEY or OPENAI_API_KEY, CO_API_KEY, VOYAGE_API_KEY.

    With --graph, a walk goes from the first ranking over the graph of the library. It is for questions whose answer
    is spread over several places. The chains are shown hop by hop, each with what joins it to the one before.
    """
    check_question(question)
    given = list(given_options(about))
    if budget_tokens is not None and not (passages or chains.graph):
        given.append("--budget-tokens")
    check_kind(segments, given, {"-k": k, "--figures": figures, "--section": section})
    _check_one(
        {
            "--segments": segments, "--passages": passages, "--views": by_views.views, "--figures": figures,
            "--graph": chains.graph,
        }
    )  # fmt: skip
    if passages:
        what = "{}: with --passages, as many are read as the budget holds"
        refuse({"-k": k, "--section": section}, what, "--budget-tokens for how much")
    options: SegmentSearchOptions = {"where": filter_of(where), **names.search()}
    weights = Weights(routes=route_names(route), fusion=fusion, **by_hand, tuned=tuned, adapted=adapted)
    by_views.check(k, weights, about_names=names.any_given)
    weights.check(figures=figures, about_names=names.any_given)
    if weights.routes:
        options["routes"] = weights.routes
    chains.check({"--section": section, "--entity, --keep-neighbours and --no-names": names.any_given})

    def formula(opened: Library) -> Fusion | None:
        return weights.formula(opened, library, own_routes=not (segments or chains.graph))

    if segments:
        about.check_all(whole=names.no_names or len(weights.routes) == 1)
        found = segments_of(question, library, about, options, budget_tokens=budget_tokens, fusion=formula)
        tell_segments(question, found, about, as_json=as_json)
    elif chains.graph:
        _tell_chains(
            question, library, chains, options["where"], formula, k=int(k or 10), routes=weights.routes,
            budget_tokens=budget_tokens, as_json=as_json,
        )  # fmt: skip
    else:
        budget = (budget_tokens or PASSAGE_BUDGET) if passages else None
        asked = _Asked(question=question, k=k, figures=figures, by_views=by_views, weights=weights, budget=budget)
        _tell_passages(asked, library, options, formula, section=section, as_json=as_json)


def _tell_passages(
    asked: _Asked,
    path: Path,
    options: SegmentSearchOptions,
    formula: Callable[[Library], Fusion | None],
    *,
    section: bool,
    as_json: bool,
) -> None:
    """Search for passages, figures or chunks under several views, and write what was found.

    Raises:
        ProblemError: nothing was found.
    """
    from catena.library import Library

    with Library.open(path, create=False) as opened:
        if chosen := None if asked.figures or asked.by_views.kinds else formula(opened):
            options["fusion"] = chosen
        ranking, kinds = _searched(opened, asked, options)
        shown = shown_figures(opened, ranking.hits)
        sections = [opened.section(hit) for hit in ranking.hits] if section else None
    tell_found(ranking)
    if as_json:
        write_json(_as_json(asked, ranking, kinds, ranking_as_json(asked.question, ranking, sections, shown)))
    elif ranking.hits:
        _show(asked, ranking.hits, kinds, sections, shown)
    if not ranking.hits:
        raise _nothing_found(ranking, asked)


def _tell_chains(
    question: str,
    path: Path,
    chains: GraphChoices,
    where: Where | None,
    formula: Callable[[Library], Fusion | None],
    *,
    k: int,
    routes: Sequence[str],
    budget_tokens: int | None,
    as_json: bool,
) -> None:
    """Search for chains over the graph, and write what was found.

    Raises:
        ProblemError: the library has no graph, or nothing was found.
    """
    from catena.library import Library

    with Library.open(path, create=False) as opened:
        check_graph(opened, path)
        found = chains_of(
            opened, question, chains, k=k, where=where, routes=routes,
            fusion=formula(opened), budget_tokens=budget_tokens,
        )  # fmt: skip
    ranking = found.ranking
    tell_found(ranking)
    if as_json:
        write_json({**ranking_as_json(question, ranking), **chains_as_json(found)})
    else:
        show_chains(question, found)
    if not ranking.hits:
        hint = "a higher --budget-tokens, other words, or `catena status` to see what is there"
        if ranking.unknown:
            hint = "a name that is there, or --keep-neighbours without --graph for what is said of others"
        what = stands_nowhere(ranking).what if ranking.unknown else "nothing was found"
        raise ProblemError(what, hint, SOME_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A search for chunks, for figures, under several views, or, with a budget in tokens, for passages."""

    question: str
    k: float | None
    figures: bool
    by_views: ViewsWanted
    weights: Weights
    budget: int | None


def _searched(opened: Library, asked: _Asked, options: SegmentSearchOptions) -> tuple[Ranking, tuple[str, ...]]:
    """Return what was found, and the views that were searched."""
    if asked.by_views.kinds:
        where, k = options["where"], asked.k or 3
        return found_by_views(opened, asked.question, asked.by_views, asked.weights, k=k, where=where)
    if asked.figures:
        return opened.search_figures(asked.question, k=int(asked.k or 10), where=options["where"]), ()
    if asked.budget is not None:
        return opened.passages(asked.question, budget_tokens=asked.budget, **options), ()
    return opened.search(asked.question, k=int(asked.k or 10), **options), ()


def _as_json(asked: _Asked, ranking: Ranking, kinds: Sequence[str], told: dict[str, Any]) -> dict[str, Any]:
    if kinds:
        return with_views(told, ranking, kinds, asked.by_views)
    if asked.budget is None:
        return told
    return {**told, "tokens": _tokens(ranking.hits), "budget_tokens": asked.budget}


def _check_one(asked: Mapping[str, object]) -> None:
    """Raise where more than one thing is to be found."""
    given = [name for name, value in asked.items() if value]
    if len(given) > 1:
        raise ProblemError(f"{given[0]} and {given[1]} each say what is to be found", "one of them")


def _tokens(hits: Sequence[Hit]) -> int:
    from catena.text.words import count_tokens

    return sum(count_tokens(hit.chunk.text) for hit in hits)


def _nothing_found(ranking: Ranking, asked: _Asked) -> ProblemError:
    if ranking.unknown:
        return stands_nowhere(ranking)
    if asked.budget is not None:
        what = f"nothing was found, or no passage fits into {asked.budget:,} tokens"
        return ProblemError(what, "a higher --budget-tokens, or other words", SOME_FAILED)
    hint = "files indexed with --figures, or other words" if asked.figures else None
    hint = hint or "other words, or `catena status` to see what is there"
    return ProblemError("nothing was found", hint, SOME_FAILED)


def ranking_as_json(
    question: str,
    ranking: Ranking,
    sections: Sequence[Segment] | None = None,
    figures: Mapping[str, tuple[Figure, Path | None]] | None = None,
) -> dict[str, Any]:
    """Return a ranking with all that is known of each hit."""
    whole: Sequence[Segment | None] = sections or [None] * len(ranking.hits)
    return {
        "question": question,
        **picked(ranking, "scale degraded unknown"),
        "hits": [
            _hit(rank, *pair) | _figure(pair[0], figures or {})
            for rank, pair in enumerate(zip(ranking.hits, whole, strict=True), start=1)
        ],
    }


def _figure(hit: Hit, figures: Mapping[str, tuple[Figure, Path | None]]) -> dict[str, Any]:
    found = figures.get(hit.chunk.id)
    return {} if found is None else {"figure": as_data(*found)}


def _hit(rank: int, hit: Hit, section: Segment | None) -> dict[str, Any]:
    from catena.model.places import citation

    found = {"rank": rank, "score": hit.score, "citation": citation(hit.chunk), **picked(hit, "provenance chunk")}
    return found if section is None else {**found, "section": section}


def _show(
    asked: _Asked,
    found: Sequence[Hit],
    kinds: Sequence[str],
    sections: Sequence[Segment] | None,
    figures: Mapping[str, tuple[Figure, Path | None]],
) -> None:
    from catena.cli.rendering import hits, number

    whole = sections if asked.budget is None else [hit.chunk for hit in found]
    bodies = None if whole is None else [each.text.strip() for each in whole]
    if kinds:
        show_by_views(asked.question, found, kinds, bodies)
        return
    out().print(hits(found, asked.question, bodies=bodies, figures=places(figures)))
    if asked.budget is not None:
        out().print(f"{number(len(found), 'passage')}, {_tokens(found):,} of {asked.budget:,} tokens")


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
        fusion=weights.of_view(ViewSearch().fusion),
    )
    return opened.search_views(question, how, k=k, where=where), kinds


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


def _rule(name: str | None) -> ViewRule:
    from catena.retrieval.view_search import ExactUnion, PaperQuota, ViewRankFusion, ViewScoreFusion

    rules: Mapping[str | None, Callable[[], ViewRule]] = {
        "exact": ExactUnion, "rank": ViewRankFusion, "score": ViewScoreFusion,
    }  # fmt: skip
    return rules.get(name, PaperQuota)()


def with_views(told: dict[str, Any], ranking: Ranking, kinds: Sequence[str], wanted: ViewsWanted) -> dict[str, Any]:
    """Return a ranking as JSON with the rank (from 1) of each hit in each view that found it."""
    from catena.retrieval.view_search import found_by

    hits = [{**shown, "views": found_by(hit)} for shown, hit in zip(told["hits"], ranking.hits, strict=True)]
    return {**told, "views": kinds, "rule": wanted.rule or "paper", "hits": hits}


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

    from catena.cli.console import printable
    from catena.cli.rendering import cited_as, excerpt, source_of, table
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
