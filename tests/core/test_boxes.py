"""Where words are printed: of quotes, hits and figures, in a library and on a server, and drawn on their pages."""

from __future__ import annotations

import io
import re
import sqlite3
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from shutil import copytree

import pytest
from cli_calls import refused, value
from drawn_pages import HEIGHT, diagram, pdf, prose, text
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import langchain_catena as lc
import llama_index_catena as li
from catena import Library
from catena.answering import Citation, Quote, verify_quotes
from catena.answering.integration import integrate, shortened
from catena.formatting import format_layout, with_boxes
from catena.library import Preparation
from catena.model import (
    Chunk,
    Document,
    PageBox,
    ParameterError,
    Place,
    PrintedText,
    citation,
    pack_boxes,
    place_in,
    place_metadata,
    unpack_boxes,
)
from catena.parsing import page_picture, parse_bytes
from catena.parsing.figure_shapes import Box
from catena.segments import Constant
from catena.structure import slice_of
from catena_view.report import ReportOptions, report
from langchain_catena.places import PlaceKeys, to_linked
from llama_index_catena.convert import to_chunk
from llama_index_catena.graph.retrieval import chains_of
from llama_index_catena.segment_nodes import to_segment

SAID = "The cover screws are tightened to 2.4 newton metres, and not to more."


def page(canvas):
    text(canvas, "Closing the cover", 60, 60, 16)
    prose(canvas, 60, 100, 470, 3)
    text(canvas, "The cover screws are tightened to 2.4 newton", 60, 180, 10)
    text(canvas, "metres, and not to more.", 60, 193.5, 10)
    for row, cells in enumerate((("part", "torque"), ("cover", "2.4"), ("gland", "3.1"), ("hexagon", "2.4"))):
        for column, cell in enumerate(cells):
            text(canvas, cell, 60 + 200 * column, 240 + 18 * row, 10)
    diagram(canvas, Box(120, 360, 360, 420))
    text(canvas, "Figure 1: Path of the signal", 120, 436, 9)
    prose(canvas, 60, 470, 470, 3)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxes")
    (folder / "manual.pdf").write_bytes(pdf(lambda canvas: prose(canvas, 60, 80, 470, 5), page))
    with Library.open(folder / "lib", preparation=Preparation(engine="pypdfium2", figures=True)) as library:
        library.index([str(folder / "manual.pdf")])
    return folder


@pytest.fixture
def library(shelf):
    with Library.open(shelf / "lib", create=False) as opened:
        yield opened


QUESTION = "how tight are the cover screws"


@pytest.fixture
def hit(library):
    return library.search(QUESTION).hits[0]


@pytest.fixture
def document(library):
    return library.get(library.documents()[0].id).document


@pytest.fixture
def moved(shelf):
    """The file, which is elsewhere than when it was indexed."""
    elsewhere = (shelf / "manual.pdf").rename(shelf / "moved.pdf")
    yield
    elsewhere.rename(shelf / "manual.pdf")


def near(box: PageBox, *sides: float) -> bool:
    return box == pytest.approx(sides, abs=4)


def test_a_quote_has_a_box_for_each_of_its_lines(library, hit):
    first, second = library.boxes(hit, "cover screws are tightened to 2.4 newton metres")
    assert near(first, 2, 80, 180, 262, 190)
    assert near(second, 2, 60, 193.5, 91, 203.5)
    assert set(library.boxes(hit)) >= {second._replace(x1=library.boxes(hit, "not to more.")[0].x1)}
    assert library.boxes(hit, "Cover  screws are") == library.boxes(hit, "cover screws are") != ()
    for words, advice in (
        ("the gland is made of brass", "words as they are printed there"),
        (SAID.replace("2.4", "2.5"), "2.4 newton"),
    ):
        with pytest.raises(ParameterError, match=r"words that stand in manual.*, page 2, lines") as told:
            library.boxes(hit, words)
        assert (words in str(told.value), advice in told.value.do_next) == (True, True)


def test_a_verified_quote_says_page_and_boxes_at_once(library, hit, document):
    (quote,) = verify_quotes([Quote(1, SAID)], [hit], documents=[document])
    assert (quote.verified, quote.pages) == (True, (2, 2))
    assert quote.boxes == library.boxes(quote) == library.boxes(hit, SAID) == library.boxes(Citation(quote, "p. 2"))
    assert [box.page for box in quote.boxes] == [2, 2]


