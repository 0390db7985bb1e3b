"""Check what pages claim: links and anchors lead somewhere, names are there, tables are whole, formulas have tests.

    python scripts/check_docs.py          # exit code 1 where a page claims what is not so

What the blocks of the pages print is checked by tests/core/test_readme.py, and the site is built by `nox -s docs`.
"""

from __future__ import annotations

import ast
import importlib
import re
import runpy
import sys
import tomllib
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "integrations").glob("*/README.md")),
]
PAPERS = ("hiqa.md", "iier.md", "mc-indexing.md", "textrag.md")
FENCED = re.compile(r"^```(\w*)(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
CODE = re.compile(r"(`+).+?\1", re.DOTALL)
OURS = re.compile(r"`((?:catena(?:_server|_view|_bench|_minilm)?|langchain_catena|llama_index_catena)(?:\.\w+)+)")
NO_MODULE = re.compile(r"\.(?:md|py|toml|json|txt|html|sqlite)\b")
OF_PACKAGES = ("_catena", "_server", "_bench", "_minilm", "_view")  # how the first parts of full names end


def read(*name: str) -> str:
    """Return the text of a file of the repository."""
    return ROOT.joinpath(*name).read_text(encoding="utf-8")


@cache
def resolves(name: str) -> bool:
    """Return whether a dotted name, in full or below `catena`, leads to a module or to something in one."""
    full = name if name.partition(".")[0].endswith(("catena", *OF_PACKAGES)) else f"catena.{name}"
    parts = full.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            if not hasattr(found, part) and part not in getattr(found, "__annotations__", {}):
                return False
            found = getattr(found, part, None)
        return True
    return False


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as viewers of repositories and the site make them."""
    found: dict[str, int] = {}
    text = page.read_text(encoding="utf-8")
    anchors = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#{1,6} +(.+?)(?: +#+)?$", FENCED.sub("", text), re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", heading)
        plain = unicodedata.normalize("NFC", words).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        again = found[slug] = found.get(slug, -1) + 1
        anchors.add(f"{slug}-{again}" if again else slug)
    return frozenset(anchors)


def links_of(page: Path) -> list[str]:
    """Return where the links of a page lead, those in code left out."""
    prose = FENCED.sub("", page.read_text(encoding="utf-8"))
    return LINK.findall(CODE.sub("`", prose.replace("[`", "[").replace("`]", "]")))


def links() -> Iterator[str]:
    """Yield links within the repository that lead nowhere."""
    for page in PAGES:
        for link in (link for link in links_of(page) if not re.match(r"[a-z]+:", link)):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
                yield f"{page.relative_to(ROOT)}: {link} leads nowhere"
    index = DOCS / "how-to" / "index.md"
    if sorted(links_of(index)) != sorted(page.name for page in index.parent.glob("*.md") if page != index):
        yield "docs/how-to/index.md does not list every page of its folder"


def dotted_names() -> Iterator[str]:
    """Yield full names, in pages and docstrings, that lead nowhere."""
    texts = [(page, page.read_text(encoding="utf-8")) for page in PAGES if page.name != "CHANGELOG.md"]
    for path in (path for part in ("packages", "integrations") for path in (ROOT / part).rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        strings = (node.value for node in nodes if isinstance(node, ast.Constant))
        texts += [(path, value) for value in strings if isinstance(value, str)]
    for path, text in texts:
        for name in (name for name in OURS.findall(text) if not NO_MODULE.search(name)):
            if not resolves(name):
                yield f"{path.relative_to(ROOT)}: {name} leads nowhere"


def is_test(file: str, test: str) -> bool:
    """Return whether a file of tests, below tests/ or tests/core, has a test of this name."""
    path = ROOT / file if file.startswith("tests/") else ROOT / "tests" / "core" / file
    return path.exists() and bool(re.search(rf"^(async )?def {test}\(", path.read_text(encoding="utf-8"), re.M))


@cache
def options_of_commands() -> frozenset[str]:
    """Return the long options of all commands of `catena` and `catena-bench`."""
    import typer
    from click import Context

    from catena.cli.app import app
    from catena_bench.cli import app as bench

    def walked(command: Any, context: Any) -> Iterator[str]:
        for each in command.params:
            yield from (name for name in (*each.opts, *each.secondary_opts) if name.startswith("--"))
        for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
            yield from walked(command.get_command(context, name), context)

    commands = [typer.main.get_command(each) for each in (app, bench)]
    return frozenset(name for command in commands for name in walked(command, Context(command)))


def maps() -> Iterator[str]:
    """Yield what the pages about papers and servers name and is not there: modules, options, tests of formulas."""
    prompts = {path.name for path in (ROOT / "packages/catena/src/catena/prompts").glob("*.md")}
    for name in (*PAPERS, "past-one-machine.md"):
        page = read("docs", name)
        named = set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", page)) if name in PAPERS else set()
        named |= set(re.findall(r"`((?:catena_server\.|text\.|\w+_catena\.)\w*(?:\.\w+)*)`", page))
        files = {each for each in named if NO_MODULE.search(each)}
        if not named or (name in PAPERS and not files <= prompts):
            yield f"docs/{name}: {sorted(files - prompts) or 'no name'}"
        yield from (f"docs/{name}: {each} is not there" for each in sorted(named - files) if not resolves(each))
        options = set(re.findall(r"--[a-z][a-z-]+", page)) - {"--data"} - options_of_commands()
        yield from (f"docs/{name}: {option} is no option" for option in sorted(options))
    for name in PAPERS:
        table = read("docs", name).split("## Formulas, functions, tests")[1].split("\n## ")[0]
        for row in [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]:
            pinned = re.findall(r"`(test_\w+\.py)::(test_\w+)`", row[2])
            if not pinned or not re.search(r"`[a-z_]+(\.\w+)+`", row[1]):
                yield f"docs/{name}: {row[0]} has no function or no test"
            yield from (f"docs/{name}: {'::'.join(each)} is not there" for each in pinned if not is_test(*each))


def threats() -> Iterator[str]:
    """Yield defences whose function or test is not there."""
    page = read("docs", "threat-model.md").split("## Attacks")[0]
    for row in [line.split(" | ") for line in re.findall(r"^\| .+ \|$", page, re.M)][1:]:
        named = re.findall(r"`([a-z_.\w]+)`", row[2])
        pinned = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row[3])
        if not named or not (pinned or "run below" in row[3]):
            yield f"docs/threat-model.md: {row[0]} has no function or no test"
        yield from (f"docs/threat-model.md: {name} is not there" for name in named if not resolves(name))
        yield from (f"docs/threat-model.md: {'::'.join(each)} is not there" for each in pinned if not is_test(*each))


def comparison() -> Iterator[str]:
    """Yield cells of the table of other systems that do not say how they are known, and ours that lead nowhere."""
    lines = re.findall(r"^\| \d+ \|.*$", read("docs", "comparison.md"), re.M)
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    if [int(row[0]) for row in rows] != list(range(1, len(rows) + 1)) or {len(row) for row in rows} != {11}:
        yield "docs/comparison.md: the table is not whole"
    for row in rows:
        for cell in row[3:]:
            known = re.match(r"(?:Y|P|N|\d+|many)\b", cell) and re.search(r" · [rsid]$", cell)
            if cell != "—" and not (known and ((" · i" not in cell) or "](https://github.com/" in cell)):
                yield f"docs/comparison.md, row {row[0]}: {cell!r} does not say how it is known"
        ours = re.match(r"^(Y|P|N)\b.* · \[t\]\(([^)#]+)(?:#[\w-]+)?\)$", row[2])
        names = re.findall(r"`([a-z_]+(?:\.\w+)*)`", row[2])
        if not ours or not (DOCS / ours[2]).exists() or not (names or ours[1] != "Y" or ours[2].endswith(".ipynb")):
            yield f"docs/comparison.md, row {row[0]}: {row[2]!r} leads to no page, or names no code"
        yield from (f"docs/comparison.md, row {row[0]}: {name} is not there" for name in names if not resolves(name))


def figures() -> Iterator[str]:
    """Yield tables and numbers that differ from the code: extras, states, limits, weights, presets, sizes."""
    from catena.model import IngestState, PageState
    from catena.model.layout import FailureState
    from catena.parsing import Limits
    from catena.retrieval import ScoreFusion
    from catena.segments import PRESETS
    from catena.segments.params import PENALTY_LENGTHS

    def first_cells(text: str) -> list[str]:
        return sorted(re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE))

    extras = read("docs", "install.md").split("| extra of `catena-core` |")[1].split("\n\n")[0]
    core = tomllib.loads(read("packages", "catena", "pyproject.toml"))["project"]
    if first_cells(extras) != sorted(core["optional-dependencies"]):
        yield "docs/install.md: the table of extras is not that of the package"
    states, limits = read("docs", "parsing-states.md"), Limits()
    if first_cells(states) != sorted((*get_args(IngestState), *get_args(FailureState), *get_args(PageState))):
        yield "docs/parsing-states.md: the tables of states are not those of the code"
    counts = [f"{n:,}" for n in (limits.memory_bytes, limits.pages, limits.bytes)]
    told = {"docs/parsing-states.md": [f"{limits.seconds:g} seconds", *counts]}
    told["docs/ranking.md"] = [f"| `β` | {ScoreFusion().beta:g} |"]
    told["docs/hiqa.md"] = [f"| α | {ScoreFusion.hiqa().alpha:g}, in `ScoreFusion.hiqa()` |"]
    fields = [
        "max_chunks",
        "overall_max_chunks",
        "extension",
        "minimum_value",
        "irrelevance_penalty",
        "decay_rate",
        "top_k",
    ]
    told["docs/textrag.md"] = [
        f"\n| {penalty:g} | {fewest} to {most} |\n" for penalty, fewest, most in PENALTY_LENGTHS
    ]
    for page, texts in told.items():
        yield from (f"{page} does not say {text.strip()!r}" for text in texts if text not in read(page))
    rows = [line for line in read("docs", "textrag.md").splitlines() if line.count("|") == 5]
    for field in (*fields, "irrelevance_penalty", "decay_rate", "top_k"):
        cells = next((line.split("|")[2:5] for line in rows if line.startswith(f"| `{field}`")), [])
        if [cell.strip() for cell in cells] != [f"{getattr(each, field):g}" for each in PRESETS.values()]:
            yield f"docs/textrag.md: {field} of the presets is not that of the code"
    sizes = read("docs", "past-one-machine.md")
    if sizes != runpy.run_path(str(ROOT / "scripts" / "write_sizes.py"))["written"](sizes):
        yield "docs/past-one-machine.md: the sizes are older than the code: python scripts/write_sizes.py"


def commands() -> Iterator[str]:
    """Yield sessions, benchmarks, packages, extras and paths that README and pages name and that are not there."""
    from catena_bench.cli import BENCHMARKS, OWN_OPTIONS

    readme, benchmarks = read("README.md"), read("docs", "benchmarks.md")
    sessions = set(re.findall(r"^@nox\.session\ndef (\w+)", read("noxfile.py"), re.MULTILINE))
    for name in sorted(set(re.findall(r"nox -s (\w+)", readme + benchmarks)) - sessions):
        yield f"there is no nox session {name}"
    if sorted(re.findall(r"nox -s bench -- (\S+)", benchmarks)) != sorted({*BENCHMARKS, *OWN_OPTIONS}):
        yield "docs/benchmarks.md does not name every benchmark"
    blocks = "\n".join(block[3] for page in (readme, read("docs", "install.md")) for block in FENCED.finditer(page))
    for package, extras in re.findall(r"\./([\w/-]+/[\w-]+)(?:\[([\w,-]+)\])?", blocks):
        if not (ROOT / package / "pyproject.toml").exists():
            yield f"README or install.md: there is no package {package}"
            continue
        known = tomllib.loads(read(package, "pyproject.toml"))["project"].get("optional-dependencies", {})
        for extra in set(filter(None, extras.split(","))) - set(known):
            yield f"README or install.md: {package} has no extra {extra}"
    folders = "|".join(re.escape(path.name) for path in ROOT.iterdir() if path.is_dir() and path.name[0] != ".")
    for name in re.findall(rf"`((?:{folders})(?:/[\w./-]+)?|[\w.-]+\.(?:py|toml|md))`", FENCED.sub("", readme)):
        if not (ROOT / name).exists():
            yield f"README.md: there is no {name}"


def site() -> Iterator[str]:
    """Yield what would make the site ask a network."""
    settings = read("mkdocs.yml")
    if "\n  font: false" not in settings or "iframe-worker.js" not in settings or "http" in settings:
        yield "mkdocs.yml: the site asks a network"


CHECKS = (links, dotted_names, maps, threats, comparison, figures, commands, site)


def main() -> int:
    """Print every problem, and return the exit code."""
    problems = [f"{check.__name__}: {problem}" for check in CHECKS for problem in check()]
    print("\n".join(problems) or f"{len(PAGES)} pages are sound")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
