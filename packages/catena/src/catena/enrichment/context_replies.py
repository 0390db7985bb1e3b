"""What a title or a summary from a model must be: one line, of the asked form, and nothing around it."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from catena.text.replies import TALK, TALKING_LEAD, bare, plain, refuses

Part: TypeAlias = Literal["document", "section"]

LONGEST_TITLE = 200  # characters; a longer one is a model that does not stop
LONGEST_SUMMARY = 600
_LONGEST_LEAD = 60  # of "This document is about:" in any language

_NO_TITLE = re.compile(
    r"(?i)\W*(?:none|null|n/a|unknown|untitled|no (?:suitable )?title(?: (?:found|given|available))?)\W*"
)
_LABEL = re.compile(
    r"(?i)\A(?:(?:document |section )?title|titel|titre|título|titolo|заголовок|название|标题|標題|題名|タイトル)"
    r"\s*[:：]\s*"
)
# A full stop after a word of three letters and fewer may end an abbreviation: "Inc.", "No.", "U.S."
_NEXT_SENTENCE = re.compile(r"(?<=[^\W\d_]{4})[.!?]+[\"')\]”’»]*\s+(?P<next>[^\W\d_])|[。！？]\s*(?P<unspaced>\w)")


def lead(part: Part) -> str:
    """Return how a summary begins, in English."""
    return f"This {part} is about:"


def clean_title(text: str) -> str:
    """Return the title that a model gave, without quotes, marks and the word "Title:" around it.

    Raises:
        ValueError: it is no title, with the reason.
    """
    title = bare(_LABEL.sub("", plain(text).lstrip("#").strip(), count=1))
    if len(title.splitlines()) > 1:
        raise ValueError("the reply holds more than a title: it has several lines")
    if len(title) > LONGEST_TITLE:
        raise ValueError(f"a title of {len(title)} characters, more than {LONGEST_TITLE}")
    if not any(map(str.isalnum, title)) or _NO_TITLE.fullmatch(title):
        raise ValueError("the reply holds no title")
    if TALK.match(title) or refuses(title):
        raise ValueError("the reply talks about a title instead of being one")
    return " ".join(title.split())


def clean_summary(text: str, part: Part) -> str:
    """Return the summary that a model gave: "This document is about: …" or the same in another language.

    Args:
        text: the reply.
        part: what it is a summary of.

    Raises:
        ValueError: it is no such summary, with the reason.
    """
    summary = plain(text)
    if len(summary.splitlines()) > 1:
        raise ValueError("the reply holds more than a sentence: it has several lines")
    if len(summary) > LONGEST_SUMMARY:
        raise ValueError(f"a summary of {len(summary)} characters, more than {LONGEST_SUMMARY}")
    begins, mark, said = re.match(r"([^:：]*)([:：]?)(.*)", summary, re.DOTALL).groups()  # type: ignore[union-attr]
    if TALK.match(summary) or (mark and TALKING_LEAD.match(begins)):
        raise ValueError("the reply talks about a summary instead of being one")
    expected = lead(part)
    foreign = not begins.casefold().startswith("this ") and any(map(str.isalpha, begins))
    if not mark or len(begins) > _LONGEST_LEAD or not (foreign or begins.casefold() == expected[:-1].casefold()):
        raise ValueError(f"the summary does not begin with {expected!r} or its translation")
    if not any(map(str.isalnum, said)):
        raise ValueError(f"nothing follows {begins + mark!r}")
    if any(not (found["next"] or "").islower() for found in _NEXT_SENTENCE.finditer(said)):
        raise ValueError("the summary is more than one sentence")
    return " ".join(summary.split())
