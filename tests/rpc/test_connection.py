"""A connection in the clear: binds, calls, fragments, faults, cancels, ends."""

from functools import partial

import pytest

from posthouse.rpc import pdu, statuses
from posthouse.rpc.presentation import CONTEXTS_MAX
from posthouse.rpc.settings import RpcSettings
from posthouse.rpc.syntax import NDR, NDR64, SyntaxId, syntax

from .toy import (
    BREAK,
    ECHO,
    FIND,
    GUARDED,
    LARGE,
    MALFORM,
    OPEN,
    STATUS,
    THROW,
    TOY,
    WAIT,
    WHO,
    Desk,
    Wire,
    answer_of,
    fault_of,
    item,
    pdus_of,
    request,
)

UNKNOWN = syntax("77777777-2222-3333-4444-555555555555", 1)
FIRST, LAST = pdu.FIRST_FRAG, pdu.LAST_FRAG
NOT_EXECUTED = False


def features(bits: int) -> SyntaxId:
    return SyntaxId(bytes.fromhex("2c1cb76c12984045") + bits.to_bytes(8, "little"), 1)


def nak_of(wire: Wire, *said: bytes) -> pdu.BindNak:
    """The reason of a refusal, behind which nothing more is heard or said."""
    ((header, whole),) = wire.say(*said)
    assert header.kind == pdu.BIND_NAK
    assert wire.closed
    assert wire.say(request(ECHO)) == []
    return pdu.read_bind_nak(whole[16:])


def raw_bind(
    *items: pdu.ContextItem, group_id: int = 0, max_recv: int = 5840, flags: int = pdu.WHOLE
) -> bytes:
    return pdu.pack(pdu.BIND, flags, 1, pdu.pack_bind(pdu.Bind(5840, max_recv, group_id, items)))


# -- binds


@pytest.mark.spec("RPC/12")
def test_each_presentation_context_is_answered_on_its_own() -> None:
    wire = Desk().connect()
    newer = TOY._replace(minor=TOY.minor + 1)
    older = TOY._replace(minor=0)
    ack = wire.bind(
        item(0, UNKNOWN),
        item(1, TOY, NDR64),
        item(2, TOY, UNKNOWN),
        item(5, TOY, UNKNOWN, NDR),
        item(7, newer),
        item(8, older),
        item(9, TOY._replace(major=2)),
        item(300, GUARDED),
    )
    unknown = pdu.ContextResult(2, statuses.ABSTRACT_SYNTAX_NOT_SUPPORTED)
    accepted = pdu.ContextResult(0, 0, NDR)
    assert ack.results == (
        unknown,
        pdu.ContextResult(0, 0, NDR64),
        pdu.ContextResult(2, statuses.TRANSFER_SYNTAXES_NOT_SUPPORTED),
        accepted,
        unknown,
        accepted,
        unknown,
        accepted,
    )
    assert wire.call(ECHO, b"x", context_id=5) == b"x"
    assert wire.call(ECHO, b"x", context_id=0) == b"fault 1C010003 not executed"


@pytest.mark.spec("RPC/12")
def test_as_many_contexts_as_a_bind_can_name() -> None:
    wire = Desk().connect()
    ack = wire.bind(*(item(number) for number in range(255)))
    assert [result.result for result in ack.results] == [0] * 255
    assert wire.call(ECHO, b"x", context_id=254) == b"x"


@pytest.mark.spec("RPC/13")
@pytest.mark.parametrize(("asked", "supported"), [(3, 3), (1, 1), (2, 2), (0, 0), (0xFF, 3)])
def test_features_are_answered_with_those_that_are_supported(asked: int, supported: int) -> None:
    wire = Desk().connect()
    ack = wire.bind(item(0), item(1, TOY, features(asked)))
    assert ack.results[1] == pdu.ContextResult(statuses.NEGOTIATE_ACK, supported)
    assert wire.call(ECHO, context_id=1) == b"fault 1C010003 not executed"


