"""What a turn asks for: records in the order that holds, and everybody who has to be told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from posthouse.engine.ledger.effects import Effects, Read
from posthouse.engine.ledger.records import (
    ARRIVAL_SIZE,
    CHANGE,
    DROP,
    EXPRESS,
    MESSAGE,
    RECEIVED,
    Change,
    End,
    Record,
    unpack_arrival,
    unpack_change,
)
from posthouse.engine.ledger.state import State
from posthouse.engine.manager import QueueManager
from tests.engine.readers import JOURNAL, SUBQUEUE, readers
from tests.engine.rig import MOVE, RECEIVE, Rig


def ends(record: Record) -> list[int]:
    assert record[0] == CHANGE
    return [number for number, _ in unpack_change(record[2]).ends]


def ending(number: int) -> Change:
    change = Change()
    change.ends.append(End(number, RECEIVED))
    return change


def replay(state: State, records: Iterable[Record]) -> None:
    """What a store does with them when it starts."""
    for kind, _, head, packet in records:
        if kind == MESSAGE:
            state.apply_message(unpack_arrival(head + packet))
        elif kind == CHANGE:
            state.apply_change(unpack_change(head))


def test_a_turn_starts_with_nothing_to_do() -> None:
    effects = Effects()
    effects.seal()
    assert effects.records == []
    assert (effects.wakes, effects.events) == ([], [])
    assert effects.active == set()


def test_sealing_closes_the_open_record_once() -> None:
    effects = Effects()
    effects.change.ends.append(End(1, RECEIVED))
    effects.seal()
    effects.seal()
    effects.change.ends.append(End(2, RECEIVED))
    effects.seal()
    assert [ends(record) for record in effects.records] == [[1], [2]]


def test_a_commit_stands_behind_what_was_decided_before_it() -> None:
    effects = Effects()
    effects.change.ends.append(End(1, RECEIVED))
    effects.commit(ending(2))
    effects.change.ends.append(End(3, RECEIVED))
    effects.commit(Change())  # nothing of its own, but what was before it is closed
    effects.seal()
    assert [ends(record) for record in effects.records] == [[1], [2], [3]]


def test_single_receives_of_a_turn_share_one_record() -> None:
    rig = readers(b"a", b"b", b"c")
    reader, numbers = rig.open("q", RECEIVE), [read.number for read in rig.reads("q")]
    effects = rig.decide(lambda m: [m.messages.dequeue_message(reader) for _ in range(3)])
    assert [ends(record) for record in effects.records] == [numbers]


def test_a_message_stands_in_front_of_its_end() -> None:
    rig = readers()
    reader, sender = rig.open("q", RECEIVE), rig.open("q")
    rig.fill(b"packet")
    packet = rig.receive(reader).packet

    def there_and_back(m: object) -> None:
        rig.manager.messages.send_packets(sender, [packet])
        rig.manager.messages.dequeue_message(reader)

    effects = rig.decide(there_and_back)
    assert [record[0] for record in effects.records] == [MESSAGE, CHANGE]
    assert ends(effects.records[1]) == [effects.records[0][1]]


def test_express_messages_come_and_go_outside_the_changes() -> None:
    rig = readers()
    rig.send("q", b"quick", recoverable=False)
    packet, number = rig.peek("q").packet, rig.reads("q")[0].number
    reader, sender = rig.open("q", RECEIVE), rig.open("q")
    effects = rig.decide(lambda m: m.messages.dequeue_message(reader))
    assert effects.records == [(DROP, number, b"", b"")]
    effects = rig.decide(lambda m: m.messages.send_packets(sender, [packet]))
    assert [record[0] for record in effects.records] == [EXPRESS]


def test_a_commit_is_pending_messages_and_one_change() -> None:
    rig = readers(b"read", b"moved", transactional=True)
    tx, reader, target = rig.begin(), rig.open("q", RECEIVE), rig.open(SUBQUEUE, MOVE)
    rig.receive(reader, transaction=tx)
    rig.move(reader, rig.id_of(b"moved"), target, tx)
    for text in (b"1", b"2"):
        rig.send("q", text, tx=tx)
    effects = rig.decide(lambda m: m.transactions.transaction_commit(tx.identifier))
    assert [record[0] for record in effects.records] == [MESSAGE, MESSAGE, CHANGE]
    for _, _, head, packet in effects.records[:2]:
        assert unpack_arrival(head + packet).row.lookup_id == 0
    change = unpack_change(effects.records[2][2])
    assert (len(change.settles), len(change.ends)) == (1, 1)
    assert [run.length for run in change.published] == [2]  # both sends at once


def test_a_reader_served_by_a_commit_stands_behind_it_in_the_log() -> None:
    rig = readers(b"first", transactional=True, journaling=True)
    rig.receive("q")
    rig.receive(JOURNAL)
    rig.wait(rig.open("q", RECEIVE))
    rig.wait(rig.open(JOURNAL, RECEIVE))
    tx = rig.begin()
    rig.send("q", b"a", tx=tx)
    effects = rig.decide(lambda m: m.transactions.transaction_commit(tx.identifier))
    number = effects.records[0][1]
    changes = [unpack_change(record[2]) for record in effects.records[1:]]
    assert [len(change.published) for change in changes] == [1, 0, 0]  # the commit
    assert [len(change.settles) for change in changes] == [0, 1, 0]  # the journal copy
    assert changes[2].ends == [End(number, RECEIVED)]
    assert [wake.error for wake in effects.wakes] == [None, None]


def test_what_a_turn_asks_for_says_what_it_did() -> None:
    """The log replayed is the State the engine has: every kind of change, turn by turn."""
    rig = readers(b"a", b"b", b"c", b"d", b"e", transactional=True, journaling=True)
    tx, reader, target = rig.begin(), rig.open("q", RECEIVE), rig.open(SUBQUEUE, MOVE)
    rig.receive(reader, transaction=tx)  # locks are not in the log
    held = rig.hold(reader).read.lookup_id
    state = rig.manager.ledger.state
    twin = State.load(state.dump())
    calls: list[Callable[[QueueManager], object]] = [
        lambda m: m.messages.dequeue_message(reader),
        lambda m: m.messages.move_message(reader, rig.id_of(b"d"), target),
        lambda m: m.queues.purge_queue(reader),
        lambda m: m.messages.dequeue_message_end(reader, held, positive=False),
        lambda m: m.transactions.transaction_abort(tx.identifier),
        lambda m: m.queues.close_queue(target),
        lambda m: m.queues.delete_queue(r".\private$\q", rig.admin),
    ]
    for call in calls:
        before = state.dump()
        replay(twin, rig.decide(call).records)
        assert state.dump() != before or call is calls[5]
        assert dict(twin.table.items()) == dict(state.table.items())
        assert twin.definitions == state.definitions
        assert (twin.doomed, twin.extras, twin.bytes) == (state.doomed, state.extras, state.bytes)
        for number, queue in state.queues.items():
            assert twin.queue(number).books == queue.books
            assert list(twin.queue(number).order.forward()) == list(queue.order.forward())


def test_a_read_tells_what_a_reader_may_ask_for() -> None:
    rig = readers(b"a", transactional=True)
    rig.advance(3)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    rig.receive(reader, transaction=tx)
    rig.abort(tx)
    read = rig.receive(reader).read
    assert isinstance(read, Read)
    assert (read.aborts, read.moves, read.last_move) == (1, 0, 0)
    assert read.arrived == rig.clock.utc_seconds - 3
    assert read.priority == 0


class Counted(list[Record]):
    """Records that know how often they are looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        self.looks += 1
        return super().__getitem__(at)


