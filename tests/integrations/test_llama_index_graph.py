"""Graphs of LlamaIndex's nodes: what is read from them, and walks over an index; see test_graphs.py for both."""

from __future__ import annotations

import json
import pickle
from copy import deepcopy
from dataclasses import replace
from math import cos, radians
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapter_faces import FACES
from blockbuster import blockbuster_ctx
from drawn_graph import HOW, QUESTION, TEXTS, by_hand
from drawn_graph import nodes as drawn_nodes
from llama_index.core import Document, schema
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index_fakes import Counted, Finding, Texts, chain, index_of, listening, sections_of

import llama_index_catena as li
from catena import FilterError, Journal, Library, ParameterError, Services, run
from catena.answering import ChainReading
from catena.effects import Cancel, Embed, FetchNodes, ask
from catena.graph import ChunkGraph, GraphSearch, SimilarityScorer, WalkOptions
from catena.model import MENTION, STRUCTURAL, CancelledError, ServiceError, fields_of, matches
from catena.testing import FakeEmbedder, Flaky
from catena.testing.fakes import AngleEmbedder
from llama_index_catena.convert import NOTICE, provenance, to_chunk
from llama_index_catena.filters import where_of
from llama_index_catena.graph import NodeReading

LLAMA_INDEX = FACES[1]
WATCHED = ["catena", "llama_index_catena"]


def nodes() -> list[schema.TextNode]:
    return list(drawn_nodes(LLAMA_INDEX).values())


def retriever(*found: tuple[str, float | None], **options: Any) -> li.CatenaGraphRetriever:
    """Return one over the graph drawn by hand, after a retriever that finds these of its nodes."""
    by_name = {node.node_id: node for node in nodes()}
    first = Finding([(by_name[name], score) for name, score in found or (("a", 0.9), ("d", 0.8))])
    usual = {"retriever": first, "graph": by_hand(LLAMA_INDEX), "embed_model": AngleEmbedder(), "how": HOW}
    return li.CatenaGraphRetriever(**{**usual, **options})


def ids(found: list[schema.NodeWithScore]) -> list[str]:
    return [each.node.node_id for each in found]


def places(found: schema.NodeWithScore) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = provenance(found.node)["chains"]
    return told


# Over fakes, by hand.


def test_what_is_given_stays_as_it_was_and_nodes_of_the_user_come_back_as_theirs() -> None:
    own = nodes()
    own[1].metadata["shelf"] = ["a list that no graph holds"]
    first = Finding([(own[0], None), (own[3], None)])
    given = deepcopy(own)
    for where in ({node.node_id: node for node in own}, _docstore(own)):
        made = retriever(retriever=first, nodes=where)
        found = made.retrieve(schema.QueryBundle(QUESTION))
        assert own == given
        assert found[1].metadata["shelf"] == ["a list that no graph holds"]
        assert {**found[0].metadata, "catena": None} == {**own[0].metadata, "catena": None}
    bundle = schema.QueryBundle(QUESTION)
    assert ids(made.retrieve(bundle)) == ["a", "b", "c", "d"]
    assert bundle.embedding is None


def _docstore(kept: list[schema.TextNode]) -> SimpleDocumentStore:
    store = SimpleDocumentStore()
    store.add_documents(kept)
    return store


def test_texts_in_the_place_of_a_question_are_embedded_in_its_place() -> None:
    usual, hypothetical = AngleEmbedder(), AngleEmbedder()
    retriever(embed_model=usual).retrieve(QUESTION)
    assert usual.calls == [QUESTION]
    asked = schema.QueryBundle(QUESTION, custom_embedding_strs=["80 degrees", "60 degrees"])
    found = retriever(embed_model=hypothetical).retrieve(asked)
    assert hypothetical.calls == ["80 degrees", "60 degrees"]
    assert places(found[ids(found).index("c")])[0]["score"] == pytest.approx(cos(radians(10)), abs=1e-6)


class Lost(SimpleDocumentStore):
    """A docstore whose server is away."""

    def get_nodes(self, node_ids: Any, raise_error: bool = True) -> Any:
        raise ValueError("the disk is full")


