"""Make a chunk a node of a graph, and set how nodes are joined and how a walk goes over them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from annotated_types import Ge

from catena.effects.faults import service_error
from catena.model import KEYWORD, MENTION, MENTIONED, NAME, SEMANTIC, STRUCTURAL, TITLE, Chunk, ParameterError, digest
from catena.model.options import Doc, as_tuples, check_options
from catena.text import UNSPACED, keywords_of, names_in, normalise_term, tokenise, without_parenthesis, word_keys

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# "3.1", "3.", "A.2": not "3.5 mm plug" and "2.4 GHz radio"; letters of appendices only, for "M.2" is a socket
_UNIT = r"(?:[a-z\u00b5\u0430-\u044f]{1,4}|[kMGT]?(?:Hz|[ABVW]h?))\b"
_NUMBER = r"(?:\d{1,3}\.|\d{1,3}(?:\.\d{1,3})+\.?|[A-H](?:\.\d{1,2})+\.?)"
_SECTION_NUMBER = re.compile(rf"\A\s*+(?!\d++\.\d++\s++{_UNIT}){_NUMBER}\s++(?=.*[^\W\d_])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A chunk, and the titles and terms by which the graph joins it to others: all a function of this chunk.

    So a document that comes or goes changes no other document's nodes.

    Attributes:
        titles: under which others may mention it, as printed, without a parenthesis at their ends, and headings
            without the number of their section; () of none.
        keywords: the phrases that say best what it is about, normalised, best first; none is a title.
        names: the names and codes that its text and titles print, and parts of them, normalised, in order of place.
    """

    chunk: Chunk
    titles: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Return the id of the chunk."""
        return self.chunk.id


def node_of(chunk: Chunk, *, keywords: Sequence[str] | None = None, titles: Sequence[str] | None = None) -> Node:
    """Return the node of a chunk.

    Args:
        chunk: of a text, a table or a figure.
        keywords: of the chunk, best first, as a model or its author gave them, however many; None takes at most five
            from its text, by rules.
        titles: under which others may mention it; None takes its document's title and its own heading, this without
            the number of the section: "3.1 HX200" and "A.2 HX200" are "HX200".

    Raises:
        ParameterError: keywords or titles are no sequences of strings.

    Source: keywords without the titles of the document: IIER (arXiv 2408.02907), section 3.1 and appendix A.2.
    """
    for name, given in (("keywords", keywords), ("titles", titles)):
        if isinstance(given, str) or not all(isinstance(each, str) for each in given or ()):
            raise ParameterError(name, given, "a sequence of strings, or None")
    title = str(chunk.metadata.get(TITLE, ""))
    printed = (title, *(_SECTION_NUMBER.sub("", heading) for heading in chunk.path[-1:] if heading != title))
    own = _distinct(printed if titles is None else titles)
    but = (*(titles or ()), *printed, *chunk.path)
    return Node(
        chunk=chunk,
        titles=own,
        keywords=keywords_of(chunk.text, but=but) if keywords is None else _normalised(keywords, but),
        names=names_in(chunk.text, titles=own),
    )


def _normalised(keywords: Iterable[str], but: Iterable[str]) -> tuple[str, ...]:
    titles = {normalise_term(form) for title in but for form in (title, without_parenthesis(title))}
    return tuple(term for term in dict.fromkeys(map(normalise_term, keywords)) if term and term not in titles)


def _distinct(titles: Iterable[str]) -> tuple[str, ...]:
    """Return titles that hold a word, bare, the first of each spelling."""
    kept: dict[str, str] = {}
    for title in map(without_parenthesis, titles):
        kept.setdefault(" ".join(tokenise(title)), title)
    kept.pop("", None)
    return tuple(kept.values())


Title: TypeAlias = tuple[str, ...]
"""A title as the sequence of its words, in the form of `words_of`."""

LONGEST = 12
"""Words of a title that is looked for; a longer one is a sentence, which no text repeats word for word."""

MENTION_CAP = 60
"""Texts that may hold a title which still makes edges; a title in more is a common word, or like "Introduction"."""

_UNSPACED_PAIR = re.compile(f"[{UNSPACED}]{{2}}")


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text in order, as titles are compared with it.

    They are those of `text.words.word_keys`, each place once: of a script without spaces the single characters,
    without their pairs. So they are among the words by which a graph counts.
    """
    keys = word_keys(text)
    if text.isascii() or not _UNSPACED_PAIR.search(" ".join(keys)):
        return tuple(keys)
    return tuple(key for key in keys if not (len(key) == 2 and _UNSPACED_PAIR.match(key)))


