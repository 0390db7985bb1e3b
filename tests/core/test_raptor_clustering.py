"""Soft clusters: groups that anybody sees, thresholds and token limits by hand, and laws for any vectors."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.model import MissingExtraError
from catena_bench.baselines import Clustering
from catena_bench.baselines import raptor as clustering
from catena_bench.baselines.raptor import clusters

SMALL = Clustering(dimensions=2, components=4)


def groups_around_axes(count: int, each: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return unit rows near `count` axes in turn: places i, i + count, … belong together."""
    noise = np.random.default_rng(1).normal(scale=0.03, size=(count * each, 6))
    rows = np.eye(6)[np.arange(count * each) % count] + noise
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_groups_that_lie_apart_are_the_clusters():
    rows = groups_around_axes(3, 20)
    assert clusters(rows, [1] * 60, SMALL) == tuple(tuple(range(first, 60, 3)) for first in range(3))


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (0.1, ((0, 1, 2), (1, 2, 3))),  # the two in the middle belong to both
        (0.4, ((0, 1, 2), (2, 3))),
        (0.9, ((0, 1), (2, 3))),  # above it for none but 0: the likeliest is taken, the first of equals
    ],
)
def test_a_vector_belongs_to_every_cluster_above_the_threshold_and_to_the_likeliest(monkeypatch, threshold, expected):
    given_rows = [[0.95, 0.05], [0.7, 0.3], [0.45, 0.55], [0.1, 0.9]]
    monkeypatch.setattr(clustering, "_probabilities", lambda rows, how: np.array(given_rows))
    how = Clustering(dimensions=2, threshold=threshold)  # groups of three and less are not divided again
    assert clusters(groups_around_axes(2, 2), [1] * 4, how) == expected


@pytest.mark.slow
@pytest.mark.parametrize("components", [5, 2])
def test_the_mixture_with_the_least_information_criterion_is_taken(components):
    points = np.concatenate([np.random.default_rng(0).normal(loc=at, size=(40, 2)) for at in (0, 30, 60)])
    assert clustering._probabilities(points, Clustering(components=components)).shape == (120, min(components, 3))


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([1] * 6, ((0, 1, 2, 3, 4, 5),)),
        ([4] * 6, ((0, 1), (2, 3), (4, 5))),
        ([3, 3, 4, 1, 1, 8], ((0, 1, 2), (3, 4, 5))),
        ([3, 99, 4, 1, 1, 8], ((0,), (1,), (2, 3, 4), (5,))),  # what is too long alone stays alone
    ],
)
def test_what_cannot_be_divided_is_cut_into_runs_that_are_short_enough(sizes, expected):
    rows = np.ones((6, 3))
    assert clusters(rows, sizes, Clustering(dimensions=2, components=3, tokens=10)) == expected
    assert clusters(rows, sizes, Clustering(dimensions=9, tokens=10)) == expected


def test_a_cluster_that_is_too_long_is_divided_again():
    wide = groups_around_axes(2, 8)
    whole = clusters(wide, [1] * 16, Clustering(dimensions=8, components=3))
    assert [len(each) for each in whole] == [8, 8]
    divided = clusters(wide, [1] * 16, Clustering(dimensions=8, components=3, tokens=5))
    assert divided == ((0, 2, 4, 6, 8), (1, 3, 5, 7, 9), (10, 12, 14), (11, 13, 15))


@settings(max_examples=15)
@given(st.integers(1, 12), st.integers(0, 9), st.integers(1, 30), st.booleans())
def test_every_vector_is_in_a_cluster_and_none_is_too_long(count, seed, tokens, equal):
    random = np.random.default_rng(seed)
    rows = np.zeros((count, 3)) if equal else random.normal(size=(count, 3))
    before = rows.copy()
    sizes = random.integers(1, 9, size=count).tolist()
    found = clusters(rows, sizes, Clustering(dimensions=2, components=3, tokens=tokens))
    assert {place for cluster in found for place in cluster} == set(range(count))
    assert all(len(cluster) == 1 or sum(sizes[place] for place in cluster) <= tokens for cluster in found)
    assert list(found) == sorted(set(found))
    assert all(list(cluster) == sorted(set(cluster)) for cluster in found)
    assert np.array_equal(rows, before)


def test_umap_is_asked_as_the_reference_asks_it(monkeypatch):
    asked: list[dict[str, Any]] = []

    class Recorded:
        def __init__(self, **parameters: Any) -> None:
            asked.append(parameters)

        def fit_transform(self, rows: Any) -> Any:
            points = np.asarray(rows[:, : asked[-1]["n_components"]], dtype=np.float32)
            points[0, 0] = np.nan  # as for a vector that is near no other
            return points

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=Recorded))
    found = clusters(groups_around_axes(2, 13), [1] * 26, Clustering(reduce="umap", dimensions=5, components=2))
    assert {place for cluster in found for place in cluster} == set(range(26))
    common = {"n_components": 5, "metric": "cosine", "random_state": 224, "n_jobs": 1}
    assert asked[0] == {"n_neighbors": 5, **common}  # the root of 26 - 1
    assert asked[1:]
    assert all(each == {"n_neighbors": 10, **common} for each in asked[1:])


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(MissingExtraError, match=r"umap-learn is not installed.*catena-bench\[umap\]"):
        clusters(groups_around_axes(3, 5), [1] * 15, Clustering(reduce="umap"))


@pytest.mark.torch  # its packages take 190 MB: they are in the session that has large ones anyway
def test_the_real_umap_keeps_apart_what_is_apart_and_finds_the_same_again():
    pytest.importorskip("umap", reason="needs the extra: umap")
    noise = np.random.default_rng(1).normal(0, 0.05, (60, 32))
    noise[np.arange(60), np.repeat([0, 10, 20], 20)] += 1.0  # around three orthogonal directions, group by group
    rows, how = noise / np.linalg.norm(noise, axis=1, keepdims=True), Clustering(reduce="umap")
    found = clusters(rows, [10] * 60, how)
    assert found == clusters(rows, [10] * 60, how)
    assert {place for cluster in found for place in cluster} == set(range(60))
    mixed = [cluster for cluster in found if len({place // 20 for place in cluster}) > 1]
    assert len(mixed) <= len(found) / 4, "most clusters are of one group"
