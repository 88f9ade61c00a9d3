"""What named client sessions did last: in the step it belongs to, and found again."""

from __future__ import annotations

import pytest

from posthouse.engine.ledger.records import CHANGE, MESSAGE, TABLE_CLIENT_SESSION, unpack_change
from posthouse.engine.ledger.state import State
from posthouse.engine.sessions.resumable import COMMITTED, ENDED, NamedSession, Result
from posthouse.model.errors import InvalidParameter, QueueNotFound
from tests.engine.rig import RECEIVE, Rig
from tests.engine.sends import packet_of

NAME = b"session name 16b"


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create("orders")
    rig.create("kept", journaling=True)
    return rig


def attach(rig: Rig, holder: object = None) -> NamedSession:
    sessions = rig.manager.sessions
    return sessions.attach(NAME, b"account", holder or object())[0]


def test_one_step_is_one_record(rig: Rig) -> None:
    for body in (b"a", b"b"):
        rig.send("kept", body)
    reader = rig.open("kept", RECEIVE)
    core = rig.manager.ledger

    def call(manager: object) -> None:
        rig.manager.ledger.define(TABLE_CLIENT_SESSION, b"before", b"1")
        with core.one_step():
            for _ in range(2):
                rig.manager.messages.dequeue_message(reader, timeout_ms=0)
            core.define(TABLE_CLIENT_SESSION, b"inside", b"2")
        core.define(TABLE_CLIENT_SESSION, b"behind", b"3")

    changes = [unpack_change(r[2]) for r in rig.decide(call).records if r[0] == CHANGE]
    keys = [[key for table, key, _ in c.defines if table == TABLE_CLIENT_SESSION] for c in changes]
    inside = keys.index([b"inside"])
    assert len(changes[inside].settles) == 2
    assert keys.index([b"before"]) < inside < keys.index([b"behind"])
    assert not core.effects.joined


def test_numbers_reserved_inside_a_step_stand_in_front_of_it(rig: Rig) -> None:
    core = rig.manager.ledger

    def call(manager: object) -> None:
        with core.one_step():
            core.define(TABLE_CLIENT_SESSION, b"inside", b"1")
            core.lookup_ids.run(1 << 20)

    first, second = (unpack_change(r[2]) for r in rig.decide(call).records)
    assert first.defines[0].key == b"lookup"
    assert second.defines[0].key == b"inside"


def test_a_refusal_inside_a_step_leaves_the_engine_as_it_was(rig: Rig) -> None:
    session, sessions = attach(rig), rig.manager.sessions

    def refuse() -> None:
        raise QueueNotFound("no")

    with pytest.raises(QueueNotFound):
        rig.run(lambda m: sessions.once(session, 1, ENDED, 1, refuse))
    assert not session.results
    assert not rig.manager.ledger.effects.joined
    assert rig.run(lambda m: sessions.once(session, 1, ENDED, 1, lambda: None)) == 1


def test_what_was_done_is_not_done_again(rig: Rig) -> None:
    session, sessions = attach(rig), rig.manager.sessions
    done: list[int] = []
    for _ in range(3):
        rig.run(lambda m: sessions.once(session, 7, COMMITTED, 4, lambda: done.append(1)))
    assert done == [1]
    with pytest.raises(InvalidParameter):
        rig.run(lambda m: sessions.once(session, 7, ENDED, 4, lambda: None))


def test_a_send_is_known_by_the_numbers_its_messages_get(rig: Rig) -> None:
    session, sessions = attach(rig), rig.manager.sessions
    target, batch = rig.open("orders"), [packet_of(body=b"%d" % n) for n in range(3)]

    def call(manager: object) -> list[int]:
        return sessions.send_once(
            session, 1, batch, lambda packets: rig.manager.messages.send_packets(target, packets)
        )

    records = rig.decide(call).records
    kinds = [record[0] for record in records]
    result = session.kept(1, 1)
    assert result is not None
    assert kinds.index(CHANGE) < kinds.index(MESSAGE)
    numbers = [record[1] for record in records if record[0] == MESSAGE]
    assert result.runs == [(numbers[0], result.ordinals[0], 3)]
    assert rig.run(call) == result.ordinals
    assert len(rig.bodies("orders")) == 3


def test_ordinals_come_back_from_their_runs() -> None:
    assert Result(1, 1, 0, 4, [(10, 5, 3), (20, 9, 1)]).ordinals == [5, 6, 7, 9]


def test_the_highest_number_survives_the_messages() -> None:
    rig = Rig()
    rig.create("orders")
    for body in (b"a", b"b"):
        rig.send("orders", body)
        rig.receive("orders")
    state = rig.manager.ledger.state
    last = state.last_number
    assert last == rig.manager.ledger.message_numbers.value - 1
    assert State.load(state.dump()).last_number == last
    other, books = State(), state.books_define()
    other.define(books.table, books.key, books.value)
    assert other.last_number == last
    assert 0 not in other.queues
    rig.restart()
    assert rig.manager.ledger.state.last_number == last
