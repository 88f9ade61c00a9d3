"""The interface between the RPC runtime and a security provider ([MS-RPCE] 2.2.1.1.7-8, 3.2.2)."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

SPNEGO: Final = 9
NTLM: Final = 10
KERBEROS: Final = 16


class Level(IntEnum):
    """How far a security context protects what is sent under it."""

    NONE = 1
    CONNECT = 2
    CALL = 3  # counts as PACKET over TCP
    PACKET = 4
    INTEGRITY = 5
    PRIVACY = 6


class Identity(NamedTuple):
    """Who has proved to be who."""

    user: str
    domain: str
    mechanism: str  # "ntlm" or "kerberos"
    account: bytes = b""  # the SID of their account, which is never used again
    groups: tuple[bytes, ...] = ()  # SIDs that a domain has vouched for: of the user, of groups
    has_account: bool = True  # False: a user of the domain who has no account here
    names: tuple[str, ...] = ()  # of such a user: an account under any of them would decide

    @property
    def is_of_domain(self) -> bool:
        """Whether a domain has verified it, and may close the account without a word to us."""
        return self.mechanism == "kerberos" or bool(self.groups) or not self.has_account


class LoginRefused(Exception):
    """A token that proves nothing: wrong password, unknown user, not a token at all."""


class VerdictNeeded(Exception):
    """Somebody else is asked first: the same token is to be given again after `begin` calls back.

    Nothing has changed meanwhile. It calls back in a later turn of the loop.
    """

    def __init__(self, begin: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("a login waits for a verdict")
        self.begin = begin


class BadProtection(Exception):
    """A signature that does not fit, or bytes that cannot be decrypted."""


class SecurityContext(Protocol):
    """One end of a security context; the same for who proves and for who checks."""

    @property
    def complete(self) -> bool:
        """Whether the exchange of tokens is over and went well."""
        ...

    @property
    def identity(self) -> Identity | None:
        """Who the other end is, once that is complete; None for an initiator."""
        ...

    @property
    def mechanism(self) -> str:
        """What does the work, "ntlm" or "kerberos"; inside SPNEGO known when it is complete."""
        ...

    def signature_size_at(self, level: Level) -> int:
        """Bytes of a signature at that level, the same for every PDU."""
        ...

    def step(self, token: bytes) -> bytes | None:
        """Takes the other end's token, gives ours, if one is to be sent; raises LoginRefused.

        A server's may raise VerdictNeeded as well.
        """
        ...

    def protect(
        self, level: Level, before: bytes, body: bytes, after: bytes
    ) -> tuple[bytes, bytes]:
        """The body, encrypted at PRIVACY, and the signature over all three parts.

        `before` and `after` are the header and the security trailer, where those are signed too
        ([MS-RPCE] header signing), else empty. Called once for each PDU, in the order of sending.
        """
        ...

    def unprotect(
        self, level: Level, before: bytes, body: bytes, after: bytes, signature: bytes
    ) -> bytes:
        """The body in the clear; raises BadProtection. In the order of sending, too."""
        ...


class Authenticator(Protocol):
    """Makes security contexts that check logins against the accounts of a server."""

    def acceptor(self, auth_type: int, address: str) -> SecurityContext | None:
        """A new context for a client at that address; None: no such security provider here."""
        ...
