"""Where other queue managers were reached last (decision 40): acknowledgments go there."""

from __future__ import annotations

import msgspec

from posthouse.engine.core import Core
from posthouse.engine.records import TABLE_MACHINE

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, int | None]).decode


class Machines:
    """Addresses by GUID."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._addresses: dict[bytes, tuple[str, int | None]] = {}

    def load(self) -> None:
        """Everything the store kept."""
        for guid, value in self.core.state.of_table(TABLE_MACHINE):
            self._addresses[guid] = _decode(value)

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
        self._addresses[guid] = address, port
        self.core.define(TABLE_MACHINE, guid, _encode((address, port)))

    def address_of(self, guid: bytes) -> tuple[str, int | None] | None:
        """The last address of a queue manager, None when it was never reached."""
        return self._addresses.get(guid)
