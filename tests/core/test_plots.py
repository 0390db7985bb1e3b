"""Every picture: its numbers stand in the caption, PNG and HTML are written whole, offline and the same each time."""

from __future__ import annotations

import re
import struct
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from catena import Document, MissingExtraError, Services, run
from catena.evaluation import (
    BankQuestion,
    Gold,
    Judgement,
    embedding_shift,
    index_over_gamma,
    mean_score,
    question_distances,
    recall_curve,
    retrieval_report,
    study,
)
from catena.graph import ChunkGraph, node_of
from catena.model import CatenaError, Chain, Chunk, Edge, EvaluationError, Hit, Hop, ParameterError, Ranking, Scale
from catena.retrieval import ExactUnion, multi_view
from catena.segments import extract, reliability
from catena.testing import FakeEmbedder
from catena.testing.fakes import AngleEmbedder
from catena_view import plots
from catena_view.plots.picture import Bars, Cells, LineMark, Points

QRELS = {"q1": {"a": 1}, "q2": {"a": 1}}
RUN = {"q1": ["a"], "q2": [*"bcdefghij", "a"]}
CURVE = recall_curve({"q1": [1], "q2": [10]}, n=100, rounds=50)
SCORES = {"full": mean_score([1.0, 0.5, 1.0]), "no cascade": mean_score([0.5, 0.5, 0.0])}
BINNED = reliability([0.2, 0.2, 0.8, 0.8], [0, 0, 1, 1])
COSTS = [plots.Cost(size=size, milliseconds=0.4 * size, low=0.3 * size, high=0.5 * size) for size in (10, 100)]
MOMENTS = [
    plots.Moment(seconds=1.0, kind="finished", cost=0.01),
    plots.Moment(seconds=2.0, kind="finished", cost=0.02),
    plots.Moment(seconds=3.0, kind="cached", cost=0.02),
]
WORDS = ["red fuse", "red lamp", "blue fuse", "blue lamp", "green"]


def fidelity(pages=3, state="llm"):
    orders, states = [1.0, 0.5, 1.0], ["llm", state, "llm"]
    shares = {"recall": 1.0, "precision": 0.95, "faults": ()}
    rows = [SimpleNamespace(page=at + 1, order=orders[at], state=states[at], **shares) for at in range(pages)]
    return SimpleNamespace(pages=rows)


def extracted():
    found = Chunk(id="c", document_id="d", position=0, start=0, end=700, text="x" * 700, path=("A", "B"))
    return run(extract([Ranking((Hit(found, 0.9),), Scale.PROBABILITY)]), Services())


def found_chunks():
    return [
        Chunk(id=text, document_id="d", position=at, start=3 * at, end=3 * at + 2, text=text)
        for at, text in enumerate(("ab", "cd"))
    ]


def found_under_views():
    first, second = (Hit(chunk, 0.5) for chunk in found_chunks())
    by_view = {"raw": (first, second), "keywords": (second,)}
    return multi_view({kind: Ranking(hits, Scale.SIMILARITY) for kind, hits in by_view.items()}, ExactUnion(), 2)


def chunk_graph():
    return ChunkGraph.build([node_of(chunk) for chunk in found_chunks()], np.eye(2))


def chain():
    first, second = found_chunks()
    edge = Edge(weights={"structural": 1.0})
    return Chain((Hop(chunk=first, score=0.5), Hop(chunk=second, score=0.25, came_from="ab", edge=edge)))


def report():
    questions = [
        BankQuestion(id=name, text="x", kind=kind, gold=(Gold(name="g", document="d"),))
        for name, kind in (("q1", "field"), ("q2", "compare"))
    ]
    judgement = Judgement(items={name: {"g": frozenset("a")} for name in QRELS}, lost=())
    return retrieval_report(questions, judgement, top=RUN, deep=RUN, n=100, k=5)


def studied():
    labels = ["red", "red", "blue", "blue", None]
    return run(study({"cascade": WORDS, "body": WORDS}, labels), Services(embedder=FakeEmbedder(dim=16)))


