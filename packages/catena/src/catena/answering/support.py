"""Whether the values and names of an answer stand in the passages it cites: a check of words, not of meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from catena.answering.citations import check_citations
from catena.answering.locating import place_of
from catena.answering.sources import Citable, Source, sources
from catena.answering.wording import Token, Wording
from catena.answering.written import read_reply, statements_in
from catena.model.places import TITLE

__all__ = ["StatementSupport", "SupportState", "values_in", "verify_answer"]

SupportState: TypeAlias = Literal["found", "not found", "nothing to check", "not cited"]

_CITATION = re.compile(r"(?:(?<!\s)\s++)?\[\s*+\d++(?:\s*+[,;–-]\s*+\d++)*+\s*+\]")
_ORDINAL = re.compile(r"^\s*(?:[-*•+]\s+)?\d{1,3}[.)]\s+")
_SPELLED_UNITS = frozenset(("rpm", "bar", "psi", "min", "mol", "lbs", "bit", "dpi", "fps", "ppm", "kwh", "mbar"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementSupport:
    """A statement of an answer and which of its values and names stand in what it cites.

    Attributes:
        cited: numbers of the passages it cites, in the order of their first mention.
        state: `found`: all of its values and names stand in a passage that it cites; `not found`: one does not, see
            `missing`; `nothing to check`: it has neither; `not cited`: it cites no passage that exists.
        found, missing: its values and names, as written.
    """

    statement: str
    cited: tuple[int, ...]
    state: SupportState
    found: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def verify_answer(text: str, passages: Sequence[Citable]) -> tuple[StatementSupport, ...]:
    """Check an answer that gives no quotes, statement by statement, by the words of the passages it cites.

    Looked for are numbers with their units and signs, codes ("HX210"), acronyms and names of several words, in the
    text of the passages, their headings and titles. This is lexical support, not entailment: a statement that uses
    the right values in a wrong way ("at least" for "at most", a value of another row, a dropped "not") is `found`; a
    value that was computed, rounded, converted or written in words is `not found`, though it may be right.

    Args:
        text: an answer with numbers of passages in square brackets.
        passages: numbered from 1, or with numbers of their own.

    Raises:
        ParameterError: two passages have one number.
    """
    given = {source.number: source for source in sources(passages)}
    words: dict[int, Wording] = {}
    checked = check_citations(read_reply(text).text, given.keys())
    return tuple(_supported(statement, given, words) for statement in statements_in(checked.text))


def _supported(statement: str, given: dict[int, Source], words: dict[int, Wording]) -> StatementSupport:
    cited = check_citations(statement, given.keys()).cited
    if not cited:
        return StatementSupport(statement=statement, cited=(), state="not cited")
    for number in cited:
        if number not in words:
            words[number] = words_about(given[number])
    found, missing = split_values(statement, [words[number] for number in cited])
    state: SupportState = "not found" if missing else "found" if found else "nothing to check"
    return StatementSupport(statement=statement, cited=cited, state=state, found=found, missing=missing)


def words_about(source: Source) -> Wording:
    """Return the words of a passage, of the headings above it and of its document's title."""
    title = str(source.found.metadata.get(TITLE, ""))
    return Wording("\n\n".join((title, *source.found.path, source.found.text)))


def split_values(statement: str, passages: Sequence[Wording]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the values and names of a statement that stand in one of the passages, and those that do not."""
    found: dict[str, bool] = {}
    for value in values_in(statement):
        found[value] = any(stands(Wording(value), passage, (passage,)) for passage in passages)
    return tuple(v for v, there in found.items() if there), tuple(v for v, there in found.items() if not there)


def stands(value: Wording, text: Wording, headed: Sequence[Wording] = ()) -> bool:
    """Return whether a value or a name stands in a text, or its number does, with the unit at the head of a column.

    Args:
        value: as `values_in` returns it.
        text: a passage, or a quote of one.
        headed: the passages that may have the unit at the head of a column.
    """
    place = place_of(value, text)
    if place is not None and place.state != "altered":
        return True
    number, unit = value.token(0), value.run(1, len(value))
    if not unit or not number.spelling[-1].isdigit() or any(token.kind not in ("unit", "symbol") for token in unit):
        return False
    bare = any(
        all(after.kind != "unit" and after.spelling not in "%°-" for after in text.run(index + 1, index + 2))
        for index in text.indexes.get(value.folded[: number.end], ())
    )
    if not bare:
        return False
    head = Wording(value.text[value.span(unit[0].start, unit[-1].end)[0] :])
    places = (place_of(head, passage) for passage in headed)
    return any(place is not None and place.state != "altered" for place in places)


def without_citations(statement: str) -> str:
    """Return a statement without its citations and the number of an item."""
    return _ORDINAL.sub("", _CITATION.sub("", statement), count=1)


def values_in(statement: str) -> tuple[str, ...]:
    """Return the numbers with their units, the codes, acronyms and names in a statement, as written, in order."""
    text = without_citations(statement)
    words = Wording(text)
    return tuple(dict.fromkeys(text[slice(*words.span(first, last))] for first, last in _runs(words)))


def _runs(words: Wording) -> Iterator[tuple[int, int]]:
    """Yield [start, end) in the folded text of each value or name."""
    index = 0
    while index < len(words):
        token = words.token(index)
        end = index + 1
        if token.kind in ("number", "symbol") or _is_code(token):
            while end < len(words) and _goes_on(words.token(end - 1), words.token(end)):
                end += 1
            if any(each.kind == "number" or _is_code(each) for each in words.run(index, end)):
                yield token.start, words.token(end - 1).end
        elif index and _is_title(token):  # the first word of a sentence has its capital anyway
            while end < len(words) and _is_title(words.token(end)) and _adjacent(words, end):
                end += 1
            if end - index > 1:
                yield token.start, words.token(end - 1).end
        index = end


def _goes_on(last: Token, token: Token) -> bool:
    if token.kind == "unit":
        plain = token.spelling.isascii() and token.spelling.islower() and len(token.spelling) > 2
        return not plain or token.spelling in _SPELLED_UNITS
    if token.kind == "symbol":
        return token.soft or token.spelling in "%°‰"
    return token.soft and (token.kind == "number" or _is_code(token)) and last.kind != "unit"


def _is_code(token: Token) -> bool:
    letters = token.spelling
    return token.kind == "word" and len(letters) > 1 and letters.isalpha() and letters[1:] != letters[1:].lower()


def _is_title(token: Token) -> bool:
    return token.kind == "word" and token.spelling[0].isupper() and len(token.spelling) > 1


def _adjacent(words: Wording, index: int) -> bool:
    before, after = words.token(index - 1), words.token(index)
    between = words.text[words.span(before.start, before.end)[1] : words.span(after.start, after.end)[0]]
    return between in (" ", "-")
