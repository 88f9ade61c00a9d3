"""The types of the API for status and health."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from posthouse.api.transfer import Part


class DirectoryStatusJson(Part):
    """How the directory stands: who speaks for it, and since when it is online, or why not.

    It is `shared` where a file or a server speaks for several queue managers; `routing_server`
    is the role of this one.
    `unusable` shows of objects of the authority that could not be used.
    """

    source: str
    online: bool
    since: str
    refreshed: str
    reason: str
    unusable: list[str]
    shared: bool = False
    routing_server: bool = False


class CountedJson(Part):
    """A name and how often."""

    name: str
    count: int


class UnreachableJson(Part):
    """An outgoing queue with messages that cannot connect, and why."""

    queue: str
    messages: int
    reason: str


class ClaimJson(Part):
    """Messages of a queue that a group has claimed; `leased` while a reader of it is at work."""

    queue: str
    group: str
    messages: int
    leased: bool


class DamagedRecordJson(Part):
    """A damaged record of a message that was set aside until an operator has decided.

    `queue` and `lookup_id` are those of a message that is still in its queue and cannot be read;
    without them the log has no message for the record, and it is missing unless it had ended.
    `message` is its internal number as far as the bytes show it, as in the files of an export.
    """

    file: str
    offset: int
    bytes: int
    reason: str
    message: int
    queue: str | None = None
    lookup_id: int | None = None
    found: str | None = None


class DamageListJson(Part):
    """All damaged records that are not decided, in the order of the log."""

    records: list[DamagedRecordJson]


class RecordPlaceJson(Part):
    """Where a damaged record lies."""

    file: Annotated[str, Meta(max_length=32)]
    offset: Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]


class DamageAcceptBody(Part):
    """Records to give up, as the list shows them."""

    records: Annotated[list[RecordPlaceJson], Meta(min_length=1, max_length=10_000)]


class ClockJson(Part):
    """A machine whose clock differs: `behind_s` seconds slow against ours, or fast if negative.

    `messages` of it were dropped here because their time was over by our clock.
    """

    address: str
    behind_s: int
    messages: int
    seen: str


class StatusJson(Part):
    """The queue manager in one look.

    Who may not look at all of it gets the figures of the queues that are visible to the caller.
    `ready`: messages are taken; `not_ready` has the reasons why not. `problems` has a line for each
    thing that an operator should look at, with its remedy.
    """

    name: str
    guid: str
    version: str
    state: str
    online: bool
    queues: int
    messages: int
    bytes: int
    transactions: int | None
    in_doubt: int | None
    throttled: list[str]
    refusals: list[CountedJson]
    url: str  # of the admin endpoint, as others call it; empty where there is none
    directory: DirectoryStatusJson
    time: str
    ready: bool = True
    not_ready: list[str] = field(default_factory=list)
    dead_letters: list[CountedJson] = field(default_factory=list)  # by dead-letter queue
    unreachable: list[UnreachableJson] = field(default_factory=list)
    claims: list[ClaimJson] = field(default_factory=list)
    damaged: int = 0  # damaged records that an operator has to decide
    clocks: list[ClockJson] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    host_change: str = ""  # why the home may be a copy of another one
    domain_trouble: str = ""  # why users of a domain cannot log in by NTLM
    takes_any_name: bool = False  # [queue_manager] accept_any_name
    own_hosts: list[str] = field(default_factory=list)  # names and addresses of this machine
    refused_names: list[str] = field(default_factory=list)  # of messages for other machines


class BooksJson(Part):
    """The books of a queue: accepted is the sum of the others."""

    queue: str
    accepted: int
    waiting: int
    locked: int
    received: int
    expired: int
    purged: int
    rejected: int
    moved_away: int
    lost_express: int
    balanced: bool


class BooksListJson(Part):
    """The books of queues that the caller may look at, and the number to go on after, if any."""

    books: list[BooksJson]
    balanced: bool
    next: int | None = None
