"""Pulls: takes messages of queues on other machines into queues here, each once.

The reader of the source offers its messages with their lookup ids there. Those that are
new become available, and a page of entries that names them is in the same CHANGE: after a crash
both are there or neither. So the source may be told to forget a message when the offer is answered,
and a message that comes again, because the source was not told or lost the end, is known.

A taken message stays what it was: identifier, times, class and all else of its packet. One that
was express is kept as recoverable, since no one else has it when the source has ended it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import Accepting
from posthouse.engine.ledger.records import (
    FLAG_COPY,
    FLAG_EXPRESS,
    FLAG_REMOTE,
    FLAG_TRANSACTIONAL,
    NEVER,
    TABLE_PULL,
    TABLE_PULLED,
    WANT_DEAD_LETTER,
    Change,
)
from posthouse.engine.ledger.rows import TRANSACTION_HEADER, flags_of, row_of, wants_of
from posthouse.engine.messages.admission import Admission
from posthouse.engine.pulls.entries import PullEntry
from posthouse.engine.pulls.pull import (
    OfferedMessage,
    OfferOutcome,
    Pull,
    PullDefinition,
    RefusedMessage,
    decode_pull,
    encode_pull,
    identifier_reused,
    packed_entries,
    page_key,
    page_of,
    pull_key,
)
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.model.errors import (
    InsufficientResources,
    InvalidParameter,
    MachineQuotaExceeded,
    PropertyNotAllowed,
    QueueDeleted,
    QueueError,
    QueueNotFound,
    QueueQuotaExceeded,
    RemoteProtocolError,
    TransactionUsage,
    UnsupportedOperation,
)
from posthouse.model.names import FormatName, PathName
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.digest import message_digest
from posthouse.wire.packet.packet import Packet

PULLS_MAX: Final = 10_000
SOURCE_LENGTH_MAX: Final = 512
SAME_KIND: Final = (
    "Make the queue here of the same kind as the one there: posthouse migrate plan shows where "
    "they differ. Delete it here when it is empty, and create it with or without --transactional."
)
JOURNAL_ENDING: Final = ";journal"
_COPIES: Final = frozenset({QueueRole.JOURNAL, QueueRole.DEAD_LETTER, QueueRole.SYSTEM_JOURNAL})
_TAKES: Final = _COPIES | {QueueRole.PLAIN}
_FULL: Final = (MachineQuotaExceeded, QueueQuotaExceeded, InsufficientResources)


class Pulls:
    """All pulls, and who runs them."""

    taken_messages: int  # since the start
    known_messages: int

    def __init__(
        self, core: Ledger, registry: Queues, admission: Admission, sending: Accepting
    ) -> None:
        self.core = core
        self._registry = registry
        self._admission = admission
        self._sending = sending
        self._pulls: dict[int, Pull] = {}
        self._entries = 0
        self._last_number = 0  # numbers are not given again: late requests may name them
        self.taken_messages = self.known_messages = 0

    def load(self) -> None:
        """Everything the log kept."""
        state = self.core.state
        for _, value in state.of_table(TABLE_PULL):
            definition = decode_pull(value)
            self._pulls[definition.number] = Pull(definition)
        pages: defaultdict[int, dict[int, bytes]] = defaultdict(dict)
        for key, value in state.of_table(TABLE_PULLED):
            number, page = page_of(key)
            pages[number][page] = value
        for number, found in pages.items():
            self._pulls[number].load(found)
        self._entries = sum(map(len, self._pulls.values()))

    # -- looking

    def all(self) -> list[Pull]:
        """Every pull, in the order in which they began."""
        return [self._pulls[number] for number in sorted(self._pulls)]

    def get(self, number: int) -> Pull:
        """A pull by its number."""
        pull = self._pulls.get(number)
        if pull is None:
            raise InvalidParameter(
                f"there is no pull {number}",
                "Look at those that there are: posthouse migrate list.",
            )
        return pull

    def is_running(self, pull: Pull) -> bool:
        """Whether a session has it, or a lease that lasts."""
        return pull.holder is not None or pull.lease_until_ms > self.core.now_ms

    def target_of(self, pull: Pull) -> Queue | None:
        """The queue that its messages go to; None: it is gone."""
        queue = self.core.queues.get(pull.definition.target)
        return None if queue is None or queue.deleted else queue

    # -- runs

    def begin(
        self,
        guid: bytes,
        source: str,
        host: str,
        target: PathName | FormatName,
        holder: object | None,
        lease_ms: int,
        keep: bool = False,
    ) -> Pull:
        """A run of a pull begins: one at a time. It lasts as long as its holder, or its lease.

        One that does not `keep` messages at the source ends them there when they are known here.
        """
        queue = self._target(target)
        source = source.casefold()
        if not 0 < len(source) <= SOURCE_LENGTH_MAX or not source.isprintable():
            raise InvalidParameter("the source is not the name of a queue")
        self._check_not_here(guid, host)
        pull = self._find(guid, source)
        if pull is None:
            self._check_other_machine(guid, source, host)
            pull = self._new(guid, source, queue)
        elif self.is_running(pull) and (holder is None or pull.holder is not holder):
            raise pull.violation()
        if pull.definition.target != queue.number and self.target_of(pull) is not None:
            raise PropertyNotAllowed(
                f"messages of {source} were pulled into another queue, {self._name(pull)}",
                "Name that queue, or forget the pull: posthouse migrate forget.",
            )
        definition = pull.definition
        if definition.copied and not keep:
            raise self._mixed(pull)
        definition.copying = keep
        definition.target, definition.host = queue.number, host
        definition.epoch += 1
        self._hold(pull, holder, lease_ms)
        change = Change()
        self._define(pull, change)
        self.core.commit(change)
        return pull

    def _mixed(self, pull: Pull) -> PropertyNotAllowed:
        """A move after a copy; what was moved before it must not be deleted with the copies."""
        source, number = pull.definition.source, pull.definition.number
        remedy = (
            f"Delete the copies, forget the pull and pull again: posthouse migrate forget {number}."
        )
        moved = len(pull) - pull.copied_messages
        if moved:
            remedy = (
                f"{moved:,} other messages were moved before and are nowhere else: do not purge "
                f"the queue. Receive them, or move them to another queue here. {remedy}"
            )
        return PropertyNotAllowed(
            f"{pull.copied_messages:,} messages of {source} were copied here before: they would be "
            "ended there, also if their copies are gone",
            remedy,
        )

    def _target(self, name: PathName | FormatName) -> Queue:
        queue = self._registry.find_local(name)
        if queue is None or queue.deleted:
            raise QueueNotFound(
                f"there is no queue {name} here", "Create it: posthouse migrate plan."
            )
        if queue.definition.role not in _TAKES:
            raise UnsupportedOperation(f"messages are not pulled into {queue.name}")
        return queue

    def _find(self, guid: bytes, source: str) -> Pull | None:
        for pull in self._pulls.values():
            if (pull.definition.guid, pull.definition.source) == (guid, source):
                return pull
        return None

    def _check_not_here(self, guid: bytes, host: str) -> None:
        """A queue that is pulled into itself would get its messages again and again."""
        if guid == self.core.guid:
            raise PropertyNotAllowed(
                f"{host or 'the source'} is this queue manager itself",
                "Name the other machine by its own address: posthouse migrate --address. Messages "
                "within this machine are moved by posthouse message move.",
            )

    def _check_other_machine(self, guid: bytes, source: str, host: str) -> None:
        """One host is one machine: under another GUID what was taken would not be known."""
        for pull in self._pulls.values():
            definition = pull.definition
            if (definition.host, definition.source) == (host, source):
                raise PropertyNotAllowed(
                    f"{host} is not the queue manager that {source} was pulled from before",
                    "Was the machine set up again? Then forget the pull: posthouse migrate forget.",
                )

    def _new(self, guid: bytes, source: str, queue: Queue) -> Pull:
        if len(self._pulls) >= PULLS_MAX:
            raise InsufficientResources(
                f"there are {PULLS_MAX:,} pulls", "Forget some of them: posthouse migrate forget."
            )
        number = self._last_number = max(self._last_number, *self._pulls, 0) + 1
        definition = PullDefinition(number, guid, source, queue.number, begun=self.core.utc)
        # After a restart: above those of a pull that had this number.
        definition.epoch = self.core.utc
        pull = Pull(definition)
        self._pulls[number] = pull
        return pull

    def _hold(self, pull: Pull, holder: object | None, lease_ms: int) -> None:
        pull.holder = holder
        pull.lease_until_ms = 0 if holder is not None else self.core.now_ms + lease_ms

    def release_of(self, holder: object) -> None:
        """A session is gone, and the runs that it had."""
        for pull in self._pulls.values():
            if pull.holder is holder:
                pull.holder = None

    def end(self, number: int, epoch: int) -> None:
        """A run has ended by itself."""
        pull = self.get(number)
        pull.check_epoch(epoch)
        pull.holder, pull.lease_until_ms = None, 0

    # -- taking

    def take(
        self,
        number: int,
        epoch: int,
        offered: list[OfferedMessage],
        holder: object | None,
        lease_ms: int,
    ) -> OfferOutcome:
        """Takes in messages that are new, in the order given, as one step of the log."""
        pull = self.get(number)
        pull.check_epoch(epoch)
        queue = self.target_of(pull)
        if queue is None:
            raise QueueDeleted("the queue that the messages go to was deleted")
        self._hold(pull, holder, lease_ms)
        step = _Taking(
            self.core,
            self._admission,
            self._sending,
            pull,
            queue,
            self._moved_by_us(pull),
            self._room(),
        )
        result = step.run(offered)
        self._entries += len(step.entries)
        self.taken_messages += result.taken
        self.known_messages += result.known
        if step.entries:
            self._keep(pull, step)
        self.core.commit(step.change)
        return result

    def _room(self) -> int:
        return self.core.settings.limits.pulled_messages_max - self._entries

    def _moved_by_us(self, pull: Pull) -> AbstractSet[int]:
        """Of a journal: what pulls of its queue received there. It stays there, as the proof.

        Those that were only copied may have been received by another program: they are not left
        out of the journal.
        """
        source, ending = pull.definition.source, JOURNAL_ENDING
        if not source.endswith(ending):
            return frozenset()
        read = self._find(pull.definition.guid, source.removesuffix(ending))
        return frozenset() if read is None else read.moved_digests()

    def _keep(self, pull: Pull, step: _Taking) -> None:
        definition, key = pull.definition, page_key(pull.definition.number, pull.definition.pages)
        self.core.define(TABLE_PULLED, key, packed_entries(step.entries), step.change)
        if definition.copying and not definition.copied:
            definition.copied, definition.moved_pages = True, definition.pages
        definition.pages += 1
        definition.messages += len(step.entries)
        definition.size += step.size
        definition.last = self.core.utc
        self._define(pull, step.change)

    def _define(self, pull: Pull, change: Change) -> None:
        definition = pull.definition
        self.core.define(TABLE_PULL, pull_key(definition.number), encode_pull(definition), change)

    # -- the end

    def forget(self, number: int) -> None:
        """What was taken is no longer known: another run takes all that the source has."""
        pull = self.get(number)
        if self.is_running(pull):
            raise pull.violation()
        change = Change()
        self._forget(pull, change)
        self.core.commit(change)

    def forget_queue(self, queue: Queue, change: Change) -> None:
        """A queue is deleted, and with it what was pulled into it."""
        for pull in [p for p in self._pulls.values() if p.definition.target == queue.number]:
            self._forget(pull, change)

    def _forget(self, pull: Pull, change: Change) -> None:
        definition, core = pull.definition, self.core
        for page in range(definition.pages):
            core.define(TABLE_PULLED, page_key(definition.number, page), None, change)
        core.define(TABLE_PULL, pull_key(definition.number), None, change)
        self._entries -= len(pull)
        del self._pulls[definition.number]

    def _name(self, pull: Pull) -> str:
        queue = self.target_of(pull)
        return "" if queue is None else queue.name


class _Taking:
    """One offer: what is new of it becomes part of a change."""

    def __init__(
        self,
        core: Ledger,
        admission: Admission,
        sending: Accepting,
        pull: Pull,
        queue: Queue,
        moved: AbstractSet[int],
        room: int,
    ) -> None:
        self._core = core
        self._admission = admission
        self._sending = sending
        self._pull = pull
        self._queue = queue
        self._moved = moved  # digests of messages that pulls put into this journal
        self._room = room  # for entries
        self._taken = self._known = 0
        self._stay: list[int] = []
        self.change = Change()
        self.entries: list[PullEntry] = []
        self.size = 0

    def run(self, offered: Iterable[OfferedMessage]) -> OfferOutcome:
        """All of them, or those in front of one for which there is no room."""
        waiting, refused = list(offered), list[RefusedMessage]()
        for at, message in enumerate(waiting):
            try:
                self._take(message)
            except _FULL as error:
                left = len(waiting) - at
                return self._outcome(refused, error, left)
            except QueueError as error:
                refused.append(RefusedMessage(message.lookup_id, error))
            except RemoteProtocolError as error:
                wrong = InvalidParameter(f"not a message: {error}")
                refused.append(RefusedMessage(message.lookup_id, wrong))
        return self._outcome(refused)

    def _outcome(
        self, refused: list[RefusedMessage], stopped: QueueError | None = None, left: int = 0
    ) -> OfferOutcome:
        return OfferOutcome(self._taken, self._known, refused, stopped, left, tuple(self._stay))

    def _take(self, message: OfferedMessage) -> None:
        batch = Batch.of(message.packet)
        Packet(message.packet, batch.head).check()
        digest = message_digest(message.packet, message.message_class)
        entry = PullEntry(message.lookup_id, digest)
        if self._is_known(entry):
            self._known += 1
            return
        if entry.digest in self._moved:
            self._stay.append(entry.lookup_id)
            return
        if len(self.entries) >= self._room:
            raise InsufficientResources(
                f"{self._core.settings.limits.pulled_messages_max:,} pulled messages are "
                "remembered, which is the limit",
                "Forget finished pulls (posthouse migrate forget), or raise [limits] "
                "pulled_messages_max.",
            )
        self._arrive(message, batch)
        self._pull.add(entry)
        self.entries.append(entry)
        self._taken += 1
        self.size += batch.size

    def _is_known(self, entry: PullEntry) -> bool:
        digest = self._pull.digest_of(entry.lookup_id)
        if digest is not None and digest != entry.digest:
            raise identifier_reused(entry.lookup_id)
        return digest is not None

    def _arrive(self, message: OfferedMessage, batch: Batch) -> None:
        """Nothing refuses it after its admission."""
        core, queue, seen = self._core, self._queue, batch.head
        copies = queue.definition.role in _COPIES
        flags = self._admitted(batch, copies)
        wants = 0 if copies or flags & FLAG_TRANSACTIONAL else wants_of(seen) & WANT_DEAD_LETTER
        row = row_of(
            seen,
            queue.number,
            min(message.arrived or core.utc, core.utc),
            NEVER if copies else self._sending.expiry(queue, batch),
            flags & ~FLAG_EXPRESS | FLAG_REMOTE,
            wants,
            core.lookup_ids.next(),
        )._replace(message_class=message.message_class)
        numbers = core.arrive(row, batch, change=self.change)
        self._sending.arrived(queue, numbers, row, message.packet, self.change)

    def _admitted(self, batch: Batch, copies: bool) -> int:
        """The flags of its row. A journal and a dead-letter queue have no conditions but room."""
        queue = self._queue
        if not copies:
            in_transaction = bool(batch.head.user_flags & TRANSACTION_HEADER)
            try:
                return self._admission.admit(queue, batch, 0, in_transaction)
            except TransactionUsage as error:
                error.remedy = SAME_KIND
                raise
        self._admission.check_quotas(queue, batch.size, None)
        return flags_of(batch.head, FLAG_COPY)
