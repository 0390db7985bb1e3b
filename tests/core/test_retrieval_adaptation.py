"""Weights from the shape of a corpus: what the paper says raises them does, within bounds, through the defaults."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.model import Chunk, Document, Entry, ParameterError
from catena.retrieval import CorpusStatistics, ScoreFusion, adapted
from catena.retrieval.adaptation import PAGE, REFERENCE

SHAPES = st.builds(
    CorpusStatistics,
    documents=st.integers(0, 10**7),
    average_pages=st.floats(0.01, 10**5),
    structure=st.floats(0, 1),
)


def entry(name: str, *paths: tuple[str, ...], characters: int = 10, pages: int = 0) -> Entry:
    text = "x" * characters
    chunks = tuple(
        Chunk(id=f"{name}-{at}", document_id=name, position=at, start=at, end=at + 1, text="x", path=path)
        for at, path in enumerate(paths)
    )
    document = Document(id=name, text=text, page_starts=tuple(range(pages)))
    return Entry(document=document, sections=(), chunks=chunks, views=())


def test_the_defaults_are_those_of_the_reference_corpus() -> None:
    usual, found = ScoreFusion(), adapted(REFERENCE)
    assert (found.alpha, found.beta) == (pytest.approx(usual.alpha), pytest.approx(usual.beta))


def test_golden_values() -> None:
    plain_book = adapted(CorpusStatistics(documents=1, average_pages=400, structure=0.0))
    assert plain_book.alpha == 0.5
    assert plain_book.beta == pytest.approx(0.6 * 0.05 / 1.05)
    data_sheets = adapted(CorpusStatistics(documents=900, average_pages=1, structure=0.75))
    assert data_sheets.beta == pytest.approx(0.6 * 30 / 31)


@given(SHAPES, SHAPES)
def test_structure_raises_alpha_alone_and_documents_per_page_beta_alone(
    one: CorpusStatistics, other: CorpusStatistics
) -> None:
    first, second = adapted(one), adapted(other)
    assert 0.5 <= first.alpha <= 0.7
    assert 0 <= first.beta <= 0.6
    if one.structure < other.structure:
        assert first.alpha <= second.alpha
    if one.documents / one.average_pages < other.documents / other.average_pages:
        assert first.beta <= second.beta


def test_it_does_grow() -> None:
    few, many = (CorpusStatistics(documents=n, average_pages=10, structure=0.5) for n in (10, 1_000))
    flat, deep = (CorpusStatistics(documents=10, average_pages=10, structure=s) for s in (0.0, 0.9))
    assert adapted(few).beta < adapted(many).beta
    assert adapted(few).alpha == adapted(many).alpha
    assert adapted(flat).alpha < adapted(deep).alpha
    assert adapted(flat).beta == adapted(deep).beta


def test_statistics_of_entries() -> None:
    paged = entry("a", ("A",), ("A", "1"), pages=5)
    unpaged = entry("b", (), characters=4 * PAGE)
    short = entry("c", ("C", "2", "x"))
    found = CorpusStatistics.of([paged, unpaged, short])
    assert found.documents == 3
    assert found.average_pages == pytest.approx((5 + 4 + 1) / 3)
    assert found.structure == pytest.approx((0.5 + 0.75 + 0.0 + 0.875) / 4)
    assert CorpusStatistics.of([short, paged, unpaged]) == found


def test_no_documents_have_a_shape_too() -> None:
    found = CorpusStatistics.of([])
    assert (found.documents, found.average_pages, found.structure) == (0, 1.0, 0.0)
    assert adapted(found).beta == 0.0


@pytest.mark.parametrize(
    ("field", "value"),
    [("documents", -1), ("average_pages", 0.0), ("average_pages", inf), ("structure", 1.1), ("structure", nan)],
)
def test_what_no_corpus_can_be_is_refused(field: str, value: float) -> None:
    good = {"documents": 1, "average_pages": 1.0, "structure": 0.5}
    with pytest.raises(ParameterError, match=field):
        CorpusStatistics(**{**good, field: value})
