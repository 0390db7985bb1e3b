"""Documents as nodes: exact offsets and derived ids, by headings, by meaning, whole sections, or atomic units."""

from __future__ import annotations

from itertools import pairwise

import pytest
from conformance_world import PUMP, divided
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.schema import Document, MetadataMode, NodeRelationship, TextNode
from llama_index_fakes import BODIES, Replying, Saying, manual, splitter

import llama_index_catena as li
from catena.enrichment import CodeDetector, ContextOptions, LLMDetector, RecognizerDetector
from catena.library import FixedLength
from catena.structure import ChunkOptions, EmbeddingOptions, SectionChunkOptions, cut_sections, outline
from catena.testing.fakes import FakeRecognizer
from catena.text import count_tokens
from llama_index_catena.documents import join_pages, to_core_document

pytestmark = pytest.mark.usefixtures("loop")

PARSER = li.CatenaNodeParser(min_tokens=0)


def document(text: str = PUMP, id_: str = "pump", **metadata: object) -> Document:
    return Document(id_=id_, text=text, metadata=metadata)


def test_titles_reach_the_embedding_and_the_reader_while_the_text_stays_an_exact_slice() -> None:
    node = PARSER.get_nodes_from_documents([document(title="HX210")])[1]
    expected = "title: HX210\nheadings: HX210 › Pump › Screws M6/M8\n\n" + node.text
    assert node.get_content(MetadataMode.EMBED) == expected
    assert node.get_content(MetadataMode.LLM) == expected
    assert node.get_content() == "## Screws M6/M8\n\nTighten to 12 Nm."


def test_neighbours_are_left_out_on_request() -> None:
    nodes = li.CatenaNodeParser(min_tokens=0, include_prev_next_rel=False).get_nodes_from_documents([document()])
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
    bare = li.CatenaNodeParser(include_metadata=False).get_nodes_from_documents([parent])[0]
    assert "file_name" not in bare.metadata
    assert bare.metadata["header_path"] == "/Pump/"


def test_a_node_of_a_node_points_to_the_document_with_offsets_in_it() -> None:
    source = document(PUMP)
    sections = PARSER.get_nodes_from_documents([source])
    parts = li.CatenaNodeParser(max_tokens=4, min_tokens=0).get_nodes_from_documents(sections)  # type: ignore[arg-type]
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
    nodes = li.CatenaNodeParser(min_tokens=0, id_func=numbered).get_nodes_from_documents([document()])
    assert [n.node_id for n in nodes] == ["pump-0", "pump-1", "pump-2", "pump-3"]
    assert nodes[0].next_node.node_id == "pump-1"


def test_an_id_function_cannot_be_written_down() -> None:
    with pytest.raises(ValueError, match="id_func must be given again as a function, got 'numbered'"):
        li.CatenaNodeParser.from_dict(li.CatenaNodeParser(id_func=numbered).to_dict())


def test_a_table_is_embedded_by_its_definition_and_read_whole() -> None:
    parser = li.CatenaNodeParser(min_tokens=0, embed_tables="definition")
    nodes = parser.get_nodes_from_documents([document(title="HX210")])
    table, plain = nodes[3], PARSER.get_nodes_from_documents([document(title="HX210")])[3]
    assert [isinstance(node, li.TableNode) for node in nodes] == [False, False, False, True]
    assert table.text == plain.text
    assert table.get_content(MetadataMode.LLM) == plain.get_content(MetadataMode.LLM)
    about = "title: HX210\nheadings: HX210 › Pump › Cover\n\n"
    assert plain.get_content(MetadataMode.EMBED) == about + plain.text
    assert table.get_content(MetadataMode.EMBED) == about + "Tighten to 12 Nm.\npart, torque\nlid"


OFFLINE = EmbeddingOptions(shortest=300, longest=3000)


@pytest.mark.parametrize("fields", [{}, {"segmentation": OFFLINE}])
def test_positions_count_the_nodes_of_a_document_and_links_follow_them(fields: dict[str, object]) -> None:
    text = f"# A\n\n## B\n\n{PUMP}\n## C\n\n{PUMP}"  # a heading without text of its own is no node
    nodes = li.CatenaNodeParser(**fields).get_nodes_from_documents([document(text, "d"), document(text, "e")])
    for id_ in ("d", "e"):
        mine = [node for node in nodes if node.ref_doc_id == id_]
        assert [node.metadata["position"] for node in mine] == list(range(len(mine)))
        for before, after in pairwise(mine):
            assert before.relationships[NodeRelationship.NEXT].node_id == after.node_id
            assert after.relationships[NodeRelationship.PREVIOUS].node_id == before.node_id


QUESTION = "How many screws hold the cover?"
SECTIONS = SectionChunkOptions(leave_out=("Housing",))


