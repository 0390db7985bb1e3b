"""CatenaRetriever in LlamaIndex: cited hits with provenance, query engines, async, spans, failures told."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index_spans import listening

from catena import Library
from catena.effects import Services
from catena.model import FilterError, ParameterError, RouteError
from catena.retrieval import RankFusion
from catena.testing import FakeEmbedder, Flaky
from llama_index_catena import (
    CatenaRetriever,
    CatenaSegmentRetriever,
    LlamaIndexEmbedder,
    RouteDegradedEvent,
    retriever_store,
)
from llama_index_catena.convert import PROVENANCE, provenance
from llama_index_catena.services import CatenaEmbedding

MANUAL = """# {name} manual

## Mounting

### Cover

Tighten the cover screws to {torque} Nm.

### Tools

Use the supplied key for every screw of the cover.

## Fuses

The same sentence stands in every manual.
"""
SAME = "The same sentence stands in every manual."


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("manuals")
    for name, torque in (("HX200", "3.2"), ("HX210", "4.5")):
        (folder / f"{name.lower()}.md").write_text(MANUAL.format(name=name, torque=torque), encoding="utf-8")
    with Library.open(folder / "library", embedder=FakeEmbedder()) as opened:
        opened.index(sorted(folder.glob("*.md")))
        yield opened


def broken(library: Library) -> Services:
    """Return the library's services with an embedder that never works."""
    embedder = Flaky(library.services.embedder, [ValueError("no such model")] * 99)
    return Services(embedder=embedder, store=library.store)


def test_the_best_node_is_the_cores_best_chunk_with_all_that_is_known_of_it(library: Library) -> None:
    question = "HX210 cover screws torque"
    nodes = CatenaRetriever(library, similarity_top_k=3).retrieve(question)
    ranking = library.search(question, k=3)
    assert [(n.node_id, n.score, n.text) for n in nodes] == [
        (h.chunk.id, h.score, h.chunk.text) for h in ranking.hits
    ]
    best = nodes[0]
    assert best.metadata["citation"] == "HX210 manual › Mounting › Cover, lines 5-7"
    assert best.metadata["header_path"] == "/HX210 manual/Mounting/Cover/"
    assert (best.metadata["document_id"], best.node.ref_doc_id) == ("hx210.md", "hx210.md")
    assert best.metadata["title"] == "HX210 manual"
    assert best.metadata["source"].endswith("hx210.md")
    ways = provenance(best.node)["routes"]
    assert {way["route"] for way in ways} >= {"dense", "keyword", "lexical"}
    whole = library.get("hx210.md").document.text
    assert whole[best.node.start_char_idx : best.node.end_char_idx] == best.text


def test_models_do_not_read_provenance(library: Library) -> None:
    (best,) = CatenaRetriever(library, similarity_top_k=1).retrieve("HX210 cover screws torque")
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert PROVENANCE not in best.node.get_metadata_str(mode)
        assert "score" not in best.node.get_content(mode)
    assert "HX210 manual › Mounting › Cover" in best.node.get_content(MetadataMode.EMBED)
    assert all(isinstance(value, str | int | float | bool) for value in best.metadata.values())


def test_equal_texts_of_two_documents_stay_two_hits(library: Library) -> None:
    nodes = CatenaRetriever(library, similarity_top_k=10).retrieve(SAME)
    found = [n for n in nodes if SAME in n.text]
    assert sorted(n.metadata["document_id"] for n in found) == ["hx200.md", "hx210.md"]
    assert len({n.node_id for n in found}) == 2


def test_filters_routes_and_fusion_act(library: Library) -> None:
    only = CatenaRetriever(library, where={"title": "HX200 manual"}).retrieve("cover screws")
    assert {n.metadata["title"] for n in only} == {"HX200 manual"}
    (lexical, *_) = CatenaRetriever(library, routes=["lexical"]).retrieve("cover screws")
    assert {way["route"] for way in provenance(lexical.node)["routes"]} == {"lexical"}
    assert provenance(lexical.node)["scale"] == "similarity"
    (ranked, *_) = CatenaRetriever(library, fusion=RankFusion()).retrieve("cover screws")
    assert provenance(ranked.node)["scale"] == "rank"
    assert CatenaRetriever(library, similarity_top_k=0).retrieve("cover") == []


def test_fusion_weights_act(library: Library) -> None:
    """`frameworks.md` section 6: QueryFusionRetriever's weights change nothing."""

    def scores(dense: float) -> list[float | None]:
        fusion = RankFusion(weights={"dense": dense, "lexical": 1 - dense, "keyword": 0.0})
        return [n.score for n in CatenaRetriever(library, fusion=fusion).retrieve("cover screws torque")]

    assert scores(0.99) != scores(0.01)


