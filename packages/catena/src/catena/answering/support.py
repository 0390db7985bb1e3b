"""Check by words, not by meaning, whether passages support an answer.

In order: the values and names of a statement looked up in the passages that it cites, and the quotes that prove a
statement.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from catena.answering.quotes import Citable, NumberedPassage, sources
from catena.answering.written import check_citations, read_reply, statements_in
from catena.model.places import TITLE
from catena.text.quotes import QuoteToken, Wording, place_of
from catena.text.words import UNSPACED, common_beginning, tokenise

SupportState: TypeAlias = Literal["found", "not found", "nothing to check", "not cited"]

_CITATION = re.compile(r"(?:(?<!\s)\s++)?\[\s*+\d++(?:\s*+[,;–-]\s*+\d++)*+\s*+\]")
_ORDINAL = re.compile(r"^\s*(?:[-*•+]\s+)?\d{1,3}[.)]\s+")
_SPELLED_UNITS = frozenset(("rpm", "bar", "psi", "min", "mol", "lbs", "bit", "dpi", "fps", "ppm", "kwh", "mbar"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementSupport:
    """A statement of an answer, and its values and names that the passages it cites have or lack.

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


def _supported(statement: str, given: dict[int, NumberedPassage], words: dict[int, Wording]) -> StatementSupport:
    cited = check_citations(statement, given.keys()).cited
    if not cited:
        return StatementSupport(statement=statement, cited=(), state="not cited")
    for number in cited:
        if number not in words:
            words[number] = words_about(given[number])
    found, missing = split_values(statement, [words[number] for number in cited])
    state: SupportState = "not found" if missing else "found" if found else "nothing to check"
    return StatementSupport(statement=statement, cited=cited, state=state, found=found, missing=missing)


def words_about(source: NumberedPassage) -> Wording:
    """Return the words of a passage, of the headings above it and of its document's title."""
    title = str(source.found.metadata.get(TITLE, ""))
    return Wording("\n\n".join((title, *source.found.path, source.found.text)))


