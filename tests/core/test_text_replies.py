"""What models write is read once: thoughts taken off, the last JSON value that fits, in linear time."""

from __future__ import annotations

import json
from itertools import repeat
from types import SimpleNamespace

import numpy as np
import pytest
from case_files import rows_of
from hypothesis import given
from hypothesis import strategies as st

from catena.answering import check_answer
from catena.answering.written import check_citations
from catena.effects import Complete, Embed, Rate, Retry, Services, run
from catena.model import Chunk, Hit, InvalidReplyError
from catena.testing import FakeLLM
from catena.text import answered, last_value, plain, read_items, whole_number, without_thoughts
from catena.text.loose_json import json_values

SAID = "The seal is changed every 900 hours [1]."


@pytest.mark.parametrize(
    "reply",
    [
        f"<think>Maybe 400?</think>{SAID}",
        f"<THINKING>\nMaybe\n\n400?\n</THINKING>\n\n{SAID}",
        f"<reasoning>400?</reasoning>\n{SAID}",
        f"<seed:think>400?</seed:think>{SAID}",
        f"[THINK]400?[/THINK]{SAID}",
        f"◁think▷400?◁/think▷{SAID}",
        f"<think></think>\n<think>400?</think>{SAID}",
        f"<think>a <think> b</think> c</think>{SAID}",
        f"I think of 400.\n</think>\n\n{SAID}",  # a chat template began the thoughts
        f"The tag <think> is not for me.\n</think>\n{SAID}",
        f"{SAID}\n<think>Was that right?",
        f"{SAID}\n<think>Was that right?</think>\n",
        f"<|channel|>analysis<|message|>400?<|end|><|start|>assistant<|channel|>final<|message|>{SAID}<|return|>",
        f"analysisThe user asks. 400?assistantfinal{SAID}",
        f"{SAID}<|im_end|>",
        f"{SAID}</s>\n</s>\n",
        f"<|begin_of_thought|>400?<|end_of_thought|>\n\n<|begin_of_solution|>{SAID}<|end_of_solution|>",
        f"<|START_THINKING|>400?<|END_THINKING|><|START_RESPONSE|>{SAID}<|END_RESPONSE|>",
        f"<|channel>thought\n400?<channel|>{SAID}",
        f"<|channel|>final <|constrain|>json<|message|>{SAID}",
        f"<reasoning_content>400?</reasoning_content>{SAID}",
        f"<analysis>400?</analysis>{SAID}",
        f"<antThinking>400?</antThinking>{SAID}",
        f"<think/>\n{SAID}",
        f"- <think>400?</think>\n{SAID}",
        f"> <think>\n> 400?\n> </think>\n{SAID}",
        f"**<think>**\n400?\n**</think>**\n{SAID}",
        f"<think>I do not write `</think>` yet. 400?</think>{SAID}",
        f"Here is my thought process:\n400?\nHere is my response:\n{SAID}",
        f"```\n<think>400?</think>\n```\n{SAID}",
        f"<s>[INST] How often? [/INST] {SAID}</s>",
        f"<|im_start|>assistant\n{SAID}<|im_end|>",
        f"<|start_header_id|>assistant<|end_header_id|>\n\n{SAID}<|eot_id|>",
    ],
)
def test_thoughts_are_no_part_of_the_answer(reply):
    assert without_thoughts(reply) == SAID


@pytest.mark.parametrize(
    "text",
    [
        SAID, "Such models write <think> and </think> around it.", "The parser ends at `</think>` and then goes on.",
        '[{"title": "The <think> tag", "start": 1, "end": 4}]', "The tag </think> ends the thoughts [1].",
        '["What does </think> do?"]', "Set `<|channel|>` first.", "It was <s>400</s>", "",
    ],
)  # fmt: skip
def test_a_text_that_speaks_of_thoughts_stays_as_it_is(text):
    assert without_thoughts(text) == text


@given(st.text(alphabet="ab\n <>/think`", max_size=60))
def test_what_is_left_is_of_the_reply_and_stays_when_looked_at_again(text):
    left = without_thoughts(f"<think>{text}</think>")
    assert set(left) <= set(text) | set("</think>")
    assert without_thoughts("<think>x</think>" + text.replace("<", "(")) == text.replace("<", "(").strip()


@pytest.mark.parametrize(
    "reply", ["<think>An answer", "<think>[1]</think>", "<|channel|>analysis<|message|>so", " \n"]
)
def test_a_reply_of_thoughts_alone_fails_by_name_whatever_the_step(reply):
    services = Services(llm=FakeLLM(lambda _: reply), retry=Retry(attempts=1))
    (failed,) = run(_asked(Complete(prompt="?", purpose="answer")), services)
    assert isinstance(failed.error, InvalidReplyError)
    assert "nothing but thoughts" in str(failed.error) or not reply.strip()


def _asked(request):
    return (yield [request])


def test_the_answer_is_all_the_rest_of_a_reply():
    assert answered("<|channel|>final<|message|>Use a <| b and go on") == "Use a <| b and go on"
    assert answered("Okay. <think>400?</think> At 900.") == "Okay.  At 900."
    assert answered("One.\n<think>x</think>\n- <think>y</think>\nTwo.") == "One.\n\n\nTwo."
    for thoughts in ("<think>400?</think>", "<think>a <think>b</think> c</think>"):
        assert answered(f"{thoughts}The tag </think> ends it.") == "The tag </think> ends it."


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=6,
)