def test_a_section_is_one_node_of_any_length_and_an_exact_slice() -> None:
    document = manual()
    nodes = li.CatenaNodeParser(chunks=SectionChunkOptions()).get_nodes_from_documents([document])
    core = to_core_document(document)
    assert [node.node_id for node in nodes] == [chunk.id for chunk in cut_sections(core, outline(core))]
    assert [node.metadata["header_path"] for node in nodes] == [f"/Pump/{name}/" for name in BODIES]
    for node in nodes:
        assert document.text[node.start_char_idx : node.end_char_idx] == node.text
        assert count_tokens(node.text) > 100
    left = li.CatenaNodeParser(chunks=SECTIONS).get_nodes_from_documents([document])
    assert [node.text for node in left] == [node.text for node in nodes[1:]]


def test_what_a_chunk_is_decides_cache_keys_and_is_written_down() -> None:
    fixed = [FixedLength(tokens=50), FixedLength()]
    kinds = [None, ChunkOptions(max_tokens=50), SectionChunkOptions(), SECTIONS, *fixed]
    parsers = [li.CatenaNodeParser(chunks=kind) for kind in kinds]
    assert len({get_transformation_hash([manual()], parser) for parser in parsers}) == len(kinds)
    for parser in parsers:
        assert li.CatenaNodeParser.from_dict(parser.to_dict()).chunks == parser.chunks


MANUAL = Document(id_="hx210", text="# HX210\n\nThe pump holds 3 bar. The fuse is a T4A.\n", metadata={"owner": "me"})


def test_units_of_a_node_lie_in_its_document() -> None:
    (part,) = [node for node in li.CatenaAtomicTransform(Replying(by=divided))([MANUAL]) if "pump" in node.text]
    (same,) = li.CatenaAtomicTransform(Saying(reply="fail"))([part])  # of one sentence nobody is asked
    assert (same.text, same.start_char_idx, same.ref_doc_id) == (part.text, part.start_char_idx, "hx210")
    assert same.metadata["owner"] == "me"


# What extractors write.

PUMP_MANUAL = (
    "# Pump manual\n\n## Seal\n\n"
    "The seal keeps the oil inside the housing. It is changed once a year by a trained person.\n\n"
    "## Cover\n\n"
    "The cover takes four screws of steel. They are tightened to twelve newton metres crosswise.\n"
)
SUMMARY = "This document is about: the pump."


def writing(prompt: str) -> str:
    """Answer as each of the four prompts asks."""
    if "title of the document alone" in prompt:
        return "Pump manual"
    if "Heading of the section" in prompt:
        return f"This section is about: the {'seal' if 'keeps the oil' in prompt else 'cover'}."
    return SUMMARY if "This document is about" in prompt else "The part"


def sections(text: str = PUMP_MANUAL) -> list[TextNode]:
    return li.CatenaNodeParser(min_tokens=0).get_nodes_from_documents([Document(id_="pump", text=text)])


def test_embeddings_read_it_only_where_the_options_say_so() -> None:
    for embed in (False, True):
        options = ContextOptions(by="offline", embed=embed)
        node = li.CatenaContextExtractor(options=options)(sections())[0]
        assert ("section_summary" in node.get_content(MetadataMode.EMBED)) is embed
        assert "section_summary: " in node.get_content(MetadataMode.LLM)
        assert "title: Pump manual" in node.get_content(MetadataMode.EMBED)
        node = li.CatenaContextExtractor(options=options, show="header")(sections())[0]
        header, read = node.metadata["context"], node.get_content(MetadataMode.LLM)
        assert (header in read, "document_summary: " in read) == (True, False)
        assert (header in node.get_content(MetadataMode.EMBED)) is embed
        assert "section_summary: " not in node.get_content(MetadataMode.EMBED)


def test_nodes_of_llama_indexs_own_parsers_are_described_too() -> None:
    document = Document(id_="pump", text=PUMP_MANUAL)
    expected, found = [None, *(f"This section is about: the {name}." for name in ("seal", "cover"))], []
    for parser in (MarkdownNodeParser(), splitter(20, 8)):
        made = li.CatenaContextExtractor(Replying(by=writing))(parser.get_nodes_from_documents([document]))
        assert {node.metadata["document_summary"] for node in made} == {SUMMARY}
        found.append([node.metadata.get("section_summary") for node in made])
    assert found[0] == expected
    assert (found[1][-1], set(found[1]) <= {*expected}) == (expected[-1], True)


def test_nodes_of_several_documents_keep_their_places() -> None:
    documents = [Document(id_=f"d{number}", text=f"# Part\n\nIt is part AB-{number}.") for number in range(3)]
    nodes = li.CatenaNodeParser()(documents)
    mixed = [nodes[2], nodes[0], nodes[1]]
    found = li.CatenaEntityExtractor()(mixed)
    assert [node.metadata["entities"] for node in found] == ["AB-2", "AB-0", "AB-1"]
    detectors = li.CatenaEntityExtractor(llm=MockLLM(), recognizer=FakeRecognizer({})).detectors
    assert [type(each) for each in detectors] == [CodeDetector, LLMDetector, RecognizerDetector]
