"""Citations: document, heading path, pages and lines, each only where it is known."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena import Library, Segment
from catena.model import (
    FILE_IN_CITATION,
    Chunk,
    Document,
    ParameterError,
    Place,
    Section,
    citation,
    common_metadata,
    pages_in_words,
    place_in,
    place_metadata,
    told_apart,
)
from catena.testing.strategies import documents


def chunk(**given) -> Chunk:
    return Chunk(**{"id": "c", "document_id": "m.pdf", "position": 0, "start": 0, "end": 1, "text": "x", **given})


def test_citation_of_a_chunk() -> None:
    def said(title: str = "", made: str = "", **given: Any) -> str:
        metadata = {key: text for key, text in (("title", title), ("generated_title", made)) if text}
        return citation(chunk(metadata=metadata, **given))

    assert said() == "m.pdf"
    placed = said(path=("3 Use", "3.2 Cover"), pages=(7, 7), lines=(120, 131))
    assert placed == "m.pdf › 3 Use › 3.2 Cover, page 7, lines 120-131"
    over_pages = said("A manual", path=("A manual", "1 Use"), pages=(1, 2), lines=(4, 4))
    assert over_pages == "A manual › 1 Use, pages 1-2, line 4"
    assert said("A: Operating Manual", path=("A Operating  manual", "1 Use")) == "A: Operating Manual › 1 Use"
    assert said("HX210", "Hot parts", path=("1 Safety", "Hot parts")) == "HX210 › 1 Safety › [Hot parts]"
    assert said("HX210", "Hot parts", path=("1 Safety",)) == "HX210 › 1 Safety"


def test_documents_of_one_title_are_told_apart_by_their_files_or_else_by_their_ids() -> None:
    held = {"1": ("Policy", "x/a.md"), "2": ("Policy", "y/a.md"), "3": ("Policy", "b.md"), "4": ("Other", "c.md")}
    assert told_apart(held) == {"1": "1", "2": "2", "3": "b.md"}
    told = chunk(metadata={"title": "Policy", FILE_IN_CITATION: "b.md"}, path=("Policy", "2 Hotels"))
    assert citation(told) == "Policy (b.md) › 2 Hotels"


def test_citation_of_a_segment_takes_the_title() -> None:
    segment = Segment(
        id="s", document_id="m.pdf", start=0, end=1, text="x", path=("1 Safety",), chunk_ids=("c",), pages=(2, 3)
    )
    assert citation(segment, title="HX210 manual") == "HX210 manual › 1 Safety, pages 2-3"
    assert citation(replace(segment, metadata={"title": "HX210"})) == "HX210 › 1 Safety, pages 2-3"


PAGED = Document(id="d", text="ab", page_starts=(0, 2), page_labels=("i", "ii"))
TITLE = Section(
    id="s", document_id="d", position=0, level=1, title="", path=(), start=0, body_start=0, end=0, tree_end=0
)


@pytest.mark.parametrize(
    ("fine", "wrong"),
    [
        *((PAGED, {"page_starts": starts}) for starts in ((1, 2), (0, 3), (2, 0))),
        *((PAGED, {"page_labels": labels}) for labels in (("i",), ("i", "ii", "iii"))),
        *((TITLE, {name: value}) for name in ("start", "body_start", "end") for value in (-1, 1)),
        (TITLE, {"tree_end": -1}),
        *((chunk(), given) for given in ({"end": 2}, {"text": "xy"}, {"start": -1, "end": 0})),
    ],
)
def test_a_value_that_contradicts_itself_is_refused(fine: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=r"ascending offsets|labels|span"):
        replace(fine, **wrong)


def test_a_segment_as_a_chunk_is_the_same_slice() -> None:
    shared = {"text": "xy", "path": ("1",), "pages": (2, 3), "lines": (1, 2), "metadata": {"title": "HX210"}}
    segment = Segment(id="s", document_id="m", start=3, end=5, chunk_ids=("c", "d"), positions=(7, 8), **shared)
    wide = segment.as_chunk()
    assert (wide.id, wide.document_id, wide.start, wide.end, wide.position) == ("s", "m", 3, 5, 7)
    assert citation(wide) == citation(segment)
    assert replace(segment, positions=None).as_chunk().position == 0
    back = wide.as_segment()
    assert all(getattr(wide, name) == getattr(back, name) == value for name, value in shared.items())
    assert (back.chunk_ids, back.positions) == (("s",), (7, 7))


def test_common_metadata_is_what_all_chunks_say() -> None:
    said = ({"title": "T", "page": 1, "kind": "a"}, {"kind": "a", "title": "T", "page": 2})
    found = common_metadata([chunk(metadata=each) for each in said])
    assert list(found.items()) == [("title", "T"), ("kind", "a")]
    assert common_metadata([]) == {}


@pytest.mark.parametrize(
    ("pages", "labels", "said"),
    [
        ((59, 60), ("53", "54"), "pages 53-54 (59th-60th of the file)"),
        ((59, 59), ("53", "53"), "page 53 (59th of the file)"),
        ((1, 2), ("i", "ii"), "pages i-ii (1st-2nd of the file)"),
        ((11, 113), ("3", "105"), "pages 3-105 (11th-113th of the file)"),
        ((7, 8), ("7", "8"), "pages 7-8"),
        ((1, 6), ("T-1", "3"), "pages T-1 to 3 (1st-6th of the file)"),
        ((7, 8), ("7", ""), "pages 7-8"),
        ((12, 13), ("a", "b"), "pages a-b (12th-13th of the file)"),
        ((22, 23), ("a", "b"), "pages a-b (22nd-23rd of the file)"),
    ],
)
def test_pages_are_called_as_the_file_prints_them(pages: tuple[int, int], labels: tuple[str, str], said: str) -> None:
    assert pages_in_words(Place.of_pages(pages, labels)) == said


@pytest.mark.parametrize(("start", "end", "first", "last"), [(0, 3, 1, 1), (0, 4, 1, 2), (3, 3, 2, 2), (8, 8, 3, 3)])
def test_what_ends_with_a_line_or_a_page_ends_there_and_not_on_the_next(start, end, first, last):
    document = Document(id="d", text="ab\ncd\nef", page_starts=(0, 3, 6))  # a line a page
    assert document.place_of(start, end) == Place(pages=(first, last), lines=(first, last))


@given(documents(), st.tuples(st.integers(0, 300), st.integers(0, 300)), st.integers(0, 300))
def test_a_place_is_what_counting_finds_and_two_parts_make_the_whole(document, span, cut):
    start, end = sorted(min(place, len(document.text)) for place in span)
    place = document.place_of(start, end)
    last = max(start, end - 1)
    assert place.lines == tuple(document.text[:offset].count("\n") + 1 for offset in (start, last))
    if not document.page_starts:
        assert place.pages is place.page_labels is None
        return
    pages = tuple(sum(begin <= offset for begin in document.page_starts) for offset in (start, last))
    assert place.pages == pages
    printed = tuple(document.page_labels[page - 1] for page in pages) if document.page_labels else ("", "")
    assert (place.page_labels or tuple(map(str, pages))) == (printed if all(printed) else tuple(map(str, pages)))
    assert place_in(place_metadata(place)) == place
    if start < cut < end:
        parts = (document.place_of(start, cut), document.place_of(cut, end))
        whole = Place.around(parts)
        assert (whole.pages, whole.lines) == (place.pages, place.lines)
        assert Place.around(reversed(parts)) == whole


def test_a_library_cites_the_pages_that_are_printed(tmp_path: Path) -> None:
    said = ("Thanks go to all who built pumps.", "Valves close at 4 bar, slowly.", "Seals are blue when new.")
    pages = ["\n".join(line.replace("4", str(at)) for at in range(30)) + "\n\n" for line in said]
    starts, labels = tuple(accumulate(map(len, pages[:-1]), initial=0)), ("i", "1", "2")
    book = Document(id="book", text="".join(pages), page_starts=starts, page_labels=labels)
    question = "Do valves close at 14 bar?"
    with Library.open(tmp_path / "l.catena") as library:
        library.add(book)
        whole = library.sections(library.search(question, k=1))[0][0]
        part = library.passages(question, budget_tokens=300).hits[0].chunk
        assert pages_in_words(whole.place) == "pages i-2 (1st-3rd of the file)"
        assert pages_in_words(part.place) == "page 1 (2nd of the file)"
        assert library.search(question, where={"page_label": "i"}).hits
