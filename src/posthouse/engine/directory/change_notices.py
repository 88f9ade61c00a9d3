"""Change notifications between queue managers that share a directory ([MS-MQCN]).

A queue manager that changes an object of another one notifies it; that one asks the authority.
Nothing in a notification is believed, so that one from anybody costs a look at the most, and looks
are as far apart as the document has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from posthouse.directory import objects
from posthouse.directory.base import equals
from posthouse.directory.mirror import Action, Order
from posthouse.engine.directory.public_queues import DirectoryOfQueues
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import Accepting
from posthouse.engine.ledger.records import Change
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import NOTIFY_QUEUE
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.model.message import DeliveryGuarantee, Message, MessageId
from posthouse.model.message_classes import NORMAL
from posthouse.model.names import DirectName, FormatName, PrivateName
from posthouse.wire.binary.change_notification import (
    NOTIFY_QUEUE_NUMBER,
    Notification,
    pack_notification,
    unpack_notification,
)
from posthouse.wire.packet.headers import INFINITE
from posthouse.wire.packet.message import serialize

TIME_TO_REACH_QUEUE_S: Final = 300
WAITING_MAX: Final = 100  # then everything is read again instead
LABEL: Final = "Directory change"


class ChangeOperation(IntEnum):
    """What a change notification reports; the numbers of [MS-MQCN]."""

    QUEUE_CREATION = 1
    QUEUE_UPDATE = 2
    QUEUE_DELETION = 3
    QUEUE_MANAGER_UPDATE = 4


class ChangeNotice(NamedTuple):
    """A change notification to be sent to the computer that owns the object."""

    operation: ChangeOperation
    identifier: bytes
    computer_name: str


_QUEUE_EVENTS: Final = {
    Action.CREATE: ChangeOperation.QUEUE_CREATION,
    Action.WRITE: ChangeOperation.QUEUE_UPDATE,
    Action.DELETE: ChangeOperation.QUEUE_DELETION,
}


def notices_of(made: Iterable[tuple[Order, objects.DirectoryObject]]) -> list[ChangeNotice]:
    """Which changes concern somebody: public queues, and queue managers that were changed."""
    notices = []
    for order, value in made:
        if isinstance(value, objects.Queue):
            event = _QUEUE_EVENTS[order.action]
            notices.append(ChangeNotice(event, value.identifier, value.computer_name))
        elif isinstance(value, objects.QueueManager) and order.action is Action.WRITE:
            event = ChangeOperation.QUEUE_MANAGER_UPDATE
            notices.append(ChangeNotice(event, value.identifier, value.computer_name))
    return notices


class Notices:
    """Change notifications: sends them, and handles those that arrive.

    `refresh` has the authority asked; with True for everything, not for changes alone.
    """

    def __init__(
        self, core: Ledger, registry: Queues, sending: Accepting, queues: DirectoryOfQueues
    ) -> None:
        self._core = core
        self._registry = registry
        self._sending = sending
        self._queues = queues
        self.refresh: Callable[[bool], None] = lambda whole: None
        self._waiting: set[bytes] = set()
        self._due_ms: int | None = None
        self._last_ms: int | None = None  # when the authority was asked because of them

    # -- to others

    def send(self, notices: Iterable[ChangeNotice]) -> None:
        """Notifies the owners of changed objects, in the step that takes the change in."""
        core, mirror = self._core, self._queues.mirror
        # [MS-MQDMPR] 3.1.1.6: the enterprise may not want any, and the setting neither.
        wanted = self._queues.service.enterprise.non_ldap_capable_queue_manager_notification
        if mirror is None or not (wanted and core.settings.directory.notify):
            return
        for notice in notices:
            owner = mirror.known(
                objects.QueueManager, equals("computer_name", notice.computer_name)
            )
            if owner is not None and owner.identifier != core.guid and not owner.foreign_system:
                self._send(notice, owner.identifier)

    def _send(self, notice: ChangeNotice, owner: bytes) -> None:
        core, change = self._core, Change()
        name = PrivateName(owner, NOTIFY_QUEUE_NUMBER)
        body = Notification(notice.operation, notice.identifier, core.settings.computer_name)
        try:
            message = Message(
                identifier=MessageId(core.guid, core.ordinals.next()),
                message_class=NORMAL,
                sent_time=core.utc,
                source_machine_identifier=core.guid,
                destination_queue_format_name=str(name),
                delivery_guarantee=DeliveryGuarantee.EXPRESS,
                time_to_reach_queue=TIME_TO_REACH_QUEUE_S,
                time_to_be_received=INFINITE,
                label=LABEL,
                body=pack_notification(body),
            )
            target = self._registry.sending_target(name, change)
            self._sending.enqueue(target, serialize(message), change=change)
        except (QueueError, RemoteProtocolError) as error:
            core.refusals["notice_dropped"] += 1
            core.event("notice_dropped", queue=str(name), why=str(error))
        core.commit(change)

    # -- from others

    def take(self, name: FormatName | None) -> bool:
        """Whether messages of this name are news; without an authority there are none."""
        if self._queues.mirror is None or not isinstance(name, PrivateName | DirectName):
            return False
        if isinstance(name, PrivateName):
            return name == PrivateName(self._core.guid, NOTIFY_QUEUE_NUMBER)
        queue = self._registry.find_local(name)
        return queue is not None and queue.number == NOTIFY_QUEUE

    def heard(self, body: bytes, source: bytes) -> None:
        """A message for `notify_queue$`; what cannot be one is counted and has no effect."""
        core, mirror = self._core, self._queues.mirror
        known = equals("identifier", source)
        if mirror is None or mirror.known(objects.QueueManager, known) is None:
            core.refusals["notice_of_a_stranger"] += 1
            return
        try:
            found = unpack_notification(body)
        except RemoteProtocolError as error:
            core.refusals["notice_malformed"] += 1
            core.event("notice_malformed", why=str(error))
            return
        if isinstance(found, Notification) and found.event in ChangeOperation.__members__.values():
            self._wait_for_more(found.identifier)
        else:
            core.refusals["notice_ignored"] += 1

    def _wait_for_more(self, identifier: bytes) -> None:
        if len(self._waiting) < WAITING_MAX:
            self._waiting.add(identifier)
        if self._due_ms is None:
            settings, now_ms = self._core.settings, self._core.now_ms
            soon_ms = now_ms + settings.directory.notify_s * 1000
            if self._last_ms is not None:
                soon_ms = max(soon_ms, self._last_ms + settings.directory.notify_interval_s * 1000)
            self._due_ms = soon_ms
            self._core.deadlines.note(soon_ms)

    def next_deadline_ms(self) -> int | None:
        """When the authority is asked next because of what was heard."""
        return self._due_ms

    def run_timer(self) -> None:
        """Has the authority asked, once for all that was heard."""
        if self._due_ms is None or self._due_ms > self._core.now_ms:
            return
        whole = len(self._waiting) >= WAITING_MAX
        self._waiting.clear()
        self._due_ms, self._last_ms = None, self._core.now_ms
        self.refresh(whole)