def test_bind_is_answered_with_sizes_port_and_a_new_group() -> None:
    desk = Desk()
    ack = desk.connect().bind(max_recv=4280)
    assert ack[:4] == (4280, 5840, ack.group_id, "2103")
    assert ack.group_id != 0
    assert desk.connect().bind().group_id != ack.group_id


def test_multiplexing_is_agreed_to_when_asked_for() -> None:
    wire = Desk().connect()
    wire.bind(flags=pdu.WHOLE | pdu.CONC_MPX)
    assert wire.ack_header.flags == pdu.WHOLE | pdu.CONC_MPX
    wire = Desk().connect()
    wire.bind()
    assert wire.ack_header.flags == pdu.WHOLE


@pytest.mark.spec("RPC/14")
def test_alter_context_adds_presentation_contexts() -> None:
    wire = Desk().bound()
    ack = wire.bind(item(1, TOY, NDR64), item(2, UNKNOWN), kind=pdu.ALTER_CONTEXT)
    assert [result.result for result in ack.results] == [0, 2]
    assert ack.secondary_address == ""
    assert wire.call(ECHO, b"x", context_id=1) == b"x"
    assert wire.call(ECHO, b"y", context_id=0) == b"y"


def test_contexts_of_a_connection_are_limited() -> None:
    wire = Desk().bound()
    results: list[pdu.ContextResult] = []
    for start in range(0, 1250, 250):
        items = [item(number) for number in range(start, start + 250)]
        results += wire.bind(*items, kind=pdu.ALTER_CONTEXT).results
    assert [result.result for result in results].count(0) == CONTEXTS_MAX
    assert results[-1] == pdu.ContextResult(2, statuses.LOCAL_LIMIT_EXCEEDED)


@pytest.mark.parametrize(
    "bind",
    [
        raw_bind(item(0), group_id=99),
        raw_bind(),
        raw_bind(item(0), pdu.ContextItem(1, TOY, ())),
        raw_bind(item(0, TOY), item(0, GUARDED)),
        raw_bind(item(0, TOY, features(1)), item(1, TOY, features(2))),
        raw_bind(item(0))[:-1].replace(b"\x48\0\0\0", b"\x47\0\0\0", 1),
        b"\x05\0\x0b\x03\0\0\0\0" + (72).to_bytes(2, "big") + bytes(62),
    ],
    ids=["group", "nothing", "no transfer", "twice", "features twice", "short list", "big-endian"],
)
def test_bind_that_cannot_be_is_refused(bind: bytes) -> None:
    nak = nak_of(Desk().connect(), bind)
    assert nak == pdu.BindNak(statuses.NAK_NOT_SPECIFIED)


@pytest.mark.parametrize("said", [0, 1, 255])
def test_client_that_says_it_takes_nothing_takes_what_everybody_has_to(said: int) -> None:
    wire = Desk().connect()
    ack = wire.bind(max_recv=said)
    assert ack.max_xmit == pdu.FRAG_LENGTH_MIN
    heard = wire.say(request(LARGE, b"20000"))
    assert max(header.frag_length for header, _ in heard) <= pdu.FRAG_LENGTH_MIN
    assert len(answer_of(heard)) == 20000


@pytest.mark.parametrize("flags", [0, FIRST, LAST, 0xFF])
def test_flags_of_a_bind_do_not_make_it_a_fragment(flags: int) -> None:
    wire = Desk().connect()
    wire.bind(flags=flags)
    assert wire.ack_header.flags == pdu.WHOLE | flags & (pdu.CONC_MPX | pdu.SUPPORT_HEADER_SIGN)
    wire.bind(item(1), flags=flags, kind=pdu.ALTER_CONTEXT)
    assert wire.ack_header.flags == pdu.WHOLE | flags & pdu.SUPPORT_HEADER_SIGN
    assert wire.call(ECHO, b"x", context_id=1) == b"x"


def test_features_count_where_they_stand_first() -> None:
    ack = Desk().connect().bind(item(0), item(1, TOY, UNKNOWN, features(3)))
    assert ack.results[1].result == statuses.PROVIDER_REJECTION


