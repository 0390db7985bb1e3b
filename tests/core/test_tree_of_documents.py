"""Trees of several documents searched as one, and late interaction as a reranker: by hand."""

from __future__ import annotations

import numpy as np
import pytest
from retrieval_cases import chunk

from catena.effects import Services, run
from catena.model import ParameterError, Ranking, Scale
from catena.retrieval.late_interaction import LateInteractionReranker
from catena.testing.fakes import AngleEmbedder
from catena_bench.baselines import SummaryTree, search_trees
from catena_bench.baselines.tree_search import leaf_of, parent_of


def tree(name: str, leaves: dict[str, float], summary: float) -> tuple[SummaryTree, np.ndarray]:
    """One summary over leaves; a text is its angle in degrees, as `AngleEmbedder` reads it."""
    chunks = tuple(
        chunk(each, str(angle), document_id=name, position=place, start=10 * place)
        for place, (each, angle) in enumerate(leaves.items())
    )
    below = [leaf_of(each) for each in chunks]
    angles = np.radians([*leaves.values(), summary])
    made = SummaryTree(document_id=name, nodes=(*below, parent_of(below, str(summary))), chunks=chunks)
    return made, np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


TREES = [tree("one", {"a": 80.0, "b": 30.0}, 2.0), tree("two", {"c": 10.0, "d": 60.0}, 50.0)]
ASKED = Services(embedder=AngleEmbedder())


def found(k: int, way: str = "collapsed") -> Ranking:
    return run(search_trees("0", TREES, k=k, way=way), ASKED)  # type: ignore[arg-type]


def test_the_best_nodes_of_all_trees_bring_their_leaves() -> None:
    ranking = found(4)  # the summary of "one" at 2 degrees, then c at 10, b at 30, the summary of "two" at 50
    assert [hit.chunk.id for hit in ranking.hits] == ["b", "a", "c", "d"]
    ways = [(hit.provenance[0].rank, hit.provenance[0].view) for hit in ranking.hits]
    assert ways == [(1, "summary"), (1, "summary"), (2, "raw"), (4, "summary")]
    assert ranking.scale is Scale.RANK
    assert [hit.chunk.id for hit in found(1).hits] == ["b"]


def test_a_walk_down_ranks_the_leaves_of_all_trees_by_their_own_cosines() -> None:
    ranking = found(3, "traversal")
    assert [hit.chunk.id for hit in ranking.hits] == ["c", "b", "d"]
    assert [hit.score for hit in ranking.hits] == pytest.approx(np.cos(np.radians([10, 30, 60])), abs=1e-6)


def test_nothing_is_found_in_no_tree_and_bad_values_are_named() -> None:
    assert found(0).hits == run(search_trees("0", [], k=3), ASKED).hits == ()
    with pytest.raises(ParameterError, match="way"):
        found(1, "sideways")
    with pytest.raises(ParameterError, match="k must be"):
        found(-1)


class ByLetter:
    """One axis per letter of "abc": the tokens of a text are its letters."""

    identity = "letters"

    def embed_document_tokens(self, texts):
        return [self.embed_query_tokens(text) for text in texts]

    def embed_query_tokens(self, text):
        return np.eye(3, dtype=np.float32)[["abc".index(letter) for letter in text]].reshape(-1, 3)


def test_late_interaction_scores_each_token_of_the_question_once() -> None:
    reranker = LateInteractionReranker(ByLetter())
    assert reranker.score("ab", ["ab", "bbb", "c", ""]) == [2.0, 1.0, 0.0, -2.0]
    assert reranker.score("ab", []) == []
    assert reranker.identity == "late interaction of letters"
