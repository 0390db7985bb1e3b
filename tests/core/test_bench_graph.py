"""The bench of questions of several hops: a corpus small enough to rank by hand, and its command."""

from __future__ import annotations

import json
import runpy
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from retrieval_cases import chunk
from typer.testing import CliRunner, Result
from written_rows import write_rows

from catena.backends import OpenAILLM
from catena.effects import Services
from catena.enrichment import StaticEmbedder
from catena.graph import FeatureScorer
from catena.model import Hit, ParameterError, Ranking, Scale, digest
from catena.testing import ChatServer, FakeEmbedder
from catena.testing.chat_server import Body
from catena_bench import graph, graph_speed
from catena_bench import pictures as graph_pictures
from catena_bench.figures import paired_figures
from catena_bench.graph import app, differences_of, figures_of, results_of
from catena_bench.graph_data import HopQuestion, KeptVectors, read_split
from catena_bench.graph_setting import first_rankings

PASSAGES = {
    "ferry": ("Ferry Alda", "The Ferry Alda was built in Norrvik by the yard of Brandt."),
    "town": ("Norrvik", "Norrvik is a harbour town; its mayor is Ines Holm."),
    "mayor": ("Ines Holm", "Ines Holm studied botany before she went into politics."),
    "yard": ("Brandt (shipyard)", "Brandt is a shipyard that was founded by two brothers."),
    "cheese": ("Kvarg", "Kvarg is a fresh cheese eaten with berries."),
    "river": ("", "A river without a name runs past the old mill."),
}
QUESTIONS: dict[str, tuple[str, list[str]]] = {
    "q1": ("Who is the mayor of the town where the Ferry Alda was built?", ["ferry", "town"]),
    "q2": ("What did the mayor of Norrvik study?", ["town", "mayor"]),
    "q3": ("Who founded the yard that built the Ferry Alda?", ["ferry", "yard", "ferry"]),
    "q4": ("What is eaten with berries?", ["cheese"]),
}


def write_split(data: Path, split: str = "dev") -> Path:
    """Write one split of the layout, with fields missing that may be."""
    corpus = [{"id": name, "title": title, "text": text} for name, (title, text) in PASSAGES.items()]
    del corpus[-1]["title"]
    asked = [{"id": name, "question": text, "supporting": needed} for name, (text, needed) in QUESTIONS.items()]
    write_rows(data / f"{split}_corpus.jsonl.gz", corpus)
    write_rows(data / f"{split}_questions.jsonl", [*asked, {"id": "q5", "question": "Unanswered?", "answers": []}])
    return data


def embedded(embedder: FakeEmbedder) -> int:
    """Return how many texts it was given."""
    return sum(1 if isinstance(call, str) else len(call) for call in embedder.calls)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_split(tmp_path / "ferries")


def test_questions_name_chunks_and_those_without_evidence_are_left_out(folder):
    split = read_split(folder)
    ids = {chunk.document_id: chunk.id for chunk in split.chunks}
    assert {question.id: question.evidence for question in split.questions} == {
        name: tuple(dict.fromkeys(ids[passage] for passage in supporting))
        for name, (_, supporting) in QUESTIONS.items()
    }
    assert split.unknown == 0
    few = read_split(folder, most=2)
    assert {question.id for question in few.questions} == set(sorted(QUESTIONS, key=digest)[:2])
    assert len(few.chunks) == len(split.chunks)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("dev_corpus", [{"id": "a", "title": "A"}]),
        ("dev_corpus", [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}]),
        ("dev_corpus", []),
        ("dev_questions", [{"id": "q", "question": "?"}]),
        ("dev_questions", [["q"]]),
    ],
)
def test_what_is_not_of_the_layout_is_refused(folder, name, rows):
    (folder / "dev_corpus.jsonl.gz").unlink()
    write_rows(folder / "dev_corpus.jsonl", [{"id": "a", "text": "x"}])
    write_rows(folder / f"{name}.jsonl", rows)
    with pytest.raises(ParameterError):
        read_split(folder)


