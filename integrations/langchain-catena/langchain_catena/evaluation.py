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
from dataclasses import asdict, replace
from typing import Any, TypeAlias

from langchain_core.language_models import BaseLanguageModel

from catena import ParameterError, Services, arun
from catena.answering import check_answer
from catena.evaluation import (
    AnswerMeasure,
    DocumentSpan,
    LogRankRules,
    LogRankScore,
    MeanLogRankIndex,
    Unretrieved,
    answer_score,
    evaluate,
    evaluate_evidence,
    log_rank_index,
    mean_log_rank_index,
    mean_score,
    recall_at,
    scope_recall_in,
    squad_scores,
)
from catena.model import EvaluationError, meant, needs
from langchain_catena.services import LangChainLLM

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
        wanted, ids = relevant_of(reference_outputs, relevant), ids_of(outputs, documents)
        found = log_rank_index(wanted, ids, n=n, gamma=gamma, unretrieved=unretrieved)
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
    wanted = {name: relevant_of(each, relevant) for name, each in zip(names, reference_outputs, strict=True)}
    return wanted, {name: ids_of(found, documents) for name, found in zip(names, outputs, strict=True) if found}


def _rules(found: LogRankScore | MeanLogRankIndex) -> dict[str, Any]:
    names = ("n", "gamma", "unretrieved", "n_unretrieved", "geometric_mean_rank", "ideal")
    return {name: getattr(found, name) for name in names}


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


Texts: TypeAlias = Mapping[str, str] | Callable[[str], str]
"""From a document's id to its whole text, e.g. `lambda name: library.get(name).document.text`."""

_MEASURES = ("accuracy", "exact_match", "f1")


def measure_evaluator(
    measure: str, *, documents: str = "documents", relevant: str = "relevant", key: str = ""
) -> RowEvaluator:
    """Return a row evaluator of a standard measure: "ndcg@10", "mrr@10", "map", "precision@5", "recall@10".

    Args:
        measure: as `catena.evaluation.standard.evaluate` names it (extra `eval`).
        documents: as in `langchain_catena.evaluation.log_rank_evaluator`; so is `relevant`.
        relevant: ids, or grades by id. Without any the score is None.
        key: name of the feedback; the measure's by default.

    Raises:
        ParameterError: the measure is not known.
        MissingExtraError: ir_measures is not installed.
    """
    key = key or measure
    evaluate({"row": {"a": 1}}, {"row": ["a"]}, [measure])

    def evaluator(outputs: Values, reference_outputs: Values) -> dict[str, Any]:
        grades = grades_of(reference_outputs, relevant)
        if not any(grade >= 1 for grade in grades.values()):
            return {"key": key, "score": None, "comment": "nothing is relevant"}
        found = evaluate({"row": grades}, {"row": list(ids_of(outputs, documents))}, [measure])[measure]
        return {"key": key, "score": found.value, "comment": str(found)}

    return named(evaluator, key)


def evidence_evaluator(
    measure: str = "all@5", *, documents: str = "documents", relevant: str = "relevant", key: str = ""
) -> RowEvaluator:
    """Return a row evaluator of whether all evidence was found: "all@k" (1 or 0), "recall@k" or "match_rate".

    The relevant documents are the pieces of evidence, all of them needed, as for questions of several hops.

    Args:
        measure: as `catena.evaluation.evidence` names it.
        documents: as in `langchain_catena.evaluation.log_rank_evaluator`; so is `relevant`.
        relevant: ids, or grades by id. Without any the score is None.
        key: name of the feedback; the measure's by default.

    Raises:
        ParameterError: the measure is not known, or one of chains: ids tell of none.
    """
    key = key or measure
    if measure == "chain_order":
        raise ParameterError("measure", measure, "recall@k, all@k or match_rate: ids tell of no chains")
    evaluate_evidence({"row": ["a"]}, {"row": ()}, (measure,))

    def evaluator(outputs: Values, reference_outputs: Values) -> dict[str, Any]:
        gold = sorted(relevant_of(reference_outputs, relevant))
        if not gold:
            return {"key": key, "score": None, "comment": "nothing is evidence"}
        found = evaluate_evidence({"row": gold}, {"row": ids_of(outputs, documents)}, (measure,))[measure]
        return {"key": key, "score": found.per_question["row"], "comment": f"{len(gold)} pieces of evidence"}

    return named(evaluator, key)


