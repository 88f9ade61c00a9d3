"""Job queues, jobs and the bindery as objects, over any connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from posthouse.client.netware_door import Door
from posthouse.model.bindery import (
    ACCOUNT_BALANCE,
    ACCOUNT_SERVERS,
    EVERYONE,
    NWOT_ARCHIVE_QUEUE,
    NWOT_ARCHIVE_SERVER,
    NWOT_FILE_SERVER,
    NWOT_JOB_QUEUE,
    NWOT_JOB_SERVER,
    NWOT_PRINT_QUEUE,
    NWOT_PRINT_SERVER,
    NWOT_USER,
    NWOT_USER_GROUP,
    NWOT_WILD,
    Q_OPERATORS,
    Q_SERVERS,
    Q_USERS,
    parse_type,
    type_name,
)
from posthouse.model.completion_codes import NO_Q_JOB, NO_QUEUE, NO_SUCH_OBJECT, NO_SUCH_PROPERTY
from posthouse.model.errors import InvalidParameter, QmsError
from posthouse.model.qms import (
    ANY_SERVER,
    AT_ONCE,
    NWCF_OPERATOR_HOLD,
    NWCF_SERVICE_AUTO_START,
    NWCF_SERVICE_RESTART,
    NWCF_USER_HOLD,
    JobList,
    NWQueueJobStruct,
    QueueStatus,
    pack_target_time,
)
from posthouse.qms.bindery import Bindery

PATH: Final = "SYS:SYSTEM"
PIECE: Final = 1 << 16
ACCOUNT_SECURITY: Final = 0x32  # the object itself reads, supervisors write
SERVER_TYPES: Final = {
    NWOT_PRINT_QUEUE: NWOT_PRINT_SERVER,
    NWOT_ARCHIVE_QUEUE: NWOT_ARCHIVE_SERVER,
    NWOT_JOB_QUEUE: NWOT_JOB_SERVER,
}
"""Which kind of server services which kind of queue, by the document."""
_NOWHERE: Final = frozenset({NO_SUCH_OBJECT, NO_SUCH_PROPERTY})

Member = str | tuple[str, int | str]
"""An object: the name of a user, or name and type."""


def number_of(type: int | str) -> int:
    """A type by number or word."""
    return type if isinstance(type, int) else parse_type(type)


def member_of(member: Member) -> tuple[str, int]:
    """Name and type of a member; EVERYONE is a group."""
    if isinstance(member, tuple):
        return member[0], number_of(member[1])
    word, colon, name = member.partition(":")
    if colon:
        return name, parse_type(word)
    return member, NWOT_USER_GROUP if member.upper() == EVERYONE else NWOT_USER


def time_bytes(moment: datetime | None) -> bytes:
    """A moment of the server's own clock in six bytes; None is "at once"."""
    return AT_ONCE if moment is None else pack_target_time(moment)


