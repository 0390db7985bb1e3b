"""Tuned weights: grid points are judged as whole rankings, folds keep together what belongs so, luck is not kept."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.effects import Search, Services, run
from catena.evaluation import log_rank_index
from catena.model import Hit, ModelMismatchError, ParameterError, Provenance, Ranking, Scale, ServiceError
from catena.retrieval import Labelled, ScoreFusion, Tuned, clusters_of, retrieve, tune
from catena.retrieval.tuning import folds_of
from catena.testing import FakeEmbedder
from catena.testing.fakes import FakeStore

CHUNKS = {name: chunk(name) for name in "abcdefghij"}
Scores = dict[str, dict[str, dict[str, float]]]  # question -> route -> chunk -> raw score


def services(scores: Scores) -> Services:
    def answer(request: Search) -> Ranking:
        found = scores[request.query].get(request.route, {})
        hits = (
            Hit(CHUNKS[name], score, (Provenance(route=request.route, rank=1, score=score),))
            for name, score in found.items()
            if request.among is None or name in request.among
        )
        return Ranking.of(hits, Scale.SIMILARITY)

    return Services(store=FakeStore(dict.fromkeys(("dense", "lexical", "keyword"), answer)), embedder=FakeEmbedder(8))


def question(name: str, *gold: str, group: str = "") -> Labelled:
    items = tuple(frozenset(item) for item in gold)
    return Labelled(id=name, text=name, items=items, groups=frozenset([group or name]))


def tuned(scores: Scores, questions: list[Labelled], **given) -> Tuned:
    return run(tune(questions, **{"n": 10, "model": "m", "folds": 2, **given}), services(scores))


def random_scores(seed: int, questions: int) -> Scores:
    draw = random.Random(seed)
    return {
        f"q{number}": {
            "dense": {name: draw.choice([-0.5, 0.0, 0.3, 0.8]) for name in CHUNKS},
            "lexical": {name: draw.choice([1.0, 4.0, 8.0]) for name in CHUNKS if draw.random() < 0.6},
            "keyword": {name: float(draw.randrange(1, 4)) for name in CHUNKS if draw.random() < 0.3},
        }
        for number in range(questions)
    }


@settings(max_examples=15)
@given(st.integers(0, 10_000))
def test_every_point_of_the_grid_is_judged_as_its_whole_ranking(seed: int) -> None:
    scores = random_scores(seed, 4)
    questions = [question(name, "ab", "c") for name in scores]
    found = tuned(scores, questions, alphas=[0.0, 0.4, 1.0], betas=[0.0, 0.5], depth=10)
    for row, alpha in enumerate(found.alphas):
        for column, beta in enumerate(found.betas):
            values = []
            for each in questions:
                fusion = ScoreFusion(alpha=alpha, beta=beta)
                ranking = run(retrieve(each.text, k=10, depth=10, fusion=fusion), services(scores))
                place = {hit.chunk.id: (-hit.score, number) for number, hit in enumerate(ranking.hits)}
                first = {min(item, key=lambda name: place.get(name, (9.0, 99))) for item in each.items}
                values.append(log_rank_index(first, ranking, n=10).value)
            assert found.surface[row][column] == pytest.approx(sum(values) / len(values), abs=1e-9)


def test_recall_by_hand() -> None:
    scores: Scores = {
        name: {"lexical": {"a": 8.0, "b": 4.0, "c": 2.0}, "dense": {"c": 0.9, "b": 0.2, "a": -1.0}} for name in "qr"
    }
    found = tuned(
        scores, [question("q", "a"), question("r", "c")], objective="recall", k=1, alphas=[0.0, 1.0], betas=[0.0]
    )
    assert (found.alphas, found.betas) == ((0.0, 1.0), (0.0,))
    assert [row[0] for row in found.surface] == [0.5, 0.5]  # alpha 0 ranks a first, alpha 1 c
    assert (found.k, found.objective) == (1, "recall")


def needs_names(count: int) -> tuple[Scores, list[Labelled]]:
    """Questions whose answer only the critical terms tell, against a word route that is strong and wrong."""
    strong, alike = {"a": 9.0, "b": 5.0, "c": 1.0}, {"a": 0.9, "b": 0.5, "c": 0.1}
    scores: Scores = {f"q{n}": {"lexical": strong, "dense": alike, "keyword": {"b": 1.0}} for n in range(count)}
    return scores, [question(name, "b") for name in scores]


def test_a_gain_that_holds_on_questions_not_looked_at_is_adopted() -> None:
    found = tuned(*needs_names(12), folds=3)
    assert found.adopted
    assert (found.alpha, found.beta) == found.chosen
    assert found.gain == pytest.approx(found.held_out - found.held_out_usual)
    assert found.held_out == 1.0
    assert found.chosen == (0.2, 0.75)  # "b" is half way between "a" and "c", by both routes: ln 2 * beta > 0.5
    assert sum(fold.questions for fold in found.folds) == found.questions == 12
    assert found.interval[0] <= found.gain <= found.interval[1]


def test_of_equally_good_weights_those_nearest_to_the_defaults_are_taken() -> None:
    scores: Scores = {name: {"lexical": {"a": 9.0, "b": 1.0}} for name in ("q", "r")}
    found = tuned(scores, [question("q", "a"), question("r", "a")])
    assert not found.adopted
    assert found.chosen == found.usual == (None, 0.1) == (found.alpha, found.beta)
    assert found.gain == 0.0


def test_within_one_standard_error_of_the_best_the_defaults_stay() -> None:
    """Two of twelve gain by names, one loses: the best point is above the defaults, and not surely so."""
    scores, questions = needs_names(12)
    for number in range(3, 12):
        scores[f"q{number}"] = {"lexical": {"b": 1.0}}
    scores["q2"]["keyword"] = {"b": 1.0}
    questions[2] = question("q2", "a")
    found = tuned(scores, questions)
    assert max(map(max, found.surface)) > found.held_out_usual
    assert found.chosen == found.usual


def test_a_fold_is_judged_by_what_the_others_taught() -> None:
    """One group needs the dense route alone, the other the lexical one: each is held out of its own cure."""
    right, wrong = {"a": 9.0, "b": 1.0}, {"b": 0.9, "a": -0.9}
    scores: Scores = {
        **{f"d{number}": {"dense": {"b": 0.9, "a": -0.9}, "lexical": right} for number in range(3)},
        **{f"l{number}": {"dense": wrong, "lexical": right} for number in range(2)},
    }
    questions = [question(name, "b" if name[0] == "d" else "a", group=name[0]) for name in scores]
    found = tuned(scores, questions)
    dense, lexical = found.folds
    assert (dense.questions, lexical.questions) == (3, 2)
    assert (dense.alpha, lexical.alpha > 0.5) == (None, True)  # the defaults do for those of the lexical route
    assert dense.held_out < 1 > lexical.held_out


def test_a_gain_below_what_can_be_detected_leaves_the_defaults() -> None:
    scores, questions = needs_names(40)
    for number in range(3, 40):  # three of forty gain
        scores[f"q{number}"] = {"lexical": {"b": 1.0}}
    found = tuned(scores, questions)
    assert 0 <= found.gain < found.detectable or found.gain == 0
    assert not found.adopted
    assert found.fusion_for("m") == ScoreFusion()


def test_what_no_route_found_earns_nothing_and_no_gold_is_left_out() -> None:
    scores: Scores = {name: {"lexical": {"a": 1.0}} for name in "qrs"}
    found = tuned(scores, [question("q", "a", "j"), question("r", "a"), question("s")])
    assert found.left_out == 1
    assert found.questions == 2
    assert found.held_out == pytest.approx((0.5 + 1.0) / 2)


def test_each_route_is_asked_once_where_it_gives_all_that_it_has() -> None:
    scores, questions = needs_names(4)
    answering = services(scores)
    run(tune(questions, n=10, model="m", folds=2), answering)
    asked = [call for call in answering.store.calls if isinstance(call, Search)]
    assert len(asked) == 4 * 3
    assert {call.k for call in asked} == {100}


@given(st.lists(st.frozensets(st.sampled_from("abcdefgh"), max_size=3), min_size=2, max_size=14), st.integers(2, 4))
def test_folds_share_no_name_and_hold_each_question_once(groups: list[frozenset[str]], folds: int) -> None:
    questions = [Labelled(id=f"q{number}", text="", items=(), groups=names) for number, names in enumerate(groups)]
    clusters = clusters_of(questions)
    parts = folds_of(np.array(clusters), folds)
    assert sorted(place for part in parts for place in part) == list(range(len(groups)))
    seen = [frozenset().union(*(groups[place] for place in part)) for part in parts]
    assert all(one.isdisjoint(other) for at, one in enumerate(seen) for other in seen[at + 1 :])
    linked = [Labelled(id=name, text="", items=(), groups=frozenset(name)) for name in ("a", "ab", "bc", "d", "")]
    assert clusters_of(linked) == [0, 0, 0, 1, 2]


def test_it_travels_as_json_for_its_own_model(tmp_path: Path) -> None:
    found = tuned(*needs_names(6), library="12 chunks")
    found.save(tmp_path / "tuned.json")
    assert Tuned.load(tmp_path / "tuned.json") == found
    assert found.fusion_for("m") == ScoreFusion(alpha=found.alpha, beta=found.beta)
    with pytest.raises(ModelMismatchError, match="'m', its vectors are of 'other'"):
        found.fusion_for("other", path="library")
    with pytest.raises(ParameterError, match="alpha"):
        Tuned.from_json(json.dumps({**json.loads(found.to_json()), "alpha": 7}))
    with pytest.raises(ParameterError, match="can be written"):
        found.save(tmp_path / "no" / "such" / "folder.json")


@pytest.mark.parametrize(
    ("held", "match"),
    [
        (None, "No such file"),
        (b"\xff\xfe\xff", "UTF-8"),
        *((text, "catena tune --out") for text in (b"", b"[]", b"{}", b'{"format": "x"}', b"{" * 9_000, b"null")),
        (b'{"format": "catena-tuned-1"}', "catena tune --out"),
    ],
)
def test_another_file_is_named_as_such(held: bytes | None, match: str, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    if held is not None:
        file.write_bytes(held)
    with pytest.raises(ParameterError, match=match):
        Tuned.load(file)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"objective": "luck"}, "objective"),
        ({"folds": 7}, "in at least 7 groups"),
        *(({name: least - 1}, f"{name} must be") for name, least in {"n": 2, "k": 1, "depth": 1, "folds": 2}.items()),
        ({"alphas": [1.5]}, "alpha"),
        ({"betas": [-1]}, "beta"),
    ],
)
def test_arguments_out_of_their_domain(given: dict, match: str) -> None:
    scores, questions = needs_names(6)
    with pytest.raises(ParameterError, match=match):
        tuned(scores, questions, **given)
    with pytest.raises(ParameterError, match="occurs twice"):
        tuned(scores, [*questions, replace(questions[0], text="q1")])
    no_route = Services(store=FakeStore({"lexical": Ranking((), Scale.SIMILARITY)}), embedder=FakeEmbedder(8))
    with pytest.raises(ServiceError, match="no route"):
        run(tune(questions, n=10, model="m", folds=2), no_route)
