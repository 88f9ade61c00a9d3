"""QueueManager: the only entry to the engine for protocols, with one attribute for each part.

A turn: `begin_turn(now_ms, utc)`, any number of calls, `take_effects()`. What comes of a turn
may leave the process when the driver has synced what the turn asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from posthouse.directory.objects import Enterprise
from posthouse.engine.accounts.accounts import Accounts
from posthouse.engine.accounts.tokens import Tokens
from posthouse.engine.directory.change_notices import Notices
from posthouse.engine.directory.changes import DirectoryChanges
from posthouse.engine.directory.connectors import Connectors
from posthouse.engine.directory.facade import DirectoryFacade
from posthouse.engine.directory.mirroring import Mirroring
from posthouse.engine.directory.public_queues import DirectoryOfQueues
from posthouse.engine.jobs.bindery.calls import Bindery
from posthouse.engine.jobs.bindery.stations import Stations
from posthouse.engine.jobs.queues import JobQueues
from posthouse.engine.ledger.effects import Effects
from posthouse.engine.ledger.incarnations import Incarnations
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.state import State
from posthouse.engine.ledger.steps import SteppedWork
from posthouse.engine.machine.facade import MachineFacade
from posthouse.engine.messages.acknowledgments import Acks
from posthouse.engine.messages.admission import Admission
from posthouse.engine.messages.enqueue import Sending
from posthouse.engine.messages.expiry import Expiry
from posthouse.engine.messages.facade import MessagesFacade
from posthouse.engine.messages.moving import Moving
from posthouse.engine.messages.outcome import MessageOutcomes
from posthouse.engine.messages.packet_reads import Fetching, ReadPackets
from posthouse.engine.messages.poison import Poison
from posthouse.engine.messages.returning import Returning
from posthouse.engine.messages.waiting import WaitingReads
from posthouse.engine.operations.operations import Operations
from posthouse.engine.pipelines.groups import Groups
from posthouse.engine.pipelines.stages import Stages
from posthouse.engine.pulls.pulls import Pulls
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.deletion import QueueDeletion
from posthouse.engine.queues.facade import QueuesFacade
from posthouse.engine.queues.opening import Opening
from posthouse.engine.sessions.resumable import ClientSessions
from posthouse.engine.settings import EngineSettings
from posthouse.engine.transactions.collection import Transactions
from posthouse.engine.transactions.facade import TransactionsFacade
from posthouse.engine.transfer.connect_targets import Targets
from posthouse.engine.transfer.facade import TransferFacade
from posthouse.engine.transfer.message_history import MessageHistory
from posthouse.engine.transfer.outgoing_queues import Transfer
from posthouse.engine.transfer.peer_clocks import Clocks
from posthouse.engine.transfer.receiving import Receiving
from posthouse.engine.transfer.srmp.state import Srmp
from posthouse.engine.transfer.tracing import Tracing
from posthouse.model.errors import OperationCancelled, QueueError, ServiceNotAvailable
from posthouse.model.properties import QueueManagerState as QueueManagerState

DirectoryState = tuple[int, int, bool, int | None, Enterprise]
"""What a turn looks at of the directory: its versions, whether it can be reached, its defaults."""


class QueueManager:
    """The queue manager of [MS-MQDMPR]. One owner, no locks, no clock of its own."""

    def __init__(
        self,
        settings: EngineSettings,
        state: State,
        read: Callable[[int], bytes],
        random_bytes: Callable[[int], bytes],
        read_many: ReadPackets,
    ) -> None:
        core = Ledger(settings, state, lambda n: reading.packet_or_nothing(n), random_bytes)
        self.ledger = core
        # Each part gets those that it needs. Where two need each other, the one that is made first
        # gets the other by `connect`.
        incarnations = Incarnations(core)
        clocks = Clocks(core)
        admission = Admission(core)
        history = MessageHistory(core)
        directory = DirectoryOfQueues(core)
        queues = Queues(core, directory)
        targets = Targets(core, queues, directory)
        reading = Fetching(core, read, read_many)
        waiting = WaitingReads(core, reading)
        outcomes = MessageOutcomes(core, reading, queues)
        self.groups = groups = Groups(core, queues, reading, waiting, outcomes, incarnations)
        opening = Opening(core, queues, reading, waiting, groups)
        sending = Sending(core, admission, queues, opening, outcomes)
        tracing = Tracing(core, queues, opening, sending)
        transfer = Transfer(core, queues, targets, reading, outcomes, tracing)
        moving = Moving(core, reading, groups, outcomes, transfer)
        acks = Acks(core, queues, opening, sending, targets, transfer, moving)
        self.poison = poison = Poison(core, queues, moving, reading, opening)
        transactions = Transactions(
            core, queues, reading, waiting, outcomes, sending, transfer, moving, poison
        )
        self.stages = Stages(
            core, admission, opening, sending, transfer, transactions, directory.expand
        )
        connectors = Connectors(
            core, queues, targets, reading, outcomes, sending, transfer, acks, directory, history
        )
        self.pulls = Pulls(core, queues, admission, sending)
        directory.connect(queues)
        reading.connect(groups, outcomes, poison, transactions, waiting)
        waiting.connect(groups, opening, poison, transactions)
        outcomes.connect(acks, sending, transfer)
        opening.connect(connectors)
        sending.connect(transactions)
        transfer.connect(acks)
        moving.connect(poison, transactions)
        transactions.connect(self.stages)
        core.damage_ended = reading.damage.ended
        core.serve = waiting.serve
        core.ordinals_in_use = transactions.ordinals
        core.queue_emptied = transfer.queue_emptied

        self.machine = machine = MachineFacade(core, incarnations, reading.damage)
        self.returning = Returning(
            core,
            queues,
            admission,
            opening,
            reading,
            outcomes,
            sending,
            groups,
            moving,
            transactions,
        )
        self.transactions = TransactionsFacade(core, machine, transactions)
        self.operations = Operations(core, sending, transactions)
        notices = Notices(core, queues, sending, directory)
        changes = DirectoryChanges(directory, notices, queues, transfer)
        deletion = QueueDeletion(core, queues, opening, reading, waiting, moving, outcomes, groups)
        mirroring = Mirroring(directory, deletion, queues)
        self.queues = QueuesFacade(
            core, machine, queues, opening, deletion, groups, moving, poison, directory.expand
        )
        expiry = Expiry(core, queues, reading, outcomes, groups, poison, transfer)
        self.messages = MessagesFacade(
            core, machine, opening, reading, outcomes, waiting, moving, sending, admission, expiry
        )
        self.accounts = Accounts(core)
        self.tokens = Tokens(core, self.accounts)
        self.certificates = certificates = self.accounts.certificates
        sending.signed = certificates.signed
        transfer.seal = certificates.security.seal
        certificates.directory = directory.service
        directory.service.keys_changed = certificates.forget
        directory.own_keys = certificates.own_public_keys
        directory.own_signing_keys = certificates.own_signing_keys
        certificates.on_keys = mirroring.say_who_we_are
        changes.follow = mirroring.follow
        self.stations = Stations(core)
        self.bindery = self.accounts.bindery = Bindery(core, self.accounts, self.stations)
        self.jobs = JobQueues(
            core,
            queues,
            targets,
            admission,
            reading,
            outcomes,
            groups,
            opening,
            sending,
            self.bindery,
        )
        removal = (
            transfer.queue_deleted,
            groups.forget_queue,
            self.pulls.forget_queue,
            self.jobs.bridge.forget_source,
        )
        queues.connect(removal, transfer.sequences.forget, moving.purge)
        receiving = Receiving(
            core,
            queues,
            targets,
            clocks,
            admission,
            sending,
            tracing,
            transfer,
            acks,
            connectors,
            reading,
            history,
            directory,
            certificates,
            notices,
        )
        srmp = Srmp(
            core,
            queues,
            clocks,
            admission,
            sending,
            tracing,
            transfer,
            acks,
            receiving,
            certificates,
        )
        outcomes.stream_ended = srmp.streams.ended
        targets.is_forbidden = srmp.redirects.is_forbidden
        self.transfer = TransferFacade(machine, transfer, receiving, srmp, acks, clocks)
        self.directory = DirectoryFacade(
            machine, directory, changes, mirroring, notices, connectors, queues
        )
        self.sessions = ClientSessions(core)
        self._calendar = state.calendar
        # What a turn in which something may be due runs, in this order, and then asks.
        self._timers: tuple[Callable[[], object], ...] = (
            self.messages.expiry.run,
            self.poison.run,
            moving.go_on,
            self.groups.go_on,
            waiting.expire_waits,
            transactions.abort_idle,
            self.stages.expire,
            self.stations.run,
            self.jobs.bridge.run,
            self.transactions.run,
            receiving.history.run_timer,
            receiving.forwarding.resting.run_timer,
            srmp.streams.run_timers,
            lambda: directory.service.advance(core.now_ms),
            notices.run_timer,
            self._follow_enterprise,
        )
        self._deadlines_ms: tuple[Callable[[], int | None], ...] = (
            self.poison.next_deadline_ms,
            moving.next_deadline_ms,
            self.groups.next_deadline_ms,
            waiting.next_deadline_ms,
            transactions.next_deadline_ms,
            self.stations.next_deadline_ms,
            self.jobs.bridge.next_deadline_ms,
            self.transactions.next_deadline_ms,
            receiving.history.next_deadline_ms,
            receiving.forwarding.resting.next_deadline_ms,
            srmp.streams.next_deadline_ms,
            lambda: directory.service.next_deadline(core.now_ms),
            notices.next_deadline_ms,
            connectors.next_deadline_ms,
        )
        self._deadlines_utc: tuple[Callable[[], float], ...] = (
            self.messages.expiry.next_deadline_utc,
            self.stages.next_deadline_utc,
        )
        self._directory_seen: tuple[int, int] = 0, 0  # when outgoing queues were told of it
        self._directory_state: DirectoryState | None = None  # when everything was told of it

    # -- start, turns, stop

    def start(self, now_ms: int, utc: int) -> None:
        """Queue Manager Started (3.1.4.1): Initialization (3.1.3)."""
        core, machine = self.ledger, self.machine
        assert machine.state is QueueManagerState.STOPPED
        machine.state = QueueManagerState.INITIALIZING
        core.now_ms, core.utc = now_ms, utc
        try:
            self._initialize()
        except QueueError:
            machine.state = QueueManagerState.STOPPED
            raise
        machine.state = QueueManagerState.READY

    def _initialize(self) -> None:
        core, queues = self.ledger, self.queues.collection
        if not core.settings.computer_name:
            raise ServiceNotAvailable(
                "this computer has no name to answer to", "Set the name in the configuration."
            )
        self.machine.provision()
        self.machine.incarnations.begin()
        queues.load()
        self.transfer.outgoing.load(self.machine.record.sequence_timestamp)
        self.transfer.receiving.history.load()
        self.transfer.receiving.signed.load()
        self.transfer.srmp.load()
        self.accounts.load()
        self.bindery.load()
        queues.load_aliases()
        self.groups.load()
        self.sessions.load()
        self.stages.load()
        self.pulls.load()
        self.operations.load()
        self.transactions.collection.recover()
        self.transactions.load()
        self.transfer.acks.owed.load()
        self.transfer.acks.shared.load()
        self.messages.reading.load()
        self.poison.load()
        self.messages.moving.end_doomed()
        self.messages.moving.empty_deleted()
        for queue in queues.all():
            queues.drop_empty_subqueue(queue)
        self.directory.queues.start()
        self.jobs.load()
        self._follow_enterprise()
        core.effects.active.update(
            queue.number for queue in self.queues.outgoing_queues() if queue.state.count
        )

    def begin_turn(self, now_ms: int, utc: int) -> bool:
        """Brings the clocks of this turn and ends what is due by them, if anything is."""
        core = self.ledger
        elapsed_s = (now_ms - core.now_ms) // 1000
        step = utc - core.utc - elapsed_s
        limit = core.settings.queue_manager.clock_step_s
        if not -limit <= step <= limit:
            core.event("clock_step", seconds=step)
        core.now_ms, core.utc = now_ms, utc
        core.turn += 1
        due = core.deadlines
        if now_ms < due.at_ms and utc < due.at_utc and utc < self._calendar.earliest:
            return False
        for run in self._timers:
            run()
        self._ask_deadlines()
        due.moved = True
        return True

    def _ask_deadlines(self) -> None:
        """Asks everything that has a timer; what is noted later only makes the answer earlier."""
        due = self.ledger.deadlines
        due.at_ms, due.at_utc = self.earliest_deadlines()
        if self.jobs.bridge.is_needed:
            due.note(self.ledger.now_ms)

    def earliest_deadlines(self) -> tuple[float, float]:
        """When the next timers are due, on the monotonic clock and in UTC seconds."""
        at_ms = min([inf if at is None else at for at in (ask() for ask in self._deadlines_ms)])
        return at_ms, min([ask() for ask in self._deadlines_utc])

    def _follow_enterprise(self) -> None:
        """DefaultTimeToLive of the enterprise (3.1.1.6) bounds every message's time."""
        allowed = self.ledger.settings.queue_manager.time_to_reach_queue_s
        service = self.directory.service
        if service.integrated:
            allowed = min(allowed, service.default_time_to_reach_queue_s)
        self.ledger.time_to_reach_queue_max = allowed

    def take_effects(self) -> Effects:
        """Ends a turn: what it asks for, to be appended, synced and then let out."""
        core = self.ledger
        if core.announced:
            core.tell()
        if self.machine.state is QueueManagerState.READY:
            service, connectors = self.directory.service, self.directory.connectors
            state: DirectoryState = (
                service.version,
                service.queues_version,
                service.offline,
                service.online_at_ms,
                service.enterprise,
            )
            if connectors.sites or state != self._directory_state:
                connectors.run()
                self._follow_directory(state)
        effects = core.effects
        effects.seal()
        core.effects = Effects()
        return effects

    def _follow_directory(self, state: DirectoryState) -> None:
        """What waits for a way may have one when the directory has changed."""
        if state != self._directory_state:
            self._directory_state = state
            self._follow_enterprise()
            self.ledger.deadlines.note(-inf)  # its timers, and what rests until it is mended
        if state[:2] != self._directory_seen:
            self._directory_seen = state[:2]
            waiting = [one for one in self.queues.outgoing_queues() if one.state.count]
            self.ledger.effects.active.update(queue.number for queue in waiting)

    def take_begun(self) -> list[SteppedWork]:
        """What was begun since the last call of this and takes more turns than this one."""
        moving, groups = self.messages.moving, self.groups
        if not moving.begun and not groups.begun:
            return []
        return [*moving.take_begun(), *groups.take_begun()]

    def next_deadline_ms(self) -> int | None:
        """When the next timer is due; None: nothing is waiting for the clock.

        Everything that has a timer is asked. A loop that sleeps until then asks for
        `noted_deadline_ms` when `deadline_moved`, and for this one when it wakes up.
        """
        due = self.ledger.deadlines
        due.at_ms, due.at_utc = self.earliest_deadlines()
        at_ms = self._on_one_clock()
        if self.jobs.bridge.is_needed:
            due.note(self.ledger.now_ms)
        return at_ms

    def noted_deadline_ms(self) -> int | None:
        """When the next timer may be due, by what was noted since: nothing is due earlier."""
        due = self.ledger.deadlines
        if due.at_ms <= self.ledger.now_ms:
            return self.next_deadline_ms()
        due.at_utc = min(due.at_utc, self._calendar.earliest)
        return self._on_one_clock()

    def _on_one_clock(self) -> int | None:
        core, due = self.ledger, self.ledger.deadlines
        due.moved = False
        at_ms = min(due.at_ms, core.now_ms + max(0, due.at_utc - core.utc) * 1000)
        return None if at_ms == inf else int(at_ms)

    def deadline_moved(self) -> bool:
        """Whether something may be due earlier than was answered last."""
        due = self.ledger.deadlines
        return due.moved or self._calendar.earliest < due.at_utc

    def stop(self) -> None:
        """Queue Manager Stopped (3.1.4.2): waits end, queue data stays as it is."""
        self.machine.state = QueueManagerState.STOPPING
        error = OperationCancelled("the queue manager is stopping")
        self.messages.cancel_all_reads(self.queues.all(), error)
        self.messages.moving.break_off(error)
        self.groups.break_off(error)
        self.sessions.keep_all()
        self.transfer.receiving.history.keep_all()
        self.machine.state = QueueManagerState.STOPPED

    def end_session(self, association: object) -> None:
        """A session is gone: its waits end, its transactions abort, its queues close.

        The waits first, or what the rest gives back would go to a reader that is gone.
        """
        self.messages.waiting.cancel_session(
            association, OperationCancelled("the session has ended")
        )
        self.transactions.collection.abort_of(association)
        self.queues.opening.close_of(association)
        self.stations.end_of(association)
        self.pulls.release_of(association)
