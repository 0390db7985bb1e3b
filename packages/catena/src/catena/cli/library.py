"""`catena index`, `status`, `delete`, `verify`: what is in a library, and whether it is sound."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catena.cli.chunk_options import AcrossSections, ChunksName, ChunksOption, MaxTokens, chunking
from catena.cli.console import err, out, write_json
from catena.cli.failures import SOME_FAILED, ProblemError
from catena.cli.llm_options import BaseUrl, JournalPath, PriceIn, PriceOut, Spending, SpendingCap
from catena.cli.options import (
    AsJson,
    ContextBy,
    Engine,
    Figures,
    LibraryPath,
    Password,
    PdfEngine,
    RuledTables,
    SegmentationBy,
    SegmentUnder,
    TableText,
    preparation_of,
)
from catena.cli.terminal import printable
from catena.cli.view_options import MadeBy, ViewKinds, made_kinds

if TYPE_CHECKING:
    from catena.effects import Event
    from catena.enrichment.critical_terms import CriticalTermOptions
    from catena.indexing.store import LibraryStore
    from catena.library import Library, Progress
    from catena.model import Outcome


EMBEDDING = "embedding"  # what the purposes of requests for vectors begin with
NAMED = 5  # of several documents, so many are named in one line


def index(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files, and folders to search for files.")],
    *,
    library: LibraryPath,
    engine: PdfEngine = Engine.PYPDF,
    ruled_tables: RuledTables = False,
    figures: Figures = False,
    caption_model: Annotated[
        str | None,
        typer.Option(
            "--caption-model", metavar="MODEL", help="Let this OpenAI-compatible model describe each figure."
        ),
    ] = None,
    llm: Annotated[
        str | None, typer.Option("--llm", metavar="MODEL", help="The OpenAI-compatible model for what is to ask one.")
    ] = None,
    format_llm: Annotated[
        bool, typer.Option("--format-llm", help="Let the model write the Markdown, checked page by page.")
    ] = False,
    entities_llm: Annotated[
        bool, typer.Option("--entities-llm", help="Let the model find the critical entities of each chunk.")
    ] = False,
    segmentation: Annotated[
        SegmentationBy | None,
        typer.Option("--segmentation", help="Divide documents by meaning, not by their headings; by whom."),
    ] = None,
    segment_under: Annotated[
        SegmentUnder | None,
        typer.Option("--segment-under", help="Divide all of it, or what is long below its headings [document]."),
    ] = None,
    context: Annotated[
        ContextBy | None,
        typer.Option("--context", help="Make titles and summaries of documents and sections; by whom."),
    ] = None,
    chunks: ChunksOption = ChunksName.PASSAGES,
    max_tokens: MaxTokens = None,
    across_sections: AcrossSections = False,
    views: ViewKinds = None,
    views_by: Annotated[MadeBy | None, typer.Option("--views-by", help="Who makes the views [offline].")] = None,
    graph: Annotated[
        bool, typer.Option("--graph", help="Keep a graph of the passages, for `catena search --graph`.")
    ] = False,
    graph_keywords: Annotated[
        MadeBy | None, typer.Option("--graph-keywords", help="Who finds the keywords by which it joins [offline].")
    ] = None,
    language: Annotated[
        str | None,
        typer.Option("--language", metavar="WORD", help="Of what models write about files [the document's own]."),
    ] = None,
    spacy: Annotated[
        str | None, typer.Option("--spacy", metavar="MODEL", help="Let this spaCy pipeline find them (extra spacy).")
    ] = None,
    expert: Annotated[
        Path | None,
        typer.Option("--expert", metavar="FILE", help="Critical terms, one a line: term, aliases, weight."),
    ] = None,
    embed_tables: Annotated[
        TableText,
        typer.Option("--embed-tables", help="Embed tables whole, or their titles and the names of rows and columns."),
    ] = TableText.WHOLE,
    base_url: BaseUrl = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what the models would take; ask nothing.")] = False,
    journal: JournalPath = None,
    price_in: PriceIn = None,
    price_out: PriceOut = None,
    budget: SpendingCap = None,
    password: Password = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete documents from the library whose files are gone from disk.")
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
    from catena.cli import index_models

    began = time.monotonic()
    models = index_models.Models(
        llm=llm, format_llm=format_llm, entities_llm=entities_llm, caption_model=caption_model, base_url=base_url,
        segmentation=None if segmentation is None else segmentation.value,
        under_headings=None if segment_under is None else segment_under is SegmentUnder.HEADINGS,
        context=None if context is None else context.value, language=language,
        views=made_kinds(views), views_by=views_by, graph_keywords=graph_keywords,
        spacy=spacy, journal=journal, spending=Spending(price_in=price_in, price_out=price_out, cap=budget),
    )  # fmt: skip
    if graph_keywords is not None and not graph:
        raise ProblemError("--graph-keywords is about the graph", "--graph with it")
    models.check(plan=plan)
    preparation = replace(
        preparation_of(engine, ruled_tables, figures or caption_model is not None),
        chunks=chunking(chunks, max_tokens, across_sections),
        embed_tables=embed_tables.value,
        terms=_terms(expert),
    )
    with index_models.opened(library, preparation, models, plan=plan) as opened:
        if plan:
            index_models.show_plan(opened, paths, password, models, as_json=as_json)
            return
        outcomes = indexed(opened, paths, password)
        gone = opened.vanished()
        for document in gone if prune else ():
            opened.delete(document)
        stats = opened.stats()
        joined = _joined(opened) if graph else None
    if gone:
        _tell_gone(
            gone, prune, f"catena index {shlex.join(map(str, paths))} --library {shlex.quote(str(library))} --prune"
        )
    if not outcomes and not (gone and prune):
        raise ProblemError("there are no files in these folders", "a path that holds PDF, HTML or Markdown", 1)
    seconds = time.monotonic() - began
    if as_json:
        states = Counter(outcome.state for outcome in outcomes)
        ran = {"library": library, "files": outcomes, "states": states, "seconds": round(seconds, 3)}
        changed = {"vanished": () if prune else gone, "pruned": gone if prune else ()}
        write_json({**ran, **changed, "holds": stats, **({} if joined is None else {"graph": joined})})
    else:
        _show(outcomes, f"in {seconds:.1f} s; {_line(library)} now holds", stats.documents, stats.chunks)
        if joined is not None:
            out().print(f"their graph has {joined['nodes']:,} nodes and {joined['edges']:,} edges")
    if any(outcome.state == "failed" for outcome in outcomes):
        _advise(outcomes)
        raise typer.Exit(SOME_FAILED)


def _joined(library: Library) -> dict[str, int]:
    """Bring the graph of a library up to date, or build it, and return its size."""
    from catena.cli.graph_building import present

    graph = present(library)
    return {"nodes": len(graph), "edges": int(graph.degrees().sum()) // 2}


def _terms(expert: Path | None) -> CriticalTermOptions:
    from catena.enrichment.critical_terms import CriticalTermOptions
    from catena.enrichment.expert_terms import ExpertTerms

    return CriticalTermOptions() if expert is None else CriticalTermOptions(expert=ExpertTerms.read(expert))


def _tell_gone(gone: Sequence[str], pruned: bool, command: str) -> None:
    files = f"{len(gone):,} indexed {'file is' if len(gone) == 1 else 'files are'} gone from disk"
    if pruned:
        err().print(f"{files}, and deleted from the library: {_names(gone)}", soft_wrap=True)
        return
    err().print(f"{files} and can still be found: {_names(gone)}", style="yellow", soft_wrap=True)
    err().print(f"Try: {_line(command)}", soft_wrap=True)


def _names(documents: Sequence[str]) -> str:
    """Return the first of the names, and how many more there are."""
    more = f" and {len(documents) - NAMED:,} more" if len(documents) > NAMED else ""
    return _line(", ".join(documents[:NAMED])) + more


def _line(text: object) -> str:
    return printable(str(text), one_line=True)


def indexed(library: Library, paths: list[Path], password: str | None = None) -> tuple[Outcome, ...]:
    """Index files with a progress bar on stderr."""
    with progress_bar("indexing") as (tell, watch):
        return library.index(paths, password=password, progress=tell, watch=watch)


@contextmanager
def progress_bar(what: str) -> Iterator[tuple[Callable[[Progress], None], Callable[[Event], None]]]:
    """Show how far a run is, how many pages and chunks it does in a second, and what models answered.

    Yields:
        What to tell of each file, and what to tell of each request to a model.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    rates = TextColumn("{task.fields[rates]}")
    console = err()
    began = time.monotonic()
    pages = chunks = answers = kept = 0
    with Bar(
        TextColumn(what), BarColumn(28), MofNCompleteColumn(), TextColumn("files"), rates,
        TextColumn("{task.fields[asked]}"), TimeElapsedColumn(),
        console=console, disable=not console.is_terminal,
    ) as bar:  # fmt: skip
        task = bar.add_task(what, total=None, rates="", asked="")

        def tell(step: Progress) -> None:
            nonlocal pages, chunks
            pages, chunks = pages + step.outcome.pages, chunks + step.outcome.chunks
            seconds = max(time.monotonic() - began, 0.001)
            rates = f"{pages / seconds:.0f} pages/s, {chunks / seconds:.0f} chunks/s"
            bar.update(task, completed=step.done, total=step.total, rates=rates)

        def watch(event: Event) -> None:
            nonlocal answers, kept
            if event.purpose.startswith(EMBEDDING):
                return
            answers, kept = answers + (event.kind == "finished"), kept + (event.kind == "cached")
            asked = [f"{answers} answers"] * bool(answers) + [f"{kept} kept"] * bool(kept)
            bar.update(task, asked=", ".join(asked))

        yield tell, watch


