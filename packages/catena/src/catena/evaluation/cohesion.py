"""Measure how embeddings group by document or section, shift with their texts, and lie on a plane: HiQA's pictures.

Distances are cosine: `1 - <a, b>` of unit vectors, in [0, 2].
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from catena.effects import Step, embed_texts
from catena.evaluation.significance import SEED, PairedComparison, Rounds, compare
from catena.model import Entry, EvaluationError, MissingExtraError, ParameterError, check_given
from catena.text.words import folded

Matrix: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = Sequence[str | None]
_BLOCK = 1024  # rows compared with all others at a time
_SAME = 1e-9  # inner products this near are one: equal texts differ by roundings only
Method: TypeAlias = Literal["pca", "t-sne"]
Plane: TypeAlias = NDArray[np.float64]  # shape (n, 2)
FEWEST = 3  # points: of fewer, a plane shows nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Change of the inner products between texts and questions after the texts were changed.

    Attributes:
        before, after: per pair, in order.
        comparison: after against before, paired; its `difference` is the mean gain.
        points: rows of question, text before and text after, in this order and pair by pair, unit length,
            shape (3 n, dim); for pictures.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    comparison: PairedComparison
    points: Matrix = field(repr=False, compare=False)

    @property
    def mean_before(self) -> float:
        """The mean inner product before."""
        return fsum(self.before) / len(self.before)

    @property
    def mean_after(self) -> float:
        """The mean inner product after."""
        return fsum(self.after) / len(self.after)

    def __str__(self) -> str:
        found = self.comparison
        return (
            f"inner product {self.mean_before:.3f} -> {self.mean_after:.3f} ({found.difference:+.3f} "
            f"[{found.interval[0]:+.3f}, {found.interval[1]:+.3f}], p {found.p:.4f}, n = {found.n})"
        )


def unit_rows(texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> Step[Matrix]:
    """Return the texts as unit-length rows, shape (len(texts), dim); a row of zeros stays one.

    Raises:
        ServiceError: the embedder failed.
    """
    rows = yield from embed_texts(texts, "evaluation", kind=kind)
    return normalised(np.asarray(rows).reshape(len(rows), -1 if rows else 0))


def normalised(rows: NDArray[np.floating]) -> Matrix:
    """Return the rows at unit length, in double precision; a row of zeros stays one."""
    rows = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0), dtype=np.float64)


def inner_products(questions: Sequence[str], texts: Sequence[str]) -> Step[tuple[float, ...]]:
    """Return `<q_i, t_i>` of the unit vectors of question i and text i: 1 for the same direction.

    `run(inner_products(questions, texts), Services(embedder=...))` gives the numbers of HiQA's Table 3; the distance
    that goes with them is `1 - <q, t>`.

    Raises:
        EvaluationError: there are not as many texts as questions, or none.
        ServiceError: the embedder failed.
    """
    _check_pairs(questions, texts)
    asked = yield from unit_rows(questions, kind="query")
    found = yield from unit_rows(texts)
    return tuple(map(float, (asked * found).sum(axis=1)))


def embedding_shift(questions: Sequence[str], before: Sequence[str], after: Sequence[str]) -> Step[Shift]:
    """Return what changing each text from `before` to `after` does to its inner product with its question.

    For HiQA's Table 3, `before` are whole tables and `after` their definitions (title, row and column labels).

    Raises:
        EvaluationError: the three are not of one length, or empty.
        ServiceError: the embedder failed.
    """
    _check_pairs(questions, before)
    _check_pairs(questions, after)
    asked = yield from unit_rows(questions, kind="query")
    old = yield from unit_rows(before)
    new = yield from unit_rows(after)
    first, then = (tuple(map(float, (asked * rows).sum(axis=1))) for rows in (old, new))
    names = [f"{number:09d}" for number in range(len(questions))]
    gains = compare(dict(zip(names, then, strict=True)), dict(zip(names, first, strict=True)))
    points = np.stack([asked, old, new], axis=1).reshape(3 * len(questions), -1)
    return Shift(before=first, after=then, comparison=gains, points=points)


def question_distances(
    questions: Sequence[str], contexts: Mapping[str, Sequence[str]]
) -> Step[dict[str, tuple[float, ...]]]:
    """Return `1 - <q_i, c_i>` for several ways to write the contexts (HiQA, Figure 10), by their names.

    Args:
        questions: at least one.
        contexts: e.g. "cascade", "title", "body", each with one context per question.

    Raises:
        EvaluationError: a way has not one context per question, or there are no questions.
        ServiceError: the embedder failed.
    """
    for texts in contexts.values():
        _check_pairs(questions, texts)
    asked = yield from unit_rows(questions, kind="query")
    distances: dict[str, tuple[float, ...]] = {}
    for name, texts in contexts.items():
        found = yield from unit_rows(texts)
        distances[name] = tuple(map(float, 1.0 - (asked * found).sum(axis=1)))
    return distances


def _check_pairs(questions: Sequence[str], texts: Sequence[str]) -> None:
    if isinstance(questions, str) or isinstance(texts, str):
        raise EvaluationError("expected several questions and several texts, got one string. Try: a list of each")
    if not questions or len(questions) != len(texts):
        raise EvaluationError(f"{len(questions)} questions and {len(texts)} texts are no pairs: one text for each")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohesion:
    """Measures of how well labelled vectors form groups; unlabelled ones are not counted anywhere.

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


def cohesion(vectors: NDArray[np.floating], labels: Labels, *, rounds: Rounds = 999, seed: int = SEED) -> Cohesion:
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
    check_given({"rounds": rounds}, cohesion)
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


def study(ways: Mapping[str, Sequence[str]], labels: Labels) -> Step[CohesionStudy]:
    """Embed the same pieces written in several ways, and measure each way under the same labels.

    Args:
        ways: texts by the name of the way, e.g. from `texts_of`; one text per label in each.
        labels: e.g. from `document_labels` or `homologous_labels`.

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
    measures = {name: cohesion(rows, labels) for name, rows in vectors.items()}
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
    under = ((entry.document.id, chunk.path) for entry in entries for chunk in entry.chunks)
    titles = [(name, " ".join(folded(path[-1]).split()) if path else "") for name, path in under]
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
    sets: Mapping[str, NDArray[np.floating]], *, method: Method = "pca", perplexity: float = 30.0, seed: int = SEED
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
    """Return two entries more: vectors of one dimension have a second axis on which they do not differ."""
    return np.concatenate([part, np.zeros((2, *part.shape[1:]))])


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
        raise MissingExtraError("scikit-learn", "catena-core[eval]") from error
    start, _ = pca(rows)
    spread = float(start[:, 0].std())
    start = start * (1e-4 / spread) if spread else start  # the size that the method's authors start from
    model = TSNE(perplexity=perplexity, metric="cosine", init=start, random_state=seed, n_jobs=1)
    with threadpool_limits(limits=1):  # sums of several threads come in any order, and small sets only wait
        return np.asarray(model.fit_transform(rows), dtype=np.float64)
