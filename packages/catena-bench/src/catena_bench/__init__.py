"""Benchmarks of Catena: each reads any directory of its layout and prints one flat JSON object."""

__version__ = "0.1.0"
