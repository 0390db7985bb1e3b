"""Further LangSmith evaluators: called by hand, by the real client offline, and as it compares two targets."""

from __future__ import annotations

import json
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
from langchain_catena.answer_evaluation import (
    evidence_evaluator,
    mean_scope_recall_evaluator,
    mean_short_answer_evaluator,
    measure_evaluator,
    pairwise_evaluator,
    quote_evaluator,
    scope_recall_evaluator,
    short_answer_evaluator,
)

TEXTS = {"a.md": "0123456789" * 2, "b.md": "abcdefghij"}


def piece(name: str, start: int, end: int) -> Document:
    place = {"document_id": name, "start_index": start, "end_index": end}
    return Document(id=f"{name}:{start}", page_content=TEXTS.get(name, "?" * 50)[start:end], metadata=place)


SCOPE = {"scope": [{"document_id": "a.md", "start": 5, "end": 15}, {"document_id": "b.md", "start": 0, "end": 10}]}
FOUND = {"documents": [piece("other.md", 0, 9), piece("a.md", 0, 10), piece("b.md", 0, 5), piece("b.md", 3, 10)]}


@pytest.mark.parametrize(("k", "recall"), [(1, 0.0), (2, 5 / 20), (3, 10 / 20), (4, 15 / 20), (1.5, 2.5 / 20)])
def test_scope_recall_counts_the_characters_of_the_evidence_once(k: float, recall: float) -> None:
    found = scope_recall_evaluator(TEXTS, k=k)(FOUND, SCOPE)
    assert (found["key"], found["score"]) == (f"scope_recall@{k:g}", pytest.approx(recall))
    assert scope_recall_evaluator(TEXTS.__getitem__, k=k)(FOUND, SCOPE) == found


def test_scope_recall_over_rows_leaves_out_what_has_no_evidence_and_counts_failures_as_zero() -> None:
    evaluator = mean_scope_recall_evaluator(TEXTS, k=4)
    found = evaluator([FOUND, {}, FOUND], [SCOPE, SCOPE, {"scope": []}])
    assert found["score"] == pytest.approx(0.375)
    assert "1 rows left out" in found["comment"]
    assert evaluator([FOUND], [{"scope": []}])["score"] is None
    assert scope_recall_evaluator(TEXTS, k=4)(FOUND, {"scope": []})["score"] is None


@pytest.mark.parametrize(
    ("outputs", "reference", "told"),
    [
        ({"docs": []}, SCOPE, "the target's outputs have no 'documents'"),
        ({"documents": []}, {"scop": []}, r"no 'scope' \(but \['scop'\]\)\. Did you mean 'scop'\?"),
        ({"documents": []}, {"scope": [{"start": 1}]}, "'scope' must hold mappings with"),
        ({"documents": [Document(page_content="x")]}, SCOPE, "does not say by document_id, start_index, end_index"),
    ],
)
def test_what_is_missing_is_named(outputs: Any, reference: Any, told: str) -> None:
    with pytest.raises(EvaluationError, match=told):
        scope_recall_evaluator(TEXTS, k=2)(outputs, reference)


def test_standard_measures_are_those_of_the_core() -> None:
    pytest.importorskip("ir_measures")
    reference = {"relevant": {"b": 2, "c": 1}}
    assert measure_evaluator("mrr@10")({"documents": ["a", "b"]}, reference)["score"] == pytest.approx(0.5)
    assert measure_evaluator("recall@2")({"documents": ["a", "b"]}, reference)["score"] == pytest.approx(0.5)
    assert measure_evaluator("ndcg@10", key="mine")({"documents": ["b", "c"]}, reference)["score"] == 1.0
    assert measure_evaluator("map")({"documents": ["b"]}, {"relevant": []})["score"] is None
    with pytest.raises(ParameterError, match="measure"):
        measure_evaluator("best")


def test_short_answers_have_three_scores_and_a_mean_with_its_interval() -> None:
    found = short_answer_evaluator()({"answer": "about the 4.5 Nm"}, {"answer": ["4.5 Nm", "4.5"]})
    scores = {each["key"]: each["score"] for each in found["results"]}
    assert scores == {"accuracy": 1.0, "exact_match": 0.0, "f1": pytest.approx(0.8)}
    assert {each["score"] for each in short_answer_evaluator()({"answer": None}, {"answer": "x"})["results"]} == {0.0}
    mean = mean_short_answer_evaluator(measure="exact_match")
    found = mean([{"answer": "the X"}, {"answer": "y"}, {}], [{"answer": "x"}] * 3)
    assert (found["key"], found["score"]) == ("mean_exact_match", pytest.approx(1 / 3))
    assert "2 unanswered" not in found["comment"]
    assert "1 unanswered" in found["comment"]


def judge(messages: list[Any]) -> str:
    shown = messages[-1].text
    first = shown.index("4.5") < shown.index("3.2") if "3.2" in shown else True
    scores = (9, 2) if first else (2, 9)
    return "It says the torque.\n" + json.dumps({"answer_1_score": scores[0], "answer_2_score": scores[1]})


