"""PDF through both engines: text, positions, order, states, and what the file says about itself."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest
from drawn_pages import HEIGHT, WIDTH, Draw, pdf
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, Fit, FloatObject, NameObject, NumberObject
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas
from test_parsing_text import state_of

from catena.model import MissingExtraError, Parsed, ParseError
from catena.model.layout import FigureCrop, Line, Page, RuledTable, Span
from catena.model.merged_cells import Merged
from catena.parsing import Engine, Limits, parse, parse_bytes
from catena.parsing.pages import about_event, bookmark, outline_of, page_event, page_of
from catena.parsing.pdf_content import glyph_font
from conftest import needs_data


@pytest.fixture(params=["pypdf", "pypdfium2"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.param


def words(text: str, *, x: float = 72, y: float = 100, size: float = 12, font: str = "Helvetica") -> Draw:
    """Return a drawing of one line, `y` points below the top."""

    def draw(canvas: Canvas) -> None:
        canvas.setFont(font, size)
        canvas.drawString(x, HEIGHT - y, text)

    return draw


def all_of(*drawings: Draw) -> Draw:
    return lambda canvas: [drawing(canvas) for drawing in drawings]


def lines_of(engine: Engine, *drawings: Draw) -> tuple[Line, ...]:
    """Return the lines of a page with these drawings."""
    parsed = parse_bytes(pdf(all_of(*drawings)), "x.pdf", engine=engine)
    check_laws(parsed)
    return parsed.layout.pages[0].lines


def rewritten(data: bytes, change: Callable[[PdfWriter], object]) -> bytes:
    """Return a PDF after pypdf has changed it."""
    writer, out = PdfWriter(clone_from=io.BytesIO(data)), io.BytesIO()
    change(writer)
    writer.write(out)
    return out.getvalue()


def rectangle(canvas: Canvas) -> None:
    canvas.rect(100, 100, 200, 200, fill=1)


def nothing(canvas: Canvas) -> None:
    canvas.setTitle("")


def check_laws(parsed: Parsed) -> None:
    document, layout = parsed.document, parsed.layout
    assert layout is not None
    assert document.text == "\n\n".join("\n".join(line.text for line in page.lines) for page in layout.pages)
    assert len(document.page_starts) == len(layout.pages)
    at = 0
    for number, page in enumerate(layout.pages, 1):
        assert page.number == number
        for line in page.lines:
            at = document.text.index(line.text, at)
            assert document.page_at(at) == number
            at += len(line.text)
            assert line.spans
            assert line.x0 == min(span.x0 for span in line.spans)
            assert line.x1 == max(span.x1 for span in line.spans)
            assert line.text.replace(" ", "") == "".join(span.text for span in line.spans).replace(" ", "")
            assert line.text == line.text.strip()
            assert "  " not in line.text


def test_a_line_has_its_place_size_and_weight(engine: Engine) -> None:
    drawings = words("Heading", size=20, font="Helvetica-Bold"), words("code here", y=140, font="Courier")
    heading, code = lines_of(engine, *drawings)
    assert (heading.text, heading.size, heading.bold, heading.mono) == ("Heading", 20.0, True, False)
    assert (code.text, code.size, code.bold, code.mono) == ("code here", 12.0, False, True)
    # 3.945 em wide by the widths of Helvetica-Bold
    assert (heading.x0, heading.x1, heading.bottom) == pytest.approx((72, 72 + 78.9, 100 + 0.2 * 20), abs=0.1)
    assert code.x1 == pytest.approx(72 + 9 * 7.2, abs=0.2)


def test_size_and_place_are_what_is_printed_whatever_scales_and_forms_there_are(engine: Engine) -> None:
    def drawn(canvas: Canvas) -> None:
        canvas.beginForm("part")
        words("inside", x=10, y=HEIGHT - 10, size=5)(canvas)
        canvas.endForm()
        canvas.transform(2, 0, 0, 2, 100, 500)
        canvas.doForm("part")

    (line,) = lines_of(engine, drawn)
    assert (line.text, line.size, line.x0) == ("inside", 10.0, 120.0)
    assert line.bottom == pytest.approx(HEIGHT - 520 + 2, abs=0.1)


def test_a_table_is_read_row_by_row_and_its_cells_are_spans(engine: Engine) -> None:
    rows = [(f"item {row}", f"{row * 10}", f"some words {row}") for row in range(8)]
    cells = [(y, cell, x) for y, row in enumerate(rows) for cell, x in zip(row, LEFTS, strict=True)]
    lines = lines_of(engine, *(words(cell, x=x, y=100 + 16 * y, size=10) for y, cell, x in cells))
    assert [tuple(span.text for span in line.spans) for line in lines] == rows
    assert tuple(round(span.x0) for span in lines[3].spans) == LEFTS


def vertical(canvas: Canvas) -> None:
    canvas.saveState()
    canvas.rotate(90)
    canvas.drawString(300, -30, "margin")
    canvas.restoreState()


def upside_down(canvas: Canvas) -> None:
    canvas.saveState()
    canvas.rotate(180)
    canvas.drawString(-300, 50 - HEIGHT, "margin")
    canvas.restoreState()


REACHING = [words("half ", font="Times-Italic"), words("of it", x=93.7)]
RAISED = [words("as in E = mc"), words("2", x=144, y=95, size=8), words("and so on", x=156)]
LEFTS = (72, 200, 320)


@pytest.mark.parametrize(
    ("drawn", "read"),
    [
        pytest.param([words("\u2022", x=60), words("an item", x=75)], "\u2022 an item", id="bullet"),
        pytest.param([words("\u2022", x=60, font="Symbol"), words("an item", x=75)], "\u2022 an item", id="symbol"),
        pytest.param(RAISED, "as in E = mc2 and so on", id="a raised number stays on its line"),
        pytest.param([vertical, words("body")], "body\nmargin", id="vertical text comes last"),
        pytest.param([upside_down, words("body")], "body\nmargin", id="text that is upside down comes last"),
        pytest.param(REACHING, "half of it", id="a glyph that reaches over the space behind it"),
        pytest.param([words("so"), words("so", x=72.3), words("so", y=130)], "so\nso", id="what is printed twice"),
    ],
)
def test_what_is_printed_is_read(engine: Engine, drawn: list[Any], read: str) -> None:
    assert "\n".join(line.text for line in lines_of(engine, *drawn)).replace("mc 2", "mc2") == read


def test_every_unused_code_of_win_ansi_shows_a_bullet() -> None:
    codes = bytes([0x7F, 0x81, 0x8D, 0x8F, 0x90, 0x9D])
    names = {"Type": "Font", "Subtype": "Type1", "BaseFont": "Helvetica"}
    font = DictionaryObject({NameObject(f"/{key}"): NameObject(f"/{value}") for key, value in names.items()})
    base = DictionaryObject({NameObject("/BaseEncoding"): NameObject("/WinAnsiEncoding")})
    for encoding, bullets in ((NameObject("/WinAnsiEncoding"), 6), (base, 6), (NameObject("/MacRomanEncoding"), 0)):
        font[NameObject("/Encoding")] = encoding
        assert "".join(text for text, *_ in glyph_font(font).pieces(codes)).count("\u2022") == bullets


def test_the_glyphs_of_a_type_3_font_are_measured_in_its_own_unit() -> None:
    font = DictionaryObject({NameObject("/Type"): NameObject("/Font"), NameObject("/BaseFont"): NameObject("/F")})
    font[NameObject("/FontMatrix")] = ArrayObject(map(FloatObject, (0.05, 0, 0, 0.05, 0, 0)))
    font[NameObject("/Encoding")] = DictionaryObject()
    font[NameObject("/FirstChar")], font[NameObject("/LastChar")] = NumberObject(97), NumberObject(98)
    font[NameObject("/Widths")] = ArrayObject(map(NumberObject, (10, 12)))
    widths = {}
    for kind in ("Type3", "Type1"):
        font[NameObject("/Subtype")] = NameObject(f"/{kind}")
        widths[kind] = [width for _, width, *_ in glyph_font(font).pieces(b"ab")]
    assert widths == {"Type3": [pytest.approx(22 * 0.05)], "Type1": [pytest.approx(22 * 0.001)]}


OPERATORS = """BT /F1 12 Tf 20 TL 72 700 Td (first line) Tj 2 Tc T* (spaced letters) Tj 0 Tc 9 Tw
T* (spaced words are) Tj 0 Tw 80 Tz T* (narrow letters) Tj 100 Tz 3 Ts T* (raised) Tj 0 Ts (next) '
4 1 (with both) " 0 Tw 0 Tc 0 -30 TD (led) Tj T* [(to) -90 (gether) -400 (apart) -2000 (cell)] TJ
1 0 0 1 300 200 Tm (placed) Tj (gether) Tj ET q 2 0 0 2 0 0 cm BT 40 40 Td (large) Tj ET Q BT 72 60 Td (after) Tj ET
BT 50 Tz 4 Tc 6 Tw 72 500 Td (narrow, spaced) Tj ( words) Tj 150 Tz 0 Tc 0 Tw T*
[(wide) -300 (words ) 200 (here)] TJ ET
BT 100 Tz 0 Tw 2 0 0 3 72 400 Tm (in another) Tj ( matrix) Tj 5 Ts ( raised) Tj ET"""


def test_both_engines_place_what_each_operator_of_text_shows() -> None:
    data = pdf(lambda canvas: canvas._code.append(OPERATORS.replace("\n", " ")))
    one, other = (parse_bytes(data, "x.pdf", engine=engine).layout.pages[0].lines for engine in get_args(Engine))
    assert [line.text for line in one] == [line.text for line in other]
    assert len(one) == 16
    for mine, theirs in zip(one, other, strict=True):
        assert [span.text for span in mine.spans] == [span.text for span in theirs.spans]
        for name in ("x0", "x1", "top", "bottom", "size"):
            assert getattr(mine, name) == pytest.approx(getattr(theirs, name), abs=0.6), (mine.text, name)


def test_a_word_in_several_fonts_is_one_word_of_several_spans(engine: Engine) -> None:
    fonts, x, drawn = ("Helvetica-Bold", "Helvetica", "Helvetica-Oblique"), 72.0, []
    for part, font in zip(("under", "s", "tanding"), fonts, strict=True):
        drawn.append(words(part, x=x, font=font))
        x += stringWidth(part, font, 12)
    (line,) = lines_of(engine, *drawn)
    assert (line.text, [span.text for span in line.spans]) == ("understanding", ["under", "s", "tanding"])
    assert [(span.bold, span.italic) for span in line.spans] == [(True, False), (False, False), (False, True)]
    assert line.x1 == pytest.approx(x, abs=1)


@pytest.mark.parametrize("angle", [90, 180, 270])
def test_a_rotated_page_is_read_as_shown(engine: Engine, angle: int) -> None:
    def turned(canvas: Canvas) -> None:
        canvas.translate(WIDTH / 2, HEIGHT / 2)
        canvas.rotate(angle)
        for row in range(3):
            canvas.drawString(-100, -20 * row, "line")
            canvas.drawString(-75, -20 * row, f"{row}")

    data = rewritten(pdf(turned), lambda writer: writer.pages[0].rotate(angle))
    page = parse_bytes(data, "x.pdf", engine=engine).layout.pages[0]
    assert (page.width, page.height) == ((WIDTH, HEIGHT) if angle == 180 else (HEIGHT, WIDTH))
    for row, line in enumerate(page.lines):
        assert line.text == f"line {row}"
        placed = (line.x0, line.bottom - line.top, line.top - page.lines[0].top)
        assert placed == pytest.approx((page.width / 2 - 100, 12, 20 * row), abs=0.2)


def test_outline_labels_and_metadata(engine: Engine) -> None:
    def marked(name: str, level: int) -> Any:
        def draw(canvas: Canvas) -> None:
            canvas.setTitle("The Manual")
            canvas.setAuthor("A. Writer")
            canvas.bookmarkHorizontal(name, 0, HEIGHT - 100)
            canvas.addOutlineEntry(name.title(), name, level=level)
            words(name)(canvas)

        return draw

    def label(writer: PdfWriter) -> None:
        writer.set_page_label(0, 0, style="/r")
        writer.set_page_label(1, 2, style="/D")

    data = rewritten(pdf(marked("one", 0), marked("two", 1), marked("three", 0)), label)
    parsed = parse_bytes(data, "x.pdf", engine=engine)
    outline = [(item.level, item.title, item.page, item.top) for item in parsed.layout.outline]
    assert outline == [(1, "One", 1, 100.0), (2, "Two", 2, 100.0), (1, "Three", 3, 100.0)]
    assert parsed.document.page_labels == tuple(page.label for page in parsed.layout.pages) == ("i", "1", "2")
    assert parsed.document.title == parsed.layout.title == "The Manual"
    assert parsed.document.metadata["author"] == "A. Writer"
    filled_in = pdf(lambda canvas: (canvas.setTitle("untitled"), words("x")(canvas)))
    assert parse_bytes(filled_in, "folder/report.pdf", engine=engine).document.title == "report"


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("D:20261129104416Z", "2026-11-29T10:44:16+00:00"),
        ("D:20240305101112+01'30'", "2024-03-05T10:11:12+01:30"),
        ("D:20240305101112-08", "2024-03-05T10:11:12-08:00"),
        ("D:2024030510", "2024-03-05T10:00:00"),
        ("D:202403", "2024-03"),
        ("Tue, 05 Mar 2024 10:11:12 +0100", "2024-03-05T10:11:12+01:00"),
        ("5 Mar 2024 10:11:12 +9999", "5 Mar 2024 10:11:12 +9999"),
        ("in March 2024", "in March 2024"),
    ],
)
def test_dates_are_kept_in_iso_8601(engine: Engine, written: str, kept: str) -> None:
    data = rewritten(pdf(words("x")), lambda writer: writer.add_metadata({"/CreationDate": written}))
    assert parse_bytes(data, "x.pdf", engine=engine).document.metadata["created"] == kept


def test_every_kind_of_destination_gives_its_page_and_its_height(engine: Engine) -> None:
    fits = [Fit.xyz(10, 700, 0), Fit.fit_horizontally(650), Fit.fit_rectangle(0, 0, 100, 600)]
    fits += [Fit.fit_box_horizontally(550), Fit.fit(), Fit.fit_vertically(5), Fit.xyz(0, 2_000, 0)]

    def mark(writer: PdfWriter) -> None:
        for number, fit in enumerate(fits):
            above = writer.add_outline_item(title=f"item {number}", page_number=number % 2, fit=fit)
            writer.add_outline_item(title="below", page_number=1, parent=above, fit=Fit.xyz(0, -5, 0))
        writer.pages[0].rotate(360)  # as it was
        writer.pages[1].rotate(180)

    data = rewritten(pdf(words("one"), words("two")), mark)
    items = parse_bytes(data, "x.pdf", engine=engine).layout.outline
    tops = [142.0, None, 242.0, None, None, None, 0.0]  # a turned page tells none
    found = [(item.level, item.page, item.top) for item in items]
    assert found[::2] == [(1, number % 2 + 1, top) for number, top in enumerate(tops)]
    assert set(found[1::2]) == {(2, 2, None)}


def test_blank_pages_are_noted_scans_make_it_partial_and_without_any_text_it_is_no_document(engine: Engine) -> None:
    for second, state, note in ((nothing, "parsed", "blank"), (rectangle, "partial", "no-text")):
        parsed = parse_bytes(pdf(words("one"), second), "x.pdf", engine=engine)
        assert (parsed.state, [(note.page, note.state) for note in parsed.notes]) == (state, [(2, note)])
        check_laws(parsed)
    assert state_of(pdf(rectangle, nothing), "x.pdf", engine=engine) == "no-text"
    assert state_of(pdf(nothing), "x.pdf", engine=engine) == "empty"


@pytest.mark.parametrize("algorithm", ["RC4-40", "AES-256"])
def test_passwords(engine: Engine, algorithm: str) -> None:
    def locked(user: str) -> bytes:
        return rewritten(pdf(words("secret text")), lambda writer: writer.encrypt(user, "owner", algorithm=algorithm))

    for given, said in ((None, "needs a password"), ("guess", "")):
        with pytest.raises(ParseError, match=f"encrypted: .*{said}") as caught:
            parse_bytes(locked("user"), "x.pdf", engine=engine, password=given)
        assert "guess" not in str(caught.value)
    for user, given in (("user", "user"), ("user", "owner"), ("", None)):
        parsed = parse_bytes(locked(user), "x.pdf", engine=engine, password=given)
        assert parsed.document.text == "secret text"


def test_a_broken_page_leaves_its_neighbours(engine: Engine) -> None:
    pages = [words("one"), words("two"), words("three")]
    if engine == "pypdfium2":
        parsed = parse_bytes(pdf(*pages).replace(b"/Contents", b"/Contests", 1), "x.pdf", engine=engine)
        assert (parsed.document.text.split(), parsed.notes[0].state) == (["two", "three"], "blank")
        return
    nested = pdf(lambda canvas: [canvas.saveState() for _ in range(1_500)] and words("deep")(canvas))
    bomb = PdfReader(io.BytesIO(nested)).pages[0]  # of more graphics states than any page has
    parsed = parse_bytes(rewritten(pdf(*pages), lambda writer: writer.insert_page(bomb, 1)), "x.pdf", engine=engine)
    assert parsed.document.text.split() == ["one", "two", "three"]
    assert (parsed.state, [(note.page, note.state) for note in parsed.notes]) == ("partial", [(2, "failed")])


def test_drawn_tables_are_found_when_asked_for(engine: Engine) -> None:
    cells = [words(f"{'ab'[x]}{y}", x=105 + 100 * x, y=HEIGHT - 525 + 20 * y) for y in (0, 1) for x in (0, 1)]
    data = pdf(all_of(lambda canvas: canvas.grid([100, 200, 300], [500, 520, 540]), *cells))
    (table,) = parse_bytes(data, "x.pdf", engine=engine, ruled_tables=True).layout.pages[0].tables
    assert table.rows == (("a0", "b0"), ("a1", "b1"))
    assert (table.x0, table.x1, table.top, table.bottom) == (100.0, 300.0, HEIGHT - 540, HEIGHT - 500)
    assert parse_bytes(data, "x.pdf", engine=engine).layout.pages[0].tables == ()


def test_too_many_pages_are_refused_before_any_is_read(engine: Engine) -> None:
    with pytest.raises(ParseError, match=r"limit: .*4 pages"):
        parse_bytes(pdf(*[words("x")] * 4), "x.pdf", engine=engine, limits=Limits(pages=3))


def test_a_part_of_a_file_that_is_broken_costs_no_other_part() -> None:
    def broken(_: object) -> None:
        raise KeyError("/Nums")

    about = about_event(
        None, items=lambda _: [bookmark(60, "A\n\ufb01le", 3, None)], labels=broken, metadata=lambda _: {"a": "b"}
    )
    assert about["problems"] == ["labels: KeyError: '/Nums'"]
    assert (about["items"], about["labels"], about["metadata"]) == ([[50, "A file", 3, None]], [], {"a": "b"})
    with pytest.raises(MemoryError):  # of which nothing may be swallowed: the process is not worth trusting
        about_event(None, labels=lambda _: (_ for _ in ()).throw(MemoryError()))


def test_a_page_comes_back_from_the_pipe_as_it_was_sent() -> None:
    styles = ({"bold": True}, {"italic": True}, {"mono": True}, {})
    spans = tuple(Span(text="a", x0=n, x1=n + 0.5, size=9.5, **style) for n, style in enumerate(styles))
    line = Line(text="a a a a", x0=0.0, x1=3.5, top=4.0, bottom=6.0, spans=spans, column=2)
    page = Page(number=7, width=WIDTH, height=HEIGHT, lines=(line,), state="text")
    rows, merged = (("a", "b"), ("c", "")), (Merged(0, 0, 1, 2),)
    table = RuledTable(x0=1.5, x1=2.0, top=3.0, bottom=4.0, rows=rows, merged=merged)
    page = replace(page, tables=(table,), note="n", hidden="3 white on white", label="iv")
    sides = {"x0": 1.0, "x1": 3.0, "top": 2.0, "bottom": 4.5, "png": b"png", "width": 8, "height": 10}
    page = replace(
        page, figures=(FigureCrop(kind="bitmap", **sides), FigureCrop(kind="drawing", svg="<svg/>", **sides))
    )
    figures = [{"box": [1.0, 2.0, 3.0, 4.5], "kind": kind, "size": [8, 10], "png": "cG5n", "svg": svg}
               for kind, svg in (("bitmap", ""), ("drawing", "<svg/>"))]  # fmt: skip
    assert page_of(json.loads(json.dumps(page_event(page))), "iv", figures) == page
    assert page_of({**page_event(page), "state": "odd"}, "iv").state == "failed"


def test_bookmarks_to_pages_that_are_not_there_are_left_out() -> None:
    items = [[1, "before", 0, None], [1, "first", 1, 5.0], [2, "last", 3, None], [1, "behind", 4, None]]
    assert [item.title for item in outline_of({"items": items}, 3)] == ["first", "last"]


@pytest.mark.parametrize(
    ("settings", "extra"), [({"engine": "pypdfium2"}, "fast-pdf"), ({"ruled_tables": True}, "tables")]
)
def test_a_missing_extra_says_how_to_install_it(monkeypatch, settings, extra):
    monkeypatch.setattr("catena.parsing.files.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=rf"catena(?:-core)?\[{extra}\]"):
        parse_bytes(b"%PDF-", "x.pdf", **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "pages", "bookmarks"),
    [("R-data", 41, 43), ("R-FAQ", 52, 104), ("libtasn1", 36, 21), ("tutorial", 60, 0)],
)
def test_real_manuals(engine: Engine, name: str, pages: int, bookmarks: int) -> None:
    parsed = parse(needs_data("pdfs", f"{name}.pdf"), engine=engine)
    check_laws(parsed)
    assert (len(parsed.layout.pages), len(parsed.layout.outline), parsed.state) == (pages, bookmarks, "parsed")
    assert {line.column for page in parsed.layout.pages for line in page.lines} <= {0, 1}
    if name == "R-data":
        assert "Reading data into a statistical system for analysis and exporting the results" in parsed.document.text
        heading = next(line for line in parsed.layout.pages[6].lines if line.text == "1.1 Imports")
        assert (heading.size, heading.bold) == (14.35, True)
        assert parsed.layout.outline[1].title == "1 Introduction"


def test_a_real_card_of_three_columns(engine: Engine) -> None:
    parsed = parse(needs_data("pdfs", "refcard.pdf"), engine=engine)
    check_laws(parsed)
    lines = parsed.layout.pages[0].lines
    assert [line.column for line in lines] == sorted(line.column for line in lines)
    order = ["Help", "Operators", "Random Numbers", "Character strings", "GP Programming"]
    texts = [line.text for line in lines]
    assert [title for title in texts if title in order] == order
    assert "describe function ?function" in texts  # a definition and its term stay on one line
