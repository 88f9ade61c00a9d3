"""Queues: create, open, name, change, delete."""
