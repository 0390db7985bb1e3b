"""Compare sections, windows, views and fixed lengths by several retrievers: recall at k and at tokens.

The paper's Tables 4, 6, 7, 9, 10 and 11, with views made offline, on documents whose evidence is known in characters.

| method | what is returned | what it is found by |
|---|---|---|
| fixed100, fixed200, fixed300 | sentences up to so many word pieces | their text, as far as the encoder reads it |
| fixed100_content, … | the same, inside sections | the same |
| sections_truncated | a section | its text, as far as the encoder reads it |
| sections, sections_headed | a section | all its text, as one vector; under its titles |
| windows, windows_headed | a section | its best window of 200 word pieces; under its titles |
| passages | a section | its best passage, as the library cuts them |
| default | a section; within a budget its passages | what Catena ships: all its words, and its best passage |
| views_paper, views_exact, views_rrf | a section | its text under its titles, its keywords and its summary |
| views_paper_without_raw, … | a section | two of these |
| fixed200_views_paper, … | fixed lengths | their text, keywords and summary |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

from catena import Chunk, Services
from catena import run as drive
from catena.effects import Embedder
from catena.evaluation import Span, chunking_error, spans_of
from catena.retrieval import ReadingOptions, rank_passages
from catena.structure import passages_of
from catena_bench.figures import PERCENT
from catena_bench.views_data import METHODS, AskedDocument, Units, read_asked_documents
from catena_bench.views_measures import (
    CUTOFFS,
    KEYWORDS,
    RAW,
    Results,
    ablation,
    at_equal_counts,
    at_equal_length,
    best_text,
    by_question,
    by_rank,
    by_score,
    figures,
    offline_views,
    ranked_spans,
    ranking,
    rules,
)
from catena_bench.views_retrievers import Dense, Retriever, Scores, retrievers

BY_WORDS, BY_MEANING = ReadingOptions(alpha=0.0), ReadingOptions(alpha=1.0)


OURS = "lexical"  # what is fused, and shipped; "bm25" is the usual one, which other figures can be compared with
LEXICAL = (OURS, "bm25")
SLOW = "minilm"  # minutes for each method, so it is left out of those below and of views of fixed lengths
LEFT_OUT = ("fixed100_content", "fixed200_content", "fixed300_content", "sections_headed")
FUSED = "fused_"
WITH_VIEWS = ("fixed200", "fixed300")  # of the fixed lengths: Tables 6 and 9
OfRetrievers = Mapping[str, Scores]  # by retriever, shape (questions, chunks)


def passages_read(
    asked: AskedDocument,
    scores: Scores,
    chunks: Sequence[Chunk],
    embedder: Embedder | None,
    options: ReadingOptions | None = None,
) -> Iterator[tuple[Span, ...]]:
    """Yield for each question the passages of its first hits, in the order in which they are read.

    Args:
        asked: the document.
        scores: shape (questions, chunks).
        chunks: sections, or anything long.
        embedder: compares passages with the question; None where only their words count.
        options: as the library has them by default.
    """
    services = Services(embedder=embedder)

    @cache
    def passages(chunk: Chunk) -> tuple[Chunk, ...]:
        return passages_of(chunk, document=asked.document)

    for question, row in zip(asked.questions, scores, strict=True):
        step = rank_passages(question.text, ranking(row, chunks), passages, options)
        yield spans_of(hit.chunk for hit in drive(step, services).hits)


def run(
    data: Path, *, questions: int | None = None, tell: Callable[[str], None] = lambda message: None
) -> dict[str, float]:
    """Ask every question of its own document, by every method and retriever, and return the figures.

    Args:
        data: a directory of the layout, see `views_data.read_asked_documents`.
        questions: ask only so many of each document.
        tell: is told how far the run is.

    Returns:
        `<document>.<retriever>.<method>.<figure>`, the figures as `views_measures.figures` has them, in percent and
        word pieces, for fixed lengths `k3.equal_length` too (Table 10), and for the paper's rule `k3.equal_count`;
        `<document>.chunking_error.<method>` in percent (Table 7); `<document>.n_questions`, `.n_tokens`,
        `.n_sections`; `skipped.<retriever>` 1 for one whose packages are not installed. "lexical" is
        the library's own BM25, which is fused: "fused_static" and "fused_minilm" with that embedding, "fused" the
        latter where it is there, else the former. "bm25" is the usual BM25 (bm25s, English stop words and stemmer);
        its "default" is what Catena ships without an embedding, so the same as that of "lexical".
    """
    documents = read_asked_documents(data, questions)
    engines, skipped = retrievers(tell)
    measured: dict[str, float] = {f"skipped.{name}": 1.0 for name in skipped}
    for asked in documents:
        tell(f"{asked.name}: {len(asked.questions)} questions, {len(asked.token_starts):,} word pieces")
        for key, value in _of_document(asked, engines, tell).items():
            measured[f"{asked.name}.{key}"] = value
    return measured


def _of_document(asked: AskedDocument, engines: Sequence[Retriever], tell: Callable[[str], None]) -> dict[str, float]:
    units = {method: units_of(asked) for method, units_of in METHODS.items()}
    sections = units["sections"].chunks
    measured: dict[str, float] = {
        "n_questions": len(asked.questions),
        "n_tokens": len(asked.token_starts),
        "n_sections": len(sections),
    }
    evidence = [span for question in asked.questions for span in question.evidence]
    scores: dict[str, OfRetrievers] = {}
    for method, of_method in units.items():
        tell(f"{asked.name}: {method}")
        error = chunking_error(spans_of(of_method.chunks), evidence, asked.document.text)
        measured[f"chunking_error.{method}"] = PERCENT * error
        scores[method] = with_fused(_scores(asked, of_method, _fast(engines) if method in LEFT_OUT else engines))
        for retriever, matrix in scores[method].items():
            measured |= _told(asked, f"{retriever}.{method}", Results(ranked=ranked_spans(matrix, of_method.chunks)))
    tell(f"{asked.name}: default")
    measured |= _default(asked, scores, sections, engines)
    tell(f"{asked.name}: views")
    raw = with_fused({name: _own_text(name, scores) for name in scores["sections"]})
    measured |= _views(asked, "views", raw, sections, engines, ablated=True)
    for method in WITH_VIEWS:
        measured |= _views(asked, f"{method}_views", scores[method], units[method].chunks, _fast(engines))
    tell(f"{asked.name}: equal lengths")
    measured |= _equal_lengths(asked, measured, scores, units)
    return measured | _of_strongest(
        measured, "minilm" if any(engine.name == SLOW for engine in engines) else "static"
    )


def _scores(asked: AskedDocument, units: Units, engines: Sequence[Retriever]) -> dict[str, Scores]:
    texts = [question.text for question in asked.questions]
    return {
        engine.name: best_text(engine.scores(units.texts, texts, truncated=units.truncated), units)
        for engine in engines
    }


def _fast(engines: Sequence[Retriever]) -> list[Retriever]:
    return [engine for engine in engines if engine.name != SLOW]


def _told(asked: AskedDocument, name: str, results: Results) -> dict[str, float]:
    return {f"{name}.{key}": value for key, value in figures(asked, results).items()}


def with_fused(single: OfRetrievers, passages: Scores | None = None) -> dict[str, Scores]:
    """Add the library's words fused with each embedding: "fused_static" and, where it is there, "fused_minilm"."""
    alone = {name: scores for name, scores in single.items() if not name.startswith(FUSED)}
    dense = [name for name in alone if name not in LEXICAL]
    return {**alone, **{f"{FUSED}{name}": by_score(alone[OURS], alone[name], passages) for name in dense}}


