"""What a small scorer looks at: thirteen numbers of a way to go on, alike in meaning for any embedder and corpus."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from catena.model.neighbourhood import MENTION, MENTIONED, NAME, SEMANTIC, STRUCTURAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.graph.scoring import Candidates, Question

FEATURES = (
    "question",
    "path",
    "rest",
    "structural",
    "semantic",
    "name",
    "mention",
    "mentioned",
    "new_words",
    "words",
    "new_matches",
    "title",
    "ranked",
)
"""Names of the columns, in order; what each is says `features`."""

_TOP = 20  # ranks that count as found by the first ranking
_NAMES = 5.0  # sum of rarities above which names say no more
_K1, _B = 1.2, 0.75  # of BM25, as the lexical route has them
_GONE = 0.5  # how much of the path is taken from the question to give its rest
_LEAST_SPREAD = 1e-3  # of cosines; below it they are equal


def features(candidates: Candidates) -> NDArray[np.float32]:
    """Return one row of features per candidate n, reached from the node p of the path, shape (m, 13), float32.

    With q the question, m the mean of the path's vectors made a unit vector, W the words of the question and
    `idf(w) = ln(1 + (N - df(w) + 1/2) / (df(w) + 1/2))` over the N nodes of the graph, U the words of W that no node
    of the path holds, and `bm25(w, n)` with k1 = 1.2 and b = 3/4:

    - question, path, rest: `cos(q, n)`, `cos(m, n)`, `cos(q - m/2, n)`, each less its mean over the candidates and
      over its spread there, so that embedders with narrow and with wide cosines look alike;
    - structural, semantic: 1 where the edge from p to n is of that kind;
    - name: weight of that edge, at most 5, over 5; mention, mentioned: weights of that edge;
    - new_words: `sum of idf(w) over w in U and in n / sum of idf(w) over W`;
    - words, new_matches: `sum of idf(w) bm25(w, n) / (k1 + 1) / sum of idf(w)`, the first sum over W, or over U;
    - title: share of the words of n's titles that are words of the question;
    - ranked: 1 where n is among the first 20 of the first ranking.

    Where the path is empty, m is 0 and U is W.
    """
    question, path, rows = candidates.question, candidates.path, candidates.rows
    idf = _idf(question)
    open_idf = idf * ~path.counts.any(axis=0)
    by_node = _of_nodes(candidates, idf, open_idf)[:, rows]
    columns = np.empty((len(FEATURES), len(rows)), dtype=np.float32)  # one after the other: numpy is quicker so
    columns[:3] = _standardised(by_node[:3])
    columns[3] = candidates.weight(STRUCTURAL) > 0
    columns[4] = candidates.weight(SEMANTIC) > 0
    columns[5] = np.minimum(candidates.weight(NAME), _NAMES) / _NAMES
    columns[6] = candidates.weight(MENTION)
    columns[7] = candidates.weight(MENTIONED)
    columns[8:12] = by_node[3:]
    columns[12] = (candidates.ranks >= 1) & (candidates.ranks <= _TOP)
    return columns.T


def _of_nodes(candidates: Candidates, idf: NDArray[np.float32], open_idf: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what hangs on no edge, of each distinct node: three cosines, then what its words tell, shape (7, n)."""
    question, nodes = candidates.question, candidates.distinct
    mean = _unit(candidates.path.vectors.sum(axis=0))
    towards = np.array([question.vector, mean, _unit(question.vector - _GONE * mean)])
    shares = np.array([idf, open_idf]) / (idf.sum() or np.float32(1.0))
    counts = nodes.counts.T.astype(np.float32)
    length = _K1 * (1.0 - _B) + (_K1 * _B / (question.mean_length or 1.0)) * nodes.lengths
    saturated = counts / (counts + np.float32(1e-9) + length.astype(np.float32))
    of_nodes = np.empty((7, len(nodes.ids)), dtype=np.float32)
    of_nodes[:3] = towards @ nodes.vectors.T
    of_nodes[3] = shares[1] @ (counts > 0)
    of_nodes[4:6] = shares @ saturated
    of_nodes[6] = np.minimum(nodes.in_title.sum(axis=1) / np.maximum(nodes.title_lengths, 1), 1.0)
    return of_nodes


@lru_cache(maxsize=64)  # of one question it is wanted at each hop
def _idf(question: Question) -> NDArray[np.float32]:
    """Return the rarity of each word of the question, shape (words,); 0 for a word that no node holds."""
    holding = question.holding
    rarity = np.log1p((question.nodes - holding + 0.5) / (holding + 0.5))
    idf = np.where(holding > 0, rarity, 0.0).astype(np.float32)
    idf.flags.writeable = False
    return idf


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    length = float(np.sqrt(vector @ vector))
    return vector / np.float32(length) if length else vector


def _standardised(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return each row less its mean and over its spread; where all are equal, zeros."""
    count = np.float32(max(cosines.shape[1], 1))
    centred: NDArray[np.float32] = cosines - (cosines.sum(axis=1) / count)[:, None]
    spread = np.sqrt((centred * centred).sum(axis=1) / count)
    spread[spread < _LEAST_SPREAD] = np.inf
    centred /= spread[:, None]
    return centred
