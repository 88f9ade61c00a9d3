"""DCE/RPC in captures: PDUs as headers with named fields; a connection has to be read in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from posthouse.cli.decode.packets import Header, View
from posthouse.model.error_table import explain
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.model.guids import format_guid
from posthouse.protocols.management import stubs as management
from posthouse.protocols.remote_read import stubs as remote_read
from posthouse.rpc import pdu
from posthouse.rpc.ept import EPT
from posthouse.rpc.ndr import BadStub
from posthouse.rpc.syntax import NDR64, SyntaxId

SECTION: Final = "C706 12.6"
KINDS: Final = {
    pdu.REQUEST: "RPC request",
    pdu.RESPONSE: "RPC response",
    pdu.FAULT: "RPC fault",
    pdu.BIND: "RPC bind",
    pdu.BIND_ACK: "RPC bind_ack",
    pdu.BIND_NAK: "RPC bind_nak",
    pdu.ALTER_CONTEXT: "RPC alter_context",
    pdu.ALTER_CONTEXT_RESP: "RPC alter_context_resp",
    pdu.AUTH3: "RPC auth3",
    pdu.SHUTDOWN: "RPC shutdown",
    pdu.CO_CANCEL: "RPC co_cancel",
    pdu.ORPHANED: "RPC orphaned",
}
INTERFACES: Final[Mapping[SyntaxId, tuple[str, str]]] = {
    remote_read.REMOTE_READ: ("remote read", "MS-MQRR"),
    management.MANAGEMENT: ("management", "MS-MQMR"),
    EPT: ("endpoint mapper", "C706 appendix O"),
}
METHODS: Final[Mapping[SyntaxId, Mapping[Any, Any]]] = {
    remote_read.REMOTE_READ: remote_read.METHODS,
    management.MANAGEMENT: management.METHODS,
}
MAPPER_METHODS: Final = {2: "ept_lookup", 3: "ept_map", 4: "ept_lookup_handle_free"}
MECHANISMS: Final = {9: "SPNEGO", 10: "NTLM", 16: "Kerberos"}
LEVELS: Final = {1: "none", 2: "connect", 3: "call", 4: "packet", 5: "integrity", 6: "privacy"}
PRIVACY: Final = 6
CONTEXTS_MAX: Final = 1_000
CALLS_MAX: Final = 10_000


class _Context(NamedTuple):
    interface: SyntaxId
    ndr64: bool


class RpcTalk:
    """One connection: which contexts were agreed on, which calls are open."""

    def __init__(self) -> None:
        self._asked: dict[int, SyntaxId] = {}
        self._last: list[tuple[int, SyntaxId]] = []  # what the last bind asked for
        self._contexts: dict[int, _Context] = {}
        self._calls: dict[int, tuple[int, int]] = {}  # by call: context, opnum

    def view(self, data: bytes) -> View:
        """A PDU; `RemoteProtocolError` where it breaks its document."""
        header = pdu.read_header(data)
        if not header.is_little_endian:
            raise RemoteProtocolError("a PDU with big-endian numbers, which is not read")
        body, trailer = pdu.body_of(data, header)
        fields: dict[str, Any] = {"call": header.call_id, "size": header.frag_length}
        if header.flags & pdu.WHOLE != pdu.WHOLE:
            fields["fragment"] = "first" if header.flags & pdu.FIRST_FRAG else "next"
        if trailer is not None:
            fields["mechanism"] = MECHANISMS.get(trailer.auth_type, str(trailer.auth_type))
            fields["level"] = LEVELS.get(trailer.level, str(trailer.level))
            fields["token"] = trailer.token
        sealed = trailer is not None and trailer.level == PRIVACY
        more = self._body(header, body, sealed=sealed)
        kind = KINDS[header.kind] + more.pop("method", "")
        return View(kind, SECTION, [Header(SECTION, "PDU", fields | more)])

    def _body(self, header: pdu.Header, body: bytes, *, sealed: bool) -> dict[str, Any]:
        if header.kind in (pdu.BIND, pdu.ALTER_CONTEXT):
            return self._bind(pdu.read_bind(body))
        if header.kind in (pdu.BIND_ACK, pdu.ALTER_CONTEXT_RESP):
            return self._accepted(pdu.read_bind_ack(body))
        if header.kind == pdu.BIND_NAK:
            return {"reason": pdu.read_bind_nak(body).reason}
        if header.kind == pdu.REQUEST:
            return self._request(header, body, sealed)
        if header.kind == pdu.RESPONSE:
            return self._response(header, body, sealed)
        if header.kind == pdu.FAULT:
            status = pdu.read_fault(body).status
            return {"status": f"0x{status:08X} {explain(status).name}"}
        return {}

    def _bind(self, bind: pdu.Bind) -> dict[str, Any]:
        self._last = [(item.context_id, item.abstract) for item in bind.items]
        for item in bind.items:
            if len(self._asked) < CONTEXTS_MAX:
                self._asked.setdefault(item.context_id, item.abstract)
        return {"interfaces": [_interface(item.abstract) for item in bind.items]}

    def _accepted(self, ack: pdu.BindAck) -> dict[str, Any]:
        for (number, interface), result in zip(self._last, ack.results, strict=False):
            if result.result == 0 and len(self._contexts) < CONTEXTS_MAX:
                self._contexts[number] = _Context(interface, result.transfer == NDR64)
        return {"results": ["accepted" if one.result == 0 else "refused" for one in ack.results]}

    def _request(self, header: pdu.Header, body: bytes, sealed: bool) -> dict[str, Any]:
        request = pdu.read_request(body, header.flags)
        if len(self._calls) < CALLS_MAX:
            self._calls[header.call_id] = request.context_id, request.opnum
        context = self._contexts.get(request.context_id)
        name = _method(context, request.opnum)
        return {"method": name} | self._stub(
            header, context, request.opnum, bytes(request.stub), sealed, "request"
        )

    def _response(self, header: pdu.Header, body: bytes, sealed: bool) -> dict[str, Any]:
        stub = bytes(pdu.read_response(body).stub)
        number, opnum = self._calls.get(header.call_id, (-1, -1))
        context = self._contexts.get(number)
        if header.flags & pdu.LAST_FRAG:
            self._calls.pop(header.call_id, None)
        return {"method": _method(context, opnum) if opnum >= 0 else ""} | self._stub(
            header, context, opnum, stub, sealed, "response"
        )

    def _stub(
        self,
        header: pdu.Header,
        context: _Context | None,
        opnum: int,
        stub: bytes,
        sealed: bool,
        side: str,
    ) -> dict[str, Any]:
        """The parameters of a call, as far as they are there and in clear."""
        if sealed:
            return {"stub": f"{len(stub)} bytes, encrypted"}
        method = None if context is None else METHODS.get(context.interface, {}).get(opnum)
        if method is None or context is None or header.flags & pdu.WHOLE != pdu.WHOLE:
            return {"stub": stub}
        try:
            found = getattr(method, side).decode(stub, ndr64=context.ndr64)
        except (RemoteProtocolError, QueueError, BadStub) as error:
            return {"stub": stub, "broken": str(error)}
        return {name: _shown(value) for name, value in found._asdict().items()}


def _shown(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _shown(item) for name, item in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    return value if isinstance(value, bytes | int | str | bool | None) else str(value)


def _interface(syntax: SyntaxId) -> str:
    known = INTERFACES.get(syntax)
    return known[0] if known else f"{format_guid(syntax.uuid)} {syntax.major}.{syntax.minor}"


def _method(context: _Context | None, opnum: int) -> str:
    if context is not None and context.interface == EPT:
        return f" {MAPPER_METHODS.get(opnum, opnum)}"
    method = None if context is None else METHODS.get(context.interface, {}).get(opnum)
    return f" {opnum}" if method is None else f" {method.name}"
