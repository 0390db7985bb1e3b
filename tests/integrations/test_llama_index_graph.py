"""CatenaGraphRetriever and CatenaChainPostprocessor: chains after any retriever, over fakes, an index, a library."""

from __future__ import annotations

import json
import logging
import pickle
from copy import deepcopy
from dataclasses import replace
from math import cos, radians
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blockbuster import blockbuster_ctx
from graph_fakes import FakeGraph
from llama_index.core import Document
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index_graphs import HOW, QUESTION, TEXTS, Finding, graph, nodes
from llama_index_spans import listening
from llama_index_views import Counted, index_of

from catena import FilterError, Journal, Library, ParameterError, Services, run
from catena.answering import ChainReading
from catena.effects import Embed, ask
from catena.graph import GraphSearch, SimilarityScorer, WalkOptions
from catena.model import MENTION, NAME, SEMANTIC, STRUCTURAL, LibraryError, ServiceError, fields_of, matches
from catena.testing import FakeEmbedder
from catena.testing.fakes import AngleEmbedder
from llama_index_catena import (
    CatenaChainPostprocessor,
    CatenaGraphRetriever,
    RouteDegradedEvent,
    build_graph,
    chains_of,
    format_chains,
)
from llama_index_catena.convert import NOTICE, provenance, to_chunk
from llama_index_catena.filters import where_of

WATCHED = ["catena", "llama_index_catena"]


def retriever(*found: tuple[str, float | None], **options: Any) -> CatenaGraphRetriever:
    """Return one over the graph drawn by hand, after a retriever that finds these of its nodes."""
    by_name = {node.node_id: node for node in nodes()}
    first = Finding([(by_name[name], score) for name, score in found or (("a", 0.9), ("d", 0.8))])
    usual = {"retriever": first, "graph": graph(), "embed_model": AngleEmbedder(), "how": HOW}
    return CatenaGraphRetriever(**{**usual, **options})


def ids(found: list[NodeWithScore]) -> list[str]:
    return [each.node.node_id for each in found]


def places(found: NodeWithScore) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = provenance(found.node)["chains"]
    return told


# Over fakes, by hand.


def test_the_graph_brings_what_the_retriever_did_not_find_with_the_reason_for_each_hop() -> None:
    found = retriever().retrieve(QUESTION)
    assert ids(found) == ["a", "b", "c", "d"]
    assert [each.score for each in found] == [1.0, 1 / 2, 1 / 3, 1 / 4]
    seed, maker, town, lamp = found
    assert [(told["chain"], told["hop"], told["came_from"]) for told in places(seed)] == [(1, 1, "")]
    (hop,) = places(maker)
    assert hop["score"] == pytest.approx(cos(radians(20)), abs=1e-6)  # the question at 10 degrees, the maker at 30
    assert (hop["chain"], hop["hop"], hop["came_from"]) == (1, 2, "a")
    assert (hop["edges"], hop["shared"]) == ({SEMANTIC: 0.5, STRUCTURAL: 1.0}, {})
    (last,) = places(town)
    assert last["score"] == pytest.approx(cos(radians(50)), abs=1e-6)
    assert (last["came_from"], last["edges"], last["shared"]) == ("b", {NAME: 2.0}, {NAME: ["krona", "works"]})
    assert places(lamp) == []
    (way,) = provenance(lamp.node)["routes"]
    assert (way["route"], way["rank"], way["score"]) == ("Finding", 2, 0.8)
    assert [way["route"] for way in provenance(maker.node)["routes"]] == ["graph"]
    assert provenance(seed.node)["scale"] == "rank"
    assert (maker.text, maker.metadata["title"], maker.node.ref_doc_id) == (TEXTS["b"], "B", "b")
    assert "came_from" not in maker.node.get_content(MetadataMode.LLM)
    assert "came_from" not in seed.node.get_content(MetadataMode.EMBED)


def test_what_is_given_stays_as_it_was_and_nodes_of_the_user_come_back_as_theirs() -> None:
    own = nodes()
    own[1].metadata["shelf"] = ["a list that no graph holds"]
    first = Finding([(own[0], None), (own[3], None)])
    given = deepcopy(own)
    for where in ({node.node_id: node for node in own}, _docstore(own)):
        made = retriever(retriever=first, nodes=where)
        found = made.retrieve(QueryBundle(QUESTION))
        assert own == given
        assert found[1].metadata["shelf"] == ["a list that no graph holds"]
        assert {**found[0].metadata, "catena": None} == {**own[0].metadata, "catena": None}
    bundle = QueryBundle(QUESTION)
    assert ids(made.retrieve(bundle)) == ["a", "b", "c", "d"]
    assert bundle.embedding is None


