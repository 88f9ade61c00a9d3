"""Databases in a transaction, by the two-phase methods of the Python DB-API (docs/ways.md).

Every database is prepared first; then the queue manager's commit, one record of its log, is the
decision for all; then the databases are told, and that is confirmed to the queue manager. Who
dies on the way leaves prepared branches, and `recover` settles them: what the queue manager
has decided is committed, what is unknown to it is rolled back.

Written once for all clients: a step is a function whose result may have to be awaited.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Sequence
from inspect import isawaitable
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

from posthouse.client.errors import (
    ClientConnectionError,
    TransactionAborted,
    TransactionInDoubt,
    TransactionUnconfirmed,
)
from posthouse.model.errors import QueueError, TransactionUsage
from posthouse.model.guids import format_guid

T = TypeVar("T")
Steps = Generator[Callable[[], Any], Any, T]
Branches = list[tuple[str, str]]  # name of each, and the database it is in

FORMAT_ID: Final = 0x50485458  # PHTX
RESOURCE_LENGTH_MAX: Final = 256
_GUID_DIGITS: Final = 32
_METHODS: Final = ("xid", "tpc_begin", "tpc_prepare", "tpc_commit", "tpc_rollback", "tpc_recover")
_IDLE, _IN_ERROR, _OPEN = 0, 3, (1, 2, 3)  # of libpq, as both psycopg and psycopg2 report them
_IDENTITY = "SELECT system_identifier::text, current_database() FROM pg_control_system()"


class Decisions(Protocol):
    """What is needed of a session with the queue manager; results may have to be awaited."""

    @property
    def guid(self) -> bytes:
        """The identifier of the queue manager."""

    def outcomes(self, identifiers: list[bytes], resource: str) -> Any:
        """What became of transactions: gives a frame `Outcome`, its states and unconfirmed ones."""

    def confirm(self, identifier: bytes, branches: list[str]) -> Any:
        """These branches are committed."""


class RecoveredTransactions(NamedTuple):
    """What a recovery has settled, and what it had to leave: identifiers of transactions."""

    committed: list[str]
    rolled_back: list[str]
    left: list[str]  # not decided yet, or the database refused


# -- steps


def run_steps(steps: Steps[T]) -> T:
    """Runs them one after the other."""
    give: Callable[[], Callable[[], Any]] = lambda: next(steps)  # noqa: E731
    while True:
        try:
            step = give()
        except StopIteration as end:
            result: T = end.value
            return result
        try:
            value = step()
        except BaseException as error:
            give = _throwing(steps, error)
        else:
            give = _sending(steps, value)


async def await_steps(steps: Steps[T]) -> T:
    """Runs the steps one after the other, and awaits those that are awaitable."""
    give: Callable[[], Callable[[], Any]] = lambda: next(steps)  # noqa: E731
    while True:
        try:
            step = give()
        except StopIteration as end:
            result: T = end.value
            return result
        try:
            value = step()
            if isawaitable(value):
                value = await value
        except BaseException as error:
            give = _throwing(steps, error)
        else:
            give = _sending(steps, value)


def _sending(steps: Steps[T], value: Any) -> Callable[[], Callable[[], Any]]:
    return lambda: steps.send(value)


def _throwing(steps: Steps[T], error: BaseException) -> Callable[[], Callable[[], Any]]:
    return lambda: steps.throw(error)


def _quietly(step: Callable[[], Any]) -> Steps[bool]:
    """A step that may fail: what it was to end is found again by a recovery."""
    try:
        yield step
    except Exception:
        return False
    return True


# -- names


def global_id(guid: bytes, identifier: bytes) -> str:
    """The global part of an xid: the queue manager's identifier, then the transaction's."""
    return guid.hex() + identifier.hex()


def transaction_of(guid: bytes, xid: Any) -> bytes | None:
    """The transaction of ours that an xid belongs to; None for anybody else's."""
    try:
        format_id, gtrid, branch = xid[0], xid[1], xid[2]
        if format_id != FORMAT_ID or not isinstance(branch, str) or len(gtrid) != 64:
            return None
        owner, identifier = bytes.fromhex(gtrid[:_GUID_DIGITS]), bytes.fromhex(gtrid[32:])
    except (TypeError, ValueError, IndexError, KeyError):
        return None
    return identifier if owner == guid else None


