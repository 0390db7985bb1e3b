"""Write titles, summaries, critical entities and captions of pictures into the metadata of nodes."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, SerializeAsAny, field_serializer
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseNode, ImageNode

from catena import Chunk, Degraded, ParameterError, Services, model, prompts
from catena.effects import EntityRecognizer, Step, all_together
from catena.enrichment import (
    Bounds,
    CaptionedFigures,
    ChunkContexts,
    CodeDetector,
    ContextOptions,
    Detector,
    Entities,
    FigureContext,
    Guidance,
    LLMDetector,
    RecognizerDetector,
    caption_figures,
    context_of_chunks,
    detect_entities,
    usual_detectors,
    versions,
)
from catena.model import CAPTION, TITLE, Figure
from catena.structure import DOCUMENT_SUMMARY, SECTION_SUMMARY, chunk_header
from catena.text import as_written
from llama_index_catena.components import (
    DegradedEvent,
    ExtractorComponent,
    checked_arguments,
    dispatcher,
    revived_options,
    tell_degraded,
    written_options,
)
from llama_index_catena.convert import FIGURE_TITLE, HEADINGS, joined_keys, to_chunk
from llama_index_catena.documents import text_of
from llama_index_catena.services import CatenaEmbedding, LlamaIndexCaptioner, LlamaIndexLLM, model_services

SECTION_TITLE = "section_title"
"""Metadata key of a node: what the section that it stands in is called."""

CONTEXT_HEADER = "context"
"""Metadata key of a node: titles and summaries as one text, as `catena.structure.views.DSRAG` words it."""

CONTEXT_SCHEMA = 1  # grows when equal nodes and parameters give other metadata

_KEYS = (TITLE, DOCUMENT_SUMMARY, SECTION_TITLE, SECTION_SUMMARY)


class ContextDegradedEvent(DegradedEvent):
    """A title or a summary was asked for and not given: `what` names it, `why` says what happened."""


class CatenaContextExtractor(ExtractorComponent):
    """Writes into each node's metadata what its document and its section are called and what they are about.

    The keys are `title`, `document_summary`, `section_title`, `section_summary`. Nodes may be of any parser: a
    document is put together again from its nodes, given together and in reading order; its sections are those of
    `header_path`, else those of its text. Nodes given stay as they are, unless `in_place` says otherwise.

    Models that answer read what was written (`llm_text`). Embeddings do (`embed_text`) where `options.embed` says so;
    by default they do not, because headers outweigh the passages in the shipped embedding.

    Args:
        llm: any LlamaIndex language model; None makes titles and summaries offline, from headings and sentences.
        options: which titles and summaries, guidance, language, limits; `by` follows from `llm` where not given.
        embed_model: for offline summaries; by default the shipped one.
        show: what models read: the "keys" one by one, or one "header" under the key `context`, in dsRAG's words.
        journal: the file in which the model's replies are kept.
        fields: those of every LlamaIndex extractor; `num_workers` calls are in flight at once.

    Raises:
        ParameterError: the options ask for a model that is not given.
    """

    options: Any = Field(description="Which titles and summaries, and how.")
    llm: SerializeAsAny[LLM] | None = Field(default=None, description="Who writes titles and summaries.")
    embed_model: SerializeAsAny[BaseEmbedding] | None = Field(default=None, description="Finds central sentences.")
    show: Literal["keys", "header"] = Field(default="keys", description="What models read.")
    prompt_version: str = Field(default="", description="Versions of the prompts; part of cache keys.")
    schema_version: int = Field(default=CONTEXT_SCHEMA, description="Version of the metadata; part of cache keys.")

    @checked_arguments
    def __init__(
        self,
        llm: LLM | None = None,
        *,
        options: ContextOptions | None = None,
        embed_model: BaseEmbedding | None = None,
        **fields: Any,
    ) -> None:
        how = _revived(options) or ContextOptions(by="offline" if llm is None else "llm")
        if how.asks_model and llm is None:
            raise ParameterError("llm", None, "given with ContextOptions(by='llm'); after from_dict, given again")
        embedding = embed_model or (CatenaEmbedding() if how.by == "offline" else None)
        version = " ".join(versions()) if how.asks_model else ""
        own = {"options": how, "llm": llm, "embed_model": embedding}
        super().__init__(**{**fields, **own, "prompt_version": version, "schema_version": CONTEXT_SCHEMA})

    @field_serializer("options")
    def _written(self, options: Any) -> dict[str, Any]:
        return asdict(options)

    @dispatcher.span
    async def aprocess_nodes(
        self,
        nodes: Sequence[BaseNode],
        excluded_embed_metadata_keys: list[str] | None = None,
        excluded_llm_metadata_keys: list[str] | None = None,
        **kwargs: Any,
    ) -> list[BaseNode]:
        """Return the nodes with their metadata, of which models read what `show` and `options.embed` say."""
        told = await super().aprocess_nodes(nodes, excluded_embed_metadata_keys, excluded_llm_metadata_keys, **kwargs)
        unread = _KEYS if self.show == "header" else ()
        unembedded = unread if self.options.embed else (*_KEYS[1:], CONTEXT_HEADER, *unread)
        for node in told:
            node.excluded_llm_metadata_keys = joined_keys(node.excluded_llm_metadata_keys, unread)
            node.excluded_embed_metadata_keys = joined_keys(node.excluded_embed_metadata_keys, unembedded)
        return told

    def _services(self) -> Services:
        return model_services(self.llm, self.embed_model, max_concurrency=self.num_workers)

    def _step(self, nodes: Sequence[BaseNode]) -> Step[ChunkContexts]:
        return context_of_chunks([to_chunk(node) for node in nodes], self.options)

    def _metadata(self, nodes: Sequence[BaseNode], found: ChunkContexts) -> list[dict[str, Any]]:
        tell_degraded(found.degraded, ContextDegradedEvent)
        return [self._of_node(node, chunk) for node, chunk in zip(nodes, found.chunks, strict=True)]

    def _of_node(self, node: BaseNode, chunk: Chunk) -> dict[str, Any]:
        told = chunk.metadata
        made = {key: told[key] for key in (TITLE, DOCUMENT_SUMMARY, SECTION_SUMMARY) if told.get(key)}
        if chunk.path:
            made[SECTION_TITLE] = chunk.path[-1]
        if self.show == "header" and (header := chunk_header(chunk)):
            made[CONTEXT_HEADER] = header
        return made


def _revived(written: Any) -> ContextOptions | None:
    """Return options as they are, or from their written form."""
    if written is None or isinstance(written, ContextOptions):
        return written
    if not isinstance(written, dict):
        raise ParameterError("options", written, "ContextOptions or None")
    return ContextOptions(**{**written, "guidance": Guidance(**written["guidance"])})


ENTITIES = "entities"
"""Metadata key of a node's critical entities, as it prints them, in the order of the alphabet."""

