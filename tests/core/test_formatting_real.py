"""Real manuals, where they are at hand: nothing is lost, pages are mapped exactly, headings are found."""

from __future__ import annotations

import re

import pytest

from catena.formatting import LayoutOptions, format_layout
from catena.formatting.styled_lines import key
from catena.parsing import parse
from catena_bench.headings import score_outline
from conftest import needs_data

MANUALS = ("R-FAQ.pdf", "R-data.pdf", "libtasn1.pdf")


@pytest.fixture(scope="module", params=MANUALS)
def manual(request):
    return parse(needs_data("pdfs", request.param))


@pytest.mark.slow
def test_every_letter_is_kept(manual) -> None:
    document = format_layout(manual, LayoutOptions(running_heads=True, unruled_tables=False))
    printed = key("".join(line.text for page in manual.layout.pages for line in page.lines))
    assert key(document.text) == printed


def test_running_heads_are_all_that_goes_and_pages_begin_with_their_first_words(manual) -> None:
    kept = format_layout(manual, LayoutOptions(running_heads=True, unruled_tables=False))
    document = format_layout(manual, LayoutOptions(unruled_tables=False))
    assert 0 < len(key(kept.text)) - len(key(document.text)) < 60 * len(manual.layout.pages)
    assert not re.search(r"^Chapter \d+: .* \d+$", document.text, re.MULTILINE)
    for page, start in zip(manual.layout.pages, kept.page_starts, strict=True):
        assert not page.lines or key(kept.text[start : start + 300]).startswith(key(page.lines[0].text)[:12])


def test_headings_are_found_without_the_outline_and_with_it(manual) -> None:
    counts = score_outline(manual)
    assert counts is not None
    assert counts.shared >= 0.95 * counts.truth
    assert counts.shared >= 0.9 * counts.outlined
    assert counts.level == counts.shared
