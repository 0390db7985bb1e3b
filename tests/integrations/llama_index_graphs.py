"""A few nodes with a graph drawn by hand, and retrievers that find what they are told to, for tests of walks."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from graph_fakes import FakeGraph
from llama_index.core.callbacks import CallbackManager
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode

from catena.graph import GraphSearch, SimilarityScorer, node_of
from catena.model import NAME, SEMANTIC, STRUCTURAL
from catena.testing.fakes import AngleEmbedder
from llama_index_catena.convert import to_chunk

TEXTS = {"a": "The pump at 0 degrees.", "b": "Its maker at 30.", "c": "His town at 60.", "d": "A lamp at 80."}
HOW = GraphSearch(scorer=SimilarityScorer(share=0.0))
QUESTION = "Where is the maker of the pump at 10 degrees?"


def nodes() -> list[TextNode]:
    """Return the nodes anew, `d` among them, which no graph knows."""
    return [TextNode(id_=name, text=text, metadata={"title": name.upper()}) for name, text in TEXTS.items()]


def graph() -> FakeGraph:
    """Return a - b - c: the first two side by side and alike, the others by a shared name."""
    known = [node_of(to_chunk(node)).chunk for node in nodes()[:3]]
    rows = dict(zip("abc", AngleEmbedder().embed_documents([TEXTS[name] for name in "abc"]).tolist(), strict=True))
    edges = {("a", "b"): {STRUCTURAL: 1.0, SEMANTIC: 0.5}, ("b", "c"): {NAME: 2.0}}
    return FakeGraph(known, rows, edges, {("b", "c"): {NAME: ("krona", "works")}})


class Finding(BaseRetriever):
    """Finds the same nodes whatever it is asked, sync only, and remembers what it was asked."""

    def __init__(self, found: Sequence[tuple[BaseNode, float | None]], **options: Any) -> None:
        super().__init__(callback_manager=options.get("callback_manager", CallbackManager()))
        self.found, self.asked = found, list[QueryBundle]()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.asked.append(deepcopy(query_bundle))
        query_bundle.embedding = [0.0]  # as LlamaIndex's own write theirs into the bundle that they are given
        return [NodeWithScore(node=node, score=score) for node, score in self.found]
