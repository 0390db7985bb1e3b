"""Whole sections in LlamaIndex: cut by the node parser, and found in a library by passages, by views, in a budget."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.schema import Document, QueryBundle
from llama_index_views import BODIES, COVER, HOUSING, SEAL, manual

from catena import Library
from catena.effects import Services
from catena.enrichment import Keywords, Summaries
from catena.library import FixedLength, Preparation
from catena.model import ParameterError
from catena.retrieval import ExactUnion, ReadingOptions, ViewSearch, found_by
from catena.structure import ChunkOptions, SectionChunkOptions, cut_fixed, cut_sections, outline
from catena.text import count_tokens
from llama_index_catena import CatenaNodeParser, CatenaRetriever
from llama_index_catena.convert import provenance
from llama_index_catena.documents import to_core_document

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


@pytest.mark.parametrize("inside", [True, False])
async def test_a_fixed_length_is_cut_too(inside: bool) -> None:
    document = manual()
    parser = CatenaNodeParser(chunks=FixedLength(tokens=50, inside_sections=inside))
    nodes = parser.get_nodes_from_documents([document])
    core = to_core_document(document)
    expected = cut_fixed(core, outline(core) if inside else None, tokens=50)
    assert [node.text for node in nodes] == [chunk.text for chunk in expected if count_tokens(chunk.text) > 3]
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert await parser.aget_nodes_from_documents([document]) == nodes


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


async def test_a_library_of_sections_is_searched_by_their_passages_as_it_searches_itself(library: Library) -> None:
    retriever = CatenaRetriever(library, similarity_top_k=3)
    ranking = retriever.ranking(QUESTION)
    assert ranking == library.search(QUESTION, k=3)
    assert "passage" in {way.view for hit in ranking.hits for way in hit.provenance}
    assert CatenaRetriever(library, routes=["lexical"]).ranking(QUESTION) == library.search(
        QUESTION, k=10, routes=["lexical"]
    )
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert await retriever.aranking(QUESTION) == ranking
    texts = QueryBundle("Anything", custom_embedding_strs=[QUESTION])
    assert CatenaRetriever(library, routes=["dense"]).ranking(texts).hits[0].chunk.path[-1] == "Cover"


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


def test_plain_text_without_headings_is_one_section() -> None:
    (node,) = CatenaNodeParser(chunks=SectionChunkOptions()).get_nodes_from_documents(
        [Document(id_="d", text=SEAL.strip(), metadata={"file_name": Path("seal.txt").name})]
    )
    assert node.text == SEAL.strip()
