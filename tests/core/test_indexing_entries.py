"""What an entry must obey before it is written; the builders here serve the other tests of the library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catena import Ranking
from catena.effects import Search
from catena.model import NO_METADATA, Chunk, Document, Entry, Metadata, ParameterError, Section, View, span_id
from catena.store import LibraryStore
from catena.store.checks import check_entry, problems_of
from catena.text import normalise_term

DIM = 4


def entry_of(
    name: str,
    *paragraphs: str,
    title: str = "",
    metadata: Metadata = NO_METADATA,
    terms: Sequence[Sequence[str]] = (),
    fingerprint: str = "",
) -> Entry:
    """A document of one chapter, its paragraphs as chunks, under a raw and a headed view."""
    heading = f"# {title}\n"
    text = heading + "\n\n".join(paragraphs)
    chunks, start = [], len(heading)
    for position, paragraph in enumerate(paragraphs):
        end = start + len(paragraph)
        placed = {"document_id": name, "position": position, "start": start, "end": end, "path": (title,)}
        own = {"text": paragraph, "pages": (position + 1, position + 1), "metadata": {"parity": position % 2}}
        chunks.append(Chunk(id=span_id(name, "text", start, end), **placed, **own))
        start = end + 2
    section = Section(
        id=f"{name}-section", document_id=name, position=0, level=1, title=title, path=(title,), start=0,
        body_start=len(heading), end=len(text), tree_end=len(text),
    )  # fmt: skip
    return Entry(
        document=Document(id=name, text=text, title=title, source=f"{name}.md", metadata=metadata),
        sections=(section,),
        chunks=tuple(chunks),
        views=tuple(
            View(chunk_id=c.id, kind=kind, text=text)
            for c in chunks
            for kind, text in (("raw", c.text), ("headed", f"{title}\n{c.text}"))
        ),
        terms=tuple(tuple(map(normalise_term, chunk_terms)) for chunk_terms in terms),
        fingerprint=fingerprint,
    )


def vectors_of(entry: Entry, seed: int = 0) -> np.ndarray:
    """Random rows of unit length."""
    rows = np.random.default_rng(seed).standard_normal((len(entry.chunks), DIM)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def addition(name: str, *paragraphs: str, seed: int = 0, **more: object) -> tuple[Entry, np.ndarray]:
    entry = entry_of(name, *paragraphs, **more)
    return entry, vectors_of(entry, seed)


def open_store(path: Path, **options: object) -> LibraryStore:
    return LibraryStore.open(path, embedder_identity="fake-1", dim=DIM, **options)


def rankings(store: LibraryStore) -> list[Ranking]:
    """Return the whole ranking of each index for one question."""
    return [
        store.search(Search(route=route, query="ram f3", vector=np.eye(DIM)[1], k=99, view=view))
        for route, view in (("lexical", None), ("lexical", "raw"), ("dense", None), ("keyword", None))
    ]


GOOD = entry_of("a", "One two.", "Three.", title="T", terms=[["one"], []])
TURNED = tuple(replace(chunk, position=at) for at, chunk in enumerate(GOOD.chunks[::-1]))


def test_a_good_entry_has_no_problems() -> None:
    assert list(problems_of(GOOD)) == []
    check_entry(GOOD, vectors_of(GOOD))
    check_entry(GOOD, np.zeros((2, DIM), np.float32))  # chunks without a word of the model
    assert list(problems_of(first_chunk(start=4, end=16, text=GOOD.document.text[4:16]))) == []  # chunks may overlap


def first_chunk(**changes: object) -> Entry:
    return replace(GOOD, chunks=(replace(GOOD.chunks[0], **changes), GOOD.chunks[1]))


def section(**changes: object) -> Entry:
    return replace(GOOD, sections=(replace(GOOD.sections[0], **changes),))


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (replace(GOOD, chunks=(), views=(), terms=()), "there are no chunks"),
        (first_chunk(start=5, end=13), "chunk 0 is not the slice"),
        (first_chunk(document_id="b"), "chunk 0 says it is 0 of 'b'"),
        (first_chunk(section=1), "of section 1, of 1"),
        (first_chunk(id=GOOD.chunks[1].id), "two chunks have one id"),
        (first_chunk(start=4, end=7, text="One"), "no chunk holds 'two.' before chunk 1"),
        (replace(GOOD, chunks=GOOD.chunks[:1], terms=()), "no chunk holds 'Three.' at the end"),
        (replace(GOOD, chunks=GOOD.chunks[::-1]), "chunk 0 says it is 1"),
        (section(start=1), "section 0 begins at 1"),
        (section(position=1), "section 0 says it is 1 of 'a'"),
        (section(document_id="b"), "section 0 says it is 0 of 'b'"),
        (first_chunk(section=-1), "of section -1, of 1"),
        (replace(GOOD, chunks=TURNED), "chunk 1 begins before the one in front of it"),
        *((section(end=end, tree_end=99), f"the sections end at {end}") for end in (15, 99)),
        (replace(GOOD, views=GOOD.views[:2]), "has no view"),
        (replace(GOOD, views=(*GOOD.views, View(chunk_id="x", kind="raw", text=""))), "a view belongs to chunk 'x'"),
        (replace(GOOD, terms=(("one",),)), "1 lists of terms for 2 chunks"),
        (replace(GOOD, terms=(("One",), ())), "the term 'One' is not normalised"),
        (replace(GOOD, fingerprint="\ud800"), "holds a lone surrogate"),
    ],
)
def test_a_contradiction_is_named(entry: Entry, problem: str) -> None:
    assert any(problem in found for found in problems_of(entry)), list(problems_of(entry))
    with pytest.raises(ParameterError, match="entry 'a' must be without contradictions"):
        check_entry(entry, np.zeros((len(entry.chunks), DIM), np.float32))
