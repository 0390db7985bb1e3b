"""Answers with citations that are looked up, and what judges rankings and answers, in both frameworks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from adapter_faces import Refused, quoting
from langchain_fakes import library_of

from catena import Library
from catena.answering import AnswerOptions
from catena.model import ServiceError
from catena.segments import ExtractionParams, SegmentSearch

MANUAL = "# {0} manual\n\n## Cover\n\nTighten the cover screws of the {0} to {1} Nm, crosswise, in two passes.\n\n"
MANUAL += "## Data\n\n| Quantity | Value |\n|---|---|\n| Mass of the unit | {2} |\n"
TOLD = (("HX200", "3.2", "2 kg"), ("HX210", "4.5", "3 kg"))
QUESTION = "How tight are the cover screws of the HX210?"
LOOSE = SegmentSearch(extraction=ExtractionParams(minimum_value=0.0, length_adjustment="off"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    texts = {f"{name.lower()}.md": MANUAL.format(name, torque, mass) for name, torque, mass in TOLD}
    with library_of(tmp_path_factory.mktemp("manuals"), texts) as opened:
        yield opened


def segments(face: Any, library: Library, **how: Any) -> Any:
    return face.make("CatenaSegmentRetriever", library=library, options=LOOSE, **how)


async def test_an_answer_says_what_of_it_is_proved_and_where(face: Any, library: Library) -> None:
    source, model = segments(face, library), face.model(quoting)
    result = face.answer(source, model, QUESTION)
    with face.unblocked():
        assert await face.aanswer(source, model, QUESTION) == result
    assert result["answer"].startswith("Tighten them to 4.5 Nm [")
    good, bad = result["citations"]
    number = good["number"]
    assert (good["verified"], good["state"], good["citation"]) == (True, "exact", "HX210 manual, line 5")
    assert (bad["verified"], bad["state"]) == (False, "missing")
    text = library.get(good["document_id"]).document.text
    assert text[good["start"] : good["end"]] == good["quote"]
    assert good["quote"] in result["texts"][number - 1]
    assert (result["unsupported"], result["coverage"]) == ([f"They are of gold [{number}]."], 0.5)
    assert json.loads(json.dumps(result)) == result


def test_values_in_which_documents_differ_are_pointed_out_and_told_to_the_model(face: Any, library: Library) -> None:
    model, question = face.model(quoting), "What is the mass of the HX200 and of the HX210?"
    result = face.answer(segments(face, library), model, question)
    (conflict,) = [each for each in result["conflicts"] if "Mass" in each["label"]]
    assert (conflict["kind"], len(conflict["passages"])) == ("between_documents", 2)
    assert all(part in face.prompts(model)[0] for part in ("2 kg", conflict["note"]))
    off = face.answer(segments(face, library), model, question, options=AnswerOptions(conflicts=False))
    assert off["conflicts"] == []


def test_where_nothing_is_found_no_model_is_asked_and_what_is_missing_is_told(face: Any, library: Library) -> None:
    model, nowhere = face.model("no"), QUESTION.replace("HX210", "HX290")
    for source in (library, segments(face, library), face.make("CatenaRetriever", library=library)):
        result = face.answer(source, model, nowhere)
        assert (result["citations"], result["coverage"]) == ([], 0.0)
        assert result["unknown"] == ["'HX290' stands nowhere in the documents; near it: HX200, HX210"]
    nothing = face.answer(face.finding(), model, QUESTION)
    assert (nothing["citations"], nothing["unsupported"], nothing["unknown"]) == ([], [], [])
    assert face.asked(model) == 0


def test_any_retriever_will_do(face: Any) -> None:
    text = "Tighten the cover screws of the HX210 to 4.5 Nm, crosswise."
    found = face.finding(face.piece("a", text, 0.9), face.piece("b", "Nobody says whose.", 0.0))
    result = face.answer(found, face.model(quoting), QUESTION)
    assert [each["verified"] for each in result["citations"]] == [True, False]
    assert result["texts"] == [text, "Nobody says whose."]


def test_a_budget_leaves_out_what_does_not_fit(face: Any, library: Library) -> None:
    model, source = face.model(quoting), segments(face, library)
    small = face.answer(source, model, QUESTION, options=AnswerOptions(budget_tokens=60))
    whole = face.answer(source, model, QUESTION)
    assert 0 < sum(map(len, small["texts"])) < sum(map(len, whole["texts"]))
    assert all(text.strip() in face.prompts(model)[0] for text in small["texts"])


def test_a_model_that_fails_is_told_by_name(face: Any, library: Library) -> None:
    def fails(prompt: str) -> str:
        raise Refused("no credit")

    with pytest.raises(ServiceError, match="no credit"):
        face.answer(segments(face, library), face.model(fails), QUESTION)
    untidy = face.answer(segments(face, library), face.model("4.5 Nm [7]."), QUESTION)
    assert (untidy["citations"], bool(untidy["unsupported"]), "[7]" in untidy["answer"]) == ([], True, False)


async def test_a_question_becomes_searches_by_a_model_or_without_one(face: Any) -> None:
    compound = "When was the pump built? Who built it?"
    assert len(face.searches(compound)) == 2
    assert face.searches(compound, face.model('["pump built when", "builder of the pump"]'))[-2:] == [
        "pump built when",
        "builder of the pump",
    ]


# What judges rankings and answers.

N = 1_000
RANKINGS = {"first": ["a", "b"], "tenth": [*"bcdefghij", "a"], "lost": ["b"], "nothing": [], "twice": ["b", "b", "a"]}
INDEX = {"first": 1.0, "tenth": 2 / 3, "lost": 0.0, "nothing": 0.0, "twice": 0.8997}  # gamma 1: 1 - ln r / ln 1000


@pytest.mark.parametrize("question", RANKINGS)
def test_the_index_is_that_of_the_core_also_where_nothing_was_retrieved(face: Any, question: str) -> None:
    found = RANKINGS[question]
    assert face.judge("index", n=N)(found, ["a"]) == pytest.approx(INDEX[question], abs=1e-4)
    assert face.judge("recall", k=3)(found, ["a"]) == float(question in {"first", "twice"})


MEASURED: list[tuple[str, dict[str, Any], str, str, float]] = [
    ("index", {"n": N, "gamma": 10}, "ba", "a", 0.740),
    ("recall", {"k": 2}, "bac", "ac", 0.5),
    ("measure", {"measure": "map"}, "axba", "ab", (1 + 2 / 3) / 2),
    ("measure", {"measure": "mrr@10"}, "axba", "ab", 1.0),
    ("measure", {"measure": "mrr@10"}, "xa", "ab", 0.5),
    ("measure", {"measure": "recall@2"}, "xa", "ab", 0.5),
    ("measure", {"measure": "ndcg@10"}, "", "a", 0.0),
    ("evidence", {"measure": "all@2"}, "axba", "ab", 0.0),
    ("evidence", {"measure": "all@3"}, "axba", "ab", 1.0),
    ("evidence", {"measure": "recall@2"}, "axba", "ab", 0.5),
    ("evidence", {}, "", "ab", 0.0),
]


def test_measures_are_those_of_the_core(face: Any) -> None:
    scores = [face.judge(kind, **how)([*found], [*wanted]) for kind, how, found, wanted, _ in MEASURED]
    assert scores == pytest.approx([score for *_, score in MEASURED], abs=5e-4)


def judging(prompt: str) -> str:
    """Give the answer that says "six" 9, the other 3, wherever it stands."""
    first = prompt.split("<answer_1>")[1].split("</answer_1>", maxsplit=1)[0]
    one, two = (9, 3) if "six" in first else (3, 9)
    return f'The first is as it is. {{"answer_1_score": {one}, "answer_2_score": {two}}}'


async def test_a_pair_is_judged_in_both_orders(face: Any) -> None:
    model = face.model(judging)
    assert await face.compared(model, "It is six.", "It is ten.") == 1.0
    assert face.asked(model) == 2
    assert await face.compared(model, "It is ten.", "It is six.") == 0.0
    assert await face.compared(model, "It is six.", "It is six.") == 0.5
    assert face.asked(model) == 4
    liking_the_first = face.model('So. {"answer_1_score": 9, "answer_2_score": 3}')
    assert await face.compared(liking_the_first, "It is six.", "It is ten.") == 0.5
    assert await face.compared(face.model("Both are fine."), "It is six.", "It is ten.") is None


ANSWER = 'It takes six screws [1]. It is grey [2].\n\nQuotes:\n[1] "takes six screws"\n[2] "The seal is black"'


def test_quotes_are_judged_by_looking_them_up(face: Any) -> None:
    texts = ["The cover takes six screws.", "The seal is grey."]
    score, comment = face.quoted(ANSWER, texts)
    assert (score, "It is grey" in comment) == (0.5, True)
    assert face.quoted(ANSWER.replace("black", "grey"), texts)[0] == 1.0
