"""Score texts by late interaction: each token of the question counts by its best match among the text's tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from catena.effects import Handler, Search, Step, ask
from catena.model.errors import InvalidReplyError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from catena.effects.ports import TokenEmbedder

LATE_INTERACTION = "late_interaction"  # the name of the route

_BLOCK = 65_536  # token rows compared at once: 8 MB of similarities for a question of 32 tokens
_DECIMALS = 5  # of a score: a product of matrices may differ in its last bits with a row's place in its block


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenRows:
    """The token vectors of n texts, one below the other.

    Attributes:
        rows: shape (N, dim).
        starts: n + 1 ascending places in `rows`, 0-based: text i has the rows [starts[i], starts[i + 1]).
    """

    rows: NDArray[np.float32]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[NDArray[np.float32]]) -> TokenRows:
        """Return the token vectors of texts, each of shape (tokens, dim).

        Raises:
            ParameterError: an array has another shape, dims differ, or a number is NaN or infinite.
        """
        arrays = [_matrix("token vectors", text) for text in texts]
        dims = sorted({array.shape[1] for array in arrays})
        if len(dims) > 1:
            raise ParameterError("token vectors", f"of {dims} dimensions", "of one dimension, of one model")
        rows = np.concatenate(arrays) if arrays else np.zeros((0, 0), np.float32)
        return cls(rows=rows, starts=np.cumsum([0, *map(len, arrays)], dtype=np.int64))

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.starts) - 1


def max_sim(query: NDArray[np.float32], texts: TokenRows, *, block: int = _BLOCK) -> NDArray[np.float64]:
    """Return how well each text answers token by token: `score(q, d) = sum_i max_j q_i . d_j`.

    Args:
        query: the question's token vectors, shape (tokens, dim).
        texts: the token vectors of n texts.
        block: token rows compared at once; memory is `block x tokens of the question` numbers beside the input.

    Returns:
        Shape (n,): scores to 5 decimals, so that equal texts tie; -inf for a text without tokens, and for all where
        the question has none.

    Raises:
        ParameterError: the shapes do not fit, or a number is NaN or infinite.

    Source: MaxSim: Khattab and Zaharia, ColBERT, SIGIR 2020, doi:10.1145/3397271.3401075.
    """
    asked = _matrix("query", query)
    if block < 1:
        raise ParameterError("block", block, "an integer >= 1")
    scores = np.full(len(texts), -np.inf)
    if not len(asked) or not len(texts.rows):
        return scores
    if asked.shape[1] != texts.rows.shape[1]:
        allowed = f"{texts.rows.shape[1]} dimensions, as the texts"
        raise ParameterError("token vectors of the query", f"{asked.shape[1]} dimensions", allowed)
    filled = np.flatnonzero(np.diff(texts.starts))  # reduceat knows no empty runs
    borders = np.append(texts.starts[filled], texts.starts[-1])
    for text, best in _best_by_token(asked, texts.rows, borders, block):
        scores[filled[text]] = best.sum(axis=1, dtype=np.float64).round(_DECIMALS)
    return scores


def _best_by_token(
    asked: NDArray[np.float32], rows: NDArray[np.float32], borders: NDArray[np.int64], block: int
) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Yield for runs of texts the largest similarity of each token of the question, shape (texts, tokens).

    A text that goes on in the next block is yielded with what was seen of it so far, and again when more was.
    """
    rest: NDArray[np.float32] | None = None
    for start in range(0, len(rows), block):
        end = min(start + block, len(rows))
        first = int(np.searchsorted(borders, start, side="right")) - 1
        last = int(np.searchsorted(borders, end, side="left"))
        cuts = np.maximum(borders[first:last], start) - start
        best: NDArray[np.float32] = np.maximum.reduceat(rows[start:end] @ asked.T, cuts, axis=0)
        if rest is not None and borders[first] < start:
            best[0] = np.maximum(best[0], rest)
        rest = best[-1]
        yield slice(first, last), best


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedTokens:
    """Turn texts into one vector per token; the reply is one array of shape (tokens, dim) per text, in order."""

    texts: tuple[str, ...]
    kind: Literal["document", "query"] = "document"
    purpose: str = "token embedding"