def test_nodes_that_cannot_be_fetched_are_made_of_the_graphs_texts_and_it_is_told() -> None:
    found = retriever(nodes=Lost()).retrieve(QUESTION)
    assert [each.text for each in found] == list(TEXTS.values())
    assert provenance(found[0].node)["degraded"][0]["what"] == "nodes"
    with pytest.raises(ServiceError, match="disk is full"):
        retriever(nodes=Lost(), how=replace(HOW, on_graph_error="raise")).retrieve(QUESTION)


# Over a real index.

PUMP = "# P7 pump\n\nThe P7 pump is made by Krona Works.\n"
MAKER = "# Krona Works\n\nSmiths from Uppsala began here long ago.\n"
CHAINED = "In which town is the P7 pump made?"
BY_MENTION = GraphSearch(walk=WalkOptions(kinds=(MENTION,), candidates="graph"), scorer=SimilarityScorer())


def corpus() -> list[schema.BaseNode]:
    """Return nodes of LlamaIndex's own parser: the answer stands in a text that does not name what is asked for."""
    texts = [PUMP, MAKER, *(f"# Lamp {n}\n\nLamps light the town in night {n}.\n" for n in range(10, 40))]
    documents = [Document(id_=f"{n:02}", text=text, metadata={"unit": "x"}) for n, text in enumerate(texts)]
    parsed = MarkdownNodeParser().get_nodes_from_documents(documents)
    return [node.model_copy(update={"id_": f"node-{node.ref_doc_id}"}) for node in parsed]


async def test_an_index_is_widened_by_a_graph_of_its_own_nodes() -> None:
    model = Counted()
    index = index_of(corpus(), embed_model=model)
    plain = ids(index.as_retriever(similarity_top_k=4).retrieve(CHAINED))
    graph_of = li.build_graph(index)
    made = li.CatenaGraphRetriever(retriever=index, graph=graph_of, similarity_top_k=4, how=BY_MENTION)
    model.queries.clear()
    found = made.retrieve(CHAINED)
    assert "node-01" in ids(found)
    assert "node-01" not in plain
    assert model.queries == [CHAINED]
    for blank in ("", " "):
        assert made.retrieve(blank) == []
        own = li.CatenaGraphRetriever(retriever=index.as_retriever(), graph=graph_of, on_retriever_error="raise")
        assert own.retrieve(blank) == []
    maker = found[ids(found).index("node-01")]
    assert maker.text == MAKER.strip()
    assert any("mention" in told["edges"] for told in places(maker))
    with listening() as told, blockbuster_ctx(WATCHED):
        again = await made.aretrieve(CHAINED)
    assert [each.to_dict() for each in again] == [each.to_dict() for each in found]
    assert "CatenaGraphRetriever._aretrieve" in told.spans
    own = li.CatenaGraphRetriever(retriever=index.as_retriever(similarity_top_k=50), graph=graph_of, how=BY_MENTION)
    assert (await own.aresult(CHAINED)).chains == own.result(CHAINED).chains


def test_a_vector_that_the_bundle_brings_is_what_the_index_is_asked_with() -> None:
    model = Counted()
    index = index_of(corpus(), embed_model=model)
    made = li.CatenaGraphRetriever(retriever=index, graph=li.build_graph(index), how=HOW)
    vector = model.get_text_embedding(MAKER)
    assert made.result(schema.QueryBundle(CHAINED, embedding=vector)).first.hits[0].chunk.id == "node-01"
    elsewhere = li.CatenaGraphRetriever(retriever=index, graph=li.build_graph(index), embed_model=Counted(), how=HOW)
    model.queries.clear()
    assert elsewhere.result(CHAINED).first.hits[0].chunk.id == made.result(CHAINED).first.hits[0].chunk.id


def test_questions_by_another_model_than_the_graphs_are_refused() -> None:
    index = index_of(corpus())
    made = li.CatenaGraphRetriever(retriever=index, graph=li.build_graph(index), embed_model=FakeEmbedder(dim=9))
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
            retriever = li.CatenaGraphRetriever(library, how=HOW)
            retriever.retrieve(schema.QueryBundle("cover", custom_embedding_strs=["screws", "six"]))
            (rows,) = run(ask([Embed(texts=("cover",), kind="query")]), library.services)
    assert np.array_equal(rows[0], embedder.embed_query("cover"))


