"""README and pages do what they say: blocks are executed in order, set-up commands are those that CI runs.

What pages name and link to is checked by scripts/check_docs.py, in the nox session `docs`.
"""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import pytest
from doc_blocks import ROOT, SET_UP, blocks_of, commands_of, run_blocks

from catena.testing import ChatServer

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
HOW_TO = [page for page in PAGES if page.parent.name == "how-to" and page.name != "index.md"]


@pytest.mark.timeout(900)  # the guide's blocks index the bundled manuals several times: minutes on a busy machine
@pytest.mark.parametrize(
    "page", [PAGES[0], *(pytest.param(page, marks=pytest.mark.slow) for page in PAGES[1:])], ids=attrgetter("name")
)
def test_every_block_does_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setattr("catena.parsing.readers._added", [])  # what a page registers is forgotten
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    with ChatServer(lambda body: f"2.4 N·m, for {body['model']}") as provider:  # speaks OpenAI's protocol
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        monkeypatch.setenv("OPENAI_API_BASE", provider.url)
        run_blocks(page, blocks, capsys, there={"provider"})
    assert len(provider.bodies) == sum(block.needs == "provider" for block in blocks)


def test_two_commands_do_all_the_set_up_as_ci_does_it() -> None:
    blocks = blocks_of(PAGES[0].read_text(encoding="utf-8"))
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


def test_every_how_to_shows_something_that_runs() -> None:
    for page in HOW_TO:
        assert {"python", "text"} <= {block.language for block in blocks_of(page.read_text("utf-8"))}, page.name
