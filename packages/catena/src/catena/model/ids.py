"""Derived identities: equal inputs give equal ids, in every process and on every machine."""

from __future__ import annotations

import hashlib
from uuid import UUID


def digest(*parts: str | bytes, length: int = 16) -> str:
    """Return the first `length` hexadecimal digits of the SHA-256 over the parts.

    Each part is preceded by its length, so that ("ab", "c") and ("a", "bc") differ. Lone surrogates, which
    broken files contain, are encoded as they are.
    """
    state = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        state.update(len(raw).to_bytes(8, "big"))
        state.update(raw)
    return state.hexdigest()[:length]


def span_id(document_id: str, kind: str, start: int, end: int) -> str:
    """Return the id of a slice of a document, e.g. a chunk: enrichment cannot change it."""
    return digest(document_id, kind, str(start), str(end))


def as_uuid(name: str) -> str:
    """Return the id of a store that takes nothing but UUIDs: `name` where it is one, else one derived from it.

    What is written with or without hyphens, in small or large letters, is one UUID; it is returned with hyphens,
    in small letters.
    """
    try:
        return str(UUID(name))
    except ValueError:
        return str(UUID(digest("uuid", name, length=32)))
