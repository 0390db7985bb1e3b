"""Reranking and segments in LangChain: over a library, over anybody's chunks, and with anybody's rerankers."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.retrievers.document_compressors import CrossEncoderReranker
from langchain_classic.retrievers.document_compressors.cross_encoder import BaseCrossEncoder as ClassicCrossEncoder
from langchain_classic.storage import create_kv_docstore
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryByteStore, InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_fakes import Broken, Fixed, Traces, module_library
from langchain_text_splitters import RecursiveCharacterTextSplitter

import langchain_catena as lc
from catena import Library
from catena.effects import FetchChunks, Journal, Services
from catena.model import FilterError, ParameterError, RouteError, ServiceError
from catena.segments import (
    BALANCED,
    COHERE,
    Artefact,
    Constant,
    ExtractionParams,
    Identity,
    SegmentSearch,
    fit_beta,
)  # fmt: skip
from catena.testing import FakeReranker
from langchain_catena.places import Passages, PlaceKeys
from langchain_catena.stores import neighbour_handlers

SMALL = ExtractionParams(length_adjustment="off", overall_max_chunks=12)  # the chunks below are short
EMBEDDINGS = lc.CatenaEmbeddings()
SHORT = SegmentSearch(extraction=SMALL)
QUERY = "How is the pump primed?"


def book(name: str, chunks: int) -> list[Document]:
    """Chunks of about equal length, as a splitter returns them: text, source and offset."""
    texts = [f"{name} says in part {n} what there is to say about it." for n in range(chunks)]
    starts = [sum(len(text) + 1 for text in texts[:n]) for n in range(chunks)]
    return [
        Document(page_content=text, metadata={"source": name, "start_index": start, "title": f"{name} manual"})
        for text, start in zip(texts, starts, strict=True)
    ]


def told(document: Document, **metadata: Any) -> Document:
    return document.model_copy(update={"metadata": {**document.metadata, **metadata}})


def scored(documents: Sequence[Document], scores: dict[int, float], *, scale: str = "probability") -> list[Document]:
    """The documents at these places, best first, as a calibrated reranker returns them."""
    best = sorted(scores.items(), key=lambda pair: -pair[1])
    return [told(documents[n], relevance_score=score, catena={"scale": scale}) for n, score in best]


LINKED = lc.with_links(book("pump", 12))


class Counting(InMemoryVectorStore):
    """Keeps what it was asked for by id."""

    def __init__(self) -> None:
        super().__init__(EMBEDDINGS)
        self.asked: list[list[str]] = []

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        self.asked.append(list(ids))
        return list(reversed(super().get_by_ids(ids)))  # in any order


@pytest.fixture
def store() -> Counting:
    store = Counting()
    store.add_documents(LINKED)
    return store


def extracted(documents: Sequence[Document], **options: Any) -> list[Document]:
    return lc.CatenaSegmentExtractor(**{"params": SMALL, **options}).compress_documents(documents, QUERY)


def spans(found: Sequence[Document]) -> list[tuple[str, int, int]]:
    return [(d.metadata["document_id"], d.metadata["first_position"], d.metadata["last_position"]) for d in found]


# Links and neighbours.


def test_links_are_those_of_the_reading_order_and_inputs_stay() -> None:
    first, second = book("a", 3), book("b", 2)
    mixed = [first[0], second[0], first[1], first[2], second[1]]
    before = copy.deepcopy(mixed)
    made = lc.with_links(mixed)
    assert mixed == before
    assert [each.metadata["position"] for each in made] == [0, 0, 1, 2, 1]
    assert len({each.id for each in made}) == 5
    assert lc.with_links(mixed) == made
    assert not {"next_id", "previous_id"} & lc.with_links(made[2:3])[0].metadata.keys(), "of what was there before"
    a = [made[0], made[2], made[3]]
    assert [each.metadata.get("previous_id") for each in a] == [None, a[0].id, a[1].id]
    assert [each.metadata.get("next_id") for each in a] == [a[1].id, a[2].id, None]
    assert "previous_id" not in a[0].metadata, "vector stores take no None"
    documents = [Document(id=f"x{n}", page_content=str(n), metadata={"file": "f"}) for n in range(2)]
    own = lc.with_links(documents, document_key="file", position_key="at")
    assert [(each.id, each.metadata["at"]) for each in own] == [("x0", 0), ("x1", 1)]
    with pytest.raises(
        ParameterError, match=r"metadata\['source'\] must be the id of the document that document 'x0'"
    ):
        lc.with_links(documents)
    with pytest.raises(ParameterError, match="ids of the documents must be all different, got 'x0'"):
        lc.with_links([documents[0], documents[0]], document_key="file")


def test_every_kind_of_neighbours_gives_the_same_segments(store: Counting) -> None:
    docstore = InMemoryStore()
    docstore.mset([(str(each.id), each) for each in LINKED])
    on_bytes = create_kv_docstore(InMemoryByteStore())
    on_bytes.mset([(str(each.id), each) for each in LINKED])
    by_place = InMemoryStore()
    by_place.mset([(f"{each.metadata['source']}/{each.metadata['position']}", each) for each in LINKED])

    def fetch(document_id: str, first: int, end: int) -> list[Document]:
        assert document_id == "pump"
        return LINKED[first:end][::-1]

    async def afetch(document_id: str, first: int, end: int) -> list[Document]:
        await asyncio.sleep(0)
        return fetch(document_id, first, end)

    given_documents = scored(LINKED, {2: 0.95, 5: 0.9, 8: 0.85})
    before = copy.deepcopy(given_documents)
    expected = extracted(given_documents, neighbours=store)
    assert spans(expected) == [("pump", 2, 8)]

    async def awaited(extractor: lc.CatenaSegmentExtractor) -> list[Document]:
        with blockbuster_ctx(["catena", "langchain_catena"]):
            return await extractor.acompress_documents(given_documents, QUERY)

    for neighbours, key in (
        (docstore, None),
        (on_bytes, None),
        (by_place, lambda document_id, position: f"{document_id}/{position}"),
        (fetch, None),
        (afetch, None),
    ):
        extractor = lc.CatenaSegmentExtractor(params=SMALL, neighbours=neighbours, neighbour_key=key)
        assert extractor.compress_documents(given_documents, QUERY) == expected
        assert asyncio.run(awaited(extractor)) == expected
    assert given_documents == before


def test_chunks_of_a_function_come_in_reading_order_per_span() -> None:
    def fetch(document_id: str, first: int, end: int) -> list[Document]:
        return [LINKED[place] for place in (5, 3, 4, 7) if first <= place < end]

    answers = neighbour_handlers(fetch, Passages(PlaceKeys(), positions_needed=True))[FetchChunks]
    found = answers.call(FetchChunks(spans=(("pump", 2, 6), ("pump", 6, 9))))
    assert [[chunk.position for chunk in span] for span in found] == [[3, 4, 5], [7]]


@given(st.dictionaries(st.integers(0, 11), st.floats(0.3, 1.0), min_size=1, max_size=8), st.integers(2, 9))
def test_fetching_along_links_equals_having_all_chunks_at_hand(places: dict[int, float], longest: int) -> None:
    store = Counting()
    store.store = {
        str(d.id): {"id": d.id, "vector": [0.0], "text": d.page_content, "metadata": d.metadata} for d in LINKED
    }
    params = replace(SMALL, max_chunks=longest, minimum_value=0.2)
    options: dict[str, Any] = {"params": params, "never_empty": False}  # which may fetch once more
    hits = scored(LINKED, places)
    along = extracted(hits, neighbours=store, **options)
    assert along == extracted(hits, neighbours=lambda _, first, end: LINKED[first:end], **options)
    assert max(map(len, store.asked), default=0) <= 2 * len(places)
    assert sum(map(len, store.asked)) <= (len(places) - 1) * (longest - 2 if longest > 2 else 0)


# Places.


def test_splits_of_a_plain_splitter_with_overlap_become_exact_slices() -> None:
    text = "\n\n".join(f"Part {n}. The pump is primed in step {n}. Wait until the air is out." for n in range(30))
    splitter = RecursiveCharacterTextSplitter(chunk_size=150, chunk_overlap=40, add_start_index=True)
    splits = lc.with_links(splitter.split_documents([Document(page_content=text, metadata={"source": "p.md"})]))
    store = InMemoryVectorStore.from_documents(splits, lc.CatenaEmbeddings())
    (found,) = extracted(scored(splits, {4: 0.9, 7: 0.9}), neighbours=store)
    assert found.page_content == text[found.metadata["start_index"] : found.metadata["end_index"]]
    assert spans([found]) == [("p.md", 4, 7)]


def test_chunks_are_placed_by_offsets_or_positions_or_joined_without_claiming_any() -> None:
    chunks = book("pump", 6)
    found = extracted(scored(chunks, {1: 0.9, 2: 0.8, 5: 0.9}))
    assert [each.metadata["start_index"] for each in found] == [chunks[n].metadata["start_index"] for n in (1, 5)]
    assert found[0].page_content == f"{chunks[1].page_content} {chunks[2].page_content}"
    bare = lc.with_links([Document(page_content=f"Part {n}.", metadata={"source": "p"}) for n in range(4)])
    (joined,) = extracted(scored(bare, {1: 0.9, 2: 0.9}))
    assert joined.page_content == "Part 1.\n\nPart 2."
    assert not {"start_index", "no_offsets"} & joined.metadata.keys()
    floats = [told(each, position=float(each.metadata["position"])) for each in LINKED]  # as some stores return them
    assert spans(extracted(scored(floats, {1: 0.9, 2: 0.9}))) == [("pump", 1, 2)]
    assert spans(extracted(LINKED[4:6])) == [("pump", 4, 5)]  # without scores by their order
    assert extracted([]) == []


def test_page_by_page_splits_are_not_joined_over_a_page_by_chance() -> None:
    pages = [
        Document(page_content=letter * 40, metadata={"source": "p.pdf", "page": page, "start_index": 40 * page})
        for page, letter in enumerate("ab")
    ]
    found = extracted(scored(pages, {0: 0.9, 1: 0.9}))
    assert sorted(document.page_content[0] for document in found) == ["a", "b"]
    assert {document.metadata["first_page"] for document in found} == {1, 2}, "readers of PDFs count from 0"
    pages[1].metadata["start_index"] = 0
    (one,) = extracted(scored(lc.with_links(pages), {0: 0.9, 1: 0.9}))
    assert one.page_content == "a" * 40 + "\n\n" + "b" * 40
    assert (one.metadata["first_page"], one.metadata["last_page"]) == (1, 2)


def test_what_is_missing_or_fails_is_named_with_what_to_do(store: Counting) -> None:
    class Unable(InMemoryVectorStore):
        get_by_ids = VectorStore.get_by_ids

    raw_bytes = InMemoryByteStore()
    raw_bytes.mset([(str(each.id), b"{}") for each in LINKED])
    hits, homeless = scored(LINKED, {1: 0.9, 3: 0.9}), [Document(page_content="x")]
    nowhere = [Document(page_content="x", metadata={"source": "p"})]
    unlinked = [
        each.model_copy(update={"metadata": {k: v for k, v in each.metadata.items() if not k.endswith("_id")}})
        for each in LINKED
    ]
    for documents, options, error, match in (
        (
            book("pump", 4),
            {"neighbours": store},
            ParameterError,
            r"'position'.* of the document 'pump says.*with_links",
        ),
        (homeless, {}, ParameterError, "document_key names another key"),
        (nowhere, {}, ParameterError, r"\(or start_index in all of them\)"),
        (scored(unlinked, {0: 0.9, 3: 0.9}), {"neighbours": store}, ParameterError, "previous_id and next_id must"),
        (hits, {"neighbours": raw_bytes}, ParameterError, "create_kv_docstore"),
        (hits, {"neighbours": Unable(lc.CatenaEmbeddings())}, ServiceError, "Unable does not yet support get_by_ids"),
        (hits, {"neighbours": "store"}, ValueError, "neighbours must be a vector store, a docstore"),
        (hits, {"params": "precise"}, ValueError, "params"),
    ):
        with pytest.raises(error, match=match):
            extracted(documents, **options)


# Scores and options.


def test_the_settings_follow_from_what_the_scores_mean() -> None:
    def settings_of(documents: list[Document], **options: Any) -> ExtractionParams:
        return lc.CatenaSegmentRetriever(retriever=Fixed(docs=documents), **options).extraction(QUERY).params

    assert settings_of(LINKED[:3]).length_adjustment == "off", "nothing but the order is known"
    by_probability = settings_of(scored(LINKED, {1: 0.9, 2: 0.4}))
    assert by_probability == replace(BALANCED, overall_max_tokens=SegmentSearch().budget_tokens)
    assert settings_of(scored(LINKED, {1: 0.9}), budget_tokens=77).overall_max_tokens == 77
    assert settings_of(LINKED[:3], budget_tokens=77, options=SHORT) == replace(SMALL, overall_max_tokens=77)


def test_a_header_is_put_before_the_text_where_asked_for() -> None:
    hits = scored(LINKED, {1: 0.9})
    (found,), (bare,) = extracted(hits, content="headed"), extracted(hits, header=None)
    assert found.page_content == f"{found.metadata['header']}\n\n{LINKED[1].page_content}"
    assert found.metadata["raw_text"] == LINKED[1].page_content
    assert "header" not in bare.metadata


# The retriever.

MANUAL = (
    "# {0} manual\n\n## Mounting\n\n"
    "Mount the {0} upright, away from heat, on a wall that bears its weight for years without giving way.\n\n"
    "## Cover\n\n"
    "Before the cover of the {0} is closed, the seal must lie in its groove, clean and without a twist.\n\n"
    "Tighten the cover screws of the {0} to {1} Nm, crosswise, in two passes, and check them after a day.\n\n"
    "## Fuse\n\n"
    "The fuse of the {0} is rated 400 mA, slow, and lies behind the cover on the left side of the board.\n"
)
QUESTION, NOWHERE = (f"How tight are the cover screws of the {name}?" for name in ("HX210", "HX290"))
TORQUES = {"HX200": "3.2", "HX210": "4.5", "HX220": "6.1"}
library = module_library({f"{name.lower()}.md": MANUAL.format(name, torque) for name, torque in TORQUES.items()})


def test_k_budget_and_filter_are_obeyed_at_the_call(library: Library) -> None:
    retriever = lc.CatenaSegmentRetriever(library=library)
    many = retriever.invoke("cover screws", budget_tokens=400)
    assert [len(retriever.invoke("cover screws", k=k)) for k in (0, 1)] == [0, 1]
    base = Fixed(docs=scored(LINKED, {1: 0.9, 5: 0.95}))
    how = SegmentSearch(extraction=replace(SMALL, order="reading"))
    reading = lc.CatenaSegmentRetriever(retriever=base, options=how)
    assert [spans(reading.invoke(QUERY, k=k))[0][1] for k in (2, 1)] == [1, 5]  # the best, whatever the order
    assert sum(len(each.page_content.split()) for each in many) < 400
    assert len(retriever.invoke("cover screws", budget_tokens=60)) <= len(many)
    only = retriever.invoke("cover screws", where={"title": "HX220 manual"})
    assert {each.metadata["title"] for each in only} == {"HX220 manual"}


def test_what_stands_nowhere_stays_told_behind_a_compressor(library: Library) -> None:
    retriever = lc.CatenaRetriever(library=library, tell_unknown=True, on_unknown="keep")
    found = retriever.invoke(NOWHERE)
    reranked = lc.CatenaRerank(reranker=FakeReranker(), calibration=Identity(), top_n=2).compress_documents(
        found, QUERY
    )
    assert [document.metadata["kind"] for document in reranked] == ["unknown", "text", "text"]
    extractor = lc.CatenaSegmentExtractor(neighbours=library, calibration=Constant())
    first, segment, *_ = extractor.compress_documents(found, QUERY)
    assert first == found[0]
    assert segment.metadata["value"] > 0
    text = library.get(segment.metadata["document_id"]).document.text
    assert text[segment.metadata["start_index"] : segment.metadata["end_index"]] == segment.page_content
    (first,) = lc.CatenaSegmentRetriever(library=library, tell_unknown=True).invoke(NOWHERE)
    assert first.page_content.startswith("'HX290' stands nowhere")


def test_any_retriever_with_its_store_gives_segments(store: Counting) -> None:
    base, traces = Fixed(docs=scored(LINKED, {2: 0.95, 5: 0.9})), Traces()
    retriever = lc.CatenaSegmentRetriever(retriever=base, neighbours=store, options=SHORT)
    found = retriever.invoke(QUERY, traces.config)
    assert spans(found) == [("pump", 2, 5)]
    assert found == extracted(base.docs, neighbours=store) == asyncio.run(retriever.ainvoke(QUERY))
    (inner,) = traces.root.child_runs
    assert (inner.name, "first_ranking" in inner.tags) == ("Fixed", True)
    plain = RunnableLambda(lambda _: LINKED[2:4])
    assert spans(lc.CatenaSegmentRetriever(retriever=plain, neighbours=store, options=SHORT).invoke(QUERY)) == [
        ("pump", 2, 3)
    ]


def test_chunks_of_the_transformer_need_no_further_links() -> None:
    text = {name: MANUAL.format(name, torque) for name, torque in (("HX1", "1.1"), ("HX2", "2.2"))}
    parents = [Document(id=name, page_content=whole) for name, whole in text.items()]
    chunks = lc.CatenaDocumentTransformer(content="headed").transform_documents(parents)
    store = InMemoryVectorStore.from_documents(chunks, lc.CatenaEmbeddings())
    base = store.as_retriever(search_kwargs={"k": 6})
    retriever = lc.CatenaSegmentRetriever(retriever=base, neighbours=store, options=SHORT)
    for each in retriever.invoke("torque of the cover screws of the HX2"):
        whole = text[each.metadata["document_id"]]
        assert whole[each.metadata["start_index"] : each.metadata["end_index"]] == each.page_content
        assert each.metadata["first_line"] == whole[: each.metadata["start_index"]].count("\n") + 1


def test_what_cannot_be_done_is_said(library: Library, store: Counting) -> None:
    base = Fixed(docs=LINKED)
    for options, match in (
        ({}, "give either library"),
        ({"library": library, "neighbours": store}, "a library has its own"),
        ({"retriever": base, "by_name": True}, "by_name=… is for library"),
    ):
        with pytest.raises(ValueError, match=match):
            lc.CatenaSegmentRetriever(**options)
    with pytest.raises(FilterError, match="filter inside it"):
        lc.CatenaSegmentRetriever(retriever=base).invoke(QUERY, where={"source": "pump"})
    with pytest.raises(RouteError, match="the index is gone"):
        lc.CatenaSegmentRetriever(retriever=Broken()).invoke(QUERY)
    with pytest.raises(ParameterError, match="k must be an integer"):
        lc.CatenaSegmentRetriever(retriever=base).invoke(QUERY, k=1.5)


# Reranking.

TORQUE = "torque of the cover screws"
ENCODERS = dict.fromkeys((BaseCrossEncoder, ClassicCrossEncoder))  # one and the same but in langchain-classic 1.0


def words_shared(query: str, text: str) -> float:
    """Share of the query's words that the text has: what the rerankers of these tests score by."""
    asked = query.lower().split()
    return sum(word in text.lower().split() for word in asked) / len(asked)


