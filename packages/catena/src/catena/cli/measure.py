"""Run `catena evaluate`, `tune`, `calibrate`: measure and fit a library on questions with known answers."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from catena.cli.console import out, printable, tell, tell_written, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, check_targets
from catena.cli.options import AsJson, LibraryFolder, QuestionFile, option, picture
from catena.cli.progress import asking_bar, counted, progress
from catena.cli.weights import FusionOption, RouteOption, Weights, route_names
from catena.model.errors import needs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from catena.evaluation.answers import MeanScore
    from catena.evaluation.question_bank import BankQuestion
    from catena.evaluation.report import Judgement, RetrievalReport
    from catena.library import Library, SearchOptions
    from catena.model import Ranking
    from catena.retrieval.tuning import Labelled, Tuned
    from catena.segments.fitting import LabelledFit


ALL = "all"
LOST_SHOWN = 5  # gold places that are named on stderr


def evaluate(
    library: LibraryFolder,
    questions: QuestionFile,
    *,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Recall at max(k, gold places).")] = 5,
    depth: Annotated[int, typer.Option(min=1, help="Length of the rankings that the Log-Rank Index judges.")] = 1_000,
    gamma: Annotated[float, typer.Option(help="Growth of the Log-Rank Index, above 0.")] = 1.0,
    level: Annotated[float, typer.Option(help="Of the confidence intervals, in (0, 1).")] = 0.95,
    route: RouteOption = None,
    fusion: FusionOption = "score",
    plot: Annotated[Path | None, picture("Draw recall by kind of question")] = None,
    curve: Annotated[Path | None, picture("Draw recall over ranks")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a library every question of a file, and report what it found, by kind of question.

    A line is {"question": "…", "gold": {"document": "manual.pdf", "page": 3}}; gold may also be a list, and name a
    "heading" or a "text" instead of the page. "kind" groups questions. Lines with gold section ids are read too, with
    sections.jsonl beside the file.
    """
    from catena.evaluation.report import ask_questions, retrieval_report

    check_targets(pictures=(plot, curve), inputs=[questions])
    if not 0 < gamma < float("inf"):
        raise ProblemError(f"--gamma must be above 0, got {gamma:g}", "--gamma 1")
    if not 0 < level < 1:
        raise ProblemError(f"--level must be in (0, 1), got {level:g}", "--level 0.95")
    weights = Weights(routes=route_names(route), fusion=fusion)
    options: SearchOptions = {}
    if weights.routes:
        options["routes"] = weights.routes
    with _judged(library, questions) as (opened, bank, judgement), progress("asking", "questions") as show:
        if (chosen := weights.formula(opened, library)) is not None:
            options["fusion"] = chosen
        n = opened.stats().chunks
        top, deep = ask_questions(
            bank, judgement, partial(opened.search, **options), k=k, depth=min(depth, n),
            progress=lambda done, total: show(completed=done, total=total),
        )  # fmt: skip
    report = retrieval_report(bank, judgement, top=top, deep=deep, n=n, k=k, gamma=gamma, level=level)
    _notices(report, judgement, deep)
    drawings = _drawn(report, plot, curve, level, questions.name)
    if as_json:
        write_json({**_report_as_json(report, judgement), "depth": min(depth, n), "plots": drawings})
    else:
        out().print(_measures(report, level))
        out().print(_how_measured(report, level, min(depth, n)), soft_wrap=False)
    tell_written(*drawings)
    if judgement.lost:
        raise ProblemError(
            f"{report.n_lost} gold places are nowhere in the library and counted as not found",
            "`catena status` for what was indexed, and the names of documents in the questions",
            SOME_FAILED,
        )


@contextmanager
def _judged(library: Path, questions: Path) -> Iterator[tuple[Library, Sequence[BankQuestion], Judgement]]:
    """Open a library, with the questions of a file and what of it is gold for each."""
    from catena.evaluation.question_bank import read_questions
    from catena.evaluation.report import judge
    from catena.library import Library

    bank = read_questions(questions)
    with Library.open(library, create=False) as opened:
        yield opened, bank, judge(bank, [info.id for info in opened.documents()], opened.get)


