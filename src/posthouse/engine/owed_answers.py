"""To whom order and final acknowledgments are owed, and for how many strangers they are kept.

The source of a message is a GUID that anybody can make up. An answer to one that neither the
directory nor a connection of ours has led to, and that has no session with us now, could only wait
for ever: none is made. A sender that never gets it sends again, and is answered on the session
that it opens for that (decision 40). A machine outside the directory that has called is owed its
answers also while it is away, and an address has a limited number of such machines.
"""

from __future__ import annotations

from posthouse.engine.core import Core
from posthouse.engine.queue import ORDER_QUEUE
from posthouse.model.names import PrivateName, parse_format_name
from posthouse.model.networks import source_of

OWED_PER_ADDRESS = 256
"""Machines outside the directory, by the address they called from, that answers are kept for."""


class OwedAnswers:
    """The machines outside the directory that answers wait for, by address, the oldest first."""

    def __init__(self, core: Core) -> None:
        self._core = core
        # By the name of the outgoing queue: a machine that has moved, or somebody who pretends to
        # be it, has one for each host.
        self._of: dict[str, dict[PrivateName, None]] = {}
        self._at: dict[PrivateName, str] = {}

    def load(self) -> None:
        """At start: every machine that answers wait for."""
        for queue in self._core.registry.outgoing_queues():
            name = parse_format_name(queue.definition.format_name)
            if isinstance(name, PrivateName) and name.number == ORDER_QUEUE and queue.state.count:
                self.note(name, queue.definition.answers_at)

    def has_way(self, source: bytes) -> bool:
        """Whether an answer to this machine has anywhere to go; if not, none is made."""
        core = self._core
        found = (
            core.transfer.is_connected(source)
            or core.transfer.address_of(source) is not None
            or core.targets.knows_machine(source)
        )
        if not found:
            core.refusals["answer_to_unknown_machine"] += 1
        return found

    def note(self, name: PrivateName, address: str = "") -> None:
        """An answer waits for this machine, whose messages came from an address.

        The oldest of too many machines of one address gets none.
        """
        if name in self._at or self._is_vouched_for(name):
            return
        known, _ = self._core.transfer.address_of(name.guid) or ("", None)
        at = source_of(name.address or address or known)
        owed = self._of.setdefault(at, {})
        owed[name], self._at[name] = None, at
        if len(owed) > OWED_PER_ADDRESS:
            self._make_room(owed)

    def _is_vouched_for(self, name: PrivateName) -> bool:
        """Whether others than its own sessions say that there is such a machine."""
        if name.address:
            return False
        _, port = self._core.transfer.address_of(name.guid) or ("", None)
        return port is not None or self._core.targets.knows_machine(name.guid)

    def _make_room(self, owed: dict[PrivateName, None]) -> None:
        """Those that have nothing to wait for go first, then the oldest without a session."""
        transfer = self._core.transfer
        for name in list(owed):
            if len(owed) <= OWED_PER_ADDRESS // 2:
                return
            if not self._waiting(name) or self._is_vouched_for(name):
                self._forget(name, owed)
        away = (name for name in owed if not transfer.is_connected(name.guid))
        oldest = next(away, None)
        if oldest is not None:
            self._drop(oldest)
            self._forget(oldest, owed)

    def _waiting(self, name: PrivateName) -> int:
        queue = self._core.registry.find_outgoing(name)
        return 0 if queue is None else queue.state.count

    def _forget(self, name: PrivateName, owed: dict[PrivateName, None]) -> None:
        del owed[name], self._at[name]

    def _drop(self, name: PrivateName) -> None:
        """Its answers are given up: what it sends again is answered when it does."""
        core = self._core
        queue = core.registry.find_outgoing(name)
        if queue is not None:
            core.refusals["answers_given_up"] += queue.state.count
            core.moving.purge(queue)
