"""What a connection and its client agree on: bind, alter_context, auth3 ([MS-RPCE] 3.3.1.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from posthouse.model.errors import MalformedPacket, RemoteProtocolError
from posthouse.rpc import pdu, statuses
from posthouse.rpc.association import Association, AssociationGroups
from posthouse.rpc.interface import Interface
from posthouse.rpc.logins import Logins, UnknownProvider
from posthouse.rpc.presentation import Contexts, negotiate
from posthouse.rpc.security import Authenticator, LoginRefused
from posthouse.rpc.settings import RpcSettings


class BindRefused(Exception):
    """No association: a bind_nak with that reason, and the connection ends."""

    def __init__(self, reason: int, *, is_login: bool = False) -> None:
        super().__init__(f"bind refused for reason {reason}")
        self.reason = reason
        self.is_login = is_login


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
            bind, trailer = self._read(header, whole)
        except RemoteProtocolError:
            raise BindRefused(statuses.NAK_NOT_SPECIFIED) from None
        if bind.max_recv < pdu.FRAG_LENGTH_MIN:
            raise BindRefused(statuses.NAK_LOCAL_LIMIT_EXCEEDED)
        self._header_signing = header.flags & pdu.SUPPORT_HEADER_SIGN != 0
        token = self._first_token(trailer)
        self.association = self._groups.join(bind.group_id, self._address)
        if self.association is None:
            raise BindRefused(statuses.NAK_NOT_SPECIFIED)
        self.frag_length = min(bind.max_recv, self._settings.fragment_max)
        return self._acknowledge(pdu.BIND_ACK, header, bind, trailer, token)

    def _first_token(self, trailer: pdu.Trailer | None) -> bytes:
        try:
            return self._log_in(trailer, is_bind=True)
        except UnknownProvider:
            raise BindRefused(statuses.NAK_AUTHENTICATION_TYPE) from None
        except LoginRefused:
            raise BindRefused(statuses.NAK_INVALID_CHECKSUM, is_login=True) from None

    def _read(self, header: pdu.Header, whole: bytes) -> tuple[pdu.Bind, pdu.Trailer | None]:
        if not header.is_little_endian or header.flags & pdu.WHOLE != pdu.WHOLE:
            raise MalformedPacket("a bind has to be whole and little-endian")
        if header.kind == pdu.BIND and self.association is not None:
            raise MalformedPacket("a connection is bound once")
        body, trailer = pdu.body_of(whole, header)
        bind = pdu.read_bind(body)
        if not bind.items:
            raise MalformedPacket("a bind for nothing")
        return bind, trailer

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
            raise MalformedPacket("a security context does not change")
        return login.step(trailer.token)

    def _acknowledge(
        self,
        kind: int,
        header: pdu.Header,
        bind: pdu.Bind,
        trailer: pdu.Trailer | None,
        token: bytes,
    ) -> bytes:
        assert self.association is not None
        max_recv = max(min(bind.max_xmit, self._settings.fragment_max), pdu.FRAG_LENGTH_MIN)
        ack = pdu.BindAck(
            self.frag_length,
            max_recv,
            self.association.group.group_id,
            self._secondary_address if kind == pdu.BIND_ACK else "",
            negotiate(bind.items, self._interfaces, self.contexts),
        )
        flags = pdu.WHOLE | header.flags & (pdu.CONC_MPX | pdu.SUPPORT_HEADER_SIGN)
        ours = trailer._replace(token=token) if trailer is not None and token else None
        return pdu.pack(kind, flags, header.call_id, pdu.pack_bind_ack(ack), ours)

    def alter_context(self, header: pdu.Header, whole: bytes) -> bytes:
        """The alter_context_resp; raises LoginRefused."""
        bind, trailer = self._read(header, whole)
        self._header_signing |= header.flags & pdu.SUPPORT_HEADER_SIGN != 0
        token = self._log_in(trailer)
        return self._acknowledge(pdu.ALTER_CONTEXT_RESP, header, bind, trailer, token)

    def auth3(self, header: pdu.Header, whole: bytes) -> None:
        """The third token; raises LoginRefused."""
        _, trailer = pdu.body_of(whole, header)
        login = self.logins.find(trailer.context_id) if trailer is not None else None
        if login is None or trailer is None:
            raise MalformedPacket("a third token for no security context")
        login.step(trailer.token, is_last=True)
