"""A queue: its stored definition, and its state in memory.

That is who has it open, which reads wait in it, cursors and groups. They lead to each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from enum import StrEnum
from typing import NamedTuple, Protocol

import msgspec

from posthouse.engine.ledger.order import START, QueuePosition, QueueRange
from posthouse.engine.ledger.records import Row
from posthouse.engine.ledger.state import QueueState
from posthouse.engine.ledger.steps import SteppedWork
from posthouse.engine.messages.cursor import CURSOR_STATES, CursorEvent, CursorState
from posthouse.engine.pipelines.group import GroupDefinition, group_key
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import IllegalCursorAction, QueueNotAvailable, SharingViolation
from posthouse.model.group_names import GroupMode
from posthouse.model.names import PathName
from posthouse.model.properties import UNLIMITED, QueueAccessType, QueueProperties, QueueShareMode
from posthouse.model.properties import OutgoingQueueState as OutgoingQueueState
from posthouse.model.properties import QueueType as QueueType
from posthouse.security.access import Caller

# Numbers of the queues every queue manager has. 4 is fixed by [MS-MQQB] 2.2.4.
DEADLETTER = 1
DEADXACT = 2
JOURNAL = 3
ORDER_QUEUE = 4
NOTIFY_QUEUE = 5
JOB_FILES = 6
FIRST_FREE_NUMBER = 16


class QueueRole(StrEnum):
    """What a queue is for; roles other than PLAIN belong to another queue or to the machine."""

    PLAIN = "plain"
    JOURNAL = "journal"
    SUBQUEUE = "subqueue"
    DEAD_LETTER = "dead_letter"
    SYSTEM_JOURNAL = "system_journal"
    INTERNAL = "internal"  # order_queue$, notify_queue$: never opened by applications
    OUTGOING = "outgoing"
    CONNECTOR = "connector"  # for who hands messages to a foreign system
    JOB_FILES = "job_files"  # data of jobs, which only the job queues see


class QueueDefinition(msgspec.Struct, omit_defaults=True):
    """The persistent attributes of a queue ([MS-MQDMPR] 3.1.1.2, 3.1.1.3)."""

    number: int
    queue_type: QueueType
    role: QueueRole
    pathname: str
    identifier: bytes = bytes(16)
    label: str = ""
    type_guid: bytes = bytes(16)
    journaling: bool = False
    quota_kib: int = UNLIMITED
    journal_quota_kib: int = UNLIMITED
    authentication: bool = False
    privacy_level: int = 1  # 0 none, 1 optional, 2 body
    transactional: bool = False
    multicast_address: str = ""
    base_priority: int = 0
    create_time: int = 0
    modify_time: int = 0
    security: bytes = b""
    parent: int = 0  # of a journal or subqueue
    journal: int = 0  # number of its journal queue
    format_name: str = ""  # of an outgoing queue
    multicast: bool = False
    on_hold: bool = False
    full_path: str = ""
    directory_path: str = ""
    answers_at: str = ""  # of an outgoing queue for order_queue$: the host that may have them
    code_page: str = ""  # of senders of VT_LPSTR bodies; empty: the default
    max_aborts: int = 0  # after this many a message goes to the poison queue; 0: never
    poison_queue: str = ""  # a subqueue, `;poison`, or a queue here; empty: the default
    retry_delays: tuple[int, ...] = ()  # seconds before the next try, after each abort
    made_for: str = ""  # of an outgoing queue that holds answers only: the address they go to


def new_definition(path: PathName, kind: QueueType, properties: QueueProperties) -> QueueDefinition:
    """The definition of a queue that is to be created; it gets its number at the very end."""
    return QueueDefinition(
        number=0,
        queue_type=kind,
        role=QueueRole.PLAIN,
        pathname=str(path),
        label=properties.label,
        type_guid=properties.type_guid,
        journaling=properties.journaling,
        quota_kib=properties.quota_kib,
        journal_quota_kib=properties.journal_quota_kib,
        authentication=properties.authentication,
        privacy_level=properties.privacy_level,
        transactional=properties.transactional,
        multicast_address=properties.multicast_address or "",
        base_priority=properties.base_priority,
        code_page=properties.code_page,
        max_aborts=properties.max_aborts,
        poison_queue=properties.poison_queue,
        retry_delays=properties.retry_delays,
    )


encode_definition = msgspec.msgpack.Encoder().encode
decode_definition = msgspec.msgpack.Decoder(QueueDefinition).decode


class ConnectionAttempt(NamedTuple):
    """An entry of ConnectionHistory ([MS-MQDMPR] 3.1.1.3)."""

    status: int
    time: int
    error: int
    next_hops: tuple[str, ...]


HELD = frozenset({OutgoingQueueState.ON_HOLD, OutgoingQueueState.LOCKED})
"""States that an operator or the machine has put an outgoing queue into."""


class SendingSession(Protocol):
    """The session that sends the messages of an outgoing queue."""

    @property
    def unacknowledged(self) -> int:
        """How many it has sent that are not acknowledged."""
        ...

    def holds(self, number: int, row: Row) -> bool:
        """Whether it has sent the message, so that the peer may have it."""
        ...

    def resend(self) -> None:
        """Sends again what is not acknowledged."""
        ...

    def send_again_behind(self, lookup_id: int) -> None:
        """Sends again what follows on a message."""
        ...

    def end(self) -> None:
        """The session is gone."""
        ...


class Outgoing:
    """The volatile side of an outgoing queue."""

    __slots__ = (
        "connected_since",
        "connection_history",
        "engaged",
        "last_error",
        "next_hops",
        "retry_time",
        "sender",
        "service",
        "settled",
        "state",
        "web",
    )

    def __init__(
        self,
        state: OutgoingQueueState,
        history_max: int,
        *,
        service: bool = False,
        web: bool = False,
    ) -> None:
        self.state = state
        self.web = web  # its messages travel over HTTP
        self.service = service  # it leads to a queue by which queue managers talk
        self.sender: SendingSession | None = None  # of the session that sends its messages
        self.settled = 0  # lookup id: up to there all wait for final answers only
        self.last_error = ""  # why the last attempt to connect failed, in words
        self.retry_time = 0  # UTC seconds of the next one; 0: none is planned
        self.connected_since = 0  # UTC seconds: no attempt has failed since; 0: the last one has
        self.engaged = False  # a protocol has a session for it, or works on one
        self.next_hops: tuple[str, ...] = ()
        self.connection_history: deque[ConnectionAttempt] = deque(maxlen=history_max)


class Queue:
    """A queue at run time. Its messages are in `state`, shared with the log's view of the world."""

    __slots__ = (
        "aliases",
        "awaited",
        "ceiling_kib",
        "claim",
        "consumer",
        "definition",
        "deleted",
        "descriptors",
        "exclusive",
        "groups",
        "journal",
        "limit",
        "locked",
        "number",
        "outgoing",
        "parent",
        "path",
        "reserved",
        "state",
        "subqueues",
        "waiters",
    )

    def __init__(self, definition: QueueDefinition, path: PathName | None, state: QueueState):
        self.number = definition.number
        self.definition = definition
        self.path = path
        self.state = state
        self.parent: Queue | None = None
        self.journal: Queue | None = None
        self.subqueues: dict[str, Queue] = {}
        self.descriptors: dict[int, OpenQueueDescriptor] = {}
        self.exclusive = 0  # of these, how many keep others from receiving
        self.waiters: dict[int, WaitingMessageReadOperation] = {}
        self.aliases: dict[int, int] = {}  # lookup ids from before a move, of the whole family
        self.outgoing: Outgoing | None = None
        self.locked = 0
        self.reserved = 0  # bytes of uncommitted sends, also to subqueues: the quota counts them
        self.awaited = 0  # messages that open transactions are going to move here
        self.deleted = False
        self.groups: dict[str, Group] = {}
        self.consumer: Group | None = None  # the last group that had its lease or has claims
        self.claim: QueueRange | None = None  # what that keeps from everybody else
        self.ceiling_kib = UNLIMITED  # what others than its operator have set
        self.limit = 0
        self.set_limit()

    def set_limit(self) -> None:
        """The quota in bytes, from the definition and what holds beside it."""
        quota = min(self.definition.quota_kib, self.ceiling_kib)
        self.limit = (1 << 63) if quota == UNLIMITED else quota << 10

    def has_room_for(self, size: int) -> bool:
        """Whether its quota leaves that number of bytes; uncommitted sends count (O12).

        Subqueues share the quota of their queue, so ask this of the `root` of a subqueue.
        """
        state = self.state
        return state.bytes + state.subqueue_bytes + self.reserved + size <= self.limit

    def expect(self, source: Queue, size: int) -> None:
        """Keep the queue, and room in it, for a message that an open transaction moves here."""
        self.awaited += 1
        if self.root is not source.root:
            self.root.reserved += size

    def expect_no_more(self, source: Queue, size: int) -> None:
        """Undo `expect`: the transaction has ended."""
        self.awaited -= 1
        if self.root is not source.root:
            self.root.reserved -= size

    @property
    def root(self) -> Queue:
        """The queue itself, or the one it is a subqueue of: the family moves stay in."""
        is_subqueue = self.definition.role is QueueRole.SUBQUEUE and self.parent is not None
        return self.parent if is_subqueue and self.parent else self

    @property
    def name(self) -> str:
        """For people: the path name, or the destination of an outgoing queue."""
        return self.definition.pathname or self.definition.format_name

    @property
    def code_page(self) -> str:
        """The code page of VT_LPSTR bodies; a journal or subqueue has that of its queue."""
        return (self.parent or self).definition.code_page

    def place_of(self, lookup_id: int) -> tuple[QueuePosition | None, int]:
        """Where the message with this identifier stands; number 0 when it is not here."""
        priority, number = self.state.order.number(lookup_id)
        return (QueuePosition(priority, lookup_id), number) if number else (None, 0)

    def current_number(self, lookup_id: int) -> int:
        """The message with this identifier, also under one it had before a move; 0 when none."""
        _, number = self.state.order.number(lookup_id)
        return number or self.root.aliases.get(lookup_id, 0)

    @property
    def is_service(self) -> bool:
        """Whether it is, or leads to, a queue by which queue managers talk."""
        if self.outgoing is not None:
            return self.outgoing.service
        return self.definition.role is QueueRole.INTERNAL

    def make_room(self, priority: int, lookup_id: int) -> None:
        """A message came back: seeks must not skip it."""
        lane = self.state.order.lane(priority)
        if lookup_id < lane.floor:
            lane.floor = lookup_id


