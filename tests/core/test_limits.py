"""What follows the reading has limits of its own: past them a document or a question ends in a named state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.library import Library, Preparation, prepare
from catena.model import Document, FilterError, ParameterError, ParseError, compiled
from catena.parsing import Limits, parse_bytes
from catena.retrieval import QuestionLimits

HEADINGS = "# One\n\nA pump.\n\n# Two\n\nA valve.\n\n# Three\n\nA seal.\n"


@pytest.mark.parametrize(
    ("what", "text"), [("sections", "#\n" * 100_000), ("sections", HEADINGS), ("chunks", HEADINGS)]
)
def test_a_document_with_too_many_parts_ends_in_a_limit(what: str, text: str) -> None:
    limits: Any = {what: 2}
    told = rf"(?s)d: limit: it has .* {what}, more than the limit of 2\..*Limits\({what}="
    with pytest.raises(ParseError, match=told) as refused:
        prepare(Document(id="d", text=text), Preparation(limits=Limits(**limits)))
    assert refused.value.state == "limit"
    assert prepare(Document(id="d", text=HEADINGS), Preparation(limits=Limits(sections=3, chunks=3))).chunks


def test_a_file_with_too_many_sections_fails_in_the_ledger_and_its_neighbours_do_not(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(HEADINGS)
    (tmp_path / "b.md").write_text("# One\n\nA pump.\n")
    with Library.open(tmp_path / "library", preparation=Preparation(limits=Limits(sections=2))) as library:
        many, few = library.index([tmp_path / "a.md", tmp_path / "b.md"])
        assert (many.state, few.state) == ("failed", "indexed")
        assert many.reason.startswith("limit: it has 3 sections")


def test_a_question_past_its_limits_is_refused_by_name(tmp_path: Path) -> None:
    pages: list[Any] = [{"page": n} for n in range(10_001)]
    two = {"$not": {"page": 1, "kind": "text"}}
    cases: list[tuple[str, Any, QuestionLimits | None, type[Exception]]] = [
        ("pump " * 30_000, None, None, ParameterError),
        ("pump", None, QuestionLimits(characters=3), ParameterError),
        ("pump", {"$or": pages}, None, FilterError),
        ("pump", {"page": {"$in": list(range(10_001))}}, None, FilterError),
        ("pump", two, QuestionLimits(conditions=1), FilterError),
        ("pump", {"$or": [{}] * 300_000}, None, FilterError),
    ]
    with Library.open(tmp_path / "library") as library:
        library.add(Document(id="d", text="A pump."))
        for ask in (library.search, library.segments):
            for query, where, limits, error in cases:
                with pytest.raises(error) as refused:
                    ask(query, where=where, limits=limits)
                assert len(str(refused.value)) < 500
                assert "QuestionLimits(" in str(refused.value)
        assert library.search("pump " * 10_000, where={"page": {"$in": list(range(5_000))}}, limits=None) is not None
        assert library.search("pump", where=two, limits=QuestionLimits(conditions=3)) is not None


def itself(branches: int) -> dict[str, Any]:
    """Return a filter whose branches are the filter itself."""
    where: dict[str, Any] = {}
    where["$or"] = [where] * branches
    return where


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (itself(1), "nested more than 50 deep"),
        (itself(900), "more than 10,000 conditions"),
        ({"$or": range(10**12)}, "more than 10,000 conditions"),
        ({"x" * 1_000_000: {"$between": 1}}, r"operator '\$between'"),
        ({"page": {"$in": ["x" * 1_000_000, None]}}, r"\$in of field 'page' takes"),
        ({"$and": "x" * 1_000_000}, r"\$and takes a list of at least one filter"),
    ],
)
def test_a_filter_without_end_is_refused_at_once_and_in_few_words(where: Any, said: str) -> None:
    def check() -> None:
        QuestionLimits().check("pump", where)
        compiled(where)

    with pytest.raises(FilterError, match=said) as refused:
        check()
    assert len(str(refused.value)) < 1_000


@pytest.mark.parametrize("name", ["memory_bytes", "pages", "bytes", "sections", "chunks"])
def test_a_limit_beyond_what_machines_count_to_is_refused_by_name(name: str) -> None:
    limits: Any = {name: 2**62}
    assert parse_bytes(b"A pump.", "a.md", limits=Limits(**limits)).state == "parsed"
    with pytest.raises(ParameterError, match=f"{name} must be"):
        Limits(**{name: 2**62 + 1})  # type: ignore[arg-type]
