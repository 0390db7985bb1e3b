"""Compare the parts of HiQA: the rows of its Table 2 over one collection, one reference N, the same questions.

| row | each chunk is found under | critical terms of a chunk |
|---|---|---|
| full | all titles above it, and its text | the document's title, and those in its text |
| no_cascade | its own section's title, and its text | those in its text |
| no_metadata | its text without any heading | those in its text |
| fixed | a run of sentences of 200 tokens, cut across headings | those in its text |
| fixed_untitled | the same without the line of the document's title | those in its text |
| vector_only | as full, by the dense route alone | |

The title that the cascade writes above every chunk is metadata wherever it is written: where a row has no cascade,
the document's title is no critical term either, and questions are not decomposed by it. Beside each row stands the
same without the keyword route and without decomposition ("_words"): there, rows differ by the indexed text and by
nothing else.

In the paper's long manuals a fixed run of sentences hardly ever holds the title. In a data sheet of one page every
third one does, and is a cascade made by chance; "fixed_untitled" says what is left without it. A run also spans
chapters, so where one chapter repeats the product's name, its neighbours are found by it: on such collections the
last step of the paper's order is expected to turn round, and the figures say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path
from statistics import pstdev

from catena import Chunk, Entry, Ranking, View
from catena.enrichment import critical_terms
from catena.evaluation import compare, holm
from catena.retrieval import DEFAULT_ROUTES
from catena.structure import body_of, cut_fixed
from catena.text import same_words
from catena_bench.collection import (
    CollectionQuestion,
    Judge,
    SimilarDocuments,
    answered,
    entry_of,
    library_of,
    read_collection,
)
from catena_bench.figures import Figures, Tell, mean_figures, silent

FULL = "full"  # the only row that knows documents by their titles
FIXED_TOKENS = 200
WORDS_ONLY = ("lexical", "dense")
LEVEL = 0.05

PAIRS = (
    ("full", "no_cascade"),
    ("no_cascade", "no_metadata"),
    ("no_metadata", "fixed"),
    ("no_metadata", "fixed_untitled"),
    ("full", "vector_only"),
)
ORDERS = {
    "order": ("fixed", ""),
    "order_words": ("fixed", "_words"),
    "order_untitled": ("fixed_untitled", ""),
    "order_untitled_words": ("fixed_untitled", "_words"),
}


def full(entry: Entry) -> Entry:
    """Return the entry as the library makes it."""
    return entry


def no_cascade(entry: Entry) -> Entry:
    """Return the entry with each chunk under its own section's title only."""
    return _under(entry, lambda chunk: "\n".join(part for part in (*chunk.path[-1:], body_of(chunk)) if part))


def no_metadata(entry: Entry) -> Entry:
    """Return the entry with each chunk under its text without the heading."""
    return _under(entry, lambda chunk: body_of(chunk) or chunk.text)


def fixed(entry: Entry) -> Entry:
    """Return the entry cut at a number of tokens, each chunk under its text."""
    chunks = cut_fixed(entry.document, tokens=FIXED_TOKENS)
    return _under(replace(entry, chunks=chunks), lambda chunk: chunk.text)


def fixed_untitled(entry: Entry) -> Entry:
    """Return the entry cut at a number of tokens, nothing up to the end of the document's title being indexed."""
    cut = fixed(entry)
    title = next((s for s in entry.sections if same_words(s.title, entry.document.title)), None)
    if title is None:
        return cut

    def bare(chunk: Chunk) -> Chunk:
        if not chunk.start <= title.start < title.body_start < chunk.end:
            return chunk
        return replace(chunk, start=title.body_start, text=chunk.text[title.body_start - chunk.start :])

    read_without = _under(replace(cut, chunks=tuple(map(bare, cut.chunks))), lambda chunk: chunk.text)
    return replace(cut, views=read_without.views, terms=read_without.terms)


def _under(entry: Entry, text: Callable[[Chunk], str]) -> Entry:
    untitled = replace(entry.document, title="")
    return replace(
        entry,
        views=tuple(View(chunk_id=chunk.id, kind="headed", text=text(chunk)) for chunk in entry.chunks),
        terms=critical_terms(untitled, entry.chunks),
    )