def quote_evaluator(*, answer: str = "answer", documents: str = "documents", key: str = "quotes") -> RowEvaluator:
    """Return a row evaluator that looks up what an answer quotes: faithfulness without a model.

    The score is the share of the answer's statements that a quote supports; the comment names those that are not. For
    answers with markers [n], n being the place of a document, and quotes below them: the words of a quote stand in
    its passage, or they do not. Outputs of `segment_answer_chain` are judged by what it found (`coverage`,
    `unsupported`), since its answers show no quotes any more.

    Args:
        answer: key of the target's outputs: the text. None and "" are no answer, and have no score.
        documents: key of the target's outputs: documents or texts, as the model was given them.
        key: name of the feedback.
    """

    def evaluator(outputs: Values) -> dict[str, Any]:
        said = of_key(outputs, answer, "the target's outputs")
        if not said:
            return {"key": key, "score": None, "comment": "there is no answer"}
        if "coverage" in outputs:
            return _quoted(key, outputs["coverage"], outputs.get("unsupported", ()))
        texts = [_text(each) for each in of_key(outputs, documents, "the target's outputs")]
        checked = check_answer(str(said), texts)
        return _quoted(key, checked.coverage, [statement.text for statement in checked.unsupported])

    return named(evaluator, key)


def scope_recall_evaluator(
    texts: Texts, *, k: float, documents: str = "documents", scope: str = "scope", key: str = ""
) -> RowEvaluator:
    """Return a row evaluator of answer-scope recall: the share of the evidence's characters in the first k documents.

    Args:
        texts: of the documents that evidence stands in.
        k: documents, as `catena.evaluation.answer_scope.scope_recall_at` reads it: 1.5 is the mean of 1 and 2.
        documents: key of the target's outputs: documents whose metadata say `document_id`, `start_index` and
            `end_index`, as all of this package do.
        scope: key of the reference outputs: mappings with `document_id`, `start` and `end`, 0-based. Without any the
            score is None.
        key: name of the feedback, "scope_recall@k" by default.
    """
    key = key or f"scope_recall@{k:g}"

    def evaluator(outputs: Values, reference_outputs: Values) -> dict[str, Any]:
        spans = _scope(reference_outputs, scope)
        score = _scope_recall(of_key(outputs, documents, "the target's outputs"), spans, texts, k) if spans else None
        return {"key": key, "score": score, "comment": f"{len(spans)} spans of evidence"}

    return named(evaluator, key)


def mean_scope_recall_evaluator(
    texts: Texts, *, k: float, level: float = 0.95, documents: str = "documents", scope: str = "scope", key: str = ""
) -> SummaryEvaluator:
    """Return a summary evaluator of mean answer-scope recall, with its bootstrap interval in the comment.

    Rows without evidence are left out and counted; a row whose target failed counts 0.

    Args:
        texts: as in `scope_recall_evaluator`, as are the others but for `level`.
        k: as above.
        level: of the interval, in (0, 1).
        documents: as above.
        scope: as above.
        key: as above, "mean_scope_recall@k" by default.
    """
    key = key or f"mean_scope_recall@{k:g}"

    def evaluator(outputs: Sequence[Values], reference_outputs: Sequence[Values]) -> dict[str, Any]:
        values = []
        for found, reference in zip(outputs, reference_outputs, strict=True):
            if spans := _scope(reference, scope):
                returned = of_key(found, documents, "the target's outputs") if found else ()
                values.append(_scope_recall(returned, spans, texts, k))
        left_out = len(reference_outputs) - len(values)
        if not values:
            return {"key": key, "score": None, "comment": "no row has evidence"}
        comment = f"{level:.0%} interval: {mean_score(values, level=level)}; {left_out} rows left out"
        return {"key": key, "score": sum(values) / len(values), "comment": comment}

    return named(evaluator, key)


def short_answer_evaluator(
    *, answer: str = "answer", accepted: str = "answer", hotpotqa: bool = False
) -> RowEvaluator:
    """Return a row evaluator of short answers: accuracy, exact match and F1, each in [0, 1], as three feedbacks.

    Args:
        answer: key of the target's outputs; None there is no answer, and scores 0.
        accepted: key of the reference outputs: one answer, or several of which any will do.
        hotpotqa: as in `catena.evaluation.answers.f1`.
    """

    def evaluator(outputs: Values, reference_outputs: Values) -> dict[str, Any]:
        said = of_key(outputs, answer, "the target's outputs")
        right = of_key(reference_outputs, accepted, "the reference outputs")
        scores = asdict(answer_score(said or "", right, hotpotqa=hotpotqa))
        return {"results": [{"key": name, "score": scores[name]} for name in _MEASURES]}

    return named(evaluator, "short_answer")


