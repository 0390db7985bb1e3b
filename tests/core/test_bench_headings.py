"""The headings benchmark: how titles are matched, and that it accepts any folder."""

from __future__ import annotations

import itertools

import pytest

from catena_bench import headings
from catena_bench.generated_pdfs import Heading, generated_pdfs
from catena_bench.headings import Counts, compare, run, score_generated


@pytest.fixture(scope="module")
def manuals():
    return list(itertools.islice(generated_pdfs(), 3))


def test_titles_match_without_case_number_and_marks_on_neighbouring_pages() -> None:
    truth = [("1 Safety", 1, 1), ("A References", 1, 9), ("Terms", 2, 3), ("Lost", 2, 4), ("Far", 2, 1)]
    found = [("SAFETY", 2, 2), ("Appendix A References", 2, 9), ("1.1 Terms!", 4, 3), ("Terms", 3, 7), ("Far", 3, 3)]
    counts = compare(*([Heading(level, text, page) for text, level, page in titles] for titles in (truth, found)))
    assert counts == Counts(truth=5, found=5, outlined=5, shared=3, level=2)
    metrics = {"recall.x": 3 / 5, "precision.x": 3 / 5, "precision_outlined.x": 3 / 5, "level_accuracy.x": 2 / 3}
    assert counts.metrics("x") == metrics


def test_deeper_headings_than_the_outline_do_not_count_against_the_outlined_precision() -> None:
    counts = compare([Heading(1, "Use", 1)], [Heading(2, "Use", 1), Heading(3, "Deep", 1), Heading(1, "Document", 1)])
    assert (counts.found, counts.outlined) == (3, 1)


def test_headings_of_generated_pdfs_are_found_with_their_levels(manuals) -> None:
    for manual in manuals:
        counts = score_generated(manual)
        assert counts.shared >= 0.98 * max(counts.truth, counts.found)
        assert counts.level == counts.shared


@pytest.mark.slow
def test_real_files_are_found_in_a_folder_or_its_pdfs_and_the_rest_is_counted(tmp_path, monkeypatch, manuals) -> None:
    outlined = list(generated_pdfs())[-1]
    assert outlined.style.outline
    folder = tmp_path / "pdfs"
    folder.mkdir()
    (folder / "a.b.pdf").write_bytes(outlined.pdf)
    (folder / "plain.pdf").write_bytes(manuals[0].pdf)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4\n")
    monkeypatch.setattr(headings, "generated_pdfs", lambda: iter(manuals[:1]))
    results = run(tmp_path)
    assert results == run(folder)
    assert results["recall.generated_one_column"] == results["recall.a_b"] == results["recall.real_mean"] == 1.0
    counted = ("n_generated", "n_with_outline", "n_without_outline", "n_failed")
    assert [results[name] for name in counted] == [1, 1, 1, 1]
    assert all(0 <= value <= 1 for name, value in results.items() if not name.startswith("n_"))
