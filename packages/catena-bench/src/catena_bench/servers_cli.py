"""The command `catena-bench servers`: a real search server to try things on, for as long as the command runs."""

from __future__ import annotations

from threading import Event
from typing import Annotated

import typer
from rich.console import Console

from catena.model import CatenaError
from catena_bench.servers import elasticsearch, opensearch

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback()
def servers() -> None:
    """Real search servers on this machine: fetched with Maven from their makers, never part of this package."""


@app.command()
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
        with run(nodes=nodes, heap=heap, version=version) as cluster:
            for url in cluster.urls:
                typer.echo(url)
            console.print(
                f"{cluster.flavour} {cluster.version} started in {cluster.started_in:.0f} s; Ctrl-C ends it",
                markup=False,
            )
            Event().wait()
    except KeyboardInterrupt:
        console.print("stopped")
    except CatenaError as error:
        console.print(f"error: {error}", markup=False)
        raise typer.Exit(2) from None
