"""What LangChain's models and documents become in the core, wherever it is given them."""

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.runnables import Runnable

from catena.effects import register
from langchain_catena.convert import to_core_document
from langchain_catena.rerank import LangChainReranker
from langchain_catena.services import CatenaEmbeddings, LangChainCaptioner, LangChainEmbedder, LangChainLLM

register("document", Document, to_core_document)
register("llm", BaseLanguageModel, LangChainLLM)
register("llm", Runnable, LangChainLLM)  # a model with something bound to it
register("embedder", CatenaEmbeddings, lambda embeddings: embeddings.embedder)
register("embedder", Embeddings, LangChainEmbedder)
register("reranker", BaseDocumentCompressor, LangChainReranker)
register("reranker", BaseCrossEncoder, LangChainReranker)
register("captioner", BaseChatModel, LangChainCaptioner)
