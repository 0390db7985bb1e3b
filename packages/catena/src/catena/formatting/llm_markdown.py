"""Write a file as Markdown with a language model, window by window, with no word lost (HiQA's Markdown Formatter)."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated

from annotated_types import Ge

from catena import prompts
from catena.effects import Complete, Completion, Failed, Request, StandIn, Step, approximate_tokens
from catena.formatting.fidelity_alignment import atom_keys, atoms_of
from catena.formatting.fidelity_check import Fault, Fidelity, FidelityOptions, FidelityReport, PageFidelity, fidelity
from catena.formatting.layout_markdown import LayoutOptions, format_layout
from catena.formatting.source import (
    AlignedText,
    NoBorder,
    SourceText,
    SourceWindow,
    Stretch,
    piece_of,
    placed,
    source_of,
    stitch,
    windows_of,
)
from catena.formatting.styled_lines import key, numbering
from catena.model import Document, Parsed, ServiceError
from catena.model.options import Checked, Doc
from catena.text.headings import atx_title
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
class FormatOptions(Checked):
    """Sizes of the windows that a model is shown, and what it is held to.

    Attributes:
        window: W, words for which one call answers. The answer to 800 words and their padding stays under the
            4,096 tokens that small models write at most, and most chapters lie whole in one window.
        padding: K, words shown before and after them. Twice as many overlap with each neighbour; 100 hold the
            longest heading, a row of a wide table or a long sentence, at one fourth more input.
        fidelity: what counts as faithful.
        layout: of the formatter that replaces the model where it fails.
    """

    window: Annotated[int, Ge(1), Doc("Words that one call answers for")] = 800
    padding: Annotated[int, Ge(1), Doc("Words shown before and after them")] = 100
    fidelity: FidelityOptions = field(default_factory=FidelityOptions)
    layout: LayoutOptions = field(default_factory=LayoutOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatted:
    """A document as Markdown, and how faithful each of its pages is.

    Attributes:
        document: with the id, source and labels of the parsed one; its metadata names the pages that are as the
            layout formatter wrote them ("layout_pages").
        fidelity: per page: whose text it has, and how far the model's could be trusted.
    """

    document: Document
    fidelity: FidelityReport

    @classmethod
    def of(cls, document: Document, pages: tuple[PageFidelity, ...] = ()) -> Formatted:
        """Return a document with what is said of its pages; nothing is, where no model wrote it."""
        report = FidelityReport(document_id=document.id, source=document.source, pages=pages)
        return cls(document=document, fidelity=report)


def window_count(parsed: Parsed, options: FormatOptions = FormatOptions()) -> int:
    """Return `T = ceil(N / W)`, the number of windows; each takes one call, or two."""
    return len(_windows(parsed, options)[1])


def format_markdown(parsed: Parsed, options: FormatOptions = FormatOptions()) -> Step[Formatted]:
    """Write a file as Markdown with a language model.

    `D_M(t) = M(D_I(t), D_I(t-1), D_M(t-1))`: a window of `W + 2K` words is converted at a time, with the window
    before and what was made of it as a guide. Each answer is checked against the words of its window; one that is
    not faithful is asked for once again. Windows are joined where both write the same in their overlap. Pages
    that are not faithful in the end are taken from `format_layout`. Windows follow each other; give several
    files to `together`.

    Args:
        parsed: a file as a parser read it; one that is Markdown already is returned as it is.
        options: sizes and thresholds.

    Returns:
        The document, and its fidelity by page. An answer that fails, is refused or cut costs its pages, not
        the document.

    Raises:
        MissingServiceError: no service answers `Complete`.

    Source: HiQA (arXiv:2402.01767), Algorithm 1. Published code passes the last characters of the previous prompt,
        which hold rules and no input; joins by concatenation; keeps the last of equal headings. None of it here.
    """
    printed = format_layout(parsed, options.layout)
    if parsed.layout is None and parsed.document.media_type == "text/markdown":
        return Formatted.of(printed)
    source, windows = _windows(parsed, options)
    keys = atom_keys(source.text, source.atoms)
    fallback = piece_of(printed.text, keys, 0, len(keys))
    drafts: list[WindowDraft] = []
    before = ("", "")
    for window in windows:
        drafts.append((yield from draft(window, keys, before, options.fidelity)))
        piece = drafts[-1].piece if drafts[-1].faithful else None  # else the layout's, so that errors end here
        before = (window.text, flat(piece.text if piece else fallback.excerpt(window.start, window.end)))
    return assemble(source, drafts, (printed, fallback), options.fidelity, reach=2 * options.padding)


def _windows(parsed: Parsed, options: FormatOptions) -> tuple[SourceText, tuple[SourceWindow, ...]]:
    source = source_of(parsed, running_heads=options.layout.running_heads)
    windows = windows_of(source, window=options.window, padding=options.padding)
    return source, tuple(window for window in windows if window.core_start < window.core_end)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowDraft:
    """The answer for one window.

    Attributes:
        piece: the answer, aligned with the source; None where the model gave none.
        fidelity: of that answer; None with it.
        again: whether a second answer was asked for.
        faults: what was wrong with each answer.
    """

    window: SourceWindow
    piece: AlignedText | None = None
    fidelity: Fidelity | None = None
    again: bool = False
    faults: tuple[Fault, ...] = ()

    @property
    def faithful(self) -> bool:
        """Tell if there is an answer and nothing is wrong with it."""
        return self.fidelity is not None and self.fidelity.faithful


def draft(
    window: SourceWindow, keys: Sequence[str], before: tuple[str, str], options: FidelityOptions
) -> Step[WindowDraft]:
    """Ask for the Markdown of a window, and once again where the answer is not faithful.

    Args:
        window: what to convert.
        keys: what the atoms of the whole source are compared by.
        before: the input of the window before and what was made of it, D_I(t-1) and D_M(t-1); "" at the beginning.
        options: what counts as faithful.
    """
    prompt = prompts.load("markdown_format")
    given, made = (_quoted(text) or _NONE for text in before)
    asked = prompt.filled(previous_input=given, previous_output=made, window=_quoted(window.text))
    checker = _Checker(window, keys, f"{prompt.system}\n{prompt.template}", before[1], options)
    first = yield from _answer(prompt, asked, PURPOSE, checker)
    if first.faithful or first.piece is None or first.fidelity is None:
        return first
    prompt = prompts.load("markdown_reask")
    answer, faults = _quoted(first.piece.text), complaint(first.fidelity)
    asked = prompt.filled(window=_quoted(window.text), answer=answer, faults=faults)
    second = yield from _answer(prompt, asked, PURPOSE_AGAIN, checker)
    best = max((first, second), key=lambda found: (found.faithful, found.fidelity.worst if found.fidelity else -1.0))
    both = (*first.faults, *second.faults)
    return WindowDraft(window=window, piece=best.piece, fidelity=best.fidelity, again=True, faults=both)


def complaint(found: Fidelity) -> str:
    """Write the faults of an answer as a second request names them to the model."""
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


PLANNED_ANSWERS: Mapping[type[Request], StandIn] = {Complete: planned_answer}
"""For `plan(format_markdown(...), stand_ins=PLANNED_ANSWERS)`: each window is answered with its own words."""


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

    window: SourceWindow
    keys: Sequence[str]
    rules: str
    previous: str
    options: FidelityOptions

    def refuse(self, answer: str) -> None:
        """Raise ValueError for an answer that must not be kept: there is nothing of the window in it."""
        if any(fault.kind == "refusal" for fault in self.judge(markdown_of(answer, self.window.text)).faults):
            raise ValueError(_REFUSED)

    def judge(self, text: str) -> Fidelity:
        return _judged(self.window.text, text, self.options, self.rules, self.previous)

    def draft(self, answer: str) -> WindowDraft:
        piece = piece_of(markdown_of(answer, self.window.text), self.keys, self.window.start, self.window.end)
        piece = _without_repeats(piece, self.keys, self.previous)
        found = self.judge(piece.text)
        return WindowDraft(window=self.window, piece=piece, fidelity=found, faults=found.faults)


@lru_cache(maxsize=8)  # an answer is judged when it comes, and again when it is taken
def _judged(source: str, text: str, options: FidelityOptions, rules: str, previous: str) -> Fidelity:
    return fidelity(source, text, options, prompt=rules, previous=previous)


def _answer(prompt: prompts.Prompt, asked: str, purpose: str, checker: _Checker) -> Step[WindowDraft]:
    """Ask for one answer and judge it; a service that fails gives a draft without one."""
    request = Complete(
        prompt=asked, purpose=purpose, system=prompt.system,
        max_tokens=2 * approximate_tokens(checker.window.text) + _SPARE_TOKENS, prompt_version=prompt.version,
        validate=checker.refuse,
    )  # fmt: skip
    (reply,) = yield [request]
    if isinstance(reply, Failed):
        if not isinstance(reply.error, ServiceError):
            raise reply.error
        why = str(reply.error)
        kind = next((kind for ending, kind in _ENDINGS.items() if ending in why), NO_ANSWER)
        return WindowDraft(window=checker.window, faults=(Fault(kind=kind, detail=why),))
    return checker.draft(reply.text)


def _without_repeats(piece: AlignedText, keys: Sequence[str], previous: str) -> AlignedText:
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
    """Return a text that cannot end the tags around it."""
    return _OWN_TAG.sub("< ", text).strip("\n")


def assemble(
    source: SourceText,
    drafts: Sequence[WindowDraft],
    printed: tuple[Document, AlignedText],
    options: FidelityOptions,
    *,
    reach: int,
) -> Formatted:
    """Join the drafts; pages that no draft has faithfully are taken from the layout formatter.

    Args:
        source: what the drafts were made of.
        drafts: one per window, in order; their cores tile the source.
        printed: the document as the layout formatter wrote it, and its text aligned with the whole source.
        options: what counts as faithful, of a page as of a window.
        reach: atoms around the wanted border of two windows among which one is looked for.
    """
    document, fallback = printed
    ends = [0, *(end for _, end in source.atoms)]
    gaps = [source.text[end:start] for end, (start, _) in zip(ends, source.atoms, strict=False)]
    lost = {page for found in drafts if found.piece is None for page in _pages(source, found)}
    judged: dict[int, Fidelity] = {}
    while True:
        stretches = _stretches(source, drafts, fallback, lost)
        joined = stitch(stretches, gaps, reach=reach) if stretches else fallback
        if isinstance(joined, NoBorder):
            lost |= {_page_at(source, atom) for place in joined.places for atom in (place - 1, place)}
            continue
        if joined is not fallback:
            text = with_levels(joined.text, fallback.text)
            joined = placed(text, tuple(atoms_of(text)), joined.places, joined.start, joined.end)
        starts = _page_starts(joined, source)
        failed = set()
        for page in range(source.pages):
            if page not in lost:
                end = starts[page + 1] if page + 1 < len(starts) else len(joined.text)
                words = source.slice(source.page_atoms[page], source.page_atoms[page + 1])
                judged[page] = fidelity(words, joined.text[starts[page] : end], options)
                failed |= set() if judged[page].faithful else {page}
        if not failed:
            break
        lost |= failed
    pages = tuple(_page(source, drafts, page, page in lost, judged.get(page)) for page in range(source.pages))
    by_layout = [str(page.page) for page in pages if page.state == "layout"]
    paged = bool(document.page_starts)
    made = replace(
        document, text=joined.text, media_type="text/markdown", page_starts=starts if paged else (),
        page_labels=document.page_labels if paged and len(document.page_labels) == len(starts) else (),
        metadata={**document.metadata, **({"layout_pages": ", ".join(by_layout)} if by_layout else {})},
    )  # fmt: skip
    return Formatted.of(made, pages)


def _page_at(source: SourceText, atom: int) -> int:
    """Return the page, from 0, that an atom is printed on."""
    return max(0, min(bisect_right(source.page_atoms, atom), source.pages) - 1)


def _pages(source: SourceText, found: WindowDraft) -> range:
    """Return the pages, from 0, of what a window answers for."""
    window = found.window
    return range(_page_at(source, window.core_start), _page_at(source, window.core_end - 1) + 1)


def _stretches(
    source: SourceText, drafts: Sequence[WindowDraft], fallback: AlignedText, lost: AbstractSet[int]
) -> list[Stretch]:
    """Return the piece that is taken for each part of the source."""
    stretches: list[Stretch] = []
    for found in drafts:
        for page in _pages(source, found):
            start = max(found.window.core_start, source.page_atoms[page])
            end = min(found.window.core_end, source.page_atoms[page + 1])
            piece = fallback if page in lost or found.piece is None else found.piece
            if stretches and stretches[-1].piece is piece:
                start = stretches.pop().start
            if start < end:
                stretches.append(Stretch(piece=piece, start=start, end=end, firm=piece is fallback))
    return stretches


def _page_starts(piece: AlignedText, source: SourceText) -> tuple[int, ...]:
    """Return where each page begins: at its first word, marks of Markdown before it on its line included."""
    starts: list[int] = []
    for first in source.page_atoms[:-1]:
        atom = piece.cut_at(first)
        if atom < 0:  # words of both pages are mixed, as in a row of a table that goes over the page
            atom = next((index for index, place in enumerate(piece.places) if place >= first), len(piece.atoms))
        offset = piece.atoms[atom][0] if atom < len(piece.atoms) else len(piece.text)
        gap = piece.gap(atom)
        marks = gap.rpartition("\n")[2] if "\n" in gap else ""
        starts.append(max(offset - len(marks), starts[-1]) if starts else 0)
    return tuple(starts)


def _page(
    source: SourceText, drafts: Sequence[WindowDraft], page: int, lost: bool, judged: Fidelity | None
) -> PageFidelity:
    """Return the final state of a page, and the faults of the answers for it."""
    own = [found for found in drafts if page in _pages(source, found)]
    faults = dict.fromkeys(fault for found in own for fault in found.faults)
    faults |= dict.fromkeys(judged.faults if judged else ())
    again = any(found.again for found in own)
    if lost and not faults:
        faults[Fault(kind="order", detail="the answers for it could not be joined")] = None
    return PageFidelity(
        page=page + 1, recall=judged.recall if judged else 0.0, precision=judged.precision if judged else 1.0,
        order=judged.order if judged else 1.0, state="layout" if lost else "re-asked" if again else "llm",
        faults=tuple(faults),
    )  # fmt: skip


_HEADING = re.compile(r"(?P<marks>#{1,6})[ \t](?P<title>.+)\Z")
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})")
_DEEPEST = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadingLine:
    """A heading in Markdown: [start, end) is its line without the line end."""

    start: int
    end: int
    level: int
    title: str

    @property
    def key(self) -> str:
        """Return the letters and digits by which headings are compared."""
        return key(self.title)


def heading_lines(markdown: str) -> Iterator[HeadingLine]:
    """Yield the # headings of a Markdown text; lines inside fences are none."""
    fence, start = "", 0
    for line in markdown.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        mark = _FENCE.match(bare)
        if mark and not fence:
            fence = mark["fence"]
        elif mark and mark["fence"].startswith(fence) and not bare[mark.end() :].strip():
            fence = ""
        elif not fence and (found := _HEADING.match(bare)) and (title := atx_title(found["title"])):
            yield HeadingLine(start=start, end=start + len(bare), level=len(found["marks"]), title=title)
        start += len(line)


