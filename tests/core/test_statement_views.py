"""Views of financial statements: which kind a table is of, and the ratios that need its rows."""

from __future__ import annotations

import pytest

from catena import Library, ParameterError, Services, run
from catena.enrichment import Statements, make_views
from catena.library import Preparation, prepare
from catena.model import Document
from catena.retrieval import ViewSearch
from catena.testing import FakeEmbedder

REPORT = """# Halden

## Position

|  | 2023 | 2022 |
| --- | --- | --- |
| Trade receivables, net | 12 | 11 |
| Inventories | 7 | 6 |
| Accounts payable | 5 | 4 |
| Total current liabilities | 9 | 8 |

## Sizes

| Part | Width |
| --- | --- |
| Receivables box | 12 |

## Weather

Liquidity, quick ratio and working capital are words of prose here.
"""


def _views(glossary: str = "") -> dict[str, str]:
    chunks = prepare(Document(id="d", text=REPORT, media_type="text/markdown")).chunks
    views, lost = run(make_views(chunks, [Statements(glossary)], title="Halden"), Services())
    assert not lost
    path = {chunk.id: chunk.path[-1] for chunk in chunks}
    return {path[view.chunk_id]: view.text for view in views}


def test_piece_of_a_statement_says_its_kind_and_its_ratios() -> None:
    views = _views()
    assert set(views) == {"Position"}
    titles, kinds, ratios = views["Position"].splitlines()
    assert (titles, kinds) == ("Halden › Halden › Position", "balance sheet")
    assert {"quick ratio", "DPO", "DSO"} <= set(ratios.split(", "))
    assert not {"current ratio", "cash ratio", "gross margin"} & set(ratios.split(", "))  # a row is missing


def test_user_adds_kinds_and_ratios_and_replaces_ours() -> None:
    own = "# mine\nbox sheet: width; receivables; inventories; accounts payable\ncover < inventories + payable"
    found = _views(own + "\nquick ratio, acid test, liquidity < goodwill")["Position"]
    assert "cover" in found
    assert "quick ratio" not in found
    assert Statements().version != Statements(own).version
    with pytest.raises(ParameterError, match="no mark"):
        Statements("no mark here")


def test_question_for_a_ratio_finds_the_statement(tmp_path) -> None:
    (tmp_path / "report.md").write_text(REPORT, encoding="utf-8")
    how = Preparation(views=[Statements()])
    with Library.open(tmp_path / "library", embedder=FakeEmbedder(dim=16), preparation=how) as library:
        library.index([tmp_path / "report.md"])
        found = library.search_views("quick ratio", ViewSearch(views=("statement",), routes=("lexical",)))
    assert [hit.chunk.path[-1] for hit in found.hits] == ["Position"]
