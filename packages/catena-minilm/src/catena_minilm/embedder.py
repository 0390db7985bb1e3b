"""Embed texts with all-MiniLM-L6-v2, whose weights are rounded to 8 bits, by onnxruntime."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from catena.backends import fitting_windows
from catena.model import ParameterError, ServiceError, mean_direction

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHIPPED: Final = Path(__file__).parent / "data"
WINDOW: Final = 256  # word pieces with the two marks around them, as sentence-transformers has it for this model
_MARKS: Final = 2
_DIM: Final = 384
_SERVICE: Final = "all-MiniLM-L6-v2"


class MiniLMEmbedder:
    """Embeds with all-MiniLM-L6-v2 as an 8-bit network: no torch, no network connection.

    Each text runs by itself, so its vector is the same to the last bit whatever its neighbours, their order and the
    number of threads. Processors of another kind round otherwise: the cosine of both vectors is about .997.

    A text longer than the model's window of 256 word pieces is not cut off: it is divided between words into windows
    that fit, and its vector is the sum of theirs, each times its word pieces, brought to unit length, as
    `catena.backends.SentenceTransformerEmbedder` has it: a short rest says little.

    Args:
        threads: of the processor for one text; 0 lets onnxruntime choose.

    Raises:
        ServiceError: a file of the model is missing or damaged.
        ParameterError: `threads` is below 0.
    """

    def __init__(self, threads: int = 0) -> None:
        if threads < 0:
            raise ParameterError("threads", threads, "0, for as many as onnxruntime chooses, or more")
        self._threads, self._turn = threads, Lock()
        self._run, self._tokenizer, told = _loaded(SHIPPED, threads)
        self.identity = f"{told['name']}/{told['version']}:{told['sha256'][:8]}"
        self.dim = _DIM

    def __repr__(self) -> str:
        return f"MiniLMEmbedder({self.identity!r})"

    def __reduce__(self) -> tuple[Callable[..., MiniLMEmbedder], tuple[int]]:
        return MiniLMEmbedder, (self._threads,)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit rows, shape (len(texts), dim), in order.

        Raises:
            ServiceError: onnxruntime failed.
        """
        with self._turn:  # batches that share the processor would all end late, and questions need not wait for them
            rows = [self.embed_query(text) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self.dim), dtype=np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return one unit vector, shape (dim,).

        Raises:
            ServiceError: onnxruntime failed.
        """
        encodable = text.encode("utf-8", "ignore").decode()  # lone surrogates, as broken PDF fonts yield them
        pieces = self._tokenizer.encode(encodable).ids
        if len(pieces) <= WINDOW:
            return self._vector(pieces)
        windows = fitting_windows(self._encoded, encodable, WINDOW - _MARKS)
        of_windows = [self._tokenizer.encode(window).ids for window in windows]
        return mean_direction(np.stack([len(ids) * self._vector(ids) for ids in of_windows]))

    def _encoded(self, text: str) -> Any:
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _vector(self, pieces: Sequence[int]) -> NDArray[np.float32]:
        try:
            (made,) = self._run(None, {"pieces": np.array([pieces], dtype=np.int64)})
        except Exception as error:  # whatever onnxruntime raises
            what = f"embedding a text of {len(pieces)} word pieces failed: {type(error).__name__}"
            raise ServiceError(_SERVICE, what) from error
        row: NDArray[np.float32] = made[0]
        return row


def _loaded(folder: Path, threads: int) -> tuple[Callable[..., Any], Any, dict[str, str]]:
    """Return what runs the network, the tokenizer, and what they are."""
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors: they are raised, too
    # Threads that wait by spinning take the processor from others: where those were busy, a text took twice as long.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        told: dict[str, str] = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # a missing file is another error for each of the three
        what = f"the files of the model cannot be read ({type(error).__name__}). Try: reinstall catena-minilm"
        raise ServiceError(_SERVICE, what) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return session.run, tokenizer, told
