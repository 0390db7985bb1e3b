"""`catena search`: a question to ranked, cited passages, or to segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.console import out, write_json
from catena.cli.failures import SOME_FAILED, ProblemError
from catena.cli.figures import as_data, places, shown_figures
from catena.cli.llm_options import BaseUrl
from catena.cli.notices import stands_nowhere, tell_degraded, tell_unknown
from catena.cli.options import (
    AsJson,
    EntityNames,
    KeepNeighbours,
    LibraryPath,
    NoNames,
    names_options,
)
from catena.cli.search_segments import Wanted, found_segments, tell_segments
from catena.cli.segment_options import (
    BudgetTokens,
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
from catena.cli.where import filter_of

if TYPE_CHECKING:
    from catena.library import Library, SegmentSearchOptions
    from catena.model import Figure, Hit, Ranking, Segment
    from catena.retrieval.multi_route import Fusion


class RouteName(StrEnum):
    """The routes of a library."""

    DENSE = "dense"
    LEXICAL = "lexical"
    KEYWORD = "keyword"


class FusionName(StrEnum):
    """How the rankings of several routes become one."""

    SCORE = "score"
    RANK = "rank"


def search(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What you would ask a colleague.")],
    *,
    library: LibraryPath,
    k: Annotated[int | None, typer.Option("--k", "-k", min=1, help="How many passages [10].")] = None,
    route: Annotated[
        list[RouteName] | None, typer.Option("--route", "-r", help="Only this route; may be given several times.")
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="JSON", help='A filter, e.g. \'{"page": {"$lte": 20}}\'.')
    ] = None,
    fusion: Annotated[
        FusionName, typer.Option("--fusion", help="By score (HiQA's formula) or by reciprocal rank.")
    ] = FusionName.SCORE,
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
    segments: Annotated[
        bool, typer.Option("--segments", help="Find segments, runs of adjacent chunks; the options below are theirs.")
    ] = False,
    preset: PresetOption = None,
    budget_tokens: BudgetTokens = None,
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
    base_url: BaseUrl = None,
    calibration: CalibrationOption = None,
    rerank: RerankOption = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what every chunk is worth, and why.")] = False,
    curve: Annotated[
        Path | None, typer.Option("--curve", metavar="FILE.png|html", help="Draw what the chunks are worth.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rank the passages of a library for a question, each with its citation and the routes that found it.

    Names of documents in the question get a share each. A name that stands nowhere is said, with those near it.

    With --segments, runs of adjacent chunks instead of single ones, each worth what its chunks are worth. Without a
    reranker only the order of the hits is believed, and the settings follow from the budget; the presets are made for
    a reranker's probabilities. What `catena calibrate` fitted needs --no-names.
    The keys of models are read from the environment: CATENA_API_KEY or OPENAI_API_KEY, CO_API_KEY, VOYAGE_API_KEY.
    """
    from catena.library import Library

    choices = SegmentChoices(
        preset=preset, budget_tokens=budget_tokens, selection=selection, penalty=penalty, decay=decay,
        minimum=minimum, length_adjustment=length_adjustment, order=order, queries=queries,
        calibration=calibration, rerank=rerank,
    )  # fmt: skip
    wanted = Wanted(choices=choices, llm=llm, base_url=base_url, explain=explain, curve=curve)
    check_kind(segments, wanted.given, {"-k": k, "--figures": figures, "--section": section})
    options: SegmentSearchOptions = {
        "where": filter_of(where),
        **names_options(entity, keep_neighbours, no_names),
        "fusion": _fusion(fusion, alpha, beta),
    }
    names = tuple(dict.fromkeys(name.value for name in route or ()))
    _check_options(
        one_route=len(names) == 1,
        figures=figures,
        of_figures=not names and fusion is FusionName.SCORE,
        ways=[fusion is FusionName.RANK, not (alpha is None and beta is None), tuned is not None, adapted],
        about_names=bool(entity or keep_neighbours or no_names),
    )
    if names:
        options["routes"] = names
    by_hand = options["fusion"]

    def weights(opened: Library) -> Fusion | None:
        return _weights(opened, library, tuned) if tuned or adapted else by_hand

    if segments:
        wanted.check(whole=no_names or len(names) == 1)
        tell_segments(question, found_segments(question, library, wanted, options, weights), wanted, as_json=as_json)
        return
    number = k or 10
    with Library.open(library, create=False) as opened:
        options["fusion"] = weights(opened)
        if figures:
            ranking = opened.search_figures(question, k=number, where=options["where"])
        else:
            ranking = opened.search(question, k=number, **options)
        shown = shown_figures(opened, ranking.hits)
        sections = [opened.section(hit) for hit in ranking.hits] if section else None
    tell_degraded(ranking.degraded)
    if ranking.hits:
        tell_unknown(ranking)
    if as_json:
        write_json(ranking_as_json(question, ranking, sections, shown))
    elif ranking.hits:
        _show(question, ranking.hits, sections, shown)
    if not ranking.hits:
        raise _nothing_found(ranking, figures)


