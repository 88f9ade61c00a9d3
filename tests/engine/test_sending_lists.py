"""Enqueue Message To An Open Queue that is a list: all copies or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from posthouse.engine.ledger.records import (
    CHANGE,
    MESSAGE,
    unpack_arrival,
)
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.model.errors import (
    MachineQuotaExceeded,
    QueueQuotaExceeded,
    TransactionUsage,
)
from posthouse.model.message import (
    ACK_POS_ARRIVAL,
    Message,
    MessageId,
)
from posthouse.wire.packet.message import deserialize
from tests.engine.rig import RECEIVE, RECOVERABLE, Rig
from tests.engine.sends import arrives, packet_of

INSUFFICIENT_RESOURCES = 0xC00E0027


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create("orders")
    return rig


def sends(rig: Rig, out: OpenQueueDescriptor, message: Message) -> Callable[[], MessageId]:
    return lambda: rig.run(lambda m: m.messages.enqueue_message_to_an_open_queue(out, message))


LIST = r"DIRECT=OS:ALPHA\private$\orders,DIRECT=OS:.\private$\other"


@pytest.fixture
def pair(rig: Rig) -> OpenQueueDescriptor:
    rig.create("other")
    descriptor = rig.open(LIST)
    rig.send(descriptor)
    for name in ("orders", "other"):
        rig.receive(name)
    return descriptor


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.27/2")
def test_a_list_gets_a_copy_for_each_element_with_its_own_destination(
    rig: Rig, pair: OpenQueueDescriptor
) -> None:
    identifier = rig.send(pair, b"to both", label="copy")
    copies = [*rig.messages("orders"), *rig.messages("other")]
    assert [copy.destination_queue_format_name for copy in copies] == [
        r"DIRECT=OS:ALPHA\private$\orders",
        r"DIRECT=OS:ALPHA\private$\other",
    ]
    for copy in copies:
        assert set(copy.destination_multi_queue_format_name) == set(LIST.split(","))
        assert (copy.body, copy.label, copy.identifier) == (b"to both", "copy", identifier)


def test_the_copies_of_a_list_are_one_step_in_the_log(rig: Rig, pair: OpenQueueDescriptor) -> None:
    message = Message(delivery_guarantee=RECOVERABLE)
    effects = rig.decide(lambda m: m.messages.enqueue_message_to_an_open_queue(pair, message))
    assert [record[0] for record in effects.records] == [MESSAGE, MESSAGE, CHANGE]
    pending = [unpack_arrival(r[2] + r[3]).row.lookup_id for r in effects.records[:2]]
    assert pending == [0, 0]


def test_a_waiting_reader_of_each_element_gets_its_copy(
    rig: Rig, pair: OpenQueueDescriptor
) -> None:
    waits = [rig.wait(rig.open(name, RECEIVE)) for name in ("orders", "other")]
    rig.send(pair, b"x")
    assert [len(answers) for answers in waits] == [1, 1]


def only_one_fits(rig: Rig) -> Iterator[str]:
    """Lists of which the first element alone could take its copy."""
    rig.create("other", quota_kib=1)
    rig.create("strict", transactional=True)
    rig.send("other", bytes(500))
    yield r"DIRECT=OS:ALPHA\private$\orders,DIRECT=OS:ALPHA\private$\other"
    yield r"DIRECT=OS:ALPHA\private$\orders,DIRECT=OS:ALPHA\private$\strict"
    rig.create("twice", quota_kib=1)
    yield r"DIRECT=OS:ALPHA\private$\twice,DIRECT=TCP:127.0.0.1\private$\twice"


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.27/3")
@pytest.mark.parametrize("recoverable", [True, False])
def test_no_copy_is_made_when_one_is_refused(rig: Rig, recoverable: bool) -> None:
    waiting = rig.wait(rig.open("orders", RECEIVE))
    for name in only_one_fits(rig):
        out = rig.open(name)
        kind = TransactionUsage if "strict" in name else QueueQuotaExceeded
        with rig.refused(kind.code):
            rig.send(out, bytes(500), recoverable=recoverable)
    assert waiting == []


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.27/3")
def test_the_copies_of_a_list_count_together_against_the_machine_quota() -> None:
    rig = Rig(machine_quota_kib=3)
    rig.create("orders")
    rig.create("other")
    out = rig.open(LIST)
    rig.send(out, bytes(100))
    with rig.refused(MachineQuotaExceeded.code, "machine"):
        rig.send(out, bytes(900))
    rig.send(out, bytes(100))


def test_what_the_first_copy_causes_cannot_refuse_the_second(rig: Rig) -> None:
    """The acknowledgment of the first copy goes where the second has just found room."""
    rig.create("other", quota_kib=1)
    out = rig.open(LIST)
    admin = r"DIRECT=OS:ALPHA\private$\other"
    rig.send(
        out,
        bytes(400),
        acknowledgements_requested=ACK_POS_ARRIVAL,
        administration_queue_format_name=admin,
    )
    assert bytes(400) in rig.bodies("orders")
    assert bytes(400) in rig.bodies("other")
    rig.restart()
    assert bytes(400) in rig.bodies("other")
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.27/5")
def test_the_copies_of_a_list_appear_and_vanish_with_their_transaction(rig: Rig) -> None:
    rig.create("a", transactional=True)
    rig.create("b", transactional=True)
    out = rig.open(r"DIRECT=OS:ALPHA\private$\a,DIRECT=OS:ALPHA\private$\b")
    lost, kept = rig.begin("lost"), rig.begin("kept")
    rig.send(out, b"lost", tx=lost)
    rig.send(out, b"kept", tx=kept)
    assert rig.bodies("a") == rig.bodies("b") == []
    rig.abort(lost)
    rig.commit(kept)
    rig.restart()
    assert rig.bodies("a") == rig.bodies("b") == [b"kept"]


def test_a_list_too_long_for_the_transaction_adds_nothing_to_it() -> None:
    rig = Rig(operations_max=2)
    rig.create("a", transactional=True)
    hosts = ("OS:ALPHA", "OS:localhost", "TCP:127.0.0.1")
    out = rig.open(",".join(rf"DIRECT={host}\private$\a" for host in hosts))
    tx = rig.begin()
    rig.send("a", tx=rig.begin("other"))
    with rig.refused(INSUFFICIENT_RESOURCES, "too many operations"):
        rig.send(out, tx=tx)
    assert tx.operations == []


def test_a_list_may_have_queues_of_other_machines(rig: Rig) -> None:
    out = rig.open(r"DIRECT=OS:ALPHA\private$\orders,DIRECT=OS:BETA\private$\q")
    rig.send(out, b"x")
    outgoing = rig.open(r"DIRECT=OS:BETA\private$\q").target()
    ((_, number),) = outgoing.state.order.forward()
    assert rig.bodies("orders") == [b"x"]
    there = deserialize(rig.store.read(number))
    assert there.destination_queue_format_name == r"DIRECT=OS:BETA\private$\q"
    assert outgoing.number in rig.active


def test_an_object_sent_to_a_list_before_names_no_list_for_ever(
    rig: Rig, pair: OpenQueueDescriptor
) -> None:
    message, single = Message(body=b"again"), rig.open("orders")
    sends(rig, pair, message)()
    sends(rig, single, message)()
    assert rig.messages("orders")[1].destination_multi_queue_format_name == ()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.27/4")
def test_a_list_from_the_network_is_not_expanded(rig: Rig) -> None:
    rig.create("other")
    packet = packet_of(destination_multi_queue_format_name=tuple(LIST.split(",")))
    arrives(rig, rig.queue("orders"), packet)
    assert len(rig.reads("orders")) == 1
    assert rig.reads("other") == []
    (message,) = rig.messages("orders")
    assert message.destination_multi_queue_format_name == tuple(LIST.split(","))
