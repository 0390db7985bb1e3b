"""`catena index` with models: which are asked and for what, what that would cost, and what is kept when it stops."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from catena.cli.console import err, out, write_json
from catena.cli.failures import ProblemError
from catena.cli.llm_options import JOURNAL, ModelOptions, stoppable
from catena.cli.terminal import printable
from catena.cli.view_options import MadeBy, check_makers, makers_of

if TYPE_CHECKING:
    from catena.effects import Journal, Services
    from catena.enrichment.detectors import Detector
    from catena.library import Library
    from catena.library.pipeline import Preparation
    from catena.model import Outcome
    from catena.structure.segment_tree import Under
    from catena.structure.segmentation import EmbeddingOptions, SegmentOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Which models the options of `catena index` name, and for what.

    Attributes:
        llm, caption_model: names, asked as `asking` says.
        format_llm, entities_llm: what `llm` is for: to write the Markdown, to find critical entities.
        segmentation: who divides documents by meaning, "llm" or "embedding"; None leaves them to their headings.
        under_headings: whether printed headings stay, and only what is long below them is divided.
        context: who makes titles and summaries, "llm" or "offline"; None makes none.
        language: of what a model writes of them, in words; None is the document's own.
        views: kinds of view that are made of each chunk.
        views_by: who makes them; None is offline.
        graph_keywords: who finds the keywords by which the graph joins; None is offline, and makes no view of them.
        spacy: name or path of a pipeline that finds critical entities on this machine.
        asking: how models are asked, what they may cost, and where replies are kept.
    """

    llm: str | None = None
    format_llm: bool = False
    entities_llm: bool = False
    segmentation: Literal["embedding", "llm"] | None = None
    under_headings: bool | None = None
    context: Literal["offline", "llm"] | None = None
    language: str | None = None
    views: tuple[str, ...] = ()
    views_by: MadeBy | None = None
    graph_keywords: MadeBy | None = None
    caption_model: str | None = None
    spacy: str | None = None
    asking: ModelOptions = field(default_factory=ModelOptions)

    @property
    def asks_server(self) -> bool:
        """Whether replies cost money."""
        return self.llm is not None or self.caption_model is not None

    @property
    def kept_in(self) -> Path | None:
        """The file that keeps the replies, None where none are kept."""
        return self.asking.journal or (JOURNAL if self.asks_server else None)

    def check(self, *, plan: bool) -> None:
        """Refuse options that could do nothing.

        Raises:
            ProblemError: there is one.
        """
        work = {
            "--format-llm": self.format_llm, "--entities-llm": self.entities_llm,
            "--segmentation llm": self.segmentation == "llm", "--context llm": self.context == "llm",
            "--views-by llm": self.views_by is MadeBy.LLM, "--graph-keywords llm": self.graph_keywords is MadeBy.LLM,
        }  # fmt: skip
        check_makers(self.views, self.views_by)
        for option in (name for name, wanted in work.items() if wanted and self.llm is None):
            raise ProblemError(f"{option} needs the name of a model", "--llm NAME")
        if self.llm is not None and not any(work.values()):
            raise ProblemError("--llm needs to be told what for", ", ".join(work))
        if self.under_headings is not None and self.segmentation is None:
            raise ProblemError("--segment-under is about sections by meaning", "--segmentation embedding, or llm")
        if self.language is not None and not (self.context == "llm" or self.views_by is MadeBy.LLM):
            raise ProblemError("--language is obeyed by models only", "--context llm, or --views-by llm, --llm NAME")
        model = self.llm or self.caption_model
        server = replace(self.asking, journal=None)
        server.require(model, "--llm NAME, or --caption-model NAME", plan=plan)
        if self.asking.journal is not None and not (self.asks_server or self.spacy):
            raise ProblemError("--journal keeps the replies of a model", "--llm NAME, or --caption-model NAME")

    def prepared(self, preparation: Preparation) -> Preparation:
        """Return the preparation with what these models are to do."""
        from catena.enrichment.context import ContextOptions
        from catena.enrichment.detectors import LLMDetector, RecognizerDetector
        from catena.enrichment.graph_keywords import GraphKeywords
        from catena.formatting.llm_markdown import FormatOptions

        detectors: list[Detector] = []
        if self.entities_llm:
            detectors.append(LLMDetector())
        if self.spacy is not None:
            detectors.append(RecognizerDetector())
        for_graph = (GraphKeywords(by="llm"),) if self.graph_keywords is MadeBy.LLM else ()
        views = makers_of(self.views, self.views_by, self._language if self.views_by is MadeBy.LLM else "")
        return replace(
            preparation,
            detectors=tuple(detectors),
            format_with_llm=FormatOptions() if self.format_llm else None,
            segmentation=self._segmentation(),
            context=None if self.context is None else ContextOptions(by=self.context, language=self._language),
            views=(*views, *for_graph),
        )

    @property
    def _language(self) -> str:
        return self.language or ""

    def _segmentation(self) -> SegmentOptions | EmbeddingOptions | None:
        from catena.structure.segmentation import EmbeddingOptions, SegmentOptions

        if self.segmentation is None:
            return None
        under: Under = "headings" if self.under_headings else "document"
        return SegmentOptions(under=under) if self.segmentation == "llm" else EmbeddingOptions(under=under)


