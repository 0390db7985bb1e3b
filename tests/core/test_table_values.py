"""Tables as values: paths of rows and columns, cells at their places, what a slice says above itself, questions."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from math import log1p
from pathlib import Path

import pytest
from case_files import cases_of
from hypothesis import assume, given
from hypothesis import strategies as st

from catena import Library
from catena.answering import integrate
from catena.cli.rendering import cell_lines
from catena.library import Preparation
from catena.model import TABLE_HEADER, Chunk, Document, Hit, MissingExtraError, Provenance, Ranking, Scale, shown_text
from catena.retrieval.cells import rank_cells
from catena.retrieval.fusion import NAME_ROUTE
from catena.structure import ChunkOptions, SectionChunkOptions, cut, outline, reader_text, slice_of, tables_of
from catena.text import count_tokens, read_value
from catena.text.tables import read_table

HERE = Path(__file__).parent
HEAD = "| (in thousands) | Year ended › 2015 | Year ended › 2014 |\n| --- | --- | --- |\n"
ROWS = (
    "| Revenues | $ 6,779 | $ 5,504 |\n"
    "| Operating expenses: |  |  |\n"
    "| \u2003Marketing | 824 | (607) |\n"
    "| \u2003Technology | — | 472 |\n"
    "|  | 1,000 | 900 |\n"
    "| Operating income | 305 | 402 |\n"
    "| Earnings per share: |  |  |\n"
    "| \u2003Basic | 0.29 | 0.63 |\n"
)


def chunk(text, start=0, **more):
    return Chunk(id="c", document_id="d", position=0, start=start, end=start + len(text), text=text, **more)


def cells_in(*chunks):
    return [cell for each in chunks for table in tables_of(each) for cell in table.cells]


def table_of(text, **more):
    (table,) = tables_of(chunk(text, kind="table", path=("Statements",), **more))
    return table


EM = "\u2003"


def test_cells_have_the_paths_of_their_row_and_column_and_stand_at_their_place() -> None:
    text = HEAD + ROWS
    table = table_of(text, start=40)
    assert (table.title, table.unit, table.columns[0]) == ("Statements", "in thousands", ("Year ended", "2015"))
    assert [(cell.row, cell.text) for cell in table.cells if cell.column[-1] == "2014"] == [
        (("Revenues",), "$ 5,504"),
        (("Operating expenses:", "Marketing"), "(607)"),
        (("Operating expenses:", "Technology"), "472"),
        (("Operating expenses:", ""), "900"),
        (("Operating income",), "402"),
        (("Earnings per share:", "Basic"), "0.63"),
    ]
    assert all(text[cell.start - 40 : cell.end - 40] == cell.text for cell in table.cells)
    numbers = [cell.number for cell in table.cells]
    assert numbers == [6779, 5504, 824, -607, None, 472, 1000, 900, 305, 402, 0.29, 0.63]


@pytest.mark.parametrize(
    ("cells", "numbers", "around"),
    [
        ("329,50 -12,5 1.234 1.499,00 45- 1.234.567", [329.5, -12.5, 1234, 1499, -45, 1234567], ""),
        ("1,234 0.5 1.234 (1,234.5) 12,34,567", [1234, 0.5, 1.234, -1234.5, 1234567], ""),
        ("1,234 1.234 45.- 12.05.2024", [1234, None, 45, None], ""),  # nothing tells
        ("1,234 1.234", [1234, 1.234], "The figures of the year are shown in the table below."),
        ("1,234 1.234", [1.234, 1234], "Die Werte sind in der Tabelle, und zwar für das Jahr."),
        ("1,5 2.5 1.234 1,234", [1.5, 2.5, None, 1234], ""),  # both
    ],
)
def test_numbers_are_read_as_the_other_cells_and_the_language_have_them(cells, numbers, around) -> None:
    text = f"{around}\n\n| A | B |\n|-|-|\n" + "".join(f"| x | {cell} |\n" for cell in cells.split())
    assert [cell.number for cell in cells_in(chunk(text))] == numbers


@pytest.mark.parametrize(("text", "cells"), cases_of("cases_table_groups.txt"))
def test_a_group_is_known_by_its_total_the_next_group_or_the_next_time(text: str, cells: str) -> None:
    assert "\n".join(f"{' › '.join(cell.row)}: {cell.text}" for cell in table_of(f"{text}\n").cells) == cells


BALANCE = (
    "LIABILITIES", ">Current:", ">>Debt", ">>>Total current", ">Other:", ">>Pensions", ">Nothing:",
    "EQUITY", ">Contingencies (Note 10)", ">Shares",
)  # fmt: skip


@pytest.mark.parametrize("cut_at", ["Debt", "Total current", "Pensions", "Shares"])
def test_indents_tell_parts_of_groups_from_their_neighbours_in_slices_too(cut_at) -> None:
    lines = [f"| {label.replace('>', EM)} | {'' if label[-1] in ':YS)' else '1'} |\n" for label in BALANCE]
    text = "| | 2015 |\n|-|-|\n" + "".join(lines)
    current, other = ("LIABILITIES", "Current:"), ("LIABILITIES", "Other:")
    expected = [(*current, "Debt"), (*current, "Total current"), (*other, "Pensions"), ("EQUITY", "Shares")]
    start = text.rindex("|", 0, text.index(cut_at))
    found = [cell.row for cell in cells_in(slice_of(chunk(text, kind="table"), start, len(text)))]
    assert found == expected[-len(found) :]
    assert found[0][-1] == cut_at


def test_a_table_is_written_as_markdown_csv_html_and_for_pandas() -> None:
    table = table_of("Sales, net (in thousands)\n" + HEAD + ROWS)
    lines = table.markdown().splitlines()
    assert lines[0] + lines[3] == HEAD.splitlines()[0] + "| Operating expenses: › Marketing | 824 | (607) |"
    assert table.csv().splitlines()[1] == 'Revenues,"$ 6,779","$ 5,504"'
    assert table.html().splitlines()[1:4] == [
        "<caption>Sales, net (in thousands)</caption>",
        '<tr><th></th><th colspan="2">Year ended</th></tr>',
        '<tr><th>(in thousands)</th><th colspan="1">2015</th><th colspan="1">2014</th></tr>',
    ]
    with pytest.raises(MissingExtraError, match="pandas") if find_spec("pandas") is None else nullcontext():
        assert table.pandas().loc["Operating income", "Year ended › 2014"] == "402"


def test_html_tables_are_read_by_the_same_reader() -> None:
    body = "<tr><th></th><th>2015</th></tr><tr><td>A</td><td>1</td></tr>"
    html = f"<table><caption>Prices (in millions)</caption>{body}</table>"
    (grid,) = read_table(html, 0, len(html))
    table = read_value(html, grid)
    assert (table.title, table.unit) == ("Prices (in millions)", "in millions")
    html = "<table><caption>Charges in €</caption><tr><th>Zone<th>Winter<tr><td>A<td>12</table>"
    assert (table_of(html).title, table_of(html).unit) == ("Charges in €", "in €")
    assert [(cell.row, cell.column, cell.number) for cell in table.cells] == [(("A",), ("2015",), 1.0)]


def test_a_slice_that_begins_inside_a_table_says_caption_header_and_groups_to_every_reader() -> None:
    text = "Sales, net\n" + HEAD + ROWS
    piece = slice_of(chunk(text, kind="table"), text.index("| \u2003Technology"), len(text))
    above = "Sales, net\n" + HEAD + "| Operating expenses: |  |  |"
    assert (piece.metadata[TABLE_HEADER], piece.text) == (above, text[text.index("| \u2003Technology") :].rstrip())
    assert shown_text(piece) == reader_text(piece) == f"{above}\n{piece.text}"
    assert above in integrate([piece.as_segment()]).text
    cell = tables_of(piece)[0].cells[0]
    assert (cell.row, cell.column, text[cell.start : cell.end]) == (
        ("Operating expenses:", "Technology"), ("Year ended", "2015"), "—",
    )  # fmt: skip
    assert TABLE_HEADER not in slice_of(chunk(text, kind="table"), 0, 30).metadata


words = st.text("abcdefgh ,.|%()0123456789", max_size=12).map(str.strip)


@given(st.lists(st.lists(words, min_size=3, max_size=3), min_size=1, max_size=12), st.integers(30, 90))
def test_the_cells_of_the_chunks_of_a_table_are_those_of_the_table(rows, tokens) -> None:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    text = "# T\n\n| | a › b | c |\n|---|---|---|\n" + "\n".join(lines) + "\n"
    document = Document(id="d", text=text, media_type="text/markdown")
    cuts = (ChunkOptions(max_tokens=limit, min_tokens=1) for limit in (10_000, tokens))
    whole, pieces = (
        [
            (cell.row[-1], cell.column, cell.text, cell.start, cell.end)
            for cell in cells_in(*cut(document, outline(document), options=options))
        ]
        for options in cuts
    )
    assume(all(count_tokens(line + "\n") <= tokens for line in lines))
    assert pieces == whole


def test_a_row_cut_inside_goes_on_below_its_label_and_in_its_column() -> None:
    row = f"| Cash \\| bank | {'first ' * 9}| {'second ' * 9}|\n"
    document = Document(id="d", text=f"# T\n\n| | a | b |\n|---|---|---|\n{row}", media_type="text/markdown")
    pieces = cut(document, outline(document), options=ChunkOptions(max_tokens=8, min_tokens=1))
    found = Counter((cell.row, cell.column[0], word) for cell in cells_in(*pieces) for word in cell.text.split())
    assert found == {(("Cash | bank",), "a", "first"): 9, (("Cash | bank",), "b", "second"): 9}


def test_a_question_finds_the_cell_of_its_row_and_period(tmp_path) -> None:
    text, question = HEAD + ROWS, "What was operating income in 2014?"
    report = f"# Report\n\n## Operations\n\n{text}\n## Outlook\n\nWe expect growth in 2016.\n"
    (tmp_path / "report.md").write_text(report)
    with Library.open(tmp_path / "library.catena") as library:
        library.index([str(tmp_path / "report.md")])
        found = library.cells(question, k=2)
        assert asyncio.run(library.acells(question, k=2)) == found
        cell = found[0].cell
        assert (cell.row, cell.column, cell.text) == (("Operating income",), ("Year ended", "2014"), "402")
        assert found[0].citation == "Report › Operations, line 12"
        assert (len(found), library.cells(question, k=0)) == (2, ())
        pages = (0, text.index("| Operating income"))
        library.index([Document(id="pages", text=text, page_starts=pages, media_type="text/markdown")])
        for label, place in (("Marketing", "page 1, line 5"), ("Operating income", "page 2, line 8")):
            found = library.cells(f"{label} 2015", k=1, where={"document_id": "pages"})
            assert found[0].citation.endswith(place)
            assert found[0].hit.chunk.pages == (1, 2)
        assert library.cells("technology 2014")[0].cell.text == "472"


ASKED = {
    "Northwind total revenue in 2022": "80",
    "What was the total revenue of Northwind for FY2023?": "100",
    "total revenue, Northwind, Q3 2022": "19",
    "total revenue, Northwind, quarter ended December 31, 2023": "30",
    "change of total revenue, Northwind": "25 %",
    "Northwind notes due March 2027 in 2022": "6",
    "Northwind total operating expenses 2023": "12",
    "Northwind total assets at the end of 2022": "400",
    "total assets of Northwind in June 2023": "500",
    "total assets of Northwind": "500",
    "Northwind cost of revenue in 2023": "50",
    "Halden total revenue in fiscal 2023": "900",
    "Halden cost of revenue in percent, 2023": "90.0%",
    "Halden total revenue Q4 FY22": "200",
}


@pytest.mark.parametrize("chunks", [ChunkOptions(), SectionChunkOptions()], ids=type)
def test_a_question_finds_the_cell_of_its_document_row_and_time(tmp_path, chunks) -> None:
    with Library.open(tmp_path / "library.catena", preparation=Preparation(chunks=chunks)) as library:
        library.index([HERE / "northwind.md", HERE / "halden.md"])
        assert {question: library.cells(question)[0].cell.text for question in ASKED} == ASKED
        of_halden = {"title": {"$contains": "Halden"}}
        assert library.cells("cost of revenue 2023", where=of_halden)[0].cell.text == "810"
        assert library.cells("total revenue", where={**of_halden, "kind": "figure"}) == ()
        assert len(library.cells("total revenue")) == 10


SITES = (
    "# Sites\n\n| No | Site | Quarter | Meter | Energy | Cost | Year |\n|---|---|---|---|---|---|---|\n"
    "| 41 | Lund | Q3 | SN0042 | 70 | 700 | 2022 |\n"
    "| 42 | Lund | Q1 | SN0041 | 71 | 710 | 2022 |\n"
    "| 43 | Lund | Q3 | SN0043 | 2010 kWh | 720 | 2023 |\n"
    "| 44 | Visby | Q3 | SN0044 | 73 | 730 | 2023 |\n"
)
BY_KEYS = {
    "cost in Lund in Q3 2023": "720",
    "energy of Visby in the third quarter": "73",
    "energy of SN0041": "71",
    "cost in Lund, Q1": "710",
    "cost in Lund in 2023": "720",
    "meter of Visby": "SN0044",
}


def test_words_and_times_of_the_rest_of_its_row_tell_which_cell_is_meant() -> None:
    hit = Hit(chunk(SITES, kind="table"), 1.0, named("SN0041"))
    found = {question: rank_cells(question, Ranking((hit,), Scale.RANK), k=1)[0] for question in BY_KEYS}
    assert {question: each.cell.text for question, each in found.items()} == BY_KEYS
    best = found["cost in Lund in Q3 2023"]
    assert best.keys == ("Lund", "Q3", "SN0043", "2023")
    assert len(repr(best)) < 300
    assert "43 › Lund › Q3 › SN0043 › 2023 › Cost: 720" in cell_lines(best).plain


def named(name):
    return (Provenance(route=NAME_ROUTE, rank=1, score=1.0, view=name),) if name else ()


def hit_of(column, rows, *path, document="d", name="", **more):
    text = f"| |{column}|\n|{'-|' * (column.count('|') + 2)}\n{rows}"
    found = replace(chunk(text, kind="table", path=path, **more), id=text, document_id=document)
    return Hit(found, 1.0, named(name))


@pytest.mark.parametrize(
    ("title", "expected"), [("Corvus Reports Fourth Quarter Fiscal 2022 Results", "1"), ("Corvus 10-K 2022", "5")]
)
def test_a_title_names_a_period_unless_it_is_made_of_the_cover(title, expected) -> None:
    about = {"company": "Corvus", "form": "10-K", "period": "2022", "title": title, "source": "2023Q4.pdf"}
    weeks = "52 weeks ended January 28, 2023 | 52 weeks ended January 29, 2022"
    hit = hit_of(weeks, "|Sales|1|5|", metadata=about)
    assert rank_cells("sales fiscal 2022", Ranking((hit,), Scale.RANK), k=1)[0].cell.text == expected


def test_a_cell_scores_by_the_rare_words_that_it_shares_of_all_that_it_and_the_question_say() -> None:
    hit = hit_of("2023|2022", "|Net sales|5|7|\n|Costs|2|3|", "Asia")
    found = rank_cells("net sales of Asia in 2023", Ranking((hit,), Scale.RANK), k=9)
    # of four cells two say "net" and "sales", all stand under "Asia", which counts half, and none says the year
    word, above, year = log1p(4 / 3), log1p(4 / 5), log1p(4)
    best = (2 * word + above / 2) / (2 * word + above + year)
    costs = (above / 2) / (3 * word + above + year)
    scores = {"5": best, "7": best / 4, "2": costs, "3": costs / 4}  # another year fits a quarter as well
    assert {each.cell.text: each.score for each in found} == pytest.approx(scores)


BESIDE = {
    "stores in Asia": (hit_of("2023", "|Stores|5|", "Americas"), hit_of("2023", "|Stores|1|", "Asia")),
    "sales of Corvus": (
        hit_of("2023", "|Sales|5|"),
        hit_of("2023", "|Net sales of goods|1|", document="e", name="corvus"),
    ),
    "total costs 2023": (hit_of("2023", "|Total revenue|5|\n|Costs:||\n|\u2003Rent|3|\n||1|"),),
    "stock, January 28, 2023": (
        hit_of("52 weeks ended January 28, 2023", "|Stock|5|"),
        hit_of("January 28, 2023", "|Stock, net|1|"),
    ),
    "cost of sales in six months of 2023": (
        hit_of("Six months ended March 31, 2023", "|Cost of sales|5|"),
        hit_of("Six months ended June 30, 2023", "|Cost of sales|1|\n|Sales|6|"),
    ),
    "total assets in 2023": (hit_of("2023 › Total", "|Total assets|5|"), hit_of("2023", "|Total assets|1|")),
    "assets": (hit_of("2022", "|Assets|5|"), hit_of("2023", "|Assets(a)|1|")),
}


@pytest.mark.parametrize("question", BESIDE)
def test_what_stands_around_a_cell_decides_between_equal_rows(question) -> None:
    found = rank_cells(question, Ranking(BESIDE[question], Scale.RANK), k=9)
    assert found[0].cell.text == "1"
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
