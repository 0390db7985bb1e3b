"""Steps: work that needs the outside world, written once, and the requests of which it is made.

A step is a generator that yields a batch of requests and receives the replies, in order; a request that
failed comes back as a `Failed` value. `yield from` composes steps as `await` composes coroutines.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from catena.model import InvalidReplyError, MissingServiceError, Name, Ranking, ServiceError, Unknown, Where
from catena.prompts import Prompt

T = TypeVar("T")

TEXTS_OF_BATCH = 256  # in one request for vectors: enough to be quick, few enough to be told of and stopped

CAPTION_TOKENS = 400  # of a caption; three sentences take some 100

Validate: TypeAlias = Callable[[str], object]
"""Looks at a reply's text and raises, saying what is wrong, when the reply is of no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """Ask the language model; the reply is a `Completion` that ended by itself and is not empty.

    Attributes:
        prompt_version: of the prompt file; a new version is never answered from an old version's reply.
        schema: JSON Schema of the reply, as text, for services that can keep to it; the root is an object, whose
            members are all required. "" leaves the form to the prompt.
        validate: a reply it refuses counts as failed (`InvalidReplyError`) and is never kept.
    """

    prompt: str
    purpose: str = field(compare=False)
    system: str = ""
    max_tokens: int = 1024
    prompt_version: str = ""
    schema: str = field(default="", repr=False)
    validate: Validate | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls, prompt: Prompt, purpose: str, *, max_tokens: int, validate: Validate | None = None, **places: str
    ) -> Complete:
        """Return the request of a prompt with its places filled.

        Raises:
            ParameterError: a place has no value, or a value no place.
        """
        return cls(
            prompt=prompt.filled(**places),
            purpose=purpose,
            system=prompt.system,
            max_tokens=max_tokens,
            prompt_version=prompt.version,
            schema=prompt.schema,
            validate=validate,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed:
    """Turn texts into vectors; the reply has shape (len(texts), dim), float32."""

    texts: tuple[str, ...]
    kind: Literal["document", "query"] = "document"
    purpose: str = field(default="embedding", compare=False)

    @property
    def waited_for(self) -> bool:
        """True where a question waits for the reply."""
        return self.kind == "query"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Score query and texts together; the reply is a tuple of one raw score per text."""

    query: str
    texts: tuple[str, ...]
    purpose: str = field(default="rerank", compare=False)
    waited_for: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """Describe a picture; the reply is a string that is not empty."""

    image: bytes = field(repr=False)
    prompt: str
    purpose: str = field(default="caption", compare=False)
    max_tokens: int = field(default=CAPTION_TOKENS, compare=False)
    prompt_version: str = field(default="figure_caption", compare=False)
    validate: Validate | None = field(default=None, compare=False, repr=False)

    @property
    def media_type(self) -> str:
        """Return what kind of picture it is: JPEG, which begins with a mark of its own, or else PNG."""
        return "image/jpeg" if self.image.startswith(b"\xff\xd8\xff") else "image/png"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognise:
    """Find the named entities in texts; the reply is one tuple per text: its distinct entities as printed, in order.

    Attributes:
        labels: the kinds of entities asked for, in the model's own words; none: those that the service was made with.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    purpose: str = field(default="entity recognition", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Ask a store for one route's ranking; the reply is a `Ranking`."""

    route: str
    query: str
    k: int  # hits at most; fewer say that the route has no others
    vector: Any = None  # shape (dim,), for routes that compare vectors
    view: str | None = None  # kind of view to search; None leaves it to the route
    where: Where | None = None
    among: tuple[str, ...] | None = None  # rank these chunks (ids) and no others
    documents: tuple[str, ...] | None = None  # rank chunks of these documents (ids); asked only of a store with names
    besides: tuple[str, ...] = ()  # and these chunks (ids), where `documents` are given
    purpose: str = field(default="search", compare=False)
    waited_for: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFused:
    """Ask a store for the ranking of HiQA's whole formula in one go; the reply is a `Fused`, None where it cannot.

    `score = sum over routes of weight * part`, with the part of "dense" `(1 + cos) / 2`, of "lexical" `bm25 / best`,
    best that of the best chunk under the filter, and of "keyword" `ln(1 + |C|)`.

    Attributes:
        k: length of the ranking.
        weights: (route, weight >= 0), each route once.
        vector: of the query, shape (dim,); None where no weight is of "dense".
        where, documents, besides: as in `Search`.
    """

    query: str
    k: int
    weights: tuple[tuple[str, float], ...]
    vector: Any = None
    where: Where | None = None
    documents: tuple[str, ...] | None = None
    besides: tuple[str, ...] = ()
    purpose: str = field(default="search", compare=False)
    waited_for: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Proof, or its lack, that a formula's ranking is the one that scoring every chunk of the index would give.

    Attributes:
        exact: no chunk that was not returned can have a higher score than the last one that was, as far as the
            nearest vectors are the nearest (a graph of neighbours finds nearly all of them).
        neighbours: nearest vectors that were looked at.
        rows: chunks whose scores were compared.
        gap: score of the last chunk of the ranking, less the highest that any other can have; negative where it is
            not certain, and then larger `neighbours` or `rows` may find more.
    """

    exact: bool
    neighbours: int
    rows: int
    gap: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """The ranking of a formula, in `Scale.NORMALIZED`, with each route's raw score in the hits' provenance.

    Attributes:
        best: BM25 that counted as 1; 0 where no chunk holds a word of the query.
    """

    ranking: Ranking
    best: float
    certificate: Certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class FindNames:
    """Ask a store which names of its documents a question says; the reply is a `NamesFound`.

    Attributes:
        also: names that the question contains, as a recogniser or the caller found them: those that the store
            does not know come back as unknown.
    """

    query: str
    also: tuple[str, ...] = ()
    purpose: str = field(default="names", compare=False)
    waited_for: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesFound:
    """Names in a question, in order of place.

    Attributes:
        known: names of documents.
        properties: names that tell no document from the others: they are values in the tables of others.
        parts: parts of titles, file names and first lines that stand in hardly any text besides their documents'; of
            two that are borne by the same documents one.
        unknown: what looks like a name and is none that the store knows; it may still stand in a text.
    """

    known: tuple[Name, ...] = ()
    properties: tuple[Name, ...] = ()
    parts: tuple[Name, ...] = ()
    unknown: tuple[Unknown, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchChunks:
    """Ask a store for chunks by their place; the reply is one tuple of chunks per span, in reading order.

    A chunk that the store does not have is missing from its tuple; a store that cannot tell has none of them.

    Attributes:
        spans: (document id, first position, end position), 0-based and half-open.
    """

    spans: tuple[tuple[str, int, int], ...]
    purpose: str = field(default="neighbours", compare=False)
    waited_for: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchText:
    """Ask a store for slices of documents; the reply is one string per span, None where it holds no such text.

    Attributes:
        spans: (document id, start, end), 0-based code points into `Document.text`, half-open.
    """

    spans: tuple[tuple[str, int, int], ...]
    purpose: str = field(default="text", compare=False)
    waited_for: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPlaces:
    """Ask a store on which pages slices of documents are; the reply is one `Place` per span, without lines.

    Attributes:
        spans: as in `FetchText`.
    """

    spans: tuple[tuple[str, int, int], ...]
    purpose: str = field(default="pages", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchDocuments:
    """Ask a store for whole documents; the reply is one `Document` per id, None for one that it does not hold."""

    ids: tuple[str, ...]
    purpose: str = field(default="documents", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspect:
    """Ask a store for what decides how a question is put to it; the reply is a `Holdings`.

    Attributes:
        views: kinds of view to look for; None looks for all kinds.
        fields: whether the fields are asked for by which chunks can be filtered.
        graph: whether it is asked if there is a graph.
        values: fields of which all values are asked for.
    """

    views: tuple[str, ...] | None = ()
    fields: bool = False
    graph: bool = False
    values: tuple[str, ...] = ()
    purpose: str = field(default="what is held", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """A store's account of itself; a store that cannot say leaves all of it empty.

    Attributes:
        views: those kinds of view asked for that chunks have, sorted.
        fields: by which chunks can be filtered; none where that is not known, or was not asked.
        embedder: identity of the model whose vectors it holds.
        graph: whether a graph of its chunks lies beside it, where that was asked; not where a server is to be asked.
        values: of each field asked for, sorted as text; not of one with more than `catena.model.MOST_VALUES`.
        told_apart: by id, what tells documents of one title from each other, see `catena.model.told_apart`.
    """

    views: tuple[str, ...] = ()
    fields: frozenset[str] = frozenset()
    embedder: str = ""
    graph: bool = False
    values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    told_apart: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckGraph:
    """Ask a graph whether it is there; a `LibraryError` says that it is not."""

    purpose: str = field(default="graph", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _GraphRequest:
    purpose: str = field(default="graph", compare=False)
    waited_for: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Expand(_GraphRequest):
    """Ask a graph for the neighbours of chunks; the reply is a `Neighbourhood`.

    Attributes:
        chunk_ids: of the nodes to expand; one that the graph does not have has no neighbours.
        words: of the question, as `catena.text.words.word_keys` gives them: to be counted in each neighbour.
        kinds: of edges to follow; None follows all that the graph has.
    """

    chunk_ids: tuple[str, ...]
    words: tuple[str, ...] = ()
    kinds: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchNodes(_GraphRequest):
    """Ask a graph for nodes by the ids of their chunks; the reply is a `Nodes`, without what it does not have."""

    chunk_ids: tuple[str, ...]
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CountWords(_GraphRequest):
    """Ask a graph in how many of its nodes words are; the reply is a `WordCounts`."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchById(_GraphRequest):
    """Ask a graph for the chunks of nodes; the reply is one `Chunk` per id, None where there is none."""

    chunk_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCovering(_GraphRequest):
    """Ask a graph which nodes cover most of some terms; the reply is a `Nodes`, best first.

    A node covers a term when its text or its titles hold all words of the term. Most terms first, ties by the dot
    product of the node's vector with `vector`, then by id; a node that covers none is not in the reply.

    Attributes:
        terms: words or phrases, as `catena.text.words.normalise_term` gives them.
        vector: of the question, shape (dim,).
        k: nodes in the reply, at most.
        words: to be counted in each of them, as in `FetchNodes`.
    """

    terms: tuple[str, ...]
    vector: Any
    k: int = 1
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeEdges(_GraphRequest):
    """Ask a graph what joins pairs of nodes; the reply is one `Edge` per pair, seen from its first, None for none."""

    pairs: tuple[tuple[str, str], ...]


