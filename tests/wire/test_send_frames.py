"""SEND frames of packets that are alike are those of the packets one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from posthouse.wire.frames import frames
from posthouse.wire.frames.send_frames import (
    PacketRun,
    encode_send_run,
    one_send_front,
    send_run_parts,
    size_of,
)

u32 = st.integers(1, 0xFFFFFFFF)
u63 = st.integers(0, (1 << 63) - 1)
alike = st.integers(0, 9).flatmap(
    lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=5)
)


@given(u32, u32, u32, u63, st.binary(max_size=9), alike, st.binary(max_size=9))
def test_a_run_is_the_frame_of_its_packets(
    number: int,
    queue: int,
    transaction: int,
    request_id: int,
    front: bytes,
    bodies: list[bytes],
    back: bytes,
) -> None:
    packets = [front + body + back for body in bodies]
    run, given_bodies = PacketRun(front, bodies, back), [*bodies]
    whole = frames.encode_send(number, queue, transaction, request_id, packets)
    for _ in range(2):  # asked again, it is written again
        assert encode_send_run(number, queue, transaction, request_id, run) == whole
    assert bodies == given_bodies
    assert (len(run), size_of(run)) == (len(packets), size_of(packets))


@given(u32, u32, u32, u63, st.binary(max_size=50))
def test_one_packet_has_the_front_of_a_frame_of_one(
    number: int, queue: int, transaction: int, request_id: int, packet: bytes
) -> None:
    front = one_send_front(number, queue, transaction, request_id, len(packet))
    whole = frames.encode_send(number, queue, transaction, request_id, [packet])
    assert front + packet == whole


@given(u32, u32, u32, u63, st.binary(min_size=1, max_size=9), alike, st.binary(max_size=9))
def test_a_run_in_parts_is_the_frame_of_its_packets(
    number: int,
    queue: int,
    transaction: int,
    request_id: int,
    front: bytes,
    bodies: list[bytes],
    back: bytes,
) -> None:
    parts = send_run_parts(
        number, queue, transaction, request_id, run := PacketRun(front, bodies, back)
    )
    assert b"".join(parts) == encode_send_run(number, queue, transaction, request_id, run)
    assert parts[1::2][: len(bodies)] == bodies  # as they are


def test_bodies_are_sent_as_they_are_where_that_costs_less() -> None:
    bodies = [bytes([at]) * frames.LARGE for at in range(3)]
    parts = send_run_parts(1, 2, 3, 4, run := PacketRun(b"front", bodies, b""))
    assert run.is_large
    assert [part for part in parts[1::2] if part in bodies] == bodies
    assert all(part is body for part, body in zip(parts[1::2], bodies, strict=True))
    assert b"" not in parts  # a socket that is given nothing takes nothing
    assert not PacketRun(b"front" * frames.LARGE, [b""], b"").is_large
