"""Run `catena ask`: find cited passages, segments or chains in files, and let a model answer from them."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from catena.cli.console import err, out, picked, plain, printable, tell, write_json
from catena.cli.failures import (
    SOME_FAILED,
    ProblemError,
    check_question,
    hints_for,
    refuse,
    split_hint,
    stands_nowhere,
    tell_degraded,
    tell_unknown,
    unread,
)
from catena.cli.figures import places, shown_figures
from catena.cli.graph_search import GraphChoices, chains_of, present, short_answer_as_json, show_chains
from catena.cli.library import indexed
from catena.cli.llm_options import CallOptions
from catena.cli.options import (
    AsJson,
    BudgetTokens,
    CropFigures,
    NameOptions,
    ReadingChoices,
    file_path,
    flag,
    given_options,
    grouped,
    option,
)
from catena.cli.search import ranking_as_json
from catena.cli.segment_search import SegmentChoices, check_kind, no_segment, segments_as_json, show_segments
from catena.effects import Services, Step
from catena.model import Figure, Hit, Outcome, Ranking, ServiceError, Unknown
from catena.model.places import citation

if TYPE_CHECKING:
    from catena.answering.answers import Answer, Citation, CitedAnswer, SegmentAnswer
    from catena.answering.short_answers import ShortAnswer
    from catena.graph.search import GraphResult
    from catena.library import Library, SegmentSearchOptions
    from catena.library.pipeline import Preparation
    from catena.segments import Extraction, SegmentHit


T = TypeVar("T")
STATES = {
    "exact": ("✓ exact", "green"),
    "normalised": ("✓ in other spelling", "green"),
    "near": ("≈ near", "yellow"),
    "altered": ("✗ altered", "red"),
    "elsewhere": ("✗ elsewhere", "red"),
    "missing": ("✗ missing", "red"),
}
"""State of a quote -> its words and its colour."""


def answer_as_json(written: SegmentAnswer) -> dict[str, Any]:
    """Return an answer with every quote and statement, the passages it was made from, and the conflicts of these."""
    answer = written.answer
    told = None if answer is None else _answer_as_data(answer)
    return {
        "answer": told,
        "passages": [picked(each, "number citation value is_cut segment also") for each in written.context.passages],
        "conflicts": [{**plain(conflict), "note": conflict.note} for conflict in written.conflicts],
        "context_tokens": written.context.tokens,
        "left_out": [
            {"citation": citation(left.segment), "reason": left.reason} for left in written.context.left_out
        ],
    }


def _answer_as_data(answer: CitedAnswer) -> dict[str, Any]:
    made: dict[str, Any] = plain(answer)
    for cited, quoted in zip(answer.citations, made["citations"], strict=True):
        quoted["verified"] = cited.quote.verified
    return {**made, "unsupported": [each.text for each in answer.unsupported], "coverage": answer.coverage}


def show_plain(answer: Answer) -> None:
    """Write an answer without quotes, and on stderr what is wrong with its citations."""
    from rich.text import Text

    out().print(Text(printable(answer.text) + "\n"))
    _tell_citations(answer.cited, answer.unknown)


def show_quoted(written: SegmentAnswer, question: str, figures: Mapping[str, str]) -> None:
    """Write an answer, its quotes and what became of them, conflicts, and the passages; what is unproved on stderr.

    Args:
        written: with an answer.
        question: decides which part of each passage is shown.
        figures: where the figure of a chunk is, by its id.
    """
    from rich.text import Text

    from catena.cli.rendering import passages

    answer = written.answer
    if answer is None:
        return
    out().print(Text(printable(answer.text) + "\n"))
    for cited in answer.citations:
        out().print(_quote(cited))
    for figure in answer.figures:
        place = next((place for place in figures.values() if place.endswith(figure.name)), "")
        out().print(Text(printable(f"{figure}: {place}" if place else str(figure), one_line=True), style="cyan"))
    if answer.citations or answer.figures:
        out().print()
    for conflict in written.conflicts:
        note = Text(printable(conflict.note, one_line=True), style="dim" if conflict.expected else "bold yellow")
        out().print(note)
    if written.conflicts:
        out().print()
    _tell_citations(answer.cited, answer.unknown)
    for statement in answer.unsupported:
        tell(f"{statement.verdict}: {statement.text}")
    for statement in answer.statements:
        if statement.unfounded:
            tell(f"not in what is cited: {', '.join(statement.unfounded)} ({statement.text})")
    shown = [Hit(passage.segment.as_chunk(), passage.value) for passage in written.context.passages]
    pictured = {
        passage.segment.id: figures[chunk]
        for passage in written.context.passages
        for chunk in reversed(passage.segment.chunk_ids)
        if chunk in figures
    }
    out().print(passages(shown, question, answer.cited, figures=pictured))


def _quote(citation: Citation) -> Any:
    """Return a quote with its state and its place; of one that is not as printed, what is printed there."""
    from rich.text import Text

    quote = citation.quote
    state, colour = STATES[quote.state]
    marker = f"[{quote.number}]" if quote.number else "[?]"
    line = Text.assemble((f"{marker} ", "bold"), f"“{printable(quote.text, one_line=True)}” ", (state, colour))
    if citation.source:
        line.append(f"\n    {printable(citation.source, one_line=True)}", style="cyan")
    if quote.printed and not quote.verified:
        line.append(f"\n    printed: “{printable(quote.printed, one_line=True)}”", style="dim")
    return line


def _tell_citations(cited: Sequence[int], unknown: Sequence[int]) -> None:
    if unknown:
        numbers = ", ".join(map(str, unknown))
        tell(f"taken out of the answer: citations of passages that do not exist ({numbers})")
    if not cited:
        tell("the answer cites no passage: do not rely on it")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Passages or segments that were found, and the answer that was written from them.

    Attributes:
        figures: chunk id -> figure and its file.
        answer: as written, with quotes or without.
        problem: why there is no answer though a model was named.
        chains: of `found`, where a walk made it; then the answer is `short`.
        short: of a few words, from the chains.
    """

    found: Ranking | Extraction
    figures: dict[str, tuple[Figure, Path | None]] = field(default_factory=dict)
    answer: Answer | SegmentAnswer | None = None
    problem: str | None = None
    chains: GraphResult | None = None
    short: ShortAnswer | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.found.hits if isinstance(self.found, Ranking) else self.found.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A question to a library, and the models that are asked about what is found.

    Attributes:
        k: passages.
        budget_tokens: of the text that is read; None for the usual.
    """

    question: str
    library: Library
    models: Services
    k: int
    budget_tokens: int | None

    def from_passages(self, options: SegmentSearchOptions, *, quotes: bool) -> _Found:
        """Search for passages, and let the model answer from them, with quotes or without."""
        from catena.answering.answers import answer

        if self.budget_tokens is None:
            ranking = self.library.search(self.question, k=self.k, **options)
        else:
            ranking = self.library.read(self.question, budget_tokens=self.budget_tokens, **options)
        written: Answer | SegmentAnswer | None = None
        problem = None
        if self.models.llm is not None and ranking.hits and quotes:
            written, problem = self._quoted(ranking.hits, ranking.unknown, budget_tokens=None)
        elif self.models.llm is not None and ranking.hits:
            written, problem = self._written(answer(self.question, ranking.hits, nowhere=ranking.unknown))
        shown = shown_figures(self.library, ranking.hits)
        return _Found(found=ranking, figures=shown, answer=written, problem=problem)

    def from_segments(self, choices: SegmentChoices, options: SegmentSearchOptions) -> _Found:
        """Search for segments, and let the model answer from them."""
        from catena.answering.answers import AnswerOptions

        embedder = self.library.stats().embedder
        how = choices.search(self.models.reranker, embedder=embedder, budget_tokens=self.budget_tokens)
        found = self.library.segments(self.question, how, **options)
        if self.models.llm is None or not found.segments:
            return _Found(found=found)
        budget = self.budget_tokens or AnswerOptions().budget_tokens
        written, problem = self._quoted(found.segments, found.unknown, budget_tokens=budget)
        return _Found(found=found, answer=written, problem=problem)

    def from_chains(self, choices: GraphChoices) -> _Found:
        """Find chains, in a graph that is built where there is none, and let the model answer from them.

        Chunks of the ranking that are on no chain are read behind the chains.
        """
        from catena.answering.short_answers import chain_answer

        present(self.library)
        found = chains_of(self.library, self.question, choices, k=self.k, budget_tokens=self.budget_tokens)
        if self.models.llm is None or not found.ranking.hits:
            return _Found(found=found.ranking, chains=found)
        walked_to = {chunk.id for chain in found.chains for chunk in chain.chunks}
        rest = [hit for hit in found.ranking.hits if hit.chunk.id not in walked_to]
        short, problem = self._written(chain_answer(self.question, [*found.chains, *rest]))
        return _Found(found=found.ranking, chains=found, short=short, problem=problem)

    def _quoted(
        self, found: Sequence[Hit] | Sequence[SegmentHit], nowhere: Sequence[Unknown], *, budget_tokens: int | None
    ) -> tuple[SegmentAnswer | None, str | None]:
        """Return an answer each of whose quotes is looked up and no problem, or no answer and the problem.

        Args:
            found: what to answer from, best first.
            nowhere: names in the question that stand nowhere.
            budget_tokens: of all that the model reads; None for no limit.
        """
        from catena.answering.answers import AnswerOptions, answer_from

        names = [hit.chunk.document_id if isinstance(hit, Hit) else hit.segment.document_id for hit in found]
        documents = [self.library.get(name).document for name in dict.fromkeys(names)]
        options = AnswerOptions(budget_tokens=budget_tokens)
        step = answer_from(self.question, found, options, nowhere=nowhere, documents=documents)
        written, problem = self._written(step)
        if written is not None and written.answer is None:
            return None, f"nothing fits into {budget_tokens} tokens"
        return written, problem

    def _written(self, step: Step[T]) -> tuple[T | None, str | None]:
        """Return what a model writes and no problem, or nothing and the problem."""
        from catena.effects import run

        try:
            with err().status("the model is writing …"):
                return run(step, self.models), None
        except ServiceError as error:
            return None, str(error)


@grouped
def ask(
    words: Annotated[
        list[str], typer.Argument(metavar="FILES… QUESTION", help="Files or folders, then the question in quotes.")
    ],
    *,
    k: Annotated[int | None, typer.Option("--k", "-k", min=1, help="How many passages [5].")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Let this OpenAI-compatible model write an answer.")
    ] = None,
    asking: CallOptions,
    no_quotes: Annotated[
        bool, flag("--no-quotes", "Ask for no quotes: a shorter answer, but no statement of it is checked.")
    ] = False,
    segments: Annotated[
        bool,
        flag(
            "--segments", "Answer from segments, which are runs of adjacent chunks; the next options are about them."
        ),
    ] = False,
    budget_tokens: BudgetTokens = None,
    about: SegmentChoices,
    chains: GraphChoices,
    library: Annotated[
        Path | None, option("PATH", "Keep the files in this library, and search all of it.", "--library", "-l")
    ] = None,
    names: NameOptions,
    reading: ReadingChoices,
    figures: CropFigures = False,
    as_json: AsJson = False,
) -> None:
    """Answer a question from files: numbered passages with citations, and with --model a written answer.

    The model gives a quote for each statement. Each quote is looked up in the source: shown are its page and lines,
    and if it is printed there letter by letter, with changes, or not at all; statements without a verified quote
    and fields in which the documents differ are named. The key of the model is read from CATENA_API_KEY or
    OPENAI_API_KEY. Without --model and --rerank nothing leaves this machine. Where the only name in the question is
    not in the files, and one like it is (HX250 for HX200), no model is asked: the answer says so. Other names
    that are not in the files are reported, also to the model.

    With --graph, the answer comes from chains of passages over the graph of the files. It is for questions whose
    answer is spread over several places. The answer is then of a few words, without quotes, and the chains are
    shown hop by hop.
    """
    *files, question = words
    check_question(question)
    if not files and library is None:
        raise ProblemError("there are no files to ask", f'catena ask FILE "{question}"')
    _check_order(files, question)
    paths = [*map(file_path, files)]
    chains.check(
        {
            "--segments": segments,
            "--no-quotes": no_quotes,
            "--entity, --keep-neighbours and --no-names": names.any_given,
        }
    )
    asking.require(model, "--model NAME", no_quotes=no_quotes)
    check_kind(segments, list(given_options(about)), {"-k": k, "--no-quotes": no_quotes})
    if budget_tokens is not None and not chains.graph:
        refuse({"-k": k}, "{}: as much is read as the budget holds", "--budget-tokens for how much")
    about.check(model=model, whole=names.no_names, naming="--model NAME")
    options = names.search()
    preparation = reading.preparation(figures=figures)
    with about.opened(model, asking) as models, _opened(library, preparation, models, create=bool(files)) as opened:
        outcomes = indexed(opened, paths, reading.password) if files else ()
        to_ask = _Asked(question=question, library=opened, models=models, k=k or 5, budget_tokens=budget_tokens)
        if chains.graph:
            asked = to_ask.from_chains(chains)
        elif segments:
            asked = to_ask.from_segments(about, options)
        else:
            asked = to_ask.from_passages(options, quotes=not no_quotes)
    _tell(asked, outcomes)
    if as_json:
        write_json({**_as_json(question, asked, kept=library is not None), "files": outcomes})
    elif not asked.is_empty:
        _show(question, asked, kept=library is not None)
    _end(asked, outcomes)


def _check_order(files: Sequence[str], question: str) -> None:
    """Raise where the last word is a path, and none of those before it is."""
    from catena.store.schema import FILE

    if not files or not os.path.exists(question) or any(map(os.path.exists, files)):
        return
    hint = f'catena ask {shlex.quote(question)} "{files[0]}"'
    if os.path.exists(os.path.join(question, FILE)):
        hint = f'catena ask "{files[0]}" --library {shlex.quote(question)}'
    raise ProblemError(f"{question} is a path, and stands where the question does: it comes last", hint)


def _tell(asked: _Found, outcomes: Sequence[Outcome]) -> None:
    """Say on stderr which files were not read, what failed, and which names stand nowhere."""
    failed = unread(outcomes)
    for outcome in failed if not asked.is_empty or len(failed) > 1 else ():
        tell(f"not read: {_told(outcome)}", "red")
    if not isinstance(asked.found, Ranking) or asked.chains is not None:
        tell_degraded(asked.found.degraded)
    if not asked.is_empty:
        tell_unknown(asked.found)


def _end(asked: _Found, outcomes: Sequence[Outcome]) -> None:
    """Raise where nothing was found, no answer was written, or a file was not read."""
    failed = unread(outcomes)
    if asked.is_empty:
        if failed or asked.found.unknown:
            raise _nothing_found(failed) if failed else stands_nowhere(asked.found)
        raise _nothing_found(()) if isinstance(asked.found, Ranking) else no_segment(asked.found)
    if asked.problem is not None:
        where = "OPENAI_API_KEY or CATENA_API_KEY, --model and --base-url; the passages above needed no model"
        raise ProblemError(f"no answer was written: {asked.problem}", where)
    if failed:
        what = f"{len(failed)} of {len(outcomes)} files were not, or not wholly, read; what is shown is from the rest"
        raise ProblemError(what, _hint(failed), SOME_FAILED)


@contextmanager
def _opened(path: Path | None, preparation: Preparation, models: Services, *, create: bool) -> Iterator[Library]:
    """Open the given library, or one that is gone afterwards."""
    from catena.library import Library

    with ExitStack() as stack:
        if path is None:
            folder = tempfile.TemporaryDirectory(prefix="catena-ask-", ignore_cleanup_errors=True)
            path = Path(stack.enter_context(folder)) / "library"
        library = Library.open(path, preparation=preparation, create=create, services=models)
        yield stack.enter_context(library)


def _nothing_found(failed: Sequence[Outcome]) -> ProblemError:
    if failed:
        what = f"not read: {_told(failed[0])}" if len(failed) == 1 else f"{len(failed)} files were not read"
        return ProblemError(f"{what}; no passage was found", _hint(failed), SOME_FAILED)
    return ProblemError("no passage was found", "other words, or other files", SOME_FAILED)


def _told(failed: Outcome) -> str:
    return f"{failed.source}: {split_hint(failed.reason)[0]}"


def _hint(failed: Sequence[Outcome]) -> str:
    return "; ".join(hints_for(failed)) or "the path and the type of the files named above"


def _as_json(question: str, asked: _Found, *, kept: bool) -> dict[str, Any]:
    """Return all that was found and written; [n] in an answer with quotes is passage n of `passages`."""
    from catena.answering.answers import SegmentAnswer

    if isinstance(asked.found, Ranking):
        found = ranking_as_json(question, asked.found, figures=_figures(asked, kept=kept))
    else:
        found = segments_as_json(question, asked.found)
    if asked.chains is not None:
        return {**short_answer_as_json(asked.short, asked.chains), "problem": asked.problem, **found}
    if isinstance(asked.answer, SegmentAnswer):
        return {**answer_as_json(asked.answer), "problem": None, **found}
    return {"answer": asked.answer, "problem": asked.problem, **found}


def _figures(asked: _Found, *, kept: bool) -> dict[str, tuple[Figure, Path | None]]:
    """Return the figures with their files; those of a library that is not kept are gone with it."""
    return asked.figures if kept else {chunk: (figure, None) for chunk, (figure, _) in asked.figures.items()}


def _show(question: str, asked: _Found, *, kept: bool) -> None:
    from catena.answering.answers import SegmentAnswer
    from catena.cli.rendering import passages

    if asked.chains is not None:
        if asked.short is not None:
            out().print(printable(asked.short.text) + "\n", style="bold")
        show_chains(question, asked.chains)
        return
    figures = places(_figures(asked, kept=kept))
    if isinstance(asked.answer, SegmentAnswer):
        show_quoted(asked.answer, question, figures)
        return
    if asked.answer is not None:
        show_plain(asked.answer)
    if isinstance(asked.found, Ranking):
        cited = asked.answer.cited if asked.answer else None
        out().print(passages(asked.found.hits, question, cited, figures=figures))
    else:
        show_segments(asked.found)