Request: TypeAlias = object
"""Any of the requests above, or a frozen dataclass with a handler of its own.

One that says `waited_for: ClassVar[bool] = True` is what a question waits for: its service is asked twice at most,
and left alone for a while where it is dead (`catena.effects.services`).
"""

Step: TypeAlias = Generator[Sequence[Request], Sequence[Any], T]


@dataclass(frozen=True, slots=True)
class Failed:
    """A request or a step that failed, as a value: the neighbours' replies are not lost."""

    error: Exception


def ask(requests: Sequence[Request]) -> Step[list[Any]]:
    """Return the replies in order; the first failure is raised here, inside the step."""
    replies = yield requests
    for reply in replies:
        if isinstance(reply, Failed):
            raise reply.error
    return list(replies)


def embed_texts(
    texts: Sequence[str], purpose: str, *, kind: Literal["document", "query"] = "document"
) -> Step[list[Any]]:
    """Return a row per text, in order; they are asked for in batches, which can be told of and stopped."""
    batches = [tuple(texts[at : at + TEXTS_OF_BATCH]) for at in range(0, len(texts), TEXTS_OF_BATCH)]
    requests = [Embed(texts=batch, kind=kind, purpose=purpose) for batch in batches]
    replies = (yield from ask(requests)) if requests else []
    return [row for reply in replies for row in reply]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ForeignCall:
    """One call of a user's own object, by threads or by asyncio; the reply is what it returns.

    `catena.effects.calling` answers it.

    Attributes:
        do: makes it.
        ado: makes it on an event loop.
        purpose: in messages and progress.
        waited_for: whether a question waits for it.
    """

    do: Callable[[], Any]
    ado: Callable[[], Awaitable[Any]]
    purpose: str = "store"
    waited_for: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AwaitedCall:
    """One call of a user's own coroutine function; without an event loop it is awaited on one of the core's."""

    ado: Callable[[], Awaitable[Any]]
    purpose: str = "store"


