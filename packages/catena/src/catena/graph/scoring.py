"""Score the ways on from a path: what a scorer sees and returns, three scorers, and the file of a trained one.

`SimilarityScorer` needs vectors alone; `UntrainedScorer` weighs thirteen `features` by hand; `FeatureScorer` is a
small trained network over them. The scorer of the IIER paper is `catena.graph.paper_scorer.PaperScorer`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import inf, isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np
from annotated_types import Ge, Lt
from numpy.typing import NDArray

from catena.effects import CountWords, Step, ask, guarded
from catena.model.errors import ParameterError
from catena.model.ids import digest
from catena.model.neighbourhood import MENTION, MENTIONED, NAME, SEMANTIC, STRUCTURAL, Nodes, WordCounts
from catena.model.options import Checked, check_options
from catena.text.stems import language_of, telling
from catena.text.words import tokenise, word_key


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WalkQuestion:
    """A question, in the forms in which nodes are compared with it.

    Attributes:
        text: as typed.
        vector: of unit length, shape (dim,), float32, by the embedder of the graph's nodes.
        words: distinct, in order, as `catena.text.words.word_keys` gives them; columns of `Nodes.counts`.
        holding: in how many nodes of the graph each word is, shape (words,), int64.
        nodes: of the graph.
        mean_length: words of a node of the graph, on average.
        keywords: that seeds have to cover, as `catena.graph.search` finds them; none where no seed is sought by
            them.
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
        question: of the walk.
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

    question: WalkQuestion
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
    """Score how well each candidate goes on: the higher the better, in a unit of its own.

    It is a step, so it may ask a model. Scores of one walk are compared with each other, and with nothing else.
    """

    @property
    def identity(self) -> str:
        """Name and version: scores of different identities are never compared."""
        ...

    def score(self, candidates: Candidates) -> Step[NDArray[np.float64]]:
        """Return one finite score per row, shape (m,), float64."""
        ...


