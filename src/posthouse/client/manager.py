"""The blocking client: queue managers, queues, cursors (docs/python.md).

Objects of one session may be used by several threads at a time.

Made from `aio_manager.py` by `python -m tools.blocking_client`: change that file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from posthouse.api.directory_names import PublicQueueJson
from posthouse.api.failures import FailureGroupJson, ReturnBody, ReturnJson
from posthouse.api.types import (
    BooksListJson,
    Privacy,
    QueueCreateBody,
    QueueJson,
    StatusJson,
)
from posthouse.client import management
from posthouse.client import operations as ops
from posthouse.client.blocking import Channel
from posthouse.client.bodies import Body
from posthouse.client.consumer import Browsing, Consuming
from posthouse.client.database_transactions import (
    Joined,
    Known,
    RecoveredTransactions,
    recover,
    run_steps,
)
from posthouse.client.distributed_operations import SessionDecisions
from posthouse.client.management import QueueSearch
from posthouse.client.message import Message
from posthouse.client.operations import MessageIds
from posthouse.client.packets import Draft
from posthouse.client.queue_handles import OpenQueue, Seek, extended, not_a_transaction
from posthouse.client.requests import CursorHandle, QueueHandle, TransactionHandle
from posthouse.client.send_options import SendOptions
from posthouse.client.transaction import Transaction
from posthouse.model.durations import Seconds
from posthouse.model.errors import IoTimeout, QueueError, QueueExists
from posthouse.model.guids import format_guid

PAGE = 100


class QueueManagerClient:
    """A session with a queue manager; made by `connect` or `open`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._queues: dict[tuple[str, bool], Queue] = {}
        self._known = Known()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<QueueManagerClient of {self.name}>"

    @property
    def name(self) -> str:
        """The computer name of the queue manager."""
        return self._channel.core.computer

    @property
    def guid(self) -> str:
        """The identifier of the queue manager."""
        return format_guid(self._channel.core.guid)

    def close(self) -> None:
        """Ends the session: open transactions abort, messages that were not ended go back."""
        self._channel.close()

    # -- queues

    def create_queue(
        self,
        path: str,
        *,
        transactional: bool = False,
        journal: bool = False,
        authenticated: bool = False,
        privacy: Privacy = "optional",
        quota_kib: int | None = None,
        journal_quota_kib: int | None = None,
        label: str = "",
        base_priority: int = 0,
        multicast: str = "",
        type_id: str | None = None,
        code_page: str = "",
        max_aborts: int = 0,
        poison_queue: str = "",
        retry_delays_s: Sequence[int] = (),
        exist_ok: bool = False,
    ) -> Queue:
        """Creates a queue; with `exist_ok` one that is there is used, and stays as it is.

        One that is not transactional is refused where a transactional one was asked for.
        """
        body = QueueCreateBody(
            path=path,
            label=label,
            transactional=transactional,
            journal=journal,
            authenticated=authenticated,
            privacy=privacy,
            quota_kib=quota_kib,
            journal_quota_kib=journal_quota_kib,
            base_priority=base_priority,
            multicast=multicast,
            type_id=type_id,
            code_page=code_page,
            max_aborts=max_aborts,
            poison_queue=poison_queue,
            retry_delays_s=list(retry_delays_s),
        )
        try:
            self._channel.run(management.create_queue(self._channel.core, body))
        except QueueExists:
            if not exist_ok or (transactional and self._is_plain(path)):
                raise
        return self.queue(path)

    def _is_plain(self, path: str) -> bool:
        """Whether a queue is known not to be transactional."""
        try:
            return not self.queue(path).properties().transactional
        except QueueError:  # it is not this user's to look at
            return False

    def queue(self, name: str, *, exclusive: bool = False) -> Queue:
        """A queue by path name or format name; it is opened when it is first used.

        With `exclusive` no other reader can receive from it meanwhile.
        """
        found = self._queues.get((name, exclusive))
        if found is None:
            found = Queue(self, OpenQueue(self._channel.core, name, exclusive))
            self._queues[name, exclusive] = found
        return found

    def queues(self, *, outgoing: bool = False, system: bool = False) -> list[QueueJson]:
        """All queues that this user may look at, with their figures."""
        core = self._channel.core
        return self._channel.run(management.list_queues(core, outgoing=outgoing, system=system))

    def find_queues(self, **wanted: Unpack[QueueSearch]) -> list[PublicQueueJson]:
        """Public queues of all machines in the directory, in the order of their paths.

        By `label`, `type_id`, `machine`, `created_after`, `created_before`, `modified_after`,
        `modified_before`; at most `limit`, 1000 where it is not said.
        """
        return self._channel.run(management.find_queues(self._channel.core, wanted))

    def delete_queue(self, name: str) -> int:
        """Deletes a queue; returns how many messages went with it and its journal."""
        return self._channel.run(management.delete_queue(self._channel.core, name))

    # -- the rest

    def transaction(self, *, join: Sequence[Any] = ()) -> Transaction:
        """A transaction over any queues of this queue manager, for a `with` statement.

        `join` takes connections of databases with the two-phase methods of the DB-API: what is
        done through them meanwhile commits with the transaction, or not at all.
        """
        decisions = SessionDecisions(self._channel.core, self._channel.run)
        return Transaction(self._channel, Joined(join, decisions, self._known) if join else None)

    def recover(self, connection: Any) -> RecoveredTransactions:
        """Settles what clients that died left prepared in a database; every join does it too."""
        decisions = SessionDecisions(self._channel.core, self._channel.run)
        return run_steps(recover(connection, decisions, self._known))

    def status(self) -> StatusJson:
        """The queue manager in one look."""
        return self._channel.run(management.status(self._channel.core))

    def books(self) -> BooksListJson:
        """The books: for each queue what came in and what became of it."""
        return self._channel.run(management.books(self._channel.core))

    def call(self, method: str, path: str, body: object = None, *, repeatable: bool = False) -> Any:
        """Any call of the JSON API, such as `call("GET", "/status")`.

        One whose answer was lost is asked again if it only looks. `repeatable` is for others that
        are done once however often they are asked: those with a `key` or with `once`.
        """
        core = self._channel.core
        return self._channel.run(
            management.call_plain(core, method, path, body, repeatable=repeatable)
        )

    def call_octets(self, method: str, path: str, octets: bytes = b"") -> bytes:
        """One call of a path that takes or gives bytes as they are, such as job files."""
        return self._channel.run(management.call_octets(self._channel.core, method, path, octets))