@pytest.mark.parametrize(
    "again", [item(0, TOY, NDR64), item(0, GUARDED), pdu.ContextItem(0, TOY, ())]
)
def test_presentation_context_does_not_change(again: pdu.ContextItem) -> None:
    wire = Desk().bound()
    said = pdu.pack(pdu.ALTER_CONTEXT, pdu.WHOLE, 2, raw_bind(again)[16:])
    assert fault_of(wire.say(said)) == (statuses.PROTOCOL_ERROR, NOT_EXECUTED)
    assert wire.closed


def test_presentation_context_may_be_named_again() -> None:
    wire = Desk().bound()
    ack = wire.bind(item(0, TOY, UNKNOWN, NDR), item(0, UNKNOWN), kind=pdu.ALTER_CONTEXT)
    assert [result.result for result in ack.results] == [0, 2]
    assert wire.call(ECHO, b"x") == b"x"


def test_second_bind_ends_the_connection() -> None:
    assert nak_of(Desk().bound(), raw_bind(item(0))).reason == statuses.NAK_NOT_SPECIFIED


@pytest.mark.spec("RPC/27")
@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"\0\0\0\xa4\xffSMBr\0\0\0\0\x08\x01\x40" + bytes(100),
        b"\x05\x02\x0b\x03\x10\0\0\0" + bytes(64),
        b"\x04\0\x0b\x03\x10\0\0\0" + bytes(64),
        b"\x05\0\x63\x03\x10\0\0\0" + bytes(64),
        b"\x05\0\x0b\x03\x10\0\0\0\x0f\0\0\0" + bytes(60),
        b"\x05\0\x0b\x03\x10\0\0\0\x48\0\x48\0" + bytes(60),
    ],
)
def test_strangers_hear_which_version_is_spoken_here(said: bytes) -> None:
    wire = Desk().connect()
    assert nak_of(wire, said) == pdu.BindNak(statuses.NAK_PROTOCOL_VERSION, ((5, 0),))


@pytest.mark.spec("RPC/27")
def test_port_scanner_gets_the_very_bytes_it_looks_for() -> None:
    wire = Desk().connect()
    wire.connection.receive(b"\0\0\0\xa4\xffSMBr\0\0\0\0\x08\x01\x40" + bytes(152))
    assert wire.sent == (b"\x05\0\r\x03\x10\0\0\0\x18\0\0\0\0\x08\x01\x40\x04\0\x01\x05\0\0\0\0")


@pytest.mark.parametrize("version", [0, 4, 6, 255])
def test_request_of_another_version_is_no_call(version: int) -> None:
    """Also one that is whole in every other way, on a connection that is bound."""
    desk = Desk()
    wire, said = desk.bound(), request(OPEN)
    heard = wire.say(bytes([version]) + said[1:])
    assert [header.kind for header, _ in heard] == [pdu.BIND_NAK]
    assert wire.closed
    assert not wire.connection.counts.calls


# -- calls


def test_call_has_what_its_client_sent() -> None:
    assert Desk().bound().call(WHO) == b"nobody at NONE from 10.0.0.1"


def test_request_with_an_object_is_served() -> None:
    wire = Desk().bound()
    body = pdu.pack_request(0, ECHO, b"o" * 16 + b"stub")
    heard = wire.say(pdu.pack(pdu.REQUEST, pdu.WHOLE | pdu.OBJECT_UUID, 3, body))
    assert answer_of(heard) == b"stub"


def test_calls_of_one_chunk_are_answered_in_one_piece() -> None:
    wire = Desk().bound()
    sends = wire.sends
    heard = wire.say(*(request(ECHO, b"%d" % number, call_id=number) for number in range(40)))
    assert [header.call_id for header, _ in heard] == list(range(40))
    assert wire.sends == sends + 1


