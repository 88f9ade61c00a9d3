"""Pulls a queue of another machine: its source, its run, its check."""
