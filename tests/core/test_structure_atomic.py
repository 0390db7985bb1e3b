"""Atomic units: the paper's mapping by edit distance, and exact slices of the text whatever a model answers."""

from __future__ import annotations

import json
import math
import pickle
import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.effects import Complete, Completion, Services, plan, run
from catena.model import Document, InvalidReplyError, MissingServiceError, ParameterError, Section, ServiceError
from catena.structure import cut_fixed, outline
from catena.testing import FakeLLM, ScriptedLLM
from catena.testing.strategies import texts
from catena.text import count_tokens
from catena_bench.baselines import (
    PURPOSE,
    AtomicChunks,
    AtomicOptions,
    atomic,
    cut_atomic,
    cut_sentences,
    planned_answer,
    plus_factor,
)

TEXT = (
    "# Sea ice\n\nSea ice is frozen sea water. It floats, because ice is lighter than water.\n\n"
    "In winter it covers some 15 million\nsquare kilometres of the Arctic Ocean. In summer about a third of that is "
    "left. The minimum is reached in September.\n\n"
    "## Use\n\nSeals rest on it. Polar bears hunt from it; they cannot catch a seal in open water. See below. "
    "Ships avoid it. See below.\n\n"
    "海冰是由海水冻结而成的冰。它漂浮在海面上！\n\n"
    "| Month | Area |\n|---|---|\n| March | 15 |\n| September | 5 |\n\n"
    "The record low was 3.4 million square kilometres, in 2012. Nobody knows when the first summer without ice will "
    "come.\n"
)
GROUPS = (3, 3, 2, 2, 2, 2, 1, 2)
"""How a model that is right divides the 17 sentences of TEXT."""

Reply = Callable[[Complete], str | Completion]


def document(text: str = TEXT) -> Document:
    return Document(id="d", text=text, media_type="text/markdown")


def cut(text: str, reply: Reply, sections: Sequence[Section] | None = None, **options: object) -> AtomicChunks:
    how = AtomicOptions(**options)  # type: ignore[arg-type]
    return run(cut_atomic(document(text), how, sections=sections), Services(llm=FakeLLM(reply)))


def shown(text: str = TEXT) -> list[str]:
    (window,) = atomic.windows_of(text, None, 2_000, count_tokens)
    return list(window.shown)


def grouped(sentences: Sequence[str], sizes: Sequence[int]) -> list[str]:
    parts = iter(sentences)
    return [" ".join(next(parts) for _ in range(size)) for size in sizes]


UNITS = grouped(shown(), GROUPS)


def condensed(text: str) -> str:
    return "".join(text.split())


def check_laws(text: str, found: AtomicChunks, limit: int = 2_000, sections: Sequence[Section] | None = None) -> None:
    """Chunks are exact slices in order that tile the text up to white space, of whole sentences of one window."""
    chunks = found.chunks
    assert all(chunk.text == text[chunk.start : chunk.end] and chunk.text.strip() for chunk in chunks)
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    assert all(one.end <= other.start for one, other in pairwise(chunks))
    assert "".join(condensed(chunk.text) for chunk in chunks) == condensed(text)
    assert len({chunk.id for chunk in chunks}) == len(chunks)
    sentences = cut_sentences(document(text), sections, tokens=limit)
    assert {chunk.start for chunk in chunks} <= {sentence.start for sentence in sentences}
    assert {chunk.end for chunk in chunks} <= {sentence.end for sentence in sentences}
    windows = [window.span for window in atomic.windows_of(text, sections, limit, count_tokens)]
    assert all(any(start <= chunk.start and chunk.end <= end for start, end in windows) for chunk in chunks)


# The recurrence of C.3.


def test_the_recurrence_on_distances_worked_out_by_hand() -> None:
    # d("aaaa.", "aabb.") = 2 = d("bbbb.", "aabb."), all others that differ are 4, so D is
    #        S1 S2 S3
    #   y1    0  4  4    j_1: y1 has 0 > 4: no; y2 has 2 > 2: no (as near is not nearer); y3 has 4 > 0: j_1 = 3,
    #   y2    2  2  4         so S1 is y1 y2
    #   y3    4  0  4    j_2 >= 3: y3 has 0 > 4: no; y4 has 4 > 0: j_2 = 4, so S2 is y3
    #   y4    4  4  0    S3, the last, takes y4, which remains
    distances = atomic.edit_distances(["aaaa.", "aabb.", "bbbb.", "cccc."], ["aaaa.", "bbbb.", "cccc."])
    assert distances.tolist() == [[0, 4, 4], [2, 2, 4], [4, 0, 4], [4, 4, 0]]
    assert atomic.unit_ends(distances) == (2, 3, 4)