def scores_by(scorer: Scorer, candidates: Candidates) -> Step[NDArray[np.float64]]:
    """Return the scores of candidates by any scorer, checked; errors name the scorer.

    Raises:
        ParameterError: it is no step, or gives something else than one finite number per candidate.
        ServiceError: its code raised an error that is none of ours.
        CatenaError: an error of ours that its code let through.
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
class SimilarityScorer(Checked):
    """Untrained: `score = cos(q + share * mean(path), node)`; edges say where to go, and nothing else.

    Attributes:
        share: of the path against the question, >= 0; 0 looks at the question alone.
    """

    share: Annotated[float, Ge(0), Lt(inf)] = 0.5

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


def pose(text: str, vector: NDArray[np.float32], *, keywords: Sequence[str] = ()) -> Step[WalkQuestion]:
    """Return the question with the counts of its words in the graph.

    Args:
        text: as typed.
        vector: its embedding, of unit length, shape (dim,).
        keywords: that seeds are to cover.

    Raises:
        CatenaError: the error of the graph.
    """
    said = tokenise(text)
    words = tuple(dict.fromkeys(map(word_key, telling(said, language_of(said, fewest=1)))))
    counts: WordCounts
    (counts,) = yield from ask([CountWords(words=words)])
    return WalkQuestion(
        text=text,
        vector=np.asarray(vector, dtype=np.float32),
        words=words,
        holding=np.array(counts.holding, dtype=np.int64),
        nodes=counts.nodes,
        mean_length=counts.mean_length,
        keywords=tuple(keywords),
    )


FEATURES = (
    "question",
    "path",
    "rest",
    "structural",
    "semantic",
    "name",
    "mention",
    "mentioned",
    "covered",
    "words",
    "new_matches",
    "title",
    "ranked",
)
"""Names of the columns, in order, which `features` defines."""

_TOP = 20  # ranks that count as found by the first ranking
_NAMES = 5.0  # sum of rarities above which names say no more
_K1, _B = 1.2, 0.75  # of BM25, as the lexical route has them
_GONE = 0.5  # how much of the path is taken from the question to give its rest
_LEAST_SPREAD = 1e-3  # of cosines; below it they are equal


def features(candidates: Candidates) -> NDArray[np.float32]:
    """Return one row of features per candidate n, reached from the node p of the path, shape (m, 13), float32.

    With q the question, m the mean of the path's vectors made a unit vector, W the words of the question and
    `idf(w) = ln(1 + (N - df(w) + 1/2) / (df(w) + 1/2))` over the N nodes of the graph, U the words of W that no node
    of the path holds, and `bm25(w, n)` with k1 = 1.2 and b = 3/4:

    - question, path, rest: `cos(q, n)`, `cos(m, n)`, `cos(q - m/2, n)`, each less its mean over the candidates and
      over its spread there, so that embedders with narrow and with wide cosines look alike;
    - structural, semantic: 1 where the edge from p to n is of that kind;
    - name: weight of that edge, at most 5, over 5; mention, mentioned: weights of that edge;
    - covered: `sum of idf(w) over w in W and in n / sum of idf(w) over W`; where an edge joins the two, w in n or p:
      a passage and the next one answer a question of two hops together;
    - words, new_matches: `sum of idf(w) bm25(w, n) / (k1 + 1) / sum of idf(w)`, the first sum over W, or over U;
    - title: share of the words of n's titles that are words of the question;
    - ranked: 1 where n is among the first 20 of the first ranking.

    Where the path is empty, m is 0 and U is W.
    """
    question, path, rows = candidates.question, candidates.path, candidates.rows
    idf = idf_of(question)
    open_idf = idf * ~path.counts.any(axis=0)
    by_node = _of_nodes(candidates, idf, open_idf)[:, rows]
    columns = np.empty((len(FEATURES), len(rows)), dtype=np.float32)  # one after the other: numpy is quicker so
    columns[:3] = _standardised(by_node[:3])
    columns[3] = candidates.weight(STRUCTURAL) > 0
    columns[4] = candidates.weight(SEMANTIC) > 0
    columns[5] = np.minimum(candidates.weight(NAME), _NAMES) / _NAMES
    columns[6] = candidates.weight(MENTION)
    columns[7] = candidates.weight(MENTIONED)
    columns[8] = _covered(candidates, idf)
    columns[9:12] = by_node[3:]
    columns[12] = (candidates.ranks >= 1) & (candidates.ranks <= _TOP)
    return columns.T


def _of_nodes(candidates: Candidates, idf: NDArray[np.float32], open_idf: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the features of distinct nodes without any edge: three cosines, then those of words, shape (6, n)."""
    question, nodes = candidates.question, candidates.distinct
    mean = unit_vector(candidates.path.vectors.sum(axis=0))
    towards = np.array([question.vector, mean, unit_vector(question.vector - _GONE * mean)])
    shares = np.array([idf, open_idf]) / (idf.sum() or np.float32(1.0))
    counts = nodes.counts.T.astype(np.float32)
    length = _K1 * (1.0 - _B) + (_K1 * _B / (question.mean_length or 1.0)) * nodes.lengths
    saturated = counts / (counts + np.float32(1e-9) + length.astype(np.float32))
    of_nodes = np.empty((6, len(nodes.ids)), dtype=np.float32)
    of_nodes[:3] = towards @ nodes.vectors.T
    of_nodes[3:5] = shares @ saturated
    of_nodes[5] = np.minimum(nodes.in_title.sum(axis=1) / np.maximum(nodes.title_lengths, 1), 1.0)
    return of_nodes


