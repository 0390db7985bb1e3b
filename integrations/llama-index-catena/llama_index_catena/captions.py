"""Captions of image nodes by any model that sees, written into their metadata."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_index.core.bridge.pydantic import Field, SerializeAsAny
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseNode, ImageNode

from catena import prompts
from catena.effects import Services, Step, arun, run
from catena.enrichment import CaptionedFigures, FigureContext, caption_figures
from catena.model import CAPTION, Degraded, Figure, ParameterError
from llama_index_catena.arguments import checked_arguments
from llama_index_catena.components import ExtractorComponent
from llama_index_catena.convert import FIGURE_TITLE, HEADINGS
from llama_index_catena.services import LlamaIndexCaptioner, ajournalled, journalled

SCHEMA_VERSION = 1  # grows when equal nodes and parameters give other captions

dispatcher = get_dispatcher(__name__)
_log = logging.getLogger(__name__)


class CaptionsDegradedEvent(BaseEvent):
    """A picture got no caption: `what` names it, `why` says what happened."""

    what: str
    why: str

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return "CaptionsDegradedEvent"


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
    journal: str | None = Field(default=None, exclude=True, description="The file in which captions are kept.")
    prompt_version: str = Field(default="", description="Version of the prompt; part of cache keys.")
    schema_version: int = Field(default=SCHEMA_VERSION, description="Version of the metadata; part of cache keys.")

    @checked_arguments
    def __init__(self, llm: LLM, **fields: Any) -> None:
        if not isinstance(llm, LLM):
            raise ParameterError("llm", type(llm).__name__, "a LlamaIndex language model that sees")
        usual = {"in_place": False, "disable_template_rewrite": True, "show_progress": False}
        own = {"llm": llm, "prompt_version": prompts.load("figure_caption").version, "schema_version": SCHEMA_VERSION}
        super().__init__(**{**usual, **fields, **own})

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which the extractor is serialised."""
        return "CatenaCaptionExtractor"

    def extract(self, nodes: Sequence[BaseNode]) -> list[dict[str, Any]]:
        """Return `{"caption": "…"}` for each picture, {} for other nodes and where there is none."""
        figures = _figures(nodes)
        with journalled(self._services(), self.journal) as services:
            return self._metadata(nodes, figures, run(_step(nodes, figures), services))

    @dispatcher.span
    async def aextract(self, nodes: Sequence[BaseNode]) -> list[dict[str, Any]]:
        """As `extract`, without blocking the event loop."""
        figures = await asyncio.to_thread(_figures, nodes)  # reads files
        async with ajournalled(self._services(), self.journal) as services:
            return self._metadata(nodes, figures, await arun(_step(nodes, figures), services))

    def _services(self) -> Services:
        return Services(captioner=LlamaIndexCaptioner(self.llm), max_concurrency=self.num_workers)

    def _metadata(
        self, nodes: Sequence[BaseNode], figures: dict[int, Figure], found: CaptionedFigures
    ) -> list[dict[str, Any]]:
        for part in found.failures:
            _tell(part)
        captions = {place: figure.caption for place, figure in zip(figures, found.figures, strict=True)}
        return [{CAPTION: captions[place]} if captions.get(place) else {} for place in range(len(nodes))]


def _figures(nodes: Sequence[BaseNode]) -> dict[int, Figure]:
    """Return the pictures by the place of their node."""
    found = {}
    for place, node in enumerate(nodes):
        if isinstance(node, ImageNode) and (picture := _picture(node)):
            found[place] = Figure(
                name=node.node_id,
                page=1,
                box=(0.0, 0.0, 0.0, 0.0),
                kind="bitmap",
                width=0,
                height=0,
                title=str(node.metadata.get(FIGURE_TITLE, "")),
                png=picture,
            )
    return found


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
    _tell(Degraded(f"picture of {node.node_id}", why))
    return b""


def _tell(part: Degraded) -> None:
    _log.warning("%s: %s", part.what, part.why)
    dispatcher.event(CaptionsDegradedEvent(what=part.what, why=part.why))


def _step(nodes: Sequence[BaseNode], figures: dict[int, Figure]) -> Step[CaptionedFigures]:
    contexts = [
        FigureContext(
            path=str(nodes[place].metadata.get(HEADINGS, "")), before=str(getattr(nodes[place], "text", ""))
        )
        for place in figures
    ]
    return caption_figures(list(figures.values()), contexts)
