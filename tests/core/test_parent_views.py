"""Views of parents for a user's own index: which are made, how parents are ranked by them, and how both are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena import run
from catena.effects import Search, Services, Step
from catena.enrichment import (
    LEDGER,
    Keywords,
    Moves,
    ParentViews,
    Summaries,
    ViewChanges,
    ViewRecord,
    add_views,
    delete_views,
    divided_views,
    record_key,
    replace_views,
    views_of_parents,
    written_by_model,
)
from catena.model import Chunk, Document, DuplicateDocumentError, ParameterError, ServiceError, View
from catena.retrieval import FoundViews, rank_parents, search_kind


def test_own_views_come_first_in_one_order_and_others_as_they_are_given() -> None:
    maker = Keywords(by="offline")
    assert divided_views([maker, "passage", "raw"], "offline") == (("raw", "passage"), (maker,))
    assert divided_views(None, "llm") == (("passage",), (Keywords(by="llm"), Summaries(by="llm")))
    for wrong in ("raw", [], ["keywords"], [Keywords]):
        with pytest.raises(ParameterError, match="views"):
            divided_views(wrong, "llm")  # type: ignore[arg-type]


def done(value: Any) -> Step[Any]:
    yield from ()
    return value


# Rankings of parents.


def search(*views: tuple[str, float], asked: list[int]):
    def find(request: Search) -> Step[FoundViews[str]]:
        asked.append(request.k)
        return done(FoundViews(views=views[: request.k], all=request.k >= len(views)))

    return find


def parents_of(views: Sequence[str]) -> Step[tuple[list[Chunk | None], tuple[()]]]:
    return done(([None if view.startswith("?") else chunk(view[0]) for view in views], ()))


def test_parents_are_ranked_by_their_best_view_and_more_are_asked_for_until_k_are_there() -> None:
    asked: list[int] = []
    views = [("a1", 0.9), ("a2", 0.8), ("?", 0.75), ("b1", 0.7), ("c1", 0.6)]
    request = Search(route="dense", query="q", k=2, view="raw")
    ranking = run(rank_parents(request, search(*views, asked=asked), parents_of, route="mine", k=1.5), Services())
    assert asked == [2, 8]
    found = [(hit.chunk.id, hit.score, hit.provenance[0].rank, hit.provenance[0].view) for hit in ranking.hits]
    assert found == [("a", 0.9, 1, "raw"), ("b", 0.7, 4, "raw")]
    assert {hit.provenance[0].route for hit in ranking.hits} == {"mine"}
    run(rank_parents(replace(request, k=4), search(*views, asked=asked), parents_of, route="mine", k=2), Services())
    assert asked[2:] == [4]  # two parents are two


@pytest.mark.parametrize(
    ("refuses", "obeys", "why"),
    [
        (False, True, None),
        (False, False, "mine does not obey the filter on 'view'; searched without, and grouped by 'view'"),
        (True, True, "mine was not searched by 'view' (no filters); searched without, and grouped by 'view'"),
    ],
)
def test_a_filter_on_the_kind_that_does_not_work_is_told_and_more_views_are_grouped(refuses, obeys, why) -> None:
    asked: list[tuple[int, bool]] = []

    def ask(size: int, filtered: bool) -> Step[list[str]]:
        asked.append((size, filtered))
        if filtered and refuses:
            raise ServiceError("mine", "no filters")
        index = ["raw 1", "summary 1", "raw 2", "summary 2"]
        return done([view for view in index if not (filtered and obeys) or view.startswith("summary")][:size])

    def found(filters: bool = True, strict: bool = False) -> tuple[list[str], bool, tuple[Any, ...]]:
        request = Search(route="dense", query="q", k=2, view="summary")
        told: dict[str, Any] = {"store": "mine", "key": "view", "instead": "searched without"}
        is_kind = lambda view: view.startswith("summary")  # noqa: E731
        return run(search_kind(request, 2, ask, is_kind, filters=filters, strict=strict, **told), Services())

    views, _, degraded = found()
    assert (views, [part.why for part in degraded]) == (["summary 1", "summary 2"], [why] if why else [])
    assert asked == [(2, True), (4, False)][: 2 if why else 1]
    if refuses:
        with pytest.raises(ServiceError):
            found(strict=True)
    asked.clear()
    assert (found(filters=False), asked) == ((["summary 1", "summary 2"], False, ()), [(4, False)])


# An index in step.


class Kept:
    """An index of views and a store of parents in memory."""

    where, version = "index", "1"

    def __init__(self) -> None:
        self.known: dict[str, ViewRecord] = {}
        self.parents: dict[str, Chunk] = {}
        self.made_of, self.views = list[str](), set[str]()

    def records(self, sources: Sequence[str]) -> Step[dict[str, ViewRecord]]:
        return done({name: self.known[name] for name in sources if name in self.known})

    def hash_of(self, parent: Chunk) -> str:
        return f"{parent.position}: {parent.text}"

    def made(self, source: str, parents: Sequence[Chunk], held: object) -> Step[tuple[ParentViews[str], dict]]:
        self.made_of.append(source)
        whole, named = Document(id=source, text=""), lambda view, number: f"{view.chunk_id}{number}: {view.text}"
        made = yield from views_of_parents(whole, parents, ["raw"], (), named, passage_tokens=9, model="")
        return made, {view: view for found in made.views.values() for view in found}

    def noted(self, record: ViewRecord) -> Step[None]:
        return done(self.known.update({record.source: record}))

    def forgotten(self, record: ViewRecord) -> Step[None]:
        return done(self.known.pop(record.source))

    def parents_kept(self, parents: Mapping[str, Chunk]) -> Step[None]:
        return done(self.parents.update(parents))

    def parents_dropped(self, ids: Sequence[str]) -> Step[None]:
        return done([self.parents.pop(name) for name in ids])

    def views_added(self, views: Mapping[str, str], *, again: bool) -> Step[int]:
        assert again or not views.keys() & self.views
        return done((self.views.update(views), len(views))[1])

    def views_dropped(self, ids: Sequence[str]) -> Step[int]:
        return done((self.views.difference_update(ids), len(ids))[1])


def test_only_what_changed_is_made_anew_and_what_only_moved_is_written_without() -> None:
    stores = Kept()
    first = {"d": {"a": chunk("a"), "b": chunk("b", position=1), "c": chunk("c", " ", position=2)}}
    added = run(add_views(stores, first), Services())
    assert added == ViewChanges(views_added=2, parents_written=3)  # nothing is said under a blank text
    with pytest.raises(DuplicateDocumentError):
        run(add_views(stores, {"e": {"x": chunk("x")}, "d": {"a": chunk("a")}}), Services())
    assert list(stores.known) == ["d"]  # nothing was changed
    for again in (add_views, replace_views):
        assert run(again(stores, first), Services()) == ViewChanges(views_kept=2)
    moved = {"d": {"a": chunk("a", position=4), "b": chunk("b", position=5), "c": chunk("c", " ", position=6)}}
    assert run(replace_views(stores, moved), Services()) == ViewChanges(views_kept=2, parents_written=3)
    assert (stores.made_of, stores.known["d"].parents["a"]) == (["d"], "4: x")
    changes = run(replace_views(stores, {"d": {"a": chunk("a")}}), Services())
    changed = ViewChanges(views_deleted=1, views_kept=1, parents_written=1, parents_deleted=2)
    assert (changes, stores.made_of, list(stores.parents), stores.views) == (changed, ["d", "d"], ["a"], {"a0: x"})
    stores.version = "2"
    run(replace_views(stores, {"d": {"a": chunk("a")}}), Services())
    assert stores.made_of == ["d"] * 3
    run(replace_views(stores, {"e": {"x": chunk("x")}}, ["d", "e"]), Services())
    assert list(stores.known) == ["e"]  # `d` was read, and gave nothing
    assert run(delete_views(stores, ["e", "unknown"]), Services()) == ViewChanges(views_deleted=1, parents_deleted=1)
    assert (stores.known, stores.parents, stores.views) == ({}, {}, set())


# Records of what an index of views has written: nothing is lost on the way into a store and back.

names = st.text(max_size=5)
records = st.builds(
    ViewRecord,
    source=st.just("manual.md"),
    fingerprint=names,
    whole=st.booleans(),
    parents=st.dictionaries(names, names, max_size=3),
    views=st.lists(names, max_size=4, unique=True).map(tuple),
    written=st.dictionaries(names, st.lists(st.tuples(names, names), max_size=2).map(tuple), max_size=2),
)


def test_a_record_by_hand() -> None:
    record = ViewRecord(source="ä.md", parents={"p": "1"}, views=("v",), written={"m": (("keywords", "oil"),)})
    assert record.to_json() == (
        '{"source": "ä.md", "fingerprint": "", "whole": true, "parents": {"p": "1"}, "views": ["v"],'
        ' "written": {"m": [["keywords", "oil"]]}}'
    )
    assert record.held == {"m": (View(chunk_id="", kind="keywords", text="oil", made="m"),)}
    assert record_key(LEDGER, "ä.md").startswith("catena-views/")
    assert record_key(LEDGER, "ä.md") != record_key(LEDGER, "b.md")


@given(records)
def test_what_was_kept_is_read_as_it_was(record: ViewRecord) -> None:
    assert ViewRecord.from_json(record.to_json(), "key") == record


@given(records, records)
def test_between_two_states_anything_of_both_may_stand(old: ViewRecord, new: ViewRecord) -> None:
    both = old.and_then(new)
    assert not both.whole
    assert both.parents.keys() == old.parents.keys() | new.parents.keys()
    assert sorted(both.views) == sorted({*old.views, *new.views})
    assert all(both.written[made] == texts for made, texts in new.written.items())


@given(records, records)
def test_moves_lead_from_one_state_to_the_other(old: ViewRecord, new: ViewRecord) -> None:
    moves = Moves.between(old, new)
    assert {*old.views, *moves.views_added} - set(moves.views_deleted) == set(new.views)
    parents = {**old.parents, **{name: new.parents[name] for name in moves.parents_written}}
    assert {name: made for name, made in parents.items() if name not in moves.parents_deleted} == new.parents
    parents, views = ((), ()) if new.whole else (tuple(new.parents), new.views)
    nothing = Moves(parents_written=parents, views_added=views, views_deleted=(), parents_deleted=())
    assert Moves.between(new, new) == nothing


def test_of_equal_chunks_what_was_written_of_the_first_is_kept() -> None:
    asked = (("a", "One?"), ("a", "Two?"), ("b", "One?"))
    views = [View(chunk_id=name, kind="questions", text=text, made="m") for name, text in asked]
    views.append(View(chunk_id="b", kind="keywords", text="oil"))
    assert written_by_model(views) == {"m": (("questions", "One?"), ("questions", "Two?"))}


@pytest.mark.parametrize("text", ["", "no record", "[]", '{"source": "a"}', '{"source": 1, "written": 2}', "null"])
def test_what_is_no_record_is_named(text: str) -> None:
    with pytest.raises(ParameterError, match=r"docstore\['key'\] must be a record of CatenaViewIndex"):
        ViewRecord.from_json(text, "key")