def test_equal_values_of_a_table_are_told_apart_and_a_figure_is_its_box(library, document):
    rows = [(document.text.rindex(row), row) for row in ("cover | 2.4", "gland | 3.1", "hexagon | 2.4")]
    tops = [unpack_boxes(document.printed, at + row.index("|"), at + len(row))[0].top for at, row in rows]
    assert tops == pytest.approx([258, 276, 294], abs=2)
    found = library.cells("torque of the cover, gland and hexagon")
    cells = {cell.cell.row[-1]: library.boxes(cell) for cell in found}
    assert [cells[row][0].top for row in ("cover", "gland", "hexagon")] == pytest.approx([258, 276, 294], abs=2)
    shown = library.search_figures("path of the signal").hits[0]
    assert tuple(library.boxes(shown)[0]) == pytest.approx((2, *library.figure(shown).box), abs=0.06)


def boxes_of_word(parsed, word):
    document = with_boxes(format_layout(parsed), parsed.layout)
    at = document.text.rindex(word)
    return unpack_boxes(document.printed, at, at + len(word))


@pytest.mark.parametrize("engine", ["pypdf", "pypdfium2"])
def test_every_word_has_a_box_in_which_it_is_printed(engine):
    parsed = parse_bytes(pdf(page), "a.pdf", engine=engine)
    lines = {round(line.top, 1): line for line in parsed.layout.pages[0].lines}
    for word in [*SAID.split(), "Closing", "gland", "hexagon"]:
        (box,) = boxes_of_word(parsed, word)
        assert word in lines[box.top].text
        assert lines[box.top].x0 - 1 <= box.x0 < box.x1 <= lines[box.top].x1 + 1


def test_a_word_divided_at_a_lines_end_has_two_boxes():
    def draw(canvas):
        prose(canvas, 60, 60, 470, 3)
        text(canvas, "The pressure of the medium moves a dia-", 60, 140, 10)
        text(canvas, "phragm and the bridge turns it into a voltage.", 60, 153.5, 10)

    first, second = boxes_of_word(parse_bytes(pdf(draw), "a.pdf"), "diaphragm")
    assert (first.top < second.top, first.x0 > 200, second.x0) == (True, True, pytest.approx(60, abs=1))


sides = st.floats(0, 6_000)
slices = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9), sides, sides, sides, sides), max_size=12)


def laid_out(parts, *, in_lines=False):
    """What is printed where: parts of a text with a space between them, each on a line of its own if so asked for."""
    at, printed = 0, []
    for number, (size, page_number, x0, top, x1, bottom) in enumerate(parts):
        high, low = (20 * number, 20 * number + 9) if in_lines else (top, bottom)
        printed.append(PrintedText(at, at + size, page_number, min(x0, x1), high, max(x0, x1), low))
        at += size + 1
    return printed


@given(slices, st.integers(0, 400), st.integers(0, 60))
def test_a_slice_has_the_boxes_of_what_it_holds_and_no_other(parts, start, length):
    printed = laid_out(parts)
    found = unpack_boxes(pack_boxes(printed), start, start + length)
    held = [each for each in printed if max(each.start, start) < min(each.end, start + length)]
    assert {box.page for box in found} == {each.page for each in held}
    for box in found:
        assert any(
            box.page == each.page and each.x0 - 0.2 <= box.x0 and abs(box.top - each.top) < 0.1 for each in held
        )
    assert len(found) <= len(held)


@given(slices, st.sets(st.integers(1, 130), max_size=4))
def test_places_of_pieces_make_the_place_of_the_whole(parts, cuts):
    size = sum(part[0] + 1 for part in parts)
    whole = Document(id="a", text="x" * size, printed=pack_boxes(laid_out(parts, in_lines=True)))
    borders = [0, *sorted(cut for cut in cuts if cut < size), size]
    pieces = [whole.place_of(*span) for span in pairwise(borders)]
    joined = Place.around(pieces)
    if all(piece.boxes for piece in pieces):
        assert joined == whole.place_of(0, size)
    else:
        assert joined.boxes == ()
    assert Place.around([joined, *pieces]) == joined  # what overlaps counts once
    for place in (joined, *pieces):
        assert place_in(place_metadata(place)) == place


