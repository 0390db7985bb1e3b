"""A compound question as the questions it is made of, without a model: one search each finds what one would mix up.

English and German are taken apart by their small words; in other languages only several questions in a row are. A
question is left alone wherever its words leave a doubt: "Who wrote War and Peace?" is one question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, product
from math import prod

from catena.model.errors import ParameterError
from catena.retrieval.enumerations import Listing, Token, listings, tokens_of
from catena.retrieval.question_words import Language, content_words, language_of
from catena.text.words import tokenise

_END = re.compile(r"(?<![?？؟])[?？؟]+[\s\"'”’»)]*(?:\s|\Z|(?<=[？؟]))")
_LONGEST_ASKING = 2  # tokens of what only asks: "which year"
_STATEMENT_END = re.compile(r"(?<=\w\w\w\w)[.!]\s+")


def decompose(question: str, n: int = 6) -> tuple[str, ...]:
    """Return the questions that a compound question is made of, each of them to be searched for by itself.

    Taken apart are, in this order: several questions in one text; parts that ask with a word of their own ("when was
    it built and who built it"); lists, each item in the place of the list, and two lists as every pair of items ("the
    torque and the fuse of the HX210 and the HX200"). Where things are compared, the words that only say so are left
    out. What would be more than n is put together again or left together.

    Every content word (`question_words.content_words`) of the question is in at least one part, and no part holds a
    word that the question does not.

    Args:
        question: as typed.
        n: the most parts, >= 1.

    Returns:
        1 to n distinct parts, in the order of the question; the question itself, stripped, where there is nothing to
        take apart; none for a blank question.

    Raises:
        ParameterError: `n` is below 1.
    """
    if n < 1:
        raise ParameterError("n", n, "an integer >= 1")
    whole = " ".join(question.split())
    if not whole:
        return ()
    sentences = grouped(_sentences(whole), n)
    clauses = [_clauses(sentence) for sentence in sentences]
    if sum(map(len, clauses)) > n:
        clauses = [[sentence] for sentence in sentences]
    spare = n - sum(map(len, clauses))
    parts: list[str] = []
    for clause in (clause for of_sentence in clauses for clause in of_sentence):
        expanded = _expanded(clause, 1 + spare)
        spare -= len(expanded) - 1
        parts.extend(expanded)
    distinct = tuple(distinct_queries(parts))
    return distinct if len(distinct) > 1 else (whole,)


def distinct_queries(queries: Iterable[str]) -> Iterator[str]:
    """Yield the first of those that differ in case, spacing and punctuation at most; nothing that has no word."""
    seen: set[tuple[str, ...]] = set()
    for query in queries:
        key = tuple(tokenise(query))
        if key and key not in seen:
            seen.add(key)
            yield query


def grouped(parts: Sequence[str], n: int) -> list[str]:
    """Return at most n texts: neighbours are joined, as evenly as whole parts allow."""
    count = min(n, len(parts))
    borders = [len(parts) * index // count for index in range(count + 1)] if count else []
    return [" ".join(parts[first:last]) for first, last in pairwise(borders)]


def _sentences(text: str) -> list[str]:
    """Return the questions of a text, each with the statements before the first: they say what it is about."""
    ends = [match.end() for match in _END.finditer(text)]
    borders = [0, *ends] if ends and not text[ends[-1] :].strip() else [0, *ends[:-1], len(text)]
    parts = [part for first, last in pairwise(borders) if (part := text[first:last].strip())]
    if len(parts) < 2:
        return [text]
    stated = [match.end() for match in _STATEMENT_END.finditer(parts[0])]
    about = parts[0][: stated[-1]] if stated else ""
    return [parts[0], *(about + part for part in parts[1:])]


def _clauses(text: str) -> list[str]:
    """Return the parts that ask with a word of their own; one that only points back is told the names before it."""
    tokens = tokens_of(text)
    language = language_of([token.word for token in tokens])
    if language is None:
        return [text]
    if both := _two_askings(text, tokens, language):
        return both
    borders = [
        place
        for place in range(1, len(tokens) - 1)
        if tokens[place].word in language.joining
        and tokens[place + 1].word in language.asking
        and tokens[place + 1].text.islower()  # in a title it is written large
    ]
    starts = [0, *(tokens[place + 1].start for place in borders)]
    ends = [*(tokens[place].start for place in borders), len(text)]
    parts = [text[start:end].strip().rstrip(",;").rstrip() for start, end in zip(starts, ends, strict=True)]
    first_asks = any(token.word in language.asking for token in tokens[: borders[0] if borders else 0])
    if not first_asks or not all(content_words(part) and len(tokens_of(part)) > _LONGEST_ASKING for part in parts):
        return [text]
    names = " ".join(_names(tokens, starts[1], language))
    return [parts[0], *(_told(part, names, language) for part in parts[1:])]


def _two_askings(text: str, tokens: Sequence[Token], language: Language) -> list[str]:
    """Return "When ...?" and "Where ...?" for "When and where ...?"; none for another question."""
    asks = [token.word in language.asking for token in tokens[:3:2]]
    if len(tokens) < 4 or not all(asks) or tokens[1].word not in language.joining:
        return []
    rest = text[tokens[2].end :].strip()
    return [f"{tokens[0].text} {rest}", f"{tokens[2].text} {rest}"] if content_words(rest) else []


def _names(tokens: Sequence[Token], before: int, language: Language) -> list[str]:
    """Return the names that stand before a place, without the first word, which every sentence writes large."""
    return [
        token.text
        for place, token in enumerate(tokens)
        if token.end <= before and token.is_name and (place or token.has_code) and token.word not in language.all
    ]


def _told(part: str, names: str, language: Language) -> str:
    points_back = any(token.word in language.standing_for for token in tokens_of(part))
    return f"{names}: {part}" if names and points_back else part


def _expanded(text: str, most: int) -> list[str]:
    """Return the text once per item of its lists, or per pair of items, at most `most` times."""
    tokens = tokens_of(text)
    language = language_of([token.word for token in tokens])
    if language is None or most < 2:
        return [text]
    compares = any(token.word in language.comparing for token in tokens)
    lists = listings(tokens, language, compares=compares)
    sizes = [len(listing.items) for listing in lists]
    while prod(sizes) > most:  # the list that may shrink most says least by itself: its neighbours stay together
        largest = sizes.index(max(sizes))
        sizes[largest] = max(1, most // (prod(sizes) // sizes[largest]))
    if prod(sizes) < 2:
        return [text]
    choices = [_choices(text, tokens, listing, size) for listing, size in zip(lists, sizes, strict=True)]
    begin = _frame(tokens, language, lists[0].start) if compares else 0
    parts = [_filled(text, tokens, lists, chosen, begin) for chosen in product(*choices)]
    return [part.rstrip(" ?.!") for part in parts] if begin else parts


def _choices(text: str, tokens: Sequence[Token], listing: Listing, size: int) -> list[str]:
    """Return what to put in the place of a list: each item, or where there are too many, neighbours together."""
    if size == 1:
        return [text[tokens[listing.start].start : tokens[listing.end - 1].end]]
    items = [text[tokens[first].start : tokens[last - 1].end] for first, last in listing.items]
    return grouped(items, size)


def _filled(text: str, tokens: Sequence[Token], lists: Sequence[Listing], chosen: Sequence[str], begin: int) -> str:
    parts: list[str] = []
    at = tokens[begin].start
    for listing, item in zip(lists, chosen, strict=True):
        parts.extend((text[at : tokens[listing.start].start], item))
        at = tokens[listing.end - 1].end
    return " ".join("".join((*parts, text[at:])).split())


def _frame(tokens: Sequence[Token], language: Language, until: int) -> int:
    """Return how many of the first tokens only say that things are compared: "What is the difference between"."""
    length = 0
    while length < until and tokens[length].word in language.all:
        length += 1
    return length if any(token.word in language.comparing for token in tokens[:length]) else 0