def _of_strongest(measured: Mapping[str, float], strongest: str) -> dict[str, float]:
    """Return the figures of the words fused with the strongest embedding that is there, as those of "fused"."""
    start = f"{FUSED}{strongest}."
    return {f"fused.{key.removeprefix(start)}": value for key, value in measured.items() if key.startswith(start)}


def _own_text(retriever: str, scores: Mapping[str, OfRetrievers]) -> Scores:
    """Return how the library finds a section by its own text: all its words, or the meaning of its best passage."""
    return scores["sections_headed" if retriever in LEXICAL else "passages"][retriever]


def _default(
    asked: AskedDocument,
    scores: Mapping[str, OfRetrievers],
    sections: tuple[Chunk, ...],
    engines: Sequence[Retriever],
) -> dict[str, float]:
    """Return the figures of what Catena ships, and of each of its routes alone."""
    embedders = {engine.name: engine for engine in engines if isinstance(engine, Dense)}
    single = {name: _own_text(name, scores) for name in (OURS, *embedders)}
    shipped = with_fused(single, scores["passages"][OURS])
    measured: dict[str, float] = {}
    for retriever, matrix in shipped.items():
        embedder = embedders.get(retriever.removeprefix(FUSED))
        options = BY_WORDS if retriever == OURS else BY_MEANING if retriever in embedders else None
        read = list(passages_read(asked, matrix, sections, embedder, options))
        measured |= _told(asked, f"{retriever}.default", Results(ranked=ranked_spans(matrix, sections), read=read))
    without_embedding = f"{OURS}.default"
    for key in [key for key in measured if key.startswith(without_embedding)]:
        measured["bm25" + key.removeprefix(OURS)] = measured[key]
    by_ranks = by_rank(single[OURS], single.get("minilm", single["static"]))
    return measured | _told(asked, "rrf.default", Results(ranked=ranked_spans(by_ranks, sections)))


def _views(
    asked: AskedDocument,
    name: str,
    raw: OfRetrievers,
    chunks: tuple[Chunk, ...],
    engines: Sequence[Retriever],
    *,
    ablated: bool = False,
) -> dict[str, float]:
    """Return the figures of the rules over the chunks' own text, keywords and summaries."""
    made = {kind: with_fused(_scores(asked, units, engines)) for kind, units in offline_views(asked, chunks).items()}
    measured: dict[str, float] = {}
    for retriever in made[KEYWORDS]:
        of_kinds = {RAW: raw[retriever], **{kind: scores[retriever] for kind, scores in made.items()}}
        rankings = by_question(of_kinds, chunks)
        for rule, results in chain(rules(rankings), ablation(rankings) if ablated else ()):
            measured |= _told(asked, f"{retriever}.{name}_{rule}", results)
        if ablated:
            for key, value in at_equal_counts(asked, rankings).items():
                measured[f"{retriever}.{name}_paper.{key}"] = value
    return measured


def _equal_lengths(
    asked: AskedDocument,
    measured: Mapping[str, float],
    scores: Mapping[str, OfRetrievers],
    units: Mapping[str, Units],
) -> dict[str, float]:
    """Return the recall of fixed lengths at as many tokens as the paper's rule over sections returns (Table 10)."""
    found: dict[str, float] = {}
    for method in (method for method in units if method.startswith("fixed")):
        for retriever in scores[method]:
            tokens = {k: measured[f"{retriever}.views_paper.k{k:g}.mean_tokens"] for k in CUTOFFS}
            results = Results(ranked=ranked_spans(scores[method][retriever], units[method].chunks))
            for key, value in at_equal_length(asked, results, tokens).items():
                found[f"{retriever}.{method}.{key}"] = value
    return found
