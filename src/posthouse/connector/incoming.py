"""Sends messages of a foreign system into queues here, each once.

Where the inlet has come to is a message of its own, in a transactional queue: it is replaced in the
transaction that sends what came since. Whatever dies, the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Unpack

from posthouse.client.bodies import Body
from posthouse.client.manager import QueueManagerClient, Transaction
from posthouse.client.packets import options
from posthouse.client.send_options import SendOptions
from posthouse.model.errors import IoTimeout, MissingConnectorType, SharingViolation
from posthouse.model.guids import NULL_GUID, parse_guid

LABEL: Final = "position"


class Incoming:
    """A message of the foreign system: where it goes, its body, and the options of `send`."""

    __slots__ = ("body", "destination", "how")

    def __init__(self, destination: str, body: Body, **how: Unpack[SendOptions]) -> None:
        options(how)  # refused here rather than in the middle of a batch
        self.destination = destination
        self.body = body
        self.how = how


class Inlet:
    """Sends what a foreign system has, in batches that happen once.

    `position` is a transactional queue of the inlet's own, made where it is missing; two that run
    at a time exclude each other. `connector_type` is a GUID that shows readers of the messages
    which kind of connector brought them.
    """

    def __init__(self, manager: QueueManagerClient, position: str, *, connector_type: str) -> None:
        if not connector_type or parse_guid(connector_type) == NULL_GUID:
            raise MissingConnectorType("a connector needs a type: a GUID of its own")
        self._manager = manager
        self._connector_type = connector_type
        manager.create_queue(position, transactional=True, label="where an inlet is", exist_ok=True)
        self._position = manager.queue(position, exclusive=True)
        self._known: str | None = None  # where it was when anybody here looked last

    @property
    def position(self) -> str:
        """What `bring` was last told, by this inlet or the one before it; empty at first."""
        messages = list(self._position.browse())
        self._known = messages[-1].text if messages else ""
        return self._known

    def bring(self, messages: Iterable[Incoming], position: str) -> None:
        """Sends these messages and notes the new position: all of it or nothing, durably.

        Raises SharingViolation where another inlet has moved the position since it was read here,
        as may happen after a connection broke: these messages may have been sent.
        """
        with self._manager.transaction() as tx:
            found, known = self._forget(tx), self._known
            if known is not None and found != known:
                self._known = None
                raise SharingViolation(
                    f"another inlet has moved on from {known or 'the beginning'} to {found}",
                    "Read the position again, and continue there.",
                )
            for message in messages:
                queue = self._manager.queue(message.destination)
                how: SendOptions = {"connector_type": self._connector_type}
                how.update(message.how)
                queue.send(message.body, tx=tx, **how)
            self._position.send(position, tx=tx, label=LABEL)
        self._known = position

    def close(self) -> None:
        """Lets another inlet go on."""
        self._position.close()

    def _forget(self, tx: Transaction) -> str:
        found = ""
        try:
            while True:
                found = self._position.receive(0, tx=tx).text
        except IoTimeout:
            return found
