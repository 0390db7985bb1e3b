"""The pages hang together: links and anchors lead somewhere, and maps of formulas name tests that are there.

Building the site itself, strictly, is the nox session `docs`; what is tested here needs none of its packages.
"""

from __future__ import annotations

import re
import runpy
import unicodedata
from functools import cache
from pathlib import Path

import pytest
from doc_blocks import FENCED, ROOT, blocks_of

PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "integrations").glob("*/README.md")),
]
PAPERS = ("hiqa.md", "iier.md", "mc-indexing.md", "textrag.md")
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
CODE = re.compile(r"(`+).+?\1", re.DOTALL)
ELSEWHERE = re.compile(r"[a-z]+:")
SITE = runpy.run_path(str(ROOT / "scripts" / "docs_site.py"))


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as viewers of repositories and the site make them."""
    found: dict[str, int] = {}
    anchors = set(re.findall(r'<a (?:id|name)="([^"]+)"', page.read_text(encoding="utf-8")))
    for heading in re.findall(r"^#{1,6} +(.+?)(?: +#+)?$", FENCED.sub("", page.read_text(encoding="utf-8")), re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", heading)
        plain = unicodedata.normalize("NFC", words).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        again = found[slug] = found.get(slug, -1) + 1
        anchors.add(f"{slug}-{again}" if again else slug)
    return frozenset(anchors)


def links_of(page: Path) -> list[str]:
    prose = FENCED.sub("", page.read_text(encoding="utf-8"))
    return LINK.findall(CODE.sub("`", prose.replace("[`", "[").replace("`]", "]")))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links_of(page):
        if ELSEWHERE.match(link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            broken.append(link)
    assert broken == []


def test_anchors_are_made_as_viewers_make_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b.c` (d): e\n\n## Same\n\n## Same\n\n```sh\n# no heading\n```\n", encoding="utf-8")
    assert anchors_of(page) == {"a-bc-d-e", "same", "same-1"}


@pytest.mark.parametrize("name", PAPERS)
def test_the_map_of_formulas_names_a_test_for_each(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    table = page.split("## Formulas, functions, tests")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 10
    for formula, functions, tests in rows:
        assert re.search(r"`[a-z_]+(\.\w+)+`", functions), formula
        pinned = re.findall(r"`(test_\w+\.py)::(test_\w+)`", tests)
        assert pinned, formula
        for file, test in pinned:
            there = (ROOT / "tests" / "core" / file).read_text(encoding="utf-8")
            assert re.search(rf"^(async )?def {test}\(", there, re.M), f"{file}::{test}"


def test_every_how_to_is_listed_and_shows_something_that_runs() -> None:
    index = ROOT / "docs" / "how-to" / "index.md"
    pages = sorted(set(index.parent.glob("*.md")) - {index})
    assert sorted(links_of(index)) == [page.name for page in pages]
    for page in pages:
        blocks = blocks_of(page.read_text(encoding="utf-8"))
        assert {"python", "text"} <= {block.language for block in blocks}, page.name
        assert "py" not in {block.language for block in blocks}, page.name


def test_the_site_asks_no_network() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "\n  font: false" in settings
    assert "iframe-worker.js" in settings  # else the plugin `offline` names a script on a network
    assert "http" not in settings


@pytest.mark.parametrize(
    ("source", "link", "in_the_site"),
    [
        ("README.md", "docs/hiqa.md", "hiqa.md"),
        ("README.md", "integrations/langchain-catena/README.md", "integrations/langchain.md"),
        ("docs/how-to/tune.md", "../decisions/0014-alpha-beta.md", "../decisions/0014-alpha-beta.md"),
        (
            "docs/how-to/langchain-chain.md",
            "../../integrations/langchain-catena/README.md",
            "../integrations/langchain.md",
        ),
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
    few = (
        "catena.library.library",
        "catena.retrieval.fusion",
        "langchain_catena.retrieval",
        "llama_index_catena.retrieval",
    )
    monkeypatch.setitem(linked.__globals__, "_modules", lambda: few)  # all of them take seconds

    def of(code: str) -> str:
        return SITE["CODE"].sub(linked, code)

    assert of("`retrieval.fusion.weighted_sum`") == (
        "[`retrieval.fusion.weighted_sum`][catena.retrieval.fusion.weighted_sum]"
    )
    assert of("`Library.index`") == "[`Library.index`][catena.library.library.Library.index]"
    assert of("`CatenaRetriever`") == "`CatenaRetriever`"  # both adapters have one
    assert of("`k`") == "`k`"


def test_fenced_blocks_are_left_as_they_are() -> None:
    page = "a\n\n```python server\na\n```\n\na\n"
    assert SITE["outside_fences"](page, str.upper) == "A\n\n```python server\na\n```\n\nA\n"
