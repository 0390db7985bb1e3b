"""Nodes of the graph: the names, keywords and titles of one chunk, and the kinds of edge that they make."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import retrieval_cases
from case_files import rows_of
from hypothesis import example, given
from hypothesis import strategies as st

from catena.graph import NAMES, Node, TermEdges, node_of
from catena.graph.options import keywords_of_node, names_of_node, rarity
from catena.model import TITLE, Chunk, ParameterError
from catena.text import keywords_of, named_phrases, names_in, normalise_term, tokenise, without_parenthesis
from catena.text.phrases import MOST_NAMES
from conftest import printed_under_hash_seeds

BANKER = "Sir Francis Baring, 1st Baronet was a British merchant banker. He led Baring's of London in 1762."
WORDS = [
    *["the", "The", "Pump", "HX-200", "of", "seal", "shaft", "1995", "St.", "Louis", ".", "|", "軸封", "ポンプ"],
    "\n",
]
texts = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join) | st.text(max_size=200)


def chunk(text: str, *, title: str = "", path: tuple[str, ...] = ()) -> Chunk:
    return retrieval_cases.chunk("c", text, path=path, metadata={TITLE: title} if title else {})


# names


@pytest.mark.parametrize(("text", "phrases"), rows_of("cases_names_printed.txt"))
def test_names_as_printed(text: str, phrases: list[str]) -> None:
    assert sorted(map(" ".join, named_phrases(text))) == sorted(phrases)


def test_a_name_and_a_longer_one_share_the_part_that_both_print() -> None:
    one, other = names_in(BANKER), names_in("Francis Baring was born in Exeter.")
    assert one[:4] == ("sir francis baring", "1st baronet", "british", "baring")
    assert "francis baring" in set(one) & set(other)
    assert len(names_in(" by ".join(f"Ab{letter}{other}" for letter in "abcdefghi" for other in "abcdefghi"))) == 64


@pytest.mark.parametrize(
    ("title", "parts"),
    [
        ("Running without a code", []),
        ("A code for the shaft seal", ["code for the shaft", "shaft seal"]),
        ("Starten der Pumpe ohne Code", ["pumpe ohne code"]),
        ("Batteries of the Pump House", ["pump house"]),
        ("Hepatitis A Virus", ["hepatitis a", "a virus"]),  # printed large: no article
    ],
)
def test_a_part_of_a_heading_neither_begins_nor_ends_with_a_joining_word(title: str, parts: list[str]) -> None:
    names = names_in("", titles=[title])
    assert names[0] == normalise_term(title)
    assert set(parts) <= set(names)
    joining = {"without", "a", "for", "the", "der", "ohne", "of"} - ({"a"} if "A Virus" in title else set())
    assert not [name for name in names[1:] if {name.split()[0], name.split()[-1]} & joining]


@given(texts)
@example("A " * 5_000)
@example("Ab. " * 5_000)
@example("a1-" * 5_000)
def test_names_are_few_normalised_distinct_and_printed(text: str) -> None:
    names = names_in(text)
    assert len(names) <= MOST_NAMES
    assert len(set(names)) == len(names)
    whole = normalise_term(text)
    for name in names:
        assert any(map(str.isalpha, name))
        assert normalise_term(name) == name
        assert name.replace(" ", "") in whole.replace(" ", "")


odd = st.lists(st.sampled_from([*WORDS, "3.5", "f_cpu", "don't", "pump pump"]), max_size=40).map(" ".join)


@given(odd | st.text(st.characters(max_codepoint=127), max_size=80))
def test_a_letter_beyond_ascii_changes_nothing_of_what_stands_before_it(text: str) -> None:
    # texts of ASCII, of spaced words, and all others are read by patterns of their own
    beyond = f"{text}\n\u00e9"
    assert named_phrases(beyond) == named_phrases(text)
    assert keywords_of(beyond) == keywords_of(text)
    assert tokenise(beyond) == [*tokenise(text), "\u00e9"]
    assert tokenise(f"{text}\n\u8ef8") == [*tokenise(text), "\u8ef8"]


def test_a_parenthesis_at_the_end_of_a_title_is_left_off() -> None:
    assert without_parenthesis("Battery (electricity)") == "Battery"
    assert without_parenthesis("Mercury（planet） ") == "Mercury"
    assert without_parenthesis("(500) Days of Summer") == "(500) Days of Summer"
    assert without_parenthesis("(What?)") == "(What?)"


# keywords


@pytest.mark.parametrize(
    ("text", "keywords"),
    [
        (
            "Remove the old shaft seal. Press the new shaft seal into the housing (HX-200).",
            ("shaft seal", "hx 200", "housing"),
        ),
        ("| Part | Number |\n|---|---|\n| Cover | HX-210 |", ("number", "hx 210", "cover", "part")),
        ("Figure 3: exploded view of the Aqua pump with its housing", ("figure 3", "aqua", "exploded", "housing")),
        ("軸封必須潤滑。先拆下軸封。", ("軸封",)),
        ("Der Dichtring sitzt im Gehäuse. Ein Dichtring fehlt.", ("dichtring", "gehäuse", "sitzt", "fehlt")),
        ("of to in it", ()),
    ],
)
def test_keywords_of_manuals_tables_captions_and_other_languages(text: str, keywords: tuple[str, ...]) -> None:
    assert keywords_of(text)[: len(keywords)] == keywords


def test_the_weight_of_a_keyword_by_hand() -> None:
    # seals: 2 places * log2(1 + 5) = 5.17; pumps: 1 * log2(6) = 2.58; Bonn: 2 * log2(1 + 4) = 4.64
    # "these" is a stop word; pairs are of four letters and more
    assert keywords_of("these seals and seals of pumps, made in Bonn") == ("seals", "bonn", "pumps")
    assert keywords_of("pump seal or pump seal, oil rig or oil rig") == ("pump seal",)


@given(texts, st.integers(1, 8))
def test_keywords_are_at_most_so_many_and_none_stands_inside_another(text: str, count: int) -> None:
    keywords = keywords_of(text, count=count)
    assert len(keywords) <= count
    assert keywords == keywords_of(text, count=count + 3)[:count]
    for term in keywords:
        assert term
        assert [other for other in keywords if f" {term} " in f" {other} "] == [term]


# nodes


def test_a_node_has_the_title_of_its_document_and_its_own_heading_and_their_names() -> None:
    path = ("HX-200 (manual)", "Use", "Shaft Seal")
    node = node_of(chunk("It pumps; made by Acme.", title=path[0], path=path))
    assert node.titles == ("HX-200", "Shaft Seal")
    assert node.names == ("hx 200", "shaft seal", "acme")
    assert node.keywords == ("acme", "pumps")
    assert node.id == "c"


def test_keywords_that_were_given_are_normalised_and_distinct_and_hold_no_title() -> None:
    printed = chunk("text", title="Battery (electricity)", path=("Battery (electricity)",))
    node = node_of(printed, keywords=["Shaft-Seal", "shaft seal", "", "battery", "A", "B", "C", "D", "E"])
    assert node.keywords == ("shaft seal", "a", "b", "c", "d", "e")
    assert node_of(printed, keywords=()).keywords == ()


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("3.1 HX200", "HX200"),
        ("3. Installation", "Installation"),
        ("A.2 Prompts", "Prompts"),
        ("3.1\u3000\u96fb\u6e90", "\u96fb\u6e90"),
        ("3.1", "3.1"),  # a number and no more
        *((same, same) for same in ("3 Phases", "3.5 mm plug", "2.4 GHz radio", "M.2 slot", "H.264 video")),
    ],
)
def test_a_heading_loses_the_number_of_its_section(heading: str, title: str) -> None:
    node = node_of(chunk("The HX200 pumps.", title="Manual", path=("Manual", heading)))
    assert node.titles == ("Manual", title)
    assert node_of(chunk("", title=heading, path=(heading,))).titles[:1] == (without_parenthesis(heading),)
    assert node_of(chunk(""), titles=[heading]).titles == (without_parenthesis(heading),)


def test_a_title_that_was_given_is_no_keyword_with_or_without_its_parenthesis() -> None:
    given = node_of(chunk("text"), titles=["Pump (device)"], keywords=["Pump (device)", "pump", "seal"])
    assert (given.titles, given.keywords) == (("Pump",), ("seal",))
    printed = chunk("text", title="Pump (device)", path=("Pump (device)", "3.1 Seal (shaft)"))
    titles = ["Pump (device)", "3.1 Seal", "Seal", "Seal (shaft)", "3.1 Seal (shaft)"]
    assert node_of(printed, keywords=titles).keywords == ()


def test_titles_that_were_given_take_the_place_of_the_printed_ones() -> None:
    node = node_of(chunk("text", title="Manual"), titles=["Manual of the Pump", "manual of the pump", "!"])
    assert node.titles == ("Manual of the Pump",)
    assert node_of(chunk("")) == Node(chunk=chunk(""))
    assert pickle.loads(pickle.dumps(node)) == node


@pytest.mark.slow
def test_no_term_depends_on_a_hash_seed() -> None:
    code = (
        "from catena.text.phrases import keywords_of\nfrom catena.text.phrases import names_in\n"
        f"text = {BANKER!r} + ' The shaft seal and the Shaft, of HX-200. 軸封必須潤滑。先拆下軸封。'\n"
        "print(keywords_of(text, but=['London', 'Bank']), names_in(text, titles=['Baring (bank)']))"
    )
    assert len(printed_under_hash_seeds(code)) == 1


# kinds of edge


def test_a_cap_is_a_number_of_nodes_or_a_share_of_them() -> None:
    assert replace(NAMES, cap=7).limit(1_000_000) == 7
    assert replace(NAMES, cap=0.01).limit(1_000) == 10
    assert replace(NAMES, cap=0.01).limit(10) == 2  # a term of one node joins nothing


def test_rarity_by_hand() -> None:
    assert rarity(np.array([1, 10, 10_000]), 9_999) == pytest.approx([1.0, 0.75, 0.0])
    assert rarity(np.array([2]), 2)[0] == pytest.approx(1 - np.log(2) / np.log(3))  # two nodes that share a name


def test_the_identity_of_a_kind_names_all_that_decides_its_edges() -> None:
    changes = {"name": "x", "of": keywords_of_node, "more_than": 1, "weight": "count", "cap": 3, "version": 2}
    assert len({NAMES.identity, *(replace(NAMES, **{k: v}).identity for k, v in changes.items())}) == 7


@pytest.mark.parametrize(
    "change",
    [
        *({"name": name} for name in (" ", "structural", "mentioned")),
        *({"more_than": -1}, {"cap": 1}, {"cap": 0.0}, {"cap": 1.5}),
    ],
)
def test_wrong_kinds_of_edge_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        TermEdges(**{"name": "mine", "of": names_of_node, **change})  # type: ignore[arg-type]
