"""The bench of tables: a judge that can be trusted, statements whose truth is exact, and figures of what is read."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader
from written_rows import write_rows

from catena import ParameterError
from catena_bench import tables_reading
from catena_bench.cell_judge import PickedCell, Verdict, begins_with_data, grids_in, judge
from catena_bench.statement_pdfs import LOOKS, statement_pdfs
from catena_bench.statements import AccountStatement, report

SALES = PickedCell(row="Net sales, gross", column=("Three months ended", "July 29, 2023"), value="(3,540)")
HEAD = "| | Three months ended | |\n| --- | --- | --- |\n| | July 29, 2023 | July 30, 2022 |\n"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (HEAD + "| Net sales, gross | $ (3,540) | 3,393 |", "full"),
        (HEAD + "| Cost | 1 | 2 |\n| Net sales, | | |\n| gross | (3,540) | 3,393 |", "full"),
        (HEAD + "| Net sales, | 1 | 2 |\n| gross | (3,540) | 3,393 |", "merged"),  # the line above is another row
        (HEAD + "| Net sales, gross | 3,393 | (3,540) |", "header_missing"),
        (HEAD + "| Net sales, gross | 3,540 | 3,393 |", "lost"),  # its sign is gone
        (HEAD + "| Cost | 1 | 2 |\n| | 2022 | 2021 |\n| Net sales, gross | (3,540) | 7 |", "header_missing"),
        ("| Net sales, gross | (3,540) | 3,393 |\n| --- | --- | --- |", "header_missing"),
        (HEAD + "| Net sales, gross | (3,540) 3,393 | |", "merged"),
        (HEAD + "| Cost | (3,540) | 3,393 |", "merged"),
        ("Net sales, gross (3,540) 3,393", "lost"),
        (
            "<table><tr><th rowspan=2></th><th colspan=2>Three months ended</th></tr><tr><th>July 29, 2023</th>"
            "<th>July 30, 2022</th></tr><tr><td>Net sales, gross</td><td>(3,540)</td><td>3,393</td></tr></table>",
            "full",
        ),
    ],
)
def test_verdict_on_a_cell(text: str, verdict: Verdict) -> None:
    assert judge(SALES, grids_in(text)) == verdict


def test_subtotal_without_a_label_keeps_a_row_of_its_own() -> None:
    cell = PickedCell(row="", column=("2023",), value="512", group="Current assets:")
    head = "| | 2023 |\n| --- | --- |\n"
    assert judge(cell, grids_in(head + "| | 512 |")) == "full"
    assert judge(cell, grids_in(head + "| Current assets: › total | 512 |")) == "full"
    assert judge(cell, grids_in(head + "| Inventories | 512 |")) == "merged"


def test_row_of_values_is_no_header() -> None:
    assert begins_with_data([("Net sales", "$ 3,540", "12.0%")])
    assert not begins_with_data([("", "2023", "December 31, 2022", "Note 5")])


def _faithful(statement: AccountStatement) -> str:
    """Write a statement as a pipe table, each name of the head over all its columns."""
    paths = [[name.replace("\n", " ") for name in column.path] for column in statement.columns]
    head = [["", *names] for names in zip(*paths, strict=True)]
    rows = [[row.label + row.mark, *(row.values or [""] * len(paths))] for row in statement.rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in (*head, *rows))


@given(st.integers(0, 10_000))
def test_faithful_table_is_full_and_values_stand_once(seed: int) -> None:
    _, statements = report(seed)
    cells = [cell for statement in statements for cell in statement.cells()]
    grids = grids_in("\n\n".join(map(_faithful, statements)))
    assert {judge(cell, grids) for cell in cells} == {"full"}
    assert len({cell.value.strip("()%") for cell in cells}) == len(cells)


def test_each_look_prints_all_its_values_twice_alike() -> None:
    made = list(statement_pdfs(len(LOOKS)))
    assert [each.pdf for each in statement_pdfs(len(LOOKS))] == [each.pdf for each in made]
    for each in made:
        text = " ".join(page.extract_text() for page in PdfReader(BytesIO(each.pdf)).pages)
        assert not [cell.value for cell in each.cells if cell.value.strip("()%") not in text]


def test_figures_are_shares_of_all_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_reading, "installed", lambda: ["catena"])
    made = next(statement_pdfs(1))
    (tmp_path / "pdfs").mkdir()
    (tmp_path / "pdfs" / "report.pdf").write_bytes(made.pdf)
    row = {"doc_name": "report", "page": 0, "row": "Net sales", "column": ["2023"], "value": "512"}
    write_rows(tmp_path / "cells.jsonl", [row])
    told: list[str] = []
    figures = tables_reading.run(tmp_path, reports=1, tell=told.append)
    assert figures["generated.cells"] == len(made.cells)
    verdicts = [figures[f"generated.catena.{verdict}"] for verdict in ("full", "header_missing", "merged", "lost")]
    assert sum(verdicts) == 1
    assert (figures["cells.count"], figures["cells.catena.lost"]) == (1, 1)
    assert figures["generated.catena.seconds"] > 0
    assert "liteparse is not installed, and skipped" in told
    with pytest.raises(ParameterError, match=r"cells\.jsonl"):
        tables_reading.run(tmp_path / "pdfs", reports=1)
