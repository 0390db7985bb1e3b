"""Cut documents into atomic units by a model: one fact each, and exact slices all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import Field, SerializeAsAny, field_serializer
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseNode, TextNode, TransformComponent

from catena import ParameterError, Services, model, prompts
from catena.effects import Failed, Step, together
from catena.model import needs
from catena.structure import outline
from llama_index_catena.components import (
    DegradedEvent,
    JournalledComponent,
    checked_arguments,
    dispatcher,
    revived_options,
    tell_degraded,
    written_options,
)
from llama_index_catena.documents import to_core_document
from llama_index_catena.services import model_services
from llama_index_catena.structure import linked, slice_node

with needs("catena-bench"):
    from catena_bench.baselines import AtomicChunks, AtomicOptions, cut_atomic

SCHEMA_VERSION = 1  # grows when equal documents and parameters give other nodes

_KINDS: dict[str, type[Any]] = {"AtomicOptions": AtomicOptions}


class AtomicDegradedEvent(DegradedEvent):
    """Part of a document was cut at sentences, because no answer of the model was of use."""


class CatenaAtomicTransform(JournalledComponent, TransformComponent):
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

    @field_serializer("options")
    def _written(self, options: Any) -> Any:
        return written_options(options, _KINDS)

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """Return the units of documents, or of nodes, as nodes in reading order."""
        documents = [to_core_document(node) for node in nodes]
        return _units(nodes, documents, self._run(self._step(documents)))

    @dispatcher.span
    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        """As calling it, without blocking the event loop."""
        documents = [to_core_document(node) for node in nodes]
        made = await self._arun(self._step(documents), computes=True)
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
    units: list[TextNode] = []
    for node, document, done in zip(nodes, documents, made, strict=True):
        tell_degraded(done.degraded, AtomicDegradedEvent)
        units += [slice_node(chunk, document, node) for chunk in done.chunks]
    return linked(units)
