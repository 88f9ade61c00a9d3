"""Management properties of the machine and of queues ([MS-MQMR] 3.1.4.1, [MS-MQMQ] 2.3.11-12).

A value that a queue does not have is VT_NULL: what belongs to outgoing queues for any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from posthouse.engine.queues.queue import Outgoing, Queue, QueueRole, QueueType
from posthouse.engine.transfer import sequence_values
from posthouse.engine.transfer.sequence_values import OutgoingTransferReport
from posthouse.model.properties import LOCAL_CONNECTION, OutgoingQueueState
from posthouse.model.property_ids import Vt
from posthouse.rpc.propvariant import NULL, Variant, text, texts, vector
from posthouse.wire.packet.sequence import SEQUENCE_INFO, SequenceInfo

if TYPE_CHECKING:  # clients use this module, and do not wait for the engine to load
    from posthouse.engine.manager import QueueManager

CONNECTED, DISCONNECTED = "CONNECTED", "DISCONNECTED"
YES, NO, UNKNOWN = "YES", "NO", "UNKNOWN"
LOCAL, REMOTE, MULTICAST = "LOCAL", "REMOTE", "MULTICAST"
TYPES: Final = {
    QueueType.PUBLIC: "PUBLIC",
    QueueType.PRIVATE: "PRIVATE",
    QueueType.SYSTEM: "MACHINE",
    QueueType.CONNECTOR: "CONNECTOR",
}
_U32_MAX: Final = 0xFFFF_FFFF
_I32_MAX: Final = 0x7FFF_FFFF
_NOTHING: Final = SequenceInfo()
_ON_THE_WAY: Final = frozenset({OutgoingQueueState.CONNECTED, OutgoingQueueState.WAITING})


def count(number: int) -> Variant:
    """VT_UI4; more than fits is shown as the largest number."""
    return Variant(Vt.UI4, min(number, _U32_MAX))


def time(seconds: int) -> Variant:
    """VT_I4, seconds since 1970."""
    return Variant(Vt.I4, min(seconds, _I32_MAX))


# -- the machine


def _active_queues(manager: QueueManager, version: str) -> Variant:
    active = [queue for queue in manager.queues.all() if is_active(queue)]
    return texts([format_name(queue) for queue in active])


def _private_queues(manager: QueueManager, version: str) -> Variant:
    return texts(
        [
            queue.definition.pathname
            for queue in manager.queues.all()
            if queue.definition.role is QueueRole.PLAIN
            and queue.definition.queue_type is QueueType.PRIVATE
        ]
    )


def _directory_server(manager: QueueManager, version: str) -> Variant:
    """The host of a directory server's address; a directory of our own, or a file, has none."""
    host = _ldap_host(manager.directory.source)
    return text(rf"\\{host}") if host else NULL


def _ldap_host(source: str) -> str:
    scheme, _, rest = source.partition("://")
    if not scheme.startswith("ldap"):
        return ""
    host = rest.partition("/")[0]
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _connected(manager: QueueManager, version: str) -> Variant:
    return text(CONNECTED if manager.transfer.connection_active else DISCONNECTED)


def _type(manager: QueueManager, version: str) -> Variant:
    return text(f"Posthouse {version}")


def _bytes_in_all_queues(manager: QueueManager, version: str) -> Variant:
    return Variant(Vt.I8, sum(queue.state.bytes for queue in manager.queues.all()))


MACHINE_VALUES: Final[dict[int, Callable[[QueueManager, str], Variant]]] = {
    1: _active_queues,
    2: _private_queues,
    3: _directory_server,
    4: _connected,
    5: _type,
    6: _bytes_in_all_queues,
}
"""2.2.3.1, by identifier."""


# -- queues


def is_active(queue: Queue) -> bool:
    """Whether it has messages or is open ([MS-MQMR] 1.1)."""
    return bool(queue.state.count or queue.descriptors)


def format_name(queue: Queue) -> str:
    """The name that reaches it; of an outgoing queue, where it leads."""
    definition = queue.definition
    return definition.format_name or f"DIRECT=OS:{definition.pathname}"


