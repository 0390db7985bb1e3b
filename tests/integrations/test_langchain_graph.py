"""Evidence chains in LangChain: what documents tell a graph, which node they are, and walks in pipelines."""

from __future__ import annotations

import datetime
import json
import logging
from pathlib import Path
from typing import Any

import langchain_fakes as fakes
import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

import langchain_catena as lc
from catena import Library
from catena.effects import Cancel, Journal, Services
from catena.enrichment import GraphKeywords
from catena.graph import PAPER, ChunkGraph, GraphSearch, Node, SimilarityScorer, WalkOptions
from catena.graph.storage import to_line, to_node
from catena.model import (
    CancelledError,
    FilterError,
    ParameterError,
    Ranking,
    RouteError,
    Scale,
    ServiceError,
    Unknown,
)
from catena.segments import Constant
from catena.testing import FakeEmbedder, FakeReranker
from langchain_catena.convert import unknown_document
from langchain_catena.graph_building import NodeKeys, from_graph_chunk, to_graph_chunk

SIMILAR = SimilarityScorer()
HOW = GraphSearch(scorer=SIMILAR)
# from p0 these lead to p2 and p4, from p2 to p3, and nowhere else
OF_GRAPH = GraphSearch(scorer=SIMILAR, walk=WalkOptions(candidates="graph", kinds=("mention",)))


@pytest.fixture(scope="module")
def graph() -> ChunkGraph:
    return lc.build_graph(fakes.passages(), fakes.embeddings())


@pytest.fixture(scope="module")
def own(graph: ChunkGraph) -> dict[str, Any]:
    """The graph and its embeddings."""
    return {"graph": graph, "embeddings": fakes.embeddings()}


@pytest.fixture
def store() -> InMemoryVectorStore:
    made = InMemoryVectorStore(fakes.embeddings())
    made.add_documents(fakes.passages(pages=[1, 2]))
    return made


# What is found; what both adapters promise is in test_graphs.py.


def test_it_is_found_as_it_was_given_and_hops_name_the_words_that_they_are_the_first_to_cover(
    own: dict[str, Any], store: InMemoryVectorStore
) -> None:
    given = [*fakes.passages(pages=[1, 2])[:1], fakes.passages()[0]]  # one that comes twice counts once
    found = lc.CatenaGraphRetriever(retriever=fakes.Fixed(docs=given), **own, how=OF_GRAPH, k=4).invoke(fakes.RIVER)
    assert (fakes.ids(found)[0], set(fakes.ids(found)), found[0].metadata["pages"]) == (
        "p0",
        {"p0", "p2", "p3", "p4"},
        [1, 2],
    )
    first, second = (
        next(each.metadata["catena"]["chains"][0] for each in found if each.id == name) for name in ("p0", "p2")
    )
    assert "composer" in set(first["words"]) - set(second["words"])  # the chain has covered it
    whole = lc.CatenaGraphRetriever(vectorstore=store, graph=own["graph"], how=HOW, k=5)
    assert len(whole.result(fakes.RIVER).first.hits) == len(fakes.PASSAGES)  # `depth` of them, and not four
    by_paper = GraphSearch(scorer=SIMILAR, walk=PAPER)
    assert lc.CatenaGraphRetriever(vectorstore=store, graph=own["graph"], how=by_paper).result(fakes.RIVER).keywords


def test_a_filter_holds_for_what_is_given_and_what_the_graph_brings(
    own: dict[str, Any], store: InMemoryVectorStore
) -> None:
    where = {"title": {"$in": ["Arno Hale", "Verdel"]}}
    retriever = lc.CatenaGraphRetriever(vectorstore=store, graph=own["graph"], where=where)
    assert set(fakes.ids(retriever.invoke(fakes.RIVER))) == {"p0", "p1", "p2"}
    assert set(fakes.ids(retriever.invoke(fakes.RIVER, where={"title": "Ombra"}))) == {"p3"}
    wider = lc.CatenaChainCompressor(**own, where=where)
    assert set(fakes.ids(wider.compress_documents(fakes.passages(), fakes.RIVER))) == {"p0", "p1", "p2"}
    with pytest.raises(FilterError):
        retriever.invoke(fakes.RIVER, where={"title": {"$near": "Ombra"}})


