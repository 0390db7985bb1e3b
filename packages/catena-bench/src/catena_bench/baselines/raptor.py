"""Build RAPTOR's tree: summarise clusters of chunks, then clusters of these summaries, and so on to the top."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from annotated_types import Ge, Le, Lt
from numpy.typing import NDArray

from catena import Chunk, Degraded, prompts
from catena.effects import Complete, Embed, Step, answer_of, ask
from catena.enrichment.context_llm import Beginning, beginning, shielded
from catena.enrichment.view_asking import read_summary
from catena.enrichment.view_text import count_words, running_sentences
from catena.model import Checked, InvalidReplyError, MissingExtraError, ParameterError, check_options
from catena.text import count_tokens, sentence_ends
from catena_bench.baselines.tree_search import SummaryTree, TreeNode, leaf_of, parent_of

Matrix: TypeAlias = NDArray[np.float64]
Members: TypeAlias = tuple[int, ...]
Reduce: TypeAlias = Literal["pca", "umap"]

_LOCAL_NEIGHBOURS = 10  # of UMAP inside a global cluster; globally they are the root of the number of vectors
_DIGITS = 6  # what differs by less differs by the order in which a machine sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering(Checked):
    """Options of clustering; the values are those of RAPTOR's reference.

    Attributes:
        reduce: "pca" takes the first principal components; "umap" is the reference's way (extra `umap`): it takes
            seconds to load, and more to compile.
        dimensions: left by it; as few vectors as these and one more are one cluster.
        components: of a mixture, at most; the number with the least BIC is taken.
        threshold: a vector belongs to every cluster whose probability given the vector is above this, and to the
            likeliest in any case; in [0, 1].
        tokens: of the texts of a cluster together; a longer one is divided again.
        seed: of the mixture and of UMAP.
    """

    reduce: Reduce = "pca"
    dimensions: Annotated[int, Ge(1)] = 10
    components: Annotated[int, Ge(1)] = 50
    threshold: Annotated[float, Ge(0), Le(1)] = 0.1
    tokens: Annotated[int, Ge(1)] = 3_500
    seed: Annotated[int, Ge(0), Lt(2**32)] = 224


def clusters(rows: NDArray[np.floating], sizes: Sequence[int], how: Clustering | None = None) -> tuple[Members, ...]:
    """Return clusters that together hold every vector; one vector may be in several.

    The vectors are clustered, and those of each cluster once more. A cluster whose texts are too long together is
    divided in the same way; where that leaves it whole, it is cut into runs that are short enough, in order.

    It computes for seconds with hundreds of vectors, for minutes with thousands, without asking anybody in between:
    an event loop under `arun` waits for it.

    Args:
        rows: shape (n, dim), n >= 1, finite, of unit length or zero.
        sizes: n, tokens of each text; one that is too long alone is a cluster of its own where it must be.
        how: the parameters.

    Returns:
        Places of rows, 0-based, ascending in each cluster; the clusters in order of their members, none twice.

    Raises:
        MissingExtraError: UMAP is asked for, and is not installed.

    Source: Sarthi et al., RAPTOR, arXiv:2401.18059, section 3, and its reference's `cluster_utils`.
    """
    how, unit = how or Clustering(), _rounded(rows)
    found: set[Members] = set()
    everything: Members = tuple(range(len(unit)))
    pending, seen = [everything], {everything}
    while pending:
        whole = pending.pop()
        for part in _divided(unit, whole, how):
            if sum(sizes[place] for place in part) <= how.tokens:
                found.add(part)
            elif len(part) == len(whole):
                found.update(_runs(part, sizes, how.tokens))
            elif part not in seen:
                seen.add(part)
                pending.append(part)
    return tuple(sorted(found))


def _rounded(values: NDArray[np.floating]) -> Matrix:
    return np.asarray(np.round(values.astype(np.float64), _DIGITS), dtype=np.float64)


def _divided(rows: Matrix, members: Members, how: Clustering) -> Iterator[Members]:
    """Yield the local clusters in the global clusters of the members, or these where they are few."""
    if len(members) <= how.dimensions + 1:
        yield members
        return
    for group in _mixture_groups(rows, members, int((len(members) - 1) ** 0.5), how):
        if len(group) <= how.dimensions + 1:
            yield group
        else:
            yield from _mixture_groups(rows, group, _LOCAL_NEIGHBOURS, how)


def _runs(members: Members, sizes: Sequence[int], limit: int) -> Iterator[Members]:
    """Yield neighbours whose texts are short enough together, as many as go."""
    run: list[int] = []
    for place in members:
        if run and sum(sizes[each] for each in run) + sizes[place] > limit:
            yield tuple(run)
            run = []
        run.append(place)
    yield tuple(run)


def _mixture_groups(rows: Matrix, members: Members, neighbours: int, how: Clustering) -> Iterator[Members]:
    """Yield for each component of the best mixture the members that belong to it."""
    reduced = _reduced(rows[list(members)], neighbours, how)
    probabilities = _rounded(_probabilities(reduced, how))
    belongs = probabilities > how.threshold
    belongs[np.arange(len(members)), probabilities.argmax(axis=1)] = True  # else a vector might be nowhere
    for column in belongs.T:
        if column.any():
            yield tuple(members[place] for place in np.flatnonzero(column))


def _reduced(rows: Matrix, neighbours: int, how: Clustering) -> Matrix:
    """Return the rows in few dimensions, shape (n, at most n - 2)."""
    width = min(how.dimensions, len(rows) - 2, rows.shape[1])
    if how.reduce == "umap":
        return _umap(rows, width, neighbours, how.seed)
    from threadpoolctl import threadpool_limits  # late, as all that comes with scikit-learn: it takes long to load

    with threadpool_limits(limits=1):  # sums of several threads come in any order
        _, _, axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        signs = np.where(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)] < 0, -1.0, 1.0)
        points = (rows - rows.mean(axis=0)) @ (axes * signs[:, None])[:width].T
    return _rounded(points)


def _umap(rows: Matrix, width: int, neighbours: int, seed: int) -> Matrix:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on loading, and on small sets
        try:
            from umap import UMAP
        except ImportError as error:
            raise MissingExtraError("umap-learn", "catena-bench[umap]") from error
        model = UMAP(n_neighbors=max(2, neighbours), n_components=width, metric="cosine", random_state=seed, n_jobs=1)
        points = np.nan_to_num(np.asarray(model.fit_transform(rows)))  # NaN: a vector that is near no other
    return _rounded(points)


def _probabilities(rows: Matrix, how: Clustering) -> Matrix:
    """Return the probability of each component given each row, shape (n, components), by the mixture of least BIC."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    best, least = np.ones((len(rows), 1)), np.inf
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of equal vectors, which make fewer clusters than asked
        distinct = len(np.unique(rows, axis=0))  # equal vectors are one point, in one component
        for count in range(1, min(how.components, len(rows) - 1, distinct) + 1):
            try:
                model = GaussianMixture(n_components=count, random_state=how.seed).fit(rows)
            except ValueError:  # so many components leave one of them empty
                continue
            score = round(float(model.bic(rows)), _DIGITS)
            if score < least:
                best, least = np.asarray(model.predict_proba(rows), dtype=np.float64), score
    return best