INPUTS, REFERENCE = {"question": "Which torque?"}, {"answer": "It is so."}
SAID = [{"answer": "It is 3.2 Nm."}, {"answer": "It is 4.5 Nm."}]


async def test_a_judge_gives_the_point_to_the_better_answer_in_both_orders() -> None:
    model = ReplyingChatModel(reply=judge)
    evaluator = pairwise_evaluator(model)
    assert await evaluator(INPUTS, SAID, REFERENCE) == [0.0, 1.0]
    assert await evaluator(INPUTS, SAID[::-1], REFERENCE) == [1.0, 0.0]
    assert len(model.sent) == 4
    assert await evaluator(INPUTS, [SAID[0], SAID[0]], REFERENCE) == [0.5, 0.5]
    assert len(model.sent) == 4
    assert await pairwise_evaluator(ReplyingChatModel(reply=lambda _: "?"))(INPUTS, SAID, REFERENCE) == [None, None]
    with pytest.raises(EvaluationError, match="two targets are compared, got 1"):
        await evaluator(INPUTS, SAID[:1], REFERENCE)


def example() -> Example:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    reference = {**REFERENCE, **SCOPE}
    return Example(id=uuid.UUID(int=1), inputs=INPUTS, outputs=reference, dataset_id=uuid.UUID(int=2), created_at=now)


def test_langsmith_takes_it_as_a_comparison() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ids = [uuid.UUID(int=number) for number in (3, 4)]
    runs = [
        Run(id=name, name="x", start_time=now, run_type="chain", inputs=INPUTS, outputs=said, trace_id=name)
        for name, said in zip(ids, SAID, strict=True)
    ]
    done = comparison_evaluator(pairwise_evaluator(ReplyingChatModel(reply=judge))).compare_runs(runs, example())
    assert done.scores == {ids[0]: 0.0, ids[1]: 1.0}


@pytest.mark.filterwarnings("ignore:'upload_results' parameter is in beta")
def test_the_client_runs_them_without_uploading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    done = Client(api_key="none", api_url="http://127.0.0.1:9").evaluate(
        lambda inputs: {**FOUND, "answer": "It is so!"},
        data=[example()],
        evaluators=[scope_recall_evaluator(TEXTS, k=4), short_answer_evaluator()],
        summary_evaluators=[mean_scope_recall_evaluator(TEXTS, k=4), mean_short_answer_evaluator()],
        upload_results=False,
    )
    (row,) = list(done)
    scores = {each.key: each.score for each in row["evaluation_results"]["results"]}
    assert scores == {"scope_recall@4": 0.75, "accuracy": 1.0, "exact_match": 1.0, "f1": 1.0}
    summary = {each.key: each.score for each in done._summary_results["results"]}
    assert summary == {"mean_scope_recall@4": 0.75, "mean_f1": 1.0}


def test_evidence_of_several_hops_is_found_whole_or_not() -> None:
    outputs, reference = {"documents": ["a", "x", "b", "a"]}, {"relevant": ["a", "b"]}
    assert [evidence_evaluator(f"all@{k}")(outputs, reference)["score"] for k in (2, 3)] == [0.0, 1.0]
    found = evidence_evaluator("recall@2", key="hops")(outputs, reference)
    assert found == {"key": "hops", "score": 0.5, "comment": "2 pieces of evidence"}
    assert evidence_evaluator()({"documents": []}, reference)["score"] == 0.0
    assert evidence_evaluator()(outputs, {"relevant": []})["score"] is None
    for measure in ("best", "chain_order"):
        with pytest.raises(ParameterError, match="measure"):
            evidence_evaluator(measure)


ANSWER = 'It takes six screws [1]. It is grey [2].\n\nQuotes:\n[1] "takes six screws"\n[2] "The seal is black"'


def test_quotes_are_looked_up_in_what_the_model_was_given() -> None:
    texts = ["The cover takes six screws.", "The seal is grey."]
    wrong = quote_evaluator()({"answer": ANSWER, "documents": texts})
    assert (wrong["key"], wrong["score"]) == ("quotes", 0.5)
    assert "It is grey" in wrong["comment"]
    right = {"answer": ANSWER.replace("black", "grey"), "documents": [Document(page_content=text) for text in texts]}
    assert quote_evaluator()(right)["score"] == 1.0
    kept = {**right, "documents": [{"page_content": text} for text in texts]}
    assert quote_evaluator()(kept) == quote_evaluator()(right)
    said = {"answer": "Six [1].", "coverage": 0.25, "unsupported": ["Ten."]}  # of segment_answer_chain
    assert quote_evaluator()(said) == {"key": "quotes", "score": 0.25, "comment": "without a verified quote: Ten."}
    assert quote_evaluator()({"answer": ""})["score"] is None
    with pytest.raises(EvaluationError, match="page_content"):
        quote_evaluator()({"answer": ANSWER, "documents": [7]})
