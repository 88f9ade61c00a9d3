"""The job structures of old and new calls (qms-facts 2.1, 2.2): one value, two forms of it."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, NamedTuple

from posthouse.model.qms import (
    CLIENT_RECORD_SIZE,
    NWMAX_JOB_DESCRIPTION_LENGTH,
    NWMAX_QUEUE_JOB_TIME_SIZE,
    NWQueueJobStruct,
)
from posthouse.wire.layout import Reader
from posthouse.wire.ncp.forms import (
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
IN_USE: Final = 0xFFFF  # recordInUse, as mars_nwe writes it


class Handle:
    """A file handle of six bytes, known by its last four (qms-facts 1.5)."""

    def read(self, reader: Reader) -> int:
        """Bytes 2 to 5 as a number; bytes 0 and 1 do not matter."""
        return int.from_bytes(reader.take(6)[2:], "little")

    def write(self, value: int) -> bytes:
        """The form that ncpfs makes of four bytes."""
        return LE16.write(value + 1) + LE32.write(value)


class NewFields(NamedTuple):
    """The fields of the new structure in their order, 2.1."""

    record_in_use: int
    previous_record: int
    next_record: int
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
    servicing_server_task_number: int
    servicing_server_id_number: int
    job_description: bytes
    queue_record: bytes


class OldFields(NamedTuple):
    """The fields of the old structure in their order, Table 25."""

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
    servicing_server_task_number: int
    servicing_server_id_number: int
    job_description: bytes
    queue_record: bytes


HANDLE: Final = Handle()
_TIME: Final = Fixed(NWMAX_QUEUE_JOB_TIME_SIZE)
_AREAS: Final = Fixed(NWMAX_JOB_DESCRIPTION_LENGTH), Fixed(CLIENT_RECORD_SIZE)
_NEW: Final = Form(
    NewFields,
    *(LE16, LE32, LE32),
    *(LE32, LE32, BE32),
    *(BE32, _TIME, _TIME),
    *(LE32, BE16, LE16, LE16),
    *(FILE_NAME, LE32),
    *(LE32, LE32, BE32),
    *_AREAS,
)
_OLD: Final = Form(
    OldFields,
    *(U8, U8, BE32),
    *(BE32, _TIME, _TIME),
    *(BE16, BE16, CAPPED8, U8),
    *(FILE_NAME, HANDLE),
    *(U8, U8, BE32),
    *_AREAS,
)
_NEW_ONLY: Final = 2  # in front of what a job has
_new_values: Final[Callable[[NWQueueJobStruct], Any]] = attrgetter(*NewFields._fields[_NEW_ONLY:])
_old_values: Final[Callable[[NWQueueJobStruct], Any]] = attrgetter(*OldFields._fields)


class NewJob:
    """A field that holds the structure of 280 bytes."""

    size = NEW_SIZE

    def read(self, reader: Reader) -> NWQueueJobStruct:
        """The job; `Truncated` where it is shorter."""
        fields = _NEW.read(reader.take(NEW_SIZE))._asdict()
        del fields["record_in_use"], fields["previous_record"]
        return NWQueueJobStruct(**fields)

    def write(self, value: NWQueueJobStruct) -> bytes:
        """All 280 bytes."""
        return _NEW.write(NewFields._make((IN_USE, 0, *_new_values(value))))


class OldJob:
    """A field that holds the structure of 256 bytes."""

    size = OLD_SIZE

    def read(self, reader: Reader) -> NWQueueJobStruct:
        """The job; `Truncated` where it is shorter."""
        return NWQueueJobStruct(**_OLD.read(reader.take(OLD_SIZE))._asdict())

    def write(self, value: NWQueueJobStruct) -> bytes:
        """All 256 bytes, with what fits of large numbers."""
        return _OLD.write(OldFields._make(_old_values(value)))


class ReplyForm:
    """The front of a structure, which create and service answer with."""

    def __init__(self, whole: NewJob | OldJob, size: int) -> None:
        self._whole = whole
        self._size = size

    def read(self, reader: Reader) -> NWQueueJobStruct:
        """The job; what the front does not include is zero."""
        front = reader.take(self._size)
        return self._whole.read(Reader(front.ljust(self._whole.size, b"\0")))

    def write(self, value: NWQueueJobStruct) -> bytes:
        """The front."""
        return self._whole.write(value)[: self._size]


NEW_JOB, OLD_JOB = NewJob(), OldJob()
NEW_REPLY = ReplyForm(NEW_JOB, NEW_REPLY_SIZE)
OLD_REPLY = ReplyForm(OLD_JOB, OLD_REPLY_SIZE)
