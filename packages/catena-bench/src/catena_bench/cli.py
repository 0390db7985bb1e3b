"""Run one benchmark and write one flat JSON object: `catena-bench NAME --data DIR --json FILE`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from enum import Enum
from inspect import Parameter, signature
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from catena_bench import (
    ablation,
    calibration,
    degradation,
    everyday,
    fidelity,
    figures_reading,
    graph,
    graph_speed,
    headings,
    search_speed,
    segment_speed,
    segments,
    segments_oracle,
    server_speed,
    server_views,
    similar_docs,
    table_views,
    tables,
    tables_reading,
    views,
)
from catena_bench.options import JsonFile, errors_told, sizes_of, teller, write_figures
from catena_bench.pictures import PICTURES, everyday_table, views_table
from catena_bench.servers import elasticsearch, opensearch

Benchmark = Callable[..., dict[str, float]]

BENCHMARKS: dict[str, Benchmark] = {
    "everyday": everyday.run,
    "filings": everyday.filings,
    "similar-docs": similar_docs.run,
    "ablation": ablation.run,
    "degradation": degradation.run,
    "fusion-speed": search_speed.fusion,
    "graph-speed": graph_speed.run,
    "headings": headings.run,
    "figures-reading": figures_reading.run,
    "entity-matching": search_speed.finding,
    "table-views": table_views.run,
    "tables-reading": tables_reading.run,
    "fidelity": fidelity.run,
    "segments": segments.run,
    "calibration": calibration.run,
    "segments-oracle": segments_oracle.run,
    "segment-speed": segment_speed.run,
    "server-parity": server_speed.parity,
    "server-speed": server_speed.run,
    "server-views": server_views.run,
    "views": views.run,
}
PARAMETERS = {name: signature(run).parameters for name, run in BENCHMARKS.items()}
SIZES = {  # what --size can set, by benchmark
    name: tuple(key for key, each in of.items() if str(each.annotation).partition(" | ")[0] == "int")
    for name, of in PARAMETERS.items()
}

_TOLD = "; ".join(f"{of} has {' and '.join(names)}" for of, names in SIZES.items() if names)

Name = Enum("Name", {name.replace("-", "_"): name for name in BENCHMARKS}, type=str)  # type: ignore[misc]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


servers_app = typer.Typer(add_completion=False, rich_markup_mode=None)
TABLES = {"views": views_table, "everyday": everyday_table}  # of those with too many figures to print
OWN_OPTIONS = {"graph": graph.app, "servers": servers_app, "tables": tables.app}


@app.command()
def bench(
    name: Annotated[Name, typer.Argument(help="Which benchmark.")],
    *,
    data: Annotated[Path | None, typer.Option(help="A directory of the benchmark's layout.")] = None,
    size: Annotated[list[str] | None, typer.Option(help=f"NAME=NUMBER: {_TOLD}.")] = None,
    model: Annotated[str | None, typer.Option(help="Name or path of a sentence-transformers model.")] = None,
    collection: Annotated[
        list[str] | None, typer.Option(help="Which of the collections below --data; all of them by default.")
    ] = None,
    minilm: Annotated[bool, typer.Option("--minilm", help="Ask what needs all-MiniLM-L6-v2, too.")] = False,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, typer.Option(help="A .png or .html to draw the figures into.")] = None,
) -> None:
    """Run a benchmark: figures as JSON to a file or stdout, progress and a table to stderr.

    `catena-bench tables --help` is about the tables of MC-indexing on documents and with a model of one's own,
    `catena-bench graph --help` about questions of several hops, `catena-bench servers --help` about real search
    servers.
    """
    console = Console(stderr=True)
    of = PARAMETERS[name.value]
    with errors_told(console):
        if data is None and of["data"].default is Parameter.empty:
            raise typer.BadParameter("this benchmark needs --data DIR")
        chosen: dict[str, Any] = {}
        for option, value, what in (
            ("model", model, "takes a model"),
            ("collection", collection, "takes collections"),
            ("minilm", minilm, "ask it"),
        ):
            takers = [each for each, known in PARAMETERS.items() if option in known]
            _only(takers, name.value, f"--{option}", value, what)
            chosen |= {option: value} if value else {}
        _only(PICTURES, name.value, "--plot", plot, "are drawn")
        for option, target in (("--json", json_file), ("--plot", plot)):
            if target is not None and not target.parent.is_dir():
                raise typer.BadParameter(f"the folder of {target} is not there", param_hint=option)
        chosen |= sizes_of(size or [], SIZES[name.value])
        figures = BENCHMARKS[name.value](data, **chosen, tell=teller(name.value, console))
    console.print(TABLES.get(name.value, table)(name.value, figures))
    write_figures(figures, json_file)
    if plot is not None:
        with errors_told(console):
            PICTURES[name.value](figures, plot)


def _only(allowed: Collection[str], name: str, option: str, given: object, what: str) -> None:
    """Refuse an option that this benchmark does not take."""
    if given and name not in allowed:
        raise typer.BadParameter(f"only {', '.join(sorted(allowed))} {what}", param_hint=option)


def table(title: str, figures: dict[str, float]) -> Table:
    """Return the figures as a table, with a bar for each share of 1."""
    shown = Table("figure", "value", "", title=title)
    for key, value in figures.items():
        share = "." in key and 0 <= value <= 1
        shown.add_row(key, f"{value:.4f}" if share else f"{value:,.4g}", "█" * round(30 * value) if share else "")
    return shown


@servers_app.callback()
def servers() -> None:
    """Real search servers on this machine: fetched with Maven from their makers, never part of this package."""


@servers_app.command()
def start(
    *,
    nodes: Annotated[int, typer.Option(min=1, help="How many, each a process.")] = 1,
    heap: Annotated[str, typer.Option(help="Memory of each node, as Java writes it.")] = "512m",
    of_opensearch: Annotated[bool, typer.Option("--opensearch", help="OpenSearch, not Elasticsearch.")] = False,
    version: Annotated[str | None, typer.Option(help="Another version than the one that is pinned.")] = None,
) -> None:
    """Run a search server until Ctrl-C: addresses to stdout, the rest to stderr; what it stored is gone afterwards.

    The server is fetched on first use (about 50 MB) into the user's cache, or the folder that CATENA_SERVERS names.
    Elasticsearch comes under its makers' licences (AGPL, SSPL or Elastic's own), OpenSearch under Apache 2.0.
    """
    console = Console(stderr=True)
    run = opensearch if of_opensearch else elasticsearch
    try:
        with errors_told(console), run(nodes=nodes, heap=heap, version=version) as cluster:
            typer.echo("\n".join(cluster.urls))
            told = f"{cluster.flavour} {cluster.version} started in {cluster.started_in:.0f} s; Ctrl-C ends it"
            console.print(told, markup=False)
            Event().wait()
    except KeyboardInterrupt:
        console.print("stopped")


def main() -> None:
    """Run the command line; some names have options of their own."""
    of_name = OWN_OPTIONS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if of_name is not None:
        of_name(sys.argv[2:], prog_name=f"catena-bench {sys.argv[1]}")
    app()
