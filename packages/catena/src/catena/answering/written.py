"""Take a model's reply apart: the answer, its statements, the quotes below it, and the passages that it cites."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from catena.answering.quotes import Quote
from catena.model.errors import ParameterError
from catena.text import last_value, unfenced, whole_number, without_thoughts

_OPEN = '"“„«‹‟「『'
_CLOSE = '"”“»›」』'
_NUMBERS = r"\d++(?:\s*+(?:[,;–-]|and|und|et|&)\s*+\d++)*+"
_LABEL = r"(?:[\^#]|(?:passages?|sources?|quotes?|quelle|doc(?:ument)?)[\s:#]*+)?"
_TAG = re.compile(r"</?(?:answer|response|quotes?|citations?)>", re.IGNORECASE)
_PREFIX = re.compile(r"\A[#*\s]*+answer[*\s]*+:[*\s]*+", re.IGNORECASE)
_MARKER = re.compile(
    rf"[\[【［]\s*+{_LABEL}(?P<numbers>{_NUMBERS})\s*+(?:†[^\[\]【】［］]*+)?[\]】］]", re.IGNORECASE
)
_AND = re.compile(r"(?:(?<!\s)\s++)?(?:;|and|und|et|&)\s*+")
_INLINE = re.compile(
    rf"\[(?P<number>\d++)\s*+(?:[:,]\s*+)?[{_OPEN}](?P<text>[^\[\]]{{2,1000}}?)[{_CLOSE}]\s*\]"
    rf"|\[(?P<before>\d++)\]\s*+\(\s*+[{_OPEN}](?P<between>[^()\[\]]{{2,1000}}?)[{_CLOSE}]\s*\)"
)
_HEADER = re.compile(
    r"^[\s#*_>-]{0,9}(?:(?:verbatim|supporting|exact|direct)\s+)?"
    r"(?:quotes?|quotations?|citations?|evidence|references|sources|footnotes|zitate?|belege|citas|citations)"
    r"[\s*_]{0,9}(?P<colon>:?)[\s*_]{0,9}(?P<rest>.*)$",
    re.IGNORECASE,
)
_BULLET = r"\s*+(?:[-*•+>]\s++|\d{1,3}[.)]\s++(?=[\[(\"“„«]))?[*_]*"
_QUOTE = re.compile(
    rf"^{_BULLET}(?:[\[(]\s*+(?P<marked>{_NUMBERS})\s*+[\])]|{_LABEL}(?P<bare>\d++(?=\s*+[:.)=–—-]\s|\s++[{_OPEN}])))[*_]*+"
    r"\s*+(?:[:.)=–—-]++\s*+)?(?P<text>\S.*)$",
    re.IGNORECASE,
)
_UNNUMBERED = re.compile(rf"^{_BULLET}(?P<text>[{_OPEN}].*[{_CLOSE}][.,;]?)\s*$")
_SEVERAL = re.compile(rf"(?<=[^\s,;])[ \t,;]++(?=\[\s*+\d++\s*+\]\s*+(?:[:–-]\s*+)?[{_OPEN}])")
_IN_MARKS = re.compile(rf"^[*_]*[{_OPEN}](?P<text>.*)[{_CLOSE}][*_]*(?P<after>[^{_CLOSE}]{{0,80}})$", re.DOTALL)

# a page, or the next quote
_NOTHING_MORE = re.compile(r"[\s.,;*_]*+(?:\([^()]*+\)[\s.,;*_]*+)?|\s*+(?:[,;]\s*+)?\[.*")


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply as its answer, with markers in the one form [1] or [1, 3], and its quotes, in order.

    A quote without a number has 0.
    """

    text: str
    quotes: tuple[Quote, ...]


def read_reply(reply: str) -> ParsedReply:
    """Take a reply apart: the answer above, and the quotes below it or in its markers.

    Read are lines like `[2] "..."`, with bullets, other brackets and quotation marks, under a heading or none; JSON
    with an answer and a list of quotes; markers like [passage 2], [^2], 【2】. All the rest is the answer's text.
    """
    # a driver takes thoughts off; `check_answer` is also given what no driver has seen
    text = unfenced(_TAG.sub("", without_thoughts(reply)))
    given = last_value(text, partial(_from_json, alone=text.startswith("{")))
    if given is not None:
        return given
    above, below = _parted(_MARKER.sub(_plain_marker, text).splitlines())
    body, inside = _inline_quotes(_PREFIX.sub("", "\n".join(above)))
    return ParsedReply(body.strip(), (*inside, *_quotes(below)))


