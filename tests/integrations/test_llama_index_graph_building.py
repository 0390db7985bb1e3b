"""The graph of LlamaIndex's nodes: what is read from them, and that an update equals a rebuild."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageNode,
    MetadataMode,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index_stores import chain
from llama_index_views import Counted, Texts, index_of, sections_of

from catena.effects import Cancel, FetchNodes
from catena.graph import ChunkGraph, GraphOptions
from catena.model import MENTION, STRUCTURAL, CancelledError, ParameterError, ServiceError
from catena.testing import FakeEmbedder, Flaky
from llama_index_catena.convert import to_chunk
from llama_index_catena.graph import NodeReading, abuild_graph, aupdate_graph, build_graph, update_graph

PUMP = "# Pump\n\nIt is made by Krona Works.\n\n## Seal\n\nThe seal keeps the oil.\n\n## Cover\n\nFour screws.\n"
MAKER = "# Krona Works\n\nThe works stand in Uppsala.\n"
READER = MarkdownNodeParser()


def documents() -> list[Document]:
    return [
        Document(id_="pump", text=PUMP, metadata={"title": "Pump"}),
        Document(id_="maker", text=MAKER, metadata={"file_name": "Krona Works.md"}),
    ]


def foreign() -> list[BaseNode]:
    """Return nodes of LlamaIndex's own parser under ids that do not change."""
    return [
        node.model_copy(update={"id_": f"{node.ref_doc_id}-{place}", "relationships": _source(node)})
        for place, node in enumerate(READER.get_nodes_from_documents(documents()))
    ]


def _source(node: BaseNode) -> dict[Any, Any]:
    return {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=str(node.ref_doc_id))}


def structure(graph: ChunkGraph) -> set[frozenset[str]]:
    """Return who stands beside whom."""
    links = graph.links(STRUCTURAL)
    pairs = zip(links.sources.tolist(), links.targets.tolist(), strict=True)
    return {frozenset((graph.ids[one], graph.ids[other])) for one, other in pairs}


def test_titles_headings_keywords_and_kinds_are_read_from_the_nodes() -> None:
    nodes = foreign()
    nodes[2].metadata["excerpt_keywords"] = "Keywords: cover screw, M6 thread"
    graph = build_graph(nodes, Counted())
    pump, seal, cover, maker = (graph.node(each.node_id) for each in nodes)
    assert (pump.titles, seal.titles, cover.titles) == (("Pump",), ("Pump", "Seal"), ("Pump", "Cover"))
    assert (maker.titles, maker.chunk.metadata["title"]) == (("Krona Works",), "Krona Works")
    assert seal.chunk.path == ("Pump", "Seal")
    assert cover.keywords == ("cover screw", "m6 thread")
    assert (seal.chunk.text, seal.chunk.document_id) == (nodes[1].get_content(), "pump")
    said = graph.edge("pump-0", "maker-3")
    assert said is not None
    assert said.words[MENTION] == ("Krona Works",)
    others: list[BaseNode] = [
        ImageNode(id_="image", text="A seal.", image_path="seal.png"),
        TextNode(id_="table", text="|a|", metadata={"table_df": "a"}),
        TextNode(id_="ours", text="|a|", metadata={"kind": "table"}),
    ]
    kinds = [build_graph(others, Counted()).chunk(each.node_id).kind for each in others]
    assert kinds == ["figure", "table", "table"]


def test_one_says_where_titles_and_keywords_are() -> None:
    node = TextNode(
        id_="a",
        text="Oil is kept.",
        metadata={"name": "Pump", "terms": ["oil"], "excerpt_keywords": "no", "title": ""},
    )
    reading = NodeReading(title_keys=["title", "name"], keyword_keys=["words", "terms"], text=MetadataMode.NONE)
    model = Counted()
    read = build_graph([node], model, reading=reading).node("a")
    assert (read.titles, read.keywords, model.texts) == (("Pump",), ("oil",), ["Oil is kept."])


def test_neighbours_are_those_that_links_name_else_offsets_else_the_order_given() -> None:
    texts = ["One.", "Two.", "Three."]
    expected = {frozenset(("d-0", "d-1")), frozenset(("d-1", "d-2"))}
    for linked, offsets, order in ((True, False, (2, 0, 1)), (False, True, (1, 2, 0)), (False, False, (0, 1, 2))):
        nodes = chain("d", texts, linked=linked, offsets=offsets)
        assert structure(build_graph([nodes[at] for at in order], Counted())) == expected
    against = chain("d", texts, linked=True)  # links go before offsets
    for node, start in zip(against, (30, 10, 20), strict=True):
        node.start_char_idx = start
    assert structure(build_graph(against, Counted())) == expected
    alone = [TextNode(id_=name, text=name) for name in "ab"]
    assert structure(build_graph(alone, Counted())) == set()


