"""Training in one call: questions learned from and held out, the measures, evidence quoted from documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk
from written_rows import write_rows

from catena import Hit, LibraryError
from catena.effects import Cancel, Services, run
from catena.graph import (
    PAPER,
    ChunkGraph,
    FeatureProgress,
    FeatureScorer,
    FeatureTraining,
    GraphSearch,
    PaperScorer,
    TrainingOptions,
    TrainingQuestion,
    UntrainedScorer,
    WalkOptions,
    initial_weights,
    node_of,
    search_graph,
    widen,
)
from catena.library import Library, ScorerTraining, load_scorer, train_library_scorer, train_scorer
from catena.library.training_questions import (
    ALL,
    FIRST,
    RECALL,
    FirstStage,
    cases_of,
    held_out,
    measured,
    read_supported_questions,
)
from catena.model import CancelledError, Chunk, EvaluationError, MissingServiceError, ParameterError, Ranking, Scale
from catena.retrieval import retrieve
from catena.testing import FakeEmbedder

PLACES = ("Aldham", "Brook", "Corby", "Dunmow", "Exning", "Foxton", "Girton", "Histon", "Iwade", "Jarrow")
QUICK = FeatureTraining(networks=1, units=2, rounds=1, epochs=3)
HOW = ScorerTraining(features=QUICK, validation=0.3)


def page(name: str, text: str, position: int) -> Chunk:
    document = name.removesuffix(" mill")
    return chunk(name, text, start=1_000 * position, document_id=document, position=position, path=(name,))


def pages() -> list[Chunk]:
    """Mills, each of which stands in a place that the next page tells of."""
    mills = [page(f"{place} mill", f"The mill of {place[::-1].title()} stands in {place}.", 0) for place in PLACES]
    river = "{} lies on the river {}wash, which is cold."
    return mills + [page(place, river.format(place, place[:3]), 1) for place in PLACES]


def question(place: str) -> TrainingQuestion:
    text = f"On which river is the mill of {place[::-1].title()}?"
    return TrainingQuestion(question=text, supporting=(f"{place} mill", place))


@pytest.fixture(scope="module")
def graph() -> ChunkGraph:
    embedder = FakeEmbedder(16)
    nodes = [node_of(each) for each in pages()]
    return ChunkGraph.build(nodes, embedder.embed_documents([each.text for each in pages()]))


def ranking_of(place: str) -> Ranking:
    """The mill first, then others; the page about the place is not among them."""
    held = {each.id: each for each in pages()}
    names = [f"{place} mill", *(f"{other} mill" for other in PLACES if other != place)][:6]
    return Ranking.of((Hit(held[name], 1.0 / at) for at, name in enumerate(names, start=1)), Scale.RANK)


def services(graph: ChunkGraph) -> Services:
    return Services(embedder=FakeEmbedder(16), graph=graph)


QUESTIONS = [question(place) for place in PLACES]
RANKINGS = [ranking_of(place) for place in PLACES]


# what is held out


@given(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=20), st.floats(0.0, 0.6), st.integers(0, 5))
def test_equal_questions_are_on_one_side_whatever_their_order(texts: list[str], share: float, seed: int) -> None:
    if len(set(texts)) < 3:
        return
    aside = held_out(texts, share, seed)
    of_aside = {texts[place] for place in aside}
    assert of_aside.isdisjoint(texts[place] for place in range(len(texts)) if place not in aside)
    assert len(of_aside) == (0 if share == 0 else max(1, round(share * len(set(texts)))))
    assert {texts[::-1][place] for place in held_out(texts[::-1], share, seed)} == of_aside
    with pytest.raises(ParameterError, match="more than 1, to learn from"):
        held_out(["one", "one"], 0.1, 0)


# training


def test_a_scorer_is_trained_and_measured_on_questions_held_out(graph: ChunkGraph) -> None:
    told: list[FeatureProgress] = []
    trained = train_scorer(QUESTIONS, services(graph), HOW, rankings=RANKINGS, watch=told.append)
    assert (trained.learned, trained.held_out, trained.left_out) == (7, 3, 0)
    assert list(trained.recall) == [FIRST, "untrained", "shipped", "trained"]
    assert set(trained.recall[FIRST].per_question.values()) == {0.5}  # the mill, never its place
    assert set(trained.complete[FIRST].per_question.values()) == {0.0}
    assert len(trained.losses) == QUICK.epochs
    assert str(trained).startswith("learned from 7 questions; recall@5 on 3 others: first ranking 0.500")
    stages = list(dict.fromkeys(each.stage for each in told))
    assert stages == ["questions", "walks", "networks", "validation"]
    for stage, total in (("questions", 10), ("validation", 3 * 3)):
        done = [(each.done, each.total) for each in told if each.stage == stage]
        assert done == [(number, total) for number in range(1, total + 1)]
    record = trained.scorer.record
    assert (record["learned"], record["held_out"], record[RECALL][FIRST], record[ALL][FIRST]) == (7, 3, 0.5, 0.0)
    json.dumps(record)


def test_equal_calls_give_equal_weights_and_nothing_is_learned_from_what_is_held_out(graph: ChunkGraph) -> None:
    one = train_scorer(QUESTIONS, services(graph), HOW, rankings=RANKINGS)
    wrong = list(QUESTIONS)
    for place in held_out([each.question for each in QUESTIONS], HOW.validation, HOW.seed):
        wrong[place] = replace(wrong[place], supporting=("Histon",))
    other = train_scorer(wrong, services(graph), HOW, rankings=RANKINGS)
    assert other.scorer.identity == one.scorer.identity
    assert other.recall != one.recall
    all_of_them = train_scorer(QUESTIONS, services(graph), replace(HOW, validation=0.0), rankings=RANKINGS)
    assert all_of_them.scorer.identity != one.scorer.identity
    assert not all_of_them.recall
    assert (all_of_them.learned, all_of_them.left_out) == (10, 0)
    more = [TrainingQuestion(question="Who was it?", supporting=()), *QUESTIONS]
    with_none = train_scorer(more, services(graph), HOW, rankings=[RANKINGS[0], *RANKINGS])
    assert (with_none.left_out, with_none.scorer.identity) == (1, one.scorer.identity)
    by_paper = ScorerTraining(walk=PAPER, features=replace(QUICK, walk=PAPER), validation=0.3)
    assert train_scorer(QUESTIONS, services(graph), by_paper, rankings=RANKINGS).recall
    assert "not measured" in str(all_of_them)


def test_what_does_not_fit_together_is_said_before_anything_is_learned(graph: ChunkGraph) -> None:
    given_services = services(graph)
    for how, more, what in (
        (HOW, {"rankings": RANKINGS[:3]}, "one for each of 10 questions"),
        (HOW, {"folder": "x"}, "that takes seconds"),
        (HOW, {"encoder": "model"}, "given with fine_tune"),
        (ScorerTraining(kind="paper", fine_tune=True), {}, "given with fine_tune"),
    ):
        with pytest.raises(ParameterError, match=what):
            train_scorer(QUESTIONS, given_services, how, **{"rankings": RANKINGS, **more})  # type: ignore[arg-type]
    for count in (3, 4):
        lost = replace(QUESTIONS[0], supporting=tuple("abcd"[:count]))
        with pytest.raises(ParameterError, match=f"{count} are not: a, b, c{', …' * (count > 3)}'"):
            train_scorer([lost, *QUESTIONS[1:]], given_services, HOW, rankings=RANKINGS)
    with pytest.raises(MissingServiceError, match="Expand"):
        train_scorer(QUESTIONS, Services(embedder=FakeEmbedder(16)), HOW, rankings=RANKINGS)
    with pytest.raises(MissingServiceError, match="Search"):
        train_scorer(QUESTIONS, given_services, HOW)
    with pytest.raises(ParameterError, match="path"):
        ScorerTraining(path="texts")
    stop = Cancel()
    stop.set()
    with pytest.raises(CancelledError):
        train_scorer(QUESTIONS, given_services, HOW, rankings=RANKINGS, cancel=stop)


@pytest.mark.torch
def test_the_papers_scorer_is_trained_with_checkpoints(graph: ChunkGraph, tmp_path: Path) -> None:
    network = TrainingOptions(epochs=2, hidden=8, edge_hidden=4, batch=4, device="cpu", validation=0.2)
    for walk in (WalkOptions(), PAPER):
        how = ScorerTraining(kind="paper", walk=walk, network=network, validation=0.2)
        told: list[FeatureProgress] = []
        folder = tmp_path / walk.strategy
        one = train_scorer(QUESTIONS, services(graph), how, rankings=RANKINGS, folder=folder, watch=told.append)
        assert isinstance(one.scorer, PaperScorer)
        assert one.scorer.encoder == FakeEmbedder(16).identity
        assert one.losses == tuple(epoch.loss for epoch in one.report.epochs)
        assert "trained" in one.recall
        assert "epochs" in {each.stage for each in told}
        again = train_scorer(QUESTIONS, services(graph), how, rankings=RANKINGS, folder=folder)
        assert again.scorer.identity == one.scorer.identity


# files of scorers


def test_a_scorer_of_either_kind_is_loaded(tmp_path: Path) -> None:
    weights, path = initial_weights(4, 3, 3, 0), tmp_path / "new" / "scorer"
    paper = PaperScorer(weights=weights, encoder="maker/model@12ab", path="texts", record={"data": "ours", "n": 3})
    small = FeatureScorer(weights=FeatureScorer.shipped().weights, record={"questions": 3})
    for scorer, encoder in ((small, "whatever"), (paper, "a/copy@12ab")):
        scorer.save(path)
        loaded = load_scorer(path, encoder=encoder)
        assert (type(loaded), loaded.identity, loaded.record) == (type(scorer), scorer.identity, scorer.record)
        assert all((loaded.weights[name] == each).all() for name, each in scorer.weights.items())
        loaded.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert [each.name for each in path.parent.iterdir()] == ["scorer"]
    loaded = load_scorer(path)
    assert (loaded.encoder, loaded.path, loaded.dim) == (paper.encoder, "texts", 4)
    with pytest.raises(ParameterError, match="embed the library with it"):
        load_scorer(path, encoder="maker/model@ffff")
    (tmp_path / "text").write_text("no scorer", encoding="utf-8")
    for name in ("text", "absent"):
        with pytest.raises(ParameterError, match="can be read"):
            load_scorer(tmp_path / name)


# over a library, with quoted evidence


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("places")
    for each in pages():
        (folder / f"{each.id}.md").write_text(f"# {each.path[0]}\n\n{each.text}\n", encoding="utf-8")
    with Library.open(folder / "library") as opened:
        opened.index(folder)
        opened.build_graph()
        yield opened


def read(library: Library, path: Path) -> tuple[TrainingQuestion, ...]:
    return read_supported_questions(path, [each.id for each in library.documents()], library.get, library.graph)


def test_evidence_is_found_by_its_words(library: Library, tmp_path: Path) -> None:
    mill, place = (library.get(f"Brook{more}.md").chunks[0].id for more in (" mill", ""))
    rows = [
        {"question": "a?", "supporting": [mill, {"document": "Brook.md", "text": "Brook lies on the river"}]},
        {"question": "b?", "supporting": [{"source": "folder/Brook.md", "text": "which\n is  cold"}, place]},
        {"question": "c?", "supporting": [{"text": "stands in Brook"}], "answer": "x"},
        {"question": "d?", "supporting": []},
        {"question": "e?"},
    ]
    found = read(library, write_rows(tmp_path / "q.jsonl", rows))
    assert [each.supporting for each in found] == [(mill, place), (place,), (mill,), (), ()]
    everywhere = {"question": "f?", "supporting": [{"text": "which is cold"}]}
    (alone,) = read(library, write_rows(tmp_path / "q.jsonl", [everywhere]))
    assert len(alone.supporting) == len(PLACES)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"supporting": ["nobody"]}, "there is no chunk 'nobody' in the graph"),
        ({"supporting": [{"document": "Brook.md", "text": "a hot river"}]}, "no chunk in 'Brook.md'"),
        ({"supporting": [{"text": "a hot river"}]}, "no chunk in any document holds the quote"),
        ({"supporting": [{"document": "Ely.md", "text": "x"}]}, "there is no document 'Ely.md'"),
        ({"supporting": [{"document": "Brook.md"}]}, "evidence needs a 'text'"),
        ({"supporting": "Brook"}, "'supporting' must be a list"),
        ({"question": " ", "supporting": []}, "'question' must be a text"),
    ],
)
def test_a_line_that_is_of_no_use_is_named(library: Library, tmp_path: Path, row: object, said: str) -> None:
    path = write_rows(tmp_path / "q.jsonl", [{"question": "fine?", "supporting": []}, {"question": "a?", **row}])
    with pytest.raises(EvaluationError, match=said) as raised:
        read(library, path)
    assert "q.jsonl, line 2: " in str(raised.value)
    with pytest.raises(EvaluationError, match=r"q\.jsonl holds no question"):
        read(library, write_rows(path, []))


def test_what_is_measured_is_the_walk_of_a_search(graph: ChunkGraph) -> None:
    given_services, hand = services(graph), UntrainedScorer()
    cases = run(cases_of(QUESTIONS, RANKINGS, keywords=True), given_services)
    assert all(case.question.keywords for case in cases)
    results = run(measured(cases, {"hand": hand}, WalkOptions()), given_services)
    for place, (each, ranking) in enumerate(zip(QUESTIONS, RANKINGS, strict=True)):
        step = widen(each.question, ranking, GraphSearch(scorer=hand, on_graph_error="raise"), k=5)
        found = {hit.chunk.id for hit in run(step, given_services).ranking.hits}
        expected = len(found & set(each.supporting)) / 2
        of_both = [results[measure]["hand"].per_question[str(place)] for measure in (RECALL, ALL)]
        assert of_both == [expected, float(expected == 1)]


def test_a_library_trains_on_a_file_and_walks_by_what_it_learned(library: Library, tmp_path: Path) -> None:
    said = {each.question: [{"document": f"{n}.md", "text": n} for n in each.supporting] for each in QUESTIONS}
    rows = [{"question": question, "supporting": supporting} for question, supporting in said.items()]
    path = write_rows(tmp_path / "q.jsonl", rows)
    trained = train_library_scorer(library, path, HOW)
    assert trained.scorer.identity == train_library_scorer(library, read(library, path), HOW).scorer.identity
    how = GraphSearch(scorer=trained.scorer)
    assert library.search_graph(QUESTIONS[0].question, how).chains
    cases = run(cases_of(read(library, path)[:1], FirstStage(depth=7)), library.services)
    assert cases[0].ranking == run(retrieve(QUESTIONS[0].question, k=7), library.services)
    first = run(search_graph(QUESTIONS[0].question, how, k=5), library.services).first
    assert run(cases_of(read(library, path)[:1], FirstStage()), library.services)[0].ranking == first
    with Library.open(tmp_path / "bare") as bare, pytest.raises(LibraryError, match="no graph"):
        train_library_scorer(bare, QUESTIONS)
