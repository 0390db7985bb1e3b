"""The parts of the LLM formatter: alignment, borders between pieces, levels of headings; by hand and as laws."""

from __future__ import annotations

import pytest
from case_files import cases_of
from hypothesis import given
from hypothesis import strategies as st

from catena.formatting import align, atom_keys, atoms_of, flat
from catena.formatting.llm_markdown import heading_lines, with_levels
from catena.formatting.source import NoBorder, Stretch, piece_of, stitch

WORDS = st.lists(st.sampled_from(["the", "pump", "turns", "at", "40", "rpm", "and", "stops"]), max_size=60)


def keys(text: str) -> list[str]:
    return atom_keys(text, tuple(atoms_of(text)))


# Alignment


@pytest.mark.parametrize(
    ("source", "target", "places"),
    [
        ("a b c d", "a b c d", [0, 1, 2, 3]),
        ("a b c d", "a x c d", [0, -1, 2, 3]),
        ("a b c d e f g h", "a b f g h", [0, 1, 5, 6, 7]),
        ("a b c", "z a b c", [-1, 0, 1, 2]),
        ("p q r s t u v", "s t u v p q r", [3, 4, 5, 6, 0, 1, 2]),  # moved words are found, too
        ("", "a", [-1]),
        ("a", "", []),
        ("ﬁt ÄHNLICH", "fit ähnlich", [0, 1]),
    ],
)
def test_words_and_their_counterparts(source, target, places):
    assert align(keys(source), keys(target)).here == places


@given(WORDS, st.data())
def test_cuts_part_the_words_as_they_part_the_source(source, data):
    target = (
        data.draw(st.permutations(source)) if data.draw(st.booleans()) else source[: data.draw(st.integers(0, 60))]
    )
    piece = piece_of(" ".join(target), source, 0, len(source))
    cuts = [(place, piece.cut_at(place)) for place in range(len(source) + 1) if piece.cut_at(place) >= 0]
    for place, atom in cuts:
        assert all(other < place for other in piece.places[:atom])
        assert all(other >= place or other < 0 for other in piece.places[atom:])
    assert [atom for _, atom in cuts] == sorted(atom for _, atom in cuts)


# Borders


def stitched(source: str, *parts: tuple[str, int, int, int, int], reach: int = 10):
    """Each part: its Markdown, the words it covers, the words it stands for."""
    spans = tuple(atoms_of(source))
    ends = [0, *(end for _, end in spans)]
    gaps = [source[end:start] for end, (start, _) in zip(ends, spans, strict=False)]
    pieces = [
        Stretch(piece=piece_of(text, keys(source), low, high), start=start, end=end)
        for text, low, high, start, end in parts
    ]
    return stitch(pieces, gaps, reach=reach)


def test_a_border_lies_where_both_agree_not_where_one_is_wrong():
    source = "a b c d e f g h"
    joined = stitched(source, ("a b\n\n# c d e\n\nf", 0, 6, 0, 4), ("c d e\n\nf\n\ng h", 2, 8, 4, 8))
    assert joined.text == "a b\n\n# c d e\n\nf\n\ng h"
    assert joined.places == tuple(range(8))


def test_a_row_of_a_table_is_cut_between_cells_if_need_be_and_mixed_words_have_no_border():
    joined = stitched("a b c d", ("| a | b |\n| --- | --- |\n| c |", 0, 3, 0, 3), ("| b |\n| c | d |", 1, 4, 3, 4))
    assert joined.text.split() == ["|", "a", "|", "b", "|", "|", "---", "|", "---", "|", "|", "c", "|", "d", "|"]
    found = stitched("a b c d", ("d c b a", 0, 4, 0, 2), ("d c b a", 0, 4, 2, 4), reach=1)
    assert found == NoBorder((2,))


@given(WORDS.filter(lambda words: len(words) > 3), st.data())
def test_joined_windows_of_a_true_text_are_the_text(words, data):
    size, padding = len(words), data.draw(st.integers(1, 8))
    border = data.draw(st.integers(1, size - 1))
    low, high = max(0, border - padding), min(size, border + padding)
    left, right = (" ".join(words[:high]), 0, high, 0, border), (" ".join(words[low:]), low, size, border, size)
    assert stitched(" ".join(words), left, right).text == " ".join(words)


# Levels


@pytest.mark.parametrize(("written", "printed", "levelled"), cases_of("cases_levels.txt"))
def test_levels_come_from_numbers_then_from_the_layout_then_from_marks(written, printed, levelled):
    assert with_levels(written, printed) == levelled


@given(
    st.lists(st.sampled_from(["# 1 A", "## 1.1 B", "# C", "text", "```", "# 2 D", "", "#### 2.1.1 E"]), max_size=12)
)
def test_nothing_but_marks_of_headings_changes(lines):
    text = "\n".join(lines)
    for made in (with_levels(text), flat(text), with_levels(text, text)):
        assert made.replace("#", "") == text.replace("#", "")
        assert [heading.title for heading in heading_lines(made)] == [
            heading.title for heading in heading_lines(text)
        ]
