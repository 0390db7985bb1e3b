"""The answers of `catena-bench graph --llm`: what each way gives a model to read, and how its replies are counted."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest
from bench_graph_case import PASSAGES, QUESTIONS, Letters, scorer_by_hand, write, write_split
from typer.testing import CliRunner, Result

from catena.backends import OpenAILLM
from catena.effects import Services
from catena.model import ParameterError
from catena.testing import ChatServer
from catena.testing.chat_server import Body
from catena_bench import graph
from catena_bench import graph as graph_answers
from catena_bench.graph_cli import app

ANSWERS = {"q1": ["Ines Holm"], "q2": ["botany"], "q3": ["two brothers"], "q4": ["Kvarg", "fresh cheese"]}
WAYS = ["no_retrieval", "hybrid", "chain", "iterative", "shuffled", "golden"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One split with answers, and a question nobody knows the answer of, which is not asked."""
    data = tmp_path / "ferries"
    write_split(data)
    rows = [
        {"id": name, "question": text, "supporting": supporting, "answers": ANSWERS[name]}
        for name, (text, supporting) in QUESTIONS.items()
    ]
    write(data, "dev_questions", [*rows, {"id": "q5", "question": "Which river?", "supporting": ["river"]}])
    return data


@pytest.fixture
def scorer(tmp_path: Path) -> Path:
    scorer_by_hand().save(tmp_path / "scorer.safetensors")
    return tmp_path / "scorer.safetensors"


def reader(body: Body) -> str:
    """Answer from what is read alone: what stands there is known, nothing else; from nothing, a guess."""
    system, prompt = body["messages"][0]["content"], body["messages"][-1]["content"]
    if "there is no document" in system:
        return "Kvarg"
    found = next((name for name, (text, _) in QUESTIONS.items() if f"Question: {text}" in prompt), "")
    return next((answer for answer in ANSWERS[found] if answer in prompt.split("Question:")[0]), "NOT ANSWERABLE")


def command(folder: Path, scorer: Path, server: ChatServer, journal: Path, *more: str) -> Result:
    given = ["--data", str(folder), "--methods", "hybrid", "--scorer", str(scorer), "--llm", "m"]
    return CliRunner().invoke(app, [*given, "--base-url", server.url, "--journal", str(journal), *more])


@pytest.mark.slow
def test_a_model_answers_in_six_ways_and_is_paid_once(folder: Path, scorer: Path, tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with ChatServer(reader) as server:
        planned = command(folder, scorer, server, journal, "--plan", "--price-in", "1")
        assert planned.exit_code == 0, planned.output
        assert server.bodies == []
        assert not journal.exists()
        result = command(folder, scorer, server, journal)
        assert result.exit_code == 0, result.output
        asked = len(server.bodies)
        again = command(folder, scorer, server, journal)
        assert len(server.bodies) == asked <= 6 * 4  # equal requests are asked once
    figures = json.loads(result.stdout)
    assert json.loads(again.stdout)["f1.chain"] == figures["f1.chain"]
    plan = json.loads(planned.stdout)
    assert all(plan[f"plan.{way}.calls"] == 4 for way in WAYS)
    assert plan["plan.golden.cost_at_most"] > 0
    assert (figures["about.model"], figures["n_answerable"], figures["n_questions"]) == ("m", 4, 5)
    assert figures["exact_match.no_retrieval"] == 25  # Kvarg, by luck
    assert figures["exact_match.golden"] == 100
    assert figures["n_unanswered.golden"] == figures["n_failed.golden"] == 0
    assert figures["exact_match.chain"] == figures["exact_match.shuffled"] == figures["exact_match.iterative"]
    assert {"accuracy.low.chain", "f1.high.hybrid", "difference.f1.chain-shuffled.p_holm"} <= figures.keys()
    assert figures["difference.f1.golden-chain"] == pytest.approx(figures["f1.golden"] - figures["f1.chain"])
    assert figures["tokens_in"] > figures["tokens_out"] > 0


def test_formats_hold_the_same_passages_and_gold_holds_the_evidence(folder: Path) -> None:
    read: dict[str, list[set[str]]] = defaultdict(list)

    def noting(step_of: str, asked: Sequence[str]) -> None:
        for prompt in asked:
            read[step_of].append({name for name, (_, text) in PASSAGES.items() if text in prompt})

    with ChatServer(lambda body: "x") as server, OpenAILLM("m", api_key="none", base_url=server.url) as llm:
        told: list[str] = []

        def tell(message: str) -> None:
            """Cut what the server was asked where the next way begins."""
            if message.startswith("answering: "):
                if told:
                    noting(told[-1], server.prompts)
                    server.bodies.clear()
                told.append(message.removeprefix("answering: "))

        figures = graph.run(
            folder,
            embedder=Letters(),
            methods=["hybrid"],
            scorer=scorer_by_hand(),
            answers=lambda setting: graph_answers.answered(setting, Services(llm=llm, max_concurrency=1)),
            tell=tell,
        )
        noting(told[-1], server.prompts)
    assert told == WAYS
    assert read["no_retrieval"] == [set()] * 4
    assert read["golden"] == [set(supporting) for _, supporting in QUESTIONS.values()]
    assert all(len(held) == 5 for held in read["hybrid"])
    assert read["chain"] == read["iterative"] == read["shuffled"]
    assert all(len(held) == 5 for held in read["chain"])
    assert figures["f1.golden"] == 0


@pytest.mark.slow
def test_what_is_missing_is_said(folder: Path, scorer: Path, tmp_path: Path) -> None:
    without = CliRunner().invoke(app, ["--data", str(folder), "--methods", "bm25", "--plan"])
    assert (without.exit_code, "--llm NAME" in without.output) == (2, True)
    write_split(folder)  # without answers
    with ChatServer(reader) as server:
        result = command(folder, scorer, server, tmp_path / "journal.db")
        assert (result.exit_code, server.bodies) == (2, [])
    assert "answers" in result.output
    with pytest.raises(ParameterError, match="answers"):
        graph.run(
            folder,
            embedder=Letters(),
            methods=["bm25"],
            answers=lambda setting: graph_answers.answered(setting, Services()),
        )
