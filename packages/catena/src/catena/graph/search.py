"""Search by a graph: from a question to a first ranking, then by a walk over the graph to evidence chains.

Each part works without the others; this module composes them in the standard way, to be read and copied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import dropwhile
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from catena import prompts
from catena.effects import Complete, Embed, Search, Step, ask
from catena.graph.options import WalkOptions
from catena.graph.scoring import FeatureScorer, Scorer, pose
from catena.graph.walking import walk
from catena.model import Chain, Chunk, Degraded, Ranking, Scale, Where
from catena.model.errors import CatenaError, FilterError, MissingServiceError, ParameterError
from catena.model.filters import check, compiled, fields_of
from catena.model.options import check_given, check_options
from catena.retrieval import DEFAULT_ROUTES, ROUTES, Fusion, Route, Tuned, deep_enough, retrieve, stored
from catena.text import TermMatcher, name_of, named_phrases, read_items, tokenise

OnGraphError: TypeAlias = Literal["raise", "degrade"]
KeywordsBy: TypeAlias = Literal["offline", "llm"]
Length: TypeAlias = Annotated[int, Ge(0)]
T = TypeVar("T")
_Vector: TypeAlias = "NDArray[np.float32]"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSearch:
    """Options of a search by a graph.

    Attributes:
        walk: its seeds, edges and length.
        scorer: of each hop; the shipped one, `FeatureScorer.shipped()`, where None.
        routes: of the first ranking, as `retrieve` takes them; the usual ones where None.
        fusion: of these, or weights that were tuned on questions; the usual formula where None.
        depth: chunks of the first ranking, at least; more where `k` asks for more. The walk looks at the first
            `walk.pool` of them, and a scorer is told the ranks of all.
        keywords_by: finds the question's keywords, for seeds that cover them: "offline" by rules, or "llm", the
            run's model.
        on_graph_error: "degrade" returns the first ranking and says so where the question's vector, the graph or a
            model that the scorer asks fails; "raise" raises.
    """

    walk: WalkOptions = field(default_factory=WalkOptions)
    scorer: Scorer | None = None
    routes: Sequence[str] | Mapping[str, Route] | None = None
    fusion: Fusion | Tuned | None = None
    depth: Annotated[int, Ge(1)] = 20
    keywords_by: KeywordsBy = "offline"
    on_graph_error: OnGraphError = "degrade"

    def __post_init__(self) -> None:
        check_options(self)
        if isinstance(self.scorer, type):
            allowed = "FeatureScorer.shipped(), UntrainedScorer(), one of your own, or None"
            raise ParameterError("scorer", self.scorer, allowed)


@dataclass(frozen=True, slots=True)
class GraphResult:
    """The result of a search over the graph.

    Attributes:
        ranking: as of `catena.graph.walking.WalkResult`; the first ranking, in its own scale, where the walk failed.
        chains: none where the walk failed.
        first: the ranking before the walk, whole.
        keywords: of the question; none where the walk did not look for them.
    """

    ranking: Ranking
    chains: tuple[Chain, ...]
    first: Ranking
    keywords: tuple[str, ...] = ()


def search_graph(
    query: str, how: GraphSearch | None = None, *, k: Length = 10, where: Where | None = None, **first: Any
) -> Step[GraphResult]:
    """Return the chunks that answer a question together, and the chains by which they were found.

    ```text
    question -> vector, first ranking -> seeds -> hops over the graph -> chains -> ranking
    ```

    Args:
        query: as typed.
        how: routes, walk and scorer.
        k: length of the ranking, >= 0.
        where: a filter that every route obeys, and the graph: a chunk that it brings is returned only if its metadata
            fulfil it.
        first: further options of `retrieve`, for the first ranking; its first k hits are those that it gives for k.

    Raises:
        ParameterError, FilterError, RouteError: as of `retrieve`.
        MissingServiceError: there is no graph, or it cannot answer what the walk asks.
        CatenaError: the walk failed, and that is not tolerated.
    """
    check_given({"query": query, "how": how, "k": k}, search_graph)
    if where is not None:
        check(where)
    how = how or GraphSearch()
    vector = yield from _attempt(_vector(query), how.on_graph_error)
    routes = DEFAULT_ROUTES if how.routes is None else how.routes
    routes = routes if isinstance(vector, Degraded) else _knowing(query, vector, routes)
    most = max(k, how.depth) if k else 0
    first = {"depth": max(most, deep_enough(k)), **first, "k": most, "fusion": how.fusion, "where": where}
    ranking = yield from retrieve(query, routes=routes, **first)
    return (yield from _widened(query, vector, ranking, how, k=k, where=where))


def widen(
    query: str, ranking: Ranking, how: GraphSearch | None = None, *, k: Length = 10, where: Where | None = None
) -> Step[GraphResult]:
    """Return a ranking of any retriever, widened by the chunks that a walk over the graph finds from there.

    It needs an embedder and a graph, and no store: `routes`, `fusion` and `depth` of `how` are those of the first
    ranking, which is given here.

    Args:
        query: as typed.
        ranking: of chunks by the ids of the graph, in any scale; those that the graph does not have keep their order.
        how: walk and scorer.
        k: length of the ranking, >= 0.
        where: a filter that the graph obeys; the given ranking is believed to obey it.

    Raises:
        ParameterError, FilterError: an argument is out of range.
        MissingServiceError: there is no graph, or it cannot answer what the walk asks.
        CatenaError: the walk failed, and that is not tolerated.
    """
    check_given({"query": query, "how": how, "k": k}, widen)
    if not isinstance(ranking, Ranking):
        raise ParameterError("ranking", type(ranking).__name__, "a Ranking of chunks of the graph")
    if where is not None:
        check(where)
    how = how or GraphSearch()
    vector = yield from _attempt(_vector(query), how.on_graph_error)
    return (yield from _widened(query, vector, ranking, how, k=k, where=where))


def widen_without(
    query: str, failed: Degraded, how: GraphSearch, *, k: Length = 10, where: Where | None = None
) -> Step[GraphResult]:
    """Return what a walk finds from where the question's keywords stand, in the place of a retriever that failed.

    What the walk fails with is raised: both have then failed.
    """
    how = replace(how, walk=replace(how.walk, seeds="keywords"), on_graph_error="raise")
    found = yield from widen(query, Ranking((), Scale.RANK), how, k=k, where=where)
    return replace(found, ranking=replace(found.ranking, degraded=(failed, *found.ranking.degraded)))


def _widened(
    query: str, vector: _Vector | Degraded, first: Ranking, how: GraphSearch, *, k: int, where: Where | None
) -> Step[GraphResult]:
    """Walk from the first ranking; return it as it is, and say so, if its vector or the walk failed."""

    def walked(vector: _Vector) -> Step[GraphResult]:
        keywords = (yield from question_keywords(query, by=how.keywords_by)) if how.walk.needs_keywords else ()
        question = yield from pose(query, vector, keywords=keywords)
        scorer = how.scorer or FeatureScorer.shipped()
        found = yield from walk(question, first, how.walk, scorer, k=k, allows=_allowing(where))
        return GraphResult(found.ranking, found.chains, first, question.keywords)

    if not isinstance(vector, Degraded):
        if not query.strip() or k == 0 or (first.unknown and not first.hits):  # there is nothing to find
            return GraphResult(first.top(k), (), first)
        found = yield from _attempt(walked(vector), how.on_graph_error)
        if not isinstance(found, Degraded):
            return found
        vector = found
    top = first.top(k)
    return GraphResult(replace(top, degraded=(*top.degraded, vector)), (), first)


def _vector(query: str) -> Step[_Vector]:
    (vectors,) = yield from ask([Embed(texts=(query,), kind="query", purpose="query embedding")])
    vector: _Vector = vectors[0]
    return vector


def _attempt(step: Step[T], on_error: OnGraphError) -> Step[T | Degraded]:
    """Return the result of a step, or why it failed if that is tolerated; a mistake of the caller never is."""
    try:
        return (yield from step)
    except (ParameterError, FilterError, MissingServiceError):
        raise
    except CatenaError as error:
        if on_error == "raise":
            raise
        return Degraded("graph", str(error) or type(error).__name__)


def _knowing(
    query: str, vector: _Vector, routes: Sequence[str] | Mapping[str, Route]
) -> Sequence[str] | Mapping[str, Route]:
    """Return the routes with a dense one that does not embed the question again."""
    if isinstance(routes, (str, Mapping)) or "dense" not in routes:
        return routes

    def dense(asked: str) -> Step[Search]:
        if asked != query:  # what a question asks besides the names in it
            return (yield from ROUTES["dense"](asked))
        return Search(route="dense", query=asked, vector=vector, k=0)

    return {name: dense if name == "dense" else ROUTES.get(name) or stored(name) for name in routes}


def _allowing(where: Where | None) -> Callable[[Chunk], bool] | None:
    if where is None:
        return None
    fulfils = compiled(where)
    return lambda chunk: fulfils(fields_of(chunk))


_MAX_TOKENS = 400
_CLOSING_MARK = "</question"
_LONGEST_REPLY = 20_000  # characters; a longer one is a model that does not stop
_FEWEST_LETTERS = 4  # of a word that is looked for where the question holds no name
_FEWEST_IDEOGRAPHS = 2  # of one in a script without capitals
# Words with which questions begin, so that their capitals name nothing; of English and German, others cost a word.
_BEGINNING = frozenset(
    re.findall(
        r"\w+",
        """
        what which who whom whose when where why how is are was were do does did has have had can could will would
        should the a an in on at of for from to by with during after before between and or if that this these those
        welche welcher welches welchen welchem wer wem wen wessen wann wo woher wohin warum wieso wie ist sind war
        waren hat haben kann können wird werden wurde wurden der die das den dem ein eine einen im am an auf bei mit
        nach von und oder zwischen there
        """,
    )
)
_QUOTED = re.compile(
    '\u201c([^\u201c\u201d\\n]{2,80})\u201d|\u201e([^\u201e\u201c\\n]{2,80})\u201c|\u00ab([^\u00ab\u00bb\\n]{2,80})\u00bb|"([^"\\n]{2,80})"'
)


def question_keywords(question: str, *, by: KeywordsBy = "offline") -> Step[tuple[str, ...]]:
    """Return the keywords of a question, normalised, in order of place; none is inside another.

    Offline these are its names, codes and quoted words; if it holds none, its longer words without those with which
    questions begin. A model is asked for all its topics; topics that are not in the question are left out.

    Args:
        question: as typed.
        by: "offline" uses rules; "llm" asks a language model once.

    Raises:
        ParameterError: `by` is neither.
        ServiceError: the model failed, or listed nothing that is in the question.

    Source: IIER (arXiv 2408.02907), section 3.2 and appendix A.1; as many as there are.
    """
    check_given({"by": by}, question_keywords)
    if by == "offline" or not question.strip():
        return offline_question_keywords(question)
    request = Complete.of(
        prompts.load("question_keywords"),
        "question keywords",
        max_tokens=_MAX_TOKENS,
        validate=partial(read_question_keywords, question=question),
        question=question.strip().replace(_CLOSING_MARK, "< /question"),
    )
    (reply,) = yield from ask([request])
    try:
        return read_question_keywords(reply.text, question)
    except ValueError:  # a reply that was not checked, as in a dry run
        return offline_question_keywords(question)


def offline_question_keywords(question: str) -> tuple[str, ...]:
    """Return the names, codes and quoted words of a question, or else its longer words, in order of place."""
    named = (
        " ".join(dropwhile(lambda word: word.lower() in _BEGINNING, phrase)) for phrase in named_phrases(question)
    )
    quoted = (text for match in _QUOTED.findall(question) for text in match)
    return _standing_in(question, (*named, *quoted)) or _standing_in(question, _content_words(question))


def read_question_keywords(reply: str, question: str) -> tuple[str, ...]:
    """Return the keywords in a model's reply that are in the question, in order of place.

    Raises:
        ValueError: there is no list that `read_items` reads, or nothing of it is in the question.
    """
    if len(reply) > _LONGEST_REPLY:
        raise ValueError(f"a reply of {len(reply)} characters, more than {_LONGEST_REPLY}")
    kept = _standing_in(question, read_items(reply))
    if not kept:
        raise ValueError("the reply lists nothing that stands in the question")
    return kept


def _standing_in(question: str, phrases: Iterable[str]) -> tuple[str, ...]:
    return TermMatcher(map(name_of, phrases)).longest_in(question)


def _content_words(question: str) -> Iterator[str]:
    for word in tokenise(question):
        fewest = _FEWEST_LETTERS if word.isascii() or word.islower() else _FEWEST_IDEOGRAPHS
        if word not in _BEGINNING and len(word) >= fewest:
            yield word
