"""Numbers and planes behind HiQA's pictures: cohesion, projections, closeness of questions, curves of the index."""

from __future__ import annotations

import numpy as np
import pytest

from catena.effects import Services, run
from catena.evaluation import (
    detectable_difference,
    document_labels,
    embedding_shift,
    index_over_gamma,
    mean_log_rank_index,
    pca,
    project,
    question_distances,
    ranks_by_query,
    recall_curve,
    study,
    texts_of,
)
from catena.evaluation.cohesion import cohesion, homologous_labels, inner_products, normalised
from catena.library import prepare
from catena.model import Document, EvaluationError, MissingExtraError, ParameterError
from catena.testing.fakes import AngleEmbedder


def blobs(n=60, groups=4, spread=0.4, seed=0):
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(groups, 8))
    labels = [f"g{number % groups}" for number in range(n)]
    return centres[np.arange(n) % groups] + spread * generator.normal(size=(n, 8)), labels


# cohesion


@pytest.mark.parametrize("spread", [0.1, 0.5, 3.0])
def test_silhouette_and_distances_are_those_of_scikit_learn(spread):
    metrics = pytest.importorskip("sklearn.metrics")
    rows, labels = blobs(spread=spread)
    found = cohesion(rows, labels)
    assert found.silhouette == pytest.approx(metrics.silhouette_score(rows, labels, metric="cosine"), abs=1e-12)
    distances = metrics.pairwise.cosine_distances(rows)
    same = np.equal.outer(labels, labels)
    pairs = np.triu(np.ones_like(same), 1)
    assert found.within == pytest.approx(distances[same & pairs].mean(), abs=1e-12)
    assert found.between == pytest.approx(distances[~same & pairs].mean(), abs=1e-12)


def test_two_tight_groups_by_hand():
    rows = [[1.0, 0.0], [2.0, 0.0], [0.0, 3.0], [0.0, 1.0]]
    found = cohesion(rows, ["a", "a", "b", "b"])
    assert (found.within, found.between, found.silhouette, found.purity) == pytest.approx((0.0, 1.0, 1.0, 1.0))
    assert (found.n, found.n_groups, found.n_alone) == (4, 2, 0)
    # of 24 orders of the labels 8 give these groups: p is about 1/3
    assert found.p == pytest.approx(1 / 3, abs=0.05)


def test_the_smallest_p_is_one_over_the_shuffles_and_never_zero():
    rows, labels = blobs(spread=0.01)
    assert cohesion(rows, labels, rounds=99).p == pytest.approx(0.01)


def test_equal_texts_in_two_groups_count_by_share_of_the_equally_near():
    rows = [[1.0, 0.0]] * 3 + [[0.0, 1.0]]
    found = cohesion(rows, ["a", "a", "b", "b"])
    assert found.purity == pytest.approx((0.5 + 0.5 + 0.0 + 1 / 3) / 4)


def test_unlabelled_vectors_are_left_out_and_lone_ones_counted():
    rows, labels = blobs(n=12, groups=3)
    alone = cohesion([*rows, rows[0]], [*labels, "other"])
    assert (alone.n, alone.n_alone) == (13, 1)
    assert cohesion([*rows, rows[0]], [*labels, None]) == cohesion(rows, labels)


def test_one_group_has_only_a_distance_within():
    found = cohesion([[1.0, 0.0], [0.0, 1.0]], ["a", "a"])
    assert found.within == pytest.approx(1.0)
    assert found.between is found.silhouette is found.p is None
    assert "undefined" in str(found)


# three ways to write the chunks

MANUALS = [
    Document(id=name, text=f"# {name} board\n\n## Clock\n\nIt runs at {mhz} MHz.\n\n## Memory\n\nIt has {mhz} KB.\n")
    for name, mhz in (("alpha", 16), ("beta", 20), ("gamma", 8))
]


def test_chunks_are_written_with_all_titles_with_their_own_and_bare():
    ways = texts_of([prepare(MANUALS[0])])
    assert ways["cascade"][0] == "alpha board › Clock\nIt runs at 16 MHz."
    assert ways["title"][0] == "Clock\nIt runs at 16 MHz."
    assert ways["body"][0] == "It runs at 16 MHz."


def test_homologous_sections_are_those_headed_alike_in_several_documents():
    entries = [prepare(document) for document in MANUALS]
    odd = prepare(Document(id="odd", text="# odd board\n\n## CLOCK\n\nNone.\n\n## Warranty\n\nTwo years.\n"))
    assert homologous_labels([*entries, odd]) == ("clock", "memory") * 3 + ("clock", None)
    assert homologous_labels(entries, documents=4) == (None,) * 6
    assert document_labels(entries) == ("alpha", "alpha", "beta", "beta", "gamma", "gamma")


