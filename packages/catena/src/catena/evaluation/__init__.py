"""Metrics over rankings: the Log-Rank Index, the standard ones, and TREC files."""
