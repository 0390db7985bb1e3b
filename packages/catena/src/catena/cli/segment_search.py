"""Search for segments: options, rerankers, the search, and how segments look in a terminal and as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from catena.cli.console import out, picked, printable, tell_written, write_json, write_text
from catena.cli.failures import SOME_FAILED, ProblemError, check_targets, refuse, stands_nowhere, tell_found
from catena.cli.llm_options import CallOptions
from catena.cli.options import FieldsOf, Given, flag, option, picture
from catena.model import shown_text
from catena.model.errors import needs
from catena.segments.params import ExtractionParams

if TYPE_CHECKING:
    from rich.console import RenderableType

    from catena.effects import Services
    from catena.effects.ports import Reranker
    from catena.library import Library, SegmentSearchOptions
    from catena.retrieval.fusion import Fusion
    from catena.segments import Explanation, Extraction, SegmentHit
    from catena.segments.calibration import Calibration
    from catena.segments.extraction import Weighed
    from catena.segments.search import SegmentSearch

BY_RANK = "rank"
OTHERS_SHOWN = 20
"""So many chunks that are in no segment are explained in a terminal: a search weighs some hundred."""
RERANKER_KEYS = {"cohere": "CO_API_KEY", "voyage": "VOYAGE_API_KEY"}
"""Service -> the variable of the environment that holds its key."""
RERANKERS = {
    "cohere": ("cohere", "CohereReranker"),
    "voyage": ("voyage", "VoyageReranker"),
    "cross-encoder": ("sentence_transformers", "CrossEncoderReranker"),
}
"""Kind of reranker -> its module in catena.backends and its class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentChoices:
    """The options about segments that every search for them takes."""

    preset: Annotated[
        Literal["balanced", "precision", "find_all"] | None,
        typer.Option(help="Settings that go together, in place of those that follow from the budget."),
    ] = None
    queries: Annotated[
        Literal["question", "decomposition", "llm"] | None,
        typer.Option(help="Search for the question, for its parts, or for queries that a model writes [question]."),
    ] = None
    calibration: Annotated[
        str | None,
        option(
            "FILE.json|cohere|voyage|rank",
            "What scores say about relevance: a fit in a file, a preset, or only their order [rank].",
        ),
    ] = None
    rerank: Annotated[
        str | None,
        option(
            "cohere:MODEL|voyage:MODEL|cross-encoder:PATH",
            "Score question and chunk together; keys are read from CO_API_KEY, VOYAGE_API_KEY.",
        ),
    ] = None

    @property
    def settings(self) -> Given:
        """The settings of the extraction that were given."""
        return {}

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
        if self.queries == "llm" and model is None:
            raise ProblemError("--queries llm needs the name of a model", naming)
        kind = None if self.rerank is None else self.rerank.partition(":")[0]
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

    @contextmanager
    def opened(self, model: str | None, asking: CallOptions) -> Iterator[Services]:
        """Open what the options name, before any work is done; close it in the end.

        Raises:
            ProblemError: there is no key, or no such reranker.
            MissingExtraError: the package of one is not installed.
        """
        from catena.effects import Services

        with ExitStack() as stack:
            llm = None if model is None else stack.enter_context(asking.opened_llm(model))
            reranker = None if self.rerank is None else opened_reranker(self.rerank)
            if isinstance(reranker, AbstractContextManager):
                stack.enter_context(reranker)
            yield Services(llm=llm, reranker=reranker, **asking.behaviour)

    def search(
        self,
        reranker: Reranker | None,
        *,
        embedder: str,
        budget_tokens: int | None,
        fusion: Fusion | None = None,
        fused: bool = True,
    ) -> SegmentSearch:
        """Return how the library is to find segments.

        Args:
            reranker: as opened.
            embedder: identity of the library's embedding model.
            budget_tokens: of all segments; None for the usual.
            fusion: of the routes; None for the usual one.
            fused: whether all routes are asked.

        Raises:
            CalibrationError: the calibration is of other scores than these.
            ProblemError: these scores cannot be calibrated.
        """
        from catena.segments import preset
        from catena.segments.search import SegmentSearch

        settings, budget = dict(self.settings), dict[str, Any]()
        if budget_tokens is not None:
            settings["overall_max_tokens"] = budget["budget_tokens"] = budget_tokens
        return SegmentSearch(
            extraction=None if self.preset is None else preset(self.preset),
            adjust=lambda params: replace(params, **settings),
            rerank=reranker is not None,
            calibration=self._calibration(reranker, embedder, fusion, fused),
            queries_by=self.queries or "question",
            never_empty="minimum_value" not in settings,  # who gives a minimum means it
            **budget,
        )

    def _calibration(
        self, reranker: Reranker | None, embedder: str, fusion: Fusion | None, fused: bool
    ) -> Calibration:
        from catena.retrieval.fusion import ScoreFusion
        from catena.segments.calibration import COHERE, VOYAGE, Constant
        from catena.segments.fitting import fused_scores_of, load

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSettings(SegmentChoices):
    """Every option of `catena search` about segments, also of the model that writes queries, and of the display."""

    worth: Annotated[
        Given,
        FieldsOf(
            ExtractionParams, says_default=False, irrelevance_penalty="--penalty", decay_rate="--decay",
            minimum_value="--minimum", length_adjustment="--length-adjustment",
        ),
    ] = field(default_factory=dict)  # fmt: skip
    taking: Annotated[Given, FieldsOf(ExtractionParams, selection="--selection", order="--order")] = field(
        default_factory=dict
    )
    llm: Annotated[str | None, option("MODEL", "The OpenAI-compatible model for --queries llm.")] = None
    asking: CallOptions = field(default_factory=CallOptions)
    explain: Annotated[bool, flag("--explain", "Show what every chunk is worth, and why.")] = False
    curve: Annotated[Path | None, picture("Draw what the chunks are worth")] = None

    @property
    def settings(self) -> Given:
        """The settings of the extraction that were given."""
        return {**self.worth, **self.taking}

    def check_all(self, *, whole: bool) -> None:
        """Refuse options that could do nothing, before any work is done.

        Args:
            whole: whether the question is searched whole, without shares for names.

        Raises:
            ProblemError: there is one.
            ParameterError: a setting is outside its domain.
            MissingExtraError: a picture is asked for, and catena-view is not installed.
        """
        ExtractionParams(**self.settings)
        if self.llm is not None and self.queries != "llm":
            raise ProblemError("--llm writes queries, and is not asked for any", "--queries llm")
        self.asking.require(self.llm, "--queries llm --llm NAME")
        self.check(model=self.llm, whole=whole)
        check_targets(pictures=[self.curve])


