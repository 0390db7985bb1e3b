"""What went wrong when LlamaIndex's users would have dropped our classes into what they already run."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index_graphs import Finding

from catena.segments import Constant
from catena.testing import FakeReranker
from llama_index_catena import CatenaRerank, CatenaRetriever, CatenaSegmentPostprocessor
from llama_index_catena.convert import PROVENANCE, provenance

SOUND = TextNode(id_="sound", text="The cover takes six screws.")
BROKEN = TextNode(id_="broken", text="It is painted grey.")


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
async def test_a_score_that_is_no_number_is_none(score: float) -> None:
    found = [(BROKEN, score), (SOUND, 0.5)]
    nodes = [NodeWithScore(node=node, score=told) for node, told in found]
    fused = CatenaRetriever.over({"odd": Finding(found), "sound": Finding([(SOUND, 0.9)])})
    assert [each.node.node_id for each in fused.retrieve("cover")] == ["sound", "broken"]
    assert [each.node.node_id for each in await fused.aretrieve("cover")] == ["sound", "broken"]
    rerank = CatenaRerank(FakeReranker(), calibration=Constant())
    assert len(rerank.postprocess_nodes(nodes, query_str="cover")) == 2
    assert CatenaSegmentPostprocessor().postprocess_nodes(nodes, query_str="cover")  # by their order
    assert [each.score for each in nodes] == [pytest.approx(score, nan_ok=True), 0.5]


@pytest.mark.parametrize("written", ["in words", "[1]", {"routes": []}, 3, None])
def test_a_key_of_somebody_else_with_our_name_is_no_provenance(written: Any) -> None:
    node = TextNode(id_="a", text="The cover takes six screws.", metadata={PROVENANCE: written})
    assert provenance(node) == {}
    rerank = CatenaRerank(FakeReranker(), calibration=Constant())
    (found,) = rerank.postprocess_nodes([NodeWithScore(node=node, score=0.5)], query_str="cover")
    assert provenance(found.node)["scale"] == "probability"
    assert node.metadata == {PROVENANCE: written}
