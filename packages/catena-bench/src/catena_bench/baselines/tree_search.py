"""Find chunks through a tree of summaries: from the root down (traversal), or in all layers at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from catena import Chunk, Hit, Provenance, Ranking, Scale
from catena.effects import Embed, Step, ask
from catena.model import ParameterError, digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


TreeWay: TypeAlias = Literal["collapsed", "traversal"]
TREE = "tree"  # the route in a hit's provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """A leaf, whose text is that of a chunk, or a summary, whose text was made and stands in no document.

    Attributes:
        level: 0 for a leaf; a summary stands one above its children.
        children: ids of the nodes that it summarises, in order; a node may have several parents.
        chunk_id: of a leaf's chunk; "" for a summary, so that it can never be cited as a slice of the document.
    """

    id: str
    level: int
    text: str
    children: tuple[str, ...] = ()
    chunk_id: str = ""

    @property
    def made(self) -> bool:
        """Return whether the text was made instead of cut from the document."""
        return not self.chunk_id


@dataclass(frozen=True, kw_only=True)
class SummaryTree:
    """The nodes of a tree, layer upon layer, and the chunks at its bottom.

    Every leaf is reached from the last layer, the root layer: each node below that has a parent.

    Attributes:
        nodes: leaves first, in reading order, then one layer after the other.
        chunks: one per leaf, in order.
    """

    document_id: str
    nodes: tuple[TreeNode, ...]
    chunks: tuple[Chunk, ...]

    @cached_property
    def _by_id(self) -> Mapping[str, TreeNode]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def _chunk_of(self) -> Mapping[str, Chunk]:
        return {chunk.id: chunk for chunk in self.chunks}

    @cached_property
    def layers(self) -> tuple[tuple[str, ...], ...]:
        """The ids of the nodes of each level, from the leaves up; () for a document without chunks."""
        levels = groupby(self.nodes, lambda node: node.level)
        return tuple(tuple(node.id for node in of_level) for _, of_level in levels)

    @property
    def root(self) -> tuple[TreeNode, ...]:
        """The nodes of the highest layer; the leaves where nothing was summarised."""
        return self.layer(-1) if self.layers else ()

    def layer(self, level: int) -> tuple[TreeNode, ...]:
        """Return the nodes of one level, in order; level 0 holds the leaves."""
        return tuple(self._by_id[each] for each in self.layers[level])

    def children(self, nodes: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
        """Return the nodes right below these, each once, in the order in which they are met."""
        return tuple(self._by_id[each] for each in dict.fromkeys(child for node in nodes for child in node.children))

    def chunks_below(self, node: TreeNode) -> tuple[Chunk, ...]:
        """Return the chunks of the leaves under a node, in reading order; a leaf's own chunk."""
        below: tuple[TreeNode, ...] = (node,)
        while below and below[0].made:
            below = self.children(below)
        return tuple(sorted((self._chunk_of[leaf.chunk_id] for leaf in below), key=lambda chunk: chunk.position))


def leaf_of(chunk: Chunk) -> TreeNode:
    """Return the leaf for a chunk; it bears the chunk's id."""
    return TreeNode(id=chunk.id, level=0, text=chunk.text, chunk_id=chunk.id)


def parent_of(children: Sequence[TreeNode], text: str) -> TreeNode:
    """Return the node of a summary; its id is derived from the ids of its children.

    Args:
        children: of one level, at least one.
        text: the summary.
    """
    ids = tuple(child.id for child in children)
    return TreeNode(id=digest("summary", *ids), level=children[0].level + 1, text=text, children=ids)


