"""What is written of an entry: pinned for one, equal for equal entries, and nothing that a server would refuse."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from entry_cases import LAYOUT, additions, plain
from hypothesis import example, given, settings
from hypothesis import strategies as st

from catena.model import Chunk, Document, Entry, LibraryError, ParameterError, View, ViewVectors, digest
from catena.text import tokenise
from catena_server import IndexLayout, entry_actions, indexed_words, packed, unpacked
from catena_server.actions import record_action, writing_action
from catena_server.encoding import LONGEST, indexed_word, restored, sendable
from catena_server.index_layout import takes_packed
from catena_server.restoring import chunk_of, entry_of

CHUNK = Chunk(
    id="c0", document_id="d", position=0, start=0, end=9, text="Use ESP32", path=("Manual", "Parts"), section=0,
    pages=(1, 2), lines=(1, 1), metadata={"year": 2024},
)  # fmt: skip
ENTRY = Entry(
    document=Document(id="d", text="Use ESP32", title="Manual HX-200", source="m.pdf", page_starts=(0, 4)),
    sections=(),
    chunks=(CHUNK,),
    views=(
        View(chunk_id="c0", kind="headed", text="Manual > Parts: Use ESP32", made="h"),
        View(chunk_id="c0", kind="raw", text="Use ESP32"),
        View(chunk_id="c0", kind="questions", text="Which part?"),
        View(chunk_id="c0", kind="questions", text="What to use?"),
    ),
    terms=(("parts", "hx 200", "parts"),),
    fingerprint="f",
)
VECTORS = ViewVectors(
    rows=np.array([[0.5, 0.5, 0.75], [1, 0, 0], [0, 0, 0]], np.float32),
    chunks=(0, 0, 0),
    kinds=("", "questions", "questions"),
    digests=("a", "b", "c"),
)
ONE = IndexLayout(name="b-one", dim=3, embedder="e", several=("questions",))


def test_the_chunk_of_an_entry_is_written_as_the_layout_says() -> None:
    record, text, chunk = entry_actions(ENTRY, VECTORS, ONE)
    assert (record.part, text.part, chunk.part) == ("documents", "documents", "chunks")
    assert (record.id, text.id, chunk.id) == (digest("d", length=32), f"{digest('d', length=32)}-0", "c0")
    source = dict(chunk.source or {})
    facets = source.pop("facets")
    assert facets["s"]["title"] == "Manual HX-200"
    assert facets["n"]["year"] == 2024
    assert source == {
        "id": "c0", "document": "d", "kind": "text", "path": ["Manual", "Parts"], "position": 0, "section": 0,
        "start": 0, "end": 9, "first_page": 1, "last_page": 2, "first_line": 1, "last_line": 1,
        "text": "Use ESP32", "metadata": {"year": 2024},
        "terms": ["hx 200", "parts", "parts\x1f2"], "terms_unspaced": ["hx200", "parts"],
        "said": ["parts", "hx 200", "parts"],
        "views": [
            ["headed", "Manual > Parts: Use ESP32", "h"], ["raw", None, ""],
            ["questions", "Which part?", ""], ["questions", "What to use?", ""],
        ],
        "rows": [["", "a", True], ["questions", "b", True], ["questions", "c", False]],
        "embedded": "headed", "languages": ["english questions"],
        "words": {"of_headed": "manual parts use esp32", "of_raw": "use esp32"},
        "vectors": {"default": [0.5, 0.5, 0.75]},
        "several_of_questions": [{"words": "which part", "vector": [1.0, 0.0, 0.0]}, {"words": "what to use"}],
    }  # fmt: skip


def test_the_record_of_a_document_says_its_names_and_what_belongs_to_it() -> None:
    source = dict(entry_actions(ENTRY, VECTORS, ONE)[0].source or {})
    rest = source.pop("rest")
    assert source == {
        "record": "document", "document": "d", "title": "Manual HX-200", "source": "m.pdf", "fingerprint": "f",
        "state": "whole", "chunks": 1, "pages": 2, "pieces": 1, "figures": 0,
        "names": ["manual hx 200", "hx 200"], "name_patterns": ["manual hx 0", "hx 0"],
        "words": "manual hx 200 use esp32", "languages": [],
    }  # fmt: skip
    assert rest["chunk_ids"] == ["c0"]
    assert rest["page_starts"] == [0, 4]
    assert "view_order" not in rest


def test_words_are_stems_in_the_language_of_the_text_or_else_of_its_document() -> None:
    text = "The valves are closed by hand. Valves: two"
    chunk = replace(CHUNK, text=text[:30], end=30)
    chunks = (chunk, replace(CHUNK, id="c1", position=1, start=31, end=42, text=text[31:]))
    views = tuple(View(chunk_id=each.id, kind="headed", text=each.text) for each in chunks)
    entry = replace(ENTRY, document=replace(ENTRY.document, text=text), chunks=chunks, views=views, terms=())
    vectors = replace(VECTORS, rows=VECTORS.rows[:2], chunks=(0, 1), kinds=("", ""), digests=())
    record, *_, first, second = (dict(action.source or {}) for action in entry_actions(entry, vectors, ONE))
    assert (first["words"], first["languages"]) == ({"of_headed": "the valv are close by hand"}, ["english headed"])
    assert (second["words"], second["languages"]) == ({"of_headed": "valv two"}, ["english headed"])
    assert record["words"] == "manual hx 200 the valv are close by hand valv two"
    assert record["languages"] == ["english whole documents"]
    writing = writing_action(record_action(entry), {}).source or {}
    assert not writing.keys() & {"words", "languages"}  # else they would count twice, until the server merges


@settings(deadline=None)
@given(additions())
def test_what_is_written_is_json_that_gives_the_entry_back(addition: tuple[Entry, ViewVectors]) -> None:
    entry, vectors = addition
    actions = entry_actions(entry, vectors, LAYOUT)
    sent = [json.dumps(action.source, allow_nan=False, ensure_ascii=False) for action in actions]
    assert all(line.encode("utf-8").decode("utf-8") == line for line in sent)  # no lone surrogate
    assert len({(action.part, action.id) for action in actions}) == len(actions)
    assert sent == [json.dumps(a.source, ensure_ascii=False) for a in entry_actions(entry, vectors, LAYOUT)]
    sources = [json.loads(line) for line in sent]
    by_kind = {kind: [s for s in sources if s.get("record") == kind] for kind in ("document", "text", "figure")}
    chunks = [(a.id, s) for a, s in zip(actions, sources, strict=True) if a.part == "chunks"]
    assert entry_of(by_kind["document"][0], by_kind["text"], by_kind["figure"], chunks) == entry


@given(st.recursive(st.one_of(st.text(), st.floats(allow_nan=False), st.integers(), st.none()), st.lists))
@example("\uffff0041")
@example(["\uffff:nan", "\ud800\uffff", float("-inf")])
def test_what_is_sent_comes_back(value: object) -> None:
    sent = json.dumps(sendable(value), allow_nan=False, ensure_ascii=False)
    assert restored(json.loads(sent.encode("utf-8"))) == value


def test_vectors_are_packed_as_big_endian_floats_where_the_server_takes_them() -> None:
    row = np.array([1.0, -0.5, 1e-3], np.float32)
    assert packed(row) == base64.b64encode(struct.pack(">3f", *row)).decode()  # 1.0 is 3f 80 00 00
    assert packed(row[:1]) == "P4AAAA=="
    for written in (packed(row), row.tolist()):
        np.testing.assert_array_equal(unpacked(written), row)
    entry, vectors = plain("d", 2)
    vectors = replace(vectors, rows=np.array([row, 0 * row]))
    first, zero = (
        a.source or {} for a in entry_actions(entry, vectors, replace(ONE, packed=True)) if a.part == "chunks"
    )
    assert first["vectors"] == {"default": packed(row)}
    assert "vectors" not in zero
    assert replace(LAYOUT, packed=True) == LAYOUT, "how vectors are sent is no part of how a set lies"
    assert "packed" not in LAYOUT.to_meta()


@pytest.mark.parametrize(
    ("made", "expected"),
    [("9060000", True), ("9111000", True), ("9039003", False), ("8537000", False), ("136417027", False), ("", False)],
)
def test_the_version_an_index_was_made_in_says_whether_it_takes_packed_vectors(made: str, expected: bool) -> None:
    assert takes_packed({"index": {"version": {"created": made}}}) is expected
    for unsaid in ({}, {"index": {"version": made}}):
        assert not takes_packed(unsaid)


def test_a_word_longer_than_the_server_takes_is_one_token_still() -> None:
    longest, longer = "a" * LONGEST, "b" * (LONGEST + 1)
    _, words = indexed_words(f"{longest} {longer} {longer}")
    assert words == f"{longest} {indexed_word(longer)} {indexed_word(longer)}"
    assert len(indexed_word(longer)) == 64
    two_units = "\U0001d7d8".join("x" * 130)  # folded it is ASCII; unfolded a word of two units a character
    assert all(len(word.encode("utf-16-le")) // 2 <= LONGEST for word in indexed_words(two_units)[1].split())
    assert indexed_words("Use ESP32, 3.3-V!") == ("", " ".join(tokenise("Use ESP32, 3.3-V!")))


def test_what_others_wrote_is_named_as_such() -> None:
    with pytest.raises(LibraryError, match=r"'x'.*not of Catena's form.*KeyError"):
        chunk_of({"text": "somebody else's"}, "x")
    with pytest.raises(LibraryError, match="ParameterError"):
        chunk_of(
            {"document": "d", "position": 0, "start": 0, "end": 9, "text": "short", "kind": "text", "section": 0}, "x"
        )


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"chunks": (CHUNK, replace(CHUNK, position=1)), "terms": ()}, "two chunks have one id"),
        ({"chunks": (), "views": (), "terms": ()}, "there are no chunks"),
        ({"chunks": (replace(CHUNK, id="x" * 513),), "views": ()}, "has 513 bytes"),
        ({"chunks": (replace(CHUNK, id=""),), "views": ()}, "has 0 bytes"),
        ({"chunks": (replace(CHUNK, position=1),)}, "not numbered in their order"),
        ({"chunks": (replace(CHUNK, document_id="e"),)}, "is of another document"),
        ({"terms": ((), ())}, "lists of terms"),
        ({"views": (View(chunk_id="c9", kind="raw", text=""),)}, "which is not in the entry"),
        ({"fingerprint": "\ud800"}, "lone surrogate"),
        ({"document": replace(ENTRY.document, id="")}, "characters; a server takes"),
        ({"rows": VECTORS.rows[:, :2]}, "the set holds vectors of 3 numbers"),
        ({"rows": VECTORS.rows * np.float32("nan")}, "NaN"),
        ({"of": (0, 0, 1)}, "belongs to chunk 1, of 1"),
        ({"kinds": ("raw", "questions", "questions")}, "chunk 0 has no default vector"),
        ({"digests": ("a",)}, "1 digests"),
        ({"several": ()}, "include 'questions': chunk 'c0' has 2"),
        ({"kinds": ("", "questions", "")}, "include ''"),
    ],
)
def test_an_entry_that_a_server_would_mix_up_is_refused(changes: dict[str, Any], what: str) -> None:
    entry, vectors, layout = ENTRY, replace(VECTORS, rows=VECTORS.rows + np.float32(0.1)), ONE
    for name, value in changes.items():
        if name == "several":
            layout = replace(layout, several=value)
        elif name in ("rows", "of", "kinds", "digests"):
            vectors = replace(vectors, **{"chunks" if name == "of" else name: value})
        else:
            entry = replace(entry, **{name: value})
    with pytest.raises(ParameterError, match=what):
        entry_actions(entry, vectors, layout)
