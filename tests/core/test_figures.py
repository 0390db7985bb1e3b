"""Figures on PDF pages: where they are, what is none, how they are cropped, and what hostile files can do."""

from __future__ import annotations

import io
import random
from dataclasses import replace
from pathlib import Path

import pypdfium2 as pdfium
import pytest
from case_files import rows_of
from drawn_pages import HEIGHT, KINDS, amid, bars, bitmap, circles, listing, overlap, pdf, prose, table, text
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops
from pypdf import PdfReader, PdfWriter

from catena.formatting import figures_of, format_layout
from catena.model import Document, FigureCrop, Parsed
from catena.model.layout import Line, RuledTable, Span
from catena.parsing import figure_shapes, parse_bytes
from catena.parsing import pdf_pypdfium2 as figures
from catena.parsing.figure_regions import (
    Region,
    clusters,
    connects,
    draws_something,
    find_regions,
    running_text,
    without_decorations,
)
from catena.parsing.figure_shapes import Box, Drawn, Shape
from catena.parsing.files import parsed_pdf
from catena.parsing.pages import page_event
from catena.parsing.pdf_pypdfium2 import MARGIN, MAX_PIXELS, cropped, marked_page, png
from catena.parsing.protocol import Unreadable

AT = Box(120, 200, 360, 300)


def read(data: bytes, **options: object) -> Parsed:
    return parse_bytes(data, "a.pdf", engine="pypdfium2", figures=True, **options)


def found(data: bytes) -> list[FigureCrop]:
    layout = read(data).layout
    return [figure for page in layout.pages for figure in page.figures]


def box(figure: FigureCrop) -> Box:
    return Box(figure.x0, figure.top, figure.x1, figure.bottom)


def page_with(draw, at=AT):
    """A page of text with a figure and its caption."""

    def figure(canvas):
        draw(canvas, at)
        text(canvas, "Figure 1: the parts of the transmitter", 60, at.bottom + 24)

    return amid(figure, at.bottom + 60)


def test_generated_pages_are_found_without_miss_or_false_alarm():
    draws = random.Random(11)
    truth: list[list[tuple[str, Box]]] = []

    def figure(canvas, box, caption):
        draw = draws.choice(KINDS)
        truth[-1].append((draw.__name__, draw(canvas, box)))
        end = truth[-1][-1][1].bottom
        text(canvas, f"{caption} the parts of it", box.x0, end + 10)
        return end + 36

    def page(canvas):
        truth.append([])
        bitmap(canvas, Box(470, 20, 550, 60), seed=99)  # a logo on every page
        canvas.line(60, HEIGHT - 66, 535, HEIGHT - 66)
        kind = draws.choice(["one", "two", "tables"])
        if kind == "one":
            y = prose(canvas, 60, 80, 470, draws.randint(4, 9)) + 20
            for _ in range(2):
                x, wide, high = draws.randint(85, 200), draws.randint(180, 330), draws.randint(70, 130)
                y = figure(canvas, Box(x, y, x + wide, y + high), f"Figure {len(truth)}:")
                y = prose(canvas, 60, y, 470, draws.randint(2, 5)) + 18
        elif kind == "two":
            for x in (60, 310):
                y = prose(canvas, x, 80, 225, draws.randint(5, 15)) + 18
                y = figure(canvas, Box(x + 22, y, x + 212, y + draws.randint(75, 110)), f"Fig. {x}.")
                prose(canvas, x, y, 225, draws.randint(4, 12))
        else:
            y = prose(canvas, 60, 80, 470, 4) + 14
            table(canvas, 60, y, draws.randint(2, 5), draws.randint(3, 9))
            table(canvas, 60, y + 190, 4, 5, ruled=False)
            listing(canvas, 60, y + 300, ["value = read_register(0x02)"] * draws.randint(3, 8))
            canvas.line(60, HEIGHT - 780, 200, HEIGHT - 780)

    layout = read(pdf(*[page] * 24)).layout
    assert {name for here in truth for name, _ in here} == {draw.__name__ for draw in KINDS}
    for printed, here in zip(layout.pages, truth, strict=True):
        assert len(printed.figures) == len(here), printed.number
        for name, known in here:
            nearest = max(printed.figures, key=lambda each: overlap(box(each), known))
            assert overlap(box(nearest), known) > 0.9, printed.number
            assert nearest.kind == ("bitmap" if name == "bitmap" else "drawing")


