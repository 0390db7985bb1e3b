"""Read what language models write: take off thoughts, fences and talk, find JSON and lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from catena.text.loose_json import JsonValue, json_string, json_values
from catena.text.words import runs_of

T = TypeVar("T")

_NAMES = (
    r"(?:\w{1,20}:)?(?:(?:ant)?think(?:ing)?|thoughts?|reason(?:ing)?(?:_content)?|reflection|scratchpad|analysis)"
)
_THOUGHT_TAG = re.compile(
    rf"(?P<bold>\*\*)?(?:<{_NAMES}(?:\s[^<>/\n]{{0,200}})?>|\[THINK\]|◁think▷|<\|begin_of_thought\|>"
    r"|<\|START_THINKING\|>|<\|channel>thought\b|\[INST\]"  # the text in [INST] is the prompt, repeated
    rf"|(?P<ends></{_NAMES}\s{{0,9}}>|<{_NAMES}\s{{0,9}}/>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>"
    r"|<\|END_THINKING\|>|<channel\|>|\[/INST\]))(?(bold)\*\*)",
    re.IGNORECASE,
)
_QUOTES = frozenset("`'\"“”‘’«»")
_IN_PARTS = (  # how a reply in parts begins, and the part that is its answer
    (  # of OpenAI's open models
        re.compile(r"\A\s*+(?:<\|start\|>\w{0,20})?<\|channel\|>"),
        re.compile(
            r"<\|channel\|>\s{0,9}final\b[^<]{0,99}(?:<\|constrain\|>\w{0,20})?<\|message\|>"
            r"(?P<answer>(?:[^<]++|<(?!\|(?:start|channel|message|end|return|call)\|>))*+)"
        ),
    ),
    (  # the same, its marks lost
        re.compile(r"\Aanalysis(?=.*assistantfinal)", re.DOTALL),
        re.compile(r"assistantfinal(?P<answer>(?:(?!assistantfinal).)*+)", re.DOTALL),
    ),
    (  # of IBM's
        re.compile(r"(?i)\A\s*+here(?: is|['’]s) my thought process:"),
        re.compile(r"(?is)here(?: is|['’]s) my response:(?P<answer>.*+)"),
    ),
)
# what a server or a chat template left: at the beginning, and at the end
_LEFT_BEFORE = re.compile(
    r"\A\s*+(?:<s>\s*+(?=\[INST\])|<\|im_start\|>assistant\b|<\|start_header_id\|>assistant<\|end_header_id\|>"
    r"|<\|(?:assistant|begin_of_solution|START_RESPONSE)\|>)"
)
_LEFT_BEHIND = re.compile(r"(?:<\|\w{1,30}\|>|</s>)\Z")
_MARK = 40  # characters of it at most
_NEAR = 20  # characters beside a tag that show whether it begins or ends a line
_BEGINS_LATE = re.compile(r"(?:^|[.!?…。！？])[\s>*_#+•–-]{0,20}+\Z", re.MULTILINE)  # behind talk or a list mark
_LONE_MARKS = re.compile(r"^[ \t>*_#+•–-]++\Z", re.MULTILINE)
_EMPTY_FENCE = re.compile(r"\A\s*+(`{3,}+|~{3,}+)[\w+#.-]{0,30}[ \t]*+\n\s*+\1[ \t]*+(?:\n|\Z)")

UNPRINTED = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff]")
"""Matches a control character, or a lone surrogate, which cannot be stored at all."""

TALK = re.compile(
    r"(?i)(?:sure|certainly|of course|okay)[,.!:]|here(?:['’]s| is| are) (?:the|a|an|my|your)\b"
    r"|i(?:['’]m| am) (?:sorry|unable|not)\b|i can(?:not|['’]t)\b|sorry[,.!]|unfortunately,|as an ai\b|as requested\b"
    r"|(?:the|a) (?:suitable |possible )?title (?:of|for)? ?(?:the|this)? ?(?:document|section)? ?(?:is|would be)\b"
)
"""Matches the beginning of a sentence that talks to the user, in English."""

TALKING_LEAD = re.compile(
    r"(?i)here\b|(?:(?:one|single)[- ]sentence |short |document |section )*(?:summary|answer|title|note|résumé)\b"
    r"|resumen\b|the following|based on|voici\b|hier (?:ist|folgt)\b|aquí\b|ecco\b|segue\b|以下"
    r"|zusammenfassung\b|antwort\b|réponse\b|respuesta\b|riassunto\b|要約|摘要|总结|回答"
    r"|error\b|warning\b|thinking\b|ich kann (?:nicht|kein|das nicht)\b|entschuldig|es tut mir leid"
    r"|je (?:ne peux|suis désolé)|désolée?\b|lo siento\b|no puedo\b|mi dispiace\b|抱歉|对不起|申し訳"
)
"""Matches the beginning of a line before a colon that only announces what follows."""

CLOSING = re.compile(
    r"(?i)(?:let me know\b|i hope (?:this|that)\b|hope this helps|would you like\b|feel free\b|is there anything\b"
    r"|if you (?:need|want|would like)\b[^.!?\n]{0,100}\b(?:me|i)\b|note\s*:|\(?\d+ words\)?|word count\b)"
)
"""Matches the beginning of a sentence in which a model takes its leave."""

_REFUSAL = re.compile(
    r"(?i)[\s\"'*_(]*(?:"
    r"as an? (?:ai|language model)|unfortunately\b|sorry\b|i(?:['’]?m| am) (?:sorry|unable|afraid)"
    r"|i (?:can(?:not|['’]t)|could(?: not|n['’]t)|won['’]t|do(?: not|n['’]t)|was unable|apologi[sz]e)\b"
    r"|there(?: is|['’]s) (?:nothing|(?:no|not enough) (?:content|text|section|information))\b"
    r"|please (?:provide|share|give|paste)\b|no (?:content|text|section|summary|keywords?|questions?|answer)\b"
    r"|(?:the )?(?:content|text|section|input)(?: \w+)? (?:is|was) (?:empty|missing|too short|not (?:given|provided))"
    r"|(?:none|null|nil|n/a|error|unknown|undefined)\W*\Z"
    r"|(?:leider|entschuldig|es tut mir leid|ich kann (?:nicht|kein|das)|je (?:ne peux|suis désolé)|désolé)"
    r"|(?:lo siento|no puedo|mi dispiace|non posso)\b"
    r"|抱歉|对不起|很抱歉|无法|申し訳|すみません|죄송|извините|к сожалению"
    r")"
)
_ANSWER_LABEL = re.compile(
    r"(?i)(?:\*\*|__)?(?:short |final )?(?:answer|antwort|réponse|respuesta|答案|回答)(?:\*\*|__)?\s*+[:：]\s*+"
    r"(?:\*\*|__)?\s*+"
)
_FENCE_OPENS = re.compile(r"(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[\w+#.-]{0,30})[ \t]*+\n")
_TAGGED = re.compile(r"<(?P<tag>\w{1,30})>")
_JSON_STRING = re.compile(r'\s*+"(?:[^"\\]++|\\.)*+"\s*+', re.DOTALL)
_WRAPPED = 3  # objects and lists that may be around a value that fits
_WRITTEN_AGAIN = 2  # times that JSON may be in a JSON string
_WRAPS = (
    *((mark, mark) for mark in ("```", "**", "__", '"', "'", "`")),
    *zip("“‘«„「『《", "”’»“」』》", strict=True),
)


def without_thoughts(reply: str) -> str:
    """Return a reply without what its model thought aloud; a reply without thoughts is returned as it is.

    Thoughts are between tags (`<think>`, `<reasoning>`, `[THINK]`, `<|START_THINKING|>` and their like), as often
    as they come. Their first tag begins a line, or follows other thoughts; where its closing tag follows, it may
    follow a sentence or a mark of a list. One amid a line, or in quotes, is what the text speaks of. Thoughts
    without an end go on to the end of the reply; those without a beginning, as chat templates leave them, began
    where the reply did, and their closing tag begins or ends a line. Of a reply in parts, as in channels, the last
    that is called its answer is kept. Marks that a server left around the answer are no part of it.
    """
    text = _answer_part(_LEFT_BEFORE.sub("", reply.removeprefix("\ufeff")))
    tags = [(tag.start(), tag.end(), bool(tag["ends"])) for tag in _THOUGHT_TAG.finditer(text)]
    last = max((start for start, end, ends in tags if ends and not _quoted(text, start, end)), default=-1)
    kept: list[str] = []
    place = 0  # from which on the text is no thought
    thinking = mentioned = False  # `mentioned`: a first tag in the text since, which begins nothing
    opened = 0  # first tags of these thoughts that wait for their closing tag
    for start, end, ends in tags:
        before = text[max(place, start - _NEAR) : start].rstrip(" \t")
        quoted, begins = _quoted(text, start, end), not before or before.endswith(("\n", "\r"))
        if not ends:
            late = start < last and not quoted and _BEGINS_LATE.search(text, max(place, start - _NEAR), start)
            if not thinking and (begins or late):
                kept.append(text[place:start])
                thinking, opened = True, 1
            elif thinking and not quoted:
                opened += 1
            mentioned = not thinking
            continue
        if thinking:
            closes = not quoted or start > last
        else:
            closes = not quoted and (opened > 0 or begins or (not mentioned and _ends_line(text, end)))
        if closes:
            if thinking and _ends_line(text, end):
                kept[-1] = _LONE_MARKS.sub("", kept[-1])
            place, thinking, mentioned, opened = end, False, False, max(0, opened - 1)
    if not thinking:
        kept.append(text[place:])
    answer = "".join(kept)
    if answer == reply:
        return reply
    return _EMPTY_FENCE.sub("", _LEFT_BEFORE.sub("", answer)).strip()


def answered(reply: str) -> str:
    """Return the answer in a reply: all but the thoughts.

    Raises:
        ValueError: there is none.
    """
    answer = without_thoughts(reply)
    if not answer.strip():
        raise ValueError("the reply holds nothing but thoughts" if reply.strip() else "the reply is empty")
    return answer


def _answer_part(text: str) -> str:
    """Return the part of a reply that is its answer, or all of it; without marks of the end that a server left."""
    for begins, answer in _IN_PARTS:
        if begins.match(text):
            text = ([""] + [found["answer"] for found in answer.finditer(text)])[-1]
    struck = "<s>" in text  # then "</s>" ends what is struck through
    end = whole = len(text.rstrip())
    while (mark := _LEFT_BEHIND.search(text, max(0, end - _MARK), end)) and not (struck and mark[0] == "</s>"):
        end = mark.start()
        while end and text[end - 1].isspace():
            end -= 1
    return text if end == whole else text[:end]


def _ends_line(text: str, end: int) -> bool:
    after = text[end : end + _NEAR].lstrip(" \t")
    return not after or after.startswith(("\n", "\r"))


def _quoted(text: str, start: int, end: int) -> bool:
    return text[start - 1 : start] in _QUOTES and text[end : end + 1] in _QUOTES


def unfenced(text: str, *languages: str) -> str:
    """Return a text without a code fence around all of it, closed or not, and without white space at its ends.

    Args:
        text: maybe fenced.
        languages: which a fence may name beside none; without any, it may name each.
    """
    text = text.strip()
    opening = _FENCE_OPENS.match(text)
    if opening is None or (languages and opening["language"].lower() not in ("", *languages)):
        return text
    inside, fence = text[opening.end() :], opening["fence"]
    if inside.endswith(fence) and fence not in (whole := inside[: -len(fence)]):
        return whole.strip("\n").rstrip()
    # a fence that is never closed would make all that follows code
    return inside if opening["language"] and inside.count(fence) % 2 == 0 else text


def bare(text: str) -> str:
    """Return a text without a tag, a fence, white space, quotes and emphasis around all of it."""
    bare = text.strip()
    tag = _TAGGED.match(bare)
    if tag is not None and bare.endswith(closing := f"</{tag['tag']}>"):
        bare = bare[tag.end() : -len(closing)].strip()
    bare = unfenced(bare)
    for opening, closing in _WRAPS * 2:
        inner = bare[len(opening) : len(bare) - len(closing)]
        whole = len(bare) > len(opening) + len(closing) and bare.startswith(opening) and bare.endswith(closing)
        if whole and opening not in inner and closing not in inner:
            bare = inner.strip()
    return bare


def plain(reply: str) -> str:
    """Return the text of a reply without what is around it.

    That is all that `bare` takes off, what cannot be printed, a first line that only announces the text, a last
    paragraph that takes leave, the label "Answer:", and JSON around one string.

    Raises:
        ValueError: the reply is JSON of another form than one string.
    """
    text = bare(UNPRINTED.sub("", reply))
    first, _, rest = text.partition("\n")
    if rest.strip() and is_announcement(first):
        text = bare(rest)
    before, gap, last = text.rpartition("\n\n")
    if gap and CLOSING.match(last.lstrip(" \n*_(")):
        text = bare(before)
    label = _ANSWER_LABEL.match(text)
    return only_text(bare(text[label.end() :]) if label else text)


def refuses(text: str) -> bool:
    """Return whether a reply gives no answer: its model refuses, or says that there is nothing to read."""
    return _REFUSAL.match(text) is not None


def is_announcement(line: str) -> bool:
    """Return whether a line only announces what follows it: "Here is the summary:"."""
    line = line.strip(" *_#")
    return line.endswith((":", "：")) and (TALK.match(line) or TALKING_LEAD.match(line)) is not None


def last_value(text: str, read: Callable[[Any], T | None]) -> T | None:
    """Return the meaning of the last JSON value that fits: a model writes its drafts first.

    A value is alone, in a fence, or in talk; JSON lines count as one list. Where a value itself does not fit, the
    only one that does among the members of an object, or the only item of a list, is taken instead. Of a value that
    the text cuts, what is whole counts.

    Args:
        text: without thoughts.
        read: from a value to what it says; None where it does not fit.
    """
    found = last_placed(text, read)
    return None if found is None else found[0]


def last_placed(text: str, read: Callable[[Any], T | None]) -> tuple[T, str] | None:
    """Return the meaning of the last JSON value that fits, as `last_value` does, and the text before that value."""
    for _ in range(_WRITTEN_AGAIN + 1):
        for start, value in _last_first(text):
            if (found := _fitting(value, read)) is not None:
                return found, text[:start]
        if _JSON_STRING.fullmatch(text) is None:
            break
        text = json_string(text.strip()[1:-1])
    return None


def _last_first(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the values of a text with their places, the last first; before them, each run of their kind as a list."""

    def goes_on(one: JsonValue, other: JsonValue) -> bool:
        return type(one.data) is type(other.data) and not text[one.end : other.start].strip(" \t\r\n,")

    for run in reversed(list(runs_of(json_values(text), goes_on))):
        if len(run) > 1:
            yield run[0].start, [value.data for value in run]
        yield from ((value.start, value.data) for value in reversed(run))


