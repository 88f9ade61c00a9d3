"""Quotas, flow control and the two times of a message at the door of a queue."""

from __future__ import annotations

import pytest

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.model.errors import (
    MachineQuotaExceeded,
    QueueQuotaExceeded,
    TimedOutInTransit,
)
from posthouse.model.message import (
    INFINITE,
    LONG_LIVED,
    TIME_TO_REACH_QUEUE_MAX,
    Message,
)
from posthouse.wire.packet.message import deserialize
from tests.engine.rig import RECEIVE, START_UTC, Rig
from tests.engine.sends import arrives, packet_of, size_of


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create("orders")
    return rig


@pytest.fixture
def out(rig: Rig) -> OpenQueueDescriptor:
    """The queue open for sending, with the first block of every counter reserved."""
    descriptor = rig.open("orders")
    rig.send(descriptor)
    rig.receive("orders")
    return descriptor


# -- quotas


@pytest.mark.spec(
    "MS-MQDMPR 3.1.7.1.9/1", "MS-MQDMPR 3.1.7.2.5/1", "MS-MQDMPR 3.1.7.2.6/1", "MS-MQDMPR 3.1.1/3"
)
def test_flow_control_refuses_every_enqueue_until_it_ends(
    rig: Rig, out: OpenQueueDescriptor
) -> None:
    def throttled(manager: QueueManager) -> object:
        manager.machine.begin_flow_control("memory")
        return manager.messages.enqueue_message_to_an_open_queue(out, Message())

    def freed(manager: QueueManager) -> object:
        manager.machine.begin_flow_control("memory")
        manager.machine.end_flow_control("disk")  # another reason than the one that holds
        assert manager.machine.throttled == {"memory"}
        manager.machine.end_flow_control("memory")
        return manager.messages.enqueue_message_to_an_open_queue(out, Message())

    with rig.refused(MachineQuotaExceeded.code, "at the moment"):
        rig.run(throttled)
    rig.run(freed)
    assert len(rig.reads("orders")) == 1
    rig.run(lambda m: m.machine.begin_flow_control("disk"))
    rig.restart()
    assert not rig.manager.machine.throttled


@pytest.mark.spec("MS-MQDMPR 3.1.1.1/5")
def test_there_is_no_machine_quota_unless_one_is_set() -> None:
    for kib in (0xFFFFFFFF, 77):
        rig = Rig() if kib == 0xFFFFFFFF else Rig(machine_quota_kib=kib)
        assert rig.manager.directory.own_queue_manager().queue_manager_quota == kib
        assert rig.manager.machine.settings.machine_quota_kib == kib


@pytest.mark.parametrize(
    ("reasons", "remedies"),
    [
        (["disk"], ["Free space on the disk of the home"]),
        (["memory"], ["Wait until the disk has caught up"]),
        (["memory", "disk"], ["Free space on the disk", "until the disk has caught up"]),
    ],
)
def test_flow_control_names_what_is_scarce_and_not_the_quota(
    rig: Rig, out: OpenQueueDescriptor, reasons: list[str], remedies: list[str]
) -> None:
    def throttled(manager: QueueManager) -> object:
        for reason in reasons:
            manager.machine.begin_flow_control(reason)
        return manager.messages.enqueue_message_to_an_open_queue(out, Message())

    with pytest.raises(MachineQuotaExceeded) as refused:
        rig.run(throttled)
    assert all(remedy in refused.value.remedy for remedy in remedies)
    assert "quota" not in refused.value.remedy


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/2")
@pytest.mark.parametrize("recoverable", [True, False])
def test_the_machine_quota_counts_the_messages_of_all_queues(recoverable: bool) -> None:
    rig = Rig(machine_quota_kib=1)
    rig.create("orders")
    rig.create("other")
    out, other = rig.open("orders"), rig.open("other")
    rig.send(out, bytes(400), recoverable=recoverable)
    with rig.refused(MachineQuotaExceeded.code, "machine quota of 1 KiB"):
        rig.send(other, bytes(400), recoverable=recoverable)
    rig.receive("orders")
    rig.send(other, bytes(400), recoverable=recoverable)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/3")