class QueueValues:
    """One queue, asked for any number of properties."""

    def __init__(self, manager: QueueManager, queue: Queue) -> None:
        self._manager = manager
        self._queue = queue
        self._report: OutgoingTransferReport | None = None

    def of(self, propid: int) -> Variant:
        """The value of a property that there is."""
        return QUEUE_VALUES[propid](self)

    @property
    def _outgoing(self) -> Outgoing | None:
        return self._queue.outgoing

    def pathname(self) -> Variant:
        """1; some destinations have a URL or a GUID only."""
        return text(self._queue.definition.pathname) if self._queue.definition.pathname else NULL

    def formatname(self) -> Variant:
        """2."""
        return text(format_name(self._queue))

    def type(self) -> Variant:
        """3."""
        definition = self._queue.definition
        if self._outgoing is not None and definition.multicast:
            return text(MULTICAST)
        return text(TYPES[definition.queue_type])

    def location(self) -> Variant:
        """4."""
        return text(LOCAL if self._outgoing is None else REMOTE)

    def transactional(self) -> Variant:
        """5."""
        return text(YES if self._queue.definition.transactional else NO)

    def foreign(self) -> Variant:
        """6: of the machine; while the directory cannot be asked only private queues are known."""
        state = self._manager.directory.state()
        if state.source != "none" and not state.online:
            private = self._queue.definition.queue_type is QueueType.PRIVATE
            return text(NO if private else UNKNOWN)
        return text(YES if self._manager.directory.own_queue_manager().foreign_system else NO)

    def messages(self) -> Variant:
        """7."""
        return count(self._queue.state.count)

    def bytes(self) -> Variant:
        """8."""
        return count(self._queue.state.bytes)

    def journal_messages(self) -> Variant:
        """9."""
        journal = self._queue.journal
        return count(journal.state.count if journal else 0)

    def journal_bytes(self) -> Variant:
        """10."""
        journal = self._queue.journal
        return count(journal.state.bytes if journal else 0)

    def state(self) -> Variant:
        """11."""
        outgoing = self._outgoing
        return text(LOCAL_CONNECTION if outgoing is None else outgoing.state.value)

    def next_hops(self) -> Variant:
        """12: while it is connected, or waits for that."""
        outgoing = self._outgoing
        if outgoing is None or outgoing.state not in _ON_THE_WAY:
            return NULL
        if self._queue.definition.multicast and outgoing.state is OutgoingQueueState.CONNECTED:
            return texts([format_name(self._queue)])
        return texts(outgoing.next_hops)

    def last_ack(self) -> Variant:
        """13: while messages wait for an order acknowledgment."""
        report = self.report
        return NULL if report is None or not report.no_ack_count else _place(report.last_ack)

    @property
    def report(self) -> OutgoingTransferReport | None:
        """OutgoingTransferInfo; None: it is not an outgoing queue."""
        if self._report is None and self._outgoing is not None:
            self._report = self._manager.transfer.report(self._queue)
        return self._report

    def sources(self) -> Variant:
        """24: six vectors, with an entry for each sequence that comes here."""
        if self._outgoing is not None:
            return NULL
        infos = self._manager.transfer.incoming_of(self._queue)
        return vector(
            Vt.VARIANT,
            [
                texts([info.format_name for info in infos]),
                vector(Vt.CLSID, [info.source for info in infos]),
                vector(Vt.UI8, [info.sequence_id for info in infos]),
                vector(Vt.UI4, [info.sequence_number & _U32_MAX for info in infos]),
                vector(Vt.I4, [min(info.last_access_time, _I32_MAX) for info in infos]),
                vector(Vt.UI4, [min(info.reject_count, _U32_MAX) for info in infos]),
            ],
        )

    def connection_history(self) -> Variant:
        """25: four vectors, with an entry for each attempt; addresses are vectors themselves."""
        outgoing = self._outgoing
        if outgoing is None:
            return NULL
        attempts = list(outgoing.connection_history)
        return vector(
            Vt.VARIANT,
            [
                vector(Vt.UI4, [attempt.status & _U32_MAX for attempt in attempts]),
                vector(Vt.I4, [min(attempt.time, _I32_MAX) for attempt in attempts]),
                vector(Vt.I4, [min(attempt.error, _I32_MAX) for attempt in attempts]),
                vector(Vt.VARIANT, [texts(attempt.next_hops) for attempt in attempts]),
            ],
        )

    def subqueue_count(self) -> Variant:
        """26."""
        return count(len(self._queue.subqueues))

    def subqueue_names(self) -> Variant:
        """27."""
        names = [sub.path.subqueue for sub in self._queue.subqueues.values() if sub.path]
        return texts(names)

    def sequence(self, value: Callable[[OutgoingTransferReport], Variant]) -> Variant:
        """14 to 23: what is known of the sequence of an outgoing queue."""
        report = self.report
        return NULL if report is None else value(report)


def _place(info: sequence_values.SequenceInfo | None) -> Variant:
    """SEQUENCE_INFO; all zero where there is none."""
    return Variant(Vt.BLOB, SEQUENCE_INFO.pack(SequenceInfo(*info) if info else _NOTHING))


QUEUE_VALUES: Final[dict[int, Callable[[QueueValues], Variant]]] = {
    1: QueueValues.pathname,
    2: QueueValues.formatname,
    3: QueueValues.type,
    4: QueueValues.location,
    5: QueueValues.transactional,
    6: QueueValues.foreign,
    7: QueueValues.messages,
    8: QueueValues.bytes,
    9: QueueValues.journal_messages,
    10: QueueValues.journal_bytes,
    11: QueueValues.state,
    12: QueueValues.next_hops,
    13: QueueValues.last_ack,
    14: lambda values: values.sequence(lambda report: time(report.last_ack_time)),
    15: lambda values: values.sequence(lambda report: count(report.last_ack_count)),
    16: lambda values: values.sequence(lambda report: _place(report.first_non_ack)),
    17: lambda values: values.sequence(lambda report: _place(report.last_non_ack)),
    18: lambda values: values.sequence(lambda report: _place(report.next_sequence)),
    19: lambda values: values.sequence(lambda report: count(report.no_read_count)),
    20: lambda values: values.sequence(lambda report: count(report.no_ack_count)),
    21: lambda values: values.sequence(lambda report: time(report.resend_time)),
    22: lambda values: values.sequence(lambda report: count(report.resend_interval_s)),
    23: lambda values: values.sequence(lambda report: count(report.resend_count)),
    24: QueueValues.sources,
    25: QueueValues.connection_history,
    26: QueueValues.subqueue_count,
    27: QueueValues.subqueue_names,
}
"""2.2.3.2, by identifier."""
