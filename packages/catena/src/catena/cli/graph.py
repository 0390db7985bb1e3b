"""`catena graph`: the chunk-interaction graph of a library, built, shown, exported and dropped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from catena.cli.console import err, out, write_json
from catena.cli.failures import ProblemError, check_targets
from catena.cli.graph_building import built
from catena.cli.graph_options import Edges
from catena.cli.graph_train import train
from catena.cli.library import around, stored
from catena.cli.option_groups import grouped
from catena.cli.options import AsJson
from catena.cli.search_graph import check_graph
from catena.cli.segment_views import check_curve
from catena.cli.terminal import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from catena.graph.chunk_graph import ChunkGraph

LibraryFolder: TypeAlias = Annotated[Path, typer.Argument(metavar="LIBRARY", help="The library's folder.")]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="The graph of a library: what joins its passages, and the walks that go over it.",
)


@app.command()
@grouped
def build(library: LibraryFolder, *, edges: Edges, as_json: AsJson = False) -> None:
    """Join the passages of a library: neighbours in the text, by meaning, by shared keywords and names, by mention.

    The graph is kept with the library, and follows it from then on: documents that come, change or go reach it at its
    next use. Building it again with other options replaces it.
    """
    began = time.monotonic()
    with stored(library) as store:
        graph = built(around(store), edges.options())
        seconds = time.monotonic() - began
        _show(library, graph, as_json=as_json, more={"seconds": round(seconds, 3)})


@app.command()
def show(
    library: LibraryFolder,
    *,
    hubs: Annotated[
        int, typer.Option("--hubs", min=0, metavar="N", help="Show so many passages with the most neighbours.")
    ] = 5,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE.png|html", help="Draw how many neighbours there are."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a library's graph is made of: edges and neighbours by kind, and the passages with the most."""
    check_curve(picture)
    with _graph_of(library) as graph:
        if picture is not None:
            from catena.plots.graph_studies import graph_degrees

            graph_degrees(graph, picture)
            err().print(f"written: {printable(str(picture), one_line=True)}", soft_wrap=True)
        _show(library, graph, as_json=as_json, hubs=hubs)


@app.command()
def export(
    library: LibraryFolder,
    file: Annotated[Path, typer.Argument(metavar="FILE.graphml", help="Where to write it.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Write a library's graph as GraphML, for Gephi, yEd, NetworkX and others (extra graph)."""
    if file.suffix.lower() != ".graphml":
        raise ProblemError(f"{file.name} does not end in .graphml", "a file name that does")
    check_targets(file)
    with _graph_of(library) as graph:
        graph.write_graphml(file)
        size = len(graph)
    if as_json:
        write_json({"library": library, "file": file, "nodes": size})
    else:
        out().print(f"written: {printable(str(file), one_line=True)}, {size:,} nodes", soft_wrap=True)


@app.command()
def drop(library: LibraryFolder, as_json: AsJson = False) -> None:
    """Remove the graph of a library; nothing else of it changes."""
    with stored(library) as store:
        opened = around(store)
        had = opened.has_graph
        opened.drop_graph()
    if as_json:
        write_json({"library": library, "dropped": had})
    else:
        out().print("dropped: the library has no graph any more" if had else "there was no graph")


app.command()(train)


@contextmanager
def _graph_of(library: Path) -> Iterator[ChunkGraph]:
    with stored(library) as store:
        opened = around(store)
        check_graph(opened, library)
        yield opened.graph


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of edge: how many there are, and how many neighbours nodes have by it."""

    kind: str
    edges: int
    mean: float
    most: int
    without: int


def _kinds(graph: ChunkGraph) -> list[_Kind]:
    """Return what there is of each kind; an edge of two directions counts once, a mention at both of its ends."""
    import numpy as np

    from catena.model.neighbourhood import MENTION, MENTIONED
    from catena.plots.graph_view import in_order

    made = []
    for kind in in_order(kind for kind in graph.kinds if kind != MENTIONED):
        links = graph.links(kind)
        degrees, edges = np.diff(links.starts), len(links.targets) // 2
        if kind == MENTION:
            degrees, edges = degrees + np.diff(graph.links(MENTIONED).starts), len(links.targets)
        made.append(_kind(kind, edges, degrees))
    degrees = graph.degrees()
    return [*made, _kind("all kinds", int(degrees.sum()) // 2, degrees)]


def _kind(name: str, edges: int, degrees: NDArray[np.integer[Any]]) -> _Kind:
    if not len(degrees):
        return _Kind(name, 0, 0.0, 0, 0)
    return _Kind(name, edges, float(degrees.mean()), int(degrees.max()), int((degrees == 0).sum()))


def _show(
    library: Path, graph: ChunkGraph, *, as_json: bool, hubs: int = 0, more: dict[str, Any] | None = None
) -> None:
    import numpy as np

    from catena.model.places import citation

    degrees = graph.degrees()
    first = np.lexsort((np.arange(len(degrees)), -degrees))[:hubs].tolist()
    chunks = [(graph.chunk(graph.ids[place]), int(degrees[place])) for place in first]
    kinds = _kinds(graph)
    if as_json:
        told = [{"chunk": chunk.id, "citation": citation(chunk), "neighbours": count} for chunk, count in chunks]
        write_json({"library": library, "nodes": len(graph), "kinds": kinds, "hubs": told, **(more or {})})
        return
    from catena.cli.views import cited_as, number, table

    listed = table("Kind", "Edges#", "Neighbours#", "Most#", "Without#")
    for each in kinds:
        listed.add_row(each.kind, f"{each.edges:,}", f"{each.mean:.1f}", f"{each.most:,}", f"{each.without:,}")
    out().print(listed)
    if chunks:
        ranked = table("Neighbours#", "Passage")
        for chunk, count in chunks:
            ranked.add_row(f"{count:,}", cited_as(chunk))
        out().print(ranked)
    took = f" in {more['seconds']:.1f} s" if more else ""
    where = printable(str(library), one_line=True)
    out().print(f"{number(len(graph), 'node')} joined{took}; {where}", soft_wrap=True)