@pytest.mark.spec("RPC/17", "RPC/18")
def test_calls_are_answered_in_any_order_and_do_not_wait_for_each_other() -> None:
    desk = Desk()
    wire, other = desk.bound(), desk.bound()
    assert wire.say(*(request(WAIT, call_id=number) for number in (4, 2, 9))) == []
    assert wire.call(ECHO, b"mine", call_id=5) == b"mine"
    assert other.call(ECHO, b"theirs", call_id=4) == b"theirs"
    assert wire.connection.calls == 3
    for number in (2, 0, 1):
        desk.toy.waiting[number].answer(b"late")
    assert [header.call_id for header, _ in wire.heard()] == [9, 4, 2]
    assert wire.connection.calls == 0


def test_second_answer_is_dropped() -> None:
    desk = Desk()
    wire = desk.bound()
    wire.say(request(WAIT, call_id=4))
    (call,) = desk.toy.waiting
    call.answer(b"1")
    call.answer(b"2")
    call.fault(5)
    assert answer_of(wire.heard()) == b"1"
    wire.say(request(WAIT, call_id=4))
    call.answer(b"of the call before")
    assert wire.heard() == []


def test_call_id_of_a_waiting_call_is_not_used_again() -> None:
    wire = Desk().bound()
    wire.say(request(WAIT, call_id=4))
    assert fault_of(wire.say(request(ECHO, call_id=4))) == (statuses.PROTOCOL_ERROR, NOT_EXECUTED)
    assert wire.closed


@pytest.mark.spec("RPC/20")
@pytest.mark.parametrize("max_recv", [1432, 1437, 4280, 5840, 0xFFFF])
@pytest.mark.parametrize("size", [0, 1, 1407, 1408, 1409, 60000, 200_003])
def test_answer_is_cut_to_what_the_client_takes(max_recv: int, size: int) -> None:
    wire = Desk().bound(max_recv=max_recv)
    heard = wire.say(request(LARGE, b"%d" % size))
    assert len(answer_of(heard)) == size
    assert all(header.frag_length <= max_recv for header, _ in heard)
    flags = [header.flags & pdu.WHOLE for header, _ in heard]
    assert flags[0] & FIRST
    assert flags[-1] & LAST
    assert sum(flag & FIRST for flag in flags) == 1
    assert sum(flag & LAST for flag in flags) == LAST
    assert all((header.frag_length - 24) % 8 == 0 for header, _ in heard[:-1])


# -- requests in fragments


def fragments(stub: bytes, size: int, *, call_id: int = 7, opnum: int = ECHO) -> list[bytes]:
    pieces = [stub[at : at + size] for at in range(0, len(stub), size)]
    return [
        request(
            opnum,
            piece,
            call_id=call_id,
            flags=(nth == 0 and FIRST) | (nth == len(pieces) - 1 and LAST),
        )
        for nth, piece in enumerate(pieces)
    ]


@pytest.mark.spec("RPC/19")
def test_request_in_fragments_is_put_together() -> None:
    desk = Desk()
    wire = desk.bound()
    stub = bytes(range(256)) * 12
    *early, last = fragments(stub, 100)
    assert wire.say(*early) == []
    assert wire.connection.held_bytes > 3000
    assert answer_of(wire.say(last)) == stub
    assert desk.toy.served == [(ECHO, stub)]
    assert wire.connection.held_bytes == 0


@pytest.mark.spec("RPC/19")
def test_fragments_of_several_calls_may_be_mixed_with_whole_ones() -> None:
    wire = Desk().bound()
    one, two = fragments(b"a" * 50, 20, call_id=1), fragments(b"b" * 50, 20, call_id=2)
    mixed = [pdu_ for pair in zip(one, two, strict=True) for pdu_ in pair]
    heard = wire.say(*mixed[:4], request(ECHO, b"c", call_id=3), *mixed[4:])
    assert [header.call_id for header, _ in heard] == [3, 1, 2]


