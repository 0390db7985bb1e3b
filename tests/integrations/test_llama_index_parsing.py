"""Documents as nodes: exact offsets and derived ids, by headings, by meaning, whole sections, or atomic units."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.schema import Document, ImageDocument, MetadataMode, NodeRelationship, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index_models import Saying
from llama_index_spans import listening
from llama_index_stores import Replying
from llama_index_views import BODIES, COVER, HOUSING, SEAL, manual

from catena import Library
from catena.effects import Services
from catena.enrichment import Keywords, Summaries
from catena.library import FixedLength, Preparation
from catena.model import ParameterError, ServiceError, span_id
from catena.retrieval import ExactUnion, ReadingOptions, ViewSearch, found_by
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
from catena_bench.baselines import AtomicOptions
from llama_index_catena import (
    CatenaAtomicTransform,
    CatenaEmbedding,
    CatenaNodeParser,
    CatenaRetriever,
    SegmentationDegradedEvent,
    TableNode,
)
from llama_index_catena.convert import provenance, to_chunk
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
    assert len({n.node_id for n in nodes}) == 8
    assert [n.ref_doc_id for n in nodes] == ["a"] * 4 + ["b"] * 4
    assert [n.next_node.node_id if n.next_node else None for n in nodes] == [
        *[n.node_id for n in nodes[1:4]],
        None,
        *[n.node_id for n in nodes[5:]],
        None,
    ]
    assert [n.prev_node.node_id if n.prev_node else None for n in nodes] == [
        None,
        *[n.node_id for n in nodes[:3]],
        None,
        *[n.node_id for n in nodes[4:7]],
    ]
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


def test_a_parser_survives_being_written_down() -> None:
    parser = CatenaNodeParser(max_tokens=77, min_tokens=5, media_type="text/plain", include_metadata=False)
    assert parser.to_dict()["class_name"] == "CatenaNodeParser"
    assert CatenaNodeParser.from_dict(parser.to_dict()).to_dict() == parser.to_dict()
    assert CatenaNodeParser.from_json(parser.to_json()).to_dict() == parser.to_dict()
    assert pickle.loads(pickle.dumps(parser)).to_dict() == parser.to_dict()
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


def test_a_table_that_is_written_down_is_whole_again_for_models() -> None:
    table = CatenaNodeParser(min_tokens=0, embed_tables="definition").get_nodes_from_documents([document()])[3]
    store = SimpleDocumentStore()
    store.add_documents([table])
    found = store.get_document(table.node_id)
    assert found is not None
    assert found.get_content(MetadataMode.LLM) == table.get_content(MetadataMode.LLM)
    assert found.metadata == table.metadata
    assert pickle.loads(pickle.dumps(table)).get_content(MetadataMode.EMBED) == table.get_content(MetadataMode.EMBED)


def test_lengths_that_contradict_each_other_are_refused_at_once() -> None:
    with pytest.raises(ParameterError, match="max_tokens must be an integer >= 1, got 0"):
        CatenaNodeParser(max_tokens=0)
    with pytest.raises(ParameterError, match=r"min_tokens must be between 0 and max_tokens \(10\)"):
        CatenaNodeParser(max_tokens=10, min_tokens=11)


async def test_both_ways_have_a_span_and_a_callback() -> None:
    told = LlamaDebugHandler(print_trace_on_end=False)
    parser = CatenaNodeParser(callback_manager=CallbackManager([told]))
    with listening() as heard:
        parser([document()])
        await parser.acall([document()])
    assert heard.ancestors("CatenaNodeParser._parse_nodes") == ["CatenaNodeParser.__call__"]
    assert "CatenaNodeParser._aparse_nodes" in heard.spans
    assert len(told.get_event_pairs()) == 2


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


async def test_without_a_model_the_embedding_divides() -> None:
    nodes = CatenaNodeParser(segmentation=OFFLINE).get_nodes_from_documents([talk()])
    assert len({node.metadata["section"] for node in nodes}) > 1
    assert not any("rained" in node.text and "pump" in node.text for node in nodes)
    one = CatenaNodeParser().get_nodes_from_documents([talk()])
    assert len({node.metadata["section"] for node in one}) == 1
    again = CatenaNodeParser(segmentation=OFFLINE, embed_model=CatenaEmbedding())
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert await again.aget_nodes_from_documents([talk()]) == nodes


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


def test_options_that_ask_for_what_is_not_given_are_refused() -> None:
    with pytest.raises(ParameterError, match="llm"):
        CatenaNodeParser(segmentation=SegmentOptions())
    with pytest.raises(ParameterError, match="segmentation"):
        CatenaNodeParser(segmentation="by meaning")  # type: ignore[arg-type]


QUESTION = "How many screws hold the cover?"
SECTIONS = SectionChunkOptions(leave_out=("Housing",))
VIEWS = ViewSearch(rule=ExactUnion())


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("manuals")
    how = Preparation(
        chunks=SectionChunkOptions(), views=(Keywords(by="offline"), Summaries(by="offline", over_tokens=20))
    )
    for name in ("pump", "valve"):
        (folder / f"{name}.md").write_text(manual().text.replace("# Pump", f"# {name.title()}"), encoding="utf-8")
    with Library.open(folder / "library", preparation=how) as opened:
        opened.index(sorted(folder.glob("*.md")))
        yield opened


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
        assert CatenaNodeParser.from_dict(parser.to_dict()).get_nodes_from_documents([document]) == expected
        assert CatenaNodeParser.from_json(parser.to_json()).get_nodes_from_documents([document]) == expected
        assert pickle.loads(pickle.dumps(parser)).get_nodes_from_documents([document]) == expected
    short = CatenaNodeParser(max_tokens=50).get_nodes_from_documents([document])
    assert CatenaNodeParser(chunks=ChunkOptions(max_tokens=50)).get_nodes_from_documents([document]) == short
    for wrong in ("sections", {"by": "Sections"}):
        with pytest.raises(ParameterError, match="chunks"):
            CatenaNodeParser(chunks=wrong)


async def test_sections_are_found_under_several_views(library: Library) -> None:
    retriever = CatenaRetriever(library, views=VIEWS, similarity_top_k=2)
    ranking = library.search_views(QUESTION, VIEWS, k=2)
    assert retriever.ranking(QUESTION) == ranking
    nodes = retriever.retrieve(QUESTION)
    assert [node.node.node_id for node in nodes] == [hit.chunk.id for hit in ranking.hits]
    assert COVER.strip() in nodes[0].text
    told = {way["view"]: way["rank"] for way in reversed(provenance(nodes[0].node)["routes"])}
    assert set(told) == set(found_by(ranking.hits[0]))
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert [node.to_dict() for node in await retriever.aretrieve(QUESTION)] == [node.to_dict() for node in nodes]
    paper = CatenaRetriever(library, views=ViewSearch(), similarity_top_k=1.5)
    assert 1 <= len(paper.retrieve(QUESTION)) <= 3
    with pytest.raises(ParameterError, match="views"):
        CatenaRetriever(library, views=ViewSearch(views=("questions",))).retrieve(QUESTION)


async def test_the_best_passages_are_read_within_a_budget(library: Library) -> None:
    retriever = CatenaRetriever(library, similarity_top_k=20, budget_tokens=120)
    ranking = library.passages(QUESTION, budget_tokens=120)
    assert retriever.ranking(QUESTION) == ranking
    nodes = retriever.retrieve(QUESTION)
    assert 0 < sum(count_tokens(node.text) for node in nodes) <= 120
    assert all(node.text in f"{HOUSING}{SEAL}{COVER}" or node.text.startswith("## ") for node in nodes)
    assert all(node.metadata["citation"] for node in nodes)
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert [node.to_dict() for node in await retriever.aretrieve(QUESTION)] == [node.to_dict() for node in nodes]
    one = CatenaRetriever(
        library, views=VIEWS, similarity_top_k=3, budget_tokens=300, reading=ReadingOptions(hits=1)
    ).ranking(QUESTION)
    assert len({hit.chunk.path for hit in one.hits}) == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"views": VIEWS, "routes": ["lexical"]}, "routes"),
        ({"views": VIEWS, "depth": 9}, "depth"),
        ({"budget_tokens": 10, "expand_to": "section"}, "budget_tokens"),
        ({"reading": ReadingOptions()}, "reading"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    library: Library, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(ParameterError, match=named):
        CatenaRetriever(library, **options)
    with pytest.raises(ParameterError, match="views"):
        CatenaRetriever(Services(), views=VIEWS)


FACTS = "The pump holds 3 bar. The valve opens at 5 bar. The fuse is a T4A."
SHEET = f"# HX210\n\n{FACTS}\n\n## Cover\n\nIt has four screws.\n"
MANUAL = Document(id_="hx210", text=SHEET, metadata={"title": "HX210 manual", "owner": "me"})


def units(prompt: str) -> str:
    passage = prompt.split("<passage>\n")[1].split("\n</passage>", maxsplit=1)[0]
    return "\n".join(f"{part.strip()}." for part in passage.replace("\n", ". ").split(". ") if part.strip())


async def test_units_are_exact_slices_that_know_their_section() -> None:
    transform = CatenaAtomicTransform(Replying(by=units))
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
    (part,) = [node for node in CatenaAtomicTransform(Replying(by=units))([MANUAL]) if "pump" in node.text]
    (same,) = CatenaAtomicTransform(Saying(reply="fail"))([part])  # of one sentence nobody is asked
    assert (same.text, same.start_char_idx, same.ref_doc_id) == (part.text, part.start_char_idx, "hx210")


@pytest.mark.slow
async def test_what_a_model_fails_at_is_cut_at_sentences_and_told() -> None:
    with listening() as told:
        made = await CatenaAtomicTransform(Saying(reply="fail")).acall([MANUAL])
    assert all(SHEET[node.start_char_idx : node.end_char_idx] == node.text for node in made)
    assert "AtomicDegradedEvent" in [event.class_name() for event in told.events]
    with pytest.raises(ServiceError):
        CatenaAtomicTransform(Saying(reply="fail"), options=AtomicOptions(on_error="raise"))([MANUAL])
