"""Part of `posthouse demo`: orders by mail, from one queue manager to the other over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import msgspec

from posthouse.client.manager import Queue, QueueManagerClient
from posthouse.client.packets import Draft
from posthouse.model.errors import IoTimeout
from posthouse.runtime.home import real_clock

MAIL: Final = r".\private$\mail"
LETTERS: Final = 20  # one order in this many comes by mail
BATCH: Final = 50  # letters in one transaction
DELIVERY_MS: Final = 60_000
LOOK_S: Final = 0.05

Progress = Callable[[int, int], None]


class Posted(msgspec.Struct, frozen=True):
    """What came of the letters."""

    sent: int
    delivered: int  # as the sender's books have it
    received: int
    in_order: bool
    per_second: int

    @property
    def well(self) -> bool:
        """Each once and in order, and acknowledged to the sender."""
        return self.in_order and self.sent == self.delivered == self.received > 0


def post(
    alpha: QueueManagerClient, beta: QueueManagerClient, http: str, orders: int, progress: Progress
) -> Posted:
    """Sends letters in transactions, waits for the stream receipts, and looks what is there."""
    sent, began_ms = max(orders // LETTERS, 1), real_clock()[0]
    mail = beta.create_queue(MAIL, transactional=True, label="Orders by mail")
    far = alpha.queue(f"DIRECT=HTTP://{http}/msmq/{MAIL[2:].replace(chr(92), '/')}")
    for first in range(0, sent, BATCH):
        with alpha.transaction() as tx:
            numbers = range(first, min(first + BATCH, sent))
            far.send_many((Draft({"letter": n}, label=f"letter {n}") for n in numbers), tx=tx)
    delivered = _delivered(far, sent, began_ms, progress)
    per_second = delivered * 1000 // max(real_clock()[0] - began_ms, 1)
    found = _received(mail)
    return Posted(sent, delivered, len(found), found == list(range(sent)), per_second)


def _delivered(far: Queue, sent: int, began_ms: int, progress: Progress) -> int:
    """How many the other side has confirmed, when it has all or its time is over."""
    while True:
        outgoing = far.properties().outgoing
        delivered = outgoing.delivered if outgoing else 0
        progress(delivered, sent)
        if delivered >= sent or real_clock()[0] - began_ms > DELIVERY_MS:
            return delivered
        threading.Event().wait(LOOK_S)


def _received(mail: Queue) -> list[int]:
    found: list[int] = []
    try:
        while True:
            found += [message.json()["letter"] for message in mail.receive_many(BATCH, 0)]
    except IoTimeout:
        return found