_RELEVANCE = 0.7  # weight of nearness to the middle against unlikeness to what is taken


By = Literal["llm", "offline"]
_BATCH = 256  # texts per request
_SENTENCES = 10
_WORDS = 100  # as many tokens in the reference


def central_sentences(
    vectors: Sequence[NDArray[np.float64]], sizes: Sequence[int], *, sentences: int, words: int
) -> tuple[int, ...]:
    """Return the places of sentences that together stand for all of them, ascending.

    By maximal marginal relevance: one after the other, of those for which there is room, the sentence with the
    greatest `0.7 * cos(v, mean) - 0.3 * max(0, cos(v, u) for u taken)` is taken; of equal ones the first.

    Args:
        vectors: one row per sentence, of unit length or zero.
        sizes: words of each sentence.
        sentences: at most so many.
        words: at most so many in all.

    Returns:
        Places from 0; () where no sentence is short enough.

    Source: Carbonell and Goldstein, SIGIR 1998, doi:10.1145/290941.291025, with the mean of all sentences as query.
    """
    if not len(vectors):
        return ()
    rows = np.asarray(vectors, dtype=np.float64)
    mean = rows.mean(axis=0)
    relevance = rows @ mean / (float(np.linalg.norm(mean)) or 1.0)
    likeness = np.zeros(len(rows))
    is_open = np.ones(len(rows), dtype=bool)
    room, chosen = words, list[int]()
    while len(chosen) < sentences and (is_open := is_open & (np.asarray(sizes) <= room)).any():
        # rounded: what differs by less differs by the order in which a machine sums
        value = np.round(_RELEVANCE * relevance - (1 - _RELEVANCE) * likeness, 9)
        best = int(np.where(is_open, value, -np.inf).argmax())
        chosen.append(best)
        room -= sizes[best]
        is_open[best] = False
        likeness = np.maximum(likeness, rows @ rows[best])
    return tuple(sorted(chosen))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSummaries:
    """Options of turning a cluster of nodes into one text.

    Attributes:
        by: "llm" asks a language model; "offline" takes the sentences nearest to the mean of all and unlike each
            other, in order, and asks the embedder alone.
        words, sentences: at most so many.
        language: of the answers, in words ("French"); "" is that of the passages.
        max_tokens: of one answer.
    """

    by: By = "llm"
    words: Annotated[int, Ge(1)] = _WORDS
    sentences: Annotated[int, Ge(1)] = _SENTENCES
    language: str = ""
    max_tokens: Annotated[int, Ge(1)] = 600

    def __post_init__(self) -> None:
        check_options(self)
        if self.by == "offline" and self.language:
            raise ParameterError("by", self.by, "'llm' with a language: only a model obeys")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMaterial:
    """The inputs of summaries besides the nodes.

    Attributes:
        title: of the document; "" where it has none.
        chunks: those of the leaves, by id.
        tokens: of the nodes shown for one summary; only a node that is longer alone is cut.
        count: tokens of a text.
    """

    title: str
    chunks: Mapping[str, Chunk]
    tokens: int
    count: Callable[[str], int]


