"""The picture of chains that is looked at first: a box for each chunk, left to right, and between them the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from catena.model import Chain, EvaluationError, Hop, ParameterError
from catena_view.plots.graph_view import excerpt, place_of, title_of, told, why
from catena_view.plots.picture import (
    COLOURS,
    Axis,
    Card,
    Cards,
    Dash,
    Discs,
    Mark,
    Panel,
    Picture,
    Strokes,
    TextMarks,
    card_height,
    card_lines,
    finished,
    lines_of,
    number_of,
    shortened,
)

_BOX, _BETWEEN, _MARGIN = 1.95, 1.3, 0.12  # inches, of a box, between two, and around all
_ABOVE, _BELOW = 0.34, 0.2  # inches above a row, where numbers and scores stand, and below it
_HEADING = 0.3  # inches, of a chain's heading
_SMALL = 6.5  # points, of letters between boxes
_EXCERPT = 4  # lines
_MOST_INCHES = 24.0  # of rows, on one page
_LETTERS, _WIDEST = 10, 10.0  # of the title per inch; inches to which a long one widens the page
_ARROW, _GREY = "#333333", "#8A8A8A"


def chain_strip(
    chains: Sequence[Chain],
    path: str | Path | None = None,
    *,
    questions: Sequence[str] = (),
    columns: int = 4,
    title: str = "Chains, hop by hop",
) -> Picture | Path:
    """Draw chains as rows of boxes from left to right, with the reason for each hop between them.

    A box holds the title of its document, its place, how it begins, and the words of the question that it is first to
    cover; above it stand its number and the scorer's score. Between two boxes stand the kinds of the edge that led
    to the right one, with their weights and shared words. Where the hop did not come from the box before it, the
    arrow begins at the number of the one that it came from; where it came from the first ranking, it says so.

    Args:
        chains: that a walk returned; as many as the page has room for, and at least one.
        path: a .png or .html to write; None returns the picture.
        questions: one per chain, written above it; empty for none.
        columns: boxes in a row, at most; a longer chain goes on in the next row.
        title: of the picture.

    Raises:
        EvaluationError: no chain has a hop.
        ParameterError: `columns` is below 1, there are not as many questions as chains, or the suffix is not known.
        MissingExtraError: the library that draws is not installed.
    """
    if columns < 1:
        raise ParameterError("columns", columns, "1 or more")
    if questions and len(questions) != len(chains):
        raise ParameterError("questions", len(questions), f"empty or one for each of {len(chains)} chains")
    given = [(chain, questions[at] if questions else "") for at, chain in enumerate(chains) if chain.hops]
    if not given:
        raise EvaluationError("a picture of chains needs at least one hop. Try: a question that the walk answers")
    longest = max(len(chain.hops) for chain, _ in given)
    rows = -(-longest // columns)  # of the longest chain, which are about equally long
    page = _Page(-(-longest // rows), _BETWEEN if rows > 1 else 0.0)
    colours: dict[str, str] = {}
    for hop in (hop for chain, _ in given for hop in chain.hops):
        colours.setdefault(hop.chunk.document_id, COLOURS[len(colours) % len(COLOURS)])
    marks: list[Mark] = []
    top, drawn = 0.0, 0
    for number, (chain, question) in enumerate(given, start=1):
        heading = ": ".join(part for part in (f"Chain {number}" if len(given) > 1 else "", question) if part)
        made, tall = _chain(chain, heading, page, colours=colours, top=top)
        if drawn and top + tall > _MOST_INCHES:
            break
        marks += made
        top, drawn = top + tall, number
    panel = Panel(marks=marks, x=Axis(limits=(0, page.width)), y=Axis(limits=(-top, 0)), drawing=True)
    left_out = f" of {len(given)}, the first ones" if drawn < len(given) else ""
    caption = (
        f"{number_of(drawn, 'chain')}{left_out}. Above each box: the number of its hop and the scorer's score, or of "
        "a seed that of its selection. Before it: the kinds of the edge that led to it, their weights, and what the "
        "two chunks share there."
    )
    height, inches = max(top + 0.9, 2.2), max(page.width, 6.0, min(len(title) / _LETTERS, _WIDEST))
    title = shortened(title, round(inches * _LETTERS))
    return finished(Picture(title=title, caption=caption, panels=[panel], height=height, inches=inches), path)


@dataclass(frozen=True, slots=True)
class _Page:
    across: int  # boxes in a row
    before: float  # inches before the first box of a row

    @property
    def width(self) -> float:
        return 2 * _MARGIN + self.before + self.across * _BOX + (self.across - 1) * _BETWEEN


def _chain(
    chain: Chain, heading: str, page: _Page, *, colours: Mapping[str, str], top: float
) -> tuple[list[Mark], float]:
    """Return the marks of one chain from `top` inches down, and how many inches it takes."""
    numbers: dict[str, int] = {}
    for at, hop in enumerate(chain.hops, start=1):
        numbers.setdefault(hop.chunk.id, at)
    marks: list[Mark] = []
    y = -top
    if heading:
        lines = lines_of(heading, page.width - 0.6, 2, 9.5)
        marks.append(
            TextMarks(
                places=[(_MARGIN, y - 0.15 * len(lines))], texts=["\n".join(lines)], size=9.5, bold=True, leading=True
            )
        )
        y -= _HEADING * len(lines)
    for start in range(0, len(chain.hops), page.across):
        row = chain.hops[start : start + page.across]
        boxes = [_box(hop, colours[hop.chunk.document_id]) for hop in row]
        tall = max(box.top for box in boxes)
        y -= _ABOVE
        for at, (hop, box) in enumerate(zip(row, boxes, strict=True)):
            left = _MARGIN + page.before + at * (_BOX + _BETWEEN)
            card = replace(box, left=left, right=left + _BOX, bottom=y - tall, top=y, name=told(hop.chunk))
            marks += _hop(hop, start + at + 1, card, numbers, follows=at > 0)
        y -= tall + _BELOW
    return marks, -top - y


def _box(hop: Hop, colour: str) -> Card:
    """Return what is written in a box, in one of the height that it needs."""
    title = card_lines([(title_of(hop.chunk), 2)], _BOX, bold=True)
    parts = [(place_of(hop.chunk), 2), (f"“{excerpt(hop.chunk)}”", _EXCERPT)]
    covers = [(f"covers: {', '.join(hop.words)}", 2)] if hop.words else []
    lines = [*title, *card_lines([part for part in (*parts, *covers) if part[0]], _BOX)]
    return Card(
        left=0.0, bottom=0.0, right=_BOX, top=card_height(len(lines)), lines=lines, colour=colour, bold=len(title)
    )


def _hop(hop: Hop, number: int, card: Card, numbers: Mapping[str, int], *, follows: bool) -> list[Mark]:
    """Return the box of a hop, its number and score, and before it the arrow with its reason."""
    name = f"hop {number}, score {hop.score:.3f}\n{card.name}"
    disc, score = (card.left + 0.12, card.top + 0.15), (card.left + 0.29, card.top + 0.15)
    marks: list[Mark] = [
        Cards(cards=[card]),
        Discs(places=[disc], label="", colour=card.colour, size=14.0, texts=[str(number)], names=[name]),
        TextMarks(places=[score], texts=[f"{hop.score:.3f}"], size=8.5, bold=True, leading=True),
    ]
    source = numbers.get(hop.came_from)
    if number == 1 and source is None:
        return marks
    y = (card.top + card.bottom) / 2
    tail, head = card.left - _BETWEEN + 0.05, card.left - 0.03
    dash: Dash = "solid" if source is not None else "dotted"
    colour = _ARROW if source is not None else _GREY
    if source is not None and not (follows and source == number - 1):
        tail += 0.16
        disc = (tail - 0.04, y)
        marks.append(Discs(places=[disc], label="", colour=_GREY, size=11.0, texts=[str(source)], names=[""]))
        tail += 0.06
    marks.append(
        Strokes(
            paths=[[(tail, y), (head, y)]], label="", colour=colour, width=2.2, heads=True,
            dash=dash, names=["\n".join(why(hop))],
        )
    )  # fmt: skip
    return [*marks, *_said(hop, card, y)]


def _said(hop: Hop, card: Card, y: float) -> list[Mark]:
    """Return the reason beside its arrow: kinds above it until half of the lines are there, the others below."""
    kinds = [lines_of(text, _BETWEEN - 0.1, 3, _SMALL) for text in why(hop)]
    half, above, below = sum(map(len, kinds)) / 2, list[str](), list[str]()
    for lines in kinds:
        (above if len(above) < half and not below else below).extend(lines)
    made: list[Mark] = []
    for part, side in ((above, 1), (below, -1)):
        if part:
            place = (card.left - _BETWEEN / 2 - 0.02, y + side * (0.1 + len(part) * _SMALL * 1.25 / 144))
            made.append(TextMarks(places=[place], texts=["\n".join(part)], size=_SMALL))
    return made
