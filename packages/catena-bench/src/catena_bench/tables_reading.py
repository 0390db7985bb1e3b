"""Measure which cells of financial tables readers of PDF keep whole: label, column and value.

Made-up statements, whose truth is exact, and the cells of a folder of the layout "filings": `pdfs/*.pdf`, and
`cells.jsonl` with `doc_name`, `page` (from 0), `row`, `column` (words above the value) and `value`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from pypdf import PdfReader, PdfWriter

from catena.formatting import format_layout
from catena.parsing import Engine, parse
from catena_bench.cell_judge import VERDICTS, PickedCell, begins_with_data, grids_in, judge
from catena_bench.collection import of_layout, rows
from catena_bench.figures import Figures, Tell, silent
from catena_bench.statement_pdfs import Producer, statement_pdfs

LONGEST = 1_800.0  # seconds that a reader may take for all files
Truth = dict[str, list[PickedCell]]
"""The cells of each file, by the stem of its name."""


def run(data: Path | None = None, *, reports: int = 24, tell: Tell = silent) -> Figures:
    """Give the same files to all readers that are installed, judge what they make of them, and return the figures.

    Args:
        data: a folder of the layout; None for generated truth alone. Each page with cells is read as a file alone.
        reports: how many reports to make up, of two to four pages.
        tell: is told how far the run is, and which readers and producers of PDF are not installed.

    Returns:
        `generated.cells` and `cells.count`: the number of cells; of each reader, after `generated.<reader>` and
        `cells.<reader>`: `.full`, `.header_missing`, `.merged`, `.lost`: shares of the cells, see `cell_judge.judge`;
        `.clean`: full or without its header; `.tables`: the number of tables found; `.data_row_headers`: the share of
        these that begin with a row of values; `.failed`: files that it did not read; `.seconds`: processor time for
        all files, the reader's import included, the start of the process not.

    Raises:
        ParameterError: `data` is no folder of the layout.
    """
    with TemporaryDirectory() as empty:
        asked = dict.fromkeys(installed(), texts_of("", Path(empty))[1])  # with the seconds of a process that starts
    for name in sorted({*READERS} - {*asked}):
        tell(f"{name} is not installed, and skipped")
    producers: list[Producer] = ["reportlab"]
    if find_spec("fpdf") is None:
        tell("fpdf2 is not installed: reportlab prints all reports")
    else:
        producers.append("fpdf2")
    figures: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        made: Truth = {}
        for each in statement_pdfs(reports, producers=producers):
            (Path(folder) / f"{each.name}.pdf").write_bytes(each.pdf)
            made[each.name] = list(each.cells)
        figures["generated.cells"] = float(sum(map(len, made.values())))
        figures |= _judged("generated", made, Path(folder), asked, tell)
    if data is not None:
        with TemporaryDirectory() as folder:
            picked = _picked(data, Path(folder))
            figures["cells.count"] = float(sum(map(len, picked.values())))
            figures |= _judged("cells", picked, Path(folder), asked, tell)
    return figures


def _picked(data: Path, folder: Path) -> Truth:
    """Write each page with picked cells into a folder as a file of its own, and return its cells."""
    found: Truth = {}
    with of_layout(data, "rows of cells with doc_name, page, row, column and value"):
        for row in rows(data / "cells.jsonl"):
            name = f"{row['doc_name']}-{row['page']}"
            cell = PickedCell(row=row["row"], column=tuple(row["column"]), value=row["value"])
            if name not in found:
                page = PdfReader(data / "pdfs" / f"{row['doc_name']}.pdf").pages[row["page"]]
                writer = PdfWriter()
                writer.add_page(page)
                writer.write(folder / f"{name}.pdf")
            found.setdefault(name, []).append(cell)
    return found


def _judged(key: str, truth: Truth, folder: Path, readers: Mapping[str, float], tell: Tell) -> Figures:
    figures: dict[str, float] = {}
    for reader, start in readers.items():
        tell(f"{key}: {reader}")
        texts, seconds = texts_of(reader, folder)
        for measure, value in _shares(truth, texts).items():
            figures[f"{key}.{reader}.{measure}"] = value
        figures[f"{key}.{reader}.seconds"] = max(0.0, seconds - start)
    return figures


def _shares(truth: Truth, texts: Mapping[str, str]) -> dict[str, float]:
    grids = {name: grids_in(texts.get(name, "")) for name in truth}
    verdicts = Counter(judge(cell, grids[name]) for name, cells in truth.items() for cell in cells)
    tables = [grid for found in grids.values() for grid in found]
    shares: dict[str, float] = {verdict: verdicts[verdict] / (verdicts.total() or 1) for verdict in VERDICTS}
    return {
        **shares,
        "clean": shares["full"] + shares["header_missing"],
        "failed": float(len(truth.keys() - texts.keys())),
        "tables": float(len(tables)),
        "data_row_headers": sum(map(begins_with_data, tables)) / (len(tables) or 1),
    }


def _catena(path: Path, engine: Engine = "pypdf") -> str:
    return format_layout(parse(path, engine=engine)).text


def _pdfplumber(path: Path) -> str:
    import pdfplumber

    with pdfplumber.open(path) as book:
        return "\n\n".join(_piped(table) for page in book.pages for table in page.extract_tables())


def _piped(table: Sequence[Sequence[str | None]]) -> str:
    return "\n".join("|" + "|".join(" ".join((cell or "").split()) for cell in row) + "|" for row in table)


def _markitdown(path: Path) -> str:
    from markitdown import MarkItDown

    return str(MarkItDown().convert(path).markdown)


def _edgeparse(path: Path) -> str:
    from edgeparse import convert

    return str(convert(path))


def _pdf_inspector(path: Path) -> str:
    from pdf_inspector import process_pdf

    return process_pdf(str(path)).markdown or ""


def _liteparse(path: Path) -> str:
    from liteparse import LiteParse

    return str(LiteParse(ocr_enabled=False, quiet=True, output_format="markdown").parse(path).text)


def _pymupdf4llm(path: Path) -> str:
    from pymupdf4llm import to_markdown

    return str(to_markdown(str(path)))


READERS: dict[str, Callable[[Path], str]] = {
    "catena": _catena,
    "catena_pypdfium2": partial(_catena, engine="pypdfium2"),
    "pdfplumber": _pdfplumber,
    "markitdown": _markitdown,
    "edgeparse": _edgeparse,
    "pdf_inspector": _pdf_inspector,
    "liteparse": _liteparse,
    "pymupdf4llm": _pymupdf4llm,
}


def installed() -> list[str]:
    """Return the names of the readers that can be asked here."""
    return [name for name in READERS if find_spec(name.partition("_pypdfium2")[0]) is not None]


def texts_of(reader: str, folder: Path) -> tuple[dict[str, str], float]:
    """Return what a reader makes of each PDF of a folder, by stem, and the seconds of processor time that it took.

    It runs in a process of its own, whose start is counted. A file that it fails on is left out.
    """
    begun = os.times()
    command = [sys.executable, "-m", "catena_bench.tables_reading", reader, str(folder)]
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(command, check=False, timeout=LONGEST, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended = os.times()
    seconds = ended.children_user + ended.children_system - begun.children_user - begun.children_system
    written = sorted(folder.glob(f"*.{reader}.md"))
    return {path.name.removesuffix(f".{reader}.md"): path.read_text("utf-8") for path in written}, seconds


def _read_all(reader: str, folder: Path) -> None:
    """Write what a reader makes of each PDF of a folder beside it."""
    for path in sorted(folder.glob("*.pdf")):
        with suppress(Exception):  # what a foreign reader raises is its own affair; the file counts as failed
            path.with_suffix(f".{reader}.md").write_text(READERS[reader](path), encoding="utf-8")


if __name__ == "__main__":
    _read_all(sys.argv[1], Path(sys.argv[2]))
