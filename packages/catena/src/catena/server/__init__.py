"""Catena past one machine: the same routes, formula and graph inside Elasticsearch or OpenSearch.

Everything here is plain functions and steps over `Call`, one HTTP request as a value; who sends it is in
`catena.backends.elasticsearch` and `catena.backends.opensearch`, the only importers of the servers' clients.
"""