# -- a transaction


class Joined:
    """The databases of one transaction."""

    def __init__(self, connections: Sequence[Any], decisions: Decisions, known: Known) -> None:
        for connection in connections:
            missing = [name for name in _METHODS if not hasattr(connection, name)]
            if missing:
                raise TypeError(
                    f"a {type(connection).__name__} cannot be joined: it has no {missing[0]}()"
                )
        if len({id(connection) for connection in connections}) != len(connections):
            raise ValueError("a connection is joined twice")
        self._connections = list(connections)
        self._decisions = decisions
        self._known = known
        self._identifier = b""
        self._begun: list[Any] = []

    def begin(self, identifier: bytes) -> Steps[None]:
        """Begins the part of every database; what an earlier client left there is settled first."""
        self._identifier = identifier
        try:
            for branch, connection in enumerate(self._connections):
                if connection not in self._known:
                    yield from recover(connection, self._decisions, self._known)
                gtrid = global_id(self._decisions.guid, identifier)
                xid = connection.xid(FORMAT_ID, gtrid, str(branch))
                yield lambda c=connection, x=xid: c.tpc_begin(x)  # type: ignore[misc]
                self._begun.append(connection)
        except GeneratorExit:
            raise
        except BaseException:
            yield from self.roll_back()
            raise

    def commit(self, decide: Callable[[Branches], Any], give_up: Callable[[], Any]) -> Steps[None]:
        """Prepares every database, lets the queue manager decide, and informs them."""
        try:
            branches = yield from self._prepare()
        except GeneratorExit:
            raise
        except BaseException:
            yield from self.roll_back()
            yield from _quietly(give_up)
            raise
        try:
            yield lambda: decide(branches)
        except (QueueError, TransactionAborted):
            yield from self.roll_back()
            yield from _quietly(give_up)
            raise
        except ClientConnectionError as error:
            self._forget()
            raise TransactionInDoubt(
                f"whether transaction {format_guid(self._identifier)} is committed is not known: "
                f"{error.cause}"
            ) from error
        except BaseException:  # cancelled: decided or not, the caller has left
            self._forget()
            raise
        yield from self._tell()

    def _prepare(self) -> Steps[Branches]:
        branches: Branches = []
        for branch, connection in enumerate(self._connections):
            if _status(connection) == _IN_ERROR:
                # PREPARE TRANSACTION would roll it back and report success.
                raise TransactionUsage(
                    "a statement failed in a joined database, so the transaction cannot commit",
                    "Let the error end the transaction, or use a savepoint.",
                )
            yield connection.tpc_prepare
            branches.append((str(branch), self._known.resource(connection)))
        return branches

    def _tell(self) -> Steps[None]:
        done: list[str] = []
        failure: Exception | None = None
        for branch, connection in enumerate(self._connections):
            try:
                yield connection.tpc_commit
            except Exception as error:
                failure = error
                self._known.forget(connection)
            else:
                done.append(str(branch))
        if done and not (
            yield from _quietly(lambda: self._decisions.confirm(self._identifier, done))
        ):
            self._forget()  # the next join finds out and confirms
        if failure is not None:
            raise TransactionUnconfirmed(
                f"transaction {format_guid(self._identifier)} is committed, and a database has "
                f"not been informed yet: {failure}"
            ) from failure

    def roll_back(self) -> Steps[None]:
        """Nothing happens in the databases. One that cannot be told is found by a recovery."""
        begun, self._begun = self._begun, []
        for connection in begun:
            if not (yield from _quietly(connection.tpc_rollback)):
                self._known.forget(connection)

    def _forget(self) -> None:
        for connection in self._connections:
            self._known.forget(connection)


