"""Places by links: what follows what is adjacent, what does not is apart, and no ring or doubled link confuses it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from catena.effects import Handler, Services, run
from catena.model import Chunk
from catena.segments import FetchLinked, Linked, gather_links, links_between, placed_by_links


def chunk(name: str, start: int = 0, document_id: str = "d") -> Chunk:
    return Chunk(id=name, document_id=document_id, position=0, start=start, end=start + 1, text="x")


def positions(chunks: tuple[Chunk, ...]) -> dict[str, int]:
    return {each.id: each.position for each in chunks}


def test_linked_chunks_are_neighbours_and_others_are_apart() -> None:
    chunks = [chunk("c", 20), chunk("a", 0), chunk("b", 10), chunk("z", 90)]
    assert positions(placed_by_links(chunks, {"a": "b", "b": "c"})) == {"a": 0, "b": 1, "c": 2, "z": 4}
    assert positions(placed_by_links(chunks, {})) == {"a": 0, "b": 2, "c": 4, "z": 6}


def test_links_count_for_more_than_offsets() -> None:
    chunks = [chunk("a", 50), chunk("b", 0), chunk("c", 90)]
    assert positions(placed_by_links(chunks, {"a": "b"})) == {"a": 0, "b": 1, "c": 3}


def test_rings_second_links_and_links_to_nowhere_are_survived() -> None:
    chunks = [chunk("a", 0), chunk("b", 10), chunk("c", 20)]
    assert positions(placed_by_links(chunks, {"a": "b", "b": "c", "c": "a"})) == {"a": 0, "b": 1, "c": 2}
    assert positions(placed_by_links(chunks, {"a": "c", "b": "c"})) == {"a": 0, "c": 1, "b": 3}
    assert positions(placed_by_links(chunks, {"a": "a", "b": "elsewhere"})) == {"a": 0, "b": 2, "c": 4}


def test_a_link_to_another_document_joins_nothing() -> None:
    chunks = [chunk("a"), chunk("b", document_id="e")]
    assert positions(placed_by_links(chunks, {"a": "b"})) == {"a": 0, "b": 0}


@given(st.permutations(range(9)), st.dictionaries(st.integers(0, 8), st.integers(0, 12)))
def test_every_chunk_has_a_place_of_its_own_in_whatever_order_they_come(order, links: dict[int, int]) -> None:
    chunks = [chunk(str(place), place * 10) for place in range(9)]
    after = {str(before): str(behind) for before, behind in links.items()}
    placed = placed_by_links([chunks[place] for place in order], after)
    assert placed == placed_by_links(chunks, after)
    assert len({each.position for each in placed}) == len(placed) == 9
    for before, behind in pairwise(placed):
        assert (behind.position == before.position + 1) <= (after.get(before.id) == behind.id)


def linked(number: int) -> Linked:
    before, behind = (str(number - 1) if number else None), (str(number + 1) if number < 19 else None)
    return Linked(chunk(str(number), number * 10), previous=before, next=behind)


def gathered(numbers: list[int], hops: int) -> tuple[list[int], list[tuple[str, ...]]]:
    asked: list[tuple[str, ...]] = []

    def fetch(request: FetchLinked) -> tuple[Linked, ...]:
        asked.append(request.ids)
        return tuple(linked(int(id_)) for id_ in request.ids if id_ != "15")

    services = Services(handlers={FetchLinked: Handler(identity="test", call=fetch)})
    found = run(gather_links([linked(number) for number in numbers], hops=hops), services)
    return sorted(int(each.chunk.id) for each in found), asked


def test_links_are_followed_until_they_meet_or_the_hops_are_made() -> None:
    assert gathered([2, 5], hops=2) == ([2, 3, 4, 5, 6, 7], [("3", "6"), ("4", "7")])
    assert gathered([2], hops=0) == ([2], [])
    assert gathered([14], hops=5) == ([14], [("15",)])  # a link that leads to nothing ends there
    assert gathered([18], hops=5) == ([18, 19], [("19",)])


def test_either_side_may_say_what_follows_what() -> None:
    forward, backward = Linked(chunk("a"), next="b"), Linked(chunk("c"), previous="b")
    assert links_between([forward, backward]) == {"a": "b", "b": "c"}
