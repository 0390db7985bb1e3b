"""`catena tune`: alpha and beta from questions with known answers, and what they are worth on others."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catena.cli.asking_progress import asking_bar
from catena.cli.console import err, out, write_json
from catena.cli.failures import check_targets
from catena.cli.options import AsJson
from catena.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from catena.evaluation.question_bank import BankQuestion
    from catena.evaluation.report import Judgement
    from catena.retrieval.fusion import ScoreFusion
    from catena.retrieval.tuned import Tuned
    from catena.retrieval.tuning import Labelled

SHOWN = 7  # values of alpha and of beta in the table


class ObjectiveName(StrEnum):
    """What is made as high as it gets."""

    LOG_RANK = "log-rank"
    RECALL = "recall"


def tune(
    library: Annotated[Path, typer.Argument(metavar="LIBRARY", help="The library's folder.")],
    questions: Annotated[Path, typer.Argument(metavar="QUESTIONS.jsonl", help="As `catena evaluate` reads them.")],
    *,
    objective: Annotated[
        ObjectiveName, typer.Option("--objective", help="Log-Rank Index, or recall at max(k, gold places).")
    ] = ObjectiveName.LOG_RANK,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Cutoff of recall.")] = 5,
    folds: Annotated[int, typer.Option("--folds", min=2, help="Questions about one document share a fold.")] = 5,
    depth: Annotated[int, typer.Option("--depth", min=1, help="Hits asked of each route.")] = 100,
    save: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Keep the weights for `catena search --tuned`.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Choose the weights of HiQA's formula on labelled questions, by cross-validation.

    The chosen weights are adopted only where they beat the defaults on questions they were not chosen on, by as much
    as so many questions can show; otherwise the defaults stay, and --out keeps these.
    """
    from catena.effects import run
    from catena.evaluation.question_bank import read_questions
    from catena.evaluation.report import judge
    from catena.library import Library
    from catena.retrieval.tuning import tune as tuning

    check_targets(save, inputs=[questions])
    bank = read_questions(questions)
    with Library.open(library, create=False) as opened:
        documents, stats = [info.id for info in opened.documents()], opened.stats()
        step = tuning(
            labelled(bank, judge(bank, documents, opened.get)),
            n=stats.chunks,
            model=stats.embedder,
            library=f"{stats.documents} documents, {stats.chunks} chunks, generation {stats.generation}",
            objective=objective.value,
            k=k,
            depth=depth,
            folds=folds,
        )
        with asking_bar("tuning", "requests") as tell:
            tuned = run(step, replace(opened.services, progress=tell))
        by_shape = opened.adapted()
    if save is not None:
        tuned.save(save)
        err().print(f"written: {printable(str(save), one_line=True)}", soft_wrap=True)
    if as_json:
        write_json({"tuned": tuned, "adapted": {"alpha": by_shape.alpha, "beta": by_shape.beta}})
        return
    out().print(_surface(tuned))
    out().print(_told(tuned, by_shape))


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

    from catena.cli.views import table

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


def _told(tuned: Tuned, by_shape: ScoreFusion) -> str:
    low, high = tuned.interval
    verdict = (
        f"adopted: alpha {tuned.alpha:g}, beta {tuned.beta:g}"
        if tuned.adopted
        else f"not adopted: the gain is below what these questions can show, alpha {tuned.alpha:g} and beta"
        f" {tuned.beta:g} stay"
    )
    folds = ", ".join(f"{fold.alpha:g}/{fold.beta:g}" for fold in tuned.folds)
    return (
        f"{tuned.questions} questions in {tuned.groups} groups that share no document,"
        f" {tuned.left_out} more without gold\n"
        f"chosen: alpha {tuned.chosen[0]:g}, beta {tuned.chosen[1]:g} (by fold: {folds})\n"
        f"held out: {tuned.held_out:.4f} against {tuned.held_out_usual:.4f} with the defaults: gain {tuned.gain:+.4f}"
        f" [{low:+.4f}, {high:+.4f}], detectable {tuned.detectable:.4f}\n"
        f"{verdict}\n"
        f"by the shape of this library, without questions: alpha {by_shape.alpha:.2f}, beta {by_shape.beta:.2f}"
        " (catena search --adapted)"
    )
