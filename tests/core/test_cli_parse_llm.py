"""`catena parse --llm` against a server on this machine: output, plan, prices, journal, report, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_calls import KEY, at_home
from typer.testing import CliRunner

from catena.cli.app import app
from catena.effects import Complete
from catena.formatting import planned_answer
from catena.testing import ChatServer, FaithfulFormatter
from catena_bench.generated_pdfs import PdfStyle, render_pdf

MANUALS = {
    "pump": "# 1 Pump\n\nThe pump turns at 40 rpm.\n\n## 1.1 Seals\n\nChange the seals after 900 h of work.\n",
    "valve": "# 1 Valve\n\nThe valve opens at 6 bar.\n\n## 1.1 Springs\n\nChange the spring after 300 h of work.\n",
}


MODELS = [FaithfulFormatter(truth) for truth in MANUALS.values()]


def formatted(body) -> str:
    """Answer as a model that knows the manuals."""
    shown = planned_answer(Complete(prompt=body["messages"][1]["content"], purpose="test")).text
    return MODELS["alve" in shown or "pring" in shown].answer(shown)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(formatted, tokens=(100, 50)) as made:
        yield made


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    at_home(tmp_path, monkeypatch)
    for name, truth in MANUALS.items():
        (tmp_path / f"{name}.pdf").write_bytes(render_pdf(truth, PdfStyle(running=False)).pdf)
    return tmp_path


@pytest.fixture
def call(server: ChatServer):
    def called(*arguments: str, code: int = 0):
        model = ["--llm", "m", "--base-url", server.url]
        result = CliRunner().invoke(app, ["parse", *arguments, *model])
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        assert KEY not in result.output
        return result

    return called


def test_markdown_goes_to_stdout_and_who_wrote_it_to_stderr(shelf, call, server):
    result = call("pump.pdf")
    assert result.stdout.split() == MANUALS["pump"].split()
    assert "1 page by the model" in result.stderr
    assert len(server.bodies) == 1


def test_several_files_go_to_a_folder_side_by_side(shelf, call):
    result = call("pump.pdf", "valve.pdf", "--out", "made")
    for name, truth in MANUALS.items():
        assert (shelf / "made" / f"{name}.md").read_text(encoding="utf-8").split() == truth.split()
    assert "pump.pdf -> made/pump.md" in result.stderr


def test_nothing_is_asked_twice(shelf, call, server):
    first = call("pump.pdf").stdout
    assert call("pump.pdf").stdout == first
    assert len(server.bodies) == 1
    assert (shelf / "catena-journal.db").exists()
    call("pump.pdf", "--journal", "other.db")
    assert len(server.bodies) == 2


def test_a_plan_tells_calls_tokens_and_money_and_asks_nothing(shelf, call, server):
    prices = ["--price-in", "2", "--price-out", "8"]
    found = json.loads(call("pump.pdf", "valve.pdf", "--plan", "--window", "10", "--json", *prices).stdout)
    assert (found["files"], found["windows"], found["calls"], found["kept"]) == (2, 4, 4, 0)
    money = (2 * found["input_tokens"] + 8 * found["output_tokens"]) / 1e6
    assert found["cost"] == pytest.approx(money, abs=1e-6)
    assert not server.bodies
    assert not (shelf / "catena-journal.db").exists()
    told = call("pump.pdf", "--plan", *prices).stdout
    assert "Markdown format" in told
    assert "money" in told
    assert "money" not in call("pump.pdf", "--plan").stdout
    call("pump.pdf")
    assert "1 of 1 windows are in the journal" in call("pump.pdf", "--plan").stdout


@pytest.mark.slow
def test_a_budget_stops_before_it_is_passed_and_keeps_what_was_paid(shelf, call, server):
    prices = ["--price-in", "0", "--price-out", "1000", "--window", "7"]
    result = call("pump.pdf", "--budget", "0.59", *prices, code=3)
    assert len(server.bodies) == 1
    assert "cap of 0.59" in result.stderr
    assert call("pump.pdf", "--budget", "100", *prices).stdout.split() == MANUALS["pump"].split()
    assert len(server.bodies) == 2  # the third window is shown what the second was, and is in the journal


def test_fidelity_is_written_and_drawn_and_pages_from_the_layout_are_named(shelf, call, server):
    server.answer = lambda body: formatted(body).replace("900 h", "800 h")
    result = call("pump.pdf", "--fidelity", "fidelity.json", "--fidelity-plot", "strip.html", "--json")
    assert "1 from the layout: 1; because of" in result.stderr
    assert "changed-value" in result.stderr
    report = json.loads((shelf / "fidelity.json").read_text(encoding="utf-8"))
    assert report["pages"][0]["state"] == "layout"
    assert "changed-value" in {fault["kind"] for fault in report["pages"][0]["faults"]}
    found = json.loads(result.stdout)
    assert found["fidelity"] == report
    assert found["document"]["metadata"]["layout_pages"] == "1"
    assert "900 h" in found["document"]["text"]
    assert (shelf / "strip.html").stat().st_size > 1_000
    assert len(server.bodies) == 2


def test_reports_of_several_files_are_a_list(shelf, call):
    call("pump.pdf", "valve.pdf", "--out", "made", "--fidelity", "all.json", "--fidelity-plot", "strip.html")
    reports = json.loads((shelf / "all.json").read_text(encoding="utf-8"))
    assert [report["source"] for report in reports] == ["pump.pdf", "valve.pdf"]
    assert (shelf / "strip-1.html").exists()
    assert (shelf / "strip-2.html").exists()


@pytest.mark.slow
def test_a_server_that_is_not_there_is_told(shelf):
    told = CliRunner().invoke(app, ["parse", "pump.pdf", "--llm", "m", "--base-url", "http://127.0.0.1:9/v1"])
    assert "1 from the layout: 1; because of no-answer (" in told.stderr
    assert "Connection error" in told.stderr


@pytest.mark.parametrize(
    "target", [("--fidelity", "none/f.json"), ("--fidelity-plot", "f.txt"), ("--out", "none/pump.md")]
)
def test_what_cannot_be_written_is_refused_before_the_model_is_asked(shelf, call, server, target):
    assert target[1] in call("pump.pdf", *target, code=2).stderr
    assert not server.bodies


def test_a_file_that_cannot_be_read_does_not_stop_the_others(shelf, call):
    result = call("gone.pdf", "pump.pdf", "--out", "made", code=1)
    assert (shelf / "made" / "pump.md").read_text(encoding="utf-8").split() == MANUALS["pump"].split()
    assert "gone.pdf" in result.stderr
    assert "1 of 2 files were not read" in result.stderr


@pytest.mark.parametrize(
    "option",
    [
        ["--plan"], ["--journal", "j.db"], ["--budget", "1"], ["--price-in", "1"], ["--window", "9"],
        ["--padding", "9"], ["--fidelity", "f.json"], ["--base-url", "http://127.0.0.1:1/v1"],
    ],
    ids=lambda option: option[0],
)  # fmt: skip
def test_options_of_a_model_need_one(shelf, option):
    result = CliRunner().invoke(app, ["parse", "pump.pdf", *option])
    assert result.exit_code == 2
    assert f"{option[0]} needs the name of a model" in result.stderr
    assert "Try: --llm NAME" in result.stderr


def test_what_cannot_work_is_said_before_anything_is_asked(shelf, call, server, monkeypatch):
    assert "needs prices" in call("pump.pdf", "--budget", "1", code=2).stderr
    (shelf / "more").mkdir()
    (shelf / "more" / "pump.pdf").write_bytes((shelf / "pump.pdf").read_bytes())
    assert "same name" in call("pump.pdf", "more/pump.pdf", "--out", "made", code=2).stderr
    assert not server.bodies
    monkeypatch.delenv("OPENAI_API_KEY")
    result = CliRunner().invoke(app, ["parse", "pump.pdf", "--llm", "m"])
    assert result.exit_code == 2
    assert "no key" in result.stderr


def test_without_a_model_several_files_work_too(shelf):
    result = CliRunner().invoke(app, ["parse", "pump.pdf", "valve.pdf", "--json"])
    assert result.exit_code == 0, result.output
    assert [each["document"]["source"] for each in json.loads(result.stdout)] == ["pump.pdf", "valve.pdf"]
