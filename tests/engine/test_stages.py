"""Stages: durable and unseen until their batch is published, once and as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from posthouse.engine.ledger.records import (
    FLAG_FIRST,
    FLAG_LAST,
    FLAG_TRANSACTIONAL,
    MESSAGE,
    TABLE_QUERY,
    TABLE_STAGE,
)
from posthouse.engine.manager import QueueManager
from posthouse.engine.pipelines import stages
from posthouse.engine.pipelines.stage import (
    QUERY_SIZE_MAX,
    BatchSignature,
    StageKey,
    Upload,
    check_key,
)
from posthouse.engine.pipelines.stage_refusals import (
    ASKING_MAX,
    BatchDiffers,
    BatchPast,
    StageMissing,
    TooManyAsk,
)
from posthouse.model.errors import (
    AccessDenied,
    IllegalPropertyValue,
    InsufficientResources,
    InvalidParameter,
    MessageNotAuthenticated,
    OperationCancelled,
    QueueDeleted,
    QueueError,
    QueueNotFound,
    QueueQuotaExceeded,
    UnsupportedFormatNameOperation,
)
from posthouse.model.message import ACK_POS_ARRIVAL, NACK_RECEIVE_TIMEOUT
from posthouse.runtime.driver import Answer
from posthouse.security.access import Caller
from posthouse.security.acls import Acl
from posthouse.security.descriptors import SecurityDescriptor
from posthouse.security.rights import parse_rights
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.sequence_places import place_of
from tests.engine.cost import steps
from tests.engine.paper import Paper
from tests.engine.rig import RECEIVE, SEND, START_UTC, Rig
from tests.engine.staging import (
    QUERY,
    append,
    begin,
    full,
    joined,
    key_of,
    publish,
    run_of,
    stage,
)

ABROAD = "DIRECT=OS:BETA\\private$\\far"
BODIES = [b"one", b"two", b"three"]
DAY_S = 24 * 3600


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.create("orders")
    made.create("ledger", transactional=True)
    made.create("answers")
    return made


def other_user(rig: Rig) -> Caller:
    rig.run(lambda m: m.accounts.add("eve"))
    return rig.run(lambda m: m.accounts.caller("eve"))


# -- what is seen, and when


def test_a_stage_is_seen_by_nobody_until_it_is_published(rig: Rig) -> None:
    found = stage(rig, key_of(0), ("orders", BODIES), ("ledger", BODIES))
    assert (found.messages, rig.bodies("orders"), rig.bodies("ledger")) == (6, [], [])
    assert publish(rig, 0, (0, 0)) == (6, False)
    assert rig.bodies("orders") == rig.bodies("ledger") == BODIES
    assert not rig.manager.ledger.state.pending
    rig.check_books()


def test_lookup_identifiers_follow_the_order_of_the_publish(rig: Rig) -> None:
    """Not the order in which the stages were written."""
    stage(rig, key_of(0, 1), ("orders", [b"later"]))
    stage(rig, key_of(0, 0), ("orders", [b"sooner"]))
    rig.send("orders", b"in between", recoverable=True, priority=3)
    publish(rig, 0, (0, 0), (1, 0))
    assert rig.bodies("orders") == [b"in between", b"sooner", b"later"]


def test_a_stage_survives_stops_and_is_published_behind_them(rig: Rig) -> None:
    stage(rig, key_of(0), ("orders", BODIES))
    rig.restart()
    assert rig.manager.stages.messages == 3
    assert rig.manager.stages.size == rig.manager.ledger.reserved > 0
    publish(rig, 0, (0, 0))
    rig.restart()
    assert rig.bodies("orders") == BODIES
    assert publish(rig, 0, (0, 0)).already


def test_an_unfinished_upload_is_gone_after_a_restart(rig: Rig) -> None:
    upload = begin(rig, key_of(0))
    append(rig, upload, [("orders", BODIES)])
    rig.restart()
    core = rig.manager.ledger
    assert (len(core.state.table), len(core.state.pending), core.reserved) == (0, 0, 0)


def test_an_aborted_upload_leaves_nothing(rig: Rig) -> None:
    upload = begin(rig, key_of(0))
    append(rig, upload, [("orders", BODIES)])
    rig.run(lambda m: m.stages.abort(upload))
    rig.run(lambda m: m.stages.abort(upload))
    core = rig.manager.ledger
    assert (len(core.state.table), core.reserved) == (0, 0)
    assert not rig.manager.stages.uploads
    assert not rig.queue("orders").descriptors
    with pytest.raises(OperationCancelled):
        append(rig, upload, [("orders", BODIES)])
    with pytest.raises(OperationCancelled):
        rig.run(lambda m: m.stages.finish(upload))


def test_a_stage_takes_the_place_of_one_with_its_key(rig: Rig) -> None:
    stage(rig, key_of(0), ("orders", [b"old"] * 9))
    stage(rig, key_of(0), ("orders", BODIES))
    assert publish(rig, 0, (0, 0)).messages == 3
    assert rig.bodies("orders") == BODIES
    assert len(rig.manager.ledger.state.table) == 3


# -- publishing


def test_a_batch_is_published_once(rig: Rig) -> None:
    stage(rig, key_of(5), ("orders", BODIES))
    publish(rig, 5, (0, 0))
    assert publish(rig, 5, (0, 0)) == (3, True)
    assert rig.bodies("orders") == BODIES
    assert rig.manager.stages.published_batches == 1
    assert rig.manager.stages.published_messages == 3


def test_a_second_publish_drops_what_was_staged_again(rig: Rig) -> None:
    """A stage that was begun before the publish and finished behind it."""
    upload = begin(rig, key_of(0, attempt=1))
    append(rig, upload, [("orders", BODIES)])
    stage(rig, key_of(0), ("orders", BODIES))
    publish(rig, 0, (0, 0))
    rig.run(lambda m: m.stages.finish(upload))
    assert len(rig.manager.stages.stages) == 1
    assert publish(rig, 0, (0, 1)).already
    assert not rig.manager.stages.stages
    assert rig.bodies("orders") == BODIES


def test_nothing_is_staged_of_a_batch_that_is_published(rig: Rig) -> None:
    publish(rig, 3, content="offsets")
    same = BatchSignature(content="offsets")
    assert rig.run(lambda m: m.stages.begin(key_of(3), rig.admin, same)) is None
    assert rig.run(lambda m: m.stages.begin(key_of(4), rig.admin, same)) is not None


def test_a_lower_batch_is_refused_and_nothing_of_it_is_staged(rig: Rig) -> None:
    """The checkpoint was reset (L4): its batches begin at 0 again, with other messages."""
    publish(rig, 3)
    words = "has published its batch 3, and now comes with batch 2.*posthouse stage forget 'query'"
    with pytest.raises(BatchPast, match=words):
        rig.run(lambda m: m.stages.begin(key_of(2), rig.admin))
    with pytest.raises(BatchPast, match=words):
        publish(rig, 2)
    assert not rig.manager.stages.stages


def test_a_batch_of_other_content_under_the_same_number_is_refused(rig: Rig) -> None:
    stage(rig, key_of(0), ("orders", BODIES))
    publish(rig, 0, (0, 0), content="one")
    other = BatchSignature(content="two")
    with pytest.raises(BatchDiffers, match="other offsets"):
        rig.run(lambda m: m.stages.begin(key_of(0), rig.admin, other))
    with pytest.raises(BatchDiffers, match="other offsets"):
        publish(rig, 0, (0, 0), content="two")
    assert publish(rig, 0, (0, 0), content="one") == (3, True)
    assert rig.bodies("orders") == BODIES


def test_two_writes_of_one_run_are_two(rig: Rig) -> None:
    """`foreachBatch` writes twice under one name (L1); the second is refused, not left out."""
    stage(rig, key_of(0), ("orders", BODIES))
    publish(rig, 0, (0, 0), run="run", writer="first")
    assert publish(rig, 0, (0, 0), run="run", writer="first").already
    second = BatchSignature(run="run", writer="second")
    with pytest.raises(BatchDiffers, match=r"a second write.*queryId of its own"):
        rig.run(lambda m: m.stages.begin(key_of(0, attempt=1), rig.admin, second))


def test_a_batch_of_another_stream_is_another(rig: Rig) -> None:
    """`foreachBatch` with a new checkpoint under an old name, and just as many messages."""
    stage(rig, key_of(0), ("orders", BODIES))
    publish(rig, 0, (0, 0), run="stream/run", writer="first")
    other = BatchSignature(run="other/run", writer="second")
    with pytest.raises(BatchDiffers, match=r"of another checkpoint.*another queryId"):
        rig.run(lambda m: m.stages.begin(key_of(0, attempt=1), rig.admin, other))


@pytest.mark.parametrize("stream", ["", "stream/"])
def test_a_batch_that_is_done_again_in_another_run_is_known(rig: Rig, stream: str) -> None:
    stage(rig, key_of(0), ("orders", BODIES))
    publish(rig, 0, (0, 0), run=f"{stream}run", writer="first")
    stage(rig, key_of(0, attempt=1), ("orders", BODIES))
    assert publish(rig, 0, (0, 1), run=f"{stream}later", writer="second").already
    assert rig.bodies("orders") == BODIES
    assert not rig.manager.stages.stages


def test_a_batch_done_again_with_more_messages_is_another(rig: Rig) -> None:
    stage(rig, key_of(0), ("orders", BODIES))
    publish(rig, 0, (0, 0))
    stage(rig, key_of(0, attempt=1), ("orders", [*BODIES, b"more"]))
    with pytest.raises(BatchDiffers, match="has 4 messages, and the published one has 3"):
        publish(rig, 0, (0, 1))


def test_what_a_batch_is_known_by_survives_a_crash(rig: Rig) -> None:
    publish(rig, 0, content="one", run="run", writer="writer")
    rig.restart()
    with pytest.raises(BatchDiffers):
        publish(rig, 0, content="two")
    assert publish(rig, 0, content="one").already


def test_a_query_that_version_1_kept_is_read(rig: Rig) -> None:
    """Its last batch is known by its number, and by how many messages it has."""
    old = msgspec.msgpack.encode([7, rig.admin.sid, START_UTC, 3])
    rig.manager.ledger.define(TABLE_QUERY, QUERY.encode(), old)
    rig.turn()
    rig.restart()
    assert publish(rig, 7, content="one") == (3, True)
    with pytest.raises(BatchPast):
        publish(rig, 6)


def test_of_several_attempts_the_named_one_counts_and_the_others_are_dropped(rig: Rig) -> None:
    for attempt in range(3):
        stage(rig, key_of(0, 0, attempt), ("orders", [b"attempt %d" % attempt]))
    stage(rig, key_of(1), ("orders", [b"next batch"]))
    publish(rig, 0, (0, 1))
    assert rig.bodies("orders") == [b"attempt 1"]
    assert list(rig.manager.stages.stages) == [key_of(1)]


def test_a_missing_stage_refuses_the_whole_batch(rig: Rig) -> None:
    stage(rig, key_of(0), ("orders", BODIES))
    with pytest.raises(StageMissing, match="partition 1, attempt 0"):
        publish(rig, 0, (0, 0), (1, 0))
    assert rig.bodies("orders") == []
    assert publish(rig, 0, (0, 0)) == (3, False)


def test_a_partition_counts_once(rig: Rig) -> None:
    for attempt in range(2):
        stage(rig, key_of(0, 0, attempt), ("orders", BODIES))
    with pytest.raises(InvalidParameter, match="named twice"):
        publish(rig, 0, (0, 0), (0, 1))
    assert rig.bodies("orders") == []


def test_an_empty_batch_is_a_batch(rig: Rig) -> None:
    assert publish(rig, 7) == (0, False)
    assert publish(rig, 7) == (0, True)
    rig.restart()
    known, waiting = rig.run(lambda m: m.stages.progress(QUERY, rig.admin))
    assert (known.batch, known.messages, waiting) == (7, 0, 0)


def test_queries_do_not_know_each_other(rig: Rig) -> None:
    stage(rig, key_of(0, query="a"), ("orders", [b"a"]))
    stage(rig, key_of(0, query="b"), ("orders", [b"b"]))
    publish(rig, 0, (0, 0), query="b")
    assert (rig.bodies("orders"), len(rig.manager.stages.stages)) == ([b"b"], 1)


def test_waiting_readers_are_served_from_a_batch(rig: Rig) -> None:
    source, answers = rig.open("orders", RECEIVE), list[Answer]()
    for _ in range(2):
        rig.run(
            lambda m: m.messages.dequeue_message(source, timeout_ms=60_000, token=answers.append)
        )
    stage(rig, key_of(0), ("orders", BODIES))
    publish(rig, 0, (0, 0))
    assert [deserialize(answer.packets[0]).body for answer in answers] == BODIES[:2]
    assert rig.bodies("orders") == BODIES[2:]


def test_a_publish_costs_as_much_for_many_messages_as_for_few(rig: Rig) -> None:
    """All of them are one run: what grows is work of arrays."""
    costs = []
    for batch, count in enumerate((300, 3000)):
        stage(rig, key_of(batch), ("orders", [b"x"] * count))
        costs.append(steps(lambda batch=batch: publish(rig, batch, (0, 0))))  # type: ignore[misc]
        assert len(rig.store.log[-1][2]) < 400
    assert costs[1] < 2 * costs[0]


# -- transactional queues, and other machines


def marks(rig: Rig, queue: str) -> list[int]:
    table = rig.manager.ledger.state.table
    numbers = [number for _, number in rig.queue(queue).state.order.forward()]
    return [row.flags & (FLAG_FIRST | FLAG_LAST) for row in table.rows(numbers)]


def test_a_batch_is_one_transaction_to_whoever_receives_it(rig: Rig) -> None:
    """The first and the last message to each queue are marked, over all partitions."""
    for partition in range(3):
        stage(rig, key_of(0, partition), ("ledger", BODIES), ("orders", BODIES))
    publish(rig, 0, (0, 0), (1, 0), (2, 0))
    assert marks(rig, "ledger") == [FLAG_FIRST, *[0] * 7, FLAG_LAST]
    assert marks(rig, "orders") == [0] * 9
    stage(rig, key_of(1), ("ledger", [b"alone"]))
    publish(rig, 1, (0, 0))
    assert marks(rig, "ledger")[-1] == FLAG_FIRST | FLAG_LAST


def test_messages_to_other_machines_get_their_places_when_they_are_published(rig: Rig) -> None:
    stage(rig, key_of(0, 0), (ABROAD, BODIES), transactional=True)
    stage(rig, key_of(0, 1), (ABROAD, BODIES), transactional=True)
    (queue,) = rig.manager.queues.outgoing_queues()
    assert (queue.state.count, rig.active) == (0, set())
    publish(rig, 0, (1, 0), (0, 0))
    table = rig.manager.ledger.state.table
    rows = table.rows([number for _, number in queue.state.order.forward()])
    assert [row.last_move for row in rows] == [1, 2, 3, 4, 5, 6]
    assert all(row.flags & FLAG_TRANSACTIONAL for row in rows)
    assert rig.active == {queue.number}
    sender = rig.run(lambda m: m.transfer.begin_sending(queue.number))
    assert sender is not None
    taken = rig.run(lambda m: sender.take(100, 1 << 20))
    assert [place_of(out.packet)[1] for out in taken] == [1, 2, 3, 4, 5, 6]
    assert [deserialize(out.packet).first_in_transaction for out in taken] == [True, *[False] * 5]
    assert [deserialize(out.packet).last_in_transaction for out in taken] == [*[False] * 5, True]


def test_an_outgoing_queue_stays_while_a_stage_has_messages_for_it() -> None:
    rig = Rig(outgoing_queues_max=1)
    stage(rig, key_of(0), (ABROAD, BODIES))
    rig.restart()
    with pytest.raises(InsufficientResources):
        rig.open("DIRECT=OS:GAMMA\\private$\\far", SEND)
    publish(rig, 0, (0, 0))
    (queue,) = rig.manager.queues.outgoing_queues()
    assert queue.state.count == 3


# -- asking messages, and those whose time is over


def test_what_follows_from_an_arrival_follows_from_the_publish(rig: Rig) -> None:
    stage(
        rig,
        key_of(0),
        ("orders", BODIES),
        acknowledgements_requested=ACK_POS_ARRIVAL,
        administration_queue_format_name="DIRECT=OS:ALPHA\\private$\\answers",
        positive_journaling_requested=True,
    )
    assert rig.bodies("answers") == []
    publish(rig, 0, (0, 0))
    assert rig.bodies("orders") == BODIES
    assert len(rig.bodies("answers")) == 3
    assert rig.bodies(".\\system$;journal") == BODIES
    rig.restart()
    assert len(rig.bodies("answers")) == 3
    rig.check_books()


def append_mixed(rig: Rig, upload: Upload, name: str, bodies: list[bytes], asks: int) -> None:
    """Of each `asks` messages one asks for a copy in the journal, the others do not."""

    def call(manager: QueueManager) -> None:
        target = manager.stages.target(upload, full(name))
        runs = [
            run_of(manager, upload, target, [body], positive_journaling_requested=not at % asks)
            for at, body in enumerate(bodies)
        ]
        manager.stages.append(upload, [joined(runs)])

    rig.run(call)


@pytest.mark.parametrize("name", ["orders", "ledger"])
def test_asking_messages_keep_their_place_among_others(rig: Rig, name: str) -> None:
    bodies = [b"%03d" % n for n in range(20)]
    upload = begin(rig, key_of(0))
    append_mixed(rig, upload, name, bodies, asks=3)
    rig.run(lambda m: m.stages.finish(upload))
    assert publish(rig, 0, (0, 0)).messages == 20
    for _ in range(2):
        assert rig.bodies(name) == bodies
        assert rig.bodies(".\\system$;journal") == bodies[::3]
        rig.check_books()
        rig.restart()


def test_only_messages_that_ask_count_as_asking(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "ASKING_MAX", 5)
    upload = begin(rig, key_of(0))
    append_mixed(rig, upload, "orders", [b"x"] * 10, asks=2)
    with pytest.raises(TooManyAsk, match="at most 5"):
        append_mixed(rig, upload, "orders", [b"y"] * 3, asks=3)
    rig.run(lambda m: m.stages.finish(upload))
    assert publish(rig, 0, (0, 0)).messages == 10


def test_a_transaction_begins_with_its_first_message_behind_others_too(rig: Rig) -> None:
    """Messages to other machines may be transactional or not, in one batch."""
    upload = begin(rig, key_of(0))
    append(rig, upload, [(ABROAD, BODIES)], transactional=False)
    append(rig, upload, [(ABROAD, BODIES)], transactional=True)
    append(rig, upload, [(ABROAD, BODIES)], transactional=False)
    rig.run(lambda m: m.stages.finish(upload))
    publish(rig, 0, (0, 0))
    (queue,) = rig.manager.queues.outgoing_queues()
    rows = rig.manager.ledger.state.table.rows([n for _, n in queue.state.order.forward()])
    flags = [row.flags & (FLAG_FIRST | FLAG_LAST) for row in rows if row.last_move]
    assert flags == [FLAG_FIRST, 0, FLAG_LAST]


def test_time_to_be_received_counts_from_the_staging(rig: Rig) -> None:
    stage(
        rig,
        key_of(0),
        ("orders", BODIES),
        time_to_be_received=60,
        negative_journaling_requested=True,
    )
    stage(rig, key_of(1), ("orders", [b"in time"]), time_to_be_received=600)
    rig.advance(100)
    publish(rig, 0, (0, 0))
    publish(rig, 1, (0, 0))
    assert rig.bodies("orders") == [b"in time"]
    assert rig.bodies(".\\system$;deadletter") == BODIES
    reads = rig.reads(".\\system$;deadletter")
    assert {read.message_class for read in reads} == {NACK_RECEIVE_TIMEOUT}
    rig.advance(600)
    assert rig.bodies("orders") == []
    rig.check_books()


def test_messages_whose_time_is_over_are_published_in_one_run(rig: Rig) -> None:
    """A turn ends as many of them as it can bear, so a publish costs what it always does."""
    costs = []
    for batch, count in enumerate((300, 3000)):
        stage(rig, key_of(batch), ("orders", [b"x"] * count), time_to_be_received=60)
        rig.advance(100)
        costs.append(steps(lambda batch=batch: publish(rig, batch, (0, 0))))  # type: ignore[misc]
        for _ in range(2):  # a turn ends 2,000 of them
            rig.run(lambda manager: None)
        assert rig.bodies("orders") == []
        rig.check_books()
    assert costs[1] < 2 * costs[0]


def test_messages_whose_time_is_over_end_in_bounded_steps() -> None:
    rig = Rig(step_messages=100)
    rig.create("orders")
    stage(rig, key_of(0), ("orders", [b"x"] * 250), time_to_be_received=60)
    rig.advance(100)
    publish(rig, 0, (0, 0))
    left = [rig.queue("orders").state.count]
    while left[-1]:
        rig.run(lambda manager: None)
        left.append(rig.queue("orders").state.count)
    assert left == [250, 150, 50, 0]
    rig.check_books()


def test_waiting_readers_get_what_is_in_time(rig: Rig) -> None:
    stage(rig, key_of(0, 0), ("orders", BODIES), time_to_be_received=60)
    stage(rig, key_of(0, 1), ("orders", [b"in time"]), time_to_be_received=600)
    rig.advance(100)
    source, answers = rig.open("orders", RECEIVE), list[Answer]()
    rig.run(lambda m: m.messages.dequeue_message(source, timeout_ms=60_000, token=answers.append))
    publish(rig, 0, (0, 0), (1, 0))
    assert [deserialize(answer.packets[0]).body for answer in answers] == [b"in time"]
    rig.run(lambda manager: None)
    assert rig.bodies("orders") == []
    rig.check_books()


def test_asking_messages_of_one_batch_are_bounded(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "ASKING_MAX", 4)
    assert ASKING_MAX <= 2_000
    for partition in range(2):
        stage(rig, key_of(0, partition), ("orders", BODIES), positive_journaling_requested=True)
    with pytest.raises(TooManyAsk, match="at most 4") as refused:
        publish(rig, 0, (0, 0), (1, 0))
    assert "maxMessagesPerTrigger" in refused.value.remedy
    assert "columns journal and acknowledge" in refused.value.remedy
    upload = begin(rig, key_of(0, 2))
    with pytest.raises(TooManyAsk, match="at most 4"):
        append(rig, upload, [("orders", BODIES * 2)], positive_journaling_requested=True)
    assert publish(rig, 0, (0, 0)).messages == 3


# -- expiry, discarding


def test_a_stage_that_is_not_published_expires(rig: Rig) -> None:
    stage(rig, key_of(0), ("orders", BODIES))
    rig.advance(DAY_S - 60)
    stage(rig, key_of(1), ("orders", BODIES))
    assert rig.manager.next_deadline_ms() == rig.clock.now_ms + 60_000
    rig.advance(60)
    assert list(rig.manager.stages.stages) == [key_of(1)]
    assert [event.name for event in rig.events].count("stage_expired") == 1
    with pytest.raises(StageMissing, match="expired"):
        publish(rig, 0, (0, 0))
    rig.advance(DAY_S)
    assert not rig.manager.stages.stages
    assert rig.manager.ledger.reserved == 0


def test_a_stage_expires_over_a_restart(rig: Rig) -> None:
    stage(rig, key_of(0), ("orders", BODIES))
    rig.clock.advance(1000 * (DAY_S + 1))
    rig.restart()
    rig.turn()
    assert not rig.manager.stages.stages
    assert not rig.manager.ledger.state.pending


def test_a_query_is_forgotten_long_after_its_last_batch(rig: Rig) -> None:
    publish(rig, 0, query="old")
    rig.advance(rig.settings.limits.query_expiry_s - 10)
    publish(rig, 0, query="young")
    rig.advance(DAY_S)
    assert list(rig.manager.stages.queries) == ["young"]
    assert rig.store.crash().recover().state.definitions == rig.manager.ledger.state.definitions


def test_a_query_with_stages_is_forgotten_when_they_are_gone(rig: Rig) -> None:
    publish(rig, 0)
    rig.advance(rig.settings.limits.query_expiry_s - 10)
    stage(rig, key_of(1), ("orders", BODIES))
    rig.advance(DAY_S - 20)
    assert list(rig.manager.stages.queries) == [QUERY]
    rig.advance(DAY_S)
    assert not rig.manager.stages.queries


def test_a_discarded_batch_is_gone(rig: Rig) -> None:
    for batch in range(2):
        stage(rig, key_of(batch), ("orders", BODIES))
    assert rig.run(lambda m: m.stages.discard(QUERY, 0, rig.admin)) == 1
    assert rig.run(lambda m: m.stages.discard(QUERY, 0, rig.admin)) == 0
    assert rig.run(lambda m: m.stages.discard("nobody", None, rig.admin)) == 0
    assert list(rig.manager.stages.stages) == [key_of(1)]
    assert len(rig.manager.ledger.state.table) == 3


def test_a_forgotten_query_begins_anew(rig: Rig) -> None:
    publish(rig, 5)
    stage(rig, key_of(6), ("orders", BODIES))
    assert rig.run(lambda m: m.stages.forget_query(QUERY, rig.admin))
    assert not rig.run(lambda m: m.stages.forget_query(QUERY, rig.admin))
    rig.restart()
    assert rig.manager.stages.queries == {}
    assert rig.manager.stages.stages == {}
    assert publish(rig, 0) == (0, False)


# -- refusals


def test_quotas_count_what_is_staged(rig: Rig) -> None:
    rig.create("small", quota_kib=1)
    upload = begin(rig, key_of(0))
    append(rig, upload, [("small", [bytes(200)])])
    with pytest.raises(QueueQuotaExceeded):
        append(rig, upload, [("orders", [b"x"]), ("small", [bytes(500)])])
    with pytest.raises(QueueQuotaExceeded):
        rig.send("small", bytes(500), recoverable=True)
    rig.run(lambda m: m.stages.abort(upload))
    rig.send("small", bytes(500), recoverable=True)
    assert len(rig.manager.ledger.state.table) == 1


def test_a_queue_that_is_gone_refuses_the_batch(rig: Rig) -> None:
    rig.create("passing")
    stage(rig, key_of(0), ("orders", BODIES), ("passing", BODIES))
    rig.run(lambda m: m.queues.delete_queue(".\\private$\\passing", rig.admin))
    for _ in range(2):
        with pytest.raises(QueueDeleted):
            publish(rig, 0, (0, 0))
        rig.restart()
    assert rig.bodies("orders") == []
    rig.run(lambda m: m.stages.discard(QUERY, 0, rig.admin))
    assert rig.manager.ledger.reserved == 0
    assert not rig.manager.ledger.state.pending


def test_a_queue_deleted_under_an_upload_refuses_its_next_portion(rig: Rig) -> None:
    rig.create("passing")
    upload = begin(rig, key_of(0))
    append(rig, upload, [("passing", BODIES)])
    rig.run(lambda m: m.queues.delete_queue(".\\private$\\passing", rig.admin))
    with pytest.raises(QueueError):
        append(rig, upload, [("passing", BODIES)])
    rig.run(lambda m: m.stages.abort(upload))
    assert not rig.manager.ledger.state.pending


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (".\\private$\\nowhere", QueueNotFound),
        (".\\private$\\orders;journal", UnsupportedFormatNameOperation),
        (
            "DIRECT=OS:ALPHA\\private$\\orders,DIRECT=OS:ALPHA\\private$\\answers",
            UnsupportedFormatNameOperation,
        ),
    ],
)
def test_destinations_that_cannot_be_sent_to_are_refused(
    rig: Rig, name: str, error: type[QueueError]
) -> None:
    upload = begin(rig, key_of(0))
    with pytest.raises(error):
        rig.run(lambda m: m.stages.target(upload, name))
    rig.run(lambda m: m.stages.abort(upload))
    assert not rig.queue("orders").descriptors


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"authentication": True}, MessageNotAuthenticated),
        ({"privacy_level": 2}, IllegalPropertyValue),
    ],
)
def test_queues_that_want_protected_messages_take_no_stages(
    rig: Rig, properties: dict[str, Any], error: type[QueueError]
) -> None:
    rig.create("guarded", **properties)
    upload = begin(rig, key_of(0))
    with pytest.raises(error):
        rig.run(lambda m: m.stages.target(upload, ".\\private$\\guarded"))


def test_limits_hold(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "TARGETS_MAX", 1)
    upload = begin(rig, key_of(0))
    rig.run(lambda m: m.stages.target(upload, ".\\private$\\orders"))
    with pytest.raises(InsufficientResources, match="destinations"):
        rig.run(lambda m: m.stages.target(upload, ".\\private$\\answers"))


def test_stages_are_bounded() -> None:
    rig = Rig(stages_max=2)
    rig.create("orders")
    stage(rig, key_of(0), ("orders", BODIES))
    begin(rig, key_of(1))
    with pytest.raises(InsufficientResources, match="too many stages"):
        begin(rig, key_of(2))


@pytest.mark.parametrize(
    "key",
    [
        key_of(0, query=""),
        key_of(0, query="x" * (QUERY_SIZE_MAX + 1)),
        key_of(0, query="a\0b"),
        key_of(-1),
        key_of(1 << 63),
        key_of(0, 1 << 31),
        key_of(0, -1),
        key_of(0, 0, 1 << 63),
    ],
)
def test_keys_out_of_bounds_are_refused(rig: Rig, key: StageKey) -> None:
    with pytest.raises(InvalidParameter):
        check_key(key)
    with pytest.raises(InvalidParameter):
        rig.run(lambda m: m.stages.publish(key.query, key.batch, [key[2:]], rig.admin))


def test_keys_are_read_back() -> None:
    for key in (key_of((1 << 63) - 1, (1 << 31) - 1, (1 << 63) - 1), key_of(0, query="für alle")):
        check_key(key)
        assert StageKey.unpack(key.pack()) == key


# -- whose they are


def test_a_query_is_its_owners_and_the_administrators_business(rig: Rig) -> None:
    eve = other_user(rig)
    stage(rig, key_of(0), ("orders", BODIES))
    calls: list[Callable[[Any], object]] = [
        lambda m: m.stages.begin(key_of(0, 1), eve),
        lambda m: m.stages.publish(QUERY, 0, [(0, 0)], eve),
        lambda m: m.stages.discard(QUERY, 0, eve),
        lambda m: m.stages.progress(QUERY, eve),
        lambda m: m.stages.forget_query(QUERY, eve),
    ]
    for _ in range(2):
        for call in calls:
            with pytest.raises(AccessDenied, match="another user"):
                rig.run(call)
        publish(rig, 0, (0, 0))
    rig.run(lambda m: m.stages.publish("eve's own", 0, [], eve))
    assert publish(rig, 0, query="eve's own").already


# -- tokens for some queues


def narrow(rig: Rig, pattern: str, caller: Caller | None = None) -> Caller:
    """The caller with a token that may send to queues that match."""
    scopes = ((f".\\private$\\{pattern}", parse_rights("send")),)
    return (caller or rig.admin).narrowed(scopes)


def changes_of(caller: Caller, batch: int) -> list[Callable[[Any], object]]:
    """What could make the query's next try come twice, stop it, or drop what it staged."""
    return [
        lambda m: m.stages.publish(QUERY, batch + 1, [], caller),
        lambda m: m.stages.discard(QUERY, batch + 1, caller),
        lambda m: m.stages.forget_query(QUERY, caller),
        lambda m: m.stages.progress(QUERY, caller),
    ]


