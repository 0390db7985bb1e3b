"""Ranking metrics in LlamaIndex's RetrieverEvaluator, sync and async, and by registered names."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY
from llama_index.core.schema import NodeWithScore, TextNode

from catena.model import EvaluationError, ParameterError
from llama_index_catena.evaluation import LogRankIndex, RecallAt, register_metrics

N = 1_000
RANKINGS = {"first": ["a", "b"], "tenth": [*"bcdefghij", "a"], "lost": ["b"], "nothing": [], "twice": ["b", "b", "a"]}
INDEX = {"first": 1.0, "tenth": 2 / 3, "lost": 0.0, "nothing": 0.0, "twice": 0.8997}


@pytest.fixture(autouse=True)
def loop():
    """Give the thread an event loop: LlamaIndex's `evaluate` takes the one that is there, and closes none."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield
    made.close()
    asyncio.set_event_loop(None)


class Scripted(BaseRetriever):
    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=TextNode(id_=each, text=each)) for each in RANKINGS[query_bundle.query_str]]


def evaluator(*metrics):
    return RetrieverEvaluator(metrics=list(metrics), retriever=Scripted())


@pytest.mark.parametrize("question", RANKINGS)
def test_the_evaluator_gives_the_index_also_where_nothing_was_retrieved(question):
    found = evaluator(LogRankIndex(n=N), RecallAt(k=3)).evaluate(question, expected_ids=["a"])
    assert found.metric_vals_dict["log_rank_index"] == pytest.approx(INDEX[question], abs=1e-4)
    assert found.metric_vals_dict["recall_at_k"] == float(question in {"first", "twice"})
    assert found.metric_dict["log_rank_index"].metadata["n"] == N
    assert found.metric_dict["recall_at_k"].metadata == {"k": 3}


def test_the_evaluator_gives_the_same_under_asyncio():
    async def go():
        judged = [evaluator(LogRankIndex(n=N)).aevaluate(question, expected_ids=["a"]) for question in RANKINGS]
        return [found.metric_vals_dict["log_rank_index"] for found in await asyncio.gather(*judged)]

    assert asyncio.run(go()) == pytest.approx(list(INDEX.values()), abs=1e-4)


def test_a_whole_dataset_is_judged_with_empty_results_in_it():
    scores = [evaluator(LogRankIndex(n=N)).evaluate(name, expected_ids=["a"]).metric_vals_dict for name in RANKINGS]
    assert sum(score["log_rank_index"] for score in scores) == pytest.approx(sum(INDEX.values()), abs=1e-3)


def test_gamma_and_the_policy_for_unretrieved_nodes_act():
    sharp = LogRankIndex(n=N, gamma=10).compute(expected_ids=["a"], retrieved_ids=["b", "a"])
    assert sharp.score == pytest.approx(0.740, abs=5e-4)
    assert sharp.metadata["gamma"] == 10
    tail = LogRankIndex(n=N, unretrieved="expected").compute(expected_ids=["z"], retrieved_ids=["a"])
    assert 0 < tail.score < 0.2
    assert (tail.metadata["n_unretrieved"], tail.metadata["unretrieved"]) == (1, "expected")


@pytest.fixture
def registry():
    kept = dict(METRIC_REGISTRY)
    yield METRIC_REGISTRY
    METRIC_REGISTRY.clear()
    METRIC_REGISTRY.update(kept)


def test_names_are_registered_when_asked_and_with_the_parameters_given(registry):
    assert "log_rank_index" not in registry
    register_metrics(n=N, gamma=10, k=1)
    named = RetrieverEvaluator.from_metric_names(["log_rank_index", "recall_at_k", "mrr"], retriever=Scripted())
    found = named.evaluate("tenth", expected_ids=["a"])
    assert found.metric_vals_dict["log_rank_index"] == pytest.approx(0.510, abs=5e-4)
    assert found.metric_vals_dict["recall_at_k"] == 0.0
    register_metrics(n=N)
    again = RetrieverEvaluator.from_metric_names(["log_rank_index"], retriever=Scripted())
    assert again.evaluate("tenth", expected_ids=["a"]).metric_vals_dict["log_rank_index"] == pytest.approx(2 / 3)


@pytest.mark.slow
def test_importing_the_module_leaves_the_registry_alone():
    code = (
        "import llama_index_catena.evaluation; "
        "from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY as known; "
        "print('log_rank_index' in known)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: LogRankIndex(n=-1),
        lambda: LogRankIndex(n=N, gamma=0),
        lambda: RecallAt(k=0),
        lambda: register_metrics(n=-1),
    ],
)
def test_parameters_are_checked_at_once(make, registry):
    with pytest.raises(ParameterError):
        make()
    assert "log_rank_index" not in registry


def test_a_query_without_expected_ids_is_refused():
    for metric in (LogRankIndex(n=N), RecallAt(k=1)):
        with pytest.raises(EvaluationError, match="expected ids"):
            metric.compute(expected_ids=[], retrieved_ids=["a"])


def test_an_n_below_the_nodes_named_is_refused():
    with pytest.raises(EvaluationError, match="too small"):
        LogRankIndex(n=1).compute(expected_ids=["a"], retrieved_ids=["a", "b"])
