"""Contexts of several documents: grouped, in order, within the budget, and no text leaves its passage."""

from __future__ import annotations

import pickle
import random
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.answering import IntegratedContext, integrate
from catena.answering.integration import beginning, inside, shortened
from catena.model import CAPTION, Hit, ParameterError, Segment, citation
from catena.text import count_tokens

LAYOUTS = ("grouped", "value", "plain")


@dataclass(frozen=True)
class Valued:
    segment: Segment
    value: float


def segment(text: str, document: str = "hx210", start: int = 0, **fields: object) -> Segment:
    title = fields.pop("title", document.upper())
    given_: dict[str, object] = {
        "id": f"{document}-{start}-{len(text)}", "path": ("4 Installation",), "chunk_ids": (f"{document}-{start}",),
        "pages": (9, 9), "lines": (start + 1, start + 1 + text.count("\n")),
        "metadata": {"title": title} if title else {},
    }  # fmt: skip
    return Segment(document_id=document, start=start, end=start + len(text), text=text, **{**given_, **fields})


def shown(context: IntegratedContext) -> list[tuple[int, str]]:
    return [(passage.number, passage.text) for passage in context.passages]


THREE = (
    Valued(segment("Tighten to 2.4 N·m.", "hx210", 500), 0.9),
    Valued(segment("Tighten to 1.8 N·m.", "hx200", 500), 0.8),
    Valued(segment("Switch the supply off.", "hx210", 10), 0.2),
)


def test_documents_come_by_their_best_value_and_their_passages_in_reading_order():
    context = integrate(THREE)
    assert context.text == (
        '<document name="HX210">\n'
        "Document context: the following excerpt is from a document titled 'HX210'.\n"
        '<passage number="1" from="HX210 › 4 Installation, page 9, line 11">\nSwitch the supply off.\n</passage>\n'
        '<passage number="2" from="HX210 › 4 Installation, page 9, line 501">\nTighten to 2.4 N·m.\n</passage>\n'
        "</document>\n"
        '<document name="HX200">\n'
        "Document context: the following excerpt is from a document titled 'HX200'.\n"
        '<passage number="3" from="HX200 › 4 Installation, page 9, line 501">\nTighten to 1.8 N·m.\n</passage>\n'
        "</document>"
    )
    assert [passage.value for passage in context.passages] == [0.2, 0.9, 0.8]
    assert context.documents == ("hx210", "hx200")
    assert context.passages[1].citation == citation(THREE[0].segment)
    assert (context.left_out, context.tokens) == ((), None)
    assert pickle.loads(pickle.dumps(context)) == context


def test_the_best_passage_first():
    context = integrate(THREE, layout="value", header=lambda found: f"Of {found.document_id}.")
    assert [passage.value for passage in context.passages] == [0.9, 0.8, 0.2]
    assert context.text.startswith(
        '<passage number="1" from="HX210 › 4 Installation, page 9, line 501">\n'
        "Of hx210.\n\nTighten to 2.4 N·m.\n</passage>"
    )
    assert "<document" not in context.text


def test_a_text_for_readers():
    assert integrate(THREE[:2], layout="plain").text == (
        "Document context: the following excerpt is from a document titled 'HX210'.\n\n"
        "[1] HX210 › 4 Installation, page 9, line 501\n> Tighten to 2.4 N·m.\n\n"
        "Document context: the following excerpt is from a document titled 'HX200'.\n\n"
        "[2] HX200 › 4 Installation, page 9, line 501\n> Tighten to 1.8 N·m."
    )


def test_bare_segments_are_given_best_first_and_hits_bring_their_scores():
    bare = integrate([THREE[1].segment, THREE[0].segment])
    assert bare.documents == ("hx200", "hx210")
    found = chunk("c", "text", position=4, start=3, pages=(1, 2))
    (passage,) = integrate([Hit(found, 0.5)]).passages
    assert passage.segment.as_chunk() == found
    assert (passage.value, passage.segment.chunk_ids, passage.segment.positions) == (0.5, ("c",), (4, 4))


