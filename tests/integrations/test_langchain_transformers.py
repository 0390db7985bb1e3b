"""LangChain's transformers: chunks of chunks, content, titles, options; what both promise is in test_dividing.py."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from langchain_classic.retrievers.multi_vector import MultiVectorRetriever
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import ReplyingChatModel

import langchain_catena as lc
from catena.effects import Services
from catena.enrichment import ContextOptions
from catena.library import FixedLength
from catena.model import ParameterError
from catena.structure import SectionChunkOptions, SegmentOptions
from catena.testing.fakes import FakeRecognizer
from catena.text import count_tokens

TEXT = "# Manual\r\n\r\n" + "\r\n\r\n".join(
    f"## Part {part}\r\n\r\nIntro of part {part}.\r\n\r\n### Details {part}\r\n\r\n"
    + "\r\n".join(f"Screw {part}.{line} is\ttightened to {line} Nm 世界." for line in range(40))
    for part in range(3)
)
WHOLE = Document(page_content=TEXT, metadata={"source": "manual.md", "extra": {"nested": [1, None]}})


def cutter(max_tokens: int, content: Any = "raw") -> lc.CatenaDocumentTransformer:
    return lc.CatenaDocumentTransformer(max_tokens=max_tokens, min_tokens=1, content=content)


def sliced(text: str, chunks: list[Document]) -> list[str]:
    """Return what the chunks hold, where that is exactly what stands at their offsets."""
    held = [each.metadata.get("raw_text", each.page_content) for each in chunks]
    assert [text[each.metadata["start_index"] : each.metadata["end_index"]] for each in chunks] == held
    return held


def neighbours(chunks: list[Document]) -> bool:
    ids = [each.id for each in chunks]
    after, before = ([each.metadata.get(key) for each in chunks] for key in ("next_id", "previous_id"))
    places = [each.metadata["position"] for each in chunks]
    return (places, after, before) == (list(range(len(ids))), [*ids[1:], None], [None, *ids[:-1]])


# Chunks.


@pytest.mark.parametrize("content", ["raw", "headed", "definition"])
@pytest.mark.parametrize("again", ["raw", "headed"])
def test_chunks_of_chunks_stand_in_the_whole_document(content: str, again: str) -> None:
    chunks = lc.with_uuids(cutter(320, content).transform_documents([WHOLE]))
    assert all(each.metadata["extra"] == {"nested": [1, None]} for each in chunks)
    for cut in (cutter(64, again), cutter(40, again)):
        before = [chunk.model_copy(deep=True) for chunk in chunks]
        small = cut.transform_documents(chunks)
        assert chunks == before
        chunks, lines = small, TEXT.split("\r\n")
        for each, text in zip(small, sliced(TEXT, small), strict=True):
            about = each.metadata
            assert text.strip() in "\r\n".join(lines[about["first_line"] - 1 : about["last_line"]])
            assert (about["heading_path"][:6], about["source"]) == ("Manual", "manual.md")
        assert len({each.metadata["document_id"] for each in small}) == 1
        assert len({lc.to_chunk(each).id for each in small}) == len(small)
        assert neighbours(small)


async def test_units_of_chunks_stand_in_the_whole_document_too() -> None:
    units = lc.CatenaAtomicTransformer(llm=ReplyingChatModel(reply=lambda _: "no answer of any use"))
    chunks = cutter(320).transform_documents([WHOLE])[:3]
    cut = units.transform_documents(chunks)
    assert len(cut) > len(chunks)
    assert sliced(TEXT, cut)
    assert neighbours(cut)
    with pytest.raises(ParameterError, match="llm must be a chat model"):
        lc.CatenaAtomicTransformer()


def test_a_document_that_comes_twice_does_not_follow_itself() -> None:
    once, parts = cutter(64).transform_documents([WHOLE]), cutter(320).transform_documents([WHOLE])
    assert cutter(64).transform_documents([WHOLE, WHOLE]) == [*once, *once]
    assert cutter(64).transform_documents([*parts, *parts]) == cutter(64).transform_documents(parts) * 2
    part = Document(page_content=TEXT[100:400], metadata={"source": "manual.md", "start_index": 100})
    assert sliced(part.page_content, cutter(40).transform_documents([part]))  # of another's splitter: a whole one


def test_headed_content_is_found_and_a_definition_leads_to_the_whole_table() -> None:
    text = (
        "# Pump\n\n## Limits\n\n| Quantity | max |\n|---|---|\n| Pressure | 9 bar |\n\n## Use\n\nTurn it on slowly.\n"
    )
    (headed, _) = lc.CatenaDocumentTransformer(content="headed").create_documents([text])
    assert headed.page_content.startswith("Pump › Limits\n| Quantity | max |")
    chunks = lc.CatenaDocumentTransformer(content="definition").create_documents([text])
    shown = ["Pump › Limits\nQuantity, max\nPressure", "Pump › Use\nTurn it on slowly."]
    assert [chunk.page_content for chunk in chunks] == shown
    store, one = InMemoryVectorStore(lc.CatenaEmbeddings()), {"k": 1}
    retriever = MultiVectorRetriever(
        vectorstore=store, docstore=InMemoryStore(), id_key="chunk_id", search_kwargs=one
    )
    retriever.vectorstore.add_documents(chunks)
    retriever.docstore.mset([(chunk.metadata["chunk_id"], lc.whole_chunk(chunk)) for chunk in chunks])
    (found,) = retriever.invoke("maximum pressure")
    assert ("9 bar" in sliced(text, [found])[0], "raw_text" in found.metadata) == (True, False)


@pytest.mark.parametrize("content", ["raw", "headed", "definition"])
def test_what_prints_no_title_is_named_by_its_source_or_not_at_all(content: Any) -> None:
    cut = lc.CatenaDocumentTransformer(content=content)
    nameless, noted, kept = cut.transform_documents(
        Document(page_content="Six screws.", **more)
        for more in ({}, {"id": "notes"}, {"metadata": {"source": "notes/pump guide.txt"}})
    )  # a generator
    assert (nameless.page_content, "title" in nameless.metadata) == ("Six screws.", False)
    above = [""] * 2 if content == "raw" else ["notes\n", "pump guide\n"]
    assert [each.page_content for each in (noted, kept)] == [f"{title}Six screws." for title in above]
    assert kept.metadata["citation"] == "pump guide, line 1"
    assert lc.whole_chunk(noted).page_content == "Six screws."


def test_chunks_are_whole_sections_or_of_a_fixed_length_and_shown_whole() -> None:
    prose = " ".join(f"The pump of row {number} turns slowly while the valve stays open." for number in range(160))
    text = f"# HX210 Manual\n\n## Running\n\n{prose}\n\n## Power\n\nIt holds 3 A.\n\n## See also\n\nThe other.\n"
    parent = Document(page_content=text, metadata={"source": "hx210.md"})
    whole = SectionChunkOptions(leave_out=("See also",))
    for content in ("headed", "definition"):
        running, power = lc.CatenaDocumentTransformer(chunks=whole, content=content).split_documents([parent])
        assert running.page_content.startswith("HX210 Manual › Running\n")  # and not its last passage
        assert running.page_content.endswith(prose)
        assert running.metadata["next_id"] == power.id
        assert all(isinstance(value, str | int | float | bool) for value in running.metadata.values())
    for inside in (True, False):
        fixed = FixedLength(tokens=100, inside_sections=inside)
        found = lc.CatenaDocumentTransformer(chunks=fixed).split_documents([parent])
        assert all(count_tokens(each) <= 100 for each in sliced(text, found))
        assert neighbours(found)


def test_bad_options_are_named() -> None:
    for options, match in (
        ({"content": "both"}, "content must be 'raw', 'headed', 'definition' or 'context'"),
        ({"context": ContextOptions(embed=True)}, "content must be 'context' where the context's embed is True"),
        ({"context": ContextOptions()}, "llm must be a chat model or LLM: segmentation or context asks it"),
        ({"segmentation": SegmentOptions()}, "llm must be a chat model or LLM: segmentation or context asks it"),
        ({"media_type": "text/html"}, "media_type"),
    ):
        with pytest.raises(ParameterError, match=match):
            lc.CatenaDocumentTransformer(**options)  # type: ignore[arg-type]
    made = lc.CatenaDocumentTransformer().create_documents(["One.", "Two."], [{"n": 1}, {"n": 2}])
    assert [document.metadata["n"] for document in made] == [1, 2]
    with pytest.raises(ParameterError, match=r"metadatas must be as many as texts \(2\), got 1"):
        lc.CatenaDocumentTransformer().create_documents(["One.", "Two."], [{}])


# Context.

CARE = "# Care\n\nClean it with a damp cloth, never with solvents.\n\n# Fuse\n\nIt is rated 250 mA, slow.\n"
HX7 = Document(id="hx7", page_content=CARE, metadata={"source": "hx7.md"})
ABOUT, FUSE = "This document is about: keeping the HX7 in order.", "This section is about: the fuse."


def saying(messages: list[BaseMessage]) -> str:
    """Answer in the form that each of the prompts asks for."""
    prompt = str(messages[-1].content) + str(messages[0].content)
    if "This document is about" in prompt:
        return ABOUT
    if "This section is about" in prompt:
        return FUSE if "250 mA" in prompt else "This section is about: cleaning."
    return "HX7 handbook"


def in_context(**options: Any) -> lc.CatenaDocumentTransformer:
    return lc.CatenaDocumentTransformer(
        **{"context": ContextOptions(), "llm": ReplyingChatModel(reply=saying), **options}
    )


def test_a_header_stands_before_the_content_if_asked_and_titles_are_made_where_none_is_printed() -> None:
    untitled = Document(page_content="No heading stands here, only text.")
    before = copy.deepcopy([HX7, untitled])
    assert in_context().transform_documents([HX7, untitled])[2].metadata["title"] == "HX7 handbook"
    assert [HX7, untitled] == before
    shown = in_context(context=ContextOptions(embed=True), content="context").transform_documents([HX7])
    assert [each.page_content for each in shown] == [
        f"{each.metadata['header']}\n\n{raw}" for each, raw in zip(shown, sliced(CARE, shown), strict=True)
    ]
    bare = lc.CatenaDocumentTransformer(content="context").transform_documents([HX7])[1].page_content
    assert bare.startswith("Document context: the following excerpt is from a document")


def test_summaries_reach_the_header_of_a_segment() -> None:
    store = InMemoryVectorStore.from_documents(
        in_context(content="context").transform_documents([HX7]), lc.CatenaEmbeddings()
    )
    found = store.similarity_search("fuse rating", k=2)
    (segment,) = lc.CatenaSegmentExtractor(neighbours=store, content="headed").compress_documents(found, "fuse")
    assert segment.metadata["header"].endswith(ABOUT)
    assert segment.page_content == f"{segment.metadata['header']}\n\n{sliced(CARE, [segment])[0]}"


# Entities and pictures.


def test_a_recognizer_is_a_service_and_stale_entities_are_left_out() -> None:
    given = [
        Document(page_content="By Acme Pumps.", metadata={"source": "m.md"}),
        Document(page_content="Old.", metadata={"entities": "stale"}),
    ]
    services = Services(recognizer=FakeRecognizer({"ORG": ["Acme Pumps"]}))
    found = lc.CatenaEntityTransformer(services=services).transform_documents(given)
    assert [each.metadata for each in found] == [{"source": "m.md", "entities": "acme pumps"}, {}]
    with pytest.raises(ParameterError, match="on_error"):
        lc.CatenaEntityTransformer(on_error="ignore").transform_documents([])  # type: ignore[arg-type]


def test_a_picture_may_come_from_a_function_and_is_shown_with_what_stands_about_it(tmp_path: Path, caplog) -> None:
    model = ReplyingChatModel(reply=lambda _: "A grey cover with six screws.")
    about = {"figure_file": str(tmp_path / "none.png"), "figure_title": "Figure 1", "heading_path": "HX210 › Cover"}
    given = [Document(id="u", page_content="The cover.", metadata=about)]
    assert lc.CatenaCaptionTransformer(llm=model).transform_documents(given) == given
    assert "picture of u" in caplog.text
    by_function = lc.CatenaCaptionTransformer(llm=model, picture=lambda _: b"\x89PNG\r\n\x1a\n rest")
    (shown,) = by_function.transform_documents(given)
    assert shown.metadata["caption"] == "A grey cover with six screws."
    assert all(part in str(model.sent[0][-1].content) for part in ("Figure 1", "HX210 › Cover", "The cover."))
    with pytest.raises(ParameterError, match="a chat model that sees"):
        lc.CatenaCaptionTransformer()
