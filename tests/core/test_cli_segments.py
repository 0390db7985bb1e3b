"""`catena search --segments` and `catena ask`: segments, what decides them, answers with quotes looked up."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_calls import KEY, call, filled, plain, refused, value

import catena
from catena.library import Library
from catena.segments import Artefact, fit_labelled, fused_scores_of
from catena.testing import ChatServer, FakeReranker

MANUAL = """# {name} manual

## 1 Mounting

Mount the {name} upright, away from heat. Leave a hand's breadth of air on each side of the housing, so that it stays
cool, and do not stand anything on it.

## 2 Cover

The cover is of cast aluminium. Before it is closed, the seal must lie in its groove without twists, and no core may
be trapped between the rim and the housing.

Tighten the cover screws of the {name} to {torque} N·m, crosswise, in two passes.

| Part | Value |
| --- | --- |
| Torque of the cover screws | {torque} N·m |

## 3 Fuse

The fuse is rated {fuse} mA, slow. Pull the plug before you open the holder, and replace the fuse by one of the same
rating only.

## 4 Cleaning

Clean the housing with a damp cloth. Never use solvents.
"""
QUESTION = "To what torque are the cover screws of the HX210 tightened?"
LINE = ("search", QUESTION, "-l", "lib", "--segments")
QUOTES = {
    "exact": "Tighten the cover screws of the HX210 to 2.4 N·m",
    "near": "Tighten all cover screws of the HX210 to 2.4 N·m",
    "altered": "Tighten the cover screws of the HX210 to 3.4 N·m",
    "missing": "The moon is made of cheese and nothing else",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = (("HX200", "1.8", "250"), ("HX210", "2.4", "400"))
    texts = {f"{name}.md": MANUAL.format(name=name, torque=torque, fuse=fuse) for name, torque, fuse in rows}
    return filled(tmp_path_factory.mktemp("made"), texts)


def passages_of(body) -> list[tuple[str, str]]:
    return re.findall(r'<passage number="(\d+)".*?>\n(.*?)</passage>', body["messages"][-1]["content"], re.DOTALL)


def answered(body) -> str:
    """Answer as a model: two queries where queries are asked for, else a sentence with good and bad quotes."""
    shown = passages_of(body)
    if not shown:
        return '["cover screws torque", "fuse rating"]'
    n = next((number for number, text in shown if QUOTES["exact"] in text), "1")
    said = f"The screws are tightened to 2.4 N·m [{n}]. They are polished weekly [{n}].\n\nQUOTES\n"
    return said + "".join(f'[{n}] "{quote}"\n' for quote in QUOTES.values())


def search(*options: str, question: str = QUESTION, code: int = 0) -> Any:
    return value("search", question, "-l", "lib", "--segments", *options, code=code)


# search --segments


def test_segments_are_shown_with_worth_citation_header_and_their_own_words_and_drawn(shelf):
    found = search()
    first = found["segments"][0]
    text = Path("HX210.md").read_text(encoding="utf-8")
    assert first["segment"]["text"] == text[first["segment"]["start"] : first["segment"]["end"]]
    assert first["segment"]["document_id"] == "HX210.md"
    assert len(first["segment"]["chunk_ids"]) > 1
    assert first["header"] == "Document context: the following excerpt is from a document titled 'HX210 manual'."
    assert found["value"] == pytest.approx(sum(each["value"] for each in found["segments"]))
    result = call(*LINE, "--curve", "curve.html")
    for part in (f"{first['value']:.3f}", first["citation"], first["header"], "to 2.4 N·m, crosswise"):
        assert part in plain(result.stdout)
    assert "written: curve.html" in result.stderr
    assert "HX210 manual" in Path("curve.html").read_text(encoding="utf-8")


def test_a_segment_of_little_worth_is_shown_and_said_unless_a_minimum_was_given(shelf):
    few = ["--preset", "precision", "--decay", "0.1", "--penalty", "0.7"]
    result = call(*LINE, *few)
    assert "2.4 N·m" in result.stdout
    assert result.stderr.startswith("segments: none is worth 0.7; this is the best, worth")
    assert "no segment is worth at least 0.5" in refused(*LINE, *few, "--minimum", "0.5", code=1)
    assert search(*few, "--minimum", "0.5", code=1)["segments"] == []


def test_each_option_is_a_setting_of_the_extraction_and_others_follow_from_the_budget_or_a_preset(shelf):
    usual = search()["params"]
    for options, name, expected in (
        ("--preset find_all", "top_k", 200),
        ("--budget-tokens 60", "overall_max_tokens", 60),
        ("--selection optimal", "selection", "optimal"),
        ("--penalty 0.3", "irrelevance_penalty", 0.3),
        ("--decay 3", "decay_rate", 3.0),
        ("--minimum 0.1", "minimum_value", 0.1),
        ("--length-adjustment floor", "length_adjustment", "floor"),
        ("--order reading", "order", "reading"),
    ):
        assert usual[name] != expected == search(*options.split())["params"][name]
    assert usual["overall_max_tokens"] == 2_000
    assert usual["decay_rate"] != search("--budget-tokens", "200")["params"]["decay_rate"]
    preset = search("--preset", "balanced")["params"]
    assert (preset["overall_max_tokens"], preset["overall_max_chunks"], preset["decay_rate"]) == (None, 30, 30.0)
    assert search("--preset", "balanced", "--budget-tokens", "90")["params"] == {**preset, "overall_max_tokens": 90}


def test_a_question_is_taken_apart_or_a_model_writes_queries(shelf, server):
    both = "What torque have the cover screws of the HX210? And how is the housing of the HX200 cleaned?"
    found = search("--queries", "decomposition", question=both)
    assert len(found["queries"]) > 1
    assert {each["segment"]["document_id"] for each in found["segments"]} == {"HX200.md", "HX210.md"}
    shown = call("search", both, "-l", "lib", "--segments", "--queries", "decomposition").stdout
    assert "query 2: " in shown
    assert "for query 1" in shown
    assert search(question=both)["queries"] == [both]
    model = ("--queries", "llm", "--llm", "m", "--base-url", server.url)
    assert search(*model)["queries"] == [QUESTION, "cover screws torque", "fuse rating"]
    assert len(server.bodies) == 1
    server.answer = lambda body: "none"
    failed = search(*model)
    assert failed["queries"][0] == QUESTION
    assert "queries" in failed["degraded"][0]["what"]


def test_what_every_chunk_is_worth_is_explained_and_of_those_in_no_segment_only_the_best_is_shown(shelf, monkeypatch):
    assert "explanation" not in search()
    monkeypatch.setattr("catena.cli.segment_search.OTHERS_SHOWN", 1)
    few = ("--explain", "--budget-tokens", "120")
    found = search(*few)
    weighed = found["explanation"]["chunks"]
    assert len(weighed) >= len(found["segments"])
    others = [each for each in weighed if each["segment"] is None]
    best = max(others, key=lambda each: (each["worths"][0]["value"], -(each["worths"][0]["rank"] or 0)))
    shown = call(*LINE, *few).stdout
    head, *rows, more = shown[shown.index("document  ") :].strip().splitlines()
    assert head.split()[:5] == ["document", "chunk", "query", "rank", "P"]
    assert head.split()[-1] == "segment"
    assert len(rows) == len(weighed) - len(others) + 1
    left = [row.split()[:2] for row in rows if row.split()[11] == "-"]
    assert left == [[best["document_id"], f"{best['position']}"]]
    assert more == f"… and {len(others) - 1} chunks that are worth no more; --json has all"


def test_a_name_that_stands_nowhere_is_the_answer(shelf):
    question = "The fuse of the HX220?"
    told = refused("search", question, "-l", "lib", "--segments", code=1)
    assert "'HX220' stands nowhere in the documents; near it: HX200, HX210" in told
    assert search("--keep-neighbours", question=question)["segments"]
    nothing = search(question=question, code=1)
    assert (nothing["segments"], nothing["unknown"][0]["text"]) == ([], "HX220")


# reranking and calibration


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[FakeReranker]:
    """Put rerankers of every kind in place that prefer texts on cleaning, and are named as they were asked for."""
    opened: list[FakeReranker] = []

    def make(model: str) -> FakeReranker:
        opened.append(FakeReranker(lambda query, text: 0.99 if "damp cloth" in text else 0.01, model))
        return opened[-1]

    for place in ("cohere.CohereReranker", "voyage.VoyageReranker", "sentence_transformers.CrossEncoderReranker"):
        monkeypatch.setattr(f"catena.backends.{place}", make)
    monkeypatch.setenv("CO_API_KEY", KEY)
    monkeypatch.setenv("VOYAGE_API_KEY", KEY)
    return opened


def chances(*options: str) -> set[float]:
    chunks = search("--explain", "--minimum", "0", *options)["explanation"]["chunks"]
    worths = (each for chunk in chunks for each in chunk["worths"] if each["rank"] is not None)
    return {round(each["probability"], 6) for each in worths}


def test_a_reranker_decides_what_is_worth_reading_and_a_preset_says_what_its_scores_mean(shelf, asked):
    for named in ("cohere:rerank-v3.5", "voyage:rerank-2.5", "cross-encoder:C:\\models/mini"):
        found = search("--rerank", named, "--decay", "1", "--minimum", "0", "--length-adjustment", "off")
        assert "damp cloth" in found["segments"][0]["segment"]["text"]
        assert asked[-1].identity == named.partition(":")[2]
    for kind in ("cohere", "voyage"):
        model = ("--rerank", f"{kind}:m")
        assert chances(*model) == chances(*model, "--calibration", "rank") == {0.8}
        assert len(chances(*model, "--calibration", kind)) > 1


def test_a_fit_is_taken_for_its_own_scores_and_refused_for_others(shelf, asked):
    def fitted_for(model: str) -> None:
        fit = fit_labelled([0.01] * 20 + [0.99] * 10, [False] * 18 + [True] * 4 + [False] + [True] * 7)
        Artefact(fit=fit, model=model).save("fit.json")

    fitted_for("m")
    by_fit = ("--calibration", "fit.json")
    assert len(chances("--rerank", "cohere:m", *by_fit) - {0.8}) == 2
    told = refused(*LINE, "--rerank", "cohere:n", *by_fit)
    assert "fitted to scores of 'm', and these are scores of 'n'" in told
    assert "Try: fit it again" in told
    with Library.open("lib") as library:
        fitted_for(fused_scores_of(library.stats().embedder))
    assert call(*LINE, *by_fit, "--no-names", "--minimum", "0").stdout
    for options, told in {
        "": "--no-names with it",
        "--no-names --alpha 0.1": "fitted to scores of",
        "--no-names --fusion rank": "of all routes, fused",
        "--route dense": "of all routes, fused",
    }.items():
        assert told in refused(*LINE, *by_fit, *options.split())


# ask


def ask(server: ChatServer, *options: str) -> list[str]:
    return ["ask", "HX200.md", "HX210.md", QUESTION, "--model", "m", "--base-url", server.url, *options]


@pytest.mark.parametrize("options", [["-k", "4"], ["--segments"]], ids=["passages", "segments"])
def test_every_quote_of_an_answer_is_looked_up_shown_and_what_is_unproved_told(shelf, server, options):
    found = value(*ask(server, *options))
    answer = found["answer"]
    assert answer["text"].startswith("The screws are tightened to 2.4 N·m [")
    states = {citation["quote"]["text"]: citation["quote"]["state"] for citation in answer["citations"]}
    assert states == {text: state for state, text in QUOTES.items()}
    assert [citation["verified"] for citation in answer["citations"]] == [True, False, False, False]
    text = Path("HX210.md").read_text(encoding="utf-8")
    exact = answer["citations"][0]["quote"]
    assert text[exact["start"] : exact["end"]] == exact["printed"] == QUOTES["exact"]
    line = text[: exact["start"]].count("\n") + 1
    assert exact["lines"] == [line, line]
    assert f"line {line}" in answer["citations"][0]["source"]
    assert 0 < answer["coverage"] <= 1
    cited = found["passages"][answer["cited"][0] - 1]
    assert cited["number"] == answer["cited"][0]
    assert QUOTES["exact"] in cited["segment"]["text"]
    assert found["problem"] is None
    assert ("segments" if "--segments" in options else "hits") in found
    server.answer = lambda body: answered(body).replace("They are polished weekly [", "It weighs 77 kg [")
    result = call(*ask(server, *options))
    shown = plain(result.stdout)
    for part in (f"“{QUOTES['exact']}” ✓ exact HX210 manual", "≈ near", "✗ altered", "✗ missing", "printed: “"):
        assert part in shown
    assert re.search(r"✓ exact HX210 manual[^,]*, line \d+ ", shown)
    assert "not in what is cited: 77 kg (It weighs 77 kg" in plain(result.stderr)


def test_a_quote_of_a_segment_over_several_pages_has_its_own_page(shelf, server):
    pdf = Path(catena.__file__).parent / "data" / "demo" / "halden-hx210-manual.pdf"
    quote = "Tighten the six cover screws crosswise to 2.4 N·m."

    def quoting(body) -> str:
        shown = passages_of(body)
        number = next(number for number, text in shown if "cover screws crosswise" in " ".join(text.split()))
        return f'To 2.4 N·m [{number}].\n\nQUOTES\n[{number}] "{quote}"'

    server.answer = quoting
    asked = ["ask", str(pdf), QUESTION, "--model", "m", "--base-url", server.url, "--segments"]
    found = value(*asked, "--budget-tokens", "1500")
    (citation,) = found["answer"]["citations"]
    first, last = found["passages"][found["answer"]["cited"][0] - 1]["segment"]["pages"]
    assert first < last
    assert citation["quote"]["pages"] == [9, 9]
    assert "page 6 (9th of the file), line" in citation["source"]
    assert found["answer"]["unsupported"] == []


def test_a_statement_without_a_quote_or_with_a_wrong_number_is_named(shelf, server):
    server.answer = lambda body: "The screws are tightened to 2.4 N·m [1]."
    assert "no verified quote: The screws are tightened to 2.4 N·m [1]." in call(*ask(server)).stderr
    assert value(*ask(server))["answer"]["unsupported"] == ["The screws are tightened to 2.4 N·m [1]."]
    server.answer = lambda body: "Nobody knows [9]."
    told = call(*ask(server)).stderr
    assert "citations of passages that do not exist (9)" in told
    assert "the answer cites no passage: do not rely on it" in told


def test_fields_in_which_documents_differ_are_told_to_the_model_and_the_reader(shelf, server):
    for mass in (3, 4):
        text = f"# Pump data sheet\n\n| Field | Value |\n| --- | --- |\n| Mass | {mass} kg |\n"
        Path(f"sheet-{mass}.md").write_text(text, encoding="utf-8")
    mass = "What is the mass of the pump?"
    sheets = ["ask", "sheet-3.md", "sheet-4.md", mass, "--model", "m", "--base-url", server.url, "--segments"]
    (conflict,) = value(*sheets)["conflicts"]
    assert conflict["label"] == "Mass"
    assert conflict["note"] in server.prompts[-1]
    assert plain(conflict["note"]) in plain(call(*sheets).stdout)


def test_the_answer_without_quotes_is_still_there(shelf, server):
    found = value(*ask(server, "--no-quotes"))
    assert "QUOTES" not in server.bodies[-1]["messages"][0]["content"]
    assert "passages" not in found
    assert found["answer"]["cited"]
    shown = call(*ask(server, "--no-quotes")).stdout
    assert ("The screws are tightened" in shown, "✓ exact" in shown) == (True, False)


def test_segments_are_the_answer_without_a_model_and_a_budget_limits_what_a_model_reads(shelf, server):
    files = ["ask", "HX200.md", "HX210.md", QUESTION, "--segments"]
    found = value(*files, "--budget-tokens", "200")
    assert (found["answer"], found["params"]["overall_max_tokens"]) == (None, 200)
    assert [each["state"] for each in found["files"]] == ["indexed", "indexed"]
    assert "Document context: " in call(*files).stdout
    wide = value(*ask(server, "--segments", "--preset", "find_all"))
    tight = value(*ask(server, "--segments", "--preset", "find_all", "--budget-tokens", "120"))
    assert tight["context_tokens"] <= 120 < wide["context_tokens"]
    assert "fits into 4 tokens" in refused(*ask(server, "--segments", "--budget-tokens", "4"), code=1)
    asked = len(server.bodies)
    found = value(*ask(server, "--segments", "--queries", "llm"))  # the model that answers writes queries too
    assert found["queries"] == [QUESTION, "cover screws torque", "fuse rating"]
    assert found["answer"]["citations"][0]["verified"]
    assert len(server.bodies) == asked + 2


@pytest.mark.slow
@pytest.mark.parametrize(("options", "shown"), [([], "hits"), (["--segments"], "segments"), (["--graph"], "chains")])
def test_what_was_found_is_shown_where_the_model_fails(shelf, options, shown):
    dead = ["ask", "HX210.md", QUESTION, "--model", "m", "--base-url", "http://127.0.0.1:9/v1", *options]
    result = call(*dead, "--json", code=2)
    found = json.loads(result.stdout)
    assert (found["answer"], f"no answer was written: {found['problem']}"[:40] in result.stderr) == (None, True)
    assert found[shown]
