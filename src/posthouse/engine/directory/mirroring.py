"""Keeps the mirror of a shared directory current, and writes this manager's entries to it.

The runtime hands changes in, or the reason why there are none. Each portion is one step of the
log, with the queues that are made, changed or removed because of it: what a change notification
would have done ([MS-MQCN]), for all changes that were missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from posthouse.directory import objects
from posthouse.directory.authority import AuthorityAway, Changes, Refused
from posthouse.directory.base import equals
from posthouse.directory.mirror import Action, News, Order
from posthouse.engine.directory.authority_calls import Answered, enters, enters_us
from posthouse.engine.directory.public_queues import DirectoryOfQueues
from posthouse.engine.ledger.records import TABLE_MANAGER, Change
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.deletion import QueueDeletion
from posthouse.engine.queues.queue import Queue, QueueRole, QueueType
from posthouse.model.errors import QueueError
from posthouse.model.names import PathName, PublicName
from posthouse.model.properties import QueueProperties
from posthouse.security.access import Caller

FAULTS_MAX: Final = 16  # told of
FAULTS_KEPT: Final = 100
LOST: Final = (
    "the directory no longer has this queue manager; `posthouse directory refresh` enters it again"
)
_SOURCE_KEY = b"directory"


class DirectoryState(NamedTuple):
    """The state of the directory for people to read; times are UTC seconds, 0 for never."""

    source: str
    online: bool
    since: int
    refreshed: int
    reason: str
    faults: tuple[str, ...]


class Mirroring:
    """Follows the authority of the directory."""

    def __init__(
        self, queues: DirectoryOfQueues, deletion: QueueDeletion, registry: Queues
    ) -> None:
        self._queues = queues
        self._deletion = deletion
        self._core = queues.core
        self._registry = registry
        self._since = 0
        self._refreshed = 0
        self._faults: list[str] = []
        self._ahead = News([], [], [])  # taken in before the rest of it: what there is to do yet
        self._was_ahead = False
        self._stray: set[bytes] = set()  # own public queues that the authority does not have
        self._may_begin_again = True
        self._has_followed = False  # all our queues have been looked at since the start
        self._entered = False  # and what else is ours
        self._kept_out = ""  # why the authority does not take this queue manager in
        self._not_taken: dict[bytes, str] = {}  # why it does not take queues of ours in

    @property
    def source(self) -> str:
        """The authority's name; empty where the directory is its own."""
        return self._core.settings.directory.source

    def state(self) -> DirectoryState:
        """For `status`."""
        service, mirror = self._queues.service, self._queues.mirror
        if not service.integrated:
            return DirectoryState("none", False, 0, 0, "this is a workgroup", ())
        online = not service.offline
        if not self.source:
            return DirectoryState("embedded", online, 0, 0, "", ())
        reason = "" if online or mirror is None else mirror.reason
        faults = tuple(self._faults[:FAULTS_MAX])
        return DirectoryState(self.source, online, self._since, self._refreshed, reason, faults)

    # -- what the runtime hands in

    def away(self, reason: str) -> None:
        """The authority cannot be asked; reads are answered from what is here (3.1.7.1.20)."""
        mirror, core = self._queues.mirror, self._core
        assert mirror is not None
        was_online = not self._queues.service.offline
        mirror.connected = False
        self._entered = False  # what was under way may not have come to its end
        self._queues.service.went_offline(core.now_ms)
        if (was_online and reason != self._kept_out) or reason != mirror.reason:
            core.event("directory_away", source=self.source, cause=reason)
            self._since = core.utc
        mirror.reason = reason

    def begin_again(self) -> None:
        """An operator asks: we enter ourselves again where the authority has lost us."""
        self._may_begin_again = True

    def take(self, changes: Changes) -> list[Order] | None:
        """Takes in what the authority said; returns what it is to be told of us.

        None: it was not taken in. An authority that had this queue manager and has it no more is
        another one, or was emptied: nothing of ours goes because of that.
        """
        if not self.may_take(changes):
            return None
        self._may_begin_again = False
        mirror, core, service = self._queues.mirror, self._core, self._queues.service
        assert mirror is not None
        was_offline = service.offline or not mirror.connected
        with core.one_step():
            mirror.connected = True
            news = self._with_ahead(mirror.take(changes))
            if any(one.identifier == core.guid for one in news.changed):
                self._entered = False  # another writer may have replaced what only we can provide
            if was_offline or self._was_ahead or news.changed or news.gone:
                service.refreshed([*news.changed, *news.gone], core.now_ms)
                self._find_strays()
                self.follow(news.changed if self._has_followed else self._own_objects())
                self._has_followed, self._was_ahead = True, False
            self._remove_strays()
        self._refreshed = core.utc
        self._note_faults([*changes.faults, *news.faults], whole=changes.whole)
        owed = self._owed()
        if was_offline and not (self._kept_out and any(map(enters_us, owed))):
            self._went_online()
        return owed

    def _went_online(self) -> None:
        self._kept_out = ""
        self._since = self._core.utc
        self._core.event("directory_online", source=self.source)

    def take_ahead(self, values: Sequence[objects.DirectoryObject]) -> None:
        """Takes in a part of changes that `may_take` allows; others are served between parts.

        Where the authority was away it counts as that until `take` has had the last part.
        """
        mirror, core = self._queues.mirror, self._core
        assert mirror is not None
        with core.one_step():
            news = mirror.take_ahead(values)
            self._queues.service.noted(news.changed)
        ours = [one for one in news.changed if self._concerns_us(one)]
        self._was_ahead = self._was_ahead or bool(news.changed)
        self._ahead.changed.extend(ours)
        self._ahead.faults.extend(news.faults)

    def _concerns_us(self, value: objects.DirectoryObject) -> bool:
        is_own_queue = isinstance(value, objects.Queue) and self._is_ours(value)
        return is_own_queue or value.identifier == self._core.guid

    def _with_ahead(self, news: News) -> News:
        ahead, self._ahead = self._ahead, News([], [], [])
        return News([*ahead.changed, *news.changed], news.gone, [*ahead.faults, *news.faults])

    def may_take(self, changes: Changes) -> bool:
        """False where an authority that had this queue manager has it no more."""
        if not self._loses_us(changes):
            return True
        if not self._may_begin_again:
            self.away(LOST)
            return False
        self._forget_source()
        return True

    def entered(self, answers: Sequence[tuple[Order, Answered]]) -> None:
        """What came of all that the authority was to be told of us.

        Only one that has taken everything in can lose some of it: what it refused is not to go
        because it does not have it.
        """
        away = [answer for _, answer in answers if isinstance(answer, AuthorityAway)]
        refused = any(isinstance(one, Refused) and enters(order) for order, one in answers)
        with self._core.one_step():
            for order, answer in answers:
                self._take_entered(order, answer)
            if not away and not refused and self._source_heard() != self.source:
                self._hear_source()
        if away:
            self._entered = False
            self.away(str(away[0]))

    def _take_entered(self, order: Order, answer: Answered) -> None:
        mirror = self._queues.mirror
        assert mirror is not None
        if isinstance(answer, Refused):
            self._refused(order, answer)
        elif isinstance(answer, list):
            (stored,) = answer
            mirror.put(stored)
            if isinstance(stored, objects.Queue):
                self._identified(order.value.identifier, stored)
            self._queues.service.refreshed([stored], self._core.now_ms)
            if self._kept_out and enters_us(order):
                self._went_online()

    def _refused(self, order: Order, answer: Refused) -> None:
        """Facts 4: another object with our name stays as it is, and we stay offline."""
        key, cause = order.value.identifier, str(answer)
        if enters_us(order):
            reason = f"it does not take this queue manager in: {cause}"
            self.away(reason)
            self._kept_out = reason
        elif self._not_taken.get(key) != cause:
            self._core.event("directory_refused", object=_title(order.value), cause=cause)
        if isinstance(order.value, objects.Queue):
            self._not_taken[key] = cause

    def _note_faults(self, faults: list[str], *, whole: bool) -> None:
        known = set(self._faults)
        new = [fault for fault in faults if fault not in known]
        self._faults = (faults if whole else [*new, *self._faults])[:FAULTS_KEPT]
        for fault in faults[:FAULTS_MAX]:
            if fault not in known:
                self._core.event("directory_object_unusable", cause=fault)

    # -- what is ours

    def _owed(self) -> list[Order]:
        """The own object with our own values, and at first contact our public queues."""
        queues, core = self._queues, self._core
        first = self._source_heard() != self.source
        if self._entered and not first:
            return []
        self._entered = True
        orders = list(queues.own_object_orders())
        if first:
            orders += [
                Order(Action.CREATE, queues.object_of(queue.definition), core.utc)
                for queue in self._own_public_queues()
                if queue.definition.identifier in self._stray
            ]
            if not orders:
                self._hear_source()
        return orders

    def say_who_we_are(self) -> None:
        """Values of the own object have changed: they are entered now, or with the next changes."""
        self._entered = False
        self._queues.say_who_we_are()

    def _source_heard(self) -> str:
        found = self._core.state.definitions.get((TABLE_MANAGER, _SOURCE_KEY))
        return "" if found is None else found.decode()

    def _loses_us(self, changes: Changes) -> bool:
        if self._source_heard() != self.source:
            return False
        ours = (objects.QueueManager, self._core.guid)
        listed = ours in changes.unusable or any(
            (type(one), one.identifier) == ours for one in changes.objects
        )
        return (changes.whole and not listed) or ours in changes.gone

    def _forget_source(self) -> None:
        change = Change()
        self._core.define(TABLE_MANAGER, _SOURCE_KEY, None, change)
        self._core.commit(change)

    def _hear_source(self) -> None:
        change = Change()
        self._core.define(TABLE_MANAGER, _SOURCE_KEY, self.source.encode(), change)
        self._core.commit(change)

    # -- public queues of ours

    def _own_public_queues(self) -> list[Queue]:
        return [
            queue
            for queue in self._registry.all()
            if queue.definition.role is QueueRole.PLAIN
            and queue.definition.queue_type is QueueType.PUBLIC
        ]

    def follow(self, values: Sequence[objects.DirectoryObject]) -> None:
        """Events 1 and 2 of a change notification, without the directory (iSkipDirectory)."""
        for value in values:
            if isinstance(value, objects.Queue) and self._is_ours(value):
                if self._registry.find_local(PublicName(value.identifier)) is None:
                    self._create(value)
                self._queues.update_local_queue(value)

    def _is_ours(self, value: objects.Queue) -> bool:
        return value.computer_name.casefold() == self._core.settings.computer_name.casefold()

    def _own_objects(self) -> list[objects.Queue]:
        return [
            one for one in self._queues.directory.all_known(objects.Queue) if self._is_ours(one)
        ]

    def _find_strays(self) -> None:
        """Own public queues that the authority does not have, or no longer has."""
        mirror = self._queues.mirror
        assert mirror is not None
        for queue in self._own_public_queues():
            identifier = queue.definition.identifier
            known = mirror.known(objects.Queue, equals("identifier", identifier))
            (self._stray.discard if known else self._stray.add)(identifier)

    def _create(self, value: objects.Queue) -> None:
        core, registry = self._core, self._registry
        there = registry.find_local(PathName.parse(value.pathname))
        if there is not None and there.definition.identifier not in self._stray:
            core.event("directory_queue_doubled", queue=value.pathname)
            return
        try:
            queue = there or registry.create(
                PathName.parse(value.pathname),
                _properties(value),
                Caller.administrator(),
                security=value.security or None,
                skip_directory=True,
            )
        except QueueError as error:
            core.event("directory_queue_refused", queue=value.pathname, cause=error.cause)
            return
        self._stray.discard(queue.definition.identifier)
        registry.identify(queue, value.identifier, value.full_path, value.directory_path)
        core.event("directory_queue_created", queue=queue.name)

    def _identified(self, before: bytes, stored: objects.Queue) -> None:
        """A queue of ours got its identifier from the authority."""
        for queue in self._own_public_queues():
            if queue.definition.identifier == before:
                registry = self._registry
                registry.identify(queue, stored.identifier, stored.full_path, stored.directory_path)
        self._stray.discard(before)
        self._not_taken.pop(before, None)

    def _remove_strays(self) -> None:
        """Queues that the authority has no more go when they are empty: no message is lost."""
        if not self._stray or self._source_heard() != self.source:
            return
        for queue in self._own_public_queues():
            family = [queue, *queue.subqueues.values(), *([queue.journal] if queue.journal else [])]
            identifier = queue.definition.identifier
            if identifier not in self._stray or any(one.state.count for one in family):
                continue
            try:
                self._deletion.delete(queue, skip_directory=True)
            except QueueError:
                continue  # a group is reading
            self._stray.discard(identifier)
            self._core.event("directory_queue_deleted", queue=queue.name)

    def reason_of(self, queue: Queue) -> str:
        """Why others may not find a public queue of ours; empty where they do."""
        public = queue.definition.queue_type is QueueType.PUBLIC
        if not public or queue.definition.role is not QueueRole.PLAIN:
            return ""
        identifier, mirror = queue.definition.identifier, self._queues.mirror
        if identifier in self._stray and self._source_heard() == self.source:
            return (
                "the directory no longer has this queue; it is deleted when it is empty, so "
                "that no message is lost"
            )
        if identifier in self._stray and (why := self._kept_out or self._not_taken.get(identifier)):
            return f"the directory does not have this queue: {why}"
        if mirror is not None and self._queues.service.offline:
            return f"the directory cannot be asked: {mirror.reason}"
        return ""


def _properties(value: objects.Queue) -> QueueProperties:
    return QueueProperties(
        label=value.label,
        type_guid=value.type,
        journaling=value.journaling,
        quota_kib=value.quota,
        journal_quota_kib=value.journal_quota,
        authentication=value.authentication,
        privacy_level=value.privacy_level,
        transactional=value.transactional,
        multicast_address=value.multicast_address or None,
        base_priority=value.base_priority,
    )


def _title(value: objects.DirectoryObject) -> str:
    name = msgspec.structs.asdict(value).get("pathname", "")
    return f"{type(value).__name__} {name}".strip()
