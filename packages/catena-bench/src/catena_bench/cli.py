"""`catena-bench NAME --data DIR --json FILE`: runs one benchmark and writes one flat JSON object."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from catena.model import CatenaError
from catena_bench import (
    ablation,
    calibration,
    degradation,
    entity_matching,
    fidelity,
    fusion_speed,
    graph_cli,
    graph_speed,
    headings,
    segment_speed,
    segments,
    segments_oracle,
    server_parity,
    server_speed,
    server_views,
    servers_cli,
    similar_docs,
    table_views,
    tables_cli,
    views,
    views_picture,
)
from catena_bench.pictures import PICTURES
from catena_bench.sizes import sizes_of

Benchmark = Callable[..., dict[str, float]]

BENCHMARKS: dict[str, Benchmark] = {
    "similar-docs": similar_docs.run,
    "ablation": ablation.run,
    "degradation": degradation.run,
    "fusion-speed": fusion_speed.run,
    "graph-speed": graph_speed.run,
    "headings": headings.run,
    "entity-matching": entity_matching.run,
    "table-views": table_views.run,
    "fidelity": fidelity.run,
    "segments": segments.run,
    "calibration": calibration.run,
    "segments-oracle": segments_oracle.run,
    "segment-speed": segment_speed.run,
    "server-parity": server_parity.run,
    "server-speed": server_speed.run,
    "server-views": server_views.run,
    "views": views.run,
}
WITHOUT_DATA = frozenset(
    {
        "graph-speed",
        "headings",
        "fusion-speed",
        "entity-matching",
        "table-views",
        "fidelity",
        "calibration",
        "segment-speed",
        "server-parity",
        "server-speed",
        "server-views",
    }
)  # generated data will do
SIZES = {  # what --size can set, by benchmark
    "similar-docs": ("questions", "depth"),
    "ablation": ("questions", "depth"),
    "degradation": ("questions", "seed"),
    "fusion-speed": ("chunks", "questions"),
    "graph-speed": ("chunks", "seed"),
    "entity-matching": ("terms", "chunks"),
    "table-views": ("questions", "most_tables"),
    "segments": ("questions", "sweep"),
    "calibration": ("depth", "seed"),
    "segment-speed": ("chunks", "repeats", "seed"),
    "server-parity": ("questions", "depth", "nodes"),
    "server-speed": ("chunks", "nodes", "shards", "questions", "seed"),
    "server-views": ("chunks", "questions", "seed"),
    "views": ("questions",),
}
WITH_MODEL = frozenset({"table-views"})  # they take a sentence-transformers model
WITH_COLLECTIONS = frozenset({"segments"})  # they take a folder of several collections

Name = Enum("Name", {name.replace("-", "_"): name for name in BENCHMARKS}, type=str)  # type: ignore[misc]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def bench(
    name: Annotated[Name, typer.Argument(help="Which benchmark.")],
    *,
    data: Annotated[Path | None, typer.Option(help="A directory of the benchmark's layout.")] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=NUMBER: " + "; ".join(f"{of} has {' and '.join(names)}" for of, names in SIZES.items()) + "."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Name or path of a sentence-transformers model.")] = None,
    collection: Annotated[
        list[str] | None, typer.Option(help="Which of the collections below --data; all of them by default.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where to write it; stdout otherwise.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A .png or .html to draw the figures into.")] = None,
) -> None:
    """Run a benchmark: figures as JSON to a file or stdout, progress and a table to stderr.

    `catena-bench tables --help` is about the tables of MC-indexing on documents and with a model of one's own,
    `catena-bench graph --help` about questions of several hops, `catena-bench servers --help` about real search
    servers.
    """
    console = Console(stderr=True)
    benchmark = partial(BENCHMARKS[name.value], tell=lambda message: console.print(f"{name.value}: {message}"))
    try:
        if data is None and name.value not in WITHOUT_DATA:
            raise typer.BadParameter("this benchmark needs --data DIR")
        _only(WITH_MODEL, name.value, "--model", model, "takes a model")
        _only(WITH_COLLECTIONS, name.value, "--collection", collection, "takes collections")
        _only(PICTURES, name.value, "--plot", plot, "are drawn")
        for option, target in (("--json", json_file), ("--plot", plot)):
            if target is not None and not target.parent.is_dir():
                raise typer.BadParameter(f"the folder of {target} is not there", param_hint=option)
        chosen: dict[str, Any] = {} if model is None else {"model": model}
        chosen |= {"collection": collection} if collection else {}
        figures = benchmark(data, **chosen, **sizes_of(size or [], SIZES.get(name.value, ())))
    except CatenaError as error:
        console.print(f"error: {error}", markup=False)
        raise typer.Exit(2) from None
    console.print(TABLES.get(name.value, table)(name.value, figures))
    text = json.dumps(figures, indent=1, sort_keys=True) + "\n"
    if json_file is None:
        sys.stdout.write(text)
    else:
        json_file.write_text(text, encoding="utf-8")
    if plot is not None:
        try:
            PICTURES[name.value](figures, plot)
        except CatenaError as error:
            console.print(f"error: {error}", markup=False)
            raise typer.Exit(2) from None


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


TABLES = {"views": views_picture.table}  # of those with too many figures to print
OWN_OPTIONS = {"graph": graph_cli.app, "servers": servers_cli.app, "tables": tables_cli.app}


def main() -> None:
    """Run the command line; some names have options of their own."""
    of_name = OWN_OPTIONS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if of_name is not None:
        of_name(sys.argv[2:], prog_name=f"catena-bench {sys.argv[1]}")
    app()
