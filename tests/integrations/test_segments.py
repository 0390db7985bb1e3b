"""Rerankers and segments over a user's own stores, in both frameworks: exact slices by hand-made numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import pytest
from adapter_faces import Refused, ids, told

from catena import Library
from catena.model import ParameterError, ServiceError
from catena.segments import BALANCED, COHERE, Artefact, Constant, Identity, SegmentSearch, fit_beta
from catena.testing import FakeReranker, Flaky, Found

TEXTS = [f"{letter * 699}\n" for letter in "abcdefgh"]  # of the reference length: every length factor is 1
QUERY = "what?"
WORDS = ("aaaa", "bb", "cccccc")
EXTRACTOR, RERANK = "CatenaSegmentExtractor", "CatenaRerank"


def hits(face: Any, passages: list[Any], **scores: float) -> list[Any]:
    """Return some passages with scores, by their letter."""
    return face.scored([passages["abcdefgh".index(letter)] for letter in scores], list(scores.values()))


def letters(found: list[Found]) -> list[str]:
    return ["".join(sorted({letter for letter in each.text if letter.isalpha()})) for each in found]


# Segments.


async def test_a_segment_is_worth_what_its_passages_are_and_is_an_exact_slice(face: Any) -> None:
    passages = face.chain("d", TEXTS)
    stage = face.make(EXTRACTOR, neighbours=face.store(passages), calibration=Identity())
    given = hits(face, passages, b=0.9, d=0.8)
    (found,) = face.process(stage, given, QUERY)
    assert found.score == pytest.approx((0.9 - 0.18) - 0.18 + (0.8 * exp(-1 / 30) - 0.18), abs=1e-12)
    assert (found.text, found.document_id) == ("".join(TEXTS[1:4]), "d")
    assert (found.start, found.end) == (700, 2800)
    chunks = told(found).get("chunk_ids") or json.loads(found.metadata["chunk_ids"])
    assert chunks == ["d-1", "d-2", "d-3"]
    assert (found.metadata["citation"], found.metadata["first_position"]) == ("Manual d", 1)
    with face.unblocked():
        assert await face.aprocess(stage, given, QUERY) == [found]
    without = [passages[1], *passages[3:]]
    for walled in (None, face.store(without)):  # what nobody found is a wall, and what was deleted
        stage = face.make(EXTRACTOR, neighbours=walled, calibration=Identity())
        assert sorted(letters(face.process(stage, hits(face, passages, b=0.9, d=0.8), QUERY))) == ["b", "d"]
        joined = face.process(stage, hits(face, passages, d=0.9, e=0.7, g=0.9), QUERY)
        assert sorted(letters(joined)) == ["de", "g"] if walled is None else ["defg"]
    assert face.process(stage, [], QUERY) == []


def test_passages_that_do_not_say_where_they_begin_are_joined_with_a_blank_line_between(face: Any) -> None:
    passages = face.chain("d", TEXTS, offsets=False)
    stage = face.make(EXTRACTOR, neighbours=face.store(passages), calibration=Identity())
    (found,) = face.process(stage, hits(face, passages, b=0.9, d=0.8), QUERY)
    assert found.text == "\n\n".join(TEXTS[1:4])


def test_scores_that_nobody_calibrated_are_refused_and_missing_ones_leave_the_order(face: Any) -> None:
    passages, stage = face.chain("d", TEXTS), face.make(EXTRACTOR)
    with pytest.raises(ParameterError, match="no probabilit"):
        face.process(stage, hits(face, passages, b=0.9), QUERY)
    for options, value in (({}, 1.0), ({"params": BALANCED}, (0.8 - 0.18) + (0.8 * exp(-1 / 30) - 0.18))):
        (by_order,) = face.process(face.make(EXTRACTOR, **options), face.unscored(passages[1:3]), QUERY)
        assert by_order.score == pytest.approx(value, abs=1e-12)
    small = face.process(face.make(EXTRACTOR, budget_tokens=300), face.unscored(passages), QUERY)
    assert letters(small) == ["ab"]
    rerank = face.make(RERANK, reranker=FakeReranker(lambda query, text: 0.9), calibration=Identity())
    (rated,) = face.process(stage, face.processed(rerank, hits(face, passages, b=0.1), QUERY), QUERY)
    assert rated.score == pytest.approx(0.9 - 0.18, abs=1e-12)


def test_the_best_is_returned_though_it_is_worth_little_and_that_is_told(face: Any, caplog: Any) -> None:
    passages = face.chain("d", TEXTS)
    weak = hits(face, passages, b=0.3, f=0.2)
    (found,) = face.process(face.make(EXTRACTOR, calibration=Identity()), weak, QUERY)
    assert (letters([found]), "none is worth" in found.told[0], "none is worth" in caplog.text) == (["b"], True, True)
    assert face.process(face.make(EXTRACTOR, calibration=Identity(), never_empty=False), weak, QUERY) == []


MANUAL = "# {0} manual\n\n## Mounting\n\nThe cover of the {0} takes screws, tightened to {1} Nm.\n"
LOOSE = SegmentSearch(extraction=replace(BALANCED, length_adjustment="off"), calibration=Identity())


async def test_a_model_writes_queries_and_a_reranker_scores(face: Any, tmp_path: Path) -> None:
    model, reranker = face.model('["tightened to 14 Nm", "six screws"]'), FakeReranker()
    passages = face.chain("d", ["Remark one. ", "Six screws are tightened to 14 Nm. ", "Remark two. "])
    base = face.finding(*face.scored(passages, (0.3, 0.2, 0.1)))
    how: dict[str, Any] = {"options": replace(LOOSE, queries_by="llm"), "neighbours": face.store(passages)}
    retriever = face.make("CatenaSegmentRetriever", retriever=base, llm=model, reranker=reranker, **how)
    found = face.ask(retriever, "Closing?")
    assert "Six screws" in found[0].text
    assert {query for query, _ in reranker.calls} == {"Closing?", "tightened to 14 Nm", "six screws"}
    assert face.asked(model) == 1
    with face.unblocked():
        assert await face.aask(retriever, "Closing?") == found


def test_a_library_gives_the_neighbours_of_what_was_found_in_it(face: Any, tmp_path: Path) -> None:
    for name, torque in (("HX200", "12"), ("HX210", "14")):
        (tmp_path / f"{name}.md").write_text(MANUAL.format(name, torque), encoding="utf-8")
    with Library.open(tmp_path / "library") as library:
        library.index([tmp_path])
        question = "What is the torque of the HX210 cover?"
        found = face.invoke(face.make("CatenaRetriever", library=library), question)
        stage = face.make(EXTRACTOR, neighbours=library, calibration=Constant(), params=LOOSE.extraction)
        (segment, *_) = face.process(stage, found, question)
        whole = library.get("HX210.md").document.text
        assert segment.document_id == "HX210.md"
        assert whole[segment.start : segment.end] == segment.text


# Reranking.


def rerank(face: Any, reranker: Any, calibration: Any, **how: Any) -> list[Found]:
    given = [face.piece(word, word, 0.5 - rank / 10) for rank, word in enumerate(WORDS)]
    return face.process(face.make(RERANK, reranker=reranker, calibration=calibration, **how), given, "q")


def by_length() -> FakeReranker:
    return FakeReranker(lambda query, text: len(text) / 10)


def test_scores_are_calibrated_probabilities_in_the_rerankers_order(face: Any) -> None:
    found = rerank(face, by_length(), COHERE)
    assert ids(found) == ["cccccc", "aaaa", "bb"]
    assert [each.score for each in found] == pytest.approx([float(COHERE(x)) for x in (0.6, 0.4, 0.2)], abs=1e-12)
    assert told(found[0])["scale"] == "probability"
    assert told(found[1])["routes"][-1].items() >= {"route": "rerank", "rank": 2, "score": 0.4}.items()
    assert ids(rerank(face, by_length(), COHERE, top_n=2)) == ["cccccc", "aaaa"]


def test_what_was_found_and_what_failed_before_is_still_told(face: Any) -> None:
    twice = face.make(RERANK, reranker=by_length(), calibration=Identity())
    good = face.piece("a", "aaaa", 0.5)
    retriever = face.package.CatenaRetriever.over(
        {"good": face.finding(good), "gone": face.failing(Refused("it is gone"))}
    )
    once = face.processed(twice, face.invoke(retriever, "q"), "q")
    (found,) = face.process(twice, once, "q")
    assert found.routes == ("good", "rerank", "rerank")
    assert [said.startswith("route gone: ") for said in found.told] == [True]


def test_a_reranker_that_fails_raises_or_leaves_the_old_order_and_is_told(face: Any, caplog: Any) -> None:
    def failing() -> Any:
        return Flaky(FakeReranker(), [Refused("api_key=abc123 was cut off")] * 9)

    with pytest.raises(ServiceError, match="cut off"):
        rerank(face, failing(), COHERE)
    found = rerank(face, failing(), COHERE, on_failure="rank")
    assert [(each.id, each.score) for each in found] == [(word, 0.8) for word in WORDS]
    assert "reranker: " in caplog.text
    assert all("abc123" not in said for said in (*found[0].told, caplog.text))


def test_a_fit_of_another_reranker_is_refused(face: Any) -> None:
    fit = fit_beta([x / 40 for x in range(1, 40)])
    mine, other = (Artefact(fit=fit, model=name) for name in ("fake-reranker", "another"))
    found = rerank(face, by_length(), mine)
    assert [each.score for each in found] == pytest.approx([float(fit.calibration(x)) for x in (0.6, 0.4, 0.2)])
    with pytest.raises(ValueError, match="another"):
        rerank(face, FakeReranker(), other)


def test_nothing_is_asked_for_nothing(face: Any) -> None:
    reranker = FakeReranker()
    assert face.process(face.make(RERANK, reranker=reranker, calibration=Identity()), [], "q") == []
    assert reranker.calls == []
