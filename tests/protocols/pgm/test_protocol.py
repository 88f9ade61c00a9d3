"""Multicast messages between queue managers (MC-MQSRM 2.1.2, 3.1.5.1.3, 3.1.7.9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from posthouse.engine.queues.queue import OutgoingQueueState, Queue
from posthouse.protocols.pgm.session import MulticastPlace
from posthouse.protocols.pgm.srmp_bridge import read_unit, write_unit
from posthouse.sim.clock import SimClock
from posthouse.wire.pgm.packets import (
    NAK,
    ODATA,
    RDATA,
    SPM,
    PgmPacket,
    Spm,
    Tsi,
    pack_data,
    pack_nak,
    read_pgm,
    unpack_nla,
)
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.mime_parts import read_parts
from tests.protocols.binary.memory_net import ADMIN
from tests.protocols.pgm.air import FAST, Air, Station, quick

VECTORS = Path(__file__).parents[2] / "vectors"
PLACE = MulticastPlace("234.1.1.1", 8001)
NAME = f"MULTICAST={PLACE}"
HERE, THERE = "10.0.0.1", "10.0.0.2"


def pair(**changes: int) -> tuple[Air, Station, Station]:
    air = Air()
    settings = quick(**changes)
    return air, air.station("ALPHA", HERE, settings), air.station("BRAVO", THERE, settings)


def packets(air: Air, *kinds: int) -> list[PgmPacket]:
    read = [read_pgm(packet) for _, packet in air.carried]
    return [packet for packet in read if packet.header.type in kinds]


def listening(station: Station, name: str = "quotes", place: MulticastPlace = PLACE) -> str:
    station.create(f".\\private$\\{name}", multicast_address=str(place))
    return f"{station.name}\\private$\\{name}"


@pytest.mark.spec("MC-MQSRM 2.1.2/1", "MC-MQSRM 2.1.2/2", "MC-MQSRM 3.1.5.1.3/1")
def test_a_copy_comes_into_each_queue_with_the_address_and_into_no_other() -> None:
    air, alpha, bravo = pair()
    quotes, also = listening(bravo), listening(bravo, "also")
    other = listening(bravo, "other", MulticastPlace(PLACE.group, 8002))
    plain = bravo.create(r".\private$\plain")
    own = listening(alpha)
    alpha.send(NAME, b"one", b"two", b"three", express=True)
    air.advance(1_000)
    for station, queue in ((bravo, quotes), (bravo, also), (alpha, own)):
        assert station.bodies(queue) == [b"one", b"two", b"three"]
    assert bravo.bodies(other) == []
    assert plain.state.count == 0
    assert alpha.outgoing(NAME).state.count == 0


@pytest.mark.spec("MC-MQSRM 2.1.2/3", "MC-MQSRM 2.2.4.2/3", "MC-MQSRM 3.1.7.9/2")
def test_a_message_goes_as_soap_behind_an_http_head_to_the_place_of_its_name() -> None:
    air, alpha, _ = pair()
    alpha.send(NAME, b"body", label="mqsender label", express=True)
    air.advance(1_000)
    (packet,) = packets(air, ODATA)
    assert {group for group, _ in air.carried} == {PLACE.group}
    assert packet.port == PLACE.port
    head, content_type, payload = read_unit(packet.data)
    assert head.split(b"\r\n")[:3] == [
        b"POST 234.1.1.1:8001 HTTP/1.1",
        b"Host: 234.1.1.1:8001",
        head.split(b"\r\n")[2],
    ]
    assert b'\r\nSOAPAction: "MSMQMessage"\r\n' in head
    assert f"Content-Length: {len(payload)}".encode() in head
    parts = read_parts(content_type, payload)
    envelope = read_envelope(parts.envelope)
    assert (envelope.to, envelope.action) == (f"MSMQ:{NAME}", "MSMQ:mqsender label")
    assert (envelope.stream, parts.body) == (None, b"body")


@pytest.mark.spec("PGM/24", "PGM/7", "PGM/19")
def test_one_session_carries_what_is_sent_to_a_name() -> None:
    air, alpha, _ = pair()
    for text in (b"one", b"two"):
        alpha.send(NAME, text, express=True)
        air.advance(5_000)
    alpha.send("MULTICAST=234.1.1.1:9", b"three", express=True)
    air.advance(1_000)
    sessions = {packet.tsi for packet in packets(air, ODATA, SPM)}
    assert len(sessions) == 2
    spm = packets(air, SPM)[0].body
    assert isinstance(spm, Spm)
    assert unpack_nla(spm.path) == HERE


@pytest.mark.spec("MC-MQSRM 2.1.2/5", "MC-MQSRM 3.1.7.2.5/13")
def test_a_message_counts_as_sent_when_pgm_has_it_and_nobody_answers() -> None:
    air, alpha, bravo = pair()
    quotes = listening(bravo)
    air.carried.clear()
    alpha.send(NAME, b"for nobody", b"for nobody else", express=True)
    queue = alpha.outgoing(NAME)
    assert queue.state.count == 0  # nobody has acknowledged anything, and nobody will
    air.advance(1_000)
    assert len(bravo.bodies(quotes)) == 2
    assert {packet.header.type for packet in packets(air, *range(16))} == {SPM, ODATA}


def test_recoverable_messages_wait_for_their_turn_and_leave_as_a_whole() -> None:
    air, alpha, _ = pair(rate=20_000)
    alpha.send(NAME, *[b"x" * 5_000] * 10)
    queue = alpha.outgoing(NAME)
    assert queue.state.count == 10
    counts = []
    for _ in range(4):
        air.advance(500)
        counts.append(queue.state.count)
    assert counts == sorted(counts, reverse=True)
    assert 0 < counts[-1] < 10
    air.advance(10_000)
    assert queue.state.count == 0


@pytest.mark.spec("PGM/27", "PGM/34", "MC-MQSRM 2.1.3/5")
def test_what_is_lost_is_asked_for_at_its_source_and_before_the_neighbours() -> None:
    air, alpha, bravo = pair()
    quotes = listening(bravo)
    alpha.send(NAME, b"before", express=True)
    air.advance(1_000)
    air.loses = lambda kind, packet: kind == ODATA and b"lost" in packet
    alpha.send(NAME, b"lost", b"after", express=True)
    air.advance(1_000)
    assert bravo.bodies(quotes) == [b"before", b"lost", b"after"]
    naks = [(to, packet) for to, packet in air.carried if packet[4] == NAK]
    assert [to for to, _ in naks] == [HERE, PLACE.group]
    assert naks[0][1] == naks[1][1]
    assert len(packets(air, RDATA)) == 1


@pytest.mark.spec("PGM/37")
def test_a_loss_for_ever_is_told_and_counted() -> None:
    air, alpha, bravo = pair()
    quotes = listening(bravo)
    alpha.send(NAME, b"before", express=True)
    air.advance(1_000)
    air.loses = lambda kind, packet: b"lost" in packet
    alpha.send(NAME, b"lost", b"after", express=True)
    air.advance(60_000)
    assert bravo.bodies(quotes) == [b"before", b"after"]
    (event,) = bravo.events("multicast_lost")
    assert event.details["packets"] == 1
    assert str(event.details["group"]) == str(PLACE)
    assert bravo.pgm.figures().received["lost"] == 1


@pytest.mark.spec("MC-MQSRM 2.1.3.1/15")
def test_a_message_that_is_too_large_ends_as_a_dead_letter() -> None:
    air, alpha, bravo = pair()
    quotes = listening(bravo)
    alpha.send(NAME, b"x" * 64_000, b"y" * 66_000, b"z", negative_journaling_requested=True)
    air.advance(5_000)
    assert [len(body) for body in bravo.bodies(quotes)] == [64_000, 1]
    letters = alpha.bodies("ALPHA\\system$;deadletter")
    assert [len(body) for body in letters] == [66_000]
    assert alpha.outgoing(NAME).state.count == 0


def test_groups_are_joined_while_queues_have_their_address() -> None:
    _, _, bravo = pair()
    assert bravo.groups == set()
    quotes = bravo.create(r".\private$\quotes", multicast_address="234.1.1.1:1")
    also = bravo.create(r".\private$\also", multicast_address="234.1.1.1:2")
    assert bravo.groups == {"234.1.1.1"}
    set_address(bravo, quotes, "234.9.9.9:1")
    assert bravo.groups == {"234.1.1.1", "234.9.9.9"}
    assert bravo.pgm.reception.places == {
        MulticastPlace("234.9.9.9", 1),
        MulticastPlace("234.1.1.1", 2),
    }
    set_address(bravo, quotes, "")
    assert bravo.groups == {"234.1.1.1"}
    bravo.call(lambda manager: manager.queues.delete_queue(also.name, ADMIN))
    assert bravo.groups == set()
    assert bravo.pgm.figures().groups == 0


def set_address(station: Station, queue: Queue, address: str) -> None:
    station.call(lambda m: m.queues.set_queue(queue.name, ADMIN, multicast_address=address))


def test_an_address_may_be_spelled_with_zeros_in_front_of_its_port() -> None:
    air, alpha, bravo = pair()
    bravo.create(r".\private$\quotes", multicast_address="234.1.1.1:08001")
    alpha.send(NAME, b"one", express=True)
    air.advance(1_000)
    assert bravo.bodies(r"BRAVO\private$\quotes") == [b"one"]


def test_groups_are_joined_again_after_a_restart() -> None:
    air, alpha, bravo = pair()
    quotes = listening(bravo)
    bravo.groups.clear()
    bravo.restart()
    assert bravo.groups == {PLACE.group}
    alpha.send(NAME, b"one", express=True)
    air.advance(1_000)
    assert bravo.bodies(quotes) == [b"one"]


def test_recoverable_messages_that_wait_go_out_after_a_restart() -> None:
    air, alpha, bravo = pair()
    quotes = listening(bravo)
    alpha.failing = "network is unreachable"
    alpha.send(NAME, b"one", b"two")
    air.advance(1_000)
    assert alpha.outgoing(NAME).state.count == 2
    alpha.failing = ""
    alpha.restart()
    air.advance(1_000)
    assert bravo.bodies(quotes) == [b"one", b"two"]


def test_a_network_that_is_away_is_tried_again() -> None:
    air, alpha, bravo = pair()
    alpha.failing = bravo.failing = "network is unreachable"
    quotes = listening(bravo)
    alpha.send(NAME, b"one")
    queue = alpha.outgoing(NAME)
    assert queue.outgoing is not None
    assert queue.outgoing.last_error == "network is unreachable"
    assert queue.outgoing.state is OutgoingQueueState.DISCONNECTED
    air.advance(12_000)
    assert len(alpha.events("peer_not_reached")) == 2  # after 5 s; the next after 10 more
    assert bravo.events("group_not_joined")
    alpha.failing = bravo.failing = ""
    air.advance(20_000)
    assert bravo.bodies(quotes) == [b"one"]
    assert queue.outgoing.last_error == ""


def test_a_paused_queue_sends_nothing_until_it_is_resumed() -> None:
    air, alpha, bravo = pair()
    quotes = listening(bravo)
    alpha.send(NAME, b"one")
    queue = alpha.outgoing(NAME)
    alpha.call(lambda manager: manager.transfer.pause_queue(queue))
    alpha.send(NAME, b"two")
    air.advance(10_000)
    assert bravo.bodies(quotes) == [b"one"]
    alpha.call(lambda manager: manager.transfer.resume_queue(queue))
    air.advance(1_000)
    assert bravo.bodies(quotes) == [b"one", b"two"]


def test_a_pause_in_the_middle_sends_nothing_twice() -> None:
    air, alpha, bravo = pair(rate=20_000)
    quotes = listening(bravo)
    texts = [b"%02d" % at + b"x" * 4_000 for at in range(10)]
    alpha.send(NAME, *texts)
    queue = alpha.outgoing(NAME)
    for _ in range(6):
        air.advance(430)
        alpha.call(lambda manager: manager.transfer.pause_queue(queue))
        air.advance(2_000)
        alpha.call(lambda manager: manager.transfer.resume_queue(queue))
    air.advance(60_000)
    assert bravo.bodies(quotes) == texts
    assert sum(len(packet.data) > 0 for packet in packets(air, ODATA)) == 40
    assert queue.state.count == 0


def test_nothing_goes_out_offline() -> None:
    air, alpha, bravo = pair()
    quotes = listening(bravo)
    alpha.call(lambda manager: manager.transfer.take_offline())
    alpha.send(NAME, b"one")
    air.advance(10_000)
    assert bravo.bodies(quotes) == []
    alpha.call(lambda manager: manager.transfer.bring_online())
    air.advance(1_000)
    assert bravo.bodies(quotes) == [b"one"]


@pytest.mark.spec("PGM/40", "MC-MQSRM 2.1.3/7")
def test_a_session_without_messages_is_finished_and_a_new_one_begun_for_the_next() -> None:
    air, alpha, bravo = pair(idle_ms=30_000, window_ms=60_000)
    quotes = listening(bravo)
    alpha.send(NAME, b"one", express=True)
    air.advance(29_000)
    assert not any(packet.options.fin for packet in packets(air, SPM))
    air.advance(3_000)
    assert packets(air, SPM)[-1].options.fin
    assert bravo.pgm.reception.receivers[0].ended == "finished"
    alpha.send(NAME, b"two", express=True)
    air.advance(100_000)
    assert bravo.bodies(quotes) == [b"one", b"two"]
    assert len({packet.tsi for packet in packets(air, ODATA)}) == 2
    air.advance(100_000)
    assert alpha.pgm.sources == {}
    assert alpha.pgm.feeds == {}


def test_a_stop_finishes_what_has_begun_and_leaves_the_groups() -> None:
    air, alpha, bravo = pair(rate=20_000)
    quotes = listening(bravo)
    listening(alpha, "own")
    texts = [b"%02d" % at + b"x" * 4_000 for at in range(10)]
    alpha.send(NAME, *texts)
    air.advance(650)
    alpha.pgm.stop()
    assert alpha.pgm.is_sending
    air.advance(2_000)
    assert not alpha.pgm.is_sending
    assert alpha.groups == set()
    assert packets(air, SPM)[-1].options.fin
    done = len(bravo.bodies(quotes))
    assert 0 < done < 10
    assert alpha.outgoing(NAME).state.count == 10 - done
    alpha.pgm.abandon()
    assert alpha.pgm.sources == {}


@pytest.mark.spec("MC-MQSRM 2.1.3/7")
def test_a_stop_that_may_not_wait_cancels() -> None:
    air, alpha, _ = pair(rate=20_000)
    alpha.send(NAME, b"x" * 20_000)
    air.advance(300)
    alpha.pgm.stop()
    alpha.pgm.abandon()
    air.run()
    assert packets(air, SPM)[-1].options.reset is not None


@pytest.mark.spec("PGM/25")
def test_naks_find_their_session_by_its_identifier_and_port() -> None:
    air, alpha, _ = pair()
    alpha.send(NAME, b"one", express=True)
    (packet,) = packets(air, ODATA)
    number = packet.body.sequence  # type: ignore[union-attr]
    strange = Tsi(packet.tsi.gsi, packet.tsi.port ^ 1)
    for tsi, port in ((strange, PLACE.port), (packet.tsi, 9)):
        nak = pack_nak(NAK, tsi, port, sequences=(number,), source=HERE, group=PLACE.group)
        alpha.pgm.receive(nak, THERE, None)
    air.advance(1_000)
    assert packets(air, RDATA) == []
    assert alpha.pgm.figures().received["strays"] == 2
    nak = pack_nak(NAK, packet.tsi, PLACE.port, sequences=(number,), source=HERE, group=PLACE.group)
    alpha.pgm.receive(nak, THERE, None)
    air.advance(1_000)
    assert len(packets(air, RDATA)) == 1


@pytest.mark.spec("MC-MQSRM 2.1.2/1", "MC-MQSRM 2.1.2/3")
def test_the_example_of_the_document_arrives_as_it_is_printed() -> None:
    example = (VECTORS / "srmp" / "4.5-multicast.http").read_bytes()
    air = Air()
    air.clock = SimClock(utc_seconds=1_181_270_240)  # a second after it was sent
    bravo = air.station("BRAVO", THERE)
    quotes = listening(bravo)
    bravo.pgm.receive(unit(example), HERE, PLACE.group)
    air.advance(1_000)
    assert bravo.bodies(quotes) == ["ardenwhite".encode("utf-16-le")]
    alpha = air.station("ALPHA", HERE)
    alpha.send(NAME, "ardenwhite".encode("utf-16-le"), express=True)
    air.advance(1_000)
    ours, theirs = (read_unit(each).head for each in (packets(air, ODATA)[0].data, example))
    names = [[line.partition(b":")[0] for line in head.split(b"\r\n")] for head in (ours, theirs)]
    assert names[0] == names[1]


def unit(text: bytes) -> bytes:
    return pack_data(ODATA, Tsi(b"strang", 1), PLACE.port, sequence=1, trailing=1, data=text)


@pytest.mark.parametrize(
    "text",
    [
        b"no head at all",
        b"POST x HTTP/1.1\r\n\r\n",
        b"POST x HTTP/1.1\r\n\r\n<se:Envelope",
        b"POST x HTTP/1.1\r\n\r\n--b\r\nContent-Length: 99\r\n\r\n",
        b"POST x HTTP/1.1\r\n\r\n--\r\n\r\n",
        b'POST x HTTP/1.1\r\n\r\n--"\r\n\r\n',
        b"POST x HTTP/1.1\r\n\r\n--\xff\r\n\r\n",
    ],
)
def test_a_unit_that_is_no_message_is_dropped_and_counted(text: bytes) -> None:
    air, _, bravo = pair()
    quotes = listening(bravo)
    bravo.pgm.receive(unit(text), HERE, PLACE.group)
    bravo.pgm.receive(b"no packet", HERE, PLACE.group)
    air.advance(1_000)
    received = bravo.pgm.figures().received
    assert (received["units_malformed"], received["malformed"]) == (1, 1)
    assert bravo.bodies(quotes) == []


@pytest.mark.spec("MC-MQSRM 2.1.2/4")
def test_the_head_decides_nothing() -> None:
    air, alpha, bravo = pair()
    quotes = listening(bravo)
    alpha.send(NAME, b"body", express=True)
    air.advance(1_000)
    (packet,) = packets(air, ODATA)
    head, _, payload = read_unit(packet.data)
    assert bravo.bodies(quotes) == [b"body"]
    text = payload.replace(b"uuid:1@", b"uuid:7@")
    wrong = b"GET nowhere HTTP/9\r\nContent-Length: 1\r\nContent-Type: image/png\r\n\r\n"
    bravo.pgm.receive(unit(wrong + text), HERE, PLACE.group)
    air.advance(1_000)
    assert bravo.bodies(quotes) == [b"body", b"body"]
    assert head.startswith(b"POST")


def test_a_stranger_does_not_speak_for_a_source() -> None:
    air, alpha, bravo = pair()
    quotes = listening(bravo)
    alpha.send(NAME, b"one", express=True)
    air.advance(1_000)
    (packet,) = packets(air, ODATA)
    number = packet.body.sequence  # type: ignore[union-attr]
    forged = pack_data(
        ODATA, packet.tsi, PLACE.port, sequence=number + 1, trailing=number + 1, data=b"forged"
    )
    bravo.pgm.receive(forged, "10.9.9.9", PLACE.group)
    air.advance(1_000)
    assert bravo.bodies(quotes) == [b"one"]
    assert bravo.pgm.figures().received["foreign"] == 1


def test_no_more_sessions_are_taken_up_than_allowed() -> None:
    air, _, bravo = pair(sessions_max=10)
    listening(bravo)
    for number in range(30):
        data = pack_data(
            ODATA, Tsi(b"flood!", number), PLACE.port, sequence=1, trailing=1, data=b"x"
        )
        bravo.pgm.receive(data, HERE, PLACE.group)
    assert bravo.pgm.figures().sessions == 10
    assert bravo.pgm.figures().received["sessions_refused"] == 20
    air.advance(FAST.silence_ms + 1_000)
    assert bravo.pgm.reception.receivers == []


def test_sessions_that_one_address_makes_up_keep_no_other_source_out() -> None:
    air, alpha, bravo = pair(sessions_max=10)
    quotes = listening(bravo)
    for number in range(30):
        data = pack_data(
            ODATA, Tsi(b"flood!", number), PLACE.port, sequence=1, trailing=1, data=b"x"
        )
        bravo.pgm.receive(data, "10.9.9.9", PLACE.group)
    alpha.send(NAME, b"one", express=True)
    air.advance(1_000)
    assert bravo.bodies(quotes) == [b"one"]
    assert bravo.pgm.figures().sessions == 10


def test_what_is_received_and_not_safe_is_bounded() -> None:
    air, alpha, bravo = pair(receive_ahead=20_000)
    quotes = listening(bravo)
    texts = [b"%03d" % at + b"x" * 2_000 for at in range(100)]
    alpha.send(NAME, *texts, express=True)
    air.advance(20_000)
    assert bravo.bodies(quotes) == texts
    assert not bravo.paused


def test_a_transactional_message_cannot_be_multicast() -> None:
    _, alpha, _ = pair()
    with pytest.raises(AssertionError, match="transaction"):
        alpha.send_in_transaction(NAME, b"one")


def test_units_are_written_and_read() -> None:
    fields = [("Content-Type", "text/xml"), ("SOAPAction", '"MSMQMessage"')]
    written = write_unit("234.1.1.1:8001", fields, b"<x/>")
    assert written == (
        b"POST 234.1.1.1:8001 HTTP/1.1\r\nHost: 234.1.1.1:8001\r\nContent-Type: text/xml\r\n"
        b'Content-Length: 4\r\nSOAPAction: "MSMQMessage"\r\n\r\n<x/>'
    )
    assert read_unit(written)[1:] == ("text/xml", b"<x/>")
