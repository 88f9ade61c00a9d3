"""Accounts with passwords in the clear, for tests of security providers."""

from posthouse.rpc.ntlm.authentication import Account, NtlmAcceptor, NtlmInitiator, ServerNames
from posthouse.rpc.security import Identity
from posthouse.security.nt_hash import nt_hash

USER, PASSWORD, DOMAIN = "Alice", "Grüße, Jürgen 1!", "WORK"
SERVER_CHALLENGE = bytes.fromhex("0123456789abcdef")
CLIENT_CHALLENGE = b"\xaa" * 8
SESSION_KEY = b"\x55" * 16
FILETIME = 0x01DD_0000_1234_5678
NAMES = ServerNames("alpha", "alpha.example")


class LoginBook:
    """A Login over a dictionary, which remembers what it was told."""

    def __init__(self, **passwords: str) -> None:
        self.passwords = passwords or {USER.lower(): PASSWORD}
        self.told: list[str] = []

    def nt_hash(self, user: str) -> bytes | None:
        password = self.passwords.get(user.lower())
        return None if password is None else nt_hash(password)

    def accepted(self, user: str, mechanism: str) -> Identity:
        self.told.append(f"accepted {user}")
        return Identity(user.lower(), "ALPHA", mechanism)

    def refused(self, user: str) -> None:
        self.told.append(f"refused {user}")


def acceptor(book: LoginBook | None = None) -> NtlmAcceptor:
    """A new exchange, server's end."""
    return NtlmAcceptor(book or LoginBook(), NAMES, SERVER_CHALLENGE, FILETIME)


def initiator(user: str = USER, password: str = PASSWORD, domain: str = DOMAIN) -> NtlmInitiator:
    """A new exchange, client's end."""
    account = Account(user, domain, nt_hash(password))
    return NtlmInitiator(account, "alpha", CLIENT_CHALLENGE, SESSION_KEY, FILETIME)


def agreed(
    client: NtlmInitiator | None = None, server: NtlmAcceptor | None = None
) -> tuple[NtlmInitiator, NtlmAcceptor]:
    """Both ends, behind a login that went well."""
    client, server = client or initiator(), server or acceptor()
    challenge = server.step(client.step(b"") or b"")
    assert challenge is not None
    assert server.step(client.step(challenge) or b"") is None
    assert client.complete
    assert server.complete
    return client, server
