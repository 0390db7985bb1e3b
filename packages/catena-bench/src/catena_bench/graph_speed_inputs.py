"""Chunks grown from a seed, to build a graph of: clustered vectors, and words as frequent as those of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from catena.graph import Node
from catena.model import TITLE, Chunk, span_id

DIM = 256
CHUNKS = 10  # of a document
WORDS = 100  # of a chunk
KEYWORDS, NAMES = 5, 3  # of a chunk
_VOCABULARY = {"words": 50_000, "keywords": 20_000, "names": 100_000}  # drawn with p(rank) ~ 1 / rank
_CLUSTER = 50  # chunks about one centre
_SUBJECT = 10  # chunks of one subject, on average
_ON_SUBJECT = 0.7  # the share of keywords that are those of the subject
_SPREAD = 0.8  # length of what parts a chunk from its centre; the centre's is 1
_SAYING = 0.5  # of the chunks, the share that says the title of another document
_SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnpqrstvwxz" for vowel in "aeiou"]


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """Nodes and their vectors, of unit length, shape (nodes, 256)."""

    nodes: tuple[Node, ...]
    vectors: NDArray[np.float32]


def grown(chunks: int, seed: int = 0, *, first: int = 0) -> Grown:
    """Return so many chunks, ten to a document.

    Keywords and names are drawn, not found in the texts: finding them is not building the graph.

    Args:
        chunks: how many.
        seed: equal seeds give equal chunks.
        first: number of the first document, so that chunks can be grown beside others.
    """
    draw = np.random.default_rng((seed, first))
    documents = -(-chunks // CHUNKS)
    titles = [
        f"{_word(number).title()} {_word(number * 7 + 3).title()}" for number in range(first, first + documents)
    ]
    words, keywords, names = (
        _zipf(draw, _VOCABULARY[kind], (chunks, width))
        for kind, width in (("words", WORDS), ("keywords", KEYWORDS), ("names", NAMES))
    )
    keywords = _on_subjects(draw, keywords)
    spelled = _spelled()
    says = np.where(draw.random(chunks) < _SAYING, draw.integers(0, documents, chunks), -1)
    nodes = [
        Node(
            chunk=_chunk(first + at // CHUNKS, at % CHUNKS, titles[at // CHUNKS], spelled[words[at]], said),
            titles=(titles[at // CHUNKS],),
            keywords=tuple(dict.fromkeys(f"{word} matter" for word in spelled[keywords[at]])),
            names=tuple(dict.fromkeys(f"{word} name" for word in spelled[names[at]])),
        )
        for at, said in enumerate("" if other < 0 else titles[other] for other in says.tolist())
    ]
    return Grown(tuple(nodes), _vectors(draw, chunks))


def _chunk(document: int, position: int, title: str, words: Sequence[str], said: str) -> Chunk:
    text = " ".join((*words, said)) if said else " ".join(words)
    start = position * 10_000  # the documents have no other text: no chunk is that long
    name = f"document-{document:07d}"
    return Chunk(
        id=span_id(name, "chunk", start, start + len(text)),
        document_id=name,
        position=position,
        start=start,
        end=start + len(text),
        text=text,
        path=(title,),
        metadata={TITLE: title},
    )


def _vectors(draw: np.random.Generator, chunks: int) -> NDArray[np.float32]:
    centres = _unit(draw.standard_normal((-(-chunks // _CLUSTER), DIM), dtype=np.float32))
    apart = _unit(draw.standard_normal((chunks, DIM), dtype=np.float32))
    return _unit(centres[draw.integers(0, len(centres), chunks)] + np.float32(_SPREAD) * apart)


def _on_subjects(draw: np.random.Generator, keywords: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return keywords of which most are those of a chunk's subject, which ten chunks share, of any documents."""
    size = _VOCABULARY["keywords"]
    subjects = draw.integers(0, size, (-(-len(keywords) // _SUBJECT), KEYWORDS))
    of_subject = subjects[draw.integers(0, len(subjects), len(keywords))]
    return np.where(draw.random(keywords.shape) < _ON_SUBJECT, of_subject, keywords)


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _zipf(draw: np.random.Generator, size: int, shape: tuple[int, int]) -> NDArray[np.int64]:
    """Return numbers below `size`, number r drawn with a chance proportional to 1 / (r + 1)."""
    until = np.cumsum(1.0 / np.arange(1, size + 1))
    numbers: NDArray[np.int64] = np.searchsorted(until, draw.random(shape) * until[-1], side="right")
    return np.minimum(numbers, size - 1)


@cache
def _spelled() -> NDArray[np.str_]:
    """Return the words by their numbers."""
    return np.array([_word(number) for number in range(max(_VOCABULARY.values()))])


def _word(number: int) -> str:
    """Return a word of six letters, another one for each number below a million."""
    return "".join(_SYLLABLES[number // 100**place % 100] for place in range(3))
