"""Run `catena search`: rank passages for a question, or what several views find, or segments, or chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from catena.cli.console import out, picked, printable, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, check_question, refuse, stands_nowhere, tell_found
from catena.cli.figures import as_data, places, shown_figures
from catena.cli.graph_search import GraphChoices, chains_as_json, chains_of, check_graph, show_chains
from catena.cli.options import (
    AsJson,
    BudgetTokens,
    FieldsOf,
    Given,
    LibraryPath,
    NameOptions,
    QuestionText,
    WhereOption,
    filter_of,
    flag,
    given_options,
    grouped,
    listed,
    option,
)
from catena.cli.segment_search import SegmentSettings, check_kind, segments_of, tell_segments
from catena.cli.weights import FusionOption, RouteOption, Weights, route_names
from catena.model import Figure, Hit, PageBox, Ranking, Segment
from catena.model.places import citation
from catena.retrieval.fusion import Fusion, ScoreFusion
from catena.text.words import count_tokens

if TYPE_CHECKING:
    from rich.console import RenderableType

    from catena.library import Library, SegmentSearchOptions
    from catena.retrieval.view_search import ViewRule


_ANOTHER_FILTER = "a filter that lets more pass (`catena status --values FIELD` lists what there is)"
PASSAGE_BUDGET = 1_000  # tokens, of --passages
ALL = "all"
OWN = "headed"
"""The view that is a chunk's own text under its titles."""

