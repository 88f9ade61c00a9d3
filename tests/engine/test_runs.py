"""What takes many messages at once does what taking them one by one does."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from posthouse.engine.ledger.order import CHUNK, Lane, Order
from posthouse.engine.ledger.records import (
    COLUMNS,
    EXPIRED,
    FLAG_EXPRESS,
    MESSAGE,
    NEVER,
    RECEIVED,
    ROW,
    ROW_SIZE,
    Row,
    unpack_arrival,
)
from posthouse.engine.ledger.row_columns import Rows
from posthouse.engine.ledger.rows import packed_rows
from posthouse.engine.ledger.state import State
from posthouse.engine.ledger.table import PAGE_ROWS, MessageTable
from posthouse.engine.sessions.calls import receive_several
from posthouse.model.errors import QueueError, TransactionSequence
from posthouse.model.message import ACK_POS_RECEIVE, ACK_RECEIVE, DeliveryGuarantee
from posthouse.wire.packet.message import deserialize
from tests.engine.batches import batch_of
from tests.engine.rig import RECEIVE, Rig
from tests.engine.sends import packet_of, transactional_packet
from tests.support.run_rig import QUEUE, ROW_OF_MANY, contents, told

# -- lanes

GAPS = st.lists(st.integers(1, 3), min_size=1, max_size=40)
LENGTHS = st.lists(st.integers(1, CHUNK + 40), min_size=1, max_size=5)


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create("orders")
    return rig


def entries(lane: Lane) -> list[tuple[int, int]]:
    return list(lane.after(0))


@given(LENGTHS, st.lists(st.integers(1, 5), min_size=5, max_size=5))
def test_a_lane_takes_a_run_as_it_takes_its_messages(lengths: list[int], gaps: list[int]) -> None:
    runs, singles, lookup_id = Lane(), Lane(), 0
    for length, gap in zip(lengths, gaps, strict=False):
        lookup_id += gap
        runs.insert_run(lookup_id, 3 * lookup_id, length)
        for at in range(length):
            singles.insert(lookup_id + at, 3 * lookup_id + at)
        lookup_id += length - 1
    assert entries(runs) == entries(singles)
    assert runs.count == singles.count
    assert runs.share() == singles.share()


@given(
    st.integers(1, 2 * CHUNK + 9),
    st.sets(st.integers(0, 2 * CHUNK + 9), max_size=20),
    st.integers(0, 2 * CHUNK),
    st.integers(1, 2 * CHUNK),
)
def test_a_run_leaves_a_lane_as_its_messages_do(
    size: int, holes: set[int], first: int, count: int
) -> None:
    runs, singles = Lane(), Lane()
    for lane in (runs, singles):
        lane.insert_run(1, 1001, size)
        for hole in sorted(holes):
            if hole < size:
                lane.remove(hole + 1)
    there = [lookup_id for lookup_id, _ in entries(runs)][first : first + count]
    runs.remove_run(there)
    for lookup_id in there:
        singles.remove(lookup_id)
    assert entries(runs) == entries(singles)
    assert (runs.count, runs.first()) == (singles.count, singles.first())
    runs.insert(9000, 1)  # it goes on
    singles.insert(9000, 1)
    assert entries(runs) == entries(singles)


@given(st.lists(st.integers(0, 7), max_size=30), st.sets(st.integers(1, 30)), st.integers(0, 33))
def test_the_first_available_messages_are_the_first_that_are_not_locked(
    priorities: list[int], locked: set[int], count: int
) -> None:
    order = Order()
    for number, priority in enumerate(priorities, 1):
        order.lane(priority).insert(number, number)
    free = [number for _, number in order.forward() if number not in locked]
    assert order.available(dict.fromkeys(locked), count) == free[:count]


# -- the table


@given(
    st.lists(st.integers(100, 700), max_size=12)
    | st.builds(lambda a, n: [*range(a, a + n)], st.integers(100, 400), st.integers(1, 300))
)
def test_the_rows_of_several_are_those_of_each(numbers: list[int]) -> None:
    table = MessageTable()
    for number in range(100, 701):
        table.add(number, ROW.pack(*Row(*[number % 200 + 1] * len(Row._fields))))
    assert table.rows(numbers) == [table.get(number) for number in numbers]
    assert table.rows(tuple(numbers)) == table.rows(numbers)


@given(st.integers(1, 3 * PAGE_ROWS), st.integers(1, 2 * PAGE_ROWS + 5))
def test_a_table_takes_a_run_as_it_takes_its_rows(first: int, count: int) -> None:
    runs, singles = MessageTable(), MessageTable()
    rows = [ROW_OF_MANY._replace(ordinal=at + 1) for at in range(count)]
    runs.add(first, b"".join(ROW.pack(*row) for row in rows))
    for at, row in enumerate(rows):
        singles.add(first + at, ROW.pack(*row))
    assert list(runs.items()) == list(singles.items())
    assert runs.count == singles.count
    assert runs.share() == singles.share()


@given(
    st.integers(1, 3 * PAGE_ROWS),
    st.lists(st.integers(1, 3 * PAGE_ROWS), unique=True, max_size=60),
    st.integers(0, 2 * PAGE_ROWS),
    st.integers(0, 2 * PAGE_ROWS),
)
def test_a_run_leaves_a_table_as_its_rows_do(
    size: int, scattered: list[int], first: int, count: int
) -> None:
    numbers = [n for n in scattered if n <= size]
    numbers += [n for n in range(first + 1, first + count + 1) if n <= size and n not in scattered]
    runs, singles = MessageTable(), MessageTable()
    for table in (runs, singles):
        table.add(1, ROW.pack(*ROW_OF_MANY) * size)
    runs.drop_run(numbers)
    for number in numbers:
        singles.drop(number)
    assert list(runs.items()) == list(singles.items())
    assert runs.count == singles.count
    assert runs.share() == singles.share()


# -- the state

SIZES = st.lists(st.integers(1, 0xFFFFFFFF), min_size=1, max_size=40)
FIRST_IDS = st.integers(1, 1 << 20) | st.integers((1 << 32) - 20, (1 << 32) + 20)


@given(SIZES, FIRST_IDS, st.integers(1, 1000), st.booleans(), st.booleans())
def test_a_state_takes_a_run_as_it_takes_its_messages(
    sizes: list[int], lookup_id: int, number: int, express: bool, mixed: bool
) -> None:
    flags = FLAG_EXPRESS if express else 0
    row = ROW_OF_MANY._replace(lookup_id=lookup_id, flags=flags, size=0, ordinal=0)
    ordinals = [0xFFFFFFFF - at for at in range(len(sizes))]
    runs, singles = State(), State()
    priorities = [ROW_OF_MANY.priority if at % 5 or not mixed else 7 for at in range(len(sizes))]
    row = row._replace(size=sizes[0], ordinal=ordinals[0], priority=priorities[0])
    batch = batch_of(sizes, ordinals, priorities)
    packed = packed_rows(row, batch)
    runs.arrive(number, row, b"", packed, batch.size, batch.priorities)
    for at, (size, ordinal) in enumerate(zip(sizes, ordinals, strict=True)):
        row = row._replace(priority=priorities[at])
        single = row._replace(lookup_id=lookup_id + at, size=size, ordinal=ordinal)
        singles.arrive(number + at, single)
        assert packed[at * ROW_SIZE : (at + 1) * ROW_SIZE] == ROW.pack(*single)
    assert contents(runs) == contents(singles)


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.data())
def test_a_run_leaves_a_state_as_its_messages_do(express: list[bool], data: st.DataObject) -> None:
    runs, singles = State(), State()
    for state in (runs, singles):
        for at, is_express in enumerate(express):
            flags = FLAG_EXPRESS if is_express else 0
            state.arrive(50 - at, ROW_OF_MANY._replace(lookup_id=at + 1, size=at + 1, flags=flags))
    first = data.draw(st.integers(0, len(express) - 1))
    numbers = [50 - at for at in range(first, data.draw(st.integers(first + 1, len(express))))]
    rows = [row for n in numbers if (row := runs.table.get(n)) is not None]
    runs.end_run(numbers, Rows.of(rows), EXPIRED)
    for number in numbers:
        singles.end(number, EXPIRED)
    assert contents(runs) == contents(singles)
    assert len(runs.queues[QUEUE].books) == COLUMNS


# -- the engine

KINDS = st.fixed_dictionaries(
    {
        "priority": st.sampled_from([3, 3, 3, 5]),
        "delivery_guarantee": st.sampled_from(DeliveryGuarantee),
        "body": st.binary(max_size=8),
    }
)


def put(rig: Rig, kind: dict[str, Any]) -> None:
    out = rig.open("orders")
    rig.run(lambda m: m.messages.send_packets(out, [packet_of(**kind)]))


@given(st.lists(KINDS, min_size=1, max_size=12), st.booleans(), st.integers(0, 3))
def test_packets_sent_together_arrive_as_if_sent_one_by_one(
    kinds: list[dict[str, Any]], alike: bool, waiting: int
) -> None:
    if alike:
        kinds = [kinds[0] | {"body": kind["body"]} for kind in kinds]
    packets = [packet_of(**kind) for kind in kinds]
    rigs, woken = (Rig(), Rig()), ([], [])  # type: ignore[var-annotated]
    for rig, wakes in zip(rigs, woken, strict=True):
        rig.create("orders")
        reader = rig.open("orders", RECEIVE)
        for _ in range(waiting):
            rig.run(lambda m, r=reader, w=wakes: m.messages.dequeue_message(r, token=w.append))  # type: ignore[misc]
    together, single = rigs
    out = together.open("orders")
    ordinals = together.run(lambda m: m.messages.send_packets(out, packets))
    out = single.open("orders")
    ones = [single.run(lambda m, p=p: m.messages.send_packets(out, [p])) for p in packets]  # type: ignore[misc]
    assert ordinals == [ordinal for (ordinal,) in ones]
    assert told(together) == told(single)
    assert [a.packets for a in woken[0]] == [a.packets for a in woken[1]]
    for rig in rigs:
        rig.restart()
    assert told(together) == told(single)


def test_the_arrival_block_of_a_run_is_that_of_each(rig: Rig) -> None:
    out = rig.open("orders")
    effects = rig.decide(
        lambda m: m.messages.send_packets(out, [packet_of(label="one", body=b"1")] * 2)
    )
    for kind, number, head, packet in effects.records:
        if kind == MESSAGE:
            arrival = unpack_arrival(head + packet)
            assert (arrival.number, arrival.row) == (
                number,
                rig.manager.messages.find_row(number),
            )
            assert arrival.sender == rig.admin.sid
            assert packet[arrival.span.body_at :][: arrival.span.body_size] == b"1"


@given(
    st.lists(KINDS, max_size=12),
    st.integers(0, 14),
    st.booleans(),
    st.sets(st.integers(0, 11), max_size=3),
    st.booleans(),
)
def test_messages_received_together_go_as_if_received_one_by_one(
    kinds: list[dict[str, Any]], count: int, journal: bool, locked: set[int], asks: bool
) -> None:
    rigs = (Rig(), Rig())
    got: list[list[bytes]] = []
    for rig in rigs:
        rig.create("orders", journaling=journal)
        for at, kind in enumerate(kinds):
            wishes = {"acknowledgements_requested": ACK_POS_RECEIVE} if asks and at == 2 else {}
            put(rig, kind | wishes)
        other = rig.open("orders", RECEIVE)
        for at, read in enumerate(rig.reads("orders")):
            if at in locked:
                rig.lookup(other, read.lookup_id, peek=False, two_phase=True)
    reader = rigs[0].open("orders", RECEIVE)
    together = rigs[0].driver.read_many(lambda m: m.messages.dequeue_messages(reader, count))
    got.append([delivery.packet for delivery in together])
    reader = rigs[1].open("orders", RECEIVE)
    got.append([])
    for _ in range(min(count, len(together))):
        got[1].append(rigs[1].receive(reader).packet)
    assert got[0] == got[1]
    assert told(rigs[0]) == told(rigs[1])
    for rig in rigs:
        rig.check_books()
        rig.restart()
    assert told(rigs[0]) == told(rigs[1])


@given(st.lists(KINDS, min_size=1, max_size=12), st.booleans(), st.randoms(), st.integers(1, 12))
def test_reads_ended_together_end_as_if_ended_one_by_one(
    kinds: list[dict[str, Any]], journal: bool, shuffle: Any, count: int
) -> None:
    rigs = (Rig(), Rig())
    ids: list[int] = []
    for rig in rigs:
        rig.create("orders", journaling=journal)
        for kind in kinds:
            put(rig, kind)
        reader = rig.open("orders", RECEIVE)
        reads = rig.run(lambda m, r=reader: m.messages.dequeue_messages(r, 12, two_phase=True))  # type: ignore[misc]
        assert rig.queue("orders").locked == len(kinds)
        if not ids:
            ids = [read.lookup_id for read in reads][:count]
            if len(ids) % 2:
                shuffle.shuffle(ids)
        if rig is rigs[0]:
            rig.run(lambda m, r=reader, i=ids: m.messages.dequeue_messages_end(r, i))  # type: ignore[misc]
        else:
            for one in ids:
                rig.run(
                    lambda m, r=reader, i=one: m.messages.dequeue_message_end(r, i, positive=True)
                )  # type: ignore[misc]
        rig.check_books()
    assert told(rigs[0]) == told(rigs[1])
    assert rigs[0].queue("orders").locked == len(kinds) - len(ids)
    for rig in rigs:
        rig.restart()
        rig.check_books()
    assert told(rigs[0]) == told(rigs[1])


def test_reads_end_together_or_not_at_all(rig: Rig) -> None:
    rig.create("ledger", transactional=True)
    for body in (b"1", b"2", b"3"):
        rig.send("orders", body)
    reader, other = rig.open("orders", RECEIVE), rig.open("orders", RECEIVE)
    mine, his = (
        [
            r.lookup_id
            for r in rig.run(lambda m, d=d: m.messages.dequeue_messages(d, 1, two_phase=True))
        ]  # type: ignore[misc]
        for d in (reader, other)
    )
    free = [read.lookup_id for read in rig.reads("orders")]
    for wrong in (mine + his, mine + mine, mine + free, [*mine, 1 << 50]):
        with pytest.raises(TransactionSequence):
            rig.run(lambda m, w=wrong: m.messages.dequeue_messages_end(reader, w))  # type: ignore[misc]
        assert rig.queue("orders").locked == 2
    rig.run(lambda m: m.messages.dequeue_messages_end(reader, mine))
    assert rig.queue("orders").state.books[RECEIVED] == 1


def test_reads_of_a_transaction_do_not_end_by_themselves(rig: Rig) -> None:
    rig.create("ledger", transactional=True)
    tx = rig.begin("fill")
    rig.send("ledger", b"1", tx=tx)
    rig.commit(tx)
    tx, reader = rig.begin("take"), rig.open("ledger", RECEIVE)
    (read,) = rig.run(lambda m: m.messages.dequeue_messages(reader, 1, tx))
    with pytest.raises(QueueError, match="ends with the transaction"):
        rig.run(lambda m: m.messages.dequeue_messages_end(reader, [read.lookup_id]))
    assert rig.queue("ledger").locked == 1


@given(st.lists(KINDS, min_size=1, max_size=8), st.integers(2, 10), st.booleans(), st.booleans())
def test_a_reader_of_several_is_woken_with_what_came_together(
    kinds: list[dict[str, Any]], count: int, two_phase: bool, alike: bool
) -> None:
    if alike:
        kinds = [kinds[0] | {"body": kind["body"]} for kind in kinds]
    rig, woken = Rig(), list[Any]()
    rig.create("orders")
    reader = rig.open("orders", RECEIVE)
    options = {"two_phase": two_phase, "timeout_ms": 500, "token": woken.append, "tag": "t"}
    wait = partial(receive_several, count=count, transaction=None, **options)
    assert rig.run(lambda m: wait(m, reader)) is None
    out = rig.open("orders")
    packets = [packet_of(**kind) for kind in kinds]
    rig.run(lambda m: m.messages.send_packets(out, packets))
    (answer,) = woken
    got = [deserialize(packet).body for packet in answer.packets]
    there = rig.bodies("orders")  # locked ones too
    left = len(there) - (len(got) if two_phase else 0)
    assert sorted(there + ([] if two_phase else got)) == sorted(kind["body"] for kind in kinds)
    assert 1 <= len(got) <= count
    if alike:  # the others may come one by one, and the first that comes ends the wait
        assert len(got) == min(count, len(kinds))
    assert rig.queue("orders").locked == (len(got) if two_phase else 0)
    rig.check_books()
    again = rig.run(lambda m: wait(m, reader))
    assert (again is None) == (not left)


SENDS = st.lists(
    st.tuples(
        st.sampled_from(["orders", "orders", "orders", "bills"]),
        st.fixed_dictionaries(
            {
                "body": st.binary(max_size=8),
                "time_to_be_received": st.sampled_from([0xFFFFFFFF, 0xFFFFFFFF, 0, 60]),
                "positive_journaling_requested": st.sampled_from([False, False, False, True]),
            }
        ),
        st.integers(1, 6),
    ),
    max_size=6,
)


@given(
    SENDS,
    st.integers(0, 2),
    st.sampled_from(["commit", "abort", "prepare"]),
    st.sampled_from([(8 << 20, 0), (8 << 20, 8 << 20), (700, 8 << 20)]),
    st.booleans(),
)
@example([("orders", {"body": b"x"}, 3)], 0, "prepare", (8 << 20, 0), False)
@example([("orders", {"body": b"x"}, 3), ("bills", {}, 2)], 1, "commit", (8 << 20, 0), True)
@example([("orders", {}, 1), ("orders", {}, 2), ("orders", {}, 3)], 1, "commit", (8 << 20, 0), True)
def test_a_transaction_ends_as_if_its_messages_came_one_by_one(
    sends: list[tuple[str, dict[str, Any], int]],
    waiting: int,
    end: str,
    buffers: tuple[int, int],
    deleted: bool,
) -> None:
    # Beyond a buffer its messages are in the log, pending, before the end.
    together, single = (Rig(transactions_buffer=size) for size in buffers)
    woken: dict[Rig, list[Any]] = {together: [], single: []}
    for rig in (together, single):
        for name in ("orders", "bills"):
            rig.create(name, transactional=True)
        reader = rig.open("orders", RECEIVE)
        for _ in range(waiting):
            rig.run(lambda m, r=reader, w=woken[rig]: m.messages.dequeue_message(r, token=w.append))  # type: ignore[misc]
        tx = rig.begin("t1")
        for name, kind, count in sends:
            out, packets = rig.open(name), [transactional_packet(**kind) for _ in range(count)]
            for some in [packets] if rig is together else [[packet] for packet in packets]:
                rig.run(lambda m, o=out, p=some, t=tx: m.messages.send_packets(o, p, t))  # type: ignore[misc]
        if deleted:
            rig.run(lambda m, r=rig: m.queues.delete_queue(".\\private$\\bills", r.admin))  # type: ignore[misc]
        if end == "prepare":
            rig.run(
                lambda m, t=tx: m.transactions.collection.prepare(t.identifier, single_phase=False)
            )  # type: ignore[misc]
        if end == "abort":
            rig.abort(tx)
        else:
            rig.commit(tx)
        rig.check_books()
        assert all(queue.reserved == 0 for queue in rig.manager.queues.all())
    assert told(together) == told(single)
    assert [a.packets for a in woken[together]] == [a.packets for a in woken[single]]
    for rig in (together, single):
        rig.restart()
    assert told(together) == told(single)


def test_messages_of_a_transaction_are_pending_in_the_log_until_its_change() -> None:
    rig = Rig()
    queue = rig.create("orders", transactional=True)
    tx, out = rig.begin("t1"), rig.open("orders")
    packets = [transactional_packet(body=b"%d" % number) for number in range(5)]
    ordinals = rig.run(lambda m: m.messages.send_packets(out, packets, tx))
    effects = rig.decide(lambda m: m.transactions.transaction_commit(tx.identifier))
    found = [
        (unpack_arrival(head + packet), packet)
        for kind, _, head, packet in effects.records
        if kind == MESSAGE
    ]
    assert [arrival.row.ordinal for arrival, _ in found] == ordinals
    for number, (arrival, packet) in enumerate(found):
        row = arrival.row
        assert (row.lookup_id, row.queue, row.expires) == (0, queue.number, NEVER)
        assert row.size == len(packet)
        assert arrival.sender == rig.admin.sid
        assert packet[arrival.span.body_at :][: arrival.span.body_size] == b"%d" % number


def test_acknowledgments_of_a_batch_come_with_the_next_one() -> None:
    rig = Rig()
    rig.create("orders")
    name = "DIRECT=OS:ALPHA\\private$\\orders"
    for body in (b"1", b"2"):
        rig.send(
            "orders",
            body,
            priority=6,
            acknowledgements_requested=ACK_POS_RECEIVE,
            administration_queue_format_name=name,
        )
    reader = rig.open("orders", RECEIVE)
    first = rig.run(lambda m: m.messages.dequeue_messages(reader, 5))
    assert [read.message_class for read in first] == [0, 0]
    second = rig.run(lambda m: m.messages.dequeue_messages(reader, 5))
    assert [read.message_class for read in second] == [ACK_RECEIVE, ACK_RECEIVE]
    rig.check_books()


def test_who_waits_for_what_a_batch_brings_comes_after_all_of_it() -> None:
    """The journal has room for one of two: the reader there takes it when both are decided."""
    rig = Rig()
    rig.create("orders", journaling=True, journal_quota_kib=1)
    for body in (b"1" * 700, b"2" * 700):
        rig.send("orders", body)
    answers = rig.wait(rig.open("orders;journal", RECEIVE))
    reader = rig.open("orders", RECEIVE)
    assert len(rig.run(lambda m: m.messages.dequeue_messages(reader, 5))) == 2
    assert len(answers) == 1
    assert rig.bodies("orders;journal") == []
    rig.check_books()
