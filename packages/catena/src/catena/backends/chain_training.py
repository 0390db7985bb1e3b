"""Train the networks of the paper's scorer with torch, and their encoder if asked; a run that broke off goes on."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from catena.backends.chain_network import Encodings, FrozenEncodings, TrainedEncodings, TrainingRun
from catena.backends.sentence_transformers import fingerprint, load_model
from catena.effects.services import Cancel
from catena.graph import Choices, Epoch, Texts, TrainingOptions, TrainingReport, Vectors, read_weights, write_weights
from catena.model import MissingExtraError, ParameterError, ServiceError, digest

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


ENCODER = "encoder"
"""Within the folder of a training: the folder of the encoder that was trained."""
_SPLIT: Final = 1 << 32  # a stream of random numbers beside those of the epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedNetwork:
    """The best weights of a training, how it went, and the encoder, if that was trained as well."""

    weights: Mapping[str, NDArray[np.float32]]
    report: TrainingReport
    encoder: SentenceTransformer | None = None


def train_network(
    choices: Choices,
    inputs: Vectors | Texts,
    options: TrainingOptions = TrainingOptions(),  # noqa: B008 - frozen
    *,
    encoder: str | SentenceTransformer | None = None,
    folder: str | Path | None = None,
    progress: Callable[[Epoch], None] | None = None,
    cancel: Cancel | None = None,
) -> TrainedNetwork:
    """Train by AdamW on `-ln(sum of e^s over right rows / sum of e^s over all rows)`, the mean over lists.

    Questions are split by a seeded draw; the weights with the best mean reciprocal rank on those that were not
    learned from are kept. On one device, and with one number of threads, equal inputs give equal weights, also when
    the run was broken off after any epoch and called again with the same folder; more `epochs` then go on from there.

    Args:
        choices: the lists.
        inputs: vectors of a frozen encoder, or texts, and the encoder is trained.
        options: how.
        encoder: of texts: a model, which is copied, or its name or path.
        folder: for the checkpoint, and for the encoder that was trained (`encoder/`); None keeps neither.
        progress: told of each epoch.
        cancel: stops the run between two batches; the checkpoint of the last whole epoch is kept.

    Raises:
        MissingExtraError: torch, or for texts sentence-transformers, is not installed.
        ParameterError: there are too few lists or questions, the device is not there, the folder holds the checkpoint
            of another training, or the loss stopped being a number.
        CancelledError: the caller stopped it.
        ServiceError: torch failed, as when memory runs out.
    """
    if find_spec("torch") is None:
        raise MissingExtraError("torch", "catena-core[train]")
    learned, held_out = split_lists(choices, options)
    start = time.perf_counter()
    try:
        device = _device(options.device)
        model = _model(encoder, device) if isinstance(inputs, Texts) else None
        encodings: Encodings = (
            TrainedEncodings(model, inputs) if isinstance(inputs, Texts) else FrozenEncodings(inputs, device)
        )
        run = TrainingRun(choices, encodings, options, device)
        kept = Checkpoint(folder, training_name(choices, inputs, options, model))
        epochs, best = kept.restored(run)
        while len(epochs) < options.epochs and not _patient_no_more(epochs, options):
            loss = run.learn(len(epochs) + 1, learned, cancel)
            epoch = replace(run.measured(held_out), number=len(epochs) + 1, loss=loss)
            epochs = (*epochs, epoch)
            if best_epoch(epochs) == epoch.number:
                best = run.arrays()
            kept.write(run, epochs, best)
            if progress is not None:
                progress(epoch)
        run.restore(best)
    except RuntimeError as error:  # of torch: memory, kernels, devices
        saved = "the last checkpoint is kept" if folder is not None else "nothing was kept"
        first = str(error).split("\n", maxsplit=1)[0][:200]
        raise ServiceError("torch", f"training failed ({type(error).__name__}: {first}); {saved}") from error
    if model is not None:
        model.eval()
        if folder is not None:
            model.save(str(Path(folder) / ENCODER), create_model_card=False)
    report = TrainingReport(
        epochs=epochs,
        best_epoch=best_epoch(epochs),
        training_lists=len(learned),
        validation_lists=len(held_out),
        stopped_early=_patient_no_more(epochs, options),
        seconds=time.perf_counter() - start,
        device=str(device),
    )
    return TrainedNetwork(weights=run.network_arrays(), report=report, encoder=model)


def split_lists(choices: Choices, options: TrainingOptions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split the lists into those to learn from and those held out, ascending: no question has lists in both.

    Raises:
        ParameterError: there is no list, or a split leaves no question to learn from.
    """
    questions = np.unique(choices.question)
    if not len(questions):
        raise ParameterError("training lists", 0, "at least one")
    aside = 0 if options.validation == 0 else max(1, round(options.validation * len(questions)))
    if aside >= len(questions):
        raise ParameterError("questions with training lists", len(questions), f"more than {aside}, or validation=0")
    drawn = np.random.default_rng([options.seed, _SPLIT]).permutation(questions)[:aside]
    held_out = np.isin(choices.question, drawn)
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _patient_no_more(epochs: tuple[Epoch, ...], options: TrainingOptions) -> bool:
    return bool(epochs) and len(epochs) - best_epoch(epochs) >= options.patience


