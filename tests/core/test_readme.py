"""README and pages do what they say: blocks are executed in order, set-up commands are those that CI runs.

What pages name and link to is checked by scripts/check_docs.py, in the nox session `docs`.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from operator import attrgetter
from pathlib import Path

import pytest
from doc_blocks import ROOT, SET_UP, blocks_of, commands_of, run_blocks
from packaging.version import Version

from catena.testing import ChatServer

DOCS, README = ROOT / "docs", ROOT / "README.md"
INDEX = DOCS / "migration" / "index.md"
HOW_TO, MIGRATION = (
    sorted(set((DOCS / name).glob("*.md")) - {DOCS / name / "index.md"}) for name in ("how-to", "migration")
)
PAGES = [*DOCS.glob("*.md"), DOCS / "how-to" / "index.md", *HOW_TO, *MIGRATION]
WITHOUT_OLD = {"cohere-rerank.md", "dsrag.md"}  # whose old packages are not installed with the tests


def installed(package: str) -> Version | None:
    try:
        return Version(version(package))
    except PackageNotFoundError:
        return None


@pytest.mark.timeout(900)  # the guide's blocks index the bundled manuals several times: minutes on a busy machine
@pytest.mark.parametrize(
    "page", [README, *(pytest.param(page, marks=pytest.mark.slow) for page in sorted(PAGES))], ids=attrgetter("name")
)
def test_every_block_does_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Old and new code side by side, too, where old packages are as the page says: before, they may do otherwise."""
    text = page.read_text(encoding="utf-8")
    for package, said in re.findall(r"(langchain-[a-z-]+|llama-index-[a-z-]+) (\d+\.\d+\.\d+)", text):
        if page in MIGRATION and (there := installed(package)) and there < Version(said):
            pytest.skip(f"the page speaks of {package} {said}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setattr("catena.parsing.readers._added", [])  # what a page registers is forgotten
    blocks = blocks_of(text)
    with ChatServer(lambda body: f"2.4 N·m, for {body['model']}") as provider:  # speaks OpenAI's protocol
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        monkeypatch.setenv("OPENAI_API_BASE", provider.url)
        run_blocks(page, blocks, capsys, there={"provider"})
    assert len(provider.bodies) == sum(block.needs == "provider" for block in blocks)


def test_two_commands_do_all_the_set_up_as_ci_does_it() -> None:
    blocks = blocks_of(README.read_text(encoding="utf-8"))
    assert {block.language for block in blocks} == {"sh", "python", "text"}
    set_up = [block for block in blocks if block.language == "sh" and SET_UP.search(block.text)]
    assert all(SET_UP.search(command) for block in set_up for command in commands_of(block.text))
    one_liners = [block for block in set_up if "venv .venv" in block.text]
    assert [len(block.text.splitlines()) for block in one_liners] == [1, 1]
    demo, tests = (commands_of(block.text) for block in one_liners)
    assert demo == [*tests[:-1], tests[-1].replace("tests", "demo")]
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    start = lines.index(tests[0])
    assert lines[start : start + len(tests)] == tests


def test_every_how_to_and_every_page_of_migration_shows_something_that_runs() -> None:
    for page in (*HOW_TO, *MIGRATION):
        languages = {block.language for block in blocks_of(page.read_text("utf-8"))}
        assert {"python", "text"} <= languages, page.name
        assert ("py" in languages) == (page.name in WITHOUT_OLD), page.name


def test_a_page_of_migration_is_listed_once_says_what_changes_and_names_the_versions_that_the_tests_run_with() -> (
    None
):
    """Of the packages that are installed with the tests; the lowest versions, which one session takes, are others."""
    listed = INDEX.read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| .*?\]\((\S+?\.md)\)", listed, re.M)) == [page.name for page in MIGRATION]
    for page in MIGRATION:
        text = page.read_text(encoding="utf-8")
        assert "\n## What changes in the results\n" in text
        assert "\n## What to know, and what you lose\n" in text
        named = re.findall(r"(?:langchain-[a-z-]+|llama-index-[a-z-]+|dsRAG) \d+\.\d+\.\d+", text)
        assert named, "of which version?"
        assert [each for each in named if each not in listed] == []
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M))
    both = {name: each for name, each in re.findall(r"([a-z-]+) (\d+\.\d+\.\d+)", listed) if name in pinned}
    assert sorted(both) == ["langchain-classic", "langchain-core", "langchain-text-splitters", "llama-index-core"]
    assert both == {name: pinned[name] for name in both}