def test_a_token_for_other_queues_changes_nothing_of_a_query(rig: Rig) -> None:
    """Of the staged messages, and of what was published, each on its own."""
    mine = narrow(rig, "answers")
    stage(rig, key_of(1), ("orders", BODIES))
    for call in changes_of(mine, 0):
        with pytest.raises(AccessDenied, match="some queues, and the query query writes to others"):
            rig.run(call)
    assert publish(rig, 1, (0, 0)).messages == 3
    for _ in range(2):  # an empty batch leaves the queues of the one before
        for call in [changes_of(mine, 1)[at] for at in (0, 2, 3)]:
            with pytest.raises(AccessDenied, match="writes to others"):
                rig.run(call)
        with pytest.raises(AccessDenied, match="writes to others"):
            begin(rig, key_of(7), mine)
        publish(rig, 2)
        rig.restart()
    assert rig.bodies("orders") == BODIES


def test_a_token_for_other_queues_replaces_no_stage(rig: Rig) -> None:
    mine = narrow(rig, "answers")
    upload = begin(rig, key_of(0), mine)
    append(rig, upload, [("answers", BODIES)])
    stage(rig, key_of(0), ("orders", BODIES))
    with pytest.raises(AccessDenied, match="writes to others"):
        rig.run(lambda m: m.stages.finish(upload))
    assert publish(rig, 0, (0, 0)).messages == 3
    assert rig.bodies("orders") == BODIES


