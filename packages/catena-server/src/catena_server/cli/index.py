"""`catena server index` and `rebuild`: fill an index set from files, or build it anew; options of its address."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from catena import Outcome, Services
from catena import run as driven
from catena.cli.console import out, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, named, no_files, stopped_with, unread
from catena.cli.index_options import IndexOptions, asked_models, journal_of
from catena.cli.library import advise, indexed, progress_bar, show_outcomes
from catena.cli.options import AsJson, FilePaths, file_path, flag, grouped, option
from catena.cli.progress import progress
from catena_server.cli.plan import VectorIndexName

if TYPE_CHECKING:
    from catena.library import Preparation
    from catena_server.calls import Transport
    from catena_server.contents import ServerStats
    from catena_server.index_layout import IndexLayout
    from catena_server.library import ServerLibrary
    from catena_server.store import ServerStore


KEY = "CATENA_SERVER_API_KEY"  # in the environment only: a command line can be read by other users of the machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of a set; the key of the server is in the environment."""

    url: Annotated[
        list[str], option("URL", "Of a node; may be repeated for those of a cluster.", envvar="CATENA_SERVER_URL")
    ]
    name: Annotated[str, option("NAME", "Of the index set there.", "--name", "-n")] = "catena"
    opensearch: Annotated[bool, flag("--opensearch", "It is OpenSearch, not Elasticsearch (extra opensearch).")] = (
        False
    )
    ca_certs: Annotated[
        Path | None, option("FILE", "Trust the authorities in this PEM file, no others.", exists=True)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexShape:
    """Options of a set that is made; None for those not given."""

    vector_index: Annotated[
        VectorIndexName | None, typer.Option("--vector-index", help="How vectors are kept [int8_hnsw].")
    ] = None
    shards: Annotated[int | None, option("N", "Of the chunks [1].", min=1)] = None
    replicas: Annotated[int | None, option("N", "Copies of each shard [0].", min=0)] = None

    @property
    def given(self) -> dict[str, Any]:
        """Return the options that were given, as `IndexLayout` names them."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return {name: str(value) if name == "vector_index" else value for name, value in given.items()}

    def check(self, layout: IndexLayout) -> None:
        """Refuse what a set that is there cannot follow.

        Raises:
            ProblemError: it lies differently.
        """
        for name, value in self.given.items():
            if (lies := getattr(layout, name)) != value:
                option = f"--{name.replace('_', '-')}"
                what = f"set {layout.name} is there, and its {option[2:]} is {lies}; nothing was changed"
                raise ProblemError(what, f"the same without {option}, or catena server rebuild {option} {value}")


def transport_to(at: Address) -> Transport:
    """Return a client of the server; other processes can call this, too.

    Raises:
        MissingExtraError: the server's client is not installed.
        ParameterError: an address or the certificates cannot be used.
    """
    key = os.environ.get(KEY) or None
    ca_certs = None if at.ca_certs is None else str(at.ca_certs)
    if at.opensearch:
        from catena_server.opensearch import OpenSearchTransport

        return OpenSearchTransport.connect(at.url, bearer_auth=key, ca_certs=ca_certs)
    from catena_server.elasticsearch import ElasticsearchTransport

    return ElasticsearchTransport.connect(at.url, api_key=key, ca_certs=ca_certs)


@contextmanager
def connected(at: Address) -> Iterator[Transport]:
    """Open a client of the server, and close it."""
    transport = transport_to(at)
    try:
        yield transport
    finally:
        if callable(close := getattr(transport, "close", None)):
            close()


@contextmanager
def stored(at: Address) -> Iterator[ServerStore]:
    """Open a set that is there for what needs no embedding model, whichever model made its vectors."""
    from catena_server.store import ServerStore

    with connected(at) as transport:
        yield ServerStore.open(transport, at.name, create=False)


Workers: TypeAlias = Annotated[int, option("N", "Processes that read, embed and write.", min=1)]
Home: TypeAlias = Annotated[Path, option("FOLDER", "The ids of documents are the paths of files below it [here].")]


@grouped
def index(
    paths: FilePaths,
    *,
    at: Address,
    shape: IndexShape,
    workers: Workers = 1,
    home: Home = Path(),
    options: IndexOptions,
    as_json: AsJson = False,
) -> None:
    """Put files into a set on the server, which is made where it is not there; what is in it unchanged is skipped.

    A run that was stopped or killed goes on where it ended, on any machine: the server knows what is whole. Files are
    read, cut and embedded here, by several processes with --workers; the options for it are those of `catena index`.
    """
    began = time.monotonic()
    run = IndexRun.of(options, paths=paths, workers=workers, home=home)
    with stoppable(at.name, run.options), run.opened(at, at.name, shape) as library:
        shape.check(library.store.layout)
        outcomes = run.into(library, at)
        stats = library.stats()
    if not outcomes:
        raise no_files()
    tell_run(at, outcomes, stats, time.monotonic() - began, {}, as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRun:
    """The files that are read, the way they are prepared, and the number of processes."""

    paths: Sequence[Path]
    home: Path
    workers: int
    options: IndexOptions
    preparation: Preparation

    @classmethod
    def of(cls, options: IndexOptions, *, paths: Sequence[Path], workers: int, home: Path) -> IndexRun:
        """Return the run that the options describe.

        Raises:
            ProblemError: one could do nothing, or cannot be obeyed.
        """
        options.check()
        if workers > 1 and options.asking.budget is not None:
            raise ProblemError("--budget is counted in one process, and --workers are several", "one of the two")
        if workers > 1 and options.asking.requests_per_minute is not None:
            raise ProblemError("--requests-per-minute is counted in one process", "without --workers")
        return cls(paths=paths, home=home, workers=workers, options=options, preparation=options.preparation())

    @contextmanager
    def opened(self, at: Address, name: str, shape: IndexShape | None = None) -> Iterator[ServerLibrary]:
        """Open the library of a name, or make it where `shape` says how."""
        from catena_server.library import ServerLibrary

        given: dict[str, Any] = {} if shape is None else shape.given
        with ExitStack() as stack:
            asked = asked_models(self.options, stack)
            library = ServerLibrary.open(
                stack.enter_context(connected(at)),
                name,
                home=self.home,
                preparation=self.preparation,
                llm=asked.llm,
                create=shape is not None,
                **given,
                services=Services(
                    **self.options.asking.behaviour,
                    journal=journal_of(self.options, stack),
                    captioner=asked.captioner,
                    recognizer=asked.recognizer,
                    budget=asked.budget,
                ),
            )
            yield stack.enter_context(library)

    def into(self, library: ServerLibrary, at: Address) -> tuple[Outcome, ...]:
        """Index the files with a progress bar on stderr."""
        if self.workers == 1:
            return indexed(library, [*self.paths], self.options.password)
        from catena_server.bulk_ingestion import Recipe, ingest_files

        recipe = Recipe(
            layout=library.store.layout,
            preparation=self.preparation,
            models=partial(models_of, self.options),
            journal=None if self.options.kept_in is None else str(self.options.kept_in),
            password=self.options.password,
        )
        with progress_bar("indexing") as (tell, _):
            return ingest_files(
                self.paths, partial(transport_to, at), recipe, home=self.home, workers=self.workers, progress=tell
            )


def models_of(options: IndexOptions) -> Services:
    """Return the models of a worker process, which end with it."""
    from catena.enrichment import StaticEmbedder

    return replace(asked_models(options, ExitStack()), embedder=StaticEmbedder())


def stoppable(name: str, options: IndexOptions | None = None) -> AbstractContextManager[None]:
    """Let Ctrl-C end the work inside with a word about what is kept."""
    kept = f"; replies of models are kept in {options.kept_in}" if options and options.kept_in else ""
    hint = "the same command again: what is whole on the server is skipped"
    return stopped_with(f"what was written to set {name} is kept{kept}", hint)


def tell_run(
    at: Address,
    outcomes: Sequence[Outcome],
    stats: ServerStats,
    seconds: float,
    more: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Write the ledger of a run; end with its exit code."""
    if as_json:
        states = Counter(outcome.state for outcome in outcomes)
        ran = {"set": at.name, "files": outcomes, "states": states, "seconds": round(seconds, 3)}
        write_json({**ran, **more, "holds": stats})
    else:
        show_outcomes(outcomes, f"in {seconds:.1f} s; set {at.name} now holds", stats.documents, stats.chunks)
    if unread(outcomes):
        advise(outcomes, f"set {at.name}")
        raise typer.Exit(SOME_FAILED)


@grouped
def rebuild(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH…", help="Files and folders to read anew [build from what the set holds].", parser=file_path
        ),
    ] = None,
    *,
    at: Address,
    shape: IndexShape,
    workers: Workers = 1,
    home: Home = Path(),
    drop_missing: Annotated[
        bool, flag("--drop-missing", "Put it in place though documents of the older one are not in it.")
    ] = False,
    abandon: Annotated[
        bool, flag("--abandon", "Drop what a rebuild that did not end has built; change nothing else.")
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
        with stoppable(at.name, run.options):
            outcomes, stats, missing = _read_anew(run, at, shape, drop_missing=drop_missing)
        tell_run(at, outcomes, stats, time.monotonic() - began, {"dropped": missing}, as_json=as_json)
        return
    if options != IndexOptions() or workers > 1 or drop_missing:
        what = "without PATHS no file is read: the set is built from what it holds, and all of it"
        raise ProblemError(what, "PATHS, or only --vector-index, --shards and --replicas")
    with stoppable(at.name), stored(at) as store, progress("building the set anew", "documents") as show:
        store.rebuild(**shape.given, progress=lambda done, total: show(completed=done, total=total))
        stats, layout = store.stats(), store.layout
    if as_json:
        write_json({"set": at.name, "seconds": round(time.monotonic() - began, 3), "layout": layout, "holds": stats})
        return
    from catena.cli.rendering import number

    out().print(
        f"built anew in {time.monotonic() - began:.1f} s, and in place: {number(stats.documents, 'document')}, "
        f"{number(stats.chunks, 'chunk')}; {layout.vector_index}, {number(layout.shards, 'shard')}, "
        f"{layout.replicas} replicas"
    )


def _read_anew(
    run: IndexRun, at: Address, shape: IndexShape, *, drop_missing: bool
) -> tuple[tuple[Outcome, ...], ServerStats, tuple[str, ...]]:
    """Build the next generation of a set from files, and put it in place.

    Returns:
        How each file ended, the size of the set, and which of its documents are not in it any more.

    Raises:
        ProblemError: there are no files, or documents would be missing; the set is as before.
    """
    from catena.enrichment import StaticEmbedder
    from catena_server.library import several_kinds
    from catena_server.rebuilding import begin, finish
    from catena_server.store import ServerOptions, ServerStore, calling

    embedder = StaticEmbedder()
    with connected(at) as transport:
        store = ServerStore.open(transport, at.name, create=False)
        several = (*store.layout.several, *several_kinds(run.preparation))
        wanted = replace(store.layout, embedder=embedder.identity, dim=embedder.dim, several=several, **shape.given)
        services = calling(transport, ServerOptions())
        building = driven(begin(wanted, transport.flavour), services)
        with run.opened(at, building.name) as library:
            outcomes = run.into(library, at)
            if not outcomes:
                raise no_files()
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
    from catena_server.rebuilding import abandon
    from catena_server.store import ServerOptions, calling

    with connected(at) as transport:
        driven(abandon(at.name), calling(transport, ServerOptions()))
    if as_json:
        write_json({"set": at.name, "abandoned": True})
    else:
        out().print("abandoned: no new set is being built; the one that is searched is as before")
