"""Ruled tables of PDFs with merged cells: their header is one row, their labels stand in every row."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate, Table, TableStyle

from catena.formatting import format_layout
from catena.model import Merged
from catena.parsing import parse

ROWS = [
    ["Limits of operation", "", "", ""],
    ["Quantity", "Supply", "", "Unit"],
    ["", "min", "max", ""],
    ["Voltage", "1.8", "3.6", "V"],
    ["", "2.0", "4.0", "V"],
    ["Current", "5", "9", "mA"],
]
SPANS = [((0, 0), (3, 0)), ((1, 1), (2, 1)), ((0, 1), (0, 2)), ((3, 1), (3, 2)), ((0, 3), (0, 4))]


def pdf_of(tmp_path: Path, rows: list[list[str]], spans: list[tuple[tuple[int, int], tuple[int, int]]]) -> Path:
    buffer = io.BytesIO()
    table = Table(rows)
    table.setStyle(TableStyle([("GRID", (0, 0), (-1, -1), 0.5, "black"), *(("SPAN", *span) for span in spans)]))
    around = [
        Paragraph(text, getSampleStyleSheet()["BodyText"]) for text in ("Before the table.", "After the table.")
    ]
    SimpleDocTemplate(buffer, pagesize=A4).build([around[0], table, around[1]])
    path = tmp_path / "table.pdf"
    path.write_bytes(buffer.getvalue())
    return path


@pytest.mark.parametrize("engine", ["pypdf", "pypdfium2"])
def test_merged_cells_of_a_ruled_table(tmp_path: Path, engine: str) -> None:
    parsed = parse(pdf_of(tmp_path, ROWS, SPANS), ruled_tables=True, engine=engine)  # type: ignore[arg-type]
    assert parsed.layout is not None
    (table,) = parsed.layout.pages[0].tables
    assert sorted(table.merged) == [
        Merged(0, 0, 1, 4),
        Merged(1, 0, 2, 1),
        Merged(1, 1, 1, 2),
        Merged(1, 3, 2, 1),
        Merged(3, 0, 2, 1),
    ]
    assert format_layout(parsed).text == (
        "Before the table.\n\n"
        "Limits of operation\n\n"
        "| Quantity | Supply min | Supply max | Unit |\n"
        "| --- | --- | --- | --- |\n"
        "| Voltage | 1.8 | 3.6 | V |\n"
        "| Voltage | 2.0 | 4.0 | V |\n"
        "| Current | 5 | 9 | mA |\n\n"
        "After the table.\n"
    )


def test_a_ruled_table_without_merged_cells_is_as_printed(tmp_path: Path) -> None:
    parsed = parse(pdf_of(tmp_path, [["a", "b"], ["", "1"], ["c", "2"]], []), ruled_tables=True)
    assert parsed.layout is not None
    assert parsed.layout.pages[0].tables[0].merged == ()
    assert "| a | b |\n| --- | --- |\n|  | 1 |\n| c | 2 |\n" in format_layout(parsed).text


def test_a_group_in_the_body_stands_once(tmp_path: Path) -> None:
    rows = [["Part", "Number"], ["Spare parts", ""], ["Seal", "17"]]
    parsed = parse(pdf_of(tmp_path, rows, [((0, 1), (1, 1))]), ruled_tables=True)
    assert "| Part | Number |\n| --- | --- |\n| Spare parts |  |\n| Seal | 17 |\n" in format_layout(parsed).text
