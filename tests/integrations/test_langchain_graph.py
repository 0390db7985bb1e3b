"""Evidence chains in LangChain: over a library, over a user's own store, behind any retriever, and in prompts."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.load import dumps
from langchain_core.prompts import PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import Broken, Fixed, ReplyingChatModel
from langchain_fakes import PASSAGES, QUESTION, embeddings, ids, passages
from langchain_tests.integration_tests import RetrieversIntegrationTests

from catena import Library
from catena.answering import ChainReading, chain_context
from catena.graph import PAPER, ChunkGraph, GraphSearch, SimilarityScorer, WalkOptions
from catena.model import FilterError, LibraryError, ParameterError, RouteError, ServiceError
from catena.segments import Constant
from catena.testing import FakeReranker
from langchain_catena import (
    CatenaChainCompressor,
    CatenaGraphRetriever,
    CatenaRerank,
    CatenaRetriever,
    build_graph,
    chain_formatter,
    chains_of,
    format_chains,
)

SUNSET = pytest.mark.filterwarnings("ignore:.*(langchain-community|Swig|swig):DeprecationWarning")
SIMILAR = SimilarityScorer()
HOW = GraphSearch(scorer=SIMILAR)
# from p0 these lead to p2 and p4, from p2 to p3, and nowhere else
OF_GRAPH = GraphSearch(scorer=SIMILAR, walk=WalkOptions(candidates="graph", kinds=("mention",)))


@pytest.fixture(scope="module")
def graph() -> ChunkGraph:
    return build_graph(passages(), embeddings())


@pytest.fixture
def store() -> InMemoryVectorStore:
    made = InMemoryVectorStore(embeddings())
    made.add_documents(passages(pages=[1, 2]))
    return made


@pytest.fixture(scope="module")
def manuals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """The bundled manuals, with their graph."""
    folder = tmp_path_factory.mktemp("manuals")
    with Library.open(folder / "library") as opened:
        opened.index(sorted(Path(str(files("catena") / "data" / "demo")).glob("*.pdf")))
        opened.build_graph()
        yield opened


class Suite(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return CatenaGraphRetriever


class TestOverAStore(Suite):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        store = InMemoryVectorStore(embeddings())
        store.add_documents(passages())
        return {"vectorstore": store, "graph": build_graph(passages(), embeddings())}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


class TestBehindARetriever(Suite):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        graph = build_graph(passages(), embeddings())
        return {"retriever": Fixed(docs=passages()[:1]), "graph": graph, "embeddings": embeddings()}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


# What is found, and what is said of it.


def test_a_walk_brings_what_the_retriever_did_not_find_and_says_why(graph: ChunkGraph) -> None:
    given = passages(pages=[1, 2])[:1]
    before = copy.deepcopy(given)
    retriever = CatenaGraphRetriever(
        retriever=Fixed(docs=given), graph=graph, embeddings=embeddings(), how=OF_GRAPH, k=4
    )
    found = retriever.invoke(QUESTION)
    assert given == before
    assert found[0].id == "p0"
    assert found[0].metadata["pages"] == [1, 2]
    assert set(ids(found)) == {"p0", "p2", "p3", "p4"}
    assert ids(found).index("p2") < ids(found).index("p3")
    brought = {str(each.id): each for each in passages()}
    for rank, document in enumerate(found, start=1):
        told = document.metadata["catena"]
        assert document.metadata["relevance_score"] == 1 / rank
        assert (told["scale"], told["chunk_id"]) == ("rank", document.id)
        assert json.loads(json.dumps(document.metadata)) == document.metadata
        if rank > 1:
            own = brought[str(document.id)]
            assert document.page_content == own.page_content
            assert document.metadata.items() >= own.metadata.items()
            assert [way["route"] for way in told["routes"]] == ["graph"]
    assert [way["route"] for way in found[0].metadata["catena"]["routes"]] == ["Fixed", "graph"]


def test_each_hop_says_what_it_came_by(graph: ChunkGraph) -> None:
    own: dict[str, Any] = {"graph": graph, "embeddings": embeddings(), "how": OF_GRAPH}
    found = CatenaGraphRetriever(retriever=Fixed(docs=passages()[:1]), **own).invoke(QUESTION)
    places = {document.id: document.metadata["catena"]["chains"] for document in found}
    assert {place["hop"] for place in places["p0"]} == {1}
    assert {(place["hop"], place["came_from"]) for place in places["p2"]} == {(2, "p0")}
    assert [(place["hop"], place["came_from"]) for place in places["p3"]] == [(3, "p2")]
    assert {place["chain"] for all_places in places.values() for place in all_places} == {1, 2}
    assert places["p0"][0]["edges"] == places["p0"][0]["shared"] == {}
    assert places["p2"][0]["shared"]["mention"] == ["Verdel"]
    assert "composer" in places["p0"][0]["words"]
    assert "composer" not in places["p2"][0]["words"]  # the chain has covered it
    for name in ("p2", "p3", "p4"):
        for place in places[name]:
            edge = graph.edge(place["came_from"], name)
            assert edge is not None
            assert place["edges"] == dict(edge.weights)
            assert place["shared"] == {kind: list(words) for kind, words in edge.words.items()}


def test_what_is_found_is_what_the_core_finds(graph: ChunkGraph, store: InMemoryVectorStore) -> None:
    retriever = CatenaGraphRetriever(vectorstore=store, graph=graph, how=HOW, k=5)
    result = retriever.result(QUESTION)
    assert [hit.chunk.id for hit in result.ranking.hits] == ids(retriever.invoke(QUESTION))
    assert [hit.chunk.id for hit in result.first.hits] == ids(store.similarity_search(QUESTION, k=50))
    assert len(result.first.hits) == len(PASSAGES)  # `depth` of them, and not four
    wider = CatenaChainCompressor(graph=graph, embeddings=embeddings(), how=HOW, k=5)
    same = wider.compress_documents(store.similarity_search(QUESTION, k=50), QUESTION)
    assert ids(same) == ids(retriever.invoke(QUESTION))
    chains = [each.metadata["catena"]["chains"] for each in same]
    assert chains == [each.metadata["catena"]["chains"] for each in retriever.invoke(QUESTION)]
    assert ids(retriever.invoke(QUESTION, k=2)) == ids(same)[:2]
    assert retriever.invoke(QUESTION, k=0) == []
    by_paper = CatenaGraphRetriever(vectorstore=store, graph=graph, how=GraphSearch(scorer=SIMILAR, walk=PAPER))
    assert by_paper.result(QUESTION).keywords


def test_what_the_graph_does_not_have_stays_among_the_rest(graph: ChunkGraph) -> None:
    strangers = [Document(id=f"s{n}", page_content=f"Stranger {n}.", metadata={"n": n}) for n in range(3)]
    nameless = Document(page_content="No id.", metadata={"when": "now"})
    given = [strangers[0], passages()[0], strangers[1], nameless, strangers[2]]
    wider = CatenaChainCompressor(graph=graph, embeddings=embeddings(), how=OF_GRAPH, k=20)
    found = wider.compress_documents(given, QUESTION)
    stay = [each for each in found if not str(each.id).startswith("p")]
    assert [each.page_content for each in stay] == ["Stranger 0.", "Stranger 1.", "No id.", "Stranger 2."]
    assert [each.id for each in stay] == ["s0", "s1", None, "s2"]
    assert stay[0].metadata["n"] == 0
    assert stay[0].metadata["catena"]["chains"] == []
    assert found[0].id == "p0"
    only = wider.compress_documents(strangers, QUESTION)
    assert [each.id for each in only][:3] == ["s0", "s1", "s2"]
    assert wider.compress_documents([], QUESTION) == []


def test_a_document_that_comes_twice_counts_once(graph: ChunkGraph) -> None:
    twice = [passages()[0], passages()[6], passages()[0]]
    retriever = CatenaGraphRetriever(retriever=Fixed(docs=twice), graph=graph, embeddings=embeddings(), how=HOW)
    assert [hit.chunk.id for hit in retriever.result(QUESTION).first.hits] == ["p0", "p6"]


def test_a_filter_holds_for_what_is_given_and_what_the_graph_brings(
    graph: ChunkGraph, store: InMemoryVectorStore
) -> None:
    where = {"title": {"$in": ["Arno Hale", "Verdel"]}}
    retriever = CatenaGraphRetriever(vectorstore=store, graph=graph, where=where)
    assert set(ids(retriever.invoke(QUESTION))) == {"p0", "p1", "p2"}
    assert set(ids(retriever.invoke(QUESTION, where={"title": "Ombra"}))) == {"p3"}
    wider = CatenaChainCompressor(graph=graph, embeddings=embeddings(), where=where)
    assert set(ids(wider.compress_documents(passages(), QUESTION))) == {"p0", "p1", "p2"}
    with pytest.raises(FilterError):
        retriever.invoke(QUESTION, where={"title": {"$near": "Ombra"}})


@SUNSET
def test_faiss_is_a_store_like_any_other() -> None:
    from langchain_community.vectorstores import FAISS

    store = FAISS.from_documents(passages(), embeddings())
    graph = build_graph(passages(), embeddings())
    found = CatenaGraphRetriever(vectorstore=store, graph=graph, embeddings=embeddings(), how=HOW, k=4).invoke(
        QUESTION
    )
    in_memory = InMemoryVectorStore(embeddings())
    in_memory.add_documents(passages())
    same = CatenaGraphRetriever(vectorstore=in_memory, graph=graph, how=HOW, k=4).invoke(QUESTION)
    assert ids(found) == ids(same)


# Over a library.


LEAD = "Which fuse may be fitted in the HX210, and how tight is its cover?"


def test_a_library_is_searched_as_it_searches_itself(manuals: Library) -> None:
    retriever = CatenaGraphRetriever(library=manuals, k=5)
    result = retriever.result(LEAD)
    assert result == manuals.search_graph(LEAD, k=5)
    found = retriever.invoke(LEAD)
    assert ids(found) == [hit.chunk.id for hit in result.ranking.hits]
    assert all(each.metadata["citation"] and each.metadata["source"] for each in found)
    assert any(each.metadata["catena"]["chains"] for each in found)
    assert str(manuals.store.path) not in dumps(retriever)
    only = retriever.invoke(LEAD, where={"document_id": found[0].metadata["document_id"]})
    assert {each.metadata["document_id"] for each in only} == {found[0].metadata["document_id"]}


def test_any_retriever_of_its_chunks_is_widened_by_its_graph(manuals: Library) -> None:
    base = CatenaRetriever(library=manuals, k=3)
    retriever = CatenaGraphRetriever(library=manuals, retriever=base, k=5)
    found = retriever.invoke(LEAD)
    expected = manuals.widen(LEAD, base.ranking(LEAD), k=5)
    assert ids(found) == [hit.chunk.id for hit in expected.ranking.hits]
    assert retriever.result(LEAD).chains == expected.chains
    wider = CatenaChainCompressor(library=manuals, k=5)
    assert ids(wider.compress_documents(base.invoke(LEAD), LEAD)) == ids(found)
    assert {"lexical", "graph"} <= {way["route"] for way in found[0].metadata["catena"]["routes"]}


def test_names_that_stand_nowhere_are_told(manuals: Library) -> None:
    asked = "Which fuse may be fitted in the HX290?"
    assert CatenaGraphRetriever(library=manuals).invoke(asked) == []
    (told,) = CatenaGraphRetriever(library=manuals, tell_unknown=True).invoke(asked)
    assert told.metadata["kind"] == "unknown"
    base = CatenaRetriever(library=manuals, tell_unknown=True)
    (told,) = CatenaGraphRetriever(library=manuals, retriever=base, tell_unknown=True).invoke(asked)
    assert "HX290" in told.page_content
    assert CatenaChainCompressor(library=manuals).compress_documents(base.invoke(asked), asked) == base.invoke(asked)
    assert "HX290" in format_chains([told])


def test_a_library_without_a_graph_says_how_it_gets_one(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nOne.\n", encoding="utf-8")
    with Library.open(tmp_path / "library") as library:
        library.index([tmp_path / "a.md"])
        made = CatenaGraphRetriever(library=library)
        for retriever in (made, CatenaGraphRetriever(library=library, retriever=CatenaRetriever(library=library))):
            with pytest.raises(LibraryError, match="build_graph"):
                retriever.invoke("one")
        with pytest.raises(LibraryError, match="build_graph"):
            asyncio.run(made.ainvoke("one"))
        wider = CatenaChainCompressor(library=library)
        with pytest.raises(LibraryError, match="build_graph"):
            wider.compress_documents([Document(page_content="x")], "one")


# Async, callbacks, chains of runnables.


async def test_all_ways_are_the_same_in_async_and_do_not_block(
    graph: ChunkGraph, store: InMemoryVectorStore, manuals: Library
) -> None:
    own: dict[str, Any] = {"graph": graph, "embeddings": embeddings()}
    retrievers = [
        CatenaGraphRetriever(library=manuals, k=4),
        CatenaGraphRetriever(library=manuals, retriever=CatenaRetriever(library=manuals), k=4),
        CatenaGraphRetriever(vectorstore=store, graph=graph, k=4),
        CatenaGraphRetriever(retriever=Fixed(docs=passages()[:2]), k=4, **own),
        CatenaGraphRetriever(retriever=Broken(), k=4, **own),
    ]
    for retriever in retrievers:
        chain = retriever | format_chains
        expected, result, text = retriever.invoke(LEAD), retriever.result(LEAD), chain.invoke(LEAD)
        with blockbuster_ctx(["catena", "langchain_catena"]):
            assert await retriever.ainvoke(LEAD) == expected
            assert await retriever.aresult(LEAD) == result
            assert await chain.ainvoke(LEAD) == text
            assert await retriever.abatch([LEAD, LEAD]) == [expected] * 2
    for wider in (CatenaChainCompressor(library=manuals, k=4), CatenaChainCompressor(k=4, **own)):
        given = passages()[:2]
        expected = wider.compress_documents(given, QUESTION)
        with blockbuster_ctx(["catena", "langchain_catena"]):
            assert await wider.acompress_documents(given, QUESTION) == expected


class Seen(BaseCallbackHandler):
    """Notes the runs of retrievers and models: what began, under which, with which tags."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, Any, Any, tuple[str, ...]]] = []
        self.ended: dict[Any, int] = {}
        self.failed: list[str] = []
        self.events: list[tuple[str, Any]] = []

    def on_retriever_start(
        self, serialized: Any, query: str, *, run_id: Any, parent_run_id: Any = None, **kwargs: Any
    ) -> None:
        self.runs.append((kwargs.get("name") or "", run_id, parent_run_id, tuple(kwargs.get("tags") or ())))

    def on_retriever_end(self, documents: Any, *, run_id: Any, **kwargs: Any) -> None:
        self.ended[run_id] = len(documents)

    def on_retriever_error(self, error: BaseException, **kwargs: Any) -> None:
        self.failed.append(str(error))

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: Any, parent_run_id: Any = None, **kwargs: Any
    ) -> None:
        self.runs.append(("model", run_id, parent_run_id, ()))

    def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
        self.events.append((name, data))


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_inner_retriever_and_the_model_are_children_of_the_run(graph: ChunkGraph, mode: str) -> None:
    seen = Seen()
    model = ReplyingChatModel(reply=lambda messages: '["Arno Hale", "Night Ferry"]')
    how = GraphSearch(scorer=SIMILAR, keywords_by="llm", walk=PAPER)
    retriever = CatenaGraphRetriever(
        retriever=Fixed(docs=passages()), graph=graph, embeddings=embeddings(), how=how, llm=model, k=3, tags=["own"]
    )
    config: Any = {"callbacks": [seen]}
    found = retriever.invoke(QUESTION, config) if mode == "sync" else asyncio.run(retriever.ainvoke(QUESTION, config))
    assert len(found) == 3
    outer, inner, asked = seen.runs
    assert outer[0] == "CatenaGraphRetriever"
    assert outer[3] == ("own",)
    assert inner[0] == "Fixed"
    assert inner[2] == asked[2] == outer[1]
    assert "first_ranking" in inner[3]
    assert asked[0] == "model"
    assert seen.ended == {outer[1]: 3, inner[1]: len(PASSAGES)}
    assert seen.events == []


