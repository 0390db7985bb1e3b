"""A corpus small enough to rank by hand, in the layout of `catena-bench graph`, and an embedder of letters."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from catena.graph import FeatureScorer
from catena.graph.scoring import BY_HAND, FEATURES

PASSAGES = {
    "ferry": ("Ferry Alda", "The Ferry Alda was built in Norrvik by the yard of Brandt."),
    "town": ("Norrvik", "Norrvik is a harbour town; its mayor is Ines Holm."),
    "mayor": ("Ines Holm", "Ines Holm studied botany before she went into politics."),
    "yard": ("Brandt (shipyard)", "Brandt is a shipyard that was founded by two brothers."),
    "cheese": ("Kvarg", "Kvarg is a fresh cheese eaten with berries."),
    "river": ("", "A river without a name runs past the old mill."),
}
QUESTIONS: dict[str, tuple[str, list[str]]] = {
    "q1": ("Who is the mayor of the town where the Ferry Alda was built?", ["ferry", "town"]),
    "q2": ("What did the mayor of Norrvik study?", ["town", "mayor"]),
    "q3": ("Who founded the yard that built the Ferry Alda?", ["ferry", "yard", "ferry"]),
    "q4": ("What is eaten with berries?", ["cheese"]),
}


def write(folder: Path, name: str, rows: Sequence[dict[str, Any]], packed: bool = False) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    if packed:
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    else:
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8", newline="")


def write_split(data: Path, split: str = "dev") -> None:
    """Write one split of the layout, with fields missing that may be."""
    data.mkdir(exist_ok=True)
    corpus = [{"id": name, "title": title, "text": text} for name, (title, text) in PASSAGES.items()]
    del corpus[-1]["title"]
    asked = [
        {"id": name, "question": text, "supporting": supporting} for name, (text, supporting) in QUESTIONS.items()
    ]
    write(data, f"{split}_corpus", corpus, packed=True)
    write(data, f"{split}_questions", [*asked, {"id": "q5", "question": "Unanswered?", "answers": []}])


class Letters:
    """Vectors of letters: alike where words are."""

    def __init__(self) -> None:
        self.identity, self.dim, self.embedded = "letters", 26, 0

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        self.embedded += len(texts)
        rows = np.array([[text.lower().count(chr(97 + n)) for n in range(26)] for text in texts], np.float32)
        unit: np.ndarray = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def embed_query(self, text: str) -> np.ndarray:
        row: np.ndarray = self.embed_documents([text])[0]
        return row


def scorer_by_hand() -> FeatureScorer:
    """Return a scorer of one unit, which ranks as the hand-set weights do."""
    count = len(FEATURES)
    weights = {
        "hidden": np.array([[[0.1 * BY_HAND.get(name, 0.0)] for name in FEATURES]], np.float32),
        "bias": np.zeros((1, 1), np.float32),
        "out": np.ones((1, 1), np.float32),
        "mean": np.zeros(count, np.float32),
        "spread": np.ones(count, np.float32),
    }
    return FeatureScorer(weights=weights)
