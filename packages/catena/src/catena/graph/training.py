"""What a scorer learns from: questions with their supporting chunks, and the choices that lead from one to the next.

Nothing here knows a scorer: what is made of a choice (texts, vectors, features) is the scorer's own business.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge

from catena.model.errors import EvaluationError, ParameterError
from catena.model.options import as_tuples, check_options
from catena.text.json_lines import read_objects


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingQuestion:
    """A question, and the ids of the chunks that support its answer, each once."""

    question: str
    supporting: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.question.strip():
            raise ParameterError("question", self.question, "a text that is not empty")
        if len(set(self.supporting)) < len(self.supporting) or not all(self.supporting):
            raise ParameterError("supporting", self.supporting, "ids of chunks, each once")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingList:
    """One choice of a walk. Row i is one way on, as in `catena.graph.scoring.Candidates`.

    Attributes:
        question: place in `TrainingLists.questions`, 0-based.
        path: ids of the nodes chosen so far, seed first.
        candidates: ids; one that several nodes of the path lead to has several rows.
        froms: place in `path` of the node from which row i goes on.
        positive: whether row i is right; at least one is, and at least one is not.
    """

    question: int
    path: tuple[str, ...]
    candidates: tuple[str, ...]
    froms: tuple[int, ...]
    positive: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """How choices are drawn from a graph.

    Attributes:
        kind: "paths": each node of a shortest path from one supporting chunk to another leads to the next, against
            the other neighbours of that node (the paper's). "best_first": from the first of the ranking and from each
            supporting chunk, whatever supporting chunk is not yet on the path, among the neighbours of all of its
            nodes and the head of the ranking; the path grows by the best ranked of them.
        max_hops: edges of a shortest path; 4 are a path of five nodes. Of "best_first": choices of one walk.
        negatives: rows of one list that are wrong, at most: a seeded choice of them. Fewer train faster, above all
            an encoder.
        seed: of that choice.
        first: ranked chunks among the candidates of "best_first".
        kinds: of edges; None follows all that the graph has.
        missing: what to do about a supporting chunk that the graph does not have: "raise", or "skip" it.
    """

    kind: Literal["paths", "best_first"] = "paths"
    max_hops: Annotated[int, Ge(1)] = 4
    negatives: Annotated[int, Ge(1)] = 63
    seed: int = 0
    first: Annotated[int, Ge(0)] = 20
    kinds: tuple[str, ...] | None = None
    missing: Literal["raise", "skip"] = "raise"

    def __post_init__(self) -> None:
        as_tuples(self, "kinds")
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLists:
    """The lists of a set of questions, and what was left out of them.

    Attributes:
        questions: all that were given, in order.
        lists: by question, then by path.
        hops: ordered pairs of supporting chunks by the edges of their shortest path: (1, pairs), (2, pairs), …
        unreached: ordered pairs that no path of at most `ListOptions.max_hops` edges joins.
        without_choice: paths that go on to no supporting chunk, or whose every candidate is right; so no list.
        missing: supporting chunks that the graph does not have, and that were skipped.
        alone: questions with less than two supporting chunks in the graph, which have no pairs.
    """

    questions: tuple[TrainingQuestion, ...]
    lists: tuple[TrainingList, ...]
    hops: tuple[tuple[int, int], ...] = ()
    unreached: int = 0
    without_choice: int = 0
    missing: tuple[str, ...] = ()
    alone: int = 0

    def __str__(self) -> str:
        joined = ", ".join(f"{pairs} in {edges}" for edges, pairs in self.hops) or "none"
        return (
            f"{len(self.lists)} lists of {len({each.question for each in self.lists})} of {len(self.questions)} "
            f"questions; pairs of supporting chunks joined, by edges: {joined}; not joined: {self.unreached}; "
            f"paths without a choice: {self.without_choice}; chunks that the graph does not have: "
            f"{len(self.missing)}; questions with less than two chunks: {self.alone}"
        )


def read_training_questions(path: str | Path) -> tuple[TrainingQuestion, ...]:
    """Read JSON lines `{"question": "…", "supporting": ["chunk id", …]}`; other fields are not looked at.

    Args:
        path: of a file, packed by gzip if it ends in ".gz".

    Raises:
        EvaluationError: the file cannot be read or holds no question, or a line is of another layout.
    """
    path = Path(path)
    questions = tuple(_question(row, where) for where, row in read_objects(path))
    if not questions:
        raise EvaluationError(f"{path.name} holds no question")
    return questions


def _question(row: dict[str, Any], where: str) -> TrainingQuestion:
    question, supporting = row.get("question"), row.get("supporting")
    if not isinstance(question, str) or not question.strip():
        raise EvaluationError(f"{where}: 'question' must be a text that is not empty, got {str(question)[:60]!r}")
    if not isinstance(supporting, list) or not all(isinstance(each, str) and each for each in supporting):
        raise EvaluationError(f"{where}: 'supporting' must be a list of ids of chunks, got {str(supporting)[:60]!r}")
    return TrainingQuestion(question=question, supporting=tuple(dict.fromkeys(supporting)))
