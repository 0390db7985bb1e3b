"""What went wrong when LangChain's users would have dropped our classes into what they already run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_fakes import ReplyingChatModel

from catena.model import ParameterError
from langchain_catena import (
    CatenaAtomicTransformer,
    CatenaDocumentTransformer,
    CatenaEntityTransformer,
    CatenaRetriever,
    CatenaSegmentRetriever,
    CatenaViewTransformer,
    to_chunk,
    with_uuids,
)

TEXT = "# Manual\r\n\r\n" + "\r\n\r\n".join(
    f"## Part {part}\r\n\r\nIntro of part {part}.\r\n\r\n### Details {part}\r\n\r\n"
    + "\r\n".join(f"Screw {part}.{line} is tightened to {line} Nm 世界." for line in range(40))
    for part in range(3)
)


def cutter(max_tokens: int, content: Any = "raw") -> CatenaDocumentTransformer:
    return CatenaDocumentTransformer(max_tokens=max_tokens, min_tokens=1, content=content)


def whole() -> Document:
    return Document(page_content=TEXT, metadata={"source": "manual.md", "extra": {"nested": [1, None]}})


# Transformers one after the other.


@pytest.mark.parametrize("content", ["raw", "headed", "definition"])
@pytest.mark.parametrize("again", ["raw", "headed"])
def test_chunks_of_chunks_stand_in_the_whole_document(content: str, again: str) -> None:
    chunks = with_uuids(cutter(320, content).transform_documents([whole()]))
    for cut in (cutter(64, again), cutter(40, again)):
        before = [chunk.model_copy(deep=True) for chunk in chunks]
        small = cut.transform_documents(chunks)
        assert chunks == before
        chunks = small
        told = [chunk.metadata for chunk in small]
        slices = [each.metadata.get("raw_text", each.page_content) for each in small]
        assert [TEXT[each["start_index"] : each["end_index"]] for each in told] == slices
        lines = TEXT.split("\r\n")
        for each, text in zip(told, slices, strict=True):
            assert text.strip() in "\r\n".join(lines[each["first_line"] - 1 : each["last_line"]])
            assert each["heading_path"].startswith("Manual")
        assert len({each["document_id"] for each in told}) == 1
        assert [each["position"] for each in told] == list(range(len(small)))
        assert len({to_chunk(each).id for each in small}) == len(small)
        ids = [each.id for each in small]
        assert [each.get("next_id") for each in told] == [*ids[1:], None]
        assert [each.get("previous_id") for each in told] == [None, *ids[:-1]]


async def test_units_of_chunks_stand_in_the_whole_document_too() -> None:
    llm = ReplyingChatModel(reply=lambda _: "no answer of any use")
    units = CatenaAtomicTransformer(llm=llm)
    chunks = cutter(320).transform_documents([whole()])[:3]
    cut = units.transform_documents(chunks)
    assert len(cut) > len(chunks)
    assert await units.atransform_documents(chunks) == cut
    assert all(TEXT[each.metadata["start_index"] : each.metadata["end_index"]] == each.page_content for each in cut)
    assert [each.metadata.get("next_id") for each in cut] == [*(each.id for each in cut[1:]), None]


def test_a_document_that_comes_twice_does_not_follow_itself() -> None:
    once = cutter(64).transform_documents([whole()])
    assert cutter(64).transform_documents([whole(), whole()]) == [*once, *once]
    parts = cutter(320).transform_documents([whole()])
    assert cutter(64).transform_documents([*parts, *parts]) == cutter(64).transform_documents(parts) * 2


def test_what_a_splitter_of_others_gives_is_a_document_of_its_own() -> None:
    part = Document(page_content=TEXT[100:400], metadata={"source": "manual.md", "start_index": 100})
    for chunk in cutter(40).transform_documents([part]):
        at = slice(chunk.metadata["start_index"], chunk.metadata["end_index"])
        assert part.page_content[at] == chunk.page_content


@pytest.mark.parametrize("content", ["raw", "headed", "definition"])
def test_a_text_without_a_name_is_not_embedded_under_a_hash(content: Any) -> None:
    (chunk,) = CatenaDocumentTransformer(content=content).create_documents(["Six screws hold the cover."])
    assert chunk.page_content == "Six screws hold the cover."
    assert "title" not in chunk.metadata
    named = Document(id="notes", page_content="Six screws hold the cover.")
    (chunk,) = CatenaDocumentTransformer(content="headed").transform_documents([named])
    assert chunk.page_content == "notes\nSix screws hold the cover."


@pytest.mark.parametrize(
    "transformer",
    [
        CatenaDocumentTransformer(),
        CatenaEntityTransformer(),
        CatenaViewTransformer(["raw"]),
        CatenaAtomicTransformer(llm=ReplyingChatModel(reply=lambda _: json.dumps([]))),
    ],
    ids=lambda made: type(made).__name__,
)
async def test_documents_may_be_a_generator(transformer: Any) -> None:
    given = [Document(id=str(each), page_content=f"Pump {each} runs.") for each in range(2)]
    wanted = transformer.transform_documents(given)
    assert len(wanted) >= 2
    assert transformer.transform_documents(each for each in given) == wanted
    assert await transformer.atransform_documents(each for each in given) == wanted


# Retrievers.


def finding(*scores: object) -> RunnableLambda[str, list[Document]]:
    found = [
        Document(id=str(place), page_content=f"passage {place}", metadata={"source": "a", "start_index": 99 * place})
        for place, _ in enumerate(scores)
    ]
    for document, score in zip(found, scores, strict=True):
        document.metadata["relevance_score"] = score
    return RunnableLambda(lambda _: found)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), None, "0.9"])
def test_a_score_that_is_none_leaves_the_rank(score: object) -> None:
    found = CatenaRetriever.over({"odd": finding(score, 0.5), "sound": finding(0.9)}).invoke("passage")
    assert [document.id for document in found] == ["0", "1"]
    assert [way["score"] for way in found[0].metadata["catena"]["routes"]] == [1.0, 0.9]  # 1 / rank
    assert CatenaSegmentRetriever(retriever=finding(score, 0.5)).invoke("passage")


RETRIEVERS: list[Callable[[], BaseRetriever]] = [
    lambda: CatenaSegmentRetriever(retriever=finding(0.9, 0.8)),
    lambda: CatenaRetriever.over({"one": finding(0.9, 0.8)}),
]


@pytest.mark.parametrize("made", RETRIEVERS)
@pytest.mark.parametrize("k", [-1, 1.5, "3"])
async def test_k_is_a_whole_number(made: Callable[[], BaseRetriever], k: object) -> None:
    with pytest.raises(ParameterError, match="k must be an integer"):
        made().invoke("passage", k=k)
    with pytest.raises(ParameterError, match="k must be an integer"):
        await made().ainvoke("passage", k=k)
