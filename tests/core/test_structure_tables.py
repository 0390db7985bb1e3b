"""Tables are read as they are meant, cut between rows under their whole header, and defined without their data."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from case_files import cases_of
from hypothesis import given
from hypothesis import strategies as st
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate, Table, TableStyle
from test_structure_outline import texts

from catena.effects import Embed
from catena.formatting import format_layout
from catena.library import Library, Preparation, embed, prepare
from catena.model import Chunk, Document, Merged, View, header_rows, title_rows, unmerged
from catena.model.layout import Line, Span
from catena.model.merged_cells import LONGEST_REPEATED, moved
from catena.parsing import Engine, parse
from catena.structure import ChunkOptions, cut, outline, table_views
from catena.structure.blocks import scan
from catena.structure.division import tables_in
from catena.structure.views import column_names, row_labels
from catena.testing import FakeEmbedder
from catena.text import tokenise
from catena.text.tables import TableGrid, caption_above, is_quantity, read_table

SUPPLY = ("Quantity", "Supply", "", "Unit")
LIMITS = "| Quantity | min | max |\n|---|--:|--:|\n| Voltage | 1.8 V | 3.6 V |\n| Current | 2 mA | 9 mA |\n"


def tables(text: str) -> list[TableGrid]:
    return tables_in(text, scan(text))


def table(text: str) -> TableGrid:
    (found,) = tables(text)
    return found


def defined(text: str, title: str = "", max_tokens: int = 320) -> tuple[tuple[Chunk, ...], list[View]]:
    """The chunks of a text, and the definitions of its tables."""
    document = Document(id="d", text=text, title=title)
    chunks = cut(document, outline(document), options=ChunkOptions(max_tokens=max_tokens))
    return chunks, list(table_views(document, chunks))


def views(text: str, title: str = "") -> list[str]:
    return [view.text for view in defined(text, title)[1]]


# What a table says


def test_a_pipe_table_has_names_rows_and_where_they_stand() -> None:
    text = f"before\n\n{LIMITS}\nafter\n"
    found = table(text)
    assert (found.header, found.rows[0]) == (("Quantity", "min", "max"), ("Voltage", "1.8 V", "3.6 V"))
    assert text[found.start : found.end] == LIMITS.rstrip()
    assert [text[start : start + 9] for start in found.row_starts] == ["| Voltage", "| Current"]
    assert found.body_start == found.row_starts[0]
    # cells are plain text, and an escaped pipe is no border
    found = table("a | `b` | [c](x)\n:-- | :-: | --:\n1\\|2 | *two*<br>lines\n| x | y | z | too much |\n")
    assert (found.header, found.rows) == (("a", "b", "c"), (("1|2", "two lines", ""), ("x", "y", "z")))


DATA_ROWS = ("| | 1 | 3 | V |", "| Voltage | low | high | V |", "| | min | | V |")


@pytest.mark.parametrize("row", ["| | min | max | |", *DATA_ROWS])
def test_a_header_of_two_rows_is_joined_and_quantities_a_label_or_a_gap_make_a_row_of_data(row: str) -> None:
    header = SUPPLY if row in DATA_ROWS else ("Quantity", "Supply min", "Supply max", "Unit")
    text = f"| Quantity | Supply | | Unit |\n|---|---|---|---|\n{row}\n| Current | 1 | 3 | V |\n"
    found = table(text)
    assert (found.header, found.rows[-1]) == (header, ("Current", "1", "3", "V"))
    assert text[found.start : found.body_start].count("\n") == (2 if header == SUPPLY else 3)


HTML = """<div>
<table class="x"><caption>Table 4. Supply</caption>
<thead><tr><th rowspan=2>Quantity<th colspan=2>Supply</tr>
<tr><th>min<th>max</tr></thead>

<tr><td rowspan=2>Voltage<td>1<td>3</tr>

    <tr><td>2<td>4 <b>or <i>5</i></b></tr><style>b {}</style>
