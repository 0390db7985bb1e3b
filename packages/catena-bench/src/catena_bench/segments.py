"""Measure segments and headers where a reader has a fixed number of tokens: evidence recalled, and how purely.

No language model and no reranker: rankings come from the library, passages are made of them in several ways
(the systems), and what of the evidence lies in them is counted in characters. "Headers" means two things,
measured apart: what a chunk is *found* under (the index), and what the *reader* gets above a passage and pays for in
tokens (systems with "_headers").

Half of the questions of each collection (by a hash of their ids) are only for choosing parameters. What is returned
is of the other half.

| index | a chunk is found under |
|---|---|
| raw | its text |
| headed | the titles above it, and its text: what the library makes |
| context | the header of dsRAG with the same titles, and its text |

| route | ranking |
|---|---|
| dense | cosine alone, as in dsRAG |
| fused | the library's search: dense, lexical and by critical terms |

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
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from catena import Chunk, Entry, Library, ParameterError, Ranking, Services, View
from catena import run as run_step
from catena.enrichment import critical_terms
from catena.evaluation import GoldSpan
from catena.retrieval import DEFAULT_ROUTES
from catena.segments import BALANCED, LENDING, PENALTY, SHARE, ExtractionParams, by_rank, extract, within_budget
from catena.structure import context_views, raw_views, segment_header
from catena.text import count_tokens
from catena_bench.collection import library_of
from catena_bench.figures import ROUNDS, Figures, Tell, mean_figures, silent
from catena_bench.segments_data import EvidenceQuestion, LongDocuments, find_collections, read_long_documents

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


DEPTH = 200  # hits of a ranking, as dsRAG asks for

ROUTES: Mapping[str, tuple[str, ...]] = {"dense": ("dense",), "fused": DEFAULT_ROUTES}


BUDGETS = (250, 500, 1_000, 2_000, 4_000)  # tokens
USUAL = "headed"  # the index that the library makes; the others are asked for FEW systems
FEW = ("topk", "lent")
MEAN = "mean"  # over the budgets, in the place of one
MEASURES = ("recall", "precision")
PAIRS = (
    ("topk_headers", "topk"), ("window", "topk"), ("section", "topk"), ("article", "topk"), ("greedy", "topk"),
    ("lent", "topk"), ("optimal", "greedy"), ("lent", "greedy"), ("lent", "window"), ("lent", "section"),
    ("lent_headers", "lent"), ("article_headers", "topk_headers"), ("greedy_headers", "topk_headers"),
    ("optimal_headers", "topk_headers"), ("lent_headers", "topk_headers"), ("lent_headers", "window_headers"),
    ("lent_headers", "section_headers"),
)  # fmt: skip
INDEX_PAIRS = (("headed", "raw"), ("context", "raw"), ("context", "headed"))
Cell = tuple[str, str, str, str]
"""Route, index, system, budget or `MEAN`."""


def raw(entry: Entry) -> Entry:
    """Return the entry with each chunk under its text; no title is a critical term of it."""
    untitled = replace(entry.document, title="")
    bare = tuple(replace(chunk, path=()) for chunk in entry.chunks)
    return replace(_under(entry, raw_views(entry.chunks)), terms=critical_terms(untitled, bare))


def headed(entry: Entry) -> Entry:
    """Return the entry as the library makes it."""
    return entry


def context(entry: Entry) -> Entry:
    """Return the entry with each chunk under the header of its document and section, and its text."""
    return _under(entry, context_views(entry.chunks))


INDEXES: Mapping[str, Callable[[Entry], Entry]] = {"raw": raw, "headed": headed, "context": context}


def _under(entry: Entry, views: Sequence[View]) -> Entry:
    return replace(entry, views=tuple(replace(view, kind="headed") for view in views))  # the kind that routes search


def searched(library: Library, question: EvidenceQuestion, route: str) -> Ranking:
    """Return the ranking of a question within the document it is asked of."""
    where = {"document_id": question.within} if question.within is not None else None
    how: dict[str, Any] = {"depth": DEPTH, "routes": ROUTES[route], "on_route_error": "raise", "on_unknown": "keep"}
    return library.search(question.text, k=DEPTH, where=where, **how)


@dataclass(frozen=True)
class Values:
    """Recall, precision and tokens of each question, in the order of the questions.

    Attributes:
        recall, precision: in characters of evidence.
        tokens: that the reader was given.
    """

    recall: list[float] = field(default_factory=list)
    precision: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)

    def add(self, recall: float, precision: float, tokens: float) -> None:
        """Take in one question."""
        self.recall.append(recall)
        self.precision.append(precision)
        self.tokens.append(tokens)


def run(data: Path, *, collection: Sequence[str] = (), questions: int = 100, tell: Tell = silent) -> Figures:
    """Ask every collection at or below a folder, by every system at every budget.

    Args:
        data: one collection of a layout of `catena_bench.segments_data`, or a folder above several.
        collection: names of those to ask; all that are found by default. One that is not there is told and left out.
        questions: asked of each collection at most: the first of the half that reports, in the order of their hashes.
        tell: is told how far the run is.

    Returns:
        By `COLLECTION.ROUTE.INDEX.SYSTEM.BUDGET`, where the budget is in tokens or "mean" over all of them:
        `recall.…` and `precision.…` (means over the questions; nothing returned counts 0), with the ends of their
        95% bootstrap intervals `recall.low.…`, `recall.high.…` (and so on), and `tokens.…`, what was given;
        `difference.recall.COLLECTION.ROUTE.INDEX.A-B.BUDGET` of A less B for the `PAIRS` of systems, and
        `difference.recall.COLLECTION.ROUTE.SYSTEM.A-B.BUDGET` for pairs of indexes, with `low` and `high`; the same
        of precision;
        with the collection "all", the unweighted mean of the collections (without intervals);
        `n.COLLECTION`, `n_documents.COLLECTION`, `n_chunks.COLLECTION`, `chunk_tokens.COLLECTION` (mean).

    Raises:
        ParameterError: there is no collection, or one is malformed.
    """
    found = find_collections(data)
    chosen = [name for name in (collection or found) if name in found]
    for name in collection:
        if name not in found:
            tell(f"without {name}: needs data")
    if any(data.rglob("*_corpus.jsonl*")):
        tell("without collections of paragraphs: no document there is long enough for a segment")
    if not chosen:
        raise ParameterError("data", str(data), "a folder with a collection of long documents at or below it")
    figures: dict[str, float] = {}
    cells: defaultdict[str, list[float]] = defaultdict(list)
    for name in chosen:
        documents = read_long_documents(found[name])
        asked = reported(documents.questions, questions)
        tell(f"{name}: {len(documents.entries)} documents, {len(asked)} questions")
        values = measured(documents, asked, tell)
        figures |= _sizes(documents, asked) | summed(name, values)
        for cell, each in values.items():
            for measure in (*MEASURES, "tokens"):
                cells[f"{measure}.all.{'.'.join(cell)}"].append(fmean(getattr(each, measure)))
    return figures | {key: fmean(means) for key, means in cells.items()}


def reported(questions: Sequence[EvidenceQuestion], most: int) -> list[EvidenceQuestion]:
    """Return the first `most` questions of the half that reports.

    Raises:
        ParameterError: there are none.
    """
    half = [question for question in questions if not question.tunes]
    if not half[:most]:
        allowed = f"1 or more of the {len(half)} that report, of {len(questions)} with evidence"
        raise ParameterError("questions", most, allowed)
    return sorted(half, key=lambda question: question.place)[:most]


def measured(
    documents: LongDocuments, questions: Sequence[EvidenceQuestion], tell: Tell = silent
) -> dict[Cell, Values]:
    """Return the values of every question by every index, route, system and budget."""
    known = MeasuredDocuments.of(documents.entries)
    values: defaultdict[Cell, Values] = defaultdict(Values)
    for index in INDEXES:
        systems = [name + tail for name in SYSTEMS for tail in ("", HEADERS)] if index == USUAL else FEW
        tell(f"{documents.name}: index {index}, {len(systems)} systems")
        with library_of(map(INDEXES[index], documents.entries)) as library:
            for question in questions:
                for route in ROUTES:
                    for system, got in _asked(library, known, question, route, systems).items():
                        for budget, each in zip((*map(str, BUDGETS), MEAN), got, strict=True):
                            values[route, index, system, budget].add(*each)
    return dict(values)


def _asked(
    library: Library, known: MeasuredDocuments, question: EvidenceQuestion, route: str, systems: Sequence[str]
) -> dict[str, list[tuple[float, float, float]]]:
    """Return recall, precision and tokens of each system at each budget, and their means last."""
    ranking = searched(library, question, route)
    got: dict[str, list[tuple[float, float, float]]] = {}
    for system in systems:
        header = segment_header if system.endswith(HEADERS) else None
        choose = SYSTEMS[system.removesuffix(HEADERS)]
        each = []
        for budget in BUDGETS:
            reading = Reading(known=known, services=library.services, ranking=ranking, budget=budget)
            runs = choose(reading, header)
            each.append((*evidence(known.spans(runs), question.gold), float(known.tokens(runs, header))))
        recall, precision, tokens = (fmean(column) for column in zip(*each, strict=True))
        got[system] = [*each, (recall, precision, tokens)]
    return got


def summed(name: str, values: Mapping[Cell, Values]) -> dict[str, float]:
    """Return the means of one collection and the differences between its systems, with their intervals."""
    figures: dict[str, float] = {}
    for cell, each in values.items():
        key = f"{name}.{'.'.join(cell)}"
        figures[f"tokens.{key}"] = fmean(each.tokens)
        for measure in MEASURES:
            figures |= mean_figures(measure, getattr(each, measure), of=key, rounds=ROUNDS)
    for (route, index, system, budget), mine in values.items():
        rivals = {
            f"{name}.{route}.{index}.{a}-{b}.{budget}": values.get((route, index, b, budget))
            for a, b in PAIRS
            if a == system
        } | {
            f"{name}.{route}.{system}.{a}-{b}.{budget}": values.get((route, b, system, budget))
            for a, b in INDEX_PAIRS
            if a == index
        }
        for key, other in rivals.items():
            for measure in MEASURES if other is not None else ():
                pairs = zip(getattr(mine, measure), getattr(other, measure), strict=True)
                gains = [one - two for one, two in pairs]
                figures |= mean_figures(f"difference.{measure}", gains, of=key, rounds=ROUNDS)
    return figures


def _sizes(documents: LongDocuments, asked: Sequence[EvidenceQuestion]) -> dict[str, float]:
    lengths = [tokens_of(chunk.text) for entry in documents.entries for chunk in entry.chunks]
    name = documents.name
    return {
        f"n.{name}": len(asked),
        f"n_documents.{name}": len(documents.entries),
        f"n_chunks.{name}": len(lengths),
        f"chunk_tokens.{name}": fmean(lengths),
    }
