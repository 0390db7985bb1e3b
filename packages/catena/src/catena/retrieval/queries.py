"""Find the searches that one question needs: written by a model, or each question of several; and make them all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Literal, TypeAlias

from catena import prompts
from catena.effects import Complete, Failed, Step, ask, together
from catena.model import Degraded, FilterError, ParameterError, Ranking, RouteError, Scale, ServiceError
from catena.text import read_items, tokenise

OnQueryError: TypeAlias = Literal["raise", "degrade"]

LONGEST_QUERY = 300  # characters; what is longer is no search query
_TOKENS_PER_QUERY = 100
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_CLOSING_MARK = "</question"
_END = re.compile(r"(?<![?？؟])[?？؟]+[\s\"'”’»)]*(?:\s|\Z|(?<=[？؟]))")
_STATEMENT_END = re.compile(r"(?<=\w\w\w\w)[.!]\s+")
_AS_WELL_AS = re.compile(r"\bas well as\b", re.IGNORECASE)
_SMALL_WORDS = """
a about against all also among an and are as at between both by can compare compared comparison contrast could did
differ difference differences do does during each every for from had has have he her his how i in into is it its
may me might must of on one ones or over per please respectively shall she should than that the their them there
these they this those to under versus via vs was we were what when where which who whom whose why will with within
would you
alle als am auch auf aus bei beide beim bitte bzw darf das dem den der deren des dessen die diese dieser dieses
durch dürfen ein eine einem einen einer eines er es für gegen haben hat hatte hatten ich ihm ihn ihre im ist jede
jeder jedes jeweils kann können könnte man mir mit muss müssen nach oder ohne pro sein seine seinen sich sie sind
soll sollen sollte sowie um und unter unterscheiden unterscheidet unterschied unterschiede vergleich vergleiche
vergleichen vom von wann war waren warum welche welchem welchen welcher welches wem wen wer werden wessen wie
wieso wird wo woher wohin wurde wurden zu zum zur zwischen über
"""  # of questions, in English and in German
_SMALL = frozenset(_SMALL_WORDS.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """The searches by which a question can be answered.

    Attributes:
        question: as asked.
        queries: distinct, the most useful first.
        degraded: what failed while the rest went on.
    """

    question: str
    queries: tuple[str, ...]
    degraded: tuple[Degraded, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0


def generate_queries(
    question: str, *, n: int = 6, guidance: str = "", keep_question: bool = True, on_error: OnQueryError = "raise"
) -> Step[Queries]:
    """Ask the language model for the searches that a question needs.

    Args:
        question: as typed; a blank one needs no search.
        n: the most queries, >= 1, the question itself included where it is kept.
        guidance: what the model should know about the collection or about the words used in it; "" for nothing.
        keep_question: whether the question itself is the first query. It costs one search and guards against queries
            that miss what was meant; the article and dsRAG search for the model's queries alone.
        on_error: what happens when the model fails: "raise", or "degrade" to `decompose` and say so.

    Returns:
        1 to n queries of at most `LONGEST_QUERY` characters (the question has its own length), none of which equals
        another but for case, spacing and punctuation.

    Raises:
        ParameterError: `n` is below 1, or `on_error` is neither of the two.
        ServiceError: the model failed, or wrote no queries, and `on_error` is "raise".
    """
    if n < 1:
        raise ParameterError("n", n, "an integer >= 1")
    if on_error not in ("raise", "degrade"):
        raise ParameterError("on_error", on_error, "'raise' or 'degrade'")
    kept = (question.strip(),) if keep_question else ()
    if not question.strip() or n == len(kept):
        return Queries(question=question, queries=kept if question.strip() else ())
    prompt = prompts.load("search_queries")
    request = Complete(
        prompt=prompt.filled(
            question=question.strip().replace(_CLOSING_MARK, "< /question"),
            guidance=guidance.strip() or "Nothing more is known about the documents.",
            count=str(n - len(kept)),
        ),
        purpose="search queries",
        system=prompt.system,
        max_tokens=max(_TOKENS_PER_QUERY * n, 400),
        prompt_version=prompt.version,
        schema=prompt.schema,
        validate=written_queries,
    )
    try:
        (reply,) = yield from ask([request])
    except ServiceError as error:
        if on_error == "raise":
            raise
        failure = Degraded("search queries", f"{error}; the question was taken apart without a model")
        return Queries(question=question, queries=_first([*kept, *decompose(question, n)], n), degraded=(failure,))
    try:
        written = written_queries(reply.text)
    except ValueError:  # a reply that was not checked, as in a dry run: as many searches as the offline way makes
        written = decompose(question, n)
    return Queries(
        question=question,
        queries=_first([*kept, *written], n),
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
    )


def written_queries(reply: str) -> tuple[str, ...]:
    """Return the queries in a model's reply, distinct, in order.

    The reply is a list that `read_items` reads: JSON, or lines that are numbered or have a bullet. Queries longer
    than `LONGEST_QUERY` characters are left out.

    Raises:
        ValueError: there are none; the message says what there is instead.
    """
    texts = [" ".join(_UNSEEN.sub(" ", item).split()) for item in read_items(reply, loose=False)]
    found = tuple(distinct_queries(text for text in texts if len(text) <= LONGEST_QUERY))
    if not found:
        raise ValueError(f"the reply is no list of search queries of at most {LONGEST_QUERY} characters")
    return found


def search_all(queries: Sequence[str], search: Callable[[str], Step[Ranking]]) -> Step[tuple[Ranking, ...]]:
    """Search for all queries side by side.

    Args:
        queries: e.g. those of `generate_queries`.
        search: from a query to the step that ranks chunks for it, e.g. `retrieve`.

    Returns:
        One ranking per query, in order. That of a search that failed is empty, in the scale of the others, and says
        in `degraded` what failed.

    Raises:
        RouteError: every search failed.
        ParameterError, FilterError: a search was asked for wrongly; no other query would mend that.
    """
    results = yield from together([search(query) for query in queries])
    for result in results:
        if isinstance(result, Failed) and isinstance(result.error, (ParameterError, FilterError)):
            raise result.error
    failures = [
        (place, str(result.error) or type(result.error).__name__)
        for place, result in enumerate(results)
        if isinstance(result, Failed)
    ]
    if failures and len(failures) == len(results):
        raise RouteError(f"{len(failures)} queries", "; ".join(dict.fromkeys(why for _, why in failures)), True)
    scale = next((result.scale for result in results if isinstance(result, Ranking)), Scale.RANK)
    lost = {place: Degraded(f"search for {queries[place]!r}", why) for place, why in failures}
    return tuple(
        Ranking((), scale, (lost[place],)) if isinstance(result, Failed) else result
        for place, result in enumerate(results)
    )


def _first(queries: Sequence[str], n: int) -> tuple[str, ...]:
    return tuple(islice(distinct_queries(queries), n))


def decompose(question: str, n: int = 6) -> tuple[str, ...]:
    """Return the questions of a text that asks several in a row, each to be searched for by itself, without a model.

    Each has the statements before the first question in front: they say what it is about. What one question
    compares or lists is left together: `retrieve` gives each name in it a share of its own, and no rule that took
    lists apart found more (docs/decisions/0021-integration.md).

    Args:
        question: as typed.
        n: the most parts, >= 1; neighbours are put together where there are more.

    Returns:
        1 to n distinct parts, in the order of the question; the question itself, stripped, where it is one; none for
        a blank question.

    Raises:
        ParameterError: `n` is below 1.
    """
    if n < 1:
        raise ParameterError("n", n, "an integer >= 1")
    whole = " ".join(question.split())
    if not whole:
        return ()
    distinct = tuple(distinct_queries(grouped(_questions(whole), n)))
    return distinct if len(distinct) > 1 else (whole,)


def _questions(text: str) -> list[str]:
    """Return the questions of a text, each with the statements before the first."""
    ends = [match.end() for match in _END.finditer(text)]
    borders = [0, *ends] if ends and not text[ends[-1] :].strip() else [0, *ends[:-1], len(text)]
    parts = [part for first, last in pairwise(borders) if (part := text[first:last].strip())]
    if len(parts) < 2:
        return [text]
    stated = [match.end() for match in _STATEMENT_END.finditer(parts[0])]
    about = parts[0][: stated[-1]] if stated else ""
    return [parts[0], *(about + part for part in parts[1:])]


def distinct_queries(queries: Iterable[str]) -> Iterator[str]:
    """Yield the first of those that differ in case, spacing and punctuation at most; nothing that has no word."""
    seen: set[tuple[str, ...]] = set()
    for query in queries:
        key = tuple(tokenise(query))
        if key and key not in seen:
            seen.add(key)
            yield query


def grouped(parts: Sequence[str], n: int) -> list[str]:
    """Return at most n texts: neighbours are joined, as evenly as whole parts allow."""
    count = min(n, len(parts))
    borders = [len(parts) * index // count for index in range(count + 1)] if count else []
    return [" ".join(parts[first:last]) for first, last in pairwise(borders)]


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text that say what is looked for: all but the small words of English and German."""
    return frozenset(tokenise(_AS_WELL_AS.sub("and", text))) - _SMALL
