"""Messages over HTTP that are taken in together come to what they come to one by one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.engine.messages.admission import Admission
from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import MalformedPacket
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.packet_fields import PacketSummary
from posthouse.wire.srmp.message import SrmpMessage
from posthouse.wire.srmp.repeated_messages import MessageTemplate
from tests.engine.letters import FAR_GUID
from tests.engine.rig import RECEIVE
from tests.engine.web import ADMIN, ORDERS, PEER, STRANGER, STREAMED, WebRig, arrival_of
from tests.support.srmp_runs import OTHER, one_by_one, same

SECOND = "http://alpha/msmq/private$/second"
NARROW = "http://alpha/msmq/private$/narrow"
CLOSED = "http://alpha/msmq/private$/closed"
KIB = b"x" * 400

elements = st.fixed_dictionaries(
    {"ordinal": st.integers(1, 12)},
    optional={
        "to": st.sampled_from(
            [ORDERS, ORDERS, ORDERS, SECOND, NARROW, CLOSED, STREAMED, "http://alpha/msmq/none"]
        ),
        "durable": st.booleans(),
        "priority": st.integers(2, 3),
        "source_guid": st.sampled_from([FAR_GUID, FAR_GUID, OTHER]),
        "sent_ago": st.sampled_from([0, 0, 900]),
        "lives": st.sampled_from([0, 500, 1000]),
        "journal": st.sampled_from([False, False, True]),
        "dead_letter": st.sampled_from([False, False, True]),
        "trace": st.sampled_from([False, False, True]),
        "delivery_receipt_to": st.sampled_from(["", "", ADMIN]),
        "destination_mqf": st.sampled_from([(), (), (ORDERS, SECOND)]),
        "message_class": st.sampled_from([0, 0, 0, 2]),
        "action": st.sampled_from(["MSMQ:order", "MSMQ:" + "x" * 250]),
        "stream": st.just(None),
    },
)


def make() -> WebRig:
    rig = WebRig()
    rig.create("second")
    rig.create("narrow", quota_kib=6)
    rig.create("closed", authentication=True)
    return rig


def message(rig: WebRig, values: dict[str, Any]) -> SrmpMessage:
    values = dict(values)
    sent = rig.utc - values.pop("sent_ago", 0)
    if lives := values.pop("lives", 0):
        values["reach_by"] = sent + lives
    return rig.message(values.pop("to", ORDERS), sent_at=sent, **values)


@settings(max_examples=40)
@given(st.lists(st.lists(elements, max_size=8), max_size=4))
def test_messages_of_a_turn_come_to_the_same_together(turns: list[list[dict[str, Any]]]) -> None:
    many, one = make(), one_by_one(make())
    for turn in turns:
        verdicts = [
            rig.verdicts(*[message(rig, values) for values in turn], body=KIB)
            for rig in (many, one)
        ]
        assert verdicts[0] == verdicts[1]
    same(one, many)


# Messages of one sender that differ in their number and body, and now and then in something else.
alike = st.tuples(
    st.integers(1, 9),
    st.binary(min_size=4, max_size=4) | st.just(b"same"),
    st.sampled_from([{}] * 12 + [{"to": NARROW}, {"source_guid": bytes(16)}, {"lives": 1}]),
)


@settings(max_examples=60)
@given(st.lists(st.lists(alike, max_size=12), max_size=5), st.randoms())
def test_messages_of_one_template_come_to_the_same_together(
    turns: list[list[tuple[int, bytes, dict[str, Any]]]], chance: Random
) -> None:
    many, one = make(), one_by_one(make())
    peers = [PEER, PEER, STRANGER]
    for turn in turns:
        posted = [(message(one, {"ordinal": n} | kind), body) for n, body, kind in turn]
        senders = [chance.choice(peers) for _ in posted]
        verdicts = []
        for rig in (many, one):
            arrivals = [
                arrival_of(what, body * 100, peer, rig.reader)
                for (what, body), peer in zip(posted, senders, strict=True)
            ]
            verdicts.append(rig.run(lambda m: m.transfer.receive_srmp(arrivals)))  # noqa: B023
        assert verdicts[0] == verdicts[1]
    same(one, many)


def test_alike_messages_of_a_turn_are_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, asked = make(), []
    admit = Admission.admit

    def noted(self: Admission, queue: Queue, batch: Batch, *rest: Any) -> int:
        asked.append(batch.count)
        return admit(self, queue, batch, *rest)

    monkeypatch.setattr(Admission, "admit", noted)
    rig.post(*[rig.message() for _ in range(9)], body=KIB)
    assert asked == [1, 8]  # the first could not know that others would be like it
    assert len(rig.messages("orders")) == 9
    rig.check_books()


def test_one_bad_message_among_alike_ones_is_refused_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, packet = make(), MessageTemplate.packet

    def failing(self: MessageTemplate, payload: bytes) -> tuple[bytes, PacketSummary]:
        if b"uuid:4@" in payload:
            raise MalformedPacket("it fits into no packet")
        return packet(self, payload)

    posted = [rig.message() for _ in range(6)]
    monkeypatch.setattr(MessageTemplate, "packet", failing)
    assert rig.post(*posted, body=KIB) == [200, 200, 200, 400, 200, 200]
    assert len(rig.messages("orders")) == 5
    rig.check_books()


def test_a_receipt_in_between_keeps_the_order_of_messages() -> None:
    rig = make()
    posted = [
        rig.message(),
        rig.message(),
        rig.message(delivery_receipt_to=ADMIN),
        rig.message(),
        rig.message(SECOND),
        rig.message(),
    ]
    assert rig.post(*posted) == [200] * 6
    ordinals = [found.identifier.ordinal for found in rig.messages("orders")]
    assert ordinals == [1, 2, 3, 4, 6]
    assert len(rig.answers()) == 1
    rig.check_books()


def test_a_run_takes_no_more_than_its_queue_has_room_for() -> None:
    rig = make()
    statuses = rig.post(*[rig.message(NARROW) for _ in range(6)], body=KIB)
    taken = statuses.count(200)
    assert statuses == [200] * taken + [500] * (6 - taken)
    assert 0 < taken < 6
    assert len(rig.messages("narrow")) == taken
    assert rig.queue("narrow").state.bytes <= 6 << 10
    rig.check_books()


def test_waiting_readers_get_messages_of_a_run_each_one() -> None:
    rig = make()
    descriptor = rig.open("orders", RECEIVE)
    waits = [rig.wait(descriptor) for _ in range(2)]
    assert rig.post(*[rig.message() for _ in range(3)]) == [200] * 3
    assert all(waits)
    assert len(rig.messages("orders")) == 1
    rig.check_books()


def test_the_short_way_is_taken() -> None:
    rig, runs = make(), []
    core = rig.manager.ledger
    arrive = core.arrive

    def noted(row: Any, batch: Any, *rest: Any, **options: Any) -> range:
        runs.append(len(batch))
        return arrive(row, batch, *rest, **options)

    core.arrive = noted  # type: ignore[method-assign, assignment]
    rig.post(*[rig.message() for _ in range(3)])
    rig.post(rig.message(), rig.message(priority=7), rig.message(priority=7))
    rig.post(rig.message(durable=False), rig.message(durable=False, journal=True))
    assert runs == [3, 1, 2, 1, 1]
