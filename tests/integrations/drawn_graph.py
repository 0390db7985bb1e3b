"""A few passages with a graph drawn by hand, for tests of walks."""

from __future__ import annotations

from typing import Any

from graph_fakes import FakeGraph

from catena.graph import GraphSearch, SimilarityScorer
from catena.model import NAME, SEMANTIC, STRUCTURAL
from catena.testing.fakes import AngleEmbedder

TEXTS = {"a": "The pump at 0 degrees.", "b": "Its maker at 30.", "c": "His town at 60.", "d": "A lamp at 80."}
HOW = GraphSearch(scorer=SimilarityScorer(share=0.0))
QUESTION = "Where is the maker of the pump at 10 degrees?"


def nodes(face: Any) -> dict[str, Any]:
    """Return the passages anew, `d` among them, which no graph knows."""
    return {name: face.node(name, text, title=name.upper()) for name, text in TEXTS.items()}


def by_hand(face: Any) -> FakeGraph:
    """Return a - b - c: the first two side by side and alike, the others by a shared name."""
    known = [face.graph_chunk(nodes(face)[name]) for name in "abc"]
    rows = dict(zip("abc", AngleEmbedder().embed_documents([TEXTS[name] for name in "abc"]).tolist(), strict=True))
    edges = {("a", "b"): {STRUCTURAL: 1.0, SEMANTIC: 0.5}, ("b", "c"): {NAME: 2.0}}
    return FakeGraph(known, rows, edges, {("b", "c"): {NAME: ("krona", "works")}})
