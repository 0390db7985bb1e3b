"""`catena graph`, and chains on the command line: built, searched, asked, exported and trained, on our manuals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from cli_calls import call, refused, value

from catena.graph import (
    FeatureScorer,
    FeatureTraining,
    GraphOptions,
    GraphSearch,
    PaperScorer,
    SimilarityScorer,
    UntrainedScorer,
    WalkOptions,
    initial_weights,
)
from catena.graph.paper_scorer import checked_weights
from catena.graph.scoring import FEATURES
from catena.library import Library, ScorerTraining, load_scorer, train_library_scorer
from catena.testing import ChatServer

DEMO = Path(__file__).parents[2] / "packages/catena/src/catena/data/demo"
HX200 = DEMO / "halden-hx200-manual.pdf"
QUESTION = "Which fuse may be fitted in the HX200?"
SEARCH = ("search", QUESTION, "-l", "joined", "--graph")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two manuals, indexed: with a graph and without one."""
    folder = tmp_path_factory.mktemp("made")
    for name in ("hx200", "hx210"):
        shutil.copy(DEMO / f"halden-{name}-manual.pdf", folder)
    call("index", folder, "-l", folder / "bare")
    shutil.copytree(folder / "bare", folder / "joined")
    call("graph", "build", folder / "joined")
    return folder


