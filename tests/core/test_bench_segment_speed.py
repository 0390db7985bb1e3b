"""The benchmark of segment extraction's speed: the same inputs for all, the same segments, and what it says."""

from __future__ import annotations

import json
import sys
from bisect import bisect_right
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from catena.model import ParameterError
from catena.segments import documents_considered, gaps, hits_by_place, lay_out, weighted_values
from catena_bench import cli, segment_speed
from catena_bench.segment_speed import Rounds, agreement, dense, dsrag_rounds, sparse, sparse_rounds


def meta_document(results: list[list[dict[str, Any]]], top_k: int) -> tuple[list[int], dict[str, int], list[str]]:
    """Lay the documents end to end, in another order than ours."""
    known = {row["metadata"]["doc_id"] for found in results for row in found[:top_k]}
    documents = sorted(known, reverse=True)
    sizes = dict.fromkeys(documents, 0)
    for found in results:
        for row in found:
            told = row["metadata"]
            if told["doc_id"] in sizes:
                sizes[told["doc_id"]] = max(sizes[told["doc_id"]], told["chunk_index"] + 1)
    ends = np.cumsum([sizes[document] for document in documents]).tolist()
    return ends, dict(zip(documents, [0, *ends[:-1]], strict=True)), documents


def relevance_values(
    *,
    all_ranked_results: list[list[dict[str, Any]]],
    meta_document_length: int,
    document_start_points: dict[str, int],
    unique_document_ids: list[str],
    irrelevant_chunk_penalty: float,
    decay_rate: float,
    chunk_length_adjustment: bool,
) -> list[list[float]]:
    """Value chunks by the published formula; a longer chunk counts more."""
    assert chunk_length_adjustment
    rows = []
    for found in all_ranked_results:
        row = [-irrelevant_chunk_penalty] * meta_document_length
        for rank, result in enumerate(found):
            told = result["metadata"]
            if told["doc_id"] in unique_document_ids:
                value = np.exp(-rank / decay_rate) * result["similarity"] - irrelevant_chunk_penalty
                place = document_start_points[told["doc_id"]] + told["chunk_index"]
                row[place] = value * (max(len(told["chunk_text"]), 700) / 700)
        rows.append(row)
    return rows


