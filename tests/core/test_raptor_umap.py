"""Clusters with the real UMAP: the reference's way to fewer dimensions, equal in every run."""

from __future__ import annotations

import numpy as np
import pytest

from catena_bench.baselines import Clustering
from catena_bench.baselines.raptor import clusters

pytestmark = pytest.mark.torch  # its packages take 190 MB: they are in the session that has large ones anyway


def three_groups(seed: int) -> np.ndarray:
    """60 unit vectors around three orthogonal directions, group by group."""
    noise = np.random.default_rng(seed).normal(0, 0.05, (60, 32))
    noise[np.arange(60), np.repeat([0, 10, 20], 20)] += 1.0
    return noise / np.linalg.norm(noise, axis=1, keepdims=True)


def test_umap_keeps_apart_what_is_apart_and_finds_the_same_again() -> None:
    pytest.importorskip("umap", reason="needs the extra: umap")
    how = Clustering(reduce="umap")
    found = clusters(three_groups(1), [10] * 60, how)
    assert found == clusters(three_groups(1), [10] * 60, how)
    assert {place for cluster in found for place in cluster} == set(range(60))
    mixed = [cluster for cluster in found if len({place // 20 for place in cluster}) > 1]
    assert len(mixed) <= len(found) / 4, "most clusters are of one group"
