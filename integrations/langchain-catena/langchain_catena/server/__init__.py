"""Indices on a search server that LangChain has filled, ranked by Catena as they stand."""
