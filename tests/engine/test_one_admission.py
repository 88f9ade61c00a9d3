"""A new reason to refuse a message holds at every door: there is one admission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from posthouse.engine.manager import QueueManager
from posthouse.engine.messages.admission import Admission
from posthouse.model.errors import QueueQuotaExceeded
from posthouse.model.message import Message
from posthouse.protocols.handlers.dry_runs import Trial
from posthouse.protocols.handlers.message_json import copy_of
from posthouse.wire.packet.packet_fields import summarize_all
from tests.engine.arrivals import PEER, PeerRig
from tests.engine.pulling import Source, offer
from tests.engine.rig import RECEIVE
from tests.engine.sends import packet_of, transactional_packet
from tests.engine.staging import append, begin, full, joined, key_of, run_of
from tests.engine.web import WebRig, arrival_of
from tests.support.routing_rig import RoutingRig

GROUP = "234.1.1.1:8001"


def packets(count: int, make: Callable[..., bytes] = packet_of, **attributes: Any) -> list[bytes]:
    return [make(body=bytes([n]), **attributes) for n in range(count)]


@pytest.fixture
def no_more(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A reason that speaks against everything; how many messages it was asked about."""
    asked: list[int] = []

    def refuse(self: Admission, queue: Any, batch: Any, *rest: Any) -> int:
        asked.append(len(batch))
        raise QueueQuotaExceeded("of the newest reason")

    monkeypatch.setattr(Admission, "admit", refuse)
    return asked


@pytest.mark.parametrize("count", [1, 2, 100])
@pytest.mark.parametrize("asks", [{}, {"negative_journaling_requested": True}, {"priority": 5}])
def test_packets_of_clients_are_refused(count: int, asks: dict[str, Any], no_more: Any) -> None:
    rig = PeerRig()
    out = rig.open("orders")
    with rig.refused(QueueQuotaExceeded.code, "newest"):
        rig.run(lambda m: m.messages.send_packets(out, packets(count, **asks)))
    assert no_more == [count]


@pytest.mark.parametrize("count", [1, 100])
def test_packets_in_transactions_are_refused(count: int, no_more: Any) -> None:
    rig = PeerRig()
    rig.create("ledger", transactional=True)
    out, tx = rig.open("ledger"), rig.begin()
    with rig.refused(QueueQuotaExceeded.code, "newest"):
        rig.run(lambda m: m.messages.send_packets(out, packets(count, transactional_packet), tx))
    assert not tx.count


def test_a_message_of_an_application_here_is_refused(no_more: Any) -> None:
    rig = PeerRig()
    with pytest.raises(QueueQuotaExceeded, match="newest"):
        rig.send("orders", b"x")
    assert rig.bodies("orders") == []


@pytest.mark.parametrize("count", [1, 5])
def test_packets_of_other_machines_are_refused(count: int, no_more: Any) -> None:
    rig = PeerRig()
    came = [rig.packet(bytes([n])) for n in range(count)]
    verdict = rig.run(lambda m: m.transfer.receive_packets(PEER, came, summarize_all(came)))
    assert verdict.dealt_with == count
    assert rig.bodies("orders") == []
    assert no_more == [count, *([1] * count)]  # together, then each for an answer of its own


@pytest.mark.parametrize("count", [1, 5])
def test_messages_over_http_are_refused(count: int, no_more: Any) -> None:
    rig = WebRig()
    assert 200 not in rig.post(*[rig.message() for _ in range(count)])
    assert no_more
    assert rig.messages("orders") == []


@pytest.mark.parametrize("count", [1, 5])
def test_a_portion_of_a_stage_is_refused(count: int, no_more: Any) -> None:
    rig = PeerRig()
    upload = begin(rig, key_of(0))
    with pytest.raises(QueueQuotaExceeded, match="newest"):
        append(rig, upload, [("orders", [b"x"] * count)])
    assert no_more == [count]
    assert (upload.messages, rig.bodies("orders")) == (0, [])


