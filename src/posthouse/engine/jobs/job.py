"""Job queues, jobs and stations: their stored values, and their state in memory.

A station has the jobs that it writes and services, and a job the stations that do so.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec

from posthouse.engine.jobs.file_content import JobFile
from posthouse.engine.ledger.records import Change
from posthouse.model.qms import (
    ANY_SERVER,
    AT_ONCE,
    CLIENT_RECORD_SIZE,
    NOT_READY,
    NWMAX_JOB_DESCRIPTION_LENGTH,
    SERVER_STATUS_SIZE,
    unpack_time,
)
from posthouse.security.accounts import Door

GAP = 1 << 20  # between the places of two jobs, so that others fit in between
KEY = struct.Struct(">cQ")


class JobEntry(msgspec.Struct, array_like=True):
    """What was asked for: changes when somebody changes the entry or moves the job."""

    queue_id: int
    number: int
    client_station: int
    client_task: int
    client_id: int
    entry_time: bytes
    entered: int  # UTC seconds
    target_server_id: int = ANY_SERVER
    target_execution_time: bytes = AT_ONCE
    job_type: int = 0
    description: bytes = bytes(NWMAX_JOB_DESCRIPTION_LENGTH)
    record: bytes = bytes(CLIENT_RECORD_SIZE)
    finished_queue: str = ""  # gets a message when the job ends
    correlation: bytes = b""  # identifier of the message that submitted it: GUID, ordinal
    from_elsewhere: bool = False  # that message came from another machine
    failure: str = ""  # why its last service came to nothing


class JobState(NamedTuple):
    """How a job stands: changes often, and is small."""

    place: int  # jobs of a queue are in the order of their places
    flags: int
    server_station: int = 0
    server_task: int = 0
    server_id: int = 0  # 0: no server services it
    begun: int = 0  # UTC seconds of the last service
    attempts: int = 0  # how often a server had it


_STATE = struct.Struct("<qBIIIIH")


def pack_state(state: JobState) -> bytes:
    """The bytes of a record."""
    return _STATE.pack(*state)


def unpack_state(data: bytes) -> JobState:
    """The state that a record holds."""
    return JobState(*_STATE.unpack(data))


encode = msgspec.msgpack.Encoder().encode
decode_entry = msgspec.msgpack.Decoder(JobEntry).decode


class JobProgress(NamedTuple):
    """How far a server has come with a job, in its own words."""

    done: int = 0
    total: int = 0  # 0: unknown
    text: str = ""


class JobDetails(NamedTuple):
    """What is known of a job beside its structure."""

    serial: int  # never given to another job
    size: int
    entered: int  # UTC seconds
    begun: int  # of the last service; 0: none yet
    attempts: int
    finished_queue: str
    progress: JobProgress


class Job:
    """A job; `serial` is never given to another one."""

    __slots__ = (
        "due",
        "entry",
        "file",
        "over",
        "progress",
        "serial",
        "server",
        "state",
        "submitter",
    )

    def __init__(self, serial: int, entry: JobEntry, state: JobState, file: JobFile) -> None:
        self.serial = serial
        self.entry = entry
        self.state = state
        self.file = file
        self.submitter: Station | None = None  # while it is open
        self.server: Station | None = None  # while it is serviced
        self.over: Callable[[Change], None] | None = None  # told when the service ends
        self.progress = JobProgress()  # as its server last told
        self.due: int | None = None  # second on the server's clock from which it may be serviced
        self.set_due()

    def end_service(self, change: Change) -> None:
        """The server no longer acts for the client, in the step that ends it."""
        over, self.over = self.over, None
        if over is not None:
            over(change)

    def set_due(self) -> None:
        """The target execution time has changed."""
        self.due = unpack_time(self.entry.target_execution_time)

    @property
    def is_ready(self) -> bool:
        """Whether it may be serviced, by its flags."""
        return not self.state.flags & NOT_READY and not self.state.server_id


class Attachment:
    """A queue server at a queue."""

    __slots__ = ("record", "server_id", "station")

    def __init__(self, station: Station, server_id: int) -> None:
        self.station = station
        self.server_id = server_id
        self.record = bytes(SERVER_STATUS_SIZE)


class JobQueueDefinition(msgspec.Struct, array_like=True):
    """A job queue as it is kept, beside its object in the bindery."""

    status: int = 0
    submit_from: str = ""  # a message queue: each message in it submits a job
    finished_queue: str = ""  # a message queue: told of every job that ends
    submit_flags: int = 0  # of jobs that messages submit


decode_definition = msgspec.msgpack.Decoder(JobQueueDefinition).decode

_Lane = tuple[int | None, int]  # job type or None for all of them, target server
_TIMED: _Lane = (None, 0)  # stands for the heap of those whose time has not come


class JobQueue:
    """A job queue with its jobs in order.

    Ready jobs are found through lanes: one for each type and target server, and one for each
    target server over all types. Jobs whose time has not come wait in a heap.
    """

    __slots__ = (
        "_by_place",
        "_lane_of",
        "_lanes",
        "_places",
        "_timed",
        "attached",
        "by_number",
        "definition",
        "id",
        "last_number",
    )

    def __init__(self, queue_id: int, definition: JobQueueDefinition) -> None:
        self.id = queue_id
        self.definition = definition
        self.last_number = 0
        self.by_number: dict[int, Job] = {}
        self.attached: dict[int, Attachment] = {}  # by the number of the station
        self._places: list[int] = []
        self._by_place: dict[int, Job] = {}
        self._lanes: dict[_Lane, list[int]] = {}
        self._lane_of: dict[int, tuple[_Lane, int]] = {}  # serial: where it is, its place
        self._timed: list[tuple[int, int]] = []  # due, serial; what is no longer in it is told

    def __len__(self) -> int:
        return len(self._places)

    # -- order

    def jobs(self, start: int = 0, count: int | None = None) -> list[Job]:
        """Jobs in queue order, from a position that counts from 0."""
        end = None if count is None else start + count
        return [self._by_place[place] for place in self._places[start:end]]

    def position(self, job: Job) -> int:
        """Where it stands; the head is 1."""
        return bisect_left(self._places, job.state.place) + 1

    def next_number(self, job: Job) -> int:
        """The number of the job after this one, 0 after the last."""
        at = self.position(job)
        return self._by_place[self._places[at]].entry.number if at < len(self._places) else 0

    def tail_place(self) -> int:
        """A place after all others."""
        return self._places[-1] + GAP if self._places else 0

    def place_at(self, job: Job, position: int) -> int | None:
        """A place at which the job would have this position; None: there is no gap left."""
        places = self._places
        here = self.position(job) - 1
        to = min(max(position, 1), len(places)) - 1
        if to == here:
            return job.state.place
        before, after = (to, to + 1) if to > here else (to - 1, to)
        if before < 0:
            return places[0] - GAP
        if after >= len(places):
            return places[-1] + GAP
        middle = (places[before] + places[after]) // 2
        return middle if places[before] < middle else None

    def respaced(self, around: int) -> list[tuple[Job, int]]:
        """New places for as few jobs around a position as make gaps again, in their order."""
        places, width = self._places, 16
        while True:
            low, high = max(around - width, 0), min(around + width, len(places))
            before = places[low - 1] if low else places[0] - (high + 1) * GAP
            behind = places[high] if high < len(places) else places[-1] + (high + 1) * GAP
            step = (behind - before) // (high - low + 1)
            if step >= GAP >> 10 or high - low == len(places):
                break
            width *= 2
        return [
            (self._by_place[place], before + (at + 1) * step)
            for at, place in enumerate(places[low:high])
        ]

    # -- coming, changing, going

    def add(self, job: Job) -> None:
        """One more job."""
        self.by_number[job.entry.number] = job
        self.put(job)

    def discard(self, job: Job) -> None:
        """It is here no more."""
        del self.by_number[job.entry.number]
        self.take(job)

    def put(self, job: Job) -> None:
        """Into the order, and where servers find it."""
        place = job.state.place
        insort(self._places, place)
        self._by_place[place] = job
        self.offer(job)

    def take(self, job: Job) -> None:
        """Out of the order, to be put elsewhere or forgotten."""
        self.withdraw(job)
        place = job.state.place
        del self._places[bisect_left(self._places, place)], self._by_place[place]

    def offer(self, job: Job) -> None:
        """Servers may find it, if it is ready; from its time on, if it has one."""
        if not job.is_ready:
            return
        if job.due is not None:
            self._lane_of[job.serial] = (_TIMED, job.due)
            heappush(self._timed, (job.due, job.serial))
            self._tidy_timed()
        else:
            self._enlist(job)

    def _tidy_timed(self) -> None:
        """Jobs come and go without leaving the heap; now and then it is made again."""
        if len(self._timed) > 2 * len(self._lane_of) + 64:
            waiting = self._lane_of.items()
            self._timed = sorted((due, serial) for serial, (lane, due) in waiting if lane == _TIMED)

    def _enlist(self, job: Job) -> None:
        lane, place = (job.entry.job_type, job.entry.target_server_id), job.state.place
        self._lane_of[job.serial] = (lane, place)
        insort(self._lanes.setdefault(lane, []), place)
        insort(self._lanes.setdefault((None, lane[1]), []), place)

    def withdraw(self, job: Job) -> None:
        """Servers no longer find it."""
        found = self._lane_of.pop(job.serial, None)
        if found is None or found[0] == _TIMED:  # of the heap it is gone by not being listed
            return
        lane, place = found
        for one in (lane, (None, lane[1])):
            places = self._lanes[one]
            del places[bisect_left(places, place)]
            if not places:
                del self._lanes[one]

    # -- servicing

    def promote(self, now: int, by_serial: dict[int, Job]) -> None:
        """Jobs whose time has come by the server's clock are as ready as the others."""
        while self._timed and self._timed[0][0] <= now:
            due, serial = heappop(self._timed)
            if self._lane_of.get(serial) == (_TIMED, due):
                self._enlist(by_serial[serial])

    def find(self, server_id: int, types: frozenset[int] | None) -> Job | None:
        """The first ready job for this server, of one of these types."""
        wanted: Iterator[_Lane] = (
            (kind, target)
            for kind in (types if types is not None else (None,))
            for target in (ANY_SERVER, server_id)
        )
        heads = [lane[0] for lane in map(self._lanes.get, wanted) if lane]
        return self._by_place[min(heads)] if heads else None


