"""`catena graph`, and chains on the command line: built, searched, asked, exported and trained, on our manuals."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from cli_calls import at_home, call, refused, value

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
TORQUE = "To what torque are the cover screws of the HX210 tightened?"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two manuals, indexed: with a graph and without one."""
    folder = tmp_path_factory.mktemp("made")
    for name in ("hx200", "hx210"):
        shutil.copy(DEMO / f"halden-{name}-manual.pdf", folder)
    call("index", str(folder), "-l", str(folder / "bare"))
    shutil.copytree(folder / "bare", folder / "joined")
    call("graph", "build", str(folder / "joined"))
    return folder


@pytest.fixture
def shelf(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    at_home(tmp_path, monkeypatch)
    return tmp_path


# build, show, export, drop


@pytest.mark.slow
def test_a_graph_is_built_as_the_options_say(shelf: Path) -> None:
    told = value("graph", "build", "bare", "--neighbours", "2", "--keywords-more-than", "1", "--no-mentions")
    wanted = GraphOptions(neighbours=2, keywords_more_than=1, mentions=False)
    with Library.open("bare", create=False) as library:
        graph = library.graph
        assert graph.options == wanted
        assert told["nodes"] == len(graph) == library.stats().chunks
        links = {kind: len(graph.links(kind).targets) // 2 for kind in graph.kinds}
        neighbours = int(graph.degrees().sum()) // 2
    kinds = {each["kind"]: each for each in told["kinds"]}
    assert {name: each["edges"] for name, each in kinds.items()} == {**links, "all kinds": neighbours}


@pytest.mark.slow
def test_a_graph_is_shown_with_its_hubs_and_drawn(shelf: Path) -> None:
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
    assert "plotly" in (shelf / "degrees.html").read_text(encoding="utf-8")
    shown = call("graph", "show", "joined").stdout
    assert "semantic" in shown
    assert "Contents" in shown
    assert "Passage" not in call("graph", "show", "joined", "--hubs", "0").stdout


def test_a_graph_goes_to_other_programs(shelf: Path) -> None:
    told = value("graph", "export", "joined", "graph.graphml")
    nodes = ElementTree.parse("graph.graphml").getroot().iter("{http://graphml.graphdrawing.org/xmlns}node")
    assert len(list(nodes)) == told["nodes"] > 50
    assert "does not end in .graphml" in refused("graph", "export", "joined", "graph.csv")
    assert "its folder is not there" in refused("graph", "export", "joined", "nowhere/graph.graphml")


@pytest.mark.slow
def test_a_graph_is_dropped_and_the_library_stays(shelf: Path) -> None:
    assert value("graph", "drop", "joined")["dropped"] is True
    assert "there was no graph" in call("graph", "drop", "joined").stdout
    assert "catena graph build joined" in refused("search", QUESTION, "-l", "joined", "--graph")
    assert value("search", QUESTION, "-l", "joined")["hits"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("graph", "show", "bare"),
        ("graph", "export", "bare", "g.graphml"),
        ("search", QUESTION, "-l", "bare", "--graph"),
    ],
)
def test_without_a_graph_it_says_how_to_build_one(shelf: Path, arguments: tuple[str, ...]) -> None:
    said = refused(*arguments)
    assert "library bare has no graph" in said
    assert "Try: catena graph build bare" in said


def test_verify_compares_the_graph_too(shelf: Path) -> None:
    assert value("verify", "-l", "joined")["sound"] is True
    for file in (shelf / "joined" / "graph").rglob("*"):
        if file.is_file():
            file.unlink()
    told = value("verify", "-l", "joined", code=4)
    assert told["problems"] == ["the files of the graph are missing or damaged"]
    assert "Try: catena graph build joined" in call("verify", "-l", "joined", code=4).stderr


def test_a_stopped_build_leaves_the_graph_that_was_there(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    before = value("graph", "show", "joined")
    monkeypatch.setattr(Library, "build_graph", stopped)
    assert "what the library held before is kept" in call("graph", "build", "joined", code=130).stderr
    assert value("graph", "show", "joined") == before


# search


def test_a_search_shows_chains_hop_by_hop(shelf: Path) -> None:
    told = value("search", QUESTION, "-l", "joined", "--graph", "--scorer", "untrained", "-k", "5")
    shown = call("search", QUESTION, "-l", "joined", "--graph", "--scorer", "untrained", "-k", "5").stdout
    with Library.open("joined", create=False) as library:
        found = library.search_graph(QUESTION, GraphSearch(scorer=UntrainedScorer()), k=5)
    assert [hit["chunk"]["id"] for hit in told["hits"]] == [hit.chunk.id for hit in found.ranking.hits]
    assert [[hop["chunk"] for hop in chain] for chain in told["chains"]] == [
        [chunk.id for chunk in chain.chunks] for chain in found.chains
    ]
    hops = [hop for chain in told["chains"] for hop in chain]
    assert all((hop["came_from"] is None) == (hop["edge"] is None) for hop in hops)
    joined = next(hop for hop in hops if hop["edge"] is not None)
    assert joined["edge"]["weights"]
    assert f"from {joined['came_from']} by " in shown
    assert "from the first ranking" in shown
    assert "fuse" in shown
    assert "page" in shown
    assert "halden-hx200-manual.pdf" in shown


@pytest.mark.slow
def test_each_option_of_the_walk_is_obeyed(shelf: Path) -> None:
    search = ("search", QUESTION, "-l", "joined", "--graph", "--scorer", "similarity")

    def with_python(how: WalkOptions, k: int = 10) -> list[list[str]]:
        with Library.open("joined", create=False) as library:
            found = library.search_graph(QUESTION, GraphSearch(walk=how, scorer=SimilarityScorer()), k=k)
        return [[chunk.id for chunk in chain.chunks] for chain in found.chains]

    def on_the_line(*options: str) -> list[list[str]]:
        return [[hop["chunk"] for hop in chain] for chain in value(*search, *options)["chains"]]

    usual = with_python(WalkOptions())
    assert on_the_line() == on_the_line("--walk", "best_first") == usual
    for options, how in (
        (("--walk", "paper"), WalkOptions(strategy="paper")),
        (("--walk", "paper", "--max-length", "2"), WalkOptions(strategy="paper", max_length=2)),
        (("--walk", "beam", "--beam-width", "1"), WalkOptions(strategy="beam", width=1)),
        (("--budget-tokens", "150"), WalkOptions(budget_tokens=150)),
    ):
        chains = with_python(how)
        assert on_the_line(*options) == chains
        assert chains != usual
    assert on_the_line("-k", "2") == with_python(WalkOptions(), k=2)
    told = value(*search, "--where", '{"page": {"$lte": 6}}', "--route", "lexical", "--route", "dense")
    assert told["hits"]
    assert all(hit["chunk"]["pages"][0] <= 6 for hit in told["hits"])


def any_scorer() -> FeatureScorer:
    draw, count = np.random.default_rng(0), len(FEATURES)
    shapes = {"hidden": (2, count, 3), "bias": (2, 3), "out": (2, 3), "mean": (count,)}
    arrays = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return FeatureScorer(weights={**arrays, "spread": np.ones(count, np.float32)})


@pytest.mark.slow
def test_the_scorer_of_a_file_is_the_one_that_was_saved(shelf: Path) -> None:
    scorer = any_scorer()
    scorer.save("ours.safetensors")
    search = ("search", QUESTION, "-l", "joined", "--graph", "-k", "6")
    with Library.open("joined", create=False) as library:
        found = library.search_graph(QUESTION, GraphSearch(scorer=scorer), k=6)
        identity = library.stats().embedder
    told = value(*search, "--scorer", "ours.safetensors")
    assert [hop["score"] for chain in told["chains"] for hop in chain] == [
        hop.score for chain in found.chains for hop in chain.hops
    ]
    assert value(*search, "--scorer", "shipped")["chains"] == value(*search)["chains"] != told["chains"]
    weights = checked_weights(initial_weights(256, 5, 7, 0))
    PaperScorer(weights=weights, encoder=identity).save("paper.safetensors")
    assert value(*search, "--scorer", "paper.safetensors")["chains"] != told["chains"]
    PaperScorer(weights=weights, encoder="another@0").save("other.safetensors")
    assert "embed the library with it" in refused(*search, "--scorer", "other.safetensors")
    assert "there is none" in refused(*search, "--scorer", "absent.safetensors")
    (shelf / "text.safetensors").write_text("no scorer", encoding="utf-8")
    assert "can be read" in refused(*search, "--scorer", "text.safetensors")


def test_chains_are_drawn(shelf: Path) -> None:
    search = ("search", QUESTION, "-l", "joined", "--graph", "--scorer", "untrained", "-k", "4")
    said = call(*search, "--picture", "graph.html", "--strip", "strip.html").stderr
    assert said.count("written: ") == 2
    for name in ("graph.html", "strip.html"):
        assert "HX200" in (shelf / name).read_text(encoding="utf-8")


def test_where_nothing_is_found_nothing_is_drawn(shelf: Path) -> None:
    nothing = ("--where", '{"page": {"$gt": 900}}')
    result = call("search", QUESTION, "-l", "joined", "--graph", *nothing, "--strip", "strip.html", code=1)
    assert "not drawn: strip.html" in result.stderr
    assert "nothing was found" in result.stderr
    assert not (shelf / "strip.html").exists()


@pytest.mark.slow
def test_options_that_would_do_nothing_are_refused(shelf: Path) -> None:
    search = ("search", QUESTION, "-l", "joined")
    for options in (
        ("--walk", "paper"), ("--scorer", "untrained"), ("--max-length", "2"), ("--beam-width", "2"),
        ("--picture", "a.png"), ("--strip", "a.png"),
    ):  # fmt: skip
        assert f"{options[0]} is about chains" in refused(*search, *options)
    assert "--walk is about chains" in refused("ask", str(HX200), QUESTION, "--walk", "paper")
    for options in (("--section",), ("--entity", "HX200"), ("--no-names",)):
        assert "--graph obeys no" in refused(*search, "--graph", *options)
    for options in (("--segments",), ("--passages",), ("--views", "all"), ("--figures",)):
        assert "each say what is to be found" in refused(*search, "--graph", *options)
    assert "is about segments" in refused(*search, "--graph", "--preset", "balanced")
    assert "--walk beam with it" in refused(*search, "--graph", "--beam-width", "2")
    assert "neither .png nor .html" in refused(*search, "--graph", "--picture", "a.pdf")
    assert "--graph obeys no --segments" in refused("ask", str(HX200), QUESTION, "--graph", "--segments")
    assert "--graph obeys no --entity" in refused("ask", str(HX200), QUESTION, "--graph", "--entity", "HX200")


# ask and index


@pytest.fixture
def server() -> Iterator[ChatServer]:
    def answered(body) -> str:
        return "250 mA slow" if "250 mA" in body["messages"][-1]["content"] else "Not answerable."

    with ChatServer(answered, tokens=(100, 5)) as made:
        yield made


@pytest.mark.slow
def test_a_question_is_answered_from_chains(shelf: Path, server: ChatServer) -> None:
    asked = ("ask", QUESTION, "-l", "joined", "--graph", "-k", "8", "--model", "m", "--base-url", server.url)
    told = value(*asked)
    assert told["answer"] == {"text": "250 mA slow", "answerable": True}
    assert told["chains"]
    assert len(server.prompts) == 1
    prompt = str(server.prompts[0])
    assert prompt.count("HX200 Pressure Transmitter") >= len(told["hits"])
    shown = call(*asked).stdout
    assert shown.startswith("250 mA slow")
    assert "from the first ranking" in shown


def test_without_a_model_the_chains_are_the_answer(shelf: Path) -> None:
    told = value("ask", str(HX200), QUESTION, "--graph", "-k", "3", "--strip", "strip.html")
    assert told["answer"] is None
    assert len(told["hits"]) == 3
    assert told["chains"]
    assert (shelf / "strip.html").exists()


@pytest.mark.slow
def test_a_model_that_fails_leaves_the_chains(shelf: Path) -> None:
    unreachable = ("--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    result = call("ask", QUESTION, "-l", "joined", "--graph", "-k", "3", *unreachable, code=2)
    assert "no answer was written" in result.stderr
    assert "from the first ranking" in result.stdout


def test_indexing_keeps_the_graph_that_is_there(shelf: Path) -> None:
    told = value("index", str(shelf), "-l", "bare", "--graph")
    assert told["graph"]["nodes"] == told["holds"]["chunks"]
    call("graph", "build", "bare", "--neighbours", "2")
    shutil.copy(DEMO / "halden-field-reliability-report-2025.pdf", shelf)
    told = value("index", str(shelf), "-l", "bare", "--graph")
    with Library.open("bare", create=False) as library:
        assert library.graph.options.neighbours == 2
        assert told["graph"] == {"nodes": len(library.graph), "edges": int(library.graph.degrees().sum()) // 2}
        assert len(library.documents()) == 3


def test_keywords_of_the_graph_by_a_model(shelf: Path) -> None:
    (shelf / "notes.md").write_text("# Notes\n\nThe blue gasket of the pump is seated by hand.\n", encoding="utf-8")
    assert "--graph with it" in refused("index", "notes.md", "-l", "notes", "--graph-keywords", "offline")
    llm = ("--graph", "--graph-keywords", "llm")
    assert "--llm NAME" in refused("index", "notes.md", "-l", "notes", *llm)
    with ChatServer(lambda body: '["blue gasket"]', tokens=(50, 5)) as server:
        call("index", "notes.md", "-l", "notes", *llm, "--llm", "m", "--base-url", server.url)
        assert len(server.prompts) == 1
    with Library.open("notes", create=False) as library:
        (chunk_id,) = library.graph.ids
        assert library.graph.node(chunk_id).keywords == ("blue gasket",)


# train


def evidence(folder: Path) -> Path:
    """Questions about the two manuals of the shelf, as those that come with the demo."""
    rows = [
        {"question": row["question"], "supporting": [{"document": row["document"], "text": row["evidence"]}]}
        for row in json.loads((DEMO / "questions.json").read_text(encoding="utf-8"))
        if "report" not in row["document"]
    ]
    rows.append({"question": "What is it for?", "supporting": []})
    path = folder / "questions.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_a_scorer_is_trained_on_quoted_evidence_and_used(shelf: Path) -> None:
    questions = evidence(shelf)
    train = ("graph", "train", "joined", str(questions), "--epochs", "2", "--validation", "0.4")
    told = value(*train, "--output", "ours", "--picture", "loss.html")
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
    assert value("search", QUESTION, "-l", "joined", "--graph", "--scorer", "ours")["chains"]


def test_what_training_is_worth_is_said_in_words(shelf: Path) -> None:
    questions = evidence(shelf)
    train = ("graph", "train", "joined", str(questions), "--epochs", "1", "--output", "ours")
    shown = call(*train, "--walk", "paper", "--seed", "3").stdout
    assert "1 question without evidence left out" in shown
    assert "first ranking" in shown
    assert "against the shipped scorer: " in shown
    whole = call(*train, "--validation", "0").stdout
    assert "0 held out" in whole
    assert "shipped" not in whole


def test_what_cannot_be_trained_is_said_with_the_line(shelf: Path) -> None:
    questions = shelf / "questions.jsonl"
    rows = [{"question": "a?"}, {"question": "b?", "supporting": [{"document": "hx200", "text": "x"}]}]
    questions.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    train = ("graph", "train", "joined", str(questions), "--output", "ours")
    assert "questions.jsonl, line 2: there is no document 'hx200'" in refused(*train)
    assert "library bare has no graph" in refused("graph", "train", "bare", str(questions), "--output", "ours")
    for options in (("--encoder", "m"), ("--fine-tune",), ("--checkpoints", "c")):
        assert "--scorer paper with it" in refused(*train, *options)
    assert "--encoder MODEL" in refused(*train, "--scorer", "paper", "--fine-tune")
    assert "--checkpoints DIR" in refused(*train, "--scorer", "paper", "--fine-tune", "--encoder", "m")
    assert "its folder is not there" in refused(*train[:-1], "nowhere/ours")
    assert "neither .png nor .html" in refused(*train, "--picture", "loss.pdf")
    assert not (shelf / "ours").exists()


def test_a_stopped_training_says_what_is_kept(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("catena.library.training.train_library_scorer", stopped)
    train = ("graph", "train", "joined", str(evidence(shelf)), "--output", "ours")
    assert "nothing was written" in call(*train, code=130).stderr
    kept = call(*train, "--scorer", "paper", "--checkpoints", "kept", code=130).stderr
    assert "the last whole epoch is kept in kept" in kept


@pytest.mark.torch
def test_the_papers_scorer_is_trained_from_the_command_line(shelf: Path) -> None:
    questions = evidence(shelf)
    rows = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()][:-1]
    for row, following in zip(rows, [*rows[1:], rows[0]], strict=True):
        row["supporting"] = [row["supporting"][0], following["supporting"][0]]
    questions.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    train = ("graph", "train", "joined", str(questions), "--scorer", "paper", "--epochs", "2")
    told = value(*train, "--walk", "paper", "--checkpoints", "kept", "--output", "ours", "--picture", "loss.html")
    assert len(told["losses"]) <= 2
    assert list((shelf / "kept").iterdir())
    again = value(*train, "--walk", "paper", "--checkpoints", "kept", "--output", "ours")
    assert again["identity"] == told["identity"]
    assert value("search", QUESTION, "-l", "joined", "--graph", "--walk", "paper", "--scorer", "ours")["chains"]
