"""LlamaIndex's classes over a library on a real server give what they give over the embedded one."""

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
from llama_index.core import VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from catena.effects import Retry
from catena.graph import ChunkGraph, GraphSearch
from catena.library import Library
from catena.model import FilterError, LibraryError, ParameterError, RouteError, ServerError
from catena.retrieval import RankFusion, ViewSearch
from catena.segments import Constant
from catena.testing import FakeReranker
from catena_server import ServerLibrary, upload_graph
from catena_server.graph import ServerGraph
from llama_index_catena import (
    CatenaChainPostprocessor,
    CatenaEmbedding,
    CatenaFigureRetriever,
    CatenaGraphRetriever,
    CatenaQueryEngine,
    CatenaReader,
    CatenaRerank,
    CatenaRetriever,
    CatenaSegmentPostprocessor,
    CatenaSegmentRetriever,
    build_graph,
    format_chains,
    retriever_store,
)
from llama_index_catena.convert import PROVENANCE, provenance
from llama_index_catena.documents import to_core_document

HX210 = "manuals/halden-hx210-manual.pdf"
Fresh = Callable[..., str]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, es_url: str, es_api_key: str) -> Iterator[Twins]:
    with twins(tmp_path_factory.mktemp("llama-index"), es_url, es_api_key, "w-llama-index") as both:
        yield both


@pytest.fixture
def cut(pair: Twins) -> Iterator[Line]:
    """The line to the server, cut."""
    pair.line.cut = True
    yield pair.line
    pair.line.cut = False


def ranked(library: Any, **options: Any) -> CatenaRetriever:
    return CatenaRetriever(library, **{"similarity_top_k": 20, "depth": ALL, **options})


def engine(library: Any, *stages: Any) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(ranked(library), llm=MockLLM(), node_postprocessors=list(stages))


def segmented(library: Any) -> RetrieverQueryEngine:
    rerank = CatenaRerank(FakeReranker(), calibration=Constant())
    return engine(library, rerank, CatenaSegmentPostprocessor(library))


WAYS: dict[str, Callable[[Any], Any]] = {
    "chunks": lambda library: ranked(library, similarity_top_k=5),
    "chunks of one document": lambda library: ranked(library, where={"document_id": HX210}),
    "whole sections": lambda library: ranked(library, similarity_top_k=5, expand_to="section"),
    "passages within a budget": lambda library: ranked(library, budget_tokens=300),
    "chunks by views": lambda library: CatenaRetriever(library, similarity_top_k=3, views=ViewSearch()),
    "segments": CatenaSegmentRetriever,
    "segments of an engine": segmented,
    "chains": lambda library: CatenaGraphRetriever(library=library),
    "chains behind a retriever": lambda library: CatenaGraphRetriever(library=library, retriever=ranked(library)),
    "chains of an engine": lambda library: engine(library, CatenaChainPostprocessor(library, top_n=6)),
    "an answer": lambda library: CatenaQueryEngine(CatenaSegmentRetriever(library), llm=MockLLM()),
    "figures": CatenaFigureRetriever,
}


def dumped(found: Any) -> Any:
    if not isinstance(found, list):
        return {"answer": found.response, "nodes": dumped(found.source_nodes)}
    return [_dumped(each) for each in found]


def _dumped(found: NodeWithScore) -> dict[str, Any]:
    node = found.node.to_dict()
    del node["metadata"][PROVENANCE]  # as text; told apart below
    return {"score": found.score, "node": node, "provenance": provenance(found.node)}


def asked(way: Any, question: str) -> Any:
    return dumped(way.retrieve(question) if isinstance(way, BaseRetriever) else way.query(question))


async def away(way: Any, question: str) -> Any:
    return dumped(await (way.aretrieve(question) if isinstance(way, BaseRetriever) else way.aquery(question)))


@pytest.mark.parametrize("way", WAYS)
def test_a_library_on_a_server_answers_as_the_embedded_one(way: str, pair: Twins) -> None:
    served, local = WAYS[way](pair.served), WAYS[way](pair.local)
    wanted = {question: asked(local, question) for question in (*QUESTIONS, BOTH)}
    assert any(wanted.values()) == (way != "figures")
    for question, answer in wanted.items():
        assert list(differences(asked(served, question), answer)) == [], question

    async def side_by_side() -> list[Any]:
        with blockbuster_ctx(["catena", "llama_index_catena"]):
            found = await asyncio.gather(*(away(served, question) for question in wanted))
        await pair.line.aclose()
        return list(found)

    assert list(differences(asyncio.run(side_by_side()), list(wanted.values()))) == []


NOTES = [
    TextNode(id_=title, text=text, metadata={"title": title})
    for title, text in (
        ("Arno Hale", "Arno Hale wrote the opera Night Ferry after he had left Verdel, the town where he was born."),
        ("Verdel", "Verdel is a town on the Ombra. It is known for its glass."),
        ("Ombra", "The Ombra is 212 km long. It rises in the Kesh hills."),
        ("Screws", "Screws are tightened crosswise."),
    )
]
ASKED = "In which town was the composer of Night Ferry born?"


def test_a_name_that_stands_nowhere_is_told_by_both(pair: Twins) -> None:
    for made in (CatenaRetriever, CatenaSegmentRetriever):
        served, local = (made(each).retrieve(NOWHERE) for each in (pair.served, pair.local))
        assert [each.node.text for each in served] == [each.node.text for each in local]
        assert "HX290" in served[0].node.text


