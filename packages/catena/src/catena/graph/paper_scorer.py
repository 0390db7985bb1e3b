"""The scorer of the IIER paper: question, path and neighbour by one encoder, the edge by f_r, the score by f_n.

The encoder is the one of the vectors that the graph holds and questions are given: the embedder of the library. An
encoder that was fine-tuned with the scorer is used by making it that embedder, `SentenceTransformerEmbedder(folder)`,
and by embedding the library with it; there is no second model to load, and no vector of one compared with another's.

Source: IIER (arXiv 2408.02907), equations 1 to 3.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from catena.effects.steps import Embed, Step, ask
from catena.graph.frontier import chunks_known
from catena.graph.scoring import Candidates, read_weights, unit_vector, write_weights
from catena.model import TITLE, Chunk, ParameterError, digest

KINDS = ("structural", "semantic", "keyword")
"""Kinds of edge, in the order of a triple (W_struc, W_sim, W_keyword)."""


def shapes(dim: int, edge_hidden: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of weights, in the order of the pass.

    Args:
        dim: D, of the encoder.
        edge_hidden: units between the two layers of f_r: R^3 -> R^D.
        hidden: units between the two layers of f_n: R^4D -> R.
    """
    return {
        "edge.first": (edge_hidden, len(KINDS)),
        "edge.first_bias": (edge_hidden,),
        "edge.second": (dim, edge_hidden),
        "edge.second_bias": (dim,),
        "score.first": (hidden, 4 * dim),
        "score.first_bias": (hidden,),
        "score.second": (1, hidden),
        "score.second_bias": (1,),
    }


def initial_weights(dim: int, edge_hidden: int, hidden: int, seed: int) -> dict[str, NDArray[np.float32]]:
    """Draw weights evenly from ±1/sqrt(inputs of the layer); equal seeds give equal weights everywhere."""
    draw = np.random.default_rng(seed)
    found: dict[str, NDArray[np.float32]] = {}
    inputs = 1
    for name, shape in shapes(dim, edge_hidden, hidden).items():
        inputs = shape[1] if len(shape) == 2 else inputs  # a bias has the inputs of its layer, which is before it
        found[name] = draw.uniform(-(inputs**-0.5), inputs**-0.5, shape).astype(np.float32)
    return found