class OpenQueueDescriptor:
    """A queue opened by somebody for something. `queue` is None once the queue is deleted."""

    __slots__ = (
        "access",
        "association",
        "caller",
        "checked",
        "context",
        "cursors",
        "format_name",
        "handle",
        "held",
        "nested",
        "queue",
        "share",
        "waiting",
    )

    def __init__(
        self,
        handle: int,
        context: int,
        queue: Queue | None,
        access: QueueAccessType,
        share: QueueShareMode,
        format_name: str,
        caller: Caller,
        association: object,
    ) -> None:
        self.handle = handle
        self.context = context  # unguessable: the move context of remote readers
        self.queue = queue
        self.access = access
        self.share = share
        self.format_name = format_name
        self.caller = caller
        self.association = association
        self.nested: tuple[OpenQueueDescriptor, ...] = ()
        self.cursors: dict[int, Cursor] = {}
        self.waiting: dict[int, WaitingMessageReadOperation] = {}
        self.held: set[int] = set()  # messages it has read and not ended
        self.checked = -1  # the rights version it was last checked for

    def target(self) -> Queue:
        """The queue, or MQ_ERROR_QUEUE_NOT_AVAILABLE once it is gone."""
        if self.queue is None:
            raise QueueNotAvailable(
                f"the queue {self.format_name} has been deleted or closed",
                "Open the queue again, if it still exists.",
            )
        return self.queue


