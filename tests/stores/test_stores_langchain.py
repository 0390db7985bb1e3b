"""What LangChain's classes of Catena make goes into real vector stores, is found there, and comes back whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from langchain_core.documents import Document
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import VectorStore
from manuals import CHANGED, FOUNDED, PAGES, SCREWS, SLICES, TEXTS, TITLES, Calls, Kind, Place
from stores_of_langchain import EMBEDDINGS, KINDS

from catena.enrichment import ContextOptions
from catena.segments import Constant, SegmentSearch
from catena.structure import SectionChunkOptions
from langchain_catena import (
    CatenaDocumentTransformer,
    CatenaEntityTransformer,
    CatenaGraphRetriever,
    CatenaSegmentExtractor,
    CatenaSegmentRetriever,
    CatenaViewIndex,
    build_graph,
    with_uuids,
)

ALL = 100  # more than a store has here


def documents(**changed: str) -> list[Document]:
    made = []
    for name, text in {**TEXTS, **changed}.items():
        metadata = {"source": f"{name}.md", "title": TITLES[name], "edition": 3, "draft": False, "price": 0.5}
        metadata["page_offsets"] = " ".join(map(str, (*PAGES[name], len(text))))
        made.append(Document(id=name, page_content=text, metadata=metadata))
    return made


def chunks_for(kind: Kind) -> list[Document]:
    """Return chunks with headings, context and entities, as a store of this kind is to be given them."""
    cut = CatenaDocumentTransformer(
        max_tokens=24, min_tokens=0, content="context", context=ContextOptions(by="offline")
    )
    chunks = CatenaEntityTransformer().transform_documents(cut.split_documents(documents()))
    return with_uuids(chunks) if kind.uuids or kind.loses_ids else chunks


def known(kind: Kind, document: Document) -> tuple[str, str, dict[str, Any]]:
    """Return id, text and metadata of a document, without what the store itself adds."""
    said = {k: v for k, v in document.metadata.items() if k not in kind.adds and k != "catena" and v is not None}
    said.pop("relevance_score", None)
    return str(said["chunk_id"] if kind.loses_ids else document.id), document.page_content, said


def sorted_by_id(kind: Kind, found: Sequence[Document]) -> list[tuple[str, str, dict[str, Any]]]:
    return sorted((known(kind, each) for each in found), key=lambda each: each[0])


@pytest.fixture(params=KINDS, ids=[kind.name for kind in KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture
async def store(
    kind: Kind, calls: Calls, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[VectorStore]:
    """An empty store of one kind."""
    folder = request.getfixturevalue("postgres_folder") if kind.postgres else ""
    place = Place(name=f"t{uuid4().hex}", folder=tmp_path, postgres=folder, awaited=calls.awaited)
    made = await asyncio.to_thread(kind.make, place)
    yield made
    if kind.name == "PGVector":  # its ids are unique in a database, not in a collection
        await calls(made, "delete_collection")
        await made._async_engine.dispose() if calls.awaited else made._engine.dispose()
    elif kind.name == "PGVectorStore":
        await made._engine.close()


@pytest.fixture
async def filled(kind: Kind, store: VectorStore, calls: Calls) -> VectorStore:
    """The store with all chunks."""
    await calls(store, "add_documents", chunks := chunks_for(kind), ids=[chunk.id for chunk in chunks])
    return store


async def test_chunks_come_back_as_they_were(kind: Kind, filled: VectorStore, calls: Calls) -> None:
    chunks = chunks_for(kind)
    found = await calls(filled, "similarity_search", SCREWS, k=ALL)
    assert sorted_by_id(kind, found) == sorted_by_id(kind, chunks)
    assert SLICES["first"] in found[0].page_content
    for each in found:
        said = each.metadata
        assert TEXTS[said["document_id"]][said["start_index"] : said["end_index"]] == said["raw_text"]
        assert type(said["position"]) is type(said["edition"]) is int
        assert "page" in said["citation"]
        assert "line" in said["citation"]
    assert {each.metadata["entities"] for each in found if each.metadata.get("entities")} == {"hx200", "hx210"}
    assert kind.loses_ids == any(each.id is None for each in found)


async def test_chunks_are_given_by_id(kind: Kind, filled: VectorStore, calls: Calls) -> None:
    chunks = chunks_for(kind)
    asked = [chunk.id for chunk in chunks[1:3]]
    if not kind.by_id:
        with pytest.raises(ValueError, match="with get_by_ids, which it has not; a docstore"):
            CatenaSegmentExtractor(neighbours=filled, calibration=Constant())
        return
    found = await calls(filled, "get_by_ids", asked)
    assert sorted_by_id(kind, found) == sorted_by_id(kind, chunks[1:3])


async def test_a_second_writing_leaves_each_chunk_once(kind: Kind, filled: VectorStore, calls: Calls) -> None:
    chunks = chunks_for(kind)
    ids = [chunk.id for chunk in chunks]
    if kind.name in ("FAISS", "LanceDB"):  # these add, and never replace: what was there goes first
        await calls(filled, "delete", ids)
    await calls(filled, "add_documents", chunks, ids=ids)
    found = await calls(filled, "similarity_search", SCREWS, k=ALL)
    assert sorted_by_id(kind, found) == sorted_by_id(kind, chunks)


async def test_plain_ids_are_refused_where_the_page_says_so(kind: Kind, store: VectorStore, calls: Calls) -> None:
    chunk = Document(id="0123456789abcdef", page_content="A spare gasket.", metadata={"source": "spares.md"})
    if kind.uuids:
        with pytest.raises(Exception, match=r"(?i)uuid"):
            await calls(store, "add_documents", [chunk], ids=[chunk.id])
        (chunk,) = with_uuids([chunk])
        assert str(UUID(chunk.id)) == chunk.id
    await calls(store, "add_documents", [chunk], ids=[chunk.id])


async def test_ids_of_pgvector_are_those_of_a_whole_database(postgres_folder: str, tmp_path: Path) -> None:
    (pgvector,) = (kind for kind in KINDS if kind.name == "PGVector")
    chunk = Document(id="gasket", page_content="A spare gasket.", metadata={})
    places = [
        Place(name=f"t{uuid4().hex}", folder=tmp_path, postgres=postgres_folder, awaited=False) for _ in range(2)
    ]
    first, second = stores = [pgvector.make(place) for place in places]
    for store in stores:
        store.add_documents([chunk], ids=["gasket"])
    assert [len(store.similarity_search("gasket")) for store in (first, second)] == [1, 0]
    for store in stores:
        store.delete_collection()
        store._engine.dispose()


async def views_in(store: VectorStore, calls: Calls) -> list[tuple[str, str, str]]:
    found = await calls(store, "similarity_search", SCREWS, k=ALL)
    return sorted((each.metadata["doc_id"], each.metadata["view"], each.page_content) for each in found)


def parents(**changed: str) -> list[Document]:
    return CatenaDocumentTransformer(chunks=SectionChunkOptions()).split_documents(documents(**changed))


async def test_an_index_of_views_leaves_nothing_behind(kind: Kind, store: VectorStore, calls: Calls) -> None:
    index = CatenaViewIndex(vectorstore=store, docstore=InMemoryStore())
    await calls(index, "add", parents())
    before = await views_in(store, calls)
    changes = await calls(index, "replace", parents(hx210=CHANGED))
    assert changes.parents_deleted == 1
    after = await views_in(store, calls)
    assert {text for _, _, text in after if "six screws" in text} == set()
    assert len({doc_id for doc_id, _, _ in {*after} - {*before}}) == 1
    assert len(after) == len(set(after))
    await calls(index, "replace", parents())
    assert await views_in(store, calls) == before
    await calls(index, "delete", "hx210.md", "hx200.md")
    left = await calls(store, "similarity_search", SCREWS, k=ALL)
    assert {each.metadata["source"] for each in left} == {"krona.md"}
    await calls(index, "delete", "krona.md")
    assert await calls(index, "sources") == ()


async def test_parents_are_found_under_their_views(kind: Kind, store: VectorStore, calls: Calls) -> None:
    index = CatenaViewIndex(vectorstore=store, docstore=InMemoryStore())
    await calls(index, "add", parents())
    retriever = index.retriever(k=2, filtering=lambda view: kind.where("view", view))
    found = await calls(retriever, "invoke", SCREWS)
    best = found[0].metadata
    assert best["document_id"] == "hx210"
    assert TEXTS["hx210"][best["start_index"] : best["end_index"]] == found[0].page_content
    assert set(best["catena"]["views"]) <= {"passage", "keywords", "summary"}
    assert best["catena"]["degraded"] == []
    for each in found:
        for way in each.metadata["catena"]["routes"]:
            assert way["score"] <= 0 if kind.distances else way["score"] > 0
    ranked = sorted((way["rank"], -way["score"]) for each in found for way in each.metadata["catena"]["routes"])
    assert ranked[0][1] == min(score for _, score in ranked if _ == 1)


async def test_segments_take_their_neighbours_from_the_store(kind: Kind, filled: VectorStore, calls: Calls) -> None:
    chunks = chunks_for(kind)
    docstore = InMemoryStore()
    docstore.mset([(str(chunk.id), chunk) for chunk in chunks])
    neighbours = filled if kind.by_id else docstore
    base = filled.as_retriever(search_kwargs={"k": 3})
    options = SegmentSearch(calibration=Constant())
    found = await calls(
        CatenaSegmentRetriever(retriever=base, neighbours=neighbours, options=options), "invoke", SCREWS
    )
    best = next(each for each in found if SLICES["first"] in each.page_content)
    for each in found:
        said = each.metadata
        whole = TEXTS[said["document_id"]][said["start_index"] : said["end_index"]]
        assert "".join(each.page_content.split()) == "".join(whole.split())
        assert said["first_line"] == TEXTS[said["document_id"]].count("\n", 0, said["start_index"]) + 1
    assert best.metadata["document_id"] == "hx210"
    first = [chunks[0], chunks[2]]  # what stands between them is the store's to give
    assert len({each.metadata["document_id"] for each in first}) == 1
    extractor = CatenaSegmentExtractor(neighbours=neighbours, calibration=Constant(), params="find_all")
    (whole, *_) = await calls(extractor, "compress_documents", first, SCREWS)
    assert (whole.metadata["first_position"], whole.metadata["last_position"]) == (0, 2)
    assert whole.metadata["catena"]["chunk_ids"] == [chunk.id for chunk in chunks[:3]]


async def test_a_graph_of_the_chunks_is_walked_from_the_store(kind: Kind, filled: VectorStore, calls: Calls) -> None:
    stored = await calls(filled, "similarity_search", FOUNDED, k=ALL)
    graph = build_graph(stored, EMBEDDINGS)
    assert set(graph.ids) == {chunk.id for chunk in chunks_for(kind)}
    first = filled.as_retriever(search_kwargs={"k": 2})
    walked = CatenaGraphRetriever(retriever=first, graph=graph, embeddings=EMBEDDINGS, k=6)
    found = await calls(walked, "invoke", FOUNDED)
    by_store = {known(kind, each)[0] for each in await calls(filled, "similarity_search", FOUNDED, k=2)}
    hops = {each.metadata["catena"]["chunk_id"]: each.metadata["catena"]["chains"] for each in found}
    assert by_store < hops.keys()
    assert any(hop["came_from"] in hops for hops_ in hops.values() for hop in hops_ if hop["hop"] > 1)
    assert found[0].metadata["catena"]["degraded"] == []
    assert sorted_by_id(kind, [each for each in found if known(kind, each)[0] in by_store])


async def test_a_filter_keeps_one_document(kind: Kind, filled: VectorStore, calls: Calls) -> None:
    asked = kind.where("document_id", "hx200")
    found = await calls(filled, "similarity_search", SCREWS, k=ALL, **asked)
    assert {each.metadata["document_id"] for each in found} == {"hx200"}
    assert len(found) == sum(chunk.metadata["document_id"] == "hx200" for chunk in chunks_for(kind))


async def test_scores_are_of_the_direction_that_the_page_names(kind: Kind, filled: VectorStore, calls: Calls) -> None:
    scores = [score for _, score in await calls(filled, "similarity_search_with_score", SCREWS, k=4)]
    assert scores == sorted(scores, reverse=not kind.distances)
    assert scores[0] != scores[-1]
