"""Atomic units as LlamaIndex nodes, and late interaction as its reranker."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from blockbuster import blockbuster_ctx
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import Document, NodeRelationship, NodeWithScore, QueryBundle, TextNode
from llama_index_models import Saying
from llama_index_spans import listening
from llama_index_stores import Replying
from numpy.typing import NDArray

from catena.model import ParameterError, ServiceError
from catena.retrieval.late_interaction import LateInteractionReranker
from catena.segments import Constant
from catena_bench.baselines import AtomicOptions
from llama_index_catena import CatenaAtomicTransform, CatenaRerank

FACTS = "The pump holds 3 bar. The valve opens at 5 bar. The fuse is a T4A."
TEXT = f"# HX210\n\n{FACTS}\n\n## Cover\n\nIt has four screws.\n"
MANUAL = Document(id_="hx210", text=TEXT, metadata={"title": "HX210 manual", "owner": "me"})


def units(prompt: str) -> str:
    passage = prompt.split("<passage>\n")[1].split("\n</passage>", maxsplit=1)[0]
    return "\n".join(f"{part.strip()}." for part in passage.replace("\n", ". ").split(". ") if part.strip())


async def test_units_are_exact_slices_that_know_their_section() -> None:
    transform = CatenaAtomicTransform(Replying(by=units))
    made = transform([MANUAL])
    assert [node.text for node in made] == [
        "# HX210",
        "The pump holds 3 bar.",
        "The valve opens at 5 bar.",
        "The fuse is a T4A.",
        "## Cover",
        "It has four screws.",
    ]
    for place, node in enumerate(made):
        assert TEXT[node.start_char_idx : node.end_char_idx] == node.text
        assert (node.ref_doc_id, node.metadata["position"], node.metadata["owner"]) == ("hx210", place, "me")
    assert made[-1].metadata["header_path"] == "/HX210/Cover/"
    assert made[1].relationships[NodeRelationship.NEXT].node_id == made[2].node_id
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        assert await transform.acall([MANUAL]) == made
    assert IngestionPipeline(transformations=[transform]).run(documents=[MANUAL]) == made


def test_units_of_a_node_lie_in_its_document() -> None:
    (part,) = [node for node in CatenaAtomicTransform(Replying(by=units))([MANUAL]) if "pump" in node.text]
    (same,) = CatenaAtomicTransform(Saying(reply="fail"))([part])  # of one sentence nobody is asked
    assert (same.text, same.start_char_idx, same.ref_doc_id) == (part.text, part.start_char_idx, "hx210")


@pytest.mark.slow
async def test_what_a_model_fails_at_is_cut_at_sentences_and_told() -> None:
    with listening() as told:
        made = await CatenaAtomicTransform(Saying(reply="fail")).acall([MANUAL])
    assert all(TEXT[node.start_char_idx : node.end_char_idx] == node.text for node in made)
    assert "AtomicDegradedEvent" in [event.class_name() for event in told.events]
    with pytest.raises(ServiceError):
        CatenaAtomicTransform(Saying(reply="fail"), options=AtomicOptions(on_error="raise"))([MANUAL])


def test_it_is_written_read_and_pickled_with_its_options() -> None:
    transform = CatenaAtomicTransform(Saying(reply="x"), options=AtomicOptions(window=500), num_workers=2)
    data = transform.to_dict()
    assert "num_workers" not in data
    assert data["prompt_version"].startswith("atomic_units/")
    again = CatenaAtomicTransform.from_dict(data, llm=Saying(reply="x"))
    assert again.options == transform.options == pickle.loads(pickle.dumps(transform)).options
    broken: Any
    for broken in ({"llm": None}, {"llm": Saying(reply="x"), "options": "short"}):
        with pytest.raises(ParameterError, match=r"options|llm"):
            CatenaAtomicTransform(**broken)


class ByWord:
    """A vector per word, one of its own for each."""

    identity = "by word"
    dim = 64

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def embed_query_tokens(self, text: str) -> NDArray[np.float32]:
        rows = np.zeros((len(text.split()), self.dim), np.float32)
        for row, word in zip(rows, text.split(), strict=True):
            row[self.known.setdefault(word, len(self.known))] = 1.0
        return rows

    def embed_document_tokens(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        return [self.embed_query_tokens(text) for text in texts]


async def test_late_interaction_reranks_what_any_retriever_found() -> None:
    texts = ("a b c", "cover screws of it", "the torque of cover screws")
    given = [NodeWithScore(node=TextNode(id_=text, text=text), score=0.5) for text in texts]
    rerank = CatenaRerank(LateInteractionReranker(ByWord()), calibration=Constant())
    found = rerank.postprocess_nodes(given, QueryBundle("torque of cover screws"))
    assert [each.node.node_id for each in found] == [texts[2], texts[1], texts[0]]
    with blockbuster_ctx(["catena", "llama_index_catena"]):
        again = await rerank.apostprocess_nodes(given, QueryBundle("torque of cover screws"))
    assert [each.to_dict() for each in again] == [each.to_dict() for each in found]
