"""Encode texts, numbers, vectors and words so that JSON and a server keep them unchanged, and decode them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from catena.model import digest
from catena.text import searched_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_MARK = "\uffff"  # a character that Unicode never assigns; where a text holds it, it is written as itself is: marked
_UNSENDABLE = re.compile("[\ud800-\udfff\uffff]")
_SENT = re.compile("\uffff([0-9a-f]{4})")
_NUMBER = "\uffff:"


def sendable(value: Any) -> Any:
    """Return a JSON value without lone surrogates, NaN and infinities, from which `restored` gives it back.

    Tuples come back as lists. What holds none of these is returned as it is.
    """
    if isinstance(value, str):
        return value if value.isascii() else _UNSENDABLE.sub(lambda found: f"{_MARK}{ord(found.group()):04x}", value)
    if isinstance(value, float):
        return value if isfinite(value) else f"{_NUMBER}{value!r}"
    if isinstance(value, Mapping):
        return {sendable(key): sendable(item) for key, item in value.items()}
    return [sendable(item) for item in value] if isinstance(value, (list, tuple)) else value


def restored(value: Any) -> Any:
    """Return what `sendable` was given."""
    if isinstance(value, str):
        if _MARK not in value:
            return value
        if value.startswith(_NUMBER):
            return float(value.removeprefix(_NUMBER))
        return _SENT.sub(lambda found: chr(int(found.group(1), 16)), value)
    if isinstance(value, Mapping):
        return {restored(key): restored(item) for key, item in value.items()}
    return [restored(item) for item in value] if isinstance(value, list) else value


def packed(row: NDArray[np.float32]) -> str:
    """Return a vector as the base64 string of its big-endian floats: exact, and a quarter as long as their digits.

    Source: Elasticsearch 9.3 takes it for a `dense_vector` (elastic/elasticsearch#137072).
    """
    return base64.b64encode(row.astype(">f4").tobytes()).decode("ascii")


def unpacked(value: str | Sequence[float]) -> NDArray[np.float32]:
    """Return a vector from either way of writing it.

    Raises:
        ValueError: it is neither.
    """
    import numpy as np

    if isinstance(value, str):
        return np.frombuffer(base64.b64decode(value, validate=True), ">f4").astype(np.float32)
    return np.asarray(value, np.float32)


LONGEST = 255  # UTF-16 units in a token: the server's "whitespace" analyzer cuts what is longer into several


def indexed_words(text: str, otherwise: str = "") -> tuple[str, str]:
    """Return the language of a text, "" for none, and its words as they are indexed, joined by spaces.

    Words are stems, as in the embedded library. One that the server would cut stands as a hash of itself, so that it
    counts as one word, and is found when a question says it.

    Args:
        text: a view, or a whole document.
        otherwise: its language, where it is too short to tell.
    """
    language, words = searched_words(text, otherwise)
    if 2 * max(map(len, words), default=0) > LONGEST:  # a code point is one unit or two
        words = [indexed_word(word) for word in words]
    return language, " ".join(words)


def indexed_word(word: str) -> str:
    """Return a word as it is indexed."""
    units = len(word) if word.isascii() else len(word.encode("utf-16-le", "surrogatepass")) // 2
    return word if units <= LONGEST else digest(word, length=64)
