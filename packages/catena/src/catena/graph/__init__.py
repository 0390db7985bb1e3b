"""The chunk-interaction graph: how it is built, where a walk begins, how it goes on, and what scores each hop."""
