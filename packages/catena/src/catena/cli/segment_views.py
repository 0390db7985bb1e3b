"""How segments look in a terminal and as JSON: value, citation, the document's header, the text; and why these."""

from __future__ import annotations

import sys
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catena.cli.console import err, out, write_text
from catena.cli.failures import SOME_FAILED, ProblemError, check_targets
from catena.cli.terminal import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from catena.segments import Explanation, Extraction, SegmentHit
    from catena.segments.explaining import Weighed

OTHERS_SHOWN = 20
"""So many chunks that are in no segment are explained in a terminal: a search weighs some hundred."""


def check_curve(path: Path | None) -> None:
    """Refuse a picture that could not be written in the end.

    Raises:
        ProblemError: its suffix is neither .png nor .html, or its folder is not there.
    """
    if path is not None and path.suffix.lower() not in (".png", ".html"):
        raise ProblemError(f"{path.name} is neither .png nor .html", "a file name that ends in one of them")
    check_targets(path)


def no_segment(found: Extraction) -> ProblemError:
    """Return that no segment was found, and whether that is for want of hits or of worth."""
    if not found.considered.documents:
        hint = "other words, or `catena status` to see what is there"
        return ProblemError("nothing was found", hint, SOME_FAILED)
    budget = found.params.overall_max_tokens
    room = f" and fits into {budget:,} tokens" if budget is not None else ""
    what = f"no segment is worth at least {found.params.minimum_value:g}{room}"
    hint = "--explain for what each chunk is worth; a lower --minimum or --penalty, or a higher --budget-tokens"
    return ProblemError(what, hint, SOME_FAILED)


def segments_as_json(question: str, found: Extraction, *, explained: bool = False) -> dict[str, Any]:
    """Return segments with all that is known of each; positions are 0-based, pages and lines count from 1."""
    from catena.segments import explain

    return {
        "question": question,
        "queries": found.asked,
        "scale": "value",
        "value": found.value,
        "params": found.params,
        "degraded": found.degraded,
        "unknown": found.unknown,
        "segments": [_as_data(rank, hit) for rank, hit in enumerate(found.segments, start=1)],
        **({"explanation": explain(found).as_dict()} if explained else {}),
    }


def _as_data(rank: int, hit: SegmentHit) -> dict[str, Any]:
    from catena.model.places import citation
    from catena.structure.context_header import segment_header

    return {
        "rank": rank,
        "value": hit.value,
        "citation": citation(hit.segment),
        "header": segment_header(hit.segment),
        "queries": hit.queries,
        "segment": hit.segment,
    }


def show_segments(found: Extraction, *, explained: bool = False) -> None:
    """Write segments to stdout, and below them, where asked for, what every chunk is worth."""
    from catena.segments import explain

    if len(found.asked) > 1:
        for number, query in enumerate(found.asked, start=1):
            out().print(printable(f"query {number}: {query}", one_line=True), style="dim")
        out().print()
    if found.segments:
        out().print(_listed(found))
    if explained:
        write_text(_explained(explain(found)))


def _explained(explanation: Explanation) -> str:
    """Return the table of what chunks are worth, those of segments and the best of the others, in their order."""
    others = [place for place, each in enumerate(explanation.chunks) if each.segment is None]
    hidden = set(sorted(others, key=lambda place: _standing(explanation.chunks[place]))[OTHERS_SHOWN:])
    chunks = (
        replace(each, document_id=printable(each.document_id, one_line=True), why=printable(each.why, one_line=True))
        for place, each in enumerate(explanation.chunks)
        if place not in hidden
    )
    table = replace(explanation, chunks=tuple(chunks)).table()
    return f"{table}\n… and {len(hidden):,} chunks that are worth no more; --json has all" if hidden else table


def _standing(chunk: Weighed) -> tuple[float, int]:
    """Return what a chunk is sorted by: what it is worth to the query that likes it best, then its best rank."""
    values = [worth.value for worth in chunk.worths if worth.value is not None]
    ranks = [worth.rank for worth in chunk.worths if worth.rank is not None]
    return -max(values, default=-inf), min(ranks, default=sys.maxsize)


def _listed(found: Extraction) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    from catena.cli.views import cited_as, source_of
    from catena.structure.context_header import segment_header

    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    for rank, hit in enumerate(found.segments, start=1):
        lines = Text(cited_as(hit.segment), style="bold")
        lines.append(f"\n{source_of(hit.segment)}", style="not bold cyan")
        if len(found.asked) > 1:
            lines.append(f"  for query {', '.join(str(query + 1) for query in hit.queries)}", style="not bold dim")
        if header := segment_header(hit.segment):
            lines.append(f"\n{printable(header, one_line=True)}", style="not bold dim")
        lines.append(f"\n{printable(hit.segment.text.strip())}\n", style="not bold")
        grid.add_row(Text(str(rank), style="bold"), f"{hit.value:.3f}", lines)
    return grid


def draw_curve(found: Extraction, path: Path) -> None:
    """Draw what the chunks are worth, and the segments, into a .png or .html."""
    from catena.plots.segments import relevance_curve

    relevance_curve(found, path, queries=found.asked)
    err().print(f"written: {printable(str(path), one_line=True)}", soft_wrap=True)
