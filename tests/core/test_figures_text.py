"""Figures in the text: captions, places, links, views, and what is said around them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from drawn_pages import amid, bars, circles, curve, diagram, pdf, prose, text
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


TITLE = "Figure 1: Signal path in the transmitter"
AFTER = "After the figure, the oil is checked once a year for bubbles and for its colour."


def figure_page(canvas, below=True):
    diagram(canvas, Box(120, 190, 420, 260))
    text(canvas, TITLE, 60, 284 if below else 166)
    text(canvas, AFTER, 60, 330, 10)


FIGURE_PAGE = amid(figure_page, 343.5, lines=5)


def page_of(*drawn):
    """A page of text, with what is drawn or written amid it: (draw or words, left, top)."""

    def draw(canvas):
        for what, left, top in drawn:
            if isinstance(what, str):
                text(canvas, what, left, top)
            else:
                what(canvas, Box(left, top, left + 200, top + 70))

    return amid(draw, 440, lines=5)


CAPTIONS = """Figure 3: Mounting|Fig. 3. Mounting|FIGURE 3-2|Figure A.1 Mounting of the cover|Abb. 2: Einbau
图 4 安装|图表三|Abbildung 12 Einbau|Figura 4. Montaje|圖表三|図1 構成|그림 2. 설치|Рис. 1. Схема
Obrázok 4: Montáž|Chart 2 – Sales|Scheme 1|Exhibit 7|Figuur 2: Montage|Fig 3(a) Cover""".replace("\n", "|").split("|")
OTHERS = """Figure 3 shows the mounting|Table 3: Ranges|Tabelle 2: Werte|Section 4: Mounting|Step 2: Turn it|HX200
as in Figure 3: the cover|2 Mounting|The 3 bars:|In 2024: a year""".replace("\n", "|").split("|")


@pytest.mark.parametrize(
    ("line", "known"), [*((line, True) for line in CAPTIONS), *((line, False) for line in OTHERS)]
)
def test_captions_are_known_in_many_languages(line, known):
    assert is_figure_caption(line) is known


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
    parsed = formatted(amid(lambda canvas: figure_page(canvas, below), 343.5, lines=5))
    (figure,) = figures_of(parsed)
    written = parsed.document.text
    assert (figure.title, figure.labels) == (TITLE, "Sensor Converter Output")
    link = figure_link(figure.name, figure.title, figure.labels)
    assert f"{link}\n\n{TITLE}\n" in written
    assert written.index(link) < written.index("After the figure")
    assert written.count("Converter") == 1  # the text inside is nowhere else


ONE, TWO, PARTED = "Figure 1: the first", "Figure 2: the second", "This sentence parts them."


@pytest.mark.parametrize(
    ("drawn", "titles"),
    [
        pytest.param([(circles, 120, 190)], [""], id="none"),
        pytest.param([(circles, 120, 190), ("(a)", 220, 284), (ONE, 120, 310)], [ONE], id="a mark between"),
        pytest.param([(circles, 120, 190), (PARTED, 220, 284), (ONE, 120, 310)], [""], id="words"),
        pytest.param([(curve, 80, 190), (bars, 330, 190), (ONE, 60, 292)], [ONE, ONE], id="side by side"),
        pytest.param([(curve, 80, 190), (ONE, 60, 284), (bars, 80, 310), (TWO, 60, 404)], [ONE, TWO], id="nearest"),
    ],
)
def test_a_figure_has_the_title_of_its_caption(drawn, titles):
    assert [figure.title for figure in figures_of(formatted(page_of(*drawn)))] == titles


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


def test_every_letter_is_kept_and_offsets_point_to_the_pages():
    plain = page_of()
    parsed = formatted(plain, FIGURE_PAGE, plain)
    lines = [line.text for page in parsed.layout.pages for line in page.lines]
    assert all(word in parsed.document.text for line in lines for word in line.split())
    (link,) = figure_links(parsed.document.text)
    assert parsed.document.page_at(link.start) == 2


def test_a_figure_chunk_is_an_exact_slice_with_its_views_and_its_citation():
    parsed = formatted(FIGURE_PAGE)
    entry = prepare(parsed.document, Preparation(figures=True), figures=figures_of(parsed))
    (chunk,) = [chunk for chunk in entry.chunks if chunk.kind == "figure"]
    assert entry.document.text[chunk.start : chunk.end] == chunk.text
    assert (chunk.metadata[FIGURE], "page 1" in citation(chunk)) == (entry.figures[0].name, True)
    views = {view.kind: view.text for view in entry.views if view.chunk_id == chunk.id}
    assert set(views) == {"headed", "caption"}
    assert "figures/" not in views["headed"] + views["caption"]
    assert (views["headed"].count("Signal path"), "Sensor Converter Output" in views["headed"]) == (1, True)
    assert ["After the figure" in views[kind] for kind in ("caption", "headed")] == [True, False]
    assert in_words(chunk.text).startswith("Sensor Converter Output")


def test_documents_without_our_figures_are_cut_as_before():
    document = Document(id="d", text="# T\n\n![a](pic.png)\n\nFigure 1: a picture\n")
    assert prepare(document) == prepare(document, figures=())
    assert {view.kind for view in prepare(document).views} == {"headed"}


def test_surroundings_are_the_words_on_the_page_around_figure_and_caption():
    link = figure_link(figure_name("d", 1, 1), "Figure 1: T", "x")
    before, after = ([f"{letter}{i}" for i in range(80)] for letter in "ba")
    body = f"# Head\n\n{' '.join(before)}\n\n{link}\n\nFigure 1: T\n\n**{' '.join(after)}**\n\n"
    document = Document(id="d", text=body + "next page", page_starts=(0, len(body)))
    (found,) = figure_links(document.text)
    assert [side.split() for side in surroundings(document, found)] == [before[30:], after[:50]]
    assert surroundings(document, found, 200)[1].split()[-1] == "a79"
    chinese = Document(id="d", text=f"{'压力变送器' * 30}\n\n{link}\n\n{'安装' * 60}")  # counted in characters
    (found,) = figure_links(chinese.text)
    assert [len(side) for side in surroundings(chinese, found)] == [50, 50]
