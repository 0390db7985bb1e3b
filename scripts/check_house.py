"""Check the rules that keep the code small and findable; print the sizes, and each breach with its place.

    python scripts/check_house.py          # exit code 1 where a rule is broken

Code lines are lines without blanks, comments and docstrings. The rules are those of CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {
    "catena": ROOT / "packages/catena/src",
    "catena_server": ROOT / "packages/catena-server/src",
    "catena_view": ROOT / "packages/catena-view/src",
    "catena_bench": ROOT / "packages/catena-bench/src",
    "catena_minilm": ROOT / "packages/catena-minilm/src",
    "langchain_catena": ROOT / "integrations/langchain-catena",
    "llama_index_catena": ROOT / "integrations/llama-index-catena",
}
ADAPTERS = ("langchain_catena", "llama_index_catena")

# What the packages have now, and may not grow beyond. The aims are 37,000 lines in 230 files for the core, 58,000 in
# 380 for all, and 40,000 lines of tests: whoever comes nearer lowers these numbers.
CORE_LINES, CORE_FILES = 42_200, 240
ALL_LINES, ALL_FILES = 71_700, 412
TEST_LINES = 50_650
README_BYTES = 10_240
ADAPTER_MODULES = 15  # of the core, that an adapter imports
EARNS_A_FILE = 120  # code lines; a smaller file has two importers, a name that others may use, or a command

# What is decided, or read, in one place: a pattern, and the only files of the packages that may hold it.
ONE_PLACE = {
    r"\bDEFAULT_ROUTES\b": (
        "catena/retrieval/",
        "catena/graph/search.py",
        "catena/cli/",
        "catena_bench/",
        "catena/library/",
    ),
    r"\busual_formula\b": ("catena/library/",),
    r"</?think": ("catena/text/replies.py",),
}
METAPHORS = re.compile(r"\b(?:Purse|Ground|Trails|Course|Shelf|Act|Taken|Track|Pick)\b")
NO_VERB = re.compile(r"(?:What|Where|How|Which|Whether|Who|Why)\b")


def code_lines(source: str) -> int:
    """Return the number of lines that are neither blank nor comment nor docstring."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    no_code = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
    }  # fmt: skip
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in no_code:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - prose)


