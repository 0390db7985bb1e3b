"""Ask questions of several hops over a whole corpus by each method: evidence found, studies of the walk, answers.

| method | ranking |
|---|---|
| bm25, dense, hybrid | the first rankings of `graph_setting` |
| library_hybrid | the library's own search: a store on disk, its routes, its fusion by score |
| library | the same, which goes over its graph where the first ranking is not sure: as its users search |
| paper_untrained | the paper's walk as written from "hybrid", hops by `cos(q + mean of the path / 2, node)` |
| paper_trained | the same by the paper's scorer, trained on the train split with the embedder frozen; needs torch |
| paper_fine_tuned | the same with the encoder trained too, and the graph made of its vectors |
| walk | our walk from "hybrid", by the shipped scorer: what was walked to comes first, sure or not |
| scorer_only | the same scorer, which follows no edge: what the graph adds is the difference |
| walk_untrained, walk_untrained_scorer_only | both by hand-set weights |

In the two studies, of the length of chains and the density of the graph, a chain's evidence is counted whatever the
number of its chunks, and nothing is filled in from the first ranking; so the chunks that the chains hold are given
beside it. At most 250 questions are asked, those of the lowest digests.

| figures end with | what the model reads |
|---|---|
| no_retrieval | nothing |
| hybrid | the first five of the ranking that the walk begins with |
| chain, iterative, shuffled | the chains of the library's own walk, five chunks in all, in the three orders of IIER |
| golden | the gold evidence, so far as it is in the corpus |

Source: IIER (arXiv 2408.02907), Tables 1 to 3 and Figure 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Annotated, TypeAlias, get_args

import typer
from rich.console import Console
from rich.table import Table

from catena import ParameterError, Ranking, Services, answering
from catena import graph as graphs
from catena.cli.failures import ProblemError, check_targets
from catena.cli.llm_options import ModelOptions
from catena.cli.options import grouped
from catena.cli.options import listed as names_in
from catena.effects import Embedder, Plan, Step, Tariff
from catena.evaluation import AnswerMeasure, EvidenceResult, SquadScores, evaluate_evidence, squad_scores
from catena.model import digest
from catena_bench import options
from catena_bench.collection import library_of
from catena_bench.figures import ROUNDS, Figures, Tell, paired_figures, percentiles, score_figures, silent
from catena_bench.graph_data import DEV, STATIC, HopQuestion, KeptVectors, embedder_named, model_named, read_split
from catena_bench.graph_setting import (
    BM25,
    DENSE,
    HYBRID,
    MAKES,
    TUNED,
    Method,
    MethodNotAvailable,
    Rankings,
    Setting,
    Tuning,
    paper_fine_tuned,
    paper_scorer,
    setting_of,
    walked,
    walking,
)
from catena_bench.pictures import draw
from catena_bench.tables_asking import Ledger, asking, by_purpose, plan_figures, planning

CUTOFFS = (2, 5, 10, 20)
COMPARED = ("recall@5", "all@5")

Results: TypeAlias = "Mapping[str, EvidenceResult]"
"""By measure."""


LIBRARY = "library_hybrid"
OVER_GRAPH = "library"
WALK = replace(graphs.GraphSearch().walk, keep_sure=False)  # alone: no hit of the first ranking goes before a hop
WITHOUT_GRAPH = replace(WALK, candidates="ranking", kinds=())
LENGTHS = (1, 3, 5, 7)  # chunks of a chain at most
NEIGHBOURS = (1, 2, 3, 5, 8, 10, 15, 20)  # the paper's T
KEYWORDS_MORE_THAN = (0, 1, 2, 3, 4)  # the paper's K
STUDIED = 250  # questions
SCORERS: dict[str, MAKES] = {
    "paper_untrained": lambda setting: graphs.SimilarityScorer(),
    "paper_trained": paper_scorer,
}
_MATCH = "match_rate"
_PAPER_GRAPH = graphs.GraphOptions(kinds=(graphs.KEYWORDS,), mentions=False)
FORMATS: tuple[answering.ChainFormat, ...] = get_args(answering.ChainFormat)
NO_RETRIEVAL, GOLDEN = "no_retrieval", "golden"
READ = 5  # chunks that a model reads of one question
MEASURES: tuple[AnswerMeasure, ...] = get_args(AnswerMeasure)
ANSWER_PAIRS = (
    ("chain", "iterative"), ("chain", "shuffled"), ("chain", HYBRID), ("chain", NO_RETRIEVAL), (GOLDEN, "chain"),
)  # fmt: skip


def results_of(
    questions: Sequence[HopQuestion], rankings: Sequence[Ranking], cutoffs: Sequence[int] = CUTOFFS
) -> Results:
    """Return recall at the cutoffs, and how often all evidence is among the first five."""
    gold = {question.id: question.evidence for question in questions}
    run = {question.id: ranking for question, ranking in zip(questions, rankings, strict=True)}
    measures = dict.fromkeys((*(f"recall@{k}" for k in cutoffs), *COMPARED))
    return evaluate_evidence(gold, run, tuple(measures), rounds=ROUNDS)


def figures_of(method: str, results: Results) -> dict[str, float]:
    """Return the means of a method in percent, `recall_at_5.METHOD`, with the ends of their 95% bootstrap intervals.

    These are `recall_at_5.low.METHOD` and `recall_at_5.high.METHOD`; of a single question there are none.
    """
    figures: dict[str, float] = {}
    for name, result in results.items():
        key = _key(name)
        assert result.mean is not None  # every question that was read has evidence
        figures |= score_figures(key, method, result.mean)
    return figures


def differences_of(found: Mapping[str, Results], pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Return the paired differences of methods in points, of `COMPARED`: see `figures.paired_figures`.

    `difference.recall_at_5.A-B` with `.low` and `.high`, the ends of its 95% interval, `.p` of the randomisation test
    and `.p_holm`, the same corrected for the number of pairs.

    Args:
        found: method -> its results.
        pairs: (A, B); one of which a method was not measured is left out.
    """
    figures: dict[str, float] = {}
    for name in COMPARED:
        values = {method: results[name].per_question for method, results in found.items()}
        figures |= paired_figures(_key(name), values, pairs)
    return figures


