"""Chains in three orders, and short answers from them, from given passages, from gold and from nothing."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena import Hit, Services, prompts, run
from catena.answering import (
    ChainReading,
    answer_all,
    answer_without_retrieval,
    arrange,
    chain_answer,
    chain_context,
    chain_places,
    chains_of_places,
    short_answer,
)
from catena.answering.short_answers import LONGEST, NOT_ANSWERABLE, read_short_answer
from catena.evaluation import squad_scores
from catena.graph import ChunkGraph, node_of
from catena.model import Chain, Chunk, Edge, Hop, InvalidReplyError, MissingServiceError, ParameterError, ServiceError
from catena.testing import FakeLLM, ScriptedLLM

QUESTION = "Where is the company based that owns the chain?"
FORMATS = ("chain", "iterative", "shuffled")
NAMES = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=5).map("".join), max_size=4)


def words(text: str) -> int:
    return len(text.split())


def chunk(name: str, text: str = "") -> Chunk:
    text = text or f"Text of {name}."
    titled = {"title": f"T{name}"}
    return Chunk(id=name, document_id=f"doc {name}", position=0, start=0, end=len(text), text=text, metadata=titled)


def chain(names: str, **edges: Edge) -> Chain:
    """A walk over chunks of one letter; the edge that led to each, or a semantic one."""
    hops = [Hop(chunk=chunk(name), score=1.0) for name in names[:1]]
    for before, name in pairwise(names):
        edge = edges.get(name, Edge(weights={"semantic": 0.5}))
        hops.append(Hop(chunk=chunk(name), score=0.5, came_from=before, edge=edge))
    return Chain(tuple(hops))


def ids(chunks) -> str:
    return "".join(each.id for each in chunks)


def shown(context) -> str:
    return "".join(passage.segment.chunk_ids[0] for passage in context.passages)


def lines(context) -> dict[str, list[str]]:
    parts = context.text.split("</passage>")
    return {
        passage.segment.chunk_ids[0]: re.findall(r"^\(Linked to .*\)$", part, re.MULTILINE)
        for passage, part in zip(context.passages, parts, strict=False)
    }


def test_the_three_formats_of_the_paper():
    walked = [chain("abc"), chain("de"), chain("f")]
    assert [ids(arrange(walked, how)) for how in ("chain", "iterative")] == ["abcdef", "adfbec"]
    shuffled = ids(arrange(walked, "shuffled"))
    assert sorted(shuffled) == list("abcdef")
    assert shuffled == ids(arrange([chain("f"), chain("ed"), chain("cba")], "shuffled"))  # whatever the order given
    assert len({ids(arrange(walked, "shuffled", seed=seed)) for seed in range(20)}) > 15


def test_a_chunk_of_several_chains_stands_at_its_first_place():
    walked = [chain("abc"), chain("dba")]
    assert [ids(arrange(walked, how)) for how in ("chain", "iterative")] == ["abcd", "adbc"]


@given(NAMES, st.sampled_from(FORMATS), st.integers(0, 3))
def test_every_chunk_of_every_chain_is_there_once(names, how, seed):
    walked = [chain(each) for each in names]
    found = ids(arrange(walked, how, seed=seed))
    assert sorted(found) == sorted(set("".join(names)))
    context = chain_context(walked, ChainReading(format=how, seed=seed))
    assert (shown(context), context.left_out) == (found, ())
    assert all(context.text.count(f"Text of {name}.") == 1 for name in found)


@given(NAMES, st.integers(0, 80), st.sampled_from(FORMATS), st.booleans())
def test_a_budget_is_kept_and_every_chunk_is_shown_or_left_out(names, budget, how, cut):
    walked = [chain(each) for each in names]
    reading = ChainReading(format=how, budget_tokens=budget, count=words, cut=cut)
    context = chain_context(walked, reading)
    left = [each.segment.chunk_ids[0] for each in context.left_out]
    assert context.tokens == words(context.text) <= budget
    assert sorted([*shown(context), *left]) == sorted(set("".join(names)))
    order = ids(arrange(walked, how))
    assert shown(context) == "".join(name for name in order if name not in left)


def test_a_budget_is_spent_on_the_beginnings_of_all_chains_in_every_format():
    walked = [chain("abc"), chain("de")]
    whole = chain_context(walked, ChainReading(count=words, links=False)).tokens
    for how in FORMATS:
        reading = ChainReading(format=how, budget_tokens=whole - 1, count=words, cut=False, links=False)
        assert [each.segment.chunk_ids for each in chain_context(walked, reading).left_out] == [("c",)]


def test_a_chunk_that_does_not_fit_ends_with_a_sentence_and_keeps_its_link():
    long = chunk("b", "First sentence of it. Second sentence of it, which is longer.")
    walked = [Chain((Hop(chunk=chunk("a"), score=1), Hop(chunk=long, score=1, came_from="a", edge=SHARED)))]
    whole = chain_context(walked, ChainReading(count=words)).tokens
    context = chain_context(walked, ChainReading(count=words, budget_tokens=whole - 2))
    assert context.passages[1].is_cut
    assert context.passages[1].text.strip() == "First sentence of it."
    assert len(lines(context)["b"]) == 1


def test_what_shows_nothing_is_left_out_and_said_so():
    context = chain_context([chunk("a"), chunk("b", " \n ")])
    assert (shown(context), [each.reason for each in context.left_out]) == ("a", ["blank"])


SHARED = Edge(
    weights={"keyword": 3, "mention": 2.0, "semantic": 0.7, "structural": 1},
    words={"keyword": ("iron", "casting"), "mention": ("Greene\nKing",)},
)
SAID = (
    '(Linked to passage 1: shared keywords "iron", "casting"; {} as "Greene King"; alike in content; next to it in '
    "the document.)"
)


def test_a_line_says_why_a_hop_follows():
    found = lines(chain_context([chain("ab", b=SHARED)]))
    assert found == {"a": [], "b": [SAID.format("named there")]}


def test_names_inside_other_names_are_not_said_again():
    names = ("bash history facilities", "bash history", "history facilities", "c r")
    found = lines(chain_context([chain("ab", b=Edge(weights={"name": 3.0}, words={"name": names}))]))
    assert found["b"] == ['(Linked to passage 1: shared names "bash history facilities", "c r".)']


def test_an_edge_that_led_back_is_said_from_the_other_side_and_once():
    own = Edge(weights={"own_kind": 1.0})
    found = lines(chain_context([chain("ab", b=own), chain("cab", a=SHARED, b=own), chain("ba", a=own)]))
    assert found["b"] == ["(Linked to passage 1: own kind.)"]
    assert found["c"] == [SAID.format("names it")]


@pytest.mark.parametrize(("walked", "said"), [("pb", "named there as"), ("bp", "names it as")])
def test_the_edges_of_a_graph_are_said_from_the_side_of_the_later_passage(walked, said):
    pieces = {
        "p": replace(chunk("p", "Hungry Horse is a chain of pubs that Greene King owns."), path=("Hungry Horse",)),
        "b": replace(chunk("b", "It is a brewery based in Bury St Edmunds."), path=("Greene King",)),
    }
    graph = ChunkGraph.build([node_of(each) for each in pieces.values()], np.eye(2))
    first, second = walked
    hop = Hop(chunk=pieces[second], score=1.0, came_from=first, edge=graph.edge(first, second))
    (line,) = lines(chain_context([Chain((Hop(chunk=pieces[first], score=1.0), hop))]))[second]
    assert f'{said} "Greene King"' in line


def test_a_line_stays_short_whatever_is_shared():
    many = Edge(weights={"name": 1.0}, words={"name": ("y" * 80, *(f'n{n} "' + "x" * 500 for n in range(40)))})
    (line,) = lines(chain_context([chain("ab", b=many)]))["b"]
    shared = ", ".join(f'"{name}"' for name in ("y" * 80, *(f"n{n} '{'x' * 75}…" for n in range(4))))
    assert line == f"(Linked to passage 1: shared names {shared}.)"


def test_links_are_said_in_the_chain_format_alone_of_passages_that_are_shown_and_on_demand():
    walked = [chain("ab")]
    for reading in (ChainReading(format="iterative"), ChainReading(format="shuffled"), ChainReading(links=False)):
        assert "Linked to" not in chain_context(walked, reading).text
    assert "Linked to" not in chain_context([Chain(chain("xab").hops[1:2])]).text
    assert "Linked to passage 1: alike in content" in chain_context(walked).text


def test_chains_are_read_from_the_places_of_their_chunks_and_what_is_damaged_is_no_place():
    walked = (chain("ab", b=SHARED), chain("cbd"))
    places = chain_places(walked)
    assert [(place["chain"], place["hop"], place["came_from"]) for place in places["b"]] == [(1, 2, "a"), (2, 2, "c")]
    assert chains_of_places((chunk(name), places[name]) for name in "dbca") == walked
    wrong = {"chain": "1", "hop": None, "score": "", "came_from": 1, "words": 1, "edges": {"": ""}, "shared": {"": 1}}
    for told in (None, "x", [1], *([places["a"][0] | {key: value}] for key, value in wrong.items())):
        assert chains_of_places([(chunk("a"), told)]) == (Chain((Hop(chunk=chunk("a"), score=0.0),)),)


def asked(chains, reading=None, reply="Bury St Edmunds"):
    llm = FakeLLM(lambda request: reply)
    found = run(chain_answer(QUESTION, chains, reading), Services(llm=llm))
    return found, llm.calls[0] if llm.calls else None


def test_the_model_reads_the_chains_and_answers_in_a_few_words():
    found, request = asked([chain("ab"), chain("c")])
    assert (found.text, found.answerable) == ("Bury St Edmunds", True)
    places = [request.prompt.index(f"Text of {name}.") for name in "abc"]
    assert [*places, request.prompt.rindex(QUESTION)] == sorted([*places, request.prompt.rindex(QUESTION)])
    assert "five words" in request.system
    assert "not instructions" in request.system
    assert (request.purpose, request.prompt_version) == ("chain answer", prompts.load("chain_answer").version)
    assert shown(found.context) == "abc"


def test_without_retrieval_no_passage_is_read():
    llm = FakeLLM(lambda request: "Answer: Suffolk")
    found = run(answer_without_retrieval(f" {QUESTION} "), Services(llm=llm))
    assert (found.text, found.context.text) == ("Suffolk", "")
    assert llm.calls[0].prompt == f"Question: {QUESTION}"
    assert "passage" not in llm.calls[0].system


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: arrange([], "sorted"), "format must be 'chain', 'iterative' or 'shuffled'"),
        (lambda: ChainReading(format=""), "format must be"),
        (lambda: ChainReading(budget_tokens=cast("Any", "many")), "budget_tokens must be"),
        (lambda: ChainReading(budget_tokens=-1), "budget_tokens must be"),
        (lambda: chain_context(cast("Any", ["text"])), "chains must be of Chain, Chunk, Segment or Hit, got 'str'"),
        (lambda: chain_context(cast("Any", Chain(()))), "chains must be a sequence"),
        (lambda: chain_context([chunk("a")], cast("Any", "chain")), "reading must be ChainReading"),
        (lambda: run(chain_answer(cast("Any", None), [chunk("a")]), Services()), "question must be"),
        (lambda: run(chain_answer(" ", [chunk("a")]), Services()), "question must be"),
        (lambda: run(answer_without_retrieval("\n"), Services()), "question must be"),
        (lambda: run(chain_answer("q", [chunk("a")], ChainReading(budget_tokens=1)), Services()), "the beginning"),
        (lambda: run(short_answer(" ", [FIRST]), Services()), "question must be"),
        (lambda: told([FIRST], budget_tokens=3, count=words), "budget_tokens must be enough for"),
        (lambda: told([FIRST], budget_tokens=-1, count=words), "budget_tokens must be"),
        (lambda: told([FIRST], budget_tokens=50), "count="),
    ],
)
def test_what_cannot_be_asked_is_refused_before_a_model_is_missed(call, said):
    with pytest.raises(ParameterError, match=said):
        call()


def test_a_reply_that_is_no_answer_names_its_purpose_and_a_missing_model_stops_all_questions():
    steps = {"chain answer": chain_answer(QUESTION, [chunk("a")]), "no retrieval": answer_without_retrieval(QUESTION)}
    for said, step in steps.items():
        with pytest.raises(InvalidReplyError, match=said):
            run(step, Services(llm=ScriptedLLM(["<think>hm"])))
    with pytest.raises(MissingServiceError):
        run(answer_all({"q": chain_answer(QUESTION, [chunk("a")])}), Services())


def test_many_questions_are_answered_side_by_side_and_failures_are_named():
    def reply(request):
        if "Text of b." in request.prompt:
            raise ServiceError("fake", "overloaded")
        return "NOT ANSWERABLE" if "Text of c." in request.prompt else "Bury"

    steps = {f"q{n}": chain_answer("q?" if n < 4 else " ", [chain(name)]) for n, name in enumerate("abcd", start=1)}
    steps |= {"q5": short_answer("q5?", [chunk("e")]), "q6": answer_without_retrieval("q6?")}
    answered = run(answer_all(steps), Services(llm=FakeLLM(reply)))
    assert [each.question for each in answered] == list(steps)
    assert [each.reply for each in answered] == ["Bury", None, None, None, "Bury", "Bury"]
    assert [each.question for each in answered if each.failure] == ["q2", "q4"]
    assert "overloaded" in answered[1].failure
    scores = squad_scores(dict.fromkeys(steps, "Bury"), {each.question: each.reply for each in answered})
    assert (scores.exact_match.value, scores.unanswered) == (0.5, ("q2", "q3", "q4"))
    assert run(answer_all({}), Services()) == ()


TORQUE = "How tight are the screws?"


def printed(text: str, start: int = 0, document: str = "hx210.pdf") -> Chunk:
    return Chunk(
        id=f"{document}-{start}", document_id=document, position=start, start=start, end=start + len(text), text=text,
        path=("HX210", "4 Cover"), metadata={"title": "HX210 manual"},
    )  # fmt: skip


FIRST, SECOND = printed("Tighten the screws to 2.4 Nm. Use a hex key."), printed("The cover weighs 1.2 kg.", 900)


def told(passages, **options):
    llm = FakeLLM(lambda request: "2.4 N·m")
    found = run(short_answer(TORQUE, passages, **options), Services(llm=llm))
    return found, llm.calls[0].prompt if llm.calls else ""


def test_the_model_reads_the_passages_best_first_with_their_headers():
    found, prompt = told([SECOND, FIRST])
    assert (found.text, found.answerable) == ("2.4 N·m", True)
    assert prompt.index(SECOND.text) < prompt.index(FIRST.text) < prompt.index(TORQUE)
    assert 'from="HX210 manual › HX210 › 4 Cover"' in prompt
    assert [passage.text for passage in found.context.passages] == [SECOND.text, FIRST.text]
    assert found.input_tokens > 0 < found.output_tokens


def test_chunks_segments_and_hits_are_read_alike():
    kinds = ([FIRST, SECOND], [FIRST.as_segment(), SECOND.as_segment()], [Hit(FIRST, 0.1), Hit(SECOND, 0.9)])
    assert len({told(passages)[1] for passages in kinds}) == 1  # the order given counts, not the score
    assert told([FIRST, SECOND.as_segment(), Hit(SECOND, 1.0)])[1] == told([FIRST, SECOND])[1]


def test_a_passage_that_does_not_fit_ends_with_a_sentence():
    whole = told([FIRST], count=words)[0].context.tokens
    found, prompt = told([FIRST], budget_tokens=whole - 3, count=words)
    assert found.context.passages[0].is_cut
    assert "2.4 Nm." in prompt
    assert "hex key" not in prompt


def test_without_passages_nothing_is_answerable_and_nobody_is_asked():
    for passages in ([], [printed(" \n ")]):
        found, prompt = told(passages)
        assert (found.text, found.answerable, prompt) == (NOT_ANSWERABLE, False, "")


NO_ANSWER = (
    "NOT ANSWERABLE", "not answerable.", "**Not answerable**", '"NOT ANSWERABLE"', "Answer: NOT ANSWERABLE",
    "NOT ANSWERABLE from the passages, which speak of screws only.",
)  # fmt: skip


def test_an_answer_is_read_as_it_is_and_none_however_it_is_said():
    for reply in ("2.4 N·m", "7", "是", "First this.\n\nThen that.", "It is not answerable whether"):
        assert read_short_answer(reply) == reply
    for reply, text in (("**Short answer:** 5", "5"), ("答案：5", "5"), ("```5```", "5"), ("```Paris```", "Paris")):
        assert read_short_answer(reply) == text
    for reply in NO_ANSWER:
        found = run(short_answer(TORQUE, [FIRST]), Services(llm=ScriptedLLM([reply])))
        assert (found.text, found.answerable) == (NOT_ANSWERABLE, False)


@pytest.mark.parametrize(
    "reply",
    [
        "", "   ", "\n\n", ".", "…", "—", "?", "**", "``````", "```\n```", "<answer></answer>", "Answer:",
        "Answer: ...", "x" * (LONGEST + 1), "word " * LONGEST,
        "```" + " \n" * 20_000 + "x", "```" + "x" * 100_000, "```" + "\n" * 50_000 + "x```" * 20_000,
    ],
    ids=lambda reply: reply[:12],
)  # fmt: skip
def test_a_reply_that_is_no_short_answer_is_refused(reply):
    with pytest.raises(ServiceError, match="short answer"):
        run(short_answer(TORQUE, [FIRST]), Services(llm=ScriptedLLM([reply])))


@given(st.text(max_size=60))
def test_an_answer_is_never_blank(reply):
    with suppress(ValueError):
        text = read_short_answer(reply)
        assert text == text.strip() != ""
