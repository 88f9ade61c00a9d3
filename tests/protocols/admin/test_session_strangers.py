"""Requests in any order, with any handles and broken packets: none stops the queue manager.

Whatever a call on the engine raises beside a refusal does stop it, so this is about the whole way
from a frame to the log.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from posthouse.model.enumerations import QueueAccessType
from posthouse.wire.frames import frames, payloads
from tests.conftest import Dose
from tests.protocols.admin.session_rig import Client, SessionRig, packet

STEPS = 120
QUEUES = "orders", "ledger", "kept"
CALLERS = 3
OWN = payloads.OWN_TRANSACTION


class Stranger:
    """A client that does not know what it does."""

    def __init__(self, rig: SessionRig, chance: random.Random, name: bytes) -> None:
        self.rig = rig
        self.chance = chance
        self.client: Client = rig.client(name=name)
        self.queues = [self.client.open(rf".\private$\{each}", access) for each, access in OPENED]
        self.transactions = [0, OWN, 77]
        self.lookup_ids = [1]

    def act(self, step: int) -> None:
        self.chance.choice((self.send, self.send, self.receive, self.end, self.begin, self.decide))(
            self.chance.choice((0, step, self.chance.randrange(1, step + 1)))
        )

    def one_of(self, handles: Sequence[int]) -> int:
        return self.chance.choice([*handles, *handles[-3:], self.chance.randrange(1 << 32)])

    def send(self, request_id: int) -> None:
        batch = [self.packet() for _ in range(self.chance.choice((0, 1, 1, 3, 12)))]
        queue, transaction = self.one_of(self.queues), self.one_of(self.transactions)
        self.client.put_send(queue, batch, tx=transaction, request_id=request_id)

    def packet(self) -> bytes:
        whole = packet(
            bytes(self.chance.randrange(300)),
            to=self.chance.choice(QUEUES),
            transactional=self.chance.random() < 0.6,
            recoverable=self.chance.random() < 0.7,
            acknowledgements_requested=self.chance.choice((0, 0, 15)),
            administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\orders",
            time_to_be_received=self.chance.choice((0, 5, 0xFFFFFFFF)),
        )
        broken = bytearray(whole)
        if self.chance.random() < 0.3:
            broken[self.chance.randrange(len(whole))] = self.chance.choice((0, 1, 127, 128, 255))
        return bytes(broken[: len(whole) if self.chance.random() < 0.95 else 90])

    def receive(self, request_id: int) -> None:
        request = self.client.put_read(
            self.one_of(self.queues),
            tx=self.one_of(self.transactions) if self.chance.random() < 0.4 else 0,
            count=self.chance.choice((1, 5, 0xFFFFFFFF)),
            timeout_ms=self.chance.choice((0, 0, 50)),
            flags=self.chance.choice((0, 0, frames.READ_AT_ONCE)),
        )
        self.rig.desk.settle()
        frame = self.client.answers.get(request)
        if frame is not None and frame.kind == frames.MESSAGES:
            found = frames.decode_messages(frame.payload)
            self.lookup_ids += [message.lookup_id for message in found]

    def end(self, request_id: int) -> None:
        ids = self.chance.choices(self.lookup_ids, k=self.chance.choice((0, 1, 2, 9)))
        positive, queue = self.chance.random() < 0.7, self.one_of(self.queues)
        self.client.put_end(queue, ids, request_id=request_id, positive=positive)

    def begin(self, request_id: int) -> None:
        request = self.client.put(payloads.Begin())
        self.transactions.append(payloads.early_handle(request))

    def decide(self, request_id: int) -> None:
        transaction = self.one_of(self.transactions)
        committing = payloads.Commit(transaction, request_id)
        self.client.put(self.chance.choice((committing, payloads.Abort(transaction))))


OPENED = [(name, access) for name in QUEUES for access in (QueueAccessType.SEND,) * 2] + [
    (name, QueueAccessType.RECEIVE) for name in QUEUES
]


@pytest.mark.parametrize("seed", range(4))
def test_no_request_stops_the_queue_manager(seed: int, dose: Dose) -> None:
    for number in range(dose(12, 200)):
        chance = random.Random(f"{seed} {number}")
        rig = SessionRig()
        rig.create("kept", journaling=True)
        some = [Stranger(rig, chance, bytes([65 + at]) * 16) for at in range(CALLERS)]
        for step in range(1, STEPS):
            chance.choice(some).act(step)
            if chance.random() < 0.7:
                rig.desk.settle()
            if chance.random() < 0.05:
                rig.desk.settle()
                rig.advance(chance.choice((1, 6)))
        rig.desk.settle()
        assert not rig.driver.failed
        rig.check_books()
        for one in some:
            one.client.session.lost()
        rig.desk.settle()
        rig.check_books()
        rig.restart()
        rig.check_books()