def test_a_token_sees_the_stages_of_its_queues(rig: Rig) -> None:
    stage(rig, key_of(0, 0), ("orders", BODIES))
    stage(rig, key_of(0, 1), ("orders", BODIES), ("answers", BODIES))
    keys = {
        pattern: [key.partition for key, _ in rig.manager.stages.listed(narrow(rig, pattern))]
        for pattern in ("orders", "answers", "*")
    }
    assert keys == {"orders": [0], "answers": [], "*": [0, 1]}
    assert len(rig.manager.stages.listed(rig.admin)) == 2


def test_a_token_for_the_queues_of_a_query_does_everything_with_it(rig: Rig) -> None:
    eve = other_user(rig)
    both = narrow(rig, "*", eve)
    rig.create("passing")
    for batch, name in enumerate(("orders", "passing")):
        stage(rig, key_of(batch), (name, BODIES), caller=both)
        assert rig.run(lambda m, b=batch: m.stages.publish(QUERY, b, [(0, 0)], both)).messages == 3
    rig.run(lambda m: m.queues.delete_queue(".\\private$\\passing", rig.admin))
    only = narrow(rig, "orders", eve)  # the deleted queue is out of everybody's reach
    assert rig.run(lambda m: m.stages.progress(QUERY, only))[0].batch == 1
    assert rig.run(lambda m: m.stages.forget_query(QUERY, only))


