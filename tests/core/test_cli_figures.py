"""Figures on the command line: cropped, listed, indexed with captions, searched, and shown beside answers."""

from __future__ import annotations

import pytest
from cli_calls import at_home, call, value
from drawn_pages import bars, circles, diagram, pdf, prose, text
from PIL import Image
from typer.testing import CliRunner

from catena.backends import openai as openai_captioner
from catena.cli.app import app
from catena.effects import Completion
from catena.model import figure_name
from catena.parsing.figure_shapes import Box


def page(draw, caption):
    def drawn(canvas):
        prose(canvas, 60, 80, 470, 5)
        draw(canvas, Box(120, 200, 360, 280))
        text(canvas, caption, 60, 306)
        prose(canvas, 60, 340, 470, 5)

    return drawn


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    at_home(tmp_path, monkeypatch, key=False)
    pages = [page(diagram, "Figure 1: Path of the signal"), page(bars, "Figure 2: Failures by year")]
    (tmp_path / "manual.pdf").write_bytes(pdf(*pages))
    return tmp_path


def test_figures_are_cropped_and_listed(shelf):
    result = call("figures", "manual.pdf", "--out", "out")
    names = sorted(path.name for path in (shelf / "out").iterdir())
    assert len(names) == 2
    assert all(name in result.stdout for name in names)
    assert "Figure 1: Path of the signal" in result.stdout
    assert "2 figures" in result.stdout
    found = value("figures", "manual.pdf", "--out", "out", "--dpi", "72")
    first = found["figures"][0]
    assert (first["page"], first["kind"], first["labels"]) == (1, "drawing", "Sensor Converter Output")
    with Image.open(shelf / first["file"]) as image:
        assert image.size == (first["width"], first["height"])
    assert first["width"] == pytest.approx(248, abs=4)
    assert [each["file"] for each in value("figures", "manual.pdf")["figures"]] == [None, None]


def test_a_file_without_figures_and_one_that_is_no_pdf_say_so(shelf):
    (shelf / "plain.pdf").write_bytes(pdf(lambda canvas: prose(canvas, 60, 80, 470, 5)))
    (shelf / "a.md").write_text("# A\n\nText.\n")
    assert "no figure was found" in call("figures", "plain.pdf", code=1).stderr
    assert "is no PDF" in call("figures", "a.md", code=2).stderr
    (shelf / "taken").write_text("a file")
    assert "cannot be written to taken" in call("figures", "manual.pdf", "--out", "taken", code=2).stderr


@pytest.mark.parametrize(
    ("option", "value_of_it", "said"),
    [
        ("--timeout", "0.001", "higher --timeout"),
        ("--memory", "1", "higher --memory"),
        ("--memory", "inf", "Invalid value for '--memory'"),
    ],
)
def test_figures_are_looked_for_under_the_limits_of_the_reading(shelf, option, value_of_it, said):
    result = CliRunner().invoke(app, ["figures", "manual.pdf", option, value_of_it])
    assert result.exit_code in (1, 2)
    assert said in result.stderr


def test_without_the_extra_figures_is_an_error_and_index_a_notice(shelf, monkeypatch):
    monkeypatch.setattr("catena.parsing.files.find_spec", lambda name: None)
    assert "catena-core[fast-pdf]" in call("figures", "manual.pdf", code=2).stderr
    monkeypatch.setattr("catena.cli.options.find_spec", lambda name: None)
    result = call("index", "manual.pdf", "--figures", "-l", "lib")
    assert "figures are not cropped: pypdfium2 is not installed" in result.stderr
    assert "pip install 'catena-core[fast-pdf]'" in result.stderr
    assert "1 indexed" in result.stdout


def test_search_and_ask_show_the_file_of_a_figure(shelf):
    call("index", "manual.pdf", "--figures", "-l", "lib")
    file = f"lib/figures/{figure_name('manual.pdf', 1, 1)}"
    shown = call("search", "--figures", "path of the signal", "-l", "lib", "-k", "1").stdout
    assert f"figure: {file}" in shown
    assert (shelf / file).read_bytes().startswith(b"\x89PNG")
    found = value("search", "--figures", "path of the signal", "-l", "lib")
    assert {hit["chunk"]["kind"] for hit in found["hits"]} == {"figure"}
    assert found["hits"][0]["figure"]["file"] == file
    assert found["hits"][0]["figure"]["title"] == "Figure 1: Path of the signal"
    assert "png" not in found["hits"][0]["figure"]
    answer = call("ask", "-l", "lib", "what is the path of the signal", "-k", "3").stdout
    assert f"figure: {file}" in answer
    assert value("ask", "-l", "lib", "what is the path of the signal")["hits"][0]["figure"]["file"] == file


def test_ask_without_a_library_names_page_and_size(shelf):
    answer = call("ask", "manual.pdf", "what is the path of the signal", "--figures").stdout
    assert "figure: page 1, " in answer
    assert "lib/figures" not in answer


def test_figures_have_routes_of_their_own(shelf):
    call("index", "manual.pdf", "-l", "lib")
    for option in (("--route", "dense"), ("--alpha", "0.5"), ("--fusion", "rank")):
        result = call("search", "--figures", "signal", "-l", "lib", *option, code=2)
        assert "--figures has its own routes" in result.stderr
    assert "files indexed with --figures" in call("search", "--figures", "signal", "-l", "lib", code=1).stderr


@pytest.mark.slow
def test_index_asks_the_caption_model_named(shelf, monkeypatch):
    asked = []

    def describe(self, request):
        asked.append((self.model, request.image[:4]))
        return Completion(text="A zeppelin over the harbour.")

    monkeypatch.setattr(openai_captioner.OpenAICaptioner, "describe", describe)
    arguments = ("index", "manual.pdf", "-l", "lib", "--caption-model", "eyes", "--base-url", "http://127.0.0.1:9/v1")
    call(*arguments)
    assert asked == [("eyes", b"\x89PNG")] * 2
    assert (shelf / "catena-journal.db").exists()
    found = value("search", "--figures", "zeppelin", "-l", "lib")
    assert found["hits"][0]["figure"]["caption"] == "A zeppelin over the harbour."
    call("index", "manual.pdf", "-l", "lib2", *arguments[4:])
    assert len(asked) == 2  # the journal answered


def test_options_of_the_caption_model_need_its_name(shelf):
    for option in (("--base-url", "http://127.0.0.1:9/v1"), ("--journal", "j.db")):
        result = call("index", "manual.pdf", "-l", "lib", *option, code=2)
        assert "--caption-model NAME" in result.stderr
    assert "there is no key" in call("index", "manual.pdf", "-l", "lib", "--caption-model", "m", code=2).stderr


def test_circles_without_any_caption_are_listed_by_their_words(shelf):
    (shelf / "bare.pdf").write_bytes(pdf(page(circles, "")))
    assert value("figures", "bare.pdf")["figures"][0]["title"] == ""
