"""Answers that wait for a host which its machine may have left.

Order and final acknowledgments go to the host that the messages came from, since anybody can send
in the name of a machine. A machine that has moved, and has nothing to send, is known by its GUID
alone; so it gets copies of the final acknowledgments that wait for its other hosts, as does anybody
who claims the GUID. It may be that those speak of what a stranger has sent in its name: what the
machine has sent itself has come in by then. Where nobody has come back for long to the host that
the copies were made for, what waits for it there is given up.
"""

from __future__ import annotations

from posthouse.engine.core import Core
from posthouse.engine.queue import Queue
from posthouse.engine.records import KEPT, NEVER, Change
from posthouse.model.bounded import Bounded
from posthouse.model.message_classes import ACK_RECEIVE
from posthouse.model.names import PrivateName, parse_format_name
from posthouse.wire.glance import glance
from posthouse.wire.order_acks import Origin, final_ack, order_queue_at
from posthouse.wire.order_acks import read_final_ack as read

QUIET_MS = 60_000  # a machine that has come has sent by then what it has
AWAY_S = 16 * 3600  # whoever claims its GUID meanwhile: a machine may be off for a night
COPIES_MAX = 1000  # at once
COPIED_MAX = 10_000


class SharedAnswers:
    """What was copied for whom."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._bound: dict[bytes, dict[int, None]] = {}  # by source: outgoing queues
        # By queue and host: the last message that was copied.
        self._copied: Bounded[tuple[int, str], int] = Bounded(COPIED_MAX)

    def load(self) -> None:
        """At start: the queues for answers that are for one host."""
        for queue in self.core.registry.outgoing_queues():
            if queue.definition.answers_at:
                name = parse_format_name(queue.definition.format_name)
                assert isinstance(name, PrivateName)
                self.note(name.guid, queue)

    def note(self, source: bytes, queue: Queue) -> None:
        """An answer waits in this queue."""
        if queue.definition.answers_at:
            self._bound.setdefault(source, {})[queue.number] = None

    def may_wait(self, source: bytes) -> bool:
        """Whether answers for a host of this machine wait, or have waited."""
        return source in self._bound

    def share(self, source: bytes, hosts: list[str]) -> bool:
        """Copies what waits for other hosts of a machine to those that it is at now.

        Whether anything still waits for another.
        """
        waits = False
        for queue in self._bound_to(source):
            if queue.definition.answers_at not in hosts and queue.state.count:
                waits = True
                for host in hosts:
                    self._copy(queue, source, host)
        return waits

    def _bound_to(self, source: bytes) -> list[Queue]:
        """The outgoing queues for answers to a source that are for one host."""
        numbers = self._bound.get(source, {})
        for number in [number for number in numbers if number not in self.core.queues]:
            del numbers[number]
        queues = [self.core.queues[number] for number in numbers]
        return [queue for queue in queues if queue.definition.answers_at]

    def _copy(self, queue: Queue, source: bytes, host: str) -> None:
        core, key, change = self.core, (queue.number, host), Change()
        last = self._copied.get(key, 0)
        numbers = [number for _, number in queue.state.order.forward() if number > last]
        for number in numbers[:COPIES_MAX]:
            packet, (row,) = core.packet(number), core.state.table.rows((number,))
            seen = glance(packet)
            if seen.message_class >= ACK_RECEIVE:
                origin = Origin(core.guid, core.ordinals.next(), core.utc)
                name = order_queue_at(host)
                answer = final_ack(read(packet, seen), seen.message_class, name, origin)
                core.acks.send(source, host, answer, host, change)
            if row.expires == NEVER:
                core.settle(number, row._replace(expires=core.utc + AWAY_S), KEPT, change)
            last = max(last, number)
        self._copied[key] = last
        core.commit(change)