def _plain_marker(marker: re.Match[str]) -> str:
    return f"[{_AND.sub(', ', marker['numbers'])}]"


def _from_json(given: Any, *, alone: bool) -> ParsedReply | None:
    answer = _first(given, ("answer", "text", "response"))
    listed = _first(given, ("quotes", "citations", "evidence"))
    if not isinstance(answer, str) or not (alone or isinstance(listed, list)):
        return None
    quotes = []
    for each in listed if isinstance(listed, list) else ():
        said = _first(each, ("quote", "text", "verbatim")) if isinstance(each, dict) else each
        number = re.search(r"\d+", str(_first(each, ("number", "passage", "source", "id", "n"))))
        if isinstance(said, str):
            quotes.append(Quote(whole_number(number[0]) if number else 0, said))
    return ParsedReply(_MARKER.sub(_plain_marker, answer).strip(), tuple(quotes))


def _first(given: object, names: tuple[str, ...]) -> object:
    return next((given[name] for name in names if name in given), None) if isinstance(given, dict) else None


def _parted(lines: list[str]) -> tuple[list[str], list[str]]:
    """Return the lines of the answer and those of the quotes: below the last heading, or the lines in their form."""
    for index in range(len(lines) - 1, -1, -1):
        header = _HEADER.match(lines[index])
        if header and (not header["rest"] or (header["colon"] and _is_quote(header["rest"]))):
            return lines[:index], [header["rest"], *lines[index + 1 :]]
    return [line for line in lines if not _is_quote(line)], [line for line in lines if _is_quote(line)]


def _is_quote(line: str) -> bool:
    found = _QUOTE.match(line)
    inside = _IN_MARKS.match(found["text"]) if found is not None and found["marked"] else None
    return inside is not None and _NOTHING_MORE.fullmatch(inside["after"]) is not None


def _inline_quotes(text: str) -> tuple[str, list[Quote]]:
    found: list[Quote] = []

    def kept(match: re.Match[str]) -> str:
        number = match["number"] or match["before"]
        found.append(Quote(whole_number(number), (match["text"] or match["between"]).strip()))
        return f"[{number}]"

    return _INLINE.sub(kept, text), found


def _quotes(lines: list[str]) -> Iterator[Quote]:
    """Yield the quotes of the lines below the answer; a quote may go on in the next line."""
    numbers: tuple[int, ...] = ()
    said: list[str] = []
    ends = ""  # of what is said
    for line in _SEVERAL.sub("\n", "\n".join(lines)).splitlines():
        start = _QUOTE.match(line) or _UNNUMBERED.match(line)
        if start is not None:
            yield from _ended(numbers, said)
            fields = start.groupdict()
            numbers = tuple(map(whole_number, re.findall(r"\d+", fields.get("marked") or fields.get("bare") or "0")))
            said = [fields["text"]]
            ends = _ends(fields["text"])
        elif said and line.strip() and not _IN_MARKS.match(ends):
            said.append(line)
            ends = _ends(f"{ends}\n{line}")
        else:
            yield from _ended(numbers, said)
            said = []
    yield from _ended(numbers, said)


_END = 200  # characters


def _ends(text: str) -> str:
    """Return the beginning and the end of a text, which say whether it is in quotation marks."""
    return text[:_END] + text[_END:][-_END:]


def _ended(numbers: tuple[int, ...], said: list[str]) -> Iterator[Quote]:
    text = "\n".join(said).strip()
    inside = _IN_MARKS.match(text)
    bare = inside["text"] if inside else text.strip("*_").lstrip(_OPEN)
    if bare.strip():
        yield from (Quote(number, bare.strip()) for number in numbers)


