"""The pictures of benchmarks show the figures that were printed, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from catena_bench import cli
from catena_bench.pictures import DRAWN, PICTURES, VIEWS_DRAWN
from catena_bench.segments import BUDGETS, MEAN, USUAL
from catena_bench.views import BUDGETS as TOKENS

FIGURES = {
    "ablation": {
        "lri.mean.full": 0.963, "lri.low.full": 0.94, "lri.high.full": 0.98,
        "lri.mean.fixed_words": 0.713, "lri.low.fixed_words": 0.65, "lri.high.fixed_words": 0.77,
        "order.holds": 0.0, "n_chunks.full": 8514.0, "n_judged": 48.0,
    },
    "degradation": {
        "recall.full.1": 0.963, "recall.full.1.low": 0.94, "recall.full.1.high": 0.98,
        "recall.full.100": 0.913, "recall.full.100.low": 0.88, "recall.full.100.high": 0.97,
        "accuracy.full.1": 0.5, "n_judged": 96.0,
    },
    "calibration": {
        "bin.raw.00.predicted": 0.25, "bin.raw.00.observed": 0.125, "bin.raw.00.n": 8.0,
        "bin.raw.01.predicted": 0.75, "bin.raw.01.observed": 0.25, "bin.raw.01.n": 24.0, "ece.raw": 0.40625,
        "bin.labelled.00.predicted": 0.25, "bin.labelled.00.observed": 0.25, "bin.labelled.00.n": 32.0,
    },
    "segments": {
        "n.manuals": 12.0,
        **{f"recall.manuals.fused.{USUAL}.{name}.{budget}": 0.25 for name in DRAWN for budget in (*BUDGETS, MEAN)},
        f"recall.manuals.fused.{USUAL}.{DRAWN[-1]}.{MEAN}": 0.775,
    },
    "segment-speed": {
        f"milliseconds.{name}{end}": value
        for name, value in (("dense.greedy.1000", 2.0), ("dense.dsrag.1000", 50.0), ("sparse.optimal.5000", 7.0))
        for end in ("", ".low", ".high")
    },
    "similar-docs": {"recall.fused": 0.987, "recall.raw_bm25": 0.434, "recall.fused.field": 0.1, "n_judged": 610.0},
    "everyday": {
        "mean.default.t500": 0.625, "mean.default.r5": 0.1, "mean.dense.t500": 0.375, "tea.questions": 8.0,
        "tools.questions": 4.0,
    },
    "views": {
        "manual.n_questions": 12.0,
        **{
            f"manual.fused.{method}.tokens{budget}{end}": 25.0
            for method in VIEWS_DRAWN for budget in TOKENS for end in ("", ".low", ".high")
        },
        "manual.fused.default.tokens500": 87.5,
    },
}  # fmt: skip
SHOWN = {
    "ablation": ["0.963", "0.713", "full", "fixed_words", "N = 8,514", "does not hold"],
    "degradation": ["0.963", "0.913", "full", "n = 96"],
    "calibration": ["0.4062", "0.0000", "7 relevant of 32", "(8, 24)", "calibrated on the train split"],
    "segments": ["manuals", "topk_headers 0.250", "lent_headers 0.775", "recall of evidence"],
    "segment-speed": ["Catena, greedy 2.0", "dsRAG 50.0", "Catena, optimal 7.0", "at 5,000", "sparse"],
    "similar-docs": ["0.987", "0.434", "fused", "raw_bm25", "n = 610"],
    "everyday": ["0.625", "0.375", "dense", "n = 12", "evidence within 500 tokens"],
    "views": ["manual (12 questions)", "sections 25.0", "default 87.5", "tokens read", "percent"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PICTURES))
def test_every_figure_is_in_the_picture(name: str, tmp_path: Path) -> None:
    page = tmp_path / "picture.html"
    PICTURES[name](FIGURES[name], page)
    text = page.read_text(encoding="utf-8").replace("\\u003c", "<").replace("\\u003e", ">").replace("<br>", " ")
    assert [shown for shown in SHOWN[name] if shown not in text] == []
    assert "0.5 (" not in text
    picture = tmp_path / "picture.png"
    PICTURES[name](FIGURES[name], picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_command_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cli.BENCHMARKS, "degradation", lambda data, **_: dict(FIGURES["degradation"]))
    given = ["degradation", "--data", str(tmp_path), "--plot"]
    assert CliRunner().invoke(cli.app, [*given, str(tmp_path / "p.png")]).exit_code == 0
    assert (tmp_path / "p.png").stat().st_size > 1_000
    wrong = CliRunner().invoke(cli.app, [*given, str(tmp_path / "p.bmp")])
    assert (wrong.exit_code, ".bmp" in wrong.output) == (2, True)


def test_what_is_not_drawn_is_said_before_it_runs(tmp_path: Path) -> None:
    for option, path, told in (("--json", "none/f.json", "is not there"), ("--plot", "p.png", "are drawn")):
        wrong = CliRunner().invoke(cli.app, ["headings", option, str(tmp_path / path)])
        assert (wrong.exit_code, told in wrong.output) == (2, True)
