"""Features of a hop by hand, the scorers over them, and the training of the small one."""

from __future__ import annotations

import pickle
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest
from graph_fakes import candidates
from numpy.typing import NDArray

from catena.effects import Services, run
from catena.graph import Choice, FeatureProgress, FeatureScorer, FeatureTraining, UntrainedScorer, fit
from catena.graph.scoring import FEATURES, SHIPPED, Candidates, features
from catena.model import Nodes, ParameterError

QUICK = FeatureTraining(networks=2, units=4, epochs=30, rounds=2, rate=0.02)
AT = {name: place for place, name in enumerate(FEATURES)}


def nodes(vectors: list[list[float]], counts: list[list[int]], titles: list[list[bool]], lengths: list[int]) -> Nodes:
    n, words = len(vectors), len(counts[0]) if counts else 0
    return Nodes(
        ids=tuple(f"n{i}" for i in range(n)),
        vectors=np.array(vectors, dtype=np.float32).reshape(n, 2),
        counts=np.array(counts, dtype=np.int32).reshape(n, words),
        in_title=np.array(titles, dtype=bool).reshape(n, words),
        lengths=np.array(lengths, dtype=np.int32),
        title_lengths=np.full(n, 2, dtype=np.int32),
    )


def ways_on(path: Nodes, to: Nodes, weights: list[list[float]], ranks: list[int]) -> Candidates:
    words = {"words": ("who", "paint", "harbou"), "holding": np.array([9, 1, 0]), "nodes": 10, "mean_length": 10.0}
    vector = np.array([1.0, 0.0], np.float32)
    return candidates(path, to, ("mention", "name", "semantic", "structural"), weights, ranks, vector=vector, **words)


PATH = nodes([[0.0, 1.0]], [[1, 0, 0]], [[False] * 3], [10])
TO = nodes([[1.0, 0.0], [0.0, 1.0]], [[1, 2, 0], [0, 0, 0]], [[False, True, False], [False] * 3], [10, 30])
TWO = ways_on(PATH, TO, [[0.8, 7.0, 0.0, 0.0], [0.0, 0.0, 0.4, 1.0]], [20, 21])


def test_features_of_two_candidates_by_hand() -> None:
    rows = features(TWO)

    idf_who, idf_paint = log(1 + 1.5 / 9.5), log(1 + 9.5 / 1.5)  # nobody holds "harbou": it says nothing of any node
    total = idf_who + idf_paint
    # of average length: 1 / (1 + 1.2) and 2 / (2 + 1.2)
    who, paint = idf_who / 2.2, idf_paint * 2 / 3.2
    # cosines with the question are 1 and 0, with the path 0 and 1, with q - m/2 2/sqrt(5) and -1/sqrt(5)
    first = dict(zip(FEATURES, rows[0].tolist(), strict=True))
    second = dict(zip(FEATURES, rows[1].tolist(), strict=True))
    expected = {
        **dict.fromkeys(("question", "rest", "ranked"), 1.0),
        **{"path": -1.0, "structural": 0.0, "semantic": 0.0, "mention": 0.8, "mentioned": 0.0, "title": 0.5},
        "name": 1.0,  # 7 of at most 5
        "covered": 1.0,  # all that any node holds
        **{"words": (who + paint) / total, "new_matches": paint / total},
    }
    assert first == pytest.approx(expected, abs=1e-6)
    assert second["semantic"] == second["structural"] == 1.0
    assert second["ranked"] == 0.0
    assert second["covered"] == pytest.approx(idf_who / total)  # by the passage that leads to it
    assert [second[name] for name in ("question", "words", "title")] == [-1.0, 0.0, 0.0]
    apart = features(ways_on(PATH, TO, [[0.0] * 4] * 2, [0, 2]))  # 0 was not ranked
    assert apart[:, AT["ranked"]].tolist() == [0.0, 1.0]
    assert apart[:, AT["covered"]].tolist() == pytest.approx([1.0, 0.0])  # without an edge, by itself


def test_without_a_path_all_words_are_new_and_the_rest_is_the_question() -> None:
    nowhere = nodes([], [], [], [])
    rows = features(ways_on(replace(nowhere, counts=np.zeros((0, 3), np.int32)), TO, [[0.0] * 4] * 2, [1, 2]))

    assert rows[:, AT["path"]].tolist() == [0.0, 0.0]
    assert rows[:, AT["rest"]].tolist() == rows[:, AT["question"]].tolist()
    assert rows[0, AT["new_matches"]] == pytest.approx(rows[0, AT["words"]])


