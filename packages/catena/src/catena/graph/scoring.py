"""What a walk shows a scorer, what it expects back, and the scorer that needs nothing but vectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

import numpy as np
from annotated_types import Ge, Lt

from catena.effects.foreign_steps import guarded
from catena.effects.steps import CountWords, Step, ask
from catena.model.errors import ParameterError
from catena.model.options import check_options
from catena.text.words import word_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from catena.model.neighbourhood import Nodes, WordCounts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """What is asked, in the forms in which nodes are compared with it.

    Attributes:
        text: as typed.
        vector: of unit length, shape (dim,), float32, by the embedder of the graph's nodes.
        words: distinct, in order, as `catena.text.words.word_keys` gives them; columns of `Nodes.counts`.
        holding: in how many nodes of the graph each word is, shape (words,), int64.
        nodes: of the graph.
        mean_length: words of a node of the graph, on average.
        keywords: what seeds have to cover, as `catena.graph.keyword_seeds` finds them; none where no seed is
            sought by them.
    """

    text: str
    vector: NDArray[np.float32]
    words: tuple[str, ...]
    holding: NDArray[np.int64]
    nodes: int
    mean_length: float
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """m ways to go on, each from one node of the path to one node that is not on it; a node may be in several rows.

    Attributes:
        question: what is asked.
        path: the nodes chosen so far, in order, seed first; none while seeds are scored.
        distinct: the nodes to which rows lead, each once, and perhaps others; `counts` are of `question.words`.
        rows: the place in `distinct` of the node of row i, shape (m,).
        froms: the place in `path` from which row i goes on, shape (m,), int32; -1 while the path is empty.
        kinds: of edges, sorted: the columns of `weights`.
        weights: of the edge from `path[froms[i]]` to the node, 0 where a kind does not join the two, shape
            (m, kinds), float32; a candidate that was taken from the first ranking may have no edge at all.
        ranks: the node's place in the first ranking, from 1; 0 where it is not in it; shape (m,), int32.
        lexical: score of the lexical route in the first ranking over the best one there, in [0, 1]; 0 where
            unknown; shape (m,), float32.
        dense: cosine by the dense route of the first ranking; 0 where unknown; shape (m,), float32.
    """

    question: Question
    path: Nodes
    distinct: Nodes
    rows: NDArray[np.intp]
    froms: NDArray[np.int32]
    kinds: tuple[str, ...]
    weights: NDArray[np.float32]
    ranks: NDArray[np.int32]
    lexical: NDArray[np.float32]
    dense: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.froms)

    def weight(self, kind: str) -> NDArray[np.float32]:
        """Return the weights of one kind of edge, shape (m,); zeros where the graph has no such kind."""
        if kind not in self.kinds:
            return np.zeros(len(self), dtype=np.float32)
        return self.weights[:, self.kinds.index(kind)]

    @cached_property
    def nodes(self) -> Nodes:
        """The nodes of all rows, in order, so that an id may be there twice; a copy that `distinct` does without."""
        return self.distinct.take(self.rows)

    @cached_property
    def path_mean(self) -> NDArray[np.float32]:
        """The mean of the path's vectors, shape (dim,); zeros where the path is empty."""
        if not self.path.ids:
            return np.zeros_like(self.question.vector)
        mean: NDArray[np.float32] = self.path.vectors.mean(axis=0, dtype=np.float32)
        return mean


@runtime_checkable
class Scorer(Protocol):
    """Says how well each candidate goes on: the higher the better, in a unit of its own.

    It is a step, so it may ask a model. Scores of one walk are compared with each other, and with nothing else.
    """

    @property
    def identity(self) -> str:
        """What it is and which version: scores of different identities are never compared."""
        ...

    def score(self, candidates: Candidates) -> Step[NDArray[np.float64]]:
        """Return one finite score per row, shape (m,), float64."""
        ...


def scores_by(scorer: Scorer, candidates: Candidates) -> Step[NDArray[np.float64]]:
    """Return what anybody's scorer says of candidates; what goes wrong in its code has its name.

    Raises:
        ParameterError: it is no step, or gives something else than one finite number per candidate.
        ServiceError: its code raised an error that is none of ours.
        CatenaError: what its code let out of ours.
    """
    name = f"scorer {scorer.identity}"
    given = yield from guarded(lambda: scorer.score(candidates), name)
    try:
        scores = np.asarray(given)
    except ValueError:  # rows of several lengths
        scores = np.empty(0, dtype=np.object_)
    if scores.dtype.kind not in "biuf":
        got = f"a {type(given).__name__} of something else"
    elif scores.shape != (len(candidates),):
        got = f"the shape {scores.shape}"
    elif np.isfinite(scores).all():
        return scores.astype(np.float64)
    else:
        got = "NaN or infinity"
    raise ParameterError(f"what {name} gives", got, f"{len(candidates)} finite numbers")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityScorer:
    """Untrained: `score = cos(q + share * mean(path), node)`; edges say where to go, and nothing else.

    Attributes:
        share: of the path against the question, >= 0; 0 looks at the question alone.
    """

    share: Annotated[float, Ge(0), Lt(inf)] = 0.5

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def identity(self) -> str:
        """Name and parameter."""
        return f"similarity-{self.share:g}"

    def score(self, candidates: Candidates) -> Step[NDArray[np.float64]]:
        """Return the cosines, in [-1, 1]; 0 for a node without a vector."""
        yield from ()  # a step, though it has nothing to ask
        towards = candidates.question.vector + self.share * candidates.path_mean
        length = float(np.linalg.norm(towards))
        cosines = candidates.distinct.vectors @ towards / (length or 1.0)
        return cosines[candidates.rows].astype(np.float64)


def pose(text: str, vector: NDArray[np.float32], *, keywords: Sequence[str] = ()) -> Step[Question]:
    """Return the question with what the graph knows of its words.

    Args:
        text: as typed.
        vector: its embedding, of unit length, shape (dim,).
        keywords: what seeds are to cover.

    Raises:
        CatenaError: whatever the graph fails with.
    """
    words = tuple(dict.fromkeys(word_keys(text)))
    counts: WordCounts
    (counts,) = yield from ask([CountWords(words=words)])
    return Question(
        text=text,
        vector=np.asarray(vector, dtype=np.float32),
        words=words,
        holding=np.array(counts.holding, dtype=np.int64),
        nodes=counts.nodes,
        mean_length=counts.mean_length,
        keywords=tuple(keywords),
    )
