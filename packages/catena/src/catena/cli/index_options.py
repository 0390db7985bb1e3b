"""Options of commands that index files: how these are read and cut, and which models are asked about them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catena.cli.chunk_options import AcrossSections, ChunksName, ChunksOption, MaxTokens, chunking
from catena.cli.llm_options import ModelOptions
from catena.cli.options import (
    ContextBy,
    Engine,
    Figures,
    NoHiddenText,
    Password,
    PdfEngine,
    ReadingMemory,
    ReadingTime,
    RuledTables,
    SegmentationBy,
    SegmentUnder,
    TableText,
    preparation_of,
)
from catena.cli.view_options import MadeBy, ViewKinds, made_kinds

if TYPE_CHECKING:
    from catena.cli.index_models import Models
    from catena.enrichment.term_selection import CriticalTermOptions
    from catena.library.pipeline import Preparation


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions(ModelOptions):
    """What decides how files become chunks and views, as it is typed; see `grouped`."""

    engine: PdfEngine = Engine.PYPDF
    ruled_tables: RuledTables = False
    timeout: ReadingTime = None
    memory: ReadingMemory = None
    no_hidden_text: NoHiddenText = False
    figures: Figures = False
    caption_model: Annotated[
        str | None,
        typer.Option(
            "--caption-model", metavar="MODEL", help="Let this OpenAI-compatible model describe each figure."
        ),
    ] = None
    llm: Annotated[
        str | None, typer.Option("--llm", metavar="MODEL", help="The OpenAI-compatible model for what is to ask one.")
    ] = None
    format_llm: Annotated[
        bool, typer.Option("--format-llm", help="Let the model write the Markdown, checked page by page.")
    ] = False
    entities_llm: Annotated[
        bool, typer.Option("--entities-llm", help="Let the model find the critical entities of each chunk.")
    ] = False
    segmentation: Annotated[
        SegmentationBy | None,
        typer.Option("--segmentation", help="Divide documents by meaning, not by their headings; by whom."),
    ] = None
    segment_under: Annotated[
        SegmentUnder | None,
        typer.Option("--segment-under", help="Divide all of it, or what is long below its headings [document]."),
    ] = None
    context: Annotated[
        ContextBy | None,
        typer.Option("--context", help="Make titles and summaries of documents and sections; by whom."),
    ] = None
    chunks: ChunksOption = ChunksName.PASSAGES
    max_tokens: MaxTokens = None
    across_sections: AcrossSections = False
    views: ViewKinds = None
    views_by: Annotated[MadeBy | None, typer.Option("--views-by", help="Who makes the views [offline].")] = None
    language: Annotated[
        str | None,
        typer.Option("--language", metavar="WORD", help="Of what models write about files [the document's own]."),
    ] = None
    spacy: Annotated[
        str | None,
        typer.Option("--spacy", metavar="MODEL", help="Find critical entities by this spaCy pipeline (extra spacy)."),
    ] = None
    expert: Annotated[
        Path | None,
        typer.Option("--expert", metavar="FILE", help="Critical terms, one a line: term, aliases, weight."),
    ] = None
    embed_tables: Annotated[
        TableText,
        typer.Option("--embed-tables", help="Embed tables whole, or their titles and the names of rows and columns."),
    ] = TableText.WHOLE
    password: Password = field(default=None, repr=False)

    def models(self, *, graph_keywords: MadeBy | None = None, plan: bool = False) -> Models:
        """Return which models are asked, and for what.

        Args:
            graph_keywords: who finds the keywords by which a graph joins; None is offline.
            plan: whether nothing will be asked.

        Raises:
            ProblemError: an option could do nothing.
        """
        from catena.cli.index_models import Models

        models = Models(
            llm=self.llm, format_llm=self.format_llm, entities_llm=self.entities_llm,
            caption_model=self.caption_model, asking=self.asking_options,
            segmentation=None if self.segmentation is None else self.segmentation.value,
            under_headings=None if self.segment_under is None else self.segment_under is SegmentUnder.HEADINGS,
            context=None if self.context is None else self.context.value, language=self.language,
            views=made_kinds(self.views), views_by=self.views_by, graph_keywords=graph_keywords,
            spacy=self.spacy,
        )  # fmt: skip
        models.check(plan=plan)
        return models

    @property
    def asking_options(self) -> ModelOptions:
        """Those of the options that say how models are asked."""
        return ModelOptions(**{each.name: getattr(self, each.name) for each in fields(ModelOptions)})

    def preparation(self) -> Preparation:
        """Return how files become chunks, but for what models do; see `Models.prepared`.

        Raises:
            ProblemError: an option could do nothing.
        """
        figures = self.figures or self.caption_model is not None
        return replace(
            preparation_of(
                self.engine,
                self.ruled_tables,
                figures,
                hidden_text=not self.no_hidden_text,
                timeout=self.timeout,
                memory=self.memory,
            ),
            chunks=chunking(self.chunks, self.max_tokens, self.across_sections),
            embed_tables=self.embed_tables.value,
            terms=_terms(self.expert),
        )


def _terms(expert: Path | None) -> CriticalTermOptions:
    from catena.enrichment.expert_terms import ExpertTerms
    from catena.enrichment.term_selection import CriticalTermOptions

    return CriticalTermOptions() if expert is None else CriticalTermOptions(expert=ExpertTerms.read(expert))
