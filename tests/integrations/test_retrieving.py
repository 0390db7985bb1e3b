"""Chunks found in both frameworks: names in the question, weights, failures, and any retriever as a route."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from adapter_faces import Refused, ids, told

from catena import Library
from catena.effects import Services
from catena.enrichment import ExpertDetector, ExpertTerms, RecognizerDetector
from catena.model import FilterError, ModelMismatchError, ParameterError, RouteError
from catena.retrieval import RankFusion, RoutedStore, ScoreFusion, Tuned
from catena.testing import FakeEmbedder, Flaky, Found
from catena.testing.fakes import FakeRecognizer, FakeStore

NAMES = ("HX200", "HX210", "HX240", "QT55", "QT60", "ZB7")
TEXT = "# {0} manual\n\n## Cover\n\nThe cover torque is {1} Nm.\n\n## Fuse\n\nIt has {1} fuses.\n"
BOTH = "Which has the greater cover torque, the HX200 or the QT55?"
HALF = "Which has the greater cover torque, the QT55 or the HX230?"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("manuals")
    for number, name in enumerate(NAMES):
        (folder / f"{name.lower()}.md").write_text(TEXT.format(name, number), encoding="utf-8")
    with Library.open(folder / "library", embedder=FakeEmbedder()) as opened:
        opened.index(sorted(folder.glob("*.md")))
        yield opened


def titles(found: list[Found]) -> list[str]:
    return [each.metadata["title"].removesuffix(" manual") for each in found]


def test_what_is_found_is_an_exact_slice_with_all_that_is_known_of_it(face: Any, library: Library) -> None:
    (best, *_) = face.ask(face.make("CatenaRetriever", library=library, k=3), "HX210 cover torque")
    assert best.metadata["citation"] == "HX210 manual › Cover, lines 3-5"
    assert best.metadata["title"] == "HX210 manual"
    assert (best.document_id, Path(best.metadata["source"]).name) == ("hx210.md", "hx210.md")
    assert set(best.routes) >= {"dense", "keyword", "lexical"}
    assert library.get("hx210.md").document.text[best.start : best.end] == best.text


def test_each_name_in_a_question_has_its_share(face: Any, library: Library) -> None:
    found = face.ask(face.make("CatenaRetriever", library=library, k=2), BOTH)
    assert sorted(titles(found)) == ["HX200", "QT55"]
    ways = [way for each in found for way in told(each)["routes"]]
    assert {way["view"] for way in ways if way["route"] == "name"} == {"hx200", "qt55"}
    plain = face.ask(face.make("CatenaRetriever", library=library, by_name=False), BOTH)
    assert not any("name" in each.routes for each in plain)


def test_a_name_that_stands_nowhere_is_told_in_the_log_and_with_what_is_found(
    face: Any, library: Library, caplog: Any
) -> None:
    with caplog.at_level(logging.WARNING):
        (*_, best) = [each for each in face.ask(face.make("CatenaRetriever", library=library, k=1), HALF)]
    assert titles([best]) == ["QT55"]
    assert [name["text"] for name in told(best)["unknown"]] == ["HX230"]
    assert "'HX230' stands nowhere in the documents; near it: HX2" in caplog.text
    keeping = face.make("CatenaRetriever", library=library, k=4, on_unknown="keep")
    kept = [each for each in face.ask(keeping, "Torque of the HX230?") if each.metadata["kind"] == "text"]
    assert len(kept) == 4


AURELIA = "Does the left gripper of the aurelia have a fuse?"  # with its capital it is a name without being told


def test_names_are_found_by_detectors_a_model_and_the_caller(face: Any, library: Library) -> None:
    def unknown(entities: Any = (), **how: Any) -> list[str]:
        made = face.make("CatenaRetriever", **{"library": library, **how})
        return [name.text.lower() for name in made.ranking(AURELIA, entities=entities).unknown]

    def listed(name: str) -> Any:
        return (ExpertDetector(terms=ExpertTerms([name])),)

    assert unknown() == unknown(detectors=listed("Borealis")) == []
    assert unknown(("Aurelia",)) == unknown(detectors=listed("Aurelia")) == ["aurelia"]
    assert unknown(llm=face.model(json.dumps([["aurelia", "Borealis"]]))) == ["aurelia"]
    services = replace(library.services, recognizer=FakeRecognizer({"PRODUCT": ["aurelia"]}))
    by_service = face.make("CatenaRetriever", services=services, detectors=(RecognizerDetector(),))
    assert [name.text.lower() for name in by_service.ranking(AURELIA).unknown] == ["aurelia"]


def test_a_model_that_fails_costs_nothing_but_its_names(face: Any, library: Library) -> None:
    def fails(prompt: str) -> str:
        raise Refused("no such model")

    found, heard = face.heard(
        face.make("CatenaRetriever", library=library, llm=face.model(fails)), "Torque of the HX210?"
    )
    assert titles(found)[0] == "HX210"
    assert ("no such model" in found[0].told[0], len(heard)) == (True, 1)


def tuned(model: str) -> Tuned:
    return Tuned(
        alpha=0.1, beta=0.4, adopted=True, chosen=(0.1, 0.4), usual=(0.2, 0.2), objective="log-rank", k=None, n=12,
        depth=10, questions=20, groups=6, left_out=0, held_out=0.9, held_out_usual=0.8, gain=0.1, interval=(0.0, 0.2),
        detectable=0.05, folds=(), alphas=(), betas=(), surface=(), model=model,
    )  # fmt: skip


def test_tuned_weights_are_those_of_the_model_that_is_searched_with(face: Any, library: Library) -> None:
    def ranking(fusion: Any) -> Any:
        return face.make("CatenaRetriever", library=library, fusion=fusion, by_name=False).ranking(BOTH)

    identity = library.services.embedder.identity  # type: ignore[union-attr]
    assert ranking(tuned(identity)) == ranking(ScoreFusion(alpha=0.1, beta=0.4)) != ranking(None)
    with pytest.raises(ModelMismatchError, match="other-model"):
        ranking(tuned("other-model"))


def test_a_failing_route_is_left_out_and_told_or_raises(face: Any, library: Library) -> None:
    embedder = Flaky(library.services.embedder, [Refused("no such model")] * 99)
    broken = {"services": Services(embedder=embedder, store=library.store)}
    found, heard = face.heard(face.make("CatenaRetriever", **broken), "HX210 cover torque")
    assert (titles(found)[0], heard) == ("HX210", ["route dense"])
    assert ["no such model" in said for said in found[0].told] == [True]
    with pytest.raises(RouteError, match=r"'dense' failed: .*no such model"):
        face.ask(face.make("CatenaRetriever", **broken, on_route_error="raise"), "HX210 cover torque")


# Any retriever as a route.


def over(face: Any, route: Any, **options: Any) -> Any:
    """Return what searches by a retriever, and beside it finds `b` by words."""
    beside = FakeStore({"lexical": [face.chunk(face.node("b", "b pump", "d"))]})
    services = Services(store=RoutedStore({"mine": route}, beside=beside))
    how: dict[str, Any] = {"routes": ("lexical", "mine"), "fusion": RankFusion(k=60, weights={}), **options}
    return face.make("CatenaRetriever", services=services, **how)


async def test_what_both_sides_find_under_one_id_is_one(face: Any) -> None:
    pieces = [face.piece(name, f"{name} pump", score) for name, score in (("a", 0.9), ("b", 0.4))]
    for retriever in (face.finding(*pieces), face.awaiting(*pieces)):
        searched = over(face, face.package.retriever_route(retriever))
        found = face.ask(searched, "pump")
        with face.unblocked():
            assert await face.aask(searched, "pump") == found
        scores = [("b", pytest.approx(1 / 61 + 1 / 62)), ("a", pytest.approx(1 / 61))]
        assert [(each.id, each.score) for each in found] == scores
        ways = {way["route"]: (way["rank"], way["score"]) for way in told(found[0])["routes"]}
        assert ways["mine"] == (2, 0.4)
    with pytest.raises(ParameterError, match="RankFusion"):
        face.ask(over(face, face.package.retriever_route(retriever), fusion=None), "pump")


def test_a_route_that_takes_no_filter_refuses_one_and_is_not_asked(face: Any) -> None:
    with pytest.raises(FilterError, match=r"takes no filter|filter inside the retriever"):
        face.ask(over(face, face.package.retriever_route(face.failing(Refused("asked"))), where={"page": 2}), "pump")


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
async def test_a_score_that_is_no_number_is_none_and_leaves_the_rank(face: Any, score: float) -> None:
    found = [face.piece(name, f"{name} is here.", told) for name, told in (("broken", score), ("sound", 0.5))]
    routes = {"odd": face.finding(*found), "sound": face.finding(face.piece("sound", "sound is here.", 0.9))}
    fused = face.package.CatenaRetriever.over(routes)
    assert ids(face.ask(fused, "cover")) == ids(await face.aask(fused, "cover")) == ["sound", "broken"]
