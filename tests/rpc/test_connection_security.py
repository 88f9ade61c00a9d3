"""Connections with a login: levels, signatures, sealed fragments, wrong passwords."""

import struct
from typing import Any

import pytest

from posthouse.rpc import pdu, statuses
from posthouse.rpc.ntlm.authentication import NtlmInitiator
from posthouse.rpc.protection import Protection
from posthouse.rpc.security import NTLM, SPNEGO, Level
from posthouse.rpc.security_contexts import LOGINS_MAX
from posthouse.rpc.settings import RpcSettings
from posthouse.rpc.syntax import NDR, NDR64
from posthouse.rpc.verification import END, HEADER_2, MAGIC, MUST_PROCESS, PCONTEXT

from .login_book import DOMAIN, PASSWORD, USER, initiator
from .toy import (
    ECHO,
    FIND,
    GUARDED,
    LARGE,
    OPEN,
    TOY,
    WAIT,
    WHO,
    Accounts,
    Desk,
    Wire,
    answer_of,
    fault_of,
    item,
    request,
)

PROTECTED = [Level.CALL, Level.PACKET, Level.INTEGRITY, Level.PRIVACY]
DENIED = b"fault 00000005 not executed"


class Client:
    """A client that logs in by NTLM."""

    def __init__(
        self,
        wire: Wire,
        level: Level = Level.PRIVACY,
        *,
        password: str = PASSWORD,
        user: str = USER,
        flags: int = pdu.WHOLE,
        context_id: int = 3,
        max_recv: int = 5840,
        group_id: int = 0,
        kind: int = pdu.BIND,
    ) -> None:
        self.wire = wire
        self.level = level
        self.initiator: NtlmInitiator = initiator(user, password, DOMAIN)
        self.context_id = context_id
        negotiate = self.initiator.step(b"") or b""
        items = item(0), item(1, GUARDED), item(2, GUARDED, NDR64)
        self.ack = wire.bind(
            *items,
            flags=flags,
            trailer=self.trailer(negotiate),
            max_recv=max_recv,
            group_id=group_id,
            kind=kind,
        )
        assert wire.trailer is not None
        assert wire.trailer[:2] == (NTLM, level)
        assert wire.trailer.context_id == context_id
        self.proof = self.initiator.step(wire.trailer.token) or b""
        self.protection = Protection(self.initiator, NTLM, level, context_id)

    def trailer(self, token: bytes) -> pdu.Trailer:
        return pdu.Trailer(NTLM, self.level, 0, self.context_id, token)

    def prove(self) -> None:
        said = pdu.pack(pdu.AUTH3, pdu.WHOLE, 1, bytes(4), self.trailer(self.proof))
        assert self.wire.say(said) == []

    def request(
        self,
        opnum: int,
        stub: bytes = b"",
        *,
        context_id: int = 1,
        call_id: int = 7,
        flags: int = pdu.WHOLE,
    ) -> bytes:
        head = pdu.pack_request(context_id, opnum, b"", alloc_hint=len(stub))
        return self.protection.pack(pdu.REQUEST, flags, call_id, head, stub)

    def call(self, opnum: int, stub: bytes = b"", *, context_id: int = 1) -> bytes:
        return self.answer(self.wire.say(self.request(opnum, stub, context_id=context_id)))

    def answer(self, heard: list[tuple[pdu.Header, bytes]]) -> bytes:
        if heard[0][0].kind == pdu.FAULT:
            return answer_of(heard)
        return b"".join(self.protection.unpack(whole, h.auth_length) for h, whole in heard)


def logged_in(level: Level = Level.PRIVACY, desk: Desk | None = None) -> Client:
    client = Client((desk or Desk()).connect(), level)
    client.prove()
    return client


@pytest.mark.parametrize("level", PROTECTED)
def test_protected_call_is_served_for_who_proved_to_be_it(level: Level) -> None:
    client = logged_in(level)
    shown = "PACKET" if level == Level.CALL else level.name
    wanted = f"alice at {shown} from 10.0.0.1".encode()
    assert client.call(WHO, context_id=0) == wanted
    assert client.call(WHO, context_id=0) == wanted


