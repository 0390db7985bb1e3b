"""Soft clusters of vectors, as RAPTOR makes them: fewer dimensions, a Gaussian mixture, first global, then local."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import numpy as np
from annotated_types import Ge, Le, Lt
from numpy.typing import NDArray

from catena.model.errors import MissingExtraError, ParameterError
from catena.model.options import check_options

Matrix: TypeAlias = NDArray[np.float64]
Members: TypeAlias = tuple[int, ...]
Reduce: TypeAlias = Literal["pca", "umap"]

_LOCAL_NEIGHBOURS = 10  # of UMAP inside a global cluster; globally they are the root of the number of vectors
_DIGITS = 6  # what differs by less differs by the order in which a machine sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """How vectors are put into clusters; the values are those of RAPTOR's reference.

    Attributes:
        reduce: "pca" takes the first principal components; "umap" is the reference's way (extra `umap`): it takes
            seconds to load, and more to compile.
        dimensions: left by it; as few vectors as these and one more are one cluster.
        components: of a mixture, at most; the number with the least BIC is taken.
        threshold: a vector belongs to every cluster whose probability given the vector is above this, and to the
            likeliest in any case; in [0, 1].
        tokens: of the texts of a cluster together; a longer one is divided again.
        seed: of the mixture and of UMAP.
    """

    reduce: Reduce = "pca"
    dimensions: Annotated[int, Ge(1)] = 10
    components: Annotated[int, Ge(1)] = 50
    threshold: Annotated[float, Ge(0), Le(1)] = 0.1
    tokens: Annotated[int, Ge(1)] = 3_500
    seed: Annotated[int, Ge(0), Lt(2**32)] = 224

    def __post_init__(self) -> None:
        check_options(self)


def clusters(rows: NDArray[np.floating], sizes: Sequence[int], how: Clustering | None = None) -> tuple[Members, ...]:
    """Return clusters that together hold every vector; one vector may be in several.

    The vectors are clustered, and those of each cluster once more. A cluster whose texts are too long together is
    divided in the same way; where that leaves it whole, it is cut into runs that are short enough, in order.

    It computes for seconds with hundreds of vectors, for minutes with thousands, without asking anybody in between:
    an event loop under `arun` waits for it.

    Args:
        rows: shape (n, dim); only their directions count.
        sizes: n, tokens of each text; one that is too long alone is a cluster of its own where it must be.
        how: the parameters.

    Returns:
        Places of rows, 0-based, ascending in each cluster; the clusters in order of their members, none twice.

    Raises:
        ParameterError: there are not as many sizes as rows, or a vector holds NaN or infinity.
        MissingExtraError: scikit-learn or UMAP is not installed.

    Source: Sarthi et al., RAPTOR, arXiv:2401.18059, section 3, and its reference's `cluster_utils`.
    """
    how = how or Clustering()
    unit = _unit_rows(rows)
    if len(sizes) != len(unit):
        raise ParameterError("sizes", f"{len(sizes)} numbers", f"one for each of {len(unit)} vectors")
    if not len(unit):
        return ()
    found: set[Members] = set()
    everything: Members = tuple(range(len(unit)))
    pending, seen = [everything], {everything}
    while pending:
        whole = pending.pop()
        for part in _divided(unit, whole, how):
            if sum(sizes[place] for place in part) <= how.tokens:
                found.add(part)
            elif len(part) == len(whole):
                found.update(_runs(part, sizes, how.tokens))
            elif part not in seen:
                seen.add(part)
                pending.append(part)
    return tuple(sorted(found))


def _unit_rows(rows: NDArray[np.floating]) -> Matrix:
    given = np.asarray(rows, dtype=np.float64)
    if given.ndim != 2:
        raise ParameterError("rows", f"shape {given.shape}", "of shape (n, dim)")
    if not np.isfinite(given).all():
        raise ParameterError("rows", "a vector with NaN or infinity", "finite numbers")
    largest = np.abs(given).max(axis=1, keepdims=True, initial=0.0)
    scaled = given / np.where(largest > 0, largest, 1.0)  # squares of huge or tiny numbers would be infinite or 0
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    return _rounded(scaled / np.where(lengths > 0, lengths, 1.0))


def _rounded(values: NDArray[np.floating]) -> Matrix:
    return np.asarray(np.round(values.astype(np.float64), _DIGITS), dtype=np.float64)


def _divided(rows: Matrix, members: Members, how: Clustering) -> Iterator[Members]:
    """Yield the local clusters in the global clusters of the members, or these where they are few."""
    if len(members) <= how.dimensions + 1:
        yield members
        return
    for group in _mixture_groups(rows, members, int((len(members) - 1) ** 0.5), how):
        if len(group) <= how.dimensions + 1:
            yield group
        else:
            yield from _mixture_groups(rows, group, _LOCAL_NEIGHBOURS, how)


def _runs(members: Members, sizes: Sequence[int], limit: int) -> Iterator[Members]:
    """Yield neighbours whose texts are short enough together, as many as go."""
    run: list[int] = []
    for place in members:
        if run and sum(sizes[each] for each in run) + sizes[place] > limit:
            yield tuple(run)
            run = []
        run.append(place)
    yield tuple(run)


def _mixture_groups(rows: Matrix, members: Members, neighbours: int, how: Clustering) -> Iterator[Members]:
    """Yield for each component of the best mixture the members that belong to it."""
    reduced = _reduced(rows[list(members)], neighbours, how)
    probabilities = _rounded(_probabilities(reduced, how))
    belongs = probabilities > how.threshold
    belongs[np.arange(len(members)), probabilities.argmax(axis=1)] = True  # else a vector might be nowhere
    for column in belongs.T:
        if column.any():
            yield tuple(members[place] for place in np.flatnonzero(column))


def _reduced(rows: Matrix, neighbours: int, how: Clustering) -> Matrix:
    """Return the rows in few dimensions, shape (n, at most n - 2)."""
    width = min(how.dimensions, len(rows) - 2, rows.shape[1])
    if how.reduce == "umap":
        return _umap(rows, width, neighbours, how.seed)
    try:
        from threadpoolctl import threadpool_limits  # comes with scikit-learn
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "raptor") from error
    with threadpool_limits(limits=1):  # sums of several threads come in any order
        _, _, axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        signs = np.where(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)] < 0, -1.0, 1.0)
        points = (rows - rows.mean(axis=0)) @ (axes * signs[:, None])[:width].T
    return _rounded(points)


def _umap(rows: Matrix, width: int, neighbours: int, seed: int) -> Matrix:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on loading, and on small sets
        try:
            from umap import UMAP
        except ImportError as error:
            raise MissingExtraError("umap-learn", "umap") from error
        model = UMAP(n_neighbors=max(2, neighbours), n_components=width, metric="cosine", random_state=seed, n_jobs=1)
        points = np.nan_to_num(np.asarray(model.fit_transform(rows)))  # NaN: a vector that is near no other
    return _rounded(points)


def _probabilities(rows: Matrix, how: Clustering) -> Matrix:
    """Return the probability of each component given each row, shape (n, components), by the mixture of least BIC."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "raptor") from error
    best, least = np.ones((len(rows), 1)), np.inf
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of equal vectors, which make fewer clusters than asked
        distinct = len(np.unique(rows, axis=0))  # equal vectors are one point, in one component
        for count in range(1, min(how.components, len(rows) - 1, distinct) + 1):
            try:
                model = GaussianMixture(n_components=count, random_state=how.seed).fit(rows)
            except ValueError:  # so many components leave one of them empty
                continue
            score = round(float(model.bic(rows)), _DIGITS)
            if score < least:
                best, least = np.asarray(model.predict_proba(rows), dtype=np.float64), score
    return best