def test_a_figure_shows_what_a_model_saw_in_it():
    seen = segment("![pump](pump.png)", metadata={CAPTION: "A pump </passage> with a valve."})
    described = "(The figure, described by a model: A pump ‹/passage> with a valve.)"
    assert f"![pump](pump.png)\n{described}\n</passage>" in integrate([seen]).text


# One text, one passage


def test_segments_that_overlap_become_one():
    whole = "one two three four five"
    first = segment(whole[:13], start=0, path=("A", "B"), pages=(1, 1), chunk_ids=("a", "b"), positions=(0, 1))
    second = segment(whole[8:], start=8, path=("A", "C"), pages=(1, 2), chunk_ids=("b", "c"), positions=(1, 2))
    inner = segment(whole[4:7], start=4)
    (passage,) = integrate([Valued(second, 0.4), Valued(inner, 0.9), Valued(first, 0.3)]).passages
    joined = passage.segment
    assert (joined.text, joined.start, joined.end, passage.value) == (whole, 0, len(whole), 0.9)
    assert (joined.path, joined.pages, joined.positions, joined.lines) == (("A",), (1, 2), (0, 2), (1, 9))
    assert joined.chunk_ids == ("a", "b", "c")
    (kept,) = integrate([inner, segment(whole)]).passages
    assert kept.segment == segment(whole)


def test_a_segment_that_holds_another_stays_as_it_is_and_unknown_positions_stay_unknown():
    whole = segment("Wear goggles. Close the cover.", positions=(0, 1))
    for start, end in ((0, 13), (14, 30), (14, 20)):
        (passage,) = integrate([segment(whole.text[start:end], start=start), whole]).passages
        assert passage.segment == whole
    (passage,) = integrate([whole, segment("cover. Switch it on.", start=24)]).passages
    assert (passage.text, passage.segment.positions) == ("Wear goggles. Close the cover. Switch it on.", None)


def test_what_overlaps_but_says_another_thing_is_of_another_version_and_stays():
    context = integrate([segment("one two", start=0), segment("TWO three", start=4), segment("neXt", start=7)])
    assert len(context.passages) == 3
    parts = [segment("one two", start=0), segment("two three", start=4), segment("ONE TWO THREE", start=2)]
    assert shown(integrate(parts)) == [(1, "one two three"), (2, "ONE TWO THREE")]


def test_boilerplate_is_shown_once_and_names_all_its_places():
    again = segment("Wear  goggles.\n", "hx200", 40, lines=(3, 3))
    late = segment("Wear goggles.", "hx210", 90)
    context = integrate([Valued(again, 0.2), Valued(segment("Wear goggles.", "hx210", 7), 0.7), Valued(late, 0.1)])
    assert [(passage.segment.start, passage.also) for passage in context.passages] == [(7, (again, late))]
    assert 'also="HX200 › 4 Installation, page 9, line 3; HX210 › 4 Installation, page 9, line 91"' in context.text
    plain = integrate([late, again], layout="plain").text
    assert "[1] HX210 › 4 Installation, page 9, line 91 (also: HX200 › 4 Installation, page 9, line 3)\n" in plain


def test_all_that_says_the_same_is_left_out_with_it():
    blank = [segment(" \n ", "a"), segment("  ", "b"), segment("\n", "c")]
    assert [left.segment for left in integrate(blank).left_out] == blank
    twice = [segment("Wear goggles.", "a"), segment("Wear  goggles.", "b")]
    context = integrate(twice, budget_tokens=0, count=count_tokens)
    assert [(left.segment, left.reason) for left in context.left_out] == [(each, "budget") for each in twice]


def test_white_space_behind_a_bracket_costs_no_more_than_its_length():
    text = "<" + " " * 300_000 + "passage>"  # its square would be hours
    assert inside(text) == "‹" + text[1:]
    assert inside(text[:-8]) == text[:-8]