@pytest.mark.spec("RPC/19", "RPC/26")
def test_request_beyond_the_limit_is_refused_and_not_kept() -> None:
    wire = Desk(RpcSettings(request_max=1000)).bound()
    *early, last = fragments(bytes(100_000), 300)
    for number, fragment in enumerate(early):
        assert wire.say(fragment) == []
        assert wire.connection.held_bytes < 2000, number
    assert fault_of(wire.say(last)) == (statuses.OUT_OF_MEMORY, NOT_EXECUTED)
    assert wire.call(ECHO, b"x") == b"x"
    assert wire.connection.held_bytes == 0


def test_all_fragments_of_a_connection_are_limited_together() -> None:
    wire = Desk(RpcSettings(held_max=25_000)).bound()
    for call_id in range(30):
        wire.say(fragments(bytes(2000), 1000, call_id=call_id)[0])
    assert wire.connection.held_bytes <= 25_000 + 30 * 512
    heard = wire.say(*(fragments(bytes(2000), 1000, call_id=n)[1] for n in range(30)))
    assert {header.kind for header, _ in heard} == {pdu.RESPONSE, pdu.FAULT}
    assert len(heard) == 30
    assert wire.connection.held_bytes == 0


@pytest.mark.parametrize(
    "said",
    [
        [request(ECHO, flags=LAST)],
        [request(ECHO, flags=0)],
        [request(ECHO, flags=FIRST), request(ECHO, flags=FIRST)],
        [request(ECHO, flags=FIRST), request(ECHO)],
        [request(ECHO, flags=FIRST), request(WAIT, flags=LAST)],
        [request(ECHO, flags=FIRST), request(ECHO, flags=LAST, context_id=1)],
    ],
)
def test_fragments_that_contradict_each_other_end_the_connection(said: list[bytes]) -> None:
    wire = Desk().bound(item(0), item(1))
    assert fault_of(wire.say(*said)) == (statuses.PROTOCOL_ERROR, NOT_EXECUTED)
    assert wire.closed


def test_calls_that_never_become_whole_are_limited() -> None:
    wire = Desk(RpcSettings(calls_max=10)).bound()
    firsts = [request(ECHO, call_id=number, flags=FIRST) for number in range(11)]
    assert wire.say(*firsts[:10]) == []
    assert fault_of(wire.say(firsts[10])) == (statuses.PROTOCOL_ERROR, NOT_EXECUTED)


# -- faults


@pytest.mark.spec("RPC/26")
@pytest.mark.parametrize(
    ("opnum", "context_id", "status", "executed"),
    [
        (THROW, 0, STATUS, True),
        (BREAK, 0, statuses.UNSPECIFIED, True),
        (MALFORM, 0, statuses.BAD_STUB_DATA, True),
        (99, 0, statuses.OPNUM_OUT_OF_RANGE, False),
        (ECHO, 5, statuses.UNKNOWN_INTERFACE, False),
        (ECHO, 1, statuses.ACCESS_DENIED, False),
    ],
)
def test_fault_says_whether_its_method_was_started(
    opnum: int, context_id: int, status: int, executed: bool
) -> None:
    desk = Desk()
    wire = desk.bound(item(0), item(1, GUARDED))
    assert fault_of(wire.say(request(opnum, context_id=context_id))) == (status, executed)
    assert wire.connection.counts.faults[status] == 1
    assert wire.call(ECHO, b"on") == b"on"
    assert len(desk.bugs) == (opnum == BREAK)


def test_method_may_throw_later() -> None:
    desk = Desk()
    wire = desk.bound()
    wire.say(request(WAIT))
    desk.toy.waiting[0].fault(STATUS)
    assert fault_of(wire.heard()) == (STATUS, True)


@pytest.mark.spec("RPC/28")
def test_call_in_the_clear_is_refused_where_privacy_is_wanted() -> None:
    desk = Desk()
    wire = desk.bound(item(0, GUARDED))
    assert fault_of(wire.say(request(ECHO))) == (statuses.ACCESS_DENIED, NOT_EXECUTED)
    assert desk.toy.served == []