ENTITY_SEPARATOR = "; "
"""Between two entities."""

_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (CodeDetector, LLMDetector, RecognizerDetector, Bounds)}

ENTITIES_SCHEMA = 1  # grows when equal nodes and parameters give other entities


class EntitiesDegradedEvent(DegradedEvent):
    """A detector failed at some nodes, or names were refused: `what` names them, `why` says what happened."""


class CatenaEntityExtractor(ExtractorComponent):
    """Writes the critical entities of each node into its metadata: products, codes, parts, standards.

    They are found in the node's own text by any detectors together; an expert's list adds their other names. Models
    read them as metadata, so lexical and dense retrievers that index metadata find a node by them. Nodes given stay
    as they are, unless `in_place` says otherwise.

    Args:
        detectors: those of `catena.enrichment.entities`, or your own; by default the rule for code-like words,
            and one for each of `llm` and `recognizer` that is given. Of an expert's list, or a detector of your own,
            only what it is is serialised: with `from_dict` it is given again.
        llm: any LlamaIndex language model, for `LLMDetector`.
        recognizer: a spaCy or GLiNER model, for `RecognizerDetector`: `SpacyRecognizer`, `GlinerRecognizer`.
        on_error: "degrade" gives a node fewer entities where a detector fails, told in the log and as an
            `EntitiesDegradedEvent`; "raise" raises, so that no ingestion cache keeps what is incomplete.
        journal: the file in which the model's replies are kept.
        fields: those of every LlamaIndex extractor; `num_workers` calls are in flight at once.

    Raises:
        ParameterError: there is no detector, or something that is none.
    """

    detectors: Any = Field(description="Who finds entities.")  # a tuple of `Detector`, a Protocol with properties
    llm: SerializeAsAny[LLM] | None = Field(default=None, description="The model that `LLMDetector` asks.")
    recognizer: Any = Field(default=None, description="The model that `RecognizerDetector` asks.")
    on_error: Literal["degrade", "raise"] = Field(default="degrade", description="What a failing detector means.")
    prompt_version: str = Field(default="", description="Version of the prompt; part of cache keys.")
    schema_version: int = Field(default=ENTITIES_SCHEMA, description="Version of the entities; part of cache keys.")

    @checked_arguments
    def __init__(
        self,
        detectors: Sequence[Detector] | None = None,
        *,
        llm: LLM | None = None,
        recognizer: EntityRecognizer | None = None,
        **fields: Any,
    ) -> None:
        usual = usual_detectors(llm=llm is not None, recognizer=recognizer is not None)
        found = usual if detectors is None else revived_options(list(detectors), _KINDS)
        if not found or not all(isinstance(each, Detector) for each in found):
            raise ParameterError("detectors", detectors, "at least one detector; after from_dict, given again")
        own = {"detectors": found, "llm": llm, "recognizer": recognizer, "schema_version": ENTITIES_SCHEMA}
        super().__init__(**{**fields, **own, "prompt_version": prompts.load("critical_entities").version})

    @field_serializer("detectors")
    def _told(self, detectors: Any) -> list[Any]:
        """Name the detectors with all their parameters: they are part of cache keys."""
        return [written_options(each, _KINDS) for each in detectors]

    @field_serializer("recognizer")
    def _identity(self, recognizer: Any) -> str | None:
        return None if recognizer is None else str(recognizer.identity)

    @property
    def _asks(self) -> bool:
        return self.llm is not None or self.recognizer is not None

    def _services(self) -> Services:
        llm = None if self.llm is None else LlamaIndexLLM(self.llm)
        return Services(llm=llm, recognizer=self.recognizer, max_concurrency=self.num_workers)

    def _step(self, nodes: Sequence[BaseNode]) -> Step[Entities]:
        return _entities_of(nodes, self.detectors, self.on_error)

    def _metadata(self, nodes: Sequence[BaseNode], found: Entities) -> list[dict[str, Any]]:
        tell_degraded(found.degraded, EntitiesDegradedEvent)
        return [_named(node, terms) for node, terms in zip(nodes, found.terms, strict=True)]


