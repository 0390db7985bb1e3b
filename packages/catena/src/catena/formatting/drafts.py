"""One window's Markdown: asked of a model, checked against the words it was given, asked once again if it failed."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from catena import prompts
from catena.effects.budget import approximate_tokens
from catena.effects.ports import Completion
from catena.effects.steps import Complete, Failed, Step, Validate
from catena.formatting.alignment import Piece, piece_of
from catena.formatting.fidelity_check import Fault, Fidelity, FidelityOptions, fidelity
from catena.formatting.numbered_headings import heading_lines
from catena.formatting.windows import Window
from catena.model.errors import ServiceError
from catena.text.replies import CLOSING, TALK, UNPRINTED, is_announcement, unfenced

PURPOSE, PURPOSE_AGAIN = "Markdown format", "Markdown format, again"
NO_ANSWER = "no-answer"  # the kind of fault of a window for which no answer came

_NONE = "(nothing: this is the beginning of the document)"
_OWN_TAG = re.compile(r"<(?=/?(?:window|previous_input|previous_output|first_answer)\b)")
_REFUSED = "the model refused to convert the window"
_ENDINGS = {"'length'": "truncation", "'refusal'": "refusal", "'content_filter'": "refusal", _REFUSED: "refusal"}
_ECHOED = re.compile(r"\A\s*+</?(?:window|markdown|output|answer|result|response|document)>")
_ECHOED_LAST = re.compile(r"</?(?:window|markdown|output|answer|result|response|document)>\Z")
_REMARK = re.compile(
    r"(?i)[\s*_(\[<!-]*+(?:to be )?(?:continued|end of (?:the )?(?:window|page|markdown|document|output))\b"
)
_LONGEST_REMARK = 300  # characters
_LAYERS = 4  # of tag, fence and talk around an answer
_NAMED = 40  # missing or invented words that a second request names
_SPARE_TOKENS = 512  # for the marks of Markdown


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What came of one window.

    Attributes:
        piece: the answer, aligned with the source; None where the model gave none.
        fidelity: of that answer; None with it.
        again: whether a second answer was asked for.
        faults: what was wrong with each answer.
    """

    window: Window
    piece: Piece | None = None
    fidelity: Fidelity | None = None
    again: bool = False
    faults: tuple[Fault, ...] = ()

    @property
    def faithful(self) -> bool:
        """Whether there is an answer and nothing is wrong with it."""
        return self.fidelity is not None and self.fidelity.faithful


def draft(window: Window, keys: Sequence[str], before: tuple[str, str], options: FidelityOptions) -> Step[Draft]:
    """Ask for the Markdown of a window, and once again where the answer is not faithful.

    Args:
        window: what to convert.
        keys: what the atoms of the whole source are compared by.
        before: the input of the window before and what was made of it, D_I(t-1) and D_M(t-1); "" at the beginning.
        options: what counts as faithful.
    """
    prompt = prompts.load("markdown_format")
    asked = prompt.filled(
        previous_input=_quoted(before[0]) or _NONE,
        previous_output=_quoted(before[1]) or _NONE,
        window=_quoted(window.text),
    )
    checker = _Checker(window, keys, f"{prompt.system}\n{prompt.template}", before[1], options)
    first = yield from _answer(_request(prompt, asked, window, PURPOSE, checker.refuse), checker)
    if first.faithful or first.piece is None or first.fidelity is None:
        return first
    prompt = prompts.load("markdown_reask")
    asked = prompt.filled(
        window=_quoted(window.text), answer=_quoted(first.piece.text), faults=complaint(first.fidelity)
    )
    second = yield from _answer(_request(prompt, asked, window, PURPOSE_AGAIN, checker.refuse), checker)
    best = max((first, second), key=lambda found: (found.faithful, _worst(found)))
    return Draft(
        window=window,
        piece=best.piece,
        fidelity=best.fidelity,
        again=True,
        faults=(*first.faults, *second.faults),
    )


def complaint(found: Fidelity) -> str:
    """Return what is wrong with an answer, as a second request says it to the model."""
    lines = [f"- {fault.kind}: {fault.detail}" for fault in found.faults]
    for what, words in (("missing from it", found.missing), ("in it, but not in the window", found.invented)):
        if words:
            more = f" (and {len(words) - _NAMED} more)" if len(words) > _NAMED else ""
            lines.append(f"- {what}: {', '.join(words[:_NAMED])}{more}")
    return _quoted("\n".join(lines))


