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
from catena.cli.llm_options import JOURNAL, ModelOptions, stoppable
from catena.cli.options import CropFigures, FieldsOf, Given, NoHiddenText, ReadingChoices, flag, listed, option
from catena.effects import Journal, Services
from catena.structure.chunking import ChunkOptions
from catena.structure.segmentation import SegmentOptions

if TYPE_CHECKING:
    from catena.enrichment.entities import Detector
    from catena.enrichment.views import ViewMaker
    from catena.library import Library
    from catena.library.pipeline import FixedLength, Preparation
    from catena.structure.chunking import SectionChunkOptions
    from catena.structure.embedding_segmentation import EmbeddingOptions

MadeBy: TypeAlias = Literal["offline", "llm"]
Chunking: TypeAlias = Literal["passages", "sections", "fixed"]

MADE = ("keywords", "summary", "questions", "statement")
"""Kinds of view that the command line makes."""
BY_MODEL_ONLY = "questions"

ViewKinds: TypeAlias = Annotated[
    list[str] | None, option("KIND,…", "Make views of chunks: keywords, summary, questions, statement.", "--views")
]
Language: TypeAlias = Annotated[str | None, option("WORD", "Language of what models write [that of the document].")]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """The options that decide how files become chunks and views; see `grouped`."""

    reading: ReadingChoices = field(default_factory=ReadingChoices)
    no_hidden_text: NoHiddenText = False
    figures: CropFigures = False
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
    divided: Annotated[Given, FieldsOf(SegmentOptions, only_with="--segmentation", under="--segment-under")] = field(
        default_factory=dict
    )
    context: Annotated[
        MadeBy | None,
        typer.Option(help="Make titles and summaries of documents and sections, without a model or with it."),
    ] = None
    chunks: Annotated[
        Chunking, typer.Option(help="Find passages of sections, whole sections (MC-indexing), or fixed lengths.")
    ] = "passages"
    lengths: Annotated[
        Given, FieldsOf(ChunkOptions, more=", or of a fixed length [300]", max_tokens="--max-tokens")
    ] = field(default_factory=dict)
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

    @property
    def graph_by_model(self) -> bool:
        """Say if a model finds the keywords by which a graph joins; see `catena index`."""
        return False

    @property
    def asks_server(self) -> bool:
        """Say if replies cost money."""
        return self.llm is not None or self.caption_model is not None

    @property
    def kept_in(self) -> Path | None:
        """The file that keeps the replies, None where none are kept."""
        return self.asking.journal or (JOURNAL if self.asks_server else None)

    def check(self, *, plan: bool = False) -> None:
        """Refuse options that could do nothing.

        Args:
            plan: whether nothing will be asked.

        Raises:
            ProblemError: there is one.
        """
        by_llm = {
            "--segmentation": self.segmentation, "--context": self.context, "--views-by": self.views_by,
            "--graph-keywords": self.graph_by_model and "llm",
        }  # fmt: skip
        work = {
            "--format-llm": self.format_llm, "--entities-llm": self.entities_llm,
            **{f"{option} llm": value == "llm" for option, value in by_llm.items()},
        }  # fmt: skip
        check_makers(made_kinds(self.views), self.views_by)
        if self.llm is None:
            refuse(work, "{} needs the name of a model", "--llm NAME")
        elif not any(work.values()):
            raise ProblemError("--llm needs to be told what for", ", ".join(work))
        if self.divided and self.segmentation is None:
            raise ProblemError("--segment-under is about sections by meaning", "--segmentation embedding, or llm")
        if self.language is not None and "llm" not in (self.context, self.views_by):
            raise ProblemError("--language is obeyed by models only", "--context llm, or --views-by llm, --llm NAME")
        naming = "--llm NAME, or --caption-model NAME"
        replace(self.asking, journal=None).require(self.llm or self.caption_model, naming, plan=plan)
        if self.asking.journal is not None and not (self.asks_server or self.spacy):
            raise ProblemError("--journal keeps the replies of a model", naming)

    def preparation(self) -> Preparation:
        """Return how files become chunks, also what models do of it.

        Raises:
            ProblemError: an option could do nothing.
        """
        from catena.enrichment.context import ContextOptions
        from catena.enrichment.entities import LLMDetector, RecognizerDetector
        from catena.enrichment.term_selection import CriticalTermOptions, ExpertTerms
        from catena.enrichment.view_makers import GraphKeywords
        from catena.formatting.llm_markdown import FormatOptions

        figures = self.figures or self.caption_model is not None
        terms: Given = {} if self.expert is None else {"expert": ExpertTerms.read(self.expert)}
        language = self.language or ""
        detectors: list[Detector] = [LLMDetector()] if self.entities_llm else []
        detectors += [RecognizerDetector()] if self.spacy is not None else []
        for_graph = (GraphKeywords(by="llm"),) if self.graph_by_model else ()
        views = makers_of(made_kinds(self.views), self.views_by, language if self.views_by == "llm" else "")
        return replace(
            self.reading.preparation(figures=figures, hidden_text=not self.no_hidden_text),
            chunks=chunking(self.chunks, self.lengths.get("max_tokens"), self.across_sections),
            embed_tables=self.embed_tables,
            terms=CriticalTermOptions(**terms),
            detectors=tuple(detectors),
            format_with_llm=FormatOptions() if self.format_llm else None,
            segmentation=self._segmentation(),
            context=None if self.context is None else ContextOptions(by=self.context, language=language),
            views=(*views, *for_graph),
        )

    def _segmentation(self) -> SegmentOptions | EmbeddingOptions | None:
        from catena.structure.embedding_segmentation import EmbeddingOptions

        if self.segmentation is None:
            return None
        kind = SegmentOptions if self.segmentation == "llm" else EmbeddingOptions
        return kind(**self.divided)