async def test_async_handlers_are_told_what_failed(graph: ChunkGraph) -> None:
    events: list[tuple[str, Any]] = []

    class Events(AsyncCallbackHandler):
        async def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
            events.append((name, data))

    retriever = CatenaGraphRetriever(retriever=Broken(), graph=graph, embeddings=embeddings())
    await retriever.ainvoke(QUESTION, {"callbacks": [Events()]})
    assert [(name, data["what"]) for name, data in events] == [("catena_degraded", "retriever")]


def test_it_drops_into_a_chain_with_a_prompt_and_is_configurable(
    graph: ChunkGraph, store: InMemoryVectorStore
) -> None:
    from langchain_core.runnables import ConfigurableField

    retriever = CatenaGraphRetriever(vectorstore=store, graph=graph, how=HOW, k=3)
    prompt = PromptTemplate.from_template("{context}\n\n{question}")
    model = RunnableLambda(lambda value: value.text)
    chain = {"context": retriever | format_chains, "question": RunnablePassthrough()} | prompt | model
    text = chain.invoke(QUESTION)
    assert text.endswith(QUESTION)
    assert '<passage number="1"' in text
    field = retriever.configurable_fields(k=ConfigurableField(id="k"))
    assert len(field.with_config(configurable={"k": 1}).invoke(QUESTION)) == 1
    assert len(retriever.batch([QUESTION, "glass"])) == 2


