"""Results of the last requests of client sessions, so that a session can resume.

A client that lost an answer asks again with the same request id and gets what was decided the first
time; nothing is done twice. So the result of a request is kept in the step that it belongs to:

- A commit, a send that is a transaction of its own and the end of received messages are one CHANGE
  record, and the result is part of it.
- A batch of messages is a record for each. The result stands in front of them and names their
  numbers; after a crash it is cut to those that the log has, and asked again the rest is sent.

Results of express messages are kept in memory only: a crash takes both. A clean stop keeps both.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter

import msgspec

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import (
    EXPRESS,
    MESSAGE,
    TABLE_CLIENT_SESSION,
    Change,
    unpack_arrival,
)
from posthouse.model.errors import AccessDenied, InsufficientResources, InvalidParameter

_KIND = itemgetter(0)  # of a record
NAME_SIZE = 16
UNANSWERED_MAX = 64  # requests of one name whose answers its client may still miss
NAMES_MAX = 10_000  # of all accounts
KEPT_S = 24 * 3600  # after the last use

SENT, COMMITTED, ENDED = 1, 2, 3  # kinds of results; numbers are part of the store's format
_WORDS = {SENT: "a send", COMMITTED: "a commit", ENDED: "an end of messages"}

Run = tuple[int, int, int]  # first number, first ordinal, count: both go up by one
Send = Callable[[list[bytes]], list[int]]


class Result(msgspec.Struct, array_like=True):
    """The stored result of a request."""

    request_id: int
    kind: int
    used: int  # UTC seconds
    count: int  # of messages asked for
    runs: list[Run] = []  # of a send: what was taken in, all of it unless a crash cut it
    asked: bytes = b""  # a digest of the request, where its caller may change it

    @property
    def ordinals(self) -> list[int]:
        """The ordinals that the messages of a send got."""
        return [ordinal for _, first, count in self.runs for ordinal in range(first, first + count)]


class SessionOwner(msgspec.Struct, array_like=True):
    """The owner of a session name."""

    account: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode_result = msgspec.msgpack.Decoder(Result).decode
_decode_owner = msgspec.msgpack.Decoder(SessionOwner).decode


class NamedSession:
    """A session name: its account, who has it now, and its last results."""

    __slots__ = ("account", "holder", "name", "results", "stored", "used")

    def __init__(self, name: bytes, account: bytes, used: int) -> None:
        self.name = name
        self.account = account
        self.used = used
        self.holder: object = None
        self.stored = False  # the log has the name
        self.results: dict[int, Result] = {}  # by slot

    def kept(self, request_id: int, kind: int, asked: bytes = b"") -> Result | None:
        """What the request came to before; None if it is new."""
        kept = self.results.get(request_id % UNANSWERED_MAX)
        if kept is None or kept.request_id < request_id:
            return None
        if kept.request_id > request_id:
            raise InvalidParameter(f"the result of request {request_id} is no longer kept")
        if kept.kind != kind:
            raise InvalidParameter(f"request {request_id} was {_WORDS[kept.kind]}")
        if kept.asked != asked:
            raise InvalidParameter(
                f"number {request_id} of this series was another request",
                "Increase the number with each message.",
            )
        return kept

    def key(self, request_id: int) -> bytes:
        """The key of a result in the log."""
        return self.name + bytes((request_id % UNANSWERED_MAX,))


class ClientSessions:
    """The names of client sessions."""

    def __init__(self, core: Ledger) -> None:
        self.core = core
        self._names: dict[bytes, NamedSession] = {}
        # Without a connection, the oldest first.
        self._idle: OrderedDict[bytes, NamedSession] = OrderedDict()
        self._idle_of: dict[bytes, dict[bytes, NamedSession]] = {}  # the same by account
        self._count_of: Counter[bytes] = Counter()  # names of each account

    def __len__(self) -> int:
        return len(self._names)

    # -- start

    def load(self) -> None:
        """Everything the log kept; to be called while it is known which messages are pending."""
        state = self.core.state
        found: dict[bytes, NamedSession] = {}
        results: list[tuple[bytes, bytes]] = []
        for key, value in state.of_table(TABLE_CLIENT_SESSION):
            if len(key) == NAME_SIZE:
                found[key] = NamedSession(key, _decode_owner(value).account, 0)
                found[key].stored = True
            else:
                results.append((key, value))
        change = Change()
        for key, value in results:
            session = found[key[:NAME_SIZE]]
            result = _decode_result(value)
            self._cut(session, result, change)
            session.used = max(session.used, result.used)
        for session in sorted(found.values(), key=lambda s: s.used):
            self._add(session)
            self._rest(session)
        self.core.effects.commit(change)

    def _cut(self, session: NamedSession, result: Result, change: Change) -> None:
        """Takes out of a send what did not reach the log before a crash."""
        runs = list(self._arrived(result.runs))
        if runs != result.runs:
            result.runs = runs
            self._keep(session, result, change)
        else:
            self._remember(session, result)

    def _arrived(self, runs: list[Run]) -> Iterator[Run]:
        state = self.core.state
        for number, ordinal, count in runs:
            arrived = min(count, max(0, state.last_number + 1 - number))
            while arrived and number + arrived - 1 in state.pending:
                arrived -= 1  # its record is there, the one that makes it count is not
            if arrived:
                yield number, ordinal, arrived
            if arrived < count:
                return

    # -- stop

    def keep_all(self) -> None:
        """A clean stop keeps express messages, so what is only remembered of them is kept too."""
        change, definitions = Change(), self.core.state.definitions
        for session in self._names.values():
            for result in session.results.values():
                key = TABLE_CLIENT_SESSION, session.key(result.request_id)
                if definitions.get(key) != _encode(result):
                    self._keep(session, result, change)
        self.core.commit(change)

    # -- names

    def attach(
        self, name: bytes, account: bytes, holder: object
    ) -> tuple[NamedSession, object | None]:
        """Somebody goes on with a name; also who had it until now and has to go, if anybody."""
        self._forget_old()
        session = self._names.get(name)
        if session is None:
            self._make_room(account)
            session = NamedSession(name, account, self.core.utc)
            self._add(session)
        elif session.account != account:
            raise AccessDenied("the session name belongs to another account")
        else:
            self._rouse(session)
        previous, session.holder = session.holder, holder
        return session, previous

    def detach(self, session: NamedSession, holder: object) -> None:
        """The owner of the name is gone; another one may have it by now."""
        if session.holder is holder:
            session.holder = None
            session.used = self.core.utc
            self._rest(session)
            if not session.results:
                self._forget(session)

    @contextmanager
    def taken_up(self, name: bytes, account: bytes) -> Iterator[NamedSession]:
        """A name for the length of a call, by callers who have no session."""
        held = self._names.get(name)
        if held is not None and held.account == account and held.holder is not None:
            raise InvalidParameter("a client session has this name", "Choose another name.")
        holder = object()
        session, _ = self.attach(name, account, holder)
        try:
            yield session
        finally:
            self.detach(session, holder)

    def _forget_old(self) -> None:
        """Names that were not used for a day."""
        limit = self.core.utc - KEPT_S
        while (oldest := self._oldest()) is not None and oldest.used <= limit:
            self._forget(oldest)

    def _add(self, session: NamedSession) -> None:
        self._names[session.name] = session
        self._count_of[session.account] += 1

    def _rest(self, session: NamedSession) -> None:
        """The name is free for now."""
        self._idle[session.name] = session
        self._idle_of.setdefault(session.account, {})[session.name] = session

    def _rouse(self, session: NamedSession) -> None:
        """Somebody has the name again, or it is gone."""
        if self._idle.pop(session.name, None) is not None:
            names = self._idle_of[session.account]
            del names[session.name]
            if not names:
                del self._idle_of[session.account]

    def _make_room(self, account: bytes) -> None:
        """Drops an idle name of the account with the most: an account never displaces a smaller
        one.
        """
        if len(self._names) < NAMES_MAX:
            return
        count_of = self._count_of
        most = max(self._idle_of, key=lambda one: count_of[one], default=None)
        if most is None or count_of[most] < count_of[account]:
            raise InsufficientResources("too many named sessions are open")
        self._forget(next(iter(self._idle_of[most].values())))

    def _oldest(self) -> NamedSession | None:
        return next(iter(self._idle.values()), None)

    def _forget(self, session: NamedSession) -> None:
        self._rouse(session)
        del self._names[session.name]
        self._count_of[session.account] -= 1
        if not self._count_of[session.account]:
            del self._count_of[session.account]
        if not session.stored:
            return
        change, core = Change(), self.core
        for key in (session.name, *map(session.key, range(UNANSWERED_MAX))):
            if (TABLE_CLIENT_SESSION, key) in core.state.definitions:
                core.define(TABLE_CLIENT_SESSION, key, None, change)
        core.commit(change)

    # -- results

    def once(
        self, session: NamedSession, request_id: int, kind: int, count: int, act: Callable[[], None]
    ) -> int:
        """Does something that is one atomic step, if it was not done before. Returns the count."""
        kept = session.kept(request_id, kind)
        if kept is not None:
            return kept.count
        self.now(session, request_id, kind, count, act)
        return count

    def now(
        self,
        session: NamedSession,
        request_id: int,
        kind: int,
        count: int,
        act: Callable[[], None],
        runs: list[Run] | None = None,
        asked: bytes = b"",
    ) -> None:
        """Does something that was new when it was asked for, whatever its client did meanwhile.

        A result that has given way to that of a later request is no longer kept.
        """
        with self.core.one_step():
            effects = self.core.effects
            at = len(effects.records)
            act()
            result = Result(request_id, kind, self.core.utc, count, runs or [], asked)
            later = session.results.get(request_id % UNANSWERED_MAX)
            if later is not None and later.request_id >= request_id:
                return
            if effects.change or any(record[0] < EXPRESS for record in effects.records[at:]):
                self._keep(session, result, effects.change)
            else:  # express messages only
                self._remember(session, result)

    def send_once(
        self,
        session: NamedSession,
        request_id: int,
        packets: list[bytes],
        send: Send,
        asked: bytes = b"",
    ) -> list[int]:
        """Sends what of a batch was not sent before. Returns the ordinals of all of it."""
        kept, count = session.kept(request_id, SENT, asked), len(packets)
        before: list[int] = []
        earlier: list[Run] = []
        if kept is not None:
            if kept.count != count:
                raise InvalidParameter(f"request {request_id} was a send of {kept.count} messages")
            before, earlier = kept.ordinals, kept.runs
            if len(before) == count:
                return before
        if not packets:
            return send(packets)  # refused or not, it leaves no result
        effects = self.core.effects
        effects.seal()
        at = len(effects.records)
        ordinals = send(packets[len(before) :] if before else packets)
        runs, durable = self._runs(at, ordinals)
        result = Result(request_id, SENT, self.core.utc, count, earlier + runs, asked)
        if durable:
            change = Change()
            self._keep(session, result, change)
            effects.put(change, at)
        else:
            self._remember(session, result)
        return before + ordinals

    def _runs(self, at: int, ordinals: list[int]) -> tuple[list[Run], bool]:
        """Numbers and ordinals of the messages whose records begin there, and if any is durable."""
        records = self.core.effects.records
        kind, first, _, _ = records[at]
        if len(records) == at + 1 and len(ordinals) == 1 and kind in (MESSAGE, EXPRESS):
            return [(first, ordinals[0], 1)], kind == MESSAGE
        kinds = bytes(map(_KIND, records[at:]))
        last, count = records[-1][1], len(ordinals)
        durable = MESSAGE in kinds
        alike = kinds.count(MESSAGE if durable else EXPRESS) == len(kinds) == count
        if alike and last - first == ordinals[-1] - ordinals[0] == count - 1:
            return [(first, ordinals[0], count)], durable
        return self._sought_runs(at, ordinals), durable

    def _sought_runs(self, at: int, ordinals: list[int]) -> list[Run]:
        """Numbers and ordinals of messages that have other records between them."""
        runs: list[Run] = []
        expected = iter(ordinals)
        ordinal = next(expected, None)
        for kind, number, head, _ in self.core.effects.records[at:]:
            if kind in (MESSAGE, EXPRESS) and unpack_arrival(head).row.ordinal == ordinal:
                _add_run(runs, number, ordinal)
                ordinal = next(expected, None)
        assert ordinal is None, "a message of the batch has no record"
        return runs

    def _keep(self, session: NamedSession, result: Result, change: Change) -> None:
        if not session.stored:
            session.stored = True
            owner = _encode(SessionOwner(session.account))
            self.core.define(TABLE_CLIENT_SESSION, session.name, owner, change)
        key = session.key(result.request_id)
        self.core.define(TABLE_CLIENT_SESSION, key, _encode(result), change)
        session.results[result.request_id % UNANSWERED_MAX] = result

    def _remember(self, session: NamedSession, result: Result) -> None:
        session.results[result.request_id % UNANSWERED_MAX] = result


def runs_of(numbers: Iterable[range], ordinals: Sequence[int]) -> list[Run]:
    """Messages by their numbers, with the ordinals that they have in this order."""
    runs: list[Run] = []
    at = 0
    for some in numbers:
        its = ordinals[at : at + len(some)]
        at += len(some)
        if its[-1] - its[0] == len(some) - 1:
            runs.append((some.start, its[0], len(some)))
        else:
            for number, ordinal in zip(some, its, strict=True):
                _add_run(runs, number, ordinal)
    return runs


def _add_run(runs: list[Run], number: int, ordinal: int) -> None:
    """One more message, in the last run if it follows on that."""
    if runs:
        first, first_ordinal, count = runs[-1]
        if (first + count, first_ordinal + count) == (number, ordinal):
            runs[-1] = first, first_ordinal, count + 1
            return
    runs.append((number, ordinal, 1))