def _docstore(kept: list[TextNode]) -> SimpleDocumentStore:
    store = SimpleDocumentStore()
    store.add_documents(kept)
    return store


def test_texts_in_the_place_of_a_question_are_embedded_in_its_place() -> None:
    usual, hypothetical = AngleEmbedder(), AngleEmbedder()
    retriever(embed_model=usual).retrieve(QUESTION)
    assert usual.calls == [QUESTION]
    asked = QueryBundle(QUESTION, custom_embedding_strs=["80 degrees", "60 degrees"])
    found = retriever(embed_model=hypothetical).retrieve(asked)
    assert hypothetical.calls == ["80 degrees", "60 degrees"]
    assert places(found[ids(found).index("c")])[0]["score"] == pytest.approx(cos(radians(10)), abs=1e-6)


class Broken(FakeGraph):
    """A graph whose server is away."""

    def __init__(self) -> None:
        super().__init__([], {}, {})

    def nodes(self, request: Any) -> Any:
        raise ValueError("the server is away")


class Lost(SimpleDocumentStore):
    """A docstore whose server is away."""

    def get_nodes(self, node_ids: Any, raise_error: bool = True) -> Any:
        raise ValueError("the disk is full")


async def test_a_graph_that_fails_costs_its_nodes_alone_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    broken = retriever(graph=Broken())
    with listening() as told, caplog.at_level(logging.WARNING):
        found = broken.retrieve(QUESTION)
    assert (ids(found), [each.score for each in found]) == (["a", "d"], [0.9, 0.8])
    (event,) = [event for event in told.events if isinstance(event, RouteDegradedEvent)]
    assert (event.what, "the server is away" in event.why) == ("graph", True)
    assert "the server is away" in caplog.text
    assert provenance(found[0].node)["degraded"] == [{"what": event.what, "why": event.why}]
    assert ids(await broken.aretrieve(QUESTION)) == ["a", "d"]
    strict = retriever(graph=Broken(), how=replace(HOW, on_graph_error="raise"))
    with pytest.raises(ServiceError, match="the server is away"):
        strict.retrieve(QUESTION)
    with pytest.raises(ServiceError, match="the server is away"):
        await strict.aretrieve(QUESTION)


def test_nodes_that_cannot_be_fetched_are_made_of_the_graphs_texts_and_it_is_told() -> None:
    found = retriever(nodes=Lost()).retrieve(QUESTION)
    assert [each.text for each in found] == list(TEXTS.values())
    assert provenance(found[0].node)["degraded"][0]["what"] == "nodes"
    with pytest.raises(ServiceError, match="disk is full"):
        retriever(nodes=Lost(), how=replace(HOW, on_graph_error="raise")).retrieve(QUESTION)