def test_documents_of_a_reader_are_indexed_alike(
    pair: Twins, es_url: str, fresh_index: Fresh, tmp_path: Path
) -> None:
    read = [document for path in sorted(MANUALS.glob("*.pdf")) for document in CatenaReader().load_data(path)]
    documents = [to_core_document(document) for document in read]
    served = ServerLibrary.open(pair.line, fresh_index(es_url, "w"))
    with Library.open(tmp_path / "other") as local:
        assert served.add(*documents) == local.add(*documents)
        assert list(differences(asked(ranked(served), QUESTIONS[0]), asked(ranked(local), QUESTIONS[0]))) == []
    without = CatenaGraphRetriever(library=served)
    with pytest.raises(LibraryError, match="no graph"):
        without.retrieve(QUESTIONS[0])
    with pytest.raises(LibraryError, match="no graph"):
        asyncio.run(closing(pair.line, without.aretrieve(QUESTIONS[0])))


@pytest.fixture
def own(pair: Twins, es_url: str, fresh_index: Fresh) -> tuple[VectorStoreIndex, ChunkGraph, ServerGraph]:
    """An index of the user's own nodes, and their graph: in memory and on the server."""
    index = VectorStoreIndex(NOTES, embed_model=CatenaEmbedding())
    graph = build_graph(index)
    return index, graph, upload_graph(pair.line, fresh_index(es_url, "w"), graph)


def test_a_graph_of_own_nodes_is_walked_on_the_server(
    own: tuple[VectorStoreIndex, ChunkGraph, ServerGraph], pair: Twins
) -> None:
    index, local, served = own
    found = CatenaGraphRetriever(retriever=index, graph=served)
    wanted = CatenaGraphRetriever(retriever=index, graph=local).retrieve(ASKED)
    assert dumped(found.retrieve(ASKED)) == dumped(wanted)
    assert format_chains(found.retrieve(ASKED)).text == format_chains(wanted).text

    async def awaited() -> Any:
        with blockbuster_ctx(["catena", "llama_index_catena"]):
            nodes = await away(found, ASKED)
        await pair.line.aclose()
        return nodes

    assert asyncio.run(awaited()) == dumped(wanted)
    first = index.as_retriever(similarity_top_k=1).retrieve(ASKED)
    stages = [CatenaChainPostprocessor(each, embed_model=CatenaEmbedding(), top_n=3) for each in (served, local)]
    one, other = (dumped(stage.postprocess_nodes(first, query_str=ASKED)) for stage in stages)
    assert one == other
    assert len(one) == 3


@pytest.mark.parametrize("awaited", [False, True])
def test_a_server_that_is_gone_costs_what_rests_on_it(
    own: tuple[VectorStoreIndex, ChunkGraph, ServerGraph], pair: Twins, cut: Line, awaited: bool
) -> None:
    index, _, served = own

    def found(retriever: BaseRetriever) -> list[NodeWithScore]:
        if not awaited:
            return retriever.retrieve(ASKED)

        async def answered() -> list[NodeWithScore]:
            try:
                return await retriever.aretrieve(QueryBundle(ASKED))
            finally:
                await cut.aclose()

        return asyncio.run(answered())

    once = replace(pair.served.services, retry=Retry(attempts=1))
    with pytest.raises(RouteError, match="every route failed"):
        found(CatenaRetriever(once))
    mixed = retriever_store({"vectors": index.as_retriever(similarity_top_k=4)}, beside=pair.served.store)
    options: dict[str, Any] = {"routes": ["lexical", "vectors"], "fusion": RankFusion()}
    nodes = found(CatenaRetriever(replace(once, store=mixed), **options))
    assert {each.node.node_id for each in nodes} == {note.node_id for note in NOTES}
    assert any(part["what"] == "route lexical" for part in provenance(nodes[0].node)["degraded"])
    with pytest.raises(RouteError, match=r"Connection refused|Cannot connect"):
        found(CatenaRetriever(replace(once, store=mixed), **options, on_route_error="raise"))
    walked = found(CatenaGraphRetriever(retriever=index, graph=served, similarity_top_k=2))
    first = index.as_retriever(similarity_top_k=2).retrieve(ASKED)
    assert [each.node.node_id for each in walked] == [each.node.node_id for each in first]
    assert [part["what"] for part in provenance(walked[0].node)["degraded"]] == ["graph"]
    strict = GraphSearch(on_graph_error="raise")
    with pytest.raises(ServerError, match=r"127\.0\.0\.1:9"):
        found(CatenaGraphRetriever(retriever=index, graph=served, how=strict))


def test_mistakes_are_those_of_the_embedded_library(pair: Twins) -> None:
    for library in (pair.served, pair.local):
        with pytest.raises(FilterError, match=r"\$near"):
            ranked(library, where={"title": {"$near": 1}}).retrieve(ASKED)
        with pytest.raises(ParameterError, match="k must"):
            ranked(library, similarity_top_k=-1).retrieve(ASKED)
    with pytest.raises(ParameterError, match="a Library"):
        CatenaChainPostprocessor(pair.served.store)  # type: ignore[arg-type]


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
    pytest.importorskip("llama_index.vector_stores.elasticsearch", reason="needs LlamaIndex's Elasticsearch store")
    assert missing_of("llama-index-catena", es_url, fresh_index(es_url, "w"), capsys) == []
