"""What errors advise can be done by whoever reads it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_calls import call

import catena
from catena.model import CatenaError, LibraryBusyError, RouteError
from catena.store.schema import WriterLock

HOLD = """
import sys
from pathlib import Path
from catena.store.schema import WriterLock
with WriterLock(Path(sys.argv[1]), timeout=1).held():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_who_waits_for_a_writer_learns_which_process_to_wait_for(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LibraryBusyError) as caught, WriterLock(tmp_path, timeout=0.1).held():
            pass
        holder.communicate("")
    assert f"process {holder.pid} has been writing for 0.1 s" in str(caught.value)
    assert str(caught.value).endswith(f"Try: waiting until process {holder.pid} has ended, or stopping it")
    assert "timeout" not in str(caught.value)


@pytest.mark.parametrize("holder", ["itself", "", "no number", None])
def test_no_one_is_told_to_stop_itself_or_an_unknown_process(tmp_path: Path, holder: str | None) -> None:
    with WriterLock(tmp_path, timeout=1).held():
        (tmp_path / "writer.pid").unlink()
        if holder is not None:
            (tmp_path / "writer.pid").write_text(holder.replace("itself", str(os.getpid())))
        with pytest.raises(LibraryBusyError) as caught, WriterLock(tmp_path, timeout=0.1).held():
            pass
    unknown = "waiting until that process has ended, or stopping it"
    assert caught.value.do_next == ("again when that thread has finished" if holder == "itself" else unknown)


def test_no_one_is_told_to_rank_by_the_other_routes_when_there_are_none() -> None:
    one, every = RouteError("dense", "gone"), RouteError("dense, lexical", "gone", all_failed=True)
    assert str(one) == "route 'dense' failed: gone. Try: on_route_error='degrade' to rank by the others"
    assert str(every) == "every route failed (dense, lexical): gone"
    for error in (one, every):
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.all_failed) == (str(error), error.all_failed)


def test_a_sound_library_that_cannot_be_written_is_sound_and_an_index_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "note.md").write_text("# Note\n\nA sentence.\n")
    with catena.Library.open(tmp_path / "lib") as library:
        library.index([tmp_path / "note.md"])
    lock = tmp_path / "lib" / "lexical" / "headed" / ".tantivy-meta.lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()  # tantivy cannot make the lock it reads under; the tests may run as root, whom no rights stop
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK)
        assert call("verify", "-l", tmp_path / "lib").stdout == "sound: 1 document, 1 chunk checked\n"
    result = call("verify", "-l", tmp_path / "lib", code=4)
    assert "headed views: the lexical index cannot be read (" in result.stdout
    assert "disk space" not in result.output


class Odd:
    """An embedding model whose vectors are not what it declares."""

    identity, dim = "odd/1", 4

    def __init__(self, width: int, number: float) -> None:
        self.width, self.number = width, number

    def embed_documents(self, texts):
        return np.full((len(texts), self.width), self.number, np.float32)

    def embed_query(self, text):
        return self.embed_documents([text])[0]


@pytest.mark.parametrize(
    ("embedder", "told"),
    [
        (Odd(8, 0.5), "the embedder 'odd/1' declares 4 numbers and gave 8"),
        (Odd(4, 1.0), "vector 0 has length 2.0000, neither 1 nor 0; the embedder 'odd/1' declares 4 numbers of"),
    ],
)
def test_a_model_that_breaks_its_word_is_named(tmp_path: Path, embedder: Odd, told: str) -> None:
    with catena.Library.open(tmp_path / "lib", embedder=embedder) as library:
        with pytest.raises(CatenaError, match=told):
            library.add(catena.Document(id="a", text="# A\n\nA sentence.\n"))
        assert library.documents() == ()
