"""No pattern of the packages costs more than linear time, whatever text it is run over."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from compiled import Found, hostile, patterns
from growth import cost, worse_than_linear

SIZES = (500, 2_000, 8_000)  # characters
FLOOR = 0.001  # seconds for the largest: at 125 ns a character no square is hidden


def too_steep(found: Found, strings: list[tuple[str, str, str]]) -> Iterator[str]:
    for name, run in found.runs().items():
        for before, piece, end in strings:

            def made(size: int, before: str = before, piece: str = piece, end: str = end) -> str:
                return before + piece * (size // len(piece)) + end

            if cost(run, made(SIZES[-1]), patience=0.5) < FLOOR:
                continue
            if seen := worse_than_linear(run, made, SIZES, floor=FLOOR, patience=0.5):
                flood = f"{before!r} + {piece!r} * n + {end!r}"
                yield f"{found.place} {name}({flood}) of {found.pattern.pattern!r}: {seen}"
                break


@pytest.mark.parametrize(
    ("own", "floods"), [(45, 35), pytest.param(None, None, marks=(pytest.mark.slow, pytest.mark.timeout(900)))]
)
def test_no_pattern_grows_faster_than_its_text(own: int | None, floods: int | None) -> None:
    found = patterns()
    assert len(found) > 300
    assert [each for one in found for each in too_steep(one, hostile(one, own=own, floods=floods))] == []


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [r"\s*;", r"(a|aa)+$", r"<b>.*</b>", r"x(\d+)*y"])
def test_growth_above_linear_is_seen(pattern: str) -> None:
    found = Found(re.compile(pattern), "here")
    assert any(too_steep(found, hostile(found, own=45, floods=35)))
