"""Read training questions with their evidence, hold some out, prepare them for walks, and measure scorers on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge

from catena.effects import Cancel, Embed, FetchById, Step, ask
from catena.effects.ports import Graph
from catena.evaluation import DocumentNames, EvidenceResult, Gold, chunks_of_gold, evaluate_evidence
from catena.graph import Scorer, TrainingQuestion, pose, question_keywords, walk
from catena.graph.feature_training import TrainingCase, Watch, check_cancelled, tell
from catena.graph.options import WalkOptions
from catena.model import Checked, Entry, EvaluationError, ParameterError, Ranking, digest
from catena.model.near_names import some_of
from catena.retrieval import DEFAULT_ROUTES, Fusion, Route, retrieve
from catena.text.files import read_objects

FIRST = "first ranking"
"""The method that does not walk."""

_LOOKED_AT = 5  # chunks, as the measures say
RECALL, ALL = f"recall@{_LOOKED_AT}", f"all@{_LOOKED_AT}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStage(Checked):
    """Options of the first ranking of a question, as of `catena.graph.search.GraphSearch`."""

    routes: Sequence[str] | Mapping[str, Route] = DEFAULT_ROUTES
    fusion: Fusion | None = None
    depth: Annotated[int, Ge(1)] = 50


def held_out(questions: Sequence[str], share: float, seed: int) -> frozenset[int]:
    """Draw the questions that nothing is to be learned from, by a seed and their texts; return their places.

    Equal questions are on one side; the share is of distinct ones, and at least one of them, unless it is 0.

    Raises:
        ParameterError: no question is left to learn from.
    """
    distinct = sorted(set(questions), key=lambda text: (digest(str(seed), text), text))
    count = 0 if share == 0 else max(1, round(share * len(distinct)))
    if count >= len(distinct):
        raise ParameterError("questions with supporting chunks", len(distinct), f"more than {count}, to learn from")
    drawn = frozenset(distinct[:count])
    return frozenset(place for place, text in enumerate(questions) if text in drawn)


def cases_of(
    questions: Sequence[TrainingQuestion],
    first: FirstStage | Sequence[Ranking],
    *,
    keywords: bool = False,
    watch: Watch | None = None,
    cancel: Cancel | None = None,
) -> Step[tuple[TrainingCase, ...]]:
    """Return each question as input of a walk, with its first ranking and its supporting chunks.

    Args:
        questions: with supporting chunks.
        first: how the first rankings are made, or these, in order.
        keywords: whether the questions' keywords are sought, for walks whose seeds cover them.
        watch: told of each question.
        cancel: another thread may stop it.

    Raises:
        ParameterError: a supporting chunk is not in the graph.
        CancelledError: it was stopped.
        CatenaError: the error of the embedder, the store or the graph.
    """
    yield from _check_known(questions)
    found = []
    for place, each in enumerate(questions):
        check_cancelled(cancel)
        text = each.question
        (vectors,) = yield from ask([Embed(texts=(text,), kind="query", purpose="query embedding")])
        if isinstance(first, FirstStage):
            ranking = yield from retrieve(text, k=first.depth, routes=first.routes, fusion=first.fusion)
        else:
            ranking = first[place]
        sought = (yield from question_keywords(text)) if keywords else ()
        question = yield from pose(text, vectors[0], keywords=sought)
        found.append(TrainingCase(question=question, ranking=ranking, supporting=frozenset(each.supporting)))
        tell(watch, "questions", place + 1, len(questions))
    return tuple(found)


def measured(
    cases: Sequence[TrainingCase],
    scorers: Mapping[str, Scorer],
    options: WalkOptions,
    *,
    watch: Watch | None = None,
    cancel: Cancel | None = None,
) -> Step[dict[str, Mapping[str, EvidenceResult]]]:
    """Measure the share of their evidence that walks find with each scorer, and the first ranking without a walk.

    Args:
        cases: of one graph; without any nothing is measured.
        scorers: by name.
        options: of the walks.
        watch: told of each walk.
        cancel: another thread may stop it.

    Returns:
        By measure, `RECALL` and `ALL`, and then by name, `FIRST` first, the results over these questions.

    Raises:
        CancelledError: it was stopped.
        CatenaError: the error of the graph or a scorer.
    """
    results: dict[str, dict[str, EvidenceResult]] = {RECALL: {}, ALL: {}}
    found = {FIRST: {str(place): case.ranking for place, case in enumerate(cases)}} if cases else {}
    for done, (name, scorer) in enumerate(scorers.items() if cases else ()):
        found[name] = {}
        for place, case in enumerate(cases):
            check_cancelled(cancel)
            walked = yield from walk(case.question, case.ranking, options, scorer, k=_LOOKED_AT)
            found[name][str(place)] = walked.ranking
            tell(watch, "validation", done * len(cases) + place + 1, len(scorers) * len(cases))
    gold = {str(place): case.supporting for place, case in enumerate(cases)}
    for name, rankings in found.items():
        for measure, result in evaluate_evidence(gold, rankings, (RECALL, ALL)).items():
            results[measure][name] = result
    return {**results}


def _check_known(questions: Sequence[TrainingQuestion]) -> Step[None]:
    named = tuple(dict.fromkeys(chunk for question in questions for chunk in question.supporting))
    (chunks,) = yield from ask([FetchById(chunk_ids=named)])
    missing = [name for name, chunk in zip(named, chunks, strict=True) if chunk is None]
    if missing:
        what = f"{len(named)}, of which {len(missing)} are not: {some_of(missing, 3)}"
        raise ParameterError("supporting chunks", what, "in the graph")


_HELD = 64  # documents kept in memory, as questions about one document are often next to each other


def read_supported_questions(
    path: str | Path, document_ids: Iterable[str], get: Callable[[str], Entry], graph: Graph
) -> tuple[TrainingQuestion, ...]:
    """Read JSON lines `{"question": "…", "supporting": [evidence, …]}`; other fields are not looked at.

    Evidence is the id of a chunk, or `{"document": "manual.pdf", "text": "a quote"}` ("source" will do, too): then
    the chunks that hold the quote, or at least half of it, but for white space. Without a document it is looked for
    in all. No evidence marks a question that is of no use here.

    Args:
        path: of a file, packed by gzip if it ends in ".gz".
        document_ids: of the library.
        get: a document with its chunks, by id.
        graph: in which the chunks must be.

    Raises:
        EvaluationError: the file cannot be read or holds no question, a line is of another layout, or evidence is
            found nowhere; the line is named.
    """
    path = Path(path)
    ids = tuple(document_ids)
    names, fetch = DocumentNames(ids), lru_cache(maxsize=_HELD)(get)
    found: list[TrainingQuestion] = []
    for where, row in read_objects(path):
        text, supporting = _row(row, where)
        chunks: list[str] = []
        for each in supporting:
            if isinstance(each, str):
                chunks.append(each)
            else:
                chunks.extend(_quoted(each, where, names, ids, fetch))
        named = tuple(each for each in supporting if isinstance(each, str))
        held = zip(named, graph.chunks_by_id(FetchById(chunk_ids=named)), strict=True)
        if (lost := next((name for name, chunk in held if chunk is None), None)) is not None:
            raise EvaluationError(f"{where}: there is no chunk {lost[:60]!r} in the graph")
        found.append(TrainingQuestion(question=text, supporting=tuple(dict.fromkeys(chunks))))
    if not found:
        raise EvaluationError(f"{path.name} holds no question")
    return tuple(found)


def _row(row: dict[str, Any], where: str) -> tuple[str, list[Any]]:
    question, supporting = row.get("question"), row.get("supporting") or []
    if not isinstance(question, str) or not question.strip():
        raise EvaluationError(f"{where}: 'question' must be a text that is not empty, got {str(question)[:60]!r}")
    if not isinstance(supporting, list) or not all(each and isinstance(each, str | dict) for each in supporting):
        layout = 'a list of ids of chunks, or of {"document": "…", "text": "…"}'
        raise EvaluationError(f"{where}: 'supporting' must be {layout}, got {str(supporting)[:60]!r}")
    return question, supporting


def _quoted(
    place: dict[str, Any], where: str, names: DocumentNames, ids: Sequence[str], get: Callable[[str], Entry]
) -> list[str]:
    text, name = place.get("text"), place.get("document", place.get("source", ""))
    if not isinstance(text, str) or not text.strip() or not isinstance(name, str):
        raise EvaluationError(f"{where}: evidence needs a 'text' and may have a 'document', got {str(place)[:60]!r}")
    document = names.find(name) if name else None
    if name and document is None:
        raise EvaluationError(f"{where}: there is no document {name!r} in the library")
    gold = Gold(name=text, document=document or "", text=text)
    wanted = ids if document is None else (document,)
    chunks = sorted(chunk for each in wanted for chunk in chunks_of_gold(gold, [get(each)]))
    if not chunks:
        inside = f"in {document!r}" if document else "in any document"
        raise EvaluationError(f"{where}: no chunk {inside} holds the quote {text[:60]!r}, or half of it")
    return chunks
