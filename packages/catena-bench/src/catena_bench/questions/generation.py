"""Make questions with answer scopes from documents by a language model, section by section, as a step.

made = run(generate_scope_questions(document, chunks), services)
write_scope_dataset("my_questions", ScopeDataset.of([(document, sections)], made.questions))
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from catena import Chunk, Degraded, Document, prompts
from catena.effects import Complete, Step, answer_of
from catena.model import ParameterError, ServiceError, digest
from catena.text import last_value, normalise_term, tokenise
from catena_bench.questions.dataset import EIGHT_TYPES, QuestionType, ScopeQuestion
from catena_bench.questions.span_answers import CopySource

LONGEST_QUESTION = 400  # characters
LONGEST_ANSWER = 2_000

_OF_TEXT = r"(?:text|passage|section|excerpt|paragraph|chapter|content|context|reference text|snippet|material)"
_LEAK = re.compile(
    rf"\b(?:this|given|provided|above|following|preceding|supplied) (?:\w+ )?{_OF_TEXT}s?\b"
    rf"|\b(?:according to|based on|as (?:per|described|stated|mentioned|discussed) in|from) the {_OF_TEXT}s?\b"
    rf"|\b(?:described|stated|mentioned|discussed|presented|outlined|given|listed) in the {_OF_TEXT}s?\b"
    rf"|\b(?:in|of) the (?:text|passage|excerpt|reference text)(?=\s*[?.,;!]|\s*$)"
    r"|\b(?:does|did) the (?:text|passage|excerpt)\b"
    rf"|\bthe {_OF_TEXT}s? (?:above|below|says?|states?|mentions?)\b"
    r"|\b(?:mentioned|described|stated|listed|shown|given) (?:above|below)\b"
    r"|\b(?:laut|gemäß) (?:dem |diesem )?(?:text|abschnitt)|\bin (?:diesem|dem obigen) (?:text|abschnitt|kapitel)\b"
    r"|\b(?:selon|d['’]après) (?:le |ce )(?:texte|passage)\b|\bdans (?:ce|cette) (?:texte|passage|section)\b"
    r"|\bsegún el (?:texto|pasaje)\b|\ben (?:este|esta) (?:texto|pasaje|sección)\b"
    r"|(?:根据|依据|按照)(?:本文|上文|以上|文中|这段)|本(?:节|段|章)|上述(?:文|段|内容)|(?:この|本)(?:文章|節|段落)",
    re.IGNORECASE,
)
_NO_ANSWER = re.compile(
    r"\W*(?:n/?a|none|null|unknown|not (?:answerable|known|given|stated|specified))\W*", re.IGNORECASE
)


PURPOSE = "scope questions"
"""The purpose of every request made here, as a plan counts it."""
LEAST_WORDS = 40  # of a section that is asked about: a shorter one has no long answer in it
_SHOWN = " › "
_TAGS = ("section",)


class Draft(NamedTuple):
    """A question as a model wrote it; what is missing or of another form is ""."""

    question: str
    type: str
    answer: str
    support: tuple[str, ...]


def read_drafts(reply: str) -> tuple[Draft, ...]:
    """Return the questions of a reply: the last objects in a JSON list, in an object, or one after the other.

    Raises:
        ValueError: no object in it has a question and a supporting sentence.
    """
    drafts = last_value(reply, _drafts)
    if drafts is None:
        raise ValueError('the reply holds no JSON list of objects with "question" and "support"')
    return drafts


def problem_of(draft: Draft) -> str:
    """Return what makes a question useless, its section aside, "" for nothing."""
    if not any(map(str.isalpha, draft.question)):
        return "there is no question"
    if len(draft.question) > LONGEST_QUESTION:
        return f"a question of {len(draft.question)} characters, more than {LONGEST_QUESTION}"
    if leak := _LEAK.search(draft.question):
        return f"it speaks of the text it was made from: {leak.group()!r}"
    if not any(map(str.isalnum, draft.answer)) or _NO_ANSWER.fullmatch(draft.answer):
        return "it has no answer"
    if len(draft.answer) > LONGEST_ANSWER:
        return f"an answer of {len(draft.answer)} characters, more than {LONGEST_ANSWER}"
    return "" if draft.support else "it has no supporting sentences"


def _drafts(value: Any) -> tuple[Draft, ...] | None:
    listed = value if isinstance(value, list) else [value]
    drafts = tuple(_draft(each) for each in listed if isinstance(each, dict))
    return drafts if any(draft.question and draft.support for draft in drafts) else None


def _draft(given: dict[Any, Any]) -> Draft:
    support = given.get("support")
    listed = support if isinstance(support, list) else [support]
    return Draft(
        question=_text(given.get("question")),
        type=_text(given.get("type")),
        answer=_text(given.get("answer")),
        support=tuple(each for each in listed if isinstance(each, str) and each.strip()),
    )


def _text(given: object) -> str:
    return given.strip() if isinstance(given, str) else ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A question that was made and is not used: of which chunk (id), in which words, and why."""

    chunk: str
    question: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedQuestions:
    """The questions of one document, in its order.

    Attributes:
        rejected: what was made and is of no use.
        degraded: sections for which there are none, as the model failed or wrote something else.
        too_short: ids of the chunks that were not asked about, as they have less than `LEAST_WORDS` words.
    """

    questions: tuple[ScopeQuestion, ...]
    rejected: tuple[Rejected, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    too_short: tuple[str, ...] = ()


def generate_scope_questions(
    document: Document,
    chunks: Sequence[Chunk],
    *,
    per_section: int = 3,
    types: Sequence[QuestionType] = EIGHT_TYPES,
    guidance: str = "",
    max_tokens: int = 2048,
) -> Step[GeneratedQuestions]:
    """Let a model write questions about each section, with type, short answer and the sentences that support it.

    One request per section, so that a journal answers for every section that did not change. A question is kept when
    its supporting sentences stand in its section (see `CopySource.find` for how exactly), so that its evidence is
    exact slices of the document; and when it has an answer, one of the types, words that no other question of the
    document has, and none that point at the text ("according to this section"), which no reader of the question sees.

    Args:
        document: what `chunks` were cut from.
        chunks: its sections, as `cut_sections` gives them, or any other chunks.
        per_section: questions asked for, at least 1; a model may write fewer, and what is more is not taken.
        types: those that a question may have, at least one, by distinct names.
        guidance: told to the model as the user's wish, e.g. whom the questions are for; "" for none.
        max_tokens: of one reply.

    Raises:
        ParameterError: a chunk is no slice of the document, per_section is below 1, or the types are none or alike.
        CatenaError: not a failure of the model, but of what surrounds it (no service, the budget, the journal).

    Source: MC-indexing, section 4.1, appendix B and Figure 6; the wording is ours. Its demand for a scope of 50 to
    500 tokens is made of the model and not enforced.
    """
    _check(document, chunks, per_section, types)
    too_short = [chunk.id for chunk in chunks if len(chunk.text.split()) < LEAST_WORDS]
    asked = [chunk for chunk in chunks if chunk.id not in set(too_short)]
    requests = [
        _request(document, chunk, per_section=per_section, types=types, guidance=guidance, max_tokens=max_tokens)
        for chunk in asked
    ]
    replies: Sequence[Any] = (yield requests) if requests else ()
    names = {normalise_term(each.name): each.name for each in types}
    sieve = _Sieve(document, names, per_section)
    degraded: list[Degraded] = []
    for chunk, reply in zip(asked, replies, strict=True):
        what = f"questions about section {chunk.section} of {document.id}"
        if isinstance(found := answer_of(reply, read_drafts), ServiceError):
            degraded.append(Degraded(what, str(found)))
        else:
            sieve.take(chunk, found)
    return GeneratedQuestions(
        questions=tuple(sieve.kept),
        rejected=tuple(sieve.rejected),
        degraded=tuple(degraded),
        too_short=tuple(too_short),
    )


class _Sieve:
    """Keeps what is of use of the questions of a document, and says why of the rest."""

    def __init__(self, document: Document, names: Mapping[str, str], per_section: int) -> None:
        self._document, self._names, self._per_section = document, names, per_section
        self._seen: set[tuple[str, ...]] = set()
        self.kept: list[ScopeQuestion] = []
        self.rejected: list[Rejected] = []

    def take(self, chunk: Chunk, drafts: Sequence[Draft]) -> None:
        source = CopySource(chunk.text)
        free = self._per_section
        for draft in drafts:
            question = self._judged(chunk, source, draft) if free else f"more than {self._per_section} were written"
            if isinstance(question, str):
                self.rejected.append(Rejected(chunk.id, draft.question, question))
                continue
            self._seen.add(tuple(tokenise(question.text)))
            self.kept.append(question)
            free -= 1

    def _judged(self, chunk: Chunk, source: CopySource, draft: Draft) -> ScopeQuestion | str:
        """Return the question, or why it is of no use."""
        if problem := problem_of(draft):
            return problem
        text = " ".join(draft.question.split())
        if tuple(tokenise(text)) in self._seen:
            return "another question of the document has the same words"
        name = self._names.get(normalise_term(draft.type))
        if name is None:
            return f"{draft.type[:60]!r} is none of the types" if draft.type else "it has no type"
        spans, missing = source.find_all(draft.support)
        if missing:
            return f"a supporting sentence does not stand in the section: {missing[0][:80]!r}"
        return ScopeQuestion(
            id=digest(self._document.id, text),
            document=self._document.id,
            text=text,
            evidence=tuple((start + chunk.start, end + chunk.start) for start, end in spans),
            answer=" ".join(draft.answer.split()),
            type=name,
        )


def _request(
    document: Document,
    chunk: Chunk,
    *,
    per_section: int,
    types: Sequence[QuestionType],
    guidance: str,
    max_tokens: int,
) -> Complete:
    return Complete.of(
        prompts.load("scope_questions"),
        PURPOSE,
        max_tokens=max_tokens,
        validate=read_drafts,
        document=prompts.shut_in(document.title.strip(), *_TAGS) or "(unknown)",
        headings=prompts.shut_in(_SHOWN.join(filter(None, chunk.path)).strip(), *_TAGS) or "(none)",
        types="\n".join(f"- {each.name}: {each.meaning}" for each in types),
        section=prompts.shut_in(chunk.text.strip(), *_TAGS),
        guidance=guidance.strip() or "(nothing)",
        number=str(per_section),
    )


def _check(document: Document, chunks: Sequence[Chunk], per_section: int, types: Sequence[QuestionType]) -> None:
    if per_section < 1:
        raise ParameterError("per_section", per_section, "1 or more")
    names = [normalise_term(each.name) for each in types]
    if not names or len(set(names)) < len(names):
        raise ParameterError("types", tuple(each.name for each in types), "at least one, by distinct names")
    for chunk in chunks:
        if chunk.document_id != document.id or document.text[chunk.start : chunk.end] != chunk.text:
            raise ParameterError("chunk", chunk.id, f"a slice of document {document.id!r}, as its text is now")
    if twice := [name for name, times in Counter(chunk.id for chunk in chunks).items() if times > 1]:
        raise ParameterError("chunks", twice[0], "given once each")
