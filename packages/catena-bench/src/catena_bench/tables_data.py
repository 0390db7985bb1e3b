"""The documents of `catena-bench tables`: a data set of one's own, each question asked of its document alone.

The folder is as `catena questions` and `catena.evaluation.question_dataset.write_scope_dataset` write it; several of
them may lie below the one that is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from catena.evaluation import ScopeDataset, ScopeQuestion, read_scope_dataset
from catena.model import Document, EvaluationError
from catena_bench.segments_data import find_collections, stored
from catena_bench.views_data import AskedDocument, ScopedQuestion, token_starts, untitled

BETWEEN = " … "  # the evidence of one question, where it stands in for an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class TabledDocument:
    """A document with its questions, and what a judge compares answers with.

    Attributes:
        references: per question, the answer that the data set gives, or else what its evidence says.
        divided: whether the data set gives it sections; without any, the whole of it is one.
    """

    asked: AskedDocument
    references: tuple[str, ...]
    divided: bool


def read_tabled_documents(data: Path, most: int | None = None) -> tuple[TabledDocument, ...]:
    """Read all data sets at or below a folder, in the order of their paths, but for documents without a question.

    Args:
        data: the folder; at most three above the files.
        most: keep only so many questions of each document, in their order; all of them for None.

    Raises:
        EvaluationError: there is no question, or a file is not of the layout; with file and line.
    """
    folders = {
        name: folder for name, folder in find_collections(data).items() if stored(folder, "documents") is not None
    }
    found: dict[str, TabledDocument] = {}
    for name, folder in (folders or {data.name: data}).items():
        for document in _documents(read_scope_dataset(folder), most):
            known_as = document.asked.name if document.asked.name not in found else f"{name}/{document.asked.name}"
            found[known_as] = replace(document, asked=replace(document.asked, name=known_as))
    if not found:
        raise EvaluationError(
            f"{data.name} holds no question. Try: `catena questions` writes a data set from documents of your own"
        )
    return tuple(found.values())


def _documents(dataset: ScopeDataset, most: int | None) -> Iterator[TabledDocument]:
    for document in dataset.documents:
        asked = [question for question in dataset.questions if question.document == document.id][:most]
        if not asked:
            continue
        sections = dataset.sections[document.id]
        yield TabledDocument(
            asked=AskedDocument(
                name=document.id,
                document=untitled(document),
                sections=sections,
                questions=tuple(
                    ScopedQuestion(id=each.id, text=each.text, evidence=_visible(each, document)) for each in asked
                ),
                token_starts=token_starts(document.text),
                section_starts=tuple(section.start for section in sections),
            ),
            references=tuple(each.answer or _said(each.evidence, document) for each in asked),
            divided=len(sections) > 1 or any(section.level for section in sections),
        )


def _visible(question: ScopeQuestion, document: Document) -> tuple[tuple[int, int], ...]:
    """Return the evidence that is not blank.

    Raises:
        EvaluationError: all of it is: no recall is defined.
    """
    spans = tuple(span for span in question.evidence if document.text[slice(*span)].strip())
    if not spans:
        raise EvaluationError(
            f"question {question.id!r}: its evidence in document {document.id!r} is blank. "
            "Try: without the question, or with offsets into the text as it stands in the file"
        )
    return spans


def _said(evidence: Sequence[tuple[int, int]], document: Document) -> str:
    return BETWEEN.join(" ".join(document.text[start:end].split()) for start, end in evidence)
