"""Run `catena parse`: turn files into Markdown by their layout, or with a language model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.console import err, picked, printable, tell, write_json, write_text
from catena.cli.failures import SOME_FAILED, ProblemError, check_targets, end_with, split_hint
from catena.cli.llm_options import ModelOptions, done
from catena.cli.options import AsJson, DryRun, FieldsOf, Given, NoHiddenText, ReadingChoices, grouped, option, picture
from catena.cli.progress import counted
from catena.effects import Failed, Services, Step, plan, together
from catena.formatting import FidelityReport, format_markdown
from catena.formatting.llm_markdown import PLANNED_ANSWERS, PURPOSE_AGAIN, FormatOptions, Formatted, window_count
from catena.model import Parsed, ParseError, Section, needs

if TYPE_CHECKING:
    from catena.library.pipeline import Preparation


@grouped
def parse(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="PDF, HTML, Markdown or text files.")],
    *,
    target: Annotated[
        Path | None, option("PATH", "Write there, not to stdout; of several files, a folder.", "--out", "-o")
    ] = None,
    llm: Annotated[str | None, option("MODEL", "Let this OpenAI-compatible model write the Markdown.")] = None,
    asking: ModelOptions,
    plan: DryRun = False,
    windows: Annotated[Given, FieldsOf(FormatOptions, only_with="--llm", window="--window", padding="--padding")],
    fidelity: Annotated[Path | None, option("FILE.json", "With --llm: write how faithful each page is.")] = None,
    fidelity_plot: Annotated[
        Path | None, picture("With --llm: draw it, of several files into FILE-1, FILE-2, …")
    ] = None,
    reading: ReadingChoices,
    no_hidden_text: NoHiddenText = False,
    as_json: AsJson = False,
) -> None:
    """Turn files into Markdown; pages without text are named on stderr.

    With --llm a model writes the Markdown, window by window. Its words are checked against the file; pages that it
    does not give faithfully come from the layout. Its key is read from CATENA_API_KEY or OPENAI_API_KEY. Replies
    are kept in the journal, so that a stopped run goes on where it ended and nothing is paid for twice.
    """
    asking.require(llm, **windows, fidelity=fidelity, fidelity_plot=fidelity_plot, plan=plan)
    options = FormatOptions(**windows)
    targets = _targets(files, target)
    drawn = [] if fidelity_plot is None else pictures(fidelity_plot, len(files))
    check_targets(fidelity, *targets.values(), pictures=(fidelity_plot, *drawn), inputs=files)
    preparation = reading.preparation(hidden_text=not no_hidden_text)
    reports: dict[Path, FidelityReport] = {}
    if llm is None:
        parsed, failed = _read(files, preparation, reading.password, layout=True)
    else:
        with asking.services(llm, dry=plan) as services:
            parsed, failed = _read(files, preparation, reading.password, layout=False)
            if plan:
                _show_plan(parsed, services, options, asking, as_json=as_json)
                _end(failed, parsed, files)
                return
            parsed, reports = _formatted(parsed, services, options)
        if fidelity is not None:
            kept = [report.as_json() for report in reports.values()]  # one as an object, several as a list
            text = json.dumps(kept[0] if len(kept) == 1 else kept, ensure_ascii=False, indent=2)
            fidelity.write_text(f"{text}\n", encoding="utf-8")
        if fidelity_plot is not None:
            _draw_fidelity([*reports.values()], fidelity_plot)
    _write(parsed, targets, reports, as_json=as_json)
    _end(failed, parsed, files)


def _targets(files: Sequence[Path], out: Path | None) -> dict[Path, Path | None]:
    """Return where each file goes: `out` itself for one, a file of the same name in it for several; "-" is stdout.

    Raises:
        ProblemError: two files would be written to one.
    """
    out = None if out == Path("-") else out
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
    from catena.library.pipeline import read
    from catena.parsing import cores

    parsed: dict[Path, Parsed] = {}
    failed: dict[Path, ParseError] = {}
    for file in counted(files, "reading", "files"):
        try:
            parsed[file] = read(
                file, preparation, source=str(file), password=password, layout=layout, workers=cores()
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
        tell(f"not read: {error}", "red")
    end_with(failed, len(files))
    if cut := [each for each in parsed.values() if each.retry]:
        hint = split_hint(f". Try: {cut[0].retry}")[1]
        raise ProblemError(f"{len(cut)} of {len(files)} files were not read to their end", hint, SOME_FAILED)


def _report(
    file: Path, out: Path | None, parsed: Parsed, sections: Sequence[Section], report: FidelityReport | None
) -> None:
    from catena.cli.rendering import number

    console = err()
    for note in parsed.notes:
        why = f": {printable(note.why, one_line=True)}" if note.why else ""
        console.print(f"page {note.page}: {note.state}{why}", style="yellow")
    pages = len(parsed.document.page_starts)
    parts = ([number(pages, "page")] if pages else []) + [number(len(sections), "section")]
    named = printable(f"{file} -> {out}" if out is not None else f"{file} ->", one_line=True)
    console.print(f"{named} {', '.join(parts)}", style="bold", soft_wrap=True)
    if report is not None and report.pages:
        console.print(_told_pages(report), style="yellow" if report.states["layout"] else None, soft_wrap=True)


def _as_json(parsed: Parsed, sections: Sequence[Section], report: FidelityReport | None) -> dict[str, Any]:
    """Return the document with its pages, sections and notes; spans are 0-based [start, end) in `text`."""
    document = parsed.document
    noted = {note.page: note for note in parsed.notes if note.state != "hidden"}
    starts = (*document.page_starts, len(document.text))
    return {
        "document": picked(document, "id title source media_type metadata text"),
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


def _formatted(
    parsed: Mapping[Path, Parsed], services: Services, options: FormatOptions
) -> tuple[dict[Path, Parsed], dict[Path, FidelityReport]]:
    """Format files side by side, with a progress bar on stderr.

    Returns:
        Each file with its document as the model wrote it, and each with its report.

    Raises:
        Exit: it was stopped by Ctrl-C; stderr says what is kept.
        CatenaError: the budget would be passed, or the journal failed.
    """
    step, windows = _all(parsed, options), _windows(parsed, options)
    results = done(step, services, "formatting", "windows", windows, again=PURPOSE_AGAIN)
    formatted: dict[Path, Parsed] = {}
    reports: dict[Path, FidelityReport] = {}
    for (file, before), result in zip(parsed.items(), results, strict=True):
        if isinstance(result, Failed):
            raise result.error
        formatted[file], reports[file] = replace(before, document=result.document), result.fidelity
    return formatted, reports


def _show_plan(
    parsed: Mapping[Path, Parsed], services: Services, options: FormatOptions, asking: ModelOptions, *, as_json: bool
) -> None:
    """Write what formatting these files would take; nothing is called."""
    found = plan(_all(parsed, options), services, tariff=asking.tariff(), stand_ins=PLANNED_ANSWERS)
    windows = _windows(parsed, options)
    remarks = (
        f"{found.kept} of {windows} windows are in the journal already." if found.kept else "",
        "An answer that is not faithful is asked for once again; that is not counted.",
    )
    asking.write_plan(found, {"files": len(parsed), "windows": windows}, remarks, as_json=as_json)


def _told_pages(report: FidelityReport) -> str:
    """Return in one line who wrote how many pages, and name the pages of the layout formatter."""
    from catena.cli.rendering import number

    states = report.states
    by_layout = [str(page.page) for page in report.pages if page.state == "layout"]
    parts = [f"{number(states['llm'], 'page')} by the model"]
    if states["re-asked"]:
        parts.append(f"{states['re-asked']} asked again")
    if by_layout:
        shown = ", ".join(by_layout[:20]) + (" …" if len(by_layout) > 20 else "")
        parts.append(f"{len(by_layout)} from the layout: {shown}")
        parts.append(f"because of {_reasons(report)}")
    return "; ".join(parts)


def _reasons(report: FidelityReport) -> str:
    """Return what was wrong with the model's pages, the most frequent first; for no answer, why there was none."""
    faults = [fault for page in report.pages if page.state == "layout" for fault in page.faults]
    kinds = [kind for kind, _ in Counter(fault.kind for fault in faults).most_common()]
    silent = next((f" ({fault.detail})" for fault in faults if fault.kind == "no-answer" and fault.detail), "")
    return ", ".join(kind + (silent if kind == "no-answer" else "") for kind in kinds) or "too little recall or order"


def _draw_fidelity(reports: Sequence[FidelityReport], target: Path) -> None:
    """Draw the strip of one report; of several, one picture each, numbered from 1."""
    with needs("catena-view"):
        from catena_view.plots.views import fidelity_strip

    for report, path in zip(reports, pictures(target, len(reports)), strict=True):
        if report.pages:
            fidelity_strip(report, path)


def pictures(target: Path, count: int) -> list[Path]:
    """Return where so many pictures go: `target` for one, numbered from 1 for several."""
    if count == 1:
        return [target]
    return [target.with_stem(f"{target.stem}-{number}") for number in range(1, count + 1)]


def _all(parsed: Mapping[Path, Parsed], options: FormatOptions) -> Step[list[Any]]:
    steps: list[Step[Formatted]] = [format_markdown(each, options) for each in parsed.values()]
    return together(steps)


def _windows(parsed: Mapping[Path, Parsed], options: FormatOptions) -> int:
    return sum(window_count(each, options) for each in parsed.values())
