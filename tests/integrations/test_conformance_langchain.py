"""Every public LangChain adapter keeps what the conformance suites ask; LangChain's own fusion, for comparison."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from conformance_world import fingerprints_elsewhere
from langchain_classic.retrievers import EnsembleRetriever
from langchain_conformance_cases import CASES, QUERIES, World
from langchain_core.retrievers import BaseRetriever

import langchain_catena as adapters
from catena.testing import report_of_retriever
from catena.testing.ranking_conformance import report_of_fusion
from langchain_catena.testing import fusion_subject, retriever_subject

pytestmark = pytest.mark.filterwarnings("ignore:.*(langchain-community|Swig|swig):DeprecationWarning")

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "conformance.md"
ROW = runpy.run_path(str(ROOT / "scripts" / "write_conformance.py"))["row"]

FRAMEWORK = "langchain_core"
ELSEWHERE = {"DocumentStore"}  # langchain_tests has a suite of stores: test_langchain_slots.py


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"), partial(blockbuster_ctx, ["catena", "langchain_catena"]))
    yield made
    made.close()


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if "Tree" in case else case for case in CASES]
)
def test_an_adapter_keeps_what_its_suite_asks(case: str, world: World) -> None:
    report = CASES[case](world)
    assert report.problems == ()
    assert report.subject == case
    assert ROW("LangChain", report) in PAGE.read_text(encoding="utf-8"), "run scripts/write_conformance.py"


def adapter_classes() -> set[str]:
    """Names of the public classes that are LangChain's kind."""
    public = {name: getattr(adapters, name) for name in adapters.__all__}
    return {
        name
        for name, found in public.items()
        if inspect.isclass(found) and any(base.__module__.startswith(FRAMEWORK) for base in found.__mro__)
    }


def test_no_adapter_class_is_left_out() -> None:
    covered = {case.partition(",")[0].partition(".")[0] for case in CASES} | ELSEWHERE
    assert adapter_classes() - covered == set()


IN_ANOTHER_PROCESS = ("CatenaDocumentTransformer", "CatenaViewTransformer", "CatenaRetriever.over")


@pytest.mark.slow
def test_ids_texts_and_scores_are_equal_in_another_process(world: World) -> None:
    printed = fingerprints_elsewhere("langchain_conformance_cases", IN_ANOTHER_PROCESS)
    assert printed == [CASES[case](world).fingerprint for case in IN_ANOTHER_PROCESS]


# LangChain's own fusion, for comparison: which checks it does not pass.


def ensemble(retrievers: list[BaseRetriever], weights: list[float]) -> EnsembleRetriever:
    return EnsembleRetriever(retrievers=retrievers, weights=weights)


def test_what_the_suite_finds_in_the_ensemble_retriever() -> None:
    report = report_of_fusion(fusion_subject(ensemble))
    assert report.failed == ("scores", "equal texts", "twice in one route", "a failing route")
    assert "equal texts: two ids of equal text become one" in report.problems


def test_what_the_retriever_suite_finds_in_the_ensemble_retriever(world: World) -> None:
    inner = [world.store.as_retriever(search_kwargs={"k": 4}), world.store.as_retriever(search_kwargs={"k": 6})]
    subject = retriever_subject(ensemble(list(inner), [0.5, 0.5]), QUERIES)
    failed = report_of_retriever(subject, blocking_detector=world.detector).failed
    assert failed == ("scores", "provenance", "k")
