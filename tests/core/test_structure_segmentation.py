"""Segmentation by a language model: numbered lines, windows that carry open sections, answers put right."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import pickle
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from case_files import cases_of
from hypothesis import example, given
from hypothesis import strategies as st
from test_structure_outline import check_tiling, document

from catena import ServiceError
from catena.effects import Complete, Completion, Journal, Services, arun, plan, run
from catena.model import Document, InvalidReplyError, MissingServiceError, ParameterError, Section, span_id
from catena.structure import (
    PLANNED_ANSWERS,
    Segmentation,
    SegmentOptions,
    blocks_of,
    cut,
    number_lines,
    outline,
    read_sections,
    repair,
    segment_with_llm,
)
from catena.structure.segment_repair import LineSection, RawSection, Repaired, clean_title, read_number
from catena.structure.segmentation import DividedLines, LineSpan, joined
from catena.testing import FakeLLM, ScriptedLLM
from catena.testing.fakes import Slow
from catena.testing.strategies import texts

ARTICLE = (
    "Climate change is one of the most pressing issues of our time.\n"
    "The Earth’s temperature has risen significantly over the past century.\n"
    "Scientists attribute this rise to the increased concentration of greenhouse gases."
)


LINES = "".join(f"{n:03} is a line.\n" for n in range(40))  # 15 characters each
WINDOWS: dict[str, Any] = {"window": 150, "wrap": 30, "min_section": 0}  # of 10 lines


def asked(request: Complete) -> tuple[int, int]:
    found = re.search(r"Divide lines (\d+) to (\d+)\.$", request.prompt)
    assert found is not None
    return int(found[1]), int(found[2])


def every(step: int, offset: int = 0, relative: bool = False) -> Callable[[Complete], str]:
    """A model that sees a border at every line n with n % step == offset, wherever the window begins."""

    def reply(request: Complete) -> str:
        first, last = asked(request)
        starts = [first, *(n for n in range(first + 1, last + 1) if n % step == offset)]
        return json.dumps([{"title": f"Part {n}", "start": n - first * relative} for n in starts])

    return reply


def asking(llm: Any, text: str, **options: Any) -> Segmentation:
    return run(segment_with_llm(document(text), SegmentOptions(**options)), Services(llm=llm))


def segmented(text: str, reply: Callable[[Complete], str | Completion], **options: Any) -> Segmentation:
    return asking(FakeLLM(reply), text, **options)


def starts(found: Segmentation) -> list[int]:
    """The lines of `LINES` that sections begin at."""
    return [section.start // 15 for section in found.sections]


def check_tiles(text: str, sections: tuple[Section, ...]) -> None:
    check_tiling(text, sections)
    for section in sections:
        assert section.id == span_id("d", "section", section.start, section.end)
        assert section.title or section.level == 0 or text[section.start :].lstrip().startswith(("#", "=", "-"))


def check_chunks(source: Document, sections: tuple[Section, ...]) -> None:
    chunks = cut(source, sections)
    for chunk in chunks:
        section = sections[chunk.section]
        assert section.start <= chunk.start <= chunk.end <= section.end
        assert chunk.path == section.path
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(source.text.split())


# Numbered lines.


def test_lines_are_numbered_from_0_or_1_blank_ones_count_and_nothing_is_collapsed():
    numbered = "".join(f"[{n}] {line}\n" for n, line in enumerate(ARTICLE.split("\n")))
    assert number_lines(document(ARTICLE)).shown(0, 2) == numbered
    assert number_lines(document(ARTICLE), base=1).shown(1, 2).startswith("[2] The Earth’s")
    lines = number_lines(document("a\tb\r\n\r\n \x0c\r  c    d  \n\n\nlast"))
    found = [lines.line(n) for n in range(len(lines))]
    assert found == ["a\tb\r\n", "\r\n", " \x0c\r", "  c    d  \n", "\n", "\n", "last"]
    assert lines.shown(0, 6) == "[0] a\tb\r\n[1] \r\n[2]  \x0c\r\n[3]   c    d  \n[4] \n[5] \n[6] last\n"
    with pytest.raises(ParameterError, match="wrap"):
        number_lines(document(ARTICLE), wrap=0)


def test_long_lines_are_cut_at_sentences_then_spaces_then_anywhere():
    sentence = "It was good. "
    lines = number_lines(document(f"{sentence * 3}\n{'word  ' * 5}\n{'字' * 25}\n"), wrap=20)
    cut_ = [sentence, sentence, f"{sentence}\n", "word  word  word  ", "word  word  \n", "字" * 20, "字" * 5 + "\n"]
    assert [lines.line(n) for n in range(len(lines))] == cut_


def test_tables_and_figures_are_one_line_each():
    table, figure = "| a | b |\n|---|---|\n| 1 | 2 |\n", "![a](b.png)\nFigure 1. A thing.\n"
    html = "<table>\n<tr><td>1</td></tr>\n\n<tr><td>2</td></tr>\n</table>\n"
    lines = number_lines(document(f"before\n\n{table}\n{figure}\n{html}\nafter"), wrap=20)
    assert {table, figure, html, "after"} <= {lines.line(n) for n in range(len(lines))}
    assert f"[2] {table}" in lines.shown(0, len(lines) - 1)
    assert lines.shown(2, 2, longest=20) == "[2] | a | b |\n|---| …  2 |\n"


numbered_texts = st.one_of(texts(), st.text(max_size=300), st.text(alphabet=" \t\r\n\x0c\x0b。.a字|-", max_size=400))


borders_of = st.sets(st.integers(0, 80), max_size=4)


@given(numbered_texts, st.integers(1, 30), st.integers(0, 1), st.booleans(), borders_of)
def test_numbered_lines_restore_the_text_byte_for_byte(text: str, wrap: int, base: int, is_plain: bool, borders):
    source = document(text, "text/plain" if is_plain else "text/markdown")
    lines = number_lines(source, wrap=wrap, base=base, borders=borders)
    found = [lines.line(n) for n in range(len(lines))]
    assert {border for border in borders if border <= len(text)} <= set(lines.starts)
    assert "".join(found) == text
    assert all(found)
    assert all(lines.at(offset) == n for n in range(len(lines)) for offset in range(*lines.starts[n : n + 2]))
    shown, at = lines.shown(0, len(lines) - 1), 0
    for n, line in enumerate(found):
        mark = f"[{n + base}] {line}"
        assert shown.startswith(mark, at)
        at += len(mark) + (not line.endswith("\n"))
    assert at == len(shown)


# Segmentation.


def test_the_article_example_is_one_section_with_the_title_of_the_model():
    answer = '{"sections": [{"title": "Global warming", "start_index": 0, "end_index": 2}]}'
    found = segmented(ARTICLE, lambda request: answer)
    (section,) = found.sections
    assert (section.title, section.level, section.path) == ("Global warming", 1, ("Global warming",))
    assert (section.start, section.body_start, section.end) == (0, 0, len(ARTICLE))
    assert (found.generated, found.repairs, found.degraded) == ({0}, (), ())


def test_an_open_section_is_carried_over_the_border_but_nearly_all_of_a_window_is_not():
    """Windows of 10 lines, borders at every 8th line: each border is found although no window begins there."""
    llm = FakeLLM(every(8))
    assert starts(asking(llm, LINES, **WINDOWS)) == [0, 8, 16, 24, 32]
    assert [asked(request) for request in llm.calls] == [(0, 9), (8, 17), (16, 25), (24, 33), (32, 39)]
    llm = FakeLLM(lambda request: json.dumps([{"title": "a", "start": asked(request)[0] + n} for n in (0, 1)]))
    asking(llm, LINES, **WINDOWS)
    assert [asked(request) for request in llm.calls] == [(0, 9), (10, 19), (20, 29), (30, 39)]


def test_a_section_longer_than_a_window_goes_on_under_its_title():
    def reply(request: Complete) -> str:
        title = re.search(r'is called "(.+?)"', request.prompt)
        return json.dumps([{"title": title[1] if title else "Everything", "start": asked(request)[0]}])

    assert [section.title for section in segmented(LINES, reply, window=150, wrap=30).sections] == ["Everything"]
    many = [len(segmented(LINES, every(1), min_section=least).sections) for least in (99, 100, 101)]
    assert many == [7, 6, 6]  # 600 characters
    closed = segmented(LINES, every(10), **WINDOWS)
    assert [section.title for section in closed.sections] == ["Part 0", "Part 10", "Part 20", "Part 30"]


def test_parallel_windows_are_asked_at_once_and_joined_by_what_they_see_of_each_other():
    llm, options = FakeLLM(every(8)), SegmentOptions(mode="parallel", **WINDOWS, overlap=0.4)
    step = segment_with_llm(document(LINES), options)
    assert starts(run(step, Services(llm=llm))) == [0, 8, 16, 24, 32]
    assert sorted(asked(request) for request in llm.calls) == [(0, 13), (10, 23), (20, 33), (30, 39)]
    assert plan(segment_with_llm(document(LINES), options), Services(llm=llm), stand_ins=PLANNED_ANSWERS).rounds == 1


def part(first: int, last: int, *starts: int) -> DividedLines:
    ends = [*(start - 1 for start in starts[1:]), last]
    sections = tuple(LineSection(f"{first}:{a}", a, b) for a, b in zip(starts, ends, strict=True))
    return DividedLines(LineSpan(first, last), sections)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (part(0, 11, 0, 10), part(10, 19, 10, 15), "0:0 0-9, 10:10 10-14, 10:15 15-19"),  # a border
        (part(0, 11, 0, 4), part(10, 19, 10, 15), "0:0 0-3, 0:4 4-14, 10:15 15-19"),  # an open section
        (part(0, 11, 0, 5), part(10, 19, 10, 15), "0:0 0-4, 0:5 5-14, 10:15 15-19"),  # as long on both sides
        (part(0, 11, 0, 8), part(10, 19, 10, 15), "0:0 0-7, 10:10 8-14, 10:15 15-19"),  # longer after
        (part(0, 13, 0, 12), part(10, 19, 10, 15), "0:0 0-11, 10:10 12-14, 10:15 15-19"),  # late
        (part(0, 13, 0, 12), part(10, 19, 10, 11), "0:0 0-11, 10:11 12-19"),  # they disagree
        (part(0, 13, 0, 10, 12), part(10, 19, 10, 15), "0:0 0-9, 10:10 10-14, 10:15 15-19"),  # two
        (part(0, 9, 0, 4), part(10, 19, 10), "0:0 0-3, 0:4 4-9, 10:10 10-19"),  # nothing seen
    ],
)
def test_the_window_that_sees_both_sides_decides_on_a_border(before, after, expected):
    found = joined([before, after], lambda first, last: last - first + 1)
    assert ", ".join(f"{section.title} {section.first}-{section.last}" for section in found) == expected


@pytest.mark.parametrize("mode", ["iterative", "parallel"])
def test_numbers_relative_to_the_window_come_out_right(mode: str):
    right = segmented(LINES, every(8), mode=mode, **WINDOWS)
    moved = segmented(LINES, every(8, relative=True), mode=mode, **WINDOWS)
    assert starts(moved) == starts(right)
    assert {each.kind for each in moved.repairs} == {"window_relative"}


def test_a_printed_heading_is_told_from_a_generated_title():
    text = "\n## Supply *voltage*\n\nTwelve volts.\n\nMore of it.\n\nThe end comes.\n"
    answer = [{"title": "SUPPLY VOLTAGE", "start": 0}, {"title": "The end", "start": 7}]
    found = segmented(text, lambda request: json.dumps(answer), min_section=0)
    first, second = found.sections
    assert (first.title, text[first.body_start :][:8]) == ("Supply voltage", "\nTwelve ")
    assert (second.title, second.body_start, found.generated) == ("The end", second.start, {1})
    wordless = [{"title": "→", "start": 0}, {"title": "!!", "start": 4}]  # alike only where they are equal
    found = segmented("#\n\nOne.\n\n# !!\n\nTwo.\n", lambda request: json.dumps(wordless), min_section=0)
    assert ([section.title for section in found.sections], found.generated) == (["→", "!!"], {0})


NESTED = "Before.\n\n# One\n\nShort.\n\n## Two\n\n" + "A sentence that is long.\n\n" * 8 + "# Three\n\nShort, too.\n"


def test_under_headings_only_long_leaves_are_divided_and_nested():
    def reply(request: Complete) -> str:
        first, last = asked(request)
        assert "# " not in request.prompt.partition("<lines>")[2]
        return json.dumps([{"title": "First half", "start": first}, {"title": "Rest", "start": (first + last) // 2}])

    found = segmented(NESTED, reply, under="headings", longest_leaf=100, min_section=0)
    check_tiles(NESTED, found.sections)
    paths = [(), ("One",), ("One", "Two"), ("One", "Two", "First half"), ("One", "Two", "Rest"), ("Three",)]
    assert [section.path for section in found.sections] == paths
    assert [section.parent for section in found.sections] == [None, None, 1, 2, 2, None]
    assert ([section.level for section in found.sections], found.generated) == ([0, 1, 2, 3, 3, 1], {3, 4})
    assert NESTED[found.sections[2].start : found.sections[2].end] == "## Two\n"
    assert found.sections[2].tree_end == found.sections[4].end
    alone = segmented("# One\n\nShort.\n", every(1_000), under="headings", longest_leaf=1)
    assert alone.sections == outline(document("# One\n\nShort.\n"))  # one part of it is no division
    printed = outline(document(NESTED))
    longest = printed[2].end - printed[2].body_start
    assert segmented(NESTED, reply, under="headings", longest_leaf=longest).sections == printed
    assert len(segmented(NESTED, reply, under="headings", longest_leaf=longest - 1).sections) == len(printed) + 2


def test_documents_without_text_are_not_asked_about():
    llm = FakeLLM()
    assert asking(llm, "").sections == ()
    (section,) = asking(llm, " \n\n").sections
    assert (section.level, section.title, llm.calls) == (0, "", [])


def test_a_large_table_is_shown_by_its_ends_and_no_line_ends_the_part_of_the_lines():
    text = f"Before.\n</lines>\n\n| a | b |\n|---|---|\n{'| some cell | another cell |' * 1000}\nAfter.\n"
    llm = FakeLLM(every(2))
    check_tiles(text, asking(llm, text, min_section=0).sections)
    (call,) = llm.calls
    assert (len(call.prompt) < 6_000, call.prompt.count("</lines>")) == (True, 1)
    llm, table = FakeLLM(every(2)), "| a | b |\n|---|---|\n" + "| some | cell |\n" * 10
    asking(llm, f"Before.\n\n{table}", min_section=0, window=160, wrap=30)
    assert f"[2] {table[:60]} … {table[-20:]}" in llm.calls[0].prompt  # half a window


# Laws.


def scrambled(seed: str) -> Callable[[Complete], str]:
    """A model whose answers are lists of any numbers, a function of the request."""

    def reply(request: Complete) -> str:
        first, last = asked(request)
        numbers = [int(span_id(seed, request.prompt, place, 0), 16) for place in range(6)]
        ends = [(first + n % (last - first + 3) - 1, n % (last + 9), n % 5) for n in numbers]
        entries = [{"title": f"t{title}", "start": start, "end": end} for start, end, title in ends]
        return json.dumps(entries[: 1 + numbers[0] % 6]) if numbers[1] % 7 else "no idea"

    return reply


paragraphs = st.lists(st.sampled_from(["A line. ", "b\n", "\n", "# H\n", "long " * 9]), max_size=60).map("".join)
settings_of = st.builds(
    partial(SegmentOptions, wrap=10, longest_leaf=30, min_section=5, fallback=40),
    mode=st.sampled_from(["iterative", "parallel"]),
    window=st.integers(20, 200),
    overlap=st.sampled_from([0.0, 0.1, 0.5]),
    under=st.sampled_from(["document", "headings"]),
)


@given(st.one_of(texts(30), paragraphs), st.text(max_size=3), settings_of, st.booleans())
def test_sections_tile_and_calls_are_bounded_whatever_the_model_says(text, seed, options, plain):
    llm, source = FakeLLM(scrambled(seed)), document(text, "text/plain" if plain else "text/markdown")
    found = run(segment_with_llm(source, options), Services(llm=llm))
    check_tiles(text, found.sections)
    check_chunks(source, found.sections)
    times = 4 if options.mode == "iterative" else 2
    windows = times * -(-len(text) // options.window) + max(1, len(outline(source)))
    assert len(llm.calls) <= options.attempts * windows
    headings = {block.start for block in blocks_of(source) if block.kind == "heading"}
    for section in found.sections:
        if options.under == "document" and section.level and section.position not in found.generated:
            assert any(section.start <= start < section.body_start for start in headings)
    assert found == run(segment_with_llm(source, options, blocks=blocks_of(source)), Services(llm=llm))


@pytest.mark.parametrize("mode", ["iterative", "parallel"])
def test_completion_order_and_asyncio_change_nothing(mode: Any):
    text = "".join(f"{n:03} is a line.\n" for n in range(200))
    options, llm = SegmentOptions(mode=mode, window=150, wrap=30, min_section=30, attempts=1), FakeLLM(scrambled("x"))
    first = asyncio.run(arun(segment_with_llm(document(text), options), Services(llm=llm)))
    for width in (1, 8):
        for each in (llm, Slow(llm, 0.004, seed=width)):
            services = Services(llm=each, max_concurrency=width)
            assert run(segment_with_llm(document(text), options), services) == first
    assert first.repairs
    assert first.degraded


# Errors.


def test_a_refused_answer_is_asked_for_again_and_says_what_was_wrong(tmp_path: Path) -> None:
    llm = FakeLLM(lambda request: every(2)(request) if "could not be used" in request.prompt else "no idea")
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        for calls in (2, 3):  # what was refused was not kept; what was taken was
            step = segment_with_llm(document(ARTICLE), SegmentOptions(min_section=0))
            found = run(step, Services(llm=llm, journal=journal))
            assert ([section.title for section in found.sections], found.degraded) == (["Part 0", "Part 2"], ())
            assert len(llm.calls) == calls
    assert "the reply holds no JSON list" in llm.calls[1].prompt


def test_a_window_that_fails_is_divided_at_headings_or_lines_and_its_neighbours_are_kept():
    good = LINES[: 15 * 20]
    text = f"{good}# Broken\n\nBad text.\n\n# Also\n\nMore bad.\n\n{good}"

    def reply(request: Complete) -> str:
        return "no idea" if "Bad text" in request.prompt else every(100)(request)

    found = segmented(text, reply, mode="parallel", window=300, wrap=30, overlap=0.0)
    assert [each.what for each in found.degraded] == ["segmentation of lines 20 to 44"]
    assert [section.title for section in found.sections] == ["Part 0", "Broken", "Also", "Part 45"]
    assert found.generated == {0, 3}
    llm = FakeLLM(lambda request: '[{"title": "a", "start": 500, "end": 900}]')
    found = asking(llm, LINES, fallback=105)
    assert len(llm.calls) == 2  # it is asked once more
    assert "none of its sections lies in lines 0 to 39" in found.degraded[0].why
    assert (starts(found), found.sections[1].title) == ([0, 14, 28], "014 is a line.")
    check_tiles(LINES, found.sections)


def test_a_service_out_of_reach_is_not_asked_again():
    llm = ScriptedLLM([ServiceError("fake", "out of reach")] * 3)
    found = asking(llm, ARTICLE)
    assert (len(llm.calls), [each.why for each in found.degraded]) == (1, ["fake: out of reach"])
    check_tiles(ARTICLE, found.sections)


@pytest.mark.parametrize("mode", ["iterative", "parallel"])
def test_failures_are_raised_where_the_caller_wants_that(mode: str) -> None:
    with pytest.raises(InvalidReplyError, match="no JSON list of sections"):
        segmented(ARTICLE, lambda request: "no", on_error="raise", mode=mode)
    with pytest.raises(InvalidReplyError, match="finish_reason 'length'"):
        segmented(ARTICLE, lambda request: Completion(text="[", finish_reason="length"), on_error="raise", mode=mode)
    with pytest.raises(ParameterError, match="wrap must be 1 to 5, half a window, got 6"):
        SegmentOptions(window=10, wrap=6)
    with pytest.raises(MissingServiceError):
        run(segment_with_llm(document(ARTICLE), SegmentOptions(mode=mode)), Services())  # type: ignore[arg-type]


def test_a_dry_run_counts_the_windows():
    step = segment_with_llm(document(LINES * 5), SegmentOptions(window=300, wrap=30))
    found = plan(step, Services(llm=FakeLLM()), stand_ins=PLANNED_ANSWERS)
    assert (found.stopped_by, found.total.calls) == ("", 13)  # of 20 lines, each again the last 4 of the one before


# Answers with line numbers: found in a reply, re-based, put right, and every repair reported.


def raw(*sections: tuple[Any, ...]) -> list[RawSection]:
    return [RawSection(*section) for section in sections]


def lines(repaired: Repaired) -> list[tuple[int, int]]:
    return [(section.first, section.last) for section in repaired.sections]


def kinds(repaired: Repaired) -> list[str]:
    return [each.kind for each in repaired.repairs]


@pytest.mark.parametrize(("answer", "expected"), cases_of("cases_repair.txt"))
def test_each_kind_of_answer_is_put_right_as_stated(answer: str, expected: str) -> None:
    window, *sections = answer.split("\n")
    repaired = repair(raw(*map(json.loads, sections)), *map(int, window.split()))
    spans = " ".join(f"{first}-{last}" for first, last in lines(repaired))
    assert f"{spans}\n{' '.join(kinds(repaired))}".strip() == expected


@pytest.mark.parametrize("end", [9, None], ids=["with ends", "without"])
def test_of_equal_sections_the_first_in_the_answer_is_kept_and_of_unequal_ones_the_shortest(end: int | None) -> None:
    equal = repair(raw(("one", 0, end), ("other", 0, end)), 0, 9)
    assert [(section.title, section.place) for section in equal.sections] == [("one", 0)]
    assert [(each.kind, each.section) for each in equal.repairs] == [("duplicate", 1)]
    unequal = repair(raw(("one", 0, end), ("other", 0, 5), ("more", 6, 9)), 0, 9)
    assert [section.title for section in unequal.sections] == ["other", "more"]


def test_a_repair_says_what_was_and_what_became():
    repaired = repair(raw(("a", 0), ("b", 30), ("c", 60)), 100, 199)
    (told,) = repaired.repairs
    assert (told.lines, told.section) == ((100, 199), None)
    assert (told.was, told.became) == ("lines 0, 30, 60", "lines 100, 130, 160")
    assert pickle.loads(pickle.dumps(repaired)) == repaired
    (told,) = repair(raw(("a", 0, 7), ("b", 6, 9)), 0, 9).repairs
    assert (told.section, told.was, told.became) == (0, "lines 0 to 7", "end 5")
    bits = "lines 1208925819614629174706175 to 9", "lines a number of 81 bits to 9"
    starts = {"x" * 78: f"start '{'x' * 78}'", "x" * 79: f"start '{'x' * 78}…", 2**80 - 1: bits[0], 2**80: bits[1]}
    for start, shown in starts.items():
        assert repair(raw(("a", start, 9)), 0, 9).repairs[0].was == shown


def test_too_many_sections_are_joined_by_bands_of_equal_height():
    """10 lines in 2 bands: middles 0, 2, 4.5, 8; the longest gives its title; a middle on a border is below."""
    repaired = repair(raw(("a", 0), ("b", 1), ("c", 4), ("d", 7)), 0, 9, most_sections=2)
    assert repaired.sections == (LineSection("b", 0, 3, 1), LineSection("c", 4, 9, 2))
    assert kinds(repaired) == ["too_many"]
    on_the_border = repair(raw(("a", 100), ("b", 104), ("c", 106)), 100, 109, most_sections=2)
    assert lines(on_the_border) == [(100, 103), (104, 109)]
    one_per_line = raw(*((f"line {n}", n, n) for n in range(100)))
    joined = repair(one_per_line, 0, 99, most_sections=4)
    assert (lines(joined), kinds(joined)) == ([(0, 24), (25, 49), (50, 74), (75, 99)], ["too_many"])
    assert len(repair(one_per_line, 0, 99).sections) == 100


def test_titles_are_made_plain_and_bounded():
    answer = raw(("## **Two\n words** ", 0), (None, 2), (7, 4), ("x" * 300, 6), ("word " * 100, 8))
    repaired = repair(answer, 0, 9, longest_title=20, untitled=lambda first, last: f"from {first} to {last}")
    titles = [section.title for section in repaired.sections]
    assert titles == ["Two words", "from 2 to 3", "7", "x" * 19 + "…", "word word word…"]
    assert kinds(repaired) == ["title"] * 5
    assert clean_title("من\u200cخانه", 50) == "من\u200cخانه"  # joiners belong to words


# Law: whatever the answer, the sections tile the lines, and nothing differs from it untold.


def check(answer: list[RawSection], first: int, last: int, repaired: Repaired) -> None:
    sections, repairs = repaired.sections, repaired.repairs
    assert (sections[0].first, sections[-1].last) == (first, last)
    assert all(one.last + 1 == other.first for one, other in itertools.pairwise(sections))
    assert all(section.first <= section.last and section.title.strip() for section in sections)
    assert all(each.was != each.became and each.lines == (first, last) for each in repairs)
    about = {each.section for each in repairs}
    whole = {each.kind for each in repairs if each.section is None}
    for section in sections:
        if section.place is None:
            assert "empty" in whole
            continue
        given = answer[section.place]
        same_title = type(given.title) is str and given.title == section.title
        same_lines = type(given.start) is int and given.start == section.first
        same_lines &= given.end is None or (type(given.end) is int and given.end == section.last)
        assert same_title or section.place in about
        assert same_lines or section.place in about or whole & {"window_relative", "one_based", "too_many"}
    lost = set(range(len(answer))) - {section.place for section in sections}
    assert lost <= about or "too_many" in whole
    places = [section.place for section in sections if section.place is not None]
    assert places == sorted(places) or "unsorted" in whole
    if not repairs:
        assert [(each.title, each.start) for each in answer] == [(each.title, each.first) for each in sections]


numbers = st.one_of(
    *(st.integers(-5, 260), st.integers(), st.floats(), st.none(), st.booleans(), st.text(max_size=6)),
    *(st.integers(0, 200).map(lambda n: f"line {n}"), st.lists(st.integers(), max_size=2)),
)
titles = st.one_of(st.text(max_size=8), st.none(), st.integers(), st.lists(st.text(max_size=2), max_size=1))
answers = st.lists(st.builds(RawSection, titles, numbers, numbers), max_size=8)


@given(answers, st.integers(0, 120), st.integers(0, 120), st.none() | st.integers(1, 4))
@example([RawSection("a", 0, 30), RawSection("b", 30, 60), RawSection("c", 60, 100)], 100, 99, None)
@example([RawSection(None, None, 1e18), RawSection(None, None, 1e18 + 128), RawSection(None, None, 1e18)], 0, 0, None)
@example([RawSection(10**4000, 10**4000, 0), RawSection("a", 10**20, -(10**20))], 0, 9, None)
def test_any_answer_gives_sections_that_tile(answer, first, more, most):
    repaired = repair(answer, first, first + more, most_sections=most)
    check(answer, first, first + more, repaired)
    assert most is None or len(repaired.sections) <= most


@given(st.sets(st.integers(1, 99), max_size=6), st.integers(101, 5000), st.integers(0, 1), st.booleans())
def test_a_right_answer_is_taken_as_it_is_and_one_relative_to_its_window_is_moved_whole(inner, first, base, ends):
    starts = [0, *sorted(inner)]
    spans = list(zip(starts, [*(start - 1 for start in starts[1:]), 99], strict=True))
    for add, told in ((first, []), (base, ["window_relative"])):
        answer = [RawSection(f"t{a}", a + add, b + add if ends else None) for a, b in spans]
        repaired = repair(answer, first, first + 99)
        assert lines(repaired) == [(first + a, first + b) for a, b in spans]
        assert kinds(repaired) == told


# The reader.

LIST = '[{"title": "a", "start": 0, "end": 4}, {"title": "b, ]", "start": 5, "end": 9}]'
READ = (RawSection("a", 0, 4), RawSection("b, ]", 5, 9))


def test_of_a_list_that_was_cut_the_whole_sections_are_kept_and_a_single_section_needs_no_list():
    for reply in (LIST, f"{LIST}\nDone [really].", '{"sections": ' + LIST):
        assert read_sections(reply) == READ
    assert read_sections(LIST[:-10]) == READ[:1]
    assert read_sections('{"title": "a", "start": 3}') == (RawSection("a", 3),)


@pytest.mark.parametrize("reply", ["", "no", "[]", "[1, 2]", '[{"title": "a"}]', "[" * 10_000, '{"a": ' * 5_000])
def test_what_is_no_list_of_sections_is_refused(reply: str) -> None:
    with pytest.raises(ValueError, match="no JSON list of sections"):
        read_sections(reply)


@given(st.text())
def test_any_reply_is_read_or_refused_with_a_value_error(reply: str) -> None:
    for text in (reply, reply + LIST, f"{LIST}{reply}"):
        with contextlib.suppress(ValueError):
            assert all(isinstance(section, RawSection) for section in read_sections(text))


@pytest.mark.parametrize(
    ("value", "number"),
    [(12, 12), (12.0, 12), (12.7, 12), ("12", 12), ("line 12", 12), ("[12]", 12), ("12-20", 12), ("-3", -3)]
    + [(value, None) for value in (None, True, "", "twelve", [12], {}, math.nan, math.inf, "9" * 5000)],
)
def test_numbers_are_read_from_what_means_one(value: Any, number: int | None) -> None:
    assert read_number(value) == number


def test_limits_that_make_no_sense_are_refused():
    with pytest.raises(ParameterError, match=r"last_line must be at least first_line \(5\), got 4"):
        repair([], 5, 4)
    with pytest.raises(ParameterError, match="longest_title and most_sections must be at least 1"):
        repair([], 0, 4, most_sections=0)