def checked_weights(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """Return the arrays as float32, each of the shape that the others ask for.

    Raises:
        ParameterError: one is missing or too many, of another shape, or not finite.
    """
    wanted = shapes(1, 1, 1)
    if set(arrays) != set(wanted):
        raise ParameterError("weights", sorted(arrays), f"{', '.join(wanted)}")
    second, first = arrays["edge.second"], arrays["score.first"]
    if second.ndim != 2 or first.ndim != 2:
        raise ParameterError("shape of weights", (second.shape, first.shape), "matrices")
    for name, shape in shapes(second.shape[0], second.shape[1], first.shape[0]).items():
        if arrays[name].shape != shape:
            raise ParameterError(f"shape of {name}", arrays[name].shape, f"{shape}, as that of the others asks for")
        if not np.isfinite(arrays[name]).all():
            raise ParameterError(name, "nan or infinity", "finite")
    return {name: np.ascontiguousarray(arrays[name], dtype=np.float32) for name in wanted}


def network_scores(
    weights: Mapping[str, NDArray[np.float32]],
    query: NDArray[np.float32],
    path: NDArray[np.float32],
    nodes: NDArray[np.float32],
    triples: NDArray[np.float32],
) -> NDArray[np.float64]:
    """Score m neighbours: `f_n(E_query, E_path, E_neighbour, f_r(W_struc, W_sim, W_keyword))`.

    Each of f_r and f_n is `W2 relu(W1 x + b1) + b2`. Query and path are the same for all rows, so their part of W1 is
    multiplied once.

    Args:
        weights: of the shapes of `shapes`.
        query: shape (dim,).
        path: shape (dim,).
        nodes: shape (m, dim).
        triples: weights of edges in the order of `KINDS`, shape (m, 3).

    Returns:
        Scores without unit, of any sign, shape (m,).
    """
    dim = len(query)
    first = weights["score.first"]
    hidden = np.maximum(triples @ weights["edge.first"].T + weights["edge.first_bias"], 0.0)
    edges = hidden @ weights["edge.second"].T + weights["edge.second_bias"]
    shared = first[:, :dim] @ query + first[:, dim : 2 * dim] @ path + weights["score.first_bias"]
    inner = nodes @ first[:, 2 * dim : 3 * dim].T + edges @ first[:, 3 * dim :].T + shared
    scores: NDArray[np.float64] = np.maximum(inner, 0.0).astype(np.float64) @ weights["score.second"][0]
    scores += weights["score.second_bias"][0]
    return scores


_FORMAT, _VERSION = "catena-paper-scorer", 1

PathEncoding: TypeAlias = Literal["vectors", "texts"]
"""The vector of a path: the mean of its nodes' vectors, or the embedding of their texts, joined."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PaperScorer:
    """`score = f_n(E_query, E_path, E_neighbour, f_r(W_struc, W_sim, W_keyword))`, trained.

    Attributes:
        weights: of both networks, as `catena.graph.paper_scorer.shapes` says.
        encoder: identity of the embedder of the questions' and nodes' vectors.
        path: "texts" embeds the texts of the path, joined in order, as the paper does: one request to the embedder a
            hop. "vectors" takes the mean of the nodes' vectors, made a unit vector, and sends no request: the default
            of training with a frozen encoder.
        record: of its training data and options: any JSON object.

    Raises:
        ParameterError: weights are missing or of other shapes, or `path` is neither.

    Source: IIER (arXiv 2408.02907), equations 1 to 3; the means of "vectors" are ours.
    """

    weights: Mapping[str, NDArray[np.float32]] = field(repr=False)
    encoder: str
    path: PathEncoding = "vectors"
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)
    identity: str = field(init=False)

    def __post_init__(self) -> None:
        if self.path not in get_args(PathEncoding):
            raise ParameterError("path", self.path, "'vectors' or 'texts'")
        weights = checked_weights(self.weights)
        object.__setattr__(self, "weights", weights)
        parts = [part for name in weights for part in (name, weights[name].tobytes())]
        object.__setattr__(self, "identity", f"paper-{self.path}@{digest(self.encoder, *parts, length=8)}")

    @property
    def dim(self) -> int:
        """Length of the encoder's vectors."""
        return len(self.weights["edge.second"])

    def score(self, candidates: Candidates) -> Step[NDArray[np.float64]]:
        """Return one score per candidate, without unit; an empty path counts as a zero vector.

        Raises:
            ParameterError: the vectors are not as long as those of the encoder it was trained with.
            CatenaError: the error of the embedder or the graph, where paths are embedded.
        """
        query = candidates.question.vector
        if len(query) != self.dim:
            raise ParameterError("length of the question's vector", len(query), f"{self.dim}, as by {self.encoder!r}")
        path = yield from self._path_vector(candidates)
        triples = np.stack([candidates.weight(kind) for kind in KINDS], axis=1)
        return network_scores(self.weights, query, path, candidates.nodes.vectors, triples)

    def for_encoder(self, identity: str) -> PaperScorer:
        """Return the scorer, if it may be given vectors of this embedder.

        Raises:
            ParameterError: it was trained with another one.
        """
        if not same_encoder(identity, self.encoder):
            allowed = f"{self.encoder!r}, with which the scorer was trained: embed the library with it, or train anew"
            raise ParameterError("embedder", identity, allowed)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it into one safetensors file.

        Raises:
            ParameterError: the file cannot be written.
        """
        said = {"encoder": self.encoder, "path": self.path, "record": dict(self.record)}
        write_weights(path, self.weights, {"format": _FORMAT, "version": _VERSION, **said})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PaperScorer:
        """Return the scorer that `save` wrote; nothing but numpy is needed.

        Raises:
            ParameterError: the file cannot be read, is damaged, of another format or a newer version.
        """
        arrays, said = read_weights(path, form=_FORMAT, version=_VERSION)
        encoder, how, record = said.get("encoder"), said.get("path"), said.get("record")
        if not isinstance(encoder, str) or not isinstance(how, str) or not isinstance(record, dict):
            raise ParameterError("file of weights", os.path.basename(path), "one that PaperScorer.save wrote")
        return cls(weights=arrays, encoder=encoder, path=cast("PathEncoding", how), record=record)

    def _path_vector(self, candidates: Candidates) -> Step[NDArray[np.float32]]:
        if not candidates.path.ids:
            return np.zeros(self.dim, dtype=np.float32)
        if self.path == "vectors":
            return unit_vector(candidates.path_mean)
        chunks = yield from chunks_known(candidates.path.ids)
        (rows,) = yield from ask([Embed(texts=(path_text(list(chunks.values())),))])
        vector: NDArray[np.float32] = np.asarray(rows[0], dtype=np.float32)
        return vector


def same_encoder(one: str, other: str) -> bool:
    """Compare two identities of encoders by the fingerprint after "@", whichever names they have."""
    if one == other:
        return True
    (_, mark, fingerprint), (_, _, of_other) = one.rpartition("@"), other.rpartition("@")
    return bool(mark and "@" in other and fingerprint == of_other)


def node_text(chunk: Chunk) -> str:
    """Return the text of a node for an encoder: document title and headings on a line of their own, then the text.

    A title with which the text begins is left out.
    """
    titles = dict.fromkeys(title for title in (str(chunk.metadata.get(TITLE, "")), *chunk.path) if title.strip())
    head = " > ".join(title for title in titles if not chunk.text.lstrip("# ").startswith(title))
    return f"{head}\n{chunk.text}" if head else chunk.text


def path_text(chunks: Sequence[Chunk]) -> str:
    """Return the text of a path for an encoder: the texts of its nodes, in order, an empty line between two."""
    return "\n\n".join(map(node_text, chunks))
