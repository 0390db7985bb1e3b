"""Every hostile file ends in a named state: no hang, no raw exception, no empty success."""

from __future__ import annotations

from functools import lru_cache

import pytest
from hostile import HOSTILE, HostileFile

from catena.model import Parsed, ParseError
from catena.parsing import Engine, Limits, parse_bytes

PATIENT, HASTY = Limits(seconds=60), Limits(seconds=5)  # hasty where the time may run out; patient on a busy machine
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
        return parse_bytes(built(file), f"bad{file.suffix}", password=file.password, limits=limits, engine=engine)
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
