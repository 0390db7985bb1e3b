"""A graph for a library, built with a bar on stderr; a stop by Ctrl-C leaves the one that was there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from catena.cli.failures import INTERRUPTED, say
from catena.cli.progress import progress

if TYPE_CHECKING:
    from catena.graph.chunk_graph import ChunkGraph, GraphProgress
    from catena.graph.options import GraphOptions
    from catena.library import Library


def built(library: Library, options: GraphOptions | None = None) -> ChunkGraph:
    """Return the graph of a library, newly built.

    Raises:
        Exit: it was stopped.
    """
    with building("what the library held before is kept") as tell:
        return library.build_graph(options, progress=tell)


@contextmanager
def building(kept: str) -> Iterator[Callable[[GraphProgress], None]]:
    """Show how far the building of a graph is; a stop says what is kept.

    Yields:
        What is told of the progress.

    Raises:
        Exit: it was stopped.
    """
    try:
        with progress("building the graph") as show:
            yield lambda step: show(completed=step.done, total=step.total)
    except KeyboardInterrupt:
        say(kept, "the same command again", label="Stopped")
        raise typer.Exit(INTERRUPTED) from None


def present(library: Library) -> ChunkGraph:
    """Return the graph of a library, brought up to date, or built where there is none."""
    return library.graph if library.has_graph else built(library)