def _fitting(value: Any, read: Callable[[Any], T | None], wrapped: int = _WRAPPED) -> T | None:
    if (found := read(value)) is not None or not wrapped:
        return found
    inner = list(value.values()) if isinstance(value, dict) else value if len(value) == 1 else []
    fitting = [each for each in inner if isinstance(each, (dict, list))]
    taken = [found for each in fitting if (found := _fitting(each, read, wrapped - 1)) is not None]
    return taken[0] if len(taken) == 1 else None


def only_text(text: str) -> str:
    """Return the one string that JSON around a text says; a text that is no JSON as it is.

    Raises:
        ValueError: the text is JSON of another form.
    """
    if not text.startswith(("{", "[", '"')):
        return text
    for value in json_values(f"[{text}]" if text[0] == '"' else text):
        if (value.start, value.end) != (0, len(text) + 2 * (text[0] == '"')) or value.cut:
            break
        data = value.data
        if isinstance(data, dict) and len(data) == 1:
            (data,) = data.values()
        if isinstance(data, list) and data and all(isinstance(each, str) for each in data):
            data = " ".join(data)
        if not isinstance(data, str):
            raise ValueError("the reply is data of another form than a text")  # noqa: TRY004 - of the model's making
        return data
    return text


_LONGEST_TERM = 6  # words; in a row of terms without quotes, a longer one is part of a sentence
_OPENS = re.compile(r"[\[{](?=\s*+[\"'\[{\]}])")  # of JSON; not of "[1]" in a term
_UNQUOTED = re.compile(r"\[\s*+[^\"'\[{\]][^\[\]]*+\]\Z")
_CONSTANTS = frozenset(("true", "false", "null", "none", "nan", "infinity", "-infinity"))
_ITEM = re.compile(r"^[ \t]*+(?:[-*+•–▪◦]|\(?\d{1,3}[.):])[ \t]++(?P<said>\S.*)$", re.MULTILINE)
_LABEL = re.compile(
    r"(?i)\A\W{0,4}(?:(?:the |a )?(?:list of )?(?:key ?(?:words|terms|phrases)|terms|tags|concepts|questions)"
    r"(?: (?:list|of|for|are|in)\b[^:：\n]{0,60})?|schlüsselwörter|schlagwörter|mots[- ]clés|palabras clave"
    r"|parole chiave|ключевые слова|关键词|關鍵詞|キーワード)\W{0,3}[:：]\W{0,3}"
)
_SEPARATORS = (";", "；", "、", "，", ",", " | ", "•", " · ")
_NAMING = (
    "keyword", "key_term", "term", "name", "entity", "concept", "phrase", "text", "value", "question", "q", "query"
)  # fmt: skip
_GIVEN_UP = re.compile(  # a list that is none of the answer, where there is another beside it
    r"(?i)(?:\A|[\s_-])(?:draft|initial|previous|candidate|reject|exclud|omit|discard|ignor|reason|thought|thinking|note"
    r"|remark|comment|explanation|warning)"
)
_AROUND = "*_`\"'“”„‘’«»‹›「」『』 \t"


