"""Call hosted rerankers and embedders: keys, portions of a request, order and errors, for all vendors alike."""

from __future__ import annotations

import os
import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, TypeVar, Unpack
from urllib.parse import urlsplit

from catena.effects import redact, service_error, status_of
from catena.model.errors import CatenaError, InvalidReplyError, MissingExtraError, ParameterError, ServiceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

MODELS: Mapping[str, Any] = tomllib.loads(
    files("catena").joinpath("data", "hosted_models.toml").read_text(encoding="utf-8")
)
"""By service, what is known of its models."""

NO_KEY = "none"  # sent where a service is asked without one, whatever the environment holds
MAX_MESSAGE = 300  # characters of what a service says that an error repeats
_CONNECTIONS = frozenset({"_client", "_async_client", "_resource"})  # made anew where a model is unpickled
_WORD = re.compile(r"\S+\s*|\s+")


def size_in_bytes(text: str) -> int:
    """Return the UTF-8 bytes of a text: an upper bound on its tokens, as a token stands for at least one byte.

    Limits in tokens are obeyed by this bound, since no service's tokenizer can be had without its hub.
    """
    return len(text.encode("utf-8", "surrogatepass"))


def windows(text: str, limit: int) -> list[str]:
    """Cut a text into pieces of at most `limit` bytes that tile it, between words where it can be."""
    if size_in_bytes(text) <= limit:
        return [text]
    pieces: list[str] = []
    piece, size = "", 0
    for part in _parts(text, limit):
        added = size_in_bytes(part)
        if piece and size + added > limit:
            pieces.append(piece)
            piece, size = "", 0
        piece, size = piece + part, size + added
    return [*pieces, piece]


def _parts(text: str, limit: int) -> Iterator[str]:
    """Yield the words with the spaces behind them; what is longer than a window, character by character."""
    for match in _WORD.finditer(text):
        word = match.group()
        if size_in_bytes(word) <= limit:
            yield word
        else:
            yield from word


def portions(sizes: Sequence[int], *, max_count: int, max_size: int | None = None) -> tuple[slice, ...]:
    """Cut a list into runs of at most `max_count` items whose sizes sum to at most `max_size`.

    An item that is too large by itself makes a run of its own.
    """
    runs: list[slice] = []
    start = total = 0
    for index, size in enumerate(sizes):
        full = index - start == max_count or (max_size is not None and total + size > max_size)
        if full and index > start:
            runs.append(slice(start, index))
            start, total = index, 0
        total += size
    return (*runs, slice(start, len(sizes))) if sizes else ()


@dataclass(frozen=True, slots=True)
class RatingPlan:
    """The pieces and the requests in which the texts of one question are sent to a reranker.

    Attributes:
        pieces: windows of the texts; none of a text that is empty.
        owners: per piece, the 0-based text it is of.
        runs: the pieces of each request.
        count: texts.
    """

    pieces: tuple[str, ...]
    owners: tuple[int, ...]
    runs: tuple[slice, ...]
    count: int

    @property
    def requests(self) -> tuple[tuple[str, ...], ...]:
        """The pieces, request by request."""
        return tuple(self.pieces[run] for run in self.runs)

    def scores(self, replies: Iterable[Sequence[float]]) -> tuple[float, ...]:
        """Return one score per text: that of its best piece, and 0.0, the lowest there is, for an empty text."""
        best = [0.0] * self.count
        for owner, score in zip(self.owners, [score for reply in replies for score in reply], strict=True):
            best[owner] = max(best[owner], score)
        return tuple(best)


def rating_plan(
    query: str, texts: Sequence[str], *, window: int | None, max_count: int, max_size: int | None
) -> RatingPlan:
    """Plan the requests that score texts for a query.

    Args:
        query: not empty.
        texts: any number, empty ones among them.
        window: bytes of a piece; None leaves texts whole.
        max_count: pieces of a request.
        max_size: of a request, as `bytes(query) * pieces + bytes(pieces)`; None is no limit.

    Raises:
        ParameterError: the query is empty.
    """
    if not query.strip():
        raise ParameterError("query", query, "text that is not empty")
    filled = ((owner, text) for owner, text in enumerate(texts) if text.strip())
    parted = ((owner, [text] if window is None else windows(text, window)) for owner, text in filled)
    owned = [(owner, piece) for owner, pieces in parted for piece in pieces if piece.strip()]
    overhead = size_in_bytes(query)
    runs = portions([overhead + size_in_bytes(piece) for _, piece in owned], max_count=max_count, max_size=max_size)
    return RatingPlan(tuple(piece for _, piece in owned), tuple(owner for owner, _ in owned), runs, len(texts))