def test_packets_of_a_turn_are_found_without_looking_at_any_record_twice() -> None:
    effects = Effects()
    effects.records = records = Counted()
    for number in range(1, 101):
        records.append(
            (EXPRESS if number % 2 else MESSAGE, number, bytes(ARRIVAL_SIZE), b"%d" % number)
        )
        effects.commit(ending(number))
        assert effects.packet(number) == b"%d" % number
        assert effects.packet(number // 2 + 1) == b"%d" % (number // 2 + 1)
    assert effects.packet(101) is None
    assert records.looks == len(records) == 200


def test_a_definition_that_changes_within_a_larger_step_is_logged_with_that_step_only() -> None:
    """A step that is logged in two halves can be torn by a loss of power."""
    rig = Rig()
    rig.create("orders")
    before = len(rig.store.log)

    def act(manager: QueueManager) -> None:
        queues, change = manager.queues.collection, Change()
        queues.change_definition(rig.queue("orders"), change, label="another")
        assert queues.core.effects.records == []
        change.ends.append(End(99, RECEIVED))
        queues.core.effects.commit(change)

    rig.run(act)
    (record,) = rig.store.log[before:]
    step = unpack_change(record[2])
    assert (len(step.defines), step.ends) == (1, [End(99, RECEIVED)])
