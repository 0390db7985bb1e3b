"""What the windows of one document share when a model divides it: its lines, the request, how an answer is read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Le

from catena import prompts
from catena.effects import Complete, Failed
from catena.effects.ports import Completion
from catena.model import Document
from catena.model.errors import InvalidReplyError, ParameterError, ServiceError
from catena.model.options import check_options
from catena.structure.blocks import Block
from catena.structure.line_runs import Run, by_paragraphs
from catena.structure.numbered_lines import NumberedLines, number_lines
from catena.structure.segment_answers import read_sections
from catena.structure.segment_repair import LineSection, Repaired, repair
from catena.structure.segment_titles import offline_title
from catena.structure.segment_tree import Region, TitledSpan, Under

Mode: TypeAlias = Literal["iterative", "parallel"]
OnError: TypeAlias = Literal["raise", "degrade"]

PURPOSE = "segmentation"  # of every request

_SHOWN = 4_000  # characters of one line (a large table) that a model is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentOptions:
    """How a model is shown a document, and what is made of its answers.

    Attributes:
        mode: "iterative" shows one window after the other, each from the start of the section that the one before
            left open; "parallel" shows all at once, and joins what a border cut through (see `line_runs.joined`).
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
    under: Under = "document"
    longest_leaf: Annotated[int, Ge(0)] = 6_000
    fallback: Annotated[int, Ge(1)] = 4_000
    max_tokens: Annotated[int, Ge(1)] = 4_096
    on_error: OnError = "degrade"

    def __post_init__(self) -> None:
        check_options(self)
        if self.wrap > self.window // 2:
            raise ParameterError("wrap", self.wrap, f"1 to {self.window // 2}, half a window")


DEFAULT_OPTIONS = SegmentOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the windows of one document share; lines are 0-based here, and by their shown numbers in prompts."""

    document: Document
    lines: NumberedLines
    options: SegmentOptions
    starts: tuple[int, ...]  # characters shown before each line, and last of all
    headings: dict[int, Block] = field(repr=False)
    paragraphs: frozenset[int] = field(repr=False)  # offsets at which a block begins

    @classmethod
    def of(
        cls, document: Document, blocks: Sequence[Block], regions: Sequence[Region], options: SegmentOptions
    ) -> Job:
        borders = [offset for region in regions for offset in (region.start, region.end)]
        lines = number_lines(document, wrap=options.wrap, base=options.base, blocks=blocks, borders=borders)
        longest = min(_SHOWN, options.window // 2)
        sizes = (min(lines.size(index, index), longest) for index in range(len(lines)))
        return cls(
            document=document,
            lines=lines,
            options=options,
            starts=tuple(accumulate(sizes, initial=0)),
            headings={block.start: block for block in blocks if block.kind == "heading"},
            paragraphs=frozenset(block.start for block in blocks),
        )

    def run_of(self, region: Region) -> Run:
        return Run(self.lines.at(region.start), self.lines.at(region.end - 1))

    def window(self, first: int, stop: int, characters: int) -> Run:
        """Return the longest run from `first`, not beyond `stop`, of at most so many characters, or of one line."""
        last = bisect_right(self.starts, self.starts[first] + characters) - 2
        return Run(first, min(stop, max(first, last)))

    def size(self, first: int, last: int) -> int:
        return self.starts[last + 1] - self.starts[first]

    def title(self, first: int, last: int) -> str:
        start, end = self.lines.starts[first], self.lines.starts[last + 1]
        return offline_title(self.document.text, start, end, self.headings, self.options.longest_title)

    def spans(self, sections: Sequence[LineSection]) -> list[TitledSpan]:
        starts = self.lines.starts
        return [TitledSpan(title, starts[first], starts[last + 1]) for title, first, last, _ in sections]

    def request(self, run: Run, open_title: str, problem: str) -> Complete:
        prompt, base = prompts.load("segment_lines"), self.lines.base
        shown = self.lines.shown(run.first, run.last, longest=min(_SHOWN, self.options.window // 2))
        return Complete(
            prompt=prompt.filled(
                first=str(run.first + base),
                last=str(run.last + base),
                lines=shown.replace("</lines", "< /lines"),
                open=_OPEN.format(title=open_title) if open_title else "",
                problem=_PROBLEM.format(problem=problem) if problem else "",
            ),
            purpose=PURPOSE,
            system=prompt.system,
            max_tokens=self.options.max_tokens,
            prompt_version=prompt.version,
            schema=prompt.schema,
            validate=partial(self.read, run=run),
        )

    def read(self, reply: str, run: Run) -> Repaired:
        """Return the sections in a reply; raise ValueError where none of them is of use."""
        base, options = self.lines.base, self.options
        most = max(1, -(-self.size(*run) // options.min_section)) if options.min_section else None
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

    def answered(self, reply: Completion | Failed, run: Run) -> Repaired | ServiceError:
        """Return the sections in a reply, or why there are none; what is no failure of the service is raised."""
        if isinstance(reply, Failed):
            if not isinstance(reply.error, ServiceError):
                raise reply.error
            return reply.error
        try:
            return self.read(reply.text, run)  # again: in a dry run nobody has checked it
        except ValueError as invalid:
            return InvalidReplyError("model", str(invalid))

    def by_paragraphs(self, run: Run) -> tuple[LineSection, ...]:
        return by_paragraphs(
            run,
            sizes=[self.size(line, line) for line in range(run.first, run.last + 1)],
            headings={line for line in range(run.first, run.last + 1) if self.lines.starts[line] in self.headings},
            paragraphs={
                line for line in range(run.first, run.last + 1) if self.lines.starts[line] in self.paragraphs
            },
            about=self.options.fallback,
            title=self.title,
        )


_OPEN = '\nThe section before these lines is called "{title}" and may go on here; if it does, give it that title.\n'
_PROBLEM = "\nAn earlier answer could not be used: {problem}\n"