@pytest.mark.spec("RPC/26")
def test_too_many_calls_at_once_are_refused() -> None:
    wire = Desk(RpcSettings(calls_max=3)).bound()
    heard = wire.say(*(request(WAIT, call_id=number) for number in range(4)))
    assert fault_of(heard) == (statuses.SERVER_TOO_BUSY, NOT_EXECUTED)
    assert heard[0][0].call_id == 3


def test_calls_of_all_connections_together_are_limited() -> None:
    """One address alone has half of them, so that others find some."""
    desk = Desk(RpcSettings(all_calls_max=4))
    one, two = desk.bound(), desk.bound()
    two.connection.counts = counts = one.connection.counts
    two.connection._source = "192.0.2.8"
    one.say(request(WAIT, call_id=1), request(WAIT, call_id=2))
    two.say(request(WAIT))
    for wire in (one, two):
        assert fault_of(wire.say(request(ECHO, call_id=8))) == (
            statuses.SERVER_TOO_BUSY,
            NOT_EXECUTED,
        )
    one.connection.lost()
    assert two.call(ECHO, b"x", call_id=8) == b"x"
    assert counts.waiting == counts.waiting_of.total() == 1


def test_stub_of_a_waiting_call_is_not_kept() -> None:
    desk = Desk()
    wire = desk.bound()
    wire.say(request(WAIT, bytes(5000)))
    assert desk.toy.waiting[0].stub == b""
    assert wire.connection.held_bytes < 1000


@pytest.mark.parametrize(
    "said",
    [
        request(ECHO),
        request(ECHO, flags=FIRST),
        pdu.pack(pdu.ALTER_CONTEXT, pdu.WHOLE, 1, raw_bind(item(0))[16:]),
        pdu.pack(pdu.AUTH3, pdu.WHOLE, 1, b"", pdu.Trailer(10, 6, 0, 0, b"t")),
        pdu.pack(pdu.CO_CANCEL, pdu.WHOLE, 1, b""),
    ],
)
def test_nothing_is_served_before_a_bind(said: bytes) -> None:
    wire = Desk().connect()
    assert fault_of(wire.say(said)) == (statuses.PROTOCOL_ERROR, NOT_EXECUTED)
    assert wire.closed
    assert wire.connection.counts.violations == 1


@pytest.mark.parametrize(
    "said",
    [
        pdu.pack(pdu.RESPONSE, pdu.WHOLE, 1, pdu.pack_response(0, b"")),
        pdu.pack(pdu.BIND_ACK, pdu.WHOLE, 1, b""),
        pdu.pack(pdu.AUTH3, pdu.WHOLE, 1, b""),
        pdu.pack(pdu.REQUEST, pdu.WHOLE, 1, b"1234567"),
        pdu.pack(pdu.REQUEST, pdu.WHOLE | pdu.OBJECT_UUID, 1, bytes(23)),
        pdu.pack(pdu.ALTER_CONTEXT, pdu.WHOLE, 1, raw_bind()[16:]),
        b"\x05\0\x01\x03\x10\0\0\0\x18\0\0\0\x01\0\0\0" + bytes(8),
        b"\x05\0\0\x03\x10\0\0\0\x0f\0\0\0\x01\0\0\0" + bytes(8),
        b"\x05\0\0\x03\0\0\0\0\0\x18\0\0\0\0\0\x01" + bytes(8),
    ],
)
def test_what_breaks_the_protocol_ends_the_connection(said: bytes) -> None:
    wire = Desk().bound()
    assert fault_of(wire.say(said, request(ECHO))) == (statuses.PROTOCOL_ERROR, NOT_EXECUTED)
    assert wire.closed


# -- cancels, orphans, the end


def small(kind: int, call_id: int = 7) -> bytes:
    return pdu.pack(kind, pdu.WHOLE, call_id, b"")


