"""The rerank step: what it asks, how it orders, what a hit remembers, and what happens when the reranker fails."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena import ParameterError, Provenance, Services, arun, run
from catena.model import Degraded, Hit, MissingServiceError, Ranking, Scale, ScaleError, ServiceError, Unknown
from catena.segments import COHERE, Constant, Linear, Logistic, by_rank, rerank
from catena.segments.calibration import calibrated
from catena.testing import FakeReranker


def ranking_of(*texts: str, scale: Scale = Scale.NORMALIZED) -> Ranking:
    hits = (
        Hit(chunk(f"c{n}", text, position=n), 1.0 - n / 100, (Provenance(route="dense", rank=n + 1, score=0.5),))
        for n, text in enumerate(texts)
    )
    return Ranking(tuple(hits), scale, (Degraded("route keyword", "off"),), (Unknown("HX9"),))


def by_text(scores: dict[str, float]) -> FakeReranker:
    return FakeReranker(lambda _query, text: scores[text])


def ids(ranking: Ranking) -> list[str]:
    return [hit.chunk.id for hit in ranking.hits]


def test_hits_are_ordered_by_raw_score_and_hold_its_probability() -> None:
    reranker = by_text({"low": 0.1, "high": 0.9, "middle": 0.5})
    given = ranking_of("low", "high", "middle")
    found = run(rerank("q", given, calibration=COHERE), Services(reranker=reranker))
    assert ids(found) == ["c1", "c2", "c0"]
    assert [hit.score for hit in found.hits] == pytest.approx([0.760, 0.500, 0.240], abs=5e-4)
    assert (found.scale, found.degraded, found.unknown) == (Scale.PROBABILITY, given.degraded, given.unknown)
    assert found.hits[0].provenance == (
        Provenance(route="dense", rank=2, score=0.5),
        Provenance(route="rerank", rank=1, score=0.9),
    )
    assert reranker.calls == [("q", ("low", "high", "middle"))]
    assert ids(run(rerank("q", given, calibration=COHERE, k=1), Services(reranker=reranker))) == ["c1"]
    empty = Ranking((), Scale.RANK, (Degraded("x", "y"),))
    assert run(rerank("q", empty, calibration=COHERE), Services()) == replace(empty, scale=Scale.PROBABILITY)
    texts = [f"t{number}" for number in range(4)]  # ties keep their old rank
    tied = by_text(dict.fromkeys(texts, 0.3) | {"t2": 0.7})
    found = run(rerank("q", ranking_of(*texts), calibration=Constant(0.8)), Services(reranker=tied))
    assert [(hit.chunk.id, hit.score) for hit in found.hits] == [(name, 0.8) for name in ("c2", "c0", "c1", "c3")]


def test_requests_are_bounded_and_asked_in_one_batch() -> None:
    step = rerank("q", ranking_of(*"abcde"), calibration=COHERE, batch=2, text_of=lambda found: f"+{found.text}")
    requests = next(step)
    assert [request.texts for request in requests] == [("+a", "+b"), ("+c", "+d"), ("+e",)]  # type: ignore[attr-defined]
    assert {request.purpose for request in requests} == {"rerank"}  # type: ignore[attr-defined]
    with pytest.raises(StopIteration) as ended:
        step.send([(0.1, 0.2), (0.3, 0.4), (0.5,)])
    assert ids(ended.value.value) == ["c4", "c3", "c2", "c1", "c0"]


@given(st.lists(st.floats(-30.0, 30.0), max_size=25), st.integers(1, 7), st.sampled_from(list(Scale)))
def test_every_hit_comes_back_once_with_probabilities_that_never_rise(
    scores: list[float], batch: int, scale: Scale
) -> None:
    texts = [f"t{number}" for number in range(len(scores))]
    given_ranking = ranking_of(*texts, scale=scale)
    before = pickle.dumps(given_ranking)
    services = Services(reranker=by_text(dict(zip(texts, scores, strict=True))))
    found = run(rerank("q", given_ranking, calibration=Logistic(), batch=batch), services)
    assert sorted(ids(found)) == sorted(ids(given_ranking))
    assert all(0.0 <= hit.score <= 1.0 for hit in found.hits)
    assert all(one.score >= other.score for one, other in pairwise(found.hits))
    raw = [hit.provenance[-1].score for hit in found.hits]
    assert raw == sorted(scores, reverse=True)
    assert [hit.provenance[-1].rank for hit in found.hits] == list(range(1, len(scores) + 1))
    assert pickle.dumps(given_ranking) == before
    assert asyncio.run(arun(rerank("q", given_ranking, calibration=Logistic(), batch=batch), services)) == found
    assert pickle.loads(pickle.dumps(found)) == found


def bad_text(_query: str, text: str) -> float:
    if text == "bad":
        raise ServiceError("reranker", "down for the night")
    return 0.9


FAILING = Services(reranker=FakeReranker(bad_text))


def test_a_failing_reranker_is_an_error() -> None:
    with pytest.raises(ServiceError, match="down for the night"):
        run(rerank("q", ranking_of("a", "bad"), calibration=COHERE, batch=1), FAILING)
    for on_failure in ("raise", "rank"):  # a missing reranker is no failing one
        with pytest.raises(MissingServiceError):
            run(rerank("q", ranking_of("a"), calibration=COHERE, on_failure=on_failure), Services())


def test_the_old_order_can_stand_in_for_a_failing_reranker_and_says_so() -> None:
    old = ranking_of("a", "bad", "c")
    found = run(rerank("q", old, calibration=COHERE, batch=1, on_failure="rank", k=2), FAILING)
    assert [(hit.chunk.id, hit.score) for hit in found.hits] == [("c0", 0.8), ("c1", 0.8)]
    assert found.scale is Scale.PROBABILITY
    assert [hit.provenance for hit in found.hits] == [hit.provenance for hit in old.hits[:2]]
    assert (found.degraded[:1], found.degraded[1].what) == (old.degraded, "reranker")
    assert all(part in found.degraded[1].why for part in ("down for the night", "0.8"))


@dataclass
class _Rule:
    values: Callable[[np.ndarray], object]
    identity = "odd"

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return np.asarray(self.values(scores))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"k": -1}, "k must be"),
        ({"batch": 0}, "batch must be"),
        ({"on_failure": "ignore"}, "on_failure must be"),
        ({"calibration": _Rule(lambda scores: 1.0 - scores)}, "keeps the order"),
        ({"calibration": _Rule(lambda scores: scores * 9)}, r"one number in \[0, 1\]"),
        ({"calibration": _Rule(lambda scores: scores - 1)}, r"one number in \[0, 1\]"),
        ({"calibration": _Rule(lambda scores: scores[:1])}, r"one number in \[0, 1\]"),
    ],
)
def test_arguments_out_of_domain_are_refused(options: dict[str, object], named: str) -> None:
    step = rerank("q", ranking_of("a", "b"), **{"calibration": COHERE, **options})  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=named):
        run(step, Services(reranker=by_text({"a": 0.1, "b": 0.9})))


def test_a_rankings_own_scores_are_calibrated_in_place() -> None:
    hits = [Hit(chunk(f"c{n}", "a"), cosine) for n, cosine in enumerate((1.0, 0.6, -0.2, -1.0))]
    cosines = Ranking(tuple(hits), Scale.SIMILARITY)
    found = calibrated(cosines, Linear(-1.0, 1.0))
    assert [hit.score for hit in found.hits] == pytest.approx([1.0, 0.8, 0.4, 0.0])
    assert found.scale is Scale.PROBABILITY
    assert calibrated(Ranking((), Scale.NORMALIZED), COHERE) == Ranking((), Scale.PROBABILITY)
    for scale in (Scale.PROBABILITY, Scale.VALUE, Scale.RANK):
        with pytest.raises(ScaleError, match=scale.value):
            calibrated(ranking_of("a", scale=scale), COHERE)
    with pytest.raises(ParameterError, match="best first"):
        calibrated(Ranking(cosines.hits[::-1], Scale.SIMILARITY), Linear(-1.0, 1.0))


def test_by_rank_gives_all_hits_one_probability() -> None:
    found = by_rank(ranking_of("a", "b"), 0.6)
    assert [(hit.chunk.id, hit.score) for hit in found.hits] == [("c0", 0.6), ("c1", 0.6)]
    assert by_rank(ranking_of("a")).hits[0].score == 0.8
    with pytest.raises(ParameterError, match="value must be"):
        by_rank(ranking_of("a"), 1.5)
