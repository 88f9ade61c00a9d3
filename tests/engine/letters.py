"""A rig for queues and for what becomes of messages: people, remote senders, system queues."""

from __future__ import annotations

from typing import Any

from posthouse.engine.ledger.records import FLAG_AUTHENTICATED, FLAG_REMOTE
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.engine.queues.queue import Outgoing, Queue
from posthouse.model.message import (
    ACK_RECEIVE,
    NACK_RECEIVE_REJECTED,
    DeliveryGuarantee,
    Message,
    MessageId,
    TxSequenceId,
)
from posthouse.security.access import Caller
from posthouse.security.descriptors import SecurityDescriptor, unpack_descriptor
from posthouse.security.sids import make_sid
from posthouse.wire.binary.order_acks import order_queue_of
from posthouse.wire.packet.message import deserialize, serialize
from tests.engine.rig import RECEIVE, Rig

JOURNAL = r".\system$;journal"
DEAD_LETTERS = r".\system$;deadletter"
DEAD_TRANSACTIONAL = r".\system$;deadxact"
SYSTEM_QUEUES = (JOURNAL, DEAD_LETTERS, DEAD_TRANSACTIONAL)
FAR = r"DIRECT=OS:BRAVO\private$\far"
FAR_GUID = bytes(range(16, 32))

RECEIVE_ADMIN, PEEK_ADMIN = QueueAccessType.RECEIVE_ADMIN, QueueAccessType.PEEK_ADMIN


def person(number: int, name: str, *groups: bytes) -> Caller:
    """A known user."""
    return Caller.user(make_sid(5, 21, 1, 2, 3, number), name, groups)


ALICE, BOB = person(1001, "alice"), person(1002, "bob")
ANONYMOUS = Caller.anonymous()


class PostRig(Rig):
    """A rig with short names for what tests of queues and outcomes do."""

    @property
    def guid(self) -> bytes:
        return self.manager.machine.identifier

    def delete(self, name: str, caller: Caller | None = None, **options: Any) -> None:
        self.run(lambda m: m.queues.delete_queue(_path(name), caller or self.admin, **options))

    def purge(self, name: str) -> None:
        descriptor = self.open(name, RECEIVE)
        self.run(lambda m: m.queues.purge_queue(descriptor))
        self.close(descriptor)

    def set(self, name: str, caller: Caller | None = None, **values: Any) -> None:
        self.run(lambda m: m.queues.set_queue(_path(name), caller or self.admin, **values))

    def set_security(self, name: str, security: bytes, caller: Caller | None = None) -> None:
        self.run(lambda m: m.queues.set_queue_security(_path(name), caller or self.admin, security))

    def security(self, name: str) -> SecurityDescriptor:
        return unpack_descriptor(self.queue(name).definition.security)

    def grant(self, name: str, who: Caller | bytes, mask: int) -> None:
        sid = who.sid if isinstance(who, Caller) else who
        self.set_security(name, self.security(name).grant(sid, mask).pack())

    def deny(self, name: str, who: Caller | bytes, mask: int) -> None:
        sid = who.sid if isinstance(who, Caller) else who
        self.set_security(name, self.security(name).deny(sid, mask).pack())

    def deliver(self, name: str = FAR, count: int = 1) -> None:
        """A session sends the next messages of an outgoing queue; the peer answers all it can."""
        number = self.outgoing(name)[0].number
        sender = self.run(lambda m: m.transfer.begin_sending(number))
        taken = self.run(lambda m: sender.take(count, 1 << 30))
        self.run(lambda m: sender.acknowledged([out.number for out in taken]))
        for message in [deserialize(out.packet) for out in taken if out.transactional]:
            self.run(lambda m, one=message: self._answer(m, one))
        self.run(lambda m: sender.end())

    def _answer(self, manager: QueueManager, message: Message) -> None:
        """The OrderAck and the FinalAck for a message that has arrived and was received."""
        sequence = message.transactional_message_sequence_identifier
        assert sequence is not None
        place = int(sequence), message.transaction_sequence_number
        identifier, transfer = message.identifier, manager.transfer.outgoing
        assert transfer.order_acknowledged(*place)
        transfer.final_acknowledged(ACK_RECEIVE, identifier.guid, identifier.ordinal, *place)

    def outgoing(self, name: str = FAR) -> tuple[Queue, Outgoing]:
        """The outgoing queue of a name, which must exist."""
        descriptor = self.open(name, PEEK_ADMIN)
        queue = descriptor.target()
        self.close(descriptor)
        assert queue.outgoing is not None
        return queue, queue.outgoing

    def from_afar(
        self,
        name: str,
        body: bytes = b"",
        *,
        ordinal: int = 7,
        transactional: bool = False,
        authenticated: bool = False,
        **attributes: Any,
    ) -> int:
        """A message of another queue manager arrives; returns its number."""
        message = Message(
            body=body,
            identifier=MessageId(FAR_GUID, ordinal),
            source_machine_identifier=FAR_GUID,
            sent_time=self.clock.utc_seconds,
            destination_queue_format_name=f"DIRECT=OS:ALPHA\\private$\\{name}",
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            **attributes,
        )
        if transactional:
            message.transactional_message_sequence_identifier = TxSequenceId(5, 1)
            message.transaction_sequence_number = ordinal
        flags = FLAG_REMOTE | (FLAG_AUTHENTICATED if authenticated else 0)
        queue, packet = self.queue(name), serialize(message)
        return self.run(lambda m: m.messages.sending.enqueue(queue, packet, flags=flags))

    def reject(self, name: str) -> None:
        """An application reads the first message and rejects it."""
        descriptor = self.open(name, RECEIVE)
        delivery = self.driver.read(
            lambda m: m.messages.dequeue_message(descriptor, timeout_ms=0, two_phase=True)
        )
        assert delivery is not None
        lookup_id = delivery.read.lookup_id
        self.run(
            lambda m: m.messages.dequeue_message_end(
                descriptor, lookup_id, positive=True, message_class=NACK_RECEIVE_REJECTED
            )
        )
        self.close(descriptor)

    def owed(self, source: bytes = FAR_GUID) -> list[tuple[int, bytes]]:
        """Class and body of everything that waits to be sent to a machine's order queue."""
        queue = self.manager.queues.find_outgoing(order_queue_of(source))
        numbers = [] if queue is None else [n for _, n in queue.state.order.forward()]
        messages = [deserialize(self.store.read(number)) for number in numbers]
        return [(message.message_class, message.body) for message in messages]

    def classes(self, name: str) -> list[int]:
        """What the messages of a queue are, by their packets: acknowledgments show their class."""
        return [message.message_class for message in self.messages(name)]

    def reasons(self, name: str) -> list[int]:
        """Why the messages of a dead-letter queue are there."""
        return [read.message_class for read in self.reads(name)]


def _path(name: str) -> str:
    return name if "\\" in name or "=" in name else f".\\private$\\{name}"
