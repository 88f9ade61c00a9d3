"""The context of a handler: its caller, and what it has beside the engine."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from posthouse.engine.accounts.tokens import Tokens
from posthouse.engine.machine.facade import MachineFacade
from posthouse.engine.manager import QueueManager
from posthouse.engine.operations.operations import Operation
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import AccessDenied
from posthouse.model.names import FormatName, PathName, parse_name
from posthouse.model.roles import Role
from posthouse.protocols.handlers.audit_trail import AuditTrail, NoTrail
from posthouse.protocols.handlers.content_view import ContentView, content_views
from posthouse.protocols.handlers.history_samples import History
from posthouse.protocols.handlers.lease_table import Leases
from posthouse.protocols.handlers.query_limits import QUERIES_MAX, QueryCall, QueryLimits
from posthouse.protocols.handlers.rates import Rates
from posthouse.protocols.handlers.recent_lines import RecentLines
from posthouse.protocols.handlers.refusals import Unavailable
from posthouse.protocols.handlers.request_steps import Outside, Resume
from posthouse.protocols.handlers.request_trace import RequestTrace
from posthouse.protocols.handlers.scan_limits import TAILS_MAX, ScanLimits
from posthouse.protocols.handlers.station_book import StationBook
from posthouse.protocols.pacing import Pace
from posthouse.protocols.settings import LimitSettings
from posthouse.security.access import Caller
from posthouse.store.log import LogStore

Offload = Callable[[Callable[[], object]], Outside]
"""Makes a step of slow, pure work; a server runs it in a thread."""


def on_the_spot(work: Callable[[], object]) -> Outside:
    """Does slow work at once, for doors without threads."""

    def start(resume: Resume) -> None:
        try:
            value = work()
        except Exception as error:
            resume(None, error)
        else:
            resume(value, None)

    return Outside(start)


class Outflow(Protocol):
    """Where an answer goes that is longer than memory: to HTTP, piece by piece."""

    def has_room(self, size: int) -> bool:
        """Whether there is memory for this many bytes now."""

    def room(self, size: int) -> Outside:
        """A step that waits until there is memory for this many bytes, and has them then."""

    def send(self, pieces: Sequence[bytes | memoryview], room: int) -> Outside:
        """A step that ends when the peer has taken these in; so much of the room is free again."""


class Inflow(Protocol):
    """Where a request comes from that is longer than memory: from HTTP, message by message."""

    def next(self) -> Outside:
        """A step for the next message (`ipc_frames.Frame`); its value is None at the end."""

    def done(self) -> None:
        """The last message is worked up."""

    def begin_portion(self) -> Outside:
        """A step that waits for the room that a portion of packets takes while it is made."""

    def end_portion(self) -> None:
        """They are in the log, or given up."""


class AnswerMemory(Protocol):
    """The memory that one request has for what it fetches."""

    def take(self, size: int) -> bool:
        """Whether there was memory for these bytes now; then it has them."""

    def change(self, size: int) -> None:
        """More bytes, which may be refused, or fewer."""

    def room(self, size: int) -> Outside:
        """A step that waits until there is memory for these bytes, and has them then."""

    def until_gone(self, work: Callable[[], Coroutine[Any, Any, object]]) -> Outside:
        """A step that ends with its coroutine, which is cancelled when the caller has gone."""


class Unbounded:
    """`AnswerMemory` without an account, for doors that have none."""

    def take(self, size: int) -> bool:
        """There always is."""
        return True

    def change(self, size: int) -> None:
        """Counts nothing."""

    def room(self, size: int) -> Outside:
        """Waits for nothing."""
        return on_the_spot(lambda: None)

    def until_gone(self, work: Callable[[], Coroutine[Any, Any, object]]) -> Outside:
        """Runs no coroutines."""
        raise Unavailable("this request is answered over HTTP only", "Send it over HTTP.")


class Runs(Protocol):
    """Runs of operations (`operation_runs.py`)."""

    def require_room(self, user: str) -> None:
        """Refuses where one more run is too many."""

    def reserve(self, operation: Operation, context: Context) -> None:
        """Takes a place for a run with the rights of a caller, in the turn that allows it."""

    def start(self, operation: Operation) -> None:
        """Works on an operation that has a place, from now on."""

    def stop(self, operation: Operation) -> None:
        """Ends a run between two steps."""

    def stop_of(self, token_ids: list[str]) -> None:
        """Ends the runs that were begun with these tokens."""

    def is_stopping(self, operation: Operation) -> bool:
        """Whether its run ends soon."""


@dataclass
class Services:
    """What handlers have beside the engine.

    `backup` makes the step that copies the home, `refresh` one that asks the authority of the
    directory for changes, `pause` one that takes this many seconds,
    `offload` and, for bulk reads, `gather` one that would hold up the loop;
    `problems` returns those of the process, such as certificates that expire;
    `store`, `pace` and `gather` are for bulk reads alone, `search_pace` and `search` for searches,
    of which `scans` has the number. `stations` and `leases` are those of callers. `revoked` is told
    of tokens whose sessions are to end, `fault` of errors that are ours.
    """

    tokens: Tokens
    machine: MachineFacade
    rates: Rates
    version: str
    backup: Callable[[str], Outside] | None = None
    refresh: Callable[[str], Outside] | None = None
    ask_peers: Callable[[str], Outside] | None = None  # what they state of a message
    problems: Callable[[], list[str]] = field(default=list)
    store: LogStore | None = None
    offload: Offload = on_the_spot
    gather: Offload = on_the_spot
    search: Offload = on_the_spot
    pace: Pace = field(default_factory=lambda: Pace(LimitSettings().bulk_read_share))
    search_pace: Pace = field(default_factory=lambda: Pace(LimitSettings().bulk_read_share))
    clock_s: Callable[[], float] = field(default=lambda: 0.0)  # does not jump
    pause: Callable[[float], Outside] = field(default=lambda seconds: on_the_spot(lambda: None))
    revoked: Callable[[list[str]], None] = field(default=lambda token_ids: None)
    fault: Callable[[Exception], None] = field(default=lambda error: None)
    scans: ScanLimits = field(default_factory=lambda: ScanLimits(LimitSettings().scans_per_user))
    tails: ScanLimits = field(
        default_factory=lambda: ScanLimits(TAILS_MAX, "tails", "Close one of them.")
    )
    stations: StationBook = field(default_factory=StationBook)
    leases: Leases = field(default_factory=Leases)
    station_lease_ms: int = 60_000  # of stations over plain HTTP
    views: Mapping[Role, ContentView] = field(default_factory=content_views)
    audit: AuditTrail = field(default_factory=NoTrail)
    history: History = field(default_factory=History)
    log: RecentLines = field(default_factory=RecentLines)
    query: Callable[[QueryCall], Coroutine[Any, Any, object]] | None = None
    queries: QueryLimits = field(default_factory=lambda: QueryLimits(QUERIES_MAX))
    operations: Runs = field(init=False)  # of the API, which sets it


@dataclass(frozen=True)
class Context:
    """A request: who asks, how far their token reaches."""

    caller: Caller
    role: Role
    services: Services
    memory: AnswerMemory = field(default_factory=Unbounded)
    """Where what the answer fetches is on the account."""
    outflow: Outflow | None = None
    """For answers that are streams, where the door can carry one."""
    inflow: Inflow | None = None
    """For requests that are streams, where the door can carry one."""
    association: object | None = None
    """The client session that asks; None over plain HTTP."""
    address: str = ""
    """Where the caller is; wrong passwords count there."""
    token_id: str = ""
    """What was shown: the identifier of a token, or what stands for a password."""
    trace: RequestTrace = field(default_factory=RequestTrace)
    """The trace context of the request, and of its answer."""

    @property
    def view(self) -> ContentView:
        """What the role of the caller shows of messages."""
        return self.services.views[self.role]

    def require_administrator(self) -> None:
        """For what concerns the whole queue manager: a token cut to some queues is not enough."""
        if not self.caller.is_administrator:
            raise AccessDenied(f"{self.caller.name} is not an administrator")
        if self.caller.scopes is not None:
            raise AccessDenied("this token is limited to some queues")

    def tell(self, manager: QueueManager, event: str, **details: object) -> None:
        """One line for the operator's log: who changed what."""
        manager.machine.event(event, **details, by=self.caller.name)


