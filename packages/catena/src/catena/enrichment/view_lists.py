"""Reads the list in an answer of a language model: JSON as asked, or another way in which models list things."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from catena.enrichment.context_replies import TALK

_LONGEST_TERM = 6  # words; in a row of terms without quotes, a longer one is part of a sentence
_DEEPEST = 8  # lists in lists
_OPENS = re.compile(r"[\[{](?=\s*[\"'\[{\]}])")  # of JSON; not of "[1]" in a term
_TRAILING_COMMA = re.compile(r",\s*(?=[\]}])")
_SINGLE_QUOTED = re.compile(r"(?<=[\[{,:\s])'((?:[^'\\\n]|\\.|'(?=\w))*)'(?=\s*[,\]}:])")
_ITEM = re.compile(r"^[ \t]*(?:[-*+•–▪◦]|\(?\d{1,3}[.):])[ \t]+(?P<said>\S.*)$", re.MULTILINE)
_LABEL = re.compile(
    r"(?i)\A\W{0,4}(?:(?:the |a )?(?:list of )?(?:key ?(?:words|terms|phrases)|terms|tags|concepts|questions)"
    r"(?: (?:list|of|for|are|in)\b[^:：\n]{0,60})?|schlüsselwörter|schlagwörter|mots[- ]clés|palabras clave"
    r"|parole chiave|ключевые слова|关键词|關鍵詞|キーワード)\W{0,3}[:：]\W{0,3}"
)
_SEPARATORS = (";", "；", "、", "，", ",", " | ", "•", " · ")
_NAMING = ("keyword", "key_term", "term", "name", "entity", "concept", "phrase", "text", "value", "question", "q")
_WRAPS = "*_`\"'“”„‘’«»‹›「」『』 \t"


def read_items(text: str) -> list[str]:
    """Return the items of the list in a text, in order, without marks and quotes around them.

    Read are lists and objects of JSON (in talk, in a fence, with single quotes or a comma too many), lines with
    bullets or numbers, bare short lines, and short terms between semicolons or commas. In an object, the values are
    the items where they are lists or where the keys only say what they are; otherwise keys and values are.

    Args:
        text: without fences, thoughts and tags around it.

    Raises:
        ValueError: there is no list in it, with the reason.
    """
    found = _data(text)
    if found is None:
        found = _lines(text) or _row(text)
    items = [_bare_item(item) for item in found]
    items = [item for item in items if any(map(str.isalnum, item))]
    if not items:
        raise ValueError("the reply is no list, or an empty one")
    return items


def _data(text: str) -> list[str] | None:
    """Return the strings in the first list or object of the text; None where it holds neither."""
    opens = re.match(r"[\[{]", text) or _OPENS.search(text)
    item = _ITEM.search(text)
    if opens is None or (item is not None and item.start() < opens.start()):
        return None
    begins = opens.start()
    closing = "]" if text[begins] == "[" else "}"
    ends = text.rfind(closing)
    if ends < begins:
        raise ValueError("the list does not end")
    given = text[begins : ends + 1]
    raw = _TRAILING_COMMA.sub("", given)
    for spelt in (given, raw, _SINGLE_QUOTED.sub(_double_quoted, raw)):
        try:
            return list(_strings(json.loads(spelt), 0))
        except (ValueError, RecursionError):
            continue
    if text[begins] == "[" and re.match(r"\[\s*[\"'\[{]", raw) is None and "[" not in raw[1:]:
        return _row(raw[1:-1])  # [shaft seal, HX-200]: without quotes, as a prompt may print it
    raise ValueError("the list is no valid JSON")


def _double_quoted(single: re.Match[str]) -> str:
    return json.dumps(single[1].replace("\\'", "'"))


def _strings(value: Any, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        raise ValueError("lists too deep in lists")
    if isinstance(value, str):
        yield value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each, depth + 1)
    elif isinstance(value, dict):
        yield from _of_object(value, depth)


def _of_object(value: dict[Any, Any], depth: int) -> Iterator[str]:
    """Yield what an object lists: {"keywords": […]}, {"concepts": […], …}, {"keyword": …}, {name: description}."""
    named = [value[key] for key in value if str(key).casefold() in _NAMING]
    if named:
        for each in named:
            yield from _strings(each, depth + 1)
        return
    for key, each in value.items():
        if isinstance(each, str) and len(value) == 1 and _LABEL.match(f"{key}:"):
            yield from _row(each)
        elif isinstance(each, (list, dict)):
            yield from _strings(each, depth + 1)
        else:
            yield str(key)
            yield from _strings(each, depth + 1)


def _lines(text: str) -> list[str]:
    """Return the lines with bullets or numbers; else all lines where each is short and no sentence."""
    listed = [match["said"] for match in _ITEM.finditer(text)]
    if listed:
        return listed
    lines = [line.strip() for line in _LABEL.sub("", text, count=1).splitlines() if line.strip()]
    if lines and lines[0].endswith((":", "：")):
        del lines[0]
    questions = all(line.endswith(("?", "？", "؟")) for line in lines)
    if len(lines) > 1 and (questions or all(_is_term(line) for line in lines)):
        return lines
    return []


def _row(text: str) -> list[str]:
    """Return the short terms between semicolons or commas of one line, after a label such as "Keywords:"."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith((":", "：")):
        del lines[0]
    row = " ".join(lines)
    label = _LABEL.match(row)
    row = row[label.end() :] if label else row
    if not label and TALK.match(row):
        raise ValueError("the reply talks about a list instead of being one")
    mark = next((mark for mark in _SEPARATORS if mark in row), "")
    terms = [term.strip() for term in row.rstrip(".。 ").split(mark)] if mark else [row]
    if (len(terms) < 2 and not label) or not all(_is_term(term) for term in terms if term):
        raise ValueError("the reply is no list")
    return terms


def _is_term(text: str) -> bool:
    return len(text.split()) <= _LONGEST_TERM and not text.endswith((".", "!", "。", "！", ":")) and len(text) < 120


def _bare_item(item: str) -> str:
    bare = " ".join(item.split()).strip(_WRAPS)
    return bare.rstrip(",;").strip(_WRAPS)