def _key(measure: str) -> str:
    return measure.replace("@", "_at_")


def listed(name: str) -> Method:
    """Return the method that answers with one of the first rankings."""
    return lambda setting: tuple(ranking.top(setting.k) for ranking in setting.first[name])


def library_hybrid(setting: Setting, *, over_graph: bool = False) -> Rankings:
    """Put the corpus into a library, and search it as its users do, who may have built its graph."""
    texts = [question.text for question in setting.split.questions]
    with library_of(setting.split.entries(), embedder=setting.embedder) as library:
        if over_graph:
            library.build_graph()
        return tuple(library.search(text, k=setting.k, on_route_error="raise", on_unknown="keep") for text in texts)


def feature_scorer(setting: Setting) -> graphs.FeatureScorer:
    """Return the scorer that was given, or the shipped one."""
    return setting.scorer or graphs.FeatureScorer.shipped()


METHODS: dict[str, Method] = {
    BM25: listed(BM25),
    DENSE: listed(DENSE),
    HYBRID: listed(HYBRID),
    LIBRARY: library_hybrid,
    OVER_GRAPH: partial(library_hybrid, over_graph=True),
    "paper_untrained": walking("paper_untrained", graphs.PAPER, lambda setting: graphs.SimilarityScorer()),
    "paper_trained": walking("paper_trained", graphs.PAPER, paper_scorer),
    TUNED: paper_fine_tuned,
    "walk": walking("walk", WALK, feature_scorer),
    "scorer_only": walking("scorer_only", WITHOUT_GRAPH, feature_scorer),
    "walk_untrained": walking("walk_untrained", WALK, lambda setting: graphs.UntrainedScorer()),
    "walk_untrained_scorer_only": walking(
        "walk_untrained_scorer_only", WITHOUT_GRAPH, lambda setting: graphs.UntrainedScorer()
    ),
}
USUAL = tuple(method for method in METHODS if method != TUNED)  # that takes far longer than all others


def lengths(setting: Setting) -> Figures:
    """Return the figures of chains that may be 1, 3, 5 or 7 chunks long; 1 is the seeds alone."""
    scorers = scorers_of(setting)
    graph = graphs.ChunkGraph.build(setting.nodes, setting.vectors, _PAPER_GRAPH)
    figures: Figures = {}
    for at in LENGTHS:
        figures |= _study(setting, scorers, graph, f"length_{at}", max_length=at)
    return figures


