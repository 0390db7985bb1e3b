"""Divide a document into titled sections with a language model that sees numbered lines, window by window."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Annotated, Literal, NamedTuple, TypeAlias

from annotated_types import Ge, Le

from catena import prompts
from catena.effects import Complete, Completion, Request, StandIn, Step, all_together, answer_of
from catena.model import Degraded, Document, InvalidReplyError, ParameterError, ServiceError
from catena.model.options import Doc, check_options
from catena.structure.blocks import Block, blocks_of, split_lines
from catena.structure.division import units
from catena.structure.segment_repair import LineSection, Repair, Repaired, read_sections, repair
from catena.structure.segment_tree import (
    Segmentation,
    SpanToDivide,
    TitledSpan,
    Under,
    assemble_sections,
    offline_title,
    regions_of,
    same_title,
    whole_or_outline,
)
from catena.text.words import sentence_ends

_WORD_START = re.compile(r"(?<=\s)\S")
_ABRIDGED = " … "


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedLines:
    """Lines of a text: slices with their line ends that tile it.

    Attributes:
        starts: offset of each line's first character, and last the length of the text.
        base: number of the first line as shown; all other indexes here are 0-based.
    """

    text: str = field(repr=False)
    starts: tuple[int, ...]
    base: int = 0

    def __len__(self) -> int:
        return len(self.starts) - 1

    def line(self, index: int) -> str:
        """Return one line, its line end included."""
        return self.text[self.starts[index] : self.starts[index + 1]]

    def size(self, first: int, last: int) -> int:
        """Return the characters of the lines first to last, both included."""
        return self.starts[last + 1] - self.starts[first]

    def at(self, offset: int) -> int:
        """Return the line that holds the character at `offset`."""
        return bisect_right(self.starts, offset, hi=len(self)) - 1

    def shown(self, first: int, last: int, *, longest: int | None = None) -> str:
        r"""Return the lines first to last, both included, each as "[number] text".

        The text is the exact slice; only where it does not end with "\n" is one put after it. Of a line longer
        than `longest` characters (a table, say) its beginning and end are shown.
        """
        return "".join(
            f"[{index + self.base}] {_abridged(line, longest)}" + ("" if line.endswith("\n") else "\n")
            for index in range(first, last + 1)
            for line in (self.line(index),)
        )


def number_lines(
    document: Document,
    *,
    wrap: int = 200,
    base: int = 0,
    blocks: Sequence[Block] | None = None,
    borders: Iterable[int] = (),
) -> NumberedLines:
    r"""Return the numbered lines of a document; joined again, they are its text, byte for byte.

    Lines end at \n, \r\n and \r; blank ones count. A line of more than `wrap` characters is cut, at the last
    sentence end in the second half of that room, else at the last white space, else (no space, as in Chinese)
    between characters. A table is one line with all its rows, and so is a figure with its caption.

    Args:
        document: its text.
        wrap: most characters of a piece, its line end not counted, >= 1.
        base: number of the first line.
        blocks: what `blocks_of` gave for this document; else it is asked.
        borders: offsets at which a line must begin.

    Raises:
        ParameterError: `wrap` is below 1.
    """
    if wrap < 1:
        raise ParameterError("wrap", wrap, "a number of characters >= 1")
    text = document.text
    lines, starts = split_lines(text)
    cuts: set[int] = {*starts, 0, len(text)}
    for line, start in zip(lines, starts, strict=False):
        if len(line) > wrap:
            cuts.update(_wrapped(text, start, start + len(line), wrap))
    ordered = sorted(cuts)
    inside: set[int] = set()
    for begin, end in _whole(text, blocks_of(document) if blocks is None else blocks):
        inside.update(ordered[bisect_right(ordered, begin) : bisect_left(ordered, end)])
    forced = {border for border in borders if 0 <= border <= len(text)}
    return NumberedLines(text=text, starts=tuple(sorted((cuts - inside) | forced)), base=base)


def _wrapped(text: str, start: int, end: int, wrap: int) -> Iterator[int]:
    """Yield where the line [start, end) is cut."""
    sentences = list(sentence_ends(text, start, end))
    at = start
    while end - at > wrap:
        limit = at + wrap
        found = bisect_right(sentences, limit) - 1
        if found >= 0 and sentences[found] > at + wrap // 2:
            at = sentences[found]
        else:
            words = [match.start() for match in _WORD_START.finditer(text, at + 1, limit + 1)]
            at = words[-1] if words else limit
        yield at


def _whole(text: str, blocks: Sequence[Block]) -> Iterator[tuple[int, int]]:
    """Yield the spans that stay whole: tables, and figures with their captions."""
    for unit in units(text, 0, len(text), blocks):
        if unit.kind in {"table", "figure"}:
            yield unit.core, unit.core + len(text[unit.core : unit.end].rstrip())


def _abridged(line: str, longest: int | None) -> str:
    if longest is None or len(line) <= longest:
        return line
    tail = longest // 4
    return line[: longest - tail] + _ABRIDGED + line[len(line) - tail :]


Mode: TypeAlias = Literal["iterative", "parallel"]
OnError: TypeAlias = Literal["raise", "degrade"]
PURPOSE = "segmentation"  # of every request
_SHOWN = 4_000  # most characters of one line
_OPEN = '\nThe section before these lines is called "{title}" and may go on here; if it does, give it that title.\n'
_PROBLEM = "\nAn earlier answer could not be used: {problem}\n"
_LAST_NUMBERS = re.compile(r"Divide lines (\d+) to (\d+)\.\s*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentOptions:
    """Windows shown to the model, and use of its answers.

    Attributes:
        mode: "iterative" shows one window after the other, each from the start of the section that the one before
            left open; "parallel" shows all at once, and joins what a border cut through (see `joined`).
        window: characters of the document shown at once.
        overlap: how much of the next window is shown too, in mode "parallel": a share of the window, at most 0.5.
        wrap: characters above which a line is cut into several numbered ones; at most half a window.
        base: number of the document's first line.
        attempts: answers asked for until one is of use; each further request says what was wrong.
        min_section: least characters of a section on average; an answer with more sections is joined to fewer. 0
            takes as many as it has.
        longest_title: characters.
        under: "document" divides the whole text into sections of level 1; "headings" keeps the printed headings and
            divides the text of those without headings below them, where it is longer than `longest_leaf`.
        longest_leaf: characters.
        fallback: characters of a section, about, where no answer was of use.
        max_tokens: of one answer.
        on_error: whether lines without an answer of use are divided at headings and paragraphs, and reported, or end
            the work.
    """

    mode: Mode = "iterative"
    window: Annotated[int, Ge(2)] = 20_000
    overlap: Annotated[float, Ge(0), Le(0.5)] = 0.1
    wrap: Annotated[int, Ge(1)] = 200
    base: Annotated[int, Ge(0)] = 0
    attempts: Annotated[int, Ge(1)] = 2
    min_section: Annotated[int, Ge(0)] = 200
    longest_title: Annotated[int, Ge(1)] = 120
    under: Annotated[Under, Doc("Divide the whole text, or only what is long below its headings")] = "document"
    longest_leaf: Annotated[int, Ge(0)] = 6_000
    fallback: Annotated[int, Ge(1)] = 4_000
    max_tokens: Annotated[int, Ge(1)] = 4_096
    on_error: OnError = "degrade"

    def __post_init__(self) -> None:
        check_options(self)
        if self.wrap > self.window // 2:
            raise ParameterError("wrap", self.wrap, f"1 to {self.window // 2}, half a window")

    @property
    def longest_line(self) -> int:
        """Return how many characters of one line (a large table) a model is shown."""
        return min(_SHOWN, self.window // 2)


DEFAULT_OPTIONS = SegmentOptions()


def segment_with_llm(
    document: Document, options: SegmentOptions = DEFAULT_OPTIONS, *, blocks: Sequence[Block] | None = None
) -> Step[Segmentation]:
    """Divide a document into titled sections with a language model.

    The model sees numbered lines and answers with titles and line numbers. Its answers are verified and put right by
    `segment_repair.repair`, so that the sections tile the text for any answer; every repair is reported.
    Iterative mode makes at most `4 * ceil(characters / window) + 1` requests, each as often as `attempts` says;
    parallel mode `2 * ceil(characters / window) + 1`, in one batch.

    Args:
        document: Markdown or plain text.
        options: sizes, mode, what to do where the model fails.
        blocks: what `blocks_of` gave for this document; else it is asked.

    Returns:
        Sections that tile the text. None for an empty text; one without a title, and no request, for a blank one.

    Raises:
        ServiceError: an answer was of no use, and `on_error` is "raise".
        MissingServiceError: no service answers `Complete`.

    Source: TextRAG, part 1 (structured segmentation over numbered lines, iterative for long documents).
    """
    blocks = blocks_of(document) if blocks is None else blocks
    printed = whole_or_outline(document, blocks, options.under)
    regions = regions_of(document, printed, options.longest_leaf)
    job = _Job.of(document, blocks, regions, options)
    segment = _iterative if options.mode == "iterative" else _parallel
    parts = yield from all_together([segment(job, job.run_of(region)) for region in regions])
    divided = [(region, job.spans(part.sections)) for region, part in zip(regions, parts, strict=True)]
    sections, generated = assemble_sections(document, blocks, printed, divided)
    return Segmentation(
        sections=sections,
        generated=generated,
        repairs=tuple(each for part in parts for each in part.repairs),
        degraded=tuple(each for part in parts for each in part.degraded),
    )


def _ask_about(job: _Job, run: LineSpan, open_title: str = "") -> Step[DividedLines]:
    """Return the sections of one window: the model's, or, where it fails, those of headings and paragraphs."""
    base, problem = job.lines.base, ""
    lost: ServiceError | None = None
    for _ in range(job.options.attempts):
        (reply,) = yield [job.request(run, open_title, problem)]
        found = answer_of(reply, partial(job.read, run=run))
        if isinstance(found, Repaired):
            sections = (each._replace(first=each.first - base, last=each.last - base) for each in found.sections)
            return DividedLines(run, tuple(sections), found.repairs)
        lost, problem = found, found.what
        if not isinstance(found, InvalidReplyError):
            break
    if lost is not None and job.options.on_error == "raise":
        raise lost
    what = f"segmentation of lines {run.first + base} to {run.last + base}"
    return DividedLines(run, job.by_paragraphs(run), degraded=(Degraded(what, str(lost)),))


