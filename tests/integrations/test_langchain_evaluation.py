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

from catena.model import CatenaError, EvaluationError, ParameterError
from langchain_catena.evaluation import (
    evidence_evaluator,
    ids_of,
    log_rank_evaluator,
    mean_log_rank_evaluator,
    mean_recall_evaluator,
    mean_scope_recall_evaluator,
    mean_short_answer_evaluator,
    measure_evaluator,
    pairwise_evaluator,
    quote_evaluator,
    recall_evaluator,
    relevant_of,
    scope_recall_evaluator,
    short_answer_evaluator,
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


@pytest.mark.slow
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
def test_the_client_runs_measures_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
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
