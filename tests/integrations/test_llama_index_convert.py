"""LlamaIndex documents and nodes to core values and back: nothing is lost, nothing of the caller's changes."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.schema import Document, MetadataMode, NodeWithScore, TextNode

from catena.model import Chunk, Degraded, Hit, Provenance, Ranking, Scale, Segment
from catena.testing import strategies
from llama_index_catena import convert
from llama_index_catena.documents import from_core_document, join_pages, to_core_document

scalars = st.one_of(st.text(max_size=8), st.integers(-9, 9), st.booleans(), st.floats(-1, 1))
metadata = st.dictionaries(st.from_regex(r"user_[a-z]{1,4}", fullmatch=True), scalars, max_size=3)
titles = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=10)

CHUNK = Chunk(
    id="c1",
    document_id="hx210.pdf",
    position=3,
    start=100,
    end=105,
    text="M6/M8",
    kind="table",
    path=("3 Mounting", "Screws M6/M8"),
    section=2,
    pages=(7, 8),
    lines=(120, 131),
    metadata={"title": "HX210 manual", "source": "manuals/hx210.pdf", "table_header": "| size |"},
)
WAY = Provenance(route="lexical", rank=1, score=7.5, view="headed")
RANKING = Ranking((Hit(CHUNK, 0.75, (WAY,)),), Scale.NORMALIZED, (Degraded("route dense", "no model"),))


def test_a_header_path_is_written_as_llama_index_does_but_escaped() -> None:
    assert convert.header_path(()) == "/"
    assert convert.header_path(("A", "B")) == "/A/B/"
    assert convert.header_path(("24/7", "C:\\")) == "/24\\/7/C:\\\\/"


@given(st.lists(titles, max_size=5).map(tuple))
def test_headings_come_back_from_their_path(path: tuple[str, ...]) -> None:
    assert convert.headings_of(convert.header_path(path)) == path


@pytest.mark.slow
@given(strategies.documents(), metadata, st.booleans(), st.booleans())
def test_a_core_document_survives_the_way_through_llama_index(document, extra, plain, labelled) -> None:
    document = replace(
        document,
        metadata=extra,
        media_type="text/plain" if plain else "text/markdown",
        page_labels=tuple(f"p{i}" for i in range(len(document.page_starts))) if labelled else (),
    )
    assert to_core_document(from_core_document(document)) == document
    again = Document.from_dict(json.loads(from_core_document(document).to_json()))
    assert to_core_document(again) == document


@pytest.mark.slow
@given(strategies.chunkings(), metadata, st.floats(-5, 5))
def test_a_chunk_survives_as_a_node(chunking, extra, score) -> None:
    for chunk in chunking[1]:
        known = replace(chunk, metadata={**extra, "title": "T", "source": "s"})
        found = convert.to_node(Hit(known, score), Ranking((), Scale.RANK))
        assert convert.to_chunk(found.node) == known
        assert convert.to_chunk(TextNode.from_dict(found.node.to_dict())) == known


def test_a_hit_becomes_a_node_with_everything_a_reader_needs() -> None:
    found = convert.to_node(RANKING.hits[0], RANKING)
    node = found.node
    assert (found.score, node.node_id, node.text) == (0.75, "c1", "M6/M8")
    assert (node.start_char_idx, node.end_char_idx) == (100, 105)
    assert node.ref_doc_id == "hx210.pdf"
    assert {key: value for key, value in node.metadata.items() if key != convert.PROVENANCE} == {
        "title": "HX210 manual",
        "source": "manuals/hx210.pdf",
        "table_header": "| size |",
        "kind": "table",
        "position": 3,
        "section": 2,
        "header_path": "/3 Mounting/Screws M6\\/M8/",
        "first_page": 7,
        "last_page": 8,
        "first_line": 120,
        "last_line": 131,
        "headings": "HX210 manual › 3 Mounting › Screws M6/M8",
        "document_id": "hx210.pdf",
        "citation": "HX210 manual › 3 Mounting › Screws M6/M8, pages 7-8, lines 120-131",
    }
    assert convert.provenance(node) == {
        "scale": "normalized",
        "chunk_id": "c1",
        "routes": [{"route": "lexical", "rank": 1, "score": 7.5, "view": "headed", "share": None}],
        "degraded": [{"what": "route dense", "why": "no model"}],
        "unknown": [],
    }


def test_models_read_titles_and_citations_but_no_provenance() -> None:
    node = convert.to_node(RANKING.hits[0], RANKING).node
    assert node.get_content(MetadataMode.EMBED) == (
        "table_header: | size |\nheadings: HX210 manual › 3 Mounting › Screws M6/M8\n\nM6/M8"
    )
    assert node.get_content(MetadataMode.LLM) == (
        "table_header: | size |\n"
        "citation: HX210 manual › 3 Mounting › Screws M6/M8, pages 7-8, lines 120-131\n\nM6/M8"
    )
    assert all(isinstance(value, str | int | float | bool) for value in node.metadata.values())


def test_a_section_carries_the_score_and_provenance_of_its_best_chunk() -> None:
    segment = Segment(
        id="s1", document_id="hx210.pdf", start=90, end=110, text="x" * 20, path=CHUNK.path, chunk_ids=("c1", "c2")
    )
    found = convert.section_node(segment, RANKING.hits[0], RANKING)
    assert (found.node.node_id, found.score, found.node.text) == ("s1", 0.75, "x" * 20)
    assert (found.node.start_char_idx, found.node.end_char_idx) == (90, 110)
    assert convert.provenance(found.node)["chunk_id"] == "c1"
    assert found.node.metadata["citation"] == "HX210 manual › 3 Mounting › Screws M6/M8"
    assert found.node.metadata["headings"] == "HX210 manual › 3 Mounting › Screws M6/M8"


def test_nodes_of_llama_index_retrievers_come_back_as_they_were() -> None:
    node = TextNode(id_="n", text="a", metadata={"nested": {"x": [1]}}, embedding=[1.0], start_char_idx=5)
    given_ = NodeWithScore(node=node, score=0.9)
    before = pickle.dumps(given_.model_dump())
    ranking = convert.to_ranking([given_])
    back = convert.to_node(ranking.hits[0], ranking)
    assert pickle.dumps(given_.model_dump()) == before
    assert back.score == 0.9
    assert back.node.metadata["nested"] == {"x": [1]}
    assert back.node.excluded_llm_metadata_keys == back.node.excluded_embed_metadata_keys == [convert.PROVENANCE]
    without = {k: v for k, v in back.node.metadata.items() if k != convert.PROVENANCE}
    assert without == node.metadata
    assert convert.provenance(node) == {}


def test_without_scores_only_the_order_counts() -> None:
    ranking = convert.to_ranking([NodeWithScore(node=TextNode(id_=i, text="t")) for i in "zay"])
    assert [hit.chunk.id for hit in ranking.hits] == ["z", "a", "y"]
    assert ranking.scale is Scale.RANK


def test_a_document_of_a_reader_is_named_by_its_file() -> None:
    document = Document(
        id_="d", text="x", metadata={"file_name": "hx210.pdf", "file_path": "/m/hx210.pdf", "n": None}
    )
    core = to_core_document(document)
    assert (core.id, core.title, core.source, core.media_type) == ("d", "hx210", "/m/hx210.pdf", "text/plain")
    assert core.metadata == document.metadata


def page(number: int, text: str, file: str = "m.pdf", **extra: object) -> Document:
    return Document(
        id_=f"{file}-{number}", text=text, metadata={"file_name": file, "page_label": f"{number}", **extra}
    )


def test_pages_of_a_file_become_one_document_that_knows_them() -> None:
    other = Document(id_="o", text="o")
    pages = [page(1, "# A", part="x"), page(2, "b", part="y"), page(1, "c", "n.pdf"), other]
    first, second, third = join_pages(pages)
    assert third is other
    core = to_core_document(first)
    assert (core.text, core.page_starts, core.page_labels) == ("# A\n\nb", (0, 5), ("1", "2"))
    assert core.metadata == {"file_name": "m.pdf"}
    assert second.text == "c"
    assert first.id_ == join_pages(pages)[0].id_ != second.id_
    assert [page.text for page in pages] == ["# A", "b", "c", "o"]


@pytest.mark.parametrize("start", [None, 7])
def test_a_foreign_node_becomes_a_chunk_of_its_source(start: int | None) -> None:
    chunk = convert.to_chunk(TextNode(id_="n", text="abc", start_char_idx=start, metadata={"kind": "verse", "n": {}}))
    assert (chunk.start, chunk.end, chunk.kind, chunk.document_id) == (start or 0, (start or 0) + 3, "text", "n")
    assert chunk.metadata == {"n": {}}
