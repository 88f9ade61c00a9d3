"""Binds of a connection: bind, alter_context, auth3 ([MS-RPCE] 3.3.1.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from posthouse.model.errors import MalformedPacket, RemoteProtocolError
from posthouse.rpc import pdu, statuses
from posthouse.rpc.association import Association, AssociationGroups
from posthouse.rpc.interface import Interface
from posthouse.rpc.presentation import Contexts, negotiate
from posthouse.rpc.security import Authenticator, LoginRefused
from posthouse.rpc.security_contexts import Logins, UnknownProvider
from posthouse.rpc.settings import RpcSettings

_BIND_FLAGS: Final = pdu.CONC_MPX | pdu.SUPPORT_HEADER_SIGN
# Who states that they take next to nothing takes what everybody has to (C706 12.6.3.1).
_MEANT_MIN: Final = 256


class BindRefused(Exception):
    """No association: a bind_nak with that reason, and the connection ends."""

    def __init__(self, reason: int, *, is_login: bool = False) -> None:
        super().__init__(f"bind refused for reason {reason}")
        self.reason = reason
        self.is_login = is_login


class ContextChanged(LoginRefused):
    """A token for a security context that is another one by now: the connection ends."""


class Binding:
    """What one connection has agreed on with its client."""

    def __init__(
        self,
        interfaces: Sequence[Interface],
        groups: AssociationGroups,
        authenticator: Authenticator | None,
        settings: RpcSettings,
        address: str,
        secondary_address: str,
        now: Callable[[], int],
    ) -> None:
        self.association: Association | None = None
        self.contexts: Contexts = {}
        self.logins = Logins(authenticator, address)
        self.frag_length = settings.fragment_max  # of what is sent
        self._interfaces = interfaces
        self._groups = groups
        self._settings = settings
        self._address = address
        self._secondary_address = secondary_address
        self._now = now
        self._header_signing = False

    def bind(self, header: pdu.Header, whole: bytes) -> bytes:
        """The bind_ack; raises BindRefused."""
        try:
            trailer = _trailer(header, whole)
        except RemoteProtocolError:  # as other servers answer a malformed one
            raise BindRefused(statuses.NAK_PROTOCOL_VERSION) from None
        try:
            bind = self._read(header, whole)
            self._header_signing = header.flags & pdu.SUPPORT_HEADER_SIGN != 0
            token = self._first_token(trailer)
            results = negotiate(bind.items, self._interfaces, self.contexts)
        except RemoteProtocolError:
            raise BindRefused(statuses.NAK_NOT_SPECIFIED) from None
        self.association = self._groups.join(bind.group_id, self._address)
        if self.association is None:
            raise BindRefused(statuses.NAK_NOT_SPECIFIED)
        self.frag_length = _frag_length(bind.max_recv, self._settings.fragment_max)
        return self._acknowledge(pdu.BIND_ACK, header, bind, results, trailer, token)

    def _first_token(self, trailer: pdu.Trailer | None) -> bytes:
        try:
            return self._log_in(trailer, is_bind=True)
        except UnknownProvider:
            raise BindRefused(statuses.NAK_AUTHENTICATION_TYPE) from None
        except LoginRefused:
            raise BindRefused(statuses.NAK_INVALID_CHECKSUM, is_login=True) from None

    def _read(self, header: pdu.Header, whole: bytes) -> pdu.Bind:
        """The body, which ends somewhere before the trailer: fragments are not known here."""
        if not header.is_little_endian:
            raise MalformedPacket("a bind has to be little-endian")
        if header.kind == pdu.BIND and self.association is not None:
            raise MalformedPacket("a connection is bound once")
        bind = pdu.read_bind(whole[pdu.HEADER_SIZE : trailer_at(header)])
        if not bind.items or not all(item.transfers for item in bind.items):
            raise MalformedPacket("a bind for nothing")
        return bind

    def _log_in(self, trailer: pdu.Trailer | None, *, is_bind: bool = False) -> bytes:
        """Begins a login, or goes on with it; what is to be said in return."""
        if trailer is None:
            return b""
        login = self.logins.find(trailer.context_id)
        if login is None:
            login = self.logins.begin(
                trailer, self._now(), header_signing=self._header_signing, is_bind=is_bind
            )
        elif (login.protection.auth_type, login.protection.said_level) != trailer[:2]:
            raise ContextChanged("a security context is of another kind or level than before")
        return login.step(trailer.token)

    def _acknowledge(
        self,
        kind: int,
        header: pdu.Header,
        bind: pdu.Bind,
        results: tuple[pdu.ContextResult, ...],
        trailer: pdu.Trailer | None,
        token: bytes,
    ) -> bytes:
        assert self.association is not None
        max_recv = _frag_length(bind.max_xmit, self._settings.fragment_max)
        ack = pdu.BindAck(
            self.frag_length,
            max_recv,
            self.association.group.group_id,
            self._secondary_address if kind == pdu.BIND_ACK else "",
            results,
        )
        echoed = _BIND_FLAGS if kind == pdu.BIND_ACK else pdu.SUPPORT_HEADER_SIGN
        flags = pdu.WHOLE | header.flags & echoed
        # Without a token there is a trailer all the same, as Windows has it.
        ours = trailer._replace(token=token) if trailer is not None else None
        return pdu.pack(kind, flags, header.call_id, pdu.pack_bind_ack(ack), ours)

    def alter_context(self, header: pdu.Header, whole: bytes) -> bytes:
        """The alter_context_resp; raises LoginRefused."""
        trailer = _trailer(header, whole)
        bind = self._read(header, whole)
        self._header_signing |= header.flags & pdu.SUPPORT_HEADER_SIGN != 0
        token = self._log_in(trailer)
        results = negotiate(bind.items, self._interfaces, self.contexts)
        return self._acknowledge(pdu.ALTER_CONTEXT_RESP, header, bind, results, trailer, token)

    def auth3(self, header: pdu.Header, whole: bytes) -> None:
        """The third token; raises LoginRefused."""
        _, trailer = pdu.body_of(whole, header)
        login = self.logins.find(trailer.context_id) if trailer is not None else None
        if login is None or trailer is None:
            raise MalformedPacket("a third token for no security context")
        login.step(trailer.token, is_last=True)


def trailer_at(header: pdu.Header) -> int:
    """Where the security trailer of a PDU begins, or its end."""
    size = header.auth_length
    return header.frag_length - (size + pdu.TRAILER_SIZE if size else 0)


def _trailer(header: pdu.Header, whole: bytes) -> pdu.Trailer | None:
    """The trailer of a bind or alter_context. Its padding means nothing, but has to be there."""
    if not header.auth_length:
        return None
    trailer = pdu.trailer_of(whole, header.auth_length)
    if trailer.pad_length > trailer_at(header) - pdu.CALL_HEADER_SIZE:
        raise MalformedPacket("a security trailer is padded with more than its PDU has")
    return trailer


def _frag_length(announced: int, most: int) -> int:
    return min(announced, most) if announced >= _MEANT_MIN else pdu.FRAG_LENGTH_MIN
