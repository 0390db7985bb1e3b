"""TF-IDF by scikit-learn (extra `tfidf`): the paper's second sparse retriever, over any texts."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.model.errors import MissingExtraError
from catena.text.words import tokenise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class TfidfScorer:
    """Scores n texts by the cosine of their TF-IDF vectors with the query's.

    A word w weighs `tf(w, d) * (ln((1 + n) / (1 + n(w))) + 1)`, n(w) the number of texts that hold it, and every
    vector has unit length. Words are those of the lexical route, in any language; words that no text holds are left
    out of the query.

    Args:
        texts: what is searched.
        sublinear: count a word that comes tf times as `1 + ln(tf)`.

    Raises:
        MissingExtraError: scikit-learn is not installed.

    Source: Salton et al., Extended Boolean information retrieval, 1983, as in MC-indexing (Dong et al., 2024),
    appendix D; the idf is scikit-learn's smoothed one.
    """

    def __init__(self, texts: Sequence[str], *, sublinear: bool = False) -> None:
        if find_spec("sklearn") is None:
            raise MissingExtraError("scikit-learn", "catena-core[tfidf]")
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._size = len(texts)
        self._vectorizer: Any = TfidfVectorizer(analyzer=tokenise, sublinear_tf=sublinear)
        # scikit-learn refuses texts without any word: nothing is found in them.
        self._rows: Any = self._vectorizer.fit_transform(texts) if any(map(tokenise, texts)) else None

    def score(self, query: str) -> NDArray[np.float64]:
        """Return one cosine per text, in (0, 1]; -inf for a text that holds no word of the query."""
        if self._rows is None:
            return np.full(self._size, -np.inf)
        cosines = (self._rows @ self._vectorizer.transform([query]).T).toarray().ravel()
        return np.where(cosines > 0, cosines, -np.inf)
