"""How much of the machine one file may use while it is read."""

from __future__ import annotations

from dataclasses import dataclass

from catena.errors import ParameterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one document may cost; past them it ends in a named state instead of going on.

    Attributes:
        seconds: wall clock, from the first byte sent to the reading process to its last page.
        memory_bytes: address space of the reading process, where the platform can cap it (Linux).
        pages: pages of a PDF; a longer one is refused before any page is read.
        bytes: size of the file; a larger one is refused unread.
    """

    seconds: float = 60.0
    memory_bytes: int = 1_000_000_000
    pages: int = 10_000
    bytes: int = 200_000_000

    def __post_init__(self) -> None:
        for name in ("seconds", "memory_bytes", "pages", "bytes"):
            value = getattr(self, name)
            if not value > 0:
                raise ParameterError(name, value, "greater than 0")
