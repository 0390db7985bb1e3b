"""Figures in the text: captions, places, links, views, and what is said around them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from drawn_pages import bars, circles, curve, diagram, pdf, prose, text
from hypothesis import given
from hypothesis import strategies as st

from catena.formatting import figures_of, format_layout
from catena.library import Preparation, prepare
from catena.model import (
    FIGURE,
    Document,
    citation,
    figure_link,
    figure_links,
    figure_name,
    in_words,
    is_figure_caption,
    is_figure_name,
)
from catena.parsing import parse_bytes
from catena.parsing.figure_shapes import Box
from catena.structure import surroundings


def formatted(*pages):
    parsed = parse_bytes(pdf(*pages), "a.pdf", engine="pypdfium2", figures=True)
    return replace(parsed, document=format_layout(parsed))


def entry_of(*pages):
    parsed = formatted(*pages)
    return prepare(parsed.document, Preparation(figures=True), figures=figures_of(parsed))


def figure_page(canvas, caption="Figure 1: Signal path in the transmitter", below=True):
    prose(canvas, 60, 80, 470, 5)
    diagram(canvas, Box(120, 190, 420, 260))
    text(canvas, caption, 60, 284 if below else 166)
    text(canvas, "After the figure, the oil is checked once a year for bubbles and for its colour.", 60, 330, 10)
    prose(canvas, 60, 343.5, 470, 4)


@pytest.mark.parametrize(
    "line",
    [
        "Figure 3: Mounting", "Fig. 3. Mounting", "FIGURE 3-2", "Figure A.1 Mounting of the cover", "Abb. 2: Einbau",
        "Abbildung 12 Einbau", "Figura 4. Montaje", "图 4 安装", "圖表三", "図1 構成",
        "그림 2. 설치", "Рис. 1. Схема",
        "Obrázok 4: Montáž", "Chart 2 – Sales", "Scheme 1", "Exhibit 7", "Figuur 2: Montage", "Fig 3(a) Cover",
    ],
)  # fmt: skip
def test_captions_are_known_in_many_languages(line):
    assert is_figure_caption(line)


@pytest.mark.parametrize(
    "line",
    ["Figure 3 shows the mounting", "Table 3: Ranges", "Tabelle 2: Werte", "Section 4: Mounting", "Step 2: Turn it",
     "as in Figure 3: the cover", "HX200", "2 Mounting", "The 3 bars:", "In 2024: a year"],
)  # fmt: skip
def test_sentences_tables_and_headings_are_no_captions(line):
    assert not is_figure_caption(line)


@given(st.text(), st.integers(1, 99_999), st.integers(1, 999))
def test_names_are_ours_whatever_the_document_is_called(document_id, page, number):
    name = figure_name(document_id, page, number)
    assert is_figure_name(name)
    assert not set(name) & set("/\\:\0 ")


@given(st.text(), st.text())
def test_a_link_gives_back_its_words(title, labels):
    name = figure_name("d", 3, 1)
    link = figure_link(name, title, labels)
    assert "\n" not in link
    (found,) = figure_links(f"a\n\n{link}\n\nb")
    assert (found.name, found.title, found.labels) == (name, " ".join(title.split()), " ".join(labels.split()))
    assert (found.start, found.end) == (3, 3 + len(link))


@pytest.mark.parametrize(
    "name", ["../a.png", "a.png", "0123456789abcdef-p0001-1.png/..", "", "0123456789ABCDEF-p1-1.png"]
)
def test_other_names_are_refused(name):
    assert not is_figure_name(name)
    assert list(figure_links(f"![x](figures/{name})")) == []


@pytest.mark.parametrize("below", [True, False], ids=["below", "above"])
def test_a_figure_stands_before_its_caption_and_is_named_by_it(below):
    parsed = formatted(lambda canvas: figure_page(canvas, below=below))
    (figure,) = figures_of(parsed)
    written = parsed.document.text
    assert figure.title == "Figure 1: Signal path in the transmitter"
    assert figure.labels == "Sensor Converter Output"
    link = figure_link(figure.name, figure.title, figure.labels)
    assert f"{link}\n\nFigure 1: Signal path in the transmitter\n" in written
    assert written.index(link) < written.index("After the figure")
    assert written.count("Converter") == 1  # the text inside is nowhere else


@pytest.mark.parametrize(("between", "title"), [("(a)", "Figure 1: Two"), ("This sentence parts them.", "")])
def test_only_marks_may_stand_between_a_figure_and_its_caption(between, title):
    def page(canvas):
        prose(canvas, 60, 80, 470, 5)
        circles(canvas, Box(120, 190, 360, 260))
        text(canvas, between, 220, 284)
        text(canvas, "Figure 1: Two", 120, 310)
        prose(canvas, 60, 340, 470, 4)

    assert [figure.title for figure in figures_of(formatted(page))] == [title]


def test_without_a_caption_the_title_is_empty():
    (figure,) = figures_of(formatted(lambda canvas: figure_page(canvas, caption="")))
    assert figure.title == ""


def test_a_paragraph_is_not_torn_by_a_figure_within_it():
    def page(canvas):
        prose(canvas, 60, 80, 470, 3)
        circles(canvas, Box(120, 140, 360, 220))
        text(canvas, "medium reads on in the same sentence without a stop, as floats are put into it.", 60, 240, 10)

    written = formatted(page).document.text
    before, link, after = written.partition("![](figures/")
    assert link
    assert "same sentence" in before or "same sentence" in after
    assert "\n\n![" in f"\n\n{written}"


def test_two_figures_side_by_side_share_one_caption():
    def page(canvas):
        prose(canvas, 60, 80, 470, 5)
        curve(canvas, Box(80, 190, 230, 260))
        bars(canvas, Box(330, 190, 480, 260))
        text(canvas, "Figure 4: left the pressure, right the counts", 60, 292)
        prose(canvas, 60, 330, 470, 4)

    titles = [figure.title for figure in figures_of(formatted(page))]
    assert titles == ["Figure 4: left the pressure, right the counts"] * 2


def test_each_figure_takes_the_nearest_caption():
    def page(canvas):
        prose(canvas, 60, 80, 470, 5)
        curve(canvas, Box(80, 190, 330, 260))
        text(canvas, "Figure 1: the first", 60, 284)
        bars(canvas, Box(80, 310, 330, 380))
        text(canvas, "Figure 2: the second", 60, 404)
        prose(canvas, 60, 440, 470, 4)

    assert [f.title for f in figures_of(formatted(page))] == ["Figure 1: the first", "Figure 2: the second"]


def test_every_letter_is_kept_and_offsets_point_to_the_pages():
    def plain(canvas):
        prose(canvas, 60, 80, 470, 5)

    with_figures = formatted(plain, figure_page, plain)
    document = with_figures.document
    lines = [line.text for page in with_figures.layout.pages for line in page.lines]
    words = document.text.split()
    assert all(word in document.text for line in lines for word in line.split())
    (link,) = figure_links(document.text)
    assert document.page_at(link.start) == 2
    assert words


def test_a_figure_chunk_is_an_exact_slice_with_its_views_and_its_citation():
    entry = entry_of(figure_page)
    (chunk,) = [chunk for chunk in entry.chunks if chunk.kind == "figure"]
    assert entry.document.text[chunk.start : chunk.end] == chunk.text
    assert chunk.metadata[FIGURE] == entry.figures[0].name
    assert "page 1" in citation(chunk)
    views = {view.kind: view.text for view in entry.views if view.chunk_id == chunk.id}
    assert set(views) == {"headed", "caption"}
    assert "figures/" not in views["headed"] + views["caption"]
    assert views["headed"].count("Signal path") == 1
    assert "Sensor Converter Output" in views["headed"]
    assert "After the figure, the oil is checked" in views["caption"]
    assert "After the figure" not in views["headed"]
    assert in_words(chunk.text).startswith("Sensor Converter Output")


def test_documents_without_our_figures_are_cut_as_before():
    document = Document(id="d", text="# T\n\n![a](pic.png)\n\nFigure 1: a picture\n")
    assert prepare(document) == prepare(document, figures=())
    assert {view.kind for view in prepare(document).views} == {"headed"}


def test_surroundings_are_the_words_on_the_page_around_figure_and_caption():
    name = figure_name("d", 1, 1)
    link = figure_link(name, "Figure 1: T", "x")
    before, after = " ".join(f"b{i}" for i in range(80)), " ".join(f"a{i}" for i in range(80))
    body = f"# Head\n\n{before}\n\n{link}\n\nFigure 1: T\n\n**{after}**\n\n"
    document = Document(id="d", text=body + "next page", page_starts=(0, len(body)))
    (found,) = figure_links(document.text)
    left, right = surroundings(document, found)
    assert left.split() == [f"b{i}" for i in range(30, 80)]
    assert right.split() == [f"a{i}" for i in range(50)]
    assert surroundings(document, found, 200)[1].split()[-1] == "a79"


def test_in_a_script_without_spaces_surroundings_are_counted_in_characters():
    link = figure_link(figure_name("d", 1, 1))
    document = Document(id="d", text=f"{'压力变送器' * 30}\n\n{link}\n\n{'安装' * 60}")
    (found,) = figure_links(document.text)
    left, right = surroundings(document, found)
    assert (len(left), len(right)) == (50, 50)