def titles_of(node: Node) -> tuple[Title, ...]:
    """Return the titles under which a node is mentioned, distinct, longest first.

    Left out are titles of more than 12 words, and titles without meaning: numbers, single characters.
    """
    titles = {title for each in node.titles if _names_something(title := words_of(each))}
    return tuple(sorted(titles, key=lambda title: (-len(title), title)))


def _names_something(title: Title) -> bool:
    text = "".join(title)
    return len(title) <= LONGEST and len(text) > 1 and any(map(str.isalpha, text))


_TAKEN = (STRUCTURAL, SEMANTIC, MENTION, MENTIONED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TermEdges:
    """A kind of edge: two nodes are joined when they share more than `more_than` terms that are not too common.

    With S the shared terms that at most `limit(N)` of the N nodes hold and df(t) the nodes that hold t, the weight is
    `|S|` ("count") or the sum over S of `rarity(df(t), N)` ("rarity").

    Attributes:
        name: of the kind, in `Edge.weights`; no two kinds of a graph share one.
        of: the terms of a node, from the node alone; repetitions count once. A function of a module, not a lambda,
            where graphs are to be sent to other processes.
        more_than: so many shared terms do not yet join.
        weight: "count" or "rarity".
        cap: terms that more nodes hold join nothing: a number of nodes (int), or a share of them (float, up to 1).
        version: raised where `of` gives other terms of the same node; a graph that is kept is then built again.
    """

    name: str
    of: Callable[[Node], Iterable[str]]
    more_than: Annotated[int, Ge(0)] = 0
    weight: Literal["count", "rarity"] = "count"
    cap: int | float = 100
    version: Annotated[int, Ge(0)] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip() or self.name in _TAKEN:
            raise ParameterError("name of a kind of edge", self.name, f"a name, and none of {', '.join(_TAKEN)}")
        check_options(self)
        if not _is_cap(self.cap):
            raise ParameterError(f"cap of edges {self.name!r}", self.cap, "an integer >= 2, or a float in (0, 1]")

    @property
    def identity(self) -> str:
        """A text of all that decides the edges: two kinds of one identity give equal edges."""
        of = f"{function_name(self.of)}/{self.version}"
        return f"{self.name}: {of} > {self.more_than}, {self.weight}, cap {self.cap!r}"

    def terms(self, node: Node) -> tuple[str, ...]:
        """Return the terms of a node, each once, in order.

        Raises:
            ParameterError: `of` gives something else than strings.
            ServiceError: it fails; kind and chunk are named.
        """
        whose = f"edges {self.name!r} of chunk {node.id!r}"
        try:
            given = self.of(node)
            terms = tuple(dict.fromkeys(given))
        except Exception as error:
            raise service_error(error, whose) from error
        if isinstance(given, str) or not all(isinstance(term, str) for term in terms):
            raise ParameterError(f"terms of {whose}", given, "a sequence of strings")
        return terms

    def limit(self, nodes: int) -> int:
        """Return the most nodes, of so many, that may hold a term which still joins; 2 at least."""
        return max(2, int(self.cap * nodes)) if isinstance(self.cap, float) else self.cap


def function_name(function: Callable[..., object]) -> str:
    """Return the name by which graphs on disk and on servers remember a function: where it can be imported from.

    Ours keep the module of the first release, so that older graphs are still read wherever our files move to.
    """
    own = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", "")
    return f"{'catena.graph.edge_kinds' if module == __name__ else module}.{own}"


def rarity(holding: NDArray[np.integer], nodes: int) -> NDArray[np.float64]:
    """Return the rarity of terms: `ln((N + 1) / df) / ln(N + 1)`, 1 for a term of one node, always above 0.

    The unit is that of a graph of any size: a term of 10 nodes is worth 0.75 among 10,000 nodes and 0.83 among
    1,000,000.

    Args:
        holding: df, how many nodes hold each term; >= 1, any shape.
        nodes: N, of the graph; >= 1.
    """
    import numpy as np

    return np.asarray(1.0 - np.log(holding) / np.log1p(nodes), dtype=np.float64)


def _is_cap(cap: object) -> bool:
    if isinstance(cap, float):
        return 0 < cap <= 1
    return isinstance(cap, int) and not isinstance(cap, bool) and cap >= 2


def keywords_of_node(node: Node) -> tuple[str, ...]:
    """Return the keywords of a node."""
    return node.keywords


def names_of_node(node: Node) -> tuple[str, ...]:
    """Return the names in a node."""
    return node.names


KEYWORDS = TermEdges(name=KEYWORD, of=keywords_of_node, more_than=2, weight="count", cap=500)
"""The paper's: more than two of five keywords shared; the weight is their number."""

NAMES = TermEdges(name=NAME, of=names_of_node, more_than=0, weight="rarity", cap=20)
"""Ours: one rare name joins; the weight is the sum of the rarities."""


FORMAT = 2
"""Of what a graph keeps of a node; raised where equal nodes and options give other edges than before."""


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """Options of a graph: by which edges chunks are joined.

    Attributes:
        neighbours: k; two nodes are joined by meaning when one is among the k nearest of the other.
        keywords_more_than: T; so many shared keywords do not yet join two nodes; None: as `kinds` has it.
        cap: a title that more nodes bear, or more texts say, joins nothing by mention.
        kinds: of edges by shared terms.
        mentions: whether a text that says a title of another node is joined with it.
        exact_up_to: nodes up to which neighbours by meaning are exact; above, approximate ones (extra `ann`) are
            taken where the whole graph is built, and those of nodes that come later are exact.

    Source: IIER (arXiv 2408.02907), section 4.2: k = 5, T = 2.
    """

    neighbours: Annotated[int, Ge(0), Doc("Join each passage with so many that are nearest by meaning")] = 5
    keywords_more_than: Annotated[
        Annotated[int, Ge(0)] | None, Doc("Join passages that share more keywords than this [2]")
    ] = None
    cap: Annotated[int, Ge(1)] = MENTION_CAP
    kinds: tuple[TermEdges, ...] = (KEYWORDS, NAMES)
    mentions: Annotated[bool, Doc("Join a passage with those whose titles it mentions")] = True
    exact_up_to: Annotated[int, Ge(0)] = 200_000

    def __post_init__(self) -> None:
        as_tuples(self, "kinds")
        check_options(self)
        names = [kind.name for kind in self.kinds]
        if len(set(names)) < len(names):
            raise ParameterError("kinds", tuple(names), "of distinct names")

    @cached_property
    def term_kinds(self) -> tuple[TermEdges, ...]:
        """The kinds of edge by shared terms, by name, the threshold of keywords among them."""
        more_than = self.keywords_more_than
        kinds = [
            replace(kind, more_than=more_than) if kind.name == KEYWORD and more_than is not None else kind
            for kind in self.kinds
        ]
        return tuple(sorted(kinds, key=lambda kind: kind.name))

    @cached_property
    def all_kinds(self) -> tuple[str, ...]:
        """The names of all kinds of edge, sorted."""
        mentions = (MENTION, MENTIONED) if self.mentions else ()
        return tuple(sorted((STRUCTURAL, SEMANTIC, *mentions, *(kind.name for kind in self.kinds))))

    @cached_property
    def identity(self) -> str:
        """A name that graphs of equal options, and no others, share."""
        kinds = [kind.identity for kind in self.term_kinds]
        numbers = (FORMAT, self.neighbours, self.cap, int(self.mentions), self.exact_up_to)
        return digest(*map(str, numbers), *kinds)


Strategy: TypeAlias = Literal["best_first", "paper", "beam"]
Seeds: TypeAlias = Literal["first", "scored", "keywords", "both"]
Sources: TypeAlias = Literal["graph", "ranking", "both"]

PAPER_KINDS = (STRUCTURAL, SEMANTIC, KEYWORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkOptions:
    """Options of a walk over the graph.

    Attributes:
        strategy: "best_first" takes the best of all that any of the first nodes leads to, again and again; "paper"
            takes from each seed the best neighbour of the last node, again and again; "beam" keeps the best paths
            of all seeds side by side.
        seeds: the "first" of the first ranking; those of its top `pool` that are "scored" best with nothing before
            them; nodes that cover the "keywords" of the question, by greedy cover; or "both", the first and the
            keywords. None: "keywords" for the paper's walk, "both" for a beam, else "first". Where no node covers a
            keyword, the first is taken.
        most_seeds: of each origin; None: one of the ranking, and by keywords as many as it takes to cover them.
        candidates: of the "graph" (neighbours), of the first "ranking" (its top `pool`), or "both". None: "graph" for
            the paper's walk, else "both". "ranking" with `kinds=()` is the same scorer without the graph.
        kinds: of edges to follow; () follows none. None: the paper's three for the paper's walk, else all.
        max_length: nodes of a chain, the seed counted.
        max_chunks: that the walk takes, over all chains; what `k` asks for beyond it comes from the first ranking.
            None: 5 for best-first, which found no more by going on, else 20.
        expand: of a best-first walk, how many of the nodes taken first give their neighbours.
        pool: how many of the first ranking, of those that the graph has, are candidates.
        width: of a beam, in paths.
        budget_tokens: of all chunks returned together; what does not fit is passed over for what does. None: any.
        fill: whether the rest of the first ranking follows what was walked to, up to `k`.
        keep_sure: whether a hop comes before those hits only that are less sure than it (see `walking.walk`). None:
            of a best-first walk that is filled, by a scorer that was trained to choose (`FeatureScorer`).

    Source: IIER (arXiv 2408.02907), section 3.2, for "paper"; the others are ours, see docs/decisions.
    """

    strategy: Annotated[Strategy, Doc("How the walk goes over the graph")] = "best_first"
    seeds: Seeds | None = None
    most_seeds: Annotated[int, Ge(1)] | None = None
    candidates: Sources | None = None
    kinds: tuple[str, ...] | None = None
    max_length: Annotated[int, Ge(1), Doc("Most passages of one chain")] = 5
    max_chunks: Annotated[int, Ge(1)] | None = None
    expand: Annotated[int, Ge(1)] = 5
    pool: Annotated[int, Ge(1)] = 20
    width: Annotated[int, Ge(1), Doc("Paths that a beam follows side by side")] = 3
    budget_tokens: Annotated[int, Ge(0)] | None = None
    fill: bool = True
    keep_sure: bool | None = None

    def __post_init__(self) -> None:
        as_tuples(self, "kinds")
        check_options(self)
        if self.keep_sure and not (self.fill and self.strategy == "best_first"):
            raise ParameterError("keep_sure", True, "of a best-first walk that is filled")
        if self.kinds is not None:
            if not all(self.kinds):
                raise ParameterError("kinds", self.kinds, "a sequence of names, e.g. ('semantic', 'mention')")
            object.__setattr__(self, "kinds", tuple(sorted(set(self.kinds))))

    @property
    def begins(self) -> Seeds:
        """The kind of seeds: as asked, or the default of the strategy."""
        usual: dict[Strategy, Seeds] = {"paper": "keywords", "beam": "both", "best_first": "first"}
        return self.seeds or usual[self.strategy]

    @property
    def looks_at(self) -> Sources:
        """The source of candidates: as asked, or the default of the strategy."""
        return self.candidates or ("graph" if self.strategy == "paper" else "both")

    @property
    def follows(self) -> tuple[str, ...] | None:
        """The kinds of edges followed, None for all: as asked, or the default of the strategy."""
        return PAPER_KINDS if self.kinds is None and self.strategy == "paper" else self.kinds

    @property
    def takes(self) -> int:
        """The most chunks that the walk visits: as asked, or the default of the strategy."""
        return self.max_chunks or (5 if self.strategy == "best_first" else 20)

    @property
    def needs_keywords(self) -> bool:
        """True if the walk needs the question's keywords."""
        return self.begins in ("keywords", "both")


PAPER = WalkOptions(strategy="paper")
"""The paper's walk as written: seeds by keywords, one path each, three kinds of edges, five nodes a path at most."""
