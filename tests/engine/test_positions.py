"""The states of a position, and the first available one behind any locked prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from posthouse.engine.ledger.books import books_of
from posthouse.engine.ledger.order import START, QueuePosition
from posthouse.engine.transactions.transaction import OperationType
from posthouse.model.errors import (
    IoTimeout,
)
from posthouse.model.properties import MessageSeekAction
from tests.engine.readers import (
    SUBQUEUE,
    Readers,
    body,
    readers,
)
from tests.engine.rig import MOVE, PEEK, RECEIVE

FIRST, PREVIOUS, CURRENT, NEXT, LAST = (
    MessageSeekAction.FIRST,
    MessageSeekAction.PREVIOUS,
    MessageSeekAction.CURRENT,
    MessageSeekAction.NEXT,
    MessageSeekAction.LAST,
)
NOT_FOUND, ALREADY_RECEIVED, TIMEOUT = 0xC00E0088, 0xC00E001D, 0xC00E001B
NOT_AVAILABLE, SEQUENCE, USAGE = 0xC00E004B, 0xC00E0051, 0xC00E0050


# -- the states of a position (state-machines 7.2)

Steps = Callable[[Readers, dict[str, Any]], None]


def _transaction(rig: Readers, kit: dict[str, Any]) -> None:
    rig.receive(kit["reader"], transaction=kit["tx"])


def _reader(rig: Readers, kit: dict[str, Any]) -> None:
    rig.hold(kit["reader"])


def _move(rig: Readers, kit: dict[str, Any]) -> None:
    rig.move(kit["reader"], kit["id"], kit["target"], kit["tx"])


STARTS: dict[str, Steps] = {
    "available": lambda rig, kit: None,
    "transaction": _transaction,
    "reader": _reader,
    "move": _move,
}
EVENTS: dict[str, Steps] = {
    "commit": lambda rig, kit: rig.commit(kit["tx"]),
    "abort": lambda rig, kit: rig.abort(kit["tx"]),
    "ack": lambda rig, kit: rig.end(kit["reader"], kit["id"]),
    "nack": lambda rig, kit: rig.end(kit["reader"], kit["id"], positive=False),
    "close": lambda rig, kit: rig.close(kit["reader"]),
    "purge": lambda rig, kit: (rig.purge(), None)[1],
    "restart": lambda rig, kit: rig.restart(),
    "receive": lambda rig, kit: (rig.receive("q"), None)[1],
    "expire": lambda rig, kit: rig.advance(100),
}


def state_of(rig: Readers, number: int) -> str:
    """[MS-MQDMPR] 3.1.1.11 State, from what the engine keeps."""
    core = rig.manager.ledger
    row, lock = core.state.table.get(number), core.locks.get(number)
    if row is None or row.queue != rig.queue("q").number:
        assert lock is None
        return "deleted"
    if lock is None:
        return "available"
    return "purge pending" if lock.purged else "locked"


# From, events, state afterwards, and the column of the books it is in.
TRANSITIONS = [
    ("available", "", "available", "waiting"),
    ("available", "receive", "deleted", "received"),
    ("available", "purge", "deleted", "purged"),
    ("available", "expire", "deleted", "expired"),
    ("available", "restart", "available", "waiting"),
    ("transaction", "", "locked", "locked"),
    ("transaction", "commit", "deleted", "received"),
    ("transaction", "abort", "available", "waiting"),
    ("transaction", "close", "locked", "locked"),
    ("transaction", "restart", "available", "waiting"),
    ("transaction", "expire", "locked", "locked"),
    ("transaction", "expire commit", "deleted", "received"),
    ("transaction", "expire abort", "deleted", "expired"),
    ("transaction", "purge", "purge pending", "locked"),
    ("transaction", "purge purge", "purge pending", "locked"),
    ("transaction", "purge commit", "deleted", "received"),
    ("transaction", "purge abort", "deleted", "purged"),
    ("transaction", "purge restart", "deleted", "purged"),
    ("reader", "", "locked", "locked"),
    ("reader", "ack", "deleted", "received"),
    ("reader", "nack", "available", "waiting"),
    ("reader", "close", "available", "waiting"),
    ("reader", "restart", "available", "waiting"),
    ("reader", "expire ack", "deleted", "received"),
    ("reader", "expire nack", "deleted", "expired"),
    ("reader", "purge", "purge pending", "locked"),
    ("reader", "purge ack", "deleted", "received"),
    ("reader", "purge nack", "deleted", "purged"),
    ("reader", "purge close", "deleted", "purged"),
    ("reader", "purge restart", "deleted", "purged"),
    ("move", "", "locked", "locked"),
    ("move", "commit", "deleted", "moved_away"),
    ("move", "abort", "available", "waiting"),
    ("move", "restart", "available", "waiting"),
    ("move", "purge", "purge pending", "locked"),
    ("move", "purge abort", "deleted", "purged"),
    ("move", "purge restart", "deleted", "purged"),
]


@pytest.mark.spec(
    "MS-MQDMPR 3.1.1.11/1",
    "MS-MQDMPR 3.1.1.11/2",
    "MS-MQDMPR 3.1.1.11/3",
    "MS-MQDMPR 3.1.1.11/4",
    "MS-MQDMPR 3.1.1.11/5",
    "MS-MQDMPR 3.1.7.1.7/3",
)
@pytest.mark.parametrize(("start", "events", "state", "column"), TRANSITIONS)
def test_a_position_goes_its_way(start: str, events: str, state: str, column: str) -> None:
    rig = Readers(transactions_idle_s=1000)
    rig.create("q", transactional=True)
    rig.fill(b"it", time_to_be_received=100 if "expire" in events else 0xFFFFFFFF)
    number = rig.reads("q")[0].number
    kit = {
        "tx": rig.begin(),
        "reader": rig.open("q", RECEIVE),
        "target": rig.open(SUBQUEUE, MOVE),
        "id": rig.ids()[0],
    }
    STARTS[start](rig, kit)
    for event in events.split():
        EVENTS[event](rig, kit)
    assert state_of(rig, number) == state
    books = books_of(rig.queue("q"))
    assert getattr(books, column) == 1
    assert books.accepted == 1
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.1.11/2", "MS-MQDMPR 3.1.1.11/3", "MS-MQDMPR 3.1.1.11/4")
@pytest.mark.parametrize("commits", [True, False])
def test_a_sent_message_is_nobodys_until_its_commit_and_never_there_after_an_abort(
    commits: bool,
) -> None:
    rig = readers(transactional=True)
    empty = rig.manager.ledger.state.table.count
    tx, peeker = rig.begin(), rig.open("q", PEEK)
    rig.send("q", b"later", tx=tx)
    assert [operation.kind for operation in tx.operations] == [OperationType.ENQUEUE]
    with rig.refuses(IoTimeout, TIMEOUT):
        rig.peek(peeker)
    (rig.commit if commits else rig.abort)(tx)
    assert rig.available() == ([b"later"] if commits else [])
    assert rig.manager.ledger.state.table.count == empty + commits
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.1.11/6")
def test_a_restart_brings_back_available_and_prepared_messages_as_they_were() -> None:
    rig = readers(b"held", b"prepared", b"waiting", transactional=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    rig.hold(reader)
    rig.receive(reader, transaction=tx)
    rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    before = rig.reads("q")
    rig.restart()
    assert rig.reads("q") == before
    # O5: only a durably prepared transaction still has a claim; the reader is gone.
    assert rig.available() == [b"held", b"waiting"]
    rig.run(lambda m: m.transactions.transaction_abort(tx.identifier))
    assert rig.available() == [b"held", b"prepared", b"waiting"]


@pytest.mark.spec("MS-MQDMPR 3.1.1.11/7")
def test_nothing_of_a_received_message_stays_for_the_cursor_that_stood_on_it() -> None:
    rig = readers(b"a", b"b", b"c")
    source = rig.open("q", RECEIVE)
    cursor = rig.cursor(source)
    rig.peek(source, cursor=cursor)
    number = rig.read_of(b"a").number
    rig.receive(source)
    core = rig.manager.ledger
    assert core.state.table.get(number) is None
    assert number not in core.locks
    assert body(rig.peek_next(source, cursor)) == b"b"


# -- locked prefixes: the floor of a lane against a plain list


class Prefixes(RuleBasedStateMachine):
    """Random reads, ends and sends; the first available message must be the plain list's."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = readers()
        self.reader = self.rig.open("q", RECEIVE)
        self.plain: dict[int, tuple[int, str]] = {}  # lookup id: priority, state

    def expected(self, *states: str) -> int | None:
        ids = [i for i, (_, state) in self.plain.items() if state in states]
        return min(ids, key=lambda i: (-self.plain[i][0], i), default=None)

    def pick(self, data: Any, *states: str) -> int:
        ids = sorted(i for i, (_, state) in self.plain.items() if state in states)
        chosen: int = data.draw(st.sampled_from(ids))
        return chosen

    def has(self, *states: str) -> bool:
        return self.expected(*states) is not None

    @rule(priority=st.integers(0, 7), count=st.integers(1, 5))
    def send(self, priority: int, count: int) -> None:
        for _ in range(count):
            self.rig.send("q", b"", priority=priority)
        known = set(self.plain)
        for lookup_id in self.rig.ids():
            if lookup_id not in known:
                self.plain[lookup_id] = (priority, "available")

    @precondition(lambda self: self.has("available"))
    @rule()
    def hold_first(self) -> None:
        lookup_id = self.rig.hold(self.reader).read.lookup_id
        assert lookup_id == self.expected("available")
        self.plain[lookup_id] = (self.plain[lookup_id][0], "locked")

    @precondition(lambda self: self.has("available"))
    @rule(data=st.data(), allow_peek=st.booleans())
    def hold_one(self, data: Any, allow_peek: bool) -> None:
        lookup_id = self.pick(data, "available")
        self.rig.lookup(
            self.reader, lookup_id, CURRENT, peek=False, two_phase=True, allow_peek=allow_peek
        )
        state = "peekable" if allow_peek else "locked"
        self.plain[lookup_id] = (self.plain[lookup_id][0], state)

    @precondition(lambda self: self.has("available"))
    @rule(data=st.data())
    def receive_one(self, data: Any) -> None:
        lookup_id = self.pick(data, "available")
        self.rig.lookup(self.reader, lookup_id, CURRENT, peek=False)
        del self.plain[lookup_id]

    @precondition(lambda self: self.has("locked", "peekable"))
    @rule(data=st.data(), positive=st.booleans())
    def end(self, data: Any, positive: bool) -> None:
        lookup_id = self.pick(data, "locked", "peekable")
        self.rig.end(self.reader, lookup_id, positive=positive)
        if positive:
            del self.plain[lookup_id]
        else:
            self.plain[lookup_id] = (self.plain[lookup_id][0], "available")

    @rule()
    def close_and_open_again(self) -> None:
        self.rig.close(self.reader)
        self.reader = self.rig.open("q", RECEIVE)
        self.plain = {i: (priority, "available") for i, (priority, _) in self.plain.items()}

    @rule()
    def restart(self) -> None:
        self.rig.restart()
        self.reader = self.rig.open("q", RECEIVE)
        self.plain = {i: (priority, "available") for i, (priority, _) in self.plain.items()}

    @invariant()
    def the_first_is_the_plain_lists(self) -> None:
        queue, reading = self.rig.queue("q"), self.rig.manager.messages.reading
        found, seen = reading.first(queue), reading.first(queue, peek=True)
        assert (found and found[0].lookup_id) == self.expected("available")
        assert (seen and seen[0].lookup_id) == self.expected("available", "peekable")
        assert reading.seek(queue, START, peek=False) == found
        assert reading.seek(queue, START, peek=True) == seen
        for lane in queue.state.order.lanes:
            if lane is not None:
                below = [n for i, n in lane.after(0) if i < lane.floor]
                assert all(n in self.rig.manager.ledger.locks for n in below)

    @invariant()
    def the_order_is_the_plain_lists(self) -> None:
        assert self.rig.ids() == sorted(self.plain, key=lambda i: (-self.plain[i][0], i))
        self.rig.check_books()