@pytest.mark.parametrize("written", [None, "", "not JSON", "[1, 2]", "[[1, 2]]", '[["a", 1, 2, 3, 4]]', 7])
def test_somebody_elses_boxes_are_none_of_ours(written):
    assert place_in({"boxes": written, "first_line": 2, "last_line": 3}) == Place(lines=(2, 3))


@pytest.mark.parametrize(("printed", "told"), [("NULL", ""), ("x'00'", "cannot be read|damaged")])
def test_what_is_damaged_in_the_library_is_told_and_older_libraries_have_no_boxes(shelf, tmp_path, printed, told):
    copytree(shelf / "lib", tmp_path / "lib")
    with sqlite3.connect(tmp_path / "lib" / "library.sqlite") as connection:
        connection.execute(f"UPDATE documents SET printed = {printed}")
    with Library.open(tmp_path / "lib", create=False) as opened:
        assert told or opened.boxes(opened.search("cover screws").hits[0]) == ()
        assert any(re.search(told, problem) for problem in opened.verify())


def test_a_page_is_drawn_with_the_words_marked(shelf, library, hit):
    boxes = library.boxes(hit, SAID)
    drawn = page_picture(shelf / "manual.pdf", boxes, dpi=72)
    elsewhere = [boxes[0]._replace(page=page, top=400, bottom=420) for page in (1, 3)]
    assert page_picture(shelf / "manual.pdf", [*boxes, *elsewhere], dpi=72) == drawn
    image = Image.open(io.BytesIO(drawn)).convert("RGB")
    assert image.size == (595, round(HEIGHT))
    assert image.getpixel((70, 188)) != image.getpixel((70, 150))
    yellow = [image.getpixel((x, 181)) for x in (90, 200)]
    assert all(blue < 120 and min(red, green) > 200 for red, green, blue in yellow)
    with pytest.raises(ParameterError, match="boxes must be at least one box"):
        page_picture(shelf / "manual.pdf", ())


@pytest.fixture(scope="module")
def walked(shelf):
    copytree(shelf / "lib", shelf / "walked")
    with Library.open(shelf / "walked", create=False) as opened:
        opened.build_graph()
        yield opened


def test_both_adapters_say_boxes_of_all_that_they_find_and_read_them_again(walked):
    one, of_chunks = {"library": walked}, lc.CatenaRetriever(library=walked, k=1)
    few = li.CatenaRetriever(walked, similarity_top_k=1)
    walk = li.CatenaGraphRetriever(walked)
    for chain, index in (
        (lc.CatenaRetriever(**one), li.CatenaRetriever(walked)),
        (lc.CatenaRetriever(**one, whole_sections=True), li.CatenaRetriever(walked, expand_to="section")),
        (lc.CatenaSectionRetriever(**one, budget_tokens=200), li.CatenaRetriever(walked, budget_tokens=200)),
        (lc.CatenaSegmentRetriever(**one), li.CatenaSegmentRetriever(walked)),
        (lc.CatenaGraphRetriever(**one), walk),
        (lc.CatenaGraphRetriever(**one, retriever=of_chunks), li.CatenaGraphRetriever(walked, retriever=few)),
        (lc.CatenaFigureRetriever(**one), li.CatenaFigureRetriever(walked)),
    ):
        given, found = chain.invoke(QUESTION), index.retrieve(QUESTION)
        # a figure is shown with its caption, so that its text is no slice
        read = [(to_linked(each, PlaceKeys()).chunk, each.metadata["end_index"]) for each in given]
        read += [(kind(each.node), each.node.end_char_idx) for each in found for kind in (to_chunk, to_segment)]
        for piece, end in read:
            exact = walked.get(piece.document_id).document.place_of(piece.start, end).boxes
            assert piece.boxes == exact != (), index
        assert all("boxes" in each.node.excluded_llm_metadata_keys for each in found), index
    (hop, *_) = chains_of(walk.retrieve(QUESTION))[0].hops
    assert hop.chunk.boxes == walked.boxes(hop.chunk) != ()


