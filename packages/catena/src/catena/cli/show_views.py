"""`catena views`: the views of one's own files, section by section, without a library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.asked_model import AskedModel, done
from catena.cli.console import out, write_json
from catena.cli.failures import SOME_FAILED, ProblemError
from catena.cli.llm_options import ModelOptions
from catena.cli.notices import tell_degraded
from catena.cli.option_groups import grouped
from catena.cli.options import (
    AsJson,
    Engine,
    FilePaths,
    Password,
    PdfEngine,
    ReadingMemory,
    ReadingTime,
    RuledTables,
    preparation_of,
)
from catena.cli.section_reading import end_with, sections_of
from catena.cli.terminal import printable
from catena.cli.view_options import MadeBy, ViewKinds, check_makers, made_kinds, makers_of

if TYPE_CHECKING:
    from catena.effects import Step
    from catena.enrichment.view_maker import ViewMaker
    from catena.model import Chunk, Degraded, Entry

USUAL = ("keywords", "summary")


@grouped
def views(
    paths: FilePaths,
    *,
    kinds: ViewKinds = None,
    by: Annotated[MadeBy | None, typer.Option("--by", help="Who makes them [offline].")] = None,
    llm: Annotated[
        str | None, typer.Option("--llm", metavar="MODEL", help="The OpenAI-compatible model for --by llm.")
    ] = None,
    language: Annotated[
        str | None,
        typer.Option("--language", metavar="WORD", help="Of what a model writes [the document's own]."),
    ] = None,
    asking: ModelOptions,
    plan: Annotated[bool, typer.Option("--plan", help="Say what the model would take; ask nothing.")] = False,
    engine: PdfEngine = Engine.PYPDF,
    ruled_tables: RuledTables = False,
    timeout: ReadingTime = None,
    memory: ReadingMemory = None,
    password: Password = None,
    as_json: AsJson = False,
) -> None:
    """Show under what each section of your files would be found: its keywords, its summary; no library is made.

    Without --views these two; with `--by llm --llm NAME` a model writes them, and --views questions is possible, too.
    A section of up to 200 tokens is its own summary. `catena index --chunks sections --views keywords,summary` keeps
    views in a library, and `catena search --views all` finds by them.
    """
    from catena.structure.section_chunks import SectionChunkOptions

    wanted = made_kinds(kinds) or USUAL
    asked = AskedModel(llm=llm, options=asking, plan=plan)
    _check(wanted, by, asked, language)
    makers = makers_of(wanted, by, language or "")
    preparation = replace(
        preparation_of(engine, ruled_tables, timeout=timeout, memory=memory), chunks=SectionChunkOptions()
    )
    with asked.services() as services:
        entries, failed = sections_of(paths, preparation, password)
        if plan:
            counts = {"documents": len(entries), "sections": sum(len(entry.chunks) for entry in entries)}
            asked.show_plan(_all(entries, makers), services, counts, stand_ins=_stand_ins(), as_json=as_json)
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


def _check(kinds: Sequence[str], by: MadeBy | None, asked: AskedModel, language: str | None) -> None:
    """Refuse options that could do nothing.

    Raises:
        ProblemError: there is one.
    """
    check_makers(kinds, by, "--by")
    if by is MadeBy.LLM and asked.llm is None:
        raise ProblemError("--by llm needs the name of a model", "--llm NAME")
    if asked.llm is not None and by is not MadeBy.LLM:
        raise ProblemError("--llm needs to be told what for", "--by llm")
    if language is not None and by is not MadeBy.LLM:
        raise ProblemError("--language is obeyed by models only", "--by llm --llm NAME")
    asked.check()


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
    from catena.effects import Failed, together
    from catena.enrichment.views import make_views

    steps = [make_views(entry.chunks, makers, title=entry.document.title) for entry in entries]
    results = yield from together(steps)
    made: list[_Made] = []
    for entry, result in zip(entries, results, strict=True):
        if isinstance(result, Failed):
            raise result.error
        found, degraded = result
        texts: dict[tuple[str, str], list[str]] = {}
        for view in found:
            texts.setdefault((view.chunk_id, view.kind), []).append(view.text)
        made.append(_Made(entry=entry, texts=texts, degraded=degraded))
    return tuple(made)


def _stand_ins() -> Any:
    from catena.library.ingestion import PLANNED_ANSWERS

    return PLANNED_ANSWERS


def _tokens(chunk: Chunk) -> int:
    from catena.structure.tokens import count_tokens

    return count_tokens(chunk.text)


def _as_data(made: _Made, kinds: Sequence[str]) -> dict[str, Any]:
    from catena.model.places import citation

    sections = [
        {
            "citation": citation(chunk),
            "path": chunk.path,
            "pages": chunk.pages,
            "lines": chunk.lines,
            "start": chunk.start,
            "end": chunk.end,
            "tokens": _tokens(chunk),
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

    from catena.cli.views import cited_as, number, source_of

    for place, chunk in enumerate(made.entry.chunks):
        if place == 0:
            out().print(Text(source_of(chunk), style="cyan"))
        out().print(Text.assemble((cited_as(chunk), "bold"), (f"  {number(_tokens(chunk), 'token')}", "dim")))
        grid = Table.grid(padding=(0, 1))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for kind in kinds:
            texts = made.texts.get((chunk.id, kind)) or ["-"]
            shown = ["(its own text)" if text == chunk.text else printable(text) for text in texts]
            grid.add_row(f"  {kind}", "\n".join(shown))
        out().print(grid)
    out().print()
