"""CatenaRetriever and the names in a question: shares, what stands nowhere, recognisers, tuned weights."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import replace
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_fakes import Events, ReplyingChatModel

from catena import Library
from catena.effects import Services
from catena.enrichment import ExpertDetector, ExpertTerms, RecognizerDetector
from catena.model import ModelMismatchError, ParameterError, Unknown
from catena.retrieval import CorpusStatistics, ScoreFusion, Tuned, adapted
from catena.testing.fakes import FakeRecognizer
from langchain_catena import CatenaRetriever

NAMES = ("HX200", "HX210", "HX220", "HX230")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("boards")
    for number, name in enumerate(NAMES):
        text = f"# {name} Manual\n\n## Power\n\nThe fuse holds {number + 2} A.\n\n## Cover\n\nTighten the screws.\n"
        (folder / f"{name.lower()}.md").write_text(text, encoding="utf-8")
    with Library.open(folder / "library") as opened:
        opened.index(sorted(folder.glob("*.md")))
        yield opened


@pytest.fixture
def retriever(library: Library) -> CatenaRetriever:
    return CatenaRetriever(library=library, k=4)


def titles(documents: list[Document]) -> list[str]:
    return [document.metadata["title"].split()[0] for document in documents]


COMPARE = "Which has the stronger fuse, the HX200 or the HX230?"
NOWHERE = "How strong is the fuse of the HX990?"


def test_each_name_in_a_question_has_its_share(library: Library, retriever: CatenaRetriever) -> None:
    found = retriever.invoke(COMPARE, k=2)
    assert sorted(titles(found)) == ["HX200", "HX230"]
    assert all("fuse holds" in document.page_content for document in found)
    ways = [way for document in found for way in document.metadata["catena"]["routes"]]
    assert {way["view"] for way in ways if way["route"] == "name"} == {"hx200", "hx230"}
    plain = CatenaRetriever(library=library, by_name=False).invoke(COMPARE)
    assert not any(way["route"] == "name" for d in plain for way in d.metadata["catena"]["routes"])


def test_a_name_that_stands_nowhere_gives_nothing_and_says_why(retriever: CatenaRetriever, caplog) -> None:
    events = Events()
    with caplog.at_level(logging.WARNING, "langchain_catena"):
        assert retriever.invoke(NOWHERE, {"callbacks": [events]}) == []
    (unknown,) = retriever.ranking(NOWHERE).unknown
    assert unknown.text == "HX990"
    assert set(unknown.near) == set(NAMES)
    assert events.seen == [("catena_unknown", {"text": "HX990", "near": unknown.near})]
    assert "'HX990' stands nowhere in the documents; near it: HX2" in caplog.text


async def test_the_same_in_async(retriever: CatenaRetriever) -> None:
    events, plain = Events(), retriever.invoke(COMPARE)
    rankings = retriever.ranking(NOWHERE), retriever.ranking(COMPARE, k=2)
    with blockbuster_ctx(["catena", "langchain_catena"]):
        assert await retriever.ainvoke(NOWHERE, {"callbacks": [events]}) == []
        assert await retriever.ainvoke(COMPARE) == plain
        assert (await retriever.aranking(NOWHERE), await retriever.aranking(COMPARE, k=2)) == rankings
    assert [name for name, _ in events.seen] == ["catena_unknown"]


def test_neighbours_are_kept_when_asked_for_and_say_what_is_missing(library: Library) -> None:
    found = CatenaRetriever(library=library, on_unknown="keep").invoke(NOWHERE)
    assert len(found) == 4
    (told,) = found[0].metadata["catena"]["unknown"]
    assert told["text"] == "HX990"
    half = CatenaRetriever(library=library).invoke("Which has the stronger fuse, the HX200 or the HX990?")
    assert titles(half)[0] == "HX200"
    assert [name["text"] for name in half[0].metadata["catena"]["unknown"]] == ["HX990"]


@pytest.mark.parametrize("whole_sections", [False, True])
def test_a_chain_that_sees_only_documents_can_be_told(library: Library, whole_sections: bool) -> None:
    teller = CatenaRetriever(library=library, k=1, tell_unknown=True, whole_sections=whole_sections)
    (told,) = teller.invoke(NOWHERE)
    assert told.page_content.startswith("'HX990' stands nowhere in the documents; near it: HX2")
    assert told.metadata["kind"] == "unknown"
    (known,) = teller.invoke("How strong is the fuse of the HX210?")
    assert known.metadata["kind"] == "text"
    assert len(teller.invoke("Which has the stronger fuse, the HX200 or the HX990?")) == 2


def test_names_that_the_caller_knows_go_with_the_question(library: Library, retriever: CatenaRetriever) -> None:
    question = "How strong is the fuse of the Osprey?"
    assert retriever.ranking(question).unknown == ()
    assert retriever.ranking(question, entities=["Osprey"]).unknown == (Unknown("Osprey"),)
    (first, *_) = retriever.invoke(question, entities=["Osprey"])
    assert first.metadata["catena"]["unknown"] == [{"text": "Osprey", "near": []}]
    fixed = CatenaRetriever(library=library, entities=("Osprey",))
    assert fixed.ranking(question).unknown == (Unknown("Osprey"),)
    assert fixed.ranking(question, entities=()).unknown == ()


def test_a_chat_model_finds_names_in_the_question(library: Library) -> None:
    model = ReplyingChatModel(reply=lambda _: json.dumps([["Osprey", "Invented"]]))
    retriever = CatenaRetriever(library=library, llm=model)
    ranking = retriever.ranking("How strong is the fuse of the Osprey?")
    assert [name.text for name in ranking.unknown] == ["Osprey"]
    assert [part.what for part in ranking.degraded] == ["language model at the question"]  # what it invented
    assert len(model.sent) == 1
    assert "Osprey" in model.sent[0][-1].text


async def test_a_chat_model_that_fails_costs_nothing_but_its_names(library: Library) -> None:
    def fails(_):
        time.sleep(0.001)  # would be noticed in the event loop
        raise ValueError("no such model")

    events = Events()
    retriever = CatenaRetriever(library=library, llm=ReplyingChatModel(reply=fails))
    with blockbuster_ctx(["catena", "langchain_catena"]):
        found = await retriever.ainvoke("fuse of the HX210", {"callbacks": [events]})
    assert titles(found)[0] == "HX210"
    assert "no such model" in found[0].metadata["catena"]["degraded"][0]
    assert [name for name, _ in events.seen] == ["catena_degraded"]


def test_other_detectors_find_names_too(library: Library) -> None:
    services = replace(library.services, recognizer=FakeRecognizer({"PRODUCT": ["Osprey"]}))
    detectors = (RecognizerDetector(), ExpertDetector(terms=ExpertTerms(["Kestrel"])))
    question = "Is the Osprey stronger than the Kestrel or the Merlin?"
    retriever = CatenaRetriever(services=services, detectors=detectors)
    assert {name.text for name in retriever.ranking(question).unknown} == {"Osprey", "Kestrel"}
    model = ReplyingChatModel(reply=lambda _: json.dumps([["Merlin"]]))
    with_model = CatenaRetriever(services=services, detectors=detectors, llm=model)
    assert {name.text for name in with_model.ranking(question).unknown} == {"Osprey", "Kestrel", "Merlin"}


def tuned(model: str) -> Tuned:
    weights = {"alpha": 0.2, "beta": 0.1, "adopted": True, "chosen": (0.2, 0.1), "usual": (0.65, 0.3)}
    sizes = {"k": None, "n": 8, "depth": 30, "questions": 4, "groups": 4, "left_out": 0}
    gains = {"held_out": 1.0, "held_out_usual": 0.5, "gain": 0.5, "interval": (0.4, 0.6), "detectable": 0.1}
    grid: dict[str, Any] = {"folds": (), "alphas": (0.2,), "betas": (0.1,), "surface": ((1.0,),)}
    return Tuned(objective="log-rank", model=model, **weights, **sizes, **gains, **grid)


def test_tuned_and_adapted_weights_decide(library: Library) -> None:
    model = library.services.embedder.identity
    by_tuning = CatenaRetriever(library=library, fusion=tuned(model))
    same = CatenaRetriever(library=library, fusion=ScoreFusion(alpha=0.2, beta=0.1))
    question = "strong fuse"
    assert by_tuning.invoke(question) == same.invoke(question)
    assert by_tuning.invoke(question) != CatenaRetriever(library=library).invoke(question)
    shape = CorpusStatistics.of(library.get(info.id) for info in library.documents())
    by_shape = CatenaRetriever(library=library, fusion=adapted(shape))
    assert by_shape.ranking(question) == library.search(question, k=4, fusion=adapted(shape))


def test_weights_tuned_with_another_model_are_refused_at_once(library: Library) -> None:
    with pytest.raises(ModelMismatchError, match="tuned with the model 'other'"):
        CatenaRetriever(library=library, fusion=tuned("other"))


def test_fields_can_be_configured_in_a_chain(retriever: CatenaRetriever) -> None:
    fields = {name: ConfigurableField(id=name) for name in ("k", "by_name", "on_unknown", "where", "fusion")}
    chain = retriever.configurable_fields(**fields) | RunnableLambda(titles)
    assert chain.invoke(NOWHERE) == []
    assert len(chain.invoke(NOWHERE, {"configurable": {"on_unknown": "keep", "k": 3}})) == 3
    assert chain.with_config(configurable={"where": {"title": "HX220 Manual"}}).invoke("fuse") == ["HX220", "HX220"]
    flat = {"configurable": {"fusion": ScoreFusion(alpha=0.0), "by_name": False}}
    assert chain.invoke("fuse of the HX210", flat)[0] == "HX210"


def test_bad_values_are_named(library: Library) -> None:
    with pytest.raises(ValueError, match="on_unknown"):
        CatenaRetriever(library=library, on_unknown="guess")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="detectors"):
        CatenaRetriever(library=library, detectors=("spacy",))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="k must be an integer >= 0"):
        CatenaRetriever(library=library).invoke("fuse", k=-1)


def test_services_without_names_search_on(library: Library) -> None:
    services = Services(embedder=library.services.embedder, store=library.store)
    found = CatenaRetriever(services=services).invoke("fuse of the HX210")
    assert titles(found)[0] == "HX210"