def test_segments_of_what_was_found_have_the_boxes_of_all_of_it(library, document):
    found = lc.CatenaRetriever(library=library, k=9).invoke(QUESTION)
    found = [each for each in found if each.metadata["position"] % 2]  # what lies between them comes from the library
    nodes = li.CatenaRetriever(library, similarity_top_k=9).retrieve(QUESTION)
    nodes = [each for each in nodes if each.node.metadata["position"] % 2]
    for beside in (None, library):
        by_order = {"neighbours": beside, "calibration": Constant()}
        segments = lc.CatenaSegmentExtractor(**by_order).compress_documents(found, QUESTION)
        parts = li.CatenaSegmentPostprocessor(**by_order).postprocess_nodes(nodes, query_str=QUESTION)
        if beside is not None:
            assert any("," in part.node.metadata["chunk_ids"] for part in parts)
        said = [(s.metadata, s.metadata["start_index"], s.metadata["end_index"]) for s in segments]
        said += [(part.node.metadata, part.node.start_char_idx, part.node.end_char_idx) for part in parts]
        assert len(said) > 1
        for metadata, start, end in said:
            assert place_in(metadata).boxes == document.place_of(start, end).boxes != ()


def test_searches_write_boxes_as_json(shelf):
    (first, *_) = value("search", "cover screws", "--library", shelf / "lib")["hits"]
    assert first["boxes"][0][0] == 2


def test_a_citation_is_shown_with_its_quote_page_and_boxes(shelf, document, tmp_path):
    where, out = f"{document.title}, page 2", tmp_path / "page.png"
    told = value("show", where, "-l", shelf / "lib", "--quote", SAID, "--out", out)
    assert (told["state"], told["boxes"][0][0]) == ("normalised", 2)
    assert told["citation"].startswith(f"{document.title}, page 2, lines ")
    assert out.read_bytes().startswith(b"\x89PNG")
    for cited, quote, said, code in (
        (where, SAID.replace("2.4", "2.5"), "--quote must be words that stand in manual, page 2, lines ", 1),
        (f"{document.title}, page 9", SAID, "has no such place: page 9", 2),
        ("Another manual, page 2", SAID, "no document of the library is called", 2),
    ):
        assert said in refused("show", cited, "-l", shelf / "lib", "--quote", quote, code=code)


def test_where_the_file_is_elsewhere_no_page_is_drawn(shelf, library, document, moved, tmp_path):
    where = f"{document.title}, page 2"
    message = refused("show", where, "-l", shelf / "lib", "--out", tmp_path / "page.png", code=1)
    assert "is not where it was when it was indexed" in message
    assert not any(hit.page for hit in report(library, QUESTION).contents.ranking.hits)


