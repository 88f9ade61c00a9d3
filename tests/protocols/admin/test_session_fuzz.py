"""Whatever a client sends: one clear error at most, nothing changed by it, others go on."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.enumerations import MessageSeekAction, QueueAccessType, QueueShareMode
from posthouse.protocols.sessions.handles import SessionLimits
from posthouse.wire.frames import frames, payloads
from tests.protocols.admin.session_rig import (
    ORDERS,
    RECEIVE,
    SessionRig,
    packet,
    packets,
)

NAME = b"session name 16b"
LEDGER = r".\private$\ledger"


class Scene:
    """A session in the middle of its life, and another one that must not notice anything."""

    def __init__(self, **options: Any) -> None:
        self.rig = SessionRig()
        self.other = self.rig.client()
        self.orders, self.readable = self.other.open(), self.other.open(access=RECEIVE)
        self.other.send(self.orders, packets(b"theirs"))
        self.client = client = self.rig.client(name=NAME, **options)
        self.queue, self.source = client.open(), client.open(access=RECEIVE)
        self.cursor = client.ask(payloads.OpenCursor(self.source), payloads.CursorOpened).cursor
        self.tx = client.begin()
        self.handles = [self.queue, self.source, self.cursor, self.tx, 0, 1, 0xFFFFFFFF]

    def requests(self) -> list[bytes]:
        """A valid frame of every kind."""
        read = frames.Read(self.source, 0, 0, 0, 5, 0)
        waits = frames.Read(self.source, 0, 0, -1, 1, 0)
        told: list[payloads.Payload] = [
            payloads.Open(ORDERS, QueueAccessType.PEEK),
            payloads.Begin(b"i" * 16),
            payloads.OpenCursor(self.source),
            payloads.Count(self.source),
            payloads.Ping(),
            payloads.Lookup(self.source, 1),
            payloads.Call("GET", "/api/v1/queues"),
            payloads.Cancel(105),
            payloads.CloseCursor(self.cursor),
            payloads.Prepare(self.tx, b"coordinator"),
            payloads.Commit(self.tx, 3),
            payloads.Abort(self.tx),
            payloads.Close(self.queue),
            payloads.Purge(self.source),
        ]
        packed = [
            frames.encode_send(101, self.queue, 0, 1, packets(b"a", b"b")),
            frames.encode_send(102, self.queue, 0, 0, [packet(b"c", recoverable=False)]),
            frames.encode_read(frames.PEEK, 103, read),
            frames.encode_read(frames.RECEIVE, 104, read),
            frames.encode_read(frames.RECEIVE, 105, waits),
            frames.encode_end(106, self.source, 2, [1, 2], positive=True, message_class=0x4000),
        ]
        return packed + [frames.encode(200 + n, payload) for n, payload in enumerate(told)]

    def check(self) -> None:
        """Nothing broke; what the session had goes with it, what the others have stays."""
        rig, client = self.rig, self.client
        rig.desk.settle()
        assert not rig.driver.failed
        assert client.closed is (0 in client.answers)
        assert client.session.requests == 0 or client.closed
        client.session.lost()
        rig.desk.settle()
        manager = rig.manager
        assert all(lock.transaction is not None for lock in manager.ledger.locks.values())
        assert all(
            t in manager.transactions.in_doubt()
            for t in manager.transactions.collection.open.values()
        )
        assert not rig.queue("orders").waiters
        rig.check_books()
        assert self.other.send(self.orders, packets(b"still here"))
        assert b"still here" in self.other.bodies(self.readable, count=100)


@given(data=st.binary(max_size=300), cut=st.integers(0, 300))
def test_any_bytes_end_in_one_error_at_most(data: bytes, cut: int) -> None:
    scene = Scene()
    before = scene.rig.manager.ledger.state.dump()
    scene.client.session.receive(data[:cut])
    scene.client.session.receive(data[cut:])
    if scene.client.closed:
        assert scene.rig.manager.machine.refusals["session_frame"] == 1
    scene.rig.desk.settle()
    assert scene.rig.manager.ledger.state.dump() == before
    assert scene.rig.bodies("orders") == [b"theirs"]
    scene.check()


@given(
    which=st.lists(st.integers(0, 19), min_size=1, max_size=6),
    damage=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=3),
    cuts=st.lists(st.integers(0, 2000), max_size=4),
)
def test_damaged_frames_break_nothing(
    which: list[int], damage: list[tuple[int, int]], cuts: list[int]
) -> None:
    scene = Scene()
    requests = scene.requests()
    data = bytearray(b"".join(requests[n] for n in dict.fromkeys(which)))
    for at, byte in damage:
        data[at % len(data)] = byte
    places = sorted([0, *(cut % len(data) for cut in cuts), len(data)])
    for start, end in pairwise(places):
        scene.client.session.receive(bytes(data[start:end]))
    scene.check()


@given(
    batch=st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=4),
    place=st.integers(0, 3),
    at=st.integers(0, 400),
    byte=st.integers(0, 255),
    cut=st.integers(0, 30),
)
def test_a_damaged_packet_is_taken_whole_or_not_at_all(
    batch: list[bytes], place: int, at: int, byte: int, cut: int
) -> None:
    scene = Scene()
    good = packets(*batch)
    bad = bytearray(good[place % len(good)])
    bad[at % len(bad)] = byte
    good[place % len(good)] = bytes(bad[: len(bad) - cut])
    before = scene.rig.manager.ledger.state.dump()
    answer = scene.client.send(scene.queue, good, request_id=1)
    if isinstance(answer, payloads.Refusal):
        assert scene.rig.manager.ledger.state.dump() == before
    else:
        assert len(answer) == len(good)
    assert not scene.client.closed
    scene.check()


def payload_of(handles: list[int]) -> st.SearchStrategy[payloads.Payload]:
    """Any request that is well-formed, about handles that exist or not."""
    handle = st.sampled_from(handles)
    lookup_id = st.one_of(st.integers(0, 5), st.integers(0, 2**63 - 1))
    name = st.one_of(st.sampled_from([ORDERS, LEDGER, ORDERS + ";sub"]), st.text(max_size=40))
    access, share = st.sampled_from(QueueAccessType), st.sampled_from(QueueShareMode)
    action = st.sampled_from(MessageSeekAction)
    request_id = st.integers(0, 3)
    return st.one_of(
        st.builds(payloads.Open, name, access, share),
        st.builds(payloads.Close, handle),
        st.builds(payloads.OpenCursor, handle),
        st.builds(payloads.CloseCursor, handle),
        st.builds(payloads.Begin, st.binary(max_size=16)),
        st.builds(payloads.Commit, handle, request_id),
        st.builds(payloads.Abort, handle),
        st.builds(payloads.Prepare, handle, st.binary(max_size=20)),
        st.builds(payloads.Lookup, handle, lookup_id, action, st.booleans(), handle),
        st.builds(payloads.Move, handle, lookup_id, handle, handle),
        st.builds(payloads.Purge, handle),
        st.builds(payloads.Count, handle),
        st.builds(payloads.Cancel, st.integers(0, 30)),
        st.builds(payloads.Call, st.text(max_size=16), st.text(max_size=40), st.binary()),
        st.just(payloads.Ping()),
    )


@given(st.data())
def test_any_well_formed_request_is_answered(data: st.DataObject) -> None:
    scene = Scene()
    client, handles = scene.client, scene.handles
    for _ in range(data.draw(st.integers(1, 12))):
        match data.draw(st.integers(0, 3)):
            case 0:
                handle, tx = data.draw(st.tuples(*[st.sampled_from(handles)] * 2))
                bodies = data.draw(st.lists(st.binary(max_size=3), max_size=3))
                request_id = data.draw(st.integers(0, 3))
                request = client.put_send(handle, packets(*bodies), tx=tx, request_id=request_id)
            case 1:
                read = data.draw(
                    st.tuples(*[st.sampled_from(handles)] * 3, st.integers(-1, 3), st.just(3))
                )
                request = client.put_read(
                    read[0],
                    kind=data.draw(st.sampled_from([frames.RECEIVE, frames.PEEK])),
                    tx=read[1],
                    cursor=read[2],
                    timeout_ms=read[3],
                    count=read[4],
                    flags=data.draw(st.integers(0, 3)),
                )
            case 2:
                request = client.put_end(
                    data.draw(st.sampled_from(handles)),
                    data.draw(st.lists(st.integers(0, 5), max_size=3)),
                    request_id=data.draw(st.integers(0, 3)),
                    positive=data.draw(st.booleans()),
                    message_class=data.draw(st.sampled_from([0, 0x4000, 0xC004])),
                )
            case _:
                request = client.put(data.draw(payload_of(handles)))
        if data.draw(st.booleans()):
            scene.rig.desk.settle()
        answer = client.answers.get(request)
        if answer is not None and answer.kind == frames.OPENED:
            opened = frames.decode(answer.kind, answer.payload)
            assert isinstance(opened, payloads.Opened)
            handles.insert(0, opened.queue)
    scene.rig.desk.settle()
    assert not client.closed
    unanswered = set(range(1, client.requests + 1)) - set(client.answers)
    assert unanswered == set(client.session.waits)
    scene.check()


@given(cuts=st.lists(st.integers(0, 3000), max_size=30))
def test_any_chunking_gives_the_same_answers(cuts: list[int]) -> None:
    whole, pieces = Scene(), Scene()
    data = b"".join(whole.requests())
    whole.client.session.receive(data)
    assert data == b"".join(pieces.requests())
    for start, end in pairwise(sorted([0, *(cut % len(data) for cut in cuts), len(data)])):
        pieces.client.session.receive(data[start:end])
    whole.rig.desk.settle()
    pieces.rig.desk.settle()
    assert whole.client.answers == pieces.client.answers
    whole.check()


def test_a_flood_of_small_requests_is_begun_bit_by_bit() -> None:
    scene = Scene(limits=SessionLimits(requests_max=10))
    count = frames.encode(1, payloads.Count(scene.source))
    flood = b"".join(count[:5] + n.to_bytes(4, "little") + count[9:] for n in range(1000, 3000))
    begun: list[int] = []
    client = scene.client
    client.heard = lambda frame: begun.append(client.session.requests)
    client.session.receive(flood)
    scene.rig.desk.settle()
    assert len(begun) == 2000
    assert max(begun) <= 10
    scene.check()


def test_sessions_do_not_see_each_other() -> None:
    scene = Scene()
    theirs = scene.rig.client()
    for handle in scene.handles[:4]:
        for payload in (
            payloads.Close(handle),
            payloads.CloseCursor(handle),
            payloads.Commit(handle),
        ):
            assert isinstance(theirs.refused(payload), payloads.Refusal)
    scene.check()
