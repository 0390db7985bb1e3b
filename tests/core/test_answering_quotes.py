"""Quotes: each state by hand, the laws of places on any text, and on the documents that ship."""

from __future__ import annotations

import pickle
import re
import string
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path

import pytest
from case_files import rows_of
from hypothesis import assume, given
from hypothesis import strategies as st

from catena.answering.quotes import Quote, looked_up, verify_quotes
from catena.library import prepare, read
from catena.model import Chunk, Document, Hit, ParameterError
from catena.text import Difference, Wording, place_of

COVER = """### 4.4 Closing the cover

Do not open the **cover** while the device is warm. Tighten the six
screws to 2.4 N·m in a cross-
wise order; the operating temper-
ature is −40 °C to 85 °C, ±5 %. A reading of 10.5 mW (“typical”) is ﬁne. The unit is unable to start at 10-20 V.

| Torque | HX210 | 2.4 N·m |
| Area | see [the manual](https://halden.example/hx) | 10² mm² |
"""
LEAD = "# HX210\n\nBefore you begin.\n\n"
DOCUMENT = Document(id="hx210", text=LEAD + COVER + "\nThe end.\n", page_starts=(0, len(LEAD) + 100))
OTHER = "Tighten the eight screws to 1.8 N·m before you close the housing."


def passage(text: str, start: int = 0, document_id: str = "d", **more: object) -> Chunk:
    fields = {"id": f"{document_id}/{start}", "position": 0, **more}
    return Chunk(document_id=document_id, start=start, end=start + len(text), text=text, **fields)


FIRST = passage(COVER, len(LEAD), "hx210", pages=(1, 2), lines=(5, 14))
SECOND = passage(OTHER, 0, "hx220", pages=(3, 3), lines=(1, 1))


def verified(text: str, number: int = 1):
    (found,) = verify_quotes([Quote(number, text)], [FIRST, SECOND], documents=[DOCUMENT])
    return found


@pytest.mark.parametrize(("quoted", "state", "printed"), rows_of("cases_quote_states.txt"))
def test_each_state_by_hand(quoted, state, printed):
    found = verified(quoted)
    assert (found.state, found.verified) == (state, state in ("exact", "normalised"))
    if state == "exact" or printed is not None:
        assert found.printed == (quoted if printed is None else printed)
    if found.start is not None:
        source = COVER if found.passage == 1 else OTHER
        offset = found.start - (len(LEAD) if found.passage == 1 else 0)
        assert source[offset : offset + len(found.printed)] == found.printed


@pytest.mark.parametrize(
    ("quoted", "differences"),
    [
        ("Tighten the six screws to 2.5 N·m in a crosswise order", [("2.5", "2.4")]),
        ("Do open the cover while the device is warm", [("", "not")]),
        ("Do not open the cover when the device is warm", [("when", "while")]),
        ("4 N·m", [("4", "2.4")]),
        ("open the cover when the device is warm", [("when", "while"), ("open", "not open")]),
        ("the unit is able to start", [("able", "unable")]),
        ("able to start at", [("able", "unable")]),
        ("Do not open the cov-er when the device is warm", [("when", "while")]),
    ],
)
def test_what_was_changed_is_named(quoted, differences):
    assert verified(quoted).differences == tuple(Difference(*each) for each in differences)


def test_page_and_lines_are_those_of_the_quote():
    found = verified("wise order; the operating temper-\nature is −40 °C")
    assert (found.pages, found.lines) == ((2, 2), (9, 10))
    assert DOCUMENT.text[found.start : found.end] == found.printed
    crossing = verified("Tighten the six screws to 2.4 N·m")
    assert (crossing.pages, crossing.lines) == ((1, 2), (7, 8))
    (without,) = verify_quotes([Quote(1, "HX210 | 2.4 N·m")], [FIRST])
    assert (without.pages, without.lines) == ((1, 2), (12, 12))  # pages of the passage, lines of the quote
    (unknown,) = verify_quotes([Quote(1, "HX210")], [replace(FIRST, pages=None, lines=None)])
    assert (unknown.pages, unknown.lines) == (None, None)


def test_of_equally_exact_places_the_first_from_an_offset_on_is_taken():
    source = Wording("The lamp burns. So. THE LAMP burns. The lamp burns.")
    quote = Wording("The lamp")
    starts = [place_of(quote, source, after=after).start for after in (0, 1, 37, 50)]
    assert starts == [0, 36, 0, 0]  # exact before normalised, then the offset
    assert place_of(Wording("the lamp … so the"), source).state == "normalised"
    assert place_of(Wording("the lamp … so the"), source, over_ellipses=False) is None