def test_what_stands_nowhere_is_told_in_front(own: dict[str, Any]) -> None:
    note = unknown_document(Ranking((), Scale.RANK, unknown=(Unknown("HX290"),)))
    given = [note, *fakes.passages()]
    retriever = lc.CatenaGraphRetriever(retriever=fakes.Fixed(docs=given), **own, tell_unknown=True)
    for found in (
        retriever.invoke(fakes.RIVER),
        lc.CatenaChainCompressor(**own).compress_documents(given, fakes.RIVER),
    ):
        assert found[0].metadata["kind"] == "unknown"
        assert lc.format_chains(found).startswith("'HX290' stands nowhere")


# Async, callbacks, pipelines.


async def test_the_inner_retriever_and_the_model_are_children_of_the_run(own: dict[str, Any]) -> None:
    model = fakes.ReplyingChatModel(reply=lambda messages: '["Arno Hale", "Night Ferry"]')
    how = GraphSearch(scorer=SIMILAR, keywords_by="llm", walk=PAPER)
    made = lc.CatenaGraphRetriever(
        retriever=fakes.Fixed(docs=fakes.passages()), **own, how=how, llm=model, k=3, tags=["own"]
    )
    traces = [fakes.Traces(), fakes.Traces()]
    made.invoke(fakes.RIVER, traces[0].config)
    await made.ainvoke(fakes.RIVER, traces[1].config)
    for root in (each.root for each in traces):
        inner = {run.name: run for run in root.child_runs}
        assert (root.name, root.tags, set(inner)) == ("CatenaGraphRetriever", ["own"], {"Fixed", "ReplyingChatModel"})
        assert "first_ranking" in inner["Fixed"].tags
        assert [len(run.outputs["documents"]) for run in (root, inner["Fixed"])] == [3, len(fakes.PASSAGES)]


def test_it_is_a_stage_before_and_behind_others(own: dict[str, Any], store: InMemoryVectorStore) -> None:
    rerank = lc.CatenaRerank(reranker=FakeReranker(), calibration=Constant())
    pipeline = DocumentCompressorPipeline(transformers=[rerank, lc.CatenaChainCompressor(**own, how=HOW, k=4)])
    found = pipeline.compress_documents(store.similarity_search(fakes.RIVER, k=2), fakes.RIVER)
    told = found[0].metadata["catena"]
    assert (len(found), told["reranker"], told["scale"]) == (
        4,
        "fake-reranker",
        "rank",
    )  # what was said is still said
    back = rerank.compress_documents(found, fakes.RIVER)
    assert {each.id for each in back} == set(fakes.ids(found))
    assert all(each.metadata["catena"]["chains"] for each in back)


# What fails.


