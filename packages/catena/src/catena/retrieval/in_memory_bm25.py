"""BM25 over texts in memory, fitted once: the words of the lexical route as something that scores any view."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import log1p
from typing import TYPE_CHECKING

import numpy as np

from catena.model.errors import ParameterError
from catena.text.words import tokenise

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Bm25Scorer:
    """Scores n texts by BM25 with Lucene's idf; a text that holds no word of the query does not match.

    `score(q, d) = sum over words w of q of idf(w) * tf(w, d) * (k1 + 1) / (tf(w, d) + k1 * (1 - b + b * |d| / avg))`
    with `idf(w) = log(1 + (N - n(w) + 0.5) / (n(w) + 0.5))`; a word that the query says twice counts twice.

    Args:
        texts: in any language, see `catena.text.words.tokenise`.
        k1: how soon a word that comes again counts no more, >= 0.
        b: how much longer texts count less, in [0, 1].

    Raises:
        ParameterError: k1 or b is out of range.

    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009, doi:10.1561/1500000019.
    """

    def __init__(self, texts: Sequence[str], *, k1: float = 1.2, b: float = 0.75) -> None:
        if not 0 <= k1 < float("inf"):
            raise ParameterError("k1", k1, "a finite number >= 0")
        if not 0 <= b <= 1:
            raise ParameterError("b", b, "a number in [0, 1]")
        counts = [Counter(tokenise(text)) for text in texts]
        lengths = np.array([counted.total() for counted in counts], np.float64)
        average = lengths.mean() if lengths.any() else 1.0
        self._norms = k1 * (1 - b + b * lengths / average)
        self._k1 = k1
        self._places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)  # of a word: texts and counts
        for place, counted in enumerate(counts):
            for word, times in counted.items():
                self._places[word].append((place, times))
        self._parts: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}  # of the words asked for so far

    def score(self, query: str) -> NDArray[np.float64]:
        """Return one BM25 per text, > 0; -inf for a text that does not match."""
        scores = np.zeros(len(self._norms))
        for word, times in sorted(Counter(tokenise(query)).items()):
            if word in self._places:
                at, parts = self._parts_of(word)
                scores[at] += times * parts
        return np.where(scores > 0, scores, -np.inf)

    def _parts_of(self, word: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the texts that hold a word, and what it is worth in each."""
        if word not in self._parts:
            at, tf = np.array(self._places[word], np.int64).T
            idf = log1p((len(self._norms) - len(at) + 0.5) / (len(at) + 0.5))
            self._parts[word] = (at, idf * tf * (self._k1 + 1) / (tf + self._norms[at]))
        return self._parts[word]
