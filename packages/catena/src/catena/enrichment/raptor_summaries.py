"""One text for each cluster of nodes: what a language model writes, or the sentences in the middle of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge

from catena import prompts
from catena.effects import Complete, Embed, Failed, Step, ask
from catena.enrichment.context_llm import Beginning, beginning, shielded
from catena.enrichment.raptor_sentences import central_sentences
from catena.enrichment.summary_tree import TreeNode
from catena.enrichment.view_replies import read_summary
from catena.enrichment.view_sentences import count_words, running_sentences
from catena.model import Chunk, Degraded
from catena.model.errors import InvalidReplyError, ParameterError, ServiceError
from catena.model.options import check_options
from catena.text.sentences import sentence_ends

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

By = Literal["llm", "offline"]

_BATCH = 256  # texts per request
_SENTENCES = 10
_WORDS = 100  # as many tokens in the reference


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSummaries:
    """How a cluster of nodes becomes one text.

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
class Material:
    """What summaries are made from, besides the nodes.

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
    groups: Sequence[Sequence[TreeNode]], how: ClusterSummaries, material: Material
) -> Step[tuple[tuple[str, ...], tuple[Degraded, ...]]]:
    """Return one text per group, in order, and what the model did not give.

    A group of one short text needs none: the text stands for itself. Where the model fails or its answer is of no
    use, the offline summary takes its place, and the report says so. A group always gets a text.

    Args:
        groups: nodes of one level.
        how: the parameters.
        material: what they are made from.

    Raises:
        CatenaError: the embedder failed, or what surrounds the model (nobody answers, the budget, the journal).
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
        InvalidReplyError: the vectors are no finite numbers, or not all of one width.
        CatenaError: the embedder failed.
    """
    import numpy as np

    distinct = list(dict.fromkeys(texts))
    batches = [tuple(distinct[at : at + _BATCH]) for at in range(0, len(distinct), _BATCH)]
    replies: list[Any] = yield from ask([Embed(texts=batch, purpose=purpose) for batch in batches])
    rows = [np.asarray(row, dtype=np.float64) for reply in replies for row in reply]
    shapes = {row.shape for row in rows}
    if len(rows) != len(distinct) or len(shapes) > 1 or rows[0].ndim != 1 or not np.isfinite(rows).all():
        what = f"{len(rows)} vectors for {len(distinct)} texts, not all of one width and finite"
        raise InvalidReplyError("embedder", what)
    places = {text: place for place, text in enumerate(distinct)}
    found = np.stack(rows)[[places[text] for text in texts]]
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found / np.where(lengths > 0, lengths, 1.0), dtype=np.float64)


def _own(group: Sequence[TreeNode], how: ClusterSummaries) -> str:
    """Return the text of a single node that is no longer than a summary; "" of other groups."""
    text = " ".join(group[0].text.split())
    return text if len(group) == 1 and count_words(text) <= how.words else ""


def _asked(
    groups: Mapping[int, Sequence[TreeNode]], how: ClusterSummaries, material: Material
) -> Step[tuple[dict[int, str], tuple[Degraded, ...]]]:
    """Return the answers by place, and why others are missing."""
    shown = {place: _shown(group, material) for place, group in groups.items()}
    requests = [_request(text, how, material) for text in shown.values()]
    replies: Sequence[Any] = (yield requests) if requests else ()
    answers: dict[int, str] = {}
    degraded: list[Degraded] = []
    for (place, text), reply in zip(shown.items(), replies, strict=True):
        try:
            if isinstance(reply, Failed):
                raise reply.error
            answers[place] = _read(reply.text, content=text.text, how=how)
        except (ServiceError, ValueError) as error:  # ValueError: from a driver that does not look at `validate`
            first = groups[place][0]
            what = f"summary of {len(groups[place])} nodes on level {first.level}, {first.id} first"
            degraded.append(Degraded(what, f"{error}; sentences of these nodes stand in for it"))
    return answers, tuple(degraded)


def _shown(group: Sequence[TreeNode], material: Material) -> Beginning:
    return beginning("\n\n".join(node.text.strip() for node in group), material.tokens, material.count)


def _request(shown: Beginning, how: ClusterSummaries, material: Material) -> Complete:
    prompt = prompts.load("tree_summary")
    note = "The passages are given whole." if not shown.cut else "The passages are longer: this is their beginning."
    language = f"Answer in {how.language}." if how.language else "Answer in the language of the passages."
    return Complete(
        prompt=prompt.filled(
            document=shielded(" ".join(material.title.split())) or "(unknown)",  # in one line: no part of its own
            note=note,
            content=shielded(shown.text),
            language=language,
            words=str(how.words),
        ),
        purpose="tree summary",
        system=prompt.system,
        max_tokens=how.max_tokens,
        prompt_version=prompt.version,
        validate=partial(_read, content=shown.text, how=how),
    )


def _read(reply: str, *, content: str, how: ClusterSummaries) -> str:
    any_language = bool(how.language)
    return read_summary(reply, content, sentences=how.sentences, words=how.words, any_language=any_language)


def _offline(groups: Sequence[Sequence[TreeNode]], how: ClusterSummaries, material: Material) -> Step[list[str]]:
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


def _sentences(node: TreeNode, material: Material) -> Sequence[str]:
    if not node.made:
        return running_sentences(material.chunks[node.chunk_id])
    ends = [0, *sentence_ends(node.text, 0, len(node.text)), len(node.text)]
    return [said for start, end in pairwise(ends) if (said := node.text[start:end].strip())]


def _beginning(group: Sequence[TreeNode], how: ClusterSummaries) -> str:
    """Return as many words as a summary may have, white space as single spaces: of a table, say."""
    text = " ".join(" ".join(node.text for node in group).split())
    return beginning(text, how.words, count_words).text.strip()
