"""SRMPState: the parts of the engine for SRMP, put together ([MC-MQSRM] 3.1.1.1.5).

Identifiers, sequences and the history of received messages are those of all protocols; what SRMP
has beside them are redirections, and when the receipts of streams are sent.
"""

from __future__ import annotations

from posthouse.engine.accounts.certificates import Certificates
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import Accepting, AckSender, TraceReports
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.messages.admission import Admission
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import Queue, QueueRole, QueueType
from posthouse.engine.transfer.peer_clocks import Clocks
from posthouse.engine.transfer.receiving import Receiving
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival, SrmpVerdict
from posthouse.engine.transfer.srmp.receiving import SrmpReceiving
from posthouse.engine.transfer.srmp.redirects import Redirects
from posthouse.engine.transfer.srmp.streams import IncomingStreams
from posthouse.engine.transfer.srmp.web_names import url_text
from posthouse.model.names import DirectName, FormatName


class Srmp:
    """The engine's methods for the SRMP protocols."""

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        clocks: Clocks,
        admission: Admission,
        sending: Accepting,
        tracing: TraceReports,
        transfer: MachineTransfer,
        acks: AckSender,
        receiving: Receiving,
        certificates: Certificates,
    ) -> None:
        self.core = core
        self._registry = registry
        self.redirects = Redirects(core, registry)
        self.streams = IncomingStreams(core, registry, sending, transfer)
        self.receiving = SrmpReceiving(
            core,
            registry,
            clocks,
            admission,
            sending,
            tracing,
            transfer,
            acks,
            self.streams,
            self.redirects,
            receiving,
            certificates,
        )

    def load(self) -> None:
        """Streams that were not acknowledged to their end (3.1.3.2)."""
        self.streams.load()

    def receive(self, arrivals: list[SrmpArrival]) -> list[SrmpVerdict]:
        """SRMP Message Received (3.1.5.1), for all requests of a turn."""
        return self.receiving.receive(arrivals)

    def receive_multicast(self, address: str, arrivals: list[SrmpArrival]) -> None:
        """SRMP Message Received, for messages that came to a multicast address."""
        self.receiving.receive_multicast(address, arrivals)

    def url_of(self, name: FormatName, base: str) -> str | None:
        """A queue as other machines name it over HTTP; `base` is `http://host:port` of ours.

        None for a queue elsewhere that has no URL.
        """
        if isinstance(name, DirectName) and name.is_web:
            return url_text(name)
        queue = self._registry.find_local(name)
        return None if queue is None else self._own_url(queue, base)

    def _own_url(self, queue: Queue, base: str) -> str | None:
        definition = queue.definition
        if definition.role is not QueueRole.PLAIN or queue.path is None:
            return None
        private = "private$/" if definition.queue_type is QueueType.PRIVATE else ""
        return f"{base}/msmq/{private}{queue.path.queue}"
