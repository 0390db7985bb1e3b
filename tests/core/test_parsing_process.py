"""The reading process: its caps and its clock act, what it read before they did is kept, and another one reads on."""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from cli_calls import call, refused
from drawn_pages import pdf, text
from hypothesis import given
from hypothesis import strategies as st

from catena import Library
from catena.effects import Event
from catena.library import Preparation
from catena.model import Document, ParameterError, ParseError
from catena.parsing import Limits, parse, parse_bytes
from catena.parsing.files import parsed_pdf
from catena.parsing.process import FileClock, Pool, ReadingProcess, ask
from catena.parsing.protocol import PART_PAGES, Unreadable, failure_of, part_of, read_frame, write_frame
from catena.testing import FakeEmbedder

HTML = {"name": "x.html"}
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux caps the address space")


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close()


def events_of(process: ReadingProcess, data: bytes, limits: Limits | None = None) -> list[dict[str, object]]:
    limits = limits or Limits()
    return list(process.events({**HTML, "limits": asdict(limits)}, data, FileClock(limits, len(data))))


def text_of(events: list[dict[str, object]]) -> str:
    return "".join(str(event["text"]) for event in events if event["event"] == "piece")


def test_frames_come_back_as_sent_and_one_that_claims_too_much_is_not_taken() -> None:
    pipe = io.BytesIO()
    write_frame(pipe, {"text": "ü\ud800"})
    write_frame(pipe, {}, b"raw")
    pipe.seek(0)
    assert read_frame(pipe, 10) == ({"text": "ü\ud800"}, 16)
    assert [read_frame(pipe, 10), read_frame(pipe, 10)] == [({"data": b"raw"}, 5), None]
    pipe = io.BytesIO()
    write_frame(pipe, {}, b"raw")
    for data, most in ((b"\xff" * 20, 1_000), (pipe.getvalue(), 2)):
        with pytest.raises(ValueError, match="frame of"):
            read_frame(io.BytesIO(data), most)
    assert read_frame(io.BytesIO(pipe.getvalue()[:-1]), 3) is None


def test_a_process_is_used_again_and_not_shared(pool: Pool) -> None:
    for said in ("one", "two"):
        process = pool.take()
        assert text_of(events_of(process, f"<p>{said}".encode())) == f"{said}\n"
        pool.give_back(process)
    first, second = pool.take(), pool.take()
    assert first is process is not second
    pool.give_back(first)
    pool.give_back(second)
    assert (first.usable, second.usable) == (True, False)  # one idle process is kept


def test_documents_of_many_threads_are_not_mixed_up() -> None:
    def read(number: int) -> str:
        return parse_bytes(f"<p>page {number}".encode(), "x.html").document.text

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(read, range(12))) == [f"page {number}\n" for number in range(12)]


