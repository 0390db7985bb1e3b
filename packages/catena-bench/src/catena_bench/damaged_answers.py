"""Damage right answers of a formatting model on purpose, in two hundred ways.

A damage is a pure function of (window, random numbers): it gives the damaged answer, or None where the window has
nothing to be damaged in that way (no table, no list). Equal seeds give equal damages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TypeAlias, TypeVar

T = TypeVar("T")

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z*\"])")
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?![\w.])")
_RULE = re.compile(r"^[\s|:-]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWindow:
    """The text that a model is given, and the answer of a faithful one.

    Attributes:
        source: lines as printed.
        answer: the Markdown that says the same.
        previous: the answer for the window before; empty for the first one.
        foreign: an answer for a window of another document.
        rules: the text of the prompt.
        document: which document it is from, from 0.
    """

    source: str
    answer: str
    previous: str = ""
    foreign: str = ""
    rules: str = ""
    document: int = 0


Change: TypeAlias = Callable[[AnswerWindow, Random], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDamage:
    """One kind of damage: its name says what, its family groups kinds that are alike."""

    name: str
    family: str
    change: Change

    def applied(self, window: AnswerWindow, seed: int) -> AnswerWindow | None:
        """Return the window with a damaged answer, or None where it cannot be made or would be the same."""
        answer = self.change(window, Random(f"{self.name}/{seed}"))
        if answer is None or answer.split() == window.answer.split():
            return None
        return replace(window, answer=answer)


# --- parts of an answer ------------------------------------------------------------------------------------------


def blocks_of(answer: str) -> list[str]:
    """Return the blocks of an answer, parted by empty lines outside code fences."""
    blocks: list[str] = []
    fenced = False
    for part in answer.strip().split("\n\n"):
        if fenced:
            blocks[-1] += "\n\n" + part
        else:
            blocks.append(part)
        fenced ^= part.count("```") % 2 == 1
    return [block for block in blocks if block.strip()]


def text_of(blocks: Sequence[str]) -> str:
    """Return blocks as one answer."""
    return "\n\n".join(blocks) + "\n"


def kind_of(block: str) -> str:
    """Return "heading", "table", "list", "caption", "code" or "paragraph"."""
    if block.startswith("#"):
        return "heading"
    if block.startswith("|"):
        return "table"
    if block.startswith("```"):
        return "code"
    if re.match(r"([-*]|\d+\.) ", block):
        return "list"
    return "caption" if re.match(r"(Table|Figure) \d", block) else "paragraph"


def _indexes(blocks: Sequence[str], kind: str, least_words: int = 1) -> list[int]:
    return [i for i, block in enumerate(blocks) if kind_of(block) == kind and len(block.split()) >= least_words]


def _edited(
    window: AnswerWindow, kind: str, share: float, edit: Callable[[str], str | None], least: int = 1
) -> str | None:
    """Return the answer with one block of a kind edited; an empty edit drops the block."""
    blocks = blocks_of(window.answer)
    places = [i for i in _indexes(blocks, kind, least) if edit(blocks[i]) is not None]
    if not places:
        return None
    place = places[min(len(places) - 1, int(share * len(places)))]
    changed = edit(blocks[place])
    return text_of([*blocks[:place], *([changed] if changed else []), *blocks[place + 1 :]])


# --- omissions ---------------------------------------------------------------------------------------------------


def _drop(window: AnswerWindow, _: Random, *, kind: str, share: float) -> str | None:
    return _edited(window, kind, share, lambda block: "", least=3 if kind == "paragraph" else 1)


def _drop_sentence(window: AnswerWindow, _: Random, *, share: float, which: int) -> str | None:
    def edit(block: str) -> str | None:
        sentences = _SENTENCE.split(block)
        place = which if which >= 0 else len(sentences) + which
        return " ".join([*sentences[:place], *sentences[place + 1 :]]) if 0 <= place < len(sentences) > 1 else None

    return _edited(window, "paragraph", share, edit)


def _drop_words(window: AnswerWindow, draw: Random, *, n: int, kind: str = "paragraph") -> str | None:
    def edit(block: str) -> str | None:
        words = block.split(" ")
        if len(words) < n + 4:
            return None
        place = Random(block).randrange(1, len(words) - n - 1)
        return " ".join([*words[:place], *words[place + n :]])

    return _edited(window, kind, draw.random(), edit)


def _drop_line(window: AnswerWindow, draw: Random, *, kind: str, which: float) -> str | None:
    """Drop an item of a list or a row of a table; `which` is its place among the items or data rows, 0 to 1."""

    def edit(block: str) -> str | None:
        lines = block.splitlines()
        skip = 2 if kind == "table" else 0
        if len(lines) - skip < 2:
            return None
        place = skip + min(len(lines) - skip - 1, int(which * (len(lines) - skip)))
        return "\n".join([*lines[:place], *lines[place + 1 :]])

    return _edited(window, kind, draw.random(), edit)


def _half_paragraph(window: AnswerWindow, draw: Random, *, first: bool) -> str | None:
    def edit(block: str) -> str | None:
        words = block.split()
        half = len(words) // 2
        return " ".join(words[:half] if first else words[half:]) if half > 5 else None

    return _edited(window, "paragraph", draw.random(), edit)


def _every(window: AnswerWindow, _: Random, *, keep: Callable[[int, str], bool]) -> str | None:
    blocks = blocks_of(window.answer)
    kept = [block for i, block in enumerate(blocks) if keep(i, block)]
    return text_of(kept) if len(kept) < len(blocks) else None


# --- tables ------------------------------------------------------------------------------------------------------

Rows: TypeAlias = list[list[str]]


def _table(window: AnswerWindow, draw: Random, *, edit: Callable[[Rows, Random], Rows]) -> str | None:
    """Edit the cells of one table: the header is row 0, the rule is left out."""

    def on_block(block: str) -> str | None:
        lines = [line for line in block.splitlines() if not _RULE.match(line)]
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
        if len(rows) < 3 or len(set(map(len, rows))) > 1:
            return None
        try:
            changed = edit([list(row) for row in rows], Random(block))
        except IndexError:  # it has no such column
            return None
        if not changed or changed == rows:
            return None
        shown = ["| " + " | ".join(row) + " |" for row in changed]
        return "\n".join([shown[0], "|" + " --- |" * len(changed[0]), *shown[1:]])

    return _edited(window, "table", draw.random(), on_block)


def _swapped(parts: Sequence[T], one: int, other: int) -> list[T]:
    """Return the parts with two of them exchanged."""
    found = list(parts)
    found[one], found[other] = found[other], found[one]
    return found


def _swap_in_rows(rows: Rows, _: Random, column: int) -> Rows:
    rows[1][column], rows[2][column] = rows[2][column], rows[1][column]
    return rows


def _swap_cells(rows: Rows, _: Random, one: int, other: int) -> Rows:
    return [rows[0], _swapped(rows[1], one, other), *rows[2:]]


def _swap_columns(rows: Rows, _: Random, one: int, other: int, first: int) -> Rows:
    return [*rows[:first], *(_swapped(row, one, other) for row in rows[first:])]


def _drop_column(rows: Rows, _: Random, column: int) -> Rows:
    return [row[:column] + row[column + 1 :] for row in rows] if len(rows[0]) > 1 else rows


def _rotate_column(rows: Rows, _: Random, column: int) -> Rows:
    values = [row[column] for row in rows[1:]]
    for row, value in zip(rows[1:], [*values[1:], values[0]], strict=True):
        row[column] = value
    return rows


def _set_cell(rows: Rows, draw: Random, value: str | None) -> Rows:
    row, column = draw.randrange(1, len(rows)), draw.randrange(len(rows[0]))
    other = draw.randrange(1, len(rows))
    rows[row][column] = rows[other][column] if value is None else value
    return rows


def _new_column(rows: Rows, draw: Random) -> Rows:
    return [[*row, "Remark" if i == 0 else f"{draw.randrange(1, 90)}"] for i, row in enumerate(rows)]


# --- order -------------------------------------------------------------------------------------------------------


def _swap_blocks(window: AnswerWindow, draw: Random, *, kind: str, apart: int) -> str | None:
    blocks = blocks_of(window.answer)
    places = _indexes(blocks, kind, 3)
    if len(places) <= apart:
        return None
    start = draw.randrange(len(places) - apart)
    return text_of(_swapped(blocks, places[start], places[start + apart]))


def _move_block(window: AnswerWindow, draw: Random, *, kind: str, to: float) -> str | None:
    blocks = blocks_of(window.answer)
    places = _indexes(blocks, kind)
    if not places:
        return None
    place = draw.choice(places)
    target = int(to * (len(blocks) - 1))
    if abs(place - target) < 2:
        return None
    blocks.insert(target, blocks.pop(place))
    return text_of(blocks)


def _reorder_lines(window: AnswerWindow, draw: Random, *, how: Callable[[list[str]], list[str]]) -> str | None:
    def edit(block: str) -> str | None:
        lines = block.splitlines()
        marks = [line.split(" ", 1)[0] for line in lines]
        bodies = how([line.split(" ", 1)[1] for line in lines])
        changed = "\n".join(f"{mark} {body}" for mark, body in zip(marks, bodies, strict=True))
        return changed if changed != block else None

    return _edited(window, "list", draw.random(), edit)


def _reorder_sentences(window: AnswerWindow, draw: Random, *, how: Callable[[list[str]], list[str]]) -> str | None:
    def edit(block: str) -> str | None:
        changed = " ".join(how(_SENTENCE.split(block)))
        return changed if changed != block else None

    return _edited(window, "paragraph", draw.random(), edit)


# --- repetition, cuts, whole answers -----------------------------------------------------------------------------


def _loop(window: AnswerWindow, draw: Random, *, what: str, times: int, share: float) -> str | None:
    blocks = blocks_of(window.answer)
    place = min(len(blocks) - 1, int(share * len(blocks)))
    if what == "block":
        looped = [blocks[place]] * times
    elif what == "line":
        line = blocks[place].splitlines()[-1]
        looped = ["\n".join([line] * times)]
    elif what == "sentence":
        looped = [" ".join([_SENTENCE.split(blocks[place])[-1]] * times)]
    elif what == "word":
        looped = [" ".join([re.sub(r"\W+", "", blocks[place].split()[-1]) or "the"] * times)]
    elif what == "pair":
        looped = blocks[place : place + 2] * times
    else:
        looped = blocks * times
    return text_of([*blocks[: place + 1], *looped, *blocks[place + 1 :]])


def _cut(window: AnswerWindow, _: Random, *, start: float, end: float, note: str = "") -> str | None:
    length = len(window.answer)
    return note.join((window.answer[: int(start * length)], window.answer[int(end * length) :]))


def _beside(window: AnswerWindow, _: Random, *, text: str, share: float) -> str:
    blocks = blocks_of(window.answer)
    place = round(share * len(blocks))
    return text_of([*blocks[:place], text, *blocks[place:]])


def _rules(window: AnswerWindow, draw: Random, *, share: float, part: str) -> str | None:
    lines = [line for line in window.rules.splitlines() if len(line.split()) > 6]
    if not lines:
        return None
    text = {"all": window.rules, "one": draw.choice(lines), "three": "\n".join(lines[:3])}[part]
    return _beside(window, draw, text=text, share=share)


def _source_echo(window: AnswerWindow, _: Random, *, first: bool) -> str:
    return text_of([window.source, window.answer] if first else [window.answer, window.source])


def _foreign(window: AnswerWindow, draw: Random, *, what: str, share: float) -> str | None:
    """Put a part of another document's answer into this one."""
    kind = {"sentence": "paragraph", "paragraph": "paragraph", "table": "table", "list": "list"}[what]
    own = set(re.findall(r"[^.]+", window.answer))
    parts = [block for block in blocks_of(window.foreign) if kind_of(block) == kind]
    if what == "sentence":
        parts = [sentence for block in parts for sentence in _SENTENCE.split(block) if len(sentence.split()) > 5]
    parts = [part for part in parts if part not in window.answer and part.rstrip(".") not in own]
    return _beside(window, draw, text=draw.choice(parts), share=share) if parts else None