@SUNSET
def test_it_is_a_stage_behind_others_in_langchains_own_pipelines(
    graph: ChunkGraph, store: InMemoryVectorStore
) -> None:
    from langchain_classic.retrievers import ContextualCompressionRetriever
    from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline

    wider = CatenaChainCompressor(graph=graph, embeddings=embeddings(), how=HOW, k=4)
    rerank = CatenaRerank(reranker=FakeReranker(), calibration=Constant())
    pipeline = DocumentCompressorPipeline(transformers=[rerank, wider])
    base = store.as_retriever(search_kwargs={"k": 2})
    found = ContextualCompressionRetriever(base_compressor=pipeline, base_retriever=base).invoke(QUESTION)
    assert len(found) == 4
    told = found[0].metadata["catena"]
    assert told["reranker"] == "fake-reranker"  # what was said before is still said
    assert told["scale"] == "rank"
    back = CatenaRerank(reranker=FakeReranker(), calibration=Constant()).compress_documents(found, QUESTION)
    assert {each.id for each in back} == set(ids(found))
    assert all(each.metadata["catena"]["chains"] for each in back)  # a stage behind it keeps the chains


# What fails.


class DownEmbeddings(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise RuntimeError("the endpoint is down")

    embed_query = embed_documents  # type: ignore[assignment]


def test_when_the_retriever_fails_the_graph_alone_is_asked_aloud(
    graph: ChunkGraph, caplog: pytest.LogCaptureFixture
) -> None:
    own: dict[str, Any] = {"retriever": Broken(), "graph": graph, "embeddings": embeddings(), "how": HOW, "k": 3}
    seen = Seen()
    with caplog.at_level(logging.WARNING):
        found = CatenaGraphRetriever(**own).invoke(QUESTION, {"callbacks": [seen]})
    assert len(found) == 3
    assert found[0].id in {"p0", "p1", "p4"}  # where names of the question stand
    (said,) = found[0].metadata["catena"]["degraded"]
    assert "retriever" in said
    assert "the index is gone" in said
    assert "the index is gone" in caplog.text
    assert [name for name, _ in seen.events] == ["catena_degraded"]
    with pytest.raises(ServiceError, match="the index is gone"):
        CatenaGraphRetriever(**own, on_retriever_error="raise").invoke(QUESTION)
    routes = {**own, "retriever": CatenaRetriever.over({"bad": Broken()})}
    assert ids(CatenaGraphRetriever(**routes).invoke(QUESTION)) == ids(found)
    with pytest.raises(RouteError, match="the index is gone"):
        CatenaGraphRetriever(**routes, on_retriever_error="raise").invoke(QUESTION)
    mistaken = {**own, "retriever": CatenaRetriever.over({"good": Fixed(docs=passages())}, where={"title": "Ombra"})}
    with pytest.raises(FilterError):  # the caller's mistake, which no other ranking makes good
        CatenaGraphRetriever(**mistaken).invoke(QUESTION)


def test_when_the_walk_fails_the_first_ranking_is_returned_aloud(
    graph: ChunkGraph, caplog: pytest.LogCaptureFixture
) -> None:
    own: dict[str, Any] = {"graph": graph, "embeddings": DownEmbeddings(), "k": 2}
    retriever = CatenaGraphRetriever(retriever=Fixed(docs=passages()), **own)
    found = retriever.invoke(QUESTION)
    assert ids(found) == ["p0", "p1"]
    assert "the endpoint is down" in found[0].metadata["catena"]["degraded"][0]
    assert found[0].metadata["catena"]["chains"] == []
    with caplog.at_level(logging.WARNING):
        assert ids(CatenaChainCompressor(**own).compress_documents(passages(), QUESTION)) == ["p0", "p1"]
    assert "the endpoint is down" in caplog.text
    loud = GraphSearch(on_graph_error="raise")
    for asked in (
        lambda: CatenaGraphRetriever(retriever=Fixed(docs=passages()), **own, how=loud).invoke(QUESTION),
        lambda: CatenaChainCompressor(**own, how=loud).compress_documents(passages(), QUESTION),
    ):
        with pytest.raises(ServiceError, match="the endpoint is down"):
            asked()
    with pytest.raises(ServiceError, match="the endpoint is down"):  # nothing is left that could go on
        CatenaGraphRetriever(retriever=Broken(), **own).invoke(QUESTION)


def test_other_embeddings_than_the_graphs_are_refused(graph: ChunkGraph) -> None:
    from langchain_core.embeddings import DeterministicFakeEmbedding

    other = DeterministicFakeEmbedding(size=7)
    retriever = CatenaGraphRetriever(retriever=Fixed(docs=passages()), graph=graph, embeddings=other)
    with pytest.raises(ParameterError, match="vector of the question"):
        retriever.invoke(QUESTION)


def test_wrong_options_are_named(graph: ChunkGraph, store: InMemoryVectorStore, manuals: Library) -> None:
    base = Fixed(docs=[])
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "either library"),
        ({"library": manuals, "graph": graph}, "either library"),
        ({"library": manuals, "embeddings": embeddings()}, "a library has its own"),
        ({"graph": graph}, "for the first ranking"),
        ({"graph": graph, "retriever": base, "vectorstore": store}, "either retriever"),
        ({"graph": graph, "retriever": base}, "by which it was built"),
        ({"graph": graph, "retriever": base, "embeddings": "minilm"}, "embeddings"),
        ({"library": manuals, "k": -1}, "k"),
        ({"library": manuals, "how": "best"}, "GraphSearch"),
        ({"library": manuals, "depth": 3}, "depth"),
    ]
    for options, match in wrong:
        with pytest.raises(ValueError, match=match):
            CatenaGraphRetriever(**options)
    for options, match in (({}, "either library"), ({"graph": graph}, "by which it was built")):
        with pytest.raises(ValueError, match=match):
            CatenaChainCompressor(**options)
    for k in (-1, "3"):
        for retriever in (
            CatenaGraphRetriever(library=manuals),
            CatenaGraphRetriever(vectorstore=store, graph=graph),
        ):
            with pytest.raises(ParameterError, match="k must be"):
                retriever.invoke(LEAD, k=k)


