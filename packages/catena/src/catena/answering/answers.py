"""A written answer from numbered passages, as a step; its citations are checked against them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catena import prompts
from catena.answering.citations import check_citations
from catena.answering.layout import inside
from catena.effects import Complete, Step, ask
from catena.model import Hit, Unknown
from catena.model.errors import ParameterError
from catena.model.figures import CAPTION
from catena.model.places import citation


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model wrote, with only citations that hold.

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
        nowhere: names in the question that stand nowhere, as `Ranking.unknown` has them: the model says so of them.
        max_tokens: of the answer.

    Raises:
        ParameterError: there are no passages.
        ServiceError: the model failed, or its reply was truncated, refused or empty.
    """
    if not passages:
        raise ParameterError("passages", (), "at least one hit")
    prompt = prompts.load("answer")
    request = Complete(
        prompt=prompt.filled(question=inside(question), passages=numbered(passages), nowhere=listed(nowhere)),
        purpose="answer",
        system=prompt.system,
        max_tokens=max_tokens,
        prompt_version=prompt.version,
    )
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
    """Return what the model is told beside the passages, a line each; "(none)" where that is nothing."""
    return "\n".join(f"- {_quoted(str(each))}" for each in told) or "(none)"


def readable(hit: Hit) -> str:
    """Return a passage's text; a figure's with what a model saw in it, as a reader of text cannot."""
    seen = hit.chunk.metadata.get(CAPTION) if hit.chunk.kind == "figure" else None
    return f"{hit.chunk.text.strip()}\n(The figure, described by a model: {seen})" if seen else hit.chunk.text.strip()


def _quoted(text: str) -> str:
    return text.replace("<", "‹").replace(">", "›").replace('"', "'")