def read_items(text: str, *, loose: bool = True) -> list[str]:
    """Return the items of the list in a text, in order, without marks and quotes around them.

    Read are the last list or object of JSON (in talk, in a fence, however untidy), else lines with bullets or
    numbers, bare short lines, and short terms between semicolons or commas. In an object, the values are the items
    where they are lists or where the keys only say what they are; otherwise keys and values are.

    Args:
        text: without thoughts.
        loose: whether lines and terms that nothing marks as items count, and the keys of an object.

    Raises:
        ValueError: there is no list in it, with the reason.
    """
    text = bare(text)
    found = last_value(text, partial(_listed, keys=loose))
    if found is None:
        opens = re.match(r"\[", text) or _OPENS.search(text)
        found = _unquoted(text) if opens else []
        if not found and opens and not _ITEM.search(text[: opens.start()]):
            raise ValueError("the list is no valid JSON")
        found = found or [match["said"] for match in _ITEM.finditer(text)]
        if not found and loose:
            found = _lines(text) or _row(text)
    items = [item for item in map(_bare_item, found) if any(map(str.isalnum, item))]
    if not items:
        raise ValueError("the reply is no list, or an empty one")
    return items


def _listed(value: Any, keys: bool) -> list[str] | None:
    """Return the strings in a value that holds one; None for another."""
    found = list(_strings(value, keys))
    return [str(each) for each in found] if any(isinstance(each, str) for each in found) else None