# Chains for readers.


def test_chains_come_out_of_the_documents_as_the_walk_made_them(
    graph: ChunkGraph, store: InMemoryVectorStore
) -> None:
    retriever = CatenaGraphRetriever(vectorstore=store, graph=graph, how=HOW, k=5)
    found, chains = retriever.invoke(QUESTION), retriever.result(QUESTION).chains
    after_json = [Document(**json.loads(json.dumps(each.model_dump(exclude={"type"})))) for each in found]
    for documents in (found, found[::-1], after_json):
        again = chains_of(documents)
        assert [[hop.chunk.id for hop in chain.hops] for chain in again] == [
            [hop.chunk.id for hop in chain.hops] for chain in chains
        ]
        for one, other in zip(again, chains, strict=True):
            for mine, theirs in zip(one.hops, other.hops, strict=True):
                assert (mine.score, mine.came_from, mine.edge, mine.words) == (
                    theirs.score,
                    theirs.came_from,
                    theirs.edge,
                    theirs.words,
                )
                assert mine.chunk.text == theirs.chunk.text
    for reading in (
        None,
        ChainReading(format="iterative"),
        ChainReading(format="shuffled"),
        ChainReading(budget_tokens=60),
    ):
        text = format_chains(found, reading)
        assert text == chain_context(chains, reading).text
        assert chain_formatter(reading).invoke(found) == text
        assert (retriever | chain_formatter(reading)).invoke(QUESTION) == text
    assert format_chains(found[::-1]) == format_chains(found)


