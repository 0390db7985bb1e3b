"""How pages of the repository become pages of the site: links, names, blocks, anchors; and the page of the plots.

Building the site, strictly, and checking what its pages claim is the nox session `docs`.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from doc_blocks import ROOT, blocks_of

from catena_view import plots

SITE = runpy.run_path(str(ROOT / "scripts" / "docs_site.py"))
CHECKS = runpy.run_path(str(ROOT / "scripts" / "check_docs.py"))


@pytest.mark.parametrize(
    ("source", "link", "in_the_site"),
    [
        ("README.md", "docs/hiqa.md", "hiqa.md"),
        ("README.md", "integrations/langchain-catena/README.md", "integrations/langchain.md"),
        ("docs/how-to/tune.md", "../decisions/0014-alpha-beta.md", "../decisions/0014-alpha-beta.md"),
        ("docs/how-to/chain.md", "../../integrations/langchain-catena/README.md", "../integrations/langchain.md"),
        ("docs/index.md", "decisions", "decisions/index.md"),
        ("docs/index.md", "../CHANGELOG.md", "changelog.md"),
        ("docs/index.md", "flow.svg", "flow.svg"),
        ("cookbook/02_hiqa.ipynb", "../docs/hiqa.md", "../hiqa.md"),
        ("docs/hiqa.md", "../cookbook/02_hiqa.ipynb", "cookbook/02_hiqa.md"),
    ],
)
def test_links_between_files_become_links_between_pages(source: str, link: str, in_the_site: str) -> None:
    assert SITE["site_link"](link, source) == in_the_site


def test_names_lead_to_the_reference_where_they_mean_one_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    linked = SITE["_reference_link"]
    few = "catena.library.library catena.retrieval.fusion langchain_catena.retrieval llama_index_catena.retrieval"
    monkeypatch.setitem(linked.__globals__, "_modules", few.split)  # all of them take seconds
    for code, page in {
        "`retrieval.fusion.weighted_sum`": "catena.retrieval.fusion.weighted_sum",
        "`Library.index`": "catena.library.library.Library.index",
        "`CatenaRetriever`": "",  # both adapters have one
        "`k`": "",
    }.items():
        assert SITE["CODE"].sub(linked, code) == (f"[{code}][{page}]" if page else code)


def test_fenced_blocks_are_left_as_they_are() -> None:
    page = "a\n\n```python server\na\n```\n\na\n"
    assert SITE["outside_fences"](page, str.upper) == "A\n\n```python server\na\n```\n\nA\n"


def test_anchors_are_made_as_viewers_make_them_and_links_in_code_are_none(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "# A `b.c` (d): e\n\n## Same\n\n## Same\n\n```sh\n# no heading\n```\n\n[a](b.md#c) `[d](e)`\n"
    page.write_text(text, encoding="utf-8")
    assert CHECKS["anchors_of"](page) == {"a-bc-d-e", "same", "same-1"}
    assert CHECKS["links_of"](page) == ["b.md#c"]


def test_each_plot_has_one_line_and_a_small_picture_with_words_for_it() -> None:
    page = ROOT / "docs" / "plots.md"
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", page.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    public = sorted(name for name in plots.__all__ if name[0].islower())
    assert sorted(sections) == public == sorted(path.stem for path in page.with_name("plots").iterdir())
    for name, section in sections.items():
        (block,) = blocks_of(section)
        *_, last = block.text.rstrip("\n").splitlines()
        assert re.fullmatch(rf"figure = plots\.{name}\(.*\)\.figure\(\)", last)
        ((words, path),) = re.findall(r"^!\[(.+)\]\((.+)\)$", section, re.MULTILINE)
        assert re.fullmatch(r"\S+( \S+){5,}\.", words), name
        assert path == f"plots/{name}.png"
        data = (page.parent / path).read_bytes()
        assert data.startswith(b"\x89PNG")
        assert len(data) < 60_000, name
