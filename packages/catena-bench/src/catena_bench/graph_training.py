"""The paper's scorer, trained for `catena-bench graph` on the train split of a folder: never on what is reported."""

from __future__ import annotations

from importlib.util import find_spec
from time import perf_counter

from catena.graph import (
    PAPER_KINDS,
    ChunkGraph,
    ListOptions,
    PaperScorer,
    TrainingLists,
    TrainingQuestion,
    node_of,
    training_lists,
)
from catena_bench.graph_data import TRAIN, has_split, read_split
from catena_bench.graph_setting import LeftOut, Setting

NEGATIVES = ListOptions().negatives


def paper_scorer(setting: Setting) -> PaperScorer:
    """Return the paper's scorer with the encoder frozen, trained on shortest paths between pieces of evidence.

    It is trained once, on the whole train split of `setting.trained_on`; `training_seconds` says how long it took,
    its graph and its lists given.

    Raises:
        LeftOut: there is no train split, or no torch.
        CatenaError: training failed.
    """
    kept = setting.trained.get("paper")
    if kept is None:
        kept = setting.trained["paper"] = _trained(setting)
    return kept


def _trained(setting: Setting) -> PaperScorer:
    lists, graph = lists_of(setting)
    from catena.library import train_chain_scorer

    start = perf_counter()
    trained = train_chain_scorer(lists, graph, setting.embedder)
    setting.figures["training_seconds"] = perf_counter() - start
    return trained.scorer


def lists_of(
    setting: Setting, *, most: int | None = None, negatives: int = NEGATIVES
) -> tuple[TrainingLists, ChunkGraph]:
    """Return the choices on shortest paths of the train split, and its graph, by the setting's embedder.

    Args:
        setting: says where the split is.
        most: learn from only so many questions.
        negatives: of one list, at most.

    Raises:
        LeftOut: there is no train split, or no torch.
        CatenaError: the split is not of the layout, or has no path.
    """
    if not has_split(setting.trained_on, TRAIN):
        raise LeftOut(f"needs {TRAIN}_corpus and {TRAIN}_questions in {setting.trained_on}")
    if find_spec("torch") is None:
        raise LeftOut("needs torch: pip install 'catena-core[train]', or nox -s torch")
    split = read_split(setting.trained_on, TRAIN, most)
    setting.tell(f"training on {split.name}: {len(split.questions):,} questions over {len(split.chunks):,} passages")
    vectors = setting.embedder.embed_documents([chunk.text for chunk in split.chunks])
    graph = ChunkGraph.build([node_of(chunk) for chunk in split.chunks], vectors)
    questions = [
        TrainingQuestion(question=question.text, supporting=question.evidence) for question in split.questions
    ]
    lists = training_lists(questions, graph, ListOptions(kinds=PAPER_KINDS, missing="skip", negatives=negatives))
    setting.tell(f"learning from {lists}")
    return lists, graph