TestPrefixes = pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/3", "MS-MQDMPR 3.1.7.3.2/3")(
    Prefixes.TestCase
)


def test_a_window_of_held_messages_is_not_looked_through_at_every_read() -> None:
    rig = readers(*(b"%d" % n for n in range(30)))
    reader = rig.open("q", RECEIVE)
    held = [rig.hold(reader).read.lookup_id for _ in range(20)]
    lane = rig.queue("q").state.order.lane(3)
    for lookup_id in held[:9]:
        rig.end(reader, lookup_id)
        held.append(rig.hold(reader).read.lookup_id)
        assert lane.floor == held[-1]
    rig.end(reader, held[15], positive=False)
    assert lane.floor == held[15]
    assert rig.hold(reader).read.lookup_id == held[15]


def test_a_cursor_does_not_look_through_a_window_of_held_messages() -> None:
    rig = readers(*(b"%d" % n for n in range(30)))
    reader = rig.open("q", RECEIVE)
    held = [rig.hold(reader).read.lookup_id for _ in range(20)]
    order = rig.queue("q").state.order
    assert len(list(order.forward(available=True))) <= 11
    behind = QueuePosition(3, rig.ids()[25])
    assert list(order.forward(behind, available=True)) == list(order.forward(behind))
    assert body(rig.peek(reader, cursor=rig.cursor(reader))) == b"20"
    rig.end(reader, held[5], positive=False)
    assert body(rig.peek(reader, cursor=rig.cursor(reader))) == b"5"


@pytest.mark.parametrize("how", ["ack", "nack", "commit", "abort", "close", "delete"])
def test_a_descriptor_knows_what_it_holds_and_forgets_it(how: str) -> None:
    rig = readers(b"a", b"b", transactional=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    number = rig.receive(reader, transaction=tx).read.number
    other = rig.hold(reader).read
    assert reader.held == {number, other.number}
    assert rig.manager.ledger.held_by(reader) == [other.number]
    if how in ("ack", "nack"):
        rig.end(reader, other.lookup_id, positive=how == "ack")
        assert reader.held == {number}
    elif how == "close":
        rig.close(reader)
        assert reader.held == {number}
    elif how == "delete":
        rig.delete()
        assert reader.held == {number}
    (rig.abort if how == "abort" else rig.commit)(tx)
    assert reader.held == ({other.number} if how in ("commit", "abort") else set())
