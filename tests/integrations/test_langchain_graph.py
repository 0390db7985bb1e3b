"""Evidence chains in LangChain: graphs of documents, walks over them and over a library's, and chains for readers."""

from __future__ import annotations

import asyncio
import copy
import datetime
import json
import logging
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.load import dumps
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import (
    PASSAGES,
    RIVER,
    Broken,
    Events,
    Fixed,
    ReplyingChatModel,
    Traces,
    embeddings,
    ids,
    passages,
)  # fmt: skip

import langchain_catena as lc
from catena import Library
from catena.answering import ChainReading, chain_context
from catena.effects import Cancel, Journal, Services
from catena.enrichment import GraphKeywords
from catena.graph import PAPER, ChunkGraph, GraphOptions, GraphSearch, Node, SimilarityScorer, WalkOptions
from catena.graph.storage import to_line, to_node
from catena.model import CancelledError, Chain, FilterError, LibraryError, ParameterError, RouteError, ServiceError
from catena.segments import Constant
from catena.testing import FakeEmbedder, FakeReranker
from langchain_catena.graph_building import NodeKeys, from_graph_chunk, to_graph_chunk

SIMILAR = SimilarityScorer()
HOW = GraphSearch(scorer=SIMILAR)
# from p0 these lead to p2 and p4, from p2 to p3, and nowhere else
OF_GRAPH = GraphSearch(scorer=SIMILAR, walk=WalkOptions(candidates="graph", kinds=("mention",)))


@pytest.fixture(scope="module")
def graph() -> ChunkGraph:
    return lc.build_graph(passages(), embeddings())


@pytest.fixture(scope="module")
def own(graph: ChunkGraph) -> dict[str, Any]:
    """The graph and its embeddings."""
    return {"graph": graph, "embeddings": embeddings()}


@pytest.fixture
def store() -> InMemoryVectorStore:
    made = InMemoryVectorStore(embeddings())
    made.add_documents(passages(pages=[1, 2]))
    return made


@pytest.fixture(scope="module")
def manuals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """The bundled manuals, with their graph."""
    with Library.open(tmp_path_factory.mktemp("manuals") / "library") as opened:
        opened.index(sorted(Path(str(files("catena") / "data" / "demo")).glob("*.pdf")))
        opened.build_graph()
        yield opened


# What is found, and what is said of it.


def test_a_walk_brings_what_the_retriever_did_not_find_and_says_why(own: dict[str, Any], graph: ChunkGraph) -> None:
    given = [*passages(pages=[1, 2])[:1], passages()[0]]  # one that comes twice counts once
    before = copy.deepcopy(given)
    found = lc.CatenaGraphRetriever(retriever=Fixed(docs=given), **own, how=OF_GRAPH, k=4).invoke(RIVER)
    assert given == before
    assert found[0].metadata["pages"] == [1, 2]
    assert (ids(found)[0], set(ids(found))) == ("p0", {"p0", "p2", "p3", "p4"})
    brought = {str(each.id): each for each in passages()}
    for rank, document in enumerate(found, start=1):
        told, mine = document.metadata["catena"], brought[str(document.id)]
        assert document.metadata["relevance_score"] == 1 / rank
        assert (told["scale"], told["chunk_id"]) == ("rank", document.id)
        assert json.loads(json.dumps(document.metadata)) == document.metadata
        assert document.page_content == mine.page_content
        assert document.metadata.items() >= mine.metadata.items()
        assert [way["route"] for way in told["routes"]] == (["graph"] if rank > 1 else ["Fixed", "graph"])
    places = {document.id: document.metadata["catena"]["chains"] for document in found}
    assert {place["hop"] for place in places["p0"]} == {1}
    assert {(place["hop"], place["came_from"]) for place in places["p2"]} == {(2, "p0")}
    assert [(place["hop"], place["came_from"]) for place in places["p3"]] == [(3, "p2")]
    assert {place["chain"] for all_places in places.values() for place in all_places} == {1, 2}
    assert places["p0"][0]["edges"] == places["p0"][0]["shared"] == {}
    assert places["p2"][0]["shared"]["mention"] == ["Verdel"]
    assert "composer" in set(places["p0"][0]["words"]) - set(places["p2"][0]["words"])  # the chain has covered it
    for name in ("p2", "p3", "p4"):
        for place in places[name]:
            edge = graph.edge(place["came_from"], name)
            assert place["edges"] == dict(edge.weights)  # type: ignore[union-attr]
            assert place["shared"] == {kind: list(words) for kind, words in edge.words.items()}  # type: ignore[union-attr]


