"""The tables of MC-indexing that say what is found: 2, 4 (and 11), 6, 9 and 10.

Source: MC-indexing (Dong et al., 2024), sections 5.3 to 5.6, appendices E.1, F and G.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from catena_bench.tables_forms import DELTA, Block, PaperTable, Row
from catena_bench.tables_material import Material, Wanted
from catena_bench.tables_measures import Cell, mean_cell, recall, recall_at_length
from catena_bench.tables_schemes import CONTENT, MULTI_VIEW, PLUS, RAPTOR, SHIPPED, UNITS, Searched
from catena_bench.views_measures import CUTOFFS
from catena_bench.views_units import LENGTHS

AVERAGE = "average"
_TOPS = tuple((f"k{k:g}", f"Top {k:g}") for k in CUTOFFS)
_CHANGES = (*_TOPS, (DELTA, "Δ"))
_OF_LENGTH = {300: 6, 200: 9}  # the paper's tables of fixed lengths
_WITHOUT = {"raw": "w/o raw text", "keywords": "w/o keyword", "summary": "w/o summary"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All that the tables are made of.

    Attributes:
        found: by retriever, what was returned, one per document.
        factor: of "Atomic Unit: Plus".
    """

    materials: Sequence[Material]
    found: Mapping[str, Sequence[Searched]]
    wanted: Wanted
    factor: int


def names_of(wanted: Wanted, factor: int) -> dict[str, str]:
    """Return the schemes of Table 2 in its order, under names that say how each was made."""
    model = wanted.by == "llm"
    unit = "Atomic Unit" if model else "Sentence unit"
    offline = "" if wanted.views_by == "llm" else " (offline)"
    return {
        **{f"fixed{size}": f"FLC: {size} tokens" for size in LENGTHS},
        RAPTOR: "RAPTOR" if model else "RAPTOR (offline)",
        UNITS: unit,
        PLUS: f"{unit}: Plus (×{factor})",
        CONTENT: "Content: raw-text",
        "content_keywords": f"Content: keyword{offline}",
        "content_summary": f"Content: summary{offline}",
        MULTI_VIEW: f"MC-indexing{offline}",
    }


def table_2(measured: Measured) -> PaperTable:
    """Return the recall of every scheme by every retriever at the paper's k."""
    names = names_of(measured.wanted, measured.factor)
    blocks = []
    for k in CUTOFFS:
        rows = [_by_retriever(measured, scheme, name, k) for scheme, name in names.items()]
        rows.append(_by_retriever(measured, SHIPPED, "Catena as shipped", k, compared=False))
        blocks.append((f"k{k:g}", f"k = {k:g}", tuple(row for row in rows if any(row.cells))))
    return PaperTable(
        key="table2",
        title="Table 2: recall of the ground truth span",
        columns=(*((name, name) for name in measured.found), (AVERAGE, "Avg")),
        blocks=tuple(blocks),
        best="high",
        notes=(
            "Recall of the evidence in percent; at k = 1.5 the mean of k = 1 and k = 2.",
            "MC-indexing returns the union of what its views find, which may be more than k.",
            "Catena as shipped ranks sections by a column's embedding fused with BM25, over passages too: no row "
            "of the paper's, and not compared with them.",
        ),
    )


def table_4(measured: Measured) -> PaperTable:
    """Return what MC-indexing finds without each of its views; Table 11 is the same of other documents."""
    whole = names_of(measured.wanted, measured.factor)[MULTI_VIEW]
    rows = {MULTI_VIEW: whole, **{f"{MULTI_VIEW}_without_{kind}": name for kind, name in _WITHOUT.items()}}
    return PaperTable(
        key="table4",
        title="Tables 4 and 11: MC-indexing without one of its views",
        columns=_CHANGES,
        blocks=tuple(_changed(measured, retriever, rows) for retriever in measured.found),
        notes=("Two views return fewer chunks than three, which is a part of each loss.",),
    )


def table_of_length(measured: Measured, size: int) -> PaperTable:
    """Return what content and views add to fixed lengths: Table 6 for 300 tokens, Table 9 for 200."""
    rows = {
        f"fixed{size}": f"FLC: {size} tokens",
        f"fixed{size}_content": "w/ content",
        f"fixed{size}_views": "w/ multi-view" if measured.wanted.views_by == "llm" else "w/ multi-view (offline)",
    }
    return PaperTable(
        key=f"table{_OF_LENGTH[size]}",
        title=f"Table {_OF_LENGTH[size]}: fixed lengths of {size} tokens with content, and with multi-view",
        columns=_CHANGES,
        blocks=tuple(_changed(measured, retriever, rows) for retriever in measured.found),
    )


def table_10(measured: Measured) -> PaperTable:
    """Return the recall of schemes at as many tokens as MC-indexing returns: the mean of retrievers, then each."""
    names = names_of(measured.wanted, measured.factor)
    by_retriever = {retriever: _at_equal_length(found, names) for retriever, found in measured.found.items()}
    blocks: list[Block] = [(retriever, retriever, rows) for retriever, rows in by_retriever.items()]
    if len(blocks) > 1:
        blocks.insert(0, (AVERAGE, "Avg", _averaged(tuple(by_retriever.values()))))
    return PaperTable(
        key="table10",
        title="Table 10: recall at the same context length",
        columns=_TOPS,
        blocks=tuple(blocks),
        best="high",
        notes=("Each scheme returns as many chunks as have the tokens of those that MC-indexing returns at that k.",),
    )


def _by_retriever(measured: Measured, scheme: str, name: str, k: float, *, compared: bool = True) -> Row:
    """Return a line of Table 2; the mean is that of a scheme which every retriever has."""
    cells = [recall(found, scheme, k) if scheme in found[0].schemes else None for found in measured.found.values()]
    there = [cell for cell in cells if cell is not None]
    average = mean_cell(there) if len(there) == len(cells) else None
    return Row(key=scheme, name=name, cells=(*cells, average), compared=compared)


def _changed(measured: Measured, retriever: str, names: Mapping[str, str]) -> Block:
    """Return a block whose last column says by how much each row differs from the first, in the mean of all k."""
    found = measured.found[retriever]
    rows: list[Row] = []
    for scheme, name in names.items():
        cells = [recall(found, scheme, k) for k in CUTOFFS]
        mean = fmean(cell.value for cell in cells)
        delta = None
        if rows:
            first = [cell.value for cell in rows[0].cells if cell is not None]
            delta = Cell(value=mean - fmean(first))
        rows.append(Row(key=scheme, name=name, cells=(*cells, delta)))
    return retriever, retriever, tuple(rows)


def _at_equal_length(found: Sequence[Searched], names: Mapping[str, str]) -> tuple[Row, ...]:
    whole = tuple(recall(found, MULTI_VIEW, k) for k in CUTOFFS)
    rows = [Row(key=MULTI_VIEW, name=names[MULTI_VIEW], cells=whole)]
    for scheme in (*(f"fixed{size}" for size in LENGTHS), UNITS, CONTENT):
        cells = tuple(recall_at_length(found, scheme, MULTI_VIEW, k) for k in CUTOFFS)
        rows.append(Row(key=scheme, name=names[scheme], cells=cells))
    return tuple(rows)


def _averaged(by_retriever: Sequence[Sequence[Row]]) -> tuple[Row, ...]:
    rows = []
    for same in zip(*by_retriever, strict=True):
        columns = zip(*(row.cells for row in same), strict=True)
        cells = tuple(mean_cell([cell for cell in column if cell is not None]) for column in columns)
        rows.append(Row(key=same[0].key, name=same[0].name, cells=cells))
    return tuple(rows)
