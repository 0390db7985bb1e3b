"""Names in questions on the command line: shares, names that stand nowhere, and the options about them."""

from __future__ import annotations

import json

import pytest
from cli_calls import at_home
from typer.testing import CliRunner

import catena
from catena.backends import openai as openai_llm
from catena.cli.app import app
from catena.effects import Completion

MANUALS = {
    "hx200.md": "# HX200 Manual\n\n## Fuse\n\nThe fuse is rated 250 mA slow.\n\n## Cover\n\nTighten it to 1.8 N·m.\n",
    "hx210.md": "# HX210 Manual\n\n## Fuse\n\nThe fuse is rated 400 mA slow.\n\n## Cover\n\nTighten it to 2.4 N·m.\n",
}
NOWHERE = "Which fuse has the HX220?"
TOLD = "'HX220' stands nowhere in the documents; near it: HX200, HX210"


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    at_home(tmp_path, monkeypatch)
    for name, text in MANUALS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with catena.Library.open(tmp_path / "lib") as library:
        library.index([tmp_path / name for name in MANUALS])
    return tmp_path


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [*arguments, "-l", "lib"])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.mark.slow
@pytest.mark.parametrize("command", ["search", "ask"])
def test_a_name_that_stands_nowhere_is_the_answer(shelf, command):
    result = call(command, NOWHERE, code=1)
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"Error: nothing was found: {TOLD}",
        "Try: a name that is there, or --keep-neighbours for what is said of the others",
    ]
    found = json.loads(call(command, NOWHERE, "--json", code=1).stdout)
    assert found["hits"] == []
    assert found["unknown"] == [{"text": "HX220", "near": ["HX200", "HX210"]}]


def test_no_model_is_asked_about_a_name_that_stands_nowhere(shelf, monkeypatch):
    asked = []
    monkeypatch.setattr(openai_llm.OpenAILLM, "complete", lambda self, request: asked.append(request))
    assert TOLD in call("ask", NOWHERE, "--model", "m", "--base-url", "http://127.0.0.1:9/v1", code=1).stderr
    assert asked == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["search", "ask"])
def test_neighbours_are_shown_when_asked_for_and_the_name_is_still_said(shelf, command):
    result = call(command, NOWHERE, "--keep-neighbours")
    assert "Fuse" in result.stdout
    assert result.stderr == f"{TOLD}\n"
    found = json.loads(call(command, NOWHERE, "--keep-neighbours", "--json").stdout)
    assert found["hits"]
    assert found["unknown"][0]["text"] == "HX220"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["search", "ask"])
def test_a_comparison_with_a_name_that_stands_nowhere_says_so_and_answers_for_the_other(shelf, command):
    result = call(command, "Compare the fuses of the HX200 and the HX220", "-k", "1")
    assert "HX200 Manual › Fuse" in result.stdout
    assert result.stderr == f"{TOLD}\n"


def test_a_model_that_answers_is_told_which_name_stands_nowhere(shelf, monkeypatch):
    asked = []

    def complete(self, request):
        asked.append(request.prompt)
        return Completion(text="250 mA [1].")

    monkeypatch.setattr(openai_llm.OpenAILLM, "complete", complete)
    call("ask", "The fuses of HX200 and HX220?", "--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    assert f"- {TOLD}\n" in asked[0]


def test_each_product_of_a_comparison_has_its_share(shelf):
    found = json.loads(call("search", "fuse of HX200 and HX210", "-k", "2", "--json").stdout)
    assert [hit["chunk"]["document_id"] for hit in found["hits"]] == ["hx200.md", "hx210.md"]
    assert [hit["chunk"]["path"][-1] for hit in found["hits"]] == ["Fuse", "Fuse"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["search", "ask"])
def test_without_names_the_whole_question_is_ranked(shelf, command):
    found = json.loads(call(command, NOWHERE, "--no-names", "--json").stdout)
    assert found["hits"]
    assert found["unknown"] == []


@pytest.mark.slow
def test_a_name_that_only_the_caller_sees_is_looked_for(shelf):
    asked = ("search", "Which fuse has the Zephyr?", "--json")
    assert json.loads(call(*asked).stdout)["unknown"] == []
    assert json.loads(call(*asked, "--entity", "Zephyr").stdout)["unknown"] == [{"text": "Zephyr", "near": []}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--no-names", "--entity", "HX200"), "--entity is about them"),
        (("--no-names", "--keep-neighbours"), "--keep-neighbours is about them"),
        (("--route", "dense", "--no-names"), "where several routes are asked"),
        (("--figures", "--keep-neighbours"), "not for figures"),
    ],
)
def test_an_option_that_could_do_nothing_is_refused(shelf, options, told):
    assert told in call("search", NOWHERE, *options, code=2).stderr
