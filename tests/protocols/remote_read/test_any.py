"""Whatever a client sends, in whatever order: answers or faults, and the books balance."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.protocols.remote_read.actions import ACTIONS
from posthouse.protocols.remote_read.stubs import METHODS, NO_TRANSACTION
from posthouse.rpc.ndr import BadStub
from tests.protocols.remote_read.rig import Reader, ServerRig
from tests.protocols.remote_read.transactions import UOW, TransactionRig

OPNUMS = st.sampled_from(sorted(METHODS))
STEPS = st.lists(st.tuples(OPNUMS, st.randoms(use_true_random=False)), max_size=25)


@settings(max_examples=200)
@given(OPNUMS, st.binary(max_size=120), st.booleans())
def test_any_bytes_are_answered_or_a_fault(opnum, stub, ndr64):
    rig = ServerRig()
    rig.create("orders")
    reader = rig.reader(ndr64=ndr64)
    with suppress(BadStub):
        call = reader.raw(opnum, stub)
        assert len(call.answers) == 1
    assert not rig.driver.failed


class Storm:
    """Calls with parameters that nearly make sense."""

    def __init__(self, rig: TransactionRig) -> None:
        self.rig = rig
        self.readers = [rig.reader(), rig.reader(ndr64=True)]
        rig.enlist(self.readers[0])
        self.handles: list[bytes] = [bytes(20), b"\1" * 20]
        self.contexts = [0, 1]
        self.cursors = [0, 1]

    def value(self, name: str, chance: Any) -> Any:
        """A value for a parameter of that name."""
        pools: dict[str, list[Any]] = {
            "handle": self.handles,
            "handle_from": self.handles,
            "cursor": self.cursors,
            "context_to": self.contexts,
            "action": [*ACTIONS, 0, 0, 0, 0x80000000, 9],
            "ack": [1, 2],
            "access": [1, 1, 1, 4, 0x20, 0, 7],
            "share_mode": [0, 0, 0, 1, 2],
            "lookup_id": [0, 0, *[read.lookup_id for read in self.rig.reads("orders")], 99],
            "transaction_id": [NO_TRANSACTION, UOW, b"x" * 16],
            "propagation_token": [b"", b"token", self.rig.token()],
            "timeout": [0, 0, 10, 0xFFFFFFFF],
            "max_body_size": [0, 3, 0xFFFFFFFF],
            "acknowledgement_class": [0, 0xC004, 2],
            "client_id": [bytes(16)],
        }
        if name == "queue_format":
            queue = chance.choice(["orders", "orders;retry", "plain", "nowhere"])
            return self.rig.format_of(queue)
        return chance.choice(pools.get(name, [0, 1, 2, 3]))

    def step(self, opnum: int, chance: Any) -> None:
        """One call, of either client; what it gives is used later."""
        reader: Reader = chance.choice(self.readers)
        fields = METHODS[opnum].request.parameters._fields
        call = reader.call(opnum, *[self.value(name, chance) for name in fields])
        assert len(call.answers) == 1 or call.on_gone is not None, "it waits"
        if call.answers and isinstance(call.answers[0], bytes):
            given = call.response._asdict()
            self.handles += [given["handle"]] if "handle" in given else []
            self.cursors += [given["cursor"]] if "cursor" in given else []
            self.contexts += [given["move_context"]] if "move_context" in given else []
        if chance.random() < 0.1:
            self.rig.pass_time(chance.choice([1, 10, 61_000, 300_000]))


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_any_calls_in_any_order_leave_the_books_balanced(steps):
    rig = TransactionRig(b"one", b"two", b"three")
    rig.create("plain")
    rig.send("plain", b"four")
    storm = Storm(rig)
    for opnum, chance in steps:
        storm.step(opnum, chance)
    for reader in storm.readers:
        reader.lose()
        assert all(len(call.answers) == 1 for call in reader.outstanding)
    assert not rig.driver.failed
    assert rig.remote.figures[1:5] == (0, 0, 0, 0)
    assert not rig.manager.ledger.locks
    assert not rig.remote.pending.timers.running
    rig.check_books()