class Queue:
    """A queue of the session; made by `QueueManagerClient.queue` and `create_queue`."""

    def __init__(self, manager: QueueManagerClient, opened: OpenQueue) -> None:
        self._manager = manager
        self._channel = manager._channel
        self._core = opened.core
        self._open = opened

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    @property
    def name(self) -> str:
        """The name it was asked for by."""
        return self._open.name

    # -- sending

    def send(
        self,
        body: Body | Message,
        *,
        tx: Transaction | None = None,
        transactional: bool = False,
        **how: Unpack[SendOptions],
    ) -> str:
        """Sends a message and returns its identifier, once the queue manager has it.

        With `delivery="recoverable"` or in a transaction that means: on disk. `transactional`
        makes the message a transaction of its own. A received `Message` is sent again with the
        options that it has; those that are given replace them.
        """
        try:
            handle = None if tx is None else tx.handle
        except AttributeError:
            raise not_a_transaction(tx) from None
        request = self._open.single(body, handle, transactional, how)
        if request is None:
            return self._channel.run(self._open.send(body, handle, transactional, how))
        ordinals = self._channel.ask(request)
        return self._core.message_id(ordinals[0])

    def send_many(
        self,
        bodies: Iterable[Body | Draft | Message],
        *,
        tx: Transaction | None = None,
        transactional: bool = False,
        **how: Unpack[SendOptions],
    ) -> MessageIds:
        """Sends many messages fast, in order; a `Draft` or `Message` has options of its own.

        Outside a transaction those in front of one that is refused are sent.
        """
        return self._channel.run(self._open.send_many(bodies, _handle(tx), transactional, how))

    # -- reading

    def receive(self, timeout: Seconds | None = None, *, tx: Transaction | None = None) -> Message:
        """Takes the first message; waits up to `timeout` seconds for one, for ever with None.

        Raises `IoTimeout` when none came. When it returns, the message is gone from the queue for
        good, or with the transaction's commit.
        """
        return self._channel.run(self._open.receive(1, timeout, _handle(tx)))[0]

    def receive_many(
        self, count: int, timeout: Seconds | None = None, *, tx: Transaction | None = None
    ) -> list[Message]:
        """Takes up to `count` messages; waits only for the first of them."""
        return self._channel.run(self._open.receive(count, timeout, _handle(tx)))

    def peek(self, timeout: Seconds | None = None) -> Message:
        """Looks at the first message, waiting as `receive` does."""
        return self._channel.run(ops.peek(self._core, self._open.peeking, timeout))[0]

    def browse(self, *, page: int = PAGE) -> Iterator[Message]:
        """Looks at all messages in queue order; takes none. They come in pages, as asked for."""
        browsing = Browsing(self._core, self._open.peeking, page)
        try:
            while messages := self._channel.run(browsing.next_page()):
                yield from messages
        finally:
            if browsing.cursor is not None:
                self._channel.run(ops.close_cursor(self._core, browsing.cursor))

    def consume(
        self,
        *,
        timeout: Seconds | None = None,
        batch: int = PAGE,
        prefetch: bool = False,
        at_once: bool = False,
        lookup_id: int | None = None,
    ) -> Consumer:
        """Takes messages on and on, for a `for` statement; see `Consumer`."""
        consuming = Consuming(
            self._core, self._open.receiving, batch, timeout, prefetch, at_once, lookup_id
        )
        return Consumer(self._channel, consuming)

    def lookup(
        self,
        lookup_id: int = 0,
        seek: Seek = "current",
        *,
        receive: bool = False,
        tx: Transaction | None = None,
    ) -> Message:
        """The message with a lookup id, or next to it, or the first or last of all."""
        return self._channel.run(self._open.lookup(lookup_id, seek, receive, _handle(tx)))

    def cursor(self, *, receiving: bool = False) -> Cursor:
        """A cursor in front of the first message; `receiving` lets it take messages too."""
        handle = self._open.receiving if receiving else self._open.peeking
        return Cursor(self._channel, handle)

    def count(self) -> int:
        """How many messages are in the queue, those that readers hold included."""
        return self._channel.run(ops.count(self._core, self._open.peeking)).messages

    # -- moving and removing

    def move(self, message: Message | int, to: Queue, *, tx: Transaction | None = None) -> None:
        """Moves a message, or the one with a lookup id, between queue and subqueues."""
        self._channel.run(self._open.move(message, to._open, _handle(tx)))

    def purge(self) -> int:
        """Removes all messages; returns how many there were."""
        return self._channel.run(ops.purge(self._core, self._open.receiving))

    # -- failed messages

    def failures(
        self, where: str | None = None, *, similar: bool = False
    ) -> list[FailureGroupJson]:
        """The messages in groups of those that failed in the same way, the largest first.

        By exception type, its message and the first stack frame of the application's own code; with
        `similar`, numbers and GUIDs in the message do not count.
        """
        operation = management.failures(self._core, self.name, where, similar=similar)
        return self._channel.run(operation).groups

    def return_messages(
        self,
        where: str | None = None,
        *,
        group: str | None = None,
        lookup_ids: Sequence[int] | None = None,
        to: str | None = None,
        dry_run: bool = False,
    ) -> ReturnJson:
        """Failed messages go back to the queues where they failed, or to `to`.

        All of them, those a filter matches, those of a group of `failures`, or by lookup id. Each
        is received and sent in one step. What cannot go stays; `targets` of the answer has why.
        """
        ids = None if lookup_ids is None else list(lookup_ids)
        body = ReturnBody(where=where, group=group, lookup_ids=ids, to=to, dry_run=dry_run)
        return self._channel.run(management.return_messages(self._core, self.name, body))

    def delete(self) -> int:
        """Deletes the queue; returns how many messages went with it."""
        return self._manager.delete_queue(self.name)

    # -- other queues of the family, properties

    def subqueue(self, name: str) -> Queue:
        """Return a subqueue; the first who receives from it or moves a message there makes it."""
        return self._manager.queue(extended(self.name, name))

    @property
    def journal(self) -> Queue:
        """Copies of what was received, if the queue keeps a journal."""
        return self._manager.queue(extended(self.name, "journal"))

    def properties(self) -> QueueJson:
        """Properties and figures."""
        return self._channel.run(management.show_queue(self._core, self.name))

    def set(self, **changes: Any) -> QueueJson:
        """Changes properties, named as in `create_queue`; the others stay."""
        return self._channel.run(management.set_queue(self._core, self.name, changes))

    def close(self) -> None:
        """Gives back what is open; the next use opens it again. A session's end does it too."""
        self._channel.run(self._open.close())


