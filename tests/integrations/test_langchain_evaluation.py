"""Ranking metrics, answers and judges as LangSmith evaluators."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_fakes import ReplyingChatModel
from langsmith import Client
from langsmith.evaluation.evaluator import comparison_evaluator
from langsmith.schemas import Example, Run

from catena.model import EvaluationError, ParameterError
from langchain_catena import evaluation

N = 1_000
RANKINGS = {"first": ["a", "b", "c"], "tenth": [*"bcdefghij", "a"], "lost": ["b", "c"], "nothing": []}
INDEX = {"first": 1.0, "tenth": 2 / 3, "lost": 0.0, "nothing": 0.0}  # at gamma 1: 1 - ln r / ln 1000
A = {"relevant": ["a"]}
NONE: dict[str, Any] = {"relevant": []}


def test_a_row_says_on_what_its_score_depends():
    found = evaluation.log_rank_evaluator(n=N)({"documents": ["a"]}, A)
    assert (found["key"], found["metadata"]["n"], found["metadata"]["gamma"]) == ("log_rank_index", N, 1.0)
    assert "gamma 1, N 1000" in found["comment"]
    expected = evaluation.log_rank_evaluator(n=N, unretrieved="expected")({"documents": ["b"]}, {"relevant": ["z"]})
    assert 0 < expected["score"] < 0.2
    graded = evaluation.measure_evaluator("ndcg@10", key="mine")(
        {"documents": ["b", "c"]}, {"relevant": {"b": 2, "c": 1}}
    )
    assert (graded["key"], graded["score"]) == ("mine", 1.0)
    hops = evaluation.evidence_evaluator("recall@2", key="hops")({"documents": ["a", "x"]}, {"relevant": ["a", "b"]})
    assert hops == {"key": "hops", "score": 0.5, "comment": "2 pieces of evidence"}


def test_documents_are_known_by_object_dict_or_id_and_count_once():
    one = Document(id="a", page_content="x")
    assert evaluation.ids_of({"documents": [one, {"id": "b", "type": "Document"}, "c", one]}) == ("a", "b", "c")
    assert evaluation.relevant_of({"gold": {"a": 2, "b": 0}}, "gold") == {"a"}
    recall = evaluation.recall_evaluator(k=2, documents="found", relevant="gold")
    found = recall({"found": ["b", "a", "c"]}, {"gold": ["a", "c"]})
    assert (found["key"], found["score"]) == ("recall@2", 0.5)


def test_summaries_count_failed_rows_as_zero_and_leave_undefined_ones_out():
    outputs, references = [{"documents": ["a"]}, {}, {"documents": ["b"]}], [A, A, NONE]
    index = evaluation.mean_log_rank_evaluator(n=N)(outputs, references)
    assert index["score"] == pytest.approx(0.5)
    assert "1 without a relevant piece" in index["comment"]
    assert "95% interval" in index["comment"]
    recall = evaluation.mean_recall_evaluator(k=1)(outputs, references)
    assert (recall["key"], recall["score"]) == ("mean_recall@1", 0.5)
    assert "1 rows left out" in recall["comment"]
    nothing = evaluation.mean_recall_evaluator(k=1)([{"documents": ["a"]}], [NONE])
    assert (nothing["score"], nothing["comment"][:34]) == (None, "no row has a relevant document; 1 ")
    recalled, evident = evaluation.recall_evaluator(k=1), evaluation.evidence_evaluator()
    for evaluator in (INDEXED, recalled, evident, evaluation.measure_evaluator("map")):
        assert evaluator({"documents": ["a"]}, NONE)["score"] is None


TEXTS = {"a.md": "0123456789" * 2, "b.md": "abcdefghij"}


def piece(name: str, start: int, end: int) -> Document:
    place = {"document_id": name, "start_index": start, "end_index": end}
    return Document(id=f"{name}:{start}", page_content=TEXTS.get(name, "?" * 50)[start:end], metadata=place)


SCOPE = {"scope": [{"document_id": "a.md", "start": 5, "end": 15}, {"document_id": "b.md", "start": 0, "end": 10}]}
FOUND = {"documents": [piece("other.md", 0, 9), piece("a.md", 0, 10), piece("b.md", 0, 5), piece("b.md", 3, 10)]}


INDEXED, SCOPED = evaluation.log_rank_evaluator(n=N), evaluation.scope_recall_evaluator(TEXTS, k=2)


@pytest.mark.parametrize(
    ("evaluator", "outputs", "reference", "told"),
    [
        (INDEXED, {"docs": []}, A, "the target's outputs have no 'documents'"),
        (INDEXED, {"documents": "a"}, A, "must be a list of documents or ids, got str"),
        (INDEXED, {"documents": [Document(page_content="x")]}, A, "has no id of type str"),
        (INDEXED, {"documents": ["a"]}, {"answer": "b"}, "the reference outputs have no 'relevant'"),
        (INDEXED, {"documents": ["a"]}, {"relevant": "a"}, "must be a list of ids or grades by id"),
        (evaluation.log_rank_evaluator(n=1), {"documents": ["a", "b"]}, A, "n"),
        (SCOPED, FOUND, {"scop": []}, r"no 'scope' \(but \['scop'\]\)\. Did you mean"),
        (SCOPED, FOUND, {"scope": [{"start": 1}]}, "'scope' must hold mappings with"),
        (SCOPED, {"documents": [1]}, SCOPE, "say by document_id, start_index, end_index"),
    ],
)
def test_what_cannot_be_judged_is_an_error_of_ours(evaluator: Any, outputs: Any, reference: Any, told: str):
    with pytest.raises(EvaluationError, match=told):
        evaluator(outputs, reference)


@pytest.mark.parametrize(
    "make",
    [
        lambda: evaluation.log_rank_evaluator(n=-1),
        lambda: evaluation.log_rank_evaluator(n=N, gamma=0),
        lambda: evaluation.recall_evaluator(k=0),
        lambda: evaluation.mean_recall_evaluator(k=1, level=1.0),
        lambda: evaluation.mean_log_rank_evaluator(n=N, unretrieved="best"),
        lambda: evaluation.evidence_evaluator("best"),
        lambda: evaluation.evidence_evaluator("chain_order"),
        lambda: evaluation.measure_evaluator("best"),
    ],
)
def test_parameters_are_checked_when_the_evaluator_is_made(make):
    with pytest.raises(ParameterError):
        make()


@pytest.mark.slow
def test_importing_the_module_imports_no_langsmith_evaluation():
    code = (
        "import sys, langchain_catena.evaluation; "
        "print([name for name in sys.modules if name.startswith('langsmith.evaluation')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(("k", "recall"), [(1, 0.0), (2, 5 / 20), (3, 10 / 20), (4, 15 / 20), (1.5, 2.5 / 20)])
def test_scope_recall_counts_the_characters_of_the_evidence_once(k: float, recall: float) -> None:
    found = evaluation.scope_recall_evaluator(TEXTS, k=k)(FOUND, SCOPE)
    assert (found["key"], found["score"]) == (f"scope_recall@{k:g}", pytest.approx(recall))
    assert evaluation.scope_recall_evaluator(TEXTS.__getitem__, k=k)(FOUND, SCOPE) == found
    assert evaluation.scope_recall_evaluator(TEXTS, k=k)(FOUND, {"scope": []})["score"] is None
    mean = evaluation.mean_scope_recall_evaluator(TEXTS, k=k)
    rows = mean([FOUND, {}, FOUND], [SCOPE, SCOPE, {"scope": []}])
    assert (rows["score"], "1 rows left out" in rows["comment"]) == (pytest.approx(recall / 2), True)
    assert mean([FOUND], [{"scope": []}])["score"] is None


def test_short_answers_have_three_scores_and_a_mean_with_its_interval() -> None:
    found = evaluation.short_answer_evaluator()({"answer": "about the 4.5 Nm"}, {"answer": ["4.5 Nm", "4.5"]})
    scores = {each["key"]: each["score"] for each in found["results"]}
    assert scores == {"accuracy": 1.0, "exact_match": 0.0, "f1": pytest.approx(0.8)}
    assert {
        each["score"] for each in evaluation.short_answer_evaluator()({"answer": None}, {"answer": "x"})["results"]
    } == {0.0}
    mean = evaluation.mean_short_answer_evaluator(measure="exact_match")
    found = mean([{"answer": "the X"}, {"answer": "y"}, {}], [{"answer": "x"}] * 3)
    assert (found["key"], found["score"]) == ("mean_exact_match", pytest.approx(1 / 3))
    assert "1 unanswered" in found["comment"]


ANSWER = 'It takes six screws [1]. It is grey [2].\n\nQuotes:\n[1] "takes six screws"\n[2] "The seal is black"'


def test_documents_in_which_quotes_are_looked_up_have_many_forms() -> None:
    texts = ["The cover takes six screws.", "The seal is grey."]
    for documents in ([Document(page_content=text) for text in texts], [{"page_content": text} for text in texts]):
        right = evaluation.quote_evaluator()({"answer": ANSWER.replace("black", "grey"), "documents": documents})
        assert right == {"key": "quotes", "score": 1.0, "comment": "every statement has a verified quote"}
    said = {"answer": "Six [1].", "coverage": 0.25, "unsupported": ["Ten."]}  # of segment_answer_chain
    assert evaluation.quote_evaluator()(said) == {
        "key": "quotes",
        "score": 0.25,
        "comment": "without a verified quote: Ten.",
    }
    assert evaluation.quote_evaluator()({"answer": ""})["score"] is None
    with pytest.raises(EvaluationError, match="page_content"):
        evaluation.quote_evaluator()({"answer": ANSWER, "documents": [7]})


# In LangSmith.

NOW = datetime(2026, 1, 1, tzinfo=UTC)
INPUTS, REFERENCE = {"question": "Which torque?"}, {"answer": "It is so."}
SAID = [{"answer": "It is 3.2 Nm."}, {"answer": "It is 4.5 Nm."}]


def example(number: int, inputs: Any, outputs: Any) -> Example:
    own = {"id": uuid.UUID(int=number), "dataset_id": uuid.UUID(int=1), "created_at": NOW}
    return Example(**own, inputs=inputs, outputs=outputs)


def judge(messages: list[Any]) -> str:
    shown = messages[-1].text
    first = shown.index("4.5") < shown.index("3.2") if "3.2" in shown else True
    scores = (9, 2) if first else (2, 9)
    return "It says the torque.\n" + json.dumps({"answer_1_score": scores[0], "answer_2_score": scores[1]})


def test_langsmith_takes_a_judge_as_a_comparison_of_two() -> None:
    ids = [uuid.UUID(int=number) for number in (3, 4)]
    runs = [
        Run(id=name, name="x", start_time=NOW, run_type="chain", inputs=INPUTS, outputs=said, trace_id=name)
        for name, said in zip(ids, SAID, strict=True)
    ]
    evaluator = evaluation.pairwise_evaluator(ReplyingChatModel(reply=judge))
    with pytest.raises(EvaluationError, match="two targets are compared, got 1"):
        asyncio.run(evaluator(INPUTS, SAID[:1], REFERENCE))
    compared = comparison_evaluator(evaluator)
    assert compared.compare_runs(runs, example(1, INPUTS, REFERENCE)).scores == {ids[0]: 0.0, ids[1]: 1.0}


def target(inputs: Any) -> Any:
    return {"documents": [Document(id=each, page_content=each) for each in RANKINGS[inputs["question"]]]}


async def atarget(inputs: Any) -> Any:
    return target(inputs)


@pytest.mark.filterwarnings("ignore:'upload_results' parameter is in beta")
def test_the_client_runs_them_without_uploading_and_under_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
        monkeypatch.setenv(name, "false")
    client = Client(api_key="unused", api_url="http://127.0.0.1:9")
    how: dict[str, Any] = {
        "data": [example(number, {"question": question}, A) for number, question in enumerate(RANKINGS, start=2)],
        "evaluators": [evaluation.log_rank_evaluator(n=N), evaluation.recall_evaluator(k=3)],
        "summary_evaluators": [evaluation.mean_log_rank_evaluator(n=N), evaluation.mean_recall_evaluator(k=3)],
        "upload_results": False,
    }

    async def go() -> Any:
        results = await client.aevaluate(atarget, **how)
        return [row async for row in results], results

    sync = client.evaluate(target, **how)
    for rows, results in ((list(sync), sync), asyncio.run(go())):
        scores = {
            row["example"].inputs["question"]: {each.key: each.score for each in row["evaluation_results"]["results"]}
            for row in rows
        }
        assert {name: values["log_rank_index"] for name, values in scores.items()} == pytest.approx(INDEX)
        assert [scores[question]["recall@3"] for question in RANKINGS] == [1.0, 0.0, 0.0, 0.0]
        summary = {each.key: each.score for each in results._summary_results["results"]}
        assert summary == pytest.approx({"mean_log_rank_index": (1 + 2 / 3) / 4, "mean_recall@3": 0.25})
    done = client.evaluate(
        lambda inputs: {**FOUND, "answer": "It is so!"},
        data=[example(1, INPUTS, {**REFERENCE, **SCOPE})],
        evaluators=[evaluation.scope_recall_evaluator(TEXTS, k=4), evaluation.short_answer_evaluator()],
        summary_evaluators=[
            evaluation.mean_scope_recall_evaluator(TEXTS, k=4),
            evaluation.mean_short_answer_evaluator(),
        ],
        upload_results=False,
    )
    (row,) = list(done)
    scores = {each.key: each.score for each in row["evaluation_results"]["results"]}
    assert scores == {"scope_recall@4": 0.75, "accuracy": 1.0, "exact_match": 1.0, "f1": 1.0}
    summary = {each.key: each.score for each in done._summary_results["results"]}
    assert summary == {"mean_scope_recall@4": 0.75, "mean_f1": 1.0}