def test_a_record_of_an_older_version_is_forgotten_by_tokens_without_limits(rig: Rig) -> None:
    """It does not know its queues. A pipeline that ran with a narrow token goes on."""
    eve = other_user(rig)
    mine = narrow(rig, "orders", eve)
    old = [0, eve.sid, rig.manager.machine.utc, 3, "", "", "of an older version"]
    value = msgspec.msgpack.encode(old)
    rig.run(lambda m: m.ledger.define(TABLE_QUERY, QUERY.encode(), value))
    rig.restart()
    stage(rig, key_of(1), ("orders", BODIES), caller=mine)
    assert rig.run(lambda m: m.stages.publish(QUERY, 1, [(0, 0)], mine)).messages == 3
    assert rig.run(lambda m: m.stages.discard(QUERY, 1, mine)) == 0
    with pytest.raises(AccessDenied, match="the query query may write to others"):
        rig.run(lambda m: m.stages.forget_query(QUERY, mine))
    stage(rig, key_of(2), ("orders", BODIES), caller=eve)
    rig.run(lambda m: m.stages.publish(QUERY, 2, [(0, 0)], eve))
    assert rig.run(lambda m: m.stages.forget_query(QUERY, mine))


def test_who_publishes_must_be_allowed_to_send(rig: Rig) -> None:
    """By then: rights may have changed since the stage was written."""
    eve, closed = other_user(rig), SecurityDescriptor(rig.admin.sid).with_dacl(Acl())
    stage(rig, key_of(0, query="hers"), ("orders", BODIES), caller=eve)
    upload = begin(rig, key_of(0, 1, query="hers"), eve)
    append(rig, upload, [("orders", BODIES)])
    name = ".\\private$\\orders"
    rig.run(lambda m: m.queues.set_queue_security(name, rig.admin, closed.pack()))
    with pytest.raises(AccessDenied):
        rig.run(lambda m: m.stages.publish("hers", 0, [(0, 0)], eve))
    with pytest.raises(AccessDenied):
        append(rig, upload, [("orders", BODIES)])
    assert rig.queue("orders").state.count == 0


