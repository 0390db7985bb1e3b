"""Options of commands that find segments: what these are worth, who writes queries, who scores, what scores mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from catena.cli.failures import ProblemError
from catena.cli.llm_options import CallOptions
from catena.cli.rerankers import RERANKER_KEYS, opened_reranker

if TYPE_CHECKING:
    from catena.effects import Services
    from catena.effects.ports import LLM, Reranker
    from catena.retrieval.multi_route import Fusion
    from catena.segments import ExtractionParams
    from catena.segments.calibration import Calibration
    from catena.segments.search import SegmentSearch


class PresetName(StrEnum):
    """Settings that go together."""

    BALANCED = "balanced"
    PRECISION = "precision"
    FIND_ALL = "find_all"


class SelectionName(StrEnum):
    """How segments are chosen under the budget."""

    GREEDY = "greedy"
    OPTIMAL = "optimal"


class LengthName(StrEnum):
    """How the length of a chunk weighs."""

    SCALE = "scale"
    FLOOR = "floor"
    BOOST_ONLY = "boost_only"
    OFF = "off"


class OrderName(StrEnum):
    """In which order segments are shown."""

    SCORE = "score"
    READING = "reading"


class QueriesName(StrEnum):
    """Who says what to search for."""

    QUESTION = "question"
    DECOMPOSITION = "decomposition"
    LLM = "llm"


PresetOption: TypeAlias = Annotated[
    PresetName | None, typer.Option("--preset", help="Settings that go together, not those that the budget gives.")
]
BudgetTokens: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--budget-tokens", min=1, metavar="N", help="Tokens of all segments, headers counted [2000], or of --graph."
    ),
]
SelectionOption: TypeAlias = Annotated[
    SelectionName | None,
    typer.Option("--selection", help="Best segment first, or the best sum of all under the budget [greedy]."),
]
Penalty: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--penalty", min=0.0, max=1.0, metavar="X", help="Taken off each chunk's probability; higher is shorter."
    ),
]
Decay: TypeAlias = Annotated[
    float | None,
    typer.Option("--decay", metavar="RANKS", help="After so many ranks a hit counts a third; lower is less."),
]
Minimum: TypeAlias = Annotated[
    float | None, typer.Option("--minimum", metavar="X", help="Show no segment that is worth less.")
]
LengthAdjustmentOption: TypeAlias = Annotated[
    LengthName | None, typer.Option("--length-adjustment", help="How the length of a chunk weighs.")
]
OrderOption: TypeAlias = Annotated[
    OrderName | None, typer.Option("--order", help="Best segment first, or as the documents go [score].")
]
QueriesOption: TypeAlias = Annotated[
    QueriesName | None,
    typer.Option("--queries", help="Search for the question, its parts, or what a model writes [question]."),
]
CalibrationOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--calibration",
        metavar="FILE.json|cohere|voyage|rank",
        help="What scores say of relevance: a fit, a preset, or only their order [rank].",
    ),
]
RerankOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--rerank",
        metavar="cohere:MODEL|voyage:MODEL|cross-encoder:PATH",
        help="Who scores question and chunk together; keys are read from CO_API_KEY, VOYAGE_API_KEY.",
    ),
]

BY_RANK = "rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """What the options named, ready to be asked."""

    llm: LLM | None = None
    reranker: Reranker | None = None
    behaviour: Mapping[str, Any] = field(default_factory=dict)

    @property
    def services(self) -> Services:
        """Who writes an answer, and how it is asked."""
        from catena.effects import Services

        return Services(llm=self.llm, **self.behaviour)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentChoices:
    """What the options say about segments; None where one was not given."""

    preset: PresetName | None = None
    budget_tokens: int | None = None
    selection: SelectionName | None = None
    penalty: float | None = None
    decay: float | None = None
    minimum: float | None = None
    length_adjustment: LengthName | None = None
    order: OrderName | None = None
    queries: QueriesName | None = None
    calibration: str | None = None
    rerank: str | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The options that were given, as they are typed."""
        named = (each.name for each in fields(self) if getattr(self, each.name) is not None)
        return tuple(f"--{name.replace('_', '-')}" for name in named)

    @property
    def fitted(self) -> Path | None:
        """The file of the calibration, None where a fixed rule is taken."""
        fixed = self.calibration in (None, BY_RANK, *RERANKER_KEYS)
        return None if fixed or self.calibration is None else Path(self.calibration)

    def check(self, *, model: str | None, whole: bool, naming: str = "--llm NAME") -> None:
        """Refuse options that could do nothing.

        Args:
            model: name of the language model, if one was named.
            whole: whether questions are searched whole, without shares for names.
            naming: the option that names it.

        Raises:
            ProblemError: there is one.
        """
        if self.queries is QueriesName.LLM and model is None:
            raise ProblemError("--queries llm needs the name of a model", naming)
        kind = self._reranker_kind
        if self.calibration in RERANKER_KEYS and self.calibration != kind:
            what = f"--calibration {self.calibration} was made for scores of {self.calibration}'s rerankers"
            raise ProblemError(what, f"--rerank {self.calibration}:MODEL, or --calibration rank")
        if self.fitted is not None and not self.fitted.is_file():
            raise ProblemError(
                f"--calibration {self.fitted}: there is no such file",
                "cohere, voyage, rank, or a file that `catena calibrate` wrote",
            )
        if self.fitted is not None and kind is None and not whole:
            what = "a calibration of fused scores is for questions searched whole: shares for names have no scores"
            raise ProblemError(what, "--no-names with it, or --rerank")

    @property
    def _reranker_kind(self) -> str | None:
        return None if self.rerank is None else self.rerank.partition(":")[0]

    @contextmanager
    def opened(self, model: str | None, asking: CallOptions) -> Iterator[Models]:
        """Open what the options name, before any work is done; close it in the end.

        Raises:
            ProblemError: there is no key, or no such reranker.
            MissingExtraError: the package of one is not installed.
        """
        with ExitStack() as stack:
            llm = None if model is None else stack.enter_context(asking.opened_llm(model))
            reranker = None if self.rerank is None else opened_reranker(self.rerank)
            if isinstance(reranker, AbstractContextManager):
                stack.enter_context(reranker)
            yield Models(llm=llm, reranker=reranker, behaviour=asking.behaviour)

    def _adjust(self, params: ExtractionParams) -> ExtractionParams:
        """Return settings with those that were given, whatever the others follow from."""
        given: dict[str, Any] = {
            "overall_max_tokens": self.budget_tokens, "selection": self.selection,
            "irrelevance_penalty": self.penalty, "decay_rate": self.decay, "minimum_value": self.minimum,
            "length_adjustment": self.length_adjustment, "order": self.order,
        }  # fmt: skip
        plain = {name: getattr(value, "value", value) for name, value in given.items() if value is not None}
        return replace(params, **plain)

    def search(
        self, reranker: Reranker | None, *, embedder: str, fusion: Fusion | None = None, fused: bool = True
    ) -> SegmentSearch:
        """Return how the library is to find segments.

        Args:
            reranker: as opened.
            embedder: identity of the library's embedding model.
            fusion: of the routes; None for the usual one.
            fused: whether all routes are asked.

        Raises:
            CalibrationError: the calibration is of other scores than these.
            ProblemError: these scores cannot be calibrated.
        """
        from catena.segments import preset
        from catena.segments.search import SegmentSearch

        usual = SegmentSearch()
        return SegmentSearch(
            extraction=None if self.preset is None else preset(self.preset.value),
            budget_tokens=self.budget_tokens or usual.budget_tokens,
            adjust=self._adjust,
            rerank=reranker is not None,
            calibration=self._calibration(reranker, embedder, fusion, fused),
            queries_by=(self.queries or QueriesName.QUESTION).value,
            never_empty=self.minimum is None,  # who gives a minimum means it
        )

    def _calibration(
        self, reranker: Reranker | None, embedder: str, fusion: Fusion | None, fused: bool
    ) -> Calibration:
        from catena.retrieval.fusion import ScoreFusion
        from catena.segments.artefact import fused_scores_of, load
        from catena.segments.calibration import COHERE, VOYAGE, Constant

        if self.fitted is None:
            return {"cohere": COHERE, "voyage": VOYAGE}.get(self.calibration or BY_RANK, Constant())
        if reranker is not None:
            return load(self.fitted, model=reranker.identity).calibration
        usual = ScoreFusion() if fusion is None else fusion
        if not fused or not isinstance(usual, ScoreFusion):
            what = "a calibration of fused scores needs the scores of all routes, fused"
            raise ProblemError(what, "the same without --route and --fusion rank")
        scores = fused_scores_of(embedder, alpha=usual.alpha, beta=usual.beta)
        return load(self.fitted, model=scores).calibration


def check_kind(segments: bool, about_segments: Sequence[str], about_hits: Mapping[str, object]) -> None:
    """Raise where an option is about passages and segments were asked for, or the other way round.

    Args:
        segments: whether they were.
        about_segments: options that were given and act on segments only.
        about_hits: options that act on single chunks only, and their values.

    Raises:
        ProblemError: there is one.
    """
    for option in () if segments else about_segments:
        raise ProblemError(f"{option} is about segments", "--segments with it")
    for option in (name for name, value in about_hits.items() if value and segments):
        raise ProblemError(f"{option} is about passages, and segments are asked for", "--budget-tokens for how much")
