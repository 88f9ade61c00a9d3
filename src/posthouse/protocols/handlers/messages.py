"""Messages: list, show, find, explain, send, receive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec import UnsetType

from posthouse.api.sends import SendBody, SentJson
from posthouse.api.types import (
    FindParams,
    MessageListJson,
    MessagePageJson,
    MessageParams,
    MessagesParams,
    Nothing,
    QueueParams,
    ReceiveBody,
    ShowMessageParams,
    SkippedJson,
)
from posthouse.engine.ledger.effects import Read
from posthouse.engine.ledger.order import START, QueuePosition
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.sessions.calls import SeriesNumber, about, send_numbered
from posthouse.engine.transactions.transaction import Transaction
from posthouse.formats.search import content_of
from posthouse.model.errors import (
    IllegalPropertyValue,
    InsufficientResources,
    IoTimeout,
    MessageNotFound,
    QueueError,
)
from posthouse.model.message import (
    DeliveryGuarantee,
    Message,
    MessageId,
    TxSequenceId,
    validate,
)
from posthouse.model.message_json import MessageJson
from posthouse.model.properties import MessageSeekAction, QueueAccessType
from posthouse.protocols.engine_calls import Answer, Release
from posthouse.protocols.handlers.context import Context, find_queue, open_queue, opened
from posthouse.protocols.handlers.decoding import Decoding, decoded_size
from posthouse.protocols.handlers.message_fields import row_condition
from posthouse.protocols.handlers.message_json import message_json, message_of
from posthouse.protocols.handlers.request_steps import Decide, Steps, Wait, at_once, looked_at
from posthouse.protocols.handlers.scanning import (
    GONE,
    JSON_FACTOR,
    SCAN_MAX,
    STEP_BYTES,
    Page,
    Scan,
    peekable_queues,
    search,
    search_until,
    seen_by_role,
    skipping,
)
from posthouse.security.asked_protection import ask_protection
from posthouse.wire.packet.template import Template

# -- looking


def list_messages(
    context: Context, params: MessagesParams, body: Nothing
) -> Steps[MessagePageJson]:
    """Shows messages of a queue in queue order, and takes none; with a filter, those it matches."""
    place = START
    if not isinstance(params.after, UnsetType):
        priority, lookup_id = map(int, params.after.split("-"))
        place = QueuePosition(priority, lookup_id)
    _check_content(context, params)
    where = None if isinstance(params.where, UnsetType) else context.view.filter(params.where)
    scan = Scan(context, params.queue, place=place, wanted=row_condition(where))
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


def _check_content(context: Context, params: MessagesParams | FindParams) -> None:
    """Refuses bodies that are asked for where the role shows none."""
    if params.bodies is True:
        context.view.require_content("bodies")
    if params.decode:
        context.view.require_content("what is in bodies")


def _shown(page: Page, bodies: bool | UnsetType) -> list[MessageJson]:
    if bodies is False:
        return [without_body(message) for message in page.messages]
    return page.messages


def without_body(message: MessageJson) -> MessageJson:
    """A message for a list: what may be large is left out."""
    return msgspec.structs.replace(message, body=None, body_text=None, extension=None)


def show_message(context: Context, params: ShowMessageParams, body: Nothing) -> Steps[MessageJson]:
    """Shows one message by its lookup id, and leaves it where it is."""
    if params.decode:
        context.view.require_content("what is in bodies")

    def look(manager: QueueManager, *, has_room: bool) -> Read | int:
        with opened(manager, params.queue, QueueAccessType.PEEK, context) as descriptor:
            places.append(_place_of(descriptor))
            size = JSON_FACTOR * manager.messages.size_by_lookup_identifier(
                descriptor, params.lookup_id, peek=True
            )
            if not (has_room or context.memory.take(size)):
                return size
            read = manager.messages.read_message_by_lookup_identifier(
                descriptor, params.lookup_id, MessageSeekAction.CURRENT, peek=True
            )
            reason = manager.messages.move_reason(read.number)
            places[0] = places[0]._replace(move_reason=reason)
            return read

    places: list[_QueueOfRead] = []
    answer = yield Decide(lambda manager: look(manager, has_room=False))
    if isinstance(size := answer.value, int):
        yield context.memory.room(size)
        answer = yield Decide(lambda manager: look(manager, has_room=True))
    (message,) = yield from seen_by_role(context, _messages(answer, places[0]))
    if params.decode:
        answer = yield context.services.offload(lambda: content_of(message))
        assert isinstance(answer.value, dict)
        message.decoded = answer.value
    return message


class _QueueOfRead(NamedTuple):
    """What the JSON of a message has of its queue."""

    name: str
    code_page: str = ""
    move_reason: str = ""


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
    _check_content(context, params)
    where, messages = context.view.filter(params.where), list[MessageJson]()
    scanned = size = 0
    latest_s = search_until(context.services)
    begin, place, decoding = 0, START, Decoding() if params.decode else None
    if not isinstance(params.after, UnsetType):
        begin, priority, lookup_id = map(int, params.after.split("-"))
        place = QueuePosition(priority, lookup_id)
    queues = yield from looked_at(lambda manager: peekable_queues(manager, context, begin))
    skipped = list[SkippedJson]()
    for number, name in queues:
        start = place if number == begin else START
        scan = Scan(context, name, place=start, wanted=row_condition(where))
        try:
            page = yield from search(
                scan, where, params.limit - len(messages), decoding, latest_s=latest_s
            )
        except GONE:
            continue
        except QueueError as error:
            skipped.append(skipping(name, error))
            continue
        scanned, size = scanned + page.scanned, size + page.size
        messages += _shown(page, params.bodies)
        if page.stopped is not None:
            after = f"{number}-{page.stopped.priority}-{page.stopped.lookup_id}"
            return MessagePageJson(messages=messages, next=after, scanned=scanned, skipped=skipped)
        spent = decoding is not None and decoding.is_spent
        spent = spent or context.services.clock_s() >= latest_s
        if len(messages) >= params.limit or scanned >= SCAN_MAX or size >= STEP_BYTES or spent:
            after = f"{number + 1}-8-0"
            return MessagePageJson(messages=messages, next=after, scanned=scanned, skipped=skipped)
    return MessagePageJson(messages=messages, next=None, scanned=scanned, skipped=skipped)


# -- sending


def send_message(context: Context, params: QueueParams, body: SendBody) -> Steps[SentJson]:
    """Sends a message; the answer comes when it is durable, as far as its delivery asks for that.

    `transactional` sends it in a transaction of its own. With `once` a request that is repeated is
    answered by the message that it sent. The last 64 numbers of a series are kept, for a day.
    """

    message = message_of(body, context.services.machine.name)
    context.trace.put_into(message, body.traceparent, body.tracestate)
    transactional = body.delivery == "transactional"
    once = _series_number(body, context.caller.sid, params.queue)
    put = _put if body.sign is not True and body.encrypt is not True else _protected(body)

    def send(manager: QueueManager) -> MessageId:
        with opened(manager, params.queue, QueueAccessType.SEND, context) as descriptor:

            def enqueue(within: Transaction | None) -> MessageId:
                return put(manager, descriptor, message, within)

            if once is None:
                return _alone(manager, enqueue, transactional)
            ordinal = send_numbered(
                manager, once, lambda within: enqueue(within).ordinal, transactional=transactional
            )
            return MessageId(manager.machine.identifier, ordinal)

    return SentJson(id=str((yield from at_once(send))))


def _series_number(body: SendBody, account: bytes, queue: str) -> SeriesNumber | None:
    if (once := body.once) is None:
        return None
    asked = sha256(msgspec.json.encode((queue, body))).digest()[:16]
    return SeriesNumber(bytes.fromhex(once.series), once.number, account, asked)


Put = Callable[[QueueManager, OpenQueueDescriptor, Message, Transaction | None], MessageId]


def _put(
    manager: QueueManager,
    descriptor: OpenQueueDescriptor,
    message: Message,
    within: Transaction | None,
) -> MessageId:
    return manager.messages.enqueue_message_to_an_open_queue(descriptor, message, within)


def _protected(body: SendBody) -> Put:
    """Return how a message is sent that is to be signed or encrypted: as a packet of a client."""
    sign, encrypt = body.sign is True, body.encrypt is True
    if body.dead_letter_queue:
        raise IllegalPropertyValue(
            "a message with a dead_letter_queue is neither signed nor encrypted",
            "Leave out dead_letter_queue, or sign and encrypt.",
        )

    def put(
        manager: QueueManager,
        descriptor: OpenQueueDescriptor,
        message: Message,
        within: Transaction | None,
    ) -> MessageId:
        ask_protection(message, sign=sign, encrypt=encrypt)
        validate(message)
        message.destination_queue_format_name = about(manager, descriptor).destination
        if within is not None:
            message.transactional_message_sequence_identifier = TxSequenceId(0, 0)
            message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
        packet = Template(message, sign).packet(message.body)
        (ordinal,) = manager.messages.send_packets(descriptor, [packet], within)
        return MessageId(manager.machine.identifier, ordinal)

    return put


def send_one(
    manager: QueueManager, descriptor: OpenQueueDescriptor, message: Message, transactional: bool
) -> MessageId:
    """One message, where need be in a transaction that begins and ends here."""
    return _alone(manager, lambda within: _put(manager, descriptor, message, within), transactional)


def _alone(
    manager: QueueManager, put: Callable[[Transaction | None], MessageId], transactional: bool
) -> MessageId:
    if not transactional:
        return put(None)
    transaction = begin(manager)
    try:
        identifier = put(transaction)
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

    An answer that is lost on its way loses them. To avoid that, peek at a message first, and delete
    it by its lookup id when it is safe. No message in time is an empty list, with a reason where a
    group, a transaction or another reader has those that are there.
    """
    receive = Receive(context, params.queue, body)
    try:
        return (yield from received(context, receive))
    finally:
        if receive.descriptor is not None:
            yield Decide(receive.close)