# The budget


def words(text: str) -> int:
    return len(text.split())


def test_the_best_is_taken_first_and_a_smaller_one_behind_what_does_not_fit():
    long = Valued(segment("word " * 100, "b"), 0.5)
    small = Valued(segment("small", "c"), 0.1)
    best = Valued(segment("best", "a"), 0.9)
    context = integrate([small, long, best], budget_tokens=60, count=words)
    assert [passage.text for passage in context.passages] == ["best", "small"]
    assert [(left.segment, left.reason) for left in context.left_out] == [(long.segment, "budget")]
    assert context.tokens == words(context.text) <= 60
    with_blank = integrate([Valued(segment(" ", "d"), 2.0), small, long, best], budget_tokens=60, count=words)
    assert [left.reason for left in with_blank.left_out] == ["budget", "blank"]


def test_a_passage_is_cut_at_a_line_or_a_sentence_only_where_that_is_wanted():
    text = "The first line.\nThe second line says more. And this one ends it.\nThe third line.\n"
    parts = [Valued(segment(text, "a", pages=(1, 2)), 0.9), Valued(segment("of a kind\n" * 40, "b"), 0.1)]
    size = integrate([parts[0]], count=words).tokens
    assert size is not None
    options = {"budget_tokens": size - 5, "count": words, "layout": "grouped"}
    assert integrate(parts, **options).passages == ()
    context = integrate(parts, cut=True, **options)
    (passage,) = context.passages
    assert passage.is_cut
    assert passage.text == "The first line.\nThe second line says more. "
    assert (passage.segment.lines, passage.segment.pages) == ((1, 2), (1, 2))
    assert passage.citation.endswith("pages 1-2, lines 1-2")
    assert 'lines 1-2" cut="yes">' in context.text
    assert text.startswith(passage.text)
    assert [left.segment.document_id for left in context.left_out] == ["b"]
    assert "> (it goes on)" in integrate(parts, cut=True, budget_tokens=28, count=words, layout="plain").text


def test_one_passage_is_cut_and_no_scraps_of_others_follow():
    lines = ("word " * 30 + "end.\n") * 3
    parts = [Valued(segment(lines, "a"), 1.0), Valued(segment("x\n" * 90, "a", 5_000), 0.5)]
    whole = integrate(parts[:1], count=words).tokens
    assert whole is not None
    context = integrate(parts, budget_tokens=whole - 1, count=words, cut=True)
    assert [passage.text for passage in context.passages] == [("word " * 30 + "end.\n") * 2]
    assert [left.segment for left in context.left_out] == [parts[1].segment]


TEXTS = st.one_of(
    st.sampled_from(["Wear goggles.", "One. Two. Three.", "a\nb\nc\n", "| a | b |\n| --- | --- |\n| 1 | 2 |", " "]),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30),
    st.sampled_from(["</passage>", "</ PASSAGE >x", '<passage number="9">', "</document>\n<document>", "[1] x\n> y"]),
)
SEGMENTS = st.lists(
    st.builds(
        Valued,
        st.builds(segment, TEXTS, st.sampled_from(["a", "b", "</document>", 'q"<passage>']), st.integers(0, 40)),
        st.sampled_from([-1.0, 0.0, 0.5, 0.5, 2.0]),
    ),
    max_size=8,
)
NUMBERS = re.compile(r'^<passage number="(\d+)" from="', re.MULTILINE)


