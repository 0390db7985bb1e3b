"""Frames on the pipes between a reading process and its parent: two lengths, JSON, then raw bytes.

No pickle: what comes back was made by a process that read an untrusted file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any

HEADER = 8  # bytes of each of the two lengths, big-endian
MAX_FRAME = 64_000_000  # bytes of the JSON of one frame; the fullest page gives some 100,000


def write_frame(pipe: IO[bytes], value: Mapping[str, Any], data: bytes = b"") -> None:
    """Send one JSON object, and raw bytes with it; the caller flushes the pipe."""
    told = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    pipe.write(len(told).to_bytes(HEADER, "big") + len(data).to_bytes(HEADER, "big") + told)
    if data:
        pipe.write(data)


def read_frame(pipe: IO[bytes], at_most: int) -> tuple[dict[str, Any], int] | None:
    """Return the next JSON object and the size of its frame, or None at the end of the pipe (also inside a frame).

    Raw bytes that came with it stand under "data".

    Raises:
        ValueError: it is longer than `MAX_FRAME`, has more than `at_most` raw bytes, or is no frame.
    """
    header = _exactly(pipe, 2 * HEADER)
    if header is None:
        return None
    lengths = int.from_bytes(header[:HEADER], "big"), int.from_bytes(header[HEADER:], "big")
    if lengths[0] > MAX_FRAME or lengths[1] > at_most:
        raise ValueError(f"a frame of {lengths[0]} and {lengths[1]} bytes")
    told, data = _exactly(pipe, lengths[0]), _exactly(pipe, lengths[1])
    if told is None or data is None:
        return None
    value = json.loads(told)
    if not isinstance(value, dict):
        raise ValueError("a frame holds one JSON object")  # noqa: TRY004  the pipe is broken, not a type
    if data:
        value["data"] = data
    return value, len(told) + len(data)


def _exactly(pipe: IO[bytes], length: int) -> bytes | None:
    """Read in pieces: an unbuffered pipe gives what it has."""
    parts: list[bytes] = []
    while length > 0:
        part = pipe.read(length)
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