def density(setting: Setting) -> Figures:
    """Return the figures of chains of five chunks as the two thresholds move, one at a time, the other as usual."""
    ways = [("neighbours", at, replace(_PAPER_GRAPH, neighbours=at)) for at in NEIGHBOURS]
    ways += [("keyword", at, replace(_PAPER_GRAPH, keywords_more_than=at)) for at in KEYWORDS_MORE_THAN]
    scorers = scorers_of(setting)
    figures: Figures = {}
    for name, at, option in ways:
        setting.tell(f"density: {name} {at}")
        graph = graphs.ChunkGraph.build(setting.nodes, setting.vectors, option)
        figures |= _study(setting, scorers, graph, f"{name}_{at}")
    return figures


STUDIES: Mapping[str, Callable[[Setting], Figures]] = {"lengths": lengths, "density": density}


def studied(setting: Setting) -> tuple[tuple[HopQuestion, Ranking], ...]:
    """Return at most `STUDIED` questions with their first rankings, in the order of the digests of their ids."""
    asked = zip(setting.split.questions, setting.first[HYBRID], strict=True)
    return tuple(sorted(asked, key=lambda pair: digest(pair[0].id))[:STUDIED])


def scorers_of(setting: Setting) -> dict[str, graphs.Scorer]:
    """Return the scorers that can be had here, and tell which cannot."""
    found: dict[str, graphs.Scorer] = {}
    for name, make in SCORERS.items():
        try:
            found[name] = make(setting)
        except MethodNotAvailable as why:
            setting.tell(f"without {name}: {why}")
    return found


def _study(
    setting: Setting, scorers: Mapping[str, graphs.Scorer], graph: graphs.ChunkGraph, key: str, *, max_length: int = 5
) -> Figures:
    """Return the evidence that the chains of each scorer find at one value of a setting.

    `match_rate.SETTING_AT.SCORER` in percent, with `.low` and `.high` before it; `chunks.SETTING_AT.SCORER`, the mean
    number of chunks in the chains of a question; `mean_degree.SETTING_AT` of the graph, `n_studied`.
    """
    walk = replace(graphs.PAPER, max_length=max_length, max_chunks=10 * max_length, fill=False)
    asked = studied(setting)
    gold = {question.id: question.evidence for question, _ in asked}
    figures: Figures = {}
    for scorer, scores in scorers.items():
        how = graphs.GraphSearch(walk=walk, scorer=scores, on_graph_error="raise")
        results, _ = walked(asked, how, setting.embedder, graph, walk.takes)
        chains = {question: result.chains for question, result in zip(gold, results, strict=True)}
        matched = evaluate_evidence(gold, chains, (_MATCH,), rounds=ROUNDS)[_MATCH].mean
        assert matched is not None  # every question that was read has evidence
        figures |= score_figures(_MATCH, f"{key}.{scorer}", matched)
        figures[f"chunks.{key}.{scorer}"] = fmean(len(result.ranking.hits) for result in results)
        figures |= {f"mean_degree.{key}": float(graph.degrees().mean()), "n_studied": matched.n}
    return figures


def answered(setting: Setting, services: Services) -> Figures:
    """Let a model answer every question in each way, and return how good the answers are.

    Returns:
        In percent `accuracy.WAY`, `exact_match.WAY` and `f1.WAY` with `.low` and `.high` before the way, the ends of
        their 95% bootstrap intervals; `difference.f1.A-B` of `ANSWER_PAIRS` with `.low`, `.high`, `.p` and `.p_holm`;
        `n_answerable`, the questions with accepted answers: the others are not asked; `n_unanswered.WAY`, those
        that were left without an answer and count 0, of which `n_failed.WAY` because asking failed;
        `tokens_in` and `tokens_out`, of all ways together: equal requests are asked once.

    Raises:
        ParameterError: no question has an accepted answer.
        CatenaError: no service answers, or the budget is spent.
    """
    accepted = {question.id: question.answers for question in _answerable(setting)}
    ledger = Ledger()
    ask = asking(services, setting.embedder, ledger, setting.tell)
    figures: Figures = {"n_answerable": len(accepted)}
    found: dict[str, SquadScores] = {}
    for way, asked in _ways(setting).items():
        setting.tell(f"answering: {way}")
        answers = ask(answering.answer_all(asked))
        found[way] = squad_scores(accepted, {each.question: each.reply for each in answers}, rounds=ROUNDS)
        figures |= _figures_of(way, found[way])
        figures[f"n_failed.{way}"] = sum(bool(each.failure) for each in answers)
        setting.tell(f"{way}: {found[way]}")
    figures["tokens_in"] = sum(task.tokens_in for task in ledger.tasks.values())
    figures["tokens_out"] = sum(task.tokens_out for task in ledger.tasks.values())
    return figures | paired_figures("f1", {way: scores.values("f1") for way, scores in found.items()}, ANSWER_PAIRS)


