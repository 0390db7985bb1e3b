"""Segments in LangChain: over a library, and over anybody's chunks with neighbours from their own stores."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_classic.storage import create_kv_docstore
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.load import dumpd
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryByteStore, InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_fakes import Fixed, ReplyingChatModel
from langchain_text_splitters import RecursiveCharacterTextSplitter

from catena import Library
from catena.effects import FetchChunks
from catena.model import FilterError, ParameterError, RouteError, ServiceError
from catena.segments import BALANCED, Constant, ExtractionParams, Identity, SegmentSearch, explain
from catena.testing import FakeReranker
from langchain_catena import (
    CatenaDocumentTransformer,
    CatenaEmbeddings,
    CatenaRerank,
    CatenaRetriever,
    CatenaSegmentExtractor,
    CatenaSegmentRetriever,
    with_links,
)
from langchain_catena.places import Passages, PlaceKeys
from langchain_catena.stores import neighbour_handlers

SMALL = ExtractionParams(length_adjustment="off", overall_max_chunks=12)  # the chunks below are short
EMBEDDINGS = CatenaEmbeddings()
QUERY = "How is the pump primed?"


def book(name: str, chunks: int) -> list[Document]:
    """Chunks of about equal length, as a splitter returns them: text, source and offset."""
    texts = [f"{name} says in part {n} what there is to say about it." for n in range(chunks)]
    starts = [sum(len(text) + 1 for text in texts[:n]) for n in range(chunks)]
    return [
        Document(page_content=text, metadata={"source": name, "start_index": start, "title": f"{name} manual"})
        for text, start in zip(texts, starts, strict=True)
    ]


def scored(documents: Sequence[Document], scores: dict[int, float], *, scale: str = "probability") -> list[Document]:
    """The documents at these places, best first, as a calibrated reranker returns them."""
    return [
        documents[n].model_copy(
            update={"metadata": {**documents[n].metadata, "relevance_score": score, "catena": {"scale": scale}}}
        )
        for n, score in sorted(scores.items(), key=lambda pair: -pair[1])
    ]


TWENTY = with_links(book("pump", 20))


class Counting(InMemoryVectorStore):
    """Keeps what it was asked for by id."""

    def __init__(self) -> None:
        super().__init__(EMBEDDINGS)
        self.asked: list[list[str]] = []

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        self.asked.append(list(ids))
        return list(reversed(super().get_by_ids(ids)))  # in any order


@pytest.fixture
def linked() -> list[Document]:
    return with_links(book("pump", 12))


@pytest.fixture
def store(linked: list[Document]) -> Counting:
    store = Counting()
    store.add_documents(linked)
    return store


def spans(found: Sequence[Document]) -> list[tuple[str, int, int]]:
    return [(d.metadata["document_id"], d.metadata["first_position"], d.metadata["last_position"]) for d in found]


def test_links_are_those_of_the_reading_order_and_inputs_stay() -> None:
    first, second = book("a", 3), book("b", 2)
    mixed = [first[0], second[0], first[1], first[2], second[1]]
    before = copy.deepcopy(mixed)
    made = with_links(mixed)
    assert mixed == before
    assert [each.metadata["position"] for each in made] == [0, 0, 1, 2, 1]
    assert len({each.id for each in made}) == 5
    assert [each.id for each in with_links(mixed)] == [each.id for each in made], "ids are derived"
    a = [made[0], made[2], made[3]]
    assert [each.metadata.get("previous_id") for each in a] == [None, a[0].id, a[1].id]
    assert [each.metadata.get("next_id") for each in a] == [a[1].id, a[2].id, None]
    assert "previous_id" not in a[0].metadata, "vector stores take no None"


def test_links_keep_given_ids_and_take_other_keys() -> None:
    documents = [Document(id=f"x{n}", page_content=str(n), metadata={"file": "f"}) for n in range(2)]
    made = with_links(documents, document_key="file", position_key="at")
    assert [(each.id, each.metadata["at"]) for each in made] == [("x0", 0), ("x1", 1)]
    with pytest.raises(
        ParameterError, match=r"metadata\['source'\] must be the id of the document that document 'x0'"
    ):
        with_links(documents)
    with pytest.raises(ParameterError, match="ids of the documents must be all different, got 'x0'"):
        with_links([documents[0], documents[0]], document_key="file")


def test_a_gap_is_filled_from_the_vector_store_along_the_links(linked: list[Document], store: Counting) -> None:
    extractor = CatenaSegmentExtractor(params=SMALL, neighbours=store)
    (found,) = extractor.compress_documents(scored(linked, {3: 0.95, 6: 0.9, 7: 0.8}), QUERY)
    assert spans([found]) == [("pump", 3, 7)]
    assert store.asked == [[linked[4].id, linked[5].id]], "nothing but the gap, from both sides at once"
    text = "\n".join(each.page_content for each in linked[3:8])
    assert found.page_content == text.replace("\n", " "), "one character stood between two chunks"
    metadata = found.metadata
    assert metadata["start_index"] == linked[3].metadata["start_index"]
    assert metadata["end_index"] == linked[7].metadata["start_index"] + len(linked[7].page_content)
    assert metadata["catena"]["chunk_ids"] == [each.id for each in linked[3:8]]
    assert metadata["catena"]["scale"] == "value"
    assert metadata["catena"]["queries"] == [0]
    assert metadata["value"] == metadata["relevance_score"] > 0.5
    assert metadata["citation"] == "pump manual"
    assert metadata["source"] == "pump"
    assert metadata["header"] == "Document context: the following excerpt is from a document titled 'pump manual'."


def test_without_neighbours_what_nobody_found_is_a_wall(linked: list[Document]) -> None:
    extractor = CatenaSegmentExtractor(params=SMALL)
    found = extractor.compress_documents(scored(linked, {3: 0.95, 6: 0.9, 7: 0.8}), QUERY)
    assert sorted(spans(found)) == [("pump", 3, 3), ("pump", 6, 7)]


def test_every_kind_of_neighbours_gives_the_same_segments(linked: list[Document], store: Counting) -> None:
    docstore: InMemoryStore = InMemoryStore()
    docstore.mset([(str(each.id), each) for each in linked])
    on_bytes = create_kv_docstore(InMemoryByteStore())
    on_bytes.mset([(str(each.id), each) for each in linked])
    by_place: InMemoryStore = InMemoryStore()
    by_place.mset([(f"{each.metadata['source']}/{each.metadata['position']}", each) for each in linked])

    def fetch(document_id: str, first: int, end: int) -> list[Document]:
        assert document_id == "pump"
        return linked[first:end][::-1]

    async def afetch(document_id: str, first: int, end: int) -> list[Document]:
        await asyncio.sleep(0)
        return fetch(document_id, first, end)

    given_documents = scored(linked, {2: 0.95, 5: 0.9, 8: 0.85})
    before = copy.deepcopy(given_documents)
    expected = CatenaSegmentExtractor(params=SMALL, neighbours=store).compress_documents(given_documents, QUERY)
    assert spans(expected) == [("pump", 2, 8)]
    for neighbours, key in (
        (docstore, None),
        (on_bytes, None),
        (by_place, lambda document_id, position: f"{document_id}/{position}"),
        (fetch, None),
        (afetch, None),
    ):
        extractor = CatenaSegmentExtractor(params=SMALL, neighbours=neighbours, neighbour_key=key)
        assert extractor.compress_documents(given_documents, QUERY) == expected
        assert asyncio.run(_async(extractor, given_documents)) == expected
    assert given_documents == before


def test_chunks_of_a_function_come_in_reading_order_per_span(linked: list[Document]) -> None:
    def fetch(document_id: str, first: int, end: int) -> list[Document]:
        return [linked[place] for place in (5, 3, 4, 7) if first <= place < end]

    answers = neighbour_handlers(fetch, Passages(PlaceKeys(), positions_needed=True))[FetchChunks]
    found = answers.call(FetchChunks(spans=(("pump", 2, 6), ("pump", 6, 9))))
    assert [[chunk.position for chunk in span] for span in found] == [[3, 4, 5], [7]]


async def _async(extractor: CatenaSegmentExtractor, documents: list[Document]) -> list[Document]:
    with blockbuster_ctx(["catena", "langchain_catena"]):
        return await extractor.acompress_documents(documents, QUERY)


@given(
    places=st.dictionaries(st.integers(0, 19), st.floats(0.3, 1.0), min_size=1, max_size=8),
    longest=st.integers(2, 9),
)
@settings(max_examples=50)
def test_fetching_along_links_equals_having_all_chunks_at_hand(places: dict[int, float], longest: int) -> None:
    chunks, store = TWENTY, Counting()
    store.store = {
        str(d.id): {"id": d.id, "vector": [0.0], "text": d.page_content, "metadata": d.metadata} for d in chunks
    }
    params = replace(SMALL, max_chunks=longest, minimum_value=0.2)
    hits = scored(chunks, places)
    options: dict[str, Any] = {"params": params, "never_empty": False}  # which may fetch once more
    along = CatenaSegmentExtractor(neighbours=store, **options).compress_documents(hits, QUERY)
    at_hand = CatenaSegmentExtractor(neighbours=lambda _, first, end: chunks[first:end], **options)
    assert along == at_hand.compress_documents(hits, QUERY)
    assert max(map(len, store.asked), default=0) <= 2 * len(places)
    assert sum(map(len, store.asked)) <= (len(places) - 1) * (longest - 2 if longest > 2 else 0)


def test_a_neighbour_that_was_deleted_is_a_wall(linked: list[Document], store: Counting) -> None:
    store.delete([str(linked[5].id)])
    found = CatenaSegmentExtractor(params=SMALL, neighbours=store).compress_documents(
        scored(linked, {3: 0.95, 7: 0.9}), QUERY
    )
    assert sorted(spans(found)) == [("pump", 3, 3), ("pump", 7, 7)]


def test_splits_of_a_plain_splitter_with_overlap_become_exact_slices() -> None:
    text = "\n\n".join(f"Part {n}. The pump is primed in step {n}. Wait until the air is out." for n in range(30))
    splitter = RecursiveCharacterTextSplitter(chunk_size=150, chunk_overlap=40, add_start_index=True)
    splits = with_links(splitter.split_documents([Document(page_content=text, metadata={"source": "p.md"})]))
    store = InMemoryVectorStore.from_documents(splits, CatenaEmbeddings())
    extractor = CatenaSegmentExtractor(params=SMALL, neighbours=store)
    (found,) = extractor.compress_documents(scored(splits, {4: 0.9, 7: 0.9}), QUERY)
    assert found.page_content == text[found.metadata["start_index"] : found.metadata["end_index"]]
    assert spans([found]) == [("p.md", 4, 7)]


def test_offsets_alone_do_without_neighbours() -> None:
    chunks = book("pump", 6)
    found = CatenaSegmentExtractor(params=SMALL).compress_documents(scored(chunks, {1: 0.9, 2: 0.8, 5: 0.9}), QUERY)
    assert [document.metadata["start_index"] for document in found] == [
        chunks[1].metadata["start_index"],
        chunks[5].metadata["start_index"],
    ]
    assert found[0].page_content == f"{chunks[1].page_content} {chunks[2].page_content}"


def test_page_by_page_splits_are_not_joined_over_a_page_by_chance() -> None:
    pages = [
        Document(page_content="a" * 40, metadata={"source": "p.pdf", "page": 0, "start_index": 0}),
        Document(page_content="b" * 40, metadata={"source": "p.pdf", "page": 1, "start_index": 40}),
    ]
    found = CatenaSegmentExtractor(params=SMALL).compress_documents(scored(pages, {0: 0.9, 1: 0.9}), QUERY)
    assert sorted(document.page_content[0] for document in found) == ["a", "b"]
    assert {document.metadata["first_page"] for document in found} == {1, 2}, "readers of PDFs count from 0"
    pages[1].metadata["start_index"] = 0
    (one,) = CatenaSegmentExtractor(params=SMALL).compress_documents(
        scored(with_links(pages), {0: 0.9, 1: 0.9}), QUERY
    )
    assert one.page_content == "a" * 40 + "\n\n" + "b" * 40
    assert (one.metadata["first_page"], one.metadata["last_page"]) == (1, 2)


def test_chunks_without_offsets_are_joined_and_claim_none() -> None:
    chunks = [Document(page_content=f"Part {n}.", metadata={"source": "p"}) for n in range(4)]
    (found,) = CatenaSegmentExtractor(params=SMALL).compress_documents(
        scored(with_links(chunks), {1: 0.9, 2: 0.9}), QUERY
    )
    assert found.page_content == "Part 1.\n\nPart 2."
    assert "start_index" not in found.metadata
    assert "no_offsets" not in found.metadata


def test_positions_that_a_store_gives_back_as_floats_are_positions() -> None:
    chunks = [
        each.model_copy(update={"metadata": {**each.metadata, "position": float(each.metadata["position"])}})
        for each in with_links(book("pump", 4))
    ]
    (found,) = CatenaSegmentExtractor(params=SMALL).compress_documents(scored(chunks, {1: 0.9, 2: 0.9}), QUERY)
    assert spans([found]) == [("pump", 1, 2)]


def test_what_is_missing_is_named_with_what_to_do(linked: list[Document], store: Counting) -> None:
    bare = book("pump", 4)
    with pytest.raises(ParameterError, match=r"metadata\['position'\] of the document 'pump says.*with_links"):
        CatenaSegmentExtractor(neighbours=store).compress_documents(scored(bare, {0: 0.9}), QUERY)
    homeless = [Document(page_content="x", metadata={"relevance_score": 0.9, "catena": {"scale": "probability"}})]
    with pytest.raises(ParameterError, match="document_key names another key"):
        CatenaSegmentExtractor().compress_documents(homeless, QUERY)
    nowhere = [Document(page_content="x", metadata={"source": "p"})]
    with pytest.raises(ParameterError, match=r"\(or start_index in all of them\)"):
        CatenaSegmentExtractor().compress_documents(nowhere, QUERY)
    unlinked = [
        each.model_copy(
            update={"metadata": {k: v for k, v in each.metadata.items() if k not in ("previous_id", "next_id")}}
        )
        for each in linked
    ]
    with pytest.raises(ParameterError, match="previous_id and next_id must be in the metadata"):
        CatenaSegmentExtractor(params=SMALL, neighbours=store).compress_documents(
            scored(unlinked, {0: 0.9, 3: 0.9}), QUERY
        )


def test_scores_that_are_no_probabilities_need_a_calibration(linked: list[Document]) -> None:
    raw = scored(linked, {1: 0.99, 2: 0.98}, scale="similarity")
    for documents in (raw, [each.model_copy(update={"metadata": dict(each.metadata, catena={})}) for each in raw]):
        with pytest.raises(ParameterError, match="calibration must be given, because the documents' relevance_score"):
            CatenaSegmentExtractor(params=SMALL).compress_documents(documents, QUERY)
        extractor = CatenaSegmentExtractor(params=SMALL, calibration=Identity())
        assert spans(extractor.compress_documents(documents, QUERY)) == [("pump", 1, 2)]
    assert spans(CatenaSegmentExtractor(params=SMALL, calibration=Constant()).compress_documents(raw, QUERY)) == [
        ("pump", 1, 2)
    ]


def test_the_best_scores_come_first_whatever_the_order_of_the_documents(linked: list[Document]) -> None:
    hits = scored(linked, {1: 0.95, 2: 0.9, 7: 0.5})
    extractor = CatenaSegmentExtractor(params=replace(SMALL, decay_rate=2.0), calibration=Identity())
    assert extractor.compress_documents(hits[::-1], QUERY) == extractor.compress_documents(hits, QUERY)
    raw = scored(linked, {1: 0.95, 2: 0.9, 7: 0.5}, scale="similarity")
    assert spans(extractor.compress_documents(raw[::-1], QUERY)) == spans(extractor.compress_documents(hits, QUERY))


def test_the_settings_follow_from_what_the_scores_mean(linked: list[Document]) -> None:
    def settings_of(documents: list[Document], **options: Any) -> ExtractionParams:
        return CatenaSegmentRetriever(retriever=Fixed(docs=documents), **options).extraction(QUERY).params

    by_order = settings_of(linked[:3])
    by_probability = settings_of(scored(linked, {1: 0.9, 2: 0.4}))
    assert by_order.length_adjustment == "off", "nothing but the order is known"
    assert by_probability == replace(BALANCED, overall_max_tokens=SegmentSearch().budget_tokens)
    assert settings_of(scored(linked, {1: 0.9}), budget_tokens=77).overall_max_tokens == 77
    assert settings_of(linked[:3], budget_tokens=77, options=SegmentSearch(extraction=SMALL)) == replace(
        SMALL, overall_max_tokens=77
    )


def test_what_stands_nowhere_stays_told_behind_a_compressor(library: Library) -> None:
    retriever = CatenaRetriever(library=library, tell_unknown=True, on_unknown="keep")
    found = retriever.invoke("How tight are the cover screws of the HX290?")
    assert found[0].metadata["kind"] == "unknown"
    reranked = CatenaRerank(reranker=FakeReranker(), calibration=Identity(), top_n=2).compress_documents(found, QUERY)
    assert [document.metadata["kind"] for document in reranked] == ["unknown", "text", "text"]
    extractor = CatenaSegmentExtractor(neighbours=library, calibration=Constant())
    told, segment, *_ = extractor.compress_documents(found, QUERY)
    assert told == found[0]
    assert segment.metadata["value"] > 0


def test_numpy_numbers_are_scores(linked: list[Document]) -> None:
    hits = scored(linked, {1: 0.95, 2: 0.9})
    single = [
        each.model_copy(
            update={"metadata": {**each.metadata, "relevance_score": np.float32(each.metadata["relevance_score"])}}
        )
        for each in hits
    ]
    extractor = CatenaSegmentExtractor(params=SMALL)
    (found,), (expected,) = (extractor.compress_documents(each, QUERY) for each in (single, hits))
    assert found.metadata["value"] == pytest.approx(expected.metadata["value"], abs=1e-6)


def test_documents_without_scores_are_taken_by_their_order(linked: list[Document]) -> None:
    found = CatenaSegmentExtractor(params=SMALL).compress_documents(linked[4:6], QUERY)
    assert spans(found) == [("pump", 4, 5)]


def test_where_nothing_is_worth_the_minimum_the_best_is_returned_aloud(linked: list[Document]) -> None:
    few = scored(linked, {1: 0.4, 5: 0.3})
    found = CatenaSegmentExtractor(params=SMALL).compress_documents(few, QUERY)
    assert spans(found) == [("pump", 1, 1)]
    assert "none is worth 0.5" in found[0].metadata["catena"]["degraded"][0]
    assert CatenaSegmentExtractor(params=SMALL, never_empty=False).compress_documents(few, QUERY) == []


def test_a_header_is_put_before_the_text_where_asked_for(linked: list[Document]) -> None:
    hits = scored(linked, {1: 0.9})
    (found,) = CatenaSegmentExtractor(params=SMALL, content="headed").compress_documents(hits, QUERY)
    assert found.page_content == f"{found.metadata['header']}\n\n{linked[1].page_content}"
    assert found.metadata["raw_text"] == linked[1].page_content
    (bare,) = CatenaSegmentExtractor(params=SMALL, header=None).compress_documents(hits, QUERY)
    assert "header" not in bare.metadata


def test_presets_go_by_name(linked: list[Document]) -> None:
    hits = scored(linked, {1: 0.9})
    assert CatenaSegmentExtractor(params="find_all").compress_documents(hits, QUERY)
    with pytest.raises(ValueError, match="params"):
        CatenaSegmentExtractor(params="precise")


def test_no_documents_no_segments_and_a_document_that_comes_twice_counts_once(linked: list[Document]) -> None:
    extractor = CatenaSegmentExtractor(params=SMALL)
    assert extractor.compress_documents([], QUERY) == []
    hits = scored(linked, {1: 0.9, 2: 0.8})
    assert extractor.compress_documents([*hits, *hits], QUERY) == extractor.compress_documents(hits, QUERY)


def test_neighbours_that_fail_are_told_by_name(linked: list[Document]) -> None:
    class Unable(InMemoryVectorStore):
        get_by_ids = VectorStore.get_by_ids

    hits = scored(linked, {1: 0.9, 3: 0.9})
    with pytest.raises(ServiceError, match="Unable does not yet support get_by_ids"):
        CatenaSegmentExtractor(params=SMALL, neighbours=Unable(CatenaEmbeddings())).compress_documents(hits, QUERY)
    raw_bytes = InMemoryByteStore()
    raw_bytes.mset([(str(each.id), b"{}") for each in linked])
    with pytest.raises(ParameterError, match="create_kv_docstore"):
        CatenaSegmentExtractor(params=SMALL, neighbours=raw_bytes).compress_documents(hits, QUERY)
    with pytest.raises(ValueError, match="neighbours must be a vector store, a docstore"):
        CatenaSegmentExtractor(neighbours="store")


async def test_rerank_and_extraction_work_in_langchains_own_retriever(
    linked: list[Document], store: Counting
) -> None:
    retriever = ContextualCompressionRetriever(
        base_compressor=DocumentCompressorPipeline(
            transformers=[
                CatenaRerank(reranker=FakeReranker(_part_five), calibration=Identity()),
                CatenaSegmentExtractor(params=SMALL, neighbours=store),
            ]
        ),
        base_retriever=store.as_retriever(search_kwargs={"k": 12}),
    )
    found = retriever.invoke("part 5")
    assert found[0].metadata["first_position"] <= 5 <= found[0].metadata["last_position"]
    assert await retriever.ainvoke("part 5") == found
    assert retriever.batch(["part 5", "part 5"]) == [found, found]


def _part_five(query: str, text: str) -> float:
    return {"part 4": 0.6, "part 5": 0.95, "part 6": 0.7}.get(text[13:19], 0.0)


# The retriever.

MANUAL = """# {name} manual