def _nothing_found(ranking: Ranking, figures: bool) -> ProblemError:
    if ranking.unknown:
        return stands_nowhere(ranking)
    hint = "files indexed with --figures, or other words" if figures else None
    hint = hint or "other words, or `catena status` to see what is there"
    return ProblemError("nothing was found", hint, SOME_FAILED)


def _fusion(name: FusionName, alpha: float | None, beta: float | None) -> Fusion:
    from catena.retrieval.fusion import RankFusion, ScoreFusion

    if name is FusionName.SCORE:
        usual = ScoreFusion()
        return ScoreFusion(alpha=usual.alpha if alpha is None else alpha, beta=usual.beta if beta is None else beta)
    if alpha is not None or beta is not None:
        raise ProblemError("--alpha and --beta weigh scores; ranks have none", "--fusion score")
    return RankFusion()


def _check_options(
    *, one_route: bool, figures: bool, of_figures: bool, ways: Sequence[bool], about_names: bool
) -> None:
    """Raise where an option could do nothing; `ways` to decide the weights: ranks, by hand, tuned, adapted."""
    weighed = any(ways[1:])
    if one_route and weighed:
        raise ProblemError("weights set routes against each other; here is only one", "several --route, or none")
    if figures and (weighed or not of_figures):
        raise ProblemError("--figures has its own routes and weights", "--figures without --route, --fusion, --alpha")
    if (one_route or figures) and about_names:
        what = "names are looked for where several routes are asked, and not for figures"
        raise ProblemError(what, "the same without --entity, --keep-neighbours and --no-names")
    if sum((ways[0] or ways[1], *ways[2:])) > 1:
        what = "--tuned, --adapted and --alpha or --beta (or --fusion rank) each decide the weights"
        raise ProblemError(what, "one of them")


def _weights(opened: Library, path: Path, tuned: Path | None) -> Fusion:
    """Return the formula with the weights of a file, or of the library's shape."""
    from catena.retrieval.tuned import Tuned

    if tuned is not None:
        return Tuned.load(tuned).fusion_for(opened.stats().embedder, path=str(path))
    return opened.adapted()


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
    from catena.citation import citation

    found = {"rank": rank, "score": hit.score, "citation": citation(hit.chunk), "provenance": hit.provenance}
    return {**found, "chunk": hit.chunk, **({} if section is None else {"section": section})}


def _show(
    question: str,
    found: Sequence[Hit],
    sections: Sequence[Segment] | None,
    figures: Mapping[str, tuple[Figure, Path | None]],
) -> None:
    from catena.cli.views import hits

    bodies = None if sections is None else [section.text.strip() for section in sections]
    out().print(hits(found, question, bodies=bodies, figures=places(figures)))
