"""Write an answer from numbered passages, as a step, and check what it cites against them.

In order: an answer with markers alone, an answer whose statements are proved by quotes, and the standard way from
segments to such an answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any, Protocol, TypeAlias, runtime_checkable

from annotated_types import Ge

from catena import prompts
from catena.answering.conflict_finding import Conflict, conflicts
from catena.answering.integration import IntegratedContext, Layout, ValuedSegment, inside, integrate
from catena.answering.quotes import Citable, Quote, VerifiedQuote, sources, verify_quotes
from catena.answering.support import ComparedWords, Proof, nearest_of, proof_of, split_values, words_about
from catena.answering.written import check_citations, read_reply, statements_in
from catena.effects import Complete, Step, ask
from catena.model import (
    CAPTION,
    Checked,
    Chunk,
    Document,
    Hit,
    ParameterError,
    Segment,
    Unknown,
    citation,
    shown_text,
)
from catena.model.figures import figure_link, figure_links
from catena.structure.views import DSRAG, HeaderTemplate, segment_header
from catena.text import Wording, count_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer of a model, with only citations that hold.

    Attributes:
        cited: numbers of the passages it cites, from 1, in the order of their first mention.
        unknown: numbers it cited though there is no such passage; they are not in `text` any more.
    """

    text: str
    cited: tuple[int, ...]
    unknown: tuple[int, ...]
    input_tokens: int = 0
    output_tokens: int = 0


def answer(
    question: str, passages: Sequence[Hit], *, nowhere: Sequence[Unknown] = (), max_tokens: int = 1024
) -> Step[Answer]:
    """Write an answer from passages; passage n of the answer's [n] is `passages[n - 1]`.

    Args:
        question: what the user asks, as typed.
        passages: best first, at least one.
        nowhere: names in the question that no document has, see `Ranking.unknown`: the model says so of them.
        max_tokens: of the answer.

    Raises:
        ParameterError: there are no passages.
        ServiceError: the model failed, or its reply was truncated, refused or empty.
    """
    if not passages:
        raise ParameterError("passages", (), "at least one hit")
    places: Any = {"question": inside(question), "passages": numbered(passages), "nowhere": listed(nowhere)}
    request = Complete.of(prompts.load("answer"), "answer", max_tokens=max_tokens, **places)
    (reply,) = yield from ask([request])
    checked = check_citations(reply.text.strip(), len(passages))
    return Answer(
        text=checked.text,
        cited=checked.cited,
        unknown=checked.unknown,
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
    )


def numbered(passages: Sequence[Hit]) -> str:
    """Return the passages as the model reads them: number, citation, text; no text can end its own passage."""
    return "\n".join(marked(number, hit) for number, hit in enumerate(passages, start=1))


def marked(number: int, passage: Hit) -> str:
    """Return one passage as the model reads it, under a number."""
    source = _quoted(citation(passage.chunk))
    return f'<passage number="{number}" from="{source}">\n{inside(readable(passage))}\n</passage>'


def listed(told: Sequence[object]) -> str:
    """Return the notes that the model is given beside the passages, a line each; "(none)" where there are none."""
    return "\n".join(f"- {_quoted(str(each))}" for each in told) or "(none)"


def readable(hit: Hit) -> str:
    """Return a passage's text; a figure's with what a model saw in it, a table's below its header."""
    seen = hit.chunk.metadata.get(CAPTION)
    text = shown_text(hit.chunk).strip()
    return f"{text}\n(The figure, described by a model: {seen})" if seen else text


def _quoted(text: str) -> str:
    return text.replace("<", "‹").replace(">", "›").replace('"', "'")


@runtime_checkable
class ReadableContext(Protocol):
    """Passages that are already one text for a model, as `integrate` makes it."""

    @property
    def text(self) -> str: ...
    @property
    def passages(self) -> Sequence[Citable]: ...


Context: TypeAlias = ReadableContext | Sequence[Citable]

