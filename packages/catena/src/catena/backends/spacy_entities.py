"""Any spaCy pipeline as an entity recogniser (extra `spacy`)."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from catena.backends.sentence_transformers import load_local
from catena.effects.models import turn_of
from catena.model import ParameterError, ServiceError, digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spacy.language import Language

_SERVICE: Final = "spacy"


class SpacyRecognizer:
    """Finds the entities (`doc.ents`) of a spaCy pipeline: a trained model, rules of one's own, or both.

    Calls take turns, since a pipeline is not made for several threads at once.

    Args:
        pipeline: a loaded pipeline, or the name or path of one ("en_core_web_sm").
        labels: the kinds to take where a request names none; none here either: all that the pipeline knows.
        batch_size: texts that go through the pipeline together.

    Raises:
        MissingExtraError: spaCy is not installed.
        ServiceError: the pipeline cannot be loaded.
        ParameterError: the pipeline has no component that finds entities, or none that gives such a label.
    """

    def __init__(self, pipeline: str | Language, *, labels: Sequence[str] = (), batch_size: int = 64) -> None:
        if batch_size < 1:
            raise ParameterError("batch_size", batch_size, "an integer >= 1")
        self._pipeline = _load(pipeline) if isinstance(pipeline, str) else pipeline
        self._batch_size = batch_size
        self._turn = turn_of(self._pipeline)
        self._known = _labels(self._pipeline)
        self._labels = tuple(labels)
        self._check(self._labels)
        meta = self._pipeline.meta
        chosen = f"[{','.join(sorted(self._labels))}]" if labels else ""
        name = f"{meta['lang']}_{meta['name']}-{meta['version']}"
        self.identity = f"{_SERVICE}/{name}@{_fingerprint(self._pipeline)}{chosen}"

    def recognise(self, texts: Sequence[str], labels: Sequence[str] = ()) -> tuple[tuple[str, ...], ...]:
        """Return per text, in order, its entities as printed.

        Raises:
            ParameterError: the pipeline gives no such label.
            ServiceError: the pipeline failed, or a text is longer than its `max_length`, in characters.
        """
        self._check(labels)
        wanted = frozenset(labels or self._labels)
        try:
            with self._turn:
                documents = list(self._pipeline.pipe(texts, batch_size=self._batch_size))
        except Exception as error:  # whatever a component's own code raises
            longest = max(map(len, texts), default=0)
            what = f"finding entities in {len(texts)} texts failed: {type(error).__name__}"
            if longest > self._pipeline.max_length:
                what = f"a text has {longest} characters, the pipeline takes {self._pipeline.max_length}"
            raise ServiceError(_SERVICE, what) from error
        return tuple(
            tuple(entity.text for entity in document.ents if not wanted or entity.label_ in wanted)
            for document in documents
        )

    def _check(self, labels: Sequence[str]) -> None:
        if self._known is not None and (unknown := sorted(set(labels) - self._known)):
            raise ParameterError("labels", unknown, f"some of {', '.join(sorted(self._known))}")


def _load(name: str) -> Any:
    hint = ". Try: python -m spacy download NAME"
    return load_local(_SERVICE, lambda spacy: spacy.load(name), PurePath(name).name, kind="pipeline", hint=hint)


def _labels(pipeline: Language) -> frozenset[str] | None:
    """Return the labels that the pipeline can give; None where a component does not tell.

    Raises:
        ParameterError: no component finds entities.
    """
    told: set[str] = set()
    tells_all, finds = True, False
    for name, component in pipeline.pipeline:
        assigns = pipeline.get_pipe_meta(name).assigns
        if assigns and "doc.ents" not in assigns:
            continue
        finds = True
        of_component = getattr(component, "labels", ())
        told.update(of_component)
        tells_all = tells_all and bool(of_component)
    if not finds:
        raise ParameterError("pipeline", pipeline.pipe_names, "one with a component that finds entities")
    return frozenset(told) if tells_all else None


def _fingerprint(pipeline: Language) -> str:
    """Return 8 hexadecimal digits that change with the weights and rules of the pipeline's components."""
    try:
        content = pipeline.to_bytes(exclude=["vocab"])
    except Exception:  # a component of one's own that cannot be written: its settings have to do
        content = pipeline.config.to_str().encode()
    return digest(content, length=8)
