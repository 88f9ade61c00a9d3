"""Part of `posthouse demo`: claims for a public queue, found by its label in a shared directory."""

from __future__ import annotations

import threading
from typing import Final

import msgspec

from posthouse.client.manager import Queue, QueueManagerClient
from posthouse.client.packets import Draft
from posthouse.model.errors import IoTimeout
from posthouse.runtime.home import real_clock

CLAIMS: Final = r".\claims"
LABEL: Final = "Claims of customers"
SHARE: Final = 50  # one order in this many is complained about
BATCH: Final = 50  # claims in one transaction
PATIENCE_MS: Final = 60_000
LOOK_S: Final = 0.05


class Named(msgspec.Struct, frozen=True):
    """What came of claims that were sent to a name."""

    path: str  # empty: the queue was not found
    sent: int
    delivered: int  # as the sender's books have it
    received: int
    in_order: bool

    @property
    def well(self) -> bool:
        """The queue was found, each claim came once and in order, acknowledged to the sender."""
        return bool(self.path) and self.in_order and self.sent == self.delivered == self.received


def claim(alpha: QueueManagerClient, beta: QueueManagerClient, binary: str, orders: int) -> Named:
    """BETA makes a public queue; ALPHA looks for its label and sends to what it finds."""
    count = max(orders // SHARE, 1)
    beta.create_queue(CLAIMS, transactional=True, label=LABEL)
    # Queue managers that listen on loopback publish no address, so give it here.
    machine = {"name": beta.name, "guid": beta.guid, "addresses": [binary]}
    alpha.call("POST", "/directory", {"document": {"machines": [machine]}})
    path = _found(alpha)
    if not path:
        return Named("", count, 0, 0, False)
    far = alpha.queue(path)
    for first in range(0, count, BATCH):
        with alpha.transaction() as tx:
            numbers = range(first, min(first + BATCH, count))
            far.send_many((Draft({"claim": n}, label=f"claim {n}") for n in numbers), tx=tx)
    delivered = _delivered(far, count)
    received = _received(beta.queue(CLAIMS))
    return Named(path, count, delivered, len(received), received == list(range(count)))


def _found(alpha: QueueManagerClient) -> str:
    """The path of the queue with the label, once the directory has told everybody."""
    began_ms = real_clock()[0]
    while real_clock()[0] - began_ms < PATIENCE_MS:
        found = alpha.find_queues(label=LABEL)
        if found:
            return found[0].path
        threading.Event().wait(LOOK_S)
    return ""


def _delivered(far: Queue, sent: int) -> int:
    began_ms = real_clock()[0]
    while True:
        outgoing = far.properties().outgoing
        delivered = outgoing.delivered if outgoing else 0
        if delivered >= sent or real_clock()[0] - began_ms > PATIENCE_MS:
            return delivered
        threading.Event().wait(LOOK_S)


def _received(claims: Queue) -> list[int]:
    found: list[int] = []
    try:
        while True:
            found += [message.json()["claim"] for message in claims.receive_many(BATCH, 0)]
    except IoTimeout:
        return found
