"""The queue manager itself, as protocols use it: name, clocks, limits, health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager

from posthouse.engine.ledger.damaged_records import DamagedRecord
from posthouse.engine.ledger.departed_messages import Departure
from posthouse.engine.ledger.effects import Effects
from posthouse.engine.ledger.incarnations import Incarnations
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import TABLE_MANAGER, Change, Row
from posthouse.engine.ledger.spans import SpanNotes
from posthouse.engine.machine.damage import Damage
from posthouse.engine.machine.identity import (
    COPIED_REMEDY,
    MANAGER_KEY,
    ManagerRecord,
    host_change,
    kept_record,
    pack_record,
)
from posthouse.engine.machine.shortages import scarcities
from posthouse.engine.queues.queue import Queue
from posthouse.engine.settings import EngineSettings
from posthouse.model.errors import QueueError, ServiceNotAvailable
from posthouse.model.properties import QueueManagerState
from posthouse.model.trace_context import TraceContext
from posthouse.security.access import Origin


class MachineFacade:
    """The queue manager itself: its identity, its clocks, and whether it accepts messages."""

    state: QueueManagerState
    record: ManagerRecord
    refusals: Counter[str]  # by the name of the error
    conflicts: Counter[str]  # contents that claim one name or place, by kind

    def __init__(self, core: Ledger, incarnations: Incarnations, damage: Damage) -> None:
        self.core = core
        self.incarnations = incarnations
        self.damage = damage
        self.refusals = core.refusals
        self.conflicts = core.conflicts
        self.state = QueueManagerState.STOPPED
        self.record = ManagerRecord(b"", 0, 0)

    def require_ready(self) -> None:
        """Refuses a call while the queue manager starts or stops."""
        if self.state is not QueueManagerState.READY:
            raise ServiceNotAvailable(f"the queue manager is {self.state.value}")

    def begin_tracing(
        self, read: Callable[[bytes], TraceContext | None], ratio: float, *, labels: bool
    ) -> SpanNotes:
        """Notes from now on what a trace shows of messages."""
        return self.core.begin_tracing(read, ratio, labels=labels)

    # -- identity

    @property
    def settings(self) -> EngineSettings:
        """The settings, with the quotas that the directory has set."""
        return self.core.settings

    @property
    def identifier(self) -> bytes:
        """The GUID of this queue manager."""
        return self.record.identifier

    @property
    def name(self) -> str:
        """The name of the computer."""
        return self.settings.computer_name

    @property
    def domain_trouble(self) -> str:
        """Why users of a domain cannot log in by NTLM, where they should."""
        return self.core.domain_trouble()

    def ask_for_domain_trouble(self, ask: Callable[[], str]) -> None:
        """What is asked for that."""
        self.core.domain_trouble = ask

    @property
    def host_change(self) -> str:
        """Why this may be a copy of the home that another queue manager has; empty: it is not."""
        return self.core.host_change

    @property
    def sequence_timestamp(self) -> int:
        """The time that is part of the numbers of sequences: installation, or the last restore."""
        return self.record.sequence_timestamp

    def provision(self) -> None:
        """Takes the record that is kept, or makes the first one."""
        self.record = _provisioned(self.core)
        self._store_record()
        self.core.guid = self.record.identifier

    def adopt(self, identifier: bytes) -> None:
        """Makes this the queue manager with another identifier, from its next start on."""
        self.record.identifier = identifier
        self._store_record()

    def keep_name(self, name: str) -> None:
        """Keeps the name that the computer has from the next start on."""
        self.record.computer_name = name
        self._store_record()

    def begin_sequences_again(self) -> None:
        """Gives sequences a later time than any that the original of a copy can have used."""
        record = self.record
        record.sequence_timestamp = max(self.utc, record.sequence_timestamp + 1)
        self._store_record()

    def _store_record(self) -> None:
        change = Change()
        self.core.define(TABLE_MANAGER, MANAGER_KEY, pack_record(self.record), change)
        self.core.commit(change)

    # -- clocks and chance

    @property
    def utc(self) -> int:
        """Seconds since 1970, of this turn."""
        return self.core.utc

    @property
    def now_ms(self) -> int:
        """The clock that never goes back, of this turn."""
        return self.core.now_ms

    def random_bytes(self, count: int) -> bytes:
        """Bytes that cannot be guessed."""
        return self.core.random_bytes(count)

    def new_guid(self) -> bytes:
        """A random GUID of version 4, in packet order."""
        return self.core.new_guid()

    @property
    def effects(self) -> Effects:
        """What this turn asks for so far."""
        return self.core.effects

    # -- what operators see

    def event(self, name: str, **details: object) -> None:
        """One line for the operator's log."""
        self.core.event(name, **details)

    def refused(self, error: QueueError) -> QueueError:
        """Counts a refusal by its name; doors call it with everything they turn away."""
        self.refusals[error.name] += 1
        return error

    def obstacles(self) -> list[str]:
        """Why no messages are taken at the moment; nothing: they are."""
        if self.state is not QueueManagerState.READY:
            return [f"the queue manager is {self.state.value}"]
        return [one.cause for one in scarcities(self.throttled)]

    # -- flow control

    @property
    def throttled(self) -> set[str]:
        """Why no messages are taken at the moment."""
        return self.core.throttled

    def begin_flow_control(self, reason: str) -> None:
        """Begin Flow Control (3.1.7.2.5): the disk, the memory or something else is nearly full."""
        if reason not in self.throttled:
            self.throttled.add(reason)
            self.event("flow_control_begins", reason=reason)

    def end_flow_control(self, reason: str) -> None:
        """End Flow Control (3.1.7.2.6): messages are taken again when no reason is left."""
        if reason in self.throttled:
            self.throttled.remove(reason)
            self.event("flow_control_ends", reason=reason)

    # -- limits and counters

    @property
    def time_to_reach_queue_max(self) -> int:
        """Seconds that a message may take to its queue at most, by the enterprise's rule."""
        return self.core.time_to_reach_queue_max

    def departures(self, ordinal: int, *, remote: bool) -> list[Departure]:
        """Messages with a number that left queues a short while ago, of here or of others."""
        return self.core.departures.find(ordinal, remote=remote)

    @property
    def next_lookup_id(self) -> int:
        """The lookup id that is given next."""
        return self.core.lookup_ids.value

    @property
    def next_ordinal(self) -> int:
        """The ordinal of the next message id, counting rounds and gaps."""
        return self.core.ordinals.value

    def skip_identifiers(self, lookup_ids: int, ordinals: int) -> None:
        """Leaves out the next identifiers, which the original of a restored copy may have given."""
        self.core.lookup_ids.skip_to(self.next_lookup_id + lookup_ids)
        self.core.ordinals.skip_to(self.next_ordinal + ordinals)

    def one_step(self) -> AbstractContextManager[None]:
        """Everything decided inside is one CHANGE record: the log has all of it or nothing."""
        return self.core.one_step()

    def is_stale(self, origin: Origin) -> bool:
        """Whether the account of a caller has changed since the caller was made."""
        return origin in self.core.stale_origins

    # -- which start gave a lookup id

    def last_lookup_id(self) -> int:
        """The greatest identifier that was given, or that no start will give."""
        return self.incarnations.last_id()

    def incarnation_of(self, lookup_id: int) -> str:
        """The name of the start that gave an identifier; empty for those before the first kept."""
        return self.incarnations.of(lookup_id)

    def end_of_incarnation(self, name: str) -> int | None:
        """The last identifier that a start can have given; None for an unknown name."""
        return self.incarnations.end_of(name)

    def check_incarnation(self, name: str, lookup_id: int) -> None:
        """Refuses an identifier that the named start did not give."""
        self.incarnations.check(name, lookup_id)

    # -- damaged records

    def damaged_records(self) -> list[DamagedRecord]:
        """Damage that an operator has to decide, in the order of the log."""
        return self.damage.undecided()

    def damaged_message(self, damaged: DamagedRecord) -> tuple[Queue | None, Row] | None:
        """The message that a record holds, with its queue, as far as the log still has it."""
        return self.damage.message(damaged)

    def accept_damage(self, chosen: Collection[DamagedRecord], operator: str) -> None:
        """Gives up what these records held: messages that are still in queues are purged."""
        self.damage.accept(chosen, operator)

    @property
    def stops_compaction(self) -> str:
        """Damage that compaction cannot pass; empty: there is none."""
        return self.damage.stops_compaction


def _provisioned(core: Ledger) -> ManagerRecord:
    """The record of the queue manager that starts: the one that is kept, or the first (3.1.3)."""
    record = kept_record(core.state) or ManagerRecord(core.new_guid(), core.utc, core.utc)
    record.computer_name = core.settings.computer_name
    core.host_change = host_change(record.host, core.settings.host)
    if core.host_change:
        core.event("host_changed", cause=core.host_change, remedy=COPIED_REMEDY)
    record.host = core.settings.host or record.host
    record.starts += 1
    return record