def test_nodes_of_catena_give_the_chunks_that_they_were_made_of() -> None:
    sections = sections_of()
    graph = build_graph(list(reversed(sections)), FakeEmbedder())
    assert [graph.chunk(node.node_id) for node in sections] == [to_chunk(node) for node in sections]


def test_embeddings_that_nodes_have_are_kept_and_the_others_made_as_an_index_makes_them() -> None:
    nodes, model = foreign(), Counted()
    nodes[1].embedding = [0.0] * 63 + [2.0]
    given = deepcopy(nodes)
    graph = build_graph(nodes, model)
    assert nodes == given
    read = [node.get_content(metadata_mode=MetadataMode.EMBED) for node in (nodes[0], *nodes[2:])]
    assert model.texts == read
    vectors = graph.nodes(FetchNodes(chunk_ids=tuple(node.node_id for node in nodes))).vectors
    assert vectors[1].tolist() == [0.0] * 63 + [1.0]
    row = np.array(model._row(read[0]))
    np.testing.assert_allclose(vectors[0], row / np.linalg.norm(row), rtol=1e-6)


class Giving(Texts):
    """A store that gives all of its nodes, with their vectors."""

    def get_nodes(self, node_ids: list[str] | None = None, filters: Any = None) -> list[BaseNode]:
        assert node_ids is filters is None
        return list(self.held.values())


@pytest.mark.parametrize("store", [None, Giving])
def test_an_index_gives_its_nodes_its_vectors_and_its_model(store: Any) -> None:
    model = Counted()
    index = index_of(foreign(), store=store and store(), embed_model=model)
    embedded = len(model.texts)
    graph = build_graph(index)
    assert len(model.texts) == embedded == len(graph)
    assert graph.identity == build_graph(foreign(), Counted()).identity


def test_a_store_that_gives_no_nodes_is_told() -> None:
    with pytest.raises(ServiceError, match="Texts"):
        build_graph(index_of(foreign(), store=Texts()))


async def test_async_twins_give_the_same_without_blocking() -> None:
    nodes, expected = foreign(), build_graph(foreign(), Counted())
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        graph = await abuild_graph(nodes[:3], Counted())
        grown = await aupdate_graph(graph, added=nodes[3:], embed_model=Counted())
        indexed = await abuild_graph(index_of(nodes), options=GraphOptions())
    assert grown.identity == expected.identity == indexed.identity


def test_a_document_comes_whole_or_says_its_positions() -> None:
    nodes = chain("d", ["One.", "Two.", "Three."])
    graph = build_graph(nodes[:2], Counted())
    with pytest.raises(ParameterError, match="nodes of d, of which others stay"):
        update_graph(graph, added=nodes[2:], embed_model=Counted())
    whole = build_graph(nodes, Counted()).identity
    assert update_graph(graph, added=nodes, embed_model=Counted()).identity == whole
    others = update_graph(graph, added=nodes[2:], removed=["d-0", "d-1"], embed_model=Counted())
    assert others.ids == ("d-2",)
    counted = chain("d", ["One.", "Two.", "Three."], counted=True)
    grown = update_graph(build_graph(counted[:2], Counted()), added=counted[2:], embed_model=Counted())
    assert grown.identity == build_graph(counted, Counted()).identity
    assert update_graph(graph, removed_documents=["nobody"]).ids == graph.ids


def test_what_cannot_be_built_is_refused() -> None:
    node = TextNode(id_="a", text="A.")
    short, long = (TextNode(id_=name, text=name, embedding=[1.0] * size) for name, size in (("b", 2), ("c", 3)))
    with pytest.raises(ParameterError, match="one length"):
        build_graph([short, long])
    with pytest.raises(ParameterError, match="distinct"):
        build_graph([short, short])
    with pytest.raises(ParameterError, match="1 nodes have no embedding"):
        build_graph([node, short])
    with pytest.raises(ParameterError, match="embed_model"):
        build_graph([node], "minilm")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="gone"):
        update_graph(build_graph([short]), removed=["gone"])
    with pytest.raises(ServiceError, match="down"):
        build_graph([node], Flaky(FakeEmbedder(), [ValueError("down")]))
    cancel = Cancel()
    cancel.set()
    with pytest.raises(CancelledError):
        build_graph([short], cancel=cancel)
    assert len(build_graph([])) == len(build_graph(index_of([]))) == 0
    for odd in ("a text", ["a text"], node, (each for each in [node])):
        with pytest.raises(ParameterError, match=r"^nodes "):
            build_graph(odd, FakeEmbedder())  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"^added .* nodes, got 'VectorStoreIndex'"):
        update_graph(build_graph([short]), added=index_of([]))  # type: ignore[arg-type]
    for name in ("removed", "removed_documents"):
        with pytest.raises(ParameterError, match=f"^{name} "):
            update_graph(build_graph([short]), **{name: "b"})