class House:
    """All modules of the packages: their text, their trees, and who imports them."""

    def __init__(self) -> None:
        self.paths = {
            _dotted(path, base): path for top, base in SOURCES.items() for path in (base / top).rglob("*.py")
        } | {
            _dotted(path, base): path
            for base in [SOURCES["llama_index_catena"]]
            for path in (base / "llama_index").rglob("*.py")
        }
        self.texts = {name: path.read_text(encoding="utf-8") for name, path in self.paths.items()}
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}
        self.lines = {name: code_lines(text) for name, text in self.texts.items()}
        self.imports = {name: set(self._imported(tree)) for name, tree in self.trees.items()}
        self.importers: defaultdict[str, set[str]] = defaultdict(set)
        for name, imported in self.imports.items():
            for each in imported:
                self.importers[each].add(name)
        self.faces = dict(self._faces())

    def _imported(self, tree: ast.Module) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (each.name for each in node.names if each.name in self.paths)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for each in node.names:
                    inner = f"{node.module}.{each.name}"
                    yield inner if inner in self.paths else node.module

    def _faces(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield each package that has a face, and the module of each name in it."""
        for top, base in SOURCES.items():
            for stub in (base / top).rglob("__init__.pyi"):
                room = ".".join(stub.parent.relative_to(base).parts)
                named = re.findall(r"^from \.([\w.]+) import (\w+)", stub.read_text(encoding="utf-8"), re.MULTILINE)
                yield room, {name: f"{room}.{module}" for module, name in named}


def _dotted(path: Path, base: Path) -> str:
    parts = list(path.relative_to(base).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sizes(house: House) -> Iterator[str]:
    """Print the sizes; yield what is over its budget."""
    tops: defaultdict[str, list[int]] = defaultdict(list)
    rooms: defaultdict[str, list[int]] = defaultdict(list)
    for name, lines in house.lines.items():
        top, _, rest = name.partition(".")
        tops["llama_index_catena" if top == "llama_index" else top].append(lines)
        if top == "catena" and rest:
            rooms[rest.partition(".")[0]].append(lines)
    tests = sum(code_lines(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("*.py"))
    for name, counted in [*tops.items(), *((f"  catena.{room}", rooms[room]) for room in sorted(rooms))]:
        print(f"{name:24}{sum(counted):7,} code lines in {len(counted):3} files")
    everything = [lines for counted in tops.values() for lines in counted]
    print(f"{'all':24}{sum(everything):7,} code lines in {len(everything):3} files; tests {tests:,}")
    readme = (ROOT / "README.md").stat().st_size
    for what, found, most in (
        ("code lines of catena", sum(tops["catena"]), CORE_LINES),
        ("files of catena", len(tops["catena"]), CORE_FILES),
        ("code lines of all packages", sum(everything), ALL_LINES),
        ("files of all packages", len(everything), ALL_FILES),
        ("code lines of tests", tests, TEST_LINES),
        ("bytes of README.md", readme, README_BYTES),
    ):
        if found > most:
            yield f"{what}: {found:,}, at most {most:,}"


def decided_once(house: House) -> Iterator[str]:
    """Yield where a decision is made, or a foreign syntax read, outside of its one place."""
    for pattern, places in ONE_PLACE.items():
        for name, text in house.texts.items():
            where = house.paths[name].as_posix()
            if re.search(pattern, text) and not any(place in where for place in places):
                yield f"{name}: {pattern} belongs to {places[-1]}"


def checked_by_declaration(house: House) -> Iterator[str]:
    """Yield option classes of the core that check their fields by hand."""
    for name, tree in house.trees.items():
        for node in ast.walk(tree) if name.startswith("catena.") else ():
            if isinstance(node, ast.ClassDef) and node.name.endswith(("Options", "Params")):
                checks = [
                    each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__post_init__"
                ]
                if any("check_options" not in ast.unparse(each) for each in checks):
                    yield f"{name}.{node.name}: its fields are not checked by catena.model.options.check_options"


def faces_used(house: House) -> Iterator[str]:
    """Yield imports past a face that has the name, and adapters that know too much of the core."""
    for name, tree in house.trees.items():
        top = name.partition(".")[0]
        for node in ast.walk(tree) if top != "catena" else ():
            if not isinstance(node, ast.ImportFrom) or not node.module or node.level:
                continue
            room = ".".join(node.module.split(".")[:2])
            if node.module != room and not node.module.startswith(top) and room in house.faces:
                for each in node.names:
                    if house.faces[room].get(each.name) == node.module:
                        yield f"{name}:{node.lineno}: {each.name} is a name of {room}"
    for adapter in ADAPTERS:
        known = {each for name in house.paths if name.startswith(adapter) for each in house.imports[name]}
        core = sorted(each for each in known if each == "catena" or each.startswith("catena."))
        print(f"{adapter} imports {len(core)} modules of the core")
        if len(core) > ADAPTER_MODULES:
            yield f"{adapter} imports {len(core)} modules of the core, at most {ADAPTER_MODULES}: {', '.join(core)}"


def files_earn_their_names(house: House) -> Iterator[str]:
    """Yield small files with one importer whose names nobody else may use, and that are no command of the benches."""
    public = {module for face in house.faces.values() for module in face.values()}
    for name, path in house.paths.items():
        entry = path.name in ("__init__.py", "__main__.py") or ".cli" in name or name.startswith("llama_index.")
        if entry or name in public or house.lines[name] >= EARNS_A_FILE:
            continue
        if len(house.importers[name]) < 2 and "catena_bench.cli" not in house.importers[name]:
            by = sorted(house.importers[name]) or "no module"
            yield f"{name}: {house.lines[name]} code lines, imported by {by}"


def named_plainly(house: House) -> Iterator[str]:
    """Yield public classes that have one name, metaphors, and docstrings that do not begin with a verb."""
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for name, tree in house.trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(name)
                if METAPHORS.fullmatch(node.name):
                    yield f"{name}.{node.name}: a metaphor; take the field's noun"
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                told = ast.get_docstring(node) or ""
                if NO_VERB.match(told):
                    yield f"{name}:{getattr(node, 'lineno', 1)}: the docstring begins with {told.split()[0]!r}"
    for each, places in classes.items():
        twins = {place.partition(".")[0] for place in places} == set(ADAPTERS)  # one slot, two frameworks
        if len(places) > 1 and not (twins and len(places) == len(ADAPTERS)):
            yield f"class {each} is defined in {', '.join(sorted(places))}"


def main() -> int:
    """Print the sizes and all breaches; return 1 where there is one."""
    house = House()
    rules = (
        sizes, decided_once, checked_by_declaration, faces_used, files_earn_their_names, named_plainly,
    )  # fmt: skip
    broken = 0
    for rule in rules:
        breaches = sorted(rule(house))
        broken += len(breaches)
        for each in breaches:
            print(f"{rule.__name__}: {each}")
        print(f"{rule.__name__}: {len(breaches)} breaches" if breaches else f"{rule.__name__}: kept")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