def test_what_is_found_is_what_the_core_finds(own: dict[str, Any], store: InMemoryVectorStore) -> None:
    retriever = lc.CatenaGraphRetriever(vectorstore=store, graph=own["graph"], how=HOW, k=5)
    result, found = retriever.result(RIVER), retriever.invoke(RIVER)
    assert [hit.chunk.id for hit in result.ranking.hits] == ids(found)
    assert [hit.chunk.id for hit in result.first.hits] == ids(store.similarity_search(RIVER, k=50))
    assert len(result.first.hits) == len(PASSAGES)  # `depth` of them, and not four
    same = lc.CatenaChainCompressor(**own, how=HOW, k=5).compress_documents(
        store.similarity_search(RIVER, k=50), RIVER
    )
    assert ids(same) == ids(found)
    assert [each.metadata["catena"]["chains"] for each in same] == [
        each.metadata["catena"]["chains"] for each in found
    ]
    assert ids(retriever.invoke(RIVER, k=2)) == ids(same)[:2]
    by_paper = lc.CatenaGraphRetriever(
        vectorstore=store, graph=own["graph"], how=GraphSearch(scorer=SIMILAR, walk=PAPER)
    )
    assert by_paper.result(RIVER).keywords


def test_what_the_graph_does_not_have_stays_among_the_rest(own: dict[str, Any]) -> None:
    strangers = [Document(id=f"s{n}", page_content=f"Stranger {n}.", metadata={"n": n}) for n in range(3)]
    nameless = Document(page_content="No id.", metadata={"when": "now"})
    given = [strangers[0], passages()[0], strangers[1], nameless, strangers[2]]
    wider = lc.CatenaChainCompressor(**own, how=OF_GRAPH, k=20)
    found = wider.compress_documents(given, RIVER)
    stay = [each for each in found if not str(each.id).startswith("p")]
    assert [(each.id, each.page_content) for each in stay] == [
        ("s0", "Stranger 0."), ("s1", "Stranger 1."), (None, "No id."), ("s2", "Stranger 2."),
    ]  # fmt: skip
    assert (stay[0].metadata["n"], stay[0].metadata["catena"]["chains"], found[0].id) == (0, [], "p0")
    assert ids(wider.compress_documents(strangers, RIVER))[:3] == ["s0", "s1", "s2"]
    assert wider.compress_documents([], RIVER) == []


def test_a_filter_holds_for_what_is_given_and_what_the_graph_brings(
    own: dict[str, Any], store: InMemoryVectorStore
) -> None:
    where = {"title": {"$in": ["Arno Hale", "Verdel"]}}
    retriever = lc.CatenaGraphRetriever(vectorstore=store, graph=own["graph"], where=where)
    assert set(ids(retriever.invoke(RIVER))) == {"p0", "p1", "p2"}
    assert set(ids(retriever.invoke(RIVER, where={"title": "Ombra"}))) == {"p3"}
    wider = lc.CatenaChainCompressor(**own, where=where)
    assert set(ids(wider.compress_documents(passages(), RIVER))) == {"p0", "p1", "p2"}
    with pytest.raises(FilterError):
        retriever.invoke(RIVER, where={"title": {"$near": "Ombra"}})


# Over a library.

LEAD = "Which fuse may be fitted in the HX210, and how tight is its cover?"


