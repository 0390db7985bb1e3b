"""Declare the options of commands that index files: reading, cutting, views, and models that are asked."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from catena.cli.console import err, tell
from catena.cli.failures import ProblemError, refuse
from catena.cli.llm_options import JOURNAL, ModelOptions, stoppable, write_plan
from catena.cli.options import Given, NoHiddenText, ReadingChoices, fields_of, flag, listed, option
from catena.structure.segmentation import SegmentOptions

if TYPE_CHECKING:
    from catena.effects import Journal, Services
    from catena.enrichment.entities import Detector
    from catena.enrichment.views import ViewMaker
    from catena.library import Library
    from catena.library.pipeline import FixedLength, Preparation
    from catena.structure.chunking import ChunkOptions, SectionChunkOptions
    from catena.structure.embedding_segmentation import EmbeddingOptions

MadeBy: TypeAlias = Literal["offline", "llm"]
Chunking: TypeAlias = Literal["passages", "sections", "fixed"]

MADE = ("keywords", "summary", "questions")
"""Kinds of view that the command line makes."""
BY_MODEL_ONLY = "questions"

ViewKinds: TypeAlias = Annotated[
    list[str] | None, option("KIND,…", "Make views of each chunk: keywords, summary, questions.", "--views")
]
Language: TypeAlias = Annotated[str | None, option("WORD", "Language of what models write [that of the document].")]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """The options that decide how files become chunks and views; see `grouped`."""

    reading: ReadingChoices = field(default_factory=ReadingChoices)
    no_hidden_text: NoHiddenText = False
    figures: Annotated[
        bool, flag("--figures", "Crop the figures of PDFs and index them; pypdfium2 reads (extra fast-pdf).")
    ] = False
    caption_model: Annotated[
        str | None, option("MODEL", "Let this OpenAI-compatible model describe each figure.")
    ] = None
    llm: Annotated[
        str | None, option("MODEL", "The OpenAI-compatible model; other options say what it is asked for.")
    ] = None
    asking: ModelOptions = field(default_factory=ModelOptions)
    format_llm: Annotated[bool, flag("--format-llm", "Let the model write the Markdown, checked page by page.")] = (
        False
    )
    entities_llm: Annotated[
        bool, flag("--entities-llm", "Let the model find the critical entities of each chunk.")
    ] = False
    segmentation: Annotated[
        Literal["embedding", "llm"] | None,
        typer.Option(help="Divide documents by meaning, not by their headings, with the embedding or the model."),
    ] = None
    divided: Annotated[Given, fields_of(SegmentOptions, only_with="--segmentation", under="--segment-under")] = field(
        default_factory=dict
    )
    context: Annotated[
        MadeBy | None,
        typer.Option(help="Make titles and summaries of documents and sections, without a model or with it."),
    ] = None
    chunks: Annotated[
        Chunking, typer.Option(help="Find passages of sections, whole sections (MC-indexing), or fixed lengths.")
    ] = "passages"
    max_tokens: Annotated[
        int | None, option("N", "Most tokens of a passage [320], or of a fixed length [300].", min=1)
    ] = None
    across_sections: Annotated[bool, flag("--across-sections", "Let fixed lengths go on across headings.")] = False
    views: ViewKinds = None
    views_by: Annotated[MadeBy | None, typer.Option(help="Make the views without a model or with it [offline].")] = (
        None
    )
    language: Language = None
    spacy: Annotated[
        str | None, option("MODEL", "Find critical entities with this spaCy pipeline (extra spacy).")
    ] = None
    expert: Annotated[Path | None, option("FILE", "Critical terms, one a line: term, aliases, weight.")] = None
    embed_tables: Annotated[
        Literal["whole", "definition"],
        typer.Option(help="Embed whole tables, or their titles and the names of their rows and columns."),
    ] = "whole"

    @property
    def password(self) -> str | None:
        """The password of encrypted PDFs."""
        return self.reading.password

    def models(self, *, graph_keywords: MadeBy | None = None, plan: bool = False) -> Models:
        """Return which models are asked, and for what.

        Args:
            graph_keywords: who finds the keywords by which a graph joins; None is offline.
            plan: whether nothing will be asked.

        Raises:
            ProblemError: an option could do nothing.
        """
        models = Models(options=self, graph_keywords=graph_keywords)
        models.check(plan=plan)
        return models

    def preparation(self) -> Preparation:
        """Return how files become chunks, but for what models do; see `Models.prepared`.

        Raises:
            ProblemError: an option could do nothing.
        """
        from catena.enrichment.term_selection import CriticalTermOptions, ExpertTerms

        figures = self.figures or self.caption_model is not None
        terms: Given = {} if self.expert is None else {"expert": ExpertTerms.read(self.expert)}
        return replace(
            self.reading.preparation(figures=figures, hidden_text=not self.no_hidden_text),
            chunks=chunking(self.chunks, self.max_tokens, self.across_sections),
            embed_tables=self.embed_tables,
            terms=CriticalTermOptions(**terms),
        )


def chunking(
    name: Chunking, max_tokens: int | None, across_sections: bool
) -> ChunkOptions | SectionChunkOptions | FixedLength:
    """Return what a chunk is, as the options say.

    Raises:
        ProblemError: an option could do nothing.
    """
    from catena.library.pipeline import FixedLength
    from catena.structure.chunking import ChunkOptions, SectionChunkOptions

    if across_sections and name != "fixed":
        raise ProblemError("--across-sections is about fixed lengths", "--chunks fixed with it")
    if name == "sections":
        if max_tokens is not None:
            raise ProblemError(
                "--max-tokens cuts nothing: a section is one chunk, whatever its length",
                "--chunks passages, or --chunks fixed",
            )
        return SectionChunkOptions()
    if name == "fixed":
        tokens = {} if max_tokens is None else {"tokens": max_tokens}
        return FixedLength(**tokens, inside_sections=not across_sections)
    if max_tokens is None:
        return ChunkOptions()
    return ChunkOptions(max_tokens=max_tokens, min_tokens=min(max_tokens, ChunkOptions().min_tokens))


def made_kinds(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the kinds of view to be made.

    Raises:
        ProblemError: one of them cannot be made, or none is named.
    """
    kinds = listed(given)
    for kind in (kind for kind in kinds if kind not in MADE):
        raise ProblemError(f"--views {kind}: there is no such kind of view", ", ".join(MADE))
    if given and not kinds:
        raise ProblemError("--views names no kind of view", "--views keywords,summary")
    return kinds


