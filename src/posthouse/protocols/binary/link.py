"""A link: one destination with its queues, its session and its retries."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from posthouse.engine.settings import host_key
from posthouse.protocols.binary.link_states import LINK_STATES, BinaryLinkEvent
from posthouse.protocols.binary.link_states import BinaryLinkState as BinaryLinkState
from posthouse.protocols.binary.next_hop_lookup import Candidate, Destination, NextHop, as_address
from posthouse.protocols.binary.session import BinarySession


class BinaryLink:
    """One destination, any number of outgoing queues, and at most one session, opened by us."""

    def __init__(
        self, key: object, destination: Destination | None, due: Callable[[BinaryLink], None]
    ) -> None:
        self.key = key
        self.destination = destination  # None: the directory had no answer
        self.state = LINK_STATES.first
        self.queues: dict[int, None] = {}
        self.served: set[int] = set()  # those that were on its session, if only for a while
        self.session: BinarySession | None = None
        self.hops: list[NextHop] = []  # NextHopCollection
        self.at = 0  # NextHopIndexer
        self.addresses: frozenset[str] = frozenset()  # where the name led to the last time
        self.places: frozenset[tuple[bytes, str]] = frozenset()  # the same, with the GUIDs expected
        self.has_no_way = False  # the last time, there was no next hop to try
        self.routes_seen = 0, 0  # versions of the directory, when its next hops were looked for
        self.guid = b""  # of the queue manager that answered there
        self.peers: set[bytes | str] = set()  # what it is found by, in `Links`
        self.attempt = 0  # a number for each, so that late answers are known as such
        self.pinged = False  # in this attempt
        self.failures = 0  # in a row
        self.opened_at_ms = 0
        self.retry_at_ms: int | None = None
        self.last_error = ""
        # Set while all its messages are sent and it only waits for acknowledgments: later messages
        # are new.
        self.rests_since: int | None = None
        self._due = due

    def happened(self, event: BinaryLinkEvent) -> None:
        """One transition of the table."""
        self.state = LINK_STATES.after(self.state, event)

    @property
    def is_bound(self) -> bool:
        """Whether it leads to where somebody has called from in the name of its queue manager.

        What is owed to that host travels on it, and nothing else: anybody can claim a GUID.
        """
        return self.destination is not None and self.destination.is_bound

    @property
    def hop(self) -> NextHop | None:
        """The next hop in use."""
        return self.hops[self.at] if self.at < len(self.hops) else None

    def leads_to(self, guid: bytes, address: str) -> bool:
        """Whether this queue manager is a next hop of it, and has this address."""
        return (guid, address) in self.places and not self.is_bound

    @property
    def is_resting(self) -> bool:
        """Whether its peer is well, and nothing was left to send when it began to wait."""
        return self.state is BinaryLinkState.WAITING_RECONNECT and self.rests_since is not None

    def has_tried(self, candidates: Iterable[Candidate]) -> bool:
        """Whether all of these were among those to try the last time."""
        guids = {guid for guid, _ in self.places}
        return all(
            one.guid in guids
            and (as_address(one.host) is None or self.leads_to(one.guid, host_key(one.host)))
            for one in candidates
        )

    @property
    def has_further_hop(self) -> bool:
        """Whether the list of next hops goes on after the one in use."""
        return self.at + 1 < len(self.hops)

    def tick(self) -> None:
        """Its timer: the Session Retry Connect Timer (3.1.2.3)."""
        self._due(self)

    def next_deadline_ms(self) -> int | None:
        """When it connects again."""
        return self.retry_at_ms if self.state is BinaryLinkState.WAITING_RECONNECT else None
