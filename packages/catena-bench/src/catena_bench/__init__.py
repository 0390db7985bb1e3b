"""Benchmarks of Catena: each reads any directory of its layout and prints one flat JSON object."""
