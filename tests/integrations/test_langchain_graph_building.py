"""Graphs of LangChain documents: which node each is, what the graph is told of it, and how it follows changes."""

from __future__ import annotations

import datetime
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import ReplyingChatModel
from langchain_fakes import PASSAGES, embeddings, passages

from catena.effects import Cancel, Journal, Services
from catena.enrichment import GraphKeywords
from catena.graph import ChunkGraph, GraphOptions, Node
from catena.graph.storage import to_line, to_node
from catena.model import CancelledError, ParameterError, ServiceError
from catena.testing import FakeEmbedder
from langchain_catena import (
    CatenaDocumentTransformer,
    CatenaEmbeddings,
    CatenaGraphRetriever,
    abuild_graph,
    aupdate_graph,
    build_graph,
    update_graph,
    with_content_ids,
)
from langchain_catena.graph_building import NodeKeys, from_graph_chunk, to_graph_chunk


def structural(graph: ChunkGraph) -> set[tuple[str, str]]:
    """Return the neighbours in reading order, each pair once."""
    links = graph.links("structural")
    pairs = zip(links.sources.tolist(), links.targets.tolist(), strict=True)
    return {tuple(sorted((graph.ids[one], graph.ids[other]))) for one, other in pairs}  # type: ignore[misc]


# What a document tells the graph.


def test_edges_are_those_that_the_passages_give_by_hand() -> None:
    graph = build_graph(passages(), embeddings())
    assert graph.ids == tuple(f"p{number}" for number in range(len(PASSAGES)))
    assert graph.node("p0").titles == ("Arno Hale",)
    assert graph.edge("p0", "p1").weights["structural"] == 1.0  # type: ignore[union-attr]
    assert structural(graph) == {("p0", "p1")}  # the only two of one file
    assert graph.edge("p0", "p2").words["mention"] == ("Verdel",)  # type: ignore[union-attr]
    assert graph.edge("p2", "p0").words["mentioned"] == ("Verdel",)  # type: ignore[union-attr]
    assert graph.edge("p2", "p3").words["mention"] == ("Ombra",)  # type: ignore[union-attr]
    assert graph.edge("p0", "p4").words["mention"] == ("Night Ferry",)  # type: ignore[union-attr]


def test_places_are_those_that_are_said_else_the_order_within_the_source() -> None:
    texts = ["first", "second", "third"]
    said = [
        Document(id=text, page_content=text, metadata={"source": "a", "position": place, "place": 2 - place})
        for place, text in enumerate(texts)
    ]
    in_order = {("first", "second"), ("second", "third")}
    assert structural(build_graph(said[::-1], embeddings())) == in_order
    assert [build_graph(said, embeddings(), position_key="place").chunk(text).position for text in texts] == [2, 1, 0]
    silent = [each.model_copy(update={"metadata": {"source": "a"}}) for each in said]
    assert structural(build_graph(silent, embeddings())) == in_order
    one_silent = [said[2], silent[0], said[1]]  # then none is believed
    assert structural(build_graph(one_silent, embeddings())) == {("first", "third"), ("first", "second")}
    other = Document(id="other", page_content="other", metadata={"source": "b"})
    taking_turns = [silent[0], other, silent[1], silent[2]]
    assert structural(build_graph(taking_turns, embeddings())) == in_order
    by_file = [each.model_copy(update={"metadata": {"file": each.id}}) for each in said]
    assert structural(build_graph(by_file, embeddings(), source_key="file")) == set()
    assert structural(build_graph([each.model_copy(update={"metadata": {}}) for each in said], embeddings())) == set()


def test_titles_and_keywords_come_from_the_keys_that_are_named() -> None:
    about = {"name": "Pump (device)", "also": ["Impeller", "Rotor"], "tags": ["steel", "Impeller"]}
    document = Document(id="a", page_content="The pump turns and turns.", metadata=about)
    other = Document(id="b", page_content="No keys.", metadata={"tags": "iron; cast iron"})
    keys: dict[str, Any] = {"title_keys": ["name", "also"], "keyword_key": "tags"}
    graph = build_graph([document, other], embeddings(), **keys)
    assert graph.node("a").titles == ("Pump", "Impeller", "Rotor")
    assert graph.node("a").keywords == ("steel",)  # a title is none
    assert graph.node("b").titles == ()
    assert graph.node("b").keywords == ("iron", "cast iron")
    plain = build_graph([document], embeddings())
    assert plain.node("a").titles == ()
    assert plain.node("a").keywords == ("turns",)


