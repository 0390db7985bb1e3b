"""LangChain's classes over a library on a real server give what they give over the embedded one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from adapter_cases import (
    ALL,
    BOTH,
    MANUALS,
    NOWHERE,
    QUESTIONS,
    Line,
    Twins,
    closing,
    differences,
    missing_of,
    twins,
)
from blockbuster import blockbuster_ctx
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import FakeListLLM
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from catena.effects import Retry, Services
from catena.graph import ChunkGraph, GraphSearch
from catena.library import Library
from catena.model import FilterError, LibraryError, ParameterError, RouteError, ServerError
from catena.retrieval import RankFusion, ViewSearch
from catena.segments import Constant
from catena.testing import FakeReranker
from catena_server import ServerLibrary, upload_graph
from catena_server.graph import ServerGraph
from langchain_catena import (
    CatenaChainCompressor,
    CatenaEmbeddings,
    CatenaFigureRetriever,
    CatenaGraphRetriever,
    CatenaLoader,
    CatenaRerank,
    CatenaRetriever,
    CatenaSectionRetriever,
    CatenaSegmentExtractor,
    CatenaSegmentRetriever,
    RetrieverStore,
    build_graph,
    format_chains,
    segment_answer_chain,
    to_core_document,
)

Fresh = Callable[..., str]
HX210 = "manuals/halden-hx210-manual.pdf"

Made = Callable[[Any], Runnable[str, Any]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, es_url: str, es_api_key: str) -> Iterator[Twins]:
    with twins(tmp_path_factory.mktemp("langchain"), es_url, es_api_key, "w-langchain") as both:
        yield both


@pytest.fixture
def cut(pair: Twins) -> Iterator[Line]:
    """The line to the server, cut."""
    pair.line.cut = True
    yield pair.line
    pair.line.cut = False


def ranked(library: Any, **options: Any) -> CatenaRetriever:
    return CatenaRetriever(library=library, **{"k": 20, "depth": ALL, **options})


def staged(library: Any, *stages: BaseDocumentCompressor) -> Runnable[str, list[Document]]:
    base = ranked(library)

    def found(question: str) -> list[Document]:
        documents = base.invoke(question)
        for stage in stages:
            documents = list(stage.compress_documents(documents, question))
        return documents

    async def afound(question: str) -> list[Document]:
        documents = await base.ainvoke(question)
        for stage in stages:
            documents = list(await stage.acompress_documents(documents, question))
        return documents

    return RunnableLambda(found, afound)


def segmented(library: Any) -> Runnable[str, list[Document]]:
    rerank = CatenaRerank(reranker=FakeReranker(), calibration=Constant())
    return staged(library, rerank, CatenaSegmentExtractor(neighbours=library, calibration=Constant()))


WAYS: dict[str, Made] = {
    "chunks": lambda library: ranked(library, k=5),
    "chunks of one document": lambda library: ranked(library, where={"document_id": HX210}),
    "chunks under a filter": lambda library: ranked(library, where={"$not": {"title": {"$contains": "HX200"}}}),
    "whole sections": lambda library: ranked(library, k=5, whole_sections=True),
    "segments": lambda library: CatenaSegmentRetriever(library=library, content="headed"),
    "segments of stages": segmented,
    "chains": lambda library: CatenaGraphRetriever(library=library, k=6),
    "chains behind a retriever": lambda library: CatenaGraphRetriever(library=library, retriever=ranked(library)),
    "chains as a stage": lambda library: staged(library, CatenaChainCompressor(library=library, k=6)),
    "sections by passages": lambda library: CatenaSectionRetriever(library=library, budget_tokens=300),
    "sections by views": lambda library: CatenaSectionRetriever(library=library, views=ViewSearch()),
    "figures": lambda library: CatenaFigureRetriever(library=library),
    "an answer": lambda library: segment_answer_chain(library, FakeListLLM(responses=["No quote."])),
}


def dumped(found: Any) -> Any:
    return [document.model_dump() for document in found] if isinstance(found, list) else found


@pytest.mark.parametrize("way", WAYS)
def test_a_library_on_a_server_answers_as_the_embedded_one(way: str, pair: Twins) -> None:
    served, local = WAYS[way](pair.served), WAYS[way](pair.local)
    wanted = {question: dumped(local.invoke(question)) for question in (*QUESTIONS, BOTH)}
    assert any(wanted.values()) == (way != "figures")
    for question, answer in wanted.items():
        assert list(differences(dumped(served.invoke(question)), answer)) == [], question

    async def asked() -> list[Any]:
        with blockbuster_ctx(["catena", "langchain_catena"]):
            found = await asyncio.gather(*(served.ainvoke(question) for question in wanted))
        await pair.served.aclose()
        return [dumped(each) for each in found]

    assert list(differences(asyncio.run(asked()), list(wanted.values()))) == []


NOTES = [
    Document(id=title, page_content=text, metadata={"title": title, "source": f"{title}.md", "tags": ["note"]})
    for title, text in (
        ("Arno Hale", "Arno Hale wrote the opera Night Ferry after he had left Verdel, the town where he was born."),
        ("Verdel", "Verdel is a town on the Ombra. It is known for its glass."),
        ("Ombra", "The Ombra is 212 km long. It rises in the Kesh hills."),
        ("Screws", "Screws are tightened crosswise."),
    )
]
ASKED = "In which town was the composer of Night Ferry born?"


def once(library: ServerLibrary) -> Services:
    """What answers the library's steps, without waiting for a server that is gone."""
    return replace(library.services, retry=Retry(attempts=1))


