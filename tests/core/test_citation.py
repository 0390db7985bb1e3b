"""Citations: document, heading path, pages and lines, each only where it is known."""

from __future__ import annotations

import pytest

from catena.citation import citation
from catena.model import Chunk, Segment


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
