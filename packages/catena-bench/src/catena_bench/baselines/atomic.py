"""Cut a text into atomic units: a language model divides it into single facts, mapped back to exact slices of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from math import floor, isfinite
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

from annotated_types import Ge, Gt, Le

from catena import Chunk, Degraded, Document, Section, prompts
from catena.effects import Complete, Completion, Request, StandIn, Step, all_together, answer_of
from catena.model import InvalidReplyError, ParameterError, check_options
from catena.structure.chunking import ChunkSpan, assemble, heading_metadata
from catena.structure.division import Counter, Span, blank_lines, divide, lines, pack, words
from catena.text import count_tokens, sentence_ends

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


UnitRepairKind: TypeAlias = Literal[
    "unlike",  # a unit that is like no sentence of the window: a label, a remark; it takes no part
    "no_sentence",  # a unit to which no sentence was mapped: it vanishes
    "reworded",  # a unit that is not word for word the sentences mapped to it
]

_FENCE = re.compile(r"`{3,}\w*|~{3,}\w*")
_FRAGMENT = 20  # characters from which on a part of a sentence, copied, is like it
# at the end of a sentence too: the next one may begin with the rest of a tag
PURPOSE = "atomic units"  # of every request
OnError: TypeAlias = Literal["raise", "degrade"]
_LONGEST = 3  # answers of more times the characters of the passage are not read
_SHOWN = 80  # characters of a text in a report
_PROBLEM = "\nAn earlier answer could not be used: {problem}\n"


class Note(NamedTuple):
    """The outcome of one unit: sentences [first, end) of the window."""

    kind: UnitRepairKind
    unit: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Mapped:
    """The ends of the runs of sentences, ascending and each once, the last at the number of sentences; and notes."""

    ends: tuple[int, ...]
    notes: tuple[Note, ...] = ()


def read_units(reply: str) -> tuple[str, ...]:
    """Return the units in a reply, one per line, white space folded; fences and blank lines are none."""
    lines = (folded(line) for line in reply.splitlines())
    return tuple(line for line in lines if line and not _FENCE.fullmatch(line))


def folded(text: str) -> str:
    """Return the text with each run of white space as one space, and none around it."""
    return " ".join(text.split())


def sentences_of(unit: str, undotted: re.Pattern[str] | None = None) -> list[str]:
    """Return the sentences of a text that is not blank, trimmed.

    Args:
        unit: folded, so that no empty line tells a heading in it from what follows.
        undotted: finds the sentences of the window that end without a mark, as headings do; see `undotted_of`.
    """
    if undotted is None:
        borders = [0, *sentence_ends(unit, 0, len(unit)), len(unit)]
        return [unit[start:end].strip() for start, end in pairwise(borders)]
    return [sentence for part in undotted.split(unit) if part.strip() for sentence in sentences_of(part.strip())]


def undotted_of(sentences: Sequence[str]) -> re.Pattern[str]:
    """Return what finds, in one group, those of the sentences whose end cannot be seen when a space follows."""
    passage = " ".join(sentences)
    seen = {*sentence_ends(passage, 0, len(passage))}
    nexts = accumulate(len(sentence) + 1 for sentence in sentences)
    unseen = {sentence for sentence, after in zip(sentences, nexts, strict=True) if after not in seen}
    choices = "|".join(map(re.escape, sorted(unseen, key=lambda sentence: (-len(sentence), sentence))))
    return re.compile(rf"(?<!\S)({choices})(?!\S)")


def map_units(
    sentences: Sequence[str], units: Sequence[str], *, unlike: float = 0.65, least_kept: float = 0.5
) -> Mapped:
    """Return which run of consecutive sentences each unit stands for.

    Units that are the sentences, word for word, keep their own borders. Otherwise units that are like no sentence
    are left out first: the rule of `unit_ends` compares neighbours only, so that one invented line would hold up
    all that follow. A sentence of a unit and one of the window are alike where their edit distance over the length
    of the longer one is at most `unlike`, or one (of 20 characters or more) is a part of the other side's text.

    Cost: one edit distance per pair of sentences, about `characters of the window * characters of the units / 64`
    steps.

    Args:
        sentences: of the window, folded, none blank.
        units: of the answer, folded, none blank.
        unlike: in (0, 1]; 1 leaves no unit out, which is the paper's procedure.
        least_kept: share of the window's characters, in [0, 1], whose sentences must be like one of the answer.

    Raises:
        ValueError: there are no units, or they are no copy of the window.
    """
    import numpy as np

    if not units:
        raise ValueError("it holds no unit")
    if (own := own_ends(sentences, units)) is not None:
        return Mapped(own)
    undotted = undotted_of(sentences)
    parts = [sentences_of(unit, undotted) for unit in units]
    flat = [part for of_unit in parts for part in of_unit]
    starts = [0, *accumulate(map(len, parts))][:-1]
    distances = edit_distances(sentences, flat)
    lengths, others = np.array([*map(len, sentences)]), np.array([*map(len, flat)])
    alike = distances <= unlike * np.maximum.outer(lengths, others)

    found = alike.any(axis=1) | _inside(sentences, " ".join(units))
    kept = float(lengths[found].sum() / lengths.sum())
    if kept < least_kept:
        raise ValueError(f"it holds {kept:.0%} of the passage, where a copy was asked for")
    taking = np.logical_or.reduceat(alike.any(axis=0) | _inside(flat, " ".join(sentences)), starts)
    places = [int(place) for place in np.flatnonzero(taking)]
    if not places:
        raise ValueError("none of its lines is like a sentence of the passage")
    ends = unit_ends(np.minimum.reduceat(distances, starts, axis=1)[:, places])
    return _noted(sentences, units, places, ends)


def own_ends(sentences: Sequence[str], units: Sequence[str]) -> tuple[int, ...] | None:
    """Return where the units end among the sentences, if they are these, white space apart; else None."""
    marks = list(accumulate(len(_condensed(sentence)) for sentence in sentences))
    own = list(accumulate(len(_condensed(unit)) for unit in units))
    if _condensed("".join(sentences)) != _condensed("".join(units)):
        return None
    after = {mark: place for place, mark in enumerate(marks, start=1)}
    return tuple(after[mark] for mark in own) if set(own) <= set(marks) else None


def edit_distances(sentences: Sequence[str], others: Sequence[str]) -> NDArray[np.int32]:
    """Return the Levenshtein distances in characters, shape (len(sentences), len(others))."""
    import numpy as np
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    return np.asarray(cdist(sentences, others, scorer=Levenshtein.distance, dtype=np.int32), dtype=np.int32)


def unit_ends(distances: NDArray[np.int32]) -> tuple[int, ...]:
    """Return, per unit, one after the last sentence that goes to it.

    With D(y_j, S_i) the least edit distance between sentence y_j and a sentence of unit S_i, j_0 = 1 and
    `j_i = the first j >= j_(i-1) with D(y_j, S_i) > D(y_j, S_(i+1))`, unit S_i is given y_(j_(i-1)) … y_(j_i - 1):
    it goes on until a sentence is nearer to the next unit, and keeps those that are as near to both.

    What the paper leaves open: without such a j, unit S_i takes all that remains and those behind it nothing; the
    last unit takes what remains; a unit with j_i = j_(i-1) gets no sentence.

    Args:
        distances: D, shape (sentences, units), with at least one unit.

    Returns:
        j_1 - 1, j_2 - 1, …, number of sentences; ascending. Unit i (0-based) has sentences [ends[i - 1], ends[i]).

    Source: MC-indexing (Dong et al., 2024), appendix C.3.
    """
    rows = distances.tolist()
    ends: list[int] = []
    at = 0
    for unit in range(distances.shape[1] - 1):
        while at < len(rows) and rows[at][unit] <= rows[at][unit + 1]:
            at += 1
        ends.append(at)
    return (*ends, len(rows))


def _noted(sentences: Sequence[str], units: Sequence[str], places: Sequence[int], ends: Sequence[int]) -> Mapped:
    """Return the runs that are not empty, and what became of each unit of the answer, in its order."""
    runs = dict(zip(places, pairwise((0, *ends)), strict=True))
    notes: list[Note] = []
    for unit, text in enumerate(units):
        if unit not in runs:
            notes.append(Note("unlike", unit, 0, 0))
            continue
        first, end = runs[unit]
        if first == end:
            notes.append(Note("no_sentence", unit, first, end))
        elif _condensed(text) != _condensed("".join(sentences[first:end])):
            notes.append(Note("reworded", unit, first, end))
    return Mapped(tuple(end for first, end in runs.values() if first < end), tuple(notes))


def _inside(sentences: Sequence[str], text: str) -> NDArray[np.bool_]:
    import numpy as np

    return np.array([len(sentence) >= _FRAGMENT and sentence in text for sentence in sentences], dtype=np.bool_)


def _condensed(text: str) -> str:
    return "".join(text.split())


@dataclass(frozen=True, slots=True)
class SentenceWindow:
    """Consecutive sentences that a model is shown together.

    Attributes:
        spans: of the sentences in `text`; white space may lie between them, and nothing else.
        shown: the sentences with their white space folded, and unable to end the tag of the passage.
        section: that they are all in, if any is told.
    """

    text: str
    spans: tuple[Span, ...]
    shown: tuple[str, ...]
    section: Section | None

    @property
    def span(self) -> Span:
        return self.spans[0][0], self.spans[-1][1]

    def joined(self, limit: int, count: Counter) -> Iterator[Span]:
        """Yield runs of whole sentences of at most `limit` tokens, as far as no single one is longer."""
        return pack(self.text, self.spans, _whole, limit=limit, share=limit, count=count)

    def pieces(self, spans: Iterable[Span]) -> Iterator[ChunkSpan]:
        for start, end in spans:
            yield _piece(self.text, (start, end), self.section)

    def passage(self) -> str:
        """Return the sentences as paragraphs without line breaks inside."""
        gaps = [_gap(self.text[start:end]) for start, end in self.spans]
        return "".join(part for pair in zip(self.shown, gaps, strict=True) for part in pair).strip()


def cut_sentences(
    document: Document,
    sections: Sequence[Section] | None = None,
    *,
    tokens: int = 2_000,
    count: Counter = count_tokens,
) -> tuple[Chunk, ...]:
    """Cut a document into its sentences, one chunk each: the units of those who have no model.

    They are sentence units, not atomic ones: a fact told in two sentences is in two chunks.

    Args:
        document: its text.
        sections: chunks stay inside these; None gives chunks without a path.
        tokens: above which a sentence is cut at lines and words, >= 1.
        count: tokens of a text.

    Raises:
        ParameterError: `tokens` is below 1.
    """
    if tokens < 1:
        raise ParameterError("tokens", tokens, "a number >= 1")
    text = document.text
    return assemble(
        document,
        (
            _piece(text, sentence, section)
            for span, section in _regions(text, sections)
            for sentence in _sentences(text, span, tokens, count)
        ),
    )


def windows_of(text: str, sections: Sequence[Section] | None, limit: int, count: Counter) -> Iterator[SentenceWindow]:
    """Yield the windows of a text, or of each section: whole sentences of at most `limit` tokens together."""
    for span, section in _regions(text, sections):
        sentences = list(_sentences(text, span, limit, count))
        at = 0
        for _, end in pack(text, sentences, _whole, limit=limit, share=limit, count=count):
            first = at
            while at < len(sentences) and sentences[at][1] <= end:
                at += 1
            spans = tuple(sentences[first:at])
            shown = prompts.shut_in("\n".join(folded(text[start:stop]) for start, stop in spans), "passage")
            yield SentenceWindow(text, spans, tuple(shown.split("\n")), section)


def _regions(text: str, sections: Sequence[Section] | None) -> list[tuple[Span, Section | None]]:
    if sections is None:
        return [((0, len(text)), None)]
    return [((section.start, section.end), section) for section in sections]


def _sentences(text: str, span: Span, limit: int, count: Counter) -> Iterator[Span]:
    """Yield the sentences of a span that are not blank, white space after them included."""
    start, end = span
    borders = {*sentence_ends(text, start, end), *blank_lines(text, start, end)} - {start, end}
    for sentence in pairwise([start, *sorted(borders), end]):
        for part in divide(text, sentence, (lines, words), limit=limit, count=count):
            if text[part[0] : part[1]].strip():
                yield part


def _piece(text: str, span: Span, section: Section | None) -> ChunkSpan:
    if section is None:
        return ChunkSpan(*span)
    return ChunkSpan(*span, "text", section, heading_metadata(text, section))


def _whole(span: Span) -> Iterator[Span]:
    yield span


def _gap(sentence: str) -> str:
    """Return what stands behind a sentence where it is shown: an empty line at the end of a paragraph."""
    tail = sentence[len(sentence.rstrip()) :]
    return "\n\n" if max(tail.count("\n"), tail.count("\r")) > 1 else " "


def plus_factor(section_tokens: float, unit_tokens: float) -> int:
    """Return by how much k is multiplied for units to cost about as many tokens as k sections.

    `factor = max(1, round(section_tokens / unit_tokens))`, halves rounded up: 375 / 94 -> 4 (WikiWeb2M) and
    510 / 233 -> 2 (NQ) in the paper.

    Args:
        section_tokens: mean tokens of a section, above 0.
        unit_tokens: mean tokens of an atomic unit, above 0, counted in the same way.

    Raises:
        ParameterError: a mean is not a finite number above 0.

    Source: MC-indexing (Dong et al., 2024), appendix C.3, "Atomic Unit: Plus".
    """
    for name, value in (("section_tokens", section_tokens), ("unit_tokens", unit_tokens)):
        if not (isfinite(value) and value > 0):
            raise ParameterError(name, value, "a finite number above 0")
    return max(1, floor(section_tokens / unit_tokens + 0.5))


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomicOptions:
    """Options of asking a model for units and of reading its answers.

    Attributes:
        window: most tokens of the document shown at once, in whole sentences; the paper has 2,000.
        attempts: answers asked for until one is of use; each further request says what was wrong.
        unlike: a unit whose sentences are all farther than this from every sentence of the window takes no part;
            edit distance over the longer length, in (0, 1]. 1 leaves none out, as in the paper.
        least_kept: share of the window, in [0, 1], that an answer of use must hold.
        fallback: most tokens of a chunk where no answer was of use: whole sentences, joined while they fit.
        max_tokens: of one answer, which is a copy of the window.
        on_error: whether a window without an answer of use is cut by `fallback` and reported, or ends the work.
    """

    window: Annotated[int, Ge(1)] = 2_000
    attempts: Annotated[int, Ge(1)] = 2
    unlike: Annotated[float, Gt(0), Le(1)] = 0.65
    least_kept: Annotated[float, Ge(0), Le(1)] = 0.5
    fallback: Annotated[int, Ge(1)] = 100
    max_tokens: Annotated[int, Ge(1)] = 4_096
    on_error: OnError = "degrade"

    def __post_init__(self) -> None:
        check_options(self)
        if self.max_tokens < self.window:
            raise ParameterError("max_tokens", self.max_tokens, f"at least the window ({self.window}): a copy of it")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRepair:
    """A unit of an answer that is not, word for word, a chunk.

    Attributes:
        window: [start, end) of what the model was shown, in the document.
        unit: 0-based place in the answer.
        was, became: the beginnings of the unit and of the sentences that it stands for, "" where there are none.
    """

    kind: UnitRepairKind
    window: Span
    unit: int
    was: str
    became: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomicChunks:
    """Chunks in reading order, what was put right for them, and the windows without an answer of use."""

    chunks: tuple[Chunk, ...]
    repairs: tuple[UnitRepair, ...] = ()
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class _Divided:
    pieces: tuple[ChunkSpan, ...]
    repairs: tuple[UnitRepair, ...] = ()
    degraded: tuple[Degraded, ...] = ()


DEFAULT_OPTIONS = AtomicOptions()


def cut_atomic(
    document: Document,
    options: AtomicOptions = DEFAULT_OPTIONS,
    *,
    sections: Sequence[Section] | None = None,
    count: Counter = count_tokens,
) -> Step[AtomicChunks]:
    """Cut a document into atomic units with a language model.

    The text is shown in windows of whole sentences, all in one batch; a model copies each, one unit per line. Since
    it may leave out, reword or invent, its units only say where to cut: each is mapped back to a run of the original
    sentences (`atomic_mapping.unit_ends`). So the chunks are exact slices that tile the text, white space between
    them apart, and no sentence is divided, whatever the model answers. A sentence ends where
    `sentences.sentence_ends` or an empty line says so; one longer than the window is cut at lines and words. A
    window of a single sentence is not asked about.

    Calls: one per window, `options.attempts` at most; input and output are each about the tokens of the document.

    Args:
        document: Markdown or plain text.
        options: sizes, and what to do where the model fails.
        sections: windows, and so units, stay inside these; None cuts across headings, as the paper does, and gives
            chunks without a path.
        count: tokens of a text.

    Raises:
        ServiceError: an answer was of no use, and `on_error` is "raise".
        MissingServiceError: no service answers `Complete`.

    Source: the baseline "atomic unit" of MC-indexing (Dong et al., 2024), appendix C.3, after Raina and Gales (2024).
    """
    windows = list(windows_of(document.text, sections, options.window, count))
    parts = yield from all_together([_divided(window, options, count) for window in windows])
    return AtomicChunks(
        chunks=assemble(document, (piece for part in parts for piece in part.pieces)),
        repairs=tuple(each for part in parts for each in part.repairs),
        degraded=tuple(each for part in parts for each in part.degraded),
    )


def planned_answer(request: Complete) -> Completion:
    """Return an answer for dry runs: the passage, a sentence per line."""
    paragraphs = request.prompt.partition("<passage>\n")[2].rpartition("\n</passage>")[0].split("\n")
    return Completion(text="\n".join(part for each in paragraphs if each for part in sentences_of(each)))


PLANNED_ANSWERS: Mapping[type[Request], StandIn] = {Complete: planned_answer}
"""For `plan(cut_atomic(...), stand_ins=PLANNED_ANSWERS)`."""


def _divided(window: SentenceWindow, options: AtomicOptions, count: Counter) -> Step[_Divided]:
    """Return a window's pieces: by the model's units, or, where it fails, sentences joined to a fixed length."""
    if len(window.spans) == 1:
        return _Divided(tuple(window.pieces(window.spans)))
    problem = ""
    for _ in range(options.attempts):
        (reply,) = yield [_request(window, options, problem)]
        found = answer_of(reply, partial(_read, window=window, options=options))
        if isinstance(found, Mapped):
            return _by_units(window, found, reply.text)
        lost, problem = found, found.what
        if not isinstance(found, InvalidReplyError):
            break
    if options.on_error == "raise":
        raise lost
    joined = window.joined(options.fallback, count)
    what = f"atomic units of characters {window.span[0]} to {window.span[1]}"
    return _Divided(tuple(window.pieces(joined)), degraded=(Degraded(what, str(lost)),))


def _request(window: SentenceWindow, options: AtomicOptions, problem: str) -> Complete:
    return Complete.of(
        prompts.load("atomic_units"),
        PURPOSE,
        max_tokens=options.max_tokens,
        validate=partial(_read, window=window, options=options),
        passage=window.passage(),
        problem=_PROBLEM.format(problem=problem) if problem else "",
    )


def _read(reply: str, window: SentenceWindow, options: AtomicOptions) -> Mapped:
    """Return what a reply says of a window; raise ValueError where it is of no use."""
    size = sum(map(len, window.shown))
    if len(reply) > _LONGEST * (size + 1_000):  # room for thoughts about a short passage
        raise ValueError(f"it has {len(reply):,} characters for a passage of {size:,}, where a copy was asked for")
    return map_units(window.shown, read_units(reply), unlike=options.unlike, least_kept=options.least_kept)


def _by_units(window: SentenceWindow, mapped: Mapped, reply: str) -> _Divided:
    spans = window.spans
    runs = [(spans[first][0], spans[end - 1][1]) for first, end in pairwise((0, *mapped.ends))]
    units = read_units(reply) if mapped.notes else ()
    repairs = (
        UnitRepair(
            kind=kind,
            window=window.span,
            unit=unit,
            was=units[unit][:_SHOWN],
            became=" ".join(window.shown[first:end])[:_SHOWN],
        )
        for kind, unit, first, end in mapped.notes
    )
    return _Divided(tuple(window.pieces(runs)), tuple(repairs))
