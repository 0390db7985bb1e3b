"""What is read back from a server, in pages; what `verify` says; and building a set anew beside the old one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from entry_cases import LAYOUT, additions, plain
from fake_server import FakeServer
from hypothesis import HealthCheck, given, settings

from catena.model import Entry, LibraryError, ModelMismatchError, Outcome, UnknownDocumentError, ViewVectors
from catena.store import DocumentInfo
from catena_server import abandon, begin, finish
from catena_server.actions import figure_id, piece_id, record_id
from catena_server.calls import Cursor, items
from catena_server.contents import documents, export, fingerprint, fingerprints_read, get, ledger, stats, verify
from catena_server.index_layout import create, open_layout, refresh
from catena_server.rebuilding import next_layout, rebuild, vectors_of
from catena_server.writing import put, record

PLAIN = replace(LAYOUT, name="b-read", several=())
FLAVOURS: Any = pytest.mark.parametrize("flavour", ["elasticsearch", "opensearch"])
ES = "elasticsearch"


def filled(*entries: tuple[Entry, ViewVectors], flavour: Any = ES, layout: Any = PLAIN) -> FakeServer:
    fake = FakeServer(flavour)
    fake.run(create(layout, flavour))
    fake.run(put(entries, layout, flavour)).check()
    fake.run(refresh(layout))
    return fake


@pytest.mark.slow
@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(additions())
def test_what_was_put_is_got_and_exported(addition: tuple[Entry, ViewVectors]) -> None:
    entry, vectors = addition
    fake = filled(addition, plain("e", 2), layout=LAYOUT)
    assert fake.run(get("d", LAYOUT)) == entry
    stored = list(items(lambda cursor: export(LAYOUT, ES, cursor, document_id="d", size=2), fake.run))
    assert tuple(each.chunk for each in stored) == entry.chunks
    assert sorted(map(repr, (view for each in stored for view in each.views))) == sorted(map(repr, entry.views))
    if entry.terms:
        assert tuple(each.terms for each in stored) == entry.terms
    back = vectors_of(stored, LAYOUT.dim)
    assert (back.chunks, back.kinds) == (vectors.chunks, vectors.kinds)
    assert back.digests == (vectors.digests or ("",) * len(vectors.kinds))
    np.testing.assert_array_equal(back.rows, vectors.rows)
    assert fake.run(verify(LAYOUT, ES)) == ()


@FLAVOURS
def test_listings_come_in_pages_of_one_moment_in_order(flavour: Any) -> None:
    fake = filled(*(plain(name, 3, fingerprint=name) for name in "cab"), flavour=flavour)
    outcomes = [Outcome(source=f"{n}.md", document_id=n, state="partial", failed_pages=(2,)) for n in "ba"]
    fake.run(record(outcomes, PLAIN))
    fake.run(refresh(PLAIN))
    page = fake.run(documents(PLAIN, flavour, size=2))
    fake.run(put([plain("bb", 1)], PLAIN, flavour))
    fake.run(refresh(PLAIN))
    rest = fake.run(documents(PLAIN, flavour, page.cursor, size=2))
    assert [info.id for info in (*page.items, *rest.items)] == ["a", "b", "c"]
    assert rest.cursor is None
    assert page.items[0] == DocumentInfo(
        id="a", title="Manual of a", source="a.md", state="partial", chunks=3, pages=0, fingerprint="a", whole=True
    )
    assert rest.items[0].state == "indexed"
    assert list(items(lambda cursor: ledger(PLAIN, flavour, cursor, size=1), fake.run)) == outcomes[::-1]
    chunks = list(items(lambda cursor: export(PLAIN, flavour, cursor, size=3), fake.run))
    assert [(each.chunk.document_id, each.chunk.position) for each in chunks] == [
        *((name, at) for name in "ab" for at in range(3)), ("bb", 0), *(("c", at) for at in range(3)),
    ]  # fmt: skip
    assert fake.moments == {}  # all given back


def test_a_listing_that_is_given_up_is_given_back_and_one_that_is_forgotten_says_so() -> None:
    fake = filled(*(plain(name, 1) for name in "abc"))
    for _ in items(lambda cursor: documents(PLAIN, ES, cursor, size=1), fake.run):
        break
    assert fake.moments == {}
    with pytest.raises(LibraryError, match="has forgotten the listing"):
        fake.run(documents(PLAIN, ES, Cursor("gone", (), ES)))


def test_what_is_not_there_or_not_whole_is_said() -> None:
    fake = filled(plain("d", 3, fingerprint="f"))
    assert (fake.run(fingerprint("d", PLAIN)), fake.run(fingerprint("e", PLAIN))) == ("f", None)
    with pytest.raises(UnknownDocumentError, match="holds no document 'e'"):
        fake.run(get("e", PLAIN))
    chunks, files = (fake.indices[f"b-read-{part}-1"].docs for part in ("chunks", "documents"))
    del chunks[plain("d", 3)[0].chunks[1].id]
    with pytest.raises(LibraryError, match="1 of its 3 chunks"):
        fake.run(get("d", PLAIN))
    del files[piece_id("d", 0)]
    with pytest.raises(LibraryError, match="1 of its pieces and figures"):
        fake.run(get("d", PLAIN))
    files[piece_id("d", 0)] = {"record": "text"}
    chunks[plain("d", 3)[0].chunks[1].id] = {}
    with pytest.raises(LibraryError, match="is not of Catena's form"):
        fake.run(get("d", PLAIN))


def test_the_size_of_a_set_is_counted() -> None:
    fake = filled(plain("d", 3), plain("e", 2))
    size = fake.run(stats(PLAIN))
    assert (size.documents, size.chunks, size.views, size.outcomes) == (2, 5, {"headed": 5}, 0)
    assert set(size.bytes) == {"chunks", "documents", "ledger"}
    empty = FakeServer()
    empty.run(create(PLAIN, ES))
    assert empty.run(stats(PLAIN)).views == {}


@FLAVOURS
def test_verify_names_all_that_is_not_whole(flavour: Any) -> None:
    fake = filled(*(plain(name, 3) for name in "abcdefg"), flavour=flavour)
    assert fake.run(verify(PLAIN, flavour)) == ()
    chunks, files = (fake.indices[f"b-read-{part}-1"].docs for part in ("chunks", "documents"))
    del chunks[plain("a", 3)[0].chunks[2].id]
    chunks[plain("b", 3)[0].chunks[2].id]["position"] = 7
    del files[record_id("c")]
    files[record_id("d")]["state"] = "writing"
    del files[piece_id("e", 0)]
    files[figure_id("f", 0)] = {"record": "figure", "document": "f"}
    for chunk in plain("g", 3)[0].chunks:
        del chunks[chunk.id]
    assert fake.run(verify(PLAIN, flavour)) == (
        "document 'a': 2 chunks are there, it has 3",
        "document 'b': its 3 chunks do not stand at 0 to 2",
        "document 'd': its writing or deleting did not end; put it again, or delete it",
        "document 'e': 0 pieces are there, it has 1",
        "document 'f': 1 figures are there, it has 0",
        "document 'g': 0 chunks are there, it has 3",
        "3 chunks of document 'c' are there, which has no record",
        "1 pieces of document 'c' are there, which has no record",
    )


def test_a_document_whose_latest_reading_failed_counts_as_not_read() -> None:
    fake = filled(plain("d", 3, fingerprint="f"), plain("e", 2, fingerprint="g"))
    assert fake.run(fingerprints_read(["d", "e", "none"], PLAIN)) == {"d": "f", "e": "g"}
    fake.run(record([Outcome(source="d.md", document_id="d", state="failed")], PLAIN))
    fake.run(refresh(PLAIN))
    assert fake.run(fingerprints_read(["d", "e"], PLAIN)) == {"e": "g"}
    assert fake.run(fingerprints_read([], PLAIN)) == {}
    read = [Outcome(source=name, document_id="e", state=state) for name, state in (("1", "failed"), ("2", "indexed"))]
    fake.run(record(read, PLAIN))  # of several sources, the last by name counts
    assert fake.run(fingerprints_read(["e"], PLAIN)) == {"e": "g"}
    fake.run(record([Outcome(source="d.md", document_id="d", state="indexed")], PLAIN))
    fake.run(refresh(PLAIN))
    assert fake.run(fingerprints_read(["d"], PLAIN)) == {"d": "f"}


def test_a_set_is_built_anew_and_takes_the_place_of_the_old_one_in_one_call() -> None:
    fake = filled(plain("d", 3, fingerprint="f"), plain("e", 2))
    fake.run(record([Outcome(source="s", document_id="d", state="failed")], PLAIN))
    wanted = replace(PLAIN, shards=4, several=("headed",))
    assert fake.run(rebuild(PLAIN, wanted, ES)) == wanted
    swaps = [call for call in fake.calls if call.path == "/_aliases"]
    assert [len(call.body["actions"]) for call in swaps if call.body] == [9]
    assert fake.aliases() == {f"b-read-{part}-2": {f"b-read-{part}"} for part in ("chunks", "documents", "ledger")}
    assert fake.run(get("d", wanted)) == plain("d", 3, fingerprint="f")[0]
    assert fake.run(verify(wanted, ES)) == ()
    assert [o.state for o in items(lambda cursor: ledger(wanted, ES, cursor), fake.run)] == ["failed"]
    held = fake.documents("b-read-chunks")[plain("d", 3)[0].chunks[0].id]
    assert held["several_of_headed"] == [{"words": "word000"}]
    with pytest.raises(ModelMismatchError):
        fake.run(rebuild(wanted, replace(wanted, embedder="others"), ES))


@pytest.mark.slow
def test_a_kill_at_each_call_of_a_rebuilding_leaves_a_set_that_is_searched_and_can_be_rebuilt() -> None:
    document = plain("d", 3, fingerprint="f")
    wanted = replace(PLAIN, shards=2)
    whole = filled(document)
    before = len(whole.calls)
    whole.run(rebuild(PLAIN, wanted, ES))
    for kill in range(len(whole.calls) - before):
        for mend in ("rebuild", "abandon"):
            fake = filled(document)
            with fake.killed_after(kill):
                fake.run(rebuild(PLAIN, wanted, ES))
            found = fake.run(open_layout("b-read"))
            assert found in (PLAIN, wanted)
            assert fake.run(get("d", found)) == document[0]  # searched at any moment
            if mend == "rebuild":
                found = fake.run(rebuild(found, wanted, ES))
                assert found == wanted
                assert len(fake.aliases()) == 3
            else:
                fake.run(abandon("b-read"))
                assert not any("next" in alias for aliases in fake.aliases().values() for alias in aliases)
            assert fake.run(get("d", found)) == document[0]
            assert fake.run(verify(found, ES)) == ()


def test_a_generation_of_another_model_is_filled_by_hand() -> None:
    fake = filled(plain("d", 3))
    with pytest.raises(LibraryError, match="no next generation is being built"):
        fake.run(finish("b-read"))
    wanted = replace(PLAIN, embedder="others")
    building = fake.run(begin(wanted, ES))
    assert building == next_layout(wanted)
    assert fake.run(begin(wanted, ES)) == building  # taken up again
    with pytest.raises(LibraryError, match="shards is 1, not 3"):
        fake.run(begin(replace(wanted, shards=3), ES))
    fake.run(put([plain("e", 1)], building, ES))
    assert fake.run(get("d", PLAIN))
    assert fake.run(finish("b-read")) == wanted
    assert [info.id for info in items(lambda cursor: documents(wanted, ES, cursor), fake.run)] == ["e"]
    with pytest.raises(LibraryError, match="there is no such set"):
        fake.run(begin(replace(wanted, name="b-none"), ES))


def test_what_is_not_whole_is_not_copied() -> None:
    fake = filled(plain("d", 3))
    fake.indices["b-read-documents-1"].docs[record_id("d")]["state"] = "writing"
    with pytest.raises(LibraryError, match="writing of document 'd' did not end; the set is searched as before"):
        fake.run(rebuild(PLAIN, replace(PLAIN, shards=2), ES))
    assert fake.run(open_layout("b-read")) == PLAIN
