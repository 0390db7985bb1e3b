"""What the networks of the paper's scorer are trained on: a frozen encoder's vectors, or one in training."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from catena.backends.sentence_transformers import fitting_windows, tokens_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from catena.graph.choices import Texts, Vectors

_AT_ONCE: Final = 64  # windows of one forward pass


class Encodings(Protocol):
    """Rows of vectors by their places, as tensors on the device; for those in training, with gradients."""

    dim: int
    lists_at_once: int  # so many share one backward pass; their activations are in memory together
    parameters: Mapping[str, Any]

    def queries(self, places: NDArray[np.int64]) -> Any: ...

    def paths(self, places: NDArray[np.int64]) -> Any: ...

    def nodes(self, places: NDArray[np.int64]) -> Any: ...

    def train(self, mode: bool) -> None: ...


class FrozenEncodings:
    """Vectors as they are.

    Args:
        vectors: of questions, paths and nodes.
        device: of torch.
    """

    def __init__(self, vectors: Vectors, device: Any) -> None:
        import torch

        self.dim, self.lists_at_once = vectors.nodes.shape[1], 1 << 30
        self.parameters: Mapping[str, Any] = {}
        self._queries, self._paths, self._nodes = (
            torch.from_numpy(np.array(rows, dtype=np.float32)).to(device)
            for rows in (vectors.queries, vectors.paths, vectors.nodes)
        )

    def queries(self, places: NDArray[np.int64]) -> Any:
        return self._queries[places]

    def paths(self, places: NDArray[np.int64]) -> Any:
        return self._paths[places]

    def nodes(self, places: NDArray[np.int64]) -> Any:
        return self._nodes[places]

    def train(self, mode: bool) -> None:
        """Do nothing: there is nothing to train."""


class TrainedEncodings:
    """What a sentence-transformers model makes of texts while it is trained.

    As by `SentenceTransformerEmbedder`, no text is cut off: one that is longer than the model's window is the mean of
    the unit vectors of windows that tile it, made a unit vector; the model's prompts stand before each.

    Args:
        model: on the device of the training; its weights are changed by it.
        texts: of questions, paths and nodes.
    """

    def __init__(self, model: Any, texts: Texts) -> None:
        self._model = model
        self.lists_at_once = 1
        size = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension  # 6, 5
        self.dim = int(size())
        self.parameters: Mapping[str, Any] = {
            name: each for name, each in model.named_parameters() if each.requires_grad
        }
        asked, told = (_prompt(model, names) for names in (("query",), ("document", "passage", "corpus")))
        self._queries = [self._windows(text, asked) for text in texts.queries]
        self._paths = [self._windows(text, told) for text in texts.paths]
        self._nodes = [self._windows(text, told) for text in texts.nodes]

    def queries(self, places: NDArray[np.int64]) -> Any:
        return self._encoded([self._queries[place] for place in places.tolist()])

    def paths(self, places: NDArray[np.int64]) -> Any:
        return self._encoded([self._paths[place] for place in places.tolist()])

    def nodes(self, places: NDArray[np.int64]) -> Any:
        return self._encoded([self._nodes[place] for place in places.tolist()])

    def train(self, mode: bool) -> None:
        """Turn dropout on or off."""
        self._model.train(mode)

    def _windows(self, text: str, prompt: str) -> list[str]:
        if self._model.max_seq_length is None:
            return [prompt + text]
        tokenizer = self._model.tokenizer
        taken = tokenizer.num_special_tokens_to_add()
        taken += len(tokens_of(tokenizer, prompt)["input_ids"]) if prompt else 0
        room = max(1, self._model.max_seq_length - taken)
        return [prompt + window for window in fitting_windows(tokenizer, text, room)]

    def _encoded(self, texts: Sequence[Sequence[str]]) -> Any:
        """Return one unit row per text, from its windows."""
        import torch
        from torch.nn.functional import normalize

        flat = [window for windows in texts for window in windows]
        parts = [self._forward(flat[start : start + _AT_ONCE]) for start in range(0, len(flat), _AT_ONCE)]
        rows = normalize(torch.cat(parts), dim=-1)
        borders = np.cumsum([0, *map(len, texts)]).tolist()
        return normalize(torch.stack([rows[start:end].mean(dim=0) for start, end in pairwise(borders)]), dim=-1)

    def _forward(self, windows: list[str]) -> Any:
        model = self._model
        prepare = getattr(model, "preprocess", None) or model.tokenize  # version 6, version 5
        features = {
            name: value.to(model.device) if hasattr(value, "to") else value
            for name, value in prepare(windows).items()
        }
        return model(features)["sentence_embedding"]


def _prompt(model: Any, names: Sequence[str]) -> str:
    return next((model.prompts[name] for name in names if model.prompts.get(name)), "")
