"""Find neighbours by meaning: the k nearest of each node by cosine, exact, or with faiss approximately.

Products of blocks, whose rounding depends on BLAS, only say which nodes may be near. The cosines that count are then
taken row by row, rounded to six decimals, and ties go to the lower place: so no list depends on blocks, threads or
updates. Approximate neighbours come from an inverted file: rows are divided among about 4 sqrt(n) centres, and a
row is compared with those of the centres nearest to it; their cosines are taken in the same way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from math import isqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from catena.graph.term_index import GrowingRows
from catena.model.errors import MissingExtraError

Tick: TypeAlias = Callable[[int, int], None]
"""Is told what is done, of what; raises to stop."""

NO_NODE = -1
_BLOCK = 2_048  # rows of a product: 16 MB at most, and large enough for BLAS
_MARGIN = 2e-5  # above what BLAS and the rounding change in a cosine of unit vectors
_ANEW = 0.25  # part of all lists from which on all are sought anew
_PAIRS = 65_536  # cosines taken at once
_PROBES = 48  # centres whose rows are compared
_PER_CENTRE = 32  # rows by which each centre is found
_ROUNDS = 8
_BATCH = 8_192  # rows sought at once
_MORE = 4  # candidates beside those that are kept: faiss does not round as we do


@dataclass(frozen=True, slots=True, eq=False)
class NearestNodes:
    """The nearest nodes of each of n nodes, best first.

    Attributes:
        places: of the neighbours, shape (n, k), int32; `NO_NODE` after the last.
        cosines: above 0, shape (n, k), float32; 0 after the last.
    """

    places: NDArray[np.int32]
    cosines: NDArray[np.float32]

    @classmethod
    def nothing(cls, nodes: int, k: int) -> NearestNodes:
        """Return empty lists."""
        return cls(np.full((nodes, k), NO_NODE, np.int32), np.zeros((nodes, k), np.float32))

    def floors(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the least product with which a node may belong into each of some lists."""
        floors: NDArray[np.float32] = self.cosines[rows, -1] - np.float32(_MARGIN)
        return floors

    def offer(self, rows: NDArray[np.integer], places: NDArray[np.integer], cosines: NDArray[np.float32]) -> None:
        """Insert nodes into the lists of some rows if they are near enough; no pair may come twice or be there.

        Ties go to the lower place.
        """
        near = cosines > 0
        rows, places, cosines = rows[near], places[near], cosines[near]
        k = self.places.shape[1]
        lists = np.unique(rows)
        all_rows = np.concatenate([np.repeat(lists, k), rows])
        all_places = np.concatenate([self.places[lists].ravel(), places])
        all_cosines = np.concatenate([self.cosines[lists].ravel(), cosines])
        order = np.lexsort((all_places, -all_cosines, all_rows))
        best = order[np.searchsorted(all_rows[order], lists)[:, None] + np.arange(k)]
        self.places[lists], self.cosines[lists] = all_places[best], all_cosines[best]


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows at unit length; a zero row stays zero."""
    rows = np.empty(vectors.shape, np.float32)
    for a in range(0, len(vectors), _BLOCK):
        exact = vectors[a : a + _BLOCK].astype(np.float64)
        lengths = np.sqrt(np.square(exact).sum(axis=1))
        lengths[lengths == 0] = 1.0
        np.divide(exact, lengths[:, None], out=rows[a : a + _BLOCK], casting="same_kind")
    return rows


def nearest(vectors: NDArray[np.float32], k: int, tick: Tick, *, exact: bool = True) -> NearestNodes:
    """Return the lists of all nodes among each other.

    Of equal vectors, as boilerplate makes them, only one is compared, for all of them, and the first k + 1 of them
    are as near as any.

    Args:
        vectors: of unit length or zero, shape (n, dim); a zero row is near none.
        k: neighbours of each.
        tick: told what is done.
        exact: compare all with all; if not, only with the candidates of an inverted file.

    Raises:
        MissingExtraError: not exact, and faiss is not installed.
    """
    if not k:
        return NearestNodes.nothing(len(vectors), k)
    firsts, group = _groups(vectors)
    distinct = vectors if len(firsts) == len(vectors) else vectors[firsts]
    lists = _compared(distinct, k + 1, tick) if exact else _likely(distinct, k + 1, tick)
    return _of_members(lists, group, k)


def _compared(rows: NDArray[np.float32], k: int, tick: Tick) -> NearestNodes:
    """Return the lists of rows among each other, each itself among them; a product of two blocks serves both."""
    lists = NearestNodes.nothing(len(rows), k)
    starts = range(0, len(rows), _BLOCK)
    pairs = [(a, a) for a in starts] + [(a, b) for a in starts for b in starts if a < b]
    for done, (a, b) in enumerate(pairs):
        tick(done, len(pairs))
        products = rows[a : a + _BLOCK] @ rows[b : b + _BLOCK].T
        for here, there, block in ((a, b, products), (b, a, products.T))[: 1 if a == b else 2]:
            row, column = _promising(block, lists.floors(slice(here, here + block.shape[0])), k)
            if len(row):
                row, column = row + here, column + there
                lists.offer(row, column, _cosines(rows, row, rows, column))
    tick(len(pairs), len(pairs))
    return lists


def _likely(rows: NDArray[np.float32], k: int, tick: Tick) -> NearestNodes:
    """Return about the same, from candidates."""
    lists = NearestNodes.nothing(len(rows), k)
    for first, places in candidates(rows, k, tick):
        row, at = np.nonzero(places >= 0)
        row, column = row + first, places[row, at]
        lists.offer(row, column, _cosines(rows, row, rows, column))
    return lists


def let_in(
    lists: NearestNodes,
    sought: NDArray[np.integer],
    newcomers: NDArray[np.integer],
    *,
    vectors: GrowingRows,
    slots: NDArray[np.integer],
) -> None:
    """Seek the lists of some nodes anew, and insert new nodes into the lists of all others.

    One product of their vectors with all serves both: reading all vectors is what takes the time.

    Args:
        lists: of all nodes; changed.
        sought: places, ascending.
        newcomers: those of them that may be in no list yet.
        vectors: of all slots, in any order.
        slots: of each node.
    """
    k = lists.places.shape[1]
    here = np.full(len(vectors), NO_NODE, np.int64)
    here[slots] = np.arange(len(slots))
    others = here.copy()
    others[slots[sought]] = NO_NODE
    rows = vectors.take(slots[sought])
    found = NearestNodes.nothing(len(sought), k + 1)
    alive = np.flatnonzero(rows.any(axis=1))
    for a in range(0, len(alive), _BLOCK):
        mine = alive[a : a + _BLOCK]
        block = rows[mine]
        new = np.flatnonzero(np.isin(sought[mine], newcomers))
        for piece, columns in _pieces(vectors):
            products = columns @ block.T  # BLAS is quicker with the many rows first
            hosts, nodes = others[piece], here[piece]
            if len(new):
                floors = np.where(hosts == NO_NODE, np.float32(np.inf), lists.floors(hosts))
                column, row = _promising(products[:, new] if len(new) < len(mine) else products, floors, len(new))
                if len(row):
                    cosines = _cosines(block, new[row], columns, column)
                    lists.offer(hosts[column], sought[mine[new[row]]], cosines)
            products[nodes == NO_NODE] = -np.inf
            row, column = _promising(products.T, found.floors(mine), k + 1)
            if len(row):
                found.offer(mine[row], nodes[column], _cosines(block, row, columns, column))
    found = without(found, sought, k)
    lists.places[sought], lists.cosines[sought] = found.places, found.cosines


def _pieces(vectors: GrowingRows) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Yield the rows in pieces, each with the slots of its own."""
    for start, part in vectors.parts():
        for a in range(0, len(part), 4 * _BLOCK):
            rows = np.asarray(part[a : a + 4 * _BLOCK])
            yield slice(start + a, start + a + len(rows)), rows


