"""The whole formula by a script over the best of a first ranking: exact for all of its window, in one request.

For servers that have Painless. The first ranking is that of `catena.server.formula`; the script then scores its
window with the vectors that the first ranking had not compared, so that none need be asked again. What lies outside
the window keeps its place behind: unlike `fused`, nothing says whether it could have come in.
"""

from __future__ import annotations

from typing import Any

from catena.effects.steps import SearchFused, Step, ask
from catena.model import Ranking, Scale
from catena.model.errors import ParameterError, ServerError
from catena.server.dialect import MOST, Dialect, explained
from catena.server.formula import Formula, formula_body, words_query
from catena.server.fused import PARTS, FusedOptions, hits_of, parts_of, prepared, weights_of
from catena.server.hits import rows_in, search_call, sources
from catena.server.layout import IndexLayout
from catena.server.searching import QueryOptions, over_all_shards

_SCRIPT = """\
int count = 0;
for (def term : params.terms) { if (doc['terms'].contains(term)) { count++; } }
double words = params.best > 0 ? params.lexical * _score / params.best : 0;
return words + params.keyword * Math.log(1.0 + count)"""
_VECTOR = (
    " + (doc['%(field)s'].size() == 0 ? 0 : params.dense * (1.0 + cosineSimilarity(params.vector, %(of)s)) / 2.0)"
)


def rescored_body(
    formula: Formula, layout: IndexLayout, dialect: Dialect, *, rows: int, window: int
) -> dict[str, Any] | None:
    """Return the body of the one request, None where nothing is asked.

    Args:
        formula: the question; its vectors are those of a kind of which a chunk has one.
        layout: where its parts are looked for.
        dialect: how the server is asked.
        rows: chunks to return, at most `window`.
        window: chunks of each shard that are scored by the script.
    """
    first = formula_body(formula, layout, dialect, rows=rows)
    if first is None:
        return None
    nearest, source = formula.nearest, _SCRIPT
    params: dict[str, Any] = {
        "terms": list(formula.values),
        "lexical": formula.lexical,
        "keyword": formula.keyword,
        "best": formula.best,
    }
    if nearest is not None:
        of = f"'{nearest.field}'" if dialect.flavour == "elasticsearch" else f"doc['{nearest.field}']"
        source += _VECTOR % {"field": nearest.field, "of": of}
        params |= {"dense": nearest.boost, "vector": list(nearest.vector)}
    every: dict[str, Any] = {"must": [{"match_all": {"boost": 0.0}}]}
    words = {"should": [words_query(formula.words, layout)]} if formula.words else {}
    script = {"query": {"bool": every | words}, "script": {"source": f"{source};", "params": params}}
    query = {"query_weight": 0, "rescore_query_weight": 1, "rescore_query": {"script_score": script}}
    unsorted = {key: value for key, value in first.items() if key != "sort"}  # a server rescores no sorted rows
    return {**unsorted, "rescore": {"window_size": window, "query": query}}


def search_rescored(
    request: SearchFused, layout: IndexLayout, how: QueryOptions, *, window: int = 200
) -> Step[Ranking | None]:
    """Return the k best chunks by the whole formula of those that come first without it.

    Args:
        request: as for `search_fused`.
        layout: of the set.
        how: how it is asked.
        window: chunks of each shard that are scored anew, >= k; as many neighbours are looked at.

    Returns:
        The ranking, None where the formula has a part that this server cannot sum: as in `search_fused`, or vectors
        of which a chunk may have several, which a script does not see.

    Raises:
        ParameterError: k, the window or the vector is out of range.
        FilterError: the filter is malformed.
        ServerError: the server refused (it may have no Painless), cannot be reached, or has no vectors.
    """
    weights = weights_of(request)
    if not request.k <= window <= MOST or window < 1:
        raise ParameterError("window", window, f"a whole number in [max(1, k), {MOST}]")
    if weights is None:
        return None
    if request.k == 0 or request.documents == ():
        return Ranking((), Scale.NORMALIZED)
    options = FusedOptions(neighbours=window, rows=window)
    question = yield from prepared(request, weights, layout, how, options)
    if question is None or (question.formula.nearest is not None and question.formula.nearest.nested is not None):
        return None
    body = rescored_body(question.formula, layout, how.dialect, rows=request.k, window=window)
    if body is None:
        return Ranking((), Scale.NORMALIZED)
    params = PARTS if "knn" in body else PARTS | over_all_shards(layout)
    try:
        (reply,) = yield from ask([search_call(layout, body, params=params)])
    except ServerError as error:
        raise explained(error) from error
    parts = {row["_id"]: parts_of(row, question, by_rest=True) for row in rows_in(reply)}
    held = yield from sources(parts, layout)
    best = sorted(((one, question.scoring.score(of)) for one, of in parts.items()), key=lambda hit: (-hit[1], hit[0]))
    return Ranking(hits_of(best, parts, held), Scale.NORMALIZED)
