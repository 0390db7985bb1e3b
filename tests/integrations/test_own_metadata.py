"""The user's own metadata comes back with every hit, section, segment and node, in both frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document as LangChainDocument
from langchain_core.retrievers import BaseRetriever
from langchain_fakes import Fixed
from llama_index.core.schema import Document as LlamaIndexDocument
from llama_index.core.schema import MetadataMode

import langchain_catena as lc
import llama_index_catena as li
from catena import Library
from catena.model import Document, checked

TEXT = "# Pump\n\n## Mounting\n\nTighten the cover screws to 4 Nm.\n\n## Care\n\nOil the pump once a year.\n"
OWN: dict[str, Any] = {"url": "https://example.org/pump", "tenant": "acme", "page": 4, "tags": ["pump", "cover"]}
QUESTION = "How tight are the cover screws?"
CLASHES = {"citation": "mine", "position": -1, "generated_title": "Mounting", "figure": "no.png", "caption": "mine"}


@pytest.fixture(params=["langchain", "llama_index"])
def library(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Library]:
    metadata = {"source": "pump.md", "day": date(2026, 11, 23), **OWN, **CLASHES}
    core = {
        "langchain": lambda: lc.to_core_document(LangChainDocument(id="pump", page_content=TEXT, metadata=metadata)),
        "llama_index": lambda: li.to_core_document(LlamaIndexDocument(id_="pump", text=TEXT, metadata=metadata)),
    }[request.param]()
    with Library.open(tmp_path / "library") as library:
        library.add(core)
        yield library


def test_every_answer_of_a_library_carries_the_documents_own_metadata(library: Library) -> None:
    retrievers: list[Any] = [
        lc.CatenaRetriever(library=library),
        lc.CatenaSegmentRetriever(library=library),
        lc.CatenaSectionRetriever(library=library),
        li.CatenaRetriever(library),
        li.CatenaRetriever(library, expand_to="section"),
        li.CatenaSegmentRetriever(library),
    ]
    expected = {**OWN, "day": "2026-11-23"}
    for retriever in retrievers:
        found = retriever.invoke(QUESTION) if isinstance(retriever, BaseRetriever) else retriever.retrieve(QUESTION)
        assert found
        for each in found:
            assert expected.items() <= each.metadata.items(), retriever
            assert each.metadata["citation"].startswith("Pump")  # ours wins
            checked({key: "x" for key in expected}, library._store.field_names())


def test_no_metadata_of_a_document_is_read_by_models_or_passes_for_what_a_chunk_says(library: Library) -> None:
    (hit, *_) = library.search(QUESTION).hits
    assert "figure" not in hit.chunk.metadata
    (node, *_) = li.CatenaRetriever(library).retrieve(QUESTION)
    assert "[Mounting]" not in node.metadata["citation"]
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert "acme" not in node.node.get_content(mode)


def test_segments_out_of_an_own_store_keep_what_all_their_chunks_say() -> None:
    vector = np.ones(3)
    told = {**OWN, "source": "pump.md", "day": date(2026, 11, 23), "vector": vector}
    splits = [
        LangChainDocument(page_content=text, metadata={**told, "start_index": at, "part": at, "relevance_score": 0.9})
        for text, at in (("Tighten the cover screws. ", 0), ("The cover screws take 4 Nm.", 26))
    ]
    retriever = lc.CatenaSegmentRetriever(retriever=Fixed(docs=splits))
    (segment,) = retriever.invoke(QUESTION)
    assert {key: segment.metadata[key] for key in (*OWN, "day")} == {**OWN, "day": date(2026, 11, 23)}
    assert segment.metadata["vector"] is vector
    assert "part" not in segment.metadata


def test_a_document_of_the_core_keeps_nothing_but_its_own(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library") as library:
        library.add(Document(id="pump", text=TEXT, metadata=OWN))
        entry = library.get("pump")
        (hit, *_) = library.search(QUESTION).hits
    assert dict(entry.document.metadata) == OWN
    assert hit.chunk == next(chunk for chunk in entry.chunks if chunk.id == hit.chunk.id)