def test_a_queue_takes_what_fits_its_quota_and_nothing_more(rig: Rig) -> None:
    rig.create("small", quota_kib=1)
    out = rig.open("small")
    fits = 1024 - size_of(b"")
    rig.send(out, bytes(fits))
    assert rig.queue("small").state.bytes == 1024
    with rig.refused(QueueQuotaExceeded.code, "quota of 1 KiB of .*small"):
        rig.send(out, b"")
    rig.receive("small")
    with rig.refused(QueueQuotaExceeded.code):
        rig.send(out, bytes(fits + 1))
    rig.send(out, bytes(fits), recoverable=False)
    with rig.refused(QueueQuotaExceeded.code):
        rig.send(out, b"", recoverable=False)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/3")
def test_the_machine_quota_is_tested_before_the_queues() -> None:
    rig = Rig(machine_quota_kib=1)
    rig.create("small", quota_kib=1)
    rig.create("wide")
    out, wide = rig.open("small"), rig.open("wide")
    rig.send(out)
    with rig.refused(MachineQuotaExceeded.code, "machine"):
        rig.send(out, bytes(2000))
    with rig.refused(MachineQuotaExceeded.code, "machine"):
        rig.send(wide, bytes(2000))


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/2", "MS-MQDMPR 3.1.7.1.9/3")
@pytest.mark.parametrize("settings", [{"machine_quota_kib": 1}, {}])
def test_uncommitted_sends_count_against_the_quotas_until_they_are_aborted(
    settings: dict[str, int],
) -> None:
    rig = Rig(**settings)
    rig.create("orders", transactional=True, quota_kib=0xFFFFFFFF if settings else 1)
    out = rig.open("orders")
    first, second = rig.begin("first"), rig.begin("second")
    rig.send(out, bytes(500), tx=first)
    with rig.refused(QueueQuotaExceeded.code):
        rig.send(out, bytes(500), tx=second)
    assert second.operations == []
    rig.abort(first)
    rig.send(out, bytes(500), tx=second)
    rig.commit(second)
    with rig.refused(QueueQuotaExceeded.code):
        rig.send(out, bytes(500), tx=rig.begin("third"))
    assert rig.queue("orders").reserved == rig.manager.ledger.reserved == 0


# -- time


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/4")
def test_a_message_whose_time_to_reach_the_queue_is_over_is_refused_on_arrival(rig: Rig) -> None:
    queue = rig.queue("orders")
    arrives(rig, queue, packet_of(sent_time=START_UTC - 10, time_to_reach_queue=10))
    with rig.refused(TimedOutInTransit.code, "time to reach"):
        arrives(rig, queue, packet_of(sent_time=START_UTC - 11, time_to_reach_queue=10))
    arrives(rig, queue, packet_of(sent_time=1, time_to_reach_queue=INFINITE))
    assert len(rig.reads("orders")) == 2


def test_a_quota_is_tested_before_the_time(rig: Rig) -> None:
    queue = rig.create("small", quota_kib=1)
    late = packet_of(sent_time=1, time_to_reach_queue=10, body=bytes(2000))
    with rig.refused(QueueQuotaExceeded.code, "quota"):
        arrives(rig, queue, late)


def test_a_batch_for_a_list_may_fill_a_quota_to_the_last_byte(rig: Rig) -> None:
    queue = rig.create("small", quota_kib=1)
    out = rig.open(r"DIRECT=OS:ALPHA\private$\small,DIRECT=TCP:127.0.0.1\private$\small")
    rig.send(out)
    each = queue.state.bytes // 2
    rig.run(
        lambda m: m.queues.purge_queue(m.queues.open_queue(r".\private$\small", RECEIVE, rig.admin))
    )
    with rig.refused(QueueQuotaExceeded.code):
        rig.send(out, bytes(512 - each + 1))
    rig.send(out, bytes(512 - each))
    assert queue.state.bytes == 1024


def test_a_message_of_this_machine_reaches_its_queue_in_no_time(rig: Rig) -> None:
    rig.send("orders", time_to_reach_queue=0)
    assert len(rig.reads("orders")) == 1