def _named(node: BaseNode, terms: Sequence[str]) -> dict[str, Any]:
    text = text_of(node)
    return {ENTITIES: ENTITY_SEPARATOR.join(as_written(text, term) for term in sorted(set(terms)))} if terms else {}


def _entities_of(
    nodes: Sequence[BaseNode], detectors: Sequence[Detector], on_error: Literal["degrade", "raise"]
) -> Step[Entities]:
    """Return the entities of all nodes in order; those of one document are asked for together."""
    places: dict[str, list[int]] = {}
    for place, node in enumerate(nodes):
        places.setdefault(node.ref_doc_id or node.node_id, []).append(place)
    steps = [
        detect_entities(
            model.Document(id=name, text=""), [to_chunk(nodes[place]) for place in here], detectors, on_error=on_error
        )
        for name, here in places.items()
    ]
    terms: dict[int, tuple[str, ...]] = {}
    degraded: list[model.Degraded] = []
    for here, result in zip(places.values(), (yield from all_together(steps)), strict=True):
        terms.update(zip(here, result.terms, strict=True))
        degraded.extend(result.degraded)
    return Entities(tuple(terms[place] for place in range(len(nodes))), tuple(degraded))


CAPTIONS_SCHEMA = 1  # grows when equal nodes and parameters give other captions


