"""Views of parents for a user's own index: which are made, how parents are ranked by them, and how both are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from retrieval_cases import chunk

from catena import run
from catena.effects import Search, Services, Step
from catena.enrichment import (
    Keywords,
    MadeViews,
    ParentViews,
    Summaries,
    ViewChanges,
    ViewRecord,
    add_views,
    delete_views,
    divided_views,
    replace_views,
    views_of_parents,
)
from catena.model import Chunk, Document, DuplicateDocumentError, ParameterError, ServiceError
from catena.retrieval import FoundViews, rank_parents, search_kind


def test_own_views_come_first_in_one_order_and_others_as_they_are_given() -> None:
    maker = Keywords(by="offline")
    assert divided_views([maker, "passage", "raw"], "offline") == (("raw", "passage"), (maker,))
    assert divided_views(None, "llm") == (("passage",), (Keywords(by="llm"), Summaries(by="llm")))
    for wrong in ("raw", [], ["keywords"], [Keywords]):
        with pytest.raises(ParameterError, match="views"):
            divided_views(wrong, "llm")  # type: ignore[arg-type]


@dataclass(frozen=True)
class Given:
    """Gives chunks views of its kind: those of their ids."""

    kind: str
    texts: Mapping[str, Sequence[str]]
    asks_model = False
    version = "1"

    def make(self, chunks: Sequence[Chunk], title: str) -> Step[MadeViews]:
        yield from ()
        return MadeViews(texts=tuple(tuple(self.texts.get(each.id, ())) for each in chunks))


def test_views_are_numbered_by_parent_and_kind_and_blank_ones_are_left_out() -> None:
    makers = [Given("own", {"a": ["x", "y"], "b": ["x"]}), Given("other", {"a": ["x"]})]
    step = views_of_parents(
        Document(id="d", text=""), [chunk("a", "A"), chunk("b", " ")], ["raw"], makers,
        lambda view, number: (view.kind, view.text, number), passage_tokens=9, model="",
    )  # fmt: skip
    assert run(step, Services()).views == {
        "a": (("raw", "A", 0), ("own", "x", 0), ("own", "y", 1), ("other", "x", 0)), "b": (("own", "x", 0),)
    }  # fmt: skip


# Rankings of parents.


def search(*views: tuple[str, float], asked: list[int]):
    def find(request: Search) -> Step[FoundViews[str]]:
        yield from ()
        asked.append(request.k)
        return FoundViews(views=views[: request.k], all=request.k >= len(views))

    return find


def parents_of(views: Sequence[str]) -> Step[tuple[list[Chunk | None], tuple[()]]]:
    yield from ()
    return [None if view.startswith("?") else chunk(view[0]) for view in views], ()


def test_parents_are_ranked_by_their_best_view_and_more_are_asked_for_until_k_are_there() -> None:
    asked: list[int] = []
    views = [("a1", 0.9), ("a2", 0.8), ("?", 0.75), ("b1", 0.7), ("c1", 0.6)]
    request = Search(route="dense", query="q", k=2, view="raw")
    ranking = run(rank_parents(request, search(*views, asked=asked), parents_of, route="mine", k=1.5), Services())
    assert asked == [2, 8]
    found = [(hit.chunk.id, hit.score, hit.provenance[0].rank, hit.provenance[0].view) for hit in ranking.hits]
    assert found == [("a", 0.9, 1, "raw"), ("b", 0.7, 4, "raw")]
    assert {hit.provenance[0].route for hit in ranking.hits} == {"mine"}


@pytest.mark.parametrize(
    ("refuses", "obeys", "why"),
    [
        (False, True, None),
        (False, False, "mine does not obey the filter on 'view'; searched without, and grouped by 'view'"),
        (True, True, "mine was not searched by 'view' (no filters); searched without, and grouped by 'view'"),
    ],
)
def test_a_filter_on_the_kind_that_does_not_work_is_told_and_more_views_are_grouped(
    refuses: bool, obeys: bool, why: str | None
) -> None:
    asked: list[tuple[int, bool]] = []
    index = ["raw 1", "summary 1", "raw 2", "summary 2"]

    def ask(size: int, filtered: bool) -> Step[list[str]]:
        yield from ()
        asked.append((size, filtered))
        if filtered and refuses:
            raise ServiceError("mine", "no filters")
        return [view for view in index if not (filtered and obeys) or view.startswith("summary")][:size]

    def found(**how: bool) -> Step[tuple[list[str], bool, tuple[object, ...]]]:
        request = Search(route="dense", query="q", k=2, view="summary")
        of_kind = {"of_kind": lambda view: view.startswith("summary"), "store": "mine", "key": "view"}
        return search_kind(request, 2, ask, **of_kind, instead="searched without", **{"filters": True, **how})

    views, _, degraded = run(found(), Services())
    assert views == ["summary 1", "summary 2"]
    assert [part.why for part in degraded] == ([] if why is None else [why])
    assert asked == [(2, True), *([] if why is None else [(4, False)])]
    if refuses:
        with pytest.raises(ServiceError):
            run(found(strict=True), Services())
    asked.clear()
    assert run(found(filters=False), Services()) == (["summary 1", "summary 2"], False, ())
    assert asked == [(4, False)]


# An index in step.


@dataclass
class Kept:
    """An index of views and a store of parents in memory."""

    where: str = "index"
    version: str = "1"
    known: dict[str, ViewRecord] = field(default_factory=dict)
    made_of: list[str] = field(default_factory=list)
    parents: dict[str, Chunk] = field(default_factory=dict)
    views: set[str] = field(default_factory=set)

    def records(self, sources: Sequence[str]) -> Step[dict[str, ViewRecord]]:
        yield from ()
        return {name: self.known[name] for name in sources if name in self.known}

    def hash_of(self, parent: Chunk) -> str:
        return f"{parent.position}: {parent.text}"

    def made(self, source: str, parents: Sequence[Chunk], held: object) -> Step[tuple[ParentViews[str], dict]]:
        self.made_of.append(source)
        whole = Document(id=source, text="")
        made = yield from views_of_parents(
            whole, parents, ["raw"], (), lambda view, _: f"{view.chunk_id}: {view.text}", passage_tokens=9, model=""
        )
        return made, {view: view for found in made.views.values() for view in found}

    def noted(self, record: ViewRecord) -> Step[None]:
        yield from ()
        self.known[record.source] = record

    def forgotten(self, record: ViewRecord) -> Step[None]:
        yield from ()
        del self.known[record.source]

    def parents_kept(self, parents: Mapping[str, Chunk]) -> Step[None]:
        yield from ()
        self.parents |= parents

    def parents_dropped(self, ids: Sequence[str]) -> Step[None]:
        yield from ()
        for name in ids:
            del self.parents[name]

    def views_added(self, views: Mapping[str, str], *, again: bool) -> Step[int]:
        yield from ()
        assert again or not views.keys() & self.views
        self.views |= views.keys()
        return len(views)

    def views_dropped(self, ids: Sequence[str]) -> Step[int]:
        yield from ()
        assert all(record.whole is False for record in self.known.values() if set(record.views) & set(ids))
        self.views -= set(ids)
        return len(ids)


def test_only_what_changed_is_made_anew_and_what_only_moved_is_written_without() -> None:
    stores = Kept()
    first = {"d": {"a": chunk("a"), "b": chunk("b", position=1)}}
    assert run(add_views(stores, first), Services()) == ViewChanges(views_added=2, parents_written=2)
    with pytest.raises(DuplicateDocumentError):
        run(add_views(stores, {"e": {"x": chunk("x")}, **first}), Services())
    assert list(stores.known) == ["d"]  # nothing was changed
    assert run(replace_views(stores, first), Services()) == ViewChanges(views_kept=2)
    moved = {"d": {"a": chunk("a", position=4), "b": chunk("b", position=5)}}
    assert run(replace_views(stores, moved), Services()) == ViewChanges(views_kept=2, parents_written=2)
    assert stores.made_of == ["d"]
    assert stores.known["d"].parents["a"].startswith("4")
    changes = run(replace_views(stores, {"d": {"a": chunk("a")}}), Services())
    changed = ViewChanges(views_deleted=1, views_kept=1, parents_written=1, parents_deleted=1)
    assert (changes, stores.made_of, list(stores.parents), len(stores.views)) == (changed, ["d", "d"], ["a"], 1)
    stores.version = "2"
    run(replace_views(stores, {"d": {"a": chunk("a")}}), Services())
    assert stores.made_of == ["d"] * 3
    run(replace_views(stores, {"e": {"x": chunk("x")}}, ["d", "e"]), Services())
    assert list(stores.known) == ["e"]  # `d` was read, and gave nothing
    assert run(delete_views(stores, ["e", "unknown"]), Services()) == ViewChanges(views_deleted=1, parents_deleted=1)
    assert (stores.known, stores.parents, stores.views) == ({}, {}, set())
