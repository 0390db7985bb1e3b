"""The chunk-interaction graph in LangChain: built of the documents of any store, walked over after any retriever."""
