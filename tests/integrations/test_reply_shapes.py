"""Every shape of reply x every step that asks a model, also through both adapters' models: right, or named.

A draft that a model gave up is never taken for its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pytest
from langchain_fakes import ReplyingChatModel
from llama_index_fakes import Saying

from catena.answering import answer, answer_cited, short_answer
from catena.effects import Complete, Retry, Services, Step, run
from catena.enrichment import (
    ContextOptions,
    FigureContext,
    GraphKeywords,
    Keywords,
    LLMDetector,
    Summaries,
    caption_figures,
    context_by_llm,
)
from catena.enrichment.view_makers import Questions
from catena.formatting import FormatOptions, format_markdown
from catena.graph import question_keywords
from catena.model import Chunk, Document, Figure, Hit, Parsed, ServiceError
from catena.retrieval import generate_queries
from catena.structure import segment_with_llm
from catena.testing import FakeLLM
from catena.testing.replies import ReplyShape, reply_shapes
from catena_bench.baselines import cut_atomic
from catena_bench.judges import Pair, judge_pairs
from catena_bench.questions import ScopeQuestion, generate_scope_questions
from catena_bench.questions.span_answers import SpanCase, ask_spans
from langchain_catena.services import LangChainLLM
from llama_index_catena.services import LlamaIndexLLM

TEXT = (
    "The shaft seal of the HX-200 pump is changed every 900 hours of work.\n"
    "The motor of the pump turns at 1450 rpm.\n"
    "The bearings of the motor are greased twice a year.\n"
    "Only a dry cloth may be used on the cover.\n"
)
LINES = TEXT.splitlines()
DOCUMENT = Document(id="d", text=TEXT, source="pump.txt", media_type="text/plain")
CHUNK = Chunk(id="c", document_id="d", text=TEXT, start=0, end=len(TEXT), position=0, path=("Pump",))
QUESTION = "How often is the shaft seal of the HX-200 changed, and how fast is the motor?"
DRAFTED = "blue walrus"  # stands in every draft that is a text

Outcome = tuple[Any, bool]
"""What a step made of a reply, and whether it said that the reply was of no use."""


@dataclass(frozen=True)
class Case:
    """A step, an answer for it and a draft of the same form; `loose` where talk around an answer belongs to it."""

    answer: Any
    draft: Any
    outcome: Callable[[Services], Outcome]
    loose: bool = False


def _views(maker: Any, services: Services) -> Outcome:
    made = run(maker.make([CHUNK], "Pump"), services)
    return made.texts, bool(made.degraded)


def _formatted(services: Services) -> Outcome:
    made = run(format_markdown(Parsed(document=DOCUMENT), FormatOptions(window=200, padding=10)), services)
    return made.document.text, bool(made.document.metadata.get("layout_pages")) or made.fidelity.pages[
        0
    ].state != "llm"


def _context(options: ContextOptions, services: Services) -> Outcome:
    made = run(context_by_llm(DOCUMENT, (), options, count=len), services)
    return (made.title, made.summary), bool(made.degraded)


def _detected(services: Services) -> Outcome:
    made = run(LLMDetector().detect(LINES[:2]), services)
    return made.terms, any(problem.error for problem in made.problems)


def _questions(services: Services) -> Outcome:
    made = run(generate_scope_questions(DOCUMENT, [CHUNK]), services)
    return [question.text for question in made.questions], not made.questions


def _spans(services: Services) -> Outcome:
    question = ScopeQuestion(id="q", document="d", text=QUESTION, evidence=((0, 5),))
    (found,) = run(ask_spans([SpanCase(question=question, document=DOCUMENT, start=0, end=len(TEXT))]), services)
    return found.spans, bool(found.failure) or not found.spans


def _judged(services: Services) -> Outcome:
    pair = Pair(id="q", question=QUESTION, reference="900 hours", a="after 900 hours", b="after 400 hours")
    (verdict,) = run(judge_pairs([pair]), services)
    scores = [(each.score_a, each.score_b) for each in verdict.rounds]
    return scores, any(each.failure for each in verdict.rounds)


def _captioned(services: Services) -> Outcome:
    figure = Figure(name="f", page=1, box=(0, 0, 1, 1), kind="drawing", png=b"png", width=1, height=1)
    made = run(caption_figures([figure], [FigureContext()]), services)
    return made.figures[0].caption, bool(made.failures)


def _value(step: Callable[[], Step[Any]], of: Callable[[Any], Any], services: Services) -> Outcome:
    return of(run(step(), services)), False


def _degrading(step: Callable[[], Step[Any]], of: Callable[[Any], Any], services: Services) -> Outcome:
    made = run(step(), services)
    return of(made), bool(made.degraded)


PASSAGES = [Hit(CHUNK, 1.0)]
SAID = "The shaft seal is changed every 900 hours [1]."
CITED = f'{SAID}\n\nQUOTES\n[1] "The shaft seal of the HX-200 pump is changed every 900 hours of work."'
SUMMARY = "The shaft seal of the HX-200 pump is changed every 900 hours and the motor turns at 1450 rpm."
OFFTOPIC = f"The {DRAFTED} of the HX-200 pump is changed every 400 hours and the motor turns."
CASES: dict[str, Case] = {
    "format": Case(TEXT.strip(), f"# Draft\n\n{DRAFTED}", _formatted, loose=True),
    "segments": Case(
        [{"title": "Seal", "start": 0, "end": 1}, {"title": "Care", "start": 2, "end": 3}],
        [{"title": DRAFTED, "start": 0, "end": 3}],
        partial(_degrading, lambda: segment_with_llm(DOCUMENT), lambda made: [s.title for s in made.sections]),
    ),
    "atomic units": Case(
        "\n".join(LINES),
        "\n".join([" ".join(LINES[:2]), " ".join(LINES[2:])]),
        partial(_degrading, lambda: cut_atomic(DOCUMENT), lambda made: [chunk.text for chunk in made.chunks]),
        loose=True,
    ),
    "queries": Case(
        ["HX-200 seal interval", "HX-200 motor speed"],
        [DRAFTED, "what seals eat"],
        partial(_value, lambda: generate_queries(QUESTION), lambda made: made.queries),
    ),
    "question keywords": Case(
        ["shaft seal", "HX-200"],
        ["motor"],
        partial(_value, lambda: question_keywords(QUESTION, by="llm"), lambda made: made),
    ),
    "entities": Case([["HX-200", "shaft seal"], ["motor"]], [["pump"], ["pump"]], _detected),
    "keywords": Case(
        ["change of the shaft seal", "HX-200 pump", "900 hours"],
        ["motor bearings", DRAFTED],
        partial(_views, Keywords()),
    ),
    "graph keywords": Case(["shaft seal", "HX-200 pump"], ["motor", "cover"], partial(_views, GraphKeywords())),
    "questions": Case(
        ["How often is the shaft seal of the HX-200 changed?", "How fast does the motor turn?"],
        [f"Does the {DRAFTED} of the pump turn?", "Is the cover of the pump dry?"],
        partial(_views, Questions()),
    ),
    "summary": Case(SUMMARY, OFFTOPIC, partial(_views, Summaries(over_tokens=1))),
    "title": Case(
        "HX-200 pump manual",
        f"The {DRAFTED}",
        partial(_context, ContextOptions(document_summary=False, section_titles=False, section_summaries=False)),
    ),
    "document summary": Case(
        "This document is about: the HX-200 pump, its seal and its motor.",
        f"This document is about: a {DRAFTED}.",
        partial(_context, ContextOptions(document_title=False, section_titles=False, section_summaries=False)),
    ),
    "scope questions": Case(
        [
            {
                "question": "When is the seal changed?",
                "type": "comparative",
                "answer": "900 hours",
                "support": [LINES[0]],
            },
            {
                "question": "How fast is the motor?",
                "type": "comparative",
                "answer": "1450 rpm",
                "support": [LINES[1]],
            },
        ],
        [{"question": f"What does the {DRAFTED} say?", "type": "comparative", "answer": "no", "support": [LINES[2]]}],
        _questions,
    ),
    "spans": Case({"context": [LINES[0], LINES[1]]}, {"context": [LINES[3]]}, _spans),
    "judge": Case(
        {"reasoning": "The first is right.", "answer_1_score": 9, "answer_2_score": 2},
        {"reasoning": "Both are right.", "answer_1_score": 5, "answer_2_score": 5},
        _judged,
    ),
    "answer": Case(
        SAID, f"A {DRAFTED} [2].", partial(_value, lambda: answer(QUESTION, PASSAGES), lambda made: made.text), True
    ),
    "cited answer": Case(
        CITED,
        f'A {DRAFTED} [1].\n\nQUOTES\n[1] "Only a dry cloth"',
        partial(
            _value,
            lambda: answer_cited(QUESTION, PASSAGES),
            lambda made: made.text + "".join(each.quote.text for each in made.citations),
        ),
        loose=True,
    ),
    "short answer": Case(
        "900 hours and 1450 rpm",
        DRAFTED,
        partial(_value, lambda: short_answer(QUESTION, [CHUNK]), lambda made: made.text),
        loose=True,
    ),
    "caption": Case("A drawing of the shaft seal.", f"A {DRAFTED}.", _captioned, loose=True),
}


class Captioner:
    """A captioner that answers as a language model does."""

    identity = "captioner"

    def __init__(self, llm: Any) -> None:
        self.llm = llm

    def caption(self, image: bytes, prompt: str) -> str:
        return self.llm.complete(Complete(prompt=prompt, purpose="caption")).text


MODELS: dict[str, Callable[[str], Any]] = {
    "core": lambda said: FakeLLM(lambda _: said),
    "LangChain": lambda said: LangChainLLM(ReplyingChatModel(reply=lambda _: said)),
    "LlamaIndex": lambda said: LlamaIndexLLM(Saying(reply=said)),
}
ASKED = [*((name, "core") for name in sorted(CASES)), ("format", "LangChain"), ("queries", "LlamaIndex")]


def outcome(case: Case, model: str, reply: str) -> Outcome:
    llm = MODELS[model](reply)
    try:
        return case.outcome(Services(llm=llm, captioner=Captioner(llm), retry=Retry(attempts=1)))
    except ServiceError as error:
        return str(error), True


@cache
def shapes_of(name: str) -> tuple[ReplyShape, ...]:
    return tuple(shape for shape in reply_shapes() if shape.fits(CASES[name].answer))


def wrong(case: Case, shape: ReplyShape, found: Outcome, good: Any) -> str:
    value, failed = found
    if failed:
        return f"{shape.name}: refused: {value}" if shape.answered else ""
    if case.loose:
        kept = str(value) == str(good) if not isinstance(value, str) else good in value and DRAFTED not in value
    else:
        kept = value == good
    harmless = not shape.answered and (not any(value) or (case.loose and DRAFTED not in str(value)))
    return "" if kept or harmless else f"{shape.name}: {value}"


@pytest.mark.parametrize(("name", "model"), ASKED)
def test_a_reply_is_read_right_or_refused_by_name(name: str, model: str) -> None:
    case = CASES[name]
    plain = ReplyShape(name="plain", kind="any", template="<<answer>>", answered=True)
    good, failed = outcome(case, model, plain.reply(case.answer, case.draft))
    assert not failed
    drafted = outcome(case, model, plain.reply(case.draft, case.answer))
    assert drafted[0] != good
    found = [
        wrong(case, shape, outcome(case, model, shape.reply(case.answer, case.draft)), good)
        for shape in shapes_of(name)
    ]
    assert not list(filter(None, found))


def test_there_are_many_shapes_and_each_is_another_and_has_its_name() -> None:
    shapes = reply_shapes()
    assert len({shape.name for shape in shapes}) == len({shape.template for shape in shapes}) == len(shapes) >= 150
    assert {shape.kind for shape in shapes} == {"any", "json", "list", "objects", "text"}
    assert shapes[0].reply("yes", draft="no") == "<think>\nMaybe no\n</think>\n\nyes"