def require_texts(texts: Sequence[str]) -> None:
    """Refuse empty texts before anything is sent: they have no direction, and services refuse them all.

    Raises:
        ParameterError: a text is empty or blank.
    """
    for index, text in enumerate(texts):
        if not text.strip():
            raise ParameterError(f"texts[{index}]", text, "text that is not empty: a service embeds no other")


def in_order(items: Iterable[tuple[Any, Any]], count: int) -> list[Any]:
    """Return the values of (0-based index, value) pairs by index.

    Raises:
        ValueError: not exactly one value per index in [0, count).
    """
    values: dict[int, Any] = {}
    for index, value in items:
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < count:
            raise ValueError(f"index {index!r} of {count} texts")
        if index in values:
            raise ValueError(f"index {index} twice")
        values[index] = value
    if len(values) != count:
        raise ValueError(f"{len(values)} results for {count} texts")
    return [values[index] for index in range(count)]


def scores_in_order(items: Iterable[tuple[Any, Any]], count: int) -> list[float]:
    """Return the scores by index, as hosted rerankers scale them.

    Raises:
        ValueError: not exactly one number in [0, 1] per index.
    """
    scores = in_order(items, count)
    for score in scores:
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0.0 <= score <= 1.0:
            raise ValueError(f"the score {score!r}, not a number in [0, 1]")
    return [float(score) for score in scores]


def unit_rows(rows: Any, count: int, dim: int) -> NDArray[np.float32]:
    """Return the vectors as unit rows, shape (count, dim).

    Raises:
        ValueError: not `count` vectors of length `dim`, or one that is zero or not finite.
    """
    import numpy as np

    matrix = np.asarray(rows, dtype=np.float64)
    if matrix.shape != (count, dim):
        raise ValueError(f"vectors of shape {matrix.shape}, not {(count, dim)}")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ValueError("a vector without direction: zero, NaN or infinite")
    unit: NDArray[np.float32] = (matrix / lengths).astype(np.float32)
    return unit


@dataclass(frozen=True, slots=True)
class Account:
    """A service under a key. The key shows nowhere: not in repr, errors, identities or pickles.

    Attributes:
        service: as in errors and identities, e.g. "cohere".
        variable: the environment's name for the key.
        base_url: another address of the service; None is the service's own.
    """

    service: str
    variable: str
    key: str
    base_url: str | None = None

    def __repr__(self) -> str:
        return f"Account({self.service!r}, {self.variable!r})"

    def __reduce__(self) -> tuple[Callable[..., Account], tuple[object, ...]]:
        return account, (self.service, self.variable, NO_KEY if self.key == NO_KEY else None, self.base_url)

    def identity(self, model: str, *settings: str) -> str:
        """Return "service/model", with the host of another address and the settings that change replies."""
        place = urlsplit(self.base_url) if self.base_url else None
        host = f":{place.hostname}{f':{place.port}' if place.port else ''}{place.path.rstrip('/')}" if place else ""
        return ";".join([f"{self.service}{host}/{model}", *settings])

    def failure(self, error: Exception, identity: str) -> CatenaError:
        """Return our error for what an SDK raised: typed, short, without the key.

        A reply that came but could not be read is an `InvalidReplyError`; a refused key names the variable
        that should hold a valid one.
        """
        if isinstance(error, CatenaError):
            return error
        status = status_of(error)
        said = self._said(error)
        if (status is not None and status < 300) or (status is None and _unreadable(error)):
            return InvalidReplyError(identity, f"the reply cannot be read ({type(error).__name__}: {said})")
        ours = service_error(error, identity, said)
        if status in (401, 403) and isinstance(ours, ServiceError):
            hint = f"{ours.what}. Try: a valid key in the environment as {self.variable}, or as `api_key`"
            return ServiceError(identity, hint)
        return ours

    def _said(self, error: Exception) -> str:
        """Return the service's own words, or else the SDK's."""
        body = getattr(error, "body", None) or getattr(error, "json_body", None)
        # cohere's own text lists all headers of the reply
        return self.words(body) or ("no message" if hasattr(error, "body") else self.words(str(error)))

    def words(self, body: Any) -> str:
        """Return what a body says, without the key, as one short line."""
        said = body.get("message") or body.get("detail") if isinstance(body, dict) else body
        text = " ".join(redact(str(said or ""), {self.key}).split())
        return f"{text[:MAX_MESSAGE]}…" if len(text) > MAX_MESSAGE else text


