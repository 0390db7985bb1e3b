"""The PDFs of the headings benchmark: their truth must be true, or the benchmark measures nothing."""

from __future__ import annotations

import io
import re
from collections import Counter
from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfReader

from catena.model import ParameterError
from catena_bench.generated_pdfs import VARIETIES, GeneratedPdf, Heading, PdfStyle, generated_pdfs, render_pdf
from catena_bench.synthetic_manuals import manual_markdown

SMALL = """# 1 Safety

Read this **first**. It is short.

## 1.1 Adjusting the gear box & the belt <guard>

Table 1. Values for the gear box

| Part | Limit |
| --- | --- |
| Belt | 3 N·m |

- One item.
- Another item.
"""


@pytest.fixture(scope="module")
def corpus() -> tuple[GeneratedPdf, ...]:
    return tuple(generated_pdfs())


class Run(NamedTuple):
    """Bold text as it was printed; lengths in points."""

    text: str
    size: float
    left: float


@cache
def read(pdf: bytes) -> list[tuple[str, list[Run]]]:
    """The text and the bold runs of each page."""
    pages = []
    for page in PdfReader(io.BytesIO(pdf)).pages:
        runs: list[Run] = []

        def visit(text, *printed, runs=runs):
            current, matrix, font, size = printed
            if text.strip() and re.search("Bold|Bd", (font or {}).get("/BaseFont", "")):
                runs.append(Run(" ".join(text.split()), size, current[4] + matrix[4]))

        pages.append((" ".join(page.extract_text(visitor_text=visit).split()), runs))
    return pages


def page_texts(made: GeneratedPdf) -> list[str]:
    return [text for text, _ in read(made.pdf)]


def heading_runs(made: GeneratedPdf) -> list[tuple[Heading, Run]]:
    """For each heading: itself, and the bold run that prints its first line."""
    found = []
    for heading in made.headings:
        _, runs = read(made.pdf)[heading.page - 1]
        fitting = [run for run in runs if heading.text.startswith(run.text)]
        found.append((heading, max(fitting, key=lambda run: len(run.text))))
    return found


def test_a_small_manual_is_printed_with_its_headings() -> None:
    made = render_pdf(SMALL, PdfStyle(), name="Small", numbered=True)
    assert made.headings == (
        Heading(level=1, text="1 Safety", page=1),
        Heading(level=2, text="1.1 Adjusting the gear box & the belt <guard>", page=1),
    )
    (text,) = page_texts(made)
    assert "1.1 Adjusting the gear box & the belt <guard> Table 1. Values" in text
    assert "Read this first. It is short." in text
    assert "Small" in text
    assert "Page 1" in text


def test_headings_on_later_pages_are_counted_from_one() -> None:
    filler = "\n\n".join(f"Paragraph {number}. {'Some words follow here. ' * 12}" for number in range(40))
    made = render_pdf(f"# First\n\n{filler}\n\n# Last\n\nEnd.", PdfStyle(columns=2))
    last = len(page_texts(made))
    assert last > 1
    assert [(heading.text, heading.page) for heading in made.headings] == [("First", 1), ("Last", last)]


@pytest.mark.slow
def test_the_corpus_has_what_makes_headings_hard(corpus) -> None:
    assert len(corpus) == len(VARIETIES) == 16
    assert {made.columns for made in corpus} == {1, 2}
    assert {made.style.cue for made in corpus} == {"size", "bold", "numbering"}
    assert {made.style.running for made in corpus} == {made.numbered for made in corpus} == {True, False}
    assert {made.style.family for made in corpus} == {"Helvetica", "Times", "Vera"}
    for made in corpus:
        assert 3 <= len(page_texts(made)) <= 8, made.name
        assert max(len(heading.text) for heading in made.headings) > 90, made.name  # wraps in every style
        assert re.search(r"[a-z.] \*\*", made.markdown), made.name  # a bold run amid text
    assert any(re.search(r"^\*\*[^*]+\*\*$", made.markdown, re.M) for made in corpus)  # a bold paragraph
    assert any(re.search(r"^Table 1\. ", made.markdown, re.M) for made in corpus)
    assert any(re.search(r"^Figure 1\. ", made.markdown, re.M) for made in corpus)


def test_every_heading_stands_on_its_page(corpus) -> None:
    for made in corpus:
        texts = page_texts(made)
        missing = [heading for heading in made.headings if heading.text not in texts[heading.page - 1]]
        assert not missing, made.name


def test_the_truth_is_the_headings_of_the_markdown_in_order(corpus) -> None:
    for made in corpus:
        marked = re.findall(r"^(#+) (.+)$", made.markdown, re.M)
        assert [(len(marks), text) for marks, text in marked] == [(h.level, h.text) for h in made.headings]
        assert [h.page for h in made.headings] == sorted(h.page for h in made.headings)
        assert max(Counter(h.text for h in made.headings).values()) == 1


def test_headings_look_as_their_cue_says(corpus) -> None:
    for made in corpus:
        body = made.style.body_size
        for heading, run in heading_runs(made):
            if made.style.cue == "size":
                assert run.size == pytest.approx(body * (1.75, 1.4, 1.2, 1.08)[heading.level - 1], abs=0.01), (
                    made.name
                )
            else:
                assert run.size == pytest.approx(body), made.name


def test_two_columns_have_headings_in_both(corpus) -> None:
    for made in corpus:
        right = [heading for heading, run in heading_runs(made) if run.left > 595 / 2]
        assert bool(right) == (made.columns == 2), made.name


def test_only_the_file_that_says_so_has_an_outline(corpus) -> None:
    for made in corpus:
        count = str(PdfReader(io.BytesIO(made.pdf)).outline).count("'/Title'")
        assert count == (len(made.headings) if made.style.outline else 0), made.name


def test_running_lines_are_printed_on_every_page_or_on_none(corpus) -> None:
    for made in corpus:
        printed = [f"Page {number}" in text for number, text in enumerate(page_texts(made), start=1)]
        assert set(printed) == {made.style.running}, made.name


@pytest.mark.parametrize("index", [0, 3, 8, 15])
def test_equal_seeds_give_equal_bytes(corpus, index) -> None:
    made = corpus[index]
    assert render_pdf(made.markdown, made.style, name=made.name, numbered=made.numbered) == made
    numbered, style = VARIETIES[index]
    assert made.markdown == manual_markdown(index + 1, numbered=numbered, levels=1 if style.cue == "bold" else 4)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.integers(1, 4))
def test_levels_never_jump_and_numbers_count_on(seed, numbered, levels) -> None:
    headings = re.findall(r"^(#+) (.+)$", manual_markdown(seed, numbered=numbered, levels=levels, words=600), re.M)
    path: list[int] = []
    for marks, text in headings:
        level = len(marks)
        assert level <= min(len(path) + 1, levels)
        path = [*path[: level - 1], (path[level - 1] if len(path) >= level else 0) + 1]
        number = re.match(r"[\d.]+(?= )", text)
        assert (number.group() if number else "") == (".".join(map(str, path)) if numbered else "")


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_seeds_matter(seed) -> None:
    assert manual_markdown(seed, numbered=True, words=300) != manual_markdown(seed + 1, numbered=True, words=300)


@pytest.mark.parametrize("levels", [0, 5, -1])
def test_impossible_levels_are_named(levels) -> None:
    with pytest.raises(ParameterError, match=rf"levels must be an integer from 1 to 4, got {levels}"):
        manual_markdown(1, numbered=True, levels=levels)
