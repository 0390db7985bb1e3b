"""`catena server index`: files into an index set on a server, by one process or by several."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from catena.cli.console import write_json
from catena.cli.failures import INTERRUPTED, SOME_FAILED, ProblemError, no_files, say, unread
from catena.cli.index_options import IndexOptions
from catena.cli.library import advise, indexed, progress_bar, show_outcomes
from catena.cli.option_groups import grouped
from catena.cli.options import AsJson, FilePaths
from catena.cli.server_address import Address, Lying, connected, transport_to

if TYPE_CHECKING:
    from catena.cli.index_models import Models
    from catena.effects import Services
    from catena.library.pipeline import Preparation
    from catena.model import Outcome
    from catena.server.contents import ServerStats
    from catena.server.library import ServerLibrary

Workers: TypeAlias = Annotated[
    int, typer.Option("--workers", min=1, metavar="N", help="Processes that read, embed and write.")
]
Home: TypeAlias = Annotated[
    Path,
    typer.Option("--home", metavar="FOLDER", help="The ids of documents are the paths of files below it [here]."),
]


@grouped
def index(
    paths: FilePaths,
    *,
    at: Address,
    lying: Lying,
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
    with stoppable(at.name, run.models), run.opened(at, at.name, lying) as library:
        lying.check(library.store.layout)
        outcomes = run.into(library, at)
        stats = library.stats()
    run.check(outcomes)
    tell_run(at, outcomes, stats, time.monotonic() - began, {}, as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRun:
    """What is read, how, and by how many processes."""

    paths: Sequence[Path]
    home: Path
    workers: int
    models: Models
    preparation: Preparation
    password: str | None

    @classmethod
    def of(cls, options: IndexOptions, *, paths: Sequence[Path], workers: int, home: Path) -> IndexRun:
        """Return what the options say.

        Raises:
            ProblemError: one could do nothing, or cannot be obeyed.
        """
        models = options.models()
        if workers > 1 and models.asking.spending.cap is not None:
            raise ProblemError("--budget is counted in one process, and --workers are several", "one of the two")
        if workers > 1 and models.asking.requests_per_minute is not None:
            raise ProblemError("--requests-per-minute is counted in one process", "without --workers")
        preparation = models.prepared(options.preparation())
        return cls(
            paths=paths, home=home, workers=workers, models=models, preparation=preparation,
            password=options.password,
        )  # fmt: skip

    @contextmanager
    def opened(self, at: Address, name: str, lying: Lying | None = None) -> Iterator[ServerLibrary]:
        """Open the library of a name, or make it where `lying` says how."""
        from catena.cli.index_models import asked_models, journal_of
        from catena.server.library import ServerLibrary

        shape: dict[str, Any] = {} if lying is None else lying.given
        with ExitStack() as stack:
            asked = asked_models(self.models, stack)
            library = ServerLibrary.open(
                stack.enter_context(connected(at)),
                name,
                home=self.home,
                preparation=self.preparation,
                journal=journal_of(self.models, stack),
                captioner=asked.captioner,
                llm=asked.llm,
                recognizer=asked.recognizer,
                budget=asked.budget,
                **self.models.asking.behaviour,
                create=lying is not None,
                **shape,
            )
            yield stack.enter_context(library)

    def into(self, library: ServerLibrary, at: Address) -> tuple[Outcome, ...]:
        """Index the files with a progress bar on stderr."""
        if self.workers == 1:
            return indexed(library, [*self.paths], self.password)
        from catena.server.bulk_ingestion import ingest_files
        from catena.server.bulk_preparation import Recipe

        recipe = Recipe(
            layout=library.store.layout,
            preparation=self.preparation,
            models=partial(models_of, self.models),
            journal=None if self.models.kept_in is None else str(self.models.kept_in),
            password=self.password,
        )
        with progress_bar("indexing") as (tell, _):
            return ingest_files(
                self.paths, partial(transport_to, at), recipe, home=self.home, workers=self.workers, progress=tell
            )

    @staticmethod
    def check(outcomes: Sequence[Outcome]) -> None:
        """Raise where there was nothing to index."""
        if not outcomes:
            raise no_files()


def models_of(models: Models) -> Services:
    """Return the models of a worker process, which end with it."""
    from catena.cli.index_models import asked_models
    from catena.enrichment.static_embedding import StaticEmbedder

    return replace(asked_models(models, ExitStack()), embedder=StaticEmbedder())


@contextmanager
def stoppable(name: str, models: Models | None = None) -> Iterator[None]:
    """Let Ctrl-C end the work inside with a word about what is kept.

    Raises:
        Exit: it was stopped.
    """
    from catena.model.errors import CancelledError

    try:
        yield
    except (KeyboardInterrupt, CancelledError):
        kept = f"; replies of models are kept in {models.kept_in}" if models and models.kept_in else ""
        hint = "the same command again: what is whole on the server is skipped"
        say(f"what was written to set {name} is kept{kept}", hint, label="Stopped")
        raise typer.Exit(INTERRUPTED) from None


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
