"""Any GLiNER model as an entity recogniser (extra `gliner`): the kinds of names are given in words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from catena.backends.sentence_transformers import load_local, public_name
from catena.effects.models import turn_of
from catena.model.errors import ParameterError, ServiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gliner import GLiNER

_SERVICE: Final = "gliner"
_WORD = re.compile(r"\w+(?:[-_]\w+)*|\S")  # as GLiNER's own splitter counts words
MAX_WORDS: Final = 384  # of one text, where a model's settings do not say
OVERLAP: Final = 32  # words that neighbouring windows share, a quarter of small ones: no name is longer


class GLiNERRecognizer:
    """Finds the names of the kinds that it is told, with a GLiNER model.

    GLiNER reads at most `max_len` words of a text and drops the rest. A longer text is therefore read in windows
    that overlap, and none of it is dropped.

    Args:
        model: a loaded model, or the name or path of one ("urchade/gliner_small-v2.1").
        labels: the kinds of names, in words ("product", "part number"), where a request names none.
        threshold: the least probability of a name, in [0, 1].
        batch_size: windows per forward pass.
        name: what the replies of a loaded model are kept under in a journal.

    Raises:
        MissingExtraError: GLiNER is not installed.
        ServiceError: the model cannot be loaded.
        ParameterError: there are no labels, or a number is out of range.

    Source: Zaratiana et al., GLiNER, arXiv:2311.08526.
    """

    def __init__(
        self,
        model: str | GLiNER,
        *,
        labels: Sequence[str],
        threshold: float = 0.5,
        batch_size: int = 8,
        name: str | None = None,
    ) -> None:
        if not labels or isinstance(labels, str):
            raise ParameterError("labels", labels, "at least one kind of name, such as ['product', 'part number']")
        if not 0 <= threshold <= 1:
            raise ParameterError("threshold", threshold, "in [0, 1]")
        if batch_size < 1:
            raise ParameterError("batch_size", batch_size, "an integer >= 1")
        self._model: Any = model
        if isinstance(model, str):
            name_shown = public_name(model)
            self._model = load_local(_SERVICE, lambda gliner: gliner.GLiNER.from_pretrained(model), name_shown)
        self._labels, self._threshold, self._batch_size = tuple(labels), threshold, batch_size
        self._max_words = int(getattr(getattr(self._model, "config", None), "max_len", None) or MAX_WORDS)
        self._turn = turn_of(self._model)
        shown = name or (public_name(model) if isinstance(model, str) else "model")
        self.identity = f"{_SERVICE}/{shown}[{','.join(self._labels)};{threshold:g}]"

    def recognise(self, texts: Sequence[str], labels: Sequence[str] = ()) -> tuple[tuple[str, ...], ...]:
        """Return per text its distinct names as printed, in order of place.

        Raises:
            ServiceError: the model failed.
        """
        windows = [(place, window) for place, text in enumerate(texts) for window in _windows(text, self._max_words)]
        found: list[dict[str, None]] = [{} for _ in texts]
        if not windows:
            return tuple(() for _ in texts)
        try:
            with self._turn:
                replies = self._model.inference(
                    [window for _, window in windows],
                    list(labels or self._labels),
                    threshold=self._threshold,
                    batch_size=self._batch_size,
                )
            for (place, _), entities in zip(windows, replies, strict=True):
                ordered = sorted(entities, key=lambda entity: (entity["start"], entity["end"]))
                found[place].update((entity["text"], None) for entity in ordered)
        except Exception as error:  # whatever torch or a model's own code raises
            what = f"finding entities in {len(texts)} texts failed: {type(error).__name__}"
            raise ServiceError(_SERVICE, what) from error
        return tuple(tuple(names) for names in found)


def _windows(text: str, size: int) -> list[str]:
    """Return the text, or slices of at most `size` words that cover it, each beginning in the one before."""
    words = list(_WORD.finditer(text))
    if len(words) <= size:
        return [text] if words else []
    step = size - min(OVERLAP, size // 4)
    starts = range(0, max(1, len(words) - size + step), step)
    return [text[words[at].start() : words[min(at + size, len(words)) - 1].end()] for at in starts]