def test_a_process_that_died_while_idle_is_replaced(pool: Pool) -> None:
    first = pool.take()
    pool.give_back(first)
    os.kill(first.id, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while first.usable and time.monotonic() < deadline:
        time.sleep(0.01)
    second = pool.take()
    assert second is not first
    pool.give_back(second)


def test_a_process_that_ended_by_itself_hands_the_file_on(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, fresh = ReadingProcess(), ReadingProcess()
    gone._child.communicate()  # ends its requests: it ends by itself, as when none comes for a minute
    processes = [gone, fresh]
    monkeypatch.setattr(pool, "take", lambda: processes.pop(0))
    assert text_of(ask(pool, HTML, b"<p>one", Limits())) == "one\n"


@pytest.mark.parametrize(("sent", "state"), [(signal.SIGSTOP, "timeout"), (signal.SIGKILL, "memory")])
def test_a_process_that_does_not_answer_or_was_killed_is_a_named_end(sent: signal.Signals, state: str) -> None:
    process = ReadingProcess()
    os.kill(process.id, sent)
    (event,) = events_of(process, b"<p>one", Limits(seconds=0.2))
    process.close()
    assert (event["state"], "0.2 s" in str(event["what"])) == (state, state == "timeout")


@pytest.mark.parametrize("name", ["x.md", "x.txt", "x.html", "x.tex", "x"])
def test_the_caller_looks_at_no_byte_of_a_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a file is read in the caller's process, which no clock ends")

    path = tmp_path / name
    path.write_bytes(b"words")
    parse(path)
    for reader in ("builtins.open", "os.open", "catena.parsing.readers.kind_of", "catena.parsing.text.decode"):
        monkeypatch.setattr(reader, refuse)
    assert parse(path).document.text.strip() == "words"


@pytest.mark.slow
@ON_LINUX
@pytest.mark.parametrize("name", ["x.html", "x.txt"])
def test_memory_is_capped_and_a_long_text_comes_whole(name: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_bytes(b"<p>" + b"word " * 8_000_000, name, limits=Limits(memory_bytes=90_000_000))
    assert caught.value.state == "memory"
    text = "Größe 山 😀\n" * 1_000_000  # more than one frame holds
    assert parse_bytes(text.encode(), "x.txt").document.text == text


def test_the_process_sees_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "sk-secret")
    process = ReadingProcess()
    events_of(process, b"<p>one")
    with open(f"/proc/{process.id}/environ", "rb") as file:
        assert b"sk-secret" not in file.read()
    process.close()


def page_of(said: str) -> dict[str, Any]:
    line = [said, 0.0, 5.0, 0.0, 5.0, 0, [[said, 0.0, 5.0, 5.0, 0]]]
    return {"event": "page", "number": 1, "size": [9, 9], "state": "text", "note": "", "tables": [], "lines": [line]}


def test_pages_read_before_the_end_are_kept_and_without_any_that_shows_something_it_is_a_failure() -> None:
    end = {"event": "failed", "state": "timeout", "what": "it was not read within 1 s", "do_next": ""}
    start, blank = {"event": "start", "pages": 3}, Document(id="1", text="")
    parsed = parsed_pdf([start, page_of("words"), end], blank, "x.pdf")
    assert (parsed.document.text.strip(), parsed.state) == ("words", "partial")
    assert [(note.page, note.state) for note in parsed.notes] == [(2, "failed"), (3, "failed")]
    assert "not read: it was not read within 1 s" in parsed.notes[0].why
    unseen = [{"event": "start", "pages": 1}, page_of("\u200b\u200d"), {"event": "end"}]
    for events, state in (([start, end], "timeout"), (unseen, "empty")):
        with pytest.raises(Unreadable) as caught:
            parsed_pdf(events, blank, "x.pdf")
        assert caught.value.state == state


@pytest.mark.parametrize(
    ("error", "state"), [(RecursionError(), "too-deep"), (MemoryError(), "memory"), (KeyError("/Root"), "malformed")]
)
def test_exceptions_have_states(error: Exception, state: str) -> None:
    assert failure_of(error)[0] == state


def test_a_reply_larger_than_any_document_is_not_taken(monkeypatch: pytest.MonkeyPatch, pool: Pool) -> None:
    monkeypatch.setattr("catena.parsing.process.MAX_REPLY_BYTES", 1000)
    with pytest.raises(Unreadable, match="larger than 1000 bytes") as caught:
        ask(pool, HTML, b"<p>" + b"word " * 1000, Limits())
    assert caught.value.state == "bomb"


def test_the_clock_stops_with_the_file(pool: Pool) -> None:
    ask(pool, HTML, b"<p>warm", Limits())
    process = pool.take()
    assert events_of(process, b"<p>one", Limits(seconds=1.0))[-1]["event"] == "end"
    time.sleep(1.2)
    assert process.usable
    process.close()


def test_a_process_that_sends_no_frames_is_ended_and_none_is_used_by_a_fork_of_its_owner(monkeypatch):
    process = ReadingProcess()
    with monkeypatch.context() as forked:
        forked.setattr("catena.parsing.process.os.getpid", lambda: -1)
        assert not process.usable
    assert process.usable
    monkeypatch.setattr("catena.parsing.process.read_frame", lambda *_: (_ for _ in ()).throw(ValueError("no frame")))
    events = events_of(process, b"<p>one", Limits(seconds=20))
    assert [event["state"] for event in events] == ["memory"]  # killed at once, not by the clock
    assert not process.usable
    process.close()


# a long file under a clock


PAGES = 198


@pytest.fixture(scope="module")
def filing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filings") / "filing.pdf"
    path.write_bytes(
        pdf(*(lambda canvas, n=n: text(canvas, f"item {n} of the filing", 70, 80) for n in range(PAGES)))
    )
    return path


class Struck(ReadingProcess):
    """A process that meets with something when it has sent `after` events of a file."""

    after, strike = 50, signal.SIGKILL

    def events(self, request: Mapping[str, Any], data: bytes, clock: FileClock) -> Iterator[dict[str, Any]]:
        for count, event in enumerate(super().events(request, data, clock)):
            if count == self.after and event["event"] == "page":
                os.kill(self.id, self.strike)
            yield event


@pytest.fixture
def struck(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Struck]]:
    """Read by processes that are struck: a class of its own, to be told how."""

    class Mine(Struck):
        pass

    pool = Pool()
    monkeypatch.setattr(pool, "take", Mine)
    monkeypatch.setattr("catena.parsing.files.POOL", pool)
    yield Mine
    pool.close()


@pytest.mark.slow
def test_what_killed_processes_leave_is_read_on_and_a_page_that_takes_too_long_costs_itself_alone(filing, struck):
    read = parse(filing)
    assert (read.state, read.retry, read.notes) == ("parsed", "", ())
    struck.after, struck.strike = 100, signal.SIGSTOP
    late = parse(filing, limits=Limits(seconds=3, seconds_per_page=10))
    (note,) = late.notes
    assert (note.state, "timeout: it was not read within 3 s" in note.why) == ("failed", True)
    assert "Limits(seconds=" in late.retry
    for number in range(1, PAGES + 1):
        assert (f"item {number - 1} of" in late.document.text) is (number != note.page)
    struck.after = 10_000
    assert read == parse(filing)


def test_several_processes_read_a_file_as_one_does_and_its_pages_are_told(filing: Path) -> None:
    told: list[tuple[int, int]] = []
    assert parse(filing, workers=3, on_page=lambda *page: told.append(page)) == parse(filing)
    assert sorted(told) == [(page, PAGES) for page in range(1, PAGES + 1)]


def test_what_is_indexed_does_not_depend_on_the_number_of_workers(
    filing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catena.library.file_ingestion.BATCH_SECONDS", float("inf"))
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nThe pump of note {number} is blue.\n")
    (folder / "1.pdf").write_bytes(filing.read_bytes())
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    databases = set()
    for workers in (None, 1, 2, 5):
        events: list[Event] = []
        home = tmp_path / str(workers)
        shutil.copytree(folder, home / "files")
        monkeypatch.chdir(home)
        with Library.open("shelf", embedder=FakeEmbedder(8)) as library:
            outcomes = library.index("files", workers=workers, watch=events.append)
            assert [outcome.state for outcome in outcomes].count("failed") == 1
            assert [outcome.state for outcome in library.index("files", workers=workers)].count("skipped") == 7
        read = [(event.purpose, event.done, event.total) for event in events if event.kind == "read"]
        assert sorted(read) == [("files/1.pdf", page, PAGES) for page in range(1, PAGES + 1)]
        databases.add((home / "shelf" / "library.sqlite").read_bytes())
    assert len(databases) == 1
    with Library.open("shelf", embedder=FakeEmbedder(8)) as library, pytest.raises(ParameterError, match="workers"):
        library.index("files", workers=0)


def test_the_time_of_a_file_grows_with_its_pages_and_ends() -> None:
    limits = Limits(seconds=10, seconds_per_page=2)
    clock, begun = FileClock(limits, 0), time.monotonic()
    assert clock.due == pytest.approx(begun + 10, abs=1)
    clock.heard({"event": "start", "pages": 1_000})
    assert clock.due == pytest.approx(begun + 10, abs=1)  # of the first page
    clock._begun -= 2_005
    clock.heard({"event": "page"})
    assert clock.due == pytest.approx(begun + 5, abs=1)  # what is left of 2,010 seconds
    assert not clock.is_over
    clock._begun -= 10
    assert clock.is_over
    what = "it was not read within 2010 s (10 s, and 2 s for each of its 1000 pages)"
    assert clock.told() == (what, "a higher Limits(seconds_per_page=...)")
    text_file = FileClock(limits, 1_000_000)
    text_file.heard({"event": "long"})
    assert text_file.due == pytest.approx(begun + 50, abs=1)


class Scripted:
    """A process that dies at certain pages: at some always, at others of one that has read a page before."""

    def __init__(self, pages: int, always: set[int], once: set[int], why: str) -> None:
        self.pages, self.always, self.once, self.why = pages, always, set(once), why
        self.taken = 0

    def take(self) -> Scripted:
        self.taken += 1
        return self

    def give_back(self, _: object) -> None: ...

    def close(self) -> None: ...

    def events(self, request: Mapping[str, Any], _: bytes, clock: FileClock) -> Iterator[dict[str, Any]]:
        own = part_of(self.pages, *request["part"])
        yield {"event": "start", "pages": self.pages}
        for number in range(max(request["first"], own.start), own.stop):
            if number in self.always or (number in self.once and number > request["first"]):
                self.once.discard(number)
                yield {"event": "failed", "ended": True, "state": self.why, "what": "it ended", "do_next": ""}
                return
            yield {"event": "page", "number": number}
        yield from [{"event": "about"}] * (own.stop > self.pages)
        yield {"event": "end"}


numbers = st.sets(st.integers(1, 12))


@given(st.integers(0, 2_000), st.integers(1, 40))
def test_parts_are_all_pages_once_in_their_order_and_none_is_worth_less_than_a_process(
    pages: int, parts: int
) -> None:
    shares = [part_of(pages, part, parts) for part in range(parts)]
    assert [number for share in shares for number in share] == list(range(1, pages + 1))
    assert sum(share.stop > pages for share in shares) == 1  # who tells what is not of a page
    assert all(len(share) >= min(PART_PAGES, pages) for share in shares if share)


@given(numbers, numbers, st.sampled_from(["timeout", "memory", "malformed"]), st.integers(1, 4))
def test_each_page_is_read_once_or_given_up(always: set[int], once: set[int], why: str, workers: int) -> None:
    pool, told = Scripted(12, always, once - always, why), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("catena.parsing.protocol.PART_PAGES", 3)
        events = ask(
            pool,  # type: ignore[arg-type]
            {"name": "x.pdf"}, b"", Limits(), workers=workers, on_page=lambda *page: told.append(page),
        )  # fmt: skip
    read = [event["number"] for event in events if event["event"] == "page"]
    given_up = [event["number"] for event in events if event["event"] == "unread"]
    assert sorted(read + given_up) == list(range(1, 13))
    blamed = always | (once if why == "timeout" else set())
    assert set(given_up) <= blamed
    assert always <= set(given_up)
    others = [event["event"] for event in events if event["event"] not in {"start", "page", "unread"}]
    assert others == ["about", "end"]
    assert sorted(told) == [(done, 12) for done in range(1, len(read) + 1)]
    assert pool.taken <= workers + len(always) * 2 + len(once)


def test_a_file_that_cannot_be_opened_again_is_not_tried_page_by_page() -> None:
    class Closed(Scripted):
        def events(self, request: Mapping[str, Any], data: bytes, clock: FileClock) -> Iterator[dict[str, Any]]:
            reading = super().events(request, data, clock)
            yield from reading if request["first"] == 1 else list(reading)[-1:]

    pool = Closed(12, {4, 7}, set(), "memory")
    events = ask(pool, {"name": "x.pdf"}, b"", Limits())  # type: ignore[arg-type]
    assert (events[-1]["state"], pool.taken) == ("memory", 2)


@pytest.mark.slow
def test_what_the_clock_cut_is_told_replaces_no_version_with_more_pages_and_is_read_by_the_next_run(
    filing: Path, struck: type[Struck], tmp_path: Path
) -> None:
    file = tmp_path / "filing.pdf"
    file.write_bytes(filing.read_bytes())
    struck.after, struck.strike = 150, signal.SIGSTOP
    how = Preparation(limits=Limits(seconds=5, seconds_per_page=0.001))
    with Library.open(tmp_path / "shelf", embedder=FakeEmbedder(8), preparation=how) as library:
        (part,) = library.index(file, workers=1)
        assert (part.state, part.cut) == ("partial", True)
        assert "not read within 5.198 s (5 s, and 0.001 s for each of its 198 pages)" in part.reason
        assert f"-{PAGES}: " in part.reason  # the pages, as a range
        before = library.get(part.document_id)
        file.write_bytes(filing.read_bytes() + b"\n")
        struck.after = 20
        (cut,) = library.index(file)
        assert (cut.state, cut.cut, cut.chunks) == ("failed", True, 0)
        assert "the version that is kept has more of it, and the next run reads the file again. Try: " in cut.reason
        with pytest.raises(ParseError, match=r"limit: .*the version that is kept"):
            library.replace(file)
        assert library.get(part.document_id) == before
        struck.after = 10_000
        again = [library.index(file)[0] for _ in range(2)]
        assert [(outcome.state, outcome.reason) for outcome in again] == [("indexed", ""), ("skipped", "unchanged")]
        assert f"item {PAGES - 1} of" in library.get(part.document_id).document.text


@pytest.mark.slow
@pytest.mark.parametrize("command", ["index", "parse"])
def test_the_command_fails_where_the_clock_cut_and_says_what_to_do(filing, struck, tmp_path, command):
    struck.after, struck.strike = 50, signal.SIGSTOP
    where = ("--library", tmp_path / "shelf") if command == "index" else ("--out", tmp_path / "x.md")
    message = refused(command, filing, *where, "--timeout", "3", code=1)
    assert "Try: the same command with a higher --timeout" in message
    struck.after = 10_000
    call(command, filing, *where, "--timeout", "60", "--memory", "900")
