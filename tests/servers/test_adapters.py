"""The classes of both frameworks over a library on a real server give what they give over the embedded one."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from doc_blocks import ROOT
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import FakeListLLM
from langchain_core.runnables import Runnable, RunnableLambda
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever

import langchain_catena as lc
import llama_index_catena as li
from catena.enrichment import Keywords, Summaries
from catena.library import Library, Preparation
from catena.retrieval import ViewSearch
from catena.segments import Constant
from catena.testing import FakeReranker
from catena_server import ServerLibrary, upload_graph
from llama_index_catena.convert import PROVENANCE, provenance

MANUALS = ROOT / "packages/catena/src/catena/data/demo"
BOTH = "How do the warm-up times of the HX200 and the HX210 differ?"
QUESTIONS = [
    *[row["question"] for row in json.loads((MANUALS / "questions.json").read_text(encoding="utf-8"))][:3], BOTH,
    "How tight are the cover screws of the HX290?",
]  # fmt: skip
ALL = 500  # more than there are chunks: how deep a route of the embedded library must look to be exact
HX210 = {"document_id": "manuals/halden-hx210-manual.pdf"}


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, es_url: str, es_api_key: str, module_index: Callable[..., str]
) -> Iterator[tuple[Any, Any, asyncio.Runner]]:
    """One library, on a server and embedded, with the same documents and the same graph."""
    folder, name = tmp_path_factory.mktemp("adapters"), module_index(es_url, "w")
    shutil.copytree(MANUALS, folder / "manuals")
    how = Preparation(views=(Keywords(by="offline"), Summaries(by="offline")))
    connection = {"api_key": es_api_key} if es_api_key else None
    with (
        Library.open(folder / "library", preparation=how) as local,
        ServerLibrary.open(es_url, name, connection=connection, home=folder, preparation=how) as served,
    ):
        local.index(folder / "manuals")
        local.build_graph()
        served.index(folder / "manuals")
        upload_graph(served.store.transport, name, local.graph)
        with asyncio.Runner() as runner:  # one event loop, as connections are bound to it
            yield served, local, runner
            runner.run(served.aclose())


def differences(found: Any, wanted: Any, at: str = "") -> Iterator[str]:
    """Yield where JSON-like answers differ, scores by more than 1e-4.

    Where the server sums the whole formula in one request, it does not say at which rank a route, or the view that it
    searches, had a chunk: such ranks are None.
    """
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        yield from (f"{at}.{key}: only in one" for key in sorted(set(found) ^ set(wanted)))
        for key in found.keys() & wanted.keys():
            yield from differences(found[key], wanted[key], f"{at}.{key}")
    elif isinstance(found, list | tuple) and isinstance(wanted, list | tuple) and len(found) == len(wanted):
        for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
            yield from differences(one, other, f"{at}[{place}]")
    elif isinstance(found, float) and isinstance(wanted, float):
        if abs(found - wanted) > 1e-4:
            yield f"{at}: {found} and {wanted}"
    elif found != wanted and not (found is None and (at.endswith(".rank") or ".views." in at)):
        yield f"{at}: {found!r} and {wanted!r}"


# LangChain.


def ranked(library: Any, **options: Any) -> lc.CatenaRetriever:
    # no walk: by default a library in a folder walks its graph, and one on a server does not
    return lc.CatenaRetriever(library=library, **{"k": 20, "depth": ALL, "graph": False, **options})


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
    rerank = lc.CatenaRerank(reranker=FakeReranker(), calibration=Constant())
    return staged(library, rerank, lc.CatenaSegmentExtractor(neighbours=library, calibration=Constant()))


LANGCHAIN: dict[str, Callable[[Any], Any]] = {
    "chunks": lambda library: ranked(library, k=5, tell_unknown=True),
    "chunks of one document": lambda library: ranked(library, where=HX210),
    "chunks under a filter": lambda library: ranked(library, where={"$not": {"title": {"$contains": "HX200"}}}),
    "whole sections": lambda library: ranked(library, k=5, whole_sections=True),
    "segments": lambda library: lc.CatenaSegmentRetriever(library=library, content="headed"),
    "segments of stages": segmented,
    "chains": lambda library: lc.CatenaGraphRetriever(library=library, k=6),
    "chains behind a retriever": lambda library: lc.CatenaGraphRetriever(library=library, retriever=ranked(library)),
    "chains as a stage": lambda library: staged(library, lc.CatenaChainCompressor(library=library, k=6)),
    "sections by passages": lambda library: lc.CatenaSectionRetriever(library=library, budget_tokens=300),
    "sections by views": lambda library: lc.CatenaSectionRetriever(library=library, views=ViewSearch()),
    "figures": lambda library: lc.CatenaFigureRetriever(library=library),
    "an answer": lambda library: lc.segment_answer_chain(library, FakeListLLM(responses=["No quote."])),
}

# LlamaIndex.


def retrieved(library: Any, **options: Any) -> li.CatenaRetriever:
    return li.CatenaRetriever(library, **{"similarity_top_k": 20, "depth": ALL, "graph": False, **options})


def engine(library: Any, *stages: Any) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(
        retrieved(library), llm=MockLLM(max_tokens=50), node_postprocessors=list(stages)
    )


LLAMA_INDEX: dict[str, Callable[[Any], Any]] = {
    "chunks": lambda library: retrieved(library, similarity_top_k=5),
    "chunks of one document": lambda library: retrieved(library, where=HX210),
    "whole sections": lambda library: retrieved(library, similarity_top_k=5, expand_to="section"),
    "passages within a budget": lambda library: retrieved(library, budget_tokens=300),
    "chunks by views": lambda library: li.CatenaRetriever(library, similarity_top_k=3, views=ViewSearch()),
    "segments": li.CatenaSegmentRetriever,
    "segments of an engine": lambda library: engine(
        library, li.CatenaRerank(FakeReranker(), calibration=Constant()), li.CatenaSegmentPostprocessor(library)
    ),
    "chains": lambda library: li.CatenaGraphRetriever(library=library),
    "chains behind a retriever": lambda library: li.CatenaGraphRetriever(
        library=library, retriever=retrieved(library)
    ),
    "chains of an engine": lambda library: engine(library, li.CatenaChainPostprocessor(library, top_n=6)),
    "an answer": lambda library: li.CatenaQueryEngine(li.CatenaSegmentRetriever(library), llm=MockLLM()),
    "figures": li.CatenaFigureRetriever,
}


def dumped(found: Any) -> Any:
    """Return an answer of either framework as JSON-like values."""
    if hasattr(found, "source_nodes"):
        return {"answer": found.response, "nodes": dumped(found.source_nodes)}
    if isinstance(found, list):
        return [each.model_dump() if isinstance(each, Document) else _node(each) for each in found]
    return found


def _node(found: Any) -> dict[str, Any]:
    node = found.node.to_dict()
    del node["metadata"][PROVENANCE]  # as text; told apart below
    return {"score": found.score, "node": node, "provenance": provenance(found.node)}


def asked(way: Any, question: str) -> Any:
    if isinstance(way, Runnable):
        return dumped(way.invoke(question))
    return dumped(way.retrieve(question) if isinstance(way, BaseRetriever) else way.query(question))


async def awaited(way: Any, question: str) -> Any:
    if isinstance(way, Runnable):
        return dumped(await way.ainvoke(question))
    return dumped(await (way.aretrieve(question) if isinstance(way, BaseRetriever) else way.aquery(question)))


@pytest.mark.parametrize(("ways", "name"), [(ways, name) for ways in (LANGCHAIN, LLAMA_INDEX) for name in ways])
def test_a_library_on_a_server_answers_as_the_embedded_one(
    ways: Mapping[str, Callable[[Any], Any]], name: str, both: tuple[Any, Any, asyncio.Runner]
) -> None:
    served, local = map(ways[name], both[:2])
    wanted = {question: asked(local, question) for question in QUESTIONS}
    assert any(wanted.values()) == (name != "figures")
    for question, answer in wanted.items():
        assert list(differences(asked(served, question), answer)) == [], question

    async def side_by_side() -> list[Any]:
        with blockbuster_ctx(["catena", "langchain_catena", "llama_index_catena"]):
            found = await asyncio.gather(*(awaited(served, question) for question in wanted))
        return list(found)

    assert list(differences(both[2].run(side_by_side()), list(wanted.values()))) == []


@pytest.mark.parametrize(
    ("package", "store"),
    [("langchain-catena", "langchain_elasticsearch"), ("llama-index-catena", "llama_index.vector_stores")],
)
def test_the_readme_does_on_a_server_what_it_says(
    package: str, store: str, request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    es_url, fresh_index = map(request.getfixturevalue, ("es_url", "fresh_index"))
    if request.getfixturevalue("es_api_key") or find_spec(store) is None:
        pytest.skip("the README's server asks for no key, and the framework has a store of its own")
    request.getfixturevalue("monkeypatch").chdir(tmp_path)
    readme = (ROOT / "integrations" / package / "README.md").read_text(encoding="utf-8")
    first = re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S)[0]
    (part,) = re.findall(r"^## On a search server\n(.*?)^## ", readme, re.M | re.S)
    code = "".join(re.findall(r"^```py\n(.*?)^```", part, re.M | re.S)).replace("http://127.0.0.1:9200", es_url)
    name, scope = fresh_index(es_url, "w"), dict[str, Any]()
    for index in ("manuals", "pumps"):
        code = code.replace(f'"{index}"', f'"{name}-{index}"', 1)
    for block in (first, code):
        exec(compile(block, "README.md", "exec"), scope)
    for each in ("library", "pumps"):
        if callable(close := getattr(scope[each], "close", None)):
            close()
    said = capsys.readouterr().out
    promised = [line for line in re.findall(r"(?:^|  )# (\S.*)", code, re.M) if "…" not in line]
    assert [line for line in promised if line not in said] == []
