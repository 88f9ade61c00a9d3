"""Acknowledgments for a machine that may have moved to another host: copied to each host.

Order and final acknowledgments go to the host that the messages came from, since anybody can send
in the name of a machine. A machine that has moved, and has nothing to send, is known by its GUID
alone; so it gets copies of the final acknowledgments that wait for its other hosts, as does anybody
who claims the GUID. It may be that those speak of what a stranger has sent in its name: what the
machine has sent itself has come in by then. Where no one has come back for long to the host that
the copies were made for, what waits for it there is given up.

Somebody who claims the GUID from one address after the other gets no more than that: copies are not
copied again, one host of a network gets them at a time, and a limited number of hosts in all.
"""

from __future__ import annotations

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import AckSender, Relocating
from posthouse.engine.ledger.records import KEPT, NEVER, Change
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import Queue
from posthouse.model.address_prefixes import source_of
from posthouse.model.bounded_tables import Bounded
from posthouse.model.message_classes import ACK_RECEIVE
from posthouse.model.names import PrivateName, parse_format_name
from posthouse.wire.binary.order_acks import Origin, final_ack, order_queue_at
from posthouse.wire.binary.order_acks import read_final_ack as read
from posthouse.wire.packet.packet_fields import summarize

AWAY_S = 16 * 3600  # whatever host claims its GUID meanwhile: a machine may be off for a night
COPIES_MAX = 1000  # at once
COPIED_MAX = 10_000
HOSTS_MAX = 16  # of one machine that copies are made for, and kept for
COPIED = 1  # `Row.moves` of a copy


class SharedAnswers:
    """The copies of acknowledgments, by machine and host."""

    def __init__(self, core: Ledger, registry: Queues, moving: Relocating, acks: AckSender) -> None:
        self.core = core
        self._registry = registry
        self._moving = moving
        self._acks = acks
        self._bound: dict[bytes, dict[int, None]] = {}  # by source: outgoing queues
        # By queue and host: the last message that was copied.
        self._copied: Bounded[tuple[int, str], int] = Bounded(COPIED_MAX)

    def load(self) -> None:
        """At start: the queues for answers that are for one host."""
        for queue in self._registry.outgoing_queues():
            if queue.definition.answers_at:
                name = parse_format_name(queue.definition.format_name)
                assert isinstance(name, PrivateName)
                self.note(name.guid, queue)

    def note(self, source: bytes, queue: Queue) -> None:
        """An answer waits in this queue."""
        if queue.definition.answers_at:
            self._bound.setdefault(source, {})[queue.number] = None
            if len(self._bound) > 2 * len(self.core.queues):  # queues go, and names can be made up
                for each in list(self._bound):
                    self._bound_to(each)

    def may_wait(self, source: bytes) -> bool:
        """Whether answers for a host of this machine wait, or have waited."""
        return source in self._bound

    def share(self, source: bytes, hosts: list[str]) -> bool:
        """Copies what waits for other hosts of a machine to those that it is at now.

        Whether anything still waits for another.
        """
        bound = self._bound_to(source)
        others = [q for q in bound if q.definition.answers_at not in hosts and q.state.count]
        left = COPIES_MAX
        for host in _of_networks(hosts):
            for queue in others:
                left -= self._copy(queue, source, host, left)
        self._give_up(others)
        return bool(others)

    def _bound_to(self, source: bytes) -> list[Queue]:
        """The outgoing queues for answers to a source that are for one host."""
        numbers = self._bound.get(source, {})
        for number in [number for number in numbers if number not in self.core.queues]:
            del numbers[number]
        if not numbers:
            self._bound.pop(source, None)
        queues = [self.core.queues[number] for number in numbers]
        return [queue for queue in queues if queue.definition.answers_at]

    def _copy(self, queue: Queue, source: bytes, host: str, at_most: int) -> int:
        """Copies what was not copied yet for a host; how many messages were looked at."""
        core, key, change = self.core, (queue.number, host), Change()
        last = self._copied.get(key, 0)
        numbers = [number for _, number in queue.state.order.forward() if number > last]
        numbers = numbers[: max(at_most, 0)]
        for number in numbers:
            packet, (row,) = core.packet(number), core.state.table.rows((number,))
            seen = summarize(packet)
            last = max(last, number)
            if row.moves == COPIED:
                continue
            if seen.message_class >= ACK_RECEIVE:
                origin = Origin(core.guid, core.ordinals.next(), core.utc)
                name = order_queue_at(host)
                answer = final_ack(read(packet, seen), seen.message_class, name, origin)
                self._mark(self._acks.send(source, host, answer, host, change), change)
            if row.expires == NEVER:
                core.settle(number, row._replace(expires=core.utc + AWAY_S), KEPT, change)
        if numbers:
            self._copied[key] = last
        core.commit(change)
        return len(numbers)

    def _mark(self, number: int, change: Change) -> None:
        """It is a copy, also after a restart."""
        row = self.core.state.table.get(number)
        if row is not None:
            self.core.settle(number, row._replace(moves=COPIED), KEPT, change)

    def _give_up(self, others: list[Queue]) -> None:
        """Drops the oldest copies for hosts that have not come back, if there are many."""
        table = self.core.state.table
        for queue in others[: max(len(others) - HOSTS_MAX, 0)]:
            numbers = [number for _, number in queue.state.order.forward()]
            if all(row.moves == COPIED for row in table.rows(numbers)):
                self.core.refusals["answers_given_up"] += queue.state.count
                self._moving.purge(queue)
                for key in [key for key in self._copied if key[1] == queue.definition.answers_at]:
                    del self._copied[key]  # its machine may come back


def _of_networks(hosts: list[str]) -> list[str]:
    """The latest host of each network, as many as get copies."""
    return list({source_of(host): host for host in hosts}.values())[-HOSTS_MAX:]
