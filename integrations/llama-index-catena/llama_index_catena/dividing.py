"""How the node parser divides: by meaning (what is asked, of whom, what it tells), and into which chunks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.schema import BaseNode

from catena.effects import Failed, Step, together
from catena.library import FixedLength, Preparation, divide
from catena.model import Chunk, Document, ParameterError, Section
from catena.structure import (
    ChunkOptions,
    EmbeddingOptions,
    SectionChunkOptions,
    Segmentation,
    SegmentOptions,
    cut,
    cut_fixed,
    cut_sections,
)
from llama_index_catena.documents import to_core_document

By: TypeAlias = SegmentOptions | EmbeddingOptions
"""Who divides, and how: a language model or the embedding."""

Chunking: TypeAlias = ChunkOptions | SectionChunkOptions | FixedLength
"""What a chunk is, as `catena.library.pipeline.Preparation` takes it."""

_KNOWN: dict[Any, type[By]] = {"SegmentOptions": SegmentOptions, "EmbeddingOptions": EmbeddingOptions}
_KINDS: dict[Any, type[Any]] = {kind.__name__: kind for kind in (ChunkOptions, SectionChunkOptions, FixedLength)}

dispatcher = get_dispatcher(__name__)
_log = logging.getLogger(__name__)


class SegmentationDegradedEvent(BaseEvent):
    """Part of a document was divided at headings and paragraphs, because no answer of the model was of use."""

    what: str
    why: str

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return "SegmentationDegradedEvent"


def written(options: By | Chunking | None) -> dict[str, Any] | None:
    """Return options in the form in which a parser is serialised, as part of cache keys."""
    return None if options is None else {"by": type(options).__name__, **asdict(options)}


def revived(options: Any) -> By | None:
    """Return options as they are, or from their written form.

    Raises:
        ParameterError: they are neither.
    """
    if options is None or isinstance(options, By):
        return options
    if not isinstance(options, dict) or options.get("by") not in _KNOWN:
        raise ParameterError("segmentation", options, "SegmentOptions, EmbeddingOptions or None")
    return _KNOWN[options["by"]](**{key: value for key, value in options.items() if key != "by"})


def revived_chunking(options: Any) -> Chunking | None:
    """Return what a chunk is as it is, or from its written form.

    Raises:
        ParameterError: it is neither.
    """
    if options is None or isinstance(options, Chunking):
        return options
    if not isinstance(options, dict) or options.get("by") not in _KINDS:
        raise ParameterError("chunks", options, "ChunkOptions, SectionChunkOptions, FixedLength or None")
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items() if key != "by"}
    found: Chunking = _KINDS[options["by"]](**given)
    return found


def chunked(document: Document, sections: Sequence[Section], how: Chunking) -> tuple[Chunk, ...]:
    """Return the chunks of a document, of the kind that is asked for."""
    if isinstance(how, SectionChunkOptions):
        return cut_sections(document, sections, options=how)
    if isinstance(how, FixedLength):
        return cut_fixed(document, sections if how.inside_sections else None, tokens=how.tokens)
    return cut(document, sections, options=how)


def divided(
    nodes: Sequence[BaseNode], options: By, *, media_type: str | None
) -> Step[list[Segmentation | Failed | None]]:
    """Divide all documents side by side."""
    how = Preparation(segmentation=options)
    return together([divide(to_core_document(node, media_type=media_type), how) for node in nodes])


def sections_of(results: Sequence[Segmentation | Failed | None]) -> list[Segmentation | None]:
    """Return how each document is divided, and tell where a model's answers were of no use.

    Raises:
        CatenaError: a document could not be divided.
    """
    found: list[Segmentation | None] = []
    for result in results:
        if isinstance(result, Failed):
            raise result.error
        for part in result.degraded if result is not None else ():
            _log.warning("%s: %s", part.what, part.why)
            dispatcher.event(SegmentationDegradedEvent(what=part.what, why=part.why))
        found.append(result)
    return found
