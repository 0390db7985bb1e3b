"""The figures-reading benchmark: generated diagrams are found with their titles, and what looks like them is not."""

from __future__ import annotations

from catena_bench.figures_reading import generated_pages, run


def test_diagrams_are_found_and_tables_and_forms_are_not() -> None:
    figures = run(pages=25, seed=3)
    assert figures["n"] > 30
    assert min(figures["recall.generated"], figures["precision.generated"]) >= 0.95
    assert (figures["titled.generated"], figures["captioned.manuals"]) == (1.0, 1.0)
    assert figures["bare.manuals"] == 2 / 31  # the pictures of two title pages


def test_equal_seeds_give_equal_pages() -> None:
    assert generated_pages(3, 5) == generated_pages(3, 5) != generated_pages(3, 6)
