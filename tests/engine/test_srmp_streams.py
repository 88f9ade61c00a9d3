"""Incoming streams and their receipts ([MC-MQSRM] 3.1.1.2, 3.1.1.3.2, 3.1.5.1.6.3-4, 3.1.6.3)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.message_classes import ORDER_ACK
from posthouse.wire.srmp.message import SrmpMessage
from tests.engine.letters import FAR_GUID
from tests.engine.web import (
    FAR,
    RECEIPTS,
    RECEIPTS_NAME,
    SEQUENCE,
    STRANGER,
    STREAMED,
    WebRig,
    stream_id,
)

LATER = SEQUENCE + 1
OTHER_GUID = b"other sender's g"


@pytest.fixture
def rig() -> WebRig:
    return WebRig()


def numbers(rig: WebRig) -> list[int]:
    return [message.transaction_sequence_number for message in rig.messages("streamed")]


# -- what is accepted (3.1.5.1.6.3)


@pytest.mark.spec(
    "MC-MQSRM 3.1.5.1.6.3/1",
    "MC-MQSRM 3.1.5.1.6.3/2",
    "MC-MQSRM 3.1.5.1.6.3/7",
    "MC-MQSRM 3.1.5.1.6.3/8",
    "MC-MQSRM 3.1.1.2/1",
    "MC-MQSRM 3.1.1.4.2/2",
    "MC-MQSRM 3.1.1.1.2.5/1",
    "MC-MQSRM 2.2.5.3/3",
)
def test_a_stream_begins_with_its_first_message_and_goes_on(rig: WebRig) -> None:
    rig.post_stream(1, 2, 3)
    assert rig.bodies("streamed") == [b"1", b"2", b"3"]
    (known,) = rig.known()
    assert (known.sequence_id, known.sequence_number) == (SEQUENCE, 3)
    assert known.stream_id == stream_id(FAR_GUID, SEQUENCE)
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.3/3", "MC-MQSRM 3.1.1.2/2", "MC-MQSRM 3.1.1.2/3")
def test_gaps_are_bridged_by_previous(rig: WebRig) -> None:
    rig.post_stream(1)
    assert rig.post(rig.streamed(5, 1), rig.streamed(9, 3)) == [200, 200]
    assert numbers(rig) == [1, 5, 9]


@pytest.mark.spec("MC-MQSRM 3.1.1.2/3", "MC-MQSRM 3.1.5.1.6.3/1")
def test_a_stream_whose_first_messages_expired_begins_later(rig: WebRig) -> None:
    """Decision 76: previous 0 and start."""
    assert rig.post(rig.streamed(3, 0), rig.streamed(4)) == [200, 200]
    assert numbers(rig) == [3, 4]


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.3/4", "MC-MQSRM 3.1.1.2/2", "MC-MQSRM 3.1.1.2/5")
@pytest.mark.spec("MC-MQSRM 2.2.5.3/3", "MC-MQSRM 3.1.1.1.2.5/1")
@pytest.mark.parametrize(
    ("current", "previous", "sequence", "start"),
    [
        (1, 0, SEQUENCE, RECEIPTS),  # a duplicate
        (2, 1, SEQUENCE, None),
        (4, 3, SEQUENCE, None),  # too early
        (9, 5, SEQUENCE, None),
        (1, 0, SEQUENCE - 1, RECEIPTS),  # an older stream
        (3, 2, SEQUENCE - 1, None),
        (2, 1, LATER, None),  # the middle of a new one
        (1, 0, LATER, None),  # without start
    ],
)
def test_what_is_out_of_order_is_answered_200_and_ignored(
    rig: WebRig, current: int, previous: int, sequence: int, start: str | None
) -> None:
    rig.post_stream(1, 2)
    message = rig.streamed(current, previous, sequence=sequence, receipts_to=start)
    assert rig.post(message, body=b"again") == [200]
    assert rig.bodies("streamed") == [b"1", b"2"]
    (known,) = rig.known()
    assert (known.sequence_id, known.sequence_number) == (SEQUENCE, 2)


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.3/4")
def test_the_middle_of_an_unknown_stream_is_ignored_and_nothing_is_kept(rig: WebRig) -> None:
    before = rig.manager.ledger.state.dump()
    assert rig.post(rig.streamed(2)) == [200]
    assert rig.manager.ledger.state.dump() == before


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.3/7", "MC-MQSRM 3.1.5.1.6.3/14")
def test_a_later_stream_takes_the_place_of_the_one_before(rig: WebRig) -> None:
    rig.post_stream(1, 2)
    rig.advance(1)
    (known,) = rig.known()
    assert known.acknowledged == 2
    rig.post_stream(1, sequence=LATER)
    (known,) = rig.known()
    assert (known.sequence_id, known.sequence_number, known.acknowledged) == (LATER, 1, 0)
    assert rig.post(rig.streamed(3)) == [200]
    assert rig.bodies("streamed") == [b"1", b"2", b"1"]


@pytest.mark.spec("MC-MQSRM 3.1.3.2/3")
def test_a_new_stream_takes_nothing_over_from_the_one_before(rig: WebRig) -> None:
    rig.post_stream(1, 2)
    rig.advance(1)
    rig.collect()
    for number in range(3, 26):  # the oldest message without a receipt comes close to ten seconds
        rig.post_stream(number)
        rig.advance(0.4)
    assert rig.receipts() == []
    elsewhere = f"http://{FAR}/msmq/private$/receipts"
    assert rig.post(rig.streamed(1, sequence=LATER, receipts_to=elsewhere)) == [200]
    (known,) = rig.known()
    assert (known.sequence_id, known.sequence_number, known.acknowledged) == (LATER, 1, 0)
    assert known.receipts_to.casefold() == f"DIRECT={elsewhere}".casefold()
    for number in range(2, 6):  # the ten seconds count from the first message of the new stream
        rig.advance(0.4)
        rig.post_stream(number, sequence=LATER)
    assert rig.receipts() == []
    assert rig.receipts(f"DIRECT={elsewhere}") == []
    rig.advance(0.5)
    assert [r.last_ordinal for r in rig.receipts(f"DIRECT={elsewhere}")] == [5]


@pytest.mark.spec("MC-MQSRM 3.1.1.1.6/4", "MC-MQSRM 3.1.5.1.6.3/6", "MC-MQSRM 3.1.1.1.5/5")
def test_each_sender_and_each_queue_has_a_stream_of_its_own(rig: WebRig) -> None:
    rig.create("second", transactional=True)
    second = "http://alpha/msmq/private$/second"
    rig.post_stream(1, 2)
    rig.post_stream(1, guid=OTHER_GUID, source_guid=OTHER_GUID)
    rig.post_stream(1, to=second)
    rig.post_stream(3)
    rig.post_stream(2, guid=OTHER_GUID, source_guid=OTHER_GUID)
    rig.post_stream(2, to=second)
    assert rig.bodies("streamed") == [b"1", b"2", b"1", b"3", b"2"]
    assert rig.bodies("second") == [b"1", b"2"]
    assert [known.sequence_number for known in rig.known()] == [3, 2]


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.3/6")
def test_a_stranger_under_the_same_guid_does_not_reset_a_stream(rig: WebRig) -> None:
    """Decision 65: GUIDs can be made up, so a stream is also known by where it comes from."""
    rig.post_stream(1, 2)
    fake = rig.streamed(1, sequence=rig.utc << 32, receipts_to="http://203.0.113.9/msmq/x")
    assert rig.post(fake, body=b"fake", peer=STRANGER) == [200]
    rig.post_stream(3, 4)
    assert rig.bodies("streamed") == [b"1", b"2", b"fake", b"3", b"4"]
    rig.post_stream(1, sequence=LATER)
    rig.advance(1)
    assert [r.last_ordinal for r in rig.receipts()][-1] == 1


def test_a_sender_that_moves_goes_on_with_its_stream(rig: WebRig) -> None:
    messages = [rig.streamed(number) for number in (1, 2, 3)]
    assert rig.post(*messages[:2]) == [200, 200]
    rig.advance(1)
    moved = Peer(b"", "192.0.2.99")
    for _ in range(2):
        assert rig.post(*messages[1:], peer=moved) == [200, 200]
    rig.advance(1)
    assert numbers(rig) == [1, 2, 3]
    assert {known.via: known.sequence_number for known in rig.known()} == {FAR: 2, moved.host: 3}
    assert [receipt.last_ordinal for receipt in rig.receipts()] == [2]
    there = RECEIPTS_NAME.replace(FAR, moved.host)
    assert [receipt.last_ordinal for receipt in rig.receipts(there)] == [3]


ASTRAY = "http://203.0.113.9:9999/msmq/private$/astray"


def repeated(rig: WebRig, message: SrmpMessage) -> None:
    """A stranger sends a captured message again, and wants its receipts elsewhere."""
    assert message.stream is not None
    stream = message.stream._replace(send_receipts_to=ASTRAY)
    assert rig.post(replace(message, stream=stream), peer=STRANGER) == [200]


def test_a_sender_that_moves_is_answered_as_before_whatever_a_stranger_asks_for(
    rig: WebRig,
) -> None:
    messages = [rig.streamed(number) for number in (1, 2, 3)]
    assert rig.post(*messages[:2]) == [200, 200]
    repeated(rig, messages[1])
    assert len({known.sequence_number for known in rig.known()}) == 1
    moved = Peer(b"", "192.0.2.99")
    assert rig.post(messages[2], peer=moved) == [200]
    rig.advance(1)
    there = RECEIPTS_NAME.replace(FAR, moved.host)
    assert [receipt.last_ordinal for receipt in rig.receipts(there)] == [3]


def test_receipts_that_went_astray_are_led_to_the_next_address(rig: WebRig) -> None:
    """A stranger has sent more in the stream than the machine has."""
    messages = [rig.streamed(number, dead_letter=True) for number in (1, 2, 3)]
    assert rig.post(messages[0]) == [200]
    repeated(rig, messages[0])
    moved = Peer(b"", "192.0.2.99")
    for known in rig.known():
        known.accepted = 9 if known.via == STRANGER.host else 1
    assert rig.post(*messages[1:], peer=moved) == [200, 200]
    rig.advance(1)
    there = RECEIPTS_NAME.replace(FAR, moved.host)
    assert rig.receipts(there) == []
    rig.receive("streamed")
    rig.receive("streamed")
    assert rig.receipts(there) == []
    for _ in range(2):
        rig.advance(30)
        assert rig.post(*messages[1:], peer=moved) == [200, 200]  # its sender has had no receipt
        rig.advance(1)
    assert 3 in [receipt.last_ordinal for receipt in rig.receipts(there) if not receipt.final]
    assert any(receipt.final for receipt in rig.receipts(there))


def finals(rig: WebRig, host: str) -> list[tuple[str, int]]:
    """The final receipts that wait for a host: stream and number."""
    found = rig.receipts(RECEIPTS_NAME.replace(FAR, host))
    return [(receipt.stream_id, receipt.last_ordinal) for receipt in found if receipt.final]


@pytest.mark.parametrize("begins_anew", [False, True])
def test_what_is_received_before_a_sender_that_moves_has_sent_it_again_is_told_to_it(
    rig: WebRig, begins_anew: bool
) -> None:
    """Seed 288 of the trials with a stranger: the sender is cut off while it sends again."""
    messages = [rig.streamed(number, dead_letter=True) for number in (1, 2, 3, 4)]
    assert rig.post(*messages) == [200] * 4
    rig.advance(1)
    moved = Peer(b"", "192.0.2.99")
    assert rig.post(messages[1], peer=moved) == [200]
    assert rig.post(messages[1], peer=STRANGER) == [200]
    rig.advance(1)
    for _ in messages:
        rig.receive("streamed")
    name = stream_id(FAR_GUID, SEQUENCE)
    expected = [(name, number) for number in (1, 2, 3, 4)]
    assert finals(rig, FAR) == expected
    assert finals(rig, moved.host) == finals(rig, STRANGER.host) == expected[:2]
    assert rig.post(*messages[2:], peer=moved) == [200] * 2
    if begins_anew:
        assert rig.post(rig.streamed(1, sequence=LATER), peer=moved) == [200]
    for _ in range(3):
        rig.advance(30)
        assert rig.post(*messages[1:], peer=moved) == [200] * 3
        assert rig.post(messages[1], peer=STRANGER) == [200]
    rig.advance(1)
    assert finals(rig, moved.host) == expected
    assert finals(rig, STRANGER.host) == expected[:2]
    rig.check_books()


@pytest.mark.parametrize("takes", [True, False])
def test_a_sender_that_moves_gets_final_receipts_from_where_it_was_whoever_came_between(
    rig: WebRig, takes: bool
) -> None:
    """A stranger has repeated more than the machine has sent, and may take its receipts."""
    messages = [rig.streamed(number, dead_letter=True) for number in (1, 2, 3)]
    moved = Peer(b"", "192.0.2.99")
    assert rig.post(*messages) == [200] * 3
    assert rig.post(messages[0], peer=moved) == [200]
    assert rig.post(*messages, peer=STRANGER) == [200] * 3
    for known in rig.known():
        known.accepted += 9 if known.via == STRANGER.host else 0
    rig.advance(1)
    for _ in messages:
        rig.receive("streamed")
    if takes:
        rig.collect(RECEIPTS_NAME.replace(FAR, STRANGER.host))
    assert rig.post(*messages[1:], peer=moved) == [200] * 2
    rig.advance(1)
    assert sorted(number for _, number in finals(rig, moved.host)) == [1, 2, 3]


def test_final_receipts_are_copied_once_for_a_sender_that_goes_on_elsewhere(rig: WebRig) -> None:
    messages = [rig.streamed(number, dead_letter=True) for number in (1, 2, 3)]
    assert rig.post(*messages[:2]) == [200] * 2
    rig.receive("streamed")
    rig.receive("streamed")
    moved = Peer(b"", "192.0.2.99")
    assert rig.post(messages[2], peer=moved) == [200]
    rig.advance(1)
    assert [number for _, number in finals(rig, moved.host)] == [1, 2]


@pytest.mark.parametrize("first", [True, False])
def test_a_stranger_in_the_stream_of_another_eats_nothing_of_it(rig: WebRig, first: bool) -> None:
    """Finding F2 over HTTP: the receipt that fits what the machine has sent, and nobody stored."""
    real = [rig.streamed(number) for number in range(1, 7)]
    evil = [rig.streamed(number) for number in range(1, 10)]
    begin = 0 if first else 3
    if not first:
        assert rig.post(*real[:3]) == [200] * 3
    assert rig.post(*evil[begin:], body=b"evil", peer=STRANGER) == [200] * (9 - begin)
    rig.restart()
    assert rig.post(*real) == [200] * 6
    assert rig.post(*real) == [200] * 6
    bodies = rig.bodies("streamed")
    assert bodies.count(b"evil") == 9 - begin
    assert len(bodies) - bodies.count(b"evil") == 6
    rig.advance(1)
    assert rig.receipts()[-1].last_ordinal == 6
    assert all(receipt.last_ordinal <= 6 for receipt in rig.receipts())


def test_what_became_of_a_message_of_a_stream_is_told_to_the_host_that_sent_it(
    rig: WebRig,
) -> None:
    wants = {"negative_journal": True} if False else {}
    real = rig.streamed(1, **wants)
    rig.post(real)
    rig.post(rig.streamed(2), body=b"evil", peer=STRANGER)
    assert {known.via for known in rig.known()} == {FAR, STRANGER.host}
    for known in rig.known():
        assert STRANGER.host not in known.receipts_to or known.via == STRANGER.host
        assert FAR not in known.receipts_to or known.via == FAR


# -- statistics (3.1.5.1.6.4)


@pytest.mark.spec(
    "MC-MQSRM 3.1.5.1.6.4/1",
    "MC-MQSRM 3.1.5.1.6.4/3",
    "MC-MQSRM 3.1.5.1.6.4/4",
    "MC-MQSRM 3.1.5.1.6.4/5",
)
def test_the_transfer_info_tells_of_the_stream(rig: WebRig) -> None:
    rig.post_stream(1)
    (known,) = rig.known()
    assert known.format_name == f"DIRECT={STREAMED}"
    assert (known.source, known.sequence_id) == (FAR_GUID, SEQUENCE)
    assert (known.sequence_number, known.last_access_time) == (1, rig.utc)
    rig.advance(5)
    rig.post(rig.streamed(1), rig.streamed(7))
    (known,) = rig.known()
    assert (known.reject_count, known.last_access_time) == (2, rig.utc)
    rig.post_stream(2)
    (known,) = rig.known()
    assert (known.sequence_number, known.rejected) == (2, 0)
    rig.post(rig.streamed(2))
    assert rig.known()[0].reject_count == 1


# -- receipts (3.1.1.3.2, 3.1.2.3, 3.1.6.3)


@pytest.mark.spec(
    "MC-MQSRM 3.1.6.3/1",
    "MC-MQSRM 3.1.6.3/3",
    "MC-MQSRM 3.1.6.3/4",
    "MC-MQSRM 3.1.6.3/5",
    "MC-MQSRM 3.1.6.3/6",
    "MC-MQSRM 3.1.1.3.2/1",
    "MC-MQSRM 3.1.1.4.2/1",
    "MC-MQSRM 3.1.1.3.2/2",
    "MC-MQSRM 3.1.1.1.6/3",
)
def test_one_receipt_acknowledges_what_came_in_quick_succession(rig: WebRig) -> None:
    rig.post_stream(1, 2)
    assert rig.known()[0].acknowledged == 0
    rig.advance(1)
    (packet,) = rig.waiting(RECEIPTS_NAME)
    request, message = rig.request(packet)
    assert (request.url, message.to) == (RECEIPTS, RECEIPTS)
    assert (message.message_class, message.action) == (ORDER_ACK, "MSMQ:QM Ordering Ack")
    assert message.stream_receipt is not None
    assert message.stream_receipt.stream_id == stream_id(FAR_GUID, SEQUENCE)
    assert message.stream_receipt.last_ordinal == 2
    assert rig.known()[0].acknowledged == 2
    rig.advance(60)
    assert len(rig.receipts()) == 1


@pytest.mark.spec("MC-MQSRM 3.1.6.3/4")
def test_the_receipt_names_the_stream_as_its_sender_did(rig: WebRig) -> None:
    written = stream_id(FAR_GUID, SEQUENCE).upper().replace("UID:", "uid:")
    message = rig.streamed(1)
    assert message.stream is not None
    message.stream = message.stream._replace(stream_id=written)
    assert rig.post(message) == [200]
    rig.advance(1)
    (receipt,) = rig.receipts()
    assert receipt.stream_id == written


@pytest.mark.spec(
    "MC-MQSRM 3.1.1.3.2/4",
    "MC-MQSRM 3.1.2.3/1",
    "MC-MQSRM 3.1.5.1.6.3/11",
    "MC-MQSRM 3.1.5.1.6.3/12",
    "MC-MQSRM 3.1.5.1.6.3/10",
    "MC-MQSRM 3.1.5.1.6.3/13",
    "MC-MQSRM 3.1.1.1.6/5",
)
def test_each_message_puts_the_receipt_off_but_not_beyond_ten_seconds(rig: WebRig) -> None:
    number = 0
    for _ in range(25):  # one each 0.4 s, for 9.6 s
        number += 1
        rig.post_stream(number)
        rig.advance(0.4)
        assert rig.receipts() == []
    number += 1
    rig.post_stream(number)  # the oldest has waited for ten seconds
    assert rig.collect() == [number]
    rig.advance(60)
    assert rig.receipts() == []
    rig.post_stream(number + 1)  # and now it waits again
    rig.advance(0.4)
    assert rig.receipts() == []
    rig.advance(0.1)
    assert rig.collect() == [number + 1]


@pytest.mark.spec("MC-MQSRM 3.1.2.3/1", "MC-MQSRM 3.1.1.3.2/2", "MC-MQSRM 3.1.1.1.5/5")
def test_every_stream_has_a_timer_and_a_receipt_of_its_own(rig: WebRig) -> None:
    there = "http://192.0.2.7/msmq/private$/other"
    rig.post_stream(1, 2)
    rig.post_stream(1, guid=OTHER_GUID, source_guid=OTHER_GUID, receipts_to=there)
    rig.advance(0.5)
    assert [r.last_ordinal for r in rig.receipts()] == [2]
    assert [r.last_ordinal for r in rig.receipts(f"DIRECT={there}")] == [1]
    assert rig.receipts(f"DIRECT={there}")[0].stream_id == stream_id(OTHER_GUID, SEQUENCE)


@pytest.mark.spec("MC-MQSRM 3.1.6.3/2", "MC-MQSRM 3.1.1.3.2/3")
def test_a_receipt_goes_as_far_as_was_accepted_over_gaps_and_no_further(rig: WebRig) -> None:
    rig.post_stream(1)
    assert rig.post(rig.streamed(5, 1), rig.streamed(8, 7)) == [200, 200]  # 8 comes too early
    rig.advance(1)
    assert [receipt.last_ordinal for receipt in rig.receipts()] == [5]


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.3/5")
def test_a_repeated_message_brings_its_receipt_again(rig: WebRig) -> None:
    rig.post_stream(1, 2)
    rig.advance(1)
    assert rig.collect() == [2]
    assert rig.post(rig.streamed(1), rig.streamed(2)) == [200, 200]
    rig.advance(1)
    assert rig.collect() == [2]
    assert rig.bodies("streamed") == [b"1", b"2"]


@pytest.mark.spec(
    "MC-MQSRM 3.1.5.1.6.3/9",
    "MC-MQSRM 3.1.1.1.6/5",
    "MC-MQSRM 3.1.3.2/1",
    "MC-MQSRM 3.1.3.2/4",
    "MC-MQSRM 3.1.4.1/1",
)
def test_the_receipt_address_is_that_of_the_first_message_also_after_a_restart(
    rig: WebRig,
) -> None:
    rig.post_stream(1)
    rig.restart()
    rig.post_stream(2)
    rig.restart()
    (known,) = rig.known()
    assert known.receipts_to.casefold() == RECEIPTS_NAME.casefold()
    rig.advance(1)
    assert [receipt.last_ordinal for receipt in rig.receipts()] == [2]


@pytest.mark.spec(
    "MC-MQSRM 3.1.1.1.6/2",
    "MC-MQSRM 3.1.1.1.6/3",
    "MC-MQSRM 3.1.3.2/4",
    "MC-MQSRM 3.1.1.1.1/1",
    "MC-MQSRM 3.1.3.1/1",
)
def test_what_was_not_acknowledged_before_a_restart_is_afterwards(rig: WebRig) -> None:
    rig.post_stream(1, 2)
    rig.advance(1)
    assert rig.known()[0].acknowledged == 2
    rig.restart()
    rig.advance(60)
    assert rig.receipts() == []  # that one was express, and everything was acknowledged
    rig.post_stream(3)
    rig.restart()
    (known,) = rig.known()
    assert (known.sequence_number, known.acknowledged) == (3, 2)
    assert rig.post(rig.streamed(3), rig.streamed(4)) == [200, 200]
    rig.advance(1)
    assert [receipt.last_ordinal for receipt in rig.receipts()] == [4]
    assert numbers(rig) == [1, 2, 3, 4]


@pytest.mark.spec("MC-MQSRM 3.1.2.3/2")
def test_the_timer_runs_from_when_a_message_is_safe(rig: WebRig) -> None:
    streams = rig.manager.transfer.srmp.streams
    assert streams.next_deadline_ms() is None
    rig.post_stream(1)
    assert streams.next_deadline_ms() == rig.clock.now_ms + 500
    assert rig.store.synced == rig.store.appended
    assert rig.post(rig.streamed(1, guid=OTHER_GUID, to="http://alpha/msmq/private$/no")) == [400]
    assert streams.next_deadline_ms() == rig.clock.now_ms + 500


@pytest.mark.spec("MC-MQSRM 3.1.2/1")
def test_both_times_of_a_receipt_are_settings() -> None:
    rig = WebRig(srmp_receipt_ms=50, srmp_receipt_max_ms=100)
    rig.post_stream(1)
    rig.advance(0.05)
    assert rig.collect() == [1]
    for number in (2, 3, 4):
        rig.post_stream(number)
        rig.advance(0.04)
    rig.post_stream(5)
    assert rig.collect() == [5]


def test_receipts_nobody_takes_are_not_piled_up(rig: WebRig) -> None:
    for number in (1, 2, 3):
        rig.post_stream(number)
        rig.advance(1)
        rig.post(rig.streamed(number))
        rig.advance(1)
        assert [receipt.last_ordinal for receipt in rig.receipts()] == [number]
    rig.take(RECEIPTS_NAME)  # on its way: another one follows it
    rig.post_stream(4)
    rig.advance(1)
    assert [receipt.last_ordinal for receipt in rig.receipts()] == [3, 4]
    rig.check_books()


def test_a_peer_has_so_many_receipts_waiting_and_no_more(rig: WebRig, monkeypatch: Any) -> None:
    monkeypatch.setattr("posthouse.engine.transfer.srmp.streams.ANSWERS_MAX", 2)
    for at in range(3):
        guid = bytes([65 + at]) * 16
        rig.post_stream(1, guid=guid, source_guid=guid)
        rig.advance(1)
    assert len(rig.receipts()) == 2
    assert [known.acknowledged for known in rig.known()] == [1, 1, 0]


@pytest.mark.parametrize("again", [False, True], ids=["at once", "after a restart"])
def test_a_deleted_queue_still_tells_what_it_accepted(rig: WebRig, again: bool) -> None:
    rig.post_stream(1, 2)
    rig.delete("streamed")
    if again:
        rig.restart()
    rig.advance(1)
    assert rig.collect() == [2]
    rig.check_books()


@pytest.mark.parametrize("again", [False, True], ids=["at once", "after a restart"])
def test_a_queue_made_anew_goes_on_with_the_streams_of_the_last_one(
    rig: WebRig, again: bool
) -> None:
    rig.post_stream(1, 2)
    rig.delete("streamed")
    if again:
        rig.restart()
    rig.create("streamed", transactional=True)
    assert rig.known() == []
    rig.post_stream(1, 2, 3)
    assert rig.bodies("streamed") == [b"3"]
    rig.advance(1)
    assert rig.collect()[-1] == 3
    rig.check_books()


def test_what_a_deleted_queue_accepted_is_not_refused_when_it_comes_again(rig: WebRig) -> None:
    rig.post_stream(1, 2)
    rig.advance(1)
    assert rig.collect() == [2]
    rig.delete("streamed")
    assert rig.post(rig.streamed(2), rig.streamed(3)) == [200, 400]
    rig.advance(1)
    assert rig.collect() == [2]  # said once more
    rig.check_books()


@pytest.mark.parametrize("again", [False, True], ids=["at once", "after a restart"])
def test_a_sender_that_has_moved_is_told_what_a_deleted_queue_accepted(
    rig: WebRig, again: bool
) -> None:
    messages = [rig.streamed(number, dead_letter=True) for number in (1, 2)]
    assert rig.post(*messages) == [200, 200]
    rig.delete("streamed")
    if again:
        rig.restart()
    moved, there = Peer(b"", "192.0.2.99"), RECEIPTS_NAME.replace(FAR, "192.0.2.99")
    assert rig.post(messages[1], body=b"of a stranger", peer=moved) == [400]
    rig.advance(1)
    assert rig.receipts(there) == []
    for _ in range(2):  # a receipt that was lost is sent once more
        assert rig.post(*messages, peer=moved) == [200, 200]
        rig.advance(1)
        found = rig.receipts(there)
        assert [one.last_ordinal for one in found if not one.final] == [2]
        assert sorted(one.last_ordinal for one in found if one.final) == [1, 2]
        rig.collect(there)
    rig.check_books()


def test_a_stranger_in_a_stream_does_not_lead_the_receipts_of_one_that_has_moved_astray(
    rig: WebRig,
) -> None:
    """Who moved is answered where it was answered before, not where the one with most asked for."""
    messages = [rig.streamed(number) for number in (1, 2)]
    assert rig.post(*messages) == [200, 200]
    stranger = Peer(b"", "192.0.2.66")
    for number in range(1, 9):
        elsewhere = "http://192.0.2.66:8080/msmq/private$/order_queue$"
        message = rig.streamed(number, receipts_to=elsewhere)
        assert rig.post(message, body=b"made up %d" % number, peer=stranger) == [200]
    rig.delete("streamed")
    moved, there = Peer(b"", "192.0.2.99"), RECEIPTS_NAME.replace(FAR, "192.0.2.99")
    assert rig.post(*messages, peer=moved) == [200, 200]
    rig.advance(1)
    assert [one.last_ordinal for one in rig.receipts(there)] == [2]
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.5.1.6.3/6")
def test_a_stream_is_the_same_however_its_url_is_written(rig: WebRig) -> None:
    spellings = [STREAMED, STREAMED.upper(), STREAMED.replace("streamed", "%73treame%64")]
    for number, url in enumerate(spellings, 1):
        assert rig.post(rig.streamed(number, to=url), body=b"%d" % number) == [200]
    assert rig.bodies("streamed") == [b"1", b"2", b"3"]
    (known,) = rig.known()
    assert known.sequence_number == 3


def test_receipts_that_wait_are_remembered_up_to_a_limit(
    rig: WebRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.engine.transfer.srmp.streams.UNSENT_MAX", 3)
    for number in range(8):
        assert rig.post(rig.streamed(1, guid=bytes([number] * 16))) == [200]
        rig.advance(1)
    assert len(rig.receipts()) == 8
    assert len(rig.manager.transfer.srmp.streams._unsent) == 3
