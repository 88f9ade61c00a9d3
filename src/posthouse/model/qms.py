"""Values of NetWare's queue management: jobs, flags, status, times (NetWare QMS; qms-facts 2)."""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from posthouse.model.errors import InvalidParameter
from posthouse.model.errors import QmsError as QmsError

# Table 26, with the values of qms-facts 2.6.
NWCF_SERVICE_AUTO_START: Final = 0x08
NWCF_SERVICE_RESTART: Final = 0x10
NWCF_ENTRY_OPEN: Final = 0x20
NWCF_USER_HOLD: Final = 0x40
NWCF_OPERATOR_HOLD: Final = 0x80
FLAGS_OF_CLIENTS: Final = NWCF_SERVICE_AUTO_START | NWCF_SERVICE_RESTART | NWCF_USER_HOLD
NOT_READY: Final = NWCF_ENTRY_OPEN | NWCF_USER_HOLD | NWCF_OPERATOR_HOLD

FLAG_NAMES: Final = {
    NWCF_SERVICE_AUTO_START: "auto_start",
    NWCF_SERVICE_RESTART: "restart",
    NWCF_ENTRY_OPEN: "entry_open",
    NWCF_USER_HOLD: "user_hold",
    NWCF_OPERATOR_HOLD: "operator_hold",
}

# Queue status flags, qms-facts 2.7.
QS_CANT_ADD_JOBS: Final = 0x01
QS_SERVERS_CANT_ATTACH: Final = 0x02
QS_CANT_SERVICE_JOBS: Final = 0x04
QS_ALL: Final = 0x07

STATUS_NAMES: Final = {
    QS_CANT_ADD_JOBS: "no_new_jobs",
    QS_SERVERS_CANT_ATTACH: "no_new_servers",
    QS_CANT_SERVICE_JOBS: "no_service",
}

ANY_SERVER: Final = 0xFFFFFFFF
ANY_TYPE: Final = 0xFFFF
AT_ONCE: Final = b"\xff" * 6
NWMAX_QUEUE_JOB_TIME_SIZE: Final = 6
NWMAX_JOB_FILE_NAME_LENGTH: Final = 14
NWMAX_JOB_DESCRIPTION_LENGTH: Final = 50
CLIENT_RECORD_SIZE: Final = 152
SERVER_STATUS_SIZE: Final = 64
QUEUE_PATH_MAX: Final = 118
SMALL_QUEUE: Final = 250  # decision 98: up to this limit numbers end at 999
SMALL_NUMBER_MAX: Final = 999
NUMBER_MAX: Final = 65_535
JOBS_MAX: Final = 65_535


class NWQueueJobStruct(NamedTuple):
    """Table 25. The application fills the first six fields here; QMS fills all the others."""

    target_server_id: int = ANY_SERVER
    target_execution_time: bytes = AT_ONCE
    job_type: int = 0
    job_control_flags: int = 0
    job_description: bytes = b""  # up to 50 bytes; read back with all of them
    queue_record: bytes = b""  # up to 152 bytes; read back with all of them
    client_station: int = 0
    client_task: int = 0
    client_id: int = 0
    job_entry_time: bytes = bytes(6)
    job_number: int = 0
    job_position: int = 0
    job_file_name: str = ""
    job_file_handle: int = 0
    servicing_server_station: int = 0
    servicing_server_task_number: int = 0
    servicing_server_id_number: int = 0
    next_record: int = 0  # of the new structure: number of the next job, 0 after the last

    @property
    def description(self) -> str:
        """The description as text, as far as it is printable."""
        text = self.job_description.split(b"\0", 1)[0].decode("ascii", "replace")
        return "".join(c if c.isprintable() and c.isascii() else "?" for c in text)


class QueueStatus(NamedTuple):
    """The status of a job queue, as NWReadQueueCurrentStatus returns it."""

    queue_id: int
    status: int
    jobs: int
    servers: tuple[tuple[int, int], ...]  # object ID and station of each that is attached


class JobList(NamedTuple):
    """NWGetQueueJobList: how many jobs there are, and numbers of some in queue order."""

    total: int
    numbers: tuple[int, ...]


class JobSize(NamedTuple):
    """The size of a job file, as NWGetQueueJobSize returns it."""

    queue_id: int
    job_number: int
    size: int


TARGET_YEARS: Final = range(1980, 2080)  # what two digits can express (2.5)


def pack_time(local_s: int) -> bytes:
    """Six bytes of a second on the server's own clock, the year with two digits (2.5)."""
    return _packed(datetime.fromtimestamp(local_s, UTC))


def pack_target_time(moment: datetime) -> bytes:
    """Six bytes of the time that a job waits for; refused outside of one century.

    Of 2080 two digits make 1980, and the job would not wait at all.
    """
    if moment.year not in TARGET_YEARS:
        raise InvalidParameter(
            f"a job cannot wait for the year {moment.year}",
            f"Give a time from {TARGET_YEARS[0]} to {TARGET_YEARS[-1]}.",
        )
    return _packed(moment)


def _packed(moment: datetime) -> bytes:
    clock = (moment.month, moment.day, moment.hour, moment.minute, moment.second)
    return bytes((moment.year % 100, *clock))


def unpack_time(packed: bytes) -> int | None:
    """The second on the server's own clock; None for "at once" and for what is not a date (2.5)."""
    if len(packed) != NWMAX_QUEUE_JOB_TIME_SIZE:
        return None
    year, month, day, hour, minute, second = packed
    if year >= 180:
        return None
    late = (hour, minute, second) == (24, 0, 0)
    try:
        moment = datetime(
            2000 + year if year < 80 else 1900 + year,
            month,
            day,
            0 if late else hour,
            minute,
            second,
            tzinfo=UTC,
        )
    except ValueError:
        return None
    return int((moment + timedelta(days=late)).timestamp())


def job_file_name(queue_id: int, number: int) -> str:
    """Q$, the last four digits of the queue's ID, and the job number with three digits or more.

    Choice: above 999, which no NetWare had, the extension has as many digits as it needs.
    """
    return f"{_stem(queue_id)}.{number:03d}"


def _stem(queue_id: int) -> str:
    return f"Q${queue_id & 0xFFFF:04X}"


def queue_directory(path: str, queue_id: int) -> str:
    """The directory of a queue below a path (Table 24; qms-facts 8.5)."""
    separator = "" if path.endswith((":", "\\", "/")) else "\\"
    return f"{path}{separator}{queue_id:08X}"
