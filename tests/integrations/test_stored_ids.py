"""Ids and scores as vector stores take them and give them back, on both sides, without a store."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from llama_index.core.schema import IndexNode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode

import langchain_catena
import llama_index_catena
from catena.model import ParameterError, as_uuid
from langchain_catena import to_chunk
from llama_index_catena.convert import to_ranking


@given(st.text())
def test_any_id_has_one_uuid_and_one_is_kept_however_it_is_written(name: str) -> None:
    assert str(UUID(as_uuid(name))) == as_uuid(name) == as_uuid(as_uuid(name))
    plain = "3ec0f62602f5a1683ec0f62602f5a168"
    assert as_uuid(plain) == as_uuid(plain.upper()) == str(UUID(plain))
    assert as_uuid("3ec0f62602f5a168") != as_uuid("3ec0f62602f5a169")


def test_documents_under_uuids_say_their_id_and_name_their_neighbours() -> None:
    one = Document(id="one", page_content="1", metadata={"next_id": "two", "n": 1})
    two = Document(id="two", page_content="2", metadata={"previous_id": "one"})
    made = langchain_catena.with_uuids([one, two])
    assert [each.id for each in made] == [each.metadata["chunk_id"] for each in made]
    assert made[0].metadata["next_id"] == made[1].id == as_uuid("two")
    assert made[1].metadata["previous_id"] == made[0].id
    assert (one.id, one.metadata) == ("one", {"next_id": "two", "n": 1})
    assert langchain_catena.with_uuids(made) == made
    lost = made[0].model_copy(update={"id": None})
    assert to_chunk(lost).id == made[0].id
    with pytest.raises(ParameterError, match="with_links"):
        langchain_catena.with_uuids([Document(page_content="3")])


def test_nodes_under_uuids_lead_where_they_led() -> None:
    source, parent = RelatedNodeInfo(node_id="manual"), RelatedNodeInfo(node_id="p")
    links: dict[Any, Any] = {NodeRelationship.SOURCE: source, NodeRelationship.PARENT: parent}
    node = IndexNode(id_="v", index_id="p", text="x", relationships={**links, NodeRelationship.CHILD: [parent]})
    (made,) = llama_index_catena.with_uuids([node])
    assert (made.node_id, made.ref_doc_id) == (as_uuid("v"), "manual")
    assert made.index_id == made.parent_node.node_id == made.child_nodes[0].node_id == as_uuid("p")
    assert (node.node_id, node.index_id) == ("v", "p")


@pytest.mark.parametrize(
    ("scores", "counted"),
    [
        ([0.1, 0.4, 0.4], [-0.1, -0.4, -0.4]),  # distances
        ([0.9, 0.4], [0.9, 0.4]),
        ([0.5, 0.5], [0.5, 0.5]),
        ([0.4, 0.9, 0.1], [0.9, 0.4, 0.1]),  # in no order: similarities
        ([0.3], [0.3]),
        ([0.9, None], [1.0, 0.5]),
    ],
)
def test_scores_that_rise_down_a_list_are_distances(scores: list[float | None], counted: list[float]) -> None:
    found = [NodeWithScore(node=TextNode(id_=f"n{at}", text="x"), score=score) for at, score in enumerate(scores)]
    ranking = to_ranking(found)
    assert [hit.score for hit in ranking.hits] == counted
    if scores[0] != 0.4:
        assert [hit.chunk.id for hit in ranking.hits] == [each.node_id for each in found]
