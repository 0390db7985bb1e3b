"""Questions as a model writes them: taken out of its reply, and looked at for what makes one useless."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from catena.text.replies import last_value

LONGEST_QUESTION = 400  # characters
LONGEST_ANSWER = 2_000

_OF_TEXT = r"(?:text|passage|section|excerpt|paragraph|chapter|content|context|reference text|snippet|material)"
_LEAK = re.compile(
    rf"\b(?:this|given|provided|above|following|preceding|supplied) (?:\w+ )?{_OF_TEXT}s?\b"
    rf"|\b(?:according to|based on|as (?:per|described|stated|mentioned|discussed) in|from) the {_OF_TEXT}s?\b"
    rf"|\b(?:described|stated|mentioned|discussed|presented|outlined|given|listed) in the {_OF_TEXT}s?\b"
    rf"|\b(?:in|of) the (?:text|passage|excerpt|reference text)(?=\s*[?.,;!]|\s*$)"
    r"|\b(?:does|did) the (?:text|passage|excerpt)\b"
    rf"|\bthe {_OF_TEXT}s? (?:above|below|says?|states?|mentions?)\b"
    r"|\b(?:mentioned|described|stated|listed|shown|given) (?:above|below)\b"
    r"|\b(?:laut|gemäß) (?:dem |diesem )?(?:text|abschnitt)|\bin (?:diesem|dem obigen) (?:text|abschnitt|kapitel)\b"
    r"|\b(?:selon|d['’]après) (?:le |ce )(?:texte|passage)\b|\bdans (?:ce|cette) (?:texte|passage|section)\b"
    r"|\bsegún el (?:texto|pasaje)\b|\ben (?:este|esta) (?:texto|pasaje|sección)\b"
    r"|(?:根据|依据|按照)(?:本文|上文|以上|文中|这段)|本(?:节|段|章)|上述(?:文|段|内容)|(?:この|本)(?:文章|節|段落)",
    re.IGNORECASE,
)
_NO_ANSWER = re.compile(
    r"\W*(?:n/?a|none|null|unknown|not (?:answerable|known|given|stated|specified))\W*", re.IGNORECASE
)


class Draft(NamedTuple):
    """A question as a model wrote it; what is missing or of another form is ""."""

    question: str
    type: str
    answer: str
    support: tuple[str, ...]


def read_drafts(reply: str) -> tuple[Draft, ...]:
    """Return the questions of a reply: the last objects in a JSON list, in an object, or one after the other.

    Raises:
        ValueError: no object in it has a question and a supporting sentence.
    """
    drafts = last_value(reply, _drafts)
    if drafts is None:
        raise ValueError('the reply holds no JSON list of objects with "question" and "support"')
    return drafts


def problem_of(draft: Draft) -> str:
    """Return what makes a question useless whatever its section says, "" for nothing."""
    if not any(map(str.isalpha, draft.question)):
        return "there is no question"
    if len(draft.question) > LONGEST_QUESTION:
        return f"a question of {len(draft.question)} characters, more than {LONGEST_QUESTION}"
    if leak := _LEAK.search(draft.question):
        return f"it speaks of the text it was made from: {leak.group()!r}"
    if not any(map(str.isalnum, draft.answer)) or _NO_ANSWER.fullmatch(draft.answer):
        return "it has no answer"
    if len(draft.answer) > LONGEST_ANSWER:
        return f"an answer of {len(draft.answer)} characters, more than {LONGEST_ANSWER}"
    return "" if draft.support else "it has no supporting sentences"


def _drafts(value: Any) -> tuple[Draft, ...] | None:
    listed = value if isinstance(value, list) else [value]
    drafts = tuple(_draft(each) for each in listed if isinstance(each, dict))
    return drafts if any(draft.question and draft.support for draft in drafts) else None


def _draft(given: dict[Any, Any]) -> Draft:
    support = given.get("support")
    listed = support if isinstance(support, list) else [support]
    return Draft(
        question=_text(given.get("question")),
        type=_text(given.get("type")),
        answer=_text(given.get("answer")),
        support=tuple(each for each in listed if isinstance(each, str) and each.strip()),
    )


def _text(given: object) -> str:
    return given.strip() if isinstance(given, str) else ""
