"""The checkpoint of a training: one file, from which a run that broke off goes on to the very same weights."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.backends.sentence_transformers import fingerprint
from catena.graph.choices import Epoch, Texts
from catena.graph.weights_file import read_weights, write_weights
from catena.model.errors import ParameterError
from catena.model.ids import digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from catena.backends.chain_run import Run
    from catena.graph.choices import Choices, TrainingOptions, Vectors

CHECKPOINT = "checkpoint.safetensors"
"""Within the folder of a training."""
_FORMAT, _VERSION = "catena-chain-training", 1


class Checkpoint:
    """One file in the folder of a training, replaced as a whole after each epoch."""

    def __init__(self, folder: str | Path | None, name: str) -> None:
        self._path = None if folder is None else Path(folder) / CHECKPOINT
        self._name = name

    def restored(self, run: Run) -> tuple[tuple[Epoch, ...], dict[str, NDArray[Any]]]:
        """Put a run where the file left it; return the epochs so far and the best weights of them."""
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

    def write(self, run: Run, epochs: tuple[Epoch, ...], best: Mapping[str, NDArray[Any]]) -> None:
        """Keep a run after an epoch; the file is whole at any time."""
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