def _iterative(job: _Job, run: LineSpan) -> Step[DividedLines]:
    """Divide a run window by window: the next one begins where the section that is still open begins.

    Where that would show more than half of the window again, or nothing new, the next window begins behind this one
    and is told the title of the open section; a first section of that title continues it.
    """
    parts: list[DividedLines] = []
    closed: list[LineSection] = []
    unfinished: LineSection | None = None
    first = run.first
    while first <= run.last:
        window = job.window(first, run.last, job.options.window)
        part = yield from _ask_about(job, window, unfinished.title if unfinished else "")
        parts.append(part)
        head, *rest = part.sections
        if unfinished is not None and same_title(unfinished.title, head.title):
            head = unfinished._replace(last=head.last)
        elif unfinished is not None:
            closed.append(unfinished)
        *done, unfinished = [head, *rest]
        closed += done
        first = window.last + 1
        again = unfinished.first
        far = done and 2 * job.size(window.first, again - 1) >= job.size(*window)
        if far and first <= run.last and job.window(again, run.last, job.options.window).last > window.last:
            first, unfinished = again, None
    if unfinished is not None:
        closed.append(unfinished)
    return _gathered(run, closed, parts)


def _parallel(job: _Job, run: LineSpan) -> Step[DividedLines]:
    """Divide a run in windows side by side, each of which also sees the beginning of the next."""
    cores: list[LineSpan] = []
    first = run.first
    while first <= run.last:
        cores.append(job.window(first, run.last, job.options.window))
        first = cores[-1].last + 1
    extra = int(job.options.overlap * job.options.window)
    views = [LineSpan(core.first, job.window(core.first, run.last, job.size(*core) + extra).last) for core in cores]
    parts = yield from all_together([_ask_about(job, view) for view in views])
    return _gathered(run, joined(parts, job.size), parts)


