"""Summaries, keywords and questions as language models write them: what is taken, cut and refused; TF-IDF by hand."""

from __future__ import annotations

from math import log

import pytest
from case_files import texts_of
from hypothesis import given
from hypothesis import strategies as st

from catena.enrichment import Keywords, Summaries
from catena.enrichment.view_asking import LONGEST_REPLY, check_language, read_summary
from catena.enrichment.view_makers import LONGEST_TERM, read_keywords, read_questions
from catena.enrichment.view_text import count_words, salient_terms, within
from catena.text import normalise_term, read_items

CONTENT = "The shaft seal of the HX210 pump is changed after 900 hours. The motor turns at 1450 rpm. " * 20
SUMMARY = "The shaft seal of the pump is changed after 900 hours. The motor turns at 1450 rpm."
GERMAN = "Die Wellendichtung wird nach 900 Betriebsstunden gewechselt. Danach wird die Drehzahl geprüft."


def read(reply: str, content: str = CONTENT, *, sentences: int = 10, words: int = 200) -> str:
    return read_summary(reply, content, sentences=sentences, words=words)


GOOD = texts_of("cases_summaries.txt") | {
    "white space": "\n  The shaft seal of the pump\nis changed after 900 hours.\n\nThe motor turns at 1450 rpm. "
}


@pytest.mark.parametrize("reply", GOOD.values(), ids=GOOD)
def test_a_summary_is_taken_without_what_is_around_it(reply):
    assert read(reply) == SUMMARY


