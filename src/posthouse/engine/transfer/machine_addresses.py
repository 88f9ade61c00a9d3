"""Where other queue managers were reached last (decision 40): acknowledgments go there."""

from __future__ import annotations

import msgspec

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import TABLE_MACHINE
from posthouse.engine.settings import host_key
from posthouse.model.bounded_tables import Shared

CALLERS_MAX = 10_000  # machines that came by themselves; anybody can make up a GUID
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, int | None]).decode


class Machines:
    """Addresses by GUID."""

    def __init__(self, core: Ledger) -> None:
        self.core = core
        self._addresses: dict[bytes, tuple[str, int | None]] = {}
        self._doubtful: set[bytes] = set()  # did not answer there the last time
        # Those whose port is not known, with their addresses.
        self._callers: Shared[bytes, str] = Shared(lambda guid, address: address)

    def load(self) -> None:
        """Everything the store kept."""
        for guid, value in self.core.state.of_table(TABLE_MACHINE):
            self._note(guid, *_decode(value))

    def reached(
        self, guid: bytes, address: str, port: int | None, *, claimed: bool = False
    ) -> None:
        """Notes an address, and the port if it is known; only changes are logged.

        An incoming session does not show the port at which its machine listens: at the same address
        the known port stays. A GUID that is only `claimed`, by a machine that was reached by
        another name, does not replace the address where the GUID's machine answers.
        """
        known = self._addresses.get(guid)
        if claimed and self._answers_elsewhere(guid, address):
            return
        self._doubtful.discard(guid)
        if port is None and known is not None and known[0] == address:
            return
        if known == (address, port):
            return
        self._note(guid, address, port)
        self.core.define(TABLE_MACHINE, guid, _encode((address, port)))
        if len(self._callers) > CALLERS_MAX:
            self._forget(self._callers.surplus())

    def _answers_elsewhere(self, guid: bytes, address: str) -> bool:
        known = self._addresses.get(guid)
        if known is None or known[1] is None or guid in self._doubtful:
            return False
        return host_key(known[0]) != host_key(address)

    def missed(self, guid: bytes, address: str) -> None:
        """A queue manager did not answer there: it may have moved."""
        if self._addresses.get(guid, ("", None))[0] == address:
            self._doubtful.add(guid)

    def _note(self, guid: bytes, address: str, port: int | None) -> None:
        self._addresses[guid] = address, port
        if guid in self._callers:
            del self._callers[guid]
        if port is None:
            self._callers[guid] = address

    def _forget(self, guid: bytes) -> None:
        del self._addresses[guid], self._callers[guid]
        self.core.define(TABLE_MACHINE, guid, None)

    def address_of(self, guid: bytes) -> tuple[str, int | None] | None:
        """The last address of a queue manager, None when it was never reached."""
        return self._addresses.get(guid)
