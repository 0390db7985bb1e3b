"""Measure the speed of finding critical terms: many generated terms in many generated chunks, beside other tools."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import TypeAlias

from catena import ParameterError
from catena.model import EvaluationError
from catena.text import TermMatcher, is_border, normalise_query, normalise_term
from catena_bench.figures import timed

Spans: TypeAlias = Iterable[tuple[int, int]]
Finder: TypeAlias = Callable[[str], Spans]
"""A normalised text -> all places of all terms, borders not yet looked at."""

WORDS = 20_000  # different words that chunks are made of
WORDS_PER_CHUNK = 120
TERMS_PER_CHUNK = 4
CHECKED_CHUNKS = 40  # these are searched for every term, one by one
PEER_CHUNKS = 20_000
SEED = 20_240_201


def run(
    data: Path | None = None,
    *,
    terms: int = 100_000,
    chunks: int = 100_000,
    tell: Callable[[str], None] = lambda message: None,
) -> dict[str, float]:
    """Measure `TermMatcher` on generated product codes and names of two words, and on chunks of 120 words.

    All times are seconds of processor time, of one run in one thread: other work on the machine makes caches
    colder, but is not counted. They hold all that it takes from raw text to terms: normalising, matching, and
    looking at the borders. Peers get the same normalising and the same look at borders. Every engine must find
    the same, and on a sample what trying each term finds.

    Args:
        data: not used; all is generated, the same in every run.
        terms: how many different terms.
        chunks: how many chunks.
        tell: is told of each step.

    Returns:
        `terms`, `chunks`, `characters`; `build_seconds`, `match_seconds`, `matches`, `matches_per_second`,
        `chunks_per_second`; and for each peer that is installed, on the first `peer_chunks`: its
        `build_seconds` and `match_seconds`, and `ratio_to_ours`, its match time over ours on the same chunks
        (above 1 we are faster). `one_by_one`, the search for each term in turn, is timed on `checked_chunks`.

    Raises:
        ParameterError: a size is below 1.
        EvaluationError: two engines do not find the same.
    """
    if min(terms, chunks) < 1:
        raise ParameterError("sizes", (terms, chunks), "integers >= 1")
    names, texts = generated(terms, chunks)
    tell(f"{terms} terms, {chunks} chunks generated")
    build_seconds, matcher = timed(lambda: TermMatcher(names))
    match_seconds, found = timed(lambda: [matcher.all_in(text) for text in texts])
    matches = sum(map(len, found))
    tell(f"built in {build_seconds:.2f} s, matched in {match_seconds:.2f} s")
    figures: dict[str, float] = {
        "terms": len(matcher.terms),
        "chunks": chunks,
        "characters": sum(map(len, texts)),
        "build_seconds": build_seconds,
        "match_seconds": match_seconds,
        "matches": matches,
        "matches_per_second": matches / match_seconds,
        "chunks_per_second": chunks / match_seconds,
    }
    checked = texts[:CHECKED_CHUNKS]
    figures |= _compared("one_by_one", _one_by_one, matcher, checked, found)
    figures["checked_chunks"] = len(checked)
    shared = texts[:PEER_CHUNKS]
    figures["peer_chunks"] = len(shared)
    for peer, module, prepare in PEERS:
        if find_spec(module) is not None:
            figures |= _compared(peer, prepare, matcher, shared, found)
            tell(f"{peer}: ratio {figures[f'{peer}.ratio_to_ours']:.2f}")
    return figures


def generated(n_terms: int, n_chunks: int) -> tuple[list[str], list[str]]:
    """Return different terms (six codes to four names of two words), and chunks that hold four of them each."""
    draw = random.Random(SEED)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 9))) for _ in range(WORDS)]
    names: dict[str, str] = {}
    for kind in cycle("codecodeco" if n_terms > 1 else "c"):
        name = (
            f"{''.join(draw.choices('ABHSTX', k=2))}-{draw.randint(10, 999_999)}{draw.choice(('', 'A', 'B', '/C'))}"
            if kind in "co"
            else f"{draw.choice(words)} {draw.choice(words)}".title()
        )
        names.setdefault(normalise_term(name), name)
        if len(names) == n_terms:
            break
    terms = list(names.values())
    chunks = []
    for _ in range(n_chunks):
        body = draw.choices(words, k=WORDS_PER_CHUNK)
        for place in draw.sample(range(WORDS_PER_CHUNK), TERMS_PER_CHUNK):
            body[place] = draw.choice(terms)
        chunks.append(" ".join(body))
    return terms, chunks


def _compared(
    peer: str,
    prepare: Callable[[Sequence[str]], Finder],
    matcher: TermMatcher,
    texts: Sequence[str],
    found: Sequence[tuple[str, ...]],
) -> dict[str, float]:
    """Time a peer and us on the same chunks, and check that both find the same."""
    build_seconds, find = timed(lambda: prepare(matcher.terms))
    peer_seconds, theirs = timed(lambda: [_between_borders(find, text) for text in texts])
    our_seconds, _ = timed(lambda: [matcher.all_in(text) for text in texts])
    for place, (one, other) in enumerate(zip(theirs, found, strict=False)):
        if one != set(other):
            raise EvaluationError(f"{peer} and ours differ at chunk {place}: {sorted(one ^ set(other))[:5]}")
    return {
        f"{peer}.build_seconds": build_seconds,
        f"{peer}.match_seconds": peer_seconds,
        f"{peer}.ratio_to_ours": peer_seconds / our_seconds,
    }


def _between_borders(find: Finder, text: str) -> set[str]:
    normal = normalise_query(text)
    return {normal[a:b] for a, b in find(normal) if is_border(normal, a) and is_border(normal, b)}


def _one_by_one(terms: Sequence[str]) -> Finder:
    def find(normal: str) -> Spans:
        for term in terms:
            at = normal.find(term)
            while at >= 0:
                yield at, at + len(term)
                at = normal.find(term, at + 1)

    return find


def _ahocorasick_rs(terms: Sequence[str]) -> Finder:
    import ahocorasick_rs

    automaton = ahocorasick_rs.AhoCorasick(terms)
    return lambda normal: (
        (start, end) for _, start, end in automaton.find_matches_as_indexes(normal, overlapping=True)
    )


def _pyahocorasick(terms: Sequence[str]) -> Finder:
    import ahocorasick

    automaton = ahocorasick.Automaton()
    for term in terms:
        automaton.add_word(term, len(term))
    automaton.make_automaton()
    return lambda normal: ((last + 1 - length, last + 1) for last, length in automaton.iter(normal))


PEERS: tuple[tuple[str, str, Callable[[Sequence[str]], Finder]], ...] = (
    ("ahocorasick_rs", "ahocorasick_rs", _ahocorasick_rs),
    ("pyahocorasick", "ahocorasick", _pyahocorasick),
)