def check_makers(kinds: Collection[str], by: MadeBy | None, option: str = "--views-by") -> None:
    """Refuse views that cannot be made, and a maker that has nothing to make.

    Args:
        kinds: of views.
        by: who makes them, None where that was not said.
        option: that names who.

    Raises:
        ProblemError: a model is needed, or `by` could do nothing.
    """
    if by is not None and not kinds:
        raise ProblemError(f"{option} says who makes views", "--views keywords,summary with it")
    if BY_MODEL_ONLY in kinds and by != "llm":
        raise ProblemError(f"--views {BY_MODEL_ONLY}: only a model writes these", f"{option} llm --llm NAME")


def makers_of(kinds: Sequence[str], by: MadeBy | None, language: str = "") -> tuple[ViewMaker, ...]:
    """Return the makers of these kinds of view.

    Args:
        kinds: in the order in which they are made.
        by: who; None is offline.
        language: of what a model writes, in words; "" is the content's own.
    """
    from catena.enrichment.view_makers import Keywords, Questions, Summaries

    who = by or "offline"
    makers: dict[str, ViewMaker] = {
        "keywords": Keywords(by=who, language=language),
        "summary": Summaries(by=who, language=language),
        "questions": Questions(language=language),
    }
    return tuple(makers[kind] for kind in kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models that the options of `catena index` name, and what each is asked for.

    Attributes:
        options: as given.
        graph_keywords: who finds the keywords by which the graph joins; None is offline, and makes no view of them.
    """

    options: IndexOptions
    graph_keywords: MadeBy | None = None

    @property
    def asking(self) -> ModelOptions:
        """The address of the models, their prices and cap, and the journal of their replies."""
        return self.options.asking

    @property
    def asks_server(self) -> bool:
        """Say if replies cost money."""
        return self.options.llm is not None or self.options.caption_model is not None

    @property
    def kept_in(self) -> Path | None:
        """The file that keeps the replies, None where none are kept."""
        return self.asking.journal or (JOURNAL if self.asks_server else None)

    def check(self, *, plan: bool) -> None:
        """Refuse options that could do nothing.

        Raises:
            ProblemError: there is one.
        """
        given = self.options
        by_llm = {
            "--segmentation": given.segmentation, "--context": given.context, "--views-by": given.views_by,
            "--graph-keywords": self.graph_keywords,
        }  # fmt: skip
        work = {
            "--format-llm": given.format_llm, "--entities-llm": given.entities_llm,
            **{f"{option} llm": value == "llm" for option, value in by_llm.items()},
        }  # fmt: skip
        check_makers(made_kinds(given.views), given.views_by)
        if given.llm is None:
            refuse(work, "{} needs the name of a model", "--llm NAME")
        elif not any(work.values()):
            raise ProblemError("--llm needs to be told what for", ", ".join(work))
        if given.divided and given.segmentation is None:
            raise ProblemError("--segment-under is about sections by meaning", "--segmentation embedding, or llm")
        if given.language is not None and "llm" not in (given.context, given.views_by):
            raise ProblemError("--language is obeyed by models only", "--context llm, or --views-by llm, --llm NAME")
        naming = "--llm NAME, or --caption-model NAME"
        replace(self.asking, journal=None).require(given.llm or given.caption_model, naming, plan=plan)
        if self.asking.journal is not None and not (self.asks_server or given.spacy):
            raise ProblemError("--journal keeps the replies of a model", naming)

    def prepared(self, preparation: Preparation) -> Preparation:
        """Return the preparation with what these models are to do."""
        from catena.enrichment.context import ContextOptions
        from catena.enrichment.entities import LLMDetector, RecognizerDetector
        from catena.enrichment.view_makers import GraphKeywords
        from catena.formatting.llm_markdown import FormatOptions

        given, language = self.options, self.options.language or ""
        detectors: list[Detector] = [LLMDetector()] if given.entities_llm else []
        detectors += [RecognizerDetector()] if given.spacy is not None else []
        for_graph = (GraphKeywords(by="llm"),) if self.graph_keywords == "llm" else ()
        views = makers_of(made_kinds(given.views), given.views_by, language if given.views_by == "llm" else "")
        return replace(
            preparation,
            detectors=tuple(detectors),
            format_with_llm=FormatOptions() if given.format_llm else None,
            segmentation=self._segmentation(),
            context=None if given.context is None else ContextOptions(by=given.context, language=language),
            views=(*views, *for_graph),
        )

    def _segmentation(self) -> SegmentOptions | EmbeddingOptions | None:
        from catena.structure.embedding_segmentation import EmbeddingOptions

        if self.options.segmentation is None:
            return None
        kind = SegmentOptions if self.options.segmentation == "llm" else EmbeddingOptions
        return kind(**self.options.divided)


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
            path, preparation=models.prepared(preparation), services=replace(asked, journal=journal)
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
    if models.options.llm is not None:
        llm = stack.enter_context(models.asking.opened_llm(models.options.llm))
    if models.options.caption_model is not None:
        captioner = stack.enter_context(models.asking.opened_captioner(models.options.caption_model))
    if models.options.spacy is not None:
        from catena.backends.spacy_entities import SpacyRecognizer

        recognizer = SpacyRecognizer(models.options.spacy)
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
    from catena.cli.rendering import number

    with err().status("reading the files …"):
        found, outcomes = library.plan([*paths], password=password, tariff=models.asking.spending.tariff())
    unread = [outcome for outcome in outcomes if outcome.state == "failed"]
    for outcome in unread:
        tell(f"not read: {outcome.source}: {outcome.reason}", "red")
    unchanged = sum(outcome.state == "skipped" for outcome in outcomes)
    remarks = (
        f"{number(len(outcomes), 'file')}, {unchanged} of them skipped.",
        f"{number(found.kept, 'answer')} are in the journal already." if found.kept else "",
        "What is asked of sections that are not made yet is an estimate." if models.options.segmentation else "",
        "An answer that is not faithful is asked for once again; that is not counted."
        if models.options.format_llm
        else "",
    )
    counts = {"files": len(outcomes), "skipped": unchanged, "failed": len(unread)}
    write_plan(found, models.asking.spending, counts, remarks, as_json=as_json)
