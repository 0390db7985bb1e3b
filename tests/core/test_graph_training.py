"""Training lists from graphs drawn by hand, worked out on paper; shortest paths against networkx; files and errors.

```text
    n1 -- a -- b -- d -- e
          |    |    |
          |    n2   |
          +--- c ---+
```
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from graph_fakes import FakeGraph
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk
from written_rows import write_rows

from catena.effects import Services, run
from catena.graph import ListOptions, TrainingQuestion, texts_of, training_lists, vectors_of
from catena.graph.training_data import (
    Adjacency,
    TrainingList,
    read_training_questions,
    shortest_paths,
    training_arrays,
)
from catena.model import EvaluationError, ParameterError
from catena.testing import FakeEmbedder

Pairs = Iterable[tuple[str, str]]
DRAWN = [("a", "b"), ("a", "c"), ("a", "n1"), ("b", "d"), ("b", "n2"), ("c", "d"), ("d", "e")]


def graph_of(pairs: Pairs, names: str | Sequence[str] = ()) -> FakeGraph:
    pairs = list(pairs)
    every = sorted({*names, *(name for pair in pairs for name in pair)})
    vectors = {name: FakeEmbedder(8).embed_query(f"text of {name}") for name in every}
    return FakeGraph(
        [chunk(name, f"text of {name}") for name in every], vectors, {pair: {"semantic": 0.5} for pair in pairs}
    )


def asked(*supporting: str) -> TrainingQuestion:
    return TrainingQuestion(question="Who?", supporting=supporting)


def a_list(path: str, rows: str, froms: Sequence[int], right: str) -> TrainingList:
    """`rows` and `path` name nodes, apart by blanks."""
    candidates, nodes = tuple(rows.split()), tuple(path.split())
    positive = tuple(node in right.split() for node in candidates)
    return TrainingList(question=0, path=nodes, candidates=candidates, froms=tuple(froms), positive=positive)


def test_lists_of_shortest_paths_by_hand() -> None:
    found = training_lists([asked("e", "a")], graph_of(DRAWN))
    assert found.lists == (
        a_list("a", "b c n1", [0, 0, 0], "b"),
        a_list("a b", "d n2", [1, 1], "d"),
        a_list("a b d", "c e", [2, 2], "e"),
        a_list("e d", "b c", [1, 1], "b"),
        a_list("e d b", "a n2", [2, 2], "a"),
    )
    assert found.hops == ((3, 2),)
    assert (found.unreached, found.without_choice, found.alone) == (0, 1, 0)  # from e nothing but d leads on
    several = training_lists([asked("a", "c", "e")], graph_of(DRAWN)).lists
    first = next(each for each in several if each.path == ("a",))
    assert first == a_list("a", "b c n1", [0, 0, 0], "b c")  # on to e by b, and c itself
    questions = [asked("a", "e"), asked("a", "b"), asked("b")]
    far = training_lists(questions, graph_of(DRAWN), ListOptions(max_hops=2))
    assert (far.hops, far.unreached, far.alone) == (((1, 2),), 2, 1)
    assert {each.question for each in far.lists} == {1}
    assert "not joined: 2" in str(far)


def test_best_first_lists_by_hand() -> None:
    options = ListOptions(kind="best_first", first=2)
    found = training_lists([asked("a", "b", "d")], graph_of(DRAWN), options, rankings=[["n1", "d", "e"]])
    of_a = [each for each in found.lists if each.path[0] == "a"]
    assert of_a == [
        a_list("a", "b c d n1", [0] * 4, "b d"),
        a_list("a d", "b b c c e n1 n1", [0, 1, 0, 1, 1, 0, 1], "b"),  # d is ranked, so it is taken before b
    ]
    assert {each.path[0] for each in found.lists} == {"a", "b", "d", "n1"}  # the first of the ranking leads on too


def test_a_shortest_path_is_the_first_by_its_ids() -> None:
    graph = graph_of(DRAWN)
    near = Adjacency(graph)
    assert shortest_paths(near, "a", ["e", "a", "absent"], 4) == {"e": ("a", "b", "d", "e"), "a": ("a",)}
    assert shortest_paths(near, "e", ["a"], 3) == {"a": ("e", "d", "b", "a")}
    assert shortest_paths(near, "a", ["e"], 2) == {}
    expanded = [chunk_id for call in graph.calls for chunk_id in call.chunk_ids]
    assert len(set(expanded)) == len(expanded)  # each node is asked of the graph once


names = st.sampled_from("abcdefghij")
pairs_of_any_shape = st.lists(
    st.tuples(names, names).filter(lambda pair: pair[0] < pair[1]), max_size=25, unique=True
)


@given(pairs_of_any_shape, names)
def test_shortest_paths_are_those_of_networkx(pairs: list[tuple[str, str]], start: str) -> None:
    oracle = nx.Graph(pairs)
    oracle.add_nodes_from("abcdefghij")
    found = shortest_paths(Adjacency(graph_of(pairs, "abcdefghij")), start, "abcdefghij", 10)
    reached = nx.node_connected_component(oracle, start)
    assert set(found) == reached
    for end in reached:
        assert list(found[end]) == min(nx.all_shortest_paths(oracle, start, end))


@given(pairs_of_any_shape, st.sets(names, min_size=2, max_size=4), st.integers(1, 4), st.integers(0, 3))
def test_laws_of_lists(pairs: list[tuple[str, str]], supporting: set[str], most: int, seed: int) -> None:
    graph = graph_of(pairs, "abcdefghij")
    question = asked(*sorted(supporting))
    for kind in ("paths", "best_first"):
        options = ListOptions(kind=kind, negatives=most, seed=seed, first=3)
        rankings = [["j", "a", "c", "e"]] if kind == "best_first" else []
        try:
            found = training_lists([question], graph, options, rankings=rankings)
        except ParameterError:  # the graph joins none of them
            continue
        for each in found.lists:
            wrong = [node for node, right in zip(each.candidates, each.positive, strict=True) if not right]
            assert 1 <= len(wrong) <= most
            assert any(each.positive)
            assert not set(wrong) & supporting
            assert not set(each.candidates) & set(each.path)
            for node, place in zip(each.candidates, each.froms, strict=True):
                joined = tuple(sorted((each.path[place], node))) in pairs
                assert joined or (kind == "best_first" and node in "jac")
        again = replace(question, supporting=tuple(reversed(question.supporting)))
        other = training_lists([again], graph_of(reversed(pairs), "abcdefghij"), options, rankings=rankings)
        assert other.lists == found.lists


def test_the_arrays_of_lists_by_hand() -> None:
    edges = {("a", "b"): {"structural": 1.0, "semantic": 0.5}, ("a", "c"): {"keyword": 3.0, "name": 0.7}}
    vectors = {name: np.eye(8)[place] for place, name in enumerate("abc")}
    graph = FakeGraph([chunk(name, f"text of {name}") for name in "abc"], vectors, edges)
    lists = training_lists([asked("a", "b")], graph)
    choices, encoded = training_arrays(lists, graph)
    assert encoded.paths == (("a",),)
    assert encoded.nodes == ("b", "c")
    assert choices.triples.tolist() == [[1.0, 0.5, 0.0], [0.0, 0.0, 3.0]]
    assert (choices.starts.tolist(), choices.node.tolist()) == ([0, 2], [0, 1])
    assert choices.positive.tolist() == [True, False]
    embedder = FakeEmbedder(8)
    services = Services(graph=graph, embedder=embedder)
    found = run(vectors_of(encoded), services)
    assert found.nodes.tolist() == np.eye(8)[1:3].tolist()
    assert found.paths.tolist() == np.eye(8)[:1].tolist()
    assert found.queries == pytest.approx(embedder.embed_documents(["Who?"]))
    by_text = run(vectors_of(encoded, path="texts"), services)
    assert by_text.paths == pytest.approx(embedder.embed_documents(["text of a"]))
    nowhere = "in the graph from which the lists were drawn"
    wide = Services(graph=graph, embedder=FakeEmbedder(16))
    other = Services(graph=graph_of([("a", "b")]), embedder=embedder)
    for step, of, match in (
        (vectors_of(encoded), wide, "length of the questions' vectors must be 8, .* got 16"),
        (vectors_of(encoded), other, nowhere),
        (texts_of(encoded), other, nowhere),
    ):
        with pytest.raises(ParameterError, match=match):
            run(step, of)
    texts = run(texts_of(encoded), services)
    assert (texts.queries, texts.paths, texts.nodes) == (("Who?",), ("text of a",), ("text of b", "text of c"))


ROWS = [
    {"id": 7, "question": "Who wrote it?", "supporting": ["x", "y", "x"], "answers": ["Anna"]},
    {"question": "Where?", "supporting": []},
]


@pytest.mark.parametrize("name", ["questions.jsonl", "questions.jsonl.gz"])
def test_questions_are_read_packed_or_not(tmp_path: Path, name: str) -> None:
    first, second = ROWS
    assert read_training_questions(write_rows(tmp_path / name, [first, "", second])) == (
        TrainingQuestion(question="Who wrote it?", supporting=("x", "y")),
        TrainingQuestion(question="Where?", supporting=()),
    )


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ('{"question": "", "supporting": []}', "line 2: 'question' must be a text"),
        ('{"question": "Who?"}', "line 2: 'supporting' must be a list of ids"),
        ('{"question": "Who?", "supporting": [3]}', "line 2: 'supporting' must be a list of ids"),
        ("[1]", "line 2: expected an object"),
        ("{", "line 2: not JSON"),
        (None, "holds no question"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, held: str | None, message: str) -> None:
    path = write_rows(tmp_path / "questions.jsonl", [] if held is None else [ROWS[0], held])
    with pytest.raises(EvaluationError, match=message):
        read_training_questions(path)


def test_what_cannot_be_trained_on_is_said() -> None:
    graph = graph_of(DRAWN, ["alone"])
    with pytest.raises(ParameterError, match="training questions must be at least one, got 0"):
        training_lists([], graph)
    with pytest.raises(ParameterError, match=r"3, of which 2 are not: x, y"):
        training_lists([asked("a", "x"), asked("y", "a")], graph)
    kept = training_lists([asked("a", "x", "e")], graph, ListOptions(missing="skip"))
    assert (kept.missing, len(kept.lists)) == (("x",), 5)
    with pytest.raises(ParameterError, match=r"such that the graph joins some of their chunks, got '0 lists"):
        training_lists([asked("a", "alone")], graph)
    with pytest.raises(ParameterError, match=r"rankings must be one per question \(1\), got 0"):
        training_lists([asked("a", "e")], graph, ListOptions(kind="best_first"))
    with pytest.raises(ParameterError, match="rankings must be of"):
        training_lists([asked("a", "e")], graph, rankings=[["a"]])
    for question, supporting in ((" ", ("a",)), ("Who?", ("a", "a")), ("Who?", ("",))):
        with pytest.raises(ParameterError):
            TrainingQuestion(question=question, supporting=supporting)
    with pytest.raises(ParameterError, match="max_hops"):
        shortest_paths(Adjacency(graph), "a", ["b"], 0)
