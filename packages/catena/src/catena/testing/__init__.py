"""Shipped for tests: deterministic fakes, strategies, conformance suites."""