def stopped(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


# build, show, export, drop


def test_a_graph_is_built_as_the_options_say_and_dropped_alone(shelf: Path) -> None:
    told = value("graph", "build", "bare", "--neighbours", "2", "--keywords-more-than", "1", "--no-mentions")
    with Library.open("bare", create=False) as library:
        graph = library.graph
        assert graph.options == GraphOptions(neighbours=2, keywords_more_than=1, mentions=False)
        assert told["nodes"] == len(graph) == library.stats().chunks
        links = {kind: len(graph.links(kind).targets) // 2 for kind in graph.kinds}
        neighbours = int(graph.degrees().sum()) // 2
    edges = {each["kind"]: each["edges"] for each in told["kinds"]}
    assert edges == {**links, "all kinds": neighbours}
    assert value("graph", "drop", "--library", "bare")["dropped"] is True
    for given in (("bare",), ("-l", "bare"), ("--library=bare",)):
        assert "there was no graph" in call("graph", "drop", *given).stdout
    assert "Missing argument 'LIBRARY'" in call("graph", "drop", "-l", code=2).output
    assert value("search", QUESTION, "-l", "bare")["hits"]


def test_a_graph_is_shown_with_its_hubs_drawn_and_goes_to_other_programs(shelf: Path) -> None:
    told = value("graph", "show", "joined", "--hubs", "3", "--picture", "degrees.html")
    with Library.open("joined", create=False) as library:
        degrees = dict(zip(library.graph.ids, library.graph.degrees().tolist(), strict=True))
        mentions = len(library.graph.links("mention").targets)
    best = sorted(degrees, key=lambda each: (-degrees[each], each))[:3]
    assert [(hub["chunk"], hub["neighbours"]) for hub in told["hubs"]] == [(each, degrees[each]) for each in best]
    kinds = {each["kind"]: each for each in told["kinds"]}
    assert list(kinds) == ["structural", "semantic", "keyword", "name", "mention", "all kinds"]
    assert kinds["structural"]["most"] == 2
    assert kinds["mention"]["edges"] == mentions > 0
    assert kinds["all kinds"]["mean"] == pytest.approx(np.mean([*degrees.values()]))
    assert "plotly" in (shelf / "degrees.html").read_text(encoding="utf-8")
    shown = call("graph", "show", "joined").stdout
    assert ("semantic" in shown, "Contents" in shown) == (True, True)
    assert "Passage" not in call("graph", "show", "joined", "--hubs", "0").stdout
    told = value("graph", "export", "joined", "graph.graphml")
    nodes = ElementTree.parse("graph.graphml").getroot().iter("{http://graphml.graphdrawing.org/xmlns}node")
    assert len(list(nodes)) == told["nodes"] > 50


def test_a_stopped_build_leaves_the_graph_that_was_there_and_verify_compares_it(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = value("graph", "show", "joined")
    with monkeypatch.context() as patched:
        patched.setattr(Library, "build_graph", stopped)
        assert "what the library held before is kept" in refused("graph", "build", "joined", code=130)
    assert value("graph", "show", "joined") == before
    assert value("verify", "-l", "joined")["sound"] is True
    shutil.rmtree(shelf / "joined" / "graph")
    assert value("verify", "-l", "joined", code=4)["problems"] == ["the files of the graph are missing or damaged"]
    assert "Try: catena graph build joined" in refused("verify", "-l", "joined", code=4)


# search


def chains_of(told: dict[str, Any]) -> list[list[str]]:
    return [[hop["chunk"] for hop in chain] for chain in told["chains"]]


def test_a_search_shows_chains_hop_by_hop_and_draws_them(shelf: Path) -> None:
    search = (*SEARCH, "--scorer", "untrained", "-k", "5")
    told = value(*search)
    with Library.open("joined", create=False) as library:
        found = library.search_graph(QUESTION, GraphSearch(scorer=UntrainedScorer()), k=5)
    assert [hit["chunk"]["id"] for hit in told["hits"]] == [hit.chunk.id for hit in found.ranking.hits]
    assert chains_of(told) == [[chunk.id for chunk in chain.chunks] for chain in found.chains]
    hops = [hop for chain in told["chains"] for hop in chain]
    assert all((hop["came_from"] is None) == (hop["edge"] is None) for hop in hops)
    origins = [n and chain[n - 1]["chunk"] for chain in told["chains"] for n in (hop["came_from"] for hop in chain)]
    assert origins == [hop.came_from or None for chain in found.chains for hop in chain.hops]
    joined = next(hop for hop in hops if hop["edge"] is not None)
    assert joined["edge"]["weights"]
    result = call(*search, "--picture", "graph.html", "--strip", "strip.html")
    for part in (f"from {joined['came_from']} by ", "from the first ranking", "fuse", "page", HX200.name):
        assert part in result.stdout
    assert result.stderr.count("written: ") == 2
    for name in ("graph.html", "strip.html"):
        assert "HX200" in (shelf / name).read_text(encoding="utf-8")
    with Library.open("joined", create=False) as library:
        for flags, ranking in (
            ((), library.search(QUESTION)),
            (("--no-graph",), library.search(QUESTION, graph=False)),
        ):
            hits = value("search", QUESTION, "-l", "joined", *flags)["hits"]
            assert [hit["chunk"]["id"] for hit in hits] == [hit.chunk.id for hit in ranking.hits]
    told = refused(*SEARCH, "--where", '{"page": {"$gt": 900}}', "--strip", "none.html", code=1)
    assert "not drawn: none.html" in told
    assert "nothing was found" in told
    assert not (shelf / "none.html").exists()


def test_each_option_of_the_walk_is_obeyed(shelf: Path) -> None:
    search = (*SEARCH, "--scorer", "similarity")

    def with_python(how: WalkOptions, k: int = 10) -> list[list[str]]:
        with Library.open("joined", create=False) as library:
            found = library.search_graph(QUESTION, GraphSearch(walk=how, scorer=SimilarityScorer()), k=k)
        return [[chunk.id for chunk in chain.chunks] for chain in found.chains]

    usual = with_python(WalkOptions())
    assert chains_of(value(*search)) == chains_of(value(*search, "--walk", "best_first")) == usual
    for options, how in {
        "--walk paper --max-length 2": WalkOptions(strategy="paper", max_length=2),
        "--walk beam --beam-width 1": WalkOptions(strategy="beam", width=1),
        "--budget-tokens 150": WalkOptions(budget_tokens=150),
    }.items():
        assert usual != with_python(how) == chains_of(value(*search, *options.split()))
    assert chains_of(value(*search, "-k", "2")) == with_python(WalkOptions(), k=2)


def any_scorer() -> FeatureScorer:
    draw, count = np.random.default_rng(0), len(FEATURES)
    shapes = {"hidden": (2, count, 3), "bias": (2, 3), "out": (2, 3), "mean": (count,)}
    arrays = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return FeatureScorer(weights={**arrays, "spread": np.ones(count, np.float32)})


def test_the_scorer_of_a_file_is_the_one_that_was_saved(shelf: Path) -> None:
    scorer = any_scorer()
    scorer.save("ours.safetensors")
    search = (*SEARCH, "-k", "6")
    with Library.open("joined", create=False) as library:
        found = library.search_graph(QUESTION, GraphSearch(scorer=scorer), k=6)
        identity = library.stats().embedder
    told = value(*search, "--scorer", "ours.safetensors")
    scores = [hop["score"] for chain in told["chains"] for hop in chain]
    assert scores == [hop.score for chain in found.chains for hop in chain.hops]
    assert value(*search, "--scorer", "shipped")["chains"] == value(*search)["chains"] != told["chains"]
    weights = checked_weights(initial_weights(256, 5, 7, 0))
    PaperScorer(weights=weights, encoder=identity).save("paper.safetensors")
    assert value(*search, "--scorer", "paper.safetensors")["chains"] != told["chains"]
    PaperScorer(weights=weights, encoder="another@0").save("other.safetensors")
    (shelf / "text.safetensors").write_text("no scorer", encoding="utf-8")
    wrong = {"other": "embed the library with it", "absent": "there is none", "text": "can be read"}
    for name, said in wrong.items():
        assert said in refused(*search, "--scorer", f"{name}.safetensors")


# ask and index


def test_a_question_is_answered_from_chains(shelf: Path) -> None:
    def answered(body: Any) -> str:
        return "250 mA slow" if "250 mA" in body["messages"][-1]["content"] else "Not answerable."

    with ChatServer(answered, tokens=(100, 5)) as server:
        asked = ("ask", QUESTION, "-l", "joined", "--graph", "-k", "8", "--model", "m", "--base-url", server.url)
        told = value(*asked)
        assert told["answer"] == {"text": "250 mA slow", "answerable": True}
        assert told["chains"]
        (prompt,) = server.prompts
        assert prompt.count("HX200 Pressure Transmitter") >= len(told["hits"])
        shown = call(*asked).stdout
    assert shown.startswith("250 mA slow")
    assert "from the first ranking" in shown
    told = value("ask", HX200, QUESTION, "--graph", "-k", "3", "--strip", "strip.html")
    assert (told["answer"], len(told["hits"])) == (None, 3)
    assert told["chains"]
    assert (shelf / "strip.html").exists()


def test_indexing_keeps_the_graph_that_is_there_and_a_model_may_find_its_keywords(shelf: Path) -> None:
    told = value("index", shelf, "-l", "bare", "--graph")
    assert told["graph"]["nodes"] == told["holds"]["chunks"]
    call("graph", "build", "bare", "--neighbours", "2")
    (shelf / "notes.md").write_text("# Notes\n\nThe blue gasket of the pump is seated by hand.\n", encoding="utf-8")
    told = value("index", shelf, "-l", "bare", "--graph")
    with Library.open("bare", create=False) as library:
        assert library.graph.options.neighbours == 2
        assert told["graph"] == {"nodes": len(library.graph), "edges": int(library.graph.degrees().sum()) // 2}
        assert len(library.documents()) == 3
    with ChatServer(lambda body: '["blue gasket"]', tokens=(50, 5)) as server:
        model = ("--llm", "m", "--base-url", server.url)
        call("index", "notes.md", "-l", "notes", "--graph", "--graph-keywords", "llm", *model)
        assert len(server.prompts) == 1
    with Library.open("notes", create=False) as library:
        (chunk_id,) = library.graph.ids
        assert library.graph.node(chunk_id).keywords == ("blue gasket",)


# train


@pytest.fixture
def questions(shelf: Path) -> Path:
    """Questions about the two manuals of the shelf, as those that come with the demo."""
    rows = [
        {"question": row["question"], "supporting": [{"document": row["document"], "text": row["evidence"]}]}
        for row in json.loads((DEMO / "questions.json").read_text(encoding="utf-8"))
        if "report" not in row["document"]
    ]
    rows.append({"question": "What is it for?", "supporting": []})
    path = shelf / "questions.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


TRAIN = ("graph", "train", "joined", "questions.jsonl", "--output", "ours")


def test_a_scorer_is_trained_on_quoted_evidence_and_used(shelf: Path, questions: Path) -> None:
    told = value(*TRAIN, "--epochs", "2", "--validation", "0.4", "--picture", "loss.html")
    how = ScorerTraining(validation=0.4, features=FeatureTraining(epochs=2, walk=WalkOptions(strategy="best_first")))
    with Library.open("joined", create=False) as library:
        trained = train_library_scorer(library, questions, how)
    assert told["identity"] == trained.scorer.identity == load_scorer("ours").identity
    assert (told["learned"], told["held_out"], told["left_out"]) == (trained.learned, trained.held_out, 1)
    assert list(told["methods"]) == ["first ranking", "untrained", "shipped", "trained"]
    best = trained.recall["trained"].mean
    assert best is not None
    assert told["methods"]["trained"]["recall@5"]["value"] == best.value
    assert len(told["losses"]) == 2
    assert "plotly" in (shelf / "loss.html").read_text(encoding="utf-8")
    assert value(*SEARCH, "--scorer", "ours")["chains"]


def test_what_training_is_worth_is_said_in_words_and_what_is_wrong_with_its_line(
    shelf: Path, questions: Path
) -> None:
    shown = call(*TRAIN, "--epochs", "1", "--walk", "paper", "--seed", "3").stdout
    for part in ("1 question without evidence left out", "first ranking", "against the shipped scorer: "):
        assert part in shown
    whole = call(*TRAIN, "--epochs", "1", "--validation", "0").stdout
    assert ("0 held out" in whole, "shipped" in whole) == (True, False)
    rows = [{"question": "a?"}, {"question": "b?", "supporting": [{"document": "hx200", "text": "x"}]}]
    questions.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert "questions.jsonl, line 2: there is no document 'hx200'" in refused(*TRAIN)


def test_a_stopped_training_says_what_is_kept(questions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.library.training.train_library_scorer", stopped)
    assert "nothing was written" in refused(*TRAIN, code=130)
    kept = refused(*TRAIN, "--scorer", "paper", "--checkpoints", "kept", code=130)
    assert "the last whole epoch is kept in kept" in kept


@pytest.mark.torch
def test_the_papers_scorer_is_trained_from_the_command_line(shelf: Path, questions: Path) -> None:
    rows = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()][:-1]
    for row, following in zip(rows, [*rows[1:], rows[0]], strict=True):
        row["supporting"] = [row["supporting"][0], following["supporting"][0]]
    questions.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    train = (*TRAIN, "--scorer", "paper", "--epochs", "2", "--walk", "paper", "--checkpoints", "kept")
    told = value(*train, "--picture", "loss.html")
    assert len(told["losses"]) <= 2
    assert list((shelf / "kept").iterdir())
    assert value(*train)["identity"] == told["identity"]
    assert value(*SEARCH, "--walk", "paper", "--scorer", "ours")["chains"]