def test_a_retriever_that_fails_is_told_by_its_name() -> None:
    class Away(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            raise ValueError("api_key=abc is wrong")

    with pytest.raises(ServiceError, match="is wrong") as error:
        retriever(retriever=Away(), on_retriever_error="raise").retrieve(QUESTION)
    assert "abc" not in str(error.value)
    with listening() as told:
        found = retriever(retriever=Away(), graph=build_graph(nodes()[:3], AngleEmbedder())).retrieve(QUESTION)
    assert found[0].node.node_id == "a"  # "pump" of the question stands there
    (part,) = provenance(found[0].node)["degraded"]
    (event,) = [event for event in told.events if isinstance(event, RouteDegradedEvent)]
    assert (part["what"], part["why"]) == (event.what, event.why) == ("retriever", str(error.value))
    with pytest.raises(ServiceError, match="the server is away"):
        retriever(retriever=Away(), graph=Broken()).retrieve(QUESTION)


# Over a real index.

PUMP = "# P7 pump\n\nThe P7 pump is made by Krona Works.\n"
MAKER = "# Krona Works\n\nSmiths from Uppsala began here long ago.\n"
CHAINED = "In which town is the P7 pump made?"
BY_MENTION = GraphSearch(walk=WalkOptions(kinds=(MENTION,), candidates="graph"), scorer=SimilarityScorer())


def corpus() -> list[BaseNode]:
    """Return nodes of LlamaIndex's own parser: the answer stands in a text that does not name what is asked for."""
    texts = [PUMP, MAKER, *(f"# Lamp {n}\n\nLamps light the town in night {n}.\n" for n in range(10, 40))]
    documents = [Document(id_=f"{n:02}", text=text, metadata={"unit": "x"}) for n, text in enumerate(texts)]
    parsed = MarkdownNodeParser().get_nodes_from_documents(documents)
    return [node.model_copy(update={"id_": f"node-{node.ref_doc_id}"}) for node in parsed]


async def test_an_index_is_widened_by_a_graph_of_its_own_nodes() -> None:
    model = Counted()
    index = index_of(corpus(), embed_model=model)
    plain = ids(index.as_retriever(similarity_top_k=4).retrieve(CHAINED))
    graph_of = build_graph(index)
    made = CatenaGraphRetriever(retriever=index, graph=graph_of, similarity_top_k=4, how=BY_MENTION)
    model.queries.clear()
    found = made.retrieve(CHAINED)
    assert "node-01" in ids(found)
    assert "node-01" not in plain
    assert model.queries == [CHAINED]
    maker = found[ids(found).index("node-01")]
    assert maker.text == MAKER.strip()
    assert any("mention" in told["edges"] for told in places(maker))
    with listening() as told, blockbuster_ctx(WATCHED):
        again = await made.aretrieve(CHAINED)
    assert [each.to_dict() for each in again] == [each.to_dict() for each in found]
    assert "CatenaGraphRetriever._aretrieve" in told.spans
    own = CatenaGraphRetriever(retriever=index.as_retriever(similarity_top_k=50), graph=graph_of, how=BY_MENTION)
    assert (await own.aresult(CHAINED)).chains == own.result(CHAINED).chains


def test_a_vector_that_the_bundle_brings_is_what_the_index_is_asked_with() -> None:
    model = Counted()
    index = index_of(corpus(), embed_model=model)
    made = CatenaGraphRetriever(retriever=index, graph=build_graph(index), how=HOW)
    vector = model.get_text_embedding(MAKER)
    assert made.result(QueryBundle(CHAINED, embedding=vector)).first.hits[0].chunk.id == "node-01"
    elsewhere = CatenaGraphRetriever(retriever=index, graph=build_graph(index), embed_model=Counted(), how=HOW)
    model.queries.clear()
    assert elsewhere.result(CHAINED).first.hits[0].chunk.id == made.result(CHAINED).first.hits[0].chunk.id


def test_questions_by_another_model_than_the_graphs_are_refused() -> None:
    index = index_of(corpus())
    made = CatenaGraphRetriever(retriever=index, graph=build_graph(index), embed_model=FakeEmbedder(dim=9))
    with pytest.raises(ParameterError, match="vectors have 64 numbers"):
        made.retrieve(CHAINED)


def test_a_journal_keeps_the_vector_of_a_question_and_not_of_the_texts_in_its_place(tmp_path: Path) -> None:
    embedder = FakeEmbedder(dim=32)
    with Journal.open(tmp_path / "journal") as journal:
        services = Services(journal=journal)
        with Library.open(tmp_path / "library", embedder=embedder, services=services) as library:
            (tmp_path / "m.md").write_text("# M\n\nThe cover takes six screws.\n", encoding="utf-8")
            library.index(tmp_path / "m.md")
            library.build_graph()
            retriever = CatenaGraphRetriever(library, how=HOW)
            retriever.retrieve(QueryBundle("cover", custom_embedding_strs=["screws", "six"]))
            (rows,) = run(ask([Embed(texts=("cover",), kind="query")]), library.services)
    assert np.array_equal(rows[0], embedder.embed_query("cover"))


def only(*parts: Any, condition: FilterCondition = FilterCondition.AND) -> MetadataFilters:
    filters = [part if isinstance(part, MetadataFilters) else MetadataFilter(**part) for part in parts]
    return MetadataFilters(filters=filters, condition=condition)


def test_the_graph_obeys_the_filter_of_the_index() -> None:
    kept = corpus()
    kept[1].metadata["unit"] = "y"
    index = index_of(kept)
    graph_of = build_graph(index)
    x = only({"key": "unit", "value": "x"})
    for options in (
        {"retriever": index, "where": x},
        {"retriever": index.as_retriever(similarity_top_k=50, filters=x)},
        {"retriever": index.as_retriever(filters=x), "where": {"unit": "x"}},
    ):
        found = CatenaGraphRetriever(graph=graph_of, how=BY_MENTION, **options).retrieve(CHAINED)
        assert found
        assert "node-01" not in ids(found)
    assert "node-01" in ids(CatenaGraphRetriever(retriever=index, graph=graph_of, how=BY_MENTION).retrieve(CHAINED))
    with pytest.raises(ParameterError, match="MetadataFilters where the retriever is an index"):
        CatenaGraphRetriever(retriever=index, graph=graph_of, where={"unit": "x"})
    with pytest.raises(FilterError):
        CatenaGraphRetriever(retriever=index.as_retriever(), graph=graph_of, where={"unit": {"$like": "x"}})
    insensitive = only({"key": "unit", "value": "X", "operator": FilterOperator.TEXT_MATCH_INSENSITIVE})
    with pytest.raises(ParameterError, match="text_match_insensitive"):
        CatenaGraphRetriever(retriever=index.as_retriever(filters=insensitive), graph=graph_of)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (only({"key": "n", "value": 2}), "b"),
        (only({"key": "n", "value": 2, "operator": FilterOperator.NE}), "acd"),
        (only({"key": "n", "value": 2, "operator": FilterOperator.GT}), "c"),
        (only({"key": "n", "value": 2, "operator": FilterOperator.GTE}), "bc"),
        (only({"key": "n", "value": 2, "operator": FilterOperator.LT}), "a"),
        (only({"key": "n", "value": 2, "operator": FilterOperator.LTE}), "ab"),
        (only({"key": "n", "value": [1, 3], "operator": FilterOperator.IN}), "ac"),
        (only({"key": "n", "value": [1, 3], "operator": FilterOperator.NIN}), "bd"),
        (only({"key": "s", "value": "two", "operator": FilterOperator.TEXT_MATCH}), "b"),
        (only({"key": "n", "value": 1}, {"key": "s", "value": "one"}), "a"),
        (only({"key": "n", "value": 1}, {"key": "n", "value": 3}, condition=FilterCondition.OR), "ac"),
        (only({"key": "n", "value": 1}, {"key": "n", "value": 3}, condition=FilterCondition.NOT), "bd"),
        (only(), "abcd"),
    ],
)
def test_filters_mean_the_same_to_the_graph_as_to_llamaindexs_store(filters: MetadataFilters, expected: str) -> None:
    numbered = [TextNode(id_=name, text=name, metadata={"n": n, "s": s}) for name, n, s in NUMBERED]
    kept = [*numbered, TextNode(id_="d", text="d", metadata={"other": 1})]
    numbers = {name for name, *_ in NUMBERED}  # what lacks the key fulfilled no filter in older versions
    if filters.condition != FilterCondition.NOT:  # nor did they know this one
        found = index_of(kept).as_retriever(similarity_top_k=9, filters=filters).retrieve("a")
        assert sorted({*ids(found)} & numbers) == sorted({*expected} & numbers)
    where = where_of(filters)
    assert [node.node_id for node in kept if where is None or matches(where, fields_of(to_chunk(node)))] == list(
        expected
    )