class WaitingMessageReadOperation:
    """[MS-MQDMPR] 3.1.1.10: a read that waits for a message."""

    __slots__ = (
        "count",
        "cursor",
        "deadline_ms",
        "descriptor",
        "destructive",
        "order",
        "queue",
        "tag",
        "token",
        "transaction",
        "two_phase",
    )

    def __init__(
        self,
        order: int,
        queue: Queue,
        descriptor: OpenQueueDescriptor,
        *,
        destructive: bool,
        token: object,
        tag: Hashable,
        deadline_ms: int | None,
        cursor: Cursor | None,
        transaction: Transaction | None,
        two_phase: bool,
        count: int = 1,
    ) -> None:
        self.count = count  # this many messages at most, of those that are there when it is served
        self.order = order
        self.queue = queue
        self.descriptor = descriptor
        self.destructive = destructive
        self.token = token
        self.tag = tag
        self.deadline_ms = deadline_ms
        self.cursor = cursor
        self.transaction = transaction
        self.two_phase = two_phase

    @property
    def access(self) -> QueueAccessType:
        """What the read needs of its descriptor."""
        return QueueAccessType.RECEIVE if self.destructive else QueueAccessType.PEEK


class Cursor:
    """A place in a queue that one reader moves forward."""

    __slots__ = ("closed", "descriptor", "handle", "place", "state")

    def __init__(self, handle: int, descriptor: OpenQueueDescriptor) -> None:
        """Initialize (3.2.7.1): before the first message, unread."""
        self.handle = handle
        self.descriptor = descriptor
        self.place: QueuePosition = START
        self.state = CURSOR_STATES.first
        self.closed = False

    @property
    def waiting(self) -> bool:
        """An operation waits on it: nothing else may use it meanwhile."""
        return self.state in (CursorState.WAIT_PEEK, CursorState.WAIT_RECEIVE)

    def require(self, *allowed: CursorState) -> None:
        """MQ_ERROR_ILLEGAL_CURSOR_ACTION unless the cursor is in one of these states."""
        if self.closed or self.state not in allowed:
            state = "closed" if self.closed else self.state.value
            raise IllegalCursorAction(f"the cursor is {state}, which does not allow this")

    def advance(self, event: CursorEvent, place: QueuePosition | None = None) -> None:
        """One transition of the table, to a new place where the event has one."""
        if not CURSOR_STATES.allows(self.state, event):
            raise IllegalCursorAction(f"{event.value} is not possible while {self.state.value}")
        self.state = CURSOR_STATES.after(self.state, event)
        if place is not None:
            self.place = place


