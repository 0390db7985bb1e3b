"""Brings a server's jars from Maven's index into a cache folder, once; nothing of them is part of this package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from catena.model import CatenaError

CACHE = "CATENA_SERVERS"  # the environment's name for the cache folder
FETCH_SECONDS = 600.0
COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies"


class NoServersError(CatenaError):
    """This machine cannot start a search server of its own; whatever was fetched before is kept."""

    kept = "what was fetched before, in the folder for it"
    usual_advice = "Java and Maven on this machine, or a server that runs already"

    def __init__(self, what: str, do_next: str) -> None:
        super().__init__(what, do_next)
        self.what, self.do_next = what, do_next

    def __str__(self) -> str:
        return f"no server can be started here: {self.what}. Try: {self.do_next}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One thing on Maven's index, at one version; with what it depends on, unless it is to come `alone`."""

    group: str
    name: str
    version: str
    form: str = "jar"  # or "zip", as the index calls it
    alone: bool = False

    def xml(self) -> str:
        """Return it as a dependency of a POM."""
        nothing_else = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>" if self.alone else ""
        return (
            f"<dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version><type>{self.form}</type>"
            f"<exclusions>{nothing_else}</exclusions></dependency>"
        )


def cache_folder() -> Path:
    """Return where fetched servers are kept: the folder named by CATENA_SERVERS, else in the user's cache."""
    chosen = os.environ.get(CACHE)
    if chosen:
        return Path(chosen).absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "catena" / "servers"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "catena" / "servers"


def pom(artifacts: Sequence[Artifact]) -> str:
    """Return a POM that depends on the artifacts; of two versions of one jar, that of the earlier artifact counts."""
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>catena</groupId><artifactId>servers</artifactId><version>1</version>"
        f"<dependencies>{''.join(artifact.xml() for artifact in artifacts)}</dependencies></project>\n"
    )


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; if it is missing, `make` fills a new one, which appears whole or never."""
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
        made = Path(scratch) / target.name
        made.mkdir()
        make(made)
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster, and its folder is as good
                raise
    return target


def fetch(artifacts: Sequence[Artifact], folder: Path) -> None:
    """Copy the jars of the artifacts, and of all that these depend on, into a folder, with `mvn`.

    Args:
        artifacts: what to fetch, exact versions.
        folder: where the jars go.

    Raises:
        NoServersError: `mvn` is missing, or could not fetch them (no way to the index, or no such version).
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise NoServersError("mvn (Apache Maven) is not on PATH", "installing it, or naming a running server")
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "pom.xml"
        project.write_text(pom(artifacts), encoding="utf-8")
        command = [
            maven,
            "-q",
            "-B",
            "-f",
            str(project),
            COPY,
            f"-DoutputDirectory={folder}",
            "-DincludeScope=runtime",
        ]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=FETCH_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NoServersError(f"mvn did not end within {FETCH_SECONDS:.0f} s", "again later") from None
    if done.returncode:
        names = ", ".join(f"{artifact.name} {artifact.version}" for artifact in artifacts)
        raise NoServersError(
            f"mvn could not fetch {names}", "whether Maven's index can be reached and has these versions"
        )
