"""Every public LlamaIndex adapter keeps what the conformance suites ask; LlamaIndex's own fusion, for comparison."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from conformance_world import fingerprints_elsewhere
from llama_index.core.evaluation import BaseEvaluator
from llama_index.core.llms import MockLLM
from llama_index.core.question_gen.types import BaseQuestionGenerator
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import BaseNode
from llama_index_conformance_cases import CASES, QUERIES, World
from llama_index_instrumentation.base.event import BaseEvent

import llama_index_catena as adapters
from catena.testing import report_of_retriever
from catena.testing.ranking_conformance import report_of_fusion
from llama_index_catena.testing import fusion_subject, retriever_subject

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "conformance.md"
ROW = runpy.run_path(str(ROOT / "scripts" / "write_conformance.py"))["row"]

VALUES = (BaseEvent, BaseNode)  # what adapters tell and return
WRITERS = (BaseSynthesizer, BaseQuestionGenerator, BaseEvaluator)  # of answers, questions, verdicts: their own tests


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"), partial(blockbuster_ctx, ["catena", "llama_index_catena"]))
    yield made
    made.close()


@pytest.mark.parametrize("case", CASES)
def test_an_adapter_keeps_what_its_suite_asks(case: str, world: World) -> None:
    report = CASES[case](world)
    assert report.problems == ()
    assert report.subject == case
    assert ROW("LlamaIndex", report) in PAGE.read_text(encoding="utf-8"), "run scripts/write_conformance.py"


def adapter_classes() -> set[str]:
    """Names of the public classes that are LlamaIndex's kind."""
    public = {name: getattr(adapters, name) for name in adapters.__all__}
    return {
        name
        for name, found in public.items()
        if inspect.isclass(found)
        and any(base.__module__.startswith("llama_index.core") for base in found.__mro__)
        and not issubclass(found, (*VALUES, *WRITERS))
    }


def test_no_adapter_class_is_left_out() -> None:
    covered = {case.partition(",")[0] for case in CASES}
    assert adapter_classes() - covered == set()


IN_ANOTHER_PROCESS = ("CatenaNodeParser", "CatenaViewExtractor", "CatenaRetriever, retrievers")


@pytest.mark.slow
def test_ids_texts_and_scores_are_equal_in_another_process(world: World) -> None:
    printed = fingerprints_elsewhere("llama_index_conformance_cases", IN_ANOTHER_PROCESS)
    assert printed == [CASES[case](world).fingerprint for case in IN_ANOTHER_PROCESS]


# LlamaIndex's own fusion, for comparison: which checks it does not pass.


def by_rank(retrievers: list[BaseRetriever], weights: list[float]) -> QueryFusionRetriever:
    return QueryFusionRetriever(
        retrievers,
        llm=MockLLM(),
        mode="reciprocal_rerank",
        num_queries=1,
        retriever_weights=weights,
        similarity_top_k=10,
        use_async=False,
    )


def test_what_the_suite_finds_in_the_query_fusion_retriever() -> None:
    report = report_of_fusion(fusion_subject(by_rank))
    assert report.failed == (
        "weights act", "agreement", "equal texts", "inputs unchanged", "a failing route"
    )  # fmt: skip


def test_what_the_retriever_suite_finds_in_the_query_fusion_retriever(world: World) -> None:
    inner: list[BaseRetriever] = [world.index.as_retriever(similarity_top_k=4), world.waiting()]
    subject = retriever_subject(by_rank(inner, [0.5, 0.5]), QUERIES, documents=world.documents)
    failed = report_of_retriever(subject, blocking_detector=world.detector).failed
    assert failed == ("provenance", "no question")
