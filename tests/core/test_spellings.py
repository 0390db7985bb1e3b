"""Many names in one text: found in one pass as a search per name finds them."""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from catena.effects import FindNames
from catena.model import Name, Unknown
from catena.store import names_besides, names_found
from catena.text import NameIndex, all_as_written, as_written, names_of, normalise_term, other_forms
from catena.text.spellings import caseless, places_of
from conftest import needs_data

WORDS = st.sampled_from(
    [
        "HX",
        "hx",
        "200",
        "20",
        "a1",
        "A1b",
        "K2",
        "\u212a2",
        "ſ3",
        "s3",
        "µ5",
        "İ7",
        "ΰ8",
        "\u1fe38",
        "(b2)",
        "日",
        "ｈｘ９",
    ]
)
GAPS = st.sampled_from([" ", "-", "_", " \u2013 ", "", "\n", ",", "\ud800", "\ufffd", "(", ")"])
TEXTS = st.lists(st.tuples(WORDS, GAPS), max_size=8).map(lambda parts: "".join(map("".join, parts)))


@given(text=TEXTS, names=st.lists(TEXTS.map(normalise_term), max_size=6))
@example(text="AHX-200 hx  200", names=["hx 200", "hx 20", "hx"])
@example(text="HX", names=[""])
@example(text="see HX-200 (rev 2) and hx 200", names=["hx 200 (rev 2", "200"])
def test_many_names_are_written_as_each_alone(text: str, names: list[str]) -> None:
    each_alone = {name: as_written(text, name) for name in names}
    assert all_as_written(text, names) == each_alone
    with patch("catena.text.spellings._FEW", 0):  # by the automaton, as in longer texts
        assert all_as_written(text, names) == each_alone


def test_titles_of_real_documents_are_shown_as_each_name_is_written_alone() -> None:
    documents = json.loads((needs_data("similar_docs") / "documents.json").read_text("utf-8"))
    titles = sorted({document["title"] for document in documents})
    assert len(titles) > 1_000
    for title in titles:
        names = names_of(title)
        assert all_as_written(title, names) == {name: as_written(title, name) for name in names}


def test_a_place_is_the_first_without_a_letter_beside_it() -> None:
    assert places_of(["hx 200", "b2", "gone"], "AHX-200, hx_200 (B2)") == {"hx 200": (9, 15), "b2": (17, 19)}


def test_letters_are_one_where_a_pattern_without_case_takes_them_for_one() -> None:
    cased = [c for c in map(chr, range(sys.maxunicode + 1)) if c.lower() != c or c.upper() != c]
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for character in cased:
        alike[caseless(character)].append(character)
    line = "".join(cased)

    for group in alike.values():
        assert re.findall(re.escape(group[0]), line, re.IGNORECASE) == group


TITLES = {"a": "HX-200 manual", "b": "HX-210", "c": "A1b 20", "d": "K2"}


def one_by_one(request: FindNames, known: tuple[Name, ...], near: tuple[Unknown, ...], terms: set[str]) -> list[str]:
    """What is unknown, by the definition: each form in each text that is covered."""
    missing = [unknown for unknown in near if unknown.text not in terms]
    missed = [normalise_term(unknown.text) for unknown in missing]
    said = [name.text for name in known if not any(name.text in one for one in missed)]
    others = [
        as_written(request.query, name)
        for name in names_besides(request)
        if not any(form in terms or any(form in one for one in (*missed, *said)) for form in other_forms(name))
    ]
    return [*(unknown.text for unknown in missing), *others]


@given(query=TEXTS, also=st.lists(TEXTS, max_size=2), terms=st.sets(st.sampled_from(["hx200", "a1", "k2", "s3"])))
@example(query="HX-220 for A1b 20 with hx-200s", also=["s b"], terms=set())
def test_what_is_unknown_is_what_it_is_one_by_one(query: str, also: list[str], terms: set[str]) -> None:
    index = NameIndex(TITLES)
    request = FindNames(query=query, also=tuple(also))
    known, near = index.known_in(query), index.near_in(query)

    found = names_found(
        request, known=known, near=near, is_term=terms.__contains__, is_property=lambda name: name.text == "k2"
    )
    assert [unknown.text for unknown in found.unknown] == one_by_one(request, known, near, terms)


def test_a_library_and_a_long_question_search_for_no_name_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.text.names._places", None)
    index = NameIndex(TITLES)
    query = " ".join(f"HX-{number} AB{number}x" for number in range(300, 1_300))
    near = index.near_in(query)

    found = names_found(
        FindNames(query=query), known=(), near=index.near_in(query), is_term=lambda _: False,
        is_property=lambda _: False,
    )  # fmt: skip
    assert len(near) == 1_000
    assert [unknown.text for unknown in found.unknown[1_000:]] == [f"AB{number}x" for number in range(300, 1_300)]
