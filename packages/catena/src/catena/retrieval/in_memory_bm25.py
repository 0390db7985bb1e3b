"""BM25 over texts in memory, fitted once: the words of the lexical route as something that scores any view."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import log1p
from typing import TYPE_CHECKING

import numpy as np

from catena.errors import ParameterError
from catena.text import tokenise

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Bm25Scorer:
    """Scores n texts by BM25 with Lucene's idf; a text that holds no word of the query does not match.

    `score(q, d) = sum over words w of q of idf(w) * tf(w, d) * (k1 + 1) / (tf(w, d) + k1 * (1 - b + b * |d| / avg))`
    with `idf(w) = log(1 + (N - n(w) + 0.5) / (n(w) + 0.5))`; a word that the query says twice counts twice.

    Args:
        texts: in any language, see `catena.text.tokenise`.
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
        norms = k1 * (1 - b + b * lengths / average)
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, counted in enumerate(counts):
            for word in counted:
                places[word].append(place)
        self._size = len(counts)
        self._parts: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        for word, held in places.items():
            at = np.array(held, np.int64)
            tf = np.array([counts[place][word] for place in held], np.float64)
            idf = log1p((self._size - len(held) + 0.5) / (len(held) + 0.5))
            self._parts[word] = (at, idf * tf * (k1 + 1) / (tf + norms[at]))

    def score(self, query: str) -> NDArray[np.float64]:
        """Return one BM25 per text, > 0; -inf for a text that does not match."""
        scores = np.zeros(self._size)
        for word, times in sorted(Counter(tokenise(query)).items()):
            if word in self._parts:
                at, parts = self._parts[word]
                scores[at] += times * parts
        return np.where(scores > 0, scores, -np.inf)
