"""Damage anywhere in `library.sqlite`: each method answers, or says that the library is damaged; nothing raw comes.

`verify` itself never dies, and tells whatever a changed value of the tables leads to.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from catena import Library
from catena.model import CatenaError, DamagedLibraryError, Document
from catena.testing import FakeEmbedder, FakeLLM

QUICK, ALL = 40, int(os.environ.get("CATENA_MUTATIONS", "320"))
QUESTION = "Which screws has HX-201?"
ODD = [
    0, -1, 2**62, 1.5, "", "x", "\x00", "[" * 5_000, '{"a": ' * 5_000, "[1, 2]", "{}", "null", "1e999", "[null]",
    b"", b"\x00\xff", b"\xff" * 64, "\udcff".encode("utf-8", "surrogatepass"), "9" * 5_000, "-7",
]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    for number in (201, 202):
        table = f"|a|b|\n|-|-|\n|1|{number} A|\n"
        text = f"# HX-{number} manual\n\n## Screws\n\nSix screws of {number} Nm.\n\n## Fuse\n\n{table}"
        (folder / f"hx-{number}.md").write_text(text)
    with opened(folder / "library") as library:
        library.index([folder / "hx-201.md", folder / "hx-202.md", folder / "gone.md"])
        library.add(Document(id="note", text="A note on screws.\n", metadata={"vendor": "Acme"}))
        library.replace(Document(id="note", text="A note.\n\nOn screws.\n", metadata={"vendor": "Acme"}))
        library.build_graph()
    return folder


def opened(path: Path) -> Library:
    return Library.open(path, embedder=FakeEmbedder(16), llm=FakeLLM())


METHODS: dict[str, Callable[[Library], Any]] = {
    "get": lambda library: [library.get(name) for name in ("note", "hx-201.md", "hx-202.md")],
    "documents": lambda library: library.documents(),
    "stats": lambda library: library.stats(),
    "ledger": lambda library: library.ledger(),
    "vanished": lambda library: library.vanished(),
    "search": lambda library: library.search(QUESTION),
    "filtered": lambda library: library.search(QUESTION, where={"vendor": "Acme"}),
    "search_views": lambda library: library.search_views(QUESTION),
    "passages": lambda library: library.passages(QUESTION),
    "segments": lambda library: library.segments(QUESTION),
    "answer": lambda library: library.answer(QUESTION),
    "search_graph": lambda library: library.search_graph(QUESTION),
    "search_figures": lambda library: library.search_figures(QUESTION),
    "sections": lambda library: library.sections(library.search(QUESTION)),
    "has_graph": lambda library: library.has_graph,
    "replace": lambda library: library.replace(Document(id="note", text="Another note.\n")),
    "index": lambda library: library.index(library.store.path.parent / "hx-201.md"),
    "delete": lambda library: library.delete("hx-202.md"),
}
WRITING = ("replace", "index", "delete")


def mutations(seed: int, path: Path) -> Iterator[str]:
    """Change one thing in the file, and yield what."""
    draw = random.Random(seed)
    if seed % 8 == 0:
        raw = bytearray(path.read_bytes())
        at = draw.randrange(len(raw))
        raw[at] ^= 1 << draw.randrange(8)
        path.write_bytes(raw)
        yield f"bit of byte {at}"
        return
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        tables = sorted(name for name in names if not name.startswith("sqlite_"))
        table = draw.choice(tables)
        if seed % 8 == 1:
            statement = draw.choice([f"DROP TABLE {table}", f"DELETE FROM {table}"])
            connection.execute(statement)
            yield statement
            return
        column = draw.choice([row[1] for row in connection.execute(f"PRAGMA table_info({table})")])
        values = connection.execute(f"SELECT {column} FROM {table}").fetchall()
        if not values:
            yield f"{table} is empty"
            return
        (old,) = draw.choice(values)
        new = draw.choice([*ODD, *([damaged(old, draw)] * 6)])
        with suppress(sqlite3.IntegrityError):  # a key of another type: SQLite refuses it
            connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {column} IS ?", (new, old))
        yield f"{table}.{column}: {old!r:.60} became {new!r:.60}"


def damaged(value: Any, draw: random.Random) -> Any:
    """Return a value with one bit or character of it changed, or cut."""
    if isinstance(value, str) and value:
        at = draw.randrange(len(value))
        return draw.choice([value[:at], value[:at] + draw.choice('0x"[]{}é') + value[at + 1 :]])
    if isinstance(value, bytes) and value:
        at = draw.randrange(len(value))
        flipped = bytes([value[at] ^ (1 << draw.randrange(8))])
        return draw.choice([value[:at], value[:at] + flipped + value[at + 1 :]])
    return draw.choice([str(value), 3, -3]) if isinstance(value, int) else value


def outcome_of(ask: Callable[[Library], Any], library: Library) -> tuple[Any, str]:
    """Return an answer, or the name of the error, and what is raw in it."""
    try:
        return ask(library), ""
    except CatenaError as error:
        return type(error), ""
    except Exception as error:
        return type(error), f"{type(error).__name__}: {error}"[:200]


@pytest.mark.parametrize("seeds", [range(QUICK), pytest.param(range(QUICK, ALL), marks=pytest.mark.slow)])
def test_damaged_rows_and_bits_are_named_or_told(whole: Path, tmp_path: Path, seeds: range) -> None:
    with opened(whole / "library") as library:
        right = {name: outcome_of(ask, library)[0] for name, ask in METHODS.items() if name not in WRITING}
        assert library.verify() == ()
    raw: list[str] = []
    silent: list[str] = []
    for seed in seeds:
        folder = tmp_path / str(seed)
        shutil.copytree(whole, folder)
        (what,) = mutations(seed, folder / "library" / "library.sqlite")
        try:
            library = opened(folder / "library")
        except CatenaError:
            continue
        except Exception as error:
            raw.append(f"{seed} {what}: open: {type(error).__name__}: {error}"[:300])
            continue
        with library:
            told, problem = outcome_of(Library.verify, library)
            raw += [f"{seed} {what}: verify: {problem}"] if problem else []
            for name, ask in METHODS.items():
                found, problem = outcome_of(ask, library)
                raw += [f"{seed} {what}: {name}: {problem}"] if problem else []
                wrong = name in right and not isinstance(found, type) and found != right[name]
                if wrong and name != "stats" and told == () and not getattr(found, "degraded", ()):
                    silent.append(f"{seed} {what}: {name}")
        shutil.rmtree(folder)
    assert not raw, (len(raw), raw[:20])
    assert not [each for each in silent if "ledger" not in each]  # whose lines nothing else repeats


def with_rows(whole: Path, folder: Path, statement: str) -> Path:
    """Return the path of a copy of the library in which a statement has changed rows."""
    shutil.copytree(whole, folder / "w")
    path = folder / "w" / "library"
    with closing(sqlite3.connect(path / "library.sqlite")) as connection, connection:
        connection.execute(statement)
    return path


def test_a_kind_of_view_that_is_no_text_is_damage(whole: Path, tmp_path: Path) -> None:
    path = with_rows(whole, tmp_path, "UPDATE views SET kind = x'' WHERE view = 1")
    with opened(path) as library, pytest.raises(DamagedLibraryError):
        library.search_views(QUESTION)


NEWEST = "(SELECT max(generation) FROM chunks)"


@pytest.mark.parametrize(
    "damage",
    [
        f"generation = 0 WHERE generation = {NEWEST}",
        f"generation = {NEWEST} WHERE chunk = (SELECT min(chunk) FROM chunks)",
    ],
)
def test_a_chunk_of_a_generation_that_cannot_be_is_told_and_found(whole: Path, tmp_path: Path, damage: str) -> None:
    path = with_rows(whole, tmp_path, f"UPDATE chunks SET {damage}")
    shutil.rmtree(path / "lexical")
    with opened(path) as library:
        assert [each for each in library.verify() if "impossible generation" in each]
        assert "note" in {hit.chunk.document_id for hit in library.search("A note on screws.").hits}
