"""Kerberos against a real key distribution center, by itself and within SPNEGO."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from posthouse.rpc import kerberos
from posthouse.rpc.kerberos import KerberosMissing, KerberosService
from posthouse.rpc.ntlm.authentication import ServerNames
from posthouse.rpc.providers import Acceptors, initiator
from posthouse.rpc.security import (
    KERBEROS,
    NTLM,
    SPNEGO,
    BadProtection,
    Identity,
    Level,
    LoginRefused,
    SecurityContext,
)

from .kdc import ELSEWHERE, HOST, PASSWORDS, REALM, Kdc, need_gssapi

BODY = b"0123456789abcdef" * 40
PROTECTED = [Level.PACKET, Level.INTEGRITY, Level.PRIVACY]


class Proof:
    def __init__(self, name: str) -> None:
        self.name = name
        self.sid = name.encode()


class Book:
    """Accounts of alice and of carol/admin, if there could be one."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def nt_hash(self, user: str, address: str) -> bytes | None:
        return None

    def accepted(self, user: str, address: str) -> Proof:
        raise AssertionError(user)

    def refused(self, user: str, address: str, cause: str) -> None:
        self.told.append((user, address))

    def vouched(self, user: str) -> Proof | None:
        return Proof(user) if user == "alice" else None


class Realm:
    """A server of the realm, and its clients."""

    def __init__(self, kdc: Kdc) -> None:
        self.kdc = kdc
        self.book = Book()
        service = KerberosService(str(kdc.keytab))
        self.acceptors = Acceptors(self.book, ServerNames("alpha", HOST), bytes, lambda: 0, service)

    def server(self, auth_type: int = KERBEROS) -> SecurityContext:
        context = self.acceptors.acceptor(auth_type, "192.0.2.1")
        assert context is not None
        return context

    def client(
        self,
        user: str = "alice",
        password: str | None = None,
        mechanism: str = "kerberos",
        realm: str = REALM,
    ) -> SecurityContext:
        known = PASSWORDS[user] if password is None else password
        return initiator(mechanism, f"{user}@{realm}", known, HOST, random_bytes=bytes, filetime=0)

    def agreed(self) -> tuple[SecurityContext, SecurityContext]:
        return self.settled(self.client(), self.server())

    def settled(
        self, client: SecurityContext, server: SecurityContext
    ) -> tuple[SecurityContext, SecurityContext]:
        token: bytes | None = b""
        while not (client.complete and server.complete):
            token = client.step(token or b"")
            if token is not None:
                token = server.step(token)
        return client, server


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    center = Kdc(tmp_path_factory.mktemp("kdc"))
    yield center
    center.stop()