def test_answers_go_where_the_writer_could_write_himself(rig: Rig) -> None:
    eve, closed = other_user(rig), SecurityDescriptor(rig.admin.sid).with_dacl(Acl())
    rig.create("closed", security=closed.pack())
    upload = begin(rig, key_of(0, query="hers"), eve)
    rig.run(lambda m: m.stages.check_answers(upload, ".\\private$\\answers"))
    with pytest.raises(AccessDenied):
        rig.run(lambda m: m.stages.check_answers(upload, ".\\private$\\closed"))


# -- crashes


def states(paper: Paper, start: int) -> Iterator[tuple[list[bytes], bool, int]]:
    """What is there after a crash behind each record: bodies, whether published, stages."""
    for length in range(start, len(paper.log) + 1):
        survivor = paper.cut(length)
        survivor.check()
        manager = survivor.manager
        bodies = survivor.bodies(".\\private$\\orders")
        yield bodies, QUERY in manager.stages.queries, len(manager.stages.stages)


def test_a_crash_behind_any_record_leaves_a_stage_or_none_and_a_batch_or_none() -> None:
    paper = Paper()
    paper.create(".\\private$\\orders")
    start = len(paper.log)
    for partition in range(2):
        stage(paper, key_of(0, partition), ("orders", BODIES))  # type: ignore[arg-type]
    publish(paper, 0, (0, 0), (1, 0))  # type: ignore[arg-type]
    paper.check()
    found = list(states(paper, start))
    assert sorted(set(map(str, found))) == sorted(
        map(
            str,
            [([], False, 0), ([], False, 1), ([], False, 2), (BODIES * 2, True, 0)],
        )
    )
    assert found == sorted(found, key=lambda one: (one[1], one[2]))


def test_a_stage_of_which_records_were_given_up_is_dropped(rig: Rig) -> None:
    stage(rig, key_of(0), ("orders", BODIES))
    stage(rig, key_of(1), ("orders", BODIES))
    log = rig.store.log
    lost = next(at for at, record in enumerate(log) if record[0] == MESSAGE)
    rig.restart(log[:lost] + log[lost + 1 :])
    assert list(rig.manager.stages.stages) == [key_of(1)]
    assert [event.name for event in rig.events].count("stage_incomplete") == 1
    assert len(rig.manager.ledger.state.of_table(TABLE_STAGE)) == 1
    assert len(rig.manager.ledger.state.pending) == 3
    assert publish(rig, 1, (0, 0)).messages == 3