_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*•+]\s|\d{1,3}[.)]\s|#{1,6}\s|\|))")
_HEADING = re.compile(r"\A\s*#{1,6}\s[^\n]*")
_TABLE_RULE = re.compile(r"(?=[^-]*+-)[\s|:+-]++")
_CITED = r"(?:\s*+\[\s*+\d++(?:\s*+[,;–-]\s*+\d++)*+\s*+\])"
_SENTENCE_END = re.compile(
    rf"(?<![.!?…])(?P<stop>[.!?…]++)[\"”»’')*_]*+(?P<cited>{_CITED}*)(?=\s+(?P<next>\S)|\s*\Z)|[。！？][”」』]*{_CITED}*"
)
_ABBREVIATED = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|z\.\s?b|d\.\s?h|approx|ca|cf|vs|bzw|ggf|incl|resp|max|min|dr|mr|mrs|prof|st|[a-z])$"
    r"|^\s*+(?:[-*•+]\s*+)?\d{1,3}$",
    re.IGNORECASE,
)
_BEFORE_STOP = 80  # characters before a stop that say whether it ends a sentence
_BEFORE_NUMBER = re.compile(r"(?:^|[\s(])(?:nos?|nr|figs?|abb|tab|secs?|chap|ch|pp?|vol|eqs?|art)$", re.IGNORECASE)


def statements_in(text: str) -> tuple[str, ...]:
    """Return the sentences, items and rows of an answer that state something, each with the citations behind it.

    Headings, rules and heads of tables, and lines that only lead in what follows ("The steps are:") state nothing.
    """
    blocks = _BLOCK.split(text)
    stating = [
        block
        for block, after in zip(blocks, [*blocks[1:], ""], strict=True)
        if not _TABLE_RULE.fullmatch(block) and not (block.lstrip().startswith("|") and _TABLE_RULE.fullmatch(after))
    ]
    found = (sentence for block in stating for sentence in _sentences(_HEADING.sub("", block)))
    return tuple(each for each in found if re.search(r"[^\W_]", _MARKER.sub("", each)) and not each.endswith(":"))


def _sentences(block: str) -> Iterator[str]:
    begin = 0
    for end in _SENTENCE_END.finditer(block):
        if end["stop"] and not end["cited"]:
            before = block[max(begin, end.start() - _BEFORE_STOP) : end.start()]
            following = end["next"] or ""
            if following.islower() or (end["stop"] == "." and _ABBREVIATED.search(before)):
                continue
            if following.isdigit() and _BEFORE_NUMBER.search(before):
                continue
        yield " ".join(block[begin : end.end()].split())
        begin = end.end()
    if block[begin:].strip():
        yield " ".join(block[begin:].split())


_GROUP = re.compile(r"(?P<space>(?:(?<![ \t])[ \t]++)?)\[(?P<inside>\s*+\d++(?:\s*+[,;–-]\s*+\d++)*+\s*+)\]")
_RANGE = re.compile(r"(\d+)\s*[–-]\s*(\d+)|(\d+)")
_LONGEST_RANGE = 100  # passages; [1-99999] is not a citation


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedText:
    """A text in which every number in square brackets is that of a passage.

    Attributes:
        cited: the passages that it cites, from 1, in the order of their first mention.
        unknown: the numbers that were taken out because there is no such passage.
    """

    text: str
    cited: tuple[int, ...]
    unknown: tuple[int, ...]


def check_citations(text: str, passages: int | Collection[int]) -> CheckedText:
    """Return the text without citations of passages that do not exist.

    `[2]`, `[1, 3]`, `[1][3]` and `[1-3]` are read; a bracket with nothing left in it is taken out.

    Args:
        text: an answer as the model wrote it.
        passages: how many passages it was given, if they are numbered from 1; else their numbers.

    Raises:
        ParameterError: `passages` is negative.
    """
    if isinstance(passages, int) and passages < 0:
        raise ParameterError("passages", passages, "an integer >= 0")
    there = range(1, passages + 1) if isinstance(passages, int) else frozenset(passages)
    cited: dict[int, None] = {}
    unknown: dict[int, None] = {}

    def kept(group: re.Match[str]) -> str:
        numbers = dict.fromkeys(_numbers(group["inside"]))
        known = [number for number in numbers if number in there]
        cited.update(dict.fromkeys(known))
        unknown.update(dict.fromkeys(number for number in numbers if number not in known))
        return f"{group['space']}[{', '.join(map(str, known))}]" if known else ""

    return CheckedText(text=_GROUP.sub(kept, text), cited=tuple(cited), unknown=tuple(unknown))


def _numbers(inside: str) -> list[int]:
    found: list[int] = []
    for first, last, single in _RANGE.findall(inside):
        if single:
            found.append(whole_number(single))
            continue
        begin, end = whole_number(first), whole_number(last)
        found.extend(range(begin, end + 1) if 0 <= end - begin <= _LONGEST_RANGE else (begin, end))
    return found