def _covered(candidates: Candidates, idf: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the share of the question's words, by rarity, that a node and the one its edge came from hold."""
    held = candidates.distinct.counts[candidates.rows] > 0
    joined = (candidates.weights > 0).any(axis=1)
    if joined.any():
        held[joined] |= candidates.path.counts[candidates.froms[joined]] > 0
    return np.asarray(held @ (idf / (idf.sum() or np.float32(1.0))), dtype=np.float32)


@lru_cache(maxsize=64)  # of one question it is wanted at each hop
def idf_of(question: WalkQuestion) -> NDArray[np.float32]:
    """Return the rarity of each word of the question, shape (words,); 0 for a word that no node holds."""
    holding = question.holding
    rarity = np.log1p((question.nodes - holding + 0.5) / (holding + 0.5))
    idf = np.where(holding > 0, rarity, 0.0).astype(np.float32)
    idf.flags.writeable = False
    return idf


def unit_vector(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a vector with length 1; a zero vector as it is."""
    length = float(np.sqrt(vector @ vector))
    return vector / np.float32(length) if length else vector


def _standardised(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return each row less its mean and over its spread; where all are equal, zeros."""
    count = np.float32(max(cosines.shape[1], 1))
    centred: NDArray[np.float32] = cosines - (cosines.sum(axis=1) / count)[:, None]
    spread = np.sqrt((centred * centred).sum(axis=1) / count)
    spread[spread < _LEAST_SPREAD] = np.inf
    centred /= spread[:, None]
    return centred


BY_HAND: Mapping[str, float] = MappingProxyType(
    {
        "question": 0.12,  # per spread of the cosines
        "name": 0.2,
        "mention": 0.3,
        "mentioned": 0.1,
        "covered": 1.2,
        "words": 0.5,
        "ranked": 0.1,
    }
)
"""Set by judgement on training questions, after a prototype that was tested on others; see docs/decisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UntrainedScorer:
    """`score = sum over the features f of weight(f) * f(candidate)`.

    Attributes:
        weights: by name of `FEATURES`; a feature that is not named weighs 0.

    Raises:
        ParameterError: a name is no feature, or a weight is not finite.
    """

    weights: Mapping[str, float] = field(default_factory=lambda: BY_HAND, hash=False)

    def __post_init__(self) -> None:
        check_options(self)
        unknown = sorted(set(self.weights) - set(FEATURES), key=str)
        if unknown:
            raise ParameterError("weights", unknown, f"by names among {', '.join(FEATURES)}")
        for name, weight in self.weights.items():
            if not isinstance(weight, int | float) or not isfinite(weight):
                raise ParameterError(f"weights[{name!r}]", weight, "a finite number")
        object.__setattr__(self, "weights", dict(self.weights))

    @property
    def identity(self) -> str:
        """Name and a hash of the weights."""
        return f"untrained@{digest(*(f'{name} {self.weights.get(name, 0.0)!r}' for name in FEATURES), length=8)}"

    def score(self, candidates: Candidates) -> Step[NDArray[np.float64]]:
        """Return the weighted sums, without unit."""
        yield from ()  # a step, though it has nothing to ask
        by_feature = np.array([self.weights.get(name, 0.0) for name in FEATURES])
        scores: NDArray[np.float64] = features(candidates).astype(np.float64) @ by_feature
        return scores


FEATURE_FORMAT, _VERSION = "catena-feature-scorer", 1
SHIPPED = Path(__file__).parents[1] / "data" / "walk_scorer" / "scorer.safetensors"
"""The scorer that comes with the package; the card beside it says what it was trained on and what it reaches."""

_ARRAYS = ("hidden", "bias", "out", "mean", "spread")


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureScorer:
    """`score = mean over the networks e of out_e . tanh(hidden_e^T z + bias_e)`, z = (features - mean) / spread.

    Attributes:
        weights: `hidden` (networks, features, units), `bias` and `out` (networks, units), `mean` and `spread`
            (features,), float32.
        record: of its training data and options: any JSON object.

    Raises:
        ParameterError: an array is missing, of another shape, or not finite.
    """

    weights: Mapping[str, NDArray[np.float32]] = field(repr=False)
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)
    identity: str = field(init=False)

    def __post_init__(self) -> None:
        weights = _checked(self.weights)
        object.__setattr__(self, "weights", weights)
        parts = [part for name in _ARRAYS for part in (name, weights[name].tobytes())]
        object.__setattr__(self, "identity", f"features@{digest(*parts, length=8)}")

    @cached_property
    def _side_by_side(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float64]]:
        """Hidden, bias and out of one wide network that gives the mean of all of them, in one product."""
        networks, count, units = self.weights["hidden"].shape
        hidden = self.weights["hidden"].transpose(1, 0, 2).reshape(count, networks * units)
        return hidden, self.weights["bias"].reshape(-1), self.weights["out"].reshape(-1).astype(np.float64) / networks

    def score(self, candidates: Candidates) -> Step[NDArray[np.float64]]:
        """Return one score per candidate, without unit."""
        yield from ()  # a step, though it has nothing to ask
        return self.of_features(features(candidates))

    def of_features(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the score of each row of features, shape (m, features) to (m,).

        Equal rows score equally at any place, so that ties are ties: a matrix product does not promise that.
        """
        hidden, bias, out = self._side_by_side
        units = np.einsum("mf,fu->mu", (rows - self.weights["mean"]) / self.weights["spread"], hidden)
        units += bias
        scores: NDArray[np.float64] = np.einsum("mu,u->m", np.tanh(units, out=units).astype(np.float64), out)
        return scores

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it into one safetensors file.

        Raises:
            ParameterError: the file cannot be written.
        """
        said = {"format": FEATURE_FORMAT, "version": _VERSION, "features": list(FEATURES)}
        write_weights(path, self.weights, {**said, "record": dict(self.record)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FeatureScorer:
        """Return the scorer that `save` wrote.

        Raises:
            ParameterError: the file cannot be read, is damaged, of another format, or of other features.
        """
        arrays, said = read_weights(path, form=FEATURE_FORMAT, version=_VERSION)
        if said.get("features") != list(FEATURES) or not isinstance(said.get("record"), dict):
            raise ParameterError("file of weights", Path(path).name, "one of the features of this version of Catena")
        return cls(weights=arrays, record=said["record"])

    @classmethod
    def shipped(cls) -> FeatureScorer:
        """Return the scorer that comes with the package, trained by us; see `catena/data/walk_scorer/README.md`."""
        return _shipped()


@lru_cache(maxsize=1)
def _shipped() -> FeatureScorer:
    return FeatureScorer.load(SHIPPED)


def _checked(weights: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Return the arrays in their one type, of shapes that fit each other."""
    missing = [name for name in _ARRAYS if name not in weights]
    if missing:
        raise ParameterError("weights", sorted(weights), f"also {', '.join(missing)}")
    arrays = {name: np.ascontiguousarray(weights[name], dtype=np.float32) for name in _ARRAYS}
    count = len(FEATURES)
    networks, units = arrays["bias"].shape if arrays["bias"].ndim == 2 else (0, 0)
    wanted = {
        "hidden": (networks, count, units),
        "bias": (networks, units),
        "out": (networks, units),
        "mean": (count,),
        "spread": (count,),
    }
    for name, shape in wanted.items():
        if arrays[name].shape != shape or 0 in shape or not np.isfinite(arrays[name]).all():
            raise ParameterError(f"weights[{name!r}]", arrays[name].shape, f"finite, of shape {shape}")
    if not (arrays["spread"] > 0).all():
        raise ParameterError("weights['spread']", float(arrays["spread"].min()), "above 0")
    return arrays


_KEY = "catena"  # safetensors writes several keys in no fixed order


def write_weights(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[np.generic]], said: Mapping[str, Any]
) -> None:
    """Write arrays and a JSON object into one safetensors file, which replaces the old one when it is complete.

    Equal contents give equal bytes.

    Raises:
        ParameterError: the file cannot be written, or the object is no JSON; the file before is kept.
    """
    from safetensors.numpy import save

    target = Path(path)
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        text = json.dumps(said, sort_keys=True, allow_nan=False)
        kept = {name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)}
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(save(kept, {_KEY: text}))
        os.replace(draft, target)
    except (OSError, TypeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ParameterError("file of weights", f"{target.name} ({reason})", "one that can be written") from None
    finally:
        with suppress(OSError):
            draft.unlink()


def read_weights(
    path: str | os.PathLike[str], *, form: str, version: int
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read the arrays and the JSON object that `write_weights` wrote.

    Args:
        path: of the file.
        form: the "format" that the object must have.
        version: the newest that can be read; the object says its own under "version".

    Raises:
        ParameterError: the file cannot be read, is damaged or of another format, or of a newer version.
    """
    name = Path(path).name
    arrays, said = _read(path)
    if said.get("format") != form:
        raise ParameterError("file of weights", name, f"of the format {form!r}")
    found = said.get("version")
    if not isinstance(found, int) or not 1 <= found <= version:
        raise ParameterError("file of weights", f"{name} of version {found!r}", f"of version {version} or before")
    return arrays, said


def form_of(path: str | os.PathLike[str]) -> str:
    """Return the format of a file that `write_weights` wrote; "" if it has none.

    Raises:
        ParameterError: the file cannot be read, or is damaged.
    """
    form = _read(path)[1].get("format")
    return form if isinstance(form, str) else ""


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            said: Any = json.loads((file.metadata() or {}).get(_KEY, "null"))
            arrays = {key: file.get_tensor(key) for key in sorted(file.keys())}
    except (OSError, SafetensorError, ValueError, RecursionError, TypeError) as error:
        reason = "there is none" if isinstance(error, FileNotFoundError) else type(error).__name__
        allowed = "one that can be read and was written whole"
        raise ParameterError("file of weights", f"{Path(path).name} ({reason})", allowed) from None
    return arrays, said if isinstance(said, dict) else {}
