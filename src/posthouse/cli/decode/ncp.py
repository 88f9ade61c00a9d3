"""NCP requests and replies as headers with named fields, for `posthouse decode` (qms-facts)."""

from __future__ import annotations

from typing import Any, Final

from posthouse.cli.decode.packets import Header, View
from posthouse.model.error_table import explain
from posthouse.model.errors import RemoteProtocolError, Truncated
from posthouse.wire.ncp.calls import NcpCall
from posthouse.wire.ncp.framing import (
    CREATE_CONNECTION,
    DESTROY_CONNECTION,
    FUNCTION_GROUPS,
    REPLY,
    REPLY_MAGIC,
    REQUEST,
    REQUEST_MAGIC,
    SIGNED,
    TCP_REPLY_SIZE,
    TCP_REQUEST_SIZE,
    WATCHDOG,
    WORKING,
    Reply,
    Request,
    read_reply,
    read_request,
    read_subfunction,
    read_watchdog,
)
from posthouse.wire.ncp.functions import CALLS, NOT_SERVED

KINDS: Final = {
    CREATE_CONNECTION: "NCP Create Service Connection",
    REQUEST: "NCP Request",
    REPLY: "NCP Reply",
    WATCHDOG: "NCP Watchdog",
    DESTROY_CONNECTION: "NCP Destroy Service Connection",
    WORKING: "NCP Request Being Processed",
}
SECRET: Final = frozenset(("password", "old", "new"))
SECTION: Final = "qms-facts 1.1"
_SEEN: Final = 0x8900  # what clients add to a completion code


def is_ncp(front: bytes) -> bool:
    """Whether these bytes begin a PDU of NCP over TCP, or a bare message as on UDP."""
    if front[:4] in (REQUEST_MAGIC, REPLY_MAGIC):
        return True
    return int.from_bytes(front[:2], "big") in KINDS and len(front) > 2


def ncp_extent(data: bytes, at: int) -> int:
    """How many bytes the PDU has; a bare message is all that is left."""
    if data[at : at + 4] not in (REQUEST_MAGIC, REPLY_MAGIC):
        return len(data) - at
    if len(data) - at < TCP_REPLY_SIZE:
        raise Truncated("the bytes end in the header of NCP over TCP")
    size = int.from_bytes(data[at + 4 : at + 8], "big") & ~SIGNED
    if size < TCP_REPLY_SIZE:
        raise RemoteProtocolError(f"a PDU of {size} bytes")
    return size


def view_ncp(pdu: bytes) -> View:
    """One PDU or message; `RemoteProtocolError` where it breaks the protocol."""
    headers: list[Header] = []
    message = pdu
    if pdu[:4] == REQUEST_MAGIC:
        headers.append(_tcp_header(pdu, "NCP over TCP, Request", ("version", "reply_buffer_size")))
        message = pdu[TCP_REQUEST_SIZE:]
    elif pdu[:4] == REPLY_MAGIC:
        headers.append(_tcp_header(pdu, "NCP over TCP, Reply", ()))
        message = pdu[TCP_REPLY_SIZE:]
    kind = int.from_bytes(message[:2], "big")
    if kind not in KINDS or len(message) < 2:
        raise RemoteProtocolError(f"an NCP message of type 0x{kind:04X}")
    headers += _message(kind, message)
    return View(KINDS[kind], SECTION, headers)


def _tcp_header(pdu: bytes, name: str, more: tuple[str, ...]) -> Header:
    if len(pdu) < 8 + 4 * len(more):
        raise Truncated("the bytes end in the header of NCP over TCP")
    length = int.from_bytes(pdu[4:8], "big")
    fields: dict[str, Any] = {"length": length & ~SIGNED, "signed": bool(length & SIGNED)}
    for at, field in enumerate(more):
        fields[field] = int.from_bytes(pdu[8 + 4 * at : 12 + 4 * at], "big")
    return Header("qms-facts 1.2", name, fields)


def _message(kind: int, message: bytes) -> list[Header]:
    if kind in (REPLY, WORKING):
        return [_reply(read_reply(message))]
    if kind == WATCHDOG:
        connection, signature = read_watchdog(message)
        fields = {"connection": connection, "signature": chr(signature)}
        return [Header("qms-facts 7.3", "Watchdog", fields)]
    request = read_request(message)
    head = _head(request)
    if kind != REQUEST:
        return [head]
    return [head, _call(request)]


def _head(message: Request | Reply) -> Header:
    fields = {
        "sequence": message.sequence,
        "connection": message.connection,
        "task": message.task,
    }
    return Header(SECTION, "NCP", fields)


def _reply(reply: Reply) -> Header:
    """Which call a reply belongs to is not in it."""
    meaning = "success" if not reply.completion else explain(_SEEN + reply.completion).name
    fields = dict(_head(reply).fields)
    fields["completion"] = f"0x{reply.completion:02X} {meaning}"
    fields["connection_status"] = reply.status
    fields["data"] = reply.data
    return Header(SECTION, "NCP", fields)


def _call(request: Request) -> Header:
    number: int | None = None
    data = request.data
    if request.function in FUNCTION_GROUPS:
        number, data = read_subfunction(data)
    key = request.function, number
    call = CALLS.get(key)
    if call is None:
        known = NOT_SERVED.get(key) or NOT_SERVED.get((request.function, None))
        name = f"{known} (not served)" if known else "Unknown call"
        return Header("qms-facts 1.1", name, {"call": _number(key), "data": data})
    return Header(call.section, call.name, {"call": call.number} | _fields(call, data))


def _number(key: tuple[int, int | None]) -> str:
    function, subfunction = key
    return f"0x{function:02X}" if subfunction is None else f"{function}/0x{subfunction:02X}"


def _fields(call: NcpCall[Any, Any], data: bytes) -> dict[str, Any]:
    """What a call asks, with the fields of its job one by one; passwords stay hidden."""
    shown: dict[str, Any] = {}
    for name, value in call.request.read(data)._asdict().items():
        if hasattr(value, "_asdict"):
            shown |= value._asdict()
        else:
            shown[name] = f"{len(value)} bytes" if name in SECRET else value
    return {name: list(v) if isinstance(v, tuple) else v for name, v in shown.items()}