def called(
    do: Callable[[], Any], ado: Callable[[], Awaitable[Any]], *, purpose: str = "store", waited_for: bool = False
) -> Step[Any]:
    """Make one call, see `ForeignCall`, and return its reply."""
    (reply,) = yield from ask([ForeignCall(do=do, ado=ado, purpose=purpose, waited_for=waited_for)])
    return reply


def ask_if_known(request: Request) -> Step[Any]:
    """Return the reply, None where nobody is there to answer such a request: who searches need not have a store."""
    (reply,) = yield [request]
    if isinstance(reply, Failed):
        if isinstance(reply.error, MissingServiceError):
            return None
        raise reply.error
    return reply


def answer_of(reply: Any, read: Callable[[str], T]) -> T | ServiceError:
    """Return what is read in a model's reply, or why there is nothing; what is no failure of the model is raised.

    Args:
        reply: to a `Complete`, or `Failed`.
        read: raises ValueError, which says what is wrong, for a text of no use. As `validate` it has refused such a
            text already, but in a dry run, or by a driver of one's own that does not look at it.
    """
    if isinstance(reply, Failed):
        if not isinstance(reply.error, ServiceError):
            raise reply.error
        return reply.error
    try:
        return read(reply.text)
    except ValueError as invalid:
        return InvalidReplyError("model", str(invalid))


def together(steps: Sequence[Step[T]]) -> Step[list[T | Failed]]:
    """Advance steps side by side, one shared batch a round; a failed step does not stop the rest."""
    results: dict[int, T | Failed] = {}
    replies: dict[int, Any] = dict.fromkeys(range(len(steps)))
    try:
        while True:
            pending: dict[int, Sequence[Request]] = {}
            for index, reply in replies.items():
                try:
                    pending[index] = steps[index].send(reply)
                except StopIteration as done:
                    results[index] = done.value
                except Exception as error:  # the caller decides what a failed step means
                    results[index] = Failed(error)
            if not pending:
                return [results[index] for index in range(len(steps))]
            flat = iter((yield [request for batch in pending.values() for request in batch]))
            replies = {index: [next(flat) for _ in batch] for index, batch in pending.items()}
    finally:
        for step in steps:  # when the run stops half-way, so do the steps inside
            step.close()


def all_together(steps: Sequence[Step[T]]) -> Step[list[T]]:
    """Advance steps side by side as `together` does, and return their results; raise the first failure in order."""
    made: list[T] = []
    for result in (yield from together(steps)):
        if isinstance(result, Failed):
            raise result.error
        made.append(result)
    return made
