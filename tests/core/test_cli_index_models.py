"""`catena index` with models, against a server on this machine: pages, entities, plan, budget, journal, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cli_calls
import pytest
from cli_calls import at_home

from catena.backends import spacy_entities
from catena.effects import Complete
from catena.formatting import planned_answer
from catena.library import Library
from catena.testing import ChatServer, FaithfulFormatter
from catena.testing.fakes import FakeRecognizer
from catena_bench.generated_pdfs import PdfStyle, render_pdf

MANUALS = {
    "pump": "# 1 Pump\n\nThe pump turns at 40 rpm.\n\n## 1.1 Seals\n\nChange the seals after 900 h of work.\n",
    "valve": "# 1 Valve\n\nThe valve opens at 6 bar.\n\n## 1.1 Springs\n\nChange the spring after 300 h of work.\n",
}
NAMES = ("rpm", "seals", "spring")


MODELS = [FaithfulFormatter(truth) for truth in MANUALS.values()]


def answered(body) -> str:
    """Answer as a model that formats the manuals, and finds names in passages."""
    prompt = body["messages"][1]["content"]
    if "<passage" in prompt:
        passages = prompt.split('<passage number="')[1:]
        return json.dumps([[name for name in NAMES if name in passage] for passage in passages])
    shown = planned_answer(Complete(prompt=prompt, purpose="test")).text
    return MODELS["alve" in shown or "pring" in shown].answer(shown)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(answered, tokens=(100, 50)) as made:
        yield made


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    at_home(tmp_path, monkeypatch)
    (tmp_path / "files").mkdir()
    for name, truth in MANUALS.items():
        (tmp_path / "files" / f"{name}.pdf").write_bytes(render_pdf(truth, PdfStyle(running=False)).pdf)
    return tmp_path


def call(*arguments: str, code: int = 0) -> Any:
    return cli_calls.call(*arguments, "-l", "lib", code=code)


def value(*arguments: str, code: int = 0) -> Any:
    return cli_calls.value(*arguments, "-l", "lib", code=code)


@pytest.fixture
def model(server: ChatServer) -> list[str]:
    return ["--llm", "m", "--base-url", server.url]


@pytest.mark.slow
def test_a_model_writes_and_names_and_is_paid_once(shelf, server, model):
    both = ["index", "files", *model, "--format-llm", "--entities-llm"]
    assert value(*both)["states"] == {"indexed": 2}
    assert len(server.bodies) == 4
    found = value("search", "what turns at how many rpm", "--route", "keyword")
    assert [hit["chunk"]["document_id"] for hit in found["hits"]] == ["files/pump.pdf"]
    assert value(*both)["states"] == {"skipped": 2}
    call("delete", "files/pump.pdf")
    assert value(*both)["states"] == {"indexed": 1, "skipped": 1}
    assert len(server.bodies) == 4
    assert (shelf / "catena-journal.db").exists()
    with Library.open("lib") as library:
        assert library.get("files/pump.pdf").document.text.split() == MANUALS["pump"].split()


def test_pages_that_were_not_faithful_are_named_in_both_ledgers(shelf, server, model):
    server.answer = lambda body: answered(body).replace("900 h", "800 h")
    told = "pages as the layout gives them: 1 (1 of 1; the model's text was not faithful)"
    assert told in " ".join(call("index", "files", *model, "--format-llm").stdout.split())
    assert told in " ".join(call("status").stdout.split())
    assert "900 h" in call("search", "seals").stdout


@pytest.mark.slow
def test_a_plan_tells_calls_tokens_and_money_and_makes_nothing(shelf, server, model):
    prices = ["--price-in", "2", "--price-out", "8"]
    plan = ["index", "files", "gone.pdf", *model, "--format-llm", "--entities-llm", "--plan", *prices]
    found = value(*plan)
    assert (found["files"], found["failed"], found["skipped"]) == (3, 1, 0)
    assert (found["calls"], found["kept"]) == (4, 0)
    assert found["cost"] == pytest.approx((2 * found["input_tokens"] + 8 * found["output_tokens"]) / 1e6, abs=1e-6)
    shown = call(*plan)
    assert all(word in shown.stdout for word in ("Markdown format", "critical entities", "money", "3 files"))
    assert "not read: gone.pdf: missing" in shown.stderr
    assert not server.bodies
    assert sorted(path.name for path in shelf.iterdir()) == ["files"]
    call("index", "files", *model, "--format-llm")
    later = value(*plan)
    assert (later["calls"], later["kept"]) == (2, 2)
    assert value("index", "files", *model, "--format-llm", "--plan")["skipped"] == 2


@pytest.mark.slow
def test_a_budget_stops_before_it_is_passed_and_keeps_what_was_paid(shelf, server, model):
    cap = ["--budget", "0.57"]  # a reply may cost 0.55, and costs 0.05
    paid = [*model, "--format-llm", "--price-in", "0", "--price-out", "1000", *cap]
    assert "cap of 0.57" in call("index", "files", *paid, code=3).stderr
    assert len(server.bodies) == 1
    assert value("index", "files", *paid[:-1], "100")["states"] == {"indexed": 2}
    assert len(server.bodies) == 2


def test_ctrl_c_says_what_is_kept_and_the_next_run_goes_on(shelf, server, model, monkeypatch):
    index = Library.index

    def stopped(self, *arguments, **options):
        index(self, "files/pump.pdf")
        raise KeyboardInterrupt

    monkeypatch.setattr(Library, "index", stopped)
    result = call("index", "files", *model, "--format-llm", code=130)
    first, second = result.stderr.splitlines()[-2:]
    assert first.startswith("Stopped: ")
    assert "replies are kept in catena-journal.db; what was written to the library is kept, too" in first
    assert second == "Try: the same command again: it goes on where it stopped"
    monkeypatch.setattr(Library, "index", index)
    assert value("index", "files", *model, "--format-llm")["states"] == {"indexed": 1, "skipped": 1}
    assert len(server.bodies) == 2


@pytest.mark.slow
def test_entities_of_a_spacy_pipeline(shelf, monkeypatch):
    monkeypatch.setattr(spacy_entities, "SpacyRecognizer", lambda name: FakeRecognizer({"PART": NAMES}, name))
    assert value("index", "files", "--spacy", "en")["states"] == {"indexed": 2}
    assert not (shelf / "catena-journal.db").exists()
    assert value("search", "spring", "--route", "keyword")["hits"]
    assert value("index", "files", "--spacy", "en")["states"] == {"skipped": 2}
    assert value("index", "files", "--spacy", "de")["states"] == {"indexed": 2}
    assert value("index", "files", "--spacy", "de", "--journal", "j.db")["states"] == {"skipped": 2}
    assert (shelf / "j.db").exists()


def test_a_missing_extra_is_named(shelf, monkeypatch):
    monkeypatch.setattr(spacy_entities, "find_spec", lambda name: None)
    assert "catena-core[spacy]" in call("index", "files", "--spacy", "en", code=2).stderr


@pytest.mark.slow
def test_an_experts_list_finds_other_spellings(shelf):
    Path("terms.csv").write_text("term,aliases,weight\nseals,gaskets,2\n", encoding="utf-8")
    call("index", "files", "--expert", "terms.csv")
    found = value("search", "gaskets", "--route", "keyword")
    assert [hit["chunk"]["document_id"] for hit in found["hits"]] == ["files/pump.pdf"]
    assert "no.csv" in call("index", "files", "--expert", "no.csv", code=2).stderr


@pytest.mark.slow
def test_tables_are_embedded_as_asked(shelf):
    Path("t.md").write_text("# T\n\n| Part | Torque |\n| --- | --- |\n| Cover | 2.4 N·m |\n", encoding="utf-8")
    call("index", "t.md", "--embed-tables", "definition")
    assert "table" in value("status")["holds"]["views"]
    assert value("index", "t.md")["states"] == {"indexed": 1}
    assert "table" not in value("status")["holds"]["views"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--format-llm"], "--format-llm needs the name of a model"),
        (["--entities-llm"], "--entities-llm needs the name of a model"),
        (["--llm", "m"], "--llm needs to be told what for"),
        (["--plan"], "--plan needs the name of a model"),
        (["--price-in", "1"], "--price-in needs the name of a model"),
        (["--budget", "1"], "--budget needs the name of a model"),
        (["--base-url", "http://127.0.0.1:1/v1"], "--base-url needs the name of a model"),
        (["--journal", "j.db"], "--journal keeps the replies of a model"),
        (["--llm", "m", "--format-llm", "--budget", "1"], "--budget needs prices"),
    ],
    ids=lambda option: " ".join(option) if isinstance(option, list) else "",
)
def test_an_option_that_could_do_nothing_is_refused_before_anything_is_made(shelf, options, told):
    assert told in call("index", "files", *options, code=2).stderr
    assert sorted(path.name for path in shelf.iterdir()) == ["files"]
