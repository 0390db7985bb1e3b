"""RAPTOR: clusters of chunks are summarised, clusters of these summaries too, and so on to the top of a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from catena.effects import Step
from catena.enrichment.clustering import Clustering, clusters
from catena.enrichment.raptor_summaries import ClusterSummaries, Material, summarise, unit_vectors
from catena.enrichment.summary_tree import SummaryTree, TreeNode, leaf_of, parent_of
from catena.model import Chunk, Degraded
from catena.model.errors import InvalidReplyError
from catena.model.options import check_options
from catena.text.tokens import count_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class RaptorOptions:
    """How the tree is made.

    Attributes:
        summaries: who writes them, and how long they are.
        clustering: of each layer.
        layers: of summaries, at most.
    """

    summaries: ClusterSummaries = field(default_factory=ClusterSummaries)
    clustering: Clustering = field(default_factory=Clustering)
    layers: Annotated[int, Ge(0)] = 5

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RaptorTree:
    """A tree with the vectors of its nodes.

    Attributes:
        vectors: one row per node, in the order of `tree.nodes`, of unit length or zero, shape (n, dim); (0, 0) for a
            tree without nodes.
        degraded: summaries that the model did not give, and for which others stand in.
    """

    tree: SummaryTree
    vectors: NDArray[np.float32]
    degraded: tuple[Degraded, ...] = ()


def raptor_tree(
    document_id: str,
    chunks: Sequence[Chunk],
    options: RaptorOptions | None = None,
    *,
    title: str = "",
    count: Callable[[str], int] = count_tokens,
) -> Step[RaptorTree]:
    """Make the tree of summaries of one document.

    The chunks are the leaves. Each layer is embedded and put into soft clusters; a summary of each cluster is a node
    of the next layer. That ends when a layer has no more nodes than `dimensions + 1`, when its clusters would not be
    fewer than its nodes, or after `layers` layers. A short document is a tree of leaves alone.

    Calls: per layer one round to the embedder, one for the summaries of all clusters and, offline or in place of
    failed ones, one to the embedder for the sentences.

    Args:
        document_id: of all chunks.
        chunks: in reading order, of any chunker; fixed lengths of 300 tokens in MC-indexing's comparison.
        options: the parameters.
        title: of the document, for the prompts.
        count: tokens of a text.

    Raises:
        ParameterError: a chunk is of another document, or there twice.
        MissingExtraError: scikit-learn (or UMAP, if it is asked for) is not installed.
        CatenaError: the embedder failed, or what surrounds the model (nobody answers, the budget, the journal).

    Source: Sarthi et al., RAPTOR, arXiv:2401.18059, section 3; as a baseline: MC-indexing, appendix C.2.
    """
    how = options or RaptorOptions()
    material = Material(
        title=title, chunks={chunk.id: chunk for chunk in chunks}, tokens=how.clustering.tokens, count=count
    )
    layer: list[TreeNode] = [leaf_of(chunk) for chunk in chunks]
    nodes, layers, rows = list(layer), [layer] if layer else [], []
    degraded: list[Degraded] = []
    # checked before anything is asked for
    SummaryTree(document_id=document_id, nodes=tuple(nodes), layers=_ids(layers), chunks=tuple(chunks))
    while layer:
        vectors = yield from unit_vectors([node.text for node in layer], "embedding of tree nodes")
        rows.append(vectors)
        if len(layers) > how.layers or len(layer) <= how.clustering.dimensions + 1:
            break
        groups = [
            [layer[place] for place in cluster]
            for cluster in clusters(vectors, [count(node.text) for node in layer], how.clustering)
        ]
        if len(groups) >= len(layer):
            break
        texts, missing = yield from summarise(groups, how.summaries, material)
        layer = [parent_of(group, text) for group, text in zip(groups, texts, strict=True)]
        nodes += layer
        layers.append(layer)
        degraded += missing
    return RaptorTree(
        tree=SummaryTree(document_id=document_id, nodes=tuple(nodes), layers=_ids(layers), chunks=tuple(chunks)),
        vectors=_stacked(rows),
        degraded=tuple(degraded),
    )


def _ids(layers: Sequence[Sequence[TreeNode]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(node.id for node in layer) for layer in layers)


def _stacked(rows: Sequence[NDArray[np.float64]]) -> NDArray[np.float32]:
    if len({part.shape[1] for part in rows}) > 1:
        raise InvalidReplyError(
            "embedder", f"vectors of widths {sorted({part.shape[1] for part in rows})} in one tree"
        )
    return np.concatenate(rows).astype(np.float32) if rows else np.zeros((0, 0), dtype=np.float32)
