"""Fill a number of tokens from a ranking: with chunks, wider passages, or segments.

| system | what is taken |
|---|---|
| topk | chunks in order |
| window | each with the chunk before and the chunk after it |
| section | each with the rest of its section |
| article | segments: the article's `BALANCED`, every probability 0.8 (there is no reranker), greedy |
| greedy | segments: every probability 0.8, the decay set by the budget (`catena.segments.within_budget`) |
| optimal | the same, selected as the best sum instead |
| lent | as greedy, but each hit lends half of its probability to its two neighbours |

With "_headers" the reader gets the header of the document above each passage, and pays for it in tokens.

One rule for all: what is next in the ranking is taken if it still fits, and else passed over, so that a later,
shorter one may fit. Chunks that stand next to each other are one passage. What counts are the tokens of the chunks,
of what stands between two of one passage, and of one header per passage where the reader gets headers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise

from catena import Chunk, Entry, Ranking, Services
from catena import run as run_step
from catena.evaluation import GoldSpan
from catena.segments import BALANCED, LENDING, PENALTY, SHARE, ExtractionParams, by_rank, extract, within_budget
from catena.structure import segment_header
from catena.text import count_tokens

Span = tuple[str, int, int]
"""Document id, start and end."""

Header = Callable[[Chunk], str]
Widened = Callable[["MeasuredDocuments", Chunk], Iterator[range]]
"""From a found chunk to what to take for it: positions in its document, the first of these that fits."""


HEADERS = "_headers"
BELIEVED = 0.8  # the probability of a first hit where nothing rates it, as dsRAG takes it
Runs = tuple[tuple[str, range], ...]


@lru_cache(maxsize=1 << 16)
def tokens_of(text: str) -> int:
    """Return `count_tokens(text)`: the same chunks are counted for every question, system and budget."""
    return count_tokens(text)


@dataclass(frozen=True)
class MeasuredDocument:
    """One document's chunks in reading order, with their lengths in tokens."""

    entry: Entry

    @cached_property
    def tokens(self) -> tuple[int, ...]:
        """Return the tokens that runs of chunks cost the reader."""
        return tuple(tokens_of(chunk.text) for chunk in self.entry.chunks)

    @cached_property
    def between(self) -> tuple[int, ...]:
        """Tokens of what stands between each chunk and the next: headings without a text of their own."""
        text = self.entry.document.text
        return tuple(tokens_of(text[one.end : other.start]) for one, other in pairwise(self.entry.chunks))

    @cached_property
    def sections(self) -> Mapping[int, range]:
        """Positions of the chunks of each section."""
        of_section: defaultdict[int, list[int]] = defaultdict(list)
        for chunk in self.entry.chunks:
            of_section[chunk.section].append(chunk.position)
        return {section: range(places[0], places[-1] + 1) for section, places in of_section.items()}

    def length(self, run: range) -> int:
        """Return the tokens of a run of chunks and of what stands between them."""
        return sum(self.tokens[run.start : run.stop]) + sum(self.between[run.start : run.stop - 1])

    def span(self, run: range) -> Span:
        """Return where a run of chunks stands."""
        chunks = self.entry.chunks
        return self.entry.document.id, chunks[run.start].start, chunks[run.stop - 1].end


@dataclass(frozen=True)
class MeasuredDocuments:
    """The documents of a collection, by id."""

    by_id: Mapping[str, MeasuredDocument]

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> MeasuredDocuments:
        """Measure these documents."""
        return cls({entry.document.id: MeasuredDocument(entry) for entry in entries})

    def tokens(self, runs: Iterable[tuple[str, range]], header: Header | None) -> int:
        """Return what runs of chunks cost the reader."""
        total = 0
        for document_id, run in runs:
            document = self.by_id[document_id]
            total += document.length(run)
            total += tokens_of(header(document.entry.chunks[run.start])) if header is not None else 0
        return total

    def spans(self, runs: Iterable[tuple[str, range]]) -> tuple[Span, ...]:
        """Return where runs of chunks stand."""
        return tuple(self.by_id[document_id].span(run) for document_id, run in runs)


def alone(known: MeasuredDocuments, chunk: Chunk) -> Iterator[range]:
    """Take the chunk that was found."""
    yield range(chunk.position, chunk.position + 1)


def with_neighbours(known: MeasuredDocuments, chunk: Chunk) -> Iterator[range]:
    """Take it with the chunk before and the chunk after it, or else alone."""
    count = len(known.by_id[chunk.document_id].entry.chunks)
    yield range(max(0, chunk.position - 1), min(count, chunk.position + 2))
    yield from alone(known, chunk)


def with_section(known: MeasuredDocuments, chunk: Chunk) -> Iterator[range]:
    """Take its whole section, or else it alone."""
    yield known.by_id[chunk.document_id].sections[chunk.section]
    yield from alone(known, chunk)


