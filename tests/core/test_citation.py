"""Citations: document, heading path, pages and lines, each only where it is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catena.citation import citation
from catena.model import Chunk, Segment, common_metadata


def chunk(**given) -> Chunk:
    return Chunk(**{"id": "c", "document_id": "m.pdf", "position": 0, "start": 0, "end": 1, "text": "x", **given})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "m.pdf"),
        ({"path": ("3 Mounting", "3.2 Cover"), "pages": (7, 7), "lines": (120, 131)},
         "m.pdf › 3 Mounting › 3.2 Cover, page 7, lines 120-131"),
        ({"metadata": {"title": "HX210 manual"}, "path": ("HX210 manual", "1 Safety"), "pages": (1, 2),
          "lines": (4, 4)},
         "HX210 manual › 1 Safety, pages 1-2, line 4"),
    ],
)  # fmt: skip
def test_citation_of_a_chunk(given, expected: str) -> None:
    assert citation(chunk(**given)) == expected


def test_a_title_that_differs_in_punctuation_is_not_repeated() -> None:
    found = chunk(metadata={"title": "HX210: Operating Manual"}, path=("HX210 Operating  manual", "1 Safety"))
    assert citation(found) == "HX210: Operating Manual › 1 Safety"


def test_citation_of_a_segment_takes_the_title() -> None:
    segment = Segment(
        id="s", document_id="m.pdf", start=0, end=1, text="x", path=("1 Safety",), chunk_ids=("c",), pages=(2, 3)
    )
    assert citation(segment, title="HX210 manual") == "HX210 manual › 1 Safety, pages 2-3"
    assert citation(replace(segment, metadata={"title": "HX210"})) == "HX210 › 1 Safety, pages 2-3"


def test_a_segment_as_a_chunk_is_the_same_slice() -> None:
    segment = Segment(
        id="s", document_id="m", start=3, end=5, text="xy", path=("1",), chunk_ids=("c", "d"), pages=(2, 3),
        lines=(1, 2), positions=(7, 8), metadata={"title": "HX210"},
    )  # fmt: skip
    wide = segment.as_chunk()
    assert (wide.id, wide.document_id, wide.start, wide.end, wide.text) == ("s", "m", 3, 5, "xy")
    assert (wide.path, wide.pages, wide.lines, wide.position) == (("1",), (2, 3), (1, 2), 7)
    assert citation(wide) == citation(segment)
    back = wide.as_segment()
    assert (back.text, back.path, back.pages, back.lines) == ("xy", ("1",), (2, 3), (1, 2))
    assert (back.chunk_ids, back.positions, back.metadata) == (("s",), (7, 7), {"title": "HX210"})


def test_common_metadata_is_what_all_chunks_say() -> None:
    one = chunk(metadata={"title": "T", "page": 1, "kind": "a"})
    other = chunk(metadata={"kind": "a", "title": "T", "page": 2})
    assert list(common_metadata([one, other]).items()) == [("title", "T"), ("kind", "a")]
    assert common_metadata([]) == {}


def test_a_title_that_was_made_stands_in_brackets() -> None:
    made = chunk(path=("1 Safety", "Hot parts"), metadata={"title": "HX210", "generated_title": "Hot parts"})
    assert citation(made) == "HX210 › 1 Safety › [Hot parts]"
    wider = chunk(path=("1 Safety",), metadata={"title": "HX210", "generated_title": "Hot parts"})
    assert citation(wider) == "HX210 › 1 Safety"
