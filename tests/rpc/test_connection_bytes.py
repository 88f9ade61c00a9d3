"""Any bytes in any pieces: one clear answer, no crash, bounded memory, nothing left behind."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.rpc import pdu, statuses
from posthouse.rpc.fragments import CALL_OVERHEAD
from posthouse.rpc.settings import RpcSettings

from .toy import BREAK, ECHO, GUARDED, LARGE, WAIT, Desk, Wire, item, pdus_of, request

LIMITS = RpcSettings(request_max=600, held_max=2000, calls_max=5, fragment_max=2048)
BIND = pdu.pack(
    pdu.BIND, pdu.WHOLE, 1, pdu.pack_bind(pdu.Bind(5840, 1432, 0, (item(0), item(1, GUARDED))))
)
CALL_IDS = st.integers(0, 6)
FLAGS = st.sampled_from((3, 3, 3, 3, 1, 0, 2, 0x83, 7))
# Never the method that is our own mistake, nor one that wants a number.
OPNUMS = st.integers(0, 20).filter(lambda opnum: opnum not in (BREAK, LARGE))
REQUESTS = st.builds(
    lambda opnum, stub, call_id, flags, context_id: request(
        opnum, stub, call_id=call_id, flags=flags, context_id=context_id
    ),
    OPNUMS,
    st.binary(max_size=400),
    CALL_IDS,
    FLAGS,
    st.integers(0, 2),
)
SMALL = st.builds(
    lambda kind, call_id: pdu.pack(kind, pdu.WHOLE, call_id, b""),
    st.sampled_from((pdu.CO_CANCEL, pdu.ORPHANED, pdu.SHUTDOWN)),
    CALL_IDS,
)
DAMAGED = st.builds(
    lambda whole, at, value: (
        whole[: at % len(whole)] + bytes([value]) + whole[at % len(whole) + 1 :]
    ),
    st.one_of(REQUESTS, st.just(BIND)),
    st.integers(0, 60),
    st.integers(0, 255),
)
STREAMS = st.builds(
    lambda pdus, tail: BIND + b"".join(pdus) + tail,
    st.lists(st.one_of(REQUESTS, REQUESTS, SMALL, DAMAGED), max_size=15),
    st.binary(max_size=40),
)


def fed(data: bytes, cuts: list[int]) -> tuple[Desk, Wire]:
    desk = Desk(LIMITS)
    wire = desk.connect()
    start = 0
    for end in [*sorted(cuts), len(data)]:
        wire.connection.receive(data[start:end])
        start = max(start, end)
        overhead = CALL_OVERHEAD * (LIMITS.calls_max + 1)
        assert wire.connection.held_bytes <= LIMITS.held_max + overhead + 0xFFFF
        assert wire.connection.calls <= LIMITS.calls_max
    return desk, wire


def check_left(desk: Desk, wire: Wire) -> None:
    assert desk.bugs == []
    wire.connection.lost()
    assert desk.toy.waiting == []
    assert len(desk.groups) == 0
    assert wire.connection.held_bytes == 0


@settings(max_examples=150)
@given(STREAMS, st.lists(st.integers(0, 3000), max_size=8))
def test_pieces_do_not_matter(data: bytes, cuts: list[int]) -> None:
    desk, wire = fed(data, [])
    cut_desk, cut_wire = fed(data, [cut % (len(data) + 1) for cut in cuts])
    assert cut_wire.sent == wire.sent
    assert cut_wire.closed == wire.closed
    assert cut_desk.toy.served == desk.toy.served
    list(pdus_of(wire.sent))
    check_left(desk, wire)
    check_left(cut_desk, cut_wire)


@settings(max_examples=100)
@given(st.binary(max_size=200), st.booleans())
def test_noise_is_refused_or_waited_for(noise: bytes, is_bound: bool) -> None:
    desk, wire = fed(BIND + noise if is_bound else noise, [])
    heard = list(pdus_of(wire.sent))
    refusals = [header for header, _ in heard if header.kind in (pdu.BIND_NAK, pdu.FAULT)]
    assert bool(refusals) >= wire.closed
    assert desk.toy.served == []
    check_left(desk, wire)


@given(st.lists(st.tuples(CALL_IDS, st.booleans()), max_size=20))
def test_every_call_is_answered_once(calls: list[tuple[int, bool]]) -> None:
    """By its answer, a fault, or the end of a connection that used a number twice."""
    desk = Desk(LIMITS)
    wire = desk.bound()
    waiting: set[int] = set()
    for call_id, waits in calls:
        opnum = WAIT if waits else ECHO
        heard = wire.say(request(opnum, call_id=call_id))
        if call_id in waiting:
            assert wire.closed
            return
        is_full = len(waiting) == LIMITS.calls_max
        if waits and not is_full:
            waiting.add(call_id)
            assert heard == []
        else:
            ((header, whole),) = heard
            assert header.kind == (pdu.FAULT if is_full else pdu.RESPONSE)
            assert not is_full or pdu.read_fault(whole[16:]).status == statuses.SERVER_TOO_BUSY
    for call in list(desk.toy.waiting):
        call.answer(b"late")
    assert Counter(header.call_id for header, _ in wire.heard()) == Counter(waiting)


def test_byte_by_byte() -> None:
    data = BIND + b"".join(request(ECHO, bytes(300), call_id=n) for n in range(3))
    _, whole = fed(data, [])
    _, slow = fed(data, list(range(len(data))))
    assert slow.sent == whole.sent
    assert len(list(pdus_of(whole.sent))) == 4
