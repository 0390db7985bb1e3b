"""What a hit of a report shows before it is opened, and what is said when no word of the question is anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import catena
from catena_view.report import report
from catena_view.report.ranking import preview_of

ROWS = "\n".join(f"| P{number} | {number}.5 N·m |" for number in range(1, 9))
TABLE = f"# Torques\n\nTighten by hand first.\n\n| Part | Torque |\n| --- | --- |\n{ROWS}\n| Cover bolt | 24 N·m |\n"
LONG = "Nothing here matters much. " * 30 + "The foot bolts need 18 N·m each. " + "Oil it once a year. " * 30


def test_of_a_table_the_rows_that_match_are_shown() -> None:
    shown = preview_of(TABLE, "Which torque has the bolt of the cover?")
    assert shown.header == ("Part", "Torque")
    assert shown.rows == (("Cover bolt", "24 N·m"),)
    assert (shown.more, shown.text) == (8, "Tighten by hand first.")


def test_of_a_table_that_says_nothing_of_the_question_the_first_rows_are_shown() -> None:
    shown = preview_of(TABLE, "How heavy is it?")
    assert shown.rows == (("P1", "1.5 N·m"), ("P2", "2.5 N·m"), ("P3", "3.5 N·m"))
    assert shown.more == 6


def test_of_several_tables_the_one_that_says_most_is_shown() -> None:
    other = "| Colour | Code |\n| --- | --- |\n| Red | 3 |\n\n"
    assert preview_of(other + TABLE, "torque of the cover").header == ("Part", "Torque")
    assert preview_of(other + TABLE, "Which code has red?").rows == (("Red", "3"),)


def test_of_a_long_text_the_part_that_matches_is_shown_from_its_sentence_on() -> None:
    shown = preview_of(LONG, "What torque do the foot bolts need?").text
    assert "The foot bolts need 18 N·m each." in shown
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert preview_of(LONG, "What is asdf?").text.startswith("Nothing here")


def test_a_short_text_is_shown_whole_but_for_its_headings() -> None:
    assert preview_of("# Fuse\n\n## Rating\n\n250 mA.\n", "rating").text == "250 mA."
    assert preview_of("# Fuse\n", "fuse").text == "# Fuse"
    assert preview_of("| no table, a pipe\n", "pipe").text == "| no table, a pipe"


@given(st.text(max_size=900), st.text(max_size=30))
def test_any_text_has_a_preview_that_invents_nothing(text: str, question: str) -> None:
    shown = preview_of(text, question)
    assert len(shown.text) <= 364
    assert shown.text.removeprefix("… ").removesuffix(" …") in text or "|" in text
    assert all(cell in text.replace("\\|", "|") for row in shown.rows for cell in row)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shelf")
    (folder / "hx210.md").write_text(f"# HX210 manual\n\n## Care\n\n{LONG}\n\n{TABLE}", encoding="utf-8")
    with catena.Library.open(folder / "lib") as library:
        library.index(folder / "hx210.md")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "is_said"),
    [
        ("asdf qwer zxcv", True),
        ("What is the asdf of the qwer?", True),  # "is", "the" and "of" stand there
        ("What about asdf and oil?", False),
        ("hx210 asdf", False),
        ("What is it?", False),  # nothing but small words
    ],
)
def test_a_question_none_of_whose_words_is_there_is_said(shelf: Path, question: str, is_said: bool) -> None:
    with catena.Library.open(shelf / "lib", create=False) as library:
        made = report(library, question).contents.ranking
    assert made.hits
    assert ("None of the question's words stands" in made.notice) == is_said
