"""The page about servers and the guide's section do what they say: their blocks are run on a real server."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path
from unittest.mock import create_autospec

import pytest
from doc_blocks import ROOT, Block, blocks_of, run_blocks

import catena_server.ray_ingestion

pytest.importorskip("langchain_elasticsearch", reason="needs langchain-elasticsearch")

ADDRESS, NAME = "http://127.0.0.1:9200", '"cache'  # as pages write them
PAGE = ROOT / "docs" / "past-one-machine.md"


@pytest.fixture
def on_server(
    es_url: str, es_api_key: str, fresh_index: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], list[Block]]:
    """A function from a page to its blocks, of a server and a name that are there; the demo's files are, too."""
    if es_api_key:
        pytest.skip("the pages' server asks for no key")
    monkeypatch.chdir(tmp_path)
    with as_file(files("catena") / "data" / "demo") as bundled:
        shutil.copytree(bundled, "demo-documents", ignore=shutil.ignore_patterns("*.json"))
    name = fresh_index(es_url, "w")
    return lambda page: blocks_of(page.replace(ADDRESS, es_url).replace(NAME, f'"{name}'))


def test_every_block_of_the_page_does_what_it_says(
    on_server: Callable[[str], list[Block]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = create_autospec(catena_server.ray_ingestion.ray_ingest, return_value=())  # test_ray_ingestion runs it
    monkeypatch.setattr(catena_server, "ray_ingest", asked)  # of the face, which pages import from
    text = PAGE.read_text(encoding="utf-8")
    assert ADDRESS in text
    run_blocks(PAGE, on_server(text), capsys, there=("server", "ray"))
    asked.assert_called_once()


def test_every_block_of_the_readme_does_what_it_says(
    on_server: Callable[[str], list[Block]], capsys: pytest.CaptureFixture[str]
) -> None:
    readme = ROOT / "docs" / "guide.md"
    section = readme.read_text(encoding="utf-8").partition("\n## Past one machine\n")[2].partition("\n## ")[0]
    blocks = on_server(section)
    assert any(block.needs == "server" for block in blocks)
    run_blocks(readme, blocks, capsys, there=("server",))