# projections


def test_pca_is_that_of_scikit_learn_but_for_the_signs_which_are_ours():
    decomposition = pytest.importorskip("sklearn.decomposition")
    rows, _ = blobs()
    plane, shares = pca(rows)
    theirs = decomposition.PCA(2).fit(rows)
    assert np.abs(plane) == pytest.approx(np.abs(theirs.transform(rows)), abs=1e-9)
    assert shares == pytest.approx(tuple(theirs.explained_variance_ratio_))
    mirrored, _ = pca(rows[::-1])
    assert mirrored[::-1] == pytest.approx(plane, abs=1e-9)


def test_vectors_of_one_dimension_have_a_flat_second_axis():
    plane, shares = pca(np.asarray([[1.0], [2.0], [4.0]]))
    assert shares == pytest.approx((1.0, 0.0))
    assert plane[:, 1] == pytest.approx(np.zeros(3))
    assert plane[:, 0] == pytest.approx([-4 / 3, -1 / 3, 5 / 3])  # rises with the vectors: signs are no accident
    assert pca(np.asarray([[-1.0], [-2.0], [-4.0]]))[0][:, 0] == pytest.approx([4 / 3, 1 / 3, -5 / 3])


@pytest.mark.parametrize("method", ["pca", "t-sne"])
def test_sets_share_one_plane_which_is_the_same_each_time(method):
    rows, _ = blobs(n=24)
    sets = {"one": rows[:10], "two": rows[10:]}
    first, second = project(sets, method=method, seed=3), project(sets, method=method, seed=3)
    assert {name: points.shape for name, points in first.points.items()} == {"one": (10, 2), "two": (14, 2)}
    assert all(np.array_equal(first.points[name], second.points[name]) for name in sets)
    assert "24 vectors" in first.note


def test_t_sne_names_its_seed_and_perplexity_and_needs_its_extra(monkeypatch):
    rows, _ = blobs(n=16)
    assert "perplexity 5, seed 7" in project({"a": rows}, method="t-sne", seed=7).note
    monkeypatch.setitem(__import__("sys").modules, "sklearn.manifold", None)
    with pytest.raises(MissingExtraError, match=r"catena(?:-core)?\[eval\]"):
        project({"a": rows}, method="t-sne")


# closeness


def asked_of(step):
    return run(step, Services(embedder=AngleEmbedder()))


def test_inner_products_are_cosines_of_the_angles():
    products = asked_of(inner_products(["0", "0", "0"], ["0", "60", "90"]))
    assert products == pytest.approx((1.0, 0.5, 0.0), abs=1e-6)
    distances = asked_of(question_distances(["0", "30"], {"near": ["0", "30"], "far": ["90", "120"]}))
    assert distances["near"] == pytest.approx((0.0, 0.0), abs=1e-6)
    assert distances["far"] == pytest.approx((1.0, 1.0), abs=1e-6)


def test_a_shift_is_a_paired_comparison_in_the_papers_form():
    shift = asked_of(embedding_shift(["0"] * 3, ["60", "90", "60"], ["30", "60", "60"]))
    half, high = 0.5, 3**0.5 / 2
    assert shift.before == pytest.approx((half, 0.0, half), abs=1e-6)
    assert shift.after == pytest.approx((high, half, half), abs=1e-6)
    assert shift.comparison.difference == pytest.approx((high - half + half) / 3, abs=1e-6)
    assert shift.points.shape == (9, 2)
    assert str(shift).startswith("inner product 0.333 -> 0.622 (+0.289 [")


# curves


