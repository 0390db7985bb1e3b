"""Entries as a server may be given them: all kinds of text, views once and several times, windows, zero vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from catena import Chunk, Section
from catena.model import DEFAULT, Document, Entry, Figure, PrintedText, View, ViewVectors, digest, pack_boxes, span_id
from catena.testing.strategies import chunkings
from catena_server import IndexLayout

T = TypeVar("T")

DIM = 3
LAYOUT = IndexLayout(name="b-law", dim=DIM, embedder="laws", several=("questions", DEFAULT))

_TEXTS = st.text(max_size=12)  # lone surrogates and unassigned characters included
_SCALARS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), _TEXTS)
_METADATA = st.dictionaries(_TEXTS, _SCALARS, max_size=2)
_PRINTED = st.sampled_from([b"", pack_boxes([PrintedText(0, 1, 1, 60.0, 80.0, 90.5, 92.0)])])
_TERMS = st.lists(st.sampled_from(["esp32", "hx 200", "ein wort"]), max_size=4).map(tuple)


@st.composite
def additions(draw: st.DrawFn, document_id: str = "d") -> tuple[Entry, ViewVectors]:
    """Return an entry of at least one chunk, and its vectors."""
    whole, cut = draw(chunkings().filter(lambda made: bool(made[1])))
    text = whole.text
    document = Document(
        id=document_id, text=text, title=draw(_TEXTS), source=draw(_TEXTS), page_starts=whole.page_starts,
        metadata=draw(_METADATA), printed=draw(_PRINTED),
    )  # fmt: skip
    chunks = tuple(
        replace(
            chunk, id=span_id(document_id, "text", chunk.start, chunk.end), document_id=document_id,
            kind=draw(st.sampled_from(["text", "table"])), path=tuple(draw(st.lists(_TEXTS, max_size=2))),
            lines=draw(st.sampled_from([None, chunk.lines])), metadata=draw(_METADATA),
        )
        for chunk in cut
    )  # fmt: skip
    kinds = [draw(st.lists(st.sampled_from(["questions", "questions", "sum.mary"]), max_size=3)) for _ in chunks]
    views = [
        View(chunk_id=chunk.id, kind=kind, text=draw(_TEXTS), made=draw(st.sampled_from(["", "m"])))
        for chunk, own in zip(chunks, kinds, strict=True)
        for kind in ("headed", *dict.fromkeys(own), *(["questions"] if own.count("questions") > 1 else []))
    ]
    windows = [draw(st.integers(1, 2)) for _ in chunks]
    places = [at for at, n in enumerate(windows) for _ in range(n)]
    rows = np.array([draw(st.sampled_from([(0, 0, 0), (1, 0, 0), (0.6, 0.8, 0)])) for _ in places], np.float32)
    entry = Entry(
        document=document, sections=(whole_section(document_id, text),), chunks=chunks,
        views=tuple(draw(st.permutations(views))) if draw(st.booleans()) else tuple(views),
        terms=draw(st.one_of(st.just(()), st.tuples(*(_TERMS for _ in chunks)))),
        fingerprint=draw(st.sampled_from(["", "f", "g"])), figures=draw(st.sampled_from([(), (FIGURE,)])),
        left_out=draw(st.sampled_from([(), (0,)])),
    )  # fmt: skip
    names = tuple(digest(str(at)) for at in range(len(places))) if draw(st.booleans()) else ()
    return entry, ViewVectors(
        rows=rows.reshape(len(places), DIM), chunks=tuple(places), kinds=(DEFAULT,) * len(places), digests=names
    )


def drawn(values: st.SearchStrategy[T], count: int, key: int) -> list[T]:
    """Return random values, the same in each run."""
    found: list[T] = []
    checks = list(HealthCheck)

    @seed(key)
    @settings(max_examples=count, phases=[Phase.generate], database=None, deadline=None, suppress_health_check=checks)
    @given(values)
    def draw(value: T) -> None:
        found.append(value)

    while len(found) < count:
        draw()
    return found[:count]


FIGURE = Figure(
    name="f.png", page=1, box=(0.0, 0.5, 1.0, 2.0), kind="bitmap", width=1, height=2, title="\ud800", png=b"\x89PNG"
)


def whole_section(document_id: str, text: str) -> Section:
    """Return the one section of a document without headings."""
    return Section(
        id=f"{document_id}-s", document_id=document_id, position=0, level=0, title="", path=(), start=0, body_start=0,
        end=len(text), tree_end=len(text),
    )  # fmt: skip


def plain(document_id: str, n: int, *, fingerprint: str = "", words: str = "words") -> tuple[Entry, ViewVectors]:
    """Return an entry of n chunks of eight characters, each with one view and one vector."""
    text = "".join(f"{words[:4]:4}{at:03} " for at in range(n))
    chunks = tuple(
        Chunk(
            id=span_id(document_id, "text", at, at + 8), document_id=document_id, position=at // 8, start=at,
            end=at + 8, text=text[at : at + 8],
        )
        for at in range(0, 8 * n, 8)
    )  # fmt: skip
    document = Document(id=document_id, text=text, title=f"Manual of {document_id}", source=f"{document_id}.md")
    views = tuple(View(chunk_id=chunk.id, kind="headed", text=chunk.text) for chunk in chunks)
    entry = Entry(document=document, sections=(), chunks=chunks, views=views, fingerprint=fingerprint)
    return entry, ViewVectors.default(np.tile(np.array([0.6, 0.8, 0.0], np.float32), (n, 1)))
