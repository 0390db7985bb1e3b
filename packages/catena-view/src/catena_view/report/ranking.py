"""Make the ranking of a report: each hit with its preview, the routes that found it and the parts of its score."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from itertools import groupby
from math import fsum, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final

from catena import Document, Entry, Hit, Provenance, Ranking, Scale
from catena.model import CatenaError, MissingExtraError, ParseError, citation
from catena.parsing import page_picture
from catena.retrieval import NAME_ROUTE, ScoreFusion, content_words
from catena.structure import PASSAGE
from catena.text import TermMatcher, cells_of, is_rule, tokenise, word_key
from catena_view.report.values import FoundBy, HitRow, Hits, Part, Preview

if TYPE_CHECKING:
    from catena.library import BaseLibrary


_PAGE_DPI: Final = 80.0  # dots per inch of a page: small print can be read, and a page has some 60 kB
_ROWS: Final = 3  # of a table, below its header
_LETTERS: Final = 360  # of running text
_BEFORE: Final = 80  # letters before the first matching word, at most
_HEADINGS: Final = re.compile(r"\A(#{1,6} .*\n*)+")  # the citation says them
_SENTENCE: Final = re.compile(r"[.!?]\s+|\n+")  # the end of one
_WORD: Final = re.compile(r"[^\W_][\w.\-]*")
_SCALES = {
    Scale.NORMALIZED: "The score is the sum of its parts: {formula}.",
    Scale.RANK: "Only the order of the scores means anything.",
    Scale.SIMILARITY: "The score is that of the one route which was asked.",
    Scale.PROBABILITY: "The score is a probability of relevance.",
    Scale.VALUE: "The score is the value of a segment.",
}
_NO_WORD = (
    "None of the question's words stands in this library. These are the passages whose meaning seems nearest; "
    "they may have nothing to do with it."
)
_IN_TURNS = (
    "The question says names of documents: each name and the ranking of everything gave their best hit in turn, and "
    "the score is 1 / place. The parts are those of the ranking in which a hit was found."
)


def preview_of(text: str, question: str) -> Preview:
    """Return what a passage shows of itself to someone who asked a question.

    Args:
        text: Markdown of a chunk.
        question: as typed; its small words do not count.

    Returns:
        The rows of the first table that says most of the question, or its first rows where none says any of it, and
        the part of the other text that says most of its words.
    """
    stripped = text.strip()
    body = _HEADINGS.sub("", stripped).strip() or stripped
    keys = _keys(content_words(question))
    tables, lines = [], []
    for is_table, block in groupby(body.split("\n"), key=lambda line: line.lstrip().startswith("|")):
        kept = list(block)
        if is_table and len(kept) > 1 and is_rule(kept[1].strip()):
            tables.append(kept)
        else:
            lines += kept
    best = max(tables, key=lambda table: len(keys & _keys(tokenise("\n".join(table)))), default=[])
    rows = [cells_of(line) for line in best if not is_rule(line.strip())]
    header, *below = rows or [()]
    said = [len(keys & _keys(tokenise(" ".join(row)))) for row in below]
    places = sorted(range(len(below)), key=lambda place: (-said[place], place))[:_ROWS]
    chosen = tuple(below[place] for place in sorted(places) if said[place] or not any(said))
    text = _around("\n".join(lines).strip(), keys)
    return Preview(header=header, rows=chosen, more=len(below) - len(chosen), text=text)


def _around(text: str, keys: Set[str]) -> str:
    """Return the part of a text that says most of some words, the first of equals; its start where none is said."""
    if len(text) <= _LETTERS:
        return text
    found = [(word.start(), keys & _keys(tokenise(word[0]))) for word in _WORD.finditer(text)]
    places = [(start, said) for start, said in found if said]
    best, most = 0, 0
    for number, (start, _) in enumerate(places):
        within = [said for place, said in places[number:] if place < start + _LETTERS - _BEFORE]
        count = len(frozenset[str]().union(*within))
        if count > most:
            best, most = start, count
    first = _start_before(text, best)
    cut = text[first : first + _LETTERS]
    after = first + _LETTERS < len(text)
    if after and " " in cut:
        cut = cut[: cut.rindex(" ")]
    return f"{'… ' if first else ''}{cut.strip()}{' …' if after else ''}"


def _start_before(text: str, place: int) -> int:
    """Return where to begin so that a word is read in its sentence, or not far into it."""
    earliest = max(0, place - _BEFORE)
    if not earliest:
        return 0
    before = text[earliest:place]
    ends = [end.end() for end in _SENTENCE.finditer(before)] or [end.end() for end in re.finditer(r"\s", before)][:1]
    return earliest + (ends[-1] if ends else 0)


def _keys(words: Iterable[str]) -> frozenset[str]:
    """Return words as the graph counts them, so that most forms of a word are one."""
    return frozenset(map(word_key, words))


def notice_of(library: BaseLibrary, question: str, ranking: Ranking) -> str:
    """Return what to say of a ranking that owes nothing to the question's words; "" where one of them is there.

    Small words, as "what" and "of", do not count; a name that the library knows does.
    """
    words = content_words(question)
    named = any(way.route in ("keyword", NAME_ROUTE) for hit in ranking.hits for way in hit.provenance)
    if not words or not ranking.hits or named:
        return ""
    try:
        found = library.search(" ".join(sorted(words)), k=1, routes=("lexical",))
    except CatenaError:  # the ranking says already what failed
        return ""
    return "" if any(hit.score > 0 for hit in found.hits) else _NO_WORD


def hits_shown(
    question: str,
    ranking: Ranking,
    entries: Mapping[str, Entry],
    *,
    formula: ScoreFusion,
    notice: str = "",
    pages: int = 0,
) -> Hits:
    """Return a ranking as the page shows it.

    Args:
        question: as typed.
        ranking: to show.
        entries: the documents of its hits by id.
        formula: that made its scores.
        notice: what is to be said above it.
        pages: how many of the first hits are shown on their pages.
    """
    rows = tuple(
        replace(
            _row(rank, hit, preview_of(hit.chunk.text, question), _terms(question, hit, entries), parts_of(hit)),
            page=_page(hit, entries[hit.chunk.document_id].document) if rank <= pages else "",
        )
        for rank, hit in enumerate(ranking.hits, start=1)
    )
    in_turns = any(row.turn for row in rows)
    told = _IN_TURNS if in_turns else _SCALES[ranking.scale].format(formula=_written(formula))
    return Hits(
        scale=ranking.scale.value,
        formula=told,
        notice=notice,
        hits=rows,
        degraded=tuple(f"{part.what}: {part.why}" for part in ranking.degraded),
        unknown=tuple(map(str, ranking.unknown)),
    )


def _page(hit: Hit, document: Document) -> str:
    """Return a picture of the page on which a hit begins, its words marked; "" where the file is not at hand."""
    boxes = document.place_of(hit.chunk.start, hit.chunk.end).boxes
    if not boxes or not Path(document.source).is_file():
        return ""
    try:
        picture = page_picture(document.source, boxes, dpi=_PAGE_DPI)
    except (ParseError, MissingExtraError):  # it was changed or is locked, or nothing here draws pages
        return ""
    return f"data:image/png;base64,{b64encode(picture).decode('ascii')}"


def parts_of(hit: Hit) -> tuple[Part, ...]:
    """Return what each route added to a hit's score; of several ways by one route the first counts."""
    found: dict[str, Part] = {}
    for way in hit.provenance:
        if way.share:
            found.setdefault(_part_of(way), Part(route=_part_of(way), value=way.share))
    return tuple(found.values())