def planned(setting: Setting, services: Services, tariff: Tariff) -> Figures:
    """Return the calls and tokens that the model would take, without asking it.

    `plan.WAY.calls`, `.tokens_in`, `.tokens_out_at_most` and `.cost_at_most` of what the journal does not hold; a
    request that is equal in two ways is in both, though it is asked once.
    """
    figures: Figures = {}
    for way, asked in _ways(setting).items():
        plans: list[Plan] = []
        planning(services, setting.embedder, plans, tariff)(answering.answer_all(asked))
        figures |= plan_figures(f"plan.{way}", by_purpose(plans).values())
    return figures


def _answerable(setting: Setting) -> Sequence[HopQuestion]:
    found = [question for question in setting.split.questions if question.answers]
    if not found:
        raise ParameterError("answers", setting.split.name, "rows of questions with accepted `answers`, for --llm")
    return found


def _ways(setting: Setting) -> Mapping[str, Mapping[str, Step[answering.ShortAnswer]]]:
    """Return by way and question the step that answers it, not yet begun."""
    questions = _answerable(setting)
    firsts = dict(zip((question.id for question in setting.split.questions), setting.first[HYBRID], strict=True))
    chunks = {chunk.id: chunk for chunk in setting.split.chunks}
    setting.tell("walking, for the chains to read")
    how = graphs.GraphSearch(walk=WALK, scorer=feature_scorer(setting), on_graph_error="raise")
    pairs = [(question, firsts[question.id]) for question in questions]
    results, _ = walked(pairs, how, setting.embedder, setting.graph, READ)
    chains = {question.id: result.chains for question, result in zip(questions, results, strict=True)}
    gold = {question.id: [chunks[at] for at in question.evidence if at in chunks] for question in questions}
    listed = {question.id: firsts[question.id].top(READ).hits for question in questions}

    def read(
        found: Mapping[str, Sequence[answering.Chained]], way: answering.ChainFormat
    ) -> dict[str, Step[answering.ShortAnswer]]:
        reading = answering.ChainReading(format=way)
        return {
            question.id: answering.chain_answer(question.text, found[question.id], reading) for question in questions
        }

    return {
        NO_RETRIEVAL: {question.id: answering.answer_without_retrieval(question.text) for question in questions},
        HYBRID: read(listed, "chain"),
        **{way: read(chains, way) for way in FORMATS},
        GOLDEN: read(gold, "chain"),
    }


def _figures_of(way: str, scores: SquadScores) -> Figures:
    figures: Figures = {f"n_unanswered.{way}": len(scores.unanswered)}
    for measure in MEASURES:
        figures |= score_figures(measure, way, getattr(scores, measure))
    return figures


PAIRS = (
    *((method, HYBRID) for method in METHODS if method != HYBRID),
    (OVER_GRAPH, LIBRARY),
    (OVER_GRAPH, "walk"),
    ("walk", "scorer_only"),
    ("walk", "walk_untrained"),
    ("walk_untrained", "walk_untrained_scorer_only"),
    ("walk", "paper_trained"),
    ("paper_fine_tuned", "paper_trained"),
)