@pytest.mark.spec("RPC/28")
@pytest.mark.parametrize("level", [Level.CONNECT, *PROTECTED])
def test_level_below_the_minimum_is_refused(level: Level) -> None:
    desk = Desk()
    client = logged_in(level, desk)
    if level == Level.CONNECT:
        answer = client.wire.call(ECHO, b"secret", context_id=1)
    else:
        answer = client.call(ECHO, b"secret", context_id=1)
    assert answer == (b"secret" if level == Level.PRIVACY else DENIED)
    assert len(desk.toy.served) == (level == Level.PRIVACY)


@pytest.mark.spec("RPC/21")
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000])
@pytest.mark.parametrize("level", [Level.INTEGRITY, Level.PRIVACY])
def test_protected_bodies_are_padded_to_sixteen(size: int, level: Level) -> None:
    client = logged_in(level)
    ((header, whole),) = client.wire.say(client.request(LARGE, b"%d" % size, context_id=0))
    body_size = header.frag_length - 24 - pdu.TRAILER_SIZE - header.auth_length
    assert body_size % 16 == 0
    trailer = pdu.trailer_of(whole, header.auth_length)
    assert trailer.pad_length == body_size - size
    assert (pdu.read_response(whole[16:]).alloc_hint, trailer.context_id) == (size, 3)
    assert len(client.protection.unpack(whole, header.auth_length)) == size


def test_sealed_answer_cannot_be_read_by_others() -> None:
    client = logged_in()
    ((_, whole),) = client.wire.say(client.request(ECHO, b"top secret words"))
    assert b"secret" not in whole


@pytest.mark.spec("RPC/20", "RPC/21")
@pytest.mark.parametrize("max_recv", [1432, 1440, 5840])
def test_large_protected_answer_is_cut_to_what_the_client_takes(max_recv: int) -> None:
    client = Client(Desk().connect(), max_recv=max_recv)
    client.prove()
    heard = client.wire.say(client.request(LARGE, b"20000"))
    assert all(header.frag_length <= max_recv for header, _ in heard)
    assert len(client.answer(heard)) == 20000


@pytest.mark.spec("RPC/19")
def test_protected_fragments_are_put_together() -> None:
    client = logged_in()
    parts = [(b"a" * 32, pdu.FIRST_FRAG), (b"b" * 33, 0), (b"c" * 7, pdu.LAST_FRAG)]
    said = [client.request(ECHO, stub, flags=flags) for stub, flags in parts]
    assert client.answer(client.wire.say(*said)) == b"a" * 32 + b"b" * 33 + b"c" * 7


def test_header_signing_is_agreed_to() -> None:
    wire = Desk().connect()
    Client(wire, flags=pdu.WHOLE | pdu.SUPPORT_HEADER_SIGN)
    assert wire.ack_header.flags == pdu.WHOLE | pdu.SUPPORT_HEADER_SIGN


def test_answers_in_another_order_are_protected_in_the_order_of_sending() -> None:
    desk = Desk()
    client = logged_in(desk=desk)
    client.wire.say(*(client.request(WAIT, call_id=number) for number in range(4)))
    for number in (2, 0, 3, 1):
        desk.toy.waiting[number].answer(b"%d" % number)
    heard = client.wire.heard()
    assert [header.call_id for header, _ in heard] == [2, 0, 3, 1]
    assert [client.answer([one]) for one in heard] == [b"2", b"0", b"3", b"1"]


# -- those who prove nothing


@pytest.mark.spec("RPC/22", "RPC/26")
@pytest.mark.parametrize("level", [Level.CONNECT, *PROTECTED])
@pytest.mark.parametrize("context_id", [0, 1])
def test_after_a_wrong_password_every_call_is_refused(level: Level, context_id: int) -> None:
    desk = Desk()
    client = Client(desk.connect(), level, password="wrong")
    client.prove()
    assert client.wire.connection.counts.logins_refused == 1
    for _ in range(3):
        if level == Level.CONNECT:
            assert client.wire.call(ECHO, context_id=context_id) == DENIED
        else:
            assert client.call(ECHO, context_id=context_id) == DENIED
        assert client.wire.call(ECHO, context_id=context_id) == DENIED
    assert desk.toy.served == []


