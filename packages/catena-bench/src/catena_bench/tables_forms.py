"""Make the tables of MC-indexing (1, 2, 4 to 7, 9 to 11, Figure 3), and print them as Markdown and as figures.

Source: MC-indexing (Dong et al., 2024), sections 4 and 5.2 to 5.6, appendices A, E.1, F and G.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, TypeAlias

from catena import Chunk, ServiceError
from catena.answering import short_answer
from catena.effects import Failed, Step, together
from catena.evaluation import Span, chunking_error, spans_of, whole_cutoffs
from catena.model import EvaluationError, digest
from catena_bench.figures import PERCENT
from catena_bench.judges import OutcomeRate, Pair, Tally, Verdict, judge_pairs, pairwise_result
from catena_bench.tables_asking import Task
from catena_bench.tables_schemes import (
    CONTENT,
    LEAVES,
    MULTI_VIEW,
    PLUS,
    RAPTOR,
    SECTIONS,
    SHIPPED,
    UNITS,
    Cell,
    Searched,
    TableMaterial,
    Wanted,
    mean_cell,
    recall,
    recall_at_length,
)
from catena_bench.views import CUTOFFS, Results
from catena_bench.views_data import LENGTHS

NOTHING = "–"
DELTA = "delta"  # key of a column of differences


_TASK = ("requests", "failed", "words_in", "words_out", "tokens_in", "tokens_out", "seconds")
AVERAGE = "average"
_TOPS = tuple((f"k{k:g}", f"Top {k:g}") for k in CUTOFFS)
_CHANGES = (*_TOPS, (DELTA, "Δ"))
_OF_LENGTH = {300: 6, 200: 9}  # the paper's tables of fixed lengths
_WITHOUT = {"raw": "w/o raw text", "keywords": "w/o keyword", "summary": "w/o summary"}
JUDGED_AT = (1.5, 3.0, 5.0)
BASELINE = f"fixed{LEAVES}"
_CHUNKS_OF = {MULTI_VIEW: SECTIONS, BASELINE: BASELINE}
_COLUMNS = (("win", "win"), ("tie", "tie"), ("lose", "lose"), ("undecided", "undecided"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRow:
    """A line of a table.

    Attributes:
        key: of its figures in JSON.
        cells: one per column, None where there is no such figure.
        compared: whether it can be the best of its block.
    """

    key: str
    name: str
    cells: tuple[Cell | None, ...]
    compared: bool = True


DIGITS = 1  # behind the point of what is printed
Block: TypeAlias = tuple[str, str, tuple[PaperRow, ...]]
"""Key and name of a block, and its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """A table in the form of the paper's.

    Attributes:
        key: of its figures in JSON: "table2".
        columns: their keys and names.
        blocks: a table without blocks has one, with an empty key.
        best: which cells of each column and block are marked as best; "" marks none.
        notes: what is to be known about the figures, a sentence each.
    """

    key: str
    title: str
    columns: tuple[tuple[str, str], ...]
    blocks: tuple[Block, ...]
    best: Literal["high", "low", ""] = ""
    notes: tuple[str, ...] = ()


def figures_of(table: PaperTable) -> dict[str, float]:
    """Return `<table>.<block>.<column>.<row>` and, behind it, the names of further figures."""
    found: dict[str, float] = {}
    for block, _, rows in table.blocks:
        for row in rows:
            for (column, _), cell in zip(table.columns, row.cells, strict=True):
                if cell is not None:
                    key = ".".join(filter(None, (table.key, block, column, row.key)))
                    found[key] = cell.value
                    found |= {f"{key}.{name}": value for name, value in cell.more.items()}
    return found


def markdown_of(table: PaperTable) -> str:
    """Return the table in Markdown, under a heading; all cells that print as the best are bold."""
    blocked = len(table.blocks) > 1
    leads = [""] * (2 if blocked else 1)
    lines = [_line([*leads, *(name for _, name in table.columns)])]
    lines.append(_line(["---"] * len(leads) + ["--:"] * len(table.columns)))
    for _, name, rows in table.blocks:
        printed = [_column(table, rows, place) for place in range(len(table.columns))]
        for number, row in enumerate(rows):
            of_block = [name if number == 0 else ""] if blocked else []
            lines.append(_line([*of_block, row.name, *(column[number] for column in printed)]))
    notes = ["", " ".join(table.notes)] if table.notes else []
    return "\n".join([f"## {table.title}", "", *lines, *notes, ""])


