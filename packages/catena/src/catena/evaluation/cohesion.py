"""Whether texts of one document, or of one kind of section, stand together: numbers for HiQA's pictures.

Distances are cosine: `1 - <a, b>` of unit vectors, in [0, 2].
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from catena.effects import Step
from catena.evaluation.closeness import normalised, unit_rows
from catena.model import Entry
from catena.model.errors import EvaluationError, ParameterError
from catena.text.words import folded

Matrix: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = Sequence[str | None]

_BLOCK = 1024  # rows compared with all others at a time
_SAME = 1e-9  # inner products this near are one: equal texts differ by roundings only


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohesion:
    """How well labelled vectors stand in groups; unlabelled ones are not counted anywhere.

    Attributes:
        n: labelled vectors; n_groups: their different labels; n_alone: vectors whose label no other one has.
        within: mean distance of two vectors of one group; None if no group has two.
        between: mean distance of two vectors of different groups; None for a single group.
        silhouette: mean of `(b - a) / max(a, b)`, with a the mean distance to the own group and b that to the nearest
            other one; in [-1, 1], 0 for a vector alone in its group; None for a single group.
        purity: mean share of the own group among the nearest neighbours (several where they are equally near), over
            the vectors that have a mate; None without any.
        p: of the permutation test that labels say nothing: `(c + 1) / (rounds + 1)`, c shuffles of the labels whose
            groups are at least as tight (mean distance within); None where `within` or `between` is.
    """

    n: int
    n_groups: int
    n_alone: int
    within: float | None
    between: float | None
    silhouette: float | None
    purity: float | None
    p: float | None
    rounds: int

    def __str__(self) -> str:
        def shown(value: float | None, form: str = ".3f") -> str:
            return "undefined" if value is None else format(value, form)

        return (
            f"silhouette {shown(self.silhouette)}, neighbour purity {shown(self.purity)}, distance within "
            f"{shown(self.within)}, between {shown(self.between)}, p {shown(self.p, '.4f')} "
            f"({self.n} texts, {self.n_groups} groups)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CohesionStudy:
    """The same pieces written in several ways, each way embedded and measured.

    Attributes:
        labels: the group of each piece; None for one that is only background.
        measures: by the name of the way.
        vectors: by the same names, unit rows, shape (n, dim).
    """

    labels: tuple[str | None, ...]
    measures: Mapping[str, Cohesion] = field(hash=False)
    vectors: Mapping[str, Matrix] = field(repr=False, compare=False)


def cohesion(vectors: NDArray[np.floating], labels: Labels, *, rounds: int = 999, seed: int = 0) -> Cohesion:
    """Measure how well vectors stand in groups.

    Args:
        vectors: shape (n, dim), of any length: they are brought to unit length.
        labels: one per vector; None leaves it out.
        rounds: shuffles of the labels.
        seed: of the shuffles.

    Raises:
        EvaluationError: there are not as many labels as vectors, none is labelled, or a number is not finite.
        ParameterError: rounds is below 1.

    Source: Rousseeuw 1987 for the silhouette; HiQA, arXiv:2402.01767, section 4, draws pictures without numbers.
    """
    if rounds < 1:
        raise ParameterError("rounds", rounds, "1 or more")
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != len(labels):
        raise EvaluationError(f"vectors of shape {rows.shape} and {len(labels)} labels: one label for each row")
    if not np.isfinite(rows).all():
        raise EvaluationError("a vector holds NaN or infinity")
    kept = [place for place, label in enumerate(labels) if label is not None]
    if not kept:
        raise EvaluationError("no vector is labelled")
    names = {label: number for number, label in enumerate(sorted({str(labels[place]) for place in kept}))}
    groups = np.asarray([names[str(labels[place])] for place in kept])
    return _measured(normalised(rows[kept]), groups, len(names), rounds, seed)


def study(
    ways: Mapping[str, Sequence[str]], labels: Labels, *, rounds: int = 999, seed: int = 0
) -> Step[CohesionStudy]:
    """Embed the same pieces written in several ways, and measure each way under the same labels.

    Args:
        ways: texts by the name of the way, e.g. from `texts_of`; one text per label in each.
        labels: e.g. from `document_labels` or `homologous_labels`.
        rounds: as in `cohesion`.
        seed: as in `cohesion`.

    Raises:
        EvaluationError: a way has not one text per label, or nothing is labelled.
        ServiceError: the embedder failed.
    """
    for name, texts in ways.items():
        if len(texts) != len(labels):
            raise EvaluationError(f"{name!r} has {len(texts)} texts for {len(labels)} labels")
    vectors: dict[str, Matrix] = {}
    for name, texts in ways.items():
        vectors[name] = yield from unit_rows(texts)
    measures = {name: cohesion(rows, labels, rounds=rounds, seed=seed) for name, rows in vectors.items()}
    return CohesionStudy(labels=tuple(labels), measures=measures, vectors=vectors)


def texts_of(entries: Sequence[Entry]) -> dict[str, tuple[str, ...]]:
    """Return the chunks of the entries written in three ways, in order.

    "cascade": document title, all headings above, and the body (the headed view); "title": the chunk's own heading
    and the body (HiQA's "Original Segment"); "body": the body alone ("Without HCA").
    """
    ways: dict[str, list[str]] = {"cascade": [], "title": [], "body": []}
    for entry in entries:
        headed = {view.chunk_id: view.text for view in entry.views if view.kind == "headed"}
        for chunk in entry.chunks:
            full = headed.get(chunk.id, chunk.text)
            titled = bool(entry.document.title.strip() or chunk.path) and chunk.id in headed
            body = full.partition("\n")[2] if titled else full  # the first line of a headed view is its titles
            own = chunk.path[-1] if chunk.path else ""
            ways["cascade"].append(full)
            ways["title"].append(f"{own}\n{body}" if own else body)
            ways["body"].append(body)
    return {name: tuple(texts) for name, texts in ways.items()}


def document_labels(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the document id of each chunk of the entries, in order: do texts of one document stand together?"""
    return tuple(entry.document.id for entry in entries for _ in entry.chunks)


def homologous_labels(entries: Sequence[Entry], *, documents: int = 2) -> tuple[str | None, ...]:
    """Return the own heading of each chunk where it heads sections in several documents, else None, in order.

    Args:
        entries: of several documents.
        documents: in how many of them a heading must stand, compared without case.

    Raises:
        ParameterError: documents is below 1.
    """
    if documents < 1:
        raise ParameterError("documents", documents, "1 or more")
    where: defaultdict[str, set[Hashable]] = defaultdict(set)
    titles = [
        (entry.document.id, " ".join(folded(chunk.path[-1]).split()) if chunk.path else "")
        for entry in entries
        for chunk in entry.chunks
    ]
    for document_id, title in titles:
        where[title].add(document_id)
    return tuple(title if title and len(where[title]) >= documents else None for _, title in titles)


def _measured(rows: Matrix, groups: NDArray[np.intp], n_groups: int, rounds: int, seed: int) -> Cohesion:
    sizes = np.bincount(groups, minlength=n_groups)
    own = float((rows**2).sum())
    together = float((sizes * (sizes - 1)).sum())
    apart = float(len(rows) * (len(rows) - 1)) - together
    tightness = _tightness(rows, groups, n_groups)
    everything = float((rows.sum(axis=0) ** 2).sum())
    within = 1 - (tightness - own) / together if together else None
    between = 1 - (everything - tightness) / apart if apart else None
    return Cohesion(
        n=len(rows),
        n_groups=n_groups,
        n_alone=int((sizes == 1).sum()),
        within=within,
        between=between,
        silhouette=_silhouette(rows, groups, sizes) if n_groups > 1 else None,
        purity=_purity(rows, groups, sizes),
        p=None if within is None or between is None else _p(rows, groups, tightness, rounds, seed),
        rounds=rounds,
    )


def _tightness(rows: Matrix, groups: NDArray[np.intp], n_groups: int) -> float:
    """Return `sum over groups of |sum of its vectors|^2`, all inner products within groups, own ones too."""
    return float((_sums(rows, groups, n_groups) ** 2).sum())


def _sums(rows: Matrix, groups: NDArray[np.intp], n_groups: int) -> Matrix:
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(n_groups))
    return np.asarray(np.add.reduceat(rows[order], starts, axis=0))


