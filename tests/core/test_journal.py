"""Replies kept on disk: what is kept, under which key, by whom, and what a plan says beforehand."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.effects import (
    Budget,
    Complete,
    Completion,
    Describe,
    Embed,
    Event,
    Failed,
    FetchChunks,
    FetchText,
    Handler,
    Journal,
    Price,
    Rate,
    Recognise,
    Search,
    Services,
    Step,
    Tariff,
    ask,
    plan,
    run,
)
from catena.effects.journal import request_key
from catena.effects.replies import FORMS
from catena.model import InvalidReplyError, JournalError, ParameterError, Ranking, Scale, ServiceError
from catena.testing import FakeCaptioner, FakeEmbedder, FakeLLM, FakeReranker, ScriptedLLM
from catena.testing.fakes import FakeRecognizer, FakeStore, FakeTokenizer


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "deep" / "journal.db") as opened:
        yield opened


def complete(*prompts: str, **fields: Any) -> Step[list[Any]]:
    return (yield from ask([Complete(prompt=prompt, purpose="test", **fields) for prompt in prompts]))


EVERY_KIND = [
    Complete(prompt="p", system="s", purpose="test"),
    Embed(texts=("a b", "c")),
    Embed(texts=("a b", "c"), kind="query"),
    Rate(query="a", texts=("a b", "c")),
    Describe(image=b"\x89PNG", prompt="what is it?"),
    Recognise(texts=("an HX-200 and a \ud800", "none"), labels=("product",)),
]


def all_fakes(journal: Journal | None = None) -> Services:
    return Services(
        llm=FakeLLM(),
        embedder=FakeEmbedder(5),
        reranker=FakeReranker(),
        captioner=FakeCaptioner(),
        recognizer=FakeRecognizer({"product": ("HX-200", "\ud800")}),
        store=FakeStore({"r": Ranking((), Scale.RANK)}),
        journal=journal,
    )


# Kept replies


def test_each_service_answers_its_requests_and_kept_replies_cannot_be_told_from_fresh_ones(drive, journal, tmp_path):
    plain = drive(ask(EVERY_KIND), all_fakes())
    text, *rows, scores, caption, names = plain
    assert (text.text, scores, names) == ("p", (1.0, 0.0), (("HX-200", "\ud800"), ()))
    np.testing.assert_array_equal(rows, [FakeEmbedder(5).embed_documents(("a b", "c"))] * 2)
    assert caption == FakeCaptioner().caption(b"\x89PNG", "what is it?")
    fresh = drive(ask(EVERY_KIND), all_fakes(journal))
    journal.close()
    events: list[Event] = []
    with Journal.open(tmp_path / "deep" / "journal.db") as again:
        silent = replace(all_fakes(again), progress=events.append)
        kept = drive(ask(EVERY_KIND), silent)
    assert [(event.kind, event.done) for event in events] == [("cached", n) for n in range(1, 7)]
    for one, two, three in zip(plain, fresh, kept, strict=True):
        assert type(one) is type(two) is type(three)
        np.testing.assert_equal(one, two)
        np.testing.assert_equal(one, three)
    assert fresh[1].dtype == kept[1].dtype == np.float32
    assert kept[1].flags.writeable == fresh[1].flags.writeable
    assert silent.llm.calls == silent.embedder.calls == silent.reranker.calls == silent.captioner.calls == []
    assert silent.recognizer.calls == []


def test_searches_and_types_without_a_form_are_never_kept(drive, journal):
    services = all_fakes(journal)
    search = Search(route="r", query="q", k=1)
    drive(ask([search]), services)
    drive(ask([search]), services)
    assert journal.count() == 0
    assert len(services.store.calls) == 2
    llm = FakeLLM()
    own = Services(handlers={Complete: Handler(identity="x", call=llm.complete)}, journal=journal)
    assert [reply.text for reply in drive(complete("a", "a"), own)] == ["a", "a"]
    assert len(llm.calls) == 2
    assert journal.count() == 0


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (Completion(text="half a", finish_reason="length"), "did not end by itself"),
        (Completion(text="I cannot", finish_reason="content_filter"), "content_filter"),
        (Completion(text=" \n"), "invalid reply to 'test': the reply is empty"),
        (ServiceError("m", "down"), "down"),
    ],
)
def test_what_is_no_valid_reply_is_not_kept_and_asked_again(drive, journal, bad, why):
    replies = [bad, bad] if getattr(bad, "finish_reason", "") == "length" else [bad]
    llm = ScriptedLLM([*replies, "good"])
    services = Services(llm=llm, journal=journal)
    with pytest.raises(ServiceError, match=why):
        drive(complete("a"), services)
    assert journal.count() == 0
    assert drive(complete("a"), services)[0].text == "good"
    assert drive(complete("a"), services)[0].text == "good"
    assert len(llm.calls) == len(replies) + 1


def test_a_kept_reply_that_validate_refuses_now_is_replaced(drive, journal):
    def short(text: str) -> None:
        if len(text) > 3:
            raise ValueError("too long")

    services = Services(llm=ScriptedLLM(["a long one", "no", "a long one too"]), journal=journal)
    assert drive(complete("a"), services)[0].text == "a long one"
    assert drive(complete("a", validate=short), services)[0].text == "no"
    assert drive(complete("a"), services)[0].text == "no"
    with pytest.raises(InvalidReplyError, match="too long"):
        drive(complete("b", validate=short), services)
    assert journal.count() == 1


def test_damaged_payloads_are_asked_for_again(drive, journal):
    drive(ask(EVERY_KIND), all_fakes(journal))
    for payload in (b"", b"\x00", b"\xff" * 9, b"[1]", b"\x02\x00\x00\x00\x05\x00\x00\x00"):
        journal._execute("UPDATE replies SET payload = ?", (payload,))
        again = all_fakes(journal)
        np.testing.assert_equal(drive(ask(EVERY_KIND[:4]), again), drive(ask(EVERY_KIND[:4]), all_fakes()))
        assert len(again.llm.calls) == 1
        assert len(again.embedder.calls) == 3  # a batch of documents, and two queries
        assert len(again.reranker.calls) == 1


def test_equal_requests_of_one_batch_are_paid_for_once(drive, journal):
    llm, events = FakeLLM(), []
    services = Services(llm=llm, journal=journal, max_concurrency=4, progress=events.append)
    replies = drive(complete("a", "b", "a", "a"), services)
    assert [reply.text for reply in replies] == ["a", "b", "a", "a"]
    assert sorted(call.prompt for call in llm.calls) == ["a", "b"]
    assert (events[-1].done, events[-1].total) == (4, 4)
    drive(complete("x", "x"), Services(llm=llm))  # without a journal each request is asked
    assert len(llm.calls) == 4


def test_the_first_of_two_concurrent_replies_stays(journal):
    key = request_key("m", EVERY_KIND[0])
    assert journal.put(key, b"first") == b"first"
    assert journal.put(key, b"second") == b"first"
    journal.forget(key)
    assert journal.get(key) is None


# Keys


@dataclass(frozen=True)
class Translate:
    text: Any


@dataclass(frozen=True)
class Shorten:
    text: Any


def test_a_key_covers_service_type_and_content_but_not_the_purpose():
    base = Complete(prompt="p", purpose="one", prompt_version="1")
    key = request_key("m", base)
    assert key == request_key("m", replace(base, purpose="two", validate=print))
    others = [
        ("other model", base),
        ("m", replace(base, prompt="q")),
        ("m", replace(base, system="p")),
        ("m", replace(base, max_tokens=5)),
        ("m", replace(base, prompt_version="2")),
        ("m", Embed(texts=("p",))),
        ("m", Embed(texts=("p",), kind="query")),
        ("m", Embed(texts=("p", ""))),
        ("m", Rate(query="p", texts=())),
        ("m", Rate(query="", texts=("p",))),
        ("m", Describe(image=b"p", prompt="")),
        ("m", Describe(image=b"", prompt="p")),
        *(("m", fields(x)) for fields in (Translate, Shorten) for x in ("p", "1", 1, b"p")),
    ]
    keys = {request_key(*other) for other in others}
    assert len(keys | {key}) == len(others) + 1


class Mood(Enum):
    CALM = 1


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        (Complete(prompt="p\udc80é", purpose="x"), "65064b0e58fc11fb"),
        (Search(route="r", query="q", k=1, where={"b": [1, True, 0.5], "a": None}), "9ceb6490681a3f7e"),
        (Translate(Mood.CALM), "e8f1ee6545d31fcb"),
        (Translate(b"p"), "4b84dce7352c4903"),
    ],
)
def test_keys_are_the_same_in_every_process_and_release(asked, key):
    found = request_key("m", asked)  # another one would cost whoever has a journal all of it again
    assert (found[:16], len(found)) == (key, 64)


def test_a_field_that_has_no_canonical_form_is_a_failed_request(drive, journal):
    services = Services(handlers={Rate: Services(reranker=FakeReranker()).handler(Rate)}, journal=journal)
    with pytest.raises(ParameterError, match="a request's field must be text, bytes"):
        drive(ask([Rate(query="q", texts={"a set"})]), services)  # type: ignore[arg-type]


texts = st.text(alphabet=st.characters(exclude_categories=[]), max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False)


words = texts.filter(str.strip)
REPLIES = st.one_of(
    st.tuples(
        st.just(Complete(prompt="", purpose="")),
        st.builds(Completion, text=words, input_tokens=st.integers(0, 10**9), output_tokens=st.integers(0, 10**9)),
    ),
    st.lists(finite, max_size=6).map(lambda scores: (Rate(query="", texts=("",) * len(scores)), tuple(scores))),
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(0, 2**32 - 1)).map(
        lambda drawn: (
            Embed(texts=("",) * drawn[0]),
            np.random.default_rng(drawn[2]).normal(size=drawn[:2]).astype(np.float32),
        )
    ),
    st.tuples(st.just(Describe(image=b"", prompt="")), words),
)


@given(REPLIES)
def test_replies_survive_the_disk_to_the_last_bit(asked):
    request, reply = asked
    form = FORMS[type(request)]
    revived = form.revive(request, form.encode(form.clean(request, reply)))
    if isinstance(request, Embed):
        assert (revived.tobytes(), revived.shape) == (reply.tobytes(), reply.shape)
    else:
        assert revived == reply


@given(st.sampled_from(list(FORMS)), st.binary(max_size=40))
def test_any_bytes_are_a_reply_or_an_exception_that_the_driver_catches(kind, payload):
    request = {type(r): r for r in EVERY_KIND}[kind]
    try:
        reply = FORMS[kind].revive(request, payload)
    except (ValueError, TypeError, AttributeError, MemoryError):
        return
    FORMS[kind].clean(request, reply)


# Threads, processes, disks


WRITER = """
import sys
from catena.effects import Complete, Journal, Services, ask, run
from catena.testing.fakes import FakeLLM
path, name = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
with Journal.open(path) as journal:
    services = Services(llm=FakeLLM(lambda request: f"{request.prompt} by {name}"), journal=journal)
    replies = run(ask([Complete(prompt=str(i), purpose="t") for i in range(150)]), services)
