"""Vectors on a plane, for pictures: PCA by singular values, t-SNE by scikit-learn, both seeded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from catena.model.errors import EvaluationError, MissingExtraError, ParameterError

Method: TypeAlias = Literal["pca", "t-sne"]
Plane: TypeAlias = NDArray[np.float64]  # shape (n, 2)

FEWEST = 3  # points: of fewer, a plane shows nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Several sets of vectors on one plane, so that their pictures have the same axes.

    Attributes:
        points: by the name of the set, shape (n, 2).
        note: what a reader must know: the variance that the axes hold, or seed and perplexity.
    """

    method: Method
    points: Mapping[str, Plane] = field(repr=False, compare=False)
    note: str


def project(
    sets: Mapping[str, NDArray[np.floating]],
    *,
    method: Method = "pca",
    perplexity: float = 30.0,
    seed: int = 0,
) -> Projection:
    """Project all sets together onto one plane.

    - "pca": `X - mean = U S V^T`, the points are the first two columns of `U S`; the entry of V that is largest in
      size is positive in each column, since singular vectors have no sign of their own.
    - "t-sne": on cosine distances, started from PCA. Its distances are no evidence: neighbours are kept, lengths
      are not. Give numbers from `cohesion` beside it.

    Args:
        sets: by name, each of shape (n, dim) with one dim.
        method: as above.
        perplexity: of t-SNE, about the number of neighbours kept; lowered to a third of the points if these are few.
        seed: of t-SNE.

    Raises:
        ParameterError: the method is not known, or the perplexity is not above 0.
        EvaluationError: there are fewer than 3 vectors in all, their dims differ, or one is not finite.
        MissingExtraError: t-SNE without scikit-learn.
    """
    if method not in get_args(Method):
        raise ParameterError("method", method, f"one of {', '.join(get_args(Method))}")
    if not perplexity > 0:
        raise ParameterError("perplexity", perplexity, "a number above 0")
    stacked = _stacked(sets)
    if method == "pca":
        plane, shares = pca(stacked)
        note = f"PCA of {len(stacked):,} vectors; the axes hold {shares[0]:.0%} and {shares[1]:.0%} of the variance"
    else:
        fitting = min(perplexity, max(1.0, (len(stacked) - 1) / 3))
        plane = _t_sne(stacked, fitting, seed)
        note = (
            f"t-SNE of {len(stacked):,} vectors (cosine, perplexity {fitting:.3g}, seed {seed}); lengths say nothing"
        )
    cuts = np.cumsum([len(rows) for rows in sets.values()])[:-1]
    return Projection(method=method, points=dict(zip(sets, np.split(plane, cuts), strict=True)), note=note)


def pca(rows: NDArray[np.floating]) -> tuple[Plane, tuple[float, float]]:
    """Return the rows on their first two principal axes, and the share of the variance that each axis holds."""
    centred = np.asarray(rows, dtype=np.float64)
    centred = centred - centred.mean(axis=0)
    left, sizes, right = np.linalg.svd(centred, full_matrices=False)
    left, sizes, right = (_padded(part) for part in (left.T, sizes, right))
    signs = np.where(right[np.arange(2), np.abs(right[:2]).argmax(axis=1)] < 0, -1.0, 1.0)
    plane = (left[:2] * (sizes[:2] * signs)[:, None]).T
    total = float((sizes**2).sum())
    shares = sizes[:2] ** 2 / total if total else np.zeros(2)
    return np.ascontiguousarray(plane), (float(shares[0]), float(shares[1]))


def _padded(part: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return at least two entries: vectors of one dimension have a second axis on which they do not differ."""
    missing = 2 - len(part)
    return part if missing <= 0 else np.concatenate([part, np.zeros((missing, *part.shape[1:]))])


def _stacked(sets: Mapping[str, NDArray[np.floating]]) -> NDArray[np.float64]:
    rows = [np.asarray(part, dtype=np.float64) for part in sets.values()]
    if any(part.ndim != 2 for part in rows) or len({part.shape[1] for part in rows}) > 1:
        raise EvaluationError(f"the sets must be matrices of one width, got {[part.shape for part in rows]}")
    if sum(map(len, rows)) < FEWEST:
        raise EvaluationError(f"a plane needs at least {FEWEST} vectors, got {sum(map(len, rows))}")
    stacked = np.concatenate(rows)
    if not np.isfinite(stacked).all():
        raise EvaluationError("a vector holds NaN or infinity")
    return stacked


def _t_sne(rows: NDArray[np.float64], perplexity: float, seed: int) -> Plane:
    try:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits  # comes with scikit-learn
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "eval") from error
    start, _ = pca(rows)
    spread = float(start[:, 0].std())
    start = start * (1e-4 / spread) if spread else start  # the size that the method's authors start from
    model = TSNE(perplexity=perplexity, metric="cosine", init=start, random_state=seed, n_jobs=1)
    with threadpool_limits(limits=1):  # sums of several threads come in any order, and small sets only wait
        return np.asarray(model.fit_transform(rows), dtype=np.float64)