def only(*parts: Any, condition: FilterCondition = FilterCondition.AND) -> MetadataFilters:
    filters = [part if isinstance(part, MetadataFilters) else MetadataFilter(**part) for part in parts]
    return MetadataFilters(filters=filters, condition=condition)


def test_the_graph_obeys_the_filter_of_the_index() -> None:
    kept = corpus()
    kept[1].metadata["unit"] = "y"
    index = index_of(kept)
    graph_of = li.build_graph(index)
    x = only({"key": "unit", "value": "x"})
    for options in (
        {"retriever": index, "where": x},
        {"retriever": index.as_retriever(similarity_top_k=50, filters=x)},
        {"retriever": index.as_retriever(filters=x), "where": {"unit": "x"}},
    ):
        found = li.CatenaGraphRetriever(graph=graph_of, how=BY_MENTION, **options).retrieve(CHAINED)
        assert found
        assert "node-01" not in ids(found)
    assert "node-01" in ids(
        li.CatenaGraphRetriever(retriever=index, graph=graph_of, how=BY_MENTION).retrieve(CHAINED)
    )
    with pytest.raises(ParameterError, match="MetadataFilters where the retriever is an index"):
        li.CatenaGraphRetriever(retriever=index, graph=graph_of, where={"unit": "x"})
    with pytest.raises(FilterError):
        li.CatenaGraphRetriever(retriever=index.as_retriever(), graph=graph_of, where={"unit": {"$like": "x"}})
    insensitive = only({"key": "unit", "value": "X", "operator": FilterOperator.TEXT_MATCH_INSENSITIVE})
    with pytest.raises(ParameterError, match="text_match_insensitive"):
        li.CatenaGraphRetriever(retriever=index.as_retriever(filters=insensitive), graph=graph_of)


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
    numbered = [schema.TextNode(id_=name, text=name, metadata={"n": n, "s": s}) for name, n, s in NUMBERED]
    kept = [*numbered, schema.TextNode(id_="d", text="d", metadata={"other": 1})]
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


def stage(**options: Any) -> li.CatenaChainPostprocessor:
    return li.CatenaChainPostprocessor(
        **{"graph": by_hand(LLAMA_INDEX), "embed_model": AngleEmbedder(), "how": HOW, **options}
    )


def given_nodes(*found: tuple[str, float | None]) -> list[schema.NodeWithScore]:
    by_name = {node.node_id: node for node in nodes()}
    return [
        schema.NodeWithScore(node=by_name[name], score=score) for name, score in found or (("a", 0.9), ("d", 0.8))
    ]


async def test_a_postprocessor_tells_what_it_was_given_and_what_it_made_of_it() -> None:
    found = given_nodes()
    with listening() as told, blockbuster_ctx(WATCHED):
        widened = await stage().apostprocess_nodes(found, query_bundle=schema.QueryBundle(QUESTION))
    assert provenance(widened[3].node)["routes"][0]["route"] == "given"
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
    notice = schema.NodeWithScore(
        node=schema.TextNode(id_="n", text="No HX900.", metadata={"kind": NOTICE}), score=0.0
    )
    found = [notice, *given_nodes()]
    widened = stage().postprocess_nodes(found, query_str=QUESTION)
    assert ids(widened) == ["a", "b", "c", "d", "n"]
    assert widened[-1] is notice
    assert ids(await stage().apostprocess_nodes(found, query_bundle=schema.QueryBundle(QUESTION))) == ids(widened)
    assert li.format_chains(widened).startswith("No HX900")
    assert li.format_chains(widened).text.endswith(li.format_chains(widened).context.text)
    assert pickle.loads(pickle.dumps(li.format_chains(widened))).notices == li.format_chains(widened).notices


def test_chains_are_written_out_in_the_format_asked_for() -> None:
    found = retriever().retrieve(QUESTION)
    context = li.format_chains(found)
    assert [passage.segment.chunk_ids for passage in context.passages] == [("a",), ("b",), ("c",), ("d",)]
    assert "Linked" not in li.format_chains(found, "iterative").text
    shuffled = [li.format_chains(found, "shuffled", reading=ChainReading(seed=seed)).text for seed in range(6)]
    assert len(set(shuffled)) > 1
    assert li.format_chains(found, reading=ChainReading(budget_tokens=30)).left_out


# Building.

