"""Records of what an index of views has written: nothing is lost on the way into a store and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.enrichment import LEDGER, Moves, ViewRecord, record_key, written_by_model
from catena.model import ParameterError, View

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
    assert set(both.views) == {*old.views, *new.views}
    assert len(set(both.views)) == len(both.views)
    assert all(both.written[made] == texts for made, texts in new.written.items())


@given(records, records)
def test_moves_lead_from_one_state_to_the_other(old: ViewRecord, new: ViewRecord) -> None:
    moves = Moves.between(old, new)
    assert {*old.views, *moves.views_added} - set(moves.views_deleted) == set(new.views)
    parents = {**old.parents, **{name: new.parents[name] for name in moves.parents_written}}
    assert {name: made for name, made in parents.items() if name not in moves.parents_deleted} == new.parents
    assert Moves.between(new, new) == Moves(
        parents_written=() if new.whole else tuple(new.parents),
        views_added=() if new.whole else new.views,
        views_deleted=(),
        parents_deleted=(),
    )


def test_of_equal_chunks_what_was_written_of_the_first_is_kept() -> None:
    views = [
        View(chunk_id="a", kind="questions", text="One?", made="m"),
        View(chunk_id="a", kind="questions", text="Two?", made="m"),
        View(chunk_id="b", kind="questions", text="One?", made="m"),
        View(chunk_id="b", kind="keywords", text="oil"),
    ]
    assert written_by_model(views) == {"m": (("questions", "One?"), ("questions", "Two?"))}


@pytest.mark.parametrize("text", ["", "no record", "[]", '{"source": "a"}', '{"source": 1, "written": 2}', "null"])
def test_what_is_no_record_is_named(text: str) -> None:
    with pytest.raises(ParameterError, match=r"docstore\['key'\] must be a record of CatenaViewIndex"):
        ViewRecord.from_json(text, "key")