def _show(outcomes: tuple[Outcome, ...], when: str, documents: int, chunks: int) -> None:
    from catena.cli.views import counted, ledger, number

    console = out()
    console.print(ledger(outcomes))
    console.print(f"{counted(outcomes)} {when} {number(documents, 'document')}, {number(chunks, 'chunk')}")


def _advise(outcomes: tuple[Outcome, ...]) -> None:
    """Say once each what to do about the files that failed."""
    from catena.cli.failures import split_hint

    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    hints = dict.fromkeys(hint for outcome in failed if (hint := split_hint(outcome.reason)[1]))
    for hint in hints or ("the reasons in the table; all other files are in the library",):
        err().print(f"Try: {_line(hint)}", soft_wrap=True)


@contextmanager
def stored(library: Path) -> Iterator[LibraryStore]:
    """Open a library for what needs no embedding model, whichever model made its vectors."""
    from catena.indexing.store import LibraryStore

    with LibraryStore.open(library, create=False) as store:
        yield store


def around(store: LibraryStore) -> Library:
    """Return the library around a store, for what asks where files are and embeds nothing."""
    from catena.enrichment.static_embedding import StaticEmbedder
    from catena.library import Library
    from catena.pipeline import Preparation

    return Library(store, StaticEmbedder(), Preparation(), None)


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

    from catena.cli.views import COLOURS, ledger, needs_a_look, number, table

    console = out()
    listed = table("State", "Document", "Pages#", "Chunks#")
    for each in documents:
        state = Text(each.state, style=COLOURS[each.state])
        name = Text.assemble(_line(each.id), (f"\n{_line(each.title)}", "dim"))
        listed.add_row(state, name, str(each.pages or ""), str(each.chunks))
    if documents:
        console.print(listed)
    if failed := list(filter(needs_a_look, outcomes)):
        console.print(Text("Files that need a look", style="bold"))
        console.print(ledger(failed))
    if gone:
        console.print(Text("Files that are gone from disk and can still be found", style="bold"))
        console.print("".join(f"{_line(name)}\n" for name in gone), soft_wrap=True)
    views = ", ".join(f"{count:,} {_line(kind)}" for kind, count in stats.views.items())
    console.print(
        f"{number(stats.documents, 'document')}, {number(stats.sections, 'section')}, "
        f"{number(stats.chunks, 'chunk')} (views: {views or 'none'}), {number(stats.terms, 'critical term')}\n"
        f"embedding {_line(stats.embedder or 'none yet')}; generation {stats.generation}; "
        f"{stats.bytes / 1e6:.1f} MB on disk"
    )


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
            what = f"not in the library: {', '.join(unknown)}; nothing was deleted"
            raise ProblemError(what, f"catena status --library {library} lists the documents")
        for document in wanted:
            store.delete(document)
        left = store.stats().documents
    if as_json:
        write_json({"library": library, "deleted": wanted, "documents": left})
    else:
        from catena.cli.views import number

        out().print(f"deleted {_line(', '.join(wanted))}; {number(left, 'document')} left", soft_wrap=True)


def verify(library: LibraryPath, as_json: AsJson = False) -> None:
    """Check every invariant of what is stored; exit code 1 when something is wrong."""
    with stored(library) as store:
        problems, stats = around(store).verify(), store.stats()
    if as_json:
        write_json({"library": library, "sound": not problems, "problems": problems})
    elif not problems:
        from catena.cli.views import number

        out().print(f"sound: {number(stats.documents, 'document')}, {number(stats.chunks, 'chunk')} checked")
    else:
        for problem in problems:
            out().print(_line(problem), soft_wrap=True)
    if problems:
        hint = f"catena index FILES --library {library} after deleting the documents named above"
        if all(problem.startswith(("the graph ", "the files of the graph ")) for problem in problems):
            hint = f"catena graph build {library}"
        raise ProblemError(f"{len(problems)} of the library's invariants do not hold", hint, SOME_FAILED)