_FIGURE = re.compile(r"(?:(?<![ \t])[ \t]++)?\[(F\d{1,4})\]")
_VERDICTS: Mapping[Proof, str] = {
    "unsupported": "no verified quote",
    "unchecked": "a verified quote, whose words do not tell whether it proves this",
}


@dataclass(frozen=True, slots=True)
class Citation:
    """A quote of an answer as verified, and its place in words; "" where it was not found."""

    quote: VerifiedQuote
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A sentence, an item or a row of an answer.

    Attributes:
        cited: numbers of the passages it cites.
        citations: indexes of the quotes that were given for it, from 0, in `CitedAnswer.citations`.
        proof: what they are worth:
            `supported`: one of them is verified and shares a content word, a value or a name with it; those that do
                have all its numbers, and one of them is negated as it is. Nothing of it is `unfounded`.
            `unchecked`: one is verified, but its words do not tell whether it proves this: it shares nothing, as
                where the answer is in another language, lacks a number, or says "not" where this does not.
            `unsupported`: none is verified, or none was given for it.
        unfounded: its values and names that stand in none of the passages it cites; see `verify_answer` for what this
            check can and cannot see.
    """

    text: str
    cited: tuple[int, ...] = ()
    citations: tuple[int, ...] = ()
    proof: Proof = "unsupported"
    unfounded: tuple[str, ...] = ()

    @property
    def supported(self) -> bool:
        """Say whether a verified quote speaks of it: a check of words, not of meaning."""
        return self.proof == "supported"

    @property
    def verdict(self) -> str:
        """Return a note on its proof for a reader; "" where it is supported."""
        return _VERDICTS.get(self.proof, "")


@dataclass(frozen=True, slots=True)
class ShownFigure:
    """A figure in a passage, which an answer may show.

    Attributes:
        id: what an answer calls it, e.g. "F1".
        name: of its file, see `Figure`.
        title: its printed title, or the words inside it.
        passage: number of the passage.
    """

    id: str
    name: str
    title: str
    passage: int
    document_id: str

    def __str__(self) -> str:
        return f"[{self.id}] {self.title or 'a figure without a title'} (passage {self.passage})"


def figures_in(passages: Sequence[Citable]) -> tuple[ShownFigure, ...]:
    """Return the figures of passages, each once, named F1, F2, … in their order."""
    links = {link.name: (link, of) for of in reversed(sources(passages)) for link in figure_links(of.found.text)}
    ordered = sorted(links.values(), key=lambda pair: (pair[1].number, pair[0].start))
    return tuple(
        ShownFigure(f"F{number}", link.name, link.title or link.labels, of.number, of.found.document_id)
        for number, (link, of) in enumerate(ordered, start=1)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedAnswer:
    """An answer with the verdict on each of its statements and quotes.

    Attributes:
        text: without the quotes, and without numbers of passages that do not exist.
        citations: the quotes, in the order in which they were given.
        statements: of the text, in order.
        cited: numbers of the passages it cites, in the order of their first mention.
        unknown: numbers that were cited in the text though there is no such passage.
        figures: those that it shows, in the order of their first mention.
    """

    text: str
    citations: tuple[Citation, ...]
    statements: tuple[Statement, ...]
    cited: tuple[int, ...]
    unknown: tuple[int, ...]
    figures: tuple[ShownFigure, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def unsupported(self) -> tuple[Statement, ...]:
        """The statements that are not supported; one that says that nothing is known is among them."""
        return tuple(statement for statement in self.statements if not statement.supported)

    @property
    def coverage(self) -> float:
        """Share of the statements that are supported, from 0 to 1; 0 where nothing is stated."""
        return sum(statement.supported for statement in self.statements) / max(1, len(self.statements))


def answer_cited(
    question: str,
    context: Context,
    *,
    nowhere: Sequence[Unknown] = (),
    conflicts: Sequence[object] = (),
    documents: Iterable[Document] = (),
    max_tokens: int = 2048,
) -> Step[CitedAnswer]:
    """Write an answer with a quote for each statement, and look each quote up in the passage it cites.

    Args:
        question: what the user asks, as typed.
        context: an integrated context, or passages, best first; at least one passage.
        nowhere: names in the question that no document has, see `Ranking.unknown`: the model says so of them.
        conflicts: values of one thing in which documents differ, each shown as `str` says it.
        documents: where given, the pages of a quote are its own, not those of its passage.
        max_tokens: of answer and quotes.

    Returns:
        The answer with its flags, however untidy the reply is.

    Raises:
        ParameterError: there are no passages, two have one number, or a document is of another version.
        ServiceError: the model failed, or its reply was truncated, refused or empty.
    """
    passages = context.passages if isinstance(context, ReadableContext) else context
    if not passages:
        raise ParameterError("passages", (), "at least one")
    kept = tuple(documents)
    verify_quotes((), passages, documents=kept)  # what is wrong with them shows before anything is paid for
    places: Any = {"question": inside(question), "passages": _shown(context), "nowhere": listed(nowhere)}
    places["conflicts"] = listed(conflicts)
    request = Complete.of(prompts.load("cited_answer"), "cited answer", max_tokens=max_tokens, **places)
    (reply,) = yield from ask([request])
    checked = check_answer(reply.text, passages, documents=kept)
    return replace(checked, input_tokens=reply.input_tokens, output_tokens=reply.output_tokens)


def _shown(context: Context) -> str:
    """Return the passages as the model reads them, and which of their figures it may show."""
    if isinstance(context, ReadableContext):
        text, figures = context.text, figures_in(context.passages)
    else:
        text = "\n".join(marked(source.number, Hit(source.found, 0.0)) for source in sources(context))
        figures = figures_in(context)
    return f"{text}\n\nFigures that you may show:\n{listed(figures)}" if figures else text


def check_answer(reply: str, passages: Sequence[Citable | str], *, documents: Iterable[Document] = ()) -> CitedAnswer:
    """Check an answer with quotes that any model wrote, in the form that `answer_cited` asks for or near it.

    A quote belongs to the statements that cite its passage and share a content word, a value or a name with it; of
    several quotes of one passage those that share most, and those with a value that these have not. One that shares
    nothing with any statement, as in a translation, belongs to the statements of its passage that have none, and
    leaves them `unchecked`. A quote without a number belongs to the passage that has it.

    Args:
        reply: an answer with markers [n], and below it quotes `[n] "..."`.
        passages: numbered from 1, or with numbers of their own; a bare text is a document of its own.
        documents: where given, the pages of a quote are its own, not those of its passage.

    Raises:
        ParameterError: two passages have one number, or a document is of another version than a passage.
    """
    citable: list[Citable] = [
        Chunk(id=str(n), document_id=str(n), position=0, start=0, end=len(each), text=each)
        if isinstance(each, str)
        else each
        for n, each in enumerate(passages, start=1)
    ]
    given = {source.number: source for source in sources(citable)}
    written = read_reply(reply)
    quotes = _verified(written.quotes, citable, tuple(documents))
    citations = tuple(
        Citation(quote, given[quote.passage].cited(quote.place) if quote.passage in given else "") for quote in quotes
    )
    figures = {figure.id: figure for figure in figures_in(citable)}
    named = dict.fromkeys(name for name in _FIGURE.findall(written.text) if name in figures)
    unnamed = _FIGURE.sub(lambda found: "" if found[1] in figures else found[0], written.text)
    checked = check_citations(unnamed, given.keys())
    texts = statements_in(checked.text)
    cited = [check_citations(text, given.keys()).cited for text in texts]
    about = {number: words_about(given[number]) for number in checked.cited}
    said = [ComparedWords(text) for text in texts]
    quoted = [ComparedWords(quote.text) for quote in quotes]
    belonging = _belonging(said, cited, quotes, quoted, about)

    def statement(place: int) -> Statement:
        headed = [about[number] for number in cited[place]]
        verified = [quoted[index] for index in belonging[place] if quotes[index].verified]
        unfounded = split_values(texts[place], headed)[1] if headed else ()
        proof = proof_of(said[place], verified, headed)
        how: Proof = "unchecked" if proof == "supported" and unfounded else proof
        quoting, text = belonging[place], texts[place]
        return Statement(text=text, cited=cited[place], citations=quoting, proof=how, unfounded=unfounded)

    return CitedAnswer(
        text=checked.text,
        citations=citations,
        statements=tuple(map(statement, range(len(texts)))),
        cited=checked.cited,
        unknown=checked.unknown,
        figures=tuple(map(figures.__getitem__, named)),
    )


def _belonging(
    said: Sequence[ComparedWords],
    cited: Sequence[Sequence[int]],
    quotes: Sequence[VerifiedQuote],
    quoted: Sequence[ComparedWords],
    about: Mapping[int, Wording],
) -> list[tuple[int, ...]]:
    """Return for each statement the indexes of its quotes."""
    of_passage: dict[int, list[int]] = {}
    for index, quote in enumerate(quotes):
        of_passage.setdefault(quote.number, []).append(index)
    found: list[tuple[int, ...]] = []
    for statement, numbers in zip(said, cited, strict=True):
        own: list[int] = []
        for number in numbers:
            indexes = of_passage.get(number, [])
            nearest = nearest_of(statement, [quoted[index] for index in indexes], [about[number]])
            own += [indexes[place] for place in nearest]
        found.append(tuple(own))
    taken = {index for own in found for index in own}
    return [
        own or tuple(index for number in numbers for index in of_passage.get(number, ()) if index not in taken)
        for own, numbers in zip(found, cited, strict=True)
    ]


def _verified(
    quotes: Sequence[Quote], passages: Sequence[Citable], documents: Sequence[Document]
) -> tuple[VerifiedQuote, ...]:
    first = verify_quotes(quotes, passages, documents=documents)
    placed = [
        Quote(found.passage, quote.text) if quote.number == 0 and found.passage is not None else quote
        for quote, found in zip(quotes, first, strict=True)
    ]
    return verify_quotes(placed, passages, documents=documents) if placed != list(quotes) else first


_MARKS = {"exact": "✓ exact", "normalised": "✓ in other spelling"}


def render(cited: CitedAnswer) -> str:
    """Return an answer as Markdown, its quotes below it as notes, each with its place and whether it holds."""
    notes = [_note(citation) for citation in cited.citations]
    shown = [figure_link(figure.name, figure.title) for figure in cited.figures]
    flags = [f"✗ {statement.verdict}: {statement.text}" for statement in cited.unsupported]
    unfounded = (statement for statement in cited.statements if statement.unfounded)
    flags += [f"✗ not in what is cited: {', '.join(each.unfounded)} ({each.text})" for each in unfounded]
    unknown = [f"✗ cited, but no passage: {', '.join(map(str, cited.unknown))}"] if cited.unknown else []
    blocks = [
        cited.text,
        *shown,
        *("\n".join(f"- {line}" for line in lines) for lines in (notes, [*flags, *unknown]) if lines),
    ]
    return "\n\n".join(blocks) + "\n"


def _note(citation: Citation) -> str:
    quote = citation.quote
    said = f"“{' '.join(quote.text.split())}”"
    marker = f"[{quote.number}]" if quote.number else "(no number)"
    if quote.state == "missing":
        return f"{marker} {said} ✗ not found in the source"
    if quote.state == "elsewhere":
        return f"{marker} {said} ✗ not there, but in [{quote.passage}] {citation.source}"
    verdict = _MARKS.get(quote.state) or f"{'≈' if quote.state == 'near' else '✗'} {quote.state}: {_changes(quote)}"
    return f"{marker} {citation.source}: {said} {verdict}"


def _changes(quote: VerifiedQuote) -> str:
    return "; ".join(
        f"“{' '.join(each.quoted.split())}” where the source has “{' '.join(each.printed.split())}”"
        for each in quote.differences
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions(Checked):
    """The options of an answer: the passages that the model is given, and the length it may write.

    Attributes:
        budget_tokens: of all passages together, headers and markers counted; None for no limit.
        layout: of the passages, as `catena.answering.integrate` takes it.
        cut: shorten the first segment that does not fit, instead of leaving it out.
        header: the words over the passages of a document; None for none.
        conflicts: look for fields that passages give different values for, and tell the model of them.
        max_tokens: of answer and quotes.
    """

    budget_tokens: Annotated[int, Ge(0)] | None = 4_000
    layout: Layout = "grouped"
    cut: bool = True
    header: HeaderTemplate | None = DSRAG
    conflicts: bool = True
    max_tokens: Annotated[int, Ge(1)] = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentAnswer:
    """An answer with the context and the conflicts that it was written from.

    Attributes:
        answer: None where there was no passage to answer from; then no model was asked.
        context: what the model read; passage n is the answer's [n].
        conflicts: fields for which the passages print different values.
    """

    question: str
    answer: CitedAnswer | None
    context: IntegratedContext
    conflicts: tuple[Conflict, ...] = ()

    def as_json(self, first: str, last: str, *, unplaced: Collection[int] = ()) -> dict[str, Any]:
        """Return what the answer rests on in values that JSON has: quotes, conflicts, unproved statements, figures.

        Args:
            first: key of the offset at which a quote begins in its document.
            last: key of the offset at which it ends.
            unplaced: numbers of the passages without offsets: quotes that are found in them have none.
        """
        answer, named = self.answer, ("label", "note", "kind", "expected")
        quotes = () if answer is None else answer.citations
        return {
            "coverage": 0.0 if answer is None else answer.coverage,
            "figures": [] if answer is None else [asdict(figure) for figure in answer.figures],
            "citations": [_as_json(each, (first, last), each.quote.passage in unplaced) for each in quotes],
            "conflicts": [
                {**{name: getattr(each, name) for name in named}, "passages": list(each.numbers)}
                for each in self.conflicts
            ],
            "unsupported": [] if answer is None else [statement.text for statement in answer.unsupported],
        }


def _as_json(cited: Citation, offsets: tuple[str, str], is_unplaced: bool) -> dict[str, Any]:
    quote = cited.quote
    places = {name: getattr(quote, name) for name in ("pages", "page_labels", "lines")}
    return {
        **{name: getattr(quote, name) for name in ("number", "verified", "state", "document_id")},
        "quote": quote.text,
        "citation": cited.source,
        **dict(zip(offsets, (None, None) if is_unplaced else (quote.start, quote.end), strict=True)),
        **{name: None if place is None else list(place) for name, place in places.items()},
        "boxes": [list(box) for box in quote.boxes],
    }


def answer_from(
    question: str,
    segments: Sequence[Segment | Hit | ValuedSegment],
    options: AnswerOptions | None = None,
    *,
    nowhere: Sequence[Unknown] = (),
    documents: Iterable[Document] = (),
) -> Step[SegmentAnswer]:
    """Write an answer from segments of any number of documents, every statement with a quote that is looked up.

    Args:
        question: as typed.
        segments: as `Extraction.segments` has them, hits, or bare segments, best first.
        options: how.
        nowhere: names in the question that no document has.
        documents: where given, the pages of a quote are its own, not those of its passage.

    Raises:
        ServiceError: the model failed, or its reply was truncated, refused or empty.
    """
    how = options or AnswerOptions()
    context = integrate(
        segments,
        budget_tokens=how.budget_tokens,
        count=count_tokens,
        layout=how.layout,
        cut=how.cut,
        header=(lambda _: "") if how.header is None else partial(segment_header, template=how.header),
    )
    found = conflicts(context.passages) if how.conflicts else ()
    if not context.passages:
        return SegmentAnswer(question=question, answer=None, context=context)
    notes, most = [conflict.note for conflict in found], how.max_tokens
    written = yield from answer_cited(
        question, context, nowhere=nowhere, conflicts=notes, documents=documents, max_tokens=most
    )
    return SegmentAnswer(question=question, answer=written, context=context, conflicts=found)
