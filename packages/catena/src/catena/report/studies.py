"""What a question bank says of a library, for a report: the Log-Rank Index and its plots, and cohesion."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from catena.effects import run
from catena.evaluation import cohesion
from catena.evaluation.curves import GAMMAS, recall_curve
from catena.evaluation.report import Judgement, RetrievalReport, judge, retrieval_report
from catena.plots import ranking as ranking_plots
from catena.plots import space
from catena.report.values import Figure, Studies

if TYPE_CHECKING:
    from catena.evaluation.question_bank import BankQuestion
    from catena.model import Entry, Ranking
    from catena.report.options import ReportOptions
    from catena.report.sources import ReportLibrary

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many questions of a bank have been asked, and of how many."""

_FEWEST = 10  # hits of the search that a user would make, for nDCG and MRR at 10
_NAMES = {"recall": "recall", "lri": "LRI", "ndcg@10": "nDCG@10", "mrr@10": "MRR@10"}


def studies_shown(
    library: ReportLibrary,
    bank: Sequence[BankQuestion],
    entries: Sequence[Entry],
    options: ReportOptions,
    progress: Progress | None = None,
) -> Studies:
    """Ask a library every question of a bank, and draw what was found.

    Args:
        library: to ask.
        bank: questions with gold; those without are counted and left out.
        entries: the documents whose cohesion is measured.
        options: depth and gamma.
        progress: told after each question.

    Raises:
        EvaluationError: no gold place is in the library.
        MissingExtraError: matplotlib is not installed.
    """
    judgement = judge(bank, [info.id for info in library.documents()], library.get)
    n = library.stats().chunks
    top, deep = _asked(library, bank, judgement, min(options.depth, n), progress)
    found = retrieval_report(bank, judgement, top=top, deep=deep, n=n, gamma=options.gamma)
    measures = [name for name in _NAMES if name in found.measures[""]]
    return Studies(
        note=_note(found, judgement),
        columns=("kind", "questions", *(_NAMES[name] for name in measures), "mean rank"),
        rows=tuple(_row(kind, found, measures) for kind in found.measures),
        figures=(*_log_rank(found), *_cohesion(library, entries)),
    )


def _asked(
    library: ReportLibrary,
    bank: Sequence[BankQuestion],
    judgement: Judgement,
    depth: int,
    progress: Progress | None,
) -> tuple[dict[str, Ranking], dict[str, Ranking]]:
    """Return, for each question with gold, what a user would get, and the ranking as deep as it is judged."""
    judged = [question for question in bank if judgement.items.get(question.id)]
    top: dict[str, Ranking] = {}
    deep: dict[str, Ranking] = {}
    for number, question in enumerate(judged, start=1):
        top[question.id] = library.search(question.text, k=max(_FEWEST, len(judgement.items[question.id])))
        deep[question.id] = library.search(question.text, k=depth, depth=depth)
        if progress is not None:
            progress(number, len(judged))
    return top, deep


def _log_rank(found: RetrievalReport) -> list[Figure]:
    curve = recall_curve(found.ranks, n=found.n, gamma=found.gamma)
    return [
        _figure(ranking_plots.recall_curve({"this library": curve})),
        _figure(ranking_plots.recall_by_kind({"this library": found})),
        _figure(ranking_plots.log_rank_curves(n=max(found.n, 2), gammas=GAMMAS)),
    ]


def _cohesion(library: ReportLibrary, entries: Sequence[Entry]) -> list[Figure]:
    ways = cohesion.texts_of(entries)
    labels = cohesion.document_labels(entries)
    if len(labels) < 3:  # fewer points have no plane
        return []
    found = run(cohesion.study(ways, labels), library.services)
    return [_figure(space.cohesion(found, title="Cohesion: do texts of one document stand together?"))]


def _figure(picture: Any) -> Figure:
    plain = replace(picture, title="", caption="")  # the page writes them, in letters that grow and are read aloud
    image = b64encode(plain._repr_png_()).decode("ascii")
    return Figure(title=picture.title, caption=picture.caption, image=f"data:image/png;base64,{image}")


def _row(kind: str, found: RetrievalReport, measures: Sequence[str]) -> tuple[str, ...]:
    held = found.measures[kind]
    cells = []
    for name in measures:
        score = held[name].score
        between = "" if score.interval is None else f" [{score.interval[0]:.2f}, {score.interval[1]:.2f}]"
        cells.append(f"{score.value:.3f}{between}")
    return (kind or "all", str(held["recall"].score.n), *cells, f"{found.geometric_mean_rank[kind]:.2f}")


def _note(found: RetrievalReport, judgement: Judgement) -> str:
    told = [
        f"{found.n_judged:,} of {found.n_questions:,} questions have gold places. Recall at max({found.k}, gold "
        f"places). LRI: Log-Rank Index, γ = {found.gamma:g}, N = {found.n:,} chunks; the mean rank is geometric."
    ]
    if judgement.lost:
        told.append(f"Gold places that are nowhere in the library, and count as not found: {len(judgement.lost)}.")
    if found.without:
        told.append(f"Without {found.without}.")
    return " ".join(told)
