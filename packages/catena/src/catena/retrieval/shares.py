"""A question about several products gives each of them its share of the ranking."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from catena.effects import Failed, Search, Step
from catena.model import Hit, Provenance, Ranking, Scale, Unknown, Where
from catena.text.terms import TermMatcher

NAME_ROUTE = "name"  # in the provenance of a hit: found as the share of a name, which stands there as the view
MOST_UNKNOWN = 50  # names of one question that are looked for: a log that is pasted in holds thousands of codes
_LOOKED_AT = 30  # hits that are searched for a name before it is said to stand nowhere


def interleave(shares: Mapping[str, Ranking], general: Ranking) -> Ranking:
    """Take turns: each share gives its best hit, then the general ranking its best that is not there yet, and again.

    Args:
        shares: name -> the ranking of what bears it.
        general: the ranking of everything; what no name covers is found by it.

    Returns:
        Each chunk once, at its first turn, in `Scale.RANK` with the score 1 / place. Its provenance is the general
        ranking's, where that has it, and says the name in whose turn it came.
    """
    ways: defaultdict[str, list[Provenance]] = defaultdict(list)
    for name, share in shares.items():
        for rank, hit in enumerate(share.hits, start=1):
            ways[hit.chunk.id].append(Provenance(route=NAME_ROUTE, rank=rank, score=hit.score, view=name))
    first = {hit.chunk.id: hit for hit in general.hits}  # where both found a chunk, the general ranking says how
    order = _turns([*(share.hits for share in shares.values()), general.hits])
    found = (first.get(hit.chunk.id) or unranked(hit) for hit in order)
    hits = (
        Hit(hit.chunk, 1.0 / place, (*hit.provenance, *ways[hit.chunk.id]))
        for place, hit in enumerate(found, start=1)
    )
    return Ranking(tuple(hits), Scale.RANK, general.degraded)


def _turns(lists: Sequence[Sequence[Hit]]) -> Iterator[Hit]:
    """Yield, turn by turn, the best hit of each list that was not yielded yet."""
    waiting = [iter(hits) for hits in lists]
    seen: set[str] = set()
    while waiting:
        for hits in tuple(waiting):
            fresh = next((hit for hit in hits if hit.chunk.id not in seen), None)
            if fresh is None:
                waiting.remove(hits)
            else:
                seen.add(fresh.chunk.id)
                yield fresh


def unranked(hit: Hit) -> Hit:
    """Return the hit without ranks: it was asked for by id or by document, so its place in the whole is unknown."""
    if all(way.rank is None for way in hit.provenance):
        return hit
    ways = (Provenance(route=way.route, rank=None, score=way.score, view=way.view) for way in hit.provenance)
    return Hit(hit.chunk, hit.score, tuple(ways))


def standing_nowhere(names: Sequence[Unknown], where: Where | None) -> Step[tuple[Unknown, ...]]:
    """Return those of the first 50 names that no passage prints, as far as the store's lexical route shows.

    A store that has no lexical route cannot tell: nothing is claimed then.
    """
    if not names:
        return ()
    names = names[:MOST_UNKNOWN]
    requests = [Search(route="lexical", query=name.text, k=_LOOKED_AT, where=where) for name in names]
    replies = yield requests
    return tuple(
        name
        for name, reply in zip(names, replies, strict=True)
        if not isinstance(reply, Failed) and not _is_printed(name.text, reply)
    )


def _is_printed(name: str, ranking: Ranking) -> bool:
    matcher = TermMatcher([name])
    return any(matcher.all_in("\n".join((*hit.chunk.path, hit.chunk.text))) for hit in ranking.hits)
