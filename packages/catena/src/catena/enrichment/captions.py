"""Ask a vision model for the captions of figures, and check each: the failure of one costs no other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from catena import prompts
from catena.effects import Describe, Failed, Step
from catena.model import Degraded, Figure, ParameterError
from catena.text.replies import refuses

LONGEST = 1_500  # characters of a caption: a longer one is a model that does not stop
_NO_PICTURE = re.compile(r"(?i)\s*+(?:unable to |there is no (?:image|picture)|no image)")
_LONGEST_CONTEXT = 600  # characters of each text around a figure that a model is given


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureContext:
    """The texts around a figure: its headings, and what is printed before and after it."""

    path: str = ""
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class CaptionedFigures:
    """All figures in order, those with a caption that got one, and why the others did not."""

    figures: tuple[Figure, ...]
    failures: tuple[Degraded, ...] = ()


def caption_figures(figures: Sequence[Figure], contexts: Sequence[FigureContext]) -> Step[CaptionedFigures]:
    """Ask a vision model for the caption of each figure.

    Equal pictures in equal surroundings are asked for once by the journal; a refusal, an empty reply and one
    that does not end are not taken. A figure whose request failed keeps the caption it had.

    Args:
        figures: with their pictures.
        contexts: one per figure.

    Raises:
        ParameterError: there are not as many contexts as figures.
    """
    if len(contexts) != len(figures):
        raise ParameterError("contexts", len(contexts), f"{len(figures)} values, one per figure")
    if not figures:
        return CaptionedFigures(())
    replies = yield [_request(figure, context) for figure, context in zip(figures, contexts, strict=True)]
    named = list(zip(figures, replies, strict=True))
    lost = ((figure.name, reply.error) for figure, reply in named if isinstance(reply, Failed))
    return CaptionedFigures(
        tuple(f if isinstance(reply, Failed) else replace(f, caption=" ".join(reply.split())) for f, reply in named),
        tuple(Degraded(f"caption of {name}", str(error) or type(error).__name__) for name, error in lost),
    )


def _request(figure: Figure, context: FigureContext) -> Describe:
    prompt = prompts.load("figure_caption")
    shown = {"path": context.path, "title": figure.title, "before": context.before, "after": context.after}
    asked = prompt.filled(**{name: _short(text) for name, text in shown.items()})
    # a picture's request has no field for the task or its version: both are part of the text, and so of its key
    text = f"{prompt.system}\n\n{asked}\n\n({prompt.version})"
    return Describe(image=figure.png, prompt=text, purpose="figure caption", validate=check_caption)


def _short(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_CONTEXT] or "(none)"


def check_caption(text: str) -> None:
    """Raise ValueError for a reply that is no caption: a refusal, or longer than any caption."""
    if len(text) > LONGEST:
        raise ValueError(f"a caption of {len(text)} characters, more than {LONGEST}")
    if refuses(text) or _NO_PICTURE.match(text):
        raise ValueError("the model refused to describe the picture")
