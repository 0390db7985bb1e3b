"""docs/plots.md: each public plot has its one line and its picture there, kept small; none that is gone is left."""

from __future__ import annotations

import re

import pytest
from doc_blocks import ROOT, blocks_of

from catena_view import plots

PAGE = ROOT / "docs" / "plots.md"
TEXT = PAGE.read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL))
PUBLIC = sorted(name for name in plots.__all__ if name[0].islower())


def test_the_page_shows_every_plot_and_no_other():
    assert sorted(SECTIONS) == PUBLIC
    assert sorted(path.stem for path in PAGE.with_name("plots").iterdir()) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_a_plot_has_one_line_and_a_small_picture_with_words_for_it(name):
    section = SECTIONS[name]
    (block,) = blocks_of(section)
    *_, last = block.text.rstrip("\n").splitlines()
    assert re.fullmatch(rf"figure = plots\.{name}\(.*\)\.figure\(\)", last)
    ((words, path),) = re.findall(r"^!\[(.+)\]\((.+)\)$", section, re.MULTILINE)
    assert words.endswith(".")
    assert len(words.split()) > 5
    assert path == f"plots/{name}.png"
    data = (PAGE.parent / path).read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) < 60_000
