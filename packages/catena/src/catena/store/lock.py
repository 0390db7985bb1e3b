"""One writer at a time, across threads and processes, freed by the system when its holder dies."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from catena.model.errors import LibraryBusyError, LibraryError


class WriterLock:
    """An exclusive lock on a folder, with the process id of its holder beside it.

    The lock is SQLite's own on an empty database: portable, and gone with the process that held it, so that
    a kill leaves nothing to clean up.
    """

    def __init__(self, folder: Path, *, timeout: float) -> None:
        self._folder, self._timeout = folder, timeout
        self._file, self._holder = folder / "lock.sqlite", folder / "writer.pid"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock for a `with` block.

        Raises:
            LibraryBusyError: another holder kept it for longer than the timeout (seconds).
        """
        try:
            connection = sqlite3.connect(self._file, timeout=self._timeout, isolation_level=None)
        except sqlite3.Error as error:
            raise LibraryError(
                str(self._folder), f"the lock file cannot be opened ({error})", "leave to write there, or a copy"
            ) from None
        with closing(connection):
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                raise self._refusal(error) from None
            with suppress(OSError):  # the name of the holder is a courtesy; the lock is what counts
                self._holder.write_text(str(os.getpid()), encoding="ascii")
            yield

    def _refusal(self, error: sqlite3.Error) -> LibraryError:
        if "locked" not in str(error):
            return LibraryError(
                str(self._folder), f"the lock cannot be taken ({error})", "leave to write there, or a copy"
            )
        with suppress(OSError, ValueError):
            pid = int(self._holder.read_text(encoding="ascii"))
            if pid != os.getpid():
                return self._busy(f"process {pid}", f"waiting until process {pid} has ended, or stopping it")
            return self._busy("another thread of this process", "again when that thread has finished")
        return self._busy("another process", "waiting until that process has ended, or stopping it")

    def _busy(self, who: str, do_next: str) -> LibraryBusyError:
        what = f"{who} has been writing for {self._timeout:g} s; nothing was changed by this call"
        return LibraryBusyError(str(self._folder), what, do_next)
