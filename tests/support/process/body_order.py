"""Whether bodies are in the order in which they were sent."""

from __future__ import annotations


def in_order(bodies: list[bytes]) -> bool:
    """Each sender's messages in the order in which they sent them."""
    last: dict[bytes, int] = {}
    for body in bodies:
        who, _, number = body.partition(b"/")
        if int(number) <= last.get(who, 0):
            return False
        last[who] = int(number)
    return True