def updated(
    old: NearestNodes,
    moved: NDArray[np.integer],
    newcomers: NDArray[np.integer],
    *,
    slots: NDArray[np.integer],
    vectors: GrowingRows,
    tick: Tick,
    exact: bool = True,
) -> NearestNodes:
    """Return the lists after nodes moved, went and came, equal to those of `nearest`.

    The lists of new nodes, and of nodes whose lists held one that went, are sought anew; new nodes are inserted into
    all other lists. Where that is a large part of all, `nearest` is quicker.

    Args:
        old: the lists before.
        moved: the new place of each node, `NO_NODE` of one that went; the others keep their order.
        newcomers: places, ascending.
        slots: of each node there is now.
        vectors: of all slots.
        tick: told what is done.
        exact: as for `nearest`, where all are sought anew.
    """
    k = old.places.shape[1]
    stayed = np.flatnonzero(moved != NO_NODE)
    followed = np.append(moved, NO_NODE).astype(np.int32)[old.places]  # `NO_NODE` takes the last one
    short = ((followed == NO_NODE) & (old.places != NO_NODE)).any(axis=1)
    sought = np.union1d(moved[stayed[short[stayed]]], newcomers)
    if not k or len(sought) > _ANEW * len(slots):
        return nearest(np.ascontiguousarray(vectors.take(slots)), k, tick, exact=exact)
    lists = NearestNodes.nothing(len(slots), k)
    lists.places[moved[stayed]], lists.cosines[moved[stayed]] = followed[stayed], old.cosines[stayed]
    tick(0, 1)
    let_in(lists, sought, newcomers, vectors=vectors, slots=slots)
    tick(1, 1)
    return lists


def without(lists: NearestNodes, own: NDArray[np.integer], k: int) -> NearestNodes:
    """Return lists of k without each row's own node, of lists of k + 1 that may hold it."""
    others = lists.places != own[:, None]
    others[others.all(axis=1), -1] = False  # not in its list: the last one has no place in it
    places, cosines = lists.places[others], lists.cosines[others]
    return NearestNodes(places.reshape(-1, k), cosines.reshape(-1, k))