class FileServer:
    """A station on a file server: whom it is logged in as, its bindery, its job queues."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.bindery = Bindery(door)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """The station ends; jobs that are open or in service are treated by their flags."""
        self.door.close()

    def login(self, name: str, password: str = "", type: int | str = NWOT_USER) -> None:
        """The station is this object from now on."""
        self.door.login(name, number_of(type), password)

    def logout(self) -> None:
        """The station has no login."""
        self.door.logout()

    def create_queue(
        self,
        name: str,
        type: int | str = NWOT_JOB_QUEUE,
        path: str = PATH,
        *,
        users: Sequence[Member] = (),
        operators: Sequence[Member] = (),
        servers: Sequence[Member] = (),
    ) -> JobQueue:
        """A new queue, and who is in its sets; at first they are empty."""
        number = number_of(type)
        queue = JobQueue(self.door, self.door.create_queue(name, number, path), name, number)
        for property, members in (
            (Q_USERS, users),
            (Q_OPERATORS, operators),
            (Q_SERVERS, servers),
        ):
            for member in members:
                queue.add(property, member)
        return queue

    def queue(self, name: str, type: int | str | None = None) -> JobQueue:
        """A queue by its name; of several types a job queue comes before the others."""
        kinds = (
            (NWOT_JOB_QUEUE, NWOT_PRINT_QUEUE, NWOT_ARCHIVE_QUEUE)
            if type is None
            else (number_of(type),)
        )
        for kind in kinds:
            try:
                return JobQueue(self.door, self.door.get_object_id(name, kind), name.upper(), kind)
            except QmsError as error:
                if error.completion != NO_SUCH_OBJECT:
                    raise
        for found in self.queues() if type is None else ():
            if found.name == name.upper():
                return found
        raise QmsError(NO_QUEUE, f"there is no queue {name}")

    def queues(self, type: int | str = NWOT_WILD) -> list[JobQueue]:
        """All queues: objects that have the set Q_OPERATORS."""
        return [
            JobQueue(self.door, one.id, one.name, one.type)
            for one in self.bindery.objects(type)
            if one.has_properties and self._is_queue(one.name, one.type)
        ]

    def _is_queue(self, name: str, type: int) -> bool:
        """Everybody sees that Q_OPERATORS is there; Q_DIRECTORY is the supervisors' to see."""
        try:
            self.door.scan_property(name, type, Q_OPERATORS, 0xFFFFFFFF)
        except QmsError as error:
            if error.completion in _NOWHERE:
                return False
            raise
        return True

    def create_server(
        self,
        name: str,
        password: str | None = None,
        type: int | str = NWOT_JOB_SERVER,
        queues: Sequence[JobQueue] = (),
    ) -> int:
        """A queue server as an object of the bindery, in Q_SERVERS of some queues.

        Where the file server keeps accounts, it gets one with a balance of 0.
        """
        kind = number_of(type)
        self.door.create_object(name, kind, 0, 0x31)
        if password is not None:
            self.door.change_object_password(name, kind, "", password)
        if self._keeps_accounts():
            self.bindery.create_item(name, kind, ACCOUNT_BALANCE, bytes(8), ACCOUNT_SECURITY)
        for queue in queues:
            queue.add(Q_SERVERS, (name, kind))
        return self.door.get_object_id(name, kind)

    def _keeps_accounts(self) -> bool:
        """Whether the file server has ACCOUNT_SERVERS (QMS, Creating Queue Servers, step 5)."""
        servers = self.bindery.objects(NWOT_FILE_SERVER)
        return any(
            any(self.bindery.properties(one.name, NWOT_FILE_SERVER, ACCOUNT_SERVERS))
            for one in servers
        )


