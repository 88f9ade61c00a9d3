"""How messages of incoming sequences ended, for senders that repeat them later.

A final answer goes to all hosts that have sent a message by the time when it ends. Somebody who has
captured a message can be faster than its machine, and the message may be received before its
machine brings it, or brings it again from another address. What became of it is kept here, in the
step that ends it, so that its machine gets the answer then.

A full table gives up entries of the address that has most of them, the oldest first.
"""

from __future__ import annotations

import struct
from hashlib import blake2b

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import TABLE_ENDED, Change
from posthouse.model.bounded_tables import Shared

ENDED_MAX = 10_000
_END = struct.Struct("<IH")  # when, UTC seconds; the class of its answer; its host follows


def message_key(places: bytes, digest: bytes) -> bytes:
    """A message by the key of its sequence and its content, its number included."""
    return blake2b(places + digest, digest_size=16).digest()


class EndedMessages:
    """The class of each answer, by message."""

    def __init__(self, core: Ledger) -> None:
        self.core = core
        # With the host that the message came from, the oldest first.
        self._known: Shared[bytes, tuple[int, str]] = Shared(lambda key, end: end[1])

    def load(self) -> None:
        """What the log kept."""
        entries = self.core.state.of_table(TABLE_ENDED)
        for key, value in sorted(entries, key=lambda entry: _END.unpack_from(entry[1])[0]):
            _, message_class = _END.unpack_from(value)
            self._known[key] = message_class, value[_END.size :].decode()

    def __len__(self) -> int:
        return len(self._known)

    def note(self, key: bytes, message_class: int, host: str, change: Change) -> None:
        """A message that came from a host has ended."""
        self._known[key] = message_class, host
        value = _END.pack(self.core.utc, message_class) + host.encode()
        self.core.define(TABLE_ENDED, key, value, change)
        while len(self._known) > ENDED_MAX:
            surplus = self._known.surplus()
            del self._known[surplus]
            self.core.define(TABLE_ENDED, surplus, None, change)

    def class_of(self, key: bytes) -> int:
        """The class of the answer; 0: the message has not ended, or it is not known how."""
        return self._known.get(key, (0, ""))[0]
