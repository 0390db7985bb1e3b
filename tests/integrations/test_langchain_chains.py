"""Catena in chains: EnsembleRetriever beside BM25, tools for agents, from a question to an answer with sources."""

from __future__ import annotations

import re
from typing import Any

import pytest
from langchain_classic.retrievers.ensemble import EnsembleRetriever
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import ReplyingChatModel
from rank_bm25 import BM25Okapi

from catena import Library
from langchain_catena import CatenaDocumentTransformer, CatenaEmbeddings, CatenaLoader, CatenaRetriever

FUSES = {"HX200": "2 A", "HX210": "4 A", "HX220": "6 A", "HX230": "8 A", "HX240": "10 A", "HX250": "12 A"}
MANUAL = """# {name} Manual

## Electrical limits

| Quantity | Limit |
|---|---|
| Fuse | {fuse} |

## Care

Wipe the housing with a soft cloth.
"""


class Bm25(BaseRetriever):
    """BM25 over `page_content`, as the community's retriever has it."""

    docs: list[Document]
    k: int = 2

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        ranked = BM25Okapi([words(document.page_content) for document in self.docs])
        return ranked.get_top_n(words(query), self.docs, n=self.k)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("manuals")
    for name, fuse in FUSES.items():
        (folder / f"{name.lower()}.md").write_text(MANUAL.format(name=name, fuse=fuse), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def library(folder):
    with Library.open(folder / "library") as opened:
        opened.index(sorted(folder.glob("*.md")))
        yield opened


def question(name: str) -> str:
    return f"What is the limit of the fuse of the {name}?"


def routes(folder: Any, content: Any) -> dict[str, BaseRetriever]:
    documents = CatenaLoader(sorted(folder.glob("*.md"))).load()
    chunks = CatenaDocumentTransformer(content=content).split_documents(documents)
    store = InMemoryVectorStore.from_documents(chunks, CatenaEmbeddings())
    return {"dense": store.as_retriever(search_kwargs={"k": 2}), "bm25": Bm25(docs=chunks)}


def test_headed_text_reaches_the_vectors_and_bm25_of_an_ensemble(folder) -> None:
    headed, raw = routes(folder, "headed"), routes(folder, "raw")
    ensemble = EnsembleRetriever(retrievers=list(headed.values()), weights=[0.5, 0.5])
    for name, fuse in FUSES.items():
        for route in headed.values():
            assert f"{name} Manual › Electrical limits" in route.invoke(question(name))[0].page_content
        first = ensemble.invoke(question(name))[0]
        assert first.page_content.startswith(f"{name} Manual")
        assert f"| Fuse | {fuse} |" in first.metadata["raw_text"]
    blind = EnsembleRetriever(retrievers=list(raw.values()), weights=[0.5, 0.5])
    hits = [FUSES[name] in blind.invoke(question(name))[0].page_content for name in FUSES]
    assert sum(hits) < len(FUSES) / 2  # without the titles nothing tells the manuals apart


async def test_the_same_routes_fused_by_catena(folder) -> None:
    fused = CatenaRetriever.over(routes(folder, "headed"), k=1)
    for name in FUSES:
        (first,) = fused.invoke(question(name))
        assert first.page_content.startswith(f"{name} Manual")
        assert {way["route"] for way in first.metadata["catena"]["routes"]} == {"dense", "bm25"}
        assert await fused.ainvoke(question(name)) == [first]


def test_catena_is_a_route_of_an_ensemble(folder, library: Library) -> None:
    ours = CatenaRetriever(library=library, k=1)
    ensemble = EnsembleRetriever(retrievers=[ours, routes(folder, "raw")["bm25"]], weights=[0.7, 0.3])
    for name, fuse in FUSES.items():
        assert fuse in ensemble.invoke(question(name))[0].page_content


async def test_a_tool_for_agents(library: Library) -> None:
    teller = CatenaRetriever(library=library, k=1, tell_unknown=True)
    cited = PromptTemplate.from_template("[{citation}] {page_content}")
    tool = create_retriever_tool(teller, "manuals", "Searches the manuals.", response_format="content_and_artifact")
    call = {"type": "tool_call", "id": "1", "name": "manuals", "args": {"query": question("HX210")}}
    message = tool.invoke(call)
    assert isinstance(message, ToolMessage)
    assert "| Fuse | 4 A |" in message.content
    assert message.artifact[0].metadata["citation"] == "HX210 Manual › Electrical limits, lines 3-7"
    assert (await tool.ainvoke(call)).content == message.content
    nowhere = tool.invoke({**call, "args": {"query": question("HX299")}})
    assert nowhere.content.startswith("'HX299' stands nowhere in the documents; near it: HX2")
    known = CatenaRetriever(library=library, k=1)
    plain = create_retriever_tool(known, "manuals", "Searches the manuals.", document_prompt=cited)
    assert plain.invoke({"query": question("HX220")}).startswith("[HX220 Manual › Electrical limits, lines 3-7] ##")


def reads(messages) -> str:
    """Answer from the first passage of the prompt that holds a fuse."""
    found = re.search(r"\[(\d+)\] (?:(?!\n\n).)*?\| Fuse \| (\d+ A) \|", messages[0].text, re.DOTALL)
    return f"It is {found[2]} [{found[1]}]." if found else "The passages do not say."


def passages(documents: list[Document]) -> str:
    return "\n\n".join(
        f"[{number}] {document.metadata['citation']}\n{document.page_content.strip()}".replace("\n\n", "\n")
        for number, document in enumerate(documents, start=1)
    )


def answering(library: Library, **options: Any):
    prompt = ChatPromptTemplate.from_template("Passages:\n\n{passages}\n\nQuestion: {question}")
    answer = (
        RunnablePassthrough.assign(passages=lambda given: passages(given["sources"]))
        | prompt
        | ReplyingChatModel(reply=reads)
        | StrOutputParser()
    )
    found = RunnableParallel(sources=CatenaRetriever(library=library, k=2, **options), question=RunnablePassthrough())
    return found.assign(answer=answer)


async def test_from_a_question_to_an_answer_with_its_sources(library: Library) -> None:
    chain = answering(library)
    for name, fuse in FUSES.items():
        given = chain.invoke(question(name))
        assert given["answer"] == f"It is {fuse} [1]."
        assert given["sources"][0].metadata["title"] == f"{name} Manual"
    asked = [question(name) for name in FUSES]
    assert await chain.abatch(asked) == chain.batch(asked)
    parts = [part async for part in chain.astream(question("HX210"))]
    assert "".join(part.get("answer", "") for part in parts) == "It is 4 A [1]."
    assert chain.invoke(question("HX299")) == {
        "sources": [],
        "question": question("HX299"),
        "answer": "The passages do not say.",
    }


def test_a_chain_can_branch_on_what_stands_nowhere(library: Library) -> None:
    retriever = CatenaRetriever(library=library)

    def told(asked: str) -> str | None:
        return "; ".join(map(str, retriever.ranking(asked).unknown)) or None

    chain = RunnableLambda(lambda asked: told(asked) or answering(library))
    assert chain.invoke(question("HX299")).startswith("'HX299' stands nowhere")
    assert chain.invoke(question("HX240"))["answer"] == "It is 10 A [1]."


def test_documents_survive_json(library: Library) -> None:
    for options in ({}, {"whole_sections": True}, {"on_unknown": "keep"}):
        found = CatenaRetriever(library=library, **options).invoke("fuse of the HX299 and the HX200")
        assert found
        assert [Document.model_validate_json(document.model_dump_json()) for document in found] == found