class Down(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise RuntimeError("the endpoint is down")

    embed_query = embed_documents  # type: ignore[assignment]


async def test_a_route_that_fails_and_a_callers_mistake_are_told_apart(own: dict[str, Any]) -> None:
    routes = {"retriever": lc.CatenaRetriever.over({"bad": fakes.Broken()}), **own, "how": HOW, "k": 3}
    made = lc.CatenaGraphRetriever(**routes)
    assert made.invoke(fakes.RIVER)[0].metadata["catena"]["degraded"]
    with blockbuster_ctx(["catena", "langchain_catena"]):
        assert await made.aresult(fakes.RIVER) == made.result(fakes.RIVER)
    with pytest.raises(RouteError, match="the index is gone"):
        lc.CatenaGraphRetriever(**routes, on_retriever_error="raise").invoke(fakes.RIVER)
    mistaken = lc.CatenaRetriever.over({"good": fakes.Fixed(docs=fakes.passages())}, where={"title": "Ombra"})
    with pytest.raises(FilterError):  # the caller's mistake, which no other ranking makes good
        lc.CatenaGraphRetriever(**{**routes, "retriever": mistaken}).invoke(fakes.RIVER)


def test_wrong_options_are_named(graph: ChunkGraph, store: InMemoryVectorStore, tmp_path: Path) -> None:
    base, retriever = fakes.Fixed(docs=fakes.passages()), lc.CatenaGraphRetriever
    with Library.open(tmp_path / "library") as library:
        for kind, options, match in (
            (retriever, {}, "either library"),
            (retriever, {"library": library, "graph": graph}, "either library"),
            (retriever, {"library": library, "embeddings": fakes.embeddings()}, "a library has its own"),
            (retriever, {"graph": graph}, "for the first ranking"),
            (retriever, {"graph": graph, "retriever": base, "vectorstore": store}, "either retriever"),
            (retriever, {"graph": graph, "retriever": base}, "by which it was built"),
            (retriever, {"graph": graph, "retriever": base, "embeddings": "minilm"}, "embeddings"),
            (retriever, {"library": library, "k": -1}, "k"),
            (retriever, {"library": library, "how": "best"}, "GraphSearch"),
            (lc.CatenaChainCompressor, {}, "either library"),
            (lc.CatenaChainCompressor, {"graph": graph}, "by which it was built"),
        ):
            with pytest.raises(ValueError, match=match):
                kind(**options)
    other = DeterministicFakeEmbedding(size=7)
    with pytest.raises(ParameterError, match="vector of the question"):
        retriever(retriever=base, graph=graph, embeddings=other).invoke(fakes.RIVER)


def test_what_says_no_place_in_a_chain_is_a_chain_alone(own: dict[str, Any]) -> None:
    found = lc.CatenaGraphRetriever(retriever=fakes.Fixed(docs=fakes.passages()[:1]), **own, how=OF_GRAPH).invoke(
        fakes.RIVER
    )
    assert lc.chain_formatter().invoke(found) == lc.format_chains(found)
    place = found[1].metadata["catena"]["chains"][0]
    odd = ["no chains", [3], [{"chain": 1}], [{**place, "score": "x"}], [{**place, "edges": {"a": "x"}}], {"a": 1}]
    for told in (*({"chains": each} for each in [*odd, [{**place, "shared": {"a": 3}}], None]), 3):
        (alone,) = lc.chains_of([Document(id="x", page_content="Odd.", metadata={"catena": told})])
        assert [(hop.chunk.text, hop.came_from) for hop in alone.hops] == [("Odd.", "")]


# Graphs of documents: what a document tells the graph.


def structural(graph: ChunkGraph) -> set[tuple[str, str]]:
    """Return the neighbours in reading order, each pair once."""
    links = graph.links("structural")
    pairs = zip(links.sources.tolist(), links.targets.tolist(), strict=True)
    return {tuple(sorted((graph.ids[one], graph.ids[other]))) for one, other in pairs}  # type: ignore[misc]


def test_places_are_those_that_are_said_else_the_order_within_the_source() -> None:
    texts = ["first", "second", "third"]
    said = [
        Document(id=text, page_content=text, metadata={"source": "a", "position": place, "place": 2 - place})
        for place, text in enumerate(texts)
    ]
    in_order = {("first", "second"), ("second", "third")}
    assert structural(lc.build_graph(said[::-1], fakes.embeddings())) == in_order
    assert [
        lc.build_graph(said, fakes.embeddings(), position_key="place").chunk(text).position for text in texts
    ] == [2, 1, 0]
    silent = [each.model_copy(update={"metadata": {"source": "a"}}) for each in said]
    assert structural(lc.build_graph(silent, fakes.embeddings())) == in_order
    one_silent = [said[2], silent[0], said[1]]  # then none is believed
    assert structural(lc.build_graph(one_silent, fakes.embeddings())) == {("first", "third"), ("first", "second")}
    other = Document(id="other", page_content="other", metadata={"source": "b"})
    taking_turns = [silent[0], other, silent[1], silent[2]]
    assert structural(lc.build_graph(taking_turns, fakes.embeddings())) == in_order
    by_file = [each.model_copy(update={"metadata": {"file": each.id}}) for each in said]
    assert structural(lc.build_graph(by_file, fakes.embeddings(), source_key="file")) == set()
    assert (
        structural(lc.build_graph([each.model_copy(update={"metadata": {}}) for each in said], fakes.embeddings()))
        == set()
    )


def test_titles_and_keywords_come_from_the_keys_that_are_named() -> None:
    about = {"name": "Pump (device)", "also": ["Impeller", "Rotor"], "tags": ["steel", "Impeller"]}
    document = Document(id="a", page_content="The pump turns and turns.", metadata=about)
    other = Document(id="b", page_content="No keys.", metadata={"tags": "iron; cast iron"})
    keys: dict[str, Any] = {"title_keys": ["name", "also"], "keyword_key": "tags"}
    graph = lc.build_graph([document, other], fakes.embeddings(), **keys)
    assert graph.node("a").titles == ("Pump", "Impeller", "Rotor")
    assert graph.node("a").keywords == ("steel",)  # a title is none
    assert graph.node("b").titles == ()
    assert graph.node("b").keywords == ("iron", "cast iron")
    plain = lc.build_graph([document], fakes.embeddings())
    assert plain.node("a").titles == ()
    assert plain.node("a").keywords == ("turns",)


def test_chunks_of_catena_are_told_by_their_headings_and_embedded_as_shown() -> None:
    parent = Document(page_content="# Verdel\n\n## Glass\n\nThe red glass.\n\n## River\n\nThe Ombra.\n")
    chunks = lc.CatenaDocumentTransformer(content="headed", min_tokens=1).split_documents([parent])
    embedder = FakeEmbedder(dim=48)
    graph = lc.build_graph(chunks, lc.CatenaEmbeddings(embedder))
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
    lc.build_graph([document], fakes.embeddings()).save(tmp_path / "graph")
    found = from_graph_chunk(ChunkGraph.load(tmp_path / "graph").chunk("a"))
    assert found is not None
    assert found.metadata == {
        "day": "1931-05-02",
        "pairs": "{(1, 2): 'x'}",
        "circle": "[[...]]",
        "days": ["1931-05-02"],
    }
    assert document.metadata["day"] == datetime.date(1931, 5, 2)


# Which node a document is, and changes.


def test_ids_are_the_documents_own_else_made_of_what_they_say(graph: ChunkGraph) -> None:
    nameless = lc.build_graph(fakes.passages(ids=False), fakes.embeddings())
    assert set(nameless.ids) == {each.id for each in lc.with_content_ids(fakes.passages(ids=False))}
    assert len(nameless) == len(graph) == len(fakes.PASSAGES)
    keyed = [each.model_copy(update={"metadata": {"key": f"k{n}"}}) for n, each in enumerate(fakes.passages())]
    by_key = lc.build_graph(keyed, fakes.embeddings(), id_key="key")
    assert by_key.ids == tuple(f"k{number}" for number in range(len(fakes.PASSAGES)))
    assert len(lc.build_graph([fakes.passages(ids=False)[0]] * 2, fakes.embeddings())) == 2


@pytest.mark.parametrize("way", ["own", "content", "key", "nothing"])
def test_what_a_store_gives_back_is_known_again(way: str) -> None:
    documents = [
        each.model_copy(update={"metadata": {} if way == "nothing" else {**each.metadata, "key": f"k{number}"}})
        for number, each in enumerate(fakes.passages(ids=way == "own"))
    ]
    store = InMemoryVectorStore.from_documents(documents, fakes.embeddings())  # names nameless ones at random
    id_key = "key" if way == "key" else None
    graph = lc.build_graph(documents, fakes.embeddings(), id_key=id_key)
    retriever = lc.CatenaGraphRetriever(vectorstore=store, graph=graph, id_key=id_key, k=len(fakes.PASSAGES))
    found = retriever.invoke("Who is the mayor of Verdel?")
    assert {each.metadata["catena"]["chunk_id"] for each in found} == set(graph.ids)
    assert {each.id for each in found} == set(store.store)
    (stored, *_) = store.similarity_search("mayor", k=1)
    assert len(lc.update_graph(graph, fakes.embeddings(), removed=[stored], id_key=id_key)) == len(graph) - 1


def test_sources_are_replaced_and_newcomers_come_behind(graph: ChunkGraph) -> None:
    new = Document(id="new", page_content="Arno Hale is at rest.", metadata={"source": "arno hale.md"})
    assert structural(lc.update_graph(graph, fakes.embeddings(), added=[new])) == {("p0", "p1"), ("new", "p1")}
    instead = lc.update_graph(graph, fakes.embeddings(), added=[new], removed_sources=["arno hale.md"])
    assert set(instead.ids) == {*graph.ids, "new"} - {"p0", "p1"}
    assert instead.chunk("new").position == 0
    again = lc.update_graph(
        graph, fakes.embeddings(), added=fakes.passages(), removed=["p0"], removed_sources=["pump.md"]
    )
    assert again.identity == graph.identity == lc.update_graph(graph, fakes.embeddings()).identity
    parts = [Document(id=f"{n}", page_content=f"Part {n}.", metadata={"source": "parts.md"}) for n in range(4)]
    shorter = lc.update_graph(lc.build_graph(parts, fakes.embeddings()), fakes.embeddings(), removed=["1"])
    assert [shorter.chunk(name).position for name in shorter.ids] == [0, 2, 3]
    assert structural(shorter) == {("0", "2"), ("2", "3")}
    twins = [Document(page_content="Twice.", metadata={"source": "twins.md"})] * 2
    both = lc.build_graph(twins, fakes.embeddings())
    assert lc.update_graph(both, fakes.embeddings(), added=twins).identity == both.identity


# Models.


def keywords_reply(messages: list[Any]) -> str:
    text = messages[-1].text
    return json.dumps(
        [word for word in ("glass", "mayor", "bees", "harmony", "opera", "fruit", "hose", "hills") if word in text]
    )


async def test_a_model_finds_keywords_where_none_are_said_and_nothing_is_paid_twice(tmp_path: Path) -> None:
    model = fakes.ReplyingChatModel(reply=keywords_reply)
    embedder = FakeEmbedder(dim=48)
    services = Services(journal=Journal.open(tmp_path / "journal.db"))
    documents = fakes.passages()
    documents[3] = documents[3].model_copy(update={"metadata": {**documents[3].metadata, "keywords": ["spring"]}})
    how: dict[str, Any] = {"llm": model, "services": services, "keyword_key": "keywords"}
    graph = lc.build_graph(documents, lc.CatenaEmbeddings(embedder), **how)
    assert graph.node("p1").keywords == ("bees", "harmony")
    assert graph.node("p3").keywords == ("spring",)
    assert len(model.sent) == len(fakes.PASSAGES) - 1
    sent, asked = len(model.sent), len(embedder.calls)
    with blockbuster_ctx(["langchain_catena", "catena"]):
        again = await lc.abuild_graph(documents, lc.CatenaEmbeddings(embedder), **how)
    assert again.identity == graph.identity
    assert (len(model.sent), len(embedder.calls)) == (sent, asked)
    few = lc.build_graph(documents, fakes.embeddings(), llm=model, keywords=GraphKeywords(count=1))
    assert all(len(few.node(name).keywords) <= 1 for name in few.ids)
    services.journal.close()  # type: ignore[union-attr]


def test_where_a_model_fails_keywords_are_found_without_it(caplog: pytest.LogCaptureFixture) -> None:
    def reply(messages: list[Any]) -> str:
        if "glass" in messages[-1].text:
            raise ValueError("no answer")
        return keywords_reply(messages)

    with caplog.at_level(logging.WARNING):
        graph = lc.build_graph(fakes.passages(), fakes.embeddings(), llm=fakes.ReplyingChatModel(reply=reply))
    assert graph.node("p2").keywords == lc.build_graph(fakes.passages(), fakes.embeddings()).node("p2").keywords
    assert "verdel.md" in caplog.text
    assert "without the model" in caplog.text
    assert set(graph.node("p1").keywords) == {"bees", "harmony"}


def test_wrong_arguments_are_named_and_progress_is_told(graph: ChunkGraph) -> None:
    for documents, by, how, match in (
        (fakes.passages(), "minilm", {}, "embeddings"),
        (fakes.passages(), FakeEmbedder, {}, "embeddings"),
        (fakes.passages(), fakes.embeddings(), {"title_keys": "title"}, "title_keys"),
        (fakes.passages(), fakes.embeddings(), {"keywords": GraphKeywords()}, "llm"),
        (fakes.passages(year=1931), fakes.embeddings(), {"keyword_key": "year"}, r"'year'.* of document 'p0'"),
        (fakes.passages(), fakes.embeddings(), {"id_kye": "key"}, "id_kye"),
    ):
        with pytest.raises(ParameterError, match=match):
            lc.build_graph(documents, by, **how)  # type: ignore[arg-type]
    for wrong, match in (
        ({"removed_sources": "pump.md"}, "^removed_sources "),
        ({"removed": [Document(id="nowhere", page_content="x")]}, "nowhere"),
    ):
        with pytest.raises(ParameterError, match=match):
            lc.update_graph(graph, fakes.embeddings(), **wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="vectors"):
        lc.update_graph(graph, FakeEmbedder(dim=7), added=[Document(id="new", page_content="x")])
    with pytest.raises(ServiceError, match="the endpoint is down"):
        lc.build_graph(fakes.passages(), Down())
    cancel, seen = Cancel(), []
    lc.build_graph(fakes.passages(), fakes.embeddings(), progress=lambda told: seen.append((told.done, told.total)))
    assert seen[-1][0] == seen[-1][1] > 0
    cancel.set()
    with pytest.raises(CancelledError):
        lc.build_graph(fakes.passages(), fakes.embeddings(), services=Services(cancel=cancel))
    assert lc.build_graph(fakes.passages(), DeterministicFakeEmbedding(size=8)).dim == 8
    assert lc.build_graph(fakes.passages(), FakeEmbedder(dim=48)).identity == graph.identity
