"""What LlamaIndex's classes of Catena make goes into real vector stores, is found there, and comes back whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import BaseNode, NodeWithScore, TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from manuals import CHANGED, FOUNDED, PAGES, SCREWS, SLICES, TEXTS, TITLES, Calls, Kind, Place
from stores_of_llama_index import DIM, EMBEDDING, KINDS

from catena.model import ParameterError, ServiceError
from catena.segments import Constant, SegmentSearch
from catena.structure import SectionChunkOptions
from llama_index_catena import (
    CatenaContextExtractor,
    CatenaEntityExtractor,
    CatenaGraphRetriever,
    CatenaNodeParser,
    CatenaSegmentPostprocessor,
    CatenaSegmentRetriever,
    CatenaViewIndex,
    build_graph,
    with_uuids,
)
from llama_index_catena.convert import provenance
from llama_index_catena.documents import PAGE_STARTS

ALL = 100  # more than a store has here


def documents(**changed: str) -> list[Document]:
    made = []
    for name, text in {**TEXTS, **changed}.items():
        metadata = {"title": TITLES[name], "edition": 3, "draft": False, "price": 0.5}
        made.append(Document(id_=name, text=text, metadata={**metadata, PAGE_STARTS: json.dumps(PAGES[name])}))
    return made


def nodes_for(kind: Kind) -> list[BaseNode]:
    """Return nodes with headings, context and entities, as a store of this kind is to be given them."""
    made = [CatenaNodeParser(max_tokens=24, min_tokens=0), CatenaContextExtractor(), CatenaEntityExtractor()]
    nodes = list(IngestionPipeline(transformations=made, disable_cache=True).run(documents=documents()))
    return with_uuids(nodes) if kind.uuids else nodes


def known(node: BaseNode) -> dict[str, Any]:
    """Return all of a node but its vector, and how it was found."""
    said = node.to_dict()
    del said["embedding"]
    said["metadata"] = {key: value for key, value in node.metadata.items() if key != "catena"}
    return said


def sorted_by_id(nodes: Sequence[BaseNode]) -> list[dict[str, Any]]:
    return [known(node) for node in sorted(nodes, key=lambda node: node.node_id)]


def plain(found: Sequence[NodeWithScore]) -> list[BaseNode]:
    return [each.node for each in found]


@pytest.fixture(params=KINDS, ids=[kind.name for kind in KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture
async def index(kind: Kind, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[VectorStoreIndex]:
    """An empty index over a store of one kind."""
    folder = request.getfixturevalue("postgres_folder") if kind.postgres else ""
    store = await asyncio.to_thread(kind.make, Place(name=f"t{uuid4().hex[:8]}", folder=tmp_path, postgres=folder))
    context = StorageContext.from_defaults(vector_store=store)
    yield VectorStoreIndex([], storage_context=context, embed_model=EMBEDDING)
    if kind.postgres:
        await store.close()


@pytest.fixture
async def filled(kind: Kind, index: VectorStoreIndex, calls: Calls) -> VectorStoreIndex:
    """The index with all nodes."""
    if calls.awaited:  # LlamaIndex's own code, which may block
        await index.ainsert_nodes(nodes_for(kind))
    else:
        await asyncio.to_thread(index.insert_nodes, nodes_for(kind))
    return index


def by_metadata(key: str, value: Any) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value)])


async def search(index: VectorStoreIndex, question: str, k: int = ALL, **options: Any) -> list[NodeWithScore]:
    return await asyncio.to_thread(index.as_retriever(similarity_top_k=k, **options).retrieve, question)


async def test_nodes_come_back_as_they_were(kind: Kind, filled: VectorStoreIndex, calls: Calls) -> None:
    found = await search(filled, SCREWS)
    assert sorted_by_id(plain(found)) == sorted_by_id(nodes_for(kind))
    assert SLICES["first"] in found[0].node.get_content()
    for each in plain(found):
        assert TEXTS[str(each.ref_doc_id)][each.start_char_idx : each.end_char_idx] == each.text
        assert type(each.metadata["position"]) is type(each.metadata["edition"]) is int
        assert {"headings", "first_line", "first_page"} <= each.metadata.keys()
    assert {each.metadata["entities"] for each in plain(found) if "entities" in each.metadata} == {"HX200", "HX210"}


async def test_nodes_are_given_by_id(kind: Kind, filled: VectorStoreIndex, calls: Calls) -> None:
    nodes, store = nodes_for(kind), filled.vector_store
    asked = [node.node_id for node in nodes[1:3]]
    held = filled.docstore if not kind.nodes else store
    if not kind.by_id:  # it writes ids between quotes that this LanceDB reads as names of columns
        with pytest.raises(ValueError, match="sql filter"):
            await asyncio.to_thread(held.get_nodes, asked)
        return
    found = await asyncio.to_thread(held.get_nodes, asked)
    assert sorted_by_id(found) == sorted_by_id(nodes[1:3])
    if kind.name == "FaissMapVectorStore":
        with pytest.raises(ParameterError, match="the docstore of the index"):
            CatenaSegmentPostprocessor(store)


async def test_plain_ids_are_refused_where_the_page_says_so(kind: Kind, index: VectorStoreIndex) -> None:
    node: BaseNode = TextNode(id_="0123456789abcdef", text="A spare gasket.")
    if kind.uuids:
        with pytest.raises(Exception, match=r"(?i)uuid"):
            await asyncio.to_thread(index.insert_nodes, [node])
        (node,) = with_uuids([node])
        assert str(UUID(node.node_id)) == node.node_id
    await asyncio.to_thread(index.insert_nodes, [node])


def parents(**changed: str) -> list[BaseNode]:
    return CatenaNodeParser(chunks=SectionChunkOptions()).get_nodes_from_documents(documents(**changed))


async def test_faiss_gives_a_number_twice_where_nodes_come_after_others_went(tmp_path: Path) -> None:
    (faiss,) = (kind for kind in KINDS if kind.loses_nodes)
    store: Any = faiss.make(Place(name="t", folder=tmp_path, postgres=""))
    one, two, three = (
        TextNode(id_=name, embedding=[float(place)] * DIM) for place, name in enumerate(["one", "two", "three"])
    )
    store.add([one, two])
    store.delete_nodes(["one"])
    store.add([three])
    assert store._faiss_id_to_node_id_map == {1: "three"}  # and no longer 1: "two"


async def test_an_index_of_views_leaves_nothing_behind(kind: Kind, index: VectorStoreIndex, calls: Calls) -> None:
    views = CatenaViewIndex(index)
    retriever = views.retriever(similarity_top_k=9)
    await calls(views, "add", parents())
    before = await calls(retriever, "retrieve", SCREWS)
    if not kind.by_id:
        with pytest.raises(ServiceError, match=f"{kind.name} and SimpleDocumentStore: .* sql filter"):
            await calls(views, "replace", parents(hx210=CHANGED))
        return
    changes = await calls(views, "replace", parents(hx210=CHANGED))
    assert changes.parents_deleted == 1
    after = await calls(retriever, "retrieve", SCREWS)
    texts = [node.get_content() for node in plain(after)]
    assert "six screws" not in "".join(texts)
    assert "eight screws" in "".join(texts)
    assert len(texts) == len(set(texts)) == len(before)
    if not kind.loses_nodes:
        await calls(views, "replace", parents())
        again = await calls(retriever, "retrieve", SCREWS)
        assert [each.node_id for each in again] == [each.node_id for each in before]
    await calls(views, "delete", "hx210", "hx200")
    left = await calls(retriever, "retrieve", SCREWS)
    assert {node.ref_doc_id for node in plain(left)} == {"krona"}
    assert provenance(left[0].node)["degraded"] == [] or not kind.filters
    await calls(views, "delete", "krona")
    assert await calls(views, "sources") == ()
    assert index.docstore.docs == {}


async def test_parents_are_found_under_their_views(kind: Kind, index: VectorStoreIndex, calls: Calls) -> None:
    views = CatenaViewIndex(index)
    await calls(views, "add", parents())
    options: dict[str, Any] = {} if kind.filters else {"filtering": "over-fetch"}
    found = await calls(views.retriever(similarity_top_k=2, **options), "retrieve", SCREWS)
    best = found[0].node
    assert best.ref_doc_id == "hx210"
    assert TEXTS["hx210"][best.start_char_idx : best.end_char_idx] == best.text
    assert SLICES["first"] in best.text
    told = provenance(best)
    assert set(told["views"]) <= {"passage", "keywords", "summary"}
    assert told["degraded"] == []
    for each in found:
        for way in provenance(each.node)["routes"]:
            assert way["score"] <= 0 if kind.distances else way["score"] > 0


async def test_segments_take_their_neighbours_from_the_store(
    kind: Kind, filled: VectorStoreIndex, calls: Calls
) -> None:
    nodes = nodes_for(kind)
    neighbours: Any = filled.vector_store if kind.nodes else filled.docstore
    retriever = CatenaSegmentRetriever(
        filled.as_retriever(similarity_top_k=3), neighbours=neighbours, options=SegmentSearch(calibration=Constant())
    )
    found = plain(await calls(retriever, "retrieve", SCREWS))
    assert SLICES["first"] in found[0].get_content()
    for each in found:
        whole = TEXTS[str(each.ref_doc_id)][each.start_char_idx : each.end_char_idx]
        assert "".join(each.get_content().split()) == "".join(whole.split())
        assert each.metadata["first_line"] == TEXTS[str(each.ref_doc_id)].count("\n", 0, each.start_char_idx) + 1
    first = [NodeWithScore(node=node, score=0.9) for node in (nodes[0], nodes[2])]  # between them stands one more
    segments = CatenaSegmentPostprocessor(neighbours, calibration=Constant(), params="find_all")
    (whole_segment, *_) = await calls(segments, "postprocess_nodes", first, query_str=SCREWS)
    said = whole_segment.node.metadata
    assert (said["first_position"], said["last_position"]) == (0, 2)
    if kind.distances:  # from a list in a query engine, too, the nearest is the best
        near = await search(filled, SCREWS, 3)
        (best, *_) = await calls(segments, "postprocess_nodes", near, query_str=SCREWS)
        assert SLICES["first"] in best.node.get_content()


async def test_a_graph_of_the_index_is_walked(kind: Kind, filled: VectorStoreIndex, calls: Calls) -> None:
    graph = await asyncio.to_thread(build_graph, filled)
    assert set(graph.ids) == {node.node_id for node in nodes_for(kind)}
    base = filled.as_retriever(similarity_top_k=2)
    first = [each.node_id for each in await search(filled, FOUNDED, 2)]
    found = await calls(CatenaGraphRetriever(retriever=base, graph=graph, similarity_top_k=6), "retrieve", FOUNDED)
    told = {each.node_id: provenance(each.node) for each in found}
    assert set(first) < told.keys()
    assert told[first[0]]["routes"][0]["rank"] == 1
    assert any(hop["came_from"] for each in told.values() for hop in each["chains"])
    assert found[0].score == 1.0
    assert told[found[0].node_id]["degraded"] == []
    given = {node.node_id: node for node in nodes_for(kind)}
    for each in found:
        assert each.node.get_content() == given[each.node_id].get_content()


async def test_a_filter_keeps_one_document(kind: Kind, filled: VectorStoreIndex, calls: Calls) -> None:
    if not kind.filters:
        with pytest.raises(Exception, match=r"(?i)filters not implemented"):
            await search(filled, SCREWS, filters=by_metadata("title", TITLES["hx200"]))
        return
    for key, value in (("title", TITLES["hx200"]), ("document_id", "hx200")):
        found = plain(await search(filled, SCREWS, filters=by_metadata(key, value)))
        assert {node.ref_doc_id for node in found} == {"hx200"}
        assert len(found) == sum(node.ref_doc_id == "hx200" for node in nodes_for(kind))


async def test_scores_are_of_the_direction_that_the_page_names(kind: Kind, filled: VectorStoreIndex) -> None:
    scores = [each.score for each in await search(filled, SCREWS, 4)]
    assert scores == sorted(scores, reverse=not kind.distances)
    assert scores[0] != scores[-1]
