"""The tables of MC-indexing that say what was searched and what it took: 1, 5 and 7.

Source: MC-indexing (Dong et al., 2024), sections 4 and 5.5.3, appendix A.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from catena.evaluation import chunking_error, spans_of
from catena_bench.tables_asking import Task
from catena_bench.tables_forms import PaperTable, Row
from catena_bench.tables_material import SECTIONS, Material
from catena_bench.tables_measures import Cell
from catena_bench.views_measures import PERCENT
from catena_bench.views_units import LENGTHS

_TASK = ("requests", "failed", "words_in", "words_out", "tokens_in", "tokens_out", "seconds")


def table_1(materials: Sequence[Material]) -> PaperTable:
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
        Row(key=name.replace("/", "_per_"), name=name, cells=(Cell(value=float(value)),))
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
    """Return what a model was asked for each task: requests, and the mean of each."""
    return PaperTable(
        key="table5",
        title="Table 5: what the model was asked, in the mean of requests",
        columns=tuple((name, name.replace("_", " ")) for name in _TASK),
        blocks=(("", "", tuple(_task(purpose, task) for purpose, task in sorted(tasks.items()))),),
        notes=(
            "Seconds are those of requests that were made in this run, several at a time; kept replies take none.",
        ),
    )


def table_7(materials: Sequence[Material], units: str) -> PaperTable:
    """Return the share of evidence spans that each chunker cuts.

    Args:
        materials: the documents.
        units: the name of their units, as Table 2 has it.
    """
    content = _error(materials, SECTIONS)
    rows = [
        Row(
            key=f"n{size}",
            name=f"N = {size}",
            cells=(_error(materials, f"fixed{size}"), _error(materials, f"fixed{size}_content"), content),
        )
        for size in LENGTHS
    ]
    if all(each.units is not None for each in materials):
        rows.append(Row(key="units", name=units, cells=(_error(materials, None), None, None)))
    return PaperTable(
        key="table7",
        title="Table 7: chunking error",
        columns=(("fixed", "FLC"), ("fixed_content", "FLC-content"), ("content", "Content-aware")),
        blocks=(("", "", tuple(rows)),),
        notes=("Evidence spans that do not lie whole in one chunk, in percent.",),
    )


def _task(purpose: str, task: Task) -> Row:
    answered = max(1, task.requests - task.failed)
    means = (
        task.words_in / task.requests,
        *(n / answered for n in (task.words_out, task.tokens_in, task.tokens_out)),
    )
    cells = [Cell(value=float(value)) for value in (task.requests, task.failed, *means)]
    seconds = Cell(value=task.seconds / task.timed) if task.timed else None
    return Row(key=purpose.replace(" ", "_"), name=purpose, cells=(*cells, seconds))


def _error(materials: Sequence[Material], name: str | None) -> Cell:
    """Return the error of the chunks of a name, of the units for None, over the evidence of all documents."""
    broken = total = 0.0
    for each in materials:
        evidence = [span for question in each.asked.questions for span in question.evidence]
        chunks = (each.units or ()) if name is None else each.chunks[name]
        broken += len(evidence) * chunking_error(spans_of(chunks), evidence, each.asked.document.text)
        total += len(evidence)
    return Cell(value=PERCENT * broken / total)