def levenshtein(one: str, other: str) -> int:
    """The textbook table of edit distances, nothing left out."""
    table = [[i + j if i * j == 0 else 0 for j in range(len(other) + 1)] for i in range(len(one) + 1)]
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            change = table[i - 1][j - 1] + (one[i - 1] != other[j - 1])
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, change)
    return table[-1][-1]


def by_the_book(sentences: Sequence[str], units: Sequence[Sequence[str]]) -> list[list[str]]:
    """Appendix C.3, word for word, with indices from 1: the sentences of each unit."""
    n, m = len(sentences), len(units)

    def distance(j: int, i: int) -> int:
        return min(levenshtein(sentences[j - 1], s) for s in units[i - 1])

    j = {0: 1}
    for i in range(1, m):
        first = [k for k in range(j[i - 1], n + 1) if distance(k, i) > distance(k, i + 1)]
        j[i] = min(first, default=n + 1)
    j[m] = n + 1
    return [list(sentences[j[i - 1] - 1 : j[i] - 1]) for i in range(1, m + 1)]


few_letters = st.text(alphabet="ab 字é\U0001f9ca.", min_size=1, max_size=7)


@given(
    st.lists(few_letters, max_size=7), st.lists(st.lists(few_letters, min_size=1, max_size=3), min_size=1, max_size=5)
)
def test_the_mapping_is_that_of_the_appendix(sentences: list[str], units: list[list[str]]) -> None:
    flat = [sentence for unit in units for sentence in unit]
    starts = np.cumsum([0, *map(len, units)])[:-1]
    distances = atomic.edit_distances(sentences, flat).reshape(-1, len(flat))
    ends = atomic.unit_ends(np.minimum.reduceat(distances, starts, axis=1))
    found = [list(sentences[first:end]) for first, end in pairwise((0, *ends))]
    assert found == by_the_book(sentences, units)


def test_a_copy_keeps_its_borders_even_between_equal_sentences() -> None:
    sentences = ["One.", "See below.", "See below.", "Two."]
    assert atomic.map_units(sentences, ["One. See below.", "See below. Two."]) == atomic.Mapped((2, 4))
    assert atomic.own_ends(sentences, ["One. See", "below. See below. Two."]) is None  # divides a sentence
    assert atomic.own_ends(sentences, ["One. See below.", "See below. Two"]) is None
    assert atomic.map_units(sentences, ["One. See", "below. See below. Two."]).ends == (1, 4)


def test_what_became_of_each_unit_is_noted() -> None:
    sentences = ["Ice floats on water.", "Seals rest on it.", "Bears hunt from it, all winter long."]
    units = ["1)", "Ice floats on the water.", "Ice floats on water.", "Seals rest on it.", sentences[2]]
    # between the two units of ice y1 is nearer to the second: 4 > 0
    notes = (atomic.Note("unlike", 0, 0, 0), atomic.Note("no_sentence", 1, 0, 0))
    assert atomic.map_units(sentences, units) == atomic.Mapped((1, 2, 3), notes)
    assert atomic.map_units(sentences, units[1:2] + units[3:]).notes == (atomic.Note("reworded", 0, 0, 1),)