class Group:
    """A group at run time."""

    __slots__ = ("acknowledging", "definition", "lease_until_ms", "queue")

    def __init__(self, definition: GroupDefinition, queue: Queue) -> None:
        self.definition = definition
        self.queue = queue
        self.lease_until_ms = 0  # on the monotonic clock; 0: there is no lease
        self.acknowledging: Acknowledging | None = None  # an acknowledgment that is not done

    @property
    def name(self) -> str:
        """What it is called, in its queue."""
        return self.definition.name

    @property
    def consumes(self) -> bool:
        """Whether its acknowledgments receive messages."""
        return self.definition.mode is GroupMode.CONSUME

    @property
    def has_claims(self) -> bool:
        """Whether it keeps messages from everybody else, lease or no lease."""
        return self.definition.claimed > self.begin

    @property
    def begin(self) -> int:
        """Where its claim begins; messages between its position and here are anybody's."""
        return max(self.definition.position, self.definition.claim_after)

    @property
    def claim(self) -> QueueRange:
        """What it keeps from everybody else."""
        return QueueRange(self.begin, self.definition.claimed)

    def unclaim(self) -> None:
        """It keeps nothing."""
        definition = self.definition
        definition.claimed, definition.claim_after, definition.stream = definition.position, 0, ""

    @property
    def key(self) -> bytes:
        """Of its definition."""
        return group_key(self.queue.number, self.name)

    def violation(self, what: str) -> SharingViolation:
        """The refusal of a call that comes between the group and its queue."""
        return SharingViolation(
            f"{what}: the group {self.name} reads {self.queue.name}",
            f"Wait until its reader has ended, or if that is lost for good end it: {self.freeing}",
        )

    @property
    def freeing(self) -> str:
        """The command that ends its lease and its claims."""
        return f"posthouse group release '{self.queue.name}' {self.name}"


class Acknowledging(SteppedWork):
    """Claimed messages are received, in lookup-identifier order, in as many steps as it takes."""

    __slots__ = ("group", "received", "through")

    def __init__(self, group: Group, through: int) -> None:
        super().__init__()
        self.group = group
        self.through = through
        self.received = 0  # so far