def fill(
    known: MeasuredDocuments,
    ranking: Ranking,
    budget: int,
    *,
    take: Widened = alone,
    header: Header | None = None,
    joined: bool = True,
) -> tuple[tuple[str, range], ...]:
    """Return the runs of chunks that a reader gets within a number of tokens, in reading order.

    Args:
        known: holds every chunk of the ranking.
        ranking: best first.
        budget: in tokens.
        take: what is taken for each hit.
        header: what the reader gets before each run; nothing by default.
        joined: whether neighbours are one run; if not, each chunk has a header of its own.
    """
    taken: defaultdict[str, set[int]] = defaultdict(set)
    used = 0
    for hit in ranking.hits:
        document = known.by_id[hit.chunk.document_id]
        held = taken[hit.chunk.document_id]
        price = tokens_of(header(hit.chunk)) if header is not None else 0
        for places in take(known, hit.chunk):
            more = _added(document, held, places, price, joined=joined)
            if used + more <= budget:
                held.update(places)
                used += more
                break
    return tuple(
        (document_id, run)
        for document_id, held in sorted(taken.items())
        for run in (_runs(sorted(held)) if joined else (range(place, place + 1) for place in sorted(held)))
    )


def _added(document: MeasuredDocument, held: set[int], places: range, price: int, *, joined: bool) -> int:
    """Return the tokens that places add to what is held of a book; fewer than none where they save a header."""
    new = [place for place in places if place not in held]
    texts = sum(document.tokens[place] for place in new)
    if not new or not joined:
        return texts + price * len(new)
    seams = {place for place in new if place + 1 in held or place + 1 in new}
    seams |= {place - 1 for place in new if place - 1 in held}
    return texts + sum(document.between[seam] for seam in seams) + price * (len(new) - len(seams))


def _runs(places: Sequence[int]) -> Iterator[range]:
    start = 0
    for at in range(1, len(places) + 1):
        if at == len(places) or places[at] != places[at - 1] + 1:
            yield range(places[start], places[at - 1] + 1)
            start = at


def evidence(spans: Iterable[Span], gold: Sequence[GoldSpan]) -> tuple[float, float]:
    """Return the recall and the precision of returned text, in characters of evidence.

    `recall = |returned and gold| / |gold|`, `precision = |returned and gold| / |returned|`; a character that was
    returned twice or is in two gold spans counts once, and where nothing was returned both are 0.
    """
    returned = _united(spans)
    wanted = _united((span.document_id, span.start, span.end) for span in gold)
    both = sum(
        max(0, min(end, stop) - max(start, first))
        for document_id, start, end in returned
        for other, first, stop in wanted
        if other == document_id
    )
    total, size = (sum(end - start for _, start, end in each) for each in (wanted, returned))
    return (both / total if total else 0.0), (both / size if size else 0.0)


def _united(spans: Iterable[Span]) -> list[Span]:
    united: list[Span] = []
    for document_id, start, end in sorted(spans):
        if united and united[-1][0] == document_id and start <= united[-1][2]:
            united[-1] = (document_id, united[-1][1], max(end, united[-1][2]))
        else:
            united.append((document_id, start, end))
    return united


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The inputs that systems choose from.

    Attributes:
        known: the documents of the collection.
        services: of the store that holds its chunks.
        ranking: of one question.
        budget: in tokens.
    """

    known: MeasuredDocuments
    services: Services
    ranking: Ranking
    budget: int


System = Callable[[Reading, Header | None], Runs]


def filled(take: Widened) -> System:
    """Return the system that takes hits in order, each as widely as it fits."""

    def system(reading: Reading, header: Header | None) -> Runs:
        joined = header is None or take is not alone
        return fill(reading.known, reading.ranking, reading.budget, take=take, header=header, joined=joined)

    return system


def article(reading: Reading, header: Header | None) -> Runs:
    """Take segments by the article's preset."""
    return segments(reading, by_rank(reading.ranking, BELIEVED), BALANCED, header)


def greedy(reading: Reading, header: Header | None) -> Runs:
    """Take segments with the decay that the budget sets."""
    return segments(reading, by_rank(reading.ranking, BELIEVED), budgeted(reading, header), header)


def optimal(reading: Reading, header: Header | None) -> Runs:
    """Take the segments of the best sum, with the decay that the budget sets."""
    params = replace(budgeted(reading, header), selection="optimal")
    return segments(reading, by_rank(reading.ranking, BELIEVED), params, header)


def lent(reading: Reading, header: Header | None) -> Runs:
    """Take segments where the neighbours of a hit are worth a share of what it is: what `find_segments` does."""
    params = budgeted(reading, header, lending=LENDING, share=SHARE)
    return segments(reading, by_rank(reading.ranking, BELIEVED), params, header)


def budgeted(
    reading: Reading, header: Header | None, *, lending: float = 0.0, share: float = 1.0
) -> ExtractionParams:
    """Return the settings of `within_budget`; by default nothing is lent, and all hits that fit are worth reading."""
    return within_budget(
        [reading.ranking],
        reading.budget,
        count=tokens_of,
        header=None if header is None else segment_header,
        believed=BELIEVED,
        penalty=PENALTY,
        lending=lending,
        share=share,
    )


def segments(reading: Reading, ranking: Ranking, params: ExtractionParams, header: Header | None) -> Runs:
    """Return the segments of a ranking in `Scale.PROBABILITY` within the budget."""
    step = extract(
        [ranking],
        params=replace(params, overall_max_tokens=reading.budget),
        count=tokens_of,
        header=None if header is None else segment_header,
    )
    found = run_step(step, reading.services).segments
    return tuple(
        (each.segment.document_id, range(each.segment.positions[0], each.segment.positions[1] + 1))
        for each in found
        if each.segment.positions is not None
    )


SYSTEMS: Mapping[str, System] = {
    "topk": filled(alone),
    "window": filled(with_neighbours),
    "section": filled(with_section),
    "article": article,
    "greedy": greedy,
    "optimal": optimal,
    "lent": lent,
}
