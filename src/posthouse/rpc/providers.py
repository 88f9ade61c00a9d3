"""The security providers: what a server offers its clients, what a client brings to a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from posthouse.rpc import spnego_tokens
from posthouse.rpc.ntlm import Account, NtlmAcceptor, NtlmInitiator, ServerNames, split_user
from posthouse.rpc.ntlm_keys import CHALLENGE_SIZE, KEY_SIZE
from posthouse.rpc.security import KERBEROS, NTLM, SPNEGO, Identity, SecurityContext
from posthouse.rpc.spnego import Make, SpnegoAcceptor, SpnegoInitiator
from posthouse.security.nt_hash import nt_hash

RandomBytes = Callable[[int], bytes]
MECHANISMS: Final = {"ntlm": NTLM, "negotiate": SPNEGO, "kerberos": KERBEROS}
"""What a client can ask for, with its number on the wire ([MS-RPCE] 2.2.1.1.7)."""


def auth_type_of(mechanism: str) -> int:
    """The number of a mechanism; ValueError for others than `MECHANISMS`."""
    try:
        return MECHANISMS[mechanism]
    except KeyError:
        raise ValueError(f"{mechanism} is none of {', '.join(MECHANISMS)}") from None


class Proof(Protocol):
    """An account that was proved."""

    @property
    def name(self) -> str:
        """As it is spelled here."""
        ...

    @property
    def sid(self) -> bytes:
        """What it is known by."""
        ...


class Logins(Protocol):
    """The accounts behind a server; posthouse.engine.logins has them."""

    def nt_hash(self, user: str, address: str) -> bytes | None:
        """What to compare a proof with; None where no proof would do."""
        ...

    def accepted(self, user: str, address: str) -> Proof:
        """The proof was right."""
        ...

    def refused(self, user: str, address: str, cause: str) -> None:
        """The proof was wrong."""
        ...


class Attempt:
    """One client's login: a `posthouse.rpc.ntlm.Login` at one address."""

    def __init__(self, logins: Logins, names: ServerNames, address: str) -> None:
        self._logins = logins
        self._names = names
        self._address = address

    def nt_hash(self, user: str) -> bytes | None:
        """What to compare a proof with."""
        return self._logins.nt_hash(user, self._address)

    def accepted(self, user: str, mechanism: str) -> Identity:
        """Who that is, in the words of the accounts: however he spelled himself."""
        proof = self._logins.accepted(user, self._address)
        return Identity(proof.name, self._names.netbios, mechanism, proof.sid)

    def refused(self, user: str) -> None:
        """Counts, and makes the next one wait."""
        self._logins.refused(user, self._address, "wrong name or password")


class Acceptors:
    """The `Authenticator` of a server: NTLM, by itself and within SPNEGO."""

    def __init__(
        self,
        logins: Logins,
        names: ServerNames,
        random_bytes: RandomBytes,
        filetime: Callable[[], int],
    ) -> None:
        self._logins = logins
        self._names = names
        self._random_bytes = random_bytes
        self._filetime = filetime

    def acceptor(self, auth_type: int, address: str) -> SecurityContext | None:
        """A new context for a client at that address; None: no such security provider here."""
        attempt = Attempt(self._logins, self._names, address)
        if auth_type == NTLM:
            return self._ntlm(attempt)
        if auth_type == SPNEGO:
            return SpnegoAcceptor({spnego_tokens.NTLM_OID: lambda: self._ntlm(attempt)})
        return None

    def _ntlm(self, attempt: Attempt) -> NtlmAcceptor:
        challenge = self._random_bytes(CHALLENGE_SIZE)
        return NtlmAcceptor(attempt, self._names, challenge, self._filetime())


def initiator(
    mechanism: str,
    user: str,
    password: str,
    host: str,
    *,
    random_bytes: RandomBytes,
    filetime: int,
) -> SecurityContext:
    r"""What proves to a server who we are; `user` may be `DOMAIN\user`."""

    def ntlm() -> NtlmInitiator:
        account = Account(*split_user(user), nt_hash(password))
        challenge, key = random_bytes(CHALLENGE_SIZE), random_bytes(KEY_SIZE)
        return NtlmInitiator(account, host, challenge, key, filetime)

    auth_type_of(mechanism)
    if mechanism == "ntlm":
        return ntlm()
    makes: dict[bytes, Make] = {spnego_tokens.NTLM_OID: ntlm}
    return SpnegoInitiator(makes)
