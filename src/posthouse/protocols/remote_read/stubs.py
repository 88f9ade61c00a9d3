"""The RemoteRead interface, [MS-MQRR] appendix A: parameters and results of each method.

One NamedTuple for each side of a method, its fields in the order of the IDL; `hBind` is never sent,
reference pointers are what they point to, a return value is the last field of the answer. `METHODS`
at the end states which belongs to which opnum. What is read or written tens of thousands of times a
second has a `struct` of its own: see `ReceivedStub`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Any, Final, NamedTuple

from posthouse.protocols.queue_format import QueueFormat as QueueFormat
from posthouse.protocols.queue_format import queue_format
from posthouse.rpc.ndr import (
    FIRST_REFERENT,
    REFERENT_STEP,
    TRAILING_MAX,
    BadStub,
    Reader,
    Scalar,
    Stub,
    Writer,
    context_handle,
    guid,
    i32,
    octets16,
    stub_of,
    u8,
    u16,
    u32,
    u64,
)
from posthouse.rpc.syntax import syntax

REMOTE_READ: Final = syntax("1a9134dd-7b39-45ba-ad88-44d01ca47f28", 1)
"""The interface, version 1.0 ([MS-MQRR] 1.9)."""

TOKEN_SIZE_MAX: Final = 131072
SECTIONS_MAX: Final = 2  # [MS-MQRR] 2.2.6: the bytes up to the end of the body, and those after it
NO_TRANSACTION: Final = bytes(16)
"""The XACTUOW that stands for NULL (decision 38)."""


class Opnum(IntEnum):
    """The methods by number ([MS-MQRR] 3.1.4); 1 is not used on the wire."""

    GET_SERVER_PORT = 0
    OPEN_QUEUE = 2
    CLOSE_QUEUE = 3
    CREATE_CURSOR = 4
    CLOSE_CURSOR = 5
    PURGE_QUEUE = 6
    START_RECEIVE = 7
    CANCEL_RECEIVE = 8
    END_RECEIVE = 9
    MOVE_MESSAGE = 10
    OPEN_QUEUE_FOR_MOVE = 11
    ENLIST_REMOTE_TRANSACTION = 12
    START_TRANSACTIONAL_RECEIVE = 13
    SET_USER_ACKNOWLEDGEMENT_CLASS = 14
    END_TRANSACTIONAL_RECEIVE = 15


class SectionType(IntEnum):
    """What a section is of its packet ([MS-MQRR] 2.2.7)."""

    FULL_PACKET = 0
    BINARY_FIRST_SECTION = 1
    BINARY_SECOND_SECTION = 2
    SRMP_FIRST_SECTION = 3
    SRMP_SECOND_SECTION = 4


class Ack(IntEnum):
    """How a receive ends: dwAck of both End methods ([MS-MQRR] 3.1.4.9, 3.1.4.15)."""

    NACK = 1
    ACK = 2


class Section(NamedTuple):
    """SectionBuffer ([MS-MQRR] 2.2.6); SectionSize is the length of the buffer."""

    type: int
    size_alloc: int
    buffer: bytes


# Parameters that are more than one value


class SectionsPart:
    """The sections of a packet: structures first, then the bytes of each."""

    # pdwNumberOfSections and ppPacketSections

    def read(self, reader: Reader) -> tuple[Section, ...]:
        """The sections; none where the pointer is NULL, and then none may be announced."""
        count, pointer = reader.u32(), reader.pointer()
        if count > SECTIONS_MAX or (count and not pointer):
            raise BadStub(f"{count} sections, pointer: {pointer}")
        if not pointer:
            return ()
        reader.count(count)
        heads = [_read_head(reader) for _ in range(count)]
        return tuple(_read_section(reader, *head) for head in heads)

    def write(self, writer: Writer, value: tuple[Section, ...]) -> None:
        """The sections; a null pointer where there are none."""
        writer.u32(len(value))
        writer.pointer(bool(value))
        if not value:
            return
        writer.wide(len(value))
        for section in value:
            _write_head(writer, section)
        for section in value:
            writer.wide(len(section.buffer))
            writer.put(section.buffer)


def _read_head(reader: Reader) -> tuple[int, int, int, bool]:
    reader.align(8 if reader.ndr64 else 4)
    kind, size_alloc, size, pointer = reader.enum(), reader.u32(), reader.u32(), reader.pointer()
    if kind > SectionType.SRMP_SECOND_SECTION or (size and not pointer):
        raise BadStub(f"a section of type {kind} and {size} bytes, pointer: {pointer}")
    return kind, size_alloc, size, pointer


def _read_section(reader: Reader, kind: int, size_alloc: int, size: int, pointer: bool) -> Section:
    if pointer:
        reader.count(size)
    return Section(kind, size_alloc, reader.take(size))


def _write_head(writer: Writer, section: Section) -> None:
    writer.align(8 if writer.ndr64 else 4)
    writer.enum(section.type)
    writer.u32(section.size_alloc)
    writer.u32(len(section.buffer))
    writer.pointer(True)


class TokenPart:
    """A transaction token: cbPropagationToken with its range, and pbPropagationToken."""

    def read(self, reader: Reader) -> bytes:
        """The token, of the size that is announced twice."""
        size = reader.u32()
        if size > TOKEN_SIZE_MAX:
            raise BadStub(f"a token of {size} bytes; {TOKEN_SIZE_MAX} are allowed")
        reader.count(size)
        return reader.take(size)

    def write(self, writer: Writer, value: bytes) -> None:
        """The token after its size, twice."""
        writer.u32(len(value))
        writer.wide(len(value))
        writer.put(value)


acknowledgement = Annotated[int, Scalar("I", 4, Ack.NACK, Ack.ACK)]
sections = Annotated[tuple[Section, ...], SectionsPart()]
token = Annotated[bytes, TokenPart()]
xactuow = octets16
hresult = u32


# Opnum 0: DWORD R_GetServerPort([in] handle_t hBind)


class GetServerPort(NamedTuple):
    """R_GetServerPort, [MS-MQRR] 3.1.4.1."""


class ServerPort(NamedTuple):
    """Answer of R_GetServerPort; zero means failure."""

    port: u32


# Opnum 2: void R_OpenQueue(...)


class OpenQueueRequest(NamedTuple):
    """R_OpenQueue and R_OpenQueueForMove, [MS-MQRR] 3.1.4.2, 3.1.4.11."""

    queue_format: queue_format
    access: u32
    share_mode: u32
    client_id: guid
    non_routing_server: i32
    major: u8
    minor: u8
    build_number: u16
    workgroup: i32


class OpenQueueResponse(NamedTuple):
    """Answer of R_OpenQueue: no status, a failure is a fault."""

    handle: context_handle


# Opnum 3: HRESULT R_CloseQueue([in, out] QUEUE_CONTEXT_HANDLE_SERIALIZE* pphContext)


class CloseQueue(NamedTuple):
    """R_CloseQueue, [MS-MQRR] 3.1.4.3."""

    handle: context_handle


class ClosedQueue(NamedTuple):
    """Answer of R_CloseQueue: the handle is all zeros after success."""

    handle: context_handle
    result: hresult


# Opnums 4 and 5: HRESULT R_CreateCursor(...), HRESULT R_CloseCursor(...)


class CreateCursor(NamedTuple):
    """R_CreateCursor, [MS-MQRR] 3.1.4.4."""

    handle: context_handle


class CreatedCursor(NamedTuple):
    """Answer of R_CreateCursor."""

    cursor: u32
    result: hresult


class CloseCursor(NamedTuple):
    """R_CloseCursor, [MS-MQRR] 3.1.4.5."""

    handle: context_handle
    cursor: u32


class Status(NamedTuple):
    """Answer of every method that gives back nothing but its HRESULT ([MS-MQRR] 2.2.1)."""

    result: hresult


# Opnum 6: HRESULT R_PurgeQueue(...)


class PurgeQueue(NamedTuple):
    """R_PurgeQueue, [MS-MQRR] 3.1.4.6."""

    handle: context_handle


# Opnum 7: HRESULT R_StartReceive(...)


class StartReceive(NamedTuple):
    """R_StartReceive, [MS-MQRR] 3.1.4.7."""

    handle: context_handle
    lookup_id: u64
    cursor: u32
    action: u32
    timeout: u32
    request_id: u32
    max_body_size: u32
    max_compound_message_size: u32


class Received(NamedTuple):
    """Answer of R_StartReceive and R_StartTransactionalReceive."""

    arrive_time: u32
    sequence_id: u64
    sections: sections
    result: hresult


def not_received(result: int) -> Received:
    """The answer of a Start method that found no message."""
    return Received(0, 0, (), result)


# Opnums 8 and 9: HRESULT R_CancelReceive(...), HRESULT R_EndReceive(...)


class CancelReceive(NamedTuple):
    """R_CancelReceive, [MS-MQRR] 3.1.4.8."""

    handle: context_handle
    request_id: u32


class EndReceive(NamedTuple):
    """R_EndReceive and R_EndTransactionalReceive, [MS-MQRR] 3.1.4.9, 3.1.4.15."""

    handle: context_handle
    ack: acknowledgement
    request_id: u32


# Opnums 10 and 11: HRESULT R_MoveMessage(...), void R_OpenQueueForMove(...)


class MoveMessage(NamedTuple):
    """R_MoveMessage, [MS-MQRR] 3.1.4.10."""

    handle_from: context_handle
    context_to: u64
    lookup_id: u64
    transaction_id: xactuow


class OpenedQueueForMove(NamedTuple):
    """Answer of R_OpenQueueForMove: no status, a failure is a fault."""

    move_context: u64
    handle: context_handle


# Opnum 12: HRESULT R_QMEnlistRemoteTransaction(...)


class EnlistRemoteTransaction(NamedTuple):
    """R_QMEnlistRemoteTransaction, [MS-MQRR] 3.1.4.12."""

    transaction_id: xactuow
    propagation_token: token
    queue_format: queue_format


# Opnum 13: HRESULT R_StartTransactionalReceive(...)


class StartTransactionalReceive(NamedTuple):
    """R_StartTransactionalReceive, [MS-MQRR] 3.1.4.13."""

    handle: context_handle
    lookup_id: u64
    cursor: u32
    action: u32
    timeout: u32
    request_id: u32
    max_body_size: u32
    max_compound_message_size: u32
    transaction_id: xactuow


# Opnum 14: HRESULT R_SetUserAcknowledgementClass(...)


class SetUserAcknowledgementClass(NamedTuple):
    """R_SetUserAcknowledgementClass, [MS-MQRR] 3.1.4.14."""

    handle: context_handle
    lookup_id: u64
    acknowledgement_class: u16


# The answer with one section, in NDR, as nearly every message is delivered: arrive time, sequence
# id, pointer to one section, count of the array; type, both sizes, pointer; count of bytes.
_ONE_SECTION: Final = struct.Struct("<I4xQIIIH2xIIII")
_NO_SECTION: Final = struct.Struct("<I4xQ8xI")
_RESULT: Final = struct.Struct("<I")
_PADDING: Final = tuple(bytes(-size % 4) for size in range(4))
_SECOND_REFERENT: Final = FIRST_REFERENT + REFERENT_STEP


class ReceivedStub(Stub[Received]):
    """The answer of the Start methods: one `struct` and one join where one section is all."""

    __slots__ = ()

    def encode(self, value: Received, *, ndr64: bool = False) -> bytes:
        """The stub."""
        arrive_time, sequence_id, found, result = value
        if ndr64 or len(found) > 1:
            return super().encode(value, ndr64=ndr64)
        if not found:
            return _NO_SECTION.pack(arrive_time, sequence_id, result)
        kind, size_alloc, buffer = found[0]
        size = len(buffer)
        head = _ONE_SECTION.pack(
            arrive_time, sequence_id, 1, FIRST_REFERENT, 1,
            kind, size_alloc, size, _SECOND_REFERENT, size,
        )  # fmt: skip
        return b"".join((head, buffer, _PADDING[size & 3], _RESULT.pack(result)))

    def decode(self, stub: bytes, *, ndr64: bool = False) -> Received:
        """The value of a whole stub; raises `BadStub`."""
        if ndr64 or len(stub) < _ONE_SECTION.size:
            return super().decode(stub, ndr64=ndr64)
        (
            arrive_time, sequence_id, count, pointer, maximum,
            kind, size_alloc, size, buffer_pointer, buffer_count,
        ) = _ONE_SECTION.unpack_from(stub)  # fmt: skip
        end = _ONE_SECTION.size + size
        at = (end + 3) & ~3
        plain = count == maximum == 1 and size == buffer_count and pointer and buffer_pointer
        if not (plain and kind <= 4 and 4 <= len(stub) - at <= 4 + TRAILING_MAX):
            return super().decode(stub, ndr64=ndr64)
        section = Section(kind, size_alloc, stub[_ONE_SECTION.size : end])
        (result,) = _RESULT.unpack_from(stub, at)
        return Received(arrive_time, sequence_id, (section,), result)


class Method(NamedTuple):
    """Both sides of a method."""

    name: str
    request: Stub[Any]
    response: Stub[Any]


_STATUS = stub_of(Status)
_OPEN_QUEUE = stub_of(OpenQueueRequest)
_END_RECEIVE = stub_of(EndReceive)
_RECEIVED = ReceivedStub(Received, stub_of(Received).parts)

METHODS: Final[Mapping[int, Method]] = {
    Opnum.GET_SERVER_PORT: Method("R_GetServerPort", stub_of(GetServerPort), stub_of(ServerPort)),
    Opnum.OPEN_QUEUE: Method("R_OpenQueue", _OPEN_QUEUE, stub_of(OpenQueueResponse)),
    Opnum.CLOSE_QUEUE: Method("R_CloseQueue", stub_of(CloseQueue), stub_of(ClosedQueue)),
    Opnum.CREATE_CURSOR: Method("R_CreateCursor", stub_of(CreateCursor), stub_of(CreatedCursor)),
    Opnum.CLOSE_CURSOR: Method("R_CloseCursor", stub_of(CloseCursor), _STATUS),
    Opnum.PURGE_QUEUE: Method("R_PurgeQueue", stub_of(PurgeQueue), _STATUS),
    Opnum.START_RECEIVE: Method("R_StartReceive", stub_of(StartReceive), _RECEIVED),
    Opnum.CANCEL_RECEIVE: Method("R_CancelReceive", stub_of(CancelReceive), _STATUS),
    Opnum.END_RECEIVE: Method("R_EndReceive", _END_RECEIVE, _STATUS),
    Opnum.MOVE_MESSAGE: Method("R_MoveMessage", stub_of(MoveMessage), _STATUS),
    Opnum.OPEN_QUEUE_FOR_MOVE: Method(
        "R_OpenQueueForMove", _OPEN_QUEUE, stub_of(OpenedQueueForMove)
    ),
    Opnum.ENLIST_REMOTE_TRANSACTION: Method(
        "R_QMEnlistRemoteTransaction", stub_of(EnlistRemoteTransaction), _STATUS
    ),
    Opnum.START_TRANSACTIONAL_RECEIVE: Method(
        "R_StartTransactionalReceive", stub_of(StartTransactionalReceive), _RECEIVED
    ),
    Opnum.SET_USER_ACKNOWLEDGEMENT_CLASS: Method(
        "R_SetUserAcknowledgementClass", stub_of(SetUserAcknowledgementClass), _STATUS
    ),
    Opnum.END_TRANSACTIONAL_RECEIVE: Method("R_EndTransactionalReceive", _END_RECEIVE, _STATUS),
}
"""The interface: which stubs belong to which opnum."""


def encode_request(opnum: int, request: Any, ndr64: bool = False) -> bytes:
    """The stub of a request; the value is of the type that `METHODS` has for the opnum."""
    return METHODS[opnum].request.encode(request, ndr64=ndr64)


def decode_request(opnum: int, stub: bytes, ndr64: bool = False) -> Any:
    """The parameters of a request; raises `BadStub`, a fault."""
    return METHODS[opnum].request.decode(stub, ndr64=ndr64)


def encode_response(opnum: int, response: Any, ndr64: bool = False) -> bytes:
    """The stub of a response; the value is of the type that `METHODS` has for the opnum."""
    return METHODS[opnum].response.encode(response, ndr64=ndr64)


def decode_response(opnum: int, stub: bytes, ndr64: bool = False) -> Any:
    """The results of a method; raises `BadStub`."""
    return METHODS[opnum].response.decode(stub, ndr64=ndr64)