SEALED = "# Pump\n\nIt is made by Krona Works.\n\n## Seal\n\nThe seal keeps the oil.\n\n## Cover\n\nFour screws.\n"
MAKERS = "# Krona Works\n\nThe works stand in Uppsala.\n"
READER = MarkdownNodeParser()


def two_documents() -> list[Document]:
    return [
        Document(id_="pump", text=SEALED, metadata={"title": "Pump"}),
        Document(id_="maker", text=MAKERS, metadata={"file_name": "Krona Works.md"}),
    ]


def foreign() -> list[schema.BaseNode]:
    """Return nodes of LlamaIndex's own parser under ids that do not change."""
    return [
        node.model_copy(update={"id_": f"{node.ref_doc_id}-{place}", "relationships": _source(node)})
        for place, node in enumerate(READER.get_nodes_from_documents(two_documents()))
    ]


def _source(node: schema.BaseNode) -> dict[Any, Any]:
    return {schema.NodeRelationship.SOURCE: schema.RelatedNodeInfo(node_id=str(node.ref_doc_id))}


def structure(graph: ChunkGraph) -> set[frozenset[str]]:
    """Return who stands beside whom."""
    links = graph.links(STRUCTURAL)
    pairs = zip(links.sources.tolist(), links.targets.tolist(), strict=True)
    return {frozenset((graph.ids[one], graph.ids[other])) for one, other in pairs}


def test_titles_headings_keywords_and_kinds_are_read_from_the_nodes() -> None:
    nodes = foreign()
    nodes[2].metadata["excerpt_keywords"] = "Keywords: cover screw, M6 thread"
    graph = li.build_graph(nodes, Counted())
    pump, seal, cover, maker = (graph.node(each.node_id) for each in nodes)
    assert (pump.titles, seal.titles, cover.titles) == (("Pump",), ("Pump", "Seal"), ("Pump", "Cover"))
    assert (maker.titles, maker.chunk.metadata["title"]) == (("Krona Works",), "Krona Works")
    assert seal.chunk.path == ("Pump", "Seal")
    assert cover.keywords == ("cover screw", "m6 thread")
    assert (seal.chunk.text, seal.chunk.document_id) == (nodes[1].get_content(), "pump")
    said = graph.edge("pump-0", "maker-3")
    assert said is not None
    assert said.words[MENTION] == ("Krona Works",)
    others: list[schema.BaseNode] = [
        schema.ImageNode(id_="image", text="A seal.", image_path="seal.png"),
        schema.TextNode(id_="table", text="|a|", metadata={"table_df": "a"}),
        schema.TextNode(id_="ours", text="|a|", metadata={"kind": "table"}),
    ]
    kinds = [li.build_graph(others, Counted()).chunk(each.node_id).kind for each in others]
    assert kinds == ["figure", "table", "table"]


def test_one_says_where_titles_and_keywords_are() -> None:
    node = schema.TextNode(
        id_="a",
        text="Oil is kept.",
        metadata={"name": "Pump", "terms": ["oil"], "excerpt_keywords": "no", "title": ""},
    )
    reading = NodeReading(
        title_keys=["title", "name"], keyword_keys=["words", "terms"], text=schema.MetadataMode.NONE
    )
    model = Counted()
    read = li.build_graph([node], model, reading=reading).node("a")
    assert (read.titles, read.keywords, model.texts) == (("Pump",), ("oil",), ["Oil is kept."])


def test_neighbours_are_those_that_links_name_else_offsets_else_the_order_given() -> None:
    texts = ["One.", "Two.", "Three."]
    expected = {frozenset(("d-0", "d-1")), frozenset(("d-1", "d-2"))}
    for linked, offsets, order in ((True, False, (2, 0, 1)), (False, True, (1, 2, 0)), (False, False, (0, 1, 2))):
        nodes = chain("d", texts, linked=linked, offsets=offsets)
        assert structure(li.build_graph([nodes[at] for at in order], Counted())) == expected
    against = chain("d", texts, linked=True)  # links go before offsets
    for node, start in zip(against, (30, 10, 20), strict=True):
        node.start_char_idx = start
    assert structure(li.build_graph(against, Counted())) == expected
    alone = [schema.TextNode(id_=name, text=name) for name in "ab"]
    assert structure(li.build_graph(alone, Counted())) == set()


