"""The paper's scorer with its encoder trained too: the graph and the questions are embedded anew by that encoder."""

from __future__ import annotations

from time import perf_counter

from catena.graph import PAPER, ChunkGraph, GraphSearch, TrainingOptions
from catena_bench.graph_embedding import KeptVectors
from catena_bench.graph_rankings import HYBRID, Rankings
from catena_bench.graph_setting import LeftOut, Setting
from catena_bench.graph_training import lists_of
from catena_bench.graph_walks import walked

TUNED = "paper_fine_tuned"
_NEGATIVES = 7  # of one list: every row is a text that the encoder reads in every epoch


def paper_fine_tuned(setting: Setting) -> Rankings:
    """Fine-tune the encoder with the paper's networks, and walk as "paper_trained" does, over a graph of its vectors.

    The walk begins with the same "hybrid" ranking as all others, so that what differs is the scorer and its graph.
    `fine_tuning_seconds` and `fine_tuning_lists` say what it took, and `fine_tuning_mrr` how well the best epoch
    ranked the choices that were held out.

    Raises:
        LeftOut: nothing was said about fine-tuning, there is no train split, or no torch.
        CatenaError: training failed.
    """
    tuning = setting.tuning
    if tuning is None:
        raise LeftOut("needs --fine-tune")
    lists, graph = lists_of(setting, most=tuning.questions, negatives=_NEGATIVES)
    from catena.library import train_chain_scorer

    start = perf_counter()
    trained = train_chain_scorer(
        lists,
        graph,
        tuning.model,
        fine_tune=True,
        options=TrainingOptions(epochs=tuning.epochs),
        progress=lambda epoch: setting.tell(f"epoch {epoch.number} of {tuning.epochs}: loss {epoch.loss:.3f}"),
    )
    report = trained.report
    setting.figures["fine_tuning_seconds"] = perf_counter() - start
    setting.figures["fine_tuning_lists"] = report.training_lists
    best = report.epochs[report.best_epoch - 1].mrr
    if best is not None:
        setting.figures["fine_tuning_mrr"] = best
    embedder = KeptVectors(trained.embedder, None, setting.tell)
    vectors = embedder.embed_documents([chunk.text for chunk in setting.split.chunks])
    tuned = ChunkGraph.build(setting.nodes, vectors)
    how = GraphSearch(walk=PAPER, scorer=trained.scorer, on_graph_error="raise")
    asked = tuple(zip(setting.split.questions, setting.first[HYBRID], strict=True))
    results, setting.times[TUNED] = walked(asked, how, embedder, tuned, setting.k)
    return tuple(result.ranking for result in results)
