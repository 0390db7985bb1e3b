"""BM25 over a few texts in memory: the lexical formula for what is in no store, as the passages of hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log1p

from catena.text import tokenise

K1, B = 1.2, 0.75  # Lucene's, as in the lexical route


def bm25(query: str, texts: Sequence[str]) -> tuple[float, ...]:
    """Return the BM25 of each text for the query, with the statistics of these texts alone.

    `score(q, d) = sum over words w of q of idf(w) * tf(w, d) * (k1 + 1) / (tf(w, d) + k1 * (1 - b + b * |d| / avg))`
    with Lucene's `idf(w) = log(1 + (N - n(w) + 0.5) / (n(w) + 0.5))`, k1 = 1.2 and b = 0.75.

    Args:
        query: as typed.
        texts: in any language, see `catena.text.tokenise`.

    Returns:
        One number >= 0 per text, in order.

    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009, doi:10.1561/1500000019.
    """
    asked = Counter(tokenise(query))
    counts = [Counter(tokenise(text)) for text in texts]
    lengths = [counted.total() for counted in counts]
    average = sum(lengths) / len(lengths) if any(lengths) else 1.0
    having = {word: sum(word in counted for counted in counts) for word in asked}
    idf = {word: log1p((len(texts) - n + 0.5) / (n + 0.5)) for word, n in having.items()}
    return tuple(
        sum(
            times * idf[word] * counted[word] * (K1 + 1) / (counted[word] + K1 * (1 - B + B * length / average))
            for word, times in asked.items()
            if counted[word]
        )
        for counted, length in zip(counts, lengths, strict=True)
    )
