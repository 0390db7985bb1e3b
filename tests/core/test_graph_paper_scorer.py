"""The paper's scorer: equations 1 to 3 by hand and against plain algebra, its file, the vectors that it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_fakes import FakeGraph, candidates
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.effects import FetchNodes, Services, run
from catena.graph import Epoch, PaperScorer, TrainingReport, initial_weights, read_weights, write_weights
from catena.graph.paper_scorer import checked_weights, network_scores, node_text, path_text, same_encoder
from catena.graph.scoring import Candidates
from catena.model import TITLE, MissingServiceError, Nodes, ParameterError
from catena.testing import FakeEmbedder

DIM = 4
BY_HAND = {
    "edge.first": [[1.0, 2.0, 0.5]],
    "edge.first_bias": [-1.0],
    "edge.second": [[2.0]],
    "edge.second_bias": [0.5],
    "score.first": [[1.0, 2.0, 3.0, 4.0], [-1.0, 0.0, 0.0, 0.0]],
    "score.first_bias": [0.25, 0.0],
    "score.second": [[2.0, 100.0]],
    "score.second_bias": [-1.0],
}


def arrays(of: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.array(value, dtype=np.float32) for name, value in of.items()}


def scorer_of(dim: int = DIM, seed: int = 0, **parts: Any) -> PaperScorer:
    return PaperScorer(**{"weights": initial_weights(dim, 5, 7, seed), "encoder": "maker/model@12ab", **parts})


def nodes_of(names: str, vectors: np.ndarray) -> Nodes:
    graph = FakeGraph(
        [chunk(name, f"text of {name}") for name in names], dict(zip(names, vectors.tolist(), strict=True)), {}
    )
    return graph.nodes(FetchNodes(chunk_ids=tuple(names)))


def candidates_of(seed: int = 0, *, path: str = "ab", rows: int = 6, dim: int = DIM) -> Candidates:
    draw = np.random.default_rng(seed)
    vector = draw.normal(size=dim).astype(np.float32)
    before = nodes_of(path, draw.normal(size=(len(path), dim)))
    to = nodes_of("cdefghijkl"[:rows], draw.normal(size=(rows, dim)))
    kinds = ("keyword", "name", "semantic", "structural")
    return candidates(before, to, kinds, draw.uniform(0, 3, (rows, 4)), vector=vector)


def test_the_equations_by_hand() -> None:
    # triple (1, 0.5, 3): relu(1 + 1 + 1.5 - 1) = 2.5, edge = 2 * 2.5 + 0.5 = 5.5
    # [0.1, 0.2, 0.3, 5.5]: relu(0.1 + 0.4 + 0.9 + 22 + 0.25) = 23.65, relu(-0.1) = 0; 2 * 23.65 - 1 = 46.3
    # triple (0, 0, 0): relu(-1) = 0, edge = 0.5; relu(0.1 + 0.4 + 0.6 + 2 + 0.25) = 3.35; 5.7
    scores = network_scores(
        arrays(BY_HAND),
        *(np.array(row, np.float32) for row in ([0.1], [0.2], [[0.3], [0.2]], [[1, 0.5, 3], [0, 0, 0]])),
    )
    assert scores == pytest.approx([46.3, 5.7], abs=1e-5)
    assert scores.dtype == np.float64


@given(st.integers(0, 200), st.sampled_from(["", "a", "ab"]))
def test_a_score_is_the_plain_algebra_of_the_paper(seed: int, path: str) -> None:
    scorer, given_ = scorer_of(seed=seed), candidates_of(seed, path=path)
    scores = run(scorer.score(given_), Services())
    w = {name: each.astype(np.float64) for name, each in scorer.weights.items()}
    mean = given_.path.vectors.mean(axis=0) / np.linalg.norm(given_.path.vectors.mean(axis=0)) if path else 0
    for row, score in enumerate(scores):
        keyword, _, similarity, structural = given_.weights[row]
        hidden = np.maximum(w["edge.first"] @ [structural, similarity, keyword] + w["edge.first_bias"], 0)
        edge = w["edge.second"] @ hidden + w["edge.second_bias"]
        four = [given_.question.vector, np.broadcast_to(mean, DIM), given_.nodes.vectors[row], edge]
        all_four = np.concatenate(four)
        inner = np.maximum(w["score.first"] @ all_four + w["score.first_bias"], 0)
        assert score == pytest.approx((w["score.second"] @ inner + w["score.second_bias"]).item(), abs=1e-5)


def test_texts_of_a_path_are_embedded_together() -> None:
    texts = {"a": "Anna was born in Ulm.", "b": "Ulm lies on a river."}
    graph = FakeGraph([chunk(name, text) for name, text in texts.items()], {"a": [0.0] * DIM}, {})
    embedder = FakeEmbedder(DIM)
    scorer, given_ = scorer_of(path="texts"), candidates_of()
    scores = run(scorer.score(given_), Services(graph=graph, embedder=embedder))
    assert embedder.calls == [("Anna was born in Ulm.\n\nUlm lies on a river.",)]
    (path,) = embedder.embed_documents(embedder.calls[0])
    triples = given_.weights[:, [3, 2, 0]]
    expected = network_scores(scorer.weights, given_.question.vector, path, given_.nodes.vectors, triples)
    assert scores == pytest.approx(expected)
    with pytest.raises(MissingServiceError, match="Embed"):
        run(scorer.score(given_), Services(graph=graph))
    assert len(run(scorer.score(candidates_of(path="")), Services())) == 6  # no path, nothing to embed


def test_what_an_encoder_reads() -> None:
    titled = chunk("a", "Born in Ulm.", metadata={TITLE: "Anna"}, path=("Anna", "Life"))
    assert node_text(titled) == "Anna > Life\nBorn in Ulm."
    assert node_text(chunk("b", "# Anna\nBorn in Ulm.", metadata={TITLE: "Anna"})) == "# Anna\nBorn in Ulm."
    assert path_text([titled, chunk("b", "It is old.")]) == "Anna > Life\nBorn in Ulm.\n\nIt is old."


def test_the_identity_names_all_that_decides_a_score() -> None:
    others = [scorer_of(), scorer_of(seed=1), scorer_of(path="texts"), scorer_of(path="texts", encoder="x")]
    assert len({each.identity for each in (*others, scorer_of())}) == 4


def test_only_vectors_of_its_encoder_are_taken() -> None:
    scorer = scorer_of()
    assert scorer.for_encoder("maker/model@12ab") is scorer
    assert scorer.for_encoder("elsewhere/encoder@12ab") is scorer  # the same weights in another folder
    for other in ("maker/model@77ff", "maker/model", "", "@"):
        with pytest.raises(ParameterError, match="with which the scorer was trained: embed the library with it"):
            scorer.for_encoder(other)
    assert same_encoder("static/1", "static/1")
    assert not same_encoder("static/1", "other/1")
    with pytest.raises(ParameterError, match=r"length of the question's vector must be 4, .* got 3"):
        run(scorer.score(candidates_of(dim=3)), Services())


def test_weights_that_do_not_fit_are_refused() -> None:
    good = initial_weights(DIM, 5, 7, 0)
    with pytest.raises(ParameterError, match=r"weights must be edge\.first"):
        scorer_of(weights={name: each for name, each in good.items() if name != "score.second"})
    for name, wrong in (
        ("score.first", np.zeros((7, 15))),
        ("edge.first", np.zeros((5, 4))),
        ("edge.second", np.zeros(5)),
        ("score.second_bias", np.array([np.nan])),
    ):
        with pytest.raises(ParameterError):
            checked_weights({**good, name: wrong})
    with pytest.raises(ParameterError, match="path must be 'vectors' or 'texts'"):
        scorer_of(path="words")


def test_a_file_that_is_no_scorer_is_said(tmp_path: Path) -> None:
    path = tmp_path / "scorer.safetensors"
    scorer_of().save(path)
    whole = path.read_bytes()
    said = {"format": "catena-paper-scorer", "version": 1, "encoder": "x", "path": "vectors", "record": {}}
    for content, message in ((whole[:-9], "SafetensorError"), (b"{}", "SafetensorError"), (b"", "SafetensorError")):
        path.write_bytes(content)
        with pytest.raises(ParameterError, match=message):
            PaperScorer.load(path)
    for change, message in (
        ({"format": "other"}, "of the format"),
        ({"version": 2}, "of version 1 or before"),
        ({"encoder": None}, r"one that PaperScorer\.save wrote"),
        ({"path": "words"}, "path must be"),
    ):
        write_weights(path, scorer_of().weights, {**said, **change})
        with pytest.raises(ParameterError, match=message):
            PaperScorer.load(path)
    with pytest.raises(ParameterError, match="there is none"):
        PaperScorer.load(tmp_path / "absent")


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    write_weights(path, {"a": np.arange(3)}, {"format": "f", "version": 1})
    for bad in ({"a": object()}, {"a": float("nan")}):
        with pytest.raises(ParameterError, match="one that can be written"):
            write_weights(path, {"a": np.arange(4)}, bad)
    found, said = read_weights(path, form="f", version=1)
    assert found["a"].tolist() == [0, 1, 2]
    assert said == {"format": "f", "version": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["weights"]
    with pytest.raises(ParameterError, match="one that can be written"):
        write_weights(tmp_path / "weights" / "below", {"a": np.arange(4)}, {})


def test_a_report_can_be_drawn_and_kept() -> None:
    epochs = (Epoch(number=1, loss=2.0, validation_loss=1.9, accuracy=0.5, mrr=0.7), Epoch(number=2, loss=1.0))
    told = {"best_epoch": 1, "training_lists": 9, "validation_lists": 3, "stopped_early": False, "seconds": 1.0}
    report = TrainingReport(epochs=epochs, device="cpu", **told)
    assert report.curves() == {"epoch": (1.0, 2.0), "loss": (2.0, 1.0)}
    assert json.loads(json.dumps(report.record()))["validation_mrr"] == 0.7