@given(
    st.lists(json_data) | st.dictionaries(st.text(), json_data),
    st.booleans(),
    st.sampled_from(["", "So [1, {x:", "a]"]),
)
def test_json_is_read_as_the_standard_reads_it_whatever_stands_before_it(data, ascii_only, before):
    text = json.dumps(data, ensure_ascii=ascii_only)
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        assert list(json_values(f"{before}\n{text}\nThat is all."))[-1].data == json.loads(text)


@given(st.lists(st.lists(st.text(alphabet='ab\\"[]{},', min_size=1), min_size=1), min_size=1), st.data())
def test_of_a_list_that_is_cut_the_whole_items_are_kept(items, data):
    text = json.dumps(items)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    found = last_value(cut, lambda value: value if isinstance(value, list) else None)
    whole = [item for item in items if json.dumps(item) in cut]
    assert found in (None, []) or found == items[: len(found)] or len(whole) == 0


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ('Draft: ["x"]. Final: ["a", "b"]', ["a", "b"]),
        ('Draft: ["x"]. Final: ["a", "b", "c', ["a", "b"]),
        ('{"reasoning": "x", "items": ["a", "b",],}', ["a", "b"]),
        ('{"text": "a"}\n{"text": "b"}', ["a", "b"]),
        ("['a', 'b'] # done [1]", ["a", "b"]),
        ('["a" // the first\n "b"]', ["a", "b"]),
        ('"[\\"a\\", \\"b\\"]"', ["a", "b"]),
        ("[a, b]", ["a", "b"]),
        ("- a [1]\n- b [2]", ["a [1]", "b [2]"]),
        ('{"text": "Here are the keywords", "keywords": ["a", "b"]}', ["a", "b"]),
        ('{"question": "What?", "keywords": ["a", "b"]}', ["a", "b"]),
        ('{"name": "answer", "arguments": {"terms": ["a", "b"]}}', ["a", "b"]),
        ('{"keywords": ["a", "b"], "confidence": {"score": 0.9}}', ["a", "b"]),
        ('{"data": {"keywords": ["a", "b"]}, "usage": {"tokens": 5, "model": "m"}}', ["a", "b"]),
        ('{"draft": ["x"], "final": ["a", "b"]}', ["a", "b"]),
        ('{"keywords": ["a", "b"], "omitted_terms": ["x"]}', ["a", "b"]),
        ('{"concepts": ["a"], "parts": ["b"]}', ["a", "b"]),
        ('[{"name": "a", "aliases": ["x"]}, {"name": "b", "aliases": []}]', ["a", "b"]),
    ],
)
def test_the_last_list_that_fits_is_the_answer(text, items):
    assert read_items(text) == items


def test_a_value_of_the_kind_that_is_asked_for_may_be_in_a_few_others() -> None:
    def read(kind, text):
        return last_value(text, lambda value: value if isinstance(value, kind) else None)

    nested = ['{"a": ' * deep + '["x"]' + "}" * deep for deep in (3, 4)]
    assert [read(list, text) for text in (*nested, '{"a": [1], "b": [2]}')] == [["x"], None, None]
    written = ('[{"a": 1}]', '[{"a": 1}, {"b": 2}]', '[[], {"b": 2}]', '{"a": 1} {"b": 2}', '{"a": 1, "b": {"c"')
    assert [read(dict, text) for text in written] == [{"a": 1}, None, None, {"b": 2}, {"a": 1}]


@pytest.mark.parametrize(("text", "items"), rows_of("cases_items.txt"))
def test_terms_are_items_where_they_are_short_and_no_talk(text, items):
    if items:
        assert [item.replace(" ", "+") for item in read_items(text)] == items.split()
    else:
        with pytest.raises(ValueError, match="list"):
            read_items(text)


@pytest.mark.parametrize(("reply", "said"), rows_of("cases_around.txt"))
def test_what_is_around_a_text_is_taken_off(reply, said):
    assert plain(reply) == said


def test_no_control_character_is_part_of_a_text_or_an_item():
    assert plain("a\x00b\x1b\ud800\tc") == "ab\tc"
    assert read_items('["a\\u0000b", "c"]') == ["ab", "c"]


def test_json_in_a_string_is_unwrapped_a_few_times_and_no_flood_of_quotes_recurses():
    assert read_items(json.dumps(json.dumps(json.dumps(["a", 'b "c" d'])))) == ["a", 'b "c" d']
    assert last_value('"' * 2_500 + r"\q" + '"' * 2_500, lambda value: value) is None


def test_integers_of_any_length_are_read():
    digits = "9" * 5_000
    assert [whole_number("-" + digits), whole_number("0" * 5_000 + "7")] == [-(10**300), 7]
    assert next(json_values(f"[{digits}]")).data == [10**300]
    passages = [Hit(Chunk(id="c", document_id="d", text="The seal.", start=0, end=9, position=0), 1.0)]
    assert check_answer(f'Seal [{digits}] [1].\nQUOTES\n[{digits}] "x"', passages).cited == (1,)
    assert check_citations(f"a [{digits}-{digits}1] [2]", 2).cited == (2,)


def test_a_reranker_that_never_ends_is_cut_and_complex_vectors_are_refused():
    def rows(texts):
        return np.array([[1 + 1j, 0]] * len(texts))

    endless = SimpleNamespace(identity="endless", score=lambda query, texts: repeat(0.5))
    embedder = SimpleNamespace(identity="complex", dim=2, embed_documents=rows, embed_query=rows)
    services = Services(reranker=endless, embedder=embedder, retry=Retry(attempts=1))
    (scores,) = run(_asked(Rate(query="q", texts=("a", "b"))), services)
    (vectors,) = run(_asked(Embed(texts=("a",))), services)
    assert "more scores for 2 texts" in str(scores.error)
    assert "complex" in str(vectors.error)