def _p(rows: Matrix, groups: NDArray[np.intp], tightness: float, rounds: int, seed: int) -> float:
    """Return the p of the labels; group sizes stay, so the mean distance within falls as the tightness grows."""
    generator, n_groups = np.random.default_rng(seed), int(groups.max()) + 1
    least = tightness - 1e-9 * max(1.0, tightness)  # sums in another order differ by roundings
    count = sum(_tightness(rows, generator.permutation(groups), n_groups) >= least for _ in range(rounds))
    return (count + 1) / (rounds + 1)


def _silhouette(rows: Matrix, groups: NDArray[np.intp], sizes: NDArray[np.intp]) -> float:
    """Return the mean silhouette; mean distances to a group come from the sum of its vectors."""
    dots = rows @ _sums(rows, groups, len(sizes)).T
    places = np.arange(len(rows))
    mates = np.maximum(sizes[groups] - 1, 1)
    a = 1 - (dots[places, groups] - (rows**2).sum(axis=1)) / mates
    distances = 1 - dots / sizes
    distances[places, groups] = np.inf
    b = distances.min(axis=1)
    larger = np.maximum(a, b)
    scores = np.where(larger > _SAME, (b - a) / np.where(larger > _SAME, larger, 1.0), 0.0)
    scores[sizes[groups] == 1] = 0.0
    return fsum(map(float, scores)) / len(scores)


def _purity(rows: Matrix, groups: NDArray[np.intp], sizes: NDArray[np.intp]) -> float | None:
    shares: list[float] = []
    for start in range(0, len(rows), _BLOCK):
        block = np.arange(start, min(start + _BLOCK, len(rows)))
        dots = rows[block] @ rows.T
        dots[np.arange(len(block)), block] = -np.inf
        nearest = dots >= dots.max(axis=1, keepdims=True) - _SAME
        same = groups[block][:, None] == groups[None, :]
        share = (nearest & same).sum(axis=1) / nearest.sum(axis=1)
        shares += map(float, share[sizes[groups[block]] > 1])
    return fsum(shares) / len(shares) if shares else None
