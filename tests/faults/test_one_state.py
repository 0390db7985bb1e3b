"""While a writer replaces documents, every question sees one state of the library: its answer is that of a state.

The writer, a thread or another process, takes all documents from one version to the other and back, each time at
once, so that a library has two states only.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catena import Library
from catena.effects import Complete, Handler, Search, Step, arun, one_state, run
from catena.model import Document, citation
from catena.store import schema
from catena.testing import FakeEmbedder, FakeLLM

SECONDS = float(os.environ.get("CATENA_RACE_SECONDS", "5"))
QUESTION = "How are the screws of HX-201 tightened?"
TEXTS = ("Tighten the screws to {n} Nm.", "The fuse of unit {n} holds 3 A.", "Oil the pump {n} times a year.")


def documents(version: int) -> list[Document]:
    """Return all documents of a state: in the other one all sections but the first have moved, or are not there."""
    made = []
    for number in range(201, 209):
        sections = [f"## Part {at}\n\n{TEXTS[at % 3].format(n=number + at)}\n" for at in range(4 + version * 3)]
        if version:
            sections[1:] = sections[:0:-1]
        made.append(Document(id=f"hx-{number}", text=f"# HX-{number} manual\n\n" + "\n".join(sections)))
    return made


def opened(path: Path) -> Library:
    return Library.open(path, embedder=FakeEmbedder(16), llm=FakeLLM())


def cited(ranking: Any) -> tuple[Any, ...]:
    return tuple((hit.chunk, hit.score, citation(hit.chunk)) for hit in ranking.hits)


async def _apassages(library: Library) -> Any:
    return cited(await library.apassages(QUESTION, budget_tokens=60))


QUESTIONS: dict[str, Callable[[Library], Any]] = {
    "search": lambda library: cited(library.search(QUESTION)),
    "asearch": lambda library: cited(asyncio.run(library.asearch(QUESTION, where={"kind": "text"}))),
    "passages": lambda library: cited(library.passages(QUESTION, budget_tokens=60)),
    "read": lambda library: cited(library.read(QUESTION, budget_tokens=60)),
    "apassages": lambda library: asyncio.run(_apassages(library)),
    "segments": lambda library: library.segments(QUESTION).segments,
    "asegments": lambda library: asyncio.run(library.asegments(QUESTION)).segments,
    "answer": lambda library: library.answer(QUESTION),
    "aanswer": lambda library: asyncio.run(library.aanswer(QUESTION)),
    "search_graph": lambda library: library.search_graph(QUESTION),
    "asearch_graph": lambda library: asyncio.run(library.asearch_graph(QUESTION)),
    "figures": lambda library: library.search_figures(QUESTION),
    "sections": lambda library: {segment.text for segment, _ in library.sections(library.search(QUESTION, k=200))},
    "get": lambda library: [library.get(document.id) for document in documents(0)[:1]],
    "documents": lambda library: library.documents(),
}


@pytest.mark.slow
@pytest.mark.parametrize("writer", ["thread", "process"])
def test_every_answer_is_that_of_one_state(tmp_path: Path, writer: str) -> None:
    with opened(tmp_path / "library") as library:
        states: list[dict[str, Any]] = []
        for version in (0, 1):
            library.replace(*documents(version))
            if not library.has_graph:
                library.build_graph()
            states.append({name: ask(library) for name, ask in QUESTIONS.items()})
        assert [name for name in QUESTIONS if states[0][name] == states[1][name]] == ["figures"]

        ended, wrong, asked = threading.Event(), [], dict.fromkeys(QUESTIONS, 0)
        replaced = 0

        def read(name: str) -> None:
            while not ended.is_set():
                wrong.extend(what_is_wrong(name, library, states))
                asked[name] += 1

        threads = [threading.Thread(target=read, args=(name,)) for name in QUESTIONS]
        for thread in threads:
            thread.start()
        try:
            if writer == "process":
                command = [sys.executable, __file__, str(tmp_path / "library"), str(SECONDS)]
                done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS + 120)
                replaced = int(done.stdout)
            else:
                replaced = write(library, SECONDS)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        print(replaced, "replacements;", asked)
        assert replaced > 2
        assert all(asked.values()), asked
        assert not wrong, (len(wrong), sum(asked.values()), sorted(set(wrong))[:8])
        assert library.verify() == ()


def log_of(library: Library) -> int:
    """Let the library empty SQLite's log, which a state that is still read prevents, and return its length."""
    with library.store._connections.locked() as connection:
        schema.shorten_log(connection, library.store.path, -1)
    return (library.store.path / "library.sqlite-wal").stat().st_size


def two_reads(between: Callable[[], None]) -> Step[list[Any]]:
    request = [Search(route="keyword", query="HX-201", k=100)]
    first = yield request
    between()
    second = yield request
    return [*first, *second]


def test_a_step_sees_one_state_and_lets_go_of_it(tmp_path: Path) -> None:
    with opened(tmp_path / "library") as library:
        library.replace(*documents(0))

        def replace_and_ask() -> None:
            library.replace(*documents(1))
            inner = run(two_reads(lambda: None), library.services)  # of the question that it is part of
            assert inner[0] == before

        before = library.store.search(Search(route="keyword", query="HX-201", k=100))
        found = run(two_reads(replace_and_ask), library.services)
        assert found == [before, before]
        assert library.store.search(Search(route="keyword", query="HX-201", k=100)) != before
        assert log_of(library) == 0


@pytest.mark.slow
def test_a_step_that_fails_or_is_cancelled_lets_go_of_its_state(tmp_path: Path) -> None:
    with opened(tmp_path / "library") as library:
        library.replace(*documents(0))

        def fail() -> None:
            assert log_of(library) >= 0
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            run(two_reads(fail), library.services)
        with pytest.raises(ZeroDivisionError):
            asyncio.run(arun(two_reads(fail), library.services))

        async def cancelled() -> None:
            began = asyncio.Event()

            def waits() -> Step[None]:
                yield [Search(route="lexical", query="screws", k=3)]
                began.set()
                yield [Complete(prompt="?", purpose="test")]

            async def never(_: object) -> None:
                await asyncio.sleep(1_000)

            services = replace(library.services, handlers={Complete: Handler(identity="never", acall=never)})
            task = asyncio.create_task(arun(waits(), services))
            await began.wait()
            library.replace(*documents(1))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        assert log_of(library) == 0


@pytest.mark.slow
def test_a_long_question_hinders_no_writer(tmp_path: Path) -> None:
    with opened(tmp_path / "library") as library:
        library.replace(*documents(0))
        with one_state(library.services):
            held = library.documents()
            for version in (1, 0, 1):
                assert len(library.replace(*documents(version))) == 8
            assert log_of(library) > 0
            assert library.documents() == held
        assert library.documents() != held
        assert log_of(library) == 0
        assert library.verify() == ()


def what_is_wrong(name: str, library: Library, states: list[dict[str, Any]]) -> list[str]:
    try:
        found = QUESTIONS[name](library)
    except Exception as error:
        return [f"{name}: {type(error).__name__}: {error}"[:300]]
    if name == "sections":  # two questions: each section is one of a state
        right = found <= states[0][name] | states[1][name]
    else:
        right = found in (states[0][name], states[1][name])
    return [] if right else [f"{name}: the answer is of neither state"]


def write(library: Library, seconds: float) -> int:
    """Replace all documents, again and again, and return how often."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        library.replace(*documents(count % 2))
        count += 1
        time.sleep(0.02)
    return count


if __name__ == "__main__":
    with opened(Path(sys.argv[1])) as own:
        sys.stdout.write(str(write(own, float(sys.argv[2]))))
