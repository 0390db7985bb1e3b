"""Any sentence-transformers model as an embedder, any cross-encoder as a reranker: no text is cut off."""

from __future__ import annotations

import hashlib
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np

from catena.effects.models import turn_of
from catena.model.errors import MissingExtraError, ParameterError, ServiceError
from catena.model.vectors import mean_direction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from sentence_transformers import CrossEncoder, SentenceTransformer

_SERVICE: Final = "sentence-transformers"


class _Encoder:
    """A sentence-transformers model over windows of texts, asked by one thread at a time."""

    work, unit = "embedding", ""
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, model: str | SentenceTransformer, *, batch_size: int = 32) -> None:
        self._model, name = _loaded(model, "SentenceTransformer")
        self._turn = turn_of(self._model)
        self._batch_size = batch_size
        self.identity = f"{name}{self.unit}"

    def _of_documents(self, texts: Sequence[str]) -> list[Any]:
        return self._encoded(texts, self._model.encode_document, ("document", "passage", "corpus"))

    def _of_query(self, text: str) -> Any:
        return self._encoded([text], self._model.encode_query, ("query",))[0]

    def _encoded(self, texts: Sequence[str], encode: Callable[..., Any], prompt_names: tuple[str, ...]) -> list[Any]:
        """Return per text what the model makes of each of its windows."""
        prompt = prompt_of(self._model, prompt_names)
        try:
            with self._turn:
                windows = [windows_of(self._model, text, prompt) for text in texts]
                flat = [window for group in windows for window in group]
                given = encode(flat, batch_size=self._batch_size, show_progress_bar=False, **self.options)
                made = self._made(given, prompt, flat)
        except Exception as error:  # whatever torch or a model's own code raises
            raise ServiceError(_SERVICE, f"{self.work} {len(texts)} texts failed: {type(error).__name__}") from error
        return [made[start:end] for start, end in pairwise(np.cumsum([0, *map(len, windows)]))]

    def _made(self, given: Any, prompt: str, windows: Sequence[str]) -> Any:
        return given


class SentenceTransformerEmbedder(_Encoder):
    """Embeds with a sentence-transformers model, through its document and query prompts where it has them.

    A text longer than the model's window (`max_seq_length` tokens, less the special tokens and the prompt) is not
    truncated: it is cut between words into windows that fit, and `v(text) = m / |m|`, `m` the sum over the windows of
    their unit vectors, each times its tokens: a short rest says little. A mean blurs: chunks cut below
    `max_seq_length` are each one window, and ranking a long text by its best chunk is then what "scored by its best
    window" means.

    Args:
        model: a loaded model, or the name or path of one.
        batch_size: windows per forward pass.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ServiceError: the model cannot be loaded.
    """

    options: ClassVar[dict[str, Any]] = {"normalize_embeddings": True}

    def __init__(self, model: str | SentenceTransformer, *, batch_size: int = 32) -> None:
        super().__init__(model, batch_size=batch_size)
        self.dim = len(self.embed_query("dimension"))

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit rows, shape (len(texts), dim), in order."""
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        return np.stack([mean_direction(vectors) for vectors in self._of_documents(texts)])

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return one unit vector, shape (dim,)."""
        return mean_direction(self._of_query(text))

    def _made(self, given: Any, prompt: str, windows: Sequence[str]) -> Any:
        return given * np.array([[weight_of(self._model, window)] for window in windows], np.float32)