def _device(name: str) -> Any:
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ParameterError("device", name, "the name of a device that torch knows, or 'auto'") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ParameterError("device", name, "'cpu' or 'auto': torch sees no CUDA device here")
    return device


def _model(encoder: str | SentenceTransformer | None, device: Any) -> Any:
    if encoder is None:
        raise ParameterError("encoder", None, "a sentence-transformers model, which is to be trained on the texts")
    model: Any = load_model(encoder, "SentenceTransformer") if isinstance(encoder, str) else copy.deepcopy(encoder)
    return model.to(device)


CHECKPOINT = "checkpoint.safetensors"
"""Within the folder of a training."""
_FORMAT, _VERSION = "catena-chain-training", 1


class Checkpoint:
    """One file in the folder of a training, replaced as a whole after each epoch."""

    def __init__(self, folder: str | Path | None, name: str) -> None:
        self._path = None if folder is None else Path(folder) / CHECKPOINT
        self._name = name

    def restored(self, run: TrainingRun) -> tuple[tuple[Epoch, ...], dict[str, NDArray[Any]]]:
        """Restore a run from the file; return the epochs so far and the best weights of them."""
        if self._path is None or not self._path.exists():
            return (), run.arrays()
        arrays, said = read_weights(self._path, form=_FORMAT, version=_VERSION)
        if said.get("training") != self._name:
            allowed = "the one of a training of equal lists, encoder and options, or empty"
            raise ParameterError("folder", self._path.parent.name, allowed)
        parts: dict[str, dict[str, NDArray[Any]]] = {"now": {}, "best": {}, "optimiser": {}}
        for key, array in arrays.items():
            part, name = key.split("/", 1)
            parts[part][name] = array
        run.restore(parts["now"], parts["optimiser"])
        return tuple(Epoch(**epoch) for epoch in said["epochs"]), parts["best"] or parts["now"]

    def write(self, run: TrainingRun, epochs: tuple[Epoch, ...], best: Mapping[str, NDArray[Any]]) -> None:
        """Write a run after an epoch; the file is whole at any time."""
        if self._path is None:
            return
        parts = {"now": run.arrays(), "optimiser": run.optimiser_arrays()}
        if best_epoch(epochs) != epochs[-1].number:
            parts["best"] = dict(best)
        arrays = {f"{part}/{name}": array for part, named in parts.items() for name, array in named.items()}
        told = [asdict(epoch) for epoch in epochs]
        said = {"format": _FORMAT, "version": _VERSION, "training": self._name, "epochs": told}
        write_weights(self._path, arrays, said)


def best_epoch(epochs: tuple[Epoch, ...]) -> int:
    """Return the number of the first epoch with the best mean reciprocal rank; of the last one without validation."""
    if epochs[-1].mrr is None:
        return epochs[-1].number
    return max(epochs, key=lambda epoch: (epoch.mrr or 0.0, -epoch.number)).number


def training_name(choices: Choices, inputs: Vectors | Texts, options: TrainingOptions, model: Any) -> str:
    """Return a name that two trainings share if one may go on from the checkpoint of the other."""
    arrays = [getattr(choices, name) for name in ("question", "path", "starts", "node", "triples", "positive")]
    rows = [inputs.queries, inputs.paths, inputs.nodes]
    encoder = "" if model is None else fingerprint(model)
    lasting = {name: value for name, value in asdict(options).items() if name not in ("epochs", "patience", "device")}
    told = [digest(*each) if isinstance(inputs, Texts) else np.asarray(each).tobytes() for each in rows]
    return digest(encoder, str(sorted(lasting.items())), *(array.tobytes() for array in arrays), *told)
