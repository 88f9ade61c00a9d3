"""Connects messages and jobs: a message submits a job, the end of a job sends a message.

Either is one step of the log: the message is received with the submission of its job, and the job
ends with the message that reports it.
"""

from __future__ import annotations

import msgspec

from posthouse.engine.jobs.calls import Jobs
from posthouse.engine.jobs.job import EndedJob, Job, JobQueue
from posthouse.engine.ledger.parts import (
    Accepting,
    ClaimedMessages,
    Endings,
    MachineTargets,
    PacketReads,
)
from posthouse.engine.ledger.records import FLAG_REMOTE, Change, Row
from posthouse.engine.queues.answering_queues import UNKNOWN
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.model.bindery import Q_USERS
from posthouse.model.errors import (
    AccessDenied,
    InvalidParameter,
    QueueError,
    QueueNotFound,
    RemoteProtocolError,
    SharingViolation,
)
from posthouse.model.message import (
    ACK_RECEIVE,
    INFINITE,
    NACK_RECEIVE_REJECTED,
    DeliveryGuarantee,
    Message,
    MessageId,
    SenderIdentifierType,
)
from posthouse.model.names import FormatName, PathName, PrivateName, parse_name
from posthouse.model.qms import ANY_TYPE, CLIENT_RECORD_SIZE, NWQueueJobStruct
from posthouse.security.access import Caller
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.wire.packet.message import deserialize, serialize

STEP = 64  # messages that submit jobs in one turn
_GUID_SIZE = 16