def test_elsewhere_names_the_passage_and_its_document():
    found = verified("Tighten the eight screws")
    assert (found.number, found.passage, found.document_id, found.pages) == (1, 2, "hx220", (3, 3))
    assert verified("Tighten the six\nscrews", number=2).state == "elsewhere"
    assert verified("Tighten the six screws", number=9).passage == 1
    plain = passage("Tighten the six screws", document_id="plain")
    (own,) = verify_quotes([Quote(1, plain.text)], [FIRST, plain])
    assert (own.state, own.passage) == ("normalised", 1)  # though another passage has it exactly
    assert verified("Wipe it with a dry cloth", number=0).state == "missing"
    assert verified("able to start at", number=2).state == "missing"  # there it is cut of "unable"


def test_quotation_marks_around_a_quote_are_no_part_of_it():
    for quoted in ('"Tighten the eight screws"', "“Tighten the eight screws”", "« Tighten the eight screws »"):
        found = verified(quoted, number=2)
        assert (found.state, found.printed) == ("exact", "Tighten the eight screws")


@pytest.mark.parametrize(("source", "quoted", "state"), rows_of("cases_quote_scripts.txt"))
def test_other_scripts_signs_and_units(source, quoted, state):
    (found,) = verify_quotes([Quote(1, quoted)], [passage(source)])
    assert found.state == state


def test_hits_segments_and_what_holds_a_segment_are_passages():
    class Numbered:
        number = 7
        segment = SECOND.as_segment()

    class Held:
        segment = Numbered.segment

    quote = "Tighten the eight screws"
    for number, given_ in ((1, Hit(SECOND, 0.5)), (1, Numbered.segment), (7, Numbered()), (1, Held())):
        (found,) = verify_quotes([Quote(number, quote)], [given_])
        assert (found.state, found.passage) == ("exact", number)

    with pytest.raises(ParameterError, match="passage numbers must be all different"):
        verify_quotes([], [Numbered(), Numbered()])


def test_a_document_of_another_version_is_refused():
    stale = replace(DOCUMENT, text=DOCUMENT.text.replace("six", "ten"))
    with pytest.raises(ParameterError, match="the version that passage 1 was cut from") as raised:
        verify_quotes([], [FIRST], documents=[stale])
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


# Laws

WORDS = st.sampled_from((
    "cover", "the", "Screws", "HX-210", "2.4 N·m", "not", "−40 °C", "**bold**", "temper-\nature", "ﬁlter", "(see",
    "3)", "| cell |", "“so”", "10-20 V", "5 %", "盖子", "it's", "f_cpu", "- item", "> 5", "m/s", "no.", "é", "x²",
    "…", "&amp;",
))  # fmt: skip
SPACES = st.sampled_from([" ", "  ", "\n", "\n\n", "\t", " \n "])


@st.composite
def texts(draw: st.DrawFn) -> str:
    words = draw(st.lists(WORDS, min_size=1, max_size=40))
    return "".join(word + draw(SPACES) for word in words)


@given(texts(), st.data())
def test_a_slice_is_exact_or_cuts_a_value_and_white_space_does_not_matter(text, data):
    places = sorted({0, len(text), *(match.end() for match in re.finditer(r"\s+", text))})
    start, end = sorted(data.draw(st.lists(st.sampled_from(places), min_size=2, max_size=2, unique=True)))
    quoted = text[start:end]
    assume(quoted.strip())
    source = passage(text, 17)
    (found,) = verify_quotes([Quote(1, quoted)], [source])
    assert found.start is not None
    assert text[found.start - 17 : found.end - 17] == found.printed
    assert found.state in ("exact", "normalised", "altered")
    if found.verified:
        words = Wording(quoted).folded
        if found.state == "exact":
            assert found.printed == quoted.strip()
        else:  # the slice cuts a value, but its words stand uncut at another place
            everywhere = Wording(text).folded
            assert everywhere.find(words) < everywhere.rfind(words)
        assume(words)
        respaced = re.sub(r"\s+", lambda _: data.draw(SPACES), quoted)
        (again,) = verify_quotes([Quote(1, respaced)], [source])
        assert again.verified
        assert Wording(again.printed).folded == words
    else:
        assert found.differences


@given(texts(), st.data())
def test_a_changed_digit_is_never_verified(text, data):
    digits = [match.start() for match in re.finditer(r"[0-9]", text)]
    assume(digits)
    at = data.draw(st.sampled_from(digits))
    changed = text[:at] + str((int(text[at]) + data.draw(st.integers(1, 9))) % 10) + text[at + 1 :]
    start = text.rfind("\n", 0, at) + 1
    quoted = changed[start:]
    assume(Wording(quoted).folded not in Wording(text).folded)
    (found,) = verify_quotes([Quote(1, quoted)], [passage(text)])
    assert found.state in ("altered", "missing")


