"""Run `catena views`: show the views of files, section by section, without a library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.console import out, picked, printable, tell, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, end_with, no_files, split_hint, tell_degraded
from catena.cli.index_options import Language, MadeBy, ViewKinds, check_makers, made_kinds, makers_of
from catena.cli.llm_options import ModelOptions, done
from catena.cli.options import AsJson, DryRun, FilePaths, ReadingChoices, grouped, option
from catena.cli.progress import counted
from catena.effects import Step, all_together
from catena.model import Degraded, Entry
from catena.model.errors import ParseError
from catena.model.places import citation
from catena.text.words import count_tokens

if TYPE_CHECKING:
    from catena.enrichment.views import ViewMaker
    from catena.library.pipeline import Preparation


USUAL = ("keywords", "summary")


@grouped
def views(
    paths: FilePaths,
    *,
    kinds: ViewKinds = None,
    by: Annotated[MadeBy | None, typer.Option(help="Make them without a model or with it [offline].")] = None,
    llm: Annotated[str | None, option("MODEL", "The OpenAI-compatible model for --by llm.")] = None,
    language: Language = None,
    asking: ModelOptions,
    plan: DryRun = False,
    reading: ReadingChoices,
    as_json: AsJson = False,
) -> None:
    """Show under what each section of your files would be found: its keywords, its summary; no library is made.

    Without --views these two; with `--by llm --llm NAME` a model writes them, and --views questions is possible, too.
    A section of up to 200 tokens is its own summary. `catena index --chunks sections --views keywords,summary` keeps
    views in a library, and `catena search --views all` finds by them.
    """
    from catena.library.ingestion import PLANNED_ANSWERS
    from catena.structure.chunking import SectionChunkOptions

    wanted = made_kinds(kinds) or USUAL
    _check(wanted, by, llm, language)
    asking.require(llm, plan=plan)
    makers = makers_of(wanted, by, language or "")
    preparation = replace(reading.preparation(), chunks=SectionChunkOptions())
    with asking.services(llm, dry=plan) as services:
        entries, failed = sections_of(paths, preparation, reading.password)
        if plan:
            counts = {"documents": len(entries), "sections": sum(len(entry.chunks) for entry in entries)}
            asking.show_plan(_all(entries, makers), services, counts, stand_ins=PLANNED_ANSWERS, as_json=as_json)
            return
        made = done(_all(entries, makers), services, "making views", "answers")
    missing = [part for each in made for part in each.degraded]
    tell_degraded(missing)
    if as_json:
        write_json({"kinds": wanted, "documents": [_as_data(each, wanted) for each in made]})
    else:
        for each in made:
            _show(each, wanted)
    if missing and not any(each.texts for each in made):
        raise ProblemError(f"no view was made: {missing[0].why}", "the key, --llm and --base-url", SOME_FAILED)
    end_with(failed, len(entries) + len(failed))


def _check(kinds: Sequence[str], by: MadeBy | None, llm: str | None, language: str | None) -> None:
    """Refuse options that could do nothing.

    Raises:
        ProblemError: there is one.
    """
    check_makers(kinds, by, "--by")
    if by == "llm" and llm is None:
        raise ProblemError("--by llm needs the name of a model", "--llm NAME")
    if llm is not None and by != "llm":
        raise ProblemError("--llm needs to be told what for", "--by llm")
    if language is not None and by != "llm":
        raise ProblemError("--language is obeyed by models only", "--by llm --llm NAME")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """The views of a document's sections.

    Attributes:
        texts: (id of a chunk, kind) -> its views.
        degraded: what was asked for and not given.
    """

    entry: Entry
    texts: dict[tuple[str, str], list[str]]
    degraded: tuple[Degraded, ...]


def _all(entries: Sequence[Entry], makers: Sequence[ViewMaker]) -> Step[tuple[_Made, ...]]:
    """Make the views of all documents side by side.

    Raises:
        CatenaError: not a failure of the model, but of what surrounds it.
    """
    from catena.enrichment.views import make_views

    steps = [make_views(entry.chunks, makers, title=entry.document.title) for entry in entries]
    results = yield from all_together(steps)
    made: list[_Made] = []
    for entry, (found, degraded) in zip(entries, results, strict=True):
        texts: dict[tuple[str, str], list[str]] = {}
        for view in found:
            texts.setdefault((view.chunk_id, view.kind), []).append(view.text)
        made.append(_Made(entry=entry, texts=texts, degraded=degraded))
    return tuple(made)


def _as_data(made: _Made, kinds: Sequence[str]) -> dict[str, Any]:
    sections = [
        {
            "citation": citation(chunk),
            **picked(chunk, "path pages lines start end"),
            "tokens": count_tokens(chunk.text),
            "views": {kind: made.texts.get((chunk.id, kind), []) for kind in kinds},
        }
        for chunk in made.entry.chunks
    ]
    document = made.entry.document
    return {"source": document.source or document.id, "title": document.title, "sections": sections}


def _show(made: _Made, kinds: Sequence[str]) -> None:
    """Write each section's citation and length, and its views; "-" where it has none of a kind."""
    from rich.table import Table
    from rich.text import Text

    from catena.cli.rendering import cited_as, number, source_of

    for place, chunk in enumerate(made.entry.chunks):
        if place == 0:
            out().print(Text(source_of(chunk), style="cyan"))
        size = number(count_tokens(chunk.text), "token")
        out().print(Text.assemble((cited_as(chunk), "bold"), (f"  {size}", "dim")))
        grid = Table.grid(padding=(0, 1))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for kind in kinds:
            texts = made.texts.get((chunk.id, kind)) or ["-"]
            shown = ["(its own text)" if text == chunk.text else printable(text) for text in texts]
            grid.add_row(f"  {kind}", "\n".join(shown))
        out().print(grid)
    out().print()


def sections_of(
    paths: Sequence[Path], preparation: Preparation, password: str | None
) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Return the files below these paths as entries whose chunks are their sections; what fails is told on stderr.

    A document's id is its path below the folder that holds all of them, so that it is the same on another machine.

    Returns:
        The entries, and the names of the files that could not be read.

    Raises:
        ProblemError: there are no files, or none could be read.
    """
    from catena.library.discovery import discover
    from catena.library.pipeline import prepare, read
    from catena.parsing import supported_suffixes
    from catena.text import path_text

    suffixes = supported_suffixes()
    found = [
        (path, name)
        for path, name in discover(paths)
        if path.suffix.lower() in suffixes or not path.is_file() or path in paths
    ]
    if not found:
        raise no_files()
    home = _home([path for path, _ in found])
    entries: list[Entry] = []
    failed: dict[str, str] = {}
    hint = ""
    for path, name in counted(found, "reading", "files"):
        own = path_text(Path(os.path.relpath(path, home))) if home else name
        try:
            parsed = read(path, preparation, document_id=own, source=own, password=password)
        except ParseError as error:
            what, advice = split_hint(str(error))
            hint = hint or advice
            failed[name] = what
            continue
        entries.append(prepare(parsed.document, preparation))
    for what in failed.values():
        tell(f"not read: {what}", "red")
    if not entries:
        raise ProblemError("no file could be read", hint or "files with text", SOME_FAILED)
    return tuple(entries), tuple(failed)


def _home(paths: Sequence[Path]) -> str:
    """Return the folder that holds all files, "" where they are on several drives."""
    try:
        return os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    except ValueError:
        return ""
