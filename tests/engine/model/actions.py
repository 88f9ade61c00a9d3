"""What the rules do: each action is one call on the engine and one on the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.model.properties import MessageSeekAction, QueueProperties
from posthouse.security.access import default_queue_descriptor
from posthouse.security.rights import QUEUE_GENERIC_ALL, WRITE_MESSAGE
from posthouse.security.sids import EVERYONE
from tests.engine.model.packets import CALLERS, Order, path
from tests.engine.model.parts import (
    ACK_RECEIVE,
    NACK_RECEIVE_REJECTED,
    OUT,
    Cursor,
    Descriptor,
    Letter,
    Queue,
    Transaction,
    Waiter,
)
from tests.engine.model.play import UNLIMITED, Box, Play
from tests.engine.model.world import identifier_of

ROOTS = {"a": False, "b": False, "adm": False, "t": True, "u": True}
JOURNALING = {"b", "u"}
SUBQUEUES = ["a;s", "b;s", "t;s", "t;r", "u;s"]
SYSTEM = ["deadletter", "deadxact", "journal"]
READABLE = [*ROOTS, *SUBQUEUES, "a;journal", "b;journal", "u;journal", *SYSTEM]
ACCESS = {
    "send": QueueAccessType.SEND,
    "receive": QueueAccessType.RECEIVE,
    "peek": QueueAccessType.PEEK,
    "move": QueueAccessType.MOVE,
}
SEEKS = {
    "current": MessageSeekAction.CURRENT,
    "next": MessageSeekAction.NEXT,
    "previous": MessageSeekAction.PREVIOUS,
    "first": MessageSeekAction.FIRST,
    "last": MessageSeekAction.LAST,
}
ADMIN, BOB = CALLERS["admin"], CALLERS["bob"]
NO_SUCH_ID = 987_654_321


def among(choices: list[Any], which: int) -> Any:
    """One of them, by a number that may be any."""
    return choices[which % len(choices)]


def is_available(letter: Letter, queue: Queue) -> bool:
    return letter.lock is None


def is_transactional(letter: Letter, queue: Queue) -> bool:
    facts = queue.facts
    return letter.lock is None and (facts.transactional or facts.role in ("system", "journal"))


def is_locked(letter: Letter, queue: Queue) -> bool:
    return letter.lock is not None


def is_one_of_several(letter: Letter, queue: Queue) -> bool:
    return len(queue.letters) > 1


def is_plain(letter: Letter, queue: Queue) -> bool:
    return queue.facts.role == "plain"


def any_letter(letter: Letter, queue: Queue) -> bool:
    return True


class Actions(Play):
    """Actions with their arguments chosen."""

    # -- picking

    def opened(self, name: str, access: str, caller: str = "admin", spare: int = 0) -> Any:
        """An open descriptor; None if it cannot be had, which the model has foretold."""
        if name in SYSTEM or name.endswith(";journal"):
            caller = caller if spare else "admin"  # the user is refused there anyway
        wanted = name, access, caller
        mine = [d for d in self.descriptors if (d.name, d.access, d.caller) == wanted]
        if len(mine) > spare % 2:
            return mine[spare % 2]
        kind, run = ACCESS[access], self.run
        if name == OUT and access == "receive":
            kind = QueueAccessType.RECEIVE_ADMIN
        descriptor = self.perform(
            "open",
            f"open {name} to {access} as {caller}",
            lambda m: m.queues.open_queue(path(name), kind, CALLERS[caller]),
            lambda: self.model.open(name, access, caller),
        )
        if not isinstance(descriptor, Descriptor) or self.run != run:
            return None
        self.descriptors.append(descriptor)
        return descriptor

    def live(self, *things: Descriptor | Cursor | Transaction | None) -> bool:
        """Whether a crash that came while one was opened has left the others."""
        return all(self._alive(thing) for thing in things if thing is not None)

    def _alive(self, thing: Descriptor | Cursor | Transaction) -> bool:
        if isinstance(thing, Descriptor):
            return thing in self.descriptors
        if isinstance(thing, Cursor):
            return thing in self.cursors
        return self.model.transactions.get(thing.name) is thing

    def source(self, which: int, wanted: Callable[[Letter, Queue], bool]) -> str:
        """The name of a queue, mostly of one that holds a letter that is wanted."""
        names = [
            queue.name
            for queue in self.model.queues.values()
            if queue.name != OUT and any(wanted(letter, queue) for letter in queue.letters)
        ]
        if not names or which % 8 == 7:
            return str(among(READABLE, which // 8))
        return str(among(names, which // 8))

    def awaited(self, which: int, otherwise: str, kinds: tuple[bool, ...]) -> str:
        """Where to send: every other time to a queue in which somebody waits."""
        names = [
            name
            for name, transactional in ROOTS.items()
            if transactional in kinds and self.waiters_in(name)
        ]
        return among(names, which // 2) if names and which % 2 else otherwise

    def waiters_in(self, name: str) -> list[Waiter]:
        """The reads that wait in a queue."""
        queue = self.model.queues.get(name)
        return [] if queue is None else queue.waiters

    def barren(self, which: int, names: list[str]) -> str:
        """A queue where a read has to wait, if there is one."""
        empty = [
            name
            for name in names
            if name in self.model.queues
            and not any(letter.lock is None for letter in self.model.queues[name].letters)
        ]
        return str(among(empty or names, which))

    def ready(self, which: int, state: str) -> Cursor:
        """A cursor, rather one in a certain state."""
        fitting = [cursor for cursor in self.cursors if cursor.state == state]
        return among(fitting or self.cursors, which)

    def active(self, which: int) -> Transaction | None:
        """A transaction that takes operations; a new one where there is none."""
        found = [t for t in self.model.transactions.values() if t.state == "active"]
        return among(found, which) if found else self.begin_one()

    def place(self, which: int, queue: Queue) -> tuple[int, int]:
        """A place and the lookup identifier that stands for it: held, earlier, gone, or none."""
        places = [letter.place for letter in queue.letters]
        places += [alias for letter in queue.letters for alias in letter.aliases]
        known = self.identifiers.of_place
        if which % 8 == 7 or not places:
            place = among(list(known) or [0], which // 8)
        else:
            place = among(places, which // 8)
        return place, known.get(place, NO_SUCH_ID)

    # -- queues

    def create(self, name: str, *, journaling: bool) -> None:
        properties = QueueProperties(transactional=ROOTS[name], journaling=journaling)

        def call(manager: QueueManager) -> None:
            manager.queues.create_queue(
                path(name), properties, ADMIN, security=rights(readable=True)
            )

        self.perform(
            "create queue",
            f"create {name}{', journaling' if journaling else ''}",
            call,
            lambda: self.model.create(name, transactional=ROOTS[name], journaling=journaling),
        )

    def delete(self, name: str) -> None:
        self.perform(
            "delete queue",
            f"delete {name}",
            lambda m: m.queues.delete_queue(path(name), ADMIN),
            lambda: self.model.delete(name),
        )

    def set_quota(self, name: str, kib: int | None) -> None:
        self.perform(
            "set quota",
            f"quota of {name}: {kib} KiB",
            lambda m: m.queues.set_queue(
                path(name), ADMIN, quota_kib=UNLIMITED if kib is None else kib
            ),
            lambda: self.model.set_queue(name, quota=None if kib is None else kib << 10),
        )

    def set_journal(self, name: str, kib: int | None, *, journaling: bool) -> None:
        quota_kib, quota = (UNLIMITED, None) if kib is None else (kib, kib << 10)
        self.perform(
            "set journal",
            f"journal of {name}: {journaling}, {kib} KiB",
            lambda m: m.queues.set_queue(
                path(name), ADMIN, journal_quota_kib=quota_kib, journaling=journaling
            ),
            lambda: self.model.set_queue(name, journaling=journaling, journal_quota=quota),
        )

    def set_rights(self, name: str, *, readable: bool) -> None:
        self.perform(
            "give rights" if readable else "withdraw rights",
            f"bob {'may' if readable else 'may not'} read {name}",
            lambda m: m.queues.set_queue_security(path(name), ADMIN, rights(readable=readable)),
            lambda: self.model.set_queue(name, readable=readable),
        )

    def pause(self, *, on_hold: bool) -> None:
        def call(manager: QueueManager) -> None:
            queue = manager.queues.outgoing_queues()[0]
            (manager.transfer.pause_queue if on_hold else manager.transfer.resume_queue)(queue)

        self.perform(
            "pause" if on_hold else "resume",
            f"{'pause' if on_hold else 'resume'} the outgoing queue",
            call,
            lambda: self.model.set_on_hold(on_hold),
        )

    def open_outgoing(self) -> None:
        def predict() -> Descriptor:
            self.model.create_outgoing()
            descriptor = self.model.open(OUT, "send", "admin")
            self.descriptors.append(descriptor)
            return descriptor

        self.perform(
            "open",
            "open the outgoing queue",
            lambda m: m.queues.open_queue(path(OUT), QueueAccessType.SEND, ADMIN),
            predict,
        )

    def close_one(self, descriptor: Descriptor) -> None:
        gone = ", which is gone" if descriptor.queue is None else ""
        for known in (self.descriptors, self.stale):
            if descriptor in known:
                known.remove(descriptor)
        self.perform(
            "close of a deleted queue" if gone else "close",
            f"close {descriptor.name} ({descriptor.access}){gone}",
            lambda m: m.queues.close_queue(descriptor.handle),
            lambda: self.model.close(descriptor),
        )

    # -- sending

    def order(self, **values: Any) -> Order:
        """A message with a name of its own."""
        self.names += 1
        return Order(f"m{self.names}", **values)

    def send_one(
        self, rule: str, to: str, order: Order, caller: str = "admin", tx: Any = None
    ) -> None:
        descriptor = self.opened(to, "send", caller)
        if descriptor is None or not self.live(tx):
            return
        handle = None if tx is None else tx.handle
        self.perform(
            rule,
            f"send {order} to {to} by {caller}{within(tx)}",
            lambda m: m.messages.enqueue_message_to_an_open_queue(
                descriptor.handle, order.message(), handle
            ),
            lambda: self.model.send(descriptor, self._letters([order], to, caller, tx), tx),
        )

    def send_packets_to(self, to: str, orders: list[Order]) -> None:
        descriptor = self.opened(to, "send")
        if descriptor is None:
            return
        packets = [order.packet(to, "admin") for order in orders]
        self.perform(
            "send packets",
            f"send {', '.join(map(str, orders))} to {to}",
            lambda m: m.messages.send_packets(descriptor.handle, packets),
            lambda: self.model.send(descriptor, self._letters(orders, to, "admin", None), None),
        )

    def _letters(self, orders: list[Order], to: str, caller: str, tx: Any) -> list[Letter]:
        return [
            order.letter(
                self.shared.next_number(),
                to,
                caller,
                self.model.utc,
                transactional=tx is not None,
                admin_number=self._number_of(order.admin),
            )
            for order in orders
        ]

    def _number_of(self, name: str) -> int:
        queue = self.model.queues.get(name)
        return 0 if queue is None else queue.number

    # -- reading

    def dequeue(
        self,
        rule: str,
        name: str,
        caller: str = "admin",
        *,
        timeout_ms: int | None = 0,
        tx: Transaction | None = None,
        two_phase: bool = False,
        cursor: Cursor | None = None,
        spare: int = 0,
    ) -> None:
        descriptor = cursor.descriptor if cursor else self.opened(name, "receive", caller, spare)
        if descriptor is None or not self.live(tx, cursor):
            return
        wake, tag = self._wake(rule, name)
        self.perform(
            rule,
            f"{rule}: {name} by {caller}{within(tx)}, {timeout_ms} ms",
            lambda m: m.messages.dequeue_message(
                descriptor.handle,
                timeout_ms=timeout_ms,
                cursor=cursor.handle if cursor else None,
                transaction=tx.handle if tx else None,
                two_phase=two_phase,
                tag=tag,
                token=wake.put,
            ),
            lambda: self.model.dequeue(
                descriptor,
                timeout_ms=timeout_ms,
                cursor=cursor,
                transaction=tx,
                two_phase=two_phase,
                tag=tag,
            ),
            wake,
        )

    def _wake(self, rule: str, name: str) -> tuple[Box, str]:
        self.names += 1
        return Box(f"{rule} in {name}"), f"w{self.names}"

    def dequeue_many(self, name: str, count: int, tx: Transaction | None) -> None:
        descriptor = self.opened(name, "receive")
        if descriptor is None or not self.live(tx):
            return
        handle = tx.handle if tx else None
        self.perform(
            "receive many",
            f"receive {count} from {name}{within(tx)}",
            lambda m: m.messages.dequeue_messages(descriptor.handle, count, handle),
            lambda: self.model.dequeue_many(descriptor, count, tx),
        )

    def peek_at(
        self, rule: str, name: str, access: str, caller: str, timeout_ms: int | None
    ) -> None:
        descriptor = self.opened(name, access, caller)
        if descriptor is None:
            return
        wake, tag = self._wake(rule, name)
        self.perform(
            rule,
            f"{rule}: {name} by {caller}, {timeout_ms} ms",
            lambda m: m.messages.peek_message(
                descriptor.handle, timeout_ms=timeout_ms, tag=tag, token=wake.put
            ),
            lambda: self.model.peek(descriptor, timeout_ms=timeout_ms, tag=tag),
            wake,
        )

    def cancel(self, waiter: Waiter, tag: str) -> None:
        descriptor = waiter.descriptor
        self.perform(
            "cancel a wait",
            f"cancel {tag} in {descriptor.name}",
            lambda m: m.messages.cancel_waiting_message_read_request(descriptor.handle, tag),
            lambda: self.model.cancel(descriptor, tag),
        )

    def end_dequeue(self, descriptor: Descriptor, place: int, lookup_id: int, how: str) -> None:
        reason = NACK_RECEIVE_REJECTED if how == "reject" else ACK_RECEIVE
        self.perform(
            f"end a read: {how}",
            f"{how} lookup id {lookup_id} in {descriptor.name} ({descriptor.access})",
            lambda m: m.messages.dequeue_message_end(
                descriptor.handle, lookup_id, positive=how != "nack", message_class=reason
            ),
            lambda: self.model.end_dequeue(
                descriptor, place, positive=how != "nack", reason=reason
            ),
        )

    def look_up(self, name: str, at: int, seek: str, how: str, tx: Transaction | None) -> None:
        descriptor = self.opened(name, "receive")
        if descriptor is None or not self.live(tx):
            return
        place, lookup_id = self.place(at, descriptor.queue)
        options = {
            "peek": how == "peek",
            "two_phase": how == "begin",
            "allow_peek": at % 3 == 0,
        }
        handle = tx.handle if tx else None
        self.perform(
            f"lookup {seek}, {'peek' if how == 'peek' else 'receive'}",
            f"{how} {seek} of lookup id {lookup_id} in {name}{within(tx)}",
            lambda m: m.messages.read_message_by_lookup_identifier(
                descriptor.handle, lookup_id, SEEKS[seek], transaction=handle, **options
            ),
            lambda: self.model.lookup(descriptor, place, seek, transaction=tx, **options),
        )

    # -- cursors

    def open_cursor_on(self, name: str, caller: str) -> None:
        descriptor = self.opened(name, "receive", caller)
        if descriptor is None:
            return
        run = self.run
        cursor = self.perform(
            "open a cursor",
            f"open a cursor on {name}",
            lambda m: m.messages.open_cursor(descriptor.handle),
            lambda: self.model.open_cursor(descriptor),
        )
        if isinstance(cursor, Cursor) and self.run == run:
            self.cursors.append(cursor)

    def peek_through(self, cursor: Cursor, timeout_ms: int | None) -> None:
        descriptor = cursor.descriptor
        wake, tag = self._wake("peek through a cursor", descriptor.name)
        self.perform(
            "peek through a cursor",
            f"peek through the cursor on {descriptor.name}, {timeout_ms} ms",
            lambda m: m.messages.peek_message(
                descriptor.handle,
                cursor=cursor.handle,
                timeout_ms=timeout_ms,
                tag=tag,
                token=wake.put,
            ),
            lambda: self.model.peek(descriptor, cursor=cursor, timeout_ms=timeout_ms, tag=tag),
            wake,
        )

    def peek_next_through(self, cursor: Cursor, timeout_ms: int | None) -> None:
        descriptor = cursor.descriptor
        wake, tag = self._wake("peek next", descriptor.name)
        self.perform(
            "peek next",
            f"peek next through the cursor on {descriptor.name}, {timeout_ms} ms",
            lambda m: m.messages.peek_next_message(
                descriptor.handle, cursor.handle, timeout_ms=timeout_ms, tag=tag, token=wake.put
            ),
            lambda: self.model.peek_next(descriptor, cursor, timeout_ms=timeout_ms, tag=tag),
            wake,
        )

    def exhaust(self, cursor: Cursor, timeout_ms: int | None) -> None:
        """To the end of the queue, where the cursor waits for what comes behind its place."""
        for _ in range(8):
            if not self.live(cursor) or cursor.state.startswith("wait"):
                return
            if cursor.state == "unread":
                self.peek_through(cursor, timeout_ms)
            else:
                self.peek_next_through(cursor, timeout_ms)

    def close_the_cursor(self, cursor: Cursor) -> None:
        self.perform(
            "close a cursor",
            f"close the cursor on {cursor.descriptor.name}",
            lambda m: m.messages.close_cursor(cursor.handle),
            lambda: self.model.close_cursor(cursor),
        )

    # -- moves and purges

    def move_one(
        self, name: str, at: int, target_name: str, caller: str, tx: Transaction | None
    ) -> None:
        source = self.opened(name, "receive", caller)
        target = self.opened(target_name, "move", caller) if source is not None else None
        if target is None or not self.live(source, tx):
            return
        place, lookup_id = self.place(at, source.queue)
        handle = tx.handle if tx else None
        self.perform(
            "move transactional" if tx else "move",
            f"move {lookup_id} from {name} to {target_name} by {caller}{within(tx)}",
            lambda m: m.messages.move_message(source.handle, lookup_id, target.handle, handle),
            lambda: self.model.move(source, place, target, tx),
        )

    def purge_one(self, name: str) -> None:
        descriptor = self.opened(name, "receive")
        if descriptor is None:
            return
        self.perform(
            "purge",
            f"purge {name}",
            lambda m: m.queues.purge_queue(descriptor.handle),
            lambda: self.model.purge(descriptor),
        )

    # -- transactions

    def begin_one(self) -> Transaction | None:
        self.names += 1
        name = f"T{self.names}"
        begun = self.perform(
            "begin a transaction",
            f"begin {name}",
            lambda m: m.transactions.create_transaction(identifier_of(name)),
            lambda: self.model.begin(name),
        )
        return begun if isinstance(begun, Transaction) and self._alive(begun) else None

    def commit(self, name: str) -> None:
        self._end("commit", name, lambda m: m.transactions.transaction_commit, self.model.transact)

    def abort(self, name: str) -> None:
        self._end("abort", name, lambda m: m.transactions.transaction_abort, self.model.abort)

    def _end(
        self,
        word: str,
        name: str,
        method: Callable[[QueueManager], Callable[[bytes], None]],
        predict: Callable[[str], None],
    ) -> None:
        tx = self.model.transactions.get(name)
        doubt = ", in doubt" if tx is not None and tx.state == "prepared" else ""
        self.perform(
            f"{word}{doubt}",
            f"{word} {name}{doubt}",
            lambda m: method(m)(identifier_of(name)),
            lambda: predict(name),
        )

    def prepare_one(self, name: str, *, single_phase: bool) -> None:
        phases = "single-phase" if single_phase else "two-phase"
        self.perform(
            f"prepare, {phases}",
            f"prepare {name}, {phases}",
            lambda m: m.transactions.collection.prepare(
                identifier_of(name), single_phase=single_phase
            ),
            lambda: self.model.prepare(name, single_phase=single_phase),
        )


def rights(*, readable: bool) -> bytes:
    """A descriptor under which everyone sends, and bob reads or does not."""
    given = ((EVERYONE, WRITE_MESSAGE), (BOB.sid, QUEUE_GENERIC_ALL))
    return default_queue_descriptor(ADMIN.sid, given if readable else given[:1])


def within(tx: Transaction | None) -> str:
    """Words for a call that is part of a transaction."""
    return f" in {tx.name}" if tx is not None else ""
