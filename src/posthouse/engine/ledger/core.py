"""The ledger, with the parts of the engine that are not given to each other as arguments yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posthouse.engine.ledger.ledger import Ledger

if TYPE_CHECKING:
    from posthouse.engine.directory.connectors import Connectors
    from posthouse.engine.messages.acknowledgments import Acks
    from posthouse.engine.messages.admission import Admission
    from posthouse.engine.messages.enqueue import Sending
    from posthouse.engine.messages.moving import Moving
    from posthouse.engine.messages.outcome import MessageOutcomes
    from posthouse.engine.messages.packet_reads import Fetching
    from posthouse.engine.messages.poison import Poison
    from posthouse.engine.messages.waiting import WaitingReads
    from posthouse.engine.pipelines.groups import Groups
    from posthouse.engine.pipelines.stages import Stages
    from posthouse.engine.queues.collection import Queues
    from posthouse.engine.queues.opening import Opening
    from posthouse.engine.transactions.collection import Transactions
    from posthouse.engine.transfer.connect_targets import Targets
    from posthouse.engine.transfer.outgoing_queues import Transfer
    from posthouse.engine.transfer.peer_clocks import Clocks
    from posthouse.engine.transfer.tracing import Tracing


class Core(Ledger):
    """The engine's shared ground."""

    acks: Acks
    reading: Fetching
    admission: Admission
    connectors: Connectors
    groups: Groups
    sending: Sending
    stages: Stages
    outcomes: MessageOutcomes
    poison: Poison
    transactions: Transactions
    transfer: Transfer
    registry: Queues
    clocks: Clocks
    targets: Targets
    tracing: Tracing
    waiting: WaitingReads
    moving: Moving
    opening: Opening