@pytest.mark.parametrize(
    ("sentences", "units", "what"),
    [
        (["A whole sentence."], [], "it holds no unit"),
        (["Ice floats on water.", "Seals rest."], ["I am sorry, but that I cannot do for you."], "it holds 0% of"),
        (["Ice floats on water, which is heavier.", "Seals rest."], ["Seals rest!"], "it holds 22% of the passage"),
    ],
)
def test_what_is_no_copy_is_refused(sentences: list[str], units: list[str], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        atomic.map_units(sentences, units)


def test_a_sentence_copied_in_part_or_joined_to_others_is_like_it() -> None:
    long = "The record low was 3.4 million square kilometres, measured by satellite in the September of 2012"
    assert atomic.map_units([f"{long}."], ["million square kilometres"], least_kept=0.0).ends == (1,)
    two = ["The first of these two sentences is short.", "The second of them is the longer, as it goes on so far."]
    joined = [" ".join(two).replace(". ", ", ") + " " + "And much was added. " * 9]
    assert atomic.map_units(two, joined).ends == (2,)


def test_a_heading_in_a_unit_is_a_sentence_of_it_as_it_is_in_the_window() -> None:
    sentences = ["## Use", "Seals rest on it, and bears.", "See below.", "Ships do not come.", "| a | b |"]
    undotted = atomic.undotted_of(sentences)
    assert atomic.sentences_of("## Use Seals rest. See below. | a | b | x", undotted) == [
        *("## Use", "Seals rest.", "See below.", "| a | b |", "x")
    ]
    assert atomic.sentences_of("## Useful. A| a | b |", undotted) == ["## Useful.", "A| a | b |"]
    # "## Use" is 8 edits from "See below." and 23 from "## Use Seals rest on it, and bears."
    units = ["## Use Seals rest on it, and bears.", "See below.", "Ships do come. | a | b |"]
    assert atomic.map_units(sentences, units) == atomic.Mapped((2, 3, 5), (atomic.Note("reworded", 2, 3, 5),))


# What a model is shown.


def test_a_document_is_shown_as_paragraphs_in_windows_and_a_copy_keeps_its_sentences() -> None:
    llm = FakeLLM(planned_answer)
    found = run(cut_atomic(document(), AtomicOptions(window=40)), Services(llm=llm))
    windows = list(atomic.windows_of(TEXT, None, 40, count_tokens))
    assert {request.purpose for request in llm.calls} == {PURPOSE}
    asked = [re.findall(r"<passage>\n(.*)\n</passage>", request.prompt, re.DOTALL)[0] for request in llm.calls]
    assert sorted(asked) == sorted(window.passage() for window in windows if len(window.spans) > 1)
    assert windows[0].passage().startswith("# Sea ice\n\nSea ice is frozen sea water. It floats,")
    assert "15 million square kilometres" in " ".join(window.passage() for window in windows)
    assert [chunk.text for chunk in found.chunks] == [chunk.text for chunk in cut_sentences(document())]
    check_laws(TEXT, found, 40)


@given(texts(), st.integers(1, 40))
@settings(max_examples=60)
def test_windows_hold_whole_sentences_as_far_as_they_fit(text: str, limit: int) -> None:
    windows = list(atomic.windows_of(text, None, limit, count_tokens))
    for window in windows:
        assert all(sentence == " ".join(sentence.split()) for sentence in window.shown)
        assert len(window.spans) == 1 or count_tokens(text[slice(*window.span)]) <= limit
    for one, other in pairwise(windows):  # a window goes on as far as the next sentence still fits
        first = text[slice(*other.spans[0])]
        assert sum(count_tokens(text[start:end]) for start, end in one.spans) + count_tokens(first) > limit
    assert "".join(condensed(text[slice(*window.span)]) for window in windows) == condensed(text)


# Answers that are right.


@given(texts(), st.integers(5, 60), st.data())
@settings(max_examples=60)
def test_any_division_of_a_model_that_copies_is_kept(text: str, limit: int, data: st.DataObject) -> None:
    windows = list(atomic.windows_of(text, None, limit, count_tokens))
    replies, expected = {}, []
    for window in windows:
        inner = data.draw(st.sets(st.integers(1, len(window.spans) - 1))) if len(window.spans) > 1 else set()
        runs = list(pairwise([0, *sorted(inner), len(window.spans)]))
        replies[window.passage()] = replies.get(window.passage(), runs)
        runs = replies[window.passage()]
        expected += [condensed("".join(text[slice(*span)] for span in window.spans[a:b])) for a, b in runs]
    lines = {
        passage: "\n".join(" ".join(window.shown[a:b]) for a, b in replies[passage])
        for window in windows
        if (passage := window.passage()) in replies
    }

    def reply(request: Complete) -> str:
        return lines[re.findall(r"<passage>\n(.*)\n</passage>", request.prompt, re.DOTALL)[0]]

    found = cut(text, reply, window=limit)
    if not any(re.fullmatch(r"`{3,}\w*|~{3,}\w*", line) for line in "\n".join(lines.values()).split("\n")):
        assert [condensed(chunk.text) for chunk in found.chunks] == expected
        assert (found.repairs, found.degraded) == ((), ())
    check_laws(text, found, limit)


# Answers that are not.

Damage = Callable[[list[str]], str]


def lines(units: Sequence[str]) -> str:
    return "\n".join(units)


def each(change: Callable[[str], str]) -> Damage:
    return lambda units: lines([change(unit) for unit in units])


KEPT: dict[str, Damage] = {
    "first unit dropped": lambda u: lines(u[1:]),
    "last sentence of each unit dropped": each(lambda t: " ".join(atomic.sentences_of(t)[:-1]) or t),
    "cut off in the middle of a word": lambda u: lines(u)[: int(len(lines(u)) * 0.8)],
    "every unit doubled": lambda u: lines([unit for unit in u for _ in range(2)]),
    "reversed": lambda u: lines(u[::-1]),
    "two units swapped": lambda u: lines([u[1], u[0], *u[2:]]),
    "small words changed": each(lambda t: t.replace(" is ", " was ").replace("It ", "The ice ")),
    "lone surrogates": each(lambda t: t.replace("t", "\udc80", 1)),
    "numbered": lambda u: lines([f"{place}. {unit}" for place, unit in enumerate(u, start=1)]),
    "JSON list": lambda u: json.dumps(u, ensure_ascii=False),
    "table": each(lambda t: f"| {t} |"),
    "one line": " ".join,
    "comments inside": lambda u: lines([*u[:3], "(The text goes on here.)", "Note: this is unclear.", *u[3:]]),
    "units joined by two": lambda u: lines([" ".join(u[at : at + 2]) for at in range(0, len(u), 2)]),
}
COPIES: dict[str, Damage] = {
    "fenced": lambda u: f"```text\n{lines(u)}\n```",
    "blank lines between": "\n\n".join,
    "no spaces": each(lambda t: t.replace(" ", "")),
    "thoughts before": lambda u: f"<think>\n{lines(u[::-1])}\n</think>\n\n{lines(u)}",
    "other white space": each(lambda t: t.replace(" ", " \u00a0")),
}
MIRRORED = str.maketrans("abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba")
NO_USE: dict[str, Damage] = {
    "refusal": lambda u: "I'm sorry, but I can't help with dividing this passage.",
    "fence": lambda u: "```\n```",
    "first unit only": lambda u: u[0],
    "titles": lambda u: "Sea ice\nSeasons\nAnimals\nShips\nAsian text\nTable\nRecords",
    "translation": lambda u: lines(u).translate(MIRRORED),
    "a million lines": lambda u: "a\n" * 1_000_000,
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("inside", [False, True], ids=["across", "inside"])
def test_a_damaged_answer_divides_the_text_itself_and_says_so(name: str, inside: bool) -> None:
    sections = outline(document()) if inside else None
    damaged = KEPT[name](UNITS)
    found = cut(TEXT, lambda request: damaged, sections, least_kept=0.1 if inside else 0.5)
    check_laws(TEXT, found, sections=sections)
    assert found.degraded == ()
    assert found.repairs or inside or name in {"one line", "units joined by two"}
    assert len(found.chunks) <= len(damaged.splitlines()) * (2 if inside else 1)
    assert all(each.was and (each.became == "") == (each.kind != "reworded") for each in found.repairs)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("name", COPIES)
def test_what_is_around_a_copy_does_no_harm(name: str) -> None:
    found = cut(TEXT, lambda request: COPIES[name](UNITS))
    assert [condensed(chunk.text) for chunk in found.chunks] == [condensed(unit) for unit in UNITS]
    assert (found.repairs, found.degraded) == ((), ())


@pytest.mark.slow
@pytest.mark.parametrize("name", NO_USE)
def test_a_window_without_an_answer_of_use_falls_back_to_whole_sentences_and_says_so(name: str) -> None:
    llm = FakeLLM(lambda request: NO_USE[name](UNITS))
    found = run(cut_atomic(document(), AtomicOptions(fallback=40)), Services(llm=llm))
    check_laws(TEXT, found)
    (degraded,) = found.degraded
    assert (degraded.what, found.repairs) == (f"atomic units of characters 0 to {len(TEXT)}", ())
    assert len(degraded.why) < 300
    assert ["could not be used" in call.prompt for call in llm.calls] == [False, True]
    longest = max(count_tokens(sentence) for sentence in shown())
    assert len(found.chunks) > 3
    assert all(count_tokens(chunk.text) <= max(40, longest + 20) for chunk in found.chunks)


@given(texts(), texts(), st.integers(5, 60), st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=60)
def test_whatever_the_answer_chunks_are_exact_slices_of_whole_sentences(
    text: str, answer: str, limit: int, kept: float
) -> None:
    found = cut(text, lambda request: answer, window=limit, least_kept=kept)
    check_laws(text, found, limit)
    assert cut(text, lambda request: answer, window=limit, least_kept=kept) == found
    sections = outline(document(text))  # and none crosses a heading
    inside = cut(text, lambda request: answer + planned_answer(request).text, sections, least_kept=0.2)
    check_laws(text, inside, sections=sections)
    for chunk in inside.chunks:
        section = sections[chunk.section]
        assert section.start <= chunk.start < chunk.end <= section.end
        assert chunk.path == section.path
    assert all(chunk.path == () for chunk in found.chunks)
    assert cut(text, planned_answer, []).chunks == ()


# Failures.


def test_a_failed_window_loses_none_of_its_neighbours() -> None:
    def reply(request: Complete) -> str:
        if "Seals rest on it" in request.prompt:
            raise ServiceError("model", "no more today")
        return planned_answer(request).text

    found = cut(TEXT, reply, window=40)
    (degraded,) = found.degraded
    assert "no more today" in degraded.why
    check_laws(TEXT, found, 40)
    assert found.chunks[-1].text == "Nobody knows when the first summer without ice will come."


def test_a_second_answer_is_asked_for_and_told_what_was_wrong() -> None:
    llm = ScriptedLLM(["Nothing to divide here.", lines(UNITS)])
    found = run(cut_atomic(document()), Services(llm=llm))
    assert len(found.chunks) == len(GROUPS)
    assert found.degraded == ()
    assert "it holds 0% of the passage" in llm.calls[1].prompt


def test_failures_are_raised_where_that_is_asked_for() -> None:
    with pytest.raises(InvalidReplyError, match="of the passage") as caught:
        cut(TEXT, lambda request: "No.", on_error="raise", attempts=1)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(MissingServiceError):
        run(cut_atomic(document()), Services())


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("window", 0), ("attempts", 0), ("fallback", 0), ("unlike", 0.0), ("unlike", 1.1), ("unlike", math.nan)),
        *(("least_kept", -0.1), ("least_kept", 1.1), ("max_tokens", 1_999), ("on_error", "ignore")),
    ],
)
def test_options_outside_their_domain_are_refused(option: str, value: object) -> None:
    with pytest.raises(ParameterError, match=option):
        AtomicOptions(**{option: value})  # type: ignore[arg-type]