@pytest.fixture
def realm(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> Realm:
    need_gssapi()
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    return Realm(kdc)


with_kdc = pytest.mark.peer("kerberos")


@with_kdc
def test_a_ticket_tells_who_it_is(realm: Realm) -> None:
    client, server = realm.agreed()
    assert server.identity == Identity("alice", "ALPHA", "kerberos", b"alice")
    assert client.identity is None
    assert client.mechanism == server.mechanism == "kerberos"


@with_kdc
def test_there_are_three_tokens(realm: Realm) -> None:
    client, server = realm.client(), realm.server()
    proof = server.step(client.step(b"") or b"")
    assert not server.complete
    assert server.identity is None
    last = client.step(proof or b"")
    assert client.complete
    assert server.step(last or b"") is None
    assert server.complete


@with_kdc
def test_a_ticket_may_come_in_a_frame(realm: Realm) -> None:
    """Where SPNEGO is around it clients put one, as RFC 4121 has it and the exchange of RPC not."""
    client, server = realm.client(), realm.server()
    ticket = bytes.fromhex("06092a864886f7120102020100") + (client.step(b"") or b"")
    framed = b"\x60\x82" + len(ticket).to_bytes(2, "big") + ticket
    server.step(client.step(server.step(framed) or b"") or b"")
    assert server.complete


@with_kdc
def test_tickets_of_kinit_are_enough(realm: Realm) -> None:
    realm.kdc.log_in("alice")
    for mechanism, auth_type in (("kerberos", KERBEROS), ("negotiate", SPNEGO)):
        client = realm.client(password="", mechanism=mechanism)
        client, server = realm.settled(client, realm.server(auth_type))
        assert server.identity is not None
        assert server.identity.user == "alice"
        check_protection(client, server)


def check_protection(client: SecurityContext, server: SecurityContext) -> None:
    for level in PROTECTED:
        for one, other in ((client, server), (server, client)):
            sent, signature = one.protect(level, b"head", BODY, b"trailer")
            assert (sent == BODY) == (level < Level.PRIVACY)
            assert len(signature) == one.signature_size_at(level)
            assert other.unprotect(level, b"head", sent, b"trailer", signature) == BODY


@with_kdc
def test_what_is_protected_comes_out_at_the_other_end(realm: Realm) -> None:
    client, server = realm.agreed()
    check_protection(client, server)
    check_protection(server, client)
    assert client.protect(Level.CONNECT, b"", BODY, b"") == (BODY, b"")
    assert server.unprotect(Level.CONNECT, b"", BODY, b"", b"") == BODY


@with_kdc
@pytest.mark.parametrize("level", PROTECTED)
def test_a_change_is_noticed_wherever_it_is(realm: Realm, level: Level) -> None:
    parts = [b"head", BODY, b"trailer"]
    for part in range(4):
        client, server = realm.agreed()
        body, signature = client.protect(level, *parts)
        sent = [parts[0], body, parts[2], signature]
        octets = bytearray(sent[part])
        octets[-1] ^= 1
        sent[part] = bytes(octets)
        with pytest.raises(BadProtection):
            server.unprotect(level, *sent)
        with pytest.raises(BadProtection):
            server.unprotect(level, parts[0], body, parts[2], signature)


@with_kdc
@pytest.mark.parametrize("level", PROTECTED)
def test_nothing_can_be_repeated_or_left_out(realm: Realm, level: Level) -> None:
    client, server = realm.agreed()
    body, signature = client.protect(level, b"", BODY, b"")
    server.unprotect(level, b"", body, b"", signature)
    with pytest.raises(BadProtection):
        server.unprotect(level, b"", body, b"", signature)
    client, server = realm.agreed()
    client.protect(level, b"", BODY, b"")
    later = client.protect(level, b"", BODY, b"")
    with pytest.raises(BadProtection):
        server.unprotect(level, b"", later[0], b"", later[1])


@with_kdc
def test_a_body_in_the_clear_is_not_private(realm: Realm) -> None:
    client, server = realm.agreed()
    body, signature = client.protect(Level.INTEGRITY, b"", BODY, b"")
    with pytest.raises(BadProtection):
        server.unprotect(Level.PRIVACY, b"", body, b"", signature)


@with_kdc
def test_who_wants_no_protection_has_none(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kerberos, "_FLAGS", ("mutual_authentication", "dce_style"))
    client, server = realm.agreed()
    assert server.identity is not None
    assert server.unprotect(Level.CONNECT, b"", BODY, b"", b"") == BODY
    body, signature = client.protect(Level.INTEGRITY, b"", BODY, b"")
    with pytest.raises(BadProtection):
        server.unprotect(Level.INTEGRITY, b"", body, b"", signature)


@with_kdc
@pytest.mark.parametrize("user", ["bob", "carol/admin"])
def test_who_has_no_account_is_refused(realm: Realm, user: str) -> None:
    client, server = realm.client(user), realm.server()
    last = client.step(server.step(client.step(b"") or b"") or b"")
    with pytest.raises(LoginRefused):
        server.step(last or b"")
    assert not server.complete
    assert server.identity is None
    assert realm.book.told == [(user, "192.0.2.1")]


@with_kdc
def test_users_of_other_realms_are_strangers(realm: Realm) -> None:
    """They may have the name of an account, which does not make them its owner."""
    client, server = realm.client(realm=ELSEWHERE), realm.server()
    last = client.step(server.step(client.step(b"") or b"") or b"")
    assert client.complete  # our realm trusts theirs
    with pytest.raises(LoginRefused):
        server.step(last or b"")
    assert server.identity is None


@with_kdc
def test_a_wrong_password_gets_no_ticket(realm: Realm) -> None:
    with pytest.raises(LoginRefused):
        realm.client(password="wrong").step(b"")


@with_kdc
def test_a_ticket_that_was_overheard_is_worth_nothing(realm: Realm) -> None:
    client, server = realm.client(), realm.server()
    first = client.step(b"") or b""
    last = client.step(server.step(first) or b"") or b""
    server.step(last)
    with pytest.raises(LoginRefused):
        server.step(last)
    with pytest.raises(LoginRefused):
        realm.server().step(first)


@with_kdc
@given(data=st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_refused(realm: Realm, data: bytes) -> None:
    server = realm.server()
    with pytest.raises(LoginRefused):
        server.step(data)
    with pytest.raises(LoginRefused):
        server.step(data)
    with pytest.raises(BadProtection):
        server.unprotect(Level.PRIVACY, b"", data, b"", data)


@with_kdc
@given(where=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_ticket_is_refused(realm: Realm, where: float, bits: int) -> None:
    client, server = realm.client(), realm.server()
    token = bytearray(client.step(b"") or b"")
    token[int(where * len(token))] ^= bits
    try:
        server.step(client.step(server.step(bytes(token)) or b"") or b"")
    except LoginRefused:
        assert not (client.complete and server.complete)
    else:  # what is not covered by any checksum says nothing of who it is
        assert server.identity == Identity("alice", "ALPHA", "kerberos", b"alice")


@with_kdc
def test_ntlm_stays_where_kerberos_is(realm: Realm) -> None:
    assert realm.server(NTLM).mechanism == "ntlm"


@with_kdc
def test_a_key_table_has_to_be_there(realm: Realm, tmp_path: Path) -> None:
    with pytest.raises(KerberosMissing):
        KerberosService(str(tmp_path / "nothing"))


def test_without_the_extra_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named '{name}'")

    monkeypatch.setattr(kerberos, "import_module", missing)
    with pytest.raises(KerberosMissing, match=r"extra kerberos"):
        KerberosService("keytab")
    with pytest.raises(KerberosMissing):
        initiator("kerberos", "alice", "secret", "alpha", random_bytes=bytes, filetime=0)
