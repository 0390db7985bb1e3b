"""Ranking metrics as LangSmith evaluators: plain callables for `Client().evaluate` and `Client().aevaluate`.

    client.evaluate(
        target, data=examples, upload_results=False,
        evaluators=[log_rank_evaluator(n=6221), recall_evaluator(k=10)],
        summary_evaluators=[mean_log_rank_evaluator(n=6221), mean_recall_evaluator(k=10)],
    )

A target returns its documents best first, e.g. `{"documents": retriever.invoke(inputs["question"])}`; the reference
outputs of an example hold the relevant ids, e.g. `{"relevant": ["4f…"]}`. Nothing here imports LangSmith.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from catena import ParameterError
from catena.evaluation import (
    LogRankRules,
    LogRankScore,
    MeanLogRankIndex,
    Unretrieved,
    log_rank_index,
    mean_log_rank_index,
    mean_score,
    recall_at,
)
from catena.model import EvaluationError, meant

Values: TypeAlias = Mapping[str, Any]
RowEvaluator: TypeAlias = Callable[[Any, Any], dict[str, Any]]
SummaryEvaluator: TypeAlias = Callable[[Any, Any], dict[str, Any]]


def log_rank_evaluator(
    *,
    n: int,
    gamma: float = 1.0,
    unretrieved: Unretrieved = "last",
    documents: str = "documents",
    relevant: str = "relevant",
    key: str = "log_rank_index",
) -> RowEvaluator:
    """Return a row evaluator of the Log-Rank Index; the comment states gamma, N and the mean rank.

    Args:
        n: number of pieces that were ranked, i.e. chunks of the collection.
        gamma: as in `catena.evaluation.log_rank_measure.log_rank_index`; so is `unretrieved`.
        unretrieved: what a relevant document becomes that was not returned; by default it earns 0.
        documents: key of the target's outputs under which the documents stand: LangChain documents, dicts with an
            "id", or ids. None returned is a ranking of none, not an error.
        relevant: key of the reference outputs: the ids, or grades by id (1 and above is relevant). Without any the
            score is None.
        key: name of the feedback.

    Raises:
        ParameterError: n, gamma or unretrieved is outside its domain.
    """
    LogRankRules(n=n, gamma=gamma, unretrieved=unretrieved)

    def evaluator(outputs: Values, reference_outputs: Values) -> dict[str, Any]:
        found = log_rank_index(
            relevant_of(reference_outputs, relevant),
            ids_of(outputs, documents),
            n=n,
            gamma=gamma,
            unretrieved=unretrieved,
        )
        return {"key": key, "score": found.value, "comment": str(found), "metadata": _rules(found)}

    return named(evaluator, key)


def recall_evaluator(
    *, k: int, documents: str = "documents", relevant: str = "relevant", key: str = ""
) -> RowEvaluator:
    """Return a row evaluator of `|relevant among the first k| / |relevant|`; None where nothing is relevant.

    Args:
        k: cutoff, 1 or more.
        documents: as in `log_rank_evaluator`; so are `relevant` and `key` ("recall@k" by default).
        relevant: as above.
        key: as above.

    Raises:
        ParameterError: k is below 1.
    """
    key = key or f"recall@{_cutoff(k)}"

    def evaluator(outputs: Values, reference_outputs: Values) -> dict[str, Any]:
        wanted = relevant_of(reference_outputs, relevant)
        score = recall_at(ids_of(outputs, documents), wanted, k) if wanted else None
        return {"key": key, "score": score, "comment": f"{len(wanted)} relevant"}

    return named(evaluator, key)


def mean_log_rank_evaluator(
    *,
    n: int,
    gamma: float = 1.0,
    unretrieved: Unretrieved = "last",
    level: float = 0.95,
    documents: str = "documents",
    relevant: str = "relevant",
    key: str = "mean_log_rank_index",
) -> SummaryEvaluator:
    """Return a summary evaluator of the mean Log-Rank Index, with its bootstrap interval in the comment.

    Rows without a relevant document are left out and counted; a row whose target failed counts 0.

    Args:
        n: as in `log_rank_evaluator`, as are the others but for `level`.
        gamma: as above.
        unretrieved: as above.
        level: of the interval, in (0, 1).
        documents: as above.
        relevant: as above.
        key: as above.

    Raises:
        ParameterError: a parameter is outside its domain.
    """
    LogRankRules(n=n, gamma=gamma, unretrieved=unretrieved)
    _share(level)

    def evaluator(outputs: Sequence[Values], reference_outputs: Sequence[Values]) -> dict[str, Any]:
        wanted, run = _rows(outputs, reference_outputs, documents, relevant)
        qrels = {query: dict.fromkeys(ids, 1) for query, ids in wanted.items()}
        found = mean_log_rank_index(qrels, run, n=n, gamma=gamma, unretrieved=unretrieved)
        values = [index.value or 0.0 for index in found.per_query.values()]
        comment = f"{found}; {_interval(values, level)}"
        return {"key": key, "score": found.value, "comment": comment, "metadata": _rules(found)}

    return named(evaluator, key)


def mean_recall_evaluator(
    *, k: int, level: float = 0.95, documents: str = "documents", relevant: str = "relevant", key: str = ""
) -> SummaryEvaluator:
    """Return a summary evaluator of mean recall@k, with its bootstrap interval in the comment.

    Args:
        k: cutoff, 1 or more.
        level: of the interval, in (0, 1).
        documents: as in `log_rank_evaluator`; so are `relevant` and `key` ("mean_recall@k" by default).
        relevant: as above.
        key: as above.

    Raises:
        ParameterError: a parameter is outside its domain.
    """
    key = key or f"mean_recall@{_cutoff(k)}"
    _share(level)

    def evaluator(outputs: Sequence[Values], reference_outputs: Sequence[Values]) -> dict[str, Any]:
        wanted, run = _rows(outputs, reference_outputs, documents, relevant)
        values = [recall_at(run.get(query, ()), ids, k) for query, ids in wanted.items() if ids]
        score = sum(values) / len(values) if values else None
        left_out = len(wanted) - len(values)
        return {"key": key, "score": score, "comment": f"{_interval(values, level)}; {left_out} rows left out"}

    return named(evaluator, key)


def ids_of(outputs: Values, documents: str = "documents") -> tuple[str, ...]:
    """Return the ids of the documents that a target returned, best first, each once at its best rank.

    Raises:
        EvaluationError: the key is missing, it holds no list, or a document has no id.
    """
    found = of_key(outputs, documents, "the target's outputs")
    if isinstance(found, str | Mapping) or not isinstance(found, Iterable):
        raise EvaluationError(f"{documents!r} must be a list of documents or ids, got {type(found).__name__}")
    return tuple(dict.fromkeys(_id(each) for each in found))


def relevant_of(reference_outputs: Values, relevant: str = "relevant") -> frozenset[str]:
    """Return the ids that an example says are relevant: a list of ids, or grades by id, 1 and above being relevant.

    Raises:
        EvaluationError: the key is missing, or it holds something else.
    """
    return frozenset(piece for piece, grade in grades_of(reference_outputs, relevant).items() if grade >= 1)


def grades_of(reference_outputs: Values, relevant: str = "relevant") -> dict[str, int]:
    """Return the grades that an example gives, by id; of a list of ids each has 1.

    Raises:
        EvaluationError: the key is missing, or it holds something else.
    """
    found = of_key(reference_outputs, relevant, "the reference outputs")
    if isinstance(found, Mapping):
        return {str(piece): int(grade) for piece, grade in found.items() if isinstance(grade, int | float)}
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise EvaluationError(f"{relevant!r} must be a list of ids or grades by id, got {type(found).__name__}")
    return dict.fromkeys((_id(each) for each in found), 1)


def of_key(values: Values, key: str, whose: str) -> Any:
    """Return the value under a key.

    Raises:
        EvaluationError: nothing does; the message says what there is.
    """
    if key not in values:
        known = sorted(map(str, values))
        raise EvaluationError(f"{whose} have no {key!r} (but {known}){meant(key, known)}. Try: the key that it uses")
    return values[key]


def _id(document: Any) -> str:
    """Return the id of a LangChain document, of its form as a dict (as LangSmith keeps outputs), or the id itself."""
    if isinstance(document, str):
        return document
    found = document.get("id") if isinstance(document, Mapping) else getattr(document, "id", None)
    if not isinstance(found, str) or not found:
        raise EvaluationError(
            f"a document of type {type(document).__name__} has no id of type str. "
            "Try: documents of CatenaRetriever, which have the ids of their chunks"
        )
    return found


def _rows(
    outputs: Sequence[Values], reference_outputs: Sequence[Values], documents: str, relevant: str
) -> tuple[dict[str, frozenset[str]], dict[str, tuple[str, ...]]]:
    """Return relevant ids and rankings by the number of the row; a target that failed returned no outputs."""
    names = [f"row {number:06d}" for number in range(1, len(reference_outputs) + 1)]
    wanted = {
        name: relevant_of(reference, relevant) for name, reference in zip(names, reference_outputs, strict=True)
    }
    run = {name: ids_of(found, documents) for name, found in zip(names, outputs, strict=True) if found}
    return wanted, run


def _rules(found: LogRankScore | MeanLogRankIndex) -> dict[str, Any]:
    return {
        "n": found.n,
        "gamma": found.gamma,
        "unretrieved": found.unretrieved,
        "n_unretrieved": found.n_unretrieved,
        "geometric_mean_rank": found.geometric_mean_rank,
        "ideal": found.ideal,
    }


def _interval(values: Sequence[float], level: float) -> str:
    if not values:
        return "no row has a relevant document"
    return f"{level:.0%} interval: {mean_score(values, level=level)}"


def named(evaluator: Callable[..., dict[str, Any]], key: str) -> Callable[..., dict[str, Any]]:
    """Return the evaluator under the name that LangSmith shows where it fails."""
    evaluator.__name__ = key
    return evaluator


def _cutoff(k: int) -> int:
    if k < 1:
        raise ParameterError("k", k, "a cutoff of 1 or more")
    return k


def _share(level: float) -> None:
    if not 0 < level < 1:
        raise ParameterError("level", level, "a share in (0, 1)")
