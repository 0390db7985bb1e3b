"""Segmentation without a language model: dissimilarities by hand, the best breaks against brute force, real texts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_structure_outline import document
from test_structure_segmentation import check_chunks, check_tiles

from catena.effects import Services, run
from catena.enrichment import StaticEmbedder
from catena.model import MissingServiceError, ParameterError, ServiceError
from catena.structure import Under, blocks_of, outline, segment_by_embedding
from catena.structure.embedding_segmentation import EmbeddingOptions, best_breaks, depths, dissimilarities, text_units
from catena.structure.segment_tree import Segmentation, SpanToDivide
from catena.testing import FakeEmbedder, Flaky
from catena.testing.fakes import AngleEmbedder
from catena.testing.strategies import texts


def segmented(text: str, embedder: object | None = None, **options: object) -> Segmentation:
    step = segment_by_embedding(document(text), EmbeddingOptions(**options))  # type: ignore[arg-type]
    return run(step, Services(embedder=embedder or FakeEmbedder()))  # type: ignore[arg-type]


# Dissimilarity, by hand.


def angles(*degrees: float) -> np.ndarray:
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


def test_dissimilarity_by_hand_and_a_side_without_direction_is_unlike_nothing():
    assert dissimilarities(angles(0, 90, 90, 180), reach=1) == pytest.approx([1.0, 0.0, 1.0], abs=1e-6)
    # reach 2: 0 | 90 90; 0 90 | 90 180; 90 90 | 180. The sums of 0 and 90 point to 45, of 90 and 180 to 135.
    assert dissimilarities(angles(0, 90, 90, 180), reach=2) == pytest.approx([1.0, 1.0, 1.0], abs=1e-6)
    rows = np.array([[1, 0], [0, 0], [-1, 0], [1, 0]], dtype=np.float32)
    assert dissimilarities(rows, reach=1).tolist() == [0.0, 0.0, 2.0]
    assert dissimilarities(rows[:1], reach=3).tolist() == dissimilarities(rows[:0], reach=3).tolist() == []
    with pytest.raises(ParameterError, match="reach must be at least 1 unit, got 0"):
        dissimilarities(rows, reach=0)


def test_depth_is_measured_to_where_the_fall_ends_on_both_sides():
    """0.2 rises to 0.5 and 0.9, falls to 0.3, rises to 0.4."""
    found = depths(np.array([0.2, 0.5, 0.9, 0.3, 0.4]))
    assert found == pytest.approx([0.0, 0.3, 0.7 + 0.6, 0.0, 0.1])
    assert depths(np.full(4, 0.7)).tolist() == [0.0] * 4
    assert depths(np.zeros(0)).tolist() == []


@given(st.lists(st.floats(0, 2), max_size=12))
def test_depth_is_that_of_the_definition(unlike: list[float]) -> None:
    def fallen(values: list[float]) -> float:
        steps = itertools.takewhile(lambda pair: pair[1] <= pair[0], itertools.pairwise(values))
        return min(itertools.chain(values[:1], (after for _, after in steps)))

    expected = [2 * d - fallen(unlike[: i + 1][::-1]) - fallen(unlike[i:]) for i, d in enumerate(unlike)]
    assert depths(np.array(unlike, dtype=np.float64)) == pytest.approx(expected)


def test_borders_of_long_texts_are_compared_in_blocks_as_if_at_once():
    rows = np.random.default_rng(0).standard_normal((5_000, 3)).astype(np.float32)
    found = dissimilarities(rows, reach=4)
    for i in (1, 3, 2047, 2048, 2049, 2050, 4097, 4999):
        before, after = rows[max(0, i - 4) : i].sum(axis=0), rows[i : i + 4].sum(axis=0)
        expected = 1 - before @ after / np.linalg.norm(before) / np.linalg.norm(after)
        assert found[i - 1] == pytest.approx(float(expected), abs=1e-5)


# Breaks.


def test_the_best_breaks_of_a_small_case_by_hand():
    """Units of 1, runs of 2 to 3: of 6 units 2+2+2 (gain 1 + 1), 3+3 (5); of 5 units 2+3 (1) or 3+2 (5)."""
    assert best_breaks([9.0, 1.0, 5.0, 1.0, 9.0], [1] * 6, shortest=2, longest=3) == [3]
    assert best_breaks([9.0, 3.0, 5.0, 3.0, 9.0], [1] * 6, shortest=2, longest=3) == [2, 4]
    assert best_breaks([9.0, 1.0, 5.0, 9.0], [1] * 5, shortest=2, longest=3) == [3]
    for gains, sizes, limits, breaks in (  # limits go before gains, and the longest before the shortest
        ([-5.0] * 5, [1] * 6, (0, 6), []), ([-5.0, -4.0, -5.0], [1] * 4, (1, 3), [2]), ([5.0], [1, 1], (2, 2), []),
        ([1.0, 1.0], [1, 9, 1], (2, 4), [1, 2]),  # a table alone, and what is beside it
        ([5.0], [1, 1], (1, 1), [1]), ([], [3], (1, 1), []), ([], [], (1, 1), []),
        ([0.0, 0.0, 0.0], [1] * 4, (1, 2), [2]),  # equal: the longer run at the end
    ):  # fmt: skip
        assert best_breaks(gains, sizes, shortest=limits[0], longest=limits[1]) == breaks


def value(breaks, gains: Sequence[int], sizes: Sequence[int], limits: tuple[int, int]) -> tuple[int, int] | None:
    runs = list(itertools.pairwise([0, *breaks, len(sizes)]))
    lengths = [(sum(sizes[a:b]), b - a) for a, b in runs]
    if any(length > limits[1] and units > 1 for length, units in lengths):
        return None
    return -sum(length < limits[0] for length, _ in lengths), sum(gains[b - 1] for b in breaks)


cases = st.integers(1, 8).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-8, 8), min_size=n - 1, max_size=n - 1),
        st.lists(st.integers(0, 6), min_size=n, max_size=n),
        st.integers(0, 12),
        st.integers(0, 12),
    )
)


@given(cases)
def test_the_programme_finds_what_brute_force_finds(case: tuple[list[int], list[int], int, int]) -> None:
    gains, sizes, low, more = case
    limits = (low, low + more)
    every = {
        breaks: found
        for count in range(len(sizes))
        for breaks in itertools.combinations(range(1, len(sizes)), count)
        if (found := value(breaks, gains, sizes, limits)) is not None
    }
    best = max(every.values())
    equals = [breaks for breaks, found in every.items() if found == best]
    found = best_breaks([gain / 4 for gain in gains], sizes, shortest=limits[0], longest=limits[1])
    assert tuple(found) == min(equals, key=lambda breaks: (*breaks[::-1], 0))


def test_breaks_that_make_no_sense_are_refused_and_a_long_text_takes_one_pass():
    with pytest.raises(ParameterError, match="one per border between 3 units"):
        best_breaks([1.0], [1, 1, 1], shortest=1, longest=2)
    for refused in (EmbeddingOptions, partial(best_breaks, [], [1])):
        with pytest.raises(ParameterError, match="0 <= shortest <= longest"):
            refused(shortest=3, longest=2)
    gains = np.sin(np.arange(99_999)).tolist()  # quadratic work on 100,000 units would not end
    breaks = best_breaks(gains, [1] * 100_000, shortest=100, longest=50_000)
    assert all(100 <= b - a <= 50_000 for a, b in itertools.pairwise([0, *breaks, 100_000]))


# Whole documents.


def angled(*degrees: int) -> str:
    return "".join(f"The angle here is {degree} of a circle. \n\n" for degree in degrees)


def test_breaks_come_where_the_direction_turns_and_a_heading_begins_a_section_and_lends_its_title():
    text, limits = angled(*[0] * 6, *[90] * 9, *[180] * 5), {"shortest": 100, "reach": 2, "unit_tokens": 9}
    found = segmented(text, AngleEmbedder(), longest=2000, **limits)
    assert [round(section.start * 20 / len(text)) for section in found.sections] == [0, 6, 15]
    assert found.sections[0].title == "The angle here is 0 of a circle."
    assert (found.generated, found.repairs, found.degraded) == ({0, 1, 2}, (), ())
    text = f"{angled(*[0] * 6)}## Turning\n\n{angled(*[0] * 6)}"
    found = segmented(text, AngleEmbedder(), longest=300, **limits)
    (printed,) = [section for section in found.sections if section.position not in found.generated]
    assert (printed.title, text[printed.body_start :][:10]) == ("Turning", "\nThe angle")
    text = f"# One\n\nShort.\n\n# Two\n\n{angled(*[0] * 6, *[90] * 6)}"
    found = segmented(text, AngleEmbedder(), under="headings", longest_leaf=100, **limits)
    placed = [(section.path[0], section.parent) for section in found.sections]
    assert placed == [("One", None), ("Two", None), ("Two", 1), ("Two", 1)]
    assert segmented(text, AngleEmbedder(), under="headings").sections == outline(document(text))


def test_borders_stand_at_paragraph_ends_where_they_can():
    """The direction turns one sentence before the paragraph ends."""
    sentence = "The angle here is {} of a circle. "
    text = f"{sentence.format(0) * 8}{sentence.format(90)}\n\n{sentence.format(90) * 8}\n"
    limits = {"shortest": 100, "longest": 1000, "reach": 1, "unit_tokens": 9}
    for gain, border in ((0.0, text.index(sentence.format(90))), (9.0, text.index("\n\n") + 2)):
        found = segmented(text, AngleEmbedder(), inside_paragraph=gain, **limits)
        assert [section.start for section in found.sections] == [0, border]


def test_units_hold_headings_with_their_text_and_tables_whole():
    table = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 40
    text = f"# One\n\nShort.\n\nShort, too.\n\n{table}\n{'It is a sentence. ' * 20}\n"
    blocks = blocks_of(document(text))
    headings = {block.start: block for block in blocks if block.kind == "heading"}
    found = text_units(text, SpanToDivide(0, len(text), 0), blocks, headings, 30)
    parts = [text[unit.start : unit.end] for unit in found]
    assert ("".join(parts), parts[:2]) == (text, ["# One\n\nShort.\n\nShort, too.\n\n", f"{table}\n"])
    borders = ["heading", "paragraph", "paragraph", *["inside"] * (len(found) - 3)]
    assert [unit.border for unit in found] == borders


@given(texts(30), st.booleans(), st.sampled_from(["document", "headings"]), st.integers(1, 80))
def test_sections_tile_whatever_the_limits(text: str, plain: bool, under: Under, longest: int) -> None:
    source = document(text, "text/plain" if plain else "text/markdown")
    options = EmbeddingOptions(shortest=longest // 4, longest=longest, unit_tokens=4, under=under, longest_leaf=20)
    found = run(segment_by_embedding(source, options), Services(embedder=FakeEmbedder(8)))
    check_tiles(text, found.sections)
    check_chunks(source, found.sections)
    again = segment_by_embedding(source, options, blocks=blocks_of(source))
    assert found == run(again, Services(embedder=FakeEmbedder(8)))


def test_texts_without_words_are_whole_others_are_sent_in_bounded_requests_and_failures_are_raised():
    assert segmented("").sections == ()
    found = [section for text in (" \n", "Just this.") for section in segmented(text).sections]
    assert [(section.level, section.title) for section in found] == [(0, ""), (1, "Just this.")]
    embedder = FakeEmbedder(4)
    segmented("".join(f"Paragraph {n} is about {n}.\n\n" for n in range(700)), embedder, unit_tokens=8)
    assert [len(call) for call in embedder.calls] == [256, 256, 188]
    with pytest.raises(ServiceError, match="out of order"):
        segmented("Some text.", Flaky(FakeEmbedder(), [ServiceError("fake", "out of order")]))
    with pytest.raises(MissingServiceError):
        run(segment_by_embedding(document("Some text.")), Services())


# With the embedder that ships.


def window_difference(reference: np.ndarray, found: np.ndarray) -> float:
    """Return WindowDiff of two rows of border flags, with k = half the mean length of a reference segment."""
    k = max(2, round(len(reference) / (2 * (reference.sum() + 1))))
    inside = [np.convolve(flags, np.ones(k), "valid") for flags in (reference, found)]
    return float(np.mean(inside[0] != inside[1]))


TOPICS = (
    "onion garlic butter oven flour simmer pan sauce pepper dough bake knife soup salt stir recipe",
    "telescope galaxy star orbit planet comet nebula light spectrum dust moon gravity supernova sky",
    "court judge contract plaintiff statute appeal clause liability verdict lawyer damages hearing evidence",
    "goal striker referee penalty league coach midfield match pass stadium defender corner season kick",
    "soil seed prune compost root bloom weed shrub mulch water leaf rake harvest tulip lawn pot",
    "compiler thread memory kernel cache pointer loop server stack function disk register bug socket",
)


def drawn(seed: int) -> tuple[str, list[int]]:
    """Return paragraphs about one topic after the other, and where each topic begins."""
    random, text, starts = Random(seed), "", []
    for words in random.sample([topic.split() for topic in TOPICS], len(TOPICS)):
        starts.append(len(text))
        for _ in range(random.randint(4, 12)):
            sentences = ["The {} and the {} come before the {}, not the {}.".format(*random.sample(words, 4))] * 3
            text += " ".join(sentences) + "\n\n"
    return text, starts


def test_changes_of_subject_are_found_with_the_shipped_embedder():
    """WindowDiff is below .1 on the mean of 20 drawn texts; that of borders at even distances is above .3."""
    embedder, ours, even = StaticEmbedder(), [], []
    for seed in range(20):
        text, starts = drawn(seed)
        found = segmented(text, embedder).sections
        lines = np.array([offset for offset, mark in enumerate(text, start=1) if mark == "\n"])

        def flags(borders: Sequence[float], lines: np.ndarray = lines) -> np.ndarray:
            inner = [border for border in borders if border > 0]
            return np.isin(np.arange(len(lines)), np.searchsorted(lines, inner))

        ours.append(window_difference(flags(starts), flags([section.start for section in found])))
        spread = [len(text) * n / len(found) for n in range(len(found))]
        even.append(window_difference(flags(starts), flags(spread)))
    assert np.mean(ours) < 0.1
    assert np.mean(even) > 0.3