def shifted():
    return run(embedding_shift(["0", "0"], ["60", "90"], ["30", "60"]), Services(embedder=AngleEmbedder()))


def distances():
    ways = {"cascade": ["0", "60"], "body": ["90", "90"]}
    return run(question_distances(["0", "0"], ways), Services(embedder=AngleEmbedder()))


GIVEN = {  # by public call: what it is given, and what its caption says of that
    "log_rank_curves": (lambda: (), "0.667 (γ = 1)"),
    "index_over_gamma": (lambda: ({"A": index_over_gamma(QRELS, RUN, n=100, gammas=[1.0, 10.0])},), "A 0.750"),
    "recall_curve": (lambda: ({"A": CURVE, "B": CURVE},), "A 0.750"),
    "ablation": (lambda: (SCORES,), "n = 3"),
    "recall_by_kind": (lambda: ({"A": report(), "B": report()},), "A: recall 0.500"),
    "degradation": (
        lambda: ({"A": [(1, SCORES["full"]), (10, SCORES["no cascade"])]},),
        "A 0.833 at 1 → 0.333 at 10 documents",
    ),
    "cohesion": (lambda: (studied(),), "silhouette"),
    "embedding_shift": (lambda: (shifted(),), "inner product 0.250 -> 0.683"),
    "question_distances": (lambda: (distances(),), "cascade 0.250, body 1.000"),
    "fidelity_strip": (lambda: (fidelity(state="layout"),), "page 2 (0.500)"),
    "reliability_diagram": (
        lambda: ({"before": BINNED, "after": BINNED},),
        "after: expected calibration error 0.2000 over 2 bins of about equal counts (2, 2), 2 relevant of 4.",
    ),
    "relevance_curve": (
        lambda: (extracted(),), "1 of 1 segments; all are worth 0.720 and take 1 of 30 chunks",
    ),
    "cost_growth": (lambda: ({"dense": {"A": COSTS}},), "dense: A 40.0 (30.0–50.0) at 100, as size^1.00."),
    "view_attribution": (lambda: (found_under_views(),), "keywords ranked 1 (best of the views 1, alone 0)"),
    "scope_recall": (
        lambda: ({"raw": {250: (0.5, 0.4, 0.6), 500: (0.7, 0.6, 0.8)}},),
        "raw 0.500 at 250 → 0.700 at 500 tokens read.",
    ),
    "chunking_errors": (
        lambda: (Document(id="d", text="ab cd"), {"one": found_chunks()}, [(0, 5)]), "one 100.0% (1 torn by 2)",
    ),
    "chain_graph": (lambda: (chunk_graph(), [chain()]), "1 chain of 2 chunks"),
    "chain_strip": (lambda: ([chain()],), "1 chain. Above each box"),
    "path_lengths": (lambda: ([{"name": "A", "at": 1, "value": 0.5}],), "A 0.500 at 1"),
    "graph_density": (
        lambda: ([{"name": "A", "at": 5, "value": 0.5, "setting": each} for each in ("neighbours", "keyword")],),
        "neighbours: A 0.500 → 0.500, best 0.500 at 5.",
    ),
    "training_history": (lambda: ([{"epoch": 1, "loss": 0.5, "validation": 0.75}],), "best 0.750 at epoch 1"),
    "graph_degrees": (lambda: (chunk_graph(),), "structural 1.0 (0 have none, the most 1)"),
    "run_timeline": (
        lambda: ({"killed": MOMENTS[:2], "resumed": MOMENTS},),
        "killed: 2 answered by a service, cost 0.0200; resumed: 2 answered by a service, 1 answered by the journal",
    ),
}  # fmt: skip


def picture_of(name, path=None):
    return getattr(plots, name)(*GIVEN[name][0](), path=path)


PICTURES = {name: (partial(picture_of, name), told) for name, (_, told) in GIVEN.items()}


