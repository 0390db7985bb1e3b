"""CatenaNodeParser with segmentation by meaning: by any model or the embedding, cached by what decides."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.schema import Document, MetadataMode, NodeRelationship
from llama_index_models import Saying
from llama_index_spans import listening
from llama_index_stores import Replying

from catena.model import ParameterError, ServiceError
from catena.structure import EmbeddingOptions, SegmentOptions
from llama_index_catena import CatenaEmbedding, CatenaNodeParser, SegmentationDegradedEvent

WEATHER = "It rained all day. The wind came from the west. Clouds hid the sun. The forecast named more rain. "
PUMPS = "The pump has a seal. The seal is changed yearly. A worn seal leaks oil. The pump then loses pressure. "
TEXT = f"{WEATHER * 3}\n\n{WEATHER * 3}\n\n{PUMPS * 3}\n\n{PUMPS * 3}\n"
OFFLINE = EmbeddingOptions(shortest=300, longest=3000)
ASKED = SegmentOptions(min_section=0)


def document(text: str = TEXT, id_: str = "d") -> Document:
    return Document(id_=id_, text=text)


def dividing(prompt: str) -> str:
    """Divide the lines that are shown where the text turns to pumps."""
    first, last = map(int, re.findall(r"Divide lines (\d+) to (\d+)\.", prompt)[-1])
    turn = next(int(number) for number, line in re.findall(r"^\[(\d+)\] (.*)$", prompt, re.M) if "pump" in line)
    return json.dumps(
        [{"title": "Weather", "start": first, "end": turn - 1}, {"title": "Pumps", "start": turn, "end": last}]
    )


def parser(**fields: object) -> CatenaNodeParser:
    return CatenaNodeParser(**{"segmentation": ASKED, "llm": Replying(by=dividing), **fields})


async def test_a_model_divides_by_meaning_and_its_titles_reach_the_nodes() -> None:
    nodes = parser().get_nodes_from_documents([document()])
    titles = [node.metadata["header_path"] for node in nodes]
    assert sorted(set(titles)) == ["/Pumps/", "/Weather/"]
    assert titles == sorted(titles, reverse=True)
    assert all(node.metadata["generated_title"] for node in nodes)
    assert "generated_title" not in nodes[0].get_content(MetadataMode.LLM)
    for node in nodes:
        assert TEXT[node.start_char_idx : node.end_char_idx] == node.text
        assert ("pump" in node.text.lower() or "seal" in node.text) == (node.metadata["header_path"] == "/Pumps/")
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert await parser().aget_nodes_from_documents([document()]) == nodes


async def test_without_a_model_the_embedding_divides() -> None:
    nodes = CatenaNodeParser(segmentation=OFFLINE).get_nodes_from_documents([document()])
    assert len({node.metadata["section"] for node in nodes}) > 1
    assert not any("rained" in node.text and "pump" in node.text for node in nodes)
    one = CatenaNodeParser().get_nodes_from_documents([document()])
    assert len({node.metadata["section"] for node in one}) == 1
    again = CatenaNodeParser(segmentation=OFFLINE, embed_model=CatenaEmbedding())
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert await again.aget_nodes_from_documents([document()]) == nodes


@pytest.mark.parametrize("fields", [{}, {"segmentation": OFFLINE}])
def test_positions_count_the_nodes_of_a_document_and_links_follow_them(fields: dict[str, object]) -> None:
    text = f"# A\n\n## B\n\n{TEXT}\n## C\n\n{TEXT}"  # a heading without text of its own is no node
    nodes = CatenaNodeParser(**fields).get_nodes_from_documents([document(text), document(text, "e")])
    for id_ in ("d", "e"):
        mine = [node for node in nodes if node.ref_doc_id == id_]
        assert [node.metadata["position"] for node in mine] == list(range(len(mine)))
        for before, after in pairwise(mine):
            assert before.relationships[NodeRelationship.NEXT].node_id == after.node_id
            assert after.relationships[NodeRelationship.PREVIOUS].node_id == before.node_id


def test_where_no_answer_is_of_use_headings_and_paragraphs_divide_and_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with listening() as told:
        nodes = parser(llm=Saying(reply="I would rather not.")).get_nodes_from_documents([document()])
    assert "".join(node.text for node in nodes).replace("\n", "").replace(" ", "") == TEXT.replace("\n", "").replace(
        " ", ""
    )
    events = [event for event in told.events if isinstance(event, SegmentationDegradedEvent)]
    assert len(events) == 1
    assert events[0].what.startswith("segmentation of lines")
    assert SegmentationDegradedEvent.class_name() == "SegmentationDegradedEvent"
    assert "segmentation of lines" in caplog.text
    strict = parser(llm=Saying(reply="No."), segmentation=replace(ASKED, on_error="raise"))
    with pytest.raises(ServiceError):
        strict.get_nodes_from_documents([document()])


def test_the_prompts_version_and_the_embedding_are_part_of_it_too() -> None:
    assert parser().prompt_version
    changed = parser().model_copy(update={"prompt_version": "other"})
    assert get_transformation_hash([document()], changed) != get_transformation_hash([document()], parser())
    offline = [CatenaNodeParser(segmentation=OFFLINE, embed_model=MockEmbedding(size)) for size in (4, 8)]
    assert len({get_transformation_hash([document()], each) for each in offline}) == 2


def test_a_pipeline_asks_the_model_once_for_equal_documents(tmp_path) -> None:
    llm = Replying(by=dividing)
    cache = IngestionCache()
    first = IngestionPipeline(transformations=[parser(llm=llm)], cache=cache).run(documents=[document()])
    asked = len(llm.asked)
    second = IngestionPipeline(transformations=[parser(llm=llm)], cache=cache).run(documents=[document()])
    assert len(llm.asked) == asked > 0
    assert [node.text for node in second] == [node.text for node in first]
    kept = parser(llm=llm, journal=str(tmp_path / "replies.db"))
    assert kept.get_nodes_from_documents([document()]) == kept.get_nodes_from_documents([document()])
    assert len(llm.asked) == 2 * asked


def test_a_parser_survives_being_written_down_and_pickled() -> None:
    offline = CatenaNodeParser(segmentation=OFFLINE)
    assert pickle.loads(pickle.dumps(offline)).get_nodes_from_documents([document()]) == (
        offline.get_nodes_from_documents([document()])
    )
    written = parser().to_dict()
    assert written["segmentation"]["by"] == "SegmentOptions"
    again = CatenaNodeParser.from_dict({**written, "llm": Replying(by=dividing), "embed_model": None})
    assert again.segmentation == ASKED
    assert again.get_nodes_from_documents([document()]) == parser().get_nodes_from_documents([document()])


def test_options_that_ask_for_what_is_not_given_are_refused() -> None:
    with pytest.raises(ParameterError, match="llm"):
        CatenaNodeParser(segmentation=SegmentOptions())
    with pytest.raises(ParameterError, match="segmentation"):
        CatenaNodeParser(segmentation="by meaning")  # type: ignore[arg-type]