def answering_tokens(embedder: TokenEmbedder) -> Handler:
    """Return who answers `EmbedTokens` requests, as `Services.handlers` takes it under that type.

    Replies are not kept in a journal: they are some hundred times as large as the texts.
    """

    def call(request: EmbedTokens) -> Sequence[NDArray[np.float32]]:
        if request.kind == "document":
            return embedder.embed_document_tokens(request.texts)
        return [embedder.embed_query_tokens(text) for text in request.texts]

    of_documents = getattr(embedder, "aembed_document_tokens", None)
    of_query = getattr(embedder, "aembed_query_tokens", None)
    if of_documents is None or of_query is None:
        return Handler(identity=embedder.identity, call=call)

    async def acall(request: EmbedTokens) -> Sequence[NDArray[np.float32]]:
        if request.kind == "document":
            return await of_documents(request.texts)  # type: ignore[no-any-return]
        return [await of_query(text) for text in request.texts]

    return Handler(identity=embedder.identity, call=call, acall=acall)


class LateInteractionReranker:
    """Scores texts by `max_sim`; what late interaction is where rankings come from elsewhere: a reranker.

        rerank(query, ranking, calibration=fitted)  # with Services(reranker=LateInteractionReranker(embedder))

    Scores grow with the question's tokens: a calibration should be fitted, or `Constant()`. A text without tokens is
    given the least score there can be, minus the number of the question's tokens.

    Args:
        embedder: gives each token its vector.
    """

    def __init__(self, embedder: TokenEmbedder) -> None:
        self.embedder = embedder
        self.identity = f"late interaction of {embedder.identity}"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score per text, in order.

        Raises:
            InvalidReplyError: the embedder gave another number of arrays, or arrays of another form.
        """
        if not texts:
            return []
        asked = _rows([self.embedder.embed_query_tokens(query)]).rows
        request = EmbedTokens(texts=tuple(texts))
        rows = _rows(_all(request, self.embedder.embed_document_tokens(request.texts)))
        return [max(float(score), -float(len(asked))) for score in max_sim(asked, rows)]


def embed_tokens(texts: Sequence[str], *, batch: int = 64) -> Step[TokenRows]:
    """Return the token vectors of texts, asked for in batches side by side.

    Raises:
        ParameterError: batch is not an integer >= 1.
        InvalidReplyError: the embedder gave another number of arrays, or arrays of another form.
        CatenaError: the embedder failed.
    """
    if not isinstance(batch, int) or batch < 1:
        raise ParameterError("batch", batch, "an integer >= 1")
    parts = [tuple(texts[start : start + batch]) for start in range(0, len(texts), batch)]
    requests = [EmbedTokens(texts=part) for part in parts]
    replies = yield from ask(requests)
    return _rows([array for request, reply in zip(requests, replies, strict=True) for array in _all(request, reply)])


def late_interaction(query: str) -> Step[Search]:
    """Rank by MaxSim of the question's token vectors with those of the views; a route as `dense` is one."""
    request = EmbedTokens(texts=(query,), kind="query", purpose="query token embedding")
    (reply,) = yield from ask([request])
    return Search(route=LATE_INTERACTION, query=query, vector=_rows(_all(request, reply)).rows, k=0)


def _all(request: EmbedTokens, reply: Any) -> Sequence[NDArray[np.float32]]:
    if len(reply) != len(request.texts):
        raise InvalidReplyError("token embedder", f"{len(reply)} arrays for {len(request.texts)} texts")
    return reply  # type: ignore[no-any-return]


def _rows(arrays: Sequence[NDArray[np.float32]]) -> TokenRows:
    try:
        return TokenRows.of(arrays)
    except ParameterError as error:
        raise InvalidReplyError("token embedder", str(error)) from None


def _matrix(name: str, values: Any) -> NDArray[np.float32]:
    allowed = "an array of shape (tokens, dim) of finite numbers"
    try:
        array = np.asarray(values, np.float32)
    except (TypeError, ValueError):
        raise ParameterError(name, type(values).__name__, allowed) from None
    if array.ndim != 2 or not array.shape[1]:
        raise ParameterError(name, f"the shape {array.shape}", allowed)
    if not np.isfinite(array).all():
        raise ParameterError(name, "NaN or infinity", allowed)
    return array