def received(context: Context, receive: Receive) -> Steps[MessageListJson]:
    """What a receive brings: what is there, or what comes in its time."""
    body = receive.body
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
    found, reason = _messages(answer, receive.place), ""
    receive.taken = [message.lookup_id for message in found]
    context.trace.answer_with(found)
    if body.decode:
        yield context.services.offload(lambda: list(Decoding().decoded(found)))
        try:
            context.memory.change(decoded_size(found))
        except InsufficientResources:  # they are received: they are answered without it
            for message in found:
                message.decoded = msgspec.UNSET
    if not found:
        reason = str((yield Decide(receive.why)).value)
    return MessageListJson(messages=found, reason=reason)


class Receive:
    """The steps of one receive."""

    two_phase = False  # whether messages stay, locked, until they are ended

    def __init__(self, context: Context, queue: str, body: ReceiveBody) -> None:
        self.context = context
        self.queue = queue
        self.body = body
        self.place = _QueueOfRead(queue)
        self.room = 0  # bytes of messages for which there is memory; 0: it was not asked for
        self.taken: list[int] = []  # lookup ids
        self._owner = object()  # of the descriptor that a wait keeps open
        self.descriptor: OpenQueueDescriptor | None = None

    @contextmanager
    def opened(self, manager: QueueManager) -> Iterator[OpenQueueDescriptor]:
        """The queue, for the length of a step."""
        with opened(manager, self.queue, QueueAccessType.RECEIVE, self.context) as descriptor:
            yield descriptor

    def now(self, manager: QueueManager) -> list[Read] | int:
        """What is there; before there is room for much of it, its size."""
        with self.opened(manager) as descriptor:
            self.place = _place_of(descriptor)
            self.context.view.require_whole(self.place.name)
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
            try:
                reads += manager.messages.dequeue_messages(descriptor, 1, two_phase=self.two_phase)
            except QueueError:  # a damaged one; what was taken before it is answered
                if not reads:
                    raise
                break
        return reads

    def later(self, manager: QueueManager, token: Release) -> Read | None:
        """The next one that comes."""
        if self.descriptor is None:
            context = self.context
            self.descriptor = open_queue(manager, self.queue, QueueAccessType.RECEIVE, context)
        return manager.messages.dequeue_message(
            self.descriptor,
            timeout_ms=self.body.timeout_ms,
            tag=self._owner,
            two_phase=self.two_phase,
            token=token,
        )

    def why(self, manager: QueueManager) -> str:
        """Who has the messages that are there; empty: there are none."""
        return manager.queues.why_empty(find_queue(manager, self.queue))

    def cancel(self, manager: QueueManager) -> None:
        """The caller no longer waits."""
        if self.descriptor is not None:
            manager.messages.cancel_waiting_message_read_request(self.descriptor, self._owner)

    def close(self, manager: QueueManager) -> None:
        """It has ended, one way or the other."""
        if self.descriptor is not None:
            manager.queues.close_queue(self.descriptor)
            self.descriptor = None


def receive_message(context: Context, params: MessageParams, body: Nothing) -> Steps[MessageJson]:
    """Receives one message by its lookup id: it is deleted, and shown a last time."""
    wanted = ReceiveBody(lookup_id=params.lookup_id)
    queue = QueueParams(queue=params.queue)
    messages = (yield from receive_messages(context, queue, wanted)).messages
    if not messages:
        raise MessageNotFound(f"no message has the lookup id {params.lookup_id}")
    return messages[0]
