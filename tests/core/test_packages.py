"""The six packages are in step, the tree keeps its promises to strangers, and `import catena` stays light."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "packages/catena": "catena",
    "packages/catena-server": "catena_server",
    "packages/catena-view": "catena_view",
    "packages/catena-bench": "catena_bench",
    "integrations/langchain-catena": "langchain_catena",
    "integrations/llama-index-catena": "llama_index_catena",
}
TEXTS = {".md", ".py", ".toml", ".txt", ".json", ".svg", ".ipynb", ".yml", ""}
# where people's files lie; a path that holds one of these is true on one machine only
FOREIGN = re.compile(r"(?<![\w.:/])/(?:home|root|Users|work|private|opt|mnt)/\w")
INDEX = re.compile(r"https?://|--(?:extra-)?index[-]url|--find-links|\bfile:")


@cache
def project(package: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def texts() -> list[Path]:
    """Everything written by hand but the tests, which make such paths up."""
    folders = (".ci", "cookbook", "docs", "integrations", "packages", "scripts")
    found = [*ROOT.glob("*.*"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    return [path for path in found if path.suffix in TEXTS and path.is_file() and "__pycache__" not in path.parts]


@pytest.mark.parametrize("package", MODULES)
def test_versions_are_in_step(package: str) -> None:
    version = project("packages/catena")["version"]
    assert project(package)["version"] == version
    assert import_module(MODULES[package]).__version__ == version
    own = [need for need in project(package)["dependencies"] if re.match(r"catena\b", need)]
    assert all(need.endswith(f"=={version}") for need in own)
    assert bool(own) is (package != "packages/catena")


def test_no_text_installs_the_project_that_has_our_name_on_the_index() -> None:
    theirs = re.compile(
        r"install\b[^\n`]*[ '\"]catena(?![\w.-])|(?<![\w./-])catena(?:==|\[[a-z-]+(?:,[a-z-]+)*\]['\"`])"
    )
    told = {str(path.relative_to(ROOT)): theirs.findall(path.read_text(encoding="utf-8")) for path in texts()}
    assert {name: found for name, found in told.items() if found} == {}
    assert theirs.search("pip install 'catena[plots]'")
    assert not theirs.search("pip install './packages/catena[plots]'")


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[?(\d+\.\d+\.\d+)", text, re.MULTILINE)[0] == project("packages/catena")["version"]


@pytest.mark.parametrize("package", MODULES)
def test_each_package_ships_types_licence_and_readme(package: str) -> None:
    assert (Path(str(import_module(MODULES[package]).__file__)).parent / "py.typed").is_file()
    assert (ROOT / package / "README.md").read_text(encoding="utf-8").strip()
    assert (ROOT / package / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert project(package)["license"] == "Apache-2.0"
    assert project(package)["requires-python"] == ">=3.11"


def test_every_package_of_the_tree_is_checked_here() -> None:
    found = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("*/*/pyproject.toml")}
    assert found == set(MODULES)


def test_constraints_hold_pins_and_no_address() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert not INDEX.search(text)
    pins = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert pins
    assert all(re.match(r"[\w.-]+(?:\[[\w,-]+\])?==\S+", line) for line in pins)


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_path_that_a_page_links_to_exists(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_every_path_that_the_readme_names_exists() -> None:
    folders = "|".join(re.escape(path.name) for path in ROOT.iterdir() if path.is_dir() and path.name[0] != ".")
    prose = re.sub(r"^```.*?^```$", "", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.M | re.S)
    named = re.findall(rf"`((?:{folders})(?:/[\w./-]+)?|[\w.-]+\.(?:py|toml|md))`", prose)
    assert named
    assert not [name for name in named if not (ROOT / name).exists()]


def test_no_text_holds_a_path_of_one_machine() -> None:
    found = {path: FOREIGN.search(path.read_text(encoding="utf-8", errors="replace")) for path in texts()}
    assert len(found) > 50
    guilty = [f"{path.relative_to(ROOT)}: {match[0]}" for path, match in found.items() if match]
    assert not guilty


def test_importing_catena_loads_nothing_heavy() -> None:
    script = ROOT / "scripts" / "check_import.py"
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
