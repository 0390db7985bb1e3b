"""Benchmark Catena: each command reads a directory of its layout and prints one flat JSON object."""

__version__ = "0.1.0"
