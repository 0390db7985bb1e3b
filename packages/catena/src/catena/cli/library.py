"""Run `catena index`, `status`, `delete`, `verify`: fill a library, list what it holds, and check it."""

from __future__ import annotations

import os
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from catena.cli.console import err, out, printable, write_json
from catena.cli.failures import DAMAGED, SOME_FAILED, ProblemError, hints_for, no_files, unread
from catena.cli.index_options import IndexOptions, MadeBy
from catena.cli.options import AsJson, DryRun, FilePaths, LibraryPath, flag, grouped
from catena.cli.progress import notes_of, progress
from catena.library.discovery import discover, path_text
from catena.model.near_names import meant

if TYPE_CHECKING:
    from catena.effects import Event
    from catena.library import BaseLibrary, Library
    from catena.library.file_ingestion import Progress
    from catena.model import IngestState, Outcome
    from catena.store.store import LibraryStore


EMBEDDING = "embedding"  # what the purposes of requests for vectors begin with
NAMED = 5  # of several documents, so many are named in one line


@grouped
def index(
    paths: FilePaths,
    *,
    library: LibraryPath,
    options: IndexOptions,
    graph: Annotated[bool, flag("--graph", "Keep a graph of the passages, for `catena search --graph`.")] = False,
    graph_keywords: Annotated[
        MadeBy | None, typer.Option(help="Find its keywords without a model or with it [offline].")
    ] = None,
    plan: DryRun = False,
    prune: Annotated[
        bool, flag("--prune", "Delete documents from the library whose files are gone from disk.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put files into a library; what is in it unchanged is skipped, so a stopped run goes on where it ended.

    With --chunks sections, whole sections are found, each by its best passage, too; with --views also by its keywords
    and its summary (`catena search --views`). `catena views` shows what these are.

    Files are indexed anew when they changed, or the options that decide how they are read and which models are asked.
    The key of a model is read from CATENA_API_KEY or OPENAI_API_KEY; its replies are kept in the journal, so that
    nothing is paid for twice. What a model fails at is said, and loses nothing else.
    """
    from catena.cli import index_options as index_models

    began = time.monotonic()
    if graph_keywords is not None and not graph:
        raise ProblemError("--graph-keywords is about the graph", "--graph with it")
    models = options.models(graph_keywords=graph_keywords, plan=plan)
    if not library.exists():
        _check_files(paths)
    with index_models.opened(library, options.preparation(), models, plan=plan) as opened:
        if plan:
            index_models.show_plan(opened, paths, options.password, models, as_json=as_json)
            return
        outcomes = indexed(opened, paths, options.password)
        there = {outcome.document_id for outcome in outcomes if outcome.state != "failed"}
        gone = tuple(document for document in opened.vanished() if document not in there)
        for document in gone if prune else ():
            opened.delete(document)
        stats = opened.stats()
        joined = _joined(opened) if graph else None
    if gone:
        _tell_gone(
            gone, prune, f"catena index {shlex.join(map(str, paths))} --library {shlex.quote(str(library))} --prune"
        )
    if not outcomes and not (gone and prune):
        raise no_files()
    seconds = time.monotonic() - began
    if as_json:
        states = Counter(outcome.state for outcome in outcomes)
        ran = {"library": library, "files": outcomes, "states": states, "seconds": round(seconds, 3)}
        changed = {"vanished": () if prune else gone, "pruned": gone if prune else ()}
        write_json({**ran, **changed, "holds": stats, **({} if joined is None else {"graph": joined})})
    else:
        show_outcomes(outcomes, f"in {seconds:.1f} s; {_line(library)} now holds", stats.documents, stats.chunks)
        if joined is not None:
            out().print(f"their graph has {joined['nodes']:,} nodes and {joined['edges']:,} edges")
    if unread(outcomes):
        advise(outcomes)
        raise typer.Exit(SOME_FAILED)


def _check_files(paths: Sequence[Path]) -> None:
    """Raise where no path leads to a file, before a library is made of a mistyped name."""
    if next(discover(paths), None) is None:
        raise no_files()
    if not any(map(os.path.lexists, paths)):
        what = f"there is neither file nor folder {named(list(map(path_text, paths)))}; no library was made"
        hint = "checking the name, and the folder you are in"
        raise ProblemError(f"{what}{_near(paths[0])}", hint, SOME_FAILED)


def _near(path: Path) -> str:
    with suppress(OSError):
        return meant(path.name, os.listdir(path.parent))
    return ""


def _joined(library: Library) -> dict[str, int]:
    """Bring the graph of a library up to date, or build it, and return its size."""
    from catena.cli.graph_search import present

    graph = present(library)
    return {"nodes": len(graph), "edges": int(graph.degrees().sum()) // 2}


def _tell_gone(gone: Sequence[str], pruned: bool, command: str) -> None:
    files = f"{len(gone):,} indexed {'file is' if len(gone) == 1 else 'files are'} gone from disk"
    if pruned:
        err().print(f"{files}, and deleted from the library: {named(gone)}", soft_wrap=True)
        return
    err().print(f"{files} and can still be found: {named(gone)}", style="yellow", soft_wrap=True)
    err().print(f"Try: {_line(command)}", soft_wrap=True)


def named(documents: Sequence[str]) -> str:
    """Return the first of some documents, in one line that a terminal may show, and how many more there are."""
    more = f" and {len(documents) - NAMED:,} more" if len(documents) > NAMED else ""
    return _line(", ".join(documents[:NAMED])) + more


def _line(text: object) -> str:
    return printable(str(text), one_line=True)


def indexed(library: BaseLibrary, paths: list[Path], password: str | None = None) -> tuple[Outcome, ...]:
    """Index files with a progress bar on stderr."""
    with progress_bar("indexing") as (tell, watch):
        return library.index(paths, password=password, progress=tell, watch=watch)


@contextmanager
def progress_bar(what: str) -> Iterator[tuple[Callable[[Progress], None], Callable[[Event], None]]]:
    """Show how far a run is, how many pages and chunks it does in a second, and what models answered.

    Yields:
        What to tell of each file, and what to tell of each request to a model.
    """
    began = time.monotonic()
    pages = chunks = answers = kept = 0
    with progress(what, "files") as show:

        def notes() -> str:
            seconds = max(time.monotonic() - began, 0.001)
            paces = {"pages": pages, "chunks": chunks}
            made = [f"{count / seconds:.0f} {name}/s" for name, count in paces.items() if count]
            return ", ".join(filter(None, (*made, notes_of(answers=answers, kept=kept))))

        def tell(step: Progress) -> None:
            nonlocal pages, chunks
            pages, chunks = pages + step.outcome.pages, chunks + step.outcome.chunks
            show(completed=step.done, total=step.total, notes=notes())

        def watch(event: Event) -> None:
            nonlocal answers, kept
            if not event.purpose.startswith(EMBEDDING):
                answers, kept = answers + (event.kind == "finished"), kept + (event.kind == "cached")
                show(notes=notes())

        yield tell, watch


def show_outcomes(outcomes: Sequence[Outcome], when: str, documents: int, chunks: int) -> None:
    """Write the ledger of a run, and behind its counts `when` and the sizes of what holds the documents now."""
    from catena.cli.rendering import counted, ledger, number

    console = out()
    console.print(ledger(outcomes))
    console.print(f"{counted(outcomes)} {when} {number(documents, 'document')}, {number(chunks, 'chunk')}")


def advise(outcomes: Sequence[Outcome], where: str = "the library") -> None:
    """Say once each what to do about the files that were not, or not wholly, read; `where` are the others."""
    for hint in hints_for(unread(outcomes)) or (f"the reasons in the table; all other files are in {where}",):
        err().print(f"Try: {_line(hint)}", soft_wrap=True)


@contextmanager
def stored(library: Path) -> Iterator[LibraryStore]:
    """Open a library for what needs no embedding model, whichever model made its vectors."""
    from catena.store.store import LibraryStore

    with LibraryStore.open(library, create=False) as store:
        yield store


def around(store: LibraryStore) -> Library:
    """Return the library around a store, for what asks where files are and embeds nothing."""
    from catena.effects import Services
    from catena.enrichment.static_embedding import StaticEmbedder
    from catena.library import Library

    return Library(store, Services(embedder=StaticEmbedder()))


def status(library: LibraryPath, as_json: AsJson = False) -> None:
    """Show what a library holds, the files that failed, and those that are gone from disk."""
    with stored(library) as store:
        stats, documents, outcomes = store.stats(), store.documents(), store.ledger()
        gone = around(store).vanished()
    if as_json:
        held = {"library": library, "holds": stats, "documents": documents}
        write_json({**held, "ledger": outcomes, "vanished": gone})
        return
    from rich.text import Text

    from catena.cli.rendering import number

    show_documents(documents, outcomes)
    console = out()
    if gone:
        console.print(Text("Files that are gone from disk and can still be found", style="bold"))
        console.print("".join(f"{_line(name)}\n" for name in gone), soft_wrap=True)
    console.print(
        f"{number(stats.documents, 'document')}, {number(stats.sections, 'section')}, "
        f"{number(stats.chunks, 'chunk')} ({told_views(stats.views)}), {number(stats.terms, 'critical term')}\n"
        f"embedding {_line(stats.embedder or 'none yet')}; generation {stats.generation}; "
        f"{stats.bytes / 1e6:.1f} MB on disk"
    )


class Listed(Protocol):
    """A document as the table of documents shows it, in a library or on a server."""

    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def state(self) -> IngestState: ...
    @property
    def pages(self) -> int: ...
    @property
    def chunks(self) -> int: ...


def show_documents(documents: Sequence[Listed], outcomes: Sequence[Outcome]) -> None:
    """Write the table of documents, and below it that of the files that need a look."""
    from rich.text import Text

    from catena.cli.rendering import COLOURS, ledger, needs_a_look, table

    listed = table("State", "Document", "Pages#", "Chunks#")
    for each in documents:
        state = Text(each.state, style=COLOURS[each.state])
        name = Text.assemble(_line(each.id), (f"\n{_line(each.title)}", "dim"))
        listed.add_row(state, name, str(each.pages or ""), str(each.chunks))
    if documents:
        out().print(listed)
    if failed := list(filter(needs_a_look, outcomes)):
        out().print(Text("Files that need a look", style="bold"))
        out().print(ledger(failed))


def told_views(views: Mapping[str, int]) -> str:
    """Return e.g. "views: 12 headed, 3 keywords"."""
    return f"views: {', '.join(f'{count:,} {_line(kind)}' for kind, count in views.items()) or 'none'}"


def delete(
    documents: Annotated[
        list[str], typer.Argument(metavar="DOC…", help="Ids, as `catena status` lists them, or paths.")
    ],
    library: LibraryPath,
    as_json: AsJson = False,
) -> None:
    """Remove documents with every chunk, view and vector of them."""
    with stored(library) as store:
        known = {info.id for info in store.documents()}
        ids = {name: name if name in known else around(store).document_id(name) for name in documents}
        wanted = list(dict.fromkeys(ids.values()))
        unknown = [name for name, document in ids.items() if document not in known]
        if unknown:
            near = meant(unknown, known)
            what = f"not in the library: {', '.join(unknown)}; nothing was deleted{near}"
            raise ProblemError(what, f"catena status --library {library} lists the documents")
        for document in wanted:
            store.delete(document)
        left = store.stats().documents
    if as_json:
        write_json({"library": library, "deleted": wanted, "documents": left})
    else:
        from catena.cli.rendering import number

        out().print(f"deleted {_line(', '.join(wanted))}; {number(left, 'document')} left", soft_wrap=True)


def verify(library: LibraryPath, as_json: AsJson = False) -> None:
    """Check every invariant of what is stored; exit code 4 when something is wrong."""
    with stored(library) as store, progress("checking", "documents") as show:
        problems = around(store).verify(lambda done, total: show(completed=done, total=total))
        stats = store.stats()
    if as_json:
        write_json({"library": library, "sound": not problems, "problems": problems})
    elif not problems:
        from catena.cli.rendering import number

        out().print(f"sound: {number(stats.documents, 'document')}, {number(stats.chunks, 'chunk')} checked")
    else:
        for problem in problems:
            out().print(_line(problem), soft_wrap=True)
    if problems:
        hint = f"catena index FILES --library {library} after deleting the documents named above"
        if all(problem.startswith(("the graph ", "the files of the graph ")) for problem in problems):
            hint = f"catena graph build {library}"
        raise ProblemError(f"{len(problems)} of the library's invariants do not hold", hint, DAMAGED)
