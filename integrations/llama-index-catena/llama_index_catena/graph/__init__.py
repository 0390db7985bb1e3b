"""The chunk-interaction graph over nodes of LlamaIndex: built of any index, walked after any retriever."""

from llama_index_catena.graph.building import NodeReading, abuild_graph, aupdate_graph, build_graph, update_graph
from llama_index_catena.graph.retrieval import (
    CatenaChainPostprocessor,
    CatenaGraphRetriever,
    chains_of,
    format_chains,
)

__all__ = [
    "CatenaChainPostprocessor",
    "CatenaGraphRetriever",
    "NodeReading",
    "abuild_graph",
    "aupdate_graph",
    "build_graph",
    "chains_of",
    "format_chains",
    "update_graph",
]
