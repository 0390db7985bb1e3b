"""Render values for a terminal: ledgers, hits, passages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from textwrap import shorten
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from catena.cli.console import printable
from catena.cli.failures import split_hint
from catena.model import SEPARATOR, Chunk, Hit, IngestState, Outcome, Provenance, Segment, citation

if TYPE_CHECKING:
    from rich.console import RenderableType

    from catena.retrieval import FoundCell

COLOURS: dict[IngestState, str] = {"indexed": "green", "partial": "yellow", "failed": "bold red", "skipped": "dim"}
SHOWN = 25  # files of a ledger that are listed whole; of a longer one, those that need a look

_WORD = re.compile(r"\w+")
_CLAUSE = re.compile(r"\n+|(?<=[.!?;])\s+")
_MARKS = re.compile(r"^[#>*\-|\s]+|[|*`]+")


def table(*columns: str, title: str | None = None) -> Table:
    """Return an empty table in the house style; a column whose name ends in "#" holds numbers."""
    made = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for name in columns:
        right = name.endswith("#")
        made.add_column(name.rstrip("#"), justify="right" if right else "left", overflow="fold", no_wrap=right)
    return made


def ledger(outcomes: Sequence[Outcome], names: Sequence[str] | None = None) -> RenderableType:
    """Return how each file ended, as a table.

    Args:
        outcomes: of one run, or of a library.
        names: what to call each file; its source by default.
    """
    made = table("State", "File", "Pages#", "Chunks#")
    rows = list(zip(outcomes, names or [outcome.source for outcome in outcomes], strict=True))
    if len(rows) > SHOWN:
        rows = [row for row in rows if needs_a_look(row[0])]
    for outcome, name in rows:
        state = Text(outcome.state, style=COLOURS[outcome.state])
        pages, chunks = (str(number or "") for number in (outcome.pages, outcome.chunks))
        made.add_row(state, _explained(name, split_hint(outcome.reason)[0], outcome.state), pages, chunks)
    return made if made.row_count else Text("")


def needs_a_look(outcome: Outcome) -> bool:
    """Return if something of a file is missing, or is not as it was asked for."""
    return outcome.state in {"failed", "partial"} or (outcome.state == "indexed" and bool(outcome.reason))


def _explained(name: str, reason: str, state: IngestState) -> Text:
    """Return a name with what there is to say of it: below it when something went wrong, else behind it."""
    name = printable(name, one_line=True)
    if not reason:
        return Text(name)
    return Text.assemble(name, "  " if state == "skipped" else "\n", (printable(reason, one_line=True), "dim"))


def counted(outcomes: Sequence[Outcome]) -> str:
    """Return e.g. "3 files: 2 indexed, 1 failed; 31 pages, 129 chunks"."""
    states = Counter(outcome.state for outcome in outcomes)
    by_state = ", ".join(f"{states[state]} {state}" for state in COLOURS if states[state])
    types = types_not_read(outcomes)
    by_state = by_state and f": {by_state}{types and f' (not read: {types})'}"
    pages, chunks = sum(outcome.pages for outcome in outcomes), sum(outcome.chunks for outcome in outcomes)
    return f"{number(len(outcomes), 'file')}{by_state}; {number(pages, 'page')}, {number(chunks, 'chunk')}"


def types_not_read(outcomes: Sequence[Outcome]) -> str:
    """Return e.g. "3 .csv, 1 .zip", the types of the files that were skipped for theirs; "" for none."""
    from catena.library import UNCHANGED

    skipped = (each.source for each in outcomes if each.state == "skipped" and each.reason != UNCHANGED)
    types = Counter(PurePath(source).suffix.lower() or "without a suffix" for source in skipped)
    return ", ".join(f"{count:,} {printable(suffix, one_line=True)}" for suffix, count in types.most_common())


def number(count: int, noun: str) -> str:
    """Return e.g. "1 page", "2,300 pages"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def hits(
    found: Sequence[Hit], query: str, *, bodies: Sequence[str] | None = None, figures: Mapping[str, str] | None = None
) -> RenderableType:
    """Return hits, best first: score, citation, the routes that found each, and what it says.

    Args:
        found: hits of one query.
        query: decides which part of each passage is shown.
        bodies: what to show of each hit instead of its best part.
        figures: where the figure of a hit is, by the id of its chunk.
    """
    shown = bodies or [excerpt(hit.chunk, query) for hit in found]
    rows = []
    for hit, body in zip(found, shown, strict=True):
        lines = cited_lines(hit.chunk).append(f"  found by {routes(hit)}", style="not bold dim")
        lines.append(_figure_line(hit, figures), style="not bold magenta")
        rows.append((hit.score, lines.append(f"\n{printable(body)}\n", style="not bold")))
    return ranked(rows)