class JobQueue:
    """A job queue."""

    def __init__(self, door: Door, id: int, name: str, type: int) -> None:
        self.door = door
        self.id = id
        self.name = name.upper()
        self.type = type

    def __repr__(self) -> str:
        return f"JobQueue({self.name!r}, {type_name(self.type)!r}, id={self.id:08X})"

    # -- the queue

    def add(self, property: str, member: Member) -> None:
        """Puts somebody into Q_USERS, Q_OPERATORS, Q_SERVERS or a set of one's own."""
        self.door.add_object_to_set(self.name, self.type, property, *member_of(member))

    def remove(self, property: str, member: Member) -> None:
        """Takes somebody out again."""
        self.door.delete_object_from_set(self.name, self.type, property, *member_of(member))

    def status(self) -> QueueStatus:
        """Flags, number of jobs, attached servers."""
        return self.door.read_queue_current_status(self.id)

    def set_status(self, status: int) -> None:
        """Sets the flags (QS_*)."""
        self.door.set_queue_current_status(self.id, status)

    def destroy(self) -> None:
        """Deletes the queue and all that is in it."""
        self.door.destroy_queue(self.id)

    # -- submitting

    def create(
        self,
        description: str = "",
        *,
        type: int = 0,
        server: int = ANY_SERVER,
        at: datetime | None = None,
        auto_start: bool = False,
        restart: bool = False,
        hold: bool = False,
        record: bytes = b"",
    ) -> OpenJob:
        """A job that is open: write its file, then start it. As a `with` it starts at the end.

        `at` is a time of the server's own clock.
        """
        flags = NWCF_SERVICE_AUTO_START if auto_start else 0
        flags |= NWCF_SERVICE_RESTART if restart else 0
        flags |= NWCF_USER_HOLD if hold else 0
        wanted = NWQueueJobStruct(
            target_server_id=server,
            target_execution_time=time_bytes(at),
            job_type=type,
            job_control_flags=flags,
            job_description=description.encode("ascii", "replace"),
            queue_record=record,
        )
        return OpenJob(self, self.door.create_queue_file(self.id, wanted))

    def submit(
        self,
        data: bytes,
        description: str = "",
        *,
        type: int = 0,
        server: int = ANY_SERVER,
        at: datetime | None = None,
        auto_start: bool = False,
        restart: bool = False,
        hold: bool = False,
        record: bytes = b"",
    ) -> Job:
        """A job with its file, started."""
        with self.create(
            description,
            type=type,
            server=server,
            at=at,
            auto_start=auto_start,
            restart=restart,
            hold=hold,
            record=record,
        ) as job:
            job.write(data)
        return Job(self, job.number)

    # -- looking

    def numbers(self) -> list[int]:
        """The numbers of all jobs, in queue order."""
        found: list[int] = []
        while True:
            portion: JobList = self.door.get_queue_job_list(self.id, len(found) + 1)
            found += portion.numbers
            if not portion.numbers or len(found) >= portion.total:
                return found

    def job(self, number: int) -> Job:
        """A job by its number; whether it is there is seen when it is used."""
        return Job(self, number)

    def __iter__(self) -> Iterator[Job]:
        return (Job(self, number) for number in self.numbers())

    # -- servicing

    def attach(self) -> Attachment:
        """This station as a server of the queue; detached at the end of a `with`."""
        self.door.attach_queue_server_to_queue(self.id)
        return Attachment(self)


_CHANGED: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "description": ("job_description", lambda text: text.encode("ascii", "replace")),
    "at": ("target_execution_time", lambda moment: time_bytes(moment)),
    "type": ("job_type", int),
    "server": ("target_server_id", int),
    "record": ("queue_record", bytes),
}


class Job:
    """A job in a queue."""

    def __init__(self, queue: JobQueue, number: int) -> None:
        self.queue = queue
        self.number = number

    def __repr__(self) -> str:
        return f"Job({self.queue.name!r}, {self.number})"

    @property
    def _place(self) -> tuple[int, int]:
        return self.queue.id, self.number

    def entry(self) -> NWQueueJobStruct:
        """All that is known of it."""
        return self.queue.door.read_queue_job_entry(*self._place)

    def size(self) -> int:
        """The length of its file."""
        return self.queue.door.get_queue_job_size(*self._place)

    def change(self, **fields: Any) -> None:
        """Changes `description`, `type`, `server`, `at`, `record` as `create` takes them.

        Fields of the structure have their names there, too: `job_control_flags`, ...
        """
        named = dict[str, Any]()
        for given, value in fields.items():
            name, converted = _CHANGED.get(given, (given, lambda value: value))
            named[name] = converted(value)
        if unknown := named.keys() - set(NWQueueJobStruct._fields):
            known = ", ".join((*_CHANGED, *NWQueueJobStruct._fields))
            raise InvalidParameter(f"a job has no {min(unknown)}", f"It has {known}.")
        changed = self.entry()._replace(**named)
        self.queue.door.change_queue_job_entry(self.queue.id, changed)

    def hold(self, *, operator: bool = False) -> None:
        """It advances, and is not serviced."""
        self._set(NWCF_OPERATOR_HOLD if operator else NWCF_USER_HOLD, True)

    def release(self, *, operator: bool = False) -> None:
        """The hold is over."""
        self._set(NWCF_OPERATOR_HOLD if operator else NWCF_USER_HOLD, False)

    def _set(self, flag: int, on: bool) -> None:
        entry = self.entry()
        flags = entry.job_control_flags | flag if on else entry.job_control_flags & ~flag
        changed = entry._replace(job_control_flags=flags)
        self.queue.door.change_queue_job_entry(self.queue.id, changed)

    def move(self, position: int) -> None:
        """To another place in its queue."""
        self.queue.door.change_queue_job_position(*self._place, position)

    def move_to(self, queue: JobQueue) -> Job:
        """Into another queue, where it has another number."""
        number = self.queue.door.move_queue_job(*self._place, queue.id)
        return Job(queue, number)

    def remove(self) -> None:
        """Deletes it with its file."""
        self.queue.door.remove_job_from_queue(*self._place)