def judged(n_queries=25, n=200, seed=0):
    generator = np.random.default_rng(seed)
    pieces = [f"p{number:03d}" for number in range(n)]
    qrels, run_ = {}, {}
    for number in range(n_queries):
        qrels[f"q{number}"] = {pieces[at]: 1 for at in generator.choice(n, 1 + number % 4, replace=False)}
        scores = np.round(generator.normal(size=n), 1)  # ties
        kept = generator.permutation(n)[: n // 2]  # half is not returned
        run_[f"q{number}"] = {pieces[at]: float(scores[at]) for at in kept}
    return qrels, run_, n


@pytest.mark.parametrize("gamma", [1e-3, 0.1, 1.0, 10.0, 1e6])
def test_the_area_under_recall_is_the_mean_index_with_ties_and_unretrieved_pieces(gamma):
    qrels, run_, n = judged()
    curve = recall_curve(ranks_by_query(qrels, run_, n=n), n=n, gamma=gamma, rounds=10)
    assert curve.area == pytest.approx(mean_log_rank_index(qrels, run_, n=n, gamma=gamma).value, abs=1e-12)
    assert curve.positions[0] == 0.0
    assert curve.positions[-1] == pytest.approx(1.0)
    assert list(curve.recall) == sorted(curve.recall)
    assert all(low <= high for low, high in zip(curve.low, curve.high, strict=True))


def test_a_curve_by_hand():
    curve = recall_curve({"a": [1], "b": [10]}, n=100, rounds=10)
    assert curve.ranks == (1.0, 10.0, 100.0)
    assert curve.recall == (0.5, 1.0, 1.0)
    assert curve.positions == pytest.approx((0.0, 0.5, 1.0))
    assert curve.area == pytest.approx(0.75)
    assert recall_curve({"a": [3]}, n=9, rounds=10).low == (0.0, 1.0, 1.0)


def test_the_index_falls_as_gamma_grows():
    qrels, run_, n = judged()
    values = [found.value for found in index_over_gamma(qrels, run_, n=n, gammas=[0.01, 1.0, 100.0])]
    assert values == sorted(values, reverse=True)


# what a comparison can show


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 1_000, 1_001])
def test_detectable_differences_agree_with_scipy(n):
    stats = pytest.importorskip("scipy.stats")
    exact = (stats.t.ppf(0.975, n - 1) + stats.t.ppf(0.8, n - 1)) / n**0.5
    assert detectable_difference(n, deviation=1.0) == pytest.approx(exact, rel=1e-9)
    assert detectable_difference(100) == pytest.approx(0.0707371, abs=1e-7)  # of the deviation that is usual


SQUARE = {"a": np.eye(4)}
UNMEASURED = [
    *((lambda rows=rows, labels=labels: cohesion(rows, labels)) for rows, labels in (
        ([[1.0]], ["a", "b"]), ([[1.0]], [None]), ([[float("nan")]], ["a"]), ([1.0], ["a"]),
    )),
    *((lambda sets=sets: project(sets)) for sets in (
        {}, {"a": np.ones((2, 3))}, {"a": np.ones((3, 3)), "b": np.ones((3, 2))}, {"a": np.full((3, 2), np.inf)},
    )),
    *((lambda ranks=ranks: recall_curve(ranks, n=10)) for ranks in ({}, {"a": []}, {"a": [0]}, {"a": [11]})),
    lambda: asked_of(inner_products(["0"], [])),
    lambda: asked_of(inner_products([], [])),
    lambda: asked_of(inner_products("0", "0")),
    lambda: asked_of(embedding_shift(["0"], ["0"], ["0", "1"])),
    lambda: asked_of(question_distances(["0"], {"a": []})),
    lambda: asked_of(study({"way": ["one"]}, ["a", "b"])),
]  # fmt: skip
OUTSIDE = [
    ("rounds", lambda: cohesion([[1.0]], ["a"], rounds=0)),
    ("documents", lambda: homologous_labels([], documents=0)),
    ("method", lambda: project(SQUARE, method="umap")),
    ("perplexity", lambda: project(SQUARE, perplexity=0.0)),
    ("n", lambda: recall_curve({"a": [1]}, n=1)),
    ("gamma", lambda: recall_curve({"a": [1]}, n=10, gamma=0.0)),
    ("level", lambda: recall_curve({"a": [1]}, n=10, level=1.0)),
    ("rounds", lambda: recall_curve({"a": [1]}, n=10, rounds=0)),
    ("n", lambda: detectable_difference(1)),
    ("deviation", lambda: detectable_difference(9, deviation=-1.0)),
    ("power", lambda: detectable_difference(9, power=1.0)),
    ("level", lambda: detectable_difference(9, level=0.0)),
]


@pytest.mark.parametrize("call", UNMEASURED)
def test_what_cannot_be_measured_is_refused(call):
    with pytest.raises(EvaluationError):
        call()


@pytest.mark.parametrize(("name", "call"), OUTSIDE)
def test_parameters_outside_their_domains_are_named(name, call):
    with pytest.raises(ParameterError, match=f"^{name} must be"):
        call()


def test_a_vector_without_length_stays_as_it_is():
    assert normalised(np.zeros((1, 2))).tolist() == [[0.0, 0.0]]
