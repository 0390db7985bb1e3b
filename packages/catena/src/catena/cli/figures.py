"""Run `catena figures`: crop the figures of a PDF; and show figures for other commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.console import out, picked, printable, tell, write_json
from catena.cli.failures import SOME_FAILED, ProblemError, check_targets, split_hint
from catena.cli.options import AsJson, Password, ReadingChoices, ReadingMemory, ReadingTime, option

if TYPE_CHECKING:
    from catena.library import Library
    from catena.model import Figure, Hit


def figures(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A PDF.")],
    *,
    folder: Annotated[
        Path | None, option("DIR", "Write them there as PNG, drawings as SVG, too.", "--out", "-o")
    ] = None,
    dpi: Annotated[float, typer.Option(min=36, max=600, help="Dots per inch of the pictures.")] = 200.0,
    password: Password = None,
    timeout: ReadingTime = None,
    memory: ReadingMemory = None,
    as_json: AsJson = False,
) -> None:
    """Crop the figures of a PDF, bitmaps and drawings (extra fast-pdf); list them with page, title and size.

    With --out, a drawing is written as SVG, too: lines, areas and text, to be scaled and searched.
    """
    from dataclasses import replace

    from catena.formatting import figures_of, format_layout
    from catena.parsing import parse

    limits = ReadingChoices(timeout=timeout, memory=memory).preparation().limits
    parsed = parse(file, password=password, limits=limits, engine="pypdfium2", figures=True, figure_dpi=dpi)
    if parsed.layout is None:
        raise ProblemError(f"{file} is no PDF; only these have pages to crop figures from", "a PDF")
    found = figures_of(replace(parsed, document=format_layout(parsed)))
    if folder is not None:
        _write(folder, found, file)
    for note in parsed.notes:
        if note.state != "blank":
            tell(f"page {note.page}: {note.why}")
    if as_json:
        paths = [None if folder is None else folder / figure.name for figure in found]
        write_json({"source": file, "figures": [as_data(*pair) for pair in zip(found, paths, strict=True)]})
    elif found:
        _show(found)
    if parsed.retry:
        raise ProblemError(f"{file} was not read to its end", split_hint(f". Try: {parsed.retry}")[1], SOME_FAILED)
    if not found:
        raise ProblemError("no figure was found", "a page's picture: a scan is no figure, it needs OCR", SOME_FAILED)


def _write(folder: Path, found: Sequence[Figure], source: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_targets(*(folder / figure.name for figure in found), inputs=[source])
        for figure in found:
            (folder / figure.name).write_bytes(figure.png)
            if figure.svg:
                (folder / figure.name).with_suffix(".svg").write_text(figure.svg, encoding="utf-8")
    except OSError as error:
        what = f"the pictures cannot be written to {folder} ({error.strerror})"
        raise ProblemError(what, "--out with a folder of your own") from None


def _show(found: Sequence[Figure]) -> None:
    from catena.cli.rendering import number, table

    listed = table("File", "Page#", "Title", "Pixels#", "Kind")
    for figure in found:
        title = printable(figure.title or figure.labels, one_line=True)
        shown = title if len(title) <= 60 else title[:59] + "…"
        listed.add_row(figure.name, str(figure.page), shown, f"{figure.width} x {figure.height}", figure.kind)
    out().print(listed)
    out().print(number(len(found), "figure"))


def as_data(figure: Figure, path: Path | None) -> dict[str, Any]:
    """Return what is known of a figure, without its bytes; lengths of `box` are points, sizes pixels."""
    told = picked(figure, "name page kind title labels caption width height box")
    return {**told, "bytes": len(figure.png), "file": path}


def shown_figures(library: Library, hits: Sequence[Hit]) -> dict[str, tuple[Figure, Path | None]]:
    """Return chunk id -> figure and its file, for the hits that show one; no file where none can be written."""
    from catena.model.errors import LibraryError
    from catena.model.figures import FIGURE

    found: dict[str, tuple[Figure, Path | None]] = {}
    for hit in hits:
        if FIGURE in hit.chunk.metadata:
            path = None
            with suppress(LibraryError):
                path = library.figure_file(hit)
            found[hit.chunk.id] = library.figure(hit), path
    return found


def places(figures: Mapping[str, tuple[Figure, Path | None]]) -> dict[str, str]:
    """Return chunk id -> where its figure is: its file, or page and size where there is none."""
    return {
        chunk: str(path) if path is not None else f"page {figure.page}, {figure.width} x {figure.height} pixels"
        for chunk, (figure, path) in figures.items()
    }