_FIRST = (OWN, "keywords", "summary", "questions", "statement")  # the order in which views take turns
# parts or forms of the chunk's own text, and what is made to join chunks, not to find them
_NO_TURN = frozenset({"raw", "passage", "context", "caption", "table", "graph_keywords"})
_ROUTES = ("dense", "lexical")  # those that search one kind of view


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewsWanted:
    """The options about views that are searched."""

    views: Annotated[
        list[str] | None, option("KIND,…|all", "Search these views: headed, keywords, summary, questions, statement.")
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
            "--beta": weights.beta is not None, "--tuned": weights.tuned is not None,
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
    by_hand: Annotated[Given, FieldsOf(ScoreFusion, says_default=False, alpha="--alpha", beta="--beta")],
    tuned: Annotated[Path | None, option("FILE", "The weights that `catena tune --out` wrote.")] = None,
    names: NameOptions,
    no_graph: Annotated[
        bool, flag("--no-graph", "Leave out what a walk over the graph of the library adds.")
    ] = False,
    figures: Annotated[bool, flag("--figures", "Search figures only, and show their files.")] = False,
    section: Annotated[bool, flag("--section", "Show the whole sections of the passages.")] = False,
    by_views: ViewsWanted,
    passages: Annotated[
        bool, flag("--passages", "Read the best passages of what is found, 1,000 tokens of them.")
    ] = False,
    budget_tokens: BudgetTokens = None,
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

    With --views, chunks are found under several views of them, and each view's rank is shown. With --budget-tokens,
    the first thirty hits are looked into, and the sentences that say most are shown, as many as fit, those that stand
    side by side as one passage. --passages is the same with 1,000 tokens.

    With --segments, runs of adjacent chunks are found instead of single ones, each worth what its chunks are worth.
    Without a reranker only the order of the hits is believed, and the settings follow from the budget; the presets
    are made for a reranker's probabilities. What `catena calibrate` fitted needs --no-names.
    The keys of models are read from the environment: CATENA_API_KEY or OPENAI_API_KEY, CO_API_KEY, VOYAGE_API_KEY.

    Where the library has a graph (`catena graph build`), a walk over it adds what the first ranking is not sure of,
    for questions whose answer is spread over several places. With --graph, the chains of the walk are shown hop by
    hop, each with what joins it to the one before.
    """
    check_question(question)
    check_kind(segments, list(given_options(about)), {"-k": k, "--figures": figures, "--section": section})
    reads = budget_tokens is not None and not (segments or passages or chains.graph)
    sought = {
        "--segments": segments, "--passages": passages, "--views": by_views.views, "--figures": figures,
        "--graph": chains.graph, "--budget-tokens": reads,
    }  # fmt: skip
    first, *others = [name for name, given in sought.items() if given] or [""]
    refuse(dict.fromkeys(others, True), f"{first} and {{}} each say what is to be found", "one of them")
    if passages or reads:
        what = "{}: with --passages or --budget-tokens, as much is read as the budget holds"
        refuse({"-k": k, "--section": section}, what, "--budget-tokens for how much")
    elsewhere = passages or reads or segments or figures or chains.graph or by_views.views or route
    refuse({"--no-graph": no_graph and elsewhere}, "{}: nothing is added from a graph here", "the same without it")
    options: SegmentSearchOptions = {"where": filter_of(where), **names.search()}
    weights = Weights(routes=route_names(route), fusion=fusion, **by_hand, tuned=tuned)
    by_views.check(k, weights, about_names=names.any_given)
    weights.check(figures=figures, about_names=names.any_given)
    if weights.routes:
        options["routes"] = weights.routes
    chains.check({"--section": section, "--entity, --keep-neighbours and --no-names": names.any_given})
    budget = PASSAGE_BUDGET if passages and budget_tokens is None else budget_tokens
    asked = _Asked(
        question=question, library=library, k=k, options=options, weights=weights, by_views=by_views, chains=chains,
        figures=figures, section=section, budget=budget, graph=False if no_graph else None, as_json=as_json,
    )  # fmt: skip
    if segments:
        about.check_all(whole=names.no_names or len(weights.routes) == 1)
        by_routes = partial(weights.formula, path=library, own_routes=False)
        found = segments_of(question, library, about, options, budget_tokens=budget_tokens, fusion=by_routes)
        tell_segments(question, found, about, as_json=as_json)
    elif chains.graph:
        _tell_chains(asked)
    else:
        _tell_passages(asked)


def cells(
    question: QuestionText,
    *,
    library: LibraryPath,
    k: Annotated[int, option("N", "How many.", "--k", "-k", min=1)] = 10,
    where: WhereOption = None,
    as_json: AsJson = False,
) -> None:
    """Find the cells of tables that answer a question: row, column and value of each, with its citation.

    A question that names a year asks for the whole year, or for a day of it; one that names a quarter, for that.
    """
    from catena.cli.rendering import cell_lines, ranked
    from catena.library import Library

    check_question(question)
    with Library.open(library, create=False) as opened:
        found = opened.cells(question, k=k, where=filter_of(where))
        about = opened.search(question, k=1, where=filter_of(where))  # says what of the question stands nowhere
        boxes = [opened.boxes(each) if as_json else () for each in found]
    if found:
        tell_found(about, as_json=as_json)
    if as_json:
        rows = [
            {"rank": rank, **picked(each, "score citation keys"), **picked(each.cell, "row column text number"),
             **picked(each.table, "title unit"), "source": each.hit.chunk.metadata.get("source"), "boxes": place}
            for rank, (each, place) in enumerate(zip(found, boxes, strict=True), start=1)
        ]  # fmt: skip
        write_json({"question": question, "cells": rows})
    elif found:
        out().print(ranked((each.score, cell_lines(each)) for each in found))
    if not found and about.unknown:
        raise stands_nowhere(about)
    if not found:
        hint = 'other words, or `catena search "…"`, which finds text, too'
        raise ProblemError("no cell of a table was found", hint, SOME_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A search for chunks, for figures, under several views, for chains, or, with a budget, for the best text."""

    question: str
    library: Path
    k: float | None
    options: SegmentSearchOptions
    weights: Weights
    by_views: ViewsWanted
    chains: GraphChoices
    figures: bool
    section: bool
    budget: int | None  # tokens
    graph: bool | None
    as_json: bool

    def formula(self, opened: Library) -> Fusion | None:
        """Return what joins the routes; None leaves it to the library."""
        return self.weights.formula(opened, self.library)


def _tell_passages(asked: _Asked) -> None:
    """Search for passages, figures or chunks under several views, and write what was found.

    Raises:
        ProblemError: nothing was found.
    """
    from catena.library import Library

    with Library.open(asked.library, create=False) as opened:
        if chosen := None if asked.figures or asked.by_views.kinds else asked.formula(opened):
            asked.options["fusion"] = chosen
        ranking, kinds = _searched(opened, asked)
        shown = shown_figures(opened, ranking.hits)
        sections = [opened.section(hit) for hit in ranking.hits] if asked.section else None
        boxes = [opened.boxes(hit) for hit in ranking.hits] if asked.as_json else None
    tell_found(ranking, as_json=asked.as_json)
    if asked.as_json:
        data = ranking_as_json(asked.question, ranking, sections, shown, boxes)
        write_json(_as_json(asked, ranking, kinds, data))
    elif ranking.hits:
        _show(asked, ranking.hits, kinds, sections, shown)
    if not ranking.hits:
        raise _nothing_found(ranking, asked)


def _tell_chains(asked: _Asked) -> None:
    """Search for chains over the graph, and write what was found.

    Raises:
        ProblemError: the library has no graph, or nothing was found.
    """
    from catena.library import Library

    with Library.open(asked.library, create=False) as opened:
        check_graph(opened, asked.library)
        found = chains_of(
            opened, asked.question, asked.chains, k=int(asked.k or 10), where=asked.options["where"],
            routes=asked.weights.routes, fusion=asked.formula(opened), budget_tokens=asked.budget,
        )  # fmt: skip
    ranking = found.ranking
    tell_found(ranking, as_json=asked.as_json)
    if asked.as_json:
        write_json({**ranking_as_json(asked.question, ranking), **chains_as_json(found)})
    else:
        show_chains(asked.question, found)
    if not ranking.hits:
        hint = "a higher --budget-tokens, other words, or `catena status` to see what is there"
        if ranking.unknown:
            hint = "a name that is there, or --keep-neighbours without --graph for what is said of others"
        what = stands_nowhere(ranking).what if ranking.unknown else "nothing was found"
        raise ProblemError(what, hint, SOME_FAILED)


def _searched(opened: Library, asked: _Asked) -> tuple[Ranking, tuple[str, ...]]:
    """Return what was found, and the views that were searched."""
    where, options = asked.options["where"], asked.options
    if asked.by_views.kinds:
        return _found_by_views(opened, asked, k=asked.k or 3)
    if asked.figures:
        return opened.search_figures(asked.question, k=int(asked.k or 10), where=where), ()
    if asked.budget is not None:
        return opened.read(asked.question, budget_tokens=asked.budget, **options), ()
    return opened.search(asked.question, k=int(asked.k or 10), graph=asked.graph, **options), ()


def _as_json(asked: _Asked, ranking: Ranking, kinds: Sequence[str], told: dict[str, Any]) -> dict[str, Any]:
    """Return a ranking with the rank (from 1) of each hit in each view that found it, or with the tokens read."""
    from catena.retrieval.view_search import found_by

    if kinds:
        hits = [{**shown, "views": found_by(hit)} for shown, hit in zip(told["hits"], ranking.hits, strict=True)]
        return {**told, "views": kinds, "rule": asked.by_views.rule or "paper", "hits": hits}
    if asked.budget is None:
        return told
    return {**told, "tokens": _tokens(ranking.hits), "budget_tokens": asked.budget}


def _tokens(hits: Sequence[Hit]) -> int:
    return sum(count_tokens(hit.chunk.text) for hit in hits)


def _nothing_found(ranking: Ranking, asked: _Asked) -> ProblemError:
    if ranking.unknown:
        return stands_nowhere(ranking)
    if asked.budget is not None:
        what = f"nothing was found, or no passage fits into {asked.budget:,} tokens"
        return ProblemError(what, "a higher --budget-tokens, or other words", SOME_FAILED)
    hint = "other words, or `catena status` to see what is there"
    if asked.figures:
        hint = "files indexed with --figures, or other words"
    elif asked.options["where"] is not None:
        hint = f"{_ANOTHER_FILTER}, or other words"
    return ProblemError("nothing was found", hint, SOME_FAILED)


def ranking_as_json(
    question: str,
    ranking: Ranking,
    sections: Sequence[Segment] | None = None,
    figures: Mapping[str, tuple[Figure, Path | None]] | None = None,
    boxes: Sequence[Sequence[PageBox]] | None = None,
) -> dict[str, Any]:
    """Return a ranking with all that is known of each hit; `boxes` are where each is printed."""
    hits: list[dict[str, Any]] = []
    for place, hit in enumerate(ranking.hits):
        told = {"rank": place + 1, "score": hit.score, "citation": citation(hit.chunk)}
        hits.append(told | picked(hit, "provenance chunk"))
        if sections:
            hits[-1]["section"] = sections[place]
        if figures and hit.chunk.id in figures:
            hits[-1]["figure"] = as_data(*figures[hit.chunk.id])
        if boxes:
            hits[-1]["boxes"] = boxes[place]
    return {"question": question, **picked(ranking, "scale degraded unknown"), "hits": hits}


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
        out().print(_by_views(asked.question, found, kinds, bodies))
        return
    out().print(hits(found, asked.question, bodies=bodies, figures=places(figures)))
    if asked.budget is not None:
        out().print(f"{number(len(found), 'passage')}, {_tokens(found):,} of {asked.budget:,} tokens")


def _found_by_views(opened: Library, asked: _Asked, *, k: float) -> tuple[Ranking, tuple[str, ...]]:
    """Search under several views; return the ranking, and the views in the order in which they take turns.

    Raises:
        ProblemError: the library has no such views.
    """
    from catena.retrieval.section_search import ViewSearch
    from catena.retrieval.view_search import ExactUnion, PaperQuota, ViewRankFusion, ViewScoreFusion

    rules: Mapping[str | None, Callable[[], ViewRule]] = {
        "exact": ExactUnion,
        "rank": ViewRankFusion,
        "score": ViewScoreFusion,
    }
    kinds = _held(opened.store.view_kinds(), asked.by_views.kinds)
    how = ViewSearch(
        views=kinds,
        rule=rules.get(asked.by_views.rule, PaperQuota)(),
        routes=asked.weights.routes or _ROUTES,
        fusion=asked.weights.of_view(ViewSearch().fusion),
    )
    return opened.search_views(asked.question, how, k=k, where=asked.options["where"]), kinds


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


def _by_views(
    question: str, found: Sequence[Hit], kinds: Sequence[str], bodies: Sequence[str] | None
) -> RenderableType:
    """Return hits with a column per view: the rank, from 1, at which it found each; none where it did not.

    Args:
        question: decides which part of each chunk is shown.
        found: best first.
        kinds: of the views.
        bodies: what to show of each hit instead of its best part.
    """
    from catena.cli.rendering import cited_lines, excerpt, table
    from catena.retrieval.view_search import found_by

    made = table("#", *(f"{printable(kind, one_line=True)}#" for kind in kinds), "Found")
    shown = bodies or [excerpt(hit.chunk, question) for hit in found]
    for place, (hit, body) in enumerate(zip(found, shown, strict=True), start=1):
        ranks = found_by(hit)
        text = cited_lines(hit.chunk).append(f"\n{printable(body)}\n", style="not bold")
        made.add_row(str(place), *(str(ranks.get(kind) or "") for kind in kinds), text)
    return made
