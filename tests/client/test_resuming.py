"""Whatever breaks, and whenever: sends, receives and transactions happen exactly once."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.client import operations as ops
from posthouse.client.core import SessionCore
from posthouse.client.errors import SessionLost, TransactionAborted
from posthouse.client.management import call_plain
from posthouse.client.packets import Options
from posthouse.client.requests import QueueHandle, Request, TransactionHandle
from posthouse.model.enumerations import QueueAccessType
from posthouse.model.errors import IoTimeout
from posthouse.protocols.sessions.session import Finish
from tests.client.pair import CUTS, LEDGER, ORDERS, Pair

DURABLE = Options(recoverable=True)


class Shop:
    """Does things and remembers what it was told came of them."""

    def __init__(self, cuts: dict[int, str]) -> None:
        self.pair = Pair(cuts)
        self.core = self.pair.core
        self.orders_in = QueueHandle(ORDERS, QueueAccessType.SEND)
        self.orders_out = QueueHandle(ORDERS, QueueAccessType.RECEIVE)
        self.ledger_in = QueueHandle(LEDGER, QueueAccessType.SEND)
        self.sent: list[bytes] = []
        self.received: list[bytes] = []
        self.written: list[bytes] = []
        self.refused: list[bytes] = []
        self.count = 0

    def body(self) -> bytes:
        self.count += 1
        return b"%d" % self.count

    def send(self) -> None:
        body = self.body()
        self.pair.run(ops.send(self.core, self.orders_in, body, DURABLE, None))
        self.sent.append(body)

    def send_many(self) -> None:
        bodies = [self.body() for _ in range(5)]
        ids = self.pair.run(ops.send_many(self.core, self.orders_in, bodies, DURABLE, None))
        assert len(set(ids)) == len(bodies)
        self.sent += bodies

    def receive(self) -> None:
        try:
            found = self.pair.run(ops.receive(self.core, self.orders_out, 1, 2, None))
        except IoTimeout:
            return
        self.received += [message.body for message in found]

    def receive_many(self) -> None:
        try:
            found = self.pair.run(ops.receive(self.core, self.orders_out, 3, 0, None))
        except IoTimeout:
            return
        self.received += [message.body for message in found]

    def transact(self) -> None:
        body, core = self.body(), self.core
        try:
            self.pair.run(
                ops.in_transaction(
                    core, lambda tx: ops.send(core, self.ledger_in, body, DURABLE, tx)
                )
            )
            self.written.append(body)
        except TransactionAborted:
            self.refused.append(body)

    def transact_at_once(self) -> None:
        """In one request, which is asked again: it is never given up."""
        bodies = [self.body() for _ in range(3)]
        operation = ops.send_as_transaction(self.core, self.ledger_in, bodies, DURABLE)
        assert len(set(self.pair.run(operation))) == len(bodies)
        self.written += bodies

    def check(self) -> None:
        left = self.pair.bodies(ORDERS)
        assert sorted(self.sent) == sorted(self.received + left)
        assert self.pair.bodies(LEDGER) == self.written
        assert not set(self.refused) & set(self.written)
        self.pair.rig.check_books()


STEPS = (
    Shop.send,
    Shop.send_many,
    Shop.receive,
    Shop.receive_many,
    Shop.transact,
    Shop.transact_at_once,
)
ROUND = (
    Shop.send,
    Shop.receive,
    Shop.send_many,
    Shop.receive_many,
    Shop.transact,
    Shop.transact_at_once,
)


@pytest.mark.parametrize("unanswered_max", [1, 64])
@pytest.mark.parametrize("is_put", [False, True])
@pytest.mark.parametrize("is_open", [False, True])
def test_ctrl_c_as_answers_are_taken_in_loses_and_doubles_nothing_of_other_threads(
    monkeypatch: pytest.MonkeyPatch, is_open: bool, is_put: bool, unanswered_max: int
) -> None:
    """The thread that reads hands on what others ask: Ctrl-C comes before one of these, or after.

    It gives the connection up then, and another one begins.
    """
    monkeypatch.setattr("posthouse.client.core.UNANSWERED_MAX", unanswered_max)
    put, left = SessionCore._put, 0

    def putting(core: SessionCore, request: Request) -> None:
        nonlocal left
        left -= 1
        if left or is_put:
            put(core, request)
        if not left:
            raise KeyboardInterrupt

    for place in range(1, 9):
        shop = Shop({})
        pair, core = shop.pair, shop.core
        shop.send()  # what makes packets for that queue is there
        others = [QueueHandle(ORDERS, QueueAccessType.SEND) for _ in range(2)]
        for handle in others:
            handle.maker = shop.orders_in.maker
        if not is_open:
            core.lost()
        sends = [ops.send(core, handle, b"x", DURABLE, None) for handle in [*others, *others]]
        waits = [next(send) for send in sends]
        left = place
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(SessionCore, "_put", putting)
            if is_open:
                for _ in range(6):
                    pair.exchange()
            else:
                pair.break_off()
        pair.break_off()
        for _ in range(6):
            pair.exchange()
        assert all(request is not None and request.done for request in waits), place
        assert pair.bodies(ORDERS) == [b"1", *[b"x"] * 4], place
    assert left > 0, "there were more places"


@pytest.mark.parametrize("place", range(4))
def test_ctrl_c_as_a_transaction_begins_leaves_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """An older queue manager: what other threads ask in it waits for the answer to BEGIN."""
    shop = Shop({})
    pair, core = shop.pair, shop.core
    shop.send()  # its queue is open, and what makes packets for it is there
    core.revision = 1
    transaction = core.begin_transaction()
    handles = [shop.orders_in] * 3
    sends = [ops.send(core, handle, b"x", DURABLE, transaction) for handle in handles]
    waits = [next(send) for send in sends]
    put, begun, left = SessionCore._put, SessionCore._begun, place

    def putting(core: SessionCore, request: Request) -> None:
        nonlocal left
        if request.transaction is transaction:
            left -= 1
            if not left:
                raise KeyboardInterrupt
        put(core, request)

    def beginning(core: SessionCore, handle: TransactionHandle, request: Request) -> None:
        if not place:
            raise KeyboardInterrupt
        begun(core, handle, request)

    with monkeypatch.context() as patch:
        patch.setattr(SessionCore, "_put", putting)
        patch.setattr(SessionCore, "_begun", beginning)
        with pytest.raises(KeyboardInterrupt):
            pair.exchange()
    pair.break_off()
    for wait in waits:
        assert wait is not None
        assert isinstance(wait.error, TransactionAborted)
    assert pair.bodies(ORDERS) == [b"1"]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("place", range(2, 24))
def test_one_break_at_each_place_changes_nothing(cut: str, place: int) -> None:
    shop = Shop({place: cut})
    for step in ROUND * 2:
        step(shop)
    shop.check()
    assert shop.received
    assert shop.pair.connections == (2 if shop.pair.exchanges >= place else 1)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.integers(2, 60), st.sampled_from(CUTS), max_size=12),
    st.lists(st.sampled_from(STEPS), max_size=12),
)
def test_any_breaks_change_nothing(cuts: dict[int, str], steps: list[object]) -> None:
    shop = Shop(cuts)
    for step in steps:
        assert callable(step)
        step(shop)
    shop.check()


def test_only_a_broken_transaction_is_given_up() -> None:
    """Nothing of it is there, and the next one works."""
    shop = Shop({})
    shop.transact()
    place = shop.pair.exchanges
    shop.pair.cuts = {place + 1: "after"}  # BEGIN and SEND, then COMMIT
    shop.transact()
    shop.transact()
    assert len(shop.refused) == 1
    shop.check()


class Calls(Pair):
    """A pair whose queue manager also answers calls, and keeps the bodies that came."""

    def __init__(self) -> None:
        self.bodies_seen: list[bytes] = []
        super().__init__()

    def connect(self) -> None:
        super().connect()
        self.session.api = self._api

    def _api(
        self, caller: object, role: str, method: str, path: str, body: bytes, finish: Finish
    ) -> None:
        self.bodies_seen.append(body)
        finish(201, b'{"id": 1}')


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_call_that_is_done_once_is_asked_again(repeatable: bool) -> None:
    pair = Calls()
    call = partial(call_plain, pair.core, "POST", "/operations", {"key": "a-key-of-mine"})
    pair.cuts = {pair.exchanges + 1: "after"}
    if repeatable:
        assert pair.run(call(repeatable=True)) == {"id": 1}
    else:
        with pytest.raises(SessionLost, match="before the answer came"):
            pair.run(call())
    assert pair.bodies_seen == [b'{"key":"a-key-of-mine"}'] * (1 + repeatable)