@given(SEGMENTS, st.integers(0, 400), st.sampled_from(LAYOUTS), st.booleans(), st.randoms(use_true_random=False))
def test_the_laws_of_a_context(segments, budget, layout, cut, shuffler):
    context = integrate(segments, budget_tokens=budget, count=count_tokens, layout=layout, cut=cut)
    assert context.tokens == count_tokens(context.text) <= budget
    assert [passage.number for passage in context.passages] == list(range(1, len(context.passages) + 1))
    for passage in context.passages:
        own = passage.segment
        assert passage.citation == citation(own)
        given_ = [valued.segment for valued in segments if valued.segment.document_id == own.document_id]
        assert any(each.start <= own.start <= each.end for each in given_)
    if layout == "plain":
        starts = re.findall(r"^\[(\d+)\] ", context.text, re.MULTILINE)
        assert starts == [str(passage.number) for passage in context.passages]
    else:
        tags = re.findall(r"<\s*/?\s*(?:passage|document)\b", context.text, re.IGNORECASE)
        documents = len(context.documents) if layout == "grouped" else 0
        assert len(tags) == 2 * (len(context.passages) + documents)
        assert NUMBERS.findall(context.text) == [str(passage.number) for passage in context.passages]
    again = list(segments)
    shuffler.shuffle(again)
    assert integrate(again, budget_tokens=budget, count=count_tokens, layout=layout, cut=cut).text == context.text


@given(SEGMENTS, st.sampled_from(LAYOUTS))
def test_without_a_budget_every_text_is_there(segments, layout):
    context = integrate(segments, layout=layout)
    assert {left.reason for left in context.left_out} <= {"blank"}
    everything = "".join("".join(passage.text.split()) for passage in context.passages)
    assert all("".join(valued.segment.text.split()) in everything for valued in segments)
    enough = integrate(segments, layout=layout, budget_tokens=10**9, count=count_tokens)
    assert (enough.text, enough.passages) == (context.text, context.passages)
    assert integrate(segments, layout=layout, budget_tokens=0, count=count_tokens).text == ""


@given(TEXTS, st.integers(0, 30))
def test_what_is_shortened_is_a_slice(text, most):
    whole = segment(text)
    shorter = shortened(whole, lambda piece: len(piece.text) <= most)
    if shorter is not None:
        assert text.startswith(shorter.text)
        assert 0 < len(shorter.text) <= min(most, len(text) - 1)
        assert shorter == beginning(whole, len(shorter.text))
        assert shorter.lines == (1, 1 + shorter.text[:-1].count("\n"))


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Use 2.4 bar. J. Then stop. Done", ["Use 2.4 bar. ", "Use 2.4 bar. J. Then stop. "]),
        ("It is approx. five. Then 3.", ["It is approx. five. "]),
        ("安全。手册。完", ["安全。", "安全。手册。"]),
        ("| a |\n| - |\n| 1 |", ["| a |\n", "| a |\n| - |\n"]),
        ("a\nb\nc\nd\ne\nf", ["a\n", "a\nb\n", "a\nb\nc\n", "a\nb\nc\nd\n", "a\nb\nc\nd\ne\n"]),
        ("no border here", []),
    ],
)
def test_borders_of_lines_and_sentences(text, pieces):
    for most in range(len(text)):
        found = shortened(segment(text), lambda piece: len(piece.text) <= most)  # noqa: B023
        longest = max((piece for piece in pieces if len(piece) <= most), key=len, default=None)
        assert (found.text if found else None) == longest


@pytest.mark.parametrize(
    ("given_", "options", "said"),
    [
        (THREE, {"budget_tokens": -1, "count": words}, "budget_tokens"),
        (THREE, {"budget_tokens": 10}, "count="),
        (THREE, {"layout": "table"}, "layout"),
        ((THREE[0], Valued(segment("b", "c"), float("nan"))), {}, "values must be numbers"),
        ((THREE[0], THREE[1].segment), {}, "all with values, or none"),
    ],
)
def test_what_makes_no_sense_is_refused(given_, options, said):
    with pytest.raises(ParameterError, match=said):
        integrate(given_, **options)


def test_many_segments_take_one_count_where_all_fit():
    calls = []
    many = [Valued(segment(f"text {place}", f"d{place}"), random.Random(place).random()) for place in range(200)]
    integrate(many, budget_tokens=10**6, count=lambda text: calls.append(1) or len(text))
    assert len(calls) == 2
