"""Every state against every packet, in both roles, [MS-MQQB] 3.1.1.1.1.1-2 and 3.1.5.1."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.message_classes import ACK_RECEIVE
from posthouse.protocols.binary import close_reasons as breaches
from posthouse.protocols.binary.session import Role, SessionState
from posthouse.wire.binary.internal import connection_parameters, establish_connection
from posthouse.wire.binary.order_acks import (
    FinalAck,
    OrderAck,
    Origin,
    final_ack,
    order_ack,
    order_queue_at,
)
from posthouse.wire.packet.headers import SESSION_HEADER, SIGNATURE, SessionHeader
from tests.engine.rig import START_UTC
from tests.protocols.binary.session_rig import (
    OTHER_GUID,
    PEER_GUID,
    UPTIME_MS,
    End,
    Machine,
    ack,
    user_message,
)

INITIATOR, ACCEPTOR = Role.INITIATOR, Role.ACCEPTOR
EC, ECR = SessionState.WAITING_EC_MSG, SessionState.WAITING_ECR_MSG
CP, CPR = SessionState.WAITING_CP_MSG, SessionState.WAITING_CPR_MSG
OPEN, CLOSED = SessionState.OPEN, SessionState.CLOSED

ORIGIN = Origin(PEER_GUID, 5, START_UTC)
GUID = Machine().guid
STATES = ((ACCEPTOR, EC), (ACCEPTOR, CP), (INITIATOR, ECR), (INITIATOR, CPR))
STATES += ((ACCEPTOR, OPEN), (INITIATOR, OPEN), (ACCEPTOR, CLOSED), (INITIATOR, CLOSED))


def with_bytes(packet: bytes, at: int, replacement: bytes) -> bytes:
    return packet[:at] + replacement + packet[at + len(replacement) :]


def carrier(header: SessionHeader) -> bytes:
    """A user message with a SessionHeader inside its PacketSize."""
    packet = user_message(1, recoverable=False) + SESSION_HEADER.pack(header)
    packet = with_bytes(packet, 8, len(packet).to_bytes(4, "little"))
    return with_bytes(packet, 2, bytes([packet[2] | 0x10]))


STAMP = UPTIME_MS
PACKETS = {
    "request": establish_connection(PEER_GUID, time_stamp=STAMP),
    "request by our GUID": establish_connection(PEER_GUID, GUID, time_stamp=STAMP),
    "request to another": establish_connection(PEER_GUID, OTHER_GUID, time_stamp=STAMP),
    "request that refuses": establish_connection(PEER_GUID, GUID, time_stamp=STAMP, refused=True),
    "response": establish_connection(GUID, PEER_GUID, time_stamp=STAMP),
    "response that refuses": establish_connection(GUID, PEER_GUID, time_stamp=STAMP, refused=True),
    "parameters": connection_parameters(500, 20_000, 64),
    "parameters that refuse": connection_parameters(500, 20_000, 64, refused=True),
    "ack": ack(),
    "ack of another count": ack(sent=1),
    "ack of too much": ack(upto=1),
    "ack with CS": with_bytes(ack(), 18, b"\x11"),
    "ack without SH": with_bytes(ack(), 2, b"\x0b"),
    "internal type 0": with_bytes(ack(), 18, b"\x00"),
    "internal type 4": with_bytes(ack(), 18, b"\x04"),
    "user message": user_message(1),
    "user message with header": carrier(SessionHeader(0, 0, 0, 1, 0, 64)),
    "user message with wrong header": carrier(SessionHeader(0, 0, 0, 2, 0, 64)),
    "order ack": order_ack(OrderAck.of(1, 1), order_queue_at("192.0.2.1"), ORIGIN),
    "final ack": final_ack(
        FinalAck(1, 1, 0, GUID, 7), ACK_RECEIVE, order_queue_at("192.0.2.1"), ORIGIN
    ),
    "user message of SRMP": with_bytes(user_message(1), 63, bytes([user_message(1)[63] | 0x02])),
    "user message without properties": with_bytes(
        user_message(1), 62, bytes([user_message(1)[62] & ~0x20])
    ),
    "user message cut short": with_bytes(user_message(1)[:64], 8, (64).to_bytes(4, "little")),
    "another version": with_bytes(user_message(1), 0, b"\x11"),
    "another signature": with_bytes(user_message(1), 4, b"LIOX"),
    "too small": b"\x10\0\0\0" + SIGNATURE.to_bytes(4, "little") + b"\x0f\0\0\0" + b"\xff" * 4,
    "too large": b"\x10\0\0\0" + SIGNATURE.to_bytes(4, "little") + b"\1\0\x40\0" + b"\xff" * 4,
}

# What does not close a session, and where that leads. Everything else does.
GOES_ON = {
    (ACCEPTOR, EC, "request"): CP,
    (ACCEPTOR, EC, "request by our GUID"): CP,
    (INITIATOR, ECR, "response"): CPR,
    (ACCEPTOR, CP, "parameters"): OPEN,
    (INITIATOR, CPR, "parameters"): OPEN,
}
for _role, _name in product(
    (ACCEPTOR, INITIATOR),
    ("ack", "user message", "user message with header", "order ack", "final ack"),
):
    GOES_ON[_role, OPEN, _name] = OPEN


def end_in(role: Role, state: SessionState) -> End:
    """An end in this state, its own packets taken off the line."""
    end = End(role=role)
    end.machine.create("orders")
    end.start()
    for packet in end.handshake():
        if end.session.state in (state, OPEN):
            break
        end.session.receive(packet)
    if state is CLOSED:
        end.session.close("the test says so")
    assert end.session.state is state
    end.sent()
    return end


@pytest.mark.spec(
    "MS-MQQB 3.1.1.1.1.1/1",
    "MS-MQQB 3.1.1.1.1.1/4",
    "MS-MQQB 3.1.1.1.1.2/1",
    "MS-MQQB 3.1.5.3/1",
    "MS-MQQB 3.1.5.4/1",
    "MS-MQQB 3.1.5.5/1",
    "MS-MQQB 3.1.5.8/1",
    "MS-MQQB 3.1.5.6/1",
    "MS-MQQB 3.1.5.7/1",
    "MS-MQQB 3.1.5.1/2",
    "MS-MQQB 3.1.5.1.1/1",
    "MS-MQQB 3.1.5.1.1/4",
    "MS-MQQB 3.1.5.1.2/2",
    "MS-MQQB 3.1.5.1.3/1",
    "MS-MQQB 3.1.5.5.5/1",
    "MS-MQQB 2.2.1/3",
    "MS-MQQB 2.2.1/4",
)
@pytest.mark.parametrize("kind", PACKETS)
@pytest.mark.parametrize(
    ("role", "state"), STATES, ids=[f"{role.value}-{state.value}" for role, state in STATES]
)
def test_a_packet_leads_to(role: Role, state: SessionState, kind: str) -> None:
    end = end_in(role, state)
    end.receive(PACKETS[kind])
    expected = GOES_ON.get((role, state, kind), CLOSED)
    assert end.session.state is expected
    if expected is CLOSED:
        refuses = state is EC and kind in ("request to another", "response")
        assert end.line.closed is not refuses, "only a refusal lingers"
        assert bool(end.host.refusals) is (state is not CLOSED)
        assert bool(end.line.sent) is refuses
        carried = state is OPEN and kind == "user message with wrong header"
        assert end.machine.bodies("orders") == ([b"1"] if carried else [])
    else:
        assert not end.host.refusals
        assert not end.line.closed


@pytest.mark.spec("MS-MQQB 3.1.1.3.1/15")
def test_a_session_has_the_documents_states_and_no_others() -> None:
    assert {state.value for state in SessionState} == {
        "OPEN",
        "CLOSED",
        "WAITING_CP_MSG",
        "WAITING_CPR_MSG",
        "WAITING_EC_MSG",
        "WAITING_ECR_MSG",
        "WAITING_RECONNECT",
    }
    taken = {end_in(role, state).session.state for role, state in STATES}
    assert taken == {state for _, state in STATES} <= set(SessionState)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("request", breaches.UNEXPECTED),
        ("parameters", breaches.UNEXPECTED),
        ("ack of another count", breaches.MISCOUNTED),
        ("user message with wrong header", breaches.MISCOUNTED),
        ("ack of too much", breaches.TOO_MANY_ACKNOWLEDGED),
        ("internal type 4", breaches.MALFORMED),
        ("another signature", breaches.MALFORMED),
        ("user message cut short", breaches.MALFORMED),
        ("user message of SRMP", breaches.OTHER_PROTOCOL),
        ("user message without properties", breaches.MALFORMED),
    ],
)
def test_what_closes_an_open_session_is_counted_by_its_reason(kind: str, reason: str) -> None:
    end = end_in(ACCEPTOR, OPEN)
    end.receive(PACKETS[kind])
    assert end.host.refusals == [reason]
    assert end.host.told[-1] == "closed"
    assert end.host.told.count("closed") == 1


@pytest.mark.parametrize(
    "bad",
    [
        "request",
        "ack of another count",
        "internal type 4",
        "another signature",
        "user message cut short",
        "user message of SRMP",
        "user message without properties",
        "user message with wrong header",
    ],
)
def test_what_lies_in_front_of_an_error_is_taken_in_and_nothing_behind_it(bad: str) -> None:
    end = end_in(ACCEPTOR, OPEN)
    good = [user_message(number) for number in (1, 2, 3)]
    end.receive(*good, PACKETS[bad], user_message(4))
    assert end.session.state is CLOSED
    carried = [b"1"] if bad == "user message with wrong header" else []
    assert end.machine.bodies("orders")[:3] == [b"1", b"2", b"3"]
    assert b"4" not in end.machine.bodies("orders")[len(carried) :]
    assert not end.sent(), "a closed session acknowledges nothing"


@pytest.mark.spec("MS-MQQB 3.1.5.1.3/1")
def test_a_message_whose_far_end_is_malformed_closes_behind_the_good_ones() -> None:
    end = end_in(ACCEPTOR, OPEN)
    end.machine.create("other")
    broken = user_message(2, extension=b"x" * 8)
    broken = with_bytes(broken, 2, bytes([broken[2] | 0x20]))  # a DebugHeader that is not there
    end.receive(user_message(1), user_message(9, "other"), broken, user_message(3))
    assert end.session.state is CLOSED
    assert end.machine.bodies("orders") == [b"1"]
    assert end.machine.bodies("other") == [b"9"]


@st.composite
def bent_packets(draw: st.DrawFn) -> bytes:
    """A packet of any kind, as it is or with a few bytes changed."""
    packet = bytearray(draw(st.sampled_from(list(PACKETS.values()))))
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        packet[draw(st.integers(0, len(packet) - 1))] = draw(st.integers(0, 255))
    return bytes(packet)


@given(st.lists(bent_packets(), max_size=8), st.integers(1, 2_000))
def test_any_packets_in_any_pieces_leave_a_session_open_or_closed(
    packets: list[bytes], piece: int
) -> None:
    end = end_in(ACCEPTOR, OPEN)
    stream = b"".join(packets)
    for at in range(0, len(stream), piece):
        end.session.receive(stream[at : at + piece])
    end.settle()
    assert end.session.state in (OPEN, CLOSED)
    assert end.line.closed is (end.session.state is CLOSED)
    assert len(end.host.refusals) == end.line.closed
    assert len(end.machine.bodies("orders")) <= end.session.messages_in
