"""Messages: list, show, find, explain, send, receive."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import UnsetType

from posthouse.api.types import (
    ExplainJson,
    FindParams,
    MessageIdParams,
    MessageListJson,
    MessagePageJson,
    MessageParams,
    MessagesParams,
    Nothing,
    PlaceJson,
    QueueParams,
    ReceiveBody,
    SendBody,
    SentJson,
    ShowMessageParams,
)
from posthouse.engine.ledger.effects import Read
from posthouse.engine.ledger.order import START, QueuePosition
from posthouse.engine.ledger.records import Row
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.transactions.transaction import Transaction
from posthouse.formats.search import content_of
from posthouse.model.errors import IoTimeout, MessageNotFound, QueueError
from posthouse.model.filters import Filter, parse_filter
from posthouse.model.message import MESSAGE_CLASSES, Message, MessageId
from posthouse.model.message_json import MessageJson, time_text
from posthouse.model.properties import MessageSeekAction, QueueAccessType
from posthouse.protocols.engine_calls import Answer, Release
from posthouse.protocols.handlers.context import Context, find_queue, open_queue, opened
from posthouse.protocols.handlers.decoding import Decoding, decoded_size
from posthouse.protocols.handlers.message_json import message_json, message_of, readable
from posthouse.protocols.handlers.request_steps import Decide, Steps, Wait, at_once, looked_at
from posthouse.protocols.handlers.scanning import (
    GONE,
    JSON_FACTOR,
    SCAN_MAX,
    STEP_BYTES,
    Page,
    Scan,
    ScannedMessage,
    peekable_queues,
    search,
)

_MEANING = {entry.code: entry for entry in MESSAGE_CLASSES}


# -- looking


def list_messages(
    context: Context, params: MessagesParams, body: Nothing
) -> Steps[MessagePageJson]:
    """Shows messages of a queue in queue order, and takes none; with a filter, those it matches."""
    place = START
    if not isinstance(params.after, UnsetType):
        priority, lookup_id = map(int, params.after.split("-"))
        place = QueuePosition(priority, lookup_id)
    scan, where = Scan(context, params.queue, place=place), _filter(params.where)
    decoding = Decoding() if params.decode else None
    if where is None and decoding is None:
        page = yield from search(scan, None, params.limit)
    else:
        with context.services.scans.running(context.caller):
            page = yield from search(scan, where, params.limit, decoding)
    stopped = page.stopped
    return MessagePageJson(
        messages=_shown(page, params.bodies),
        next=None if stopped is None else f"{stopped.priority}-{stopped.lookup_id}",
        scanned=page.scanned,
    )


def _filter(text: str | UnsetType | None) -> Filter | None:
    return parse_filter(text, content_of) if isinstance(text, str) else None


def _shown(page: Page, bodies: bool) -> list[MessageJson]:
    return page.messages if bodies else [without_body(message) for message in page.messages]


def without_body(message: MessageJson) -> MessageJson:
    """A message for a list: what may be large is left out."""
    return msgspec.structs.replace(message, body=None, body_text=None, extension=None)


def show_message(context: Context, params: ShowMessageParams, body: Nothing) -> Steps[MessageJson]:
    """Shows one message by its lookup id, and leaves it where it is."""

    def look(manager: QueueManager, *, has_room: bool) -> Read | int:
        with opened(manager, params.queue, QueueAccessType.PEEK, context) as descriptor:
            places.append(_place_of(descriptor))
            size = JSON_FACTOR * manager.messages.size_by_lookup_identifier(
                descriptor, params.lookup_id, peek=True
            )
            if not (has_room or context.memory.take(size)):
                return size
            return manager.messages.read_message_by_lookup_identifier(
                descriptor, params.lookup_id, MessageSeekAction.CURRENT, peek=True
            )

    places: list[_QueueOfRead] = []
    answer = yield Decide(lambda manager: look(manager, has_room=False))
    if isinstance(size := answer.value, int):
        yield context.memory.room(size)
        answer = yield Decide(lambda manager: look(manager, has_room=True))
    (message,) = _messages(answer, places[0])
    if params.decode:
        answer = yield context.services.offload(lambda: content_of(message))
        assert isinstance(answer.value, dict)
        message.decoded = answer.value
    return message


class _QueueOfRead(NamedTuple):
    """What the JSON of a message has of its queue."""

    name: str
    code_page: str = ""


def _place_of(descriptor: OpenQueueDescriptor) -> _QueueOfRead:
    queue = descriptor.target()
    return _QueueOfRead(queue.name, queue.code_page)


def _messages(answer: Answer, queue: _QueueOfRead) -> list[MessageJson]:
    value = answer.value
    reads: list[Read] = [value] if isinstance(value, Read) else value or []  # type: ignore[assignment]
    return [
        message_json(read, packet, *queue)
        for read, packet in zip(reads, answer.packets, strict=True)
    ]


def find_messages(context: Context, params: FindParams, body: Nothing) -> Steps[MessagePageJson]:
    """Finds messages of all queues that the caller may look into."""
    with context.services.scans.running(context.caller):
        return (yield from _find(context, params))


def _find(context: Context, params: FindParams) -> Steps[MessagePageJson]:
    where, messages = parse_filter(params.where, content_of), list[MessageJson]()
    scanned = size = 0
    begin, place, decoding = 0, START, Decoding() if params.decode else None
    if not isinstance(params.after, UnsetType):
        begin, priority, lookup_id = map(int, params.after.split("-"))
        place = QueuePosition(priority, lookup_id)
    queues = yield from looked_at(lambda manager: peekable_queues(manager, context, begin))
    for number, name in queues:
        scan = Scan(context, name, place=place if number == begin else START)
        try:
            page = yield from search(scan, where, params.limit - len(messages), decoding)
        except GONE:
            continue
        scanned, size = scanned + page.scanned, size + page.size
        messages += _shown(page, params.bodies)
        if page.stopped is not None:
            after = f"{number}-{page.stopped.priority}-{page.stopped.lookup_id}"
            return MessagePageJson(messages=messages, next=after, scanned=scanned)
        spent = decoding is not None and decoding.is_spent
        if len(messages) >= params.limit or scanned >= SCAN_MAX or size >= STEP_BYTES or spent:
            return MessagePageJson(messages=messages, next=f"{number + 1}-8-0", scanned=scanned)
    return MessagePageJson(messages=messages, next=None, scanned=scanned)


def explain_message(context: Context, params: MessageIdParams, body: Nothing) -> Steps[ExplainJson]:
    """States where a message is, and what its class means: why it is a dead letter, for one."""
    wanted = MessageId.parse(params.id)
    with context.services.scans.running(context.caller):
        places = yield from _places(context, wanted)
    return ExplainJson(id=str(wanted), places=places, answer=_answer(places))


def _places(context: Context, wanted: MessageId) -> Steps[list[PlaceJson]]:
    """Where a message is, of the queues that the caller may look into."""
    places: list[PlaceJson] = []
    queues = yield from looked_at(lambda manager: peekable_queues(manager, context, 0))
    for _, name in queues:
        try:
            found = yield from _with_ordinal(context, name, wanted.ordinal)
        except GONE:
            continue
        for one in found:
            if readable(one.packet).identifier == wanted:
                locked = yield from _is_locked(one)
                places.append(_place(one, locked))
    return places


def _with_ordinal(context: Context, queue: str, ordinal: int) -> Steps[list[ScannedMessage]]:
    def has_ordinal(row: Row) -> bool:
        return row.ordinal == ordinal

    scan, found = Scan(context, queue, wanted=has_ordinal, locked=True), list[ScannedMessage]()
    while not scan.done:
        found += yield from scan.step()
        scan.given_back()
    return found


def _is_locked(found: ScannedMessage) -> Steps[bool]:
    return looked_at(lambda manager: manager.messages.is_locked(found.read.number))


def _place(found: ScannedMessage, locked: bool) -> PlaceJson:
    read, entry = found.read, _MEANING.get(found.read.message_class)
    return PlaceJson(
        queue=found.queue,
        lookup_id=read.lookup_id,
        state="locked" if locked else "waiting",
        class_=entry.word if entry else f"0x{read.message_class:04x}",
        class_code=read.message_class,
        meaning=entry.meaning if entry else "a class of the application that sent it",
        arrived_time=time_text(read.arrived),
        abort_count=read.aborts,
        move_count=read.moves,
    )


def _answer(places: list[PlaceJson]) -> str:
    if not places:
        return (
            "The message is in no queue here that you may look into: it was received, expired, "
            "or was never here."
        )
    return "; ".join(f"{place.state} in {place.queue}: {place.meaning}" for place in places)


# -- sending


def send_message(context: Context, params: QueueParams, body: SendBody) -> Steps[SentJson]:
    """Sends a message; the answer comes when it is durable, as far as its delivery asks for that.

    `transactional` sends it in a transaction of its own.
    """

    message = message_of(body, context.services.tokens.core.settings.computer_name)

    def send(manager: QueueManager) -> MessageId:
        with opened(manager, params.queue, QueueAccessType.SEND, context) as descriptor:
            return send_one(manager, descriptor, message, body.delivery == "transactional")

    return SentJson(id=str((yield from at_once(send))))


def send_one(
    manager: QueueManager, descriptor: OpenQueueDescriptor, message: Message, transactional: bool
) -> MessageId:
    """One message, where need be in a transaction that begins and ends here."""
    if not transactional:
        return manager.messages.enqueue_message_to_an_open_queue(descriptor, message)
    transaction = begin(manager)
    try:
        identifier = manager.messages.enqueue_message_to_an_open_queue(
            descriptor, message, transaction
        )
    except QueueError:
        manager.transactions.transaction_abort(transaction.identifier)
        raise
    manager.transactions.transaction_commit(transaction.identifier)
    return identifier


def begin(manager: QueueManager) -> Transaction:
    """A transaction for the length of a step."""
    return manager.transactions.create_transaction(manager.machine.new_guid())


# -- receiving


def receive_messages(
    context: Context, params: QueueParams, body: ReceiveBody
) -> Steps[MessageListJson]:
    """Receives messages: they are gone when the answer leaves.

    An answer that is lost on its way loses them. Whoever cannot have that shows a message first,
    and deletes it by its lookup id when it is safe. No message in time is an empty list, with a
    reason where a group, a transaction or another reader has those that are there.
    """
    receive = _Receive(context, params.queue, body)
    answer = yield Decide(receive.now)
    if isinstance(size := answer.value, int):
        yield context.memory.room(JSON_FACTOR * size)
        receive.room = size
        answer = yield Decide(receive.now)
    if not answer.value and body.timeout_ms and body.lookup_id is None:
        try:
            answer = yield Wait(receive.later, receive.cancel)
        except IoTimeout:
            answer = Answer([], None, ())
        finally:
            yield Decide(receive.close)
    found, reason = _messages(answer, receive.place), ""
    if body.decode:
        yield context.services.offload(lambda: list(Decoding().decoded(found)))
        context.memory.change(decoded_size(found))
    if not found:
        reason = str((yield Decide(receive.why)).value)
    return MessageListJson(messages=found, reason=reason)


class _Receive:
    """The steps of one receive."""

    def __init__(self, context: Context, queue: str, body: ReceiveBody) -> None:
        self.context = context
        self.queue = queue
        self.body = body
        self.place = _QueueOfRead(queue)
        self.room = 0  # bytes of messages for which there is memory; 0: it was not asked for
        self._owner = object()  # of the descriptor that a wait keeps open
        self._descriptor: OpenQueueDescriptor | None = None

    def now(self, manager: QueueManager) -> list[Read] | int:
        """What is there; before there is room for much of it, its size."""
        with opened(manager, self.queue, QueueAccessType.RECEIVE, self.context) as descriptor:
            self.place = _place_of(descriptor)
            lookup_id = self.body.lookup_id
            size = self._size(manager, descriptor)
            if not (self.room or self.context.memory.take(JSON_FACTOR * size)):
                return size
            if lookup_id is not None:
                return [
                    manager.messages.read_message_by_lookup_identifier(
                        descriptor, lookup_id, peek=False
                    )
                ]
            return self._first(manager, descriptor)

    def _size(self, manager: QueueManager, descriptor: OpenQueueDescriptor) -> int:
        lookup_id = self.body.lookup_id
        if lookup_id is not None:
            return manager.messages.size_by_lookup_identifier(descriptor, lookup_id, peek=False)
        return manager.messages.bytes_ahead(descriptor, self.body.count, STEP_BYTES)

    def _first(self, manager: QueueManager, descriptor: OpenQueueDescriptor) -> list[Read]:
        reads, size, room = list[Read](), 0, self.room or STEP_BYTES
        while len(reads) < self.body.count and size < min(STEP_BYTES, room):
            found = manager.messages.first(descriptor.target())
            if found is None:
                break
            size += manager.messages.row(found[1]).size
            reads += manager.messages.dequeue_messages(descriptor, 1)
        return reads

    def later(self, manager: QueueManager, token: Release) -> Read | None:
        """The next one that comes."""
        self._descriptor = open_queue(manager, self.queue, QueueAccessType.RECEIVE, self.context)
        return manager.messages.dequeue_message(
            self._descriptor, timeout_ms=self.body.timeout_ms, tag=self._owner, token=token
        )

    def why(self, manager: QueueManager) -> str:
        """Who has the messages that are there; empty: there are none."""
        return manager.queues.why_empty(find_queue(manager, self.queue))

    def cancel(self, manager: QueueManager) -> None:
        """The caller no longer waits."""
        if self._descriptor is not None:
            manager.messages.cancel_waiting_message_read_request(self._descriptor, self._owner)

    def close(self, manager: QueueManager) -> None:
        """The wait has ended, one way or the other."""
        if self._descriptor is not None:
            manager.queues.close_queue(self._descriptor)


def receive_message(context: Context, params: MessageParams, body: Nothing) -> Steps[MessageJson]:
    """Receives one message by its lookup id: it is deleted, and shown a last time."""
    wanted = ReceiveBody(lookup_id=params.lookup_id)
    queue = QueueParams(queue=params.queue)
    messages = (yield from receive_messages(context, queue, wanted)).messages
    if not messages:
        raise MessageNotFound(f"no message has the lookup id {params.lookup_id}")
    return messages[0]
