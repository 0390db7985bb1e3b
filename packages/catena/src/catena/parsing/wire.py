"""Frames on the pipes between a reading process and its parent: a length, then JSON or raw bytes.

No pickle: what comes back was made by a process that read an untrusted file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any

HEADER = 8  # bytes of the length, big-endian
MAX_FRAME = 64_000_000  # bytes of one reply; the fullest page gives some 100,000


def write_frame(pipe: IO[bytes], value: Mapping[str, Any]) -> None:
    """Send one JSON object."""
    write_bytes(pipe, json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii"))


def write_bytes(pipe: IO[bytes], data: bytes) -> None:
    """Send raw bytes."""
    pipe.write(len(data).to_bytes(HEADER, "big"))
    pipe.write(data)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> tuple[dict[str, Any], int] | None:
    """Return the next JSON object and its size in bytes, or None at the end of the pipe."""
    data = read_bytes(pipe, MAX_FRAME)
    if data is None:
        return None
    value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError("a frame holds one JSON object")  # noqa: TRY004  the pipe is broken, not a type
    return value, len(data)


def read_bytes(pipe: IO[bytes], at_most: int) -> bytes | None:
    """Return the bytes of the next frame, or None at the end of the pipe (also in the middle of a frame).

    Raises:
        ValueError: the frame is longer than `at_most` bytes.
    """
    header = _exactly(pipe, HEADER)
    if header is None:
        return None
    length = int.from_bytes(header, "big")
    if length > at_most:
        raise ValueError(f"a frame of {length} bytes")
    return _exactly(pipe, length)


def _exactly(pipe: IO[bytes], length: int) -> bytes | None:
    """Read in pieces: an unbuffered pipe gives what it has."""
    parts: list[bytes] = []
    while length > 0:
        part = pipe.read(length)
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
