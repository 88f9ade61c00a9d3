"""A message of another machine that was refused on arrival, as operators see it."""

from __future__ import annotations

from sys import getsizeof
from typing import NamedTuple

Key = tuple[bytes, int, str, str]  # source, ordinal, queue as it was named, address


class RefusedArrival(NamedTuple):
    """A message that was refused, once or each time that it was sent again."""

    source: bytes
    ordinal: int
    label: str
    queue: str  # the name that it was sent to, or that of the queue here
    reason: str  # the word of a message class, or the name of an error
    cause: str
    address: str
    first_utc: int
    last_utc: int
    times: int
    number: int  # counts the refusals
    is_kept: bool  # a copy is among the dead letters here

    @property
    def key(self) -> Key:
        """The key of its entry: the same message, sent again, has the same one."""
        return self.source, self.ordinal, self.queue, self.address

    @property
    def size(self) -> int:
        """The bytes that its entry takes, about."""
        texts = (self.source, self.label, self.queue, self.reason, self.cause, self.address)
        return 400 + sum(map(getsizeof, texts))
