"""Reduce words to stems, drop stop words, and tell a text's language from its stop words.

Stemmers and stop words are Snowball's (https://snowballstem.org); the stemmers come with tantivy, the words are data.
A word with digits in it is a code or a number, and stays as it is. Scripts without spaces have neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from catena.text.words import is_unspaced, tokenise

_FEWEST = 2  # stop words of a language that make a text one of that language
_LOOKED_AT = 2_000  # words of a text that are looked at
_BEGINNING = 20_000  # characters of a document that tell its language
_FREQUENT = 0.5  # a word in more than this part of the texts tells little and costs most
_FEW = 2_000  # texts up to which no word is left out


@cache
def stop_words() -> Mapping[str, frozenset[str]]:
    """Return the stop words of each language, as `catena.text.tokenise` gives words, by the language in English."""
    lines = files("catena").joinpath("data", "stop_words.txt").read_text(encoding="utf-8").splitlines()
    listed = (line.partition(": ") for line in lines if not line.startswith("#"))
    return {language: frozenset(words.split()) for language, _, words in listed}


@cache
def _languages_by_word() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for language, words in stop_words().items():
        for word in words:
            found[word] = (*found.get(word, ()), language)
    return found


def language_of(words: Sequence[str], among: Collection[str] | None = None, *, fewest: int = _FEWEST) -> str | None:
    """Return the language of a text: that of which it has the most stop words.

    Args:
        words: of the text, as `catena.text.tokenise` gives them; the first 2,000 are looked at.
        among: languages that come into question; all by default.
        fewest: stop words that it needs.

    Returns:
        The language in English ("german"), of equally many the first by name; None where it has fewer of each.
    """
    known = _languages_by_word()
    counts: Counter[str] = Counter()
    for word in words[:_LOOKED_AT]:
        counts.update(known.get(word, ()))
    best = max(sorted(counts if among is None else counts.keys() & set(among)), key=counts.__getitem__, default=None)
    return best if best is not None and counts[best] >= fewest else None


def stems_of(words: Sequence[str], language: str) -> list[str]:
    """Return the stem of each word, in order; a word with digits is its own.

    Args:
        words: as `catena.text.tokenise` gives them.
        language: one of `stop_words`.
    """
    stems = _stemmer(language).analyze(" ".join(words))
    return [stem if word.isalpha() else word for word, stem in zip(words, stems, strict=True)]


@cache
def _stemmer(language: str) -> Any:
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    return TextAnalyzerBuilder(Tokenizer.whitespace()).filter(Filter.stemmer(language)).build()


def searched_words(text: str, otherwise: str = "") -> tuple[str, list[str]]:
    """Return the language of a text, and its words as they are searched: stems, where the language is known.

    Args:
        text: a view, or a whole document.
        otherwise: the language where the text does not tell it; "" for none.
    """
    words = tokenise(text)
    language = language_of(words) or otherwise
    return language, stems_of(words, language) if language else words


def language_of_document(text: str) -> str:
    """Return the language of a document by its beginning, for parts of it that are too short to tell; "" for none."""
    return language_of(tokenise(text[:_BEGINNING])) or ""


def telling(words: Iterable[str], language: str | None) -> list[str]:
    """Return the words that are no stop words of the language; all of them where nothing would be left."""
    words = list(words)
    stops = stop_words()[language] if language else frozenset()
    return [word for word in words if word not in stops] or words


def says_more(text: str) -> bool:
    """Return whether a text has a word that is no stop word of its language."""
    words = tokenise(text)
    language = language_of(words, fewest=1)
    return any(word not in stop_words()[language] for word in words) if language else bool(words)


def asked_words(question: str, languages: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Return the words that a question looks for, each in its forms: its stems in the languages of what is searched.

    Stop words of the question's language are left out, unless it has no others.

    Args:
        question: as typed.
        languages: of the texts; none where they are not stemmed.
    """
    return _asked(question, tuple(sorted(languages)))


@lru_cache(maxsize=256)  # a question is asked several times: of chunks, of documents, of what others found
def _asked(question: str, languages: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    words = tokenise(question)
    words = telling(words, language_of(words, languages or None, fewest=1))
    forms = [stems_of(words, language) for language in languages] or [words]
    return tuple(tuple(dict.fromkeys(each)) for each in zip(*forms, strict=True))


def known_words(
    asked: Collection[tuple[str, ...]], frequencies: Mapping[str, int], texts: int
) -> dict[tuple[str, ...], int]:
    """Return the words that are worth asking, in their known forms, and how often the question says each.

    Left out are words that no text holds, and those in most of many texts, unless there are no others. Beside a
    script without spaces, of which a character gives a word and a pair another, a word between spaces counts twice.

    Args:
        asked: words of the question, as `asked_words` gives them.
        frequencies: form -> texts that hold it.
        texts: that are searched.
    """
    known: Counter[tuple[str, ...]] = Counter()
    unspaced = {forms for forms in asked if is_unspaced(forms[0])}
    for forms in asked:
        printed = tuple(form for form in forms if frequencies.get(form))
        known[printed] += 2 if unspaced and forms not in unspaced else 1
    del known[()]
    most = max(_FEW, _FREQUENT * texts)
    rare = {forms: count for forms, count in known.items() if max(frequencies[form] for form in forms) <= most}
    return rare or dict(known)
