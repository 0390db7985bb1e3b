"""What a question names, decided once for every store, from what the store knows of its names and of its terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from catena.effects.steps import FindNames, NamesFound
from catena.model import Name, Unknown
from catena.text.cells import table_values
from catena.text.names import all_as_written, codes_in, is_measure, other_forms, pattern_of, says_something
from catena.text.words import is_border, normalise_query, normalise_term

LOOKED_AT: Final = (
    200  # passages in which a name is looked for among the values, besides one for each of its documents
)
LONGEST_NAME: Final = 300  # characters of a question that are looked up as one name
MOST_SPANS: Final = 60_000  # of a question that are looked up, the shortest: of 300 words all, of a pasted log enough


def names_found(
    request: FindNames,
    *,
    known: Iterable[Name],
    near: Iterable[Unknown],
    is_term: Callable[[str], bool],
    is_property: Callable[[Name], bool],
) -> NamesFound:
    """Return what a question names.

    Args:
        request: with the question.
        known: names of documents that the question says, in order.
        near: what it says that is such a name but for its digits, in order.
        is_term: whether a name is a critical term, or part of one: "F407VE" where there is an STM32F407VE.
        is_property: whether a name is a value in the tables of as many other documents as bear it, or of more:
            "ESP32" in the titles of some boards and in the tables of more of them tells no board from the others; a
            product that other manuals mention, or that labels a row of theirs, is still a product.
    """
    missing = [unknown for unknown in near if not is_term(unknown.text)]
    missed = [normalise_term(unknown.text) for unknown in missing]
    known = tuple(known)
    inside = _inside((name.text for name in known), missed)
    said = [name for name in known if name.text not in inside]
    others = _others(request, [*missed, *(name.text for name in said)], is_term)
    properties = tuple(name for name in said if is_property(name))
    return NamesFound(
        known=tuple(name for name in said if name not in properties),
        properties=properties,
        unknown=(*missing, *others),
    )


def _others(request: FindNames, covered: Iterable[str], is_term: Callable[[str], bool]) -> Iterator[Unknown]:
    """Yield what else looks like a name, and no form of which is a term or stands in what is covered."""
    forms = {name: other_forms(name) for name in names_besides(request)}
    stand = _inside(chain.from_iterable(forms.values()), covered)
    names = [name for name in forms if not any(form in stand or is_term(form) for form in forms[name])]
    yield from map(Unknown, all_as_written(request.query, names).values())


def _inside(forms: Iterable[str], covered: Iterable[str]) -> frozenset[str]:
    """Return those of the forms that stand anywhere inside one of the texts, in one pass over each text."""
    looked_for, texts = sorted(set(forms) - {""}), tuple(dict.fromkeys(covered))
    if not looked_for or not texts:
        return frozenset({""} if texts else ())
    from daachorse import CharwiseDoubleArrayAhoCorasick

    automaton = CharwiseDoubleArrayAhoCorasick(looked_for)
    return frozenset({"", *(looked_for[key] for text in texts for _, _, key in automaton.find_overlapping(text))})


def names_besides(request: FindNames) -> tuple[str, ...]:
    """Return the codes of a question, and the names that it is said to contain, normalised, each once."""
    codes = (code for code in map(normalise_term, codes_in(request.query)) if not is_measure(code))
    return tuple(filter(says_something, dict.fromkeys((*codes, *map(normalise_term, request.also)))))


def is_value_in(name: str, text: str) -> bool:
    """Return whether a normalised name is a value of a table in a text."""
    return name in map(normalise_term, table_values(text))


def possible_names(query: str) -> tuple[str, ...]:
    """Return every part of a question that may be the name of a document: normalised, from border to border."""
    return tuple(filter(says_something, _spans(normalise_query(query))))


def possible_patterns(query: str) -> tuple[str, ...]:
    """Return every part of a question that may be the pattern of a name, as `catena.text.patterns_of` gives it."""
    return tuple(filter(_is_masked, _spans(pattern_of(normalise_query(query)))))


def _is_masked(span: str) -> bool:
    return pattern_of(span) == span and any(map(str.isdigit, span))


def _spans(text: str) -> list[str]:
    """Return the parts of a text between borders that begin and end as a name does, each once, the shortest first."""
    borders = [place for place in range(len(text) + 1) if is_border(text, place)]
    starts = [place for place in borders[:-1] if normalise_term(text[place])]
    ends = [place for place in borders[1:] if normalise_term(text[place - 1])]
    found: dict[str, None] = {}
    first = 0
    for start in starts:
        while first < len(ends) and ends[first] <= start:
            first += 1
        for end in ends[first:]:
            if end - start > LONGEST_NAME:
                break
            found[text[start:end]] = None
    return sorted(found, key=len)[:MOST_SPANS]