class Known:
    """Connections of a session that were recovered, and which database each leads to."""

    def __init__(self) -> None:
        self._resources: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def __contains__(self, connection: object) -> bool:
        try:
            return connection in self._resources
        except TypeError:
            return False

    def note(self, connection: Any, resource: str) -> None:
        """Nothing of earlier clients is left there."""
        with contextlib.suppress(TypeError):  # one that cannot be remembered is looked at each time
            self._resources[connection] = resource

    def resource(self, connection: Any) -> str:
        """The database; empty where that cannot be told."""
        return self._resources[connection] if connection in self else ""

    def forget(self, connection: Any) -> None:
        """Something may be left there."""
        if connection in self:
            del self._resources[connection]


# -- recovery


def recover(connection: Any, decisions: Decisions, known: Known) -> Steps[RecoveredTransactions]:
    """Commits or rolls back what clients that died left prepared in a database.

    The unconfirmed branches are fetched before the database lists its prepared transactions: a
    branch that is not in that list has been committed. A transaction that the queue manager does
    not have by then can no longer be decided.
    """
    resource = yield from _resource(connection)
    unconfirmed: list[tuple[bytes, str]] = []
    if resource:
        unconfirmed = (yield lambda: decisions.outcomes([], resource)).unconfirmed
    listed = yield connection.tpc_recover
    ours = _ours(decisions.guid, connection, listed)
    states: list[str] = []
    if ours:
        identifiers = [identifier for identifier, _ in ours]
        states = (yield lambda: decisions.outcomes(identifiers, "")).states
    recovered = RecoveredTransactions([], [], [])
    for (identifier, xid), state in zip(ours, states, strict=True):
        yield from _settle(connection, decisions, identifier, xid, state, recovered)
    present = {(identifier, xid[2]) for identifier, xid in ours}
    for identifier, branch in unconfirmed:
        if (identifier, branch) not in present:
            yield lambda i=identifier, b=branch: decisions.confirm(i, [b])  # type: ignore[misc]
    known.note(connection, resource)
    return recovered


def _ours(guid: bytes, connection: Any, listed: Iterable[Any]) -> list[tuple[bytes, Any]]:
    """Branches of ours in this database; a server may list those of its other databases too."""
    here = getattr(getattr(connection, "info", None), "dbname", None)
    found = []
    for xid in listed:
        identifier = transaction_of(guid, xid)
        if identifier is not None and getattr(xid, "database", None) in (None, here):
            found.append((identifier, xid))
    return found


def _settle(
    connection: Any,
    decisions: Decisions,
    identifier: bytes,
    xid: Any,
    state: str,
    recovered: RecoveredTransactions,
) -> Steps[None]:
    name = format_guid(identifier)
    if state == "committed":
        done = yield from _quietly(lambda: connection.tpc_commit(xid))
        if done:
            yield lambda: decisions.confirm(identifier, [xid[2]])
        (recovered.committed if done else recovered.left).append(name)
    elif state == "unknown":
        done = yield from _quietly(lambda: connection.tpc_rollback(xid))
        (recovered.rolled_back if done else recovered.left).append(name)
    else:
        recovered.left.append(name)


def _status(connection: Any) -> int | None:
    """The state of its transaction, as libpq reports it; None for other databases."""
    return getattr(getattr(connection, "info", None), "transaction_status", None)


def _resource(connection: Any) -> Steps[str]:
    """Which database a connection leads to, wherever it is reached; empty: unknown."""
    status = _status(connection)
    if status in _OPEN:
        raise TransactionUsage(
            "the connection has a transaction of its own open", "Commit it or roll it back first."
        )
    if status != _IDLE:
        return ""
    cursor, resource = connection.cursor(), ""
    try:
        yield lambda: cursor.execute(_IDENTITY)
        system, database = yield cursor.fetchone
        resource = f"postgresql {system} {database}"[:RESOURCE_LENGTH_MAX]
    except Exception:  # another kind of database, or an account that may not look
        resource = ""
    yield from _quietly(cursor.close)
    yield from _quietly(connection.rollback)
    return resource
