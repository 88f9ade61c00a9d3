"""The job structures of old and new calls (qms-facts 2.1, 2.2): one value, two forms of it."""

from __future__ import annotations

from typing import Final, NamedTuple

from posthouse.wire.layout import Reader
from posthouse.wire.ncp_forms import (
    BE16,
    BE32,
    CAPPED8,
    FILE_NAME,
    LE16,
    LE32,
    U8,
    Fixed,
    Form,
)

NEW_SIZE: Final = 280
NEW_REPLY_SIZE: Final = 78
OLD_SIZE: Final = 256
OLD_REPLY_SIZE: Final = 54

TIME_SIZE: Final = 6
DESCRIPTION_SIZE: Final = 50
RECORD_SIZE: Final = 152
AT_ONCE: Final = b"\xff" * TIME_SIZE
ANY_SERVER: Final = 0xFFFF_FFFF
ANY_TYPE: Final = 0xFFFF
IN_USE: Final = 0xFFFF  # recordInUse, as mars_nwe writes it


class JobStructure(NamedTuple):
    """NWQueueJobStruct as it is on the wire; times are their six bytes.

    The first three fields stand in the new form only.
    """

    record_in_use: int = IN_USE
    previous_record: int = 0
    next_record: int = 0  # number of the next job of the queue, 0 at its end
    client_station: int = 0
    client_task: int = 0
    client_id: int = 0
    target_server_id: int = ANY_SERVER
    target_execution_time: bytes = AT_ONCE
    job_entry_time: bytes = bytes(TIME_SIZE)
    job_number: int = 0
    job_type: int = 0
    job_position: int = 0
    job_control_flags: int = 0
    job_file_name: str = ""
    job_file_handle: int = 0
    servicing_server_station: int = 0
    servicing_server_task: int = 0
    servicing_server_id: int = 0
    job_description: bytes = bytes(DESCRIPTION_SIZE)
    queue_record: bytes = bytes(RECORD_SIZE)


class Handle:
    """A file handle of six bytes, known by its last four (qms-facts 1.5)."""

    def read(self, reader: Reader) -> int:
        """Bytes 2 to 5 as a number; bytes 0 and 1 do not matter."""
        return int.from_bytes(reader.take(6)[2:], "little")

    def write(self, value: int) -> bytes:
        """The form that ncpfs makes of four bytes."""
        return LE16.write(value + 1) + LE32.write(value)


HANDLE: Final = Handle()
_TIME: Final = Fixed(TIME_SIZE)
_NEW: Final = Form(
    JobStructure,
    *(LE16, LE32, LE32),
    *(LE32, LE32, BE32),
    *(BE32, _TIME, _TIME),
    *(LE32, BE16, LE16, LE16),
    *(FILE_NAME, LE32),
    *(LE32, LE32, BE32),
    *(Fixed(DESCRIPTION_SIZE), Fixed(RECORD_SIZE)),
)


class _OldFields(NamedTuple):
    client_station: int
    client_task: int
    client_id: int
    target_server_id: int
    target_execution_time: bytes
    job_entry_time: bytes
    job_number: int
    job_type: int
    job_position: int
    job_control_flags: int
    job_file_name: str
    job_file_handle: int
    servicing_server_station: int
    servicing_server_task: int
    servicing_server_id: int
    job_description: bytes
    queue_record: bytes


_NEW_ONLY: Final = len(JobStructure._fields) - len(_OldFields._fields)
_OLD: Final = Form(
    _OldFields,
    *(U8, U8, BE32),
    *(BE32, _TIME, _TIME),
    *(BE16, BE16, CAPPED8, U8),
    *(FILE_NAME, HANDLE),
    *(U8, U8, BE32),
    *(Fixed(DESCRIPTION_SIZE), Fixed(RECORD_SIZE)),
)


class NewJob:
    """A field that holds the structure of 280 bytes."""

    size = NEW_SIZE

    def read(self, reader: Reader) -> JobStructure:
        """The structure; `Truncated` where it is shorter."""
        return _NEW.read(reader.take(NEW_SIZE))

    def write(self, value: JobStructure) -> bytes:
        """All 280 bytes."""
        return _NEW.write(value)


class OldJob:
    """A field that holds the structure of 256 bytes."""

    size = OLD_SIZE

    def read(self, reader: Reader) -> JobStructure:
        """The structure; `Truncated` where it is shorter."""
        return JobStructure._make((IN_USE, 0, 0, *_OLD.read(reader.take(OLD_SIZE))))

    def write(self, value: JobStructure) -> bytes:
        """All 256 bytes, with what fits of large numbers."""
        return _OLD.write(_OldFields._make(value[_NEW_ONLY:]))


class ReplyForm:
    """The front of a structure, which create and service answer with."""

    def __init__(self, whole: NewJob | OldJob, size: int) -> None:
        self._whole = whole
        self._size = size

    def read(self, reader: Reader) -> JobStructure:
        """The structure; what is behind its front is zero."""
        front = reader.take(self._size)
        return self._whole.read(Reader(front.ljust(self._whole.size, b"\0")))

    def write(self, value: JobStructure) -> bytes:
        """The front."""
        return self._whole.write(value)[: self._size]


NEW_JOB, OLD_JOB = NewJob(), OldJob()
NEW_REPLY = ReplyForm(NEW_JOB, NEW_REPLY_SIZE)
OLD_REPLY = ReplyForm(OLD_JOB, OLD_REPLY_SIZE)