def planned_answer(request: Complete) -> Completion:
    """Return the window itself, for a dry run to go on with: as long as a real answer, and faithful."""
    window, closed, _ = request.prompt.partition("<window>\n")[2].partition("\n</window>")
    return Completion(text=window if closed else request.prompt)


def markdown_of(answer: str, source: str) -> str:
    """Return the Markdown in an answer, without what the model put around it and the source does not print.

    That is a tag that it repeats, a code fence, a line that announces the Markdown, a closing remark, white space
    and control characters.
    """
    text = UNPRINTED.sub("", answer).replace("\r\n", "\n").strip()
    printed = _visible(source)
    for _ in range(_LAYERS):
        text = _ECHOED_LAST.sub("", _ECHOED.sub("", text)).strip()
        first, _, rest = text.partition("\n")
        if rest.strip() and _announces(first) and _visible(first) not in printed:
            text = rest.strip()
        rest, _, last = text.rpartition("\n")
        if rest.strip() and _takes_leave(last) and _visible(last) not in printed:
            text = rest.strip()
        text = unfenced(text, "markdown", "md", "text")
    return text


def _announces(line: str) -> bool:
    return len(line) < _LONGEST_REMARK and (is_announcement(line) or TALK.match(line.strip(" *_#")) is not None)


def _takes_leave(line: str) -> bool:
    said = line.strip(" *_([<!-")
    return len(line) < _LONGEST_REMARK and (CLOSING.match(said) or _REMARK.match(line)) is not None


def _visible(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


@dataclass(frozen=True, slots=True)
class _Checker:
    """All that an answer is judged by."""

    window: Window
    keys: Sequence[str]
    rules: str
    previous: str
    options: FidelityOptions

    def refuse(self, answer: str) -> None:
        """Raise ValueError for an answer that must not be kept: there is nothing of the window in it."""
        found = self.judge(markdown_of(answer, self.window.text))
        if any(fault.kind == "refusal" for fault in found.faults):
            raise ValueError(_REFUSED)

    def judge(self, text: str) -> Fidelity:
        return _judged(self.window.text, text, self.options, self.rules, self.previous)

    def draft(self, answer: str) -> Draft:
        piece = piece_of(markdown_of(answer, self.window.text), self.keys, self.window.start, self.window.end)
        piece = _without_repeats(piece, self.keys, self.previous)
        found = self.judge(piece.text)
        return Draft(window=self.window, piece=piece, fidelity=found, faults=found.faults)


@lru_cache(maxsize=8)  # an answer is judged when it comes, and again when it is taken
def _judged(source: str, text: str, options: FidelityOptions, rules: str, previous: str) -> Fidelity:
    return fidelity(source, text, options, prompt=rules, previous=previous)


def _request(prompt: prompts.Prompt, asked: str, window: Window, purpose: str, validate: Validate) -> Complete:
    return Complete(
        prompt=asked,
        purpose=purpose,
        system=prompt.system,
        max_tokens=2 * approximate_tokens(window.text) + _SPARE_TOKENS,
        prompt_version=prompt.version,
        validate=validate,
    )


def _answer(request: Complete, checker: _Checker) -> Step[Draft]:
    (reply,) = yield [request]
    if isinstance(reply, Failed):
        if not isinstance(reply.error, ServiceError):
            raise reply.error
        why = str(reply.error)
        kind = next((kind for ending, kind in _ENDINGS.items() if ending in why), NO_ANSWER)
        return Draft(window=checker.window, faults=(Fault(kind=kind, detail=why),))
    return checker.draft(reply.text)


def _worst(found: Draft) -> float:
    score = found.fidelity
    return -1.0 if score is None else min(score.recall, score.precision, score.order)


def _without_repeats(piece: Piece, keys: Sequence[str], previous: str) -> Piece:
    """Drop headings that the window does not print and that repeat one from before, as over every further table."""
    seen = {heading.key for heading in heading_lines(previous)}
    starts = [start for start, _ in piece.atoms]
    parts: list[str] = []
    at = 0
    for heading in heading_lines(piece.text):
        own = piece.places[bisect_left(starts, heading.start) : bisect_left(starts, heading.end)]
        if heading.key in seen and own and max(own) < 0:
            parts.append(piece.text[at : heading.start].rstrip("\n"))
            at = heading.end
        seen.add(heading.key)
    if not parts:
        return piece
    return piece_of("".join([*parts, piece.text[at:]]).strip(), keys, piece.start, piece.end)


def _quoted(text: str) -> str:
    """Return a text that cannot end the tags it stands in."""
    return _OWN_TAG.sub("< ", text).strip("\n")
