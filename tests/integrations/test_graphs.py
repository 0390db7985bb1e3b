"""Graphs of a user's own passages: built and updated, walked after any retriever, and their chains for readers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from math import cos, radians
from pathlib import Path
from typing import Any

import pytest
from adapter_faces import FACES, Refused, ids, told
from drawn_graph import HOW, QUESTION, TEXTS, by_hand, nodes
from graph_fakes import FakeGraph
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_fakes import PASSAGES

from catena import Library
from catena.answering import ChainReading, chain_context
from catena.graph import ChunkGraph, GraphOptions
from catena.model import (
    MENTION,
    NAME,
    SEMANTIC,
    STRUCTURAL,
    Chain,
    LibraryError,
    ParameterError,
    ServiceError,
)  # fmt: skip
from catena.testing import FakeEmbedder, Found
from catena.testing.fakes import AngleEmbedder


class Away(FakeGraph):
    """A graph whose server is away."""

    def __init__(self) -> None:
        super().__init__([], {}, {})

    def nodes(self, request: Any) -> Any:
        raise Refused("the server is away")


def first(face: Any) -> list[Any]:
    return face.scored([nodes(face)[name] for name in "ad"], (0.9, 0.8))


def over(face: Any, kind: str = "CatenaGraphRetriever", **options: Any) -> Any:
    """Return what walks over the graph drawn by hand: a retriever, or a stage behind one."""
    own = {"retriever": face.finding(*first(face))} if kind == "CatenaGraphRetriever" else {}
    return face.make(kind, **{"graph": by_hand(face), "embeddings": AngleEmbedder(), "how": HOW, **own, **options})


def places(found: Found) -> Any:
    return told(found)["chains"]


# What is found, and what is said of it.


def test_the_graph_brings_what_the_retriever_did_not_find_with_the_reason_for_each_hop(face: Any) -> None:
    found = face.ask(over(face), QUESTION)
    assert ids(found) == ["a", "b", "c", "d"]
    assert [each.score for each in found] == [1.0, 1 / 2, 1 / 3, 1 / 4]
    assert [each.text for each in found] == list(TEXTS.values())
    seed, maker, town, lamp = found
    assert [(place["chain"], place["hop"], place["came_from"]) for place in places(seed)] == [(1, 1, "")]
    (hop,) = places(maker)
    assert hop["score"] == pytest.approx(cos(radians(20)), abs=1e-6)  # the question at 10 degrees, the maker at 30
    assert (hop["chain"], hop["hop"], hop["came_from"]) == (1, 2, "a")
    assert (hop["edges"], hop["shared"]) == ({SEMANTIC: 0.5, STRUCTURAL: 1.0}, {})
    (last,) = places(town)
    assert last["score"] == pytest.approx(cos(radians(50)), abs=1e-6)
    assert (last["came_from"], last["edges"], last["shared"]) == ("b", {NAME: 2.0}, {NAME: ["krona", "works"]})
    assert places(lamp) == []
    (way,) = told(lamp)["routes"]
    assert (way["route"], way["rank"], way["score"]) == (face.retriever, 2, 0.8)
    assert maker.routes == ("graph",)
    assert (told(seed)["scale"], maker.metadata["title"]) == ("rank", "B")
    assert json.loads(json.dumps(dict(seed.metadata))) == seed.metadata


def test_a_stage_behind_a_retriever_widens_what_was_found_in_the_same_way(face: Any) -> None:
    kind, expected = "CatenaChainCompressor", face.ask(over(face), QUESTION)
    found = face.process(over(face, kind), first(face), QUESTION)
    assert [(each.id, each.score, places(each)) for each in found] == [
        (each.id, each.score, places(each)) for each in expected
    ]
    assert ids(face.process(over(face, kind, k=2), first(face), QUESTION)) == ["a", "b"]
    assert face.process(over(face, kind), [], QUESTION) == []
    strangers = [face.piece(f"s{number}", f"Stranger {number}.", 0.5, n=number) for number in range(3)]
    mixed = face.process(over(face, kind), [strangers[0], first(face)[0], *strangers[1:]], QUESTION)
    assert ids(mixed) == ["a", "b", "c", "s0", "s1", "s2"]
    assert (mixed[3].text, mixed[3].metadata["n"], places(mixed[3])) == ("Stranger 0.", 0, [])


def test_a_walk_that_fails_leaves_the_first_ranking_and_is_told(face: Any, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING):
        found, heard = face.heard(over(face, graph=Away()), QUESTION)
    assert (ids(found), heard) == (["a", "d"], ["graph"])
    assert "the server is away" in caplog.text
    assert "the server is away" in found[0].told[0]
    assert places(found[0]) == []
    assert ids(face.process(over(face, "CatenaChainCompressor", graph=Away()), first(face), QUESTION)) == ["a", "d"]
    strict: dict[str, Any] = {"graph": Away(), "how": replace(HOW, on_graph_error="raise")}
    for ask in (
        lambda: face.ask(over(face, **strict), QUESTION),
        lambda: face.process(over(face, "CatenaChainCompressor", **strict), first(face), QUESTION),
        lambda: face.ask(over(face, graph=Away(), retriever=face.failing(Refused("gone"))), QUESTION),
    ):
        with pytest.raises(ServiceError, match="the server is away"):
            ask()


async def test_where_the_retriever_fails_the_graph_alone_is_asked_aloud(face: Any, caplog: Any) -> None:
    graph = face.package.build_graph([nodes(face)[name] for name in "abc"], AngleEmbedder())
    options = {"retriever": face.failing(Refused("api_key=abc is wrong")), "graph": graph}
    with caplog.at_level(logging.WARNING):
        found, heard = face.heard(over(face, **options), QUESTION)
    assert (found[0].id, heard) == ("a", ["retriever"])  # "pump" of the question stands there
    (said,) = found[0].told
    assert said.startswith("retriever: ")
    assert all("is wrong" in each and "abc" not in each for each in (said, caplog.text))
    with face.unblocked():
        assert ids(await face.aask(over(face, **options), QUESTION)) == ids(found)
    with pytest.raises(ServiceError, match="is wrong"):
        face.ask(over(face, **options, on_retriever_error="raise"), QUESTION)


@pytest.mark.parametrize("question", ["", " "])
def test_a_blank_question_finds_nothing_and_is_asked_of_no_retriever(face: Any, question: str) -> None:
    gone = face.failing(Refused("it was asked"))
    segments = face.make("CatenaSegmentRetriever", retriever=gone)
    for asked in (over(face, retriever=gone), segments, face.over({"gone": gone})):
        assert face.heard(asked, question) == ([], [])


@pytest.fixture(scope="module")
def manuals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """The bundled manuals, with their graph."""
    with Library.open(tmp_path_factory.mktemp("manuals") / "library") as opened:
        opened.index(sorted(Path(str(files("catena") / "data" / "demo")).glob("*.pdf")))
        opened.build_graph()
        yield opened


def test_any_retriever_over_a_library_is_widened_by_its_graph(face: Any, manuals: Library) -> None:
    asked = "Which fuse may be fitted in the HX210, and how tight is its cover?"
    base = face.make("CatenaRetriever", library=manuals, k=3)
    wider = face.make("CatenaGraphRetriever", library=manuals, retriever=base, k=5)
    expected, found = manuals.widen(asked, base.ranking(asked), k=5), face.ask(wider, asked)
    assert ids(found) == [hit.chunk.id for hit in expected.ranking.hits]
    assert [chain.hops for chain in wider.result(asked).chains] != []
    stage = face.make("CatenaChainCompressor", library=manuals, k=5)
    assert ids(face.process(stage, face.invoke(base, asked), asked)) == ids(found)
    assert {"lexical", "graph"} <= set(found[0].routes)
    assert all(each.metadata["citation"] and each.metadata["source"] for each in found)


async def test_a_library_without_a_graph_says_how_it_gets_one(face: Any, tmp_path: Path) -> None:
    with Library.open(tmp_path / "library", embedder=FakeEmbedder()) as library:
        made = face.make("CatenaGraphRetriever", library=library)
        behind = face.make("CatenaGraphRetriever", library=library, retriever=face.finding(*first(face)))
        stage = face.make("CatenaChainCompressor", library=library)
        for ask in (
            lambda: face.ask(made, "Torque?"),
            lambda: face.ask(behind, "Torque?"),
            lambda: face.process(stage, first(face), "Torque?"),
        ):
            with pytest.raises(LibraryError, match="build_graph"):
                ask()
        with pytest.raises(LibraryError, match="build_graph"):
            await face.aask(made, "Torque?")


# Chains for readers.


def hops(chains: Any) -> list[list[Any]]:
    return [[(h.chunk.id, h.score, h.came_from, h.edge, h.words) for h in chain.hops] for chain in chains]


def test_chains_come_out_of_what_was_found_as_the_walk_made_them_and_are_written_out(face: Any) -> None:
    retriever, read = over(face), face.package.format_chains
    found, chains = face.invoke(retriever, QUESTION), retriever.result(QUESTION).chains
    for given_back in (found, found[::-1]):
        (*walked, alone) = face.package.chains_of(given_back)
        assert hops(walked) == hops(chains)
        assert [(hop.chunk.id, hop.edge) for hop in alone.hops] == [("d", None)]
    for reading in (None, ChainReading(budget_tokens=30)):
        assert read(found, reading=reading) == chain_context(face.package.chains_of(found), reading).text
    assert read(found[::-1]) == read(found)
    assert 'Linked to passage 2: shared names "krona", "works"' in read(found)
    without = [found[0], *found[2:]]
    assert [[hop.chunk.id for hop in chain.hops] for chain in face.package.chains_of(without)] == [["a", "c"], ["d"]]
    assert "Linked" not in read(without)
    assert [ids_of(chain) for chain in face.package.chains_of(first(face))] == [["a"], ["d"]]
    assert read([]) == ""


def ids_of(chain: Chain) -> list[str]:
    return [each.id for each in chain.chunks]


# Building.


def passages(face: Any) -> list[Any]:
    """Return passages that say where in their documents they stand."""
    return [
        face.node(f"p{number}", text, title.lower(), title=title, position=number)
        for number, (title, text) in enumerate(PASSAGES)
    ]


def embedder() -> FakeEmbedder:
    return FakeEmbedder(dim=48)


def built(face: Any, given_nodes: Any, *more: Any) -> ChunkGraph:
    return face.package.build_graph(given_nodes, embedder(), *more)


def test_edges_are_those_that_the_passages_give_by_hand(face: Any) -> None:
    graph = built(face, passages(face))
    links = graph.links(STRUCTURAL)
    beside = zip(links.sources.tolist(), links.targets.tolist(), strict=True)
    assert {frozenset((graph.ids[one], graph.ids[other])) for one, other in beside} == {frozenset(("p0", "p1"))}
    assert graph.node("p0").titles == ("Arno Hale",)
    said = {("p0", "p2"): "Verdel", ("p2", "p3"): "Ombra", ("p0", "p4"): "Night Ferry"}
    for (one, other), name in said.items():
        edge, back = graph.edge(one, other), graph.edge(other, one)
        assert edge is not None
        assert back is not None
        assert edge.words[MENTION] == back.words["mentioned"] == (name,)


_numbers = st.sets(st.integers(0, len(PASSAGES) - 1))


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
@settings(max_examples=25)
@given(before=_numbers, added=_numbers, removed=_numbers)
def test_an_update_is_a_rebuild(face: Any, before: set[int], added: set[int], removed: set[int]) -> None:
    everything = passages(face)
    graph = built(face, [everything[number] for number in sorted(before)])
    gone = [f"p{number}" for number in sorted(removed & before)]
    changes = {"added": [everything[number] for number in added], "removed": gone}
    after = face.updated(graph, embedder(), **changes)
    left = (before - removed) | added
    assert after.identity == built(face, [everything[number] for number in left]).identity
    assert graph.identity == built(face, [everything[number] for number in sorted(before)]).identity


async def test_async_builds_the_same_graph_without_blocking(face: Any) -> None:
    options, changes = GraphOptions(neighbours=2), {"added": passages(face)[:1], "removed": ["p4"]}
    graph = built(face, passages(face), options)
    changed = face.updated(graph, embedder(), **changes)
    with face.unblocked():
        agraph = await face.package.abuild_graph(passages(face), embedder(), options)
        achanged = await face.updated(agraph, embedder(), "aupdate_graph", **changes)
    assert (agraph.identity, achanged.identity) == (graph.identity, changed.identity)
    assert agraph.options == options


def test_what_is_no_list_of_passages_is_refused_by_name(face: Any) -> None:
    graph = built(face, passages(face))
    for wrong in ("a text", ["a text"], passages(face)[0]):
        with pytest.raises(ParameterError, match=r"^(documents|nodes) "):
            built(face, wrong)
    for changes, match in (
        ({"removed": "p0"}, "^removed "),
        ({"added": passages(face)[0]}, "^added "),
        ({"removed": ["nowhere"]}, "nowhere"),
    ):
        with pytest.raises(ParameterError, match=match):
            face.updated(graph, embedder(), **changes)
    with pytest.raises(ParameterError, match="p0"):
        built(face, [*passages(face), passages(face)[0]])
    assert len(built(face, [])) == 0