def _promising(
    products: NDArray[np.float32], floors: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows and columns of the products that may belong into the lists of k of their rows."""
    hit = np.flatnonzero(products.max(axis=1) >= floors)
    if 2 * len(hit) > len(products):
        hit, held = np.arange(len(products)), products
    else:
        held = np.take(products, hit, axis=0) if products.flags.c_contiguous else np.take(products.T, hit, axis=1).T
    least = floors[hit]
    likely = held >= least[:, None]
    if k < products.shape[1] and np.count_nonzero(likely) > 2 * k * len(hit):
        least = np.maximum(least, np.partition(held, -k, axis=1)[:, -k] - np.float32(_MARGIN))
        likely = held >= least[:, None]
    if likely.flags.c_contiguous:
        row, column = np.divmod(np.flatnonzero(likely), likely.shape[1])
    else:  # products the other way round: in the order in which they lie, which is four times as quick
        column, row = np.divmod(np.flatnonzero(likely.T), likely.shape[0])
    return hit[row], column


def _cosines(
    rows: NDArray[np.float32], row: NDArray[np.integer], columns: NDArray[np.float32], column: NDArray[np.integer]
) -> NDArray[np.float32]:
    """Return the cosines that count: each by itself, to six decimals."""
    pairs = ((row[a : a + _PAIRS], column[a : a + _PAIRS]) for a in range(0, len(row), _PAIRS))
    parts = [np.vecdot(rows[one], columns[other]) for one, other in pairs]
    return np.round(np.concatenate(parts).astype(np.float64), 6).astype(np.float32)


def _groups(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group nodes of equal vectors: return the first node of each group, ascending, and the group of each node.

    Groups are ordered by their first node; `NO_NODE` is the group of a zero vector.
    """
    seen = {_digest(np.zeros(vectors.shape[1], np.float32)): NO_NODE}
    of = np.fromiter((seen.setdefault(_digest(row), len(seen) - 1) for row in vectors), np.int64, len(vectors))
    firsts = np.unique(of, return_index=True)[1]
    return firsts[of[firsts] != NO_NODE], of


def _digest(row: NDArray[np.float32]) -> bytes:
    return hashlib.blake2b(row.data, digest_size=16).digest()


def _of_members(lists: NearestNodes, group: NDArray[np.int64], k: int) -> NearestNodes:
    """Return the lists of nodes from the lists of their groups: a node near a group is near each of its nodes."""
    groups = len(lists.places)
    order = np.argsort(group, kind="stable")
    order = order[group[order] != NO_NODE]
    counts = np.bincount(group[order], minlength=groups)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    members = np.full((groups + 1, k + 1), NO_NODE, np.int64)  # the last row is that of `NO_NODE`
    early = rank <= k
    members[group[order[early]], rank[early]] = order[early]
    result = NearestNodes.nothing(len(group), k)
    for a in range(0, len(order), _BLOCK):
        mine = order[a : a + _BLOCK]
        places = members[lists.places[group[mine]]].reshape(len(mine), -1)
        cosines = np.repeat(lists.cosines[group[mine]], k + 1, axis=1)
        cosines[(places == NO_NODE) | (places == mine[:, None])] = 0.0
        best = np.lexsort((places, -cosines), axis=1)[:, :k]
        kept = np.take_along_axis(cosines, best, axis=1)
        result.cosines[mine] = kept
        result.places[mine] = np.where(kept > 0, np.take_along_axis(places, best, axis=1), NO_NODE)
    return result


def require_faiss() -> None:
    """Raise `MissingExtraError` if faiss is not installed."""
    if find_spec("faiss") is None:
        raise MissingExtraError("faiss-cpu", "catena-core[ann]")


def candidates(
    rows: NDArray[np.float32], k: int, tick: Callable[[int, int], None]
) -> list[tuple[int, NDArray[np.int64]]]:
    """Return the rows that may be among the k nearest of each: batches of rows, by their first, shape (batch, k + 4).

    Args:
        rows: of unit length, shape (n, dim).
        k: neighbours of each, itself among them.
        tick: told the rows done.

    Raises:
        MissingExtraError: faiss is not installed.
    """
    require_faiss()
    import faiss

    index = _index(faiss, rows)
    found = []
    for a in range(0, len(rows), _BATCH):
        tick(a, len(rows))
        found.append((a, index.search(rows[a : a + _BATCH], min(k + _MORE, len(rows)))[1]))
    tick(len(rows), len(rows))
    return found


def _index(faiss: Any, rows: NDArray[np.float32]) -> Any:
    """Return the rows by centre; one thread finds the centres, as the sums of several come in any order."""
    size, dim = rows.shape
    centres = max(1, min(4 * isqrt(size), size // _PER_CENTRE))
    sample = np.linspace(0, size - 1, min(size, _PER_CENTRE * centres)).astype(np.int64)
    quantizer = faiss.IndexFlatIP(dim)
    index = faiss.IndexIVFFlat(quantizer, dim, centres, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.seed = _ROUNDS, 1
    index.cp.min_points_per_centroid, index.cp.spherical = 1, True
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        index.train(np.ascontiguousarray(rows[sample]))
    finally:
        faiss.omp_set_num_threads(threads)
    index.add(rows)
    index.nprobe = min(_PROBES, centres)
    return index
