"""The fidelity benchmark: kinds of damage, harmless kinds, and its figures."""

from __future__ import annotations

import pytest

from catena.formatting import fidelity
from catena.model import ParameterError
from catena_bench import fidelity as bench
from catena_bench.damaged_answers import Window, blocks_of, damages, kind_of, text_of
from catena_bench.harmless_answers import harmless_kinds, layout_text
from catena_bench.synthetic_manuals import manual_markdown

RULES = "Copy every number and every unit of the window exactly as it is printed there."


@pytest.fixture(scope="module")
def windows() -> list[Window]:
    texts = [manual_markdown(seed, numbered=True, words=400) for seed in range(40, 44)]
    return [
        Window(source=layout_text(text), answer=text, foreign=texts[i - 1], rules=RULES, document=i)
        for i, text in enumerate(texts)
    ]


def test_there_are_enough_kinds_and_their_names_are_unique() -> None:
    names = [damage.name for damage in damages()]
    assert len(names) == len(set(names)) >= 200
    assert len(harmless_kinds()) == len({kind.name for kind in harmless_kinds()}) >= 30


def test_blocks_tile_an_answer() -> None:
    text = "# A\n\npara\n\n```c\nx\n\ny\n```\n\n| a |\n|---|\n| b |\n\n- i\n- j\n\nTable 3. Values\n"
    assert [kind_of(block) for block in blocks_of(text)] == [
        "heading",
        "paragraph",
        "code",
        "table",
        "list",
        "caption",
    ]
    assert text_of(blocks_of(text)) == text


def test_layout_text_has_the_words_and_no_marks() -> None:
    text = (
        "# 1 A **b**\n\n| Part | Limit |\n|---|---|\n| Valve | 3 N |\n\n- `code` [link](https://x.y)\n\nlong words\n"
    )
    assert layout_text(text, width=6) == "1 A b\nPart   Limit\nValve   3 N\n• code\nlink\nlong\nwords"


def test_damages_change_the_answer_and_are_the_same_again(windows: list[Window]) -> None:
    applied = 0
    for damage in damages():
        for window in windows[:2]:
            answer = damage.applied(window, 7)
            assert answer == damage.applied(window, 7)
            if answer is not None:
                applied += 1
                assert answer.split() != window.answer.split()
    assert applied >= 400


def test_nearly_every_damage_is_seen_and_no_harmless_kind_is_blamed(windows: list[Window]) -> None:
    found = list(bench.trials(windows, per_kind=1, options=bench.DEFAULTS))
    missed = sorted({trial.name for trial in found if not trial.harmless and trial.judged.faithful})
    blamed = sorted({trial.name for trial in found if trial.harmless and not trial.judged.faithful})
    assert len(missed) <= 0.05 * len(damages())
    assert blamed == []


def test_windows_of_a_text_tile_it() -> None:
    text = manual_markdown(50, numbered=False, words=900)
    source = layout_text(text)
    parts = list(bench.divided(source, text, words=200))
    assert len(parts) > 2
    assert "\n".join(part for part, _ in parts) == source
    assert [block for _, answer in parts for block in blocks_of(answer)] == blocks_of(text)
    assert all(fidelity(*part).faithful for part in parts)


def test_figures_are_flat_and_count_both_halves(tmp_path, monkeypatch, windows: list[Window]) -> None:
    monkeypatch.setattr(bench, "generated_windows", lambda: iter(windows))
    for number in range(3):
        folder = tmp_path / "docs" / str(number)
        folder.mkdir(parents=True)
        (folder / "manual.md").write_text(manual_markdown(60 + number, numbered=False, words=300), encoding="utf-8")
    told: list[str] = []
    figures = bench.run(tmp_path, per_kind=1, tell=told.append)
    assert figures["windows"] == len(windows) + 3
    assert figures["kinds"] >= 200
    assert {"detected", "false_alarms", "detected.table", "tuning.detected", "n.detected.table"} <= set(figures)
    assert figures["detected"] == pytest.approx(
        sum(value * figures[f"n.{name}"] for name, value in figures.items() if name.startswith("detected."))
        / figures["n.detected"]
    )
    assert all(line.startswith(("tuning: ", "held out: ")) for line in told)


def test_a_folder_without_markdown_is_named(tmp_path) -> None:
    with pytest.raises(ParameterError, match="Markdown"):
        list(bench.real_windows(tmp_path))
