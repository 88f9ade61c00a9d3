"""Names of queues at the sender's machine."""

from __future__ import annotations


def at(name: str) -> str:
    return rf"DIRECT=OS:ALPHA\private$\{name}"
