"""A folder of hostile files is indexed to its end: each file in the ledger by name, the library whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile import HOSTILE, HostileFile

from catena import Library
from catena.enrichment import critical_terms
from catena.library import Preparation
from catena.model import Chunk, Document, Outcome
from catena.parsing import Limits
from catena.testing import FakeEmbedder

# low, so that the endless end soon; the deepest text of the corpus has 4 MB
PREPARATION = Preparation(limits=Limits(seconds=2, bytes=5_000_000))
SOUND = "# Sound\n\nThe only file here that means no harm.\n"


def name_of(file: HostileFile) -> str:
    return f"{file.name}{file.suffix}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    for file in HOSTILE:
        (folder / name_of(file)).write_bytes(file.build())
    (folder / "zz-sound.md").write_text(SOUND, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    path = tmp_path_factory.mktemp("library") / "hostile.catena"
    with Library.open(path, embedder=FakeEmbedder(dim=8), preparation=PREPARATION) as library:
        yield library


@pytest.fixture(scope="module")
def outcomes(folder: Path, library: Library) -> dict[str, Outcome]:
    found = library.index([folder], password="secret")
    assert len({outcome.source for outcome in found}) == len(found)
    return {Path(outcome.source).name: outcome for outcome in found}


@pytest.mark.slow
def test_every_hostile_file_ends_in_the_ledger_with_a_reason(
    folder: Path, library: Library, outcomes: dict[str, Outcome]
) -> None:
    assert sorted(outcomes) == sorted(path.name for path in folder.iterdir())
    assert {Path(outcome.source).name: outcome for outcome in library.ledger()} == outcomes
    for name, outcome in outcomes.items():
        assert outcome.state in {"indexed", "partial", "failed", "skipped"}, name
        assert bool(outcome.reason) is (outcome.state != "indexed"), name
        assert bool(outcome.chunks) is (outcome.state in {"indexed", "partial"}), name
        assert not any(word in outcome.reason for word in ("Traceback", "site-packages", "\n", str(folder))), name


@pytest.mark.slow
def test_what_fails_fails_with_a_state_that_the_file_may_end_in(outcomes: dict[str, Outcome]) -> None:
    for file in HOSTILE:
        outcome = outcomes[name_of(file)]
        if outcome.state == "failed" and file.password in {None, "secret"}:
            assert outcome.reason.partition(":")[0] in file.expected | {"limit", "timeout"}, file.name


@pytest.mark.slow
def test_the_library_is_whole_and_finds_the_one_sound_file(library: Library, outcomes: dict[str, Outcome]) -> None:
    assert library.verify() == ()
    indexed = [outcome for outcome in outcomes.values() if outcome.state in {"indexed", "partial"}]
    assert library.stats().documents == len(indexed) > 30
    assert library.search("means no harm", k=1).hits[0].chunk.text in SOUND


@pytest.mark.slow
def test_what_could_be_read_is_skipped_the_next_time(
    folder: Path, library: Library, outcomes: dict[str, Outcome]
) -> None:
    whole = [folder / name for name, outcome in outcomes.items() if outcome.state == "indexed"]
    assert {outcome.state for outcome in library.index(whole, password="secret")} == {"skipped"}


def test_a_word_without_end_is_looked_through_once() -> None:
    text = "a" * 300_000 + " HX-200"  # going back for each letter would take far longer than a test may
    chunk = Chunk(id="c", document_id="d", position=0, start=0, end=len(text), text=text)
    assert critical_terms(Document(id="d", text=text, title=""), [chunk]) == (("hx 200",),)