def run(
    data: Path,
    *,
    embedder: Embedder,
    methods: Sequence[str] = USUAL,
    k: Sequence[int] = CUTOFFS,
    questions: int | None = None,
    cache: Path | None = None,
    train_on: Path | None = None,
    scorer: graphs.FeatureScorer | None = None,
    tuning: Tuning | None = None,
    studies: Sequence[str] = (),
    answers: Callable[[Setting], Mapping[str, float]] | None = None,
    tell: Tell = silent,
) -> Figures:
    """Ask the questions of the dev split of a folder, each of the whole corpus, by every method.

    Args:
        data: a folder of the layout of `graph_data`.
        embedder: of passages and questions.
        methods: of `METHODS`.
        k: the cutoffs of recall.
        questions: ask only so many.
        cache: folder in which vectors are kept between runs.
        train_on: folder whose train split scorers are trained on, where a method trains one; `data` by default.
        scorer: of the methods "walk" and "scorer_only"; the shipped one by default.
        tuning: of the method "paper_fine_tuned", which is left out without it.
        studies: of `STUDIES`.
        answers: lets a model answer, and returns figures of that, see `answered`; no model is asked by default.
        tell: is told how far the run is.

    Returns:
        In percent `recall_at_K.METHOD` (mean share of a question's evidence among the first K) and `all_at_5.METHOD`
        (share of questions with all of it among the first 5), with `.low` and `.high` before the method, the ends of
        their 95% bootstrap intervals; `difference.…` of each method to "hybrid", of a walk to its scorer without the
        graph, and of the trained walk to the others, see `differences_of`; `METHOD_ms_p50` and `METHOD_ms_p95`,
        milliseconds of processor time of a walk, its first ranking and its vectors given, of which `walk_ms_p50` is
        the library's own; `node_seconds` (keywords and names), `graph_seconds` (all else);
        `skipped.METHOD` is 1 where what it needs is not here; of studies see `_study`;
        `n_passages`, `n_questions`, `n_unknown` (pieces of evidence that are not in the corpus, never found).

    Raises:
        ParameterError: the folder has no dev split, a method is not known, or a cutoff is below 1.
    """
    _check(methods, k, studies)
    split = read_split(data, DEV, questions)
    tell(f"{split.name}: {len(split.chunks):,} passages, {len(split.questions):,} questions")
    setting = setting_of(
        split,
        KeptVectors(embedder, cache, tell),
        trained_on=train_on or data,
        scorer=scorer,
        tuning=tuning,
        k=max(*k, 5),
        tell=tell,
    )
    figures: Figures = {
        "n_passages": len(split.chunks),
        "n_questions": len(split.questions),
        "n_unknown": split.unknown,
    }
    found: dict[str, Results] = {}
    for method in dict.fromkeys(methods):
        start = perf_counter()
        try:
            found[method] = results_of(split.questions, METHODS[method](setting), k)
        except MethodNotAvailable as why:
            figures[f"skipped.{method}"] = 1
            tell(f"without {method}: {why}")
            continue
        figures |= figures_of(method, found[method])
        reached = figures[f"recall_at_5.{method}"]
        tell(f"{method}: recall at 5 {reached:.1f}, {perf_counter() - start:.1f} s")
    for study in dict.fromkeys(studies):
        figures |= STUDIES[study](setting)
    if answers is not None:
        figures |= answers(setting)
    for method, times in setting.times.items():
        figures |= percentiles(f"{method}_ms", times)
    return figures | differences_of(found, PAIRS) | setting.figures


