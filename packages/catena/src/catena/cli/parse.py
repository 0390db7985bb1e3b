"""`catena parse`: files to Markdown, by their layout, or with a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.console import err, write_json, write_text
from catena.cli.failures import SOME_FAILED, ProblemError, check_targets, split_hint
from catena.cli.llm_options import ModelOptions
from catena.cli.option_groups import grouped
from catena.cli.options import (
    AsJson,
    Engine,
    NoHiddenText,
    Password,
    PdfEngine,
    ReadingMemory,
    ReadingTime,
    RuledTables,
    preparation_of,
)
from catena.cli.progress import counted
from catena.cli.terminal import printable
from catena.model.errors import ParseError

if TYPE_CHECKING:
    from catena.formatting.fidelity_report import FidelityReport
    from catena.formatting.llm_markdown import FormatOptions
    from catena.library.pipeline import Preparation
    from catena.model import Section
    from catena.model.layout import Parsed


@grouped
def parse(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="PDF, HTML, Markdown or text files.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="PATH", help="Write there, not to stdout; of several files, a folder."),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option("--llm", metavar="MODEL", help="Let this OpenAI-compatible model write the Markdown."),
    ] = None,
    asking: ModelOptions,
    plan: Annotated[bool, typer.Option("--plan", help="Say what the model would take; ask nothing.")] = False,
    window: Annotated[
        int | None, typer.Option("--window", min=1, metavar="WORDS", help="Words that one call answers for [800].")
    ] = None,
    padding: Annotated[
        int | None, typer.Option("--padding", min=1, metavar="WORDS", help="Words shown before and after [100].")
    ] = None,
    fidelity: Annotated[
        Path | None, typer.Option("--fidelity", metavar="FILE.json", help="Write how faithful each page is.")
    ] = None,
    fidelity_plot: Annotated[
        Path | None,
        typer.Option(
            "--fidelity-plot", metavar="FILE.png|html", help="Draw it; of several files, FILE-1, FILE-2, …."
        ),
    ] = None,
    engine: PdfEngine = Engine.PYPDF,
    ruled_tables: RuledTables = False,
    timeout: ReadingTime = None,
    memory: ReadingMemory = None,
    no_hidden_text: NoHiddenText = False,
    password: Password = None,
    as_json: AsJson = False,
) -> None:
    """Turn files into Markdown; pages without text are named on stderr.

    With --llm a model writes the Markdown, window by window. Its words are checked against the file; pages that it
    does not give faithfully come from the layout. Its key is read from CATENA_API_KEY or OPENAI_API_KEY. Replies
    are kept in the journal, so that a stopped run goes on where it ended and nothing is paid for twice.
    """
    from catena.cli import parse_llm

    asking.require(llm, window=window, padding=padding, fidelity=fidelity, fidelity_plot=fidelity_plot, plan=plan)
    if fidelity_plot is not None and fidelity_plot.suffix.lower() not in (".png", ".html"):
        raise ProblemError(f"{fidelity_plot} is neither .png nor .html", "a file name that ends in one of them")
    targets = _targets(files, out)
    drawn = parse_llm.pictures(fidelity_plot, len(files)) if fidelity_plot is not None else []
    check_targets(fidelity, fidelity_plot, *drawn, *targets.values(), inputs=files)
    preparation = preparation_of(engine, ruled_tables, hidden_text=not no_hidden_text, timeout=timeout, memory=memory)
    reports: dict[Path, FidelityReport] = {}
    if llm is None:
        parsed, failed = _read(files, preparation, password, layout=True)
    else:
        options = _options(window, padding)
        with asking.services(llm, dry=plan) as services:
            parsed, failed = _read(files, preparation, password, layout=False)
            if plan:
                parse_llm.show_plan(parsed, services, options, asking.spending, as_json=as_json)
                _end(failed, parsed, files)
                return
            done = parse_llm.formatted(parsed, services, options)
        parsed = {file: each for file, (each, _) in done.items()}
        reports = {file: report for file, (_, report) in done.items()}
        if fidelity is not None:
            parse_llm.write_fidelity([*reports.values()], fidelity)
        if fidelity_plot is not None:
            parse_llm.draw_fidelity([*reports.values()], fidelity_plot)
    _write(parsed, targets, reports, as_json=as_json)
    _end(failed, parsed, files)


def _options(window: int | None, padding: int | None) -> FormatOptions:
    from catena.formatting.llm_markdown import FormatOptions

    usual = FormatOptions()
    return FormatOptions(
        window=usual.window if window is None else window, padding=usual.padding if padding is None else padding
    )


def _targets(files: Sequence[Path], out: Path | None) -> dict[Path, Path | None]:
    """Return where each file goes: `out` itself for one, a file of the same name in it for several.

    Raises:
        ProblemError: two files would be written to one.
    """
    if out is None or (len(files) == 1 and not out.is_dir()):
        return dict.fromkeys(files, out)
    targets: dict[Path, Path | None] = {file: out / f"{file.stem}.md" for file in files}
    if len(set(targets.values())) < len(targets):
        raise ProblemError(f"files of the same name cannot all be written to {out}", "one call per folder of files")
    out.mkdir(parents=True, exist_ok=True)
    return targets


def _read(
    files: Sequence[Path], preparation: Preparation, password: str | None, *, layout: bool
) -> tuple[dict[Path, Parsed], dict[Path, ParseError]]:
    """Read the files; of several, those that cannot be read are returned with the reason."""
    from catena import parsing
    from catena.library.pipeline import read

    parsed: dict[Path, Parsed] = {}
    failed: dict[Path, ParseError] = {}
    for file in counted(files, "reading", "files"):
        try:
            if layout:
                parsed[file] = read(file, preparation, source=str(file), password=password)
            else:
                parsed[file] = parsing.parse(
                    file,
                    source=str(file),
                    password=password,
                    limits=preparation.limits,
                    engine=preparation.engine,
                    ruled_tables=preparation.ruled_tables,
                    hidden_text=preparation.hidden_text,
                )
        except ParseError as error:
            failed[file] = error
            if len(files) == 1:
                raise
    return parsed, failed


def _write(
    parsed: Mapping[Path, Parsed],
    targets: Mapping[Path, Path | None],
    reports: Mapping[Path, FidelityReport],
    *,
    as_json: bool,
) -> None:
    from catena.structure.headings import outline

    found = {file: outline(each.document) for file, each in parsed.items()}
    for file, each in parsed.items():
        target = targets[file]
        if target is not None:
            target.write_text(each.document.text, encoding="utf-8", newline="")
        elif not as_json:
            write_text(each.document.text)
    if as_json:
        values = [_as_json(each, found[file], reports.get(file)) for file, each in parsed.items()]
        write_json(values[0] if len(targets) == 1 else values)
    for file, each in parsed.items():
        _report(file, targets[file], each, found[file], reports.get(file))


def _end(failed: Mapping[Path, ParseError], parsed: Mapping[Path, Parsed], files: Sequence[Path]) -> None:
    """Name the files that could not be read, or not to their end.

    Raises:
        ProblemError: there are some.
    """
    for error in failed.values():
        err().print(printable(f"not read: {error}", one_line=True), style="red", soft_wrap=True)
    if failed:
        what, hint = (
            f"{len(failed)} of {len(files)} files were not read",
            "the paths and types of the files named above",
        )
        raise ProblemError(what, hint, SOME_FAILED)
    if cut := [each for each in parsed.values() if each.retry]:
        hint = split_hint(f". Try: {cut[0].retry}")[1]
        raise ProblemError(f"{len(cut)} of {len(files)} files were not read to their end", hint, SOME_FAILED)


def _report(
    file: Path, out: Path | None, parsed: Parsed, sections: Sequence[Section], report: FidelityReport | None
) -> None:
    from catena.cli.views import number

    console = err()
    for note in parsed.notes:
        why = f": {printable(note.why, one_line=True)}" if note.why else ""
        console.print(f"page {note.page}: {note.state}{why}", style="yellow")
    pages = len(parsed.document.page_starts)
    parts = ([number(pages, "page")] if pages else []) + [number(len(sections), "section")]
    named = printable(f"{file} -> {out}" if out is not None else f"{file} ->", one_line=True)
    console.print(f"{named} {', '.join(parts)}", style="bold", soft_wrap=True)
    if report is not None and report.pages:
        from catena.cli.parse_llm import told

        console.print(told(report), style="yellow" if report.states["layout"] else None, soft_wrap=True)


def _as_json(parsed: Parsed, sections: Sequence[Section], report: FidelityReport | None) -> dict[str, Any]:
    """Return the document with its pages, sections and notes; spans are 0-based [start, end) in `text`."""
    document = parsed.document
    noted = {note.page: note for note in parsed.notes if note.state != "hidden"}
    starts = (*document.page_starts, len(document.text))
    return {
        "document": {
            "id": document.id,
            "title": document.title,
            "source": document.source,
            "media_type": document.media_type,
            "metadata": document.metadata,
            "text": document.text,
        },
        "state": parsed.state,
        "pages": [
            {
                "number": page,
                "label": document.page_labels[page - 1] if document.page_labels else "",
                "start": starts[page - 1],
                "end": starts[page],
                "state": noted[page].state if page in noted else "text",
            }
            for page in range(1, len(document.page_starts) + 1)
        ],
        "sections": sections,
        "notes": parsed.notes,
        **({"fidelity": report.as_json()} if report is not None else {}),
    }
