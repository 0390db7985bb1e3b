"""What a hit of a report shows before it is opened, and what is said when no word of the question is anywhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from catena_view.report.ranking import preview_of

ROWS = "\n".join(f"| P{number} | {number}.5 N·m |" for number in range(1, 9))
TABLE = f"# Torques\n\nTighten by hand first.\n\n| Part | Torque |\n| --- | --- |\n{ROWS}\n| Cover bolt | 24 N·m |\n"
MUCH = "Nothing here matters much. " * 30
LONG = f"Nothing here needs a torque. {MUCH}The foot bolts need 18 N·m each. " + "Oil it once a year. " * 30


def test_of_a_table_the_rows_that_match_are_shown() -> None:
    shown = preview_of(TABLE, "Which torque has the bolt of the cover?")
    assert shown.header == ("Part", "Torque")
    assert shown.rows == (("Cover bolt", "24 N·m"),)
    assert (shown.more, shown.text) == (8, "Tighten by hand first.")


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
