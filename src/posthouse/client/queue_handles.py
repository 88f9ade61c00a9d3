"""Shared code of the queue classes: name, open handles, and operations on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from posthouse.client import operations as ops
from posthouse.client.bodies import Body
from posthouse.client.core import SessionCore
from posthouse.client.message import Message
from posthouse.client.operations import MessageIds, Operation
from posthouse.client.packets import Draft, Options, options
from posthouse.client.requests import QueueHandle, SendRequest, TransactionHandle
from posthouse.client.send_options import SendOptions, without_delivery
from posthouse.model.durations import Seconds
from posthouse.model.enumerations import MessageSeekAction, QueueAccessType, QueueShareMode
from posthouse.model.errors import InvalidParameter

Seek = Literal["first", "previous", "current", "next", "last"]


class OpenQueue:
    """A queue by name, opened for each kind of access when that is first needed."""

    def __init__(self, core: SessionCore, name: str, exclusive: bool) -> None:
        self.core = core
        self.name = name
        self.exclusive = exclusive
        self._handles: dict[QueueAccessType, QueueHandle] = {}

    def handle(self, access: QueueAccessType) -> QueueHandle:
        """The handle for an access."""
        found = self._handles.get(access)
        if found is None:
            exclusive = self.exclusive and access is QueueAccessType.RECEIVE
            share = QueueShareMode.DENY_RECEIVE if exclusive else QueueShareMode.DENY_NONE
            found = self._handles[access] = QueueHandle(self.name, access, share)
        return found

    @property
    def sending(self) -> QueueHandle:
        """Opened for sending."""
        return self.handle(QueueAccessType.SEND)

    @property
    def receiving(self) -> QueueHandle:
        """Opened for receiving."""
        return self.handle(QueueAccessType.RECEIVE)

    @property
    def peeking(self) -> QueueHandle:
        """Opened for peeking; a queue that is the reader's alone is opened once."""
        return self.receiving if self.exclusive else self.handle(QueueAccessType.PEEK)

    def send(
        self,
        body: Body | Message,
        tx: TransactionHandle | None,
        transactional: bool,
        how: SendOptions,
    ) -> Operation[str]:
        """One message."""
        alone = tx is None and (transactional or _is_own_transaction(how))
        if isinstance(body, Message):
            draft = Draft(body, **without_delivery(how))
            content, wanted = draft.body, draft.options
        else:
            content, wanted = body, options(how)
        if alone:
            return self._send_alone(content, wanted)
        return ops.send(self.core, self.sending, content, wanted, tx)

    def single(
        self,
        body: Body | Message,
        tx: TransactionHandle | None,
        transactional: bool,
        how: SendOptions,
    ) -> SendRequest | None:
        """The request for one message; None: `send` sees to what it needs besides."""
        handle = self._handles.get(QueueAccessType.SEND)
        if handle is None or handle.maker is None:
            return None
        if tx is None and (transactional or ("delivery" in how and _is_own_transaction(how))):
            return None
        packet = handle.maker.packet_of(body, how, tx is not None)
        return SendRequest(handle, [packet], len(packet), tx)

    def send_many(
        self,
        bodies: Iterable[Body | Draft | Message],
        tx: TransactionHandle | None,
        transactional: bool,
        how: SendOptions,
    ) -> Operation[MessageIds]:
        """Many messages."""
        handle, wanted = self.sending, options(how)
        if tx is None and (transactional or _is_own_transaction(how)):
            return ops.send_as_transaction(self.core, handle, bodies, wanted)
        return ops.send_many(self.core, handle, bodies, wanted, tx)

    def _send_alone(self, body: Body, wanted: Options) -> Operation[str]:
        ids = yield from ops.send_as_transaction(self.core, self.sending, [body], wanted)
        return ids[0]

    def receive(
        self, count: int, timeout: Seconds | None, tx: TransactionHandle | None
    ) -> Operation[list[Message]]:
        """Messages to keep."""
        if count < 1:
            raise InvalidParameter("the number of messages must be at least 1")
        return ops.receive(self.core, self.receiving, count, timeout, tx)

    def lookup(
        self, lookup_id: int, seek: Seek, receive: bool, tx: TransactionHandle | None
    ) -> Operation[Message]:
        """One message by its lookup id."""
        handle = self.receiving if receive or tx is not None else self.peeking
        return ops.lookup(
            self.core, handle, lookup_id, MessageSeekAction(seek), take=receive, transaction=tx
        )

    def move(
        self, message: Message | int, to: OpenQueue, tx: TransactionHandle | None
    ) -> Operation[None]:
        """Moves a message to another queue of the family."""
        lookup_id = message.lookup_id if isinstance(message, Message) else message
        target = to.handle(QueueAccessType.MOVE)
        return ops.move(self.core, self.receiving, lookup_id, target, tx)

    def close(self) -> Operation[None]:
        """Closes everything."""
        handles, self._handles = self._handles, {}
        return ops.close_handles(self.core, handles.values())


def _is_own_transaction(how: SendOptions) -> bool:
    return how.get("delivery") == "transactional"


def extended(name: str, suffix: str) -> str:
    """The name of a subqueue or journal."""
    if ";" in name or not suffix or ";" in suffix:
        raise InvalidParameter(f"{name} has no part {suffix!r}")
    return f"{name};{suffix}"


def not_a_transaction(value: object) -> TypeError:
    """Return the error of a `tx` that has no handle."""
    return TypeError(f"tx takes a transaction, as qm.transaction() gives it, not {value!r}")
