"""A graph for a library, built with a bar on stderr; a stop by Ctrl-C leaves the one that was there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from catena.cli.console import err
from catena.cli.failures import INTERRUPTED, say

if TYPE_CHECKING:
    from catena.graph.chunk_graph import ChunkGraph, GraphProgress
    from catena.graph.options import GraphOptions
    from catena.library import Library


def built(library: Library, options: GraphOptions | None = None) -> ChunkGraph:
    """Return the graph of a library, newly built.

    Raises:
        Exit: it was stopped.
    """
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = err()
    try:
        with Progress(
            TextColumn("building the graph"), BarColumn(28), TaskProgressColumn(), TimeElapsedColumn(),
            console=console, disable=not console.is_terminal,
        ) as bar:  # fmt: skip
            task = bar.add_task("", total=None)

            def tell(step: GraphProgress) -> None:
                bar.update(task, completed=step.done, total=step.total)

            return library.build_graph(options, progress=tell)
    except KeyboardInterrupt:
        say("what the library held before is kept", "the same command again", label="Stopped")
        raise typer.Exit(INTERRUPTED) from None


def present(library: Library) -> ChunkGraph:
    """Return the graph of a library, brought up to date, or built where there is none."""
    return library.graph if library.has_graph else built(library)
