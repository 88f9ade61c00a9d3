"""Security contexts of a connection: once failed, failed for ever; once complete, left alone."""

import pytest

from posthouse.model.errors import MalformedPacket
from posthouse.rpc.pdu import Trailer
from posthouse.rpc.security import NTLM, Identity, Level, LoginRefused, SecurityContext
from posthouse.rpc.security_contexts import LOGINS_MAX, Login, Logins, UnknownProvider


class Forgetful:
    """A provider that does not mind being asked again."""

    mechanism = "kerberos"
    signature_size = 8

    def __init__(self) -> None:
        self.complete = False
        self.steps: list[bytes] = []

    @property
    def identity(self) -> Identity | None:
        return Identity("ann", "D", "kerberos") if self.complete else None

    def signature_size_at(self, level: Level) -> int:
        return 8

    def step(self, token: bytes) -> bytes | None:
        self.steps.append(token)
        if token == b"wrong":
            raise LoginRefused("wrong")
        self.complete = token == b"right"
        return b"again" if not self.complete else None

    def protect(
        self, level: Level, before: bytes, body: bytes, after: bytes
    ) -> tuple[bytes, bytes]:
        return body, bytes(8)

    def unprotect(
        self, level: Level, before: bytes, body: bytes, after: bytes, signature: bytes
    ) -> bytes:
        return body


class House:
    """Its accounts."""

    def acceptor(self, auth_type: int, address: str) -> SecurityContext | None:
        return Forgetful() if auth_type == NTLM else None


def begun(
    level: Level = Level.PRIVACY, *, logins: Logins | None = None, number: int = 3
) -> tuple[Login, Forgetful]:
    logins = Logins(House(), "10.0.0.1") if logins is None else logins
    trailer = Trailer(NTLM, level, 0, number, b"")
    login = logins.begin(trailer, 0, header_signing=False, is_bind=not len(logins))
    assert isinstance(login.context, Forgetful)
    return login, login.context


@pytest.mark.spec("RPC/22")
def test_login_that_failed_stays_failed() -> None:
    login, context = begun()
    for token in (b"wrong", b"right", b"right"):
        with pytest.raises(LoginRefused):
            login.step(token)
    assert not login.is_ready
    assert context.steps == [b"wrong"]


@pytest.mark.spec("RPC/22")
def test_last_token_that_is_not_the_last_one_fails() -> None:
    login, _ = begun()
    with pytest.raises(LoginRefused):
        login.step(b"more", is_last=True)
    with pytest.raises(LoginRefused):
        login.step(b"right")
    assert not login.is_ready


@pytest.mark.spec("RPC/14")
def test_login_that_is_complete_is_left_alone() -> None:
    login, context = begun()
    assert login.step(b"more") == b"again"
    assert (login.is_ready, login.identity) == (False, None)
    assert login.step(b"right") == b""
    assert login.is_ready
    assert login.step(b"wrong") == b""
    assert login.step(b"", is_last=True) == b""
    assert context.steps == [b"more", b"right"]
    assert login.identity == Identity("ann", "D", "kerberos")


def test_call_level_counts_as_packet() -> None:
    login, _ = begun(Level.CALL)
    assert login.level == Level.PACKET
    assert login.protection.said_level == Level.CALL


@pytest.mark.parametrize(
    ("auth_type", "level", "error"),
    [
        (99, 6, UnknownProvider),
        (NTLM, 0, MalformedPacket),
        (NTLM, 1, MalformedPacket),
        (NTLM, 7, MalformedPacket),
    ],
)
def test_what_is_not_to_be_had_is_refused(
    auth_type: int, level: int, error: type[Exception]
) -> None:
    trailer = Trailer(auth_type, level, 0, 0, b"")
    with pytest.raises(error):
        Logins(House(), "10.0.0.1").begin(trailer, 0, header_signing=False, is_bind=True)


def test_nobody_logs_in_where_there_are_no_accounts() -> None:
    with pytest.raises(UnknownProvider):
        Logins(None, "10.0.0.1").begin(
            Trailer(NTLM, 6, 0, 0, b""), 0, header_signing=False, is_bind=True
        )


def test_logins_are_limited() -> None:
    logins = Logins(House(), "10.0.0.1")
    for number in range(LOGINS_MAX):
        begun(logins=logins, number=number)
    with pytest.raises(LoginRefused):
        begun(logins=logins, number=LOGINS_MAX)
    assert len(logins) == LOGINS_MAX


def test_calls_without_a_trailer_are_of_the_login_of_the_bind_or_at_connect_level() -> None:
    logins = Logins(House(), "10.0.0.1")
    first, _ = begun(logins=logins, number=1)
    begun(Level.CONNECT, logins=logins, number=2)
    assert logins.default is first


def test_unended_logins_are_overdue_and_ended_ones_are_not() -> None:
    logins = Logins(House(), "10.0.0.1")
    login, _ = begun(logins=logins)
    assert not logins.is_overdue(100, 100)
    assert logins.is_overdue(101, 100)
    login.step(b"right")
    assert not logins.is_overdue(101, 100)
    other, _ = begun(logins=logins, number=4)
    with pytest.raises(LoginRefused):
        other.step(b"wrong")
    assert not logins.is_overdue(101, 100)
