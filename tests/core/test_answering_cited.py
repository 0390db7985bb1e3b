"""Cited answers: what is asked, thirty untidy replies, statements with and without proof, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from case_files import rows_of, texts_of
from hypothesis import given
from hypothesis import strategies as st

from catena import prompts
from catena.answering import AnswerOptions, answer_cited, answer_from, check_answer, render
from catena.answering.quotes import Quote
from catena.answering.support import values_in, verify_answer
from catena.answering.written import read_reply, statements_in
from catena.effects import Completion, Services, run
from catena.model import Chunk, Document, Hit, InvalidReplyError, ParameterError, Segment, Unknown
from catena.model.figures import figure_link, figure_name
from catena.testing import FakeLLM

COVER = """### 4.4 Closing the cover

Tighten the six
screws to 2.4 N·m. Do not open the cover while it is warm.

| Item | Torque (N·m) |
|---|---|
| bolt | 1.8 |
"""
OTHER = "The HX220 needs 3.0 N·m."


def passage(text: str, name: str, start: int = 0, path: tuple[str, ...] = ()) -> Chunk:
    return Chunk(
        id=f"{name}/0", document_id=f"{name}.pdf", position=0, start=start, end=start + len(text), text=text,
        path=path, pages=(9, 9), lines=(270, 269 + len(text.splitlines())), metadata={"title": f"{name} manual"},
    )  # fmt: skip


PASSAGES = (passage(COVER, "HX210", 100, ("HX210 manual", "4.4 Closing the cover")), passage(OTHER, "HX220"))
QUOTED = "Tighten the six screws to 2.4 N·m"
TIDY = f'The screws take 2.4 N·m [1].\n\nQUOTES\n[1] "{QUOTED}"'

UNTIDY = texts_of("cases_untidy_answers.txt") | {
    "bullets": f'The screws take 2.4 N·m [1].\nQUOTES\n- [1] "{QUOTED}"\n',
    "numbered bullets": f'The screws take 2.4 N·m [1].\nQUOTES\n1. [1] "{QUOTED}"\n',
    "carriage returns": TIDY.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("name", UNTIDY)
def test_an_untidy_reply_is_read_as_a_tidy_one(name):
    found = check_answer(UNTIDY[name], PASSAGES)
    assert [part in found.text for part in ("2.4 N·m", "uote", "Tighten")] == [True, False, False]
    assert found.cited == (1,)
    first = found.citations[0]
    assert (first.quote.number, first.quote.passage, first.quote.verified) == (1, 1, True)
    assert " ".join(first.quote.printed.split()) == QUOTED
    assert ([statement.supported for statement in found.statements], found.coverage) == ([True], 1)


AS_THEY_ARE = (
    "The documents do not say.", "{broken", '{"answer": 5}', "[" * 500, "Quotes are given in Table 3 [1].",
    '[1] "Tighten" is what it says [1].',
)  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "text", "states"),
    [
        *((reply, "", []) for reply in ("", "QUOTES", "QUOTES\n[1]", 'QUOTES\n[1] ""')),
        *((reply, reply, []) for reply in AS_THEY_ARE),
        ('{"answer": "A [1].", "quotes": 3}', "A [1].", []),
        ('A [99999999999999999999].\nQUOTES\n[99999999999999999999] "the cover"', "A.", ["elsewhere"]),
        ('A [1].\nQUOTES\n[1] "No such words in it at all"', "A [1].", ["missing"]),
        (f'A [2].\nQUOTES\n[2] "{QUOTED}"', "A [2].", ["elsewhere"]),
        (f'A [1].\nQUOTES\n[1] "{QUOTED.replace("2.4", "2.5")}"', "A [1].", ["altered"]),
        ('A [1].\nQUOTES\n[1] "Tighten the six nuts to 2.4 N·m"', "A [1].", ["near"]),
    ],
)
def test_a_bad_reply_is_flagged_and_never_an_error(reply, text, states):
    found = check_answer(reply, PASSAGES)
    assert [citation.quote.state for citation in found.citations] == states
    assert (found.text, found.coverage, found.unsupported) == (text, 0, found.statements)
    assert render(found)


@given(st.text(alphabet='AQ[]()"“”12 .\n:*-{}<>`…', max_size=80))
def test_any_reply_can_be_checked(reply):
    found = check_answer(reply, PASSAGES)
    assert all(number in (1, 2) for number in found.cited)
    assert all(0 <= index < len(found.citations) for each in found.statements for index in each.citations)
    assert 0 <= found.coverage <= 1
    assert check_answer(reply, PASSAGES) == found
    render(found)


MIXED = """The HX210 has six screws at 2.4 N·m [1]. It stays shut at 60 °C [1][7]. The HX220 takes 3.0 N·m [2]. Fine.

