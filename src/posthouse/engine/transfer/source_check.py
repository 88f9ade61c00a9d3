"""Whether a message comes from the address of the machine that it claims (decision 24)."""

from __future__ import annotations

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.transfer.connect_targets import Targets
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.errors import RemoteProtocolError
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.wire.packet.packet_fields import PacketSummary


class Speakers:
    """Checks peers that bring messages against the directory."""

    def __init__(self, core: Ledger, targets: Targets) -> None:
        self.core = core
        self.targets = targets

    def is_relayed(self, peer: Peer, source: bytes) -> bool:
        """Whether it comes from its machine itself, or over a router, each in its own place."""
        machine = source[: len(NULL_GUID)]
        try:
            return self.targets.knows_machine(machine) and peer.may_pass_on(machine)
        except RemoteProtocolError:  # cannot be looked up now
            return False

    def lineage(self, peer: Peer, source: bytes) -> str:
        """The host that a sequence of a source is of; none where the directory vouches for it."""
        return "" if self.is_relayed(peer, source) else peer.host

    def may_speak(self, peer: Peer, seen: PacketSummary) -> bool:
        """Whether we pass on a message: one of a sequence only for a machine of the directory.

        Those that we pass it to see our address, and take all that we bring of a source for one
        lineage. So who pretends to be the machine must not get in there. A machine that the
        directory does not have could not be told from them, nor be sent an acknowledgment: it
        sends directly. The machine itself sends again until the directory has its place.
        """
        source = seen.source_guid
        if not seen.transaction_at or self.is_relayed(peer, source):
            return True
        self.core.refusals["sequence_not_passed_on"] += 1
        self.core.event("sequence_not_passed_on", source=format_guid(source), address=peer.host)
        return False
