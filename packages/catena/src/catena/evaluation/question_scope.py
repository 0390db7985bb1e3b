"""Questions with an answer scope: where in a document stands what answers them, and of which type they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from catena.evaluation.answer_scope import Span
from catena.model.errors import ParameterError
from catena.text.words import normalise_term


@dataclass(frozen=True, slots=True)
class QuestionType:
    """A type of question: its name, as rows carry it, and what a model is told of it."""

    name: str
    meaning: str

    def __post_init__(self) -> None:
        if not normalise_term(self.name):
            raise ParameterError("type of question", self.name, "a name with letters in it")


EIGHT_TYPES = (
    QuestionType(
        "narrative and plot",
        "asks for details or for the order of events in a story, a life or a history that only the whole of it tells",
    ),
    QuestionType(
        "summarisation",
        "asks for the essence of a long passage, of an argument or of a process, with nothing that matters left out",
    ),
    QuestionType(
        "inferential",
        "asks for what is implied and nowhere said: an intention, a mood, what follows from an action",
    ),
    QuestionType(
        "synthesis",
        "asks for something whose parts stand far from each other in the passage and have to be put together",
    ),
    QuestionType(
        "cause and effect",
        "asks why something came about or what it led to, where several circumstances have to be weighed",
    ),
    QuestionType(
        "comparative",
        "asks how ideas, people, things or events differ or are alike, where each of them has to be understood",
    ),
    QuestionType(
        "explanatory",
        "asks how something works or what a difficult idea means, where the explanation takes several sentences",
    ),
    QuestionType(
        "themes and motifs",
        "asks for what runs through the whole: its central message, or a pattern that comes again",
    ),
)
"""The types of MC-indexing, appendix B.1, in our own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeQuestion:
    """A question about one document, and where its answer stands.

    Attributes:
        document: id of the document, the only one that is searched.
        evidence: [start, end) offsets into `Document.text`, ascending; at least one.
        answer: the gold answer, "" where none is known.
        type: the name of its type, "" where it has none.
    """

    id: str
    document: str
    text: str
    evidence: tuple[Span, ...]
    answer: str = ""
    type: str = ""

    def __post_init__(self) -> None:
        spans = self.evidence
        if not spans or list(spans) != sorted(spans) or any(not 0 <= start < end for start, end in spans):
            raise ParameterError("evidence", spans, "one or more spans [start, end), ascending, none of them empty")


@dataclass(frozen=True, slots=True)
class TypeShare:
    """How many questions are of one type, and which share of all."""

    count: int
    share: float


def type_distribution(
    questions: Iterable[ScopeQuestion], types: Sequence[QuestionType] = ()
) -> Mapping[str, TypeShare]:
    """Return how many questions are of each type: Figure 5 of MC-indexing.

    Args:
        questions: a question without a type counts under "".
        types: named first and in this order, also where there is no question of them; others follow, the most
            frequent first, then by name.
    """
    counts = Counter(question.type for question in questions)
    total = counts.total()
    known = [each.name for each in types]
    others = sorted(set(counts) - set(known), key=lambda name: (-counts[name], name))
    return MappingProxyType(
        {name: TypeShare(counts[name], counts[name] / total if total else 0.0) for name in (*known, *others)}
    )
