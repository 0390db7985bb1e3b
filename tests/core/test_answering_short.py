"""Short answers from given passages alone: a budget, "not answerable", and replies that are no answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.answering import short_answer
from catena.answering.short_answers import LONGEST, NOT_ANSWERABLE, read_short_answer
from catena.effects import Services, run
from catena.model import Chunk, Hit, ParameterError, ServiceError
from catena.testing import FakeLLM, ScriptedLLM

QUESTION = "How tight are the screws?"


def chunk(text: str, start: int = 0, document: str = "hx210.pdf") -> Chunk:
    return Chunk(
        id=f"{document}-{start}", document_id=document, position=start, start=start, end=start + len(text), text=text,
        path=("HX210", "4 Cover"), metadata={"title": "HX210 manual"},
    )  # fmt: skip


FIRST, SECOND = chunk("Tighten the screws to 2.4 Nm. Use a hex key."), chunk("The cover weighs 1.2 kg.", 900)


def words(text: str) -> int:
    return len(text.split())


def asked(passages, **options):
    llm = FakeLLM(lambda request: "2.4 N·m")
    found = run(short_answer(QUESTION, passages, **options), Services(llm=llm))
    return found, llm.calls[0].prompt if llm.calls else ""


def test_the_model_reads_the_passages_best_first_with_their_headers():
    found, prompt = asked([SECOND, FIRST])
    assert (found.text, found.answerable) == ("2.4 N·m", True)
    assert prompt.index(SECOND.text) < prompt.index(FIRST.text) < prompt.index(QUESTION)
    assert 'from="HX210 manual › HX210 › 4 Cover"' in prompt
    assert [passage.text for passage in found.context.passages] == [SECOND.text, FIRST.text]
    assert found.input_tokens > 0 < found.output_tokens


def test_chunks_segments_and_hits_are_read_alike():
    kinds = ([FIRST, SECOND], [FIRST.as_segment(), SECOND.as_segment()], [Hit(FIRST, 0.1), Hit(SECOND, 0.9)])
    assert len({asked(passages)[1] for passages in kinds}) == 1  # the order given counts, not the score
    assert asked([FIRST, SECOND.as_segment(), Hit(SECOND, 1.0)])[1] == asked([FIRST, SECOND])[1]


def test_a_passage_that_does_not_fit_ends_with_a_sentence():
    whole = asked([FIRST], count=words)[0].context.tokens
    found, prompt = asked([FIRST], budget_tokens=whole - 3, count=words)
    assert found.context.passages[0].is_cut
    assert "2.4 Nm." in prompt
    assert "hex key" not in prompt


def test_without_passages_nothing_is_answerable_and_nobody_is_asked():
    for passages in ([], [chunk(" \n ")]):
        found, prompt = asked(passages)
        assert (found.text, found.answerable, prompt) == (NOT_ANSWERABLE, False, "")


@pytest.mark.parametrize(
    ("question", "options", "said"),
    [
        (" ", {}, "question must be"),
        (QUESTION, {"budget_tokens": 3, "count": words}, "budget_tokens must be enough for"),
        (QUESTION, {"budget_tokens": -1, "count": words}, "budget_tokens must be"),
        (QUESTION, {"budget_tokens": 50}, "count="),
    ],
)
def test_what_cannot_be_asked_is_refused(question, options, said):
    llm = FakeLLM()
    with pytest.raises(ParameterError, match=said):
        run(short_answer(question, [FIRST], **options), Services(llm=llm))
    assert not llm.calls


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("2.4 N·m", "2.4 N·m"),
        ("  2.4 N·m\n", "2.4 N·m"),
        ("Answer: 2.4 N·m", "2.4 N·m"),
        ("**Short answer:** 2.4 N·m", "2.4 N·m"),
        ("答案：2.4 N·m", "2.4 N·m"),
        ("```\n2.4 N·m\n```", "2.4 N·m"),
        ("```text\n2.4 N·m\n```", "2.4 N·m"),
        ("```2.4```", "2.4"),
        ("```Paris```", "Paris"),
        ("<answer>2.4 N·m</answer>", "2.4 N·m"),
        ("7", "7"),
        ("是", "是"),
        ("First this.\n\nThen that.", "First this.\n\nThen that."),
        ("NOT ANSWERABLE", NOT_ANSWERABLE),
        ("not answerable.", NOT_ANSWERABLE),
        ("**Not answerable**", NOT_ANSWERABLE),
        ('"NOT ANSWERABLE"', NOT_ANSWERABLE),
        ("Answer: NOT ANSWERABLE", NOT_ANSWERABLE),
        ("NOT ANSWERABLE from the passages, which speak of screws only.", NOT_ANSWERABLE),
        ("It is not answerable whether", "It is not answerable whether"),
    ],
)
def test_an_answer_is_read_however_it_is_wrapped(reply, text):
    assert read_short_answer(reply) == text
    found = run(short_answer(QUESTION, [FIRST]), Services(llm=ScriptedLLM([reply])))
    assert (found.text, found.answerable) == (text, text != NOT_ANSWERABLE)


@pytest.mark.parametrize(
    "reply",
    [
        "", "   ", "\n\n", ".", "…", "—", "?", "**", "``````", "```\n```", "<answer></answer>", "Answer:",
        "Answer: ...", "x" * (LONGEST + 1),
        "word " * LONGEST,
        "```" + " \n" * 20_000 + "x", "```" + "x" * 100_000, "```" + "\n" * 50_000 + "x```" * 20_000,
    ],
    ids=lambda reply: reply[:12],
)  # fmt: skip
def test_a_reply_that_is_no_short_answer_is_refused(reply):
    with pytest.raises(ServiceError, match="short answer"):
        run(short_answer(QUESTION, [FIRST]), Services(llm=ScriptedLLM([reply])))


@given(st.text(max_size=60))
def test_reading_an_answer_twice_changes_nothing(reply):
    try:
        text = read_short_answer(reply)
    except ValueError:
        return
    assert text
    assert text == text.strip()