def best_segments(
    *,
    all_relevance_values: list[list[float]],
    document_splits: list[int],
    max_length: int,
    overall_max_length: int,
    minimum_value: float,
) -> tuple[list[tuple[int, int]], list[float]]:
    """SelectedSegment the best segment of each query in its turn; written anew from the article's rule, and slow."""
    picks: list[tuple[int, int]] = []
    scores: list[float] = []
    asked = list(range(len(all_relevance_values)))
    while asked and (left := overall_max_length - sum(end - start for start, end in picks)) > 0:
        values = all_relevance_values[asked[0]]
        found = None
        for start in (place for place, value in enumerate(values) if value >= 0):
            total = 0.0
            border = document_splits[bisect_right(document_splits, start)]
            for end in range(start + 1, min(start + min(max_length, left), border) + 1):
                if any(start < b and end > a for a, b in picks):
                    break
                total += values[end - 1]
                if values[end - 1] >= 0 and (found is None or total > found[0]):
                    found = total, start, end
        query = asked.pop(0)
        if found is not None and found[0] >= minimum_value:
            picks.append(found[1:])
            scores.append(found[0])
            asked.append(query)
    return picks, scores


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Stand in for dsRAG's module: its names, another's code."""
    rse = ModuleType("dsrag.rse")
    rse.get_meta_document = meta_document  # type: ignore[attr-defined]
    rse.get_relevance_values = relevance_values  # type: ignore[attr-defined]
    rse.get_best_segments = best_segments  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "dsrag", ModuleType("dsrag"))
    monkeypatch.setitem(sys.modules, "dsrag.rse", rse)
    return rse


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dsrag", None)
    monkeypatch.setitem(sys.modules, "dsrag.rse", None)


# inputs


@pytest.mark.parametrize("make", [dense, sparse])
def test_arrays_rankings_and_results_say_the_same(make: Any) -> None:
    given = make(2_300, 1)
    rankings, results = given.rankings(), given.results()
    told = [
        [(hit.chunk.document_id, hit.chunk.position, hit.score, hit.chunk.text) for hit in ranking.hits]
        for ranking in rankings
    ]
    keys = ("doc_id", "chunk_index")
    assert told == [
        [(*(row["metadata"][key] for key in keys), row["similarity"], row["metadata"]["chunk_text"]) for row in found]
        for found in results
    ]
    documents = documents_considered(rankings, given.params.top_k)
    found = hits_by_place(rankings, documents)
    values = weighted_values(given.ranks, given.probabilities, given.lengths, params=given.params).values
    splits, starts, names = given.meta_document()
    assert names == sorted(documents)
    assert splits[-1] == given.n
    known = {place: hit.hit.chunk for mine in found for place, hit in mine.items()}
    laid = lay_out([known[place] for place in sorted(known)], found, given.params)
    where = [starts[document] + position for document, position in sorted(known)]
    np.testing.assert_array_equal(laid.sequence.values, values[:, where])
    assert make is sparse or gaps(found, given.params) == ()


# comparison


def test_segments_are_compared_with_the_peers(peer: ModuleType) -> None:
    rounds = Rounds()
    given = sparse(2_000, 3)
    for measure in (sparse_rounds(given, rounds, True), dsrag_rounds(peer, given, rounds, True)):
        measure()
    assert len(rounds.found["greedy"]) > 5
    assert agreement(rounds.found["greedy"], rounds.found["dsrag"]) == "same"


def test_agreement() -> None:
    one, other = ("a", 0, 2, 1.0), ("b", 5, 6, 1.0 + 1e-12)
    assert agreement([one], [one]) == "same"
    assert agreement([one], [other]) == "tied"
    assert agreement([one], [(*one[:3], 1.1)]) == "different"
    assert agreement([one], [one, other]) == "different"
    assert agreement([], []) == "same"


# the run


@pytest.mark.slow
def test_figures_with_a_peer(peer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_speed, "SIZES", (1_000,))
    figures = segment_speed.run(repeats=2)
    assert figures["peer.installed"] == 1
    assert (figures["segments.compared"], figures["segments.same"], figures["segments.different"]) == (2, 2, 0)
    for case in ("dense", "dense_from_rankings", "sparse"):
        for system in ("greedy", "optimal"):
            key = f"speedup.{case}.{system}.1000"
            assert 0 < figures[f"{key}.low"] <= figures[key] <= figures[f"{key}.high"]
        assert figures[f"milliseconds.{case}.dsrag.1000"] > 0
    values, selection = (figures[f"stage.dense.dsrag.{stage}.1000"] for stage in ("values", "selection"))
    assert figures["milliseconds.dense.dsrag.1000"] == pytest.approx(values + selection)
    assert figures["gain.dense.1000"] >= 0
    json.dumps(figures, allow_nan=False)


@pytest.mark.slow
@pytest.mark.usefixtures("alone")
def test_without_the_peer_ours_alone_is_measured_and_that_is_said() -> None:
    told: list[str] = []
    figures = segment_speed.run(chunks=1_000, repeats=1, tell=told.append)
    assert figures["peer.installed"] == 0
    assert not any("dsrag" in key or key.startswith(("speedup", "segments")) for key in figures)
    assert figures["milliseconds.sparse.optimal.1000"] > 0
    assert any("nox -s dsrag" in line for line in told)


@pytest.mark.slow
@pytest.mark.usefixtures("alone")
def test_the_command_writes_figures_and_a_picture(tmp_path: Path) -> None:
    given = [
        "segment-speed",
        "--size",
        "chunks=1000",
        "--size",
        "repeats=1",
        "--json",
        str(tmp_path / "figures.json"),
    ]
    done = CliRunner().invoke(cli.app, [*given, "--plot", str(tmp_path / "picture.png")])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "figures.json").read_text())["peer.installed"] == 0
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("wrong", [{"chunks": 999}, {"repeats": 0}])
def test_too_little_is_an_error(wrong: dict[str, int]) -> None:
    with pytest.raises(ParameterError):
        segment_speed.run(**wrong)  # type: ignore[arg-type]
