"""Writing documents to a server: a kill after any call loses and doubles nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from entry_cases import DIM, FIGURE, plain
from fake_server import FakeServer

from catena import Outcome, ParameterError
from catena.effects import Step
from catena.model import Entry, LibraryError, ModelMismatchError, ServerError, UnknownDocumentError, ViewVectors
from catena_server import BulkOptions, IndexLayout, entry_actions
from catena_server.contents import fingerprint, get, verify
from catena_server.index_layout import create, loading, open_layout, open_or_create
from catena_server.writing import Written, delete, put, record

ES = "elasticsearch"
PLAIN = IndexLayout(name="b-plain", dim=DIM, embedder="laws")
SMALL = BulkOptions(actions=2, in_flight=1, attempts=2)


def server(layout: IndexLayout = PLAIN) -> FakeServer:
    fake = FakeServer()
    fake.run(create(layout, ES))
    return fake


def opened(layout: IndexLayout) -> Step[IndexLayout]:
    return open_or_create(layout.name, layout, ES)


def holds_exactly(fake: FakeServer, layout: IndexLayout, *entries: tuple[Entry, ViewVectors]) -> None:
    """Check that the server holds these documents, and nothing else."""
    expected = {(a.part, a.id): a.source for entry in entries for a in entry_actions(*entry, layout)}
    for part in ("chunks", "documents"):
        held = fake.documents(layout.alias(part))  # type: ignore[arg-type]
        assert set(held) == {doc_id for of, doc_id in expected if of == part}
    for entry, _ in entries:
        assert fake.run(get(entry.document.id, layout)) == entry
    assert fake.run(verify(layout, ES)) == ()


def test_a_kill_at_each_call_of_a_replacement_is_mended_by_the_next_put() -> None:
    old, new = plain("d", 6, fingerprint="old"), plain("d", 3, fingerprint="new", words="more")
    old = replace(old[0], figures=(FIGURE,)), old[1]
    whole = server()
    whole.run(put([old], PLAIN, ES))
    first = len(whole.calls)
    whole.run(put([new], PLAIN, ES, options=SMALL))
    for kill in range(len(whole.calls) - first + 1):
        fake = server()
        fake.run(put([old], PLAIN, ES))
        with fake.killed_after(kill):
            fake.run(put([new], PLAIN, ES, options=SMALL))
        left = fake.run(fingerprint("d", PLAIN))
        assert left in ("old", "", "new")
        if left == "":
            assert any("did not end" in problem for problem in fake.run(verify(PLAIN, ES)))
        fake.run(put([new], PLAIN, ES))
        holds_exactly(fake, PLAIN, new)


def test_a_kill_at_each_call_of_a_deletion_is_mended_by_a_put_or_another_deletion() -> None:
    document = plain("d", 5, fingerprint="f")
    for kill in range(12):
        for mend in ("put", "delete"):
            fake = server()
            fake.run(put([document], PLAIN, ES))
            fake.run(record([Outcome(source="elsewhere", document_id="d", state="indexed")], PLAIN))
            with fake.killed_after(kill):
                fake.run(delete("d", PLAIN, SMALL))
            if mend == "put":
                fake.run(put([document], PLAIN, ES))
                holds_exactly(fake, PLAIN, document)
                continue
            with suppress(UnknownDocumentError):  # where the first got so far
                fake.run(delete("d", PLAIN, SMALL))
            holds_exactly(fake, PLAIN)
            assert fake.documents("b-plain-ledger") == {}


def test_equal_fingerprints_are_skipped_and_empty_ones_never() -> None:
    fake = server()
    document, unmarked = plain("d", 2, fingerprint="f"), plain("e", 2)
    report = fake.run(put([document, unmarked], PLAIN, ES))
    assert report.written == (
        Written(document_id="d", chunks=2, removed=0, new=True),
        Written(document_id="e", chunks=2, removed=0, new=True),
    )
    report = fake.run(put([document, unmarked], PLAIN, ES))
    assert (report.skipped, [each.document_id for each in report.written]) == (("d",), ["e"])
    calls = len(fake.calls)
    assert fake.run(put([document], PLAIN, ES)).skipped == ("d",)
    assert len(fake.calls) == calls + 1  # one look at the record
    report = fake.run(put([plain("d", 1, fingerprint="g")], PLAIN, ES))
    assert report.written == (Written(document_id="d", chunks=1, removed=1, new=False),)


def test_a_document_that_is_refused_in_part_is_not_whole_and_stops_no_other() -> None:
    fake = server()
    bad, good = plain("bad", 2, fingerprint="f"), plain("good", 2, fingerprint="f")
    fake.refuse = lambda op, index, doc_id: (
        (400, "mapper_parsing_exception") if doc_id == bad[0].chunks[1].id else None
    )
    report = fake.run(put([bad, good], PLAIN, ES))
    assert (report.unfinished, [each.document_id for each in report.written]) == (("bad",), ["good"])
    assert [failure.id for failure in report.failures] == [bad[0].chunks[1].id]
    with pytest.raises(ServerError, match="1 documents are not whole, the first of them 'bad'"):
        report.check()
    assert fake.run(fingerprint("bad", PLAIN)) == ""
    with pytest.raises(LibraryError, match="its writing did not end"):
        fake.run(get("bad", PLAIN))
    fake.refuse = lambda op, index, doc_id: None
    assert fake.run(put([bad, good], PLAIN, ES)).skipped == ("good",)
    holds_exactly(fake, PLAIN, bad, good)


def test_nothing_is_written_of_entries_of_which_one_is_unsound() -> None:
    fake = server()
    entry, vectors = plain("d", 2)
    for unsound in ([(entry, vectors), (entry, vectors)], [(entry, ViewVectors.default(vectors.rows[:1]))]):
        calls = len(fake.calls)
        with pytest.raises(ParameterError):
            fake.run(put(unsound, PLAIN, ES))
        assert len(fake.calls) == calls


def test_a_set_is_made_once_and_opened_as_what_it_is() -> None:
    fake = FakeServer()
    assert fake.run(open_layout("b-plain")) is None
    assert fake.run(opened(PLAIN)) == PLAIN
    assert fake.run(open_layout("b-plain")) == PLAIN
    assert fake.run(opened(replace(PLAIN, several=("x",)))) == PLAIN  # it lies as it lies
    assert set().union(*fake.aliases().values()) == {"b-plain-chunks", "b-plain-documents", "b-plain-ledger"}
    with pytest.raises(ModelMismatchError, match=r"'laws' \(3 numbers each\), the given model is 'others' \(3\)"):
        fake.run(opened(replace(PLAIN, embedder="others")))
    with pytest.raises(ModelMismatchError):
        fake.run(opened(replace(PLAIN, dim=4)))
    with pytest.raises(LibraryError, match="shards is 1, not 2"):
        fake.run(create(replace(PLAIN, shards=2), ES))


def test_a_kill_while_a_set_is_made_is_mended_by_making_it_again() -> None:
    for kill in range(5):
        fake = FakeServer()
        with fake.killed_after(kill):
            fake.run(opened(PLAIN))
        assert fake.run(opened(PLAIN)) == PLAIN
        assert len(fake.aliases()) == 3


def test_an_index_of_others_is_left_alone() -> None:
    fake = FakeServer()
    body = {"mappings": {"properties": {}}, "settings": {}, "aliases": {"b-plain-chunks": {}}}
    fake.create("theirs", body)
    with pytest.raises(LibraryError, match="Catena did not make it; nothing was changed"):
        fake.run(opened(PLAIN))
    fake.indices["theirs"].mappings["_meta"] = {"catena": {**PLAIN.to_meta(), "format": 99}}
    with pytest.raises(LibraryError, match="of format 99"):
        fake.run(open_layout("b-plain"))
    fake.create("other", {"mappings": {}, "settings": {}, "aliases": {"b-plain-chunks": {}}})
    with pytest.raises(LibraryError, match="leads to 2 indices"):
        fake.run(open_layout("b-plain"))


def test_a_set_that_is_gone_is_not_made_by_writing() -> None:
    fake = server()
    fake.indices.clear()
    fake.create("other", {"mappings": {}, "settings": {}, "aliases": {"b-plain-documents": {}, "b-plain-chunks": {}}})
    fake.run(put([plain("d", 1)], PLAIN, ES))
    assert set(fake.aliases()) == {"other"}
    with pytest.raises(ServerError, match="writing the ledger: 1 of 1 were refused"):
        fake.run(record([Outcome(source="s", document_id="d", state="indexed")], PLAIN))


def test_loading_brings_refreshes_and_replicas_back_after_success_and_failure() -> None:
    layout = replace(PLAIN, replicas=2)
    fake = server(layout)

    def settings_of() -> tuple[object, object]:
        found = fake.indices["b-plain-chunks-1"].settings
        return found["index.refresh_interval"], found["index.number_of_replicas"]

    def failing() -> object:
        assert settings_of() == ("-1", 0)
        assert "searches see nothing new" in fake.run(verify(layout, ES))[0]
        raise ServerError("s", "no")
        yield

    with pytest.raises(ServerError, match="no"):
        fake.run(loading(failing(), layout))  # type: ignore[arg-type]
    assert settings_of() == (None, 2)
    report = fake.run(loading(put([plain("d", 1)], layout, ES), layout))
    assert settings_of() == (None, 2)
    assert len(report.written) == 1
    assert len(fake.indices["b-plain-chunks-1"].seen) == 1  # refreshed


def test_the_kinds_of_view_get_their_fields_before_they_are_written() -> None:
    fake = server()
    entry, vectors = plain("d", 1)
    fake.run(put([(entry, vectors)], PLAIN, ES))
    fields = fake.indices["b-plain-chunks-1"].mappings["properties"]["words"]["properties"]
    assert fields == {"of_headed": {"type": "text", "analyzer": "whitespace", "index_options": "freqs"}}
