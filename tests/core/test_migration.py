"""The pages of migration: old and new code run side by side, and every class that people come from has a page."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

import pytest
from doc_blocks import ROOT, blocks_of, run_blocks
from packaging.version import Version

FOLDER = ROOT / "docs" / "migration"
INDEX = FOLDER / "index.md"
PAGES = sorted(set(FOLDER.glob("*.md")) - {INDEX})
WITHOUT_OLD = {"cohere-rerank.md", "dsrag.md"}  # whose old packages are not installed with the tests
VERSIONED = r"(langchain-[a-z-]+|llama-index-[a-z-]+) (\d+\.\d+\.\d+)"


def installed(package: str) -> Version | None:
    try:
        return Version(version(package))
    except PackageNotFoundError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_old_and_new_do_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    text = page.read_text(encoding="utf-8")
    for package, said in re.findall(VERSIONED, text):
        if (there := installed(package)) and there < Version(said):  # the old one may do otherwise in versions before
            pytest.skip(f"the page speaks of {package} {said}")
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of(text)
    assert {"python", "text"} <= {block.language for block in blocks}
    assert ("py" in {block.language for block in blocks}) == (page.name in WITHOUT_OLD)
    run_blocks(page, blocks, capsys)


def test_every_page_is_listed_once_says_what_changes_and_names_the_versions_that_the_tests_run_with() -> None:
    """Of the packages that are installed with the tests; the lowest versions, which one session takes, are others."""
    listed = INDEX.read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| .*?\]\((\S+?\.md)\)", listed, re.M)) == [page.name for page in PAGES]
    for page in PAGES:
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
