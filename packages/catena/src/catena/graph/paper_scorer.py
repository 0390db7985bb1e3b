"""The paper's scorer: question, path and neighbour by one encoder, the edge by a small network, one score by another.

The encoder is the one of the vectors that the graph holds and questions are given: the embedder of the library. An
encoder that was fine-tuned with the scorer is used by making it that embedder, `SentenceTransformerEmbedder(folder)`,
and by embedding the library with it; there is no second model to load, and no vector of one compared with another's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import numpy as np

from catena.effects.steps import Embed, FetchById, Step, ask
from catena.graph.paper_network import KINDS, checked_weights, network_scores
from catena.graph.weights_file import read_weights, write_weights
from catena.model.errors import ParameterError
from catena.model.ids import digest
from catena.model.places import TITLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from catena.graph.scoring import Candidates
    from catena.model import Chunk

FORMAT, VERSION = "catena-paper-scorer", 1

PathEncoding: TypeAlias = Literal["vectors", "texts"]
"""How the nodes of a path become one vector: the mean of theirs, or the embedding of their texts, joined."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PaperScorer:
    """`score = f_n(E_query, E_path, E_neighbour, f_r(W_struc, W_sim, W_keyword))`, trained.

    Attributes:
        weights: of both networks, as `catena.graph.paper_network.shapes` says.
        encoder: identity of the embedder of the questions' and nodes' vectors.
        path: "texts" embeds the texts of the path, joined in order, as the paper does: one request to the embedder a
            hop. "vectors" takes the mean of the nodes' vectors, made a unit vector, and asks nobody: what training
            with a frozen encoder takes by default.
        record: what it was trained on and how: anything that JSON can say.

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
            CatenaError: whatever the embedder or the graph fails with, where paths are embedded.
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
        write_weights(path, self.weights, {"format": FORMAT, "version": VERSION, **said})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PaperScorer:
        """Return what `save` wrote; nothing but numpy is needed.

        Raises:
            ParameterError: the file cannot be read, is damaged, of another format or a newer version.
        """
        arrays, said = read_weights(path, form=FORMAT, version=VERSION)
        encoder, how, record = said.get("encoder"), said.get("path"), said.get("record")
        if not isinstance(encoder, str) or not isinstance(how, str) or not isinstance(record, dict):
            raise ParameterError("file of weights", os.path.basename(path), "one that PaperScorer.save wrote")
        return cls(weights=arrays, encoder=encoder, path=cast("PathEncoding", how), record=record)

    def _path_vector(self, candidates: Candidates) -> Step[NDArray[np.float32]]:
        if not candidates.path.ids:
            return np.zeros(self.dim, dtype=np.float32)
        if self.path == "vectors":
            return unit(candidates.path_mean)
        (chunks,) = yield from ask([FetchById(chunk_ids=candidates.path.ids)])
        (rows,) = yield from ask([Embed(texts=(path_text([chunk for chunk in chunks if chunk is not None]),))])
        vector: NDArray[np.float32] = np.asarray(rows[0], dtype=np.float32)
        return vector


def same_encoder(one: str, other: str) -> bool:
    """Return whether two identities name one encoder: by the fingerprint after "@", whatever their names."""
    if one == other:
        return True
    (_, mark, fingerprint), (_, _, of_other) = one.rpartition("@"), other.rpartition("@")
    return bool(mark and "@" in other and fingerprint == of_other)


def unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a vector with length 1; a zero vector as it is."""
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length > 0 else vector


def node_text(chunk: Chunk) -> str:
    """Return what an encoder reads of a node: document title and headings on a line of their own, then the text.

    What the text begins with anyway is not said twice.
    """
    titles = dict.fromkeys(title for title in (str(chunk.metadata.get(TITLE, "")), *chunk.path) if title.strip())
    head = " > ".join(title for title in titles if not chunk.text.lstrip("# ").startswith(title))
    return f"{head}\n{chunk.text}" if head else chunk.text


def path_text(chunks: Sequence[Chunk]) -> str:
    """Return what an encoder reads of a path: the texts of its nodes, in order, an empty line between two."""
    return "\n\n".join(map(node_text, chunks))
