"""Documents as nodes: exact offsets and derived ids, by headings, by meaning, whole sections, or atomic units."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.schema import Document, ImageDocument, MetadataMode, NodeRelationship, TextNode
from llama_index_conformance_cases import divided
from llama_index_models import Saying
from llama_index_spans import listening
from llama_index_stores import Replying
from llama_index_views import BODIES, manual

from catena.library import FixedLength
from catena.model import ServiceError, span_id
from catena.structure import (
    ChunkOptions,
    EmbeddingOptions,
    SectionChunkOptions,
    SegmentOptions,
    cut_sections,
    outline,
)
from catena.testing import strategies
from catena.text import count_tokens
from llama_index_catena import CatenaAtomicTransform, CatenaNodeParser, SegmentationDegradedEvent, TableNode
from llama_index_catena.convert import to_chunk
from llama_index_catena.documents import join_pages, to_core_document

TEXT = """# Pump

Read this first.

## Screws M6/M8

Tighten to 12 Nm.

## Cover

Tighten to 12 Nm.

| part | torque |
|---|---|
| lid | 3 Nm |
"""
PARSER = CatenaNodeParser(min_tokens=0)


def document(text: str = TEXT, id_: str = "pump", **metadata: object) -> Document:
    return Document(id_=id_, text=text, metadata=metadata)


def offset_of(text: str, piece: str, nth: int = 1) -> int:
    at = -1
    for _ in range(nth):
        at = text.index(piece, at + 1)
    return at


def test_a_document_becomes_chunks_with_exact_offsets_paths_and_lines() -> None:
    nodes = PARSER.get_nodes_from_documents([document()])
    assert [(n.text, n.metadata["header_path"], n.metadata["kind"]) for n in nodes] == [
        ("# Pump\n\nRead this first.", "/Pump/", "text"),
        ("## Screws M6/M8\n\nTighten to 12 Nm.", "/Pump/Screws M6\\/M8/", "text"),
        ("## Cover\n\nTighten to 12 Nm.", "/Pump/Cover/", "text"),
        ("| part | torque |\n|---|---|\n| lid | 3 Nm |", "/Pump/Cover/", "table"),
    ]
    assert [(n.metadata["first_line"], n.metadata["last_line"]) for n in nodes] == [(1, 3), (5, 7), (9, 11), (13, 15)]
    assert [n.metadata["position"] for n in nodes] == [0, 1, 2, 3]
    assert nodes[1].metadata["citation"].endswith(", lines 5-7")
    assert nodes[2].start_char_idx == offset_of(TEXT, "## Cover")
    assert nodes[1].node_id == span_id("pump", "text", nodes[1].start_char_idx, nodes[1].end_char_idx)
    assert nodes[0].mimetype == "text/markdown"


def test_titles_reach_the_embedding_and_the_reader_while_the_text_stays_an_exact_slice() -> None:
    node = PARSER.get_nodes_from_documents([document(title="HX210")])[1]
    expected = "title: HX210\nheadings: HX210 › Pump › Screws M6/M8\n\n" + node.text
    assert node.get_content(MetadataMode.EMBED) == expected
    assert node.get_content(MetadataMode.LLM) == expected
    assert node.get_content() == "## Screws M6/M8\n\nTighten to 12 Nm."


@settings(max_examples=50, deadline=None)
@given(strategies.texts(), st.sampled_from([1, 8, 320]), st.sampled_from(["text/markdown", "text/plain", None]))
def test_every_node_is_an_exact_slice_in_order_and_nothing_but_space_lies_between(text, cap, media_type) -> None:
    parser = CatenaNodeParser(max_tokens=cap, min_tokens=0, media_type=media_type)
    source = document(text)
    nodes = parser.get_nodes_from_documents([source])
    assert all(source.text[n.start_char_idx : n.end_char_idx] == n.text for n in nodes)
    assert len({n.node_id for n in nodes}) == len(nodes)
    starts = [n.start_char_idx for n in nodes]
    assert starts == sorted(starts)
    for left, right in pairwise(nodes):
        assert left.end_char_idx <= right.start_char_idx
    assert nodes == parser.get_nodes_from_documents([source])
    for node in nodes:
        chunk = to_chunk(node)
        assert (chunk.id, chunk.document_id, chunk.start) == (node.node_id, "pump", node.start_char_idx)


def test_two_documents_of_equal_text_keep_their_own_nodes_and_neighbours() -> None:
    nodes = PARSER.get_nodes_from_documents([document(id_="a"), document(id_="b")])
    ids = [n.node_id for n in nodes]
    assert len({*ids}) == 8
    assert [n.ref_doc_id for n in nodes] == ["a"] * 4 + ["b"] * 4
    assert [n.next_node and n.next_node.node_id for n in nodes] == [*ids[1:4], None, *ids[5:], None]
    assert [n.prev_node and n.prev_node.node_id for n in nodes] == [None, *ids[:3], None, *ids[4:7]]
    assert nodes[1].prev_node.hash == nodes[0].hash


def test_neighbours_are_left_out_on_request() -> None:
    nodes = CatenaNodeParser(min_tokens=0, include_prev_next_rel=False).get_nodes_from_documents([document()])
    assert all(set(n.relationships) == {NodeRelationship.SOURCE} for n in nodes)


def test_the_parents_metadata_and_its_exclusions_come_along() -> None:
    parent = document(file_name="pump.md", secret="x", nested={"a": [1]})
    parent.excluded_embed_metadata_keys = ["secret"]
    parent.excluded_llm_metadata_keys = ["secret"]
    parent.text_template = "<{metadata_str}|{content}>"
    before = parent.model_dump()
    node = PARSER.get_nodes_from_documents([parent])[0]
    assert parent.model_dump() == before
    assert node.metadata["nested"] == {"a": [1]}
    assert node.get_content(MetadataMode.EMBED) == (
        "<file_name: pump.md\nnested: {'a': [1]}\nheadings: Pump|# Pump\n\nRead this first.>"
    )
    assert "secret" not in node.get_content(MetadataMode.LLM)
    bare = CatenaNodeParser(include_metadata=False).get_nodes_from_documents([parent])[0]
    assert "file_name" not in bare.metadata
    assert bare.metadata["header_path"] == "/Pump/"


def test_a_node_of_a_node_points_to_the_document_with_offsets_in_it() -> None:
    source = document(TEXT)
    sections = PARSER.get_nodes_from_documents([source])
    parts = CatenaNodeParser(max_tokens=4, min_tokens=0).get_nodes_from_documents(sections)  # type: ignore[arg-type]
    assert len(parts) > len(sections)
    lines = {(n.metadata["first_line"], n.metadata["last_line"]) for n in sections}
    assert {(n.metadata["first_line"], n.metadata["last_line"]) for n in parts} == lines
    assert len(set(parts[0].excluded_llm_metadata_keys)) == len(parts[0].excluded_llm_metadata_keys)
    assert {n.ref_doc_id for n in parts} == {"pump"}
    assert all(source.text[n.start_char_idx : n.end_char_idx] == n.text for n in parts)


def test_a_node_whose_place_is_unknown_gives_no_offsets_rather_than_wrong_ones() -> None:
    parent = TextNode(id_="n", text="# A\n\nb")
    parent.relationships[NodeRelationship.SOURCE] = document().as_related_node_info()
    (node,) = PARSER.get_nodes_from_documents([parent])  # type: ignore[list-item]
    assert (node.start_char_idx, node.end_char_idx, node.ref_doc_id) == (None, None, "pump")


@pytest.mark.parametrize("blank", ["", "  \n\n"])
def test_a_blank_document_gives_no_nodes(blank: str) -> None:
    assert PARSER.get_nodes_from_documents([document(blank), ImageDocument(id_="i")]) == []


def test_pages_are_known_from_labels_or_from_joined_pages() -> None:
    def page(label: str, text: str) -> Document:
        return Document(id_=f"r{label}", text=text, metadata={"file_name": "m.pdf", "page_label": label})

    pages = [page("i", "# Preface\n\nHello."), page("1", "# Start\n\nOne."), page("2", "Two goes on.")]
    parser = PARSER.model_copy(update={"media_type": "text/markdown"})  # as a converter writes it
    alone = parser.get_nodes_from_documents(pages)
    assert [n.metadata["page_label"] for n in alone] == ["i", "1", "2"]
    assert alone[2].metadata["header_path"] == "/"
    joined = parser.get_nodes_from_documents(join_pages(pages))
    assert [(n.metadata["page_label"], n.metadata["first_page"], n.metadata["last_page"]) for n in joined] == [
        ("i", 1, 1),
        ("1", 2, 3),
    ]
    assert joined[1].metadata["header_path"] == "/Start/"
    assert not any(key.startswith("catena_page") for key in joined[0].metadata)


def numbered(i: int, doc: Document) -> str:
    return f"{doc.id_}-{i}"


def test_an_id_function_of_the_callers_is_obeyed() -> None:
    nodes = CatenaNodeParser(min_tokens=0, id_func=numbered).get_nodes_from_documents([document()])
    assert [n.node_id for n in nodes] == ["pump-0", "pump-1", "pump-2", "pump-3"]
    assert nodes[0].next_node.node_id == "pump-1"


def test_an_id_function_cannot_be_written_down() -> None:
    with pytest.raises(ValueError, match="id_func must be given again as a function, got 'numbered'"):
        CatenaNodeParser.from_dict(CatenaNodeParser(id_func=numbered).to_dict())


def test_a_table_is_embedded_by_its_definition_and_read_whole() -> None:
    parser = CatenaNodeParser(min_tokens=0, embed_tables="definition")
    nodes = parser.get_nodes_from_documents([document(title="HX210")])
    table, plain = nodes[3], PARSER.get_nodes_from_documents([document(title="HX210")])[3]
    assert [isinstance(node, TableNode) for node in nodes] == [False, False, False, True]
    assert table.text == plain.text
    assert table.get_content(MetadataMode.LLM) == plain.get_content(MetadataMode.LLM)
    about = "title: HX210\nheadings: HX210 › Pump › Cover\n\n"
    assert plain.get_content(MetadataMode.EMBED) == about + plain.text
    assert table.get_content(MetadataMode.EMBED) == about + "Tighten to 12 Nm.\npart, torque\nlid"


WEATHER = "It rained all day. The wind came from the west. Clouds hid the sun. The forecast named more rain. "
PUMPS = "The pump has a seal. The seal is changed yearly. A worn seal leaks oil. The pump then loses pressure. "
TALK = f"{WEATHER * 3}\n\n{WEATHER * 3}\n\n{PUMPS * 3}\n\n{PUMPS * 3}\n"
OFFLINE = EmbeddingOptions(shortest=300, longest=3000)
ASKED = SegmentOptions(min_section=0)


def talk(text: str = TALK, id_: str = "d") -> Document:
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
    nodes = parser().get_nodes_from_documents([talk()])
    titles = [node.metadata["header_path"] for node in nodes]
    assert sorted(set(titles)) == ["/Pumps/", "/Weather/"]
    assert titles == sorted(titles, reverse=True)
    assert all(node.metadata["generated_title"] for node in nodes)
    assert "generated_title" not in nodes[0].get_content(MetadataMode.LLM)
    for node in nodes:
        assert TALK[node.start_char_idx : node.end_char_idx] == node.text
        assert ("pump" in node.text.lower() or "seal" in node.text) == (node.metadata["header_path"] == "/Pumps/")
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert await parser().aget_nodes_from_documents([talk()]) == nodes


@pytest.mark.parametrize("fields", [{}, {"segmentation": OFFLINE}])
def test_positions_count_the_nodes_of_a_document_and_links_follow_them(fields: dict[str, object]) -> None:
    text = f"# A\n\n## B\n\n{TEXT}\n## C\n\n{TEXT}"  # a heading without text of its own is no node
    nodes = CatenaNodeParser(**fields).get_nodes_from_documents([talk(text), talk(text, "e")])
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
        nodes = parser(llm=Saying(reply="I would rather not.")).get_nodes_from_documents([talk()])
    assert "".join(node.text for node in nodes).replace("\n", "").replace(" ", "") == TALK.replace("\n", "").replace(
        " ", ""
    )
    events = [event for event in told.events if isinstance(event, SegmentationDegradedEvent)]
    assert len(events) == 1
    assert events[0].what.startswith("segmentation of lines")
    assert SegmentationDegradedEvent.class_name() == "SegmentationDegradedEvent"
    assert "segmentation of lines" in caplog.text
    strict = parser(llm=Saying(reply="No."), segmentation=replace(ASKED, on_error="raise"))
    with pytest.raises(ServiceError):
        strict.get_nodes_from_documents([talk()])


def test_a_parser_survives_being_written_down_and_pickled() -> None:
    offline = CatenaNodeParser(segmentation=OFFLINE)
    assert pickle.loads(pickle.dumps(offline)).get_nodes_from_documents([talk()]) == (
        offline.get_nodes_from_documents([talk()])
    )
    written = parser().to_dict()
    assert written["segmentation"]["by"] == "SegmentOptions"
    again = CatenaNodeParser.from_dict({**written, "llm": Replying(by=dividing), "embed_model": None})
    assert again.segmentation == ASKED
    assert again.get_nodes_from_documents([talk()]) == parser().get_nodes_from_documents([talk()])


QUESTION = "How many screws hold the cover?"
SECTIONS = SectionChunkOptions(leave_out=("Housing",))


def test_a_section_is_one_node_of_any_length_and_an_exact_slice() -> None:
    document = manual()
    nodes = CatenaNodeParser(chunks=SectionChunkOptions()).get_nodes_from_documents([document])
    core = to_core_document(document)
    assert [node.node_id for node in nodes] == [chunk.id for chunk in cut_sections(core, outline(core))]
    assert [node.metadata["header_path"] for node in nodes] == [f"/Pump/{name}/" for name in BODIES]
    for node in nodes:
        assert document.text[node.start_char_idx : node.end_char_idx] == node.text
        assert count_tokens(node.text) > 100
    left = CatenaNodeParser(chunks=SECTIONS).get_nodes_from_documents([document])
    assert [node.text for node in left] == [node.text for node in nodes[1:]]


def test_what_a_chunk_is_decides_cache_keys_and_survives_being_written_down() -> None:
    document = manual()
    kinds = [
        None,
        ChunkOptions(max_tokens=50),
        SectionChunkOptions(),
        SECTIONS,
        FixedLength(tokens=50),
        FixedLength(),
    ]
    parsers = [CatenaNodeParser(chunks=kind) for kind in kinds]
    assert len({get_transformation_hash([document], parser) for parser in parsers}) == len(kinds)
    for parser in parsers:
        expected = parser.get_nodes_from_documents([document])
        for copy in (CatenaNodeParser.from_dict(parser.to_dict()), pickle.loads(pickle.dumps(parser))):
            assert copy.get_nodes_from_documents([document]) == expected


FACTS = "The pump holds 3 bar. The valve opens at 5 bar. The fuse is a T4A."
SHEET = f"# HX210\n\n{FACTS}\n\n## Cover\n\nIt has four screws.\n"
MANUAL = Document(id_="hx210", text=SHEET, metadata={"title": "HX210 manual", "owner": "me"})


async def test_units_are_exact_slices_that_know_their_section() -> None:
    transform = CatenaAtomicTransform(Replying(by=divided))
    made = transform([MANUAL])
    assert [node.text for node in made] == [
        "# HX210",
        "The pump holds 3 bar.",
        "The valve opens at 5 bar.",
        "The fuse is a T4A.",
        "## Cover",
        "It has four screws.",
    ]
    for place, node in enumerate(made):
        assert SHEET[node.start_char_idx : node.end_char_idx] == node.text
        assert (node.ref_doc_id, node.metadata["position"], node.metadata["owner"]) == ("hx210", place, "me")
    assert made[-1].metadata["header_path"] == "/HX210/Cover/"
    assert made[1].relationships[NodeRelationship.NEXT].node_id == made[2].node_id
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert await transform.acall([MANUAL]) == made
    assert IngestionPipeline(transformations=[transform]).run(documents=[MANUAL]) == made


def test_units_of_a_node_lie_in_its_document() -> None:
    (part,) = [node for node in CatenaAtomicTransform(Replying(by=divided))([MANUAL]) if "pump" in node.text]
    (same,) = CatenaAtomicTransform(Saying(reply="fail"))([part])  # of one sentence nobody is asked
    assert (same.text, same.start_char_idx, same.ref_doc_id) == (part.text, part.start_char_idx, "hx210")
