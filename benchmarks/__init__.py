"""Measurements of store and engine, and of others beside them: `python -m benchmarks`."""