class SentenceTransformerTokenEmbedder(_Encoder):
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

    work, unit = "embedding the tokens of", ";tokens"
    options: ClassVar[dict[str, Any]] = {"output_value": "token_embeddings"}

    def embed_document_tokens(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Return per text, in order, unit rows of shape (tokens, dim).

        Raises:
            ServiceError: the model failed.
        """
        return [np.concatenate(rows) for rows in self._of_documents(texts)] if texts else []

    def embed_query_tokens(self, text: str) -> NDArray[np.float32]:
        """Return unit rows, shape (tokens, dim).

        Raises:
            ServiceError: the model failed.
        """
        rows: NDArray[np.float32] = np.concatenate(self._of_query(text))
        return rows

    def _made(self, given: Any, prompt: str, windows: Sequence[str]) -> list[NDArray[np.float32]]:
        return [self._own(array, prompt, window) for array, window in zip(given, windows, strict=True)]

    def _own(self, given: Any, prompt: str, window: str) -> NDArray[np.float32]:
        """Return the unit rows of a window's own tokens: without special ones and without the prompt's."""
        marks = self._model.tokenizer(
            prompt + window, truncation=True, max_length=self._model.max_seq_length, return_special_tokens_mask=True
        )["special_tokens_mask"]
        rows = given.detach().float().cpu().numpy()
        own = rows[np.array(marks, bool) == 0][_size(self._model, prompt) :]
        lengths = np.linalg.norm(own, axis=1, keepdims=True)
        unit: NDArray[np.float32] = own / np.where(lengths > 0, lengths, 1.0)
        return unit


class CrossEncoderReranker:
    """Scores with a sentence-transformers cross-encoder, long texts by their best window.

    A score is `sigmoid(t) = 1 / (1 + e^-t)` of the model's logit t, in (0, 1), or t itself. A text that does not
    fit beside the question is not truncated: it is cut between words into windows that tile it, and scores as the
    best of them. The tokens of a pair and of a default prompt are counted, those of a chat template are not.

    Args:
        model: a loaded model, or the name or path of one; with one label.
        batch_size: pairs per forward pass.
        logits: return t, of any size and sign, as `catena.segments`'s `Logistic` wants it.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ServiceError: the model cannot be loaded.
        ParameterError: the model has several labels, which make no ranking.
    """

    def __init__(self, model: str | CrossEncoder, *, batch_size: int = 32, logits: bool = False) -> None:
        self._model, name = _loaded(model, "CrossEncoder")
        if (labels := int(self._model.config.num_labels)) != 1:
            raise ParameterError("labels of the model", labels, "1: its score is what texts are ranked by")
        self._batch_size, self._logits = batch_size, logits
        self._turn = turn_of(self._model)  # version 5 keeps the activation it is given, too
        self.identity = f"{name};logits" if logits else name

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Return one score per text, in order: a probability, or a logit if the reranker was made so.

        Raises:
            ParameterError: the question leaves less than a quarter of the model's window to a text.
            ServiceError: the model failed.
        """
        if not texts:
            return ()
        with self._turn:
            encode = partial(tokens_of, self._model.tokenizer)
            windows = [fitting_windows(encode, text, self._room(query)) for text in texts]
            values = self._values([(query, window) for group in windows for window in group])
        borders = np.cumsum([0, *map(len, windows)])
        return tuple(float(values[start:end].max()) for start, end in pairwise(borders))

    def _room(self, query: str) -> int:
        """Return how many tokens of a text fit beside the question."""
        model, tokenizer = self._model, self._model.tokenizer
        limit = getattr(model, "max_seq_length", None) or tokenizer.model_max_length  # version 6, version 5
        prompt = (getattr(model, "prompts", None) or {}).get(getattr(model, "default_prompt_name", None), "")
        taken = tokenizer.num_special_tokens_to_add(pair=True)
        taken += sum(len(tokens_of(tokenizer, part).ids) for part in (query, prompt) if part)
        if limit - taken < limit // 4:
            most = limit - limit // 4
            raise ParameterError("tokens of question, prompt and marks", taken, f"at most {most} of {limit}")
        return int(limit - taken)

    def _values(self, pairs: list[tuple[str, str]]) -> NDArray[np.float64]:
        from torch.nn import Identity

        own = self._model.activation_fn
        try:
            raw = self._model.predict(
                pairs, batch_size=self._batch_size, show_progress_bar=False, activation_fn=Identity()
            )
            values: NDArray[np.float64] = np.asarray(raw, dtype=np.float64).reshape(len(pairs))
        except Exception as error:  # whatever torch or a model's own code raises
            raise ServiceError(_SERVICE, f"scoring {len(pairs)} texts failed: {type(error).__name__}") from error
        finally:
            self._model.activation_fn = own
        return values if self._logits else np.exp(-np.logaddexp(0.0, -values))


def _loaded(model: Any, kind: Literal["SentenceTransformer", "CrossEncoder"]) -> tuple[Any, str]:
    """Return a model, loaded where it is a name, and the identity of its texts' scores or vectors."""
    loaded = load_model(model, kind) if isinstance(model, str) else model
    name = model if isinstance(model, str) else str(model.model_card_data.base_model or "model")
    return loaded, f"{_SERVICE}/{public_name(name)}@{fingerprint(loaded)}"


def load_model(name: str, kind: Literal["SentenceTransformer", "CrossEncoder"]) -> Any:
    """Return the model of this name or path.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ServiceError: the model cannot be loaded.
    """
    return load_local(_SERVICE, lambda package: getattr(package, kind)(name), public_name(name))


def load_local(service: str, load: Callable[[Any], Any], shown: str, *, kind: str = "model", hint: str = "") -> Any:
    """Return what a package on this machine loads.

    Args:
        service: the name of the package, and of our extra with it.
        load: is given the package.
        shown: the name of what is loaded, for the error.
        kind: of that.
        hint: at the end of the error.

    Raises:
        MissingExtraError: the package is not installed.
        ServiceError: it cannot be loaded.
    """
    module = service.replace("-", "_")
    if find_spec(module) is None:
        raise MissingExtraError(service, f"catena-core[{service}]")
    package = import_module(module)
    try:
        return load(package)
    except Exception as error:  # network, files, versions: one message for all
        what = f"the {kind} {shown!r} cannot be loaded ({type(error).__name__}){hint}"
        raise ServiceError(service, what) from error


def public_name(name: str) -> str:
    """Return a hub name as it is, and of a path its last part: identities are stored and shown."""
    return PurePath(name).name if name.startswith((".", "/", "~")) or "\\" in name else name


def fingerprint(model: SentenceTransformer) -> str:
    """Return 8 hexadecimal digits that change when the model is trained further: all shapes, the first weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        first = tensor.detach().flatten()[:16].float().cpu().numpy()
        digest.update(f"{name}{tuple(tensor.shape)}".encode() + first.tobytes())
    return digest.hexdigest()[:8]


def tokens_of(tokenizer: Any, text: str) -> Any:
    """Return all tokens of a text and their places in it, without special ones, as a `tokenizers.Encoding`."""
    return tokenizer(text, add_special_tokens=False, truncation=False, verbose=False).encodings[0]


def prompt_of(model: Any, names: Sequence[str]) -> str:
    """Return the prompt that a model has under the first of these names, "" for none."""
    return next((model.prompts[name] for name in names if model.prompts.get(name)), "")


def windows_of(model: Any, text: str, prompt: str) -> list[str]:
    """Cut a text between words into pieces that tile it and that each fit the model's window behind the prompt."""
    if model.max_seq_length is None:
        return [text]
    taken = model.tokenizer.num_special_tokens_to_add() + _size(model, prompt)
    return fitting_windows(partial(tokens_of, model.tokenizer), text, max(1, model.max_seq_length - taken))


def weight_of(model: Any, window: str) -> int:
    """Return how much a window counts in the mean of a text's: its tokens without special ones, 1 if it has none."""
    return max(1, _size(model, window))


def _size(model: Any, text: str) -> int:
    return len(tokens_of(model.tokenizer, text).ids) if text else 0


def fitting_windows(encode: Callable[[str], Any], text: str, limit: int) -> list[str]:
    """Cut a text between words into pieces that tile it, of at most `limit` tokens each.

    Args:
        encode: returns the `tokenizers.Encoding` of a text, without special tokens and not cut off.
        text: of any length.
        limit: >= 1.
    """
    size = limit
    windows = _tiles(encode(text), text, size)
    # Cut inside a word longer than a window, its rest may make more tokens than before: then cut finer.
    while size > 1 and any(len(encode(window).ids) > limit for window in windows):
        size //= 2
        windows = _tiles(encode(text), text, size)
    return windows


def _tiles(encoded: Any, text: str, size: int) -> list[str]:
    """Cut `text` into pieces of at most `size` tokens of its own tokenization, between words where it can be."""
    offsets, words = encoded.offsets, encoded.word_ids
    cuts, start = [0], 0
    while start + size < len(offsets):
        end = start + size
        while end > start and words[end] == words[end - 1]:
            end -= 1
        start = end if end > start else start + size
        cuts.append(offsets[start][0])
    return [text[a:b] for a, b in pairwise([*cuts, len(text)])]