def test_rankings_by_hand(folder):
    split = read_split(folder)
    names = {chunk.id: chunk.document_id for chunk in split.chunks}
    embedder = FakeEmbedder(26)
    vectors = embedder.embed_documents([chunk.text for chunk in split.chunks])
    asked = np.stack([embedder.embed_query(question.text) for question in split.questions])
    found = first_rankings(split, vectors, asked, lambda message: None)
    assert [names[hit.chunk.id] for hit in found["bm25"][3].hits] == ["cheese"]  # the only one with a word of q4
    for ranking, row in zip(found["dense"], asked @ vectors.T, strict=True):
        assert [hit.score for hit in ranking.hits] == pytest.approx(sorted(row, reverse=True))
    for words, near, fused in zip(found["bm25"], found["dense"], found["hybrid"], strict=True):
        ranks = [{hit.chunk.id: rank for rank, hit in enumerate(of.hits, 1)} for of in (words, near)]
        for hit in fused.hits:
            assert hit.score == pytest.approx(sum(1 / (60 + of[hit.chunk.id]) for of in ranks if hit.chunk.id in of))
            of_routes = zip(("lexical", "dense"), ranks, strict=True)
            expected = {route: of[hit.chunk.id] for route, of in of_routes if hit.chunk.id in of}
            assert {way.route: way.rank for way in hit.provenance} == expected


def ranking(*ids: str) -> Ranking:
    return Ranking(tuple(Hit(chunk(name), -float(n)) for n, name in enumerate(ids)), Scale.RANK)


def test_the_figures_of_two_methods_by_hand():
    asked = [HopQuestion(id=evidence[0], text="?", evidence=tuple(evidence)) for evidence in ("ab", "cde")]
    one = results_of(asked, [ranking("a", "x", "b"), ranking("c", "d", "x")], (1, 2, 3))
    other = results_of(asked, [ranking("x"), ranking("c", "d", "e")], (1, 2, 3))
    figures = figures_of("one", one)
    assert figures["recall_at_1.one"] == pytest.approx(100 * (1 / 2 + 1 / 3) / 2)
    assert figures["recall_at_3.one"] == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert figures["all_at_5.one"] == 50
    assert figures["recall_at_3.low.one"] <= figures["recall_at_3.one"] <= figures["recall_at_3.high.one"]
    over = differences_of({"one": one, "other": other}, [("one", "other"), ("one", "absent")])
    assert over["difference.recall_at_5.one-other"] == pytest.approx(100 * (1 - 1 / 3) / 2)
    assert over["difference.all_at_5.one-other"] == 0
    assert over["difference.recall_at_5.one-other.p"] == 1  # of two questions nothing is significant
    values = {name: {f"q{n}": at * n / 9 for n in range(9)} for name, at in (("a", 0.9), ("b", 0.5), ("c", 0.49))}
    found = paired_figures("m", values, [("a", "b"), ("b", "c")])
    for pair in ("a-b", "b-c"):  # of two tests of equal p the lesser is doubled, and the other is no less
        assert found[f"difference.m.{pair}.p_holm"] == 2 * found[f"difference.m.{pair}.p"] < 0.1
    assert not any("absent" in key for key in over)


def test_vectors_are_kept_between_runs_and_a_damaged_file_is_made_anew(tmp_path):
    texts = [f"text {n}" for n in range(3)]
    first = FakeEmbedder(26)
    rows = KeptVectors(first, tmp_path).embed_documents(texts)
    asked = KeptVectors(first, tmp_path).embed_queries(["text 1", "another"])
    assert embedded(first) == 5  # a question is not a document of the same text
    second = FakeEmbedder(26)
    kept = KeptVectors(second, tmp_path)
    assert kept.embed_documents([*texts, texts[0]]).tolist() == [*rows.tolist(), rows[0].tolist()]
    assert kept.embed_query("another").tolist() == asked[1].tolist()
    assert embedded(second) == 0
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    told: list[str] = []
    assert KeptVectors(second, tmp_path, told.append).embed_documents(texts).tolist() == rows.tolist()
    assert (embedded(second), len(told)) == (3, 1)
    assert KeptVectors(FakeEmbedder(26), tmp_path).embed_documents([]).shape == (0, 26)


