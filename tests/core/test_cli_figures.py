"""Figures on the command line: cropped, listed, indexed with captions, searched, and shown beside answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_calls import KEY, at_home, call, refused, value
from drawn_pages import bars, circles, diagram, pdf, prose, text
from PIL import Image

from catena.effects import Completion
from catena.model import figure_name
from catena.parsing.figure_shapes import Box

SIGNAL = "path of the signal"


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
    Path("manual.pdf").write_bytes(pdf(*pages))
    return tmp_path


def test_figures_are_cropped_and_listed(shelf):
    result = call("figures", "manual.pdf", "--out", "out")
    names = sorted(path.name for path in Path("out").iterdir())
    assert [name.rpartition(".")[2] for name in names] == ["png", "svg"] * 2
    names = [name for name in names if name.endswith(".png")]
    assert all(name in result.stdout for name in (*names, "Figure 1: Path of the signal", "2 figures"))
    first = value("figures", "manual.pdf", "--out", "out", "--dpi", "72")["figures"][0]
    assert (first["page"], first["kind"], first["labels"]) == (1, "drawing", "Sensor Converter Output")
    with Image.open(first["file"]) as image:
        assert image.size == (first["width"], first["height"])
    assert first["width"] == pytest.approx(248, abs=4)
    assert [each["file"] for each in value("figures", "manual.pdf")["figures"]] == [None, None]
    Path("bare.pdf").write_bytes(pdf(page(circles, "")))
    assert value("figures", "bare.pdf")["figures"][0]["title"] == ""


def test_a_file_without_figures_a_folder_that_is_none_and_a_reading_that_is_cut_say_so(shelf):
    Path("plain.pdf").write_bytes(pdf(lambda canvas: prose(canvas, 60, 80, 470, 5)))
    assert "no figure was found" in refused("figures", "plain.pdf", code=1)
    Path("taken").write_text("a file")
    assert "cannot be written to taken" in refused("figures", "manual.pdf", "--out", "taken")
    for option, least in (("--timeout", "0.001"), ("--memory", "1")):
        assert f"higher {option}" in refused("figures", "manual.pdf", option, least, code=1)


def test_without_the_extra_figures_is_an_error_and_index_a_notice(shelf, monkeypatch):
    monkeypatch.setattr("catena.parsing.files.find_spec", lambda name: None)
    assert "packages/catena[fast-pdf]" in refused("figures", "manual.pdf")
    monkeypatch.setattr("catena.cli.options.find_spec", lambda name: None)
    result = call("index", "manual.pdf", "--figures", "-l", "lib")
    assert "figures are not cropped: pypdfium2 is not installed" in result.stderr
    assert "pip install './packages/catena[fast-pdf]'" in result.stderr
    assert "1 indexed" in result.stdout


def test_search_and_ask_show_the_file_of_a_figure(shelf):
    call("index", "manual.pdf", "--figures", "-l", "lib")
    file = f"lib/figures/{figure_name('manual.pdf', 1, 1)}"
    assert f"figure: {file}" in call("search", "--figures", SIGNAL, "-l", "lib", "-k", "1").stdout
    assert Path(file).read_bytes().startswith(b"\x89PNG")
    found = value("search", "--figures", SIGNAL, "-l", "lib")
    assert {hit["chunk"]["kind"] for hit in found["hits"]} == {"figure"}
    shown = found["hits"][0]["figure"]
    assert (shown["file"], shown["title"], "png" in shown) == (file, "Figure 1: Path of the signal", False)
    assert f"figure: {file}" in call("ask", "-l", "lib", SIGNAL, "-k", "3").stdout
    assert value("ask", "-l", "lib", SIGNAL)["hits"][0]["figure"]["file"] == file
    answer = call("ask", "manual.pdf", SIGNAL, "--figures").stdout  # of no library that is kept: no file
    assert ("figure: page 1, " in answer, "figures/" in answer) == (True, False)


def test_a_figure_that_the_model_names_is_shown_with_its_file(shelf, monkeypatch):
    call("index", "manual.pdf", "-l", "lib", "--figures")
    file = value("search", "--figures", SIGNAL, "-l", "lib")["hits"][0]["figure"]["file"]
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    prompts = []

    def reply(self, request):
        prompts.append(request.prompt)
        return Completion(text="The signal goes from left to right [1] [F1].")

    monkeypatch.setattr("catena.backends.openai.OpenAILLM.complete", reply)
    model = ("-m", "eyes", "--base-url", "http://127.0.0.1:9/v1", "-k", "2")
    shown = call("ask", "-l", "lib", SIGNAL, *model).stdout
    assert "- [F1] Figure 1: Path of the signal (passage " in prompts[0]
    assert f"Figure 1: Path of the signal (passage 1): {file}" in shown.replace("\n", "")
    (figure,) = value("ask", "-l", "lib", SIGNAL, *model)["answer"]["figures"]
    assert figure["name"] == Path(file).name


def test_index_asks_the_caption_model_named(shelf, monkeypatch):
    asked = []

    def describe(self, request):
        asked.append((self.model, request.image[:4]))
        return Completion(text="A zeppelin over the harbour.")

    monkeypatch.setattr("catena.backends.openai.OpenAICaptioner.describe", describe)
    assert "there is no key" in refused("index", "manual.pdf", "-l", "lib", "--caption-model", "m")
    model = ("--caption-model", "eyes", "--base-url", "http://127.0.0.1:9/v1")
    call("index", "manual.pdf", "-l", "lib", *model)
    assert asked == [("eyes", b"\x89PNG")] * 2
    found = value("search", "--figures", "zeppelin", "-l", "lib")
    assert found["hits"][0]["figure"]["caption"] == "A zeppelin over the harbour."
    call("index", "manual.pdf", "-l", "lib2", *model)
    assert len(asked) == 2  # the journal answered
