"""Outgoing queues: their states, sequences, connection history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from posthouse.engine.ledger.records import (
    CHANGE,
    MESSAGE,
    TABLE_INCOMING,
    TABLE_OUTGOING,
    Change,
    unpack_arrival,
    unpack_change,
)
from posthouse.engine.ledger.state import State as EngineState
from posthouse.engine.queues.queue import ConnectionAttempt, OutgoingQueueState
from posthouse.engine.transfer.outgoing_sequences import SEQUENCE_NUMBER_MAX
from posthouse.engine.transfer.sequence_values import SequenceInfo
from posthouse.model.errors import MessageNotFound, UnsupportedOperation
from posthouse.model.message import ACK_RECEIVE, Message, MessageId, TxSequenceId
from posthouse.model.properties import ConnectionStatus
from posthouse.wire.packet.message import deserialize, serialize
from tests.engine.letters import DEAD_LETTERS, FAR, FAR_GUID, RECEIVE_ADMIN, PostRig
from tests.engine.rig import START_UTC
from tests.engine.settings import changed

State = OutgoingQueueState
WEB = "DIRECT=HTTP://BRAVO/msmq/private$/far"


@pytest.fixture
def rig() -> Iterator[PostRig]:
    rig = PostRig()
    rig.send(FAR, b"first")
    yield rig
    rig.check_books()


def state_of(rig: PostRig, name: str = FAR) -> OutgoingQueueState:
    return rig.outgoing(name)[1].state


def report(rig: PostRig, *states: OutgoingQueueState, name: str = FAR) -> None:
    queue = rig.outgoing(name)[0]
    for state in states:
        rig.run(lambda m, s=state: m.transfer.set_state(queue, s))


def pause(rig: PostRig, name: str = FAR) -> None:
    queue = rig.outgoing(name)[0]
    rig.run(lambda m: m.transfer.pause_queue(queue))


def resume(rig: PostRig, name: str = FAR) -> None:
    queue = rig.outgoing(name)[0]
    rig.run(lambda m: m.transfer.resume_queue(queue))


# -- what is kept of an outgoing queue


@pytest.mark.spec("MS-MQDMPR 3.1.1.3/1")
def test_destination_multicast_and_messages_survive_a_restart(rig: PostRig) -> None:
    rig.open("MULTICAST=239.1.2.3:4567")
    for _ in range(2):
        queue = rig.outgoing(FAR)[0]
        assert queue.definition.format_name == FAR
        assert not queue.definition.multicast
        assert rig.peek(rig.open(FAR, RECEIVE_ADMIN)).message.body == b"first"
        group = [q for q in rig.manager.queues.outgoing_queues() if q.definition.multicast]
        assert [q.definition.format_name for q in group] == ["MULTICAST=239.1.2.3:4567"]
        rig.restart()


@pytest.mark.spec("MS-MQDMPR 3.1.1.3/9")
def test_each_port_is_another_outgoing_queue(rig: PostRig) -> None:
    names = [FAR, *(rf"DIRECT=OS:BRAVO:{port}\private$\far" for port in (1801, 2801))]
    for name in names:
        rig.send(name, name[-20:].encode())
    assert [rig.outgoing(name)[0].state.count for name in names] == [2, 1, 1]
    assert len({rig.outgoing(name)[0].number for name in names}) == 3


# -- states


def test_a_protocol_reports_states_and_whether_it_is_at_work(rig: PostRig) -> None:
    assert state_of(rig) is State.INACTIVE
    for reported, engaged in (
        (State.NEED_VALIDATION, False),
        (State.WAITING, True),
        (State.CONNECTED, True),
        (State.DISCONNECTING, True),
        (State.DISCONNECTED, False),
        (State.INACTIVE, False),
    ):
        report(rig, reported)
        assert state_of(rig) is reported
        assert rig.outgoing()[1].engaged == engaged, reported


@pytest.mark.spec("MS-MQDMPR 3.1.1/3")
def test_after_a_restart_what_waits_is_announced_again(rig: PostRig) -> None:
    rig.open("DIRECT=OS:C\\private$\\empty")
    report(rig, State.WAITING, State.CONNECTED)
    rig.active.clear()
    rig.restart()
    assert state_of(rig) is State.WAITING
    assert rig.active == {rig.outgoing()[0].number}
    assert state_of(rig, "DIRECT=OS:C\\private$\\empty") is State.INACTIVE


def test_new_messages_are_announced_to_the_protocols(rig: PostRig) -> None:
    number = rig.outgoing()[0].number
    assert number in rig.active
    rig.active.clear()
    rig.send(FAR, b"second")
    assert rig.active == {number}


@pytest.mark.spec("MS-MQDMPR 3.1.1.3/3", "MS-MQDMPR 3.1.3/18", "MS-MQDMPR 3.1.3/19")
def test_hardened_mode_locks_at_start_and_its_end_unlocks(rig: PostRig) -> None:
    rig.send(WEB, b"over http")
    rig.settings = with_hardened(rig, True)
    rig.restart()
    assert state_of(rig) is State.LOCKED
    (web,) = [q for q in rig.manager.queues.outgoing_queues() if "HTTP" in q.name]
    assert web.outgoing is not None
    assert web.outgoing.state is not State.LOCKED
    sender = rig.run(lambda m: m.transfer.begin_sending(rig.outgoing()[0].number))
    assert state_of(rig) is State.LOCKED  # whatever a protocol reports
    assert rig.run(lambda m: sender.take(9, 1 << 20)) == []
    rig.settings = with_hardened(rig, False)
    rig.restart()
    assert state_of(rig) is State.WAITING


def with_hardened(rig: PostRig, hardened: bool) -> Any:
    return changed(rig.settings, hardened=hardened)


# -- pause and resume


def test_a_paused_queue_takes_messages_and_keeps_its_state(rig: PostRig) -> None:
    queue = rig.outgoing()[0]
    rig.active.clear()
    pause(rig)
    assert rig.active == {queue.number}  # the protocols are told
    assert state_of(rig) is State.ON_HOLD
    report(rig, State.DISCONNECTING, State.DISCONNECTED)
    assert state_of(rig) is State.ON_HOLD
    rig.send(FAR, b"second")
    assert queue.state.count == 2


@pytest.mark.spec("MS-MQDMPR 3.1.7.2.3/1")
def test_a_queue_stays_paused_over_restarts(rig: PostRig) -> None:
    pause(rig)
    pause(rig)
    for _ in range(2):
        rig.restart()
        assert state_of(rig) is State.ON_HOLD
    resume(rig)
    rig.restart()
    assert state_of(rig) is State.WAITING


def test_a_resumed_queue_is_disconnected_and_announced(rig: PostRig) -> None:
    queue = rig.outgoing()[0]
    pause(rig)
    rig.active.clear()
    resume(rig)
    assert rig.active == {queue.number}
    assert state_of(rig) is State.DISCONNECTED
    report(rig, State.WAITING, State.CONNECTED)
    resume(rig)  # a queue that is not paused stays as it is
    assert state_of(rig) is State.CONNECTED


def test_hardened_mode_and_pause_do_not_undo_each_other() -> None:
    rig = PostRig(hardened=True)
    rig.send(FAR, b"first")
    pause(rig)
    assert state_of(rig) is State.LOCKED
    resume(rig)
    assert state_of(rig) is State.LOCKED
    pause(rig)
    rig.settings = with_hardened(rig, False)
    rig.restart()
    assert state_of(rig) is State.ON_HOLD
    rig.check_books()


def test_only_outgoing_queues_have_states(rig: PostRig) -> None:
    queue = rig.create("orders")
    attempt = ConnectionAttempt(0, 0, 0, ())
    for call in (
        lambda m: m.transfer.pause_queue(queue),
        lambda m: m.transfer.resume_queue(queue),
        lambda m: m.transfer.set_state(queue, State.CONNECTED),
        lambda m: m.transfer.connection_attempted(queue, attempt),
        lambda m: m.transfer.refused(queue, 1, 0x8000),
    ):
        with rig.refused(UnsupportedOperation.code):
            rig.run(call)


# -- the whole machine off and on


def test_offline_and_online_are_announced(rig: PostRig) -> None:
    number = rig.outgoing()[0].number
    for call, online in (
        (lambda m: m.transfer.take_offline(), False),
        (lambda m: m.transfer.bring_online(), True),
    ):
        rig.active.clear()
        rig.run(call)
        assert rig.manager.transfer.connection_active == online
        assert rig.active == {number}


# -- connection history


@pytest.mark.spec("MS-MQDMPR 3.1.1.3/8")
def test_connection_attempts_are_remembered_and_bounded() -> None:
    rig = PostRig(history_max=4)
    rig.send(FAR, b"x")
    queue, outgoing = rig.outgoing()
    for number, status in enumerate(ConnectionStatus):
        error = 0xC00E0069 if status.is_failure else 0
        attempt = ConnectionAttempt(status, START_UTC + number, error, ("TCP:10.0.0.1",))
        rig.run(lambda m, a=attempt: m.transfer.connection_attempted(queue, a))
        assert outgoing.connection_history[-1] == attempt
        assert outgoing.connection_history[-1].status is status
    assert len(ConnectionStatus) == 17
    times = [attempt.time - START_UTC for attempt in outgoing.connection_history]
    assert times == [13, 14, 15, 16]
    with pytest.raises(ValueError, match="ConnectionStatus"):
        ConnectionAttempt(ConnectionStatus(99), 0, 0, ())
    rig.check_books()


# -- outgoing sequences


def commit_sends(rig: PostRig, bodies: str, tag: str, to: str = FAR, **attributes: Any) -> None:
    tx = rig.begin(tag)
    for body in bodies:
        rig.send(to, body.encode(), tx=tx, **attributes)
    rig.commit(tx)


def numbers(rig: PostRig, name: str = FAR) -> list[tuple[bytes, int, int]]:
    """Body, number and previous number of the messages of a sequence, as they would be sent."""
    sender = rig.run(lambda m: m.transfer.begin_sending(rig.outgoing(name)[0].number))
    taken = rig.run(lambda m: sender.take(1000, 1 << 30))
    rig.run(lambda m: sender.end())
    found = [deserialize(out.packet) for out in taken if out.transactional]
    return [
        (m.body, m.transaction_sequence_number, m.transaction_previous_sequence_number)
        for m in found
    ]


def ids(rig: PostRig, name: str = FAR) -> set[int]:
    queue, manager = rig.outgoing(name)[0], rig.manager
    rows = [(p, manager.messages.row(number)) for p, number in queue.state.order.forward()]
    sequences = manager.transfer.outgoing.sequences
    return {sequences.sequence_at(queue, p.lookup_id) for p, row in rows if row.flags & 2}


@pytest.mark.spec("MS-MQMQ 2.2.20.5/4")
@pytest.mark.spec("MS-MQDMPR 3.1.1.4/4", "MS-MQDMPR 3.1.1.12/49")
def test_numbers_are_given_once_at_commit_in_commit_order(rig: PostRig) -> None:
    early, late = rig.begin("early"), rig.begin("late")
    rig.send(FAR, b"a", tx=early)
    rig.send(FAR, b"b", tx=late)
    rig.send(FAR, b"c", tx=early)
    rig.send(FAR, b"d", tx=late)
    assert numbers(rig) == []
    rig.commit(late)
    rig.commit(early)
    expected = [(b"b", 1, 0), (b"d", 2, 1), (b"a", 3, 2), (b"c", 4, 3)]
    assert numbers(rig) == expected
    sequence = ids(rig)
    assert {number >> 32 for number in sequence} == {rig.manager.machine.record.sequence_timestamp}
    assert len(sequence) == 1
    for _ in range(2):
        rig.restart()
        report(rig, State.WAITING, State.CONNECTED, State.DISCONNECTED)
        assert numbers(rig) == expected
        assert ids(rig) == sequence
    commit_sends(rig, "e", "more")
    assert numbers(rig)[-1] == (b"e", 5, 4)
    assert ids(rig) == sequence


@pytest.mark.spec("MS-MQDMPR 3.1.1.4/4")
def test_an_aborted_send_takes_no_number(rig: PostRig) -> None:
    tx = rig.begin("aborted")
    rig.send(FAR, b"x", tx=tx)
    rig.abort(tx)
    commit_sends(rig, "a", "committed")
    assert numbers(rig) == [(b"a", 1, 0)]


@pytest.mark.spec("MS-MQDMPR 3.1.1.4/4")
def test_a_prepared_send_gets_its_number_when_it_is_committed(rig: PostRig) -> None:
    tx = rig.begin("prepared")
    rig.send(FAR, b"p", tx=tx)
    rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    commit_sends(rig, "a", "before")
    rig.restart()
    rig.commit(tx)
    assert numbers(rig) == [(b"a", 1, 0), (b"p", 2, 1)]


@pytest.mark.spec("MS-MQDMPR 3.1.1.4/4")
def test_a_sequence_of_which_all_is_gone_is_followed_by_another(rig: PostRig) -> None:
    commit_sends(rig, "ab", "first")
    (before,) = ids(rig)
    reader = rig.open(FAR, RECEIVE_ADMIN)
    rig.run(lambda m: m.queues.purge_queue(reader))
    rig.restart()
    commit_sends(rig, "c", "second")
    assert numbers(rig) == [(b"c", 1, 0)]  # nothing has to be there before it
    (after,) = ids(rig)
    assert after > before


def test_no_two_sequences_share_an_identifier(rig: PostRig) -> None:
    """Two names may lead to the same queue: its manager must not take one for the other."""
    by_address = r"DIRECT=TCP:10.1.1.1\private$\far"
    commit_sends(rig, "a", "t1")
    commit_sends(rig, "b", "t2", to=by_address)
    assert numbers(rig) == [(b"a", 1, 0)]
    assert numbers(rig, by_address) == [(b"b", 1, 0)]
    assert ids(rig).isdisjoint(ids(rig, by_address))


def test_a_sequence_that_has_used_up_its_numbers_is_followed_by_another(rig: PostRig) -> None:
    commit_sends(rig, "a", "t1")
    info = rig.manager.transfer.info(rig.outgoing()[0])
    first, info.next_number, info.last_number = (
        info.sequence_id,
        SEQUENCE_NUMBER_MAX,
        SEQUENCE_NUMBER_MAX - 1,
    )
    commit_sends(rig, "b", "t2")
    assert (info.sequence_id, info.last_number) == (first, SEQUENCE_NUMBER_MAX)
    commit_sends(rig, "c", "t3")
    assert info.sequence_id > first
    assert SEQUENCE_NUMBER_MAX == 0xFFFFFFFF
    assert (info.next_number, info.last_number) == (2, 1)


def test_a_batch_that_does_not_fit_into_a_sequence_is_in_the_next_as_a_whole(rig: PostRig) -> None:
    commit_sends(rig, "a", "t1")
    info = rig.manager.transfer.info(rig.outgoing()[0])
    first, info.next_number, info.last_number = (
        info.sequence_id,
        SEQUENCE_NUMBER_MAX,
        SEQUENCE_NUMBER_MAX - 1,
    )
    commit_sends(rig, "bc", "t2")
    assert info.sequence_id > first
    assert (info.next_number, info.last_number) == (3, 2)


def test_a_commit_keeps_the_record_of_a_sequence_once(rig: PostRig) -> None:
    tx = rig.begin()
    for body in (b"a", b"b", b"c"):
        rig.send(FAR, body, tx=tx)
    effects = rig.decide(lambda m: m.transactions.transaction_commit(tx.identifier))
    changes = [unpack_change(record[2]) for record in effects.records if record[0] == CHANGE]
    defines = [d for change in changes for d in change.defines if d.table == TABLE_OUTGOING]
    assert len(defines) == 1
    rig.restart()
    assert rig.manager.transfer.info(rig.outgoing()[0]).next_number == 4


@pytest.mark.spec("MS-MQDMPR 3.1.1.4/1", "MS-MQDMPR 3.1.1.4/2", "MS-MQQB 3.1.3.2/5")
def test_the_transfer_record_shows_where_the_sequence_stands(rig: PostRig) -> None:
    queue, transfer = rig.outgoing()[0], rig.manager.transfer.outgoing
    empty = transfer.report(queue)
    assert (empty.first_non_ack, empty.last_non_ack, empty.last_ack) == (None, None, None)
    assert empty.next_sequence.number == 1
    assert (empty.last_ack_count, empty.last_ack_time) == (0, 0)
    commit_sends(rig, "abcd", "t1", negative_journaling_requested=True)
    (sequence,) = ids(rig)
    assert len(numbers(rig)) == 4  # they are sent
    shown = transfer.report(queue)
    assert shown.first_non_ack == SequenceInfo(sequence, 1, 0)
    assert shown.last_non_ack == SequenceInfo(sequence, 4, 3)
    assert shown.next_sequence == SequenceInfo(sequence, 5, 4)
    assert (shown.no_ack_count, shown.no_read_count) == (4, 0)
    rig.advance(7)
    for number in (2, 3, 3, 1):
        assert rig.run(lambda m, n=number: m.transfer.outgoing.order_acknowledged(sequence, n))
    for _ in range(2):
        shown = rig.manager.transfer.report(rig.outgoing()[0])
        assert shown.last_ack == SequenceInfo(sequence, 3, 2)
        assert shown.first_non_ack == shown.last_non_ack == SequenceInfo(sequence, 4, 3)
        assert (shown.no_ack_count, shown.no_read_count) == (1, 3)
        assert (shown.last_ack_count, shown.last_ack_time) == (4, START_UTC + 7)
        rig.restart()
    queue = rig.outgoing()[0]
    first = next(n for p, n in queue.state.order.forward() if not p.priority)
    row = rig.manager.messages.row(first)
    answer = ACK_RECEIVE, rig.guid, row.ordinal, sequence, 1
    assert rig.run(lambda m: m.transfer.outgoing.final_acknowledged(*answer))
    assert rig.manager.transfer.report(queue).no_read_count == 2


@pytest.mark.spec("MS-MQDMPR 3.1.1.4/1")
def test_acknowledgments_that_fit_nothing_sent_are_ignored(rig: PostRig) -> None:
    commit_sends(rig, "ab", "t1")
    queue, (sequence,) = rig.outgoing()[0], ids(rig)
    numbers(rig)
    commit_sends(rig, "c", "t2")
    assert rig.run(lambda m: m.transfer.outgoing.order_acknowledged(sequence, 2))
    before = rig.manager.transfer.report(queue)
    for identifier, number in ((sequence, 3), (sequence, 0), (sequence + 1, 2)):
        assert not rig.run(
            lambda m, i=identifier, n=number: m.transfer.outgoing.order_acknowledged(i, n)
        )
    assert rig.manager.transfer.report(queue) == before


def test_the_transfer_record_shows_the_resends(rig: PostRig) -> None:
    queue = rig.outgoing()[0]
    shown = rig.manager.transfer.report(queue)
    assert (shown.resend_count, shown.resend_interval_s, shown.resend_time) == (0, 0, 0)
    rig.run(lambda m: m.transfer.outgoing.resend_planned(queue, 3, 300, START_UTC + 300))
    shown = rig.manager.transfer.report(queue)
    assert shown.resend_count == 3
    assert shown.resend_interval_s == 300
    assert shown.resend_time == START_UTC + 300


# -- incoming sequences


def accept(rig: PostRig, source: bytes, sequence: int, number: int, name: str = "orders") -> None:
    def step(manager: Any) -> None:
        change = Change()
        queue, used = rig.queue(name), rf"OS:ALPHA\private$\{name}"
        manager.transfer.outgoing.accept(queue, source, used, sequence, number, change)
        manager.ledger.commit(change)

    rig.run(step)


def reject(rig: PostRig, source: bytes, name: str = "orders") -> None:
    def step(manager: Any) -> None:
        change = Change()
        known = manager.transfer.outgoing.incoming(
            rig.queue(name), source, "OS:ALPHA\\private$\\orders"
        )
        if known is not None:
            manager.transfer.outgoing.count_reject(rig.queue(name), known, change)
        manager.ledger.commit(change)

    rig.run(step)


@pytest.mark.spec("MS-MQDMPR 3.1.1.5/1", "MS-MQDMPR 3.1.1.2/19")
def test_there_is_one_record_for_each_sender_and_queue(rig: PostRig) -> None:
    rig.create("orders", transactional=True)
    rig.create("others", transactional=True)
    other = bytes(range(50, 66))
    for number in (1, 2):
        accept(rig, FAR_GUID, 77, number)
    accept(rig, other, 78, 5)
    accept(rig, FAR_GUID, 77, 9, "others")
    for _ in range(2):
        transfer = rig.manager.transfer.outgoing
        found = {info.source: info for info in transfer.incoming_of(rig.queue("orders"))}
        assert set(found) == {FAR_GUID, other}
        mine = found[FAR_GUID]
        assert (mine.sequence_id, mine.sequence_number) == (77, 2)
        assert mine.format_name == r"OS:ALPHA\private$\orders"
        (info,) = transfer.incoming_of(rig.queue("others"))
        assert info.sequence_number == 9
        rig.restart()


@pytest.mark.spec("MS-MQDMPR 3.1.1.5/2")
def test_the_sequence_moves_on_in_the_commit_of_the_accepted_message(rig: PostRig) -> None:
    queue = rig.create("orders", transactional=True)
    packet_of = packet(rig)

    def arrive(manager: Any) -> None:
        change = Change()
        manager.messages.sending.enqueue(queue, packet_of, flags=0x80, change=change)
        manager.transfer.outgoing.accept(
            queue, FAR_GUID, "OS:ALPHA\\private$\\orders", 77, 1, change
        )
        manager.ledger.commit(change)

    before = rig.manager.ledger.state.dump()
    records = rig.decide(arrive).records
    seen = []
    for count in range(len(records) + 1):
        state = EngineState.load(before)
        for kind, _, head, packet_bytes in records[:count]:
            if kind == MESSAGE:
                state.apply_message(unpack_arrival(head + packet_bytes))
            else:
                state.apply_change(unpack_change(head))
        seen.append((state.queue(queue.number).count, len(state.of_table(TABLE_INCOMING))))
    assert set(seen) == {(0, 0), (1, 1)}
    rig.restart()
    assert rig.manager.transfer.outgoing.incoming(rig.queue("orders"), FAR_GUID) is not None


def packet(rig: PostRig) -> bytes:
    return serialize(
        Message(
            identifier=MessageId(FAR_GUID, 1),
            source_machine_identifier=FAR_GUID,
            sent_time=rig.clock.utc_seconds,
            destination_queue_format_name=r"DIRECT=OS:ALPHA\private$\orders",
            transactional_message_sequence_identifier=TxSequenceId(0, 77),
            transaction_sequence_number=1,
        )
    )


@pytest.mark.spec("MS-MQDMPR 3.1.1.5/3", "MS-MQDMPR 3.1.1.5/4")
def test_a_rejection_counts_and_leaves_the_sequence_alone(rig: PostRig) -> None:
    queue = rig.create("orders", transactional=True)

    def shown() -> tuple[int, int, int, int]:
        info = rig.manager.transfer.outgoing.incoming(rig.queue("orders"), FAR_GUID)
        assert info is not None
        seconds = info.last_access_time - START_UTC
        return info.sequence_id, info.sequence_number, seconds, info.reject_count

    assert rig.manager.transfer.outgoing.incoming(queue, FAR_GUID) is None
    reject(rig, FAR_GUID)  # of somebody whom nothing is known of
    assert rig.manager.transfer.outgoing.incoming(queue, FAR_GUID) is None
    accept(rig, FAR_GUID, 77, 1)
    assert shown() == (77, 1, 0, 0)
    for count in (1, 2):
        rig.advance(10)
        reject(rig, FAR_GUID)
        assert shown() == (77, 1, 10 * count, count)
        rig.restart()
    rig.advance(10)
    accept(rig, FAR_GUID, 77, 2)
    assert shown() == (77, 2, 30, 2)  # so often it was rejected before
    rig.restart()
    accept(rig, FAR_GUID, 77, 3)
    assert shown() == (77, 3, 30, 0)


def test_of_a_great_many_sequences_those_are_forgotten_that_moved_longest_ago(
    rig: PostRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.engine.transfer.incoming_sequences.INCOMING_MAX", 3)
    rig.create("orders", transactional=True)
    for first in b"abcad":
        rig.advance(1)
        accept(rig, bytes([first]) * 16, 77, 1)
    for _ in range(2):
        found = rig.manager.transfer.incoming_of(rig.queue("orders"))
        assert sorted(info.source[:1] for info in found) == [b"a", b"c", b"d"]
        rig.restart()
    accept(rig, b"e" * 16, 77, 1)
    found = rig.manager.transfer.incoming_of(rig.queue("orders"))
    assert sorted(info.source[:1] for info in found) == [b"a", b"d", b"e"]


def left(rig: PostRig) -> list[int]:
    return [info.sequence_number for _, info in rig.manager.transfer.outgoing.all_incoming()]


def test_what_is_known_of_sequences_outlives_their_queue(rig: PostRig) -> None:
    for number in (1, 2):
        rig.create("orders", transactional=True)
        assert rig.manager.transfer.incoming_of(rig.queue("orders")) == []
        accept(rig, FAR_GUID, 77, number)
        rig.delete("orders")
        rig.restart()
        assert left(rig) == [number]  # that of the last one


def test_of_deleted_queues_so_many_sequences_are_known_and_no_more(
    rig: PostRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.engine.transfer.incoming_sequences.LEFT_MAX", 2)
    for at in range(4):
        rig.create("orders", transactional=True)
        accept(rig, bytes([65 + at]) * 16, 77, at)
        rig.delete("orders")
    assert left(rig) == [2, 3]
    rig.restart()
    assert left(rig) == [2, 3]
    rig.create("orders", transactional=True)
    accept(rig, FAR_GUID, 77, 9)
    assert left(rig) == [2, 3, 9]


def test_a_refused_message_is_gone_whoever_is_reading_it(rig: PostRig) -> None:
    queue = rig.outgoing()[0]
    reader = rig.open(FAR, RECEIVE_ADMIN)
    delivery = rig.driver.read(
        lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True)
    )
    assert delivery is not None
    number, lookup_id = delivery.read.number, delivery.read.lookup_id
    rig.active.clear()
    rig.run(lambda m: m.transfer.refused(queue, number, 0x8000))
    assert rig.active == {queue.number}  # the next one can go
    assert rig.manager.ledger.locks == {}
    assert queue.locked == 0
    with rig.refused(0xC00E0051):
        rig.run(lambda m: m.messages.dequeue_message_end(reader, lookup_id, positive=True))
    with rig.refused(MessageNotFound.code):
        rig.run(lambda m: m.transfer.refused(queue, number, 0x8000))


def test_dead_letters_of_a_paused_queue_still_come(rig: PostRig) -> None:
    rig.send(FAR, b"late", time_to_reach_queue=10, negative_journaling_requested=True)
    pause(rig)
    rig.advance(11)
    assert rig.bodies(DEAD_LETTERS) == [b"late"]