def test_nodes_of_catena_give_the_chunks_that_they_were_made_of() -> None:
    sections = sections_of()
    graph = li.build_graph(list(reversed(sections)), FakeEmbedder())
    assert [graph.chunk(node.node_id) for node in sections] == [to_chunk(node) for node in sections]


def test_embeddings_that_nodes_have_are_kept_and_the_others_made_as_an_index_makes_them() -> None:
    nodes, model = foreign(), Counted()
    nodes[1].embedding = [0.0] * 63 + [2.0]
    given = deepcopy(nodes)
    graph = li.build_graph(nodes, model)
    assert nodes == given
    read = [node.get_content(metadata_mode=schema.MetadataMode.EMBED) for node in (nodes[0], *nodes[2:])]
    assert model.texts == read
    vectors = graph.nodes(FetchNodes(chunk_ids=tuple(node.node_id for node in nodes))).vectors
    assert vectors[1].tolist() == [0.0] * 63 + [1.0]
    row = np.array(model._row(read[0]))
    np.testing.assert_allclose(vectors[0], row / np.linalg.norm(row), rtol=1e-6)


class Giving(Texts):
    """A store that gives all of its nodes, with their vectors."""

    def get_nodes(self, node_ids: list[str] | None = None, filters: Any = None) -> list[schema.BaseNode]:
        assert node_ids is filters is None
        return list(self.held.values())


@pytest.mark.parametrize("store", [None, Giving])
def test_an_index_gives_its_nodes_its_vectors_and_its_model(store: Any) -> None:
    model = Counted()
    index = index_of(foreign(), store=store and store(), embed_model=model)
    embedded = len(model.texts)
    graph = li.build_graph(index)
    assert len(model.texts) == embedded == len(graph)
    assert graph.identity == li.build_graph(foreign(), Counted()).identity


def test_a_store_that_gives_no_nodes_is_told() -> None:
    with pytest.raises(ServiceError, match="Texts"):
        li.build_graph(index_of(foreign(), store=Texts()))


def test_a_document_comes_whole_or_says_its_positions() -> None:
    nodes = chain("d", ["One.", "Two.", "Three."])
    graph = li.build_graph(nodes[:2], Counted())
    with pytest.raises(ParameterError, match="nodes of d, of which others stay"):
        li.update_graph(graph, added=nodes[2:], embed_model=Counted())
    whole = li.build_graph(nodes, Counted()).identity
    assert li.update_graph(graph, added=nodes, embed_model=Counted()).identity == whole
    others = li.update_graph(graph, added=nodes[2:], removed=["d-0", "d-1"], embed_model=Counted())
    assert others.ids == ("d-2",)
    counted = chain("d", ["One.", "Two.", "Three."], counted=True)
    grown = li.update_graph(li.build_graph(counted[:2], Counted()), added=counted[2:], embed_model=Counted())
    assert grown.identity == li.build_graph(counted, Counted()).identity
    assert li.update_graph(graph, removed_documents=["nobody"]).ids == graph.ids


def test_what_cannot_be_built_is_refused() -> None:
    node = schema.TextNode(id_="a", text="A.")
    short, long = (
        schema.TextNode(id_=name, text=name, embedding=[1.0] * size) for name, size in (("b", 2), ("c", 3))
    )
    for given, model, match in (
        ([short, long], None, "one length"),
        ([node, short], None, "1 nodes have no embedding"),
        ([node], "minilm", "embed_model"),
        ((each for each in [node]), FakeEmbedder(), "^nodes "),
    ):
        with pytest.raises(ParameterError, match=match):
            li.build_graph(given, model)  # type: ignore[arg-type]
    with pytest.raises(ServiceError, match="down"):
        li.build_graph([node], Flaky(FakeEmbedder(), [ValueError("down")]))
    cancel = Cancel()
    cancel.set()
    with pytest.raises(CancelledError):
        li.build_graph([short], cancel=cancel)
    assert len(li.build_graph(index_of([]))) == 0
    with pytest.raises(ParameterError, match=r"^added .* nodes, got 'VectorStoreIndex'"):
        li.update_graph(li.build_graph([short]), added=index_of([]))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"^removed_documents "):
        li.update_graph(li.build_graph([short]), removed_documents="b")  # type: ignore[arg-type]