def _part_of(way: Provenance) -> str:
    """Return the part of the formula that a way counts in: a store ranks passages as the words of another view."""
    return "passages" if (way.route, way.view) == ("lexical", PASSAGE) else way.route


def _row(rank: int, hit: Hit, preview: Preview, terms: tuple[str, ...], parts: tuple[Part, ...]) -> HitRow:
    chunk = hit.chunk
    turn = next((way.view for way in hit.provenance if way.route == NAME_ROUTE), "")
    return HitRow(
        rank=rank,
        document=chunk.document_id,
        section=chunk.section,
        citation=citation(chunk),
        kind=chunk.kind,
        score=hit.score if isfinite(hit.score) else None,
        text=chunk.text.strip(),
        preview=preview,
        terms=terms,
        turn=turn,
        ways=tuple(
            FoundBy(route=way.route, rank=way.rank, score=way.score if isfinite(way.score) else None, view=way.view)
            for way in hit.provenance
        ),
        parts=parts,
        whole=fsum(part.value for part in parts),
    )


def _terms(question: str, hit: Hit, entries: Mapping[str, Entry]) -> tuple[str, ...]:
    """Return the critical terms of a chunk that the question says, those inside longer ones as well."""
    entry = entries[hit.chunk.document_id]
    by_chunk = dict(zip((chunk.id for chunk in entry.chunks), entry.terms, strict=False))
    return TermMatcher(by_chunk.get(hit.chunk.id, ())).all_in(question)


def _written(formula: ScoreFusion) -> str:
    """Return e.g. "0.65 × dense + 0.35 × lexical + 0.3 × keyword", each route's score normalised."""
    if formula.alpha is None:
        return f"lexical and dense, the more of dense the more both agree, + {formula.beta:g} × keyword"
    weighed = [f"{weight:g} × {route}" for route, (weight, _) in formula.parts().items() if weight > 0]
    return " + ".join(weighed) + ", each route's raw score normalised"
