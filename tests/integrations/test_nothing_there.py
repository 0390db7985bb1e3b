"""What is told where nothing is there: of a name that stands nowhere, and of a library without documents."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.prompts import PromptTemplate
from langchain_core.tools import create_retriever_tool

import langchain_catena as lc
import llama_index_catena as li
from catena import Library
from catena.model import NO_DOCUMENTS, Document

TEXT = "# Pump HX200\n\n## Mounting\n\nTighten the cover screws to 4 Nm.\n"
NEAR, UNLIKE = "How tight are the screws of the HX290?", "Does a ZZ9000B fit the cover?"


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with Library.open(tmp_path / "library") as library:
        library.add(Document(id="pump", text=TEXT, title="Pump HX200"))
        yield library


@pytest.mark.parametrize(("question", "name"), [(NEAR, "HX290"), (UNLIKE, "ZZ9000B")])
def test_a_name_that_stands_nowhere_is_told_first_and_fits_any_prompt(
    library: Library, question: str, name: str
) -> None:
    prompt = PromptTemplate.from_template("[{citation}] {source} {title} {relevance_score}: {page_content}")
    library.build_graph()
    for made in (lc.CatenaRetriever, lc.CatenaSegmentRetriever, lc.CatenaGraphRetriever):
        retriever: Any = made(library=library, tell_unknown=True)
        assert name in retriever.invoke(question)[0].page_content
        tool = create_retriever_tool(retriever, "manuals", "finds passages", document_prompt=prompt)
        assert tool.invoke({"query": question}).startswith(f"[note]  note 0.0: '{name}' stands nowhere")
    for kind in (li.CatenaRetriever, li.CatenaSegmentRetriever, li.CatenaGraphRetriever):
        first = kind(library=library).retrieve(question)[0]
        assert first.node.get_content().startswith(f"'{name}' stands nowhere")
        assert {"citation", "title", "source"} <= set(first.metadata)
        assert all(
            node.metadata["kind"] != "notice" for node in kind(library=library, notice=False).retrieve(question)
        )


def test_a_library_without_documents_says_so_in_every_question(tmp_path: Path, caplog) -> None:
    asked = "How tight are the cover screws?"
    with Library.open(tmp_path / "manuls.catena") as library:
        library.build_graph()
        found = [getattr(library, ask)(asked) for ask in ("search", "segments", "passages")]
        for each in (*found, library.search_graph(asked).ranking):
            assert [part.what for part in each.degraded if part.why == NO_DOCUMENTS] == ["library 'manuls.catena'"]
        for retriever in (lc.CatenaRetriever(library=library).invoke, li.CatenaRetriever(library).retrieve):
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                assert retriever(asked) == []
            assert "library 'manuls.catena': it holds no documents" in caplog.text


def test_a_filter_that_finds_nothing_is_no_empty_library(library: Library) -> None:
    (told,) = library.search("screws", where={"document_id": "other"}).degraded
    assert (told.what, told.why) == ("filter", "nothing here has the document_id 'other'; there are 'pump'")
