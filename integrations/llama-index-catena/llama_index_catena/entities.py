"""Critical entities of nodes as their metadata, for ingestion pipelines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Literal

from llama_index.core.bridge.pydantic import Field, SerializeAsAny, field_serializer
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseNode

from catena import model, prompts
from catena.effects import EntityRecognizer, Failed, Services, Step, arun, run, together
from catena.enrichment import (
    Bounds,
    CodeDetector,
    Detector,
    Entities,
    LLMDetector,
    RecognizerDetector,
    detect_entities,
)
from catena.model import ParameterError
from catena.text import as_written
from llama_index_catena.arguments import checked_arguments
from llama_index_catena.components import ExtractorComponent, revived_options, written_options
from llama_index_catena.convert import to_chunk
from llama_index_catena.documents import text_of
from llama_index_catena.services import LlamaIndexLLM, ajournalled, journalled

ENTITIES = "entities"
"""Metadata key of a node's critical entities, as it prints them, in the order of the alphabet."""

SEPARATOR = "; "
"""Between two entities."""

_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (CodeDetector, LLMDetector, RecognizerDetector, Bounds)}

SCHEMA_VERSION = 1  # grows when equal nodes and parameters give other entities

dispatcher = get_dispatcher(__name__)
_log = logging.getLogger(__name__)


class EntitiesDegradedEvent(BaseEvent):
    """A detector failed at some nodes, or names were refused: `what` names them, `why` says what happened."""

    what: str
    why: str

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the event."""
        return "EntitiesDegradedEvent"


class CatenaEntityExtractor(ExtractorComponent):
    """Writes the critical entities of each node into its metadata: products, codes, parts, standards.

    They are found in the node's own text by any detectors together; an expert's list adds their other names. Models
    read them as metadata, so lexical and dense retrievers that index metadata find a node by them. Nodes given stay
    as they are, unless `in_place` says otherwise.

    Args:
        detectors: those of `catena.enrichment.detectors`, or your own; by default the rule for code-like words,
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
    journal: str | None = Field(default=None, exclude=True, description="The file in which replies are kept.")
    prompt_version: str = Field(default="", description="Version of the prompt; part of cache keys.")
    schema_version: int = Field(default=SCHEMA_VERSION, description="Version of the entities; part of cache keys.")

    @checked_arguments
    def __init__(
        self,
        detectors: Sequence[Detector] | None = None,
        *,
        llm: LLM | None = None,
        recognizer: EntityRecognizer | None = None,
        **fields: Any,
    ) -> None:
        found = _usual(llm, recognizer) if detectors is None else revived_options(list(detectors), _KINDS)
        if not found or not all(isinstance(each, Detector) for each in found):
            raise ParameterError("detectors", detectors, "at least one detector; after from_dict, given again")
        usual = {"in_place": False, "disable_template_rewrite": True, "show_progress": False}
        own = {
            "detectors": found,
            "llm": llm,
            "recognizer": recognizer,
            "prompt_version": prompts.load("critical_entities").version,
            "schema_version": SCHEMA_VERSION,
        }
        super().__init__(**{**usual, **fields, **own})

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which the extractor is serialised."""
        return "CatenaEntityExtractor"

    @field_serializer("detectors")
    def _told(self, detectors: Any) -> list[Any]:
        """Name the detectors with all their parameters: they are part of cache keys."""
        return [written_options(each, _KINDS) for each in detectors]

    @field_serializer("recognizer")
    def _identity(self, recognizer: Any) -> str | None:
        return None if recognizer is None else str(recognizer.identity)

    def extract(self, nodes: Sequence[BaseNode]) -> list[dict[str, Any]]:
        """Return `{"entities": "…; …"}` for each node, {} where there are none."""
        with journalled(self._services(), self.journal) as services:
            return self._metadata(nodes, run(_step(nodes, self.detectors, self.on_error), services))

    @dispatcher.span
    async def aextract(self, nodes: Sequence[BaseNode]) -> list[dict[str, Any]]:
        """As `extract`, without blocking the event loop."""
        if self.llm is None and self.recognizer is None:
            return await asyncio.to_thread(self.extract, nodes)  # nobody is asked: all is computing
        async with ajournalled(self._services(), self.journal) as services:
            return self._metadata(nodes, await arun(_step(nodes, self.detectors, self.on_error), services))

    def _services(self) -> Services:
        llm = None if self.llm is None else LlamaIndexLLM(self.llm)
        return Services(llm=llm, recognizer=self.recognizer, max_concurrency=self.num_workers)

    def _metadata(self, nodes: Sequence[BaseNode], found: Entities) -> list[dict[str, Any]]:
        for part in found.degraded:
            _log.warning("%s: %s", part.what, part.why)
            dispatcher.event(EntitiesDegradedEvent(what=part.what, why=part.why))
        return [_named(node, terms) for node, terms in zip(nodes, found.terms, strict=True)]


def _named(node: BaseNode, terms: Sequence[str]) -> dict[str, Any]:
    text = text_of(node)
    return {ENTITIES: SEPARATOR.join(as_written(text, term) for term in sorted(set(terms)))} if terms else {}


def _usual(llm: LLM | None, recognizer: EntityRecognizer | None) -> tuple[Detector, ...]:
    asked: list[Detector] = [CodeDetector()]
    if llm is not None:
        asked.append(LLMDetector())
    if recognizer is not None:
        asked.append(RecognizerDetector())
    return tuple(asked)


def _step(
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
    results = yield from together(steps)
    terms: dict[int, tuple[str, ...]] = {}
    degraded: list[model.Degraded] = []
    for here, result in zip(places.values(), results, strict=True):
        if isinstance(result, Failed):
            raise result.error
        terms.update(zip(here, result.terms, strict=True))
        degraded.extend(result.degraded)
    return Entities(tuple(terms[place] for place in range(len(nodes))), tuple(degraded))