def _notices(report: RetrievalReport, judgement: Judgement, rankings: Mapping[str, Ranking]) -> None:
    """Say on stderr what makes the numbers less than they seem."""
    shown = [f"not in the library: {place} (question {name})" for name, place in judgement.lost[:LOST_SHOWN]]
    if len(judgement.lost) > LOST_SHOWN:
        shown.append(f"… and {len(judgement.lost) - LOST_SHOWN} more gold places")
    degraded = {f"without {part.what}: {part.why}" for ranking in rankings.values() for part in ranking.degraded}
    shown += sorted(degraded)
    if report.without:
        shown.append(f"without {report.without}")
    for line in shown:
        tell(line)


def _drawn(report: RetrievalReport, plot: Path | None, curve: Path | None, level: float, name: str) -> list[Path]:
    from catena.evaluation.curves import recall_curve

    if plot is not None or curve is not None:
        with needs("catena-view"):
            from catena_view import plots
        if plot is not None:
            plots.recall_by_kind({name: report}, plot)
        if curve is not None:
            found = recall_curve(report.ranks, n=report.n, gamma=report.gamma, level=level)
            plots.recall_curve({name: found}, curve)
    return [*filter(None, (plot, curve))]


def _measures(report: RetrievalReport, level: float) -> RenderableType:
    from catena.cli.rendering import table
    from catena.evaluation.report import NAMES

    measures = [name for name in NAMES if name in report.measures[""]]
    columns = [f"{NAMES[name]}#" for name in measures]
    made = table("Kind", "n#", *columns, "mean rank#", title=f"Means with {level:.0%} intervals")
    for kind, found in report.measures.items():
        cells = [_cell(found[name].score) for name in measures]
        name = printable(kind or ALL, one_line=True)
        made.add_row(name, str(found["recall"].score.n), *cells, f"{report.geometric_mean_rank[kind]:.2f}")
    return made


def _cell(score: MeanScore) -> str:
    if score.interval is None:
        return f"{score.value:.3f}"
    low, high = (f"{bound:.2f}".replace("0.", ".", 1) for bound in score.interval)
    return f"{score.value:.3f} {low}–{high}"


def _how_measured(report: RetrievalReport, level: float, depth: int) -> str:
    from catena.evaluation.report import NAMES

    smallest = ", ".join(
        f"{NAMES[name]} {'none' if found.detectable > 1 else format(found.detectable, '.3f')}"
        for name, found in report.measures[""].items()
        if found.detectable is not None
    )
    without = report.n_questions - report.n_judged
    left_out = f"; {without:,} without are left out" if without else ""
    told = (
        f"Recall at max({report.k}, gold places). LRI: Log-Rank Index, γ = {report.gamma:g}, N = {report.n:,} "
        f"chunks, rankings {depth:,} deep, ties by mid-rank, deeper is last; the mean rank is geometric.\n"
        f"{report.n_judged:,} of {report.n_questions:,} questions have gold{left_out}."
    )
    if smallest:
        told += f"\nSmallest difference to another system that {report.n_judged:,} questions show: {smallest}."
    return told


def _report_as_json(report: RetrievalReport, judgement: Judgement) -> dict[str, Any]:
    kinds = {
        kind or ALL: {"geometric_mean_rank": report.geometric_mean_rank[kind], **found}
        for kind, found in report.measures.items()
    }
    counts = {"questions": report.n_questions, "judged": report.n_judged, "lost": report.n_lost}
    rules = {"k": report.k, "n": report.n, "gamma": report.gamma, "ties": "mid-rank", "unretrieved": "last"}
    lost = [{"question": name, "gold": place} for name, place in judgement.lost]
    return {**rules, "counts": counts, "kinds": kinds, "lost": lost, "without": report.without}


SHOWN = 7  # values of alpha and of beta in the table