class Hosted(BaseDocumentCompressor):
    """Behaves as `CohereRerank`: the best three, with scores, as new documents without ids."""

    model: str = "rerank-v9"
    top_n: int | None = 3
    seen: list[int] = []  # noqa: RUF012 - pydantic copies it

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        self.seen.append(len(documents))
        scored = [
            Document(
                page_content=each.page_content,
                metadata={**each.metadata, "relevance_score": words_shared(query, each.page_content)},
            )
            for each in documents
        ]
        scored.sort(key=lambda each: -each.metadata["relevance_score"])
        return scored[: self.top_n]


class Choosy(Hosted):
    """Leaves out what is below a threshold."""

    threshold: float = 0.5

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        found = super().compress_documents(documents, query)
        return [each for each in found if each.metadata["relevance_score"] >= self.threshold]


class Silent(BaseDocumentCompressor):
    """Orders documents and writes no score."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        return list(documents)


class Forgetful(BaseDocumentCompressor):
    """Returns documents of its own."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        return [Document(page_content=each.page_content, metadata={"relevance_score": 1.0}) for each in documents]


class Encoder(*ENCODERS):
    """A cross encoder without torch."""

    model_name = "words"

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        return [words_shared(query, text) for query, text in text_pairs]


def texts() -> list[Document]:
    said = ("the fuse", "torque of the cover screws", "the cover", "torque of screws", "nothing here")
    return [
        Document(id=f"d{n}", page_content=text, metadata={"source": "m.md", "page": n, "deep": {"kept": n}})
        for n, text in enumerate(said)
    ]