QUOTES
[1] "Tighten the six screws to 2.4 N·m"
[1] "Do not open the cover while it is warm"
[2] "The HX220 needs 3.5 N·m"
"""


def test_statements_are_told_apart_by_their_proof():
    document = Document(id="HX210.pdf", text="x" * 100 + COVER, page_starts=(0, 100, 130))
    found = check_answer(MIXED, PASSAGES, documents=[document])
    assert found.text.startswith("The HX210 has six screws at 2.4 N·m [1]. It stays shut at 60 °C [1]. The")
    assert (found.cited, found.unknown) == ((1, 2), (7,))
    assert [citation.quote.state for citation in found.citations] == ["normalised", "exact", "altered"]
    first = found.citations[0]
    assert first.source == "HX210 manual › 4.4 Closing the cover, pages 2-3, lines 3-4"
    assert document.text[first.quote.start : first.quote.end] == "Tighten the six\nscrews to 2.4 N·m"
    assert [each.proof for each in found.statements] == ["supported", "unchecked", "unsupported", "unsupported"]
    assert [each.citations for each in found.statements] == [(0,), (1,), (2,), ()]
    assert [each.unfounded for each in found.statements] == [(), ("60 °C",), (), ()]
    assert [each.text for each in found.unsupported] == [
        "It stays shut at 60 °C [1].", "The HX220 takes 3.0 N·m [2].", "Fine.",
    ]  # fmt: skip
    assert (found.coverage, found.input_tokens, found.output_tokens) == (0.25, 0, 0)


@pytest.mark.parametrize(("statement", "quote", "proof"), rows_of("cases_proofs.txt"))
def test_a_quote_supports_only_what_it_speaks_of(statement, quote, proof):
    found = check_answer(f'{statement} [1].\n\nQUOTES\n[1] "{quote}"', PASSAGES)
    assert [each.proof for each in found.statements] == [proof]
    assert found.coverage == (proof == "supported")


@pytest.mark.parametrize(
    ("source", "statement", "proof"),
    [
        ("请勿打开盖子。", "请打开盖子", "unchecked"),
        ("请勿打开盖子。", "勿打开盖子", "supported"),
        ("At least 5 V are needed at the input.", "The input needs at most 5 V", "unchecked"),
        ("At least 5 V are needed at the input.", "The input needs at least 5 V", "supported"),
        ("La température est affichée.", "The temperature is shown", "supported"),  # a cognate
        ("The lid is locked.", "The door is red", "unchecked"),
        ("The ox ran.", "The ox sleeps", "unchecked"),  # words of two letters say nothing
        ("The cat ran.", "The cat sleeps", "supported"),
        ("한국 펌프.", "한국", "supported"),
        ("그 펌프.", "그 차", "unchecked"),
        ("The cars.", "A car", "unchecked"),
        ("The warmer side.", "A warm day", "supported"),  # forms of a word: alike for two thirds
        ("The warming side.", "A warm day", "unchecked"),
        ("ねじを締めるのです。", "それはいいのです", "unchecked"),
        ("يجب إغلاق الغطاء.", "يجب إغلاق الغطاء", "supported"),
    ],
)
def test_languages_signs_and_scripts_share_words_or_do_not(source, statement, proof):
    found = check_answer(f'{statement} [1].\n\nQUOTES\n[1] "{source}"', [passage(source, "A")])
    assert [each.proof for each in found.statements] == [proof]


def test_a_quote_that_speaks_of_another_statement_is_none_for_this_one():
    found = check_answer(f'Screws take 2.4 N·m [1]. They glow in the dark [1].\nQUOTES\n[1] "{QUOTED}"', PASSAGES)
    assert [each.proof for each in found.statements] == ["supported", "unsupported"]
    assert [each.citations for each in found.statements] == [(0,), ()]


def test_a_statement_of_two_values_has_a_quote_for_each():
    text = 'Six screws take 2.4 N·m, a bolt 1.8 N·m [1].\nQUOTES\n[1] "Tighten the six screws to 2.4 N·m"\n'
    (alone,) = check_answer(text, PASSAGES).statements
    (both,) = check_answer(text + '[1] "| bolt | 1.8 |"\n[1] "while it is warm"', PASSAGES).statements
    assert (alone.proof, alone.citations) == ("unchecked", (0,))
    assert (both.proof, both.citations) == ("supported", (0, 1))
    quotes = f'[1] "Tighten the six screws"\n[1] "{QUOTED}"'  # the nearer one alone
    assert check_answer(f"Screws take 2.4 N·m [1].\nQUOTES\n{quotes}", PASSAGES).statements[0].citations == (1,)


def test_it_is_shown_with_notes_and_flags():
    assert render(check_answer(MIXED + '[2] "Tighten the six"\n[1] "Foo bar"', PASSAGES)).splitlines()[1:] == [
        "",
        "- [1] HX210 manual › 4.4 Closing the cover, page 9, lines 272-273: “Tighten the six screws to 2.4 N·m”"
        " ✓ in other spelling",
        "- [1] HX210 manual › 4.4 Closing the cover, page 9, line 273: “Do not open the cover while it is warm”"
        " ✓ exact",
        "- [2] HX220 manual, page 9, line 270: “The HX220 needs 3.5 N·m” ✗ altered: “3.5” where the source has “3.0”",
        "- [2] “Tighten the six” ✗ not there, but in [1] HX210 manual › 4.4 Closing the cover, page 9, line 272",
        "- [1] “Foo bar” ✗ not found in the source",
        "",
        "- ✗ a verified quote, whose words do not tell whether it proves this: It stays shut at 60 °C [1].",
        "- ✗ no verified quote: The HX220 takes 3.0 N·m [2].",
        "- ✗ no verified quote: Fine.",
        "- ✗ not in what is cited: 60 °C (It stays shut at 60 °C [1].)",
        "- ✗ cited, but no passage: 7",
    ]
    assert render(check_answer(TIDY, PASSAGES)).count("\n") == 3


def test_the_model_is_asked_for_quotes_and_told_of_conflicts_and_names():
    llm = FakeLLM(lambda request: Completion(text=TIDY, input_tokens=9, output_tokens=4))
    told = {"nowhere": (Unknown("HX230"),), "conflicts": ("torque: 2.4 or <3.0>",), "max_tokens": 77}
    found = run(answer_cited("Which torque?", [Hit(PASSAGES[0], 1.0), PASSAGES[1]], **told), Services(llm=llm))
    assert (found.coverage, found.input_tokens, found.output_tokens) == (1, 9, 4)
    (request,) = llm.calls
    assert (request.prompt_version, request.max_tokens) == ("cited_answer/2", 77)
    assert request.system == prompts.load("cited_answer").system
    assert "QUOTES" in request.system
    assert '<passage number="2" from="HX220 manual, page 9, line 270">\nThe HX220 needs 3.0 N·m.\n' in request.prompt
    assert "none of the documents:\n- 'HX230' stands nowhere in the documents\n" in request.prompt
    assert "Conflicts between the documents:\n- torque: 2.4 or ‹3.0›\n" in request.prompt
    assert request.prompt.endswith("Question: Which torque?")


def test_the_model_is_told_which_figures_it_may_show_and_those_it_names_are_shown():
    other = figure_name("HX220", 4, 1)
    link = figure_link(figure_name("HX210", 7, 1), "Figure 2. The cover", "1 screw")
    passages = [passage(f"{link}\n\n{COVER}", "HX210"), passage(figure_link(other), "HX220")]
    said = "The cover has six screws [F1][1]. Press [F9] then [2] [F1].\n\nQUOTES\n"
    llm = FakeLLM(lambda request: Completion(text=said))
    found = run(answer_cited("Which screws?", passages), Services(llm=llm))
    listed = "- [F1] Figure 2. The cover (passage 1)\n- [F2] a figure without a title (passage 2)\n"
    assert f"Figures that you may show:\n{listed}" in llm.calls[0].prompt
    assert found.text == "The cover has six screws[1]. Press [F9] then [2]."
    (shown,) = found.figures
    assert (shown.id, shown.title, shown.passage) == ("F1", "Figure 2. The cover", 1)
    assert shown.name == figure_name("HX210", 7, 1)
    assert f"![Figure 2. The cover](figures/{shown.name})" in render(found)


def test_documents_names_and_lengths_are_handed_on():
    document = Document(id="HX210.pdf", text="x" * 100 + COVER, page_starts=(0, 100, 130))
    llm = FakeLLM(lambda request: TIDY)
    cited = run(answer_cited("Which?", PASSAGES, documents=[document]), Services(llm=llm))
    options = {"nowhere": (Unknown("HX230"),), "documents": [document]}
    hits = [Hit(each, 1.0) for each in PASSAGES]
    found = run(answer_from("Which?", hits, AnswerOptions(max_tokens=77), **options), Services(llm=llm))
    assert [each.citations[0].quote.pages for each in (cited, found.answer)] == [(2, 3), (2, 3)]
    assert llm.calls[-1].max_tokens == 77
    assert "'HX230' stands nowhere" in llm.calls[-1].prompt
    nothing = run(answer_from("Which?", [], AnswerOptions(budget_tokens=0, max_tokens=1)), Services())
    empty = {"coverage": 0.0, "figures": [], "citations": [], "conflicts": [], "unsupported": []}
    assert nothing.as_json("start", "end") == empty
    for wrong in ({"budget_tokens": -1}, {"max_tokens": 0}):
        with pytest.raises(ParameterError):
            AnswerOptions(**wrong)


def test_a_context_that_is_already_one_text_is_shown_as_it_is_with_its_own_numbers():
    @dataclass(frozen=True)
    class Numbered:
        number: int
        segment: Segment

    @dataclass(frozen=True)
    class Context:
        text: str
        passages: tuple[Numbered, ...]

    segment = passage(COVER, "HX210").as_segment()
    llm = FakeLLM(lambda request: TIDY.replace("[1]", "[5]"))
    context = Context("The whole context.", (Numbered(5, segment),))
    found = run(answer_cited("Which?", context), Services(llm=llm))
    assert "<passages>\nThe whole context.\n</passages>" in llm.calls[0].prompt
    assert (found.cited, found.coverage) == ((5,), 1)
    assert found.citations[0].source == "HX210 manual, page 9, lines 272-273"
    wrong = run(answer_cited("Which?", context), Services(llm=FakeLLM(lambda request: TIDY)))
    assert (wrong.unknown, wrong.citations[0].quote.state) == ((1,), "elsewhere")


def test_errors_come_before_anything_is_asked():
    llm = FakeLLM()
    with pytest.raises(ParameterError, match="at least one"):
        run(answer_cited("Which?", ()), Services(llm=llm))
    stale = Document(id="HX220.pdf", text="another text")
    with pytest.raises(ParameterError, match="the version that passage 2 was cut from"):
        run(answer_cited("Which?", PASSAGES, documents=[stale]), Services(llm=llm))
    assert llm.calls == []
    cut = FakeLLM(lambda request: Completion(text="half", finish_reason="length"))
    with pytest.raises(InvalidReplyError, match="length"):
        run(answer_cited("Which?", PASSAGES), Services(llm=cut))


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("One [1]. Two. [2] Three", ["One [1].", "Two. [2]", "Three"]),
        ("Take approx. 5 V, see fig. 3, e.g. so [1]. Then.", ["Take approx. 5 V, see fig. 3, e.g. so [1].", "Then."]),
        ("The steps are:\n1. Open it [1].\n2. Close it.\n", ["1. Open it [1].", "2. Close it."]),
        ("# Torque\nIt is\n2.4 N·m!\n\n- a [1]\n- b", ["It is 2.4 N·m!", "- a [1]", "- b"]),
        ("| a | b |\n|---|---|\n| c | 5 [1] |", ["| c | 5 [1] |"]),
        ("It waits ... then opens [1]. It closes.", ["It waits ... then opens [1].", "It closes."]),
        ("第一句。[1]第二句。", ["第一句。[1]", "第二句。"]),
        ("See No. 5 and p. 7. Then 3 more.", ["See No. 5 and p. 7.", "Then 3 more."]),
        ("…\n\n---\n[1]", []),
    ],
)  # fmt: skip
def test_statements_are_sentences_items_and_rows(text, statements):
    assert list(statements_in(text)) == statements


def test_values_and_names_of_a_statement():
    said = "1. Use 6 bolts, USB 3.0, ±5 %, −40 °C to 85 °C, 50 rpm, 5 kg and 10-20 V/ms by Max Planck Institute, "
    assert values_in(said + "Bonn or J Smith of New York on the HX-210 [1].") == (
        "6", "USB 3.0", "±5 %", "−40 °C", "85 °C", "50 rpm", "5 kg", "10-20 V/ms", "Max Planck Institute", "New York",
        "HX-210",
    )  # fmt: skip
    assert [values_in(text) for text in ("The cover is warm [1, 2].", "5 V are it.")] == [(), ("5 V",)]


@pytest.mark.parametrize(
    ("statement", "state", "missing"),
    [
        ("The HX-210 takes 2.4 N·m [1].", "found", ()),
        ("The HX210 takes 2.4 Nm [1].", "found", ()),
        ("A bolt takes 1.8 N·m [1].", "found", ()),  # the unit is at the head of the column
        ("A bolt takes 1.8 V·m [1].", "not found", ("1.8 V·m",)),
        ("It takes 2.5 N·m [1].", "not found", ("2.5 N·m",)),
        ("It takes 4 N·m [1].", "not found", ("4 N·m",)),
        ("It takes 2.4 V [1].", "not found", ("2.4 V",)),
        ("The HX220 takes 2.4 N·m [1].", "not found", ("HX220",)),
        ("The HX220 takes 3.0 N·m, the other 2.4 N·m [1, 2].", "found", ()),
        ("It is warm [1].", "nothing to check", ()),
        ("It takes 2.4 N·m.", "not cited", ()),
        ("It takes 2.4 N·m [9].", "not cited", ()),
    ],
)
def test_values_without_quotes_are_looked_for_in_what_is_cited(statement, state, missing):
    (found,) = verify_answer(statement, PASSAGES)
    assert (found.state, found.missing) == (state, missing)


def test_a_reply_is_taken_apart():
    found = read_reply('A [1].\n\nQUOTES\n[1] "a "b" c"\n[2, 3] d\n  e\n\nbye')
    assert found.text == "A [1]."
    assert found.quotes == (Quote(1, 'a "b" c'), Quote(2, "d\n  e"), Quote(3, "d\n  e"))
