"""Order and final acknowledgments that wait to be sent, with a limit for unknown machines.

The source of a message is a GUID that anybody can make up. An answer to one that neither the
directory nor a connection of ours has led to, and that has no session with us now, could only wait
for ever: none is made. A sender that never gets it sends again, and is answered on the session
that it opens for that (decision 40). A machine outside the directory that has called is owed its
answers also while it is away. There may be `absent_senders_max` such machines; where there are
more, the address that has most of them gives up answers of its own. Order acknowledgments go first:
a sender that sends again gets another, while a final acknowledgment is sent once.
"""

from __future__ import annotations

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import MachineTargets, Relocating
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import ORDER_QUEUE
from posthouse.model.bounded_tables import Shared
from posthouse.model.guids import format_guid
from posthouse.model.message_classes import ORDER_ACK
from posthouse.model.names import PrivateName, parse_format_name

LOOKED_AT = 64  # machines of the address that has most, when there are too many


class OwedAnswers:
    """The machines outside the directory that answers wait for, those away longest first."""

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        transfer: MachineTransfer,
        targets: MachineTargets,
        moving: Relocating,
    ) -> None:
        self._core = core
        self._registry = registry
        self._transfer = transfer
        self._targets = targets
        self._moving = moving
        # By the name of the outgoing queue: a machine that has moved, or somebody who pretends to
        # be it, has one for each host.
        self._at: Shared[PrivateName, str] = Shared(lambda name, address: address)

    def load(self) -> None:
        """At start: every machine that answers wait for."""
        for queue in self._registry.outgoing_queues():
            name = parse_format_name(queue.definition.format_name)
            if isinstance(name, PrivateName) and name.number == ORDER_QUEUE and queue.state.count:
                self.note(name, queue.definition.answers_at)

    def has_way(self, source: bytes) -> bool:
        """Whether an answer to this machine has anywhere to go; if not, none is made."""
        core = self._core
        found = (
            self._transfer.is_connected(source)
            or self._transfer.address_of(source) is not None
            or self._targets.knows_machine(source)
        )
        if not found:
            core.refusals["answer_to_unknown_machine"] += 1
        return found

    def note(self, name: PrivateName, address: str = "") -> None:
        """An answer waits for this machine, whose messages came from an address."""
        if name in self._at or self._is_vouched_for(name):
            return
        known, _ = self._transfer.address_of(name.guid) or ("", None)
        self._at[name] = name.address or address or known
        if len(self._at) > self._core.settings.binary.absent_senders_max:
            self._make_room()

    def _is_vouched_for(self, name: PrivateName) -> bool:
        """Whether a source other than the machine's own sessions confirms that it exists."""
        if name.address:
            return False
        _, port = self._transfer.address_of(name.guid) or ("", None)
        return port is not None or self._targets.knows_machine(name.guid)

    def _make_room(self) -> None:
        """Those that have nothing to wait for go, else one of those that are away.

        Machines that have a session now are the last to be looked at the next time.
        """
        away = []
        for name in self._at.oldest_of_most(LOOKED_AT):
            if not self._waiting(name) or self._is_vouched_for(name):
                del self._at[name]
            elif self._transfer.is_connected(name.guid):
                self._at[name] = self._at[name]
            else:
                away.append(name)
        if away and len(self._at) > self._core.settings.binary.absent_senders_max:
            self._drop(next((name for name in away if self._can_ask_again(name)), away[0]))

    def _can_ask_again(self, name: PrivateName) -> bool:
        """Whether only order acknowledgments wait for it."""
        queue = self._registry.find_outgoing(name)
        if queue is None or queue.state.count > LOOKED_AT:
            return False
        rows = self._core.state.table.rows([number for _, number in queue.state.order.forward()])
        return all(row.message_class == ORDER_ACK for row in rows)

    def _waiting(self, name: PrivateName) -> int:
        queue = self._registry.find_outgoing(name)
        return 0 if queue is None else queue.state.count

    def _drop(self, name: PrivateName) -> None:
        """Its answers are given up: what it sends again is answered when it does."""
        core, address = self._core, self._at[name]
        del self._at[name]
        queue = self._registry.find_outgoing(name)
        if queue is not None:
            count = queue.state.count
            core.refusals["answers_given_up"] += count
            core.event(
                "answers_given_up", source=format_guid(name.guid), address=address, answers=count
            )
            self._moving.purge(queue)