def mean_short_answer_evaluator(
    *,
    measure: AnswerMeasure = "f1",
    answer: str = "answer",
    accepted: str = "answer",
    hotpotqa: bool = False,
    level: float = 0.95,
) -> SummaryEvaluator:
    """Return a summary evaluator of one measure of short answers, with its bootstrap interval in the comment.

    Args:
        measure: "accuracy", "exact_match" or "f1".
        answer: as in `short_answer_evaluator`, as are the others but for `level`.
        accepted: as above.
        hotpotqa: as above.
        level: of the interval, in (0, 1).
    """

    def evaluator(outputs: Sequence[Values], reference_outputs: Sequence[Values]) -> dict[str, Any]:
        names = [f"row {number:06d}" for number in range(1, len(reference_outputs) + 1)]
        paired = zip(names, reference_outputs, strict=True)
        right = {name: of_key(reference, accepted, "the reference outputs") for name, reference in paired}
        both = zip(names, outputs, strict=True)
        said = {name: of_key(found, answer, "the target's outputs") if found else None for name, found in both}
        scores = squad_scores(right, said, hotpotqa=hotpotqa, level=level)
        values = list(scores.values(measure).values())
        return {"key": f"mean_{measure}", "score": sum(values) / len(values), "comment": str(scores)}

    return named(evaluator, f"mean_{measure}")


def pairwise_evaluator(
    llm: BaseLanguageModel[Any],
    *,
    answer: str = "answer",
    question: str = "question",
    reference: str = "answer",
    repeats: int = 1,
    services: Services | None = None,
) -> Callable[[Any, Any, Any], Any]:
    """Return a comparative evaluator for `evaluate_comparative`: a model scores both answers, in both orders.

    It is a coroutine function of `inputs`, `outputs` (of two targets) and `reference_outputs`, and returns 1 for the
    answer that won and 0 for the other, 0.5 for both at a tie, and None for both where the judge came to no verdict.

    Args:
        llm: the judge, any chat model or LLM.
        answer: key of the targets' outputs.
        question: key of the inputs.
        reference: key of the reference outputs, under which the right answer stands.
        repeats: how often each order is judged.
        services: journal, budget and limits of the judge's calls.
    """
    judge = replace(services or Services(), llm=LangChainLLM(llm))

    async def pairwise(inputs: Values, outputs: Sequence[Values], reference_outputs: Values) -> list[float | None]:
        if len(outputs) != 2:
            raise EvaluationError(f"two targets are compared, got {len(outputs)}. Try: two experiments")
        said = [str(of_key(found, answer, "a target's outputs") or "") if found else "" for found in outputs]
        with needs("catena-bench"):
            from catena_bench.judges import Pair, judge_pairs

        pair = Pair(
            id="row",
            question=str(of_key(inputs, question, "the inputs")),
            reference=str(of_key(reference_outputs, reference, "the reference outputs")),
            a=said[0],
            b=said[1],
        )
        (verdict,) = await arun(judge_pairs([pair], repeats=repeats), judge)
        return list(_POINTS.get(verdict.by_score, (None, None)))

    return pairwise


_POINTS: Mapping[str, tuple[float | None, float | None]] = {"win": (1.0, 0.0), "lose": (0.0, 1.0), "tie": (0.5, 0.5)}


def _quoted(key: str, score: float, unsupported: Iterable[str]) -> dict[str, Any]:
    without = " | ".join(unsupported)
    comment = f"without a verified quote: {without}" if without else "every statement has a verified quote"
    return {"key": key, "score": score, "comment": comment}


def _text(document: Any) -> str:
    """Return the text of a document, of its form as a dict (as LangSmith keeps outputs), or the text itself."""
    if isinstance(document, str):
        return document
    told = document if isinstance(document, Mapping) else vars(document) if hasattr(document, "__dict__") else {}
    text = told.get("page_content")
    if not isinstance(text, str):
        raise EvaluationError(f"a document of type {type(document).__name__} has no page_content. Try: documents")
    return text


def _scope(reference_outputs: Values, scope: str) -> list[DocumentSpan]:
    spans = of_key(reference_outputs, scope, "the reference outputs")
    try:
        return [(str(each["document_id"]), int(each["start"]), int(each["end"])) for each in spans]
    except (TypeError, KeyError, ValueError):
        allowed = "mappings with 'document_id', 'start' and 'end'"
        raise EvaluationError(f"{scope!r} must hold {allowed}, got {spans!r:.80}") from None


def _scope_recall(returned: Iterable[Any], evidence: Sequence[DocumentSpan], texts: Texts, k: float) -> float:
    text_of = texts if callable(texts) else texts.__getitem__
    return scope_recall_in([_span(each) for each in returned], evidence, text_of, k)


def _span(document: Any) -> DocumentSpan:
    """Return where a document says that it stands."""
    told = document.get("metadata") if isinstance(document, Mapping) else getattr(document, "metadata", None)
    keys = ("document_id", "start_index", "end_index")
    if not isinstance(told, Mapping) or any(told.get(key) is None for key in keys):
        raise EvaluationError(
            f"a document of type {type(document).__name__} does not say by {', '.join(keys)} where it stands. "
            "Try: documents of this package's retrievers and transformers"
        )
    return told["document_id"], int(told["start_index"]), int(told["end_index"])
