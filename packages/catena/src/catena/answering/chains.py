"""Write evidence chains as one text for a reader: path after path, hop after hop, or shuffled, within a budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from numbers import Real
from typing import Annotated, Any, Literal, TypeAlias, get_args

from annotated_types import Ge

from catena.answering.integration import Header, IntegratedContext, ValuedPassage, context_of, in_order, laid_out
from catena.model import Chain, Checked, Chunk, Edge, Hit, Hop, ParameterError, Segment, digest
from catena.model.neighbourhood import KEYWORD, MENTION, MENTIONED, NAME, SEMANTIC, STRUCTURAL
from catena.structure.views import segment_header
from catena.text import count_tokens, outermost

ChainFormat: TypeAlias = Literal["chain", "iterative", "shuffled"]
Chained: TypeAlias = Chain | Chunk | Segment | Hit
"""A chain, or one piece of text, which is a chain of itself alone."""

_REASONS = {
    STRUCTURAL: "next to it in the document",
    SEMANTIC: "alike in content",
    KEYWORD: "shared keywords",
    NAME: "shared names",
    MENTION: "named there as",
    MENTIONED: "names it as",
}
_TURNED = {MENTION: MENTIONED, MENTIONED: MENTION}
_WORDS = 5  # of one kind that a line says: enough to see why
_LONGEST = 80  # characters of one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReading(Checked):
    """The options by which chains are written out for a reader.

    Attributes:
        format: "chain", "iterative" or "shuffled", as `arrange` has them.
        seed: of the shuffled order.
        links: whether, in the format "chain", a line says how a passage is linked to those before it.
        budget_tokens: of the whole text, headers and lines counted; None for no limit.
        count: tokens of a text; it should not fall as a text grows.
        cut: whether the first chunk that does not fit is shortened at the end of a line or sentence.
        header: what is said of a passage's document before its text, "" for nothing.
    """

    format: ChainFormat = "chain"
    seed: int = 0
    links: bool = True
    budget_tokens: Annotated[int, Ge(0)] | None = None
    count: Callable[[str], int] = count_tokens
    cut: bool = True
    header: Header = segment_header


def arrange(chains: Sequence[Chain], format: ChainFormat, *, seed: int = 0) -> tuple[Chunk, ...]:
    """Return every chunk of the chains once, in one of the three orders that IIER compares.

    - "chain": the chunks of each path as it was walked, path after path.
    - "iterative": those found in the same iteration together: all seeds, then all second chunks, …
    - "shuffled": by a hash of seed and id, so that neither chains nor their order show in it.

    A chunk of several chains is put at its first place: a reader gains nothing by reading it twice, and a budget
    loses by it. The paper does not say what it does.

    Args:
        chains: in the order in which they were found, each seed first.
        format: one of the three.
        seed: of the shuffled order; the others do not depend on it.

    Raises:
        ParameterError: the format is none of the three.

    Source: IIER, arXiv:2408.02907, section 4.3 and Table 2.
    """
    if format not in get_args(ChainFormat):
        raise ParameterError("format", format, "'chain', 'iterative' or 'shuffled'")
    paths = [chain.chunks for chain in chains]
    if format == "iterative":
        paths = list(zip_longest(*paths))
    unique: dict[str, Chunk] = {}
    for path in paths:
        for chunk in filter(None, path):
            unique.setdefault(chunk.id, chunk)
    if format == "shuffled":
        return tuple(sorted(unique.values(), key=lambda chunk: (digest(str(seed), chunk.id), chunk.id)))
    return tuple(unique.values())


def chain_context(chains: Sequence[Chained], reading: ChainReading | None = None) -> IntegratedContext:
    """Return chains as one text of numbered passages, each under its header, within a budget.

    In the format "chain" a line under the header says how a passage is linked to those before it, e.g. `(Linked to
    passage 1: shared keywords "iron", "casting".)`. Whatever the format, a budget is spent hop by hop (all seeds,
    then all second chunks, …), so that each chain keeps its beginning, and the formats differ in order alone, but for
    the tokens of these lines.

    Args:
        chains: as found; single pieces of text are chains of one.
        reading: how; None for the format "chain" without a limit.

    Returns:
        The context: every chunk is a passage, or among those left out, the first to be missed first.

    Raises:
        ParameterError: what is given are no chains and no pieces of text, or `reading` is none.
    """
    how = reading or ChainReading()
    if not isinstance(how, ChainReading):
        raise ParameterError("reading", how, "ChainReading(...) or None")
    if not isinstance(chains, Sequence):
        raise ParameterError("chains", type(chains).__name__, "a sequence of chains or pieces of text")
    given = [_as_chain(each) for each in chains]
    places = {chunk.id: place for place, chunk in enumerate(arrange(given, how.format, seed=how.seed))}
    hops = (hop for chain in given for hop in chain.hops if how.links and how.format == "chain")
    edges = {(hop.came_from, hop.chunk.id): hop.edge for hop in hops if hop.edge is not None and hop.edge.weights}
    by_turn = [ValuedPassage(chunk.as_segment(), -float(places[chunk.id])) for chunk in arrange(given, "iterative")]

    def written(chosen: Sequence[ValuedPassage]) -> str:
        ids = [_chunk_id(valued.segment) for valued in in_order(chosen, "value")]
        links = _links(ids, edges)

        def headed(found: Chunk | Segment) -> str:
            return "\n".join(filter(None, (how.header(found), *links[_chunk_id(found)])))

        return laid_out(chosen, "value", headed)

    return context_of(by_turn, written, "value", budget_tokens=how.budget_tokens, count=how.count, cut=how.cut)


def _as_chain(found: Chained) -> Chain:
    if isinstance(found, Chain):
        return found
    chunk = found.chunk if isinstance(found, Hit) else found
    if not isinstance(chunk, Chunk | Segment):
        raise ParameterError("chains", type(chunk).__name__, "of Chain, Chunk, Segment or Hit")
    return Chain((Hop(chunk=chunk.as_chunk() if isinstance(chunk, Segment) else chunk, score=0.0),))


def _chunk_id(found: Chunk | Segment) -> str:
    """Return the id of the chunk that is shown; one that was shortened has another as a segment."""
    return found.chunk_ids[0] if isinstance(found, Segment) else found.id


def _links(ids: Sequence[str], edges: Mapping[tuple[str, str], Edge]) -> dict[str, list[str]]:
    """Return by id the lines that link a passage to earlier ones; the later of two names the link."""
    numbers = {chunk_id: number for number, chunk_id in enumerate(ids, start=1)}
    said: dict[tuple[int, int], str] = {}
    for (source, target), edge in edges.items():
        if source not in numbers or target not in numbers:
            continue  # left out
        first, later = sorted((numbers[source], numbers[target]))
        turned = numbers[target] == first
        said[later, first] = f"(Linked to passage {first}: {'; '.join(_reasons(edge, turned))}.)"
    lines: dict[str, list[str]] = {chunk_id: [] for chunk_id in ids}
    for later, first in sorted(said):
        lines[ids[later - 1]].append(said[later, first])
    return lines


def _reasons(edge: Edge, turned: bool) -> Iterator[str]:
    """Yield the reasons of a link, as the later passage gives them; `turned`: the edge led from it."""
    for kind in edge.weights:
        seen = _TURNED.get(kind, kind) if turned else kind
        shared = edge.words.get(kind, ())
        telling = outermost(shared) if kind == NAME else shared
        plain = (" ".join(word.replace('"', "'").split()) for word in telling[:_WORDS])
        words = ", ".join(f'"{word if len(word) <= _LONGEST else word[: _LONGEST - 1] + "…"}"' for word in plain)
        reason = _REASONS.get(seen, seen.replace("_", " "))
        yield f"{reason} {words}" if words else reason.removesuffix(" as")


def chain_places(chains: Sequence[Chain]) -> dict[str, list[dict[str, Any]]]:
    """Return by chunk id its places in chains, as values that JSON can write; `chains_of_places` reads them."""
    places: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number, chain in enumerate(chains, start=1):
        for place, hop in enumerate(chain.hops, start=1):
            edge = hop.edge or Edge(weights={})
            told = {"chain": number, "hop": place, "score": float(hop.score), "came_from": hop.came_from}
            edges = {kind: float(weight) for kind, weight in edge.weights.items()}
            shared = {kind: list(words) for kind, words in edge.words.items()}
            places[hop.chunk.id].append({**told, "edges": edges, "shared": shared, "words": list(hop.words)})
    return dict(places)


def chains_of_places(found: Iterable[tuple[Chunk, object]]) -> tuple[Chain, ...]:
    """Return the chains that chunks stand in, hop by hop.

    Args:
        found: chunks with their places, in any order, and whatever is left of them: a chain keeps the hops that are
            there. A chunk that tells no place is a chain of itself alone, behind the others.
    """
    chains: dict[int, dict[int, Hop]] = defaultdict(dict)
    alone: list[Chain] = []
    for chunk, told in found:
        places = [place for place in told if _is_place(place)] if isinstance(told, list | tuple) else []
        for place in places:
            chains[place["chain"]].setdefault(place["hop"], _hop(place, chunk))
        if not places:
            alone.append(Chain((Hop(chunk=chunk, score=0.0),)))
    walked = (Chain(tuple(hops[place] for place in sorted(hops))) for _, hops in sorted(chains.items()))
    return (*walked, *alone)


def _hop(place: Mapping[str, Any], chunk: Chunk) -> Hop:
    edge = Edge(weights=place["edges"], words={kind: tuple(words) for kind, words in place["shared"].items()})
    came_from = str(place["came_from"])
    score, words = float(place["score"]), tuple(place["words"])
    return Hop(chunk=chunk, score=score, came_from=came_from, edge=edge if came_from else None, words=words)


_PLACE = {"chain": int, "hop": int, "score": Real, "came_from": str, "words": Sequence}
_PLACE |= {"edges": Mapping, "shared": Mapping}


def _is_place(place: object) -> bool:
    return (
        isinstance(place, Mapping)
        and all(isinstance(place.get(key), kind) for key, kind in _PLACE.items())
        and all(isinstance(weight, Real) for weight in place["edges"].values())
        and all(isinstance(words, Sequence) for words in place["shared"].values())
    )