## Mounting

Mount the {name} upright, away from heat, on a wall that bears its weight for years without giving way.

## Cover

Before the cover of the {name} is closed, the seal must lie in its groove, clean and without a twist.

Tighten the cover screws of the {name} to {torque} Nm, crosswise, in two passes, and check them after a day.

## Fuse

The fuse of the {name} is rated {fuse} mA, slow, and lies behind the cover on the left side of the board.
"""
QUESTION = "How tight are the cover screws of the HX210?"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("manuals")
    for name, torque, fuse in (("HX200", "3.2", 250), ("HX210", "4.5", 400), ("HX220", "6.1", 630)):
        text = MANUAL.format(name=name, torque=torque, fuse=fuse)
        (folder / f"{name.lower()}.md").write_text(text, encoding="utf-8")
    with Library.open(folder / "library") as opened:
        opened.index(sorted(folder.glob("*.md")))
        yield opened


@pytest.fixture
def over_library(library: Library) -> CatenaSegmentRetriever:
    return CatenaSegmentRetriever(library=library)


def test_segments_of_a_library_are_exact_slices(over_library: CatenaSegmentRetriever, library: Library) -> None:
    found = over_library.invoke(QUESTION)
    assert "4.5 Nm" in found[0].page_content
    for document in found:
        text = library.get(document.metadata["document_id"]).document.text
        assert text[document.metadata["start_index"] : document.metadata["end_index"]] == document.page_content
    assert found[0].metadata["citation"].startswith("HX210 manual")
    values = [document.metadata["value"] for document in found]
    assert values == sorted(values, reverse=True)


def test_it_equals_the_library_itself_and_can_be_explained(
    over_library: CatenaSegmentRetriever, library: Library
) -> None:
    extraction = over_library.extraction(QUESTION)
    assert extraction.segments == library.segments(QUESTION).segments
    assert explain(extraction)


def test_k_budget_and_filter_are_obeyed_at_the_call(over_library: CatenaSegmentRetriever) -> None:
    many = over_library.invoke("cover screws", budget_tokens=400)
    assert len(over_library.invoke("cover screws", k=1)) == 1
    assert sum(len(each.page_content.split()) for each in many) < 400
    assert len(over_library.invoke("cover screws", budget_tokens=60)) <= len(many)
    only = over_library.invoke("cover screws", where={"title": "HX220 manual"})
    assert {each.metadata["title"] for each in only} == {"HX220 manual"}
    assert over_library.invoke("cover screws", k=0) == []


def test_names_that_stand_nowhere_are_told(over_library: CatenaSegmentRetriever, library: Library) -> None:
    events: list[tuple[str, Any]] = []

    class Events(BaseCallbackHandler):
        def on_custom_event(self, name, data, **kwargs) -> None:
            events.append((name, data))

    asked = "How tight are the cover screws of the HX290?"
    assert over_library.invoke(asked, {"callbacks": [Events()]}) == []
    assert [(name, data["text"]) for name, data in events] == [("catena_unknown", "HX290")]
    (told,) = CatenaSegmentRetriever(library=library, tell_unknown=True).invoke(asked)
    assert told.page_content.startswith("'HX290' stands nowhere")


def test_a_model_writes_queries_and_a_reranker_scores(library: Library) -> None:
    model = ReplyingChatModel(reply=lambda messages: '["torque of the cover screws", "fuse rating"]')
    reranker = FakeReranker()
    retriever = CatenaSegmentRetriever(
        library=library, llm=model, reranker=reranker, options=SegmentSearch(calibration=Identity())
    )
    extraction = retriever.extraction(QUESTION)
    assert extraction.asked == (QUESTION, "torque of the cover screws", "fuse rating")
    assert len(model.sent) == 1
    assert {query for query, _ in reranker.calls} == set(extraction.asked)
    assert retriever.invoke(QUESTION)[0].metadata["catena"]["queries"]


def test_any_retriever_with_its_store_gives_segments(linked: list[Document], store: Counting) -> None:
    base = Fixed(docs=scored(linked, {2: 0.95, 5: 0.9}))
    retriever = CatenaSegmentRetriever(retriever=base, neighbours=store, options=SegmentSearch(extraction=SMALL))
    assert spans(retriever.invoke(QUERY)) == [("pump", 2, 5)]
    extractor = CatenaSegmentExtractor(params=SMALL, neighbours=store)
    assert retriever.invoke(QUERY) == extractor.compress_documents(base.docs, QUERY)
    assert asyncio.run(retriever.ainvoke(QUERY)) == retriever.invoke(QUERY)
    raw = CatenaSegmentRetriever(
        retriever=RunnableLambda(lambda _: linked[2:4]), neighbours=store, options=SegmentSearch(extraction=SMALL)
    )
    assert spans(raw.invoke(QUERY)) == [("pump", 2, 3)]


def test_queries_find_apart_and_are_placed_together(linked: list[Document]) -> None:
    bare = book("pump", 8)
    answers = {"part two": [bare[2]], "part three": [bare[3], bare[6]]}
    model = ReplyingChatModel(reply=lambda messages: '["part two", "part three"]')
    retriever = CatenaSegmentRetriever(
        retriever=RunnableLambda(lambda query: answers.get(query, [])),
        llm=model,
        options=SegmentSearch(extraction=replace(SMALL, queries="joint")),
    )
    found = retriever.invoke(QUERY)
    assert found[0].page_content == f"{bare[2].page_content} {bare[3].page_content}"
    assert found[0].metadata["catena"]["queries"] == [1, 2]


def test_chunks_of_a_catena_library_are_extracted_with_it_as_neighbour(library: Library) -> None:
    ranked = CatenaRetriever(library=library, k=6).invoke(QUESTION)
    found = CatenaSegmentExtractor(calibration=Constant(), neighbours=library, params=SMALL).compress_documents(
        ranked, QUESTION
    )
    text = library.get(found[0].metadata["document_id"]).document.text
    assert text[found[0].metadata["start_index"] : found[0].metadata["end_index"]] == found[0].page_content


def test_chunks_of_the_transformer_need_no_further_links(library: Library) -> None:
    parents = [
        Document(id=name, page_content=MANUAL.format(name=name, torque=torque, fuse=1))
        for name, torque in (("HX1", "1.1"), ("HX2", "2.2"))
    ]
    chunks = CatenaDocumentTransformer(content="headed").transform_documents(parents)
    store = InMemoryVectorStore.from_documents(chunks, CatenaEmbeddings())
    retriever = CatenaSegmentRetriever(
        retriever=store.as_retriever(search_kwargs={"k": 6}),
        neighbours=store,
        options=SegmentSearch(extraction=SMALL),
    )
    found = retriever.invoke("torque of the cover screws of the HX2")
    text = {parent.id: parent.page_content for parent in parents}
    for each in found:
        whole = text[each.metadata["document_id"]]
        assert whole[each.metadata["start_index"] : each.metadata["end_index"]] == each.page_content
        assert each.metadata["first_line"] == whole[: each.metadata["start_index"]].count("\n") + 1


def test_child_calls_are_children_in_the_trace(linked: list[Document]) -> None:
    seen: list[tuple[Any, Any]] = []

    class Runs(BaseCallbackHandler):
        def on_retriever_start(self, serialized, query, *, run_id, parent_run_id=None, **kwargs) -> None:
            seen.append((run_id, parent_run_id))

    retriever = CatenaSegmentRetriever(retriever=Fixed(docs=scored(linked, {1: 0.9})))
    retriever.invoke(QUERY, {"callbacks": [Runs()]})
    (outer, none), (_, parent) = seen
    assert none is None
    assert parent == outer


def test_what_cannot_be_done_is_said(library: Library, linked: list[Document], store: Counting) -> None:
    with pytest.raises(ValueError, match="give either library"):
        CatenaSegmentRetriever()
    with pytest.raises(ValueError, match="a library has its own"):
        CatenaSegmentRetriever(library=library, neighbours=store)
    base = Fixed(docs=linked)
    with pytest.raises(FilterError, match="filter inside it"):
        CatenaSegmentRetriever(retriever=base).invoke(QUERY, where={"source": "pump"})

    def fail(query: str) -> list[Document]:
        raise RuntimeError("the index is gone")

    with pytest.raises(RouteError, match="the index is gone"):
        CatenaSegmentRetriever(retriever=RunnableLambda(fail)).invoke(QUERY)
    assert dumpd(CatenaSegmentRetriever(library=library))["type"] == "not_implemented"
