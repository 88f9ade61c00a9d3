"""Incarnations: which start of the queue manager gave out a lookup id.

A home cannot see that it was put back from a copy: it gives identifiers again that its other future
has given already. So each start draws a random name and logs it with the first identifier that it
will give. A reader that keeps an identifier keeps the name with it, and finds a name that this home
does not have, or an identifier that the named start has not given.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import Final

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import TABLE_INCARNATION, Change
from posthouse.model.errors import MessageAlreadyReceived

KEPT_MAX: Final = 4096  # starts that gave identifiers; offsets older than that count as lost
NAME_BYTES: Final = 8
_FIRST = struct.Struct(">Q")


class Incarnations:
    """The starts that gave identifiers, oldest first; the last one is running."""

    def __init__(self, core: Ledger) -> None:
        self.core = core
        self._firsts: list[int] = []
        self._names: list[str] = []

    def begin(self) -> None:
        """At start: those that are known, and a new one. It replaces one that gave nothing."""
        core, change = self.core, Change()
        for key, value in sorted(core.state.of_table(TABLE_INCARNATION)):
            self._firsts.append(_FIRST.unpack(key)[0])
            self._names.append(value.hex())
        while len(self._firsts) >= KEPT_MAX:
            core.define(TABLE_INCARNATION, _FIRST.pack(self._firsts.pop(0)), None, change)
            del self._names[0]
        first, name = core.lookup_ids.value, core.random_bytes(NAME_BYTES)
        if self._firsts and self._firsts[-1] == first:
            self._names[-1] = name.hex()
        else:
            self._firsts.append(first)
            self._names.append(name.hex())
        core.define(TABLE_INCARNATION, _FIRST.pack(first), name, change)
        core.commit(change)

    def last_id(self) -> int:
        """The greatest identifier that was given, or that no later start will give."""
        return self.core.lookup_ids.value - 1

    def of(self, lookup_id: int) -> str:
        """The name of the start that gave an identifier; empty for those before the first kept."""
        at = bisect_right(self._firsts, lookup_id) - 1
        return self._names[at] if at >= 0 else ""

    def end_of(self, name: str) -> int | None:
        """The last identifier that a start can have given; None for an unknown name.

        Without a name it is what was given before the first start that is kept.
        """
        if not name:
            return self._firsts[0] - 1
        if name not in self._names:
            return None
        at = self._names.index(name) + 1
        return self._firsts[at] - 1 if at < len(self._firsts) else self.last_id()

    def check(self, name: str, lookup_id: int) -> None:
        """Refuses an identifier that the named start did not give."""
        end = self.end_of(name)
        if end is None or lookup_id > end:
            raise MessageAlreadyReceived(
                f"no message of this queue manager has had the lookup id {lookup_id} of {name}",
                "Its home was put back from a copy: plan again, and read what is there now.",
            )
