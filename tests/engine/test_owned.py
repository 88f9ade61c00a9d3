"""What belongs to a session, and what it costs to end one."""

from __future__ import annotations

import pytest

from posthouse.engine.ledger.owner_index import Owned
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import OperationCancelled
from tests.engine.cost import steps
from tests.engine.rig import RECEIVE, Rig


def test_values_are_found_by_their_owner_in_the_order_they_came() -> None:
    owned: Owned[int, str] = Owned()
    one, two = object(), object()
    owned.add(one, 3, "c")
    owned.add(two, 2, "b")
    owned.add(one, 1, "a")
    assert (owned.of(one), owned.of(two), owned.of(None)) == (["c", "a"], ["b"], [])


def test_owners_that_look_the_same_are_two() -> None:
    owned: Owned[int, str] = Owned()
    one, two = [1], [1]
    owned.add(one, 1, "a")
    assert owned.of(two) == []


def test_an_owner_without_anything_leaves_no_trace() -> None:
    owned: Owned[int, str] = Owned()
    one, two = object(), object()
    owned.add(one, 1, "a")
    owned.add(one, 2, "b")
    owned.discard(two, 1)
    owned.discard(one, 3)
    owned.discard(one, 1)
    assert (owned.of(one), len(owned)) == (["b"], 1)
    owned.discard(one, 2)
    assert (owned.of(one), len(owned)) == ([], 0)


# -- sessions


def connect(rig: Rig, number: int) -> tuple[object, list[object]]:
    """A session that has a queue open, waits in it and works on a transaction."""
    session: object = object()
    source = rig.open("orders", RECEIVE, association=session)
    answers: list[object] = [*rig.wait(source, tag=number, timeout_ms=60_000 + number)]
    rig.begin(f"t{number}", owner=session)
    return session, answers


def parts_of_the_end(manager: QueueManager, session: object) -> list[int]:
    """What each part of the end of a session takes."""
    error = OperationCancelled("the session has ended")
    return [
        steps(lambda: manager.messages.waiting.cancel_session(session, error)),
        steps(lambda: manager.transactions.collection.abort_of(session)),
        steps(lambda: manager.queues.opening.close_of(session)),
    ]


@pytest.mark.parametrize("others", [1, 300])
def test_the_end_of_a_session_costs_what_the_session_has(others: int) -> None:
    rig = Rig()
    rig.create("orders", transactional=True)
    session, _ = connect(rig, 0)
    for number in range(others):
        connect(rig, number + 1)
    assert parts_of_the_end(rig.manager, session) == alone()
    assert (
        len(rig.manager.transactions.collection.open) == len(rig.queue("orders").waiters) == others
    )
    assert len(rig.queue("orders").descriptors) == others


def alone() -> list[int]:
    rig = Rig()
    rig.create("orders", transactional=True)
    session, _ = connect(rig, 0)
    return parts_of_the_end(rig.manager, session)


def test_the_waits_of_a_session_end_in_the_order_they_began() -> None:
    rig = Rig()
    rig.create("orders")
    session, ended = object(), list[int]()
    one, two = (rig.open("orders", RECEIVE, association=session) for _ in range(2))
    for number, source in enumerate((two, one, two)):
        rig.decide(
            lambda m, s=source, n=number: m.messages.dequeue_message(s, token=n)  # type: ignore[misc]
        )
    effects = rig.decide(lambda m: m.end_session(session))
    ended.extend(wake.token for wake in effects.wakes)  # type: ignore[misc]
    assert ended == [0, 1, 2]


def test_a_prepared_transaction_outlives_its_session() -> None:
    rig = Rig()
    rig.create("orders", transactional=True)
    session = object()
    prepared, active = rig.begin("one", owner=session), rig.begin("two", owner=session)
    rig.run(lambda m: m.transactions.collection.prepare_for(b"coordinator", prepared.identifier))
    rig.run(lambda m: m.end_session(session))
    assert rig.manager.transactions.in_doubt() == [prepared]
    assert active.identifier not in rig.manager.transactions.collection.open


def test_a_session_that_closed_everything_is_forgotten() -> None:
    rig = Rig()
    rig.create("orders", transactional=True)
    session = object()
    descriptor = rig.open("orders", RECEIVE, association=session)
    rig.commit(rig.begin("one", owner=session))
    rig.close(descriptor)
    assert rig.manager.queues.opening.opened_by(session) == []
    assert (
        len(rig.manager.transactions.collection._owned)
        == len(rig.manager.queues.opening._owned)
        == 0
    )
