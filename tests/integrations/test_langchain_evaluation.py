"""Ranking metrics as LangSmith evaluators, called by hand and by the real client, which uploads nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from datetime import UTC, datetime

import pytest
from langchain_core.documents import Document

from catena.model import CatenaError, EvaluationError, ParameterError
from langchain_catena.evaluation import (
    ids_of,
    log_rank_evaluator,
    mean_log_rank_evaluator,
    mean_recall_evaluator,
    recall_evaluator,
    relevant_of,
)

N = 1_000
RANKINGS = {"first": ["a", "b", "c"], "tenth": [*"bcdefghij", "a"], "lost": ["b", "c"], "nothing": []}
INDEX = {"first": 1.0, "tenth": 2 / 3, "lost": 0.0, "nothing": 0.0}  # at gamma 1: 1 - ln r / ln 1000


def documents(ids):
    return [Document(id=each, page_content=each) for each in ids]


def target(inputs):
    return {"documents": documents(RANKINGS[inputs["question"]])}


@pytest.mark.parametrize("question", RANKINGS)
def test_a_row_gives_the_index_of_the_core_with_what_it_depends_on(question):
    found = log_rank_evaluator(n=N)(target({"question": question}), {"relevant": ["a"]})
    assert found["score"] == pytest.approx(INDEX[question])
    assert (found["key"], found["metadata"]["n"], found["metadata"]["gamma"]) == ("log_rank_index", N, 1.0)
    assert "gamma 1, N 1000" in found["comment"]


def test_gamma_and_the_policy_for_unretrieved_documents_act():
    outputs, reference = {"documents": ["b", "a"]}, {"relevant": ["a"]}
    assert log_rank_evaluator(n=N, gamma=10)(outputs, reference)["score"] == pytest.approx(0.740, abs=5e-4)
    lost = {"relevant": ["z"]}
    assert log_rank_evaluator(n=N)(outputs, lost)["score"] == 0.0
    assert 0 < log_rank_evaluator(n=N, unretrieved="expected")(outputs, lost)["score"] < 0.2


def test_documents_are_known_by_object_dict_or_id_and_count_once():
    one = Document(id="a", page_content="x")
    assert ids_of({"documents": [one, {"id": "b", "type": "Document"}, "c", one]}) == ("a", "b", "c")
    assert relevant_of({"gold": {"a": 2, "b": 0}}, "gold") == {"a"}
    found = recall_evaluator(k=2, documents="found", relevant="gold")(
        {"found": ["b", "a", "c"]}, {"gold": ["a", "c"]}
    )
    assert (found["key"], found["score"]) == ("recall@2", 0.5)


def test_a_row_without_relevant_documents_has_no_score():
    assert log_rank_evaluator(n=N)({"documents": ["a"]}, {"relevant": []})["score"] is None
    assert recall_evaluator(k=1)({"documents": ["a"]}, {"relevant": []})["score"] is None


def test_summaries_count_failed_rows_as_zero_and_leave_undefined_ones_out():
    outputs = [{"documents": ["a"]}, {}, {"documents": ["b"]}]
    references = [{"relevant": ["a"]}, {"relevant": ["a"]}, {"relevant": []}]
    index = mean_log_rank_evaluator(n=N)(outputs, references)
    assert index["score"] == pytest.approx(0.5)
    assert "1 without a relevant piece" in index["comment"]
    assert "95% interval" in index["comment"]
    recall = mean_recall_evaluator(k=1)(outputs, references)
    assert (recall["key"], recall["score"]) == ("mean_recall@1", 0.5)
    assert "1 rows left out" in recall["comment"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: log_rank_evaluator(n=N)({"docs": []}, {"relevant": ["a"]}),
        lambda: log_rank_evaluator(n=N)({"documents": "a"}, {"relevant": ["a"]}),
        lambda: log_rank_evaluator(n=N)({"documents": [Document(page_content="no id")]}, {"relevant": ["a"]}),
        lambda: log_rank_evaluator(n=N)({"documents": ["a"]}, {"answer": "b"}),
        lambda: log_rank_evaluator(n=N)({"documents": ["a"]}, {"relevant": "a"}),
        lambda: log_rank_evaluator(n=1)({"documents": ["a", "b"]}, {"relevant": ["a"]}),
    ],
)
def test_what_cannot_be_judged_is_an_error_of_ours(call):
    with pytest.raises(EvaluationError):
        call()


@pytest.mark.parametrize(
    "make",
    [
        lambda: log_rank_evaluator(n=-1),
        lambda: log_rank_evaluator(n=N, gamma=0),
        lambda: recall_evaluator(k=0),
        lambda: mean_recall_evaluator(k=1, level=1.0),
        lambda: mean_log_rank_evaluator(n=N, unretrieved="best"),
    ],
)
def test_parameters_are_checked_when_the_evaluator_is_made(make):
    with pytest.raises(ParameterError):
        make()
    assert issubclass(ParameterError, CatenaError)


def test_importing_the_module_imports_no_langsmith_evaluation():
    code = (
        "import sys, langchain_catena.evaluation; "
        "print([name for name in sys.modules if name.startswith('langsmith.evaluation')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.fixture
def client(monkeypatch):
    langsmith = pytest.importorskip("langsmith")
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
        monkeypatch.setenv(name, "false")
    return langsmith.Client(api_key="unused", api_url="http://127.0.0.1:9")


@pytest.fixture
def examples():
    from langsmith.schemas import Example

    now = datetime(2026, 1, 1, tzinfo=UTC)
    dataset = uuid.UUID(int=1)
    return [
        Example(
            id=uuid.UUID(int=number), dataset_id=dataset, created_at=now,
            inputs={"question": question}, outputs={"relevant": ["a"]},
        )
        for number, question in enumerate(RANKINGS, start=2)
    ]  # fmt: skip


EVALUATORS = [log_rank_evaluator(n=N), recall_evaluator(k=3)]
SUMMARIES = [mean_log_rank_evaluator(n=N), mean_recall_evaluator(k=3)]


def judged(rows):
    found = {}
    for row in rows:
        values = {result.key: result.score for result in row["evaluation_results"]["results"]}
        found[row["example"].inputs["question"]] = values
    return found


def summarised(results):
    return {result.key: result.score for result in results._summary_results["results"]}


def check(found, summary):
    assert {question: values["log_rank_index"] for question, values in found.items()} == pytest.approx(INDEX)
    assert [found[question]["recall@3"] for question in RANKINGS] == [1.0, 0.0, 0.0, 0.0]
    assert summary == pytest.approx({"mean_log_rank_index": (1 + 2 / 3) / 4, "mean_recall@3": 0.25})


@pytest.mark.filterwarnings("default")
def test_the_client_runs_them_without_uploading(client, examples):
    results = client.evaluate(
        target, data=examples, evaluators=EVALUATORS, summary_evaluators=SUMMARIES, upload_results=False
    )
    check(judged(results), summarised(results))


@pytest.mark.filterwarnings("default")
def test_the_client_runs_them_under_asyncio(client, examples):
    async def atarget(inputs):
        return target(inputs)

    async def go():
        results = await client.aevaluate(
            atarget, data=examples, evaluators=EVALUATORS, summary_evaluators=SUMMARIES, upload_results=False
        )
        return [row async for row in results], results

    rows, results = asyncio.run(go())
    check(judged(rows), summarised(results))
