"""Choices of walks as arrays, how a network is trained on them, and what its training reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Gt, Lt

from catena.model.options import check_options

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choices:
    """L lists of R rows in all; the rows of list i are `starts[i]` to `starts[i + 1]`.

    Attributes:
        question: of each list, a row of the questions' encodings, shape (L,), int64.
        path: of each list, a row of the paths' encodings, shape (L,), int64.
        starts: shape (L + 1,), int64.
        node: of each row, a row of the nodes' encodings, shape (R,), int64.
        triples: (W_struc, W_sim, W_keyword) of the edge to it, shape (R, 3), float32.
        positive: whether it is right, shape (R,), bool.
    """

    question: NDArray[np.int64]
    path: NDArray[np.int64]
    starts: NDArray[np.int64]
    node: NDArray[np.int64]
    triples: NDArray[np.float32]
    positive: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.question)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vectors:
    """What a frozen encoder made of questions, paths and nodes: rows of shape (n, dim), float32."""

    queries: NDArray[np.float32]
    paths: NDArray[np.float32]
    nodes: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Questions, paths and nodes as an encoder reads them, that is trained itself."""

    queries: Sequence[str]
    paths: Sequence[str]
    nodes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """How a network is trained.

    Attributes:
        epochs: passes over all lists, at most.
        batch: lists in one step of the optimiser.
        learning_rate: of the networks.
        encoder_learning_rate: of an encoder that is trained with them.
        weight_decay: of AdamW, for both.
        hidden: units between the layers of f_n.
        edge_hidden: units between the layers of f_r.
        validation: share of the questions that are only looked at, in [0, 1); 0 trains on all of them for all
            epochs, and keeps the last weights instead of the best.
        patience: epochs without a better mean reciprocal rank after which training ends.
        seed: of the first weights, of the split, of the order of lists, and of dropout in the encoder.
        device: "cpu", "cuda", another name that torch knows, or "auto": CUDA where there is one.
    """

    epochs: Annotated[int, Ge(1)] = 20
    batch: Annotated[int, Ge(1)] = 32
    learning_rate: Annotated[float, Gt(0), Lt(inf)] = 1e-3
    encoder_learning_rate: Annotated[float, Gt(0), Lt(inf)] = 2e-5
    weight_decay: Annotated[float, Ge(0), Lt(inf)] = 0.01
    hidden: Annotated[int, Ge(1)] = 256
    edge_hidden: Annotated[int, Ge(1)] = 64
    validation: Annotated[float, Ge(0), Lt(1)] = 0.1
    patience: Annotated[int, Ge(1)] = 3
    seed: Annotated[int, Ge(0)] = 0
    device: Literal["auto", "cpu", "cuda"] | str = "auto"

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One pass over the lists.

    Attributes:
        number: from 1.
        loss: mean over the training lists, in nats, each as it was when its batch came.
        validation_loss: mean over the validation lists, in nats, after the epoch; None without validation.
        accuracy: share of the validation lists whose best row is right; None without.
        mrr: mean over them of one over the rank of the first right row; None without.
    """

    number: int
    loss: float
    validation_loss: float | None = None
    accuracy: float | None = None
    mrr: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReport:
    """How a training went.

    Attributes:
        epochs: those that were run, in order, also in earlier runs from the same checkpoint.
        best_epoch: number of the epoch whose weights were kept, from 1.
        training_lists: lists learned from.
        validation_lists: lists only looked at, of other questions.
        stopped_early: whether patience ended it.
        seconds: of this run alone, by the wall clock.
        device: on which it ran.
    """

    epochs: tuple[Epoch, ...]
    best_epoch: int
    training_lists: int
    validation_lists: int
    stopped_early: bool
    seconds: float = field(compare=False)
    device: str

    def curves(self) -> Mapping[str, tuple[float, ...]]:
        """Return what there is to plot, by name: "epoch", "loss", and with validation the figures of it."""
        names = ("loss", "validation_loss", "accuracy", "mrr")
        rows = {name: tuple(getattr(epoch, name) for epoch in self.epochs) for name in names}
        known = {name: row for name, row in rows.items() if None not in row}
        return {"epoch": tuple(float(epoch.number) for epoch in self.epochs), **known}

    def record(self) -> dict[str, Any]:
        """Return what is worth keeping beside the weights: the same for the same training, so without its time."""
        best = next(epoch for epoch in self.epochs if epoch.number == self.best_epoch)
        return {
            "epochs": len(self.epochs),
            "best_epoch": self.best_epoch,
            "training_lists": self.training_lists,
            "validation_lists": self.validation_lists,
            "validation_accuracy": best.accuracy,
            "validation_mrr": best.mrr,
        }
