"""`catena parse`: one file to Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catena.cli.console import err, write_json, write_text
from catena.cli.options import AsJson, Engine, Password, PdfEngine, RuledTables, preparation_of
from catena.cli.terminal import printable

if TYPE_CHECKING:
    from catena.layout import Parsed
    from catena.model import Section


def parse(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A PDF, HTML, Markdown or text file.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the Markdown there, not to stdout.")
    ] = None,
    engine: PdfEngine = Engine.PYPDF,
    ruled_tables: RuledTables = False,
    password: Password = None,
    as_json: AsJson = False,
) -> None:
    """Turn a file into Markdown; pages without text are named on stderr."""
    from catena.pipeline import read
    from catena.structure.outline import outline

    parsed = read(file, preparation_of(engine, ruled_tables), source=str(file), password=password)
    sections = outline(parsed.document)
    if out is not None:
        out.write_text(parsed.document.text, encoding="utf-8", newline="")
    if as_json:
        write_json(_as_json(parsed, sections))
    elif out is None:
        write_text(parsed.document.text)
    _report(file, out, parsed, sections)


def _report(file: Path, out: Path | None, parsed: Parsed, sections: Sequence[Section]) -> None:
    from catena.cli.views import number

    console = err()
    for note in parsed.notes:
        why = f": {printable(note.why, one_line=True)}" if note.why else ""
        console.print(f"page {note.page}: {note.state}{why}", style="yellow")
    pages = len(parsed.document.page_starts)
    parts = ([number(pages, "page")] if pages else []) + [number(len(sections), "section")]
    named = printable(f"{file} -> {out}" if out is not None else f"{file} ->", one_line=True)
    console.print(f"{named} {', '.join(parts)}", style="bold", soft_wrap=True)


def _as_json(parsed: Parsed, sections: Sequence[Section]) -> dict[str, Any]:
    """Return the document with its pages, sections and notes; spans are 0-based [start, end) in `text`."""
    document = parsed.document
    noted = {note.page: note for note in parsed.notes}
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
    }