def with_levels(markdown: str, printed: str = "") -> str:
    """Give each heading the level that the section tree needs; nothing but the number of its marks changes.

    A number tells: "7.3" is one below "7", and parts ("Part II") are one above chapters. A heading without a
    number, and one whose plain number does not count upwards ("1." in every chapter), has the level at which the
    layout formatter prints it; where that knows nothing, the level that the model's own marks say. Where the file
    prints a title over all, or its chapters lie deeper for another reason, all numbers are that much deeper.

    Args:
        markdown: headings of any level.
        printed: the same file as the layout formatter writes it.
    """
    headings = list(heading_lines(markdown))
    known = _known_levels(printed)
    depths = _depths(headings)
    shift = _shift(headings, depths, known)
    levels = []
    for position, (heading, depth) in enumerate(zip(headings, depths, strict=True)):
        title = position == 0 and heading.level == 1
        own = known.get(heading.key, heading.level if title else heading.level + shift)
        levels.append(own if depth is None else depth + shift)
    return _rewritten(markdown, headings, levels)


def flat(markdown: str) -> str:
    """Make every numbered heading one of the first level, as the model is asked to write them."""
    headings = list(heading_lines(markdown))
    depths = _depths(headings)
    levels = [heading.level if depth is None else 1 for heading, depth in zip(headings, depths, strict=True)]
    return _rewritten(markdown, headings, levels)