def test_of_documents_of_one_title_a_citation_means_the_one_with_the_quote_and_the_place(tmp_path):
    for name, fee, more in (("a", "5,000", ""), ("b", "7,000", "\n\n## 3 Term\n\nTen years.")):
        text = f"# Lease\n\n## 2 Rent\n\nThe rent is {fee} a year.{more}\n"
        (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
    files = [tmp_path / "a.md", tmp_path / "b.md"]
    with Library.open(tmp_path / "lib") as both:
        both.index(files)
        ids = [each.id for each in both.documents()]
        (found,) = both.search("a rent of 7,000", k=1).hits
        assert citation(found.chunk) == "Lease (b.md) › 2 Rent, lines 3-5"
        assert citation(both.section(found)).startswith("Lease (b.md) › 2 Rent, ")
        assert '<document name="Lease (b.md)">' in integrate([found]).text
    where, at = "Lease \u203a 2 Rent, lines 3-5", ("-l", tmp_path / "lib")
    for name, fee in zip(ids, ("5,000", "7,000"), strict=True):
        told = value("show", where, *at, "--quote", f"The rent is {fee}")
        assert told["citation"] == f"Lease ({Path(name).name}), line 5"
        for called in (name, Path(name).name):
            assert fee in value("show", f"Lease ({called}) \u203a 2 Rent, lines 3-5", *at)["text"]
    assert value("show", "Lease \u203a 3 Term, lines 7-9", *at)["text"].endswith("Ten years.\n")
    for quote, said, code in ((("--quote", "rent is"), "these words", 2), ((), "this place", 2)):
        message = refused("show", where, *at, *quote, code=code)
        assert f"2 documents are called what this citation begins with, and have {said}" in message
        assert ids[0] in message
    assert "must be words that stand in Lease" in refused("show", where, *at, "--quote", "rent is 9,000", code=1)


DECK = "# Plan\n\nBudget 100.\n\n## Costs, fees\n\nBudget 250.\n\n## Risks\n\nBudget 990.\n\nRevenue 7 in all.\n"
SLIDES = tuple(f"slide {number}" for number in (1, 2, 3, 4))
PRINTED = ("", "i", "1", "2")


@pytest.mark.parametrize(
    ("labels", "where", "quote", "said"),
    [
        (SLIDES, " › Costs, fees, slide 2", "Budget 250.", "exact"),
        (SLIDES, ", slide 2 to slide 3", "Budget 990.", "exact"),
        (SLIDES, " › Costs, fees, slide 2", "Budget 990.", "stands in Plan, slide 3, not in Plan, slide 2"),
        (SLIDES, " › Costs, fees", "Budget 990.", "stands in Plan, slide 3, not in Plan, slide 2"),
        (SLIDES, ", slide 5", "Budget 990.", "has no such place: slide 5"),
        (SLIDES, " › Returns", "Budget 990.", "has no such place"),
        (SLIDES, " › Risks, slide 2", "Budget 990.", "has no such place"),
        (SLIDES, " B, slide 3", "Budget 990.", "no document of the library is called"),
        (PRINTED, ", page i", "Budget 250.", "exact"),
        (PRINTED, ", page i (2nd of the file)", "Budget 250.", "exact"),
        (PRINTED, ", page i", "Budget 990.", "stands in Plan, page 1 (3rd of the file), line 11, not in "),
        (PRINTED, ", page 2", "Revenue 7", "exact"),
        (PRINTED, ", pages 1-2", "Revenue 7", "exact"),
        (PRINTED, ", page 3", "Budget 990.", "exact"),
        (PRINTED, ", page iv", "Budget 990.", "has no such place: page iv"),
    ],
)
def test_a_quote_is_looked_for_where_the_citation_says(tmp_path, labels, where, quote, said):
    starts = (0, DECK.index("## Costs"), DECK.index("## Risks"), DECK.index("Revenue"))
    with Library.open(tmp_path / "lib") as made:
        made.add(Document(id="plan", text=DECK, title="Plan", page_starts=starts, page_labels=labels))
    asked = ("show", f"Plan{where}", "-l", tmp_path / "lib", "--quote", quote)
    if said == "exact":
        assert value(*asked)["state"] == said
    else:
        assert said in refused(*asked, code=1 if "stands" in said else 2)


def test_the_report_draws_the_pages_of_the_first_hits_where_the_file_is_at_hand(library):
    made = report(library, QUESTION, ReportOptions(pages=1))
    drawn = [hit.page[:22] for hit in made.contents.ranking.hits]
    assert drawn == ["data:image/png;base64,", *[""] * (len(drawn) - 1)]
    assert len(drawn) > 1


def test_a_part_of_what_has_boxes_has_none_of_the_whole():
    box = PageBox(1, 60, 100, 300, 110)
    chunk = Chunk(id="c", document_id="d", position=0, start=0, end=20, text="One sentence. Two s.", boxes=(box,))
    assert slice_of(chunk, 0, 20).boxes == chunk.as_segment().boxes == chunk.place.boxes == (box,)
    (quote,) = verify_quotes([Quote(1, "One sentence")], [chunk])
    short = shortened(chunk.as_segment(), lambda segment: len(segment.text) < 20)
    assert (slice_of(chunk, 0, 5).boxes, quote.boxes, short.text, short.boxes) == ((), (), "One sentence. ", ())


def test_places_of_a_document_of_ones_own_have_no_boxes():
    document = Document(id="a", text="some words", page_starts=(0,))
    assert document.place_of(0, 4).boxes == ()
    assert replace(document, printed=pack_boxes([PrintedText(0, 10, 1, 1, 2, 101, 12)])).place_of(0, 4).boxes == (
        PageBox(1, 1.0, 2.0, 41.0, 12.0),
    )