NodeScores: TypeAlias = Sequence[float]
"""How relevant each node is to a query: one finite number per node of the tree, in order.

Any retriever's will do, a BM25 over the nodes' texts as well as the cosines of their vectors; higher is better.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNode:
    """A node that was found, and the chunks that can be cited for it.

    Attributes:
        score: of the node, in the unit of the scores given.
        rank: from 1.
        chunks: those of the leaves under it, in reading order. Where `node.made`, the node's text stands in none of
            them: it may be read, and is no quotation.
    """

    node: TreeNode
    score: float
    rank: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapsed:
    """The result of a search in all layers at once.

    Attributes:
        nodes: leaves and summaries, best first.
        ranking: the chunks of the leaves under these nodes, each at the place of the best node above it and, under
            one node, in order of their own scores. Only the order means anything; a hit's provenance names the rank
            and score of that node, and "raw" or "summary" as what was found.
    """

    nodes: tuple[FoundNode, ...]
    ranking: Ranking


def traverse(tree: SummaryTree, scores: NodeScores, *, k: int) -> Ranking:
    """Return the chunks of at most k leaves, best first, by going down from the root layer.

    The k best nodes of the root layer are taken, then the k best among the children of these, and so on; the last
    are leaves. Of nodes with equal scores those with the lesser ids are taken.

    Args:
        tree: of one document.
        scores: of its nodes.
        k: nodes of each layer, >= 1.

    Raises:
        ParameterError: k is below 1, or there is not one finite score for each node.

    Source: MC-indexing, appendix C.2; Sarthi et al., RAPTOR, arXiv:2401.18059, section 3.
    """
    _check_k(k)
    by_id = _by_id(tree, scores)
    taken = _best(tree.root, by_id, k)
    while taken and taken[0].made:
        taken = _best(tree.children(taken), by_id, k)
    hits = (
        Hit(chunk, by_id[leaf.id], (Provenance(route=TREE, rank=rank, score=by_id[leaf.id]),))
        for rank, leaf in enumerate(taken, start=1)
        for chunk in tree.chunks_below(leaf)
    )
    return Ranking.of(hits, Scale.SIMILARITY)


def collapsed(tree: SummaryTree, scores: NodeScores, *, k: int) -> Collapsed:
    """Return the k best nodes of all layers, and the chunks under them.

    Args:
        tree: of one document.
        scores: of its nodes.
        k: nodes, >= 1.

    Raises:
        ParameterError: k is below 1, or there is not one finite score for each node.

    Source: Sarthi et al., RAPTOR, arXiv:2401.18059, section 3.
    """
    _check_k(k)
    by_id = _by_id(tree, scores)
    nodes = tuple(
        FoundNode(node=node, score=by_id[node.id], rank=rank, chunks=tree.chunks_below(node))
        for rank, node in enumerate(_best(tree.nodes, by_id, k), start=1)
    )
    return Collapsed(nodes=nodes, ranking=_leaves(nodes, by_id))


def search_trees(
    query: str, trees: Sequence[tuple[SummaryTree, NDArray[np.floating]]], *, k: int, way: TreeWay = "collapsed"
) -> Step[Ranking]:
    """Return at most k chunks through the trees of several documents, by the cosines of their nodes.

    "collapsed" ranks the nodes of all layers of all trees, and takes chunks from under them until there are k;
    "traversal" goes down each tree by k nodes a layer, and takes the best leaves of all.

    Args:
        query: asked of the embedder that made the vectors; once for all trees.
        trees: each with the vectors of its nodes, in order, shape (n, dim), as `enrichment.raptor` makes them.
        k: chunks returned, >= 0.
        way: how trees are searched.

    Raises:
        ParameterError: k is below 0, the way is none of the two, or vectors do not fit.
        CatenaError: the embedder failed.

    Source: Sarthi et al., RAPTOR, arXiv:2401.18059, section 3; several documents are ours.
    """
    import numpy as np

    if way not in get_args(TreeWay):
        raise ParameterError("way", way, "'collapsed' or 'traversal'")
    if k < 0:
        raise ParameterError("k", k, "an integer >= 0")
    grown = [(tree, vectors) for tree, vectors in trees if tree.nodes]
    if not grown or not k:
        return Ranking((), Scale.RANK)
    cosines = yield from node_cosines(query, np.concatenate([vectors for _, vectors in grown]))
    borders = np.cumsum([0, *(len(tree.nodes) for tree, _ in grown)]).tolist()
    scored = [(tree, cosines[borders[place] : borders[place + 1]]) for place, (tree, _) in enumerate(grown)]
    if way == "traversal":
        hits = [hit for tree, scores in scored for hit in traverse(tree, scores, k=k).hits]
        return Ranking.of(hits, Scale.SIMILARITY).top(k)
    best = sorted(
        (found for tree, scores in scored for found in collapsed(tree, scores, k=len(tree.nodes)).nodes),
        key=lambda found: (-found.score, found.node.id),
    )
    ranked = [replace(found, rank=rank) for rank, found in enumerate(best, start=1)]
    leaves = {node.id: score for tree, scores in scored for node, score in zip(tree.nodes, scores, strict=True)}
    return _leaves(ranked, leaves).top(k)


def node_cosines(query: str, vectors: NDArray[np.floating]) -> Step[tuple[float, ...]]:
    """Return the cosine of the query's vector with that of each node, as scores for both ways of search.

    Args:
        query: asked of the embedder that made the vectors.
        vectors: of the nodes of a tree, in order, of unit length or zero, shape (n, dim).

    Raises:
        ParameterError: the query's vector has another width.
        CatenaError: the embedder failed.
    """
    import numpy as np

    (reply,) = yield from ask([Embed(texts=(query,), kind="query", purpose="query embedding")])
    found: Any = np.asarray(reply, dtype=np.float64)[0]
    if len(vectors) and found.shape != vectors.shape[1:]:
        raise ParameterError("vectors", f"of {vectors.shape[1]} dimensions", f"of the query's {len(found)}")
    if not len(vectors):
        return ()
    length = float(np.linalg.norm(found)) or 1.0
    # rounded: what differs by less differs by the order in which a machine sums
    return tuple(np.round(vectors.astype(np.float64) @ (found / length), 9).tolist())


def _by_id(tree: SummaryTree, scores: NodeScores) -> Mapping[str, float]:
    given = [float(score) for score in scores]
    if len(given) != len(tree.nodes) or not all(map(isfinite, given)):
        raise ParameterError(
            "scores", f"{len(given)} numbers", f"one finite number for each of {len(tree.nodes)} nodes"
        )
    return {node.id: score for node, score in zip(tree.nodes, given, strict=True)}


def _best(nodes: Sequence[TreeNode], scores: Mapping[str, float], k: int) -> tuple[TreeNode, ...]:
    return tuple(sorted(nodes, key=lambda node: (-scores[node.id], node.id))[:k])


def _leaves(nodes: Sequence[FoundNode], scores: Mapping[str, float]) -> Ranking:
    brought: dict[str, tuple[Chunk, FoundNode]] = {}
    for found in nodes:
        for chunk in sorted(found.chunks, key=lambda chunk: (-scores[chunk.id], chunk.id)):
            brought.setdefault(chunk.id, (chunk, found))
    ways = (
        (chunk, Provenance(route=TREE, rank=by.rank, score=by.score, view="summary" if by.node.made else "raw"))
        for chunk, by in brought.values()
    )
    return Ranking.of((Hit(chunk, 1.0 / place, (way,)) for place, (chunk, way) in enumerate(ways, 1)), Scale.RANK)


def _check_k(k: int) -> None:
    if k < 1:
        raise ParameterError("k", k, "an integer >= 1")
