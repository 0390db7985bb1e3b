"""What a graph of many chunks takes: seconds and memory to build, to add a document, to expand a node, to walk."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from catena.model import ParameterError
from catena_bench.graph_speed_rounds import Figures, measured

SIZES = (10_000, 100_000, 1_000_000)


def run(
    data: Path | None = None,
    *,
    chunks: int = 100_000,
    seed: int = 0,
    tell: Callable[[str], None] = lambda message: None,
) -> Figures:
    """Build graphs of chunks that are grown from a seed, each in a process of its own.

    Chunks are of 100 words, ten to a document, with five keywords and three names; words are as frequent as 1 / rank.
    Ten chunks are of one subject, with which each shares most of its keywords: about five keyword edges a chunk.
    Vectors of 256 numbers lie about centres, 50 to each; half of the chunks say the title of another document.

    Args:
        data: not read; the chunks are made here.
        chunks: of the largest graph, at least 1,000; of 10,000, 100,000 and 1,000,000 those below it are built, too.
        seed: of the chunks.
        tell: is told how far the run is.

    Returns:
        With `.N` behind, N the number of chunks: `build_seconds` (wall) and `build_cpu_seconds`; `peak_mb`, the most
        memory (10^6 bytes) of the process until then, its input included, and `input_mb`, the same before;
        `keyword_seconds`, to find all edges by shared keywords; `edges_KIND`; `semantic_recall`: of the five nearest
        of 500 nodes, those that are joined; `first_expand_ms`, `expand_ms_p50`, of one node; `walk_ms_p50`,
        `walk_ms_p95`: the default walk, first ranking and vector given, in milliseconds of processor time;
        `add_seconds`: one document of ten chunks, `add_and_expand_seconds` with the first expansion after it.
        Up to 10,000 chunks also `add_equals_rebuild` (1 or 0); `ratio.keyword.plain_python` and
        `ratio.keyword.scipy`, their seconds for the same pairs by ours, with `keyword_pairs_agree`; and
        `ratio.whole_build.faiss_neighbours`, the seconds of faiss for the exact neighbours alone by those of our
        whole graph; `ratio.whole_build.networkx_edges`, the seconds of NetworkX to take in the edges that we found,
        by the same, and `ratio.edges_held.networkx`, the bytes that it holds them in by ours. A peer that is not
        installed has no figure.

    Raises:
        ParameterError: `chunks` is below 1,000.
    """
    if chunks < 1_000:
        raise ParameterError("chunks", chunks, "1,000 or more")
    figures: Figures = {}
    for size in (*(size for size in SIZES if size < chunks), chunks):
        tell(f"{size:,} chunks")
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            found = process.submit(measured, size, seed).result()
        tell(f"{size:,} chunks: built in {found['build_seconds']:.1f} s")
        figures |= {f"{key}.{size}": value for key, value in found.items()}
    return figures
