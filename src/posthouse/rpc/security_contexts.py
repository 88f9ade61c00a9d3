"""The security contexts of one connection of a server ([MS-RPCE] 3.3.1.5.4-5)."""

from __future__ import annotations

from typing import Final

from posthouse.model.errors import MalformedPacket
from posthouse.rpc.pdu import Trailer
from posthouse.rpc.protection import Protection
from posthouse.rpc.security import Authenticator, Identity, Level, LoginRefused, SecurityContext

LOGINS_MAX: Final = 32  # of one connection
_LEVELS: Final = frozenset(level.value for level in Level if level != Level.NONE)


class UnknownProvider(LoginRefused):
    """A kind of authentication that is not to be had here."""


class Login:
    """One security context: being negotiated, complete or failed for ever."""

    __slots__ = ("begun_ms", "context", "failed", "identity", "is_ready", "level", "protection")

    def __init__(self, protection: Protection, begun_ms: int) -> None:
        self.protection = protection
        self.context: SecurityContext = protection.context
        self.level = protection.level
        self.begun_ms = begun_ms
        self.failed = False
        self.is_ready = False
        self.identity: Identity | None = None

    def step(self, token: bytes, *, is_last: bool = False) -> bytes:
        """Takes the client's token, gives ours; raises LoginRefused, then and ever after.

        A token for a context that is complete is not looked at: some clients repeat their last
        one. `is_last`: no answer is possible, so that it has to be complete now.
        """
        if self.failed:
            raise LoginRefused("this security context has failed before")
        if self.is_ready:
            return b""
        try:
            answer = self.context.step(token)
            if is_last and not self.context.complete:
                raise LoginRefused("the last token is not the last one")
        except LoginRefused:
            self.failed = True
            raise
        if self.context.complete:
            self.identity = self.context.identity
            self.is_ready = True
        return answer or b""


class Logins:
    """The logins of a connection, by the context id that its client chose."""

    def __init__(self, authenticator: Authenticator | None, address: str) -> None:
        self._authenticator = authenticator
        self._address = address
        self._of_id: dict[int, Login] = {}
        self.default: Login | None = None  # whom a request without a trailer is from

    def __len__(self) -> int:
        return len(self._of_id)

    def find(self, context_id: int) -> Login | None:
        """The login of that number."""
        return self._of_id.get(context_id)

    def begin(self, trailer: Trailer, now_ms: int, *, header_signing: bool, is_bind: bool) -> Login:
        """A new login, as the trailer of a bind or alter_context asks for it."""
        if trailer.level not in _LEVELS:
            raise MalformedPacket(f"there is no authentication level {trailer.level}")
        if self._authenticator is None:
            raise UnknownProvider
        if len(self._of_id) >= LOGINS_MAX:
            raise LoginRefused("too many security contexts on one connection")
        context = self._authenticator.acceptor(trailer.auth_type, self._address)
        if context is None:
            raise UnknownProvider
        protection = Protection(
            context,
            trailer.auth_type,
            Level(trailer.level),
            trailer.context_id,
            header_signing=header_signing,
        )
        login = self._of_id[trailer.context_id] = Login(protection, now_ms)
        if self.default is None and (is_bind or login.level == Level.CONNECT):
            self.default = login
        return login

    def is_overdue(self, now_ms: int, within_ms: int) -> bool:
        """Whether somebody began to prove who they are, long ago, and did not end."""
        return any(
            not login.is_ready and not login.failed and now_ms - login.begun_ms > within_ms
            for login in self._of_id.values()
        )

    def is_outdated(self, now_ms: int, within_ms: int) -> bool:
        """Whether a domain has verified one of them, and that was long ago. 0: never."""
        return within_ms > 0 and any(
            login.identity is not None
            and login.identity.is_of_domain
            and now_ms - login.begun_ms > within_ms
            for login in self._of_id.values()
        )
