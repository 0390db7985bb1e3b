"""Write down what Catena does today, and compare it later: a restructuring may change nothing of it.

    python scripts/golden_record.py --data DIR --write FILE     # before a change
    python scripts/golden_record.py --data DIR --compare FILE   # after it: names each thing that differs

Recorded are digests of each document of the bundled and of DIR's PDFs as it is indexed (text, sections, chunks,
views), what each question of DIR finds (ids, scores and citations of search, passages, segments and graph), and what
the command line prints. Only names of the public face are used, so that files may move.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import catena
from catena import Library
from catena.model import citation

QUESTIONS = (
    "How tight are the cover screws of the HX210?",
    "How is the HX210 put into service?",
    "What do the HX200 and the HX210 differ in?",
    "How do I read a file into a data frame?",
    "Which option makes the shell exit at the first error?",
)


def digest(value: object) -> str:
    """Return 16 hexadecimal digits that tell two values apart; scores count to nine digits."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    return repr(value)


def _score(value: float) -> float:
    return float(f"{value:.9g}")


def ranked(ranking: Any) -> list[list[object]]:
    """Return ids, scores and citations of hits, in order."""
    return [[hit.chunk.id, _score(hit.score), citation(hit.chunk)] for hit in ranking.hits]


def asked(library: Library, question: str, *, graph: bool) -> dict[str, str]:
    """Return digests of all that a question finds."""
    segments = library.segments(question).segments
    found: dict[str, object] = {
        "search": ranked(library.search(question)),
        "lexical": ranked(library.search(question, routes=("lexical",))),
        "passages": ranked(library.passages(question)),
        "segments": [[hit.segment.id, _score(hit.value), citation(hit.segment)] for hit in segments],
    }
    if graph:
        result = library.search_graph(question)
        found["graph"] = ranked(result.ranking)
        found["chains"] = [[chunk.id for chunk in chain.chunks] for chain in result.chains]
    return {name: digest(value) for name, value in found.items()}


def command(words: Iterable[str], folder: Path) -> str:
    """Return the digest of what a command prints and how it ends; paths of this run are taken out."""
    done = subprocess.run(
        [sys.executable, "-c", "from catena.cli import main; main()", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if "Traceback" in done.stderr:
        raise RuntimeError(done.stderr)
    return digest([done.returncode, done.stdout.replace(str(folder), ""), done.stderr.replace(str(folder), "")])


def record(data: Path) -> Iterator[tuple[str, str]]:
    """Yield name and digest of everything that is recorded."""
    data = data.resolve()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        os.chdir(folder)  # ids are paths from here: they are the same wherever the sources lie
        yield from _of_pdfs(data, folder)
        yield from _of_collections(data, folder)
        yield from _of_commands(folder)


def _of_pdfs(data: Path, folder: Path) -> Iterator[tuple[str, str]]:
    bundled = Path(catena.__file__).parent / "data" / "demo"
    for name, source in {"bundled": bundled, "pdfs": data / "pdfs", "filings": data / "filings"}.items():
        if not source.is_dir():
            continue
        shutil.copytree(source, folder / "sources" / name)
        with Library.open(folder / name) as library:
            library.index(Path("sources", name))
            for outcome in library.ledger():
                yield f"{name}/ledger/{Path(outcome.source).name}", digest([outcome.state, outcome.reason])
            for info in library.documents():
                entry = library.get(info.id)
                whole = [entry.document, entry.sections, entry.chunks, entry.views]
                yield f"{name}/document/{Path(info.id).name}", digest([repr(each) for each in whole])
            library.build_graph()
            for question in QUESTIONS:
                for kind, told in asked(library, question, graph=True).items():
                    yield f"{name}/{kind}/{question}", told


def _of_collections(data: Path, folder: Path) -> Iterator[tuple[str, str]]:
    similar = data / "similar_docs"
    if not similar.is_dir():
        return
    with Library.open(folder / "similar") as library:
        shutil.copytree(similar / "docs", folder / "sources" / "similar")
        library.index(Path("sources", "similar"))
        library.build_graph()
        for line in (similar / "questions.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            for kind, told in asked(library, row["question"], graph=row["qid"].endswith("0")).items():
                yield f"similar/{kind}/{row['qid']}", told


def _of_commands(folder: Path) -> Iterator[tuple[str, str]]:
    question = QUESTIONS[0]
    at = ["-l", "bundled"]
    calls: dict[str, list[str]] = {
        "search": ["search", question, *at, "--json"],
        "search in words": ["search", question, *at],
        "segments": ["search", question, *at, "--segments", "--json"],
        "passages": ["search", question, *at, "--passages", "--json"],
        "graph": ["search", question, *at, "--graph", "--json"],
        "status": ["status", *at, "--json"],
        "verify": ["verify", *at],
        "a field that nothing has": ["search", question, *at, "--where", '{"titel": "x"}'],
        "no library": ["search", question, "-l", "nowhere"],
        "explain-error": ["explain-error", "ParameterError"],
    }
    for name, words in calls.items():
        yield f"command/{name}", command(words, folder)


def main() -> int:
    """Write or compare a record; return 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--compare", type=Path)
    given = parser.parse_args()
    found = dict(record(given.data))
    if given.write:
        given.write.write_text(json.dumps(found, ensure_ascii=False, indent=1), encoding="utf-8")
    if not given.compare:
        return 0
    before = json.loads(given.compare.read_text(encoding="utf-8"))
    differing = [name for name in sorted({*before, *found}) if before.get(name) != found.get(name)]
    print(f"{len(found)} recorded, {len(differing)} differ")
    for name in differing:
        print(f"  {name}")
    return int(bool(differing))


if __name__ == "__main__":
    raise SystemExit(main())
