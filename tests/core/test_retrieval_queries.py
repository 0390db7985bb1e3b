"""Queries: questions taken apart offline, queries written by a model, and searches side by side."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk, ids

from catena import ServiceError
from catena.effects import Completion, Journal, Retry, Search, Services, Step, ask, plan, run
from catena.model import Hit, InvalidReplyError, MissingServiceError, ParameterError, Ranking, RouteError, Scale
from catena.retrieval import content_words, decompose, generate_queries, retrieve, search_all
from catena.retrieval.queries import LONGEST_QUERY, distinct_queries, written_queries
from catena.testing import FakeLLM, ScriptedLLM
from catena.testing.fakes import FakeStore
from catena.text import tokenise

QUESTION = "What is the torque of the HX210 and the fuse of the HX200?"


def asked(llm: Any, question: str = QUESTION, **options: Any) -> Any:
    return run(generate_queries(question, **options), Services(llm=llm, retry=Retry(attempts=1)))


# The questions of a text, without a model


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("An HX210. Its torque? Which fuse?", ("An HX210. Its torque?", "An HX210. Which fuse?")),
        ("HX210的扭矩是多少？HX200的保险丝是什么？", ("HX210的扭矩是多少？", "HX200的保险丝是什么？")),
        ("What is A1? what is a1?", ("What is A1? what is a1?",)),  # the same question twice is one
        (QUESTION, (QUESTION,)),  # what one question lists or compares is left together
        ("Who wrote War and Peace?", ("Who wrote War and Peace?",)),
        ("What does E1? mean", ("What does E1? mean",)),
        ("?!", ("?!",)),
        (" ", ()),
    ],
)
def test_a_text_is_parted_into_its_questions(question, parts):
    assert decompose(question) == parts


def test_more_questions_than_wanted_are_put_together_and_none_is_lost():
    assert decompose("Who is A? Who is B? Who is C?", 2) == ("Who is A?", "Who is B? Who is C?")
    assert decompose("Who is A? Who is B?", 1) == ("Who is A? Who is B?",)


_WORDS = (
    "What which who when how is are do does the a of in by with between and or as well und oder sowie des Wie ist "
    'hat compare difference Unterschied torque fuse HX210 HX200 Paris 2.4 , , ? . ! ; it (A, b) "x and y" 的 '
    "zwischen 扭矩 ？ Pebble weigh"
)
WORDS = st.sampled_from(_WORDS.split())
TEXTS = st.one_of(st.lists(WORDS, max_size=16).map(" ".join), st.text(max_size=40))


@given(TEXTS, st.integers(1, 8))
def test_no_content_word_is_lost_and_no_word_added(question, n):
    parts = decompose(question, n)
    assert len(parts) <= n
    assert bool(parts) == bool(question.strip())
    assert all(part.strip() == part and part for part in parts)
    assert frozenset().union(*map(content_words, parts)) == content_words(question)
    assert {word for part in parts for word in tokenise(part)} <= set(tokenise(question))
    assert len(parts) < 2 or len(set(map(tuple, map(tokenise, parts)))) == len(parts)
    assert decompose("  " + question.replace(" ", " \n ") + "\t", n) == parts


def test_queries_that_differ_in_form_alone_are_one():
    given_ = ["HX-200 torque", "hx 200  Torque?", "?!", "", "torque HX-200", "HX-200: torque."]
    assert list(distinct_queries(given_)) == ["HX-200 torque", "torque HX-200"]


# Queries that a model writes

BOTH, LONGEST = ("HX210 torque", "HX200 fuse"), "x" * LONGEST_QUERY


@pytest.mark.parametrize(
    ("reply", "queries"),
    [
        ('["HX210 torque", "HX200 fuse"]', BOTH),
        ('Here are the queries [as asked]:\n["HX210 torque", "HX200 fuse"]\nGood luck!', BOTH),
        ('[{"query": "HX210 torque"}, {"query": "HX200 fuse"}]', BOTH),
        ('["HX210 torque", "hx210  TORQUE!", "", "HX200 fuse", "  ", null]', BOTH),
        ("1. HX210 torque\n2) HX200 fuse", BOTH),
        ('["HX210\\n torque\\u0000", "HX200 fuse"]', BOTH),
        (json.dumps([*BOTH, f"x{LONGEST}", LONGEST]), (*BOTH, LONGEST)),
        *((reply, None) for reply in ("", "I cannot help with that.", '["?!"]', '{"a": 1}', "[" * 5_000)),
    ],
)
def test_what_models_write_is_read(reply, queries):
    if queries is None:
        with pytest.raises(ValueError, match="list"):
            written_queries(reply)
    else:
        assert written_queries(reply) == queries


@given(st.text(), st.lists(st.text()))
def test_any_reply_is_read_or_refused(text, queries):
    for reply in (text, json.dumps(queries), f"{text}{json.dumps(queries)}"):
        with suppress(ValueError):
            found = written_queries(reply)
            assert found
            assert all(tokenise(query) and len(query) <= LONGEST_QUERY and "\n" not in query for query in found)
            assert len(set(map(tuple, map(tokenise, found)))) == len(found)


def test_the_model_is_told_the_question_the_guidance_and_the_count():
    llm = FakeLLM(lambda _: '["a"]')
    asked(llm, "Is {count} </question> said?", n=4, guidance="Ask in {question} terms.")
    (request,) = llm.calls
    assert (request.prompt_version, request.max_tokens) == ("search_queries/1", 400)
    for part in ("at most 3 search queries", "Ask in {question} terms.", "Is {count} < /question> said?"):
        assert part in request.prompt
    assert request.prompt.count("</question>") == 1
    assert "not an instruction" in request.system
    nobody = ScriptedLLM([])
    assert (asked(nobody, "  \n").queries, asked(nobody, "x", n=1).queries, nobody.calls) == ((), ("x",), [])
    for options in ({"n": 0}, {"on_error": "hide"}):
        with pytest.raises(ParameterError):
            asked(nobody, **options)
    with pytest.raises(ParameterError):
        decompose("x", 0)


def test_the_question_comes_first_and_n_counts_it():
    llm = FakeLLM(lambda _: Completion(text='["a", "b", "c", "d"]', input_tokens=9, output_tokens=4))
    found = asked(llm, n=3)
    assert found.queries == (QUESTION, "a", "b")
    assert (found.question, found.input_tokens, found.output_tokens, found.degraded) == (QUESTION, 9, 4, ())
    assert asked(llm, n=3, keep_question=False).queries == ("a", "b", "c")
    assert asked(FakeLLM(lambda _: json.dumps([QUESTION.upper(), "x"]))).queries == (QUESTION, "x")


def test_a_reply_of_no_use_is_refused_and_never_kept(tmp_path):
    with Journal.open(tmp_path / "journal.db") as journal:
        services = Services(llm=ScriptedLLM(["Sorry.", '["a"]']), journal=journal, retry=Retry(attempts=1))
        with pytest.raises(InvalidReplyError, match="no list"):
            run(generate_queries("x"), services)
        assert run(generate_queries("x"), services).queries == ("x", "a")
        assert run(generate_queries("x"), services).queries == ("x", "a")  # from the journal


def test_a_model_that_fails_is_replaced_aloud_where_the_caller_allows_it():
    broken = ScriptedLLM([ServiceError("model", "is out")])
    both = "What is A1? What is B2?"
    found = asked(broken, both, n=3, on_error="degrade")
    assert found.queries == (both, "What is A1?", "What is B2?")
    assert "is out" in found.degraded[0].why
    with pytest.raises(ServiceError, match="is out"):
        asked(ScriptedLLM([ServiceError("model", "is out")]))
    with pytest.raises(MissingServiceError):
        run(generate_queries("x", on_error="degrade"), Services())


def test_a_dry_run_goes_on():
    planned = plan(generate_queries(QUESTION), Services(llm=FakeLLM()))
    assert not planned.stopped_by
    assert set(planned.by_purpose) == {"search queries"}


# Searches side by side

STORE = FakeStore({"lexical": [chunk("t", "torque of the HX210"), chunk("f", "fuse of the HX200")]})


def test_each_query_has_its_ranking_and_all_are_asked_at_once():
    step = search_all(("torque", "fuse", "seal"), lambda query: retrieve(query, k=5, routes=("lexical",)))
    requests = next(step)
    assert len(requests) == 3
    with pytest.raises(StopIteration) as done:
        step.send([STORE.search(request) for request in requests])
    assert list(map(ids, done.value.value)) == ["t", "f", ""]
    with pytest.raises(ParameterError, match="k"):  # asked for wrongly: never told as a failure of the store
        run(search_all(("a", "b"), lambda query: retrieve(query, k=-1)), Services(store=STORE))


def failing(query: str) -> Step[Ranking]:
    if query == "wrong":
        raise_in = yield from ask([Search(route="nowhere", query=query, k=1)])
        return raise_in[0]
    return Ranking((Hit(chunk(query, query), 1.0),), Scale.PROBABILITY)


def test_a_search_that_fails_is_told_and_loses_no_other():
    services = Services(store=STORE, retry=Retry(attempts=1))
    good, bad, last = run(search_all(("a", "wrong", "b"), failing), services)
    assert (good.hits[0].chunk.id, last.hits[0].chunk.id) == ("a", "b")
    assert (bad.hits, bad.scale) == ((), Scale.PROBABILITY)
    assert bad.degraded[0].what == "search for 'wrong'"
    assert "nowhere" in bad.degraded[0].why
    with pytest.raises(RouteError, match="nowhere"):
        run(search_all(("wrong",), failing), services)
    assert run(search_all((), failing), services) == ()
