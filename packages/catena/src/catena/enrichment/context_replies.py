"""What a title or a summary from a model must be: one line, of the asked form, and nothing around it."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

Part: TypeAlias = Literal["document", "section"]

LONGEST_TITLE = 200  # characters; a longer one is a model that does not stop
LONGEST_SUMMARY = 600
_LONGEST_LEAD = 60  # of "This document is about:" in any language

TALK = re.compile(
    r"(?i)(?:sure|certainly|of course|okay)[,.!:]|here(?:['’]s| is| are) (?:the|a|an|my|your)\b"
    r"|i(?:['’]m| am) (?:sorry|unable|not)\b|i can(?:not|['’]t)\b|sorry[,.!]|unfortunately,|as an ai\b|as requested\b"
    r"|(?:the|a) (?:suitable |possible )?title (?:of|for)? ?(?:the|this)? ?(?:document|section)? ?(?:is|would be)\b"
)
TALKING_LEAD = re.compile(
    r"(?i)here\b|(?:(?:one|single)[- ]sentence |short |document |section )*(?:summary|answer|title|note|résumé)\b"
    r"|resumen\b|the following|based on|voici\b|hier (?:ist|folgt)\b|aquí\b|ecco\b|segue\b|以下"
    r"|zusammenfassung\b|antwort\b|réponse\b|respuesta\b|riassunto\b|要約|摘要|总结|回答"
    r"|error\b|warning\b|thinking\b|ich kann (?:nicht|kein|das nicht)\b|entschuldig|es tut mir leid"
    r"|je (?:ne peux|suis désolé)|désolée?\b|lo siento\b|no puedo\b|mi dispiace\b|抱歉|对不起|申し訳"
)
_NO_TITLE = re.compile(
    r"(?i)\W*(?:none|null|n/a|unknown|untitled|no (?:suitable )?title(?: (?:found|given|available))?)\W*"
)
# of models that reason aloud
_THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_TAGGED = re.compile(r"<(?P<tag>\w+)>(?P<inside>.*)</(?P=tag)>", re.DOTALL)
_LABEL = re.compile(
    r"(?i)\A(?:(?:document |section )?title|titel|titre|título|titolo|заголовок|название|标题|標題|題名|タイトル)"
    r"\s*[:：]\s*"
)
_WRAPS = tuple(
    zip(
        ("```", "**", "__", '"', "'", "`", *"“‘«„「『《"),
        ("```", "**", "__", '"', "'", "`", *"”’»“」』》"),
        strict=True,
    )
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
    title = bare(_LABEL.sub("", bare(text).lstrip("#").strip(), count=1))
    if len(title.splitlines()) > 1:
        raise ValueError("the reply holds more than a title: it has several lines")
    if len(title) > LONGEST_TITLE:
        raise ValueError(f"a title of {len(title)} characters, more than {LONGEST_TITLE}")
    if not any(map(str.isalnum, title)) or _NO_TITLE.fullmatch(title):
        raise ValueError("the reply holds no title")
    if TALK.match(title):
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
    summary = bare(text)
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


def bare(text: str) -> str:
    """Return the text without thoughts before it, and without a tag, white space, quotes and emphasis around it."""
    bare = _THOUGHT.sub("", text).strip()
    tagged = _TAGGED.fullmatch(bare)
    bare = tagged["inside"].strip() if tagged else bare
    for opening, closing in _WRAPS * 2:
        inner = bare[len(opening) : len(bare) - len(closing)]
        whole = len(bare) > len(opening) + len(closing) and bare.startswith(opening) and bare.endswith(closing)
        if whole and opening not in inner and closing not in inner:
            bare = inner.strip()
    return bare
