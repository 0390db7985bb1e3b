"""`catena search`: a question to ranked, cited passages, to what several views find, to segments, or to chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.console import out, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, check_question
from catena.cli.figures import as_data, places, shown_figures
from catena.cli.graph_options import (
    BeamWidth,
    GraphChoices,
    GraphOption,
    MaxLength,
    PictureOption,
    ScorerOption,
    StripOption,
    WalkOption,
)
from catena.cli.graph_views import chains_as_json, show_chains
from catena.cli.llm_options import CallOptions
from catena.cli.notices import stands_nowhere, tell_degraded, tell_unknown
from catena.cli.option_groups import grouped
from catena.cli.options import (
    AsJson,
    EntityNames,
    KeepNeighbours,
    LibraryPath,
    NoNames,
    names_options,
)
from catena.cli.search_graph import found_chains
from catena.cli.search_segments import Wanted, found_segments, tell_segments
from catena.cli.search_views import (
    RuleOption,
    ViewsSearched,
    ViewsWanted,
    found_by_views,
    show_by_views,
    with_views,
)
from catena.cli.segment_options import (
    CalibrationOption,
    Decay,
    LengthAdjustmentOption,
    Minimum,
    OrderOption,
    Penalty,
    PresetOption,
    QueriesOption,
    RerankOption,
    SegmentChoices,
    SelectionOption,
    check_kind,
)
from catena.cli.weights import FusionName, FusionOption, RouteOption, Weights, route_names
from catena.cli.where import filter_of

if TYPE_CHECKING:
    from catena.graph.search import GraphResult
    from catena.library import Library, SegmentSearchOptions
    from catena.model import Figure, Hit, Ranking, Segment
    from catena.retrieval.multi_route import Fusion


PASSAGE_BUDGET = 1_000  # tokens


@grouped
def search(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What you would ask a colleague.")],
    *,
    library: LibraryPath,
    k: Annotated[
        float | None, typer.Option("--k", "-k", min=1, metavar="N", help="How many [10; of views 3, or 1.5].")
    ] = None,
    route: RouteOption = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="JSON", help='A filter, e.g. \'{"page": {"$lte": 20}}\'.')
    ] = None,
    fusion: FusionOption = FusionName.SCORE,
    alpha: Annotated[
        float | None, typer.Option("--alpha", help="Share of the dense route against the lexical one, 0 to 1.")
    ] = None,
    beta: Annotated[float | None, typer.Option("--beta", help="Weight of the critical terms, 0 or more.")] = None,
    tuned: Annotated[
        Path | None, typer.Option("--tuned", metavar="FILE", help="The weights that `catena tune --out` wrote.")
    ] = None,
    adapted: Annotated[
        bool,
        typer.Option("--adapted", help="Weights by the shape of the library: its headings, documents and pages."),
    ] = False,
    entity: EntityNames = None,
    keep_neighbours: KeepNeighbours = False,
    no_names: NoNames = False,
    figures: Annotated[bool, typer.Option("--figures", help="Search figures only, and show their files.")] = False,
    section: Annotated[bool, typer.Option("--section", help="Show the whole sections of the passages.")] = False,
    views: ViewsSearched = None,
    rule: RuleOption = None,
    passages: Annotated[
        bool, typer.Option("--passages", help="Read the best passages of what is found, within --budget-tokens.")
    ] = False,
    budget_tokens: Annotated[
        int | None,
        typer.Option(
            "--budget-tokens",
            min=1,
            metavar="N",
            help="Tokens of all passages [1000], of all segments [2000], or of what --graph finds.",
        ),
    ] = None,
    segments: Annotated[
        bool, typer.Option("--segments", help="Find segments, runs of adjacent chunks; the options below are theirs.")
    ] = False,
    preset: PresetOption = None,
    selection: SelectionOption = None,
    penalty: Penalty = None,
    decay: Decay = None,
    minimum: Minimum = None,
    length_adjustment: LengthAdjustmentOption = None,
    order: OrderOption = None,
    queries: QueriesOption = None,
    llm: Annotated[
        str | None, typer.Option("--llm", metavar="MODEL", help="The OpenAI-compatible model for --queries llm.")
    ] = None,
    asking: CallOptions,
    calibration: CalibrationOption = None,
    rerank: RerankOption = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what every chunk is worth, and why.")] = False,
    curve: Annotated[
        Path | None, typer.Option("--curve", metavar="FILE.png|html", help="Draw what the chunks are worth.")
    ] = None,
    graph: GraphOption = False,
    walk: WalkOption = None,
    scorer: ScorerOption = None,
    max_length: MaxLength = None,
    beam_width: BeamWidth = None,
    picture: PictureOption = None,
    strip: StripOption = None,
    as_json: AsJson = False,
) -> None:
    """Rank the passages of a library for a question, each with its citation and the routes that found it.

    Names of documents in the question get a share each. A name that stands nowhere is said, with those near it.
    A library of sections (`catena index --chunks sections`) is searched by their best passages, too, by itself.

    With --views, chunks are found under several views of them, and each view's rank is shown. With --passages, the
    first twenty hits are looked into, and the passages that say most are shown, as many as the budget holds.

    With --segments, runs of adjacent chunks instead of single ones, each worth what its chunks are worth. Without a
    reranker only the order of the hits is believed, and the settings follow from the budget; the presets are made for
    a reranker's probabilities. What `catena calibrate` fitted needs --no-names.
    The keys of models are read from the environment: CATENA_API_KEY or OPENAI_API_KEY, CO_API_KEY, VOYAGE_API_KEY.

    With --graph, a walk goes from the first ranking over the graph of the library: for questions whose answer stands
    in several places. The chains are shown hop by hop, each with what joins it to the one it came from.
    """
    from catena.library import Library

    check_question(question)
    choices = SegmentChoices(
        preset=preset, budget_tokens=None if passages or graph else budget_tokens, selection=selection,
        penalty=penalty, decay=decay, minimum=minimum, length_adjustment=length_adjustment, order=order,
        queries=queries, calibration=calibration, rerank=rerank,
    )  # fmt: skip
    wanted = Wanted(choices=choices, llm=llm, asking=asking, explain=explain, curve=curve)
    check_kind(segments, wanted.given, {"-k": k, "--figures": figures, "--section": section})
    _check_one(
        {"--segments": segments, "--passages": passages, "--views": views, "--figures": figures, "--graph": graph}
    )
    _check_passages(passages, {"-k": k, "--section": section})
    options: SegmentSearchOptions = {
        "where": filter_of(where),
        **names_options(entity, keep_neighbours, no_names),
    }
    weights = Weights(routes=route_names(route), fusion=fusion, alpha=alpha, beta=beta, tuned=tuned, adapted=adapted)
    about_names = bool(entity or keep_neighbours or no_names)
    by_views = ViewsWanted.of(views, rule)
    by_views.check(k, weights, about_names=about_names)
    weights.check(figures=figures, about_names=about_names)
    if weights.routes:
        options["routes"] = weights.routes
    chosen_walk = GraphChoices(
        graph=graph, walk=walk, scorer=scorer, max_length=max_length, beam_width=beam_width, picture=picture,
        strip=strip,
    )  # fmt: skip
    chosen_walk.check({"--section": section, "--entity, --keep-neighbours and --no-names": about_names})

    def formula(opened: Library) -> Fusion | None:
        return weights.formula(opened, library, own_routes=not (segments or graph))

    if segments:
        wanted.check(whole=no_names or len(weights.routes) == 1)
        tell_segments(question, found_segments(question, library, wanted, options, formula), wanted, as_json=as_json)
        return
    if graph:
        chains = found_chains(
            question, library, chosen_walk, k=int(k or 10), where=options["where"], routes=weights.routes,
            fusion=formula, budget_tokens=budget_tokens,
        )  # fmt: skip
        _tell_chains(question, chains, as_json=as_json)
        return
    budget = (budget_tokens or PASSAGE_BUDGET) if passages else None
    asked = _Asked(question=question, k=k, figures=figures, by_views=by_views, weights=weights, budget=budget)
    with Library.open(library, create=False) as opened:
        if chosen := None if figures or by_views.kinds else formula(opened):
            options["fusion"] = chosen
        ranking, kinds = _searched(opened, asked, options)
        shown = shown_figures(opened, ranking.hits)
        sections = [opened.section(hit) for hit in ranking.hits] if section else None
    tell_degraded(ranking.degraded)
    if ranking.hits:
        tell_unknown(ranking)
    if as_json:
        write_json(_as_json(asked, ranking, kinds, ranking_as_json(question, ranking, sections, shown)))
    elif ranking.hits:
        _show(asked, ranking.hits, kinds, sections, shown)
    if not ranking.hits:
        raise _nothing_found(ranking, asked)


def _tell_chains(question: str, found: GraphResult, *, as_json: bool) -> None:
    ranking = found.ranking
    tell_degraded(ranking.degraded)
    if ranking.hits:
        tell_unknown(ranking)
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
    """What is to be found: chunks, figures, chunks under several views, or, with a budget in tokens, passages."""

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
    from catena.structure.tokens import count_tokens

    return sum(count_tokens(hit.chunk.text) for hit in hits)


def _check_passages(passages: bool, others: Mapping[str, object]) -> None:
    """Raise where an option leaves nothing to do for the budget of passages."""
    for option in (name for name, value in others.items() if value and passages):
        what = f"{option}: with --passages, as many are read as the budget holds"
        raise ProblemError(what, "--budget-tokens for how much")


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
        "scale": ranking.scale,
        "degraded": ranking.degraded,
        "unknown": ranking.unknown,
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

    found = {"rank": rank, "score": hit.score, "citation": citation(hit.chunk), "provenance": hit.provenance}
    return {**found, "chunk": hit.chunk, **({} if section is None else {"section": section})}


def _show(
    asked: _Asked,
    found: Sequence[Hit],
    kinds: Sequence[str],
    sections: Sequence[Segment] | None,
    figures: Mapping[str, tuple[Figure, Path | None]],
) -> None:
    from catena.cli.views import hits, number

    whole = sections if asked.budget is None else [hit.chunk for hit in found]
    bodies = None if whole is None else [each.text.strip() for each in whole]
    if kinds:
        show_by_views(asked.question, found, kinds, bodies)
        return
    out().print(hits(found, asked.question, bodies=bodies, figures=places(figures)))
    if asked.budget is not None:
        out().print(f"{number(len(found), 'passage')}, {_tokens(found):,} of {asked.budget:,} tokens")
