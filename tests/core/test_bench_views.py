"""The bench of views: what is returned and found by what, and what the figures say of a document known by heart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner
from written_rows import write_rows

from catena.evaluation import spans_of
from catena.model import EvaluationError
from catena.testing.fakes import AngleEmbedder
from catena_bench import views_retrievers
from catena_bench.cli import app
from catena_bench.views import Results, figures
from catena_bench.views_data import METHODS, AskedDocument, read_asked_documents, word_pieces
from catena_bench.views_retrievers import Dense

TOPICS = {
    "Copper": "The copper kettle boils the water for the morning tea.",
    "Granite": "Granite cliffs shelter the seabirds from the western gales.",
    "Violins": "Violins are varnished slowly by patient makers in Cremona.",
    "Glaciers": "Glaciers carve deep valleys while they creep towards the sea.",
}
FILLER = "Nothing further is said about that here today. "


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are tested where they are made; here they only take time."""
    monkeypatch.setattr("catena_bench.views.ROUNDS", 20)


@pytest.fixture(autouse=True)
def without_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages that may or may not be here are not."""
    present = views_retrievers.find_spec
    absent = ("sentence_transformers", views_retrievers.MINILM)
    monkeypatch.setattr(views_retrievers, "find_spec", lambda name: None if name in absent else present(name))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A document of four sections of about 350 tokens, the answer at the end of each, and a question for each."""
    text, sections, questions = "", [], []
    for title, answer in TOPICS.items():
        start, body = len(text), len(text) + len(title) + 1
        text += f"{title}\n{FILLER * 35}{answer}\n"
        span = {"start": text.index(answer), "end": text.index(answer) + len(answer)}
        sections.append({"start": start, "body_start": body, "end": len(text), "level": 1, "path": [title]})
        questions.append({"id": title, "doc_id": "book", "question": answer[:-1] + "?", "evidence": [span]})
    inner, book = tmp_path / "structured" / "chunks", {"id": "book", "title": "book", "text": text}
    write_rows(inner / "documents.jsonl", [book | {"sections": sections}])
    return write_rows(inner / "questions.jsonl", questions).parents[1]


@pytest.fixture
def asked(folder: Path) -> AskedDocument:
    (document,) = read_asked_documents(folder)
    return document


def test_every_method_covers_the_document(asked: AskedDocument) -> None:
    text = asked.document.text
    for name, of_method in METHODS.items():
        units = of_method(asked)
        held = {at for chunk in units.chunks for at in range(chunk.start, chunk.end)}
        assert all(at in held or text[at].isspace() for at in range(len(text))), name
        assert set(units.owner) == set(range(len(units.chunks))), name
        assert len(units.texts) == len(units.owner), name
    assert len(METHODS["windows"](asked).texts) > len(METHODS["windows"](asked).chunks) == 4
    assert all(word_pieces()(chunk.text) <= 100 for chunk in METHODS["fixed100"](asked).chunks)
    sections = [section.start for section in asked.sections]
    inside = METHODS["fixed100_content"](asked).chunks
    assert all(not any(chunk.start < border < chunk.end for border in sections) for chunk in inside)


@pytest.mark.slow
def test_sections_find_what_they_hold_and_windows_what_stands_at_their_end(folder: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "figures.json", tmp_path / "views.html"
    command = ["views", "--data", str(folder), "--json", str(out), "--plot", str(page)]
    assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0
    assert "default" in page.read_text()
    measured = json.loads(out.read_text())
    of_words = [f"bm25.{method}" for method in ("sections", "windows", "views_exact")]
    for key in (*of_words, "lexical.sections", "fused.default", "fused.views_paper"):
        assert measured[f"book.{key}.k3"] == 100, key
    assert measured["book.static.sections.k1.5.mean_pieces"] == 1.5
    assert measured["book.static.sections.k3.mean_sections"] == 3
    assert measured["book.chunking_error.sections"] == 0
    assert measured["skipped.minilm"] == 1
    assert measured["book.bm25.default.k3"] == measured["book.lexical.default.k3"]
    assert measured["book.fused.default.tokens250"] == 100  # its passage is read, not the 350 tokens before it
    assert measured["book.fused.sections.tokens250"] < 100
    recalls = {key: value for key, value in measured.items() if key.split(".")[-1].startswith(("k", "tokens"))}
    assert len(recalls) > 100
    assert all(0 <= value <= 100 for value in recalls.values())


def test_the_figures_of_a_ranking_by_hand(asked: AskedDocument) -> None:
    sections = spans_of(METHODS["sections"](asked).chunks)
    found = figures(asked, Results(ranked=[sections] * 4))  # each question is given all four in reading order
    tokens = [asked.tokens(*span) for span in sections]
    assert [found[f"k{k}"] for k in ("1.5", "3", "5", "10")] == [37.5, 75, 100, 100]
    assert found["k1.5.as_stated"] == 50  # 1, 2, 1, 2: the first and the second question find theirs
    assert found["k1.5.mean_tokens"] == tokens[0] + tokens[1] / 2
    assert found["k10.mean_pieces"] == found["k10.mean_sections"] == 4
    assert [found[f"tokens{budget}"] for budget in (250, 500, 1000, 2000)] == [
        25 * sum(sum(tokens[: n + 1]) <= budget for n in range(4)) for budget in (250, 500, 1000, 2000)
    ]


def test_only_what_may_be_truncated_is() -> None:
    angles = AngleEmbedder()
    engine = Dense("angles", angles, lambda texts: angles.embed_documents([text[:1] for text in texts]))
    for truncated, expected in ((False, [[0.5, 1]]), (True, [[np.cos(np.radians(6)), 1]]), (False, [[0.5, 1]])):
        assert engine.scores(["60", "0"], ["0"], truncated=truncated) == pytest.approx(np.array(expected))


def test_a_directory_of_another_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"documents\.jsonl"):
        read_asked_documents(tmp_path)