def test_a_name_that_stands_nowhere_is_told_by_both(pair: Twins) -> None:
    for made in (CatenaRetriever, CatenaSegmentRetriever):
        served, local = (made(library=each, tell_unknown=True).invoke(NOWHERE) for each in (pair.served, pair.local))
        assert dumped(served) == dumped(local)
        assert "HX290" in served[0].page_content


def test_documents_of_a_loader_are_indexed_alike(
    pair: Twins, es_url: str, fresh_index: Fresh, tmp_path: Path
) -> None:
    loaded = [to_core_document(document) for document in CatenaLoader(MANUALS).load()]
    served = ServerLibrary.open(pair.line, fresh_index(es_url, "w"))
    with Library.open(tmp_path / "other") as local:
        assert served.add(*loaded) == local.add(*loaded)
        found, wanted = (dumped(ranked(each).invoke(QUESTIONS[0])) for each in (served, local))
        assert list(differences(found, wanted)) == []
        with pytest.raises(LibraryError, match="no graph"):
            CatenaGraphRetriever(library=served).invoke(QUESTIONS[0])
        with pytest.raises(LibraryError, match="no graph"):
            asyncio.run(closing(pair.line, CatenaGraphRetriever(library=served).ainvoke(QUESTIONS[0])))
        with pytest.raises(LibraryError, match="no graph"):
            CatenaChainCompressor(library=served).compress_documents(NOTES, ASKED)


@pytest.fixture
def own(pair: Twins, es_url: str, fresh_index: Fresh) -> tuple[InMemoryVectorStore, ChunkGraph, ServerGraph]:
    """A store of the user's own documents, and their graph: in memory and on the server."""
    embeddings = CatenaEmbeddings()
    graph = build_graph(NOTES, embeddings)
    served = upload_graph(pair.line, fresh_index(es_url, "w"), graph)
    return InMemoryVectorStore.from_documents(NOTES, embeddings), graph, served