def check_kind(segments: bool, about_segments: Sequence[str], about_hits: Mapping[str, object]) -> None:
    """Raise where an option is about passages and segments were asked for, or the other way round.

    Args:
        segments: whether they were.
        about_segments: options that were given and act on segments only.
        about_hits: options that act on single chunks only, and their values.

    Raises:
        ProblemError: there is one.
    """
    if segments:
        what = "{} is about passages, and segments are asked for"
        refuse(about_hits, what, "--budget-tokens for how much")
    refuse(dict.fromkeys(() if segments else about_segments, True), "{} is about segments", "--segments with it")


def opened_reranker(named: str) -> Reranker:
    """Return the reranker `cohere:MODEL`, `voyage:MODEL` or `cross-encoder:PATH`; its key is in the environment.

    Raises:
        ProblemError: there is no such kind, no model, or no key.
        MissingExtraError: its package is not installed.
        ServiceError: the model cannot be loaded.
    """
    kind, _, model = named.partition(":")
    if kind not in RERANKERS:
        raise ProblemError(f"--rerank knows no {kind!r}", "--rerank cohere:MODEL, voyage:MODEL or cross-encoder:PATH")
    if not model:
        raise ProblemError(
            f"--rerank {kind} needs a model", f"--rerank {kind}:{'MODEL' if kind in RERANKER_KEYS else 'PATH'}"
        )
    if kind in RERANKER_KEYS and not os.environ.get(RERANKER_KEYS[kind], "").strip():
        raise ProblemError(f"there is no key for {kind}", f"setting {RERANKER_KEYS[kind]} in the environment")
    module, name = RERANKERS[kind]
    made: Reranker = getattr(import_module(f"catena.backends.{module}"), name)(model)
    return made


def segments_of(
    question: str,
    path: Path,
    choices: SegmentSettings,
    options: SegmentSearchOptions,
    *,
    budget_tokens: int | None,
    fusion: Callable[[Library], Fusion | None],
) -> Extraction:
    """Search the library at a path for segments.

    Args:
        question: as typed.
        path: of the library.
        choices: how.
        options: routes, filter and names.
        budget_tokens: of all segments; None for the usual.
        fusion: of the routes, which may depend on the library.
    """
    from catena.library import Library

    with (
        choices.opened(choices.llm, choices.asking) as models,
        Library.open(path, create=False, services=models) as opened,
    ):
        options["fusion"] = formula = fusion(opened)
        how = choices.search(
            models.reranker,
            embedder=opened.stats().embedder,
            budget_tokens=budget_tokens,
            fusion=formula,
            fused="routes" not in options,
        )
        return opened.segments(question, how, **options)