def scores_of(found: Sequence[Document]) -> list[tuple[str | None, float]]:
    return [(document.id, document.metadata["relevance_score"]) for document in found]


def reranked(
    reranker: Any, calibration: Any, documents: Sequence[Document] | None = None, **how: Any
) -> list[Document]:
    rerank = lc.CatenaRerank(reranker=reranker, calibration=calibration, **how)
    return rerank.compress_documents(texts() if documents is None else documents, TORQUE)


@given(st.lists(st.sampled_from(["torque", "cover screws", "torque of the", "fuse"]), max_size=8))
def test_every_text_is_scored_in_order_whatever_the_compressor_would_return(said: list[str]) -> None:
    hosted = Hosted()
    for compressor in (hosted, Encoder(), CrossEncoderReranker(model=Encoder())):
        assert lc.LangChainReranker(compressor).score(TORQUE, said) == [words_shared(TORQUE, text) for text in said]
    assert hosted.top_n == 3, "the user's compressor is as it was"


@pytest.mark.parametrize(
    ("compressor", "message"),
    [
        (Choosy(), r"scored 2 of 5 texts; switch its threshold and its limit off"),
        (Silent(), r"returned documents without metadata\['relevance_score'\]"),
        (Forgetful(), r"returned documents without the metadata of the texts it was given"),
    ],
)
def test_what_cannot_score_every_text_is_refused_aloud(
    compressor: BaseDocumentCompressor, message: str, caplog
) -> None:
    with pytest.raises(ServiceError, match=message):
        reranked(compressor, COHERE)
    with caplog.at_level(logging.WARNING):
        found = reranked(compressor, COHERE, on_failure="rank", top_n=2)
    assert scores_of(found) == [("d0", 0.8), ("d1", 0.8)]
    assert f"reranker: langchain:{type(compressor).__name__}" in found[0].metadata["catena"]["degraded"][0]
    assert "raw_score" not in found[0].metadata["catena"]
    assert "old order" in caplog.text


