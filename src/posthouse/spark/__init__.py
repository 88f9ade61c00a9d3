"""Queues as Spark tables and streams, and pipelines over them."""