def test_the_untrained_scorer_is_a_weighted_sum() -> None:
    scores = run(UntrainedScorer().score(TWO), Services())

    who, paint = log(1 + 1.5 / 9.5), log(1 + 9.5 / 1.5)
    words = (who / 2.2 + paint * 2 / 3.2) / (who + paint)
    # question 1, name 1, mention 0.8, covered 1, words, ranked 1; and question -1, covered
    first = 0.12 + 0.2 + 0.3 * 0.8 + 1.2 + 0.5 * words + 0.1
    assert scores == pytest.approx([first, -0.12 + 1.2 * who / (who + paint)])
    assert run(UntrainedScorer(weights={"mention": 1.0}).score(TWO), Services()) == pytest.approx([0.8, 0.0])
    assert UntrainedScorer().identity != UntrainedScorer(weights={"mention": 1.0}).identity
    assert pickle.loads(pickle.dumps(UntrainedScorer())) == UntrainedScorer()
    for weights in ({"mentions": 1.0}, {"mention": float("nan")}, {"mention": "x"}):
        with pytest.raises(ParameterError, match="weights"):
            UntrainedScorer(weights=weights)


def small_weights(**changed: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    count = len(FEATURES)
    hidden = np.zeros((2, count, 1), np.float32)
    hidden[0, AT["mention"], 0], hidden[1, AT["title"], 0] = 1.0, 2.0
    weights = {
        "hidden": hidden,
        "bias": np.array([[0.0], [0.5]], np.float32),
        "out": np.array([[1.0], [3.0]], np.float32),
        "mean": np.zeros(count, np.float32),
        "spread": np.full(count, 0.5, np.float32),
    }
    return weights | changed


def test_the_small_networks_by_hand() -> None:
    scores = run(FeatureScorer(weights=small_weights()).score(TWO), Services())

    # features over 0.5: mention 1.6, title 1.0 of the first candidate, 0 of the second
    assert scores == pytest.approx(
        [(np.tanh(1.6) + 3 * np.tanh(2.0 * 1.0 + 0.5)) / 2, (0 + 3 * np.tanh(0.5)) / 2], abs=1e-6
    )


def test_a_scorer_of_other_features_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scorer.safetensors"
    FeatureScorer(weights=small_weights()).save(path)
    path.write_bytes(path.read_bytes().replace(b"mentioned", b"mentioner"))
    with pytest.raises(ParameterError, match="features of this version"):
        FeatureScorer.load(path)


@pytest.mark.parametrize(
    "changed",
    [
        {"hidden": np.zeros((2, 3, 1), np.float32)},
        {"bias": np.zeros(2, np.float32)},
        {"out": np.full((2, 1), np.nan, np.float32)},
        {"spread": np.zeros(len(FEATURES), np.float32)},
    ],
)
def test_weights_that_do_not_fit_are_refused(changed: dict[str, NDArray[np.float32]]) -> None:
    with pytest.raises(ParameterError, match="weights"):
        FeatureScorer(weights=small_weights(**changed))
    missing = {name: array for name, array in small_weights().items() if name != "out"}
    with pytest.raises(ParameterError, match="also out"):
        FeatureScorer(weights=missing)


def test_the_shipped_scorer_is_small_and_documented_and_prefers_a_node_that_is_named_and_new() -> None:
    scorer = FeatureScorer.shipped()
    assert SHIPPED.stat().st_size <= 4_000_000
    assert {"collections", "embedders", "choices"} <= set(scorer.record)
    assert (SHIPPED.parent / "README.md").read_text(encoding="utf-8").count(scorer.identity) == 1
    first, second = run(scorer.score(TWO), Services())
    assert first > second


def choice(right: int, *, seed: int, wrong: int = 6) -> Choice:
    """Return a choice whose right way on is the one with a mention."""
    random = np.random.default_rng(seed)
    rows = random.normal(0, 1, (wrong + 1, len(FEATURES))).astype(np.float32)
    rows[:, AT["mention"]] = 0.0
    rows[right, AT["mention"]] = 1.0
    return Choice(rows=rows, right=np.arange(wrong + 1) == right)


def test_training_finds_the_feature_that_tells() -> None:
    taught = fit([choice(seed % 7, seed=seed) for seed in range(60)], QUICK)

    unseen = [choice(seed % 7, seed=seed) for seed in range(100, 140)]
    hits = [int(taught.of_features(each.rows).argmax()) == int(each.right.argmax()) for each in unseen]
    assert sum(hits) >= 38
    losses = taught.record["loss_per_epoch"]
    assert losses[-1] < losses[0] / 2
    few = [choice(seed % 7, seed=seed) for seed in range(20)]
    assert fit(few, QUICK).identity == fit(few, QUICK).identity != fit(few, replace(QUICK, seed=1)).identity


def test_a_feature_that_never_varied_in_training_says_nothing_later() -> None:
    """In a collection of lone passages nothing stands next to anything; on real documents it does."""
    choices = [choice(seed % 7, seed=seed) for seed in range(10)]
    for each in choices:
        each.rows[:, AT["structural"]] = 0.0
    taught = fit(choices, QUICK)

    rows = choices[0].rows.copy()
    rows[:, AT["structural"]] = 1.0
    assert taught.of_features(rows).tolist() == taught.of_features(choices[0].rows).tolist()


def test_slopes_are_those_of_the_loss() -> None:
    from catena.graph.feature_training import _slopes

    random = np.random.default_rng(0)
    weights = [random.normal(0, 0.5, shape) for shape in ((len(FEATURES), 3), (3,), (3,))]
    given_ = [(each.rows.astype(np.float64), each.right) for each in (choice(2, seed=1), choice(0, seed=2, wrong=3))]
    loss, slopes = _slopes(weights, given_)
    powers = [np.exp(np.tanh(rows @ weights[0] + weights[1]) @ weights[2]) for rows, _ in given_]
    shares = [each[right].sum() / each.sum() for each, (_, right) in zip(powers, given_, strict=True)]
    assert loss == pytest.approx(-np.log(shares).mean())
    for place, slope in enumerate(slopes):
        for at in np.ndindex(slope.shape):
            shifted = [each.copy() for each in weights]
            shifted[place][at] += 1e-6
            assert (_slopes(shifted, given_)[0] - loss) / 1e-6 == pytest.approx(slope[at], abs=1e-5)


def test_adam_by_hand() -> None:
    from catena.graph.feature_training import _Adam

    weights = [np.array([1.0, 1.0]), np.array([[2.0]])]
    adam = _Adam(weights, 0.5)
    adam.step(weights, [np.array([4.0, -0.01]), np.array([[1e-8]])])
    # the first step is the rate, whatever the slope, but for the 1e-8 beside it
    assert [each.tolist() for each in weights] == [pytest.approx([0.5, 1.5]), [pytest.approx([2.0 - 0.5 / 2])]]
    adam.step(weights, [np.zeros(2), np.zeros((1, 1))])
    # 0.9 * 0.1 / (1 - 0.9^2) of the slope, over the root of 0.999 * 0.001 / (1 - 0.999^2) of its square
    step = 0.5 * (0.09 / 0.19) / (0.000999 / 0.001999) ** 0.5
    assert weights[0] == pytest.approx([0.5 - step, 1.5 + step])


def test_each_feature_is_measured_from_its_mean_in_its_spread() -> None:
    choices = [choice(seed % 7, seed=seed) for seed in range(9)]
    told: list[FeatureProgress] = []
    taught = fit(choices, replace(QUICK, epochs=1, batch=4, hidden=0.0), watch=told.append)

    rows = np.concatenate([each.rows for each in choices]).astype(np.float64)
    assert taught.weights["mean"] == pytest.approx(rows.mean(axis=0), abs=1e-6)
    assert taught.weights["spread"] == pytest.approx(rows.std(axis=0) + 1e-3, rel=1e-6)
    assert taught.weights["hidden"].shape == (2, len(FEATURES), 4)
    assert told == [FeatureProgress(stage="networks", done=done, total=2) for done in (1, 2)]
    assert taught.record["choices"] == 9


def test_choices_without_a_right_or_a_wrong_way_teach_nothing() -> None:
    good = choice(1, seed=3)
    useless = [Choice(rows=good.rows, right=np.full(7, value)) for value in (True, False)]

    assert fit([good, *useless], QUICK).identity == fit([good], QUICK).identity
    with pytest.raises(ParameterError, match="choices of the training walks"):
        fit(useless, QUICK)
