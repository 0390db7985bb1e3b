"""Find where a walk begins: in the first ranking, or by the paper's greedy cover of the question's keywords.

The keywords of a question are asked of a language model, or found offline by rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from catena import prompts
from catena.effects.steps import Complete, FindCovering, Step, ask
from catena.graph.frontier import TokenBudget, VisitedNode, WalkContext, pool_frontier, scored
from catena.model.errors import ParameterError
from catena.model.neighbourhood import Nodes
from catena.text.names import TermMatcher
from catena.text.phrases import name_of, named_phrases
from catena.text.replies import read_items
from catena.text.words import tokenise, word_keys

_LOOKED_THROUGH = 50  # nodes that cover the most, where a filter or a budget may refuse the best of them
_MAX_TOKENS = 400
_CLOSING_MARK = "</question"
_LONGEST_REPLY = 20_000  # characters; a longer one is a model that does not stop
_FEWEST_LETTERS = 4  # of a word that is looked for where the question holds no name; one of ideographs has two
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


def find_seeds(context: WalkContext, budget: TokenBudget) -> Step[list[VisitedNode]]:
    """Return the seeds of a walk, distinct, in order, each within the budget; none if no node can be one.

    The score of one "first" is `1 / rank`, of one by keywords the number of keywords that it is the first to cover,
    of one "scored" its score.
    """
    begins, most = context.options.begins, context.options.most_seeds
    found: list[VisitedNode] = []
    if begins in ("first", "both"):
        found = yield from _first(context, budget, most or 1)
    if begins == "scored":
        found = yield from _scored(context, budget, most or 1)
    if begins in ("keywords", "both"):
        found += yield from _greedy_cover(context, budget, found)
    return found or (yield from _first(context, budget, 1))


def _first(context: WalkContext, budget: TokenBudget, most: int) -> Step[list[VisitedNode]]:
    pool = context.pool
    ranked = ((row, 1.0 / context.first.ranks[chunk_id]) for row, chunk_id in enumerate(pool.ids))
    return (yield from _affordable(budget, pool, ranked, min(most, context.limit)))


def _scored(context: WalkContext, budget: TokenBudget, most: int) -> Step[list[VisitedNode]]:
    if not context.pool.ids:
        return []
    frontier = yield from pool_frontier(context)
    scores = yield from scored(context, context.pool.take(np.empty(0, dtype=np.intp)), frontier)
    ranked = ((row, float(scores[row])) for row in frontier.ordered(scores))
    return (yield from _affordable(budget, context.pool, ranked, min(most, context.limit)))


def _affordable(
    budget: TokenBudget, nodes: Nodes, ranked: Iterable[tuple[int, float]], most: int
) -> Step[list[VisitedNode]]:
    """Return the first of (row, score) that fit into the budget."""
    found: list[VisitedNode] = []
    for row, score in ranked:
        if len(found) == most:
            break
        if (yield from budget.pay(nodes.ids[row])):
            found.append(_seed(nodes, row, score))
    return found


def _greedy_cover(
    context: WalkContext, budget: TokenBudget, before: Sequence[VisitedNode]
) -> Step[list[VisitedNode]]:
    """Return the node that covers most of the keywords, then the one that covers most of the rest, and so on.

    Ties go by similarity to the question, then by id. It ends when all keywords are covered or no node covers any
    that is left. A keyword is covered by a node whose text or titles hold all of its words.

    Source: IIER (arXiv 2408.02907), section 3.2, "seed nodes".
    """
    keys = {text: word_keys(text) for text in context.question.keywords}
    words = tuple(dict.fromkeys([*context.question.words, *(word for key in keys.values() for word in key)]))
    columns = len(context.question.words)  # of a seed: the words of its keywords come behind them
    remaining = {text: [words.index(word) for word in key] for text, key in keys.items() if key}
    sure = context.allows is None and context.options.budget_tokens is None and not before
    ids = {seed.id for seed in before}
    most = context.options.most_seeds
    found: list[VisitedNode] = []
    while remaining and (most is None or len(found) < most) and len(before) + len(found) < context.limit:
        nodes: Nodes
        vector, depth = context.question.vector, 1 if sure else _LOOKED_THROUGH
        (nodes,) = yield from ask([FindCovering(terms=tuple(remaining), vector=vector, k=depth, words=words)])
        row = yield from _first_allowed(context, budget, nodes, ids)
        if row is None:
            break
        uncovered = {text: place for text, place in remaining.items() if not nodes.counts[row, place].all()}
        if nodes.ids[row] not in ids:
            ids.add(nodes.ids[row])
            found.append(_seed(nodes, row, float(len(remaining) - len(uncovered)), columns))
        if len(uncovered) == len(remaining):  # a graph that counts words in another way: there is no end to wait for
            break
        remaining = uncovered
    return found


def _first_allowed(context: WalkContext, budget: TokenBudget, nodes: Nodes, known: set[str]) -> Step[int | None]:
    """Return the first row that may be returned and fits into the budget; a seed known before was paid for."""
    allowed = yield from context.allowed(nodes.ids)
    for row, chunk_id in enumerate(nodes.ids):
        if chunk_id in known or (chunk_id in allowed and (yield from budget.pay(chunk_id))):
            return row
    return None


def _seed(nodes: Nodes, row: int, score: float, columns: int | None = None) -> VisitedNode:
    node = nodes.take(np.array([row]))
    if columns is not None:  # the words of the question come first
        node = replace(node, counts=node.counts[:, :columns], in_title=node.in_title[:, :columns])
    return VisitedNode(row=node, score=score, weights={})


def question_keywords(question: str, *, by: Literal["offline", "llm"] = "offline") -> Step[tuple[str, ...]]:
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
    if by not in ("offline", "llm"):
        raise ParameterError("by", by, "'offline' or 'llm'")
    if by == "offline" or not question.strip():
        return offline_question_keywords(question)
    prompt = prompts.load("question_keywords")
    request = Complete(
        prompt=prompt.filled(question=question.strip().replace(_CLOSING_MARK, "< /question")),
        purpose="question keywords",
        system=prompt.system,
        max_tokens=_MAX_TOKENS,
        prompt_version=prompt.version,
        schema=prompt.schema,
        validate=partial(read_question_keywords, question=question),
    )
    (reply,) = yield from ask([request])
    try:
        return read_question_keywords(reply.text, question)
    except ValueError:  # a reply that was not checked, as in a dry run
        return offline_question_keywords(question)


def offline_question_keywords(question: str) -> tuple[str, ...]:
    """Return the names, codes and quoted words of a question, or else its longer words, in order of place."""
    named = (" ".join(_without_beginning(phrase)) for phrase in named_phrases(question))
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


def _without_beginning(phrase: Sequence[str]) -> Sequence[str]:
    first = next((place for place, word in enumerate(phrase) if word.lower() not in _BEGINNING), len(phrase))
    return phrase[first:]


def _content_words(question: str) -> Iterator[str]:
    for word in tokenise(question):
        ideographs = len(word) == 2 and not word.isascii() and not word.islower()
        if word not in _BEGINNING and (len(word) >= _FEWEST_LETTERS or ideographs):
            yield word
