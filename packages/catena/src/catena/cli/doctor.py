"""`catena doctor`: whether this machine has what Catena needs, and what else it could use."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, TypeAlias

from catena import __version__
from catena.cli.console import out, write_json
from catena.cli.failures import SOME_FAILED, ProblemError
from catena.cli.options import AsJson
from catena.model.errors import CatenaError

State: TypeAlias = Literal["ok", "absent", "failed"]

# extra -> the package it installs, and what it is for
EXTRAS = {
    "fast-pdf": ("pypdfium2", "reads PDF faster"),
    "tables": ("pdfplumber", "finds tables with drawn borders"),
    "openai": ("openai", "written answers by an OpenAI-compatible model"),
    "eval": ("ir-measures", "standard retrieval measures"),
    "rank-bm25": ("rank-bm25", "the reference lexical engine"),
    "tfidf": ("scikit-learn", "TF-IDF over any views"),
    "raptor": ("scikit-learn", "trees of summaries, as RAPTOR makes them"),
    "umap": ("umap-learn", "their clusters, as in its paper"),
    "graph": ("networkx", "graphs of passages for networkx"),
    "ann": ("faiss-cpu", "approximate neighbours by meaning, in large graphs"),
    "train": ("torch", "training of the paper's scorer of hops"),
    "plots": ("plotly", "pictures as .html and .png"),
    "spacy": ("spacy", "critical entities by a pipeline on this machine"),
    "gliner": ("gliner", "critical entities of any types, on this machine"),
    "sentence-transformers": ("sentence-transformers", "larger embedding models, cross-encoders that rerank"),
    "cohere": ("cohere", "Cohere's rerankers and embedding models"),
    "voyage": ("voyageai", "Voyage's rerankers and embedding models"),
    "elasticsearch": ("elasticsearch", "libraries on an Elasticsearch server"),
    "opensearch": ("opensearch-py", "libraries on an OpenSearch server"),
    "ray": ("ray", "indexing by many machines"),
    "testing": ("hypothesis", "the suites in catena.testing, for adapters and stores of your own"),
}
CORE = ("numpy", "pypdf", "tantivy", "tokenizers")
KEYS = ("OPENAI_API_KEY", "CATENA_API_KEY", "OPENAI_BASE_URL", "CO_API_KEY", "VOYAGE_API_KEY", "CATENA_LIBRARY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at; an optional one may be absent without anything being wrong."""

    kind: str
    name: str
    state: State
    detail: str


def doctor(as_json: AsJson = False) -> None:
    """Check Python, packages, keys, the embedding, the parser and a library; exit code 1 if something fails."""
    checks = tuple(_checks())
    failed = [check for check in checks if check.state == "failed"]
    if as_json:
        write_json({"healthy": not failed, "checks": checks})
    else:
        _show(checks)
    if failed:
        names = ", ".join(check.name for check in failed)
        raise ProblemError(f"not working: {names}", "pip install --force-reinstall catena-core", SOME_FAILED)


def _checks() -> Iterator[Check]:
    yield Check(kind="machine", name="catena", state="ok", detail=__version__)
    yield Check(kind="machine", name="python", state="ok", detail=platform.python_version())
    yield Check(kind="machine", name="platform", state="ok", detail=f"{platform.system()} {platform.machine()}")
    for package in CORE:
        found = _version(package)
        yield Check(kind="package", name=package, state="ok" if found else "failed", detail=found or "not installed")
    for extra, (package, purpose) in EXTRAS.items():
        found = _version(package)
        detail = f"{package} {found}: {purpose}" if found else f"{purpose}: pip install 'catena-core[{extra}]'"
        yield Check(kind="extra", name=extra, state="ok" if found else "absent", detail=detail)
    for name in KEYS:
        present = bool(os.environ.get(name))
        yield Check(
            kind="environment", name=name, state="ok" if present else "absent", detail="set" if present else "not set"
        )
    yield _tried("embedding", _embedding)
    yield _tried("parser process", _parser)
    yield _tried("library", _library)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _tried(name: str, work: Callable[[], str]) -> Check:
    """Do one piece of real work, and say how long it took or what went wrong."""
    began = time.monotonic()
    try:
        detail = work()
    except (CatenaError, OSError, ImportError) as error:
        return Check(kind="work", name=name, state="failed", detail=f"{type(error).__name__}: {error}")
    return Check(kind="work", name=name, state="ok", detail=f"{detail} in {(time.monotonic() - began) * 1000:.0f} ms")


def _embedding() -> str:
    from catena.enrichment.static_embedding import StaticEmbedder

    embedder = StaticEmbedder()
    embedder.embed_query("a question")
    return f"{embedder.identity.partition(':')[0]} loaded, {embedder.dim} dimensions,"


def _parser() -> str:
    from catena.parsing import parse_bytes

    parsed = parse_bytes(b"<html><body><h1>Title</h1><p>One sentence.</p></body></html>", "page.html")
    return f"a page of {len(parsed.document.text)} characters read by a process of its own"


def _library() -> str:
    from catena.library import Library
    from catena.model import Document

    with tempfile.TemporaryDirectory(prefix="catena-doctor-", ignore_cleanup_errors=True) as folder:
        with Library.open(Path(folder) / "library") as library:
            library.add(Document(id="note", text="# Torque\n\nTighten the screws to 2.4 N·m.\n"))
            found, problems = library.search("torque of the screws", k=1), library.verify()
        if not found.hits or problems:
            raise OSError("; ".join(problems) or "what was written was not found")
    return "written, searched and verified in the folder for temporary files"


def _show(checks: tuple[Check, ...]) -> None:
    from rich.text import Text

    from catena.cli.terminal import printable
    from catena.cli.views import table

    colours = {"ok": "green", "absent": "dim", "failed": "bold red"}
    made = table("", "What", "State", "Detail")
    shown = ""
    for check in checks:
        made.add_row(
            Text(check.kind if check.kind != shown else "", style="bold"), check.name,
            Text(check.state, style=colours[check.state]), Text(printable(check.detail)),
        )  # fmt: skip
        shown = check.kind
    out().print(made)