def test_chunks_of_catena_are_told_by_their_headings_and_embedded_as_shown() -> None:
    parent = Document(page_content="# Verdel\n\n## Glass\n\nThe red glass.\n\n## River\n\nThe Ombra.\n")
    chunks = CatenaDocumentTransformer(content="headed", min_tokens=1).split_documents([parent])
    embedder = FakeEmbedder(dim=48)
    graph = build_graph(chunks, CatenaEmbeddings(embedder))
    titles = {graph.node(str(each.id)).titles for each in chunks}
    assert titles == {("Verdel", "Glass"), ("Verdel", "River")}
    node = graph.node(str(chunks[0].id))
    assert node.chunk.text == chunks[0].metadata["raw_text"] != chunks[0].page_content
    assert embedder.calls == [tuple(each.page_content for each in chunks)]
    assert from_graph_chunk(node.chunk) == chunks[0]


_plain = st.text(max_size=8) | st.integers(-5, 5) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
_values = st.recursive(
    _plain | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
_keys = st.sampled_from(
    ["title", "source", "position", "page", "heading_path", "kind", "raw_text", "x", "start_index"]
)


@given(st.text(max_size=30), st.dictionaries(_keys, _values, max_size=4), st.integers(0, 9))
def test_a_document_comes_back_from_the_graph_as_it_was(text: str, metadata: dict[str, Any], place: int) -> None:
    document = Document(id="x", page_content=text, metadata=metadata)
    chunk = to_graph_chunk(document, "x", NodeKeys(), position=place)
    read = to_node(to_line(Node(chunk=chunk)))
    assert isinstance(read, Node)
    assert from_graph_chunk(read.chunk) == document
    assert read.chunk.position == place


def test_what_json_has_no_form_for_comes_back_as_text_and_scores_stay_behind(tmp_path: Path) -> None:
    circle: list[Any] = []
    circle.append(circle)
    metadata = {
        "day": datetime.date(1931, 5, 2),
        "pairs": {(1, 2): "x"},
        "circle": circle,
        "days": [datetime.date(1931, 5, 2)],
        "relevance_score": 0.5,
        "catena": {"scale": "rank"},
    }
    document = Document(id="a", page_content="An opera.", metadata=metadata)
    build_graph([document], embeddings()).save(tmp_path / "graph")
    found = from_graph_chunk(ChunkGraph.load(tmp_path / "graph").chunk("a"))
    assert found is not None
    assert found.metadata == {
        "day": "1931-05-02",
        "pairs": "{(1, 2): 'x'}",
        "circle": "[[...]]",
        "days": ["1931-05-02"],
    }
    assert document.metadata["day"] == datetime.date(1931, 5, 2)


# Which node a document is.


def test_ids_are_the_documents_own_else_made_of_what_they_say() -> None:
    named = build_graph(passages(), embeddings())
    nameless = build_graph(passages(ids=False), embeddings())
    assert len(nameless) == len(named) == len(PASSAGES)
    expected = {each.id for each in with_content_ids(passages(ids=False))}
    assert set(nameless.ids) == expected
    by_key = build_graph(
        [each.model_copy(update={"metadata": {"key": f"k{n}"}}) for n, each in enumerate(passages())],
        embeddings(),
        id_key="key",
    )
    assert by_key.ids == tuple(f"k{number}" for number in range(len(PASSAGES)))
    twins = build_graph([passages(ids=False)[0]] * 2, embeddings())
    assert len(twins) == 2


@pytest.mark.parametrize("way", ["own", "content", "key"])
def test_what_a_store_gives_back_is_known_again(way: str) -> None:
    documents = passages(ids=way == "own", key="")
    documents = [
        each.model_copy(update={"metadata": {**each.metadata, "key": f"k{number}"}})
        for number, each in enumerate(documents)
    ]
    store = InMemoryVectorStore(embeddings())
    store.add_documents(documents)  # names nameless ones at random
    id_key = "key" if way == "key" else None
    graph = build_graph(documents, embeddings(), id_key=id_key)
    retriever = CatenaGraphRetriever(vectorstore=store, graph=graph, id_key=id_key, k=len(PASSAGES))
    found = retriever.invoke("Who is the mayor of Verdel?")
    assert len(found) == len(PASSAGES)
    assert {each.metadata["catena"]["chunk_id"] for each in found} == set(graph.ids)
    assert {each.id for each in found} == set(store.store)


def test_documents_that_say_nothing_of_their_source_are_known_again() -> None:
    documents = [Document(page_content=each.page_content) for each in passages()]
    store = InMemoryVectorStore.from_documents(documents, embeddings())  # names them at random
    graph = build_graph(documents, embeddings())
    found = CatenaGraphRetriever(vectorstore=store, graph=graph, k=len(documents)).invoke("Who is the mayor?")
    assert {each.metadata["catena"]["chunk_id"] for each in found} == set(graph.ids)
    assert any(each.metadata["catena"]["chains"] for each in found)
    (stored, *_) = store.similarity_search("mayor", k=1)
    assert len(update_graph(graph, embeddings(), removed=[stored])) == len(graph) - 1


# Changes.


_numbers = st.sets(st.integers(0, len(PASSAGES) - 1))


@settings(max_examples=25)
@given(_numbers, _numbers, _numbers, st.booleans())
def test_an_update_is_a_rebuild(first: set[int], added: set[int], removed: set[int], named: bool) -> None:
    everything = [
        each.model_copy(update={"metadata": {**each.metadata, "position": number}})
        for number, each in enumerate(passages(ids=named))
    ]
    before = build_graph([everything[number] for number in sorted(first)], embeddings())
    gone = [everything[number] for number in sorted(removed & first)]
    after = update_graph(before, embeddings(), added=[everything[number] for number in added], removed=gone)
    left = (first - removed) | added
    assert after.identity == build_graph([everything[number] for number in left], embeddings()).identity
    assert before.identity == build_graph([everything[number] for number in sorted(first)], embeddings()).identity


def test_sources_are_replaced_and_newcomers_come_behind() -> None:
    graph = build_graph(passages(), embeddings())
    new = Document(id="new", page_content="Arno Hale is at rest.", metadata={"source": "arno hale.md"})
    more = update_graph(graph, embeddings(), added=[new])
    assert structural(more) == {("p0", "p1"), ("new", "p1")}
    instead = update_graph(graph, embeddings(), added=[new], removed_sources=["arno hale.md"])
    assert set(instead.ids) == {*graph.ids, "new"} - {"p0", "p1"}
    assert instead.chunk("new").position == 0
    changed = new.model_copy(update={"id": "p2"})
    assert update_graph(graph, embeddings(), added=[changed]).chunk("p2").text == "Arno Hale is at rest."
    again = update_graph(graph, embeddings(), added=passages(), removed=["p0"], removed_sources=["pump.md"])
    assert again.identity == graph.identity
    assert update_graph(graph, embeddings()).identity == graph.identity
    parts = [Document(id=f"{n}", page_content=f"Part {n}.", metadata={"source": "parts.md"}) for n in range(4)]
    shorter = update_graph(build_graph(parts, embeddings()), embeddings(), removed=["1"])
    assert [shorter.chunk(name).position for name in shorter.ids] == [0, 2, 3]
    assert (
        structural(shorter)
        == structural(build_graph([parts[0], *parts[2:]], embeddings()))
        == {("0", "2"), ("2", "3")}
    )
    twins = [Document(page_content="Twice.", metadata={"source": "twins.md"})] * 2
    both = build_graph(twins, embeddings())
    assert update_graph(both, embeddings(), added=twins).identity == both.identity
    assert len(update_graph(graph, embeddings(), removed=graph.ids)) == 0


def test_what_is_not_there_cannot_be_removed() -> None:
    graph = build_graph(passages(), embeddings())
    for removed in (["nowhere"], [Document(id="nowhere", page_content="x")]):
        with pytest.raises(ParameterError, match="nowhere"):
            update_graph(graph, embeddings(), removed=removed)  # type: ignore[arg-type]
    other = CatenaEmbeddings(FakeEmbedder(dim=7))
    with pytest.raises(ParameterError, match="vectors"):
        update_graph(graph, other, added=[Document(id="new", page_content="x")])


# Models.


def keywords_reply(messages: list[Any]) -> str:
    text = messages[-1].text
    return json.dumps(
        [word for word in ("glass", "mayor", "bees", "harmony", "opera", "fruit", "hose", "hills") if word in text]
    )


async def test_a_model_finds_keywords_where_none_are_said_and_nothing_is_paid_twice(tmp_path: Path) -> None:
    model = ReplyingChatModel(reply=keywords_reply)
    embedder = FakeEmbedder(dim=48)
    services = Services(journal=Journal.open(tmp_path / "journal.db"))
    documents = passages()
    documents[3] = documents[3].model_copy(update={"metadata": {**documents[3].metadata, "keywords": ["spring"]}})
    how: dict[str, Any] = {"llm": model, "services": services, "keyword_key": "keywords"}
    graph = build_graph(documents, CatenaEmbeddings(embedder), **how)
    assert graph.node("p1").keywords == ("bees", "harmony")
    assert graph.node("p3").keywords == ("spring",)
    assert len(model.sent) == len(PASSAGES) - 1
    sent, asked = len(model.sent), len(embedder.calls)
    with blockbuster_ctx(["langchain_catena", "catena"]):
        again = await abuild_graph(documents, CatenaEmbeddings(embedder), **how)
    assert again.identity == graph.identity
    assert (len(model.sent), len(embedder.calls)) == (sent, asked)
    few = build_graph(documents, embeddings(), llm=model, keywords=GraphKeywords(count=1))
    assert all(len(few.node(name).keywords) <= 1 for name in few.ids)
    services.journal.close()  # type: ignore[union-attr]


def test_where_a_model_fails_keywords_are_found_without_it(caplog: pytest.LogCaptureFixture) -> None:
    def reply(messages: list[Any]) -> str:
        if "glass" in messages[-1].text:
            raise ValueError("no answer")
        return keywords_reply(messages)

    with caplog.at_level(logging.WARNING):
        graph = build_graph(passages(), embeddings(), llm=ReplyingChatModel(reply=reply))
    assert graph.node("p2").keywords == build_graph(passages(), embeddings()).node("p2").keywords
    assert "verdel.md" in caplog.text
    assert "without the model" in caplog.text
    assert set(graph.node("p1").keywords) == {"bees", "harmony"}


async def test_async_builds_the_same_graph_without_blocking() -> None:
    options = GraphOptions(neighbours=2)
    graph = build_graph(passages(), embeddings(), options)
    changed = update_graph(graph, embeddings(), added=passages()[:1], removed=["p6"])
    with blockbuster_ctx(["langchain_catena", "catena"]):
        agraph = await abuild_graph(passages(), embeddings(), options)
        achanged = await aupdate_graph(agraph, embeddings(), added=passages()[:1], removed=["p6"])
    assert (agraph.identity, achanged.identity) == (graph.identity, changed.identity)
    assert agraph.options == options


def test_embeddings_of_either_kind_are_taken_and_brought_to_unit_length() -> None:
    own = DeterministicFakeEmbedding(size=8)
    graph = build_graph(passages(), own)
    assert (len(graph), graph.dim) == (len(PASSAGES), 8)
    embedder = FakeEmbedder(dim=48)
    assert build_graph(passages(), embedder).identity == build_graph(passages(), embeddings()).identity
    assert len(build_graph([], embeddings())) == 0


def test_failures_and_wrong_arguments_are_named(caplog: pytest.LogCaptureFixture) -> None:
    class Down(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            raise RuntimeError("the endpoint is down")

        def embed_query(self, text: str) -> list[float]:
            raise RuntimeError("the endpoint is down")

    with pytest.raises(ServiceError, match="the endpoint is down"):
        build_graph(passages(), Down())
    with pytest.raises(ParameterError, match="embeddings"):
        build_graph(passages(), "minilm")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="embeddings"):
        build_graph(passages(), FakeEmbedder)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="title_keys"):
        build_graph(passages(), embeddings(), title_keys="title")
    with pytest.raises(ParameterError, match="llm"):
        build_graph(passages(), embeddings(), keywords=GraphKeywords())
    with pytest.raises(ParameterError, match=r"'year'.* of document 'p0'"):
        build_graph(passages(year=1931), embeddings(), keyword_key="year")
    with pytest.raises(ParameterError, match="p0"):
        build_graph([*passages(), passages()[0]], embeddings())
    with pytest.raises(ParameterError, match="id_kye"):
        build_graph(passages(), embeddings(), id_kye="key")  # type: ignore[call-arg]
    for odd in (passages()[0], ["a text"], "a text"):
        with pytest.raises(ParameterError, match="documents"):
            build_graph(odd, embeddings())  # type: ignore[arg-type]
    for name, alone in (("removed", "p0"), ("removed_sources", "pump.md"), ("added", passages()[0])):
        with pytest.raises(ParameterError, match=f"^{name} "):
            update_graph(build_graph(passages(), embeddings()), embeddings(), **{name: alone})  # type: ignore[arg-type]
    cancel = Cancel()
    cancel.set()
    with pytest.raises(CancelledError):
        build_graph(passages(), embeddings(), services=Services(cancel=cancel))


def test_progress_is_told() -> None:
    seen: list[tuple[int, int]] = []
    build_graph(passages(), embeddings(), progress=lambda told: seen.append((told.done, told.total)))
    assert seen[-1][0] == seen[-1][1] > 0
