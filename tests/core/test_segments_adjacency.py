"""Chunks next to each other: neighbours fetched by links, and places by links or by offsets."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from retrieval_cases import chunk

from catena.effects import Handler, Services, run
from catena.model import Chunk
from catena.segments import (
    FetchLinked,
    Linked,
    follow_links,
    gather_links,
    links_between,
    placed_by_links,
    placed_by_offsets,
)


def chain(length: int, document: str = "d") -> list[Linked]:
    chunks = [chunk(f"{document}{n}", "text", document_id=document, position=n, start=10 * n) for n in range(length)]
    ids: list[str | None] = [None, *(chunk.id for chunk in chunks), None]
    return [Linked(chunk, ids[n], ids[n + 2]) for n, chunk in enumerate(chunks)]


class ById:
    """A store that knows chunks by id, and keeps what it was asked."""

    def __init__(self, held: list[Linked]) -> None:
        self.held = {linked.chunk.id: linked for linked in held}
        self.asked: list[tuple[str, ...]] = []

    def services(self) -> Services:
        def call(request: FetchLinked) -> list[Linked]:
            self.asked.append(request.ids)
            return [self.held[each] for each in reversed(request.ids) if each in self.held]

        return Services(handlers={FetchLinked: Handler(identity="by id", call=call)})


def ids(found: tuple[tuple[Chunk, ...], ...]) -> list[list[str]]:
    return [[chunk.id for chunk in chunks] for chunks in found]


def test_a_gap_is_walked_from_both_sides_and_all_gaps_side_by_side() -> None:
    one, two = chain(7), chain(4, "e")
    store = ById([*one, *two])
    known = [one[0], one[6], two[0], two[3]]
    found = run(follow_links([("d", 1, 6), ("e", 1, 3)], known), store.services())
    assert ids(found) == [["d1", "d2", "d3", "d4", "d5"], ["e1", "e2"]]
    assert store.asked == [("d1", "d5", "e1", "e2"), ("d2", "d4"), ("d3",)]


@given(length=st.integers(3, 30), data=st.data())
def test_a_whole_chain_is_found_within_half_as_many_requests(length: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, length - 2))
    end = data.draw(st.integers(first + 1, length - 1))
    links = chain(length)
    store = ById(links)
    (found,) = run(follow_links([("d", first, end)], [links[first - 1], links[end]]), store.services())
    assert [chunk.position for chunk in found] == list(range(first, end))
    assert len(store.asked) <= -(-(end - first) // 2)


def test_a_chunk_that_is_gone_is_a_hole_that_both_sides_stop_at() -> None:
    links = chain(7)
    store = ById([linked for linked in links if linked.chunk.position != 3])
    (found,) = run(follow_links([("d", 1, 6)], [links[0], links[6]]), store.services())
    assert [chunk.position for chunk in found] == [1, 2, 4, 5]


def test_where_the_link_from_the_left_is_stale_that_from_the_right_is_tried() -> None:
    links = chain(3)
    stale = replace(links[0], next="gone")
    store = ById(links)
    (found,) = run(follow_links([("d", 1, 2)], [stale, links[2]]), store.services())
    assert [chunk.id for chunk in found] == ["d1"]
    assert store.asked == [("gone",), ("d1",)]


def test_nothing_is_asked_without_links_or_gaps() -> None:
    bare = [Linked(linked.chunk) for linked in chain(3)]
    store = ById([])
    assert run(follow_links([("d", 1, 2)], [bare[0], bare[2]]), store.services()) == ((),)
    assert run(follow_links([], bare), store.services()) == ()
    assert store.asked == []


def test_chunks_that_touch_or_overlap_are_neighbours_by_their_offsets() -> None:
    text = "One two three. Four five six. Seven eight nine."
    spans = [(0, 14), (9, 29), (30, 36), (37, 47)]
    chunks = [chunk(str(n), text[start:end], start=start) for n, (start, end) in enumerate(spans)]
    placed = placed_by_offsets(reversed(chunks))
    assert [(chunk.id, chunk.position) for chunk in placed] == [("0", 0), ("1", 1), ("2", 2), ("3", 3)]
    far = replace(chunks[3], start=400, end=410)
    assert [chunk.position for chunk in placed_by_offsets([*chunks[:3], far])] == [0, 1, 2, 4]


def test_offsets_of_other_pages_and_documents_are_not_compared() -> None:
    places = {"a": ("d", 1, 0), "c": ("d", 2, 10), "b": ("d", 2, 5), "e": ("e", 1, 5)}
    found = [
        chunk(name, "text", document_id=document, pages=(page, page), start=start)
        for name, (document, page, start) in places.items()
    ]
    placed = {each.id: each.position for each in placed_by_offsets(found)}
    assert placed == {"a": 0, "b": 2, "c": 3, "e": 0}, "b begins where a ends, but on a page of its own"


def positions(chunks: tuple[Chunk, ...]) -> dict[str, int]:
    return {each.id: each.position for each in chunks}


def test_linked_chunks_are_neighbours_and_others_are_apart() -> None:
    chunks = [chunk("c", start=20), chunk("a"), chunk("b", start=10), chunk("z", start=90)]
    assert positions(placed_by_links(chunks, {"a": "b", "b": "c"})) == {"a": 0, "b": 1, "c": 2, "z": 4}
    assert positions(placed_by_links(chunks, {})) == {"a": 0, "b": 2, "c": 4, "z": 6}
    turned = [chunk("a", start=10), chunk("z"), chunk("b", start=10)]  # by offset, then by id
    assert positions(placed_by_links(turned, {})) == {"z": 0, "a": 2, "b": 4}


def test_rings_second_links_and_links_to_nowhere_are_survived() -> None:
    chunks = [chunk("a"), chunk("b", start=10), chunk("c", start=20)]
    assert positions(placed_by_links(chunks, {"a": "b", "b": "c", "c": "a"})) == {"a": 0, "b": 1, "c": 2}
    assert positions(placed_by_links(chunks, {"a": "c", "b": "c"})) == {"a": 0, "c": 1, "b": 3}
    assert positions(placed_by_links(chunks, {"a": "a", "b": "elsewhere"})) == {"a": 0, "b": 2, "c": 4}


@given(st.permutations(range(9)), st.dictionaries(st.integers(0, 8), st.integers(0, 12)))
def test_every_chunk_has_a_place_of_its_own_in_whatever_order_they_come(order, links: dict[int, int]) -> None:
    chunks = [chunk(str(place), start=place * 10) for place in range(9)]
    after = {str(before): str(behind) for before, behind in links.items()}
    placed = placed_by_links([chunks[place] for place in order], after)
    assert placed == placed_by_links(chunks, after)
    assert len({each.position for each in placed}) == len(placed) == 9
    for before, behind in pairwise(placed):
        assert (behind.position == before.position + 1) <= (after.get(before.id) == behind.id)


def gathered(numbers: list[int], hops: int) -> tuple[list[int], list[tuple[str, ...]]]:
    links = chain(20)
    store = ById([each for each in links if each.chunk.position != 15])
    found = run(gather_links([links[number] for number in numbers], hops=hops), store.services())
    return sorted(each.chunk.position for each in found), store.asked


def test_links_are_followed_until_they_meet_or_the_hops_are_made() -> None:
    assert gathered([2, 5], hops=2) == ([2, 3, 4, 5, 6, 7], [("d3", "d6"), ("d7", "d4")])
    assert gathered([2], hops=0) == ([2], [])
    assert gathered([14], hops=5) == ([14], [("d15",)])  # a link that leads to nothing ends there
    assert gathered([18], hops=5) == ([18, 19], [("d19",)])


def test_either_side_may_say_what_follows_what() -> None:
    forward, backward = Linked(chunk("a"), next="b"), Linked(chunk("c"), previous="b")
    assert links_between([forward, backward]) == {"a": "b", "b": "c"}
    astray = Linked(chunk("z"), previous="a")
    for known in ([forward, astray], [astray, forward]):
        assert links_between(known)["a"] == "b"  # where they disagree, the link forward counts
