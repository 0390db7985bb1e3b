"""The benchmark of segment extraction's speed: the same inputs for all, the same segments, and what it says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from catena import segments
from catena.model import ParameterError
from catena_bench import cli, segment_speed
from catena_bench.segment_speed import Rounds, agreement, dense, dsrag_rounds, sparse, sparse_rounds


def meta_document(results: list[list[dict[str, Any]]], top_k: int) -> tuple[list[int], dict[str, int], list[str]]:
    """Lay the documents end to end, in another order than ours."""
    sizes = {row["metadata"]["doc_id"]: 0 for found in results for row in found[:top_k]}
    for told in (row["metadata"] for found in results for row in found if row["metadata"]["doc_id"] in sizes):
        sizes[told["doc_id"]] = max(sizes[told["doc_id"]], told["chunk_index"] + 1)
    documents = sorted(sizes, reverse=True)
    ends = np.cumsum([sizes[document] for document in documents]).tolist()
    return ends, dict(zip(documents, [0, *ends[:-1]], strict=True)), documents


def relevance_values(
    *, all_ranked_results, document_start_points, irrelevant_chunk_penalty, decay_rate, **more
) -> list[list[float]]:
    """Value chunks by the published formula; a longer chunk counts more."""
    assert more["chunk_length_adjustment"]
    rows = []
    for found in all_ranked_results:
        rows.append([-irrelevant_chunk_penalty] * more["meta_document_length"])
        for rank, result in enumerate(found):
            told = result["metadata"]
            if told["doc_id"] in more["unique_document_ids"]:
                value = np.exp(-rank / decay_rate) * result["similarity"] - irrelevant_chunk_penalty
                place = document_start_points[told["doc_id"]] + told["chunk_index"]
                rows[-1][place] = value * (max(len(told["chunk_text"]), 700) / 700)
    return rows


def best_segments(*, all_relevance_values, document_splits, max_length, overall_max_length, minimum_value):
    """Select as ours does: that dsRAG's own selection is the same is shown by its reference numbers."""
    track = segments.ChunkSequence(values=np.array(all_relevance_values), ends=np.array(document_splits))
    limits = segments.SelectionBounds(max_chunks=max_length, budget=overall_max_length, minimum_value=minimum_value)
    picks = segments.greedy(track, limits)
    return [(pick.start, pick.end) for pick in picks], [pick.value for pick in picks]


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Stand in for dsRAG's module: its names, another's code."""
    rse = ModuleType("dsrag.rse")
    functions = {"meta_document": meta_document, "relevance_values": relevance_values, "best_segments": best_segments}
    vars(rse).update({f"get_{name}": function for name, function in functions.items()})
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
    for ranking, rows in zip(rankings, results, strict=True):
        for hit, row in zip(ranking.hits, rows, strict=True):
            told = {"doc_id": hit.chunk.document_id, "chunk_index": hit.chunk.position, "chunk_text": hit.chunk.text}
            assert row == {"metadata": told, "similarity": hit.score}
    documents = segments.documents_considered(rankings, given.params.top_k)
    found = segments.hits_by_place(rankings, documents)
    values = segments.weighted_values(given.ranks, given.probabilities, given.lengths, params=given.params).values
    splits, starts, names = given.meta_document()
    assert names == sorted(documents)
    assert splits[-1] == given.n
    known = {place: hit.hit.chunk for mine in found for place, hit in mine.items()}
    laid = segments.lay_out([known[place] for place in sorted(known)], found, given.params)
    where = [starts[document] + position for document, position in sorted(known)]
    np.testing.assert_array_equal(laid.sequence.values, values[:, where])
    assert make is sparse or segments.gaps(found, given.params) == ()


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
    for theirs, expected in (
        ([one], "same"), ([other], "tied"), ([(*one[:3], 1.1)], "different"), ([one, other], "different"),
    ):  # fmt: skip
        assert agreement([one], theirs) == expected
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
def test_without_the_peer_the_command_measures_ours_alone_says_so_and_draws(tmp_path: Path) -> None:
    target, picture = tmp_path / "figures.json", tmp_path / "picture.png"
    given = ["segment-speed", "--size", "chunks=1000", "--size", "repeats=1", "--json", str(target)]
    done = CliRunner().invoke(cli.app, [*given, "--plot", str(picture)])
    assert done.exit_code == 0, done.output
    assert "nox -s dsrag" in done.output
    figures = json.loads(target.read_text())
    assert figures["peer.installed"] == 0
    assert not any("dsrag" in key or key.startswith(("speedup", "segments")) for key in figures)
    assert figures["milliseconds.sparse.optimal.1000"] > 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("wrong", [{"chunks": 999}, {"repeats": 0}])
def test_too_little_is_an_error(wrong: dict[str, int]) -> None:
    with pytest.raises(ParameterError):
        segment_speed.run(**wrong)  # type: ignore[arg-type]