@pytest.mark.spec("RPC/25")
def test_cancelled_call_stops_waiting_and_says_so() -> None:
    desk = Desk()
    wire = desk.bound()
    wire.say(request(WAIT))
    assert answer_of(wire.say(small(pdu.CO_CANCEL))) == b"stopped"
    assert desk.toy.waiting == []
    assert wire.say(small(pdu.CO_CANCEL)) == []
    assert not wire.closed


@pytest.mark.spec("RPC/25")
def test_orphaned_call_stops_waiting_and_says_nothing() -> None:
    desk = Desk()
    wire = desk.bound()
    wire.say(request(WAIT))
    assert wire.say(small(pdu.ORPHANED)) == []
    assert desk.toy.waiting == []
    assert wire.connection.calls == 0
    assert wire.call(ECHO, b"on") == b"on"


@pytest.mark.spec("RPC/25")
def test_shutdown_and_late_cancels_ask_for_nothing() -> None:
    wire = Desk().bound()
    late = [small(kind, 99) for kind in (pdu.CO_CANCEL, pdu.ORPHANED, pdu.SHUTDOWN)]
    assert wire.say(*late) == []
    assert wire.call(ECHO, b"on") == b"on"


def test_cancel_that_came_with_the_request_counts() -> None:
    desk = Desk()
    heard = desk.bound().say(request(WAIT, flags=pdu.WHOLE | pdu.PENDING_CANCEL))
    assert answer_of(heard) == b"stopped"


def test_orphan_in_fragments_is_forgotten() -> None:
    wire = Desk().bound()
    wire.say(request(ECHO, b"half", flags=FIRST), small(pdu.ORPHANED))
    assert wire.connection.held_bytes == 0
    assert wire.call(ECHO, b"x") == b"x"


@pytest.mark.spec("RPC/15", "RPC/16")
def test_handles_live_as_long_as_a_connection_of_their_group() -> None:
    desk = Desk()
    first, stranger = desk.connect(), desk.bound()
    group_id = first.bind().group_id
    second = desk.bound(group_id=group_id)
    handle = first.call(OPEN, b"queue")
    assert second.call(FIND, handle) == b"queue"
    assert stranger.call(FIND, handle) == b"unknown"
    first.connection.lost()
    assert desk.toy.run_down == []
    assert second.call(FIND, handle) == b"queue"
    second.connection.lost()
    assert desk.toy.run_down == [b"queue"]
    assert len(desk.groups) == 1


def test_waiting_calls_hear_that_their_connection_is_gone() -> None:
    desk = Desk()
    wire = desk.bound()
    wire.say(request(WAIT, call_id=1), request(WAIT, call_id=2))
    wire.connection.lost()
    assert desk.toy.waiting == []
    assert wire.heard() == []
    assert wire.connection.held_bytes == 0


def test_method_that_fails_when_its_client_is_gone_does_no_harm() -> None:
    desk = Desk()
    wire = desk.bound()
    wire.say(request(WAIT, call_id=1), request(WAIT, call_id=2))
    desk.toy.waiting[0].on_gone = lambda: [][0]
    wire.connection.lost()
    assert len(desk.bugs) == 1
    assert len(desk.toy.waiting) == 1
    assert len(desk.groups) == 0


def test_stop_ends_what_waits_and_says_goodbye() -> None:
    desk = Desk()
    wire = desk.bound()
    wire.say(request(WAIT))
    wire.connection.cancel()
    assert answer_of(wire.heard()) == b"stopped"
    wire.connection.shut_down()
    ((header, _),) = pdus_of(wire.sent)
    assert header.kind == pdu.SHUTDOWN
    assert wire.closed


def test_answers_after_the_end_are_dropped() -> None:
    desk = Desk()
    wire = desk.bound()
    wire.say(request(WAIT, call_id=1))
    wire.say(small(pdu.RESPONSE))
    wire.heard()
    desk.toy.waiting[0].answer(b"late")
    assert wire.heard() == []


# -- clients that do not read


