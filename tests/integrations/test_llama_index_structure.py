"""CatenaNodeParser: exact offsets, derived ids, titles for models, and a good citizen of LlamaIndex."""

from __future__ import annotations

import pickle
import threading
import warnings
from itertools import pairwise

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.ingestion import DocstoreStrategy, IngestionCache, IngestionPipeline
from llama_index.core.schema import Document, ImageDocument, MetadataMode, NodeRelationship, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index_spans import listening

from catena.model import ParameterError, span_id
from catena.testing import FakeEmbedder, strategies
from llama_index_catena import CatenaEmbedding, CatenaNodeParser, TableNode
from llama_index_catena.convert import header_path, to_chunk
from llama_index_catena.documents import join_pages

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


def test_equal_passages_have_their_own_offsets() -> None:
    text = "Same words.\n\n" * 3
    nodes = CatenaNodeParser(max_tokens=4, min_tokens=0).get_nodes_from_documents([document(text)])
    assert [n.start_char_idx for n in nodes] == [0, 13, 26]
    assert len({n.node_id for n in nodes}) == 3


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


def test_markdown_is_read_where_the_built_in_parser_stumbles() -> None:
    """`frameworks.md` section 6: fences, underlined headings, headings without text."""
    text = "Title\n=====\n\n## Only a heading\n\n### Below\n\n~~~\n# no heading\n~~~\n"
    nodes = PARSER.get_nodes_from_documents([document(text)])
    assert [n.metadata["header_path"] for n in nodes] == [header_path(("Title", "Only a heading", "Below"))]
    assert "# no heading" in nodes[0].text


def test_code_keeps_its_tabs_and_blank_lines() -> None:
    code = "```\nif x:\n\n\ty = 1\n```"
    (node,) = PARSER.get_nodes_from_documents([document(f"# T\n\n{code}\n")])
    assert code in node.text


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


def test_a_pipeline_caches_and_skips_what_it_knows() -> None:
    pipeline = IngestionPipeline(
        transformations=[PARSER],
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.DUPLICATES_ONLY,
        cache=IngestionCache(),
    )
    first = pipeline.run(documents=[document()])
    assert [n.node_id for n in first] == [n.node_id for n in PARSER.get_nodes_from_documents([document()])]
    assert pipeline.run(documents=[document()]) == []  # the document store knows it
    pipeline.docstore = None
    assert [n.to_dict() for n in pipeline.run(documents=[document()])] == [n.to_dict() for n in first]  # cached


def test_a_changed_document_replaces_its_nodes_in_a_vector_store() -> None:
    store = SimpleVectorStore()
    pipeline = IngestionPipeline(
        transformations=[PARSER, CatenaEmbedding(FakeEmbedder())],
        docstore=SimpleDocumentStore(),
        vector_store=store,
        disable_cache=True,
    )
    first = pipeline.run(documents=[document()])
    assert set(store.data.embedding_dict) == {n.node_id for n in first}
    second = pipeline.run(documents=[document("# Pump\n\nNow shorter.")])
    assert len(second) == 1
    assert set(store.data.embedding_dict) == {n.node_id for n in second}


@pytest.mark.slow
def test_a_pipeline_runs_it_in_other_processes() -> None:
    documents = [document(id_="a"), document(id_="b")]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # raised by LlamaIndex on its way
        nodes = IngestionPipeline(transformations=[PARSER]).run(documents=documents, num_workers=2)
    assert [n.to_dict() for n in nodes] == [n.to_dict() for n in PARSER(documents)]


async def test_async_parsing_gives_the_same_without_blocking_the_loop() -> None:
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        nodes = await PARSER.aget_nodes_from_documents([document(), document(id_="b")])
        called = await PARSER.acall([document(), document(id_="b")])
    assert nodes == called == PARSER.get_nodes_from_documents([document(), document(id_="b")])


async def test_async_parsing_works_beside_the_loop() -> None:
    threads: list[threading.Thread] = []

    def told(i: int, doc: Document) -> str:
        threads.append(threading.current_thread())
        return f"{doc.id_}-{i}"

    await CatenaNodeParser(id_func=told).aget_nodes_from_documents([document()])
    assert threads
    assert threading.current_thread() not in threads


async def test_both_ways_have_a_span_and_a_callback() -> None:
    told = LlamaDebugHandler(print_trace_on_end=False)
    parser = CatenaNodeParser(callback_manager=CallbackManager([told]))
    with listening() as heard:
        parser([document()])
        await parser.acall([document()])
    assert heard.ancestors("CatenaNodeParser._parse_nodes") == ["CatenaNodeParser.__call__"]
    assert "CatenaNodeParser._aparse_nodes" in heard.spans
    assert len(told.get_event_pairs()) == 2