def tune(
    library: LibraryFolder,
    questions: QuestionFile,
    *,
    objective: Annotated[
        Literal["log-rank", "recall"],
        typer.Option(help="Make the Log-Rank Index as high as it gets, or recall at max(k, gold places)."),
    ] = "log-rank",
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Cutoff of recall.")] = 5,
    folds: Annotated[int, typer.Option(min=2, help="Questions about one document share a fold.")] = 5,
    depth: Annotated[int, typer.Option(min=1, help="Hits asked of each route.")] = 100,
    save: Annotated[
        Path | None, option("FILE", "Keep the weights for `catena search --tuned`.", "--out", "-o")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Choose the weights of HiQA's formula on labelled questions, by cross-validation.

    The chosen weights are adopted only where they beat the defaults on questions they were not chosen on, by as much
    as so many questions can show; otherwise the defaults stay, and --out keeps these.
    """
    from catena.effects import run
    from catena.retrieval.tuning import tune as tuning

    check_targets(save, inputs=[questions])
    with _judged(library, questions) as (opened, bank, judgement):
        stats = opened.stats()
        step = tuning(
            labelled(bank, judgement),
            n=stats.chunks,
            model=stats.embedder,
            library=f"{stats.documents} documents, {stats.chunks} chunks, generation {stats.generation}",
            objective=objective,
            k=k,
            depth=depth,
            folds=folds,
        )
        with asking_bar("tuning", "requests") as watch:
            tuned = run(step, replace(opened.services, progress=watch))
    if save is not None:
        tuned.save(save)
        tell_written(save)
    if as_json:
        write_json({"tuned": tuned})
        return
    out().print(_surface(tuned))
    out().print(_verdict(tuned))


def labelled(bank: Sequence[BankQuestion], judgement: Judgement) -> list[Labelled]:
    """Return the questions as tuning takes them: those about one document form a group."""
    from catena.retrieval.tuning import Labelled

    return [
        Labelled(
            id=question.id,
            text=question.text,
            items=tuple(judgement.items.get(question.id, {}).values()),
            groups=frozenset(gold.document for gold in question.gold if gold.document),
        )
        for question in bank
    ]


def _surface(tuned: Tuned) -> Table:
    """Return the mean objective over the grid, every so many values, the best of those shown in bold."""
    from rich.text import Text

    from catena.cli.rendering import table

    rows, columns = (_some(values) for values in (tuned.alphas, tuned.betas))
    best = max(tuned.surface[row][column] for row in rows for column in columns)
    made = table("alpha \\ beta#", *(f"{tuned.betas[column]:g}#" for column in columns), title=tuned.objective)
    for row in rows:
        values = [tuned.surface[row][column] for column in columns]
        shown = [Text(f"{value:.3f}", style="bold" if value == best else "") for value in values]
        made.add_row(f"{tuned.alphas[row]:g}", *shown)
    return made


def _some(values: Sequence[float]) -> list[int]:
    """Return the places of a few values, evenly spread from the first to the last."""
    steps = min(SHOWN, len(values)) - 1
    return sorted({round(step * (len(values) - 1) / steps) for step in range(steps + 1)}) if steps else [0]


def _alpha(alpha: float | None) -> str:
    return "as routes agree" if alpha is None else f"{alpha:g}"


def _verdict(tuned: Tuned) -> str:
    low, high = tuned.interval
    verdict = f"adopted: alpha {_alpha(tuned.alpha)}, beta {tuned.beta:g}"
    if not tuned.adopted:
        below = "not adopted: the gain is below what these questions can show"
        verdict = f"{below}, alpha {_alpha(tuned.alpha)} and beta {tuned.beta:g} stay"
    folds = ", ".join(f"{_alpha(fold.alpha)}/{fold.beta:g}" for fold in tuned.folds)
    return (
        f"{tuned.questions} questions in {tuned.groups} groups that share no document,"
        f" {tuned.left_out} more without gold\n"
        f"chosen: alpha {_alpha(tuned.chosen[0])}, beta {tuned.chosen[1]:g} (by fold: {folds})\n"
        f"held out: {tuned.held_out:.4f} against {tuned.held_out_usual:.4f} with the defaults: gain {tuned.gain:+.4f}"
        f" [{low:+.4f}, {high:+.4f}], detectable {tuned.detectable:.4f}\n"
        f"{verdict}"
    )


@dataclass(frozen=True, slots=True)
class _Scored:
    """Every hit of every question: its score, whether it holds gold, and which questions must stay together."""

    questions: int
    scores: list[float] = field(default_factory=list)
    relevant: list[bool] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)


def calibrate(
    library: LibraryFolder,
    questions: QuestionFile,
    *,
    save: Annotated[Path | None, option("FILE", "Keep the calibration as JSON.", "--out", "-o")] = None,
    depth: Annotated[int, typer.Option(min=1, help="Hits looked at per question.")] = 100,
    date: Annotated[str, typer.Option(help="Kept in the file, e.g. 2026-11-21.")] = "",
    plot: Annotated[Path | None, picture("Draw the reliability diagram")] = None,
    as_json: AsJson = False,
) -> None:
    """Fit what a library's fused scores say about relevance, on labelled questions, by cross-validation.

    A hit is relevant where it holds one of the question's gold places. Questions are searched whole, without shares
    for names, which have no scores but an order. Questions about one document are judged together.
    """
    from catena.segments.calibration import Identity
    from catena.segments.fitting import Artefact, fit_labelled, fused_scores_of, quality, standardizing

    check_targets(save, pictures=[plot], inputs=[questions])
    with _judged(library, questions) as (opened, bank, judgement):
        stats = opened.stats()
        scored = _scored(opened, bank, judgement, depth)
    fitted = fit_labelled(scored.scores, scored.relevant, first=standardizing(scored.scores), groups=scored.groups)
    fit = replace(fitted, before=quality(Identity()(scored.scores), scored.relevant))
    data = f"{scored.questions} questions on {stats.chunks} chunks, {depth} hits each"
    artefact = Artefact(fit=fit, model=fused_scores_of(stats.embedder), data=data, date=date)
    if save is not None:
        artefact.save(save)
    if plot is not None:
        _draw(scored, plot)
    tell_written(save, plot)
    if as_json:
        write_json(json.loads(artefact.to_json()))
        return
    out().print(_before_and_after(fit))
    out().print(printable(_how_fitted(fit, data)), soft_wrap=False)


def _scored(library: Library, bank: Sequence[BankQuestion], judgement: Judgement, depth: int) -> _Scored:
    from catena.retrieval.fusion import ScoreFusion
    from catena.retrieval.routes import DEFAULT_ROUTES
    from catena.retrieval.tuning import clusters_of

    # the scores that segments are made of, also in a library whose sections are searched by another formula
    usual: SearchOptions = {
        "routes": DEFAULT_ROUTES, "fusion": ScoreFusion(), "k": depth, "depth": depth,
        "by_name": False, "on_route_error": "raise",
    }  # fmt: skip
    asked = [question for question in labelled(bank, judgement) if question.items]
    scored = _Scored(questions=len(asked))
    pairs = list(zip(asked, clusters_of(asked), strict=True))
    for question, cluster in counted(pairs, "asking", "questions"):
        gold = frozenset().union(*question.items)
        for hit in library.search(question.text, **usual).hits:
            scored.scores.append(hit.score)
            scored.relevant.append(hit.chunk.id in gold)
            scored.groups.append(cluster)
    return scored


def _draw(scored: _Scored, path: Path) -> None:
    """Draw the scores as they are, clipped to [0, 1], and as each fold's fit without it calibrates them."""
    with needs("catena-view"):
        from catena_view.plots import reliability_diagram
    from catena.segments.calibration import Identity
    from catena.segments.fitting import held_out, reliability, standardizing

    after, _ = held_out(scored.scores, scored.relevant, first=standardizing(scored.scores), groups=scored.groups)
    curves = {
        "fused scores, as they are": reliability(Identity()(scored.scores), scored.relevant),
        "calibrated": reliability(after, scored.relevant),
    }
    reliability_diagram(curves, path)


def _before_and_after(fit: LabelledFit) -> Table:
    from catena.cli.rendering import table

    made = table("Scores", "log loss#", "Brier#", "ECE#", title="Lower is better")
    for name, found in (("as they are", fit.before), ("calibrated", fit.after)):
        made.add_row(name, f"{found.log_loss:.4f}", f"{found.brier:.4f}", f"{found.ece:.4f}")
    return made


def _how_fitted(fit: LabelledFit, data: str) -> str:
    judged = (
        f"{fit.folds} folds, each judged by a fit without it"
        if fit.folds
        else "judged on the data that it was fitted to: too few for cross-validation, so this flatters"
    )
    return f"{fit.positives:,} relevant of {fit.n:,} scores; {data}\n{judged}\n{fit.calibration.identity}"
