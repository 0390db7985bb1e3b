"""Measure embedded tables without their data: inner products with questions, and which tables are nearest.

HiQA's Table 3 shows that the inner product of a question with its table rises. Every table's does, so that alone
says little; what decides a ranking is the *margin*: the product with the right table less that with the tables of
other documents. Both are measured, on generated tables whose truth is known and on a collection of the layout
`similar_docs`, with the shipped static embedding and with a sentence-transformers model where one is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from catena import Document, Entry, ParameterError, Services
from catena import run as drive
from catena.effects import Embedder
from catena.enrichment import StaticEmbedder
from catena.evaluation import chunks_of_items, compare, embedding_shift, unit_rows
from catena.library import Preparation, prepare
from catena.structure import TABLE, table_views
from catena_bench.collection import read_collection, some_of_each_kind
from catena_bench.figures import Figures, Tell, silent
from catena_bench.graph_data import KeptVectors
from catena_bench.synthetic_manuals import PARTS
from catena_bench.views_retrievers import MINILM, minilm_path

_MACHINES = ("AX", "BR", "CT", "DL", "EK", "FM", "GN", "HP")
_QUANTITIES = (
    ("Supply voltage", "V"), ("Rated current", "A"), ("Output torque", "N·m"), ("Operating pressure", "bar"),
    ("Flow rate", "l/min"), ("Ambient temperature", "°C"), ("Noise level", "dB"), ("Rotation speed", "rpm"),
    ("Net weight", "kg"), ("Response time", "ms"), ("Power loss", "W"), ("Belt tension", "N"),
)  # fmt: skip
_LIMITS = ("minimum", "typical", "maximum")
_ROWS = 8


Matrix = NDArray[np.float64]
MOST_TABLES = 1_000  # compared with each question; those of the questions' own documents come first


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestion:
    """A question that one table of one document answers.

    Attributes:
        kind: "label": it names the row and the column; "value": it names what stands in the data.
        table: 0-based number of the table in its document.
    """

    text: str
    kind: str
    document_id: str
    table: int


def generated_tables(seed: int = 0, n: int = 40) -> tuple[list[Document], list[TableQuestion]]:
    """Return n data sheets of look-alike machines, two tables each, and their questions.

    The first table has a row per quantity with its limits, under a header of two rows; the second lists spare
    parts by number. All sheets have the same titles and nearly the same rows.

    Args:
        seed: equal seeds give equal documents and questions.
        n: how many machines.
    """
    random = Random(seed)
    documents: list[Document] = []
    questions: list[TableQuestion] = []
    for number in range(n):
        name = f"{_MACHINES[number % len(_MACHINES)]}-{100 + 7 * number}"
        identity = f"machine-{number:03d}"
        rows = random.sample(_QUANTITIES, _ROWS)
        values = [sorted(random.randint(1, 999) for _ in _LIMITS) for _ in rows]
        parts = {part: random.randint(10_000, 99_999) for part in random.sample(PARTS, _ROWS)}
        documents.append(Document(id=identity, text=_sheet(name, rows, values, parts), title=f"Machine {name}"))
        chosen, limit = random.randrange(_ROWS), random.randrange(len(_LIMITS))
        quantity, unit = rows[chosen]
        part = random.choice(list(parts))
        asked = (
            ("label", 0, f"What is the {_LIMITS[limit]} {quantity.lower()} of the machine {name}?"),
            ("value", 0, f"Which machine has a {quantity.lower()} of {values[chosen][limit]} {unit}?"),
            ("label", 1, f"What is the order number of the {part} of the machine {name}?"),
            ("value", 1, f"For which machine is the spare part {parts[part]}?"),
        )
        questions += [TableQuestion(text=t, kind=kind, document_id=identity, table=at) for kind, at, t in asked]
    return documents, questions


def _sheet(name: str, rows: list[tuple[str, str]], values: list[list[int]], parts: dict[str, int]) -> str:
    limits = "".join(
        f"| {quantity} | {' | '.join(map(str, numbers))} | {unit} |\n"
        for (quantity, unit), numbers in zip(rows, values, strict=True)
    )
    listed = "".join(f"| {part} | {number} |\n" for part, number in parts.items())
    return (
        f"# Machine {name}\n\n## Technical data\n\nTable 1. Limits of operation\n\n"
        "| Quantity | Limit | | | Unit |\n|---|--:|--:|--:|---|\n"
        f"| | {' | '.join(_LIMITS)} | |\n{limits}\n"
        f"## Spare parts\n\nTable 2. Parts and their order numbers\n\n| Part | Order number |\n|---|---|\n{listed}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedTable:
    """A chunk that holds a table, under both views."""

    chunk_id: str
    document_id: str
    whole: str  # its headed view
    definition: str  # its table view
    bare: str  # its table view without the description


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePair:
    """A question and a table that answers it."""

    question: str
    kind: str
    table: EmbeddedTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSet:
    """Pairs to measure, and all the tables that the right one must be told from."""

    pairs: tuple[TablePair, ...]
    tables: tuple[EmbeddedTable, ...]


def run(
    data: Path | None = None,
    *,
    model: str | None = None,
    questions: int | None = None,
    most_tables: int = MOST_TABLES,
    tell: Tell = silent,
) -> Figures:
    """Measure both sets with every embedding that is installed.

    Args:
        data: a directory of the layout `similar_docs`; None measures generated tables alone.
        model: name or path of a sentence-transformers model; by default all-MiniLM-L6-v2 where the package that
            brings it is installed.
        questions: ask only so many of each kind of the collection's.
        most_tables: tables that a question is compared with, >= 2; never fewer than those that answer some question.
        tell: is told how far the run is, and why an embedding is left out.

    Returns:
        By set (`generated`, `collection`) and embedding (`static`, `minilm`, or `model`), all before -> after the
        data are left out, per pair of question and table:
        `SET.EMB.product_before`, `product_after`, `product_shift` (mean), `product_shift_median`,
        `product_rises` (share of pairs) and `product_p` (paired randomisation, two-sided);
        `margin_before`, `margin_after`, `margin_shift`, `margin_p`: product with the right table less the mean over
        the tables of other documents; `lead_...` less the highest of them;
        `first_before`, `first_after`: share of pairs whose table is nearer than all tables of other documents;
        `..._after_bare`: the definition without the description, which parts the effect of leaving the data out
        from that of adding the prose before the table.
        With `.KIND` at the end for each kind of question (without p). `SET.n_pairs`, `SET.n_tables`,
        `SET.words_kept` (characters of the definitions / of the whole tables), `models_left_out`.

    Raises:
        ParameterError: `data` has another layout, or most_tables is below 2.
        MissingExtraError: `model` is given and sentence-transformers is not installed.
    """
    if most_tables < 2:
        raise ParameterError("most_tables", most_tables, "a number >= 2")
    sets = {"generated": generated_set()}
    if data is not None:
        tell("cutting the collection")
        sets["collection"] = collection_set(data, questions=questions, most_tables=most_tables)
    embedders, left_out = _embedders(model, tell)
    figures: dict[str, float] = {"models_left_out": float(left_out)}
    for name, chosen in sets.items():
        figures.update(_sizes(name, chosen))
        for label, embedder in embedders.items():
            tell(f"{name}: {len(chosen.pairs)} pairs, {len(chosen.tables)} tables, {label}")
            services = Services(embedder=KeptVectors(embedder))
            found = measured(chosen, services) if chosen.pairs else {}
            figures.update({f"{name}.{label}.{key}": value for key, value in found.items()})
    return figures


def generated_set(seed: int = 0, n: int = 40) -> TableSet:
    """Return the pairs of the generated data sheets."""
    documents, questions = generated_tables(seed, n)
    tables = {document.id: _tables(_entry(document)) for document in documents}
    pairs = tuple(TablePair(question=q.text, kind=q.kind, table=tables[q.document_id][q.table]) for q in questions)
    return TableSet(pairs=pairs, tables=tuple(table for group in tables.values() for table in group))


def collection_set(data: Path, *, questions: int | None = None, most_tables: int = MOST_TABLES) -> TableSet:
    """Return the pairs of a collection: each question with each table of its gold sections.

    Args:
        data: a directory of the layout.
        questions: only so many of each kind.
        most_tables: of all the tables; those of the pairs come first.

    Raises:
        ParameterError: a file of the layout is missing, or a row lacks a field.
    """
    collection = read_collection(data)
    asked = some_of_each_kind(collection.questions, questions)
    entries = {name: _entry(_document(name, path)) for name, path in collection.files.items()}
    tables = {table.chunk_id: table for entry in entries.values() for table in _tables(entry)}
    chunks = [chunk for entry in entries.values() for chunk in entry.chunks]
    wanted = {name for question in asked for name in question.gold}
    items = chunks_of_items(chunks, [span for name, span in collection.sections.items() if name in wanted])
    pairs = tuple(
        TablePair(question=question.text, kind=question.kind, table=tables[chunk_id])
        for question in asked
        for section in question.gold
        for chunk_id in sorted(items.get(section, frozenset()))
        if chunk_id in tables
    )
    right = {pair.table.chunk_id for pair in pairs}
    ordered = sorted(tables.values(), key=lambda table: table.chunk_id)  # derived ids: no order of the collection's
    ordered.sort(key=lambda table: table.chunk_id not in right)  # the right ones first, then others of all of it
    return TableSet(pairs=pairs, tables=tuple(ordered[: max(most_tables, len(right))]))


def measured(chosen: TableSet, services: Services) -> dict[str, float]:
    """Return the figures of one set with one embedder; see `run`."""
    texts = [(pair.question, pair.table.whole, pair.table.definition) for pair in chosen.pairs]
    shift = drive(embedding_shift(*(list(column) for column in zip(*texts, strict=True))), services)
    asked = shift.points[0::3]
    chunks = np.array([table.chunk_id for table in chosen.tables])
    owners = np.array([table.document_id for table in chosen.tables])
    right = np.stack([chunks == pair.table.chunk_id for pair in chosen.pairs])
    apart = np.stack([owners != pair.table.document_id for pair in chosen.pairs])
    ways = {}
    for name in ("whole", "definition", "bare"):
        rows = drive(unit_rows([getattr(table, name) for table in chosen.tables]), services)
        ways[name] = _distances(asked @ rows.T, right, apart)
    figures: dict[str, float] = {}
    for name in ("product", "margin", "lead"):
        old, new, bare = (ways[way][name] for way in ("whole", "definition", "bare"))
        figures[f"{name}_p"] = _p(chosen.pairs, old, new)
        for kind in ("", *sorted({pair.kind for pair in chosen.pairs})):
            of_kind = [place for place, pair in enumerate(chosen.pairs) if kind in {"", pair.kind}]
            part = _figures(name, *([values[place] for place in of_kind] for values in (old, new, bare)))
            figures.update({f"{key}.{kind}" if kind else key: value for key, value in part.items()})
    return figures


def _entry(document: Document) -> Entry:
    return prepare(document, Preparation(embed_tables="definition"))


def _document(name: str, path: Path) -> Document:
    try:
        with path.open(encoding="utf-8", newline="") as file:  # offsets count line ends as they are stored
            return Document(id=name, text=file.read())
    except (OSError, ValueError) as error:
        raise ParameterError("data", str(path), f"a readable file ({type(error).__name__})") from None


def _tables(entry: Entry) -> list[EmbeddedTable]:
    """Return the tables of an entry, in reading order."""
    undescribed = table_views(entry.document, entry.chunks, longest_description=0)
    bare = {view.chunk_id: view.text for view in undescribed}
    headed, defined = ({v.chunk_id: v.text for v in entry.views if v.kind == kind} for kind in ("headed", TABLE))
    return [
        EmbeddedTable(
            chunk_id=chunk.id,
            document_id=chunk.document_id,
            whole=headed[chunk.id],
            definition=defined[chunk.id],
            bare=bare[chunk.id],
        )
        for chunk in entry.chunks
        if chunk.id in bare  # a table without names and labels is left out
    ]


def _distances(products: Matrix, right: NDArray[np.bool_], apart: NDArray[np.bool_]) -> dict[str, list[float]]:
    """Return, per pair, the product with the right table, and what it is above the mean and the highest other."""
    own = (products * right).sum(axis=1)
    mean = (products * apart).sum(axis=1) / apart.sum(axis=1)
    highest = np.where(apart, products, -1.0).max(axis=1)
    return {"product": own.tolist(), "margin": (own - mean).tolist(), "lead": (own - highest).tolist()}


def _figures(name: str, old: Sequence[float], new: Sequence[float], bare: Sequence[float]) -> dict[str, float]:
    gains = [after - before for before, after in zip(old, new, strict=True)]
    figures = {
        f"{name}_before": fmean(old),
        f"{name}_after": fmean(new),
        f"{name}_after_bare": fmean(bare),
        f"{name}_shift": fmean(gains),
        f"{name}_shift_median": median(gains),
        f"{name}_rises": fmean(gain > 0 for gain in gains),
    }
    if name == "lead":
        ways = {"before": old, "after": new, "after_bare": bare}
        figures.update({f"first_{way}": fmean(value > 0 for value in values) for way, values in ways.items()})
    return figures


def _p(pairs: Sequence[TablePair], old: Sequence[float], new: Sequence[float]) -> float:
    """Return the p of the change, one value per question: the mean over its tables."""
    groups: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        groups.setdefault(pair.question, []).append(place)
    after, before = (
        {question: fmean(values[place] for place in places) for question, places in groups.items()}
        for values in (new, old)
    )
    return compare(after, before).p


def _sizes(name: str, chosen: TableSet) -> dict[str, float]:
    whole = sum(len(table.whole) for table in chosen.tables)
    kept = sum(len(table.definition) for table in chosen.tables)
    return {
        f"{name}.n_pairs": float(len(chosen.pairs)),
        f"{name}.n_tables": float(len(chosen.tables)),
        f"{name}.words_kept": kept / whole if whole else 0.0,
    }


def _embedders(model: str | None, tell: Tell) -> tuple[dict[str, Embedder], int]:
    """Return the embedders by label, and how many are left out."""
    found: dict[str, Embedder] = {"static": StaticEmbedder()}
    missing = [name for name in ("sentence_transformers", MINILM) if find_spec(name) is None]
    if model is None and missing:
        tell(f"MiniLM is left out: {' and '.join(missing)} not installed (nox -s torch has both)")
        return found, 1
    from catena.backends import SentenceTransformerEmbedder

    label, path = ("minilm", minilm_path()) if model is None else ("model", model)
    return found | {label: SentenceTransformerEmbedder(path)}, 0