def summarise(
    groups: Sequence[Sequence[TreeNode]], how: ClusterSummaries, material: ClusterMaterial
) -> Step[tuple[tuple[str, ...], tuple[Degraded, ...]]]:
    """Return one text per group, in order, and what the model did not give.

    A group of one short text needs none: the text stands for itself. Where the model fails or its answer is of no
    use, the offline summary takes its place, and the report says so. A group always gets a text.

    Args:
        groups: nodes of one level.
        how: the parameters.
        material: what they are made from.

    Raises:
        CatenaError: the embedder failed, or what surrounds the model (no service, the budget, the journal).
    """
    texts = {place: _own(group, how) for place, group in enumerate(groups)}
    open_ = [place for place, text in texts.items() if not text]
    degraded: tuple[Degraded, ...] = ()
    if how.by == "llm":
        answers, degraded = yield from _asked({place: groups[place] for place in open_}, how, material)
        texts |= answers
        open_ = [place for place in open_ if place not in answers]
    offline = yield from _offline([groups[place] for place in open_], how, material)
    texts |= dict(zip(open_, offline, strict=True))
    return tuple(texts[place] for place in range(len(groups))), degraded


def unit_vectors(texts: Sequence[str], purpose: str) -> Step[NDArray[np.float64]]:
    """Return the direction of each text, shape (n, dim); every distinct text is asked for once, in one round.

    Args:
        texts: at least one.
        purpose: of the requests.

    Raises:
        InvalidReplyError: the vectors are not all of one width.
        CatenaError: the embedder failed.
    """
    distinct = list(dict.fromkeys(texts))
    batches = [tuple(distinct[at : at + _BATCH]) for at in range(0, len(distinct), _BATCH)]
    replies: list[Any] = yield from ask([Embed(texts=batch, purpose=purpose) for batch in batches])
    rows = _stacked([np.asarray(reply, dtype=np.float64) for reply in replies])
    places = {text: place for place, text in enumerate(distinct)}
    found = rows[[places[text] for text in texts]]
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found / np.where(lengths > 0, lengths, 1.0), dtype=np.float64)


