"""Documents in atomic units: one fact each, as a model divides them, and exact slices all the same."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import Field, SerializeAsAny, field_serializer
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseNode, NodeRelationship, TextNode, TransformComponent

from catena import model, prompts
from catena.effects import Failed, Services, Step, arun, run, together
from catena.model import ParameterError
from catena.structure import AtomicChunks, AtomicOptions, cut_atomic, outline
from llama_index_catena.arguments import checked_arguments
from llama_index_catena.chunk_nodes import chunk_metadata_of, linked, origin_of, presented
from llama_index_catena.components import Component, revived_options, written_options
from llama_index_catena.documents import to_core_document
from llama_index_catena.services import ajournalled, journalled, model_services

SCHEMA_VERSION = 1  # grows when equal documents and parameters give other nodes

_KINDS: dict[str, type[Any]] = {"AtomicOptions": AtomicOptions}

dispatcher = get_dispatcher(__name__)
_log = logging.getLogger(__name__)


class AtomicDegradedEvent(BaseEvent):
    """Part of a document was cut at sentences, because no answer of the model was of use."""

    what: str
    why: str

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return "AtomicDegradedEvent"


class CatenaAtomicTransform(Component, TransformComponent):
    """Cuts documents into atomic units by a model, whose answers only say where to cut: no word is its own.

        IngestionPipeline(transformations=[CatenaAtomicTransform(llm)]).run(documents=documents)

    Nodes have ids, offsets, links and metadata as those of `CatenaNodeParser`. A window of which no answer was of use
    is cut at sentences, told in the log and as an `AtomicDegradedEvent`, or raises, as `options.on_error` has it.

    Args:
        llm: any LlamaIndex language model.
        options: windows, attempts, and what is done where the model fails.
        inside_sections: units end where sections do.
        num_workers: calls of the model that are in flight at once.
        journal: the file in which replies are kept.

    Raises:
        ParameterError: there is no model.
    """

    llm: SerializeAsAny[LLM] = Field(description="Who divides the text.")
    options: Any = Field(description="Windows, attempts, and what is done where the model fails.")
    inside_sections: bool = Field(default=True, description="Whether units end where sections do.")
    num_workers: int = Field(default=4, exclude=True, description="Calls in flight at once.")
    journal: str | None = Field(default=None, exclude=True, description="The file in which replies are kept.")
    prompt_version: str = Field(default="", description="Version of the prompt; part of cache keys.")
    schema_version: int = Field(default=SCHEMA_VERSION, description="Version of the nodes made; part of cache keys.")

    @checked_arguments
    def __init__(self, llm: LLM, *, options: AtomicOptions | None = None, **fields: Any) -> None:
        if not isinstance(llm, LLM):
            raise ParameterError("llm", type(llm).__name__, "a LlamaIndex language model: it divides the text")
        how = AtomicOptions() if options is None else revived_options(options, _KINDS)
        if not isinstance(how, AtomicOptions):
            raise ParameterError("options", options, "AtomicOptions or None")
        own = {"llm": llm, "options": how, "schema_version": SCHEMA_VERSION}
        super().__init__(**{**fields, **own, "prompt_version": prompts.load("atomic_units").version})

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which the component is serialised."""
        return "CatenaAtomicTransform"

    @field_serializer("options")
    def _written(self, options: Any) -> Any:
        return written_options(options, _KINDS)

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """Return the units of documents, or of nodes, as nodes in reading order."""
        documents = [to_core_document(node) for node in nodes]
        with journalled(self._services(), self.journal) as services:
            return _units(nodes, documents, run(self._step(documents), services))

    @dispatcher.span
    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """As calling it, without blocking the event loop."""
        documents = [to_core_document(node) for node in nodes]
        async with ajournalled(self._services(), self.journal) as services:
            made = await arun(self._step(documents), services, computes=True)
        return await asyncio.to_thread(_units, nodes, documents, made)

    def _services(self) -> Services:
        return model_services(self.llm, None, max_concurrency=self.num_workers)

    def _step(self, documents: Sequence[model.Document]) -> Step[list[AtomicChunks]]:
        sections = [outline(each) if self.inside_sections else None for each in documents]
        steps = [cut_atomic(each, self.options, sections=of) for each, of in zip(documents, sections, strict=True)]
        results = yield from together(steps)
        for result in results:
            if isinstance(result, Failed):
                raise result.error
        return [result for result in results if isinstance(result, AtomicChunks)]


def _units(
    nodes: Sequence[BaseNode], documents: Sequence[model.Document], made: Sequence[AtomicChunks]
) -> list[BaseNode]:
    units = []
    for node, document, done in zip(nodes, documents, made, strict=True):
        for part in done.degraded:
            _log.warning("%s: %s", part.what, part.why)
            dispatcher.event(AtomicDegradedEvent(what=part.what, why=part.why))
        source, shift = origin_of(node)
        units += [
            TextNode(
                id_=chunk.id,
                text=chunk.text,
                mimetype=document.media_type,
                start_char_idx=None if shift is None else shift + chunk.start,
                end_char_idx=None if shift is None else shift + chunk.end,
                relationships={NodeRelationship.SOURCE: source},
                **presented(chunk_metadata_of(chunk, document, node), node),
            )
            for chunk in done.chunks
        ]
    return linked(units)
