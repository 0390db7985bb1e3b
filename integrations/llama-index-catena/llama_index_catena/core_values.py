"""What LlamaIndex's models and documents become in the core, wherever it is given them."""

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode

from catena.effects import register
from llama_index_catena.documents import to_core_document
from llama_index_catena.embedding import CatenaEmbedding
from llama_index_catena.reranking import LlamaIndexReranker
from llama_index_catena.services import LlamaIndexCaptioner, LlamaIndexEmbedder, LlamaIndexLLM

register("document", BaseNode, to_core_document)
register("llm", LLM, LlamaIndexLLM)
register("embedder", CatenaEmbedding, lambda model: model.embedder)
register("embedder", BaseEmbedding, LlamaIndexEmbedder)
register("reranker", BaseNodePostprocessor, LlamaIndexReranker)
register("captioner", LLM, LlamaIndexCaptioner)