def _own(group: Sequence[TreeNode], how: ClusterSummaries) -> str:
    """Return the text of a single node that is no longer than a summary; "" of other groups."""
    text = " ".join(group[0].text.split())
    return text if len(group) == 1 and count_words(text) <= how.words else ""


def _asked(
    groups: Mapping[int, Sequence[TreeNode]], how: ClusterSummaries, material: ClusterMaterial
) -> Step[tuple[dict[int, str], tuple[Degraded, ...]]]:
    """Return the answers by place, and why others are missing."""
    whole = {place: "\n\n".join(node.text.strip() for node in group) for place, group in groups.items()}
    shown = {place: beginning(text, material.tokens, material.count) for place, text in whole.items()}
    requests = [_request(text, how, material) for text in shown.values()]
    replies: Sequence[Any] = (yield requests) if requests else ()
    answers: dict[int, str] = {}
    degraded: list[Degraded] = []
    for (place, text), reply in zip(shown.items(), replies, strict=True):
        found = answer_of(reply, partial(_read, content=text.text, how=how))
        if isinstance(found, str):
            answers[place] = found
            continue
        first = groups[place][0]
        what = f"summary of {len(groups[place])} nodes on level {first.level}, {first.id} first"
        degraded.append(Degraded(what, f"{found}; sentences of these nodes stand in for it"))
    return answers, tuple(degraded)


def _request(shown: Beginning, how: ClusterSummaries, material: ClusterMaterial) -> Complete:
    note = "The passages are given whole." if not shown.cut else "The passages are longer: this is their beginning."
    language = f"Answer in {how.language}." if how.language else "Answer in the language of the passages."
    return Complete.of(
        prompts.load("tree_summary"),
        "tree summary",
        max_tokens=how.max_tokens,
        validate=partial(_read, content=shown.text, how=how),
        document=shielded(" ".join(material.title.split())) or "(unknown)",  # in one line: no part of its own
        note=note,
        content=shielded(shown.text),
        language=language,
        words=str(how.words),
    )


def _read(reply: str, *, content: str, how: ClusterSummaries) -> str:
    any_language = bool(how.language)
    return read_summary(reply, content, sentences=how.sentences, words=how.words, any_language=any_language)


def _offline(
    groups: Sequence[Sequence[TreeNode]], how: ClusterSummaries, material: ClusterMaterial
) -> Step[list[str]]:
    """Return the central sentences of each group; where none fits, the beginning of its text."""
    by_group = [
        list(dict.fromkeys(said for node in group for said in _sentences(node, material))) for group in groups
    ]
    flat = [sentence for sentences in by_group for sentence in sentences]
    vectors = list((yield from unit_vectors(flat, "embedding for tree summaries"))) if flat else []
    texts: list[str] = []
    at = 0
    for group, sentences in zip(groups, by_group, strict=True):
        rows = vectors[at : at + len(sentences)]
        at += len(sentences)
        sizes = [count_words(sentence) for sentence in sentences]
        chosen = central_sentences(rows, sizes, sentences=how.sentences, words=how.words)
        texts.append(" ".join(sentences[place] for place in chosen) or _beginning(group, how))
    return texts


def _sentences(node: TreeNode, material: ClusterMaterial) -> Sequence[str]:
    if not node.made:
        return running_sentences(material.chunks[node.chunk_id])
    ends = [0, *sentence_ends(node.text, 0, len(node.text)), len(node.text)]
    return [said for start, end in pairwise(ends) if (said := node.text[start:end].strip())]