def test_a_graph_of_own_documents_is_walked_on_the_server(
    own: tuple[InMemoryVectorStore, ChunkGraph, ServerGraph], pair: Twins
) -> None:
    store, local, served = own
    lost = RunnableLambda(lambda question: [*NOTES[:1], Document(id="own", page_content="Not in the graph.")])
    for base in ({"vectorstore": store}, {"retriever": lost, "embeddings": store.embeddings}):
        for options in ({"k": 3}, {"k": 9, "where": {"title": {"$ne": "Ombra"}}}):
            found = CatenaGraphRetriever(graph=served, **base, **options)
            wanted = CatenaGraphRetriever(graph=local, **base, **options).invoke(ASKED)
            assert dumped(found.invoke(ASKED)) == dumped(wanted)
            assert format_chains(found.invoke(ASKED)) == format_chains(wanted)

            async def asked(found: CatenaGraphRetriever = found) -> list[Document]:
                with blockbuster_ctx(["catena", "langchain_catena"]):
                    documents = await found.ainvoke(ASKED)
                await pair.line.aclose()
                return documents

            assert dumped(asyncio.run(asked())) == dumped(wanted)
    given = [*NOTES[:1], Document(id="own", page_content="Not in the graph.")]
    stages = [CatenaChainCompressor(graph=each, embeddings=store.embeddings, k=5) for each in (served, local)]
    one, other = (dumped(stage.compress_documents(given, ASKED)) for stage in stages)
    assert one == other
    assert {document["id"] for document in one} >= {"Arno Hale", "Verdel", "own"}


@pytest.mark.parametrize("awaited", [False, True])
def test_a_server_that_is_gone_costs_what_rests_on_it(
    own: tuple[InMemoryVectorStore, ChunkGraph, ServerGraph], pair: Twins, cut: Line, awaited: bool
) -> None:
    store, _, served = own

    def asked(retriever: Runnable[str, list[Document]]) -> list[Document]:
        if not awaited:
            return retriever.invoke(ASKED)

        async def away() -> list[Document]:
            try:
                return await retriever.ainvoke(ASKED)
            finally:
                await cut.aclose()

        return asyncio.run(away())

    with pytest.raises(RouteError, match="every route failed"):
        asked(CatenaRetriever(services=once(pair.served)))
    mixed = RetrieverStore({"vectors": store.as_retriever()}, beside=pair.served.store)
    beside = replace(once(pair.served), store=mixed)
    options: dict[str, Any] = {"services": beside, "routes": ("lexical", "vectors"), "fusion": RankFusion()}
    found = asked(CatenaRetriever(**options))
    assert {document.id for document in found} == {document.id for document in NOTES}
    assert any("lexical" in part for part in found[0].metadata["catena"]["degraded"])
    with pytest.raises(RouteError, match=r"Connection refused|Cannot connect"):
        asked(CatenaRetriever(**options, on_route_error="raise"))
    walk: dict[str, Any] = {"vectorstore": store, "graph": served, "services": Services(retry=Retry(attempts=1))}
    first = asked(CatenaGraphRetriever(**walk, k=2))
    assert [document.id for document in first] == [document.id for document in store.similarity_search(ASKED, k=2)]
    assert any(part.startswith("graph") for part in first[0].metadata["catena"]["degraded"])
    with pytest.raises(ServerError, match=r"127\.0\.0\.1:9"):
        asked(CatenaGraphRetriever(**walk, how=GraphSearch(on_graph_error="raise")))


def test_mistakes_are_those_of_the_embedded_library(pair: Twins) -> None:
    for library in (pair.served, pair.local):
        with pytest.raises(FilterError, match=r"\$near"):
            ranked(library).invoke(ASKED, where={"title": {"$near": 1}})
        with pytest.raises(ParameterError, match="k must"):
            ranked(library).invoke(ASKED, k=-1)
        with pytest.raises(ValueError, match=r"either library=… or services=…"):
            CatenaRetriever(library=library, services=library.services)
    with pytest.raises(ValueError, match="BaseLibrary"):
        CatenaRetriever(library=pair.served.store)  # type: ignore[arg-type]


@pytest.fixture
def here(tmp_path: Path, es_api_key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder to work in, where the server asks for no key, as that of the README."""
    if es_api_key:
        pytest.skip("the README's server asks for no key")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("here")
def test_the_readme_does_on_a_server_what_it_says(
    es_url: str, fresh_index: Fresh, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("langchain_elasticsearch", reason="needs langchain-elasticsearch")
    assert missing_of("langchain-catena", es_url, fresh_index(es_url, "w"), capsys) == []
