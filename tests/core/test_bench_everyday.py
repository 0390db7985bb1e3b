"""The benches of ordinary documents and of PDFs: figures worked out by hand, every method, what is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas
from retrieval_cases import chunk
from typer.testing import CliRunner
from written_rows import write_rows

from catena.model import Chunk, Document, Entry, MissingExtraError, ParameterError
from catena.testing import FakeEmbedder
from catena_bench import everyday, ranked_pieces
from catena_bench.cli import app
from catena_bench.everyday import MEASURES, EverydayQuestion, measured
from catena_bench.ranked_pieces import Corpus, Method
from catena_bench.views_retrievers import Dense

OURS = {"default", "lexical", "dense", "passages", "segments", "graph"}
PEERS = {"default_minilm", "minilm_headed", "minilm_200", "langchain_ensemble", "llamaindex_fusion"}
WORD = 5  # characters of a word and its space: a word is one token


def document(name: str, words: int) -> Document:
    return Document(id=name, text="".join(f"{name}{n:03} " for n in range(words)))


def piece(of: Document, first: int, last: int) -> Chunk:
    """The words [first, last) of a document."""
    start, text = first * WORD, of.text[first * WORD : last * WORD]
    return chunk(f"{of.id}{first}", text, start=start, document_id=of.id, position=first)


def corpus_of(*documents: Document) -> Corpus:
    return Corpus({each.id: Entry(document=each, sections=(), chunks=(), views=()) for each in documents})


def test_the_measures_of_a_ranking_by_hand() -> None:
    one, other = document("a", 999), document("b", 999)
    corpus = corpus_of(one, other)
    # 150, 150 and 150 tokens, then 150 of which 50 are read within 500; the eleventh has the 50 that still fit
    ranked = [piece(one, at, at + 150) for at in (0, 150, 300)] + [piece(other, 0, 150)]
    ranked += [piece(other, at, at + 150) for at in range(300, 900, 100)] + [piece(one, 600, 650)]

    def found(*evidence: tuple[str, int, int]) -> dict[str, float]:
        spans = [
            (corpus.starts[name] + first * WORD, corpus.starts[name] + last * WORD) for name, first, last in evidence
        ]
        question = EverydayQuestion(text="?", documents=frozenset("ab"), evidence=tuple((span,) for span in spans))
        return measured(question, Method(ranked=lambda question: ranked), corpus)

    assert found(("a", 10, 20)) == dict.fromkeys(MEASURES, 1.0) | {"doc1": 0.5}
    fourth, too_deep = found(("b", 40, 50)), found(("b", 41, 52))
    assert [fourth[key] for key in ("r1", "r5", "t500", "w500")] == [0, 1, 1, 0], "the last piece is cut"
    assert [too_deep[key] for key in ("r5", "t500", "t1500")] == [1, 0, 1], "9 of 11 words are less than 90%"
    assert found(("b", 41, 51))["t500"] == 1, "9 of 10 words are enough"
    short = found(("a", 610, 620))
    assert [short[key] for key in ("r10", "t500", "w500")] == [0, 0, 1], "what does not fit is passed over"
    assert found(("a", 290, 310))["r5"] == 1, "two pieces side by side hold it together"
    assert found(("a", 10, 20), ("b", 40, 50), ("a", 800, 810))["r5"] == pytest.approx(2 / 3)


def test_evidence_counts_at_any_of_its_places() -> None:
    text = Document(id="d", text="Pay in\nadvance. More. Pay in advance.")
    corpus = corpus_of(document("a", 3), text)
    places = everyday._places(corpus, "d", "Pay in advance.")
    assert [corpus.text[start:end] for start, end in places] == ["Pay in\nadvance.", "Pay in advance."]
    hit = chunk("c", text.text[22:37], start=22)
    question = EverydayQuestion(text="?", documents=frozenset("d"), evidence=(places,))
    assert measured(question, Method(ranked=lambda question: [hit]), corpus)["r1"] == 1
    assert everyday._places(corpus, "gone", "Pay in advance.") == ()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two sets: three documents, and two questions of which one has no answer."""
    for name in ("tools", "tea"):
        docs = tmp_path / "sets" / name / "docs"
        docs.mkdir(parents=True)
        for color in ("red", "blue", "green"):
            (docs / f"{color}.md").write_text(
                f"# The {color} {name}\n\nIt is sold in {color} boxes.\n\n## Care\n\nDry it.\n"
            )
        evidence = [{"doc": "red.md", "text": "It is sold in red boxes."}]
        rows = [
            {"qid": "q", "question": f"How is the red {name} sold?", "docs": ["red.md"], "evidence": evidence},
            {"qid": "none", "question": "How is the pink one sold?", "docs": [], "evidence": []},
        ]
        write_rows(docs.parent / "questions.jsonl", rows)
    (tmp_path / "sets" / "notes").mkdir()
    return tmp_path / "sets"