class OpenJob(Job):
    """A job whose submitter still writes it."""

    def __init__(self, queue: JobQueue, made: NWQueueJobStruct) -> None:
        super().__init__(queue, made.job_number)
        self.made = made
        self._at = 0

    def write(self, data: bytes) -> None:
        """Adds to its file."""
        self.queue.door.write_file(self.made.job_file_handle, self._at, data)
        self._at += len(data)

    def start(self) -> Job:
        """The file is whole: the job is ready to be serviced."""
        self.queue.door.close_file_and_start_queue_job(*self._place)
        return Job(self.queue, self.number)

    def abort(self) -> None:
        """Nothing of it remains."""
        self.queue.door.close_file(self.made.job_file_handle)
        self.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.start()
        elif isinstance(error, Exception) and not isinstance(error, ConnectionError):
            self.abort()


class Attachment:
    """A station that services a queue."""

    def __init__(self, queue: JobQueue) -> None:
        self.queue = queue

    def service(self, *types: int) -> ServicedJob | None:
        """The next job of these types, of any if none is named; None if there is none now."""
        try:
            taken = self.queue.door.service_queue_job(self.queue.id, types)
        except QmsError as error:
            if error.completion == NO_Q_JOB:
                return None
            raise
        return ServicedJob(self.queue, taken)

    def set_status(self, record: bytes) -> None:
        """Up to 64 bytes about this server."""
        self.queue.door.set_queue_server_current_status(self.queue.id, record)

    def detach(self) -> None:
        """Jobs that are still in service are aborted."""
        self.queue.door.detach_queue_server_from_queue(self.queue.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, ConnectionError):
            self.detach()


class ServicedJob(Job):
    """A job that this station services."""

    def __init__(self, queue: JobQueue, taken: NWQueueJobStruct) -> None:
        super().__init__(queue, taken.job_number)
        self.taken = taken

    def chunks(self, size: int = PIECE) -> Iterator[bytes]:
        """Its file, piece by piece."""
        at = 0
        while piece := self.queue.door.read_file(self.taken.job_file_handle, at, size):
            yield piece
            at += len(piece)

    def read(self) -> bytes:
        """Its whole file."""
        return b"".join(self.chunks())

    def finish(self, charge: int = 0) -> None:
        """It is done, and gone."""
        self.queue.door.finish_servicing_queue_job(*self._place, charge)

    def abort(self) -> None:
        """It is not done: its restart flag states whether it stays."""
        self.queue.door.abort_servicing_queue_job(*self._place)

    def as_client(self) -> ClientRights:
        """The rights of the job's client, for the length of a `with`."""
        return ClientRights(self)


class ClientRights:
    """NWChangeToClientRights, and back."""

    def __init__(self, job: ServicedJob) -> None:
        self._job = job

    def __enter__(self) -> ServicedJob:
        self._job.queue.door.change_to_client_rights(self._job.queue.id, self._job.number)
        return self._job

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, ConnectionError):
            self._job.queue.door.restore_queue_server_rights()
