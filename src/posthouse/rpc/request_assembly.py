"""Assembles requests: checks the login, decrypts, joins fragments ([MS-RPCE] 3.3.1.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from posthouse.model.errors import MalformedPacket
from posthouse.rpc import pdu, statuses
from posthouse.rpc.fragments import CALL_OVERHEAD, Partial
from posthouse.rpc.pdu import HEADER_SIZE
from posthouse.rpc.presentation import Context
from posthouse.rpc.security import BadProtection, Level
from posthouse.rpc.security_contexts import Login, Logins
from posthouse.rpc.settings import RpcSettings
from posthouse.rpc.verification import Said, cut_off

_CONNECT: Final = int(Level.CONNECT)
Opened = tuple[Login | None, bytes, int]
"""The login that a PDU is sent under, its stub in the clear, and why it is refused, or 0."""


class Distrusted(Exception):
    """The connection can no longer be trusted: it gets a fault and ends."""

    def __init__(self, status: int) -> None:
        super().__init__(f"fault 0x{status:08X}")
        self.status = status


class Incoming:
    """What one connection has received of calls that are not whole, and how it reads them."""

    def __init__(self, logins: Logins, settings: RpcSettings, now: Callable[[], int]) -> None:
        self.partials: dict[int, Partial] = {}  # by call id
        self._bytes = 0
        self._announced = 0  # bytes of their stubs, as their first fragments have it
        self._logins = logins
        self._settings = settings
        self._now = now

    @property
    def held_bytes(self) -> int:
        """What calls take that are not whole."""
        return self._bytes + CALL_OVERHEAD * len(self.partials)

    @property
    def announced_bytes(self) -> int:
        """What those calls take when they are whole, as far as that is announced."""
        return self._announced + CALL_OVERHEAD * len(self.partials)

    @property
    def is_signed(self) -> bool:
        """Whether a request without a trailer is one whose signature is missing."""
        default = self._logins.default
        return default is not None and default.level > _CONNECT

    def open(self, header: pdu.Header, whole: bytes, head_size: int) -> Opened:
        """Finds the login of a PDU, and lifts its protection; raises Distrusted."""
        start = HEADER_SIZE + head_size
        if not header.auth_length:
            status = statuses.ACCESS_DENIED if self.is_signed else 0
            return self._logins.default, whole[start:], status
        trailer = pdu.trailer_of(whole, header.auth_length)
        login = self._logins.find(trailer.context_id)
        if login is None or not login.is_ready:
            return login, b"", statuses.ACCESS_DENIED
        if (login.protection.auth_type, login.protection.said_level) != trailer[:2]:
            raise Distrusted(statuses.ACCESS_DENIED)
        if login.level <= _CONNECT:  # a signature means nothing there
            end = len(whole) - header.auth_length - pdu.TRAILER_SIZE - trailer.pad_length
            return login, whole[start:end], 0
        try:
            return login, login.protection.unpack(whole, header.auth_length, head_size), 0
        except BadProtection:
            raise Distrusted(statuses.SECURITY_PACKAGE) from None

    def collect(
        self,
        header: pdu.Header,
        method: tuple[int, int],
        login: Login | None,
        stub: bytes,
        status: int,
        announced: int = 0,
    ) -> Partial | None:
        """Adds a fragment to its call, and returns that when it is whole."""
        call_id = header.call_id
        partial = self.partials.get(call_id)
        if (partial is None) != (header.flags & pdu.FIRST_FRAG != 0):
            raise MalformedPacket("a call begins once, with its first fragment")
        if partial is None:
            announced = min(announced, self._settings.request_max)
            partial = Partial(*method, login, self._now(), announced)
            self.partials[call_id] = partial
            self._announced += announced
        partial.check(*method, login)
        if status:
            self._bytes += partial.fail(status)
        self._bytes += partial.add(stub, self._room(partial), statuses.OUT_OF_MEMORY)
        if not header.flags & pdu.LAST_FRAG:
            return None
        self.forget(call_id)
        return partial

    def _room(self, partial: Partial) -> int:
        """How large a call may become, with all the others beside it."""
        others = self.held_bytes - len(partial.parts)
        return min(self._settings.request_max, self._settings.held_max - others)

    def forget(self, call_id: int) -> None:
        """A call is whole, or will never be."""
        partial = self.partials.pop(call_id, None)
        if partial is not None:
            self._bytes -= len(partial.parts)
            self._announced -= partial.announced

    def clear(self) -> None:
        """None of them will ever be whole."""
        self.partials.clear()
        self._bytes = self._announced = 0


def verified(
    stub: bytes, numbers: tuple[int, int, int], context: Context, login: Login
) -> bytes | None:
    """A stub without its verification trailer; None if that contradicts the headers."""
    said = Said(*numbers, context.interface.syntax, context.transfer)
    return cut_off(stub, said, is_header_signed=login.protection.signs_header)
