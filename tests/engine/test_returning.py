"""Messages that go back: one record with their receive, cut behind any record, with every right."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.ledger.records import CHANGE
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.model.errors import (
    AccessDenied,
    MessageNotAuthenticated,
    MessageNotFound,
    QueueQuotaExceeded,
    UnsupportedOperation,
)
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.protocols.handlers.message_json import copy_of
from posthouse.security.descriptors import unpack_descriptor
from posthouse.security.rights import WRITE_MESSAGE
from tests.engine.paper import Paper
from tests.engine.readers import USER, Readers, readers, user
from tests.engine.rig import RECEIVE, SEND

ERROR, ORDERS = r".\private$\error", r".\private$\orders"
ABROAD = r"DIRECT=OS:BETA\private$\orders"
DEAD, DEAD_TX = r".\system$;deadletter", r".\system$;deadxact"
REFUSALS = {
    "small": QueueQuotaExceeded.code,
    "signed": MessageNotAuthenticated.code,
    "q": UnsupportedOperation.code,
}


def send(paper: Paper, path: str, body: bytes, *, transactional: bool, **more: Any) -> None:
    message = Message(body=body, delivery_guarantee=DeliveryGuarantee.RECOVERABLE, **more)
    handle = paper.open(path, SEND)
    if not transactional:
        paper.run(lambda m: m.messages.enqueue_message_to_an_open_queue(handle, message))
        return
    transaction = paper.run(lambda m: m.transactions.create_transaction(m.machine.new_guid()))
    paper.run(lambda m: m.messages.enqueue_message_to_an_open_queue(handle, message, transaction))
    paper.run(lambda m: m.transactions.transaction_commit(transaction.identifier))


def go_back(paper: Paper, source: OpenQueueDescriptor, target: OpenQueueDescriptor) -> None:
    """The first message goes back."""
    place, number = next(iter(source.target().state.order.forward()))
    copy = copy_of(paper.packets[number])
    paper.run(lambda m: m.returning.send_back(source, place.lookup_id, target, copy))


def places(paper: Paper, *paths: str) -> list[list[bytes]]:
    return [paper.bodies(path) for path in paths]


@pytest.mark.parametrize(
    ("source_tx", "target_tx"), [(True, True), (False, False), (True, False), (False, True)]
)
@pytest.mark.parametrize("journaling", [False, True])
def test_a_crash_behind_any_record_leaves_it_in_one_of_the_queues(
    source_tx: bool, target_tx: bool, journaling: bool
) -> None:
    paper = Paper()
    paper.create(ERROR, transactional=source_tx, journaling=journaling)
    paper.create(ORDERS, transactional=target_tx)
    send(paper, ERROR, b"a", transactional=source_tx)
    start = len(paper.log)
    go_back(paper, paper.open(ERROR, RECEIVE), paper.open(ORDERS, SEND))
    assert places(paper, ERROR, ORDERS) == [[], [b"a"]]
    paper.check()
    for length in range(start, len(paper.log) + 1):
        survivor = paper.cut(length)
        survivor.check()
        whole = length == len(paper.log)
        assert places(survivor, ERROR, ORDERS) == ([[], [b"a"]] if whole else [[b"a"], []])


@pytest.mark.parametrize("transactional", [True, False])
def test_to_another_machine_it_is_in_the_outgoing_queue_or_here(transactional: bool) -> None:
    paper = Paper()
    paper.create(ERROR, transactional=transactional)
    send(paper, ERROR, b"a", transactional=transactional)
    target = paper.open(ABROAD, SEND)
    start = len(paper.log)
    go_back(paper, paper.open(ERROR, RECEIVE), target)
    for length in range(start, len(paper.log) + 1):
        survivor = paper.cut(length)
        outgoing = [queue.state.count for queue in survivor.manager.queues.outgoing_queues()]
        left = len(survivor.bodies(ERROR))
        assert left + sum(outgoing) == 1, length
        assert left == (length < len(paper.log))


@pytest.mark.parametrize("transactional", [True, False])
def test_a_dead_letter_is_a_message_again_or_still_a_dead_letter(transactional: bool) -> None:
    paper = Paper()
    paper.create(ORDERS, transactional=transactional)
    send(paper, ORDERS, b"a", transactional=transactional, negative_journaling_requested=True)
    opened = paper.open(ORDERS, RECEIVE)
    paper.run(lambda m: m.queues.purge_queue(opened))
    dead = DEAD_TX if transactional else DEAD
    start = len(paper.log)
    go_back(paper, paper.open(dead, RECEIVE), paper.open(ORDERS, SEND))
    for length in range(start, len(paper.log) + 1):
        whole = length == len(paper.log)
        assert places(paper.cut(length), dead, ORDERS) == ([[], [b"a"]] if whole else [[b"a"], []])


def test_a_message_that_stays_on_its_machine_stays_the_same() -> None:
    rig = Readers()
    rig.create("error")
    rig.create("orders")
    rig.send("error", b"a", label="x", priority=6, application_tag=7, extension=b"e")
    before = rig.peek("error")
    source, target = rig.open("error", RECEIVE), rig.open("orders")
    copy, lookup_id = copy_of(before.packet), before.read.lookup_id
    effects = rig.decide(lambda m: m.returning.send_back(source, lookup_id, target, copy))
    assert [record[0] for record in effects.records] == [CHANGE]
    after = rig.receive("orders")
    assert after.packet == before.packet
    assert (after.read.sender, after.read.number) == (before.read.sender, before.read.number)
    rig.check_books()


def test_rights_on_both_queues_are_needed() -> None:
    rig = readers(b"a")
    rig.create("orders")
    with pytest.raises(AccessDenied):
        rig.open("q", RECEIVE, user())
    rig.grant("receive")
    open_to_all = rig.queue("orders").definition.security
    closed = unpack_descriptor(open_to_all).deny(USER, WRITE_MESSAGE).pack()
    rig.run(lambda m: m.queues.set_queue_security(ORDERS, rig.admin, closed))
    with pytest.raises(AccessDenied):
        rig.open("orders", SEND, user())
    rig.run(lambda m: m.queues.set_queue_security(ORDERS, rig.admin, open_to_all))
    source, target = rig.open("q", RECEIVE, user()), rig.open("orders", SEND, user())
    lookup_id = rig.id_of(b"a")
    rig.run(lambda m: m.returning.send_back(source, lookup_id, target, Message()))
    assert rig.bodies("orders") == [b"a"]


def test_a_target_refuses_as_it_would_refuse_a_send() -> None:
    rig = readers(b"a" * 2000)
    rig.create("small", quota_kib=1)
    rig.create("signed", authentication=True)
    source = rig.open("q", RECEIVE)
    (read,) = rig.reads("q")
    for name, code in REFUSALS.items():
        target = rig.open(name)
        with rig.refused(code):
            rig.run(
                lambda m, target=target: m.returning.send_back(
                    source, read.lookup_id, target, Message()
                )
            )


def test_what_somebody_holds_does_not_go() -> None:
    rig = readers(b"a", transactional=True)
    rig.create("orders", transactional=True)
    lookup_id, tx = rig.id_of(b"a"), rig.begin()
    rig.receive("q", transaction=tx)
    source, target = rig.open("q", RECEIVE), rig.open("orders")
    with pytest.raises(MessageNotFound):
        rig.run(lambda m: m.returning.send_back(source, lookup_id, target, Message()))
    rig.abort(tx)
    rig.run(lambda m: m.returning.send_back(source, lookup_id, target, Message()))
    assert (rig.bodies("q"), rig.bodies("orders")) == ([], [b"a"])
