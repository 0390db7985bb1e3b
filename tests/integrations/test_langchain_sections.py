"""Whole sections and fixed lengths as chunks, and a library of sections as a retriever: by passage, view, budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.load import dumps
from langchain_core.runnables import RunnableLambda
from langchain_fakes import ReplyingChatModel

from catena import Library
from catena.enrichment import Keywords, Summaries
from catena.library import FixedLength, Preparation
from catena.model import ParameterError
from catena.retrieval import SECTION_ROUTES, ExactUnion, ReadingOptions, ScoreFusion, ViewSearch
from catena.structure import SectionChunkOptions
from catena.text import count_tokens
from langchain_catena import CatenaDocumentTransformer, CatenaRetriever, CatenaSectionRetriever, LangChainLLM

PROSE = " ".join(f"The pump of row {number} turns slowly while the valve stays open." for number in range(80))
NEEDLE = "Tighten the cover screws of the housing to 4.5 Nm with the short lever."
TEXT = f"""# HX210 Manual

## Running

{PROSE}

{NEEDLE}

{PROSE}

## Power

The fuse holds 3 A.

| part | current |
|---|---|
| motor | 2 A |

## See also

The other manual.
"""


# Chunks.


def test_chunks_are_whole_sections_with_flat_metadata() -> None:
    parent = Document(page_content=TEXT, metadata={"source": "hx210.md"})
    transformer = CatenaDocumentTransformer(chunks=SectionChunkOptions(leave_out=("See also",)))
    found = transformer.split_documents([parent])
    assert [each.metadata["heading_path"].split(" › ")[-1] for each in found] == ["Running", "Power"]
    assert count_tokens(found[0].page_content) > 1_000
    for number, each in enumerate(found):
        start, end = each.metadata["start_index"], each.metadata["end_index"]
        assert parent.page_content[start:end] == each.page_content
        assert each.metadata["position"] == number
        assert all(isinstance(value, str | int | float | bool) for value in each.metadata.values())
    assert found[0].metadata["next_id"] == found[1].id


@pytest.mark.parametrize("inside", [True, False])
def test_chunks_are_of_a_fixed_length(inside: bool) -> None:
    parent = Document(page_content=TEXT, metadata={"source": "hx210.md"})
    how = FixedLength(tokens=100, inside_sections=inside)
    found = CatenaDocumentTransformer(chunks=how).split_documents([parent])
    assert len(found) > 10
    assert all(count_tokens(each.page_content) <= 100 for each in found)
    assert all(
        parent.page_content[each.metadata["start_index"] : each.metadata["end_index"]] == each.page_content
        for each in found
    )


@pytest.mark.parametrize("content", ["headed", "definition"])
def test_a_long_chunk_is_shown_whole_and_not_as_its_last_passage(content: Any) -> None:
    parent = Document(page_content=TEXT, metadata={"source": "hx210.md"})
    transformer = CatenaDocumentTransformer(chunks=SectionChunkOptions(), content=content)
    running = transformer.split_documents([parent])[0]
    assert running.page_content.startswith("HX210 Manual › Running\n")
    assert NEEDLE in running.page_content
    assert running.page_content.count("row 0 ") == 2
    assert running.metadata["raw_text"].startswith("## Running")


@given(st.text(alphabet="#ab c\n.|-`", max_size=200), st.sampled_from([SectionChunkOptions(), FixedLength(tokens=5)]))
def test_slices_are_exact_for_any_text(text: str, how: Any) -> None:
    for chunk in CatenaDocumentTransformer(chunks=how, content="headed").split_documents(
        [Document(page_content=text)]
    ):
        assert text[chunk.metadata["start_index"] : chunk.metadata["end_index"]] == chunk.metadata["raw_text"]


# A library of sections.


def about(messages: list[Any]) -> str:
    words = [word for word in ("pump", "valve", "fuse", "screws", "motor") if word in messages[-1].text]
    return f"This section is about {' and '.join(words)}." if "summar" in messages[0].text.lower() else str(words)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("sections")
    (folder / "hx210.md").write_text(TEXT, encoding="utf-8")
    (folder / "hx220.md").write_text(TEXT.replace("HX210", "HX220").replace("4.5", "3.2"), encoding="utf-8")
    views = (Keywords(), Summaries(over_tokens=0))
    preparation = Preparation(chunks=SectionChunkOptions(leave_out=("See also",)), views=views)
    llm = LangChainLLM(ReplyingChatModel(reply=about))
    with Library.open(folder / "library", preparation=preparation, llm=llm) as opened:
        opened.index(sorted(folder.glob("*.md")))
        yield opened


QUESTION = "How tight are the cover screws of the HX210?"


def test_sections_are_ranked_as_the_library_ranks_them(library: Library) -> None:
    retriever = CatenaSectionRetriever(library=library, k=2)
    found = retriever.invoke(QUESTION)
    assert retriever.ranking(QUESTION) == library.search(QUESTION, k=2)
    assert NEEDLE in found[0].page_content
    assert found[0].metadata["title"] == "HX210 Manual"
    assert len(retriever.invoke(QUESTION, k=1)) == 1
    assert all(
        each.metadata["title"] == "HX220 Manual" for each in retriever.invoke("fuse", where={"title": "HX220 Manual"})
    )


def test_the_general_retriever_asks_for_passages_too(library: Library) -> None:
    ranking = CatenaRetriever(library=library, k=3).ranking(QUESTION)
    assert ranking == library.search(QUESTION, k=3)
    assert ("lexical", "passage") in {(way.route, way.view) for hit in ranking.hits for way in hit.provenance}
    plain = CatenaRetriever(library=library, k=3, routes=("lexical", "keyword"))
    assert "passage" not in {way.view for hit in plain.ranking(QUESTION).hits for way in hit.provenance}
    mixed: dict[str, Any] = {"routes": SECTION_ROUTES, "fusion": ScoreFusion(alpha=0.1, passages=1.0)}
    own = CatenaRetriever(library=library, k=3, **mixed).ranking(QUESTION)
    assert own == library.search(QUESTION, k=3, **mixed)


def test_sections_are_found_under_several_views(library: Library) -> None:
    how = ViewSearch(rule=ExactUnion())
    retriever = CatenaSectionRetriever(library=library, k=2, views=how)
    found = retriever.invoke(QUESTION)
    assert retriever.ranking(QUESTION) == library.search_views(QUESTION, how, k=2)
    assert len(found) == 2
    assert set(found[0].metadata["catena"]["views"]) <= {"headed", "keywords", "summary"}
    by_paper = CatenaSectionRetriever(library=library, k=1.5, views=ViewSearch())
    assert by_paper.ranking(QUESTION) == library.search_views(QUESTION, ViewSearch(), k=1.5)
    with pytest.raises(ParameterError, match="views"):
        CatenaSectionRetriever(library=library, views=ViewSearch(views=("questions",))).invoke(QUESTION)


@pytest.mark.parametrize("views", [None, ViewSearch(rule=ExactUnion())])
def test_a_budget_returns_the_passages_that_say_most(library: Library, views: ViewSearch | None) -> None:
    retriever = CatenaSectionRetriever(library=library, budget_tokens=300, views=views)
    found = retriever.invoke(QUESTION)
    assert NEEDLE in found[0].page_content
    assert sum(count_tokens(each.page_content) for each in found) <= 300
    document = library.get(found[0].metadata["document_id"]).document
    assert document.text[found[0].metadata["start_index"] : found[0].metadata["end_index"]] == found[0].page_content
    if views is None:
        assert retriever.ranking(QUESTION) == library.passages(QUESTION, budget_tokens=300)
    less = retriever.invoke(QUESTION, budget_tokens=100)
    assert 1 <= len(less) < len(found)
    few = CatenaSectionRetriever(library=library, views=views, budget_tokens=300, reading=ReadingOptions(hits=1))
    assert {each.metadata["heading_path"] for each in few.invoke(QUESTION)} == {"HX210 Manual › Running"}
    assert few.invoke(QUESTION, k=2) != few.invoke(QUESTION, k=0) == []


async def test_all_ways_are_the_same_in_async_and_in_a_chain(library: Library) -> None:
    ways: list[dict[str, Any]] = [{}, {"views": ViewSearch()}, {"budget_tokens": 200}]
    ways.append({"views": ViewSearch(), "budget_tokens": 200})
    retrievers: list[Any] = [CatenaSectionRetriever(library=library, **options) for options in ways]
    for retriever in [*retrievers, CatenaRetriever(library=library)]:
        chain = retriever | RunnableLambda(lambda found: [each.page_content for each in found])
        expected, texts = retriever.invoke(QUESTION), chain.invoke(QUESTION)
        ranking = retriever.ranking(QUESTION)
        with blockbuster_ctx(["catena", "langchain_catena"]):
            assert await retriever.ainvoke(QUESTION) == expected
            assert await retriever.aranking(QUESTION) == ranking
            assert await chain.ainvoke(QUESTION) == texts


def test_a_name_that_stands_nowhere_is_told(library: Library) -> None:
    seen: list[str] = []

    class Events(BaseCallbackHandler):
        def on_custom_event(self, name, data, **kwargs) -> None:
            seen.append(name)

    retriever = CatenaSectionRetriever(library=library)
    assert retriever.invoke("How tight are the screws of the HX290?", {"callbacks": [Events()]}) == []
    assert seen == ["catena_unknown"]
    assert str(Path(library.store.path)) not in dumps(retriever)


def test_bad_options_are_named(library: Library) -> None:
    for options, match in (
        ({"budget_tokens": 0}, "budget_tokens"),
        ({"reading": ReadingOptions()}, "budget_tokens"),
        ({"views": "summary"}, "ViewSearch"),
    ):
        with pytest.raises(ValueError, match=match):
            CatenaSectionRetriever(library=library, **options)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="whole number"):
        CatenaSectionRetriever(library=library, k=1.5).invoke(QUESTION)