def _handle(transaction: Transaction | None) -> TransactionHandle | None:
    try:
        return None if transaction is None else transaction.handle
    except AttributeError:
        raise not_a_transaction(transaction) from None


class Cursor:
    """A place in a queue; it is lost with its connection."""

    def __init__(self, channel: Channel, queue: QueueHandle) -> None:
        self._channel = channel
        self._core = channel.core
        self._queue = queue
        self._handle: CursorHandle | None = None

    def _opened(self) -> CursorHandle:
        if self._handle is None:
            self._handle = self._channel.run(ops.open_cursor(self._core, self._queue))
        return self._handle

    def peek(self, timeout: Seconds | None = 0) -> Message:
        """The message it stands on; at first, the first one."""
        operation = ops.peek(self._core, self._queue, timeout, cursor=self._opened())
        return self._channel.run(operation)[0]

    def next(self, timeout: Seconds | None = 0) -> Message:
        """Steps on to the next message; `IoTimeout` at the end of the queue."""
        operation = ops.peek(
            self._core, self._queue, timeout, cursor=self._opened(), following=True
        )
        return self._channel.run(operation)[0]

    def receive(self, timeout: Seconds | None = 0, *, tx: Transaction | None = None) -> Message:
        """Takes the message it stands on."""
        operation = ops.receive(
            self._core, self._queue, 1, timeout, _handle(tx), cursor=self._opened()
        )
        return self._channel.run(operation)[0]

    def close(self) -> None:
        """Gives it back."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._channel.run(ops.close_cursor(self._core, handle))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Consumer:
    """Iterate over the messages of a queue; they are received and ended in batches.

    A message belongs to the reader until the next one is asked for or `done` is called; then it
    is gone for good. A `break` changes nothing: `done` and another loop go on from there.
    `close`, the end of a `with` block, or dropping the consumer returns the message in hand and
    those not yet seen. A loop ends when no message came in time; another one goes on. A message
    may come again after a broken session; then `in_doubt` is set. With `prefetch` the next
    batch, or two small ones, are on their way while this one is worked on. With `at_once`
    messages leave the queue as they are sent to the reader, which is quicker; those under way
    when it stops or the connection breaks are lost. With `lookup_id` only that message is
    taken, and `MessageNotFound` is raised if it is not there.
    """

    def __init__(self, channel: Channel, consuming: Consuming) -> None:
        self._channel = channel
        self._consuming = consuming

    def next(self) -> Message | None:
        """The next message; None when none came in time, or when the consumer is closed.

        The one before is done.
        """
        message = self._consuming.at_hand()
        return message or self._channel.run(self._consuming.next())

    @property
    def timed_out(self) -> IoTimeout | None:
        """Why `next` returned None: it names the group or the locks that hold the messages."""
        return self._consuming.timed_out

    def done(self) -> None:
        """What was handed out so far is done; returns when that is durable.

        Raises `MessageReturned` if they went back instead: the connection broke, or the consumer
        was closed before.
        """
        self._channel.run(self._consuming.done())

    def close(self) -> None:
        """Stops; what is not done goes back."""
        self._channel.run(self._consuming.close())

    def __del__(self) -> None:
        if not self._consuming.closed:
            self._channel.abandon(self._consuming.close)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        message = self._consuming.at_hand() or self._channel.run(self._consuming.next())
        if message is None:
            raise StopIteration
        return message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


__all__ = ["Consumer", "Cursor", "Queue", "QueueManagerClient", "Transaction"]
