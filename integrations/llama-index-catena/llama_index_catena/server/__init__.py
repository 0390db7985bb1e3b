"""Indices on a search server that LlamaIndex has filled, ranked by Catena as they stand."""
