"""CatenaContextExtractor: titles and summaries in the metadata of any parser's nodes, read by whom it says."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.schema import Document, MetadataMode, TextNode
from llama_index_models import Saying
from llama_index_spans import listening
from llama_index_stores import Replying, splitter

from catena.enrichment import ContextOptions
from catena.model import ParameterError
from llama_index_catena import CatenaContextExtractor, CatenaNodeParser, ContextDegradedEvent
from llama_index_catena.extractors import CONTEXT_HEADER

TEXT = """# Pump manual

## Seal

The seal keeps the oil inside the housing. It is changed once a year by a trained person.

## Cover

The cover takes four screws of steel. They are tightened to twelve newton metres crosswise.
"""
SUMMARY = "This document is about: the pump."


def writing(prompt: str) -> str:
    """Answer as each of the four prompts asks."""
    if "title of the document alone" in prompt:
        return "Pump manual"
    if "Heading of the section" in prompt:
        return f"This section is about: the {'seal' if 'keeps the oil' in prompt else 'cover'}."
    return SUMMARY if "This document is about" in prompt else "The part"


def nodes(text: str = TEXT) -> list[TextNode]:
    return CatenaNodeParser(min_tokens=0).get_nodes_from_documents([Document(id_="pump", text=text)])


async def test_a_model_says_what_documents_and_sections_are_about() -> None:
    extractor = CatenaContextExtractor(Replying(by=writing))
    given = nodes()
    found = extractor(given)
    said = [{key: node.metadata.get(key) for key in ("title", "document_summary", "section_title")} for node in found]
    assert [each["section_title"] for each in said] == ["Seal", "Cover"]
    assert {(each["title"], each["document_summary"]) for each in said} == {("Pump manual", SUMMARY)}
    assert [node.metadata["section_summary"] for node in found] == [
        "This section is about: the seal.",
        "This section is about: the cover.",
    ]
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert await CatenaContextExtractor(Replying(by=writing)).acall(given) == found
    assert given == nodes()


def test_without_a_model_a_summary_is_a_sentence_of_the_text() -> None:
    found = CatenaContextExtractor()(nodes())
    assert all(node.metadata["document_summary"] in TEXT for node in found)
    assert [node.metadata["section_summary"] in node.text for node in found] == [True, True]
    assert {node.metadata["title"] for node in found} == {"Pump manual"}


def test_embeddings_read_it_only_where_the_options_say_so() -> None:
    for embed in (False, True):
        options = ContextOptions(by="offline", embed=embed)
        node = CatenaContextExtractor(options=options)(nodes())[0]
        assert ("section_summary" in node.get_content(MetadataMode.EMBED)) is embed
        assert "section_summary: " in node.get_content(MetadataMode.LLM)
        assert "title: Pump manual" in node.get_content(MetadataMode.EMBED)


def test_a_header_stands_for_the_keys() -> None:
    for embed in (False, True):
        options = ContextOptions(embed=embed)
        node = CatenaContextExtractor(Replying(by=writing), options=options, show="header")(nodes())[0]
        header = node.metadata[CONTEXT_HEADER]
        assert header == (
            "Document context: the following excerpt is from a document titled 'Pump manual'. "
            f"{SUMMARY}\n\nSection context: this excerpt is from the section titled 'Seal'. "
            "This section is about: the seal."
        )
        read = node.get_content(MetadataMode.LLM)
        assert header in read
        assert "document_summary: " not in read
        assert (header in node.get_content(MetadataMode.EMBED)) is embed
        assert "section_summary: " not in node.get_content(MetadataMode.EMBED)


def test_nodes_of_llama_indexs_own_parsers_are_described_too() -> None:
    document = Document(id_="pump", text=TEXT)
    by_markdown = CatenaContextExtractor(Replying(by=writing))(
        MarkdownNodeParser().get_nodes_from_documents([document])
    )
    assert {node.metadata["document_summary"] for node in by_markdown} == {SUMMARY}
    by_sentence = CatenaContextExtractor(Replying(by=writing))(splitter(20, 8).get_nodes_from_documents([document]))
    assert {node.metadata["document_summary"] for node in by_sentence} == {SUMMARY}
    summaries = [node.metadata.get("section_summary") for node in by_sentence]
    assert summaries[-1] == "This section is about: the cover."
    assert set(summaries) <= {None, "This section is about: the seal.", "This section is about: the cover."}
    assert [node.metadata.get("section_summary") for node in by_markdown] == [
        None,
        "This section is about: the seal.",
        "This section is about: the cover.",
    ]


def test_overlapping_nodes_are_put_together_without_repeats() -> None:
    llm = Replying(by=writing)
    text = "One sentence is here. Another sentence is there. A third sentence follows. A fourth one ends it."
    CatenaContextExtractor(llm)(splitter(14, 6).get_nodes_from_documents([Document(id_="d", text=text)]))
    prompts = ["\n".join(str(message.content) for message in asked) for asked, _ in llm.asked]
    assert all(prompt.count("Another sentence is there.") <= 1 for prompt in prompts)
    assert any(text in prompt for prompt in prompts)


def test_documents_are_described_one_by_one() -> None:
    parser = CatenaNodeParser(min_tokens=0)
    both = parser.get_nodes_from_documents(
        [Document(id_="pump", text=TEXT), Document(id_="lid", text=TEXT.replace("Pump manual", "Lid manual"))]
    )
    found = CatenaContextExtractor()(both)
    assert [node.metadata["title"] for node in found] == ["Pump manual"] * 2 + ["Lid manual"] * 2


def test_what_the_model_fails_at_is_missing_and_told(caplog: pytest.LogCaptureFixture) -> None:
    with listening() as told:
        found = CatenaContextExtractor(Saying(reply="Sure! Here you are."))(nodes())
    assert all("document_summary" not in node.metadata for node in found)
    events = [event for event in told.events if isinstance(event, ContextDegradedEvent)]
    assert "summary of pump" in {event.what for event in events}
    assert ContextDegradedEvent.class_name() == "ContextDegradedEvent"
    assert "summary of pump" in caplog.text


def test_nodes_change_in_place_where_that_is_asked_for() -> None:
    given = nodes()
    kept = deepcopy(given)
    CatenaContextExtractor(in_place=True)(given)
    assert given != kept
    once = deepcopy(given)
    CatenaContextExtractor(in_place=True)(given)
    assert given == once


def test_a_pipeline_asks_the_model_once_for_what_it_knows(tmp_path) -> None:
    llm = Replying(by=writing)
    pipeline = IngestionPipeline(transformations=[CatenaNodeParser(min_tokens=0), CatenaContextExtractor(llm)])
    first = pipeline.run(documents=[Document(id_="pump", text=TEXT)])
    asked = len(llm.asked)
    assert pipeline.run(documents=[Document(id_="pump", text=TEXT)]) == first
    assert len(llm.asked) == asked > 0
    journalled = CatenaContextExtractor(llm, journal=str(tmp_path / "replies.db"))
    assert journalled(nodes()) == journalled(nodes())
    assert len(llm.asked) == 2 * asked


def test_options_that_ask_for_what_is_not_given_are_refused() -> None:
    with pytest.raises(ParameterError, match="llm"):
        CatenaContextExtractor(options=replace(ContextOptions(), document_title=False))
    with pytest.raises(ParameterError, match="options"):
        CatenaContextExtractor(options="short")  # type: ignore[arg-type]
