"""Run `catena index`, `status`, `delete`, `verify`: fill a library, list what it holds, and check it."""

from __future__ import annotations

import os
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from catena.cli import index_options as index_models
from catena.cli.console import out, printable, tell, write_json
from catena.cli.failures import DAMAGED, SOME_FAILED, ProblemError, hints_for, named, no_files, unread
from catena.cli.index_options import IndexOptions, MadeBy
from catena.cli.options import AsJson, DryRun, EmbedderName, FilePaths, LibraryPath, flag, grouped, option
from catena.cli.progress import notes_of, progress
from catena.effects import Event, Services
from catena.library.discovery import discover
from catena.model import Outcome
from catena.model.near_names import meant
from catena.text import path_text

if TYPE_CHECKING:
    from catena.library import BaseLibrary, Library
    from catena.library.file_ingestion import Progress
    from catena.store.store import DocumentInfo


EMBEDDING = "embedding"  # what the purposes of requests for vectors begin with


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryOptions(IndexOptions):
    """The options of `catena index`, also those about the graph that is kept with a library."""

    graph: Annotated[bool, flag("--graph", "Keep a graph of the passages, for `catena search --graph`.")] = False
    graph_keywords: Annotated[
        MadeBy | None, typer.Option(help="Find its keywords without a model or with it [offline].")
    ] = None

    @property
    def graph_by_model(self) -> bool:
        """Say if a model finds the keywords by which the graph joins."""
        return self.graph_keywords == "llm"