@pytest.mark.spec("RPC/22")
def test_right_password_comes_too_late_after_a_wrong_one() -> None:
    desk = Desk()
    client = Client(desk.connect(), Level.CONNECT)
    right, client.proof = client.proof, b"NTLMSSP\0 nonsense"
    client.prove()
    client.proof = right
    client.prove()
    assert client.wire.call(ECHO, context_id=0) == DENIED


@pytest.mark.parametrize("level", [Level.CONNECT, *PROTECTED])
def test_nobody_is_served_before_the_proof(level: Level) -> None:
    desk = Desk()
    client = Client(desk.connect(), level)
    assert client.wire.call(ECHO, context_id=0) == DENIED
    assert client.wire.call(ECHO, context_id=1) == DENIED
    client.prove()
    assert (client.wire.call(WHO) == DENIED) == (level != Level.CONNECT)
    assert desk.toy.served == []


@pytest.mark.parametrize("level", PROTECTED)
def test_call_without_its_signature_is_refused(level: Level) -> None:
    client = logged_in(level)
    assert client.wire.call(WHO, context_id=0) == DENIED
    assert client.wire.call(WHO, context_id=1) == DENIED
    assert b"alice" in client.call(WHO, context_id=0)


@pytest.mark.parametrize("level", [Level.PACKET, Level.INTEGRITY, Level.PRIVACY])
@pytest.mark.parametrize("at", [12, 20, 22, 24, 40, -16, -20, -1])
def test_tampering_ends_the_connection(level: Level, at: int) -> None:
    desk = Desk()
    client = logged_in(level, desk)
    said = bytearray(client.request(ECHO, b"0123456789abcdef" * 2, context_id=0))
    said[at] ^= 1
    heard = client.wire.say(bytes(said))
    assert fault_of(heard)[0] in (statuses.SECURITY_PACKAGE, statuses.ACCESS_DENIED)
    assert fault_of(heard)[1] is False
    assert client.wire.closed == (fault_of(heard)[0] == statuses.SECURITY_PACKAGE)
    assert at == -20 or client.wire.closed
    assert desk.toy.served == []


@pytest.mark.parametrize(
    ("level", "auth_type", "said"),
    [
        (Level.CONNECT, NTLM, Level.PACKET),
        (Level.CONNECT, NTLM, Level.INTEGRITY),
        (Level.CONNECT, SPNEGO, Level.CONNECT),
        (Level.INTEGRITY, NTLM, Level.CONNECT),
        (Level.INTEGRITY, NTLM, Level.PRIVACY),
        (Level.PRIVACY, NTLM, Level.CONNECT),
        (Level.PRIVACY, SPNEGO, Level.PRIVACY),
    ],
)
def test_trailer_of_another_level_or_kind_ends_the_connection(
    level: Level, auth_type: int, said: Level
) -> None:
    desk = Desk()
    client = logged_in(level, desk)
    trailer = pdu.Trailer(auth_type, said, 0, client.context_id, bytes(16))
    heard = client.wire.say(request(ECHO, bytes(16), trailer=trailer))
    assert fault_of(heard) == (statuses.ACCESS_DENIED, False)
    assert client.wire.closed
    assert desk.toy.served == []


def test_trailer_at_connect_level_is_taken_as_it_is() -> None:
    client = logged_in(Level.CONNECT)
    trailer = client.trailer(bytes(16))
    heard = client.wire.say(request(ECHO, b"stub", trailer=trailer))
    assert answer_of(heard) == b"stub"


