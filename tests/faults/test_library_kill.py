"""A library that is killed while it is being written opens again, whole, with all that was acknowledged.

This file is also the program that is killed: a parent that has imported everything forks one writer a round.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from forked import Rounds, fork_each_round, rounds_of

from catena.effects import Search
from catena.model import Chunk, Document, Entry, Section, View, span_id
from catena.store import LibraryStore

KILLS = int(os.environ.get("CATENA_KILLS", "100"))
DIM = 8
NAMES = [f"doc-{number}" for number in range(12)]


def entry_of(name: str, version: int) -> Entry:
    """A document of three chunks; its only word is unique to the version."""
    word = f"{name.replace('-', '')}v{version}"
    text = f"{word} one\n\n{word} two\n\n{word} three"
    spans = [(text.index(piece), text.index(piece) + len(piece)) for piece in text.split("\n\n")]
    chunks = [
        Chunk(
            id=span_id(name, "text", start, end), document_id=name, position=position, start=start, end=end,
            text=text[start:end],
        )
        for position, (start, end) in enumerate(spans)
    ]  # fmt: skip
    whole = Section(
        id=f"{name}-s", document_id=name, position=0, level=0, title="", path=(), start=0, body_start=0,
        end=len(text), tree_end=len(text),
    )  # fmt: skip
    return Entry(
        document=Document(id=name, text=text),
        sections=(whole,),
        chunks=tuple(chunks),
        views=tuple(
            View(chunk_id=chunk.id, kind=kind, text=chunk.text) for chunk in chunks for kind in ("raw", "headed")
        ),
        terms=((word,), (), ()),
        fingerprint=word,
    )


def vectors_of(entry: Entry) -> np.ndarray:
    return np.eye(DIM, dtype=np.float32)[: len(entry.chunks)]


def write_forever(folder: Path, seed: int) -> None:
    """Add, replace and delete at random; say in the log what begins and what is acknowledged."""
    choose, path = random.Random(seed), folder / "library"
    log = (folder / "log").open("a", buffering=1)
    with log as out, LibraryStore.open(path, embedder_identity="fake", dim=DIM) as store:
        version = seed * 10_000
        while True:
            version += 1
            present = {info.id for info in store.documents()}
            name = choose.choice(NAMES)
            action = choose.choice(["add", "replace", "delete"]) if name in present else "add"
            if action == "delete":
                out.write(f"begin {name} 0\n")
                store.delete(name)
            else:
                out.write(f"begin {name} {version}\n")
                entry = entry_of(name, version)
                (store.replace if name in present else store.add)([(entry, vectors_of(entry))])
            out.write("done\n")


def read_log(log: Path) -> tuple[dict[str, int], tuple[str, int] | None]:
    """Return the acknowledged version of each document, 0 for deleted, and what was under way."""
    acknowledged: dict[str, int] = {}
    under_way = None
    for line in log.read_text().splitlines() if log.exists() else []:
        if line == "done" and under_way:
            acknowledged[under_way[0]] = under_way[1]
            under_way = None
        elif line.startswith("begin "):
            _, name, version = line.split(" ")
            under_way = (name, int(version))
    return acknowledged, under_way


@pytest.fixture
def writers(tmp_path: Path) -> Iterator[Rounds]:
    with rounds_of(__file__, tmp_path) as rounds:
        yield rounds


@pytest.mark.slow
def test_a_library_survives_kills_at_random_moments(tmp_path: Path, writers: Rounds) -> None:
    choose = random.Random(20261121)
    path, log = tmp_path / "library", tmp_path / "log"
    held: dict[str, int] = {}
    for _ in range(KILLS):
        log.unlink(missing_ok=True)
        pid = writers.begin()
        time.sleep(choose.uniform(0.0, 0.25))
        os.kill(pid, signal.SIGKILL)
        assert writers.ended() == signal.SIGKILL
        acknowledged, under_way = read_log(log)
        held |= acknowledged
        with LibraryStore.open(path, embedder_identity="fake", dim=DIM) as store:
            assert store.verify() == ()
            now = {info.id: int(info.fingerprint.partition("v")[2]) for info in store.documents()}
            if under_way and now.get(under_way[0], 0) == under_way[1]:
                held[under_way[0]] = under_way[1]  # written, and killed before it could say so
            assert now == {name: version for name, version in held.items() if version}
            for name, version in now.items():
                assert store.get(name) == entry_of(name, version)
                found = store.search(Search(route="lexical", query=entry_of(name, version).fingerprint, k=10))
                assert [hit.chunk.document_id for hit in found.hits] == [name] * 3
    assert len(held) > len(NAMES) // 2


if __name__ == "__main__":
    fork_each_round(lambda seed: write_forever(Path(sys.argv[1]), seed))