def document_of(title: str, told: Sequence[str], tables: Sequence[PaperTable]) -> str:
    """Return all tables as one Markdown document.

    Args:
        title: its heading.
        told: how it was made, a line each.
        tables: in order.
    """
    opening = "\n".join([f"# {title}", "", *(f"- {line}" for line in told), ""])
    return "\n".join([opening, *map(markdown_of, tables)])


def _column(table: PaperTable, rows: Sequence[PaperRow], place: int) -> list[str]:
    """Return the cells of one column of one block, marked."""
    sign = "+" if table.columns[place][0] == DELTA else ""
    cells = [row.cells[place] for row in rows]
    printed = [NOTHING if cell is None else f"{cell.value:{sign},.{DIGITS}f}" for cell in cells]
    if not table.best:
        return printed
    rounded = {
        round(cell.value, DIGITS) for cell, row in zip(cells, rows, strict=True) if cell is not None and row.compared
    }
    best, second = [*sorted(rounded, reverse=table.best == "high"), None, None][:2]
    found = []
    for cell, row, text in zip(cells, rows, printed, strict=True):
        value = None if cell is None or not row.compared else round(cell.value, DIGITS)
        marks = ("**", "**") if value == best else ("<u>", "</u>") if value == second else ("", "")
        found.append(text if value is None else text.join(marks))
    return found


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def table_1(materials: Sequence[TableMaterial]) -> PaperTable:
    """Return the statistics of the documents."""
    values = {
        "documents": len(materials),
        "questions": sum(len(each.asked.questions) for each in materials),
        "sections/doc": fmean(len(each.chunks[SECTIONS]) for each in materials),
        "tokens/doc": fmean(len(each.asked.token_starts) for each in materials),
        "tokens/sec": fmean(
            each.asked.tokens(*span) for each in materials for span in spans_of(each.chunks[SECTIONS])
        ),
        "tokens/ans": fmean(
            sum(each.asked.tokens(*span) for span in question.evidence)
            for each in materials
            for question in each.asked.questions
        ),
    }
    rows = (
        PaperRow(key=name.replace("/", "_per_"), name=name, cells=(Cell(value=float(value)),))
        for name, value in values.items()
    )
    return PaperTable(
        key="table1",
        title="Table 1: the documents",
        columns=(("value", "these"),),
        blocks=(("", "", tuple(rows)),),
        notes=("Tokens are word pieces of BERT's vocabulary; sections are the smallest divisions that have a text.",),
    )


def table_5(tasks: Mapping[str, Task]) -> PaperTable:
    """Return the requests of each task that a model was asked, and the mean of each."""
    return PaperTable(
        key="table5",
        title="Table 5: what the model was asked, in the mean of requests",
        columns=tuple((name, name.replace("_", " ")) for name in _TASK),
        blocks=(("", "", tuple(_task(purpose, task) for purpose, task in sorted(tasks.items()))),),
        notes=(
            "Seconds are those of requests that were made in this run, several at a time; kept replies take none.",
        ),
    )


def table_7(materials: Sequence[TableMaterial], units: str) -> PaperTable:
    """Return the share of evidence spans that each chunker cuts.

    Args:
        materials: the documents.
        units: the name of their units, as Table 2 has it.
    """
    content = _error(materials, SECTIONS)
    rows = [
        PaperRow(
            key=f"n{size}",
            name=f"N = {size}",
            cells=(_error(materials, f"fixed{size}"), _error(materials, f"fixed{size}_content"), content),
        )
        for size in LENGTHS
    ]
    if all(each.units is not None for each in materials):
        rows.append(PaperRow(key="units", name=units, cells=(_error(materials, None), None, None)))
    return PaperTable(
        key="table7",
        title="Table 7: chunking error",
        columns=(("fixed", "FLC"), ("fixed_content", "FLC-content"), ("content", "Content-aware")),
        blocks=(("", "", tuple(rows)),),
        notes=("Evidence spans that do not lie whole in one chunk, in percent.",),
    )


def _task(purpose: str, task: Task) -> PaperRow:
    answered = max(1, task.requests - task.failed)
    means = (
        task.words_in / task.requests,
        *(n / answered for n in (task.words_out, task.tokens_in, task.tokens_out)),
    )
    cells = [Cell(value=float(value)) for value in (task.requests, task.failed, *means)]
    seconds = Cell(value=task.seconds / task.timed) if task.timed else None
    return PaperRow(key=purpose.replace(" ", "_"), name=purpose, cells=(*cells, seconds))