def ids_of(chain: Chain) -> list[str]:
    return [each.id for each in chain.chunks]


def test_a_library_is_searched_as_it_searches_itself_and_any_retriever_is_widened_by_its_graph(
    manuals: Library,
) -> None:
    retriever = lc.CatenaGraphRetriever(library=manuals, k=5)
    result, found = retriever.result(LEAD), retriever.invoke(LEAD)
    assert result == manuals.search_graph(LEAD, k=5)
    assert ids(found) == [hit.chunk.id for hit in result.ranking.hits]
    assert all(each.metadata["citation"] and each.metadata["source"] for each in found)
    assert str(manuals.store.path) not in dumps(retriever)
    base = lc.CatenaRetriever(library=manuals, k=3)
    wider = lc.CatenaGraphRetriever(library=manuals, retriever=base, k=5)
    expected, found = manuals.widen(LEAD, base.ranking(LEAD), k=5), wider.invoke(LEAD)
    assert ids(found) == [hit.chunk.id for hit in expected.ranking.hits]
    found_chains, chains = (
        [ids_of(chain) for chain in each] for each in (wider.result(LEAD).chains, expected.chains)
    )
    assert found_chains == chains
    assert ids(lc.CatenaChainCompressor(library=manuals, k=5).compress_documents(base.invoke(LEAD), LEAD)) == ids(
        found
    )
    assert {"lexical", "graph"} <= {way["route"] for way in found[0].metadata["catena"]["routes"]}


def test_names_that_stand_nowhere_are_told(manuals: Library) -> None:
    asked = "Which fuse may be fitted in the HX290?"
    assert lc.CatenaGraphRetriever(library=manuals).invoke(asked) == []
    (told,) = lc.CatenaGraphRetriever(library=manuals, tell_unknown=True).invoke(asked)
    assert told.metadata["kind"] == "unknown"
    base = lc.CatenaRetriever(library=manuals, tell_unknown=True)
    (told,) = lc.CatenaGraphRetriever(library=manuals, retriever=base, tell_unknown=True).invoke(asked)
    assert "HX290" in told.page_content
    assert lc.CatenaChainCompressor(library=manuals).compress_documents(base.invoke(asked), asked) == base.invoke(
        asked
    )
    assert "HX290" in lc.format_chains([told])


