"""Reads by lookup identifier: every action, on every state of a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from posthouse.engine.ledger.books import books_of
from posthouse.engine.transactions.transaction import OperationType
from posthouse.model.errors import (
    IoTimeout,
    MessageAlreadyReceived,
    MessageNotFound,
    QueueError,
    TransactionUsage,
)
from posthouse.model.message import ACK_RECEIVE
from posthouse.model.properties import MessageSeekAction
from tests.engine.readers import (
    Readers,
    body,
    readers,
)
from tests.engine.rig import RECEIVE

FIRST, PREVIOUS, CURRENT, NEXT, LAST = (
    MessageSeekAction.FIRST,
    MessageSeekAction.PREVIOUS,
    MessageSeekAction.CURRENT,
    MessageSeekAction.NEXT,
    MessageSeekAction.LAST,
)
NOT_FOUND, ALREADY_RECEIVED, TIMEOUT = 0xC00E0088, 0xC00E001D, 0xC00E001B
NOT_AVAILABLE, SEQUENCE, USAGE = 0xC00E004B, 0xC00E0051, 0xC00E0050


# -- lookup (3.1.7.1.13, 3.1.7.3.3)


def three(**properties: Any) -> tuple[Readers, Any]:
    """The messages a, b, c, of which b has another priority: queue order is b, a, c."""
    rig = readers(**properties)
    for text, priority in ((b"a", 3), (b"b", 5), (b"c", 3)):
        rig.send("q", text, priority=priority)
    return rig, rig.open("q", RECEIVE)


@pytest.mark.spec(
    "MS-MQDMPR 3.1.7.1.13/3",
    "MS-MQDMPR 3.1.7.1.13/5",
    "MS-MQDMPR 3.1.7.3.3/2",
    "MS-MQDMPR 3.1.7.3.3/3",
    "MS-MQDMPR 3.1.7.3.3/4",
)
@pytest.mark.parametrize("peek", [True, False])
@pytest.mark.parametrize(
    ("action", "at", "found"),
    [
        (FIRST, None, b"b"),
        (LAST, None, b"c"),
        (FIRST, b"c", b"b"),
        (LAST, b"b", b"c"),
        (CURRENT, b"a", b"a"),
        (CURRENT, b"b", b"b"),
        (NEXT, b"b", b"a"),
        (NEXT, b"a", b"c"),
        (PREVIOUS, b"c", b"a"),
        (PREVIOUS, b"a", b"b"),
    ],
)
def test_lookups_step_in_queue_order(
    action: MessageSeekAction, at: bytes | None, found: bytes, peek: bool
) -> None:
    rig, reader = three()
    before = rig.picture()
    lookup_id = 0 if at is None else rig.id_of(at)
    assert body(rig.lookup(reader, lookup_id, action, peek=peek)) == found
    if peek:
        assert rig.picture() == before
    else:
        assert rig.bodies("q") == [text for text in (b"b", b"a", b"c") if text != found]
        assert books_of(rig.queue("q")).received == 1


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.13/2", "MS-MQDMPR 3.1.7.3.3/3", "MS-MQDMPR 3.1.7.3.2/4")
@pytest.mark.parametrize("peek", [True, False])
@pytest.mark.parametrize(("action", "at"), [(NEXT, b"c"), (PREVIOUS, b"b")])
def test_nothing_lies_behind_the_last_or_in_front_of_the_first(
    action: MessageSeekAction, at: bytes, peek: bool
) -> None:
    rig, reader = three()
    with rig.refuses(MessageNotFound, NOT_FOUND):
        rig.lookup(reader, rig.id_of(at), action, peek=peek)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.13/2", "MS-MQDMPR 3.1.7.3.3/1", "MS-MQDMPR 3.1.7.3.3/3")
@pytest.mark.parametrize("peek", [True, False])
@pytest.mark.parametrize("action", [CURRENT, NEXT, PREVIOUS])
@pytest.mark.parametrize("lookup_id", ["gone", 0, 4711, (1 << 64) - 1])
def test_an_identifier_that_is_not_in_the_queue_finds_nothing(
    action: MessageSeekAction, lookup_id: Any, peek: bool
) -> None:
    rig, reader = three()
    if lookup_id == "gone":
        lookup_id = rig.id_of(b"a")
        rig.lookup(reader, lookup_id, CURRENT, peek=False)
    with rig.refuses(MessageNotFound, NOT_FOUND):
        rig.lookup(reader, lookup_id, action, peek=peek)


def _in_transaction(rig: Readers, reader: Any) -> None:
    rig.lookup(reader, rig.id_of(b"b"), CURRENT, peek=False, transaction=rig.begin())


def _by_reader(rig: Readers, reader: Any) -> None:
    rig.lookup(reader, rig.id_of(b"b"), CURRENT, peek=False, two_phase=True)


def _allowing_peeks(rig: Readers, reader: Any) -> None:
    rig.lookup(reader, rig.id_of(b"b"), CURRENT, peek=False, two_phase=True, allow_peek=True)


def _purged(rig: Readers, reader: Any) -> None:
    _by_reader(rig, reader)
    rig.purge()


def _peekable_but_purged(rig: Readers, reader: Any) -> None:
    _allowing_peeks(rig, reader)
    rig.purge()


Error = tuple[type[QueueError], int]
LOCKED: Error = (TransactionUsage, USAGE)
MISSING: Error = (MessageNotFound, NOT_FOUND)
RECEIVED: Error = (MessageAlreadyReceived, ALREADY_RECEIVED)


@pytest.mark.spec(
    "MS-MQDMPR 3.1.1.12/3",
    "MS-MQDMPR 3.1.7.1.13/2",
    "MS-MQDMPR 3.1.7.3.3/5",
    "MS-MQDMPR 3.1.7.3.3/6",
    "MS-MQDMPR 3.1.7.3.3/7",
)
@pytest.mark.parametrize(
    ("lock", "peeked", "received"),
    [
        (_in_transaction, LOCKED, MISSING),
        (_by_reader, LOCKED, MISSING),
        (_allowing_peeks, None, MISSING),
        (_purged, RECEIVED, MISSING),
        (_peekable_but_purged, RECEIVED, MISSING),
    ],
)
def test_the_current_message_that_is_not_available(
    lock: Callable[[Readers, Any], None], peeked: Error | None, received: Error
) -> None:
    rig = readers(b"b", transactional=True)
    reader = rig.open("q", RECEIVE)
    lookup_id = rig.ids()[0]
    lock(rig, reader)
    if peeked is None:
        assert body(rig.lookup(reader, lookup_id, CURRENT, peek=True)) == b"b"
    else:
        with rig.refuses(*peeked):
            rig.lookup(reader, lookup_id, CURRENT, peek=True)
    with rig.refuses(*received):
        rig.lookup(reader, lookup_id, CURRENT, peek=False)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/3", "MS-MQDMPR 3.1.7.3.2/3")
@pytest.mark.parametrize("allow_peek", [False, True])
def test_seeks_pass_over_locked_messages_unless_a_peek_is_allowed(allow_peek: bool) -> None:
    rig, reader = three()
    before_b, behind_b = rig.id_of(b"b"), rig.id_of(b"a")
    rig.lookup(reader, before_b, CURRENT, peek=False, two_phase=True, allow_peek=allow_peek)
    peeked = b"b" if allow_peek else b"a"
    assert body(rig.lookup(reader, 0, FIRST, peek=True)) == peeked
    assert body(rig.peek(reader)) == peeked
    cursor = rig.cursor(reader)
    assert body(rig.peek(reader, cursor=cursor)) == peeked
    assert body(rig.peek(reader, cursor=cursor)) == peeked
    if allow_peek:
        assert body(rig.lookup(reader, behind_b, PREVIOUS, peek=True)) == b"b"
    else:
        with rig.refuses(MessageNotFound, NOT_FOUND):
            rig.lookup(reader, behind_b, PREVIOUS, peek=True)
    assert body(rig.lookup(reader, before_b, NEXT, peek=True)) == b"a"
    # A destructive read never takes what somebody else has.
    assert body(rig.lookup(reader, 0, FIRST, peek=False)) == b"a"
    assert body(rig.receive(reader)) == b"c"
    with rig.refuses(IoTimeout, TIMEOUT):
        rig.receive(reader)
    with rig.refuses(MessageNotFound, NOT_FOUND):
        rig.lookup(reader, 0, FIRST, peek=False)


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.2/3")
def test_a_purge_pending_message_is_seen_by_no_seek() -> None:
    rig = readers(b"a", b"b")
    reader = rig.open("q", RECEIVE)
    rig.lookup(reader, rig.id_of(b"b"), CURRENT, peek=False, two_phase=True, allow_peek=True)
    assert body(rig.lookup(reader, 0, LAST, peek=True)) == b"b"
    rig.purge()
    rig.fill(b"new")
    assert body(rig.lookup(reader, 0, LAST, peek=True)) == b"new"
    assert body(rig.peek(reader)) == b"new"


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/3")
def test_a_peekable_lock_ends_like_any_other() -> None:
    rig = readers(b"a")
    reader = rig.open("q", RECEIVE)
    for _ in range(2):
        rig.lookup(reader, 0, FIRST, peek=False, two_phase=True, allow_peek=True)
        rig.end(reader, rig.ids()[0], positive=False)
    assert rig.manager.ledger.peekable_locks == 0
    rig.hold(reader)
    with rig.refuses(IoTimeout, TIMEOUT):
        rig.peek(reader)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.13/4")
def test_a_transaction_does_not_go_with_a_lookup_peek() -> None:
    rig = readers(b"a", transactional=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    with rig.refuses(TransactionUsage, USAGE):
        rig.lookup(reader, rig.ids()[0], CURRENT, peek=True, transaction=tx)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.13/5")
def test_a_lookup_receive_needs_a_queue_and_a_transaction_that_go_together() -> None:
    rig = readers(b"a")
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    with rig.refuses(TransactionUsage, USAGE):
        rig.lookup(reader, rig.ids()[0], CURRENT, peek=False, transaction=tx)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.13/5")
@pytest.mark.parametrize("commits", [True, False])
def test_a_lookup_receive_in_a_transaction_locks_until_its_end(commits: bool) -> None:
    rig = readers(b"a", b"b", transactional=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    rig.lookup(reader, rig.id_of(b"b"), CURRENT, peek=False, transaction=tx)
    assert [(o.kind, o.reason) for o in tx.operations] == [(OperationType.DEQUEUE, ACK_RECEIVE)]
    assert rig.available() == [b"a"]
    (rig.commit if commits else rig.abort)(tx)
    assert rig.available() == ([b"a"] if commits else [b"a", b"b"])


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.11/3", "MS-MQDMPR 3.1.7.1.13/5")
@pytest.mark.parametrize("action", [FIRST, CURRENT, LAST, NEXT, PREVIOUS])
@pytest.mark.parametrize("positive", [True, False])
def test_the_end_of_a_lookup_receive_finds_it(action: MessageSeekAction, positive: bool) -> None:
    rig, reader = three()
    before = rig.bodies("q")
    delivery = rig.lookup(reader, rig.id_of(b"a"), action, peek=False, two_phase=True)
    assert body(delivery) not in rig.available()
    rig.end(reader, delivery.read.lookup_id, positive=positive)
    if positive:
        before.remove(body(delivery))
    assert rig.available() == rig.bodies("q") == before


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.13/2")
def test_a_lookup_never_waits() -> None:
    rig = readers()
    reader = rig.open("q", RECEIVE)
    for action in MessageSeekAction:
        for peek in (True, False):
            with rig.refuses(MessageNotFound, NOT_FOUND):
                rig.lookup(reader, 7, action, peek=peek)
    assert not rig.queue("q").waiters
