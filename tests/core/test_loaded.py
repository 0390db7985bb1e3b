"""What loaders say in metadata: how to read a text, where it comes from, and which page of a file it is."""

from __future__ import annotations

from typing import Any

import pytest
from case_files import rows_of
from hypothesis import given
from hypothesis import strategies as st

from catena.model import ParameterError
from catena.text import PAGE_BREAK, PLAIN, joined_pages, media_type_of
from catena.text.loaded import page_of, source_of, starts_of_page


@pytest.mark.parametrize(("metadata", "expected"), rows_of("cases_media_types.txt"))
def test_the_media_type_follows_from_what_metadata_say(metadata: dict[str, Any], expected: str) -> None:
    assert media_type_of(metadata) == expected


page_numbers = st.lists(st.integers(0, 30), unique=True, max_size=8)


@given(page_numbers, st.data())
def test_every_page_stands_where_its_number_says(numbers: list[int], data: st.DataObject) -> None:
    texts = [data.draw(st.text(alphabet="ab\n", max_size=6)) for _ in numbers]
    metadata = [{"source": "f", "page": n, "page_label": f"p{n}", "odd": [object()]} for n in numbers]
    for joined in joined_pages(texts, metadata):
        assert not isinstance(joined, int)
        assert sorted(joined.members) == list(range(len(numbers)))
        assert list(joined.starts) == sorted(joined.starts)
        assert joined.text == PAGE_BREAK.join(texts[member] for member in joined.members)
        for number, text in zip(numbers, texts, strict=True):
            assert joined.text.startswith(text, joined.starts[number])
            assert joined.labels[number] == f"p{number}"
        assert len(joined.starts) == len(joined.labels) == max(numbers) + 1


def test_pages_of_several_files_that_come_by_turns_are_joined_by_file() -> None:
    metadata = [{"source": name, "page": page} for page in (0, 1) for name in ("a", "b")]
    first, second, third = joined_pages(["a0", "b0", "a1", "b1", "x"], [*metadata, {"source": "x"}])
    assert [(each.text, each.members) for each in (first, second)] == [("a0\n\na1", (0, 2)), ("b0\n\nb1", (1, 3))]
    assert third == 4
    assert first.id != second.id


def test_pages_without_numbers_stay_in_order_and_what_all_say_is_kept() -> None:
    labels = [{"file_path": "a.pdf", "source": str(n), "page_label": n, "year": 7, "n": n, "page": "x"} for n in "ab"]
    (joined,) = joined_pages(["one", "two"], [labels[0], {**labels[1], "page": 0}])
    assert (joined.text, joined.starts, joined.labels) == ("one\n\ntwo", (0, 5), ("a", "b"))
    assert joined.metadata == {"media_type": PLAIN, "file_path": "a.pdf", "year": 7}
    (joined,) = joined_pages(["one", "four"], [{"source": "a", "page": 0}, {"source": "a", "page": 3}])
    assert (joined.starts, joined.labels) == ((0, 5, 5, 5), ())
    assert joined_pages(["x", "y"], [{"page": 0}, {"source": "a", "total_pages": 1}]) == [0, 1]


def test_the_source_and_the_page_are_read_from_what_loaders_write() -> None:
    assert source_of({"file_name": "b", "file_path": "a", "source": ""}) == "a"
    assert [page_of({"page": page}) for page in (0, 5, -1, True, "3", None)] == [0, 5, None, None, None, None]
    assert source_of({}) == ""
    paged = {"total_pages": 9}
    starts = [starts_of_page({"page": page, **paged}) for page in (0, 2, -1, 100_000)]
    assert starts == [(0,), (0, 0, 0), (), ()]
    assert len(starts_of_page({"page": 99_999, "page_label": ""})) == 100_000
    assert starts_of_page({"page": 2}) == starts_of_page(paged) == ()


@pytest.mark.parametrize("numbers", [(0, 0), (100_000,)])
def test_pieces_of_pages_and_impossible_pages_are_refused_by_name(numbers: tuple[int, ...]) -> None:
    with pytest.raises(ParameterError, match=r"manual\.pdf"):
        joined_pages(["x"] * len(numbers), [{"source": "manual.pdf", "page": number} for number in numbers])
