"""Atomic units: a language model divides the text into single facts, which come back as exact slices of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Gt, Le

from catena import prompts
from catena.effects import Complete, Failed, Request, Step, together
from catena.effects.planning import StandIn
from catena.effects.ports import Completion
from catena.model import Chunk, Degraded, Document, Section
from catena.model.errors import InvalidReplyError, ParameterError, ServiceError
from catena.model.options import check_options
from catena.structure.assembly import Piece, assemble
from catena.structure.atomic_mapping import Mapped, UnitRepairKind, map_units, read_units, sentences_of
from catena.structure.atomic_windows import Window, cut_sentences, windows_of
from catena.structure.division import Counter, Span
from catena.structure.tokens import count_tokens

__all__ = [
    "PLANNED_ANSWERS",
    "PURPOSE",
    "AtomicChunks",
    "AtomicOptions",
    "UnitRepair",
    "cut_atomic",
    "cut_sentences",
    "planned_answer",
]

PURPOSE = "atomic units"  # of every request

OnError: TypeAlias = Literal["raise", "degrade"]

_LONGEST = 3  # answers of more times the characters of the passage are not read
_SHOWN = 80  # characters of a text in a report
_PROBLEM = "\nAn earlier answer could not be used: {problem}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomicOptions:
    """How a model is shown a document, and what is made of its answers.

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
    pieces: tuple[Piece, ...]
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
        MissingServiceError: nobody answers `Complete`.

    Source: the baseline "atomic unit" of MC-indexing (Dong et al., 2024), appendix C.3, after Raina and Gales (2024).
    """
    windows = list(windows_of(document.text, sections, options.window, count))
    parts: list[Any] = yield from together([_divided(window, options, count) for window in windows])
    for part in parts:
        if isinstance(part, Failed):
            raise part.error
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


def _divided(window: Window, options: AtomicOptions, count: Counter) -> Step[_Divided]:
    """Return a window's pieces: by the model's units, or, where it fails, sentences joined to a fixed length."""
    if len(window.spans) == 1:
        return _Divided(tuple(window.pieces(window.spans)))
    problem = ""
    for _ in range(options.attempts):
        (reply,) = yield [_request(window, options, problem)]
        found = _answered(reply, window, options)
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


def _request(window: Window, options: AtomicOptions, problem: str) -> Complete:
    prompt = prompts.load("atomic_units")
    return Complete(
        prompt=prompt.filled(passage=window.passage(), problem=_PROBLEM.format(problem=problem) if problem else ""),
        purpose=PURPOSE,
        system=prompt.system,
        max_tokens=options.max_tokens,
        prompt_version=prompt.version,
        validate=partial(_read, window=window, options=options),
    )


def _answered(reply: Completion | Failed, window: Window, options: AtomicOptions) -> Mapped | ServiceError:
    """Return the units in a reply, or why there are none; what is no failure of the service is raised."""
    if isinstance(reply, Failed):
        if not isinstance(reply.error, ServiceError):
            raise reply.error
        return reply.error
    try:
        return _read(reply.text, window, options)  # again: in a dry run nobody has checked it
    except ValueError as invalid:
        return InvalidReplyError("model", str(invalid))


def _read(reply: str, window: Window, options: AtomicOptions) -> Mapped:
    """Return what a reply says of a window; raise ValueError where it is of no use."""
    size = sum(map(len, window.shown))
    if len(reply) > _LONGEST * (size + 1_000):  # room for thoughts about a short passage
        raise ValueError(f"it has {len(reply):,} characters for a passage of {size:,}, where a copy was asked for")
    return map_units(window.shown, read_units(reply), unlike=options.unlike, least_kept=options.least_kept)


def _by_units(window: Window, mapped: Mapped, reply: str) -> _Divided:
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
