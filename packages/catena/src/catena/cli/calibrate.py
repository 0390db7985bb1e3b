"""`catena calibrate`: from a library's scores to probabilities, by questions with known answers."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catena.cli.console import err, out, write_json
from catena.cli.failures import ProblemError, check_targets
from catena.cli.options import AsJson
from catena.cli.progress import counted
from catena.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from catena.evaluation.question_bank import BankQuestion
    from catena.evaluation.report import Judgement
    from catena.library import Library, SearchOptions
    from catena.segments.fitted import LabelledFit


@dataclass(frozen=True, slots=True)
class _Scored:
    """Every hit of every question: its score, whether it holds gold, and which questions must stay together."""

    scores: list[float]
    relevant: list[bool]
    groups: list[int]
    questions: int


def calibrate(
    library: Annotated[Path, typer.Argument(metavar="LIBRARY", help="The library's folder.")],
    questions: Annotated[Path, typer.Argument(metavar="QUESTIONS.jsonl", help="As `catena evaluate` reads them.")],
    *,
    save: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Keep the calibration as JSON.")
    ] = None,
    depth: Annotated[int, typer.Option("--depth", min=1, help="Hits looked at per question.")] = 100,
    date: Annotated[str, typer.Option("--date", help="Kept in the file, e.g. 2026-11-21.")] = "",
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw the reliability, .png or .html (extra plots)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit what a library's fused scores say about relevance, on labelled questions, by cross-validation.

    A hit is relevant where it holds one of the question's gold places. Questions are searched whole, without shares
    for names, which have no scores but an order. Questions about one document are judged together.
    """
    from catena.evaluation.question_bank import read_questions
    from catena.evaluation.report import judge
    from catena.library import Library
    from catena.segments.artefact import Artefact, fused_scores_of
    from catena.segments.calibration import Identity
    from catena.segments.fitted import fit_labelled, standardizing
    from catena.segments.reliability_bins import quality

    if plot is not None and plot.suffix.lower() not in (".png", ".html"):
        raise ProblemError(f"{plot.name} is neither .png nor .html", "a file name that ends in one of them")
    check_targets(save, plot, inputs=[questions])
    bank = read_questions(questions)
    with Library.open(library, create=False) as opened:
        stats = opened.stats()
        judgement = judge(bank, [info.id for info in opened.documents()], opened.get)
        scored = _scored(opened, bank, judgement, depth)
    fitted = fit_labelled(scored.scores, scored.relevant, first=standardizing(scored.scores), groups=scored.groups)
    fit = replace(fitted, before=quality(Identity()(scored.scores), scored.relevant))
    data = f"{scored.questions} questions on {stats.chunks} chunks, {depth} hits each"
    artefact = Artefact(fit=fit, model=fused_scores_of(stats.embedder), data=data, date=date)
    written = []
    if save is not None:
        artefact.save(save)
        written.append(save)
    if plot is not None:
        _draw(scored, plot)
        written.append(plot)
    for file in written:
        err().print(f"written: {printable(str(file), one_line=True)}", soft_wrap=True)
    if as_json:
        write_json(json.loads(artefact.to_json()))
        return
    out().print(_table(fit))
    out().print(printable(_told(fit, data)), soft_wrap=False)


def _scored(library: Library, bank: Sequence[BankQuestion], judgement: Judgement, depth: int) -> _Scored:
    from catena.cli.tune import labelled
    from catena.retrieval.fusion import ScoreFusion
    from catena.retrieval.multi_route import DEFAULT_ROUTES
    from catena.retrieval.tuning import clusters_of

    # the scores that segments are made of, also in a library whose sections are searched by another formula
    usual: SearchOptions = {
        "routes": DEFAULT_ROUTES, "fusion": ScoreFusion(), "k": depth, "depth": depth,
        "by_name": False, "on_route_error": "raise",
    }  # fmt: skip
    asked = [question for question in labelled(bank, judgement) if question.items]
    scores: list[float] = []
    relevant: list[bool] = []
    groups: list[int] = []
    clusters = clusters_of(asked)
    pairs = list(zip(asked, clusters, strict=True))
    for question, cluster in counted(pairs, "asking", "questions"):
        gold = frozenset().union(*question.items)
        found = library.search(question.text, **usual)
        scores += [hit.score for hit in found.hits]
        relevant += [hit.chunk.id in gold for hit in found.hits]
        groups += [cluster] * len(found.hits)
    return _Scored(scores, relevant, groups, len(asked))


def _draw(scored: _Scored, path: Path) -> None:
    """Draw the scores as they are, clipped to [0, 1], and as each fold's fit without it calibrates them."""
    from catena.plots import reliability_diagram
    from catena.segments.calibration import Identity
    from catena.segments.fitted import held_out, standardizing
    from catena.segments.reliability_bins import reliability

    after, _ = held_out(scored.scores, scored.relevant, first=standardizing(scored.scores), groups=scored.groups)
    curves = {
        "fused scores, as they are": reliability(Identity()(scored.scores), scored.relevant),
        "calibrated": reliability(after, scored.relevant),
    }
    reliability_diagram(curves, path)


def _table(fit: LabelledFit) -> Table:
    from catena.cli.views import table

    made = table("Scores", "log loss#", "Brier#", "ECE#", title="Lower is better")
    for name, found in (("as they are", fit.before), ("calibrated", fit.after)):
        made.add_row(name, f"{found.log_loss:.4f}", f"{found.brier:.4f}", f"{found.ece:.4f}")
    return made


def _told(fit: LabelledFit, data: str) -> str:
    judged = (
        f"{fit.folds} folds, each judged by a fit without it"
        if fit.folds
        else "judged on the data that it was fitted to: too few for cross-validation, so this flatters"
    )
    return f"{fit.positives:,} relevant of {fit.n:,} scores; {data}\n{judged}\n{fit.calibration.identity}"
