"""The client's end of a connection, against the server's end in memory and against any bytes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError
from posthouse.rpc import client, pdu, statuses
from posthouse.rpc.client import Answer, BadAnswer, BindRefused, ClientConnection
from posthouse.rpc.security import NTLM, Level, LoginRefused
from posthouse.rpc.settings import RpcSettings
from posthouse.rpc.syntax import NDR, syntax

from .login_book import initiator
from .toy import ECHO, GUARDED, LARGE, STATUS, THROW, TOY, WAIT, WHO, Desk

PROTECTED = [Level.INTEGRITY, Level.PRIVACY]
LEVELS = [Level.NONE, Level.CONNECT, *PROTECTED]


class Talk:
    """A client and a server, and the wire between them."""

    def __init__(
        self,
        desk: Desk | None = None,
        *,
        level: Level = Level.NONE,
        interface: object = TOY,
        password: str | None = None,
        ndr64: bool = False,
        group_id: int = 0,
    ) -> None:
        self.desk = desk or Desk()
        security = None
        if level != Level.NONE:
            security = initiator() if password is None else initiator(password=password)
        self.client = ClientConnection(
            interface,  # type: ignore[arg-type]
            security=security,
            auth_type=NTLM,
            level=level,
            ndr64=ndr64,
            group_id=group_id,
        )
        self.server = self.desk.connect()
        self.client.begin()
        self.carry()

    def carry(self, size: int = 1 << 20) -> list[Answer]:
        """Both ways, until nothing is left; the client gets pieces of this many bytes."""
        answers: list[Answer] = []
        while data := self.client.take_outgoing():
            self.server.connection.receive(data)
            answers += self.hear(size)
        return answers

    def hear(self, size: int = 1 << 20) -> list[Answer]:
        sent, self.server.sent = self.server.sent, b""
        answers: list[Answer] = []
        for at in range(0, len(sent), size):
            answers += self.client.receive(sent[at : at + size])
        return answers

    def call(self, opnum: int, stub: bytes = b"") -> bytes:
        number = self.client.request(opnum, stub)
        ((call_id, status, answer),) = self.carry()
        assert (call_id, status) == (number, 0)
        return answer


@pytest.mark.parametrize("level", LEVELS)
def test_a_call_is_answered_at_every_level(level: Level) -> None:
    talk = Talk(level=level)
    assert talk.client.is_open
    assert talk.call(ECHO, b"hello") == b"hello"
    who = b"alice" if level != Level.NONE else b"nobody"
    assert talk.call(WHO) == who + f" at {level.name} from 10.0.0.1".encode()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 5000, 65_491, 65_492, 65_512, 65_513, 200_001])
def test_calls_and_answers_of_any_size_pass(level: Level, size: int) -> None:
    talk = Talk(level=level)
    stub = bytes(number % 251 for number in range(size))
    assert talk.call(ECHO, stub) == stub


@pytest.mark.parametrize("level", LEVELS)
def test_no_request_is_larger_than_the_server_takes(level: Level) -> None:
    talk = Talk(Desk(RpcSettings(fragment_max=1432)), level=level)
    talk.client.request(ECHO, bytes(10_000))
    sent = talk.client.take_outgoing()
    at = 0
    while at < len(sent):
        header = pdu.read_header(sent, at)
        assert header.frag_length <= 1432
        at += header.frag_length
    talk.server.connection.receive(sent)
    assert talk.hear() == [(3 if level != Level.NONE else 2, 0, bytes(10_000))]


def test_many_calls_are_outstanding_and_answered_in_any_order() -> None:
    talk = Talk()
    numbers = [talk.client.request(WAIT, b"") for _ in range(50)]
    assert talk.carry() == []
    assert len(set(numbers)) == 50
    for nth, call in enumerate(reversed(talk.desk.toy.waiting)):
        call.answer(b"%d" % nth)
    answers = talk.hear()
    assert answers == [(number, 0, b"%d" % nth) for nth, number in enumerate(reversed(numbers))]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("piece", [1, 7, 24, 1000])
def test_answers_come_in_any_pieces(level: Level, piece: int) -> None:
    talk = Talk(level=level)
    sizes = (0, 3, 70_000)
    numbers = [talk.client.request(LARGE, b"%d" % size) for size in sizes]
    answers = talk.carry(piece)
    assert [(number, 0, size) for number, size in zip(numbers, sizes, strict=True)] == [
        (call_id, status, len(stub)) for call_id, status, stub in answers
    ]


def test_requests_together_leave_as_one_piece() -> None:
    talk = Talk()
    for _ in range(10):
        talk.client.request(ECHO, b"x")
    assert len(list(_pdus(talk.client.take_outgoing()))) == 10
    assert talk.client.take_outgoing() == b""


def _pdus(data: bytes) -> Iterable[bytes]:
    at = 0
    while at < len(data):
        end = at + pdu.read_header(data, at).frag_length
        yield data[at:end]
        at = end


@pytest.mark.parametrize("level", LEVELS)
def test_a_fault_ends_a_call_with_its_status(level: Level) -> None:
    talk = Talk(level=level)
    number = talk.client.request(THROW, b"")
    assert talk.carry() == [(number, STATUS, b"")]
    assert talk.call(ECHO, b"on") == b"on"


def test_the_features_and_the_group_are_known() -> None:
    talk = Talk()
    assert talk.client.features == client.FEATURES
    assert talk.client.multiplexed
    assert talk.client.group_id != 0
    other = Talk(talk.desk, group_id=talk.client.group_id)
    assert other.client.group_id == talk.client.group_id


def test_ndr64_is_taken_where_it_is_asked_for() -> None:
    assert Talk(ndr64=True).client.ndr64
    assert not Talk().client.ndr64


def test_an_interface_that_is_not_there_is_refused() -> None:
    with pytest.raises(BindRefused) as refused:
        Talk(interface=syntax("12345678-1111-2222-3333-444444444444", 1))
    assert refused.value.is_unknown_interface


def test_a_wrong_password_is_found_out_by_the_first_call() -> None:
    """AUTH3 has no answer ([MS-RPCE] 3.3.1.5.2.2)."""
    talk = Talk(level=Level.PRIVACY, password="wrong")
    number = talk.client.request(ECHO, b"")
    assert talk.carry() == [(number, statuses.ACCESS_DENIED, b"")]


def test_too_low_a_level_is_a_fault() -> None:
    talk = Talk(level=Level.INTEGRITY, interface=GUARDED)
    number = talk.client.request(ECHO, b"")
    assert talk.carry() == [(number, statuses.ACCESS_DENIED, b"")]


@pytest.mark.parametrize("level", PROTECTED)
@given(nth=st.integers(0, 400), bit=st.integers(0, 7))
def test_an_answer_that_was_changed_is_not_believed(level: Level, nth: int, bit: int) -> None:
    talk = Talk(level=level)
    talk.client.request(ECHO, bytes(300))
    talk.server.connection.receive(talk.client.take_outgoing())
    answer = bytearray(talk.server.sent)
    answer[nth % len(answer)] ^= 1 << bit
    try:
        answers = talk.client.receive(bytes(answer))
    except RemoteProtocolError:
        return
    assert answers in ([], [(3, 0, bytes(300))]) or answers[0][1]  # a fault is never signed


def test_an_answer_without_its_signature_is_not_believed() -> None:
    talk = Talk(level=Level.INTEGRITY)
    talk.client.request(ECHO, b"")
    talk.client.take_outgoing()
    with pytest.raises(BadAnswer):
        talk.client.receive(pdu.pack(pdu.RESPONSE, pdu.WHOLE, 3, pdu.pack_response(0, b"x")))


@pytest.mark.parametrize("reason", [statuses.NAK_PROTOCOL_VERSION, statuses.NAK_CONGESTION])
def test_a_bind_nak_says_why(reason: int) -> None:
    connection = ClientConnection(TOY)
    connection.begin()
    body = pdu.pack_bind_nak(pdu.BindNak(reason))
    with pytest.raises(BindRefused) as refused:
        connection.receive(pdu.pack(pdu.BIND_NAK, pdu.WHOLE, 1, body))
    assert (refused.value.nak, refused.value.reason) == (True, reason)


def test_a_short_bind_nak_is_read_too() -> None:
    connection = ClientConnection(TOY)
    connection.begin()
    with pytest.raises(BindRefused):
        connection.receive(pdu.pack(pdu.BIND_NAK, pdu.WHOLE, 1, b"\1\0"))


class TwoSteps:
    """A mechanism that takes one exchange more, as SPNEGO does."""

    signature_size = 0
    identity = None
    mechanism = "two steps"

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.heard: list[bytes] = []

    @property
    def complete(self) -> bool:
        return len(self.heard) > self.rounds

    def signature_size_at(self, level: Level) -> int:
        return 0

    def step(self, token: bytes) -> bytes | None:
        self.heard.append(token)
        return b"token %d" % len(self.heard)

    def protect(
        self, level: Level, before: bytes, body: bytes, after: bytes
    ) -> tuple[bytes, bytes]:
        return body, b""

    def unprotect(
        self, level: Level, before: bytes, body: bytes, after: bytes, signature: bytes
    ) -> bytes:
        return body


def _ack(kind: int, token: bytes | None) -> bytes:
    results = (
        pdu.ContextResult(0, 0, NDR),
        pdu.ContextResult(statuses.PROVIDER_REJECTION, 2),
    )
    ack = pdu.pack_bind_ack(pdu.BindAck(5840, 5840, 77, "2103", results))
    trailer = None if token is None else pdu.Trailer(9, Level.CONNECT, 0, 0, token)
    return pdu.pack(kind, pdu.WHOLE, 1, ack, trailer)


def negotiating(rounds: int) -> tuple[ClientConnection, TwoSteps]:
    security = TwoSteps(rounds)
    connection = ClientConnection(TOY, security=security, auth_type=9, level=Level.CONNECT)
    connection.begin()
    (bind,) = _pdus(connection.take_outgoing())
    assert pdu.trailer_of(bind, 7).token == b"token 1"
    return connection, security


def test_the_exchange_of_tokens_goes_on_with_alter_context_until_it_is_complete() -> None:
    connection, security = negotiating(2)
    connection.receive(_ack(pdu.BIND_ACK, b"challenge"))
    assert not connection.is_open
    (alter,) = _pdus(connection.take_outgoing())
    header = pdu.read_header(alter)
    assert header.kind == pdu.ALTER_CONTEXT
    assert pdu.trailer_of(alter, header.auth_length).token == b"token 2"
    connection.receive(_ack(pdu.ALTER_CONTEXT_RESP, b"accepted"))
    assert connection.is_open
    (last,) = _pdus(connection.take_outgoing())
    assert pdu.read_header(last).kind == pdu.AUTH3
    assert security.heard == [b"", b"challenge", b"accepted"]
    assert connection.group_id == 77
    assert not connection.multiplexed
    assert connection.features == 0


@pytest.mark.parametrize("end", ["fault", "no token"])
def test_an_exchange_that_the_server_ends_is_a_refused_login(end: str) -> None:
    connection, _ = negotiating(2)
    if end == "fault":
        connection.receive(_ack(pdu.BIND_ACK, b"challenge"))
        fault = pdu.pack(pdu.FAULT, pdu.WHOLE, 2, pdu.pack_fault(0, statuses.ACCESS_DENIED))
    else:
        fault = _ack(pdu.BIND_ACK, None)
    with pytest.raises(LoginRefused):
        connection.receive(fault)


def test_a_server_that_shuts_down_is_noticed() -> None:
    talk = Talk()
    assert talk.client.receive(pdu.pack(pdu.SHUTDOWN, pdu.WHOLE, 0, b"")) == []
    assert talk.client.is_shut_down


def _response(flags: int, stub: bytes = b"x", call_id: int = 2) -> bytes:
    return pdu.pack(pdu.RESPONSE, flags, call_id, pdu.pack_response(0, stub))


BAD = {
    "answer that begins twice": _response(pdu.FIRST_FRAG) * 2,
    "whole answer amid another": _response(pdu.FIRST_FRAG) + _response(pdu.WHOLE),
    "answer without a beginning": _response(pdu.LAST_FRAG),
    "answer without its header": pdu.pack(pdu.RESPONSE, pdu.WHOLE, 2, b"x"),
    "fault without a status": pdu.pack(pdu.FAULT, pdu.WHOLE, 2, bytes(8)),
    "second bind_ack": _ack(pdu.BIND_ACK, None),
    "request": pdu.pack(pdu.REQUEST, pdu.WHOLE, 2, bytes(8)),
    "big-endian": bytes([5, 0, 2, 3, 0, 0, 0, 0, 0, 24, 0, 0, 0, 0, 0, 2]) + bytes(8),
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
def test_what_no_server_says_breaks_the_connection(data: bytes) -> None:
    talk = Talk()
    talk.client.request(WAIT, b"")
    talk.carry()
    with pytest.raises(RemoteProtocolError):
        talk.client.receive(data)


def test_answers_that_never_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "HELD_MAX", 1000)
    talk = Talk()
    talk.client.receive(_response(pdu.FIRST_FRAG, bytes(1000)))
    with pytest.raises(RemoteProtocolError, match="1000 bytes"):
        talk.client.receive(_response(0))


@pytest.mark.parametrize("kept", [0, 1])
def test_a_bind_ack_has_a_result_for_each_context(kept: int) -> None:
    connection = ClientConnection(TOY)
    connection.begin()
    results = (pdu.ContextResult(0, 0, NDR),) * kept
    ack = pdu.pack_bind_ack(pdu.BindAck(5840, 5840, 1, "", results))
    with pytest.raises(RemoteProtocolError):
        connection.receive(pdu.pack(pdu.BIND_ACK, pdu.WHOLE, 1, ack))


def test_a_server_that_takes_too_little_is_refused() -> None:
    connection = ClientConnection(TOY)
    connection.begin()
    results = (pdu.ContextResult(0, 0, NDR), pdu.ContextResult(2, 2))
    ack = pdu.pack_bind_ack(pdu.BindAck(5840, 100, 1, "", results))
    with pytest.raises(RemoteProtocolError, match="100 bytes only"):
        connection.receive(pdu.pack(pdu.BIND_ACK, pdu.WHOLE, 1, ack))


@given(st.binary(max_size=200), st.sampled_from(["new", "open", "signed"]), st.booleans())
def test_any_bytes_are_taken_or_break_the_connection(data: bytes, state: str, framed: bool) -> None:
    if state == "new":
        connection = ClientConnection(TOY)
        connection.begin()
    else:
        connection = Talk(level=Level.PRIVACY if state == "signed" else Level.NONE).client
    if framed and len(data) >= 8:
        kind = (pdu.RESPONSE, pdu.FAULT, pdu.BIND_ACK, pdu.BIND_NAK)[data[0] % 4]
        data = pdu.pack(kind, data[1], data[2], data[3:])
    try:
        for _, _, stub in connection.receive(data):
            assert isinstance(stub, bytes)
    except (RemoteProtocolError, BindRefused, LoginRefused):
        return
