"""The two networks of the paper's scorer, f_r over the edge and f_n over all: shapes, first weights, numpy's pass.

Source: IIER (arXiv 2408.02907), equations 1 to 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from catena.model.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

KINDS = ("structural", "semantic", "keyword")
"""Kinds of edge, in the order of a triple (W_struc, W_sim, W_keyword)."""


def shapes(dim: int, edge_hidden: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of weights, in the order of the pass.

    Args:
        dim: D, of the encoder.
        edge_hidden: units between the two layers of f_r: R^3 -> R^D.
        hidden: units between the two layers of f_n: R^4D -> R.
    """
    return {
        "edge.first": (edge_hidden, len(KINDS)),
        "edge.first_bias": (edge_hidden,),
        "edge.second": (dim, edge_hidden),
        "edge.second_bias": (dim,),
        "score.first": (hidden, 4 * dim),
        "score.first_bias": (hidden,),
        "score.second": (1, hidden),
        "score.second_bias": (1,),
    }


def initial_weights(dim: int, edge_hidden: int, hidden: int, seed: int) -> dict[str, NDArray[np.float32]]:
    """Return weights drawn evenly from ±1/sqrt(inputs of the layer), equal for equal seeds everywhere."""
    draw = np.random.default_rng(seed)
    found: dict[str, NDArray[np.float32]] = {}
    inputs = 1
    for name, shape in shapes(dim, edge_hidden, hidden).items():
        inputs = shape[1] if len(shape) == 2 else inputs  # a bias has the inputs of its layer, which is before it
        found[name] = draw.uniform(-(inputs**-0.5), inputs**-0.5, shape).astype(np.float32)
    return found


def checked_weights(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """Return the arrays as float32, each of the shape that the others ask for.

    Raises:
        ParameterError: one is missing or too many, of another shape, or not finite.
    """
    wanted = shapes(1, 1, 1)
    if set(arrays) != set(wanted):
        raise ParameterError("weights", sorted(arrays), f"{', '.join(wanted)}")
    second, first = arrays["edge.second"], arrays["score.first"]
    if second.ndim != 2 or first.ndim != 2:
        raise ParameterError("shape of weights", (second.shape, first.shape), "matrices")
    for name, shape in shapes(second.shape[0], second.shape[1], first.shape[0]).items():
        if arrays[name].shape != shape:
            raise ParameterError(f"shape of {name}", arrays[name].shape, f"{shape}, as that of the others asks for")
        if not np.isfinite(arrays[name]).all():
            raise ParameterError(name, "nan or infinity", "finite")
    return {name: np.ascontiguousarray(arrays[name], dtype=np.float32) for name in wanted}


def network_scores(
    weights: Mapping[str, NDArray[np.float32]],
    query: NDArray[np.float32],
    path: NDArray[np.float32],
    nodes: NDArray[np.float32],
    triples: NDArray[np.float32],
) -> NDArray[np.float64]:
    """Score m neighbours: `f_n(E_query, E_path, E_neighbour, f_r(W_struc, W_sim, W_keyword))`.

    Each of f_r and f_n is `W2 relu(W1 x + b1) + b2`. Query and path are the same for all rows, so their part of W1 is
    multiplied once.

    Args:
        weights: of the shapes of `shapes`.
        query: shape (dim,).
        path: shape (dim,).
        nodes: shape (m, dim).
        triples: weights of edges in the order of `KINDS`, shape (m, 3).

    Returns:
        Scores without unit, of any sign, shape (m,).
    """
    dim = len(query)
    first = weights["score.first"]
    hidden = np.maximum(triples @ weights["edge.first"].T + weights["edge.first_bias"], 0.0)
    edges = hidden @ weights["edge.second"].T + weights["edge.second_bias"]
    shared = first[:, :dim] @ query + first[:, dim : 2 * dim] @ path + weights["score.first_bias"]
    inner = nodes @ first[:, 2 * dim : 3 * dim].T + edges @ first[:, 3 * dim :].T + shared
    scores: NDArray[np.float64] = np.maximum(inner, 0.0).astype(np.float64) @ weights["score.second"][0]
    scores += weights["score.second_bias"][0]
    return scores
