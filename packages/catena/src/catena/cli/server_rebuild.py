"""`catena server rebuild`: a set built anew beside the one that is searched, from files or from what it holds."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catena.cli.console import out, write_json
from catena.cli.failures import SOME_FAILED, ProblemError
from catena.cli.index_options import IndexOptions
from catena.cli.library import named
from catena.cli.option_groups import grouped
from catena.cli.options import AsJson, file_path
from catena.cli.progress import progress
from catena.cli.server_address import Address, Lying, connected, stored
from catena.cli.server_index import Home, IndexRun, Workers, stoppable, tell_run

if TYPE_CHECKING:
    from catena.model import Outcome
    from catena.server.contents import ServerStats


@grouped
def rebuild(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH…",
            help="Files and folders to read anew [build from what the set holds].",
            parser=file_path,
        ),
    ] = None,
    *,
    at: Address,
    lying: Lying,
    workers: Workers = 1,
    home: Home = Path(),
    drop_missing: Annotated[
        bool,
        typer.Option("--drop-missing", help="Put it in place though documents of the older one are not in it."),
    ] = False,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Drop what a rebuild that did not end has built; change nothing else.")
    ] = False,
    options: IndexOptions,
    as_json: AsJson = False,
) -> None:
    """Build a set anew beside the one that is searched, and put it in its place at once: no question goes unanswered.

    With PATHS the files are read, cut and embedded anew, by other options or another model. Without, what the set
    holds is laid out anew, by another --vector-index, --shards or --replicas. What was not said is as it was.

    A run that was stopped goes on with the same command; until it ends, all is as before. What others index meanwhile
    is not in the new one. The graph of the set stays as it is: `catena server graph` builds it anew.
    """
    began = time.monotonic()
    if abandon:
        _abandon(at, as_json=as_json)
        return
    if paths:
        run = IndexRun.of(options, paths=paths, workers=workers, home=home)
        with stoppable(at.name, run.models):
            outcomes, stats, missing = _read_anew(run, at, lying, drop_missing=drop_missing)
        tell_run(at, outcomes, stats, time.monotonic() - began, {"dropped": missing}, as_json=as_json)
        return
    if options != IndexOptions() or workers > 1 or drop_missing:
        what = "without PATHS no file is read: the set is built from what it holds, and all of it"
        raise ProblemError(what, "PATHS, or only --vector-index, --shards and --replicas")
    with stoppable(at.name), stored(at) as store, progress("building the set anew", "documents") as show:
        store.rebuild(**lying.given, progress=lambda done, total: show(completed=done, total=total))
        stats, layout = store.stats(), store.layout
    if as_json:
        write_json({"set": at.name, "seconds": round(time.monotonic() - began, 3), "layout": layout, "holds": stats})
        return
    from catena.cli.views import number

    out().print(
        f"built anew in {time.monotonic() - began:.1f} s, and in place: {number(stats.documents, 'document')}, "
        f"{number(stats.chunks, 'chunk')}; {layout.vector_index}, {number(layout.shards, 'shard')}, "
        f"{layout.replicas} replicas"
    )


def _read_anew(
    run: IndexRun, at: Address, lying: Lying, *, drop_missing: bool
) -> tuple[tuple[Outcome, ...], ServerStats, tuple[str, ...]]:
    """Build the next generation of a set from files, and put it in place.

    Returns:
        How each file ended, the size of the set, and which of its documents are not in it any more.

    Raises:
        ProblemError: there are no files, or documents would be missing; the set is as before.
    """
    from catena.effects import run as driven
    from catena.enrichment.static_embedding import StaticEmbedder
    from catena.server.library import several_kinds
    from catena.server.rebuilding import begin, finish
    from catena.server.store import ServerOptions, ServerStore, calling

    embedder = StaticEmbedder()
    with connected(at) as transport:
        store = ServerStore.open(transport, at.name, create=False)
        several = (*store.layout.several, *several_kinds(run.preparation))
        wanted = replace(store.layout, embedder=embedder.identity, dim=embedder.dim, several=several, **lying.given)
        services = calling(transport, ServerOptions())
        building = driven(begin(wanted, transport.flavour), services)
        with run.opened(at, building.name) as library:
            outcomes = run.into(library, at)
            run.check(outcomes)
            coming = {each.id for each in library.documents()}
        missing = tuple(each.id for each in store.documents() if each.id not in coming)
        if missing and not drop_missing:
            what = (
                f"{len(missing):,} of the set's documents are not in the new one, which was not put in place: "
                f"{named(missing)}; all is as before"
            )
            raise ProblemError(what, "PATHS with their files, --drop-missing without them, or --abandon", SOME_FAILED)
        driven(finish(at.name), services)
        return outcomes, store.stats(), missing


def _abandon(at: Address, *, as_json: bool) -> None:
    from catena.effects import run as driven
    from catena.server.rebuilding import abandon
    from catena.server.store import ServerOptions, calling

    with connected(at) as transport:
        driven(abandon(at.name), calling(transport, ServerOptions()))
    if as_json:
        write_json({"set": at.name, "abandoned": True})
    else:
        out().print("abandoned: no new set is being built; the one that is searched is as before")
