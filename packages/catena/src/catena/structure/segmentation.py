"""Semantic segmentation: a language model divides numbered lines into titled sections, whatever their number."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from catena.effects import Complete, Failed, Request, Step, together
from catena.effects.planning import StandIn
from catena.effects.ports import Completion
from catena.model import Degraded, Document
from catena.model.errors import InvalidReplyError, ServiceError
from catena.structure.blocks import Block, blocks_of
from catena.structure.embedding_segmentation import EmbeddingOptions, segment_by_embedding
from catena.structure.line_runs import Answered, Run, joined
from catena.structure.segment_job import DEFAULT_OPTIONS, PURPOSE, Job, SegmentOptions
from catena.structure.segment_repair import LineSection, Repaired
from catena.structure.segment_titles import same_title
from catena.structure.segment_tree import Segmentation, assemble_sections, regions_of, whole_or_outline

__all__ = [
    "PLANNED_ANSWERS",
    "PURPOSE",
    "EmbeddingOptions",
    "SegmentOptions",
    "Segmentation",
    "segment_by_embedding",
    "segment_with_llm",
]

_LAST_NUMBERS = re.compile(r"Divide lines (\d+) to (\d+)\.\s*\Z")


def segment_with_llm(
    document: Document, options: SegmentOptions = DEFAULT_OPTIONS, *, blocks: Sequence[Block] | None = None
) -> Step[Segmentation]:
    """Divide a document into titled sections with a language model.

    The model sees numbered lines and answers with titles and line numbers. Its answers are verified and put right by
    `segment_repair.repair`, so that the sections tile the text whatever it says; every repair is reported.
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
        MissingServiceError: nobody answers `Complete`.

    Source: TextRAG, part 1 (structured segmentation over numbered lines, iterative for long documents).
    """
    blocks = blocks_of(document) if blocks is None else blocks
    printed = whole_or_outline(document, blocks, options.under)
    regions = regions_of(document, printed, options.longest_leaf)
    job = Job.of(document, blocks, regions, options)
    segment = _iterative if options.mode == "iterative" else _parallel
    parts = yield from _all([segment(job, job.run_of(region)) for region in regions])
    divided = [(region, job.spans(part.sections)) for region, part in zip(regions, parts, strict=True)]
    sections, generated = assemble_sections(document, blocks, printed, divided)
    return Segmentation(
        sections=sections,
        generated=generated,
        repairs=tuple(each for part in parts for each in part.repairs),
        degraded=tuple(each for part in parts for each in part.degraded),
    )


def _ask_about(job: Job, run: Run, open_title: str = "") -> Step[Answered]:
    """Return the sections of one window: the model's, or, where it fails, those of headings and paragraphs."""
    base, problem = job.lines.base, ""
    lost: ServiceError | None = None
    for _ in range(job.options.attempts):
        (reply,) = yield [job.request(run, open_title, problem)]
        found = job.answered(reply, run)
        if isinstance(found, Repaired):
            sections = (each._replace(first=each.first - base, last=each.last - base) for each in found.sections)
            return Answered(run, tuple(sections), found.repairs)
        lost, problem = found, found.what
        if not isinstance(found, InvalidReplyError):
            break
    if lost is not None and job.options.on_error == "raise":
        raise lost
    what = f"segmentation of lines {run.first + base} to {run.last + base}"
    return Answered(run, job.by_paragraphs(run), degraded=(Degraded(what, str(lost)),))


def _iterative(job: Job, run: Run) -> Step[Answered]:
    """Divide a run window by window: the next one begins where the section that is still open begins.

    Where that would show more than half of the window again, or nothing new, the next window begins behind this one
    and is told the title of the open section; a first section of that title continues it.
    """
    parts: list[Answered] = []
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


def _parallel(job: Job, run: Run) -> Step[Answered]:
    """Divide a run in windows side by side, each of which also sees the beginning of the next."""
    cores: list[Run] = []
    first = run.first
    while first <= run.last:
        cores.append(job.window(first, run.last, job.options.window))
        first = cores[-1].last + 1
    extra = int(job.options.overlap * job.options.window)
    views = [Run(core.first, job.window(core.first, run.last, job.size(*core) + extra).last) for core in cores]
    parts = yield from _all([_ask_about(job, view) for view in views])
    return _gathered(run, joined(parts, job.size), parts)


def _gathered(run: Run, sections: Sequence[LineSection], parts: Sequence[Answered]) -> Answered:
    return Answered(
        run,
        tuple(sections),
        tuple(each for part in parts for each in part.repairs),
        tuple(each for part in parts for each in part.degraded),
    )


def _all(steps: Sequence[Step[Answered]]) -> Step[list[Answered]]:
    """Return the results of steps that go on side by side; the first failure is raised."""
    results: list[Any] = yield from together(steps)
    for result in results:
        if isinstance(result, Failed):
            raise result.error
    return results


def planned_answer(request: Complete) -> Completion:
    """Return an answer for dry runs: two sections, the second of a fifth of the lines, as open ones are about."""
    found = _LAST_NUMBERS.search(request.prompt)
    if found is None:
        return Completion(text="[]")
    first, last = int(found[1]), int(found[2])
    border = max(first, last - (last - first) // 5)
    starts = sorted({first, border})
    return Completion(text=json.dumps([{"title": "A section of the document", "start": start} for start in starts]))


PLANNED_ANSWERS: Mapping[type[Request], StandIn] = {Complete: planned_answer}
"""For `plan(segment_with_llm(...), stand_ins=PLANNED_ANSWERS)`."""
