"""Report messages on the way of a traced message ([MS-MQQB] 3.1.5.8.9, 3.1.7.1.7).

Both reports have the same label, and the same first lines in their body. The grammar is that of
errata 2.2; both contain "received by", and the GUID in it is ours (decision 79).
"""

from __future__ import annotations

from datetime import UTC, datetime

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import Accepting, OpenedQueues
from posthouse.engine.ledger.records import Change
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.model.message import INFINITE, DeliveryGuarantee, Message, MessageId
from posthouse.model.message_classes import REPORT
from posthouse.model.names import PublicName
from posthouse.security.access import Caller
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.wire.packet.headers import BaseFlags
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import PacketSummary

TRACED = int(BaseFlags.of(tracing=1))
_HOPS = 0x1F  # UserHeader.Flags.RC
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_ANYBODY = Caller.anonymous()


def time_date(utc: int) -> str:
    """The rule time-date: `09:05:00 PM Tue,Nov 14 23`."""
    time = datetime.fromtimestamp(utc, UTC)
    half = "PM" if time.hour >= 12 else "AM"
    clock = f"{time.hour % 12 or 12:02}:{time.minute:02}:{time.second:02} {half}"
    month = _MONTHS[time.month - 1]
    return f"{clock} {_DAYS[time.weekday()]},{month} {time.day:02} {time.year % 100:02}"


def report_label(seen: PacketSummary, computer: bytes, utc: int) -> str:
    """The rule label, without its NUL."""
    source = format_guid(seen.source_guid)[:4].upper()
    hops = seen.user_flags & _HOPS
    by = format_guid(computer).upper()
    return f"{source}:{seen.ordinal:08X}:{hops:02X} received by {by} at {time_date(utc)}"


def received_body(seen: PacketSummary, target: str) -> str:
    """What the receiving side reports."""
    return (
        f"<MESSAGE ID>{seen.ordinal:08X}</MESSAGE ID>\r\n<TARGET QUEUE>{target}</TARGET QUEUE>\r\n"
    )


def sent_body(seen: PacketSummary, target: str, next_hop: str) -> str:
    """What the sending side reports; the blank in front of the last tag is the document's."""
    hops = seen.user_flags & _HOPS
    return (
        f"{received_body(seen, target)}<NEXT HOP>{next_hop}</NEXT HOP>\r\n"
        f"<HOP COUNT>{hops:02X} </HOP COUNT>\r\n"
    )


class Tracing:
    """Sends reports. One that cannot be sent is dropped and counted."""

    def __init__(
        self, core: Ledger, registry: Queues, opening: OpenedQueues, sending: Accepting
    ) -> None:
        self.core = core
        self._registry = registry
        self._opening = opening
        self._sending = sending

    def received(self, packet: bytes, seen: PacketSummary, change: Change) -> None:
        """Sending a Trace Message (3.1.5.8.9), for a message that was taken in."""
        if _is_traced(seen):
            view = Packet(packet, seen)
            self._report(view, received_body(seen, str(view.destination_queue)), change)

    def sent(
        self, packet: bytes, seen: PacketSummary, next_hop: str, change: Change | None
    ) -> None:
        """Sending Trace Message (3.1.7.1.7); `next_hop` is the address it goes to now."""
        if _is_traced(seen):
            view = Packet(packet, seen)
            self._report(view, sent_body(seen, str(view.destination_queue), next_hop), change)

    def _report(self, view: Packet, body: str, change: Change | None) -> None:
        core, seen = self.core, view.summary
        if view.tracing_queue == NULL_GUID:  # decision 79
            return
        name = PublicName(view.tracing_queue)
        try:
            target = self._target(name, change)
            message = Message(
                identifier=MessageId(core.guid, core.ordinals.next()),
                message_class=REPORT,
                sent_time=core.utc,
                source_machine_identifier=core.guid,
                destination_queue_format_name=str(name),
                delivery_guarantee=DeliveryGuarantee.EXPRESS,
                time_to_reach_queue=core.time_to_reach_queue_max,
                time_to_be_received=INFINITE,
                label=report_label(seen, core.guid, core.utc),
                body=body.encode("utf-16-le"),
            )
            self._sending.enqueue(target, serialize(message), change=change)
        except (QueueError, RemoteProtocolError) as error:
            core.refusals["report_dropped"] += 1
            core.event("report_dropped", queue=str(name), why=str(error))

    def _target(self, name: PublicName, change: Change | None) -> Queue:
        """The report queue, opened for sending as anybody's would be.

        Decision 9: a public name leads only to machines of the directory.
        """
        target = self._registry.find_target(name)
        if target is None:
            return self._registry.sending_target(name, change)
        self._opening.check_role(target, QueueAccessType.SEND)
        if target.outgoing is None:
            self._registry.guard(target).require(_ANYBODY, WRITE_MESSAGE)
        return target


def _is_traced(seen: PacketSummary) -> bool:
    """Reports are never reported on."""
    return bool(seen.base_flags & TRACED) and seen.message_class != REPORT