def _error(materials: Sequence[TableMaterial], name: str | None) -> Cell:
    """Return the error of the chunks of a name, of the units for None, over the evidence of all documents."""
    broken = total = 0.0
    for each in materials:
        evidence = [span for question in each.asked.questions for span in question.evidence]
        chunks = (each.units or ()) if name is None else each.chunks[name]
        broken += len(evidence) * chunking_error(spans_of(chunks), evidence, each.asked.document.text)
        total += len(evidence)
    return Cell(value=PERCENT * broken / total)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInputs:
    """All that the tables are made of.

    Attributes:
        found: by retriever, what was returned, one per document.
        factor: of "Atomic Unit: Plus".
    """

    materials: Sequence[TableMaterial]
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


def table_2(measured: TableInputs) -> PaperTable:
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


def table_4(measured: TableInputs) -> PaperTable:
    """Return the recall of MC-indexing without each of its views; Table 11 is the same of other documents."""
    whole = names_of(measured.wanted, measured.factor)[MULTI_VIEW]
    rows = {MULTI_VIEW: whole, **{f"{MULTI_VIEW}_without_{kind}": name for kind, name in _WITHOUT.items()}}
    return PaperTable(
        key="table4",
        title="Tables 4 and 11: MC-indexing without one of its views",
        columns=_CHANGES,
        blocks=tuple(_changed(measured, retriever, rows) for retriever in measured.found),
        notes=("Two views return fewer chunks than three, which is a part of each loss.",),
    )


def table_of_length(measured: TableInputs, size: int) -> PaperTable:
    """Return the recall that content and views add to fixed lengths: Table 6 for 300 tokens, Table 9 for 200."""
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


def table_10(measured: TableInputs) -> PaperTable:
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


def _by_retriever(measured: TableInputs, scheme: str, name: str, k: float, *, compared: bool = True) -> PaperRow:
    """Return a line of Table 2; the mean is that of a scheme which every retriever has."""
    cells = [recall(found, scheme, k) if scheme in found[0].schemes else None for found in measured.found.values()]
    there = [cell for cell in cells if cell is not None]
    average = mean_cell(there) if len(there) == len(cells) else None
    return PaperRow(key=scheme, name=name, cells=(*cells, average), compared=compared)


def _changed(measured: TableInputs, retriever: str, names: Mapping[str, str]) -> Block:
    """Return a block whose last column says by how much each row differs from the first, in the mean of all k."""
    found = measured.found[retriever]
    rows: list[PaperRow] = []
    for scheme, name in names.items():
        cells = [recall(found, scheme, k) for k in CUTOFFS]
        mean = fmean(cell.value for cell in cells)
        delta = None
        if rows:
            first = [cell.value for cell in rows[0].cells if cell is not None]
            delta = Cell(value=mean - fmean(first))
        rows.append(PaperRow(key=scheme, name=name, cells=(*cells, delta)))
    return retriever, retriever, tuple(rows)


def _at_equal_length(found: Sequence[Searched], names: Mapping[str, str]) -> tuple[PaperRow, ...]:
    whole = tuple(recall(found, MULTI_VIEW, k) for k in CUTOFFS)
    rows = [PaperRow(key=MULTI_VIEW, name=names[MULTI_VIEW], cells=whole)]
    for scheme in (*(f"fixed{size}" for size in LENGTHS), UNITS, CONTENT):
        cells = tuple(recall_at_length(found, scheme, MULTI_VIEW, k) for k in CUTOFFS)
        rows.append(PaperRow(key=scheme, name=names[scheme], cells=cells))
    return tuple(rows)


