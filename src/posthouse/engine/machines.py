"""Where other queue managers were reached last (decision 40): acknowledgments go there."""

from __future__ import annotations

import msgspec

from posthouse.engine.core import Core
from posthouse.engine.records import TABLE_MACHINE

CALLERS_MAX = 10_000  # machines that came by themselves; anybody can make up a GUID
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, int | None]).decode


class Machines:
    """Addresses by GUID."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._addresses: dict[bytes, tuple[str, int | None]] = {}
        self._callers: dict[bytes, None] = {}  # whose port is not known, the oldest first

    def load(self) -> None:
        """Everything the store kept."""
        for guid, value in self.core.state.of_table(TABLE_MACHINE):
            self._note(guid, *_decode(value))

    def reached(self, guid: bytes, address: str, port: int | None) -> None:
        """Notes an address, and the port if it is known; the log hears of changes only.

        A session that came in tells no port at which its machine listens: at the same address
        the one that was known stays.
        """
        known = self._addresses.get(guid)
        if port is None and known is not None and known[0] == address:
            return
        if known == (address, port):
            return
        self._note(guid, address, port)
        self.core.define(TABLE_MACHINE, guid, _encode((address, port)))
        if len(self._callers) > CALLERS_MAX:
            self._forget(next(iter(self._callers)))

    def _note(self, guid: bytes, address: str, port: int | None) -> None:
        self._addresses[guid] = address, port
        self._callers.pop(guid, None)
        if port is None:
            self._callers[guid] = None

    def _forget(self, guid: bytes) -> None:
        del self._addresses[guid], self._callers[guid]
        self.core.define(TABLE_MACHINE, guid, None)

    def address_of(self, guid: bytes) -> tuple[str, int | None] | None:
        """The last address of a queue manager, None when it was never reached."""
        return self._addresses.get(guid)
