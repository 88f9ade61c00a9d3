"""A queue elsewhere, pulled into a queue of a rig: for tests of the engine and of the store."""

from __future__ import annotations

from posthouse.engine.manager import QueueManager
from posthouse.engine.pulls.pull import OfferedMessage, OfferOutcome, Pull
from posthouse.model.message import DeliveryGuarantee, Message, MessageId, TxSequenceId
from posthouse.model.names import parse_name
from posthouse.wire.packet.message import serialize
from tests.engine.rig import START_UTC, Rig

GUID = bytes(range(16))
SOURCE = r"private$\orders"
LEASE_MS = 60_000
SENT = START_UTC - 5_000


def packet(body: bytes, ordinal: int, **attributes: object) -> bytes:
    """A message as another machine has it."""
    message = Message(
        body=body,
        identifier=MessageId(GUID, ordinal),
        source_machine_identifier=GUID,
        sent_time=SENT,
        destination_queue_format_name=r"DIRECT=OS:FAR\private$\orders",
        delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
        **attributes,  # type: ignore[arg-type]
    )
    return serialize(message)


def transactional(body: bytes, ordinal: int) -> bytes:
    return packet(
        body,
        ordinal,
        transaction_identifier=7,
        transactional_message_sequence_identifier=TxSequenceId(5, ordinal),
        first_in_transaction=True,
        last_in_transaction=True,
    )


def offer(*ids: int, **attributes: object) -> list[OfferedMessage]:
    return [
        OfferedMessage(one, START_UTC - 10, 0, packet(b"%d" % one, one, **attributes))
        for one in ids
    ]


class Source:
    """A queue elsewhere, pulled into a queue of a rig."""

    def __init__(
        self,
        rig: Rig,
        to: str = "orders",
        name: str = SOURCE,
        guid: bytes = GUID,
        *,
        keep: bool = False,
    ) -> None:
        self.rig = rig
        self.holder = object()
        path = to if "\\" in to else rf".\private$\{to}"
        self.pull = rig.run(
            lambda m: m.pulls.begin(
                guid, name, "far", parse_name(path), self.holder, LEASE_MS, keep
            )
        )
        self.epoch = self.pull.definition.epoch

    def take(self, messages: list[OfferedMessage]) -> OfferOutcome:
        return self.rig.run(lambda m: take(m, self.pull, self.epoch, messages, self.holder))


def take(
    manager: QueueManager, pull: Pull, epoch: int, messages: list[OfferedMessage], holder: object
) -> OfferOutcome:
    return manager.pulls.take(pull.definition.number, epoch, messages, holder, LEASE_MS)