NUMBERED = (("a", 1, "one"), ("b", 2, "twenty-two"), ("c", 3, "three"))


def test_filters_within_filters_are_obeyed_too() -> None:
    inner = only({"key": "n", "value": 1}, {"key": "n", "value": 2}, condition=FilterCondition.OR)
    assert where_of(only(inner, {"key": "s", "value": "x"})) == {
        "$and": [{"$or": [{"n": {"$eq": 1}}, {"n": {"$eq": 2}}]}, {"s": {"$eq": "x"}}]
    }


# The postprocessor.


def stage(**options: Any) -> CatenaChainPostprocessor:
    return CatenaChainPostprocessor(**{"graph": graph(), "embed_model": AngleEmbedder(), "how": HOW, **options})


def given_nodes(*found: tuple[str, float | None]) -> list[NodeWithScore]:
    by_name = {node.node_id: node for node in nodes()}
    return [NodeWithScore(node=by_name[name], score=score) for name, score in found or (("a", 0.9), ("d", 0.8))]


async def test_a_postprocessor_widens_what_any_retriever_found() -> None:
    found = given_nodes()
    before = deepcopy(found)
    widened = stage().postprocess_nodes(found, query_str=QUESTION)
    assert [each.to_dict() for each in found] == [each.to_dict() for each in before]
    assert (ids(widened), [each.score for each in widened]) == (["a", "b", "c", "d"], [1.0, 1 / 2, 1 / 3, 1 / 4])
    assert [places(each) for each in widened] == [places(each) for each in retriever().retrieve(QUESTION)]
    assert provenance(widened[3].node)["routes"][0]["route"] == "given"
    assert ids(stage(top_n=2).postprocess_nodes(found, query_str=QUESTION)) == ["a", "b"]
    assert stage().postprocess_nodes([], query_str=QUESTION) == []
    with listening() as told, blockbuster_ctx(WATCHED):
        again = await stage().apostprocess_nodes(found, query_bundle=QueryBundle(QUESTION))
    assert [each.to_dict() for each in again] == [each.to_dict() for each in widened]
    assert "CatenaChainPostprocessor._apostprocess_nodes" in told.spans
    start, end = [event for event in told.events if isinstance(event, ReRankStartEvent | ReRankEndEvent)]
    assert (start.query, start.top_n, ids(start.nodes)) == (QUESTION, 10, ["a", "d"])
    assert (start.model_name, ids(end.nodes)) == ("catena-graph/similarity-0", ids(widened))


