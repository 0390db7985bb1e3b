"""The benches of look-alike documents on a collection made here: figures that can be worked out by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import pytest

from catena.evaluation import log_rank_index
from catena.library import prepare
from catena.model import Document, Entry, ParameterError
from catena_bench import ablation, degradation, similar_docs
from catena_bench.ablation import PAIRS, VARIANTS, AblationRow, compared, tabled
from catena_bench.collection import CollectionQuestion, Judge, SimilarDocuments, read_collection
from catena_bench.degradation import grown, sizes_for
from conftest import needs_data


def test_figures_of_a_collection_that_is_easy(boards):
    figures = similar_docs.run(boards)
    assert [figures[f"n_{what}"] for what in ("documents", "chunks", "questions", "judged")] == [4, 8, 5, 4]
    assert figures["recall.fused"] == figures["recall.fused.field"] == figures["lri.fused"] == 1.0
    routes, peers = ("lexical", "dense", "keyword", "fused"), ("ensemble_retriever", "query_fusion_retriever")
    methods = (*routes, "raw_bm25", "cascade_bm25", *peers)
    assert set(figures) >= {f"{metric}.{method}" for metric in ("recall", "lri") for method in methods}
    assert set(figures) >= {f"recall.{method}_two_routes.field" for method in peers}
    assert figures["recall.cascade_bm25"] == 1.0
    assert all(0 <= value <= 1 for key, value in figures.items() if "." in key)
    assert 0 < figures["query_ms_p50"] <= figures["query_ms_p95"]


def test_without_the_frameworks_their_figures_are_left_out_and_said_to_be(boards, monkeypatch):
    monkeypatch.setitem(sys.modules, "langchain_classic.retrievers", None)
    monkeypatch.delitem(sys.modules, "catena_bench.peers", raising=False)
    monkeypatch.delattr("catena_bench.peers", raising=False)
    told: list[str] = []
    figures = similar_docs.run(boards, tell=told.append)
    assert "recall.fused" in figures
    assert not [key for key in figures if "ensemble" in key or "query_fusion" in key]
    assert any("catena-bench[peers]" in message for message in told)


def test_a_section_counts_at_its_first_chunk_and_recall_looks_at_five_hits():
    question = CollectionQuestion(id="q", text="?", kind="x", gold=("s",))
    judge = Judge(items={"s": frozenset("bd")}, n=9)
    assert judge.log_rank(question, list("abcd")) == log_rank_index({"b"}, list("abcd"), n=9).value
    assert [judge.recall(question, list(ranked)) for ranked in ("acxyb", "acxyzb")] == [1.0, 0.0]


@pytest.mark.slow
def test_the_public_collection_is_read_whole():
    collection = read_collection(needs_data("similar_docs"))
    assert all(path.exists() for path in collection.files.values())
    assert all(name in collection.sections for question in collection.questions for name in question.gold)


# what each row of the ablation indexes

TEXT = "# Board HX210\n\n## Hardware\n\nThe clock runs at 12 MHz.\n\n## Wiring\n\nUse the red wire.\n"


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
    figures = ablation.run(boards)
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
        ablation.run(tmp_path)


# collections that grow

PRINTED = {"a": "board hx210", "b": "board hx210 plus", "c": "board kl7", "d": "pump", "e": ""}
TITLES = {name: frozenset(title.split()) for name, title in PRINTED.items()}


def collection() -> SimilarDocuments:
    return SimilarDocuments(files={name: Path(name) for name in TITLES}, sections={}, questions=())


def question(*gold: str) -> CollectionQuestion:
    return CollectionQuestion(id="q", text="?", kind="field", gold=gold)


def test_sizes_are_powers_of_ten_and_all() -> None:
    for sizes in ([1, 10, 100, 1_430], [1, 10, 100, 1_000, 2_000], [1, 10, 100], [1, 4], [1]):
        assert sizes_for(sizes[-1]) == sizes


def test_gold_comes_first_and_then_the_next_look_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimilarDocuments, "documents_of", lambda self, question: frozenset(question.gold))
    order = grown(question("a"), collection(), TITLES, Random(1))
    assert order[:2] == ["a", "b"]
    assert sorted(order) == sorted(TITLES)
    assert grown(question("a"), collection(), TITLES, Random(1)) == order
    assert grown(question("d", "c"), collection(), TITLES, Random(1))[:2] == ["c", "d"]


def test_figures_of_boards(boards: Path) -> None:
    figures = degradation.run(boards)
    assert figures["n_documents"] == figures["n_judged"] == 4
    for system in ("full", "vector", "raw_bm25"):
        assert figures[f"recall.{system}.1"] == 1.0, "two chunks fit into the first five"
        for size in (1, 4):
            key = f"accuracy.{system}.{size}"
            assert 0 <= figures[f"{key}.low"] <= figures[key] <= figures[f"{key}.high"] <= 1
    assert figures["accuracy.full.4"] == 1.0, "each board's own hardware comes first"
    assert figures["accuracy.raw_bm25.4"] < 1.0, "the sections do not name their board"
    assert figures == degradation.run(boards)
    with pytest.raises(ParameterError):
        degradation.run(boards, questions=0)