Access = QueueAccessType
_ADMINISTRATIVE = {Access.PEEK: Access.PEEK_ADMIN, Access.RECEIVE: Access.RECEIVE_ADMIN}


def find_queue(manager: QueueManager, text: str) -> Queue:
    """The queue here, or the outgoing one, that a name means; rights are looked at elsewhere."""
    name = parse_name(text)
    queue = manager.queues.find_local(name) or _outgoing(manager, name)
    if queue is None:
        raise manager.queues.nothing_to_read(name)
    return queue


def _outgoing(manager: QueueManager, name: PathName | FormatName) -> Queue | None:
    return manager.queues.find_outgoing(name)


@contextmanager
def opened(
    manager: QueueManager, text: str, access: QueueAccessType, context: Context
) -> Iterator[OpenQueueDescriptor]:
    """Open a queue for the length of a step; an outgoing one the way that administrators do.

    A subqueue has to be there: a look at it for one step does not make it.
    """
    name = parse_name(text)
    access = _access_of(manager, name, access)
    if access is not Access.SEND and not manager.queues.would_open(name, access, context.caller):
        raise manager.queues.nothing_to_read(name)
    descriptor = open_queue(manager, text, access, context)
    try:
        yield descriptor
    finally:
        manager.queues.close_queue(descriptor)


def open_queue(
    manager: QueueManager, text: str, access: QueueAccessType, context: Context
) -> OpenQueueDescriptor:
    """Opens a queue for reading or sending; the caller closes it."""
    name = parse_name(text)
    access = _access_of(manager, name, access)
    return manager.queues.open_queue(name, access, context.caller, association=context)


def _access_of(
    manager: QueueManager, name: PathName | FormatName, access: QueueAccessType
) -> QueueAccessType:
    """Return the access that a reader of the queue needs: outgoing queues have one of their own."""
    administrative = _ADMINISTRATIVE.get(access)
    if administrative and manager.queues.find_local(name) is None and _outgoing(manager, name):
        return administrative
    return access