def test_same_bytes_twice_end_the_connection() -> None:
    client = logged_in(Level.INTEGRITY)
    said = client.request(ECHO, context_id=0)
    client.wire.say(said)
    assert fault_of(client.wire.say(said)) == (statuses.SECURITY_PACKAGE, False)
    assert client.wire.closed


def test_fragments_of_a_refused_call_are_refused_once() -> None:
    client = Client(Desk().connect(), password="wrong")
    client.prove()
    said = [client.request(ECHO, bytes(32), flags=flags) for flags in (1, 0, 0, 2)]
    assert answer_of(client.wire.say(*said)) == DENIED


@pytest.mark.parametrize(
    "flags", [(pdu.FIRST_FRAG, pdu.LAST_FRAG), (pdu.LAST_FRAG, pdu.FIRST_FRAG)]
)
def test_fragment_without_its_signature_spoils_the_call(flags: tuple[int, int]) -> None:
    desk = Desk()
    client = logged_in(desk=desk)
    said = [
        client.request(ECHO, bytes(16), flags=flags[0]),
        request(ECHO, bytes(16), flags=flags[1], context_id=1),
    ]
    assert answer_of(client.wire.say(*sorted(said, key=lambda one: one[3]))) == DENIED
    assert desk.toy.served == []


def test_unknown_security_context_is_refused() -> None:
    client = logged_in()
    client.protection.context_id = 99
    assert client.call(ECHO) == DENIED
    assert not client.wire.closed


@pytest.mark.parametrize(
    ("auth_type", "level", "reason"),
    [
        (SPNEGO, 6, statuses.NAK_AUTHENTICATION_TYPE),
        (77, 6, statuses.NAK_AUTHENTICATION_TYPE),
        (NTLM, 0, statuses.NAK_NOT_SPECIFIED),
        (NTLM, 1, statuses.NAK_NOT_SPECIFIED),
        (NTLM, 7, statuses.NAK_NOT_SPECIFIED),
    ],
)
def test_unknown_kind_of_authentication_is_named_in_the_refusal(
    auth_type: int, level: int, reason: int
) -> None:
    wire = Desk().connect()
    bind = pdu.pack_bind(pdu.Bind(5840, 5840, 0, (item(0),)))
    trailer = pdu.Trailer(auth_type, level, 0, 0, b"token")
    ((header, whole),) = wire.say(pdu.pack(pdu.BIND, pdu.WHOLE, 1, bind, trailer))
    assert header.kind == pdu.BIND_NAK
    assert pdu.read_bind_nak(whole[16:]).reason == reason
    assert wire.closed


@pytest.mark.parametrize(("pad", "is_refused"), [(60, False), (68, False), (69, True)])
def test_padding_of_a_bind_means_nothing_but_has_to_be_there(pad: int, is_refused: bool) -> None:
    wire = Desk().connect()
    items = (pdu.ContextItem(0, TOY, (NDR, NDR64)),)
    bind = pdu.pack_bind(pdu.Bind(5840, 5840, 0, items))
    token = initiator().step(b"") or b""
    whole = bytearray(pdu.pack(pdu.BIND, 3, 1, bind, pdu.Trailer(NTLM, 6, 0, 0, token)))
    whole[-len(token) - 6] = pad
    ((header, answer),) = wire.say(bytes(whole))
    assert header.kind == (pdu.BIND_NAK if is_refused else pdu.BIND_ACK)
    if is_refused:
        assert pdu.read_bind_nak(answer[16:]).reason == statuses.NAK_PROTOCOL_VERSION


def test_first_token_that_is_none_is_refused() -> None:
    wire = Desk().connect()
    bind = pdu.pack_bind(pdu.Bind(5840, 5840, 0, (item(0),)))
    trailer = pdu.Trailer(NTLM, 6, 0, 0, b"token")
    ((header, whole),) = wire.say(pdu.pack(pdu.BIND, pdu.WHOLE, 1, bind, trailer))
    assert header.kind == pdu.BIND_NAK
    assert pdu.read_bind_nak(whole[16:]).reason == statuses.NAK_INVALID_CHECKSUM
    assert wire.connection.counts.logins_refused == 1


