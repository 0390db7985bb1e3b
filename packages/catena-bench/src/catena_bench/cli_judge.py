"""Compare two systems' answers to the same questions by a model: `catena judge`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.console import out, plain, tell, write_json
from catena.cli.failures import ProblemError
from catena.cli.llm_options import ModelOptions, done
from catena.cli.options import AsJson, grouped

if TYPE_CHECKING:
    from rich.table import Table

    from catena_bench.judges.judging import Pair, PairwiseResult, Verdict

UNDECIDED_SHOWN = 5  # questions that are named on stderr

_ROW = '{"id": "1", "question": "…", "reference": "…", "a": "…", "b": "…"}'


@grouped
def judge(
    pairs: Annotated[
        Path, typer.Option("--pairs", metavar="FILE.jsonl", help="Questions with two answers each, one a line.")
    ],
    llm: Annotated[str, typer.Option("--llm", metavar="MODEL", help="The OpenAI-compatible model that judges.")],
    *,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, metavar="N", help="How often each order is judged; 3 tell its spread.")
    ] = 1,
    level: Annotated[float, typer.Option("--level", help="Of the confidence intervals, in (0, 1).")] = 0.95,
    asking: ModelOptions,
    plan: Annotated[bool, typer.Option("--plan", help="Say what the model would take; ask nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let a model compare answer a with answer b to each question, in both orders, and count who wins.

    A line is {"id": "1", "question": "…", "reference": "the right answer", "a": "…", "b": "…"}; "document" says which
    the question is about, and the intervals then draw documents. By score, the higher sum over both orders wins; by
    round, who is ahead in both. The key of the model is read from CATENA_API_KEY or OPENAI_API_KEY; its replies are
    kept in the journal.
    """
    from catena_bench.judges.judging import judge_pairs, pairwise_result

    if not 0 < level < 1:
        raise ProblemError(f"--level must be in (0, 1), got {level:g}", "--level 0.95")
    given = read_pairs(pairs)
    with asking.services(llm, dry=plan) as services:
        step = judge_pairs(given, repeats=repeats)
        if plan:
            asking.show_plan(step, services, {"pairs": len(given)}, as_json=as_json)
            return
        verdicts = done(step, services, "judging", "rounds")
    _tell_undecided(verdicts)
    if all(verdict.by_score == "undecided" for verdict in verdicts):
        raise ProblemError(
            f"the model judged none of {len(verdicts)} questions", "another model, or the key and --base-url"
        )
    result = pairwise_result(verdicts, level=level)
    if as_json:
        write_json({**plain(result), "verdicts": verdicts})
    else:
        out().print(_table(result, level))
        out().print(_explained(result))


def read_pairs(path: Path) -> tuple[Pair, ...]:
    """Return the pairs of a file of JSON lines; blank lines are passed over.

    Raises:
        ProblemError: the file cannot be read, a line is not of the form, or there is none; with the line's number.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ProblemError(f"{path.name} is not UTF-8", f"a line as {_ROW}") from None
    lines = enumerate(text.split("\n"), start=1)
    found = tuple(_pair(line, f"{path.name}, line {number}") for number, line in lines if line.strip())
    if not found:
        raise ProblemError(f"{path.name} holds no pairs", f"a line as {_ROW}")
    return found


def _pair(line: str, where: str) -> Pair:
    from catena_bench.judges.judging import Pair

    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise ProblemError(f"{where}: not JSON", f"a line as {_ROW}") from None
    if not isinstance(row, dict):
        raise ProblemError(f"{where}: not an object", f"a line as {_ROW}")
    if isinstance(row.get("id"), int) and not isinstance(row["id"], bool):
        row["id"] = str(row["id"])
    values: dict[str, Any] = {"document": row["document"]} if row.get("document") else {}
    values |= {name: row.get(name) for name in ("id", "question", "reference", "a", "b")}
    for name in (name for name, value in values.items() if not isinstance(value, str)):
        raise ProblemError(f"{where}: {name!r} must be a text", f"a line as {_ROW}")
    return Pair(**values)


def _tell_undecided(verdicts: Sequence[Verdict]) -> None:
    """Say on stderr which questions the model did not judge, and why."""
    undecided = [verdict for verdict in verdicts if verdict.by_score == "undecided"]
    for verdict in undecided[:UNDECIDED_SHOWN]:
        why = next((each.failure for each in verdict.rounds if each.failure), "")
        tell(f"not judged: question {verdict.question}: {why}")
    if len(undecided) > UNDECIDED_SHOWN:
        tell(f"… and {len(undecided) - UNDECIDED_SHOWN} more")


def _table(result: PairwiseResult, level: float) -> Table:
    from catena.cli.rendering import table

    made = table("Rule", "a wins", "tie", "b wins", "margin#", "p#", title=f"a against b, with {level:.0%} intervals")
    for name, tally in (("by score", result.by_score), ("by round", result.by_round)):
        shares = map(str, (tally.win, tally.tie, tally.lose))
        made.add_row(name, *shares, f"{100 * tally.margin.value:+.1f}", f"{tally.p:.3f}")
    return made


def _explained(result: PairwiseResult) -> str:
    from catena.cli.rendering import number

    told = [f"{number(result.n, 'question')}"]
    told += [f"{len(result.undecided)} not judged, which count in no rate"] * bool(result.undecided)
    told += [f"{result.same} with the same answer twice, a tie that nobody was asked about"] * bool(result.same)
    told += [f"intervals over {number(result.clusters, 'document')}"] * bool(result.clusters)
    lines = ["; ".join(told) + ". The margin is wins minus losses, in points."]
    if result.position_bias is not None:
        value, interval = result.position_bias.value, result.position_bias.interval
        around = "" if interval is None else f" [{interval[0]:+.2f}, {interval[1]:+.2f}]"
        lines.append(f"Position bias: {value:+.2f}{around} of 10 points for the answer that is shown first.")
    if result.judge_variance is not None:
        lines.append(f"Variance of a score over repeats: {result.judge_variance:.2f}.")
    return "\n".join(lines)