def chunking(
    name: Chunking, max_tokens: int | None, across_sections: bool
) -> ChunkOptions | SectionChunkOptions | FixedLength:
    """Return what a chunk is, as the options say.

    Raises:
        ProblemError: an option could do nothing.
    """
    from catena.library.pipeline import FixedLength
    from catena.structure.chunking import SectionChunkOptions

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
        usual = FixedLength(inside_sections=not across_sections)
        return usual if max_tokens is None else replace(usual, tokens=max_tokens)
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
    from catena.enrichment.statement_views import Statements
    from catena.enrichment.view_makers import Keywords, Questions, Summaries

    who = by or "offline"
    makers: dict[str, ViewMaker] = {
        "keywords": Keywords(by=who, language=language),
        "summary": Summaries(by=who, language=language),
        "questions": Questions(language=language),
        "statement": Statements(),
    }
    return tuple(makers[kind] for kind in kinds)


@contextmanager
def opened(
    path: Path, options: IndexOptions, *, embedder: str | None = None, plan: bool = False
) -> Iterator[Library]:
    """Open a library with its models and its journal; a stop by Ctrl-C says what is kept.

    Args:
        path: of the library.
        options: how files are read, and what is asked.
        embedder: its name, see `catena.backends.embedder_named`; None for the library's own.
        plan: nothing will be asked or written: what is not there is not made.
    """
    from catena.library import Library

    preparation = options.preparation()
    with ExitStack() as stack:
        asked = asked_models(options, stack)
        journal = journal_of(options, stack, plan=plan)
        stack.enter_context(stoppable(journal, "; what was written to the library is kept, too"))
        if plan and not path.exists():
            empty = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="catena-plan-", ignore_cleanup_errors=True)
            )
            path = Path(empty) / "library"
        services = replace(asked, journal=journal)
        library = Library.open(path, embedder=embedder, preparation=preparation, services=services)
        yield stack.enter_context(library)


def asked_models(options: IndexOptions, stack: ExitStack) -> Services:
    """Return the models that are named, with their budget.

    Args:
        options: their names.
        stack: closes them.

    Raises:
        ProblemError: OpenAI is asked without a key, or there is a cap and no price.
        MissingExtraError: the package of one is not installed.
    """
    budget = options.asking.cap()
    llm = captioner = recognizer = None
    if options.llm is not None:
        llm = stack.enter_context(options.asking.opened_llm(options.llm))
    if options.caption_model is not None:
        captioner = stack.enter_context(options.asking.opened_captioner(options.caption_model))
    if options.spacy is not None:
        from catena.backends.spacy_entities import SpacyRecognizer

        recognizer = SpacyRecognizer(options.spacy)
    return Services(llm=llm, captioner=captioner, recognizer=recognizer, budget=budget, **options.asking.behaviour)


def journal_of(options: IndexOptions, stack: ExitStack, *, plan: bool = False) -> Journal | None:
    """Return the journal that keeps the replies, None where none are kept; a plan makes none."""
    path = options.kept_in
    if path is None or (plan and not path.exists()):
        return None
    return stack.enter_context(Journal.open(path))


def show_plan(library: Library, paths: Sequence[Path], options: IndexOptions, *, as_json: bool) -> None:
    """Write what indexing these files would ask of models; nothing is asked."""
    from catena.cli.rendering import number

    with err().status("reading the files …"):
        found, outcomes = library.plan([*paths], password=options.password, tariff=options.asking.tariff())
    unread = [outcome for outcome in outcomes if outcome.state == "failed"]
    for outcome in unread:
        tell(f"not read: {outcome.source}: {outcome.reason}", "red")
    unchanged = sum(outcome.state == "skipped" for outcome in outcomes)
    remarks = (
        f"{number(len(outcomes), 'file')}, {unchanged} of them skipped.",
        f"{number(found.kept, 'answer')} are in the journal already." if found.kept else "",
        "What is asked of sections that are not made yet is an estimate." if options.segmentation else "",
        "An answer that is not faithful is asked for once again; that is not counted." if options.format_llm else "",
    )
    counts = {"files": len(outcomes), "skipped": unchanged, "failed": len(unread)}
    options.asking.write_plan(found, counts, remarks, as_json=as_json)
