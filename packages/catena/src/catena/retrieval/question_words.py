"""The small words that questions are built of, per language: what joins, asks, places and compares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from catena.text.words import tokenise


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """Words of one language, folded.

    Attributes:
        joining: words between two parts of a question; `choosing` are those of them between alternatives.
        asking: words with which a question begins.
        being, helping: auxiliary verbs; after one of `being` stands a noun, after one of `helping` also a verb.
        placing: prepositions, and articles that do their work (German "des"); `owning` are those of them that join a
            property to its owner.
        pointing: articles and what stands in their place.
        comparing: words that say that things are to be compared, not what of them; `between` opens their list, and
            `against` may join two of them.
        standing_for: pronouns, which mean something said before.
        polite: words without meaning for a search.
    """

    joining: frozenset[str]
    choosing: frozenset[str]
    asking: frozenset[str]
    being: frozenset[str]
    helping: frozenset[str]
    placing: frozenset[str]
    owning: frozenset[str]
    pointing: frozenset[str]
    comparing: frozenset[str]
    between: frozenset[str]
    against: frozenset[str]
    standing_for: frozenset[str]
    polite: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        """Every word of the language that is known here."""
        return frozenset().union(*(getattr(self, name) for name in self.__slots__))


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


ENGLISH = Language(
    joining=_set("and or versus vs"),
    choosing=_set("or versus vs"),
    asking=_set("what which who whom whose when where why how"),
    being=_set("is are was were"),
    helping=_set("do does did has have had can could may might must shall should will would"),
    placing=_set(
        "of for in on at by with from to into about under over per within against than as between among during via"
    ),
    owning=_set("of for in on"),
    pointing=_set("the a an this these those its their each every all both"),
    comparing=_set("compare compared comparison contrast difference differences differ"),
    between=_set("between"),
    against=_set("with to from"),
    standing_for=_set("it its they them their he she his her"),
    polite=_set("please also respectively one ones there that i you me we"),
)

GERMAN = Language(
    joining=_set("und oder sowie bzw versus vs"),
    choosing=_set("oder bzw versus vs"),
    asking=_set("was welche welcher welches welchen welchem wer wem wen wessen wann wo wohin woher warum wieso wie"),
    being=_set("ist sind war waren"),
    helping=_set(
        "hat haben hatte hatten kann können könnte darf dürfen muss müssen soll sollen sollte wird werden wurde "
        "wurden"
    ),
    placing=_set(
        "von vom für bei beim des der in im an am auf aus mit zu zum zur nach über unter gegen pro als ohne um durch "
        "zwischen"
    ),
    owning=_set("von vom für bei beim der des im am"),
    pointing=_set("die das den dem ein eine einen einem einer eines dieser diese dieses jeder jede jedes alle beide"),
    comparing=_set("vergleiche vergleich vergleichen unterschied unterschiede unterscheiden unterscheidet"),
    between=_set("zwischen"),
    against=_set("mit von"),
    standing_for=_set("er es ihn ihm sein seine seinen ihre deren dessen"),
    polite=_set("bitte auch jeweils sich sie ich mir man"),
)

AS_WELL_AS = re.compile(r"\bas well as\b", re.IGNORECASE)
"""Three words that join as one."""

LANGUAGES = (ENGLISH, GERMAN)
_SMALL = ENGLISH.all | GERMAN.all


def language_of(words: Sequence[str]) -> Language | None:
    """Return the language that knows most of the folded words, English of equals; None where none knows any."""
    known = [sum(word in language.all for word in words) for language in LANGUAGES]
    return LANGUAGES[known.index(max(known))] if any(known) else None


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text that say what is looked for: all but those of `LANGUAGES`."""
    return frozenset(tokenise(AS_WELL_AS.sub("and", text))) - _SMALL
