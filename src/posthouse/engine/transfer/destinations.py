"""Which queue of this machine the destination of a message from another machine names."""

from __future__ import annotations

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.model.guids import NULL_GUID
from posthouse.model.names import DirectName, PrivateName, SingleName

_NAMES_MAX = 1024


class Destinations:
    """Finds queues by the names that other machines use for them."""

    def __init__(self, core: Ledger, registry: Queues) -> None:
        self._core = core
        self._registry = registry
        self._names: dict[str, Queue] = {}  # direct ones, by their key
        self._names_version = -1

    def local_queue(self, name: SingleName | None) -> Queue | None:
        """The queue of this machine with that name, if anybody may send there.

        What a direct name means is remembered until any queue changes.
        """
        if not isinstance(name, DirectName):
            return self._find(name)
        version = self._core.rights_version
        if self._names_version != version or len(self._names) >= _NAMES_MAX:
            self._names.clear()
            self._names_version = version
        queue = self._names.get(name.key)
        if queue is None:
            queue = self._find(name)
            if queue is not None:
                self._names[name.key] = queue
        return queue

    def own_queue(self, name: SingleName | None) -> Queue | None:
        """The queue of this machine, also for a private name without the machine's identifier."""
        return self.local_queue(self.own_name(name))

    def own_name(self, name: SingleName | None) -> SingleName | None:
        """Decision 20: no address means this machine, in the name of a private queue too."""
        if isinstance(name, PrivateName) and name.guid == NULL_GUID:
            return PrivateName(self._core.guid, name.number, name.suffix)
        return name

    def note_foreign_name(self, address: str, name: SingleName | None) -> None:
        """A message without a queue: the operator should see a name that is not ours."""
        registry = self._registry
        if isinstance(name, DirectName) and not registry.is_own(name.host, None):
            registry.own.not_ours(name.host, address)

    def _find(self, name: SingleName | None) -> Queue | None:
        registry = self._registry
        queue = None if name is None else registry.find_local(registry.own.addressed(name))
        return queue if queue is not None and queue.definition.role is QueueRole.PLAIN else None