def _beginning(group: Sequence[TreeNode], how: ClusterSummaries) -> str:
    """Return as many words as a summary may have, white space as single spaces: of a table, say."""
    text = " ".join(" ".join(node.text for node in group).split())
    return beginning(text, how.words, count_words).text.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class RaptorOptions(Checked):
    """Options of building the tree.

    Attributes:
        summaries: who writes them, and how long they are.
        clustering: of each layer.
        layers: of summaries, at most.
    """

    summaries: ClusterSummaries = field(default_factory=ClusterSummaries)
    clustering: Clustering = field(default_factory=Clustering)
    layers: Annotated[int, Ge(0)] = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RaptorTree:
    """A tree with the vectors of its nodes.

    Attributes:
        vectors: one row per node, in the order of `tree.nodes`, of unit length or zero, shape (n, dim); (0, 0) for a
            tree without nodes.
        degraded: summaries that the model did not give, and for which others stand in.
    """

    tree: SummaryTree
    vectors: NDArray[np.float32]
    degraded: tuple[Degraded, ...] = ()


def raptor_tree(
    document_id: str,
    chunks: Sequence[Chunk],
    options: RaptorOptions | None = None,
    *,
    title: str = "",
    count: Callable[[str], int] = count_tokens,
) -> Step[RaptorTree]:
    """Make the tree of summaries of one document.

    The chunks are the leaves. Each layer is embedded and put into soft clusters; a summary of each cluster is a node
    of the next layer. That ends when a layer has no more nodes than `dimensions + 1`, when its clusters would not be
    fewer than its nodes, or after `layers` layers. A short document is a tree of leaves alone.

    Calls: per layer one round to the embedder, one for the summaries of all clusters and, offline or in place of
    failed ones, one to the embedder for the sentences.

    Args:
        document_id: of all chunks.
        chunks: in reading order, of any chunker; fixed lengths of 300 tokens in MC-indexing's comparison.
        options: the parameters.
        title: of the document, for the prompts.
        count: tokens of a text.

    Raises:
        ParameterError: a chunk is of another document, or there twice.
        MissingExtraError: UMAP is asked for, and is not installed.
        CatenaError: the embedder failed, or what surrounds the model (no service, the budget, the journal).

    Source: Sarthi et al., RAPTOR, arXiv:2401.18059, section 3; as a baseline: MC-indexing, appendix C.2.
    """
    how = options or RaptorOptions()
    for chunk in chunks:
        if chunk.document_id != document_id:
            raise ParameterError("chunk", chunk.id, f"of the document {document_id!r}")
    if twice := [chunk_id for chunk_id, times in Counter(chunk.id for chunk in chunks).items() if times > 1]:
        raise ParameterError("chunks", twice[0], "of different ids")
    material = ClusterMaterial(
        title=title, chunks={chunk.id: chunk for chunk in chunks}, tokens=how.clustering.tokens, count=count
    )
    layer: list[TreeNode] = [leaf_of(chunk) for chunk in chunks]
    nodes, rows = list(layer), list[NDArray[np.float64]]()
    degraded: list[Degraded] = []
    while layer:
        vectors = yield from unit_vectors([node.text for node in layer], "embedding of tree nodes")
        rows.append(vectors)
        if layer[0].level >= how.layers or len(layer) <= how.clustering.dimensions + 1:
            break
        groups = [
            [layer[place] for place in cluster]
            for cluster in clusters(vectors, [count(node.text) for node in layer], how.clustering)
        ]
        if len(groups) >= len(layer):
            break
        texts, missing = yield from summarise(groups, how.summaries, material)
        layer = [parent_of(group, text) for group, text in zip(groups, texts, strict=True)]
        nodes += layer
        degraded += missing
    return RaptorTree(
        tree=SummaryTree(document_id=document_id, nodes=tuple(nodes), chunks=tuple(chunks)),
        vectors=_stacked(rows).astype(np.float32),
        degraded=tuple(degraded),
    )


def _stacked(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    if len(widths := sorted({part.shape[1] for part in parts})) > 1:
        raise InvalidReplyError("embedder", f"vectors of widths {widths} in one tree")
    return np.concatenate(parts) if parts else np.zeros((0, 0))