def wires(canvas, at=AT, boxes=lambda canvas, *sides: canvas.rect(*sides)):
    """Draw two devices and three wires between them, each with a name."""
    for x in (at.x0, at.x1 - 70):
        boxes(canvas, x, HEIGHT - at.bottom, 70, at.height)
        text(canvas, "Device", x + 8, at.top + 6, 8)
    for n in range(3):
        y = at.top + at.height * (n + 1) / 4
        canvas.line(at.x0 + 70, HEIGHT - y, at.x1 - 70, HEIGHT - y)
        text(canvas, f"core {n}", at.x0 + 100, y - 9, 6)


def four_lines(canvas, x, y, wide, high):
    for side in ((x, y, x + wide, y), (x, y + high, x + wide, y + high), (x, y, x, y + high)):
        canvas.line(*side)
    canvas.line(x + wide, y, x + wide, y + high)


def test_lines_that_lead_from_box_to_box_are_a_figure_however_the_boxes_are_drawn():
    rounded = lambda canvas, *sides: canvas.roundRect(*sides, 5)  # noqa: E731
    ways = (lambda canvas, *sides: canvas.rect(*sides), rounded, four_lines)
    for boxes in ways:
        (figure,) = found(pdf(page_with(lambda canvas, at, boxes=boxes: wires(canvas, at, boxes))))
        assert overlap(box(figure), AT) > 0.93


def rounded_frame(canvas):
    """A frame whose corners are drawn one by one, around a few words."""
    for x, y, start in ((60, 640, 90), (380, 640, 0), (380, 540, 270), (60, 540, 180)):
        canvas.arc(x, y, x + 10, y + 10, start, 90)
    for side in ((65, 650, 385, 650), (65, 540, 385, 540), (60, 545, 60, 645), (390, 545, 390, 645)):
        canvas.line(*side)
    text(canvas, "Mind the current", 80, 220, 9)


def spanned(canvas):
    """A table whose first and last cells go over several rows, so that lines end between them."""
    table(canvas, 60, 200, 4, 3)
    for row in range(3, 6):
        text(canvas, "first", 64, 200 + 16 * row + 4, 8)
        canvas.line(140, HEIGHT - 200 - 16 * row, 300, HEIGHT - 200 - 16 * row)
    four_lines(canvas, 60, HEIGHT - 296, 320, 48)
    canvas.line(140, HEIGHT - 248, 140, HEIGHT - 296)
    canvas.line(300, HEIGHT - 248, 300, HEIGHT - 296)


def shaded(canvas):
    """A table as offices print it: each cell of every other row is filled by itself, many of them empty."""
    for row in range(8):
        canvas.setFillGray(0.85)
        for column in range(8 if row % 2 else 0):
            canvas.rect(60 + 50 * column, HEIGHT - 216 - 14 * row, 50, 14, fill=1, stroke=0)
        canvas.setFillGray(0)
        for column in (0, 2, 5) if row != 3 else ():
            text(canvas, f"{row}{column}1", 64 + 50 * column, 205 + 14 * row, 7)


def greyed(canvas):
    """A table with cells that do not apply, filled grey."""
    table(canvas, 60, 200, 4, 6)
    canvas.setFillGray(0.8)
    for column, row in ((1, 2), (3, 4), (2, 5)):
        canvas.rect(60 + 80 * column, HEIGHT - 216 - 16 * row, 80, 16, fill=1, stroke=0)


