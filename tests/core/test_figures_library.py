"""Figures of a library: stored with their documents, found, captioned, shown as files, and checked."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
from dataclasses import replace

import pytest
from drawn_pages import bars, circles, diagram, pdf, prose, text

from catena.answering.answers import numbered
from catena.backends import OpenAICaptioner
from catena.effects import Journal, Services, arun, run
from catena.enrichment import CaptionedFigures, FigureContext, caption_figures
from catena.enrichment.captions import check_caption
from catena.library import Library, Preparation
from catena.model import CAPTION, FIGURE, Figure, LibraryError, ParameterError, ServiceError, figure_name
from catena.parsing.figure_shapes import Box
from catena.store import write_file
from catena.store.figures import remove_files
from catena.testing import ChatServer, FakeCaptioner, Flaky

FIGURES = Preparation(engine="pypdfium2", figures=True)
AT = Box(120, 200, 360, 280)

FIGURE_A = Figure(name=figure_name("d", 1, 1), page=1, box=(0, 0, 9, 9), kind="drawing", width=2, height=2, png=b"a")


def manual(*figures):
    """Return a manual with a figure on each page: how it is drawn, its caption, the sentence above it."""

    def page(draw, caption, above):
        def drawn(canvas):
            text(canvas, above, 60, 80, 10)
            prose(canvas, 60, 94, 470, 4)
            draw(canvas, AT)
            text(canvas, caption, 60, 306)
            prose(canvas, 60, 340, 470, 6)

        return drawn

    return pdf(*(page(*figure) for figure in figures))


THREE = (
    (bars, "Figure 1: Failures by year", "The chart counts the failures of all devices in the field."),
    (diagram, "Figure 2: Path of the signal", "The signal runs from the diaphragm to the terminals."),
    (circles, "Figure 3: Seals of the cover", "Grease both rings before the cover is closed."),
)


@pytest.fixture
def shelf(tmp_path):
    (tmp_path / "manual.pdf").write_bytes(manual(*THREE))
    return tmp_path


def opened(shelf, preparation=FIGURES, **services):
    return Library.open(shelf / "lib", preparation=preparation, services=Services(**services))


def figures_in(library):
    return [chunk for chunk in library.get("manual.pdf").chunks if chunk.kind == "figure"]


@pytest.mark.slow
def test_figures_are_found_by_what_they_show(shelf):
    asked = ("how many failures were there in a year", "diaphragm converter output", "seals of the cover with grease")
    with opened(shelf) as library:
        (outcome,) = library.index(shelf / "manual.pdf")
        assert (outcome.state, outcome.reason) == ("indexed", "")
        for question, (_, title, _) in zip(asked, THREE, strict=True):
            ranking = library.search_figures(question, k=3)
            assert {hit.chunk.kind for hit in ranking.hits} == {"figure"}
            assert library.figure(ranking.hits[0]).title == title
            assert asyncio.run(library.asearch_figures(question, k=3)) == ranking
        assert {way.view for way in ranking.hits[0].provenance} == {"caption"}
        assert library.search_figures("rings", where={"page": 1}).hits[0].chunk.pages == (1, 1)
        assert (library.verify(), library.stats().figures) == ((), 3)


def test_an_entry_comes_back_with_its_pictures_and_their_files_go_with_their_document(shelf):
    with opened(shelf) as library:
        library.index(shelf / "manual.pdf")
        entry, chunk = library.get("manual.pdf"), figures_in(library)[0]
        assert [(figure.page, figure.png[:4]) for figure in entry.figures] == [(n, b"\x89PNG") for n in (1, 2, 3)]
        assert library.figure(chunk) == entry.figures[0]
        assert library.section(chunk).text  # read without pictures
        with pytest.raises(LibraryError, match="shows no figure"):
            library.figure(next(each for each in entry.chunks if each.kind == "text"))
        path = library.figure_file(chunk)
        assert path == shelf / "lib" / "figures" / figure_name("manual.pdf", 1, 1)
        path.write_bytes(b"changed")
        assert library.figure_file(chunk).read_bytes() == library.figure(chunk).png
        found = library.search_figures("failures by year")
        assert [hit for _, hit in library.figures(found)] == list(found.hits) != []
        library.delete("manual.pdf")
        assert not path.exists()
        assert library.figures(found) == ()  # deleted after they were found
        with pytest.raises(LibraryError, match="no document"):
            library.figure(chunk)


def test_pictures_go_with_the_last_figure_that_shows_them(shelf):
    (shelf / "copy.pdf").write_bytes(manual(*THREE))
    with opened(shelf) as library:

        def kept():
            with sqlite3.connect(shelf / "lib" / "library.sqlite") as connection:
                pictures = connection.execute("SELECT count(*) FROM pictures").fetchone()[0]
            return pictures, library.stats().figures

        library.index([shelf / "manual.pdf", shelf / "copy.pdf"])
        assert kept() == (3, 6)
        library.delete("copy.pdf")
        assert kept() == (3, 3)
        (shelf / "manual.pdf").write_bytes(manual(THREE[1]))
        library.index(shelf / "manual.pdf")
        assert (kept(), library.verify()) == ((1, 1), ())
        library.delete("manual.pdf")
        assert kept() == (0, 0)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE pictures SET png = x'89504E470D0A1A0A00'", "was changed"),
        ("DELETE FROM pictures", "figures without their picture"),
        ("DELETE FROM figures", "pictures that no figure shows"),
        ("UPDATE figures SET body = json_set(body, '$[2]', 7)", "is not as it was written"),
        ("UPDATE pictures SET png = 'text'", "is not as it was written"),
        ("UPDATE figures SET name = '../evil.png' WHERE position = 0", "not one of ours"),
        (f"UPDATE figures SET name = '{figure_name('x', 9, 9)}' WHERE position = 0", "stands nowhere in the text"),
    ],
)
def test_verify_tells_what_is_wrong_with_figures(shelf, damage, told):
    with opened(shelf) as library:
        library.index(shelf / "manual.pdf")
    with sqlite3.connect(shelf / "lib" / "library.sqlite") as connection:
        connection.execute(damage)
    connection.close()
    with opened(shelf) as library:
        assert any(told in problem for problem in library.verify())


def test_pypdf_says_that_it_crops_none_and_indexes_all_the_same(shelf):
    with opened(shelf, preparation=Preparation(engine="pypdf", figures=True)) as library:
        (outcome,) = library.index(shelf / "manual.pdf")
        assert (outcome.state, library.stats().figures) == ("indexed", 0)
        assert "only the engine pypdfium2 can (extra fast-pdf)" in outcome.reason


def test_names_from_outside_write_no_file(tmp_path):
    with pytest.raises(LibraryError, match="no name of a figure"):
        write_file(tmp_path, replace(FIGURE_A, name="../../evil.png"))
    assert list(tmp_path.rglob("*")) == []
    remove_files(tmp_path, "../../etc")
    target = tmp_path / "elsewhere.png"
    target.write_bytes(b"keep")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / FIGURE_A.name).symlink_to(target)
    assert write_file(tmp_path, FIGURE_A).read_bytes() == b"a"
    assert target.read_bytes() == b"keep"  # the link was replaced, not followed


# captions


def test_captions_are_searched_shown_to_the_model_and_paid_for_once(shelf):
    zeppelin = "A zeppelin over the harbour."
    captioner = FakeCaptioner(lambda image, prompt: zeppelin if "Seals" in prompt else "Bars.")
    with Journal.open(shelf / "replies.db") as journal:
        with opened(shelf, captioner=captioner, journal=journal) as library:
            library.index(shelf / "manual.pdf")
            best = library.search_figures("zeppelin above a harbour", k=1).hits[0]
            assert library.figure(best).caption == best.chunk.metadata[CAPTION] == zeppelin
            assert library.search("zeppelin", k=1).hits[0].chunk.metadata[FIGURE] == figure_name("manual.pdf", 3, 1)
            assert f"(The figure, described by a model: {zeppelin})" in numbered([best])
        image, prompt = next(call for call in captioner.calls if "Figure 2" in call[1])
        assert image.startswith(b"\x89PNG")
        for part in ("Figure 2: Path of the signal", "he text before it: ", "thirty times a second"):
            assert part in prompt
        services = Services(captioner=captioner, journal=journal)
        with Library.open(shelf / "again", preparation=FIGURES, services=services) as library:
            library.index(shelf / "manual.pdf")
        assert len(captioner.calls) == 3


def test_a_caption_that_fails_loses_none_and_is_asked_for_again(shelf):
    broken = Flaky(FakeCaptioner(lambda *_: "Fine."), [None, ServiceError("eyes", "out of order")])
    with opened(shelf, captioner=broken) as library:
        (outcome,) = library.index(shelf / "manual.pdf")
        assert outcome.state == "indexed"
        assert "1 of 3 figures have no caption (eyes: out of order" in outcome.reason
        assert sorted(figure.caption for figure in library.get("manual.pdf").figures) == ["", "Fine.", "Fine."]
        again = [library.index(shelf / "manual.pdf")[0] for _ in range(2)]
        assert [(outcome.state, outcome.reason) for outcome in again] == [("indexed", ""), ("skipped", "unchanged")]


@pytest.mark.parametrize("reply", ["", "I'm sorry, I can't help with that.", "word " * 400, "As an AI I see nothing"])
def test_refusals_and_loops_are_no_captions(reply):
    services = Services(captioner=FakeCaptioner(lambda *_: reply))
    done = run(caption_figures([FIGURE_A], [FigureContext()]), services)
    assert done.figures == (FIGURE_A,)
    assert done.failures[0].what == f"caption of {FIGURE_A.name}"


def test_no_figures_ask_for_nothing_contexts_must_match_and_are_bounded():
    assert run(caption_figures([], []), Services()) == CaptionedFigures(())
    with pytest.raises(ParameterError, match="1 values, one per figure"):
        run(caption_figures([FIGURE_A], []), Services())
    captioner = FakeCaptioner(lambda *_: "Fine.")
    context = FigureContext(path="{title}", before="x" * 5_000, after="")
    run(caption_figures([FIGURE_A], [context]), Services(captioner=captioner))
    prompt = captioner.calls[0][1]
    assert ("{title}" in prompt, "x" * 600 in prompt, "x" * 601 in prompt) == (True, True, False)


def test_an_openai_compatible_server_sees_the_picture(monkeypatch):
    with ChatServer(lambda body: "A pump.") as server, OpenAICaptioner("eyes", base_url=server.url) as captioner:
        services = Services(captioner=captioner)
        assert run(caption_figures([FIGURE_A], [FigureContext()]), services).figures[0].caption == "A pump."
        done = asyncio.run(arun(caption_figures([FIGURE_A], [FigureContext()]), services))
        assert done.figures[0].caption == "A pump."
        choice = {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": "A"}}
        cut = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        monkeypatch.setattr("catena.testing.chat_server._completion", lambda *_: cut)
        with pytest.raises(ServiceError, match="did not end by itself"):
            captioner.caption(b"\xff\xd8\xff", "what is it")
    said, shown = server.bodies[0]["messages"][0]["content"]
    url = f"data:image/png;base64,{base64.b64encode(b'a').decode()}"
    assert (said["type"], shown["image_url"]["url"]) == ("text", url)
    assert server.bodies[2]["messages"][0]["content"][1]["image_url"]["url"].startswith("data:image/jpeg;base64,")


def test_a_caption_has_so_many_characters_at_most():
    check_caption("x" * 1_500)
    with pytest.raises(ValueError, match="a caption of 1501 characters"):
        check_caption("x" * 1_501)