def _translated(window: AnswerWindow, _: Random, *, alphabet: str) -> str:
    """Return the answer with every letter replaced, numbers and layout kept: as far off as a translation."""
    return window.answer.lower().translate(str.maketrans("abcdefghijklmnopqrstuvwxyz", alphabet))


def _summary(window: AnswerWindow, _: Random, *, keep: int) -> str:
    """Keep the first words of every paragraph and the first lines of everything else."""
    short = [
        block if kind_of(block) == "heading" else
        " ".join(block.split()[:keep]) + "." if kind_of(block) == "paragraph" else
        "\n".join(block.splitlines()[: max(1, keep // 5)])
        for block in blocks_of(window.answer)
    ]  # fmt: skip
    return text_of(short)


def _outline(window: AnswerWindow, _: Random) -> str | None:
    headings = [block for block in blocks_of(window.answer) if kind_of(block) == "heading"]
    return text_of([f"- {heading.lstrip('# ')}" for heading in headings]) if headings else None


# --- structure ---------------------------------------------------------------------------------------------------


def _levels(window: AnswerWindow, draw: Random, *, change: Callable[[int], int], one: bool) -> str | None:
    """Change the levels of all numbered headings from the second on, or of one of them."""
    blocks = blocks_of(window.answer)
    places = [i for i in _indexes(blocks, "heading") if re.match(r"#+ \d", blocks[i])]
    chosen = [draw.choice(places[1:])] if one and len(places) > 2 else places[len(places) // 2 :] if not one else []
    for place in chosen:
        marks, text = blocks[place].split(" ", 1)
        blocks[place] = "#" * max(1, min(6, change(len(marks)))) + " " + text
    return text_of(blocks) if chosen else None


def _fenced(window: AnswerWindow, _: Random, *, opening: str, closing: str) -> str:
    return f"{opening}\n{window.answer.strip()}\n{closing}\n"


# --- words and values --------------------------------------------------------------------------------------------


def _replace_word(window: AnswerWindow, draw: Random, *, one: str, other: str) -> str | None:
    matches = list(re.finditer(rf"(?<![\w-]){re.escape(one)}(?![\w-])", window.answer))
    if not matches:
        return None
    match = draw.choice(matches)
    return window.answer[: match.start()] + other + window.answer[match.end() :]


def _numbers(window: AnswerWindow, kind: str) -> Iterator[tuple[int, int]]:
    """Give the ranges of the numbers in blocks of a kind, the marks of items and headings left out."""
    at = 0
    for block in blocks_of(window.answer):
        start = window.answer.index(block, at)
        at = start + len(block)
        if kind_of(block) == kind:
            marks = re.finditer(r"^(?:[-*#]+ )?\d+\. ", block, re.MULTILINE)
            skip = {i for match in marks for i in range(*match.span())} if kind != "heading" else set()
            yield from (
                (start + match.start(), start + match.end())
                for match in _NUMBER.finditer(block)
                if match.start() not in skip
            )


def _change_number(window: AnswerWindow, draw: Random, *, kind: str, how: Callable[[str, Random], str]) -> str | None:
    places = list(_numbers(window, kind))
    if not places:
        return None
    start, end = draw.choice(places)
    return window.answer[:start] + how(window.answer[start:end], draw) + window.answer[end:]


def _other_digit(number: str, place: int) -> str:
    digits = [i for i, char in enumerate(number) if char.isdigit()]
    at = digits[place]
    return number[:at] + str((int(number[at]) + 3) % 10) + number[at + 1 :]


def _digits(number: str) -> int:
    return int(re.sub(r"\D", "", number))


def _swapped_digits(number: str, _: Random) -> str:
    unlike = len(number) > 1 and number[:2].isdigit() and number[0] != number[1]
    return number[1] + number[0] + number[2:] if unlike else number + "1"


NUMBER_CHANGES: dict[str, Callable[[str, Random], str]] = {
    "first-digit": lambda number, _: _other_digit(number, 0),
    "last-digit": lambda number, _: _other_digit(number, -1),
    "swapped-digits": _swapped_digits,
    "zero-added": lambda number, _: number + "0",
    "digit-lost": lambda number, _: number[:-1] if len(number) > 1 else number + "1",
    "plus-one": lambda number, _: str(_digits(number) + 1),
    "minus-sign": lambda number, _: "-" + number,
    "decimal": lambda number, _: number + ".5",
    "decimal-point-moved": lambda number, _: f"{number[:-1] or '0'}.{number[-1]}",
    "comparison": lambda number, _: "≥ " + number,
    "tolerance": lambda number, _: number + " ± 2",
    "percent": lambda number, _: number + " %",
    "range": lambda number, draw: f"{number}–{_digits(number) + draw.randrange(1, 9)}",
    "spelled-out": lambda number, _: "several",
    "lost": lambda number, _: "",
}

UNITS = (
    ("mm", "cm"), ("mm", "m"), ("mm", "inches"), ("mm", "µm"), ("N", "kN"), ("N", "kg"), ("N·m", "N·mm"),
    ("N·m", "kN·m"), ("h", "min"), ("h", "d"), ("hours", "minutes"), ("hours", "days"), ("minutes", "seconds"),
    ("minute", "hour"), ("mm", ""), ("h", ""), ("N·m", ""), ("N", "n"),
)  # fmt: skip

WORDS = (
    ("not", ""), ("Never", ""), ("not", "now"), ("Never", "Always"), ("Neither", "Both"), ("nor", "and"),
    ("should", "should not"), ("must", "must not"), ("can", "cannot"), ("Before", "After"), ("After", "Before"),
    ("before", "after"), ("after", "before"), ("above", "below"), ("once", "twice"), ("cold", "warm"),
    ("firmly", "loosely"), ("Once", "Twice"), ("two", "three"), ("half", "full"), ("free", "full"),
    ("since", "although"), ("until", "while"), ("all", "some"), ("more", "less"), ("persons", "machines"),
    ("is", "is not"), ("are", "are never"), ("must", "may"), ("and", "or"), ("hot", "cool"), ("off", "on"),
    ("first", "last"), ("inlet", "outlet"), ("outlet", "inlet"), ("needed", "forbidden"), ("week", "month"),
    ("days", "nights"), ("differs", "agrees"), ("older", "newer"),
)  # fmt: skip


def _rounded(window: AnswerWindow, _: Random) -> str:
    return _NUMBER.sub(lambda match: f"{round(_digits(match[0]), -1)}", window.answer)


def _merge_words(window: AnswerWindow, draw: Random, *, n: int) -> str | None:
    def edit(block: str) -> str | None:
        words = block.split(" ")
        return "".join(words[:n]) + " " + " ".join(words[n:]) if len(words) > n + 2 else None

    return _edited(window, "paragraph", draw.random(), edit, least=n + 3)


def _noise(window: AnswerWindow, draw: Random, *, one: str, other: str) -> str | None:
    """Misread a letter for another one in every second of the words that have it."""
    words = window.answer.split(" ")
    hit = [i for i, word in enumerate(words) if one in word and len(word) < 5 and word.isalnum()]
    for place in hit[::2]:
        words[place] = words[place].replace(one, other)
    return " ".join(words) if hit else None


# --- the kinds ---------------------------------------------------------------------------------------------------

REFUSALS = {
    "english": "I'm sorry, but I can't help with converting this document.",
    "english-policy": "I cannot reproduce this text because it may be protected by copyright.",
    "english-blank": "The provided window does not contain any content that can be converted.",
    "english-ask": "Could you please provide the text that you would like me to convert to Markdown?",
    "german": "Es tut mir leid, aber bei dieser Anfrage kann ich leider nicht helfen.",
    "french": "Je suis désolé, mais je ne peux pas reproduire ce document.",
    "spanish": "Lo siento, pero no puedo ayudar con la conversión de este documento.",
    "italian": "Mi dispiace, ma non posso elaborare questa richiesta.",
    "portuguese": "Desculpe, mas não posso ajudar com esse pedido.",
    "dutch": "Het spijt me, maar ik kan dit document niet omzetten.",
    "polish": "Przykro mi, ale nie mogę pomóc w tej sprawie.",
    "russian": "К сожалению, я не могу выполнить этот запрос.",
    "chinese": "很抱歉，我无法处理该文档的内容。",
    "japanese": "申し訳ありませんが、この文書を変換することはできません。",
    "json-error": '{"error": {"code": 500, "message": "Internal server error"}}',
    "omitted": "[content omitted]",
    "none": "N/A",
    "empty": " ",
}
CHATTER = {
    "here": "Here is the converted Markdown for the window you gave me:",
    "hope": "I hope this helps! Let me know if you need anything else.",
    "note": "Note: some tables were simplified in order to fit the requested format.",
    "german": "Hier ist der Text, wie gewünscht in Markdown umgewandelt:",
    "continued": "(The rest of the document continues in the same way.)",
}
INVENTIONS = {
    "number": "The maximum operating temperature is 85 °C.",
    "safety": "Wear protective gloves at all times during this work.",
    "cross": "For further details, see the service handbook of the manufacturer.",
    "warranty": "Opening the housing voids the warranty.",
    "address": "Contact support@example.com for spare parts.",
    "conclusion": "In summary, regular maintenance keeps the machine safe and reliable.",
    "bullet": "- Check the battery every six months.",
    "heading": "## 99.7 Additional recommendations of the author\n\nRead this part twice.",
    "short": "See below.",
}  # fmt: skip


def damages() -> tuple[AnswerDamage, ...]:
    """Return all kinds of damage, in a fixed order, names unique."""
    kinds: list[AnswerDamage] = []

    def add(family: str, name: str, change: Callable[..., str | None], /, **settings: object) -> None:
        kinds.append(AnswerDamage(name=f"{family}/{name}", family=family, change=partial(change, **settings)))

    _add_omissions(add)
    _add_tables(add)
    _add_orders(add)
    _add_values(add)
    _add_additions(add)
    _add_wholes(add)
    return tuple(kinds)


Add: TypeAlias = Callable[..., None]
PLACES = {"first": 0.0, "middle": 0.5, "last": 0.99}


def _add_omissions(add: Add) -> None:
    for kind in ("paragraph", "heading", "list", "table", "caption"):
        for name, share in PLACES.items():
            add("omission", f"{kind}-{name}", _drop, kind=kind, share=share)
    for share in (0.1, 0.5, 0.9):
        for which, name in ((0, "first"), (1, "second"), (-1, "last")):
            add("omission", f"sentence-{name}-at-{share:g}", _drop_sentence, share=share, which=which)
    for n in (1, 2, 3, 5, 8):
        add("omission", f"words-{n}", _drop_words, n=n)
    add("omission", "words-of-item", _drop_words, n=3, kind="list")
    for kind in ("list", "table"):
        for name, share in PLACES.items():
            add("omission", f"{kind}-line-{name}", _drop_line, kind=kind, which=share)
    add("omission", "half-paragraph-first", _half_paragraph, first=False)
    add("omission", "half-paragraph-second", _half_paragraph, first=True)
    add("omission", "all-tables", _every, keep=lambda i, block: kind_of(block) != "table")
    add("omission", "all-captions", _every, keep=lambda i, block: kind_of(block) != "caption")
    add("omission", "all-headings", _every, keep=lambda i, block: kind_of(block) != "heading")
    add("omission", "every-tenth-block", _every, keep=lambda i, block: i % 10 != 5)


def _add_tables(add: Add) -> None:
    edits: dict[str, Callable[..., Rows]] = {
        "rows-1-2": lambda rows, _: _swapped(rows, 1, 2),
        "rows-first-last": lambda rows, _: _swapped(rows, 1, -1),
        "rows-last-two": lambda rows, _: _swapped(rows, -2, -1),
        "header-with-row": lambda rows, _: _swapped(rows, 0, 1),
        "rows-reversed": lambda rows, _: [rows[0], *rows[:0:-1]],
        "transposed": lambda rows, _: [list(column) for column in zip(*rows, strict=True)],
        "cells-merged": lambda rows, _: [[row[0], "".join(row[1:]).replace(" ", "")] for row in rows],
        "row-invented": lambda rows, _: [*rows, [f"{cell} 2" for cell in rows[1]]],
        "column-invented": _new_column,
        "row-doubled": lambda rows, _: [*rows, rows[-1]],
        "row-loop": lambda rows, _: [*rows, *[rows[-1]] * 30],
        "cell-emptied": partial(_set_cell, value=""),
        "cell-dash": partial(_set_cell, value="n/a"),
        "cell-copied": partial(_set_cell, value=None),
        "cell-invented": partial(_set_cell, value="42"),
        "header-lost": lambda rows, _: [[""] * len(rows[0]), *rows[1:]],
    }
    for column in (0, 1, 2):
        edits[f"column-{column}-dropped"] = partial(_drop_column, column=column)
        edits[f"column-{column}-rotated"] = partial(_rotate_column, column=column)
        edits[f"column-{column}-value-in-other-row"] = partial(_swap_in_rows, column=column)
    for one, other in ((0, 1), (1, 2), (0, 2)):
        edits[f"cells-{one}-{other}"] = partial(_swap_cells, one=one, other=other)
        edits[f"columns-{one}-{other}"] = partial(_swap_columns, one=one, other=other, first=0)
        edits[f"columns-{one}-{other}-under-one-header"] = partial(_swap_columns, one=one, other=other, first=1)
    for name, edit in edits.items():
        add("table", name, _table, edit=edit)


def _add_orders(add: Add) -> None:
    for kind in ("paragraph", "heading", "table", "caption"):
        for apart in (1, 3):
            add("order", f"{kind}s-{apart}-apart", _swap_blocks, kind=kind, apart=apart)
    for kind in ("paragraph", "heading", "list"):
        for target in (0.0, 1.0):
            add("order", f"{kind}-to-{target:g}", _move_block, kind=kind, to=target)
    orders: dict[str, Callable[[list[str]], list[str]]] = {
        "two": lambda parts: [*parts[1::-1], *parts[2:]],
        "last-first": lambda parts: [parts[-1], *parts[:-1]],
        "reversed": lambda parts: parts[::-1],
    }
    for name, how in orders.items():
        add("order", f"items-{name}", _reorder_lines, how=how)
        add("order", f"sentences-{name}", _reorder_sentences, how=how)


def _add_values(add: Add) -> None:
    for kind in ("paragraph", "table", "heading"):
        for name, how in NUMBER_CHANGES.items():
            if kind != "heading" or name in ("first-digit", "last-digit", "plus-one", "lost", "zero-added"):
                add("value", f"{kind}-{name}", _change_number, kind=kind, how=how)
    for one, other in UNITS:
        add("unit", f"{one}-to-{other or 'nothing'}", _replace_word, one=one, other=other)
    for one, other in WORDS:
        add("word", f"{one}-to-{other or 'nothing'}".replace(" ", "-"), _replace_word, one=one, other=other)
    add("value", "all-rounded", _rounded)
    for n in (2, 4, 12):
        add("word", f"merged-{n}", _merge_words, n=n)
    for one, other in (("l", "1"), ("o", "0"), ("e", "c"), ("n", "r")):
        add("word", f"misread-{one}-{other}", _noise, one=one, other=other)


def _add_additions(add: Add) -> None:
    for name, text in INVENTIONS.items():
        for share in (0.0, 0.5, 1.0):
            add("invention", f"{name}-at-{share:g}", _beside, text=text, share=share)
    for what in ("sentence", "paragraph", "table", "list"):
        for share in (0.3, 1.0):
            add("invention", f"foreign-{what}-at-{share:g}", _foreign, what=what, share=share)
    for what, times in (("block", 1), ("block", 20), ("line", 8), ("sentence", 1), ("sentence", 40), ("word", 60)):
        for share in (0.5, 0.99):
            add("repetition", f"{what}-{times}-at-{share:g}", _loop, what=what, times=times, share=share)
    add("repetition", "pair-10", _loop, what="pair", times=10, share=0.8)
    add("repetition", "all-twice", _loop, what="all", times=1, share=0.99)
    for name, text in CHATTER.items():
        add("echo", f"{name}-first", _beside, text=text, share=0.0)
        add("echo", f"{name}-last", _beside, text=text, share=1.0)
    for part in ("all", "one", "three"):
        for share in (0.0, 1.0):
            add("echo", f"rules-{part}-at-{share:g}", _rules, part=part, share=share)
    add("echo", "source-first", _source_echo, first=True)
    add("echo", "source-last", _source_echo, first=False)


def _add_wholes(add: Add) -> None:
    for name, text in REFUSALS.items():
        add("refusal", name, lambda window, _, text: text, text=text)
    for name in ("english", "german", "chinese"):
        add("refusal", f"{name}-at-the-end", _beside, text=REFUSALS[name], share=1.0)
    for percent in (3, 10, 25, 40, 50, 60, 75, 85, 90, 95, 97, 98, 99):
        add("cut", f"after-{percent}-percent", _cut, start=percent / 100, end=1.0)
    for name, start, end in (("front-10", 0.0, 0.1), ("front-50", 0.0, 0.5), ("middle-10", 0.45, 0.55)):
        add("cut", name, _cut, start=start, end=end)
    for name, note in (
        ("dots", "\n\n...\n\n"),
        ("same", "\n\n[The rest is unchanged]\n\n"),
        ("todo", "\n\n<!-- more -->\n\n"),
    ):
        add("cut", f"middle-{name}", _cut, start=0.3, end=0.7, note=note)
    for keep in (5, 12, 20):
        add("whole", f"summary-{keep}", _summary, keep=keep)
    add("whole", "outline", _outline)
    add("whole", "translated", _translated, alphabet="qwertzuiopasdfghjklyxcvbnm")
    add("whole", "transliterated", _translated, alphabet="абцдефгхийклмнопярстувшхыз")
    for name, opening in (("markdown", "```markdown"), ("plain", "```"), ("tilde", "~~~")):
        add("structure", f"fence-{name}", _fenced, opening=opening, closing=opening[:3])
    add("structure", "fence-open", _fenced, opening="```markdown", closing="")
    for name, change in (("deeper", lambda level: level + 1), ("two-deeper", lambda level: level + 2)):
        add("structure", f"levels-{name}", _levels, change=change, one=False)
        add("structure", f"level-{name}", _levels, change=change, one=True)
