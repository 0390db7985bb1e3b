"""Metrics over rankings: the Log-Rank Index, standard measures, gold spans, TREC files and significance."""
