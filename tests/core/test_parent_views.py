"""Views of parents for a user's own index: which are made, how parents are ranked by them, and how both are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena import run
from catena.effects import Search, Services, Step
from catena.enrichment import (
    LEDGER,
    Keywords,
    MadeViews,
    Moves,
    Summaries,
    ViewRecord,
    divided_views,
    record_key,
    views_of_parents,
    written_by_model,
)
from catena.model import Chunk, Document, ParameterError, View
from catena.retrieval import FoundViews, rank_parents


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
    asks_model, version = False, "1"

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