print("|".join(reply.text for reply in replies))
"""


def test_two_processes_that_open_and_write_at_once_agree_on_every_reply(tmp_path):
    command, pipe = [sys.executable, "-c", WRITER, str(tmp_path / "journal.db")], subprocess.PIPE
    writers = [subprocess.Popen([*command, name], stdin=pipe, stdout=pipe, text=True) for name in ("ann", "bob")]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    one, two = (writer.communicate(timeout=120)[0] for writer in writers)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert one == two
    assert len(one.split("|")) == 150


def test_what_is_no_journal_and_what_cannot_be_written_is_refused_by_name_and_left_alone(tmp_path):
    notes, songs, later = (tmp_path / name for name in ("notes.db", "songs.db", "later.db"))
    notes.write_bytes(b"these are my notes, not a database " * 100)
    Journal.open(later).close()
    for path, sql in ((songs, "CREATE TABLE songs (title)"), (later, "PRAGMA user_version = 7")):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(sql)
    for path, said in (
        (notes, "notes.db: file is not a database. Try: another path"),
        (songs, "is another kind of database, and this release reads version 1"),
        (later, "is a journal of version 7"),
        (notes / "journal.db", "Try: a directory that can be written"),
        (tmp_path, "unable to open database file"),
    ):
        with pytest.raises(JournalError, match=said):
            Journal.open(path)
    assert notes.read_bytes().startswith(b"these are my notes")


def test_a_torn_file_stops_the_run_by_name(drive, tmp_path):
    path = tmp_path / "journal.db"
    with Journal.open(path) as journal:
        drive(complete(*map(str, range(300))), Services(llm=FakeLLM(lambda r: r.prompt * 50), journal=journal))
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(JournalError, match=r"malformed. Try: remove the file"), Journal.open(path) as journal:
        drive(complete("a", "b"), Services(llm=FakeLLM(), journal=journal))


def test_a_full_disk_stops_the_run_and_keeps_the_replies_so_far(drive, journal):
    llm = FakeLLM(lambda request: request.prompt * 1_000)
    services = Services(llm=llm, journal=journal, max_concurrency=2)
    ((pages,),) = journal._execute("PRAGMA page_count", ())
    journal._execute(f"PRAGMA max_page_count = {pages + 20}", ())
    with pytest.raises(JournalError, match=r"full. Try: free space on the disk and run again"):
        drive(complete(*(f"{i:03}" for i in range(200))), services)
    assert 10 < journal.count() < 40
    assert len(llm.calls) <= journal.count() + 2  # at most those in flight were paid in vain
    journal._execute("PRAGMA max_page_count = 100000", ())
    assert len(drive(complete(*(f"{i:03}" for i in range(200))), services)) == 200
    assert len(llm.calls) <= 202


def test_a_closed_journal_says_so_and_closes_twice(drive, tmp_path):
    journal = Journal.open(tmp_path / "journal.db")
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match=r"is closed. Try: keep it open"):
        drive(complete("a"), Services(llm=FakeLLM(), journal=journal))


# Plans

PRICES = Tariff(
    prices={Complete: Price(input=1.0, output=10.0), Rate: Price(call=0.002), Embed: Price(input=2.0)},
    count=FakeTokenizer().count,
)


def two_rounds() -> Step[str]:
    parts = (f"title of part {i}" for i in range(3))
    titles = yield from ask([Complete(prompt=part, purpose="titles", max_tokens=10) for part in parts])
    yield from ask([Embed(texts=tuple(title.text for title in titles)), Rate(query="q w", texts=("a", "b"))])
    prompt = " ".join(["sum up", *(title.text for title in titles)])
    (summary,) = yield from ask([Complete(prompt=prompt, purpose="summary", max_tokens=50)])
    return summary.text


def test_a_plan_counts_calls_tokens_and_money_without_any_call():
    services = all_fakes()
    found = plan(two_rounds(), services, tariff=PRICES)
    assert services.llm.calls == services.embedder.calls == services.reranker.calls == []
    titles, summary = found.by_purpose["titles"], found.by_purpose["summary"]
    assert (titles.calls, titles.input_tokens, titles.output_tokens) == (3, 12, 30)
    assert titles.cost == pytest.approx((12 * 1 + 30 * 10) / 1e6)
    assert (summary.calls, summary.input_tokens, summary.output_tokens) == (1, 5, 50)
    assert found.by_purpose["rerank"].cost == pytest.approx(0.002)
    assert found.by_purpose["rerank"].input_tokens == 6
    assert found.total.calls == 6
    assert list(found.by_purpose) == ["rerank", "summary", "titles", "embedding"]  # the costliest first
    assert (found.rounds, found.exact_rounds, found.exact, found.stopped_by) == (3, 1, False, "")


def test_a_plan_is_an_upper_bound_and_counts_what_the_journal_has(journal):
    budget = Budget(cap=10.0, tariff=PRICES)
    services = replace(all_fakes(journal), budget=budget)
    before = plan(two_rounds(), services)
    run(two_rounds(), services)
    assert budget.spent.calls == before.total.calls
    assert budget.spent.output_tokens <= before.total.output_tokens
    again = plan(two_rounds(), services)
    assert (again.total.calls, again.kept, again.exact) == (0, 6, True)
    assert again.total.cost == 0


def test_a_plan_counts_repeated_requests_once_when_there_is_a_journal(journal):
    def twice() -> Step[None]:
        yield from complete("a", "a")
        yield from complete("a")

    assert plan(twice(), all_fakes(journal)).total.calls == 1
    assert plan(twice(), all_fakes()).total.calls == 3


def test_stand_ins_steer_a_plan():
    def as_told() -> Step[None]:
        (count,) = yield from complete("how many?")
        yield from complete(*(f"part {i}" for i in range(int(count.text))))

    lost = plan(as_told(), all_fakes())
    assert "invalid literal" in lost.stopped_by
    assert (lost.total.calls, lost.exact) == (1, False)
    told = plan(as_told(), all_fakes(), stand_ins={Complete: lambda request: Completion(text="7", output_tokens=2)})
    assert (told.total.calls, told.total.output_tokens, told.stopped_by) == (8, 16, "")


def test_a_plan_needs_no_services_and_fails_types_it_does_not_know():
    def asks_unknown() -> Step[Any]:
        (failed,) = yield [SimpleNamespace(purpose="unknown")]
        assert isinstance(failed, Failed)
        rows, ranking = yield [Embed(texts=("a",)), Search(route="r", query="q", k=1)]
        caption, names = yield [Describe(image=b"", prompt="p"), Recognise(texts=("a", "b"))]
        spans = (("a", 0, 1), ("b", 0, 1))
        chunks, texts = yield [FetchChunks(spans=spans), FetchText(spans=spans)]
        assert (rows.shape, ranking.hits, names) == ((1, 1), (), ((), ()))
        assert (chunks, texts) == (((), ()), (None, None))
        return caption

    found = plan(asks_unknown(), Services())
    assert (found.total.calls, found.stopped_by) == (7, "")
