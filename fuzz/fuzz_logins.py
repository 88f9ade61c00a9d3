"""Fuzz target: any token is answered or refused by either end of a login; one alone logs in."""

from collections.abc import Callable

from posthouse.rpc.ntlm.authentication import Account, NtlmAcceptor, NtlmInitiator, ServerNames
from posthouse.rpc.security import Identity, LoginRefused, SecurityContext
from posthouse.rpc.spnego import SpnegoAcceptor, SpnegoInitiator
from posthouse.rpc.spnego_tokens import KERBEROS_OID, NTLM_OID, pack_init, unpack_response
from posthouse.security.nt_hash import nt_hash


class Book:
    """One account."""

    def nt_hash(self, user: str) -> bytes | None:
        """One hash for every spelling of a name."""
        return nt_hash("secret") if user.lower() == "alice" else None

    def accepted(self, user: str, mechanism: str) -> Identity:
        """Nothing is counted here."""
        return Identity(user, "", mechanism)

    def refused(self, user: str) -> None:
        """Nothing is counted here."""


def ntlm_server() -> NtlmAcceptor:
    """Waits for the first message."""
    return NtlmAcceptor(Book(), ServerNames("alpha"), b"01234567", 1)


def ntlm_client() -> NtlmInitiator:
    """Has said nothing yet."""
    account = Account("alice", "", nt_hash("secret"))
    return NtlmInitiator(account, "alpha", bytes(8), bytes(16), 1)


def spnego_server() -> SpnegoAcceptor:
    """Waits for the first token."""
    return SpnegoAcceptor({NTLM_OID: ntlm_server})


def spnego_client() -> SpnegoInitiator:
    """Has said nothing yet."""
    return SpnegoInitiator({NTLM_OID: ntlm_client})


def _tokens(client: SecurityContext, server: SecurityContext) -> tuple[bytes, bytes, bytes]:
    first = client.step(b"") or b""
    challenge = server.step(first) or b""
    return first, challenge, client.step(challenge) or b""


FIRST, CHALLENGE, LAST = _tokens(ntlm_client(), ntlm_server())
NEGOTIATED = _tokens(spnego_client(), spnego_server())
PROOF = unpack_response(NEGOTIATED[2]).token or b""
Begin = Callable[[], SecurityContext]
BEGINNINGS: list[tuple[Begin, bytes | None]] = [
    (ntlm_server, None),
    (ntlm_server, FIRST),
    (ntlm_client, b""),
    (spnego_server, None),
    (spnego_server, NEGOTIATED[0]),
    (spnego_client, b""),
]
SEEDS = [
    b"\0" + FIRST,
    b"\1" + LAST,
    b"\2" + CHALLENGE,
    b"\3" + NEGOTIATED[0],
    b"\3" + FIRST,
    b"\3" + pack_init((KERBEROS_OID, NTLM_OID), b"ticket"),
    b"\4" + NEGOTIATED[2],
    b"\5" + NEGOTIATED[1],
]


def fuzz_one(data: bytes) -> bool:
    """The first byte chooses an end and how far it has come."""
    begin, before = BEGINNINGS[(data[0] if data else 0) % len(BEGINNINGS)]
    context = begin()
    if before is not None:
        context.step(before)
    try:
        context.step(data[1:])
    except LoginRefused:
        assert not context.complete
        assert context.identity is None
        return False
    if context.identity is not None:
        assert PROOF in data or LAST in data, "somebody without the password got in"
    return True