class JobBridge:
    """Message queues that are bound to job queues, both ways."""

    def __init__(
        self,
        queues: Jobs,
        registry: Queues,
        targets: MachineTargets,
        reading: PacketReads,
        outcomes: Endings,
        groups: ClaimedMessages,
        sending: Accepting,
    ) -> None:
        self.queues = queues
        self.core = queues.core
        self._registry = registry
        self._targets = targets
        self._reading = reading
        self._outcomes = outcomes
        self._groups = groups
        self._sending = sending
        self._bound: dict[int, int] = {}  # job queue: tried again at, monotonic milliseconds
        self._sources: dict[int, int] = {}  # job queue: the message queue that it is bound to

    # -- binding

    def load(self) -> None:
        """Bindings that the store kept."""
        for queue in self.queues.queues.values():
            self.bind(queue)

    def bind(self, queue: JobQueue) -> None:
        """The definition of a queue names another message queue, or none."""
        self.unbind(queue)
        if queue.definition.submit_from:
            self._bound[queue.id] = 0
            self._source_of(queue)
            self.core.deadlines.note(self.core.now_ms)

    @property
    def is_needed(self) -> bool:
        """Whether each turn has to look: any message that comes may submit a job."""
        return bool(self._bound)

    def unbind(self, queue: JobQueue) -> None:
        """The job queue is gone, or takes no messages any longer."""
        self._bound.pop(queue.id, None)
        self._sources.pop(queue.id, None)

    def forget_source(self, source: Queue, change: Change) -> None:
        """A message queue is deleted: another of its name submits jobs only where it is bound."""
        for queue_id in [one for one, number in self._sources.items() if number == source.number]:
            queue = self.queues.queues[queue_id]
            queue.definition.submit_from = ""
            self.unbind(queue)
            self.queues.store_queue(queue, change)
            name = self.queues.queue_name(queue_id)
            self.core.event("job_binding_ended", queue=source.name, job_queue=name)

    def look(self, queue: JobQueue) -> None:
        """It may take jobs again."""
        if queue.id in self._bound:
            self._bound[queue.id] = 0

    def check_source(self, queue: JobQueue, name: str) -> None:
        """Whether this message queue can submit jobs: one of ours, for one job queue only."""
        source = self._source(name)
        if source is None:
            raise QueueNotFound(f"there is no queue {name} on this machine")
        for other_id in self._bound:
            other = self.queues.queues[other_id]
            if other is not queue and self._source(other.definition.submit_from) is source:
                raise InvalidParameter(
                    f"{name} submits jobs to {self.queues.queue_name(other_id)}",
                    "Unbind it there first.",
                )

    def _source_of(self, queue: JobQueue) -> Queue | None:
        """The message queue that a job queue names; noted, since it has no name once deleted."""
        source = self._source(queue.definition.submit_from)
        if source is not None:
            self._sources[queue.id] = source.number
        return source

    def _source(self, name: str) -> Queue | None:
        found = self._registry.find_local(parse_name(name))
        return found if found is not None and found.definition.role is QueueRole.PLAIN else None

    # -- messages that submit jobs

    def next_deadline_ms(self) -> int | None:
        """At once while a message waits that can submit a job, else when that is tried again."""
        due: int | None = None
        for queue_id, again_ms in self._bound.items():
            if self._waiting(self.queues.queues[queue_id], 1):
                at = max(again_ms, self.core.now_ms)
                due = at if due is None else min(due, at)
        return due

    def run(self) -> None:
        """Submits some jobs of each binding."""
        for queue_id, again_ms in list(self._bound.items()):
            if again_ms <= self.core.now_ms:
                self._submit_some(self.queues.queues[queue_id])

    def _waiting(self, queue: JobQueue, count: int) -> list[int]:
        source = self._source_of(queue)
        if source is None or source.state.count <= source.locked:
            return []
        return source.state.order.available(self.core.locks, count, source.claim)

    def _submit_some(self, queue: JobQueue) -> None:
        core, numbers = self.core, self._waiting(queue, STEP)
        if not numbers:
            return
        source = self._source(queue.definition.submit_from)
        assert source is not None
        try:
            self._groups.check_receiver(source)
            if source.exclusive:
                raise SharingViolation(f"{source.name} is open exclusively elsewhere")
            numbers, _ = self._reading.fetch_sound(numbers)
            for number in numbers:
                self._submit(queue, source, number)
        except QueueError as error:  # the job queue is full, or the other one is in use
            pause_ms = core.settings.qms.bridge_retry_s * 1000
            self._bound[queue.id] = core.now_ms + pause_ms
            core.event("job_bridge_waits", queue=self.queues.queue_name(queue.id), why=str(error))

    def _submit(self, queue: JobQueue, source: Queue, number: int) -> None:
        """One message becomes one job, or is refused for good."""
        core = self.core
        row = self._reading.row(number)
        if row.expires <= core.utc:
            return  # the expiry of messages is about to end it
        client_id = self._client(core.effects.senders[number])
        listed = self.queues.bindery.objects.by_id[queue.id].properties.get(Q_USERS)
        ids = self.queues.bindery.identity(client_id)
        if not client_id or (listed is not None and not self.queues.bindery.is_listed(ids, listed)):
            self._refuse(source, number, row, "its sender may not submit jobs there")
            return
        try:
            message = deserialize(core.effects.packets[number])
        except RemoteProtocolError as error:
            self._refuse(source, number, row, str(error))
            return
        if len(message.body) > core.settings.qms.file_max:
            self._refuse(source, number, row, "it is longer than a job file may be")
            return
        self.queues.check_room(queue, len(message.body))
        change = Change()
        self._create(queue, client_id, message, row, change)
        self._outcomes.delete(source, number, row, ACK_RECEIVE, change)
        core.commit(change)

    def _client(self, sender: bytes) -> int:
        """The user who sent a message, as its door has verified; 0: not one of ours."""
        if not sender:
            return 0
        one = self.queues.bindery.object_of_caller(Caller.user(sender, ""))
        account = self.queues.bindery.accounts.of_sid(sender)
        if one is None or (account is not None and account.disabled):
            return 0
        return one.id

    def _refuse(self, source: Queue, number: int, row: Row, why: str) -> None:
        change = Change()
        self._outcomes.delete(source, number, row, NACK_RECEIVE_REJECTED, change)
        self.core.refusals["job_message_refused"] += 1
        self.core.event("job_message_refused", queue=source.name, why=why)
        self.core.commit(change)

    def _create(
        self, queue: JobQueue, client_id: int, message: Message, row: Row, change: Change
    ) -> None:
        """Label, application tag, extension and response queue describe the job."""
        kind = message.application_tag & 0xFFFF
        asked = NWQueueJobStruct(
            job_type=0 if kind == ANY_TYPE else kind,
            job_description=message.label.encode("ascii", "replace")[:49],
            queue_record=message.extension[:CLIENT_RECORD_SIZE],
        )
        entry = self.queues.new_entry(queue, client_id, asked)
        entry.finished_queue = message.response_queue_format_name
        entry.correlation = message.identifier.pack()
        entry.from_elsewhere = bool(row.flags & FLAG_REMOTE)
        job = self.queues.add_job(queue, entry, queue.definition.submit_flags, change)
        self.queues.files.append(job, 0, message.body, change)

    # -- ends of jobs that send messages

    def tell_end(self, job: Job, row: EndedJob, change: Change) -> None:
        """A message to the queue that the job named, and to the one that its queue names."""
        definition = self.queues.queues[job.entry.queue_id].definition
        if definition.finished_queue:
            self._tell(definition.finished_queue, job, row, self.core.system, change)
        if job.entry.finished_queue:
            caller = self.queues.caller_of(job.entry.client_id)
            self._tell(job.entry.finished_queue, job, row, caller, change)
        self.look(self.queues.queues[job.entry.queue_id])

    def _tell(self, name: str, job: Job, row: EndedJob, caller: Caller, change: Change) -> None:
        core = self.core
        try:
            parsed = parse_name(name)
            target = self._target(parsed, job, caller, change)
            message = self._message(parsed, job, row)
            self._sending.enqueue(target, serialize(message), sender=b"", change=change)
        except (QueueError, RemoteProtocolError) as error:
            core.refusals["job_message_dropped"] += 1
            core.event("job_message_dropped", queue=row.queue, job=row.number, why=str(error))

    def _target(
        self, name: PathName | FormatName, job: Job, caller: Caller, change: Change
    ) -> Queue:
        """A queue here that the client may write to; elsewhere what decision 9 leaves of it."""
        core, entry = self.core, job.entry
        if entry.from_elsewhere and caller is not core.system:
            format_name = self._registry.format_name(name)
            if self._targets.may_be_peer(format_name):
                sender = PrivateName(entry.correlation[:_GUID_SIZE], 4)
                return self._registry.sending_target(sender, change, made_for=UNKNOWN)
            if self._registry.find_local(name) is None:
                raise AccessDenied(f"{name} is a queue that the sender may not send to")
        target = self._registry.find_target(name)
        if target is None or target.outgoing is not None:
            return self._registry.sending_target(name, change)
        if target.definition.role is not QueueRole.PLAIN:
            raise AccessDenied(f"{name} is not a queue of applications")
        self._registry.guard(target).require(caller, WRITE_MESSAGE)
        return target

    def _message(self, name: PathName | FormatName, job: Job, row: EndedJob) -> Message:
        core, entry = self.core, job.entry
        format_name = self._registry.format_name(name)
        message = Message(
            identifier=MessageId(core.guid, core.ordinals.next()),
            source_machine_identifier=core.guid,
            sent_time=core.utc,
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            destination_queue_format_name=str(format_name),
            label=f"job {row.number} {row.outcome}",
            body=msgspec.json.encode(told(row)),
            application_tag=row.job_type,
            time_to_reach_queue=core.time_to_reach_queue_max,
            time_to_be_received=INFINITE,
            sender_identifier_type=SenderIdentifierType.NONE,
        )
        if entry.correlation:
            message.correlation_identifier = MessageId.unpack(entry.correlation)
        return message


def told(row: EndedJob) -> dict[str, object]:
    """What a message shows of the end of a job."""
    values = msgspec.structs.asdict(row)
    del values["order"]
    values["queue_id"] = f"{row.queue_id:08X}"
    values["client_id"] = f"{row.client_id:08X}"
    values["server_id"] = f"{row.server_id:08X}"
    return values