def split_values(statement: str, passages: Sequence[Wording]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the values and names of a statement that one of the passages has, and those that none has."""
    found: dict[str, bool] = {}
    for value in values_in(statement):
        found[value] = any(has_value(Wording(value), passage, (passage,)) for passage in passages)
    return tuple(v for v, there in found.items() if there), tuple(v for v, there in found.items() if not there)


def has_value(value: Wording, text: Wording, headed: Sequence[Wording] = ()) -> bool:
    """Say whether a text has a value or a name, or its number, with the unit at the head of a column.

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
    return _ORDINAL.sub("", _CITATION.sub("", statement))


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


def _goes_on(last: QuoteToken, token: QuoteToken) -> bool:
    if token.kind == "unit":
        plain = token.spelling.isascii() and token.spelling.islower() and len(token.spelling) > 2
        return not plain or token.spelling in _SPELLED_UNITS
    if token.kind == "symbol":
        return token.soft or token.spelling in "%°‰"
    return token.soft and (token.kind == "number" or _is_code(token)) and last.kind != "unit"


def _is_code(token: QuoteToken) -> bool:
    letters = token.spelling
    return token.kind == "word" and len(letters) > 1 and letters.isalpha() and letters[1:] != letters[1:].lower()


def _is_title(token: QuoteToken) -> bool:
    return token.kind == "word" and token.spelling[0].isupper() and len(token.spelling) > 1


def _adjacent(words: Wording, index: int) -> bool:
    before, after = words.token(index - 1), words.token(index)
    between = words.text[words.span(before.start, before.end)[1] : words.span(after.start, after.end)[0]]
    return between in (" ", "-")


Proof: TypeAlias = Literal["supported", "unchecked", "unsupported"]
"""`supported`: verified quotes share a content word, a value or a name with the statement and have all its numbers.
`unchecked`: there is a verified quote for it, but its words do not tell whether it proves the statement.
`unsupported`: no quote for it is verified."""

_SHORTEST_WORD = 3
_FIRST_OF_SHORT_WORDS = "\u0590"  # Hebrew, Arabic, Korean and all behind them say in two letters what takes four here
# Thai and its kin, where any two letters are no word; の, です
_WEAK_PAIR = re.compile(rf"(?=[{UNSPACED}])(?:[^\u3041-\uffff\U00020000-\U0003ffff]+|[\u3041-\u309f]+)")
_SHORTEST_STEM = 4  # characters that two forms of one word begin with
# of English, German, French, Italian, Spanish, Portuguese and Dutch
_LISTED = """
the and but for nor yet not are was were has had have having does did can could may might must shall should
will would been being this that these those they them their theirs its his her hers him she you your yours our
ours who whom whose which what when where why how than then there here with without from into onto upon about
over under between during before after while until also only just very more most less least some any all both
each every other such own same too per via out off once again because since though although however therefore
thus according states stated says said der die das den dem des ein eine einen einem einer eines und oder aber
nicht kein keine keinen ist sind war waren wird werden wurde wurden hat haben hatte kann können muss müssen
soll sollen darf dürfen sein seine ihre ihr sie wir ich man sich auch nur noch schon sehr mehr als wie wenn
dann dass weil mit ohne von vom für bei aus auf nach über unter vor zum zur durch gegen zwischen dieser diese
dieses jeder jede jedes alle sowie bis les une est sont été être avoir ont pas par pour avec sans dans sur
sous que qui quoi dont cette ces son ses leur leurs elle elles ils nous vous mais plus très aux del della
delle degli dei dello nel nella con senza che non sono essere gli una uno questo questa suo sua los las unos
unas por para sin como este esta estos estas ese esa está están ser pero más muy sus dos nos nas uma com sem
não são seu mas pelo pela het een van voor met niet zijn wordt worden deze dit dat
"""
_FUNCTION_WORDS = frozenset(_LISTED.split())
_UPPER = ("max", "maximum", "maximal", "most", "up", "below", "less", "höchstens", "exceed", "≤", "<")
_LOWER = ("min", "minimum", "minimal", "least", "above", "more", "mindestens", "≥", ">")
_BOUNDS = dict.fromkeys(_UPPER, "upper") | dict.fromkeys(_LOWER, "lower")


class ComparedWords:
    """The words of a statement or a quote that tell whether the one speaks of the other."""

    def __init__(self, text: str) -> None:
        self.text = without_citations(text)
        self.words = Wording(self.text)

    @cached_property
    def values(self) -> tuple[Wording, ...]:
        """Its numbers with their units, codes, acronyms and names of several words."""
        return tuple(map(Wording, values_in(self.text)))

    @cached_property
    def content(self) -> dict[str, tuple[str, ...]]:
        """Its content words, without accents, by their first characters; of scripts without spaces, runs of them."""
        found: dict[str, dict[str, None]] = {}
        for word in _content(self.text):
            found.setdefault(word[:_SHORTEST_STEM], {})[word] = None
        return {stem: tuple(words) for stem, words in found.items()}

    @cached_property
    def is_negated(self) -> bool:
        """Say whether it has a negation."""
        return any(token.kind == "negation" for token in self.words.tokens)

    @cached_property
    def bounds(self) -> frozenset[str]:
        """Return the bounds that it sets to a value: "upper", "lower"."""
        return frozenset(_BOUNDS[token.key] for token in self.words.tokens if token.key in _BOUNDS)

    def shared(self, quote: ComparedWords, headed: Sequence[Wording] = ()) -> int:
        """Count the characters of content words and values that a quote shares with this statement; 0 for none.

        Args:
            quote: any.
            headed: the passages in which the unit of a quoted number may stand, at the head of its column.
        """
        words = sum(
            max((len(word) for other in quote.content.get(stem, ()) if _is_form(word, other)), default=0)
            for stem, mine in self.content.items()
            for word in mine
        )
        return words + sum(len(value.folded) for value in self.values if has_value(value, quote.words, headed))


def nearest_of(
    statement: ComparedWords, quotes: Sequence[ComparedWords], headed: Sequence[Wording] = ()
) -> tuple[int, ...]:
    """Return the indexes of the quotes of one passage that belong to a statement which cites it.

    They share something with it: the nearest in words, and those that have a value of it which the nearest have not.
    """
    shared = [statement.shared(quote, headed) for quote in quotes]
    most = max(shared, default=0)
    nearest = [quote for quote, weight in zip(quotes, shared, strict=True) if weight == most]
    left = [each for each in statement.values if not any(has_value(each, quote.words, headed) for quote in nearest)]
    return tuple(
        index
        for index, (quote, weight) in enumerate(zip(quotes, shared, strict=True))
        if weight and (weight == most or any(has_value(value, quote.words, headed) for value in left))
    )


def proof_of(statement: ComparedWords, quotes: Sequence[ComparedWords], headed: Sequence[Wording] = ()) -> Proof:
    """Judge the verified quotes that were given for a statement as its proof.

    Args:
        statement: with its citations or without.
        quotes: those that are verified.
        headed: the passages in which the unit of a quoted number may stand, at the head of its column.

    Returns:
        `unsupported` without quotes. `unchecked` where none of them shares a content word, a value or a name with the
        statement, as in a translation; where none of those that do has a number of the statement; and where
        each of those says "not" and the statement does not, or the other way round, or sets the other bound ("at
        least" for "at most"). Else `supported`: a check of words, not of meaning.
    """
    if not quotes:
        return "unsupported"
    alike = [quote for quote in quotes if statement.shared(quote, headed)]
    of_one_sign = [quote for quote in alike if quote.is_negated == statement.is_negated]
    agree = any(not (statement.bounds and each.bounds) or statement.bounds & each.bounds for each in of_one_sign)
    numbers = [value for value in statement.values if not value.text[0].isalpha()]
    proved = all(any(has_value(number, quote.words, headed) for quote in alike) for number in numbers)
    return "supported" if agree and proved else "unchecked"


def _is_form(word: str, other: str) -> bool:
    """Say whether two words of one stem may be forms of one: they begin alike, for two thirds of the longer."""
    return 3 * common_beginning(word, other) >= 2 * max(len(word), len(other))


def _content(text: str) -> list[str]:
    found: list[str] = []
    for word in tokenise(text):
        is_short = len(word) < (_SHORTEST_WORD if word[0] < _FIRST_OF_SHORT_WORDS else 2)
        if is_short or word[0].isdigit() or word in _FUNCTION_WORDS or _WEAK_PAIR.fullmatch(word):
            continue
        found.append("".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c)))
    return [word for word in found if word]