def ranked(rows: Iterable[tuple[float, Text]]) -> RenderableType:
    """Return rows of a score and lines, numbered from 1, as a grid."""
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    for rank, (score, lines) in enumerate(rows, start=1):
        grid.add_row(Text(str(rank), style="bold"), f"{score:.3f}", lines)
    return grid


def cited_lines(chunk: Chunk | Segment) -> Text:
    """Return the citation of a chunk or a segment, and below it the name of its file."""
    return Text(cited_as(chunk), style="bold").append(f"\n{source_of(chunk)}", style="not bold cyan")


def cell_lines(found: FoundCell) -> Text:
    """Return the row and the column of a cell, its value and unit, and below them its citation and its file."""
    unit = f" ({found.table.unit})" if found.table.unit else ""
    row, column = (SEPARATOR.join(filter(None, path)) for path in ((*found.cell.row, *found.keys), found.cell.column))
    said = f"{SEPARATOR.join(filter(None, (row, column)))}: {found.cell.text}{unit}"
    cited = f"\n{printable(found.citation, one_line=True)}\n"
    return Text.assemble((printable(said, one_line=True), "bold"), cited, (f"{source_of(found.hit.chunk)}\n", "cyan"))


def _figure_line(hit: Hit, figures: Mapping[str, str] | None) -> str:
    where = (figures or {}).get(hit.chunk.id)
    return "" if where is None else f"\nfigure: {printable(where, one_line=True)}"


def cited_as(chunk: Chunk | Segment) -> str:
    """Return the citation of a chunk or a segment, in one line that a terminal may show."""
    return printable(citation(chunk), one_line=True)


def source_of(chunk: Chunk | Segment) -> str:
    """Return the name of the file it is from, in one line that a terminal may show."""
    return printable(str(chunk.metadata.get("source", chunk.document_id)), one_line=True)


def routes(hit: Hit) -> str:
    """Return e.g. "lexical 1st, dense 4th", best rank first; a route that only scored it has no rank."""
    ranked = sorted(hit.provenance, key=lambda way: (way.rank is None, way.rank or 0, way.route, way.view))
    return ", ".join(f"{_route(way)} #{way.rank}" if way.rank else _route(way) for way in ranked)


def _route(way: Provenance) -> str:
    """Return the name under which a route is asked: by the words of passages is a route of its own."""
    return "passages" if (way.route, way.view) == ("lexical", "passage") else way.route


def excerpt(chunk: Chunk, query: str, width: int = 300) -> str:
    """Return the part of a chunk that shares most words with the query, in one line for a terminal.

    Args:
        chunk: what to show.
        query: decides which part of it.
        width: characters, at most; escapes of control characters come on top.
    """
    from catena.model.figures import in_words
    from catena.structure.views import body_of

    wanted = {word.casefold() for word in _WORD.findall(query) if len(word) > 3}
    clauses = [
        clause
        for part in _CLAUSE.split(in_words(body_of(chunk)))
        if (clause := " ".join(_MARKS.sub(" ", part).split()))
    ]
    shared = [len(wanted & {word.casefold() for word in _WORD.findall(clause)}) for clause in clauses]
    best = max(range(len(clauses)), key=lambda at: (shared[at], -at), default=0)
    text = shorten(" ".join(clauses[best:]), width, placeholder=" …")
    return printable(f"… {text}" if best else text, one_line=True)


def passages(
    found: Sequence[Hit], query: str, cited: Sequence[int] | None = None, *, figures: Mapping[str, str] | None = None
) -> RenderableType:
    """Return numbered passages with their citations, as footnotes of an answer.

    Args:
        found: passages, best first; the first is [1].
        query: decides which part of each passage is shown.
        cited: numbers of those that the answer rests on; the others are dimmed.
        figures: where the figure of a passage is, by the id of its chunk.
    """
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    for place, hit in enumerate(found, start=1):
        style = "dim" if cited is not None and place not in cited else ""
        lines = cited_lines(hit.chunk).append(_figure_line(hit, figures), style="not bold magenta")
        lines.append(f"\n{excerpt(hit.chunk, query, 500)}\n", style="not bold")
        grid.add_row(Text(f"[{place}]", style="bold"), lines, style=style)
    return grid
