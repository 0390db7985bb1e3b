"""Any sentence-transformers model as an embedder, with long texts embedded whole."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from catena.errors import MissingExtraError, ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer

_SERVICE: Final = "sentence-transformers"


class SentenceTransformerEmbedder:
    """Embeds with a sentence-transformers model, through its document and query prompts where it has them.

    A text longer than the model's window (`max_seq_length` tokens, less the special tokens and the prompt) is not
    truncated: it is cut between words into windows that fit, and `v(text) = m / |m|`, `m` the mean of the windows'
    unit vectors. A mean blurs: chunks cut below `max_seq_length` are each one window, and ranking a long text by
    its best chunk is then what "scored by its best window" means.

    Args:
        model: a loaded model, or the name or path of one.
        batch_size: windows per forward pass.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ServiceError: the model cannot be loaded.
    """

    def __init__(self, model: str | SentenceTransformer, *, batch_size: int = 32) -> None:
        name = model if isinstance(model, str) else str(model.model_card_data.base_model or "model")
        self._model = _load(model) if isinstance(model, str) else model
        self._batch_size = batch_size
        self.identity = f"{_SERVICE}/{_public_name(name)}@{_fingerprint(self._model)}"
        self.dim = len(self.embed_query("dimension"))

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit rows, shape (len(texts), dim), in order."""
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        return self._embed(texts, self._model.encode_document, ("document", "passage", "corpus"))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return one unit vector, shape (dim,)."""
        row: NDArray[np.float32] = self._embed([text], self._model.encode_query, ("query",))[0]
        return row

    def _embed(
        self, texts: Sequence[str], encode: Callable[..., Any], prompt_names: tuple[str, ...]
    ) -> NDArray[np.float32]:
        prompts = self._model.prompts
        prompt = next((prompts[name] for name in prompt_names if prompts.get(name)), "")
        try:
            windows = [self._windows(text, prompt) for text in texts]
            flat = [window for group in windows for window in group]
            vectors = encode(flat, batch_size=self._batch_size, normalize_embeddings=True, show_progress_bar=False)
        except Exception as error:  # whatever torch or a model's own code raises
            raise ServiceError(_SERVICE, f"embedding {len(texts)} texts failed: {type(error).__name__}") from error
        borders = np.cumsum([0, *map(len, windows)])
        means = np.stack([vectors[start:end].mean(axis=0, dtype=np.float64) for start, end in pairwise(borders)])
        rows: NDArray[np.float32] = (means / np.linalg.norm(means, axis=1, keepdims=True)).astype(np.float32)
        return rows

    def _windows(self, text: str, prompt: str) -> list[str]:
        """Cut a text between words into pieces that tile it and that each fit the model's window."""
        if self._model.max_seq_length is None:
            return [text]
        tokenizer = self._model.tokenizer
        taken = tokenizer.num_special_tokens_to_add() + (
            len(_tokens(tokenizer, prompt)["input_ids"]) if prompt else 0
        )
        size = limit = max(1, self._model.max_seq_length - taken)
        windows = _tiles(tokenizer, text, size)
        # Cut inside a word longer than a window, its rest may make more tokens than before: then cut finer.
        while size > 1 and any(len(_tokens(tokenizer, window)["input_ids"]) > limit for window in windows):
            size //= 2
            windows = _tiles(tokenizer, text, size)
        return windows


def _load(name: str) -> SentenceTransformer:
    if find_spec("sentence_transformers") is None:
        raise MissingExtraError("sentence-transformers", "sentence-transformers")
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(name)
    except Exception as error:  # network, files, versions: one message for all
        what = f"the model {_public_name(name)!r} cannot be loaded ({type(error).__name__})"
        raise ServiceError(_SERVICE, what) from error


def _public_name(name: str) -> str:
    """Return a hub name as it is, and of a path its last part: identities are stored and shown."""
    return PurePath(name).name if name.startswith((".", "/", "~")) or "\\" in name else name


def _fingerprint(model: SentenceTransformer) -> str:
    """Return 8 hexadecimal digits that change when the model is trained further: all shapes, the first weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        first = tensor.detach().flatten()[:16].float().cpu().numpy()
        digest.update(f"{name}{tuple(tensor.shape)}".encode() + first.tobytes())
    return digest.hexdigest()[:8]


def _tokens(tokenizer: Any, text: str) -> Any:
    return tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False)


def _tiles(tokenizer: Any, text: str, size: int) -> list[str]:
    """Cut `text` into pieces of at most `size` tokens of its own tokenization, between words where it can be."""
    encoded = _tokens(tokenizer, text)
    offsets, words = encoded["offset_mapping"], encoded.word_ids()
    cuts, start = [0], 0
    while start + size < len(offsets):
        end = start + size
        while end > start and words[end] == words[end - 1]:
            end -= 1
        start = end if end > start else start + size
        cuts.append(offsets[start][0])
    return [text[a:b] for a, b in pairwise([*cuts, len(text)])]
