"""The packages are in step, the tree keeps its promises to strangers, and rooms have faces that load nothing."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import catena

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "packages/catena": "catena",
    "packages/catena-server": "catena_server",
    "packages/catena-view": "catena_view",
    "packages/catena-bench": "catena_bench",
    "packages/catena-minilm": "catena_minilm",
    "integrations/langchain-catena": "langchain_catena",
    "integrations/llama-index-catena": "llama_index_catena",
}
TEXTS = {".md", ".py", ".toml", ".txt", ".json", ".svg", ".ipynb", ".yml", ""}
# where people's files lie; a path that holds one of these is true on one machine only
FOREIGN = re.compile(r"(?<![\w.:/])/(?:home|root|Users|work|private|opt|mnt)/\w")
# an installation of the project that has our name on the index
THEIRS = re.compile(r"install\b[^\n`]*[ '\"]catena(?![\w.-])|(?<![\w./-])catena(?:==|\[[a-z-]+(?:,[a-z-]+)*\]['\"`])")
STUBS = sorted(stub for part in ("packages", "integrations") for stub in (ROOT / part).rglob("__init__.pyi"))


@pytest.mark.parametrize("package", MODULES)
def test_each_package_is_in_step_and_ships_types_licence_and_readme(package: str) -> None:
    version = catena.__version__
    project = tomllib.loads((ROOT / package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module = import_module(MODULES[package])
    assert project["version"] == module.__version__ == version
    own = [need for need in project["dependencies"] if re.match(r"catena\b", need)]
    assert all(need.endswith(f"=={version}") for need in own)
    assert bool(own) is (package != "packages/catena")
    assert (Path(str(module.__file__)).parent / "py.typed").is_file()
    assert (ROOT / package / "README.md").read_text(encoding="utf-8").strip()
    assert (ROOT / package / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (project["license"], project["requires-python"]) == ("Apache-2.0", ">=3.11")


def test_every_package_of_the_tree_is_checked_here_and_the_changelog_begins_with_their_version() -> None:
    assert {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("*/*/pyproject.toml")} == set(MODULES)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[?(\d+\.\d+\.\d+)", changes, re.MULTILINE)[0] == catena.__version__


def test_no_text_installs_the_project_that_has_our_name_or_holds_a_path_of_one_machine() -> None:
    assert THEIRS.search("pip install 'catena[plots]'")
    assert not THEIRS.search("pip install './packages/catena[plots]'")
    folders = (".ci", "cookbook", "docs", "integrations", "packages", "scripts")  # tests make such paths up
    found = [*ROOT.glob("*.*"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    passed_over = {"__pycache__", ".git"}  # the latter is a file in a working tree beside another
    texts = [path for path in found if path.suffix in TEXTS and path.is_file() and passed_over.isdisjoint(path.parts)]
    assert len(texts) > 50
    guilty = {}
    for path in texts:
        text = path.read_text(encoding="utf-8", errors="replace")
        if match := FOREIGN.search(text) or THEIRS.search(text):
            guilty[str(path.relative_to(ROOT))] = match[0]
    assert guilty == {}


def test_constraints_hold_pins_and_no_address() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert not re.search(r"https?://|--(?:extra-)?index[-]url|--find-links|\bfile:", text)
    pins = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert pins
    assert all(re.match(r"[\w.-]+(?:\[[\w,-]+\])?==\S+", line) for line in pins)


def test_importing_catena_loads_nothing_heavy() -> None:
    script = ROOT / "scripts" / "check_import.py"
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_room_has_a_face_that_names_what_is_there() -> None:
    faces = set()
    for stub in STUBS:
        parts = stub.parent.relative_to(ROOT).parts
        faces.add(".".join(parts[3 if parts[0] == "packages" else 2 :]))
    rooms = list(pkgutil.iter_modules(catena.__path__))
    assert all(each.ispkg for each in rooms)
    assert {f"catena.{each.name}" for each in rooms} - faces == {"catena.cli", "catena.prompts"}
    for face in map(import_module, sorted(faces)):
        assert face.__all__
        assert all(getattr(face, name) is not None for name in face.__all__), face
