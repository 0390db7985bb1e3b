"""Views in a user's own stores: made, found, resolved to parents, and kept in step with documents that change."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from adapter_faces import Refused, ids, told
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index_fakes import writing
from view_stores import LangChainViews, LlamaIndexViews, Shout

from catena.enrichment import Keywords, Summaries
from catena.model import DuplicateDocumentError, ParameterError, ServiceError
from catena.retrieval import ExactUnion, PaperQuota, ViewRankFusion, multi_view
from catena.retrieval.view_search import ViewScoreFusion
from catena.testing import FakeEmbedder

WORLDS = (LangChainViews(), LlamaIndexViews())
SLOWLY = [WORLDS[0], pytest.param(WORLDS[1], marks=pytest.mark.slow)]  # LlamaIndex's stores take their time
OFFLINE = ("headed", Keywords(by="offline"))
ASKED = ("headed", Keywords(), Summaries(over_tokens=0))
BODIES = ("Tighten the cover screws to 4.5 Nm.", "The fuse holds 3 A.", "Clean the filter with water.")
SECOND = "The second one has a hose."


@pytest.fixture(params=WORLDS, ids=lambda world: world.name)
def world(request: pytest.FixtureRequest) -> Any:
    return request.param


def manual(name: str, *bodies: str) -> str:
    parts = [f"## Part {number}\n\n{body}\n" for number, body in enumerate(bodies, start=1)]
    return f"# {name} Manual\n\n" + "\n".join(parts)


def sections(world: Any, *bodies: str, id: str = "HX210.md", **metadata: Any) -> list[Any]:
    return world.sections(world.document(id, manual("HX210", *bodies or BODIES), **metadata))


def maker_of(world: Any, views: Any = OFFLINE, said: Any = None, **options: Any) -> Any:
    llm = None if said is None else world.model(said)
    return world.make("CatenaViewTransformer", views, llm=llm, **options)


def both(world: Any) -> list[Any]:
    return [*sections(world), *sections(world, SECOND, id="HX220.md")]


def retriever(world: Any, views: Any = OFFLINE, **options: Any) -> Any:
    return world.over(maker_of(world, views), both(world), **options)


# Views, and ids by content.


def test_each_parent_gets_its_views_under_derived_ids(world: Any) -> None:
    views = maker_of(world, ["raw", "headed", "passage", Keywords(by="offline"), Shout()])
    parents = sections(world, title="HX210 Manual")
    made, names = world.views(views, parents), ids(world.found(parents))
    assert made == world.views(views, parents)
    assert len({view.id for view in made}) == len(made)
    assert {view.parent for view in made} == {*names}
    first = {view.kind: view.text for view in made if view.parent == names[0]}
    assert set(first) == set(views.kinds) == {"raw", "headed", "passage", "keywords", "loud"}
    assert first["raw"] == world.found(parents)[0].text
    assert first["headed"].splitlines()[0].endswith("HX210 Manual › Part 1")
    assert first["loud"] == "HX210 Manual!"  # the second of its kind


def test_a_model_writes_views_and_what_it_fails_at_costs_those_alone_and_is_told(world: Any, caplog: Any) -> None:
    views = maker_of(world, ["raw", *ASKED[1:]], writing)
    kinds = [view.kind for view in world.views(views, sections(world))]
    assert sorted(kinds) == sorted(["raw", "keywords", "summary"] * 3)
    assert world.asked(views.llm) == 6

    def fails(prompt: str) -> str:
        raise Refused("no such model")

    broken = maker_of(world, ["raw", Keywords()], fails)
    with caplog.at_level(logging.WARNING):
        assert [view.kind for view in world.views(broken, sections(world))] == ["raw"] * 3
    assert "no such model" in caplog.text


def test_ids_by_content_outlast_an_edit_elsewhere(world: Any) -> None:
    before, after = (world.content_ids(sections(world, *bodies)) for bodies in (BODIES, ("Not more.", *BODIES[1:])))
    names, others = ids(world.found(before)), ids(world.found(after))
    assert [one == other for one, other in zip(names, others, strict=True)] == [False, True, True]
    assert world.neighbours(after[1]) == (others[0], others[2])
    assert ids(world.found(world.content_ids(before))) == names
    tenants = sections(world, tenant=1)
    same, other = world.content_ids(tenants), world.content_ids(tenants, metadata_keys=["tenant"])
    assert ids(world.found(same)) == names != ids(world.found(other))
    assert len({*ids(world.found(world.content_ids([*sections(world), *sections(world)])))}) == 6


# The retriever.


def test_parents_come_once_in_raw_text_with_the_views_that_found_them(world: Any) -> None:
    found = world.ask(retriever(world, rule=ExactUnion()), "How tight are the cover screws?")
    assert found[0].text == f"## Part 1\n\n{BODIES[0]}"
    assert len({*ids(found)}) == len(found)
    said = told(found[0])
    assert (said["views"], found[0].told) == ({"headed": 1, "keywords": 1}, ())
    ways = [(world.store, "headed", 1), (world.store, "keywords", 1)]
    assert [(way["route"], way["view"], way["rank"]) for way in said["routes"]] == ways
    assert found[0].metadata["citation"]


@pytest.mark.parametrize(
    "rule",
    [PaperQuota(), ExactUnion(), ViewRankFusion(weights={"headed": 2.0}), ViewScoreFusion()],
    ids=lambda rule: type(rule).__name__,
)
def test_the_rules_are_those_of_the_core(world: Any, rule: Any) -> None:
    question, plain = "the fuse and the cover", ViewScoreFusion(normalise=lambda s, b: s)
    each = {kind: retriever(world, views=[kind], rule=plain, k=30).ranking(question) for kind in ("headed", "raw")}
    for k in (1, 3):
        ranking = retriever(world, views=["headed", "raw"], rule=rule, k=k).ranking(question)
        expected = multi_view(each, rule, k)
        assert [hit.chunk.id for hit in ranking.hits] == [hit.chunk.id for hit in expected.hits]
        assert ranking.scale is rule.scale


def test_a_missing_parent_is_told_and_takes_no_place(world: Any, caplog: Any) -> None:
    views = retriever(world, views=["headed"], rule=ExactUnion(), k=2)
    gone = str(world.ask(views, "fuse")[0].id)
    world.lose(views, gone)
    with caplog.at_level(logging.WARNING):
        found, heard = world.heard(views, "fuse")
    assert len(found) == 2
    assert gone not in ids(found)
    assert gone in found[0].told[0]
    assert heard == ["view headed: parents"]
    assert "1 that views lead to are missing where parents are kept" in caplog.text


@pytest.mark.parametrize("store", ["refusing", "deaf"])
def test_a_store_without_a_filter_is_searched_further_and_says_so(world: Any, store: str) -> None:
    plain = world.ask(retriever(world, rule=ExactUnion()), "fuse")
    loud = world.ask(retriever(world, store=store, rule=ExactUnion()), "fuse")
    quiet = world.ask(retriever(world, store=store, rule=ExactUnion(), filtering="over-fetch"), "fuse")
    assert ids(loud) == ids(quiet) == ids(plain)
    assert [("view" in part and "filter" in part) for part in loud[0].told] == [True, True]
    assert quiet[0].told == ()


def test_distances_rank_as_likeness_does(world: Any) -> None:
    how: dict[str, Any] = {"rule": ViewScoreFusion(), "filtering": "over-fetch"}
    far, near = (retriever(world, store=store, **how).ranking("clean filter") for store in ("distant", "plain"))
    assert [hit.chunk.id for hit in far.hits] == [hit.chunk.id for hit in near.hits]


@pytest.mark.parametrize("score", [None, float("nan")])
def test_scores_of_a_retriever_count_where_all_are_numbers(world: Any, score: float | None) -> None:
    found = [world.piece(name, f"{name} is here.", told) for name, told in (("a", 0.2), ("b", 0.3), ("c", score))]
    by_one = world.make("CatenaMultiViewRetriever", retrievers={"raw": world.finding(*found)}, rule=ViewScoreFusion())
    assert ids(world.ask(by_one, "?")) == ["a", "b", "c"]


def test_retrievers_of_sections_find_the_same_as_the_index_that_renamed_them(world: Any) -> None:
    parents = world.found(sections(world))
    index = world.index(maker_of(world, ["raw"]))
    index.add(sections(world))
    given = world.scored(sections(world), (3.0, 2.0, 1.0))
    views = world.beside(index, world.finding(*given), rule=ExactUnion(), k=6)
    found = world.ask(views, "fuse")
    assert sorted(each.text for each in found) == sorted(each.text for each in parents)
    assert all(set(told(each)["views"]) == {"headed", "raw"} for each in found)
    assert [hit.chunk.id for hit in views.ranking("fuse").hits] == ids(found)


# Stores in step.


def changes(world: Any, *numbers: int) -> Any:
    """Return views added, deleted, kept, and parents written, deleted."""
    names = ("views_added", "views_deleted", "views_kept", "parents_written", "parents_deleted")
    return world.package.ViewChanges(**dict(zip(names, numbers, strict=False)))


def test_a_changed_section_is_replaced_and_no_other_is_asked_for_or_embedded(world: Any) -> None:
    embedder, maker = FakeEmbedder(dim=48), maker_of(world, ASKED, writing)
    index = world.index(maker, embedder)

    def paid() -> tuple[int, int]:
        return world.asked(maker.llm), sum(len(call) for call in embedder.calls if isinstance(call, tuple))

    assert index.add(sections(world)) == changes(world, 9, 0, 0, 3)
    assert (paid(), index.sources()) == ((6, 9), ("HX210.md",))
    longer = (f"{BODIES[0]}\n\nUse a lever.", *BODIES[1:])
    assert index.replace(sections(world, *longer)) == changes(world, 3, 3, 6, 3, 1)  # the others moved: their lines
    assert paid() == (8, 12)
    assert world.parent_texts(index) == sorted(each.text for each in world.found(sections(world, *longer)))
    found = world.ask(index.retriever(rule=ExactUnion()), "filter water")
    (moved,) = [each for each in found if "filter" in each.text]
    assert moved.metadata["first_line"] == world.found(sections(world, *longer))[2].metadata["first_line"]
    assert index.replace(sections(world, *longer)) == changes(world, 0, 0, 9)
    assert paid() == (8, 12)


def test_what_a_model_failed_at_is_asked_for_again_and_other_views_are_made_anew(world: Any) -> None:
    silent = True

    def reply(prompt: str) -> str:
        if silent:
            raise Refused("busy")
        return writing(prompt)

    index = world.index(maker_of(world, ASKED, reply))
    made = index.add(sections(world))
    assert (made.views_added, bool(made.degraded)) == (3, True)
    silent = False
    assert index.replace(sections(world)).views_added == 6
    assert index.replace(sections(world)) == changes(world, 0, 0, 9)
    other = world.again(index, maker_of(world, ["headed"]))
    made = other.replace(sections(world))
    assert (made.views_added, made.views_deleted, made.parents_written) == (0, 6, 0)
    assert len(world.ask(other.retriever(rule=ExactUnion()), "fuse")) == 3


async def test_sources_are_added_once_and_removed_where_they_are_named_sync_and_async(world: Any) -> None:
    index, twin = (world.index(maker_of(world, ASKED, writing)) for _ in range(2))
    empty, second = world.held(index), sections(world, SECOND, id="HX220.md")
    added = index.add(sections(world))
    before = world.held(index)
    with pytest.raises(DuplicateDocumentError, match=r"HX210\.md.*Try: replace"):
        index.add([*sections(world, SECOND), *sections(world, SECOND, id="HX220.md")])
    assert world.held(index) == before
    assert index.add(sections(world)) == changes(world, 0, 0, 9)
    index.replace(second)
    with world.unblocked():
        assert await twin.aadd(sections(world)) == added
        await twin.areplace(second)
        assert await twin.asources() == index.sources() == ("HX210.md", "HX220.md")
    read = ["HX210.md", "HX220.md", "nowhere.md"]
    left = index.replace(second, sources=read)
    assert (left.views_kept, left.views_deleted, left.parents_deleted) == (3, 9, 3)
    found = ids(world.ask(index.retriever(), "hose"))
    with world.unblocked():
        assert await twin.areplace(second, sources=read) == left
        assert ids(await world.aask(twin.retriever(), "hose")) == found
        assert await twin.adelete("nowhere.md", "HX210.md") == changes(world)
        await twin.adelete("HX220.md")
    assert index.delete("HX220.md") == changes(world, 0, 3, 0, 0, 1)
    assert (world.held(index), index.sources()) == (world.held(twin), ())
    assert world.held(index) == empty
    with pytest.raises(ParameterError, match="sources"):
        index.replace([], sources="HX220.md")


def test_a_record_that_is_none_is_named(world: Any) -> None:
    index = world.index(maker_of(world, ["raw"]))
    world.spoil(index, "HX210.md")
    with pytest.raises(ParameterError, match="ledger"):
        index.replace(sections(world))


OTHER = ("The fuse holds 3 A.", "Grease the wheel.", "Clean the filter with water.")
DO: dict[str, Callable[[Any, Any], object]] = {
    "add": lambda world, index: index.add(sections(world)),
    "add both": lambda world, index: index.add(both(world)),
    "back": lambda world, index: index.replace(sections(world)),
    "replace": lambda world, index: index.replace(sections(world, *OTHER)),
    "delete": lambda world, index: index.delete("HX210.md"),
}


def breaking(world: Any) -> tuple[Any, Any]:
    index, fuse = world.breaking(maker_of(world, ["headed", Keywords(), Shout()], writing))
    return index, fuse


def failed(world: Any, index: Any, what: str) -> bool:
    try:
        DO[what](world, index)
    except ServiceError as error:
        if "the store went away" not in str(error):
            raise
        return True
    return False


FAILURES = [
    pytest.param(
        world,
        change,
        after,
        marks=pytest.mark.slow if world is WORLDS[1] else (),
        id=f"{world.name}-{change}-{after}",
    )
    for world in WORLDS
    for change in ("add", "replace", "delete")
    for after in ("the same", "replace", "back", "delete")
]


@pytest.mark.parametrize(("world", "change", "after"), FAILURES)
def test_a_failure_at_any_call_is_made_good_by_the_next_one(world: Any, change: str, after: str) -> None:
    then = change if after == "the same" else after
    clean, _ = breaking(world)  # which never knew anything else
    DO[then](world, clean)
    for calls in range(100):
        index, fuse = breaking(world)
        if change != "add":
            index.add(sections(world))
        fuse.left = calls
        if not failed(world, index, change):
            break
        assert world.sound(index)
        fuse.left, asked = 10**9, world.asked(index.views.llm)
        DO[then](world, index)
        if after == "the same" and calls >= world.noting:
            assert world.asked(index.views.llm) == asked  # what was written down is not asked for again
        assert world.held(index) == world.held(clean)
    assert 4 <= calls < 99


@pytest.mark.parametrize("does_all", [False, True])
def test_a_document_that_was_whole_when_the_store_failed_is_made_good_by_the_same_call(
    world: Any, does_all: bool
) -> None:
    clean, whole = breaking(world)
    DO["add both"](world, clean)
    index, fuse = breaking(world)
    fuse.left, fuse.does_all = 10**9 - whole.left - 1, does_all  # the last call of all fails
    assert failed(world, index, "add both")
    DO["add both"](world, index)
    assert world.held(index) == world.held(clean)


@pytest.mark.parametrize("world", SLOWLY, ids=lambda world: world.name)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    versions=st.lists(
        st.lists(st.sampled_from(["The pump.", "The fuse.", "The hose."]), min_size=1, max_size=3), max_size=4
    ),
    failures=st.lists(st.integers(0, 8), max_size=4),
)
def test_no_history_shows_whatever_failed_on_the_way(
    world: Any, versions: list[list[str]], failures: list[int]
) -> None:
    index, fuse = breaking(world)
    for number, bodies in enumerate(versions):
        fuse.left = failures[number] if number < len(failures) else 10**9
        with suppress(ServiceError):
            index.replace(sections(world, *bodies))
    fuse.left = 10**9
    last = sections(world, "The last pump.", "The fuse.")
    index.replace(last)
    other, _ = breaking(world)
    other.replace(last)
    assert world.held(index) == world.held(other)
