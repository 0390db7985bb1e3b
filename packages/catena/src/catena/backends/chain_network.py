"""Train the networks of the paper's scorer in torch: the rows of the encoder, the weights, passes over the lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from catena.backends.sentence_transformers import prompt_of, weight_of, windows_of
from catena.effects.services import Cancel
from catena.graph import Choices, Epoch, Texts, TrainingOptions, Vectors, initial_weights
from catena.model.errors import CancelledError, ParameterError

_AT_ONCE: Final = 64  # windows of one forward pass


Inputs: TypeAlias = Literal["queries", "paths", "nodes"]


class Encodings(Protocol):
    """Rows of vectors by their places, as tensors on the device; for those in training, with gradients."""

    dim: int
    lists_at_once: int  # so many share one backward pass; their activations are in memory together
    parameters: Mapping[str, Any]

    def rows(self, inputs: Inputs, places: NDArray[np.int64]) -> Any: ...

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
        given = {"queries": vectors.queries, "paths": vectors.paths, "nodes": vectors.nodes}
        self._rows = {k: torch.from_numpy(np.array(rows, dtype=np.float32)).to(device) for k, rows in given.items()}

    def rows(self, inputs: Inputs, places: NDArray[np.int64]) -> Any:
        return self._rows[inputs][places]

    def train(self, mode: bool) -> None:
        """Do nothing: there is nothing to train."""


class TrainedEncodings:
    """Texts as vectors of a sentence-transformers model while it is trained.

    As by `SentenceTransformerEmbedder`, no text is cut off: one that is longer than the model's window is the mean of
    the unit vectors of windows that tile it, each times its tokens, made a unit vector; each begins with the model's
    prompt.

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
        asked, told = (prompt_of(model, names) for names in (("query",), ("document", "passage", "corpus")))
        self._texts = {
            "queries": [self._windows(text, asked) for text in texts.queries],
            "paths": [self._windows(text, told) for text in texts.paths],
            "nodes": [self._windows(text, told) for text in texts.nodes],
        }

    def rows(self, inputs: Inputs, places: NDArray[np.int64]) -> Any:
        """Return one unit row per text, from its windows."""
        import torch
        from torch.nn.functional import normalize

        texts = [self._texts[inputs][place] for place in places.tolist()]
        flat, sizes = zip(*(window for windows in texts for window in windows), strict=True)
        parts = [self._forward(flat[start : start + _AT_ONCE]) for start in range(0, len(flat), _AT_ONCE)]
        rows = normalize(torch.cat(parts), dim=-1)
        rows = rows * rows.new_tensor(sizes)[:, None]
        borders = np.cumsum([0, *map(len, texts)]).tolist()
        return normalize(torch.stack([rows[start:end].sum(dim=0) for start, end in pairwise(borders)]), dim=-1)

    def train(self, mode: bool) -> None:
        """Turn dropout on or off."""
        self._model.train(mode)

    def _windows(self, text: str, prompt: str) -> list[tuple[str, int]]:
        windows = windows_of(self._model, text, prompt)
        return [(prompt + window, weight_of(self._model, window)) for window in windows]

    def _forward(self, windows: Sequence[str]) -> Any:
        model = self._model
        prepare = getattr(model, "preprocess", None) or model.tokenize  # version 6, version 5
        prepared = prepare(list(windows)).items()
        features = {name: each.to(model.device) if hasattr(each, "to") else each for name, each in prepared}
        return model(features)["sentence_embedding"]


_LONGEST: Final = 1.0  # of a gradient, by its norm


