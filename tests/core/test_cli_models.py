"""Commands that ask a model, against a server on this machine: output, plan, budget, journal, Ctrl-C, reports."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from cli_calls import at_home, call, plain, refused, value

from catena.effects import Complete
from catena.formatting import planned_answer
from catena.library import Library
from catena.model import TITLE
from catena.structure import DOCUMENT_SUMMARY, SECTION_SUMMARY
from catena.testing import FaithfulFormatter
from catena.testing.fakes import FakeRecognizer
from catena_bench.generated_pdfs import PdfStyle, render_pdf

MANUALS = {
    "pump": "# 1 Pump\n\nThe pump turns at 40 rpm.\n\n## 1.1 Seals\n\nChange the seals after 900 h of work.\n",
    "valve": "# 1 Valve\n\nThe valve opens at 6 bar.\n\n## 1.1 Springs\n\nChange the spring after 300 h of work.\n",
}
MODELS = [FaithfulFormatter(truth) for truth in MANUALS.values()]
NAMES = ("rpm", "seals", "spring")
PARTS = {
    "Pumps": "The pump turns at 40 rpm and moves the water of the cooling loop. Its seal is changed every 900 h.",
    "Valves": "A valve opens at 6 bar. Its spring loses force with age and is changed after 300 h of work.",
    "Sensors": "The sensor reads pressure 200 times a second. Its cable must not be longer than ten metres.",
}
TEXT = "\n\n".join(" ".join([body] * 6) for body in PARTS.values()) + "\n"
PRINTED = "# Manual\n\n" + "".join(f"## {title}\n\n{body}\n\n" for title, body in PARTS.items())
SAID = "De quoi il s'agit : des pompes et des soupapes."
FILES = ["files", "manual.md", "notes.txt"]
PRICES = ["--price-in", "2", "--price-out", "8"]


def answered(body) -> str:
    """Answer as a model that divides the notes, finds names in passages, formats the manuals, or sums up."""
    prompt = body["messages"][-1]["content"]
    if re.search(r"Divide lines (\d+) to (\d+)\.\s*\Z", prompt):
        lines = re.findall(r"^\[?(\d+)\]?\S* ?(.*)$", prompt, re.MULTILINE)
        begins = {"The pump": "Pumps", "A valve": "Valves", "The sensor": "Sensors"}
        found = {begins[line[:n]]: int(at) for at, line in reversed(lines) for n in (7, 8, 10) if line[:n] in begins}
        parts = sorted(found.items(), key=itemgetter(1))
        return json.dumps([{"title": title, "start": start} for title, start in parts])
    if "<passage" in prompt:
        passages = prompt.split('<passage number="')[1:]
        return json.dumps([[name for name in NAMES if name in passage] for passage in passages])
    if "<window>" not in prompt:
        return SAID
    shown = planned_answer(Complete(prompt=prompt, purpose="test")).text
    return MODELS["alve" in shown or "pring" in shown].answer(shown)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    at_home(tmp_path, monkeypatch)
    Path("files").mkdir()
    for name, truth in MANUALS.items():
        Path(f"files/{name}.pdf").write_bytes(render_pdf(truth, PdfStyle(running=False)).pdf)
    Path("notes.txt").write_text(TEXT, encoding="utf-8")
    Path("manual.md").write_text(PRINTED, encoding="utf-8")
    return tmp_path


def index(*arguments: str, code: int = 0) -> Any:
    return value("index", *arguments, "-l", "lib", code=code)


def money(found: dict[str, Any]) -> Any:
    return pytest.approx((2 * found["input_tokens"] + 8 * found["output_tokens"]) / 1e6, abs=1e-6)


def written(name: str) -> list[str]:
    return Path(name).read_text(encoding="utf-8").split()


# plans and budgets

ALL = "index files manual.md notes.txt -l lib --format-llm --entities-llm --segmentation llm --context llm"


@pytest.mark.parametrize(
    ("words", "counts", "shown"),
    [
        (
            "parse files/pump.pdf files/valve.pdf --window 10",
            {"files": 2, "windows": 4, "calls": 4},
            "Markdown format",
        ),
        (
            ALL,
            {"files": 4, "failed": 0, "skipped": 0},
            "Markdown format|segmentation|document summary|entities|an estimate",
        ),
        ("segment notes.txt", {"calls": 1}, "segmentation"),
        ("views manual.md --by llm", {"documents": 1, "sections": 3}, "view keywords"),
        ("questions manual.md notes.txt", {"documents": 2, "sections": 4}, "scope questions"),
    ],
    ids=lambda each: each.split()[0] if isinstance(each, str) else "",
)
def test_a_plan_tells_calls_tokens_and_money_and_makes_nothing(shelf, server, model, *, words, counts, shown):
    line = [*words.split(), *model, "--plan"]
    found = value(*line, *PRICES)
    assert {name: found[name] for name in (*counts, "kept")} == {**counts, "kept": 0}
    assert 0 < found["cost"] == money(found)
    told = plain(call(*line, *PRICES).stdout)
    assert [part for part in (*shown.split("|"), "money") if part not in told] == []
    assert "money" not in call(*line).stdout
    assert (server.bodies, sorted(path.name for path in shelf.iterdir())) == ([], sorted(FILES))


@pytest.mark.parametrize(
    ("words", "tokens", "cap", "calls"),
    [
        ("parse files/pump.pdf --window 7", 50, "0.59", 2),  # the third window is shown what the second was
        ("index files -l lib --format-llm", 50, "0.57", 2),
        ("index notes.txt -l lib --segmentation llm --context llm", 4_000, "4.2", 6),
        ("segment manual.md", 50, "0", 1),
    ],
)
def test_a_budget_stops_before_it_is_passed_and_what_was_paid_is_kept(
    shelf, server, model, *, words, tokens, cap, calls
):
    server.tokens = (100, tokens)
    paid = [*words.split(), *model, "--price-in", "0", "--price-out", "1000", "--budget"]
    assert f"cap of {cap}" in refused(*paid, cap, code=3)
    assert len(server.bodies) == (cap != "0")
    found = value(*paid, "100")
    assert len(server.bodies) == calls
    assert set(found.get("states", ["indexed"])) == {"indexed"}


# parse


def test_parse_writes_what_the_model_wrote_side_by_side_and_asks_nothing_twice(shelf, server, model):
    result = call("parse", "files/pump.pdf", *model)
    assert result.stdout.split() == MANUALS["pump"].split()
    assert "1 page by the model" in result.stderr
    assert call("parse", "files/pump.pdf", *model).stdout == result.stdout
    assert (len(server.bodies), Path("catena-journal.db").exists()) == (1, True)
    call("parse", "files/pump.pdf", *model, "--journal", "other.db")
    assert len(server.bodies) == 2
    result = call("parse", "gone.pdf", "files/pump.pdf", "files/valve.pdf", "--out", "made", *model, code=1)
    assert [written(f"made/{name}.md") for name in MANUALS] == [truth.split() for truth in MANUALS.values()]
    assert "files/pump.pdf -> made/pump.md" in result.stderr
    assert "gone.pdf" in result.stderr
    assert "1 of 3 files were not read" in result.stderr
    both = value("parse", "files/pump.pdf", "files/valve.pdf")  # without a model, too
    assert [each["document"]["source"] for each in both] == ["files/pump.pdf", "files/valve.pdf"]


def test_fidelity_is_written_and_drawn_and_pages_from_the_layout_are_named(shelf, server, model):
    server.answer = lambda body: answered(body).replace("900 h", "800 h")
    report = ("--fidelity", "fidelity.json", "--fidelity-plot", "strip.html")
    result = call("parse", "files/pump.pdf", *model, *report, "--json")
    assert "1 from the layout: 1; because of" in result.stderr
    assert "changed-value" in result.stderr
    kept = json.loads(Path("fidelity.json").read_text(encoding="utf-8"))
    assert kept["pages"][0]["state"] == "layout"
    assert "changed-value" in {fault["kind"] for fault in kept["pages"][0]["faults"]}
    found = json.loads(result.stdout)
    assert found["fidelity"] == kept
    assert found["document"]["metadata"]["layout_pages"] == "1"
    assert "900 h" in found["document"]["text"]
    assert Path("strip.html").stat().st_size > 1_000
    assert len(server.bodies) == 2
    call("parse", "files/pump.pdf", "files/valve.pdf", "--out", "made", *model, *report)
    kept = json.loads(Path("fidelity.json").read_text(encoding="utf-8"))
    assert [each["source"] for each in kept] == ["files/pump.pdf", "files/valve.pdf"]
    assert all(Path(f"strip-{number}.html").exists() for number in (1, 2))


@pytest.mark.slow
def test_a_server_that_is_not_there_and_a_key_that_is_not_are_told(shelf, monkeypatch):
    told = call("parse", "files/pump.pdf", "--llm", "m", "--base-url", "http://127.0.0.1:9/v1").stderr
    assert "1 from the layout: 1; because of no-answer (" in told
    assert "Connection error" in told
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "there is no key" in refused("parse", "files/pump.pdf", "--llm", "m")


# index


def test_a_model_formats_names_divides_and_sums_up_and_is_paid_once(shelf, server, model):
    both = ["files", *model, "--format-llm", "--entities-llm"]
    assert index(*both)["states"] == {"indexed": 2}
    assert len(server.bodies) == 4
    found = value("search", "what turns at how many rpm", "-l", "lib", "--route", "keyword")
    assert [hit["chunk"]["document_id"] for hit in found["hits"]] == ["files/pump.pdf"]
    assert index(*both)["states"] == {"skipped": 2}
    call("delete", "files/pump.pdf", "-l", "lib")
    assert index(*both)["states"] == {"indexed": 1, "skipped": 1}
    assert len(server.bodies) == 4
    made = ["notes.txt", *model, "--segmentation", "llm", "--context", "llm", "--language", "French"]
    assert index(*made)["states"] == {"indexed": 1}
    assert len(server.bodies) == 4 + 1 + 1 + 1 + 3  # segmentation, the document's title, its summary, three sections'
    assert any("French" in prompt for prompt in server.prompts)
    with Library.open("lib") as library:
        assert library.get("files/pump.pdf").document.text.split() == MANUALS["pump"].split()
        entry = library.get("notes.txt")
    assert [section.title for section in entry.sections] == list(PARTS)
    said = entry.chunks[0].metadata
    assert said[DOCUMENT_SUMMARY] == said[SECTION_SUMMARY] == SAID
    call("delete", "notes.txt", "-l", "lib")
    assert index(*made)["states"] == {"indexed": 1}
    assert len(server.bodies) == 10


def test_what_a_model_fails_at_is_said_in_both_ledgers_and_asked_for_again(shelf, server, model):
    server.answer = lambda body: answered(body).replace("900 h", "800 h")
    told = "pages as the layout gives them: 1 (1 of 1; the model's text was not faithful)"
    assert told in plain(call("index", "files", *model, "--format-llm", "-l", "lib").stdout)
    assert told in plain(call("status", "-l", "lib").stdout)
    assert "900 h" in call("search", "seals", "-l", "lib").stdout
    server.answer = lambda body: "I cannot."
    divide = ["notes.txt", *model, "--segmentation", "llm"]
    assert "lines divided at headings and paragraphs" in index(*divide)["files"][0]["reason"]
    server.answer = answered
    assert index(*divide)["states"] == {"indexed": 1}
    assert index(*divide)["states"] == {"skipped": 1}


def test_a_plan_counts_what_is_kept_and_skipped_and_names_what_cannot_be_read(shelf, server, model):
    call("index", "files", "-l", "lib", *model, "--format-llm")
    told = call(
        "index", "files", "gone.pdf", "-l", "lib", *model, "--format-llm", "--entities-llm", "--plan", "--json"
    )
    found = json.loads(told.stdout)
    assert (found["files"], found["failed"], found["calls"], found["kept"]) == (3, 1, 2, 2)
    assert "not read: gone.pdf: missing" in told.stderr
    assert value("index", "files", "-l", "lib", *model, "--format-llm", "--plan")["skipped"] == 2
    told = call("parse", "files/pump.pdf", "files/valve.pdf", *model, "--plan").stdout
    assert "2 of 2 windows are in the journal" in told
    call("segment", "notes.txt", *model)
    assert value("segment", "notes.txt", *model, "--plan")["kept"] == 1


def test_ctrl_c_says_what_is_kept_and_the_next_run_goes_on(shelf, server, model, monkeypatch):
    indexes = Library.index

    def stopped(self, *arguments, **options):
        indexes(self, "files/pump.pdf")
        raise KeyboardInterrupt

    monkeypatch.setattr(Library, "index", stopped)
    first, second = refused("index", "files", *model, "--format-llm", "-l", "lib", code=130).splitlines()[-2:]
    assert first.startswith("Stopped: ")
    assert "replies are kept in catena-journal.db; what was written to the library is kept, too" in first
    assert second == "Try: the same command again: it goes on where it stopped"
    monkeypatch.setattr(Library, "index", indexes)
    assert index("files", *model, "--format-llm")["states"] == {"indexed": 1, "skipped": 1}
    assert len(server.bodies) == 2


def test_entities_of_a_spacy_pipeline_and_of_an_expert(shelf, monkeypatch):
    place = "catena.backends.spacy_entities"
    with monkeypatch.context() as without:
        without.setattr("catena.backends.sentence_transformers.find_spec", lambda name: None)
        assert "[spacy]" in refused("index", "files", "--spacy", "en", "-l", "lib")
    monkeypatch.setattr(f"{place}.SpacyRecognizer", lambda name: FakeRecognizer({"PART": NAMES}, name))
    for options, state in (("en", "indexed"), ("en", "skipped"), ("de", "indexed"), ("de --journal j.db", "skipped")):
        assert index("files", "--spacy", *options.split())["states"] == {state: 2}
    assert value("search", "spring", "-l", "lib", "--route", "keyword")["hits"]
    assert (Path("catena-journal.db").exists(), Path("j.db").exists()) == (False, True)
    Path("terms.csv").write_text("term,aliases,weight\nseals,gaskets,2\n", encoding="utf-8")
    index("files", "--expert", "terms.csv")
    found = value("search", "gaskets", "-l", "lib", "--route", "keyword")
    assert [hit["chunk"]["document_id"] for hit in found["hits"]] == ["files/pump.pdf"]


def test_without_a_model_the_embedding_divides_the_text_sums_up_and_tables_are_embedded_as_asked(shelf):
    assert index("notes.txt", "--segmentation", "embedding", "--context", "offline")["states"] == {"indexed": 1}
    assert not Path("catena-journal.db").exists()
    with Library.open("lib") as library:
        entry = library.get("notes.txt")
    assert [section.title[:7] for section in entry.sections] == ["The pum", "A valve", "The sen"]
    assert entry.chunks[0].metadata[DOCUMENT_SUMMARY] in " ".join(TEXT.split())
    assert entry.chunks[0].metadata[TITLE]
    by_embedding = ("manual.md", "--segmentation", "embedding")
    index(*by_embedding, "--segment-under", "headings")
    with Library.open("lib") as library:
        assert [each.title for each in library.get("manual.md").sections] == ["Manual", *PARTS]
    index(*by_embedding, "--segment-under", "document")
    with Library.open("lib") as library:
        assert len(library.get("manual.md").sections) < 4
    assert index(*by_embedding)["states"] == {"skipped": 1}  # document is the default
    Path("t.md").write_text("# T\n\n| Part | Torque |\n| --- | --- |\n| Cover | 2.4 N·m |\n", encoding="utf-8")
    for options, is_defined in ((("--embed-tables", "definition"), True), ((), False)):
        assert index("t.md", *options)["states"] == {"indexed": 1}
        assert ("table" in value("status", "-l", "lib")["holds"]["views"]) is is_defined


# segment


def test_segment_shows_titles_lines_and_sizes_that_tile_the_file(shelf, server, model):
    found = value("segment", "notes.txt")
    spans = [(each["start"], each["end"]) for each in found["sections"]]
    assert spans[0][0] == 0
    assert spans[-1][1] == len(TEXT) == found["characters"] == sum(each["characters"] for each in found["sections"])
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert found["sections"][0]["lines"][0] == 1
    shown = call("segment", "notes.txt").stdout
    assert ("The pump turns" in shown, f"{len(spans)} sections" in shown) == (True, True)
    under = value("segment", "manual.md", "--under", "headings")["sections"]
    assert [each["title"] for each in under] == ["Manual", *PARTS]
    assert server.bodies == []
    found = value("segment", "notes.txt", *model)
    lines = [(each["title"], each["lines"]) for each in found["sections"]]
    assert lines == [("Pumps", [1, 2]), ("Valves", [3, 4]), ("Sensors", [5, 5])]
    assert found["repairs"] == []
    call("segment", "notes.txt", *model)
    assert len(server.bodies) == 1


def test_segment_shows_every_repair_and_where_the_model_was_of_no_use(shelf, server, model):
    server.answer = lambda body: '[{"title": "B", "start": 8, "end": 9}, {"title": "A", "start": 1, "end": "4"}]'
    kinds = [each["kind"] for each in value("segment", "notes.txt", *model)["repairs"]]
    assert {"not_integer", "unsorted", "gap"} <= set(kinds)
    shown = plain(call("segment", "notes.txt", *model).stdout)
    assert "What was put right" in shown
    assert all(kind.replace("_", " ") in shown for kind in kinds)
    assert f"{len(kinds)} repairs of what the model answered" in shown
    server.answer = lambda body: "I cannot."
    asked = len(server.bodies)
    result = call("segment", "manual.md", *model)
    assert "without segmentation of lines" in result.stderr
    assert "Pumps" in result.stdout
    assert len(server.bodies) >= asked + 2  # it is asked again before