def test_a_folder_of_sets_by_every_method(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    ended = CliRunner().invoke(app, ["everyday", "--data", str(folder), "--json", str(out)], catch_exceptions=False)
    assert ended.exit_code == 0
    figures = json.loads(out.read_text())
    methods = {key.split(".")[1] for key in figures if key.startswith("mean.")}
    assert methods == OURS | {"bm25s_headed", "bm25s_200"}
    for name in ("tools", "tea"):
        counts = {"questions": 1, "skipped": 1, "documents": 3, "lost": 0}
        assert {key: figures[f"{name}.{key}"] for key in counts} == counts
        for method in methods:
            of = [figures[f"{name}.{method}.{measure}"] for measure in MEASURES]
            assert of[0] <= of[1] <= of[2], "recall grows with k"
            assert of[3] <= of[4], "and so do documents"
            assert figures[f"mean.{method}.t500"] <= 1
        assert figures[f"{name}.default.r1"] == figures[f"{name}.default.w500"] == 1
        assert figures[f"{name}.default_minus.lexical.r1.low"] == 0
    assert figures["mean.dense.r5"] == (figures["tools.dense.r5"] + figures["tea.dense.r5"]) / 2


def test_minilm_embeds_each_text_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = FakeEmbedder(dim=8)
    monkeypatch.setattr(everyday, "minilm_embedder", lambda: Dense("minilm", embedder))
    figures = everyday.run(folder / "tea", minilm=True)
    assert {key.split(".")[1] for key in figures if key.startswith("mean.")} >= OURS | PEERS
    assert figures["tea.langchain_ensemble.doc5"] == figures["tea.llamaindex_fusion.r5"] == 1
    assert "tea.default_minilm_minus.minilm_headed.t500.high" in figures
    assert set(Counter(text for call in embedder.calls if isinstance(call, tuple) for text in call).values()) == {1}


def test_what_is_missing_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranked_pieces, "find_spec", lambda name: None)
    for run in (everyday.run, everyday.filings):
        with pytest.raises(MissingExtraError, match="catena-minilm"):
            run(folder, minilm=True)
        with pytest.raises(ParameterError, match=r"questions\.jsonl"):
            run(folder / "notes")
    questions = folder / "tea" / "questions.jsonl"
    (folder / "tea" / "docs" / "red.md").unlink()
    with pytest.raises(ParameterError, match=r"document of question q.*red\.md"):
        everyday.run(folder)
    for broken, told in (('{"qid": 1}', "KeyError: 'evidence'"), ("[", "JSONDecodeError"), ("3", "TypeError")):
        questions.write_text(broken)
        with pytest.raises(ParameterError, match=told):
            everyday.run(folder / "tea")


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """Two reports of three pages; one question, answered on the second page of one of them."""
    (tmp_path / "pdfs").mkdir()
    for name in ("ACME", "ZETA"):
        canvas = Canvas(str(tmp_path / "pdfs" / f"{name}_2023.pdf"))
        for line in (f"Annual report of {name}", f"The turnover of {name} was 7 million.", "Nothing else."):
            canvas.drawString(72, 720, line)
            canvas.showPage()
        canvas.save()
    asked = {"question": "What was the turnover of ACME?", "doc_name": "ACME_2023"}
    rows = [asked | {"evidence": [{"evidence_page_num": page}]} for page in (1, 9)]  # there is no tenth page
    return write_rows(tmp_path / "questions.jsonl", rows).parent


def test_pages_of_pdfs(reports: Path) -> None:
    figures = everyday.filings(reports)
    assert [figures[key] for key in ("questions", "documents", "lost")] == [2, 2, 1]
    assert [figures[f"hit.default.{k}"] for k in (1, 3, 5, 10)] == [0.5] * 4, "what is lost is never found"
    assert figures["doc.default.1"] == 1
    assert figures["t1000.bm25s_1000"] == figures["t3000.segments"] == 0.5
    (reports / "pdfs" / "ACME_2023.pdf").unlink()
    with pytest.raises(ParameterError, match=r"pdfs/ACME_2023\.pdf"):
        everyday.filings(reports)


def test_a_hit_lies_on_a_page_if_it_has_a_character_of_it() -> None:
    text = document("a", 300)
    corpus = corpus_of(text)
    question = everyday.PageQuestion(text="?", documents=frozenset("a"), pages=((100 * WORD, 200 * WORD),))
    for first, last, hit in ((0, 100, 0), (0, 101, 1), (199, 300, 1), (200, 300, 0)):
        found = everyday.measured_pages(
            question, Method(ranked=lambda _, at=(first, last): [piece(text, *at)]), corpus
        )
        assert found["hit.1"] == found["t1000"] == hit, (first, last)
