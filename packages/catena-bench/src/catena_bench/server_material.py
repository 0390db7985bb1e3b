"""Make chunks for a server, as many as wanted: those of a collection, and look-alikes grown from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catena import Document, Entry, Services, run
from catena.enrichment import StaticEmbedder
from catena.library import embed, prepare
from catena.model import ViewVectors, digest
from catena_bench.collection import read_collection, some_of_each_kind
from catena_bench.synthetic_manuals import manual_markdown
from catena_server import Action, IndexLayout, entry_actions, packed, unpacked

NOISE = 0.5  # length of what is added to a look-alike's vector, which is of length 1
GENERATED = 60  # manuals, where no collection is given
_ASKED = ("What is the {title} for?", "How is the {title} cleaned?", "{title}: which values are allowed?")


@dataclass(frozen=True, slots=True)
class ServerMaterial:
    """Entries with their vectors, and questions about them."""

    entries: tuple[tuple[Entry, ViewVectors], ...]
    questions: tuple[str, ...]
    embedder: StaticEmbedder

    @property
    def chunks(self) -> int:
        """Return the number of chunks."""
        return sum(len(entry.chunks) for entry, _ in self.entries)

    @property
    def characters(self) -> float:
        """The mean length of a chunk's text."""
        return sum(len(chunk.text) for entry, _ in self.entries for chunk in entry.chunks) / self.chunks


def material(data: Path | None, *, questions: int = 100) -> ServerMaterial:
    """Return the documents of a collection with some of its questions, or generated ones where there is none.

    Args:
        data: a directory of the layout that `catena_bench.collection` states.
        questions: how many, at most, spread over their kinds.
    """
    embedder = StaticEmbedder()
    services = Services(embedder=embedder)
    if data is None:
        documents = [
            Document(id=f"manual-{seed:03}.md", text=manual_markdown(seed, numbered=bool(seed % 2)), title="")
            for seed in range(GENERATED)
        ]
        asked: tuple[str, ...] = ()
    else:
        collection = read_collection(data)
        documents = [
            Document(id=name, text=path.read_text(encoding="utf-8"), source=path.name)
            for name, path in sorted(collection.files.items())
        ]
        kinds = len({question.kind for question in collection.questions})
        asked = tuple(q.text for q in some_of_each_kind(collection.questions, max(1, questions // max(1, kinds))))
    entries = tuple(prepare(document) for document in documents)
    made = tuple((entry, run(embed(entry), services)) for entry in entries if entry.chunks)
    if not asked:
        titles = [chunk.path[-1] for entry, _ in made for chunk in entry.chunks if chunk.path]
        step = max(1, len(titles) // max(1, questions))
        asked = tuple(_ASKED[at % len(_ASKED)].format(title=title) for at, title in enumerate(titles[::step]))
    return ServerMaterial(made, asked[:questions], embedder)


def grown(base: ServerMaterial, layout: IndexLayout, *, seed: int = 0) -> Iterator[Action]:
    """Yield what is written of the records and chunks of a collection, then of look-alikes of them, without an end.

    Of the n-th look-alike, documents and chunks have other ids; each critical term is followed by "mark n", as is the
    text, and random numbers are added to the vectors: another device of the same series, described in the same words.
    No pieces of texts are written.
    """
    actions = [
        action
        for entry, vectors in base.entries
        for action in entry_actions(entry, vectors, layout)
        if action.part == "chunks" or (action.source or {})["record"] == "document"
    ]
    yield from actions
    random = np.random.default_rng(seed)
    for copy in count(1):
        for action in actions:
            yield _look_alike(action, copy, random) if action.part == "chunks" else _its_record(action, copy)


def some(actions: Iterator[Action], number: int) -> list[Action]:
    """Return the next actions."""
    return list(islice(actions, number))


def _its_record(action: Action, copy: int) -> Action:
    source = action.source or {}
    named = {name: f"{source[name]} mark {copy}" for name in ("document", "words")}
    return replace(action, id=digest(action.id, str(copy)), source={**source, **named})


def _look_alike(action: Action, copy: int, random: np.random.Generator) -> Action:
    source = action.source or {}
    mark = f"mark {copy}"
    new_id = digest(action.id, str(copy))
    numbers = {kind: _near(vector, random) for kind, vector in source["vectors"].items()}
    changed = {
        **source,
        "id": new_id,
        "document": f"{source['document']} {mark}",
        "terms": [f"{term} {mark}" for term in source["terms"]],
        "text": f"{source['text']} {mark}",
        "end": source["end"] + 1 + len(mark),
        "words": {kind: f"{words} {mark}" for kind, words in source["words"].items()},
        "vectors": numbers,
    }
    return replace(action, id=new_id, source=changed)


def _near(vector: Sequence[float] | str, random: np.random.Generator) -> list[float] | str:
    """Return a vector near another, written in the same way."""
    moved = unpacked(vector)
    moved = moved + (NOISE / len(moved) ** 0.5) * random.standard_normal(len(moved), np.float32)
    unit: NDArray[np.float32] = moved / np.linalg.norm(moved)
    numbers: list[float] = unit.tolist()
    return packed(unit) if isinstance(vector, str) else numbers