def test_what_is_left_of_a_chain_and_what_is_in_none_is_read_as_well(graph: ChunkGraph) -> None:
    retriever = CatenaGraphRetriever(
        retriever=Fixed(docs=passages()[:1]), graph=graph, embeddings=embeddings(), how=OF_GRAPH
    )
    found = retriever.invoke(QUESTION)
    plain = Document(id="x", page_content="Elsewhere.", metadata={})
    text = format_chains([*found[1:], plain])
    assert found[0].page_content not in text
    assert all(each.page_content in text for each in found[1:])
    assert text.index("Elsewhere.") > max(text.index(each.page_content) for each in found[1:])
    odd: list[Any] = ["no chains", [3], [{"chain": 1}], [{"chain": 1, "hop": 1, "score": "x"}], {"a": 1}, None]
    for chains in odd:
        document = Document(id="x", page_content="Odd.", metadata={"catena": {"chains": chains}})
        (alone,) = chains_of([document])
        assert [hop.chunk.text for hop in alone.hops] == ["Odd."]
    assert [hop.chunk.text for hop in chains_of([Document(page_content="Odd.", metadata={"catena": 3})])[0].hops] == [
        "Odd."
    ]
    assert format_chains([]) == ""
    with pytest.raises(ParameterError, match="format"):
        ChainReading(format="loop")  # type: ignore[arg-type]