@pytest.mark.spec("MS-MQQB 3.1.7.1.2/1")
def test_a_message_for_another_machine_expires_on_its_way(rig: Rig) -> None:
    name = r"DIRECT=OS:BETA\private$\q"
    rig.send(name, b"in time", time_to_reach_queue=10)
    rig.send(name, b"late", time_to_reach_queue=0)
    queue = rig.open(name).target()
    for seconds, left in ((0, 2), (1, 1), (9, 1), (1, 0)):
        rig.advance(seconds)
        assert queue.state.count == left


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/38")
@pytest.mark.parametrize("asked", [INFINITE, LONG_LIVED, TIME_TO_REACH_QUEUE_MAX + 1])
def test_nobody_gets_more_time_to_reach_a_queue_than_the_machine_allows(asked: int) -> None:
    rig = Rig(time_to_reach_queue_s=500)
    out = rig.open(r"DIRECT=OS:BETA\private$\q")
    rig.send(out, time_to_reach_queue=asked)
    rig.run(lambda m: m.messages.send_packets(out, [packet_of(time_to_reach_queue=asked)]))
    rig.run(lambda m: m.messages.send_packets(out, [packet_of(time_to_reach_queue=499)]))
    numbers = [number for _, number in out.target().state.order.forward()]
    kept = [rig.manager.messages.row(number).expires - START_UTC for number in numbers]
    sent = [deserialize(rig.store.read(number)).time_to_reach_queue for number in numbers]
    assert sent == [500, 500, 499]
    assert kept == [501, 501, 500]
    # In a queue of this machine the limit is nothing that could end the message.
    rig.create("here")
    here = rig.open("here")
    rig.run(lambda m: m.messages.send_packets(here, [packet_of(time_to_reach_queue=asked)]))
    assert rig.messages("here")[0].time_to_reach_queue == 500
    rig.advance(600)
    assert len(rig.reads("here")) == 1


@pytest.mark.spec("MS-MQMQ 2.2.19.2/3")
@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/8", "MS-MQDMPR 3.1.1.12/39")
def test_the_time_to_be_received_counts_from_the_sending(rig: Rig) -> None:
    rig.send("orders", b"soon", time_to_be_received=10)
    rig.send("orders", b"never")
    arrives(rig, rig.queue("orders"), packet_of(sent_time=START_UTC - 7, time_to_be_received=10))
    rig.advance(3)
    assert rig.bodies("orders") == [b"soon", b"never"]
    rig.restart()
    rig.advance(6)
    assert rig.bodies("orders") == [b"soon", b"never"]
    rig.advance(1)
    assert rig.bodies("orders") == [b"never"]
    rig.advance(10**6)
    assert rig.bodies("orders") == [b"never"]
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/39")
@pytest.mark.parametrize("recoverable", [True, False])
def test_a_message_with_no_time_to_be_received_is_seen_by_nobody(
    rig: Rig, recoverable: bool
) -> None:
    answers = rig.wait(rig.open("orders", RECEIVE))
    rig.send("orders", b"now or never", time_to_be_received=0, recoverable=recoverable)
    assert (rig.bodies("orders"), answers) == ([], [])
    rig.send("orders", b"next")
    assert len(answers) == 1
    rig.check_books()


@pytest.mark.parametrize("settings", [{"machine_quota_kib": 1}, {}])
def test_a_batch_may_fill_a_quota_to_the_last_byte(settings: dict[str, int]) -> None:
    rig = Rig(**settings)
    rig.create("orders", quota_kib=0xFFFFFFFF if settings else 1)
    out = rig.open("orders")
    half = packet_of(body=bytes(512 - len(packet_of())))
    assert len(half) == 512
    rig.run(lambda m: m.messages.send_packets(out, [half, half]))
    assert rig.queue("orders").state.bytes == 1024
    source = rig.open("orders", RECEIVE)
    rig.run(lambda m: m.queues.purge_queue(source))
    longer = packet_of(body=bytes(516 - len(packet_of())))
    with rig.refused(QueueQuotaExceeded.code):
        rig.run(lambda m: m.messages.send_packets(out, [half, longer]))
    with rig.refused(QueueQuotaExceeded.code):
        rig.run(lambda m: m.messages.send_packets(out, [half, half, packet_of()]))