class Access(TypedDict, total=False):
    """The arguments that every hosted model takes.

    Attributes:
        api_key: by default that of the environment.
        truncate: let the service drop what is too long.
        base_url: of another address.
        timeout: seconds for one request.
    """

    api_key: str | None
    truncate: bool
    base_url: str | None
    timeout: float


class HostedModel(ABC):
    """A model of a service, called through the vendor's SDK. The driver retries, not the SDK.

    Attributes:
        service: as in errors and identities; also the name of our extra with the SDK.
        package: the SDK.
        variable: the environment's name for the key.
        address: the environment's name for another address; "" where there is none.
        identity: service, model and the settings that change replies.
    """

    service: ClassVar[str]
    package: ClassVar[str]
    variable: ClassVar[str]
    address: ClassVar[str] = ""

    def __init__(
        self,
        model: str,
        *settings: str,
        api_key: str | None = None,
        truncate: bool = False,
        base_url: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        if find_spec(self.package) is None:
            raise MissingExtraError(self.package, f"catena-core[{self.service}]")
        self._account = account(self.service, self.variable, api_key, base_url or os.environ.get(self.address))
        self.model, self._truncate, self._timeout = model, truncate, timeout
        self.identity = self._account.identity(model, *settings, *(["truncated"] if truncate else []))
        self._connect()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _CONNECTIONS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._connect()

    def _answered(self, bodies: Iterable[dict[str, Any]], read: Callable[[Iterable[Any]], T]) -> T:
        """Make these requests, and return what is read in their replies; whatever fails is told as one of ours."""
        try:
            return read(self._send(body) for body in bodies)
        except Exception as error:
            raise self._account.failure(error, self.identity) from None

    async def _aanswered(self, bodies: Iterable[dict[str, Any]], read: Callable[[Iterable[Any]], T]) -> T:
        """As `_answered`, without blocking the event loop."""
        try:
            return read([await self._send(body, is_async=True) for body in bodies])
        except Exception as error:
            raise self._account.failure(error, self.identity) from None

    @abstractmethod
    def _connect(self) -> None:
        """Load the SDK, which takes seconds: not in the first call, which may be inside an event loop."""

    @abstractmethod
    def _send(self, body: dict[str, Any], *, is_async: bool = False) -> Any:
        """Make one request; return its reply, or what is to be awaited for it."""


class HostedReranker(HostedModel):
    """Scores of texts for a question, over the requests of a plan."""

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Return one score in [0, 1] per text, in the order of `texts`.

        Raises:
            ServiceError: a request failed.
            ParameterError: the query is empty.
        """
        return self._answered(*self._asked(query, texts))

    async def ascore(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """As `score`, without blocking the event loop."""
        return await self._aanswered(*self._asked(query, texts))

    def _asked(
        self, query: str, texts: Sequence[str]
    ) -> tuple[list[dict[str, Any]], Callable[[Iterable[Any]], tuple[float, ...]]]:
        """Return the requests that score texts, and what reads the scores in their replies."""
        plan = self._plan(query, texts)
        bodies = [self._body(query, part) for part in plan.requests]
        return bodies, lambda replies: plan.scores(map(self._scores, replies, plan.requests))

    def _scores(self, reply: Any, documents: Sequence[str]) -> list[float]:
        return scores_in_order(((item.index, item.relevance_score) for item in self._items(reply)), len(documents))

    @abstractmethod
    def _plan(self, query: str, texts: Sequence[str]) -> RatingPlan:
        """Plan the requests within the service's limits."""

    @abstractmethod
    def _body(self, query: str, documents: Sequence[str]) -> dict[str, Any]:
        """Return the arguments of one request."""

    @abstractmethod
    def _items(self, reply: Any) -> Iterable[Any]:
        """Return the results of a reply, each with `index` and `relevance_score`."""


class HostedEmbedder(HostedModel):
    """Documents and queries to unit vectors.

    Args:
        model: its name at the service.
        default: length of its vectors, None where that is not known here.
        dim: the length that is wanted, None for the default.
        access: as for every hosted model.

    Attributes:
        document_kind, query_kind: what the service calls a text that is searched, and one that searches.
    """

    document_kind: ClassVar[str]
    query_kind: ClassVar[str]

    def __init__(self, model: str, default: int | None, dim: int | None, **access: Unpack[Access]) -> None:
        if (known := dim or default) is None:
            raise ParameterError("dim", dim, f"given for {model!r}, whose vectors' length is not known here")
        super().__init__(model, f"{known} dimensions", **access)
        self.dim: int = known
        self._chosen = None if dim == default else dim

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit rows, shape (len(texts), dim), in order.

        Raises:
            ServiceError: a request failed.
            ParameterError: a text is empty.
        """
        return self._answered(*self._asked(texts, self.document_kind))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return one unit vector, shape (dim,)."""
        row: NDArray[np.float32] = self._answered(*self._asked([text], self.query_kind))[0]
        return row

    async def aembed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As `embed_documents`, without blocking the event loop."""
        return await self._aanswered(*self._asked(texts, self.document_kind))

    async def aembed_query(self, text: str) -> NDArray[np.float32]:
        """As `embed_query`, without blocking the event loop."""
        row: NDArray[np.float32] = (await self._aanswered(*self._asked([text], self.query_kind)))[0]
        return row

    def _asked(
        self, texts: Sequence[str], kind: str
    ) -> tuple[list[dict[str, Any]], Callable[[Iterable[Any]], NDArray[np.float32]]]:
        """Return the requests that embed texts, and what reads the rows in their replies."""
        require_texts(texts)
        parts = self._parts(texts)
        return [self._body(part, kind) for part in parts], lambda replies: self._rows(replies, parts)

    def _rows(self, replies: Iterable[Any], parts: Sequence[Sequence[str]]) -> NDArray[np.float32]:
        """Return the rows of all requests; each request must have answered its own texts."""
        import numpy as np

        pairs = zip(replies, parts, strict=True)
        rows = [unit_rows(self._vectors(reply, len(part)), len(part), self.dim) for reply, part in pairs]
        return np.concatenate([np.zeros((0, self.dim), dtype=np.float32), *rows])

    @abstractmethod
    def _parts(self, texts: Sequence[str]) -> list[Sequence[str]]:
        """Return the texts, request by request."""

    @abstractmethod
    def _body(self, texts: Sequence[str], kind: str) -> dict[str, Any]:
        """Return the arguments of one request."""

    @abstractmethod
    def _vectors(self, reply: Any, count: int) -> Any:
        """Return the vectors of a reply in the order of its `count` texts."""


def account(service: str, variable: str, api_key: str | None = None, base_url: str | None = None) -> Account:
    """Return the account of the given key, or of the one in the environment.

    Raises:
        ParameterError: there is none, or it cannot be sent in a header.
    """
    own = NO_KEY if service == "openai" and base_url else ""  # many servers have its protocol, few of them keys
    key = (api_key or os.environ.get(variable) or own).strip()
    if not key:
        raise ParameterError("api_key", None, f"given, or in the environment as {variable}")
    if not (key.isascii() and key.isprintable()):
        raise ParameterError("api_key", "***", "printable ASCII")
    return Account(service, variable, key, base_url.rstrip("/") if base_url else None)


def _unreadable(error: Exception) -> bool:
    """Tell whether an error without a status comes from taking a reply apart, not from asking for it."""
    unsent = isinstance(error, UnicodeEncodeError)
    return not unsent and isinstance(error, AttributeError | LookupError | TypeError | ValueError)
