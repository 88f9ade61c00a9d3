"""Queues: created, opened, named, changed."""
