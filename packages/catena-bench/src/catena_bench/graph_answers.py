"""What a language model answers from evidence chains, written out in three ways, and from more and less than them.

| figures end with | what the model reads |
|---|---|
| no_retrieval | nothing |
| hybrid | the first five of the ranking that the walk begins with |
| chain, iterative, shuffled | the chains of the library's own walk, five chunks in all, in the three orders of IIER |
| golden | the gold evidence, so far as it is in the corpus |

Source: IIER (arXiv 2408.02907), Tables 1 and 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from catena.answering import (
    Chained,
    ChainFormat,
    ChainReading,
    ShortAnswer,
    answer_all,
    answer_without_retrieval,
    chain_answer,
)
from catena.effects import Plan, Services, Step, Tariff
from catena.evaluation import AnswerMeasure, SquadScores, squad_scores
from catena.graph import GraphSearch
from catena.model import ParameterError
from catena_bench.graph_data import Asked
from catena_bench.graph_measures import ROUNDS, paired
from catena_bench.graph_methods import WALK, feature_scorer
from catena_bench.graph_rankings import HYBRID
from catena_bench.graph_setting import Setting
from catena_bench.graph_walks import walked
from catena_bench.tables_asking import Ledger, asking, by_purpose, planning

Figures = dict[str, float]

FORMATS: tuple[ChainFormat, ...] = get_args(ChainFormat)
NO_RETRIEVAL, GOLDEN = "no_retrieval", "golden"
READ = 5  # chunks that a model reads of one question
MEASURES: tuple[AnswerMeasure, ...] = get_args(AnswerMeasure)
PAIRS = (
    ("chain", "iterative"), ("chain", "shuffled"), ("chain", HYBRID), ("chain", NO_RETRIEVAL), (GOLDEN, "chain"),
)  # fmt: skip


def answered(setting: Setting, services: Services) -> Figures:
    """Let a model answer every question in each way, and return how good the answers are.

    Returns:
        In percent `accuracy.WAY`, `exact_match.WAY` and `f1.WAY` with `.low` and `.high` before the way, the ends of
        their 95% bootstrap intervals; `difference.f1.A-B` of `PAIRS` with `.low`, `.high`, `.p` and `.p_holm`;
        `n_answerable`, the questions with accepted answers: the others are not asked; `n_unanswered.WAY`, those
        that were left without an answer and count 0, of which `n_failed.WAY` because asking failed;
        `tokens_in` and `tokens_out`, of all ways together: equal requests are asked once.

    Raises:
        ParameterError: no question has an accepted answer.
        CatenaError: nobody answers, or the budget is spent.
    """
    accepted = {question.id: question.answers for question in _answerable(setting)}
    ledger = Ledger()
    ask = asking(services, setting.embedder, ledger, setting.tell)
    figures: Figures = {"n_answerable": len(accepted)}
    found: dict[str, SquadScores] = {}
    for way, asked in _ways(setting).items():
        setting.tell(f"answering: {way}")
        answers = ask(answer_all(asked))
        found[way] = squad_scores(accepted, {each.question: each.reply for each in answers}, rounds=ROUNDS)
        figures |= _figures_of(way, found[way])
        figures[f"n_failed.{way}"] = sum(bool(each.failure) for each in answers)
        setting.tell(f"{way}: {found[way]}")
    figures["tokens_in"] = sum(task.tokens_in for task in ledger.tasks.values())
    figures["tokens_out"] = sum(task.tokens_out for task in ledger.tasks.values())
    return figures | paired("f1", {way: scores.values("f1") for way, scores in found.items()}, PAIRS)


def planned(setting: Setting, services: Services, tariff: Tariff) -> Figures:
    """Return what the model would take, and ask nobody.

    `plan.WAY.calls`, `.tokens_in`, `.tokens_out_at_most` and `.cost_at_most` of what the journal does not hold; a
    request that is equal in two ways is in both, though it is asked once.
    """
    figures: Figures = {}
    for way, asked in _ways(setting).items():
        plans: list[Plan] = []
        planning(services, setting.embedder, plans, tariff)(answer_all(asked))
        usages = by_purpose(plans).values()
        figures[f"plan.{way}.calls"] = sum(usage.calls for usage in usages)
        figures[f"plan.{way}.tokens_in"] = sum(usage.input_tokens for usage in usages)
        figures[f"plan.{way}.tokens_out_at_most"] = sum(usage.output_tokens for usage in usages)
        figures[f"plan.{way}.cost_at_most"] = sum(usage.cost for usage in usages)
    return figures


def _answerable(setting: Setting) -> Sequence[Asked]:
    found = [question for question in setting.split.questions if question.answers]
    if not found:
        raise ParameterError("answers", setting.split.name, "rows of questions with accepted `answers`, for --llm")
    return found


def _ways(setting: Setting) -> Mapping[str, Mapping[str, Step[ShortAnswer]]]:
    """Return by way and question the step that answers it, not yet begun."""
    questions = _answerable(setting)
    firsts = dict(zip((question.id for question in setting.split.questions), setting.first[HYBRID], strict=True))
    chunks = {chunk.id: chunk for chunk in setting.split.chunks}
    setting.tell("walking, for the chains to read")
    how = GraphSearch(walk=WALK, scorer=feature_scorer(setting), on_graph_error="raise")
    pairs = [(question, firsts[question.id]) for question in questions]
    results, _ = walked(pairs, how, setting.embedder, setting.graph, READ)
    chains = {question.id: result.chains for question, result in zip(questions, results, strict=True)}
    gold = {question.id: [chunks[at] for at in question.evidence if at in chunks] for question in questions}
    listed = {question.id: firsts[question.id].top(READ).hits for question in questions}

    def read(found: Mapping[str, Sequence[Chained]], way: ChainFormat) -> dict[str, Step[ShortAnswer]]:
        reading = ChainReading(format=way)
        return {question.id: chain_answer(question.text, found[question.id], reading) for question in questions}

    return {
        NO_RETRIEVAL: {question.id: answer_without_retrieval(question.text) for question in questions},
        HYBRID: read(listed, "chain"),
        **{way: read(chains, way) for way in FORMATS},
        GOLDEN: read(gold, "chain"),
    }


def _figures_of(way: str, scores: SquadScores) -> Figures:
    figures: Figures = {f"n_unanswered.{way}": len(scores.unanswered)}
    for measure in MEASURES:
        mean = getattr(scores, measure)
        figures[f"{measure}.{way}"] = 100 * mean.value
        if mean.interval is not None:
            low, high = mean.interval
            figures |= {f"{measure}.low.{way}": 100 * low, f"{measure}.high.{way}": 100 * high}
    return figures