@given(st.text(max_size=60), st.text(max_size=200))
def test_any_two_texts_can_be_compared(quoted, text):
    source = passage(text, 3)
    (found,) = verify_quotes([Quote(1, quoted)], [source])
    assert (found.start is None) == (found.state == "missing")
    if found.start is not None:
        assert text[found.start - 3 : found.end - 3] == found.printed
    if quoted.strip() and quoted.strip() == text.strip():
        assert found.state == "exact"
    assert verify_quotes([Quote(1, quoted)], [source]) == (found,)


@given(st.text(max_size=120))
def test_words_are_found_where_they_stand(text):
    words = Wording(text)
    spans = [words.span(token.start, token.end) for token in words.tokens]
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert len(words.folded) == len(words.spelled) == sum(len(token.spelling) for token in words.tokens)
    assert spans == sorted(spans)


def test_a_long_run_of_short_words_is_no_trouble():
    text = "5 " + "·".join("abcdefgh" * 500)
    (found,) = verify_quotes([Quote(1, text[-200:])], [passage(text)])
    assert found.start is not None


# The documents that ship


@cache
def manual() -> tuple[Document, tuple[Chunk, ...]]:
    path = Path(str(files("catena") / "data" / "demo" / "halden-hx210-manual.pdf"))
    entry = prepare(read(path, document_id="hx210").document)
    return entry.document, entry.chunks


def test_lines_of_a_real_manual_are_found_with_their_page_and_line():
    document, chunks = manual()
    before = (document.text, chunks)
    quotes, places = [], []
    for number, chunk in enumerate(chunks, start=1):
        for line in re.finditer(r"[^\n]*\w[^\n]*", chunk.text):
            quotes.append(Quote(number, " ".join(line.group().replace("**", "").split())))
            places.append(chunk.start + line.start())
    found = verify_quotes(quotes, chunks, documents=[document])
    assert len(quotes) > 200
    for quote, each, place in zip(quotes, found, places, strict=True):
        assert each.verified, (quote, each)
        assert document.text[each.start : each.end] == each.printed
        assert each.place == document.place_of(each.start, each.end)
        assert each.start <= place + 12  # the first of equal lines; marks before a line's first word are none of it
    assert (document.text, chunks) == before
    alone = verify_quotes(quotes, chunks)
    assert [each.lines for each in alone] == [each.lines for each in found]


def test_long_texts_and_gaps_cost_no_more_than_their_length():
    source = passage("Press the button to go on now. " * 6_000 + "Then go away now.")
    gap = " " * 100_000
    (wide,) = verify_quotes([Quote(1, f"Press the button{gap}… go on now")], [source])
    assert (wide.state, wide.printed) == ("normalised", "Press the button to go on now")
    for left_out, state in ((600, "normalised"), (601, "near")):
        gapped = passage(f"Press it {'x' * (left_out - 2)} go on")
        assert verify_quotes([Quote(1, "Press it … go on")], [gapped])[0].state == state
    words = [first + second for first, second in product(string.ascii_lowercase, repeat=2)]
    for length, state in ((400, "near"), (401, "missing")):
        changed = Quote(1, " ".join((*words[:99], "changed", *words[100:length])))
        assert verify_quotes([changed], [passage(" ".join(words[:length]))])[0].state == state
    (far,) = verify_quotes([Quote(1, "Press the button … then go away")], [source])  # within reach of the last alone
    assert (far.state, far.printed[-12:]) == ("normalised", "Then go away")


def test_words_around_a_word_that_was_added_are_one_place():
    source = passage("One command for a question about a few files, without a library.")
    (found,) = verify_quotes([Quote(1, "for a few files, without a library.")], [source])
    assert (found.state, found.printed) == ("near", "a few files, without a library")


def test_an_ellipsis_reaches_over_characters_that_stand_for_many():
    source = passage("Begin here now " + "ﷺ " * 290 + "end there then")
    (found,) = verify_quotes([Quote(1, "Begin here … end there")], [source])
    assert (found.state, found.printed) == ("normalised", source.text.removesuffix(" then"))


@pytest.mark.parametrize(
    ("text", "quote", "whole"),
    [
        ("It has non-uniform shlibs files.", "uniform shlibs files", "“non-uniform” in place of “uniform”"),
        ("Tightened to 2.4 N·m.", "4 N·m", "“2.4” in place of “4”"),
        ("Do not open the cover.", "open the cover", "“not open” in place of “open”"),
    ],
)
def test_a_quote_that_ends_inside_a_word_is_told_the_whole_word(text: str, quote: str, whole: str) -> None:
    passage = Chunk(id="c", document_id="d", position=0, start=0, end=len(text), text=text)
    with pytest.raises(ParameterError, match="words that stand in d") as told:
        looked_up(quote, passage)
    assert whole in told.value.do_next
