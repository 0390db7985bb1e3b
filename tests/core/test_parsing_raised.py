"""Raised digits, as marks of notes and exponents have them: no number or word before them takes them up."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import docx
import pytest
from odf.opendocument import OpenDocumentText
from odf.style import Style, TextProperties
from odf.text import P, Span
from pypdf import PdfWriter
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate, Table
from test_parsing_office import element, saved

from catena.answering.quantities import value_of
from catena.formatting import format_layout
from catena.model import Chunk
from catena.parsing import Engine, parse_bytes
from catena.structure import tables_of
from catena.text import Wording, place_of, timing_of, tokenise

SAID = "Revenue grew to 63,407<super>3</super> in 2022. See note<super>12</super>; it is 12 m<super>2</super>."
READ = "Revenue grew to 63,407³ in 2022. See note¹²; it is 12 m²."
TABLE = "| Item | 2022¹ | 2021 |\n| --- | --- | --- |\n| EBITDA⁵ | 1,250⁶ | (980)⁷ |\n| Capex | 300 | 10⁶ |\n"


def table_of(text: str):
    (table,) = tables_of(Chunk(id="c", document_id="d", position=0, start=0, end=len(text), text=text, kind="table"))
    return table


@pytest.mark.parametrize("engine", ["pypdf", "pypdfium2"])
def test_a_pdf_with_raised_digits(engine: Engine) -> None:
    style, file = getSampleStyleSheet()["Normal"], BytesIO()
    cells = [
        ["Item", "2022", "2021"],
        [Paragraph("EBITDA<super>5</super>", style), Paragraph("1,250<super>6</super>", style), "980"],
        ["Capex", "300", "250"],
        ["Debt", "77", "66"],
    ]
    SimpleDocTemplate(file).build([Paragraph(SAID, style), Table(cells, colWidths=[120, 80, 80])])
    text = format_layout(parse_bytes(file.getvalue(), "a.pdf", engine=engine)).text
    assert READ in text
    assert "| EBITDA⁵ | 1,250⁶ | 980 |" in text


def test_a_pdf_whose_font_has_raised_digits() -> None:
    writer = PdfWriter(clone_from=Path(__file__).with_name("raised_by_font.pdf"))
    contents = writer.pages[0]["/Contents"].get_object()
    drawn = contents.get_data()
    behind_a_space = rb"(\000\b\000\n"
    for minus, read in ((rb"(\000\n", "63,407³ 10⁻⁶ H2O"), (behind_a_space, "63,407³ 10 −⁶ H2O")):
        contents.set_data(drawn.replace(rb"(\000\n", minus))
        writer.write(file := BytesIO())
        assert parse_bytes(file.getvalue(), "a.pdf", engine="pypdfium2").document.text.strip() == read


def test_office_files_with_raised_digits() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("63,407")
    paragraph.add_run("3").font.superscript = True
    paragraph.add_run(" of H")
    paragraph.add_run("2").font.subscript = True
    assert "63,407³ of H2" in parse_bytes(saved(document), "a.docx").document.text

    text = OpenDocumentText()
    for name, position in (("T1", "super 58%"), ("T2", "sub 58%"), ("T3", "33% 58%")):
        style = element(Style, TextProperties(textposition=position), name=name, family="text")
        text.automaticstyles.addElement(style)
    spans = [Span(stylename=name, text=said) for name, said in (("T1", "3"), ("T2", "2"), ("T3", "4"))]
    text.text.addElement(element(P, *spans, text="63,407"))
    assert "63,407³2⁴" in parse_bytes(saved(text), "a.odt").document.text


def test_cells_with_marks_keep_their_numbers() -> None:
    html = (
        "<table><tr><th>Item<th>2022<sup>1</sup><th>2021<tr><td>EBITDA<sup>5</sup><td>1,250<sup>6</sup>"
        "<td>(980)<sup>7</sup><tr><td>Capex<td>300<td>10<sup>6</sup></table>"
    )
    for text in (TABLE, html):
        table = table_of(text)
        assert [cell.number for cell in table.cells] == [1250.0, -980.0, 300.0, None]
        assert timing_of(table.columns[0][0])[0].years == {2022}


def test_words_with_marks_are_found_by_their_words() -> None:
    assert tokenise(f"EBITDA⁵ {READ}")[:6] == ["ebitda", "5", "revenue", "grew", "to", "63,407"]
    assert tokenise("¹Revenue of 12 m² and 10⁶") == ["1", "revenue", "of", "12", "m2", "and", "10", "6"]


@pytest.mark.parametrize("source", [READ, READ.replace("³", "<sup>3</sup>").replace("¹²", "<sup>12</sup>")])
@pytest.mark.parametrize("quote", ["grew to 63,407", "63,407 in 2022", "See note; it is", "63,407³ in", "12 m²"])
def test_quotes_need_no_mark(source: str, quote: str) -> None:
    found = place_of(Wording(quote), Wording(source))
    assert found is not None
    assert found.state in ("exact", "normalised")


@pytest.mark.parametrize(
    ("quote", "source"), [("is 10 cycles", "is 10⁶ cycles"), ("63,4073", READ), ("12 m", "12 m²")]
)
def test_quotes_without_an_exponent_or_with_a_mark_as_a_digit_are_wrong(quote: str, source: str) -> None:
    found = place_of(Wording(quote), Wording(source))
    assert found is None or found.state == "altered"


def test_values_without_their_marks_agree() -> None:
    assert value_of("63,407³").quantities == value_of("63,407").quantities != value_of("63,4073").quantities
    assert value_of("10⁶").quantities == value_of("1000000").quantities