VARIANTS: Mapping[str, Callable[[Entry], Entry]] = {
    "full": full, "no_cascade": no_cascade, "no_metadata": no_metadata, "fixed": fixed,
    "fixed_untitled": fixed_untitled,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationRow:
    """The values of one row for each question."""

    log_rank: Mapping[str, float]
    recall: Mapping[str, float]


def run(data: Path, *, depth: int = 300, questions: int | None = None, tell: Tell = silent) -> Figures:
    """Index the collection in five ways, ask every question by each row, and compare the rows in pairs.

    Args:
        data: a directory of the layout that `catena_bench.collection` states.
        depth: length of the rankings that the Log-Rank Index judges; what lies deeper counts as last.
        questions: ask only so many of each kind.
        tell: is told how far the run is.

    Returns:
        `lri.mean.ROW`, `.max.`, `.min.`, `.std.` (over the questions) and `.low.`, `.high.` (95% bootstrap interval
        of the mean): Log-Rank Index, gamma 1, N the same for all rows: the most chunks that one of them has;
        `recall.mean.ROW` with its interval, at max(5, gold sections); rows are named as above, with "_words" for
        those without the keyword route;
        `difference.A-B` of the mean Log-Rank Index, its interval `difference.low.A-B` and `.high.`, and `p.A-B` of a
        paired randomisation test, by Holm over all pairs of the run;
        `order.holds`: 1 if full > no_cascade >= no_metadata > fixed by their means; `order.significant`: 1 if, at
        5%, both ">" are significant and the ">=" is not contradicted; the same for "_words" under `order_words`, and
        for "fixed_untitled" in the place of "fixed" under `order_untitled` and `order_untitled_words`;
        `n`, `n_judged`, `n_chunks.ROW`.

    Raises:
        ParameterError: no question has an answer.
    """
    collection = read_collection(data)
    judged = answered(collection, questions)
    entries = list(starmap(entry_of, collection.files.items()))
    made = {name: [change(entry) for entry in entries] for name, change in VARIANTS.items()}
    sizes = {name: sum(len(entry.chunks) for entry in cut) for name, cut in made.items()}
    n = max(sizes.values())
    rows: dict[str, AblationRow] = {}
    for name, cut in made.items():
        tell(f"{name}: {sizes[name]} chunks, {len(judged)} questions")
        rows.update(_asked(collection, judged, cut, _routes(name), n=n, depth=min(depth, sizes[name])))
    return {
        "n": n,
        "n_judged": len(judged),
        **{f"n_chunks.{name}": size for name, size in sizes.items()},
        **tabled(rows),
        **compared(rows),
    }


def _routes(variant: str) -> dict[str, Sequence[str]]:
    """Return the rows that are asked of one variant, with their routes."""
    rows: dict[str, Sequence[str]] = {variant: DEFAULT_ROUTES, f"{variant}_words": WORDS_ONLY}
    return {**rows, "vector_only": ("dense",)} if variant == "full" else rows


def _asked(
    collection: SimilarDocuments,
    questions: Sequence[CollectionQuestion],
    entries: Sequence[Entry],
    rows: Mapping[str, Sequence[str]],
    *,
    n: int,
    depth: int,
) -> dict[str, AblationRow]:
    judge = Judge.of(collection, [chunk for entry in entries for chunk in entry.chunks], n=n)
    with library_of(entries) as library:

        def search(row: str, question: CollectionQuestion, k: int, depth: int | None) -> Ranking:
            return library.search(
                question.text, k=k, depth=depth, routes=rows[row], by_name=row == FULL, on_route_error="raise"
            )

        return {
            row: AblationRow(
                log_rank={q.id: judge.log_rank(q, search(row, q, depth, depth)) for q in questions},
                recall={q.id: judge.recall(q, search(row, q, q.cutoff, None)) for q in questions},
            )
            for row in rows
        }


def tabled(rows: Mapping[str, AblationRow]) -> dict[str, float]:
    """Return mean, extremes and spread of each row, and the intervals of its means."""
    figures: dict[str, float] = {}
    for name, row in rows.items():
        values = list(row.log_rank.values())
        shown = {"max": max(values), "min": min(values), "std": pstdev(values)}
        figures |= {f"lri.{key}.{name}": value for key, value in shown.items()}
        for measure, of_each in (("lri", values), ("recall", list(row.recall.values()))):
            mean, low, high = mean_figures("", of_each).values()
            figures |= {f"{measure}.mean.{name}": mean, f"{measure}.low.{name}": low, f"{measure}.high.{name}": high}
    return figures


def compared(rows: Mapping[str, AblationRow]) -> dict[str, float]:
    """Compare the rows in pairs, with the keyword route and without, as one family of tests."""
    pairs = [*PAIRS, *((f"{a}_words", f"{b}_words") for a, b in PAIRS[:-1])]
    found = {f"{a}-{b}": compare(rows[a].log_rank, rows[b].log_rank) for a, b in pairs}
    p = holm({name: each.p for name, each in found.items()})
    figures: dict[str, float] = {}
    for name, each in found.items():
        figures[f"difference.{name}"] = each.difference
        figures[f"difference.low.{name}"], figures[f"difference.high.{name}"] = each.interval
        figures[f"p.{name}"] = p[name]
    for key, (last, suffix) in ORDERS.items():
        steps = [f"{a}{suffix}-{b}{suffix}" for a, b in (*PAIRS[:2], ("no_metadata", last))]
        figures |= _order(key, [found[step].difference for step in steps], [p[step] for step in steps])
    return figures


def _order(key: str, differences: Sequence[float], p: Sequence[float]) -> dict[str, float]:
    """Say whether the first and the third difference are above 0, and the second at least 0."""
    cascade, metadata, fixed_length = differences
    strict = cascade > 0 and fixed_length > 0
    sure = strict and p[0] < LEVEL and p[2] < LEVEL and not (metadata < 0 and p[1] < LEVEL)
    return {f"{key}.holds": float(strict and metadata >= 0), f"{key}.significant": float(sure)}
