"""The fidelity benchmark: kinds of damage, harmless kinds, and its figures."""

from __future__ import annotations

import pytest

from catena_bench import fidelity as bench
from catena_bench.damaged_answers import AnswerWindow, damages
from catena_bench.fidelity import harmless_kinds, layout_text
from catena_bench.synthetic_manuals import manual_markdown

RULES = "Copy every number and every unit of the window exactly as it is printed there."


@pytest.fixture(scope="module")
def windows() -> list[AnswerWindow]:
    texts = [manual_markdown(seed, numbered=True, words=400) for seed in range(40, 44)]
    return [
        AnswerWindow(source=layout_text(text), answer=text, foreign=texts[i - 1], rules=RULES, document=i)
        for i, text in enumerate(texts)
    ]


def test_damages_change_the_answer_and_are_the_same_again(windows: list[AnswerWindow]) -> None:
    names = [damage.name for damage in damages()]
    assert len(names) == len(set(names)) >= 200
    assert len(harmless_kinds()) == len({kind.name for kind in harmless_kinds()}) >= 30
    applied = 0
    for damage in damages():
        for window in windows[:2]:
            damaged = damage.applied(window, 7)
            assert damaged == damage.applied(window, 7)
            if damaged is not None:
                applied += 1
                assert damaged.answer.split() != window.answer.split()
    assert applied >= 400


@pytest.mark.slow
def test_nearly_every_damage_is_seen_and_no_harmless_kind_is_blamed(windows: list[AnswerWindow]) -> None:
    found = list(bench.trials(windows, per_kind=1))
    missed = sorted({trial.name for trial in found if not trial.harmless and trial.judged.faithful})
    blamed = sorted({trial.name for trial in found if trial.harmless and not trial.judged.faithful})
    assert len(missed) <= 0.05 * len(damages())
    assert blamed == []


@pytest.mark.slow
def test_figures_are_flat_and_count_both_halves(tmp_path, monkeypatch, windows: list[AnswerWindow]) -> None:
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
