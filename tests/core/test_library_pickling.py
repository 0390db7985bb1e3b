"""A library and a journal in another process: the same path, the same models, and files of their own."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from catena import Library
from catena.effects import Budget, Complete, Handler, Journal, Limiter, Retry, Services
from catena.library import Preparation
from catena.model import LibraryError, ParameterError
from catena.structure import SectionChunkOptions

TEXT = "# HX210 Manual\n\n## Mounting\n\nTighten the cover screws to 4.5 Nm.\n"


def test_a_library_opens_again_where_it_is_unpickled(tmp_path: Path) -> None:
    (tmp_path / "hx210.md").write_text(TEXT)
    sections = Preparation(chunks=SectionChunkOptions())
    with (
        Journal.open(tmp_path / "journal.db") as journal,
        Library.open(tmp_path / "library", preparation=sections, services=Services(journal=journal)) as library,
    ):
        library.index([tmp_path / "hx210.md"])
        with pickle.loads(pickle.dumps(library)) as other:
            assert other.store is not library.store
            assert other.preparation == library.preparation
            assert other.search("cover screws") == library.search("cover screws")
            kept = other.services.journal
            journal.put("ab" * 32, b"reply")
            assert kept is not journal
            assert kept.get("ab" * 32) == b"reply"
            kept.close()


def test_a_library_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library") as library:
        pickled = pickle.dumps(library)
    (tmp_path / "library").rename(tmp_path / "elsewhere")
    with pytest.raises(LibraryError):
        pickle.loads(pickled)


def test_engine_and_pace_go_along_but_no_cap_and_no_limit_that_would_not_count_together(tmp_path: Path) -> None:
    pytest.importorskip("rank_bm25")
    paced = Services(max_concurrency=2, retry=Retry(attempts=7))
    with (
        Library.open(tmp_path / "library", lexical="rank-bm25", services=paced) as library,
        pickle.loads(pickle.dumps(library)) as other,
    ):
        assert other.store.lexical == "rank-bm25"
        assert (other.services.max_concurrency, other.services.retry.attempts) == (2, 7)
    for name, counting in (("budget", Budget(max_tokens=10)), ("limiter", Limiter({Complete: 60}))):
        with Library.open(tmp_path / "library", services=Services(**{name: counting})) as library:
            for held, message in ((library, f"{name} must be None"), (library.services, "would not count together")):
                with pytest.raises(ParameterError, match=message):
                    pickle.dumps(held)


def test_services_are_made_again_from_what_they_were_given() -> None:
    services = Services(handlers={Complete: Handler(identity="words", call=len)}, max_concurrency=3)
    again = pickle.loads(pickle.dumps(services))
    assert again.max_concurrency == 3
    assert again.handler(Complete) == services.handler(Complete)