class TrainingRun:
    """One training: the weights, their optimiser, a pass over the lists, the figures of lists held out."""

    def __init__(self, choices: Choices, encodings: Encodings, options: TrainingOptions, device: Any) -> None:
        import torch

        self._choices, self._encodings, self._options, self._device = choices, encodings, options, device
        first = initial_weights(encodings.dim, options.edge_hidden, options.hidden, options.seed)
        self._network = {name: torch.from_numpy(each).to(device).requires_grad_() for name, each in first.items()}
        groups = [{"params": list(self._network.values()), "lr": options.learning_rate}]
        if encodings.parameters:
            groups.append({"params": list(encodings.parameters.values()), "lr": options.encoder_learning_rate})
        self._optimiser = torch.optim.AdamW(groups, weight_decay=options.weight_decay)
        self._named = {f"network/{name}": each for name, each in self._network.items()}
        self._named |= {f"encoder/{name}": each for name, each in encodings.parameters.items()}

    def learn(self, number: int, lists: NDArray[np.int64], cancel: Cancel | None) -> float:
        """Pass once over the lists, in an order of this epoch, and return their mean loss."""
        import torch

        order = np.random.default_rng([self._options.seed, number]).permutation(lists)
        total = 0.0
        self._encodings.train(True)
        with torch.random.fork_rng():  # dropout of an encoder draws from torch's own stream, which is the caller's
            torch.manual_seed(int(np.random.default_rng([self._options.seed, number]).integers(1 << 31)))
            for start in range(0, len(order), self._options.batch):
                if cancel is not None and cancel.is_set:
                    raise CancelledError
                total += self._step(order[start : start + self._options.batch])
                if not np.isfinite(total):
                    rates = (self._options.learning_rate, self._options.encoder_learning_rate)
                    raise ParameterError("learning rates", rates, f"lower: epoch {number} has a loss of {total}")
        return total / len(order)

    def measured(self, lists: NDArray[np.int64]) -> Epoch:
        """Return the figures of lists that are held out; ties count against the right row."""
        import torch

        if not len(lists):
            return Epoch(number=0, loss=0.0)
        self._encodings.train(False)
        losses, ranks = [], []
        with torch.no_grad():
            for part in _parts(lists, min(self._encodings.lists_at_once, 256)):
                scores, right = self._scored(part)
                losses.append(losses_of(scores, right))
                best = scores.masked_fill(~right, -torch.inf).amax(dim=1, keepdim=True)
                ranks.append(1 + ((scores >= best) & ~right & scores.isfinite()).sum(dim=1))
        rank = torch.cat(ranks).double()
        return Epoch(
            number=0,
            loss=0.0,
            validation_loss=float(torch.cat(losses).double().mean()),
            accuracy=float((rank == 1).double().mean()),
            mrr=float((1.0 / rank).mean()),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return a copy of all weights, by name."""
        return {name: each.detach().cpu().numpy().copy() for name, each in self._named.items()}

    def network_arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return a copy of the networks' weights."""
        return {name: each.detach().cpu().numpy().copy() for name, each in self._network.items()}

    def optimiser_arrays(self) -> dict[str, NDArray[Any]]:
        """Return a copy of the optimiser's moments of each weight that it has moved."""
        return {
            f"{key}/{name}": value.detach().cpu().numpy().copy()
            for name, each in self._named.items()
            for key, value in self._optimiser.state.get(each, {}).items()
        }

    def restore(
        self, weights: Mapping[str, NDArray[Any]], optimiser: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        """Set weights, and the optimiser's moments of them."""
        import torch

        with torch.no_grad():
            for name, each in self._named.items():
                each.copy_(torch.from_numpy(weights[name]))
        for key, value in (optimiser or {}).items():
            kind, name = key.split("/", 1)
            each = self._named[name]
            moment = torch.from_numpy(np.array(value))
            self._optimiser.state[each][kind] = moment if kind == "step" else moment.to(self._device)

    def _step(self, lists: NDArray[np.int64]) -> float:
        import torch

        self._optimiser.zero_grad(set_to_none=True)
        total = 0.0
        for part in _parts(lists, self._encodings.lists_at_once):
            loss = losses_of(*self._scored(part)).sum()
            (loss / len(lists)).backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(list(self._named.values()), _LONGEST)
        self._optimiser.step()
        return total

    def _scored(self, lists: NDArray[np.int64]) -> tuple[Any, Any]:
        """Return the scores of the rows of each list, and which rows are right, both of shape (lists, most rows).

        A list with fewer rows has scores of minus infinity in the rest. The formula is that of
        `catena.graph.paper_scorer.network_scores`.
        """
        import torch
        from torch.nn.functional import linear, pad

        choices, encodings, w = self._choices, self._encodings, self._network
        spans = list(zip(choices.starts[lists].tolist(), choices.starts[lists + 1].tolist(), strict=True))
        rows = np.concatenate([np.arange(start, end) for start, end in spans])
        sizes = np.array([end - start for start, end in spans])
        distinct, inverse = np.unique(choices.node[rows], return_inverse=True)
        first, dim = w["score.first"], encodings.dim
        hidden = linear(self._tensor(choices.triples[rows]), w["edge.first"], w["edge.first_bias"]).relu()
        edges = linear(hidden, w["edge.second"], w["edge.second_bias"])
        shared = linear(encodings.rows("queries", choices.question[lists]), first[:, :dim], w["score.first_bias"])
        shared = shared + linear(encodings.rows("paths", choices.path[lists]), first[:, dim : 2 * dim])
        nodes = linear(encodings.rows("nodes", distinct), first[:, 2 * dim : 3 * dim])
        inner = nodes.index_select(0, self._tensor(inverse)) + linear(edges, first[:, 3 * dim :])
        inner = inner + shared.index_select(0, self._tensor(np.repeat(np.arange(len(lists)), sizes)))
        flat = linear(inner.relu(), w["score.second"], w["score.second_bias"]).squeeze(1)
        right = self._tensor(choices.positive[rows])
        most, cuts = int(sizes.max()), [0, *np.cumsum(sizes).tolist()]
        scores = [pad(flat[a:b], (0, most - (b - a)), value=-torch.inf) for a, b in pairwise(cuts)]
        rights = [pad(right[a:b], (0, most - (b - a)), value=False) for a, b in pairwise(cuts)]
        return torch.stack(scores), torch.stack(rights)

    def _tensor(self, array: NDArray[Any]) -> Any:
        import torch

        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


def losses_of(scores: Any, right: Any) -> Any:
    """Return `-ln(sum of e^s over right rows / sum of e^s over all rows)` of each list."""
    import torch

    return scores.logsumexp(dim=1) - scores.masked_fill(~right, -torch.inf).logsumexp(dim=1)


def _parts(lists: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    return [lists[start : start + size] for start in range(0, len(lists), size)]