def _gathered(run: LineSpan, sections: Sequence[LineSection], parts: Sequence[DividedLines]) -> DividedLines:
    return DividedLines(
        run,
        tuple(sections),
        tuple(each for part in parts for each in part.repairs),
        tuple(each for part in parts for each in part.degraded),
    )


class LineSpan(NamedTuple):
    """Lines first to last, both included, 0-based."""

    first: int
    last: int


class DividedLines(NamedTuple):
    """Sections that tile some lines, the repairs made for it, and the failures."""

    run: LineSpan
    sections: tuple[LineSection, ...]
    repairs: tuple[Repair, ...] = ()
    degraded: tuple[Degraded, ...] = ()


def joined(parts: Sequence[DividedLines], size: Callable[[int, int], int]) -> list[LineSection]:
    """Return the sections of overlapping windows as one list that tiles all their lines.

    A window that sees the lines on both sides of a border says what the border cuts through: the window before it,
    which sees the beginning of the next one too. The next window knows nothing of what is before it. So:

    - If the window before has sections that begin in the overlap, the first of those beginnings counts, and the
      next window's sections begin there.
    - If it has none, its last section goes on beyond all that it saw: it is one with the next window's first section,
      under the title of the part that has more characters before or after the border; of equal parts, the former's.

    Args:
        parts: in order; each begins inside the one before it or right behind it.
        size: (first line, last line) -> characters.
    """
    result: list[LineSection] = []
    for part in parts:
        border, sections = part.run.first, part.sections
        if not result:
            result.extend(sections)
            continue
        seen = [section.first for section in result if section.first >= border]
        if seen:
            kept = [section for section in result if section.first < border]
            result = [*kept[:-1], kept[-1]._replace(last=seen[0] - 1)]
            after = [section for section in sections if section.last >= seen[0]]
            result += [after[0]._replace(first=seen[0]), *after[1:]]
        elif result[-1].last < border:  # nothing of the next window was seen
            result += sections
        else:
            before, head = result.pop(), sections[0]
            longer = before if size(before.first, border - 1) >= size(border, head.last) else head
            result += [LineSection(longer.title, before.first, head.last), *sections[1:]]
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """Lines, options and requests shared by the windows of one document; lines are 0-based, in prompts as shown."""

    document: Document
    lines: NumberedLines
    options: SegmentOptions
    starts: tuple[int, ...]  # characters shown before each line, and last of all
    headings: dict[int, Block] = field(repr=False)
    paragraphs: frozenset[int] = field(repr=False)  # offsets at which a block begins

    @classmethod
    def of(
        cls, document: Document, blocks: Sequence[Block], regions: Sequence[SpanToDivide], options: SegmentOptions
    ) -> _Job:
        borders = [offset for region in regions for offset in (region.start, region.end)]
        lines = number_lines(document, wrap=options.wrap, base=options.base, blocks=blocks, borders=borders)
        sizes = (min(lines.size(index, index), options.longest_line) for index in range(len(lines)))
        return cls(
            document=document,
            lines=lines,
            options=options,
            starts=tuple(accumulate(sizes, initial=0)),
            headings={block.start: block for block in blocks if block.kind == "heading"},
            paragraphs=frozenset(block.start for block in blocks),
        )

    def run_of(self, region: SpanToDivide) -> LineSpan:
        return LineSpan(self.lines.at(region.start), self.lines.at(region.end - 1))

    def window(self, first: int, stop: int, characters: int) -> LineSpan:
        """Return the longest run from `first`, not beyond `stop`, of at most so many characters, or of one line."""
        last = bisect_right(self.starts, self.starts[first] + characters) - 2
        return LineSpan(first, min(stop, max(first, last)))

    def size(self, first: int, last: int) -> int:
        return self.starts[last + 1] - self.starts[first]

    def title(self, first: int, last: int) -> str:
        start, end = self.lines.starts[first], self.lines.starts[last + 1]
        return offline_title(self.document.text, start, end, self.headings, self.options.longest_title)

    def spans(self, sections: Sequence[LineSection]) -> list[TitledSpan]:
        starts = self.lines.starts
        return [TitledSpan(title, starts[first], starts[last + 1]) for title, first, last, _ in sections]

    def request(self, run: LineSpan, open_title: str, problem: str) -> Complete:
        prompt, base = prompts.load("segment_lines"), self.lines.base
        shown = self.lines.shown(run.first, run.last, longest=self.options.longest_line)
        return Complete.of(
            prompt,
            PURPOSE,
            max_tokens=self.options.max_tokens,
            validate=partial(self.read, run=run),
            first=str(run.first + base),
            last=str(run.last + base),
            lines=prompts.shut_in(shown, "lines"),
            open=_OPEN.format(title=open_title) if open_title else "",
            problem=_PROBLEM.format(problem=problem) if problem else "",
        )

    def read(self, reply: str, run: LineSpan) -> Repaired:
        """Return the sections in a reply; raise ValueError where none of them is of use."""
        base, options = self.lines.base, self.options
        most = -(-self.size(*run) // options.min_section) if options.min_section else None
        repaired = repair(
            read_sections(reply),
            run.first + base,
            run.last + base,
            most_sections=most,
            longest_title=options.longest_title,
            untitled=lambda first, last: self.title(first - base, last - base),
        )
        if any(each.kind == "empty" for each in repaired.repairs):
            raise ValueError(f"none of its sections lies in lines {run.first + base} to {run.last + base}")
        return repaired

    def by_paragraphs(self, run: LineSpan) -> tuple[LineSection, ...]:
        """Divide a run without a model: at its headings, and where that leaves too much, between paragraphs.

        A paragraph, or another block, begins a section once the section before it has the characters of `fallback`,
        and any line does once it has twice as many.
        """
        starts, held, about = [run.first], 0, self.options.fallback
        for line in range(run.first, run.last + 1):
            at = self.lines.starts[line]
            due = held >= 2 * about or (at in self.paragraphs and held >= about)
            if line > run.first and (due or at in self.headings):
                starts.append(line)
                held = 0
            held += self.size(line, line)
        ends = [*(start - 1 for start in starts[1:]), run.last]
        return tuple(LineSection(self.title(*span), *span) for span in zip(starts, ends, strict=True))


def planned_answer(request: Complete) -> Completion:
    """Return an answer for dry runs: two sections, the second of a fifth of the lines, as open ones are about."""
    found = _LAST_NUMBERS.search(request.prompt)
    if found is None:
        return Completion(text="[]")
    first, last = int(found[1]), int(found[2])
    starts = sorted({first, last - (last - first) // 5})
    return Completion(text=json.dumps([{"title": "A section of the document", "start": start} for start in starts]))


PLANNED_ANSWERS: Mapping[type[Request], StandIn] = {Complete: planned_answer}
"""For `plan(segment_with_llm(...), stand_ins=PLANNED_ANSWERS)`."""
