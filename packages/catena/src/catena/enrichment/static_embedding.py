"""The shipped embedder: one stored vector per word piece, summed; no key, no network, no torch.

The artefact in `catena/data/static_embedding` is made by `scripts/make_static_embedding.py`; why it looks
as it does is written in `docs/decisions/0002-static-embedding.md`.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections import defaultdict
from itertools import chain, count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from catena.model.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

SHIPPED: Final = Path(__file__).parents[1] / "data" / "static_embedding"

_SERVICE: Final = "static embedding"
_CHARACTERS_PER_BATCH: Final = 4_000_000  # looked up at once; bounds memory, not results
_PIECES_PER_SUM: Final = 65_536  # bounds the memory of one very long text: 65,536 x 256 bytes = 16 MiB
_LONGEST_PART: Final = 100  # characters; WordPiece calls anything longer unknown
_PARTS_KEPT: Final = 100_000  # in memory between calls, about 20 MB
_ASCII_PARTS: Final = re.compile(r"[a-z0-9]+|[^a-z0-9]").findall  # BERT's pre-tokenizer, on lower-case ASCII


class StaticEmbedder:
    """Embeds a text as the normalised sum of the stored vectors of its word pieces.

    `v(text) = s / |s|`, `s = sum of row(p) over the word pieces p of the text`. The rows carry their weight (a
    frequent piece has a short row), and unknown pieces count as zero. The rows are int8 on one common scale, so `s`
    is summed exactly, in integers: the vector of a text is the same to the last bit whatever its neighbours in the
    batch and the order of the batch.

    There is no window: every word counts, however long the text is. A text without any known piece (an empty one,
    say) has no direction: its row is all zeros, and its similarity to everything is 0.

    Args:
        directory: holds `vectors.npy` (int8, shape (pieces, dim)), `tokenizer.json` and `metadata.json`.

    Raises:
        ServiceError: a file is missing, or is not the one that `metadata.json` describes.
    """

    def __init__(self, directory: Path = SHIPPED) -> None:
        from tokenizers import Tokenizer  # here: the class is imported by code that may never embed

        vectors, vocabulary, metadata = _read(directory)
        self._rows: NDArray[np.int8] = np.load(io.BytesIO(vectors), allow_pickle=False)
        self._tokenizer = Tokenizer.from_buffer(vocabulary)
        self._pieces: dict[str, int] = self._tokenizer.get_vocab()
        self._known: dict[str, tuple[int, ...]] = {}  # part of a word -> piece ids; saves time only
        self.identity = f"{metadata['name']}/{metadata['version']}:{metadata['sha256'][:8]}"
        self.dim: int = self._rows.shape[1]

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit row per text (zeros where no piece is known), shape (len(texts), dim), in order."""
        sums = np.zeros((len(texts), self.dim), dtype=np.int64)
        for start, end in _batches(texts):
            for row, pieces in enumerate(self._pieces_of(texts[start:end]), start):
                for block in range(0, len(pieces), _PIECES_PER_SUM):
                    sums[row] += self._rows[pieces[block : block + _PIECES_PER_SUM]].sum(axis=0, dtype=np.int64)
        lengths = np.sqrt((sums * sums).sum(axis=1, keepdims=True, dtype=np.int64))
        vectors: NDArray[np.float32] = (sums / np.maximum(lengths, 1)).astype(np.float32)
        return vectors

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the unit vector of the text (zeros where no piece is known), shape (dim,)."""
        row: NDArray[np.float32] = self.embed_documents([text])[0]
        return row

    def _pieces_of(self, texts: Sequence[str]) -> Iterator[NDArray[np.intp]]:
        """Yield the piece ids of each text: its words are looked up among the distinct words of the batch."""
        words = [text.split() for text in texts]
        number: defaultdict[str, int] = defaultdict(count().__next__)  # distinct word -> 0-based number
        in_text = np.fromiter(map(number.__getitem__, chain.from_iterable(words)), dtype=np.intp)
        cut = [self._cut(word) for word in number]
        ids = np.fromiter(chain.from_iterable(cut), dtype=np.intp)
        sizes = np.fromiter(map(len, cut), dtype=np.intp)
        first = np.cumsum(sizes) - sizes  # where the pieces of a distinct word start in `ids`
        # From words to pieces: the k-th piece of a word w is ids[first[w] + k].
        repeats = sizes[in_text]
        ends = np.cumsum(repeats)
        flat = ids[np.repeat(first[in_text] - (ends - repeats), repeats) + np.arange(repeats.sum())]
        borders = np.concatenate(([0], ends))[np.cumsum([0, *map(len, words)])]
        for start, end in pairwise(borders):
            yield flat[start:end]

    def _cut(self, word: str) -> list[int]:
        """Return the ids of the pieces of a word without white space, as `tokenizer.json` defines them.

        Most words are plain ASCII, which takes no Unicode tables and is therefore cut here: faster than asking
        the tokenizer, and without its pool of threads, which a later fork would not survive.
        """
        if not (word.isascii() and word.isprintable()):
            encodable = word.encode("utf-8", "ignore").decode()  # lone surrogates, as broken PDF fonts yield them
            ids: list[int] = self._tokenizer.encode(encodable, add_special_tokens=False).ids
            return ids
        if len(self._known) >= _PARTS_KEPT:
            self._known = {}  # a new one, not emptied: another thread may be reading the old one
        known = self._known
        found: list[int] = []
        for part in _ASCII_PARTS(word.lower()):
            if len(part) > _LONGEST_PART:
                continue
            if (pieces := known.get(part)) is None:
                pieces = known[part] = self._word_pieces(part)
            found += pieces
        return found

    def _word_pieces(self, part: str) -> tuple[int, ...]:
        """WordPiece: the longest known piece from the left, again and again; a rest unknown, the whole unknown."""
        found: list[int] = []
        start, prefix = 0, ""
        while start < len(part):
            for end in range(len(part), start, -1):
                if (piece := self._pieces.get(prefix + part[start:end])) is not None:
                    break
            else:
                return ()
            found.append(piece)
            start, prefix = end, "##"
        return tuple(found)


def _batches(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield half-open ranges that tile `texts`, each of at most `_CHARACTERS_PER_BATCH` or of one longer text."""
    start = characters = 0
    for position, text in enumerate(texts):
        if position > start and characters + len(text) > _CHARACTERS_PER_BATCH:
            yield start, position
            start, characters = position, 0
        characters += len(text)
    if start < len(texts):
        yield start, len(texts)


def content_hash(vectors: bytes, vocabulary: bytes) -> str:
    """Return the SHA-256 of the two files that decide every vector, in hexadecimal."""
    return hashlib.sha256(vectors + vocabulary).hexdigest()


def _read(directory: Path) -> tuple[bytes, bytes, dict[str, str]]:
    try:
        vectors, vocabulary, described = (
            (directory / name).read_bytes() for name in ("vectors.npy", "tokenizer.json", "metadata.json")
        )
    except OSError as error:
        missing = Path(error.filename or directory).name
        what = f"{missing} cannot be read ({error.strerror}). Try: reinstall catena-core"
        raise ServiceError(_SERVICE, what) from error
    try:
        metadata: dict[str, str] = json.loads(described)
        intact = metadata["sha256"] == content_hash(vectors, vocabulary)
    except (ValueError, KeyError, TypeError) as error:
        raise ServiceError(_SERVICE, "metadata.json is damaged. Try: reinstall catena-core") from error
    if not intact:
        raise ServiceError(_SERVICE, "the files are not those metadata.json describes. Try: reinstall catena-core")
    return vectors, vocabulary, metadata