def _unquoted(text: str) -> list[str]:
    """Return the terms of [shaft seal, HX-200], as a prompt may print a list."""
    found = _UNQUOTED.search(text)
    terms = _row(found[0][1:-1]) if found else []
    return terms if any(term.casefold() not in _CONSTANTS and not term.isdigit() for term in terms) else []


def _strings(value: Any, keys: bool, *, item: bool = False) -> Iterator[str | float]:
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each, keys, item=len(value) > 1)
    elif isinstance(value, dict):
        yield from _of_object(value, keys, item=item)


def _of_object(value: dict[str, Any], keys: bool, *, item: bool) -> Iterator[str | float]:
    """Yield the items of an object: {"keywords": […]}, {"concepts": […], …}, {"keyword": …}, {name: description}."""
    named = [value[key] for key in value if key.casefold() in _NAMING]
    listing = {} if item and named else {key: each for key, each in value.items() if _holds_list(each)}
    meant = [each for key, each in listing.items() if not _GIVEN_UP.search(key)] or list(listing.values())
    if meant or named:  # all beside a list is a remark about it; one item of a list names itself
        for each in meant or named:
            yield from _strings(each, keys)
        return
    lists = any(isinstance(each, (list, dict)) for each in value.values())
    for key, each in value.items():
        if isinstance(each, str) and len(value) == 1 and _LABEL.match(f"{key}:"):
            yield from _row(each)
        elif isinstance(each, (list, dict)):
            yield from _strings(each, keys)
        elif not lists:
            if keys:
                yield key
            yield from _strings(each, keys)


def _holds_list(value: Any, *, listed: bool = False) -> bool:
    """Return whether a list in a value holds a string."""
    if isinstance(value, list):
        return any(_holds_list(each, listed=True) for each in value)
    if isinstance(value, dict):
        return any(_holds_list(each, listed=listed) for each in value.values())
    return listed and isinstance(value, str)


def _lines(text: str) -> list[str]:
    """Return all lines where each is short and no sentence, or each a question."""
    lines = [line.strip() for line in _LABEL.sub("", text).splitlines() if line.strip()]
    if lines and lines[0].endswith((":", "：")):
        del lines[0]
    questions = all(line.endswith(("?", "？", "؟")) for line in lines)
    return lines if len(lines) > 1 and (questions or all(map(_is_term, lines))) else []


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
    bare = " ".join(UNPRINTED.sub("", item).split()).strip(_AROUND)
    return bare.rstrip(",;").strip(_AROUND)