def test_messages_of_a_pull_are_refused(no_more: Any) -> None:
    rig = PeerRig()
    outcome = Source(rig).take(offer(1, 2))
    assert (outcome.taken, outcome.left) == (0, 2)  # for want of room it stops at the first
    assert "newest" in str(outcome.stopped)
    assert rig.bodies("orders") == []


def test_multicast_messages_are_refused(no_more: Any) -> None:
    rig = WebRig()
    rig.create("east", multicast_address=GROUP)
    arrival = arrival_of(rig.message(f"MSMQ:MULTICAST={GROUP}"), b"x")
    rig.run(lambda m: m.transfer.receive_multicast(GROUP, [arrival]))
    assert no_more
    assert rig.bodies("east") == []


def test_a_message_on_its_way_through_is_refused(no_more: Any) -> None:
    rig = RoutingRig()
    rig.take(rig.through())
    assert no_more
    assert rig.passed_on() == []


@pytest.mark.parametrize("source", ["failed", r".\system$;deadletter"])
def test_a_message_that_goes_back_is_refused(source: str, request: pytest.FixtureRequest) -> None:
    """As the message that it is, and as a copy of a dead letter."""
    rig = PeerRig()
    rig.create("failed")
    rig.send("failed", b"x", negative_journaling_requested=True)
    if source != "failed":
        rig.run(lambda m: m.queues.purge_queue(rig.open("failed", RECEIVE)))
    opened, to = rig.open(source, RECEIVE), rig.open("orders")
    ((place, number),) = opened.target().state.order.forward()
    copy = copy_of(rig.run(lambda m: m.messages.packet(number)))
    request.getfixturevalue("no_more")
    with rig.refused(QueueQuotaExceeded.code, "newest"):
        rig.run(lambda m: m.returning.send_back(opened, place.lookup_id, to, copy))
    assert rig.bodies("orders") == []


def test_a_dry_run_is_refused(no_more: Any) -> None:
    rig = PeerRig()
    dry_run = Trial()
    with rig.refused(QueueQuotaExceeded.code, "newest"):
        rig.run(lambda m: dry_run.send(m, r".\private$\orders", rig.admin, Message(body=b"x")))


@pytest.fixture
def no_last(monkeypatch: pytest.MonkeyPatch) -> str:
    """A reason that speaks against one message: by its label, which only its own summary has."""
    label, admit = "the newest", Admission.admit

    def refuse(self: Admission, queue: Any, batch: Any, *rest: Any) -> int:
        if any(seen.label_size == 2 * len(label) + 2 for seen in batch.looks):  # with its NUL
            raise QueueQuotaExceeded("of the newest reason")
        return admit(self, queue, batch, *rest)

    monkeypatch.setattr(Admission, "admit", refuse)
    return label


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_reason_against_the_last_message_is_seen_at_each_door(count: int, no_last: str) -> None:
    rig = PeerRig()
    out = rig.open("orders")
    mixed = [*packets(count), packet_of(body=b"last", label=no_last)]
    with rig.refused(QueueQuotaExceeded.code, "newest"):
        rig.run(lambda m: m.messages.send_packets(out, mixed))
    came = [*(rig.packet(bytes([n])) for n in range(count)), rig.packet(b"last", label=no_last)]
    rig.run(lambda m: m.transfer.receive_packets(PEER, came, summarize_all(came)))
    assert len(rig.bodies("orders")) == count  # each of them has an answer of its own
    upload = begin(rig, key_of(0))

    def stage_two(manager: QueueManager) -> None:
        target = manager.stages.target(upload, full("orders"))
        alike = run_of(manager, upload, target, [b"x"] * count)
        last = run_of(manager, upload, target, [b"last"], label=no_last)
        manager.stages.append(upload, [joined([alike, last])])

    with pytest.raises(QueueQuotaExceeded, match="newest"):
        rig.run(stage_two)
    assert upload.messages == 0
    web = WebRig()
    answers = web.post(
        *[web.message() for _ in range(count)], web.message(action=f"MSMQ:{no_last}")
    )
    assert answers[-1] != 200
    assert len(web.messages("orders")) == count
