"""Any sentence-transformers model as a token embedder, for late interaction: no text is cut off."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from catena.backends.sentence_transformers import fingerprint, fitting_windows, load_model, public_name, tokens_of
from catena.effects.models import turn_of
from catena.model.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer

_SERVICE: Final = "sentence-transformers"


class SentenceTransformerTokenEmbedder:
    """Gives each token of a text the unit vector that the model's last layer gives it.

    A text longer than the model's window is not truncated: it is cut between words into windows that tile it, and has
    the tokens of all of them. Special tokens and those of the model's prompts are left out, they say nothing of
    the text. A model that was trained for one vector per text (as MiniLM) was not trained for this; a ColBERT model
    behind a class of one's own, with the methods of `catena.effects.ports.TokenEmbedder`, was.

    Args:
        model: a loaded model, or the name or path of one.
        batch_size: windows per forward pass.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ServiceError: the model cannot be loaded.
    """

    def __init__(self, model: str | SentenceTransformer, *, batch_size: int = 32) -> None:
        name = model if isinstance(model, str) else str(model.model_card_data.base_model or "model")
        self._model: Any = load_model(model, "SentenceTransformer") if isinstance(model, str) else model
        self._turn = turn_of(self._model)
        self._batch_size = batch_size
        self.identity = f"{_SERVICE}/{public_name(name)}@{fingerprint(self._model)};tokens"

    def embed_document_tokens(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return per text, in order, unit rows of shape (tokens, dim).

        Raises:
            ServiceError: the model failed.
        """
        return self._embed(texts, self._model.encode_document, ("document", "passage", "corpus"))

    def embed_query_tokens(self, text: str) -> NDArray[np.float32]:
        """Return unit rows, shape (tokens, dim).

        Raises:
            ServiceError: the model failed.
        """
        return self._embed([text], self._model.encode_query, ("query",))[0]

    def _embed(
        self, texts: Sequence[str], encode: Callable[..., Any], prompt_names: tuple[str, ...]
    ) -> list[NDArray[np.float32]]:
        if not texts:
            return []
        prompt = next((self._model.prompts[name] for name in prompt_names if self._model.prompts.get(name)), "")
        try:
            with self._turn:
                windows = [self._windows(text, prompt) for text in texts]
                flat = [window for group in windows for window in group]
                given = encode(
                    flat, batch_size=self._batch_size, output_value="token_embeddings", show_progress_bar=False
                )
                rows = [self._own(array, prompt, window) for array, window in zip(given, flat, strict=True)]
        except Exception as error:  # whatever torch or a model's own code raises
            what = f"embedding the tokens of {len(texts)} texts failed: {type(error).__name__}"
            raise ServiceError(_SERVICE, what) from error
        borders = np.cumsum([0, *map(len, windows)])
        return [np.concatenate(rows[start:end]) for start, end in pairwise(borders)]

    def _windows(self, text: str, prompt: str) -> list[str]:
        if self._model.max_seq_length is None:
            return [text]
        taken = self._model.tokenizer.num_special_tokens_to_add() + self._size(prompt)
        return fitting_windows(self._model.tokenizer, text, max(1, self._model.max_seq_length - taken))

    def _own(self, given: Any, prompt: str, window: str) -> NDArray[np.float32]:
        """Return the unit rows of a window's own tokens: without special ones and without the prompt's."""
        marks = self._model.tokenizer(
            prompt + window, truncation=True, max_length=self._model.max_seq_length, return_special_tokens_mask=True
        )["special_tokens_mask"]
        rows = given.detach().float().cpu().numpy()
        own = rows[np.array(marks, bool) == 0][self._size(prompt) :]
        lengths = np.linalg.norm(own, axis=1, keepdims=True)
        unit: NDArray[np.float32] = own / np.where(lengths > 0, lengths, 1.0)
        return unit

    def _size(self, prompt: str) -> int:
        return len(tokens_of(self._model.tokenizer, prompt)["input_ids"]) if prompt else 0