def test_a_fit_of_another_reranker_is_refused_when_it_is_given() -> None:
    identities = [lc.LangChainReranker(each).identity for each in (Hosted(), CrossEncoderReranker(model=Encoder()))]
    assert identities == ["langchain:Hosted:rerank-v9", "langchain:Encoder:words"]
    assert lc.LangChainReranker(Hosted(), identity="mine").identity == "mine"
    fit = fit_beta([place / 25 for place in range(1, 25)])
    mine = Artefact(fit=fit, model=identities[1])
    assert reranked(Encoder(), mine)[0].metadata["catena"]["calibration"] == fit.calibration.identity
    with pytest.raises(ValueError, match="fitted to scores of 'langchain:Encoder:words'"):
        lc.CatenaRerank(reranker=Hosted(), calibration=mine)
    with pytest.raises(
        ParameterError, match="compressor must be a document compressor or a cross encoder, got 'str'"
    ):
        lc.LangChainReranker("cohere")  # type: ignore[arg-type]
    for wrong in ({"reranker": "cohere"}, {"calibration": "cohere"}, {"top_n": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            lc.CatenaRerank(**{"reranker": Encoder(), "calibration": COHERE, **wrong})


def test_the_reranker_may_read_the_header_in_the_metadata() -> None:
    fake = FakeReranker(words_shared)
    about = {"title": "HX7 manual", "heading_path": "HX7 manual › Cover", "document_summary": "On the HX7."}
    reranked(fake, Identity(), [Document(page_content="Tighten them.", metadata=about)], headed=True)
    ((_, (text,)),) = fake.calls
    assert "titled 'HX7 manual'. On the HX7." in text
    assert "section titled 'Cover'" in text
    assert text.endswith("\n\nTighten them.")


def test_what_was_scored_once_is_not_asked_again_and_no_documents_are_no_calls(tmp_path) -> None:
    hosted = Hosted()
    with Journal.open(tmp_path / "journal.db") as journal:
        rerank = lc.CatenaRerank(reranker=hosted, calibration=COHERE, services=Services(journal=journal))
        assert rerank.compress_documents([], TORQUE) == []
        assert rerank.compress_documents(texts(), TORQUE) == rerank.compress_documents(texts(), TORQUE)
    assert hosted.seen == [5]


def test_what_runs_inside_is_a_child_in_the_trace() -> None:
    class Traced(BaseDocumentCompressor):
        def compress_documents(self, documents, query, callbacks=None):
            inner = RunnableLambda(lambda said: [words_shared(query, text) for text in said], name="inner")
            scores = inner.invoke([each.page_content for each in documents])
            return [told(each, relevance_score=score) for each, score in zip(documents, scores, strict=True)]

    traces = Traces()
    lc.CatenaRerank(reranker=Traced(), calibration=COHERE).compress_documents(texts(), TORQUE, [traces.collector])
    assert (traces.root.name, [run.name for run in traces.root.child_runs]) == ("langchain:Traced", ["inner"])
