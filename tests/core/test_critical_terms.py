"""Critical terms: what is taken, what it weighs, and what is left out."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.enrichment.critical_terms import CriticalTermOptions, critical_terms, table_cells
from catena.errors import ParameterError
from catena.model import Chunk, Document
from catena.text import normalise_term

TABLE = """Table 4. Ratings

| Parameter | Value |
|:----------|------:|
| Supply voltage | 24 V |
| Fuse \\| spare | T2A |
| Remark | as long as the device is not opened by the user |
"""


def document(text: str, title: str = "HX-200 Manual") -> tuple[Document, tuple[Chunk, ...]]:
    chunk = Chunk(id="c", document_id="d", position=0, start=0, end=len(text), text=text)
    return Document(id="d", text=text, title=title), (chunk,)


def terms(text: str, title: str = "HX-200 Manual", **options) -> Counter[str]:
    (found,) = critical_terms(*document(text, title), CriticalTermOptions(**options))
    return Counter(found)


def test_the_title_belongs_to_every_chunk_and_counts_twice() -> None:
    assert terms("Nothing else.") == Counter({"hx 200 manual": 2, "hx 200": 2})
    assert terms("Nothing else.", codes=False, title_weight=3) == Counter({"hx 200 manual": 3})


def test_codes_are_words_of_letters_and_digits() -> None:
    found = terms("Fit the STM32F103R4 or an ESP32-C6 (3.3V), torque 12 Nm, page 7, in 2024.", title="")
    assert set(found) == {"stm32f103r4", "esp32 c6", "3.3v"}


def test_cells_of_tables_are_terms_without_headers_and_sentences() -> None:
    assert set(terms(TABLE, title="")) == {"supply voltage", "24 v", "fuse | spare", "t2a", "remark"}
    assert not terms(TABLE, title="", cells=False, codes=False)


def test_table_cells_in_order() -> None:
    assert table_cells(TABLE)[:4] == ("Supply voltage", "24 V", "Fuse | spare", "T2A")
    assert table_cells("a | b\nno table") == ()


@pytest.mark.parametrize(
    ("text", "found"), [("the purge valve,", True), ("the purge valves", False), ("impurge valve", False)]
)
def test_expert_terms_match_whole_words(text: str, found: bool) -> None:
    assert ("purge valve" in terms(text, expert=("Purge Valve",))) is found


def test_a_title_that_is_also_a_cell_counts_as_the_title_only() -> None:
    assert terms("| Name |\n|---|\n| HX-200 manual |\n")["hx 200 manual"] == 2


@given(st.text(max_size=300), st.text(max_size=30))
def test_terms_are_normal_sorted_and_the_same_each_time(text: str, title: str) -> None:
    (found,) = critical_terms(*document(text, title))
    assert list(found) == sorted(found)
    assert all(term and normalise_term(term) == term for term in found)
    assert critical_terms(*document(text, title)) == (found,)


@pytest.mark.parametrize("bad", [{"title_weight": 0}, {"max_words": 0}])
def test_options_out_of_range(bad: dict[str, int]) -> None:
    with pytest.raises(ParameterError, match="an integer >= 1, got 0"):
        CriticalTermOptions(**bad)