@grouped
def index(
    paths: FilePaths,
    *,
    library: LibraryPath,
    embedder: EmbedderName = None,
    options: LibraryOptions,
    workers: Annotated[
        int | None, option("N", "Processes that read files, and the pages of long ones [one a core].", min=1)
    ] = None,
    plan: DryRun = False,
    prune: Annotated[
        bool, flag("--prune", "Delete documents of these folders from the library whose files are gone from disk.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put files into a library; what is in it unchanged is skipped, so a stopped run goes on where it ended.

    With --chunks sections, whole sections are found, each by its best passage, too; with --views also by its keywords
    and its summary (`catena search --views`). `catena views` shows what these are.

    The library remembers its --embedder. The one of catena-minilm (minilm) finds more than the shipped one, and takes
    its time; openai:MODEL@URL is any server with that protocol, as Ollama.

    Files are indexed anew when they changed, or the options that decide how they are read and which models are asked.
    The key of a model is read from CATENA_API_KEY or OPENAI_API_KEY; its replies are kept in the journal, so that
    nothing is paid for twice. What a model fails at is said, and loses nothing else.
    """
    began = time.monotonic()
    if options.graph_keywords is not None and not options.graph:
        raise ProblemError("--graph-keywords is about the graph", "--graph with it")
    options.check(plan=plan)
    if not library.exists():
        _check_files(paths)
    with index_models.opened(library, options, embedder=embedder, plan=plan) as opened:
        if plan:
            index_models.show_plan(opened, paths, options, as_json=as_json)
            return
        if prune:
            opened.vanished(paths)  # raises where a folder is not there, before anything is read
        outcomes = indexed(opened, paths, options.password, workers=workers)
        gone, elsewhere = _gone(opened, paths, outcomes, prune=prune)
        stats = opened.stats()
        joined = _joined(opened) if options.graph else None
    _tell_moved(outcomes)
    _tell_gone(gone, elsewhere, paths, library, pruned=prune)
    if not outcomes and not (gone and prune):
        raise no_files()
    seconds = time.monotonic() - began
    if as_json:
        states = Counter(outcome.state for outcome in outcomes)
        ran = {"library": library, "files": outcomes, "states": states, "seconds": round(seconds, 3)}
        changed = {"vanished": (*(() if prune else gone), *elsewhere), "pruned": gone if prune else ()}
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


def _tell_moved(outcomes: Sequence[Outcome]) -> None:
    if moved := [f"{each.document_id} (was {', '.join(each.moved_from)})" for each in outcomes if each.moved_from]:
        what = "1 file was moved" if len(moved) == 1 else f"{len(moved):,} files were moved"
        tell(f"{what}, and found under the new name alone: {named(moved)}", style=None)


def _gone(
    library: Library, paths: Sequence[Path], outcomes: Sequence[Outcome], *, prune: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return whose files are gone, and were not read now: of the paths, deleted where `prune`; and of elsewhere."""
    there = {outcome.document_id for outcome in outcomes if outcome.state != "failed"}
    asked = paths if prune else [path for path in paths if path.is_dir()]
    here = tuple(document for document in library.vanished(asked) if document not in there)
    for document in here if prune else ():
        library.delete(document)
    return here, tuple(document for document in library.vanished() if document not in there.union(here))


def _tell_gone(
    gone: Sequence[str], elsewhere: Sequence[str], paths: Sequence[Path], library: Path, *, pruned: bool
) -> None:
    place = f"--library {shlex.quote(str(library))}"
    if gone and pruned:
        tell(f"{_gone_files(gone)}, and deleted from the library: {named(gone)}", style=None)
    elif gone:
        tell(f"{_gone_files(gone)} and can still be found: {named(gone)}")
        tell(f"Try: catena index {shlex.join(map(str, paths))} {place} --prune", style=None)
    if elsewhere:
        tell(f"{_gone_files(elsewhere)}, outside of what was given, and can still be found")
        tell(f"Try: catena status {place}, which names them", style=None)


def _gone_files(gone: Sequence[str]) -> str:
    return f"{len(gone):,} indexed {'file is' if len(gone) == 1 else 'files are'} gone from disk"


def _line(text: object) -> str:
    return printable(str(text), one_line=True)


def indexed(
    library: BaseLibrary, paths: list[Path], password: str | None = None, workers: int | None = None
) -> tuple[Outcome, ...]:
    """Index files with a progress bar on stderr."""
    with progress_bar("indexing") as (tell, watch):
        return library.index(paths, password=password, workers=workers, progress=tell, watch=watch)


@contextmanager
def progress_bar(what: str) -> Iterator[tuple[Callable[[Progress], None], Callable[[Event], None]]]:
    """Show how far a run is, how many pages and chunks it does in a second, and what models answered.

    One long file may take minutes: it is said which file is being read, and how far reading and embedding are.

    Yields:
        What to tell of each file, and what to tell of each request to a model.
    """
    began = time.monotonic()
    counts: Counter[str] = Counter()
    doing = {"reading": "", "embedding": ""}
    with progress(what, "files") as show:

        def notes() -> str:
            seconds = max(time.monotonic() - began, 0.001)
            paces = [f"{counts[name] / seconds:.0f} {name}/s" for name in ("pages", "chunks") if counts[name]]
            answers = notes_of(answers=counts["finished"], kept=counts["cached"])
            return ", ".join(filter(None, (*paces, *doing.values(), answers)))

        def tell(step: Progress) -> None:
            counts["chunks"] += step.outcome.chunks
            show(completed=step.done, total=step.total, notes=notes())

        def watch(event: Event) -> None:
            goes_on = event.done < event.total
            if event.kind == "read":
                counts["pages"] += 1
                name = printable(PurePath(event.purpose).name, one_line=True)
                doing["reading"] = f"{name} page {event.done:,} of {event.total:,}" if goes_on else ""
            elif event.purpose.startswith(EMBEDDING):
                doing["embedding"] = f"embedding {event.done / event.total:.0%}" if goes_on else ""
            else:
                counts[event.kind] += 1
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
        tell(f"Try: {hint}", style=None)


@contextmanager
def stored(library: Path) -> Iterator[Library]:
    """Open a library for what needs no embedding model, whichever model made its vectors: nothing is embedded."""
    from catena.enrichment.static_embedding import StaticEmbedder
    from catena.library import Library
    from catena.store.store import LibraryStore

    with LibraryStore.open(library, create=False) as store:
        yield Library(store, Services(embedder=StaticEmbedder()))


def status(
    library: LibraryPath,
    values: Annotated[str | None, option("FIELD", "List the values of a field, as company, for --where.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a library holds, the files that failed, and those that are gone from disk."""
    if values is not None:
        with stored(library) as opened:
            found = opened.values(values)
        if as_json:
            write_json({"library": library, "field": values, "values": found})
        else:
            out().print("".join(f"{_line(value)}\n" for value in found), end="", soft_wrap=True, markup=False)
        return
    with stored(library) as opened:
        stats, documents, outcomes = opened.stats(), opened.documents(), opened.ledger()
        gone = opened.vanished()
    if as_json:
        held = {"library": library, "holds": stats, "documents": documents}
        write_json({**held, "ledger": outcomes, "vanished": gone})
        return
    from rich.text import Text

    from catena.cli.rendering import number, types_not_read

    show_documents(documents, outcomes)
    console = out()
    if gone:
        console.print(Text("Files that are gone from disk and can still be found", style="bold"))
        console.print("".join(f"{_line(name)}\n" for name in gone), soft_wrap=True)
    console.print(
        f"{number(stats.documents, 'document')}, {number(stats.sections, 'section')}, "
        f"{number(stats.chunks, 'chunk')} ({told_views(stats.views)}), {number(stats.terms, 'critical term')}"
        f"{(types := types_not_read(outcomes)) and f'; files that are not read: {types}'}\n"
        f"embedding {_line(stats.embedder or 'none yet')}; generation {stats.generation}; "
        f"{stats.bytes / 1e6:.1f} MB on disk"
    )


def show_documents(documents: Sequence[DocumentInfo], outcomes: Sequence[Outcome]) -> None:
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
    with stored(library) as opened:
        known = {info.id for info in opened.documents()}
        ids = {name: name if name in known else opened.document_id(name) for name in documents}
        wanted = list(dict.fromkeys(ids.values()))
        unknown = [name for name, document in ids.items() if document not in known]
        if unknown:
            near = meant(unknown, known)
            what = f"not in the library: {', '.join(unknown)}; nothing was deleted{near}"
            raise ProblemError(what, f"catena status --library {library} lists the documents")
        for document in wanted:
            opened.delete(document)
        left = opened.stats().documents
    if as_json:
        write_json({"library": library, "deleted": wanted, "documents": left})
    else:
        from catena.cli.rendering import number

        out().print(f"deleted {_line(', '.join(wanted))}; {number(left, 'document')} left", soft_wrap=True)


def verify(library: LibraryPath, as_json: AsJson = False) -> None:
    """Check every invariant of what is stored; exit code 4 when something is wrong."""
    with stored(library) as opened, progress("checking", "documents") as show:
        problems = opened.verify(lambda done, total: show(completed=done, total=total))
        stats = opened.stats()
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
