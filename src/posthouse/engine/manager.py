"""QueueManager: the only door for protocols. Each event of [MS-MQDMPR] is one method here.

A turn: `begin_turn(now_ms, utc)`, any number of calls, `take_effects()`. What comes of a turn
may leave the process when the driver has synced what the turn asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from posthouse.directory.queue_path import QueuePath
from posthouse.engine.accounts.accounts import Accounts
from posthouse.engine.directory.change_notices import Notices
from posthouse.engine.directory.changes import DirectoryChanges
from posthouse.engine.directory.connectors import Connectors
from posthouse.engine.directory.entries import DirectoryEntries
from posthouse.engine.directory.mirroring import Mirroring
from posthouse.engine.directory.public_queues import DirectoryOfQueues
from posthouse.engine.jobs.bindery.calls import Bindery
from posthouse.engine.jobs.bindery.stations import Stations
from posthouse.engine.jobs.queues import JobQueues
from posthouse.engine.ledger.core import Core
from posthouse.engine.ledger.effects import Effects
from posthouse.engine.ledger.incarnations import Incarnations
from posthouse.engine.ledger.state import State
from posthouse.engine.ledger.steps import Work
from posthouse.engine.machine.identity import ManagerRecord, provision, store
from posthouse.engine.manager_reads import ManagerReads
from posthouse.engine.messages.acknowledgments import Acks
from posthouse.engine.messages.admission import Admission
from posthouse.engine.messages.enqueue import Sending
from posthouse.engine.messages.expiry import Expiry
from posthouse.engine.messages.fetching import Fetching, ReadPackets
from posthouse.engine.messages.moving import Moving
from posthouse.engine.messages.outcome import Outcomes
from posthouse.engine.messages.poison import Poison
from posthouse.engine.messages.returning import Returning
from posthouse.engine.messages.waiting import Waiting
from posthouse.engine.pipelines.groups import Groups
from posthouse.engine.pipelines.stages import Stages
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.open_queues import (
    OpenQueueDescriptor,
    QueueAccessType,
    QueueShareMode,
)
from posthouse.engine.queues.opening import Opening
from posthouse.engine.queues.properties import checked_properties
from posthouse.engine.queues.queue import Queue
from posthouse.engine.sessions.resumable import ClientSessions
from posthouse.engine.settings import EngineSettings
from posthouse.engine.transactions.collection import Transactions
from posthouse.engine.transactions.transaction import Transaction
from posthouse.engine.transactions.two_phase import TwoPhase
from posthouse.engine.transfer.outgoing_queues import Transfer
from posthouse.engine.transfer.protocol_interface import Peer, Verdict
from posthouse.engine.transfer.receiving import Receiving
from posthouse.engine.transfer.srmp.receiving import SrmpArrival, SrmpVerdict
from posthouse.engine.transfer.srmp.state import Srmp
from posthouse.engine.transfer.tracing import Tracing
from posthouse.model.errors import (
    AccessDenied,
    OperationCancelled,
    QueueError,
    ServiceNotAvailable,
)
from posthouse.model.message import Message, MessageId
from posthouse.model.names import FormatName, PathName, parse_format_name, parse_name
from posthouse.model.properties import QueueManagerState as QueueManagerState
from posthouse.model.properties import QueueProperties
from posthouse.security.access import Caller
from posthouse.security.rights import (
    CHANGE_QUEUE_PERMISSIONS,
    DELETE_QUEUE,
    GET_QUEUE_PROPERTIES,
    QUEUE_GENERIC_ALL,
    SET_QUEUE_PROPERTIES,
)
from posthouse.wire.packet.glance import Glance

Name = str | PathName | FormatName


class QueueManager(ManagerReads):
    """The queue manager of [MS-MQDMPR]. One owner, no locks, no clock of its own."""

    def __init__(
        self,
        settings: EngineSettings,
        state: State,
        read: Callable[[int], bytes],
        random_bytes: Callable[[int], bytes],
        read_many: ReadPackets,
    ) -> None:
        core = Core(settings, state, lambda n: self.reading.packet_or_nothing(n), random_bytes)
        self.core = core
        self.state = QueueManagerState.STOPPED
        core.reading = self.reading = Fetching(core, read, read_many)
        self.damage = self.reading.damage
        core.waiting = self.waiting = Waiting(core)
        core.moving = self.moving = Moving(core)
        self.returning = Returning(core)
        self.incarnations = Incarnations(core)
        core.groups = self.groups = Groups(core, self.incarnations)
        core.admission = Admission(core)
        core.sending = self.sending = Sending(core)
        core.acks = Acks(core)
        core.outcomes = Outcomes(core)
        core.poison = self.poison = Poison(core)
        core.transactions = self.transactions = Transactions(core)
        core.transfer = self.transfer = Transfer(core)
        core.two_phase = self.two_phase = TwoPhase(core)
        self.directory = DirectoryOfQueues(core)
        self.directory_changes = DirectoryChanges(self.directory)
        self.directory_entries = DirectoryEntries(self.directory, self.directory_changes)
        self.mirroring = Mirroring(self.directory)
        core.stages = self.stages = Stages(core, self.directory.expand)
        core.registry = self.queues = Queues(core, self.directory)
        core.opening = self.opening = Opening(core)
        core.tracing = Tracing(core)
        self.expiry = Expiry(core)
        self.accounts = Accounts(core)
        self.accounts.certificates.directory = self.directory.service
        self.directory.service.keys_changed = self.accounts.certificates.forget
        self.directory.own_keys = self.accounts.certificates.own_public_keys
        self.directory.own_signing_keys = self.accounts.certificates.own_signing_keys
        self.accounts.certificates.on_keys = self.mirroring.say_who_we_are
        self.directory_changes.follow = self.mirroring.follow
        core.notices = self.notices = Notices(core, self.directory)
        self.stations = Stations(core)
        self.bindery = self.accounts.bindery = Bindery(core, self.accounts, self.stations)
        self.job_queues = JobQueues(core, self.bindery)
        self.receiving = Receiving(core, self.directory, self.accounts.certificates)
        core.connectors = self.connectors = Connectors(core, self.directory, self.receiving.history)
        core.srmp = self.srmp = Srmp(core, self.receiving, self.accounts.certificates)
        self.client_sessions = ClientSessions(core)
        self.record = ManagerRecord(b"", 0, 0)
        self._directory_seen = 0, 0  # its versions, when outgoing queues were told of them

    # -- start, turns, stop

    def start(self, now_ms: int, utc: int) -> None:
        """Queue Manager Started (3.1.4.1): Initialization (3.1.3)."""
        core = self.core
        assert self.state is QueueManagerState.STOPPED
        self.state = QueueManagerState.INITIALIZING
        core.now_ms, core.utc = now_ms, utc
        try:
            self._initialize()
        except QueueError:
            self.state = QueueManagerState.STOPPED
            raise
        self.state = QueueManagerState.READY

    def _initialize(self) -> None:
        core = self.core
        if not core.settings.computer_name:
            raise ServiceNotAvailable(
                "this computer has no name to answer to", "Set the name in the configuration."
            )
        self.record = provision(core)
        self.store_record()
        core.guid = self.record.identifier
        self.incarnations.begin()
        self.queues.load()
        self.transfer.load(self.record.sequence_timestamp)
        self.receiving.history.load()
        self.receiving.signed.load()
        self.srmp.load()
        self.accounts.load()
        self.bindery.load()
        self.queues.load_aliases()
        self.groups.load()
        self.client_sessions.load()
        self.stages.load()
        self.transactions.recover()
        self.two_phase.load()
        self.core.acks.owed.load()
        self.core.acks.shared.load()
        self.reading.load()
        self.poison.load()
        self.moving.end_doomed()
        self.moving.empty_deleted()
        for queue in self.queues.all():
            self.queues.drop_empty_subqueue(queue)
        self.directory.start()
        self.job_queues.load()
        self._follow_enterprise()
        core.effects.active.update(
            queue.number for queue in self.queues.outgoing_queues() if queue.state.count
        )

    def store_record(self) -> None:
        """Keeps the persistent attributes of the queue manager itself."""
        store(self.core, self.record)

    def begin_turn(self, now_ms: int, utc: int) -> None:
        """Brings the clocks of this turn and ends what is due by them."""
        core = self.core
        elapsed_s = (now_ms - core.now_ms) // 1000
        step = utc - core.utc - elapsed_s
        if abs(step) > core.settings.queue_manager.clock_step_s:
            core.event("clock_step", seconds=step)
        core.now_ms, core.utc = now_ms, utc
        self.expiry.run()
        self.poison.run()
        self.moving.go_on()
        self.groups.go_on()
        self.waiting.expire_waits()
        self.transactions.abort_idle()
        self.stages.expire()
        self.stations.run()
        self.job_queues.bridge.run()
        self.two_phase.run()
        self.receiving.history.run_timer()
        self.receiving.forwarding.resting.run_timer()
        self.srmp.streams.run_timers()
        self.directory.service.advance(now_ms)
        self.notices.run_timer()
        self._follow_enterprise()

    def _follow_enterprise(self) -> None:
        """DefaultTimeToLive of the enterprise (3.1.1.6) bounds every message's time."""
        allowed = self.core.settings.queue_manager.time_to_reach_queue_s
        service = self.directory.service
        if service.integrated:
            allowed = min(allowed, service.default_time_to_reach_queue_s)
        self.core.time_to_reach_queue_max = allowed

    def take_effects(self) -> Effects:
        """Ends a turn: what it asks for, to be appended, synced and then let out."""
        core = self.core
        core.tell()
        if self.state is QueueManagerState.READY:
            self.connectors.run()
            self._follow_directory()
        effects = core.effects
        effects.seal()
        core.effects = Effects()
        return effects

    def _follow_directory(self) -> None:
        """What waits for a way may have one when the directory has changed."""
        service = self.directory.service
        seen = service.version, service.queues_version
        if seen != self._directory_seen:
            self._directory_seen = seen
            waiting = [one for one in self.queues.outgoing_queues() if one.state.count]
            self.core.effects.active.update(queue.number for queue in waiting)

    def take_begun(self) -> list[Work]:
        """What was begun since the last call of this and takes more turns than this one."""
        return [*self.moving.take_begun(), *self.groups.take_begun()]

    def next_deadline_ms(self) -> int | None:
        """When the next timer is due; None: nothing is waiting for the clock."""
        deadlines = (
            self.expiry.next_deadline_ms(),
            self.poison.next_deadline_ms(),
            self.moving.next_deadline_ms(),
            self.groups.next_deadline_ms(),
            self.waiting.next_deadline_ms(),
            self.transactions.next_deadline_ms(),
            self.stages.next_deadline_ms(),
            self.stations.next_deadline_ms(),
            self.job_queues.bridge.next_deadline_ms(),
            self.two_phase.next_deadline_ms(),
            self.receiving.history.next_deadline_ms(),
            self.receiving.forwarding.resting.next_deadline_ms(),
            self.srmp.streams.next_deadline_ms(),
            self.directory.service.next_deadline(self.core.now_ms),
            self.notices.next_deadline_ms(),
            self.connectors.next_deadline_ms(),
        )
        return min((d for d in deadlines if d is not None), default=None)

    def stop(self) -> None:
        """Queue Manager Stopped (3.1.4.2): waits end, queue data stays as it is."""
        self.state = QueueManagerState.STOPPING
        error = OperationCancelled("the queue manager is stopping")
        for queue in self.queues.all():
            for order in list(queue.waiters):
                self.waiting.cancel(order, error)
        self.moving.break_off(error)
        self.groups.break_off(error)
        self.client_sessions.keep_all()
        self.receiving.history.keep_all()
        self.state = QueueManagerState.STOPPED

    def _ready(self) -> None:
        if self.state is not QueueManagerState.READY:
            raise ServiceNotAvailable(f"the queue manager is {self.state.value}")

    def refused(self, error: QueueError) -> QueueError:
        """Counts a refusal by its name; doors call it with everything they turn away."""
        self.core.refusals[error.name] += 1
        return error

    @property
    def identifier(self) -> bytes:
        """The GUID of this queue manager."""
        return self.record.identifier

    # -- queues

    def create_queue(
        self,
        path: str | PathName,
        properties: QueueProperties,
        caller: Caller,
        *,
        security: bytes | None = None,
        skip_directory: bool = False,
    ) -> Queue:
        """Create Queue (3.1.7.1.3)."""
        self._ready()
        name = PathName.parse(path) if isinstance(path, str) else path
        scope = caller.scope(str(name.with_computer(".")))
        if not caller.is_administrator or QUEUE_GENERIC_ALL & ~scope:
            raise AccessDenied(f"{caller.name} may not create {name}")
        self.poison.check(
            str(name.with_computer(self.core.settings.computer_name)),
            properties.poison_queue,
            caller,
        )
        return self.queues.create(
            name, properties, caller, security=security, skip_directory=skip_directory
        )

    def delete_queue(self, name: Name, caller: Caller, *, skip_directory: bool = False) -> None:
        """Delete Queue (3.1.7.1.4)."""
        queue = self._queue(name)
        self.queues.guard(queue).require(caller, DELETE_QUEUE)
        self.queues.delete(queue, skip_directory=skip_directory)

    def set_queue(self, name: Name, caller: Caller, **values: object) -> None:
        """Changes properties of a queue; a queue stays transactional or not for its life."""
        queue = self._queue(name)
        self.queues.guard(queue).require(caller, SET_QUEUE_PROPERTIES)
        checked = checked_properties(queue, values)
        self.poison.check(queue.name, str(checked.get("poison_queue", "")), caller)
        self.queues.set_properties(queue, **checked)

    def set_queue_security(self, name: Name, caller: Caller, security: bytes) -> None:
        """Replaces a queue's security descriptor, kept losslessly."""
        queue = self._queue(name)
        self.queues.guard(queue).require(caller, CHANGE_QUEUE_PERMISSIONS)
        self.queues.set_security(queue, caller, security)

    def queue_properties(self, name: Name, caller: Caller) -> Queue:
        """A queue, for somebody who may look at its properties."""
        queue = self._queue(name)
        self.queues.guard(queue).require(caller, GET_QUEUE_PROPERTIES)
        return queue

    def _queue(self, name: Name) -> Queue:
        self._ready()
        return self.queues.local_queue(parse_name(name) if isinstance(name, str) else name)

    def open_queue(
        self,
        name: Name,
        access: QueueAccessType,
        caller: Caller,
        *,
        share: QueueShareMode = QueueShareMode.DENY_NONE,
        association: object = None,
    ) -> OpenQueueDescriptor:
        """Open Queue (3.1.7.1.5)."""
        self._ready()
        parsed = parse_name(name) if isinstance(name, str) else name
        if not isinstance(parsed, PathName):
            parsed = self.directory.expand(parsed)
        return self.opening.open(parsed, access, share, caller, association)

    def close_queue(self, descriptor: OpenQueueDescriptor) -> None:
        """Close Queue (3.1.7.1.6)."""
        self.opening.close(descriptor)

    def purge_queue(self, descriptor: OpenQueueDescriptor) -> int:
        """Purge Queue (3.1.7.1.7). Returns how many messages it found."""
        return self.moving.purge(self.opening.check(descriptor, QueueAccessType.RECEIVE))

    def add_own_port(self, port: int) -> None:
        """A door of this queue manager listens there (decision 41)."""
        self.queues.add_own_port(port)

    def add_own_address(self, address: str) -> None:
        """A connection came to this address of the machine."""
        self.queues.add_own_address(address)

    def get_queue_path(self, name: str) -> QueuePath:
        """Get Queue Path (3.1.7.1.26)."""
        return self.directory.queue_path(parse_format_name(name))

    # -- sending

    def enqueue_message_to_an_open_queue(
        self,
        descriptor: OpenQueueDescriptor,
        message: Message,
        transaction: Transaction | None = None,
    ) -> MessageId:
        """Enqueue Message To An Open Queue (3.1.7.1.27), for a message of an application here."""
        self._ready()
        return self.sending.send(descriptor, message, transaction)

    def send_packets(
        self,
        descriptor: OpenQueueDescriptor,
        packets: list[bytes],
        transaction: Transaction | None = None,
    ) -> list[int]:
        """The same for packets that a client built: all of them or none. Returns their ordinals."""
        self._ready()
        return self.sending.send_packets(descriptor, packets, transaction)

    def receive_packets(self, peer: Peer, packets: list[bytes], looks: list[Glance]) -> Verdict:
        """Receiving UserMessage packets ([MS-MQQB] 3.1.5.8), a batch of one session.

        `looks` are what `glance_all` saw of them.
        """
        self._ready()
        return self.receiving.receive(peer, packets, looks)

    def receive_srmp(self, arrivals: list[SrmpArrival]) -> list[SrmpVerdict]:
        """SRMP Message Received ([MC-MQSRM] 3.1.5.1), all requests of a turn in their order."""
        self._ready()
        return self.srmp.receive(arrivals)

    def receive_multicast(self, address: str, arrivals: list[SrmpArrival]) -> None:
        """The same for messages to a multicast address, `A.B.C.D:PORT`; nobody is answered."""
        self._ready()
        self.srmp.receive_multicast(address, arrivals)

    # -- transactions

    def create_transaction(self, identifier: bytes, owner: object = None) -> Transaction:
        """Create Transaction (3.1.7.1.8)."""
        self._ready()
        return self.transactions.create(identifier, owner)

    def transaction_commit(self, identifier: bytes) -> None:
        """Transaction Commit (3.1.4.4); of a prepared one also DTC Transaction Commit (3.1.4.7)."""
        self.transactions.commit(identifier)

    def transaction_abort(self, identifier: bytes) -> None:
        """Transaction Abort (3.1.4.5); of a prepared one also DTC Transaction Abort (3.1.4.8)."""
        self.transactions.abort(identifier)

    def in_doubt(self) -> list[Transaction]:
        """Prepared transactions: only their coordinator, or an operator, ends them (3.1.4.9-11)."""
        return self.transactions.prepared()

    def end_session(self, association: object) -> None:
        """A session is gone: its waits end, its transactions abort, its queues close.

        The waits first, or what the rest gives back would go to a reader nobody listens to.
        """
        self.waiting.cancel_session(association, OperationCancelled("the session has ended"))
        self.transactions.abort_of(association)
        self.opening.close_of(association)
        self.stations.end_of(association)

    # -- operations

    def pause_queue(self, queue: Queue) -> None:
        """Pause Queue (3.1.4.14)."""
        self.transfer.pause(queue)

    def resume_queue(self, queue: Queue) -> None:
        """Resume Queue (3.1.4.15)."""
        self.transfer.resume(queue)

    def take_offline(self) -> None:
        """Take Offline (3.1.4.12)."""
        self.transfer.take_offline()

    def bring_online(self) -> None:
        """Bring Online (3.1.4.13)."""
        self.transfer.bring_online()

    def begin_flow_control(self, reason: str) -> None:
        """Begin Flow Control (3.1.7.2.5): the disk, the memory or something else is nearly full."""
        if reason not in self.core.throttled:
            self.core.throttled.add(reason)
            self.core.event("flow_control_begins", reason=reason)

    def end_flow_control(self, reason: str) -> None:
        """End Flow Control (3.1.7.2.6): messages are taken again when no reason is left."""
        if reason in self.core.throttled:
            self.core.throttled.remove(reason)
            self.core.event("flow_control_ends", reason=reason)