def _check(methods: Sequence[str], k: Sequence[int], studies: Sequence[str]) -> None:
    for option, given, known in (("methods", methods, METHODS), ("studies", studies, STUDIES)):
        for name in given:
            if name not in known:
                raise ParameterError(option, name, f"of {', '.join(known)}")
    if not methods or not k or min(k) < 1:
        raise ParameterError("methods and k", (tuple(methods), tuple(k)), "at least one method and one cutoff >= 1")


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("graph")
@grouped
def command(
    *,
    data: Annotated[Path, typer.Option(help="A folder with dev_corpus and dev_questions, .jsonl or .jsonl.gz.")],
    embedder: Annotated[
        str, typer.Option(help="static, minilm, or the name or path of a sentence-transformers model.")
    ] = STATIC,
    methods: Annotated[str, typer.Option(help="Which, between commas.")] = ",".join(USUAL),
    k: Annotated[str, typer.Option("--k", help="Cutoffs of recall.")] = ",".join(map(str, CUTOFFS)),
    size: Annotated[
        list[str] | None, typer.Option(help="questions=NUMBER: ask only so many; train=NUMBER: fine-tune on so many.")
    ] = None,
    train_on: Annotated[
        Path | None, typer.Option(help="A folder whose train split scorers are trained on [that of --data].")
    ] = None,
    scorer: Annotated[
        Path | None,
        typer.Option(help="A file of scripts/train_walk_scorer.py, for walk and scorer_only [the shipped]."),
    ] = None,
    fine_tune: Annotated[
        bool, typer.Option("--fine-tune", help=f"Also {TUNED}: train the encoder of --embedder with the scorer.")
    ] = False,
    epochs: Annotated[int | None, typer.Option(min=1, help="Of --fine-tune [1].")] = None,
    studies: Annotated[str, typer.Option(help=f"Which, of {','.join(STUDIES)}.")] = "",
    cache: Annotated[Path | None, typer.Option(help="A folder in which vectors are kept between runs.")] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Let this model answer, from chains in three orders, from gold, from nothing."
        ),
    ] = None,
    asking: ModelOptions,
    plan: options.OnlyPlan = False,
    plots: Annotated[
        Path | None, typer.Option(help="A folder to draw pictures into, of the methods and of each study.")
    ] = None,
    json_file: options.JsonFile = None,
) -> None:
    """Ask questions of several hops, each of the whole corpus: JSON to a file or stdout, the rest to stderr.

    With --llm replies are kept in the journal: the same command again goes on where it stopped, and pays for nothing
    twice. The key is read from CATENA_API_KEY or OPENAI_API_KEY.
    """
    console = Console(stderr=True)
    tell = options.teller("graph", console)
    with options.errors_told(console):
        check_targets(json_file, plots)
        sizes = options.sizes_of(size or [], ("questions", "train"))
        cutoffs, chosen = _cutoffs(k), names_in([methods, *([TUNED] if fine_tune else [])])
        name, model = embedder_named(embedder)
        figures: dict[str, float | str] = {"about.data": data.resolve().name, "about.embedder": name}
        if not fine_tune and (epochs is not None or "train" in sizes):
            raise ProblemError("--epochs and --size train=NUMBER say how to fine-tune", "also --fine-tune")
        tuning = None
        if fine_tune:
            tuning = Tuning(model=model_named(embedder), epochs=epochs or 1, questions=sizes.get("train"))
        asking.require(llm, plan=plan)
        figures |= {} if llm is None else {"about.model": llm}
        tariff = asking.tariff() if plan else None
        with options.services_of(llm, asking, dry=plan) as services:
            answers = (
                partial(answered, services=services)
                if tariff is None
                else partial(planned, services=services, tariff=tariff)
            )
            figures |= run(
                data,
                embedder=model,
                methods=chosen,
                k=cutoffs,
                questions=sizes.get("questions"),
                cache=cache,
                train_on=train_on,
                scorer=None if scorer is None else graphs.FeatureScorer.load(scorer),
                tuning=tuning,
                studies=names_in([studies]),
                answers=None if llm is None else answers,
                tell=tell,
            )
        measured = [method for method in chosen if f"recall_at_5.{method}" in figures]
        for picture in draw(figures, measured, plots) if plots is not None else ():
            tell(f"drew {picture}")
    console.print(by_method(figures, measured, cutoffs))
    options.write_figures(figures, json_file)


def by_method(figures: Mapping[str, float | str], methods: Sequence[str], cutoffs: Sequence[int]) -> Table:
    """Return a line for each method: its figures in percent, and what it has over hybrid at 5."""
    passages, questions = figures["n_passages"], figures["n_questions"]
    title = (
        f"{figures['about.data']}, {figures['about.embedder']}: {questions:,} questions over {passages:,} passages"
    )
    measures = [*(f"recall_at_{k}" for k in sorted({*cutoffs, 5})), "all_at_5"]
    shown = Table("percent", *(measure.replace("_", " ") for measure in measures), f"over {HYBRID} at 5", title=title)
    for method in methods:
        key = f"difference.recall_at_5.{method}-{HYBRID}"
        over = (
            f"{figures[key]:+.1f} [{figures[f'{key}.low']:+.1f}, {figures[f'{key}.high']:+.1f}]"
            if key in figures
            else ""
        )
        shown.add_row(method, *(f"{figures[f'{measure}.{method}']:.1f}" for measure in measures), over)
    return shown


def _cutoffs(given: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in names_in([given]))
    except ValueError:
        raise ParameterError("k", given, "whole numbers between commas") from None
