"""The ablation bench on a collection made here: what each row indexes, and what the comparison says of known rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catena.library import prepare
from catena.model import Document, Entry, ParameterError
from catena_bench.ablation import PAIRS, VARIANTS, AblationRow, compared, run, tabled

TEXT = """# Board HX210

## Hardware

The clock runs at 12 MHz.

## Wiring

Use the red wire.
"""


def entry() -> Entry:
    return prepare(Document(id="d", text=TEXT))


def indexed(variant: str) -> list[str]:
    return [view.text for view in VARIANTS[variant](entry()).views if view.kind == "headed"]


def test_each_row_indexes_what_it_says() -> None:
    assert indexed("full") == [
        "Board HX210 › Hardware\nThe clock runs at 12 MHz.", "Board HX210 › Wiring\nUse the red wire."
    ]  # fmt: skip
    assert indexed("no_cascade") == ["Hardware\nThe clock runs at 12 MHz.", "Wiring\nUse the red wire."]
    assert indexed("no_metadata") == ["The clock runs at 12 MHz.", "Use the red wire."]
    assert " ".join(indexed("fixed")).split() == TEXT.split()
    assert " ".join(indexed("fixed_untitled")).split() == TEXT.partition("\n")[2].split()


def test_only_the_full_row_has_the_document_s_title_as_a_term() -> None:
    def carried(variant: str) -> list[bool]:
        return ["hx210" in terms for terms in VARIANTS[variant](entry()).terms]

    assert carried("full") == [True, True]
    assert carried("no_cascade") == carried("no_metadata") == [False, False]
    assert carried("fixed")[0], "the words of the title's line are words of that run"
    assert not any(carried("fixed_untitled"))


def rows(means: dict[str, float]) -> dict[str, AblationRow]:
    """Every row as given for each of 30 questions; those without a value are equal to "full"."""
    names = {name for pair in PAIRS for name in pair}
    made = {}
    for name in (*names, *(f"{name}_words" for name in names)):
        value = means.get(name.removesuffix("_words"), means["full"])
        values = {f"q{number}": value for number in range(30)}
        made[name] = AblationRow(log_rank=values, recall=values)
    return made


def test_the_order_of_the_paper_is_recognised() -> None:
    figures = compared(rows({"full": 0.98, "no_cascade": 0.97, "no_metadata": 0.95, "fixed": 0.92}))
    assert figures["order.holds"] == figures["order.significant"] == 1.0
    assert figures["order_words.holds"] == 1.0
    assert figures["difference.full-no_cascade"] == pytest.approx(0.01)
    assert figures["p.full-no_cascade"] < 0.01
    made = rows({"full": 0.9, "no_cascade": 0.8, "no_metadata": 0.7, "fixed": 0.6})
    shown = tabled({"x": AblationRow(log_rank={"p": 0.2, "q": 0.6}, recall={"p": 0.0, "q": 1.0})})
    expected = {"lri.max.x": 0.6, "lri.min.x": 0.2, "lri.std.x": 0.2, "lri.mean.x": 0.4, "recall.mean.x": 0.5}
    assert {key: shown[key] for key in expected} == pytest.approx(expected)
    few = compared({name: AblationRow(log_rank={"q": row.log_rank["q0"]}, recall={}) for name, row in made.items()})
    assert (few["order.holds"], few["order.significant"]) == (1.0, 0.0)


@pytest.mark.slow
def test_the_bench_runs_with_one_n(boards: Path) -> None:
    figures = run(boards)
    sizes = [figures[f"n_chunks.{name}"] for name in VARIANTS]
    assert figures["n"] == max(sizes)
    assert figures["n_judged"] == 4
    assert figures["recall.mean.full"] == 1.0
    assert {f"lri.mean.{name}_words" for name in VARIANTS} | {"lri.mean.vector_only"} <= set(figures)
    assert all(isinstance(value, int | float) for value in figures.values())
    json.dumps(figures)


def test_questions_without_any_answer_are_refused(boards: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(boards / "docs")
    for name in ("documents.json", "sections.jsonl"):
        (tmp_path / name).write_text((boards / name).read_text())
    (tmp_path / "questions.jsonl").write_text('{"qid": "q", "question": "Which?", "gold": []}\n')
    with pytest.raises(ParameterError, match="some that have an answer"):
        run(tmp_path)
