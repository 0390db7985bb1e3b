"""`catena evaluate`: how well a library finds what questions with known answers ask for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.console import err, out, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, check_targets
from catena.cli.options import AsJson
from catena.cli.progress import counted
from catena.cli.terminal import printable
from catena.cli.weights import FusionName, FusionOption, RouteOption, Weights, route_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from catena.evaluation.answers import MeanScore
    from catena.evaluation.question_bank import BankQuestion
    from catena.evaluation.report import Judgement, RetrievalReport
    from catena.library import Library, SearchOptions
    from catena.model import Ranking

ALL = "all"
LOST_SHOWN = 5  # gold places that are named on stderr
FEWEST = 10  # hits of the search that a user would make, for nDCG and MRR at 10

_NAMES = {"recall": "recall", "lri": "LRI", "ndcg@10": "nDCG@10", "mrr@10": "MRR@10"}


def evaluate(
    library: Annotated[Path, typer.Argument(metavar="LIBRARY", help="The library's folder.")],
    questions: Annotated[Path, typer.Argument(metavar="QUESTIONS.jsonl", help="Questions with gold, one a line.")],
    *,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Recall at max(k, gold places).")] = 5,
    depth: Annotated[
        int, typer.Option("--depth", min=1, help="Length of the rankings that the Log-Rank Index judges.")
    ] = 1_000,
    gamma: Annotated[float, typer.Option("--gamma", help="Growth of the Log-Rank Index, above 0.")] = 1.0,
    level: Annotated[float, typer.Option("--level", help="Of the confidence intervals, in (0, 1).")] = 0.95,
    route: RouteOption = None,
    fusion: FusionOption = FusionName.SCORE,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw recall by kind, .png or .html (extra plots)."),
    ] = None,
    curve: Annotated[
        Path | None,
        typer.Option("--curve", metavar="FILE", help="Draw recall over ranks, .png or .html (extra plots)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask a library every question of a file, and report what it found, by kind of question.

    A line is {"question": "…", "gold": {"document": "manual.pdf", "page": 3}}; gold may also be a list, and name a
    "heading" or a "text" instead of the page. "kind" groups questions. Lines with gold section ids are read too, with
    sections.jsonl beside the file.
    """
    from catena.evaluation.question_bank import read_questions
    from catena.evaluation.report import judge, retrieval_report
    from catena.library import Library

    for drawn in filter(None, (plot, curve)):
        if drawn.suffix.lower() not in (".png", ".html"):
            raise ProblemError(f"{drawn.name} is neither .png nor .html", "a file name that ends in one of them")
    check_targets(plot, curve, inputs=[questions])
    if not 0 < gamma < float("inf"):
        raise ProblemError(f"--gamma must be above 0, got {gamma:g}", "--gamma 1")
    if not 0 < level < 1:
        raise ProblemError(f"--level must be in (0, 1), got {level:g}", "--level 0.95")
    bank = read_questions(questions)
    weights = Weights(routes=route_names(route), fusion=fusion)
    options: SearchOptions = {}
    if weights.routes:
        options["routes"] = weights.routes
    with Library.open(library, create=False) as opened:
        if (chosen := weights.formula(opened, library)) is not None:
            options["fusion"] = chosen
        judgement = judge(bank, [info.id for info in opened.documents()], opened.get)
        n = opened.stats().chunks
        top, deep = _asked(opened, bank, judgement, options, k=k, depth=min(depth, n))
    report = retrieval_report(bank, judgement, top=top, deep=deep, n=n, k=k, gamma=gamma, level=level)
    _notices(report, judgement, deep)
    drawings = _drawn(report, plot, curve, level, questions.name)
    if as_json:
        write_json({**_as_json(report, judgement), "depth": min(depth, n), "plots": drawings})
    else:
        out().print(_table(report, level))
        out().print(_explained(report, level, min(depth, n)), soft_wrap=False)
    for drawing in drawings:
        err().print(f"written: {printable(str(drawing), one_line=True)}", soft_wrap=True)
    if judgement.lost:
        raise ProblemError(
            f"{report.n_lost} gold places are nowhere in the library and counted as not found",
            "`catena status` for what was indexed, and the names of documents in the questions",
            SOME_FAILED,
        )


def _asked(
    library: Library,
    bank: Sequence[BankQuestion],
    judgement: Judgement,
    options: SearchOptions,
    *,
    k: int,
    depth: int,
) -> tuple[dict[str, Ranking], dict[str, Ranking]]:
    """Return, for each question with gold, what a user would get, and the ranking as deep as it is judged."""
    judged = [question for question in bank if judgement.items.get(question.id)]
    top: dict[str, Ranking] = {}
    deep: dict[str, Ranking] = {}
    for question in counted(judged, "asking", "questions"):
        most = max(k, FEWEST, len(judgement.items[question.id]))
        usual: SearchOptions = {**options, "k": most}
        whole: SearchOptions = {**options, "k": depth, "depth": depth}
        top[question.id] = library.search(question.text, **usual)
        deep[question.id] = library.search(question.text, **whole)
    return top, deep


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
        err().print(printable(line, one_line=True), style="yellow", soft_wrap=True)


def _drawn(report: RetrievalReport, plot: Path | None, curve: Path | None, level: float, name: str) -> list[Path]:
    drawings: list[Path] = []
    if plot is not None:
        from catena.plots import recall_by_kind

        recall_by_kind({name: report}, plot)
        drawings.append(plot)
    if curve is not None:
        from catena.evaluation.curves import recall_curve
        from catena.plots import recall_curve as draw

        draw({name: recall_curve(report.ranks, n=report.n, gamma=report.gamma, level=level)}, curve)
        drawings.append(curve)
    return drawings


def _table(report: RetrievalReport, level: float) -> RenderableType:
    from catena.cli.views import table

    measures = [name for name in _NAMES if name in report.measures[""]]
    columns = [f"{_NAMES[name]}#" for name in measures]
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


def _explained(report: RetrievalReport, level: float, depth: int) -> str:
    overall = report.measures[""]
    smallest = ", ".join(
        f"{_NAMES[name]} {'none' if found.detectable > 1 else format(found.detectable, '.3f')}"
        for name, found in overall.items()
        if found.detectable is not None
    )
    left_out = report.n_questions - report.n_judged
    lines = [
        f"Recall at max({report.k}, gold places). LRI: Log-Rank Index, γ = {report.gamma:g}, N = {report.n:,} "
        f"chunks, rankings {depth:,} deep, ties by mid-rank, deeper is last; the mean rank is geometric.",
        f"{report.n_judged:,} of {report.n_questions:,} questions have gold"
        + (f"; {left_out:,} without are left out." if left_out else "."),
    ]
    if smallest:
        lines.append(f"Smallest difference to another system that {report.n_judged:,} questions show: {smallest}.")
    return "\n".join(lines)


def _as_json(report: RetrievalReport, judgement: Judgement) -> dict[str, Any]:
    kinds = {
        kind or ALL: {"geometric_mean_rank": report.geometric_mean_rank[kind], **found}
        for kind, found in report.measures.items()
    }
    counts = {"questions": report.n_questions, "judged": report.n_judged, "lost": report.n_lost}
    rules = {"k": report.k, "n": report.n, "gamma": report.gamma, "ties": "mid-rank", "unretrieved": "last"}
    lost = [{"question": name, "gold": place} for name, place in judgement.lost]
    return {**rules, "counts": counts, "kinds": kinds, "lost": lost, "without": report.without}