def marks(picture, kind, panel=0):
    return [mark for mark in picture.panels[panel].marks if isinstance(mark, kind)]


def test_every_public_call_is_tested_here_and_its_number_is_in_the_caption():
    assert set(PICTURES) == {name for name in plots.__all__ if name[0].islower()}
    for draw, told in PICTURES.values():
        assert told in draw().caption


@pytest.mark.slow
@pytest.mark.parametrize("draw", [draw for draw, _ in PICTURES.values()], ids=PICTURES)
def test_a_png_is_written_whole_and_html_is_one_file_that_fetches_nothing(draw, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("plotly")
    target = tmp_path / "picture.png"
    assert draw(target) == target
    data = target.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", data[16:24])
    assert 800 < width < 2500
    assert 300 < height < 1200
    page = draw(tmp_path / "picture.html").read_text(encoding="utf-8")
    assert not re.search(r"<(script|link|img|iframe)[^>]*\b(src|href)\s*=", page)
    head, _, rest = page.partition("<script")
    assert head.count("<title>") == 1
    assert "Plotly.newPlot" in rest
    assert 'id="picture"' in page


def test_plotly_is_given_no_markup_of_documents():
    pytest.importorskip("plotly")
    name, shown = "<a href='x'>b</a>", "&lt;a href=&#x27;x&#x27;&gt;b&lt;/a&gt;"
    made = plots.recall_by_kind({name: report(), "B": report()})
    bars = made.interactive()
    assert list(bars.data[0].x) == list(made.panels[0].marks[0].lengths)
    assert bars.data[0].name == shown
    assert f"{shown}: recall" in bars.layout.annotations[0].text
    lines = plots.recall_curve({name: CURVE, "B": CURVE}).interactive()
    assert any(trace.name == f"{shown}: LRI 0.750" for trace in lines.data)
    ticks = plots.ablation({name: SCORES["full"]}).interactive().layout.yaxis.ticktext
    assert list(ticks) == [f"{shown} (3)"]


def test_nothing_global_is_changed(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context({"axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        one = plots.ablation(SCORES, tmp_path / "a.png").read_bytes()
        assert dict(matplotlib.rcParams) == before
    assert plots.ablation(SCORES, tmp_path / "b.png").read_bytes() == one


# what is drawn


def test_the_area_that_is_drawn_is_the_index():
    (line,) = marks(plots.recall_curve({"A": CURVE}), LineMark)
    assert line.step
    assert line.filled
    assert float(np.sum(np.diff(line.x) * np.asarray(line.y[:-1]))) == pytest.approx(CURVE.area)
    assert line.label == "A: LRI 0.750"


def test_bars_hold_values_intervals_and_the_order_given():
    (bars,) = marks(plots.ablation(SCORES), Bars)
    assert list(bars.lengths) == [SCORES["full"].value, SCORES["no cascade"].value]
    assert list(bars.intervals) == [SCORES["full"].interval, SCORES["no cascade"].interval]
    ticks = plots.ablation(SCORES).panels[0].y.ticks
    assert [text for _, text in ticks] == ["full (3)", "no cascade (3)"]
    grouped = marks(plots.recall_by_kind({"A": report(), "B": report()}), Bars)
    assert [bars.label for bars in grouped] == ["A", "B"]
    assert not set(grouped[0].y) & set(grouped[1].y)


def test_groups_beyond_the_colours_and_unlabelled_pieces_are_grey():
    made = plots.cohesion(studied(), shown=1)
    assert [(points.label, points.series, len(points.x)) for points in marks(made, Points)] == [
        ("others", -1, 3),
        ("blue", 0, 2),
    ]
    assert made.panels[0].x == made.panels[1].x  # the same axes
    assert made.panels[0].title.startswith("cascade\nsilhouette")


def test_a_shift_is_drawn_from_before_to_after():
    made = plots.embedding_shift(shifted())
    before, after = marks(made, Points)
    assert (before.label, after.label) == ("before", "after")
    assert sorted(before.x) == pytest.approx([0.0, 0.5], abs=1e-6)
    arrows = made.panels[0].marks[0]
    assert [tail[0] for tail in arrows.tails] == list(before.x)
    assert [head[0] for head in arrows.heads] == list(after.x)


def test_a_strip_has_a_cell_per_page_and_marks_what_was_not_taken_at_once():
    made = plots.fidelity_strip(fidelity(state="re-asked"), floor=0.8)
    (cells,) = marks(made, Cells)
    assert [list(row) for row in cells.values] == [[1.0] * 3, [0.95] * 3, [1.0, 0.5, 1.0]]
    assert (cells.low, cells.high) == (0.8, 1.0)
    (points,) = marks(made, Points)
    assert (points.label, list(points.x)) == ("re-asked", [2.0])
    assert "2 llm, 1 re-asked" in made.caption
    assert len(plots.fidelity_strip(fidelity(pages=1)).panels[0].x.ticks) == 1


def test_a_reliability_diagram_has_the_diagonal_the_bins_and_their_counts():
    made = plots.reliability_diagram({"raw": BINNED})
    diagonal, curve = marks(made, LineMark)
    (counts,) = marks(made, LineMark, panel=1)
    assert list(diagonal.x) == list(diagonal.y)
    assert (list(curve.x), list(curve.y)) == (pytest.approx([0.2, 0.8]), [0.0, 1.0])
    assert curve.label == "raw (ECE 0.200)"
    assert list(counts.y) == [2.0, 2.0]
    never = reliability([0.0, 0.0], [0, 0])
    assert plots.reliability_diagram({"never": never}).panels[0].x.limits == (0.0, 1.0)


# errors


@pytest.mark.parametrize(("suffix", "module"), [("png", "matplotlib"), ("html", "plotly.subplots")])
def test_a_missing_library_names_the_extra(tmp_path, monkeypatch, suffix, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pip install '\./packages/catena-view'"):
        plots.ablation(SCORES, tmp_path / f"a.{suffix}")


def test_a_folder_that_is_not_there_is_said_without_its_path(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(CatenaError, match=r"cannot write a\.png") as caught:
        plots.ablation(SCORES, tmp_path / "gone" / "a.png")
    assert str(tmp_path) not in str(caught.value)


EMPTY = (plots.recall_curve, plots.ablation, plots.recall_by_kind, plots.reliability_diagram)
SHORTER = recall_curve({"q": [1]}, n=50, rounds=5)


@pytest.mark.parametrize(
    ("draw", "error"),
    [
        *((lambda draw=draw: draw({}), EvaluationError) for draw in EMPTY),
        (lambda: plots.recall_curve({"A": CURVE, "B": SHORTER}), EvaluationError),
        (lambda: plots.degradation({"A": []}), EvaluationError),
        (lambda: plots.degradation({"A": [(0, SCORES["full"])]}), EvaluationError),
        (lambda: plots.question_distances({"a": [float("nan")]}), EvaluationError),
        (lambda: plots.question_distances({"a": [0.1], "b": []}), EvaluationError),
        (lambda: plots.index_over_gamma({"A": index_over_gamma({}, {}, n=5, gammas=[1.0])}), EvaluationError),
        (lambda: plots.fidelity_strip(SimpleNamespace(pages=[])), EvaluationError),
        (lambda: plots.fidelity_strip(SimpleNamespace(pages=[SimpleNamespace(page=1, recall=2.0)])), EvaluationError),
        (lambda: plots.ablation(SCORES, "a.gif"), ParameterError),
        (lambda: plots.cohesion(studied(), shown=8), ParameterError),
        (lambda: plots.cohesion(studied(), method="umap"), ParameterError),
        (lambda: plots.fidelity_strip(fidelity(), floor=1.0), ParameterError),
        (lambda: plots.log_rank_curves(n=-1), ParameterError),
    ],
)
def test_what_cannot_be_drawn_is_an_error_of_ours(draw, error):
    with pytest.raises(error):
        draw()
