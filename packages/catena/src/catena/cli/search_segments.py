"""`catena search --segments`: a question to segments, each with its worth, citation and header, and to why these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from catena.cli.console import write_json
from catena.cli.failures import ProblemError
from catena.cli.llm_options import CallOptions
from catena.cli.notices import stands_nowhere, tell_degraded, tell_unknown
from catena.cli.segment_options import QueriesName, SegmentChoices
from catena.cli.segment_views import (
    check_curve,
    draw_curve,
    no_segment,
    segments_as_json,
    show_segments,
)

if TYPE_CHECKING:
    from catena.library import Library, SegmentSearchOptions
    from catena.retrieval.multi_route import Fusion
    from catena.segments import Extraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the options say of segments, of the model that writes queries, and of what is shown."""

    choices: SegmentChoices
    llm: str | None = None
    asking: CallOptions = field(default_factory=CallOptions)
    explain: bool = False
    curve: Path | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The options that were given, as they are typed."""
        own = {"--llm": self.llm, **self.asking.given, "--explain": self.explain, "--curve": self.curve}
        return (*self.choices.given, *(name for name, value in own.items() if value))

    def check(self, *, whole: bool) -> None:
        """Refuse options that could do nothing, before any work is done.

        Args:
            whole: whether the question is searched whole, without shares for names.

        Raises:
            ProblemError: there is one.
        """
        if self.llm is not None and self.choices.queries is not QueriesName.LLM:
            raise ProblemError("--llm writes queries, and is not asked for any", "--queries llm")
        self.asking.require(self.llm, "--queries llm --llm NAME")
        self.choices.check(model=self.llm, whole=whole)
        check_curve(self.curve)


def found_segments(
    question: str,
    path: Path,
    wanted: Wanted,
    options: SegmentSearchOptions,
    fusion: Callable[[Library], Fusion | None],
) -> Extraction:
    """Search the library at a path for segments.

    Args:
        question: as typed.
        path: of the library.
        wanted: how.
        options: routes, filter and names.
        fusion: of the routes, which may depend on the library.
    """
    from catena.library import Library

    with (
        wanted.choices.opened(wanted.llm, wanted.asking) as models,
        Library.open(path, create=False, llm=models.llm, reranker=models.reranker, **models.behaviour) as opened,
    ):
        options["fusion"] = formula = fusion(opened)
        how = wanted.choices.search(
            models.reranker,
            embedder=opened.stats().embedder,
            fusion=formula,
            fused="routes" not in options,
        )
        return opened.segments(question, how, **options)


def tell_segments(question: str, found: Extraction, wanted: Wanted, *, as_json: bool) -> None:
    """Write what was found and why, and draw it.

    Raises:
        ProblemError: nothing was found.
    """
    tell_degraded(found.degraded)
    if found.segments:
        tell_unknown(found)
    if wanted.curve is not None and found.considered.documents:
        draw_curve(found, wanted.curve)
    if as_json:
        write_json(segments_as_json(question, found, explained=wanted.explain))
    else:
        show_segments(found, explained=wanted.explain)
    if not found.segments:
        raise stands_nowhere(found) if found.unknown else no_segment(found)
