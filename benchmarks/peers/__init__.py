"""Posthouse beside other queues: `python -m benchmarks.peers`."""