class CaptionsDegradedEvent(DegradedEvent):
    """A picture got no caption: `what` names it, `why` says what happened."""


class CatenaCaptionExtractor(ExtractorComponent):
    """Writes what a model sees in the picture of each `ImageNode` into its metadata, under `caption`.

    The model is told the headings, the title and the text that stand with the picture. Other nodes get nothing.
    A picture without a caption is told in the log and as a `CaptionsDegradedEvent`.

    Args:
        llm: any LlamaIndex language model that sees.
        journal: the file in which captions are kept.
        fields: those of every LlamaIndex extractor; `num_workers` calls are in flight at once.

    Raises:
        ParameterError: there is no model.
    """

    is_text_node_only: bool = Field(default=False, description="Pictures are what it looks at.")
    llm: SerializeAsAny[LLM] = Field(description="Who describes pictures.")
    prompt_version: str = Field(default="", description="Version of the prompt; part of cache keys.")
    schema_version: int = Field(default=CAPTIONS_SCHEMA, description="Version of the metadata; part of cache keys.")

    @checked_arguments
    def __init__(self, llm: LLM, **fields: Any) -> None:
        if not isinstance(llm, LLM):
            raise ParameterError("llm", type(llm).__name__, "a LlamaIndex language model that sees")
        version = prompts.load("figure_caption").version
        super().__init__(**{**fields, "llm": llm, "prompt_version": version, "schema_version": CAPTIONS_SCHEMA})

    def _services(self) -> Services:
        return Services(captioner=LlamaIndexCaptioner(self.llm), max_concurrency=self.num_workers)

    def _step(self, nodes: Sequence[BaseNode]) -> Step[CaptionedFigures]:
        figures = _figures(nodes)  # reads files
        by_id = {node.node_id: node for node in nodes}
        contexts = [
            FigureContext(path=str(node.metadata.get(HEADINGS, "")), before=str(getattr(node, "text", "")))
            for node in (by_id[figure.name] for figure in figures)
        ]
        return caption_figures(figures, contexts)

    def _metadata(self, nodes: Sequence[BaseNode], found: CaptionedFigures) -> list[dict[str, Any]]:
        tell_degraded(found.failures, CaptionsDegradedEvent)
        captions = {figure.name: figure.caption for figure in found.figures}
        return [{CAPTION: caption} if (caption := captions.get(node.node_id)) else {} for node in nodes]


def _figures(nodes: Sequence[BaseNode]) -> list[Figure]:
    """Return the pictures under the ids of their nodes, each once."""
    pictures = {node.node_id: node for node in nodes if isinstance(node, ImageNode)}
    box = (0.0, 0.0, 0.0, 0.0)
    return [
        Figure(
            name=name, page=1, box=box, kind="bitmap", width=0, height=0, png=picture,
            title=str(node.metadata.get(FIGURE_TITLE, "")),
        )
        for name, node in pictures.items()
        if (picture := _picture(node))
    ]  # fmt: skip


def _picture(node: ImageNode) -> bytes:
    """Return the bytes of a picture, b"" where there are none; what is behind an address is not fetched."""
    try:
        if node.image:
            return b64decode(node.image, validate=True)
        if node.image_path:
            return Path(node.image_path).read_bytes()
        why = "the node holds no picture and names no file; addresses are not fetched"
    except (OSError, ValueError) as error:
        why = str(error)
    tell_degraded([Degraded(f"picture of {node.node_id}", why)], CaptionsDegradedEvent)
    return b""
