"""Job queues: one method for each call of the document (NetWare QMS; qms-facts 3, 5, 7).

A queue is an object of the bindery and a record beside it. Towards clients it has a directory with
files named after it; here everything is records of the log, and no name is on the disk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from posthouse.engine.jobs.bindery.calls import Bindery
from posthouse.engine.jobs.bindery.objects import BinderyObject, StoredObject
from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.jobs.file_content import JobFile
from posthouse.engine.jobs.files import PAGE_KEY
from posthouse.engine.jobs.history import DESTROYED
from posthouse.engine.jobs.job import (
    KEY,
    EndedJob,
    Job,
    JobQueue,
    JobQueueDefinition,
    decode_definition,
    decode_entry,
    unpack_state,
)
from posthouse.engine.jobs.message_bridge import JobBridge
from posthouse.engine.jobs.service import JobService
from posthouse.engine.jobs.shared import DEFINITION, ENTRY, NUMBER, PAGE, STATE, queue_key
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import (
    Accepting,
    ClaimedMessages,
    Endings,
    MachineTargets,
    OpenedQueues,
    PacketReads,
)
from posthouse.engine.ledger.records import TABLE_JOB, TABLE_JOB_QUEUE, Change
from posthouse.engine.messages.admission import Admission
from posthouse.engine.queues.collection import Queues
from posthouse.model.bindery import (
    ITEM,
    NWBS_ANY_READ,
    NWBS_SUPER_READ,
    NWBS_SUPER_WRITE,
    NWOT_FILE_SERVER,
    NWOT_USER,
    NWOT_USER_GROUP,
    OBJECT_TYPE_MAX,
    Q_CODE_USERS,
    Q_DIRECTORY,
    Q_OPERATORS,
    Q_SERVERS,
    Q_USERS,
    SEGMENT_SIZE,
    SET,
    object_name,
)
from posthouse.model.completion_codes import (
    BAD_DIRECTORY_HANDLE,
    INVALID_PATH,
    NO_Q_RIGHTS,
    OBJECT_EXISTS,
    SERVER_OUT_OF_MEMORY,
    WILD_CARD_NOT_ALLOWED,
)
from posthouse.model.errors import QmsError
from posthouse.model.names import parse_name
from posthouse.model.qms import (
    FLAGS_OF_CLIENTS,
    NWCF_ENTRY_OPEN,
    QS_ALL,
    QUEUE_PATH_MAX,
    QueueStatus,
    queue_directory,
)

SECURITY_OF_QUEUES = NWBS_ANY_READ | NWBS_SUPER_WRITE
_U32 = struct.Struct(">I")
_NO_QUEUE_TYPES = frozenset({NWOT_USER, NWOT_USER_GROUP, NWOT_FILE_SERVER})


class QueueSummary(NamedTuple):
    """A job queue for lists of them."""

    id: int
    type: int
    name: str
    status: int
    jobs: int
    servers: int
    submit_from: str
    finished_queue: str
    submit_flags: int


class JobQueues(JobService):
    """All job queues of this queue manager."""

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        targets: MachineTargets,
        admission: Admission,
        reading: PacketReads,
        outcomes: Endings,
        groups: ClaimedMessages,
        opening: OpenedQueues,
        sending: Accepting,
        bindery: Bindery,
    ) -> None:
        super().__init__(core, bindery, admission, reading, opening)
        self.bridge = JobBridge(self, registry, targets, reading, outcomes, groups, sending)
        self.tell_end = self.bridge.tell_end
        self.stations.clean_up = self.clean_up
        bindery.destroyed = self._destroyed  # type: ignore[method-assign]

    # -- start

    def load(self) -> None:
        """Everything the store kept. All connections are lost by then (qms-facts 7.3)."""
        for key, value in self.core.state.of_table(TABLE_JOB_QUEUE):
            kind, queue_id = key[:1], _U32.unpack(key[1:])[0]
            if kind == DEFINITION and queue_id in self.bindery.objects.by_id:
                self.queues[queue_id] = JobQueue(queue_id, decode_definition(value))
        for key, value in self.core.state.of_table(TABLE_JOB_QUEUE):
            queue = self.queues.get(_U32.unpack(key[1:])[0])
            if key[:1] == NUMBER and queue is not None:
                queue.last_number = _U32.unpack(value)[0]
        self.history.load()
        self._load_jobs()
        change = Change()
        for job in list(self.jobs.values()):
            self._connection_lost(job, change)
        self.core.effects.commit(change)
        self.bridge.load()

    def _load_jobs(self) -> None:
        entries: dict[int, bytes] = {}
        states: dict[int, bytes] = {}
        pages: dict[int, dict[int, bytes]] = {}
        for key, value in self.core.state.of_table(TABLE_JOB):
            if key[:1] == PAGE:
                _, serial, page = PAGE_KEY.unpack(key)
                pages.setdefault(serial, {})[page] = value
            else:
                kind, serial = KEY.unpack(key)
                {ENTRY: entries, STATE: states}[kind][serial] = value
        for serial, value in sorted(entries.items()):
            entry = decode_entry(value)
            if entry.queue_id in self.queues and serial in states:
                file = JobFile()
                self.files.load(file, pages.get(serial, {}))
                job = self.jobs[serial] = Job(serial, entry, unpack_state(states[serial]), file)
                self.queues[entry.queue_id].add(job)

    def _connection_lost(self, job: Job, change: Change) -> None:
        if job.state.flags & NWCF_ENTRY_OPEN:
            self.submitter_lost(job, change)
        elif job.state.server_id:
            self.service_lost(job, change, "the queue manager was started again")

    # -- connections

    def clean_up(self, station: Station, change: Change) -> None:
        """A connection, or who was logged in on it, is gone (qms-facts 7.3)."""
        for job in list(station.writing.values()):
            self.submitter_lost(job, change)
        for job in list(station.servicing.values()):
            self.service_lost(job, change, "its server was lost")
        for queue_id in list(station.attached):
            self.detach(station, self.queues[queue_id], change)
        station.client_of = None
        station.handles.clear()
        station.handles_to.clear()

    # -- queues

    def create_queue(
        self, station: Station, kind: int, name: str, path: str, directory_handle: int = 0
    ) -> int:
        """NWCreateQueue (0x64): object, directory and properties in one step; supervisors only."""
        name = object_name(name)
        self.require(self.bindery.is_supervisor(station), station, f"create the queue {name}")
        self._check_new(kind, name, path, directory_handle)
        objects, change = self.bindery.objects, Change()
        stored = StoredObject(kind, name, 0, SECURITY_OF_QUEUES, self.core.utc)
        one = objects.create(objects.new_id(), stored, change)
        self._create_properties(one, path, change)
        queue = self.queues[one.id] = JobQueue(one.id, JobQueueDefinition())
        self.store_queue(queue, change)
        self.core.commit(change)
        return one.id

    def _check_new(self, kind: int, name: str, path: str, directory_handle: int) -> None:
        if not 0 <= kind <= OBJECT_TYPE_MAX or kind in _NO_QUEUE_TYPES:
            raise QmsError(WILD_CARD_NOT_ALLOWED, f"{kind} is not a type for a queue")
        if directory_handle:
            raise QmsError(BAD_DIRECTORY_HANDLE, f"there is no directory handle {directory_handle}")
        if not 0 < len(path) <= QUEUE_PATH_MAX or not (path.isascii() and path.isprintable()):
            raise QmsError(INVALID_PATH, f"a path has 1 to {QUEUE_PATH_MAX} printable characters")
        if self.bindery.objects.find(kind, name) is not None:
            raise QmsError(OBJECT_EXISTS, f"there is an object {name} of type {kind}")
        self.bindery.check_room()
        if len(self.queues) >= self.core.settings.qms.queues_max:
            raise QmsError(SERVER_OUT_OF_MEMORY, "the limit of job queues is reached")

    def _create_properties(self, one: BinderyObject, path: str, change: Change) -> None:
        objects, hidden = self.bindery.objects, NWBS_SUPER_READ | NWBS_SUPER_WRITE
        directory = objects.create_property(one, Q_DIRECTORY, ITEM, hidden, change)
        value = queue_directory(path, one.id).encode("ascii").ljust(SEGMENT_SIZE, b"\0")
        directory.stored.segments = [value]
        objects.store_property(one, directory, change)
        for name in (Q_SERVERS, Q_OPERATORS, Q_USERS, Q_CODE_USERS):
            objects.create_property(one, name, SET, SECURITY_OF_QUEUES, change)

    def destroy_queue(self, station: Station, queue_id: int) -> None:
        """NWDestroyQueue (0x65): everything of it is gone."""
        queue = self.queue(queue_id)
        name = self.queue_name(queue_id)
        self.require(self.bindery.is_supervisor(station), station, f"destroy the queue {name}")
        change, one = Change(), self.bindery.objects.by_id[queue.id]
        self._destroyed(one, change)
        self.bindery.objects.delete(one, change)
        self.core.commit(change)

    def _destroyed(self, one: BinderyObject, change: Change) -> None:
        """An object goes; if it is a queue, its jobs and servers go with it."""
        queue = self.queues.get(one.id)
        if queue is None:
            return
        for job in queue.jobs():
            self.end_job(job, DESTROYED, change)
        for attachment in list(queue.attached.values()):
            self.detach(attachment.station, queue, change)
        self.bridge.unbind(queue)
        del self.queues[one.id]
        for kind in (DEFINITION, NUMBER):
            self.core.define(TABLE_JOB_QUEUE, queue_key(kind, one.id), None, change)

    # -- status

    def read_queue_current_status(self, station: Station, queue_id: int) -> QueueStatus:
        """NWReadQueueCurrentStatus (0x66, 0x7D)."""
        queue = self.queue(queue_id)
        self.check_view(station, queue)
        servers = [(a.server_id, number) for number, a in sorted(queue.attached.items())]
        return QueueStatus(queue_id, queue.definition.status, len(queue), tuple(servers))

    def set_queue_current_status(self, station: Station, queue_id: int, status: int) -> None:
        """NWSetQueueCurrentStatus (0x67, 0x7E): operators only; bits that mean nothing are lost."""
        queue = self.may_set_status(station, queue_id)
        change = Change()
        queue.definition.status = status & QS_ALL
        self.store_queue(queue, change)
        self.core.commit(change)
        self.bridge.look(queue)

    def may_set_status(self, station: Station, queue_id: int) -> JobQueue:
        """The queue, if a station may set its status."""
        queue, name = self.queue(queue_id), self.queue_name(queue_id)
        self.require(self.is_operator(station, queue), station, f"set the status of {name}")
        return queue

    # -- beyond the document

    def list_queues(self, station: Station) -> list[QueueSummary]:
        """The queues that a station may see in the bindery; counts for those it may look into."""
        found: list[QueueSummary] = []
        for queue_id, queue in sorted(self.queues.items()):
            one = self.bindery.objects.by_id[queue_id]
            if not self.bindery.may_read(station, one, one.stored.security):
                continue
            definition, inside = queue.definition, self._may_look_into(station, queue)
            found.append(
                QueueSummary(
                    queue_id,
                    one.type,
                    one.name,
                    definition.status if inside else 0,
                    len(queue) if inside else 0,
                    len(queue.attached) if inside else 0,
                    definition.submit_from if inside else "",
                    definition.finished_queue if inside else "",
                    definition.submit_flags if inside else 0,
                )
            )
        return found

    def sizes(self) -> Iterator[tuple[str, int, int]]:
        """Of each queue: its name, its jobs, the servers that are attached to it."""
        for queue_id, queue in sorted(self.queues.items()):
            yield self.queue_name(queue_id), len(queue), len(queue.attached)

    def _may_look_into(self, station: Station, queue: JobQueue) -> bool:
        if self.bindery.is_supervisor(station):
            return True
        try:
            self.check_view(station, queue)
        except QmsError:
            return False
        return True

    def ended_jobs_in_sight(self, station: Station, after: int, count: int) -> list[EndedJob]:
        """What became of the jobs of the queues that a station may look into, as `ended_jobs`."""
        seen = {id for id, queue in self.queues.items() if self._may_look_into(station, queue)}
        rows = self.history.rows(None, after)
        return [row for row in rows if row.queue_id in seen][:count]

    def find_queue(self, name: str, kind: int | None = None) -> int:
        """The ID of a queue by its name; of several of the same name by its type."""
        wanted = object_name(name)
        objects = self.bindery.objects.by_id
        for queue_id in sorted(self.queues):
            one = objects[queue_id]
            if one.name == wanted and kind in (None, one.type):
                return queue_id
        return self.queue(0).id

    def set_bridge(
        self,
        station: Station,
        queue_id: int,
        *,
        submit_from: str | None = None,
        finished_queue: str | None = None,
        submit_flags: int | None = None,
    ) -> None:
        """Binds message queues to a job queue, or with empty names unbinds them; supervisors."""
        queue = self.may_bind(station, queue_id, submit_from or "", finished_queue or "")
        definition, change = queue.definition, Change()
        if submit_from is not None:
            definition.submit_from = submit_from
        if finished_queue is not None:
            definition.finished_queue = finished_queue
        if submit_flags is not None:
            definition.submit_flags = submit_flags & FLAGS_OF_CLIENTS
        self.store_queue(queue, change)
        self.core.commit(change)
        self.bridge.bind(queue)

    def may_bind(
        self, station: Station, queue_id: int, submit_from: str, finished_queue: str
    ) -> JobQueue:
        """The queue, if a station may bind these message queues to it."""
        queue = self.queue(queue_id)
        allowed = self.bindery.is_supervisor(station)
        self.require(allowed, station, f"bind {self.queue_name(queue_id)}", NO_Q_RIGHTS)
        if submit_from:
            self.bridge.check_source(queue, submit_from)
        if finished_queue:
            parse_name(finished_queue)
        return queue
