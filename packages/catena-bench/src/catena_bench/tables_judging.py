"""Figure 3 of MC-indexing: a model answers from what two schemes return, and judges both answers in both orders.

Source: MC-indexing (Dong et al., 2024), sections 5.2 and 5.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catena.answering import short_answer
from catena.effects import Failed, Step, together
from catena.evaluation import Pair, Rate, Span, Verdict, judge_pairs, pairwise_result, whole_cutoffs
from catena.model import Chunk, EvaluationError, ServiceError, digest
from catena_bench.tables_forms import Block, PaperTable, Row
from catena_bench.tables_material import LEAVES, SECTIONS, Material
from catena_bench.tables_measures import Cell
from catena_bench.tables_schemes import MULTI_VIEW, Searched
from catena_bench.views_measures import PERCENT, Results

JUDGED_AT = (1.5, 3.0, 5.0)
BASELINE = f"fixed{LEAVES}"
_CHUNKS_OF = {MULTI_VIEW: SECTIONS, BASELINE: BASELINE}
_COLUMNS = (("win", "win"), ("tie", "tie"), ("lose", "lose"), ("undecided", "undecided"))


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
    materials: Sequence[Material], found: Mapping[str, Sequence[Searched]], cutoffs: Sequence[float]
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
        CatenaError: not a failure of the model, but of what surrounds it (nobody answers, the budget, the journal).
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


def _asked(materials: Sequence[Material], retriever: str, found: Sequence[Searched], k: float) -> Iterator[_Asked]:
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
                reference=material.source.references[place],
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


def _rates(verdicts: Sequence[Verdict]) -> Iterator[Row]:
    undecided = Cell(value=float(sum("undecided" in (each.by_score, each.by_round) for each in verdicts)))
    try:
        result = pairwise_result(verdicts)
    except EvaluationError:  # none is decided
        nothing = (None, None, None, undecided)
        yield Row(key="by_score", name="score-based", cells=nothing)
        yield Row(key="by_round", name="round-based", cells=nothing)
        return
    for key, name, tally in (
        ("by_score", "score-based", result.by_score),
        ("by_round", "round-based", result.by_round),
    ):
        yield Row(key=key, name=name, cells=(*map(_rate, (tally.win, tally.tie, tally.lose)), undecided))


def _rate(rate: Rate) -> Cell:
    ends = {} if rate.interval is None else {"low": PERCENT * rate.interval[0], "high": PERCENT * rate.interval[1]}
    return Cell(value=PERCENT * rate.value, more={**ends, "n": float(rate.n)})
