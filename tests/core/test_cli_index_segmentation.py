"""`catena index` with sections by meaning, titles, summaries; `catena segment`: plan, budget, journal, refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

import pytest
from cli_calls import at_home, call, value

from catena.library import Library
from catena.model import TITLE
from catena.structure import DOCUMENT_SUMMARY, SECTION_SUMMARY
from catena.testing import ChatServer

PARTS = {
    "Pumps": "The pump turns at 40 rpm and moves the water of the cooling loop. Its seal is changed every 900 h.",
    "Valves": "A valve opens at 6 bar. Its spring loses force with age and is changed after 300 h of work.",
    "Sensors": "The sensor reads pressure 200 times a second. Its cable must not be longer than ten metres.",
}
TEXT = "\n\n".join(" ".join([body] * 6) for body in PARTS.values()) + "\n"
PRINTED = "# Manual\n\n" + "".join(f"## {title}\n\n{body}\n\n" for title, body in PARTS.items())


def answered(body) -> str:
    """Answer as a model: three sections that begin where each part does, and a sentence of whatever else is asked."""
    prompt = body["messages"][-1]["content"]
    asked = re.search(r"Divide lines (\d+) to (\d+)\.\s*\Z", prompt)
    if asked is None:
        return "De quoi il s'agit : des pompes et des soupapes."
    lines = re.findall(r"^\[?(\d+)\]?\S* ?(.*)$", prompt, re.MULTILINE)
    begins = {"The pump": "Pumps", "A valve": "Valves", "The sensor": "Sensors"}
    found = {
        title: int(number) for number, line in reversed(lines) for begin, title in begins.items()
        if line.startswith(begin)
    }  # fmt: skip
    return json.dumps([{"title": title, "start": start} for title, start in sorted(found.items(), key=itemgetter(1))])


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(answered, tokens=(100, 50)) as made:
        yield made


@pytest.fixture
def model(server: ChatServer) -> list[str]:
    return ["--llm", "m", "--base-url", server.url]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    at_home(tmp_path, monkeypatch)
    Path("notes.txt").write_text(TEXT, encoding="utf-8")
    Path("manual.md").write_text(PRINTED, encoding="utf-8")
    return tmp_path


def index(*arguments: str, code: int = 0):
    return value("index", *arguments, "-l", "lib", code=code)


# index


def test_a_model_divides_and_summarises_and_is_paid_once(shelf, server, model):
    both = ["notes.txt", *model, "--segmentation", "llm", "--context", "llm", "--language", "French"]
    assert index(*both)["states"] == {"indexed": 1}
    asked = len(server.bodies)
    assert asked == 1 + 1 + 1 + 3  # segmentation, the document's title, its summary, three sections'
    assert any("French" in prompt for prompt in server.prompts)
    with Library.open("lib") as library:
        entry = library.get("notes.txt")
        assert [section.title for section in entry.sections] == ["Pumps", "Valves", "Sensors"]
        said = entry.chunks[0].metadata
    assert said[DOCUMENT_SUMMARY] == said[SECTION_SUMMARY] == "De quoi il s'agit : des pompes et des soupapes."
    assert index(*both)["states"] == {"skipped": 1}
    call("delete", "notes.txt", "-l", "lib")
    assert index(*both)["states"] == {"indexed": 1}
    assert len(server.bodies) == asked


def test_without_a_model_the_embedding_divides_and_the_text_names_and_summarises(shelf, server):
    assert index("notes.txt", "--segmentation", "embedding", "--context", "offline")["states"] == {"indexed": 1}
    assert server.bodies == []
    assert not Path("catena-journal.db").exists()
    with Library.open("lib") as library:
        entry = library.get("notes.txt")
    assert [section.title[:7] for section in entry.sections] == ["The pum", "A valve", "The sen"]
    assert entry.chunks[0].metadata[DOCUMENT_SUMMARY] in " ".join(TEXT.split())
    assert entry.chunks[0].metadata[TITLE]


@pytest.mark.slow
def test_headings_stay_where_only_what_is_below_them_is_divided(shelf):
    index("manual.md", "--segmentation", "embedding", "--segment-under", "headings")
    with Library.open("lib") as library:
        assert [each.title for each in library.get("manual.md").sections] == ["Manual", *PARTS]
    index("manual.md", "--segmentation", "embedding", "--segment-under", "document")
    with Library.open("lib") as library:
        assert len(library.get("manual.md").sections) < 4
    assert index("manual.md", "--segmentation", "embedding")["states"] == {"skipped": 1}  # document is the default


@pytest.mark.slow
def test_a_plan_counts_what_dividing_and_summarising_would_ask(shelf, server, model):
    prices = ["--price-in", "2", "--price-out", "8"]
    plan = ["index", "notes.txt", "-l", "lib", *model, "--segmentation", "llm", "--context", "llm", "--plan", *prices]
    found = value(*plan)
    assert found["kept"] == 0
    assert found["cost"] == pytest.approx((2 * found["input_tokens"] + 8 * found["output_tokens"]) / 1e6, abs=1e-6)
    shown = " ".join(call(*plan).stdout.split())
    assert all(word in shown for word in ("segmentation 1", "document summary 1", "section summary", "an estimate"))
    assert server.bodies == []
    assert not Path("lib").exists()
    call(*plan[:-5])
    assert value(*plan)["skipped"] == 1
    call("delete", "notes.txt", "-l", "lib")
    assert value(*plan)["calls"] == 0
    assert value(*plan)["kept"] == len(server.bodies)


@pytest.mark.slow
def test_a_budget_stops_before_it_is_passed_and_keeps_what_was_paid(shelf, server, model):
    models = [*model, "--segmentation", "llm", "--context", "llm"]
    paid = ["notes.txt", *models, "--price-in", "0", "--price-out", "1000"]
    server.tokens = (100, 4_000)
    assert "cap of 4.2" in call("index", *paid, "--budget", "4.2", "-l", "lib", code=3).stderr
    assert len(server.bodies) == 1
    assert index(*paid, "--budget", "100")["states"] == {"indexed": 1}
    assert len(server.bodies) == 6


@pytest.mark.slow
def test_what_a_model_fails_at_is_said_and_asked_for_again(shelf, server, model):
    server.answer = lambda body: "I cannot."
    divide = ["notes.txt", *model, "--segmentation", "llm"]
    assert "lines divided at headings and paragraphs" in index(*divide)["files"][0]["reason"]
    server.answer = answered
    assert index(*divide)["states"] == {"indexed": 1}
    assert index(*divide)["states"] == {"skipped": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--segmentation", "llm"], "--segmentation llm needs the name of a model"),
        (["--context", "llm"], "--context llm needs the name of a model"),
        (["--segmentation", "embedding", "--llm", "m"], "--llm needs to be told what for"),
        (["--segment-under", "headings"], "--segment-under is about sections by meaning"),
        (["--language", "French"], "--language is obeyed by models only"),
        (["--language", "French", "--context", "offline"], "--language is obeyed by models only"),
        (["--segmentation", "embedding", "--plan"], "--plan needs the name of a model"),
        (["--context", "offline", "--journal", "j.db"], "--journal keeps the replies of a model"),
    ],
    ids=lambda option: " ".join(option) if isinstance(option, list) else "",
)
def test_an_option_that_could_do_nothing_is_refused(shelf, options, told):
    assert told in call("index", "notes.txt", "-l", "lib", *options, code=2).stderr
    assert not Path("lib").exists()


# segment


def test_segment_shows_titles_lines_and_sizes_that_tile_the_file(shelf, server):
    found = value("segment", "notes.txt")
    spans = [(each["start"], each["end"]) for each in found["sections"]]
    assert spans[0][0] == 0
    assert spans[-1][1] == len(TEXT) == found["characters"]
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert sum(each["characters"] for each in found["sections"]) == len(TEXT)
    assert found["sections"][0]["lines"][0] == 1
    shown = call("segment", "notes.txt").stdout
    assert "The pump turns" in shown
    assert f"{len(spans)} sections" in shown
    assert server.bodies == []


def test_segment_keeps_headings_and_divides_below_them(shelf):
    assert [each["title"] for each in value("segment", "manual.md", "--under", "headings")["sections"]] == [
        "Manual",
        *PARTS,
    ]


def test_segment_with_a_model_counts_lines_from_1_and_asks_once(shelf, server, model):
    found = value("segment", "notes.txt", *model)
    assert [(each["title"], each["lines"]) for each in found["sections"]] == [
        ("Pumps", [1, 2]),
        ("Valves", [3, 4]),
        ("Sensors", [5, 5]),
    ]
    assert found["repairs"] == []
    call("segment", "notes.txt", *model)
    assert len(server.bodies) == 1


def test_segment_shows_every_repair(shelf, server, model):
    server.answer = lambda body: '[{"title": "B", "start": 8, "end": 9}, {"title": "A", "start": 1, "end": "4"}]'
    found = value("segment", "notes.txt", *model)
    kinds = [each["kind"] for each in found["repairs"]]
    assert {"not_integer", "unsorted", "gap"} <= set(kinds)
    result = call("segment", "notes.txt", *model)
    shown = " ".join(result.stdout.split())
    assert "What was put right" in shown
    assert all(kind.replace("_", " ") in shown for kind in kinds)
    assert f"{len(kinds)} repairs of what the model answered" in shown


def test_segment_says_where_the_model_was_of_no_use(shelf, server, model):
    server.answer = lambda body: "I cannot."
    result = call("segment", "notes.txt", *model)
    assert "without segmentation of lines" in result.stderr
    assert "The pump turns" in result.stdout
    assert len(server.bodies) >= 2  # it is asked again before


@pytest.mark.slow
def test_segment_plans_and_makes_nothing(shelf, server, model):
    prices = ["--price-in", "2", "--price-out", "8"]
    found = value("segment", "notes.txt", *model, "--plan", *prices)
    assert found["calls"] == 1
    assert found["cost"] > 0
    assert "segmentation" in call("segment", "notes.txt", *model, "--plan").stdout
    assert server.bodies == []
    assert sorted(path.name for path in shelf.iterdir()) == ["manual.md", "notes.txt"]
    call("segment", "notes.txt", *model)
    assert value("segment", "notes.txt", *model, "--plan")["kept"] == 1
    assert "cap of 0" in call("segment", "manual.md", *model, *prices, "--budget", "0", code=3).stderr


@pytest.mark.parametrize(
    "option",
    [
        ["--plan"], ["--journal", "j.db"], ["--price-in", "1"], ["--price-out", "1"], ["--budget", "1"],
        ["--base-url", "http://127.0.0.1:1/v1"],
    ],
    ids=lambda option: option[0],
)  # fmt: skip
def test_segment_refuses_options_that_are_about_a_model(shelf, option):
    assert f"{option[0]} needs the name of a model" in call("segment", "notes.txt", *option, code=2).stderr


def test_a_file_without_text_has_no_sections(shelf):
    Path("empty.md").write_text("", encoding="utf-8")
    told = call("segment", "empty.md", code=1).stderr
    assert "empty.md" in told
    assert "Try: " in told