def test_a_library_without_a_graph_says_how_it_gets_one(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nOne.\n", encoding="utf-8")
    with Library.open(tmp_path / "library") as library:
        library.index([tmp_path / "a.md"])
        made = lc.CatenaGraphRetriever(library=library)
        behind = lc.CatenaGraphRetriever(library=library, retriever=lc.CatenaRetriever(library=library))
        wider = lc.CatenaChainCompressor(library=library)
        for ask in (
            lambda: made.invoke("one"),
            lambda: behind.invoke("one"),
            lambda: asyncio.run(made.ainvoke("one")),
            lambda: wider.compress_documents([Document(page_content="x")], "one"),
        ):
            with pytest.raises(LibraryError, match="build_graph"):
                ask()


# Async, callbacks, pipelines.


async def test_the_core_is_asked_the_same_in_async_also_where_the_retriever_fails(
    own: dict[str, Any], manuals: Library
) -> None:
    retrievers = [lc.CatenaGraphRetriever(library=manuals, k=4), lc.CatenaGraphRetriever(retriever=Broken(), **own)]
    for retriever in retrievers:
        chain = retriever | lc.format_chains
        result, text = retriever.result(LEAD), chain.invoke(LEAD)
        with blockbuster_ctx(["catena", "langchain_catena"]):
            assert await retriever.aresult(LEAD) == result
            assert await chain.ainvoke(LEAD) == text


async def test_the_inner_retriever_and_the_model_are_children_of_the_run(own: dict[str, Any]) -> None:
    model = ReplyingChatModel(reply=lambda messages: '["Arno Hale", "Night Ferry"]')
    how = GraphSearch(scorer=SIMILAR, keywords_by="llm", walk=PAPER)
    made = lc.CatenaGraphRetriever(retriever=Fixed(docs=passages()), **own, how=how, llm=model, k=3, tags=["own"])
    traces = [Traces(), Traces()]
    made.invoke(RIVER, traces[0].config)
    await made.ainvoke(RIVER, traces[1].config)
    for root in (each.root for each in traces):
        inner = {run.name: run for run in root.child_runs}
        assert (root.name, root.tags, set(inner)) == ("CatenaGraphRetriever", ["own"], {"Fixed", "ReplyingChatModel"})
        assert "first_ranking" in inner["Fixed"].tags
        assert [len(run.outputs["documents"]) for run in (root, inner["Fixed"])] == [3, len(PASSAGES)]


def test_it_is_a_stage_before_and_behind_others(own: dict[str, Any], store: InMemoryVectorStore) -> None:
    rerank = lc.CatenaRerank(reranker=FakeReranker(), calibration=Constant())
    pipeline = DocumentCompressorPipeline(transformers=[rerank, lc.CatenaChainCompressor(**own, how=HOW, k=4)])
    found = pipeline.compress_documents(store.similarity_search(RIVER, k=2), RIVER)
    told = found[0].metadata["catena"]
    assert (len(found), told["reranker"], told["scale"]) == (
        4,
        "fake-reranker",
        "rank",
    )  # what was said is still said
    back = rerank.compress_documents(found, RIVER)
    assert {each.id for each in back} == set(ids(found))
    assert all(each.metadata["catena"]["chains"] for each in back)


# What fails.


class Down(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise RuntimeError("the endpoint is down")

    embed_query = embed_documents  # type: ignore[assignment]


def test_when_the_retriever_fails_the_graph_alone_is_asked_aloud(own: dict[str, Any], caplog) -> None:
    broken, events = {"retriever": Broken(), **own, "how": HOW, "k": 3}, Events()
    with caplog.at_level(logging.WARNING):
        found = lc.CatenaGraphRetriever(**broken).invoke(RIVER, {"callbacks": [events]})
    assert len(found) == 3
    assert found[0].id in {"p0", "p1", "p4"}  # where names of the question stand
    (said,) = found[0].metadata["catena"]["degraded"]
    assert all("retriever" in told and "the index is gone" in told for told in (said, caplog.text))
    assert [(name, data["what"]) for name, data in events.seen] == [("catena_degraded", "retriever")]
    routes = {**broken, "retriever": lc.CatenaRetriever.over({"bad": Broken()})}
    assert ids(lc.CatenaGraphRetriever(**routes).invoke(RIVER)) == ids(found)
    for options, error in ((broken, ServiceError), (routes, RouteError)):
        with pytest.raises(error, match="the index is gone"):
            lc.CatenaGraphRetriever(**options, on_retriever_error="raise").invoke(RIVER)
    mistaken = lc.CatenaRetriever.over({"good": Fixed(docs=passages())}, where={"title": "Ombra"})
    with pytest.raises(FilterError):  # the caller's mistake, which no other ranking makes good
        lc.CatenaGraphRetriever(**{**broken, "retriever": mistaken}).invoke(RIVER)


def test_when_the_walk_fails_the_first_ranking_is_returned_aloud(graph: ChunkGraph, caplog) -> None:
    down: dict[str, Any] = {"graph": graph, "embeddings": Down(), "k": 2}
    found = lc.CatenaGraphRetriever(retriever=Fixed(docs=passages()), **down).invoke(RIVER)
    assert ids(found) == ["p0", "p1"]
    assert "the endpoint is down" in found[0].metadata["catena"]["degraded"][0]
    assert found[0].metadata["catena"]["chains"] == []
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert ids(lc.CatenaChainCompressor(**down).compress_documents(passages(), RIVER)) == ["p0", "p1"]
    assert "the endpoint is down" in caplog.text
    loud = GraphSearch(on_graph_error="raise")
    for ask in (
        lambda: lc.CatenaGraphRetriever(retriever=Fixed(docs=passages()), **down, how=loud).invoke(RIVER),
        lambda: lc.CatenaChainCompressor(**down, how=loud).compress_documents(passages(), RIVER),
        lambda: lc.CatenaGraphRetriever(retriever=Broken(), **down).invoke(RIVER),  # nothing is left that could go on
    ):
        with pytest.raises(ServiceError, match="the endpoint is down"):
            ask()


def test_wrong_options_are_named(graph: ChunkGraph, store: InMemoryVectorStore, manuals: Library) -> None:
    base = Fixed(docs=passages())
    for options, match in (
        ({}, "either library"),
        ({"library": manuals, "graph": graph}, "either library"),
        ({"library": manuals, "embeddings": embeddings()}, "a library has its own"),
        ({"graph": graph}, "for the first ranking"),
        ({"graph": graph, "retriever": base, "vectorstore": store}, "either retriever"),
        ({"graph": graph, "retriever": base}, "by which it was built"),
        ({"graph": graph, "retriever": base, "embeddings": "minilm"}, "embeddings"),
        ({"library": manuals, "k": -1}, "k"),
        ({"library": manuals, "how": "best"}, "GraphSearch"),
    ):
        with pytest.raises(ValueError, match=match):
            lc.CatenaGraphRetriever(**options)
    for options, match in (({}, "either library"), ({"graph": graph}, "by which it was built")):
        with pytest.raises(ValueError, match=match):
            lc.CatenaChainCompressor(**options)
    for retriever in (
        lc.CatenaGraphRetriever(library=manuals),
        lc.CatenaGraphRetriever(vectorstore=store, graph=graph),
    ):
        for k in (-1, "3"):
            with pytest.raises(ParameterError, match="k must be"):
                retriever.invoke(LEAD, k=k)
    other = DeterministicFakeEmbedding(size=7)
    with pytest.raises(ParameterError, match="vector of the question"):
        lc.CatenaGraphRetriever(retriever=base, graph=graph, embeddings=other).invoke(RIVER)


# Chains for readers.


def hops(chains: Any) -> list[list[Any]]:
    return [
        [(h.chunk.id, h.chunk.text, h.score, h.came_from, h.edge, h.words) for h in chain.hops] for chain in chains
    ]


def test_chains_come_out_of_the_documents_as_the_walk_made_them(
    own: dict[str, Any], store: InMemoryVectorStore
) -> None:
    retriever = lc.CatenaGraphRetriever(vectorstore=store, graph=own["graph"], how=HOW, k=5)
    found, chains = retriever.invoke(RIVER), retriever.result(RIVER).chains
    after_json = [Document(**json.loads(json.dumps(each.model_dump(exclude={"type"})))) for each in found]
    for documents in (found, found[::-1], after_json):
        assert hops(lc.chains_of(documents)) == hops(chains)
    for reading in (None, ChainReading(format="iterative"), ChainReading(budget_tokens=60)):
        text = lc.format_chains(found, reading)
        assert text == chain_context(chains, reading).text
        assert (
            lc.chain_formatter(reading).invoke(found)
            == (retriever | lc.chain_formatter(reading)).invoke(RIVER)
            == text
        )
    assert lc.format_chains(found[::-1]) == lc.format_chains(found)


def test_what_is_left_of_a_chain_and_what_is_in_none_is_read_as_well(own: dict[str, Any]) -> None:
    found = lc.CatenaGraphRetriever(retriever=Fixed(docs=passages()[:1]), **own, how=OF_GRAPH).invoke(RIVER)
    text = lc.format_chains([*found[1:], Document(id="x", page_content="Elsewhere.")])
    assert found[0].page_content not in text
    assert all(0 <= text.find(each.page_content) < text.index("Elsewhere.") for each in found[1:])
    place = found[1].metadata["catena"]["chains"][0]
    odd = ["no chains", [3], [{"chain": 1}], [{**place, "score": "x"}], [{**place, "edges": {"a": "x"}}], {"a": 1}]
    for told in (*({"chains": each} for each in [*odd, [{**place, "shared": {"a": 3}}], None]), 3):
        (alone,) = lc.chains_of([Document(id="x", page_content="Odd.", metadata={"catena": told})])
        assert [(hop.chunk.text, hop.came_from) for hop in alone.hops] == [("Odd.", "")]
    assert lc.format_chains([]) == ""


# Graphs of documents: what a document tells the graph.


def structural(graph: ChunkGraph) -> set[tuple[str, str]]:
    """Return the neighbours in reading order, each pair once."""
    links = graph.links("structural")
    pairs = zip(links.sources.tolist(), links.targets.tolist(), strict=True)
    return {tuple(sorted((graph.ids[one], graph.ids[other]))) for one, other in pairs}  # type: ignore[misc]


def test_edges_are_those_that_the_passages_give_by_hand() -> None:
    graph = lc.build_graph(passages(), embeddings())
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
    assert structural(lc.build_graph(said[::-1], embeddings())) == in_order
    assert [lc.build_graph(said, embeddings(), position_key="place").chunk(text).position for text in texts] == [
        2,
        1,
        0,
    ]
    silent = [each.model_copy(update={"metadata": {"source": "a"}}) for each in said]
    assert structural(lc.build_graph(silent, embeddings())) == in_order
    one_silent = [said[2], silent[0], said[1]]  # then none is believed
    assert structural(lc.build_graph(one_silent, embeddings())) == {("first", "third"), ("first", "second")}
    other = Document(id="other", page_content="other", metadata={"source": "b"})
    taking_turns = [silent[0], other, silent[1], silent[2]]
    assert structural(lc.build_graph(taking_turns, embeddings())) == in_order
    by_file = [each.model_copy(update={"metadata": {"file": each.id}}) for each in said]
    assert structural(lc.build_graph(by_file, embeddings(), source_key="file")) == set()
    assert (
        structural(lc.build_graph([each.model_copy(update={"metadata": {}}) for each in said], embeddings())) == set()
    )


def test_titles_and_keywords_come_from_the_keys_that_are_named() -> None:
    about = {"name": "Pump (device)", "also": ["Impeller", "Rotor"], "tags": ["steel", "Impeller"]}
    document = Document(id="a", page_content="The pump turns and turns.", metadata=about)
    other = Document(id="b", page_content="No keys.", metadata={"tags": "iron; cast iron"})
    keys: dict[str, Any] = {"title_keys": ["name", "also"], "keyword_key": "tags"}
    graph = lc.build_graph([document, other], embeddings(), **keys)
    assert graph.node("a").titles == ("Pump", "Impeller", "Rotor")
    assert graph.node("a").keywords == ("steel",)  # a title is none
    assert graph.node("b").titles == ()
    assert graph.node("b").keywords == ("iron", "cast iron")
    plain = lc.build_graph([document], embeddings())
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
    lc.build_graph([document], embeddings()).save(tmp_path / "graph")
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
    nameless = lc.build_graph(passages(ids=False), embeddings())
    assert set(nameless.ids) == {each.id for each in lc.with_content_ids(passages(ids=False))}
    assert len(nameless) == len(graph) == len(PASSAGES)
    keyed = [each.model_copy(update={"metadata": {"key": f"k{n}"}}) for n, each in enumerate(passages())]
    by_key = lc.build_graph(keyed, embeddings(), id_key="key")
    assert by_key.ids == tuple(f"k{number}" for number in range(len(PASSAGES)))
    assert len(lc.build_graph([passages(ids=False)[0]] * 2, embeddings())) == 2


@pytest.mark.parametrize("way", ["own", "content", "key", "nothing"])
def test_what_a_store_gives_back_is_known_again(way: str) -> None:
    documents = [
        each.model_copy(update={"metadata": {} if way == "nothing" else {**each.metadata, "key": f"k{number}"}})
        for number, each in enumerate(passages(ids=way == "own"))
    ]
    store = InMemoryVectorStore.from_documents(documents, embeddings())  # names nameless ones at random
    id_key = "key" if way == "key" else None
    graph = lc.build_graph(documents, embeddings(), id_key=id_key)
    retriever = lc.CatenaGraphRetriever(vectorstore=store, graph=graph, id_key=id_key, k=len(PASSAGES))
    found = retriever.invoke("Who is the mayor of Verdel?")
    assert {each.metadata["catena"]["chunk_id"] for each in found} == set(graph.ids)
    assert {each.id for each in found} == set(store.store)
    (stored, *_) = store.similarity_search("mayor", k=1)
    assert len(lc.update_graph(graph, embeddings(), removed=[stored], id_key=id_key)) == len(graph) - 1


_numbers = st.sets(st.integers(0, len(PASSAGES) - 1))


@settings(max_examples=25)
@given(_numbers, _numbers, _numbers, st.booleans())
def test_an_update_is_a_rebuild(first: set[int], added: set[int], removed: set[int], named: bool) -> None:
    everything = [
        each.model_copy(update={"metadata": {**each.metadata, "position": number}})
        for number, each in enumerate(passages(ids=named))
    ]
    before = lc.build_graph([everything[number] for number in sorted(first)], embeddings())
    gone = [everything[number] for number in sorted(removed & first)]
    after = lc.update_graph(before, embeddings(), added=[everything[number] for number in added], removed=gone)
    left = (first - removed) | added
    assert after.identity == lc.build_graph([everything[number] for number in left], embeddings()).identity
    assert before.identity == lc.build_graph([everything[number] for number in sorted(first)], embeddings()).identity


def test_sources_are_replaced_and_newcomers_come_behind(graph: ChunkGraph) -> None:
    new = Document(id="new", page_content="Arno Hale is at rest.", metadata={"source": "arno hale.md"})
    assert structural(lc.update_graph(graph, embeddings(), added=[new])) == {("p0", "p1"), ("new", "p1")}
    instead = lc.update_graph(graph, embeddings(), added=[new], removed_sources=["arno hale.md"])
    assert set(instead.ids) == {*graph.ids, "new"} - {"p0", "p1"}
    assert instead.chunk("new").position == 0
    changed = new.model_copy(update={"id": "p2"})
    assert lc.update_graph(graph, embeddings(), added=[changed]).chunk("p2").text == "Arno Hale is at rest."
    again = lc.update_graph(graph, embeddings(), added=passages(), removed=["p0"], removed_sources=["pump.md"])
    assert again.identity == graph.identity == lc.update_graph(graph, embeddings()).identity
    parts = [Document(id=f"{n}", page_content=f"Part {n}.", metadata={"source": "parts.md"}) for n in range(4)]
    shorter = lc.update_graph(lc.build_graph(parts, embeddings()), embeddings(), removed=["1"])
    assert [shorter.chunk(name).position for name in shorter.ids] == [0, 2, 3]
    assert structural(shorter) == {("0", "2"), ("2", "3")}
    twins = [Document(page_content="Twice.", metadata={"source": "twins.md"})] * 2
    both = lc.build_graph(twins, embeddings())
    assert lc.update_graph(both, embeddings(), added=twins).identity == both.identity
    assert len(lc.update_graph(graph, embeddings(), removed=graph.ids)) == 0


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
    graph = lc.build_graph(documents, lc.CatenaEmbeddings(embedder), **how)
    assert graph.node("p1").keywords == ("bees", "harmony")
    assert graph.node("p3").keywords == ("spring",)
    assert len(model.sent) == len(PASSAGES) - 1
    sent, asked = len(model.sent), len(embedder.calls)
    with blockbuster_ctx(["langchain_catena", "catena"]):
        again = await lc.abuild_graph(documents, lc.CatenaEmbeddings(embedder), **how)
    assert again.identity == graph.identity
    assert (len(model.sent), len(embedder.calls)) == (sent, asked)
    few = lc.build_graph(documents, embeddings(), llm=model, keywords=GraphKeywords(count=1))
    assert all(len(few.node(name).keywords) <= 1 for name in few.ids)
    services.journal.close()  # type: ignore[union-attr]


def test_where_a_model_fails_keywords_are_found_without_it(caplog: pytest.LogCaptureFixture) -> None:
    def reply(messages: list[Any]) -> str:
        if "glass" in messages[-1].text:
            raise ValueError("no answer")
        return keywords_reply(messages)

    with caplog.at_level(logging.WARNING):
        graph = lc.build_graph(passages(), embeddings(), llm=ReplyingChatModel(reply=reply))
    assert graph.node("p2").keywords == lc.build_graph(passages(), embeddings()).node("p2").keywords
    assert "verdel.md" in caplog.text
    assert "without the model" in caplog.text
    assert set(graph.node("p1").keywords) == {"bees", "harmony"}


async def test_async_builds_the_same_graph_without_blocking() -> None:
    options = GraphOptions(neighbours=2)
    graph = lc.build_graph(passages(), embeddings(), options)
    changed = lc.update_graph(graph, embeddings(), added=passages()[:1], removed=["p6"])
    with blockbuster_ctx(["langchain_catena", "catena"]):
        agraph = await lc.abuild_graph(passages(), embeddings(), options)
        achanged = await lc.aupdate_graph(agraph, embeddings(), added=passages()[:1], removed=["p6"])
    assert (agraph.identity, achanged.identity) == (graph.identity, changed.identity)
    assert agraph.options == options


def test_wrong_arguments_are_named_and_progress_is_told(graph: ChunkGraph) -> None:
    for documents, by, how, match in (
        (passages(), "minilm", {}, "embeddings"),
        (passages(), FakeEmbedder, {}, "embeddings"),
        (passages(), embeddings(), {"title_keys": "title"}, "title_keys"),
        (passages(), embeddings(), {"keywords": GraphKeywords()}, "llm"),
        (passages(year=1931), embeddings(), {"keyword_key": "year"}, r"'year'.* of document 'p0'"),
        ([*passages(), passages()[0]], embeddings(), {}, "p0"),
        (passages(), embeddings(), {"id_kye": "key"}, "id_kye"),
        (passages()[0], embeddings(), {}, "documents"),
        (["a text"], embeddings(), {}, "documents"),
        ("a text", embeddings(), {}, "documents"),
    ):
        with pytest.raises(ParameterError, match=match):
            lc.build_graph(documents, by, **how)  # type: ignore[arg-type]
    for wrong, match in (
        ({"removed": "p0"}, "^removed "),
        ({"removed_sources": "pump.md"}, "^removed_sources "),
        ({"added": passages()[0]}, "^added "),
        ({"removed": ["nowhere"]}, "nowhere"),
        ({"removed": [Document(id="nowhere", page_content="x")]}, "nowhere"),
    ):
        with pytest.raises(ParameterError, match=match):
            lc.update_graph(graph, embeddings(), **wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="vectors"):
        lc.update_graph(graph, FakeEmbedder(dim=7), added=[Document(id="new", page_content="x")])
    with pytest.raises(ServiceError, match="the endpoint is down"):
        lc.build_graph(passages(), Down())
    cancel, seen = Cancel(), []
    lc.build_graph(passages(), embeddings(), progress=lambda told: seen.append((told.done, told.total)))
    assert seen[-1][0] == seen[-1][1] > 0
    cancel.set()
    with pytest.raises(CancelledError):
        lc.build_graph(passages(), embeddings(), services=Services(cancel=cancel))
    assert lc.build_graph(passages(), DeterministicFakeEmbedding(size=8)).dim == 8
    assert lc.build_graph(passages(), FakeEmbedder(dim=48)).identity == graph.identity
    assert len(lc.build_graph([], embeddings())) == 0