def form(canvas):
    for row in range(5):
        text(canvas, "Name of the part:", 60, 203 + 26 * row, 8)
        canvas.rect(160, HEIGHT - 216 - 26 * row, 120, 16)
        canvas.rect(300, HEIGHT - 212 - 26 * row, 9, 9)
        canvas.lines([(302, HEIGHT - 208 - 26 * row, 304, HEIGHT - 211 - 26 * row),
                      (304, HEIGHT - 211 - 26 * row, 308, HEIGHT - 205 - 26 * row)])  # fmt: skip
        canvas.line(330, HEIGHT - 214 - 26 * row, 450, HEIGHT - 214 - 26 * row)


NONE = {
    "table": lambda canvas: table(canvas, 60, 200, 4, 6),
    "booktabs": lambda canvas: table(canvas, 60, 200, 4, 6, ruled=False),
    "cells": lambda canvas: [canvas.rect(60 + 80 * (n % 4), 560 - 16 * (n // 4), 80, 16) for n in range(24)],
    "frame": lambda canvas: listing(canvas, 60, 200, ["print('a frame is no figure')"] * 6),
    "page frame": lambda canvas: canvas.rect(10, 10, 575, 822),
    "background": lambda canvas: bitmap(canvas, Box(0, 0, 595, 842)),
    "icon": lambda canvas: bitmap(canvas, Box(100, 200, 130, 230)),
    "underlines": lambda canvas: [canvas.line(60, HEIGHT - y, 250, HEIGHT - y) for y in (200, 215, 400)],
    "bullet": lambda canvas: canvas.circle(80, 500, 4, fill=1),
    **{draw.__name__: draw for draw in (spanned, shaded, greyed, form, rounded_frame)},
}


@pytest.mark.parametrize("draw", NONE.values(), ids=NONE)
def test_rules_frames_small_things_and_tables_and_forms_that_look_like_drawings_are_no_figures(draw):
    assert found(pdf(amid(draw))) == []


def test_a_drawing_that_pdfplumber_takes_for_a_table_is_a_figure_and_no_table():
    def page(canvas, at):
        for n in range(4):  # registers
            canvas.rect(at.x0 + 80 * (n % 2), HEIGHT - at.bottom + 50 * (n // 2), 80, 50)
            text(canvas, f"register {n}", at.x0 + 80 * (n % 2) + 5, at.bottom - 50 * (n // 2) - 30, 8)
        canvas.line(at.x0 + 160, HEIGHT - at.top - 30, at.x1 - 40, HEIGHT - at.top - 30)
        canvas.rect(at.x1 - 40, HEIGHT - at.bottom, 40, at.height)

    parsed = read(pdf(page_with(page)), ruled_tables=True)
    assert len(parsed.layout.pages[0].figures) == 1
    assert "| " not in format_layout(parsed).text


def test_each_of_two_figures_side_by_side_has_its_own_title_of_as_many_lines_as_it_has():
    def draw(canvas):
        for x, name in ((90, "left"), (300, "right")):
            wires(canvas, Box(x, 200, x + 190, 280))
            text(canvas, f"Figure {1 + (x > 90)}. The {name} one, with its", x, 292, 9)
            text(canvas, f"{name} device and {name} wires", x, 303, 9)

    parsed = read(pdf(amid(draw)))
    titles = [figure.title for figure in figures_of(replace(parsed, document=format_layout(parsed)))]
    ending = "one, with its {0} device and {0} wires"
    assert titles == [f"Figure 1. The left {ending.format('left')}", f"Figure 2. The right {ending.format('right')}"]


def line(words, x0, x1, top, look=None, *, size=10.0, inked=1.0, column=0):
    if look is not None:
        return line(words, x0, x1, top, **look)
    span = Span(text=words, x0=x0, x1=x0 + inked * (x1 - x0), size=size)
    return Line(text=words, x0=x0, x1=x1, top=top, bottom=top + size, spans=(span,), column=column)


def shapes_of(drawn: str) -> list[Shape]:
    """Return shapes told as "kind x0 top x1 bottom", with commas; a bar is a box that is filled."""
    told = [shape.split() for shape in drawn.split(", ")]
    boxes = [(kind, Box(*map(float, sides))) for kind, *sides in told]
    return [Shape("box" if kind == "bar" else kind, at, solid=kind == "bar") for kind, at in boxes]


def regions(drawn: str, *written: Line) -> list[Region]:
    """Return the figures of a page of 600 by 800 points on which shapes and lines are."""
    texts = [Box(line.x0, line.top, line.x1, line.bottom) for line in written]
    return find_regions(Drawn(shapes_of(drawn), texts), written, (), (600.0, 800.0))


PHOTO = "image 100 200 200 300"


@pytest.mark.parametrize(("drawn", "written", "boxes"), rows_of("cases_figure_reach.txt"))
def test_how_far_a_figure_reaches(drawn, written, boxes):
    found = regions(drawn, *(line(*each) for each in written))
    assert [" ".join(f"{side:g}" for side in region.box) for region in found] == [*boxes]


@pytest.mark.parametrize(("drawn", "right", "count"), rows_of("cases_figure_tables.txt"))
def test_what_is_drawn_in_a_table_is_no_figure_unless_it_is_mostly_pictures(drawn, right, count):
    table = RuledTable(x0=100, x1=right, top=200, bottom=300, rows=(("a", "b"), ("c", "d")))
    assert len(find_regions(Drawn(shapes_of(drawn), []), (), [table], (600.0, 800.0))) == count


@pytest.mark.parametrize(("lines", "read"), rows_of("cases_figure_prose.txt"))
def test_which_lines_are_running_text(lines, read):
    assert "".join("ny"[each] for each in running_text([line(*each) for each in lines], 600.0)) == read


def test_a_photo_is_a_bitmap_and_has_the_same_content_wherever_it_stands():
    marked = f"{PHOTO}, ink 110 210 180 240, ink 110 250 180 290"
    drawn = f"{marked}, ink 120 244 160 246"
    found = [regions(*page)[0] for page in ((PHOTO, line("one", 206, 300, 240)), (marked,))]
    found += [regions(*page)[0] for page in ((PHOTO, line("one", 206, 301, 240)), (drawn,))]
    assert [each.kind for each in found] == ["bitmap", "bitmap", "drawing", "drawing"]
    shapes = shapes_of(drawn)
    moved = [shape._replace(box=Box(*(side + 33 for side in shape.box))) for shape in shapes]
    *first, last = shapes
    changed = [last._replace(box=Box(*(s + 2 * (n == m) for n, s in enumerate(last.box)))) for m in range(4)]
    others = [[*first, each] for each in (*changed, last._replace(mark=1), last._replace(kind="rule"))]
    contents = [find_regions(Drawn(each, []), (), (), (600.0, 800.0))[0].content for each in (shapes, moved, *others)]
    assert contents[0] == contents[1]
    assert len(set(contents)) == 1 + len(others)


def region(x: float = 100, y: float = 300, content: int = 1) -> Region:
    return Region(Box(x, y, x + 50, y + 50), "bitmap", content)


@pytest.mark.parametrize(("places", "stays"), rows_of("cases_figure_ornaments.txt"))
def test_one_content_on_several_pages_is_an_ornament(places, stays):
    pages = {number: [region(*place)] for number, place in enumerate(places, 1)}
    left = without_decorations(pages | {9: [region(content=2)]}, dict.fromkeys(range(1, 10), 800.0))
    assert [bool(left[number]) for number in (*pages, 9)] == [stays] * len(pages) + [True]


places, sides = st.floats(0, 700), st.floats(0, 200)


@pytest.mark.parametrize(("other", "page", "together"), rows_of("cases_figure_clusters.txt"))
def test_what_lies_together_is_of_cells_that_touch(other, page, together):
    assert (len(clusters(shapes_of(f"ink 0 0 5 5, {other}"), page)) == 1) is together
    one, two = (Shape("ink", Box(x, x, x + 5, x + 5), group=1) for x in (0, 54))
    assert len(clusters([one, two], (90, 65))) == 1  # parts of one drawing that covers less than 0.6 of the page
    assert len(clusters([one, two], (90, 64))) == 2


@pytest.mark.parametrize(("drawn", "texts", "is_drawing"), rows_of("cases_figure_drawings.txt"))
def test_which_shapes_are_a_drawing(drawn, texts, is_drawing):
    written = [Box(*map(float, text.split())) for text in texts]
    assert draws_something(shapes_of(drawn), written) is is_drawing


@pytest.mark.parametrize(("drawn", "leads"), rows_of("cases_figure_wires.txt"))
def test_where_lines_lead_from_box_to_box(drawn, leads):
    shapes = shapes_of(f"box 0 0 20 20, {drawn}")
    turned = [shape._replace(box=Box(*(shape.box[side] for side in (1, 0, 3, 2)))) for shape in shapes]
    assert (connects(shapes), connects(turned)) == (leads, leads)


@given(st.lists(st.tuples(places, places, sides, sides), min_size=1, max_size=30))
def test_clusters_part_the_shapes_and_what_overlaps_is_together(drawn):
    shapes = [Shape("ink", Box(x, y, x + w, y + h), mark=index) for index, (x, y, w, h) in enumerate(drawn)]
    groups = clusters(shapes, (900.0, 900.0))
    assert sorted(shape.mark for group in groups for shape in group) == list(range(len(shapes)))
    home = {shape.mark: number for number, group in enumerate(groups) for shape in group}
    for one in shapes:
        assert all(home[one.mark] == home[two.mark] for two in shapes if one.box.meets(two.box))


def test_the_crop_shows_the_figure_with_a_margin_at_the_resolution_asked_for():
    (figure,) = (f for page in read(pdf(page_with(bars)), figure_dpi=100).layout.pages for f in page.figures)
    image = Image.open(io.BytesIO(figure.png))
    assert f'viewBox="{figure.x0 - MARGIN:.2f} {figure.top - MARGIN:.2f} ' in figure.svg
    assert image.size == (figure.width, figure.height)
    sides = (figure.x1 - figure.x0, figure.bottom - figure.top)
    assert image.size == pytest.approx([(side + 2 * MARGIN) * 100 / 72 for side in sides], abs=3)
    blue = sum(pixel == (26, 77, 128) for pixel in image.convert("RGB").get_flattened_data())
    drawn = sum(AT.width / 10 * AT.height * (0.3 + 0.13 * index) for index in range(5)) * (100 / 72) ** 2
    assert blue == pytest.approx(drawn, rel=0.05)
    edge = image.crop((0, 0, figure.width, 3)).convert("RGB").get_flattened_data()
    assert set(edge) == {(255, 255, 255)}


def inked(packed: bytes) -> tuple[int, ...]:
    """Return the box of all pixels that are not white, and the size of the picture."""
    image = Image.open(io.BytesIO(packed)).convert("RGB")
    return (*ImageChops.invert(image).getbbox(), *image.size)


def test_a_crop_and_a_mark_are_exact_to_the_pixel_and_end_at_the_border_of_the_page():
    drawn = pdf(lambda canvas: canvas.rect(100, HEIGHT - 236, 40, 36, stroke=0, fill=1))
    page, at = pdfium.PdfDocument(drawn)[0], Box(100, 200, 140, 236)
    sides = [(at, 72, 4.0, (4, 4, 44, 40, 48, 44)), (at, 144, 0.0, (0, 0, 80, 72, 80, 72))]
    sides += [(Box(0, 0, 140, 236), 72, 4.0, (100, 200, 140, 236, 144, 240))]
    sides += [(Box(100, 200, 595, 842), 72, 4.0, (4, 4, 44, 40, 499, 646))]
    for around, dpi, margin, expected in sides:
        assert inked(cropped(page, around, dpi, photo=False, margin=margin)[0]) == expected
    marks = [((100, 100, 200, 120), 72, (99, 99, 201, 121)), ((100, 100, 200, 120), 144, (198, 199, 402, 241))]
    marks += [((0, 0, 5, 5), 72, (0, 0, 6, 6)), ((590, 835, 595, 842), 72, (589, 834, 595, 842))]
    blank = pdf(*[lambda canvas: canvas.setTitle("")] * 3)
    for mark, dpi, expected in marks:
        for number in (1, 2, 3):
            assert inked(marked_page(blank, None, number, [mark], dpi))[:4] == expected
    for number in (0, 4):
        with pytest.raises(Unreadable, match=f"it has no page {number}"):
            marked_page(blank, None, number, [], 72)
    assert inked(marked_page(blank, None, 1, [(0, 0, 5, 5)], 600))[4:] == (1682, 2380)  # four million pixels


def test_a_turned_page_is_cropped_as_it_is_shown():
    words = "Some words, so that the page has text."
    drawn = pdf(lambda canvas: (text(canvas, words, 60, 60, 12), circles(canvas, AT)))
    writer, out = PdfWriter(clone_from=PdfReader(io.BytesIO(drawn))), io.BytesIO()
    writer.pages[0].rotate(90)
    writer.write(out)
    (figure,) = found(out.getvalue())
    assert (figure.x1 - figure.x0, figure.bottom - figure.top) == pytest.approx((100, 240), abs=3)
    assert figure.width < figure.height


@given(st.integers(1, 7), st.integers(1, 7), st.booleans(), st.data())
def test_png_gives_back_every_pixel(width, height, photo, data):
    stride = 3 * width + data.draw(st.integers(0, 3))
    pixels = data.draw(st.binary(min_size=stride * height, max_size=stride * height))
    packed, wide, tall = png(pixels, width, height, stride=stride, photo=photo)
    image = Image.open(io.BytesIO(packed))
    assert (wide, tall) == image.size == (width, height)
    rows = [pixels[y * stride : y * stride + 3 * width] for y in range(height)]
    assert image.tobytes() == b"".join(rows)


FLIPPED = (1.0, 0.0, 0.0, -1.0, 0.0, HEIGHT)


def test_each_kind_of_thing_is_drawn_as_svg_and_noted_with_its_place():
    page = pdfium.PdfDocument(Path(__file__).with_name("all_kinds.pdf"))[0]  # clipped, white and hidden things, too
    svg = figure_shapes.svg_of(page, FLIPPED, Box(90, 90, 460, 250), lambda at: f"{at}".encode())
    assert svg == Path(__file__).with_name("all_kinds.svg").read_text(encoding="utf-8")
    drawn = figure_shapes.drawn_on(page, FLIPPED, (595.0, HEIGHT))
    told = (f"{s.kind} {' '.join(f'{side:.0f}' for side in s.box)} {s.solid:d} {s.group}" for s in drawn.shapes)
    assert ", ".join(told) == (
        "ink 98 98 202 102 0 0, ink 100 122 160 162 1 0, ink 120 202 150 242 1 0, ink 100 202 150 242 1 0, "
        "box 200 201 241 222 0 1, rule 200 161 241 163 0 1, image 250 220 290 240 0 0, rule 310 220 350 222 0 0, "
        "ink 8 830 22 834 0 0"
    )
    assert len(drawn.texts) == 3
    assert drawn.shapes[6].mark == drawn.shapes[7].mark != drawn.shapes[5].mark


@pytest.mark.parametrize(("depth", "count"), [(6, 1), (7, 0)])
def test_forms_in_forms_are_drawn_to_a_depth(depth, count):
    def nested(canvas):
        for level in range(depth):
            canvas.beginForm(f"form{level}")
            canvas.line(100, 100, 300, 200) if level == 0 else canvas.doForm(f"form{level - 1}")
            canvas.endForm()
        canvas.doForm(f"form{depth - 1}")

    page = pdfium.PdfDocument(pdf(nested))[0]
    assert len(figure_shapes.drawn_on(page, FLIPPED, (595.0, HEIGHT)).shapes) == count
    assert figure_shapes.svg_of(page, FLIPPED, Box(0, 0, 595, 842), lambda _: b"").count("<path") == count


@pytest.mark.parametrize(("points", "curved", "kind"), rows_of("cases_figure_paths.txt"))
def test_of_what_kind_a_path_is(points, curved, kind):
    seen = Box(*(find(side) for find in (min, max) for side in zip(*points, strict=True)))
    assert figure_shapes.kind_of_path(points, curved, seen) == kind


def test_a_drawing_too_large_for_svg_is_a_picture_only(monkeypatch):
    file = pdfium.PdfDocument(pdf(page_with(wires)))
    base = (1, 0, 0, -1, 0, HEIGHT)
    assert "<path" in figure_shapes.svg_of(file[0], base, AT, lambda _: b"")
    monkeypatch.setattr(figure_shapes, "MAX_SVG", 500)
    assert figure_shapes.svg_of(file[0], base, AT, lambda _: b"") == ""


def test_a_huge_figure_is_rendered_at_fewer_dots_and_equal_bytes_give_equal_figures():
    data = pdf(page_with(bitmap, Box(60, 180, 560, 640)))
    for dpi in (150, 600):
        layout = read(data, figure_dpi=dpi).layout
        (figure,) = layout.pages[0].figures
        assert (figure.width * figure.height <= MAX_PIXELS * 1.01, figure.svg) == (True, "")
        assert read(data, figure_dpi=dpi).layout == layout


def test_without_being_asked_for_there_are_none_and_pypdf_has_none():
    data = pdf(page_with(bars))
    for options in ({"engine": "pypdfium2"}, {"engine": "pypdf", "figures": True}):
        parsed = parse_bytes(data, "a.pdf", **options)
        assert (parsed.state, [page.figures for page in parsed.layout.pages]) == ("parsed", [()])


def test_ink_without_end_is_looked_at_up_to_a_cap(monkeypatch):
    def lines(canvas):
        for index in range(500):
            canvas.line(60, 300 + index % 7, 300, 400 - index % 11)

    file = pdfium.PdfDocument(pdf(amid(lines)))
    monkeypatch.setattr(figure_shapes, "MAX_OBJECTS", 100)
    drawn = figure_shapes.drawn_on(file[0], (1, 0, 0, -1, 0, HEIGHT), (595.0, HEIGHT))
    assert len(drawn.shapes) + len(drawn.texts) <= 100


def test_time_that_runs_out_on_figures_keeps_the_text_and_says_so():
    layout = read(pdf(page_with(bars), page_with(bars))).layout
    pages = [page_event(replace(page, figures=())) for page in layout.pages]
    late = {"event": "failed", "state": "timeout", "what": "it was not read within 60 s", "do_next": ""}
    events = [{"event": "start", "pages": 2}, *pages, {"event": "about", "items": []}, late]
    parsed = parsed_pdf(events, Document(id="a", text=""), "a.pdf")
    assert (parsed.state, parsed.document.text[:12]) == ("partial", "the pressure")
    why = "figures from here on may be missing: it was not read within 60 s"
    assert [(note.state, note.why) for note in parsed.notes] == [("text", why)]


class OnePage:
    def get_size(self):
        return 595.0, 842.0


def events_of(monkeypatch, drawn_on) -> list[dict]:
    finder = figures.FigureFinder(100)
    monkeypatch.setattr(figures, "drawn_on", drawn_on)
    finder.look(OnePage(), read(pdf(page_with(bars))).layout.pages[0], (1, 0, 0, 1, 0, 0))
    return list(finder.events(None))


def test_more_figures_than_a_page_may_have_are_named(monkeypatch):
    monkeypatch.setattr(figures, "find_regions", lambda *_: [region(x=float(n), content=n) for n in range(50)])
    monkeypatch.setattr(figures, "_event", lambda *_: {"event": "figure", "png": "", "page": 1})
    events = events_of(monkeypatch, lambda *_: None)
    assert sum(event["event"] == "figure" for event in events) == figures.MAX_ON_PAGE
    assert "10 figures more than 40" in events[-1]["why"]


def test_what_pdfium_raises_costs_the_figures_of_one_page_only(monkeypatch):
    def broken(*_):
        raise ValueError("a broken object")

    why = "figures were not looked for (ValueError: a broken object)"
    assert events_of(monkeypatch, broken) == [{"event": "no-figure", "page": 1, "why": why}]