def _rewritten(markdown: str, headings: Sequence[HeadingLine], levels: Sequence[int]) -> str:
    parts: list[str] = []
    at = 0
    for heading, level in zip(headings, levels, strict=True):
        marks = "#" * min(_DEEPEST, max(1, level))
        parts += [markdown[at : heading.start], marks, markdown[heading.start + heading.level : heading.end]]
        at = heading.end
    return "".join(parts) + markdown[at:]


def _known_levels(printed: str) -> Mapping[str, int]:
    """Return the level of each heading of the layout formatter; of titles that it prints at several, none."""
    levels: dict[str, set[int]] = {}
    for heading in heading_lines(printed):
        levels.setdefault(heading.key, set()).add(heading.level)
    return {title: min(found) for title, found in levels.items() if len(found) == 1}


def _depths(headings: Sequence[HeadingLine]) -> list[int | None]:
    """Return the depth that its number gives each heading, from 1 for the outermost kind, or None."""
    depths: list[int | None] = []
    last = 0
    for number in (numbering(heading.title) for heading in headings):
        counted = int(number.key[0]) if number and number.depth == 1 and number.key[0].isdigit() else None
        if number is None or (counted is not None and counted <= last):  # plain numbers ("7") count upwards
            depths.append(None)
        else:
            last = counted or last
            depths.append(number.depth)
    outermost = min((depth for depth in depths if depth is not None), default=1)
    return [None if depth is None else depth + (1 if outermost == 0 else 0) for depth in depths]


def _shift(headings: Sequence[HeadingLine], depths: Sequence[int | None], known: Mapping[str, int]) -> int:
    """Return by how much numbered headings lie deeper than their numbers say: 1 under a printed title."""
    votes = Counter(
        known[heading.key] - depth
        for heading, depth in zip(headings, depths, strict=True)
        if depth is not None and heading.key in known
    )
    if votes:
        return max(0, max(votes, key=lambda shift: (votes[shift], -abs(shift))))
    titled = len(depths) > 1 and depths[0] is None and depths[1] == 1 and headings[0].level == 1
    return 1 if titled and headings[1].start - headings[0].end <= 2 else 0
