"""The client's end of a DCE/RPC connection over TCP ([MS-RPCE] 3.3.2, C706 chapter 12).

Bytes come in, answers go out; sockets and time are the business of who uses it. Any number of
calls may be outstanding, and answers come in any order.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from posthouse.model.errors import MalformedPacket, RemoteProtocolError
from posthouse.rpc import pdu, statuses
from posthouse.rpc.fragments import cut
from posthouse.rpc.protection import Protection
from posthouse.rpc.security import BadProtection, Level, LoginRefused, SecurityContext
from posthouse.rpc.syntax import BIND_TIME_FEATURES, NDR, NDR64, SyntaxId

FRAGMENT_MAX: Final = 0xFFF0  # offered; a multiple of 16, as protected bodies are
HELD_MAX: Final = 64 << 20  # of answers that are not whole: some of the largest messages
FEATURES: Final = 0x03  # [MS-RPCE] 2.2.2.14: several security contexts, connections kept on orphans
SECURITY_CONTEXT: Final = 0

_NDR_CONTEXT: Final = 0
_NDR64_CONTEXT: Final = 1
_FEATURE_CONTEXT: Final = 2

Answer = tuple[int, int, bytes]
"""The call, the status of its fault or 0, and what it returned."""


class BindRefused(Exception):
    """The server has no such interface, or wants no association (C706 12.6.3.1)."""

    def __init__(self, reason: int, *, nak: bool) -> None:
        what = "bind_nak" if nak else "presentation context rejected"
        super().__init__(f"{what}, reason {reason}")
        self.reason = reason
        self.nak = nak  # of the whole, not of the interface

    @property
    def is_unknown_interface(self) -> bool:
        """Whether the server does not have the interface."""
        return not self.nak and self.reason == statuses.ABSTRACT_SYNTAX_NOT_SUPPORTED


class _State(Enum):
    NEW = "new"
    BINDING = "binding"
    SETTLING = "settling"  # the security context takes one more exchange
    OPEN = "open"


class ClientConnection:
    """One connection to one interface."""

    def __init__(
        self,
        interface: SyntaxId,
        *,
        security: SecurityContext | None = None,
        auth_type: int = 0,
        level: Level = Level.NONE,
        group_id: int = 0,
        ndr64: bool = False,
    ) -> None:
        self.group_id = group_id  # of the association; 0 asks for a new one
        self.ndr64 = False  # whether it was agreed on
        self.features = 0  # those of FEATURES that the server has
        self.multiplexed = False  # several calls at a time
        self.is_shut_down = False  # the server asks to be left
        self._interface = interface
        self._security = security
        self._auth_type = auth_type
        self._level = level if security is not None else Level.NONE
        self._protection: Protection | None = None
        if security is not None and level >= Level.PACKET:
            self._protection = Protection(security, auth_type, level, SECURITY_CONTEXT)
        self._wants_ndr64 = ndr64
        self._context_id = _NDR_CONTEXT
        self._max_xmit = pdu.FRAG_LENGTH_MIN
        self._state = _State.NEW
        self._call_id = 0
        self._outgoing: list[bytes] = []
        self._rest = b""
        self._parts: dict[int, list[bytes]] = {}  # of answers in several fragments
        self._held = 0  # bytes of these

    @property
    def is_open(self) -> bool:
        """Whether calls can be made."""
        return self._state is _State.OPEN

    # -- going out

    def begin(self) -> None:
        """The bind, with the first token of a security context ([MS-RPCE] 3.3.1.5.2.1)."""
        assert self._state is _State.NEW
        self._state = _State.BINDING
        interface = self._interface
        items = [pdu.ContextItem(_NDR_CONTEXT, interface, (NDR,))]
        if self._wants_ndr64:
            items.append(pdu.ContextItem(_NDR64_CONTEXT, interface, (NDR64,)))
        bits = BIND_TIME_FEATURES + FEATURES.to_bytes(8, "little")
        items.append(pdu.ContextItem(_FEATURE_CONTEXT, interface, (SyntaxId(bits, 1),)))
        body = pdu.pack_bind(pdu.Bind(FRAGMENT_MAX, FRAGMENT_MAX, self.group_id, tuple(items)))
        token = None if self._security is None else self._security.step(b"")
        flags = pdu.WHOLE | pdu.CONC_MPX
        if self._protection is not None:
            flags |= pdu.SUPPORT_HEADER_SIGN
        self._put(pdu.BIND, flags, body, token)

    def request(self, opnum: int, stub: bytes) -> int:
        """Puts a call among what is to be sent; returns its number."""
        assert self._state is _State.OPEN
        self._call_id = call_id = (self._call_id & 0x7FFF_FFFF) + 1
        size = len(stub)
        if self._protection is None and size + pdu.CALL_HEADER_SIZE <= self._max_xmit:
            self._outgoing.append(_whole_header(size, call_id, self._context_id, opnum) + stub)
        else:
            self._put_fragments(call_id, opnum, stub)
        return call_id

    def take_outgoing(self) -> bytes:
        """What is to be sent now."""
        outgoing = self._outgoing
        if len(outgoing) == 1:
            return outgoing.pop()
        data = b"".join(outgoing)
        outgoing.clear()
        return data

    def _put(self, kind: int, flags: int, body: bytes, token: bytes | None) -> None:
        trailer = None
        if token is not None:
            trailer = pdu.Trailer(self._auth_type, self._level, 0, SECURITY_CONTEXT, token)
        self._call_id += 1
        self._outgoing.append(pdu.pack(kind, flags, self._call_id, body, trailer))

    def _put_fragments(self, call_id: int, opnum: int, stub: bytes) -> None:
        """C706 12.6.2: as many fragments as the server's limit asks for."""
        protection, left = self._protection, len(stub)
        if protection is None:
            pieces = cut(stub, self._max_xmit - pdu.CALL_HEADER_SIZE)
        else:
            pieces = cut(stub, protection.room(self._max_xmit))
        flags, last = pdu.FIRST_FRAG, len(pieces) - 1
        for nth, piece in enumerate(pieces):
            if nth == last:
                flags |= pdu.LAST_FRAG
            head = pdu.pack_request(self._context_id, opnum, b"", alloc_hint=left)
            if protection is None:
                whole = pdu.pack(pdu.REQUEST, flags, call_id, head + piece)
            else:
                whole = protection.pack(pdu.REQUEST, flags, call_id, head, piece)
            self._outgoing.append(whole)
            left -= len(piece)
            flags = 0

    # -- coming in

    def receive(self, data: bytes) -> list[Answer]:
        """Takes bytes of the server; returns the calls that ended with them.

        Raises `RemoteProtocolError`, `BindRefused` or `LoginRefused`, after which the connection is
        of no use.
        """
        if self._rest:
            data = self._rest + data
        answers: list[Answer] = []
        at, size = 0, len(data)
        unpack, append = pdu.CALL_HEADER.unpack_from, answers.append
        plain, parts = self._protection is None and self.is_open, self._parts
        while size - at >= pdu.CALL_HEADER_SIZE:
            version, minor, kind, flags, drep, length, auth, call_id, _, _, _ = unpack(data, at)
            if (
                plain
                and kind == pdu.RESPONSE
                and version == pdu.VERSION
                and minor <= 1
                and flags & pdu.WHOLE == pdu.WHOLE
                and drep == pdu.LITTLE_ENDIAN
                and not auth
                and not parts
                and length >= pdu.CALL_HEADER_SIZE
            ):
                end = at + length
                if end > size:
                    break
                append((call_id, 0, data[at + pdu.CALL_HEADER_SIZE : end]))
                at = end
                continue
            header = pdu.split(data, at)
            if isinstance(header, int):
                break
            end = at + header.frag_length
            answer = self._take(header, data[at:end])
            if answer is not None:
                append(answer)
            at = end
        else:
            at = self._take_short(data, at, answers)
        self._rest = data[at:] if at < size else b""
        return answers

    def _take_short(self, data: bytes, at: int, answers: list[Answer]) -> int:
        """PDUs that are shorter than a response: a bind_nak, for one."""
        while isinstance(header := pdu.split(data, at), pdu.Header):
            end = at + header.frag_length
            answer = self._take(header, data[at:end])
            if answer is not None:
                answers.append(answer)
            at = end
        return at

    def _take(self, header: pdu.Header, data: bytes) -> Answer | None:
        if not header.is_little_endian:
            raise RemoteProtocolError("the server writes big-endian numbers, which we do not read")
        kind = header.kind
        if self._state is _State.OPEN and kind in (pdu.RESPONSE, pdu.FAULT):
            return self._take_answer(header, data)
        if self._state is _State.BINDING and kind == pdu.BIND_ACK:
            self._bound(header, data)
        elif self._state is _State.BINDING and kind == pdu.BIND_NAK:
            nak = pdu.read_bind_nak(pdu.body_of(data, header)[0])
            raise BindRefused(nak.reason, nak=True)
        elif self._state is _State.SETTLING and kind == pdu.ALTER_CONTEXT_RESP:
            self._settle(header, data)
        elif self._state is _State.SETTLING and kind == pdu.FAULT:
            raise LoginRefused("the server ended the exchange of tokens")
        elif kind == pdu.SHUTDOWN:
            self.is_shut_down = True
        else:
            raise MalformedPacket(f"a PDU of kind {kind} while the connection is {self._state}")
        return None

    def _bound(self, header: pdu.Header, data: bytes) -> None:
        body, trailer = pdu.body_of(data, header)
        ack = pdu.read_bind_ack(body)
        self._choose(ack)
        if ack.max_recv < pdu.FRAG_LENGTH_MIN:
            raise MalformedPacket(f"the server takes fragments of {ack.max_recv} bytes only")
        self._max_xmit = min(ack.max_recv, FRAGMENT_MAX)
        self.group_id = ack.group_id
        self.multiplexed = header.flags & pdu.CONC_MPX != 0
        if self._protection is not None:
            self._protection.negotiated_header = header.flags & pdu.SUPPORT_HEADER_SIGN != 0
        self._step(trailer)

    def _choose(self, ack: pdu.BindAck) -> None:
        """What became of the presentation contexts, in the order of the bind."""
        results = list(ack.results)
        wanted = 3 if self._wants_ndr64 else 2
        if len(results) != wanted:
            raise MalformedPacket(f"{len(results)} results for {wanted} presentation contexts")
        features = results.pop()
        if features.result == statuses.NEGOTIATE_ACK:
            self.features = features.reason & FEATURES
        taken = [nth for nth, one in enumerate(results) if one.result == statuses.ACCEPTANCE]
        if not taken:
            raise BindRefused(results[0].reason, nak=False)
        self._context_id = taken[-1]
        self.ndr64 = self._context_id == _NDR64_CONTEXT

    def _settle(self, header: pdu.Header, data: bytes) -> None:
        self._step(pdu.body_of(data, header)[1])

    def _step(self, trailer: pdu.Trailer | None) -> None:
        """[MS-RPCE] 3.3.1.5.2: AUTH3 ends the exchange, an alter_context asks for one more."""
        security = self._security
        if security is not None and not security.complete:
            if trailer is None:
                raise LoginRefused("the server does not answer with a token")
            token = security.step(trailer.token)
            if not security.complete:
                self._state = _State.SETTLING
                self._alter(token)
                return
            if token is not None:
                self._put(pdu.AUTH3, pdu.WHOLE, bytes(4), token)
        self._state = _State.OPEN

    def _alter(self, token: bytes | None) -> None:
        if token is None:
            raise LoginRefused("the exchange of tokens has no end")
        transfer = NDR64 if self.ndr64 else NDR
        item = pdu.ContextItem(self._context_id, self._interface, (transfer,))
        body = pdu.pack_bind(pdu.Bind(FRAGMENT_MAX, FRAGMENT_MAX, self.group_id, (item,)))
        self._put(pdu.ALTER_CONTEXT, pdu.WHOLE, body, token)

    def _take_answer(self, header: pdu.Header, data: bytes) -> Answer | None:
        trailing = header.auth_length and header.auth_length + pdu.TRAILER_SIZE
        if len(data) < pdu.CALL_HEADER_SIZE + trailing:
            raise MalformedPacket("an answer ends in its header")
        stub = self._opened(header, data)
        call_id = header.call_id
        if header.kind == pdu.FAULT:
            self._forget(call_id)
            if len(stub) < 4:
                raise MalformedPacket("a fault ends before its status")
            status = int.from_bytes(stub[:4], "little")
            return call_id, status or statuses.PROTOCOL_ERROR, b""
        return self._put_together(call_id, header.flags, stub)

    def _put_together(self, call_id: int, flags: int, stub: bytes) -> Answer | None:
        """C706 12.6.2: the answer, where this fragment is the last one of it."""
        parts = self._parts.get(call_id)
        if flags & pdu.FIRST_FRAG:
            if parts is not None:
                raise MalformedPacket("an answer begins twice")
            if flags & pdu.LAST_FRAG:
                return call_id, 0, stub
            parts = self._parts[call_id] = []
        elif parts is None:
            raise MalformedPacket("an answer has no beginning")
        parts.append(stub)
        self._held += len(stub)
        if self._held > HELD_MAX:
            raise MalformedPacket(f"more than {HELD_MAX} bytes of answers that are not whole")
        return (call_id, 0, self._forget(call_id)) if flags & pdu.LAST_FRAG else None

    def _forget(self, call_id: int) -> bytes:
        whole = b"".join(self._parts.pop(call_id, ()))
        self._held -= len(whole)
        return whole

    def _opened(self, header: pdu.Header, data: bytes) -> bytes:
        """What follows the header of an answer, its signature checked ([MS-RPCE] 2.2.2.12).

        Faults come without: servers do not sign them.
        """
        protection = self._protection
        if protection is None:
            return pdu.body_of(data, header)[0][8:]
        if not header.auth_length:
            if header.kind == pdu.RESPONSE:
                raise BadAnswer("the server answers without protection")
            return data[pdu.CALL_HEADER_SIZE :]
        try:
            return protection.unpack(data, header.auth_length)
        except BadProtection as error:
            raise BadAnswer(f"the server's signature does not fit: {error}") from None


class BadAnswer(RemoteProtocolError):
    """An answer that somebody on the way may have made."""


def _whole_header(size: int, call_id: int, context_id: int, opnum: int) -> bytes:
    return pdu.CALL_HEADER.pack(
        pdu.VERSION,
        0,
        pdu.REQUEST,
        pdu.WHOLE,
        pdu.LITTLE_ENDIAN,
        pdu.CALL_HEADER_SIZE + size,
        0,
        call_id,
        size,
        context_id,
        opnum,
    )