@contextmanager
def opened(path: Path, preparation: Preparation, models: Models, *, plan: bool = False) -> Iterator[Library]:
    """Open a library with its models and its journal; a stop by Ctrl-C says what is kept.

    Args:
        path: of the library.
        preparation: how files are read.
        models: what is asked.
        plan: nothing will be asked or written: what is not there is not made.
    """
    from catena.library import Library

    with ExitStack() as stack:
        asked = asked_models(models, stack)
        journal = journal_of(models, stack, plan=plan)
        stack.enter_context(stoppable(journal, "; what was written to the library is kept, too"))
        if plan and not path.exists():
            empty = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="catena-plan-", ignore_cleanup_errors=True)
            )
            path = Path(empty) / "library"
        library = Library.open(
            path,
            preparation=models.prepared(preparation),
            journal=journal,
            captioner=asked.captioner,
            llm=asked.llm,
            recognizer=asked.recognizer,
            budget=asked.budget,
            **models.asking.behaviour,
        )
        yield stack.enter_context(library)


def asked_models(models: Models, stack: ExitStack) -> Services:
    """Return the models that are named, with their budget.

    Args:
        models: their names.
        stack: closes them.

    Raises:
        ProblemError: OpenAI is asked without a key, or there is a cap and no price.
        MissingExtraError: the package of one is not installed.
    """
    from catena.effects import Services

    budget = models.asking.spending.budget()
    llm = captioner = recognizer = None
    if models.llm is not None:
        llm = stack.enter_context(models.asking.opened_llm(models.llm))
    if models.caption_model is not None:
        captioner = stack.enter_context(models.asking.opened_captioner(models.caption_model))
    if models.spacy is not None:
        from catena.backends.spacy_entities import SpacyRecognizer

        recognizer = SpacyRecognizer(models.spacy)
    return Services(llm=llm, captioner=captioner, recognizer=recognizer, budget=budget, **models.asking.behaviour)


def journal_of(models: Models, stack: ExitStack, *, plan: bool = False) -> Journal | None:
    """Return the journal that keeps the replies, None where none are kept; a plan makes none."""
    from catena.effects import Journal

    path = models.kept_in
    if path is None or (plan and not path.exists()):
        return None
    return stack.enter_context(Journal.open(path))


def show_plan(
    library: Library, paths: Sequence[Path], password: str | None, models: Models, *, as_json: bool
) -> None:
    """Write what indexing these files would ask of models; nothing is asked."""
    from catena.cli.parse_llm import usage_as_json, usage_table
    from catena.cli.views import number

    with err().status("reading the files …"):
        found, outcomes = library.plan([*paths], password=password, tariff=models.asking.spending.tariff())
    if found.stopped_by:
        raise ProblemError(f"the plan stopped: {found.stopped_by}", "the same command without --plan")
    unread = [outcome for outcome in outcomes if outcome.state == "failed"]
    _tell_unread(unread)
    unchanged = sum(outcome.state == "skipped" for outcome in outcomes)
    if as_json:
        counts = {"files": len(outcomes), "skipped": unchanged, "failed": len(unread), "kept": found.kept}
        write_json({**counts, **usage_as_json(found, models.asking.spending)})
        return
    out().print(usage_table(found, models.asking.spending))
    told = [f"{number(len(outcomes), 'file')}, {unchanged} of them skipped."]
    told += [f"{number(found.kept, 'answer')} are in the journal already."] * (found.kept > 0)
    told += ["What is asked of sections that are not made yet is an estimate."] * bool(models.segmentation)
    told += ["An answer that is not faithful is asked for once again; that is not counted."] * models.format_llm
    out().print(" ".join(told))


def _tell_unread(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        told = printable(f"not read: {outcome.source}: {outcome.reason}", one_line=True)
        err().print(told, style="red", soft_wrap=True)