def test_client_that_does_not_read_is_not_served() -> None:
    desk = Desk()
    wire = desk.bound()
    wire.connection.hold()
    said = b"".join(request(ECHO, b"%d" % number, call_id=number) for number in range(20))
    assert wire.say(said[:-5]) == []
    assert desk.toy.served == []
    desk.now_ms = 10**6
    assert wire.connection.overdue(desk.now_ms) == ""
    wire.connection.go_on()
    assert [header.call_id for header, _ in wire.heard()] == list(range(19))
    assert answer_of(wire.say(said[-5:])) == b"19"


def test_client_that_stops_to_read_is_served_no_further() -> None:
    desk = Desk()
    wire = desk.bound()

    def take(parts: list[bytes]) -> None:
        wire.sent += b"".join(parts)
        wire.connection.hold()

    wire.connection._send = take
    wire.say(*(request(LARGE, b"50000", call_id=number) for number in range(20)))
    for served in range(2, 22, 2):
        assert wire.connection.counts.calls == served
        assert wire.connection.held_bytes == (20 - served) * len(request(LARGE, b"50000"))
        wire.connection.go_on()
    assert wire.connection.counts.calls == 20


def test_those_who_wait_for_little_backlog_are_called_in_turn() -> None:
    desk = Desk()
    wire = desk.bound()
    backlog = 2 << 20
    wire.connection._unsent = lambda: backlog
    wire.say(request(WAIT))
    (call,) = desk.toy.waiting
    told: list[int] = []

    def tell(number: int) -> None:
        nonlocal backlog
        told.append(number)
        backlog = 2 << 20

    for number in range(3):
        call.when_drained(partial(tell, number))
    assert (told, call.backlog()) == ([], 2 << 20)
    for number in range(3):
        backlog = 1 << 20
        wire.connection.go_on()
        assert told == list(range(number + 1))


def test_failing_drain_does_no_harm() -> None:
    desk = Desk()
    wire = desk.bound()
    wire.connection.when_drained(lambda: [][0])
    assert len(desk.bugs) == 1


# -- time


def test_connection_that_does_not_bind_is_overdue() -> None:
    desk = Desk(RpcSettings(bind_ms=100))
    wire = desk.connect()
    wire.say(raw_bind(item(0))[:20])
    assert wire.connection.overdue(100) == ""
    assert wire.connection.overdue(101) == "never bound"


def test_pdu_that_comes_too_slowly_is_overdue() -> None:
    desk = Desk(RpcSettings(unfinished_ms=100))
    wire = desk.bound()
    whole = request(ECHO, bytes(1000))
    for desk.now_ms, byte in enumerate(whole[:150]):
        wire.say(bytes([byte]))
        overdue = wire.connection.overdue(desk.now_ms)
        assert overdue == ("sent too slowly" if desk.now_ms > 115 else "")
    assert answer_of(wire.say(whole[150:])) == bytes(1000)
    assert wire.connection.overdue(1000) == ""


def test_call_that_comes_too_slowly_is_overdue() -> None:
    desk = Desk(RpcSettings(unfinished_ms=100))
    wire = desk.bound()
    wire.say(request(ECHO, flags=FIRST))
    for desk.now_ms in range(0, 110, 10):
        wire.say(request(ECHO, flags=0))
        assert wire.connection.overdue(desk.now_ms) == ""
    assert wire.connection.overdue(101) == "sent too slowly"
    wire.say(request(ECHO, flags=LAST))
    assert wire.connection.overdue(101) == ""


def test_idle_connection_is_overdue_unless_it_waits_or_has_handles() -> None:
    desk = Desk(RpcSettings(idle_ms=100))
    idle, waiting, holding = desk.bound(), desk.bound(), desk.bound()
    waiting.say(request(WAIT))
    holding.call(OPEN, b"queue")
    for wire in (idle, waiting, holding):
        assert wire.connection.overdue(50) == ""
    idle.call(ECHO)
    assert [wire.connection.overdue(151) for wire in (idle, waiting, holding)] == ["", "", ""]
    assert [wire.connection.overdue(300) for wire in (idle, waiting, holding)] == ["idle", "", ""]