def test_login_that_is_never_ended_is_overdue() -> None:
    desk = Desk(RpcSettings(login_ms=100))
    client = Client(desk.connect())
    assert client.wire.connection.overdue(101) == "never logged in"
    client.prove()
    assert client.wire.connection.overdue(101) == ""


@pytest.mark.parametrize(
    "proved",
    [
        {"mechanism": "kerberos"},
        {"groups": (b"S-1-5-21-1",)},
        {"has_account": False},
    ],
)
def test_a_login_that_a_domain_has_verified_is_good_for_a_time(proved: dict[str, Any]) -> None:
    """The domain may have closed the account since."""
    client = logged_in(desk=Desk(RpcSettings(domain_login_ms=100)))
    connection = client.wire.connection
    assert connection.overdue(101) == ""  # an account here, which is looked at with each call
    login = connection.binding.logins.find(client.protection.context_id)
    assert login is not None
    assert login.identity is not None
    login.identity = login.identity._replace(**proved)
    assert connection.overdue(100) == ""
    assert connection.overdue(101) == "the login of a domain user is too old"
    unlimited = logged_in(desk=Desk(RpcSettings())).wire.connection
    assert unlimited.overdue(101) == ""


# -- alter_context


@pytest.mark.spec("RPC/14")
def test_repeated_token_does_not_step_the_acceptor_again() -> None:
    accounts = Accounts()
    desk = Desk(authenticator=accounts)
    client = logged_in(desk=desk)
    for _ in range(2):
        again = client.wire.bind(
            item(5), trailer=client.trailer(client.proof), kind=pdu.ALTER_CONTEXT
        )
        assert again.results[0].result == 0
        assert client.wire.trailer is None
    assert b"alice" in client.call(WHO, context_id=5)
    assert accounts.book.told == ["accepted Alice"]


@pytest.mark.spec("RPC/14")
def test_proof_may_come_in_alter_context() -> None:
    client = Client(Desk().connect())
    client.wire.bind(item(5), trailer=client.trailer(client.proof), kind=pdu.ALTER_CONTEXT)
    assert b"alice" in client.call(WHO, context_id=5)


@pytest.mark.spec("RPC/22")
def test_wrong_proof_in_alter_context_is_refused() -> None:
    client = Client(Desk().connect(), password="wrong")
    bind = pdu.pack_bind(pdu.Bind(0, 0, 0, (item(5),)))
    said = pdu.pack(pdu.ALTER_CONTEXT, pdu.WHOLE, 2, bind, client.trailer(client.proof))
    assert answer_of(client.wire.say(said)) == DENIED
    assert client.call(ECHO) == DENIED


def test_second_login_on_a_connection_has_a_name_of_its_own() -> None:
    desk = Desk()
    desk.authenticator = accounts = Accounts()
    accounts.book.passwords["bob"] = "his"
    alice = logged_in(desk=desk)
    bob = Client(
        alice.wire,
        Level.INTEGRITY,
        user="bob",
        password="his",
        context_id=4,
        kind=pdu.ALTER_CONTEXT,
    )
    bob.prove()
    assert bob.call(WHO, context_id=0) == b"bob at INTEGRITY from 10.0.0.1"
    assert alice.call(WHO, context_id=0) == b"alice at PRIVACY from 10.0.0.1"
    assert bob.call(ECHO, context_id=1) == DENIED


def test_logins_of_a_connection_are_limited() -> None:
    wire = Desk().bound()
    for number in range(LOGINS_MAX):
        Client(wire, context_id=number, kind=pdu.ALTER_CONTEXT)
    bind = pdu.pack_bind(pdu.Bind(0, 0, 0, (item(5),)))
    trailer = pdu.Trailer(NTLM, 6, 0, 99, initiator().step(b"") or b"")
    heard = wire.say(pdu.pack(pdu.ALTER_CONTEXT, pdu.WHOLE, 2, bind, trailer))
    assert answer_of(heard) == DENIED


