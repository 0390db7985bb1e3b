"""The reading process: its caps act, what it read before they did is kept, and it is used again."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from catena.model import Document, ParseError
from catena.parsing import Limits, parse, parse_bytes
from catena.parsing.files import parsed_pdf
from catena.parsing.process import FileClock, Pool, ReadingProcess
from catena.parsing.process import ask as ask_pool
from catena.parsing.protocol import Unreadable, failure_of, read_frame, write_frame

HTML = {"name": "x.html"}
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux caps the address space")


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close()


def ask(process: ReadingProcess, data: bytes, limits: Limits | None = None) -> list[dict[str, object]]:
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
    for text in ("one", "two"):
        process = pool.take()
        assert text_of(ask(process, f"<p>{text}".encode())) == f"{text}\n"
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
    assert text_of(ask_pool(pool, HTML, b"<p>one", Limits())) == "one\n"


@pytest.mark.parametrize(("sent", "state"), [(signal.SIGSTOP, "timeout"), (signal.SIGKILL, "memory")])
def test_a_process_that_does_not_answer_or_was_killed_is_a_named_end(sent: signal.Signals, state: str) -> None:
    process = ReadingProcess()
    os.kill(process.id, sent)
    (event,) = ask(process, b"<p>one", Limits(seconds=0.2))
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
    ask(process, b"<p>one")
    with open(f"/proc/{process.id}/environ", "rb") as file:
        assert b"sk-secret" not in file.read()
    process.close()


def test_pages_read_before_the_end_are_kept() -> None:
    line = ["words", 0.0, 5.0, 0.0, 5.0, 0, [["words", 0.0, 5.0, 5.0, 0]]]
    page = {
        "event": "page", "number": 1, "size": [10, 10], "state": "text", "note": "", "tables": [],
        "lines": [line],
    }  # fmt: skip
    end = {"event": "failed", "state": "timeout", "what": "it was not read within 1 s", "do_next": ""}
    start, blank = {"event": "start", "pages": 3}, Document(id="1", text="")
    parsed = parsed_pdf([start, page, end], blank, "x.pdf")
    assert (parsed.document.text.strip(), parsed.state) == ("words", "partial")
    assert [(note.page, note.state) for note in parsed.notes] == [(2, "failed"), (3, "failed")]
    assert "not read: it was not read within 1 s" in parsed.notes[0].why
    with pytest.raises(Unreadable) as caught:
        parsed_pdf([start, end], blank, "x.pdf")
    assert caught.value.state == "timeout"


@pytest.mark.parametrize(
    ("error", "state"), [(RecursionError(), "too-deep"), (MemoryError(), "memory"), (KeyError("/Root"), "malformed")]
)
def test_exceptions_have_states(error: Exception, state: str) -> None:
    assert failure_of(error)[0] == state


def test_a_reply_larger_than_any_document_is_not_taken(monkeypatch: pytest.MonkeyPatch, pool: Pool) -> None:
    monkeypatch.setattr("catena.parsing.process.MAX_REPLY_BYTES", 1000)
    with pytest.raises(Unreadable, match="larger than 1000 bytes") as caught:
        ask_pool(pool, HTML, b"<p>" + b"word " * 1000, Limits())
    assert caught.value.state == "bomb"


def test_the_clock_stops_with_the_file(pool: Pool) -> None:
    ask_pool(pool, HTML, b"<p>warm", Limits())
    process = pool.take()
    assert ask(process, b"<p>one", Limits(seconds=1.0))[-1]["event"] == "end"
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
    events = ask(process, b"<p>one", Limits(seconds=20))
    assert [event["state"] for event in events] == ["memory"]  # killed at once, not by the clock
    assert not process.usable
    process.close()