</table >
</div>
"""


def test_an_html_table_is_read_across_blank_lines_and_one_in_a_cell_with_it() -> None:
    text = f"# T\n\n{HTML}\nafter\n"
    found = table(text)
    assert (found.caption, found.header) == ("Table 4. Supply", ("Quantity", "Supply min", "Supply max"))
    assert found.rows == (("Voltage", "1", "3"), ("Voltage", "2", "4 or 5"))
    assert text[found.start : found.end] == HTML[6:-8]
    assert [text[start : start + 4] for start in found.row_starts] == ["<tr>", "<tr>"]
    text = "<table><tr><th>a<td>1</table> and <table><tr><td>b<td><table><tr><td>in</table> x<tr><td>c<td>d</table>\n"
    first, second = tables(text)
    assert (first.header, first.rows) == (("", ""), (("a", "1"),))
    assert (second.header, second.rows) == (("b", "in x"), (("c", "d"),))
    assert text[second.start : second.end].startswith("<table><tr><td>b")


def test_an_html_table_that_no_tag_closes_before_a_heading_stays_text() -> None:
    text = "<table><tr><td>a\n\n# Next\n\nb\n"
    assert tables(text) == []
    assert {chunk.kind for chunk in defined(text)[0]} == {"text"}
    never_closed = "<table>\n\n" * 5_000 + "<table><tr><td>a<td>b</table>\n"
    assert table(never_closed).header == ("a", "b")


# Merged cells


def test_merged_cells_are_joined_repeated_or_left_by_where_they_are() -> None:
    printed = ("Quantity|Supply||Note", "|min|max|", "Voltage|1|3|see below", "|2|4|", "others|||")
    rows = [row.split("|") for row in printed]
    places = [(3, 3, 1, 1), (0, 0, 2, 1), (0, 1, 1, 2), (0, 3, 2, 1), (2, 0, 2, 1), (2, 3, 2, 1), (4, 0, 1, 4)]
    merged = [Merged(*place) for place in places]
    assert header_rows(rows, merged) == 2
    expected = ("Quantity|Supply min|Supply max|Note", "Voltage|1|3|see below", "Voltage|2|4|", "others|||")
    assert unmerged(rows, merged, header=2) == tuple(tuple(row.split("|")) for row in expected)
    long = "x" * (LONGEST_REPEATED + 1)
    assert unmerged([[long, ""], ["a", "b"]], [Merged(0, 0, 1, 2)], header=1)[0] == (long, "")
    assert unmerged([[long[1:], ""], ["a", "b"]], [Merged(0, 0, 1, 2)], header=1)[0] == (long[1:], long[1:])


def test_a_table_of_groups_alone_has_a_body_and_what_is_cut_out_of_it_keeps_whole_cells() -> None:
    groups = [["a", "", "b"]] * 2, [Merged(0, 0, 1, 2), Merged(1, 0, 1, 2)]
    assert [header_rows(*groups), header_rows([], []), title_rows([], [])] == [1, 0, 0]
    wide, high = Merged(0, 1, 1, 2), Merged(1, 0, 2, 1)
    cut = {
        ((0, 1, 2), (1, 2)): (Merged(0, 0, 1, 2),),
        ((0, 1, 2), (0, 2)): (Merged(1, 0, 2, 1),),  # where a cell begins is left out, and so is the cell
        ((1, 2), (0, 1)): (Merged(0, 0, 2, 1),),
    }
    assert {kept: moved((wide, high), *kept) for kept in cut} == cut


@pytest.mark.parametrize(
    ("spans", "size", "bold"),
    [
        ((("ab", 9, True), ("cd", 8, True), ("e", 8, True)), 8, True),  # of one size, all count together
        ((("ab", 9, True), (" cd ", 8, False)), 9, False),  # as many: the larger; and no blanks
        ((("a", 9, True), ("   ", 8, False)), 9, True),
        ((), 0, False),
    ],
)
def test_a_line_has_the_size_of_most_of_its_letters_and_is_bold_where_all_are(spans, size, bold) -> None:
    of = tuple(Span(text=text, x0=0, x1=1, size=points, bold=heavy, mono=heavy) for text, points, heavy in spans)
    line = Line(text="", x0=0, x1=1, top=0, bottom=1, spans=of)
    assert (line.size, line.bold, line.mono) == (size, bold, bold)


def test_a_row_as_wide_as_the_table_is_its_title_not_a_header() -> None:
    rows, merged = [["Title", ""], ["a", "b"], ["1", "2"]], [Merged(0, 0, 1, 2)]
    assert (title_rows(rows, merged), title_rows(rows[:1], merged), header_rows(rows, merged)) == (1, 0, 1)
    found = table("<table><tr><td colspan=2>Title<tr><th>a<th>b<tr><td>1<td>2</table>\n")
    assert (found.caption, found.header, found.rows) == ("Title", ("a", "b"), (("1", "2"),))


cells = st.sampled_from(["", "a", "b", "c d", "1"])


@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_no_text_of_a_merged_cell_is_lost(data: st.DataObject, height: int, width: int) -> None:
    rows = data.draw(st.lists(st.lists(cells, min_size=width, max_size=width), min_size=height, max_size=height))
    places = (st.integers(0, height - 1), st.integers(0, width - 1), st.integers(1, 5), st.integers(1, 5))
    merged = data.draw(st.lists(st.builds(Merged, *places), max_size=4))
    header = data.draw(st.integers(0, height))
    made = unmerged(rows, merged, header=header)
    assert len(made) == 1 + height - header
    for column in range(width):
        assert all(row[column] in made[0][column] for row in rows[:header])
        for row, kept in zip(rows[header:], made[1:], strict=True):
            assert not row[column] or row[column] == kept[column]


SPANS_OF = st.builds(
    "<{} colspan={} rowspan={}>".format, st.sampled_from(["td", "th"]), st.integers(0, 4), st.integers(0, 4)
)
TAGS = st.sampled_from(["<tr>", "</tr>", "<thead>", "</thead>", "<tbody>", "</td>", "<caption>"])


@given(st.lists(TAGS | SPANS_OF | st.text("abcdef", min_size=1, max_size=4), max_size=30))
def test_every_word_of_an_html_table_is_in_its_grid(pieces: list[str]) -> None:
    text = f"<table>{' '.join(pieces)}</table>\n"
    found = table(text)
    said = " ".join([found.caption, *found.header, *(cell for row in found.rows for cell in row)]).split()
    assert set(said) == {piece for piece in pieces if not piece.startswith("<")}
    assert all(len(row) == len(found.header) for row in found.rows)
    assert list(found.row_starts) == sorted(found.row_starts)
    assert all(found.start <= start < found.end for start in found.row_starts)


def test_the_ends_of_tables_their_stated_headers_and_what_stands_above() -> None:
    text = "ab <table><tr><td>a"
    assert [(found.start, found.end) for found in read_table(text, 3, len(text))] == [(3, len(text))]
    found = table("<table><thead><tr><td>a<td>b<tr><td>c<td>d</thead><tr><td>1<td>2</table>\n")
    assert (found.header, found.rows) == (("a c", "b d"), (("1", "2"),))
    wide = f"|{'a|' * 1_001}\n|{'-|' * 1_001}\n"  # each row of one cell lacks 1,000
    assert [len(read_table(wide + "x\n" * n, 0, len(wide) + 2 * n)) for n in (500, 501)] == [1, 0]
    for above, start, caption in (
        ("Old.\n\nNew\nsales", 6, "New sales"),
        ("Old.\n\nNew sales", 7, ""),
        ("Old.\n\nNew sales:", 7, "New sales:"),
        ("Old.\r\n\r\nNew", 0, "New"),
        ("x" * 200, 0, "x" * 200),
        ("x" * 201, 0, ""),
        ("# Sales", 0, ""),
    ):
        assert caption_above(f"{above}\n\n|", start, len(above) + 2) == caption


def test_a_table_that_claims_any_size_stays_small() -> None:
    most = "999999999999"
    assert table(f"<table><tr><td colspan={most} rowspan={most}>a</table>\n").header == ("a",) * 200


# What is data


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("16MHz", True), ("-40 °C", True), ("1.8 – 3.6 V", True), ("2024-01-05", True), ("10 m/s", True),
        ("1,000", True), ("—", True), ("±5 %", True), ("VCC", False), ("1N4148", False), ("74HC595", False),
        ("3D model", False), ("yes", False), ("№ 5", True), ("1 " * 100_000 + "a1", False),
    ],
)  # fmt: skip
def test_what_is_a_quantity(cell: str, value: bool) -> None:
    assert is_quantity(cell) is value


@pytest.mark.parametrize(("text", "labels"), cases_of("cases_labels.txt"))
def test_the_labels_of_rows(text: str, labels: str) -> None:
    found = table(f"{text}\n")
    assert row_labels(found, found.rows) == tuple(labels.splitlines())


def test_names_of_columns_and_tables_with_names_alone() -> None:
    assert column_names(table("| Clock | 16 MHz |\n|---|---|\n| Flash | 2 kB |\n")) == ()
    assert column_names(table("| Sales | 2019 |\n|---|---|\n| Nuts | 5 |\n")) == ("Sales", "2019")
    assert views("| Clock | Flash |\n|---|---|\n| 16 MHz | 2 kB |\n") == ["Clock, Flash"]
    assert views("# T\n\n| Clock | Flash |\n|---|---|\n") == ["T\nClock, Flash"]
    assert views("| | |\n|---|---|\n") == []


# Definition views


def test_a_definition_is_titles_description_names_and_labels() -> None:
    prose, named = "The board is fed by the plug. " * 6, "Quantity, min, max\nVoltage, Current"
    (view,) = views(f"# Board\n\n## Supply\n\n{prose}\n\nTable 1. Limits\n\n{LIMITS}", title="Manual")
    assert view == f"Manual › Board › Supply\n{prose.strip()}\nTable 1. Limits\n{named}"
    assert views(f"# A\n\n{'This is long enough to be a chunk. ' * 5}\n\n# B\n\n{LIMITS}") == [f"B\n{named}"]
    beside = views(f"# T\n\nIn short:\n\n{LIMITS}\nAll at 20 °C.\n")
    assert beside == [f"T\nIn short:\n{named}\nAll at 20 °C."]


def test_the_description_is_the_last_sentences_before_the_table() -> None:
    sentence = "Sentence {} tells what the table shows and why it is here."
    prose = " ".join(sentence.format(number) for number in range(40))
    described = [views(f"# T\n\n{text}\n\n{LIMITS}")[0].split("\n")[1] for text in (prose, "word " * 100)]
    assert described == [prose[prose.index("Sentence 35") :], ("word " * 59).strip()]  # of 300 characters


def pieces(text: str, max_tokens: int) -> tuple[tuple[Chunk, ...], list[list[str]]]:
    """The chunks of a long table, and the lines of their definitions."""
    chunks, definitions = defined(text, max_tokens=max_tokens)
    found = [view.text.split("\n") for view in definitions]
    assert len(found) == len(chunks) > 2
    assert ", ".join(lines[-1] for lines in found) == ", ".join(f"row {number}" for number in range(40))
    return chunks, found


def test_each_piece_of_a_long_table_has_its_own_labels_and_the_whole_header() -> None:
    head = "| Q | Supply | | Unit |\n|---|---|---|---|\n| | min | max | |\n"
    rows = "".join(f"| row {number} | {number} | x | {number} |\n" for number in range(40))
    chunks, found = pieces(f"# T\n\nTable 1. Long\n\n{head}{rows}", 120)
    for chunk, (title, lead, names, listed) in zip(chunks, found, strict=True):
        assert (title, lead, names) == ("T", "Table 1. Long", "Q, Supply min, Supply max, Unit")
        assert listed == ", ".join(re.findall(r"row \d+", chunk.text))
    assert {chunk.metadata.get("table_header") for chunk in chunks[1:]} == {"Table 1. Long\n" + head.rstrip()}
    assert ("table_header" in chunks[0].metadata, {chunk.kind for chunk in chunks}) == (False, {"table"})
    rows = "".join(f"<tr><td>row {number}<td>{number}</tr>" for number in range(40))
    (_, *others), _ = pieces(f"<table><thead><tr><th>Name<th>Number</tr></thead>{rows}</table>\n", 150)
    assert all(chunk.kind == "table" and chunk.text.startswith("<tr><td>row") for chunk in others)
    assert all(chunk.metadata["table_header"].startswith("<table><thead><tr><th>Name") for chunk in others)


@given(texts)
def test_a_definition_says_nothing_that_the_document_does_not(text: str) -> None:
    chunks, definitions = defined(text, "T")
    kinds = {chunk.id: chunk.kind for chunk in chunks}
    for view in definitions:
        assert kinds[view.chunk_id] == "table"
        assert set(tokenise(view.text)) <= {"t", *tokenise(text)}


# What is embedded


def embedded(text: str, how: str) -> list[str]:
    entry = prepare(Document(id="d", text=text, title="T"), Preparation(embed_tables=how))  # type: ignore[arg-type]
    step = embed(entry)
    (request,) = next(step)
    assert isinstance(request, Embed)
    with pytest.raises(StopIteration):
        step.send([np.zeros((len(request.texts), 2), np.float32)])
    assert [view.kind for view in entry.views].count("headed") == len(entry.chunks)
    return list(request.texts)


def test_the_definition_alone_is_embedded_where_it_is_asked_for() -> None:
    text = f"# A\n\nSome words.\n\n# B\n\n{LIMITS}"
    whole = ["T › A\nSome words.", f"T › B\n{LIMITS.strip()}"]
    assert embedded(text, "whole") == whole
    assert embedded(text, "definition") == [whole[0], "T › B\nQuantity, min, max\nVoltage, Current"]
    assert len({Preparation(embed_tables=how).fingerprint("x") for how in ("whole", "definition")}) == 2


@pytest.mark.parametrize(("how", "view"), [("definition", "table"), ("whole", "headed")])
def test_a_hit_says_by_which_view_its_vector_was_made(tmp_path: Path, how: str, view: str) -> None:
    preparation = Preparation(embed_tables=how)  # type: ignore[arg-type]
    (tmp_path / "a.md").write_text(f"# A\n\nSome words.\n\n# B\n\n{LIMITS}")
    with Library.open(tmp_path / "library", embedder=FakeEmbedder(), preparation=preparation) as library:
        library.index([tmp_path / "a.md"])
        hits = library.search("voltage", routes=("dense", "lexical")).hits
    found = {hit.chunk.kind: {way.route: way.view for way in hit.provenance} for hit in hits}
    assert found["table"] == {"dense": view, "lexical": "headed"}
    assert found["text"]["dense"] == "headed"
    assert "1.8 V" in next(hit.chunk.text for hit in hits if hit.chunk.kind == "table")


# Ruled tables of PDFs with merged cells

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
    table, style = Table(rows), getSampleStyleSheet()["BodyText"]
    table.setStyle(TableStyle([("GRID", (0, 0), (-1, -1), 0.5, "black"), *(("SPAN", *span) for span in spans)]))
    path = tmp_path / "table.pdf"
    before, after = (Paragraph(f"{place} the table.", style) for place in ("Before", "After"))
    SimpleDocTemplate(str(path), pagesize=A4).build([before, table, after])
    return path


@pytest.mark.parametrize("engine", ["pypdf", "pypdfium2"])
def test_merged_cells_of_a_ruled_table(tmp_path: Path, engine: Engine) -> None:
    parsed = parse(pdf_of(tmp_path, ROWS, SPANS), ruled_tables=True, engine=engine)
    assert parsed.layout is not None
    (table,) = parsed.layout.pages[0].tables
    merged = [(0, 0, 1, 4), (1, 0, 2, 1), (1, 1, 1, 2), (1, 3, 2, 1), (3, 0, 2, 1)]
    assert sorted(table.merged) == [Merged(*each) for each in merged]
    assert format_layout(parsed).text == (
        "Before the table.\n\nLimits of operation\n\n"
        "| Quantity | Supply min | Supply max | Unit |\n| --- | --- | --- | --- |\n"
        "| Voltage | 1.8 | 3.6 | V |\n| Voltage | 2.0 | 4.0 | V |\n| Current | 5 | 9 | mA |\n\nAfter the table.\n"
    )


def test_cells_without_a_merge_and_groups_in_the_body_are_as_printed(tmp_path: Path) -> None:
    parsed = parse(pdf_of(tmp_path, [["a", "b"], ["", "1"], ["c", "2"]], []), ruled_tables=True)
    assert "| a | b |\n| --- | --- |\n|  | 1 |\n| c | 2 |\n" in format_layout(parsed).text
    rows = [["Part", "Number"], ["Spare parts", ""], ["Seal", "17"]]
    parsed = parse(pdf_of(tmp_path, rows, [((0, 1), (1, 1))]), ruled_tables=True)
    assert "| Part | Number |\n| --- | --- |\n| Spare parts |  |\n| Seal | 17 |\n" in format_layout(parsed).text