BAD = texts_of("cases_no_summaries.txt") | {
    "empty": "",
    "endless": SUMMARY * (LONGEST_REPLY // len(SUMMARY) + 1),
    "one endless sentence": "The shaft seal of the pump " + "is changed and changed " * 100,
}


@pytest.mark.parametrize("reply", BAD.values(), ids=BAD)
def test_what_is_no_summary_is_refused(reply):
    with pytest.raises(ValueError, match=r"repl|model gave"):
        read(reply)


# bounds


def test_a_longer_summary_is_cut_where_a_sentence_ends():
    assert read(SUMMARY, sentences=1) == "The shaft seal of the pump is changed after 900 hours."
    assert read(SUMMARY, words=11) == "The shaft seal of the pump is changed after 900 hours."
    assert read(SUMMARY, words=17) == SUMMARY
    with pytest.raises(ValueError, match="within the first 10 words"):
        read(SUMMARY, words=10)
    chinese = "轴封每九百小时更换一次。" * 3
    assert read(chinese, chinese, words=12) == "轴封每九百小时更换一次。" * 2


def test_what_is_a_word_by_its_spaces_alone_does_not_lengthen_a_summary():
    endless = f"The shaft seal of the pump {'9' * 5_000} is changed."
    with pytest.raises(ValueError, match="within the first 80 words"):
        read(endless, words=80)
    assert read(f"{SUMMARY} {endless}", words=80) == SUMMARY


@pytest.mark.parametrize("mark", ["**", "__"])
def test_emphasis_that_never_ends_is_read_in_the_time_of_its_length(mark):
    said = f"The shaft seal is changed {f'{mark}a ' * 9_900}"
    with pytest.raises(ValueError, match="within the first"):
        read(said, words=80)
    assert read(f"The {mark}shaft seal{mark} of the {mark}pump{mark}.") == "The shaft seal of the pump."


@given(
    st.lists(st.sampled_from([*GOOD.values(), *BAD.values(), "Pump. ", "\n", "轴封。", "1. ", "?"]), max_size=4),
    st.integers(1, 4),
    st.integers(1, 30),
)
def test_any_answer_is_within_the_bounds_or_refused(pieces, sentences, words):
    try:
        summary = read(" ".join(pieces), sentences=sentences, words=words)
    except ValueError:
        return
    assert 0 < count_words(summary) <= words
    assert "\n" not in summary


# language


def test_another_language_is_taken_where_it_was_asked_for():
    assert read_summary(GERMAN, CONTENT, sentences=9, words=99, any_language=True) == GERMAN
    assert Summaries(language="German").read(GERMAN, CONTENT) == (GERMAN,)


def test_names_in_another_script_are_no_other_language():
    check_language("The shaft seal (轴封) of the pump is changed.", CONTENT, share=0.25)
    check_language("轴封 HX210 更换", "轴封 HX210 每九百小时更换一次", share=0.25)
    check_language("轴封HX", "軸シールの交換 HX ポンプ", share=0.0)  # Han and kana are one
    with pytest.raises(ValueError, match=r"another script \(cyrillic\)"):
        check_language("насос pump", CONTENT + "насос", share=0.0)


def test_inflected_words_meet_and_few_words_need_not():
    check_language("Changing sealed shafts pumping", CONTENT, share=0.7)
    check_language("Quite other words", CONTENT, share=1.0)
    with pytest.raises(ValueError, match="hardly any word"):
        check_language("Four quite different words", CONTENT, share=0.1)
    check_language("1 2 3", CONTENT, share=1.0)
    check_language(SUMMARY, "", share=1.0)


SHORT = "The shaft seal of the HX210 pump is changed after 900 hours. The motor turns at 1450 rpm."
TERMS = ["shaft seal", "HX210 pump", "900 hours"]


# offline


def test_salient_terms_by_hand():
    # sentences S = 3. "red pump": n 2, s 2; "pump" n 3, s 3; "red" n 2, s 2; "blue", "blue valve", "valve": n 1, s 1
    texts = ["red pump. red pump.", "blue valve, pump"]
    scores = {"red": 2 * log(4 / 2.5), "pump": 2 * log(4 / 3.5), "blue": log(4 / 1.5)}
    assert scores["blue"] > scores["red"] > scores["pump"]
    assert salient_terms(texts, words=9) == (
        ("red", "red pump", "pump"),  # of equal ones the first in the text; words before pairs within a piece
        ("blue", "valve", "blue valve", "pump"),
    )
    assert salient_terms(texts, words=3) == (("red", "red pump"), ("blue", "valve"))


def test_pairs_run_over_no_punctuation_and_numbers_stand_beside_words_only():
    (terms,) = salient_terms(["Role-playing at 3.5 V; the HX-210's seal (x)"], words=99)
    assert set(terms) == {
        *("role", "playing", "role playing", "at", "playing at", "at 3.5", "3.5 v"),
        *("the", "hx", "the hx", "hx 210", "seal"),
    }


def test_what_most_chunks_hold_tells_none_from_the_others_where_there_are_several():
    texts = [f"the pump {word}" for word in ("alpha", "beta", "gamma", "delta", "epsilon")]
    assert salient_terms(texts, words=99)[0] == ("alpha", "pump alpha")
    assert "pump" in salient_terms(texts[:2], words=99)[0]
    assert "pump" in salient_terms(texts[:1], words=99)[0]


def test_any_language_and_script():
    terms = salient_terms(["更换密封圈。", "Дверь насоса", "पंप की सील", "泵"], words=99)
    assert terms[0] == ("更换", "换密", "密封", "封圈")
    assert terms[1] == ("дверь", "насоса", "дверь насоса")
    assert terms[2] == ("पंप", "की", "सील", "पंप की", "की सील")
    assert terms[3] == ("泵",)
    assert salient_terms(["", " \n", "?! 12 3.4"], words=9) == ((), (), ())
    assert salient_terms([], words=9) == ()


@given(st.lists(st.text(max_size=120), max_size=5), st.integers(1, 40))
def test_salient_terms_are_bounded_distinct_and_equal_for_equal_chunks(texts, words):
    lists = salient_terms([*texts, *texts], words=words)
    assert lists[: len(texts)] == lists[len(texts) :]
    for terms in lists:
        assert len(set(terms)) == len(terms)
        assert count_words(" ".join(terms)) <= sum(map(count_words, terms)) <= words


# lists of models

LISTS = texts_of("cases_term_lists.txt")


@pytest.mark.parametrize("reply", LISTS.values(), ids=LISTS)
def test_a_list_is_read_however_it_is_written(reply):
    assert list(read_keywords(reply, SHORT, words=80)) == TERMS


NO_LISTS = texts_of("cases_no_term_lists.txt") | {
    "empty": "",
    "far too deep": "[" * 15_000 + "]" * 15_000,
    "endless": "shaft seal, " * 4_000,
}


@pytest.mark.parametrize("reply", NO_LISTS.values(), ids=NO_LISTS)
def test_what_is_no_list_of_terms_is_refused(reply):
    with pytest.raises(ValueError, match=r"repl|model gave|list"):
        read_keywords(reply, SHORT, words=80)


def test_terms_are_taken_up_to_the_bound_and_sentences_left_out():
    reply = '["one two", "' + "word " * (LONGEST_TERM + 1) + '", "three", "four five", "six"]'
    assert read_keywords(reply, "", words=4) == ("one two", "three")
    assert within(["one two", "three", "four five", "six"], 3) == ("one two", "three")
    with pytest.raises(ValueError, match="not terms"):
        read_keywords(f'["{"x" * 400}"]', "", words=80)


def test_terms_in_another_language_are_taken_where_it_was_asked_for():
    assert read_keywords('["轴封", "水泵"]', SHORT, words=80, any_language=True) == ("轴封", "水泵")
    assert Keywords(language="Chinese").read('["轴封"]', SHORT) == ("轴封",)


@given(st.one_of(st.text(max_size=200), st.text(alphabet='[]{}",:; ab\n-1.', max_size=200)), st.integers(1, 20))
def test_any_answer_gives_terms_within_the_bounds_or_an_error(reply, words):
    try:
        terms = read_keywords(reply, "", words=words)
    except ValueError:
        return
    assert 0 < sum(map(count_words, terms)) <= words
    assert len({normalise_term(term) for term in terms}) == len(terms)


def test_read_items_keeps_order_and_marks_inside():
    assert read_items('["C++", "a, b", "x [1]", "f(x, ]"]') == ["C++", "a, b", "x [1]", "f(x, ]"]
    assert read_items(r"""['the pump's seal', 'it\'s \d', "HX-200"]""") == ["the pump's seal", r"it's \d", "HX-200"]
    assert read_items('As in [1] and {2}: ["seal", "pump"]') == ["seal", "pump"]
    assert read_items("Keywords:\n- seal [1]\n- pump {a}\n- [bar]") == ["seal [1]", "pump {a}", "[bar]"]
    assert read_items("seal [1]\npump [2]") == ["seal [1]", "pump [2]"]
    assert read_items("1. What is *it*?\n2. Why?") == ["What is *it*?", "Why?"]


# questions


def test_questions_are_read_once_each_up_to_the_number():
    reply = '["What is it?", "what is it", "What is it ?", "It turns.", "Why does it turn?", "When?"]'
    assert read_questions(reply, SHORT, count=2) == ("What is it?", "Why does it turn?")
    assert read_questions("What is it?\nWhy does it turn?", SHORT, count=5) == ("What is it?", "Why does it turn?")
    assert read_questions('["何時交換しますか", "なぜ？"]', "交換は九百時間後です。", count=5) == (
        "何時交換しますか",
        "なぜ？",
    )


@pytest.mark.parametrize(
    "reply",
    ["", "[]", '["It turns.", "It is loud."]', "I cannot.", '["为什么?", "什么是泵?"]', '["' + "why " * 61 + '?"]'],
)
def test_what_is_no_list_of_questions_is_refused(reply):
    with pytest.raises(ValueError, match=r"repl|model gave|list"):
        read_questions(reply, SHORT, count=5)