def test_the_bench_finds_what_the_words_say(folder, tmp_path):
    told: list[str] = []
    embedder = FakeEmbedder(26)
    figures = graph.run(folder, embedder=embedder, cache=tmp_path / "kept", tell=told.append)
    assert (figures["n_passages"], figures["n_questions"]) == (6, 4)
    assert figures["recall_at_20.hybrid"] == figures["recall_at_20.library_hybrid"] == 100
    assert figures["recall_at_2.bm25"] >= 75
    assert figures["recall_at_20.paper_untrained"] == 100  # what it does not walk to follows as in the first ranking
    assert figures["recall_at_5.walk"] >= figures["recall_at_5.scorer_only"]
    assert {"graph_seconds", "walk_ms_p50", "paper_untrained_ms_p50", "paper_untrained_ms_p95"} <= figures.keys()
    assert "difference.recall_at_5.dense-hybrid.p" in figures
    assert any("recall at 5" in message for message in told)
    before = embedded(embedder)
    again = graph.run(folder, embedder=embedder, methods=["bm25", "dense", "hybrid"], cache=tmp_path / "kept")
    assert embedded(embedder) == before
    assert all(again[key] == figures[key] for key in again if not key.endswith(("_p50", "_p95", "_seconds", "_holm")))


def test_the_command_writes_json_and_a_table(folder, tmp_path):
    target = tmp_path / "out.json"
    command = ["--data", str(folder), "--methods", "bm25,hybrid", "--k", "2,10", "--size", "questions=3"]
    result = CliRunner().invoke(app, [*command, "--json", str(target)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    figures = json.loads(target.read_text())
    assert (figures["about.data"], figures["about.embedder"]) == ("ferries", "static")
    assert (figures["n_passages"], figures["n_questions"]) == (6, 3)
    assert {"recall_at_2.bm25", "recall_at_5.bm25", "recall_at_10.hybrid", "all_at_5.hybrid"} <= figures.keys()
    assert "3 questions over 6 passages" in result.output
    printed = CliRunner().invoke(app, command)
    assert json.loads(printed.stdout).keys() == figures.keys()


WRONG = ("--k=two", "--k=0", "--methods=?", "--methods=", "--json=/nowhere/at/all.json", "--size=depth=3")


@pytest.mark.parametrize("wrong", WRONG)
def test_the_command_says_what_is_wrong(folder, wrong):
    result = CliRunner().invoke(app, ["--data", str(folder), wrong])
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_what_cannot_be_had_is_left_out_by_name(folder, monkeypatch):
    told: list[str] = []
    figures = graph.run(folder, embedder=FakeEmbedder(26), methods=["paper_trained", "bm25"], tell=told.append)
    assert figures["skipped.paper_trained"] == 1
    assert not any(key.endswith(".paper_trained") and key.startswith("recall") for key in figures)
    assert any("without paper_trained: needs train_corpus" in message for message in told)
    monkeypatch.setattr("catena_bench.graph_setting.find_spec", lambda name: None)
    write_split(folder, "train")
    graph.run(folder, embedder=FakeEmbedder(26), methods=["paper_trained"], tell=told.append)
    assert "without paper_trained: needs torch" in told[-1]


@pytest.mark.torch
def test_the_papers_scorer_is_trained_on_the_train_split(folder, tmp_path):
    other = write_split(tmp_path / "other", "train")
    figures = graph.run(folder, embedder=FakeEmbedder(26), methods=["paper_trained"], train_on=other)
    assert figures["recall_at_20.paper_trained"] == 100
    assert figures["training_seconds"] > 0


@pytest.mark.torch
def test_the_encoder_is_fine_tuned_and_the_graph_is_made_of_its_vectors(folder):
    write_split(folder, "train")
    command = ["--data", str(folder), "--embedder", "minilm", "--methods", "hybrid", "--fine-tune"]
    result = CliRunner().invoke(app, [*command, "--size", "train=3", "--size", "questions=2"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["recall_at_20.paper_fine_tuned"] == 100
    assert figures["fine_tuning_seconds"] > 0 < figures["fine_tuning_lists"]
    assert "epoch 1 of 1" in result.output


def test_studies_follow_the_thresholds(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(graph, "NEIGHBOURS", (0, 3))
    monkeypatch.setattr(graph, "KEYWORDS_MORE_THAN", (0, 4))
    monkeypatch.setattr(graph, "STUDIED", 3)
    figures = graph.run(folder, embedder=FakeEmbedder(26), methods=["hybrid"], studies=["lengths", "density"])
    assert figures["n_studied"] == 3
    assert figures["mean_degree.neighbours_0"] == 0 < figures["mean_degree.neighbours_3"] <= 5
    assert figures["mean_degree.keyword_4"] == figures["mean_degree.length_1"]  # no two passages share so many
    seeds, long = (figures[f"match_rate.length_{at}.paper_untrained"] for at in (1, 5))
    assert figures["match_rate.neighbours_0.paper_untrained"] == seeds  # no edge leads on
    assert seeds < long
    assert figures["chunks.length_1.paper_untrained"] < figures["chunks.length_5.paper_untrained"]
    drawn = graph_pictures.draw(figures, ["hybrid"], tmp_path / "pictures")
    assert [path.stem for path in drawn] == ["recall_at_5", "all_at_5", "path_lengths", "graph_density"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)


@pytest.mark.slow
def test_the_speed_bench_gives_a_figure_for_each_size(monkeypatch):
    monkeypatch.setattr(graph_speed, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    monkeypatch.setattr(graph_speed, "SIZES", (250, 5_000))
    for name, few in (("QUESTIONS", 3), ("SAMPLE", 20), ("PEERS_UP_TO", 500)):
        monkeypatch.setattr(graph_speed, name, few)
    figures = graph_speed.run(chunks=1_000)
    assert figures["semantic_recall.250"] == figures["semantic_recall.1000"] == 1
    assert figures["add_equals_rebuild.250"] == figures["keyword_pairs_agree.250"] == 1
    assert figures["edges_structural.1000"] == 2 * 100 * 9
    assert "add_equals_rebuild.1000" not in figures
    assert {"build_seconds.1000", "keyword_seconds.1000", "add_seconds.1000", "walk_ms_p50.1000"} <= figures.keys()
    assert figures["ratio.edges_held.networkx.250"] > 1
    assert "ratio.edges_held.networkx.1000" not in figures
    with pytest.raises(ParameterError):
        graph_speed.run(chunks=999)


# answers of a model

ANSWERS = {"q1": ["Ines Holm"], "q2": ["botany"], "q3": ["two brothers"], "q4": ["Kvarg", "fresh cheese"]}
WAYS = ["no_retrieval", "hybrid", "chain", "iterative", "shuffled", "golden"]


@pytest.fixture
def answered(tmp_path: Path) -> Path:
    """One split with answers, and a question nobody knows the answer of, which is not asked."""
    data = write_split(tmp_path / "ferries")
    rows = [
        {"id": name, "question": text, "supporting": supporting, "answers": ANSWERS[name]}
        for name, (text, supporting) in QUESTIONS.items()
    ]
    unknown = {"id": "q5", "question": "Which river?", "supporting": ["river"]}
    return write_rows(data / "dev_questions.jsonl", [*rows, unknown]).parent


def reader(body: Body) -> str:
    """Answer from what is read alone: what stands there is known, nothing else; from nothing, a guess."""
    system, prompt = body["messages"][0]["content"], body["messages"][-1]["content"]
    if "there is no document" in system:
        return "Kvarg"
    found = next((name for name, (text, _) in QUESTIONS.items() if f"Question: {text}" in prompt), "")
    return next((answer for answer in ANSWERS[found] if answer in prompt.split("Question:")[0]), "NOT ANSWERABLE")


def command(answered: Path, server: ChatServer, journal: Path, *more: str) -> Result:
    given = ["--data", str(answered), "--methods", "hybrid", "--llm", "m"]
    return CliRunner().invoke(app, [*given, "--base-url", server.url, "--journal", str(journal), *more])


@pytest.mark.slow
def test_a_model_answers_in_six_ways_and_is_paid_once(answered, tmp_path):
    journal = tmp_path / "journal.db"
    with ChatServer(reader) as server:
        planned = command(answered, server, journal, "--plan", "--price-in", "1")
        assert planned.exit_code == 0, planned.output
        assert server.bodies == []
        assert not journal.exists()
        result = command(answered, server, journal)
        assert result.exit_code == 0, result.output
        asked = len(server.bodies)
        again = command(answered, server, journal)
        assert len(server.bodies) == asked <= 6 * 4  # equal requests are asked once
    figures = json.loads(result.stdout)
    assert json.loads(again.stdout)["f1.chain"] == figures["f1.chain"]
    plan = json.loads(planned.stdout)
    assert all(plan[f"plan.{way}.calls"] == 4 for way in WAYS)
    assert plan["plan.golden.cost_at_most"] > 0
    assert (figures["about.model"], figures["n_answerable"], figures["n_questions"]) == ("m", 4, 5)
    assert figures["exact_match.no_retrieval"] == 25  # Kvarg, by luck
    assert figures["exact_match.golden"] == 100
    assert figures["n_unanswered.golden"] == figures["n_failed.golden"] == 0
    assert figures["exact_match.chain"] == figures["exact_match.shuffled"] == figures["exact_match.iterative"]
    assert {"accuracy.low.chain", "f1.high.hybrid", "difference.f1.chain-shuffled.p_holm"} <= figures.keys()
    assert figures["difference.f1.golden-chain"] == pytest.approx(figures["f1.golden"] - figures["f1.chain"])
    assert figures["tokens_in"] > figures["tokens_out"] > 0


def test_formats_hold_the_same_passages_and_gold_holds_the_evidence(answered):
    read: dict[str, list[set[str]]] = {}

    def noted(body: Body) -> str:
        prompt = body["messages"][-1]["content"]
        list(read.values())[-1].append({name for name, (_, text) in PASSAGES.items() if text in prompt})
        return "x"

    with ChatServer(noted) as server, OpenAILLM("m", api_key="none", base_url=server.url) as llm:

        def tell(message: str) -> None:
            if message.startswith("answering: "):
                read[message.removeprefix("answering: ")] = []

        def answers(setting):
            return graph.answered(setting, Services(llm=llm, max_concurrency=1))

        figures = graph.run(answered, embedder=FakeEmbedder(26), methods=["hybrid"], answers=answers, tell=tell)
    assert list(read) == WAYS
    assert read["no_retrieval"] == [set()] * 4
    assert read["golden"] == [set(supporting) for _, supporting in QUESTIONS.values()]
    assert all(len(held) == 5 for held in read["hybrid"])
    assert read["chain"] == read["iterative"] == read["shuffled"]
    assert all(len(held) == 5 for held in read["chain"])
    assert figures["f1.golden"] == 0


def test_what_is_missing_is_said(answered):
    without = CliRunner().invoke(app, ["--data", str(answered), "--methods", "bm25", "--plan"])
    assert (without.exit_code, "--llm NAME" in without.output) == (2, True)
    write_split(answered)  # without answers
    with pytest.raises(ParameterError, match="answers"):
        graph.run(answered, embedder=FakeEmbedder(26), answers=lambda setting: graph.answered(setting, Services()))


# the training of the shipped scorer

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "train_walk_scorer.py"
NAMES = runpy.run_path(str(SCRIPT))
collections = NAMES["collections"]


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """Two collections with a train split, one without, and a file beside them."""
    data = tmp_path / "several"
    for name, split in (("boats", "train"), ("towns", "train"), ("towns", "dev"), ("untaught", "dev")):
        write_split(data / name, split)
    (data / "README.md").write_text("About these.")
    return data


def test_collections_are_discovered_and_can_be_left_out(several):
    assert [place.name for place in collections(several)] == ["boats", "towns"]
    assert [place.name for place in collections(several, ["boats"])] == ["towns"]
    assert collections(several / "towns") == (several / "towns",)
    wrong = ((several, ["untaught"]), (several, ["boats", "towns"]), (several / "untaught", []), (several / "no", []))
    for data, without in wrong:
        with pytest.raises(ParameterError):
            collections(data, without)


@pytest.mark.slow
def test_the_script_writes_a_file_that_the_bench_takes(several, tmp_path, monkeypatch, capsys):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # the script sets them for its own process
    files = [tmp_path / f"{number}.safetensors" for number in range(2)]
    for file in files:
        arguments = ["--data", str(several), "--networks", "2", "--embedder", "static", "--leave-out", "boats"]
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(file), *arguments])
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert files[0].read_bytes() == files[1].read_bytes()
    scorer = FeatureScorer.load(files[0])
    assert scorer.record["collections"] == {"towns train": {"questions": 4, "passages": 6}}
    assert (scorer.record["embedders"], scorer.record["options"]["networks"]) == ([StaticEmbedder().identity], 2)
    assert scorer.identity in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(files[0]), "--data", str(several / "untaught")])
    with pytest.raises(SystemExit, match="error: "):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    command = ["--data", str(several / "towns"), "--methods", "walk,scorer_only,walk_untrained,hybrid"]
    result = CliRunner().invoke(app, [*command, "--scorer", str(files[0])], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert {"walk_ms_p50", "recall_at_5.walk", "difference.recall_at_5.walk-scorer_only"} <= figures.keys()
    lost = CliRunner().invoke(app, [*command, "--scorer", str(tmp_path / "nowhere")])
    assert (lost.exit_code, "Traceback" in lost.output) == (2, False)