def test_login_at_connect_level_in_alter_context_counts_for_calls_without_a_trailer() -> None:
    client = Client(Desk().bound(), Level.CONNECT, kind=pdu.ALTER_CONTEXT)
    client.prove()
    assert client.wire.call(WHO) == b"alice at CONNECT from 10.0.0.1"


def test_fragments_under_two_logins_end_the_connection() -> None:
    alice = logged_in()
    other = Client(alice.wire, context_id=4, kind=pdu.ALTER_CONTEXT)
    other.prove()
    heard = alice.wire.say(
        alice.request(ECHO, bytes(16), flags=pdu.FIRST_FRAG),
        other.request(ECHO, bytes(16), flags=pdu.LAST_FRAG),
    )
    assert fault_of(heard) == (statuses.PROTOCOL_ERROR, False)


def test_security_context_cannot_change_its_level() -> None:
    client = Client(Desk().connect())
    bind = pdu.pack_bind(pdu.Bind(0, 0, 0, (item(5),)))
    lower = client.trailer(client.proof)._replace(level=Level.CONNECT)
    heard = client.wire.say(pdu.pack(pdu.ALTER_CONTEXT, pdu.WHOLE, 2, bind, lower))
    assert fault_of(heard) == (statuses.ACCESS_DENIED, False)
    assert client.wire.closed


# -- handles, cancels, verification trailers


@pytest.mark.spec("RPC/15")
def test_handle_of_another_identity_is_unknown() -> None:
    desk = Desk()
    alice = logged_in(desk=desk)
    handle = alice.call(OPEN, b"queue")
    nobody = desk.bound(group_id=alice.ack.group_id)
    assert nobody.call(FIND, handle) == b"unknown"
    again = Client(desk.connect(), group_id=alice.ack.group_id)
    again.prove()
    assert again.call(FIND, handle) == b"queue"


@pytest.mark.spec("RPC/25")
def test_signed_cancel_keeps_both_ends_in_step() -> None:
    desk = Desk()
    client = logged_in(desk=desk)
    client.wire.say(client.request(WAIT))
    cancel = client.protection.pack(pdu.CO_CANCEL, pdu.WHOLE, 7, b"", b"")
    assert client.answer(client.wire.say(cancel)) == b"stopped"
    assert client.call(ECHO, b"on") == b"on"


def test_forged_cancel_ends_the_connection() -> None:
    desk = Desk()
    client = logged_in(desk=desk)
    client.wire.say(client.request(WAIT))
    cancel = bytearray(client.protection.pack(pdu.CO_CANCEL, pdu.WHOLE, 7, b"", b""))
    cancel[-1] ^= 1
    assert fault_of(client.wire.say(bytes(cancel))) == (statuses.SECURITY_PACKAGE, False)
    assert desk.toy.gone == []


def command(kind: int, value: bytes) -> bytes:
    return struct.pack("<HH", kind, len(value)) + value


def context_of(uuid: bytes = GUARDED.uuid) -> bytes:
    syntaxes = uuid + struct.pack("<HH", 3, 0) + NDR.uuid + struct.pack("<HH", 2, 0)
    return command(PCONTEXT | END, syntaxes)


def header_of(opnum: int) -> bytes:
    return command(HEADER_2 | MUST_PROCESS, struct.pack("<B3xIIHH", 0, 0x10, 7, 1, opnum))


def test_verification_trailer_is_checked_and_cut_off() -> None:
    client = logged_in()
    assert client.call(ECHO, b"stub" + MAGIC + header_of(ECHO) + context_of()) == b"stub"


@pytest.mark.parametrize(
    "commands", [header_of(OPEN) + context_of(), header_of(ECHO) + context_of(TOY.uuid)]
)
def test_verification_trailer_that_contradicts_the_header_is_refused(commands: bytes) -> None:
    desk = Desk()
    assert logged_in(desk=desk).call(ECHO, b"stub" + MAGIC + commands) == DENIED
    assert desk.toy.served == []