def test_a_dry_run_counts_a_copy_of_the_text() -> None:
    found = plan(cut_atomic(document(), AtomicOptions(window=40)), Services(), stand_ins=atomic.PLANNED_ANSWERS)
    usage = found.by_purpose[PURPOSE]
    asked = [window for window in atomic.windows_of(TEXT, None, 40, count_tokens) if len(window.spans) > 1]
    assert usage.calls == len(asked)
    assert (found.rounds, found.stopped_by) == (1, "")
    assert usage.output_tokens == pytest.approx(count_tokens(TEXT), rel=0.3)
    assert planned_answer(Complete(prompt="something else", purpose="x")).text == ""


# Without a model.


def test_sentence_units_are_the_sentences() -> None:
    chunks = cut_sentences(document(), outline(document()))
    assert [chunk.text for chunk in chunks[:2]] == ["# Sea ice", "Sea ice is frozen sea water."]
    assert (len(chunks), chunks[-1].path) == (sum(GROUPS), ("Sea ice", "Use"))
    assert [chunk.text for chunk in cut_sentences(document())] == [chunk.text for chunk in chunks]
    assert max(count_tokens(chunk.text) for chunk in cut_sentences(document(), tokens=5)) <= 5
    with pytest.raises(ParameterError, match="tokens"):
        cut_sentences(document(), tokens=0)


# Atomic Plus.


@pytest.mark.parametrize(
    ("section", "unit", "factor"),
    [(375, 94, 4), (510, 233, 2), (100, 100, 1), (250, 100, 3), (10, 100, 1), (249.9, 100.0, 2)],
)
def test_atomic_plus_retrieves_as_many_units_as_a_section_has_tokens(section, unit, factor) -> None:
    assert plus_factor(section, unit) == factor


# Fixed lengths, appendix C.1.


def test_fixed_lengths_join_sentences_while_their_sum_stays_within_the_cap() -> None:
    sizes = (6, 6, 3, 12, 1, 11, 2)  # words, and a full stop each
    text = "".join("Word" + " word" * (size - 1) + ". " for size in sizes)
    for tokens, expected in ((14, [(0, 2), (2, 3), (3, 4), (4, 6), (6, 7)]), (18, [(0, 3), (3, 5), (5, 7)])):
        found = cut_fixed(document(text), tokens=tokens)
        assert [count_tokens(chunk.text) for chunk in found] == [sum(sizes[a:b]) + b - a for a, b in expected]
