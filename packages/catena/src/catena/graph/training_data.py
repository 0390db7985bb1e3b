"""Training lists as the arrays, vectors and texts from which the paper's scorer learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from catena.effects.steps import Embed, Expand, FetchById, FetchNodes, Step, ask
from catena.graph.choices import Choices, Texts, Vectors
from catena.graph.paper_network import KINDS
from catena.graph.paper_scorer import PathEncoding, node_text, path_text, unit
from catena.model.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.effects.ports import Graph
    from catena.graph.training import TrainingLists
    from catena.model import Chunk

_AT_ONCE = 256  # nodes expanded, or texts embedded, by one request


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """What has to be encoded for some choices, each once; rows of their arrays are places here.

    Attributes:
        questions: their texts.
        paths: ids of the nodes of each.
        nodes: ids of the candidates, ascending.
    """

    questions: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    nodes: tuple[str, ...]


def choices_of(lists: TrainingLists, graph: Graph) -> tuple[Choices, Encoded]:
    """Return the lists as arrays, and what their rows are.

    Args:
        lists: as drawn from this graph.
        graph: whose edges give the triples; a candidate that no edge joins has zeros.

    Raises:
        CatenaError: whatever the graph fails with.
    """
    every = lists.lists
    paths = sorted({each.path for each in every})
    nodes = sorted({node for each in every for node in each.candidates})
    place_of_path = {path: place for place, path in enumerate(paths)}
    place_of_node = {node: place for place, node in enumerate(nodes)}
    pairs = [
        (each.path[source], node) for each in every for source, node in zip(each.froms, each.candidates, strict=True)
    ]
    choices = Choices(
        question=np.array([each.question for each in every], dtype=np.int64),
        path=np.array([place_of_path[each.path] for each in every], dtype=np.int64),
        starts=np.cumsum([0, *(len(each.candidates) for each in every)], dtype=np.int64),
        node=np.array([place_of_node[node] for _, node in pairs], dtype=np.int64),
        triples=_triples(pairs, graph),
        positive=np.array([right for each in every for right in each.positive], dtype=np.bool_),
    )
    questions = tuple(question.question for question in lists.questions)
    return choices, Encoded(questions=questions, paths=tuple(paths), nodes=tuple(nodes))


def vectors_of(encoded: Encoded, *, path: PathEncoding = "vectors") -> Step[Vectors]:
    """Return a frozen encoder's vectors: of nodes from the graph, of questions and texts of paths from the embedder.

    Args:
        encoded: of `choices_of`.
        path: as `PaperScorer.path` will have it.

    Raises:
        CatenaError: whatever the graph or the embedder fails with.
    """
    named = tuple(sorted({*encoded.nodes, *(node for each in encoded.paths for node in each)}))
    (found,) = yield from ask([FetchNodes(chunk_ids=named)])
    if found.ids != named:
        lost = sorted(set(named) - set(found.ids))[:3]
        raise ParameterError("chunks of the training lists", lost, "in the graph from which the lists were drawn")
    row = {node: place for place, node in enumerate(named)}
    queries = yield from _embedded(encoded.questions, "query")
    if path == "vectors":
        means = [unit(found.vectors[[row[node] for node in each]].mean(axis=0)) for each in encoded.paths]
        paths = np.array(means, dtype=np.float32)
    else:
        chunks = yield from _chunks(named)
        paths = yield from _embedded([path_text([chunks[node] for node in each]) for each in encoded.paths])
    if queries.shape[1] != found.vectors.shape[1]:
        sizes = f"{found.vectors.shape[1]}, as the vectors that the graph holds: by the embedder of its library"
        raise ParameterError("length of the questions' vectors", queries.shape[1], sizes)
    return Vectors(queries=queries, paths=paths, nodes=found.vectors[[row[node] for node in encoded.nodes]])


def texts_of(encoded: Encoded) -> Step[Texts]:
    """Return the texts from which an encoder is trained, as the scorer of it will have them encoded.

    Raises:
        CatenaError: whatever the graph fails with.
    """
    chunks = yield from _chunks(tuple(sorted({*encoded.nodes, *(node for each in encoded.paths for node in each)})))
    return Texts(
        queries=encoded.questions,
        paths=tuple(path_text([chunks[node] for node in each]) for each in encoded.paths),
        nodes=tuple(node_text(chunks[node]) for node in encoded.nodes),
    )


def _triples(pairs: Sequence[tuple[str, str]], graph: Graph) -> NDArray[np.float32]:
    """Return the triple of the edge of each pair of ids, shape (pairs, 3)."""
    sources = sorted({source for source, _ in pairs})
    edges: dict[tuple[str, str], NDArray[np.float32]] = {}
    wanted = set(pairs)
    for start in range(0, len(sources), _AT_ONCE):
        found = graph.expand(Expand(chunk_ids=tuple(sources[start : start + _AT_ONCE])))
        columns = [found.kinds.index(kind) if kind in found.kinds else -1 for kind in KINDS]
        padded = np.pad(found.weights, ((0, 0), (0, 1)))  # the last column stands for a kind that it does not have
        for edge, (source, target) in enumerate(zip(found.source.tolist(), found.target.tolist(), strict=True)):
            pair = (found.sources[source], found.nodes.ids[target])
            if pair in wanted:
                edges[pair] = padded[edge, columns]
    none = np.zeros(len(KINDS), dtype=np.float32)
    return np.array([edges.get(pair, none) for pair in pairs], dtype=np.float32).reshape(len(pairs), len(KINDS))


def _embedded(texts: Sequence[str], kind: str = "document") -> Step[NDArray[np.float32]]:
    batches = [tuple(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE)]
    requests = [Embed(texts=batch, kind="query" if kind == "query" else "document") for batch in batches]
    replies = yield from ask(requests)
    return np.concatenate([np.asarray(reply, dtype=np.float32) for reply in replies])


def _chunks(ids: tuple[str, ...]) -> Step[dict[str, Chunk]]:
    (found,) = yield from ask([FetchById(chunk_ids=ids)])
    chunks = {name: chunk for name, chunk in zip(ids, found, strict=True) if chunk is not None}
    if len(chunks) < len(ids):
        lost = [name for name in ids if name not in chunks][:3]
        raise ParameterError("chunks of the training lists", lost, "in the graph from which the lists were drawn")
    return chunks
