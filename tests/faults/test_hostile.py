"""Every hostile file ends in a named state: no hang, no raw exception, no empty success; a folder of them, too."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
from hostile import HOSTILE, HostileFile

from catena import Library
from catena.enrichment import critical_terms
from catena.library import Preparation
from catena.model import Chunk, Document, Parsed, ParseError
from catena.parsing import Engine, Limits, parse_bytes
from catena.testing import FakeEmbedder

PATIENT, HASTY = Limits(seconds=60), Limits(seconds=5)  # hasty where the time may run out; patient on a busy machine
# low, so that the endless end soon; the deepest text of the corpus has 4 MB
PREPARATION = Preparation(limits=Limits(seconds=2, bytes=5_000_000))
SOUND = "# Sound\n\nThe only file here that means no harm.\n"
# file by file, so that what takes long to build is built once for both engines
CASES = [
    pytest.param(file, engine, id=f"{file.name}-{engine}")
    for file in HOSTILE
    for engine in (("pypdf", "pypdfium2") if file.suffix == ".pdf" else ("pypdf",))
]


@lru_cache(maxsize=1)
def built(file: HostileFile) -> bytes:
    return file.build()


def end_of(file: HostileFile, engine: Engine) -> Parsed | ParseError:
    limits = HASTY if "timeout" in file.expected else PATIENT
    try:
        return parse_bytes(built(file), f"bad{file.suffix}", limits=limits, engine=engine)
    except ParseError as error:
        return error


@pytest.mark.slow
@pytest.mark.parametrize(("file", "engine"), CASES)
def test_a_hostile_file_ends_in_a_named_state(file: HostileFile, engine: Engine) -> None:
    result = end_of(file, engine)
    assert result.state in file.expected
    if isinstance(result, ParseError):
        assert str(result).startswith(f"bad{file.suffix}: {result.state}: ")
        assert not any(word in str(result) for word in ("Traceback", "site-packages", "\n", "IndirectObject("))
        return
    assert result.document.text.strip()
    result.document.text.encode("utf-8")  # a lone surrogate would fail here, and in every store
    assert (result.state == "partial") is any(note.state not in {"blank", "hidden"} for note in result.notes)


@pytest.mark.slow
def test_a_folder_of_hostile_files_is_indexed_to_its_end(tmp_path: Path) -> None:
    folder, files = tmp_path / "hostile", {f"{file.name}{file.suffix}": file for file in HOSTILE}
    folder.mkdir()
    for name, file in files.items():
        (folder / name).write_bytes(file.build())
    (folder / "zz-sound.md").write_text(SOUND, encoding="utf-8")
    with Library.open(tmp_path / "l.catena", embedder=FakeEmbedder(dim=8), preparation=PREPARATION) as library:
        outcomes = {Path(outcome.source).name: outcome for outcome in library.index([folder], password="secret")}
        assert {Path(outcome.source).name: outcome for outcome in library.ledger()} == outcomes
        assert sorted(outcomes) == sorted(path.name for path in folder.iterdir())
        for name, outcome in outcomes.items():
            told = (bool(outcome.reason), bool(outcome.chunks))
            assert told == (outcome.state != "indexed", outcome.state in {"indexed", "partial"}), name
            assert not any(word in outcome.reason for word in ("Traceback", "site-packages", "\n", str(folder))), name
            if outcome.state == "failed":
                assert outcome.reason.partition(":")[0] in files[name].expected | {"limit", "timeout"}, name
        whole = [folder / name for name, outcome in outcomes.items() if outcome.state == "indexed"]
        assert library.verify() == ()
        assert library.stats().documents == sum(outcome.chunks > 0 for outcome in outcomes.values()) > 15
        assert library.search("means no harm", k=1).hits[0].chunk.text in SOUND
        assert {outcome.state for outcome in library.index(whole, password="secret")} == {"skipped"}


def test_a_word_without_end_is_looked_through_once() -> None:
    text = "a" * 300_000 + " HX-200"  # going back for each letter would take far longer than a test may
    chunk = Chunk(id="c", document_id="d", position=0, start=0, end=len(text), text=text)
    assert critical_terms(Document(id="d", text=text, title=""), [chunk]) == (("hx 200",),)
