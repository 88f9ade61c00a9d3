"""Where a message that came over HTTP goes ([MC-MQSRM] 3.1.5.1.3)."""

from __future__ import annotations

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.destinations import Destinations
from posthouse.engine.transfer.srmp.redirects import Redirects
from posthouse.engine.transfer.srmp.web_names import web_name
from posthouse.model.names import DirectName

_PLACES_MAX = 1024


class WebRefusal(Exception):
    """A refusal that will not change with time: 400 (decision 33)."""


class WebDestinations:
    """Finds queues by the URLs that messages are sent to."""

    def __init__(
        self, core: Ledger, registry: Queues, redirects: Redirects, destinations: Destinations
    ) -> None:
        self._core = core
        self._registry = registry
        self._redirects = redirects
        self._destinations = destinations
        self._places: dict[str, tuple[DirectName, Queue | None]] = {}  # by URL
        self._places_version = -1

    def place(self, to: str) -> tuple[DirectName, Queue | None]:
        """The name that a URL stands for and the queue here, None for a queue elsewhere.

        What a URL means is remembered until any queue changes.
        """
        version = self._core.rights_version
        if self._places_version != version or len(self._places) >= _PLACES_MAX:
            self._places.clear()
            self._places_version = version
        place = self._places.get(to)
        if place is None:
            place = self._places[to] = self._find(to)
        return place

    @property
    def forwards(self) -> bool:
        """Whether messages for other machines go on from here."""
        settings = self._core.settings
        return settings.queue_manager.routing_server and settings.srmp.forwarding

    def _find(self, to: str) -> tuple[DirectName, Queue | None]:
        name = self._name(to)
        if self._is_elsewhere(to, name):
            return name, None
        queue = self._destinations.local_queue(name)
        if queue is None:
            raise WebRefusal(f"there is no queue {name} here")
        return name, queue

    def _name(self, to: str) -> DirectName:
        """The queue of `to`, or the one that an inbound redirection puts in its place.

        Choice: redirections are looked up first, so that a name of a web server in front of us can
        be led here; the document has those of our own names only.
        """
        name = web_name(self._redirects.inbound(to) or to)
        if name is None:
            raise WebRefusal("its destination is not a queue that can be reached over HTTP")
        return name

    def _is_elsewhere(self, to: str, name: DirectName) -> bool:
        """Whether a message goes on from here, or would have to."""
        own = self._registry.own
        if own.is_own(name.host, name.port):
            return False
        led = self._redirects.inbound(to) is not None
        return led or self.forwards or not own.takes_any or own.is_own(name.host, None)
