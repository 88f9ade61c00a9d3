"""The leases of API callers: which messages each holds, and until when."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from posthouse.api.leases import LeaseJson
from posthouse.api.types import HolderJson
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import InsufficientResources, InvalidHandle, QueueError

ID_SIZE: Final = 16
LEASES_OF_USER: Final = 1_000
LEASES: Final = 10_000
ENDED_OF_USER: Final = 1_000  # kept for callers who ask again because the answer was lost
HOLDERS_SHOWN: Final = 100
ENDED: Final = 10_000  # of all; the user with the most loses the oldest


@dataclass
class Lease:
    """Messages that one caller has, and until when."""

    sid: bytes
    descriptor: OpenQueueDescriptor
    lookup_ids: list[int]
    ends_ms: int
    token_id: str  # the lease ends with it


class Leases:
    """All leases of a queue manager, by identifiers that cannot be guessed."""

    def __init__(self, is_over: Callable[[str], bool] = lambda token_id: False) -> None:
        self._is_over = is_over  # of a token: whether it has expired, or was revoked
        self._open: dict[str, Lease] = {}
        self._ended: dict[bytes, OrderedDict[str, tuple[str, LeaseJson]]] = {}  # by user
        self._ended_count = 0

    def __len__(self) -> int:
        return len(self._open)

    def check_room(self, sid: bytes) -> None:
        """Refuse one more where there are too many."""
        own = sum(lease.sid == sid for lease in self._open.values())
        if own >= LEASES_OF_USER or len(self._open) >= LEASES:
            raise InsufficientResources(
                f"there are {own:,} leases of this user, and {len(self._open):,} of all",
                "End leases, or wait until their time is over.",
            )

    def add(self, manager: QueueManager, lease: Lease) -> str:
        """A new lease; returns its identifier."""
        key = manager.machine.random_bytes(ID_SIZE).hex()
        self._open[key] = lease
        return key

    def find(self, manager: QueueManager, sid: bytes, key: str) -> Lease:
        """A lease of the caller whose time is not over."""
        self.expire(manager)
        found = self._open.get(key)
        if found is None or found.sid != sid:
            raise InvalidHandle(
                "there is no such lease: it has ended, or its time is over",
                "If you did not end it, its messages are available again.",
            )
        return found

    def answered(self, sid: bytes, key: str) -> tuple[str, LeaseJson] | None:
        """How a lease has ended already, and the answer to that."""
        own = self._ended.get(sid)
        return None if own is None else own.get(key)

    def end(self, manager: QueueManager, key: str, outcome: str, answer: LeaseJson) -> None:
        """Its caller has ended the last messages of a lease."""
        sid = self._open[key].sid
        self.forget(manager, key)
        own = self._ended.setdefault(sid, OrderedDict())
        own[key] = (outcome, answer)
        self._ended_count += 1
        if len(own) > ENDED_OF_USER:
            self._drop_ended(sid)
        elif self._ended_count > ENDED:
            self._drop_ended(max(self._ended, key=lambda one: len(self._ended[one])))

    def _drop_ended(self, sid: bytes) -> None:
        """The oldest end of a user is no longer kept."""
        self._ended[sid].popitem(last=False)
        self._ended_count -= 1
        if not self._ended[sid]:
            del self._ended[sid]

    def forget(self, manager: QueueManager, key: str, *, in_doubt: bool = False) -> None:
        """What is left of a lease is available again; in doubt: its caller may have had it."""
        lease = self._open.pop(key)
        with suppress(QueueError):  # the queue was deleted meanwhile
            manager.queues.close_queue(lease.descriptor, in_doubt=in_doubt)

    @property
    def next_ms(self) -> int | None:
        """When the time of the first lease is over."""
        return min((lease.ends_ms for lease in self._open.values()), default=None)

    def expire(self, manager: QueueManager) -> None:
        """End the leases whose time is over."""
        now = manager.machine.now_ms
        for key, lease in self.all():
            if lease.ends_ms <= now or self._is_over(lease.token_id):
                self.forget(manager, key, in_doubt=True)

    def end_of(self, manager: QueueManager, token_ids: Collection[str]) -> None:
        """End the leases of tokens that were revoked, or whose user has changed."""
        for key, lease in self.all():
            if lease.token_id in token_ids:
                self.forget(manager, key, in_doubt=True)

    def all(self) -> list[tuple[str, Lease]]:
        """Return every lease with its identifier, the oldest first."""
        return list(self._open.items())

    def has(self, key: str) -> bool:
        """Return whether there is such a lease."""
        return key in self._open

    def holders(self, queue: Queue, sid: bytes | None) -> list[HolderJson]:
        """Return who holds locked messages of a queue, those with most first.

        Of one user alone, if a SID is given; transactions are left out.
        """
        leased = {id(lease.descriptor) for lease in self._open.values()}
        held: Counter[tuple[str, bool]] = Counter()
        for descriptor in queue.descriptors.values():
            if descriptor.held and sid in (None, descriptor.caller.sid):
                held[descriptor.caller.name, id(descriptor) in leased] += len(descriptor.held)
        return [
            HolderJson(user=user, by="lease" if on_lease else "reader", messages=count)
            for (user, on_lease), count in held.most_common(HOLDERS_SHOWN)
        ]