def tell_segments(question: str, found: Extraction, choices: SegmentSettings, *, as_json: bool) -> None:
    """Write what was found and why, and draw it.

    Raises:
        ProblemError: nothing was found.
    """
    tell_found(found, as_json=as_json)
    if choices.curve is not None and found.considered.documents:
        with needs("catena-view"):
            from catena_view.plots.segments import relevance_curve

        relevance_curve(found, choices.curve, queries=found.asked)
        tell_written(choices.curve)
    if as_json:
        write_json(segments_as_json(question, found, explained=choices.explain))
    else:
        show_segments(found, explained=choices.explain)
    if not found.segments:
        raise stands_nowhere(found) if found.unknown else no_segment(found)


def no_segment(found: Extraction) -> ProblemError:
    """Return that no segment was found, and whether that is for want of hits or of worth."""
    if not found.considered.documents:
        hint = "other words, or `catena status` to see what is there"
        return ProblemError("nothing was found", hint, SOME_FAILED)
    budget = found.params.overall_max_tokens
    room = f" and fits into {budget:,} tokens" if budget is not None else ""
    what = f"no segment is worth at least {found.params.minimum_value:g}{room}"
    hint = "--explain for what each chunk is worth; a lower --minimum or --penalty, or a higher --budget-tokens"
    return ProblemError(what, hint, SOME_FAILED)


def segments_as_json(question: str, found: Extraction, *, explained: bool = False) -> dict[str, Any]:
    """Return segments with all that is known of each; positions are 0-based, pages and lines count from 1."""
    from catena.segments import explain

    return {
        "question": question,
        "queries": found.asked,
        "scale": "value",
        **picked(found, "value params degraded unknown"),
        "segments": [_as_data(rank, hit) for rank, hit in enumerate(found.segments, start=1)],
        **({"explanation": explain(found).as_dict()} if explained else {}),
    }


def _as_data(rank: int, hit: SegmentHit) -> dict[str, Any]:
    from catena.model.places import citation
    from catena.structure.views import segment_header

    return {
        "rank": rank,
        "value": hit.value,
        "citation": citation(hit.segment),
        "header": segment_header(hit.segment),
        **picked(hit, "queries segment"),
    }


def show_segments(found: Extraction, *, explained: bool = False) -> None:
    """Write segments to stdout, and below them, where asked for, what every chunk is worth."""
    from catena.segments import explain

    if len(found.asked) > 1:
        for number, query in enumerate(found.asked, start=1):
            out().print(printable(f"query {number}: {query}", one_line=True), style="dim")
        out().print()
    if found.segments:
        out().print(_listed(found))
    if explained:
        write_text(_explained(explain(found)))


def _explained(explanation: Explanation) -> str:
    """Return the table of what chunks are worth, those of segments and the best of the others, in their order."""
    others = [place for place, each in enumerate(explanation.chunks) if each.segment is None]
    hidden = set(sorted(others, key=lambda place: _standing(explanation.chunks[place]))[OTHERS_SHOWN:])
    chunks = (
        replace(each, document_id=printable(each.document_id, one_line=True), why=printable(each.why, one_line=True))
        for place, each in enumerate(explanation.chunks)
        if place not in hidden
    )
    table = replace(explanation, chunks=tuple(chunks)).table()
    return f"{table}\n… and {len(hidden):,} chunks that are worth no more; --json has all" if hidden else table


def _standing(chunk: Weighed) -> tuple[float, int]:
    """Return what a chunk is sorted by: what it is worth to the query that likes it best, then its best rank."""
    values = [worth.value for worth in chunk.worths if worth.value is not None]
    ranks = [worth.rank for worth in chunk.worths if worth.rank is not None]
    return -max(values, default=-inf), min(ranks, default=sys.maxsize)


def _listed(found: Extraction) -> RenderableType:
    from catena.cli.rendering import cited_lines, ranked
    from catena.structure.views import segment_header

    rows = []
    for hit in found.segments:
        lines = cited_lines(hit.segment)
        if len(found.asked) > 1:
            lines.append(f"  for query {', '.join(str(query + 1) for query in hit.queries)}", style="not bold dim")
        if header := segment_header(hit.segment):
            lines.append(f"\n{printable(header, one_line=True)}", style="not bold dim")
        rows.append((hit.value, lines.append(f"\n{printable(shown_text(hit.segment).strip())}\n", style="not bold")))
    return ranked(rows)
