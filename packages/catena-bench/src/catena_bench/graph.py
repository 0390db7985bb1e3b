"""Questions of several hops over a whole corpus: what each method finds of the evidence, and what a walk takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

from catena.effects import Embedder
from catena.graph import FeatureScorer
from catena.model import ParameterError
from catena_bench.graph_data import DEV, read_split
from catena_bench.graph_embedding import KeptVectors
from catena_bench.graph_measures import CUTOFFS, Results, differences_of, figures_of, results_of
from catena_bench.graph_methods import METHODS, USUAL
from catena_bench.graph_rankings import HYBRID
from catena_bench.graph_setting import LeftOut, Setting, Tuning, setting_of
from catena_bench.graph_studies import STUDIES, figures_of_study

Figures = dict[str, float]

PAIRS = (
    *((method, HYBRID) for method in METHODS if method != HYBRID),
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
    scorer: FeatureScorer | None = None,
    tuning: Tuning | None = None,
    studies: Sequence[str] = (),
    answers: Callable[[Setting], Mapping[str, float]] | None = None,
    tell: Callable[[str], None] = lambda message: None,
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
        answers: lets a model answer, and returns figures of that, see `graph_answers`; nobody is asked by default.
        tell: is told how far the run is.

    Returns:
        In percent `recall_at_K.METHOD` (mean share of a question's evidence among the first K) and `all_at_5.METHOD`
        (share of questions with all of it among the first 5), with `.low` and `.high` before the method, the ends of
        their 95% bootstrap intervals; `difference.…` of each method to "hybrid", of a walk to its scorer without the
        graph, and of the trained walk to the others, see `differences_of`; `METHOD_ms_p50` and `METHOD_ms_p95`,
        milliseconds of processor time of a walk, its first ranking and its vectors given, of which `walk_ms_p50` is
        the library's own; `node_seconds` (keywords and names), `graph_seconds` (all else);
        `skipped.METHOD` is 1 where what it needs is not here; of studies what `graph_studies.figures_of_study` says;
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
        except LeftOut as why:
            figures[f"skipped.{method}"] = 1
            tell(f"without {method}: {why}")
            continue
        figures |= figures_of(method, found[method])
        reached = figures[f"recall_at_5.{method}"]
        tell(f"{method}: recall at 5 {reached:.1f}, {perf_counter() - start:.1f} s")
    for study in dict.fromkeys(studies):
        figures |= figures_of_study(STUDIES[study](setting))
    if answers is not None:
        figures |= answers(setting)
    return figures | differences_of(found, PAIRS) | setting.figures | _times(setting)


def _check(methods: Sequence[str], k: Sequence[int], studies: Sequence[str]) -> None:
    for option, given, known in (("methods", methods, METHODS), ("studies", studies, STUDIES)):
        for name in given:
            if name not in known:
                raise ParameterError(option, name, f"of {', '.join(known)}")
    if not methods or not k or min(k) < 1:
        raise ParameterError("methods and k", (tuple(methods), tuple(k)), "at least one method and one cutoff >= 1")


def _times(setting: Setting) -> Figures:
    figures: Figures = {}
    for method, times in setting.times.items():
        cuts = quantiles(times, n=20, method="inclusive") if len(times) > 1 else [*times] * 19
        figures |= {f"{method}_ms_p50": median(times), f"{method}_ms_p95": cuts[18]}
    return figures
