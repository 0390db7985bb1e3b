"""Every public adapter keeps what the conformance suites ask; the frameworks' own fusions, for comparison."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import langchain_conformance_cases as langchain
import llama_index_conformance_cases as llama_index
import pytest
from conformance_world import QUERIES, fingerprints_elsewhere
from langchain_classic.retrievers import EnsembleRetriever
from llama_index.core.evaluation import BaseEvaluator
from llama_index.core.llms import MockLLM
from llama_index.core.question_gen.types import BaseQuestionGenerator
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import BaseNode
from llama_index_instrumentation.base.event import BaseEvent

import langchain_catena.testing
import llama_index_catena.testing
from catena.testing import report_of_retriever
from catena.testing.ranking_conformance import report_of_fusion

pytestmark = pytest.mark.filterwarnings("ignore:.*(langchain-community|Swig|swig):DeprecationWarning")

ROOT = Path(__file__).resolve().parents[2]
FRAMEWORKS = {"LangChain": langchain, "LlamaIndex": llama_index}
BASES = {"LangChain": "langchain_core", "LlamaIndex": "llama_index.core"}
ELSEWHERE = ("DocumentStore",)  # langchain_tests has a suite of stores: test_langchain_slots.py
NO_ADAPTERS = (BaseEvent, BaseNode, BaseSynthesizer, BaseQuestionGenerator, BaseEvaluator)
"""What adapters tell and return; and writers of answers, questions, verdicts, which have tests of their own."""


@cache
def page() -> tuple[Any, str]:
    row = runpy.run_path(str(ROOT / "scripts" / "write_conformance.py"))["row"]
    return row, (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    made = {
        name: cases.World(tmp_path_factory.mktemp("world"), cases.World.face.unblocked)
        for name, cases in FRAMEWORKS.items()
    }
    yield made
    for world in made.values():
        world.close()


@pytest.mark.parametrize(
    ("framework", "case"),
    [
        pytest.param(name, case, marks=pytest.mark.slow if "Tree" in case and name == "LangChain" else ())
        for name, cases in FRAMEWORKS.items()
        for case in cases.CASES
    ],
)
def test_an_adapter_keeps_what_its_suite_asks(framework: str, case: str, worlds: dict[str, Any]) -> None:
    report = FRAMEWORKS[framework].CASES[case](worlds[framework])
    assert report.problems == ()
    assert report.subject == case
    row, text = page()
    assert row(framework, report) in text, "run scripts/write_conformance.py"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_adapter_class_is_left_out(framework: str) -> None:
    cases, package = FRAMEWORKS[framework], FRAMEWORKS[framework].World.face.package
    public = {name: getattr(package, name) for name in package.__all__}
    classes = {
        name
        for name, found in public.items()
        if inspect.isclass(found)
        and any(base.__module__.startswith(BASES[framework]) for base in found.__mro__)
        and not issubclass(found, NO_ADAPTERS)
    }
    covered = {case.partition(",")[0].partition(".")[0] for case in cases.CASES}
    assert classes - covered - {*ELSEWHERE} == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "names"),
    [
        ("LangChain", ["CatenaDocumentTransformer", "CatenaViewTransformer", "CatenaRetriever.over"]),
        ("LlamaIndex", ["CatenaNodeParser", "CatenaViewExtractor", "CatenaRetriever, retrievers"]),
    ],
)
def test_ids_texts_and_scores_are_equal_in_another_process(
    framework: str, names: list[str], worlds: dict[str, Any]
) -> None:
    module = FRAMEWORKS[framework]
    printed = fingerprints_elsewhere(module.__name__, names)
    assert printed == [module.CASES[case](worlds[framework]).fingerprint for case in names]


def ensemble(retrievers: list[Any], weights: list[float]) -> EnsembleRetriever:
    return EnsembleRetriever(retrievers=retrievers, weights=weights)


def query_fusion(retrievers: list[Any], weights: list[float]) -> QueryFusionRetriever:
    how: dict[str, Any] = {"mode": "reciprocal_rerank", "num_queries": 1, "use_async": False}
    return QueryFusionRetriever(retrievers, llm=MockLLM(), retriever_weights=weights, similarity_top_k=10, **how)


@pytest.mark.parametrize(
    ("testing", "fusion", "failed"),
    [
        (langchain_catena.testing, ensemble, ("scores", "equal texts", "twice in one route", "a failing route")),
        (
            llama_index_catena.testing,
            query_fusion,
            ("weights act", "agreement", "equal texts", "inputs unchanged", "a failing route"),
        ),
    ],
)
def test_what_the_suite_finds_in_the_frameworks_own_fusions(testing: ModuleType, fusion: Any, failed: Any) -> None:
    report = report_of_fusion(testing.fusion_subject(fusion))
    assert report.failed == failed
    assert any(problem.startswith("equal texts: two ids of equal text become one") for problem in report.problems)


@pytest.mark.parametrize(
    ("framework", "fusion", "failed"),
    [
        ("LangChain", ensemble, ("scores", "provenance", "k")),
        ("LlamaIndex", query_fusion, ("provenance", "no question")),
    ],
)
def test_what_the_retriever_suite_finds_in_them(
    framework: str, fusion: Any, failed: Any, worlds: dict[str, Any]
) -> None:
    world = worlds[framework]
    retriever = fusion([world.searching(4), world.searching()], [0.5, 0.5])
    subject = world.subject(
        retriever, QUERIES, None if framework == "LlamaIndex" else retriever, documents=world.documents
    )
    assert report_of_retriever(subject, blocking_detector=world.detector).failed == failed
