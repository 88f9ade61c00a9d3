"""What was refused on arrival: the table that operators ask, and the copies among dead letters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from posthouse.engine.transfer import arrival_dead_letters, refused_messages
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.refused_arrival import RefusedArrival
from posthouse.model.message_classes import (
    NACK_ACCESS_DENIED,
    NACK_BAD_DEST_QUEUE,
    NACK_NOT_TRANSACTIONAL_MESSAGE,
    NACK_REACH_QUEUE_TIMEOUT,
)
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.security.sids import EVERYONE
from tests.engine.arrivals import ORDERS, PEER, PeerRig
from tests.engine.cost import steps
from tests.engine.letters import DEAD_LETTERS, FAR_GUID, PostRig
from tests.engine.web import PEER as WEB_PEER
from tests.engine.web import WebRig
from tests.support.answer_rig import AnswerRig

NOWHERE = ORDERS + "x"
OTHER = Peer(PEER.guid, "10.7.7.7")
KEEP: dict[str, Any] = {"negative_journaling_requested": True}


def refused(rig: PostRig) -> list[RefusedArrival]:
    """The table, the latest first."""
    return list(rig.manager.transfer.refused_arrivals())


def typo(rig: PeerRig, **properties: Any) -> bytes:
    """A message to a queue that is not there."""
    packet: bytes = rig.packet(b"x", destination_queue_format_name=NOWHERE, **properties)
    return packet


def closed(rig: PeerRig) -> dict[str, Any]:
    rig.create("open")
    rig.deny("orders", EVERYONE, WRITE_MESSAGE)
    return {}


def transactional(rig: PeerRig) -> dict[str, Any]:
    rig.create("east", transactional=True)
    return {"destination_queue_format_name": ORDERS.replace("orders", "east")}


def late(rig: PeerRig) -> dict[str, Any]:
    return {"sent_time": rig.clock.utc_seconds - 9, "time_to_reach_queue": 8}


def missing(rig: PeerRig) -> dict[str, Any]:
    return {"destination_queue_format_name": NOWHERE}


CASES: dict[int, Callable[[PeerRig], dict[str, Any]]] = {
    NACK_BAD_DEST_QUEUE: missing,
    NACK_ACCESS_DENIED: closed,
    NACK_NOT_TRANSACTIONAL_MESSAGE: transactional,
    NACK_REACH_QUEUE_TIMEOUT: late,
}


# -- the table


def test_a_refused_message_is_known_by_identifier_label_queue_reason_place_and_time() -> None:
    rig = PeerRig()
    packet = typo(rig, label="order 4711", ordinal=9)
    rig.take(packet)
    (one,) = refused(rig)
    assert (one.source, one.ordinal, one.label) == (PEER.guid, 9, "order 4711")
    assert (one.queue, one.reason, one.cause) == (NOWHERE, "nack-bad-dest-queue", "no such queue")
    assert (one.address, one.times, one.is_kept) == (PEER.address, 1, False)
    assert one.first_utc == one.last_utc == rig.clock.utc_seconds
    assert rig.manager.transfer.refusals_of(PEER.guid, 9) == [one]
    assert rig.manager.transfer.refusals_of(PEER.guid, 8) == []
    assert rig.manager.transfer.refusals_of(bytes(16), 9) == []
    (line,) = [event.details for event in rig.events if event.name == "message_refused"]
    assert line["id"].endswith("\\9")
    assert (line["label"], line["cause"]) == ("order 4711", "no such queue")


def test_a_message_over_http_is_known_by_the_same() -> None:
    rig = WebRig()
    nowhere = "http://alpha/msmq/private$/nowhere"
    gone = rig.message(nowhere, ordinal=7, action="MSMQ:order 4711")
    late = rig.message(ordinal=8, sent_at=rig.utc - 60, reach_by=rig.utc - 1)
    full = rig.message(ordinal=9)
    assert rig.post(gone, late) == [400, 200]
    rig.set("orders", quota_kib=0)
    assert rig.post(full, full) == [500, 500]
    room, time, queue = refused(rig)
    assert (queue.source, queue.ordinal, queue.label) == (FAR_GUID, 7, "order 4711")
    assert (queue.queue, queue.address) == (f"DIRECT={nowhere}", WEB_PEER.address)
    assert "there is no queue" in queue.cause
    assert (time.ordinal, time.cause) == (8, "ran out of time on the way")
    assert (room.ordinal, room.times, room.reason) == (9, 2, "MQ_ERROR_INSUFFICIENT_RESOURCES")
    lines = [event.details["id"] for event in rig.events if event.name == "message_refused"]
    assert [line.rpartition("\\")[2] for line in lines] == ["7", "8", "9", "9"]


def test_a_message_that_is_sent_again_is_one_entry_with_both_times() -> None:
    rig = AnswerRig()
    packet = rig.transactional(1, 0, ordinal=9)
    other = rig.transactional(1, 0, ordinal=10)
    rig.take(packet)
    rig.take(other)
    first = rig.clock.utc_seconds
    rig.clock.advance(60_000)
    rig.take(packet)
    again, once = refused(rig)
    assert (again.ordinal, again.times) == (9, 2)
    assert (again.first_utc, again.last_utc) == (first, first + 60)
    assert (once.ordinal, once.times) == (10, 1)
    assert [one.ordinal for one in rig.manager.transfer.refused_arrivals(again.number)] == [10]


def test_a_flood_from_one_address_displaces_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_messages, "ENTRIES_MAX", 10)
    rig = PeerRig()
    rig.take(typo(rig, ordinal=1), peer=OTHER)
    for ordinal in range(2, 40):
        rig.take(typo(rig, ordinal=ordinal))
    found = refused(rig)
    assert [one.ordinal for one in found] == [*range(39, 30, -1), 1]


def test_long_labels_and_names_take_no_more_than_their_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refused_messages, "BYTES_MAX", 20_000)
    rig = PeerRig()
    rig.take(typo(rig, ordinal=1), peer=OTHER)
    for ordinal in range(2, 40):
        name = rf"DIRECT=OS:ALPHA\private$\{'漢' * 120}"
        rig.take(
            rig.packet(b"", ordinal=ordinal, label="字" * 249, destination_queue_format_name=name)
        )
    found = refused(rig)
    assert sum(one.size for one in found) <= 20_000
    assert found[-1].ordinal == 1
    assert 5 < len(found) < 20


def test_texts_of_a_message_over_http_are_cut_in_the_list_and_in_the_log() -> None:
    rig = WebRig()
    url = f"http://alpha/msmq/private$/{'q' * 5_000}"
    assert rig.post(rig.message(url, ordinal=7, action=f"MSMQ:{'x' * 200_000}")) == [400]
    (one,) = refused(rig)
    (line,) = [event.details for event in rig.events if event.name == "message_refused"]
    assert (one.label, line["label"]) == ("x" * 256, "x" * 256)
    assert (one.queue, line["queue"]) == (f"DIRECT={url}"[:256], f"DIRECT={url}"[:256])
    assert one.size < 2_000


# -- dead letters


@pytest.mark.spec(
    "MS-MQQB 3.1.5.8/3",
    "MS-MQQB 3.1.5.8.2/8",
    "MS-MQQB 3.1.5.8.2/10",
    "MS-MQQB 3.1.5.8.3/28",
)
@pytest.mark.parametrize("message_class", CASES)
@pytest.mark.parametrize("asked", [True, False])
def test_what_is_refused_is_a_dead_letter_here_if_its_sender_asked_for_one(
    message_class: int, asked: bool
) -> None:
    rig = PeerRig()
    changed = CASES[message_class](rig)
    packet = rig.packet(b"lost", negative_journaling_requested=asked, **changed)
    rig.take(packet)
    assert rig.bodies(DEAD_LETTERS) == [b"lost"] * asked
    assert rig.reasons(DEAD_LETTERS) == [message_class] * asked
    assert [one.is_kept for one in refused(rig)] == [asked]
    rig.restart()
    rig.take(packet)  # its sender sends it again
    assert rig.bodies(DEAD_LETTERS) == [b"lost"] * asked
    rig.check_books()


def test_a_sender_that_may_send_to_no_queue_here_fills_no_dead_letters() -> None:
    rig = PeerRig()
    rig.take(typo(rig, ordinal=1, **KEEP))
    rig.deny("orders", EVERYONE, WRITE_MESSAGE)
    rig.clock.advance(60_000)
    rig.take(typo(rig, ordinal=2, **KEEP))
    assert len(rig.bodies(DEAD_LETTERS)) == 1
    assert [one.is_kept for one in refused(rig)] == [False, True]


def test_a_refused_message_has_all_queues_looked_at_once_a_minute() -> None:
    rig = PeerRig()
    for number in range(100):
        rig.create(f"q{number}")
        rig.deny(f"q{number}", EVERYONE, WRITE_MESSAGE)
    rig.deny("orders", EVERYONE, WRITE_MESSAGE)
    cost = [steps(partial(rig.take, typo(rig, **KEEP))) for _ in range(3)]
    assert cost[1] < cost[0] / 3
    assert cost[2] < cost[0] / 3
    rig.clock.advance(60_000)
    assert steps(partial(rig.take, typo(rig, **KEEP))) > 2 * cost[1]


def test_a_refused_transactional_message_stays_at_its_sender_only() -> None:
    rig = AnswerRig()
    rig.take(rig.transactional(1, 0, ordinal=9, **KEEP))
    rig.take(rig.transactional(1, 0, ordinal=10, destination_queue_format_name=NOWHERE, **KEEP))
    assert [one.is_kept for one in refused(rig)] == [False, False]
    assert rig.bodies(DEAD_LETTERS) == []


@pytest.mark.parametrize("limit", ["PART_MESSAGES", "MESSAGES_MAX", "PART_BYTES", "BYTES_MAX"])
def test_a_flood_of_refused_messages_ends_at_its_limit(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = PeerRig()
    size = len(typo(rig, ordinal=1, **KEEP))
    most = 3 * (size if "BYTES" in limit else 1)
    monkeypatch.setattr(arrival_dead_letters, limit, most)
    for ordinal in range(1, 9):
        rig.take(typo(rig, ordinal=ordinal, **KEEP))
    assert len(rig.bodies(DEAD_LETTERS)) == 3
    rig.take(typo(rig, ordinal=9, **KEEP), peer=OTHER)
    has_part = limit.startswith("PART")
    assert len(rig.bodies(DEAD_LETTERS)) == 3 + has_part
    rig.clock.advance(3_600_000)
    rig.take(typo(rig, ordinal=10, **KEEP))
    assert len(rig.bodies(DEAD_LETTERS)) == 3 + 2 * has_part
    rig.check_books()


def test_a_machine_without_room_keeps_no_refused_message() -> None:
    rig = PeerRig(machine_quota_kib=1)
    rig.take(typo(rig, ordinal=1, **KEEP))
    assert len(rig.bodies(DEAD_LETTERS)) == 1
    rig.take(rig.packet(bytes(600), ordinal=2))
    assert rig.bodies("orders") == [bytes(600)]
    rig.take(typo(rig, ordinal=3, **KEEP))
    assert len(rig.bodies(DEAD_LETTERS)) == 1
