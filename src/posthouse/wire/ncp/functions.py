"""NCP functions other than 23: session, clock and the file of a job (qms-facts 1.4, 1.5)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from posthouse.wire.layout import Reader
from posthouse.wire.ncp.bindery_calls import BINDERY_CALLS
from posthouse.wire.ncp.calls import EMPTY, NcpCall
from posthouse.wire.ncp.forms import BE16, BE32, U8, Fixed, Form
from posthouse.wire.ncp.jobs import HANDLE
from posthouse.wire.ncp.queue_calls import QUEUE_CALLS

CLOCK_SIZE: Final = 7
SIGNING: Final = 0x02  # of the flags of 0x61


class BufferSize(NamedTuple):
    """Negotiate Buffer Size, both ways."""

    size: int


class ProposedSize(NamedTuple):
    """Get Big Packet NCP Max Packet Size."""

    size: int
    flags: int


class AcceptedSize(NamedTuple):
    """Its answer."""

    size: int
    echo_socket: int
    flags: int


class ServerClock(NamedTuple):
    """Year, month, day, hour, minute, second, day of the week from Sunday."""

    clock: bytes


class OpenFile(NamedTuple):
    """Close File, Get Current Size of File."""

    reserved: int
    handle: int


class FileSize(NamedTuple):
    """The answer of Get Current Size of File."""

    size: int


class ReadFile(NamedTuple):
    """Read From A File."""

    reserved: int
    handle: int
    offset: int
    size: int


class WriteFile(NamedTuple):
    """Write to a File."""

    reserved: int
    handle: int
    offset: int
    data: bytes


class _Written:
    """A count and the bytes."""

    def read(self, reader: Reader) -> bytes:
        return reader.take(BE16.read(reader))

    def write(self, value: bytes) -> bytes:
        assert len(value) <= 0xFFFF
        return len(value).to_bytes(2, "big") + value


class FileData(NamedTuple):
    """The answer of Read From A File, for a read at an even offset."""

    data: bytes


def write_file_data(offset: int, data: bytes) -> bytes:
    """The answer of a read: the count, one byte of padding where the offset is odd, the bytes."""
    return len(data).to_bytes(2, "big") + b"\0" * (offset & 1) + data


def read_file_data(offset: int, data: bytes) -> bytes:
    """The bytes that a read brought; `Truncated` where they are fewer than their count."""
    reader = Reader(data)
    count = BE16.read(reader)
    if count:
        reader.skip(offset & 1)
    return reader.take(count)


def _call(
    function: int, name: str, request: Form[Any], reply: Form[Any], section: str, engine: str = ""
) -> NcpCall[Any, Any]:
    return NcpCall(function, None, name, request, reply, f"qms-facts {section}", engine)


_FILE: Final = Form(OpenFile, U8, HANDLE)

SERVER_CLOCK: Final = _call(
    0x14, "Get File Server Date And Time", EMPTY, Form(ServerClock, Fixed(CLOCK_SIZE)), "1.4"
)
END_OF_JOB: Final = _call(0x18, "End of Job", EMPTY, EMPTY, "1.4")
LOGOUT: Final = _call(0x19, "Logout", EMPTY, EMPTY, "1.4", engine="stations.logout")
NEGOTIATE: Final = _call(
    0x21, "Negotiate Buffer Size", Form(BufferSize, BE16), Form(BufferSize, BE16), "1.4"
)
NEGOTIATE_SIZE: Final = _call(
    0x61,
    "Get Big Packet NCP Max Packet Size",
    Form(ProposedSize, BE16, U8),
    Form(AcceptedSize, BE16, BE16, U8),
    "1.4",
)
CLOSE_FILE: Final = _call(0x42, "Close File", _FILE, EMPTY, "1.5", engine="jobs.close_file(handle)")
CURRENT_SIZE: Final = _call(
    0x47,
    "Get Current Size of File",
    _FILE,
    Form(FileSize, BE32),
    "1.5",
    engine="jobs.file_size(handle)",
)
READ_FILE: Final = _call(
    0x48,
    "Read From A File",
    Form(ReadFile, U8, HANDLE, BE32, BE16),
    Form(FileData, _Written()),
    "1.5",
)
WRITE_FILE: Final = _call(
    0x49,
    "Write to a File",
    Form(WriteFile, U8, HANDLE, BE32, _Written()),
    EMPTY,
    "1.5",
    engine="jobs.write_file(handle, offset, data)",
)

FUNCTIONS: Final = {
    call.key: call for call in list(globals().values()) if isinstance(call, NcpCall)
}
CALLS: Final = FUNCTIONS | BINDERY_CALLS | QUEUE_CALLS
"""Every call that is served, by function and subfunction."""

NOT_SERVED: Final = {
    (0x16, 0x00): "Set Directory Handle",
    (0x16, 0x01): "Get Directory Path",
    (0x16, 0x02): "Scan Directory Information",
    (0x16, 0x03): "Get Effective Directory Rights",
    (0x16, 0x04): "Modify Maximum Rights Mask",
    (0x16, 0x05): "Get Volume Number",
    (0x16, 0x06): "Get Volume Name",
    (0x16, 0x0A): "Create Directory",
    (0x16, 0x0B): "Delete Directory",
    (0x16, 0x0C): "Scan Directory for Trustees",
    (0x16, 0x0D): "Add Trustee to Directory",
    (0x16, 0x0E): "Delete Trustee from Directory",
    (0x16, 0x0F): "Rename Directory",
    (0x16, 0x12): "Allocate Permanent Directory Handle",
    (0x16, 0x13): "Allocate Temporary Directory Handle",
    (0x16, 0x14): "Deallocate Directory Handle",
    (0x16, 0x27): "Add Extended Trustee to Directory or File",
    (0x16, 0x2A): "Get Effective Rights for Directory Entry",
    (0x17, 0x47): "Scan Bindery Object Trustee Paths",
    (0x17, 0x4B): "Keyed Change Password",
    (0x68, None): "NDS calls, the ping of them too",
}
"""What clients ask for that queue services do without; answered like anything unknown: 0xFB."""
