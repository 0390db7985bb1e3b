"""Options of a wrong type or out of range are refused by name, whatever the class that holds them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Le
from hypothesis import given
from hypothesis import strategies as st

from catena import Library
from catena.effects import Services, Step, run
from catena.errors import ParameterError
from catena.model import Ranking, Scale
from catena.options import check_options
from catena.parsing import Limits
from catena.pipeline import FixedLength
from catena.segment_search import SegmentSearch, find_segments

COUNTS = ("5", None, 0, True, 2.5, float("nan"), 10**30)
WRONG: dict[Any, dict[str, tuple[Any, ...]]] = {
    SegmentSearch: {
        **dict.fromkeys(("budget_tokens", "depth", "most_queries"), COUNTS),
        **dict.fromkeys(("header", "adjust", "rerank", "never_empty", "queries_by", "on_failure"), ("x",)),
    },
    Limits: dict.fromkeys(
        ("seconds", "seconds_per_page", "memory_bytes", "pages", "bytes", "sections", "chunks"),
        ("1", None, 0, float("nan")),
    ),
    FixedLength: {"tokens": ("1",), "inside_sections": (1,)},
}


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(kind, name, value) for kind, names in WRONG.items() for name, values in names.items() for value in values],
)
def test_a_wrong_option_is_refused_by_name(kind: Any, name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f"{name} must be ") as refused:
        kind(**{name: value})
    assert refused.value.value is value


def test_settings_that_adjusting_lost_are_refused() -> None:
    def ranked(query: str) -> Step[Ranking]:
        yield from ()
        return Ranking((), Scale.RANK)

    lost: Any = SegmentSearch(adjust=lambda params: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(ParameterError, match="adjust must be a function"):
        run(find_segments("a", lost, ranked=ranked), Services())


@dataclass(frozen=True)
class Options:
    n: Annotated[int, Ge(1), Le(9)] = 1
    share: Annotated[float | None, Ge(0)] = None
    how: Literal["a", 1] = "a"
    names: tuple[str, ...] = ()


@given(st.one_of(st.integers(), st.floats(), st.text(), st.booleans(), st.none(), st.lists(st.text())))
def test_what_is_declared_decides(value: Any) -> None:
    def taken(name: str) -> bool:
        try:
            check_options(replace(Options(), **{name: value}))
        except ParameterError:
            return False
        return True

    number = isinstance(value, int | float) and not isinstance(value, bool)
    assert taken("n") == (number and isinstance(value, int) and 1 <= value <= 9)
    assert taken("share") == (value is None or (number and value >= 0))
    assert taken("how") == (value == "a" or (value == 1 and type(value) is int))
    assert not taken("names")


@pytest.mark.parametrize(
    "asked",
    [
        {"limits": "3"}, {"routes": 5}, {"routes": [[]]}, {"routes": {"dense": 5}}, {"by_name": "no"}, {"k": True},
        {"embedded_texts": 5}, {"embedded_texts": "one"}, {"entities": "one"}, {"fusion": "rank"},
        {"on_unknown": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_an_option_of_a_question_of_the_wrong_type_is_named(asked: dict[str, Any], tmp_path: Path) -> None:
    (name,) = asked
    with Library.open(tmp_path / "l") as library, pytest.raises(ParameterError, match=name):
        library.search("q", **asked)