def test_what_the_first_ranking_lost_stays_known() -> None:
    told = {"degraded": [{"what": "route x", "why": "gone"}], "unknown": [{"text": "HX9", "near": ["HX8"]}]}
    found = given_nodes()
    found[0].metadata["catena"] = json.dumps(told)
    widened = provenance(stage().postprocess_nodes(found, query_str=QUESTION)[0].node)
    assert {name: widened[name] for name in told} == told


async def test_notices_stay_last_and_are_not_walked_from() -> None:
    notice = NodeWithScore(node=TextNode(id_="n", text="No HX900.", metadata={"kind": NOTICE}), score=0.0)
    found = [notice, *given_nodes()]
    widened = stage().postprocess_nodes(found, query_str=QUESTION)
    assert ids(widened) == ["a", "b", "c", "d", "n"]
    assert widened[-1] is notice
    assert ids(await stage().apostprocess_nodes(found, query_bundle=QueryBundle(QUESTION))) == ids(widened)
    assert format_chains(widened).startswith("No HX900")
    assert format_chains(widened).text.endswith(format_chains(widened).context.text)
    assert pickle.loads(pickle.dumps(format_chains(widened))).notices == format_chains(widened).notices


# Chains, out of the nodes again.


def test_chains_are_read_out_of_nodes_and_written_out_for_a_reader() -> None:
    made = retriever()
    found, expected = made.retrieve(QUESTION), made.result(QUESTION)
    (*chains, alone) = chains_of(reversed(found))
    assert [(hop.chunk.id, hop.edge) for hop in alone.hops] == [("d", None)]
    assert [
        [(hop.chunk.id, hop.score, hop.came_from, hop.edge, hop.words) for hop in chain.hops] for chain in chains
    ] == [[(hop.chunk.id, hop.score, hop.came_from, hop.edge, hop.words) for hop in c.hops] for c in expected.chains]
    context = format_chains(found)
    assert [passage.segment.chunk_ids for passage in context.passages] == [("a",), ("b",), ("c",), ("d",)]
    assert 'Linked to passage 2: shared names "krona", "works"' in context.text
    assert "Linked" not in format_chains(found, "iterative").text
    shuffled = [format_chains(found, "shuffled", reading=ChainReading(seed=seed)).text for seed in range(6)]
    assert len(set(shuffled)) > 1
    assert format_chains(found, reading=ChainReading(budget_tokens=30)).left_out
    without = [each for each in found if each.node.node_id != "b"]
    assert [[hop.chunk.id for hop in chain.hops] for chain in chains_of(without)] == [["a", "c"], ["d"]]
    assert "Linked" not in format_chains(without).text
    assert [[hop.chunk.id for hop in chain.hops] for chain in chains_of(given_nodes())] == [["a"], ["d"]]


# Over a library.


async def test_a_library_without_a_graph_is_told_what_to_do(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library", embedder=FakeEmbedder()) as bare:
        with pytest.raises(LibraryError, match="build_graph"):
            await CatenaGraphRetriever(library=bare).aretrieve("Torque?")
        with pytest.raises(LibraryError, match="build_graph"):
            CatenaChainPostprocessor(bare).postprocess_nodes(given_nodes(), query_str="Torque?")
