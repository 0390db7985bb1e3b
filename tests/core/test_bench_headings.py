"""The headings benchmark: its PDFs, whose truth must be true, how titles are matched, and any folder of PDFs."""

from __future__ import annotations

import io
import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfReader

from catena.model import ParameterError
from catena_bench import headings
from catena_bench.generated_pdfs import VARIETIES, GeneratedPdf, Heading, PdfStyle, generated_pdfs, render_pdf
from catena_bench.headings import Counts, compare, run, score_generated
from catena_bench.synthetic_manuals import manual_markdown

SMALL = (
    "# 1 Safety\n\nRead this **first**. It is short.\n\n## 1.1 Adjusting the gear box & the belt <guard>\n\n"
    "Table 1. Values for the gear box\n\n| Part | Limit |\n| --- | --- |\n| Belt | 3 N·m |\n\n"
    "- One item.\n- Another item.\n"
)


@pytest.fixture(scope="module")
def corpus() -> tuple[GeneratedPdf, ...]:
    return tuple(generated_pdfs())


PAGE = 595  # points: the width


@cache
def read(pdf: bytes) -> list[tuple[str, list[tuple[str, float, float]]]]:
    """The text of each page, and its bold runs: text, size and left edge in points."""
    pages = []
    for page in PdfReader(io.BytesIO(pdf)).pages:
        runs: list[tuple[str, float, float]] = []

        def visit(text, *printed, runs=runs):
            current, matrix, font, size = printed
            if text.strip() and re.search("Bold|Bd", (font or {}).get("/BaseFont", "")):
                runs.append((" ".join(text.split()), size, current[4] + matrix[4]))

        pages.append((" ".join(page.extract_text(visitor_text=visit).split()), runs))
    return pages


def page_texts(made: GeneratedPdf) -> list[str]:
    return [text for text, _ in read(made.pdf)]


def heading_runs(made: GeneratedPdf) -> list[tuple[Heading, float, float]]:
    """For each heading: itself, and size and left edge of the bold run that prints its first line."""
    found = []
    for heading in made.headings:
        fitting = [run for run in read(made.pdf)[heading.page - 1][1] if heading.text.startswith(run[0])]
        found.append((heading, *max(fitting, key=lambda run: len(run[0]))[1:]))
    return found


def test_a_manual_is_printed_with_its_headings_on_the_pages_that_it_names() -> None:
    made = render_pdf(SMALL, PdfStyle(), name="Small", numbered=True)
    assert made.headings == (
        Heading(level=1, text="1 Safety", page=1),
        Heading(level=2, text="1.1 Adjusting the gear box & the belt <guard>", page=1),
    )
    (text,) = page_texts(made)
    for part in ("box & the belt <guard> Table 1. Values", "Read this first. It is short.", "Small", "Page 1"):
        assert part in text
    filler = "\n\n".join(f"Paragraph {number}. {'Some words follow here. ' * 12}" for number in range(40))
    made = render_pdf(f"# First\n\n{filler}\n\n# Last\n\nEnd.", PdfStyle(columns=2))
    last = len(page_texts(made))
    assert last > 1
    assert [(heading.text, heading.page) for heading in made.headings] == [("First", 1), ("Last", last)]


def test_the_truth_is_the_headings_of_the_markdown_in_order_and_each_looks_as_its_style_says(corpus) -> None:
    assert len(corpus) == len(VARIETIES)
    for made in corpus:
        marked = re.findall(r"^(#+) (.+)$", made.markdown, re.M)
        assert [(len(marks), text) for marks, text in marked] == [(h.level, h.text) for h in made.headings]
        assert [h.page for h in made.headings] == sorted(h.page for h in made.headings)
        texts, sizes = page_texts(made), (1.75, 1.4, 1.2, 1.08) if made.style.cue == "size" else (1.0,) * 4
        for heading, size, _ in heading_runs(made):
            assert heading.text in texts[heading.page - 1], made.name
            assert size == pytest.approx(made.style.body_size * sizes[heading.level - 1], abs=0.01), made.name
        assert any(left > PAGE / 2 for *_, left in heading_runs(made)) == (made.columns == 2), made.name
        assert {f"Page {n}" in text for n, text in enumerate(texts, start=1)} == {made.style.running}, made.name
        entries = str(PdfReader(io.BytesIO(made.pdf)).outline).count("'/Title'")
        assert entries == (len(made.headings) if made.style.outline else 0), made.name


@pytest.mark.parametrize("index", [0, 15])
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


@pytest.mark.parametrize("levels", [0, 5, -1])
def test_impossible_levels_are_named(levels) -> None:
    with pytest.raises(ParameterError, match=rf"levels must be an integer from 1 to 4, got {levels}"):
        manual_markdown(1, numbered=True, levels=levels)


# how they are found


def test_titles_match_without_case_number_and_marks_on_neighbouring_pages() -> None:
    truth = [("1 Safety", 1, 1), ("A References", 1, 9), ("Terms", 2, 3), ("Lost", 2, 4), ("Far", 2, 1)]
    found = [("SAFETY", 2, 2), ("Appendix A References", 2, 9), ("1.1 Terms!", 4, 3), ("Terms", 3, 7), ("Far", 3, 3)]
    counts = compare(*([Heading(level, text, page) for text, level, page in titles] for titles in (truth, found)))
    assert counts == Counts(truth=5, found=5, outlined=5, shared=3, level=2)
    metrics = {"recall.x": 3 / 5, "precision.x": 3 / 5, "precision_outlined.x": 3 / 5, "level_accuracy.x": 2 / 3}
    assert counts.metrics("x") == metrics


def test_deeper_headings_than_the_outline_do_not_count_against_the_outlined_precision() -> None:
    counts = compare([Heading(1, "Use", 1)], [Heading(2, "Use", 1), Heading(3, "Deep", 1), Heading(1, "Document", 1)])
    assert (counts.found, counts.outlined) == (3, 1)


def test_headings_of_generated_pdfs_are_found_with_their_levels(corpus) -> None:
    for manual in corpus[:3]:
        counts = score_generated(manual)
        assert counts.shared >= 0.98 * max(counts.truth, counts.found)
        assert counts.level == counts.shared


@pytest.mark.slow
def test_real_files_are_found_in_a_folder_or_its_pdfs_and_the_rest_is_counted(tmp_path, monkeypatch, corpus) -> None:
    outlined = corpus[-1]
    assert outlined.style.outline
    folder = tmp_path / "pdfs"
    folder.mkdir()
    (folder / "a.b.pdf").write_bytes(outlined.pdf)
    (folder / "plain.pdf").write_bytes(corpus[0].pdf)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4\n")
    monkeypatch.setattr(headings, "generated_pdfs", lambda: iter(corpus[:1]))
    results = run(tmp_path)
    assert results == run(folder)
    assert results["recall.generated_one_column"] == results["recall.a_b"] == results["recall.real_mean"] == 1.0
    counted = ("n_generated", "n_with_outline", "n_without_outline", "n_failed")
    assert [results[name] for name in counted] == [1, 1, 1, 1]
    assert all(0 <= value <= 1 for name, value in results.items() if not name.startswith("n_"))
