"""Weights as a safetensors file: arrays and what is said of them, with equal bytes for equal contents."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catena.model.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_KEY = "catena"  # safetensors writes several keys in no fixed order


def write_weights(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[np.generic]], said: Mapping[str, Any]
) -> None:
    """Write arrays and a JSON object into one file, which takes its place when it is complete.

    Raises:
        ParameterError: the file cannot be written, or the object is no JSON; what was there before still is.
    """
    import numpy as np
    from safetensors.numpy import save

    target = Path(path)
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        text = json.dumps(said, sort_keys=True, allow_nan=False)
        kept = {name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)}
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(save(kept, {_KEY: text}))
        os.replace(draft, target)
    except (OSError, TypeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ParameterError("file of weights", f"{target.name} ({reason})", "one that can be written") from None
    finally:
        with suppress(OSError):
            draft.unlink()


def read_weights(
    path: str | os.PathLike[str], *, form: str, version: int
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return what `write_weights` wrote: the arrays, and the object.

    Args:
        path: of the file.
        form: what the object must say under "format".
        version: the newest that can be read; the object says its own under "version".

    Raises:
        ParameterError: the file cannot be read, is damaged or of another format, or of a newer version.
    """
    name = Path(path).name
    arrays, said = _read(path)
    if said.get("format") != form:
        raise ParameterError("file of weights", name, f"of the format {form!r}")
    found = said.get("version")
    if not isinstance(found, int) or not 1 <= found <= version:
        raise ParameterError("file of weights", f"{name} of version {found!r}", f"of version {version} or before")
    return arrays, said


def form_of(path: str | os.PathLike[str]) -> str:
    """Return the format of a file that `write_weights` wrote; "" where it says none.

    Raises:
        ParameterError: the file cannot be read, or is damaged.
    """
    form = _read(path)[1].get("format")
    return form if isinstance(form, str) else ""


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            said: Any = json.loads((file.metadata() or {}).get(_KEY, "null"))
            arrays = {key: file.get_tensor(key) for key in sorted(file.keys())}
    except (OSError, SafetensorError, ValueError, RecursionError, TypeError) as error:
        reason = "there is none" if isinstance(error, FileNotFoundError) else type(error).__name__
        raise ParameterError(
            "file of weights", f"{Path(path).name} ({reason})", "one that can be read and was written whole"
        ) from None
    return arrays, said if isinstance(said, dict) else {}
