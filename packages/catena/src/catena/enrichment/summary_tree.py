"""A tree of summaries over the chunks of one document: what it is made of, and the laws that it keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from catena.model import Chunk
from catena.model.errors import ParameterError
from catena.model.ids import digest


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
        """Whether the text was made instead of cut from the document."""
        return not self.chunk_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryTree:
    """The nodes of a tree, layer upon layer, and the chunks at its bottom.

    Every leaf is reached from the last layer, the root layer: each node below that has a parent.

    Attributes:
        nodes: leaves first, in reading order, then one layer after the other.
        layers: ids of the nodes of each level, from the leaves up; () for a document without chunks.
        chunks: one per leaf, in order.

    Raises:
        ParameterError: the nodes do not make such a tree.
    """

    document_id: str
    nodes: tuple[TreeNode, ...]
    layers: tuple[tuple[str, ...], ...]
    chunks: tuple[Chunk, ...]
    _by_id: Mapping[str, TreeNode] = field(init=False, repr=False, compare=False)
    _chunk_of: Mapping[str, Chunk] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {node.id: node for node in self.nodes})
        object.__setattr__(self, "_chunk_of", {chunk.id: chunk for chunk in self.chunks})
        _check(self)

    @property
    def root(self) -> tuple[TreeNode, ...]:
        """The nodes of the highest layer; the leaves where nothing was summarised."""
        return self.layer(len(self.layers) - 1) if self.layers else ()

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


def _check(tree: SummaryTree) -> None:
    if len({node.id for node in tree.nodes}) < len(tree.nodes):
        raise ParameterError("nodes", "two of the same id", "nodes of different ids")
    in_layers = tuple(each for layer in tree.layers for each in layer)
    if in_layers != tuple(node.id for node in tree.nodes) or not all(tree.layers):
        raise ParameterError("layers", f"{len(in_layers)} ids", f"the ids of the {len(tree.nodes)} nodes, in order")
    leaves = tree.layer(0) if tree.layers else ()
    if [(leaf.chunk_id, leaf.text) for leaf in leaves] != [(chunk.id, chunk.text) for chunk in tree.chunks]:
        raise ParameterError("leaves", f"{len(leaves)} nodes", f"one for each of {len(tree.chunks)} chunks, in order")
    foreign = {chunk.document_id for chunk in tree.chunks} - {tree.document_id}
    if foreign:
        raise ParameterError("chunks", f"some of {sorted(foreign)}", f"of the document {tree.document_id!r}")
    for level, ids in enumerate(tree.layers):
        below = set(tree.layers[level - 1]) if level else set()
        nodes = tree.layer(level)
        children = {child for node in nodes for child in node.children}
        if any(node.level != level or (level > 0) != node.made for node in nodes) or children != below:
            allowed = f"the parents of all {len(below)} nodes below it" if level else "leaves"
            raise ParameterError(f"layer {level} of the tree", f"{len(ids)} nodes", allowed)
        if level and not all(node.children for node in nodes):
            raise ParameterError(f"layer {level} of the tree", "a summary of nothing", "nodes with children")
