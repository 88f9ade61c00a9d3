"""The work of applications on simulated machines: send, receive, abort, reject, purge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from posthouse.engine.ledger.effects import Read
from posthouse.engine.ledger.records import FLAG_AUTHENTICATED
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.message import ACK_RECEIVE, NACK_RECEIVE_REJECTED
from posthouse.model.names import parse_name
from posthouse.protocols.engine_calls import Answer
from posthouse.security.access import Caller
from posthouse.sim.managers import Errand, SimManager
from posthouse.sim.messages import STRANGE, End, Letter, Told
from posthouse.wire.packet.packet import Packet

BOSS = Caller.administrator()
SEND, RECEIVE = QueueAccessType.SEND, QueueAccessType.RECEIVE


def path(queue: str, *, public: bool = False) -> str:
    """The name of a queue on its own machine."""
    return f".\\{queue}" if public else f".\\private$\\{queue}"


def home(manager: QueueManager, queue: str) -> Queue:
    """A queue of a machine; in some trials it is public."""
    found = manager.queues.find_local(parse_name(path(queue, public=True)))
    return found or manager.queues.local_queue(parse_name(path(queue)))


def _open(manager: QueueManager, queue: str) -> OpenQueueDescriptor:
    return manager.queues.open_queue(home(manager, queue).name, RECEIVE, BOSS)


def name_of(told: Told, manager: QueueManager, read: Read | None) -> str:
    """The name of a message that the engine gives to a reader."""
    assert read is not None
    name = told.came(Packet(manager.messages.packet(read.number)))
    row = manager.messages.find_row(read.number)
    if name.startswith(STRANGE) and row is not None and row.flags & FLAG_AUTHENTICATED:
        told.vouched.append(name)
    return name


def post(told: Told, letter: Letter) -> Errand:
    """Sends one message outside transactions."""

    def call(manager: QueueManager) -> None:
        descriptor = manager.queues.open_queue(letter.format_name, SEND, BOSS)
        manager.messages.enqueue_message_to_an_open_queue(descriptor, letter.message())
        manager.queues.close_queue(descriptor)
        told.commits([letter])

    answer = yield call
    if answer.error is not None:
        raise answer.error
    letter.fate = "accepted"


def post_many(told: Told, letters: list[Letter]) -> Errand:
    """Sends several in one turn, each for itself."""

    def call(manager: QueueManager) -> None:
        descriptor = manager.queues.open_queue(letters[0].format_name, SEND, BOSS)
        for letter in letters:
            manager.messages.enqueue_message_to_an_open_queue(descriptor, letter.message())
        manager.queues.close_queue(descriptor)
        told.commits(letters)

    answer = yield call
    if answer.error is not None:
        raise answer.error
    for letter in letters:
        letter.fate = "accepted"


def post_together(
    machine: SimManager, told: Told, letters: list[Letter], *, slowly: bool, commits: bool
) -> Errand:
    """Sends several in one transaction, in one turn or in several."""
    identifier = machine.chance.randbytes(16)

    def enqueue(manager: QueueManager, letter: Letter, transaction: Transaction) -> None:
        descriptor = manager.queues.open_queue(letter.format_name, SEND, BOSS)
        manager.messages.enqueue_message_to_an_open_queue(descriptor, letter.message(), transaction)
        manager.queues.close_queue(descriptor)

    def end(manager: QueueManager) -> None:
        if commits:
            manager.transactions.transaction_commit(identifier)
            told.commits(letters)
        else:
            manager.transactions.transaction_abort(identifier)

    def everything(manager: QueueManager) -> None:
        transaction = manager.transactions.create_transaction(identifier)
        for letter in letters:
            enqueue(manager, letter, transaction)
        end(manager)

    if slowly:
        begun = yield lambda manager: manager.transactions.create_transaction(identifier)
        transaction = cast(Transaction, begun.value)
        for letter in letters:
            yield lambda manager, letter=letter: enqueue(manager, letter, transaction)  # type: ignore[misc]
        answer = yield end
    else:
        answer = yield everything
    if answer.error is not None:
        raise answer.error
    for letter in letters:
        letter.fate = "accepted" if commits else "aborted"


def receive(machine: SimManager, told: Told, queue: str, count: int) -> Errand:
    """Takes the first messages out, one by one."""
    found: list[str] = []

    def call(manager: QueueManager) -> Read | None:
        descriptor = _open(manager, queue)
        try:
            read = manager.messages.dequeue_message(descriptor, timeout_ms=0)
        finally:
            manager.queues.close_queue(descriptor)
        found[:] = [name_of(told, manager, read)]
        told.may_end(found, "received")
        return read

    for _ in range(count):
        answer = yield call
        if not isinstance(answer.value, Read):
            return
        told.read(machine.name, queue, found[0], answer.value.lookup_id)
        told.ended(found, "received")


def wait(machine: SimManager, told: Told, queue: str, timeout_ms: int) -> None:
    """Waits for a message; what it gets it gets in the turn that brings the message."""
    place = machine.name, queue

    def woken(answer: Answer) -> None:
        told.waiting[place] -= 1
        if isinstance(answer.value, Read):
            name = told.came(Packet(answer.packets[0]))
            told.read(*place, name, answer.value.lookup_id)
            told.ended([name], "received")

    def first(answer: Answer) -> None:
        if answer.value is not None or answer.error is not None:
            woken(answer)

    def call(manager: QueueManager) -> Read | None:
        descriptor = _open(manager, queue)
        told.waiting[place] += 1
        return manager.messages.dequeue_message(descriptor, timeout_ms=timeout_ms, token=woken)

    machine.enter(lambda: machine.desk.decide(call, first), machine.life)


def receive_together(
    machine: SimManager, told: Told, queue: str, count: int, *, commits: bool
) -> Errand:
    """Takes several out in a transaction; an abort puts them back."""
    identifier, found = machine.chance.randbytes(16), list[str]()
    opened = yield lambda manager: _open(manager, queue)
    descriptor = cast(OpenQueueDescriptor, opened.value)
    begun = yield lambda manager: manager.transactions.create_transaction(identifier)
    transaction = cast(Transaction, begun.value)

    def read(manager: QueueManager) -> Read | None:
        given = manager.messages.dequeue_message(descriptor, timeout_ms=0, transaction=transaction)
        found.append(name_of(told, manager, given))
        return given

    def end(manager: QueueManager) -> None:
        if commits:
            manager.transactions.transaction_commit(identifier)
            told.may_end(found, "received")
        else:
            manager.transactions.transaction_abort(identifier)
        manager.queues.close_queue(descriptor)

    for _ in range(count):
        answer = yield read
        if not isinstance(answer.value, Read):
            break
        told.read(machine.name, queue, found[-1], answer.value.lookup_id)
    ended = yield end
    if ended.error is None and commits:
        told.ended(found, "received")


def receive_in_two_steps(machine: SimManager, told: Told, queue: str, outcome: str) -> Errand:
    """Locks the first message, and then takes it, rejects it or gives it back."""
    opened = yield lambda manager: _open(manager, queue)
    descriptor = cast(OpenQueueDescriptor, opened.value)
    found: list[str] = []
    ends: dict[str, End] = {"take": "received", "reject": "rejected"}

    def begin(manager: QueueManager) -> Read | None:
        read = manager.messages.dequeue_message(descriptor, timeout_ms=0, two_phase=True)
        found.append(name_of(told, manager, read))
        return read

    def end(manager: QueueManager) -> None:
        given = NACK_RECEIVE_REJECTED if outcome == "reject" else ACK_RECEIVE
        manager.messages.dequeue_message_end(
            descriptor, lookup_id, positive=outcome in ends, message_class=given
        )
        manager.queues.close_queue(descriptor)
        if outcome in ends:
            told.may_end(found, ends[outcome])

    answer = yield begin
    if not isinstance(answer.value, Read):
        yield lambda manager: manager.queues.close_queue(descriptor)
        return
    lookup_id = answer.value.lookup_id
    told.read(machine.name, queue, found[0], lookup_id)
    ended = yield end
    if ended.error is None and outcome in ends:
        told.ended(found, ends[outcome])


def purge(told: Told, queue: str) -> Errand:
    """Empties a queue; what a reader holds goes when it comes back."""
    free: list[str] = []

    def call(manager: QueueManager) -> None:
        for number, name in waiting(manager, queue):
            if not manager.messages.is_locked(number):
                free.append(name)
            told.may_end([name], "purged")
        descriptor = _open(manager, queue)
        manager.queues.purge_queue(descriptor)
        manager.queues.close_queue(descriptor)

    answer = yield call
    if answer.error is None:
        told.ended(free, "purged")


def waiting(manager: QueueManager, queue: str) -> Iterator[tuple[int, str]]:
    """Numbers and names of the messages in a queue."""
    for _, number in home(manager, queue).state.order.forward():
        yield number, Packet(manager.messages.packet(number)).label
