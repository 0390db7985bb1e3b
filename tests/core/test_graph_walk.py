"""Walks over a graph drawn by hand, each strategy worked out on paper; laws on graphs of any shape.

```text
        a --semantic-- b --semantic-- d --structural-- f --structural-- h
        |
     keyword
        |
        c --mention--> e --semantic-- g
```
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import retrieval_cases
from graph_fakes import FakeGraph
from hypothesis import given
from hypothesis import strategies as st

from catena import Scale
from catena.effects import FetchById, FetchNodes, Services, Step, run
from catena.graph import PAPER, Scorer, SimilarityScorer, WalkOptions, pose, walk
from catena.graph.scoring import Candidates
from catena.graph.walking import WalkResult
from catena.model import Chunk, Edge, Hit, MissingServiceError, ParameterError, Provenance, Ranking, ServiceError
from catena.testing import Flaky
from catena.text import count_tokens

QUESTION = "Which Quasar hums in text?"
VALUES = {"a": 0, "b": 5, "c": 4, "d": 6, "e": 3, "f": 1, "g": 7, "h": 2, "x": 9}
EDGES: dict[tuple[str, str], dict[str, float]] = {
    ("a", "b"): {"semantic": 0.9},
    ("a", "c"): {"keyword": 3.0},
    ("b", "d"): {"semantic": 0.8},
    ("c", "e"): {"mention": 1.5},
    ("d", "f"): {"structural": 1.0},
    ("e", "g"): {"semantic": 0.7},
    ("f", "h"): {"structural": 1.0},
}
WORDS: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    ("a", "c"): {"keyword": ("one", "three", "two")},
    ("c", "e"): {"mention": ("Title of e",)},
}
TEXTS = {"a": "a quasar", "d": "it hums", "e": "a quasar that hums"}


def chunk(chunk_id: str, text: str = "") -> Chunk:
    return retrieval_cases.chunk(chunk_id, text or TEXTS.get(chunk_id, f"text of {chunk_id}"))


def ranking(ids: str, scale: Scale = Scale.SIMILARITY) -> Ranking:
    hits = (
        Hit(chunk(chunk_id), 1.0 - rank / 10, (Provenance(route="lexical", rank=rank, score=0.8 / rank),))
        for rank, chunk_id in enumerate(ids, start=1)
    )
    return Ranking(tuple(hits), scale)


FIRST = ranking("ahxc")  # the graph does not have x


def drawn(edges: Mapping[tuple[str, str], Mapping[str, float]] = EDGES, names: str = "abcdefgh") -> FakeGraph:
    return FakeGraph([chunk(i) for i in names], dict.fromkeys(names, (1.0, 0.0)), edges, WORDS)


@dataclass
class Valued:
    """Scores a node by a table, whatever led to it; keeps what it was shown."""

    values: Mapping[str, float]
    identity: str = "valued"

    def __post_init__(self) -> None:
        self.seen: list[Candidates] = []

    def score(self, candidates: Candidates) -> Step[Any]:
        yield from ()
        self.seen.append(candidates)
        return np.array([self.values[chunk_id] for chunk_id in candidates.nodes.ids], dtype=np.float64)


def walked(
    options: WalkOptions | None = None,
    *,
    k: int = 10,
    first: Ranking = FIRST,
    graph: Any = None,
    scorer: Scorer | None = None,
    keywords: tuple[str, ...] = (),
    **further: Any,
) -> WalkResult:
    def steps() -> Step[WalkResult]:
        question = yield from pose(QUESTION, np.array([1.0, 0.0], dtype=np.float32), keywords=keywords)
        return (yield from walk(question, first, long, scorer or Valued(VALUES), k=k, **further))

    given = options or WalkOptions()
    long = replace(given, max_chunks=given.max_chunks or 20)  # as far as there are nodes, where a test says no less
    return run(steps(), Services(graph=drawn() if graph is None else graph))


def ids(found: WalkResult) -> str:
    return "".join(hit.chunk.id for hit in found.ranking.hits)


def chains(found: WalkResult) -> list[str]:
    return ["".join(each.id for each in chain.chunks) for chain in found.chains]


# Worked out by hand.


def test_best_first_takes_the_best_of_all_that_the_first_nodes_lead_to():
    # a leads to b5 c4, the ranking offers h2 c4; b to d6; d to f1; so c4 is best, then e3 by c, then g7 by e
    found = walked(k=6)
    assert ids(found) == "abdceg"
    assert chains(found) == ["abd", "aceg"]
    assert [(hop.score, hop.came_from) for hop in found.chains[1].hops] == [(1, ""), (4, "a"), (3, "c"), (7, "e")]


def test_what_the_ranking_offers_is_a_chain_of_its_own_and_what_the_graph_lacks_fills_up():
    found = walked(k=9)
    assert ids(found) == "abdceghfx"  # h2 before f1; only five nodes gave neighbours, so f did not bring h
    assert chains(found) == ["abdf", "aceg", "h"]
    assert found.ranking.scale is Scale.RANK
    assert [hit.score for hit in found.ranking.hits] == [1 / place for place in range(1, 10)]


def test_the_paper_takes_the_best_neighbour_of_the_last_node_five_times():
    found = walked(replace(PAPER, seeds="first"), k=20)  # does not follow the mention, and d leads to nothing but f
    assert chains(found) == ["abdfh"]
    assert ids(found) == "abdfhxc"


def test_the_paths_of_the_paper_do_not_revisit_but_may_meet():
    found = walked(WalkOptions(strategy="paper", seeds="first", most_seeds=3, max_length=3, candidates="graph"))
    assert chains(found) == ["abd", "hfd", "cab"]
    assert ids(found) == "ahcbfdx"  # all seeds, then all second nodes, then the third


def test_a_beam_keeps_the_paths_that_are_best_on_average():
    options = WalkOptions(strategy="beam", seeds="first", candidates="graph", width=2, max_length=4, fill=False)
    found = walked(options)
    assert chains(found) == ["aceg", "abdf"]  # 14/3 and 12/3, though after three nodes it is 7/2 and 11/2
    assert ids(found) == "acbedgf"
    assert chains(walked(replace(options, width=1))) == ["abdf"]
    assert chains(walked(replace(options, max_length=3))) == ["abd", "ace"]
    assert chains(walked(replace(options, kinds=("semantic", "keyword")))) == ["abd", "ac"]  # one ends early


def sure_of(texts: Mapping[str, str], lexical: Mapping[str, float]) -> tuple[FakeGraph, Ranking]:
    """Return a graph of these texts, each a document, and a ranking of some of them by a lexical route."""
    held = {i: replace(chunk(i, text), document_id=i) for i, text in texts.items()}
    ways = {i: (Provenance(route="lexical", rank=1, score=score),) for i, score in lexical.items()}
    hits = tuple(Hit(held[i], score, ways[i]) for i, score in lexical.items())
    return FakeGraph(list(held.values()), dict.fromkeys(held, (1.0, 0.0)), EDGES), Ranking(hits, Scale.SIMILARITY)


def test_a_hop_comes_before_the_hits_that_are_less_sure_than_it():
    # a leads to b and c, h is ranked: equal scores, so each has a chance of 1/3, then of 1/3, 1/3, 1/2 of d, c, h
    texts = {**{i: f"text of {i}" for i in "abcdefg"}, "h": "a quasar that hums in text"}
    keeping = WalkOptions(keep_sure=True, max_chunks=2)
    for lexical, expected in ((0.57, "abh"), (0.58, "ahb")):  # of h, which holds all words; squared it is 1/3 between
        graph, first = sure_of(texts, {"a": 8.0, "h": 8.0 * lexical})
        found = walked(keeping, first=first, graph=graph, scorer=SAME)
        assert ids(found) == expected
        assert chains(found) == ["ab"]
        assert ids(walked(keeping, first=first, graph=graph, scorer=SAME, k=2)) == expected[:2]
    # passages of one document hold the words together: h with the words of c is as sure as c with those of h
    graph, first = sure_of({**texts, "h": "a quasar", "c": "it hums, says the text"}, {"a": 8.0, "h": 8.0, "c": 8.0})
    assert ids(walked(keeping, first=first, graph=graph, scorer=Valued({**VALUES, "b": 99.0}))) == "abhc"
    hits = (replace(hit, chunk=replace(hit.chunk, document_id="one")) for hit in first.hits)
    together = replace(first, hits=tuple(hits))
    assert ids(walked(keeping, first=together, graph=graph, scorer=Valued({**VALUES, "b": 99.0}))) == "ahcb"


def test_a_seed_chosen_by_the_scorer():
    scorer = Valued(VALUES)
    found = walked(WalkOptions(seeds="scored", candidates="graph", fill=False), k=3, scorer=scorer)
    assert chains(found) == ["ceg"]
    assert found.chains[0].hops[0].score == 4
    assert not scorer.seen[0].path.ids
    assert set(scorer.seen[0].froms.tolist()) == {-1}


BEAM = WalkOptions(strategy="beam", seeds="first", candidates="graph", width=2, fill=False)
ALONE = WalkOptions(fill=False)
ONE = replace(BEAM, most_seeds=2, width=1, max_length=2)
SAME = Valued(dict.fromkeys("abcdefghx", 1.0))


@pytest.mark.parametrize(
    ("options", "given", "found", "paths"),
    [
        (replace(ALONE, expand=1), {}, "abch", None),  # only the first nodes give their neighbours
        (replace(ALONE, expand=2), {}, "abdch", None),
        (replace(ALONE, max_length=2), {}, "abchf", ["ab", "ac", "hf"]),
        (replace(ALONE, max_length=1), {}, "ach", ["a", "c", "h"]),  # c is in the first ranking too
        (WalkOptions(max_chunks=3), {"k": 5}, "abdhx", ["abd"]),  # the first ranking fills up
        (replace(ALONE, kinds=("semantic",)), {}, "abdch", None),
        (replace(ALONE, kinds=("semantic",), candidates="graph"), {}, "abd", ["abd"]),
        (WalkOptions(candidates="ranking", kinds=()), {}, "achx", ["a", "c", "h"]),  # the scorer alone
        (replace(ALONE, candidates="ranking"), {}, "ach", ["ac", "h"]),  # keeps what edges say
        (ALONE, {"k": 8, "scorer": SAME}, "abcdefgh", None),  # ties go by id
        (ALONE, {"allows": lambda each: each.id not in "bh"}, "aceghf", None),  # h is ranked, and brings f
        (replace(ALONE, pool=2), {"first": ranking("xyzhab")}, None, ["hfdb", "ac"]),  # x, y, z take no place
        # how a seed was selected is no part of what its path is worth
        (ONE, {"scorer": Valued({**VALUES, "b": 1.0, "c": 0.0, "f": 1.1})}, None, ["hf"]),
        (None, {"first": Ranking((), Scale.RANK)}, "", []),
        (None, {"first": ranking("xyz")}, "xyz", []),
        (None, {"k": 0}, "", []),
    ],
)
def test_options_of_a_walk(options, given, found, paths):
    result = walked(options, **given)
    assert found is None or ids(result) == found
    assert paths is None or chains(result) == paths


def test_what_does_not_fit_into_the_budget_is_passed_over_for_what_does():
    def of(long: str, options: WalkOptions, first: str) -> WalkResult:
        texts = {i: "long " * 9 if i in long else "short" for i in "abcdefgh"}
        graph = FakeGraph([chunk(i, text) for i, text in texts.items()], {"a": (1.0, 0.0)}, EDGES)
        hits = tuple(Hit(chunk(i, "short"), 1.0) for i in first)
        return walked(options, graph=graph, first=Ranking(hits, Scale.SIMILARITY))

    found = of("bg", WalkOptions(budget_tokens=4), "ahxc")
    assert (ids(found), chains(found)) == ("aceh", ["ace", "h"])
    assert ids(of("bg", WalkOptions(budget_tokens=4, max_chunks=2), "ahxc")) == "achx"
    assert ids(of("bg", WalkOptions(budget_tokens=0), "ahxc")) == ""
    # a seed of a path that the beam drops costs nothing
    assert ids(of("", replace(ONE, max_length=3, budget_tokens=3, fill=True), "ah")) == "abd"
    assert ids(of("", replace(ONE, max_length=3, budget_tokens=2, fill=True), "a")) == "ab"  # one that stays does


# What a hop says, and what a scorer is shown.


def test_every_hop_says_its_edge_and_the_words_of_the_question_that_it_adds():
    hops = walked(k=6).chains[1].hops
    assert [hop.chunk.id for hop in hops] == list("aceg")
    assert hops[0].edge is None
    assert hops[1].edge == Edge(weights={"keyword": 3.0}, words={"keyword": ("one", "three", "two")})
    assert hops[2].edge == Edge(weights={"mention": 1.5}, words={"mention": ("Title of e",)})
    assert [hop.words for hop in hops] == [("quasar",), (), ("hums",), ()]  # e says quasar too; most say "text"
    ways = {hit.chunk.id: hit.provenance for hit in walked(k=6).ranking.hits}
    shown = [[(way.route, way.rank, way.score) for way in ways[name]] for name in "cg"]
    assert shown == [[("lexical", 4, 0.2), ("graph", 4, 4)], [("graph", 6, 7)]]


def test_a_graph_that_cannot_describe_edges_costs_their_words_only():
    full = drawn()
    answers = {name: getattr(full, name) for name in ("expand", "nodes", "count_words", "chunks_by_id")}
    plain = SimpleNamespace(identity="plain", **answers)
    found = walked(k=6, graph=plain)
    assert chains(found) == ["abd", "aceg"]
    assert found.chains[1].hops[1].edge == Edge(weights={"keyword": 3.0})
    with pytest.raises(MissingServiceError, match="FindCovering"):
        walked(PAPER, graph=plain, keywords=("quasar",))


def test_a_scorer_is_shown_rows_with_edges_ranks_and_scores_of_routes():
    scorer = Valued(VALUES)
    walked(k=3, scorer=scorer)
    first, second = scorer.seen[:2]
    assert (first.path.ids, second.path.ids) == (("a",), ("a", "b"))
    assert (first.nodes.ids, second.nodes.ids) == (("b", "c", "h"), ("c", "h", "d", "h", "c"))
    assert first.kinds == ("keyword", "mention", "mentioned", "semantic", "structural")
    assert first.weight("semantic").tolist() == pytest.approx([0.9, 0, 0])
    assert first.weight("keyword").tolist() == [0, 3, 0]
    assert first.weight("name").tolist() == [0, 0, 0]
    assert second.froms.tolist() == [0, 0, 1, 1, 1]
    assert first.ranks.tolist() == [0, 4, 2]
    assert first.lexical.tolist() == pytest.approx([0, 0.25, 0.5])
    assert first.dense.tolist() == [0, 0, 0]
    assert first.question.words == ("quasar", "hums", "text")  # no stop words
    assert first.question.holding.tolist() == [2, 2, 5]
    assert first.question.nodes == 8


def test_the_similarity_scorer_looks_at_question_and_path():
    vectors = {"a": (0.0, 1.0), "b": (0.6, 0.8), "c": (1.0, 0.0)}
    graph = FakeGraph([chunk(i) for i in "abc"], vectors, {("a", "b"): {"semantic": 1}, ("a", "c"): {"semantic": 1}})
    found = walked(WalkOptions(fill=False), first=ranking("a"), graph=graph, scorer=SimilarityScorer(share=2.0))
    assert ids(found) == "abc"  # towards (1, 2): b is (0.6 + 1.6) / sqrt 5, c 1 / sqrt 5
    assert found.chains[0].hops[1].score == pytest.approx(2.2 / 5**0.5)
    asked = walked(WalkOptions(fill=False), first=ranking("a"), graph=graph, scorer=SimilarityScorer(share=0.0))
    assert ids(asked) == "acb"
    assert SimilarityScorer().identity == "similarity-0.5"


# Laws.

NAMES = "abcdefgh"
graphs = st.dictionaries(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(lambda pair: pair[0] < pair[1]),
    st.dictionaries(st.sampled_from(["semantic", "keyword", "mention"]), st.sampled_from([0.5, 1.0]), min_size=1),
    max_size=16,
)
rankings = st.lists(st.sampled_from(NAMES + "xyz"), unique=True, max_size=11).map("".join).map(ranking)
values = st.fixed_dictionaries({i: st.integers(-2, 2).map(float) for i in NAMES})
some_options = st.builds(
    WalkOptions,
    strategy=st.sampled_from(["best_first", "paper", "beam"]),
    seeds=st.sampled_from(["first", "scored", "keywords", "both"]),
    most_seeds=st.none() | st.integers(1, 3),
    candidates=st.sampled_from(["graph", "ranking", "both"]),
    kinds=st.sampled_from([None, (), ("semantic",)]),
    max_length=st.integers(1, 5),
    max_chunks=st.integers(1, 12),
    expand=st.integers(1, 5),
    pool=st.integers(1, 12),
    width=st.integers(1, 4),
    budget_tokens=st.none() | st.integers(0, 30),
    fill=st.booleans(),
)
KEYWORDS = ("quasar", "hums", "nothing")
some_refused = st.none() | st.sets(st.sampled_from(NAMES))


@given(graphs, rankings, values, some_options, st.tuples(st.integers(0, 12), some_refused))
def test_laws(edges, first, scores, options, asked):
    k, refused = asked
    if options.fill and options.strategy == "best_first":
        options = replace(options, keep_sure=bool(k % 2))

    def go(graph: FakeGraph, k: int = k) -> WalkResult:
        allows = None if refused is None else lambda chunk: chunk.id not in refused
        scorer = Valued(scores)
        return walked(options, k=k, first=first, graph=graph, scorer=scorer, keywords=KEYWORDS, allows=allows)

    found = go(drawn(edges))
    returned, ranked = ids(found), {hit.chunk.id for hit in first.hits}
    assert len(set(returned)) == len(returned) <= k
    in_chains = set("".join(chains(found)))
    assert in_chains <= set(returned) <= in_chains | ranked
    assert len(in_chains) <= options.max_chunks
    assert not set(returned) & (refused or set()) - ranked
    if options.budget_tokens is not None:
        assert sum(count_tokens(hit.chunk.text) for hit in found.ranking.hits) <= options.budget_tokens
    else:
        assert not options.fill or len(returned) >= min(k, len(first.hits))
    for chain in found.chains:
        path = [each.id for each in chain.chunks]
        assert len(set(path)) == len(path) <= options.max_length
        for before, hop in zip(["", *path], chain.hops, strict=False):
            assert hop.came_from in ("", before)
            assert (hop.edge is None) == (hop.came_from == "")
            if hop.edge is not None:
                pair = tuple(sorted((hop.came_from, hop.chunk.id)))
                assert len(hop.edge.weights) == len(edges[pair[0], pair[1]])
    # nothing depends on the order in which the graph was drawn
    mixed = list(edges.items())
    random.Random(len(edges)).shuffle(mixed)
    assert go(drawn(dict(mixed), NAMES[::-1])) == found
    if options.strategy != "beam" and options.max_chunks >= 8 and options.budget_tokens is None:
        assert ids(go(drawn(edges), 12)).startswith(ids(found))  # fewer hits are the beginning of more


@given(graphs, values, st.integers(1, 6), st.integers(1, 8))
def test_what_was_sure_keeps_its_place_in_any_graph(edges, scores, sure, k):
    texts = {i: "a quasar that hums in text" if place < sure else "text" for place, i in enumerate(NAMES)}
    _, first = sure_of(texts, {i: 1.0 if place < sure else 0.2 for place, i in enumerate(NAMES[:8])})
    held = [hit.chunk for hit in first.hits]
    graph = FakeGraph(held, {each.id: (1.0, 0.0) for each in held}, edges)

    def go(k: int) -> WalkResult:
        options = WalkOptions(keep_sure=True, max_chunks=5)
        return walked(options, first=first, graph=graph, scorer=Valued(scores), k=k)

    found = go(k)
    assert [hit.chunk for hit in found.ranking.hits][:sure] == held[:sure][:k]
    assert set("".join(chains(found))) <= set(ids(found))
    assert ids(go(8))[:k] == ids(found)


# Errors.


def test_arguments_out_of_range_are_refused_by_name():
    for wrong in ({"kinds": "name"}, {"kinds": ("",)}, {"keep_sure": True, "fill": False}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            WalkOptions(**wrong)
    for wrong in (-1, 1.5, True):
        with pytest.raises(ParameterError, match="k must be"):
            walked(k=wrong)
    with pytest.raises(ServiceError, match="away"):
        walked(graph=Flaky(drawn(), [None, None, ServiceError("graph", "away")]))


class Broken:
    """A scorer that gives something, or fails as it is asked, or within its step."""

    identity = "broken-7"

    def __init__(self, given: Any) -> None:
        self.given = given

    def score(self, candidates: Candidates) -> Any:
        if self.given == "no step":
            return np.zeros(len(candidates))
        return 1 / 0 if self.given == "fails" else self.within()

    def within(self) -> Step[Any]:
        yield from ()
        return 1 / 0 if self.given == "fails within" else self.given


@pytest.mark.parametrize(
    "given",
    [
        *([1.0], [float("nan")] * 3, [[1.0, 2.0, 3.0]], None, ["a"] * 3, [[1.0], [1.0, 2.0]], iter([1.0]), [1j] * 3),
        *("no step", "fails", "fails within"),
    ],
)
def test_a_scorer_that_gives_no_scores_is_named(given):
    fails = isinstance(given, str) and given.startswith("fails")
    message = "broken-7: ZeroDivisionError" if fails else "broken-7"
    with pytest.raises(ServiceError if fails else ParameterError, match=message):
        walked(scorer=Broken(given))


def test_a_chunk_that_is_gone_ends_its_chain():
    class Forgetful(FakeGraph):
        def chunks_by_id(self, request: FetchById) -> tuple[Chunk | None, ...]:
            return tuple(None if each is None or each.id == "d" else each for each in super().chunks_by_id(request))

    graph = Forgetful([chunk(i) for i in NAMES], dict.fromkeys(NAMES, (1.0, 0.0)), EDGES)
    found = walked(graph=graph, k=6)
    assert chains(found) == ["ab", "aceg"]
    assert ids(found) == "abceghx"[:6]
    asked = drawn()
    walked(WalkOptions(pool=2), graph=asked)  # the top of the ranking is all that is asked of the graph
    assert [call.chunk_ids for call in asked.calls if isinstance(call, FetchNodes)] == [("a", "h")]
