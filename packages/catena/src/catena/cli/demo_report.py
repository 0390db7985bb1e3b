"""Show the findings of the demo in a terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from catena.cli.console import printable
from catena.cli.demo import BOTH, NOWHERE, showcase
from catena.cli.rendering import cited_as, counted, excerpt, ledger, number, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from catena.cli.demo import Comparison, DemoQuestion, DemoRun, Indices, Way
    from catena.evaluation.answers import MeanScore
    from catena.model import Hit, Ranking

TOP = 3  # passages shown of each ranking
BAR = 12  # columns of a full bar


def opening() -> RenderableType:
    """Return what the demo is about to do."""
    return Text.assemble(
        ("Catena demo\n", "bold"),
        "Two manuals that differ in a few numbers, and a report about both. Nothing below is recorded:\n"
        "they are parsed, indexed and searched here and now, with no key and no network.\n",
    )


def report(run: DemoRun, library: Path | None) -> Iterator[RenderableType]:
    """Yield the parts of the report: ledger, showcase, all questions, names, what to try next."""
    yield _heading("1  Three PDFs become a library")
    yield ledger(run.outcomes, [PurePath(outcome.document_id).name for outcome in run.outcomes])
    size = f"{number(run.holds.sections, 'section')}, {number(run.holds.chunks, 'chunk')}"
    yield Text(f"{counted(run.outcomes)}, in {run.index_seconds:.1f} s; the library holds {size}.\n")
    yield _heading("2  One question, asked both ways")
    shown = showcase(run.comparisons)
    if shown is None:
        yield Text("In this run there is no question that plain vector search gets wrong and Catena right.\n")
    else:
        yield from _side_by_side(shown)
    if run.ways:
        yield _heading("3  The same question, asked in five ways")
        yield five_ways_shown(run.ways)
    yield _heading(f"4  All {len(run.comparisons)} questions")
    yield _all_questions(run.comparisons)
    yield _summary(run)
    yield _heading("5  Two products, and one that does not exist")
    yield _names(run)
    if run.report is not None:
        yield _heading("6  See it")
        yield _page(run.report)
    yield _heading("7  Your own files")
    yield _next(library)


def _heading(text: str) -> Text:
    return Text(text, style="bold cyan")


def _side_by_side(shown: Comparison) -> Iterator[RenderableType]:
    question = shown.question
    asked = _labelled()
    asked.add_row(Text("question", style="dim"), Text(question.text, style="bold"))
    asked.add_row(Text("answer", style="dim"), Text(question.answer))
    asked.add_row(Text("why hard", style="dim"), Text(question.why_hard, style="dim"))
    yield asked
    both = Table(box=box.ROUNDED, expand=True, show_lines=True, padding=(0, 1))
    both.add_column("", justify="right")
    both.add_column(_title("Plain vector search", shown.plain_rank), ratio=1)
    both.add_column(_title("Catena", shown.catena_rank), ratio=1)
    for rank in range(TOP):
        both.add_row(str(rank + 1), *(_cell(question, ranking, rank) for ranking in (shown.plain, shown.catena)))
    yield both
    cited = _labelled()
    cited.add_row(
        Text("Catena cites", style="bold"), Text(f"{cited_as(shown.catena.hits[0].chunk)}\n", style="green")
    )
    yield cited


def _labelled() -> Table:
    """Return an empty grid of short labels and what they stand for."""
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    return grid


def _title(name: str, rank: int | None) -> Text:
    return Text.assemble((name, "bold"), (f"   right passage: {_place(rank)}", "not bold dim"))


def _place(rank: int | None) -> str:
    return "not found" if rank is None else f"rank {rank}"


def _cell(question: DemoQuestion, ranking: Ranking, rank: int) -> Text:
    if rank >= len(ranking.hits):
        return Text("")
    hit: Hit = ranking.hits[rank]
    right = any(evidence.is_in(hit.chunk) for evidence in question.evidence)
    mark, style = (_symbol("✓", "+"), "bold green") if right else (_symbol("✗", "-"), "red")
    name, heading = PurePath(hit.chunk.document_id).name, hit.chunk.path[-1] if hit.chunk.path else ""
    return Text.assemble(
        (f"{mark} {printable(name, one_line=True)}", style),
        f"\n{printable(heading, one_line=True)}",
        (f", page {hit.chunk.pages[0]}" if hit.chunk.pages else "", "dim"),
        (f"\n{excerpt(hit.chunk, question.text, 130)}", "dim"),
    )


def five_ways_shown(ways: Sequence[Way]) -> RenderableType:
    """Return a row for each way: the rank of the right passage, the tokens read until then, the time it took."""
    made = table("", "Right#", "Tokens#", "ms#", "What stands first")
    for way in ways:
        mark, style = (_symbol("✓", "+"), "green") if way.is_right else (_symbol("✗", "-"), "red")
        first = "nothing" if way.first is None else cited_as(way.first)
        made.add_row(
            Text.assemble((way.name, "bold"), (f"\n{way.unit}", "dim")),
            Text(_symbol("—", "-") if way.rank is None else str(way.rank)),
            Text(f"{way.tokens:,}"),
            Text(f"{way.milliseconds:.0f}"),
            Text(f"{mark} {first}", style=style),
        )
    told = Text(
        "Right: the rank at which all that answers has been read; tokens: what is read until then.\n"
        "One question: it shows what each returns, not which is better.\n",
        style="dim",
    )
    return Group(made, told)


def _page(report: Path) -> RenderableType:
    """Return where the report is, never broken within the path, and what it shows."""
    path = Text(f"  {printable(str(report), one_line=True)}", style="green", no_wrap=True, overflow="ignore")
    told = "One HTML page without a network: the tree of documents, the ranking and its routes, what each chunk is "
    return Group(path, Padding(Text(f"{told}worth, the graph and its chains."), (0, 0, 1, 2)))


def _all_questions(comparisons: Sequence[Comparison]) -> RenderableType:
    made = table("Rank of the right passage", "Plain#", "", "Catena#", "")
    for each in comparisons:
        made.add_row(
            Text(each.question.text),
            *_rank(each.plain_rank, len(each.question.evidence), "red"),
            *_rank(each.catena_rank, len(each.question.evidence), "green"),
        )
    return made


def _rank(rank: int | None, best: int, colour: str) -> tuple[Text, Text]:
    """Return a rank and a bar of length best/rank: full when the right passages come first."""
    if rank is None:
        return Text(_symbol("—", "-")), Text("")
    full = _symbol("█", "#")
    return Text(str(rank)), Text(full * max(1, round(BAR * best / rank)), style=colour)


def _summary(run: DemoRun) -> Text:
    asked = run.comparisons
    total = len(asked)

    def within(ranks: Sequence[tuple[int | None, int]], more: int) -> int:
        return sum(rank is not None and rank <= best + more for rank, best in ranks)

    plain = [(each.plain_rank, len(each.question.evidence)) for each in asked]
    catena = [(each.catena_rank, len(each.question.evidence)) for each in asked]
    return Text.assemble(
        "Right passage first: plain ", (f"{within(plain, 0)} of {total}", "red"), ", Catena ",
        (f"{within(catena, 0)} of {total}", "bold green"), ". Among the first three: plain ",
        (f"{within(plain, 2)}", "red"), ", Catena ", (f"{within(catena, 2)}", "bold green"),
        f".\nBoth rank the same {number(run.holds.chunks, 'chunk')} with the same embedding "
        f"({run.holds.embedder.partition(':')[0]}); "
        "plain compares the chunks as they are, Catena adds headings, words and critical terms.\n"
        f"{_index(run.indices)}"
        f"{2 * total} searches in {run.ask_seconds:.1f} s. {total} questions show how it works; "
        "they prove nothing about your files.\n",
    )  # fmt: skip


def _index(indices: Indices | None) -> str:
    """Return the mean Log-Rank Indices, and what so few questions say of their difference."""
    if indices is None:
        return ""
    found = indices.difference
    sure = "can" if found.p < 1 - found.level else "cannot"
    return (
        f"Mean Log-Rank Index: plain {_interval(indices.plain)}, Catena {_interval(indices.catena)}; "
        f"paired difference {found.difference:+.3f}, p {found.p:.3f}: {found.n} questions {sure} tell them apart.\n"
    )


def _interval(score: MeanScore) -> str:
    return f"{score.value:.3f}" + ("" if score.interval is None else " [{:.3f}, {:.3f}]".format(*score.interval))


def _names(run: DemoRun) -> RenderableType:
    """Return what is found for a question about two products, and for one about none."""
    asked = _labelled()
    asked.add_row(Text("question", style="dim"), Text(BOTH, style="bold"))
    for place, hit in enumerate(run.both.hits, start=1):
        found = Text.assemble((cited_as(hit.chunk), "green"), (f"\n{excerpt(hit.chunk, BOTH, 130)}", "dim"))
        asked.add_row(Text(f"passage {place}", style="dim"), found)
    asked.add_row("", "")
    asked.add_row(Text("question", style="dim"), Text(NOWHERE, style="bold"))
    told = "; ".join(map(str, run.nowhere.unknown)) or "every name in it is known"
    answer = f"{number(len(run.nowhere.hits), 'passage')}: {told}"
    asked.add_row(Text("answer", style="dim"), Text(f"{printable(answer, one_line=True)}\n"))
    return asked


def _next(library: Path | None) -> RenderableType:
    """Return commands to try, none of them broken: they are copied."""
    grid = Table.grid(padding=(0, 2), pad_edge=True)
    grid.add_column(no_wrap=True)
    grid.add_column(style="dim")
    catena = own_command()
    for words, told in (
        ('ask report.pdf "What does it say about …?"', "passages with citations, one command"),
        ("index FOLDER --library my-library", "every PDF, HTML, Markdown, LaTeX and text file"),
        ('search "…" --library my-library --json', "ranked passages for programs"),
        ("parse report.pdf --out report.md", "the Markdown that is indexed"),
    ):
        grid.add_row(Text(f"{catena} {words}"), told)
    kept = "" if library is None else f'  {catena} search "your question" --library {library}'
    asked = [Text(printable(kept, one_line=True), no_wrap=True, overflow="ignore")] if kept else []
    return Group(*asked, grid, Text(""))


def own_command() -> str:
    """Return how a shell finds the command that runs: by its name, or by its path where only this process has it.

    nox puts the folder of an environment of its own on the PATH, for as long as its session runs.
    """
    started = Path(sys.argv[0])
    if started.stem != "catena" or (shutil.which("catena") and "NOX_CURRENT_SESSION" not in os.environ):
        return "catena"
    try:
        return shlex.quote(str(started.relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(started))


def _symbol(nice: str, simple: str) -> str:
    """Return a symbol that the terminal can show."""
    try:
        nice.encode(sys.stdout.encoding or "ascii")
    except UnicodeError:
        return simple
    return nice
