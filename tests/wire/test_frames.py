"""The frames of client sessions: both directions, any chunking, any bytes."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.model.enumerations import MessageSeekAction, QueueAccessType, QueueShareMode
from posthouse.model.errors import MalformedPacket, QueueNotFound, RemoteProtocolError
from posthouse.wire.frames import frames, payloads
from posthouse.wire.frames.message_columns import Found, encode_message_lists

STRUCTURES: dict[int, payloads.Payload] = {
    frames.HELLO: payloads.Hello(1, bytes(16), "test"),
    frames.OPEN: payloads.Open(
        r".\private$\orders", QueueAccessType.SEND, QueueShareMode.DENY_RECEIVE
    ),
    frames.CLOSE: payloads.Close(7),
    frames.OPEN_CURSOR: payloads.OpenCursor(7),
    frames.CLOSE_CURSOR: payloads.CloseCursor(8),
    frames.BEGIN: payloads.Begin(b"\x01" * 16, b"PHTX"),
    frames.COMMIT: payloads.Commit(3, 1 << 40, [("0", "orders-db")]),
    frames.ABORT: payloads.Abort(3),
    frames.PREPARE: payloads.Prepare(3, b"PHTX"),
    frames.LOOKUP: payloads.Lookup(7, 1 << 50, MessageSeekAction.NEXT, False, 3),
    frames.MOVE: payloads.Move(7, 99, 8, 0),
    frames.PURGE: payloads.Purge(7),
    frames.COUNT: payloads.Count(7),
    frames.CANCEL: payloads.Cancel(12),
    frames.CALL: payloads.Call("GET", "/api/v1/queues", b"{}"),
    frames.PING: payloads.Ping(),
    frames.ENLIST: payloads.Enlist(3, b"\x02" * 16),
    frames.CONFIRM: payloads.Confirm(b"\x01" * 16, ["0", "1"]),
    frames.OUTCOMES: payloads.Outcomes([b"\x01" * 16], "orders-db"),
    frames.WELCOME: payloads.Welcome(1, "0.1.0", "ALPHA", bytes(16), 1, 2, 3, 4, 64),
    frames.OPENED: payloads.Opened(7, "DIRECT=OS:a\\b", "DIRECT=OS:a\\b", True, False, 0),
    frames.CURSOR: payloads.CursorOpened(8),
    frames.BEGUN: payloads.Begun(3, b"\x01" * 16),
    frames.VOTED: payloads.Voted("prepared"),
    frames.COUNTED: payloads.Counted(5, 1, 4096),
    frames.CALLED: payloads.Called(200, b"[]"),
    frames.DONE: payloads.Done(),
    frames.ENLISTED: payloads.Enlisted(b"PHTX"),
    frames.OUTCOME: payloads.Outcome(["committed"], [(b"\x01" * 16, "0")]),
    frames.ERROR: payloads.Refusal(0xC00E0003, "no queue", "make one"),
}
SEND = frames.Send(7, 3, 11, [b"one", b"", b"three"], 40)
READ = frames.Read(7, 3, 8, -1, 100, frames.READ_AT_ONCE)
END = frames.End(7, 12, True, 0x4000, (1, 1 << 40))
MESSAGES = [
    frames.Delivered(1 << 40, 5, 6, 0, 1, 2, 3, 4, frames.MARK_IN_DOUBT, b"sid", b"packet"),
    frames.Delivered(2, 5, 0, 0x8000, 0, 0, 7, 0, 0, b"", b""),
]
PACKED: dict[int, tuple[bytes, object]] = {
    frames.SEND: (frames.encode_send(9, 7, 3, 11, SEND.packets), SEND),
    frames.RECEIVE: (frames.encode_read(frames.RECEIVE, 9, READ), READ),
    frames.PEEK: (frames.encode_read(frames.PEEK, 9, READ), READ),
    frames.END: (
        frames.encode_end(9, 7, 12, END.lookup_ids, positive=True, message_class=0x4000),
        END,
    ),
    frames.SENT: (frames.encode_sent(9, [5, 6, 0xFFFFFFFF]), (5, 6, 0xFFFFFFFF)),
    frames.MESSAGES: (frames.encode_messages(9, MESSAGES), MESSAGES),
    frames.ENDED: (frames.encode_ended(9, 2), 2),
}
WHOLE = {
    **{kind: (frames.encode(9, value), value) for kind, value in STRUCTURES.items()},
    **PACKED,
}
STREAM = b"".join(data for data, _ in WHOLE.values())


def split(data: bytes) -> list[frames.Frame]:
    """The frames of bytes that came in one go."""
    return frames.Splitter().feed(data)


def test_every_kind_is_covered_here() -> None:
    assert set(WHOLE) == frames.REQUEST_KINDS | frames.ANSWER_KINDS


@pytest.mark.parametrize("kind", sorted(WHOLE))
def test_every_frame_comes_back_as_it_was(kind: int) -> None:
    data, value = WHOLE[kind]
    (frame,) = split(data)
    assert (frame.kind, frame.request) == (kind, 9)
    assert frames.decode(frame.kind, frame.payload) == value


def test_the_layout_of_a_frame_and_of_a_send_is_fixed() -> None:
    data = frames.encode_send(0x01020304, 7, 3, 11, [b"ab", b"c"])
    rest = bytes.fromhex(
        "20 04030201 07000000 03000000 0B00000000000000 02000000 02000000 01000000"
    )
    assert data == struct.pack("<I", len(rest) + 3) + rest + b"abc"


def test_the_layout_of_messages_is_fixed() -> None:
    message = frames.Delivered(1, 2, 3, 4, 5, 6, 7, 8, 1, b"s", b"pk")
    head = bytes.fromhex(
        "0100000000000000 02000000 03000000 0400 0500 0600 07 08 01 00 0100 02000000"
    )
    assert frames.encode_messages(0, [message])[9:] == b"\1\0\0\0" + head + b"spk"


@pytest.mark.parametrize("sender", [b"", b"S-1-5"])
def test_messages_of_the_engine_are_packed_the_same(sender: bytes) -> None:
    messages = [message._replace(sender=sender) for message in MESSAGES]
    assert any(message.marks for message in messages)
    reads: list[Found] = [
        (99, m[0], 98, m[6], m[3], m[1], m[4], m[5], m[2], m[7] | m[8] << 8, sender)
        for m in messages
    ]
    packets = [message.packet for message in messages]
    assert [frames.encode_messages(9, messages)] == encode_message_lists(9, reads, packets)


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_any_chunking_gives_the_same_frames(cuts: list[int]) -> None:
    splitter, got = frames.Splitter(), []
    places = sorted([0, *cuts, len(STREAM)])
    for start, end in pairwise(places):
        got += splitter.feed(STREAM[start:end])
    assert got == split(STREAM)
    assert splitter.broken is None
    assert splitter.pending == 0


def test_byte_by_byte_gives_the_same_frames() -> None:
    splitter, got = frames.Splitter(), []
    for at in range(len(STREAM)):
        got += splitter.feed(STREAM[at : at + 1])
    assert got == split(STREAM)


def test_frames_in_front_of_a_broken_one_are_good() -> None:
    splitter = frames.Splitter()
    good = frames.encode(1, payloads.Ping())
    assert len(splitter.feed(good + struct.pack("<IBI", 4, 1, 1) + good)) == 1
    assert splitter.broken is not None
    assert splitter.feed(good) == []
    assert splitter.pending == 0


def test_a_frame_over_the_limit_is_refused_by_its_length_alone() -> None:
    splitter = frames.Splitter(size_max=100)
    assert len(splitter.feed(frames.encode_send(1, 1, 0, 0, [bytes(67)]))) == 1
    assert splitter.broken is None
    splitter.feed(frames.encode_send(1, 1, 0, 0, [bytes(68)])[: frames.HEADER_SIZE])
    assert splitter.broken is not None


def test_a_declared_size_takes_no_memory() -> None:
    splitter = frames.Splitter()
    splitter.feed(struct.pack("<IBI", frames.FRAME_SIZE_MAX - 4, frames.SEND, 1))
    assert splitter.broken is None
    assert splitter.pending == frames.HEADER_SIZE


@given(data=st.binary(max_size=200))
def test_any_bytes_are_split_or_broken(data: bytes) -> None:
    splitter = frames.Splitter()
    got = splitter.feed(data)
    taken = sum(frames.HEADER_SIZE + len(frame.payload) for frame in got)
    assert splitter.broken is not None or taken + splitter.pending == len(data)


@given(kind=st.integers(0, 255), payload=st.binary(max_size=120))
def test_any_payload_is_a_value_or_the_one_error(kind: int, payload: bytes) -> None:
    with suppress(RemoteProtocolError):
        frames.decode(kind, payload)


@given(
    kind=st.sampled_from(sorted(WHOLE)),
    at=st.integers(0, 200),
    byte=st.integers(0, 255),
    cut=st.integers(0, 200),
)
def test_a_damaged_payload_is_a_value_or_the_one_error(
    kind: int, at: int, byte: int, cut: int
) -> None:
    payload = bytearray(WHOLE[kind][0][frames.HEADER_SIZE :])
    if at < len(payload):
        payload[at] = byte
    with suppress(RemoteProtocolError):
        frames.decode(kind, bytes(payload[: max(0, len(payload) - cut)]))


@pytest.mark.parametrize("kind", sorted(WHOLE))
def test_bytes_behind_a_payload_are_refused(kind: int) -> None:
    payload = WHOLE[kind][0][frames.HEADER_SIZE :]
    with pytest.raises(RemoteProtocolError):
        frames.decode(kind, payload + b"\0")


@pytest.mark.parametrize("kind", sorted(PACKED))
def test_a_packed_payload_cut_anywhere_is_refused(kind: int) -> None:
    payload = PACKED[kind][0][frames.HEADER_SIZE :]
    for size in range(len(payload)):
        with pytest.raises(RemoteProtocolError):
            frames.decode(kind, payload[:size])


@pytest.mark.parametrize(
    "read",
    [READ._replace(timeout_ms=-2), READ._replace(count_max=0), READ._replace(flags=0x80)],
)
def test_a_read_with_values_that_do_not_exist_is_refused(read: frames.Read) -> None:
    with pytest.raises(RemoteProtocolError):
        frames.decode_read(frames.encode_read(frames.PEEK, 1, read)[frames.HEADER_SIZE :])


def test_a_structure_with_one_field_too_many_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="0x03"):
        frames.decode(frames.CLOSE, msgspec.msgpack.encode([7, 8]))


def test_a_name_longer_than_its_field_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        frames.decode(frames.HELLO, msgspec.msgpack.encode([1, bytes(17), ""]))


def test_a_refusal_carries_code_cause_and_remedy() -> None:
    error = QueueNotFound("there is no queue", "Create it.")
    assert frames.refusal(error) == payloads.Refusal(0xC00E0003, "there is no queue", "Create it.")


def test_a_refusal_of_a_strange_name_can_be_sent() -> None:
    told = frames.refusal(QueueNotFound("no queue \ud800" + "x" * 100_000))
    (frame,) = split(frames.encode(1, told))
    assert frames.decode(frame.kind, frame.payload) == told
    assert len(told.cause) == frames.TEXT_MAX


def test_more_items_than_a_frame_may_have_are_not_unpacked() -> None:
    count = frames.ITEMS_MAX + 1
    send = frames.encode_send(1, 2, 0, 0, [b""] * count)
    end = frames.encode_end(1, 2, 0, range(count), positive=True)
    for frame in (send, end):
        with pytest.raises(MalformedPacket, match="items"):
            frames.decode(frame[4], frame[frames.HEADER_SIZE :])


# -- large frames

PIECES = st.lists(st.integers(1, 40_000) | st.integers(1, 60), min_size=1, max_size=60)


def fed(data: bytes, pieces: list[int]) -> tuple[list[frames.Frame], frames.Splitter]:
    """The frames of a stream that comes in pieces of these sizes, over and over."""
    splitter, got, at, turn = frames.Splitter(), list[frames.Frame](), 0, 0
    while at < len(data):
        size = pieces[turn % len(pieces)]
        got += splitter.feed(data[at : at + size])
        at, turn = at + size, turn + 1
        assert splitter.pending <= len(data)
    return got, splitter


def meant(frame: frames.Frame) -> object:
    return frame.kind, frame.request, frames.decode(frame.kind, frame.payload)


@given(
    pieces=PIECES,
    sizes=st.lists(st.lists(st.sampled_from([1, 70_000, 100_000]), max_size=3), max_size=3),
)
@settings(max_examples=30)
def test_large_frames_are_the_same_however_they_come(
    pieces: list[int], sizes: list[list[int]]
) -> None:
    data = b"".join(
        [
            frames.encode_send(
                place + 5, 7, 0, 11, [bytes([size % 251]) * size for size in packets]
            )
            for place, packets in enumerate(sizes)
        ]
        + [frames.encode_messages(9, [MESSAGES[0]._replace(packet=b"m" * 90_000)])]
    )
    got, splitter = fed(data, pieces)
    assert [meant(frame) for frame in got] == [meant(frame) for frame in split(data)]
    sizes = [
        frames.decode_send(payload).size if kind == frames.SEND else len(payload)
        for kind, _, payload in got
    ]
    assert sum(4 + 5 + size for size in sizes) == len(data)
    assert (splitter.pending, splitter.broken) == (0, None)


@pytest.mark.parametrize("pieces", [[1], [8, 100_000], [9, 3], [33, 20_000], [40_000]])
def test_a_large_send_of_one_packet_that_lies_about_its_size_is_refused(pieces: list[int]) -> None:
    data = bytearray(frames.encode_send(5, 7, 0, 11, [b"x" * 70_000]))
    data[29:33] = (70_001).to_bytes(4, "little")
    got, _ = fed(bytes(data), pieces)
    with pytest.raises(RemoteProtocolError):
        frames.decode_send(got[0].payload)


def test_small_pieces_of_a_large_frame_are_kept_together() -> None:
    splitter = frames.Splitter()
    data = frames.encode_send(5, 7, 0, 11, [b"x" * 70_000])
    for at in range(60_000):
        splitter.feed(data[at : at + 1])
    assert len(splitter._chunks) == 1
    assert splitter.pending == 60_000


def test_a_send_in_parts_is_the_whole_one() -> None:
    packets = [b"a" * 70_000, b"b"]
    parts = frames.encode_send_parts(5, 7, 3, 11, packets)
    assert b"".join(parts) == frames.encode_send(5, 7, 3, 11, packets)
    assert parts[1] is packets[0]


# -- large answers


def large_frame(count: int = 3, size: int = 100_000) -> tuple[bytes, list[frames.Delivered]]:
    messages = [
        MESSAGES[0]._replace(lookup_id=n, sender=b"sid", packet=bytes([n]) * size)
        for n in range(count)
    ]
    return frames.encode_messages(7, messages), messages


def read_by_room(splitter: frames.Splitter, stream: bytes, step: int) -> list[frames.Frame]:
    """Bytes as a socket brings them: into the room that the splitter has, if it has any."""
    found, at = [], 0
    while at < len(stream):
        room = splitter.room()
        if room is None:
            data: bytes | memoryview = stream[at : at + step]
        else:
            some = stream[at : at + min(step, len(room))]
            room[: len(some)] = some
            data = room[: len(some)]
        at += len(data)
        found += splitter.feed(data)
    return found


@pytest.mark.parametrize("step", [1, 9, 4_096, 70_000, 1 << 20])
def test_a_large_answer_is_read_into_one_buffer(step: int) -> None:
    stream, messages = large_frame() if step > 9 else large_frame(1, 70_000)
    small = frames.encode_ended(8, 5)
    found = read_by_room(frames.Splitter(), small + stream + small + stream, step)
    assert [(one.kind, one.request) for one in found] == [
        (frames.ENDED, 8),
        (frames.MESSAGES, 7),
        (frames.ENDED, 8),
        (frames.MESSAGES, 7),
    ]
    for answer in (found[1], found[3]):
        assert frames.decode(answer.kind, answer.payload) == messages


def test_packets_of_a_large_answer_are_not_copied() -> None:
    """One buffer from the socket to whom looks at a body: each packet is a part of it."""
    stream, messages = large_frame()
    (answer,) = read_by_room(frames.Splitter(), stream, 65_536)
    assert isinstance(answer.payload, memoryview)
    buffer = answer.payload.obj
    delivered = frames.decode_messages(answer.payload)
    for one, sent in zip(delivered, messages, strict=True):
        assert isinstance(one.packet, memoryview)
        assert one.packet.obj is buffer
        assert one.packet.readonly
        assert (one.sender, bytes(one.packet)) == (b"sid", sent.packet)


def test_bytes_after_a_large_answer_that_were_read_elsewhere_are_kept() -> None:
    stream, messages = large_frame(1)
    splitter = frames.Splitter()
    assert splitter.feed(stream[:70_000]) == []
    assert splitter.room() is not None
    assert splitter.pending == 70_000
    answer, ended = splitter.feed(stream[70_000:] + frames.encode_ended(8, 5))
    assert frames.decode(answer.kind, answer.payload) == messages
    assert ended.kind == frames.ENDED


def test_many_small_messages_are_cut_out_of_their_frame() -> None:
    """A view of each would cost the reader of 100 small ones more than the copies do."""
    stream, messages = large_frame(100, 1_000)
    (answer,) = read_by_room(frames.Splitter(), stream, 65_536)
    delivered = frames.decode_messages(answer.payload)
    assert delivered == messages
    assert {type(one.packet) for one in delivered} == {bytes}


@pytest.mark.parametrize("step", [1, 9, 4_096, 70_000, 1 << 20])
def test_a_large_send_is_read_into_one_buffer_where_its_packet_stays(step: int) -> None:
    packet = bytes(range(256)) * (300 if step == 1 else 4_000)
    small = frames.encode_send(3, 1, 0, 0, [b"small"])
    large = frames.encode_send(4, 7, 5, 11, [packet])
    splitter = frames.Splitter(takes=frames.SEND)
    found = read_by_room(splitter, small + large + small + large, step)
    assert [frames.decode_send(one.payload)[3] for one in found] == [[b"small"], [packet]] * 2
    send = frames.decode_send(found[1].payload)
    assert send[:3] == (7, 5, 11)
    assert send.size == len(large) - frames.HEADER_SIZE
    if step < len(packet):  # else it came whole
        (view,) = send.packets
        assert isinstance(view, memoryview)
        assert view.readonly


@pytest.mark.parametrize(
    "frame",
    [
        frames.encode_send(3, 1, 0, 0, [b"x" * 100_000] * 2),
        frames.encode_send(3, 1, 0, 0, [bytes((4 << 20) + 1)]),
        large_frame(1)[0],
    ],
)
def test_other_large_requests_have_no_room_of_their_own(frame: bytes) -> None:
    """Which is memory for more than has come."""
    splitter = frames.Splitter(takes=frames.SEND)
    splitter.feed(frame[:80_000])
    assert splitter.room() is None


def test_clients_have_no_room_for_requests() -> None:
    splitter = frames.Splitter()
    splitter.feed(frames.encode_send(3, 1, 0, 0, [b"x" * 200_000])[:100_000])
    assert splitter.room() is None


def test_a_large_send_takes_memory_once_while_it_is_read() -> None:
    size, step = 4_000_000, 100_000
    stream = frames.encode_send(3, 1, 0, 0, [bytes(size)])
    splitter = frames.Splitter(takes=frames.SEND)
    tracemalloc.start()
    try:
        found = read_by_room(splitter, stream, step)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == 1
    assert peak < size + 5 * step


def test_room_that_is_left_takes_no_memory_and_the_frame_is_read_on() -> None:
    packet = bytes(range(256)) * 4_000
    stream = frames.encode_send(4, 7, 0, 0, [packet])
    splitter = frames.Splitter(takes=frames.SEND)
    tracemalloc.start()
    try:
        splitter.feed(stream[:80_000])
        room = splitter.room()
        assert room is not None
        room[:1_000] = stream[80_000:81_000]
        splitter.feed(room[:1_000])
        del room
        splitter.leave_room()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 100_000
    assert splitter.pending == 81_000
    (frame,) = read_by_room(splitter, stream[81_000:], 50_000)
    assert frames.decode_send(frame.payload).packets == [packet]


@pytest.mark.parametrize("step", [frames.LARGE, 90_000, 200_000])
def test_large_pieces_may_lie_in_a_buffer_that_is_used_again(step: int) -> None:
    sent = [b"a" * 300, b"b" * 100_000, b"c", b"d" * 70_000]
    stream = b"".join(frames.encode_send(1, 1, 0, 0, [packet]) for packet in sent * 3)
    splitter, buffer, found = frames.Splitter(takes=frames.SEND), bytearray(step), []
    for at in range(0, len(stream), step):
        some = stream[at : at + step]
        buffer[: len(some)] = some
        view = memoryview(buffer)[: len(some)]
        found += splitter.feed(view if len(view) >= frames.LARGE else bytes(view))
    assert [frames.decode_send(frame.payload).packets for frame in found] == [[p] for p in sent * 3]


def test_large_packets_of_an_answer_are_written_as_they_are() -> None:
    stream, messages = large_frame(2)
    reads = [
        (
            0,
            *m[:1],
            0,
            m.priority,
            m.message_class,
            *m[1:2],
            m.aborts,
            m.moves,
            m.last_move,
            m.flags | m.marks << 8,
            m.sender,
        )
        for m in messages
    ]
    packets = [m.packet for m in messages]
    parts = encode_message_lists(7, reads, packets)
    assert b"".join(parts) == stream
    assert all(any(part is packet for part in parts) for packet in packets)