class FileHandle:
    """An open job file of one station."""

    __slots__ = ("job", "number", "readable", "station")

    def __init__(self, number: int, station: Station, job: Job, readable: bool) -> None:
        self.number = number
        self.station = station
        self.job = job
        self.readable = readable


class Station:
    """One connection."""

    __slots__ = (
        "address",
        "attached",
        "client_of",
        "door",
        "ended",
        "handles",
        "handles_to",
        "label",
        "lapses_ms",
        "lease_ms",
        "logged_in_utc",
        "login_key",
        "number",
        "object_id",
        "owner",
        "servicing",
        "task",
        "writing",
    )

    def __init__(self, number: int, label: str, address: str) -> None:
        self.number = number
        self.label = label  # of the door, for people
        self.address = address  # where it comes from: wrong passwords count there
        self.task = 0  # of the request that is under way
        self.object_id = 0  # the object that has logged in; 0: none
        self.logged_in_utc = 0
        self.door: Door | None = None  # by which password; None: a door that had proved it before
        self.login_key = b""  # the eight bytes that the next keyed login answers to
        self.client_of: Job | None = None  # as whose client it acts, NWChangeToClientRights
        self.attached: dict[int, Attachment] = {}  # by the ID of the queue
        self.writing: dict[int, Job] = {}  # created here and not released yet
        self.servicing: dict[int, Job] = {}
        self.handles: dict[int, FileHandle] = {}
        self.handles_to: dict[Job, dict[int, None]] = {}  # their numbers, by the job of the file
        self.owner: object = None  # the session that it ends with
        self.lease_ms = 0  # it ends this long after its last use; 0: with its connection only
        self.lapses_ms = 0
        self.ended = False

    def __repr__(self) -> str:
        return f"<Station {self.number} {self.label} object {self.object_id:08X}>"


class EndedJob(msgspec.Struct, array_like=True):
    """A job that has ended."""

    serial: int
    queue_id: int
    queue: str
    number: int
    outcome: str
    client_id: int
    client: str
    job_type: int
    description: str
    size: int
    entered: int  # UTC seconds
    begun: int  # 0: no server ever had it
    ended: int
    attempts: int
    server_id: int = 0
    server: str = ""
    charge: int = 0
    result: str = ""
    order: int = 0  # of the ends, which several of one second have too