def test_sections_are_returned_whole_and_once(library: Library) -> None:
    nodes = CatenaRetriever(library, similarity_top_k=10, expand_to="section").retrieve("cover screws")
    assert len({n.node_id for n in nodes}) == len(nodes)
    best = nodes[0]
    assert best.text.startswith("### ")
    hit = library.search("cover screws", k=10).hits[0]
    assert (best.score, provenance(best.node)["chunk_id"]) == (hit.score, hit.chunk.id)
    assert best.text == library.section(hit).text
    assert [n.score for n in nodes] == sorted((n.score for n in nodes), reverse=True)


def test_what_asks_for_the_impossible_is_refused_when_it_is_made(library: Library) -> None:
    with pytest.raises(ParameterError, match="expand_to must be 'section' or None, got 'page'"):
        CatenaRetriever(library, expand_to="page")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="expand_to must be None where the source is no Library"):
        CatenaRetriever(library.services, expand_to="section")


def test_a_failing_route_is_left_out_and_told(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    with listening() as told, caplog.at_level(logging.WARNING):
        nodes = CatenaRetriever(broken(library)).retrieve("HX210 cover screws")
    assert nodes[0].metadata["title"] == "HX210 manual"
    (event,) = [e for e in told.events if isinstance(e, RouteDegradedEvent)]
    assert (event.what, event.class_name()) == ("route dense", "RouteDegradedEvent")
    assert "no such model" in event.why
    assert provenance(nodes[0].node)["degraded"] == [{"what": "route dense", "why": event.why}]
    assert "route dense: " in caplog.text


async def test_a_failing_route_raises_on_request(library: Library) -> None:
    retriever = CatenaRetriever(broken(library), on_route_error="raise")
    with pytest.raises(RouteError, match="dense"):
        retriever.retrieve("cover")
    with pytest.raises(RouteError, match="dense"):
        await retriever.aretrieve("cover")


def test_a_malformed_filter_is_refused(library: Library) -> None:
    with pytest.raises(FilterError, match="unknown operator"):
        CatenaRetriever(library, where={"title": {"$like": "x"}}).retrieve("cover")


async def test_a_field_that_nothing_has_is_refused_as_by_the_library(library: Library) -> None:
    for kind in (CatenaRetriever, CatenaSegmentRetriever):
        retriever = kind(library, where={"titel": "HX200 manual"})
        with pytest.raises(FilterError, match="Did you mean 'title'"):
            retriever.retrieve("cover")
        with pytest.raises(FilterError, match="Did you mean 'title'"):
            await retriever.aretrieve("cover")


@pytest.mark.parametrize("expand_to", [None, "section"])
async def test_async_gives_the_same_without_blocking_the_loop(library: Library, expand_to: str | None) -> None:
    retriever = CatenaRetriever(library, expand_to=expand_to)  # type: ignore[arg-type]
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        nodes = await retriever.aretrieve("HX210 cover screws")
    assert nodes
    assert [n.to_dict() for n in nodes] == [n.to_dict() for n in retriever.retrieve("HX210 cover screws")]


async def test_a_query_engine_answers_from_cited_passages(library: Library) -> None:
    engine = RetrieverQueryEngine.from_args(CatenaRetriever(library, similarity_top_k=2), llm=MockLLM())
    with listening() as told:
        answer = engine.query("HX210 cover screws torque")
        again = await engine.aquery("HX210 cover screws torque")
    assert str(answer) == str(again)
    assert "citation: HX210 manual › Mounting › Cover, lines 5-7" in str(answer)
    assert "4.5 Nm" in answer.source_nodes[0].text
    assert told.ancestors("CatenaRetriever._retrieve")[0] == "CatenaRetriever.retrieve"
    assert "RetrieverQueryEngine.query" in told.ancestors("CatenaRetriever._retrieve")
    assert told.ancestors("CatenaRetriever._aretrieve")[0] == "CatenaRetriever.aretrieve"
    assert "RetrieverQueryEngine.aquery" in told.ancestors("CatenaRetriever._aretrieve")


async def test_the_models_own_spans_stand_inside_ours(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library", embedder=LlamaIndexEmbedder(CatenaEmbedding(FakeEmbedder()))) as library:
        (tmp_path / "a.md").write_text("# A\n\nText.", encoding="utf-8")
        library.index([tmp_path / "a.md"])
        with listening() as told:
            CatenaRetriever(library).retrieve("text")
            await CatenaRetriever(library).aretrieve("text")
    assert told.ancestors("CatenaEmbedding.get_query_embedding")[:2] == [
        "CatenaRetriever._retrieve",
        "CatenaRetriever.retrieve",
    ]
    assert told.ancestors("CatenaEmbedding.aget_query_embedding")[:2] == [
        "CatenaRetriever._aretrieve",
        "CatenaRetriever.aretrieve",
    ]


async def test_callbacks_hear_of_every_retrieval(library: Library) -> None:
    told = LlamaDebugHandler(print_trace_on_end=False)
    retriever = CatenaRetriever(library, similarity_top_k=1, callback_manager=CallbackManager([told]))
    retriever.retrieve("cover")
    await retriever.aretrieve("cover")
    pairs = told.get_event_pairs(CBEventType.RETRIEVE)
    assert [len(end.payload["nodes"]) for _, end in pairs] == [1, 1]


def test_hypothetical_answers_replace_the_query_on_the_dense_route_only(library: Library) -> None:
    asked: list[object] = library.services.embedder.calls  # type: ignore[union-attr]
    bundle = QueryBundle("cover", custom_embedding_strs=[SAME, SAME])
    del asked[:]
    (best, *_) = CatenaRetriever(library, routes=["dense"]).retrieve(bundle)
    assert asked == [SAME, SAME]
    assert SAME in best.text
    (lexical, *_) = CatenaRetriever(library, routes=["lexical"]).retrieve(bundle)
    assert "cover" in lexical.text
    assert bundle.custom_embedding_strs == [SAME, SAME]


def test_a_vector_of_unknown_origin_is_not_searched_with(library: Library) -> None:
    plain, given = QueryBundle("cover"), QueryBundle("cover", embedding=[1.0, 2.0])
    retriever = CatenaRetriever(library)
    assert [n.node_id for n in retriever.retrieve(given)] == [n.node_id for n in retriever.retrieve(plain)]


class Fixed(BaseRetriever):
    """A LlamaIndex retriever that returns what it was given, and remembers the thread that asked."""

    def __init__(self, nodes: list[NodeWithScore]) -> None:
        super().__init__()
        self.nodes, self.threads = nodes, list[threading.Thread]()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.threads.append(threading.current_thread())
        return self.nodes


def nodes_of(ids: str, **metadata: object) -> list[NodeWithScore]:
    return [
        NodeWithScore(node=TextNode(id_=i, text=f"text {i}", metadata=dict(metadata)), score=0.9 - place / 10)
        for place, i in enumerate(ids)
    ]


async def test_llama_index_retrievers_are_fused_by_node_id_and_left_as_they_are() -> None:
    """`frameworks.md` section 6: the built-in sums by hash, drops a copy, and overwrites the caller's scores."""
    one, other = Fixed(nodes_of("abc", route="one")), Fixed(nodes_of("bcd", route="other"))
    before = [n.to_dict() for n in (*one.nodes, *other.nodes)]
    services = Services(store=retriever_store({"one": one, "other": other}))
    retriever = CatenaRetriever(services, routes=["one", "other"], fusion=RankFusion())
    found = retriever.retrieve("q")
    assert [(n.node_id, n.score) for n in found] == [
        ("b", pytest.approx(1 / 62 + 1 / 61)),
        ("c", pytest.approx(1 / 63 + 1 / 62)),
        ("a", pytest.approx(1 / 61)),
        ("d", pytest.approx(1 / 63)),
    ]
    assert [n.to_dict() for n in (*one.nodes, *other.nodes)] == before
    assert [way["rank"] for way in provenance(found[0].node)["routes"]] == [2, 1]
    assert [n.to_dict() for n in await retriever.aretrieve("q")] == [n.to_dict() for n in found]
    assert threading.main_thread() not in one.threads[1:] + other.threads[1:]


def test_a_library_and_a_retriever_rank_together(library: Library) -> None:
    notes = Fixed(nodes_of("n"))
    store = retriever_store({"notes": notes}, beside=library.store)
    services = Services(embedder=library.services.embedder, store=store)
    retriever = CatenaRetriever(services, routes=["lexical", "dense", "notes"], fusion=RankFusion())
    found = {n.node_id: n for n in retriever.retrieve("cover screws")}
    assert {"route": "notes", "rank": 1, "score": 0.9, "view": "raw"} in provenance(found["n"].node)["routes"]
    assert any(n.metadata.get("title") for n in found.values())
    with pytest.raises(FilterError, match="'notes' takes no filter"):
        CatenaRetriever(services, routes=["notes"], where={"title": "x"}).retrieve("cover")


def test_provenance_is_json_that_any_store_can_hold(library: Library) -> None:
    (best,) = CatenaRetriever(library, similarity_top_k=1).retrieve("cover")
    assert json.loads(best.metadata[PROVENANCE]) == provenance(best.node)