def _averaged(by_retriever: Sequence[Sequence[PaperRow]]) -> tuple[PaperRow, ...]:
    rows = []
    for same in zip(*by_retriever, strict=True):
        columns = zip(*(row.cells for row in same), strict=True)
        cells = tuple(mean_cell([cell for cell in column if cell is not None]) for column in columns)
        rows.append(PaperRow(key=same[0].key, name=same[0].name, cells=cells))
    return tuple(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A question with what each scheme returns for it at one k, by one retriever."""

    retriever: str
    k: float
    id: str
    document: str
    question: str
    reference: str
    passages: Mapping[str, tuple[Chunk, ...]]


def judge(
    materials: Sequence[TableMaterial], found: Mapping[str, Sequence[Searched]], cutoffs: Sequence[float]
) -> Step[Mapping[tuple[float, str], tuple[Verdict, ...]]]:
    """Let a model answer every question from MC-indexing's and from FLC-300's chunks, then judge the answers.

    Where the paper names two cutoffs, every other question takes the larger. A question for which no answer came is
    answered by "" for that scheme: the judge is told that no answer was given.

    Args:
        materials: the documents.
        found: by retriever, what was returned, one per document.
        cutoffs: the paper's k.

    Returns:
        Verdicts of MC-indexing against FLC-300, by k and retriever.

    Raises:
        CatenaError: not a failure of the model, but of what surrounds it (no service, the budget, the journal).
    """
    asked = [each for k in cutoffs for retriever, of in found.items() for each in _asked(materials, retriever, of, k)]
    answers: list[Any] = yield from together(
        [short_answer(each.question, each.passages[scheme]) for each in asked for scheme in (MULTI_VIEW, BASELINE)]
    )
    texts = iter([_text(answer) for answer in answers])
    pairs = [
        Pair(
            id=each.id,
            question=each.question,
            reference=each.reference,
            a=next(texts),
            b=next(texts),
            document=each.document,
        )
        for each in asked
    ]
    verdicts = yield from judge_pairs(pairs)
    by_group: dict[tuple[float, str], list[Verdict]] = {}
    for each, verdict in zip(asked, verdicts, strict=True):
        by_group.setdefault((each.k, each.retriever), []).append(verdict)
    return {group: tuple(of_group) for group, of_group in by_group.items()}


def figure_3(judged: Mapping[tuple[float, str], Sequence[Verdict]]) -> PaperTable:
    """Return win, tie and lose rates of MC-indexing against FLC-300, by score and by round, with intervals."""
    blocks: list[Block] = []
    for (k, retriever), verdicts in judged.items():
        rows = tuple(_rates(verdicts))
        blocks.append((f"k{k:g}.{retriever}", f"k = {k:g}, {retriever}", rows))
    return PaperTable(
        key="figure3",
        title="Figure 3: answers from MC-indexing against answers from FLC-300",
        columns=_COLUMNS,
        blocks=tuple(blocks),
        notes=("Rates in percent of the questions that were decided; undecided is a number of questions.",),
    )


def _asked(
    materials: Sequence[TableMaterial], retriever: str, found: Sequence[Searched], k: float
) -> Iterator[_Asked]:
    number = 0
    cutoffs = whole_cutoffs(k, sum(len(each.asked.questions) for each in found))
    for material, searched in zip(materials, found, strict=True):
        chunk_at = {
            scheme: {(chunk.start, chunk.end): chunk for chunk in material.chunks[name]}
            for scheme, name in _CHUNKS_OF.items()
        }
        for place, question in enumerate(searched.asked.questions):
            sets = {
                MULTI_VIEW: _in_turn(searched.schemes[MULTI_VIEW], place, k, number),
                BASELINE: searched.schemes[BASELINE].ranked[place][: cutoffs[number]],
            }
            yield _Asked(
                retriever=retriever,
                k=k,
                id=digest(f"{k:g}", retriever, searched.asked.name, question.id),
                document=searched.asked.name,
                question=question.text,
                reference=material.asked.references[place],
                passages={scheme: tuple(chunk_at[scheme][span] for span in spans) for scheme, spans in sets.items()},
            )
            number += 1


def _in_turn(results: Results, place: int, k: float, number: int) -> Sequence[Span]:
    """Return what is returned at k; of several sets, one after the other from question to question."""
    sets = [results.ranked[place]] if results.at is None else results.at(place, k)
    return sets[number % len(sets)]


def _text(answer: Any) -> str:
    if not isinstance(answer, Failed):
        return str(answer.text)
    if isinstance(answer.error, ServiceError):
        return ""
    raise answer.error


def _rates(verdicts: Sequence[Verdict]) -> Iterator[PaperRow]:
    undecided = Cell(value=float(sum("undecided" in (each.by_score, each.by_round) for each in verdicts)))
    try:
        result = pairwise_result(verdicts)
        tallies: tuple[Tally | None, ...] = (result.by_score, result.by_round)
    except EvaluationError:  # none is decided
        tallies = (None, None)
    for name, tally in zip(("score", "round"), tallies, strict=True):
        rates = (None,) * 3 if tally is None else tuple(map(_rate, (tally.win, tally.tie, tally.lose)))
        yield PaperRow(key=f"by_{name}", name=f"{name}-based", cells=(*rates, undecided))


def _rate(rate: OutcomeRate) -> Cell:
    ends = {} if rate.interval is None else {"low": PERCENT * rate.interval[0], "high": PERCENT * rate.interval[1]}
    return Cell(value=PERCENT * rate.value, more={**ends, "n": float(rate.n)})
