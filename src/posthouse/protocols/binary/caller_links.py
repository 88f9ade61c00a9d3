"""Links to machines that are known only by their own calls, with a limit for each address.

Anybody can call under any number of GUIDs and go away. What is owed to such a machine is sent to
the address that it called from, but one address causes a limited number of links. The rest waits,
without a link, a timer and a line in the log, until the machine opens a session again.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from posthouse.engine.queues.queue import ORDER_QUEUE, Queue
from posthouse.engine.settings import host_key
from posthouse.model.address_prefixes import source_of
from posthouse.model.names import PrivateName, parse_format_name
from posthouse.protocols.binary.next_hop_lookup import Destination, Way, way_to
from posthouse.protocols.outgoing_reports import Reports

_STOPPED = Way("", known=True)


class CallerLinks:
    """Which links there are for an address, and which queues wait for a machine to come.

    `callers` has where queue managers have last called from.
    """

    def __init__(self, reports: Reports, callers: Mapping[bytes, str], per_address: int) -> None:
        self._reports = reports
        self._callers = callers
        self._per_address = per_address
        self._of: dict[str, set[Hashable]] = {}
        self._at: dict[Hashable, str] = {}
        self._waiting: dict[bytes, dict[int, None]] = {}
        self._guids: dict[int, bytes] = {}

    def may_link(self, found: Destination, queue: Queue) -> bool:
        """Whether there may be a link to a queue manager, for an outgoing queue.

        One that neither the directory nor a session of ours has led to is called back, where its
        address has not too many links. An answer to one that has not even called has no way.
        """
        if found.is_direct:
            return True
        way = self._reports.ask(lambda manager: way_to(manager, found.guid), _STOPPED)
        elsewhere = found.host and host_key(found.host) != host_key(way.address)
        if way.known and not elsewhere:
            return True
        address = found.host or way.address or self._callers.get(found.guid, "")
        return self._enter(found.key, address) if address else not is_order_queue(queue)

    def _enter(self, key: Hashable, address: str) -> bool:
        at = source_of(address)
        links = self._of.setdefault(at, set())
        if len(links) >= self._per_address and key not in links:
            return False
        links.add(key)
        self._at[key] = at
        return True

    def left(self, key: Hashable) -> None:
        """A link is gone."""
        at = self._at.pop(key, None)
        if at is not None:
            self._of[at].discard(key)
            if not self._of[at]:
                del self._of[at]

    def wait(self, queue: int, guid: bytes) -> None:
        """An outgoing queue waits for this machine."""
        self._waiting.setdefault(guid, {})[queue] = None
        self._guids[queue] = guid

    def stop_waiting(self, queue: int) -> None:
        """An outgoing queue is empty, or has another way."""
        guid = self._guids.pop(queue, None)
        if guid is not None:
            del self._waiting[guid][queue]
            if not self._waiting[guid]:
                del self._waiting[guid]

    def awaited(self, guid: bytes) -> list[int]:
        """The machine has come: the queues that wait for it."""
        return list(self._waiting.get(guid, ()))

    def all_waiting(self) -> list[int]:
        """Every queue that waits."""
        return list(self._guids)


def is_order_queue(queue: Queue) -> bool:
    """Whether an outgoing queue has order and final acknowledgments for another queue manager."""
    name = parse_format_name(queue.definition.format_name)
    return isinstance(name, PrivateName) and name.number == ORDER_QUEUE
